// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual machines: what the rest of the kernel knows of them. The mechanism is in
 * arch/x86/kvm/hydra/, and may be in a module.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <uapi/linux/hydra_para.h>

#include "domain.h"
#include "settings.h"

/*
 * KVM, or NULL while no vendor's module (kvm_intel, kvm_amd) is there, and that module. The mutex
 * is not held during calls: a call may wait for a VM's slots_lock, and that for a VMM which
 * answers no userfaultfd. A reference to the vendor's module keeps all code there instead. A
 * reference to kvm.ko, which the vendor's module keeps there, would not do: the caller may hold
 * the last reference to a VM, and its end calls the vendor.
 *
 *     CPU 0: a reader of hydra_vm          CPU 1
 *     ---------------------------          -----
 *     has a reference to a VM
 *                                          the VMM ends: it closes its files, and with them
 *                                            its references to the vendor's module
 *                                          rmmod kvm_intel: refused, as the reader has one
 *     puts the VM: kvm_destroy_vm() calls
 *       the vendor's module
 *     puts the module
 */
static const struct hydra_vm_ops *hydra_vm_ops;
static struct module *hydra_vm_owner;
static DEFINE_MUTEX(hydra_vm_mutex);

/* The most memory for nested tables of one VM that has a tree per node, in tables */
unsigned long hydra_vm_table_limit __read_mostly = ULONG_MAX;

/* After so long a tree without a vCPU is dropped; 0: never */
unsigned int hydra_vm_idle_seconds __read_mostly = 30;
EXPORT_SYMBOL_GPL(hydra_vm_idle_seconds);

/**
 * hydra_vm_register - KVM is there, with a vendor's module
 * @ops: its functions
 * @vendor: the address of any function of the vendor's module
 *
 * Context: process context, the module's init.
 */
void hydra_vm_register(const struct hydra_vm_ops *ops, const void *vendor)
{
	guard(mutex)(&hydra_vm_mutex);
	preempt_disable();
	hydra_vm_owner = __module_address((unsigned long)vendor);
	preempt_enable();
	hydra_vm_ops = ops;
}
EXPORT_SYMBOL_GPL(hydra_vm_register);

/**
 * hydra_vm_unregister - the vendor's module is about to go
 *
 * No function of KVM is being called: the module has no reference left.
 *
 * Context: process context.
 */
void hydra_vm_unregister(void)
{
	guard(mutex)(&hydra_vm_mutex);
	hydra_vm_ops = NULL;
}
EXPORT_SYMBOL_GPL(hydra_vm_unregister);

/**
 * hydra_vm_settings_check - can a VM have these settings?
 * @s: the settings; what follows from them is set
 *
 * Return: 0 or -EOPNOTSUPP.
 */
int hydra_vm_settings_check(struct hydra_vm_settings *s)
{
	s->per_node = false;
	if (!hydra_wants_domains(s->choice))
		return 0;
	if (s->choice.domains != HYDRA_SCOPE_NODE ||
	    s->choice.filter > HYDRA_FILTER_TABLE)
		return -EOPNOTSUPP;
	s->per_node = true;
	return 0;
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_check);

/* As hydra_vm_settings_check(). What no VM can have is refused with a line in the log. */
static int hydra_vm_settings_accept(struct hydra_vm_settings *s)
{
	int ret = hydra_vm_settings_check(s);

	if (ret == -EOPNOTSUPP)
		pr_info_ratelimited("settings refused for a VM: a VM has domains machine or node, and filter none or table\n");
	return ret;
}

/* Take "limit_kib=NUMBER", or "limit_kib=max". Return: 0 or -EINVAL. */
static int hydra_vm_take_limit(const char *value, struct hydra_vm_settings *s)
{
	unsigned long kib;

	if (!strcmp(value, "max")) {
		s->limit = ULONG_MAX;
		return 0;
	}
	/* As of KVM_CAP_HYDRA: whole tables. To round down could leave none. */
	if (kstrtoul(value, 10, &kib) || kib % (PAGE_SIZE / 1024))
		return -EINVAL;
	s->limit = kib / (PAGE_SIZE / 1024);
	return 0;
}

