// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trees: a tree of nested page tables for each NUMA node.
 *
 * KVM translates guest addresses by one tree of nested tables (NPT or EPT) for all vCPUs.
 * With domains=node a VM has a tree for each node on which its vCPUs run: a domain tree. A
 * vCPU loads the tree of its CPU's node, and the tables of the tree lie on that node. Each
 * tree is filled by the faults of its own vCPUs. The truth is the page table of the host
 * process, and each tree is a cache of it, as KVM's single tree is.
 *
 * The role of a table names the domain, plus one; 0 is the shared tree of stock KVM. KVM
 * already has several roots for one VM (system management mode, nested guests), and
 * compares whole roles: it finds the root of the right domain, or makes one, and children
 * inherit the role. So do KVM's loops over all roots, which unmap, protect, age and log:
 * they reach domain trees without knowing of them.
 *
 * A vCPU changes trees in __hydra_vm_move() alone:
 *
 * - in vcpu_enter_guest(), at KVM_REQ_HYDRA, where KVM frees obsolete roots, too. The
 *   request comes from kvm_arch_vcpu_load(), which may be in a fault, and cannot
 *   do it itself.
 * - in __hydra_vm_reload(), for KVM_PRE_FAULT_MEMORY, which faults without entering the
 *   guest: before each fault.
 * - in kvm_mmu_load(), before the root is looked for.
 *
 * A vCPU that is preempted between the choice and the guest, and continues on another
 * node, gets the request from kvm_arch_vcpu_load(); kvm_vcpu_exit_request() finds the
 * request before the guest is entered. Until then the vCPU may use the tree of another
 * node: that is slow, not wrong.
 *
 * A tree is only ever loaded by kvm_mmu_load(), which flushes what this CPU has cached
 * of it. A CPU may still have translations of a tree from the time before (VMX tags them
 * by root), and flushes since then have not reached the CPU. __hydra_vm_move() frees the
 * cached previous roots of the vCPU, too, because kvm_mmu_new_pgd() would load them
 * without a flush.
 *
 * Dropping trees. Settings, lack of memory (giving.c) and time (idle.c) end trees. vCPUs that have
 * loaded such a tree are asked to take another, and the tree is emptied in parts. Then its roots
 * become invalid, and its vCPUs are asked to free their roots, in one critical section of
 * mmu_lock. A request waits for the vCPUs to leave the guest, so no vCPU uses a table when
 * kvm_tdp_mmu_zap_invalidated_roots() frees the last tables. Nothing else may drop the last
 * reference of a valid root: kvm_tdp_mmu_put_root() calls that a bug.
 *
 *     CPU 0: new settings                 CPU 1: kvm_mmu_load()
 *     -------------------                 ---------------------
 *                                         __hydra_vm_move(): domain 1
 *     per_node = false
 *     requests KVM_REQ_HYDRA
 *     finds no root of domain 1
 *                                         makes a root of domain 1
 *                                         finds the request: __hydra_vm_move():
 *                                           the shared tree; queues hydra_vm_tidy_work()
 *
 * Locking: settings change, and trees are dropped, under slots_lock. Faults hold neither
 * slots_lock nor could they take it: they are in a section of kvm->srcu, for whose end the
 * holder of slots_lock may wait. They only queue the work. The work does not wait for slots_lock,
 * but comes again: its holder may wait for a VMM that never answers, and the workers are the whole
 * kernel's.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/sched/mm.h>
#include <linux/topology.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"
#include "trace.h"

/**
 * hydra_vm_tidy_work - the worker drops trees, and brings trees back
 * @work: hydra_vm.tidy
 *
 * Context: a workqueue.
 */
void hydra_vm_tidy_work(struct work_struct *work)
{
	struct hydra_vm *vm = container_of(to_delayed_work(work), struct hydra_vm, tidy);
	u32 given_up = READ_ONCE(vm->given_up);
	unsigned long wait;
	bool more;

	if (given_up)
		hydra_vm_ask(vm->kvm, given_up, KVM_REQ_HYDRA);
	hydra_vm_tell(vm);
	do {
		wait = ULONG_MAX;
		if (!mutex_trylock(&vm->kvm->slots_lock)) {
			hydra_vm_tidy_in(vm, HZ / 10);
			return;
		}
		more = hydra_vm_drop_part(vm->kvm, &wait);
		if (!more)
			hydra_vm_bring_back(vm->kvm, &wait);
		mutex_unlock(&vm->kvm->slots_lock);
		cond_resched();
	} while (more);
	hydra_vm_tell(vm);
	/* The next tree may be idle then. */
	if (wait != ULONG_MAX)
		hydra_vm_tidy_in(vm, min(wait, HYDRA_VM_LONGEST_WAIT));
}

