/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaf tables that move to the node of the CPUs that walk them: see rehome.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_REHOME_H
#define _ARCH_X86_MM_HYDRA_REHOME_H

#include <linux/types.h>

#include <asm/pgtable_types.h>

struct hydra_mm;
struct task_struct;

bool hydra_rehome(bool begin);
struct task_struct *hydra_process_from(int *nr);
bool hydra_has_lost_owner(const struct hydra_mm *h, const pteval_t *table);
bool hydra_rehome_to_user(struct hydra_mm *h, unsigned long addr);

#endif /* _ARCH_X86_MM_HYDRA_REHOME_H */
