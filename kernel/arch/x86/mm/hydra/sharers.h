/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which domains a flush has to reach: see sharers.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SHARERS_H
#define _ARCH_X86_MM_HYDRA_SHARERS_H

#include <linux/hydra_gather.h>

#include "marks.h"

/* Sharers of a range: of its leaf tables, and of which huge entries. */
enum hydra_huge {
	HYDRA_LEAF_ONLY,	/* none */
	HYDRA_HUGE_IN_RANGE,	/* entries in the range that point to no table now */
	HYDRA_HUGE_SAME_TABLE,	/* all entries, at any time, of the range's PMD and PUD tables */
};

/**
 * struct hydra_lookup - a look for the domains that a flush has to reach
 * @h: address space
 * @huge: which sharers of huge entries to add
 * @look: how to look for sharers of leaf tables
 * @permits: the most precise look that the flush permits
 * @filter: HYDRA_FILTER_*; with "auto", the mode of each table says whether to look at marks
 * @copies: of entries, of the shared tables that ask for a look, or have been looked at so far
 * @entries: entries of PMD tables, or of tables above, visited so far
 * @shared: shared leaf tables visited so far
 * @size: of the range of the flush
 * @reaches: by table, for a flush: a shared table asks for a look at the marks, or pays rent
 * @askers_pay: by table, once more: the tables that have asked pay rent, as there is no look
 * @looked: with "auto": the flush has looked, and @found is a copy of its targets; account
 * @walked: a gather has walked all tables already, so its budget is larger
 * @spent: set once the budget is spent: the flush goes to every domain
 * @paid: the last table that has paid for the look
 * @found: the domains are added to it
 */
struct hydra_lookup {
	struct hydra_mm *h;
	enum hydra_huge huge : 8;
	enum hydra_look look : 8;
	enum hydra_look permits : 8;
	u8 filter;
	unsigned int copies;
	unsigned int entries;
	unsigned int shared;
	unsigned long size;
	bool reaches;
	bool askers_pay;
	bool looked;
	bool walked;
	bool spent;
	const struct hydra_table *paid;
	hydra_mask_t *found;
};

void hydra_range_sharers(struct hydra_lookup *l, unsigned long start,
			 unsigned long end);
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_look look,
			 hydra_mask_t *targets);
bool hydra_gather_targets(const struct mmu_gather *tlb, unsigned long start,
			  unsigned long end, enum hydra_look look,
			  hydra_mask_t *targets);

#endif /* _ARCH_X86_MM_HYDRA_SHARERS_H */
