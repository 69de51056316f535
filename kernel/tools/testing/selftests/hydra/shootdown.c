// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which CPUs a TLB shootdown interrupts: those of the nodes that share a leaf
 * table of the range, all of them, and no others. Interrupts are counted by
 * Linux: the line "TLB" of /proc/interrupts.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "linux_uapi.h"

#define OPERATIONS	100	/* where nobody is to be interrupted */
#define COSTLY		20	/* where somebody is */
#define MANY		300	/* where it takes two that meet */
#define SURE		5	/* where they are made to meet */

#define PAGE_WORDS	(PAGE_SIZE / sizeof(uint64_t))
#define STRAY		2	/* interrupts a CPU may get for other reasons */
#define MOST(n)		((n) * 3 / 4)	/* a spinner does not run all the time */

/*
 * A thread that keeps its CPU busy, and may watch a word, the same one of each of
 * some pages, or write it: the more there are, the less likely its TLB has lost them
 * all. Or it drops a page of its own again and again.
 */
struct spinner {
	pthread_t thread;
	int cpu, node;
	_Atomic(const volatile uint64_t *) watched;
	_Atomic(char *) dropped;
	_Atomic(volatile uint64_t *) written;
	atomic_ulong seen;	/* the latest value of the word, in the last page */
	atomic_ulong rounds;
	atomic_ulong stale;	/* times it had a value it should not have had any more */
};

static struct {
	struct spinner *spinners;
	int count;
	size_t pages;		/* that each of them watches or writes */
	atomic_bool stop;
	atomic_ulong forbidden;	/* a value that no read begun from now on may return */
} spin;

static void *spinner_main(void *arg)
{
	struct spinner *s = arg;
	const volatile uint64_t *word;
	volatile uint64_t *written;
	uint64_t forbidden, value = 0;
	char *page;

	hydra_pin_to_cpu(s->cpu);
	while (!atomic_load(&spin.stop)) {
		page = atomic_load(&s->dropped);
		if (page) {
			*(volatile char *)page = 1;
			if (madvise(page, PAGE_SIZE, MADV_DONTNEED))
				abort();
		}
		written = atomic_load(&s->written);
		for (size_t page = 0; written && page < spin.pages; page++)
			written[page * PAGE_WORDS] = 1;
		word = atomic_load(&s->watched);
		if (word) {
			forbidden = atomic_load(&spin.forbidden);
			for (size_t page = 0; page < spin.pages; page++) {
				value = word[page * PAGE_WORDS];
				if (forbidden && value == forbidden)
					atomic_fetch_add(&s->stale, 1);
			}
			atomic_store(&s->seen, value);
		}
		atomic_fetch_add(&s->rounds, 1);
		__builtin_ia32_pause();
	}
	return NULL;
}

static void start_spinner(int node, int cpu)
{
	struct spinner *s = &spin.spinners[spin.count++];

	s->node = node;
	s->cpu = cpu;
	if (pthread_create(&s->thread, NULL, spinner_main, s))
		abort();
	while (!atomic_load(&s->rounds))
		usleep(1000);
}

/* On all CPUs of all nodes but the first one, where the tests run */
static int spin_on_other_nodes(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 1; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = 0; i < count; i++)
			start_spinner(node, cpus[i]);
	}
	return spin.count;
}

static struct spinner *spinner_of(int node)
{
	for (int i = 0; i < spin.count; i++)
		if (spin.spinners[i].node == node)
			return &spin.spinners[i];
	return NULL;
}

/* Two rounds from now, the last of them begun from now on, have come to their end */
static void await_rounds(struct spinner *s)
{
	unsigned long rounds = atomic_load(&s->rounds);

	while (atomic_load(&s->rounds) < rounds + 2)
		usleep(100);
}

/* The spinner has the word in its TLB, with that value; false if it sees another */
static bool watch(struct spinner *s, const volatile uint64_t *word, uint64_t value)
{
	atomic_store(&s->watched, word);
	await_rounds(s);
	return atomic_load(&s->seen) == value;
}

static struct {
	pthread_t thread;
	bool started;
	atomic_bool stop;
} dropper;

static void *drop_page(void *page)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	while (!atomic_load(&dropper.stop))
		if (madvise(page, PAGE_SIZE, MADV_DONTNEED))
			abort();
	return NULL;
}

