// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VM with a tree of nested page tables per node gets no memory for a table: it gives up one
 * tree, and the guest notices nothing. The tree comes back by itself, or when settings are written.
 */
#include <cpuid.h>
#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define bit_VMX	(1U << 5)	/* CPUID.1:ECX */
#define LIMIT	HYDRA_SYSFS "vm_table_limit_kib"

FIXTURE(vm_degrade) {
	struct vm vm;
	int last;
};

FIXTURE_SETUP(vm_degrade)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_NONE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(1, vm_number("active"));
}

FIXTURE_TEARDOWN(vm_degrade)
{
	hydra_write_file(LIMIT, "max");
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* Root, two upper tables, and leaf tables of memslot 0 and the region */
#define TREE_TABLES	(4 + 1 + VM_REGION_PAGES / TABLE_PAGES)

/* The trees are dropped by a work of the kernel. */
static bool await_trees(int trees)
{
	struct vm_tables tables;

	for (int tries = 0; tries < 500; tries++) {
		if (vm_read_tables(&tables))
			return false;
		if (vm_all_tables(&tables) <= trees * TREE_TABLES)
			return true;
		usleep(10000);
	}
	return false;
}

/* Nodes that need a table give up their trees, and use that of node 0, which has all they need. */
static void check_fallen_back(struct __test_metadata *_metadata, struct vm *vm, int last)
{
	int node;

	/* The guest notices nothing, on any node. */
	ASSERT_EQ(0, vm_run(vm, 1, last, 0, VM_REGION_PAGES));
	EXPECT_EQ(1, vm_number("fallback"));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(1, vm_number("fallbacks"));
	for (node = 0; node <= last; node++) {
		ASSERT_EQ(0, vm_run(vm, node, node, 0, VM_REGION_PAGES));
	}
	EXPECT_EQ(last, vm_number("fallback"));
	EXPECT_TRUE(await_trees(1));
	EXPECT_TRUE(vm_consistent());
}

static void check_back(struct __test_metadata *_metadata, struct vm *vm, int last, long fallbacks)
{
	struct vm_tables tables;
	int node;

	ASSERT_EQ(0, vm_set(vm_number("fallback") ? "again" : "domains=node"));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(0, vm_number("fallback"));
	for (node = 0; node <= last; node++) {
		ASSERT_EQ(0, vm_run(vm, node, node, 0, VM_REGION_PAGES));
	}
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (node = 0; node <= last; node++) {
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(fallbacks, vm_number("fallbacks"));
	EXPECT_EQ(fallbacks, vm_number("returns"));
}

TEST_F(vm_degrade, beyond_the_limit)
{
	int log = vm_open_log();
	char said[64];

	ASSERT_LE(0, log);
	ASSERT_EQ(0, hydra_write_file(LIMIT, "16"));
	check_fallen_back(_metadata, &self->vm, self->last);
	snprintf(said, sizeof(said), "a VM of process %d gives up the tree", getpid());
	EXPECT_TRUE(vm_has_said(log, said));
	close(log);
	ASSERT_EQ(0, hydra_write_file(LIMIT, "max"));
	check_back(_metadata, &self->vm, self->last, self->last);
}

/* The limit of the VM alone */
TEST_F(vm_degrade, beyond_its_own_limit)
{
	ASSERT_EQ(0, vm_set("limit_kib=16"));
	check_fallen_back(_metadata, &self->vm, self->last);
	ASSERT_EQ(0, vm_set("limit_kib=max"));
	check_back(_metadata, &self->vm, self->last, self->last);
}

/* That of a cgroup above its own, which says nothing */
TEST_F(vm_degrade, beyond_the_limit_of_a_cgroup)
{
	char group[64], below[80];

	ASSERT_EQ(0, hydra_make_group(group)) TH_LOG("no memory cgroup can be made (CONFIG_MEMCG)");
	snprintf(below, sizeof(below), "%sbelow/", group);
	ASSERT_EQ(0, hydra_write_number(group, "cgroup.subtree_control", "%s", "+memory"));
	ASSERT_EQ(0, mkdir(below, 0755));
	ASSERT_EQ(0, hydra_write_number(below, "cgroup.procs", "%d", getpid()));
	EXPECT_EQ(-EINVAL, hydra_write_number(group, "memory.hydra_vm.max", "%s", "0"));
	EXPECT_EQ(-EINVAL, hydra_write_number(group, "memory.hydra_vm.max", "%s", "much"));
	ASSERT_EQ(0, hydra_write_number(group, "memory.hydra_vm.max", "%s", "16K"));
	check_fallen_back(_metadata, &self->vm, self->last);
	ASSERT_EQ(0, hydra_write_number(group, "memory.hydra_vm.max", "%s", "max"));
	check_back(_metadata, &self->vm, self->last, self->last);
	EXPECT_EQ(0, hydra_write_file("/sys/fs/cgroup/cgroup.procs", "0"));
	EXPECT_EQ(0, rmdir(below));
	EXPECT_EQ(0, rmdir(group));
}

/* All nodes but the last have a tree, and there is room for no more than two tables. */
static void fill_all_but_one(struct __test_metadata *_metadata, FIXTURE_DATA(vm_degrade) *self)
{
	char limit[32];

	for (int node = 0; node < self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	snprintf(limit, sizeof(limit), "%ld", (vm_number("nested_tables") + 2) * PAGE_SIZE / 1024);
	ASSERT_EQ(0, hydra_write_file(LIMIT, limit));
}

/* Has an event a line? */
static bool has_line(const char *event, ssize_t size, const char *line)
{
	for (const char *at = event; at < event + size; at += strlen(at) + 1)
		if (!strcmp(at, line))
			return true;
	return false;
}

/* Wait for an event of a VM of this process that has a line. */
static bool await_event(int events, const char *line)
{
	char text[4096], process[32];
	ssize_t got;

	snprintf(process, sizeof(process), "PID=%d", getpid());
	for (int tries = 0; tries < 1000; tries++) {
		got = recv(events, text, sizeof(text) - 1, MSG_DONTWAIT);
		if (got < 0) {
			usleep(10000);
			continue;
		}
		text[got] = 0;
		if (has_line(text, got, "EVENT=hydra") && has_line(text, got, process) &&
		    has_line(text, got, line))
			return true;
	}
	return false;
}

/* A socket for the kernel's events */
static int open_events(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
	int events = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);

	if (events >= 0 && bind(events, (struct sockaddr *)&address, sizeof(address))) {
		close(events);
		return -1;
	}
	return events;
}

/* A tree that finds no memory costs that tree. */
TEST_F(vm_degrade, other_trees_stay)
{
	struct vm_tables tables;
	long faults;

	if (self->last < 2)
		SKIP(return, "needs three nodes");
	fill_all_but_one(_metadata, self);
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, VM_REGION_PAGES));
	EXPECT_EQ(1, vm_number("fallback"));
	for (int tries = 0; tries < 500; tries++) {
		ASSERT_EQ(0, vm_read_tables(&tables));
		if (!tables.tables[self->last])
			break;
		usleep(10000);
	}
	EXPECT_EQ(0, tables.tables[self->last]);
	for (int node = 0; node <= self->last; node++) {
		faults = vm_faults(&self->vm, node);
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
		EXPECT_EQ(faults, vm_faults(&self->vm, node)) TH_LOG("node %d", node);
	}
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (int node = 0; node < self->last; node++) {
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(1, vm_number("fallbacks"));
	EXPECT_EQ(0, vm_number("misplaced"));
}

/* Clear a statistic of the VM, the only one of this process. */
static int clear_statistic(const char *name)
{
	char command[128];

	/* A shell need not expand the name of a file that it writes to. */
	snprintf(command, sizeof(command),
		 "for f in /sys/kernel/debug/kvm/%d-*/%s; do echo 0 >$f; done", getpid(), name);
	return system(command);
}

/*
 * The tree comes back by itself, not before there is room, and user space is told, whatever it does
 * to the statistics.
 */
TEST_F_TIMEOUT(vm_degrade, tree_comes_back, 90)
{
	int events = open_events();
	struct vm_tables tables;

	if (events < 0)
		SKIP(return, "no netlink sockets (CONFIG_NET)");
	ASSERT_EQ(0, vm_set_idle("1"));
	fill_all_but_one(_metadata, self);
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, VM_REGION_PAGES));
	EXPECT_TRUE(await_event(events, "FALLBACK=1"));
	sleep(3);
	EXPECT_EQ(1, vm_number("fallback"));
	EXPECT_EQ(0, vm_number("returns"));
	ASSERT_EQ(0, hydra_write_file(LIMIT, "max"));
	EXPECT_TRUE(await_event(events, "RETURNS=1"));
	EXPECT_EQ(0, vm_number("fallback"));
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[self->last]);
	EXPECT_EQ(1, vm_number("fallbacks"));
	/* It goes, and is given up again. Fallbacks and returns add up to what they were. */
	ASSERT_EQ(0, vm_set("linux"));
	ASSERT_EQ(0, vm_set("domains=node"));
	ASSERT_EQ(0, clear_statistic("hydra_returns"));
	fill_all_but_one(_metadata, self);
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, VM_REGION_PAGES));
	EXPECT_TRUE(await_event(events, "FALLBACKS=2"));
	close(events);
}

