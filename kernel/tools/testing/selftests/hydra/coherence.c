// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes of the address space: when the system call has returned, every node
 * sees the new state and no node the old one.
 */
#include <asm/ldt.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES	16	/* half in one leaf table, half in the next */
#define SIZE	(PAGES * PAGE_SIZE)
#define TABLES	8
#define GIB	(1UL << 30)

FIXTURE(coherence) {
	char *space;	/* for each owner of a test: */
	char *base;	/* TABLES leaf tables, which contain */
	char *area;	/* PAGES */
	int last;	/* node */
};

FIXTURE_VARIANT(coherence) {
	unsigned int prefetch, filter;
	enum hydra_wait wait;
};

FIXTURE_VARIANT_ADD(coherence, whole_tables_running) {
	.prefetch = 9, .filter = HYDRA_FILTER_TABLE, .wait = HYDRA_SPIN,
};

FIXTURE_VARIANT_ADD(coherence, single_entries_idle) {
	.prefetch = 0, .filter = HYDRA_FILTER_TABLE, .wait = HYDRA_SLEEP,
};

FIXTURE_VARIANT_ADD(coherence, no_filter_idle) {
	.prefetch = 9, .filter = HYDRA_FILTER_NONE, .wait = HYDRA_SLEEP,
};

FIXTURE_SETUP(coherence)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_on(variant->prefetch, variant->filter));
	self->space = hydra_reserve(2 * TABLES * TABLE_SIZE);
	self->last = hydra_nodes() - 1;
	hydra_start_workers(variant->wait);
}

FIXTURE_TEARDOWN(coherence)
{
	hydra_assert_consistent();
	hydra_stop_workers();
	hydra_assert_consistent();
}

/* Each owner has other leaf tables: a table belongs to the node of the first access */
static bool give_tables(FIXTURE_DATA(coherence) *self, int owner)
{
	self->base = self->space + (owner ? TABLES * TABLE_SIZE : 0);
	self->area = self->base + TABLE_SIZE - SIZE / 2;
	return true;
}

/* Each test runs twice: once the owner's node makes the first change, once another node. */
#define FOR_OWNERS(owner)							\
	for (int owner = 0; owner <= self->last && give_tables(self, owner);	\
	     owner += self->last)

/* Memory owned by one node and used by all nodes */
static void *owned_area(struct __test_metadata *_metadata, FIXTURE_DATA(coherence) *self,
			int owner, uint64_t seed)
{
	hydra_map(self->area, PAGES);
	hydra_write_pages(owner, self->area, PAGES, seed);
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed);
	return self->area;
}

TEST_F(coherence, mprotect)
{
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);

		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, SIZE, PROT_READ));
		PROBE_ALL(area, PAGES, HYDRA_READ_ONLY, 1);
		EXPECT_EQ(0, hydra_syscall(1, SYS_mprotect, (long)area, SIZE,
					   PROT_READ | PROT_WRITE));
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 1);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, SIZE, PROT_NONE));
		PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 1);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, SIZE, PROT_READ));
		PROBE_ALL(area, PAGES, HYDRA_READ_ONLY, 1);
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_mprotect, (long)area, SIZE,
					   PROT_READ | PROT_WRITE));
		hydra_write_pages(self->last, area, PAGES, 2);
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 2);
	}
}

struct call {
	const void *code;
	int sig, value;
};

static void call_code(void *arg)
{
	struct call *c = arg;

	c->sig = hydra_try_call(c->code, &c->value);
}

/* On every node, the call gets the signal, or returns the number */
static void call_on_all(struct __test_metadata *_metadata, FIXTURE_DATA(coherence) *self,
			const void *code, int sig, int value)
{
	for (int node = 0; node <= self->last; node++) {
		struct call c = { .code = code };

		hydra_run(node, call_code, &c);
		EXPECT_EQ(sig, c.sig)
			TH_LOG("node %d", node);
		EXPECT_EQ(sig ? 0 : value, c.value)
			TH_LOG("node %d", node);
	}
}

TEST_F(coherence, executable)
{
	/* mov $VALUE, %eax; ret */
	const unsigned char code[] = { 0xb8, 0x34, 0x12, 0, 0, 0xc3 };
	const unsigned char other[] = { 0xb8, 0x78, 0x56, 0, 0, 0xc3 };

	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);

		memcpy(area, code, sizeof(code));
		call_on_all(_metadata, self, area, SIGSEGV, 0);
		EXPECT_EQ(0, hydra_syscall(1, SYS_mprotect, (long)area, PAGE_SIZE,
					   PROT_READ | PROT_EXEC));
		call_on_all(_metadata, self, area, 0, 0x1234);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, PAGE_SIZE,
					   PROT_READ | PROT_WRITE));
		call_on_all(_metadata, self, area, SIGSEGV, 0);
		memcpy(area, other, sizeof(other));
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)area, PAGE_SIZE,
					   PROT_READ | PROT_EXEC));
		call_on_all(_metadata, self, area, 0, 0x5678);
	}
}

