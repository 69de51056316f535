/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables of the domain trees: see table.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_TABLE_H
#define _ARCH_X86_MM_HYDRA_TABLE_H

#include "entry.h"

/*
 * A link to a leaf table that domains share, without the address of the table: no CPU has walked
 * it yet, see rent.c. All other links are _PAGE_TABLE.
 */
#define HYDRA_LINK	(_PAGE_TABLE & ~(pteval_t)_PAGE_ACCESSED)

/*
 * The entry of a domain's tree that points to its table for a canonical table, which is not a
 * PUD table. Context: the domain's lock, or interrupts off; the domain has a table for the
 * parent.
 */
static inline pteval_t *hydra_slot(const struct hydra_table *t, unsigned int d)
{
	return READ_ONCE(t->parent->table[d]) + hydra_table_index(t);
}

/* The p4d entry of an address in a domain tree */
static inline p4d_t *hydra_domain_p4d(struct hydra_domain *dom, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(dom->pgd, addr);

	if (pgtable_l5_enabled() && pgd_none(*pgd))
		return NULL;
	return p4d_offset(pgd, addr);
}

struct hydra_table *hydra_table_alloc(struct hydra_mm *h, gfp_t gfp);
void hydra_table_init(struct hydra_table *t, struct hydra_mm *h,
		      struct hydra_table *parent, unsigned long addr,
		      enum pg_level level);
struct hydra_table *hydra_table_find_or_alloc(struct hydra_mm *h,
					      struct hydra_table *parent,
					      pteval_t *canonical, unsigned long addr,
					      gfp_t gfp);
int hydra_domain_upper(struct hydra_table *t, unsigned int d, pteval_t *entry,
		       pteval_t want, gfp_t gfp);
void hydra_link(struct hydra_domain *dom, pteval_t *slot, pteval_t link);
void hydra_link_table(struct hydra_table *t, unsigned int d, pteval_t *table);

#endif /* _ARCH_X86_MM_HYDRA_TABLE_H */
