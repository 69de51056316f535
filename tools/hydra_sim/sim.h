/* SPDX-License-Identifier: GPL-2.0-only */
/* A model of page tables of a program on several sockets, and what they cost under policies. */
#ifndef SIM_H
#define SIM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int64_t s64;

#include "auto_rules.h"
#include "process_rules.h"

#define MAX_SOCKETS	16
#define MAX_CPUS	256
#define MAX_TABLES	8192		/* leaf tables, 16 GiB of pages */
#define PAGES		512		/* of a leaf table */

/* Prices in ns that no rule needs. */
#define PRICE_KEEPER	2000		/* a look at a process */
#define PRICE_SAMPLE	5000		/* the accessed bits of a table, read and cleared */
#define PRICE_REHOME	2000		/* a table that moves to another socket */
#define MOST_LOOKS	2048		/* copies; a flush of more goes by table */

enum op {
	OP_RUN,		/* the CPU runs the program from now on */
	OP_STOP,	/* and no more */
	OP_USE,		/* TLB misses: one walk for each page */
	OP_CHANGE,	/* entries change, and no CPU is flushed */
	OP_FLUSH,	/* entries change, and a flush follows */
	OP_FREE,	/* the same, and the tables of the range are freed */
	OP_END,		/* the program ends: only the time counts */
	OPS
};

/* Traces consist of these, in the order of the machine that writes them. */
struct record {
	u32 time;	/* microseconds */
	u16 cpu;
	u16 op;
	u32 page;	/* the first; table page / PAGES */
	u32 n;		/* pages */
};

/* What a policy has cost */
struct costs {
	u64 interrupts, fills, changes, looks, flushes, remote_walks, walks, drops;
	u64 ns, cpu_ns;			/* the program's CPU time, without what is in ns */
	u64 decisions;			/* splits and returns */
	u32 tables, tables_most;	/* leaf tables, replicas included */
	u64 first_interrupts, first_flushes, last_interrupts, last_flushes;	/* quarters of the time */
};

struct machine;

extern const char *const policies[];		/* ends with NULL */
extern struct hydra_prices prices;		/* that the rules know */
extern struct hydra_prices actual;		/* that things cost */

/* Might auto have done as the policy does: on Linux, or with a tree for each socket? */
bool policy_compares(const char *policy);

/* A machine under a policy; @end: time of the last record, for the quarters. */
struct machine *machine_new(const char *policy, u32 sockets, u32 cpus, u32 end);
void machine_step(struct machine *m, const struct record *r);
const struct costs *machine_costs(const struct machine *m);
void machine_free(struct machine *m);

/* Patterns emit the records of a program. */
struct pattern {
	const char *name, *help;
	void (*make)(void);
};

extern const struct pattern patterns[];		/* ends with a name of NULL */

struct plan {
	u32 sockets, cpus;	/* CPUs for each socket */
	u32 seconds, tick_us;	/* how long; each thread does something once a tick */
	u64 seed;
};

extern struct plan plan;

/* The pattern's records go to the caller's function, in the order of time. */
void pattern_make(const struct pattern *pattern, void (*emit)(const struct record *r));

/* A stream of numbers that depends on the seed only. */
u32 draw(u64 *state, u32 below);

/*
 * So many random traces against the best choice in hindsight. Return: false if a rule breaks
 * its bound; the trace has been printed.
 */
bool bounds_hold(u64 traces, u64 seed, bool json);

#endif /* SIM_H */
