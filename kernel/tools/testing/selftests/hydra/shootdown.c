// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which CPUs a TLB shootdown interrupts: all CPUs of the nodes that share a leaf table of
 * the range, and no CPU of another node. Linux counts the interrupts: the line "TLB" of
 * /proc/interrupts.
 */
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define OPERATIONS	100	/* that must interrupt no CPU */
#define COSTLY		20	/* that must interrupt at least one CPU */
#define BATCH		10	/* before each batch, all spinners run */
#define MANY		300	/* of which two must meet */

FIXTURE(shootdown) {
	char *area;	/* four leaf tables */
	char *alone;	/* one page, alone in a leaf table */
};

FIXTURE_SETUP(shootdown)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(shootdown)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
}

/* Operations: each changes entries that the TLB of the calling CPU holds */

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
	/* first without counting: allocates tables, fills the program's own pages */
	for (int i = 0; i < 3; i++)
		out->errors += op(area) != 0;
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	ASSERT_EQ(0, read_interrupts(before));
	ASSERT_EQ(0, read_interrupts(before));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	for (int i = 0; i < operations; i++) {
		/*
		 * A spinner whose CPU runs another process is neither interrupted nor spared.
		 * On a busy host, that may last longer than all operations.
		 */
		if (operations <= COSTLY || i % BATCH == 0)
			await_all();
		out->errors += op(area) != 0;
	}
	ASSERT_EQ(0, hydra_read_stats(getpid(), &to));
	ASSERT_EQ(0, read_interrupts(out->interrupts));
	for (int cpu = 0; cpu < HYDRA_MAX_CPUS; cpu++)
		out->interrupts[cpu] -= before[cpu];
	out->flushes = to.flushes - from.flushes;
	out->interrupted = to.cpus_interrupted - from.cpus_interrupted;
	out->spared = to.cpus_spared - from.cpus_spared;
	EXPECT_EQ(0, out->errors);
}

/* The operations have interrupted the spinners of one node, and of no other node. */
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

#define NO_NODE	-1

static const struct {
	const char *name;
	int (*op)(char *);
	bool alone;	/* alone in a leaf table, which munmap() frees */
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
		expect_only(_metadata, &out, NO_NODE, OPERATIONS);
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

/* Without the filter, and on Linux without Hydra, the spinners of all nodes are interrupted. */
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
			EXPECT_EQ(0, out.spared);
		}
	}
}

/*
 * A node reads a page. Each change of the page interrupts the node's CPU, which then sees
 * the change.
 */
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
		/* The CPUs of nodes that have not read the page yet are not interrupted. */
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

/*
 * Two threads of node 0 drop pages of a table that no other node uses. While the gathers overlap,
 * each thread also flushes for the other thread, and still interrupts no other node.
 */
TEST_F_TIMEOUT(shootdown, gathers_that_overlap_spare_other_nodes, 60)
{
	static struct outcome out;

	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	/*
	 * The first turn is not counted: the program faults its own pages in, in tables
	 * that other nodes share, and the gathers record the sharers.
	 */
	for (int operations = COSTLY; operations <= MANY; operations += MANY - COSTLY) {
		ASSERT_EQ(0, start_dropper(self->area + PAGE_SIZE));
		count_operations(_metadata, op_madvise, self->area, operations, &out);
		ASSERT_EQ(0, stop_dropper());
	}
	expect_only(_metadata, &out, NO_NODE, MANY);
}

#define UNPLACED	5UL		/* tables: more than are announced by place */

static int op_madvise_many(char *area)
{
	*(volatile uint64_t *)area = 1;
	return madvise(area, UNPLACED * TABLE_SIZE, MADV_DONTNEED);
}

/*
 * A thread on every node drops pages that no other node uses, and that of node 0 so many that the
 * others have to look at its range.
 */
