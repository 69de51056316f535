// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a node gets entries: the entry of the fault and the prefetched entries, in the
 * node's own tables, for every kind of access.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "hydra_util.h"


FIXTURE(fill) {
	char *warm;	/* two leaf tables to warm up with */
	char *base;	/* eight leaf tables */
	int last;	/* node */
};

FIXTURE_SETUP(fill)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	self->warm = hydra_reserve(2 * TABLE_SIZE);
	self->base = hydra_reserve(8 * TABLE_SIZE);
	self->last = hydra_nodes() - 1;
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(fill)
{
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
}

/* Reads of single pages by one node, and the cost of the reads */

struct reads {
	char *area;
	size_t from, pages, step;
	uint64_t seed;
	size_t mistakes;
};

static void read_first_words(void *arg)
{
	struct reads *r = arg;

	for (size_t page = r->from; page < r->from + r->pages; page += r->step)
		r->mistakes += *(volatile uint64_t *)(r->area + page * PAGE_SIZE) !=
			       hydra_word(r->seed, page, 0);
}

static void read_pages(struct __test_metadata *_metadata, int node, char *area, size_t from,
		       size_t pages, size_t step)
{
	/*
	 * static: at the same address each time; on the stack, the arguments could lie in
	 * two pages
	 */
	static struct reads r;

	r = (struct reads){ area, from, pages, step, 1 };
	hydra_run(node, read_first_words, &r);
	EXPECT_EQ(0, r.mistakes)
		TH_LOG("node %d reads %zu wrong words", node, r.mistakes);
}

struct cost {
	uint64_t fills, prefetched, replica_tables, others;
};

static struct cost cost_so_far(struct __test_metadata *_metadata, int node)
{
	struct hydra_stats stats;
	struct cost cost;

	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	cost.fills = hydra_on_node(&stats, node)->fills;
	cost.replica_tables = hydra_on_node(&stats, node)->replica_tables;
	cost.prefetched = stats.prefetched;
	cost.others = stats.fills - cost.fills;
	return cost;
}

/*
 * The reads by the node cause the given numbers of fills, prefetched entries and new
 * replicas. Before, the node has read the warm area in the same way, so the node's code,
 * stack and so on are filled. The other nodes sleep; the test's thread may cause a stray
 * fill now and then.
 */
#define STRAY	2

#define READ_COSTS(node, area, from, pages, step, want_fills, want_prefetched, want_tables) do {	\
	struct cost before, after;									\
													\
	before = cost_so_far(_metadata, node);								\
	read_pages(_metadata, node, area, from, pages, step);						\
	after = cost_so_far(_metadata, node);								\
	EXPECT_EQ(want_fills, after.fills - before.fills);						\
	EXPECT_EQ(want_prefetched, after.prefetched - before.prefetched);				\
	EXPECT_EQ(want_tables, after.replica_tables - before.replica_tables);				\
	EXPECT_GE(STRAY, after.others - before.others);							\
} while (0)

/* Tables owned by node 0; every node has warmed up on others */
static void owned_by_first(struct __test_metadata *_metadata, FIXTURE_DATA(fill) *self,
			   size_t tables)
{
	hydra_map(self->warm, TABLE_PAGES);
	hydra_write_pages(0, self->warm, TABLE_PAGES, 1);
	hydra_map(self->base, tables * TABLE_PAGES);
	hydra_write_pages(0, self->base, tables * TABLE_PAGES, 1);
	for (int node = 1; node <= self->last; node++) {
		for (size_t page = 0; page < 2; page++) {
			read_pages(_metadata, node, self->warm, page, 1, 1);
			cost_so_far(_metadata, node);
		}
	}
}

TEST_F(fill, no_prefetch_fills_one_entry_a_fault)
{
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	owned_by_first(_metadata, self, 1);
	for (int node = 1; node <= self->last; node++) {
		READ_COSTS(node, self->base, 3, 1, 1, 1, 0, 1);
		READ_COSTS(node, self->base, 17, 1, 1, 1, 0, 0);
		READ_COSTS(node, self->base, 3, 1, 1, 0, 0, 0);
		READ_COSTS(node, self->base, 0, 64, 1, 62, 0, 0);
		READ_COSTS(node, self->base, 0, 64, 1, 0, 0, 0);
	}
	/* the owner has nothing to fill: its tree links the table */
	READ_COSTS(0, self->base, 0, 512, 1, 0, 0, 0);
	EXPECT_EQ(0, hydra_probe_all(self->base, 64, HYDRA_READ_WRITE, 1));
}

