// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replication "eager": what one node has, all nodes have. So their first pass over memory
 * takes no page fault, and each has all page tables. Counts show it: a node that did not get
 * an entry would fault, and then have it.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define TABLES	4UL	/* leaf tables of the area */
#define PAGES	64UL	/* of each that are used */
#define SEED	7
#define THP	"/sys/kernel/mm/transparent_hugepage/enabled"

FIXTURE(eager) {
	char *warm;	/* a leaf table to warm up with */
	char *area;
	int last;	/* node */
	uint64_t fills[HYDRA_MAX_NODES], replicas;
};

/* Threads of all nodes read the first word of each page. */
struct reads {
	char *area;
	size_t pages, step;
	uint64_t seed;
	size_t mistakes;
};

static void read_first_words(void *arg)
{
	struct reads *r = arg;

	for (size_t page = 0; page < r->pages; page += r->step)
		r->mistakes += *(volatile uint64_t *)(r->area + page * PAGE_SIZE) !=
			       hydra_word(r->seed, page, 0);
}

static void read_on_node(struct __test_metadata *_metadata, int node, char *area, size_t pages,
			 size_t step, uint64_t seed)
{
	/* In the same place each time: on the stack it could lie in two pages. */
	static struct reads r;

	r = (struct reads){ area, pages, step, seed };
	hydra_run(node, read_first_words, &r);
	EXPECT_EQ(0, r.mistakes)
		TH_LOG("node %d reads %zu wrong words", node, r.mistakes);
}

/* What this thread itself touches for the first time, on node 0, would count there. */
static void touch_own_pages(void)
{
	volatile char stack[64 * 1024];
	struct hydra_stats stats = {};

	for (size_t i = 0; i < sizeof(stack); i += PAGE_SIZE)
		stack[i] = 1;
	hydra_smaps(&stats, "Rss");
	hydra_read_stats(getpid(), &stats);
}

FIXTURE_SETUP(eager)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_write_policy(getpid(), "mitosis"));
	self->warm = hydra_reserve(TABLE_SIZE);
	self->area = hydra_reserve(TABLES * TABLE_SIZE);
	self->last = hydra_nodes() - 1;
	hydra_start_workers(HYDRA_SLEEP);
	hydra_map(self->warm, PAGES);
	hydra_write_pages(0, self->warm, PAGES, SEED);
	/* Each thread's code, stack and so on */
	for (int i = 0; i < 2; i++)
		for (int node = 0; node <= self->last; node++)
			read_on_node(_metadata, node, self->warm, PAGES, 1, SEED);
	touch_own_pages();
}

FIXTURE_TEARDOWN(eager)
{
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
}

static void begin_count(struct __test_metadata *_metadata, FIXTURE_DATA(eager) *self)
{
	struct hydra_stats stats;

	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	self->replicas = stats.replica_tables;
	for (int node = 0; node <= self->last; node++)
		self->fills[node] = hydra_on_node(&stats, node)->fills;
}

/* The first pass of each node but one over what that node has used takes no fill. */
static void first_pass_is_free(struct __test_metadata *_metadata, FIXTURE_DATA(eager) *self,
			       int but, size_t pages, size_t step, uint64_t seed)
{
	struct hydra_stats stats;

	/* Twice: the first time this thread, on node 0, may touch new pages itself. */
	begin_count(_metadata, self);
	begin_count(_metadata, self);
	for (int node = 0; node <= self->last; node++)
		if (node != but)
			read_on_node(_metadata, node, self->area, pages, step, seed);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	for (int node = 0; node <= self->last; node++) {
		if (node == but)
			continue;
		EXPECT_EQ(0, hydra_on_node(&stats, node)->fills - self->fills[node])
			TH_LOG("node %d had to ask for what node %d has", node, but);
	}
}

/* One page in two, in every table: the writes go up to the last page of the last table. */
#define STEP	(TABLE_PAGES / PAGES)
#define ALL	(TABLES * TABLE_PAGES)

struct writes {
	char *area;
	uint64_t seed;
};

static void write_some_pages(void *arg)
{
	const struct writes *w = arg;

	for (size_t page = 0; page < ALL; page += STEP)
		*(volatile uint64_t *)(w->area + page * PAGE_SIZE) =
			hydra_word(w->seed, page, 0);
}

