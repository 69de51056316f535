// SPDX-License-Identifier: GPL-2.0-only
/*
 * A vCPU that goes to another node takes the node's tree of nested page tables. And a VM
 * that gets other settings while it has vCPUs.
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>

#include "kselftest_harness.h"
#include "vm_util.h"

FIXTURE(vm_move) {
	struct vm vm;
	int last;
};

FIXTURE_SETUP(vm_move)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_NONE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_move)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

TEST_F(vm_move, vcpu_takes_the_tree_of_its_new_node)
{
	struct vm_tables tables;
	int last = self->last;
	long moves;

	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	moves = vm_number("moves");
	ASSERT_EQ(0, vm_run(&self->vm, 0, last, 0, VM_REGION_PAGES));
	EXPECT_EQ(1, vm_number("moves") - moves);
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[last]);
	EXPECT_EQ(0, tables.remote[last]);
	/* And back: nothing is to fill. */
	moves = vm_faults(&self->vm, 0);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	EXPECT_EQ(0, vm_faults(&self->vm, 0) - moves);
	EXPECT_EQ(0, vm_number("misplaced"));
	EXPECT_EQ(3, *vm_word(&self->vm, 0));
}

/* What the host dropped while the vCPU was on another node is gone when it comes back. */
TEST_F(vm_move, vcpu_that_comes_back_sees_no_old_page)
{
	for (int round = 1; round <= 8; round++) {
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
		ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, 64));
		ASSERT_EQ(0, madvise(self->vm.region, 64 * PAGE_SIZE, MADV_DONTNEED));
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
		for (unsigned long i = 0; i < 64; i++) {
			ASSERT_EQ(1, *vm_word(&self->vm, i));
		}
		ASSERT_EQ(0, madvise(self->vm.region, 64 * PAGE_SIZE, MADV_DONTNEED));
	}
}

/* All nodes, in turn, with one vCPU for each: a vCPU moves at each run. */
TEST_F(vm_move, vcpus_that_go_round)
{
	unsigned int runs = 0;

	for (int round = 0; round < 4; round++)
		for (int vcpu = 0; vcpu <= self->last; vcpu++, runs++) {
			ASSERT_EQ(0, vm_run(&self->vm, vcpu, (vcpu + round) % (self->last + 1),
					    0, 64));
		}
	for (unsigned long i = 0; i < 64; i++) {
		ASSERT_EQ(runs, *vm_word(&self->vm, i));
	}
}

/* The VM has moved, and its memory is as small as before. */
static void move_and_drop(struct __test_metadata *_metadata, FIXTURE_DATA(vm_move) *self,
			  const char *seconds, bool pressed)
{
	struct vm_tables before, after;
	long dropped = vm_number("dropped");

	ASSERT_EQ(0, vm_set_idle(seconds));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_read_tables(&before));
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, VM_REGION_PAGES));
	if (pressed) {
		/* A tree that has just been left stays. */
		sleep(2);
		ASSERT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "2"));
	}
	ASSERT_TRUE(vm_await_dropped(dropped + 1));
	/* The kernel counts the tree, and then frees its last tables. */
	ASSERT_EQ(0, vm_read_tables(&after));
	for (int i = 0; i < 50 && after.tables[0]; i++) {
		usleep(100000);
		ASSERT_EQ(0, vm_read_tables(&after));
	}
	EXPECT_EQ(0, after.local[0]);
	EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, after.local[self->last]);
	EXPECT_EQ(0, after.tables[0]);
	EXPECT_EQ(vm_all_tables(&before), vm_all_tables(&after));
	EXPECT_TRUE(vm_consistent());
}

TEST_F_TIMEOUT(vm_move, tree_without_vcpus_is_dropped, 90)
{
	for (int round = 1; round <= 2; round++) {
		move_and_drop(_metadata, self, "1", false);
		for (unsigned long i = 0; i < VM_REGION_PAGES; i++) {
			ASSERT_EQ(2 * round, *vm_word(&self->vm, i));
		}
		/* The vCPU has gone back before the next round, and another tree is idle. */
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 1));
		ASSERT_TRUE(vm_await_dropped(2 * round));
		*vm_word(&self->vm, 0) -= 1;
	}
}

TEST_F_TIMEOUT(vm_move, idle_tree_is_dropped_early_without_memory, 90)
{
	move_and_drop(_metadata, self, "3600", true);
}

/* The work that drops trees waits for a time far away already. */
TEST_F_TIMEOUT(vm_move, tree_is_dropped_at_the_earliest_time_asked_for, 90)
{
	ASSERT_EQ(0, vm_set_idle("60"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, 64));
	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	EXPECT_TRUE(vm_await_dropped(1));
}

/*
 * A tree stays while a vCPU has loaded it, however long ago another has left it. With 0
 * seconds idle trees stay, too. After new settings the VM looks at its trees at once.
 */
TEST_F(vm_move, tree_with_a_vcpu_stays)
{
	if (self->last < 2)
		SKIP(return, "needs three nodes");
	for (int round = 0; round < 2; round++)
		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, vm_run(&self->vm, node, (node + round) % (self->last + 1),
					    0, 64));
		}
	ASSERT_EQ(0, vm_set_idle("1"));
	sleep(2);
	ASSERT_EQ(0, vm_set("prefetch=1"));
	sleep(1);
	EXPECT_EQ(0, vm_number("dropped"));
	ASSERT_EQ(0, vm_set_idle("0"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 2, 0, 64));
	sleep(2);
	ASSERT_EQ(0, vm_set("prefetch=2"));
	sleep(1);
	EXPECT_EQ(0, vm_number("dropped"));
	/* Node 1 has no vCPU any more. */
	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_set("prefetch=3"));
	EXPECT_TRUE(vm_await_dropped(1));
}

