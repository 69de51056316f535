// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables of the trees: where they are allocated, and what happens without memory.
 *
 * Lack of memory for a table of a domain tree is not the guest's error: the VM gives up a tree
 * (giving.c). The fault that found no memory is finished on its tree, because it needs its root,
 * with at most PT64_ROOT_MAX_LEVEL tables. These are charged to the memory cgroup beyond its limit,
 * if need be: the limit kills no process for them, and the next ordinary charge pays. So are as
 * many tables of other trees as the trees that go have. The OOM killer of the whole machine may
 * still kill, and for the last tree that of the cgroup, too, as for any table of stock KVM.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/slab.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* Fails, and kills no process: the VM gives up a tree. */
#define HYDRA_VM_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* The tests let the allocations of this function fail. */
static noinline void *hydra_vm_table_alloc(int home)
{
	struct page *page = alloc_pages_node(home, HYDRA_VM_GFP, 0);

	return page ? page_address(page) : NULL;
}

/*
 * A table for a domain tree: on the domain's home, whatever the mempolicy of the VMM says;
 * the policy places data, not tables. cpuset.mems and a lack of memory may lead to another
 * node.
 * Context: may sleep. Return: the table; NULL if the VM had better give up a tree.
 */
static void *hydra_vm_table(struct kvm *kvm, unsigned int d)
{
	int home = hydra_vm_home(d - 1);
	void *table;

	if (hydra_vm_is_full(kvm))
		return NULL;
	table = hydra_vm_table_alloc(home);
	if (table && page_to_nid(virt_to_page(table)) != home)
		atomic_long_inc(&kvm->arch.hydra->misplaced);
	return table;
}

/* The same if there is none within the limits. Return: the table or NULL. */
static void *hydra_vm_table_beyond(struct kvm_vcpu *vcpu, unsigned int d)
{
	/* __GFP_HIGH charges the memory cgroup beyond its limit rather than kill a process. */
	gfp_t gfp = HYDRA_VM_GFP | __GFP_HIGH;
	int home = hydra_vm_home(d - 1);
	struct kvm *kvm = vcpu->kvm;
	struct page *page;

	/* The last tree is as that of stock KVM. */
	if (!hydra_vm_may_force(kvm) && !hydra_vm_give_up(kvm, d))
		gfp = GFP_KERNEL_ACCOUNT;
	/* Before the guest is entered again: the last tables of this kind */
	if (!hydra_vm_uses(kvm->arch.hydra, d))
		kvm_make_request(KVM_REQ_HYDRA, vcpu);
	page = alloc_pages_node(home, gfp, 0) ?: alloc_pages_node(home, GFP_KERNEL_ACCOUNT, 0);
	if (page && page_to_nid(page) != home)
		atomic_long_inc(&kvm->arch.hydra->misplaced);
	return page ? page_address(page) : NULL;
}

/**
 * __hydra_vm_topup - get the tables that a fault, or a new root, may need
 * @vcpu: the vCPU, with a domain tree
 *
 * In the place of kvm_mmu_topup_memory_cache(), which finds the cache full afterwards. No
 * more tables than one fault needs: __hydra_vm_move() throws them away.
 *
 * Context: process context; may sleep.
 * Return: 0; -ENOMEM if the machine has no memory.
 */
int __hydra_vm_topup(struct kvm_vcpu *vcpu)
{
	struct kvm_mmu_memory_cache *mc = &vcpu->arch.mmu_shadow_page_cache;
	unsigned int d = hydra_vm_loaded_domain(vcpu);
	void *table;

	if (mc->nobjs >= PT64_ROOT_MAX_LEVEL)
		return 0;
	if (!mc->objects) {
		mc->objects = kvmalloc_array(KVM_ARCH_NR_OBJS_PER_MEMORY_CACHE,
					     sizeof(void *), GFP_KERNEL_ACCOUNT);
		if (!mc->objects)
			return -ENOMEM;
		mc->capacity = KVM_ARCH_NR_OBJS_PER_MEMORY_CACHE;
	}
	while (mc->nobjs < PT64_ROOT_MAX_LEVEL) {
		table = hydra_vm_table(vcpu->kvm, d) ?: hydra_vm_table_beyond(vcpu, d);
		if (!table)
			return -ENOMEM;
		/* An empty entry need not be 0. */
		memset64(table, SHADOW_NONPRESENT_VALUE, PAGE_SIZE / sizeof(u64));
		mc->objects[mc->nobjs++] = table;
	}
	return 0;
}

/**
 * __hydra_vm_splits - may huge pages of a tree be split without a fault?
 * @kvm: the VM
 * @d: the domain of the tree
 *
 * KVM splits huge pages when it begins to log dirty pages, so that the guest's first write does
 * not have to. That would give all trees tables for all of the guest's memory, at the moment
 * when a migration begins. One tree is split, as on stock KVM: that of the first vCPU. In the
 * other trees the first write to a huge page splits it, and takes one of the exits that the log
 * needs in any case.
 *
 * With PML the processor logs writes to small pages, and stock KVM needs no exit for them. But a
 * huge page that is still there when the log begins loses its write permission, and so do the small
 * entries that a fault makes of it: each would take an exit. So all trees that vCPUs use are split.
 *
 * Context: any. Return: true if they may.
 */
bool __hydra_vm_splits(struct kvm *kvm, unsigned int d)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		if (d == hydra_vm_tree_of(vcpu))
			return true;
		if (!kvm_cpu_dirty_log_size())
			break;
	}
	return false;
}

/**
 * __hydra_vm_split_table - a table for a huge page that is split without a fault
 * @kvm: the VM
 * @d: the domain of the tree
 *
 * All entries are written before the table is linked, so the content does not matter.
 * Without memory the huge page is not split, as in stock KVM: no tree needs to go.
 *
 * Context: may sleep. Return: the table or NULL.
 */
void *__hydra_vm_split_table(struct kvm *kvm, unsigned int d)
{
	return hydra_vm_has_spare(kvm) ? hydra_vm_table(kvm, d) : NULL;
}
