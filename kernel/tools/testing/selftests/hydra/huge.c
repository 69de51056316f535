// SPDX-License-Identifier: GPL-2.0-only
/* Huge pages, transparent and of hugetlbfs: the same contents and rights on all nodes. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "linux_uapi.h"


#define HUGE_SIZE	TABLE_SIZE
#define GIB		(1UL << 30)
#define THP		"/sys/kernel/mm/transparent_hugepage/enabled"
#define HUGETLB		"/proc/sys/vm/nr_hugepages"

/* The probed pieces of a huge page: at the beginning, in the middle and at the end */
#define PIECE		4
static const size_t pieces[] = { 0, TABLE_PAGES / 2 - PIECE / 2, TABLE_PAGES - PIECE };

static void write_huge(int node, char *area, size_t count, uint64_t seed)
{
	for (size_t page = 0; page < count; page++)
		for (int i = 0; i < ARRAY_SIZE(pieces); i++)
			hydra_write_pages(node, area + page * HUGE_SIZE + pieces[i] * PAGE_SIZE,
					  PIECE, seed ? seed + page * 8 + i : 0);
}

static size_t probe_huge(char *area, size_t count, enum hydra_access access, uint64_t seed)
{
	size_t mistakes = 0;

	for (size_t page = 0; page < count; page++)
		for (int i = 0; i < ARRAY_SIZE(pieces); i++)
			mistakes += hydra_probe_all(area + page * HUGE_SIZE +
						    pieces[i] * PAGE_SIZE, PIECE, access,
						    seed ? seed + page * 8 + i : 0);
	return mistakes;
}

#define PROBE_HUGE(area, count, access, seed) \
	EXPECT_EQ(0, probe_huge(area, count, access, seed))

/* Huge pages in a range: the sum over the range's mappings in smaps */
static size_t transparent_huge_pages(char *area, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	bool here = false;
	char line[256];
	size_t kib = 0;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end, value;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start < (uintptr_t)area + size && end > (uintptr_t)area;
		else if (here && sscanf(line, "AnonHugePages: %lu", &value) == 1)
			kib += value;
	}
	if (f)
		fclose(f);
	return kib * 1024 / HUGE_SIZE;
}

FIXTURE(huge) {
	char *area;	/* four huge pages */
	char *other;	/* as much */
	int last;
	char nr_hugepages[32];
};

FIXTURE_VARIANT(huge) {
	unsigned int filter;
	enum hydra_wait wait;
};

FIXTURE_VARIANT_ADD(huge, running) {
	.filter = HYDRA_FILTER_TABLE, .wait = HYDRA_SPIN,
};

FIXTURE_VARIANT_ADD(huge, idle) {
	.filter = HYDRA_FILTER_TABLE, .wait = HYDRA_SLEEP,
};

/* Targets by the marks of huge entries, also of a gigabyte */
FIXTURE_VARIANT_ADD(huge, marked) {
	.filter = HYDRA_FILTER_ACCESSED, .wait = HYDRA_SLEEP,
};

FIXTURE_SETUP(huge)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	self->nr_hugepages[0] = 0;
	hydra_read_file(HUGETLB, self->nr_hugepages, sizeof(self->nr_hugepages));
	ASSERT_EQ(0, hydra_on(9, variant->filter));
	self->area = hydra_reserve(4 * HUGE_SIZE);
	self->other = hydra_reserve(4 * HUGE_SIZE);
	self->last = hydra_nodes() - 1;
	hydra_start_workers(variant->wait);
}

FIXTURE_TEARDOWN(huge)
{
	hydra_assert_consistent();
	hydra_stop_workers();
	EXPECT_EQ(0, munmap(self->area, 4 * HUGE_SIZE));
	EXPECT_EQ(0, munmap(self->other, 4 * HUGE_SIZE));
	if (self->nr_hugepages[0]) {
		EXPECT_EQ(0, hydra_write_file(HUGETLB, self->nr_hugepages));
	}
	hydra_assert_consistent();
}

