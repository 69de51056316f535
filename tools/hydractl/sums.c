// SPDX-License-Identifier: GPL-2.0-only
#include "sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "kernel.h"

const char *const sum_keys[SUMS] = {
	[SUM_FILLS] = "fills", [SUM_PREFETCHED] = "prefetched", [SUM_PROPAGATED] = "propagated",
	[SUM_FLUSHES] = "flushes", [SUM_INTERRUPTED] = "cpus_interrupted",
	[SUM_ACROSS] = "cpus_interrupted_across", [SUM_SPARED] = "cpus_spared", [SUM_FALLBACKS] = "fallbacks", [SUM_RECLAIMED] = "reclaimed",
	[SUM_REPLICA_TABLES] = "replica_tables", [SUM_REPLICA_KIB] = "replica_kib",
	[SUM_UPPER_TABLES] = "upper_tables",
};

/* Returns the place for @node, made if missing. */
static struct node_sums *make_node(struct sums *sums, uint64_t node)
{
	size_t place = 0;

	while (place < sums->node_count && sums->node[place].node < node)
		place++;
	if (place < sums->node_count && sums->node[place].node == node)
		return &sums->node[place];
	sums->node = must_have(reallocarray(sums->node, sums->node_count + 1, sizeof(*sums->node)));
	memmove(&sums->node[place + 1], &sums->node[place],
		(sums->node_count++ - place) * sizeof(*sums->node));
	sums->node[place] = (struct node_sums){ .node = node };
	return &sums->node[place];
}

/* Domains of a core or a cache are parts of a node. */
static void add_domain(struct sums *sums, const struct record *domain)
{
	struct node_sums *sum;
	uint64_t node, number;

	if (!record_get_u64(domain, "node", &node))
		return;
	sum = make_node(sums, node);
	if (record_get_u64(domain, "fills", &number))
		sum->fills += number;
	if (record_get_u64(domain, "replica_tables", &number))
		sum->replica_tables += number;
	if (record_get_u64(domain, "replica_kib", &number))
		sum->replica_kib += number;
	if (record_get_u64(domain, "upper_tables", &number))
		sum->upper_tables += number;
}

void sums_add(struct sums *sums, const struct process *process)
{
	const struct record *domain;

	sums->processes++;
	sums->active += process_active(process);
	sums->split += process_number(process, "split");
	sums->across_told |= !!process_text(process, sum_keys[SUM_ACROSS]);
	for (size_t i = 0; i < SUMS; i++)
		sums->number[i] += process_number(process, sum_keys[i]);
	for (size_t next = 0; (domain = process_domain(process, &next)); )
		add_domain(sums, domain);
}

void sums_free(struct sums *sums)
{
	free(sums->node);
	*sums = (struct sums){ 0 };
}

const struct node_sums *sums_node(const struct sums *sums, uint64_t node)
{
	for (size_t i = 0; i < sums->node_count; i++)
		if (sums->node[i].node == node)
			return &sums->node[i];
	return NULL;
}

void json_sums(const struct sums *sums)
{
	json_number("processes", sums->processes);
	json_number("active", sums->active);
	json_number("split", sums->split);
	for (size_t i = 0; i < SUMS; i++)
		if (i != SUM_ACROSS || sums->across_told)
			json_number(sum_keys[i], sums->number[i]);
	json_open_list("per_node");
	for (size_t i = 0; i < sums->node_count; i++) {
		const struct node_sums *node = &sums->node[i];

		json_open_object(NULL);
		json_number("node", node->node);
		json_number("fills", node->fills);
		json_number("replica_tables", node->replica_tables);
		json_number("replica_kib", node->replica_kib);
		json_number("upper_tables", node->upper_tables);
		json_close();
	}
	json_close();
}

void print_sums(const struct sums *sums)
{
	printf("  %-23s %" PRIu64 "\n  %-23s %" PRIu64 "\n  %-23s %" PRIu64 "\n",
	       "processes", sums->processes, "active", sums->active, "split", sums->split);
	for (size_t i = 0; i < SUMS; i++)
		if (i != SUM_ACROSS || sums->across_told)
			printf("  %-23s %" PRIu64 "\n", sum_keys[i], sums->number[i]);
	if (sums->node_count)
		printf("\n  %-14s %-14s %-14s %-14s %-14s\n", "node", "fills", "replica_tables",
		       "replica_kib", "upper_tables");
	for (size_t i = 0; i < sums->node_count; i++)
		printf("  %-14" PRIu64 " %-14" PRIu64 " %-14" PRIu64 " %-14" PRIu64 " %-14" PRIu64 "\n",
		       sums->node[i].node, sums->node[i].fills, sums->node[i].replica_tables,
		       sums->node[i].replica_kib, sums->node[i].upper_tables);
}
