// SPDX-License-Identifier: GPL-2.0-only
#include "rates.h"

#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "sums.h"

const char *const order_names[ORDERS] = {
	[ORDER_SENT] = "sent", [ORDER_SPARED] = "spared", [ORDER_FILLS] = "fills",
	[ORDER_FLUSHES] = "flushes", [ORDER_MEMORY] = "memory", [ORDER_PID] = "pid", [ORDER_NAME] = "name",
};

double rate(uint64_t before, uint64_t after, double seconds)
{
	if (seconds <= 0)
		return 0;
	/* The counters of a new program start at 0. */
	return (after >= before ? after - before : after) / seconds;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t first = ((const struct process *)a)->pid, second = ((const struct process *)b)->pid;

	return (first > second) - (first < second);
}

const struct process *processes_find(const struct processes *processes, pid_t pid)
{
	const struct process key = { .pid = pid };

	return bsearch(&key, processes->process, processes->count, sizeof(key), compare_pids);
}

static struct rates compare(const struct process *old, const struct process *new, double seconds)
{
	struct sums before = { 0 }, after = { 0 };
	struct rates rates = { 0 };

	if (old)
		sums_add(&before, old);
	sums_add(&after, new);
	rates.sent = rate(before.number[SUM_INTERRUPTED], after.number[SUM_INTERRUPTED], seconds);
	rates.spared = rate(before.number[SUM_SPARED], after.number[SUM_SPARED], seconds);
	rates.fills = rate(before.number[SUM_FILLS], after.number[SUM_FILLS], seconds);
	rates.flushes = rate(before.number[SUM_FLUSHES], after.number[SUM_FLUSHES], seconds);
	rates.replica_kib = after.number[SUM_REPLICA_KIB];
	rates.node = must_have(calloc(after.node_count + 1, sizeof(*rates.node)));
	for (; rates.node_count < after.node_count; rates.node_count++) {
		const struct node_sums *now = &after.node[rates.node_count];
		const struct node_sums *then = sums_node(&before, now->node);

		rates.node[rates.node_count] = (struct node_rates){
			.node = now->node,
			.fills = rate(then ? then->fills : 0, now->fills, seconds),
			.replica_kib = now->replica_kib,
		};
	}
	sums_free(&before);
	sums_free(&after);
	return rates;
}

static void add_node(struct rates *total, const struct node_rates *node)
{
	size_t place = 0;

	while (place < total->node_count && total->node[place].node < node->node)
		place++;
	if (place == total->node_count || total->node[place].node != node->node) {
		total->node = must_have(reallocarray(total->node, total->node_count + 1,
						     sizeof(*total->node)));
		memmove(&total->node[place + 1], &total->node[place],
			(total->node_count++ - place) * sizeof(*total->node));
		total->node[place] = (struct node_rates){ .node = node->node };
	}
	total->node[place].fills += node->fills;
	total->node[place].replica_kib += node->replica_kib;
}

static void add(struct rates *total, const struct rates *rates)
{
	total->sent += rates->sent;
	total->spared += rates->spared;
	total->fills += rates->fills;
	total->flushes += rates->flushes;
	total->replica_kib += rates->replica_kib;
	for (size_t i = 0; i < rates->node_count; i++)
		add_node(total, &rates->node[i]);
}

static double sort_key(const struct row *row, enum order order)
{
	switch (order) {
	case ORDER_SENT:
		return row->rates.sent;
	case ORDER_SPARED:
		return row->rates.spared;
	case ORDER_FILLS:
		return row->rates.fills;
	case ORDER_FLUSHES:
		return row->rates.flushes;
	case ORDER_MEMORY:
		return row->rates.replica_kib;
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
	return names ?: compare_pids(first->process, second->process);
}

void rates_compare(struct rate_table *table, const struct processes *before,
		   const struct processes *after, double seconds, enum order order, bool all)
{
	*table = (struct rate_table){ 0 };
	table->row = must_have(calloc(after->count + 1, sizeof(*table->row)));
	for (size_t i = 0; i < after->count; i++) {
		const struct process *process = &after->process[i];
		struct row *row = &table->row[table->count];

		if (!all && !process_active(process))
			continue;
		row->process = process;
		row->rates = compare(processes_find(before, process->pid), process, seconds);
		add(&table->total, &row->rates);
		table->count++;
	}
	qsort_r(table->row, table->count, sizeof(*table->row), compare_rows, &order);
}

void rates_free(struct rate_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->row[i].rates.node);
	free(table->row);
	free(table->total.node);
	*table = (struct rate_table){ 0 };
}
