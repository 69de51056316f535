// SPDX-License-Identifier: GPL-2.0-only
/* hydractl off: processes become plain Linux. */
#include "commands.h"

#define PASSES 10	/* while processes under Hydra start others, which inherit the policy */

static pid_t *named;
static size_t named_count;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		named = must_have(reallocarray(named, named_count + 1, sizeof(*named)));
		named[named_count++] = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (named_count && options.group.kind != GROUP_NONE)
			argp_error(state, "give PIDs or --%s, not both", group_kind_name(&options.group));
		if (!named_count && options.group.kind == GROUP_NONE)
			argp_error(state, "no process named: give PIDs, --tree, --cgroup, --unit or --all");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ .argp = &group_all_argp, .header = "Instead of PIDs, several processes:" },
	{ 0 }
};

static const struct argp argp = {
	.parser = parse_option,
	.children = children,
	.args_doc = "[PID...]",
	.doc = "Set policy linux on processes, also on those that they start meanwhile. Their memory stays as it is; their page tables per node are freed. With --all, on every process of the system that the caller may change.\n"
	       "\n"
	       "The default for new programs stays, and programs that start later get it; if it is not linux, hydractl says so.\v"
	       "For example:\n"
	       "  hydractl off --all\n"
	       "  hydractl off --unit nginx\n"
	       "\n"
	       "Cost: as of 'hydractl set'.\n"
	       "\n"
	       "Exit status: 0 done; 2 an error: each process that is still under Hydra is named. With --all and the like, processes that the caller may not even read are only counted, on stderr.",
};

/* Returns why not (to be freed), or NULL. */
static char *switch_off(pid_t pid)
{
	return process_change(pid, &policy_find("linux")->settings);
}

static bool is_active(pid_t pid)
{
	struct processes one;

	processes_load(&one, &pid, 1, process_active);
	return one.count;
}

/* Processes by number. Returns how many are still under Hydra, or could not be read. */
static size_t switch_off_named(size_t *changed)
{
	size_t failed = 0;

	for (size_t i = 0; i < named_count; i++) {
		autofree char *text = process_file(named[i], "hydra"), *why = NULL;
		bool active = is_active(named[i]);

		if (!text)
			why = process_failure(named[i], "read");
		else if (active)
			why = switch_off(named[i]);
		*changed += active && !why;
		failed += !!why;
		if (why)
			error(0, 0, "%s", why);
	}
	return failed;
}

/* One look at the group. Returns how many processes have changed; @failed: count and name those that have not, or NULL. */
static size_t switch_off_once(size_t *failed)
{
	struct processes processes;
	size_t count, changed = 0;
	autofree pid_t *pids = group_pids(&options.group, &count);

	if (!pids)
		return 0;
	processes_load(&processes, pids, count, process_active);
	for (size_t i = 0; i < processes.count; i++) {
		pid_t pid = processes.process[i].pid;
		autofree char *why = switch_off(pid);

		changed += !why;
		/* A process that has ended instead is off, too. */
		if (why && failed && is_active(pid)) {
			error(0, 0, "%s", why);
			++*failed;
		}
	}
	if (failed)
		processes_say_left_out(&processes);
	processes_free(&processes);
	return changed;
}

static size_t switch_off_group(size_t *changed)
{
	size_t failed = 0, more = 1;

	group_find(&options.group);
	for (int pass = 0; pass < PASSES && more; pass++)
		*changed += more = switch_off_once(NULL);
	*changed += switch_off_once(&failed);
	return failed;
}

static void say_default(void)
{
	autofree char *initial = kernel_file("default");

	if (strcmp(initial, "linux"))
		printf("programs that start later get the default, which is '%s': 'systemctl stop hydra' brings the former default back, and 'echo linux >/sys/kernel/mm/hydra/default' ends any\n",
		       initial);
}

int command_off(int argc, char **argv)
{
	size_t changed = 0, failed;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	failed = named_count ? switch_off_named(&changed) : switch_off_group(&changed);
	if (changed)
		printf("%zu process%s under Hydra, and plain Linux now\n", changed,
		       changed == 1 ? " was" : "es were");
	else
		printf("no process %s\n", failed ? "has become plain Linux" : "was under Hydra");
	if (options.group.kind == GROUP_SYSTEM)
		say_default();
	return failed ? EXIT_ERROR : 0;
}