TEST_F(fill, prefetch_degrees)
{
	static const unsigned int degrees[] = { 1, 2, 4, 8, 9 };

	for (int i = 0; i < ARRAY_SIZE(degrees); i++) {
		unsigned int entries = 1U << degrees[i];
		struct cost before, after;

		ASSERT_EQ(0, hydra_on(degrees[i], HYDRA_FILTER_TABLE));
		owned_by_first(_metadata, self, 1);
		READ_COSTS(1, self->base, 300, 1, 1, 1, entries - 1, 1);
		/* and no more than needed for the rest */
		before = cost_so_far(_metadata, 1);
		read_pages(_metadata, 1, self->base, 0, 512, 1);
		after = cost_so_far(_metadata, 1);
		EXPECT_EQ(512 - entries, after.fills + after.prefetched -
					 before.fills - before.prefetched);
		EXPECT_GE(2 * 512 / entries, after.fills - before.fills);
		READ_COSTS(1, self->base, 0, 512, 1, 0, 0, 0);
		EXPECT_EQ(0, hydra_probe_all(self->base, 16, HYDRA_READ_WRITE, 1));
		hydra_assert_consistent();
	}
}

TEST_F(fill, prefetch_ends_with_mapping)
{
	owned_by_first(_metadata, self, 1);
	/* three mappings in one table: 100, 100 and 312 pages */
	ASSERT_EQ(0, mprotect(self->base + 100 * PAGE_SIZE, 100 * PAGE_SIZE, PROT_READ));
	READ_COSTS(1, self->base, 150, 1, 1, 1, 99, 1);
	READ_COSTS(1, self->base, 100, 100, 1, 0, 0, 0);
	READ_COSTS(1, self->base, 99, 1, 1, 1, 99, 0);
	READ_COSTS(1, self->base, 200, 1, 1, 1, 311, 0);
	READ_COSTS(1, self->base, 0, 512, 1, 0, 0, 0);
	EXPECT_EQ(0, hydra_probe_all(self->base, 100, HYDRA_READ_WRITE, 1));
}

TEST_F(fill, prefetch_takes_what_is_there)
{
	owned_by_first(_metadata, self, 1);
	/* the second half of the table is empty again */
	ASSERT_EQ(0, madvise(self->base + 256 * PAGE_SIZE, 256 * PAGE_SIZE, MADV_DONTNEED));
	READ_COSTS(1, self->base, 10, 1, 1, 1, 255, 1);
	READ_COSTS(1, self->base, 0, 256, 1, 0, 0, 0);
	EXPECT_EQ(0, hydra_probe_all(self->base + 256 * PAGE_SIZE, 8, HYDRA_READ_WRITE, 0));
}

/* Memory that one node uses costs no more tables than under Linux */
TEST_F(fill, private_memory_makes_no_replica)
{
	struct hydra_tables before, after;
	size_t pages = 2 * TABLE_PAGES;

	for (int node = 0; node <= self->last; node++) {
		char *warm = hydra_map(hydra_reserve(TABLE_SIZE), TABLE_PAGES);
		char *area = hydra_map(hydra_reserve(pages * PAGE_SIZE), pages);
		struct cost from, to;

		hydra_write_pages(node, warm, TABLE_PAGES, 1);
		read_pages(_metadata, node, warm, 0, TABLE_PAGES, 1);
		from = cost_so_far(_metadata, node);
		ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
		ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
		from = cost_so_far(_metadata, node);
		hydra_write_pages(node, area, pages, 1);
		read_pages(_metadata, node, area, 0, pages, 1);
		to = cost_so_far(_metadata, node);
		EXPECT_EQ(0, to.fills - from.fills);
		EXPECT_EQ(0, to.replica_tables - from.replica_tables);
		ASSERT_EQ(0, hydra_read_tables(getpid(), &after));
		EXPECT_EQ(pages, after.local_leaves[node] - before.local_leaves[node]);
		EXPECT_EQ(0, after.remote_leaves[node] - before.remote_leaves[node]);
		for (int other = 0; other <= self->last; other++) {
			/*
			 * the two leaf tables; on the node itself at most one table
			 * above, twice
			 */
			uint64_t kib = after.pagetable_kib[other] - before.pagetable_kib[other];

			EXPECT_LE(other == node ? 8 : 0, kib);
			EXPECT_GE(other == node ? 16 : 4, kib);
			if (other == node)
				continue;
			EXPECT_EQ(after.local_leaves[other], before.local_leaves[other]);
			EXPECT_EQ(after.remote_leaves[other], before.remote_leaves[other]);
		}
	}
}

