// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks at all nested trees of a VM: where their tables are (the census), and whether they
 * keep the rules N1 to N4 of Documentation/mm/hydra/vm.rst (the checker).
 *
 * The checker holds mmu_lock for writing from beginning to end, so that faults, flushes and
 * frees wait, and the numbers belong together: only an administrator may ask for it.
 * Entries still change in two ways: hardware sets accessed and dirty bits, and
 * fast_page_fault() makes entries writable. The census lets faults go on.
 */

#define pr_fmt(fmt) "hydra: " fmt

/* How many entries the census looks at before it gives up mmu_lock */
#define HYDRA_VM_BATCH	65536

#include <linux/hydra_vm.h>
#include <linux/nodemask.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_iter.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* Leaf entries of the trees of one domain, by the node of their table; index 0: shared */
struct hydra_vm_leaves {
	unsigned long on[MAX_NUMNODES];
};

/* What the census counts */
struct hydra_vm_census {
	struct hydra_vm_leaves leaves[HYDRA_VM_MAX_DOMAINS + 1];	/* by domain */
	unsigned long tables[MAX_NUMNODES];	/* with roots, by node */
};

/* One walk of the checker over all trees of a VM */
struct hydra_vm_walk {
	struct kvm *kvm;
	struct seq_file *m;
	struct kvm_mmu_page *root;
	unsigned long below_roots;
	unsigned long misplaced;
	long violations;
};

static void hydra_vm_violated(struct hydra_vm_walk *w, int rule, gfn_t gfn, const char *what)
{
	w->violations++;
	if (w->m)
		seq_printf(w->m, "violation N%d gfn 0x%llx domain %u: %s\n", rule, gfn,
			   w->root ? w->root->role.domain : 0, what);
	else
		pr_err_ratelimited("invariant N%d broken at gfn 0x%llx, domain %u: %s\n",
				   rule, gfn, w->root ? w->root->role.domain : 0, what);
}

static unsigned int hydra_vm_index(gfn_t gfn, int level)
{
	return (gfn >> ((level - 1) * SPTE_LEVEL_BITS)) % SPTE_ENT_PER_PAGE;
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

/* N1 for one leaf entry */
static void hydra_vm_check_leaf(struct hydra_vm_walk *w, gfn_t gfn, u64 spte)
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
	unsigned int d = w->root->role.domain;

	w->below_roots += sp != w->root;
	if (sp->role.domain != d)
		hydra_vm_violated(w, 3, sp->gfn, "a table of another domain");
	if (d && nid != hydra_vm_home(d - 1))
		w->misplaced++;
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		u64 spte = READ_ONCE(sp->spt[i]);

		if (!is_shadow_present_pte(spte))
			continue;
		if (!is_last_spte(spte, level)) {
			hydra_vm_walk_table(w, spte_to_child_sp(spte));
			continue;
		}
		hydra_vm_check_leaf(w, sp->gfn + i * KVM_PAGES_PER_HPAGE(level), spte);
	}
}

/* Context: mmu_lock for writing; a section of kvm->srcu. */
static void hydra_vm_walk(struct hydra_vm_walk *w)
{
	lockdep_assert_held_write(&w->kvm->mmu_lock);
	list_for_each_entry(w->root, &w->kvm->arch.tdp_mmu_roots, link)
		hydra_vm_walk_table(w, w->root);
	w->root = NULL;
}

/* N3: one valid root for a role; a vCPU has a root of the domain that its role says. */
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

/**
 * hydra_vm_check_vm - check the nested trees of a VM
 * @kvm: the VM
 * @m: where to report; NULL: the kernel's log
 *
 * Context: process context; a section of kvm->srcu is allowed, mmu_lock is not held.
 * Return: how many violations there are. The caller adds them to hydra_violations, once.
 */
long hydra_vm_check_vm(struct kvm *kvm, struct seq_file *m)
{
	struct hydra_vm_walk *w;
	long violations;
	int idx;

	w = kzalloc(sizeof(*w), GFP_KERNEL);
	if (!w)
		return 0;
	w->kvm = kvm;
	w->m = m;
	idx = srcu_read_lock(&kvm->srcu);
	write_lock(&kvm->mmu_lock);
	if (tdp_mmu_enabled) {
		hydra_vm_walk(w);
		hydra_vm_check_roots(w);
		if (w->below_roots != atomic64_read(&kvm->arch.tdp_mmu_pages))
			hydra_vm_violated(w, 4, 0, "another number of tables than KVM counted");
		if (w->misplaced > atomic_long_read(&kvm->arch.hydra->misplaced))
			hydra_vm_violated(w, 2, 0, "more tables than counted are not at home");
	}
	write_unlock(&kvm->mmu_lock);
	srcu_read_unlock(&kvm->srcu, idx);
	if (m)
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

/* How many vCPUs ran last on a domain's CPUs? */
static unsigned int hydra_vm_vcpus(struct kvm *kvm, unsigned int d)
{
	struct kvm_vcpu *vcpu;
	unsigned int nr = 0;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		int cpu = READ_ONCE(vcpu->cpu);

		nr += cpu >= 0 && hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, cpu) == d;
	}
	return nr;
}

