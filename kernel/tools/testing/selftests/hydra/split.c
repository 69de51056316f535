// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a process gets domain trees, and which nodes get a tree. A process runs as on
 * plain Linux until threads run on two nodes, and again once a single thread is left, or
 * all threads run on one node.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES		16
#define SEED		0x5917
#define RETURN_SECONDS	30	/* the kernel keeps the trees for one second; an emulator is slow */
#define TREE_SECONDS	10	/* the kernel asks ten times a second */

FIXTURE(split) {
	char *area;
	int last;
};

FIXTURE_SETUP(split)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_leave_other_nodes());
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

/* The nodes whose domain has a tree, one bit each */
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

/* Page tables of the process in KiB, on all nodes */
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

/* Start a second thread on a node. Returns when the thread has read the area. */
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
		EXPECT_FALSE(hydra_is_split())
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
	EXPECT_FALSE(hydra_is_split());
	end_visit(&v);
	EXPECT_FALSE(hydra_is_split());
}

TEST_F(split, only_nodes_that_run_it_get_trees)
{
	struct visit v, w;

	begin_visit(_metadata, &v, 1, self->area);
	EXPECT_TRUE(hydra_is_split());
	EXPECT_EQ(3, trees());
	hydra_assert_consistent();
	begin_visit(_metadata, &w, self->last, self->area);
	EXPECT_EQ(3 | 1ULL << self->last, trees());
	hydra_assert_consistent();
	end_visit(&w);
	end_visit(&v);
}

/*
 * The process gets trees and loses the trees, twice, and changes memory meanwhile: the
 * contents stay right.
 */
TEST_F_TIMEOUT(split, returns_when_one_thread_is_left, 90)
{
	struct visit v;
	uint64_t before;

	/* A thread's stack and heap have tables, which stay and which the next thread uses again. */
	begin_visit(_metadata, &v, 0, self->area);
	end_visit(&v);
	before = tables_kib();

	for (int turn = 0; turn < 2; turn++) {
		int tries;

		begin_visit(_metadata, &v, self->last, self->area);
		EXPECT_TRUE(hydra_is_split());
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ));
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE));
		EXPECT_LT(before, tables_kib());
		end_visit(&v);
		/* Each sleep ends with a switch to the test's thread. */
		for (tries = 0; hydra_is_split() && tries < RETURN_SECONDS * 10; tries++)
			usleep(100000);
		EXPECT_FALSE(hydra_is_split());
		/*
		 * The roots of two nodes stay, with a table of 256 TiB each where
		 * there are five levels. The other tables are freed after a grace period.
		 */
		for (tries = 0; before + 2 * 12 < tables_kib() && tries < RETURN_SECONDS * 10; tries++)
			usleep(100000);
		EXPECT_GE(before + 2 * 12, tables_kib());
		for (size_t i = 0; i < PAGES; i++)
			EXPECT_EQ(hydra_word(SEED, i, 0), *(uint64_t *)(self->area + i * PAGE_SIZE));
	}
}

/* A thread that reads the area again and again, without a sleep, on a node that can be changed */
struct runner {
	pthread_t thread;
	char *area;
	atomic_int node, here;
	atomic_bool stop;
	size_t mistakes;
};

static void *run_on_node(void *arg)
{
	struct runner *r = arg;

	while (!atomic_load(&r->stop)) {
		int node = atomic_load(&r->node);

		if (node != r->here) {
			hydra_pin_to_node(node);
			atomic_store(&r->here, node);
		}
		for (size_t i = 0; i < PAGES; i++)
			r->mistakes += *(volatile uint64_t *)(r->area + i * PAGE_SIZE) !=
				       hydra_word(SEED, i, 0);
	}
	return NULL;
}

static void move_runner(struct runner *r, int node)
{
	atomic_store(&r->node, node);
	while (atomic_load(&r->here) != node)
		usleep(10000);
}

static void start_runner(struct __test_metadata *_metadata, struct runner *r, int node, char *area)
{
	*r = (struct runner){ .area = area, .node = node, .here = -1 };
	ASSERT_EQ(0, pthread_create(&r->thread, NULL, run_on_node, r));
	move_runner(r, node);
}

static void stop_runner(struct __test_metadata *_metadata, struct runner *r)
{
	atomic_store(&r->stop, true);
	pthread_join(r->thread, NULL);
	EXPECT_EQ(0, r->mistakes);
}

