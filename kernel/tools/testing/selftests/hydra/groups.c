// SPDX-License-Identifier: GPL-2.0-only
/*
 * CPUs go from one domain of scope node to another while programs run, as in a virtual machine
 * whose host moves its CPUs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/hydra_para.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define PAGES		64	/* that a thread reads at a time */
#define TIMES		30	/* pages that are dropped while CPUs move */
#define MOVED		10	/* after each move */
#define REGROUP		HYDRA_SYSFS "regroup"
#define LATENCY		"/sys/module/kernel/parameters/hydra_latency"

/* Which domain each CPU is in */
struct groups {
	int cpus;	/* the highest number, plus one */
	int of[HYDRA_MAX_CPUS];
};

FIXTURE(groups) {
	struct groups before;
	char *area;	/* four leaf tables */
	char *alone;
	pid_t mover;
};

static void read_groups(struct groups *g)
{
	int cpus[HYDRA_MAX_CPUS];

	memset(g, 0, sizeof(*g));
	for (int i = 0; i < HYDRA_MAX_CPUS; i++)
		g->of[i] = -1;
	for (int node = 0; node < hydra_nodes(); node++)
		for (int i = hydra_domain_cpus(node, cpus) - 1; i >= 0; i--) {
			g->of[cpus[i]] = node;
			if (cpus[i] >= g->cpus)
				g->cpus = cpus[i] + 1;
		}
}

/* Return: 0 or a negative errno. */
static int write_groups(const struct groups *g)
{
	char text[4096];
	size_t length = 0;

	for (int node = 0; node < hydra_nodes(); node++) {
		const char *between = node ? "/" : "";

		for (int cpu = 0; cpu < g->cpus; cpu++)
			if (g->of[cpu] == node) {
				length += snprintf(text + length, sizeof(text) - length, "%s%d",
						   between, cpu);
				between = ",";
			}
		/* A domain without CPUs */
		if (node && *between == '/')
			length += snprintf(text + length, sizeof(text) - length, "/");
	}
	return hydra_write_file(REGROUP, text);
}

/* Another process moves CPUs at random, until it is killed. */
static void move_cpus(const struct groups *before)
{
	struct groups g = *before;
	uint64_t state = hydra_seed();

	for (;;) {
		for (int cpu = 0; cpu < g.cpus; cpu++)
			if (g.of[cpu] >= 0)
				g.of[cpu] = hydra_random(&state) % hydra_nodes();
		if (write_groups(&g))
			_exit(1);
	}
}

FIXTURE_SETUP(groups)
{
	HYDRA_BEGIN();
	read_groups(&self->before);
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
}

static void stop_mover(FIXTURE_DATA(groups) *self)
{
	if (self->mover <= 0)
		return;
	kill(self->mover, SIGKILL);
	waitpid(self->mover, NULL, 0);
	self->mover = 0;
}

FIXTURE_TEARDOWN(groups)
{
	stop_mover(self);
	EXPECT_EQ(0, write_groups(&self->before));
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
}

/* Was the kernel booted with a parameter? */
static bool booted_with(const char *parameter)
{
	char line[4096];

	return hydra_read_file("/proc/cmdline", line, sizeof(line)) > 0 &&
	       strstr(line, parameter);
}

/* Has this kernel measured its groups? */
static bool measured(void)
{
	return booted_with("hydra_groups=measure");
}

TEST_F(groups, bad_input_changes_nothing)
{
	const char * const wrong[] = { "\n", "0", "x", "0-99999", "0-1/1-2", "-1", "never" };
	char before[4096], after[4096];

	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "domains", before, sizeof(before)));
	for (int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		EXPECT_EQ(-EINVAL, hydra_write_file(REGROUP, wrong[i]))
			TH_LOG("\"%s\"", wrong[i]);
	}
	/* Nodes, or a list of the operator: there is no source to ask. */
	if (!measured())
		EXPECT_EQ(-EOPNOTSUPP, hydra_write_file(REGROUP, "again"));
	ASSERT_LT(0, hydra_read_file(HYDRA_SYSFS "domains", after, sizeof(after)));
	EXPECT_STREQ(before, after);
}

TEST_F(groups, file_shows_where_cpus_are)
{
	struct groups g = self->before, now;
	int cpu = g.cpus - 1;

	g.of[cpu] = 0;
	EXPECT_EQ(0, write_groups(&g));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(&g, &now, sizeof(g)));
	EXPECT_EQ(0, write_groups(&self->before));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(&self->before, &now, sizeof(g)));
}