static bool have_thp(void)
{
	char enabled[64];

	return hydra_read_file(THP, enabled, sizeof(enabled)) > 0 && !strstr(enabled, "[never]");
}

/* Huge pages owned by one node and used by all nodes */
static void thp_area(struct __test_metadata *_metadata, char *area, int owner, size_t count)
{
	hydra_map(area, count * TABLE_PAGES);
	ASSERT_EQ(0, madvise(area, count * HUGE_SIZE, MADV_HUGEPAGE));
	write_huge(owner, area, count, 1);
	ASSERT_EQ(count, transparent_huge_pages(area, count * HUGE_SIZE))
		TH_LOG("no huge pages to be had: is there memory?");
	PROBE_HUGE(area, count, HYDRA_READ_WRITE, 1);
}

#define NEED_THP() do {								\
	if (!have_thp())							\
		SKIP(return, "no " THP " (CONFIG_TRANSPARENT_HUGEPAGE), or \"never\" in it");	\
} while (0)

TEST_F(huge, thp_protect_and_unmap)
{
	NEED_THP();
	for (int owner = 0; owner <= self->last; owner += self->last) {
		thp_area(_metadata, self->area, owner, 2);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_READ));
		PROBE_HUGE(self->area, 2, HYDRA_READ_ONLY, 1);
		EXPECT_EQ(0, hydra_syscall(1, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_NONE));
		PROBE_HUGE(self->area, 2, HYDRA_NO_ACCESS, 0);
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_mprotect, (long)self->area,
					   2 * HUGE_SIZE, PROT_READ | PROT_WRITE));
		write_huge(1, self->area, 2, 2);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 2);
		EXPECT_EQ(2, transparent_huge_pages(self->area, 2 * HUGE_SIZE));
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, HUGE_SIZE,
					   MADV_DONTNEED));
		PROBE_HUGE(self->area, 1, HYDRA_READABLE, 0);
		EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)self->area, 2 * HUGE_SIZE));
		PROBE_HUGE(self->area, 2, HYDRA_NO_ACCESS, 0);
	}
}

TEST_F(huge, thp_split)
{
	NEED_THP();
	for (int owner = 0; owner <= self->last; owner += self->last) {
		char *middle;

		thp_area(_metadata, self->area, owner, 2);
		/* one small page in each becomes read-only, then goes */
		for (size_t page = 0; page < 2; page++) {
			middle = self->area + page * HUGE_SIZE + 100 * PAGE_SIZE;
			hydra_write_pages(owner, middle, 1, 77);
			PROBE_ALL(middle, 1, HYDRA_READ_WRITE, 77);
			EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)middle, PAGE_SIZE,
						   PROT_READ));
			PROBE_ALL(middle, 1, HYDRA_READ_ONLY, 77);
		}
		EXPECT_EQ(0, transparent_huge_pages(self->area, 2 * HUGE_SIZE));
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 1);
		EXPECT_EQ(0, hydra_syscall(1, SYS_munmap, (long)middle, PAGE_SIZE));
		PROBE_ALL(middle, 1, HYDRA_NO_ACCESS, 0);
		write_huge(self->last, self->area, 2, 2);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 2);
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)(self->area + PIECE * PAGE_SIZE),
					   PIECE * PAGE_SIZE, MADV_DONTNEED));
		PROBE_ALL(self->area + PIECE * PAGE_SIZE, PIECE, HYDRA_READABLE, 0);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 2);
		hydra_assert_consistent();
	}
}

