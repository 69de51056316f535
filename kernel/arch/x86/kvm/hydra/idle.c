// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trees that no vCPU has used for some time are dropped.
 *
 * A VM that moves to another node gets a tree there, filled by copies from the old tree for
 * the most part (copy.c). The old tree goes on to cost memory, and time whenever KVM takes
 * entries away. It holds nothing of its own: the truth is the page table of the host process.
 * A vCPU that comes back fills a new tree.
 *
 * A tree is used while a vCPU has loaded it, also while the vCPU waits for an interrupt.
 * __hydra_vm_move() notes when a vCPU leaves a tree, and hydra_vm_tidy() comes
 * hydra_vm_idle_seconds later. A vCPU may come to the tree at just that moment:
 *
 *     CPU 0: hydra_vm_tidy()              CPU 1: a vCPU comes to the tree
 *     ----------------------              -------------------------------
 *     takes mmu_lock for writing
 *     finds no vCPU in the tree
 *                                         writes its domain
 *                                         waits for mmu_lock, to look for a root
 *     makes the roots invalid
 *     asks all vCPUs to free such roots
 *     gives up mmu_lock
 *                                         finds no valid root, and makes another
 *
 * A vCPU that has written its domain before CPU 0 looks keeps the tree.
 *
 * If the machine is short of memory, idle trees do not wait for their time. The shrinker only
 * asks for that: hydra_vm_tidy() needs slots_lock, whose holder may be waiting for memory.
 */

#include <linux/hydra_vm.h>
#include <linux/rculist.h>
#include <linux/shrinker.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"

#include "hydra.h"
#include "internal.h"

static struct shrinker *hydra_vm_shrinker;

/**
 * hydra_vm_loaded_trees - which trees have vCPUs
 * @kvm: the VM
 *
 * Context: any. vCPUs may come to a tree, or leave it, meanwhile.
 * Return: a bit for each domain; bit 0: the shared tree.
 */
u32 hydra_vm_loaded_trees(struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;
	u32 trees = 0;

	kvm_for_each_vcpu(i, vcpu, kvm)
		trees |= BIT(hydra_vm_tree_of(vcpu));
	return trees;
}

/* Has a tree been without vCPUs for so long? The last vCPU may just be leaving. */
static bool hydra_vm_alone_for(const struct hydra_vm *vm, unsigned int d, unsigned long time,
			       unsigned long *left)
{
	unsigned long now = jiffies, end = READ_ONCE(vm->trees[d].left) + time;

	*left = time_before(now, end) ? end - now : 0;
	return !*left;
}

/**
 * hydra_vm_is_idle - has a tree had no vCPU for long enough?
 * @vm: Hydra's state of the VM
 * @d: the domain of the tree, which no vCPU has loaded
 * @wait: shortened to the time until the tree is idle, in jiffies
 *
 * Context: any. Return: true if the tree is to be dropped.
 */
bool hydra_vm_is_idle(const struct hydra_vm *vm, unsigned int d, unsigned long *wait)
{
	unsigned long seconds = READ_ONCE(hydra_vm_idle_seconds), left;

	if (xchg(&vm->trees[d].pressed, false))
		return true;
	if (!seconds)
		return false;
	if (hydra_vm_alone_for(vm, d, seconds * HZ, &left))
		return true;
	*wait = min(*wait, left);
	return false;
}

/**
 * hydra_vm_idle_wait - when to look whether a tree is idle that a vCPU has just left
 *
 * Context: any. Return: in so many jiffies.
 */
unsigned long hydra_vm_idle_wait(void)
{
	unsigned long seconds = READ_ONCE(hydra_vm_idle_seconds);

	return seconds ? min(seconds * HZ, HYDRA_VM_LONGEST_WAIT) : HYDRA_VM_LONGEST_WAIT;
}

/*
 * About how many tables the idle trees of a VM have on a node. Trees that have just lost their
 * vCPU stay: another tree may be copying from them.
 * @press: they are to be dropped
 */
static unsigned long hydra_vm_idle_tables(struct kvm *kvm, int nid, bool press)
{
	unsigned long idle = 0, roots = 0, left;
	struct hydra_vm *vm = kvm->arch.hydra;
	u32 loaded = hydra_vm_loaded_trees(kvm);
	struct kvm_mmu_page *root;

	rcu_read_lock();
	list_for_each_entry_rcu(root, &kvm->arch.tdp_mmu_roots, link) {
		unsigned int d = root->role.domain;

		roots++;
		if (!d || root->role.invalid || (loaded & BIT(d)) ||
		    hydra_vm_home(d - 1) != nid || !hydra_vm_alone_for(vm, d, HZ, &left))
			continue;
		idle++;
		if (press)
			WRITE_ONCE(vm->trees[d].pressed, true);
	}
	rcu_read_unlock();
	return idle ? 1 + idle * atomic64_read(&kvm->arch.tdp_mmu_pages) / roots : 0;
}

/* For each VM with idle trees on a node, if no other task changes the list of VMs just now */
static unsigned long hydra_vm_shrink(int nid, bool press)
{
	unsigned long tables, all = 0;
	struct kvm *kvm;

	if (!static_branch_unlikely(&hydra_vm_key.key) || !mutex_trylock(&kvm_lock))
		return 0;
	list_for_each_entry(kvm, &vm_list, vm_list) {
		struct hydra_vm *vm = kvm->arch.hydra;

		/* Pairs with smp_store_release() in hydra_vm_set(): @trees are there. */
		if (!smp_load_acquire(&vm->keyed))
			continue;
		tables = hydra_vm_idle_tables(kvm, nid, press);
		all += tables;
		if (tables && press)
			mod_delayed_work(system_unbound_wq, &vm->tidy, 0);
	}
	mutex_unlock(&kvm_lock);
	return all;
}

static unsigned long hydra_vm_count_idle(struct shrinker *shrinker, struct shrink_control *sc)
{
	return hydra_vm_shrink(sc->nid, false) ?: SHRINK_EMPTY;
}

/* Nothing is free yet when this returns. */
static unsigned long hydra_vm_scan_idle(struct shrinker *shrinker, struct shrink_control *sc)
{
	hydra_vm_shrink(sc->nid, true);
	return SHRINK_STOP;
}

/**
 * hydra_vm_idle_load - KVM has been loaded
 *
 * Without memory for a shrinker, idle trees wait for their time.
 *
 * Context: process context.
 */
void hydra_vm_idle_load(void)
{
	hydra_vm_shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "hydra-vm");
	if (!hydra_vm_shrinker)
		return;
	hydra_vm_shrinker->count_objects = hydra_vm_count_idle;
	hydra_vm_shrinker->scan_objects = hydra_vm_scan_idle;
	/* Tables that no vCPU uses go before any cache. */
	hydra_vm_shrinker->seeks = 0;
	shrinker_register(hydra_vm_shrinker);
}

/**
 * hydra_vm_idle_unload - KVM is about to be unloaded
 *
 * Context: process context.
 */
void hydra_vm_idle_unload(void)
{
	shrinker_free(hydra_vm_shrinker);
}
