/* SPDX-License-Identifier: GPL-2.0-only */
/* The counters of processes, of one or added up: in all, for each NUMA node, and per second. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "process.h"

enum counter {
	FILLS, PREFETCHED, PROPAGATED, FLUSHES, INTERRUPTED, ACROSS, SPARED, FALLBACKS, RECLAIMED,
	GROWING,			/* The further ones may become less. */
	REPLICA_TABLES = GROWING, REPLICA_KIB, UPPER_TABLES, COUNTERS
};

/* The keys of /proc/PID/hydra. */
extern const char *const counter_keys[COUNTERS];

/* Of one node, in the order in which they are shown */
enum node_counter { NODE_FILLS, NODE_REPLICA_TABLES, NODE_REPLICA_KIB, NODE_UPPER_TABLES, NODE_COUNTERS };

struct node_counters {
	uint64_t node, number[NODE_COUNTERS];
	double fill_rate;
};

struct counters {
	uint64_t processes, active, split;
	uint64_t number[COUNTERS];
	double rate[GROWING];		/* per second */
	bool across_told;		/* else the kernel is older, and ACROSS is 0 */
	size_t node_count;
	struct node_counters *node;	/* in the order of the numbers of the nodes */
};

/*
 * The counters of @process, to be freed, and what was counted per second since a look
 * @before, @seconds ago. Without a look before: NULL and 0.
 */
struct counters counters_of(const struct process *process, const struct process *before, double seconds);
void counters_add(struct counters *sum, const struct counters *counters);
void counters_free(struct counters *counters);

/*
 * What a program has counted per second since the look before; all if it is new. 0 if
 * there was no look before.
 */
double rate(uint64_t before, uint64_t after, double seconds);

/* The members of an object. */
void json_counters(const struct counters *counters);
void print_counters(const struct counters *counters);

/* Have the kernel count process @pid under any settings, or stop. False and errno. */
bool count_set(pid_t pid, bool on);

/* Is the process counted under any settings? Kernels that cannot do so lack the key "count". */
bool counted(const struct process *process);

/* A counter of the ended processes that are counted together with this one. */
uint64_t counted_ended(const struct process *process, enum counter counter);

/* Why count_set() failed (errno), or why the key is missing (EINVAL); to be freed. */
char *count_refusal(pid_t pid);

#endif /* COUNTERS_H */