/*
 * Each node has what its thread needs beside the area. Node 0 comes last: often the process is
 * split only when another node's thread runs, and then the tree of node 0 still lacks the stack of
 * the node's thread.
 */
static void begin_warm(struct __test_metadata *_metadata, FIXTURE_DATA(fill) *self, bool hydra)
{
	ASSERT_EQ(0, hydra ? hydra_on(9, HYDRA_FILTER_TABLE) : hydra_off());
	hydra_map(self->warm, TABLE_PAGES);
	hydra_write_pages(0, self->warm, TABLE_PAGES, 1);
	for (int node = self->last; node >= 0; node--)
		read_pages(_metadata, node, self->warm, 0, TABLE_PAGES, 1);
}

/*
 * Every node reads shared memory through local tables; under Linux, most nodes use remote
 * tables.
 */
TEST_F(fill, shared_memory_is_local)
{
	struct hydra_tables before, after;
	size_t pages = 2 * TABLE_PAGES;
	char *area = self->base;

	for (int hydra = 0; hydra < 2; hydra++, area += 4 * TABLE_SIZE) {
		begin_warm(_metadata, self, hydra);
		ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
		ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
		hydra_map(area, pages);
		hydra_write_pages(0, area, pages, 1);
		for (int node = 0; node <= self->last; node++)
			read_pages(_metadata, node, area, 0, pages, 1);
		ASSERT_EQ(0, hydra_read_tables(getpid(), &after));
		for (int node = 0; node <= self->last; node++) {
			uint64_t local = after.local_leaves[node] - before.local_leaves[node];
			uint64_t remote = after.remote_leaves[node] - before.remote_leaves[node];
			bool own = hydra || node == 0;

			EXPECT_EQ(own ? pages : 0, local)
				TH_LOG("node %d, %s", node, hydra ? "hydra" : "linux");
			EXPECT_EQ(own ? 0 : pages, remote)
				TH_LOG("node %d, %s", node, hydra ? "hydra" : "linux");
			EXPECT_LE(own ? 8 : 0,
				  after.pagetable_kib[node] - before.pagetable_kib[node]);
		}
		EXPECT_EQ(0, hydra_probe_all(area, 16, HYDRA_READ_WRITE, 1));
	}
}

#define EXPECT_MAP(want_ranges, want_node, want_bytes, of_node, start, size) do {		\
	struct hydra_map_part part;								\
												\
	ASSERT_EQ(0, hydra_read_map(getpid(), of_node, start, size, &part));			\
	EXPECT_EQ(want_ranges, part.ranges);							\
	EXPECT_EQ(want_node, part.node);							\
	EXPECT_EQ(want_bytes, part.bytes);							\
} while (0)

/* hydra_map has the tables that each node's CPUs walk; those next to each other are one range. */
TEST_F(fill, map_names_the_node_of_each_table)
{
	char *area = self->base;

	for (int hydra = 0; hydra < 2; hydra++, area += 4 * TABLE_SIZE) {
		begin_warm(_metadata, self, hydra);
		hydra_map(area, 2 * TABLE_PAGES);
		hydra_write_pages(0, area, 2 * TABLE_PAGES, 1);
		read_pages(_metadata, self->last, area, 0, TABLE_PAGES, 1);
		EXPECT_MAP(1, 0, 2 * TABLE_SIZE, 0, area, 3 * TABLE_SIZE);
		/* The last node has a copy of the first table, and has not used the second. */
		if (hydra)
			EXPECT_MAP(1, self->last, TABLE_SIZE, self->last, area, 3 * TABLE_SIZE);
		else
			EXPECT_MAP(1, 0, 2 * TABLE_SIZE, self->last, area, 3 * TABLE_SIZE);
	}
}

