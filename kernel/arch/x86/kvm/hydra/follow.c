// SPDX-License-Identifier: GPL-2.0-only
/*
 * tables=follow: the tables of a VM with one tree move to the node of their data.
 *
 * A VM that needs no tree per node, because its vCPUs and its memory are on one node, may be
 * moved to another. Linux moves the memory; KVM's tables stay. With tables=follow a table
 * moves to the node on which more than half of what its entries name is: for a leaf table
 * pages, for an upper table tables. Leaf tables move first, and so the tables above follow
 * them. (vMitosis, Panwar et al., ASPLOS '21, section 3.2.) The root stays: each CPU has it in
 * its cache.
 *
 * A pass looks at all tables, every hydra_vm_idle_seconds. It is left out if no entry has lost
 * anything since the last one, and there are as many tables, but for every tenth: a guest that
 * moves pages among its own nodes changes no entry. Tables that the last pass has moved count
 * as such a loss, so one more pass comes after it. Nodes without CPUs attract no table.
 *
 * How a table moves. struct kvm_mmu_page stays, and gets another page:
 *
 *     CPU 0: moves a table                CPU 1: fast_page_fault()
 *     --------------------                ------------------------
 *     takes mmu_lock for writing
 *     freezes the entry that leads
 *       to the table
 *                                         finds an entry in the table
 *     flushes the vCPUs, and waits
 *     freezes each entry of the table,
 *       and writes it to the new page
 *                                         fails to make the entry writable: it is frozen
 *     lets the entry lead to the new page
 *     frees the old page after a grace
 *       period
 *                                         the vCPU faults again
 *
 * After the flush no vCPU walks the table, or has an entry of it in a cache: the vCPUs have
 * left the guest, and come back without translations. So no hardware sets an accessed or dirty
 * bit in the old page any more. CPU 1 holds no lock, but is in a section of RCU: its change
 * comes before CPU 0 freezes the entry, and is taken over, or fails. Each entry keeps its
 * accessed and dirty bits.
 *
 * All else that walks the tree holds mmu_lock, or begins again at the root after it has given
 * up the lock.
 */

#include <linux/gfp.h>
#include <linux/hydra_vm.h>
#include <linux/memcontrol.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_iter.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* How many tables a pass moves. If there are more, the next pass comes a second later. */
#define HYDRA_VM_PASS		512
/* How many of these under one hold of mmu_lock, and with one flush */
#define HYDRA_VM_MOVES		8
/* Of so many passes one is made even if no entry has lost anything. */
#define HYDRA_VM_PASSES		10

/* On the wanted node or not at all. Fails rather than kill a process; the table stays then. */
#define HYDRA_VM_MOVE_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_THISNODE | __GFP_NORETRY | __GFP_NOWARN)

/* A table that is to move, to the node @nid */
struct hydra_vm_due {
	gfn_t gfn;
	int nid;
};

/**
 * struct hydra_vm_pass - a pass over the trees of a VM
 * @vm: Hydra's state of the VM
 * @full: nodes that had no memory for a table, in this pass
 * @room: how many more tables may move
 * @level: that of the tables which are looked at now
 * @nr: how many of them are to move
 * @due: these
 */
struct hydra_vm_pass {
	struct hydra_vm *vm;
	nodemask_t full;
	unsigned int room;
	int level;
	unsigned int nr;
	struct hydra_vm_due due[HYDRA_VM_PASS];
};

/* A table that moves. @sp: NULL if it stays. */
struct hydra_vm_move {
	struct kvm_mmu_page *sp;
	tdp_ptep_t parent;
	struct page *page;
};

/* The node of a page, or of a table, that an entry names; NUMA_NO_NODE if it names none. */
static int hydra_vm_entry_node(u64 spte)
{
	kvm_pfn_t pfn = spte_to_pfn(spte);

	/*
	 * A device's memory, and memory that is offline, are on no node, and the page of zeros is
	 * everywhere.
	 */
	if (!is_shadow_present_pte(spte) || !pfn_to_online_page(pfn) || is_zero_pfn(pfn))
		return NUMA_NO_NODE;
	return pfn_to_nid(pfn);
}

/* Where a table ought to be: the node of more than half of what its entries name. */
static int hydra_vm_best_node(const struct kvm_mmu_page *sp)
{
	int here = page_to_nid(virt_to_page(sp->spt)), most = here, nid;
	unsigned int lead = 0, on = 0, all = 0, i;

	/* A node that has more than half is in the lead at the end. */
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		nid = hydra_vm_entry_node(READ_ONCE(sp->spt[i]));
		if (nid == NUMA_NO_NODE)
			continue;
		if (!lead)
			most = nid;
		lead += nid == most ? 1 : -1;
	}
	if (most == here || !node_state(most, N_CPU))
		return here;
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		nid = hydra_vm_entry_node(READ_ONCE(sp->spt[i]));
		all += nid != NUMA_NO_NODE;
		on += nid == most;
	}
	return 2 * on > all ? most : here;
}