/*
 * While the tree waits to be dropped, faults in the refuge copy what it has alone. On a slow
 * machine it may go before they do.
 */
TEST_F_TIMEOUT(vm_degrade, refuge_copies_from_the_tree_that_goes, 90)
{
	const unsigned long half = VM_REGION_PAGES / 2, size = VM_REGION_PAGES * PAGE_SIZE;
	long least = LONG_MAX, faults;
	char limit[32];

	for (int round = 0; round < 4; round++) {
		ASSERT_EQ(0, hydra_write_file(LIMIT, "max"));
		ASSERT_EQ(0, vm_set("prefetch=9"));
		ASSERT_EQ(0, madvise(self->vm.region, size, MADV_DONTNEED));
		memset(self->vm.region, 0, size);
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, half));
		ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, half, half));
		snprintf(limit, sizeof(limit), "%ld", vm_number("nested_tables") * PAGE_SIZE / 1024);
		ASSERT_EQ(0, hydra_write_file(LIMIT, limit));
		/* The last node needs two tables, may have one at hand, and gives up its tree. */
		ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, TABLE_PAGES + 1));
		ASSERT_EQ(1, vm_number("fallback"));
		faults = vm_faults(&self->vm, self->last);
		ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, half, half));
		least = MIN(least, vm_faults(&self->vm, self->last) - faults);
	}
	EXPECT_GE(half / TABLE_PAGES + VM_OWN_PAGES, least);
	EXPECT_TRUE(await_trees(1));
}

