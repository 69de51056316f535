// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counting: what Linux would interrupt, flushes of a process that is plain Linux, sums of
 * ended processes, and which processes may choose settings (/sys/kernel/mm/hydra/allow).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define FLUSHES		50
#define OWN		"/proc/self/hydra"

static long number(const char *key)
{
	return hydra_number(OWN, key);
}

/* Map a page, touch it, and unmap it, so that each time there is something to flush. */
static int flush_often(void)
{
	for (int i = 0; i < FLUSHES; i++) {
		char *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return -errno;
		*page = 1;
		if (munmap(page, PAGE_SIZE))
			return -errno;
	}
	return 0;
}

/* Run fn in a child. Return: as hydra_wait_child(). */
static int in_child(int (*fn)(void))
{
	int child = fork();

	if (!child)
		_exit(fn() ? 1 : 0);
	return child < 0 ? -1 : hydra_wait_child(child);
}

static int become_nobody(void)
{
	struct passwd *nobody = getpwnam("nobody");

	/* setuid() makes the files of /proc/self root's. */
	return !nobody || setgid(nobody->pw_gid) || setuid(nobody->pw_uid) ||
	       prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

FIXTURE(count) {
	char *area, *alone;
};

FIXTURE_SETUP(count)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	ASSERT_EQ(0, hydra_off());
}

FIXTURE_TEARDOWN(count)
{
	EXPECT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", "anybody"));
	EXPECT_EQ(0, spinners_end());
}

/* Start a spinner on each other CPU of the node of this thread. Return: how many. */
static int spin_on_own_node(void)
{
	int cpus[HYDRA_MAX_CPUS], count = hydra_node_cpus(0, cpus), started = 0;

	/* The thread itself stays on the first. */
	hydra_pin_to_cpu(cpus[0]);
	for (int i = 1; i < count; i++, started++)
		start_spinner(0, cpus[i]);
	return started;
}

/* How a counter grows in FLUSHES flushes, during each of which all spinners run */
struct growth {
	long flushes, interrupted, across;
};

static void count_growth(struct __test_metadata *_metadata, struct growth *g)
{
	*g = (struct growth){ -number("flushes"), -number("cpus_interrupted"),
			      -number("cpus_interrupted_across") };
	await_all();
	ASSERT_EQ(0, flush_often());
	g->flushes += number("flushes");
	g->interrupted += number("cpus_interrupted");
	g->across += number("cpus_interrupted_across");
}

/* Flushes and interrupts of a process under the settings of Linux are those of its node. */
TEST_F(count, interrupts_within_the_node)
{
	int spinners = spin_on_own_node();
	struct growth g;

	if (!spinners)
		SKIP(return, "the first node has a single CPU");
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	count_growth(_metadata, &g);
	EXPECT_LE(FLUSHES, g.flushes);
	EXPECT_LT(0, g.interrupted);
	EXPECT_GE(spinners * g.flushes, g.interrupted);
	EXPECT_EQ(0, g.across);
}

TEST_F(count, interrupts_across_nodes)
{
	int spinners;
	struct growth g;

	hydra_pin_to_node(0);
	spinners = spin_on_other_nodes();
	/* Nothing is counted unless a process asks. */
	count_growth(_metadata, &g);
	EXPECT_EQ(0, g.flushes);
	EXPECT_EQ(0, number("count"));

	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on\n"));
	EXPECT_EQ(1, number("count"));
	count_growth(_metadata, &g);
	EXPECT_LE(FLUSHES, g.flushes);
	EXPECT_LT(0, g.across);
	EXPECT_EQ(g.interrupted, g.across);
	EXPECT_GE(spinners * g.flushes, g.interrupted);
	/* The process is plain Linux, and stays it. */
	EXPECT_EQ(0, number("active"));
	EXPECT_EQ(0, number("split"));
	EXPECT_EQ(0, number("replica_tables"));

	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=off"));
	count_growth(_metadata, &g);
	EXPECT_EQ(0, g.flushes);
	EXPECT_EQ(0, number("count"));
}