/**
 * hydra_vm_allowed_domain - the domain in the place of one whose home a task may not use
 * @d: the domain, counted from 0
 *
 * Context: any. Return: the domain whose home is the nearest of those that the current task may
 * take memory from; @d if there is none.
 */
unsigned int hydra_vm_allowed_domain(unsigned int d)
{
	unsigned int i, nearest = d;
	int distance, least = INT_MAX;

	for (i = 0; i < hydra_vm_nr_domains(); i++) {
		if (!node_isset(hydra_vm_home(i), cpuset_current_mems_allowed))
			continue;
		distance = node_distance(hydra_vm_home(d), hydra_vm_home(i));
		if (distance < least) {
			least = distance;
			nearest = i;
		}
	}
	return nearest;
}

/**
 * __hydra_vm_move - a vCPU takes the tree of its CPU's domain
 * @vcpu: the vCPU, loaded; not in a fault, which needs its root
 *
 * Context: process context; may sleep.
 */
void __hydra_vm_move(struct kvm_vcpu *vcpu)
{
	struct kvm_mmu *mmu = &vcpu->arch.root_mmu;
	struct hydra_vm *vm = vcpu->kvm->arch.hydra;
	union kvm_mmu_page_role role = mmu->root_role;
	unsigned int old = role.domain;
	bool loaded = VALID_PAGE(mmu->root.hpa);

	/* The vCPU may go to another CPU meanwhile: it gets a request there. */
	if (hydra_vm_domain(vcpu->kvm, raw_smp_processor_id()) == old)
		return;
	/* All, also the previous ones: they would be loaded without a flush. */
	kvm_mmu_free_roots(vcpu->kvm, mmu, KVM_MMU_ROOTS_ALL);
	/*
	 * Not preempted, so that hydra_vm_load_vcpu() on another CPU compares with this
	 * choice. After the roots were freed: hydra_vm_check_roots() relies on it.
	 */
	preempt_disable();
	/* Before the domain: a tree that has just lost its last vCPU is not idle yet. */
	WRITE_ONCE(vm->trees[old].left, jiffies);
	WRITE_ONCE(vm->trees[old].pressed, false);
	role.domain = hydra_vm_domain(vcpu->kvm, smp_processor_id());
	WRITE_ONCE(mmu->root_role.word, role.word);
	preempt_enable();
	/*
	 * The domain before the entries of its tree, and before the choice: pairs with smp_mb() in
	 * hydra_vm_flush() and hydra_vm_ask().
	 */
	smp_mb();
	if (hydra_vm_domain(vcpu->kvm, raw_smp_processor_id()) != role.domain)
		kvm_make_request(KVM_REQ_HYDRA, vcpu);
	/* These tables are on the home of the old domain. */
	kvm_mmu_free_memory_cache(&vcpu->arch.mmu_shadow_page_cache);
	atomic64_inc(&vcpu->kvm->stat.hydra_moves[role.domain]);
	trace_hydra_vm_move(vcpu->kvm, vcpu->vcpu_id, (int)old - 1, (int)role.domain - 1);
	/*
	 * This vCPU may have made the root after hydra_vm_drop_part() had looked, and may have
	 * freed it since. A new vCPU has not made the shared tree.
	 */
	if (!old && !loaded)
		return;
	if (!hydra_vm_uses(vm, old))
		hydra_vm_tidy_soon(vm);
	else
		hydra_vm_tidy_in(vm, hydra_vm_idle_wait());
}

/**
 * __hydra_vm_reload - a root that vCPUs may use, before a fault outside of the guest loop
 * @vcpu: the vCPU, loaded; between two faults, so that no fault loses its root
 *
 * KVM repeats a fault on a tree that was dropped, and expects vcpu_enter_guest() to free
 * the root. kvm_tdp_map_page() repeats faults without entering the guest: without this
 * function it would never end once the vCPU's root is invalid. The vCPU changes trees here, too,
 * if it was asked to: it leaves a tree that was given up before the next fault.
 *
 * Context: process context; a section of kvm->srcu; may sleep.
 * Return: 0 or a negative errno of kvm_mmu_load().
 */
int __hydra_vm_reload(struct kvm_vcpu *vcpu)
{
	lockdep_assert(srcu_read_lock_held(&vcpu->kvm->srcu));
	if (kvm_check_request(KVM_REQ_MMU_FREE_OBSOLETE_ROOTS, vcpu))
		kvm_mmu_free_obsolete_roots(vcpu);
	hydra_vm_check_request(vcpu);
	return kvm_mmu_reload(vcpu);
}
