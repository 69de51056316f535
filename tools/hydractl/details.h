/* SPDX-License-Identifier: GPL-2.0-only */
/* All that is known of one process, as lines to show. */
#ifndef DETAILS_H
#define DETAILS_H

#include <stddef.h>

#include "process.h"

struct details {
	size_t count;
	char **line;
};

/* Counters also per second, if there was a look @before, @seconds ago. */
struct details details_make(const struct process *before, const struct process *after, double seconds);
void details_free(struct details *details);

#endif /* DETAILS_H */