/**
 * hydra_vm_settings_parse - read settings of a VM from text
 * @text: as for hydra_settings_parse(); limit_kib=NUMBER or limit_kib=max may be among the words.
 *	Or "again"
 * @s: updated. A policy leaves the limit as it is
 *
 * Return: 0, -EINVAL or -EOPNOTSUPP.
 */
int hydra_vm_settings_parse(const char *text, struct hydra_vm_settings *s)
{
	char words[HYDRA_TEXT_MAX], others[HYDRA_TEXT_MAX] = "", *rest, *word;
	static const char limit[] = "limit_kib=";
	unsigned int nr = 0;
	int ret = 0;

	if (strscpy(words, text, sizeof(words)) < 0)
		return -EINVAL;
	rest = strim(words);
	/* All settings stay, also where VMs of one process have different ones. */
	if (!strcmp(rest, "again"))
		return hydra_vm_settings_accept(s);
	while (!ret && (word = strsep(&rest, ","))) {
		if (!strncmp(word, limit, strlen(limit))) {
			ret = hydra_vm_take_limit(word + strlen(limit), s);
			continue;
		}
		if (nr++)
			strlcat(others, ",", sizeof(others));
		strlcat(others, word, sizeof(others));
	}
	if (!ret && nr)
		ret = hydra_settings_parse(others, &s->choice);
	return ret ?: hydra_vm_settings_accept(s);
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_parse);

/**
 * hydra_vm_settings_read - settings of a VM that a VMM passes
 * @args: those of KVM_ENABLE_CAP, see linux/hydra.h
 * @s: set to the settings
 *
 * Context: process context, no locks.
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -EOPNOTSUPP, or -EPERM if the process may not choose.
 */
int hydra_vm_settings_read(const u64 args[4], struct hydra_vm_settings *s)
{
	u64 flags = args[2], table_kib = PAGE_SIZE / 1024;
	int ret;

	if (args[3] % table_kib)
		return -EINVAL;
	if (flags & ~(u64)(KVM_HYDRA_FOLLOW | KVM_HYDRA_EXPOSE))
		return -EINVAL;
	ret = hydra_settings_read(u64_to_user_ptr(args[0]), args[1], &s->choice);
	if (ret)
		return ret;
	if (flags & KVM_HYDRA_FOLLOW)
		s->choice.tables = HYDRA_TABLES_FOLLOW;
	if (flags & KVM_HYDRA_EXPOSE)
		s->choice.expose = 1;
	s->limit = args[3] ? args[3] / table_kib : ULONG_MAX;
	return hydra_settings_check(s->choice) ?: hydra_vm_settings_accept(s);
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_read);

/**
 * hydra_vm_settings_inherit - settings of the process that makes a VM
 * @s: set to the settings
 *
 * Context: process context. Return: 0; -EOPNOTSUPP if a VM cannot have them.
 */
int hydra_vm_settings_inherit(struct hydra_vm_settings *s)
{
	s->choice = hydra_settings_get(current->mm);
	s->limit = ULONG_MAX;
	return hydra_vm_settings_check(s);
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_inherit);

/**
 * hydra_vm_settings_show - "key value" lines
 * @m: the file to write to
 * @s: settings of a VM
 */
void hydra_vm_settings_show(struct seq_file *m, const struct hydra_vm_settings *s)
{
	hydra_settings_show(m, s->choice);
	if (s->limit == ULONG_MAX)
		seq_puts(m, "limit_kib max\n");
	else
		seq_printf(m, "limit_kib %lu\n", s->limit * (PAGE_SIZE / 1024));
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_show);

/**
 * hydra_vm_settings_give - settings in the state that a VMM gets
 * @s: settings of a VM
 * @to: gets them
 */
void hydra_vm_settings_give(const struct hydra_vm_settings *s, struct hydra_vm_state *to)
{
	struct hydra_settings from;

	hydra_settings_give(s->choice, &from);
	to->domains = from.domains;
	to->replication = from.replication;
	to->prefetch = from.prefetch;
	to->filter = from.filter;
	to->tables = from.tables;
	to->expose = from.expose;
}
EXPORT_SYMBOL_GPL(hydra_vm_settings_give);