/* Counting changes nothing for a process that is split, and the other way round. */
TEST_F(count, goes_on_when_settings_change)
{
	struct growth g;

	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	spin_on_other_nodes();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	EXPECT_EQ(1, number("split"));
	EXPECT_EQ(1, number("count"));
	count_growth(_metadata, &g);
	EXPECT_LE(FLUSHES, g.flushes);
	hydra_assert_consistent();
	ASSERT_EQ(0, hydra_off());
	EXPECT_EQ(0, number("split"));
	count_growth(_metadata, &g);
	EXPECT_LE(FLUSHES, g.flushes);
	EXPECT_LT(0, g.across);
}

#define SEED	7

/* Run in a child with threads on each node, under replication "eager" */
static int read_without_fills(void)
{
	char *area = hydra_reserve(2 * TABLE_SIZE);
	char *first = hydra_map(area, 1), *second = hydra_map(area + TABLE_SIZE, 1);
	struct hydra_stats before, after;
	int ret;

	hydra_start_workers(HYDRA_SLEEP);
	hydra_write_pages(0, first, 1, SEED);
	hydra_write_pages(0, second, 1, SEED);
	/* Once before: the thread's own pages */
	ret = hydra_probe(1, first, 1, HYDRA_READABLE, SEED) ||
	      hydra_read_stats(getpid(), &before) ||
	      hydra_probe(1, second, 1, HYDRA_READABLE, SEED) ||
	      hydra_read_stats(getpid(), &after) ||
	      !after.split || after.fills != before.fills;
	hydra_stop_workers();
	return ret;
}

/* The child of a process that is counted has all settings of its parent. */
TEST_F(count, child_is_eager)
{
	ASSERT_EQ(0, hydra_write_policy(getpid(), "mitosis"));
	EXPECT_EQ(0, in_child(read_without_fills));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	EXPECT_EQ(0, in_child(read_without_fills));
}

/*
 * How much more have ended processes counted since they had counted @before? If the kernel
 * uses the address space of a child while the child ends, its counters come later.
 */
static long ended_since(long before, long at_least)
{
	long grown = 0;

	for (int i = 0; i < 100 && grown < at_least; i++) {
		if (i)
			usleep(10000);
		grown = number("ended_flushes") - before;
	}
	return grown;
}

static int flush_in_grandchild(void)
{
	return flush_often() || in_child(flush_often);
}

static int flush_and_execute(void)
{
	if (flush_often())
		return 1;
	execl("/bin/true", "true", NULL);
	return 1;
}

TEST_F(count, ended_processes_are_summed)
{
	long before, grown;

	EXPECT_EQ(-1, number("ended_flushes"));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	before = number("ended_flushes");
	ASSERT_LE(0, before);

	ASSERT_EQ(0, in_child(flush_often));
	grown = ended_since(before, FLUSHES);
	EXPECT_LE(FLUSHES, grown);
	EXPECT_GT(2 * FLUSHES, grown);

	before = number("ended_flushes");
	ASSERT_EQ(0, in_child(flush_in_grandchild));
	EXPECT_LE(2 * FLUSHES, ended_since(before, 2 * FLUSHES));

	/* execve() ends the address space that the child forked. */
	before = number("ended_flushes");
	ASSERT_EQ(0, in_child(flush_and_execute));
	EXPECT_LE(FLUSHES, ended_since(before, FLUSHES));

	/* "count=on" again starts no new sum. */
	before = number("ended_flushes");
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	EXPECT_EQ(before, number("ended_flushes"));

	/* Children of a process that is not counted are not. */
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=off"));
	ASSERT_EQ(0, in_child(flush_often));
	EXPECT_EQ(-1, number("ended_flushes"));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));
	EXPECT_EQ(before, number("ended_flushes"));
}

static char program[64], seen[64];

static int show_as_nobody(void)
{
	int fd = open(seen, O_WRONLY | O_TRUNC);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || become_nobody())
		return 1;
	execl(program, "cat", OWN, NULL);
	return 1;
}