static bool await_split(bool split)
{
	for (int tries = 0; hydra_is_split() != split && tries < RETURN_SECONDS * 10; tries++)
		usleep(100000);
	return hydra_is_split() == split;
}

/* The threads move to one node, from there to another one, and apart again. */
TEST_F_TIMEOUT(split, returns_when_all_threads_have_moved_to_one_node, 90)
{
	struct runner r;

	start_runner(_metadata, &r, self->last, self->area);
	EXPECT_TRUE(hydra_is_split());
	ASSERT_EQ(0, hydra_forget_after(4));
	hydra_pin_to_node(self->last);
	EXPECT_TRUE(await_split(false));
	EXPECT_EQ(0, trees());
	move_runner(&r, 0);
	EXPECT_TRUE(await_split(true));
	hydra_pin_to_node(0);
	EXPECT_TRUE(await_split(false));
	/* The main thread sleeps, and the other one makes no system call: one switch has to do. */
	move_runner(&r, 1);
	EXPECT_TRUE(await_split(true));
	stop_runner(_metadata, &r);
	ASSERT_EQ(0, hydra_forget_after(0));
	hydra_pin_to_node(0);
	for (size_t i = 0; i < PAGES; i++)
		EXPECT_EQ(hydra_word(SEED, i, 0), *(uint64_t *)(self->area + i * PAGE_SIZE));
}

/*
 * A return of a process with many tables frees them in parts, of 512 tables and copies. Each leaf
 * table of the area has one page, and the last node has a copy of it. While the tables go, threads
 * of both nodes run.
 */
#define NEW_TABLES	256UL	/* in front of these, for tables that come meanwhile */
#define UPPER_SIZE	(TABLE_PAGES * TABLE_SIZE)	/* what one PMD table maps */

static struct many {
	pthread_t reader, chooser;
	char *area;
	size_t tables;		/* as many copies, and the new ones in front */
	size_t apart;		/* TABLE_SIZE; or UPPER_SIZE: as many PMD tables as leaf tables */
	int node;		/* of the reader */
	atomic_ulong value;	/* of the first of the pages */
	atomic_ulong read;	/* the reader has read the page since it had this value, */
	atomic_ulong seen;	/* and found this */
	unsigned long stale;	/* how often it has found another one */
	atomic_bool stop, chosen;
} many;

static char *page_of_table(size_t table)
{
	return many.area + table * many.apart;
}

/* Has a page in each table, and then keeps the translation of the first one */
static void *read_many(void *unused)
{
	unsigned long value;

	hydra_pin_to_node(many.node);
	for (size_t i = NEW_TABLES; i < NEW_TABLES + many.tables; i++)
		(void)*(volatile uint64_t *)page_of_table(i);
	while (!atomic_load(&many.stop)) {
		value = atomic_load(&many.value);
		atomic_store(&many.seen, *(volatile uint64_t *)page_of_table(NEW_TABLES));
		atomic_store(&many.read, value);
	}
	return NULL;
}

static void *choose_linux(void *unused)
{
	if (hydra_write_policy(getpid(), "linux"))
		abort();
	atomic_store(&many.chosen, true);
	return NULL;
}

/* Pages of node 0, in so many tables that all cannot be freed at once */
static void map_many(struct __test_metadata *_metadata, int reader_node, size_t apart)
{
	const size_t tables = apart == TABLE_SIZE ? 3000 : 1000;
	const size_t size = (NEW_TABLES + tables) * apart;

	many = (struct many){
		.node = reader_node, .area = hydra_reserve(size), .tables = tables, .apart = apart,
	};
	/* More than the machine may have, if all of it were used */
	ASSERT_EQ(many.area, mmap(many.area, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0));
	for (size_t i = NEW_TABLES; i < NEW_TABLES + tables; i++)
		*(volatile uint64_t *)page_of_table(i) = 1;
	/* The tables above the new ones */
	*(volatile uint64_t *)page_of_table(0) = 1;
	*(volatile uint64_t *)page_of_table(NEW_TABLES - 1) = 1;
	atomic_store(&many.value, 1);
}

