// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains leave leaf tables that they no longer use: after some flushes, or some time. The
 * tracepoint hydra_forget tells of which table. Spinners keep every translation until a flush.
 */
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define INSTANCE	HYDRA_TRACEFS "/instances/hydra-forget"
#define LONG		(24 * 60 * 60)	/* seconds: no look for want of use */
#define LOOK_SECONDS	0.1	/* from a flush to the look at its rent */
#define TIMEOUT_S	40	/* seconds until something has been forgotten */
#define PAGES		TABLE_PAGES
#define OPERATIONS	20	/* that must interrupt no CPU */
#define SEED		0x5eed

FIXTURE(forget) {
	char *area;	/* four leaf tables */
	char *alone;
};

FIXTURE_SETUP(forget)
{
	HYDRA_BEGIN();
	if (!hydra_has_tracefs())
		SKIP(return, "no " HYDRA_TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	ASSERT_EQ(0, hydra_trace(INSTANCE, "hydra_forget", "1"));
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(forget)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
	hydra_stop_workers();
	EXPECT_EQ(0, hydra_forget_after(0));
	EXPECT_EQ(0, hydra_trace(INSTANCE, "hydra_forget", "0"));
}

/* How often has a node left the table of an address? Negative: it cannot be told. */
static int times_forgotten(const void *addr, int node)
{
	unsigned long base, wanted = (uintptr_t)addr / TABLE_SIZE * TABLE_SIZE;
	const struct hydra_domain_stats *here;
	struct hydra_stats stats;
	char line[512], *event;
	int domain, times = 0;
	FILE *f;

	if (hydra_read_stats(getpid(), &stats))
		return -1;
	here = hydra_on_node(&stats, node);
	f = fopen(INSTANCE "/trace", "r");
	if (!here || !f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		event = strstr(line, "hydra_forget: ");
		if (event && sscanf(event, "hydra_forget: mm=%*u base=0x%lx domain=%d", &base,
				    &domain) == 2)
			times += base == wanted && domain == here->domain;
	}
	fclose(f);
	return times;
}

static int times_forgotten_by_others(const void *addr)
{
	int times = 0;

	for (int node = 1; node < hydra_nodes(); node++)
		times += times_forgotten(addr, node);
	return times;
}

static bool forgotten_by_all_others(const void *addr)
{
	for (int node = 1; node < hydra_nodes(); node++)
		if (times_forgotten(addr, node) <= 0)
			return false;
	return true;
}

/* Change the permission of a page of node 0, twice. */
static int flush(char *page)
{
	int err = mprotect(page, PAGE_SIZE, PROT_READ);

	return err | mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE);
}

/* Wait until all other nodes have left a table. @flushed: flush it meanwhile */
static bool await_forgotten(char *addr, bool flushed)
{
	double end = hydra_seconds() + TIMEOUT_S;

	while (!forgotten_by_all_others(addr)) {
		if (hydra_seconds() > end || (flushed && flush(addr)))
			return false;
		usleep(20000);
	}
	return true;
}

/* Memory of node 0, which the spinners of all other nodes read once. */
static void share(struct __test_metadata *_metadata, char *table, uint64_t value)
{
	ASSERT_NE(NULL, hydra_map(table, PAGES));
	*(volatile uint64_t *)table = value;
	ASSERT_TRUE(watch_all((uint64_t *)table, value));
}

/* Drop memory, and write its first page again: each spinner must read the new page. */
static void expect_renewed(struct __test_metadata *_metadata, char *addr, size_t size,
			   uint64_t value)
{
	const struct spinner *stale;

	ASSERT_EQ(0, madvise(addr, size, MADV_DONTNEED));
	*(volatile uint64_t *)addr = value;
	stale = require_value(value);
	EXPECT_EQ(NULL, stale)
		TH_LOG("CPU %d of node %d reads a page that was dropped", stale->cpu,
		       hydra_node_id(stale->node));
}

/* A process that one node alone runs has no domains. This thread uses no memory of the test. */
static void keep_split(void)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_node_cpus(1, cpus);
	start_spinner(1, cpus[0]);
}

static void stop_watching(void)
{
	for (int i = 0; i < spin.count; i++)
		atomic_store(&spin.spinners[i].watched, NULL);
	await_all();
}