TEST_F_TIMEOUT(shootdown, gathers_on_all_nodes_spare_each_other, 60)
{
	size_t tables = UNPLACED + hydra_nodes();
	char *pages = hydra_reserve(tables * TABLE_SIZE);
	int cpus[HYDRA_MAX_CPUS];
	static struct outcome out;

	hydra_map(pages, tables * TABLE_PAGES);
	ASSERT_EQ(0, madvise(pages, tables * TABLE_SIZE, MADV_NOHUGEPAGE));
	/*
	 * One spinner on each node: the flushes must interrupt a second spinner of the
	 * same node.
	 */
	for (int node = 1; node < hydra_nodes(); node++) {
		hydra_node_cpus(node, cpus);
		start_spinner(node, cpus[0]);
		atomic_store(&spinner_of(node)->dropped,
			     pages + (UNPLACED + node) * TABLE_SIZE);
		await_rounds(spinner_of(node));
	}
	for (int operations = COSTLY; operations <= MANY; operations += MANY - COSTLY)
		count_operations(_metadata, op_madvise_many, pages, operations, &out);
	expect_only(_metadata, &out, NO_NODE, MANY);
}

/* A range over four tables, one of which another node reads */
TEST_F_TIMEOUT(shootdown, reader_of_one_of_several_tables, 60)
{
	static struct outcome out;

	spin_on_other_nodes();
	for (int node = 1; node < hydra_nodes(); node++) {
		volatile uint64_t *word;

		/* fresh tables: the last reader shares none */
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
		expect_only(_metadata, &out, NO_NODE, COSTLY);
		count_operations(_metadata, op_mprotect,
				 self->area + 3 * TABLE_SIZE + PAGE_SIZE, COSTLY, &out);
		expect_only(_metadata, &out, NO_NODE, COSTLY);
		for (int i = 0; i < spin.count; i++)
			atomic_store(&spin.spinners[i].watched, NULL);
	}
}

#define TRACEFS		"/sys/kernel/tracing"
#define INSTANCE	TRACEFS "/instances/hydra-shootdown"
#define WHOLE		"/events/hydra/hydra_flush"

static struct {
	char *area;
	size_t size;
	atomic_bool stop;
	atomic_ulong rounds;
} beside;

static void *drop_beside(void *arg)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	while (!atomic_load(&beside.stop)) {
		*(volatile uint64_t *)beside.area = 1;
		if (madvise(beside.area, beside.size, MADV_DONTNEED))
			abort();
		atomic_fetch_add(&beside.rounds, 1);
	}
	return NULL;
}

/*
 * Of MANY drops of a page, how many flush everything, while a thread of the same node drops other
 * memory? The tracepoint hydra:hydra_flush has the range of a flush; the last address: everything.
 */
static int count_whole_beside(struct __test_metadata *_metadata, char *page, char *area,
			      size_t size)
{
	char line[512];
	pthread_t other;
	int whole = 0;
	FILE *f;

	beside.area = area;
	beside.size = size;
	atomic_store(&beside.stop, false);
	atomic_store(&beside.rounds, 0);
	EXPECT_EQ(0, pthread_create(&other, NULL, drop_beside, NULL));
	while (!atomic_load(&beside.rounds))
		usleep(100);
	close(open(INSTANCE "/trace", O_WRONLY | O_TRUNC));
	EXPECT_EQ(0, hydra_write_file(INSTANCE WHOLE "/enable", "1"));
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(0, op_madvise(page));
	EXPECT_EQ(0, hydra_write_file(INSTANCE WHOLE "/enable", "0"));
	atomic_store(&beside.stop, true);
	EXPECT_EQ(0, pthread_join(other, NULL));
	f = fopen(INSTANCE "/trace", "r");
	while (f && fgets(line, sizeof(line), f))
		whole += strstr(line, "hydra_flush: ") != NULL;
	if (f)
		fclose(f);
	return whole;
}

/*
 * Two threads of a node drop pages of tables of their own: each flushes its page, and no more. If
 * they drop pages of one table, or if one drops more than is announced by place, and they meet,
 * each flushes all that it may have skipped.
 */