static void start_reader(struct __test_metadata *_metadata)
{
	struct hydra_stats stats;

	atomic_store(&many.stop, false);
	atomic_store(&many.read, 0);
	ASSERT_EQ(0, pthread_create(&many.reader, NULL, read_many, NULL));
	while (!atomic_load(&many.read))
		usleep(10000);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	ASSERT_LE(many.tables, stats.replica_tables);
}

static void stop_reader(void)
{
	atomic_store(&many.stop, true);
	pthread_join(many.reader, NULL);
}

/* The first page becomes another one. The reader must read that. */
static bool renew_page(void)
{
	char *page = page_of_table(NEW_TABLES);
	unsigned long next = atomic_load(&many.value) + 1;

	if (madvise(page, PAGE_SIZE, MADV_DONTNEED))
		return false;
	/* This takes the frame of the old page: a stale translation finds another value. */
	*(volatile uint64_t *)(page_of_table(NEW_TABLES - 1) + PAGE_SIZE) = ~next;
	*(volatile uint64_t *)page = next;
	if (madvise(page_of_table(NEW_TABLES - 1) + PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED))
		return false;
	atomic_store(&many.value, next);
	while (atomic_load(&many.read) != next)
		__builtin_ia32_pause();
	many.stale += atomic_load(&many.seen) != next;
	return true;
}

/* The tables that the domain trees lead to, counted under mmap_lock; -1: the trees are wrong */
static long tables_reached(void)
{
	char text[4096];
	long tables;

	if (hydra_read_file("/proc/self/hydra_check", text, sizeof(text)) < 0)
		return -1;
	if (sscanf(text, "ok tables %ld", &tables) == 1)
		return tables;
	fprintf(stderr, "# /proc/self/hydra_check says:\n%s", text);
	return -1;
}

/*
 *    the main thread, node 0     the reader, last node     another thread, node 0
 *                                                          chooses policy "linux":
 *                                                            frees some tables
 *    a page in a new table
 *    drops a page, writes it
 *                                reads the page
 *    counts the tables
 *                                                            frees more tables
 *    ...
 *
 * Return: the largest part of the tables, in per cent, that went between two counts; -1: an error
 */
