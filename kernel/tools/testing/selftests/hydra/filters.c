// SPDX-License-Identifier: GPL-2.0-only
/*
 * The filters of TLB shootdowns, by entry and by accessed bit, and "auto", by which the flushes
 * of a table choose. A shootdown interrupts the users of a page, and no node that only shares the
 * leaf table. No node continues to use an old page. The tests also run with the filter by table,
 * to show that the tests can see interrupts.
 */
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <time.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define PAGES		16	/* which the spinners read */
#define SIZE		(PAGES * PAGE_SIZE)
#define FAR		256	/* a page of the same leaf table, used by one node alone */
#define TIMES		10
#define CHANCES		30	/* for two threads to meet MET times */
#define MET		4
#define TIMEOUT_S	100	/* seconds for them to meet once */
#define OPERATIONS	100	/* that must interrupt no CPU */
#define COSTLY		10	/* that must interrupt at least one CPU */
#define MANY		1000	/* that must interrupt other CPUs LINKED times in all */
/*
 * Entries of a linked table have no marks, so every flush interrupts all domains with a
 * link. After 8 flushes that reached a domain only for its link, Hydra cuts the link and
 * flushes the domain once.
 */
#define LINKED		9

static const char * const names[] = { "none", "table", "entry", "accessed", "auto" };

#define NR_FILTERS	(sizeof(names) / sizeof(*names))

FIXTURE(filters) {
	char *area;	/* four leaf tables */
	char *alone;
};

/* Prefetched entries count as copies, so filter=entry is tested with prefetch=0. */
FIXTURE_VARIANT(filters) {
	unsigned int filter, prefetch;
};

FIXTURE_VARIANT_ADD(filters, table) {
	.filter = HYDRA_FILTER_TABLE, .prefetch = 9,
};

FIXTURE_VARIANT_ADD(filters, entry) {
	.filter = HYDRA_FILTER_ENTRY, .prefetch = 0,
};

FIXTURE_VARIANT_ADD(filters, accessed) {
	.filter = HYDRA_FILTER_ACCESSED, .prefetch = 9,
};

FIXTURE_VARIANT_ADD(filters, auto) {
	.filter = HYDRA_FILTER_AUTO, .prefetch = 9,
};

static int begin(char **area, char **alone, unsigned int filter, unsigned int prefetch)
{
	int error = spinners_begin(area, alone) ?: hydra_on(prefetch, filter);

	if (error)
		fprintf(stderr, "# filter %s: %s; see " HYDRA_SYSFS "supported\n",
			names[filter], strerror(-error));
	hydra_start_workers(HYDRA_SLEEP);
	return error;
}

FIXTURE_SETUP(filters)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, begin(&self->area, &self->alone, variant->filter, variant->prefetch));
}

FIXTURE_TEARDOWN(filters)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
	hydra_assert_consistent();
}

/*
 * For tests that look for old pages. shootdown.c and bystanders.c do so with the filter
 * by table.
 */
FIXTURE(old_pages) {
	char *area;
	char *alone;
};

FIXTURE_VARIANT(old_pages) {
	unsigned int filter, prefetch;
};

FIXTURE_VARIANT_ADD(old_pages, entry) {
	.filter = HYDRA_FILTER_ENTRY, .prefetch = 0,
};

FIXTURE_VARIANT_ADD(old_pages, accessed) {
	.filter = HYDRA_FILTER_ACCESSED, .prefetch = 9,
};

FIXTURE_VARIANT_ADD(old_pages, auto) {
	.filter = HYDRA_FILTER_AUTO, .prefetch = 9,
};

FIXTURE_SETUP(old_pages)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, begin(&self->area, &self->alone, variant->filter, variant->prefetch));
}

FIXTURE_TEARDOWN(old_pages)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
	hydra_assert_consistent();
}

/* Interrupts */

static uint64_t interrupts_before[HYDRA_MAX_CPUS], interrupts[HYDRA_MAX_CPUS];

static void begin_count(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, read_interrupts(interrupts_before));
}

static void end_count(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, read_interrupts(interrupts));
	for (int cpu = 0; cpu < HYDRA_MAX_CPUS; cpu++)
		interrupts[cpu] -= interrupts_before[cpu];
}

static void expect_at_least(struct __test_metadata *_metadata, uint64_t least,
			    const struct spinner *s)
{
	EXPECT_LE(least, interrupts[s->cpu])
		TH_LOG("CPU %d of node %d has the page, and is not interrupted", s->cpu,
		       hydra_node_id(s->node));
}

static void expect_at_most(struct __test_metadata *_metadata, uint64_t most,
			   const struct spinner *s)
{
	EXPECT_GE(most, interrupts[s->cpu])
		TH_LOG("CPU %d of node %d is interrupted for nothing", s->cpu,
		       hydra_node_id(s->node));
}

static void expect_fresh(struct __test_metadata *_metadata, const struct spinner *stale,
			 const char *what)
{
	ASSERT_EQ(NULL, stale)
		TH_LOG("CPU %d of node %d reads a page %s", stale->cpu,
		       hydra_node_id(stale->node), what);
}

static void spin_everywhere_but_on(int node)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int other = 0; other < hydra_nodes(); other++) {
		int count = other == node ? 0 : hydra_node_cpus(other, cpus);

		for (int i = 0; i < count; i++)
			start_spinner(other, cpus[i]);
	}
}

/* One spinner on each node: the CPUs of an emulated machine share few real CPUs. */
static void spin_once_on_other_nodes(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 1; node < hydra_nodes(); node++) {
		hydra_node_cpus(node, cpus);
		start_spinner(node, cpus[0]);
	}
}

static int last_cpu(int node)
{
	int cpus[HYDRA_MAX_CPUS];

	return cpus[hydra_node_cpus(node, cpus) - 1];
}

/* The first words of some pages */
static void write_words(volatile uint64_t *word, size_t pages, uint64_t value)
{
	for (size_t page = 0; page < pages; page++)
		word[page * PAGE_WORDS] = value;
}

/* What a node does alone, again and again */
static struct churn {
	char *page;
	unsigned int rounds;
	bool costly;	/* Wait for the spinners: a spinner that does not run is not interrupted. */
	int errors;
} churn;

