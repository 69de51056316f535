/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the selftests of Hydra: the kernel's interface, one thread on each NUMA node,
 * and probes that access memory from every node.
 */
#ifndef HYDRA_UTIL_H
#define HYDRA_UTIL_H

#include <linux/hydra.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>

#define HYDRA_SYSFS		"/sys/kernel/mm/hydra/"
#define HYDRA_MAX_NODES		64
#define HYDRA_MAX_CPUS		1024

#ifndef PAGE_SIZE
#define PAGE_SIZE		4096UL
#endif
#define PAGE_WORDS		(PAGE_SIZE / sizeof(uint64_t))
#define TABLE_PAGES		512UL
#define TABLE_SIZE		(TABLE_PAGES * PAGE_SIZE)	/* what one leaf table maps */

/*
 * The machine: nodes with CPUs are counted 0, 1, ..., hydra_nodes() - 1. On a machine with a
 * single node that was booted with hydra_groups=, groups of CPUs take the place of nodes.
 */
int hydra_nodes(void);
int hydra_node_id(int node);
int hydra_node_cpus(int node, int cpus[HYDRA_MAX_CPUS]);
/* The CPUs that a domain of scope node has at this moment. Return: how many. */
int hydra_domain_cpus(int domain, int cpus[HYDRA_MAX_CPUS]);
void hydra_pin_to_cpu(int cpu);
void hydra_pin_to_node(int node);
/*
 * If a test begins on another node, an idle CPU of the other node keeps the test's
 * address space loaded until the CPU loads another address space. So a child process
 * visits all CPUs of other nodes.
 */
int hydra_leave_other_nodes(void);

/* Wait while a word has a value; wake a thread of the same process that waits for the word. */
void hydra_futex_wait(atomic_uint *word, unsigned int value);
void hydra_futex_wake(atomic_uint *word);

/* NULL, or why the tests cannot run on this kernel and machine */
const char *hydra_missing(void);

/*
 * Begin a test. The test fails unless the kernel has Hydra and the machine several nodes.
 * Switches transparent huge pages and forgetting off, moves the thread to node 0, and catches the
 * signals that an access of hydra_try_read(), hydra_try_write() or hydra_try_call() gets.
 */
#define HYDRA_BEGIN() do {						\
	const char *__missing = hydra_missing();			\
									\
	ASSERT_EQ(NULL, __missing)					\
		TH_LOG("%s", __missing);				\
	ASSERT_EQ(0, hydra_begin());					\
} while (0)
int hydra_begin(void);

/*
 * TEST_HARNESS_MAIN, but on a machine of many CPUs, which may be emulated, tests have longer;
 * and each test's process is forked on node 0, where the test begins: so domain 0 owns the
 * tables of the test's own memory, and the main thread needs no fills for it.
 */
#define HYDRA_HARNESS_MAIN						\
int main(int argc, char **argv)						\
{									\
	for (struct __fixture_metadata *f = __fixture_list; f; f = f->next)	\
		for (struct __test_metadata *t = f->tests; t; t = t->next)	\
			t->timeout *= hydra_patience();			\
	if (!hydra_missing())						\
		hydra_pin_to_node(0);					\
	return test_harness_run(argc, argv);				\
}
int hydra_patience(void);

/* The kernel's checker finds no violation of invariants 1 to 5 in the process */
#define hydra_assert_consistent() EXPECT_TRUE(hydra_consistent(getpid()))
bool hydra_consistent(pid_t pid);

/* Settings. All return 0 or a negative errno. */
int hydra_set(const struct hydra_settings *settings);
int hydra_get(struct hydra_settings *settings);
int hydra_on(unsigned int prefetch, unsigned int filter);
int hydra_off(void);

/* Let domains leave tables after so many seconds without use; 0: never. As above */
int hydra_forget_after(unsigned int seconds);

/* Files. Reading returns the length and ends the text with a zero byte. */
int hydra_write_file(const char *path, const char *text);
int hydra_read_file(const char *path, char *text, size_t size);
int hydra_write_policy(pid_t pid, const char *text);

/* Write a formatted text to a file of a directory; @dir ends in a slash */
int __attribute__((format(printf, 3, 4)))
hydra_write_number(const char *dir, const char *name, const char *format, ...);
/* The number in a file, alone (key NULL) or behind a key on a line; -1: no number */
long hydra_number(const char *path, const char *key);
/* A number of /proc/vmstat */
long hydra_vmstat(const char *key);

/* Where tracefs is, and whether it is there: mounts it if it is not */
#define HYDRA_TRACEFS		"/sys/kernel/tracing"
bool hydra_has_tracefs(void);

/*
 * Trace one of Hydra's events, "1", or end that, "0", in an instance of its own, emptied
 * before. It records no names of commands: for these Linux would patch the scheduler, which
 * all CPUs run, and emulators run breakpoints that are gone.
 */
int hydra_trace(const char *instance, const char *event, const char *on);

/* The next random number of a sequence, whose state is never 0; a short seed */
uint64_t hydra_random(uint64_t *state);
uint64_t hydra_seed(void);

/* Flushes of NUMA balancing would hide a missing flush. Return: 0 or -errno. */
#define NUMA_BALANCING	"/proc/sys/kernel/numa_balancing"
int hydra_stop_balancing(void);
int hydra_restore_balancing(void);

/*
 * A compressed RAM disk, for swap or with a file system, mounted on a new directory. Both
 * return the number of the disk, or a negative errno (-ENODEV: CONFIG_ZRAM is off).
 */
int hydra_swap_on(const char *size);
int hydra_swap_off(int zram);
int hydra_mount_disk(const char *size, char directory[32]);
int hydra_unmount_disk(int zram, const char *directory);