static long return_meanwhile(void)
{
	const size_t new_size = (NEW_TABLES - 2) * many.apart;
	unsigned long fresh = NEW_TABLES - 1;
	long all, before, now, most = 0;
	bool chosen;

	/* No new table yet, but node 0 has the tables above them. */
	if (mmap(page_of_table(1), new_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED || !renew_page())
		return -1;
	*(volatile uint64_t *)page_of_table(0) = 1;
	atomic_store(&many.chosen, false);
	all = tables_reached();
	before = all;
	if (all <= 0 || pthread_create(&many.chooser, NULL, choose_linux, NULL))
		return -1;
	do {
		chosen = atomic_load(&many.chosen);
		if (--fresh > 0)
			*(volatile uint64_t *)page_of_table(fresh) = 1;
		if (!renew_page())
			return -1;
		now = tables_reached();
		if (now < 0)
			return -1;
		if (before - now > most)
			most = before - now;
		before = now;
	} while (!chosen);
	pthread_join(many.chooser, NULL);
	return hydra_is_split() ? -1 : most * 100 / all;
}

/*
 * Other threads get mmap_lock in between: they do not find all gone at once. On a busy host the
 * main thread may not run for long, so it may try again. What has gone comes back each time.
 */
#define RETURNS		5	/* at most */
#define AT_ONCE		40	/* per cent of the tables that went: too many */

/* The kernel with checkers and injected faults: there a return takes long enough to be seen. */
static bool on_slow_kernel(void)
{
	return !access("/sys/kernel/mm/hydra/break", F_OK);
}

static void run_while_tables_go(struct __test_metadata *_metadata, int reader_node, size_t apart)
{
	long most = 100;

	map_many(_metadata, reader_node, apart);
	start_reader(_metadata);
	for (int i = 0; i < RETURNS && most >= AT_ONCE; i++) {
		most = return_meanwhile();
		ASSERT_LE(0, most);
		EXPECT_EQ(0, many.stale);
		hydra_assert_consistent();
		stop_reader();
		ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
		start_reader(_metadata);
		ASSERT_TRUE(await_split(true));
		for (size_t n = 0; n < NEW_TABLES; n++)
			*(volatile uint64_t *)page_of_table(n) = 1;
		ASSERT_TRUE(renew_page());
	}
	/* On a busy host a fast kernel may do all parts before the main thread runs again. */
	TH_LOG("%ld %% of the tables went at once", most);
	if (on_slow_kernel())
		EXPECT_GT(AT_ONCE, most);
	stop_reader();
	EXPECT_EQ(0, many.stale);
}

TEST_F_TIMEOUT(split, threads_run_while_many_tables_go, 300)
{
	run_while_tables_go(_metadata, self->last, TABLE_SIZE);
}

TEST_F_TIMEOUT(split, threads_run_while_many_upper_tables_go, 300)
{
	run_while_tables_go(_metadata, self->last, UPPER_SIZE);
}

TEST_F_TIMEOUT(split, process_with_many_tables_returns_when_it_has_moved_to_one_node, 180)
{
	struct hydra_stats stats;
	bool returned;

	map_many(_metadata, self->last, TABLE_SIZE);
	start_reader(_metadata);
	ASSERT_EQ(0, hydra_forget_after(4));
	hydra_pin_to_node(self->last);
	returned = await_split(false);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_TRUE(returned) {
		TH_LOG("%lu copies are left, %lu have been forgotten", stats.replica_tables,
		       stats.forgotten);
	}
	EXPECT_EQ(0, trees());
	ASSERT_EQ(0, hydra_forget_after(0));
	stop_reader();
}

/* No other thread is left: the main thread's switches ask for the parts. */
TEST_F_TIMEOUT(split, process_with_many_tables_returns_when_one_thread_is_left, 180)
{
	map_many(_metadata, self->last, TABLE_SIZE);
	start_reader(_metadata);
	stop_reader();
	EXPECT_TRUE(await_split(false));
	hydra_pin_to_node(self->last);
	EXPECT_FALSE(hydra_is_split());
}

/* Copies of leaf tables and tables above them, which the process has for its nodes */
static uint64_t own_tables(void)
{
	struct hydra_stats stats;

	return hydra_read_stats(getpid(), &stats) ? 0 : stats.replica_tables + stats.upper_tables;
}

/* How a child ends, while its tables go */
#define IN_BETWEEN	10
#define TOO_LATE	11

/* In a child. It ends as soon as it has lost so many eighths of its tables. */
static void end_while_tables_go(struct __test_metadata *_metadata, int reader_node, int eighths)
{
	unsigned char resident;
	uint64_t all;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	map_many(_metadata, reader_node, UPPER_SIZE);
	start_reader(_metadata);
	all = own_tables();
	if (pthread_create(&many.chooser, NULL, choose_linux, NULL))
		_exit(1);
	/* mincore() waits for mmap_lock, and so gets it between two parts. */
	while (own_tables() > all * (8 - eighths) / 8)
		if (mincore(page_of_table(0), PAGE_SIZE, &resident))
			_exit(1);
	_exit(own_tables() && hydra_is_split() ? IN_BETWEEN : TOO_LATE);
}

/*
 * Children end at several moments of their return: while leaf tables go, and while those above do.
 * On a busy host a child may miss its moment, so another one tries again. The tables go in parts
 * that are larger than an eighth, so some moments may not come at all.
 */
#define MOMENTS		3	/* of seven, at least; 1 on a fast kernel */

TEST_F_TIMEOUT(split, process_ends_while_its_tables_go, 300)
{
	int moments = 0;

	for (int eighths = 1; eighths < 8; eighths++) {
		int status = TOO_LATE;

		for (int tries = 0; tries < 2 && status == TOO_LATE; tries++) {
			pid_t child = fork();

			if (!child)
				end_while_tables_go(_metadata, self->last, eighths);
			ASSERT_LT(0, child);
			status = hydra_wait_child(child);
		}
		if (status == IN_BETWEEN)
			moments++;
		else
			ASSERT_EQ(TOO_LATE, status);
	}
	TH_LOG("children ended at %d of 7 moments", moments);
	EXPECT_LE(on_slow_kernel() ? MOMENTS : 1, moments);
}

/*
 * Threads on two nodes that do not sleep make no switch. If the process returned to plain Linux
 * all the same, the node would fill its tables again that it has not forgotten.
 */
TEST_F_TIMEOUT(split, stays_split_while_two_nodes_run_it, 90)
{
	const struct hydra_domain_stats *there;
	struct hydra_stats before, after;
	struct runner r, s;

	start_runner(_metadata, &r, 0, self->area);
	start_runner(_metadata, &s, self->last, self->area);
	EXPECT_TRUE(hydra_is_split());
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	ASSERT_EQ(0, hydra_forget_after(4));
	sleep(5);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	ASSERT_EQ(0, hydra_forget_after(0));
	EXPECT_TRUE(after.split);
	there = hydra_on_node(&after, self->last);
	ASSERT_NE(NULL, there);
	EXPECT_GE(there->forgotten, there->fills - hydra_on_node(&before, self->last)->fills);
	stop_runner(_metadata, &r);
	stop_runner(_metadata, &s);
}

/* Splits and returns in quick succession make the trees stay for a minute. */
static void make_trees_stay(struct __test_metadata *_metadata, char *area)
{
	struct runner r;

	start_runner(_metadata, &r, 1, area);
	for (int i = 0; i < 6; i++) {
		ASSERT_EQ(0, hydra_off());
		ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
		ASSERT_TRUE(hydra_is_split());
	}
	stop_runner(_metadata, &r);
	ASSERT_EQ(0, hydra_off());
	ASSERT_EQ(0, hydra_leave_other_nodes());
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	ASSERT_FALSE(hydra_is_split());
}

/*
 * A thread comes to a node that has never had a tree, and sleeps: the CPU has switched to it once,
 * before there was a tree. All the same the node has run the process: the kernel looks until the
 * node has left a leaf table, and the process stays split. (With two nodes, this one has had a
 * tree.)
 */
TEST_F_TIMEOUT(split, stays_split_when_a_node_has_just_got_its_tree, 90)
{
	double end = hydra_seconds() + 3 * RETURN_SECONDS;
	const struct hydra_domain_stats *there;
	struct hydra_stats stats;
	struct visit v;

	make_trees_stay(_metadata, self->area);
	begin_visit(_metadata, &v, self->last, self->area);
	EXPECT_EQ(1ULL << self->last | 1, trees());
	ASSERT_EQ(0, hydra_forget_after(1));
	do {
		usleep(20000);
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
		there = hydra_on_node(&stats, self->last);
	} while (stats.split && !there->forgotten && hydra_seconds() < end);
	EXPECT_TRUE(stats.split);
	EXPECT_LT(0, there->forgotten);
	ASSERT_EQ(0, hydra_forget_after(0));
	end_visit(&v);
}

static struct {
	cpu_set_t cpus;		/* where the thread comes to */
	char *page;		/* populated by the main thread */
	int pagemap;
	atomic_bool done, stop;
} coming;

static void *come(void *arg)
{
	uint64_t entry;

	/*
	 * The main thread holds mmap_lock: the other thread must not map memory, nor call
	 * malloc().
	 */
	do {
		if (pread(coming.pagemap, &entry, 8, (uintptr_t)coming.page / PAGE_SIZE * 8) != 8)
			abort();
	} while (!(entry >> 63));
	if (sched_setaffinity(0, sizeof(coming.cpus), &coming.cpus))
		abort();
	atomic_store(&coming.done, true);
	/* No system call, no sleep: the kernel has to ask the thread again. */
	while (!atomic_load(&coming.stop))
		;
	return NULL;
}

/*
 *    the main thread                  another thread
 *    populates 1 GiB, with
 *    mmap_lock, for a second or so
 *                                     sees the first page
 *                                     moves to node 1, without a tree
 *                                     <the kernel cannot take mmap_lock>
 *                                     runs on, without a tree for its node
 *    has populated all
 *                                     <a timer asks the thread again>
 *                                     its node gets a tree
 */
TEST_F_TIMEOUT(split, thread_that_comes_does_not_wait_for_mmap_lock, 90)
{
	const size_t pages = 1 << 30 >> 12;
	int cpus[HYDRA_MAX_CPUS];
	pthread_t comer;

	hydra_node_cpus(1, cpus);
	CPU_ZERO(&coming.cpus);
	CPU_SET(cpus[0], &coming.cpus);
	coming.page = hydra_map(hydra_reserve(pages * PAGE_SIZE), pages);
	coming.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, coming.pagemap);
	ASSERT_EQ(0, pthread_create(&comer, NULL, come, NULL));
	/* Maps the page of zeroes a quarter of a million times. */
	ASSERT_EQ(0, madvise(coming.page, pages * PAGE_SIZE, MADV_POPULATE_READ));
	EXPECT_TRUE(atomic_load(&coming.done));
	for (int tries = 0; !(trees() & 2) && tries < TREE_SECONDS * 10; tries++)
		usleep(100000);
	EXPECT_TRUE(trees() & 2);
	atomic_store(&coming.stop, true);
	ASSERT_EQ(0, pthread_join(comer, NULL));
}

