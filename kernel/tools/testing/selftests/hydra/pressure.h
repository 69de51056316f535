/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Data under pressure. On every node a thread, called keeper, writes pages of all
 * kinds and verifies those that others have written, without a pause, while
 * Linux swaps, merges, moves, splits and forgets them, CPUs go and come,
 * allocations fail and policies change. All at once, or first one pressure after
 * the other.
 *
 * A page says how often it has been written, and whether it is being written
 * now. When it has said the same before and after it was read, its contents must
 * be just those. A pressure that left no trace in the kernel's own counters
 * fails: it would prove nothing.
 *
 *	pressure.c		options, tests, judging
 *	pressure_ground.c	swap, a file, cgroups: what all tests stand on
 *	pressure_keepers.c	the pages, what they say, and their keepers
 *	pressure_linux.c	what Linux does to memory and CPUs
 *	pressure_hydra.c	what is done to Hydra itself
 */
#ifndef PRESSURE_H
#define PRESSURE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hydra_util.h"

/* What is being run: set up by pressure.c */
extern struct options {
	uint64_t seed;
	unsigned int factor;
	unsigned int switches;
	bool each;
	const char *policy;
} option;

uint64_t random_from(uint64_t salt);

/* The ground: pressure_ground.c */

#define FILE_PAGES	128
#define FILE_SEED	0xf11e
#define CPUS		"/sys/devices/system/cpu/"

extern struct ground {
	int file;
	/* why there is none; NULL if there is */
	const char *no_swap, *no_file, *no_groups;
} ground;

void make_ground(void);
void all_cpus_online(void);

/* A number that a file contains alone, or behind a key on a line */
long number_in(const char *path, const char *key);
int __attribute__((format(printf, 3, 4)))
write_number(const char *dir, const char *name, const char *format, ...);
/* The same in the files of our cgroups, "tested" and "neighbour" */
long group_number(const char *name, const char *key);
int group_write(const char *name, const char *text);

/* Pages, and what they say: pressure_keepers.c */

enum kind { SMALL, HUGE, SHARED, FROM_FILE, TWINS, FREED, KINDS };

extern const struct area {
	const char *name;
	size_t pages;
} kinds[KINDS];

#define ALL_PAGES	(384 + 2 * TABLE_PAGES + 128 + FILE_PAGES + 64 + 64)

extern struct page {
	char *addr;
	enum kind kind;
	size_t index;		/* in its area */
	atomic_ulong said;
} pages[ALL_PAGES];

extern struct page *first[KINDS];	/* of each area */

/* Shared with the processes that tests start */
extern struct shared {
	atomic_int mistakes, failures;
	atomic_ulong looked_at_by_children;
} *shared;

/* What goes wrong with a pressure itself; never anything but a failed test */
void __attribute__((format(printf, 1, 2))) failure(const char *format, ...);

#define must(done, ...) do {		\
	errno = 0;			\
	if (!(done))			\
		failure(__VA_ARGS__);	\
} while (0)

extern atomic_bool freeing;		/* may keepers free pages lazily? */
extern atomic_ulong zeroes_seen;	/* pages freed lazily that Linux took */

void make_pages(void);
bool written_by_us(const struct page *p);
void rewrite(struct page *p);
/* A child has it as it was when the child was born */
bool keeps_its_own(const struct page *p);
/* For when nothing changes: each page, seen from here */
void look_at_all(bool (*choose)(const struct page *p));

/* Keepers: pressure_keepers.c */

#define KEEPERS_MAX	64

extern struct keeper {
	pthread_t thread;
	int node, cpu;
	pid_t tid;
	uint64_t random;
	atomic_ulong steps;
	atomic_ulong displaced;	/* found itself on another CPU */
} keepers[KEEPERS_MAX];

extern int nr_keepers;

void start_keepers(void);
void stop_keepers(void);
/* Each keeper has made so many steps since */
void await(unsigned long steps);
/* Fails while the CPU is offline: then we run wherever Linux lets us */
void try_cpu(int cpu);
/* Any CPU that is online, for what calls the kernel */
void go_anywhere(uint64_t *random);
/* A child, at a moment when no page is being written */
pid_t fork_consistently(void);

/* Pressures */

struct pressure {
	const char *name;
	const char *(*missing)(void);		/* NULL, or why it cannot be had here */
	void (*begin)(void);
	void (*step)(unsigned int round, uint64_t *random);
	void (*end)(void);
	unsigned int rounds;			/* steps of the short run */
	const char *counters[4];		/* of /proc/vmstat, that must grow */
	const char *happening;			/* and this, which "happened" counts */
	atomic_ulong happened;
};

/* Those of pressure_linux.c, and of pressure_hydra.c */
extern struct pressure swap_pressure, memory_limit_pressure, lazy_free_pressure,
		       merging_pressure, compaction_pressure, moving_pressure, huge_pages_pressure,
		       oom_kill_pressure, hotplug_pressure, numa_balancing_pressure;
extern struct pressure switching_pressure, failing_allocations_pressure,
		       replica_reclaim_pressure;

static inline void nothing_to_do(void)
{
}

/* The policy that tests start with: pressure_hydra.c */
const char *usual_policy(void);

#endif /* PRESSURE_H */
