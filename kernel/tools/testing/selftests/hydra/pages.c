// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages that Linux moves, merges, takes away and watches: their contents, and
 * what Linux learns of their use, are right whichever node uses them.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <numaif.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>

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

/* The contents are those of the seed; then, written anew by that node, the next one's */
#define PROBE_AND_REWRITE(node, seed) do {						\
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed);				\
	hydra_write_pages(node, self->area, PAGES, (seed) + 1);				\
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, (seed) + 1);			\
} while (0)

/* Where the pages are */

static int pages_on_node(char *area, int node)
{
	void *addr[PAGES];
	int status[PAGES], count = 0;

	for (int i = 0; i < PAGES; i++)
		addr[i] = area + i * PAGE_SIZE;
	if (move_pages(0, PAGES, addr, NULL, status, 0))
		return -1;
	for (int i = 0; i < PAGES; i++)
		count += status[i] == hydra_node_id(node);
	return count;
}

TEST_F(pages, move_pages)
{
	uint64_t seed = 1;

	for (int node = 0; node <= self->last; node++, seed++) {
		void *addr[PAGES];
		int nodes[PAGES], status[PAGES];

		for (int i = 0; i < PAGES; i++) {
			addr[i] = self->area + i * PAGE_SIZE;
			nodes[i] = hydra_node_id(node);
		}
		EXPECT_EQ(0, hydra_syscall(0, SYS_move_pages, 0, PAGES, (long)addr, (long)nodes,
					   (long)status, MPOL_MF_MOVE));
		EXPECT_EQ(PAGES, pages_on_node(self->area, node));
		PROBE_AND_REWRITE(node, seed);
	}
}

TEST_F(pages, mbind)
{
	uint64_t seed = 1;

	for (int node = self->last; node >= 0; node--, seed++) {
		unsigned long mask = 1UL << hydra_node_id(node);

		EXPECT_EQ(0, hydra_syscall(self->last, SYS_mbind, (long)self->area, SIZE,
					   MPOL_BIND, (long)&mask, 64, MPOL_MF_MOVE));
		EXPECT_EQ(PAGES, pages_on_node(self->area, node));
		PROBE_AND_REWRITE(node, seed);
	}
}

TEST_F(pages, migrate_pages_and_compaction)
{
	unsigned long from = 1UL << hydra_node_id(1), to = 1UL << hydra_node_id(0);

	EXPECT_EQ(PAGES, pages_on_node(self->area, 1));
	EXPECT_EQ(0, hydra_syscall(0, SYS_migrate_pages, 0, 64, (long)&from, (long)&to));
	EXPECT_EQ(PAGES, pages_on_node(self->area, 0));
	PROBE_AND_REWRITE(1, 1);
	EXPECT_EQ(0, hydra_write_file("/proc/sys/vm/compact_memory", "1"));
	PROBE_AND_REWRITE(0, 2);
}

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

