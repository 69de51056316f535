/* SPDX-License-Identifier: GPL-2.0-only */
/* Two looks at processes, compared: what happens per second. */
#ifndef RATES_H
#define RATES_H

#include <stddef.h>
#include <stdint.h>

#include "process.h"

struct node_rates {
	uint64_t node;
	double fills;			/* per second */
	uint64_t replica_kib;		/* now */
};

/* Per second, apart from replica_kib. */
struct rates {
	double sent, spared, fills, flushes;
	uint64_t replica_kib;
	size_t node_count;
	struct node_rates *node;
};

struct row {
	const struct process *process;
	struct rates rates;
};

/* The rows live as long as the look at the processes from which they were made. */
struct rate_table {
	size_t count;
	struct row *row;
	struct rates total;
};

/* In the order of the columns. */
enum order { ORDER_PID, ORDER_SENT, ORDER_SPARED, ORDER_FILLS, ORDER_FLUSHES, ORDER_MEMORY, ORDER_NAME, ORDERS };

/* The words for --sort. */
extern const char *const order_names[ORDERS];

/*
 * Compare looks that are @seconds apart. @order: what comes first; @all: also processes
 * that are not under Hydra.
 */
void rates_compare(struct rate_table *table, const struct processes *before,
		   const struct processes *after, double seconds, enum order order, bool all);
void rates_free(struct rate_table *table);

/*
 * What a program has counted per second since the look before; all if it is new. 0 if
 * there was no look before.
 */
double rate(uint64_t before, uint64_t after, double seconds);

/* The process with this PID, or NULL. */
const struct process *processes_find(const struct processes *processes, pid_t pid);

#endif /* RATES_H */
