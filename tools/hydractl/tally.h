/* SPDX-License-Identifier: GPL-2.0-only */
/* What 'hydractl stat' counts while a program runs: the descendants of hydractl, or the processes of options.group. */
#ifndef TALLY_H
#define TALLY_H

#include "counters.h"

/*
 * The kernel adds up the processes that have ended, and hydractl adds those that run. A
 * kernel that does not add up: hydractl keeps what it saw at the last look.
 */
struct tally {
	char *refusal;			/* why the kernel does not add up ended processes, or NULL */
	bool with_others;		/* the kernel adds processes that hydractl did not start */
	unsigned int running;		/* processes that still ran at the end */
	unsigned int unreadable;	/* of them, not permitted to be read */
	unsigned int ended;		/* of a group: those that ran at the start and do not at the end */
	unsigned int looks;
	bool may_count_twice;		/* the kernel cannot say which processes share memory */
	bool across_told;		/* else the kernel is older, and ACROSS is 0 */
	uint64_t number[GROWING];	/* the counters */
	uint64_t peak_kib;		/* of all replica tables together, at a look */
};

/* The last one, or the present one. */
extern struct tally tally;

/* Have the processes of options.group counted until hydractl ends, however, except by SIGKILL. Exit if there are none. */
void tally_group(void);

/* Steps of a run of the program: see program.h. */
void tally_begin(void);
void tally_look(void);
void tally_finish(void);

#endif /* TALLY_H */
