/* SPDX-License-Identifier: GPL-2.0-only */
/* The counters of processes, added up: in all, and for each NUMA node. */
#ifndef SUMS_H
#define SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process.h"

enum sum {
	SUM_FILLS, SUM_PREFETCHED, SUM_PROPAGATED, SUM_FLUSHES, SUM_INTERRUPTED, SUM_ACROSS,
	SUM_SPARED, SUM_FALLBACKS, SUM_RECLAIMED, SUM_REPLICA_TABLES, SUM_REPLICA_KIB, SUM_UPPER_TABLES, SUMS
};

/* The keys of /proc/PID/hydra. */
extern const char *const sum_keys[SUMS];

struct node_sums {
	uint64_t node, fills, replica_tables, replica_kib, upper_tables;
};

struct sums {
	uint64_t processes, active, split;
	uint64_t number[SUMS];
	bool across_told;		/* else the kernel is older, and SUM_ACROSS is 0 */
	size_t node_count;
	struct node_sums *node;		/* in the order of the numbers of the nodes */
};

/* Begin with an empty struct sums. */
void sums_add(struct sums *sums, const struct process *process);
void sums_free(struct sums *sums);

/* Of the node with the given number, or NULL. */
const struct node_sums *sums_node(const struct sums *sums, uint64_t node);

/* The members of an object. */
void json_sums(const struct sums *sums);
void print_sums(const struct sums *sums);

#endif /* SUMS_H */
