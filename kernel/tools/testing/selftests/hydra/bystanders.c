// SPDX-License-Identifier: GPL-2.0-only
/*
 * The main thread unmaps or exchanges pages that spinners, threads on the other nodes,
 * read or write all the time. After the system call returns, no spinner may use the old
 * page, even if another thread cleared the entry and has not flushed yet.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "linux_uapi.h"
#include "spinners.h"

#define TIMES		20
#define SURE		5	/* rounds of tests that force two threads to meet */
#define WALKED		2000	/* rounds of tests whose race window is one or two instructions */

FIXTURE(bystanders) {
	char *area;	/* four leaf tables */
	char *alone;	/* one page, alone in a leaf table */
};

FIXTURE_SETUP(bystanders)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(bystanders)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
}

/* From now on no spinner may read @value from the watched word. */
static void forbid(struct __test_metadata *_metadata, uint64_t value, const char *what)
{
	const struct spinner *stale = forbid_value(value);

	ASSERT_EQ(NULL, stale)
		TH_LOG("CPU %d reads a page %s", stale->cpu, what);
}

/*
 * Stronger than forbid(), if all watched words have the same value: no spinner may read
 * another value. So the test also notices an old page that was freed, given to another
 * user and written to.
 */
static void require(struct __test_metadata *_metadata, uint64_t value, const char *what)
{
	const struct spinner *stale = require_value(value);

	ASSERT_EQ(NULL, stale)
		TH_LOG("CPU %d reads a page %s", stale->cpu, what);
}

/*
 * Small pages become a huge page. The collapse clears the PMD entry before the flush, and
 * must still reach the readers. Each round is at another address, where no node has
 * shared huge pages yet.
 */
TEST_F_TIMEOUT(bystanders, collapse_pages_that_other_nodes_read, 60)
{
	const size_t apart = TABLE_PAGES * TABLE_SIZE;
	char *area = hydra_reserve((TIMES / 2) * apart);
	/* The collapse takes long: the kernel's interrupts push pages out of a spinner's TLB. */
	const size_t pages = TABLE_PAGES / 4;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	spin_on_other_nodes();
	spin.pages = pages;
	for (uint64_t i = 1; i <= TIMES; i += 2, area += apart) {
		volatile uint64_t *word = (uint64_t *)area;

		hydra_map(area, TABLE_PAGES);
		ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_NOHUGEPAGE));
		for (size_t page = 0; page < TABLE_PAGES; page++)
			word[page * PAGE_WORDS] = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_HUGEPAGE));
		ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_COLLAPSE));
		ASSERT_EQ(TABLE_PAGES, hydra_smaps(area, "AnonHugePages"));
		for (size_t page = 0; page < pages; page++)
			word[page * PAGE_WORDS] = i + 1;
		require(_metadata, i + 1, "that has been collapsed");
	}
}

/* Hydra is switched on or off, then a page is dropped. */
TEST_F_TIMEOUT(bystanders, switch_while_other_nodes_read, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	for (uint64_t i = 1; i <= TIMES; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, i % 2 ? hydra_off() : hydra_on(9, HYDRA_FILTER_TABLE));
		ASSERT_EQ(0, madvise(self->area, PAGE_SIZE, MADV_DONTNEED));
		forbid(_metadata, i, "that was gone before");
	}
}

static atomic_bool switching_stop;

static void *switch_on_and_off(void *arg)
{
	while (!atomic_load(&switching_stop))
		if (hydra_off() || hydra_on(9, HYDRA_FILTER_TABLE))
			abort();
	return NULL;
}

/*
 * A page is unmapped while another thread switches Hydra on and off: fallocate() punches
 * a hole in a file without mmap_lock, so even while a node gets its tables.
 */
