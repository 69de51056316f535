// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linux must see the accesses and writes of every node. Every node must see the right
 * page after Linux has reclaimed, written back or moved the page. The oracle also lets
 * Linux migrate and merge pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES	16
#define SIZE	(PAGES * PAGE_SIZE)

FIXTURE(pages) {
	char *area;	/* PAGES, over the border of two leaf tables */
	int last;	/* node */
};

FIXTURE_VARIANT(pages) {
	unsigned int prefetch;
	enum hydra_wait wait;
};

FIXTURE_VARIANT_ADD(pages, whole_tables_running) {
	.prefetch = 9, .wait = HYDRA_SPIN,
};

FIXTURE_VARIANT_ADD(pages, single_entries_idle) {
	.prefetch = 0, .wait = HYDRA_SLEEP,
};

FIXTURE_SETUP(pages)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_on(variant->prefetch, HYDRA_FILTER_TABLE));
	self->area = (char *)hydra_reserve(2 * TABLE_SIZE) + TABLE_SIZE - SIZE / 2;
	self->last = hydra_nodes() - 1;
	hydra_start_workers(variant->wait);
	hydra_map(self->area, PAGES);
	hydra_write_pages(1, self->area, PAGES, 1);
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 1);
}

FIXTURE_TEARDOWN(pages)
{
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
	hydra_assert_consistent();
}

/* The contents are of @seed; then @node writes the contents of @seed + 1. */
#define PROBE_AND_REWRITE(node, seed) do {						\
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed);				\
	hydra_write_pages(node, self->area, PAGES, (seed) + 1);				\
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, (seed) + 1);			\
} while (0)

struct reader {
	char *area;
	uint64_t seed;
	size_t mistakes;
};

static void read_often(void *arg)
{
	struct reader *r = arg;

	for (int round = 0; round < 5000; round++)
		for (size_t page = 0; page < PAGES; page++)
			r->mistakes += *(volatile uint64_t *)(r->area + page * PAGE_SIZE) !=
				       hydra_word(r->seed, page, 0);
}

/*
 * Linux removes the access to a page to find out which node uses the page, and moves the
 * page to the node.
 */
TEST_F_TIMEOUT(pages, numa_balancing, 90)
{
	uint64_t updates = hydra_vmstat("numa_pte_updates");
	uint64_t faults = hydra_vmstat("numa_hint_faults");
	int rounds = 0;

	EXPECT_EQ(0, hydra_write_file(NUMA_BALANCING, "1"));
	/*
	 * Linux begins after a second or so. Until Linux has scanned more pages than the
	 * area has:
	 */
	do {
		for (int node = 0; node <= self->last; node++) {
			struct reader r = { .area = self->area, .seed = 1 };

			hydra_run(node, read_often, &r);
			EXPECT_EQ(0, r.mistakes);
		}
		rounds++;
	} while (rounds < 5000 && (hydra_vmstat("numa_pte_updates") < updates + 4 * PAGES ||
				   hydra_vmstat("numa_hint_faults") < faults + 4 * PAGES));
	EXPECT_GT(5000, rounds)
		TH_LOG("Linux made only %lu updates and %lu hinting faults",
		       hydra_vmstat("numa_pte_updates") - updates, hydra_vmstat("numa_hint_faults") - faults);
	for (uint64_t seed = 1; seed < 6; seed++)
		PROBE_AND_REWRITE(seed % (self->last + 1), seed);
	EXPECT_EQ(0, hydra_write_file(NUMA_BALANCING, "0"));
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 6);
}

/* What Linux learns of the use of pages */

#define SOFT_DIRTY	(1UL << 55)
#define SWAPPED		(1UL << 62)

static uint64_t pagemap(const void *addr)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry = 0;

	if (pread(fd, &entry, 8, (uintptr_t)addr / PAGE_SIZE * 8) != 8)
		fprintf(stderr, "# cannot read /proc/self/pagemap: %s\n", strerror(errno));
	close(fd);
	return entry;
}

