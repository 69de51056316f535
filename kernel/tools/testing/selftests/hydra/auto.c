// SPDX-License-Identifier: GPL-2.0-only
/*
 * Policy "auto": a process is split while that pays, and is plain Linux otherwise. The tests look
 * every 50 ms, and set prices by which a decision takes a few looks. What a process saves and
 * loses is up to the test: its threads take rights from pages of their own, or of all.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define AUTO		HYDRA_SYSFS "auto/"
#define PRICE		AUTO "price_"
#define HUGETLB		"/proc/sys/vm/nr_hugepages"
#define LOOK_MS		50
#define TIMEOUT_S	60	/* until a process has come to a state */
#define SOME_LOOKS	20	/* more than a decision takes */
#define FLUSHES		200
#define TIMES		20	/* that the rights of a page change */
#define ROUNDS		300	/* of a barrier */
#define RESERVE_US	50000	/* in the purse, for looks while the host is busy */
#define STRAY		2	/* interrupts for other reasons */
#define MOST(n)		((n) * 3 / 4)	/* a thread does not run all the time */
#define SLOT_PAGES	4UL	/* two of them are mapped */
#define MOST_WORKERS	((int)(TABLE_PAGES / SLOT_PAGES) - 1)
#define ROOM		(32 * (long)PAGE_SIZE)	/* in a memory cgroup; 64 pages would be enough */
#define PROCESSES	4

/* What the kernel knows of a process */
struct account {
	char state[32], why[32];	/* empty: its domains are not "auto" */
	long split, tries, price_us, balance_us, purse_us;
	long flushes, fills, across, barriers;
};

static bool read_account(pid_t pid, struct account *a)
{
	const struct {
		const char *key;
		long *to;
	} numbers[] = {
		{ "split", &a->split }, { "tries", &a->tries }, { "price_us", &a->price_us },
		{ "balance_us", &a->balance_us }, { "purse_us", &a->purse_us },
		{ "flushes", &a->flushes }, { "fills", &a->fills },
		{ "cpus_interrupted_across", &a->across }, { "barriers", &a->barriers },
	};
	char path[64], text[16384], *line, *rest;

	*a = (struct account){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/hydra", pid);
	if (hydra_read_file(path, text, sizeof(text)) < 0)
		return false;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char key[32];
		long value;

		if (sscanf(line, "auto %31s", a->state) == 1 ||
		    sscanf(line, "why %31s", a->why) == 1 ||
		    sscanf(line, "%31s %ld", key, &value) != 2)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
			if (!strcmp(key, numbers[i].key))
				*numbers[i].to = value;
	}
	return true;
}

static long stat_of(const char *key)
{
	return hydra_number(AUTO "stats", key);
}

static bool is_in(const struct account *a, const char *state, const char *why)
{
	return !strcmp(a->state, state) && (!why || !strcmp(a->why, why));
}

static double end_of_patience(void)
{
	return hydra_seconds() + TIMEOUT_S * hydra_patience();
}

/*
 * Wait until a process is in a state.
 *
 * @why: NULL: for any reason
 * @act: what this thread does meanwhile, again and again
 * @a: set to the last account
 */
static bool await(pid_t pid, const char *state, const char *why, void (*act)(void),
		  struct account *a)
{
	double end = end_of_patience();

	do {
		act();
		if (!read_account(pid, a))
			return false;
		if (is_in(a, state, why))
			return true;
		usleep(LOOK_MS * 1000 / 2);
	} while (hydra_seconds() < end);
	return false;
}

/* Is a process in a state for so many looks? As await() */
static bool stays(pid_t pid, const char *state, const char *why, void (*act)(void),
		  struct account *a, long looks)
{
	long last = stat_of("looks") + looks;
	double end = end_of_patience();

	do {
		act();
		if (!read_account(pid, a) || !is_in(a, state, why) || hydra_seconds() > end)
			return false;
		usleep(LOOK_MS * 1000 / 2);
	} while (stat_of("looks") < last);
	return true;
}

#define SHOW_ACCOUNT() \
	TH_LOG("%s, %s, split %ld, tries %ld, price %ld, balance %ld, purse %ld", self->a.state, \
	       self->a.why, self->a.split, self->a.tries, self->a.price_us, self->a.balance_us, \
	       self->a.purse_us)

#define ASSERT_COMES(pid, state, why, act) do {					\
	ASSERT_TRUE(await(pid, state, why, act, &self->a)) SHOW_ACCOUNT();	\
} while (0)

#define ASSERT_STAYS(pid, state, why, act, looks) do {				\
	ASSERT_TRUE(stays(pid, state, why, act, &self->a, looks)) SHOW_ACCOUNT(); \
} while (0)

/* Nothing of a process that has never been split is counted. */
#define EXPECT_NEVER_SPLIT() do {						\
	EXPECT_EQ(0, self->a.split + self->a.flushes + self->a.fills) SHOW_ACCOUNT(); \
} while (0)

