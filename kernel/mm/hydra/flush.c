// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shootdown filter: which domains a TLB flush has to reach.
 *
 * Two ways to know:
 *
 *  - A flush of a range, outside a gather, looks up the sharers of the tables
 *    that the canonical tree has in the range. No lock: flushes happen under
 *    page-table locks. Why what it finds is enough: the caller changed the
 *    entries under the lock of their table. A domain that joined the table
 *    before is in its sharers by then; one that joins later takes that lock, and
 *    copies or links what the caller left. And if a table has gone since, either
 *    whoever took it out has flushed it (munmap and exit come only after the
 *    entries' users have been locked out), or a collapse is at it, and then
 *    hydra_mm::unfiltered is raised until its flush is done: see the order of
 *    reads below.
 *
 *  - A gather does not look up anything. Every hook that changes an entry, or
 *    frees a table, while gathers are at work notes the sharers of the table in
 *    hydra_mm::pending, and each of them flushes that whole set. Thus gathers
 *    that overlap flush for one another, which tlb_finish_mmu() asks for, at the
 *    price of the union of their sharers and not of everybody.
 *
 * Domains leave neither sharers nor pending sets while a flush may need them:
 * sharers stay for the life of the table, or until they have been flushed under
 * its lock (see reclaim.c), pending for that of the gathers.
 *
 * A domain that is not targeted is left alone in full: its generation does not
 * move, so its CPUs have nothing to catch up with, then or later.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pgtable.h>

#include "internal.h"

/* A range of more than this has more tables than are worth a look: 1 GiB. */
#define LOOKUP_MAX	PUD_SIZE

static u64 unfiltered(struct hydra_mm *h)
{
	if (hydra_filter_setting(READ_ONCE(h->settings)) == HYDRA_FILTER_NONE ||
	    (atomic_read(&h->unfiltered) && !hydra_breaks(HYDRA_BREAK_FILTER_ALWAYS)))
		return HYDRA_EVERYBODY;
	return atomic64_read(&h->universal);
}

static u64 sharers_of(const void *entry)
{
	struct hydra_table *t = hydra_table_of(entry);

	return t ? READ_ONCE(t->sharers) : 0;
}

/*
 * Sharers of one PMD table's part of a range: of the leaf tables on it, and
 * where there is none, of the huge page that is there or may just have been.
 * A gather may have taken a huge page away that is not flushed yet, and a fault
 * have put a table there: that flush is the gather's. (On stock Linux a flush of
 * the range would do for both. Only wp_clean_post_vma() relies on that, which
 * no driver calls for huge pages.)
 */
static u64 pmd_sharers(pud_t pudval, unsigned long addr, unsigned long end,
		       bool huge)
{
	pmd_t *pmd = pmd_offset(&pudval, addr);
	u64 mask = 0;

	for (; addr < end; addr = pmd_addr_end(addr, end), pmd++) {
		pteval_t val = pmd_val(pmdp_get_lockless(pmd));

		if (hydra_present(val) && !hydra_leaf(val))
			mask |= sharers_of(hydra_next_table(val));
		else if (huge)
			mask |= sharers_of(pmd);
	}
	return mask;
}

/**
 * hydra_range_sharers - the domains that share the tables of a range
 * @h: address space
 * @start: first address
 * @end: address after the last one
 * @huge: include who shares huge pages
 *
 * Context: any.
 * Return: mask of domains, as far as the canonical tree has tables now.
 */
u64 hydra_range_sharers(struct hydra_mm *h, unsigned long start,
			unsigned long end, bool huge)
{
	unsigned long addr, next, flags;
	u64 mask = 0;

	/* Interrupts off: tables cannot be freed, as for GUP-fast. */
	local_irq_save(flags);
	for (addr = start; addr < end; addr = next) {
		pgd_t *pgd = pgd_offset(h->mm, addr);
		p4d_t *p4d, p4dval;
		pud_t *pud, pudval;

		next = pud_addr_end(addr, end);
		if (pgd_none(READ_ONCE(*pgd)))
			continue;
		p4d = p4d_offset(pgd, addr);
		p4dval = READ_ONCE(*p4d);
		if (!hydra_present(p4d_val(p4dval)))
			continue;
		pud = pud_offset(&p4dval, addr);
		pudval = READ_ONCE(*pud);
		if (hydra_present(pud_val(pudval)) && !hydra_leaf(pud_val(pudval)))
			mask |= pmd_sharers(pudval, addr, next, huge);
		else if (huge)
			mask |= sharers_of(pud);
	}
	local_irq_restore(flags);
	return mask;
}

/**
 * __hydra_range_targets - the domains that a flush of a range has to reach
 * @h: address space, active
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 *
 * Context: see hydra_range_targets().
 * Return: mask of domains.
 */
u64 __hydra_range_targets(struct hydra_mm *h, unsigned long start,
			  unsigned long end)
{
	u64 mask;

	/* Of a huge entry: time for others to believe what they see. */
	if ((hydra_breaks(HYDRA_BREAK_SLOW_FLUSH) ||
	     hydra_breaks(HYDRA_BREAK_SKIP_WAIT)) && end - start == PMD_SIZE)
		mdelay(50);
	if (unfiltered(h) == HYDRA_EVERYBODY || end == TLB_FLUSH_ALL ||
	    end <= start || end - start > LOOKUP_MAX || start >= TASK_SIZE_MAX)
		return HYDRA_EVERYBODY;
	mask = hydra_range_sharers(h, start, end, true);
	/*
	 * If a table was missing because a collapse took it out, the collapse
	 * had raised unfiltered before it cleared the entry. Then it is still
	 * raised here, or the collapse has finished its flush.
	 */
	smp_rmb();
	return mask | unfiltered(h);
}

/**
 * hydra_gather_targets - the domains that the flush of a gather has to reach
 * @h: address space, active; the gather was counted by hydra_gather_begin()
 *
 * Context: any.
 * Return: mask of domains.
 */
u64 hydra_gather_targets(struct hydra_mm *h)
{
	return atomic64_read(&h->pending) | unfiltered(h);
}

/**
 * __hydra_gather_begin - a gather begins
 * @h: address space
 * @fullmm: it is to take everything down, kernel half too: the sharers that
 *	hooks note are not all there is
 *
 * Before the gather itself is pending for Linux: see below.
 *
 * Context: process context; the lock of a page table may be held.
 */
void __hydra_gather_begin(struct hydra_mm *h, bool fullmm)
{
	bool first;

	spin_lock(&h->gather_lock);
	/*
	 * Under the lock: else the next gather could begin, and note its
	 * first change, between the count and the reset.
	 */
	first = !h->gathers;
	if (first || hydra_breaks(HYDRA_BREAK_DROP_NOTES))
		atomic64_set(&h->pending, 0);
	WRITE_ONCE(h->gathers, h->gathers + 1);
	/*
	 * Somebody else whose flush is pending, a gather that began before the
	 * address space had notes or no gather at all, may have left none, and
	 * this one may have to flush for it. Those who begin after this look
	 * find the count, and leave some: pairs with inc_tlb_flush_pending(),
	 * an atomic and so a full barrier on x86, before note_change().
	 *
	 * Who is counted is so for longer than his flush is pending. So if the
	 * count was zero, whoever is pending is not counted.
	 */
	smp_mb();
	if (fullmm || (first && mm_tlb_flush_pending(h->mm)) ||
	    (!first && hydra_breaks(HYDRA_BREAK_DISTRUST_GATHERS)))
		atomic64_set(&h->pending, HYDRA_EVERYBODY);
	spin_unlock(&h->gather_lock);
}

/**
 * __hydra_gather_end - a gather is not pending any more
 * @h: address space
 *
 * Context: process context; the lock of a page table may be held.
 */
void __hydra_gather_end(struct hydra_mm *h)
{
	spin_lock(&h->gather_lock);
	WARN_ON_ONCE(!h->gathers);
	WRITE_ONCE(h->gathers, h->gathers - 1);
	spin_unlock(&h->gather_lock);
}

/**
 * __hydra_pmd_gone - wait for whoever has cleared an entry
 * @mm: the address space
 * @pmd: the entry
 *
 * On stock Linux a flush of a range around the entry, or of so much that all
 * is flushed, reaches all who may have it in their TLB, whoever cleared it.
 * Here it reaches those whom somebody has noted, and it is noted for gathers
 * alone. Who clears a huge entry without a gather flushes before it drops the
 * lock (move_pages_huge_pmd() and __discard_anon_folio_pmd_locked(), for two),
 * so that is waited for. Some of them put the entry back, and then it is not
 * gone.
 *
 * Context: see hydra_pmd_gone().
 * Return: see hydra_pmd_gone().
 */
bool __hydra_pmd_gone(struct mm_struct *mm, pmd_t *pmd)
{
	spinlock_t *lock;
	bool gone;

	if (hydra_breaks(HYDRA_BREAK_SKIP_WAIT))
		return true;
	lock = pmd_lock(mm, pmd);
	gone = pmd_none(*pmd);
	spin_unlock(lock);
	return gone;
}

/**
 * __hydra_pud_gone - the same for an entry that maps device memory
 * @mm: the address space
 * @pud: the entry
 *
 * It is taken away without a gather by __split_huge_pud(), which does not put
 * it back.
 *
 * Context: see hydra_pmd_gone().
 */
void __hydra_pud_gone(struct mm_struct *mm, pud_t *pud)
{
	spin_unlock(pud_lock(mm, pud));
}

/**
 * __hydra_collapse_cut - cut every domain's link to a table that has left
 * @h: address space
 * @pmd: what its canonical entry held
 *
 * Context: see hydra_collapse_begin(). Preemption is off until the caller has
 * flushed, so no grace period ends before.
 */
void __hydra_collapse_cut(struct hydra_mm *h, pmd_t pmd)
{
	struct hydra_table *t;
	pteval_t *canonical;
	unsigned int d;

	if (!hydra_present(pmd_val(pmd)) || hydra_leaf(pmd_val(pmd)))
		return;
	/* A fill that saw the entry before it was cleared: see join(). */
	for (d = 0; d < hydra_nr_domains; d++) {
		spin_lock(&h->domain[d].lock);
		spin_unlock(&h->domain[d].lock);
	}
	canonical = hydra_next_table(pmd_val(pmd));
	t = hydra_table_detach(virt_to_ptdesc(canonical));
	if (t)
		hydra_table_release(t, canonical);
}