TEST_F_TIMEOUT(bystanders, punch_hole_while_another_thread_switches, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	int fd = memfd_create("hydra", 0);
	pthread_t switcher;

	ASSERT_EQ(0, ftruncate(fd, PAGE_SIZE));
	ASSERT_EQ((void *)word, mmap(self->area, PAGE_SIZE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED, fd, 0));
	spin_on_other_nodes();
	atomic_store(&switching_stop, false);
	ASSERT_EQ(0, pthread_create(&switcher, NULL, switch_on_and_off, NULL));
	for (uint64_t i = 1; i <= TIMES; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				       PAGE_SIZE));
		forbid(_metadata, i, "that was cut out of its file");
	}
	atomic_store(&switching_stop, true);
	ASSERT_EQ(0, pthread_join(switcher, NULL));
	close(fd);
}

/* The same with madvise(): it holds the lock of the VMA alone. */
TEST_F_TIMEOUT(bystanders, drop_pages_while_another_thread_switches, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	pthread_t switcher;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	atomic_store(&switching_stop, false);
	ASSERT_EQ(0, pthread_create(&switcher, NULL, switch_on_and_off, NULL));
	for (uint64_t i = 1; i <= TIMES; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(self->area, PAGE_SIZE, MADV_DONTNEED));
		forbid(_metadata, i, "that was dropped");
	}
	atomic_store(&switching_stop, true);
	ASSERT_EQ(0, pthread_join(switcher, NULL));
}

static struct {
	char *area;
	atomic_bool stop;
} walked;

/*
 * A futex call lets the kernel walk the page tables, without a lock while the page is
 * present.
 */
static void *walk_tables(void *arg)
{
	hydra_pin_to_cpu((int)(intptr_t)arg);
	for (size_t i = 0; !atomic_load(&walked.stop); i = (i + 1) % 4)
		syscall(SYS_futex, walked.area + i * TABLE_SIZE, FUTEX_WAKE, 1, NULL, NULL, 0);
	return NULL;
}

/* Node 0 frees tables. Threads of other nodes walk the tables in the kernel, and share none. */
TEST_F_TIMEOUT(bystanders, free_tables_while_other_nodes_walk_them, 180)
{
	pthread_t walkers[HYDRA_MAX_NODES];
	int cpus[HYDRA_MAX_CPUS];

	walked.area = self->area;
	atomic_store(&walked.stop, false);
	for (int node = 1; node < hydra_nodes(); node++) {
		hydra_node_cpus(node, cpus);
		ASSERT_EQ(0, pthread_create(&walkers[node], NULL, walk_tables,
					    (void *)(intptr_t)cpus[0]));
	}
	for (int i = 0; i < WALKED; i++) {
		hydra_map(self->area, 4 * TABLE_PAGES);
		for (size_t table = 0; table < 4; table++)
			*(volatile uint64_t *)(self->area + table * TABLE_SIZE) = ~0UL;
		ASSERT_EQ(0, munmap(self->area, 4 * TABLE_SIZE));
	}
	atomic_store(&walked.stop, true);
	for (int node = 1; node < hydra_nodes(); node++)
		ASSERT_EQ(0, pthread_join(walkers[node], NULL));
	hydra_map(self->area, 1);
}

/*
 * The main thread drops a large range, of which the spinners read the first pages. Before
 * the main thread has dropped the rest, another thread of node 0 begins and ends
 * madvise() calls. The main thread's flush at the end must still reach the spinners.
 */
TEST_F_TIMEOUT(bystanders, drop_pages_while_another_gather_ends, 180)
{
	const size_t pages = 16;
	char *start = self->area + TABLE_SIZE - pages * PAGE_SIZE;
	volatile uint64_t *word = (uint64_t *)start;
	size_t size = self->area + 2 * TABLE_SIZE - start;

	spin_on_other_nodes();
	spin.pages = pages;
	hydra_map(self->area, 4 * TABLE_PAGES);
	ASSERT_EQ(0, madvise(self->area, 4 * TABLE_SIZE, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, start_dropper(start + size - PAGE_SIZE));
	for (uint64_t i = 1; i <= TIMES / 2; i++) {
		for (size_t page = 0; page < size / PAGE_SIZE; page++)
			word[page * PAGE_WORDS] = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(start, size, MADV_DONTNEED));
		forbid(_metadata, i, "that was dropped before");
	}
	ASSERT_EQ(0, stop_dropper());
}

