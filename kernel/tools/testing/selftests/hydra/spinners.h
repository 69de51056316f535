/* SPDX-License-Identifier: GPL-2.0-only */
/* Spinners: threads that keep their CPUs busy while the main thread tests. */
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
 * A spinner keeps its CPU busy. It may read the first word of each of some pages all the
 * time, or write it. With several pages it is likely that its TLB still has one of them.
 * Or it drops a page of its own again and again.
 */
struct spinner {
	pthread_t thread;
	int cpu, node;
	_Atomic(const volatile uint64_t *) watched;
	_Atomic(char *) dropped;
	_Atomic(volatile uint64_t *) written;
	atomic_ulong seen;	/* the latest value of the word, in the last page */
	atomic_ulong rounds;
	atomic_ulong stale;	/* times it has read a value that is forbidden, or not required */
};

struct spinners {
	struct spinner *spinners;
	int count;
	size_t pages;		/* that each of them watches or writes */
	atomic_bool stop;
	/* If not 0: a value that no read begun from now on may return, or that each has to */
	atomic_ulong forbidden, required;
};

extern struct spinners spin;

/*
 * Before the first spinner: switch Hydra on and NUMA balancing off; @area: address space
 * of four leaf tables; @alone: a place for a page with a leaf table of its own. At the
 * end: stop all spinners and the dropper.
 */
int spinners_begin(char **area, char **alone);
int spinners_end(void);

void start_spinner(int node, int cpu);
/* Start a spinner on each CPU of the nodes after the first. Return: how many. */
int spin_on_other_nodes(void);
/* The first spinner that was started on a node, or NULL */
struct spinner *spinner_of(int node);

/* Wait until the spinner has ended two rounds: it has begun the second one after the call. */
void await_rounds(struct spinner *s);
/* Wait until each spinner has ended a round, so each of them has its CPU. */
void await_all(void);
/* The spinner has the word in its TLB, with that value; false if it sees another */
bool watch(struct spinner *s, const volatile uint64_t *word, uint64_t value);
bool watch_all(const volatile uint64_t *word, uint64_t value);

/*
 * From now on no spinner may read that value from the words that it watches, or each has
 * to read it. Both end the watching. Return: the first spinner that is wrong, or NULL.
 */
const struct spinner *forbid_value(uint64_t value);
const struct spinner *require_value(uint64_t value);

/*
 * Interrupts that each CPU has got: TLB shootdowns; functions that another CPU has had it
 * call. Return: 0 or -errno.
 */
int read_interrupts(uint64_t count[HYDRA_MAX_CPUS]);
int read_calls(uint64_t count[HYDRA_MAX_CPUS]);

#define STRAY		2	/* interrupts a CPU may get for other reasons */
#define MOST(n)		((n) * 3 / 4)	/* a spinner does not run all the time */

/* The dropper: a thread of node 0 that drops a page again and again */
int start_dropper(char *page);
int stop_dropper(void);

#endif /* SPINNERS_H */
