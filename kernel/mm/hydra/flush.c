// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shootdown filter: which domains a TLB flush has to reach.
 *
 * A flush looks up the sharers of the tables that the canonical tree has in
 * the range. No lock: flushes happen under page-table locks. Why what it finds is
 * enough: the caller changed the entries under the lock of their table. A domain
 * that joined the table before is in its sharers by then; one that joins later
 * takes that lock, and copies or links what the caller left. And if a table has
 * gone since, or its place was taken by another, then
 *
 *  - the gather that flushes has freed it, or has taken or changed the huge page
 *    that was in its place, and remembers the sharers (hydra_gather::users);
 *  - or another gather has freed it: only after whoever may look at the range
 *    has been locked out (munmap and exit);
 *  - or a collapse is at it: then hydra_mm::unfiltered is raised until its flush
 *    is done, see the order of reads below;
 *  - or mremap() has moved the table: it has flushed for the sharers, and no other
 *    CPU has looked at the range meanwhile (see __hydra_move_table()).
 *
 * Gathers that overlap flush for one another, which tlb_finish_mmu() asks for:
 * one finds an entry gone that another has taken and not flushed yet. Then it
 * flushes for the sharers of all that it has looked at, not only of what it has
 * taken itself.
 *
 * Domains do not leave the sharers while a flush may need them: they stay for
 * the life of the table, or until they have been flushed under its lock (see
 * reclaim.c).
 *
 * A domain that is not targeted is left alone in full: its generation does not
 * move, so its CPUs have nothing to catch up with, then or later.
 */

#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pgtable.h>

#include <asm/hydra.h>

#include "internal.h"

/*
 * A range of more than this has more tables than are worth a look: 1 GiB, or 16
 * if a gather has looked at them all already.
 */
#define LOOKUP_MAX		PUD_SIZE
#define GATHER_LOOKUP_MAX	(16 * PUD_SIZE)

/* Does every flush of an address space go to every domain now? */
static bool unfiltered(struct hydra_mm *h)
{
	return hydra_filter_setting(hydra_get(h->mm)) == HYDRA_FILTER_NONE ||
	       (atomic_read(&h->unfiltered) &&
		!hydra_breaks(HYDRA_BREAK_FILTER_ALWAYS));
}

static void add_sharers_of(const void *entry, hydra_mask_t *mask)
{
	unsigned long word = hydra_word_of(entry);
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		hydra_mask_add(mask, &t->sharers);
	else if (hydra_word_solo(word))
		hydra_mask_set(hydra_word_domain(word), mask);
}

/*
 * Sharers of one PMD table's part of a range: of the leaf tables on it, and of
 * huge pages as asked.
 */
static void add_pmd_sharers(pud_t pudval, unsigned long addr, unsigned long end,
			    enum hydra_huge huge, hydra_mask_t *mask)
{
	pmd_t *pmd = pmd_offset(&pudval, addr);

	if (huge == HYDRA_HUGE_EVER)
		add_sharers_of(pmd, mask);
	for (; addr < end; addr = pmd_addr_end(addr, end), pmd++) {
		pteval_t val = pmd_val(pmdp_get_lockless(pmd));

		if (hydra_present(val) && !hydra_leaf(val))
			add_sharers_of(hydra_next_table(val), mask);
		else if (huge == HYDRA_HUGE_NOW)
			add_sharers_of(pmd, mask);
	}
}

/* The same of one PUD entry's part. Interrupts off. */
static void add_pud_sharers(pud_t *pud, unsigned long addr, unsigned long end,
			    enum hydra_huge huge, hydra_mask_t *mask)
{
	pud_t pudval = READ_ONCE(*pud);

	if (huge == HYDRA_HUGE_EVER)
		add_sharers_of(pud, mask);
	if (hydra_present(pud_val(pudval)) && !hydra_leaf(pud_val(pudval)))
		add_pmd_sharers(pudval, addr, end, huge, mask);
	else if (huge == HYDRA_HUGE_NOW)
		add_sharers_of(pud, mask);
}