/* What the threads do besides reading all slots */
enum doing {
	REST,
	PAY,	/* each has a leaf table of its own, and changes rights there */
	SHARE,	/* each changes the rights of its slot in one table */
};

/*
 * Threads that never sleep. Number 0 is the main thread, which sleeps. The first table of the
 * area has a slot for each thread, and the others belong to one thread each.
 */
static struct {
	char *area;
	struct worker {
		pthread_t thread;
		int number, node, cpu;
		atomic_ulong rounds;
	} workers[MOST_WORKERS + 1];
	atomic_int count, doing;
	atomic_bool stop;
} load;

static char *slot_of(int number)
{
	return load.area + number * SLOT_PAGES * PAGE_SIZE;
}

static char *own_of(int number)
{
	return load.area + (number + 1) * TABLE_SIZE;
}

/* Two flushes. Of two pages: a flush of one page may be meant as a barrier. */
static void change(char *pages)
{
	*(volatile char *)pages = 1;
	*(volatile char *)(pages + PAGE_SIZE) = 1;
	if (mprotect(pages, 2 * PAGE_SIZE, PROT_READ) ||
	    mprotect(pages, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE))
		abort();
}

/* What the main thread does */
static void rest(void)
{
}

static void pay(void)
{
	change(own_of(0));
}

static void share(void)
{
	change(slot_of(0));
}

static void *work(void *arg)
{
	struct worker *w = arg;

	hydra_pin_to_cpu(w->cpu);
	while (!atomic_load(&load.stop)) {
		int doing = atomic_load(&load.doing);

		if (doing == PAY)
			change(own_of(w->number));
		if (doing == SHARE)
			change(slot_of(w->number));
		for (int i = atomic_load(&load.count); i >= 0; i--)
			(void)*(volatile char *)slot_of(i);
		atomic_fetch_add(&w->rounds, 1);
		__builtin_ia32_pause();
	}
	return NULL;
}

static void map_pages_of(int number)
{
	hydra_map(slot_of(number), 2);
	hydra_map(own_of(number), 2);
}

static void start_worker(int node, int cpu)
{
	int number = atomic_load(&load.count) + 1;
	struct worker *w = &load.workers[number];
	pthread_attr_t attr;

	if (number > MOST_WORKERS)
		return;
	map_pages_of(number);
	w->number = number;
	w->node = node;
	w->cpu = cpu;
	/* mlockall() populates stacks. */
	if (pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, 1 << 18) ||
	    pthread_create(&w->thread, &attr, work, w))
		abort();
	while (!atomic_load(&w->rounds))
		usleep(1000);
	atomic_store(&load.count, number);
}

/* Start a worker on each CPU of all nodes. */
static void start_workers(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 0; node < hydra_nodes(); node++)
		for (int i = hydra_node_cpus(node, cpus) - 1; i >= 0; i--)
			start_worker(node, cpus[i]);
}

/* All threads move to a node. */
static void move_workers(int node)
{
	int cpus[HYDRA_MAX_CPUS];
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = hydra_node_cpus(node, cpus) - 1; i >= 0; i--)
		CPU_SET(cpus[i], &set);
	for (int number = 1; number <= load.count; number++)
		if (pthread_setaffinity_np(load.workers[number].thread, sizeof(set), &set))
			abort();
	hydra_pin_to_node(node);
}

/* Workers on the nodes after the first */
static int workers_on_other_nodes(void)
{
	int others = 0;

	for (int number = 1; number <= load.count; number++)
		others += load.workers[number].node > 0;
	return others;
}

static bool await_trees(void)
{
	double end = end_of_patience();
	struct hydra_stats stats;
	int trees;

	do {
		if (hydra_read_stats(getpid(), &stats))
			return false;
		trees = 0;
		for (int node = 0; node < hydra_nodes(); node++)
			trees += hydra_on_node(&stats, node)->own_root;
		if (stats.split && trees == hydra_nodes())
			return true;
		usleep(LOOK_MS * 1000);
	} while (hydra_seconds() < end);
	return false;
}

/* The settings that tests change, and the prices of the tests in ns */
static const struct {
	const char *name, *value;
} settings[] = {
	{ "look_ms", "50" },	/* LOOK_MS */
	{ "barrier", "one-page" },
	{ "price_interrupt", "200000" },
	{ "price_change", "200000" },
	{ "price_fill", "5000" },
	{ "price_root", "1000" },
	{ "price_release", "1000" },
	{ "price_look", "1" },
	{ "price_more", "1" },
	{ "price_flush", "1" },
	{ "price_walk", "1" },
};

static int set_price(const char *name, unsigned int ns)
{
	return hydra_write_number(PRICE, name, "%u", ns);
}

