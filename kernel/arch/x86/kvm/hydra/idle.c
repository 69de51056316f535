// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trees are dropped: those that no vCPU has used for some time, and those that no vCPU is to use.
 *
 * A VM that moves to another node gets a tree there, filled by copies from the old tree for
 * the most part (copy.c). The old tree goes on to cost memory, and time whenever KVM takes
 * entries away. It holds nothing of its own: the truth is the page table of the host process.
 * A vCPU that comes back fills a new tree.
 *
 * A tree is used while a vCPU has loaded it, also while the vCPU waits for an interrupt.
 * __hydra_vm_move() notes when a vCPU leaves a tree, and hydra_vm_tidy_work() comes
 * hydra_vm_idle_seconds later. A vCPU may come to the tree at just that moment:
 *
 *     CPU 0: hydra_vm_drop_part()         CPU 1: a vCPU comes to the tree
 *     ---------------------------         -------------------------------
 *     takes mmu_lock for writing
 *     finds no vCPU in the tree
 *                                         writes its domain
 *                                         waits for mmu_lock, to look for a root
 *     takes away a part of the tree,
 *       or makes its roots invalid
 *     gives up mmu_lock
 *                                         finds the valid root, or makes another
 *                                         loads the root, and flushes it
 *
 * A vCPU that has written its domain before CPU 0 looks keeps the tree. So CPU 0 flushes no
 * vCPU, and asks none to free its roots: a vCPU of another domain has none of the tree, because
 * __hydra_vm_move() frees its roots before it writes the domain. vCPUs that go on
 * running elsewhere are not interrupted when a tree is dropped.
 *
 * A tree that no vCPU is to use, because of settings or because it was given up (giving.c), goes
 * in the same way, though vCPUs may still have it: those that have been asked to take another, and
 * do not run. They are flushed before any table is freed, and are asked to free the root
 * when it becomes invalid. CPU 0 asks the vCPUs that it finds in the tree, and any other vCPU comes
 * as CPU 1 does above.
 *
 * The VMM needs slots_lock for its log of dirty pages, for memslots and for eventfds, and did not
 * choose the time. So a tree is emptied in parts, while it is still valid, and slots_lock is given
 * up in between: first the leaf tables, then the tables above them. Afterwards the tree has few
 * tables, and goes at once. A part that is gone is filled again if a vCPU comes back meanwhile.
 *
 * No tree goes while the dirty pages of more than an eighth of the memory are logged: to zap a tree
 * asks the host for each page, and a migration has no time for that. A VMM may log the memory of a
 * screen for as long as the VM lives. Only a tree that was given up goes: its memory is needed.
 *
 * If the machine is short of memory, idle trees do not wait for their time. The shrinker only
 * asks for that: hydra_vm_tidy_work() needs slots_lock, whose holder may be waiting for memory.
 */

#include <linux/hydra_vm.h>
#include <linux/rculist.h>
#include <linux/shrinker.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_iter.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"
#include "trace.h"

/* So many entries are looked at, and taken away, under one hold of slots_lock and mmu_lock */
#define HYDRA_VM_PART	2048

static struct shrinker *hydra_vm_shrinker;

/**
 * hydra_vm_alone_for - has a tree been without vCPUs for so long?
 * @vm: the VM
 * @d: the domain of the tree, which no vCPU has loaded; the last one may just be leaving
 * @time: in jiffies
 * @left: set to the rest of the time
 *
 * Context: any. Return: true if it has.
 */
bool hydra_vm_alone_for(const struct hydra_vm *vm, unsigned int d, unsigned long time,
			unsigned long *left)
{
	unsigned long now = jiffies, end = READ_ONCE(vm->trees[d].left) + time;

	*left = time_before(now, end) ? end - now : 0;
	return !*left;
}

/*
 * Has a tree that no vCPU has loaded been without one for long enough?
 * @wait: shortened to the time until the tree is idle, in jiffies
 */