/* The same of the part of a range that begins at an address. */
static unsigned long add_sharers_from(struct hydra_mm *h, unsigned long addr,
				      unsigned long end, enum hydra_huge huge,
				      hydra_mask_t *mask)
{
	pgd_t pgdval = READ_ONCE(*pgd_offset(h->mm, addr));
	unsigned long next = pud_addr_end(addr, end);
	p4d_t p4dval;

	if (pgd_none(pgdval))
		return pgd_addr_end(addr, end);
	p4dval = READ_ONCE(*p4d_offset(&pgdval, addr));
	if (!hydra_present(p4d_val(p4dval)))
		return min(hydra_next_p4d(addr), end);
	add_pud_sharers(pud_offset(&p4dval, addr), addr, next, huge, mask);
	return next;
}

/* Sharers of the leaf table of an address. Return: false if there is none. */
static bool add_leaf_sharers(struct hydra_mm *h, unsigned long addr,
			     hydra_mask_t *mask)
{
	pmd_t *pmd = hydra_canonical_pmd(h->mm, addr);
	pteval_t val = pmd ? pmd_val(pmdp_get_lockless(pmd)) : 0;

	if (!hydra_is_table(val))
		return false;
	add_sharers_of(hydra_next_table(val), mask);
	return true;
}

static noinline void add_range_sharers(struct hydra_mm *h, unsigned long start,
				       unsigned long end, enum hydra_huge huge,
				       hydra_mask_t *mask)
{
	unsigned long flags;

	while (start < end) {
		local_irq_save(flags);
		start = add_sharers_from(h, start, end, huge, mask);
		local_irq_restore(flags);
	}
}

/**
 * hydra_range_sharers - the domains that share the tables of a range
 * @h: address space
 * @start: first address
 * @end: address after the last one
 * @huge: which sharers of huge pages to include
 * @mask: the domains are added to it, as far as the canonical tree has tables now
 *
 * Context: any. Interrupts are off meanwhile: tables cannot be freed, as for GUP-fast.
 */
void hydra_range_sharers(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_huge huge,
			 hydra_mask_t *mask)
{
	unsigned long flags;
	bool found = false;

	/* The usual case: what one leaf table maps. */
	if (huge != HYDRA_HUGE_EVER && !((start ^ (end - 1)) & PMD_MASK)) {
		local_irq_save(flags);
		found = add_leaf_sharers(h, start, mask);
		local_irq_restore(flags);
	}
	if (!found)
		add_range_sharers(h, start, end, huge, mask);
}

/* Return: false if the flush goes to every domain. */
static bool range_targets(struct hydra_mm *h, unsigned long start,
			  unsigned long end, enum hydra_huge huge,
			  hydra_mask_t *targets)
{
	hydra_range_sharers(h, start, end, huge, targets);
	/*
	 * If a table was missing because a collapse took it out, the collapse
	 * had raised unfiltered before it cleared the entry. Then it is still
	 * raised here, or the collapse has finished its flush. Pairs with
	 * hydra_collapse_begin().
	 */
	smp_rmb();
	return !unfiltered(h);
}

/**
 * hydra_range_targets - the domains that a flush of a range has to reach
 * @h: address space, active
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 * @targets: set to them, but for those that every flush includes
 *
 * The caller holds the lock of the entries that it has changed, so their tables
 * are there. (wp_clean_post_vma() holds none, but counts as a gather: see below.
 * That no table goes meanwhile it owes to i_mmap, or to the collapse's flush.)
 *
 * But a gather may have taken a huge page from the same place, not have flushed yet,
 * and a fault have put a table there since, which may map parts of the same page if
 * it is a file's. A CPU that changes those cannot wait for the gather: PAGEMAP_SCAN,
 * for one, says that they are write-protected from now on. So while any gather is at
 * work, the domains that have ever shared huge pages there are included. (A gather is
 * counted before it takes anything. The fault saw what it had taken, and the caller
 * has taken the fault's table's lock: it sees the count, or the gather has flushed.)
 *
 * Context: any; the entries of the range have been changed.
 * Return: false if the flush goes to every domain.
 */
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, hydra_mask_t *targets)
{
	enum hydra_huge huge = HYDRA_HUGE_NOW;

	/* Of a huge entry: time for others to believe what they see. */
	if ((hydra_breaks(HYDRA_BREAK_SLOW_FLUSH) ||
	     hydra_breaks(HYDRA_BREAK_SKIP_WAIT)) && end - start == PMD_SIZE)
		mdelay(50);
	hydra_mask_zero(targets);
	if (unfiltered(h) || end == TLB_FLUSH_ALL || end <= start ||
	    end - start > LOOKUP_MAX || end > TASK_SIZE_MAX)
		return false;
	if (mm_tlb_flush_pending(h->mm) && !hydra_breaks(HYDRA_BREAK_FORGET_TAKEN))
		huge = HYDRA_HUGE_EVER;
	return range_targets(h, start, end, huge, targets);
}

