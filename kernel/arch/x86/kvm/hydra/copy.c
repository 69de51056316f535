// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copies of entries between the trees of a VM.
 *
 * A page that vCPUs of several nodes use costs each node a fault, which is an exit of the
 * guest. So a fault of one domain copies the neighbours that the trees of other domains have
 * already: up to 2^prefetch entries of the size of its own, in the same table. Nothing gets mapped
 * that another tree does not map, so nothing is asked of the host's page table.
 *
 * The fault reads the source and writes the copy while it holds mmu_lock for reading. KVM ends
 * the mappings of a frame, and clears the software bits that permit writes, with mmu_lock held
 * for writing. So what a source entry says stays true during the copy, even if the source's
 * table goes meanwhile (a huge entry takes its place). Four rules keep the copy true afterwards:
 *
 * No copy in a range that is being invalidated. KVM zaps one tree after another, and may
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
 * see is_page_fault_stale(), but its neighbours may be. A huge entry is left out if the range
 * has any page of it: the host may be splitting the huge page.
 *
 * No writable copy in a memslot whose dirty pages are logged. KVM takes the write
 * permission of one tree after another with the lock held for reading, so a source may still
 * be writable when the own tree has been visited. A fault that can run at that time sees the
 * slot's flag: kvm_swap_active_memslots() waits for faults that do not. The first write through
 * the copy goes through fast_page_fault(), which logs. With PML, a copy that is not dirty would
 * be logged in any case. No huge entry is copied there: a fault that sees the flag sets a small
 * entry, see kvm_mmu_hugepage_adjust(), and copies entries of the same size. So the log finds all
 * huge entries when it begins, to split them or to take their write permission.
 *
 * Copies are in the memslot of the fault, with all their pages. The slot was looked up in this
 * section of kvm->srcu, and a slot is deleted after such sections have ended.
 *
 * Under replication "eager", as in vMitosis, a fault also copies its entry into the other trees
 * that vCPUs have, with the tables that lead there. They are allocated without waiting, because
 * mmu_lock is held: without memory, or beyond half of the VM's limit, the other tree gets its entry
 * by a fault of its own. That copy is as true as the others: its frame was found not stale.
 *
 * A copy is neither dirty nor accessed. Its tree has not used it. In all else it permits
 * what its source permits. That holds for huge entries, too: where KVM wants small entries, for
 * frames whose writes it tracks, it has taken the write permission of huge entries in all trees
 * at once, under mmu_lock held for writing, and makes no new ones. To execute a huge page that is
 * mapped without that permission (nx_huge_pages) takes a fault of the own tree, which splits it.
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
#include "internal.h"
#include "trace.h"

/*
 * What may be copied around a fault's entry: the entries of whole pages of the memslot
 *
 * @level: of the fault's entry, and of the copies
 * @size: of the pages, in frames
 */
struct hydra_vm_window {
	gfn_t first, end, size;
	int level;
	bool logged;
};

static void hydra_vm_window(const struct kvm_page_fault *fault, unsigned int degree,
			    struct hydra_vm_window *w)
{
	const struct kvm_memory_slot *slot = fault->slot;
	gfn_t all;

	w->level = fault->goal_level;
	w->size = KVM_PAGES_PER_HPAGE(w->level);
	all = w->size << degree;
	w->first = max(round_down(fault->gfn, all), round_up(slot->base_gfn, w->size));
	w->end = min(round_down(fault->gfn, all) + all,
		     round_down(slot->base_gfn + slot->npages, w->size));
	w->logged = kvm_slot_dirty_track_enabled(slot);
}

/*
 * Does a range that is being invalidated have a page of these? Until KVM knows the range, both ends
 * are INVALID_GPA.
 * Context: mmu_lock.
 */
static bool hydra_vm_being_invalidated(const struct kvm *kvm, gfn_t first, gfn_t size)
{
	return kvm->mmu_invalidate_in_progress &&
	       first < kvm->mmu_invalidate_range_end &&
	       (first + size > kvm->mmu_invalidate_range_start ||
		kvm->mmu_invalidate_range_start == INVALID_GPA);
}

