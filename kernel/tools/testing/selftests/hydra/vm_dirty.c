// SPDX-License-Identifier: GPL-2.0-only
/*
 * The log of dirty pages, as a live migration uses it: a round asks which pages were written,
 * and copies these. vCPUs on all nodes write meanwhile. When they have stopped, one round more
 * makes the copy equal to the memory, or a write was missing from the log.
 */
#include <errno.h>
#include <numaif.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define MIGRATIONS	2
#define ROUNDS		4	/* of the log, while vCPUs write */
#define PART		64UL	/* pages that one vCPU writes before it goes to the next part */
#define RING		1024	/* entries */

/* Not on the stack: see hydra_util.c */
static unsigned int copy[VM_REGION_PAGES];
static unsigned long bitmap[VM_REGION_PAGES / 64];

FIXTURE(vm_dirty) {
	struct vm vm;
	struct vm_writer writers[HYDRA_MAX_NODES];
	unsigned long pages;
	unsigned int next[HYDRA_MAX_NODES];	/* entry of each vCPU's ring */
	unsigned long reported, unchanged;
};

FIXTURE_VARIANT(vm_dirty) {
	unsigned long manual;		/* KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE and so on */
	unsigned int ring;
};

FIXTURE_VARIANT_ADD(vm_dirty, bitmap) { };

FIXTURE_VARIANT_ADD(vm_dirty, manual) {
	.manual = KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE,
};

FIXTURE_VARIANT_ADD(vm_dirty, initially_all_set) {
	.manual = KVM_DIRTY_LOG_MANUAL_PROTECT_ENABLE | KVM_DIRTY_LOG_INITIALLY_SET,
};

FIXTURE_VARIANT_ADD(vm_dirty, ring) {
	.ring = RING,
};

FIXTURE_SETUP(vm_dirty)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	vm_make_with_rings(&self->vm, variant->ring);
	if (variant->manual)
		vm_enable_cap(self->vm.kvm, KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, variant->manual);
	self->pages = self->vm.nr * PART;
	ASSERT_GE(VM_REGION_PAGES, self->pages);
}

FIXTURE_TEARDOWN(vm_dirty)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* Take the reports of all vCPUs, and let KVM protect these pages again: all of them. */
static void harvest_rings(struct __test_metadata *_metadata, FIXTURE_DATA(vm_dirty) *self)
{
	unsigned int taken = 0;

	memset(bitmap, 0, sizeof(bitmap));
	for (int i = 0; i < self->vm.nr; i++) {
		struct kvm_dirty_gfn *ring = vcpu_map_dirty_ring(self->vm.vcpu[i].kvm), *e;

		for (;; self->next[i]++, taken++) {
			e = &ring[self->next[i] % RING];
			if (!(__atomic_load_n(&e->flags, __ATOMIC_ACQUIRE) & KVM_DIRTY_GFN_F_DIRTY))
				break;
			if (e->slot == VM_SLOT)
				bitmap[e->offset / 64] |= 1UL << e->offset % 64;
			__atomic_store_n(&e->flags, KVM_DIRTY_GFN_F_RESET, __ATOMIC_RELEASE);
		}
	}
	ASSERT_EQ(taken, kvm_vm_reset_dirty_ring(self->vm.kvm));
}

static void harvest_bitmap(FIXTURE_DATA(vm_dirty) *self, bool manual)
{
	if (vm_logged(&self->vm, bitmap) && manual)
		kvm_vm_clear_dirty_log(self->vm.kvm, VM_SLOT, bitmap, 0, VM_REGION_PAGES);
}

/* The pages are protected again before they are copied: a later write is reported again. */
static void copy_reported(struct __test_metadata *_metadata, FIXTURE_DATA(vm_dirty) *self,
			  const FIXTURE_VARIANT(vm_dirty) *variant)
{
	if (variant->ring)
		harvest_rings(_metadata, self);
	else
		harvest_bitmap(self, variant->manual);
	for (unsigned long page = 0; page < self->pages; page++) {
		if (!(bitmap[page / 64] >> page % 64 & 1))
			continue;
		self->reported++;
		self->unchanged += copy[page] == *vm_word(&self->vm, page);
		copy[page] = *vm_word(&self->vm, page);
	}
}

/* The host moves the pages: the vCPUs of all nodes fault, and copy entries of each other. */
static void move_pages_to(struct __test_metadata *_metadata, FIXTURE_DATA(vm_dirty) *self,
			  int node)
{
	unsigned long mask = 1UL << hydra_node_id(node);

	ASSERT_EQ(0, mbind(self->vm.region, self->pages * PAGE_SIZE, MPOL_BIND, &mask, 64,
			   MPOL_MF_MOVE));
}

static void migrate(struct __test_metadata *_metadata, FIXTURE_DATA(vm_dirty) *self,
		    const FIXTURE_VARIANT(vm_dirty) *variant)
{
	ASSERT_EQ(0, vm_writers_begin(&self->vm, self->writers, PART, self->vm.nr));
	move_pages_to(_metadata, self, 1);
	vm_log(&self->vm, true);
	for (unsigned long page = 0; page < self->pages; page++)
		copy[page] = *vm_word(&self->vm, page);
	for (int round = 0; round < ROUNDS; round++) {
		copy_reported(_metadata, self, variant);
		/* N5: each page that a vCPU can write is in the bitmap, if there is one. */
		EXPECT_TRUE(vm_consistent());
		if (round % 2)
			move_pages_to(_metadata, self, round / 2 % self->vm.nr);
		/* A vCPU whose ring is full waits for the next round. */
		for (int i = 0; i < self->vm.nr && !variant->ring; i++)
			vm_await_writer(&self->writers[i]);
	}
	/* What fills a ring while the vCPUs end has to be taken, or they wait for ever. */
	for (int i = 0; i < self->vm.nr; i++)
		self->writers[i].stop = true;
	for (int i = 0; i < self->vm.nr; i++)
		while (!self->writers[i].ended) {
			copy_reported(_metadata, self, variant);
			usleep(1000);
		}
	ASSERT_EQ(0, vm_writers_end(&self->vm, self->writers));
	copy_reported(_metadata, self, variant);
	for (unsigned long page = 0; page < self->pages; page++) {
		ASSERT_EQ(copy[page], *vm_word(&self->vm, page))
			TH_LOG("page %lu: its last write is missing from the log", page);
	}
	vm_log(&self->vm, false);
}

TEST_F_TIMEOUT(vm_dirty, copy_is_complete_when_vcpus_have_stopped, 120)
{
	unsigned long written = 0;

	for (int i = 0; i < MIGRATIONS; i++) {
		migrate(_metadata, self, variant);
		for (int j = 0; j < self->vm.nr; j++)
			for (int part = 0; part < self->vm.nr; part++)
				written += self->writers[j].written[part] * PART;
	}
	EXPECT_LT(0, vm_number("copied"));
	/* No write is lost while its page moves. */
	for (unsigned long page = 0; page < self->pages; page++)
		written -= *vm_word(&self->vm, page);
	EXPECT_EQ(0, written);
	TH_LOG("%lu pages reported, %lu of them without a change since the round before",
	       self->reported, self->unchanged);
}

HYDRA_HARNESS_MAIN