/* Note the table below an entry, if its level is looked at now and it is to move. */
static bool hydra_vm_note_due(struct kvm_mmu_page *root, struct tdp_iter *iter, void *data)
{
	struct hydra_vm_pass *pass = data;
	const struct kvm_mmu_page *sp;
	int nid;

	if (iter->level != pass->level + 1 || is_last_spte(iter->old_spte, iter->level))
		return true;
	sp = spte_to_child_sp(iter->old_spte);
	nid = hydra_vm_best_node(sp);
	if (nid != page_to_nid(virt_to_page(sp->spt)) && !node_isset(nid, pass->full))
		pass->due[pass->nr++] = (struct hydra_vm_due){ sp->gfn, nid };
	return pass->nr < pass->room && READ_ONCE(pass->vm->follow);
}

/* The table of a level for a frame, and the entry that leads to it; NULL if it has gone */
static struct kvm_mmu_page *hydra_vm_table_at(struct kvm_mmu_page *root, gfn_t gfn, int level,
					      tdp_ptep_t *parent)
{
	struct kvm_mmu_page *sp = root;

	while (sp->role.level > level) {
		u64 *entry = &sp->spt[hydra_vm_index(gfn, sp->role.level)];
		u64 spte = READ_ONCE(*entry);

		if (!is_shadow_present_pte(spte) || is_last_spte(spte, sp->role.level))
			return NULL;
		*parent = (tdp_ptep_t)entry;
		sp = spte_to_child_sp(spte);
	}
	return sp;
}

static void hydra_vm_free_page(struct rcu_head *head)
{
	__free_page(container_of(head, struct page, rcu_head));
}

/* The last part of a move. The entry that leads to the table is frozen, and vCPUs are flushed. */
static void hydra_vm_move_table(struct hydra_vm_move *move)
{
	u64 *old = move->sp->spt, *new = page_address(move->page), spte;
	struct kvm_mmu_page *sp = move->sp;
	int i;

	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		spte = xchg(&old[i], FROZEN_SPTE);
		/* Only a CPU that holds mmu_lock for reading leaves a frozen entry for a time. */
		WARN_ON_ONCE(is_frozen_spte(spte));
		new[i] = spte;
		if (is_shadow_present_pte(spte) && !is_last_spte(spte, sp->role.level))
			spte_to_child_sp(spte)->ptep = (tdp_ptep_t)(new + i);
	}
	/* The old page keeps its own: a CPU in fast_page_fault() finds the table by it. */
	set_page_private(move->page, (unsigned long)sp);
	sp->spt = new;
	kvm_account_pgtable_pages(new, +1);
	kvm_account_pgtable_pages(old, -1);
	/* The page before the entry: partner is the walk of a vCPU, or of a CPU under RCU. */
	smp_wmb();
	__kvm_tdp_mmu_write_spte(move->parent, make_nonleaf_spte(new, !kvm_ad_enabled()));
	call_rcu(&virt_to_page(old)->rcu_head, hydra_vm_free_page);
}

/* A page for a table; NULL if its node has none, or had none before in this pass. */
static struct page *hydra_vm_move_page(struct hydra_vm_pass *pass, int nid)
{
	struct page *page;

	if (node_isset(nid, pass->full))
		return NULL;
	page = alloc_pages_node(nid, HYDRA_VM_MOVE_GFP, 0);
	if (!page)
		node_set(nid, pass->full);
	return page;
}

/*
 * Move some of the tables that the pass has found.
 * Context: process context, no locks; a reference to the root.
 */
static void hydra_vm_move_tables(struct hydra_vm_pass *pass, struct kvm_mmu_page *root,
				 const struct hydra_vm_due *due, unsigned int nr)
{
	struct hydra_vm_move moves[HYDRA_VM_MOVES] = { };
	struct kvm *kvm = pass->vm->kvm;
	struct hydra_vm_move *move;
	unsigned int i, moved = 0;
	u64 old;

	for (i = 0; i < nr; i++)
		moves[i].page = hydra_vm_move_page(pass, due[i].nid);
	write_lock(&kvm->mmu_lock);
	rcu_read_lock();
	for (i = 0; i < nr && !root->role.invalid; i++) {
		move = &moves[i];
		if (!move->page)
			continue;
		move->sp = hydra_vm_table_at(root, due[i].gfn, pass->level, &move->parent);
		/* Another table may be in its place, and be where it ought to be. */
		if (!move->sp || page_to_nid(virt_to_page(move->sp->spt)) == due[i].nid) {
			move->sp = NULL;
			continue;
		}
		old = kvm_tdp_mmu_write_spte_atomic(move->parent, FROZEN_SPTE);
		hydra_vm_changed(kvm, move->parent, old, FROZEN_SPTE);
		moved++;
	}
	if (moved)
		kvm_flush_remote_tlbs(kvm);
	for (i = 0; i < nr; i++)
		if (moves[i].sp)
			hydra_vm_move_table(&moves[i]);
	rcu_read_unlock();
	write_unlock(&kvm->mmu_lock);
	for (i = 0; i < nr; i++)
		if (moves[i].page && !moves[i].sp)
			__free_page(moves[i].page);
	pass->room -= moved;
	atomic64_add(moved, &kvm->stat.hydra_moved_tables);
}