/* The limit of the segment that entry 0 of the LDT describes, as this CPU finds it; or 0 */
static void read_limit(void *arg)
{
	uint32_t limit = 0;

	asm volatile("lsl %1, %0" : "+r" (limit) : "r" (7) : "cc");
	*(uint32_t *)arg = limit;
}

/* With isolated page tables the LDT is mapped in each root, and moves with each change. */
TEST_F(coherence, ldt)
{
	struct user_desc entry = { .seg_32bit = 1, .useable = 1, .limit = 99 };
	uint32_t limit;

	for (int turn = 0; turn < 2; turn++) {
		for (int node = 0; node <= self->last; node++) {
			long result;

			entry.limit++;
			result = hydra_syscall(node, SYS_modify_ldt, 0x11, (long)&entry,
					       sizeof(entry));
			if (result == -ENOSYS)
				SKIP(return, "no LDT (CONFIG_MODIFY_LDT_SYSCALL)");
			ASSERT_EQ(0, result);
			for (int other = 0; other <= self->last; other++) {
				hydra_run(other, read_limit, &limit);
				EXPECT_EQ(entry.limit, limit)
					TH_LOG("on node %d, written on node %d", other, node);
			}
		}
		/* An LDT that is there before the nodes have roots */
		ASSERT_EQ(0, hydra_off());
		ASSERT_EQ(0, hydra_on(variant->prefetch, variant->filter));
		for (int node = 0; node <= self->last; node++) {
			hydra_run(node, read_limit, &limit);
			EXPECT_EQ(entry.limit, limit)
				TH_LOG("on node %d, after Hydra was off and on", node);
		}
	}
}

TEST_F(coherence, munmap)
{
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);

		/* from the middle, over the border of the tables */
		EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)(area + SIZE / 4), SIZE / 2));
		PROBE_ALL(area + SIZE / 4, PAGES / 2, HYDRA_NO_ACCESS, 0);
		PROBE_ALL(area, PAGES / 4, HYDRA_READ_WRITE, 1);
		EXPECT_EQ(0, hydra_syscall(1, SYS_munmap, (long)area, SIZE));
		PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);
		/* and what comes there next is new */
		hydra_map(area, PAGES);
		PROBE_ALL(area, PAGES, HYDRA_READABLE, 0);
		hydra_write_pages(1, area, PAGES, 2);
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 2);
	}
}

/* munmap() of so much memory that Linux also frees the leaf tables and the table above */
TEST_F(coherence, munmap_tables)
{
	FOR_OWNERS(owner) {
		size_t size = 2 * GIB + 8 * TABLE_SIZE;
		char *base = hydra_reserve(size);
		char *inner = base + GIB - (uintptr_t)base % GIB;

		for (char *addr = base; addr < base + size; addr += size / 8) {
			hydra_map(addr, 1);
			hydra_write_pages(owner, addr, 1, 3);
			PROBE_ALL(addr, 1, HYDRA_READ_WRITE, 3);
		}
		hydra_map(inner, 2);
		hydra_write_pages(1, inner, 2, 4);
		PROBE_ALL(inner, 2, HYDRA_READ_WRITE, 4);
		EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)base, size));
		for (char *addr = base; addr < base + size; addr += size / 8) {
			PROBE_ALL(addr, 1, HYDRA_NO_ACCESS, 0);
		}
		PROBE_ALL(inner, 2, HYDRA_NO_ACCESS, 0);
		hydra_assert_consistent();
	}
}

TEST_F(coherence, map_fixed)
{
	int fd = memfd_create("map_fixed", 0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);

		EXPECT_EQ((long)area,
			  hydra_syscall(0, SYS_mmap, (long)area, SIZE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1));
		PROBE_ALL(area, PAGES, HYDRA_READABLE, 0);
		hydra_write_pages(self->last, area, PAGES, 2);
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 2);
		/* one page of a file in the middle */
		EXPECT_EQ((long)(area + PAGE_SIZE),
			  hydra_syscall(1, SYS_mmap, (long)(area + PAGE_SIZE), PAGE_SIZE,
					PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd));
		hydra_write_pages(0, area + PAGE_SIZE, 1, 5);
		PROBE_ALL(area + PAGE_SIZE, 1, HYDRA_READ_WRITE, 5);
		PROBE_ALL(area, 1, HYDRA_READ_WRITE, 2);
		EXPECT_EQ((long)area,
			  hydra_syscall(0, SYS_mmap, (long)area, SIZE, PROT_NONE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1));
		PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);
	}
	close(fd);
}