/* Small pages, in the tables of all nodes, become a huge one, and small ones again */
TEST_F(huge, thp_collapse)
{
	NEED_THP();
	for (int owner = 0; owner <= self->last; owner += self->last) {
		hydra_map(self->area, 2 * TABLE_PAGES);
		ASSERT_EQ(0, madvise(self->area, 2 * HUGE_SIZE, MADV_NOHUGEPAGE));
		write_huge(owner, self->area, 2, 1);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 1);
		ASSERT_EQ(0, transparent_huge_pages(self->area, 2 * HUGE_SIZE));
		ASSERT_EQ(0, madvise(self->area, 2 * HUGE_SIZE, MADV_HUGEPAGE));
		EXPECT_EQ(0, hydra_syscall(1, SYS_madvise, (long)self->area, 2 * HUGE_SIZE,
					   MADV_COLLAPSE));
		EXPECT_EQ(2, transparent_huge_pages(self->area, 2 * HUGE_SIZE));
		hydra_assert_consistent();
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 1);
		write_huge(self->last, self->area, 2, 2);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 2);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)(self->area + HUGE_SIZE),
					   PAGE_SIZE, PROT_NONE));
		PROBE_ALL(self->area + HUGE_SIZE, 1, HYDRA_NO_ACCESS, 0);
		PROBE_HUGE(self->area, 1, HYDRA_READ_WRITE, 2);
	}
}

TEST_F(huge, thp_mremap)
{
	NEED_THP();
	thp_area(_metadata, self->area, 1, 2);
	EXPECT_EQ((long)self->other,
		  hydra_syscall(0, SYS_mremap, (long)self->area, 2 * HUGE_SIZE, 2 * HUGE_SIZE,
				MREMAP_MAYMOVE | MREMAP_FIXED, (long)self->other));
	EXPECT_EQ(2, transparent_huge_pages(self->other, 2 * HUGE_SIZE));
	PROBE_HUGE(self->area, 2, HYDRA_NO_ACCESS, 0);
	PROBE_HUGE(self->other, 2, HYDRA_READ_WRITE, 1);
	write_huge(self->last, self->other, 2, 2);
	PROBE_HUGE(self->other, 2, HYDRA_READ_WRITE, 2);
	/* to an address at which the page cannot stay huge */
	EXPECT_EQ((long)(self->area + PAGE_SIZE),
		  hydra_syscall(1, SYS_mremap, (long)self->other, 2 * HUGE_SIZE, 2 * HUGE_SIZE,
				MREMAP_MAYMOVE | MREMAP_FIXED, (long)(self->area + PAGE_SIZE)));
	PROBE_HUGE(self->other, 2, HYDRA_NO_ACCESS, 0);
	PROBE_HUGE(self->area + PAGE_SIZE, 2, HYDRA_READ_WRITE, 2);
}

/* Linux keeps a leaf table for each huge page. It goes to another PMD table, too. */
TEST_F(huge, thp_mremap_to_another_table)
{
	char *place = hydra_reserve(3 * GIB);
	char *from = place + GIB - (uintptr_t)place % GIB, *to = from + GIB;

	NEED_THP();
	thp_area(_metadata, from, 1, 2);
	EXPECT_EQ((long)to, hydra_syscall(0, SYS_mremap, (long)from, 2 * HUGE_SIZE, 2 * HUGE_SIZE,
					  MREMAP_MAYMOVE | MREMAP_FIXED, (long)to));
	EXPECT_EQ(2, transparent_huge_pages(to, 2 * HUGE_SIZE));
	PROBE_HUGE(from, 2, HYDRA_NO_ACCESS, 0);
	PROBE_HUGE(to, 2, HYDRA_READ_WRITE, 1);
	/* Split: now the leaf tables are used. */
	for (size_t page = 0; page < 2; page++) {
		char *middle = to + page * HUGE_SIZE + 100 * PAGE_SIZE;

		EXPECT_EQ(0, hydra_syscall(self->last, SYS_mprotect, (long)middle, PAGE_SIZE,
					   PROT_NONE));
		PROBE_ALL(middle, 1, HYDRA_NO_ACCESS, 0);
	}
	EXPECT_EQ(0, transparent_huge_pages(to, 2 * HUGE_SIZE));
	PROBE_HUGE(to, 2, HYDRA_READ_WRITE, 1);
	hydra_assert_consistent();
	EXPECT_EQ(0, munmap(place, 3 * GIB));
}

