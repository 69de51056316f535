/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra on x86: what arch/x86/mm/tlb.c and its neighbours need.
 */
#ifndef _ASM_X86_HYDRA_H
#define _ASM_X86_HYDRA_H

#include <linux/hydra.h>

struct arch_tlbflush_unmap_batch;
struct mmu_gather;
struct task_struct;

#ifdef CONFIG_HYDRA_MM

/* arch/x86/mm/hydra/roots.c */
void hydra_load_root(void *data);
void hydra_sync_ldt(struct mm_struct *mm);
void hydra_clear_ldt(struct mm_struct *mm);

/* arch/x86/mm/hydra/replica.c */
struct page *hydra_pte_alloc_one(gfp_t gfp);

/* arch/x86/mm/hydra/switch.c */
struct hydra_domain *__hydra_switching(struct mm_struct *next,
				       struct task_struct *tsk);

/* arch/x86/mm/hydra/idle.c */
DECLARE_PER_CPU(u32, hydra_switch_second);
void __hydra_context_flushed(u16 asid);

/* arch/x86/mm/hydra/flush.c; the root is of roots.c */
DECLARE_PER_CPU(pgd_t *, hydra_loaded_root);
void hydra_flush_mm(struct mm_struct *mm, unsigned long start, unsigned long end,
		    unsigned int stride_shift, bool freed_tables);
void hydra_gather_flush(struct mmu_gather *tlb, unsigned long start,
			unsigned long end, unsigned int stride_shift);
void hydra_flush_batched(struct mm_struct *mm);
bool hydra_tlbbatch_add(struct arch_tlbflush_unmap_batch *batch,
			struct mm_struct *mm, unsigned long addr);

/**
 * hydra_pgd - the root this CPU loads for an address space
 * @mm: the address space
 *
 * Context: preemption disabled.
 * Return: the root of the domain's tree if the domain uses it, or the canonical
 * root.
 */
static inline pgd_t *hydra_pgd(const struct mm_struct *mm)
{
	struct hydra_mm *h = mm_hydra(mm);
	struct hydra_domain *dom;

	if (!h)
		return mm->pgd;
	dom = READ_ONCE(h->domain[hydra_this_domain(h)]);
	return dom ? READ_ONCE(dom->root) : mm->pgd;
}

/**
 * hydra_tlb_gen - the flush generation that this CPU compares its own with
 * @mm: the address space
 *
 * Context: preemption disabled.
 * Return: the domain's generation if the domain has had a tree and the address
 * space is active, or mm->context.tlb_gen.
 */
static inline u64 hydra_tlb_gen(struct mm_struct *mm)
{
	struct hydra_mm *h = mm_hydra(mm);
	struct hydra_domain *dom;

	if (h) {
		dom = READ_ONCE(h->domain[hydra_this_domain(h)]);
		if (dom)
			return atomic64_read(&dom->tlb_gen);
	}
	return atomic64_read(&mm->context.tlb_gen);
}

/**
 * hydra_catch_up - the generation that this CPU's flush catches up with
 * @mm: cpu_tlbstate.loaded_mm
 *
 * A CPU may note a generation only if what the CPU holds is of a root that the CPU has
 * read after the generation. Another CPU may have changed the root since this CPU has
 * loaded it: see hydra_switch_roots(). Then this CPU loads the new root before it flushes.
 * (The load flushes, too. The second flush is needless, and rare.)
 *
 * Context: flush_tlb_func(): interrupts off.
 * Return: the generation.
 */
static inline u64 hydra_catch_up(struct mm_struct *mm)
{
	u64 gen;

	if (!mm_has_hydra(mm))
		return atomic64_read(&mm->context.tlb_gen);
	gen = hydra_tlb_gen(mm);
	/* The generation before the root; pairs with hydra_switch_roots(). */
	smp_rmb();
	if (unlikely(this_cpu_read(hydra_loaded_root) != hydra_pgd(mm)))
		hydra_load_root(mm);
	return gen;
}

/**
 * hydra_switching - this CPU is about to run an address space
 * @next: the address space; the CPU is in its mm_cpumask()
 * @tsk: the task that will use it, or NULL
 * @root: set to the root that the CPU has to load
 *
 * hydra_cpu_last is the value for domains of scope node. All other values call
 * __hydra_switching(): for an active address space, whose value is HYDRA_LAST_SPLIT,
 * and for domains of another scope.
 *
 * Context: switch_mm_irqs_off(): interrupts off, a full barrier since the CPU is in
 * mm_cpumask().
 * Return: the flush generation that the CPU has to catch up with.
 */