/* One bit for each page of the area with the flag in pagemap */
static unsigned long pages_with(const char *area, uint64_t flag)
{
	unsigned long pages = 0;

	for (size_t page = 0; page < PAGES; page++)
		if (pagemap(area + page * PAGE_SIZE) & flag)
			pages |= 1UL << page;
	return pages;
}

TEST_F(pages, soft_dirty)
{
	uint64_t seed = 1;

	ASSERT_EQ(0, hydra_write_file("/proc/self/clear_refs", "4"));
	hydra_write_pages(0, self->area, 1, 1);
	if (!(pagemap(self->area) & SOFT_DIRTY))
		SKIP(return, "no soft-dirty bit (CONFIG_MEM_SOFT_DIRTY)");
	for (int node = 0; node <= self->last; node++, seed++) {
		EXPECT_EQ(0, hydra_write_file("/proc/self/clear_refs", "4"));
		EXPECT_EQ(0, pages_with(self->area, SOFT_DIRTY));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed);
		EXPECT_EQ(0, pages_with(self->area, SOFT_DIRTY));
		hydra_write_pages(node, self->area, PAGES / 4, seed);
		EXPECT_EQ((1UL << PAGES / 4) - 1, pages_with(self->area, SOFT_DIRTY))
			TH_LOG("after node %d wrote the first %d pages", node, PAGES / 4);
		hydra_write_pages(node, self->area, PAGES, seed + 1);
		EXPECT_EQ((1UL << PAGES) - 1, pages_with(self->area, SOFT_DIRTY));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed + 1);
	}
}

TEST_F(pages, smaps_counts_accesses_of_each_node)
{
	for (int node = 0; node <= self->last; node++) {
		EXPECT_EQ(0, hydra_write_file("/proc/self/clear_refs", "1"));
		EXPECT_EQ(0, hydra_smaps(self->area, "Referenced"));
		hydra_empty_tlbs();
		EXPECT_EQ(0, hydra_smaps(self->area, "Referenced"));
		/* only the thread of @node uses a few of the pages */
		EXPECT_EQ(0, hydra_probe(node, self->area, 3, HYDRA_READABLE, 1));
		EXPECT_EQ(3, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read 3 pages", node);
		/*
		 * mprotect() clears the entries, sets them again, and keeps the accessed
		 * bits.
		 */
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, SIZE, PROT_READ));
		EXPECT_EQ(3, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read 3 pages, and mprotect", node);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, SIZE,
					   PROT_READ | PROT_WRITE));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 1);
		EXPECT_EQ(PAGES, hydra_smaps(self->area, "Referenced"));
	}
}

/* Drop clean pages of files, and move pages to the lists of reclaim */
static int drop_caches(void)
{
	return hydra_write_file("/proc/sys/vm/drop_caches", "1");
}

TEST_F_TIMEOUT(pages, swap, 60)
{
	int zram = hydra_swap_on("64M");

	if (zram == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_LE(0, zram);
	for (uint64_t seed = 1; seed <= self->last + 1; seed++) {
		int reader = seed % (self->last + 1);

		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_PAGEOUT));
		EXPECT_EQ(PAGES, hydra_smaps(self->area, "Swap"));
		EXPECT_EQ((1UL << PAGES) - 1, pages_with(self->area, SWAPPED));
		/* One node has the pages come back. The others have to get the new entries. */
		EXPECT_EQ(0, hydra_probe(reader, self->area, PAGES, HYDRA_READABLE, seed));
		PROBE_AND_REWRITE(reader, seed);
	}
	EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_PAGEOUT));
	EXPECT_EQ(0, hydra_swap_off(zram));
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, self->last + 2);
}

struct touch {
	char *area;
	uint64_t value;
};

/* Every second page */
static void write_first_words(void *arg)
{
	struct touch *t = arg;

	for (size_t page = 0; page < PAGES; page += 2)
		*(volatile uint64_t *)(t->area + page * PAGE_SIZE) = t->value;
}