/* Calls that begin and end all the time, of a thread of this node */
static int start_dropper(char *page)
{
	hydra_map(page, 1);
	atomic_store(&dropper.stop, false);
	dropper.started = !pthread_create(&dropper.thread, NULL, drop_page, page);
	return !dropper.started;
}

/* If there is one */
static int stop_dropper(void)
{
	if (!dropper.started)
		return 0;
	dropper.started = false;
	atomic_store(&dropper.stop, true);
	return pthread_join(dropper.thread, NULL);
}

/* TLB shootdowns that each CPU has been interrupted for */
static int read_interrupts(uint64_t count[HYDRA_MAX_CPUS])
{
	FILE *f = fopen("/proc/interrupts", "r");
	int cpus[HYDRA_MAX_CPUS], nr = 0, found = 0;
	static char line[65536];

	if (!f)
		return -errno;
	if (fgets(line, sizeof(line), f)) {
		char *rest = line;
		int used;

		while (nr < HYDRA_MAX_CPUS && sscanf(rest, " CPU%d%n", &cpus[nr], &used) == 1) {
			rest += used;
			nr++;
		}
	}
	while (!found && fgets(line, sizeof(line), f)) {
		char *rest = strstr(line, "TLB:");

		if (!rest)
			continue;
		rest += strlen("TLB:");
		for (int i = 0; i < nr; i++)
			if (cpus[i] < HYDRA_MAX_CPUS)
				count[cpus[i]] = strtoull(rest, &rest, 10);
		found = 1;
	}
	fclose(f);
	return found ? 0 : -ENOENT;
}

FIXTURE(shootdown) {
	char *area;	/* four leaf tables */
	char *alone;	/* one page that has a leaf table for itself */
};