static void map_touch_unmap(void *arg)
{
	struct churn *c = arg;

	for (unsigned int i = 0; i < c->rounds; i++) {
		if (c->costly)
			await_all();
		hydra_map(c->page, 1);
		*(volatile uint64_t *)c->page = 1;
		c->errors += munmap(c->page, PAGE_SIZE) != 0;
	}
}

/*
 * Node 1 maps, touches and unmaps a page that no other node uses, in a table that all
 * nodes share. Node 0 links the table.
 */
TEST_F_TIMEOUT(filters, own_page_in_shared_table_interrupts_no_other_node, 120)
{
	bool by_table = variant->filter == HYDRA_FILTER_TABLE;

	hydra_map(self->area, PAGES);
	*(volatile uint64_t *)self->area = 5;
	spin_everywhere_but_on(1);
	ASSERT_TRUE(watch_all((uint64_t *)self->area, 5));
	churn = (struct churn){
		.page = self->area + FAR * PAGE_SIZE,
		.rounds = by_table ? COSTLY : MANY,
		.costly = by_table,
	};
	begin_count(_metadata);
	hydra_run(1, map_touch_unmap, &churn);
	end_count(_metadata);
	EXPECT_EQ(0, churn.errors);
	for (int i = 0; i < spin.count; i++) {
		const struct spinner *s = &spin.spinners[i];

		if (by_table)
			expect_at_least(_metadata, MOST(COSTLY), s);
		else
			expect_at_most(_metadata, (s->node ? 0 : LINKED) + STRAY, s);
	}
}

/*
 * Node 0 links a table. Node 1 drops pages of the table, before and after Hydra cuts the
 * link.
 */
TEST_F_TIMEOUT(old_pages, linker_is_told_before_and_after_its_link_is_cut, 120)
{
	start_spinner(0, last_cpu(0));
	start_spinner(hydra_nodes() - 1, last_cpu(hydra_nodes() - 1));
	spin.pages = PAGES;
	for (uint64_t i = 0; i < 2; i++) {
		char *area = self->area + i * TABLE_SIZE;
		volatile uint64_t *word = (uint64_t *)area;
		uint64_t value = 10 * (i + 1);

		hydra_map(area, PAGES);
		write_words(word, PAGES, value);
		ASSERT_TRUE(watch_all(word, value));
		ASSERT_EQ(0, hydra_syscall(1, SYS_madvise, (long)area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(value), "of a linked table, dropped before");

		write_words(word, PAGES, value + 1);
		ASSERT_TRUE(watch_all(word, value + 1));
		churn = (struct churn){ .page = area + FAR * PAGE_SIZE, .rounds = 2 * LINKED };
		hydra_run(1, map_touch_unmap, &churn);
		EXPECT_EQ(0, churn.errors);
		ASSERT_EQ(0, hydra_syscall(1, SYS_madvise, (long)area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(value + 1),
			     "that was dropped after the link was cut");

		/* What each node writes all nodes see. */
		for (int node = 0; node < hydra_nodes(); node++) {
			hydra_write_pages(node, area, PAGES, value + 2 + node);
			PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, value + 2 + node);
		}
	}
}

static void read_word(void *arg)
{
	*(volatile uint64_t *)arg;
}

static void await_value(int node, uint64_t value)
{
	for (int i = 0; i < spin.count; i++)
		while (spin.spinners[i].node == node &&
		       atomic_load(&spin.spinners[i].seen) != value)
			usleep(100);
}

/*
 * All nodes share a table. Node 0 drops a page that one other node reads; each drop
 * interrupts the readers and no other CPU. Then the next node reads another page, or with
 * filter=accessed and filter=auto the same page, whose former readers no longer count.
 */
TEST_F_TIMEOUT(filters, page_handed_over_interrupts_its_reader_alone, 120)
{
	hydra_map(self->area, TABLE_PAGES);
	*(volatile uint64_t *)(self->area + FAR * PAGE_SIZE) = 1;
	for (int node = 0; node < hydra_nodes(); node++)
		hydra_run(node, read_word, self->area + FAR * PAGE_SIZE);
	spin_on_other_nodes();
	for (int node = 1; node < hydra_nodes(); node++) {
		int page = variant->filter >= HYDRA_FILTER_ACCESSED ? 0 : node;
		char *addr = self->area + page * PAGE_SIZE;
		volatile uint64_t *word = (uint64_t *)addr;

		*word = 1000;
		for (int i = 0; i < spin.count; i++)
			if (spin.spinners[i].node == node)
				atomic_store(&spin.spinners[i].watched, word);
		/* The first flush may still interrupt earlier readers of the page. */
		for (uint64_t i = 0; i <= COSTLY; i++) {
			if (i == 1)
				begin_count(_metadata);
			*word = 1000 + i;
			await_value(node, 1000 + i);
			ASSERT_EQ(0, madvise(addr, PAGE_SIZE, MADV_DONTNEED));
			atomic_store(&spin.forbidden, 1000 + i);
			await_value(node, 0);
			atomic_store(&spin.forbidden, 0);
		}
		end_count(_metadata);
		for (int i = 0; i < spin.count; i++) {
			struct spinner *s = &spin.spinners[i];

			EXPECT_EQ(0, atomic_load(&s->stale))
				TH_LOG("CPU %d read the page after it was gone", s->cpu);
			if (s->node == node)
				expect_at_least(_metadata, MOST(COSTLY), s);
			else if (variant->filter != HYDRA_FILTER_TABLE)
				expect_at_most(_metadata, STRAY, s);
			atomic_store(&s->watched, NULL);
		}
		await_all();
	}
}

/*
 * All nodes got a page by prefetch and do not touch it. When the page changes, only
 * filter=accessed and filter=auto spare these nodes.
 */
TEST_F_TIMEOUT(filters, page_prefetched_and_not_touched_interrupts_no_node, 60)
{
	bool spared = variant->filter >= HYDRA_FILTER_ACCESSED;
	int operations = spared ? OPERATIONS : COSTLY;
	volatile uint64_t *word = (uint64_t *)self->area;

	ASSERT_EQ(0, hydra_on(9, variant->filter));
	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	write_words(word, PAGES, 5);
	ASSERT_TRUE(watch_all(word + PAGE_WORDS, 5));
	begin_count(_metadata);
	for (int i = 0; i < operations; i++) {
		if (!spared)
			await_all();
		ASSERT_EQ(0, mprotect(self->area, PAGE_SIZE, PROT_READ));
		ASSERT_EQ(0, mprotect(self->area, PAGE_SIZE, PROT_READ | PROT_WRITE));
		*word = i;
	}
	end_count(_metadata);
	for (int i = 0; i < spin.count; i++) {
		if (spared)
			expect_at_most(_metadata, STRAY, &spin.spinners[i]);
		else
			expect_at_least(_metadata, MOST(COSTLY), &spin.spinners[i]);
	}
}

#define THP	"/sys/kernel/mm/transparent_hugepage/enabled"

#define NEED_THP() do {								\
	char enabled[64];							\
										\
	if (hydra_read_file(THP, enabled, sizeof(enabled)) <= 0 ||		\
	    strstr(enabled, "[never]"))						\
		SKIP(return, "no " THP " (CONFIG_TRANSPARENT_HUGEPAGE), or \"never\" in it");	\
} while (0)