/* More ranges than one read of the file has room for */
TEST_F(fill, map_names_many_ranges_once_each)
{
	size_t tables = 256;
	char *area = hydra_reserve(tables * TABLE_SIZE);

	for (size_t table = 0; table < tables; table += 2) {
		hydra_map(area + table * TABLE_SIZE, 1);
		hydra_write_pages(0, area + table * TABLE_SIZE, 1, 1);
	}
	EXPECT_MAP(tables / 2, 0, tables / 2 * TABLE_SIZE, 0, area, tables * TABLE_SIZE);
}

/* The stack grows while the thread moves from node to node */
static size_t grow_stack(int depth)
{
	volatile uint64_t frame[2 * PAGE_WORDS];
	size_t mistakes = 0;

	hydra_pin_to_node(depth % hydra_nodes());
	for (size_t word = 0; word < 2 * PAGE_WORDS; word++)
		frame[word] = hydra_word(depth + 1, 0, word);
	if (depth < 150)
		mistakes = grow_stack(depth + 1);
	hydra_pin_to_node((depth + 1) % hydra_nodes());
	for (size_t word = 0; word < 2 * PAGE_WORDS; word++)
		mistakes += frame[word] != hydra_word(depth + 1, 0, word);
	return mistakes;
}

TEST_F(fill, stack_growth)
{
	EXPECT_EQ(0, grow_stack(0));
	hydra_pin_to_node(0);
}

/*
 * Accesses by the kernel on a node whose tables lack the entry. Each access has a new
 * page, which node 0 wrote and the node has never used.
 */
#define COLD_PAGES	64

FIXTURE(cold) {
	char *next;	/* the next cold page, alone in a leaf table */
	int last;
};

FIXTURE_VARIANT(cold) {
	int flags;
};

FIXTURE_VARIANT_ADD(cold, private_memory) {
	.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
};

FIXTURE_VARIANT_ADD(cold, shared_memory) {
	.flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
};

FIXTURE_SETUP(cold)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	self->last = hydra_nodes() - 1;
	hydra_start_workers(HYDRA_SLEEP);
	self->next = hydra_reserve(COLD_PAGES * TABLE_SIZE);
	for (size_t i = 0; i < COLD_PAGES; i++) {
		char *page = self->next + i * TABLE_SIZE;

		ASSERT_EQ(page, mmap(page, PAGE_SIZE, PROT_READ | PROT_WRITE, variant->flags,
				     -1, 0));
		hydra_write_pages(0, page, 1, 1);
	}
}

FIXTURE_TEARDOWN(cold)
{
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
}

static uint32_t *cold_page(FIXTURE_DATA(cold) *self)
{
	self->next += TABLE_SIZE;
	return (uint32_t *)(self->next - TABLE_SIZE);
}

/* The fills of a node. An access to a cold page must cause a fill. */
static uint64_t fills_of(struct __test_metadata *_metadata, int node)
{
	return cost_so_far(_metadata, node).fills;
}

static size_t word_seen_wrong(const uint32_t *word, uint32_t expected)
{
	size_t wrong = 0;

	for (int node = 0; node < hydra_nodes(); node++) {
		uint32_t copy = 0;

		/* on that node, the kernel reads the word */
		if (hydra_syscall(node, SYS_futex, (long)word, FUTEX_WAIT, expected + 1) != -EAGAIN)
			wrong++;
		hydra_pin_to_node(node);
		copy = *(volatile uint32_t *)word;
		if (copy == expected)
			continue;
		fprintf(stderr, "# node %d: the word at %p is %#x, not %#x\n",
			hydra_node_id(node), word, copy, expected);
		wrong++;
	}
	hydra_pin_to_node(0);
	return wrong;
}

TEST_F(cold, futex_wait)
{
	for (int node = 1; node <= self->last; node++) {
		uint32_t *word = cold_page(self);
		uint64_t fills = fills_of(_metadata, node);

		*word = 5;
		EXPECT_EQ(-EAGAIN, hydra_syscall(node, SYS_futex, (long)word, FUTEX_WAIT, 6));
		EXPECT_LT(fills, fills_of(_metadata, node));
		EXPECT_EQ(0, word_seen_wrong(word, 5));
	}
}