FIXTURE(auto) {
	struct account a;	/* the last one that was read */
	int last;		/* node */
	char group[64];		/* empty: none */
	pid_t child;		/* in the group; 0: none */
	char before[ARRAY_SIZE(settings)][32];
	char huge_pages[32];
};

FIXTURE_SETUP(auto)
{
	char path[128];

	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_stop_balancing());
	ASSERT_EQ(0, hydra_leave_other_nodes());
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		snprintf(path, sizeof(path), AUTO "%s", settings[i].name);
		ASSERT_LT(0, hydra_read_file(path, self->before[i], sizeof(self->before[i])));
		ASSERT_EQ(0, hydra_write_file(path, settings[i].value));
	}
	self->last = hydra_nodes() - 1;
	load.area = hydra_reserve((MOST_WORKERS + 2) * TABLE_SIZE);
	map_pages_of(0);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "auto"));
}

/* A group for this process, or for a child that has ended */
static void leave_group(const char *group)
{
	hydra_write_number(group, "cpuset.cpus.partition", "member");
	hydra_write_number(group, "../cgroup.procs", "%d", 0);
	for (int i = 0; i < 100 && rmdir(group) && errno == EBUSY; i++)
		usleep(100000);
	hydra_write_number(group, "../cgroup.subtree_control", "-cpuset");
}

FIXTURE_TEARDOWN(auto)
{
	atomic_store(&load.stop, true);
	for (int number = 1; number <= load.count; number++)
		pthread_join(load.workers[number].thread, NULL);
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		EXPECT_EQ(128 + SIGKILL, hydra_wait_child(self->child));
	}
	if (self->group[0])
		leave_group(self->group);
	if (self->huge_pages[0])
		EXPECT_EQ(0, hydra_write_file(HUGETLB, self->huge_pages));
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		EXPECT_EQ(0, hydra_write_number(AUTO, settings[i].name, "%s", self->before[i]));
	EXPECT_EQ(0, hydra_restore_balancing());
	hydra_assert_consistent();
}

/*
 * Split this process, and wait until the split has paid: what it loses now was a gain. Looks are
 * paid by the CPU time that they take, which is long where the host stops a CPU meanwhile.
 */
static void split_with_gain(struct __test_metadata *_metadata, FIXTURE_DATA(auto) *self)
{
	double end = end_of_patience();

	start_workers();
	do {
		ASSERT_COMES(getpid(), "split", "saves", pay);
		ASSERT_GT(end, hydra_seconds());
	} while (self->a.balance_us < self->a.price_us || self->a.purse_us < RESERVE_US);
	ASSERT_TRUE(await_trees());
}

/* All threads change memory of their own, and keep mmap_lock busy. */
TEST_F_TIMEOUT(auto, process_that_pays_is_split, 180)
{
	double end = end_of_patience();
	struct account from;

	start_workers();
	atomic_store(&load.doing, PAY);
	ASSERT_COMES(getpid(), "split", "saves", rest);
	ASSERT_TRUE(await_trees());
	ASSERT_TRUE(read_account(getpid(), &from));
	do {
		ASSERT_GT(end, hydra_seconds());
		usleep(LOOK_MS * 1000);
		ASSERT_TRUE(read_account(getpid(), &self->a));
	} while (self->a.flushes < from.flushes + FLUSHES);
	EXPECT_GE(STRAY, self->a.across - from.across);
	EXPECT_EQ(1, self->a.split);
}

/* All threads use and change one table, and keep mmap_lock busy. */
TEST_F_TIMEOUT(auto, process_that_shares_returns, 180)
{
	/* By marks, a flush would spare a CPU that has not run since the last one. */
	ASSERT_EQ(0, hydra_write_policy(getpid(), "auto,filter=table"));
	start_workers();
	atomic_store(&load.doing, SHARE);
	ASSERT_COMES(getpid(), "returned", "shared", rest);
	EXPECT_EQ(1, self->a.tries);
	EXPECT_EQ(0, self->a.split);
}

TEST_F_TIMEOUT(auto, one_node_is_never_split, 180)
{
	int cpus[HYDRA_MAX_CPUS], count = hydra_node_cpus(0, cpus);

	for (int i = 0; i < 8; i++)
		start_worker(0, cpus[i % count]);
	atomic_store(&load.doing, PAY);
	ASSERT_STAYS(getpid(), "plain", "one-node", rest, SOME_LOOKS);
	EXPECT_NEVER_SPLIT();
}

TEST_F_TIMEOUT(auto, one_thread_is_never_split, 180)
{
	for (int node = 0; node <= self->last; node++) {
		hydra_pin_to_node(node);
		ASSERT_STAYS(getpid(), "plain", "one-node", pay, SOME_LOOKS);
	}
	EXPECT_NEVER_SPLIT();
}