/* Two huge pages that node 0 has written, in one PMD table */
static void map_huge_pages(struct __test_metadata *_metadata, char *area)
{
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	hydra_map(area, 2 * TABLE_PAGES);
	ASSERT_EQ(0, madvise(area, 2 * TABLE_SIZE, MADV_HUGEPAGE));
	for (int i = 0; i < 2; i++)
		*(volatile uint64_t *)(area + i * TABLE_SIZE) = 5;
	ASSERT_EQ(2 * TABLE_PAGES, hydra_smaps(area, "AnonHugePages"))
		TH_LOG("no huge pages to be had: is there memory?");
}

/*
 * All nodes read a huge page. One node reads a second huge page, too, and node 0 drops
 * the second page. The drop spares nodes with an unused copy of the entry.
 */
TEST_F_TIMEOUT(filters, huge_page_interrupts_its_reader_alone, 120)
{
	volatile uint64_t *all = (uint64_t *)self->area;
	volatile uint64_t *one = (uint64_t *)(self->area + TABLE_SIZE);

	NEED_THP();
	map_huge_pages(_metadata, self->area);
	spin_on_other_nodes();
	ASSERT_TRUE(watch_all(all, 5));
	for (int node = 1; node < hydra_nodes(); node += hydra_nodes() - 2) {
		struct spinner *reader = spinner_of(node);

		/* The first flush may still interrupt earlier readers of the page. */
		for (uint64_t i = 0; i <= COSTLY; i++) {
			if (i == 1)
				begin_count(_metadata);
			*one = 10 + i;
			ASSERT_TRUE(watch(reader, one, 10 + i));
			ASSERT_TRUE(watch_all(all, 5));
			ASSERT_EQ(0, madvise((void *)one, TABLE_SIZE, MADV_DONTNEED));
		}
		end_count(_metadata);
		for (int i = 0; i < spin.count; i++) {
			struct spinner *s = &spin.spinners[i];

			if (s == reader || variant->filter == HYDRA_FILTER_TABLE)
				expect_at_least(_metadata, MOST(COSTLY), s);
			else if (s->node != node)
				expect_at_most(_metadata, STRAY, s);
		}
		if (hydra_nodes() == 2)
			break;
	}
}

/* Linux clears accessed bits, without a flush. */
static void age_pages(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, hydra_write_file("/proc/self/clear_refs", "1"));
}

static pid_t start_child(void)
{
	pid_t child = fork();

	while (!child)
		pause();
	return child;
}

