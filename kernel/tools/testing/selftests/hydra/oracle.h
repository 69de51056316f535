/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle for stale translations. Memory is divided into zones, one for each kind of
 * memory, and a zone into cells, pieces of address space. Changers, threads on all nodes,
 * do random operations on cells. Each cell records the result that an access must have:
 * the contents, or a signal. After each operation the probes, one thread on each CPU,
 * access cells and compare.
 *
 *	oracle.c		options, runs, changers, coverage
 *	oracle_memory.c		zones, cells, expected results, mistakes
 *	oracle_probes.c		the probes
 *	oracle_rounds.c		with --wander: where the threads run
 *	oracle_operations.c	the changes; oracle_operations.h names their files
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hydra_util.h"

struct op;

/* What is being run: set up by oracle.c */
extern struct run {
	const char *policy;		/* in the words of /proc/self/hydra */
	uint64_t seed;
	unsigned long operations;
	unsigned int changers;
	bool serial;			/* one changer; probes access cells only when asked */
	bool wander;			/* all threads meet on one node after the other */
	bool hydra;			/* the policy is not linux */
	bool failures;			/* allocations of Hydra can be made to fail */
	char directory[32];		/* a file system on a disk */
	char group[64];			/* the memory cgroup of the process, with a slash */
} run;

/* Memory: oracle_memory.c */

#define HUGE_SIZE	TABLE_SIZE
#define MAX_CELLS	192	/* of a zone */

enum access {
	HOLE,			/* not mapped */
	NO_ACCESS,
	READ_ONLY,
	READ_WRITE,
	WRITE_IS_BUS,		/* write-protected by userfaultfd */
	READ_IS_BUS,		/* beyond the end of a file, and not writable */
	ALL_IS_BUS,		/* beyond the end of the file, or missing for userfaultfd */
};

static inline bool may_read(enum access access)
{
	return access == READ_ONLY || access == READ_WRITE || access == WRITE_IS_BUS;
}

/*
 * A piece of memory, of which the first page is used. The changer that holds the lock
 * knows the state, and announces each change to all probes, before and after.
 */
struct cell {
	pthread_mutex_t lock;
	struct state {
		enum access access;
		bool maybe_zero;	/* after MADV_FREE */
		uint64_t contents;	/* 0: zeroes */
		unsigned int backing;	/* page of the file */
	} now;
	enum access later;		/* between the halves of an operation */

	atomic_ulong said;		/* generation, state, whether a change is under way */
	atomic_ulong says_contents, says_contents_too;
	atomic_ulong by;		/* the last operation, see op_id() */
};

enum {
	ANONYMOUS, LONELY, USERFAULT, MERGEABLE, MEMFD, PRIVATE_FILE, SHARED_FILE, HUGE, HUGE_MEMFD, HUGETLB_PRIVATE, HUGETLB_SHARED, ZONES
};

#define IN(zone)	(1U << (zone))
#define PRIVATE_ZONES	(IN(ANONYMOUS) | IN(LONELY) | IN(USERFAULT) | IN(MERGEABLE) | \
			 IN(HUGE) | IN(HUGETLB_PRIVATE))	/* zero at first */
#define SHARED_ZONES	(IN(MEMFD) | IN(SHARED_FILE) | IN(HUGE_MEMFD) | IN(HUGETLB_SHARED))

extern struct zone {
	const char *name;
	uintptr_t at;
	unsigned int cells;
	size_t step, size;		/* from one cell to the next; of what is mapped of each */
	unsigned int huge;		/* cells in a huge page */
	unsigned int weight;		/* how often a changer draws the zone */
	int fd, disk;			/* the file; the same file, without the page cache */
	struct cell cell[MAX_CELLS];
} zones[ZONES];

static inline bool is_in(const struct zone *z, unsigned int set)
{
	return set >> (z - zones) & 1;
}

static inline char *address(const struct zone *z, unsigned int cell)
{
	return (char *)z->at + cell * z->step;
}

/* NULL, or the missing setting and the remedy. */
const char *make_zones(void);
/* Map cells anew, readable and writable, and record the new states. */
bool map_cells(struct zone *z, unsigned int first, unsigned int count);
/* A page for one probe alone, in a leaf table that no other node shares; NULL: no page left */
#define OWN_AT		0x400000000000UL
char *map_own_page(unsigned int probe);
extern int userfault_fd;
uint64_t file_contents(unsigned int backing);

/* The contents of a page: the writer, the operation, the part of the operation */
#define PATTERN_WORDS	8
#define BY_CHILD	0xfe
#define BY_FILE		0xff

uint64_t contents_by(unsigned int writer, unsigned long number, unsigned int part);

static inline uint64_t pattern_word(uint64_t contents, unsigned int word)
{
	return contents ? contents | word : 0;
}

static inline size_t pattern_offset(unsigned int word)
{
	return word * (PAGE_SIZE / PATTERN_WORDS);
}

void fill_page(void *page, uint64_t contents);

/* Between the words of the pattern, two for each probe */
#define MAX_PROBES	127

static inline size_t stamp_offset(unsigned int probe)
{
	return (4 * probe + 1) * sizeof(uint64_t);
}