static bool hydra_vm_is_idle(const struct hydra_vm *vm, unsigned int d, unsigned long *wait)
{
	unsigned long seconds = READ_ONCE(hydra_vm_idle_seconds), left;

	if (READ_ONCE(vm->trees[d].pressed))
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
 * Is a tree one to drop now?
 * @loaded: vCPUs have it
 * @logs: idle trees stay
 * @wait: shortened to the time until it may be one, in jiffies; NULL: only trees that no vCPU is
 *	to use are to go, and at once
 */
static bool hydra_vm_goes(const struct hydra_vm *vm, unsigned int d, bool loaded, bool logs,
			  unsigned long *wait)
{
	unsigned long now = jiffies, end;

	if (hydra_vm_uses(vm, d))
		return wait && !loaded && !logs && hydra_vm_is_idle(vm, d, wait);
	if (!wait || !READ_ONCE(vm->per_node) || !d)
		return true;
	/* The refuge copies from it. */
	end = READ_ONCE(vm->trees[d].given_up) + HZ;
	if (time_before(now, end))
		*wait = min(*wait, end - now);
	return !time_before(now, end);
}

/* A valid root of a tree that is to be dropped, or NULL */
static struct kvm_mmu_page *hydra_vm_root_that_goes(struct kvm *kvm, u32 loaded, bool logs,
						    unsigned long *wait)
{
	struct kvm_mmu_page *root;

	lockdep_assert_held_write(&kvm->mmu_lock);
	list_for_each_entry(root, &kvm->arch.tdp_mmu_roots, link) {
		unsigned int d = root->role.domain;

		if (!root->role.invalid &&
		    hydra_vm_goes(kvm->arch.hydra, d, loaded & BIT(d), logs, wait))
			return root;
	}
	return NULL;
}

/*
 * Take away a part of a tree: leaf tables, and the entries of huge pages beside them; or, when
 * these are gone, the tables above.
 * @loaded: vCPUs have the tree, and are flushed before any table is freed, a grace period later
 * Return: true if there was nothing left.
 */
static bool hydra_vm_empty(struct kvm *kvm, struct kvm_mmu_page *root, bool loaded)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	unsigned long left = READ_ONCE(vm->trees[root->role.domain].left);
	struct hydra_vm_place *place = &vm->place;
	bool done = true, zapped = false;
	unsigned int seen = 0;
	struct tdp_iter iter;

	lockdep_assert_held_write(&kvm->mmu_lock);
	if (place->role != root->role.word || place->left != left)
		*place = (struct hydra_vm_place){
			.role = root->role.word, .left = left, .level = PG_LEVEL_2M,
		};
	rcu_read_lock();
	for_each_tdp_pte_min_level(iter, root, place->level, place->next, kvm_mmu_max_gfn() + 1) {
		if (seen >= HYDRA_VM_PART) {
			place->next = iter.gfn;
			done = false;
			break;
		}
		seen++;
		if (!is_shadow_present_pte(iter.old_spte) || iter.level > place->level)
			continue;
		if (!is_last_spte(iter.old_spte, iter.level))
			seen += SPTE_ENT_PER_PAGE;
		hydra_vm_zap(kvm, &iter);
		zapped = true;
	}
	if (loaded && zapped)
		hydra_vm_ask(kvm, BIT(root->role.domain), KVM_REQ_TLB_FLUSH);
	rcu_read_unlock();
	if (done && place->level == PG_LEVEL_2M) {
		place->level = PG_LEVEL_1G;
		place->next = 0;
		return false;
	}
	return done;
}

/* Has a vCPU loaded a root, or does it keep it to load it again? */
static bool hydra_vm_has_root(const struct kvm_vcpu *vcpu, const struct kvm_mmu_page *root)
{
	const struct kvm_mmu *mmu = &vcpu->arch.root_mmu;
	bool has = READ_ONCE(mmu->root.hpa) == __pa(root->spt);

	for (unsigned int i = 0; i < KVM_MMU_NUM_PREV_ROOTS; i++)
		has |= READ_ONCE(mmu->prev_roots[i].hpa) == __pa(root->spt);
	return has;
}