/* Linux takes access away to learn who uses a page, and moves it there */
TEST_F_TIMEOUT(pages, numa_balancing, 90)
{
	uint64_t updates = hydra_vmstat("numa_pte_updates");
	uint64_t faults = hydra_vmstat("numa_hint_faults");
	int rounds = 0;

	EXPECT_EQ(0, hydra_write_file(NUMA_BALANCING, "1"));
	/* it begins after a second or so: until it has met more pages than these tests have elsewhere */
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

/* Pages that are the same become one, without permission to write */

#define KSM	"/sys/kernel/mm/ksm/"

static long ksm_merged(void)
{
	char text[64];

	if (hydra_read_file("/proc/self/ksm_merging_pages", text, sizeof(text)) < 0)
		return -1;
	return atol(text);
}

static void write_twins(void *arg)
{
	char *area = arg;

	/* every page the same */
	for (size_t page = 0; page < PAGES; page++)
		for (size_t word = 0; word < PAGE_WORDS; word++)
			((uint64_t *)(area + page * PAGE_SIZE))[word] = hydra_word(8, 0, word);
}

TEST_F_TIMEOUT(pages, same_page_merging, 60)
{
	char run[16], sleep_ms[16], to_scan[16];

	if (hydra_read_file(KSM "run", run, sizeof(run)) < 0)
		SKIP(return, "no " KSM " (CONFIG_KSM)");
	ASSERT_LT(0, hydra_read_file(KSM "sleep_millisecs", sleep_ms, sizeof(sleep_ms)));
	ASSERT_LT(0, hydra_read_file(KSM "pages_to_scan", to_scan, sizeof(to_scan)));
	hydra_run(1, write_twins, self->area);
	for (size_t page = 0; page < PAGES; page++) {
		PROBE_ALL(self->area + page * PAGE_SIZE, 1, HYDRA_READ_WRITE, 8);
	}
	ASSERT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_MERGEABLE));
	EXPECT_EQ(0, hydra_write_file(KSM "sleep_millisecs", "1"));
	EXPECT_EQ(0, hydra_write_file(KSM "pages_to_scan", "1000"));
	EXPECT_EQ(0, hydra_write_file(KSM "run", "1"));
	for (int i = 0; i < 20000 && ksm_merged() < PAGES; i++)
		usleep(1000);
	EXPECT_LE(PAGES - 1, ksm_merged());

	for (size_t page = 0; page < PAGES; page++) {
		PROBE_ALL(self->area + page * PAGE_SIZE, 1, HYDRA_READABLE, 8);
	}
	EXPECT_EQ(0, hydra_write_file(KSM "run", "0"));
	/* one node writes every other page; its twins must not change */
	for (size_t page = 0; page < PAGES; page += 2)
		hydra_write_pages(page / 2 % (self->last + 1), self->area + page * PAGE_SIZE, 1,
				  100 + page);
	for (size_t page = 0; page < PAGES; page++) {
		PROBE_ALL(self->area + page * PAGE_SIZE, 1, HYDRA_READABLE,
			  page % 2 ? 8 : 100 + page);
	}
	/* take them apart */
	EXPECT_EQ(0, hydra_syscall(self->last, SYS_madvise, (long)self->area, SIZE,
				   MADV_UNMERGEABLE));
	for (size_t page = 0; page < PAGES; page++) {
		PROBE_ALL(self->area + page * PAGE_SIZE, 1, HYDRA_READ_WRITE,
			  page % 2 ? 8 : 100 + page);
	}
	EXPECT_EQ(0, hydra_write_file(KSM "run", run));
	EXPECT_EQ(0, hydra_write_file(KSM "sleep_millisecs", sleep_ms));
	EXPECT_EQ(0, hydra_write_file(KSM "pages_to_scan", to_scan));
}

/* userfaultfd: a thread of ours answers the faults */

static struct {
	int fd, stop[2];
	atomic_int missing, write_protected;
	uint64_t contents[PAGE_WORDS];
} pager;

static void *answer_faults(void *arg)
{
	struct pollfd wait[2] = {
		{ .fd = pager.fd, .events = POLLIN },
		{ .fd = pager.stop[0], .events = POLLIN },
	};
	struct uffd_msg msg;

	for (;;) {
		if (poll(wait, 2, -1) < 0 || wait[1].revents)
			return NULL;
		if (read(pager.fd, &msg, sizeof(msg)) != sizeof(msg) ||
		    msg.event != UFFD_EVENT_PAGEFAULT)
			continue;
		msg.arg.pagefault.address &= -PAGE_SIZE;
		if (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
			struct uffdio_writeprotect wp = {
				.range = { msg.arg.pagefault.address, PAGE_SIZE },
			};

			atomic_fetch_add(&pager.write_protected, 1);
			ioctl(pager.fd, UFFDIO_WRITEPROTECT, &wp);
		} else {
			struct uffdio_copy copy = {
				.dst = msg.arg.pagefault.address,
				.src = (uintptr_t)pager.contents,
				.len = PAGE_SIZE,
			};

			atomic_fetch_add(&pager.missing, 1);
			ioctl(pager.fd, UFFDIO_COPY, &copy);
		}
	}
}

