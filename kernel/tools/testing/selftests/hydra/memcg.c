// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas and memory cgroups: replicas are charged to the cgroup, displace no memory of
 * the program, and are freed before the cgroup is out of memory. A cgroup gives its processes
 * settings (memory.hydra).
 *
 * The programs use one page in each leaf table, on all nodes. So the replicas take more
 * memory than the pages and tables together.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

static void expect_removed(struct __test_metadata *_metadata, const char *group)
{
	/* A killed process may still be in the group. */
	for (int i = 0; i < 100 && rmdir(group) && errno == EBUSY; i++)
		usleep(100000);
	EXPECT_NE(0, access(group, F_OK));
}

FIXTURE_TEARDOWN(memcg)
{
	expect_removed(_metadata, self->group);
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

/* A group, with two groups in it */
FIXTURE(settings) {
	char group[64], first[80], second[80], sysfs_default[128];
};

FIXTURE_SETUP(settings)
{
	HYDRA_BEGIN();
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "default", self->sysfs_default,
				     sizeof(self->sysfs_default)));
	ASSERT_EQ(0, hydra_make_group(self->group));
	ASSERT_EQ(0, hydra_write_number(self->group, "cgroup.subtree_control", "+memory"));
	snprintf(self->first, sizeof(self->first), "%sfirst/", self->group);
	snprintf(self->second, sizeof(self->second), "%ssecond/", self->group);
	ASSERT_EQ(0, mkdir(self->first, 0755));
	ASSERT_EQ(0, mkdir(self->second, 0755));
}

FIXTURE_TEARDOWN(settings)
{
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", self->sysfs_default));
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", "anybody"));
	expect_removed(_metadata, self->first);
	expect_removed(_metadata, self->second);
	expect_removed(_metadata, self->group);
}

static int give(const char *group, const char *settings)
{
	return hydra_write_number(group, "memory.hydra", "%s", settings);
}

/*
 * A process joins the first group, may choose a policy, and executes a shell. The shell goes
 * to the second group, forks, and executes another program.
 *
 * @forked, @executed: set to the policy that the child of the shell has, and that program
 */
static void run_in_both(struct __test_metadata *_metadata, const char *first, const char *second,
			const char *own, char forked[16], char executed[16])
{
	static const char script[] = "echo $$ >$1/cgroup.procs || exit\n"
				     "(read key policy </proc/self/hydra; echo $policy; :)\n"
				     "exec head -n 1 /proc/self/hydra\n";
	struct hydra_stats before, after;
	FILE *from;
	int out[2];
	pid_t child;

	ASSERT_EQ(0, pipe(out));
	child = fork();
	if (!child) {
		dup2(out[1], STDOUT_FILENO);
		/* The group gives nothing to a process that comes. */
		if (hydra_read_stats(getpid(), &before) ||
		    group_write(first, "cgroup.procs", getpid()) ||
		    hydra_read_stats(getpid(), &after) || strcmp(before.policy, after.policy))
			_exit(100);
		if (own && hydra_write_policy(getpid(), own))
			_exit(101);
		execl("/bin/sh", "sh", "-c", script, "sh", second, NULL);
		_exit(102);
	}
	close(out[1]);
	from = fdopen(out[0], "r");
	EXPECT_EQ(2, fscanf(from, "%15s policy %15s", forked, executed));
	fclose(from);
	EXPECT_EQ(0, hydra_wait_child(child));
}

TEST_F(settings, cgroup_gives_settings_at_execve)
{
	static const struct {
		const char *by_default, *group, *first, *second, *own, *forked, *executed;
	} rows[] = {
		/* The cgroup comes before the default. */
		{ "linux", "inherit", "inherit", "hydra", NULL, "hydra", "hydra" },
		{ "hydra", "inherit", "inherit", "linux", NULL, "hydra", "linux" },
		/* The nearest one counts. */
		{ "linux", "hydra", "inherit", "inherit", NULL, "hydra", "hydra" },
		{ "linux", "hydra", "inherit", "mitosis", NULL, "hydra", "mitosis" },
		{ "hydra", "mitosis", "inherit", "linux", NULL, "mitosis", "linux" },
		/* None has settings. */
		{ "hydra", "inherit", "inherit", "inherit", NULL, "hydra", "hydra" },
		{ "linux", "inherit", "inherit", "inherit", NULL, "linux", "linux" },
		/* fork() copies what the first group gave, and execve() leaves it behind. */
		{ "linux", "inherit", "hydra", "mitosis", NULL, "hydra", "mitosis" },
		{ "linux", "inherit", "hydra", "inherit", NULL, "hydra", "linux" },
		{ "linux", "inherit", "linux", "hydra", NULL, "linux", "hydra" },
		/* A choice stays. */
		{ "hydra", "mitosis", "inherit", "mitosis", "linux", "linux", "linux" },
		{ "linux", "linux", "hydra", "linux", "mitosis", "mitosis", "mitosis" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char forked[16] = "", executed[16] = "";

		ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "default", rows[i].by_default));
		ASSERT_EQ(0, give(self->group, rows[i].group));
		ASSERT_EQ(0, give(self->first, rows[i].first));
		ASSERT_EQ(0, give(self->second, rows[i].second));
		run_in_both(_metadata, self->first, self->second, rows[i].own, forked, executed);
		EXPECT_STREQ(rows[i].forked, forked)
			TH_LOG("row %zu", i);
		EXPECT_STREQ(rows[i].executed, executed)
			TH_LOG("row %zu", i);
	}
}

static void expect_given(struct __test_metadata *_metadata, const char *group,
			 const char *settings)
{
	char path[128], text[128] = "";

	snprintf(path, sizeof(path), "%smemory.hydra", group);
	ASSERT_LT(0, hydra_read_file(path, text, sizeof(text)));
	EXPECT_STREQ(settings, strtok(text, "\n"));
}

TEST_F(settings, cgroup_file_refuses_nonsense)
{
	static const char some[] = "domains=node,replication=lazy,prefetch=4,filter=table";
	static const char *const bad[] = {
		"\n", "max", "inherited", "inherit hydra", "hydra,inherit", "hydra,prefetch=99",
		"linux,replication=eager",
	};
	char path[128];

	expect_given(_metadata, self->first, "inherit");
	ASSERT_EQ(0, give(self->group, "hydra"));
	ASSERT_EQ(0, give(self->first, "hydra,prefetch=4\n"));
	expect_given(_metadata, self->first, some);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, give(self->first, bad[i]))
			TH_LOG("takes \"%s\"", bad[i]);
	}
	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", "nobody"));
	EXPECT_EQ(-EPERM, give(self->first, "linux"));
	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", "anybody"));
	expect_given(_metadata, self->first, some);

	/* A key without a policy changes one setting, of this cgroup alone. */
	ASSERT_EQ(0, give(self->first, "prefetch=9"));
	expect_given(_metadata, self->first, "hydra");
	expect_given(_metadata, self->second, "inherit");
	ASSERT_EQ(0, give(self->first, "inherit\n"));
	expect_given(_metadata, self->first, "inherit");
	expect_given(_metadata, self->group, "hydra");

	/* The root has the system's default instead. */
	snprintf(path, sizeof(path), "%s../memory.hydra", self->group);
	EXPECT_NE(0, access(path, F_OK));
	EXPECT_EQ(ENOENT, errno);
}

HYDRA_HARNESS_MAIN