/* All vCPUs write to all pages, which are huge ones. Counts the tables. */
static void write_huge_pages(struct __test_metadata *_metadata, FIXTURE_DATA(vm_degrade) *self,
			     struct vm_tables *tables)
{
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	ASSERT_EQ(0, vm_read_tables(tables));
	for (int node = 0; node <= self->last; node++) {
		/* And memslot 0 */
		ASSERT_EQ(VM_REGION_PAGES / TABLE_PAGES + VM_OWN_PAGES, tables->local[node])
			TH_LOG("node %d", node);
	}
}

/* Does the processor log which pages vCPUs write? On AMD's, the parameter keeps its default. */
static bool has_pml(void)
{
	unsigned int a, b, c = 0, d;
	char text[8] = "";

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_VMX))
		return false;
	hydra_read_file("/sys/module/kvm_intel/parameters/pml", text, sizeof(text));
	return *text == 'Y';
}

/*
 * KVM splits huge pages when it begins to log dirty pages. A tree gets tables for all of them,
 * as on stock KVM, and no other tree, but with PML all do. So a VM with a limit keeps its trees.
 */
TEST_F(vm_degrade, log_of_huge_pages_needs_tables_for_one_tree)
{
	int split = has_pml() ? self->last + 1 : 1;
	size_t size = VM_REGION_PAGES * PAGE_SIZE;
	struct vm_tables before, after;
	char limit[32];

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK))
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	/* Without a leaf table the next write to each 2 MiB makes a huge page. */
	ASSERT_EQ(self->vm.region, mmap(self->vm.region, size, PROT_READ | PROT_WRITE,
					MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	ASSERT_EQ(0, madvise(self->vm.region, size, MADV_HUGEPAGE));
	memset(self->vm.region, 0, size);
	write_huge_pages(_metadata, self, &before);
	vm_log(&self->vm, true);
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_EQ(vm_all_tables(&before) + split * (VM_REGION_PAGES / TABLE_PAGES),
		  vm_all_tables(&after));
	for (int node = 0; node < split; node++) {
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, after.local[node]) TH_LOG("node %d", node);
	}
	vm_log(&self->vm, false);

	/* Now there is room for two tables in each tree, and for two more. */
	write_huge_pages(_metadata, self, &before);
	snprintf(limit, sizeof(limit), "%ld",
		 (vm_number("nested_tables") + 2 * (self->last + 1) + 2) * PAGE_SIZE / 1024);
	ASSERT_EQ(0, hydra_write_file(LIMIT, limit));
	vm_log(&self->vm, true);
	for (int node = 0; node <= self->last; node++) {
		/* In two huge pages */
		ASSERT_EQ(0, vm_run(&self->vm, node, node, TABLE_PAGES - 1, 2));
	}
	EXPECT_EQ(0, vm_number("fallbacks"));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_TRUE(vm_consistent());
	vm_log(&self->vm, false);
}