/* Linux learns which huge pages have been used, whichever node used them. */
TEST_F(huge, smaps_counts_accesses_of_huge_pages)
{
	NEED_THP();
	thp_area(_metadata, self->area, 1, 2);
	for (int node = 0; node <= self->last; node++) {
		EXPECT_EQ(0, hydra_write_file("/proc/self/clear_refs", "1"));
		hydra_empty_tlbs();
		EXPECT_EQ(0, hydra_smaps(self->area, "Referenced"));
		/* this node alone uses the second page */
		EXPECT_EQ(0, hydra_probe(node, self->area + HUGE_SIZE, PIECE, HYDRA_READABLE,
					 1 + 8));
		EXPECT_EQ(TABLE_PAGES, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read one huge page", node);
		/* mprotect() takes the entries out, puts them back, and keeps the accessed bits. */
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_READ));
		EXPECT_EQ(TABLE_PAGES, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read one huge page, and mprotect", node);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_READ | PROT_WRITE));
	}
	EXPECT_EQ(2, transparent_huge_pages(self->area, 2 * HUGE_SIZE));
}

struct huge_reads {
	char *area;
	size_t count;
};

static void read_huge_pages(void *arg)
{
	const struct huge_reads *r = arg;

	for (size_t page = 0; page < r->count; page++)
		*(volatile uint64_t *)(r->area + page * HUGE_SIZE);
}

static uint64_t fills_of_reads(struct __test_metadata *_metadata, int node, char *area,
			       size_t count)
{
	static struct huge_reads reads;
	struct hydra_stats before, after;

	reads = (struct huge_reads){ area, count };
	ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
	hydra_run(node, read_huge_pages, &reads);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	return hydra_on_node(&after, node)->fills - hydra_on_node(&before, node)->fills;
}

