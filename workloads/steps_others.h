/* SPDX-License-Identifier: GPL-2.0-only */
/* What runs on the other nodes while one thread measures. */
#ifndef STEPS_OTHERS_H
#define STEPS_OTHERS_H

#include "steps.h"

#define OTHERS_MOST 64

/* The numbers are those of the names in steps.c. */
enum others_kind { OTHERS_NONE, OTHERS_THREADS, OTHERS_PROCESSES };

enum task {
	NOTHING,
	PREPARE,	/* the row's prepare() and so on, each thread at its own place */
	OPERATE,	/* before() and once() */
	FINISH,
	ELSEWHERE,	/* elsewhere() at the place of another thread, done by the first of them */
	USE,		/* use() at the place of another thread, done by all of them */
	SLEEP,		/* for as long as settle() does */
};

/*
 * Start one on each of the CPUs, with a place of @size bytes of addresses each,
 * from @places on. They do nothing but pause unless they are told to.
 */
void others_start(const int *cpus, size_t cpu_count, enum others_kind kind, char *places, size_t size);
void others_end(void);

/* Have each of the others do a task; returns when all have done it. */
void others_do(enum task task, const struct row *row, size_t number, struct place *place);

/*
 * All threads, this one too, sleep for a few ticks of the clock, so that callbacks
 * of RCU that are due have run. The next tick is then nearly 4 million
 * instructions away.
 */
void others_settle(void);

#endif /* STEPS_OTHERS_H */
