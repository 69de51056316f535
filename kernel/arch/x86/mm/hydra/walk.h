/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Walks over the canonical tables of one level: see walk.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_WALK_H
#define _ARCH_X86_MM_HYDRA_WALK_H

#include <linux/mm_types.h>

#include <asm/pgtable_types.h>

/**
 * struct hydra_iter - a walk over the canonical tables of one level
 * @mm: the address space; set by the caller
 * @level: PG_LEVEL_4K, PG_LEVEL_2M or PG_LEVEL_1G; set by the caller
 * @steps: how many entries to look at until the walk stops; set by the caller; 0: no bound
 * @next: address at which the walk continues
 * @addr: first address that the table maps
 * @entry: the canonical entry that points to the table
 * @table: the table
 */
struct hydra_iter {
	struct mm_struct *mm;
	enum pg_level level;
	unsigned int steps;
	unsigned long next;
	unsigned long addr;
	pteval_t *entry;
	pteval_t *table;
};

bool hydra_next_canonical(struct hydra_iter *it);

#endif /* _ARCH_X86_MM_HYDRA_WALK_H */
