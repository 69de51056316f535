// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas and memory cgroups: replicas are charged to the cgroup, displace no memory of
 * the program, and are freed before the cgroup is out of memory.
 *
 * The programs use one page in each leaf table, on all nodes. So the replicas take more
 * memory than the pages and tables together.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define TABLES		1024UL
#define MIB		1048576UL
#define SLACK		(6 * MIB)	/* stacks, what CPUs keep for the group, the kernel */
#define TIMEOUT_S	120

FIXTURE(memcg) {
	char group[64];
};

static int group_write(const char *group, const char *name, unsigned long value)
{
	return hydra_write_number(group, name, "%lu", value);
}

static long group_number(const char *group, const char *name, const char *key)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", group, name);
	return hydra_number(path, key);
}

FIXTURE_SETUP(memcg)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_make_group(self->group))
		TH_LOG("no memory cgroup can be made (CONFIG_MEMCG)");
	/* With swap space, the group would have room beyond its limit. */
	ASSERT_EQ(0, group_write(self->group, "memory.swap.max", 0));
}

FIXTURE_TEARDOWN(memcg)
{
	/* A killed process may still be in the group. */
	for (int i = 0; i < 100 && rmdir(self->group) && errno == EBUSY; i++)
		usleep(100000);
	EXPECT_NE(0, access(self->group, F_OK));
}

static char *reserve(size_t tables)
{
	char *area = mmap(NULL, (tables + 1) * TABLE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		_exit(100);
	return (char *)(((uintptr_t)area + TABLE_SIZE - 1) & ~(TABLE_SIZE - 1));
}

struct sparse {
	char *area;
	size_t tables;
	size_t mistakes;
};

static void write_sparse(void *arg)
{
	struct sparse *s = arg;

	for (size_t i = 0; i < s->tables; i++)
		*(uint64_t *)(s->area + i * TABLE_SIZE) = hydra_word(1, i, 0);
}

static void read_sparse(void *arg)
{
	struct sparse *s = arg;

	for (size_t i = 0; i < s->tables; i++)
		s->mistakes += *(uint64_t *)(s->area + i * TABLE_SIZE) != hydra_word(1, i, 0);
}

/* Not on the stack: see hydra_util.c */
static struct sparse shared, more;

static void read_on_all_nodes(void)
{
	for (int node = 0; node < hydra_nodes(); node++)
		hydra_run(node, read_sparse, &shared);
	if (shared.mistakes)
		_exit(101);
}

/* The process sets the policy and joins the group; node 0 writes memory. */
static void join(const char *group, const char *policy, size_t tables)
{
	/* Linux reclaims nothing for replicas: each node needs free memory. */
	if (hydra_write_file("/proc/sys/vm/drop_caches", "3") ||
	    hydra_write_policy(getpid(), policy) || group_write(group, "cgroup.procs", getpid()))
		_exit(102);
	hydra_start_workers(HYDRA_SLEEP);
	shared.area = reserve(tables);
	shared.tables = tables;
	hydra_run(0, write_sparse, &shared);
}

static uint64_t replicas_now(void)
{
	struct hydra_stats stats;

	return hydra_read_stats(getpid(), &stats) ? 0 : stats.replica_tables;
}

/* All nodes read, then node 0 writes more memory: as much as fits without replicas. */
static void outgrow(const char *group, const char *policy)
{
	join(group, policy, TABLES);
	read_on_all_nodes();
	if (strcmp(policy, "linux") && replicas_now() < TABLES * (hydra_nodes() - 1))
		_exit(103);
	more.tables = 2 * TABLES;
	more.area = reserve(more.tables);
	hydra_run(0, write_sparse, &more);
	read_on_all_nodes();
	_exit(hydra_consistent(getpid()) ? 0 : 104);
}

static void outgrow_under(struct __test_metadata *_metadata, const char *group, const char *policy)
{
	pid_t child;

	ASSERT_EQ(0, group_write(group, "memory.max", 3 * TABLES * 2 * PAGE_SIZE + SLACK));
	child = fork();
	if (!child)
		outgrow(group, policy);
	EXPECT_EQ(0, hydra_wait_child(child))
		TH_LOG("policy %s", policy);
	EXPECT_EQ(0, group_number(group, "memory.events", "oom_kill"));
}

/* Without replicas the memory fits into the limit. Else the next test would say nothing. */
TEST_F_TIMEOUT(memcg, data_fits_without_replicas, TIMEOUT_S)
{
	outgrow_under(_metadata, self->group, "linux");
}

TEST_F_TIMEOUT(memcg, replicas_make_room_for_data, TIMEOUT_S)
{
	outgrow_under(_metadata, self->group, "hydra");
}

static int ready[2], go[2];

/*
 * Start a process in the group, which may first read on all nodes. Returns when the
 * process has stopped.
 */
static pid_t start(struct __test_metadata *_metadata, const char *group, bool reads_first,
		   void (*fn)(void))
{
	pid_t child;
	char c = 'r';

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		join(group, "hydra", TABLES);
		if (reads_first)
			read_on_all_nodes();
		if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1)
			_exit(105);
		if (fn)
			fn();
		read_on_all_nodes();
		_exit(hydra_consistent(getpid()) ? 0 : 104);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	return child;
}

/*
 * The process calls the function, reads on all nodes, and ends, within the limit of the
 * group.
 */
