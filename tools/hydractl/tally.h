/* SPDX-License-Identifier: GPL-2.0-only */
/* What a program and the processes it starts have counted, the ended ones included. */
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "sums.h"

struct tally {
	char *refusal;			/* why the kernel does not add up ended processes, or NULL */
	bool with_others;		/* the kernel adds processes that the program did not start */
	unsigned int running;		/* processes that still ran when the program ended */
	unsigned int unreadable;	/* of them, not permitted to be read */
	unsigned int looks;
	bool may_count_twice;		/* the kernel cannot say which processes share memory */
	bool across_told;		/* else the kernel is older, and SUM_ACROSS is 0 */
	uint64_t number[SUM_RECLAIMED + 1];	/* the counters, by enum sum */
	uint64_t peak_kib;		/* of all replica tables together, at a look */
	bool started;			/* the program was there and could be run */
	int status;			/* the program's, as of wait(2) */
};

#endif /* TALLY_H */