/*
 * The next root, also an invalid one, with a reference; the reference to the last root is
 * put. The last reference to a valid root is KVM's own, and is not put here.
 * Context: mmu_lock.
 */
static struct kvm_mmu_page *hydra_vm_next_root(struct kvm *kvm, struct kvm_mmu_page *last)
{
	struct list_head *roots = &kvm->arch.tdp_mmu_roots;
	struct kvm_mmu_page *root;

	lockdep_assert_held(&kvm->mmu_lock);
	rcu_read_lock();
	root = last ? list_next_or_null_rcu(roots, &last->link, typeof(*root), link) :
		      list_first_or_null_rcu(roots, typeof(*root), link);
	while (root && !kvm_tdp_mmu_get_root(root))
		root = list_next_or_null_rcu(roots, &root->link, typeof(*root), link);
	rcu_read_unlock();
	if (last)
		kvm_tdp_mmu_put_root(kvm, last);
	return root;
}

/*
 * Count the tables and the leaf entries of a tree.
 *
 * Faults go on, and mmu_lock is given up when another task wants it or the CPU: tables that
 * come or go meanwhile are counted or not. The walk goes on at the entry where it stopped,
 * from the root, so it comes again to the entries above: these lie before that entry.
 * It stops only at an entry that is not the first of its table: the iterator came there
 * from the entry before, and goes on at just this one.
 *
 * Context: mmu_lock for reading, which may be given up; a reference to the root.
 */
static void hydra_vm_count(struct kvm *kvm, struct kvm_mmu_page *root,
			   struct hydra_vm_census *c)
{
	unsigned int d = root->role.domain;
	struct tdp_iter iter;
	unsigned int seen = 0;
	gfn_t resumed = 0;

	lockdep_assert_held_read(&kvm->mmu_lock);
	c->tables[page_to_nid(virt_to_page(root->spt))]++;
	/* Tables that are taken away meanwhile are freed after a grace period. */
	rcu_read_lock();
	for_each_tdp_pte(iter, root, 0, kvm_mmu_max_gfn() + 1) {
		if (iter.gfn < resumed)
			continue;
		if (iter.gfn > resumed && hydra_vm_index(iter.gfn, iter.level) &&
		    (need_resched() || rwlock_is_contended(&kvm->mmu_lock) ||
		     ++seen >= HYDRA_VM_BATCH)) {
			seen = 0;
			resumed = iter.gfn;
			iter.yielded = true;
			rcu_read_unlock();
			read_unlock(&kvm->mmu_lock);
			cond_resched();
			read_lock(&kvm->mmu_lock);
			rcu_read_lock();
			continue;
		}
		if (!is_shadow_present_pte(iter.old_spte))
			continue;
		if (!is_last_spte(iter.old_spte, iter.level))
			c->tables[pfn_to_nid(spte_to_pfn(iter.old_spte))]++;
		else if (!root->role.invalid)
			c->leaves[d].on[page_to_nid(virt_to_page(rcu_dereference(iter.sptep)))]++;
	}
	rcu_read_unlock();
}

/**
 * hydra_vm_show_tables_of - where the nested tables of a VM are
 * @kvm: the VM, of any policy
 * @m: the file to write to
 *
 * For each domain of the machine: the leaf entries that vCPUs there reach, by whether the
 * entry's table is on the domain's node. vCPUs of a VM with one tree reach the same
 * entries from each node.
 *
 * Context: process context, no locks.
 */
void hydra_vm_show_tables_of(struct kvm *kvm, struct seq_file *m)
{
	unsigned int nr = hydra_vm_nr_domains(), d;
	struct kvm_mmu_page *root = NULL;
	struct hydra_vm_census *c;
	int nid;

	c = kvzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return;
	if (tdp_mmu_enabled) {
		read_lock(&kvm->mmu_lock);
		while ((root = hydra_vm_next_root(kvm, root)))
			hydra_vm_count(kvm, root, c);
		read_unlock(&kvm->mmu_lock);
	}
	for (d = 0; d < nr; d++) {
		unsigned int own = 0;
		unsigned long local, all = 0;

		if (READ_ONCE(kvm->arch.hydra->per_node) && d < HYDRA_VM_MAX_DOMAINS)
			own = d + 1;
		local = c->leaves[own].on[hydra_vm_home(d)];
		for (nid = 0; nid < MAX_NUMNODES; nid++)
			all += c->leaves[own].on[nid];
		seq_printf(m, "domain %u node %d vcpus %u local_leaves %lu remote_leaves %lu\n",
			   d, hydra_vm_home(d), hydra_vm_vcpus(kvm, d), local, all - local);
	}
	for_each_online_node(nid)
		seq_printf(m, "node %d nested_tables %lu nested_kib %lu\n", nid, c->tables[nid],
			   c->tables[nid] << (PAGE_SHIFT - 10));
	kvfree(c);
}