static void finish(struct __test_metadata *_metadata, const char *group, pid_t child)
{
	ASSERT_EQ(1, write(go[1], "g", 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(0, group_number(group, "memory.events", "oom_kill"));
}

/* To show cpu.stat Linux adds up what the CPUs have counted; else it does every two seconds. */
static long tables_charged(const char *group)
{
	if (group_number(group, "cpu.stat", "usage_usec") < 0)
		return -1;
	return group_number(group, "memory.stat", "pagetables");
}

/* No table stays in the statistics of a group whose process has ended. */
static void expect_no_tables(struct __test_metadata *_metadata, const char *group,
			     const char *what)
{
	for (int tries = 0; tries < 20 && tables_charged(group); tries++)
		usleep(100000);
	EXPECT_EQ(0, tables_charged(group))
		TH_LOG("%s", what);
}

/* All nodes have read. Then the limit is lowered below what the cgroup has. */
TEST_F_TIMEOUT(memcg, lower_limit_takes_replicas, TIMEOUT_S)
{
	pid_t child = start(_metadata, self->group, true, NULL);
	struct hydra_stats before, after;

	ASSERT_EQ(0, hydra_read_stats(child, &before));
	EXPECT_LE(TABLES * (hydra_nodes() - 1), before.replica_tables);
	EXPECT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) -
				 before.replica_tables / 2 * PAGE_SIZE));
	EXPECT_EQ(0, hydra_read_stats(child, &after));
	EXPECT_LT(before.reclaimed, after.reclaimed);
	EXPECT_GT(before.replica_tables, after.replica_tables);
	finish(_metadata, self->group, child);
	expect_no_tables(_metadata, self->group, "reclaimed replicas");
}

static void fork_once(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	if (child < 0 || hydra_wait_child(child))
		_exit(106);
}

/*
 * fork() needs memory for page tables, and holds mmap_lock of the address space whose
 * replicas the shrinker must free.
 */
TEST_F_TIMEOUT(memcg, fork_takes_replicas, TIMEOUT_S)
{
	pid_t child = start(_metadata, self->group, true, fork_once);

	ASSERT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) + MIB));
	finish(_metadata, self->group, child);
}

/*
 * If the cgroup has no memory left for replicas, Linux reclaims nothing from the cgroup
 * to make room.
 */
TEST_F_TIMEOUT(memcg, replicas_displace_no_data, TIMEOUT_S)
{
	pid_t child = start(_metadata, self->group, false, NULL);
	long before;

	ASSERT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) + MIB));
	before = group_number(self->group, "memory.events", "max");
	finish(_metadata, self->group, child);
	/* Only for tables above the leaf tables, which are few, is memory reclaimed. */
	EXPECT_GT(TABLES / 4, group_number(self->group, "memory.events", "max") - before);
}

static void *take_memory(void *node)
{
	hydra_pin_to_node((intptr_t)node);
	for (;;)
		write_sparse(&more);
	return NULL;
}

/*
 * A child with threads on all nodes is killed for lack of memory. The parent keeps the
 * shared pages.
 */
TEST_F_TIMEOUT(memcg, process_on_all_nodes_is_killed, TIMEOUT_S)
{
	pid_t child;

	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra"));
	hydra_start_workers(HYDRA_SLEEP);
	shared.area = reserve(TABLES);
	shared.tables = TABLES;
	hydra_run(0, write_sparse, &shared);
	read_on_all_nodes();
	more.tables = 8 * TABLES;
	more.area = reserve(more.tables);
	ASSERT_EQ(0, group_write(self->group, "memory.max", 16 * MIB));
	child = fork();
	if (!child) {
		pthread_t thread;

		if (group_write(self->group, "cgroup.procs", getpid()))
			_exit(102);
		for (long node = 1; node < hydra_nodes(); node++)
			pthread_create(&thread, NULL, take_memory, (void *)node);
		take_memory(NULL);
	}
	EXPECT_EQ(128 + SIGKILL, hydra_wait_child(child));
	EXPECT_EQ(1, group_number(self->group, "memory.events", "oom_kill"));
	read_on_all_nodes();
	hydra_assert_consistent();
	hydra_stop_workers();
}

/*
 * All threads of the process sleep when it ends. So each CPU that a thread ran on is idle then,
 * and keeps the mm_struct until another process runs there: the test itself runs on node 0 only.
 */
TEST_F_TIMEOUT(memcg, ended_process_keeps_no_tables, TIMEOUT_S)
{
	static const char *const policies[] = { "linux", "hydra", "mitosis", "abis" };

	for (size_t i = 0; i < ARRAY_SIZE(policies); i++) {
		pid_t child;
		char c = 'r';

		ASSERT_EQ(0, pipe(ready));
		child = fork();
		if (!child) {
			join(self->group, policies[i], 8);
			read_on_all_nodes();
			if (write(ready[1], &c, 1) != 1)
				_exit(105);
			pause();
		}
		ASSERT_EQ(1, read(ready[0], &c, 1));
		EXPECT_LE((i ? hydra_nodes() : 1) * 8 * PAGE_SIZE, tables_charged(self->group));
		EXPECT_EQ(0, kill(child, SIGKILL));
		EXPECT_EQ(128 + SIGKILL, hydra_wait_child(child));
		expect_no_tables(_metadata, self->group, policies[i]);
	}
}

HYDRA_HARNESS_MAIN