static void stop_child(struct __test_metadata *_metadata, pid_t child)
{
	ASSERT_EQ(0, kill(child, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, hydra_wait_child(child));
}

TEST_F_TIMEOUT(old_pages, page_dropped_after_its_accessed_bits_were_cleared, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	spin_once_on_other_nodes();
	spin.pages = PAGES;
	hydra_map(self->area, TABLE_PAGES);
	for (uint64_t i = 1; i <= TIMES; i++) {
		write_words(word, PAGES, i);
		ASSERT_TRUE(watch_all(word, i));
		age_pages(_metadata);
		if (i % 2)
			age_pages(_metadata);
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that was dropped");
	}
}

TEST_F_TIMEOUT(old_pages, huge_page_dropped_after_its_accessed_bits_were_cleared, 120)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	NEED_THP();
	map_huge_pages(_metadata, self->area);
	spin_once_on_other_nodes();
	for (uint64_t i = 1; i <= TIMES; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		for (int ages = 0; ages < i % 3; ages++)
			age_pages(_metadata);
		ASSERT_EQ(0, madvise(self->area, TABLE_SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that was dropped");
	}
}

static int open_pagemap(void)
{
	return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

static bool is_mapped(int pagemap, const void *addr)
{
	uint64_t entry;

	if (pread(pagemap, &entry, 8, (uintptr_t)addr / PAGE_SIZE * 8) != 8)
		abort();
	return entry >> 63;
}

/* A page shared with a child: a write of the parent copies the page. */
TEST_F_TIMEOUT(old_pages, page_copied_after_its_accessed_bits_were_cleared, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	spin_once_on_other_nodes();
	spin.pages = PAGES;
	for (uint64_t i = 1; i <= TIMES / 2; i++) {
		uint64_t value = 2 * i;
		pid_t child;

		hydra_map(self->area, TABLE_PAGES);
		write_words(word, PAGES, value);
		child = start_child();
		ASSERT_LT(0, child);
		ASSERT_TRUE(watch_all(word, value));
		if (i % 2)
			age_pages(_metadata);
		write_words(word, PAGES, value + 1);
		expect_fresh(_metadata, require_value(value + 1), "that was copied");
		stop_child(_metadata, child);
	}
}

/*
 * Workers that run while they wait, so that the CPUs keep every translation until a
 * flush. The first node makes a change, then the last, the second time with accessed bits
 * cleared.
 */
static void run_while_waiting(void)
{
	hydra_stop_workers();
	hydra_start_workers(HYDRA_SPIN);
}

/* Each node has read and written the pages just now. */
static void use_pages(struct __test_metadata *_metadata, char *area, uint64_t seed, bool age)
{
	PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, seed);
	if (age)
		age_pages(_metadata);
}

TEST_F_TIMEOUT(old_pages, write_protected_page_takes_no_write, 180)
{
	long area = (long)self->area;

	run_while_waiting();
	hydra_map(self->area, PAGES);
	hydra_write_pages(0, self->area, PAGES, 1);
	for (int round = 0; round < 2; round++) {
		int actor = round ? hydra_nodes() - 1 : 0;

		use_pages(_metadata, self->area, 1, round);
		ASSERT_EQ(0, hydra_syscall(actor, SYS_mprotect, area, SIZE, PROT_READ));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_ONLY, 1);
		if (round)
			age_pages(_metadata);
		ASSERT_EQ(0, hydra_syscall(actor, SYS_mprotect, area, SIZE, PROT_NONE));
		PROBE_ALL(self->area, PAGES, HYDRA_NO_ACCESS, 1);
		ASSERT_EQ(0, hydra_syscall(actor, SYS_mprotect, area, SIZE,
					   PROT_READ | PROT_WRITE));
	}
}

TEST_F_TIMEOUT(old_pages, page_that_replaces_another_is_seen, 60)
{
	char *other = self->area + 2 * TABLE_SIZE;

	run_while_waiting();
	for (int round = 0; round < 2; round++) {
		int actor = round ? hydra_nodes() - 1 : 0;
		bool age = round;
		pid_t child;

		hydra_map(self->area, PAGES);
		hydra_write_pages(actor, self->area, PAGES, 1);
		use_pages(_metadata, self->area, 1, age);
		/* other pages are moved there */
		hydra_map(other, PAGES);
		hydra_write_pages(actor, other, PAGES, 2);
		use_pages(_metadata, other, 2, age);
		ASSERT_EQ((long)self->area,
			  hydra_syscall(actor, SYS_mremap, (long)other, SIZE, SIZE,
					MREMAP_MAYMOVE | MREMAP_FIXED, (long)self->area));
		PROBE_ALL(other, PAGES, HYDRA_NO_ACCESS, 0);
		use_pages(_metadata, self->area, 2, age);
		/* dropped, and new ones */
		ASSERT_EQ(0, hydra_syscall(actor, SYS_madvise, (long)self->area, SIZE,
					   MADV_DONTNEED));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 0);
		hydra_write_pages(actor, self->area, PAGES, 3);
		use_pages(_metadata, self->area, 3, age);
		/* copied on a write */
		child = start_child();
		ASSERT_LT(0, child);
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 3);
		if (age)
			age_pages(_metadata);
		hydra_write_pages(actor, self->area, PAGES, 4);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 4);
		stop_child(_metadata, child);
	}
}

/* Two threads drop pages */
static struct {
	int cpu;
	char *start;
	size_t size;
	atomic_bool begun;
} drop;

static void *drop_range(void *arg)
{
	hydra_pin_to_cpu(drop.cpu);
	atomic_store(&drop.begun, true);
	if (madvise(drop.start, drop.size, MADV_DONTNEED))
		abort();
	return NULL;
}

/*
 *    another thread                  the main thread
 *    begins to drop a table's pages,
 *    clears the first entries
 *                                    drops the first pages, finds them gone
 *                                    has to flush the spinners, which read them, or to
 *                                    wait for the other's flush
 *    flushes
 *
 * With filter=auto, a flush of a whole table would go by table. So the other thread drops the
 * first pages, too.
 */
TEST_F_TIMEOUT(old_pages, pages_that_two_threads_drop_are_gone, 180)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	pthread_t other;

	spin_once_on_other_nodes();
	spin.pages = PAGES;
	drop.start = self->area;
	drop.size = variant->filter == HYDRA_FILTER_AUTO ? SIZE : TABLE_SIZE;
	for (uint64_t i = 1; i <= 2 * TIMES; i++) {
		/* The first flushes of a new table look at marks, also under "auto". */
		hydra_map(self->area, TABLE_PAGES);
		write_words(word, TABLE_PAGES, i);
		ASSERT_TRUE(watch_all(word, i));
		drop.cpu = last_cpu(i % 2 ? 0 : hydra_nodes() - 1);
		atomic_store(&drop.begun, false);
		ASSERT_EQ(0, pthread_create(&other, NULL, drop_range, NULL));
		while (!atomic_load(&drop.begun))
			;
		/* sooner or later */
		usleep(i % 8 * 100);
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that two threads have dropped");
		ASSERT_EQ(0, pthread_join(other, NULL));
	}
}

/*
 * A thread that waits until the first of some pages is unmapped, reads all pages, and may
 * write to the pages.
 */
static struct {
	int cpu;
	char *start;
	bool drop;		/* drop all pages instead of reading */
	uint64_t value;		/* to write, or 0; no spinner may read one less then */
	atomic_bool ready;
	atomic_bool dropping;	/* The flush has perhaps not been sent yet. */
	bool done;		/* The flush was still to come after the reads, */
	bool seen;		/* and when the spinners had looked. */
} refill;

/* Each spinner begins and ends a round, unless the flush comes first. */
static void let_spinners_look(void)
{
	for (int i = 0; i < spin.count; i++) {
		struct spinner *s = &spin.spinners[i];
		unsigned long rounds = atomic_load(&s->rounds);

		while (atomic_load(&s->rounds) < rounds + 2 && atomic_load(&refill.dropping))
			__builtin_ia32_pause();
	}
}

static void *refill_pages(void *arg)
{
	volatile uint64_t *word = (uint64_t *)refill.start;
	int pagemap = open_pagemap();

	hydra_pin_to_cpu(refill.cpu);
	atomic_store(&refill.ready, true);
	while (is_mapped(pagemap, refill.start) && atomic_load(&refill.dropping))
		;
	if (refill.drop && madvise(refill.start, spin.pages * PAGE_SIZE, MADV_DONTNEED))
		abort();
	for (size_t page = 0; !refill.drop && page < spin.pages; page++)
		(void)word[page * PAGE_WORDS];
	if (refill.value) {
		write_words(word, spin.pages, refill.value);
		atomic_store(&spin.forbidden, refill.value - 1);
	}
	refill.done = atomic_load(&refill.dropping);
	let_spinners_look();
	refill.seen = atomic_load(&refill.dropping);
	close(pagemap);
	return NULL;
}

