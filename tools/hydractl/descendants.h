/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the descendants of hydractl count. The kernel adds up those that have ended, and
 * hydractl adds those that run. A kernel that does not add up: hydractl keeps what it saw
 * at the last look.
 */
#ifndef DESCENDANTS_H
#define DESCENDANTS_H

#include "counters.h"

struct tally {
	char *refusal;			/* why the kernel does not add up ended processes, or NULL */
	bool with_others;		/* the kernel adds processes that hydractl did not start */
	unsigned int running;		/* processes that still ran at the end */
	unsigned int unreadable;	/* of them, not permitted to be read */
	unsigned int looks;
	bool may_count_twice;		/* the kernel cannot say which processes share memory */
	bool across_told;		/* else the kernel is older, and ACROSS is 0 */
	uint64_t number[GROWING];	/* the counters */
	uint64_t peak_kib;		/* of all replica tables together, at a look */
};

/* Before the first child is born: it is counted because hydractl is. */
void descendants_begin(struct tally *tally);

/* Look at those that run: for the peak, and for the last look. */
void descendants_look(struct tally *tally);

/* Put the counters into @tally. */
void descendants_finish(struct tally *tally);

#endif /* DESCENDANTS_H */