FIXTURE_SETUP(shootdown)
{
	char *hole = hydra_reserve(4 * TABLE_SIZE);

	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	self->area = hydra_reserve(4 * TABLE_SIZE);
	ASSERT_EQ(0, munmap(hole, 4 * TABLE_SIZE));
	self->alone = hole + 2 * TABLE_SIZE;
	spin.spinners = calloc(HYDRA_MAX_CPUS, sizeof(*spin.spinners));
	ASSERT_NE(NULL, spin.spinners);
	spin.pages = 1;
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(shootdown)
{
	atomic_store(&spin.stop, true);
	EXPECT_EQ(0, stop_dropper());
	for (int i = 0; i < spin.count; i++)
		pthread_join(spin.spinners[i].thread, NULL);
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
	hydra_stop_workers();
}

/* Operations: each takes something from the TLB of the CPU it runs on */

static int op_mprotect(char *area)
{
	int err = mprotect(area, PAGE_SIZE, PROT_READ);

	err |= mprotect(area, PAGE_SIZE, PROT_READ | PROT_WRITE);
	*(volatile uint64_t *)area += 1;
	return err;
}

static int op_madvise(char *area)
{
	*(volatile uint64_t *)area = 1;
	return madvise(area, PAGE_SIZE, MADV_DONTNEED);
}

static int op_munmap(char *area)
{
	if (mmap(area, PAGE_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area)
		return -1;
	*(volatile uint64_t *)area = 1;
	return munmap(area, PAGE_SIZE);
}

static int op_mprotect_tables(char *area)
{
	int err = mprotect(area, 4 * TABLE_SIZE, PROT_READ);

	err |= mprotect(area, 4 * TABLE_SIZE, PROT_READ | PROT_WRITE);
	for (int i = 0; i < 4; i++)
		*(volatile uint64_t *)(area + i * TABLE_SIZE + PAGE_SIZE) += 1;
	return err;
}

struct outcome {
	uint64_t interrupts[HYDRA_MAX_CPUS];
	uint64_t flushes, interrupted, spared;
	int errors;
};

static void count_operations(struct __test_metadata *_metadata, int (*op)(char *), char *area,
			     int operations, struct outcome *out)
{
	static uint64_t before[HYDRA_MAX_CPUS];
	struct hydra_stats from, to;

	memset(out, 0, sizeof(*out));
	/* the tables are there, and what the program itself needs */
	for (int i = 0; i < 3; i++)
		out->errors += op(area) != 0;
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	ASSERT_EQ(0, read_interrupts(before));
	ASSERT_EQ(0, read_interrupts(before));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	for (int i = 0; i < operations; i++)
		out->errors += op(area) != 0;
	ASSERT_EQ(0, hydra_read_stats(getpid(), &to));
	ASSERT_EQ(0, read_interrupts(out->interrupts));
	for (int cpu = 0; cpu < HYDRA_MAX_CPUS; cpu++)
		out->interrupts[cpu] -= before[cpu];
	out->flushes = to.flushes - from.flushes;
	out->interrupted = to.cpus_interrupted - from.cpus_interrupted;
	out->spared = to.cpus_spared - from.cpus_spared;
	EXPECT_EQ(0, out->errors);
}

/* The spinners of that node are interrupted by the operations, all others are not */
static void expect_only(struct __test_metadata *_metadata, const struct outcome *out, int node,
			int operations)
{
	for (int i = 0; i < spin.count; i++) {
		const struct spinner *s = &spin.spinners[i];

		if (s->node == node) {
			EXPECT_LE(MOST(operations), out->interrupts[s->cpu])
				TH_LOG("CPU %d of node %d is not interrupted, but has the table",
				       s->cpu, hydra_node_id(s->node));
		} else {
			EXPECT_GE(STRAY, out->interrupts[s->cpu])
				TH_LOG("CPU %d of node %d is interrupted for nothing",
				       s->cpu, hydra_node_id(s->node));
		}
	}
}

#define NOBODY	-1

static const struct {
	const char *name;
	int (*op)(char *);
	bool alone;	/* in a table that is freed with it */
	bool mapped;	/* the area is mapped before and after */
} operations[] = {
	{ "mprotect", op_mprotect, false, true },
	{ "madvise", op_madvise, false, true },
	{ "munmap", op_munmap, false, false },
	{ "munmap with its table", op_munmap, true, false },
	{ "mprotect of four tables", op_mprotect_tables, false, true },
};

static char *area_for(FIXTURE_DATA(shootdown) *self, int i)
{
	if (operations[i].mapped)
		hydra_map(self->area, 4 * TABLE_PAGES);
	return operations[i].alone ? self->alone : self->area;
}

TEST_F_TIMEOUT(shootdown, other_nodes_are_spared, 60)
{
	static struct outcome out;
	int spinners = spin_on_other_nodes();

	for (int i = 0; i < ARRAY_SIZE(operations); i++) {
		count_operations(_metadata, operations[i].op, area_for(self, i), OPERATIONS, &out);
		expect_only(_metadata, &out, NOBODY, OPERATIONS);
		EXPECT_LE(OPERATIONS, out.flushes);
		EXPECT_GE(spinners * STRAY, out.interrupted);
		EXPECT_LE(MOST(OPERATIONS * spinners), out.spared)
			TH_LOG("in %s", operations[i].name);
	}
}

TEST_F_TIMEOUT(shootdown, own_node_is_interrupted, 60)
{
	static struct outcome out;
	int cpus[HYDRA_MAX_CPUS];

	ASSERT_LT(1, hydra_node_cpus(0, cpus))
		TH_LOG("this test needs two CPUs on each node");
	spin_on_other_nodes();
	start_spinner(0, cpus[1]);
	for (int i = 0; i < ARRAY_SIZE(operations); i++) {
		count_operations(_metadata, operations[i].op, area_for(self, i), COSTLY, &out);
		expect_only(_metadata, &out, 0, COSTLY);
		EXPECT_LE(MOST(COSTLY), out.interrupted)
			TH_LOG("in %s", operations[i].name);
	}
}

/* With all replicas and no filter, and on Linux as it was, everybody is */
TEST_F_TIMEOUT(shootdown, no_filter_interrupts_all, 60)
{
	static struct outcome out;
	int spinners = spin_on_other_nodes();

	for (int hydra = 0; hydra < 2; hydra++) {
		ASSERT_EQ(0, hydra ? hydra_on(9, HYDRA_FILTER_NONE) : hydra_off());
		hydra_map(self->area, 4 * TABLE_PAGES);
		count_operations(_metadata, op_mprotect, self->area, COSTLY, &out);
		for (int i = 0; i < spinners; i++) {
			EXPECT_LE(MOST(COSTLY), out.interrupts[spin.spinners[i].cpu])
				TH_LOG("CPU %d, %s", spin.spinners[i].cpu,
				       hydra ? "no filter" : "linux");
		}
		if (hydra) {
			EXPECT_LE(MOST(COSTLY * spinners), out.interrupted);
			/* a spinner that does not run just then need not be told */
			EXPECT_GE(spinners * STRAY, out.spared);
		}
	}
}

/* One node has read the page since: its CPU is interrupted each time and sees the change */
TEST_F_TIMEOUT(shootdown, reader_is_interrupted_and_sees, 60)
{
	static uint64_t before[HYDRA_MAX_CPUS];
	static struct outcome out;
	volatile uint64_t *word = (uint64_t *)self->area;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	for (int node = 1; node < hydra_nodes(); node++) {
		struct spinner *reader = spinner_of(node);

		*word = 1000;
		ASSERT_TRUE(watch(reader, word, 1000));
		ASSERT_EQ(0, read_interrupts(before));
		for (uint64_t i = 1; i <= COSTLY; i++) {
			*word = 1000 + i;
			while (atomic_load(&reader->seen) != 1000 + i)
				usleep(100);
			ASSERT_EQ(0, madvise(self->area, PAGE_SIZE, MADV_DONTNEED));
			atomic_store(&spin.forbidden, 1000 + i);
			while (atomic_load(&reader->seen) != 0)
				usleep(100);
			atomic_store(&spin.forbidden, 0);
		}
		ASSERT_EQ(0, read_interrupts(out.interrupts));
		EXPECT_EQ(0, atomic_load(&reader->stale))
			TH_LOG("CPU %d read the page after it was gone", reader->cpu);
		EXPECT_LE(MOST(COSTLY), out.interrupts[reader->cpu] - before[reader->cpu]);
		/* nobody else of the nodes that have not been readers */
		for (int i = 0; i < spin.count; i++) {
			int cpu = spin.spinners[i].cpu;

			if (spin.spinners[i].node <= node)
				continue;
			EXPECT_GE(STRAY, out.interrupts[cpu] - before[cpu])
				TH_LOG("CPU %d, while node %d reads", cpu, node);
		}
		atomic_store(&reader->watched, NULL);
	}
}

/* From now on nobody may read that value from the word that all spinners watch. */
static void forbid(struct __test_metadata *_metadata, uint64_t value, const char *what)
{
	atomic_store(&spin.forbidden, value);
	for (int i = 0; i < spin.count; i++) {
		struct spinner *s = &spin.spinners[i];

		await_rounds(s);
		ASSERT_EQ(0, atomic_load(&s->stale))
			TH_LOG("CPU %d reads a page %s", s->cpu, what);
		atomic_store(&s->watched, NULL);
	}
	atomic_store(&spin.forbidden, 0);
}

static bool watch_all(const volatile uint64_t *word, uint64_t value)
{
	bool right = true;

	for (int i = 0; i < spin.count; i++)
		right &= watch(&spin.spinners[i], word, value);
	return right;
}

/*
 * Small pages become a huge one while all nodes read: the leaf table is gone from
 * the tree before the flush, which has to reach those who read through it all the
 * same. Each time elsewhere, where no node is known for huge pages yet.
 */
TEST_F_TIMEOUT(shootdown, readers_of_collapsed_pages, 60)
{
	const size_t apart = TABLE_PAGES * TABLE_SIZE;
	char *area = hydra_reserve((COSTLY / 2) * apart);
	const size_t pages = 16;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	spin_on_other_nodes();
	spin.pages = pages;
	for (uint64_t i = 1; i <= COSTLY; i += 2, area += apart) {
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
		forbid(_metadata, i, "that has been collapsed");
	}
}

/* Readers that run all the time while the process is switched on and off */
TEST_F_TIMEOUT(shootdown, readers_while_switched, 60)
{
	volatile uint64_t *word = (uint64_t *)self->area;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	for (uint64_t i = 1; i <= COSTLY; i++) {
		*word = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, i % 2 ? hydra_off() : hydra_on(9, HYDRA_FILTER_TABLE));
		ASSERT_EQ(0, madvise(self->area, PAGE_SIZE, MADV_DONTNEED));
		forbid(_metadata, i, "that was gone before");
	}
}

/*
 * Of a large range the first pages alone are read on all nodes. While the rest is
 * taken down, other calls begin and end: the flush at the end still has to reach
 * the readers.
 */
TEST_F_TIMEOUT(shootdown, readers_of_gathers_that_overlap, 60)
{
	const size_t pages = 16;
	char *start = self->area + TABLE_SIZE - pages * PAGE_SIZE;
	volatile uint64_t *word = (uint64_t *)start;
	size_t size = self->area + 2 * TABLE_SIZE - start;

	spin_on_other_nodes();
	spin.pages = pages;
	hydra_map(self->area, 4 * TABLE_PAGES);
	ASSERT_EQ(0, madvise(self->area, 4 * TABLE_SIZE, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, start_dropper(self->alone));
	for (uint64_t i = 1; i <= COSTLY / 2; i++) {
		for (size_t page = 0; page < size / PAGE_SIZE; page++)
			word[page * PAGE_WORDS] = i;
		ASSERT_TRUE(watch_all(word, i));
		ASSERT_EQ(0, madvise(start, size, MADV_DONTNEED));
		forbid(_metadata, i, "that was dropped before");
	}
	ASSERT_EQ(0, stop_dropper());
}

/*
 * None of them has anything to do with other nodes, so nobody there is to be
 * interrupted, even while each has to flush for the other.
 */
TEST_F_TIMEOUT(shootdown, gathers_that_overlap_spare_other_nodes, 60)
{
	static struct outcome out;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	/*
	 * At first to have what the program itself needs, in tables that other
	 * nodes share: that is noted until no call is under way.
	 */
	for (int operations = COSTLY; operations <= MANY; operations += MANY - COSTLY) {
		ASSERT_EQ(0, start_dropper(self->alone));
		count_operations(_metadata, op_madvise, self->area, operations, &out);
		ASSERT_EQ(0, stop_dropper());
	}
	expect_only(_metadata, &out, NOBODY, MANY);
}

/* On every node one that drops pages that no other node has anything to do with */
TEST_F_TIMEOUT(shootdown, gathers_on_all_nodes_spare_each_other, 60)
{
	size_t tables = hydra_nodes();
	char *pages = hydra_reserve(tables * TABLE_SIZE);
	int cpus[HYDRA_MAX_CPUS];
	static struct outcome out;

	hydra_map(pages, tables * TABLE_PAGES);
	ASSERT_EQ(0, madvise(pages, tables * TABLE_SIZE, MADV_NOHUGEPAGE));
	/* One: a second on the same node would be interrupted, as it has to be. */
	for (int node = 1; node < hydra_nodes(); node++) {
		hydra_node_cpus(node, cpus);
		start_spinner(node, cpus[0]);
		atomic_store(&spinner_of(node)->dropped, pages + node * TABLE_SIZE);
		await_rounds(spinner_of(node));
	}
	for (int operations = COSTLY; operations <= MANY; operations += MANY - COSTLY)
		count_operations(_metadata, op_madvise, pages, operations, &out);
	expect_only(_metadata, &out, NOBODY, MANY);
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

/*
 * Of two tables that another thread drops, all nodes read the first pages. Who
 * finds these gone, or a new page where they were part of a huge one, must not
 * wait for the other thread to flush.
 */
static void drop_what_another_drops(struct __test_metadata *_metadata, char *area, bool huge)
{
	volatile uint64_t *word = (uint64_t *)area;
	const size_t pages = 16;
	pthread_t other;

	spin_on_other_nodes();
	spin.pages = pages;
	drop.start = area;
	drop.size = 3 * TABLE_SIZE;
	for (uint64_t i = 1; i <= COSTLY; i++) {
		hydra_map(area, 4 * TABLE_PAGES);
		ASSERT_EQ(0, madvise(area, 4 * TABLE_SIZE, MADV_NOHUGEPAGE));
		for (size_t page = 0; page < 3 * TABLE_PAGES; page++)
			word[page * PAGE_WORDS] = i;
		if (huge) {
			ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_HUGEPAGE));
			ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_COLLAPSE));
			ASSERT_EQ(0, madvise(area, 4 * TABLE_SIZE, MADV_NOHUGEPAGE));
		}
		ASSERT_TRUE(watch_all(word, i));
		atomic_store(&drop.begun, false);
		ASSERT_EQ(0, pthread_create(&other, NULL, drop_range, NULL));
		while (!atomic_load(&drop.begun))
			;
		/* sooner or later */
		usleep(i % 8 * 200);
		if (huge)
			word[(TABLE_PAGES - 1) * PAGE_WORDS] = i;
		ASSERT_EQ(0, madvise(area, huge ? TABLE_SIZE : pages * PAGE_SIZE, MADV_DONTNEED));
		forbid(_metadata, i, "that is gone, whoever dropped it");
		ASSERT_EQ(0, pthread_join(other, NULL));
	}
}

