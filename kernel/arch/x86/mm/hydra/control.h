/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings of an address space that follow its cgroup: see control.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_CONTROL_H
#define _ARCH_X86_MM_HYDRA_CONTROL_H

struct mm_struct;

void hydra_settings_follow(struct mm_struct *mm);

#endif /* _ARCH_X86_MM_HYDRA_CONTROL_H */
