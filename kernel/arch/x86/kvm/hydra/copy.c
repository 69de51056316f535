// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of entries between the trees of a VM.
 *
 * A page that vCPUs of several nodes use costs each node a fault, which is an exit of the
 * guest. So a fault of one domain copies the neighbours that the trees of other domains have
 * already: up to 2^prefetch small entries, in the same leaf table. Nothing gets mapped that
 * another tree does not map, so nothing is asked of the host's page table.
 *
 * The entry and its copy are written while mmu_lock is held for reading, and KVM takes
 * entries away with the lock held for writing, or atomically. A source entry is therefore
 * valid at the moment of the copy. Four rules keep the copy valid afterwards:
 *
 * T1: no copy in a range that is being invalidated. KVM zaps one tree after another, and may
 * give up the lock in between:
 *
 *     CPU 0: munmap()                     CPU 1: fault in domain 1
 *     ---------------                     ------------------------
 *     mmu_invalidate_in_progress++
 *     zaps the range in tree 1
 *     gives up mmu_lock
 *                                         copies an entry of the range from tree 2
 *     zaps the range in tree 2
 *     frees the page
 *
 * The copy in tree 1 would map a freed page. The fault's own entry is not in such a range,
 * see is_page_fault_stale(), but its neighbours may be.
 *
 * T2: no writable copy in a memslot whose dirty pages are logged. KVM takes the write
 * permission of one tree after another with the lock held for reading, so a source may still
 * be writable when the own tree has been visited. A fault that can run at that time sees the
 * slot's flag: kvm_swap_active_memslots() waits for faults that do not. The first write through
 * the copy goes through fast_page_fault(), which logs.
 *
 * T3: copies are in the memslot of the fault. The slot was looked up in this section of
 * kvm->srcu, and a slot is deleted after such sections have ended.
 *
 * T4: a copy is neither dirty nor accessed. Its tree has not used it.
 */

#include <linux/hydra_vm.h>
#include <linux/kvm_host.h>
#include <linux/rculist.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_iter.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"

struct hydra_vm_window {
	gfn_t first, end;
	bool logged;
};

/* What may be copied around a fault's entry. Return: false if nothing may be. */
static bool hydra_vm_window(struct kvm *kvm, const struct kvm_page_fault *fault,
			    unsigned int degree, struct hydra_vm_window *w)
{
	const struct kvm_memory_slot *slot = fault->slot;

	w->first = max(round_down(fault->gfn, 1 << degree), slot->base_gfn);
	w->end = min(round_down(fault->gfn, 1 << degree) + (1 << degree),
		     slot->base_gfn + slot->npages);
	w->logged = kvm_slot_dirty_track_enabled(slot);
	/* T1 */
	return !kvm->mmu_invalidate_in_progress ||
	       w->end <= kvm->mmu_invalidate_range_start ||
	       w->first >= kvm->mmu_invalidate_range_end;
}

/* Go to the leaf entry of a frame. Return: false if the tree has no leaf table there. */
static bool hydra_vm_find(struct kvm_mmu_page *root, gfn_t gfn, struct tdp_iter *iter)
{
	for_each_tdp_pte((*iter), root, gfn, gfn + 1)
		if (iter->level == PG_LEVEL_4K)
			return true;
	return false;
}

/* Is an entry one that another tree may have a copy of? */
static bool hydra_vm_may_copy(u64 spte)
{
	return is_shadow_present_pte(spte) && spte_ad_enabled(spte);
}

/* T2, T4 */
static u64 hydra_vm_derive(u64 spte, bool logged)
{
	spte &= ~(shadow_accessed_mask | shadow_dirty_mask);
	return logged ? spte & ~PT_WRITABLE_MASK : spte;
}

/*
 * Copy what a sibling's leaf table has in the window, and the own table lacks.
 * Return: how many entries were copied.
 */
static unsigned int hydra_vm_copy_table(struct kvm *kvm, struct kvm_mmu_page *own,
					struct kvm_mmu_page *sibling,
					const struct hydra_vm_window *w)
{
	struct tdp_iter from, to;
	unsigned int copied = 0;
	u64 spte;

	if (!hydra_vm_find(sibling, w->first, &from))
		return 0;
	for_each_tdp_pte(to, own, w->first, w->end) {
		if (to.level != PG_LEVEL_4K || to.old_spte != SHADOW_NONPRESENT_VALUE)
			continue;
		spte = READ_ONCE(rcu_dereference(from.sptep)[to.gfn - w->first]);
		if (!hydra_vm_may_copy(spte))
			continue;
		/* Another vCPU of the domain may be faster. */
		if (!hydra_vm_set_absent(kvm, &to, hydra_vm_derive(spte, w->logged)))
			copied++;
	}
	return copied;
}

/**
 * __hydra_vm_fill_around - copy entries near a fault's entry from the trees of other domains
 * @vcpu: the vCPU, with a domain tree
 * @fault: the fault, whose entry has been set
 *
 * Context: mmu_lock held for reading since the fault was found not to be stale.
 */
void __hydra_vm_fill_around(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault)
{
	struct kvm_mmu_page *root, *own = root_to_sp(vcpu->arch.mmu->root.hpa);
	struct kvm *kvm = vcpu->kvm;
	struct hydra_vm *vm = kvm->arch.hydra;
	unsigned int degree = hydra_vm_prefetch(READ_ONCE(vm->settings));
	union kvm_mmu_page_role role = own->role;
	struct hydra_vm_window w;
	unsigned int copied = 0;

	lockdep_assert_held_read(&kvm->mmu_lock);
	/* Shadow tables of nested guests are compared by KVM itself; large entries are few. */
	if (!degree || fault->goal_level != PG_LEVEL_4K || !fault->slot ||
	    role.guest_mode || !kvm_ad_enabled())
		return;
	if (!hydra_vm_window(kvm, fault, degree, &w))
		return;
	/* Tables that are taken away meanwhile are freed after a grace period. */
	guard(rcu)();
	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		/* A valid root is one that KVM's loops over roots reach. */
		role.domain = root->role.domain;
		if (root != own && root->role.word == role.word)
			copied += hydra_vm_copy_table(kvm, own, root, &w);
	}
	if (copied)
		atomic_long_add(copied, &vm->copied);
}
