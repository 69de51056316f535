/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads that keep CPUs busy beside the one that tests: spinners.c. */
#ifndef SPINNERS_H
#define SPINNERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hydra_util.h"

#define PAGE_WORDS	(PAGE_SIZE / sizeof(uint64_t))

/*
 * A thread that keeps its CPU busy, and may watch a word, the same one of each of
 * some pages, or write it: the more there are, the less likely its TLB has lost them
 * all. Or it drops a page of its own again and again.
 */
struct spinner {
	pthread_t thread;
	int cpu, node;
	_Atomic(const volatile uint64_t *) watched;
	_Atomic(char *) dropped;
	_Atomic(volatile uint64_t *) written;
	atomic_ulong seen;	/* the latest value of the word, in the last page */
	atomic_ulong rounds;
	atomic_ulong stale;	/* times it had a value it should not have had any more */
};

struct spinners {
	struct spinner *spinners;
	int count;
	size_t pages;		/* that each of them watches or writes */
	atomic_bool stop;
	atomic_ulong forbidden;	/* a value that no read begun from now on may return */
};

extern struct spinners spin;

/*
 * Before the first one is started: Hydra is switched on and NUMA balancing off, and
 * there is place for four leaf tables, and for a page that has one for itself. And at
 * the end: all are ended, with the dropper.
 */
int spinners_begin(char **area, char **alone);
int spinners_end(void);

void start_spinner(int node, int cpu);
/* On all CPUs of all nodes but the first one, where the tests run */
int spin_on_other_nodes(void);
/* The first that was started on a node, or NULL */
struct spinner *spinner_of(int node);

/* Two rounds from now, the last of them begun from now on, have come to their end */
void await_rounds(struct spinner *s);
/* Each of them has come round, so none has been put off its CPU for long */
void await_all(void);
/* The spinner has the word in its TLB, with that value; false if it sees another */
bool watch(struct spinner *s, const volatile uint64_t *word, uint64_t value);
bool watch_all(const volatile uint64_t *word, uint64_t value);

/* Calls that begin and end all the time, of a thread of this node; and no more, if there are any */
int start_dropper(char *page);
int stop_dropper(void);

#endif /* SPINNERS_H */
