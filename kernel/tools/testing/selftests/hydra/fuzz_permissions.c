// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who may do what to whom: users with and without privileges, to processes of all
 * kinds and such that are hardly there, to the machine, and to themselves.
 */
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

#define SOMEBODY	4711

static bool become_somebody(void)
{
	return become_user(SOMEBODY, SOMEBODY);
}

static bool become_nobody_in_another_group(void)
{
	return become_user(NOBODY, SOMEBODY);
}

static bool become_undumpable(void)
{
	return become_nobody() && !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static bool limit_capabilities(uint64_t permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .permitted = permitted, .effective = permitted },
		{ .permitted = permitted >> 32, .effective = permitted >> 32 },
	};

	return !syscall(SYS_capset, &header, data) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_nobody_with(int capability)
{
	return !prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && become_nobody() &&
	       limit_capabilities(1UL << capability);
}

static bool become_capable(void)
{
	return become_nobody_with(CAP_NET_RAW);
}

static bool become_tracer(void)
{
	return become_nobody_with(CAP_SYS_PTRACE);
}

static bool become_powerless(void)
{
	return limit_capabilities(0);
}

static bool become_half_root(void)
{
	return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, 0) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_namespaced(void)
{
	if (!become_nobody() || unshare(CLONE_NEWUSER) ||
	    hydra_write_file("/proc/self/setgroups", "deny") ||
	    hydra_write_file("/proc/self/uid_map", "0 65534 1") ||
	    hydra_write_file("/proc/self/gid_map", "0 65534 1"))
		return false;
	return !getuid() && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Who asks */
enum { ROOT, POWERLESS, TRACER, NOBODY_ITSELF, SOMEBODY_ELSE, OTHER_GROUP, NAMESPACED, CALLERS };

static const struct {
	const char *name;
	bool (*become)(void);
	int user;
	bool may_change_machine;
} callers[CALLERS] = {
	[ROOT]		= { "root", NULL, 0, true },
	/* the files belong to it */
	[POWERLESS]	= { "root without capabilities", become_powerless, 0, true },
	[TRACER]	= { "nobody with CAP_SYS_PTRACE", become_tracer, NOBODY },
	[NOBODY_ITSELF]	= { "nobody", become_nobody, NOBODY },
	[SOMEBODY_ELSE]	= { "somebody", become_somebody, SOMEBODY },
	[OTHER_GROUP]	= { "nobody in another group", become_nobody_in_another_group, NOBODY },
	[NAMESPACED]	= { "root of a user namespace", become_namespaced, NOBODY },
};

/*
 * Who is asked, and who may: those that may attach with ptrace. That is the same
 * user and group, unless the process cannot be dumped or has more capabilities,
 * or is in another user namespace; the owner of that namespace; and who has
 * CAP_SYS_PTRACE. Some files only their owner may open: the user that the process
 * is, but root if it cannot be dumped.
 */
static const struct {
	const char *name;
	bool (*become)(void);
	int owner;
	unsigned int may;
} targets[] = {
#define BY(caller)	(1U << (caller))
	{ "a process of root", NULL, 0, BY(ROOT) | BY(TRACER) },
	{ "a process of nobody", become_nobody, NOBODY,
	  BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) },
	{ "one that cannot be dumped", become_undumpable, 0, BY(ROOT) | BY(TRACER) },
	{ "a process of somebody", become_somebody, SOMEBODY,
	  BY(ROOT) | BY(TRACER) | BY(SOMEBODY_ELSE) },
	{ "one with a capability", become_capable, NOBODY, BY(ROOT) | BY(TRACER) },
	{ "one that was root", become_half_root, NOBODY, BY(ROOT) | BY(TRACER) },
	{ "one in a user namespace", become_namespaced, NOBODY,
	  BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) | BY(OTHER_GROUP) },
};

/* Ways of fuzz_permissions */
enum { TO_PROCESSES, FROM_PROCESSES, TO_MACHINE, TO_THEMSELVES };

