/* SPDX-License-Identifier: GPL-2.0-only */
/* 'hydractl top': looks at the processes of options.group, compared with the look before, as a table. */
#ifndef WATCH_H
#define WATCH_H

#include "counters.h"
#include "table.h"

struct row {
	const struct process *process;
	struct counters counters;
};

/* In the order of the columns */
enum order { ORDER_PID, ORDER_SENT, ORDER_SPARED, ORDER_FILLS, ORDER_FLUSHES, ORDER_MEMORY, ORDER_NAME, ORDERS };

/* The words for --sort */
extern const char *const order_names[ORDERS];

struct watch {
	/* For the caller to set. */
	enum order order;		/* what comes first */
	bool all;			/* show also processes that are not under Hydra */

	/* The last two looks, compared. */
	struct processes before, after;
	double moment, seconds;		/* of the last look; since the look before, 0: none */
	size_t count;
	struct row *row;
	struct counters total;
};

/* Look, and compare with the look before. False: the group has gone. */
bool watch_look(struct watch *watch);

/* Compare anew, after a change of @order or @all. */
void watch_compare(struct watch *watch);

/* A terminal of this width shows the columns that one cannot do without. */
#define WATCH_LEAST_COLUMNS 35

/* The table; its head, with a mark at the column of the order; a row. */
struct table watch_table(FILE *out, size_t wide);
void watch_head(struct table *table, enum order order);
void watch_row(struct table *table, const struct row *row);

/*
 * Show the watch on the terminal, refreshed, until the user ends it or the count of the
 * options is reached. Exit with a message on failure. However it ends, the terminal is as
 * before.
 */
void screen_run(struct watch *watch);

#endif /* WATCH_H */