/* A set-uid program is not counted with the calling user's processes. */
TEST_F(count, set_uid_program_is_not_counted)
{
	char directory[] = "/tmp/hydra-count-XXXXXX", command[256];

	ASSERT_NE(NULL, mkdtemp(directory));
	ASSERT_EQ(0, mount("none", directory, "tmpfs", 0, NULL));
	ASSERT_EQ(0, chmod(directory, 0755));
	snprintf(program, sizeof(program), "%s/cat", directory);
	snprintf(seen, sizeof(seen), "%s/seen", directory);
	snprintf(command, sizeof(command), "cp /bin/cat %s && chmod 0755 %s && touch %s",
		 program, program, seen);
	ASSERT_EQ(0, system(command));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "count=on"));

	EXPECT_EQ(0, in_child(show_as_nobody));
	EXPECT_EQ(1, hydra_number(seen, "count"));
	ASSERT_EQ(0, chmod(program, 04755));
	EXPECT_EQ(0, in_child(show_as_nobody));
	EXPECT_EQ(0, hydra_number(seen, "count"));
	EXPECT_EQ(-1, hydra_number(seen, "ended_flushes"));
	EXPECT_EQ(0, umount(directory));
	EXPECT_EQ(0, rmdir(directory));
}

TEST_F(count, bad_texts_change_nothing)
{
	static const char * const texts[] = {
		"count", "count=", "count=1", "count=on,prefetch=3", "prefetch=3,count=on",
		" count=on", "COUNT=ON",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(texts); i++) {
		EXPECT_EQ(-EINVAL, hydra_write_policy(getpid(), texts[i]))
			TH_LOG("\"%s\"", texts[i]);
	}
	EXPECT_EQ(0, number("count"));
}

static int choose(void)
{
	return -hydra_on(9, HYDRA_FILTER_TABLE);
}

static int choose_by_file(void)
{
	return -hydra_write_policy(getpid(), "hydra");
}

static int (*chosen)(void);
static int expected;

static int choose_as_nobody(void)
{
	return become_nobody() || chosen() != expected;
}

static int choose_as_root(void)
{
	return chosen() != expected;
}

TEST_F(count, allowed_processes_choose_settings)
{
	static const struct {
		const char *word;
		int root, nobody;
	} words[] = {
		{ "anybody", 0, 0 },
		{ "cap_sys_nice", 0, EPERM },
		{ "nobody", EPERM, EPERM },
	};
	int (* const ways[])(void) = { choose, choose_by_file };
	char text[32];

	for (unsigned int i = 0; i < ARRAY_SIZE(words); i++) {
		ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", words[i].word));
		ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "allow", text, sizeof(text)));
		EXPECT_STREQ(words[i].word, strtok(text, "\n"));
		for (unsigned int j = 0; j < ARRAY_SIZE(ways); j++) {
			chosen = ways[j];
			expected = words[i].root;
			EXPECT_EQ(0, in_child(choose_as_root))
				TH_LOG("%s, root, way %u", words[i].word, j);
			expected = words[i].nobody;
			EXPECT_EQ(0, in_child(choose_as_nobody))
				TH_LOG("%s, nobody, way %u", words[i].word, j);
		}
	}
	EXPECT_EQ(-EINVAL, hydra_write_file(HYDRA_SYSFS "allow", "root"));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "allow", text, sizeof(text)));
	EXPECT_STREQ("nobody", strtok(text, "\n"));
}

/* A privileged process writes to a file that an unprivileged process has opened. */
TEST_F(count, file_opened_without_the_capability)
{
	int tell[2], fd, pidfd, child;
	int opened = -1;
	char end;

	ASSERT_EQ(0, hydra_write_file(HYDRA_SYSFS "allow", "cap_sys_nice"));
	ASSERT_EQ(0, pipe(tell));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(tell[0]);
		opened = become_nobody() ? -1 : open(OWN, O_WRONLY);
		if (write(tell[1], &opened, sizeof(opened)) != sizeof(opened))
			_exit(1);
		pause();
		_exit(0);
	}
	close(tell[1]);
	ASSERT_EQ(sizeof(opened), read(tell[0], &opened, sizeof(opened)));
	ASSERT_LE(0, opened);
	pidfd = syscall(SYS_pidfd_open, child, 0);
	ASSERT_LE(0, pidfd);
	fd = syscall(SYS_pidfd_getfd, pidfd, opened, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, write(fd, "hydra", 5));
	EXPECT_EQ(EPERM, errno);
	/* The privileged process's own file will do. */
	EXPECT_EQ(0, hydra_write_policy(child, "hydra"));
	EXPECT_EQ(0, kill(child, SIGKILL));
	hydra_wait_child(child);
	EXPECT_EQ(0, read(tell[0], &end, 1));
	close(tell[0]);
	close(pidfd);
	close(fd);
}