static volatile bool stop_settings;

static void *write_settings(void *unused)
{
	while (!stop_settings)
		if (vm_set("domains=node"))
			return "settings were refused";
	return NULL;
}

/*
 * A fault that finds no memory is finished with tables beyond the limit. Settings which bring the
 * tree back drop it first. Otherwise each tree would keep such tables: the settings often come
 * before the kernel's work that drops trees.
 */
TEST_F(vm_degrade, trees_that_come_back_do_not_add_up)
{
	struct vm_tables tables;
	pthread_t thread;
	void *refused;

	/* Begin without tables, but for the root which vCPU 0 has not left. */
	ASSERT_EQ(0, vm_set("linux"));
	ASSERT_EQ(0, hydra_write_file(LIMIT, "16"));
	ASSERT_EQ(0, pthread_create(&thread, NULL, write_settings, NULL));
	for (unsigned long round = 0; round < 64; round++) {
		vm_pin_to_node(round % hydra_nodes());
		ASSERT_EQ(0, vm_prefault(&self->vm, 1, round / hydra_nodes() * TABLE_PAGES %
					 VM_REGION_PAGES, 1));
		ASSERT_EQ(0, vm_read_tables(&tables));
		/* The limit, the tables of one fault in each tree, and the root of vCPU 0 */
		EXPECT_GE(4 + 5 * hydra_nodes() + 1, vm_all_tables(&tables))
			TH_LOG("round %lu", round);
	}
	stop_settings = true;
	ASSERT_EQ(0, pthread_join(thread, &refused));
	EXPECT_EQ(NULL, refused);
	EXPECT_LT(1, vm_number("fallbacks"));
}

static void *end_trees(void *unused)
{
	while (!stop_settings) {
		if (vm_set("linux"))
			return "settings were refused";
		if (vm_number("fallback"))
			return "a VM with one tree has given up another";
		if (vm_set("domains=node"))
			return "settings were refused";
	}
	return NULL;
}