TEST_F(coherence, mremap_pages)
{
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);
		char *to = self->base + 4 * TABLE_SIZE + 3 * PAGE_SIZE;

		EXPECT_EQ((long)to,
			  hydra_syscall(0, SYS_mremap, (long)area, SIZE, SIZE,
					MREMAP_MAYMOVE | MREMAP_FIXED, (long)to));
		PROBE_ALL(area, PAGES, HYDRA_NO_ACCESS, 0);
		PROBE_ALL(to, PAGES, HYDRA_READ_WRITE, 1);
		hydra_write_pages(1, to, PAGES, 2);
		PROBE_ALL(to, PAGES, HYDRA_READ_WRITE, 2);
		/* back, but leave the mapping behind: empty */
		EXPECT_EQ((long)area,
			  hydra_syscall(1, SYS_mremap, (long)to, SIZE, SIZE,
					MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
					(long)area));
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 2);
		PROBE_ALL(to, PAGES, HYDRA_READABLE, 0);
		EXPECT_EQ(0, munmap(to, SIZE));
	}
}

/* Leaf tables 0 and 1 of the area, with pages at the beginning and end of each */
static void write_tables(int node, char *addr, uint64_t seed)
{
	for (int i = 0; i < 2; i++) {
		hydra_write_pages(node, addr + i * TABLE_SIZE, 4, seed + i);
		hydra_write_pages(node, addr + (i + 1) * TABLE_SIZE - 4 * PAGE_SIZE, 4,
				  seed + 2 + i);
	}
}

static size_t probe_tables(char *addr, enum hydra_access access, uint64_t seed)
{
	size_t mistakes = 0;

	for (int i = 0; i < 2; i++) {
		mistakes += hydra_probe_all(addr + i * TABLE_SIZE, 4, access, seed + i);
		mistakes += hydra_probe_all(addr + (i + 1) * TABLE_SIZE - 4 * PAGE_SIZE, 4,
					    access, seed + 2 + i);
	}
	return mistakes;
}

TEST_F(coherence, mremap_tables)
{
	char *to = self->base + 4 * TABLE_SIZE;
	size_t size = 2 * TABLE_SIZE;

	FOR_OWNERS(owner) {
		hydra_map(self->base, 2 * TABLE_PAGES);
		write_tables(owner, self->base, 10);
		EXPECT_EQ(0, probe_tables(self->base, HYDRA_READ_WRITE, 10));
		EXPECT_EQ((long)to,
			  hydra_syscall(0, SYS_mremap, (long)self->base, size, size,
					MREMAP_MAYMOVE | MREMAP_FIXED, (long)to));
		EXPECT_EQ(0, probe_tables(self->base, HYDRA_NO_ACCESS, 0));
		EXPECT_EQ(0, probe_tables(to, HYDRA_READ_WRITE, 10));
		hydra_assert_consistent();
		write_tables(1, to, 20);
		EXPECT_EQ(0, probe_tables(to, HYDRA_READ_WRITE, 20));
		/* back, read-only on the way */
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_mprotect, (long)to, size, PROT_READ));
		EXPECT_EQ((long)self->base,
			  hydra_syscall(1, SYS_mremap, (long)to, size, size,
					MREMAP_MAYMOVE | MREMAP_FIXED, (long)self->base));
		EXPECT_EQ(0, probe_tables(self->base, HYDRA_READ_ONLY, 20));
		EXPECT_EQ(0, probe_tables(to, HYDRA_NO_ACCESS, 0));
	}
}

