// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas and the misc controller of cgroups: each replica is charged to the cgroup of the
 * process, the limits of the cgroup and of its parents hold, and nothing stays charged.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define BATCH		16UL	/* leaf tables that a process reads at a time */
#define BATCHES		3
#define PATIENCE	60
#define CGROUPS		"/sys/fs/cgroup/"
#define LIMIT		HYDRA_SYSFS "replica_limit_kib"

/* What a process is told to do with a batch of new tables, to which node 0 has written */
#define READ		'r'	/* All nodes read. */
#define LEND		'l'	/* A process of another cgroup, on another node, borrows the memory, and reads. */
#define END		'e'

FIXTURE(misc) {
	char group[64];
	char child[2][80];
};

static long charged(const char *group, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", group, name);
	return hydra_number(path, strcmp(name, "misc.events") ? "hydra_replicas" :
								"hydra_replicas.max");
}

static int limit(const char *group, unsigned long bytes)
{
	return hydra_write_number(group, "misc.max", "hydra_replicas %lu", bytes);
}

/* The group has two groups of its own, which the processes join. */
FIXTURE_SETUP(misc)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_make_group(self->group))
		TH_LOG("no memory cgroup can be made (CONFIG_MEMCG)");
	ASSERT_EQ(0, hydra_write_file(CGROUPS "cgroup.subtree_control", "+misc"))
		TH_LOG("no misc controller (CONFIG_CGROUP_MISC)");
	ASSERT_EQ(0, hydra_write_number(self->group, "cgroup.subtree_control", "+misc"));
	for (int i = 0; i < 2; i++) {
		snprintf(self->child[i], sizeof(self->child[i]), "%s%d/", self->group, i);
		ASSERT_EQ(0, mkdir(self->child[i], 0755));
	}
}

static void remove_group(const char *group)
{
	/* A killed process may still be in the group. */
	for (int i = 0; i < 100 && rmdir(group) && errno == EBUSY; i++)
		usleep(100000);
}

FIXTURE_TEARDOWN(misc)
{
	hydra_write_file(LIMIT, "max");
	remove_group(self->child[0]);
	remove_group(self->child[1]);
	remove_group(self->group);
	EXPECT_NE(0, access(self->group, F_OK));
}

/* What is freed is uncharged soon: another part of the kernel may still use the memory. */
static bool nothing_is_charged(const char *group)
{
	for (int i = 0; i < 100 && charged(group, "misc.current"); i++)
		usleep(100000);
	return !charged(group, "misc.current");
}

/* Not on the stack: see hydra_util.c */
static struct {
	char *area;
	size_t mistakes;
} batch;

static void write_batch(void *arg)
{
	for (size_t i = 0; i < BATCH; i++)
		*(uint64_t *)(batch.area + i * TABLE_SIZE) = hydra_word(1, i, 0);
}

static void read_batch(void *arg)
{
	for (size_t i = 0; i < BATCH; i++)
		batch.mistakes += *(uint64_t *)(batch.area + i * TABLE_SIZE) !=
				  hydra_word(1, i, 0);
}

struct process {
	pid_t pid;
	int order, answer;
};

/* As a child of vfork() that is about to execute a program in another cgroup */
static int borrow(void *group)
{
	if (hydra_write_number(group, "cgroup.procs", "%d", 0))
		return 1;
	hydra_pin_to_node(hydra_nodes() - 1);
	read_batch(NULL);
	return 0;
}

static void lend(char *group)
{
	static char stack[16 * PAGE_SIZE];
	pid_t pid;

	hydra_pin_to_node(0);
	pid = clone(borrow, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, group);
	if (hydra_wait_child(pid))
		_exit(104);
}

static void obey(const char *group, char *other, int order, int answer)
{
	char c;

	if (hydra_write_number(group, "cgroup.procs", "%d", getpid()) ||
	    hydra_on(9, HYDRA_FILTER_TABLE))
		_exit(100);
	hydra_start_workers(HYDRA_SLEEP);
	while (read(order, &c, 1) == 1 && c != END) {
		batch.area = hydra_reserve(BATCH * TABLE_SIZE);
		hydra_map(batch.area, BATCH * TABLE_PAGES);
		hydra_run(0, write_batch, NULL);
		if (c == LEND)
			lend(other);
		else
			for (int node = 0; node < hydra_nodes(); node++)
				hydra_run(node, read_batch, NULL);
		if (write(answer, &c, 1) != 1)
			_exit(101);
	}
	_exit(batch.mistakes ? 102 : hydra_consistent(getpid()) ? 0 : 103);
}

