// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra_vm, hydra_vm_tables, hydra_vm_map and hydra_vm_check: the VMs of a
 * process. See Documentation/admin-guide/mm/hydra.rst.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>

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

/* What the text would make of a VM's settings. Return: 0 or a negative errno. */
static int hydra_vm_try(struct kvm *kvm, const char *text, struct hydra_vm_settings *s)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	int ret;

	s->choice = READ_ONCE(vm->settings);
	s->follow = READ_ONCE(vm->follow);
	s->expose = READ_ONCE(vm->expose);
	ret = hydra_vm_settings_parse(text, s);
	if (!ret && (s->per_node || s->follow || s->expose) && vm->refused) {
		pr_info_ratelimited("settings refused for a VM: %s\n", vm->refused);
		ret = -EOPNOTSUPP;
	}
	return ret;
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
	struct hydra_vm_settings s = {
		.choice = READ_ONCE(vm->settings), .follow = READ_ONCE(vm->follow),
		.expose = READ_ONCE(vm->expose),
	};
	bool per_node = READ_ONCE(vm->per_node);
	unsigned long tables = atomic64_read(&kvm->arch.tdp_mmu_pages);

	hydra_vm_settings_check(&s);
	hydra_vm_settings_show(m, &s);
	seq_printf(m, "active %d\n", per_node);
	seq_printf(m, "fallback %u\n", hweight32(READ_ONCE(vm->given_up)));
	if (vm->refused)
		seq_printf(m, "refused %s\n", vm->refused);
	seq_printf(m, "copied %ld\n", atomic_long_read(&vm->copied));
	seq_printf(m, "vcpus_flushed %ld\n", atomic_long_read(&vm->vcpus_flushed));
	seq_printf(m, "vcpus_spared %ld\n", atomic_long_read(&vm->vcpus_spared));
	seq_printf(m, "dropped %ld\n", atomic_long_read(&vm->dropped));
	seq_printf(m, "moves %ld\n", atomic_long_read(&vm->moves));
	seq_printf(m, "fallbacks %ld\n", atomic_long_read(&vm->fallbacks));
	seq_printf(m, "returns %ld\n", atomic_long_read(&vm->returns));
	seq_printf(m, "moved_tables %ld\n", atomic_long_read(&vm->moved_tables));
	seq_printf(m, "misplaced %ld\n", atomic_long_read(&vm->misplaced));
	seq_printf(m, "nested_tables %lu\n", tables);
	seq_printf(m, "nested_kib %lu\n", tables << (PAGE_SHIFT - 10));
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