/* Flushes of a table cost its other sharers interrupts, until they have left it. */
TEST_F_TIMEOUT(forget, table_that_is_flushed_interrupts_only_its_user, 180)
{
	static uint64_t before[HYDRA_MAX_CPUS], after[HYDRA_MAX_CPUS];
	char *flushed = self->area, *quiet = self->area + TABLE_SIZE;
	struct hydra_stats from, to;

	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_LT(0, spin_on_other_nodes());
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	share(_metadata, quiet, SEED);
	share(_metadata, flushed, SEED);
	stop_watching();
	ASSERT_TRUE(await_forgotten(flushed, true));
	ASSERT_EQ(0, read_interrupts(before));
	for (int i = 0; i < OPERATIONS; i++) {
		await_all();
		ASSERT_EQ(0, flush(flushed));
	}
	ASSERT_EQ(0, read_interrupts(after));
	for (int i = 0; i < spin.count; i++) {
		const struct spinner *s = &spin.spinners[i];

		EXPECT_GE(STRAY, after[s->cpu] - before[s->cpu])
			TH_LOG("CPU %d is interrupted for a table that it has left", s->cpu);
	}
	/* Each table has its own rent. */
	EXPECT_EQ(0, times_forgotten_by_others(quiet));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &to));
	EXPECT_LE(hydra_nodes() - 1, to.forgotten - from.forgotten);
}

/* Without flushes, a table of domains whose CPUs are idle is given back after a time. */
TEST_F_TIMEOUT(forget, idle_domains_give_tables_back, 180)
{
	struct hydra_tables before, after;

	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_NE(NULL, hydra_map(self->area, PAGES));
	hydra_write_pages(0, self->area, PAGES, SEED);
	PROBE_ALL(self->area, PAGES, HYDRA_READABLE, SEED);
	keep_split();
	ASSERT_EQ(0, hydra_read_tables(getpid(), &before));
	ASSERT_EQ(0, hydra_forget_after(1));
	ASSERT_TRUE(await_forgotten(self->area, false));
	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_EQ(0, hydra_read_tables(getpid(), &after));
	for (int node = 1; node < hydra_nodes(); node++) {
		EXPECT_GT(before.local_leaves[node], after.local_leaves[node] + PAGES / 2)
			TH_LOG("node %d reaches %lu entries, before %lu", hydra_node_id(node),
			       after.local_leaves[node], before.local_leaves[node]);
	}
	/* What one node writes the next one reads. */
	PROBE_ALL(self->area, PAGES, HYDRA_READ_WRITE, SEED);
}

/* The node that a table is on may leave it, too, and comes back to it. */
TEST_F_TIMEOUT(forget, owner_leaves_its_table, 180)
{
	double end = hydra_seconds() + TIMEOUT_S;
	struct hydra_stats from, to;

	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_LT(0, spin_on_other_nodes());
	share(_metadata, self->area, SEED);
	while (times_forgotten(self->area, 0) <= 0) {
		ASSERT_GT(end, hydra_seconds());
		ASSERT_EQ(0, flush(self->area));
		await_all();
	}
	EXPECT_EQ(NULL, require_value(SEED));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	EXPECT_EQ(SEED, *(volatile uint64_t *)self->area);
	*(volatile uint64_t *)self->area = SEED + 1;
	EXPECT_TRUE(watch_all((uint64_t *)self->area, SEED + 1));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &to));
	/* Its table is there: it needs no copy. */
	EXPECT_EQ(hydra_on_node(&from, 0)->replica_tables, hydra_on_node(&to, 0)->replica_tables);
}

/*
 * Domains that walk the table after each flush stay. The host may let all CPUs of a node
 * stand still for longer than a look waits: then the node leaves, and comes back.
 */
TEST_F_TIMEOUT(forget, domain_that_uses_a_table_stays, 180)
{
	double from, end = hydra_seconds() + 10;
	int slow = 0;

	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_LT(0, spin_on_other_nodes());
	share(_metadata, self->area, SEED);
	do {
		from = hydra_seconds();
		ASSERT_EQ(0, flush(self->area));
		await_all();
		EXPECT_EQ(SEED, *(volatile uint64_t *)self->area);
		slow += hydra_seconds() - from > LOOK_SECONDS / 2;
		usleep(1000);
	} while (from < end);
	EXPECT_EQ(NULL, require_value(SEED));
	for (int node = 0; node < hydra_nodes(); node++) {
		EXPECT_GE(STRAY + slow, times_forgotten(self->area, node))
			TH_LOG("node %d, %d turns were slow", hydra_node_id(node), slow);
	}
}

/* When a domain has left the sharers, no CPU of the domain may use an old translation. */
TEST_F_TIMEOUT(forget, nothing_stale_is_left, 180)
{
	ASSERT_EQ(0, hydra_forget_after(1));
	ASSERT_LT(0, spin_on_other_nodes());
	for (int i = 0; i < 3; i++) {
		char *table = self->area + i * TABLE_SIZE;

		share(_metadata, table, SEED);
		/* As where each entry of the kernel empties the TLB: page-table isolation */
		if (!await_forgotten(table, false))
			SKIP(return, "the CPUs do not keep translations");
		expect_renewed(_metadata, table, PAGE_SIZE, SEED + 1);
	}
}

/*
 * A CPU that has the translation in its TLB does not walk the table, and the link looks unused.
 * A flush must reach the CPU all the same.
 */