static void ask_process(struct way *way, const struct caller *caller, int who, int target,
			struct subject *subject)
{
	static const char * const names[] = { "hydra", "hydra_tables", "hydra_check" };
	bool may = targets[target].may & BY(who), reads = one_in(4);
	struct command c = { .action = reads ? READ_FILE : WRITE_FILE };
	int file = reads ? below(ARRAY_SIZE(names)) : 0;
	bool opens = !file || who == ROOT || callers[who].user == targets[target].owner;

	sprintf(c.path, "/proc/%d/%s", subject->pid, names[file]);
	command_text(&c, &way[TO_PROCESSES]);
	judge(&way[reads ? FROM_PROCESSES : TO_PROCESSES],
	      !opens ? MAY(ACCES) : !may ? MAY(PERM) : reads ? MAY(TAKEN) :
	      c.len >= TEXT_MAX ? MAY(INVAL) : understand(c.text, c.len, &subject->settings),
	      tell(caller, &c), "%s %s %s of %s: \"%s", callers[who].name,
	      reads ? "reads" : "writes", c.path, targets[target].name, quote(c.text, c.len));
}

static void ask_machine(struct way *way, const struct caller *caller, int who)
{
	struct command c = { .action = WRITE_FILE };
	bool limit = one_in(2);
	unsigned int may;

	sprintf(c.path, HYDRA_SYSFS "%s", limit ? "replica_limit_kib" : "default");
	if (limit)
		c.len = sprintf(c.text, "%lu", next_random() >> 20);
	else
		command_text(&c, &way[TO_MACHINE]);
	if (!callers[who].may_change_machine)
		may = MAY(ACCES);
	else if (limit)
		may = understand_limit(c.text, c.len, &machine.limit);
	else
		may = c.len ? understand(c.text, c.len, &machine.settings) : NOTHING_TO_SYSFS;
	judge(&way[TO_MACHINE], may, tell(caller, &c), "%s writes %s: \"%s", callers[who].name,
	      c.path, quote(c.text, c.len));
}

static void ask_itself(struct way *way, const struct caller *caller, int who)
{
	struct command c = { .action = SET };
	struct hydra_settings *settings = &caller->subject->settings;
	unsigned int may;

	if (one_in(2)) {
		c.action = WRITE_FILE;
		strcpy(c.path, "/proc/self/hydra");
		command_text(&c, &way[TO_THEMSELVES]);
		may = c.len >= TEXT_MAX ? MAY(INVAL) : understand(c.text, c.len, settings);
		judge(&way[TO_THEMSELVES], may, tell(caller, &c), "%s writes %s: \"%s",
		      callers[who].name, c.path, quote(c.text, c.len));
		return;
	}
	any_settings(&c.settings);
	may = understand_settings(c.settings);
	if (judge(&way[TO_THEMSELVES], may, tell(caller, &c), "%s sets %s", callers[who].name,
		  show(c.settings)) == TAKEN)
		*settings = c.settings;
}

void fuzz_permissions(void)
{
	struct way way[] = {
		[TO_PROCESSES] = { "writing to processes",
				   MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(PERM) },
		[FROM_PROCESSES] = { "reading from processes",
				     MAY(TAKEN) | MAY(PERM) | MAY(ACCES) },
		[TO_MACHINE] = { "writing to " HYDRA_SYSFS,
				 MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(ACCES) },
		[TO_THEMSELVES] = { "all callers to themselves",
				    MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) },
	};
	struct subject *subject[ARRAY_SIZE(targets)];
	struct caller caller[CALLERS];
	bool namespaces = true;

	for (int who = 0; who < CALLERS; who++) {
		caller[who] = spawn_caller(callers[who].name, callers[who].become);
		if (!caller[who].pid && who == NAMESPACED)
			namespaces = false;
		else if (!caller[who].pid)
			ksft_exit_fail_msg("no process can become %s\n", callers[who].name);
	}
	if (!namespaces)
		fprintf(stderr, "# no user namespaces (CONFIG_USER_NS): tried without\n");
	for (int i = 0; i < ARRAY_SIZE(targets) - !namespaces; i++)
		subject[i] = add_subject(targets[i].name, spawn(targets[i].become));

	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		const int nr_callers = CALLERS - !namespaces;
		const int nr_targets = ARRAY_SIZE(targets) - !namespaces;
		/* everybody to everybody first */
		bool sweep = operation < nr_callers * nr_targets;
		int who = sweep ? operation % nr_callers : below(nr_callers);
		int target = sweep ? operation / nr_callers : below(nr_targets);

		switch (sweep ? -1 : (int)below(8)) {
		case 0:
			ask_machine(way, &caller[who], who);
			break;
		case 1:
			ask_machine(way, &caller[ROOT], ROOT);
			break;
		case 2:
			ask_itself(way, &caller[who], who);
			break;
		default:
			ask_process(way, &caller[who], who, target, subject[target]);
		}
		check_everything();
	}
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}

