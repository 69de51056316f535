// SPDX-License-Identifier: GPL-2.0-only
#include "counters.h"

#include "json.h"
#include "kernel.h"
#include "table.h"

const char *const counter_keys[COUNTERS] = {
	[FILLS] = "fills", [PREFETCHED] = "prefetched", [PROPAGATED] = "propagated", [FLUSHES] = "flushes",
	[INTERRUPTED] = "cpus_interrupted", [ACROSS] = "cpus_interrupted_across", [SPARED] = "cpus_spared",
	[FALLBACKS] = "fallbacks", [RECLAIMED] = "reclaimed", [REPLICA_TABLES] = "replica_tables",
	[REPLICA_KIB] = "replica_kib", [UPPER_TABLES] = "upper_tables",
};

static const char *const node_keys[NODE_COUNTERS] = {
	[NODE_FILLS] = "fills", [NODE_REPLICA_TABLES] = "replica_tables", [NODE_REPLICA_KIB] = "replica_kib",
	[NODE_UPPER_TABLES] = "upper_tables",
};

double rate(uint64_t before, uint64_t after, double seconds)
{
	if (seconds <= 0)
		return 0;
	/* The counters of a new program start at 0. */
	return (after >= before ? after - before : after) / seconds;
}

static void add_node(struct counters *sum, const struct node_counters *counters)
{
	struct node_counters *node;
	size_t place = 0;

	while (place < sum->node_count && sum->node[place].node < counters->node)
		place++;
	if (place == sum->node_count || sum->node[place].node != counters->node) {
		sum->node = must_have(reallocarray(sum->node, sum->node_count + 1, sizeof(*node)));
		node = &sum->node[place];
		memmove(node + 1, node, (sum->node_count++ - place) * sizeof(*node));
		*node = *counters;
		return;
	}
	node = &sum->node[place];
	for (enum node_counter i = 0; i < NODE_COUNTERS; i++)
		node->number[i] += counters->number[i];
	node->fill_rate += counters->fill_rate;
}

/* Domains of a core or a cache are parts of a node. */
static void add_domain(struct counters *counters, const struct record *domain)
{
	struct node_counters node = { 0 };

	if (!record_get_u64(domain, "node", &node.node))
		return;
	for (enum node_counter i = 0; i < NODE_COUNTERS; i++)
		record_get_u64(domain, node_keys[i], &node.number[i]);
	add_node(counters, &node);
}

static uint64_t fills_on(const struct counters *counters, uint64_t node)
{
	for (size_t i = 0; i < counters->node_count; i++)
		if (counters->node[i].node == node)
			return counters->node[i].number[NODE_FILLS];
	return 0;
}

struct counters counters_of(const struct process *process, const struct process *before, double seconds)
{
	struct counters now = {
		.processes = 1,
		.active = process_active(process),
		.split = process_number(process, "split"),
		.across_told = process_text(process, counter_keys[ACROSS]),
	}, then = { 0 };
	const struct record *domain;

	for (enum counter i = 0; i < COUNTERS; i++)
		now.number[i] = process_number(process, counter_keys[i]);
	for (size_t next = 0; (domain = process_domain(process, &next)); )
		add_domain(&now, domain);
	if (before)
		then = counters_of(before, NULL, 0);
	for (enum counter i = 0; i < GROWING; i++)
		now.rate[i] = rate(then.number[i], now.number[i], seconds);
	for (size_t i = 0; i < now.node_count; i++)
		now.node[i].fill_rate = rate(fills_on(&then, now.node[i].node), now.node[i].number[NODE_FILLS], seconds);
	counters_free(&then);
	return now;
}

void counters_add(struct counters *sum, const struct counters *counters)
{
	sum->processes += counters->processes;
	sum->active += counters->active;
	sum->split += counters->split;
	sum->across_told |= counters->across_told;
	for (enum counter i = 0; i < COUNTERS; i++)
		sum->number[i] += counters->number[i];
	for (enum counter i = 0; i < GROWING; i++)
		sum->rate[i] += counters->rate[i];
	for (size_t i = 0; i < counters->node_count; i++)
		add_node(sum, &counters->node[i]);
}

void counters_free(struct counters *counters)
{
	free(counters->node);
	*counters = (struct counters){ 0 };
}

void json_counters(const struct counters *counters)
{
	json_number("processes", counters->processes);
	json_number("active", counters->active);
	json_number("split", counters->split);
	for (enum counter i = 0; i < COUNTERS; i++)
		if (i != ACROSS || counters->across_told)
			json_number(counter_keys[i], counters->number[i]);
	json_open_list("per_node");
	for (size_t i = 0; i < counters->node_count; i++) {
		json_open_object(NULL);
		json_number("node", counters->node[i].node);
		for (enum node_counter j = 0; j < NODE_COUNTERS; j++)
			json_number(node_keys[j], counters->node[i].number[j]);
		json_close();
	}
	json_close();
}

void print_counters(const struct counters *counters)
{
	static const struct column columns[] = {
		{ .head = "node", -14 }, { .head = "fills", -14 }, { .head = "replica_tables", -14 },
		{ .head = "replica_kib", -14 }, { .head = "upper_tables", -14 },
	};
	struct table table = TABLE(stdout, columns, SIZE_MAX);

	printf("  %-23s %" PRIu64 "\n  %-23s %" PRIu64 "\n  %-23s %" PRIu64 "\n", "processes",
	       counters->processes, "active", counters->active, "split", counters->split);
	for (enum counter i = 0; i < COUNTERS; i++)
		if (i != ACROSS || counters->across_told)
			printf("  %-23s %" PRIu64 "\n", counter_keys[i], counters->number[i]);
	if (!counters->node_count)
		return;
	putchar('\n');
	table.indent = 2;
	table_head(&table);
	for (size_t i = 0; i < counters->node_count; i++) {
		table_cell(&table, "%" PRIu64, counters->node[i].node);
		for (enum node_counter j = 0; j < NODE_COUNTERS; j++)
			table_cell(&table, "%" PRIu64, counters->node[i].number[j]);
	}
}

bool count_set(pid_t pid, bool on)
{
	return process_write(pid, "hydra", on ? "count=on" : "count=off");
}

bool counted(const struct process *process)
{
	return process_number(process, "count");
}

uint64_t counted_ended(const struct process *process, enum counter counter)
{
	autofree char *key = xasprintf("ended_%s", counter_keys[counter]);

	return process_number(process, key);
}

char *count_refusal(pid_t pid)
{
	autofree char *supported = NULL;
	char *missing;

	/* Only kernels that do not know the text call it invalid. */
	if (errno == EINVAL)
		return must_have(strdup("this kernel's Hydra is older than hydractl, and cannot count processes under policy linux"));
	if (errno != EOPNOTSUPP)
		return process_failure(pid, "count");
	supported = kernel_supported(&missing);
	return xasprintf("Hydra cannot work on this machine (%s)", supported);
}
