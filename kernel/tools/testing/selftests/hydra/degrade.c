// SPDX-License-Identifier: GPL-2.0-only
/*
 * A domain gets no memory for a table above the leaf tables, or for a root. From then on
 * the domain uses the canonical tree, and every flush reaches the domain. The kernel's
 * fault injection lets the allocations of one function fail: see hydra_choose_failures().
 */
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES	16UL
#define SEED	0xdeca
#define TABLE_OF_TABLES	(512 * TABLE_SIZE)	/* what one PMD table maps */

FIXTURE(degrade) {
	char *area;
	int last;		/* the node of the domain without a table */
};

/* From now on no allocation of one function of the kernel succeeds */
static void fail_in(struct __test_metadata *_metadata, const char *function)
{
	ASSERT_EQ(0, hydra_choose_failures(&function, 1))
		TH_LOG("needs CONFIG_FAIL_PAGE_ALLOC, CONFIG_FAILSLAB, CONFIG_FAULT_INJECTION_STACKTRACE_FILTER and debugfs");
	ASSERT_EQ(0, hydra_fail_allocations(100));
}

/* The last domain needs a new table, and gets no memory. */
static void degrade_last(struct __test_metadata *_metadata, int last, const char *addr)
{
	fail_in(_metadata, "hydra_domain_upper");
	EXPECT_EQ(0, hydra_probe(last, (void *)addr, 1, HYDRA_READABLE, SEED));
	ASSERT_EQ(0, hydra_fail_allocations(0));
}

FIXTURE_SETUP(degrade)
{
	struct hydra_stats stats;

	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	hydra_start_workers(HYDRA_SPIN);
	self->last = hydra_nodes() - 1;
	/* Far from all other mappings, so that the area needs its own PMD table. */
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

TEST_F(degrade, memory_is_right_without_upper_table)
{
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
}

TEST_F(degrade, flush_reaches_domain_without_upper_table)
{
	struct hydra_stats before, after;
	char *addr = self->area;

	/* The TLBs of both nodes hold the pages. Only the first node is a sharer. */
	hydra_write_pages(0, addr, PAGES, SEED);
	EXPECT_EQ(0, hydra_probe(self->last, addr, PAGES, HYDRA_READABLE, SEED));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_READ));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	/* The thread of the last node, and the thread of the first node, on its other CPU. */
	EXPECT_LT(0, after.flushes - before.flushes);
	EXPECT_LE(2 * (after.flushes - before.flushes),
		  after.cpus_interrupted - before.cpus_interrupted);
	PROBE_ALL(addr, PAGES, HYDRA_READ_ONLY, SEED);
	ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_NONE));
	PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
	ASSERT_EQ(0, munmap(addr, PAGES * PAGE_SIZE));
	PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
}

TEST_F(degrade, switching_on_again_gives_the_domain_its_tree)
{
	struct hydra_stats stats;

	ASSERT_EQ(0, hydra_off());
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	PROBE_ALL(self->area, PAGES, HYDRA_READABLE, SEED);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_TRUE(hydra_on_node(&stats, self->last)->own_root);
}

/* The kernel lets ten seconds pass. */
TEST_F_TIMEOUT(degrade, domain_gets_its_tree_again, 60)
{
	struct hydra_stats stats = {};

	for (int tries = 0; tries < 200; tries++) {
		/* A thread that comes to the node asks. */
		EXPECT_EQ(0, hydra_probe(self->last, self->area, PAGES, HYDRA_READABLE, SEED));
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
		if (hydra_on_node(&stats, self->last)->own_root)
			break;
		usleep(100000);
	}
	EXPECT_TRUE(hydra_on_node(&stats, self->last)->own_root);
	hydra_assert_consistent();
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
	/* What others change, the node sees in its own tree. */
	ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_NONE));
	PROBE_ALL(self->area, PAGES, HYDRA_NO_ACCESS, 0);
}

/* Start a thread that stays on one node. */
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

/* Finding a function in /proc/kallsyms takes seconds. */
TEST_F_TIMEOUT(no_root, flush_reaches_domain_without_root, 90)
{
	static pthread_barrier_t go;
	int last = self->last, naps = 0;
	struct hydra_stats stats;
	pthread_t thread;
	char *area;

	ASSERT_LT(1, last);
	ASSERT_EQ(0, hydra_leave_other_nodes());
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
	/*
	 * A thread that moved to a node while mmap_lock was taken asks for a root at the
	 * next switch.
	 */
	do {
		hydra_run(last, nap, NULL);
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	} while (!stats.fallbacks && ++naps < 500);
	EXPECT_LT(0, stats.fallbacks);
	EXPECT_FALSE(hydra_on_node(&stats, last)->own_root);

	ASSERT_EQ(0, mprotect(area, PAGES * PAGE_SIZE, PROT_READ));
	PROBE_ALL(area, PAGES, HYDRA_READ_ONLY, SEED);
	ASSERT_EQ(0, mprotect(area, PAGES * PAGE_SIZE, PROT_NONE));
	PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);

	/* The kernel asks again: a lack of memory is not for ever. */
	ASSERT_EQ(0, hydra_fail_allocations(0));
	for (naps = 0; !hydra_on_node(&stats, last)->own_root && naps < 100; naps++) {
		usleep(100000);
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	}
	EXPECT_TRUE(hydra_on_node(&stats, last)->own_root);
	ASSERT_EQ(0, mprotect(area, PAGES * PAGE_SIZE, PROT_READ));
	PROBE_ALL(area, PAGES, HYDRA_READ_ONLY, SEED);
	ASSERT_EQ(0, munmap(area, PAGES * PAGE_SIZE));
	PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);
	hydra_stop_workers();
	pthread_barrier_wait(&go);
	pthread_join(thread, NULL);
}

HYDRA_HARNESS_MAIN
