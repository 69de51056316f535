/* SPDX-License-Identifier: GPL-2.0-only */
/* What Hydra would do for a process that was watched, and what the operator may do. */
#ifndef ADVICE_H
#define ADVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum advice { ADVICE_HYDRA, ADVICE_CORES, ADVICE_WALKS, ADVICE_KEEP, ADVICE_OFF, ADVICE_ONE_NODE, ADVICE_QUIET, ADVICE_NOT_SPLIT };

/* What is known of the process. */
struct observation {
	pid_t pid;
	const char *policy;
	bool active;			/* the policy is not linux */
	const char *late;		/* of an active process: why it is not split; else NULL */
	double flushes, sent, across, spared;	/* per second */
	double many;			/* interrupts per second: not few */
	uint64_t threads, nodes;	/* how many */
	uint64_t table_kib;		/* of all page tables, those of Hydra included */
	uint64_t hydra_kib;		/* of Hydra's */
};

#define MANY_INTERRUPTS 1000		/* usually */

/* Do threads of the process run on several nodes? */
bool spans_nodes(const struct observation *seen);

/*
 * How much memory Hydra's page tables of a process that is plain Linux would take at most:
 * (nodes - 1) x table_kib + nodes x ROOT_KIB; 0 if it does not span nodes.
 */
uint64_t most_kib(const struct observation *seen);
#define ROOT_KIB 20			/* a root and the fewest upper tables */

enum advice advice_for(const struct observation *seen);

/* For tables and scripts: one word. */
extern const char *const advice_words[];

/* One sentence with the numbers, to be freed. */
char *advice_sentence(const struct observation *seen);

#endif /* ADVICE_H */
