// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings of a VM, and the beginning and the end of its state.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* VMs start to count in the key one at a time. */
static DEFINE_MUTEX(hydra_vm_key_mutex);

static bool hydra_inherit __read_mostly = true;
module_param_named(hydra, hydra_inherit, bool, 0644);
MODULE_PARM_DESC(hydra, "A VM takes over Hydra's settings of the process that makes it");

/*
 * A VM is to have a setting of its own: it counts in the key from now on.
 * Return: 0; -ENOMEM; -EINTR if the task is being killed.
 */
static int hydra_vm_begin(struct hydra_vm *vm)
{
	struct hydra_vm_tree *trees;

	/* Before the mutex, which is that of all VMs: to reclaim memory may take long. */
	trees = kcalloc(HYDRA_VM_MAX_DOMAINS + 1, sizeof(*trees), GFP_KERNEL_ACCOUNT);
	if (!trees)
		return -ENOMEM;
	if (mutex_lock_killable(&hydra_vm_key_mutex)) {
		kfree(trees);
		return -EINTR;
	}
	if (!vm->keyed) {
		swap(vm->trees, trees);
		static_branch_deferred_inc(&hydra_vm_key);
		/* Pairs with smp_load_acquire() where @keyed is read: @trees are there. */
		smp_store_release(&vm->keyed, true);
	}
	mutex_unlock(&hydra_vm_key_mutex);
	kfree(trees);
	return 0;
}

/*
 * Drop the trees that no vCPU is to use. slots_lock, which the VMM needs, is given up in between.
 * Return: 0; -EINTR, without slots_lock, if the task is being killed.
 */
static int hydra_vm_drop_unused(struct kvm *kvm)
{
	lockdep_assert_held(&kvm->slots_lock);
	while (hydra_vm_drop_part(kvm, NULL)) {
		mutex_unlock(&kvm->slots_lock);
		cond_resched();
		if (mutex_lock_killable(&kvm->slots_lock))
			return -EINTR;
	}
	return 0;
}

/**
 * hydra_vm_set - change the settings of a VM
 * @kvm: the VM; vCPUs may run
 * @s: the settings, which the VM can have
 *
 * Trees that were given up come back. When this returns 0, the tables of trees no longer used are
 * freed.
 *
 * Context: process context, no locks.
 * Return: 0; -ENOMEM; -EINTR if the task is being killed.
 */
int hydra_vm_set(struct kvm *kvm, const struct hydra_vm_settings *s)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	bool follow = s->choice.tables == HYDRA_TABLES_FOLLOW, own = s->per_node || follow;
	int ret;

	/* Before per_node: vCPUs that are asked to move have to find the branch enabled. */
	if (own && !smp_load_acquire(&vm->keyed)) {
		ret = hydra_vm_begin(vm);
		if (ret)
			return ret;
	}
	/*
	 * The holder of slots_lock may wait for vCPUs, and these for a VMM that answers no
	 * userfaultfd: for ever, if it does not want to.
	 */
	if (mutex_lock_killable(&kvm->slots_lock))
		return -EINTR;
	/* Trees that were given up may have tables beyond all limits. */
	if (READ_ONCE(vm->keyed) && hydra_vm_drop_unused(kvm))
		return -EINTR;
	if (own && !vm->counts)
		hydra_vm_count_changes(kvm);
	WRITE_ONCE(vm->settings, s->choice);
	WRITE_ONCE(vm->follow, follow);
	WRITE_ONCE(vm->limit, s->limit);
	/* Otherwise the VM has, and had, one tree. */
	if (READ_ONCE(vm->keyed))
		hydra_vm_bring_all_back(kvm, s->per_node);
	if (follow) {
		WRITE_ONCE(vm->follow_now, true);
		mod_delayed_work(system_unbound_wq, &vm->following, 0);
	}
	if (READ_ONCE(vm->keyed)) {
		kvm_make_all_cpus_request(kvm, KVM_REQ_HYDRA);
		if (hydra_vm_drop_unused(kvm)) {
			hydra_vm_tidy_soon(vm);
			return -EINTR;
		}
	}
	mutex_unlock(&kvm->slots_lock);
	/* For idle trees. A VM that is being made has none, and hydra_vm_stop() may not follow. */
	if (s->per_node && atomic_read(&kvm->online_vcpus))
		hydra_vm_tidy_soon(vm);
	return 0;
}

/* Why a VM cannot have a tree per node, or NULL; without a VM: why none can */
static const char *hydra_vm_refused(const struct kvm *kvm)
{
	if (!tdp_mmu_enabled)
		return "KVM does not use its TDP MMU (npt=0, ept=0 or tdp_mmu=0)";
	if (hydra_has_groups())
		return "groups of CPUs take the place of nodes (hydra_groups=)";
	if (kvm && kvm->arch.vm_type != KVM_X86_DEFAULT_VM)
		return "the VM is of a protected type";
#if IS_ENABLED(CONFIG_HYPERV)
	/* The member exists only then. */
	if (kvm_x86_ops.flush_remote_tlbs)
		return "the host is a guest of Hyper-V";
#endif
	return NULL;
}

