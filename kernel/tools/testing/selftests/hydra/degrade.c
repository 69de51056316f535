// SPDX-License-Identifier: GPL-2.0-only
/*
 * No memory for a table above the leaf tables: its domain uses the canonical
 * tree from then on, and takes part in every flush. The failures are made by
 * the kernel's fault injection, limited to the one function that asks for such
 * tables, so this needs CONFIG_FAIL_PAGE_ALLOC and
 * CONFIG_FAULT_INJECTION_STACKTRACE_FILTER.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES	16UL
#define SEED	0xdeca
#define INJECT	"/sys/kernel/debug/fail_page_alloc/"
#define TABLE_OF_TABLES	(512 * TABLE_SIZE)	/* what one PMD table maps */

FIXTURE(degrade) {
	char *area;
	int last;		/* the node whose domain will be without */
};

/* Where a function of the kernel begins and the next one does */
static int find_function(const char *name, unsigned long *start, unsigned long *end)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	unsigned long addr;
	char type, symbol[512];

	*start = 0;
	*end = ~0UL;
	for (int pass = 0; f && pass < 2; pass++) {
		rewind(f);
		while (fscanf(f, "%lx %c %511s%*[^\n]", &addr, &type, symbol) == 3) {
			if (!pass && !strcmp(symbol, name))
				*start = addr;
			if (pass && addr > *start && addr < *end)
				*end = addr;
		}
	}
	if (f)
		fclose(f);
	return *start && *end != ~0UL ? 0 : -ENOENT;
}

static int inject(const char *key, const char *format, unsigned long value)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), INJECT "%s", key);
	snprintf(text, sizeof(text), format, value);
	return hydra_write_file(path, text);
}

/* From now on no allocation of one function of the kernel succeeds */
static void fail_in(struct __test_metadata *_metadata, const char *function)
{
	unsigned long start, end;

	ASSERT_EQ(0, find_function(function, &start, &end));
	ASSERT_EQ(0, inject("probability", "%lu", 100))
		TH_LOG("needs CONFIG_FAIL_PAGE_ALLOC and debugfs at /sys/kernel/debug");
	ASSERT_EQ(0, inject("interval", "%lu", 1));
	ASSERT_EQ(0, inject("space", "%lu", 0));
	ASSERT_EQ(0, inject("verbose", "%lu", 0));
	ASSERT_EQ(0, inject("min-order", "%lu", 0));
	ASSERT_EQ(0, inject("ignore-gfp-wait", "N", 0));
	ASSERT_EQ(0, inject("stacktrace-depth", "%lu", 32))
		TH_LOG("needs CONFIG_FAULT_INJECTION_STACKTRACE_FILTER");
	ASSERT_EQ(0, inject("require-start", "0x%lx", start));
	ASSERT_EQ(0, inject("require-end", "0x%lx", end));
	ASSERT_EQ(0, inject("times", "%ld", -1));
}

/* From now on the last domain gets no table it does not have */
static void degrade_last(struct __test_metadata *_metadata, int last, const char *addr)
{
	fail_in(_metadata, "hydra_domain_upper");
	EXPECT_EQ(0, hydra_probe(last, (void *)addr, 1, HYDRA_READABLE, SEED));
	ASSERT_EQ(0, inject("times", "%lu", 0));
}

FIXTURE_SETUP(degrade)
{
	struct hydra_stats stats;

	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	hydra_start_workers(HYDRA_SPIN);
	self->last = hydra_nodes() - 1;
	/* Far from everything else, so that it needs a PMD table of its own. */
	self->area = hydra_reserve(2 * TABLE_OF_TABLES);
	self->area = (char *)(((uintptr_t)self->area + TABLE_OF_TABLES - 1) &
			      ~(TABLE_OF_TABLES - 1));
	ASSERT_NE(NULL, hydra_map(self->area, PAGES));
	hydra_write_pages(0, self->area, PAGES, SEED);
	degrade_last(_metadata, self->last, self->area);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	ASSERT_LT(0, stats.fallbacks);
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(node != self->last, hydra_on_node(&stats, node)->own_root)
			TH_LOG("node %d", hydra_node_id(node));
	}
}

FIXTURE_TEARDOWN(degrade)
{
	hydra_assert_consistent();
	hydra_stop_workers();
}

TEST_F(degrade, program_goes_on)
{
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
}

