// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

#include <time.h>
#include <unistd.h>

#include "json.h"
#include "kernel.h"
#include "options.h"

const char *const order_names[ORDERS] = {
	[ORDER_SENT] = "sent", [ORDER_SPARED] = "spared", [ORDER_FILLS] = "fills",
	[ORDER_FLUSHES] = "flushes", [ORDER_MEMORY] = "memory", [ORDER_PID] = "pid", [ORDER_NAME] = "name",
};

static const struct column columns[] = {
	{ .head = "PID", 7, 0 }, { .head = "POLICY", -14, 5 }, { .head = "SENT/S", 8, 1 },
	{ .head = "SPARED/S", 9, 2 }, { .head = "FILLS/S", 8, 6 }, { .head = "FLUSH/S", 8, 7 },
	{ .head = "REP-KIB", 8, 4 }, { .head = "AUTO", -8, 8 }, { .head = "WHY", -8, 9 }, { .head = "COMMAND", -8, 3 },
};

/* The order by a column; -1: none. */
static const int order_of_column[] = {
	ORDER_PID, -1, ORDER_SENT, ORDER_SPARED, ORDER_FILLS, ORDER_FLUSHES, ORDER_MEMORY, -1, -1, ORDER_NAME,
};

static double sort_key(const struct row *row, enum order order)
{
	switch (order) {
	case ORDER_SENT:
		return row->counters.rate[INTERRUPTED];
	case ORDER_SPARED:
		return row->counters.rate[SPARED];
	case ORDER_FILLS:
		return row->counters.rate[FILLS];
	case ORDER_FLUSHES:
		return row->counters.rate[FLUSHES];
	case ORDER_MEMORY:
		return row->counters.number[REPLICA_KIB];
	default:
		return 0;
	}
}

/* The highest first, names in the order of the alphabet; then by PID. */
static int compare_rows(const void *a, const void *b, void *data)
{
	const struct row *first = a, *second = b;
	enum order order = *(enum order *)data;
	double one = sort_key(first, order), other = sort_key(second, order);
	int names = order == ORDER_NAME ? strcmp(first->process->name, second->process->name) : 0;

	if (one != other)
		return one > other ? -1 : 1;
	return names ?: first->process->pid - second->process->pid;
}

void watch_compare(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		counters_free(&watch->row[i].counters);
	free(watch->row);
	counters_free(&watch->total);
	watch->count = 0;
	watch->row = must_have(calloc(watch->after.count + 1, sizeof(*watch->row)));
	for (size_t i = 0; i < watch->after.count; i++) {
		const struct process *process = &watch->after.process[i];
		struct row *row = &watch->row[watch->count];

		if (!watch->all && !process_under_hydra(process))
			continue;
		row->process = process;
		row->counters = counters_of(process, processes_find(&watch->before, process->pid),
					    watch->seconds);
		counters_add(&watch->total, &row->counters);
		watch->count++;
	}
	qsort_r(watch->row, watch->count, sizeof(*watch->row), compare_rows, &watch->order);
}

void watch_take(struct watch *watch, const struct processes *processes, double time, double moment)
{
	processes_free(&watch->before);
	watch->before = watch->after;
	watch->after = *processes;
	watch->seconds = watch->moment ? moment - watch->moment : 0;
	watch->moment = moment;
	watch->time = time;
	watch_compare(watch);
}

bool watch_look(struct watch *watch)
{
	double moment = now();
	struct timespec time;
	struct processes processes;
	size_t count;
	autofree pid_t *pids = group_pids(&options.group, &count);

	if (!pids)
		return false;
	clock_gettime(CLOCK_REALTIME, &time);
	processes_load(&processes, pids, count, NULL);
	watch_take(watch, &processes, time.tv_sec + time.tv_nsec / 1e9, moment);
	return true;
}

struct table watch_table(FILE *out, size_t wide)
{
	return TABLE(out, columns, wide);
}

void watch_head(struct table *table, enum order order)
{
	for (size_t i = 0; i < table->columns; i++)
		table_cell(table, "%s%s", order_of_column[i] == (int)order ? "*" : "", columns[i].head);
}

static void rate_cell(struct table *table, double rate)
{
	char text[RATE_SIZE];

	table_cell(table, "%s", rate_text(text, rate));
}