static void write_on_node(int node, char *area, uint64_t seed)
{
	static struct writes w;

	w = (struct writes){ area, seed };
	hydra_run(node, write_some_pages, &w);
}

TEST_F(eager, pages_that_one_node_touches_are_in_all_tables)
{
	for (int node = 0; node <= self->last; node += self->last) {
		struct hydra_stats stats;

		hydra_map(self->area, ALL);
		begin_count(_metadata, self);
		write_on_node(node, self->area, SEED);
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
		/* Exactly as many leaf tables as nodes, for each of Linux's */
		EXPECT_EQ(TABLES * self->last, stats.replica_tables - self->replicas);
		first_pass_is_free(_metadata, self, node, ALL, STEP, SEED);
		EXPECT_EQ(0, munmap(self->area, ALL * PAGE_SIZE));
	}
}

TEST_F(eager, pages_that_one_node_populates_are_in_all_tables)
{
	hydra_map(self->area, ALL);
	ASSERT_EQ(0, hydra_syscall(1, SYS_madvise, (long)self->area, ALL * PAGE_SIZE,
				   MADV_POPULATE_WRITE));
	first_pass_is_free(_metadata, self, 1, ALL, 1, 0);
}

/*
 * A child writes pages which its parent has, so each is copied. Return: 0 if the first pass of
 * the other nodes over the copies takes no fill, for an exit status.
 */
static int copy_in_child(FIXTURE_DATA(eager) *self, uint64_t seed)
{
	static struct reads r;
	struct hydra_stats before, after;

	hydra_start_workers(HYDRA_SLEEP);
	for (int i = 0; i < 2; i++)
		for (int node = 0; node <= self->last; node++) {
			r = (struct reads){ self->warm, PAGES, 1, SEED };
			hydra_run(node, read_first_words, &r);
		}
	touch_own_pages();
	write_on_node(0, self->area, seed);
	for (int i = 0; i < 2; i++)
		if (hydra_read_stats(getpid(), &before))
			return 1;
	for (int node = 1; node <= self->last; node++) {
		r = (struct reads){ self->area, ALL, STEP, seed };
		hydra_run(node, read_first_words, &r);
		if (r.mistakes)
			return 2;
	}
	if (hydra_read_stats(getpid(), &after))
		return 1;
	for (int node = 1; node <= self->last; node++)
		if (hydra_on_node(&after, node)->fills != hydra_on_node(&before, node)->fills)
			return 3;
	return hydra_consistent(getpid()) ? 0 : 4;
}

TEST_F(eager, pages_copied_by_a_child_are_in_all_its_tables)
{
	int child;

	hydra_map(self->area, ALL);
	write_on_node(0, self->area, SEED);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(copy_in_child(self, SEED + 1));
	/* 3: a node had to ask for what node 0 has */
	EXPECT_EQ(0, hydra_wait_child(child));
	read_on_node(_metadata, 1, self->area, ALL, STEP, SEED);
}

TEST_F(eager, pages_copied_after_fork_are_in_all_tables)
{
	int hold[2], child;

	hydra_map(self->area, ALL);
	write_on_node(0, self->area, SEED);
	ASSERT_EQ(0, pipe(hold));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		char c;

		close(hold[1]);
		_exit(read(hold[0], &c, 1) == 0 &&
		      *(volatile uint64_t *)self->area == hydra_word(SEED, 0, 0) ? 0 : 1);
	}
	close(hold[0]);
	/* Stacks are copied on write, too. */
	for (int node = 0; node <= self->last; node++)
		read_on_node(_metadata, node, self->warm, PAGES, 1, SEED);
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED);
	write_on_node(0, self->area, SEED + 1);
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED + 1);
	close(hold[1]);
	EXPECT_EQ(0, hydra_wait_child(child));
}

TEST_F_TIMEOUT(eager, pages_swapped_in_by_one_node_are_in_all_tables, 60)
{
	int zram = hydra_swap_on("64M");

	if (zram == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_LE(0, zram);
	hydra_map(self->area, ALL);
	write_on_node(1, self->area, SEED);
	EXPECT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "1"));
	EXPECT_EQ(0, madvise(self->area, ALL * PAGE_SIZE, MADV_PAGEOUT));
	EXPECT_EQ(ALL / STEP, hydra_smaps(self->area, "Swap"));
	read_on_node(_metadata, 0, self->area, ALL, STEP, SEED);
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED);
	EXPECT_EQ(0, hydra_swap_off(zram));
	first_pass_is_free(_metadata, self, -1, ALL, STEP, SEED);
}