TEST_F_TIMEOUT(shootdown, readers_of_pages_that_another_drops, 300)
{
	drop_what_another_drops(_metadata, self->area, false);
}

TEST_F_TIMEOUT(shootdown, readers_of_a_huge_page_that_another_drops, 300)
{
	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	drop_what_another_drops(_metadata, self->area, true);
}

static struct {
	sem_t wanted;
	atomic_bool begun, stop;
} hog;

/* Takes the CPU away from the thread in drop_range(), for a moment */
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

/* How many of some pages were written since they were write-protected; may do so again */
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
 * Another thread drops a huge page of a file, which another node writes to. Before
 * it has flushed, this one maps pages of it again and write-protects them, so as to
 * be told of writes. It has to be told of those through the huge page's entry.
 */
TEST_F_TIMEOUT(shootdown, writer_of_a_huge_page_that_another_drops, 300)
{
	/* So many that dropping them takes longer than waking the hog */
	const size_t tables = 16, size = tables * TABLE_SIZE;
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
		ASSERT_EQ(area, mmap(area, size, PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_FIXED, file, 0));
		for (size_t page = 0; page < TABLE_PAGES; page++)
			word[page * PAGE_WORDS] = 1;
		ASSERT_EQ(0, madvise(area, TABLE_SIZE, MADV_COLLAPSE));
		*word = 1;
		ASSERT_EQ(0, madvise(area, size, MADV_NOHUGEPAGE));
		ASSERT_EQ(0, ioctl(userfault_fd, UFFDIO_REGISTER, &reg));
		/* Clean, now that writes fault: they are dropped with one flush. */
		ASSERT_EQ(0, madvise(area + TABLE_SIZE, size - TABLE_SIZE, MADV_POPULATE_READ));
		/* The collapse has left a flush to whoever drops small pages next. */
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
		/* Not by a write of our own, which needs no fault yet either */
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
		ASSERT_EQ(0, pthread_join(other, NULL));
		atomic_store(&writer->written, NULL);
		await_rounds(writer);
		close(file);
	}
	/* Else it had flushed already, and nothing was shown. */
	EXPECT_LT(0, met);
	close(pagemap);
	close(userfault_fd);
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
 * While a huge page that all nodes read is moved away, it is dropped together with
 * a page that only this node has. Who drops finds the huge page gone: that does
 * not mean that those who read it have been flushed.
 */
