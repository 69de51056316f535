/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The settings of a cgroup: see cgroup.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_CGROUP_H
#define _ARCH_X86_MM_HYDRA_CGROUP_H

#include <linux/hydra_types.h>
#include <linux/types.h>

struct mm_struct;
struct task_struct;

#ifdef CONFIG_MEMCG
u32 hydra_cgroup_word(struct task_struct *tsk);
bool hydra_cgroup_says(struct mm_struct *mm, union hydra_choice *settings);
#else
static inline u32 hydra_cgroup_word(struct task_struct *tsk)
{
	return 0;
}

static inline bool hydra_cgroup_says(struct mm_struct *mm, union hydra_choice *settings)
{
	return false;
}
#endif

#endif /* _ARCH_X86_MM_HYDRA_CGROUP_H */