/* A gigabyte, aligned: Linux moves the table above the leaf tables */
TEST_F(coherence, mremap_upper_table)
{
	FOR_OWNERS(owner) {
		char *place = hydra_reserve(4 * GIB);
		char *from = place + GIB - (uintptr_t)place % GIB;
		char *to = from + GIB;

		ASSERT_EQ(from, mmap(from, GIB, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
				     -1, 0));
		for (size_t at = 0; at < GIB; at += GIB / 4)
			hydra_write_pages(owner, from + at, 2, 30 + at);
		for (size_t at = 0; at < GIB; at += GIB / 4) {
			PROBE_ALL(from + at, 2, HYDRA_READ_WRITE, 30 + at);
		}
		EXPECT_EQ((long)to, hydra_syscall(0, SYS_mremap, (long)from, GIB, GIB,
						  MREMAP_MAYMOVE | MREMAP_FIXED, (long)to));
		for (size_t at = 0; at < GIB; at += GIB / 4) {
			PROBE_ALL(from + at, 2, HYDRA_NO_ACCESS, 0);
			PROBE_ALL(to + at, 2, HYDRA_READ_WRITE, 30 + at);
		}
		hydra_assert_consistent();
		EXPECT_EQ(0, hydra_syscall(1, SYS_munmap, (long)to, GIB));
		for (size_t at = 0; at < GIB; at += GIB / 4) {
			PROBE_ALL(to + at, 2, HYDRA_NO_ACCESS, 0);
		}
		EXPECT_EQ(0, munmap(place, 4 * GIB));
	}
}

TEST_F(coherence, madvise_dontneed)
{
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);

		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)area, SIZE, MADV_DONTNEED));
		PROBE_ALL(area, PAGES, HYDRA_READABLE, 0);
		hydra_write_pages(1, area, PAGES, 2);
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 2);
		/* a part of the range */
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_madvise, (long)(area + SIZE / 2),
					   PAGE_SIZE, MADV_DONTNEED));
		PROBE_ALL(area + SIZE / 2, 1, HYDRA_READ_WRITE, 0);
		PROBE_ALL(area, PAGES / 2, HYDRA_READ_WRITE, 2);
	}
}

/* A mapped file with holes, truncated and extended */
TEST_F(coherence, shared_file)
{
	FOR_OWNERS(owner) {
		int fd = memfd_create("shared_file", 0);
		uint64_t word = hydra_word(7, 0, 0);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, ftruncate(fd, SIZE));
		ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, 0));
		/* all nodes read new pages, which stay clean, then a copy is written through */
		EXPECT_EQ(0, hydra_probe(owner, self->area, PAGES, HYDRA_READABLE, 0));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 0);
		EXPECT_EQ(0, hydra_smaps(self->area, "Private_Dirty"));
		hydra_write_pages(self->last - owner, self->area, PAGES, 1);
		EXPECT_EQ(PAGES, hydra_smaps(self->area, "Private_Dirty"));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 1);

		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE / 4,
					   MADV_REMOVE));
		PROBE_ALL(self->area, PAGES / 4, HYDRA_READABLE, 0);
		hydra_write_pages(1, self->area, PAGES, 2);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 2);

		EXPECT_EQ(0, hydra_syscall(0, SYS_ftruncate, fd, SIZE / 2));
		PROBE_ALL(self->area + SIZE / 2, PAGES / 2, HYDRA_BUS_ERROR, 0);
		PROBE_ALL(self->area, PAGES / 2, HYDRA_READ_WRITE, 2);
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_ftruncate, fd, SIZE));
		PROBE_ALL(self->area + SIZE / 2, PAGES / 2, HYDRA_READ_WRITE, 0);

		/*
		 * the file has the words written to memory, and the memory the words
		 * written to the file
		 */
		hydra_write_pages(1, self->area, PAGES, 3);
		for (size_t page = 0; page < PAGES; page++) {
			uint64_t seen = 0;

			EXPECT_EQ(8, pread(fd, &seen, 8, page * PAGE_SIZE));
			EXPECT_EQ(hydra_word(3, page, 0), seen);
		}
		EXPECT_EQ(8, pwrite(fd, &word, 8, 0));
		for (int node = 0; node <= self->last; node++) {
			uint64_t seen[PAGE_WORDS];

			/* on the node, the kernel reads the mapping */
			EXPECT_EQ(PAGE_SIZE,
				  hydra_syscall(node, SYS_pwrite64, fd, (long)self->area,
						PAGE_SIZE, SIZE));
			EXPECT_EQ(PAGE_SIZE, pread(fd, seen, PAGE_SIZE, SIZE));
			EXPECT_EQ(word, seen[0]);
			EXPECT_EQ(hydra_word(3, 0, 1), seen[1]);
		}
		close(fd);
	}
}