#define BUSY_THREADS	8
#define BUSY_PAGES	512UL

static atomic_bool stop_busy;

/* Holds mmap_lock for reading nearly all the time, and maps no memory. */
static void *keep_lock(void *area)
{
	while (!atomic_load(&stop_busy))
		if (madvise(area, BUSY_PAGES * PAGE_SIZE, MADV_POPULATE_READ))
			abort();
	return NULL;
}

/*
 * So many threads hold mmap_lock for reading in turn that it is never free for a look. The
 * kernel has to wait in the queue of the lock.
 */
TEST_F_TIMEOUT(split, thread_that_comes_gets_a_tree_while_all_use_mmap_lock, 90)
{
	pthread_t comer, busy[BUSY_THREADS];
	int cpus[HYDRA_MAX_CPUS], tries;

	hydra_node_cpus(1, cpus);
	CPU_ZERO(&coming.cpus);
	CPU_SET(cpus[0], &coming.cpus);
	coming.page = hydra_map(hydra_reserve(BUSY_PAGES * PAGE_SIZE), BUSY_PAGES);
	coming.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, coming.pagemap);
	atomic_store(&coming.done, false);
	atomic_store(&coming.stop, false);
	for (int i = 0; i < BUSY_THREADS; i++)
		ASSERT_EQ(0, pthread_create(&busy[i], NULL, keep_lock, coming.page));
	ASSERT_EQ(0, pthread_create(&comer, NULL, come, NULL));
	for (tries = 0; !(trees() & 2) && tries < TREE_SECONDS * 10; tries++)
		usleep(100000);
	EXPECT_TRUE(trees() & 2);
	atomic_store(&stop_busy, true);
	atomic_store(&coming.stop, true);
	for (int i = 0; i < BUSY_THREADS; i++)
		ASSERT_EQ(0, pthread_join(busy[i], NULL));
	ASSERT_EQ(0, pthread_join(comer, NULL));
}

