/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes that 'hydractl explain' watches: counted for a while, and then as before; and its advice. */
#ifndef SUBJECTS_H
#define SUBJECTS_H

#include "leaf_tables.h"
#include "process.h"
#include "threads.h"

struct subject {
	pid_t pid;
	char *name;
	bool switched_on;	/* counted because hydractl asked */
	bool ended;
	double moment, seconds;	/* when the watch began, how long it took */
	uint64_t ticks;		/* of CPU time that it had used by then */
	struct process before, after;
	struct thread_nodes nodes;
	struct leaf_tables tables;	/* if asked for and permitted, else empty */
	enum split split;
	char *late;			/* of an active process: why it is not split; else NULL */
	const char *policy;
	bool active;			/* the policy is not linux */
	double cpus;			/* that it used, on average */
	double flushes, sent, across, spared;	/* per second */
	double fills, changes;		/* per second: copies filled, and entries of copies changed */
	uint64_t table_kib;		/* of all page tables, those of Hydra included */
	uint64_t hydra_kib;		/* of Hydra's */
	bool at_home;			/* may_have_moved(); the kernel is new enough; and all threads are */
	uint64_t home;			/* on this node */
	uint64_t idle_seconds;		/* of the system */
	const char *stays;		/* what keeps the kernel from moving page tables there; NULL: nothing that can be seen */
};

struct subjects {
	size_t count;
	struct subject *subject;
	struct processes left_out;	/* how many */
};

/*
 * Begin to count the processes. A process of a list that cannot be counted is left out;
 * one that was @named ends hydractl with a message. However hydractl ends, except by
 * SIGKILL, the processes are no longer counted then.
 */
void subjects_begin(struct subjects *subjects, const pid_t *pids, size_t count, bool named);

/* Look again, and with @tables also at the page tables; in any case at those of processes that may_have_moved(). */
void subjects_look(struct subjects *subjects, bool tables);

/* Stop counting those that hydractl switched on, and what they have started since. */
void subjects_restore(void);

/* What Hydra would do for a process that was watched, and what the operator may do. */
enum advice {
	ADVICE_AUTO, ADVICE_SMALL, ADVICE_CORES, ADVICE_WALKS, ADVICE_KEEP, ADVICE_OFF, ADVICE_MOVED, ADVICE_ONE_NODE, ADVICE_QUIET,
	ADVICE_NOT_SPLIT, ADVICE_DECIDED,
};

/*
 * What page tables for each node save of the CPU time, in ppm: at most, as they are not there yet; or by what the process has
 * counted with them, less what they have cost.
 */
double saving_ppm(const struct subject *seen);

/* Do threads of the process run on several nodes? */
bool spans_nodes(const struct subject *seen);

/* May the process run on one node, with many page tables on others? Then a look at them tells. */
bool may_have_moved(const struct subject *seen);

/*
 * How much memory Hydra's page tables of a process that is plain Linux would take at most:
 * (nodes - 1) x table_kib + nodes x ROOT_KIB; 0 if it does not span nodes.
 */
uint64_t most_kib(const struct subject *seen);
#define ROOT_KIB 20			/* a root and the fewest upper tables */

enum advice advice_for(const struct subject *seen);

/* For tables and scripts: one word. */
extern const char *const advice_words[];

/* One sentence with the numbers, to be freed. */
char *advice_sentence(const struct subject *seen);

#endif /* SUBJECTS_H */