/* Go to the entry of a frame in a table of a level. Return: false if there is no such table. */
static bool hydra_vm_find(struct kvm_mmu_page *root, gfn_t gfn, int level, struct tdp_iter *iter)
{
	for_each_tdp_pte_min_level((*iter), root, level, gfn, gfn + 1)
		if (iter->level == level)
			return true;
	return false;
}

/* Is an entry one that another tree may have a copy of? */
static bool hydra_vm_may_copy(u64 spte, int level)
{
	return is_shadow_present_pte(spte) && is_last_spte(spte, level) && spte_ad_enabled(spte);
}

/* A copy: neither dirty nor accessed, nor writable in a memslot that is logged */
static u64 hydra_vm_derive(u64 spte, bool logged)
{
	spte &= ~(shadow_accessed_mask | shadow_dirty_mask);
	return logged ? spte & ~PT_WRITABLE_MASK : spte;
}

/*
 * Copy what a sibling's table has in the window, and the own table lacks. A CPU that waits
 * for mmu_lock ends it: copies are optional.
 *
 * @to: the own tree's entry of the window's first frame
 * @copied: gets the number of copies added
 *
 * Return: true if the own table may lack entries that another sibling has.
 */
static bool hydra_vm_copy_table(struct kvm *kvm, struct tdp_iter to,
				struct kvm_mmu_page *sibling,
				const struct hydra_vm_window *w, unsigned int *copied)
{
	const u64 *own = rcu_dereference(to.sptep), *source;
	unsigned int i = 0, lacking = 0;
	struct tdp_iter from;

	if (!hydra_vm_find(sibling, w->first, w->level, &from))
		return true;
	source = rcu_dereference(from.sptep);
	for (gfn_t gfn = w->first; gfn < w->end; gfn += w->size, i++) {
		u64 spte;

		if (READ_ONCE(own[i]) != SHADOW_NONPRESENT_VALUE ||
		    hydra_vm_being_invalidated(kvm, gfn, w->size))
			continue;
		lacking++;
		spte = READ_ONCE(source[i]);
		if (!hydra_vm_may_copy(spte, w->level))
			continue;
		if (rwlock_is_contended(&kvm->mmu_lock))
			return false;
		to.sptep = (tdp_ptep_t)(own + i);
		to.gfn = gfn;
		to.old_spte = SHADOW_NONPRESENT_VALUE;
		/* Another vCPU of the domain may be faster. */
		if (!hydra_vm_set_absent(kvm, &to, hydra_vm_derive(spte, w->logged)))
			(*copied)++;
		lacking--;
	}
	return lacking;
}

/* Allocate a table for a domain tree without waiting, with what KVM knows of it, or NULL */
static struct kvm_mmu_page *hydra_vm_table_at_once(struct kvm *kvm, unsigned int d)
{
	const gfp_t gfp = GFP_NOWAIT | __GFP_ACCOUNT | __GFP_NOWARN;
	int home = hydra_vm_home(d - 1);
	struct kvm_mmu_page *sp;
	struct page *page;

	if (!hydra_vm_has_spare(kvm))
		return NULL;
	sp = kmem_cache_zalloc(mmu_page_header_cache, gfp);
	page = sp ? alloc_pages_node(home, gfp | __GFP_THISNODE, 0) : NULL;
	if (!page) {
		if (sp)
			kmem_cache_free(mmu_page_header_cache, sp);
		return NULL;
	}
	sp->spt = page_address(page);
	memset64((u64 *)sp->spt, SHADOW_NONPRESENT_VALUE, SPTE_ENT_PER_PAGE);
	return sp;
}