/* A split would cost next to nothing, and flushes cost less than 0.2 % of the CPU time. */
TEST_F_TIMEOUT(auto, quiet_process_is_left_alone, 180)
{
	ASSERT_EQ(0, set_price("interrupt", 100));
	ASSERT_EQ(0, set_price("fill", 1));
	ASSERT_EQ(0, set_price("root", 1));
	ASSERT_EQ(0, set_price("release", 1));
	start_workers();
	ASSERT_COMES(getpid(), "watched", "quiet", pay);
	ASSERT_STAYS(getpid(), "watched", "quiet", pay, 2 * SOME_LOOKS);
	EXPECT_NEVER_SPLIT();
}

/* Use so many more tables. */
static bool use_tables(size_t nr)
{
	char *area = mmap(NULL, nr * TABLE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (size_t i = 0; area != MAP_FAILED && i < nr; i++)
		area[i * TABLE_SIZE] = 1;
	return area != MAP_FAILED;
}

/*
 * The purse earns 1 % of the CPU time: 80 ms in a second, on eight CPUs. A try costs more than a
 * second: so the threads are seen to wait, on a slow host, too.
 */
TEST_F_TIMEOUT(auto, split_waits_for_the_purse, 180)
{
	double end = end_of_patience();

	ASSERT_EQ(0, set_price("interrupt", 1000000));
	ASSERT_EQ(0, set_price("fill", 1000000));
	ASSERT_TRUE(use_tables(256));
	start_workers();
	/* The rent has to reach the price long before the purse does. */
	atomic_store(&load.doing, PAY);
	ASSERT_COMES(getpid(), "watched", "purse", pay);
	EXPECT_GT(self->a.price_us, self->a.purse_us);
	EXPECT_NEVER_SPLIT();
	do {
		pay();
		usleep(LOOK_MS * 1000 / 2);
		ASSERT_TRUE(read_account(getpid(), &self->a));
		ASSERT_GT(end, hydra_seconds()) SHOW_ACCOUNT();
	} while (!is_in(&self->a, "split", NULL));
	/* The look that decided found another price than the looks before and after. */
	TH_LOG("split: price %lld us, purse %lld us", (long long)self->a.price_us,
	       (long long)self->a.purse_us);
}

/* For a reason that goes away: then the process is split. */
static void expect_left_alone(struct __test_metadata *_metadata, FIXTURE_DATA(auto) *self,
			      const char *why)
{
	ASSERT_COMES(getpid(), "watched", why, pay);
	ASSERT_STAYS(getpid(), "watched", why, pay, SOME_LOOKS);
	EXPECT_NEVER_SPLIT();
}

static int choose_class(int policy, int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	return sched_setscheduler(0, policy, &param) ? -errno : 0;
}

TEST_F_TIMEOUT(auto, left_alone_realtime, 180)
{
	start_workers();
	ASSERT_EQ(0, choose_class(SCHED_FIFO, 1));
	expect_left_alone(_metadata, self, "realtime");
	ASSERT_EQ(0, choose_class(SCHED_OTHER, 0));
	ASSERT_COMES(getpid(), "split", "saves", pay);
}

TEST_F_TIMEOUT(auto, left_alone_locked, 180)
{
	start_workers();
	ASSERT_EQ(0, mlockall(MCL_CURRENT | MCL_FUTURE));
	expect_left_alone(_metadata, self, "locked");
	ASSERT_EQ(0, munlockall());
	ASSERT_COMES(getpid(), "split", "saves", pay);
}

/* The kernel counts the size of the mapping: a single huge page is enough. */
TEST_F_TIMEOUT(auto, left_alone_hugetlb, 180)
{
	const size_t size = 1UL << 30;
	long free_pages;
	char *huge;

	if (hydra_read_file(HUGETLB, self->huge_pages, sizeof(self->huge_pages)) < 0)
		SKIP(return, "no " HUGETLB " (CONFIG_HUGETLBFS)");
	ASSERT_EQ(0, hydra_write_number(HUGETLB, "", "%ld", atol(self->huge_pages) + 1));
	free_pages = hydra_number("/proc/meminfo", "HugePages_Free:");
	if (free_pages < 1)
		SKIP(return, "no huge page is free");
	huge = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, huge);
	*(volatile char *)huge = 1;
	start_workers();
	expect_left_alone(_metadata, self, "hugetlb");
	ASSERT_EQ(0, munmap(huge, size));
	ASSERT_COMES(getpid(), "split", "saves", pay);
}

static char *full_group;

static long group_number(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s%s", full_group, name);
	return hydra_number(path, NULL);
}

/* Its limit follows what the group uses. */
static void leave_little_room(void)
{
	long used = group_number("memory.current"), room = group_number("memory.max") - used;

	if ((room < ROOM / 2 || room > ROOM / 2 * 3) &&
	    hydra_write_number(full_group, "memory.max", "%ld", used + ROOM))
		abort();
}

