// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks whether all nested trees of a VM keep the rules of Documentation/mm/hydra/vm.rst, as
 * far as one moment can show them. That page says what the number of a violation means.
 *
 * The checker holds mmu_lock for writing from beginning to end, so that faults, flushes and
 * frees wait, and the numbers belong together: only an administrator may ask for it. The CPU does
 * nothing else meanwhile, and looks up each entry in each other tree. So a VM with many tables,
 * times trees, is not checked, unless the administrator raises hydra_check_tables.
 * Entries still change in two ways: hardware sets accessed and dirty bits, and
 * fast_page_fault() makes entries writable.
 *
 * That is why the log is looked at twice. fast_page_fault() marks the page in the log only after
 * it has changed the entry:
 *
 *     CPU 0: hydra_vm_check_vm()          CPU 1: fast_page_fault()
 *     --------------------------          ------------------------
 *                                         rcu_read_lock()
 *                                         makes the entry writable
 *     finds it writable, and no mark
 *     gives up mmu_lock
 *     synchronize_rcu()                   marks the page
 *                                         rcu_read_unlock()
 *     finds the mark
 *
 * Marks are cleared by holders of slots_lock alone, so CPU 0 holds that, too. The log is
 * not looked at if the processor logs writes (PML), nor if KVM reports them in rings.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/moduleparam.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* 8 million looks at an entry: below a second. As for 8 GiB of small pages in two trees */
static unsigned long hydra_check_tables __read_mostly = 16384;
module_param(hydra_check_tables, ulong, 0644);
MODULE_PARM_DESC(hydra_check_tables, "A VM with more nested tables, times its trees, is not checked by hydra_vm_check");

/* A page that may be written unlogged */
struct hydra_vm_unlogged {
	struct kvm_memory_slot *slot;
	gfn_t gfn;
	unsigned int domain;
};

/*
 * One walk of the checker over all trees of a VM
 *
 * @looks_at_log: slots_lock is held, and faults mark written pages in bitmaps
 * @below: tables below roots, by domain
 * @unlogged: the first pages that are to be looked at again
 */
struct hydra_vm_walk {
	struct kvm *kvm;
	struct seq_file *m;
	struct kvm_mmu_page *root;
	unsigned int domain;
	unsigned long below_roots;
	unsigned long below[HYDRA_VM_MAX_DOMAINS + 1];
	unsigned long misplaced;
	long violations;
	bool looks_at_log;
	unsigned int nr_unlogged;
	struct hydra_vm_unlogged unlogged[32];
};

static void hydra_vm_violated(struct hydra_vm_walk *w, int rule, gfn_t gfn, const char *what)
{
	w->violations++;
	if (w->m)
		seq_printf(w->m, "violation N%d gfn 0x%llx domain %u: %s\n", rule, gfn,
			   w->domain, what);
	else
		pr_err_ratelimited("invariant N%d broken at gfn 0x%llx, domain %u: %s\n",
				   rule, gfn, w->domain, what);
}

/* The frame that a tree maps a guest frame to. Return: false if none. */
static bool hydra_vm_lookup(struct kvm_mmu_page *sp, gfn_t gfn, kvm_pfn_t *pfn)
{
	for (;;) {
		int level = sp->role.level;
		u64 spte = READ_ONCE(sp->spt[hydra_vm_index(gfn, level)]);

		if (!is_shadow_present_pte(spte))
			return false;
		if (is_last_spte(spte, level)) {
			*pfn = spte_to_pfn(spte) + (gfn & (KVM_PAGES_PER_HPAGE(level) - 1));
			return true;
		}
		sp = spte_to_child_sp(spte);
	}
}

/* For a writable entry: note the first of its pages that is not marked in the log. */
static void hydra_vm_look_at_log(struct hydra_vm_walk *w, struct kvm_memory_slot *slot,
				 gfn_t gfn, int level)
{
	unsigned long first = gfn - slot->base_gfn, end, page;

	if (!w->looks_at_log || !slot->dirty_bitmap ||
	    w->nr_unlogged == ARRAY_SIZE(w->unlogged))
		return;
	end = min(first + KVM_PAGES_PER_HPAGE(level), slot->npages);
	page = find_next_zero_bit_le(slot->dirty_bitmap, end, first);
	if (page < end)
		w->unlogged[w->nr_unlogged++] = (struct hydra_vm_unlogged) {
			slot, slot->base_gfn + page, w->domain
		};
}

