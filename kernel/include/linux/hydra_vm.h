/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between KVM, which may be a module, and arch/x86/mm/hydra/vm.c, which is not.
 */
#ifndef _LINUX_HYDRA_VM_H
#define _LINUX_HYDRA_VM_H

#include <linux/atomic.h>
#include <linux/hydra_types.h>
#include <linux/types.h>

struct file;
struct hydra_vm_state;
struct mm_struct;
struct seq_file;

/**
 * struct hydra_vm_settings - settings of a VM
 * @choice: as that of a process
 * @per_node: the VM has a tree per node; follows from @choice
 * @limit: the most nested tables that it may have; ULONG_MAX: no limit of its own
 */
struct hydra_vm_settings {
	union hydra_choice choice;
	bool per_node;
	unsigned long limit;
};

/**
 * struct hydra_vm_ops - what KVM does for /proc/PID/hydra_vm and its neighbours
 * @set: give settings, as text, to the VMs of an address space
 * @show: settings and counters of the VMs
 * @tables: where the nested tables of the VMs are
 * @map: each nested table of the VMs
 * @check: compare the nested trees of the VMs, and report what breaks a rule
 *
 * Called in process context, with a reference to the vendor's module, and by several tasks at
 * once.
 * A call puts all VMs that it got before it returns.
 */
struct hydra_vm_ops {
	int (*set)(struct mm_struct *mm, const char *text);
	void (*show)(struct mm_struct *mm, struct seq_file *m);
	void (*tables)(struct mm_struct *mm, struct seq_file *m);
	void (*map)(struct mm_struct *mm, struct seq_file *m);
	void (*check)(struct mm_struct *mm, struct seq_file *m);
};

void hydra_vm_register(const struct hydra_vm_ops *ops, const void *vendor);
void hydra_vm_unregister(void);
int hydra_vm_settings_parse(const char *text, struct hydra_vm_settings *s);
int hydra_vm_settings_check(struct hydra_vm_settings *s);
int hydra_vm_settings_read(const u64 args[4], struct hydra_vm_settings *s);
int hydra_vm_settings_inherit(struct hydra_vm_settings *s);
void hydra_vm_settings_show(struct seq_file *m, const struct hydra_vm_settings *s);
void hydra_vm_settings_give(const struct hydra_vm_settings *s, struct hydra_vm_state *to);
unsigned int hydra_vm_nr_domains(void);
int hydra_vm_home(unsigned int d);

/* vm_place.c */
int hydra_vm_page_node(unsigned long address);
long hydra_vm_pages_place(const unsigned long *address, unsigned int nr, int nid, long *budget,
			  bool *later);

/* vm_limit.c */
unsigned long hydra_vm_limit_of(const struct mm_struct *mm);

/* groups.c */
bool hydra_has_groups(void);

extern unsigned long hydra_vm_table_limit;
extern unsigned int hydra_vm_idle_seconds;
extern atomic_long_t hydra_violations;

/* For fs/proc/hydra.c */
int hydra_vm_set_text(struct mm_struct *mm, const char *text);
int hydra_vm_show(struct mm_struct *mm, struct seq_file *m);
int hydra_vm_show_tables(struct mm_struct *mm, struct seq_file *m);
int hydra_vm_show_map(struct mm_struct *mm, struct seq_file *m);
int hydra_vm_check(struct mm_struct *mm, struct seq_file *m);

#endif /* _LINUX_HYDRA_VM_H */