static pthread_t start_refill(int node, char *start, bool drop, uint64_t value)
{
	pthread_t thread;

	refill.cpu = last_cpu(node);
	refill.start = start;
	refill.drop = drop;
	refill.value = value;
	atomic_store(&refill.ready, false);
	atomic_store(&refill.dropping, true);
	if (pthread_create(&thread, NULL, refill_pages, NULL))
		abort();
	while (!atomic_load(&refill.ready))
		;
	return thread;
}

static void end_refill(pthread_t thread)
{
	atomic_store(&refill.dropping, false);
	if (pthread_join(thread, NULL))
		abort();
}

/*
 *    the main thread, node 0         another thread               a spinner of node 1
 *                                                                 reads the pages
 *    drops the last pages of a
 *    table, goes on with the next
 *                                    reads these pages
 *                                    gets new ones
 *    flushes
 *                                                                 reads the old ones?
 *
 * The range is so short that filter=entry looks at each entry.
 */
static void refill_before_flush(struct __test_metadata *_metadata, char *area, int node)
{
	char *start = area + TABLE_SIZE - SIZE;
	volatile uint64_t *word = (uint64_t *)start;
	int cpus[HYDRA_MAX_CPUS];
	unsigned int done = 0;
	pthread_t other;

	ASSERT_LT(1, hydra_node_cpus(1, cpus))
		TH_LOG("this test needs two CPUs on each node");
	start_spinner(1, cpus[0]);
	spin.pages = PAGES;
	hydra_map(area, 2 * TABLE_PAGES);
	for (uint64_t i = 1; i <= CHANCES && done < MET; i++) {
		write_words(word, TABLE_PAGES, i);
		ASSERT_TRUE(watch_all(word, i));
		other = start_refill(node, start, false, 0);
		ASSERT_EQ(0, madvise(start, TABLE_SIZE, MADV_DONTNEED));
		atomic_store(&refill.dropping, false);
		expect_fresh(_metadata, forbid_value(i), "that was dropped and came again");
		end_refill(other);
		done += refill.done;
	}
	/* Else the flush was always first, and nothing was shown. */
	EXPECT_LT(0, done);
}

TEST_F_TIMEOUT(old_pages, page_replaced_by_another_node_before_its_flush, 120)
{
	refill_before_flush(_metadata, self->area, 0);
}

TEST_F_TIMEOUT(old_pages, page_filled_again_by_its_node_before_its_flush, 120)
{
	refill_before_flush(_metadata, self->area, 1);
}

/* Linux reclaims pages that all nodes read, and flushes for many pages at once. */
TEST_F_TIMEOUT(old_pages, reclaimed_pages_are_gone, 120)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	uint64_t swapped = hydra_vmstat("pswpout");
	int zram = hydra_swap_on("64M");

	ASSERT_LE(0, zram);
	spin_once_on_other_nodes();
	spin.pages = PAGES;
	hydra_map(self->area, TABLE_PAGES);
	for (uint64_t i = 1; i <= TIMES; i++) {
		uint64_t value = 2 * i;

		write_words(word, PAGES, value);
		ASSERT_TRUE(watch_all(word, value));
		if (i % 2)
			age_pages(_metadata);
		/* Move the pages to the lists of reclaim. */
		ASSERT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "1"));
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_PAGEOUT));
		write_words(word, PAGES, value + 1);
		expect_fresh(_metadata, require_value(value + 1), "that was reclaimed");
	}
	EXPECT_LE(swapped + TIMES, hydra_vmstat("pswpout"));
	ASSERT_EQ(0, munmap(self->area, TABLE_SIZE));
	EXPECT_EQ(0, hydra_swap_off(zram));
}

/* Is another round worth it? A CPU that another program has keeps threads from meeting. */
static bool one_more(uint64_t round, unsigned int done)
{
	static time_t begin;

	if (round == 1)
		begin = time(NULL);
	return round <= CHANCES || (!done && time(NULL) - begin < TIMEOUT_S);
}

/*
 *    the main thread                 another thread              spinners
 *                                                                read pages of a file
 *    takes many pages away, cannot
 *    free them: they are in a pipe
 *                                    reads pages, gets them back
 *                                    writes, gets copies,
 *                                    flushes
 *                                                                read the file's pages?
 *    flushes for all pages
 *
 * The flush of the reclaim comes later. Until then, the other thread's flush must reach
 * all spinners that have read the pages.
 */
TEST_F_TIMEOUT(old_pages, page_copied_before_the_flush_of_its_reclaim, 180)
{
	const size_t pages = TABLE_PAGES, size = TABLE_SIZE;
	volatile uint64_t *word = (uint64_t *)self->area;
	int fd = memfd_create("filters", MFD_CLOEXEC);
	unsigned int done = 0, seen = 0;

	spin_once_on_other_nodes();
	spin.pages = 4;
	ASSERT_EQ(0, ftruncate(fd, size));
	for (uint64_t i = 1; one_more(i, done) && (done < MET || !seen); i++) {
		struct iovec all = { self->area, size };
		uint64_t value = 2 * i;
		pthread_t other;
		int ends[2];

		for (size_t page = 0; page < (i == 1 ? pages : spin.pages); page++)
			ASSERT_EQ(8, pwrite(fd, &value, 8, page * PAGE_SIZE));
		ASSERT_EQ(self->area, mmap(self->area, size, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_FIXED, fd, 0));
		ASSERT_EQ(0, pipe(ends));
		ASSERT_LE(size, fcntl(ends[1], F_SETPIPE_SZ, size));
		ASSERT_EQ(size, vmsplice(ends[1], &all, 1, 0));
		ASSERT_TRUE(watch_all(word, value));
		other = start_refill(0, self->area, false, value + 1);
		ASSERT_EQ(0, madvise(self->area, size, MADV_PAGEOUT));
		end_refill(other);
		done += refill.done;
		seen += refill.seen;
		expect_fresh(_metadata, forbid_value(value), "that was reclaimed and copied");
		close(ends[0]);
		close(ends[1]);
	}
	/* Else the flush of the reclaim was always first, and nothing was shown. */
	EXPECT_LT(0, done);
	close(fd);
}

