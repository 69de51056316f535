// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

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

bool watch_look(struct watch *watch)
{
	double moment = now();
	size_t count;
	autofree pid_t *pids = group_pids(&options.group, &count);

	if (!pids)
		return false;
	processes_free(&watch->before);
	watch->before = watch->after;
	processes_load(&watch->after, pids, count, NULL);
	watch->seconds = watch->moment ? moment - watch->moment : 0;
	watch->moment = moment;
	watch_compare(watch);
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