/* Node 0 reads 512 huge pages: each time the huge page of zeroes. */
TEST_F(huge, thp_prefetch)
{
	static const unsigned int degrees[] = { 9, 4, 0 };
	char *place = hydra_reserve(2 * GIB);
	char *area = place + GIB - (uintptr_t)place % GIB;

	NEED_THP();
	/* The code and the stack of the reader */
	hydra_map(self->area, 1);
	fills_of_reads(_metadata, self->last, self->area, 1);
	for (int i = 0; i < ARRAY_SIZE(degrees); i++) {
		ASSERT_EQ(0, hydra_on(degrees[i], variant->filter));
		ASSERT_EQ(area, mmap(area, GIB, PROT_READ | PROT_WRITE, MAP_PRIVATE |
				     MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
		ASSERT_EQ(0, madvise(area, GIB, MADV_HUGEPAGE));
		fills_of_reads(_metadata, 0, area, TABLE_PAGES);
		EXPECT_EQ(TABLE_PAGES >> degrees[i],
			  fills_of_reads(_metadata, self->last, area, TABLE_PAGES));
		EXPECT_EQ(0, fills_of_reads(_metadata, self->last, area, TABLE_PAGES));
		hydra_assert_consistent();
		ASSERT_EQ(0, munmap(area, GIB));
	}
	EXPECT_EQ(0, munmap(place, 2 * GIB));
}

/*
 * The child's part: the child starts threads on all nodes. Return: 0, or the number of
 * the failed step.
 */
static int child_writes_huge(char *area, int told, int tell)
{
	char c;

	hydra_start_workers(HYDRA_SLEEP);
	if (probe_huge(area, 2, HYDRA_READABLE, 1))
		return 1;
	if (write(tell, "x", 1) != 1 || read(told, &c, 1) != 1)
		return 2;
	/* The parent has written seed 2 to a copy. */
	if (probe_huge(area, 2, HYDRA_READABLE, 1))
		return 3;
	write_huge(1, area, 2, 3);
	if (probe_huge(area, 2, HYDRA_READ_WRITE, 3))
		return 4;
	return hydra_consistent(getpid()) ? 0 : 5;
}

/* Parent and child, both with threads on all nodes, write. */
TEST_F(huge, thp_fork)
{
	char *area = self->area;
	int to_child[2], to_parent[2], child;
	char c;

	NEED_THP();
	thp_area(_metadata, area, 1, 2);
	ASSERT_EQ(0, pipe(to_child));
	ASSERT_EQ(0, pipe(to_parent));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(child_writes_huge(area, to_child[0], to_parent[1]));
	PROBE_HUGE(area, 2, HYDRA_READABLE, 1);
	EXPECT_EQ(1, read(to_parent[0], &c, 1));
	write_huge(self->last, area, 2, 2);
	PROBE_HUGE(area, 2, HYDRA_READABLE, 2);
	EXPECT_EQ(1, write(to_child[1], "x", 1));
	EXPECT_EQ(0, hydra_wait_child(child))
		TH_LOG("that is where child_writes_huge() returned");
	PROBE_HUGE(area, 2, HYDRA_READ_WRITE, 2);
}

/* hugetlbfs */

#define NEED_HUGETLB(count) do {						\
	if (!self->nr_hugepages[0])						\
		SKIP(return, "no " HUGETLB " (CONFIG_HUGETLBFS)");		\
	ASSERT_EQ(0, hydra_write_file(HUGETLB, #count));			\
} while (0)

static void hugetlb_area(struct __test_metadata *_metadata, char *area, int flags, int owner)
{
	ASSERT_EQ(area, mmap(area, 2 * HUGE_SIZE, PROT_READ | PROT_WRITE,
			     flags | MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED, -1, 0));
	write_huge(owner, area, 2, 1);
	PROBE_HUGE(area, 2, HYDRA_READ_WRITE, 1);
}

TEST_F(huge, hugetlb_changes)
{
	static const int flags[] = { MAP_PRIVATE, MAP_SHARED };
	char *stays = self->area + 3 * HUGE_SIZE;

	NEED_HUGETLB(9);
	/*
	 * Keep the PMD table: freeing the table would flush, and hide a missing flush of
	 * the move.
	 */
	ASSERT_EQ(stays, mmap(stays, HUGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
			      MAP_ANONYMOUS | MAP_HUGETLB | MAP_FIXED, -1, 0));
	write_huge(0, stays, 1, 3);
	for (int i = 0; i < ARRAY_SIZE(flags); i++) {
		int owner = i ? self->last : 0;

		hugetlb_area(_metadata, self->area, flags[i], owner);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_READ));
		PROBE_HUGE(self->area, 2, HYDRA_READ_ONLY, 1);
		EXPECT_EQ(0, hydra_syscall(1, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_NONE));
		PROBE_HUGE(self->area, 2, HYDRA_NO_ACCESS, 0);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, 2 * HUGE_SIZE,
					   PROT_READ | PROT_WRITE));
		write_huge(1, self->area, 2, 2);
		PROBE_HUGE(self->area, 2, HYDRA_READ_WRITE, 2);
		EXPECT_EQ((long)self->other,
			  hydra_syscall(1, SYS_mremap, (long)self->area, 2 * HUGE_SIZE,
					2 * HUGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
					(long)self->other));
		PROBE_HUGE(self->area, 2, HYDRA_NO_ACCESS, 0);
		PROBE_HUGE(self->other, 2, HYDRA_READ_WRITE, 2);
		if (flags[i] == MAP_PRIVATE) {
			EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->other, HUGE_SIZE,
						   MADV_DONTNEED));
			PROBE_HUGE(self->other, 1, HYDRA_READ_WRITE, 0);
		}
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_munmap, (long)self->other,
					   2 * HUGE_SIZE));
		PROBE_HUGE(self->other, 2, HYDRA_NO_ACCESS, 0);
		hydra_assert_consistent();
	}
}

#define GIGABYTES	"/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages"
#define MAP_GIGABYTE	(MAP_HUGETLB | 30 << 26)	/* MAP_HUGE_1GB */

/* The probed places of a gigabyte */
static const size_t places[] = { 0, GIB / 2, GIB - PIECE * PAGE_SIZE };

static void write_gigabyte(int node, char *area, uint64_t seed)
{
	for (int i = 0; i < ARRAY_SIZE(places); i++)
		hydra_write_pages(node, area + places[i], PIECE, seed + i);
}