/*
 *    the main thread                 another thread              spinners
 *                                                                read pages
 *    moves pages to another node:
 *    clears all their entries
 *                                    drops pages: finds clear
 *                                    entries, flushes for the
 *                                    move
 *                                    writes, gets new pages
 *                                                                read the old pages?
 *    flushes for all pages
 *
 * As with a reclaim, the flush of the move comes later. Unlike a reclaim by madvise(), a
 * move has no gather, because of which the other thread would flush anyway.
 */
TEST_F_TIMEOUT(old_pages, page_dropped_before_the_flush_of_its_move, 180)
{
	const size_t pages = TABLE_PAGES, size = TABLE_SIZE;
	volatile uint64_t *word = (uint64_t *)self->area;
	void *addresses[TABLE_PAGES];
	int nodes[TABLE_PAGES], status[TABLE_PAGES];
	unsigned int done = 0, seen = 0;

	spin_once_on_other_nodes();
	spin.pages = 4;
	for (uint64_t i = 1; one_more(i, done) && (done < MET || !seen); i++) {
		uint64_t value = 2 * i;
		pthread_t other;

		hydra_map(self->area, pages);
		write_words(word, pages, value);
		ASSERT_TRUE(watch_all(word, value));
		for (size_t page = 0; page < pages; page++) {
			addresses[page] = self->area + page * PAGE_SIZE;
			nodes[page] = hydra_node_id(1);
		}
		other = start_refill(0, self->area, true, value + 1);
		ASSERT_EQ(0, syscall(SYS_move_pages, 0, pages, addresses, nodes, status,
				     MPOL_MF_MOVE));
		end_refill(other);
		done += refill.done;
		seen += refill.seen;
		expect_fresh(_metadata, forbid_value(value), "that was moved and then dropped");
		ASSERT_EQ(0, munmap(self->area, size));
	}
	/* Else the flush of the move was always first, and nothing was shown. */
	EXPECT_LT(0, done);
}

/*
 * Linux reclaims a page of a file that node 0 alone has used, and flushes. Then node 0
 * unmaps the page: Linux flushes once more for the reclaim. Neither flush reaches another
 * node.
 */
TEST_F_TIMEOUT(filters, reclaimed_page_of_one_node_interrupts_no_other_node, 120)
{
	char *area = self->area + 2 * TABLE_SIZE;
	int fd = memfd_create("filters", MFD_CLOEXEC), pagemap = open_pagemap();

	ASSERT_EQ(0, ftruncate(fd, PAGE_SIZE));
	spin_everywhere_but_on(0);
	hydra_map(self->area, PAGES);
	*(volatile uint64_t *)self->area = 5;
	ASSERT_TRUE(watch_all((uint64_t *)self->area, 5));
	begin_count(_metadata);
	for (int i = 0; i < COSTLY; i++) {
		await_all();
		ASSERT_EQ(area, mmap(area, PAGE_SIZE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED, fd, 0));
		*(volatile uint64_t *)area = i;
		ASSERT_EQ(0, madvise(area, PAGE_SIZE, MADV_PAGEOUT));
		ASSERT_FALSE(is_mapped(pagemap, area));
		ASSERT_EQ(0, munmap(area, PAGE_SIZE));
	}
	end_count(_metadata);
	for (int i = 0; i < spin.count; i++)
		expect_at_most(_metadata, STRAY, &spin.spinners[i]);
	close(pagemap);
	close(fd);
}

/* Pages that all nodes have used, and Linux has aged. Then no thread uses the pages. */
FIXTURE(aged) {
	char *area, *alone;
};

FIXTURE_SETUP(aged)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, begin(&self->area, &self->alone, HYDRA_FILTER_ACCESSED, 9));
	spin_once_on_other_nodes();
	spin.pages = PAGES;
	hydra_map(self->area, 2 * TABLE_PAGES);
}

FIXTURE_TEARDOWN(aged)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
	hydra_assert_consistent();
}

/*
 * The spinners use the pages once more, and then other pages: not at a multiple of a large
 * power of two, where an emulator's TLB has one place for both.
 */
static void use_and_age(struct __test_metadata *_metadata, char *area, uint64_t value)
{
	volatile uint64_t *word = (uint64_t *)area;
	volatile uint64_t *other = (uint64_t *)(area + TABLE_SIZE + 4 * SIZE);

	write_words(other, PAGES, value);
	write_words(word, PAGES, value);
	ASSERT_TRUE(watch_all(word, value));
	ASSERT_TRUE(watch_all(other, value));
	age_pages(_metadata);
}

/* Drop the pages, with a flush for each. */
static void drop_one_by_one(struct __test_metadata *_metadata, char *area)
{
	await_all();
	begin_count(_metadata);
	for (size_t page = 0; page < PAGES; page++)
		ASSERT_EQ(0, madvise(area + page * PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED));
	end_count(_metadata);
}

/* The kernel compares seconds: a flush has to come in a later second than the aging. */
static void wait_for_next_second(void)
{
	usleep(1100000);
}

/* Another process runs for a moment on each CPU of the nodes after the first. */
static void visit_cpus(struct __test_metadata *_metadata)
{
	pid_t child = fork();

	ASSERT_LE(0, child);
	for (int node = 1; !child; node++) {
		int cpus[HYDRA_MAX_CPUS], count;

		if (node == hydra_nodes())
			_exit(0);
		count = hydra_node_cpus(node, cpus);
		for (int i = 0; i < count; i++)
			hydra_pin_to_cpu(cpus[i]);
	}
	EXPECT_EQ(0, hydra_wait_child(child));
}

static bool cpus_have_pcid(void)
{
	return !system("grep -qw pcid /proc/cpuinfo");
}