/* Processes that are hardly there */

void fuzz_strange_targets(void)
{
	struct way way[] = {
		{ "a kernel thread", MAY(SRCH) },
		{ "the first process", MAY(TAKEN) | MAY(PERM) },
		{ "a zombie", MAY(SRCH) },
		{ "a process that was", MAY(NOENT) },
		{ "a file of a process that was", MAY(SRCH) },
	};
	struct subject *init = add_subject("the first process", 1);
	struct hydra_settings init_settings = init->settings;
	struct caller root = spawn_caller("root", NULL);
	struct caller nobody = spawn_caller("nobody", become_nobody);
	const struct caller *caller[] = { &root, &nobody };
	struct command restore = { .action = WRITE_FILE, .path = "/proc/1/hydra" };

	for (operation = 0; operation < option.operations / 16 && !mistakes; operation++) {
		struct command c;
		siginfo_t info;
		pid_t child;

		c.len = valid_text(c.text);
		for (int who = 0; who < 2; who++) {
			c.action = one_in(2) ? WRITE_FILE : READ_FILE;
			strcpy(c.path, "/proc/2/hydra");
			judge(&way[0], MAY(SRCH) | (who ? MAY(PERM) : 0), tell(caller[who], &c),
			      "%s, who %d, action %d", c.path, who, c.action);
			strcpy(c.path, "/proc/1/hydra");
			judge(&way[1], who ? MAY(PERM) : c.action == READ_FILE ? MAY(TAKEN) :
			      understand(c.text, c.len, &init->settings), tell(caller[who], &c),
			      "%s, who %d, action %d, \"%s", c.path, who, c.action,
			      quote(c.text, c.len));
		}

		child = spawn(NULL);
		sprintf(c.path, "/proc/%d/hydra", child);
		c.action = HOLD;
		if (tell(&root, &c))
			mistake("%s cannot be opened", c.path);
		kill(child, SIGKILL);
		waitid(P_PID, child, &info, WEXITED | WNOWAIT);
		for (int who = 0; who < 2; who++) {
			c.action = one_in(2) ? WRITE_FILE : READ_FILE;
			judge(&way[2], MAY(SRCH), tell(caller[who], &c), "who %d, action %d", who,
			      c.action);
		}
		c.action = one_in(2) ? WRITE_HELD : READ_HELD;
		judge(&way[4], MAY(SRCH), tell(&root, &c), "not waited for, action %d", c.action);
		hydra_wait_child(child);
		c.action = one_in(2) ? WRITE_HELD : READ_HELD;
		judge(&way[4], MAY(SRCH), tell(&root, &c), "waited for, action %d", c.action);
		c.action = one_in(2) ? WRITE_FILE : READ_FILE;
		judge(&way[3], MAY(NOENT), tell(&root, &c), "action %d", c.action);
		check_everything();
	}
	restore.len = sprintf(restore.text, "domains=%s,replication=%s,prefetch=%u,filter=%s",
			      values[DOMAINS][init_settings.domains],
			      values[REPLICATION][init_settings.replication],
			      init_settings.prefetch, values[FILTER][init_settings.filter]);
	if (tell(&root, &restore) < 0)
		mistake("the settings of the first process cannot be put back");
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}