/* A child, as the limit might kill it */
static void pay_in_group(const char *group)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (hydra_write_number(group, "cgroup.procs", "%d", 0))
		_exit(1);
	start_workers();
	for (;;) {
		pay();
		usleep(LOOK_MS * 1000 / 2);
	}
}

TEST_F_TIMEOUT(auto, left_alone_memory, 180)
{
	ASSERT_EQ(0, hydra_make_group(self->group))
		TH_LOG("no memory cgroup can be made (CONFIG_MEMCG)");
	full_group = self->group;
	ASSERT_EQ(0, hydra_write_number(self->group, "memory.swap.max", "0"));
	/* No split until the group is full */
	ASSERT_EQ(0, set_price("interrupt", 1));
	self->child = fork();
	if (!self->child)
		pay_in_group(self->group);
	ASSERT_LT(0, self->child);
	ASSERT_COMES(self->child, "watched", "quiet", rest);
	ASSERT_COMES(self->child, "watched", "memory", leave_little_room);
	ASSERT_EQ(0, set_price("interrupt", 200000));
	ASSERT_STAYS(self->child, "watched", "memory", leave_little_room, SOME_LOOKS);
	EXPECT_NEVER_SPLIT();
	ASSERT_EQ(0, hydra_write_number(self->group, "memory.max", "max"));
	ASSERT_COMES(self->child, "split", "saves", rest);
}

/*
 * One CPU of the first node, and one of the last, make an isolated cpuset partition. NULL, or why
 * there is none.
 */
static const char *isolate(const char *group, int first, int last)
{
	char path[128], text[128];

	if (hydra_write_number(group, "../cgroup.subtree_control", "+cpuset"))
		return "no cpuset controller (CONFIG_CPUSETS)";
	snprintf(path, sizeof(path), "%scpuset.cpus.partition", group);
	if (hydra_write_number(group, "cpuset.cpus", "%d,%d", first, last) ||
	    hydra_write_file(path, "isolated") || hydra_read_file(path, text, sizeof(text)) < 0 ||
	    strcmp(text, "isolated\n") || hydra_write_number(group, "cgroup.procs", "%d", 0))
		return "no isolated cpuset partition";
	return NULL;
}

/* A return would interrupt the isolated CPUs. */
TEST_F_TIMEOUT(auto, stays_split_while_an_isolated_cpu_runs_it, 180)
{
	int first[HYDRA_MAX_CPUS], last[HYDRA_MAX_CPUS];
	int nr_first = hydra_node_cpus(0, first), nr_last = hydra_node_cpus(self->last, last);
	const char *missing;

	if (nr_first < 2)
		SKIP(return, "no CPU is left on the first node beside an isolated one");
	ASSERT_EQ(0, hydra_make_group(self->group));
	missing = isolate(self->group, first[nr_first - 1], last[nr_last - 1]);
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "auto,filter=table"));
	hydra_pin_to_cpu(last[nr_last - 1]);
	start_worker(0, first[nr_first - 1]);
	start_worker(self->last, last[nr_last - 1]);
	ASSERT_COMES(getpid(), "split", NULL, pay);
	ASSERT_COMES(getpid(), "split", "isolated", share);
	ASSERT_STAYS(getpid(), "split", "isolated", share, SOME_LOOKS);
	EXPECT_EQ(1, self->a.split);
	ASSERT_EQ(0, hydra_write_number(self->group, "cpuset.cpus.partition", "member"));
	ASSERT_COMES(getpid(), "returned", NULL, share);
}

#define MANY	16500UL		/* leaf tables, of a page each: with four nodes 66,000 copies */

static char *many;

/* The node of the calling thread gets copies. */
static void read_many(void)
{
	for (size_t i = 0; i < MANY; i++)
		(void)*(volatile char *)(many + i * TABLE_SIZE);
}

/* A process is split, and returns in parts, however many tables it has. */
TEST_F_TIMEOUT(auto, process_with_many_tables_returns, 300)
{
	many = mmap(NULL, MANY * TABLE_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, many);
	for (size_t i = 0; i < MANY; i++)
		many[i * TABLE_SIZE] = 1;
	ASSERT_EQ(0, hydra_write_policy(getpid(), "auto,filter=table"));
	ASSERT_EQ(0, set_price("fill", 50));
	ASSERT_EQ(0, set_price("release", 1));
	split_with_gain(_metadata, self);
	hydra_pin_to_node(self->last);
	read_many();
	ASSERT_COMES(getpid(), "returned", NULL, share);
	EXPECT_EQ(0, self->a.split);
}

TEST_F_TIMEOUT(auto, returns_when_one_node_alone_runs_it, 180)
{
	split_with_gain(_metadata, self);
	move_workers(self->last);
	ASSERT_COMES(getpid(), "returned", "one-node", rest);
	EXPECT_EQ(0, self->a.tries);
	EXPECT_EQ(0, self->a.split);
}