TEST_F(degrade, every_flush_reaches_it)
{
	struct hydra_stats before, after;
	char *addr = self->area;

	/* Both have them in their TLBs; only the first is a sharer. */
	hydra_write_pages(0, addr, PAGES, SEED);
	EXPECT_EQ(0, hydra_probe(self->last, addr, PAGES, HYDRA_READABLE, SEED));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_READ));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	/* The thread of the last node, and that of the first, on its other CPU. */
	EXPECT_LT(0, after.flushes - before.flushes);
	EXPECT_LE(2 * (after.flushes - before.flushes),
		  after.cpus_interrupted - before.cpus_interrupted);
	PROBE_ALL(addr, PAGES, HYDRA_READ_ONLY, SEED);
	ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_NONE));
	PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
	ASSERT_EQ(0, munmap(addr, PAGES * PAGE_SIZE));
	PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
}

TEST_F(degrade, switching_gives_it_another_chance)
{
	struct hydra_stats stats;

	ASSERT_EQ(0, hydra_off());
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	PROBE_ALL(self->area, PAGES, HYDRA_READABLE, SEED);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_TRUE(hydra_on_node(&stats, self->last)->own_root);
}

/*
 * A CPU of another node where this process has begun keeps its address space loaded
 * until it has another one to load: that of a child.
 */
static void leave_other_nodes(struct __test_metadata *_metadata)
{
	int cpus[HYDRA_MAX_CPUS];
	pid_t child = fork();

	if (!child) {
		for (int node = 1; node < hydra_nodes(); node++)
			for (int i = hydra_node_cpus(node, cpus) - 1; i >= 0; i--)
				hydra_pin_to_cpu(cpus[i]);
		_exit(0);
	}
	ASSERT_EQ(0, hydra_wait_child(child));
}

/* A thread that has never run elsewhere */
static int start_on_node_1(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	int cpus[HYDRA_MAX_CPUS];
	pthread_attr_t attr;
	cpu_set_t set;

	hydra_node_cpus(1, cpus);
	CPU_ZERO(&set);
	CPU_SET(cpus[0], &set);
	if (pthread_attr_init(&attr) || pthread_attr_setaffinity_np(&attr, sizeof(set), &set))
		return -1;
	return pthread_create(thread, &attr, fn, arg);
}

static void *sit_on_node_1(void *go)
{
	hydra_pin_to_node(1);
	pthread_barrier_wait(go);
	pthread_barrier_wait(go);
	return NULL;
}

static void nap(void *arg)
{
	usleep(1000);
}

/*
 * Domains that come to the process when no root can be had for them: they use the
 * canonical tree, and take part in every flush.
 */
FIXTURE(no_root) {
	int last;
};

FIXTURE_SETUP(no_root)
{
	HYDRA_BEGIN();
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(no_root)
{
	hydra_assert_consistent();
}

/* To find a function among all names takes its time. */
TEST_F_TIMEOUT(no_root, no_root_for_a_domain_that_comes_later, 90)
{
	static pthread_barrier_t go;
	int last = self->last, naps = 0;
	struct hydra_stats stats;
	pthread_t thread;
	char *area;

	ASSERT_LT(1, last);
	leave_other_nodes(_metadata);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	ASSERT_EQ(0, pthread_barrier_init(&go, NULL, 2));
	ASSERT_EQ(0, start_on_node_1(&thread, sit_on_node_1, &go));
	pthread_barrier_wait(&go);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	ASSERT_EQ(1, stats.split);
	ASSERT_TRUE(hydra_on_node(&stats, 1)->own_root);
	ASSERT_FALSE(hydra_on_node(&stats, last)->own_root);

	fail_in(_metadata, "hydra_pgd_alloc");
	hydra_start_workers(HYDRA_SPIN);
	area = hydra_map(hydra_reserve(TABLE_SIZE), PAGES);
	hydra_write_pages(0, area, PAGES, SEED);
	EXPECT_EQ(0, hydra_probe(last, area, PAGES, HYDRA_READABLE, SEED));
	/* If mmap_lock was taken when a thread came, its next switch asks again. */
	do {
		hydra_run(last, nap, NULL);
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	} while (!stats.fallbacks && ++naps < 500);
	ASSERT_EQ(0, inject("times", "%lu", 0));
	EXPECT_LT(0, stats.fallbacks);
	EXPECT_FALSE(hydra_on_node(&stats, last)->own_root);

	ASSERT_EQ(0, mprotect(area, PAGES * PAGE_SIZE, PROT_READ));
	PROBE_ALL(area, PAGES, HYDRA_READ_ONLY, SEED);
	ASSERT_EQ(0, munmap(area, PAGES * PAGE_SIZE));
	PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);
	hydra_stop_workers();
	pthread_barrier_wait(&go);
	pthread_join(thread, NULL);
}

HYDRA_HARNESS_MAIN