/*
 * "cpus_spared" is what Linux would have interrupted besides. So the same program first runs
 * under the settings of Linux, then under Hydra: the interrupts that /proc/interrupts counts
 * under Linux are those under Hydra and those spared, for CPUs that are busy with the
 * process, idle, or busy with another process.
 */
enum role {
	BUSY,		/* a thread of the process runs */
	IDLE,		/* a thread has run last, and sleeps: the CPU is lazy */
	ELSEWHERE,	/* a thread has run, and another process runs now */
};

#define OPERATIONS	4	/* of one batch */
#define BATCHES		9	/* of which the usual one counts */
#define ROUNDS		4	/* of operations after which the counter could fall */

static struct {
	int cpus[HYDRA_MAX_CPUS];
	pthread_t threads[HYDRA_MAX_CPUS];
	pid_t others[HYDRA_MAX_CPUS];
	int count, nr_others;
	atomic_uint turn, awake;
	atomic_bool stop;
} sleepers;

static void *sleeper_main(void *cpu)
{
	unsigned int turn;

	hydra_pin_to_cpu(*(int *)cpu);
	while (!atomic_load(&sleepers.stop)) {
		turn = atomic_load(&sleepers.turn);
		atomic_fetch_add(&sleepers.awake, 1);
		while (atomic_load(&sleepers.turn) == turn)
			hydra_futex_wait(&sleepers.turn, turn);
	}
	return NULL;
}

