// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes: what Linux's flush of a range, of a gather, and of reclaim's batches does in an
 * address space that is split, or counted; and if a gather has tables of such a time to free.
 *
 * Each looks for its targets (sharers.c), and delivers the flush (tlb.c).
 */

#include <linux/mm.h>
#include <linux/mmu_notifier.h>

#include <asm/hydra.h>
#include <asm/tlb.h>
#include <asm/tlbbatch.h>

#include "domain.h"
#include "marks.h"
#include "pending.h"
#include "sharers.h"
#include "state.h"
#include "tlb.h"

/* May the flush take marks? One that steps over huge pages leaves small pages. */
static enum hydra_look hydra_look(unsigned int stride_shift)
{
	return stride_shift > PAGE_SHIFT ? HYDRA_BY_TABLE : HYDRA_TAKE_MARKS;
}

/* Flush a range for the domains that share its tables. Context: preemption off. */
static void hydra_flush_range(struct hydra_mm *h, unsigned long start,
			      unsigned long end, unsigned int stride_shift,
			      bool freed_tables)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);

	f->all = !READ_ONCE(h->active) ||
		 !hydra_range_targets(h, start, end, hydra_look(stride_shift), &f->targets);
	if (f->all)
		hydra_mask_zero(&f->targets);
	hydra_flush_what(f, start, end, stride_shift, freed_tables);
	hydra_flush_targets(h, f);
	hydra_unpublish();
}

/**
 * hydra_flush_mm - flush_tlb_mm_range() of an address space with a struct hydra_mm
 * @mm: the address space; it may be plain Linux again
 * @start: first address
 * @end: end of the range, exclusive, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 * @freed_tables: tables of the range are being freed
 *
 * Context: as flush_tlb_mm_range(): interrupts on, the entries have been changed.
 */
void hydra_flush_mm(struct mm_struct *mm, unsigned long start, unsigned long end,
		    unsigned int stride_shift, bool freed_tables)
{
	preempt_disable();
	hydra_flush_range(READ_ONCE(mm->hydra), start, end, stride_shift, freed_tables);
	preempt_enable();
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
}

/*
 * Warn of a gather that has changed entries of other places than it has announced. A table that is
 * freed adds the first address that it may map.
 */
static void hydra_assert_announced(const struct mmu_gather *tlb, unsigned long start,
				   unsigned long end)
{
	VM_WARN_ON_ONCE(end != TLB_FLUSH_ALL && !tlb->freed_tables &&
			!hydra_keeps_to_places(&tlb->hydra, start, end));
}

/**
 * hydra_gather_flush - flush for a gather, and free its tables
 * @tlb: the gather; its address space has been split at some time
 * @start: first address
 * @end: end of the range, exclusive, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 *
 * Linux flushes for an address space that is plain Linux again, unless the gather has tables to
 * free. If it is split after this test, flush_tlb_mm_range() leaves the flush to hydra_flush_mm(),
 * which does not know what the gather has recorded. It need not: what the gather has cleared went
 * before the split, or before an earlier return. No CPU takes it into a domain tree, or keeps it
 * when it loads the root of one.
 *
 * Context: as flush_tlb_mm_range().
 */
void hydra_gather_flush(struct mmu_gather *tlb, unsigned long start,
			unsigned long end, unsigned int stride_shift)
{
	struct hydra_mm *h = READ_ONCE(tlb->mm->hydra);
	struct hydra_gather *g = &tlb->hydra;
	bool frees = g->recording && g->freed;
	hydra_mask_t targets;
	struct hydra_flush *f;
	bool all;

	hydra_assert_announced(tlb, start, end);
	if (!hydra_takes_flush(tlb->mm) && !frees) {
		flush_tlb_mm_range(tlb->mm, start, end, stride_shift, tlb->freed_tables);
		return;
	}
	hydra_mask_zero(&targets);
	/*
	 * Preemptible, unless marks are taken: a gather that overlaps with another may
	 * look up many tables.
	 */
	all = !READ_ONCE(h->active) ||
	      !hydra_gather_targets(tlb, start, end, hydra_look(stride_shift), &targets);
	preempt_disable();
	f = this_cpu_ptr(&hydra_flush_state);
	f->targets = targets;
	f->all = all;
	hydra_flush_what(f, start, end, stride_shift, tlb->freed_tables);
	hydra_flush_targets(h, f);
	hydra_unpublish();
	preempt_enable();
	if (g->recording && g->barrier && READ_ONCE(h->active))
		hydra_stat_add(h, HYDRA_STAT_BARRIERS, 1);
	mmu_notifier_arch_invalidate_secondary_tlbs(tlb->mm, start, end);
	if (frees)
		hydra_gather_flushed(g);
}

