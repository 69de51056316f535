// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas and memory cgroups: replicas are charged, take nothing away from the
 * program's own memory, and are given back before the cgroup is out of memory.
 *
 * Memory that is used thinly, one page in each leaf table, and by all nodes: the
 * replicas are more than the program's pages and its tables together.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define CGROUPS		"/sys/fs/cgroup"
#define TABLES		1024UL
#define MIB		1048576UL
#define SLACK		(6 * MIB)	/* stacks, what CPUs keep for the group, the kernel */
#define PATIENCE	120

FIXTURE(memcg) {
	char group[64];
};

static void group_path(char path[128], const char *group, const char *name)
{
	snprintf(path, 128, "%s/%s", group, name);
}

static int group_write(const char *group, const char *name, unsigned long value)
{
	char path[128], text[32];

	group_path(path, group, name);
	snprintf(text, sizeof(text), "%lu", value);
	return hydra_write_file(path, text);
}

/* A number that a file of the group contains alone, or behind a key; -1: none */
static long group_number(const char *group, const char *name, const char *key)
{
	char path[128], text[16384], word[64], *line, *rest;
	long value;

	group_path(path, group, name);
	if (hydra_read_file(path, text, sizeof(text)) < 0)
		return -1;
	if (!key)
		return strtol(text, NULL, 10);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "%63s %ld", word, &value) == 2 && !strcmp(word, key))
			return value;
	return -1;
}

FIXTURE_SETUP(memcg)
{
	HYDRA_BEGIN();
	if (access(CGROUPS "/cgroup.controllers", F_OK)) {
		ASSERT_EQ(0, mount("none", CGROUPS, "cgroup2", 0, NULL))
			TH_LOG("no cgroup2 at " CGROUPS " (CONFIG_CGROUPS)");
	}
	ASSERT_EQ(0, hydra_write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		TH_LOG("cgroup2 has no memory controller (CONFIG_MEMCG)");
	snprintf(self->group, sizeof(self->group), CGROUPS "/hydra-memcg-%d", getpid());
	ASSERT_EQ(0, mkdir(self->group, 0755));
}

FIXTURE_TEARDOWN(memcg)
{
	/* A process that was killed may not have left yet. */
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

/* What a process of the group does first: it takes part in it, under a policy */
static void join(const char *group, const char *policy)
{
	if (hydra_write_policy(getpid(), policy) || group_write(group, "cgroup.procs", getpid()))
		_exit(102);
	hydra_start_workers(HYDRA_SLEEP);
	shared.area = reserve(TABLES);
	shared.tables = TABLES;
	hydra_run(0, write_sparse, &shared);
}

static uint64_t replicas_now(void)
{
	struct hydra_stats stats;

	return hydra_read_stats(getpid(), &stats) ? 0 : stats.replica_tables;
}

/* All nodes read, then more is written by one: as much as fits without replicas */
static void outgrow(const char *group, const char *policy)
{
	join(group, policy);
	read_on_all_nodes();
	if (strcmp(policy, "linux") && replicas_now() < TABLES)
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

/* Without replicas the limit is enough: else the next test says nothing */
TEST_F_TIMEOUT(memcg, limit_is_enough, PATIENCE)
{
	outgrow_under(_metadata, self->group, "linux");
}

TEST_F_TIMEOUT(memcg, replicas_make_room, PATIENCE)
{
	outgrow_under(_metadata, self->group, "hydra");
}

/* A process that stops in the middle, and goes on when it is told */
static void wait_for_parent(int ready, int go)
{
	char c = 'r';

	if (write(ready, &c, 1) != 1 || read(go, &c, 1) != 1)
		_exit(105);
}

/* All nodes have read, then the limit is lowered below what there is */
TEST_F_TIMEOUT(memcg, lower_limit_takes_replicas, PATIENCE)
{
	struct hydra_stats before, after;
	int ready[2], go[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		join(self->group, "hydra");
		read_on_all_nodes();
		wait_for_parent(ready[1], go[0]);
		read_on_all_nodes();
		_exit(hydra_consistent(getpid()) ? 0 : 104);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, hydra_read_stats(child, &before));
	EXPECT_LE(TABLES * (hydra_nodes() - 1), before.replica_tables);
	EXPECT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) -
				 before.replica_tables / 2 * PAGE_SIZE));
	EXPECT_EQ(0, hydra_read_stats(child, &after));
	EXPECT_LT(before.reclaimed, after.reclaimed);
	EXPECT_GT(before.replica_tables, after.replica_tables);
	ASSERT_EQ(1, write(go[1], &c, 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(0, group_number(self->group, "memory.events", "oom_kill"));
}

/*
 * fork() needs page tables, and holds the lock of the address space that the
 * replicas belong to.
 */
TEST_F_TIMEOUT(memcg, fork_takes_replicas, PATIENCE)
{
	int ready[2], go[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		pid_t grandchild;

		join(self->group, "hydra");
		read_on_all_nodes();
		wait_for_parent(ready[1], go[0]);
		grandchild = fork();
		if (!grandchild)
			_exit(0);
		if (grandchild < 0 || hydra_wait_child(grandchild))
			_exit(106);
		read_on_all_nodes();
		_exit(hydra_consistent(getpid()) ? 0 : 104);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) + MIB));
	ASSERT_EQ(1, write(go[1], &c, 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(0, group_number(self->group, "memory.events", "oom_kill"));
}

/* Where there is no room for replicas, the cgroup's memory is not reclaimed for them */
TEST_F_TIMEOUT(memcg, replicas_displace_nothing, PATIENCE)
{
	int ready[2], go[2];
	long before;
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		join(self->group, "hydra");
		wait_for_parent(ready[1], go[0]);
		read_on_all_nodes();
		_exit(hydra_consistent(getpid()) ? 0 : 104);
	}
	ASSERT_EQ(1, read(ready[0], &c, 1));
	ASSERT_EQ(0, group_write(self->group, "memory.max",
				 group_number(self->group, "memory.current", NULL) + MIB));
	before = group_number(self->group, "memory.events", "max");
	ASSERT_EQ(1, write(go[1], &c, 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	EXPECT_EQ(0, group_number(self->group, "memory.events", "oom_kill"));
	/* Tables above the leaf tables may be worth it: there are few. */
	EXPECT_GT(TABLES / 4, group_number(self->group, "memory.events", "max") - before);
}

HYDRA_HARNESS_MAIN