/* The kernel changes the word with page faults disabled, then calls fixup_user_fault() */
TEST_F(cold, futex_wake_op)
{
	for (int node = 1; node <= self->last; node++) {
		uint32_t *first = cold_page(self), *second = cold_page(self);
		uint64_t fills = fills_of(_metadata, node);

		*first = 1;
		*second = 41;
		EXPECT_EQ(0, hydra_syscall(node, SYS_futex, (long)first, FUTEX_WAKE_OP, 1, 1,
					   (long)second,
					   FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 41)));
		EXPECT_LT(fills, fills_of(_metadata, node));
		EXPECT_EQ(0, word_seen_wrong(second, 42));
		EXPECT_EQ(0, word_seen_wrong(first, 1));
	}
}

/* A thread dies with locks held, in pages that the thread's node has never used */
struct robust_lock {
	struct robust_list list;
	uint32_t word;
};

struct dying {
	struct robust_lock *locks[2];
	int node;
	uint32_t tid;
	int ready[2], go[2];
};

static void *die_with_locks(void *arg)
{
	struct dying *d = arg;
	struct robust_list_head head = {
		.list.next = &d->locks[0]->list,
		.futex_offset = offsetof(struct robust_lock, word),
	};
	char c;

	hydra_pin_to_node(d->node);
	d->tid = syscall(SYS_gettid);
	if (syscall(SYS_set_robust_list, &head, sizeof(head)))
		return d;
	/* the main thread writes the locks, with the owner */
	if (write(d->ready[1], "x", 1) != 1 || read(d->go[0], &c, 1) != 1)
		return d;
	d->locks[1]->list.next = &head.list;
	syscall(SYS_exit, 0);
	return d;
}

TEST_F(cold, robust_list)
{
	for (int node = 1; node <= self->last; node++) {
		struct dying d = { .node = node };
		pthread_t thread;
		char c;

		ASSERT_EQ(0, pipe(d.ready));
		ASSERT_EQ(0, pipe(d.go));
		for (int i = 0; i < 2; i++)
			d.locks[i] = (struct robust_lock *)cold_page(self);
		ASSERT_EQ(0, pthread_create(&thread, NULL, die_with_locks, &d));
		ASSERT_EQ(1, read(d.ready[0], &c, 1));
		for (int i = 0; i < 2; i++) {
			d.locks[i]->list.next = i ? NULL : &d.locks[1]->list;
			d.locks[i]->word = d.tid | FUTEX_WAITERS;
		}
		ASSERT_EQ(1, write(d.go[1], "x", 1));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ(0, word_seen_wrong(&d.locks[i]->word,
						     FUTEX_OWNER_DIED | FUTEX_WAITERS));
		}
	}
}

/* read() into and write() from cold pages */
TEST_F(cold, read_and_write)
{
	for (int node = 1; node <= self->last; node++) {
		char *from = (char *)cold_page(self), *to = (char *)cold_page(self);
		uint64_t fills = fills_of(_metadata, node);
		int p[2];

		ASSERT_EQ(0, pipe(p));
		EXPECT_EQ(PAGE_SIZE, hydra_syscall(node, SYS_write, p[1], (long)from, PAGE_SIZE));
		EXPECT_LT(fills, fills_of(_metadata, node));
		memset(to, 0, PAGE_SIZE);
		fills = fills_of(_metadata, node);
		EXPECT_EQ(PAGE_SIZE, hydra_syscall(node, SYS_read, p[0], (long)to, PAGE_SIZE));
		EXPECT_LT(fills, fills_of(_metadata, node));
		EXPECT_EQ(0, hydra_probe_all(to, 1, HYDRA_READ_WRITE, 1));
		close(p[0]);
		close(p[1]);
	}
}

/*
 * The kernel reads with page faults disabled and does not retry. Without page faults, a
 * fill can allocate nothing, and succeeds only for a node that shares the leaf table. The
 * kernel reads the text for trace_marker so, and prints "<faulted>" if the read fails.
 */
#define TRACEFS		"/sys/kernel/tracing"
#define INSTANCE	TRACEFS "/instances/hydra-fill"

