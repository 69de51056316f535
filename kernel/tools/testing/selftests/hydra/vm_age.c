// SPDX-License-Identifier: GPL-2.0-only
/*
 * Accessed bits of nested page tables: Linux sees an access through the tree of any node, and
 * once Linux has cleared the bits, none is left in a tree.
 */
#include <fcntl.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define PAGES	8UL
#define IDLE	"/sys/kernel/mm/page_idle/bitmap"

FIXTURE(vm_age) {
	struct vm vm;
	int last, idle, pagemap;
};

FIXTURE_SETUP(vm_age)
{
	VM_BEGIN();
	self->idle = open(IDLE, O_RDWR | O_CLOEXEC);
	if (self->idle < 0)
		SKIP(return, "no " IDLE " (CONFIG_IDLE_PAGE_TRACKING)");
	self->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->pagemap);
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_age)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
	close(self->idle);
	close(self->pagemap);
}

/* The frame of a page of the region, as the index of its bit; 0: none */
static uint64_t frame(FIXTURE_DATA(vm_age) *self, unsigned long page)
{
	uintptr_t address = (uintptr_t)self->vm.region + page * PAGE_SIZE;
	uint64_t entry = 0;

	if (pread(self->pagemap, &entry, 8, address / PAGE_SIZE * 8) != 8 || !(entry >> 63))
		return 0;
	return entry & ((1UL << 55) - 1);
}

static bool is_idle(FIXTURE_DATA(vm_age) *self, unsigned long page)
{
	uint64_t pfn = frame(self, page), bits = 0;

	return pread(self->idle, &bits, 8, pfn / 64 * 8) == 8 && bits >> pfn % 64 & 1;
}

/* Clears the accessed bits, in all page tables. */
static void make_idle(struct __test_metadata *_metadata, FIXTURE_DATA(vm_age) *self)
{
	for (unsigned long page = 0; page < PAGES; page++) {
		uint64_t pfn = frame(self, page), bit = 1UL << pfn % 64;

		ASSERT_NE(0, pfn);
		ASSERT_EQ(8, pwrite(self->idle, &bit, 8, pfn / 64 * 8));
	}
	for (unsigned long page = 0; page < PAGES; page++) {
		ASSERT_TRUE(is_idle(self, page)) TH_LOG("page %lu", page);
	}
}

TEST_F_TIMEOUT(vm_age, access_of_any_node_is_seen, 60)
{
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, PAGES));
	}
	for (int node = 0; node <= self->last; node++) {
		long faults;

		make_idle(_metadata, self);
		faults = vm_faults(&self->vm, node);
		/* Hardware alone: the vCPU has the entries. */
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, PAGES / 2));
		ASSERT_EQ(faults, vm_faults(&self->vm, node));
		for (unsigned long page = 0; page < PAGES; page++) {
			EXPECT_EQ(page >= PAGES / 2, is_idle(self, page))
				TH_LOG("node %d, page %lu", node, page);
		}
	}
}

/* All nodes access a page; Linux clears the bits of all of them at once. */
TEST_F_TIMEOUT(vm_age, bits_of_all_trees_are_cleared, 60)
{
	for (int round = 0; round < 3; round++) {
		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, PAGES));
		}
		make_idle(_metadata, self);
	}
}

/* A fault beside a page copies its entry. That is no access to the page. */
TEST_F_TIMEOUT(vm_age, copied_entry_is_no_access, 60)
{
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES + 1));
	make_idle(_metadata, self);
	for (int node = 1; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, PAGES, 1));
	}
	EXPECT_LE(PAGES * self->last, vm_number("copied"));
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_TRUE(is_idle(self, page)) TH_LOG("page %lu", page);
	}
}

/* The vCPU leaves the tree in which its accesses are noted. */
TEST_F_TIMEOUT(vm_age, access_is_seen_after_its_tree_was_dropped, 60)
{
	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES + 1));
	make_idle(_metadata, self);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES / 2));
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, PAGES, 1));
	ASSERT_TRUE(vm_await_dropped(1));
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_EQ(page >= PAGES / 2, is_idle(self, page)) TH_LOG("page %lu", page);
	}
}

HYDRA_HARNESS_MAIN
