// SPDX-License-Identifier: GPL-2.0-only
/* hydractl top: what Hydra does per second, on a terminal or as text for other programs. */
#include "commands.h"
#include "watch.h"

#define USUAL_DELAY 2

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	argp_error(state, "unexpected argument '%s': choose processes with --tree, --cgroup or --unit", arg);
	return 0;
}

static const struct argp_child children[] = {
	{ .argp = &watch_argp },
	{ .argp = &repeat_argp },
	{ .argp = &group_argp, .header = "Only some processes, instead of all:" },
	{ 0 }
};

static const struct argp argp = {
	.parser = parse_option,
	.children = children,
	.doc = "Show every 2 seconds which processes send how many interrupts for TLB shootdowns, and how many Hydra saves.\n"
	       "\n"
	       "SENT/S and SPARED/S: interrupts sent and saved per second, one for each CPU. FILLS/S: page faults that copied entries for a node. FLUSH/S: TLB flushes. REP-KIB: memory of the replica tables now. AUTO and WHY: what the kernel has decided under policy auto, and why ('hydractl why' tells it in a sentence). Above the table, the same for all, and fills and memory of each node.\n"
	       "\n"
	       "Keys: Up and Down choose a process; Enter inspects it; p switches its policy; < and > sort by another column; a shows all processes or those under Hydra; ? lists all keys; q ends. Reading counters costs the processes nothing.\v"
	       "For example:\n"
	       "  hydractl top --unit nginx\n"
	       "  hydractl top --json --delay 10 --count 6 >minute.jsonl\n"
	       "\n"
	       "Exit status: 0 done; 2 an error; 3 the process, cgroup or unit has gone.",
};

/* As long as the group is there, or for as many looks as were asked for. */
static void print_looks(void)
{
	double moment = now();

	for (uint64_t done = 0; !options.count || done < options.count; done++) {
		moment += options.delay;
		sleep_until(moment);
		if (!watch_look(&watched)) {
			fflush(stdout);
			group_gone(&options.group);
		}
		watch_print(&watched);
		if (!done)
			processes_say_left_out(&watched.after);
		if (fflush(stdout))
			return;
	}
}

int command_top(int argc, char **argv)
{
	options.delay = USUAL_DELAY;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	watch_choose_form();
	group_find(&options.group);
	if (!watch_look(&watched))
		group_gone(&options.group);
	if (watch_batch)
		print_looks();
	else
		screen_run(&watched);
	return 0;
}