/**
 * hydra_vm_check_cap - KVM_CHECK_EXTENSION with KVM_CAP_HYDRA
 * @kvm: the VM, or NULL
 *
 * Return: KVM_HYDRA_TREES and the flags for args[2] that this kernel knows, if the VM, or one
 * of the default type, can have a tree per node; else 0.
 */
int hydra_vm_check_cap(const struct kvm *kvm)
{
	if (kvm ? kvm->arch.hydra->refused : hydra_vm_refused(NULL))
		return 0;
	return KVM_HYDRA_TREES | KVM_HYDRA_STATE | KVM_HYDRA_FOLLOW | KVM_HYDRA_EXPOSE;
}

/**
 * hydra_vm_features - bits of KVM's CPUID leaf of features
 *
 * Return: that of KVM_HC_HYDRA, if VMs of the default type can have answers.
 */
u32 hydra_vm_features(void)
{
	return hydra_vm_refused(NULL) ? 0 : BIT(KVM_FEATURE_HYDRA);
}

/* Settings that a VM which is refused cannot have */
static bool hydra_vm_says_more(const struct hydra_vm_settings *s)
{
	return s->per_node || s->choice.tables != HYDRA_TABLES_STAY || s->choice.expose;
}

/**
 * hydra_vm_may_have - may a VM have these settings?
 * @kvm: the VM
 * @s: the settings
 *
 * Context: any. Return: true if it may; else the kernel's log says why not.
 */
bool hydra_vm_may_have(const struct kvm *kvm, const struct hydra_vm_settings *s)
{
	const char *refused = kvm->arch.hydra->refused;

	if (!refused || !hydra_vm_says_more(s))
		return true;
	pr_info_ratelimited("settings refused for a VM: %s\n", refused);
	return false;
}

/**
 * hydra_vm_enable_cap - KVM_ENABLE_CAP with KVM_CAP_HYDRA
 * @kvm: the VM; vCPUs may run
 * @cap: what the VMM asks for; its flags are 0
 *
 * Context: process context, no locks.
 * Return: 0; or, with nothing changed, -EINVAL, -E2BIG, -EFAULT, -EOPNOTSUPP, -EPERM, -ENOMEM
 * or -EINTR.
 */
int hydra_vm_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	struct hydra_vm_settings s;
	int ret;

	ret = hydra_vm_settings_read(cap->args, &s);
	if (ret)
		return ret;
	return hydra_vm_may_have(kvm, &s) ? hydra_vm_set(kvm, &s) : -EOPNOTSUPP;
}

/**
 * hydra_vm_init - a VM is being made
 * @kvm: the VM, without a vCPU
 *
 * The VM takes over the settings of the process, if it can have them.
 *
 * Context: process context. Return: 0, -ENOMEM or -EINTR.
 */
int hydra_vm_init(struct kvm *kvm)
{
	struct hydra_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL_ACCOUNT);
	struct hydra_vm_settings s = { .limit = ULONG_MAX };

	if (!vm)
		return -ENOMEM;
	/* As a process begins: a text that names one key leaves the others there. */
	hydra_vm_settings_parse("linux", &s);
	vm->settings = s.choice;
	vm->limit = s.limit;
	vm->kvm = kvm;
	vm->refused = hydra_vm_refused(kvm);
	spin_lock_init(&vm->giving);
	spin_lock_init(&vm->timing);
	INIT_DELAYED_WORK(&vm->tidy, hydra_vm_tidy_work);
	INIT_DELAYED_WORK(&vm->following, hydra_vm_follow_work);
	vm->follow_now = true;
	kvm->arch.hydra = vm;
	if (!READ_ONCE(hydra_inherit))
		return 0;
	if (hydra_vm_settings_inherit(&s) || (hydra_vm_says_more(&s) && vm->refused))
		pr_info_ratelimited("a VM of %s[%d] is stock: %s\n", current->comm,
				    task_pid_nr(current),
				    vm->refused ?: "its settings are for processes only");
	else if (hydra_vm_says_more(&s))
		return hydra_vm_set(kvm, &s);
	return 0;
}

/**
 * hydra_vm_stop - a VM is about to be destroyed
 * @kvm: the VM; no vCPU runs any more
 *
 * Context: process context, no locks.
 */
void hydra_vm_stop(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	cancel_delayed_work_sync(&vm->tidy);
	/* A pass may have much to do. */
	WRITE_ONCE(vm->follow, false);
	cancel_delayed_work_sync(&vm->following);
}

/**
 * hydra_vm_free - a VM is freed
 * @kvm: the VM; perhaps hydra_vm_init() was not called, or has failed
 *
 * A VM whose making fails later comes here without hydra_vm_stop(). It has no tree yet, but
 * may have begun to follow.
 *
 * Context: process context.
 */
void hydra_vm_free(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	if (!vm)
		return;
	hydra_vm_stop(kvm);
	if (vm->keyed)
		static_branch_slow_dec_deferred(&hydra_vm_key);
	kfree(vm->trees);
	kfree(vm);
}