static struct {
	char *start;
	size_t size;
	atomic_bool begun;
} drop;

static void *drop_range(void *arg)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	atomic_store(&drop.begun, true);
	if (madvise(drop.start, drop.size, MADV_DONTNEED))
		abort();
	return NULL;
}

#define WATCHED		16	/* pages */

/*
 *    another thread                  the main thread
 *    begins to drop some tables,
 *    clears the first entries
 *                                    drops the first pages, and some before, finds them
 *                                    gone (or a new page in place of a part of a huge page)
 *                                    has to flush the spinners, which read them
 *    flushes
 */
struct dropped {
	char *area;
	size_t tables;			/* that the other thread drops */
	size_t before, size;		/* bytes that the main thread drops, up to and from @area */
	bool huge;
};

static void drop_what_another_drops(struct __test_metadata *_metadata, const struct dropped *d)
{
	char *area = d->area;
	volatile uint64_t *word = (uint64_t *)area;
	size_t all = d->tables * TABLE_SIZE;
	pthread_t other;

	spin_on_other_nodes();
	spin.pages = WATCHED;
	drop.start = area;
	drop.size = all;
	for (uint64_t i = 1; i <= TIMES; i++) {
		hydra_map(area - d->before, (d->before + all) / PAGE_SIZE + TABLE_PAGES);
		ASSERT_EQ(0, madvise(area - d->before, d->before + all + TABLE_SIZE,
				     MADV_NOHUGEPAGE));
		for (size_t page = 0; page < all / PAGE_SIZE; page++)
			word[page * PAGE_WORDS] = i;
		if (d->huge) {
			ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_HUGEPAGE));
			ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_COLLAPSE));
			ASSERT_EQ(0, madvise(area, all + TABLE_SIZE, MADV_NOHUGEPAGE));
		}
		ASSERT_TRUE(watch_all(word, i));
		atomic_store(&drop.begun, false);
		ASSERT_EQ(0, pthread_create(&other, NULL, drop_range, NULL));
		while (!atomic_load(&drop.begun))
			;
		/* sooner or later */
		usleep(i % 8 * 200);
		if (d->huge)
			word[(TABLE_PAGES - 1) * PAGE_WORDS] = i;
		ASSERT_EQ(0, madvise(area - d->before, d->before + d->size, MADV_DONTNEED));
		forbid(_metadata, i, "that has been dropped");
		ASSERT_EQ(0, pthread_join(other, NULL));
	}
}

TEST_F_TIMEOUT(bystanders, drop_pages_that_another_thread_drops, 300)
{
	drop_what_another_drops(_metadata, &(struct dropped) {
		.area = self->area, .tables = 3, .size = WATCHED * PAGE_SIZE });
}

/* The other thread, then the main thread, drops more than is announced by place. */
TEST_F_TIMEOUT(bystanders, drop_pages_that_another_thread_drops_with_many, 300)
{
	drop_what_another_drops(_metadata, &(struct dropped) {
		.area = hydra_reserve(8 * TABLE_SIZE), .tables = 6, .size = WATCHED * PAGE_SIZE });
}

/* The end of what the main thread drops meets the other thread at once. */
TEST_F_TIMEOUT(bystanders, drop_many_pages_of_which_another_thread_drops_some, 300)
{
	drop_what_another_drops(_metadata, &(struct dropped) {
		.area = hydra_reserve(9 * TABLE_SIZE) + 5 * TABLE_SIZE, .tables = 3,
		.before = 5 * TABLE_SIZE, .size = WATCHED * PAGE_SIZE });
}

TEST_F_TIMEOUT(bystanders, drop_huge_page_that_another_thread_drops, 300)
{
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	drop_what_another_drops(_metadata, &(struct dropped) {
		.area = self->area, .tables = 3, .size = TABLE_SIZE, .huge = true });
}

static struct {
	sem_t wanted;
	atomic_bool begun, stop;
} hog;

/* Takes the CPU away from the thread in drop_range() for a moment. */
static void *hog_cpu(void *arg)
{
	const struct sched_param first = { .sched_priority = 1 };
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		abort();
	while (sem_wait(&hog.wanted))
		;
	atomic_store(&hog.begun, true);
	while (!atomic_load(&hog.stop))
		__builtin_ia32_pause();
	return NULL;
}

