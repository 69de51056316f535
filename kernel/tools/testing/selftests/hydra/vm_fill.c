// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VM with a tree of nested page tables per node: each tree is filled by the faults of its
 * own vCPUs, and lies on its node.
 */
#include <numaif.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

FIXTURE(vm_fill) {
	struct vm vm;
};

FIXTURE_SETUP(vm_fill)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_NONE));
	vm_make(&self->vm);
}

FIXTURE_TEARDOWN(vm_fill)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* Memslot 0 is there, and so are the tree's root and upper tables. */
static void warm_up(struct __test_metadata *_metadata, struct vm *vm, int vcpu, int node)
{
	ASSERT_EQ(0, vm_run(vm, vcpu, node, 0, 1));
}

/* The tree of each node has so many pages of the region, and all its tables are on the node. */
static void expect_local(struct __test_metadata *_metadata, unsigned long pages)
{
	struct vm_tables tables;

	ASSERT_EQ(0, vm_read_tables(&tables));
	for (int node = 0; node < hydra_nodes(); node++) {
		/* And memslot 0 */
		EXPECT_EQ(pages + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
		EXPECT_EQ(0, tables.remote[node]) TH_LOG("node %d", node);
		EXPECT_EQ(tables.tables[0], tables.tables[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(0, vm_number("misplaced"));
}

TEST_F(vm_fill, each_domain_faults_once_for_each_page)
{
	int node;

	ASSERT_EQ(1, vm_number("active"));
	for (node = 0; node < hydra_nodes(); node++) {
		long before;

		warm_up(_metadata, &self->vm, node, node);
		before = vm_faults(&self->vm, node);
		ASSERT_LT(0, before);
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
		EXPECT_EQ(VM_REGION_PAGES - 1, vm_faults(&self->vm, node) - before)
			TH_LOG("node %d", node);
	}
	expect_local(_metadata, VM_REGION_PAGES);
	/* Every vCPU wrote every page. */
	for (unsigned long i = 0; i < VM_REGION_PAGES; i++) {
		ASSERT_EQ(hydra_nodes() + (i == 0) * hydra_nodes(),
			  *vm_word(&self->vm, i))
			TH_LOG("page %lu", i);
	}
}

TEST_F(vm_fill, memory_of_one_node_has_one_leaf_table)
{
	struct vm_tables before, after;
	int node;

	for (node = 0; node < hydra_nodes(); node++)
		warm_up(_metadata, &self->vm, node, node);
	ASSERT_EQ(0, vm_read_tables(&before));
	/* Three leaf tables more */
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_EQ(before.tables[0] + VM_REGION_PAGES / TABLE_PAGES - 1, after.tables[0]);
	for (node = 1; node < hydra_nodes(); node++) {
		EXPECT_EQ(before.tables[node], after.tables[node]) TH_LOG("node %d", node);
	}
}

/* Entries that the host takes away are gone from all trees. */
TEST_F(vm_fill, page_dropped_by_the_host_is_gone_in_all_trees)
{
	struct vm_tables tables;
	int node;

	for (node = 0; node < hydra_nodes(); node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, 2 * TABLE_PAGES));
	}
	ASSERT_EQ(0, madvise(self->vm.region, TABLE_SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (node = 0; node < hydra_nodes(); node++) {
		EXPECT_EQ(TABLE_PAGES + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
	}
	for (node = 0; node < hydra_nodes(); node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, 2 * TABLE_PAGES));
	}
	for (unsigned long i = 0; i < 2 * TABLE_PAGES; i++) {
		ASSERT_EQ((i < TABLE_PAGES ? 1 : 2) * hydra_nodes(),
			  *vm_word(&self->vm, i))
			TH_LOG("page %lu", i);
	}
}

/* The policy is for the VMM's data. */
TEST_F(vm_fill, memory_policy_of_the_vmm_places_no_table)
{
	unsigned long here = 1UL << hydra_node_id(0);
	int node;

	ASSERT_EQ(0, set_mempolicy(MPOL_BIND, &here, 64));
	for (node = 0; node < hydra_nodes(); node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, TABLE_PAGES));
	}
	expect_local(_metadata, TABLE_PAGES);
}

/*
 * The cpuset is for the tables, too. A tree of a node whose memory the VMM may not use would
 * have all its tables elsewhere: vCPUs there use the tree of the nearest node that it may use.
 */
TEST_F(vm_fill, tables_stay_in_the_cpuset)
{
	int last = hydra_nodes() - 1;
	struct vm_tables tables;
	char group[64];
	long faults;

	ASSERT_EQ(0, hydra_make_group(group));
	if (hydra_write_number(group, "../cgroup.subtree_control", "+cpuset")) {
		rmdir(group);
		SKIP(return, "no cpuset controller (CONFIG_CPUSETS)");
	}
	EXPECT_EQ(0, hydra_write_number(group, "cpuset.mems", "%d", hydra_node_id(0)));
	EXPECT_EQ(0, hydra_write_number(group, "cgroup.procs", "%d", 0));
	EXPECT_EQ(0, vm_number("misplaced"));
	EXPECT_EQ(0, vm_run(&self->vm, last, last, 0, TABLE_PAGES));
	EXPECT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(0, tables.local[last]);
	EXPECT_EQ(TABLE_PAGES + VM_OWN_PAGES, tables.remote[last]);
	EXPECT_EQ(0, tables.tables[last]);
	EXPECT_LT(0, tables.tables[0]);
	EXPECT_EQ(0, vm_number("misplaced"));
	/* Nothing is left to fill for node 0. */
	warm_up(_metadata, &self->vm, 0, 0);
	faults = vm_faults(&self->vm, 0);
	EXPECT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	EXPECT_EQ(0, vm_faults(&self->vm, 0) - faults);
	EXPECT_TRUE(vm_consistent());
	EXPECT_EQ(0, vm_number("fallbacks"));
	EXPECT_EQ(0, hydra_write_number(group, "../cgroup.procs", "%d", 0));
	/* The VMM may use all nodes again. */
	EXPECT_EQ(0, vm_run(&self->vm, last, last, 0, TABLE_PAGES));
	EXPECT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES + VM_OWN_PAGES, tables.local[last]);
	EXPECT_EQ(0, tables.remote[last]);
	rmdir(group);
	hydra_write_file("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset");
}

TEST(process_without_settings_makes_a_stock_vm)
{
	struct vm_tables tables;
	struct vm vm;
	int node;

	VM_BEGIN();
	ASSERT_EQ(0, hydra_off());
	vm_make(&vm);
	EXPECT_EQ(0, vm_number("active"));
	for (node = 0; node < hydra_nodes(); node++) {
		ASSERT_EQ(0, vm_run(&vm, node, node, 0, VM_REGION_PAGES));
	}
	/* The node whose vCPU faulted first has the tables. */
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[0]);
	for (node = 1; node < hydra_nodes(); node++) {
		EXPECT_EQ(0, tables.local[node]) TH_LOG("node %d", node);
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.remote[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(0, vm_number("moves"));
	EXPECT_TRUE(vm_consistent());
	vm_end(&vm);
}

HYDRA_HARNESS_MAIN
