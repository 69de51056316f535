/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains that leave a leaf table: see drop.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_DROP_H
#define _ARCH_X86_MM_HYDRA_DROP_H

#include <linux/hydra.h>

#include "entry.h"

/**
 * struct hydra_shared - a leaf table with a struct hydra_table, locked
 * @t: its struct hydra_table
 * @canonical: the table
 * @pmd: the canonical entry that points to it
 * @pte: an entry of it, as mapped
 * @ptl: its lock
 */
struct hydra_shared {
	struct hydra_table *t;
	pteval_t *canonical;
	pmd_t *pmd;
	pte_t *pte;
	spinlock_t *ptl;	/* the table's lock */
};

bool hydra_trylock_shared(struct hydra_mm *h, unsigned long addr, struct hydra_shared *s);
void hydra_unlock_shared(struct hydra_shared *s);
void hydra_drop(struct hydra_shared *s, hydra_mask_t *domains);

#endif /* _ARCH_X86_MM_HYDRA_DROP_H */