/* A root of an empty tree becomes invalid. vCPUs of other trees do not have it. */
static void hydra_vm_drop_root(struct kvm *kvm, struct kvm_mmu_page *root, bool loaded)
{
	unsigned int d = root->role.domain;
	struct kvm_mmu_page *other;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	if (IS_ENABLED(CONFIG_HYDRA_MM_DEBUG))
		kvm_for_each_vcpu(i, vcpu, kvm)
			WARN_ON_ONCE(hydra_vm_has_root(vcpu, root) && !loaded);
	hydra_vm_invalidate(kvm, root);
	trace_hydra_vm_drop(kvm, (int)d - 1, atomic64_read(&kvm->stat.hydra_tables[d]));
	/* In the critical section that has made the root invalid */
	if (loaded)
		hydra_vm_ask(kvm, BIT(d), KVM_REQ_MMU_FREE_OBSOLETE_ROOTS);
	/* Another tree of this domain may come, and is emptied from its beginning. */
	kvm->arch.hydra->place = (struct hydra_vm_place){};
	if (!hydra_vm_uses(kvm->arch.hydra, d))
		return;
	/* A tree may have a second root, for system management mode. */
	list_for_each_entry(other, &kvm->arch.tdp_mmu_roots, link)
		if (!other->role.invalid && other->role.domain == d)
			return;
	atomic64_inc(&kvm->stat.hydra_dropped);
}

/* Are so many pages logged that idle trees stay? Then the shrinker is not to ask for them. */
static bool hydra_vm_logs(struct kvm *kvm)
{
	bool any = atomic_read(&kvm->nr_memslots_dirty_logging);
	struct kvm_memory_slot *slot;
	unsigned long logged = 0;
	int i, bkt;

	/* The log of dirty pages begins and ends under slots_lock. */
	lockdep_assert_held(&kvm->slots_lock);
	for (i = 0; any && i < kvm_arch_nr_memslot_as_ids(kvm); i++) {
		kvm_for_each_memslot(slot, bkt, __kvm_memslots(kvm, i))
			logged += kvm_slot_dirty_track_enabled(slot) ? slot->npages : 0;
	}
	WRITE_ONCE(kvm->arch.hydra->logged, logged > kvm->nr_memslot_pages / 8);
	return kvm->arch.hydra->logged;
}

/**
 * hydra_vm_drop_part - take away a part of a tree that is to go, or drop it
 * @kvm: the VM
 * @wait: shortened to the time until to look again, in jiffies; NULL: idle trees stay, and no tree
 *	stays to be copied from
 *
 * Context: process context, slots_lock.
 * Return: true if there may be more to do. The caller gives up slots_lock before.
 */
bool hydra_vm_drop_part(struct kvm *kvm, unsigned long *wait)
{
	bool logs = wait && hydra_vm_logs(kvm), empty = false, has_vcpus;
	struct kvm_mmu_page *root;
	u32 loaded;

	lockdep_assert_held(&kvm->slots_lock);
	if (logs)
		*wait = min(*wait, hydra_vm_idle_wait());
	write_lock(&kvm->mmu_lock);
	loaded = hydra_vm_loaded_trees(kvm);
	root = hydra_vm_root_that_goes(kvm, loaded, logs, wait);
	if (root) {
		has_vcpus = loaded & BIT(root->role.domain);
		empty = hydra_vm_empty(kvm, root, has_vcpus);
		if (empty)
			hydra_vm_drop_root(kvm, root, has_vcpus);
	}
	write_unlock(&kvm->mmu_lock);
	if (empty)
		kvm_tdp_mmu_zap_invalidated_roots(kvm);
	return root;
}

/*
 * About how many tables the idle trees of a VM have on a node. Trees that have just lost their
 * vCPU stay: another tree may be copying from them. So do all while much of the memory is logged.
 * @press: they are to be dropped
 */
static unsigned long hydra_vm_idle_tables(struct kvm *kvm, int nid, bool press)
{
	unsigned long idle = 0, roots = 0, left;
	struct hydra_vm *vm = kvm->arch.hydra;
	u32 loaded = hydra_vm_loaded_trees(kvm);
	struct kvm_mmu_page *root;

	if (READ_ONCE(vm->logged))
		return 0;
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
			hydra_vm_tidy_soon(vm);
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
	/*
	 * Tables that no vCPU uses go before any cache. And one scan asks for all of them, so it
	 * need not wait until there are enough for a batch.
	 */
	hydra_vm_shrinker->seeks = 0;
	hydra_vm_shrinker->batch = 1;
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
