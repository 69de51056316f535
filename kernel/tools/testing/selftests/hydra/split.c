// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a process gets domain trees, and which: it is plain Linux until threads of
 * it run on a second node, and again when it has a single thread.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES		16
#define SEED		0x5917
#define RETURN_SECONDS	10	/* the kernel waits for one, to see whether it lasts */

FIXTURE(split) {
	char *area;
	int last;
};

/*
 * The test may have come here from another node, where an idle CPU keeps its
 * address space loaded until it has another one to load: this process.
 */
static void visit_all_other_nodes(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 1; node < hydra_nodes(); node++)
		for (int i = hydra_node_cpus(node, cpus) - 1; i >= 0; i--)
			hydra_pin_to_cpu(cpus[i]);
}

FIXTURE_SETUP(split)
{
	int child;

	HYDRA_BEGIN();
	child = fork();
	if (!child) {
		visit_all_other_nodes();
		_exit(0);
	}
	ASSERT_EQ(0, hydra_wait_child(child));
	self->last = hydra_nodes() - 1;
	self->area = hydra_map(hydra_reserve(TABLE_SIZE), PAGES);
	for (size_t i = 0; i < PAGES * PAGE_WORDS; i++)
		((uint64_t *)self->area)[i] = hydra_word(SEED, i / PAGE_WORDS, i % PAGE_WORDS);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
}

FIXTURE_TEARDOWN(split)
{
	hydra_assert_consistent();
}

static bool is_split(void)
{
	struct hydra_stats stats;

	return hydra_read_stats(getpid(), &stats) || stats.split;
}

/* The nodes whose domain has a tree, a bit each */
static uint64_t trees(void)
{
	struct hydra_stats stats;
	uint64_t mask = 0;

	if (hydra_read_stats(getpid(), &stats))
		return ~0ULL;
	for (int node = 0; stats.split && node < hydra_nodes(); node++)
		if (hydra_on_node(&stats, node)->own_root)
			mask |= 1ULL << node;
	return mask;
}

/* Page tables of this process in KiB, on all nodes */
static uint64_t tables_kib(void)
{
	struct hydra_tables tables;
	uint64_t sum = 0;

	if (hydra_read_tables(getpid(), &tables))
		return 0;
	for (int node = 0; node < hydra_nodes(); node++)
		sum += tables.pagetable_kib[node];
	return sum;
}

struct visit {
	pthread_t thread;
	pthread_barrier_t met;
	int node;
	char *area;
	size_t mistakes;
};

static void *visit_node(void *arg)
{
	struct visit *v = arg;

	hydra_pin_to_node(v->node);
	v->mistakes = 0;
	for (size_t i = 0; i < PAGES; i++)
		v->mistakes += *(uint64_t *)(v->area + i * PAGE_SIZE) != hydra_word(SEED, i, 0);
	pthread_barrier_wait(&v->met);
	pthread_barrier_wait(&v->met);
	return NULL;
}

/* A second thread, on a node, which has read the area when this returns */
static void begin_visit(struct __test_metadata *_metadata, struct visit *v, int node, char *area)
{
	v->node = node;
	v->area = area;
	ASSERT_EQ(0, pthread_barrier_init(&v->met, NULL, 2));
	ASSERT_EQ(0, pthread_create(&v->thread, NULL, visit_node, v));
	pthread_barrier_wait(&v->met);
	EXPECT_EQ(0, v->mistakes);
}

static void end_visit(struct visit *v)
{
	pthread_barrier_wait(&v->met);
	pthread_join(v->thread, NULL);
}

TEST_F(split, one_thread_is_plain_linux_wherever_it_goes)
{
	uint64_t before = tables_kib();

	for (int node = 0; node <= self->last; node++) {
		hydra_pin_to_node(node);
		EXPECT_FALSE(is_split())
			TH_LOG("on node %d", hydra_node_id(node));
		EXPECT_EQ(before, tables_kib());
		ASSERT_EQ(0, mprotect(self->area, PAGE_SIZE, PROT_READ));
		ASSERT_EQ(0, mprotect(self->area, PAGE_SIZE, PROT_READ | PROT_WRITE));
	}
	hydra_pin_to_node(0);
}

