// SPDX-License-Identifier: GPL-2.0-only
/*
 * Leaf tables move to the node of the thread that walks them. What Linux keeps in their entries
 * moves along, whatever happens meanwhile.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define LOOK_EVERY_SECOND	4	/* seconds without use: four looks */
#define TIMEOUT_S		30	/* until all tables have moved */
#define TABLES			32UL
#define SIZE			(TABLES * TABLE_SIZE)
#define PAGES			(SIZE / PAGE_SIZE)
#define SEED			0x5eed
#define KSM			"/sys/kernel/mm/ksm/"
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT		21
#endif

FIXTURE(rehome) {
	char *area;
	int last;
};

FIXTURE_SETUP(rehome)
{
	HYDRA_BEGIN();
	self->last = hydra_nodes() - 1;
	self->area = hydra_reserve(SIZE);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	ASSERT_NE(NULL, hydra_map(self->area, PAGES));
}

FIXTURE_TEARDOWN(rehome)
{
	EXPECT_EQ(0, hydra_forget_after(0));
	hydra_assert_consistent();
}

/* The word that a test changes in each of some pages of each table: page 0, 1, ... of the area */
static uint64_t *word_of(char *area, size_t i)
{
	return (uint64_t *)(area + i % TABLES * TABLE_SIZE + i / TABLES * PAGE_SIZE);
}

static void write_words(char *area, size_t nr, uint64_t value)
{
	for (size_t i = 0; i < nr; i++)
		*(volatile uint64_t *)word_of(area, i) = value + i;
}

static size_t wrong_words(char *area, size_t nr, uint64_t value)
{
	size_t wrong = 0;

	for (size_t i = 0; i < nr; i++)
		wrong += *(volatile uint64_t *)word_of(area, i) != value + i;
	return wrong;
}

/* Are all tables of the area on a node? */
static bool are_on(char *area, int node)
{
	struct hydra_map_part part;

	return !hydra_read_map(getpid(), node, area, SIZE, &part) && part.ranges == 1 &&
	       part.node == node && part.bytes == SIZE;
}

static bool await_on(char *area, int node)
{
	double end = hydra_seconds() + TIMEOUT_S;

	while (!are_on(area, node)) {
		if (hydra_seconds() > end)
			return false;
		usleep(100000);
	}
	return true;
}

static uint64_t sum(const uint64_t *by_node)
{
	uint64_t all = 0;

	for (int node = 0; node < hydra_nodes(); node++)
		all += by_node[node];
	return all;
}

/* A thread that goes from node to node finds its tables there, and needs no more of them. */
TEST_F_TIMEOUT(rehome, tables_follow_their_thread, 180)
{
	struct hydra_tables before, after;

	write_words(self->area, 4 * TABLES, SEED);
	EXPECT_TRUE(are_on(self->area, 0));
	EXPECT_FALSE(hydra_is_split());
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	/* After all functions have been called once, for the tables of their own memory */
	ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
	ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
	for (int to = self->last; to >= 0; to -= self->last) {
		hydra_pin_to_node(to);
		EXPECT_TRUE(await_on(self->area, to));
		EXPECT_EQ(0, wrong_words(self->area, 4 * TABLES, SEED));
		ASSERT_EQ(0, hydra_read_tables(getpid(), &after));
		EXPECT_EQ(sum(before.pagetable_kib), sum(after.pagetable_kib));
		EXPECT_LE(4 * TABLES, after.local_leaves[to]);
		EXPECT_FALSE(hydra_is_split());
	}
}

static void *visit_node(void *node)
{
	hydra_pin_to_node(*(int *)node);
	return hydra_is_split() ? node : NULL;
}

/* So do the tables of a process that was split, and is plain Linux again. */
TEST_F_TIMEOUT(rehome, tables_follow_a_process_that_was_split, 180)
{
	double end = hydra_seconds() + TIMEOUT_S;
	pthread_t thread;
	void *was_split;

	write_words(self->area, TABLES, SEED);
	ASSERT_EQ(0, pthread_create(&thread, NULL, visit_node, &self->last));
	pthread_join(thread, &was_split);
	EXPECT_NE(NULL, was_split);
	hydra_pin_to_node(self->last);
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	/* It returns at a switch. */
	while (hydra_is_split() && hydra_seconds() < end)
		usleep(100000);
	EXPECT_FALSE(hydra_is_split());
	EXPECT_TRUE(await_on(self->area, self->last));
	EXPECT_EQ(0, wrong_words(self->area, TABLES, SEED));
}

/* Write a word of each page, for a tenth of a second at least, in all tables by turns. */
static void write_slowly(char *area, size_t nr, uint64_t value)
{
	double end;

	for (size_t i = 0; i < nr; i++) {
		*(volatile uint64_t *)word_of(area, i) = value + i;
		end = hydra_seconds() + 0.1 / nr;
		while (hydra_seconds() < end)
			;
	}
}

/*
 * MADV_FREE clears the dirty bits, and the first write of a page sets its bit again, by hardware.
 * A page without the bit counts as LazyFree: Linux may drop it.
 */
