// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where mmap() puts small regions: regions of threads on different nodes are in different
 * leaf tables. A caller that asks for an address gets the address, as on Linux.
 */
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define REGIONS	16
#define GIB	(1UL << 30)

FIXTURE(place) {
	int last;	/* node */
};

static void look_at(void *arg)
{
	(void)*(volatile char *)arg;
}

/*
 * Wait until every node has a tree. A thread that found the locks taken asks for the tree
 * again later.
 */
static bool await_trees(void)
{
	static char here;
	struct hydra_stats stats;
	int node, tries;

	for (tries = 0; tries < 500; tries++) {
		if (hydra_read_stats(getpid(), &stats))
			return false;
		for (node = 0; stats.split && node < hydra_nodes(); node++)
			if (!hydra_on_node(&stats, node)->own_root)
				break;
		if (node == hydra_nodes())
			return true;
		for (node = 0; node < hydra_nodes(); node++)
			hydra_run(node, look_at, &here);
		usleep(10000);
	}
	return false;
}

FIXTURE_SETUP(place)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	self->last = hydra_nodes() - 1;
	hydra_start_workers(HYDRA_SLEEP);
	ASSERT_TRUE(await_trees());
}

FIXTURE_TEARDOWN(place)
{
	hydra_assert_consistent();
	hydra_stop_workers();
}

static void *map_on(int node, void *hint, size_t size, int flags)
{
	long addr = hydra_syscall(node, SYS_mmap, (long)hint, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1);

	return (void *)addr;
}

static bool failed(const void *addr)
{
	return (unsigned long)addr > -4096UL;
}

/*
 * The nodes map regions in turns. Return: the number of pairs of nodes that share a leaf
 * table.
 */
static size_t shared_tables(struct __test_metadata *_metadata, int last)
{
	static char *region[HYDRA_MAX_NODES][REGIONS];
	size_t shared = 0;

	for (int i = 0; i < REGIONS; i++)
		for (int node = 0; node <= last; node++) {
			region[node][i] = map_on(node, NULL, PAGE_SIZE, 0);
			ASSERT_FALSE(failed(region[node][i]));
			hydra_write_pages(node, region[node][i], 1, 1 + node * REGIONS + i);
		}
	for (int node = 0; node <= last; node++)
		for (int i = 0; i < REGIONS; i++) {
			EXPECT_EQ(0, hydra_probe_all(region[node][i], 1, HYDRA_READ_WRITE,
						     1 + node * REGIONS + i));
			for (int other = node + 1; other <= last; other++)
				for (int j = 0; j < REGIONS; j++)
					shared += (uintptr_t)region[node][i] / TABLE_SIZE ==
						  (uintptr_t)region[other][j] / TABLE_SIZE;
		}
	for (int node = 0; node <= last; node++)
		for (int i = 0; i < REGIONS; i++) {
			EXPECT_EQ(0, munmap(region[node][i], PAGE_SIZE));
		}
	return shared;
}

TEST_F(place, nodes_share_no_leaf_table)
{
	EXPECT_EQ(0, shared_tables(_metadata, self->last));
	/* Linux puts the regions side by side: the test can fail. */
	ASSERT_EQ(0, hydra_off());
	EXPECT_LT(0, shared_tables(_metadata, self->last));
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	ASSERT_TRUE(await_trees());
	EXPECT_EQ(0, shared_tables(_metadata, self->last));
}

/*
 * The regions of one node are side by side, and mmap() reuses the place of an unmapped
 * region.
 */
TEST_F(place, no_address_space_wasted)
{
	for (int node = 0; node <= self->last; node++) {
		uintptr_t tables[REGIONS];
		int different = 0;

		for (int i = 0; i < REGIONS; i++) {
			char *region = map_on(node, NULL, PAGE_SIZE, 0);

			ASSERT_FALSE(failed(region));
			tables[i] = (uintptr_t)region / TABLE_SIZE;
			different += i && tables[i] != tables[i - 1];
		}
		/* one table, unless there was an end of one or a gap */
		EXPECT_GE(3, different)
			TH_LOG("node %d spreads %d pages over %d tables", node, REGIONS,
			       different + 1);

		different = 0;
		for (int i = 0; i < 200; i++) {
			char *region = map_on(node, NULL, PAGE_SIZE, 0);

			ASSERT_FALSE(failed(region));
			EXPECT_EQ(0, hydra_syscall(node, SYS_munmap, (long)region, PAGE_SIZE));
			different += i && (uintptr_t)region / TABLE_SIZE != tables[0];
			tables[0] = (uintptr_t)region / TABLE_SIZE;
		}
		EXPECT_GE(3, different);
	}
}

