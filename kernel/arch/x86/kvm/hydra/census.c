// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the nested tables of a VM are: in numbers by node (the census), and table by table
 * (the map). For VMs of any policy.
 *
 * Faults go on meanwhile: tables that come or go are counted or not.
 */

/* How many entries a walk looks at before it gives up mmu_lock */
#define HYDRA_VM_BATCH	65536

#include <linux/hydra_vm.h>
#include <linux/nodemask.h>
#include <linux/sched/signal.h>
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

/* How many vCPUs ran last on a domain's CPUs? */
static unsigned int hydra_vm_vcpus(struct kvm *kvm, unsigned int d)
{
	struct kvm_vcpu *vcpu;
	unsigned int nr = 0;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		int cpu = READ_ONCE(vcpu->cpu);

		nr += cpu >= 0 && hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu) == d;
	}
	return nr;
}

/* The tree that vCPUs on a domain's CPUs reach; 0: the shared tree */
static unsigned int hydra_vm_reached(struct kvm *kvm, unsigned int d)
{
	unsigned int own, tree, found;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	if (!READ_ONCE(kvm->arch.hydra->per_node) || d >= HYDRA_VM_MAX_DOMAINS)
		return 0;
	own = d + 1;
	found = own;
	/* Another domain's, if the VMM may not use the memory of the domain's home */
	kvm_for_each_vcpu(i, vcpu, kvm) {
		int cpu = READ_ONCE(vcpu->cpu);

		tree = hydra_vm_tree_of(vcpu);
		if (cpu < 0 || !tree || hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu) != d)
			continue;
		if (tree == own)
			return own;
		found = tree;
	}
	return found;
}

/**
 * hydra_vm_next_root - one root after another
 * @kvm: the VM
 * @last: the last root, or NULL
 *
 * The reference to the last root is put. The last reference to a valid root is KVM's own, and
 * is not put here.
 *
 * Context: mmu_lock.
 * Return: the next root, also an invalid one, with a reference; NULL at the end.
 */
struct kvm_mmu_page *hydra_vm_next_root(struct kvm *kvm, struct kvm_mmu_page *last)
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

/**
 * hydra_vm_each_entry - call a function for each present entry of a tree
 * @kvm: the VM
 * @root: the root of the tree
 * @min_level: the lowest level of which entries are looked at
 * @look: the function; false ends the walk
 * @data: for the function
 *
 * mmu_lock is given up when another task wants it or the CPU. The walk goes on at the entry
 * where it stopped, from the root, so it comes again to the entries above: these lie before
 * that entry. It stops only at an entry that is not the first of its table: the iterator came
 * there from the entry before, and goes on at just this one.
 *
 * Context: mmu_lock for reading, which may be given up; a reference to the root.
 * Return: false if the function has returned false, which ends the walk.
 */
bool hydra_vm_each_entry(struct kvm *kvm, struct kvm_mmu_page *root, int min_level,
			 bool (*look)(struct kvm_mmu_page *root, struct tdp_iter *iter,
				      void *data),
			 void *data)
{
	/* With an upper level the function reads the tables below. */
	unsigned int weight = min_level > PG_LEVEL_4K ? SPTE_ENT_PER_PAGE : 1, seen = 0;
	struct tdp_iter iter;
	bool go_on = true;
	gfn_t resumed = 0;

	lockdep_assert_held_read(&kvm->mmu_lock);
	/* Tables that are taken away meanwhile are freed after a grace period. */
	rcu_read_lock();
	for_each_tdp_pte_min_level(iter, root, min_level, 0, kvm_mmu_max_gfn() + 1) {
		if (iter.gfn < resumed)
			continue;
		if (iter.gfn > resumed && hydra_vm_index(iter.gfn, iter.level) &&
		    (need_resched() || rwlock_is_contended(&kvm->mmu_lock) ||
		     (seen += weight) >= HYDRA_VM_BATCH)) {
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
		go_on = look(root, &iter, data);
		if (!go_on)
			break;
	}
	rcu_read_unlock();
	return go_on;
}

static bool hydra_vm_count(struct kvm_mmu_page *root, struct tdp_iter *iter, void *data)
{
	int nid = page_to_nid(virt_to_page(rcu_dereference(iter->sptep)));
	struct hydra_vm_census *c = data;

	if (!is_last_spte(iter->old_spte, iter->level))
		c->tables[pfn_to_nid(spte_to_pfn(iter->old_spte))]++;
	else if (!root->role.invalid)
		c->leaves[root->role.domain].on[nid]++;
	return true;
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
		while ((root = hydra_vm_next_root(kvm, root))) {
			c->tables[page_to_nid(virt_to_page(root->spt))]++;
			hydra_vm_each_entry(kvm, root, PG_LEVEL_4K, hydra_vm_count, c);
		}
		read_unlock(&kvm->mmu_lock);
	}
	for (d = 0; d < nr; d++) {
		unsigned int own = hydra_vm_reached(kvm, d);
		unsigned long local, all = 0;

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

/* One table: "domain D gfn G level L node N entries E"; the domain is - for the shared tree. */
static void hydra_vm_show_table(struct seq_file *m, const struct kvm_mmu_page *root, gfn_t gfn,
				int level, const u64 *spt)
{
	unsigned int present = 0, i;

	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		present += is_shadow_present_pte(READ_ONCE(spt[i]));
	if (root->role.domain)
		seq_printf(m, "domain %u", root->role.domain - 1);
	else
		seq_puts(m, "domain -");
	seq_printf(m, " gfn 0x%llx level %d node %d entries %u\n", gfn, level,
		   page_to_nid(virt_to_page(spt)), present);
}

/* Return: false if the rest is in vain: the reader repeats all with a larger buffer, or ends. */
static bool hydra_vm_map_below(struct kvm_mmu_page *root, struct tdp_iter *iter, void *data)
{
	struct seq_file *m = data;

	if (!is_last_spte(iter->old_spte, iter->level))
		hydra_vm_show_table(m, root, iter->gfn, iter->level - 1,
				    pfn_to_kaddr(spte_to_pfn(iter->old_spte)));
	return !seq_has_overflowed(m) && !fatal_signal_pending(current);
}

/**
 * hydra_vm_show_map_of - each nested table of a VM
 * @kvm: the VM, of any policy
 * @m: the file to write to
 *
 * Trees that are being dropped are left out.
 *
 * Context: process context, no locks.
 */
void hydra_vm_show_map_of(struct kvm *kvm, struct seq_file *m)
{
	struct kvm_mmu_page *root = NULL;
	bool go_on = true;

	if (!tdp_mmu_enabled)
		return;
	read_lock(&kvm->mmu_lock);
	while ((root = hydra_vm_next_root(kvm, root))) {
		/* To the end: hydra_vm_next_root() puts the reference to the last root. */
		if (root->role.invalid || !go_on)
			continue;
		hydra_vm_show_table(m, root, 0, root->role.level, root->spt);
		go_on = hydra_vm_each_entry(kvm, root, PG_LEVEL_4K, hydra_vm_map_below, m);
	}
	read_unlock(&kvm->mmu_lock);
}
