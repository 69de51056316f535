/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's hooks in struct mmu_gather. Included by asm/tlb.h after the struct is
 * complete.
 */
#ifndef _ASM_X86_HYDRA_TLB_H
#define _ASM_X86_HYDRA_TLB_H

#include <linux/hydra_gather.h>
#include <asm/hydra.h>

/* For tlb_remove_pmd_tlb_entry() and its PUD twin: a huge entry is cleared or changed. */
static inline void hydra_remove_huge(struct mmu_gather *tlb, const void *entry, unsigned long addr)
{
	hydra_gather_add_huge(&tlb->hydra, entry, addr);
}

#ifdef CONFIG_HYDRA_MM

/**
 * hydra_tlb_flush - flush for a gather if its address space has been split, or is counted
 * @tlb: the gather
 * @start: first address
 * @end: end of the range, exclusive
 * @stride_shift: step between the addresses
 *
 * Return: false if Linux has to flush.
 */
static inline bool hydra_tlb_flush(struct mmu_gather *tlb, unsigned long start,
				   unsigned long end, unsigned int stride_shift)
{
	if (!mm_has_hydra(tlb->mm))
		return false;
	hydra_gather_flush(tlb, start, end, stride_shift);
	return true;
}

/**
 * hydra_free_table - a canonical table is being freed
 * @tlb: the gather that frees it
 * @ptdesc: the table
 * @ptl: lock of a leaf table, NULL for a table above
 * @addr: an address that the table mapped, if it is a leaf table
 */
static inline void hydra_free_table(struct mmu_gather *tlb,
				    struct ptdesc *ptdesc, spinlock_t *ptl,
				    unsigned long addr)
{
	if (mm_has_hydra(tlb->mm))
		__hydra_free_table(tlb, ptdesc, ptl, addr);
}

/**
 * hydra_remove_table - free a canonical table after a grace period
 * @tlb: the gather that frees it
 * @page: the table
 *
 * See hydra_gather_flushed().
 *
 * Return: false if Linux has to free it.
 */
static inline bool hydra_remove_table(struct mmu_gather *tlb, struct page *page)
{
	if (!mm_has_hydra(tlb->mm))
		return false;
	hydra_gather_table(tlb, page_ptdesc(page));
	return true;
}

/**
 * hydra_remove_pmd_table - hydra_remove_table() for a PMD table
 * @tlb: the gather that frees it
 * @ptdesc: the table
 *
 * Warns if a deposited leaf table would leak. pagetable_pmd_dtor() tests this, but
 * does not run under Hydra, see hydra_retire_locked().
 *
 * Return: false if Linux has to free it.
 */
static inline bool hydra_remove_pmd_table(struct mmu_gather *tlb,
					  struct ptdesc *ptdesc)
{
	if (!mm_has_hydra(tlb->mm))
		return false;
	VM_WARN_ON_ONCE_PAGE(IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) &&
			     ptdesc->pmd_huge_pte, ptdesc_page(ptdesc));
	hydra_gather_table(tlb, ptdesc);
	return true;
}

#else /* !CONFIG_HYDRA_MM */

static inline bool hydra_tlb_flush(struct mmu_gather *tlb, unsigned long start,
				   unsigned long end, unsigned int stride_shift)
				   { return false; }
/* A macro: the caller's ptlock_ptr() is not declared if there is one lock for all tables. */
#define hydra_free_table(tlb, ptdesc, ptl, addr)	do { } while (0)
static inline bool hydra_remove_table(struct mmu_gather *tlb, struct page *page)
				      { return false; }
static inline bool hydra_remove_pmd_table(struct mmu_gather *tlb,
					  struct ptdesc *ptdesc) { return false; }

#endif /* CONFIG_HYDRA_MM */
#endif /* _ASM_X86_HYDRA_TLB_H */