/**
 * __hydra_gather_begin - a gather of an address space that has been split begins
 * @g: Hydra's part of it
 * @fullmm: it is to take everything down, kernel half too
 */
void __hydra_gather_begin(struct hydra_gather *g, bool fullmm)
{
	g->notes = true;
	g->freed = NULL;
	g->start = fullmm ? 0 : ULONG_MAX;
	g->end = fullmm ? ULONG_MAX : 0;
	hydra_mask_zero(&g->users);
}

/**
 * __hydra_gather_visits - it is about to look at a range
 * @g: Hydra's part of it
 * @start: first address
 * @end: address after the last one
 */
void __hydra_gather_visits(struct hydra_gather *g, unsigned long start,
			   unsigned long end)
{
	g->start = min(g->start, start);
	g->end = max(g->end, end);
}

/**
 * __hydra_gather_takes - a gather has taken a huge entry away, or changed it
 * @g: Hydra's part of the gather
 * @entry: where it was
 *
 * Who has joined after it was taken does no harm: the sharers of huge pages stay.
 *
 * Context: see hydra_gather_takes().
 */
void __hydra_gather_takes(struct hydra_gather *g, const void *entry)
{
	if (!hydra_breaks(HYDRA_BREAK_TAKE_QUIETLY))
		add_sharers_of(entry, &g->users);
}

/**
 * hydra_gather_targets - the domains that the flush of a gather has to reach
 * @h: address space, active
 * @g: Hydra's part of the gather
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL: the gather overlaps with
 *	others, or takes everything down
 * @targets: set to them, but for those that every flush includes
 *
 * Huge pages that it has taken or changed it has noted: they may be gone by now,
 * and whoever took them not have flushed. If it overlaps with others, they may
 * have taken some that it has not even seen, and a fault have put a table there:
 * then whoever has ever shared huge pages there is included.
 *
 * All entries that it has changed lie in what it has visited. The range may be
 * larger, by the places of tables that it has freed: those it has noted.
 *
 * Context: any.
 * Return: false if the flush goes to every domain.
 */
bool hydra_gather_targets(struct hydra_mm *h, const struct hydra_gather *g,
			  unsigned long start, unsigned long end,
			  hydra_mask_t *targets)
{
	enum hydra_huge huge = HYDRA_HUGE_NEVER;

	hydra_mask_zero(targets);
	if (!g->notes)
		return false;
	*targets = g->users;
	if (unfiltered(h))
		return false;
	if (end == TLB_FLUSH_ALL) {
		start = g->start;
		end = g->end;
		if (!hydra_breaks(HYDRA_BREAK_FORGET_TAKEN))
			huge = HYDRA_HUGE_EVER;
		if (hydra_breaks(HYDRA_BREAK_FORGET_VISITS))
			return true;
		if (hydra_breaks(HYDRA_BREAK_DISTRUST_GATHERS))
			return false;
	}
	if (g->start < g->end) {
		start = max(start, g->start);
		end = min(end, g->end);
	} else if (end <= start) {
		/* The gather has not told what it looks at. */
		return false;
	}
	if (end > TASK_SIZE_MAX ||
	    (end > start && end - start > GATHER_LOOKUP_MAX))
		return false;
	return range_targets(h, start, end, huge, targets);
}

/**
 * __hydra_pmd_gone - wait for whoever has cleared an entry
 * @mm: the address space
 * @pmd: the entry
 *
 * On stock Linux a flush of a range around the entry, or of so much that all
 * is flushed, reaches every CPU that may have it in its TLB, whichever CPU has
 * cleared it. Here it reaches the sharers of what the gather has taken or changed.
 * A CPU that clears a huge entry without a gather flushes before it drops the lock
 * (move_pages_huge_pmd() and __discard_anon_folio_pmd_locked(), for two),
 * so that is waited for. Some of them put the entry back, and then it is not
 * gone.
 *
 *    CPU 0: clears without a gather      CPU 1: here
 *    takes the lock
 *    clears the entry                    sees the entry cleared
 *    flushes                             <read barrier>
 *    (puts the entry back)               sees the lock taken: waits for it; or free:
 *    drops the lock                      CPU 0 is done, looks at the entry again
 *
 * Context: see hydra_pmd_gone().
 * Return: see hydra_pmd_gone().
 */
