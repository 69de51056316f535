/* SPDX-License-Identifier: GPL-2.0-only */
/* Looking at a group of processes again and again. */
#ifndef WATCH_H
#define WATCH_H

#include <stdbool.h>

#include "group.h"
#include "rates.h"

struct watch {
	/* For the caller to set. */
	struct group group;
	enum order order;
	bool all;			/* show also processes that are not under Hydra */

	/* The last two looks, compared. */
	struct processes before, after;
	double moment, seconds;		/* of the last look; since the look before, 0: none */
	struct rate_table table;
};

/* Look, and compare with the look before. False: the group has gone. */
bool watch_look(struct watch *watch);

/* Compare anew, after a change of @order or @all. */
void watch_compare(struct watch *watch);

void watch_end(struct watch *watch);

#endif /* WATCH_H */