/* The workers make no system call for some seconds. All the same they run. */
TEST_F_TIMEOUT(auto, stays_split_while_two_nodes_run_it, 180)
{
	split_with_gain(_metadata, self);
	ASSERT_STAYS(getpid(), "split", "saves", rest, 4 * SOME_LOOKS);
	EXPECT_EQ(1, self->a.split);
	hydra_assert_consistent();
}

static void *visit_node(void *node)
{
	hydra_pin_to_node(*(int *)node);
	return hydra_is_split() ? node : NULL;
}

/* Run in a child of a process that is split, while there is no look */
static int begin_plain(void)
{
	int last = hydra_nodes() - 1;
	struct hydra_settings s;
	struct account a;
	pthread_t thread;
	void *was_split;

	if (hydra_get(&s) || s.domains != HYDRA_SCOPE_AUTO || !read_account(getpid(), &a))
		return 1;
	if (!is_in(&a, "plain", "one-node") || a.split || a.tries || a.purse_us)
		return 2;
	if (pthread_create(&thread, NULL, visit_node, &last) || pthread_join(thread, &was_split))
		return 3;
	return was_split ? 4 : 0;
}

TEST_F_TIMEOUT(auto, decisions_are_not_inherited, 180)
{
	double end = end_of_patience();
	long looks;
	pid_t child;

	split_with_gain(_metadata, self);
	looks = stat_of("looks");
	ASSERT_EQ(0, hydra_write_number(AUTO, "look_ms", "%d", 60000));
	/* This look is the last. */
	while (stat_of("looks") == looks) {
		ASSERT_GT(end, hydra_seconds());
		usleep(LOOK_MS * 1000);
	}
	child = fork();
	if (!child)
		_exit(begin_plain());
	ASSERT_LT(0, child);
	EXPECT_EQ(0, hydra_wait_child(child))
		TH_LOG("that is where begin_plain() returned");
	EXPECT_TRUE(hydra_is_split());
}

TEST_F_TIMEOUT(auto, own_choice_ends_auto, 180)
{
	long flushes;

	split_with_gain(_metadata, self);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "linux"));
	ASSERT_TRUE(read_account(getpid(), &self->a));
	EXPECT_EQ(0, self->a.split);
	flushes = self->a.flushes;
	/* There may be no process left that looks are for. */
	for (int i = 0; i < SOME_LOOKS; i++) {
		pay();
		usleep(LOOK_MS * 1000);
	}
	ASSERT_TRUE(read_account(getpid(), &self->a));
	EXPECT_STREQ("", self->a.state);
	EXPECT_EQ(0, self->a.split);
	EXPECT_EQ(flushes, self->a.flushes);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra"));
	ASSERT_TRUE(await_trees());
	ASSERT_TRUE(read_account(getpid(), &self->a));
	EXPECT_STREQ("", self->a.state);
}

/* Change the rights of memory often. @grown: set to what has been counted meanwhile */
static void change_often(struct __test_metadata *_metadata, char *memory, size_t size,
			 struct account *grown)
{
	struct account from;

	ASSERT_TRUE(read_account(getpid(), &from));
	for (int i = 0; i < TIMES; i++) {
		*(volatile char *)memory = 1;
		ASSERT_EQ(0, mprotect(memory, size, PROT_READ));
		ASSERT_EQ(0, mprotect(memory, size, PROT_READ | PROT_WRITE));
	}
	ASSERT_TRUE(read_account(getpid(), grown));
	ASSERT_EQ(1, grown->split);
	grown->barriers -= from.barriers;
	grown->across -= from.across;
}

/* A page that the first node alone has used. The main thread has pages of its own there. */
static char *page_of_barrier(void)
{
	return hydra_map(own_of(0) + 8 * PAGE_SIZE, 1);
}

#define EXPECT_NO_BARRIER() do {						\
	EXPECT_EQ(0, self->a.barriers);						\
	EXPECT_GE(STRAY, self->a.across);					\
} while (0)

/* Flushes interrupt threads of other nodes only if they may be meant to. */
TEST_F_TIMEOUT(auto, mprotect_of_a_page_is_a_barrier, 180)
{
	char *page = page_of_barrier();

	split_with_gain(_metadata, self);
	change_often(_metadata, page, PAGE_SIZE, &self->a);
	EXPECT_LE(TIMES, self->a.barriers);
	EXPECT_LE(MOST(self->a.barriers * workers_on_other_nodes()), self->a.across);
	change_often(_metadata, own_of(0), 2 * PAGE_SIZE, &self->a);
	EXPECT_NO_BARRIER();
	ASSERT_EQ(0, hydra_write_file(AUTO "barrier", "off"));
	change_often(_metadata, page, PAGE_SIZE, &self->a);
	EXPECT_NO_BARRIER();
	ASSERT_EQ(0, hydra_write_file(AUTO "barrier", "one-page"));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra"));
	ASSERT_TRUE(await_trees());
	change_often(_metadata, page, PAGE_SIZE, &self->a);
	EXPECT_NO_BARRIER();
}