/* After MADV_FREE, Linux may reclaim pages, but no page that a node has written since. */
TEST_F(pages, madv_free_under_pressure)
{
	int dropped = 0;

	for (int node = 0; node <= self->last; node++) {
		struct touch touch = { self->area, 0xf4ee0000 + node };

		hydra_write_pages(1, self->area, PAGES, 1);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, 1);
		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_FREE));
		hydra_run(node, write_first_words, &touch);
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE,
					   MADV_PAGEOUT));
		for (size_t page = 0; page < PAGES; page++) {
			uint64_t seen = 0;

			EXPECT_EQ(0, hydra_try_read(self->area + page * PAGE_SIZE, &seen));
			if (page % 2 == 0) {
				EXPECT_EQ(touch.value, seen)
					TH_LOG("page %zu, which node %d wrote", page, node);
			} else {
				EXPECT_TRUE(!seen || seen == hydra_word(1, page, 0));
				dropped += !seen;
			}
		}
	}
	/* else nothing was ever reclaimed here */
	EXPECT_LT(0, dropped);
}

/* Files on a disk: what any node writes through a mapping gets there */

static size_t wrong_words_in_file(int fd, uint64_t seed)
{
	uint64_t words[PAGE_WORDS];
	size_t wrong = 0;

	for (size_t page = 0; page < PAGES; page++) {
		if (pread(fd, words, PAGE_SIZE, page * PAGE_SIZE) != PAGE_SIZE)
			return -1;
		for (size_t word = 0; word < PAGE_WORDS; word++)
			wrong += words[word] != hydra_word(seed, page, word);
	}
	return wrong;
}

TEST_F_TIMEOUT(pages, file_written_back, 60)
{
	struct hydra_file file;
	int err = hydra_make_file(&file, SIZE);
	uint64_t seed = 1;

	if (err == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_EQ(0, err);
	ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, file.fd, 0));
	hydra_write_pages(0, self->area, PAGES, seed);
	for (int node = 0; node <= self->last; node += self->last, seed++) {
		/* clean pages, in the tables of all nodes */
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed);
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed);
		hydra_write_pages(node, self->area, PAGES, seed + 1);
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		/* Now only the disk has the pages. */
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_madvise, (long)self->area, SIZE,
					   MADV_DONTNEED));
		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, wrong_words_in_file(file.fd, seed + 1))
			TH_LOG("written by node %d, then msync", node);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed + 1);

		/* the same with munmap for msync */
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed + 1);
		hydra_write_pages(node, self->area, PAGES, seed);
		EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)self->area, SIZE));
		EXPECT_EQ(0, fsync(file.fd));
		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, wrong_words_in_file(file.fd, seed))
			TH_LOG("written by node %d, then munmap", node);
		ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, file.fd, 0));
		hydra_write_pages(node, self->area, PAGES, seed + 1);
	}
	hydra_map(self->area, PAGES);
	EXPECT_EQ(0, hydra_remove_file(&file));
}

/*
 * A page of a file, on memory that is said to be broken: Linux takes the page away from all
 * nodes. A child reports it, because Linux may kill the process that does.
 */
TEST_F(pages, memory_failure)
{
	char *rest = self->area + PAGE_SIZE;
	int fd = memfd_create("memory_failure", 0), child, status;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));
	ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd, 0));
	hydra_write_pages(1, self->area, 1, 1);
	hydra_write_pages(1, rest, PAGES - 1, 2);
	PROBE_ALL(self->area, 1, HYDRA_READ_WRITE, 1);
	PROBE_ALL(rest, PAGES - 1, HYDRA_READ_WRITE, 2);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		signal(SIGBUS, SIG_DFL);
		_exit(madvise(self->area, PAGE_SIZE, MADV_HWPOISON) ? errno : 0);
	}
	status = hydra_wait_child(child);
	if (status == EINVAL)
		SKIP(return, "no such advice (CONFIG_MEMORY_FAILURE)");
	EXPECT_TRUE(!status || status == 128 + SIGBUS)
		TH_LOG("the child's status is %d", status);
	PROBE_ALL(self->area, 1, HYDRA_BUS_ERROR, 0);
	PROBE_ALL(rest, PAGES - 1, HYDRA_READ_WRITE, 2);
	hydra_map(self->area, PAGES);
	close(fd);
}

HYDRA_HARNESS_MAIN
