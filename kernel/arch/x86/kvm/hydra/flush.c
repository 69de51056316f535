// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes of a VM that spare the vCPUs whose tree has lost nothing.
 *
 * Stock KVM asks all vCPUs for a flush, and interrupts those that run the guest. A vCPU
 * caches entries of the tree that it has loaded, and of no other tree that it could use
 * without a flush (see trees.c). So a flush has to reach the vCPUs of the trees whose
 * entries have changed.
 *
 * Each tree has two numbers. @changed counts the changes that take something from an entry.
 * @flushed is a value of @changed up to which all vCPUs of the tree have been flushed. A
 * flush leaves out the trees whose numbers are the same:
 *
 *     CPU 0: changes an entry, flushes    CPU 1: a vCPU comes to the tree
 *     --------------------------------    -------------------------------
 *     writes the entry                    writes its domain
 *     changed++                           smp_mb() in __hydra_vm_move()
 *     smp_mb() in hydra_vm_flush()        loads the root, and flushes it
 *     reads the domain of the vCPU        walks the tree
 *
 * Either CPU 0 finds the vCPU in the tree, or the vCPU finds the entry as CPU 0 has left it.
 *
 * These are numbers and not a set of trees to flush, because flushes overlap. If a flush
 * took a tree out of a set, another flush would find nothing to do, and would return before
 * the first one has reached the vCPUs. @flushed is raised only after they have answered.
 *
 * Code that changes entries and leaves the flush to later loses nothing: the change stays
 * counted until a flush has reached the tree. While the filter is "none", all vCPUs are
 * flushed, changes are counted nevertheless, and @flushed stays.
 *
 * A flush has to cover what its caller has seen, too, not only what it has changed itself. A
 * CPU that holds mmu_lock for reading may have changed an entry, and not counted it yet:
 *
 *     CPU 0: a fault                      CPU 1: logging of dirty pages begins
 *     --------------                      ------------------------------------
 *     takes write permission from an
 *     entry, and will not flush
 *                                         finds the entry not writable
 *                                         flushes: no tree has lost anything
 *                                         tells the VMM that it is done
 *     changed++
 *
 * A vCPU would write through its TLB, unlogged. A CPU that holds mmu_lock for writing finds
 * all changes counted. Where logging begins, CPU 1 looks with the lock held for reading, and
 * its flush has to cover changes of other CPUs. So CPU 1 calls hydra_vm_settle() before it
 * flushes. No other flush is asked for in this way.
 *
 * All vCPUs are flushed if the VM has shadow roots, for nested guests. Their entries are
 * not counted, and KVM frees shadow pages after a flush that has reached every vCPU.
 *
 * Changes are counted from the time when the VM may first have a tree per node. A change made
 * before may have its flush still to come. All changes are made under mmu_lock. So
 * hydra_vm_count_changes() takes the lock, and counts one change of the shared tree, which
 * was the only one.
 */

#include <linux/bitmap.h>
#include <linux/hydra_vm.h>
#include <linux/kvm_host.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"

#include "hydra.h"
#include "internal.h"
#include "trace.h"

/**
 * __hydra_vm_changed - an entry of a tree has changed
 * @kvm: the VM
 * @sptep: the entry, already changed
 * @old: what it was
 * @new: what it is
 *
 * Counted if the entry permitted something that it does not permit any more, or if it has
 * lost another bit, for instance the accessed bit: KVM may flush for that, too.
 *
 * Context: mmu_lock, for reading or writing; a section of RCU; before the flush.
 */
void __hydra_vm_changed(struct kvm *kvm, u64 __rcu *sptep, u64 old, u64 new)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	unsigned int d;
	u64 lost;

	lockdep_assert_held(&kvm->mmu_lock);
	if (!READ_ONCE(vm->counts) || !is_shadow_present_pte(old))
		return;
	lost = (old & ~new) | ((old ^ new) & (SPTE_BASE_ADDR_MASK | shadow_nx_mask));
	if (!lost)
		return;
	d = sptep_to_sp(rcu_dereference(sptep))->role.domain;
	/* The entry before the number: pairs with smp_mb() in hydra_vm_flush(). */
	smp_mb__before_atomic();
	atomic64_inc(&vm->trees[d].changed);
}

