// SPDX-License-Identifier: GPL-2.0-only
/* hydractl set: change the policy of a running process. */
#include "commands.h"
#include "targets.h"
#include "threads.h"

#define USUAL_WAIT 60
#define LOOK_AGAIN 0.05
#define AGAIN 1		/* the key of --again, which has no letter */

static double most_wait;		/* seconds; 0: not at all */
static bool vm, again;
static struct vm_settings more;

static const struct argp_option own_options[] = {
	{ "wait", 'w', "SECONDS", OPTION_ARG_OPTIONAL, "Wait until the process is split, at most SECONDS; 60, unless given. Of several processes, those with a single thread do not count", 0 },
	{ "vm", 'm', NULL, 0, "Change the virtual machines of process PID (as of QEMU), not the process. A policy names all settings but --expose and --limit-kib", 0 },
	{ "no-expose", 'H', NULL, 0, "With --vm: the guest may not ask", 0 },
	{ "limit-kib", 'L', "KIB", 0, "With --vm: the most memory for the nested page tables of each machine, in KiB, or max. The machine's limit (vm_table_limit_kib) and that of the memory cgroup hold, too", 0 },
	{ "again", AGAIN, NULL, 0, "With --vm: settings stay, and a machine that went back to one tree for lack of memory tries again", 0 },
	{ 0 }
};

