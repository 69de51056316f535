/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra on x86: what arch/x86/mm/tlb.c and its neighbours need.
 */
#ifndef _ASM_X86_HYDRA_H
#define _ASM_X86_HYDRA_H

#include <linux/hydra.h>
#include <asm/tlbflush.h>

#ifdef CONFIG_HYDRA_MM

/**
 * struct hydra_flush - one flush of an address space, as its domains see it
 * @h: address space
 * @targets: domains to reach
 * @interrupted: CPUs sent an interrupt, the sender left out
 * @info: by domain in @targets, and for the sender's own: the flush with that
 *	domain's generation
 *
 * Per CPU, used with preemption off like the flush_tlb_info it goes with.
 */
struct hydra_flush {
	struct hydra_mm *h;
	u64 targets;
	unsigned int interrupted;
	struct flush_tlb_info info[HYDRA_MAX_DOMAINS];
};

void __hydra_flush_start(struct flush_tlb_info *info, u64 targets);
void __hydra_flush_end(struct flush_tlb_info *info);
bool __hydra_flush_remote(const struct flush_tlb_info *info, int cpu);

/* Make a flush one of domains if its address space has them. */
static inline void hydra_flush_start(struct flush_tlb_info *info, u64 targets)
{
	if (static_branch_unlikely(&hydra_key.key))
		__hydra_flush_start(info, targets);
}

/* Is it one? */
static inline bool hydra_flushes(const struct flush_tlb_info *info)
{
	return static_branch_unlikely(&hydra_key.key) && info->hydra;
}

static inline void hydra_flush_end(struct flush_tlb_info *info)
{
	if (hydra_flushes(info))
		__hydra_flush_end(info);
}

/* Is there any CPU but @cpu to tell? */
static inline bool hydra_flush_remote(const struct flush_tlb_info *info, int cpu)
{
	if (hydra_flushes(info))
		return __hydra_flush_remote(info, cpu);
	return cpumask_any_but(mm_cpumask(info->mm), cpu) < nr_cpu_ids;
}

/* The flush as this CPU is to do it. */
static inline const struct flush_tlb_info *hydra_this_flush(const void *info)
{
	const struct flush_tlb_info *f = info;

	return hydra_flushes(f) ? &f->hydra->info[this_cpu_read(hydra_cpu_domain)] : f;
}

static inline void hydra_note_loaded(pgd_t *root)
{
	if (static_branch_unlikely(&hydra_key.key))
		this_cpu_write(cpu_tlbstate.loaded_root, root);
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
	return hydra_mm(mm) ? this_cpu_read(cpu_tlbstate.loaded_root) : mm->pgd;
}

void flush_tlb_mm_targets(struct mm_struct *mm, unsigned long start,
			  unsigned long end, unsigned int stride_shift,
			  bool freed_tables, u64 targets);
void flush_tlb_domain_tables(struct mm_struct *mm, unsigned long start,
			     unsigned long end, u64 targets);
void hydra_switch_root(void *mm);

struct arch_tlbflush_unmap_batch;
bool hydra_tlbbatch_add(struct arch_tlbflush_unmap_batch *batch,
			struct mm_struct *mm, unsigned long addr);

void hydra_sync_ldt(struct mm_struct *mm);
void hydra_clear_ldt(struct mm_struct *mm);

#else /* !CONFIG_HYDRA_MM */

/* There are no targets then. */
#define hydra_flush_start(info, targets)	do { } while (0)
#define hydra_flush_remote(info, cpu) \
	(cpumask_any_but(mm_cpumask((info)->mm), cpu) < nr_cpu_ids)
#define hydra_this_flush(info)			(info)
#define hydra_loaded_pgd(mm)			((mm)->pgd)

static inline void hydra_flush_end(struct flush_tlb_info *info)
{
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
