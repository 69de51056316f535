// SPDX-License-Identifier: GPL-2.0-only
#include "targets.h"

#include "kernel.h"
#include "options.h"

#define PASSES 10	/* while processes start others, which inherit the settings */

pid_t *named;
size_t named_count;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		named = must_have(reallocarray(named, named_count + 1, sizeof(*named)));
		named[named_count++] = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_SUCCESS:
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

const struct argp targets_argp = { .parser = parse_option, .children = children };

static bool is_wanted(const struct targets *targets, pid_t pid)
{
	struct processes one;
	bool wanted;

	processes_load(&one, &pid, 1, targets->wanted);
	wanted = one.count;
	processes_free(&one);
	return wanted;
}

/* Change one process, if it is wanted. Returns why not, to be freed, or NULL. */
static char *change_one(struct targets *targets, pid_t pid)
{
	autofree char *text = process_file(pid, "hydra");
	char *why = text ? NULL : process_failure(pid, "read");
	struct processes one = { 0 };

	if (!why)
		processes_load(&one, &pid, 1, targets->wanted);
	if (one.not_understood)
		why = xasprintf("cannot make sense of what the kernel says of process %d: is hydractl of the same version as the kernel?", pid);
	if (one.count)
		why = targets->change(pid);
	targets->changed += one.count && !why;
	processes_free(&one);
	return why;
}

static void change_named(struct targets *targets)
{
	for (size_t i = 0; i < named_count; i++) {
		autofree char *why = change_one(targets, named[i]);

		targets->failed += !!why;
		if (why)
			error(0, 0, "%s", why);
	}
}

/* One look at the group. Returns how many processes have changed. The last look counts and names those that have not. */
static size_t change_once(struct targets *targets, bool last)
{
	struct processes processes;
	size_t count, changed = 0;
	autofree pid_t *pids = group_pids(&options.group, &count);

	if (!pids)
		return 0;
	processes_load(&processes, pids, count, targets->wanted);
	for (size_t i = 0; i < processes.count; i++) {
		pid_t pid = processes.process[i].pid;
		autofree char *why = targets->change(pid);

		changed += !why;
		/* One that has ended instead needs no change. */
		if (why && last && is_wanted(targets, pid)) {
			error(0, 0, "%s", why);
			targets->failed++;
		}
	}
	if (last)
		processes_say_left_out(&processes);
	processes_free(&processes);
	return changed;
}

void targets_change(struct targets *targets)
{
	size_t more = 1;

	if (named_count) {
		change_named(targets);
		return;
	}
	group_find(&options.group);
	for (int pass = 0; pass < PASSES && more; pass++)
		targets->changed += more = change_once(targets, false);
	targets->changed += change_once(targets, true);
}