TEST_F_TIMEOUT(shootdown, drops_elsewhere_flush_no_more, 120)
{
	char *area = hydra_reserve(16 * TABLE_SIZE), filter[96];
	int cpus[HYDRA_MAX_CPUS], whole;

	if (hydra_node_cpus(0, cpus) < 2)
		SKIP(return, "the first node has but one CPU");
	if (access(TRACEFS "/events", F_OK))
		mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	if (access(TRACEFS WHOLE, F_OK))
		SKIP(return, "no tracepoint hydra:hydra_flush (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_TRUE(!mkdir(INSTANCE, 0700) || errno == EEXIST);
	snprintf(filter, sizeof(filter), "common_pid == %d && end == 0x%lx", getpid(), -1UL);
	ASSERT_EQ(0, hydra_write_file(INSTANCE WHOLE "/filter", filter));
	hydra_map(area, 16 * TABLE_PAGES);
	ASSERT_EQ(0, madvise(area, 16 * TABLE_SIZE, MADV_NOHUGEPAGE));
	op_madvise(area);

	whole = count_whole_beside(_metadata, area, area + TABLE_SIZE, PAGE_SIZE);
	EXPECT_EQ(0, whole)
		TH_LOG("%d of %d drops flush everything, for drops elsewhere", whole, MANY);
	whole = count_whole_beside(_metadata, area, area + PAGE_SIZE, PAGE_SIZE);
	EXPECT_LT(0, whole)
		TH_LOG("no drop flushes everything, for drops in the same table");
	whole = count_whole_beside(_metadata, area, area + 2 * TABLE_SIZE, 14 * TABLE_SIZE);
	EXPECT_LT(0, whole)
		TH_LOG("no drop flushes everything, for drops of many tables");
	EXPECT_EQ(0, rmdir(INSTANCE));
}

/*
 * Some flushes spare a CPU. When a later flush of one page reaches the spared CPU, the
 * CPU flushes the page alone, not the whole TLB. The tracepoint tlb:tlb_flush has the
 * number of pages that a CPU flushes; -1: all.
 */
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
		/* Five flushes spare the CPU, the sixth one does not. */
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

/*
 * mprotect() interrupts the sharers alone, so a program cannot use mprotect() as a
 * barrier for all threads. membarrier() still is a barrier.
 */
TEST_F_TIMEOUT(shootdown, membarrier_reaches_all_threads, 60)
{
	static uint64_t before[HYDRA_MAX_CPUS], after[HYDRA_MAX_CPUS];
	int spinners = spin_on_other_nodes();

	ASSERT_EQ(0, syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
	await_all();
	ASSERT_EQ(0, read_calls(before));
	for (int i = 0; i < COSTLY; i++) {
		ASSERT_EQ(0, syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
		await_all();
	}
	ASSERT_EQ(0, read_calls(after));
	for (int i = 0; i < spinners; i++) {
		int cpu = spin.spinners[i].cpu;

		EXPECT_LE(MOST(COSTLY), after[cpu] - before[cpu])
			TH_LOG("CPU %d", cpu);
	}
}

/*
 * A child on one node switches Hydra on and off. The test has Hydra on, so the kernel
 * does not patch text, on all CPUs, for the child.
 */
TEST_F_TIMEOUT(shootdown, switching_interrupts_no_other_node, 60)
{
	static uint64_t before[HYDRA_MAX_CPUS], after[HYDRA_MAX_CPUS];
	int cpus[HYDRA_MAX_CPUS];
	pid_t child;

	ASSERT_EQ(0, read_calls(before));
	child = fork();
	if (!child) {
		for (int i = 0; i < COSTLY; i++)
			if (hydra_off() || hydra_on(9, HYDRA_FILTER_TABLE))
				_exit(1);
		_exit(0);
	}
	EXPECT_EQ(0, hydra_wait_child(child));
	ASSERT_EQ(0, read_calls(after));
	for (int node = 1; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = 0; i < count; i++) {
			EXPECT_GE(COSTLY / 2, after[cpus[i]] - before[cpus[i]])
				TH_LOG("CPU %d, for switching on and off %d times", cpus[i],
				       COSTLY);
		}
	}
}

HYDRA_HARNESS_MAIN