TEST_F_TIMEOUT(auto, process_with_membarrier_needs_no_barrier, 180)
{
	char *page = page_of_barrier();

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		SKIP(return, "no membarrier(2) (CONFIG_MEMBARRIER)");
	split_with_gain(_metadata, self);
	change_often(_metadata, page, PAGE_SIZE, &self->a);
	EXPECT_NO_BARRIER();
}

/*
 *    the main thread, node 0        the other thread, last node
 *    y = i                          x = i
 *    takes a right from a page      <no barrier of the CPU>
 *    reads x                        reads y
 *
 * One of both has to read i, as with a barrier in each thread.
 */
static struct {
	_Alignas(64) volatile unsigned int x;
	_Alignas(64) volatile unsigned int y;
	_Alignas(64) atomic_uint begun;
	_Alignas(64) atomic_uint ended;
	unsigned int seen;	/* of y, in this round */
	int cpu;
} idiom;

static void *store_and_load(void *unused)
{
	unsigned int round = 0;

	hydra_pin_to_cpu(idiom.cpu);
	while (round < ROUNDS) {
		if (atomic_load_explicit(&idiom.begun, memory_order_relaxed) == round)
			continue;
		idiom.x = ++round;
		atomic_signal_fence(memory_order_seq_cst);
		idiom.seen = idiom.y;
		atomic_store_explicit(&idiom.ended, round, memory_order_release);
	}
	return NULL;
}

TEST_F_TIMEOUT(auto, stores_and_loads_are_in_order_around_mprotect, 180)
{
	int first[HYDRA_MAX_CPUS], last[HYDRA_MAX_CPUS], wrong = 0;
	char *page = page_of_barrier();
	uint64_t random = hydra_seed() + 1;
	struct account from;
	pthread_t thread;

	hydra_node_cpus(0, first);
	hydra_node_cpus(self->last, last);
	idiom.cpu = last[0];
	ASSERT_EQ(0, pthread_create(&thread, NULL, store_and_load, NULL));
	start_worker(0, first[0]);
	ASSERT_COMES(getpid(), "split", NULL, pay);
	/* With few threads the purse does not pay for looks as slow as an emulator's. */
	ASSERT_EQ(0, hydra_write_number(AUTO, "look_ms", "%d", 60000));
	ASSERT_TRUE(read_account(getpid(), &from));
	for (unsigned int round = 1; round <= ROUNDS; round++) {
		unsigned int seen;

		ASSERT_EQ(0, mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE));
		*(volatile char *)page = 1;
		atomic_store(&idiom.begun, round);
		for (int i = hydra_random(&random) % 64; i > 0; i--)
			__builtin_ia32_pause();
		idiom.y = round;
		ASSERT_EQ(0, mprotect(page, PAGE_SIZE, PROT_READ));
		seen = idiom.x;
		while (atomic_load(&idiom.ended) != round)
			__builtin_ia32_pause();
		wrong += seen != round && idiom.seen != round;
	}
	EXPECT_EQ(0, wrong);
	pthread_join(thread, NULL);
	ASSERT_TRUE(read_account(getpid(), &self->a));
	EXPECT_LE(ROUNDS, self->a.barriers - from.barriers) SHOW_ACCOUNT();
}

TEST_F(auto, settings_of_auto)
{
	static const char * const bad[][2] = {
		{ "look_ms", "9" }, { "look_ms", "60001" }, { "look_ms", "soon" },
		{ "barrier", "on" }, { "price_fill", "0" }, { "price_walk", "1000001" },
		{ "price_interrupt", "-1" },
	};
	struct hydra_settings seen, s = {
		HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_AUTO,
	};
	struct hydra_stats stats;
	char path[128], text[32];

	ASSERT_EQ(0, hydra_off());
	ASSERT_EQ(0, hydra_set(&s));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(0, memcmp(&s, &seen, sizeof(s)));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_STREQ("auto", stats.policy);
	EXPECT_STREQ("auto", stats.domains);
	EXPECT_EQ(1, stats.active);
	EXPECT_EQ(0, stats.split);

	s.replication = HYDRA_REPLICATE_EAGER;
	EXPECT_EQ(-EINVAL, hydra_set(&s));
	EXPECT_EQ(-EINVAL, hydra_write_policy(getpid(), "auto,replication=eager"));
	EXPECT_EQ(-EINVAL, hydra_write_policy(getpid(), "mitosis,domains=auto"));
	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra,domains=auto"));
	ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
	EXPECT_STREQ("custom", stats.policy);
	EXPECT_STREQ("auto", stats.domains);
	EXPECT_STREQ("table", stats.filter);

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, hydra_write_number(AUTO, bad[i][0], "%s", bad[i][1]))
			TH_LOG("%s %s", bad[i][0], bad[i][1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		snprintf(path, sizeof(path), AUTO "%s", settings[i].name);
		ASSERT_LT(0, hydra_read_file(path, text, sizeof(text)));
		EXPECT_STREQ(settings[i].value, strtok(text, "\n"));
	}
}