static struct process start(struct __test_metadata *_metadata, const char *group, char *other)
{
	int order[2], answer[2];
	struct process p;

	ASSERT_EQ(0, pipe2(order, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(answer, O_CLOEXEC));
	p.pid = fork();
	ASSERT_LE(0, p.pid);
	if (!p.pid) {
		close(order[1]);
		close(answer[0]);
		obey(group, other, order[0], answer[1]);
	}
	close(order[0]);
	close(answer[1]);
	p.order = order[1];
	p.answer = answer[0];
	return p;
}

static uint64_t replicas(struct __test_metadata *_metadata, const struct process *p)
{
	struct hydra_stats stats;

	EXPECT_EQ(0, hydra_read_stats(p->pid, &stats));
	return stats.replica_tables;
}

/* Return: how many replicas the process has then. */
static uint64_t tell(struct __test_metadata *_metadata, const struct process *p, char c)
{
	EXPECT_EQ(1, write(p->order, &c, 1));
	EXPECT_EQ(1, read(p->answer, &c, 1));
	return replicas(_metadata, p);
}

static uint64_t read_more(struct __test_metadata *_metadata, const struct process *p)
{
	return tell(_metadata, p, READ);
}

static void finish(struct __test_metadata *_metadata, const struct process *p)
{
	const char c = END;

	/* A process that began later has the pipe, too: it does not break. */
	EXPECT_EQ(1, write(p->order, &c, 1));
	close(p->order);
	EXPECT_EQ(0, hydra_wait_child(p->pid));
	close(p->answer);
}

TEST_F_TIMEOUT(misc, replicas_are_charged_until_they_are_freed, PATIENCE)
{
	struct process p = start(_metadata, self->child[0], self->child[1]);
	uint64_t tables = 0;

	for (int i = 0; i < BATCHES; i++) {
		tables = read_more(_metadata, &p);
		EXPECT_LE((i + 1) * BATCH * (hydra_nodes() - 1), tables);
		EXPECT_EQ(tables * PAGE_SIZE, charged(self->child[0], "misc.current"));
		EXPECT_EQ(tables * PAGE_SIZE, charged(self->group, "misc.current"));
	}
	EXPECT_EQ(0, charged(self->child[1], "misc.current"));
	/* Back to plain Linux, and split again */
	EXPECT_EQ(0, hydra_write_policy(p.pid, "linux"));
	EXPECT_EQ(0, charged(self->child[0], "misc.current"));
	EXPECT_EQ(0, hydra_write_policy(p.pid, "hydra"));
	tables = read_more(_metadata, &p);
	EXPECT_LT(0, tables);
	EXPECT_EQ(tables * PAGE_SIZE, charged(self->child[0], "misc.current"));
	finish(_metadata, &p);
	EXPECT_TRUE(nothing_is_charged(self->child[0]));
	EXPECT_TRUE(nothing_is_charged(self->group));
}

/* Where the cgroup allows no more replicas, nodes link tables, and read the right contents. */
TEST_F_TIMEOUT(misc, limit_of_a_cgroup_holds, PATIENCE)
{
	struct hydra_stats stats;
	struct process p;

	ASSERT_EQ(0, limit(self->child[0], 5 * PAGE_SIZE));
	p = start(_metadata, self->child[0], self->child[1]);
	for (int i = 0; i < BATCHES; i++) {
		EXPECT_EQ(5, read_more(_metadata, &p));
		EXPECT_EQ(5 * PAGE_SIZE, charged(self->child[0], "misc.current"));
	}
	ASSERT_EQ(0, hydra_read_stats(p.pid, &stats));
	EXPECT_LE(BATCHES * BATCH * (hydra_nodes() - 1) - 5, stats.fallbacks);
	EXPECT_LT(0, charged(self->group, "misc.events"));
	/* A limit that is raised holds for what comes. */
	ASSERT_EQ(0, limit(self->child[0], 9 * PAGE_SIZE));
	EXPECT_EQ(9, read_more(_metadata, &p));
	/* One that is lowered takes nothing. */
	ASSERT_EQ(0, limit(self->child[0], 0));
	EXPECT_EQ(9, read_more(_metadata, &p));
	finish(_metadata, &p);
	EXPECT_TRUE(nothing_is_charged(self->child[0]));
}

TEST_F_TIMEOUT(misc, limit_of_the_parent_holds_for_two_children, PATIENCE)
{
	const unsigned long pages = BATCH + BATCH / 2;
	struct hydra_stats stats;
	struct process p[2];
	uint64_t tables = 0;

	ASSERT_EQ(0, limit(self->group, pages * PAGE_SIZE));
	for (int i = 0; i < 2; i++)
		p[i] = start(_metadata, self->child[i], self->child[!i]);
	for (int i = 0; i < 2 * BATCHES; i++)
		read_more(_metadata, &p[i % 2]);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, hydra_read_stats(p[i].pid, &stats));
		tables += stats.replica_tables;
		EXPECT_EQ(stats.replica_tables * PAGE_SIZE,
			  charged(self->child[i], "misc.current"));
	}
	EXPECT_EQ(tables * PAGE_SIZE, charged(self->group, "misc.current"));
	EXPECT_EQ(pages, tables);
	/* What one process gives back, the other may have. */
	finish(_metadata, &p[0]);
	EXPECT_TRUE(nothing_is_charged(self->child[0]));
	/* Twice: with two nodes it gets as many at a time as it reads tables. */
	read_more(_metadata, &p[1]);
	EXPECT_EQ(pages, read_more(_metadata, &p[1]));
	EXPECT_EQ(pages * PAGE_SIZE, charged(self->group, "misc.current"));
	finish(_metadata, &p[1]);
	EXPECT_TRUE(nothing_is_charged(self->group));
}