static inline u64 hydra_switching(struct mm_struct *next,
				  struct task_struct *tsk, pgd_t **root)
{
	struct hydra_domain *dom;
	u64 gen;
	u32 last;

	if (static_branch_unlikely(&hydra_watch_key)) {
		last = READ_ONCE(next->hydra_last);
		if (last != this_cpu_read(hydra_cpu_last) && unlikely(last)) {
			dom = __hydra_switching(next, tsk);
			if (dom) {
				gen = atomic64_read(&dom->tlb_gen);
				/* Pairs with hydra_switch_roots(). */
				smp_rmb();
				*root = READ_ONCE(dom->root);
				return gen;
			}
		}
	}
	*root = next->pgd;
	return atomic64_read(&next->context.tlb_gen);
}

/**
 * hydra_tlbbatch_add_pending - reclaim has cleared an entry and flushes later
 * @batch: the CPUs that the flush has to reach are added
 * @mm: address space of the entry
 * @uaddr: address that the entry mapped
 *
 * Context: the lock of the entry's table.
 * Return: false if Linux has to add the CPUs.
 */
static inline bool hydra_tlbbatch_add_pending(struct arch_tlbflush_unmap_batch *batch,
					      struct mm_struct *mm, unsigned long uaddr)
{
	return static_branch_unlikely(&hydra_key.key) &&
	       hydra_tlbbatch_add(batch, mm, uaddr);
}

/**
 * hydra_flush_batched_pending - flush for the batches that have not been flushed
 * @mm: address space
 *
 * Context: the lock of a table.
 * Return: false if Linux has to flush.
 */
static inline bool hydra_flush_batched_pending(struct mm_struct *mm)
{
	if (!mm_has_hydra(mm))
		return false;
	hydra_flush_batched(mm);
	return true;
}

/**
 * hydra_set_loaded_pgd - this CPU has loaded a root into CR3
 * @root: the root
 *
 * Context: interrupts off.
 */
static inline void hydra_set_loaded_pgd(pgd_t *root)
{
	this_cpu_write(hydra_loaded_root, root);
}

/**
 * hydra_context_flushed - this CPU has flushed a context, and loaded it
 * @asid: the context
 *
 * Context: switch_mm_irqs_off(), after hydra_switching(): interrupts off.
 */
static inline void hydra_context_flushed(u16 asid)
{
	if (static_branch_unlikely(&hydra_key.key) && this_cpu_read(hydra_switch_second))
		__hydra_context_flushed(asid);
}

/**
 * hydra_loaded_pgd - the root that CR3 holds for the loaded address space
 * @mm: cpu_tlbstate.loaded_mm
 *
 * hydra_pgd() may have changed since the CPU loaded the root.
 *
 * Context: preemption disabled.
 * Return: the root.
 */
static inline pgd_t *hydra_loaded_pgd(const struct mm_struct *mm)
{
	return mm_has_hydra(mm) ? this_cpu_read(hydra_loaded_root) : mm->pgd;
}

#else /* !CONFIG_HYDRA_MM */

#define hydra_catch_up(mm)		atomic64_read(&(mm)->context.tlb_gen)
#define hydra_loaded_pgd(mm)		((mm)->pgd)

static inline struct page *hydra_pte_alloc_one(gfp_t gfp) { return NULL; }
static inline void hydra_set_loaded_pgd(pgd_t *root) { }
static inline void hydra_context_flushed(u16 asid) { }
static inline void hydra_sync_ldt(struct mm_struct *mm) { }
static inline void hydra_clear_ldt(struct mm_struct *mm) { }
static inline u64 hydra_switching(struct mm_struct *next, struct task_struct *tsk,
				  pgd_t **root)
{
	*root = next->pgd;
	return atomic64_read(&next->context.tlb_gen);
}
static inline void hydra_flush_mm(struct mm_struct *mm, unsigned long start,
				  unsigned long end, unsigned int stride_shift,
				  bool freed_tables) { }
static inline bool hydra_tlbbatch_add_pending(struct arch_tlbflush_unmap_batch *batch,
					      struct mm_struct *mm,
					      unsigned long uaddr) { return false; }
static inline bool hydra_flush_batched_pending(struct mm_struct *mm) { return false; }

#endif /* CONFIG_HYDRA_MM */
#endif /* _ASM_X86_HYDRA_H */