/*
 * Groups know nodes of memory by their pools, and KVM has none: a VM with a tree for each group
 * would have all of them anywhere, and its guest would be told wrong places.
 */
TEST_F(groups, kvm_has_one_tree)
{
	struct hydra_settings nodes = {
		.domains = HYDRA_SCOPE_NODE, .replication = HYDRA_REPLICATE_LAZY,
	};
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&nodes, sizeof(nodes) },
	};
	int kvm, vm;

	if (!booted_with("hydra_groups="))
		SKIP(return, "boot with hydra_groups=");
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		SKIP(return, "no /dev/kvm");
	/* The process has a policy of its own, which the VM cannot take over. */
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	ASSERT_LE(0, vm);
	EXPECT_EQ(0, ioctl(vm, KVM_CHECK_EXTENSION, KVM_CAP_HYDRA));
	EXPECT_EQ(-EOPNOTSUPP, hydra_write_file("/proc/self/hydra_vm", "hydra"));
	EXPECT_EQ(-EOPNOTSUPP, hydra_write_file("/proc/self/hydra_vm", "expose=on"));
	EXPECT_EQ(0, hydra_write_file("/proc/self/hydra_vm", "linux"));
	EXPECT_EQ(-1, ioctl(vm, KVM_ENABLE_CAP, &cap));
	EXPECT_EQ(EOPNOTSUPP, errno);
	cap.args[0] = (uintptr_t)&machine;
	EXPECT_EQ(0, ioctl(vm, KVM_ENABLE_CAP, &cap));
	cap.args[2] = KVM_HYDRA_EXPOSE;
	EXPECT_EQ(-1, ioctl(vm, KVM_ENABLE_CAP, &cap));
	EXPECT_EQ(EOPNOTSUPP, errno);
	close(vm);
	close(kvm);
}

/*
 * Debug kernels take latencies from this file in place of a measurement. So many nanoseconds
 * lie between CPUs of one group, and of two groups. Return: 0 or a negative errno.
 */
static int write_latencies(const struct groups *g, int inside, int across)
{
	char text[1024] = "";
	size_t length = 0;

	for (int a = 0; a < g->cpus; a++)
		for (int b = 0; b < g->cpus; b++)
			length += snprintf(text + length, sizeof(text) - length, "%d,",
					   a == b ? 0 : g->of[a] == g->of[b] ? inside : across);
	return hydra_write_file(LATENCY, text);
}

/*
 * A new measurement moves CPUs. Groups keep their numbers, so that each keeps the pool that is
 * near to it. What a measurement cannot tell changes nothing.
 */
TEST_F(groups, cpus_move_as_measured)
{
	struct groups *before = &self->before, g = *before, now;
	int cpu = g.cpus - 1;

	if (!measured())
		SKIP(return, "boot with hydra_groups=measure");
	if (write_latencies(before, 50, 125))
		SKIP(return, "needs CONFIG_HYDRA_MM_INJECT");
	/* At boot */
	ASSERT_EQ(2, hydra_nodes());
	for (int i = 0; i < g.cpus; i++) {
		EXPECT_EQ(i % 2, before->of[i]) TH_LOG("CPU %d", i);
	}
	/* One CPU goes to the other group. */
	g.of[cpu] = !g.of[cpu];
	EXPECT_EQ(0, write_latencies(&g, 50, 125));
	EXPECT_EQ(0, hydra_write_file(REGROUP, "again"));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(&g, &now, sizeof(g)));
	/* All are equally far; then there are more groups than domains. */
	EXPECT_EQ(0, write_latencies(&g, 50, 50));
	EXPECT_EQ(-EAGAIN, hydra_write_file(REGROUP, "again"));
	for (int i = 0; i < g.cpus; i++)
		now.of[i] = i % 3;
	EXPECT_EQ(0, write_latencies(&now, 50, 125));
	EXPECT_EQ(-ERANGE, hydra_write_file(REGROUP, "again"));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(&g, &now, sizeof(g)));
	/* CPU 0 changes groups: each group has most CPUs in common with its old one. */
	g = *before;
	EXPECT_EQ(0, write_groups(before));
	g.of[0] = 1;
	EXPECT_EQ(0, write_latencies(&g, 50, 125));
	EXPECT_EQ(0, hydra_write_file(REGROUP, "again"));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(&g, &now, sizeof(g)));
	EXPECT_EQ(0, write_latencies(before, 50, 125));
	EXPECT_EQ(0, hydra_write_file(REGROUP, "again"));
	read_groups(&now);
	EXPECT_EQ(0, memcmp(before, &now, sizeof(now)));
}

