/* SPDX-License-Identifier: GPL-2.0-only */
/* What a program and the processes it starts have counted, the ended ones included. */
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stdint.h>

#include "sums.h"

struct tally {
	unsigned int processes;		/* the program's and its descendants */
	unsigned int split;		/* of them, seen with threads on several nodes */
	unsigned int unreadable;	/* of them, never read: not permitted, or too short a life */
	unsigned int running;		/* of them, still running when the program ended */
	uint64_t number[SUM_RECLAIMED + 1];	/* the counters, by enum sum */
	uint64_t peak_kib;		/* of all replica tables together */
	bool may_count_twice;		/* the kernel cannot say which processes share memory */
	bool started;			/* the program was there and could be run */
	int status;			/* the program's, as of wait(2) */
};

#endif /* TALLY_H */