TEST_F_TIMEOUT(aged, pages_interrupt_their_last_users, 60)
{
	use_and_age(_metadata, self->area, 1);
	drop_one_by_one(_metadata, self->area);
	for (int i = 0; i < spin.count; i++)
		expect_at_least(_metadata, MOST(PAGES), &spin.spinners[i]);
}

/* Other pages take the frames of the dropped pages: a CPU with an old translation reads 0. */
TEST_F_TIMEOUT(aged, pages_dropped_are_gone_for_their_last_users, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	char *filler = self->area + 8 * SIZE;

	for (uint64_t i = 1; i <= TIMES; i++) {
		use_and_age(_metadata, self->area, 2 * i);
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		write_words((uint64_t *)filler, 2 * PAGES, 0);
		write_words(word, PAGES, 2 * i + 1);
		EXPECT_TRUE(watch_all(word, 2 * i + 1))
			TH_LOG("a CPU reads a page that was dropped");
		ASSERT_EQ(0, madvise(filler, 2 * SIZE, MADV_DONTNEED));
	}
}

/* With PCIDs, a switch to another process and back empties no TLB. */
TEST_F_TIMEOUT(aged, pages_interrupt_no_cpu_that_ran_another_process_since, 60)
{
	if (cpus_have_pcid())
		SKIP(return, "CPUs with PCIDs keep translations when they switch");
	use_and_age(_metadata, self->area, 1);
	wait_for_next_second();
	visit_cpus(_metadata);
	drop_one_by_one(_metadata, self->area);
	for (int i = 0; i < spin.count; i++)
		expect_at_most(_metadata, STRAY, &spin.spinners[i]);
}

TEST_F_TIMEOUT(aged, pages_interrupt_no_cpu_that_was_flushed_since, 60)
{
	use_and_age(_metadata, self->area, 1);
	wait_for_next_second();
	hydra_empty_tlbs();
	drop_one_by_one(_metadata, self->area);
	for (int i = 0; i < spin.count; i++)
		expect_at_most(_metadata, STRAY, &spin.spinners[i]);
}

/* As above, and Linux reclaims the pages: its flush has no targets. */
TEST_F_TIMEOUT(aged, reclaimed_pages_interrupt_no_cpu_that_was_flushed_since, 60)
{
	int fd = memfd_create("filters", MFD_CLOEXEC), pagemap = open_pagemap();

	ASSERT_EQ(0, ftruncate(fd, SIZE));
	ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd, 0));
	use_and_age(_metadata, self->area, 1);
	wait_for_next_second();
	hydra_empty_tlbs();
	await_all();
	begin_count(_metadata);
	ASSERT_EQ(0, madvise(self->area, SIZE, MADV_PAGEOUT));
	end_count(_metadata);
	for (size_t page = 0; page < PAGES; page++)
		EXPECT_FALSE(is_mapped(pagemap, self->area + page * PAGE_SIZE));
	for (int i = 0; i < spin.count; i++)
		expect_at_most(_metadata, STRAY, &spin.spinners[i]);
	close(pagemap);
	close(fd);
}

/* The spinners use the pages again after the flush: the flush does not count. */
TEST_F_TIMEOUT(aged, pages_used_after_a_flush_are_gone, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	for (uint64_t i = 1; i <= 3; i++) {
		use_and_age(_metadata, self->area, i);
		wait_for_next_second();
		hydra_empty_tlbs();
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that was dropped");
	}
}

/*
 * filter=auto: tables that look at marks, and tables that do not. The tracepoint hydra_mode tells
 * when a table changes. Node 0 flushes.
 */
#define INSTANCE	HYDRA_TRACEFS "/instances/hydra-modes"
#define TRY		64	/* flushes of a try */
#define REST		1024	/* by table, before the second try */

FIXTURE(modes) {
	char *area, *alone;
};

FIXTURE_SETUP(modes)
{
	HYDRA_BEGIN();
	if (!hydra_has_tracefs())
		SKIP(return, "no " HYDRA_TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_EQ(0, hydra_trace(INSTANCE, "hydra_mode", "1"));
	ASSERT_EQ(0, begin(&self->area, &self->alone, HYDRA_FILTER_AUTO, 9));
	hydra_map(self->area, TABLE_PAGES);
	spin_once_on_other_nodes();
}

FIXTURE_TEARDOWN(modes)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
	EXPECT_EQ(0, hydra_trace(INSTANCE, "hydra_mode", "0"));
}

/* How often has the table of an address got a mode? Negative: it cannot be told. */
static int times_in_mode(const void *addr, const char *mode)
{
	unsigned long base, wanted = (uintptr_t)addr / TABLE_SIZE * TABLE_SIZE;
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512], seen[16], *event;
	int times = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		event = strstr(line, "hydra_mode: ");
		if (event && sscanf(event, "hydra_mode: mm=%*u base=0x%lx mode=%15s", &base,
				    seen) == 2)
			times += base == wanted && !strcmp(seen, mode);
	}
	fclose(f);
	return times;
}

/* Node 0 drops a page that it alone uses, with a flush each time. */
static void drop_own_page(struct __test_metadata *_metadata, char *area, int times)
{
	volatile uint64_t *word = (uint64_t *)(area + FAR * PAGE_SIZE);

	for (int i = 0; i < times; i++) {
		*word = 1;
		ASSERT_EQ(0, madvise((void *)word, PAGE_SIZE, MADV_DONTNEED));
	}
}