void watch_row(struct table *table, const struct row *row)
{
	autofree char *name = printable(row->process->name);

	table_cell(table, "%d", row->process->pid);
	table_cell(table, "%s", process_text(row->process, "policy"));
	rate_cell(table, row->counters.rate[INTERRUPTED]);
	rate_cell(table, row->counters.rate[SPARED]);
	rate_cell(table, row->counters.rate[FILLS]);
	rate_cell(table, row->counters.rate[FLUSHES]);
	table_cell(table, "%" PRIu64, row->counters.number[REPLICA_KIB]);
	table_cell(table, "%s", process_text(row->process, "auto") ?: "-");
	table_cell(table, "%s", process_text(row->process, "why") ?: "-");
	table_cell(table, "%s", name);
}

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

static void json_look(const struct watch *watch)
{
	json_open_object(NULL);
	json_real("time", watch->time);
	json_real("seconds", watch->seconds);
	json_string("group", group_kind_name(&options.group));
	json_string("name", options.group.name);
	json_rates(&watch->total);
	json_open_rows("processes");
	for (size_t i = 0; i < watch->count; i++) {
		const struct row *row = &watch->row[i];

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
	json_number("unreadable", watch->after.unreadable);
	json_number("not_understood", watch->after.not_understood);
	json_close();
}

static void print_look(const struct watch *watch)
{
	char sent[RATE_SIZE], spared[RATE_SIZE], fills[RATE_SIZE], clock[32];
	struct table table = watch_table(stdout, SIZE_MAX);
	const struct counters *total = &watch->total;
	time_t seconds = watch->time;

	strftime(clock, sizeof(clock), "%F %T", localtime(&seconds));
	printf("%s  %zu process%s, %.1f s: %s sent/s, %s spared/s, %s fills/s, %" PRIu64 " KiB of replicas\n",
	       clock, watch->count, plural_es(watch->count), watch->seconds,
	       rate_text(sent, total->rate[INTERRUPTED]), rate_text(spared, total->rate[SPARED]),
	       rate_text(fills, total->rate[FILLS]), total->number[REPLICA_KIB]);
	for (size_t i = 0; i < total->node_count; i++)
		printf("node %" PRIu64 ": %s fills/s, %" PRIu64 " KiB\n", total->node[i].node,
		       rate_text(fills, total->node[i].fill_rate), total->node[i].number[NODE_REPLICA_KIB]);
	watch_head(&table, watch->order);
	for (size_t i = 0; i < watch->count; i++)
		watch_row(&table, &watch->row[i]);
	putchar('\n');
}

void watch_print(const struct watch *watch)
{
	if (options.json)
		json_look(watch);
	else
		print_look(watch);
}

struct watch watched = { .order = ORDER_SENT };
bool watch_batch;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'b':
		watch_batch = true;
		return 0;
	case 's':	/* former */
	case 'S':
		for (watched.order = 0; watched.order < ORDERS; watched.order++)
			if (!strcmp(order_names[watched.order], arg))
				return 0;
		argp_error(state, "unknown order '%s': choose sent, spared, fills, flushes, memory, pid or name", arg);
		return 0;
	case 'A':	/* former */
	case 'l':
		watched.all = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option watch_options[] = {
	{ "batch", 'b', NULL, 0, "Print one table after the other, without the terminal's help", 0 },
	{ "sort", 'S', "ORDER", 0, "What comes first: sent (the default), spared, fills, flushes, memory, pid or name", 0 },
	{ NULL, 's', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 },
	{ "plain", 'l', NULL, 0, "Show also processes that are not under Hydra, and those under policy auto that no look has found on two nodes", 0 },
	{ "all", 'A', NULL, OPTION_HIDDEN, NULL, 0 },
	{ 0 }
};

static const struct argp_child watch_children[] = { { .argp = &form_argp }, { 0 } };
const struct argp watch_argp = { .options = watch_options, .parser = parse_option, .children = watch_children };

void watch_choose_form(void)
{
	watch_batch |= options.json;
	if (!watch_batch && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		error(EXIT_ERROR, 0, "no terminal to draw on: use --batch, --json or --csv");
}