#define PROBE_GIGABYTE(area, access, seed) do {					\
	for (int i = 0; i < ARRAY_SIZE(places); i++)				\
		PROBE_ALL(area + places[i], PIECE, access, seed ? seed + i : 0);	\
} while (0)

/* One entry of a PUD table maps the page. */
TEST_F_TIMEOUT(huge, hugetlb_page_of_a_gigabyte, 120)
{
	char *place, *area;

	if (hydra_number(GIGABYTES, NULL) < 1)
		SKIP(return, "no page of a gigabyte: boot with hugepagesz=1G hugepages=1");
	place = hydra_reserve(2 * GIB);
	area = place + GIB - (uintptr_t)place % GIB;
	ASSERT_EQ(area, mmap(area, GIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
			     MAP_GIGABYTE | MAP_FIXED, -1, 0));
	write_gigabyte(1, area, 1);
	PROBE_GIGABYTE(area, HYDRA_READ_WRITE, 1);
	hydra_assert_consistent();
	EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, GIB, PROT_READ));
	PROBE_GIGABYTE(area, HYDRA_READ_ONLY, 1);
	EXPECT_EQ(0, hydra_syscall(self->last, SYS_mprotect, (long)area, GIB, PROT_NONE));
	PROBE_GIGABYTE(area, HYDRA_NO_ACCESS, 0);
	EXPECT_EQ(0, hydra_syscall(1, SYS_mprotect, (long)area, GIB, PROT_READ | PROT_WRITE));
	write_gigabyte(self->last, area, 4);
	PROBE_GIGABYTE(area, HYDRA_READ_WRITE, 4);
	EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)area, GIB, MADV_DONTNEED));
	PROBE_GIGABYTE(area, HYDRA_READ_WRITE, 0);
	hydra_assert_consistent();
	EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)area, GIB));
	PROBE_GIGABYTE(area, HYDRA_NO_ACCESS, 0);
	EXPECT_EQ(0, munmap(place, 2 * GIB));
}

/*
 * Two processes map the same gigabyte: without Hydra, both would share one page table. A
 * change by one process must not reach the mapping of the other process.
 */
TEST_F(huge, hugetlb_gigabyte_in_two_processes)
{
	int fd, to_child[2], to_parent[2], child;
	char *place, *area, c;

	NEED_HUGETLB(8);
	fd = memfd_create("gigabyte", MFD_HUGETLB);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 2 * GIB));
	ASSERT_EQ(0, pipe(to_child));
	ASSERT_EQ(0, pipe(to_parent));
	place = hydra_reserve(3 * GIB);
	area = place + GIB - (uintptr_t)place % GIB;
	ASSERT_EQ(area, mmap(area, 2 * GIB, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0));
	write_huge(1, area, 2, 1);
	PROBE_HUGE(area, 2, HYDRA_READ_WRITE, 1);

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		hydra_start_workers(HYDRA_SLEEP);
		if (probe_huge(area, 2, HYDRA_READ_WRITE, 1))
			_exit(1);
		if (mprotect(area, GIB, PROT_READ) || probe_huge(area, 2, HYDRA_READ_ONLY, 1))
			_exit(2);
		if (write(to_parent[1], "x", 1) != 1 || read(to_child[0], &c, 1) != 1)
			_exit(3);
		/* the parent has written, then unmapped */
		if (probe_huge(area, 2, HYDRA_READ_ONLY, 2))
			_exit(4);
		_exit(hydra_consistent(getpid()) ? 0 : 5);
	}
	EXPECT_EQ(1, read(to_parent[0], &c, 1));
	PROBE_HUGE(area, 2, HYDRA_READ_WRITE, 1);
	write_huge(self->last, area, 2, 2);
	PROBE_HUGE(area, 2, HYDRA_READ_WRITE, 2);
	hydra_assert_consistent();
	EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)area, 2 * GIB));
	PROBE_HUGE(area, 2, HYDRA_NO_ACCESS, 0);
	EXPECT_EQ(1, write(to_child[1], "x", 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	close(fd);
}

HYDRA_HARNESS_MAIN