/* A fault that finds no memory, and settings which end all trees, come at the same time. */
TEST_F(vm_degrade, no_tree_is_given_up_once_there_is_one)
{
	pthread_t thread;
	void *wrong;

	ASSERT_EQ(0, hydra_write_file(LIMIT, "16"));
	ASSERT_EQ(0, pthread_create(&thread, NULL, end_trees, NULL));
	for (unsigned long round = 0; round < 64; round++) {
		vm_pin_to_node(round % hydra_nodes());
		ASSERT_EQ(0, vm_prefault(&self->vm, 1, round / hydra_nodes() * TABLE_PAGES %
					 VM_REGION_PAGES, 1));
	}
	stop_settings = true;
	ASSERT_EQ(0, pthread_join(thread, &wrong));
	EXPECT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
	ASSERT_EQ(0, vm_set("again"));
	EXPECT_EQ(vm_number("fallbacks"), vm_number("returns"));
}

/* Entries that no vCPU of a node has asked for take no table that a fault will need. */
TEST_F(vm_degrade, eager_leaves_half_of_the_limit)
{
	char limit[32];
	long tables;

	ASSERT_EQ(0, vm_set("replication=eager"));
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, 1));
	}
	ASSERT_EQ(0, madvise(self->vm.region, VM_REGION_PAGES * PAGE_SIZE, MADV_DONTNEED));
	tables = vm_number("nested_tables");
	snprintf(limit, sizeof(limit), "%ld", 2 * (tables + 1) * PAGE_SIZE / 1024);
	ASSERT_EQ(0, hydra_write_file(LIMIT, limit));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	EXPECT_GE(tables + 1, vm_number("nested_tables"));
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	EXPECT_EQ(0, vm_number("fallbacks"));
}

/*
 * Faults outside of the guest loop: the vCPU has to leave the tree that was dropped. If it does
 * not, the system call never ends, and the test's time does.
 */
TEST_F(vm_degrade, prefault_beyond_the_limit)
{
	unsigned long half = VM_REGION_PAGES / 2;

	vm_pin_to_node(self->last);
	ASSERT_EQ(0, hydra_write_file(LIMIT, "16"));
	ASSERT_EQ(0, vm_prefault(&self->vm, 1, 0, half));
	EXPECT_EQ(1, vm_number("fallback"));
	ASSERT_TRUE(await_trees(1));
	ASSERT_EQ(0, vm_prefault(&self->vm, 1, half, half));
	check_fallen_back(_metadata, &self->vm, self->last);
	ASSERT_EQ(0, hydra_write_file(LIMIT, "max"));
	check_back(_metadata, &self->vm, self->last, self->last);
}

/* The only tree of a VM goes on, as that of stock KVM. */
TEST_F(vm_degrade, last_tree_goes_on)
{
	ASSERT_EQ(0, hydra_write_file(LIMIT, "16"));
	ASSERT_EQ(0, vm_set("again"));
	ASSERT_EQ(0, madvise(self->vm.region, VM_REGION_PAGES * PAGE_SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	EXPECT_EQ(0, vm_number("fallbacks"));
	EXPECT_EQ(1, vm_number("active"));
}

TEST_F(vm_degrade, prefault_after_new_settings)
{
	/* vCPU 0 has the root of its node's tree, and does not run. */
	ASSERT_EQ(0, vm_set("linux"));
	ASSERT_EQ(0, vm_prefault(&self->vm, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	check_back(_metadata, &self->vm, self->last, 0);
}

/* Finding a function in /proc/kallsyms takes seconds. */
TEST_F_TIMEOUT(vm_degrade, without_memory_for_a_table, 90)
{
	static const char * const function = "hydra_vm_table_alloc";
	int ret = hydra_choose_failures(&function, 1);

	if (ret == -ENODEV)
		SKIP(return, "needs CONFIG_FAIL_PAGE_ALLOC and CONFIG_FAILSLAB");
	ASSERT_EQ(0, ret);
	ASSERT_EQ(0, hydra_fail_allocations(100));
	check_fallen_back(_metadata, &self->vm, self->last);
	ASSERT_EQ(0, hydra_fail_allocations(0));
	check_back(_metadata, &self->vm, self->last, self->last);
}

HYDRA_HARNESS_MAIN