TEST_F_TIMEOUT(shootdown, readers_of_a_huge_page_that_moves, 60)
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
	for (uint64_t i = 1; i <= COSTLY; i++) {
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
		forbid(_metadata, i, "that is gone, whoever took it away");
		ASSERT_EQ(0, pthread_join(mover, NULL));
		ASSERT_TRUE(!move.error || move.error == ENOENT || move.error == EBUSY ||
			    move.error == EAGAIN)
			TH_LOG("UFFDIO_MOVE: %s", strerror(move.error));
		moved += !move.error;
	}
	EXPECT_LT(0, moved);
	close(move.userfault_fd);
}

/* A range over four tables, one of which another node has read too */
TEST_F_TIMEOUT(shootdown, reader_of_one_of_several_tables, 60)
{
	static struct outcome out;

	spin_on_other_nodes();
	for (int node = 1; node < hydra_nodes(); node++) {
		volatile uint64_t *word;

		/* fresh tables: the last reader has no part in them */
		self->area = hydra_reserve(4 * TABLE_SIZE);
		hydra_map(self->area, 4 * TABLE_PAGES);
		ASSERT_EQ(0, op_mprotect_tables(self->area));
		word = (uint64_t *)(self->area + 2 * TABLE_SIZE);
		*word = 5;
		for (int i = 0; i < spin.count; i++)
			if (spin.spinners[i].node == node)
				ASSERT_TRUE(watch(&spin.spinners[i], word, 5));
		count_operations(_metadata, op_mprotect_tables, self->area, COSTLY, &out);
		expect_only(_metadata, &out, node, COSTLY);
		/* the other tables alone */
		count_operations(_metadata, op_mprotect, self->area + PAGE_SIZE, COSTLY, &out);
		expect_only(_metadata, &out, NOBODY, COSTLY);
		count_operations(_metadata, op_mprotect,
				 self->area + 3 * TABLE_SIZE + PAGE_SIZE, COSTLY, &out);
		expect_only(_metadata, &out, NOBODY, COSTLY);
		for (int i = 0; i < spin.count; i++)
			atomic_store(&spin.spinners[i].watched, NULL);
	}
}