TEST_F_TIMEOUT(rehome, pages_written_meanwhile_are_dirty, 180)
{
	const size_t nr = 16 * TABLES;

	write_words(self->area, nr, SEED);
	ASSERT_EQ(0, madvise(self->area, SIZE, MADV_FREE));
	EXPECT_LT(0, hydra_smaps(self->area, "LazyFree"));
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	for (int i = 0; i < 2; i++) {
		int to = i % 2 ? 0 : self->last;
		double end = hydra_seconds() + TIMEOUT_S;

		hydra_pin_to_node(to);
		do {
			ASSERT_EQ(0, madvise(self->area, SIZE, MADV_FREE));
			write_slowly(self->area, nr, SEED + i);
			ASSERT_EQ(0, hydra_smaps(self->area, "LazyFree"))
				TH_LOG("a page may be dropped after it was written to");
		} while (!are_on(self->area, to) && hydra_seconds() < end);
		EXPECT_TRUE(are_on(self->area, to));
		EXPECT_EQ(0, wrong_words(self->area, nr, SEED + i));
	}
}

/* When a page of a file has been written back, it is clean, and Linux hears of its next write. */
TEST_F_TIMEOUT(rehome, file_written_back_meanwhile_is_clean, 180)
{
	const size_t nr = 4 * TABLES;
	struct hydra_file file;
	int err = hydra_make_file(&file, SIZE);
	uint64_t value = SEED;

	if (err == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_EQ(0, err);
	ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, file.fd, 0));
	write_words(self->area, nr, value);
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	for (int i = 0; i < 4; i++) {
		int to = i % 2 ? 0 : self->last;
		double end = hydra_seconds() + TIMEOUT_S;

		hydra_pin_to_node(to);
		do {
			write_words(self->area, nr, ++value);
			ASSERT_EQ(0, msync(self->area, SIZE, MS_SYNC));
			ASSERT_EQ(0, hydra_smaps(self->area, "Private_Dirty") +
				     hydra_smaps(self->area, "Shared_Dirty"))
				TH_LOG("a page is dirty after it was written back");
		} while (!are_on(self->area, to) && hydra_seconds() < end);
		EXPECT_TRUE(are_on(self->area, to));
		EXPECT_EQ(0, wrong_words(self->area, nr, value));
	}
	hydra_map(self->area, PAGES);
	EXPECT_EQ(0, hydra_remove_file(&file));
}

/* A child has the words, on whatever node its tables are. */
static int fork_and_compare(char *area, size_t nr, uint64_t value)
{
	pid_t child = fork();

	if (!child)
		_exit(!!wrong_words(area, nr, value));
	return hydra_wait_child(child);
}

/* Move the first page of each table to a node. While it moves, its entry is none. */
static long migrate_pages_to(char *area, int node)
{
	int nodes[TABLES], status[TABLES];
	void *pages[TABLES];

	for (size_t i = 0; i < TABLES; i++) {
		pages[i] = word_of(area, i);
		nodes[i] = hydra_node_id(node);
	}
	return syscall(SYS_move_pages, 0, TABLES, pages, nodes, status, 2 /* MPOL_MF_MOVE */);
}

/* Swap, KSM, fork() and page migration change entries meanwhile. */
TEST_F_TIMEOUT(rehome, memory_is_right_meanwhile, 180)
{
	const size_t nr = 8 * TABLES;
	int zram = hydra_swap_on("64M");
	uint64_t value = SEED;

	if (zram != -ENODEV)
		ASSERT_LE(0, zram);
	if (!hydra_write_file(KSM "run", "1"))
		ASSERT_EQ(0, madvise(self->area, SIZE / 2, MADV_MERGEABLE));
	write_words(self->area, nr, value);
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	for (int i = 0; i < 2; i++) {
		int to = i ? 0 : self->last;
		double end = hydra_seconds() + TIMEOUT_S;

		hydra_pin_to_node(to);
		do {
			EXPECT_EQ(0, madvise(self->area, SIZE, MADV_PAGEOUT));
			ASSERT_EQ(0, wrong_words(self->area, nr / 2, value));
			ASSERT_LE(0, migrate_pages_to(self->area, value % 2 ? self->last : 0));
			ASSERT_EQ(0, fork_and_compare(self->area, nr, value));
			/* Half of the pages were swapped out while the child ran. */
			ASSERT_EQ(0, wrong_words(self->area, nr, value));
			write_words(self->area, nr, ++value);
		} while (!are_on(self->area, to) && hydra_seconds() < end);
		EXPECT_TRUE(are_on(self->area, to));
		EXPECT_EQ(0, wrong_words(self->area, nr, value));
	}
	hydra_write_file(KSM "run", "2");
	hydra_write_file(KSM "run", "0");
	if (zram >= 0)
		EXPECT_EQ(0, hydra_swap_off(zram));
}

/* The second thread of a process drops pages, and faults them in again, until it is stopped. */
struct faulter {
	pthread_t thread;
	char *area;
	atomic_int node;
	atomic_bool stop;
	size_t wrong;
};

