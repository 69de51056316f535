/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of this directory share.
 */
#ifndef _ARCH_X86_KVM_HYDRA_INTERNAL_H
#define _ARCH_X86_KVM_HYDRA_INTERNAL_H

#include <linux/kvm_types.h>
#include <linux/types.h>

struct seq_file;

/* core.c */
int hydra_vm_set(struct kvm *kvm, u32 settings, bool per_node);

/* check.c */
void hydra_vm_show_tables_of(struct kvm *kvm, struct seq_file *m);
long hydra_vm_check_vm(struct kvm *kvm, struct seq_file *m);

#endif /* _ARCH_X86_KVM_HYDRA_INTERNAL_H */
