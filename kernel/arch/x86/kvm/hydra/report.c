// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra_vm, hydra_vm_tables, hydra_vm_map and hydra_vm_check: the VMs of a
 * process; and what a VMM may ask of its VM. See Documentation/admin-guide/mm/hydra.rst.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "hydra.h"
#include "internal.h"

/*
 * The VM of an address space after another, with a reference, or NULL. VMs that are being
 * destroyed are left out. The reference to the other VM, which keeps it in the list, is
 * put, and that may destroy the VM: not under kvm_lock.
 *
 * A task that is being killed gets none: a writer of kvm.nx_huge_pages holds kvm_lock while it
 * waits for the slots_lock of each VM, which may be held for as long as a VMM likes.
 */
static struct kvm *hydra_vm_next(const struct mm_struct *mm, struct kvm *last)
{
	struct kvm *kvm = list_prepare_entry(last, &vm_list, vm_list), *next = NULL;

	if (mutex_lock_killable(&kvm_lock))
		goto out;
	list_for_each_entry_continue(kvm, &vm_list, vm_list) {
		if (kvm->mm == mm && kvm_get_kvm_safe(kvm)) {
			next = kvm;
			break;
		}
	}
	mutex_unlock(&kvm_lock);
out:
	if (last)
		kvm_put_kvm(last);
	return next;
}

/* A caller that leaves the loop puts the reference to the VM. */
#define for_each_hydra_vm(kvm, mm) \
	for (kvm = NULL; (kvm = hydra_vm_next(mm, kvm)); )

/* The settings of a VM, which may just be changing */
static struct hydra_vm_settings hydra_vm_settings_of(const struct kvm *kvm)
{
	const struct hydra_vm *vm = kvm->arch.hydra;

	return (struct hydra_vm_settings){
		.choice = READ_ONCE(vm->settings), .limit = READ_ONCE(vm->limit),
		.per_node = READ_ONCE(vm->per_node),
	};
}

/* What the text would make of a VM's settings. Return: 0 or a negative errno. */
static int hydra_vm_try(struct kvm *kvm, const char *text, struct hydra_vm_settings *s)
{
	int ret;

	*s = hydra_vm_settings_of(kvm);
	ret = hydra_vm_settings_parse(text, s);
	if (ret)
		return ret;
	return hydra_vm_may_have(kvm, s) ? 0 : -EOPNOTSUPP;
}

/*
 * All VMs of the process, or none; a signal that kills the writer may come in between. Of
 * two writers at once, the later one wins.
 */
static int hydra_vm_set_all(struct mm_struct *mm, const char *text)
{
	struct hydra_vm_settings s;
	bool found = false;
	struct kvm *kvm;
	int ret;

	for_each_hydra_vm(kvm, mm) {
		ret = hydra_vm_try(kvm, text, &s);
		if (ret) {
			kvm_put_kvm(kvm);
			return ret;
		}
		found = true;
	}
	if (!found)
		return -ENOENT;
	for_each_hydra_vm(kvm, mm) {
		if (hydra_vm_try(kvm, text, &s))
			continue;
		ret = hydra_vm_set(kvm, &s);
		if (ret) {
			kvm_put_kvm(kvm);
			return ret;
		}
	}
	return 0;
}

static void hydra_vm_show_one(struct kvm *kvm, struct seq_file *m)
{
	const struct hydra_vm *vm = kvm->arch.hydra;
	const struct hydra_vm_settings s = hydra_vm_settings_of(kvm);
	unsigned int nr = min(hydra_vm_nr_domains(), HYDRA_VM_MAX_DOMAINS);
	unsigned long tables = atomic64_read(&kvm->arch.tdp_mmu_pages);
	const struct kvm_vm_stat *stat = &kvm->stat;

	hydra_vm_settings_show(m, &s);
	seq_printf(m, "active %d\n", s.per_node);
	seq_printf(m, "fallback %u\n", hweight32(READ_ONCE(vm->given_up)));
	if (vm->refused)
		seq_printf(m, "refused %s\n", vm->refused);
	seq_printf(m, "copied %lld\n", hydra_vm_sum(stat->hydra_copied));
	seq_printf(m, "vcpus_flushed %lld\n", atomic64_read(&stat->hydra_vcpus_flushed));
	seq_printf(m, "vcpus_spared %lld\n", atomic64_read(&stat->hydra_vcpus_spared));
	seq_printf(m, "dropped %lld\n", atomic64_read(&stat->hydra_dropped));
	seq_printf(m, "moves %lld\n", hydra_vm_sum(stat->hydra_moves));
	seq_printf(m, "fallbacks %lld\n", hydra_vm_sum(stat->hydra_fallbacks));
	seq_printf(m, "returns %lld\n", atomic64_read(&stat->hydra_returns));
	seq_printf(m, "moved_tables %lld\n", atomic64_read(&stat->hydra_moved_tables));
	seq_printf(m, "misplaced %ld\n", atomic_long_read(&vm->misplaced));
	seq_printf(m, "nested_tables %lu\n", tables);
	seq_printf(m, "nested_kib %lu\n", tables << (PAGE_SHIFT - 10));
	for (unsigned int d = 1; s.per_node && d <= nr; d++)
		seq_printf(m, "domain %u node %d tables %lld copied %lld moves %lld fallbacks %lld given_up %d\n",
			   d - 1, hydra_vm_home(d - 1), atomic64_read(&stat->hydra_tables[d]),
			   atomic64_read(&stat->hydra_copied[d]),
			   atomic64_read(&stat->hydra_moves[d]),
			   atomic64_read(&stat->hydra_fallbacks[d]),
			   !!(READ_ONCE(vm->given_up) & BIT(d)));
}