static int start_pager(pthread_t *thread, void *area, unsigned long mode)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)area, SIZE }, .mode = mode };

	pager.fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (pager.fd < 0)
		return -errno;
	if (mode & UFFDIO_REGISTER_MODE_WP)
		api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	if (ioctl(pager.fd, UFFDIO_API, &api) || ioctl(pager.fd, UFFDIO_REGISTER, &reg) ||
	    pipe(pager.stop))
		return -errno;
	return -pthread_create(thread, NULL, answer_faults, NULL);
}

static void stop_pager(pthread_t thread)
{
	close(pager.stop[1]);
	pthread_join(thread, NULL);
	close(pager.stop[0]);
	close(pager.fd);
}

TEST_F(pages, userfaultfd_missing)
{
	pthread_t thread;

	for (size_t word = 0; word < PAGE_WORDS; word++)
		pager.contents[word] = hydra_word(9, 0, word);
	ASSERT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, start_pager(&thread, self->area, UFFDIO_REGISTER_MODE_MISSING));
	/* page by page, since each is to get the same contents */
	for (size_t page = 0; page < PAGES; page++) {
		int first = page % (self->last + 1);
		char *addr = self->area + page * PAGE_SIZE;

		EXPECT_EQ(0, hydra_probe(first, addr, 1, HYDRA_READABLE, 9));
		PROBE_ALL(addr, 1, HYDRA_READ_WRITE, 9);
		EXPECT_EQ(page + 1, atomic_load(&pager.missing));
	}
	stop_pager(thread);
}

TEST_F(pages, userfaultfd_write_protect)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)self->area, SIZE }, .mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	uint64_t seed = 1;
	pthread_t thread;
	int err, count = 0;

	err = start_pager(&thread, self->area, UFFDIO_REGISTER_MODE_WP);
	if (err == -EINVAL)
		SKIP(return, "no write protection by userfaultfd (CONFIG_PTE_MARKER_UFFD_WP)");
	ASSERT_EQ(0, err);
	/* whichever node writes first after the call, the pager hears of every page */
	for (int node = 0; node <= self->last; node++, seed++) {
		EXPECT_EQ(0, hydra_syscall(self->last - node, SYS_ioctl, pager.fd,
					   UFFDIO_WRITEPROTECT, (long)&wp));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed);
		EXPECT_EQ(count, atomic_load(&pager.write_protected));
		hydra_write_pages(node, self->area, PAGES, seed + 1);
		count += PAGES;
		EXPECT_EQ(count, atomic_load(&pager.write_protected));
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed + 1);
		EXPECT_EQ(count, atomic_load(&pager.write_protected));
	}
	stop_pager(thread);
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

/* One bit for each page of the area that has this flag in pagemap */
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

/*
 * Empty the TLB of the CPU it runs on, for nobody clears it when accessed bits
 * are cleared: a change of so many pages that Linux forgets all.
 */
static void empty_tlb(void *arg)
{
	char *scratch = mmap(NULL, 128 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (scratch == MAP_FAILED || munmap(scratch, 128 * PAGE_SIZE))
		abort();
}

TEST_F(pages, referenced)
{
	for (int node = 0; node <= self->last; node++) {
		EXPECT_EQ(0, hydra_write_file("/proc/self/clear_refs", "1"));
		EXPECT_EQ(0, hydra_smaps(self->area, "Referenced"));
		for (int i = 0; i <= self->last; i++)
			hydra_run(i, empty_tlb, NULL);
		EXPECT_EQ(0, hydra_smaps(self->area, "Referenced"));
		/* this node alone uses a few of the pages */
		EXPECT_EQ(0, hydra_probe(node, self->area, 3, HYDRA_READABLE, 1));
		EXPECT_EQ(3, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read 3 pages", node);
		/* whoever takes the entries out and puts them back keeps that */
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, SIZE, PROT_READ));
		EXPECT_EQ(3, hydra_smaps(self->area, "Referenced"))
			TH_LOG("after node %d has read 3 pages, and mprotect", node);
		EXPECT_EQ(0, hydra_syscall(0, SYS_mprotect, (long)self->area, SIZE,
					   PROT_READ | PROT_WRITE));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, 1);
		EXPECT_EQ(PAGES, hydra_smaps(self->area, "Referenced"));
	}
}

