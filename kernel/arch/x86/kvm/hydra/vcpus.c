// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which trees vCPUs use, requests for the vCPUs of some trees, and what all files ask of a VM.
 */

#include <linux/bitmap.h>
#include <linux/hydra_vm.h>
#include <linux/kvm_host.h>

#include "mmu.h"

#include "hydra.h"
#include "internal.h"

/**
 * hydra_vm_uses - is a tree one that vCPUs load?
 * @vm: the VM
 * @d: the domain of the tree; 0: the shared tree
 *
 * Context: any. Return: false if vCPUs that have loaded it are to take another.
 */
bool hydra_vm_uses(const struct hydra_vm *vm, unsigned int d)
{
	if (!READ_ONCE(vm->per_node))
		return !d;
	if (READ_ONCE(vm->given_up) & BIT(d))
		return false;
	/* Nodes beyond the last domain share the shared tree. */
	return d || hydra_vm_nr_domains() > HYDRA_VM_MAX_DOMAINS;
}

/**
 * hydra_vm_loaded_trees - which trees have vCPUs?
 * @kvm: the VM
 *
 * Context: any; vCPUs may come to a tree, or leave it, meanwhile.
 * Return: a bit for each domain; bit 0: the shared tree, and vCPUs that have not run yet.
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

/**
 * hydra_vm_ask - make a request of the vCPUs of some trees, and of no others
 * @kvm: the VM
 * @trees: a bit for each
 * @request: KVM_REQ_...
 *
 * A vCPU that comes to a tree meanwhile has to find what the caller has changed.
 *
 * Context: any in which vCPUs may be asked; mmu_lock may be held.
 */
void hydra_vm_ask(struct kvm *kvm, u32 trees, unsigned int request)
{
	DECLARE_BITMAP(wanted, KVM_MAX_VCPUS);
	struct kvm_vcpu *vcpu;
	unsigned long i;

	/* The change before the domains: pairs with smp_mb() in __hydra_vm_move(). */
	smp_mb();
	bitmap_zero(wanted, KVM_MAX_VCPUS);
	kvm_for_each_vcpu(i, vcpu, kvm)
		if (trees & BIT(hydra_vm_tree_of(vcpu)))
			__set_bit(i, wanted);
	if (!bitmap_empty(wanted, KVM_MAX_VCPUS))
		kvm_make_vcpus_request_mask(kvm, request, wanted);
}

/**
 * hydra_vm_limit - the most nested tables of a VM: its own limit, or one of vm_limit.c
 * @kvm: the VM
 *
 * Context: any. Return: a number of tables; ULONG_MAX: no limit.
 */
unsigned long hydra_vm_limit(const struct kvm *kvm)
{
	return min(READ_ONCE(kvm->arch.hydra->limit), hydra_vm_limit_of(kvm->mm));
}

/**
 * hydra_vm_has_spare - may a tree have a table that no fault of its own needs?
 * @kvm: the VM
 *
 * Half of the VM's limit is left to faults, for which a tree would be given up.
 *
 * Context: any. Return: true if it may.
 */
bool hydra_vm_has_spare(struct kvm *kvm)
{
	return atomic64_read(&kvm->arch.tdp_mmu_pages) < hydra_vm_limit(kvm) / 2;
}

/**
 * hydra_vm_tidy_in - have a worker tidy, at a time or before
 * @vm: the VM
 * @wait: in so many jiffies
 *
 * Of all that ask, the one that asks for the earliest time has it.
 *
 * Context: any but interrupts.
 */
void hydra_vm_tidy_in(struct hydra_vm *vm, unsigned long wait)
{
	unsigned long at = jiffies + wait;

	guard(spinlock)(&vm->timing);
	if (queue_delayed_work(system_unbound_wq, &vm->tidy, wait)) {
		vm->tidy_at = at;
	} else if (time_before(at, vm->tidy_at)) {
		vm->tidy_at = at;
		mod_delayed_work(system_unbound_wq, &vm->tidy, wait);
	}
}

/**
 * hydra_vm_tidy_soon - have a worker tidy at once, or as soon as it can have slots_lock
 * @vm: the VM
 *
 * Context: any but interrupts.
 */
void hydra_vm_tidy_soon(struct hydra_vm *vm)
{
	hydra_vm_tidy_in(vm, 0);
}
