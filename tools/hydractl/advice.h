/* SPDX-License-Identifier: GPL-2.0-only */
/* What Hydra would do for a process that was watched, and what the operator may do. */
#ifndef ADVICE_H
#define ADVICE_H

#include "subjects.h"

enum advice { ADVICE_HYDRA, ADVICE_CORES, ADVICE_WALKS, ADVICE_KEEP, ADVICE_OFF, ADVICE_ONE_NODE, ADVICE_QUIET, ADVICE_NOT_SPLIT };

/* Interrupts per second: not few */
#define MANY_INTERRUPTS 1000		/* usually */
extern double many_interrupts;

/* Do threads of the process run on several nodes? */
bool spans_nodes(const struct subject *seen);

/*
 * How much memory Hydra's page tables of a process that is plain Linux would take at most:
 * (nodes - 1) x table_kib + nodes x ROOT_KIB; 0 if it does not span nodes.
 */
uint64_t most_kib(const struct subject *seen);
#define ROOT_KIB 20			/* a root and the fewest upper tables */

enum advice advice_for(const struct subject *seen);

/* For tables and scripts: one word. */
extern const char *const advice_words[];

/* One sentence with the numbers, to be freed. */
char *advice_sentence(const struct subject *seen);

#endif /* ADVICE_H */