#define CPUS	"/sys/devices/system/cpu/"

static void set_online(struct __test_metadata *_metadata, const int *cpus, int count, bool online)
{
	for (int i = 0; i < count; i++) {
		char dir[64];

		snprintf(dir, sizeof(dir), CPUS "cpu%d/", cpus[i]);
		EXPECT_EQ(0, hydra_write_number(dir, "online", "%d", online));
	}
}

static void pin_to_cpu(void *cpu)
{
	hydra_pin_to_cpu(*(int *)cpu);
}

/*
 * All CPUs of a node go offline with translations in their TLBs. The node's thread runs
 * on another node until the CPUs are online again.
 */
TEST_F_TIMEOUT(split, cpus_of_a_node_go_and_come_back, 90)
{
	int cpus[HYDRA_MAX_CPUS], count = hydra_node_cpus(self->last, cpus);

	if (access(CPUS "cpu1/online", F_OK))
		SKIP(return, "CPUs cannot go offline (CONFIG_HOTPLUG_CPU)");
	hydra_start_workers(HYDRA_SLEEP);
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
	for (int turn = 0; turn < 2; turn++) {
		set_online(_metadata, cpus, count, false);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED + turn);
		EXPECT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_ONLY, SEED + turn);
		hydra_assert_consistent();
		set_online(_metadata, cpus, count, true);
		hydra_run(self->last, pin_to_cpu, &cpus[count - 1]);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_ONLY, SEED + turn);
		EXPECT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE));
		hydra_write_pages(self->last, self->area, PAGES, SEED + turn + 1);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED + turn + 1);
	}
	hydra_stop_workers();
}

/* Interrupts of a CPU for function calls and TLB flushes, of any origin: /proc/interrupts */
static long calls_of_cpu(int cpu)
{
	FILE *f = fopen("/proc/interrupts", "r");
	long calls = 0;
	char *line = NULL, *at;
	size_t size = 0;

	/* All CPUs have a column: none has gone offline in this program. */
	while (f && getline(&line, &size, f) > 0) {
		if (strncmp(line, "CAL:", 4) && strncmp(line, "TLB:", 4))
			continue;
		at = line + 4;
		for (int i = 0; i < cpu; i++)
			strtol(at, &at, 10);
		calls += strtol(at, &at, 10);
	}
	free(line);
	if (f)
		fclose(f);
	return calls;
}