TEST_F(coherence, private_file)
{
	FOR_OWNERS(owner) {
		int fd = memfd_create("private_file", 0);

		ASSERT_LE(0, fd);
		ASSERT_EQ(0, ftruncate(fd, SIZE));
		ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, 0));
		hydra_write_pages(owner, self->area, PAGES, 1);
		ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_FIXED, fd, 0));
		/* all nodes map the file's own pages, then one node writes */
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 1);
		hydra_write_pages(1, self->area, PAGES / 2, 2);
		PROBE_ALL(self->area, PAGES / 2, HYDRA_READ_WRITE, 2);
		for (size_t page = 0; page < PAGES; page++) {
			uint64_t seen = 0;

			EXPECT_EQ(8, pread(fd, &seen, 8, page * PAGE_SIZE));
			EXPECT_EQ(hydra_word(1, page, 0), seen);
		}
		/* writing the file changes the pages not yet copied, and no others */
		EXPECT_EQ(PAGE_SIZE, pwrite(fd, self->area, PAGE_SIZE, (PAGES / 2) * PAGE_SIZE));
		PROBE_ALL(self->area + SIZE / 2, 1, HYDRA_READABLE, 2);
		PROBE_ALL(self->area, PAGES / 2, HYDRA_READ_WRITE, 2);
		close(fd);
	}
}

/* All nodes have read the page of zeroes; then one writes */
TEST_F(coherence, zero_page)
{
	FOR_OWNERS(owner) {
		hydra_map(self->area, PAGES);
		EXPECT_EQ(0, hydra_probe(owner, self->area, PAGES, HYDRA_READABLE, 0));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 0);
		hydra_write_pages(1, self->area, PAGES, 1);
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 1);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 1);
	}
}

#define HALF	(PAGES / 2)

/*
 * The child's part: the child starts threads on all nodes. Return: 0, or the number of
 * the failed step.
 */
static int child_writes(char *area, const int told[2], const int tell[2])
{
	char *rest = area + HALF * PAGE_SIZE;
	char c;

	hydra_start_workers(HYDRA_SLEEP);
	if (hydra_probe_all(area, HALF, HYDRA_READABLE, 1) ||
	    hydra_probe_all(rest, HALF, HYDRA_READABLE, 2))
		return 1;
	if (read(told[0], &c, 1) != 1)
		return 2;
	/* the parent has written a copy of the first half */
	if (hydra_probe_all(area, HALF, HYDRA_READABLE, 1) ||
	    hydra_probe_all(rest, HALF, HYDRA_READABLE, 2))
		return 3;
	hydra_write_pages(1, area, PAGES, 3);
	if (hydra_probe_all(area, PAGES, HYDRA_READ_WRITE, 3))
		return 4;
	if (write(tell[1], "x", 1) != 1 || read(told[0], &c, 1) != 1)
		return 5;
	/* the parent has written the whole area */
	if (hydra_probe_all(area, PAGES, HYDRA_READ_WRITE, 3))
		return 6;
	if (!hydra_consistent(getpid()))
		return 7;
	return 0;
}

TEST_F(coherence, fork_and_copy_on_write)
{
	FOR_OWNERS(owner) {
		char *area = owned_area(_metadata, self, owner, 1);
		char *rest = area + HALF * PAGE_SIZE;
		int to_child[2], to_parent[2], child;
		char c;

		hydra_write_pages(owner, rest, HALF, 2);
		PROBE_ALL(rest, HALF, HYDRA_READ_WRITE, 2);
		ASSERT_EQ(0, pipe(to_child));
		ASSERT_EQ(0, pipe(to_parent));
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(child_writes(area, to_child, to_parent));
		PROBE_ALL(area, HALF, HYDRA_READABLE, 1);
		hydra_write_pages(self->last, area, HALF, 4);
		PROBE_ALL(area, HALF, HYDRA_READ_WRITE, 4);
		EXPECT_EQ(1, write(to_child[1], "x", 1));
		EXPECT_EQ(1, read(to_parent[0], &c, 1));
		PROBE_ALL(area, HALF, HYDRA_READ_WRITE, 4);
		PROBE_ALL(rest, HALF, HYDRA_READ_WRITE, 2);
		hydra_write_pages(0, area, PAGES, 5);
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 5);
		/* while the child waits; after the next write the child ends */
		EXPECT_TRUE(hydra_consistent(child));
		EXPECT_EQ(1, write(to_child[1], "x", 1));
		EXPECT_EQ(0, hydra_wait_child(child))
			TH_LOG("that is where child_writes() returned");
		/* again the only user of the pages */
		PROBE_ALL(area, PAGES, HYDRA_READ_WRITE, 5);
		hydra_assert_consistent();
	}
}

HYDRA_HARNESS_MAIN
