/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the descendants of hydractl count. The kernel adds up those that have ended, and
 * hydractl adds those that run. A kernel that does not add up: hydractl keeps what it saw
 * at the last look.
 */
#ifndef DESCENDANTS_H
#define DESCENDANTS_H

#include "tally.h"

/* Before the first child is born: it is counted because hydractl is. */
void descendants_begin(struct tally *tally);

/* Look at those that run: for the peak, and for the last look. */
void descendants_look(struct tally *tally);

/* Put the counters into @tally. */
void descendants_finish(struct tally *tally);

#endif /* DESCENDANTS_H */