/* Forget clean pages of files; and put pages on the lists that reclaim takes them from */
static int drop_caches(void)
{
	return hydra_write_file("/proc/sys/vm/drop_caches", "1");
}

TEST_F_TIMEOUT(pages, swap, 60)
{
	char device[32], command[64];
	int zram = hydra_add_zram("64M");

	if (zram == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_LE(0, zram);
	snprintf(device, sizeof(device), "/dev/zram%d", zram);
	snprintf(command, sizeof(command), "mkswap -q %s >/dev/null", device);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, swapon(device, 0));
	for (uint64_t seed = 1; seed <= self->last + 1; seed++) {
		int reader = seed % (self->last + 1);

		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_PAGEOUT));
		EXPECT_EQ(PAGES, hydra_smaps(self->area, "Swap"));
		EXPECT_EQ((1UL << PAGES) - 1, pages_with(self->area, SWAPPED));
		/* they come back for one node; the others have entries to get anew */
		EXPECT_EQ(0, hydra_probe(reader, self->area, PAGES, HYDRA_READABLE, seed));
		PROBE_AND_REWRITE(reader, seed);
	}
	EXPECT_EQ(0, hydra_syscall(0, SYS_madvise, (long)self->area, SIZE, MADV_PAGEOUT));
	EXPECT_EQ(0, swapoff(device));
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, self->last + 2);
	EXPECT_EQ(0, hydra_remove_zram(zram));
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

/* Pages given back are kept when a node has written them since, and only then must they be */
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
	char device[32], command[64], dir[] = "/tmp/hydra-pages-XXXXXX", path[64];
	int zram = hydra_add_zram("32M");
	uint64_t seed = 1;
	int fd;

	if (zram == -ENODEV)
		SKIP(return, "no compressed RAM disks (CONFIG_ZRAM)");
	ASSERT_LE(0, zram);
	snprintf(device, sizeof(device), "/dev/zram%d", zram);
	snprintf(command, sizeof(command), "mkfs.ext4 -q %s", device);
	ASSERT_EQ(0, system(command));
	ASSERT_NE(NULL, mkdtemp(dir));
	ASSERT_EQ(0, mount(device, dir, "ext4", 0, NULL));
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, SIZE));

	ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd, 0));
	hydra_write_pages(0, self->area, PAGES, seed);
	for (int node = 0; node <= self->last; node += self->last, seed++) {
		/* clean pages, in the tables of all nodes */
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed);
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed);
		hydra_write_pages(node, self->area, PAGES, seed + 1);
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		/* nobody has the pages any more but the disk */
		EXPECT_EQ(0, hydra_syscall(self->last, SYS_madvise, (long)self->area, SIZE,
					   MADV_DONTNEED));
		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, wrong_words_in_file(fd, seed + 1))
			TH_LOG("written by node %d, then msync", node);
		PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, seed + 1);

		/* the same with munmap for msync */
		EXPECT_EQ(0, hydra_syscall(0, SYS_msync, (long)self->area, SIZE, MS_SYNC));
		PROBE_ALL(self->area, PAGES, HYDRA_READABLE, seed + 1);
		hydra_write_pages(node, self->area, PAGES, seed);
		EXPECT_EQ(0, hydra_syscall(0, SYS_munmap, (long)self->area, SIZE));
		EXPECT_EQ(0, fsync(fd));
		EXPECT_EQ(0, drop_caches());
		EXPECT_EQ(0, wrong_words_in_file(fd, seed))
			TH_LOG("written by node %d, then munmap", node);
		ASSERT_EQ(self->area, mmap(self->area, SIZE, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, fd, 0));
		hydra_write_pages(node, self->area, PAGES, seed + 1);
	}
	hydra_map(self->area, PAGES);
	close(fd);
	EXPECT_EQ(0, umount(dir));
	EXPECT_EQ(0, rmdir(dir));
	EXPECT_EQ(0, hydra_remove_zram(zram));
}

HYDRA_HARNESS_MAIN