/**
 * hydra_vm_attr - KVM_GET_DEVICE_ATTR and KVM_HAS_DEVICE_ATTR of a VM
 * @kvm: the VM
 * @get: the first of the two
 * @from: the attribute, see linux/hydra.h
 *
 * Context: process context, no locks.
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, or -ENXIO for another group.
 */
int hydra_vm_attr(struct kvm *kvm, bool get, const struct kvm_device_attr __user *from)
{
	const struct hydra_vm_settings s = hydra_vm_settings_of(kvm);
	struct hydra_vm_state state = {};
	unsigned long limit = hydra_vm_limit(kvm);
	struct kvm_device_attr attr;
	size_t known;

	if (copy_from_user(&attr, from, sizeof(attr)))
		return -EFAULT;
	if (attr.group != KVM_CAP_HYDRA)
		return -ENXIO;
	if (attr.flags || attr.attr < sizeof(state.domains))
		return -EINVAL;
	if (attr.attr > PAGE_SIZE)
		return -E2BIG;
	if (!get)
		return 0;
	hydra_vm_settings_give(&s, &state);
	state.active = s.per_node;
	state.fallback = hweight32(READ_ONCE(kvm->arch.hydra->given_up));
	state.limit_kib = limit == ULONG_MAX ? U64_MAX : limit * (PAGE_SIZE / 1024);
	state.nested_kib = atomic64_read(&kvm->arch.tdp_mmu_pages) * (PAGE_SIZE / 1024);
	known = min(attr.attr, sizeof(state));
	if (copy_to_user(u64_to_user_ptr(attr.addr), &state, known) ||
	    clear_user(u64_to_user_ptr(attr.addr) + known, attr.attr - known))
		return -EFAULT;
	return 0;
}

static void hydra_vm_each(struct mm_struct *mm, struct seq_file *m,
			  void (*show)(struct kvm *kvm, struct seq_file *m))
{
	unsigned int i = 0;
	struct kvm *kvm;

	for_each_hydra_vm(kvm, mm) {
		seq_printf(m, "vm %u\n", i++);
		show(kvm, m);
	}
}

static void hydra_vm_show_all(struct mm_struct *mm, struct seq_file *m)
{
	hydra_vm_each(mm, m, hydra_vm_show_one);
}

static void hydra_vm_tables_all(struct mm_struct *mm, struct seq_file *m)
{
	hydra_vm_each(mm, m, hydra_vm_show_tables_of);
}

static void hydra_vm_map_all(struct mm_struct *mm, struct seq_file *m)
{
	hydra_vm_each(mm, m, hydra_vm_show_map_of);
}

static void hydra_vm_check_all(struct mm_struct *mm, struct seq_file *m)
{
	unsigned int i = 0;
	struct kvm *kvm;
	long found = 0;

	for_each_hydra_vm(kvm, mm) {
		seq_printf(m, "vm %u\n", i++);
		found += hydra_vm_check_vm(kvm, m);
	}
	/* If not, the file asks again, with a larger buffer. */
	if (!seq_has_overflowed(m))
		atomic_long_add(found, &hydra_violations);
}

static const struct hydra_vm_ops hydra_vm_kvm_ops = {
	.set = hydra_vm_set_all,
	.show = hydra_vm_show_all,
	.tables = hydra_vm_tables_all,
	.map = hydra_vm_map_all,
	.check = hydra_vm_check_all,
};

/**
 * hydra_vm_load - a vendor's module (kvm_intel, kvm_amd) has set up KVM
 *
 * Context: process context, the module's init.
 */
void hydra_vm_load(void)
{
	hydra_vm_idle_load();
	hydra_vm_register(&hydra_vm_kvm_ops, kvm_x86_ops.vcpu_load);
}

/**
 * hydra_vm_unload - the vendor's module is about to be unloaded
 *
 * There is no VM, and no reader of the files above has a reference to one.
 *
 * Context: process context.
 */
void hydra_vm_unload(void)
{
	hydra_vm_unregister();
	hydra_vm_idle_unload();
	/* Its work is in kvm.ko, and no VM of another vendor's module needs the key yet. */
	static_key_deferred_flush(&hydra_vm_key);
}