/* Count an entry for the domains that the flush of its batch reaches. */
static void hydra_count_batched(struct hydra_mm *h, const struct hydra_flush *f)
{
	unsigned int d;

	if (f->all) {
		atomic64_inc(&h->batches.added);
		return;
	}
	for_each_hydra_domain(d, &f->targets) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);

		atomic64_inc(dom ? &dom->batches.added : &h->batches.added);
	}
}

/**
 * hydra_tlbbatch_add - reclaim has cleared an entry and flushes later
 * @batch: the CPUs to interrupt are added to it
 * @mm: address space of the entry
 * @addr: its address
 *
 * Context: lock of the entry's table; the entry is cleared.
 * Return: false if the address space is not active.
 */
bool hydra_tlbbatch_add(struct arch_tlbflush_unmap_batch *batch,
			struct mm_struct *mm, unsigned long addr)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);
	struct hydra_mm *h = mm_hydra(mm);

	lockdep_assert_preemption_disabled();
	if (!h)
		return false;
	/*
	 * The batch flushes later and publishes nothing. If this cleared the mark,
	 * another CPU's flush of the entry would find neither a mark nor a published
	 * flush, and spare the domain.
	 */
	f->all = !hydra_range_targets(h, addr, addr + PAGE_SIZE, HYDRA_LOOK_AT_MARKS,
				      &f->targets);
	if (!hydra_raise_targets(h, f))
		return false;
	hydra_count_batched(h, f);
	if (f->all) {
		cpumask_or(&batch->cpumask, &batch->cpumask, mm_cpumask(mm));
	} else {
		hydra_pick_targets(h, f);
		cpumask_or(&batch->cpumask, &batch->cpumask, &f->cpus);
		hydra_unpick_targets(h, f);
	}
	/* IOMMUs walk the canonical tree: flush them as Linux does. */
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
	return true;
}

/* Return: how many entries were added, or 0 if all of them have been flushed. */
static s64 hydra_batches_due(struct hydra_batches *b)
{
	s64 added = atomic64_read(&b->added);

	return added != atomic64_read(&b->flushed) ? added : 0;
}

/* The first @added entries have been flushed. */
static void hydra_batches_flushed(struct hydra_batches *b, s64 added)
{
	s64 flushed = atomic64_read(&b->flushed);

	while (flushed < added && !atomic64_try_cmpxchg(&b->flushed, &flushed, added))
		;
}

/* Count a flush that Linux would make for all CPUs, and that has no CPU to reach here. */
static void hydra_flush_nothing(struct hydra_mm *h, struct hydra_flush *f)
{
	f->info.start = 0;
	f->info.end = TLB_FLUSH_ALL;
	f->info.freed_tables = false;
	f->interrupted = 0;
	f->across = 0;
	hydra_mask_zero(&f->targets);
	hydra_flush_counted(h, f, hydra_count_spared(h, f));
}

/**
 * hydra_flush_batched - flush_tlb_batched_pending() of an address space with a hydra_mm
 * @mm: the address space; it may be plain Linux again
 *
 * The caller is about to change the entries of a table. Reclaim may have cleared some
 * of them, with a flush still to come. So flush the domains that batches reach, if a
 * batch has grown since the last such flush. The counts are safe to read: a batch grows
 * under the lock of the table, which the caller holds. Entries added meanwhile, under
 * other locks, stay counted.
 *
 * An address space that is split counts one entry for all domains, see hydra_activate():
 * as long as it was plain Linux, nothing was counted here.
 *
 * IOMMUs and their like were flushed by hydra_tlbbatch_add().
 *
 * Context: the lock of a table.
 */
void hydra_flush_batched(struct mm_struct *mm)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	hydra_mask_t domains, due;
	unsigned int d;
	s64 all;

	lockdep_assert_preemption_disabled();
	/* active before the counts; pairs with the release in hydra_activate(). */
	if (!smp_load_acquire(&h->active)) {
		flush_tlb_mm(mm);
		return;
	}
	hydra_mask_zero(&domains);
	hydra_mask_add(&domains, &h->trees);
	hydra_mask_add(&domains, &h->universal);
	hydra_mask_zero(&due);
	for_each_hydra_domain(d, &domains) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);

		f->batched[d] = dom ? hydra_batches_due(&dom->batches) : 0;
		if (f->batched[d])
			hydra_mask_set(d, &due);
	}
	all = hydra_batches_due(&h->batches);
	if (!all && hydra_mask_empty(&due)) {
		hydra_flush_nothing(h, f);
		return;
	}
	f->targets = due;
	f->all = all;
	hydra_flush_what(f, 0, TLB_FLUSH_ALL, PAGE_SHIFT, false);
	hydra_flush_targets(h, f);
	for_each_hydra_domain(d, &due)
		hydra_batches_flushed(&h->domain[d]->batches, f->batched[d]);
	if (all)
		hydra_batches_flushed(&h->batches, all);
}
