// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which trees vCPUs use, and requests for the vCPUs of some trees.
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
 * hydra_vm_tidy_soon - have a worker tidy at once, or as soon as it can have slots_lock
 * @vm: the VM
 *
 * Context: any.
 */
void hydra_vm_tidy_soon(struct hydra_vm *vm)
{
	mod_delayed_work(system_unbound_wq, &vm->tidy, 0);
}