TEST_F(cold, trace_marker)
{
	static char trace[65536];
	char text[64];
	int fd;

	if (access(TRACEFS "/instances", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	if (access(TRACEFS "/instances", F_OK))
		SKIP(return, "no " TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_TRUE(!mkdir(INSTANCE, 0700) || errno == EEXIST);
	fd = open(INSTANCE "/trace_marker", O_WRONLY);
	ASSERT_LE(0, fd);
	for (int node = 1; node <= self->last; node++) {
		char *page = (char *)cold_page(self), *warm = page + PAGE_SIZE;

		ASSERT_EQ(warm, mmap(warm, PAGE_SIZE, PROT_READ | PROT_WRITE, variant->flags,
				     -1, 0));
		hydra_write_pages(0, warm, 1, 1);
		EXPECT_EQ(0, hydra_probe(node, warm, 1, HYDRA_READABLE, 1));
		snprintf(text, sizeof(text), "cold page read on node %d", node);
		strcpy(page, text);
		EXPECT_EQ(strlen(text), hydra_syscall(node, SYS_write, fd, (long)page,
						      strlen(text)));
		ASSERT_LT(0, hydra_read_file(INSTANCE "/trace", trace, sizeof(trace)));
		EXPECT_NE(NULL, strstr(trace, text))
			TH_LOG("node %d: the trace has instead %s", node,
			       strstr(trace, "faulted") ? "\"<faulted>\"" : "nothing");
		/* empty the trace */
		close(open(INSTANCE "/trace", O_WRONLY | O_TRUNC));
	}
	close(fd);
	EXPECT_EQ(0, rmdir(INSTANCE));
}

/* get_user_pages(): the pipe keeps a reference to the page */
TEST_F(cold, vmsplice)
{
	for (int node = 1; node <= self->last; node++) {
		char *page = (char *)cold_page(self);
		struct iovec piece = { page, PAGE_SIZE };
		uint64_t seen[PAGE_WORDS];
		int p[2];

		ASSERT_EQ(0, pipe(p));
		EXPECT_EQ(PAGE_SIZE, hydra_syscall(node, SYS_vmsplice, p[1], (long)&piece, 1, 0));
		hydra_write_pages(self->last, page, 1, 2);
		EXPECT_EQ(PAGE_SIZE, read(p[0], seen, PAGE_SIZE));
		for (size_t word = 0; word < PAGE_WORDS; word++) {
			EXPECT_EQ(hydra_word(2, 0, word), seen[word]);
		}
		EXPECT_EQ(0, hydra_probe_all(page, 1, HYDRA_READ_WRITE, 2));
		close(p[0]);
		close(p[1]);
	}
}

/* Another process reads and writes ours, in every way there is */
static int meddle(pid_t pid, int node, char *area)
{
	uint64_t words[PAGE_WORDS];
	struct iovec local = { words, PAGE_SIZE }, remote = { area, PAGE_SIZE };
	char path[64];
	long word;
	int fd;

	hydra_pin_to_node(node);
	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != PAGE_SIZE ||
	    words[9] != hydra_word(1, 0, 9))
		return 1;
	for (size_t i = 0; i < PAGE_WORDS; i++)
		words[i] = hydra_word(2, 0, i);
	if (process_vm_writev(pid, &local, 1, &remote, 1, 0) != PAGE_SIZE)
		return 2;

	remote.iov_base = area + TABLE_SIZE;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR);
	if (fd < 0 || pread(fd, words, PAGE_SIZE, (off_t)(uintptr_t)remote.iov_base) != PAGE_SIZE ||
	    words[9] != hydra_word(1, 0, 9))
		return 3;
	for (size_t i = 0; i < PAGE_WORDS; i++)
		words[i] = hydra_word(3, 0, i);
	if (pwrite(fd, words, PAGE_SIZE, (off_t)(uintptr_t)remote.iov_base) != PAGE_SIZE)
		return 4;

	remote.iov_base = area + 2 * TABLE_SIZE;
	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) || waitpid(pid, NULL, 0) != pid)
		return 5;
	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, pid, (uint64_t *)remote.iov_base + 9, NULL);
	if (errno || (uint64_t)word != hydra_word(1, 0, 9))
		return 6;
	for (size_t i = 0; i < PAGE_WORDS; i++)
		if (ptrace(PTRACE_POKEDATA, pid, (uint64_t *)remote.iov_base + i,
			   hydra_word(4, 0, i)))
			return 7;
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL))
		return 8;
	return 0;
}