/*
 * Move tables of a level.
 * Context: process context, mmu_lock for reading, which is given up meanwhile; a reference to
 * the root.
 * Return: true if there may be more, for a node that has memory.
 */
static bool hydra_vm_follow_level(struct hydra_vm_pass *pass, struct kvm_mmu_page *root)
{
	struct kvm *kvm = pass->vm->kvm;
	unsigned int room = pass->room, i;
	nodemask_t full = pass->full;
	bool cut;

	pass->nr = 0;
	cut = !hydra_vm_each_entry(kvm, root, pass->level + 1, hydra_vm_note_due, pass);
	read_unlock(&kvm->mmu_lock);
	for (i = 0; i < pass->nr && READ_ONCE(pass->vm->follow); i += HYDRA_VM_MOVES) {
		hydra_vm_move_tables(pass, root, &pass->due[i],
				     min(pass->nr - i, HYDRA_VM_MOVES));
		cond_resched();
	}
	read_lock(&kvm->mmu_lock);
	return cut && (pass->room < room || !nodes_equal(full, pass->full));
}

/*
 * Move tables of a tree, leaf tables first.
 * Context: as hydra_vm_follow_level()
 */
static void hydra_vm_follow_tree(struct hydra_vm_pass *pass, struct kvm_mmu_page *root)
{
	for (pass->level = PG_LEVEL_4K; pass->level < root->role.level; pass->level++)
		while (pass->room && READ_ONCE(pass->vm->follow) &&
		       hydra_vm_follow_level(pass, root))
			;
}

/* One pass. Return: false if there was more to move than a pass may. */
static bool hydra_vm_follow_pass(struct kvm *kvm)
{
	struct kvm_mmu_page *root = NULL;
	struct mem_cgroup *memcg, *old;
	struct hydra_vm_pass *pass;
	bool all;

	pass = kvmalloc(sizeof(*pass), GFP_KERNEL);
	if (!pass)
		return true;
	pass->vm = kvm->arch.hydra;
	pass->full = NODE_MASK_NONE;
	pass->room = HYDRA_VM_PASS;
	/* The VMM pays, as for all tables of the VM. */
	memcg = get_mem_cgroup_from_mm(kvm->mm);
	old = set_active_memcg(memcg);
	read_lock(&kvm->mmu_lock);
	/* To the end: hydra_vm_next_root() puts the reference to the last root. */
	while ((root = hydra_vm_next_root(kvm, root)))
		if (!root->role.domain && !root->role.invalid)
			hydra_vm_follow_tree(pass, root);
	read_unlock(&kvm->mmu_lock);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	all = pass->room;
	kvfree(pass);
	return all;
}

/* Is a pass to be made? Otherwise, *wait is shortened to the time until the next. */
static bool hydra_vm_follow_due(struct hydra_vm *vm, unsigned long *wait)
{
	unsigned long seconds = READ_ONCE(hydra_vm_idle_seconds);
	unsigned long now = jiffies, due = vm->followed_at + seconds * HZ;
	s64 changed = atomic64_read(&vm->trees[0].changed);
	s64 tables = atomic64_read(&vm->kvm->arch.tdp_mmu_pages);
	bool asked = READ_ONCE(vm->follow_now);

	if (!seconds)
		return false;
	if (!asked && time_before(now, due)) {
		*wait = min(*wait, due - now);
		return false;
	}
	*wait = min(*wait, seconds * HZ);
	vm->followed_at = now;
	if (!asked && changed == vm->followed && tables == vm->followed_tables && --vm->passes)
		return false;
	WRITE_ONCE(vm->follow_now, false);
	vm->followed = changed;
	vm->followed_tables = tables;
	vm->passes = HYDRA_VM_PASSES;
	return true;
}

/**
 * hydra_vm_follow_work - the work @following of a VM
 * @work: the work
 */
void hydra_vm_follow_work(struct work_struct *work)
{
	struct hydra_vm *vm = container_of(to_delayed_work(work), struct hydra_vm, following);
	unsigned long wait = HYDRA_VM_LONGEST_WAIT;

	if (!READ_ONCE(vm->follow))
		return;
	if (hydra_vm_follow_due(vm, &wait) && !hydra_vm_follow_pass(vm->kvm)) {
		WRITE_ONCE(vm->follow_now, true);
		wait = HZ;
	}
	queue_delayed_work(system_unbound_wq, &vm->following, wait);
}