/* How many function calls have interrupted a CPU; negative: the kernel does not say */
static long calls_on(int cpu)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char line[4096], *rest;
	long calls = -1;

	while (file && calls < 0 && fgets(line, sizeof(line), file)) {
		rest = strstr(line, "CAL:");
		if (!rest)
			continue;
		rest += strlen("CAL:");
		for (int i = 0; i <= cpu; i++)
			calls = strtol(rest, &rest, 10);
	}
	if (file)
		fclose(file);
	return calls;
}

/*
 * KVM interrupts a vCPU that it asks for something by a function call. Calls for another reason
 * are rare: there are some rounds, and one of them has none. On a slow machine, the tree of the
 * round before may be dropped, too.
 */
TEST_F_TIMEOUT(vm_move, idle_tree_that_is_dropped_interrupts_no_vcpu, 90)
{
	int cpus[HYDRA_MAX_CPUS], count = hydra_node_cpus(1, cpus);
	struct vm_spinner spinner = {
		.vm = &self->vm, .vcpu = 1, .cpu = cpus[count - 1], .page = VM_REGION_PAGES - 1,
	};
	long least = LONG_MAX;

	if (self->last < 2)
		SKIP(return, "needs three nodes");
	ASSERT_EQ(0, vm_spin(&spinner));
	ASSERT_EQ(0, vm_set_idle("3"));
	for (int round = 0; round < 3; round++) {
		long dropped = vm_number("dropped"), before;

		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES - 1));
		ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, VM_REGION_PAGES - 1));
		before = calls_on(spinner.cpu);
		ASSERT_LE(0, before);
		vm_await_dropped(dropped + 1);
		ASSERT_LT(dropped, vm_number("dropped"));
		least = MIN(least, calls_on(spinner.cpu) - before);
	}
	EXPECT_EQ(0, least);
	ASSERT_EQ(0, vm_spin_end(&self->vm, &spinner, 1));
	for (unsigned long i = 0; i < VM_REGION_PAGES - 1; i++) {
		ASSERT_EQ(6, *vm_word(&self->vm, i));
	}
}

/* A VMM that logs dirty pages needs its locks, also if the machine is short of memory. */
TEST_F_TIMEOUT(vm_move, idle_tree_stays_while_pages_are_logged, 90)
{
	struct vm_tables tables;

	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	vm_log(&self->vm, true);
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, VM_REGION_PAGES));
	sleep(3);
	ASSERT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "2"));
	ASSERT_EQ(0, vm_set("prefetch=1"));
	sleep(1);
	EXPECT_EQ(0, vm_number("dropped"));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[0]);
	EXPECT_TRUE(vm_consistent());
	vm_log(&self->vm, false);
	EXPECT_TRUE(vm_await_dropped(1));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(0, tables.tables[0]);
}

/* A VMM may log the memory of a screen for as long as the VM lives. */
TEST_F_TIMEOUT(vm_move, idle_tree_is_dropped_while_few_pages_are_logged, 90)
{
	vm_set_user_memory_region(self->vm.kvm, VM_SLOT + 1, KVM_MEM_LOG_DIRTY_PAGES,
				  VM_REGION + 2 * VM_REGION_PAGES * PAGE_SIZE,
				  VM_REGION_PAGES / 16 * PAGE_SIZE, self->vm.region);
	move_and_drop(_metadata, self, "1", false);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 1));
	ASSERT_TRUE(vm_await_dropped(2));
	move_and_drop(_metadata, self, "3600", true);
}

TEST_F(vm_move, other_settings_free_the_trees)
{
	struct vm_tables stock, before, after;
	int node;

	for (node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	ASSERT_EQ(0, vm_read_tables(&before));
	ASSERT_EQ(0, vm_set("linux"));
	for (node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	ASSERT_EQ(0, vm_read_tables(&stock));
	EXPECT_EQ(vm_all_tables(&before), (self->last + 1) * vm_all_tables(&stock));
	EXPECT_EQ(0, stock.local[self->last]);
	EXPECT_TRUE(vm_consistent());

	ASSERT_EQ(0, vm_set("domains=node"));
	for (node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
	}
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_EQ(vm_all_tables(&before), vm_all_tables(&after));
	for (node = 0; node <= self->last; node++) {
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, after.local[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(3 * hydra_nodes(), *vm_word(&self->vm, 0));
}

static atomic_uint stop;

static void *change_settings(void *unused)
{
	while (!atomic_load(&stop)) {
		if (vm_set("linux") || vm_set("domains=node"))
			return (void *)1;
		if (!vm_consistent())
			return (void *)2;
	}
	return NULL;
}

TEST_F(vm_move, settings_that_change_while_a_vcpu_runs)
{
	pthread_t thread;
	unsigned int runs;
	void *result;

	vm_pin_to_node(1);
	ASSERT_EQ(0, pthread_create(&thread, NULL, change_settings, NULL));
	for (runs = 0; runs < 40; runs++) {
		ASSERT_EQ(0, vm_run(&self->vm, runs % 2, runs % (self->last + 1), 0, 512));
	}
	atomic_store(&stop, 1);
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(NULL, result);
	for (unsigned long i = 0; i < 512; i++) {
		ASSERT_EQ(runs, *vm_word(&self->vm, i));
	}
}

HYDRA_HARNESS_MAIN
