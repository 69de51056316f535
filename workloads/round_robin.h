/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads that take turns, so that none waits for another in the kernel: all
 * their CPUs are busy with this process all the time, and the interrupts of one
 * operation are known one by one.
 */
#ifndef ROUND_ROBIN_H
#define ROUND_ROBIN_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define GIB (1UL << 30)
#define ROUND_ROBIN_PLACE ((char *)(1UL << 40))
#define ROUND_ROBIN_MOST 500UL		/* threads, so that a leaf table for each is within a GiB */

struct worker {
	/* A cache line of its own. */
	volatile uint64_t done __attribute__((aligned(64)));
	size_t number;
	int node;
};

/* What threads do in their turns. */
struct round_robin_kind {
	const char *name;
	void (*prepare)(void);			/* ahead of all turns; may be NULL */
	/* One turn of a thread; it tells of each operation by round_robin_operation(). */
	void (*turn)(struct worker *worker);
};

struct round_robin {
	const struct round_robin_kind *kinds;		/* ended by one without a name */
	const struct round_robin_kind *kind;		/* the one of them that the argument names; else set by the program */
	/* What all threads do when one asks by round_robin_ask_all(); may be NULL. */
	void (*asked)(struct worker *worker);
	uint64_t per_node;		/* threads on so many CPUs of each node; 0: on all */
	uint64_t nodes;			/* and on so many nodes; 0: on all */
	bool alone;			/* one thread in all, on the first CPU of the first node */
	uint64_t rounds;
	double seconds;			/* stop after so many, but not before the second round is over */
	uint64_t look_ms;		/* policy "auto" decides first, with a look each so many ms; 0: it may decide at any time */
};

/*
 * The options --rounds, --seconds, --per-node, --nodes and --decide, and the
 * argument that names a kind, as an argp child. Its input is a struct round_robin.
 */
extern const struct argp round_robin_argp;

/* Run it. Leaves with a message if the machine lacks what is needed. */
void round_robin_run(const struct round_robin *turns);

size_t round_robin_count(void);

/* Threads take turns that do not count, as policy "auto" has not decided yet. */
bool round_robin_is_warming_up(void);
struct worker *round_robin_worker(size_t number);

/* Ask all threads, the calling one too, and wait until each has done it. */
void round_robin_ask_all(struct worker *worker);

/*
 * An operation ends here: the interrupts since the end of the last one are its
 * own. Operations of the first round do not count: it makes the page tables that
 * stay. @kind is a number of the program's, by which it asks for them.
 */
void round_robin_operation(int kind);

/* The interrupts since the end of the last operation belong to none. */
void round_robin_forget(void);

/* Write the list of each operation's interrupts into the JSON object that is open. */
void round_robin_print_interrupts(const char *key, int kind);

/*
 * Run it, and print one line of JSON: the program, what @about writes, the interrupts of each
 * operation, the page tables and the fills. Return: what main() returns.
 */
int round_robin_report(const struct round_robin *turns, const char *program,
		       void (*about)(const struct round_robin *turns));

/*
 * As a store that is saved: make a child that does nothing but hold all pages, in the place of
 * the last one. It ends with the thread that made it.
 */
void hold_pages(void);

#endif /* ROUND_ROBIN_H */
