// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shrinker frees replicas, in these tests not for lack of memory but by
 * /proc/sys/vm/drop_caches. The threads of all nodes run, so that the CPUs keep every
 * translation until a flush.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define PAGES	64UL
#define TABLES	3UL
#define SEED	0x5eed
#define REPAID	1000	/* flushes at most, until CPUs count as spared again */
#define TIMEOUT_S 120	/* seconds until a test is taken for hung: the threads never sleep */

FIXTURE(reclaim) {
	char *area;
	struct hydra_stats before;
};

static void drop_replicas(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "2"));
}

FIXTURE_SETUP(reclaim)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	hydra_start_workers(HYDRA_SPIN);
	self->area = hydra_reserve(TABLES * TABLE_SIZE);
	for (size_t i = 0; i < TABLES; i++) {
		ASSERT_NE(NULL, hydra_map(self->area + i * TABLE_SIZE, PAGES));
		hydra_write_pages(0, self->area + i * TABLE_SIZE, PAGES, SEED + i);
		PROBE_ALL(self->area + i * TABLE_SIZE, PAGES, HYDRA_READABLE, SEED + i);
	}
	ASSERT_EQ(0, hydra_read_stats(getpid(), &self->before));
	ASSERT_LE(TABLES * (hydra_nodes() - 1), self->before.replica_tables);
}

FIXTURE_TEARDOWN(reclaim)
{
	hydra_assert_consistent();
	hydra_stop_workers();
}

TEST_F_TIMEOUT(reclaim, tables_are_given_back, TIMEOUT_S)
{
	struct hydra_stats after;

	drop_replicas(_metadata);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	/* A running thread faults on stack and code again at once. */
	EXPECT_LE(TABLES * (hydra_nodes() - 1), after.reclaimed);
	EXPECT_GE(self->before.replica_tables, after.replica_tables);
	EXPECT_EQ(self->before.active, after.active);
	for (size_t i = 0; i < TABLES; i++)
		PROBE_ALL(self->area + i * TABLE_SIZE, PAGES, HYDRA_READABLE, SEED + i);
	ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
	EXPECT_LT(self->before.fills, after.fills);
}

/* When a domain has left the sharers, no CPU of the domain may use an old translation. */
TEST_F_TIMEOUT(reclaim, nothing_stale_is_left, TIMEOUT_S)
{
	for (size_t i = 0; i < TABLES; i++) {
		char *addr = self->area + i * TABLE_SIZE;

		PROBE_ALL(addr, PAGES, HYDRA_READABLE, SEED + i);
		drop_replicas(_metadata);
		switch (i) {
		case 0:
			ASSERT_EQ(0, munmap(addr, PAGES * PAGE_SIZE));
			PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
			break;
		case 1:
			ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_NONE));
			PROBE_ALL(addr, PAGES, HYDRA_NO_ACCESS, 0);
			ASSERT_EQ(0, mprotect(addr, PAGES * PAGE_SIZE, PROT_READ));
			PROBE_ALL(addr, PAGES, HYDRA_READ_ONLY, SEED + i);
			break;
		default:
			ASSERT_EQ(0, madvise(addr, PAGES * PAGE_SIZE, MADV_DONTNEED));
			PROBE_ALL(addr, PAGES, HYDRA_READ_WRITE, 0);
		}
	}
}

/*
 * Flushes no longer interrupt the other domains: of all running threads, only the thread
 * of node 0.
 */
TEST_F_TIMEOUT(reclaim, domains_leave_the_sharers, TIMEOUT_S)
{
	struct hydra_stats before, after;
	uint64_t flushes = 1, spared = 0;

	drop_replicas(_metadata);
	/*
	 * The flushes of reclaim interrupted CPUs that Linux leaves alone. The next flushes of
	 * this CPU count as many less as spared, so flush until that is over.
	 */
	for (int i = 0; i < REPAID && spared < (hydra_nodes() - 1) * flushes; i++) {
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE));
		ASSERT_EQ(0, hydra_read_stats(getpid(), &before));
		ASSERT_EQ(0, mprotect(self->area, PAGES * PAGE_SIZE, PROT_READ));
		ASSERT_EQ(0, hydra_read_stats(getpid(), &after));
		flushes = after.flushes - before.flushes;
		spared = after.cpus_spared - before.cpus_spared;
		EXPECT_LT(0, flushes);
		EXPECT_GE(flushes, after.cpus_interrupted - before.cpus_interrupted);
	}
	EXPECT_LE((hydra_nodes() - 1) * flushes, spared);
}

/* Linux sees the accesses of a node whose replica is then freed. */
TEST_F_TIMEOUT(reclaim, accessed_bits_are_kept, TIMEOUT_S)
{
	drop_replicas(_metadata);
	ASSERT_EQ(0, hydra_write_file("/proc/self/clear_refs", "1"));
	ASSERT_EQ(0, hydra_smaps(self->area, "Referenced"));
	EXPECT_EQ(0, hydra_probe(1, self->area, PAGES, HYDRA_READABLE, SEED));
	drop_replicas(_metadata);
	EXPECT_EQ(PAGES, hydra_smaps(self->area, "Referenced"));
}

HYDRA_HARNESS_MAIN