/* Pages written since the write-protection; @protect: protect the pages again. */
static size_t count_written(int pagemap, char *start, size_t pages, bool protect)
{
	struct page_region region;
	struct pm_scan_arg scan = {
		.size = sizeof(scan), .flags = protect ? PM_SCAN_WP_MATCHING : 0,
		.vec = (uintptr_t)&region, .vec_len = 1,
		.category_mask = PAGE_IS_WRITTEN, .return_mask = PAGE_IS_WRITTEN,
	};
	size_t count = 0;
	int found;

	for (size_t page = 0; page < pages; page++) {
		scan.start = (uintptr_t)start + page * PAGE_SIZE;
		scan.end = scan.start + PAGE_SIZE;
		found = ioctl(pagemap, PAGEMAP_SCAN, &scan);
		if (found < 0)
			abort();
		count += found;
	}
	return count;
}

static bool is_present(int pagemap, char *page)
{
	uint64_t entry;

	if (pread(pagemap, &entry, 8, (uintptr_t)page / PAGE_SIZE * 8) != 8)
		abort();
	return entry >> 63;
}

/*
 *    another thread                  the main thread              a spinner
 *    drops a huge page of a file                                  writes to it
 *    loses its CPU to the hog
 *                                    maps small pages of it
 *                                    write-protects them
 *                                                                 writes, by the entry
 *                                                                 of the huge page?
 *                                    asks which were written
 *    flushes
 *
 * PAGEMAP_SCAN by the main thread must find the writes.
 */
static int protect_what_another_drops(struct __test_metadata *_metadata, size_t tables)
{
	const size_t size = tables * TABLE_SIZE;
	char *area = hydra_reserve(size);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct uffdio_register reg = {
		.range = { (uintptr_t)area, size },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	volatile uint64_t *word = (uint64_t *)area;
	int cpus[HYDRA_MAX_CPUS];
	int userfault_fd, pagemap, file, last = hydra_nodes() - 1;
	struct spinner *writer;
	unsigned int met = 0;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	userfault_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (userfault_fd < 0 || ioctl(userfault_fd, UFFDIO_API, &api))
		SKIP(return, "no asynchronous write protection (CONFIG_PTE_MARKER_UFFD_WP)");
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, pagemap);
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	if (hydra_node_cpus(0, cpus) < 2)
		SKIP(return, "the first node has but one CPU");
	hydra_node_cpus(last, cpus);
	start_spinner(last, cpus[0]);
	writer = spinner_of(last);
	spin.pages = 16;
	drop.start = area;
	drop.size = size;
	for (int i = 0; i < SURE; i++) {
		pthread_t other, hogging;
		unsigned long round;

		file = memfd_create("written", MFD_CLOEXEC);
		ASSERT_LE(0, file);
		ASSERT_EQ(0, ftruncate(file, size));
		ASSERT_EQ(area, mmap(area, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				     file, 0));
		for (size_t page = 0; page < TABLE_PAGES; page++)
			word[page * PAGE_WORDS] = 1;
		ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_COLLAPSE));
		*word = 1;
		ASSERT_EQ(0, madvise(area, size, MADV_NOHUGEPAGE));
		ASSERT_EQ(0, ioctl(userfault_fd, UFFDIO_REGISTER, &reg));
		/* Clean pages, since writes fault now: one flush drops all. */
		ASSERT_EQ(0, madvise(area + TABLE_SIZE, size - TABLE_SIZE, MADV_POPULATE_READ));
		/*
		 * The collapse left a flush to the next CPU that drops small pages: drop
		 * one here.
		 */
		ASSERT_EQ(0, madvise(area + TABLE_SIZE, PAGE_SIZE, MADV_DONTNEED));
		atomic_store(&writer->written, word);
		await_rounds(writer);
		ASSERT_EQ(0, sem_init(&hog.wanted, 0, 0));
		atomic_store(&hog.begun, false);
		atomic_store(&hog.stop, false);
		ASSERT_EQ(0, pthread_create(&hogging, NULL, hog_cpu, NULL));
		ASSERT_EQ(0, pthread_create(&other, NULL, drop_range, NULL));
		while (is_present(pagemap, area + TABLE_SIZE - PAGE_SIZE))
			;
		sem_post(&hog.wanted);
		while (!atomic_load(&hog.begun))
			;
		/*
		 * Not by writes of this thread: like the spinner's writes, they would not
		 * fault yet.
		 */
		ASSERT_EQ(0, madvise(area, spin.pages * PAGE_SIZE,
				     MADV_POPULATE_WRITE));
		count_written(pagemap, area, spin.pages, true);
		round = atomic_load(&writer->rounds);
		while (atomic_load(&writer->rounds) < round + 2)
			;
		EXPECT_EQ(spin.pages, count_written(pagemap, area, spin.pages, false))
			TH_LOG("round %d: of the other pages' writes it was not told", i);
		met += is_present(pagemap, area + size - PAGE_SIZE);
		atomic_store(&hog.stop, true);
		ASSERT_EQ(0, pthread_join(hogging, NULL));
		sem_destroy(&hog.wanted);
		ASSERT_EQ(0, pthread_join(other, NULL));
		atomic_store(&writer->written, NULL);
		await_rounds(writer);
		close(file);
	}
	close(pagemap);
	close(userfault_fd);
	return met;
}