/* The process is charged, and not another process that uses its memory at that moment. */
TEST_F_TIMEOUT(misc, borrower_of_the_memory_is_not_charged, PATIENCE)
{
	uint64_t tables;
	struct process p;

	/* All nodes have trees, and no replica yet. */
	ASSERT_EQ(0, hydra_write_file(LIMIT, "0"));
	p = start(_metadata, self->child[0], self->child[1]);
	EXPECT_EQ(0, read_more(_metadata, &p));
	ASSERT_EQ(0, hydra_write_file(LIMIT, "max"));
	tables = tell(_metadata, &p, LEND);
	EXPECT_LE(BATCH, tables);
	EXPECT_EQ(tables * PAGE_SIZE, charged(self->child[0], "misc.current"));
	EXPECT_EQ(0, charged(self->child[1], "misc.current"));
	finish(_metadata, &p);
	EXPECT_TRUE(nothing_is_charged(self->group));
}

/* From its first replica on a process is charged to one cgroup, wherever it moves. */
TEST_F_TIMEOUT(misc, process_that_moves_escapes_no_limit, PATIENCE)
{
	struct process p = start(_metadata, self->child[0], self->child[1]);
	uint64_t before = read_more(_metadata, &p), after;

	ASSERT_EQ(0, hydra_write_number(self->child[1], "cgroup.procs", "%d", p.pid));
	EXPECT_EQ(0, limit(self->child[1], 0));
	after = read_more(_metadata, &p);
	EXPECT_LE(before + BATCH * (hydra_nodes() - 1), after);
	EXPECT_EQ(after * PAGE_SIZE, charged(self->child[0], "misc.current"));
	EXPECT_EQ(0, charged(self->child[1], "misc.current"));
	ASSERT_EQ(0, limit(self->child[0], 0));
	EXPECT_EQ(after, read_more(_metadata, &p));
	/* The cgroup that pays may be removed. Its parent is still charged. */
	EXPECT_EQ(0, rmdir(self->child[0]));
	EXPECT_EQ(after * PAGE_SIZE, charged(self->group, "misc.current"));
	finish(_metadata, &p);
	EXPECT_TRUE(nothing_is_charged(self->group));
	ASSERT_EQ(0, mkdir(self->child[0], 0755));
}

/* Idle CPUs still have the address space of the ended process loaded, and so its mm_struct. */
TEST_F_TIMEOUT(misc, removed_cgroup_goes_with_its_last_replica, PATIENCE)
{
	struct process p = start(_metadata, self->child[0], self->child[1]);
	char path[128];

	EXPECT_LT(0, read_more(_metadata, &p));
	finish(_metadata, &p);
	EXPECT_TRUE(nothing_is_charged(self->child[0]));
	ASSERT_EQ(0, rmdir(self->child[0]));
	snprintf(path, sizeof(path), "%scgroup.stat", self->group);
	for (int i = 0; i < 50 && hydra_number(path, "nr_dying_subsys_misc"); i++)
		usleep(100000);
	EXPECT_EQ(0, hydra_number(path, "nr_dying_subsys_misc"));
	ASSERT_EQ(0, mkdir(self->child[0], 0755));
}

HYDRA_HARNESS_MAIN