static inline size_t scratch_offset(unsigned int probe)
{
	return (4 * probe + 3) * sizeof(uint64_t);
}

/*
 * announce_change(): the cell is about to change, perhaps to the contents of another
 * cell. announce(): the new state.
 */
void announce_change(struct cell *c, uint64_t by, uint64_t contents_too);
void announce(struct cell *c);

/* One look at a cell: how the accesses ended, or should end if not tried */
struct sight {
	int read_signal, write_signal;
	uint64_t value;
};

enum look {
	LOOK_CLOSELY,	/* no changer changes the cell meanwhile: try all, write the stamp */
	LOOK,		/* a changer may change the cell: try what the cell allows */
	LOOK_ANYHOW,	/* try something */
};

struct looker {
	int cpu, probe;		/* probe -1: writes nothing */
	uint64_t random;
};

void look_at(struct looker *l, struct zone *z, unsigned int cell, unsigned int word,
	     enum look how, uint64_t stamp, struct sight *sight);

extern atomic_uint mistakes;
void __attribute__((format(printf, 4, 5)))
mistake(uint64_t by, const struct looker *l, const void *addr, const char *format, ...);

/* Changes: oracle_operations.c */

#define SAMPLES	6			/* cells that probes look at after an operation */

struct op {
	unsigned int changer;
	unsigned long number;
	unsigned int half;		/* 0, 1: some operations have two */
	uint64_t random;
	struct kind *kind;
	struct zone *zone;
	unsigned int first, count;	/* the cells that the operation changes */
	unsigned int other;		/* for kinds that MOVE: the destination */
	unsigned int locked;		/* cells, of which some may turn out to be unfit */
	bool locked_other;
	bool rewrite[2];		/* in each half: the changer first accesses the cells */
	int cpu;			/* the CPU of the changer, or -1: any */
	int awake[2];			/* CPUs whose probes run during the operation */
	enum { DO_NOTHING, DO_LOOK, DO_GATHER, PASTIMES } pastime;	/* of those probes */
	bool together;			/* probes do not wait for each other */
	unsigned int word;		/* the word of the pattern that probes look at */
	unsigned int sample[SAMPLES];
	uint64_t note[2];		/* from one half to the other */
};

enum needs { NOTHING, MAPPED, READABLE, WRITABLE, PROTECTED, MISSING };

extern struct kind {
	const char *name;
	unsigned int zones;
	enum needs needs;
	unsigned int flags;
#define WHOLE		1	/* changes a whole zone */
#define ALIGNED		2	/* whole huge pages */
#define PART		4	/* a part of a huge page */
#define MOVES		8	/* cells to where others are */
#define SEVERAL		16	/* not a single cell */
#define QUIET		64	/* no access can tell: to be proved in another way */
#define UNSEEN		128	/* nor one of what is written afterwards */
#define HYDRA_ONLY	256
#define NEEDS_FAILURES	512	/* allocations that fail */
#define NEEDS_IDLE	1024	/* Linux's marks of idle pages */
#define NEEDS_NODES	2048	/* memory on several nodes */
#define SWITCHES	4096	/* the policy of the process */
	unsigned int weight;
	/* False: Linux refused the operation, which then does not count */
	bool (*begin)(struct op *op);
	/* The second half, after all probes have looked */
	void (*end)(struct op *op);
	const char *unavailable;
	/*
	 * done: how often the operation succeeded; proved: how often with the intended
	 * effect; seen: how often a probe saw a difference
	 */
	atomic_ulong done, proved, seen;
} kinds[];

extern const unsigned int nr_kinds;

const char *prepare_operations(void);
bool fits(const struct cell *c, enum needs needs);
/* The kind of operation after which the cell fits */
struct kind *repair(const struct zone *z, const struct cell *c, enum needs needs);
uint64_t op_id(const struct op *op);
bool must(const struct op *op, bool done, const char *call);
/* The changer reads the cells of the operation, and writes them if writable. */
void rewrite_cells(struct op *op);

/* Probes: oracle_probes.c */

extern atomic_int changers_on[HYDRA_MAX_CPUS];
extern atomic_ulong looks;

unsigned int nr_probes(void);
/* The CPU of the probe while threads are apart */
int probe_cpu(unsigned int probe);
void start_probes(void);
void stop_probes(void);
/*
 * All probes look at the samples of @op, then use the samples of @next, to cache
 * translations; each may be NULL
 */
void ask_probes(unsigned int changer, const struct op *op, const struct op *next);
/* While no changer changes anything: all probes look at all cells */
void ask_probes_for_all(unsigned int changer);
/* The stamp of a probe in the cells at which the probe looked closely */
uint64_t stamp(const struct op *op, unsigned int probe);

/* Rounds: oracle_rounds.c */

/* After start_probes() */
void begin_rounds(void);
/* Called by the main thread all the time */
void go_round(void);
/* The CPU on which a thread has to run now, if @cpu is its CPU while threads are apart */
int place(int cpu);
/* Has all happened at least once that rounds are for? */
bool rounds_worked(void);
void tell_rounds(void);

#endif /* ORACLE_H */
