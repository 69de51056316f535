/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The programs of the papers, small: what each does to memory, and how its result is known
 * without it. The result is the same for any number of threads.
 */
#ifndef MINIATURES_H
#define MINIATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MINIATURE_STEPS 3
#define MINIATURE_PASSES 2UL

/* A thread's share of the work. */
struct share {
	size_t part, parts;
	uint64_t pass;
};

struct miniature {
	const char *name;
	const char *what;
	bool alone;		/* the first thread loads all of the data; else each one loads a part */
	void (*load)(const struct share *share);
	/* A pass has some steps. All threads have ended one when the next one begins. */
	void (*steps[MINIATURE_STEPS])(const struct share *share);
	/* After all passes. Leaves with a message if a result is wrong. */
	void (*check)(void);
};

struct miniature_size {
	uint64_t *data;		/* the memory */
	size_t bytes;
	uint64_t operations;	/* of a pass, by all threads */
	size_t block;		/* bytes that wordcount and dedup map at a time */
};

extern struct miniature_size miniature_size;
extern const struct miniature miniatures[];	/* ended by one without a name */

/* How often a pass has mapped memory until now. */
uint64_t miniature_maps(void);

#endif /* MINIATURES_H */