/* A file on a disk of its own. Making one returns 0 or a negative errno, as above. */
struct hydra_file {
	int zram, fd;
	char directory[32];
};

int hydra_make_file(struct hydra_file *file, size_t size);
int hydra_remove_file(struct hydra_file *file);

/*
 * Make a memory cgroup; @group is set to the directory, which ends in a slash. Returns 0
 * or a negative errno.
 */
int hydra_make_group(char group[64]);

/*
 * hydra_choose_failures(): choose the kernel functions whose allocations fail: all
 * functions of the kernel's text from the first to the last of @functions, except the
 * function that allocates tables for Linux. hydra_fail_allocations(): let @percent per
 * cent of the allocations fail. Both return 0 or a negative errno (-ENODEV:
 * CONFIG_FAIL_PAGE_ALLOC or CONFIG_FAILSLAB is off).
 */
int hydra_choose_failures(const char * const functions[], int count);
int hydra_fail_allocations(int percent);

/* /proc/PID/hydra */
struct hydra_stats {
	char policy[16], domains[16], replication[16], filter[16];
	uint64_t prefetch, active, split;
	uint64_t fills, prefetched, propagated, flushes;
	uint64_t cpus_interrupted, cpus_spared, fallbacks, reclaimed, forgotten;
	uint64_t replica_tables, replica_kib, upper_tables;
	int nr_domains;
	struct hydra_domain_stats {
		int domain, node;
		bool own_root;
		uint64_t replica_tables, replica_kib, upper_tables, fills, forgotten;
	} domain[HYDRA_MAX_NODES];
};

int hydra_read_stats(pid_t pid, struct hydra_stats *stats);
/* Is this process split? Ends the test if it cannot be told. */
bool hydra_is_split(void);
/* The statistics of the domain with the home @node, counted as above */
const struct hydra_domain_stats *hydra_on_node(const struct hydra_stats *stats, int node);

/* /proc/PID/hydra_tables; all by node, counted as above */
struct hydra_tables {
	uint64_t local_leaves[HYDRA_MAX_NODES];
	uint64_t remote_leaves[HYDRA_MAX_NODES];
	uint64_t pagetable_kib[HYDRA_MAX_NODES];
};

int hydra_read_tables(pid_t pid, struct hydra_tables *tables);
/* /proc/PID/hydra_map: the ranges of a node's domain in some memory */
struct hydra_map_part {
	int ranges;
	int node;		/* of the last of them, counted as above */
	uint64_t bytes;		/* of the memory that have a leaf table */
};

/* With a domain for each core: of the first domain of @node. */
int hydra_read_map(pid_t pid, int node, const void *start, size_t size, struct hydra_map_part *part);

/* A number of an area in /proc/self/smaps, in pages; negative: no such number */
long hydra_smaps(const void *area, const char *key);

/*
 * One thread on each node. HYDRA_SPIN: a thread runs while it waits, so that the CPU
 * keeps every translation that no flush removes. HYDRA_SLEEP: a thread that waits leaves
 * the CPU idle, and Linux flushes an idle CPU lazily.
 */
enum hydra_wait { HYDRA_SLEEP, HYDRA_SPIN };

void hydra_start_workers(enum hydra_wait wait);
void hydra_stop_workers(void);
/* Call fn on a node and wait until fn returns */
void hydra_run(int node, void (*fn)(void *), void *arg);
/* Make a system call on a node. Returns the result or a negative errno. */
#define hydra_syscall(node, nr, ...) \
	hydra_syscall_on(node, nr, (const long[6]){ __VA_ARGS__ })
long hydra_syscall_on(int node, long nr, const long args[6]);

/*
 * Linux clears accessed bits without a flush. Empty the TLBs of the CPUs of all threads,
 * with a munmap() of so many pages that Linux flushes all.
 */
void hydra_empty_tlbs(void);

/* Seconds since some moment of the past */
double hydra_seconds(void);

/* Wait for a child. Returns the exit status, 128 + signal, or -1. */
int hydra_wait_child(pid_t pid);

/* One access. Returns 0 or the signal that the access got. */
int hydra_try_read(const void *addr, uint64_t *value);
int hydra_try_write(void *addr, uint64_t value);
/* Call the function at addr, which takes nothing and returns a number */
int hydra_try_call(const void *addr, int *value);

/*
 * Address space for a test alone: whole leaf tables, with at least one more on each side,
 * all without access. The C library maps nothing into the range.
 */
void *hydra_reserve(size_t size);
/* Private memory in a reserved range */
void *hydra_map(void *addr, size_t pages);

/* A word of a page, if the area was written with a seed. Seed 0: zeroes. */
uint64_t hydra_word(uint64_t seed, size_t page, size_t word);
void hydra_write_pages(int node, void *addr, size_t pages, uint64_t seed);

enum hydra_access {
	HYDRA_NO_ACCESS,	/* reads and writes get SIGSEGV */
	HYDRA_BUS_ERROR,	/* reads and writes get SIGBUS */
	HYDRA_READ_ONLY,	/* writes get SIGSEGV */
	HYDRA_READABLE,		/* writes are not tried */
	HYDRA_READ_WRITE,	/* and what one node writes the next one reads */
};

/*
 * Read, and if allowed write, every page of an area. Prints each mistake, and returns the
 * number of mistakes.
 */
size_t hydra_probe(int node, void *addr, size_t pages, enum hydra_access access, uint64_t seed);
size_t hydra_probe_all(void *addr, size_t pages, enum hydra_access access, uint64_t seed);

/* hydra_probe_all() as a statement of a test */
#define PROBE_ALL(addr, pages, access, seed) \
	EXPECT_EQ(0, hydra_probe_all(addr, pages, access, seed))

#endif /* HYDRA_UTIL_H */