#define SWITCHES	50	/* on, and off again */

static atomic_bool spinning, stop_spinning;

static void *spin_on_node(void *node)
{
	hydra_pin_to_node((intptr_t)node);
	atomic_store(&spinning, true);
	while (!atomic_load(&stop_spinning))
		;
	return NULL;
}

/*
 * A process with a thread on one CPU of two nodes is switched on and off. Other CPUs of the
 * nodes run other processes, and are not interrupted for that.
 */
TEST_F_TIMEOUT(split, switching_interrupts_no_other_process, 90)
{
	int cpus[HYDRA_MAX_CPUS], first[2], second[2], pid[2];	/* by node */
	long calls[2], own;
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		ASSERT_LE(2, hydra_node_cpus(i ? self->last : 0, cpus));
		first[i] = cpus[0];
		second[i] = cpus[1];
		pid[i] = fork();
		if (!pid[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			hydra_pin_to_cpu(second[i]);
			for (;;)
				;
		}
	}
	ASSERT_EQ(0, pthread_create(&thread, NULL, spin_on_node, (void *)(intptr_t)self->last));
	while (!atomic_load(&spinning))
		;
	/* The first split changes code of the kernel, and interrupts every CPU for it. */
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	usleep(500000);
	own = calls_of_cpu(first[1]);
	for (int i = 0; i < 2; i++)
		calls[i] = calls_of_cpu(second[i]);
	for (int i = 0; i < SWITCHES; i++) {
		ASSERT_EQ(0, hydra_off());
		ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
		ASSERT_EQ(1ULL << self->last | 1, trees());
	}
	/* Other parts of the kernel may interrupt a CPU now and then. */
	for (int i = 0; i < 2; i++) {
		EXPECT_GT(SWITCHES / 2, calls_of_cpu(second[i]) - calls[i])
			TH_LOG("CPU %d ran another process", second[i]);
	}
	/* Else the test says nothing: the thread's CPU loads a root for each switch. */
	EXPECT_LE(SWITCHES, calls_of_cpu(first[1]) - own);
	atomic_store(&stop_spinning, true);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		EXPECT_EQ(128 + SIGKILL, hydra_wait_child(pid[i]));
	}
}

/* The child shares the address space, and does not count as a second thread. */
TEST_F(split, child_of_vfork_elsewhere_splits_nothing)
{
	int child = vfork();

	if (!child) {
		hydra_pin_to_node(1);
		_exit(0);
	}
	ASSERT_LT(0, child);
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_FALSE(hydra_is_split());
}

/*
 * io_uring's kernel thread, which looks for requests all the time, is a thread of the process for
 * Linux. It runs no code of the program, and is no reason to split.
 */
TEST_F(split, kernel_thread_of_io_uring_splits_nothing)
{
	int cpus[HYDRA_MAX_CPUS], ring;
	struct io_uring_params params = {
		.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF,
		.sq_thread_idle = 60000,	/* milliseconds: until the end of the test */
	};

	hydra_node_cpus(0, cpus);
	params.sq_thread_cpu = cpus[1];
	ring = syscall(SYS_io_uring_setup, 4, &params);
	ASSERT_LE(0, ring)
		TH_LOG("needs CONFIG_IO_URING");
	ASSERT_EQ(2, hydra_number("/proc/self/status", "Threads:"));
	for (int node = self->last; node >= 0; node--) {
		hydra_pin_to_node(node);
		EXPECT_FALSE(hydra_is_split())
			TH_LOG("on node %d", hydra_node_id(node));
	}
	hydra_pin_to_node(self->last);
	ASSERT_EQ(0, hydra_off());
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	EXPECT_FALSE(hydra_is_split());
	/* A second thread of the program is one. */
	hydra_pin_to_node(0);
	struct visit v;

	begin_visit(_metadata, &v, 1, self->area);
	EXPECT_TRUE(hydra_is_split());
	end_visit(&v);
	close(ring);
}

/* The parent has trees. The child inherits the settings and has no trees. */
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
