/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra on x86: what arch/x86/mm/tlb.c and its neighbours need.
 */
#ifndef _ASM_X86_HYDRA_H
#define _ASM_X86_HYDRA_H

#include <linux/hydra.h>
#include <asm/tlbflush.h>

#ifdef CONFIG_HYDRA_MM

/* Of arch/x86/mm/tlb.c, for arch/x86/mm/hydra.c */
#define hydra_static
extern unsigned long tlb_single_page_flush_ceiling;
void flush_tlb_func(void *info);
bool should_flush_tlb(int cpu, void *data);
bool should_trim_cpumask(struct mm_struct *mm);
void load_new_mm_cr3(pgd_t *pgdir, u16 new_asid, unsigned long lam,
		     bool need_flush);

DECLARE_PER_CPU(pgd_t *, hydra_loaded_root);

bool __hydra_flush(struct hydra_mm *h, unsigned long start, unsigned long end,
		   unsigned int stride_shift, bool freed_tables,
		   const hydra_mask_t *targets);
u64 hydra_flush_raised(struct mm_struct *mm, unsigned long start,
		       unsigned long end, unsigned int stride_shift,
		       bool freed_tables, u64 new_tlb_gen);

/**
 * hydra_flush - do a flush if its address space has domains
 * @mm: the address space
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 * @freed_tables: tables of the range are being freed
 *
 * Context: preemption disabled; the entries have been changed.
 * Return: false if it is Linux's to do.
 */
static inline bool hydra_flush(struct mm_struct *mm, unsigned long start,
			       unsigned long end, unsigned int stride_shift,
			       bool freed_tables)
{
	struct hydra_mm *h = hydra_active(mm);

	return h && __hydra_flush(h, start, end, stride_shift, freed_tables, NULL);
}

static inline void hydra_note_loaded(pgd_t *root)
{
	this_cpu_write(hydra_loaded_root, root);
}

/**
 * hydra_loaded_pgd - the root that CR3 holds for the loaded address space
 * @mm: cpu_tlbstate.loaded_mm
 *
 * What hydra_pgd() answers may have changed since it was loaded.
 *
 * Context: preemption disabled.
 */
static inline pgd_t *hydra_loaded_pgd(const struct mm_struct *mm)
{
	return hydra_mm(mm) ? this_cpu_read(hydra_loaded_root) : mm->pgd;
}

void hydra_flush_domains(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *domains);
void hydra_gather_flush(struct mm_struct *mm, struct hydra_gather *g,
			unsigned long start, unsigned long end,
			unsigned int stride_shift, bool freed_tables);

struct arch_tlbflush_unmap_batch;
bool hydra_tlbbatch_add(struct arch_tlbflush_unmap_batch *batch,
			struct mm_struct *mm, unsigned long addr);

void hydra_sync_ldt(struct mm_struct *mm);
void hydra_clear_ldt(struct mm_struct *mm);

#else /* !CONFIG_HYDRA_MM */

#define hydra_static		static
#define hydra_loaded_pgd(mm)	((mm)->pgd)

static inline bool hydra_flush(struct mm_struct *mm, unsigned long start,
			       unsigned long end, unsigned int stride_shift,
			       bool freed_tables)
{
	return false;
}

static inline u64 hydra_flush_raised(struct mm_struct *mm, unsigned long start,
				     unsigned long end,
				     unsigned int stride_shift,
				     bool freed_tables, u64 new_tlb_gen)
{
	return new_tlb_gen;
}

static inline void hydra_note_loaded(pgd_t *root)
{
}

static inline void hydra_sync_ldt(struct mm_struct *mm)
{
}

static inline void hydra_clear_ldt(struct mm_struct *mm)
{
}

#endif /* CONFIG_HYDRA_MM */
#endif /* _ASM_X86_HYDRA_H */