/* Check options that go together only. */
static void check(const struct argp_state *state)
{
	const struct settings_choice *choice = &options.choice;

	more.tables = choice->settings.tables ? "follow" : choice->policy || choice->chosen[SETTING_DOMAINS] ? "stay" : NULL;
	if (choice->settings.expose && more.expose)
		argp_error(state, "give --expose or --no-expose, not both");
	if (choice->settings.expose)
		more.expose = "on";
	if (vm && named_count != 1)
		argp_error(state, "--vm needs one PID");
	if (vm && (most_wait > 0 || options.json || options.csv))
		argp_error(state, "--wait, --json and --csv are for processes, not for virtual machines");
	if ((choice->settings.tables || more.expose || more.limit || again) && !vm)
		argp_error(state, "--follow, --expose, --no-expose, --limit-kib and --again are for virtual machines: give --vm too");
	if (!more.tables && !settings_chosen(choice) && !more.expose && !more.limit && !again)
		argp_error(state, "nothing to set: give --policy, --domains, --replication, --prefetch or --filter (or --vm with one of them, for virtual machines)");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	uint64_t kib;

	switch (key) {
	case 'w':
		most_wait = arg ? parse_seconds(state, "time", arg) : USUAL_WAIT;
		return 0;
	case 'm':
		vm = true;
		return 0;
	case 'H':
		more.expose = "off";
		return 0;
	case 'L':
		if (strcmp(arg, "max") && !parse_u64(arg, &kib))
			argp_error(state, "limit '%s' is neither a number of KiB nor max", arg);
		more.limit = arg;
		return 0;
	case AGAIN:
		again = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		check(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { .argp = &settings_argp }, { .argp = &machine_argp }, { .argp = &form_argp }, { .argp = &targets_argp }, { 0 } };

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[PID...]",
	.doc = "Change the policy of running processes, also of those that they start meanwhile; or of virtual machines. Without --policy, the settings not named stay. Prints what that has done: a process gets page tables for each node (it is split) when its threads run on two nodes, and as soon as one of them, or the kernel's thread hydra_splitter, gets the lock of its memory. Until then it is plain Linux.\v"
	       "For example:\n"
	       "  hydractl set --policy hydra 1234\n"
	       "  hydractl set --policy hydra,prefetch=4 --unit postgresql\n"
	       "\n"
	       "Cost: when a node gets its own page tables or loses its page tables (for example by a change of --domains, or to --replication eager), the CPUs that run the process are interrupted; a loss also delays the page faults of the process. The start of Hydra for the first process of the system, and the end of the last process, interrupt every CPU of the machine, to patch the kernel's code.\n\n"
	       "Exit status: 0 done, also if the process is not split yet; 1 not split when the time of --wait was over; 2 an error: a single process is as before, of several each that has not changed is named; 3 the process has ended meanwhile.",
};

/* The process as it is now. Exit if it has ended. False if the kernel's text is not understood. */
static bool look(struct process *process, enum split *split)
{
	char *text = process_file(options.pid, "hydra");

	if (!text)
		error(EXIT_GONE, 0, "process %d has ended", options.pid);
	if (process_load(process, options.pid, text))
		return false;
	*split = split_of(process);
	return true;
}

/* Say what the settings have done. Returns the exit status. */
static int report(void)
{
	double begun = now();
	struct process process;
	enum split split;
	char *late;
	bool known;

	while ((!(known = look(&process, &split)) || split > SPLIT_LINUX) && now() < begun + most_wait) {
		if (known)
			process_free(&process);
		sleep_until(now() + LOOK_AGAIN);
	}
	if (!known) {
		error(0, 0, "process %d has the settings, but hydractl cannot make sense of what the kernel says of it now: is hydractl of the same version as the kernel?",
		      options.pid);
		return most_wait > 0 ? EXIT_NOT_SPLIT : 0;
	}
	late = split_sentence(&process, split);
	if (options.json) {
		json_open_process(process.pid, process.name);
		json_string("policy", process_text(&process, "policy"));
		json_string("split_state", split_words[split]);
		json_real("waited", most_wait > 0 ? now() - begun : 0);
		json_close();
	} else {
		print_process_name(process.pid);
		printf(": policy %s, %s\n", process_text(&process, "policy"),
		       split == SPLIT_DONE ? "split: its domains have page tables of their own" :
		       split == SPLIT_LINUX ? "one page table for all CPUs" : late);
	}
	return most_wait > 0 && split > SPLIT_LINUX ? EXIT_NOT_SPLIT : 0;
}

/* Without a tree per node, some settings mean nothing. The kernel would take them. */
static void require_trees(void)
{
	bool trees = false;
	struct vms vms;

	vms_read(&vms, options.pid, "hydra_vm");
	for (size_t i = 0; i < vms.count; i++)
		for (size_t j = 0; j < vms.vm[i].count; j++)
			trees |= !strcmp(vms.vm[i].line[j].key, "domains") && strcmp(vms.vm[i].line[j].rest, "machine");
	if (!trees)
		error(EXIT_ERROR, 0, "the virtual machines of process %d have one tree, as under policy linux, where --replication, --prefetch and --filter mean nothing: give --policy too",
		      options.pid);
}

static char *change_vms(void)
{
	const struct settings_choice *choice = &options.choice;

	if (!choice->policy && !choice->chosen[SETTING_DOMAINS] && settings_chosen(choice))
		require_trees();
	return vms_change(options.pid, choice, &more);
}

/* The settings for a process with these records. False: what is named means nothing under its policy. */
static bool settings_for(const struct records *records, struct hydra_settings *settings)
{
	*settings = settings_choose(&options.choice);
	if (options.choice.policy)
		return true;
	if (!settings_from_records(settings, records))
		process_unexpected(options.pid, "hydra", "settings");
	if (settings->domains == HYDRA_SCOPE_MACHINE)
		return false;
	settings_apply(settings, &options.choice);
	return true;
}

static char *change_process(void)
{
	struct hydra_settings settings = settings_choose(&options.choice);
	struct records records;

	if (options.choice.policy)
		return process_change(options.pid, &settings);
	if (!records_parse(&records, process_need(options.pid, "hydra", "read"), NULL))
		process_unexpected(options.pid, "hydra", strerror(errno));
	if (!settings_for(&records, &settings))
		error(EXIT_ERROR, 0, "process %d runs under policy linux, where --domains, --replication, --prefetch and --filter mean nothing: give --policy too",
		      options.pid);
	return process_change(options.pid, &settings);
}

/* Of several processes: those that have the settings now, and whether any of them was left out. */
static pid_t *given;
static size_t given_count;
static bool linux_stays;

static bool is_given(pid_t pid)
{
	for (size_t i = 0; i < given_count; i++)
		if (given[i] == pid)
			return true;
	return false;
}

static bool is_wanted(const struct process *process)
{
	bool stays = !options.choice.policy && !process_active(process);

	linux_stays |= stays;
	return !stays && !is_given(process->pid);
}

static char *change_one(pid_t pid)
{
	struct hydra_settings settings;
	struct records records;
	char *why = NULL, *text;

	options.pid = pid;
	text = process_file(pid, "hydra");
	if (!text || !records_parse(&records, text, NULL))
		return process_failure(pid, "read");
	if (settings_for(&records, &settings))
		why = process_change(pid, &settings);
	records_free(&records);
	if (why)
		return why;
	given = must_have(reallocarray(given, given_count + 1, sizeof(*given)));
	given[given_count++] = pid;
	return NULL;
}

/* How many --wait waits for: those with several threads, and not split. */
static size_t load_given(struct processes *processes, enum split *split)
{
	size_t waits = 0;

	processes_load(processes, given, given_count, NULL);
	for (size_t i = 0; i < processes->count; i++) {
		split[i] = split_of(&processes->process[i]);
		waits += split[i] > SPLIT_LINUX && split[i] != SPLIT_ONE_THREAD;
	}
	return waits + processes->not_understood;
}

static void json_several(const struct processes *processes, const enum split *split, double waited, size_t failed)
{
	json_open_object(NULL);
	json_string("group", options.group.kind == GROUP_NONE ? "process" : group_kind_name(&options.group));
	json_string("name", options.group.name);
	json_open_rows("processes");
	for (size_t i = 0; i < processes->count; i++) {
		json_open_process(processes->process[i].pid, processes->process[i].name);
		json_string("policy", process_text(&processes->process[i], "policy"));
		json_string("split_state", split_words[split[i]]);
		json_close();
	}
	json_close();
	json_real("waited", waited);
	json_number("failed", failed);
	json_close();
}

/* "3 processes have the settings: 2 split, 1 one-thread" */
static void print_several(const struct processes *processes, const enum split *split)
{
	printf("%zu process%s the settings", processes->count, processes->count == 1 ? " has" : "es have");
	for (size_t word = 0, more = 0; word <= SPLIT_AUTO; word++) {
		size_t count = 0;

		for (size_t i = 0; i < processes->count; i++)
			count += split[i] == word;
		if (count)
			printf("%s %zu %s", more++ ? "," : ":", count, split_words[word]);
	}
	printf("%s\n", linux_stays ? "; those under policy linux stay, as settings mean nothing there without --policy" : "");
}

/* Say what the settings of several processes have done. Returns the exit status. */
static int report_several(size_t failed)
{
	double begun = now();
	struct processes processes;
	autofree enum split *split = must_have(calloc(given_count + 1, sizeof(*split)));
	size_t waits;

	while ((waits = load_given(&processes, split)) && now() < begun + most_wait) {
		processes_free(&processes);
		sleep_until(now() + LOOK_AGAIN);
	}
	if (options.json)
		json_several(&processes, split, most_wait > 0 ? now() - begun : 0, failed);
	else
		print_several(&processes, split);
	if (failed)
		return EXIT_ERROR;
	return most_wait > 0 && waits ? EXIT_NOT_SPLIT : 0;
}

int command_set(int argc, char **argv)
{
	struct targets targets = { .wanted = is_wanted, .change = change_one };
	char *why;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	if (named_count != 1) {
		targets_change(&targets);
		return report_several(targets.failed);
	}
	options.pid = named[0];
	why = vm ? change_vms() : change_process();
	if (why)
		error(EXIT_ERROR, 0, "%s", why);
	return vm ? 0 : report();
}
