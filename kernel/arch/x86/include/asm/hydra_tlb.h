/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's part in struct mmu_gather. Included by asm/tlb.h, where the struct is
 * known.
 */
#ifndef _ASM_X86_HYDRA_TLB_H
#define _ASM_X86_HYDRA_TLB_H

#include <asm/hydra.h>

#ifdef CONFIG_HYDRA_MM

/**
 * hydra_tlb_flush - do the flush of a gather if its address space has been split
 * @tlb: the gather
 * @start: first address
 * @end: address after the last one
 * @stride_shift: step between the addresses
 *
 * Return: false if it is Linux's to do.
 */
static inline bool hydra_tlb_flush(struct mmu_gather *tlb, unsigned long start,
				   unsigned long end, unsigned int stride_shift)
{
	if (!hydra_mm(tlb->mm))
		return false;
	hydra_gather_flush(tlb->mm, &tlb->hydra, start, end, stride_shift,
			   tlb->freed_tables);
	return true;
}

/* tlb_remove_pmd_tlb_entry() and its twin: a huge entry is gone, or another. */
static inline void hydra_remove_huge(struct mmu_gather *tlb, const void *entry,
				     unsigned long addr)
{
	hydra_gather_takes(&tlb->hydra, entry);
}

/**
 * hydra_free_table - a canonical table is being freed
 * @tlb: the gather it goes through
 * @ptdesc: the table
 * @ptl: lock of a leaf table, NULL for a table above
 * @addr: an address that the table mapped, if it is a leaf table
 */
static inline void hydra_free_table(struct mmu_gather *tlb,
				    struct ptdesc *ptdesc, spinlock_t *ptl,
				    unsigned long addr)
{
	if (hydra_mm(tlb->mm))
		__hydra_free_table(tlb, ptdesc, ptl, addr);
}

/**
 * hydra_remove_table - free a canonical table after a grace period
 * @tlb: the gather it goes through
 * @page: the table
 *
 * See hydra_gather_flushed().
 *
 * Return: false if it is Linux's to do.
 */
static inline bool hydra_remove_table(struct mmu_gather *tlb, struct page *page)
{
	if (!hydra_mm(tlb->mm))
		return false;
	hydra_gather_table(tlb, page_ptdesc(page));
	return true;
}

#else /* !CONFIG_HYDRA_MM */

static inline bool hydra_tlb_flush(struct mmu_gather *tlb, unsigned long start,
				   unsigned long end, unsigned int stride_shift)
{
	return false;
}

static inline void hydra_remove_huge(struct mmu_gather *tlb, const void *entry,
				     unsigned long addr)
{
}

static inline void hydra_free_table(struct mmu_gather *tlb,
				    struct ptdesc *ptdesc, spinlock_t *ptl,
				    unsigned long addr)
{
}

static inline bool hydra_remove_table(struct mmu_gather *tlb, struct page *page)
{
	return false;
}

#endif /* CONFIG_HYDRA_MM */
#endif /* _ASM_X86_HYDRA_TLB_H */