TEST_F(eager, huge_pages_that_one_node_touches_are_in_all_tables)
{
	char enabled[64];

	if (hydra_read_file(THP, enabled, sizeof(enabled)) <= 0 || strstr(enabled, "[never]"))
		SKIP(return, "no " THP " (CONFIG_TRANSPARENT_HUGEPAGE), or \"never\" in it");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	hydra_map(self->area, ALL);
	ASSERT_EQ(0, madvise(self->area, ALL * PAGE_SIZE, MADV_HUGEPAGE));
	for (int i = 0; i < 2; i++) {
		write_on_node(1, self->area, SEED + i);
		EXPECT_EQ(TABLES * TABLE_PAGES, hydra_smaps(self->area, "AnonHugePages"))
			TH_LOG("no huge pages to be had: is there memory?");
		first_pass_is_free(_metadata, self, 1, ALL, STEP, SEED + i);
		EXPECT_EQ(0, madvise(self->area, ALL * PAGE_SIZE, MADV_DONTNEED));
	}
}

/* Where there is no memory for replicas, all nodes use the leaf tables of Linux. */
TEST_F(eager, tables_that_cannot_be_had_are_linked)
{
	char limit[32];
	struct hydra_stats before, after;

	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "replica_limit_kib", limit, sizeof(limit)));
	hydra_map(self->area, ALL);
	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", "0"));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	write_on_node(0, self->area, SEED);
	EXPECT_EQ(0, hydra_read_stats(getpid(), &after));
	EXPECT_EQ(before.replica_tables, after.replica_tables);
	EXPECT_EQ(TABLES * self->last, after.fallbacks - before.fallbacks);
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED);
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "replica_limit_kib", limit));
}

/* What nodes have under another policy does not count: the trees begin anew. */
TEST_F(eager, process_changes_to_eager_while_nodes_share_tables)
{
	struct hydra_stats stats;

	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	hydra_map(self->area, ALL);
	write_on_node(0, self->area, SEED);
	read_on_node(_metadata, 1, self->area, 1, 1, SEED);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "replication=eager"));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_STREQ("eager", stats.replication);
	for (int node = 0; node <= self->last; node++)
		read_on_node(_metadata, node, self->warm, PAGES, 1, SEED);
	read_on_node(_metadata, 0, self->area, ALL, STEP, SEED);
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED);
	/* And back: what is there stays, and new pages are left to be asked for. */
	ASSERT_EQ(0, hydra_write_policy(getpid(), "replication=lazy"));
	first_pass_is_free(_metadata, self, 0, ALL, STEP, SEED);
	EXPECT_EQ(0, madvise(self->area, ALL * PAGE_SIZE, MADV_DONTNEED));
}

/* In a child: the main thread on node 0 and another one, which has only gone to node 1 */
static char *page_of_child;

static void *touch_page(void *arg)
{
	hydra_pin_to_node(1);
	*(volatile char *)page_of_child = 1;
	return NULL;
}

static int two_nodes_run(int nodes)
{
	struct hydra_stats stats;
	pthread_t thread;

	hydra_pin_to_node(0);
	if (pthread_create(&thread, NULL, touch_page, NULL) || pthread_join(thread, NULL))
		return 1;
	if (hydra_read_stats(getpid(), &stats) || !stats.split)
		return 2;
	for (int node = 0; node < nodes; node++) {
		const struct hydra_domain_stats *d = hydra_on_node(&stats, node);

		if (!d->own_root)
			return 10 + node;
	}
	return hydra_consistent(getpid()) ? 0 : 3;
}

/* Nodes that a thread may come to have the tables before it comes. */
TEST_F(eager, nodes_that_do_not_run_the_process_have_trees)
{
	int child;

	page_of_child = hydra_map(self->area, 1);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(two_nodes_run(self->last + 1));
	EXPECT_EQ(0, hydra_wait_child(child))
		TH_LOG("that is where two_nodes_run() returned");
}

HYDRA_HARNESS_MAIN