/**
 * hydra_vm_nr_domains - how many nodes have CPUs
 *
 * Return: the number.
 */
unsigned int hydra_vm_nr_domains(void)
{
	return hydra_domains[HYDRA_SCOPE_NODE].nr;
}
EXPORT_SYMBOL_GPL(hydra_vm_nr_domains);

/**
 * hydra_vm_home - where the tables of a domain are
 * @d: the domain, counted from 0
 *
 * Return: the node.
 */
int hydra_vm_home(unsigned int d)
{
	return hydra_domains[HYDRA_SCOPE_NODE].home[d];
}
EXPORT_SYMBOL_GPL(hydra_vm_home);

/*
 * KVM with a reference to the vendor's module, or NULL. While the module's init runs, it has no
 * VM yet; and if the init fails, the module goes whatever references it has.
 */
static const struct hydra_vm_ops *hydra_vm_ops_get(void)
{
	guard(mutex)(&hydra_vm_mutex);
	if (!hydra_vm_ops)
		return NULL;
#ifdef CONFIG_MODULES
	if (hydra_vm_owner && READ_ONCE(hydra_vm_owner->state) == MODULE_STATE_COMING)
		return NULL;
#endif
	return try_module_get(hydra_vm_owner) ? hydra_vm_ops : NULL;
}

/* Only while a reference is held, so the owner is the one that it is of. */
static void hydra_vm_ops_put(void)
{
	module_put(hydra_vm_owner);
}

/**
 * hydra_vm_set_text - give settings to all VMs of a process
 * @mm: the address space
 * @text: the settings
 *
 * Context: process context, no locks.
 * Return: 0; or, with nothing changed, -EINVAL, -EOPNOTSUPP, or -ENOENT without a VM; or
 * -EINTR if the task is being killed.
 */
int hydra_vm_set_text(struct mm_struct *mm, const char *text)
{
	const struct hydra_vm_ops *ops = hydra_vm_ops_get();
	int ret;

	if (!ops)
		return -ENOENT;
	ret = ops->set(mm, text);
	hydra_vm_ops_put();
	return ret;
}

/**
 * hydra_vm_show - settings and counters of the VMs of a process
 * @mm: the address space
 * @m: the file to write to
 *
 * Context: process context, no locks. Return: 0.
 */
int hydra_vm_show(struct mm_struct *mm, struct seq_file *m)
{
	const struct hydra_vm_ops *ops = hydra_vm_ops_get();

	if (ops) {
		ops->show(mm, m);
		hydra_vm_ops_put();
	}
	return 0;
}

/**
 * hydra_vm_show_tables - where the nested tables of the VMs of a process are
 * @mm: the address space
 * @m: the file to write to
 *
 * Context: process context, no locks. Return: 0.
 */
int hydra_vm_show_tables(struct mm_struct *mm, struct seq_file *m)
{
	const struct hydra_vm_ops *ops = hydra_vm_ops_get();

	if (ops) {
		ops->tables(mm, m);
		hydra_vm_ops_put();
	}
	return 0;
}

/**
 * hydra_vm_show_map - each nested table of the VMs of a process
 * @mm: the address space
 * @m: the file to write to
 *
 * Context: process context, no locks. Return: 0.
 */
int hydra_vm_show_map(struct mm_struct *mm, struct seq_file *m)
{
	const struct hydra_vm_ops *ops = hydra_vm_ops_get();

	if (ops) {
		ops->map(mm, m);
		hydra_vm_ops_put();
	}
	return 0;
}

/**
 * hydra_vm_check - compare the nested trees of the VMs of a process
 * @mm: the address space
 * @m: the file to write to
 *
 * Context: process context, no locks; the VM's faults wait meanwhile. Return: 0.
 */
int hydra_vm_check(struct mm_struct *mm, struct seq_file *m)
{
	const struct hydra_vm_ops *ops = hydra_vm_ops_get();

	if (ops) {
		ops->check(mm, m);
		hydra_vm_ops_put();
	}
	return 0;
}

#include "tests/vm-kunit.h"