bool __hydra_pmd_gone(struct mm_struct *mm, pmd_t *pmd)
{
	spinlock_t *lock = pmd_lockptr(mm, pmd);
	bool gone;

	if (hydra_breaks(HYDRA_BREAK_SKIP_WAIT))
		return true;
	/* Pairs with the locked instruction that takes the lock. */
	smp_rmb();
	if (!spin_is_locked(lock)) {
		/* Pairs with the release of the lock. */
		smp_rmb();
		if (!pmd_none(READ_ONCE(*pmd)))
			return false;
		/* Still gone, or once more: as above. */
		smp_rmb();
		if (!spin_is_locked(lock))
			return true;
	}
	spin_lock(lock);
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
 * @pmdp: its canonical entry
 * @pmd: what that held
 *
 * Context: see hydra_collapse_begin(). Preemption is off until the caller has
 * flushed, so no grace period ends before.
 */
void __hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd)
{
	struct hydra_table *t;
	unsigned long word;
	pteval_t *canonical;
	hydra_mask_t trees;
	unsigned int d;

	if (!hydra_present(pmd_val(pmd)) || hydra_leaf(pmd_val(pmd)))
		return;
	/*
	 * A fill that saw the entry before it was cleared: see join(). Its domain
	 * got its tree before that, with a barrier (promote()); the entry was
	 * cleared with one.
	 */
	hydra_mask_zero(&trees);
	hydra_mask_add(&trees, &h->trees);
	/* Pairs with the barrier in promote(), between the domain and trees. */
	smp_rmb();
	for_each_hydra_domain(d, &trees) {
		spin_lock(&h->domain[d]->lock);
		spin_unlock(&h->domain[d]->lock);
	}
	canonical = hydra_next_table(pmd_val(pmd));
	word = hydra_table_detach(virt_to_ptdesc(canonical));
	if (hydra_word_solo(word))
		hydra_cut_solo(hydra_table_of(pmdp), hydra_entry_index(pmdp),
			       hydra_word_domain(word));
	t = hydra_word_table(word);
	if (t)
		hydra_table_release(t, canonical);
}

/**
 * __hydra_move_table - cut every domain's link to a table that hangs elsewhere next
 * @h: address space
 * @pmdp: the canonical entry that it has hung on
 * @pmd: what that held
 * @addr: first address that it has mapped
 *
 * Faults come again and find it in the new place, as a table that no domain uses.
 * While it moves, the locks that mremap() holds keep off every CPU that would change
 * an entry of it and flush. An atomic fill holds none of them: one that saw the
 * entry before it was cleared has the lock of the table, which is waited for.
 *
 * Context: see hydra_move_table(). No grace period ends before the locks are dropped.
 */
void __hydra_move_table(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd,
			unsigned long addr)
{
	spinlock_t *lock = pte_lockptr(h->mm, &pmd);
	pteval_t *canonical = hydra_next_table(pmd_val(pmd));
	struct hydra_table *t;
	unsigned long word;
	hydra_mask_t users;

	mmap_assert_write_locked(h->mm);
	lockdep_assert_held(pmd_lockptr(h->mm, pmdp));
	/* Beside the locks of the old entry and of the new one. */
	spin_lock_nested(lock, SINGLE_DEPTH_NESTING + 1);
	spin_unlock(lock);
	hydra_mask_zero(&users);
	word = hydra_table_detach(virt_to_ptdesc(canonical));
	if (hydra_word_solo(word)) {
		hydra_mask_set(hydra_word_domain(word), &users);
		hydra_cut_solo(hydra_table_of(pmdp), hydra_entry_index(pmdp),
			       hydra_word_domain(word));
	}
	t = hydra_word_table(word);
	if (t) {
		hydra_mask_add(&users, &t->sharers);
		hydra_mask_add(&users, &t->users);
		hydra_table_release(t, canonical);
	}
	if (!hydra_breaks(HYDRA_BREAK_MOVE_QUIETLY))
		hydra_flush_domains(h, addr, addr + PMD_SIZE, &users);
}