TEST_F(split, threads_on_one_node_are_plain_linux)
{
	struct visit v;

	begin_visit(_metadata, &v, 0, self->area);
	EXPECT_FALSE(is_split());
	end_visit(&v);
	EXPECT_FALSE(is_split());
}

TEST_F(split, only_nodes_that_run_it_get_trees)
{
	struct visit v, w;

	begin_visit(_metadata, &v, 1, self->area);
	EXPECT_TRUE(is_split());
	EXPECT_EQ(3, trees());
	hydra_assert_consistent();
	begin_visit(_metadata, &w, self->last, self->area);
	EXPECT_EQ(3 | 1ULL << self->last, trees());
	hydra_assert_consistent();
	end_visit(&w);
	end_visit(&v);
}

/* What was mapped before, and changed since, is right on all nodes, back and forth */
TEST_F_TIMEOUT(split, returns_when_one_thread_is_left, 90)
{
	uint64_t before = tables_kib();

	for (int turn = 0; turn < 2; turn++) {
		struct visit v;
		int tries;

		begin_visit(_metadata, &v, self->last, self->area);
		EXPECT_TRUE(is_split());
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ));
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE));
		EXPECT_LT(before, tables_kib());
		end_visit(&v);
		/* Each sleep ends with a switch to this thread. */
		for (tries = 0; is_split() && tries < RETURN_SECONDS * 10; tries++)
			usleep(100000);
		EXPECT_FALSE(is_split());
		/*
		 * The roots of two nodes stay, with a table of 256 TiB each where
		 * there are five levels; and the stack of the thread has tables.
		 */
		EXPECT_GE(before + 2 * 12 + 8, tables_kib());
		for (size_t i = 0; i < PAGES; i++)
			EXPECT_EQ(hydra_word(SEED, i, 0), *(uint64_t *)(self->area + i * PAGE_SIZE));
	}
}

static atomic_int coming;	/* 1: the other thread may come, 2: it runs there */

static void *come(void *arg)
{
	cpu_set_t cpus;

	/* Nothing here may map memory, malloc() neither: the lock for that is taken. */
	CPU_ZERO(&cpus);
	CPU_SET((int)(intptr_t)arg, &cpus);
	while (!atomic_load(&coming))
		__builtin_ia32_pause();
	usleep(20000);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		abort();
	atomic_store(&coming, 2);
	return NULL;
}

/*
 * A thread that comes to a node for the first time runs there soon, also while another
 * one holds mmap_lock, which populates memory for a second or so. Its node gets a tree
 * later.
 */
TEST_F_TIMEOUT(split, thread_that_comes_does_not_wait_for_mmap_lock, 90)
{
	const size_t pages = 1 << 30 >> 12;
	char *area = hydra_map(hydra_reserve(pages * PAGE_SIZE), pages);
	int cpus[HYDRA_MAX_CPUS];
	pthread_t comer;

	hydra_node_cpus(1, cpus);
	atomic_store(&coming, 0);
	ASSERT_EQ(0, pthread_create(&comer, NULL, come, (void *)(intptr_t)cpus[0]));
	atomic_store(&coming, 1);
	/* The page of zeroes, a quarter of a million times */
	ASSERT_EQ(0, madvise(area, pages * PAGE_SIZE, MADV_POPULATE_READ));
	EXPECT_EQ(2, atomic_load(&coming));
	ASSERT_EQ(0, pthread_join(comer, NULL));
	ASSERT_EQ(0, munmap(area, pages * PAGE_SIZE));
}

/* A child that shares the address space until it executes does not count */
TEST_F(split, child_of_vfork_elsewhere_splits_nothing)
{
	int child = vfork();

	if (!child) {
		hydra_pin_to_node(1);
		_exit(0);
	}
	ASSERT_LT(0, child);
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_FALSE(is_split());
}

/* A child of fork begins as plain Linux, however its parent is run */
TEST_F(split, child_of_fork_begins_plain)
{
	struct visit v;
	int child;

	begin_visit(_metadata, &v, 1, self->area);
	child = fork();
	if (!child) {
		struct hydra_stats stats;

		if (hydra_read_stats(getpid(), &stats) || !stats.active)
			_exit(1);
		_exit(stats.split ? 2 : 0);
	}
	ASSERT_LT(0, child);
	EXPECT_EQ(0, hydra_wait_child(child));
	end_visit(&v);
}

HYDRA_HARNESS_MAIN