/**
 * hydra_vm_count_changes - changes of entries are counted from now on
 * @kvm: the VM, which has the shared tree alone
 *
 * Context: process context, slots_lock.
 */
void hydra_vm_count_changes(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	lockdep_assert_held(&kvm->slots_lock);
	write_lock(&kvm->mmu_lock);
	atomic64_inc(&vm->trees[0].changed);
	/* Pairs with smp_load_acquire() in hydra_vm_flush(), which reads the number. */
	smp_store_release(&vm->counts, true);
	write_unlock(&kvm->mmu_lock);
}

/**
 * __hydra_vm_settle - wait for CPUs that have changed an entry and not counted the change
 * @kvm: the VM
 *
 * Context: process context, no mmu_lock; before a flush.
 */
void __hydra_vm_settle(struct kvm *kvm)
{
	write_lock(&kvm->mmu_lock);
	write_unlock(&kvm->mmu_lock);
}

/* All vCPUs of a tree have been flushed for its changes up to a number. */
static void hydra_vm_raise(atomic64_t *flushed, s64 number)
{
	s64 old = atomic64_read(flushed);

	while (old < number && !atomic64_try_cmpxchg(flushed, &old, number))
		;
}

/**
 * hydra_vm_flush - flush the vCPUs of the trees that have lost something
 * @kvm: the VM
 *
 * Called in place of asking all vCPUs. The caller may hold mmu_lock.
 *
 * Return: 0; -EOPNOTSUPP if all vCPUs have to be asked.
 */
int hydra_vm_flush(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	unsigned int d, nr, asked = 0, spared = 0;
	s64 changed[HYDRA_VM_MAX_DOMAINS + 1];
	DECLARE_BITMAP(wanted, KVM_MAX_VCPUS);
	struct kvm_vcpu *vcpu;
	u32 trees = 0;
	unsigned long i;

	/* Pairs with smp_store_release() in hydra_vm_count_changes(): the numbers come after. */
	if (!static_branch_unlikely(&hydra_vm_key.key) || !smp_load_acquire(&vm->counts) ||
	    READ_ONCE(vm->settings).filter != HYDRA_FILTER_TABLE || kvm_shadow_root_allocated(kvm))
		return -EOPNOTSUPP;
	nr = min(hydra_vm_nr_domains(), HYDRA_VM_MAX_DOMAINS) + 1;
	for (d = 0; d < nr; d++) {
		changed[d] = atomic64_read(&vm->trees[d].changed);
		if (atomic64_read(&vm->trees[d].flushed) < changed[d])
			trees |= BIT(d);
	}
	/*
	 * Pairs with smp_mb() in __hydra_vm_move(): a vCPU that is not found in a tree below
	 * finds the entries as they are now. And with smp_mb__before_atomic() in
	 * __hydra_vm_changed(): the vCPUs that are flushed walk entries that are changed.
	 */
	smp_mb();
	bitmap_zero(wanted, KVM_MAX_VCPUS);
	kvm_for_each_vcpu(i, vcpu, kvm) {
		if (trees & BIT(hydra_vm_tree_of(vcpu))) {
			__set_bit(i, wanted);
			asked++;
		} else if (READ_ONCE(vcpu->mode) != OUTSIDE_GUEST_MODE) {
			/* One outside flushes when it enters, without an interrupt. */
			spared++;
		}
	}
	if (asked)
		kvm_make_vcpus_request_mask(kvm, KVM_REQ_TLB_FLUSH, wanted);
	for (d = 0; d < nr; d++)
		if (trees & BIT(d))
			hydra_vm_raise(&vm->trees[d].flushed, changed[d]);
	atomic64_add(asked, &kvm->stat.hydra_vcpus_flushed);
	atomic64_add(spared, &kvm->stat.hydra_vcpus_spared);
	trace_hydra_vm_flush(kvm, trees, asked, spared);
	return 0;
}