/* As long as the process is plain Linux, its flushes are Linux's, and are not counted. */
TEST_F_TIMEOUT(auto, looks_and_decisions_are_counted, 180)
{
	long looks = stat_of("looks"), splits = stat_of("splits"), returns = stat_of("returns");
	long spent = stat_of("spent_us"), flushes;

	/* A try would cost more than the purse earns meanwhile. */
	ASSERT_EQ(0, set_price("fill", 1000000));
	start_workers();
	ASSERT_COMES(getpid(), "watched", NULL, pay);
	ASSERT_STAYS(getpid(), "watched", NULL, pay, SOME_LOOKS / 2);
	EXPECT_NEVER_SPLIT();
	EXPECT_LE(1, stat_of("watched"));
	EXPECT_LT(looks, stat_of("looks"));
	ASSERT_EQ(0, set_price("fill", 5000));
	ASSERT_COMES(getpid(), "split", "saves", pay);
	EXPECT_LT(splits, stat_of("splits"));
	move_workers(0);
	ASSERT_COMES(getpid(), "returned", NULL, rest);
	EXPECT_LT(returns, stat_of("returns"));
	EXPECT_LT(spent, stat_of("spent_us"));
	flushes = self->a.flushes;
	EXPECT_LT(0, flushes);
	ASSERT_STAYS(getpid(), "returned", NULL, pay, SOME_LOOKS);
	EXPECT_EQ(flushes, self->a.flushes);
}

/* One thread on the first node, and one on the last. @i: the number of this process */
static void run_on_two_nodes(int i)
{
	int cpus[HYDRA_MAX_CPUS], last = hydra_nodes() - 1, count;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	count = hydra_node_cpus(0, cpus);
	start_worker(0, cpus[i % count]);
	count = hydra_node_cpus(last, cpus);
	start_worker(last, cpus[i % count]);
	for (;;)
		pause();
}

TEST_F_TIMEOUT(auto, process_that_ends_is_not_watched, 180)
{
	long looks = stat_of("looks"), before;
	pid_t children[PROCESSES];
	double end;

	/* The accounts of processes that have ended before this test end. */
	while (stat_of("looks") < looks + 2)
		usleep(LOOK_MS * 1000);
	before = stat_of("watched");

	for (int i = 0; i < PROCESSES; i++) {
		children[i] = fork();
		if (!children[i])
			run_on_two_nodes(i);
		ASSERT_LT(0, children[i]);
	}
	for (int i = 0; i < PROCESSES; i++)
		ASSERT_COMES(children[i], "watched", NULL, rest);
	EXPECT_LE(before + PROCESSES, stat_of("watched"));
	for (int i = 0; i < PROCESSES; i++) {
		kill(children[i], SIGKILL);
		EXPECT_EQ(128 + SIGKILL, hydra_wait_child(children[i]));
	}
	end = end_of_patience();
	while (stat_of("watched") > before) {
		ASSERT_GT(end, hydra_seconds())
			TH_LOG("%ld are watched, before %ld", stat_of("watched"), before);
		usleep(LOOK_MS * 1000);
	}
}

/*
 * A program that saves as long as it is plain Linux, and loses once a split has paid. Five splits
 * may follow each other, then one comes each 900 looks.
 */
TEST_F_TIMEOUT(auto, decisions_are_limited, 300)
{
	double end = hydra_seconds() + 2.5 * TIMEOUT_S * hydra_patience();
	long looks, splits;
	void (*act)(void) = pay;
	int waits = 0;

	ASSERT_EQ(0, hydra_write_policy(getpid(), "auto,filter=table"));
	start_workers();
	looks = -stat_of("looks");
	splits = -stat_of("splits");
	do {
		act();
		ASSERT_TRUE(read_account(getpid(), &self->a));
		if (!self->a.split)
			act = pay;
		else if (is_in(&self->a, "split", NULL) && self->a.balance_us >= self->a.price_us)
			act = share;
		waits += !strcmp(self->a.why, "waits");
		ASSERT_GT(end, hydra_seconds()) SHOW_ACCOUNT();
		usleep(LOOK_MS * 1000 / 2);
	} while (waits < 100);
	looks += stat_of("looks");
	splits += stat_of("splits");
	EXPECT_GE(5 + looks / 900, splits)
		TH_LOG("%ld splits in %ld looks", splits, looks);
}

HYDRA_HARNESS_MAIN