/* Fills of a spinner that looks at pages which the main thread has written just now */
static long fills_of(struct __test_metadata *_metadata, FIXTURE_DATA(groups) *self,
		     struct spinner *s, uint64_t value)
{
	struct hydra_stats before, after;

	for (int i = 0; i < PAGES; i++)
		((volatile uint64_t *)self->area)[i * PAGE_WORDS] = value;
	spin.pages = PAGES;
	await_rounds(s);
	EXPECT_EQ(0, hydra_read_stats(getpid(), &before));
	EXPECT_TRUE(watch(s, (uint64_t *)self->area, value));
	EXPECT_EQ(0, hydra_read_stats(getpid(), &after));
	EXPECT_EQ(NULL, forbid_value(0));
	return after.fills - before.fills;
}

/*
 * A CPU in the main thread's domain walks its tables, and needs no fills. Back in its own
 * domain, it needs a fill for each page.
 */
TEST_F(groups, cpu_walks_the_tables_of_its_domain)
{
	struct groups g = self->before;
	struct spinner *s;
	int cpu = 0;

	while (g.of[cpu] != 1)
		cpu++;
	start_spinner(1, cpu);
	s = &spin.spinners[0];
	hydra_map(self->area, TABLE_PAGES);
	EXPECT_LE(PAGES, fills_of(_metadata, self, s, 1));
	for (int i = 0; i < 3; i++) {
		g.of[cpu] = 0;
		EXPECT_EQ(0, write_groups(&g));
		hydra_map(self->area, TABLE_PAGES);
		EXPECT_EQ(0, fills_of(_metadata, self, s, 2));
		g.of[cpu] = 1;
		EXPECT_EQ(0, write_groups(&g));
		hydra_map(self->area, TABLE_PAGES);
		EXPECT_EQ(PAGES, fills_of(_metadata, self, s, 3));
	}
}

/*
 * Nothing is asserted while CPUs are in other domains: the harness may skip the teardown after
 * a failed assertion, and they would stay there.
 */
static void drop_pages(struct __test_metadata *_metadata, FIXTURE_DATA(groups) *self,
		       uint64_t times)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	const struct spinner *stale = NULL;
	bool seen = true;

	for (uint64_t i = 1; i <= times && seen && !stale; i++) {
		*word = i;
		seen = watch_all(word, i);
		EXPECT_TRUE(seen);
		EXPECT_EQ(0, madvise(self->area, PAGE_SIZE, MADV_DONTNEED));
		stale = forbid_value(i);
		EXPECT_EQ(NULL, stale)
			TH_LOG("CPU %d reads a page that was dropped", stale->cpu);
	}
}

/* Flushes of a domain reach a CPU that has come to it. */
TEST_F(groups, dropped_pages_are_gone_for_cpus_that_have_moved)
{
	struct groups g = self->before;

	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	for (int round = 0; round < 3; round++) {
		/* All in one domain, then each in the next, then each in its own */
		for (int cpu = 0; cpu < g.cpus; cpu++)
			if (g.of[cpu] >= 0)
				g.of[cpu] = round == 0 ? 0 :
					    (self->before.of[cpu] + 2 - round) % hydra_nodes();
		EXPECT_EQ(0, write_groups(&g));
		drop_pages(_metadata, self, MOVED);
	}
}

/* Whatever domain the reader's CPU is in when the flush chooses its targets */
TEST_F_TIMEOUT(groups, dropped_pages_are_gone_while_cpus_move, 240)
{
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	spin_on_other_nodes();
	hydra_map(self->area, TABLE_PAGES);
	self->mover = fork();
	ASSERT_LE(0, self->mover);
	if (!self->mover)
		move_cpus(&self->before);
	drop_pages(_metadata, self, TIMES);
	/* It has moved CPUs all the time. */
	EXPECT_EQ(0, waitpid(self->mover, NULL, WNOHANG));
}

HYDRA_HARNESS_MAIN
