/* SPDX-License-Identifier: GPL-2.0-only */
/* 'hydractl top' and 'hydractl replay': looks at processes, compared with the look before, as a table. */
#ifndef WATCH_H
#define WATCH_H

#include <argp.h>

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

	/* Of a recording: go so many seconds in time, or with 0 to the next look. NULL: what happens now is shown. */
	void (*go)(struct watch *watch, bool forward, double seconds);
	const char *where;		/* in the recording */

	/* The last two looks, compared. */
	struct processes before, after;
	double time;			/* of the last look: since 1970 */
	double moment, seconds;		/* of the last look; since the look before, 0: none */
	size_t count;
	struct row *row;
	struct counters total;
};

/* Look at the processes of options.group, and compare with the look before. False: the group has gone. */
bool watch_look(struct watch *watch);

/* Compare a look of another source with the one before. The processes are taken over. */
void watch_take(struct watch *watch, const struct processes *processes, double time, double moment);

/* Compare anew, after a change of @order or @all. */
void watch_compare(struct watch *watch);

/* A terminal of this width shows the columns that one cannot do without. */
#define WATCH_LEAST_COLUMNS 35

/* The table; its head, with a mark at the column of the order; a row. */
struct table watch_table(FILE *out, size_t wide);
void watch_head(struct table *table, enum order order);
void watch_row(struct table *table, const struct row *row);

/* Print the last look as a table, or as JSON or CSV if the options say so. */
void watch_print(const struct watch *watch);

/* The watch of a command, and the parser of its options: --sort, --plain, --batch, --json, --csv. */
extern struct watch watched;
extern bool watch_batch;
extern const struct argp watch_argp;

/* Print instead of drawing? Exit if there is no terminal for the latter. */
void watch_choose_form(void);

/*
 * Show the watch on the terminal, refreshed, until the user ends it or the count of the
 * options is reached. Exit with a message on failure. However it ends, the terminal is as
 * before.
 */
void screen_run(struct watch *watch);

#endif /* WATCH_H */
