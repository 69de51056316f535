/* SPDX-License-Identifier: GPL-2.0-only */
/* The rows of ./hydra bench steps: operations whose instructions are counted. */
#ifndef STEPS_H
#define STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PAGE 4096UL
#define TABLE (512 * PAGE)		/* what one leaf table maps */
#define GIB (512 * TABLE)

/*
 * Where a thread does its operations: 512 GiB of addresses of its own, so that
 * no other thread has memory in any table below the root. Each row maps at fixed
 * addresses of its place, so every policy has the same placement.
 */
struct place {
	char *base;
	int cpu;
	/* What a row keeps from one of its functions to the next; at: its own gigabyte, to begin with. */
	char *at, *other;
	size_t next, size;
	pid_t child;
	int to[2], from[2];
};

/*
 * prepare() and finish() are called once, before() ahead of each sample, and
 * elsewhere() ahead of each sample by a thread on another node, with the place of
 * the one that measures. With --use, all other threads call use() there, too, which
 * only reads. Only once() is measured.
 */
struct row {
	const char *name;
	void (*prepare)(struct place *place);
	void (*before)(struct place *place);
	void (*elsewhere)(struct place *place);
	void (*use)(struct place *place);
	void (*once)(struct place *place);
	void (*finish)(struct place *place);
	bool alone;		/* not while other threads of the process run */
	bool shared;		/* only while they do */
	unsigned int most;	/* samples, where more would take too long */
	size_t size;		/* of the memory of the operation, for rows that differ by it */
	bool more;		/* measured only if it is asked for by name */
};

/* All of them, ended by one without a name. */
extern const struct row calibration_rows[], memory_rows[], process_rows[], lock_rows[];

/* The argument with which the rows that measure exec call this program: it ends at once. */
#define ENDS_AT_ONCE "ends-at-once"

/* The part of a place that is a row's: a gigabyte whose upper tables stay. */
void place_open(struct place *place, size_t row, size_t size);
void place_close(struct place *place, size_t row);

/* Map memory at just this address, at which no mapping may be. */
char *place_map(char *at, size_t size);
void place_unmap(char *at, size_t size);
/* Write to each page. */
void place_touch(char *at, size_t size);

#endif /* STEPS_H */
