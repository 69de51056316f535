// SPDX-License-Identifier: GPL-2.0-only
/* hydractl top: what Hydra does per second, on a terminal or as text for other programs. */
#include <time.h>

#include "commands.h"
#include "watch.h"

#define USUAL_DELAY 2

static struct watch watch;
static bool batch;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'b':
		batch = true;
		return 0;
	case 's':	/* former */
	case 'S':
		for (watch.order = 0; watch.order < ORDERS; watch.order++)
			if (!strcmp(order_names[watch.order], arg))
				return 0;
		argp_error(state, "unknown order '%s': choose sent, spared, fills, flushes, memory, pid or name", arg);
		return 0;
	case 'A':	/* former */
	case 'l':
		watch.all = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': choose processes with --tree, --cgroup or --unit", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option top_options[] = {
	{ "batch", 'b', NULL, 0, "Print one table after the other, without the terminal's help", 0 },
	{ "sort", 'S', "ORDER", 0, "What comes first: sent (the default), spared, fills, flushes, memory, pid or name", 0 },
	{ NULL, 's', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 },
	{ "plain", 'l', NULL, 0, "Show also processes that are not under Hydra, and those under policy auto that no look has found on two nodes", 0 },
	{ "all", 'A', NULL, OPTION_HIDDEN, NULL, 0 },
	{ 0 }
};

static const struct argp_child children[] = {
	{ .argp = &form_argp },
	{ .argp = &repeat_argp },
	{ .argp = &group_argp, .header = "Only some processes, instead of all:" },
	{ 0 }
};

static const struct argp argp = {
	.options = top_options,
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

static void json_rates(const struct counters *counters)
{
	json_real("sent_per_second", counters->rate[INTERRUPTED]);
	json_real("spared_per_second", counters->rate[SPARED]);
	json_real("fills_per_second", counters->rate[FILLS]);
	json_real("flushes_per_second", counters->rate[FLUSHES]);
	json_number("replica_kib", counters->number[REPLICA_KIB]);
	json_open_list("per_node");
	for (size_t i = 0; i < counters->node_count; i++) {
		json_open_object(NULL);
		json_number("node", counters->node[i].node);
		json_real("fills_per_second", counters->node[i].fill_rate);
		json_number("replica_kib", counters->node[i].number[NODE_REPLICA_KIB]);
		json_close();
	}
	json_close();
}

static void json_look(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	json_open_object(NULL);
	json_real("time", time.tv_sec + time.tv_nsec / 1e9);
	json_real("seconds", watch.seconds);
	json_string("group", group_kind_name(&options.group));
	json_string("name", options.group.name);
	json_rates(&watch.total);
	json_open_rows("processes");
	for (size_t i = 0; i < watch.count; i++) {
		const struct row *row = &watch.row[i];

		json_open_process(row->process->pid, row->process->name);
		json_string("policy", process_text(row->process, "policy"));
		json_string("auto", process_text(row->process, "auto"));
		json_string("why", process_text(row->process, "why"));
		json_number("active", row->counters.active);
		json_number("split", row->counters.split);
		json_rates(&row->counters);
		json_close();
	}
	json_close();
	json_number("unreadable", watch.after.unreadable);
	json_number("not_understood", watch.after.not_understood);
	json_close();
}

static void print_look(void)
{
	char sent[RATE_SIZE], spared[RATE_SIZE], fills[RATE_SIZE], clock[32];
	struct table table = watch_table(stdout, SIZE_MAX);
	const struct counters *total = &watch.total;
	time_t seconds = time(NULL);

	strftime(clock, sizeof(clock), "%F %T", localtime(&seconds));
	printf("%s  %zu process%s, %.1f s: %s sent/s, %s spared/s, %s fills/s, %" PRIu64 " KiB of replicas\n",
	       clock, watch.count, plural_es(watch.count), watch.seconds,
	       rate_text(sent, total->rate[INTERRUPTED]), rate_text(spared, total->rate[SPARED]),
	       rate_text(fills, total->rate[FILLS]), total->number[REPLICA_KIB]);
	for (size_t i = 0; i < total->node_count; i++)
		printf("node %" PRIu64 ": %s fills/s, %" PRIu64 " KiB\n", total->node[i].node,
		       rate_text(fills, total->node[i].fill_rate), total->node[i].number[NODE_REPLICA_KIB]);
	watch_head(&table, watch.order);
	for (size_t i = 0; i < watch.count; i++)
		watch_row(&table, &watch.row[i]);
	putchar('\n');
}

/* As long as the group is there, or for as many looks as were asked for. */
static void print_looks(void)
{
	double moment = now();

	for (uint64_t done = 0; !options.count || done < options.count; done++) {
		moment += options.delay;
		sleep_until(moment);
		if (!watch_look(&watch)) {
			fflush(stdout);
			group_gone(&options.group);
		}
		if (options.json)
			json_look();
		else
			print_look();
		if (!done)
			processes_say_left_out(&watch.after);
		if (fflush(stdout))
			return;
	}
}

int command_top(int argc, char **argv)
{
	options.delay = USUAL_DELAY;
	watch.order = ORDER_SENT;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	batch |= options.json;
	if (!batch && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		error(EXIT_ERROR, 0, "no terminal to draw on: use --batch or --json");
	group_find(&options.group);
	if (!watch_look(&watch))
		group_gone(&options.group);
	if (batch)
		print_looks();
	else
		screen_run(&watch);
	return 0;
}