/* Put a copy into a tree that has none, with the tables above. Return: true if that was done. */
static bool hydra_vm_push(struct kvm *kvm, struct kvm_mmu_page *root, gfn_t gfn, int level,
			  u64 spte)
{
	struct kvm_mmu_page *sp;
	struct tdp_iter iter;

	for_each_tdp_pte_min_level(iter, root, level, gfn, gfn + 1) {
		if (iter.level == level)
			return iter.old_spte == SHADOW_NONPRESENT_VALUE &&
			       !hydra_vm_set_absent(kvm, &iter, spte);
		if (is_shadow_present_pte(iter.old_spte) &&
		    !is_last_spte(iter.old_spte, iter.level))
			continue;
		/* A huge page, or one that another CPU is just about to change */
		if (iter.old_spte != SHADOW_NONPRESENT_VALUE)
			return false;
		sp = hydra_vm_table_at_once(kvm, root->role.domain);
		if (!sp)
			return false;
		if (hydra_vm_link_absent(kvm, &iter, sp)) {
			free_page((unsigned long)sp->spt);
			kmem_cache_free(mmu_page_header_cache, sp);
			return false;
		}
	}
	return false;
}

/*
 * Copy the fault's entry into the other trees that vCPUs have: replication "eager".
 * Return: how many copies.
 */
static unsigned int hydra_vm_push_all(struct kvm *kvm, struct kvm_mmu_page *own,
				      const struct kvm_page_fault *fault, bool logged)
{
	union kvm_mmu_page_role role = own->role;
	u32 loaded = hydra_vm_loaded_trees(kvm);
	unsigned int copied = 0;
	int level = fault->goal_level;
	gfn_t gfn = round_down(fault->gfn, KVM_PAGES_PER_HPAGE(level));
	struct kvm_mmu_page *root;
	struct tdp_iter from;
	u64 spte;

	if (!hydra_vm_find(own, gfn, level, &from))
		return 0;
	spte = READ_ONCE(*rcu_dereference(from.sptep));
	if (!hydra_vm_may_copy(spte, level))
		return 0;
	spte = hydra_vm_derive(spte, logged);
	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		if (rwlock_is_contended(&kvm->mmu_lock))
			break;
		role.domain = root->role.domain;
		if (root == own || !role.domain || !(loaded & BIT(role.domain)) ||
		    !hydra_vm_uses(kvm->arch.hydra, role.domain) || root->role.word != role.word ||
		    !hydra_vm_push(kvm, root, gfn, level, spte))
			continue;
		atomic64_inc(&kvm->stat.hydra_copied[role.domain]);
		copied++;
	}
	return copied;
}

/* Copy what trees of other domains have in the window, one after the other: see the next. */
static void hydra_vm_copy_all(struct kvm *kvm, struct kvm_mmu_page *own, const struct tdp_iter *to,
			      const struct hydra_vm_window *w, unsigned int *copied)
{
	union kvm_mmu_page_role role = own->role;
	struct kvm_mmu_page *root;

	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		/* A valid root is one that KVM's loops over roots reach. */
		role.domain = root->role.domain;
		if (root != own && root->role.word == role.word &&
		    !hydra_vm_copy_table(kvm, *to, root, w, copied))
			break;
	}
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
	struct kvm_mmu_page *own = root_to_sp(vcpu->arch.mmu->root.hpa);
	struct kvm *kvm = vcpu->kvm;
	const union hydra_choice choice = READ_ONCE(kvm->arch.hydra->settings);
	const union kvm_mmu_page_role role = own->role;
	struct hydra_vm_window w;
	unsigned int copied = 0, pushed = 0;
	struct tdp_iter to;

	lockdep_assert_held_read(&kvm->mmu_lock);
	/* Shadow tables of nested guests are compared by KVM itself. */
	if (!fault->slot || role.guest_mode || !kvm_ad_enabled())
		return;
	hydra_vm_window(fault, choice.prefetch, &w);
	/* Tables that are taken away meanwhile are freed after a grace period. */
	guard(rcu)();
	if (choice.replication == HYDRA_REPLICATE_EAGER)
		pushed = hydra_vm_push_all(kvm, own, fault, w.logged);
	if (choice.prefetch && hydra_vm_find(own, w.first, w.level, &to))
		hydra_vm_copy_all(kvm, own, &to, &w, &copied);
	if (copied)
		atomic64_add(copied, &kvm->stat.hydra_copied[role.domain]);
	if (copied || pushed)
		trace_hydra_vm_copy(kvm, (int)role.domain - 1, fault->gfn, copied + pushed);
}
