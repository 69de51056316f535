// SPDX-License-Identifier: GPL-2.0-only
/* hydractl off: processes become plain Linux. */
#include <argp.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "change.h"
#include "commands.h"
#include "group.h"
#include "kernel.h"
#include "options.h"
#include "process.h"
#include "settings.h"
#include "text.h"

#define PASSES 10	/* while processes under Hydra start others, which inherit the policy */

struct options {
	struct group group;
	pid_t *pid;
	size_t pids;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->group;
		return 0;
	case ARGP_KEY_ARG:
		options->pid = must_have(reallocarray(options->pid, options->pids + 1, sizeof(*options->pid)));
		options->pid[options->pids++] = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (options->pids && options->group.kind != GROUP_NONE)
			argp_error(state, "give PIDs or --%s, not both", group_kind_name(&options->group));
		if (!options->pids && options->group.kind == GROUP_NONE)
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
	bool active;

	processes_load(&one, &pid, 1, true);
	active = one.count;
	processes_free(&one);
	return active;
}

/* Processes by number. Returns how many are still under Hydra, or could not be read. */
static size_t switch_off_named(const pid_t *pid, size_t pids, size_t *changed)
{
	size_t failed = 0;

	for (size_t i = 0; i < pids; i++) {
		char *text = process_file(pid[i], "hydra"), *why = NULL;
		bool active = is_active(pid[i]);

		if (!text)
			why = process_failure(pid[i], "read");
		else if (active)
			why = switch_off(pid[i]);
		*changed += active && !why;
		failed += !!why;
		if (why)
			error(0, 0, "%s", why);
		free(why);
		free(text);
	}
	return failed;
}

/* One look at the group. True if a process has changed; @report: name those that have not. */
static bool switch_off_once(const struct group *group, bool report, size_t *changed, size_t *failed)
{
	struct processes processes;
	size_t count, before = *changed;
	pid_t *pids = group_pids(group, &count);

	if (!pids)
		return false;
	processes_load(&processes, pids, count, true);
	for (size_t i = 0; i < processes.count; i++) {
		pid_t pid = processes.process[i].pid;
		char *why = switch_off(pid);

		*changed += !why;
		/* A process that has ended instead is off, too. */
		if (why && report && is_active(pid)) {
			error(0, 0, "%s", why);
			++*failed;
		}
		free(why);
	}
	if (report)
		processes_say_left_out(&processes);
	processes_free(&processes);
	free(pids);
	return *changed != before;
}

static size_t switch_off_group(struct group *group, size_t *changed)
{
	size_t failed = 0;

	group_find(group);
	for (int pass = 0; pass < PASSES; pass++)
		if (!switch_off_once(group, false, changed, &failed))
			break;
	switch_off_once(group, true, changed, &failed);
	free(group->path);
	return failed;
}

static void say_default(void)
{
	char *initial = kernel_file("default");

	if (strcmp(initial, "linux"))
		printf("programs that start later get the default, which is '%s': 'systemctl stop hydra' brings the former default back, and 'echo linux >/sys/kernel/mm/hydra/default' ends any\n",
		       initial);
	free(initial);
}

int command_off(int argc, char **argv)
{
	struct options options = { 0 };
	size_t changed = 0, failed;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	kernel_require();
	if (options.pids)
		failed = switch_off_named(options.pid, options.pids, &changed);
	else
		failed = switch_off_group(&options.group, &changed);
	if (changed)
		printf("%zu process%s under Hydra, and plain Linux now\n", changed,
		       changed == 1 ? " was" : "es were");
	else
		printf("no process %s\n", failed ? "has become plain Linux" : "was under Hydra");
	if (options.group.kind == GROUP_SYSTEM)
		say_default();
	free(options.pid);
	return failed ? EXIT_ERROR : 0;
}