TEST_F(cold, other_process)
{
	for (int node = 0; node <= self->last; node++) {
		char *area = (char *)cold_page(self);
		int parent = getpid(), child;

		cold_page(self);
		cold_page(self);
		/* a table that only node 0 has, or tables that all nodes have */
		if (node % 2) {
			for (int i = 0; i < 3; i++) {
				EXPECT_EQ(0, hydra_probe_all(area + i * TABLE_SIZE, 1,
							     HYDRA_READ_WRITE, 1));
			}
		}
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(meddle(parent, node, area));
		EXPECT_EQ(0, hydra_wait_child(child))
			TH_LOG("that is where meddle() returned, on node %d", node);
		for (int i = 0; i < 3; i++) {
			EXPECT_EQ(0, hydra_probe_all(area + i * TABLE_SIZE, 1, HYDRA_READ_WRITE,
						     2 + i));
		}
	}
}

/* The same of ourselves, which also writes where there is no permission */
TEST_F(cold, own_mem_file)
{
	int fd = open("/proc/self/mem", O_RDWR);

	ASSERT_LE(0, fd);
	for (int node = 1; node <= self->last; node++) {
		char *from = (char *)cold_page(self), *to = (char *)cold_page(self);

		EXPECT_EQ(PAGE_SIZE, hydra_syscall(node, SYS_pread64, fd, (long)to, PAGE_SIZE,
						   (long)from));
		EXPECT_EQ(0, hydra_probe_all(to, 1, HYDRA_READ_WRITE, 1));
		if (variant->flags & MAP_SHARED)
			continue;
		hydra_write_pages(0, from, 1, 2);
		ASSERT_EQ(0, mprotect(to, PAGE_SIZE, PROT_READ));
		EXPECT_EQ(0, hydra_probe_all(to, 1, HYDRA_READ_ONLY, 1));
		EXPECT_EQ(PAGE_SIZE, hydra_syscall(node, SYS_pwrite64, fd, (long)from, PAGE_SIZE,
						   (long)to));
		EXPECT_EQ(0, hydra_probe_all(to, 1, HYDRA_READ_ONLY, 2));
	}
	close(fd);
}

/*
 * A private copy of memory without a struct page, like the firmware's ROM: the kernel
 * reads the source through the user's address with page faults disabled. If the read
 * fails, the kernel fills the copy with zeroes.
 */
#define ROM_START	0xf0000
#define ROM_PAGES	16

TEST_F(cold, copy_of_device_memory)
{
	int fd = open("/dev/mem", O_RDONLY);

	if (fd < 0 && errno == ENOENT)
		SKIP(return, "no /dev/mem (CONFIG_DEVMEM)");
	ASSERT_LE(0, fd);
	for (int node = 1; node <= self->last; node++) {
		uint64_t *rom = mmap(NULL, ROM_PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE, fd, ROM_START);
		size_t contents = 0;

		ASSERT_NE(MAP_FAILED, rom);
		for (size_t page = 0; page < ROM_PAGES; page++) {
			uint64_t expected[PAGE_WORDS], seen = 0;
			uint64_t *addr = rom + page * PAGE_WORDS;

			memcpy(expected, addr, PAGE_SIZE);
			for (size_t word = 0; word < PAGE_WORDS; word++)
				contents += expected[word] && expected[word] != UINT64_MAX;
			/* the node's first access to the page is a write */
			EXPECT_EQ(8, hydra_syscall(node, SYS_pread64, fd, (long)(addr + 3), 8, 0));
			for (size_t word = 0; word < PAGE_WORDS; word++) {
				EXPECT_EQ(0, hydra_try_read(addr + word, &seen));
				if (word == 3)
					continue;
				ASSERT_EQ(expected[word], seen)
					TH_LOG("word %zu of page %zu, copied by node %d", word,
					       page, node);
			}
		}
		EXPECT_LT(0, contents)
			TH_LOG("the ROM is empty: this shows nothing");
		EXPECT_EQ(0, munmap(rom, ROM_PAGES * PAGE_SIZE));
	}
	close(fd);
}

HYDRA_HARNESS_MAIN