/* So many pages that the other thread still drops pages when the hog wakes. */
TEST_F_TIMEOUT(bystanders, protect_pages_that_another_thread_drops, 300)
{
	/* Else the other thread had flushed each time, and nothing was shown. */
	EXPECT_LT(0, protect_what_another_drops(_metadata, 16));
}

/* So few that the other thread announces its drop by place. */
TEST_F_TIMEOUT(bystanders, protect_pages_that_another_thread_drops_with_few, 300)
{
	if (!protect_what_another_drops(_metadata, 4))
		SKIP(return, "the other thread had always flushed: nothing is shown");
}

static struct {
	int userfault_fd;
	char *from, *to;
	atomic_bool begun;
	int error;
} move;

static void *move_huge_page(void *arg)
{
	struct uffdio_move what = {
		.dst = (uintptr_t)move.to, .src = (uintptr_t)move.from, .len = TABLE_SIZE,
	};
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	atomic_store(&move.begun, true);
	move.error = ioctl(move.userfault_fd, UFFDIO_MOVE, &what) ? errno : 0;
	return NULL;
}

/*
 *    another thread                  the main thread
 *    UFFDIO_MOVE takes the entry
 *    of a huge page that the
 *    spinners read
 *                                    drops a small page of its own, and the huge
 *                                    page, which it finds gone
 *                                    has to wait for the flush of the other thread
 *    flushes
 */
TEST_F_TIMEOUT(bystanders, drop_huge_page_that_another_thread_moves, 60)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_MOVE };
	char *start = self->area + TABLE_SIZE - PAGE_SIZE;
	unsigned int moved = 0;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	move.userfault_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (move.userfault_fd < 0 || ioctl(move.userfault_fd, UFFDIO_API, &api))
		SKIP(return, "no userfaultfd that moves pages (CONFIG_USERFAULTFD)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	move.from = self->area + TABLE_SIZE;
	move.to = self->area + 3 * TABLE_SIZE;
	spin_on_other_nodes();
	spin.pages = 16;
	for (uint64_t i = 1; i <= TIMES; i++) {
		volatile uint64_t *word = (uint64_t *)move.from;
		struct uffdio_register reg = {
			.range = { (uintptr_t)move.to, TABLE_SIZE },
			.mode = UFFDIO_REGISTER_MODE_MISSING,
		};
		pthread_t mover;

		hydra_map(self->area, 4 * TABLE_PAGES);
		ASSERT_EQ(0, ioctl(move.userfault_fd, UFFDIO_REGISTER, &reg));
		ASSERT_EQ(0, madvise(move.from, TABLE_SIZE, MADV_HUGEPAGE));
		*start = i;
		for (size_t page = 0; page < TABLE_PAGES; page++)
			word[page * PAGE_WORDS] = i;
		ASSERT_EQ(0, madvise(move.from, TABLE_SIZE, MADV_COLLAPSE));
		ASSERT_TRUE(watch_all(word, i));
		atomic_store(&move.begun, false);
		ASSERT_EQ(0, pthread_create(&mover, NULL, move_huge_page, NULL));
		while (!atomic_load(&move.begun))
			;
		/* sooner or later */
		usleep(i % 8 * 5000);
		ASSERT_EQ(0, madvise(start, PAGE_SIZE + TABLE_SIZE, MADV_DONTNEED));
		forbid(_metadata, i, "that has been moved away or dropped");
		ASSERT_EQ(0, pthread_join(mover, NULL));
		ASSERT_TRUE(!move.error || move.error == ENOENT || move.error == EBUSY ||
			    move.error == EAGAIN)
			TH_LOG("UFFDIO_MOVE: %s", strerror(move.error));
		moved += !move.error;
	}
	EXPECT_LT(0, moved);
	close(move.userfault_fd);
}

