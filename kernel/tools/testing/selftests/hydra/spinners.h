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
 * A spinner keeps a CPU busy. Again and again the spinner reads or writes the first word
 * of each of several pages: with several pages, the TLB of the CPU likely still holds one
 * translation. Or the spinner drops a page that only the spinner uses, again and again.
 */
struct spinner {
	pthread_t thread;
	int cpu, node;
	_Atomic(const volatile uint64_t *) watched;
	_Atomic(char *) dropped;
	_Atomic(volatile uint64_t *) written;
	atomic_ulong seen;	/* the latest value of the word, in the last page */
	atomic_ulong rounds;
	atomic_ulong stale;	/* reads that returned a forbidden or not the required value */
};

struct spinners {
	struct spinner *spinners;
	int count;
	size_t pages;		/* that each spinner watches or writes */
	atomic_bool stop;
	/*
	 * forbidden: if not 0, reads that begin now must not return it. required: if not
	 * 0, reads that begin now must return it.
	 */
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
/* The first spinner on a node, or NULL */
struct spinner *spinner_of(int node);

/* Wait until the spinner has ended two rounds: the second round began after the call. */
void await_rounds(struct spinner *s);
/* Wait until each spinner has ended a round, so that each spinner runs on a CPU. */
void await_all(void);
/*
 * Let the spinner read the word, into its TLB. False if the spinner reads another value
 * than @value.
 */
bool watch(struct spinner *s, const volatile uint64_t *word, uint64_t value);
bool watch_all(const volatile uint64_t *word, uint64_t value);

/*
 * forbid_value(): from now on no spinner may read @value. require_value(): every spinner
 * must. Both then stop the watching. Return: the first spinner that read a wrong value,
 * or NULL.
 */
const struct spinner *forbid_value(uint64_t value);
const struct spinner *require_value(uint64_t value);

/*
 * Interrupts of each CPU: TLB shootdowns; calls of functions on behalf of other CPUs.
 * Return: 0 or -errno.
 */
int read_interrupts(uint64_t count[HYDRA_MAX_CPUS]);
int read_calls(uint64_t count[HYDRA_MAX_CPUS]);

#define STRAY		2	/* interrupts of a CPU for other reasons */
#define MOST(n)		((n) * 3 / 4)	/* a spinner does not run all the time */

/* The dropper: a thread of node 0 that drops a page again and again */
int start_dropper(char *page);
int stop_dropper(void);

#endif /* SPINNERS_H */