/* The log again, for the pages noted: faults that were about to mark them have done so. */
static void hydra_vm_check_log(struct hydra_vm_walk *w)
{
	lockdep_assert_held(&w->kvm->slots_lock);
	if (!w->nr_unlogged)
		return;
	synchronize_rcu();
	for (unsigned int i = 0; i < w->nr_unlogged; i++) {
		const struct hydra_vm_unlogged *u = &w->unlogged[i];

		w->domain = u->domain;
		if (!test_bit_le(u->gfn - u->slot->base_gfn, u->slot->dirty_bitmap))
			hydra_vm_violated(w, 5, u->gfn, "writable, and not in the log");
	}
}

/* One leaf entry: its memslot, its frame in other trees, and the log */
static void hydra_vm_check_leaf(struct hydra_vm_walk *w, gfn_t gfn, u64 spte, int level)
{
	int as_id = kvm_mmu_page_as_id(w->root);
	struct kvm_memory_slot *slot;
	struct kvm_mmu_page *other;
	kvm_pfn_t pfn;

	if (w->root->role.invalid)
		return;
	slot = __gfn_to_memslot(__kvm_memslots(w->kvm, as_id), gfn);
	if (!slot)
		hydra_vm_violated(w, 1, gfn, "present outside of all memslots");
	else if ((slot->flags & KVM_MEM_READONLY) && is_writable_pte(spte))
		hydra_vm_violated(w, 1, gfn, "writable in a memslot that is read-only");
	else if (is_writable_pte(spte))
		hydra_vm_look_at_log(w, slot, gfn, level);
	/* All other trees: a tree may have small entries where another has a huge one. */
	list_for_each_entry(other, &w->kvm->arch.tdp_mmu_roots, link) {
		if (other == w->root || other->role.invalid ||
		    kvm_mmu_page_as_id(other) != as_id)
			continue;
		if (hydra_vm_lookup(other, gfn, &pfn) && pfn != spte_to_pfn(spte))
			hydra_vm_violated(w, 1, gfn, "another frame than in another tree");
	}
}

/* A table and all below. The depth is that of the tree: 5 at most. */
static void hydra_vm_walk_table(struct hydra_vm_walk *w, struct kvm_mmu_page *sp)
{
	int nid = page_to_nid(virt_to_page(sp->spt)), level = sp->role.level, i;
	unsigned int d = w->domain;

	w->below_roots += sp != w->root;
	w->below[d] += sp != w->root;
	if (sp->role.domain != d)
		hydra_vm_violated(w, 3, sp->gfn, "a table of another domain");
	if (d && nid != hydra_vm_home(d - 1))
		w->misplaced++;
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		u64 spte = READ_ONCE(sp->spt[i]);
		struct kvm_mmu_page *child;

		if (!is_shadow_present_pte(spte))
			continue;
		if (!is_last_spte(spte, level)) {
			child = spte_to_child_sp(spte);
			if (rcu_access_pointer(child->ptep) != (tdp_ptep_t)&sp->spt[i] ||
			    spte_to_pfn(spte) != PHYS_PFN(__pa(child->spt)))
				hydra_vm_violated(w, 8, child->gfn,
						  "a table that does not know its entry or its page");
			hydra_vm_walk_table(w, child);
			continue;
		}
		hydra_vm_check_leaf(w, sp->gfn + i * KVM_PAGES_PER_HPAGE(level), spte, level);
	}
}

/* Context: mmu_lock for writing; a section of kvm->srcu. */
static void hydra_vm_walk(struct hydra_vm_walk *w)
{
	lockdep_assert_held_write(&w->kvm->mmu_lock);
	lockdep_assert(srcu_read_lock_held(&w->kvm->srcu));
	list_for_each_entry(w->root, &w->kvm->arch.tdp_mmu_roots, link) {
		w->domain = w->root->role.domain;
		hydra_vm_walk_table(w, w->root);
	}
	w->domain = 0;
}

/*
 * Are there so few tables that the CPU may look up each entry in each tree?
 * Context: mmu_lock for writing.
 */
static bool hydra_vm_is_small(struct hydra_vm_walk *w)
{
	unsigned long tables = atomic64_read(&w->kvm->arch.tdp_mmu_pages), trees = 0;
	unsigned long limit = READ_ONCE(hydra_check_tables);
	struct kvm_mmu_page *root;

	lockdep_assert_held_write(&w->kvm->mmu_lock);
	list_for_each_entry(root, &w->kvm->arch.tdp_mmu_roots, link)
		trees += !root->role.invalid;
	if (tables * max(trees, 1UL) <= limit)
		return true;
	if (w->m)
		seq_printf(w->m, "not checked: %lu tables, %lu trees, and kvm.hydra_check_tables is %lu\n",
			   tables, trees, limit);
	return false;
}