TEST_F(place, hints_and_fixed_addresses)
{
	char *place = hydra_reserve(2 * TABLE_SIZE);

	ASSERT_EQ(0, munmap(place, 2 * TABLE_SIZE));
	for (int node = 0; node <= self->last; node++) {
		char *hint = place + 2 * node * PAGE_SIZE;
		char *fixed = place + TABLE_SIZE + node * PAGE_SIZE;

		EXPECT_EQ(hint, map_on(node, hint, PAGE_SIZE, 0));
		EXPECT_EQ(fixed, map_on(node, fixed, PAGE_SIZE, MAP_FIXED));
		EXPECT_EQ(fixed, map_on(self->last - node, fixed, PAGE_SIZE, MAP_FIXED));
		EXPECT_EQ((void *)(long)-EEXIST,
			  map_on(node, fixed, PAGE_SIZE, MAP_FIXED_NOREPLACE));
		/* a hint where something is gives another place */
		EXPECT_FALSE(failed(map_on(node, hint, PAGE_SIZE, 0)));
		hydra_write_pages(node, hint, 1, 1 + node);
		EXPECT_EQ(0, hydra_probe_all(hint, 1, HYDRA_READ_WRITE, 1 + node));
	}
}

TEST_F(place, low_addresses)
{
	for (int node = 0; node <= self->last; node++) {
		char *low = map_on(node, NULL, PAGE_SIZE, MAP_32BIT);

		ASSERT_FALSE(failed(low));
		EXPECT_GT(1UL << 32, (uintptr_t)low);
		hydra_write_pages(node, low, 1, 7);
		EXPECT_EQ(0, hydra_probe_all(low, 1, HYDRA_READ_WRITE, 7));
	}
}

/* Larger than what one PUD table maps */
TEST_F(place, large_regions)
{
	for (int node = 0; node <= self->last; node++)
		for (size_t gib = 1; gib <= 4096; gib *= 4) {
			char *region = map_on(node, NULL, gib * GIB, MAP_NORESERVE);

			EXPECT_FALSE(failed(region))
				TH_LOG("node %d cannot map %zu GiB", node, gib);
			hydra_write_pages(node, region, 1, gib);
			hydra_write_pages(node, region + gib * GIB - PAGE_SIZE, 1, gib + 1);
			EXPECT_EQ(0, hydra_probe_all(region, 1, HYDRA_READ_WRITE, gib));
			EXPECT_EQ(0, hydra_probe_all(region + gib * GIB - PAGE_SIZE, 1,
						     HYDRA_READ_WRITE, gib + 1));
		}
}

/* Executed when a test runs this program with the argument "places" */
static int print_places(void)
{
	if (hydra_begin())
		return 1;
	hydra_start_workers(HYDRA_SLEEP);
	for (int node = 0; node < hydra_nodes(); node++)
		printf("%p ", map_on(node, NULL, PAGE_SIZE, 0));
	printf("\n");
	return 0;
}

#define RUNS	8

/* No two programs get the same place, as on Linux. */
TEST_F(place, each_program_maps_at_another_place)
{
	static char text[RUNS][4096];
	char *place[RUNS], *rest[RUNS], randomize[16];

	ASSERT_LT(0, hydra_read_file("/proc/sys/kernel/randomize_va_space", randomize,
				     sizeof(randomize)));
	if (randomize[0] == '0')
		SKIP(return, "addresses are not random on this machine (kernel.randomize_va_space)");
	for (int i = 0; i < RUNS; i++) {
		int out[2], child;
		FILE *from;

		ASSERT_EQ(0, pipe(out));
		fflush(NULL);
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			dup2(out[1], STDOUT_FILENO);
			execl("/proc/self/exe", "place", "places", NULL);
			_exit(1);
		}
		close(out[1]);
		from = fdopen(out[0], "r");
		ASSERT_NE(NULL, fgets(text[i], sizeof(text[i]), from));
		fclose(from);
		EXPECT_EQ(0, hydra_wait_child(child));
	}
	for (int node = 0; node <= self->last; node++) {
		for (int i = 0; i < RUNS; i++) {
			place[i] = strtok_r(node ? NULL : text[i], " \n", &rest[i]);
			ASSERT_NE(NULL, place[i])
				TH_LOG("run %d has no place for node %d", i, node);
			for (int j = 0; j < i; j++) {
				EXPECT_STRNE(place[j], place[i])
					TH_LOG("node %d, runs %d and %d", node, j, i);
			}
		}
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "places"))
		return print_places();
	return test_harness_run(argc, argv);
}