static void *fault_again(void *arg)
{
	struct faulter *f = arg;
	int node = -1;

	for (uint64_t value = SEED; !atomic_load(&f->stop); value++) {
		if (node != atomic_load(&f->node)) {
			node = atomic_load(&f->node);
			hydra_pin_to_node(node);
		}
		for (int i = 0; i < TABLES; i++)
			f->wrong += madvise(f->area + i * TABLE_SIZE, TABLE_SIZE, MADV_DONTNEED) != 0;
		write_words(f->area, 4 * TABLES, value);
		f->wrong += wrong_words(f->area, 4 * TABLES, value);
	}
	return NULL;
}

/* Two threads of one node: one fills the tables while they move. */
TEST_F_TIMEOUT(rehome, pages_come_and_go_meanwhile, 180)
{
	struct faulter f = { .area = self->area };

	write_words(self->area, TABLES, SEED);
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	ASSERT_EQ(0, pthread_create(&f.thread, NULL, fault_again, &f));
	for (int i = 0; i < 2; i++) {
		int to = i ? 0 : self->last;

		atomic_store(&f.node, to);
		hydra_pin_to_node(to);
		/* It is split while the threads are apart, and returns. */
		EXPECT_TRUE(await_on(self->area, to));
	}
	atomic_store(&f.stop, true);
	pthread_join(f.thread, NULL);
	EXPECT_EQ(0, f.wrong);
}

static void *spin_on_first_node(void *stop)
{
	hydra_pin_to_node(0);
	while (!atomic_load((atomic_bool *)stop))
		;
	return NULL;
}

/* How many tables has the domain of a node that are copies? */
static uint64_t replicas_of(int node)
{
	struct hydra_stats stats;
	const struct hydra_domain_stats *its;

	if (hydra_read_stats(getpid(), &stats))
		return UINT64_MAX;
	its = hydra_on_node(&stats, node);
	return its ? its->replica_tables : 0;
}

/* A table that its owner has left moves to its user, though the process stays split. */
TEST_F_TIMEOUT(rehome, tables_follow_their_last_user_while_split, 180)
{
	const size_t nr = 4 * TABLES;
	double end = hydra_seconds() + TIMEOUT_S;
	uint64_t value = SEED, stale = 0, before;
	atomic_bool stop = false;
	pthread_t thread;

	write_words(self->area, nr, value);
	ASSERT_EQ(0, pthread_create(&thread, NULL, spin_on_first_node, &stop));
	hydra_pin_to_node(self->last);
	/* After all functions have been called once, for the tables of their own memory */
	EXPECT_TRUE(hydra_is_split());
	EXPECT_FALSE(are_on(self->area, self->last));
	replicas_of(self->last);
	before = replicas_of(self->last);
	EXPECT_EQ(0, wrong_words(self->area, nr, value));
	EXPECT_LE(before + TABLES, replicas_of(self->last));
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	do {
		write_words(self->area, nr, ++value);
		EXPECT_EQ(0, wrong_words(self->area, nr, value));
	} while (replicas_of(self->last) > before && hydra_seconds() < end);
	EXPECT_TRUE(hydra_is_split());
	/* The user walks Linux's tables now, at home. */
	EXPECT_GE(before, replicas_of(self->last));
	EXPECT_EQ(0, wrong_words(self->area, nr, value));
	EXPECT_TRUE(are_on(self->area, self->last));
	EXPECT_GE(before, replicas_of(self->last));
	/* The tables that are walked now are the ones that Linux changes. */
	ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
	for (size_t i = 0; i < nr; i++)
		stale += *(volatile uint64_t *)word_of(self->area, i) != 0;
	EXPECT_EQ(0, stale);
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

/* A child that may move its tables waits until they have moved. */
static int await_child(char *area, int to)
{
	pid_t child = fork();

	if (!child) {
		write_words(area, TABLES, SEED);
		hydra_pin_to_node(to);
		_exit(!await_on(area, to));
	}
	return hydra_wait_child(child);
}

/* A process that has locked memory wants no faults. */
TEST_F_TIMEOUT(rehome, tables_stay_while_memory_is_locked, 180)
{
	write_words(self->area, TABLES, SEED);
	ASSERT_EQ(0, mlock(self->area, PAGE_SIZE));
	hydra_pin_to_node(self->last);
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	EXPECT_EQ(0, await_child(self->area, 0));
	EXPECT_EQ(0, await_child(self->area, 0));
	EXPECT_TRUE(are_on(self->area, 0));
	ASSERT_EQ(0, munlock(self->area, PAGE_SIZE));
	/* The keeper looks again when a thread has moved. */
	hydra_pin_to_node(0);
	hydra_pin_to_node(self->last);
	EXPECT_TRUE(await_on(self->area, self->last));
}

TEST_F_TIMEOUT(rehome, tables_stay_when_switched_off, 180)
{
	write_words(self->area, TABLES, SEED);
	hydra_pin_to_node(self->last);
	sleep(3);
	EXPECT_TRUE(are_on(self->area, 0));
	/* The move of the thread is not forgotten. */
	ASSERT_EQ(0, hydra_forget_after(LOOK_EVERY_SECOND));
	EXPECT_TRUE(await_on(self->area, self->last));
}

HYDRA_HARNESS_MAIN