/* Node 0 drops a page that all nodes use. */
static void drop_shared_page(struct __test_metadata *_metadata, char *area, int times)
{
	volatile uint64_t *word = (uint64_t *)area;

	for (int i = 1; i <= times; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(area, PAGE_SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that was dropped");
	}
}

static void share_table(struct __test_metadata *_metadata, char *area)
{
	*(volatile uint64_t *)area = 5;
	ASSERT_TRUE(watch_all((uint64_t *)area, 5));
}

TEST_F_TIMEOUT(modes, table_whose_pages_are_of_one_node_each_looks_at_marks, 120)
{
	share_table(_metadata, self->area);
	drop_own_page(_metadata, self->area, TRY);
	EXPECT_EQ(1, times_in_mode(self->area, "fine"));
	begin_count(_metadata);
	drop_own_page(_metadata, self->area, OPERATIONS);
	end_count(_metadata);
	for (int i = 0; i < spin.count; i++)
		expect_at_most(_metadata, STRAY, &spin.spinners[i]);
	EXPECT_EQ(0, times_in_mode(self->area, "table"));
}

/* And when its pages are of one node each, it looks at marks again. */
TEST_F_TIMEOUT(modes, table_whose_pages_all_nodes_use_goes_by_table, 240)
{
	/* Two flushes each: the write replaces the zero page that all nodes have read. */
	drop_shared_page(_metadata, self->area, TRY / 2 - 1);
	EXPECT_EQ(0, times_in_mode(self->area, "table"));
	/* A CPU that another program has may have been spared in between. */
	drop_shared_page(_metadata, self->area, TRY);
	ASSERT_EQ(1, times_in_mode(self->area, "table"));
	drop_shared_page(_metadata, self->area, TRY);
	EXPECT_EQ(0, times_in_mode(self->area, "try"));
	share_table(_metadata, self->area);
	begin_count(_metadata);
	for (int i = 0; i < COSTLY; i++) {
		await_all();
		drop_own_page(_metadata, self->area, 1);
	}
	end_count(_metadata);
	for (int i = 0; i < spin.count; i++)
		expect_at_least(_metadata, MOST(COSTLY), &spin.spinners[i]);
	drop_own_page(_metadata, self->area, REST + TRY);
	EXPECT_EQ(1, times_in_mode(self->area, "try"));
	EXPECT_EQ(1, times_in_mode(self->area, "fine"));
	drop_shared_page(_metadata, self->area, TIMES);
}

/* Change the entry of a page twice. */
static void protect(struct __test_metadata *_metadata, char *page)
{
	ASSERT_EQ(0, mprotect(page, PAGE_SIZE, PROT_READ));
	ASSERT_EQ(0, mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE));
}

/* The other nodes have copies of all pages, and use one. */
TEST_F_TIMEOUT(modes, only_copies_in_use_get_changes, 120)
{
	char *unused = self->area + FAR * PAGE_SIZE;
	struct hydra_stats before, after;

	hydra_write_pages(0, unused, 1, 7);
	share_table(_metadata, self->area);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	for (int i = 0; i < OPERATIONS; i++)
		protect(_metadata, unused);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	/* Each copy is cleared once, and gets no new value. */
	EXPECT_LE(hydra_nodes() - 1, after.propagated - before.propagated);
	EXPECT_GE(hydra_nodes() - 1 + STRAY, after.propagated - before.propagated);
	PROBE_ALL(unused, 1, HYDRA_READABLE, 7);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	for (int i = 0; i < OPERATIONS; i++) {
		protect(_metadata, self->area);
		await_all();
	}
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	/*
	 * Each copy is cleared and set, twice for each operation, and no node faults: but for a
	 * spinner that finds a copy just cleared.
	 */
	EXPECT_LE(3 * OPERATIONS * (hydra_nodes() - 1), after.propagated - before.propagated);
	EXPECT_GE(OPERATIONS / 2, after.fills - before.fills);
}

TEST_F_TIMEOUT(modes, page_that_was_not_pushed_is_gone, 60)
{
	/* Tables without credit, of which the other nodes have copies of all pages */
	for (int i = 0; i < 4; i++) {
		char *table = self->area + i * TABLE_SIZE, *unused = table + FAR * PAGE_SIZE;

		hydra_map(table, TABLE_PAGES);
		hydra_write_pages(0, unused, PAGES, 7);
		share_table(_metadata, table);
		ASSERT_EQ(0, madvise(unused, SIZE, MADV_DONTNEED));
		hydra_assert_consistent();
		for (int node = 1; node < hydra_nodes(); node++)
			EXPECT_EQ(0, hydra_probe(node, unused, PAGES, HYDRA_READABLE, 0));
	}
}

/* The filter is changed while threads of all nodes use the pages. */
FIXTURE(filter_changes) {
	char *area, *alone;
};

FIXTURE_SETUP(filter_changes)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	spin_once_on_other_nodes();
	spin.pages = PAGES;
	hydra_map(self->area, TABLE_PAGES);
}

FIXTURE_TEARDOWN(filter_changes)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
}

TEST_F_TIMEOUT(filter_changes, between_use_and_drop, 120)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	for (unsigned int i = 0; i < 2 * NR_FILTERS * NR_FILTERS; i++) {
		unsigned int from = i % NR_FILTERS, to = i / NR_FILTERS % NR_FILTERS;
		char what[80];

		ASSERT_EQ(0, hydra_on(9, from));
		write_words(word, PAGES, i + 1);
		ASSERT_TRUE(watch_all(word, i + 1));
		if (i / (NR_FILTERS * NR_FILTERS))
			age_pages(_metadata);
		ASSERT_EQ(0, hydra_on(9, to));
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		snprintf(what, sizeof(what), "that was dropped, with filter %s after %s",
			 names[to], names[from]);
		expect_fresh(_metadata, forbid_value(i + 1), what);
	}
}

static atomic_bool changes_end;

static void *change_filter(void *arg)
{
	hydra_pin_to_cpu(last_cpu(0));
	for (unsigned int i = 0; !atomic_load(&changes_end); i++)
		if (hydra_on(9, i * 3 % NR_FILTERS))
			abort();
	return NULL;
}

TEST_F_TIMEOUT(filter_changes, while_pages_are_dropped, 120)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	pthread_t changer;

	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_ACCESSED));
	atomic_store(&changes_end, false);
	ASSERT_EQ(0, pthread_create(&changer, NULL, change_filter, NULL));
	for (uint64_t i = 1; i <= 2 * TIMES; i++) {
		write_words(word, PAGES, i);
		ASSERT_TRUE(watch_all(word, i));
		if (i % 2)
			age_pages(_metadata);
		ASSERT_EQ(0, madvise(self->area, SIZE, MADV_DONTNEED));
		expect_fresh(_metadata, forbid_value(i), "that was dropped");
	}
	atomic_store(&changes_end, true);
	ASSERT_EQ(0, pthread_join(changer, NULL));
}

HYDRA_HARNESS_MAIN