#define REPLACED	100	/* rounds of tests on a mapping that another thread replaces */

static struct {
	char *page;
	int zeros;		/* /dev/zero */
	atomic_bool stop;
	unsigned long foreign;	/* what is neither the thread's value nor a new page */
	unsigned int empty_us;	/* how long a new mapping has no page */
} replaced;

/* Puts a new mapping in the place of the last one, all the time. */
static void *replace_mapping(void *arg)
{
	volatile uint64_t *word = (uint64_t *)replaced.page + PAGE_WORDS - 1;

	hydra_pin_to_node(1);
	for (uint64_t i = 1; !atomic_load(&replaced.stop); i++) {
		uint64_t found;

		hydra_map(replaced.page, 1);
		if (replaced.empty_us)
			usleep(replaced.empty_us);
		*word = i;
		found = *word;
		replaced.foreign += found && found != i;
		if (munmap(replaced.page, PAGE_SIZE))
			abort();
	}
	return NULL;
}

/* madvise() and a read() fault hold the lock of the VMA alone, and the VMA is about to go. */
static void use_replaced(struct __test_metadata *_metadata, char *page,
			 void (*use)(struct __test_metadata *, char *, int))
{
	pthread_t replacer;

	replaced.page = page;
	replaced.foreign = 0;
	atomic_store(&replaced.stop, false);
	ASSERT_EQ(0, pthread_create(&replacer, NULL, replace_mapping, NULL));
	for (int i = 0; i < REPLACED; i++) {
		/* Calls that follow at once come in step with the other thread, while it maps. */
		usleep(i * 79 % 1000);
		use(_metadata, page, i);
	}
	atomic_store(&replaced.stop, true);
	ASSERT_EQ(0, pthread_join(replacer, NULL));
	EXPECT_EQ(0, replaced.foreign);
}

static void drop_replaced(struct __test_metadata *_metadata, char *page, int i)
{
	if (madvise(page, PAGE_SIZE, i % 2 ? MADV_FREE : MADV_DONTNEED))
		ASSERT_EQ(ENOMEM, errno);
}

TEST_F_TIMEOUT(bystanders, drop_pages_of_a_mapping_that_another_thread_replaces, 120)
{
	use_replaced(_metadata, self->alone, drop_replaced);
}

/* All but the last word of the page, which the other thread writes */
static void read_replaced(struct __test_metadata *_metadata, char *page, int i)
{
	if (read(replaced.zeros, page, PAGE_SIZE - sizeof(uint64_t)) < 0)
		ASSERT_EQ(EFAULT, errno);
}

TEST_F_TIMEOUT(bystanders, read_into_a_mapping_that_another_thread_replaces, 120)
{
	replaced.zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, replaced.zeros);
	/* The fault is to be the one in kernel mode. */
	replaced.empty_us = 1000;
	use_replaced(_metadata, self->alone, read_replaced);
	close(replaced.zeros);
}

HYDRA_HARNESS_MAIN
