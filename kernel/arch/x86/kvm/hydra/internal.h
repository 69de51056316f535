/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of this directory share.
 */
#ifndef _ARCH_X86_KVM_HYDRA_INTERNAL_H
#define _ARCH_X86_KVM_HYDRA_INTERNAL_H

#include <linux/kvm_types.h>
#include <linux/types.h>

#include "mmu/mmu_internal.h"

struct hydra_vm;
struct hydra_vm_settings;
struct kvm_mmu_page;
struct seq_file;
struct tdp_iter;
struct work_struct;

/* The sum of a number by domain */
static inline s64 hydra_vm_sum(const atomic64_t *number)
{
	s64 sum = 0;

	for (unsigned int d = 0; d <= HYDRA_VM_MAX_DOMAINS; d++)
		sum += atomic64_read(&number[d]);
	return sum;
}

/* vcpus.c */
bool hydra_vm_uses(const struct hydra_vm *vm, unsigned int d);
u32 hydra_vm_loaded_trees(struct kvm *kvm);
void hydra_vm_ask(struct kvm *kvm, u32 trees, unsigned int request);
unsigned long hydra_vm_limit(const struct kvm *kvm);
bool hydra_vm_has_spare(struct kvm *kvm);
void hydra_vm_tidy_in(struct hydra_vm *vm, unsigned long wait);
void hydra_vm_tidy_soon(struct hydra_vm *vm);

/* trees.c */
void hydra_vm_tidy_work(struct work_struct *work);

/* giving.c */
bool hydra_vm_give_up(struct kvm *kvm, unsigned int d);
bool hydra_vm_may_force(struct kvm *kvm);
bool hydra_vm_is_full(struct kvm *kvm);
void hydra_vm_bring_back(struct kvm *kvm, unsigned long *wait);
void hydra_vm_bring_all_back(struct kvm *kvm, bool per_node);
void hydra_vm_tell(struct hydra_vm *vm);

/* settings.c */
bool hydra_vm_may_have(const struct kvm *kvm, const struct hydra_vm_settings *s);
int hydra_vm_set(struct kvm *kvm, const struct hydra_vm_settings *s);

/* No vCPU may load the tree from now on. Context: mmu_lock for writing. */
static inline void hydra_vm_invalidate(struct kvm *kvm, struct kvm_mmu_page *root)
{
	lockdep_assert_held_write(&kvm->mmu_lock);
	/* As kvm_tdp_mmu_invalidate_all_roots() does */
	root->tdp_mmu_scheduled_root_to_zap = true;
	root->role.invalid = true;
}

/* idle.c */
/* The longest time between two looks at an idle tree: the seconds may be set meanwhile. */
#define HYDRA_VM_LONGEST_WAIT	(30UL * HZ)
bool hydra_vm_alone_for(const struct hydra_vm *vm, unsigned int d, unsigned long time,
			unsigned long *left);
bool hydra_vm_drop_part(struct kvm *kvm, unsigned long *wait);
unsigned long hydra_vm_idle_wait(void);
void hydra_vm_idle_load(void);
void hydra_vm_idle_unload(void);

/* follow.c */
void hydra_vm_follow_work(struct work_struct *work);

/* census.c */
struct kvm_mmu_page *hydra_vm_next_root(struct kvm *kvm, struct kvm_mmu_page *last);
bool hydra_vm_each_entry(struct kvm *kvm, struct kvm_mmu_page *root, int min_level,
			 bool (*look)(struct kvm_mmu_page *root, struct tdp_iter *iter,
				      void *data),
			 void *data);
void hydra_vm_show_tables_of(struct kvm *kvm, struct seq_file *m);
void hydra_vm_show_map_of(struct kvm *kvm, struct seq_file *m);

/* check.c */
long hydra_vm_check_vm(struct kvm *kvm, struct seq_file *m);

/* The place of a guest frame's entry in a table of a level */
static inline unsigned int hydra_vm_index(gfn_t gfn, int level)
{
	return (gfn >> ((level - 1) * (PAGE_SHIFT - 3))) % (PAGE_SIZE / sizeof(u64));
}

#endif /* _ARCH_X86_KVM_HYDRA_INTERNAL_H */