TEST_F_TIMEOUT(forget, flush_reaches_a_domain_that_has_not_walked_its_table, 180)
{
	/* Looks each second: the first finds the use, the fourth lets the domain leave. */
	ASSERT_EQ(0, hydra_forget_after(4));
	ASSERT_LT(0, spin_on_other_nodes());
	for (int i = 0; i < 3; i++) {
		share(_metadata, self->area, SEED + i);
		usleep(2500000);
		expect_renewed(_metadata, self->area, PAGE_SIZE, SEED + 100);
	}
}

/*
 * madvise() of many tables clears the entries of the first one long before it flushes. In
 * between the readers of the first table may leave it.
 */
TEST_F_TIMEOUT(forget, pages_dropped_are_gone_while_their_readers_are_forgotten, 300)
{
	const size_t tables = 8;
	char *many = hydra_reserve(tables * TABLE_SIZE);

	ASSERT_EQ(0, hydra_forget_after(1));
	ASSERT_LT(0, spin_on_other_nodes());
	for (int i = 0; i < 8; i++) {
		ASSERT_NE(NULL, hydra_map(many, tables * PAGES));
		for (size_t page = 0; page < tables * PAGES; page++)
			*(volatile uint64_t *)(many + page * PAGE_SIZE) = SEED + i;
		ASSERT_TRUE(watch_all((uint64_t *)many, SEED + i));
		/* Between three and four looks */
		usleep(700000 + i % 8 * 40000);
		expect_renewed(_metadata, many, tables * TABLE_SIZE, SEED + 100);
	}
}

TEST_F_TIMEOUT(forget, nothing_is_forgotten_when_switched_off, 60)
{
	char text[32];

	EXPECT_EQ(-EINVAL, hydra_write_file(HYDRA_SYSFS "idle_seconds", "-1"));
	EXPECT_EQ(-EINVAL, hydra_write_file(HYDRA_SYSFS "idle_seconds", "86401"));
	ASSERT_EQ(0, hydra_forget_after(0));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "idle_seconds", text, sizeof(text)));
	EXPECT_STREQ("0\n", text);
	ASSERT_LT(0, spin_on_other_nodes());
	share(_metadata, self->area, SEED);
	stop_watching();
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, flush(self->area));
		usleep(20000);
	}
	EXPECT_EQ(0, times_forgotten_by_others(self->area));
	/* What has been shared meanwhile is forgotten from now on. */
	ASSERT_EQ(0, hydra_forget_after(LONG));
	EXPECT_TRUE(await_forgotten(self->area, true));
}

/* A process that has locked memory wants no faults. */
TEST_F_TIMEOUT(forget, nothing_is_forgotten_while_memory_is_locked, 120)
{
	ASSERT_EQ(0, hydra_forget_after(LONG));
	ASSERT_LT(0, spin_on_other_nodes());
	share(_metadata, self->area, SEED);
	stop_watching();
	ASSERT_NE(NULL, hydra_map(self->alone, 1));
	ASSERT_EQ(0, mlock(self->alone, PAGE_SIZE));
	for (int i = 0; i < 100; i++) {
		ASSERT_EQ(0, flush(self->area));
		usleep(20000);
	}
	EXPECT_EQ(0, times_forgotten_by_others(self->area));
	ASSERT_EQ(0, munlock(self->alone, PAGE_SIZE));
	/* Look now. */
	ASSERT_EQ(0, hydra_forget_after(LONG));
	EXPECT_TRUE(await_forgotten(self->area, true));
}

/* Under replication "eager" each node keeps each table, until the setting changes. */
TEST_F_TIMEOUT(forget, eager_domains_stay, 120)
{
	struct hydra_settings settings = {
		.domains = HYDRA_SCOPE_NODE,
		.replication = HYDRA_REPLICATE_EAGER,
		.prefetch = 9,
		.filter = HYDRA_FILTER_TABLE,
	};
	struct hydra_stats from, to;

	ASSERT_EQ(0, hydra_set(&settings));
	ASSERT_EQ(0, hydra_forget_after(1));
	ASSERT_NE(NULL, hydra_map(self->area, PAGES));
	hydra_write_pages(0, self->area, PAGES, SEED);
	PROBE_ALL(self->area, PAGES, HYDRA_READABLE, SEED);
	keep_split();
	ASSERT_EQ(0, hydra_read_stats(getpid(), &from));
	for (int i = 0; i < 200; i++) {
		ASSERT_EQ(0, flush(self->area));
		usleep(20000);
	}
	ASSERT_EQ(0, hydra_read_stats(getpid(), &to));
	EXPECT_EQ(from.forgotten, to.forgotten);
	settings.replication = HYDRA_REPLICATE_LAZY;
	ASSERT_EQ(0, hydra_set(&settings));
	EXPECT_TRUE(await_forgotten(self->area, true));
}

HYDRA_HARNESS_MAIN
