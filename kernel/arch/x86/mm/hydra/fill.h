/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fills: see fill.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_FILL_H
#define _ARCH_X86_MM_HYDRA_FILL_H

#include <linux/hydra.h>

pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl);

#endif /* _ARCH_X86_MM_HYDRA_FILL_H */