/* One valid root for a role; a vCPU has a root of the domain that its role says. */
static void hydra_vm_check_roots(struct hydra_vm_walk *w)
{
	struct kvm_mmu_page *root, *other;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	list_for_each_entry(root, &w->kvm->arch.tdp_mmu_roots, link) {
		other = root;
		list_for_each_entry_continue(other, &w->kvm->arch.tdp_mmu_roots, link)
			if (!root->role.invalid && root->role.word == other->role.word)
				hydra_vm_violated(w, 3, 0, "two roots of one role");
	}
	kvm_for_each_vcpu(i, vcpu, w->kvm) {
		/*
		 * The root first: __hydra_vm_move() frees the roots before it changes the
		 * domain, and to free or find a root takes mmu_lock.
		 */
		hpa_t hpa = READ_ONCE(vcpu->arch.root_mmu.root.hpa);
		union kvm_mmu_page_role role;

		if (!VALID_PAGE(hpa))
			continue;
		role.word = READ_ONCE(vcpu->arch.root_mmu.root_role.word);
		root = root_to_sp(hpa);
		if (root && root->role.domain != role.domain)
			hydra_vm_violated(w, 3, 0, "a vCPU with the root of another domain");
	}
}

/* No tree's vCPUs have been flushed for changes that are still to come; its tables are counted. */
static void hydra_vm_check_numbers(struct hydra_vm_walk *w)
{
	const struct hydra_vm *vm = w->kvm->arch.hydra;
	unsigned int d;

	for (d = 0; vm->counts && d <= HYDRA_VM_MAX_DOMAINS; d++)
		if (atomic64_read(&vm->trees[d].flushed) > atomic64_read(&vm->trees[d].changed))
			hydra_vm_violated(w, 6, 0, "flushed for more changes than there were");
	for (d = 1; vm->counts && d <= HYDRA_VM_MAX_DOMAINS; d++)
		if (atomic64_read(&w->kvm->stat.hydra_tables[d]) != w->below[d])
			hydra_vm_violated(w, 4, 0, "a tree has not the tables that were counted");
}

/**
 * hydra_vm_check_vm - check the nested trees of a VM
 * @kvm: the VM
 * @m: where to report; NULL: among the kernel's messages, and the log is not looked at
 *
 * Context: process context, mmu_lock is not held. With @m no lock of KVM, and no section of
 * kvm->srcu, because the holder of slots_lock may wait for such a section.
 * Return: how many violations there are. The caller adds them to hydra_violations, once.
 * 0 also if the task is being killed, or if the VM is too large.
 */
long hydra_vm_check_vm(struct kvm *kvm, struct seq_file *m)
{
	struct hydra_vm_walk *w;
	long violations;
	bool small;
	int idx;

	w = kzalloc(sizeof(*w), GFP_KERNEL);
	if (!w)
		return 0;
	w->kvm = kvm;
	w->m = m;
	/* Its holder may wait for a VMM. */
	if (m && mutex_lock_killable(&kvm->slots_lock)) {
		kfree(w);
		return 0;
	}
	w->looks_at_log = m && kvm_use_dirty_bitmap(kvm) && !kvm_cpu_dirty_log_size();
	idx = srcu_read_lock(&kvm->srcu);
	write_lock(&kvm->mmu_lock);
	small = !tdp_mmu_enabled || hydra_vm_is_small(w);
	if (small && tdp_mmu_enabled) {
		hydra_vm_walk(w);
		hydra_vm_check_roots(w);
		hydra_vm_check_numbers(w);
		if (w->below_roots != atomic64_read(&kvm->arch.tdp_mmu_pages))
			hydra_vm_violated(w, 4, 0, "another number of tables than KVM counted");
		if (w->misplaced > atomic_long_read(&kvm->arch.hydra->misplaced))
			hydra_vm_violated(w, 2, 0, "more tables than counted are not at home");
	}
	write_unlock(&kvm->mmu_lock);
	if (m)
		hydra_vm_check_log(w);
	srcu_read_unlock(&kvm->srcu, idx);
	if (m)
		mutex_unlock(&kvm->slots_lock);
	if (m && small)
		seq_printf(m, "tables %lu misplaced %lu violations %ld\n", w->below_roots,
			   w->misplaced, w->violations);
	violations = w->violations;
	kfree(w);
	return violations;
}

/**
 * hydra_vm_end - all entries of a VM are about to be zapped, for good
 * @kvm: the VM; perhaps hydra_vm_init() has failed
 *
 * Context: process context; a section of kvm->srcu.
 */
void hydra_vm_end(struct kvm *kvm)
{
	if (IS_ENABLED(CONFIG_HYDRA_MM_DEBUG) && kvm->arch.hydra)
		atomic_long_add(hydra_vm_check_vm(kvm, NULL), &hydra_violations);
}