/*
 * A CPU that was spared has nothing to catch up with: when its turn comes, for
 * one page, it flushes that page and not all it has. The tracepoint tlb:tlb_flush
 * tells how many pages a flush is of, -1 for all.
 */
#define TRACEFS		"/sys/kernel/tracing"
#define INSTANCE	TRACEFS "/instances/hydra-shootdown"
#define EVENT		"/events/tlb/tlb_flush"
#define BY_INTERRUPT	"reason == 1"

static void count_flushes(int cpu, int *flushes, int *whole)
{
	char path[128], line[512], *pages;
	FILE *f;

	*flushes = *whole = 0;
	snprintf(path, sizeof(path), INSTANCE "/per_cpu/cpu%d/trace", cpu);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		pages = strstr(line, "tlb_flush: pages:");
		if (!pages)
			continue;
		++*flushes;
		*whole += atol(pages + strlen("tlb_flush: pages:")) < 0;
	}
	if (f)
		fclose(f);
}

TEST_F_TIMEOUT(shootdown, spared_cpu_has_nothing_to_catch_up_with, 60)
{
	int cpus[HYDRA_MAX_CPUS], flushes, whole;
	char *shared = self->area + 2 * TABLE_SIZE;

	if (access(TRACEFS "/events", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	if (access(TRACEFS EVENT, F_OK))
		SKIP(return, "no tracepoint tlb:tlb_flush (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_TRUE(!mkdir(INSTANCE, 0700) || errno == EEXIST);
	ASSERT_EQ(0, hydra_write_file(INSTANCE EVENT "/filter", BY_INTERRUPT));

	hydra_node_cpus(1, cpus);
	start_spinner(1, cpus[0]);
	hydra_map(self->area, 4 * TABLE_PAGES);
	EXPECT_EQ(0, op_mprotect(self->area));
	*(volatile uint64_t *)shared = 5;
	ASSERT_TRUE(watch(&spin.spinners[0], (uint64_t *)shared, 5));

	ASSERT_EQ(0, hydra_write_file(INSTANCE EVENT "/enable", "1"));
	for (int i = 0; i < COSTLY; i++) {
		/* these spare it, this one does not */
		for (int j = 0; j < 5; j++) {
			EXPECT_EQ(0, op_mprotect(self->area));
		}
		EXPECT_EQ(0, op_mprotect(shared));
		ASSERT_TRUE(watch(&spin.spinners[0], (uint64_t *)shared,
				  *(volatile uint64_t *)shared));
	}
	ASSERT_EQ(0, hydra_write_file(INSTANCE EVENT "/enable", "0"));
	count_flushes(cpus[0], &flushes, &whole);
	EXPECT_EQ(0, rmdir(INSTANCE));

	EXPECT_LE(MOST(COSTLY), flushes);
	EXPECT_GE(2 * COSTLY + STRAY, flushes);
	EXPECT_GE(STRAY, whole)
		TH_LOG("CPU %d flushed all it had in %d of %d flushes of one page", cpus[0],
		       whole, flushes);
}

HYDRA_HARNESS_MAIN