static void next_turn(void)
{
	atomic_store(&sleepers.awake, 0);
	atomic_fetch_add(&sleepers.turn, 1);
	syscall(SYS_futex, &sleepers.turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* All sleepers run, and sleep again. */
static void wake_sleepers(void)
{
	if (!sleepers.count)
		return;
	next_turn();
	while (atomic_load(&sleepers.awake) < sleepers.count)
		usleep(1000);
	usleep(20000);
}

static void start_sleeper(int cpu)
{
	int i = sleepers.count++;

	sleepers.cpus[i] = cpu;
	if (pthread_create(&sleepers.threads[i], NULL, sleeper_main, &sleepers.cpus[i]))
		abort();
}

/* Another process, which never sleeps, on the CPU of a sleeper */
static int start_other(int cpu)
{
	pid_t child = fork();

	if (!child) {
		hydra_pin_to_cpu(cpu);
		while (getppid() != 1)
			for (int i = 0; i < 1000; i++)
				__builtin_ia32_pause();
		_exit(0);
	}
	sleepers.others[sleepers.nr_others++] = child;
	return child < 0 ? -errno : 0;
}

FIXTURE(spared) {
	char *area, *alone;
	char *from, *to;	/* where mremap() moves a table back and forth */
	int busy, idle;		/* CPUs, without that of the main thread */
	int busy_away, idle_away;	/* of these, on the other nodes */
};

FIXTURE_VARIANT(spared) {
	enum role first, others;	/* what the CPUs of each node do */
};

FIXTURE_VARIANT_ADD(spared, busy) { .first = BUSY, .others = BUSY };
FIXTURE_VARIANT_ADD(spared, idle) { .first = IDLE, .others = IDLE };
FIXTURE_VARIANT_ADD(spared, mixed) { .first = IDLE, .others = BUSY };
FIXTURE_VARIANT_ADD(spared, elsewhere) { .first = ELSEWHERE, .others = ELSEWHERE };

FIXTURE_SETUP(spared)
{
	int cpus[HYDRA_MAX_CPUS], count;

	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	ASSERT_EQ(0, hydra_off());
	self->from = hydra_reserve(TABLE_SIZE);
	self->to = hydra_reserve(TABLE_SIZE);
	hydra_map(self->area, TABLE_PAGES);
	hydra_map(self->from, TABLE_PAGES);
	for (int node = 0; node < hydra_nodes(); node++) {
		count = hydra_node_cpus(node, cpus);
		if (!node)
			hydra_pin_to_cpu(cpus[0]);
		for (int i = !node; i < count; i++) {
			enum role role = i ? variant->others : variant->first;

			if (role == BUSY) {
				start_spinner(node, cpus[i]);
				self->busy++;
				self->busy_away += node > 0;
				continue;
			}
			start_sleeper(cpus[i]);
			if (role == ELSEWHERE) {
				ASSERT_EQ(0, start_other(cpus[i]));
				continue;
			}
			self->idle++;
			self->idle_away += node > 0;
		}
	}
}

FIXTURE_TEARDOWN(spared)
{
	for (int i = 0; i < sleepers.nr_others; i++) {
		kill(sleepers.others[i], SIGKILL);
		hydra_wait_child(sleepers.others[i]);
	}
	atomic_store(&sleepers.stop, true);
	next_turn();
	for (int i = 0; i < sleepers.count; i++)
		pthread_join(sleepers.threads[i], NULL);
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
}

static int op_protect(FIXTURE_DATA(spared) *self)
{
	int err = mprotect(self->area, PAGE_SIZE, PROT_READ);

	err |= mprotect(self->area, PAGE_SIZE, PROT_READ | PROT_WRITE);
	*(volatile char *)self->area = 1;
	return err;
}

/* A page alone in its leaf table, which munmap() frees */
static int op_unmap(FIXTURE_DATA(spared) *self)
{
	hydra_map(self->alone, 1);
	*(volatile char *)self->alone = 1;
	return munmap(self->alone, PAGE_SIZE);
}

/* Hydra flushes before Linux does: the CPUs of the first flush are not spared in the second. */
static int op_move(FIXTURE_DATA(spared) *self)
{
	char *from = self->from;

	*(volatile char *)from = 1;
	self->from = self->to;
	self->to = from;
	return mremap(from, TABLE_SIZE, TABLE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
		      self->from) != self->from;
}

/* What a batch of operations has counted */
struct batch {
	long interrupts;	/* by Linux */
	long interrupted, spared;	/* by Hydra */
};

static long all_interrupts(void)
{
	static uint64_t count[HYDRA_MAX_CPUS];
	long sum = 0;

	if (read_interrupts(count))
		return -1;
	for (int cpu = 0; cpu < HYDRA_MAX_CPUS; cpu++)
		sum += count[cpu];
	return sum;
}

static int run_batch(FIXTURE_DATA(spared) *self, int (*op)(FIXTURE_DATA(spared) *),
		     struct batch *batch)
{
	int err = 0;

	wake_sleepers();
	batch->interrupted = -number("cpus_interrupted");
	batch->spared = -number("cpus_spared");
	batch->interrupts = -all_interrupts();
	for (int i = 0; i < OPERATIONS; i++) {
		await_all();
		err |= op(self);
	}
	batch->interrupts += all_interrupts();
	batch->interrupted += number("cpus_interrupted");
	batch->spared += number("cpus_spared");
	return err;
}

static bool same(const struct batch *a, const struct batch *b)
{
	return a->interrupts == b->interrupts && a->interrupted == b->interrupted &&
	       a->spared == b->spared;
}

/*
 * The batch that came most often. In others, a kernel thread or another process has run on a
 * CPU for a moment, or interrupts were those of other processes.
 */
static int usual_batch(FIXTURE_DATA(spared) *self, int (*op)(FIXTURE_DATA(spared) *),
		       struct batch *usual)
{
	struct batch batches[BATCHES];
	int err, most = 0;

	/* Once before: tables are allocated, the program's own pages are filled. */
	err = run_batch(self, op, batches);
	for (int i = 0; i < BATCHES; i++) {
		int times = 1;

		err |= run_batch(self, op, &batches[i]);
		for (int j = 0; j < i; j++)
			times += same(&batches[i], &batches[j]);
		if (times > most) {
			most = times;
			*usual = batches[i];
		}
	}
	return err;
}

static bool all_have_trees(void)
{
	struct hydra_stats stats;

	if (hydra_read_stats(getpid(), &stats) || !stats.split)
		return false;
	for (int node = 0; node < hydra_nodes(); node++)
		if (!hydra_on_node(&stats, node)->own_root)
			return false;
	return true;
}

static bool get_all_trees(void)
{
	if (hydra_on(9, HYDRA_FILTER_TABLE))
		return false;
	for (int i = 0; i < 500 && !all_have_trees(); i++) {
		wake_sleepers();
		usleep(10000);
	}
	return all_have_trees();
}

TEST_F_TIMEOUT(spared, and_interrupted_are_what_linux_interrupts, 120)
{
	static const struct {
		const char *name;
		int (*op)(FIXTURE_DATA(spared) *);
		bool frees;	/* tables: Linux interrupts an idle CPU, once */
	} ops[] = {
		{ "mprotect", op_protect, false },
		{ "munmap with its table", op_unmap, true },
		{ "mremap of a table", op_move, false },
	};
	struct batch linux_does[ARRAY_SIZE(ops)], hydra_does;

	for (int i = 0; i < ARRAY_SIZE(ops); i++) {
		struct batch *batch = &linux_does[i];

		ASSERT_EQ(0, usual_batch(self, ops[i].op, batch));
		EXPECT_EQ(0, batch->interrupted + batch->spared);
		/* Otherwise the test would show nothing. */
		EXPECT_LE(OPERATIONS * self->busy + (ops[i].frees ? self->idle : 0),
			  batch->interrupts)
			TH_LOG("%s: %d busy and %d idle CPUs", ops[i].name, self->busy,
			       self->idle);
	}
	ASSERT_TRUE(get_all_trees());
	for (int i = 0; i < ARRAY_SIZE(ops); i++) {
		ASSERT_EQ(0, usual_batch(self, ops[i].op, &hydra_does));
		EXPECT_EQ(hydra_does.interrupts, hydra_does.interrupted);
		EXPECT_EQ(linux_does[i].interrupts, hydra_does.interrupted + hydra_does.spared)
			TH_LOG("%s: Linux interrupts %ld CPUs; Hydra %ld, and counts %ld as spared",
			       ops[i].name, linux_does[i].interrupts, hydra_does.interrupted,
			       hydra_does.spared);
		EXPECT_LE(OPERATIONS * self->busy_away + (ops[i].frees ? self->idle_away : 0),
			  hydra_does.spared)
			TH_LOG("%s: %d busy and %d idle CPUs on other nodes", ops[i].name,
			       self->busy_away, self->idle_away);
	}
}

/* Replicas are freed: flushes of Hydra's own interrupt the CPUs that run on their nodes. */
static int op_reclaim(FIXTURE_DATA(spared) *self)
{
	return hydra_write_file("/proc/sys/vm/drop_caches", "2");
}

static int op_sleep(FIXTURE_DATA(spared) *self)
{
	wake_sleepers();
	return 0;
}

/*
 * Tools take a counter that falls for that of another program. CPUs that Hydra interrupts, and
 * Linux would not, make less of what is spared; and what is told never falls.
 */
TEST_F_TIMEOUT(spared, never_falls, 300)
{
	int (* const ops[])(FIXTURE_DATA(spared) *) = {
		op_protect, op_sleep, op_reclaim, op_unmap, op_reclaim, op_move, op_move, op_sleep,
	};
	long told, now, reclaimed = number("reclaimed");

	ASSERT_TRUE(get_all_trees());
	for (int i = 0; i < OPERATIONS; i++) {
		await_all();
		ASSERT_EQ(0, op_protect(self));
	}
	/* Otherwise the test would show nothing. */
	told = number("cpus_spared");
	EXPECT_LE(self->busy_away ? 1 : 0, told);
	for (int i = 0; i < ROUNDS * ARRAY_SIZE(ops); i++) {
		await_all();
		ASSERT_EQ(0, ops[i % ARRAY_SIZE(ops)](self));
		now = number("cpus_spared");
		ASSERT_LE(told, now)
			TH_LOG("after operation %d", i);
		told = now;
	}
	EXPECT_LE(self->busy_away ? ROUNDS : 0, number("reclaimed") - reclaimed);
}

HYDRA_HARNESS_MAIN
