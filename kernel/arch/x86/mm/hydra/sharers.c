// SPDX-License-Identifier: GPL-2.0-only
/*
 * The shootdown filter: which domains a TLB flush has to reach.
 *
 * A flush looks up the sharers of the canonical tables in the range. The lookup
 * takes no lock: flushes run under page-table locks. No domain is missed: the
 * caller changed the entries under the lock of their table. A domain joined before
 * is a sharer already. A domain joining later takes the same lock, and copies or
 * links the changed entries. If the table was freed or replaced since, then
 *
 * - this gather freed the table, or cleared or changed the huge entry, and recorded
 *   the sharers (hydra_gather::sharers);
 * - or another gather freed the table, after locking out all accesses to the range
 *   (munmap and exit);
 * - or a collapse is cutting the table: hydra_mm::unfiltered is raised until the
 *   collapse has flushed, see hydra_collapse_begin();
 * - or mremap() or hydra_rehome_to_user() moved the table: they flushed the sharers, and
 *   kept other CPUs out of the range meanwhile (see __hydra_move_table()).
 *
 * Gathers that overlap in time flush for one another, as tlb_finish_mmu() requires:
 * gather 1 may skip an entry cleared and not yet flushed by gather 2. Then gather 1
 * flushes the sharers of the whole walked range, not only of entries cleared by
 * gather 1.
 *
 * A domain stays a sharer until the table is freed, or until the domain has been
 * flushed under the table's lock (see drop.c).
 *
 * A flush raises the tlb_gen of targets only, so CPUs of all remaining domains have
 * nothing to catch up with, then or later.
 */

#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/pgtable.h>

#include <asm/tlb.h>

#include "domain.h"
#include "marks.h"
#include "pending.h"
#include "platform.h"
#include "rent.h"
#include "sharers.h"
#include "state.h"
#include "table.h"

#include <trace/events/hydra.h>

/* The names in the trace event hydra_mode */
static_assert(HYDRA_MODE_TRY == 0 && HYDRA_MODE_FINE == 1 && HYDRA_MODE_TABLE == 2);

/*
 * The budget of a lookup: shared leaf tables, and entries that lead to leaf tables or to
 * nothing, of PMD tables and of tables above. A flush that would read more goes to all domains.
 *
 * Preemption may be off meanwhile, for 1,024 entries and 512 shared tables at most: about as
 * many cache misses. That is 1 GiB of shared tables, 2 GiB of tables without a second domain,
 * or 1 TiB where there is nothing. A gather has walked all tables already, so it may read 16
 * times as many, also where zap_pte_range() flushes under the lock of a leaf table. Interrupts
 * are off for one PMD table at a time.
 *
 * A flush of more than LOOKUP_RENT, or of 16 times as much by a gather, is no rent: it may be
 * spent, and then it interrupts all domains, however few share the tables.
 */
#define LOOKUP_ENTRIES		1024
#define LOOKUP_SHARED		512
#define GATHER_TIMES		16
#define LOOKUP_RENT		PUD_SIZE

/*
 * Larger flushes look up by table. A look reads each entry that leads to a table once more, so
 * the budget of a lookup leaves room for it.
 */
#define LOOK_MAX		(128 * PMD_SIZE)

/*
 * So many copies are looked at with interrupts off, or one of each sharer. See "Progress and
 * latency" in Documentation/mm/hydra/rules.rst.
 */
#define LOOK_AT_ONCE		PTRS_PER_PTE

/* Does every flush of an address space go to every domain now? */
static bool hydra_unfiltered(struct hydra_mm *h)
{
	return atomic_read(&h->unfiltered);
}

/* Return: NULL, or the struct hydra_table if the table has one. */
static __always_inline struct hydra_table *hydra_add_sharers_of(const pteval_t *entry,
								hydra_mask_t *mask)
{
	unsigned long word = hydra_word_of(entry);
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		hydra_mask_add(mask, &t->sharers);
	else if (hydra_word_solo(word))
		hydra_mask_set(hydra_word_domain(word), mask);
	return t;
}

/* A flush from another domain reaches a domain for its link only. */
static void hydra_count_link(struct hydra_table *t)
{
	u8 hits = READ_ONCE(t->linked_hits);

	/* A hit may be lost. HYDRA_LINKS_CUT must not. */
	if (hits < HYDRA_LINKED_HITS)
		cmpxchg(&t->linked_hits, hits, hits + 1);
}

/*
 * Add the domains that may have one of some entries of a leaf table in a TLB. See
 * arch/x86/mm/hydra/marks.c. A domain without a table may be one that is cut and not yet
 * flushed. A flush pays once for a table that is looked at in parts.
 *
 * @sharers: of the table, read before the marks
 */
static void hydra_add_marked(struct hydra_lookup *l, struct hydra_table *t,
			     const hydra_mask_t *sharers, const pteval_t *entry,
			     unsigned int nr)
{
	const pteval_t *canonical = PTR_ALIGN_DOWN(entry, PAGE_SIZE);
	unsigned int d, self = hydra_this_domain(t->hmm);
	unsigned int first = hydra_entry_index(entry);
	unsigned int looks = 0;
	bool others = false;

	for_each_hydra_domain(d, sharers) {
		pteval_t *table = READ_ONCE(t->table[d]);

		if (table == canonical && d != self && !hydra_mask_test(d, l->found))
			hydra_count_link(t);
		if (!table || table == canonical ||
		    hydra_take_marks(t->hmm, d, table + first, nr, l->look)) {
			hydra_mask_set(d, l->found);
			others |= d != self;
		}
		looks += table && table != canonical ? nr : 0;
	}
	if (looks)
		hydra_stat_add(t->hmm, HYDRA_STAT_LOOKS, looks);
	if (others && l->paid != t)
		hydra_pay(t, READ_ONCE(t->hmm->rent_flush));
	if (others)
		l->paid = t;
}

/* A flush by table reaches all sharers. Another domain than that of this CPU pays for it. */
static void hydra_pay_flush(struct hydra_table *t)
{
	u8 step = READ_ONCE(t->hmm->rent_flush);

	if (step && hydra_mask_other(hydra_this_domain(t->hmm), &t->sharers))
		hydra_pay(t, step);
}

/*
 * The CPUs of some domains that run the address space.
 * @awake: of these, the CPUs that a flush by this CPU would interrupt
 */
static unsigned int hydra_count_cpus(const struct hydra_mm *h, const hydra_mask_t *mask,
				     bool awake)
{
	const struct hydra_domains *domains = hydra_domains_of(h);
	unsigned int d, i, bit, nr = 0, self = raw_smp_processor_id();

	for_each_hydra_domain(d, mask) {
		for (i = domains->span[d].first; i <= domains->span[d].last; i++) {
			unsigned long cpus = READ_ONCE(cpumask_bits(mm_cpumask(h->mm))[i]) &
					     cpumask_bits(domains->cpus[d])[i];

			if (!awake) {
				nr += hweight_long(cpus);
				continue;
			}
			for_each_set_bit(bit, &cpus, BITS_PER_LONG) {
				unsigned int cpu = i * BITS_PER_LONG + bit;

				/* As should_flush_tlb(), which leaves out a lazy CPU. */
				nr += cpu != self &&
				      !READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu));
			}
		}
	}
	return nr;
}

/**
 * DOC: A flush under filter "auto"
 *
 * Each shared leaf table has a mode, on which no rule depends. The first pass, by table, finds
 * the sharers of the range. If the mode of a table says that marks are worth a look, the flush
 * publishes its whole range, for all domains. The second pass reads the modes again: it looks
 * at the marks of such tables, takes them, and adds all sharers of other tables.
 *
 * A flush of another CPU may change the mode of table T at any time::
 *
 *     CPU 0: a flush                       CPU 1: a flush that T is in, too
 *     --------------                       --------------------------------
 *     pass 1: T goes by table, another
 *     table of the range does not
 *                                          T: its marks are worth a look now
 *     publishes the range, T included
 *     pass 2: takes the marks of T
 *     flushes, unpublishes
 *
 * What CPU 0 has published covers T, whatever its mode was then. If no table looks in pass 1,
 * there is no second pass, and no mark is taken. If T goes by table in pass 2, after all, CPU 0
 * adds its sharers, which need neither mark nor published flush to be reached.
 *
 * A flush by table takes no mark, so no other flush misses one for it. Nor does it look for
 * published flushes: their targets in T are sharers of T, or have been flushed for the whole
 * table since. The marks that it leaves make a later look reach too many domains, and never too
 * few. So a flush may go by table and by marks at once, as flushes of several CPUs always may.
 */

/* The sharers of a table, at one time. Return: how many, and so how many copies of each entry. */
static unsigned int hydra_read_sharers(const struct hydra_table *t, hydra_mask_t *sharers)
{
	hydra_mask_zero(sharers);
	hydra_mask_add(sharers, &t->sharers);
	return bitmap_weight(sharers->bits, HYDRA_MAX_DOMAINS);
}

/* Filter "auto": is a look at so many entries of a table worth its while, by the mode? */
static bool hydra_looks(const struct hydra_table *t, unsigned int nr)
{
	struct hydra_mode mode = READ_ONCE(t->mode);
	hydra_mask_t sharers;
	unsigned int copies;

	if (mode.state == HYDRA_MODE_TABLE)
		return false;
	copies = nr * hydra_read_sharers(t, &sharers);
	/* A flush of more copies goes by table, see hydra_lookup_targets(). */
	return copies <= HYDRA_COPIES_MAX &&
	       hydra_mode_looks(&mode, hydra_mode_worth(&hydra_prices),
				hydra_count_cpus(t->hmm, &sharers, false), copies);
}

/* Account for a flush, see hydra_mode_flushed(). The account of two CPUs at once may be lost. */
static void hydra_account(struct hydra_table *t, unsigned int spared, unsigned int copies)
{
	struct hydra_mode mode = READ_ONCE(t->mode);
	unsigned int was = mode.state;

	hydra_mode_flushed(&mode, hydra_mode_worth(&hydra_prices), spared, copies);
	WRITE_ONCE(t->mode, mode);
	if (mode.state != was)
		trace_hydra_mode(t->hmm->mm, t->base, mode.state, mode.tally);
}

/*
 * Account for a look at so many entries of a table. It has spared the sharers that are no
 * targets, for another table or a published flush either.
 */
static void hydra_account_look(struct hydra_table *t, unsigned int nr,
			       const hydra_mask_t *targets)
{
	unsigned int copies;
	hydra_mask_t spared;

	copies = nr * hydra_read_sharers(t, &spared);
	hydra_mask_remove(&spared, targets);
	/* The flush goes to these, too. */
	hydra_mask_remove(&spared, &t->hmm->universal);
	hydra_account(t, hydra_count_cpus(t->hmm, &spared, true), copies);
}

/*
 * Look at marks of a table, or account for that. One call looks at LOOK_AT_ONCE copies: if there
 * are more, it sets @end to where the rest begins.
 *
 * Return: false if the table goes by table.
 */
static noinline bool hydra_look_at_leaf(struct hydra_lookup *l, struct hydra_table *t,
					const pteval_t *table, unsigned long addr,
					unsigned long *end)
{
	unsigned int nr = PHYS_PFN(*end - 1) - PHYS_PFN(addr) + 1, nr_sharers;
	hydra_mask_t sharers;

	if (l->filter == HYDRA_FILTER_AUTO && !hydra_looks(t, nr))
		return false;
	if (l->looked) {
		hydra_account_look(t, nr, l->found);
		return true;
	}
	/* Domains may have joined since the lookup by table: then the rest goes by table. */
	nr_sharers = hydra_read_sharers(t, &sharers);
	nr = min(nr, max(LOOK_AT_ONCE / (nr_sharers ?: 1), 1));
	l->copies += nr * nr_sharers;
	if (l->copies > HYDRA_COPIES_MAX)
		return false;
	hydra_add_marked(l, t, &sharers, table + pte_index(addr), nr);
	*end = min(*end, (addr & PAGE_MASK) + nr * PAGE_SIZE);
	return true;
}

/* How many times as much as a flush under a lock may the lookup read? */
static unsigned int hydra_budget_times(const struct hydra_lookup *l)
{
	return l->walked ? GATHER_TIMES : 1;
}

/* May the flush look at the marks of its range, by what it permits and by its size? */
static bool hydra_may_look(const struct hydra_lookup *l)
{
	return l->filter >= HYDRA_FILTER_ENTRY && l->permits != HYDRA_BY_TABLE &&
	       l->size <= LOOK_MAX && !READ_ONCE(hydra_marks_failed);
}

/* Filter "auto", by table: does a table ask for a look? If it rests, account for the flush. */
static bool hydra_asks(const struct hydra_lookup *l, struct hydra_table *t, unsigned int nr)
{
	struct hydra_mode mode = READ_ONCE(t->mode);

	if (mode.state != HYDRA_MODE_TABLE)
		return hydra_may_look(l) && hydra_looks(t, nr);
	if (hydra_mode_rested(&mode))
		trace_hydra_mode(t->hmm->mm, t->base, mode.state, mode.tally);
	WRITE_ONCE(t->mode, mode);
	return false;
}

/*
 * A flush by table reaches the sharers of a table: the table asks for a look at the marks, or
 * pays rent. A flush that spends the lookup's budget may reach all domains; it is no rent.
 */
static noinline void hydra_reach(struct hydra_lookup *l, struct hydra_table *t,
				 unsigned long addr, unsigned long end)
{
	unsigned int nr = PHYS_PFN(end - 1) - PHYS_PFN(addr) + 1;
	bool by_mode = l->filter == HYDRA_FILTER_AUTO;
	hydra_mask_t sharers;

	if (l->askers_pay) {
		if (hydra_looks(t, nr))
			hydra_pay_flush(t);
	} else if (by_mode ? hydra_asks(l, t, nr) : hydra_may_look(l)) {
		l->copies += nr * hydra_read_sharers(t, &sharers);
	} else if ((l->filter < HYDRA_FILTER_ENTRY || by_mode) &&
		   l->size <= LOOKUP_RENT * hydra_budget_times(l)) {
		hydra_pay_flush(t);
	}
}

/* What hydra_add_leaf() has done with its part of a range in one leaf table */
enum hydra_leaf_done {
	HYDRA_LEAF_PRIVATE,	/* one domain has the table */
	HYDRA_LEAF_BY_TABLE,	/* added its sharers */
	HYDRA_LEAF_BY_MARKS,	/* looked at a part, or accounted for the look */
};

/*
 * Add the domains to reach for the part of a range in one leaf table. By marks, @end is set to
 * where the rest begins.
 */
static __always_inline enum hydra_leaf_done
hydra_add_leaf(struct hydra_lookup *l, const pteval_t *table, unsigned long addr,
	       unsigned long *end)
{
	struct hydra_table *t;

	if (l->look != HYDRA_BY_TABLE) {
		t = hydra_table_of(table);
		if (t && hydra_look_at_leaf(l, t, table, addr, end))
			return HYDRA_LEAF_BY_MARKS;
	}
	t = hydra_add_sharers_of(table, l->found);
	if (t && l->reaches)
		hydra_reach(l, t, addr, *end);
	return t ? HYDRA_LEAF_BY_TABLE : HYDRA_LEAF_PRIVATE;
}

/* Take entries from the budget. Return: false if it is spent. A look has LOOK_MAX instead. */
static bool hydra_spend(struct hydra_lookup *l, unsigned int entries)
{
	if (l->look != HYDRA_BY_TABLE)
		return true;
	l->entries += entries;
	if (l->entries > LOOKUP_ENTRIES * hydra_budget_times(l))
		l->spent = true;
	return !l->spent;
}

/*
 * Add the sharers of one PMD table's part of a range, up to the first table that is looked at.
 * Return: where the rest begins.
 */
static unsigned long hydra_add_pmd_sharers(struct hydra_lookup *l, pud_t pudval,
					   unsigned long addr, unsigned long end)
{
	unsigned int most = LOOKUP_SHARED * hydra_budget_times(l);
	pmd_t *pmd = pmd_offset(&pudval, addr);

	if (!hydra_spend(l, ((end - 1) >> PMD_SHIFT) - (addr >> PMD_SHIFT) + 1))
		return end;
	if (l->huge == HYDRA_HUGE_SAME_TABLE)
		hydra_add_sharers_of((pteval_t *)pmd, l->found);
	for (; addr < end; pmd++) {
		pteval_t val = pmd_val(pmdp_get_lockless(pmd));
		unsigned long next = pmd_addr_end(addr, end);

		if (hydra_present(val) && !hydra_leaf(val)) {
			enum hydra_leaf_done done = hydra_add_leaf(l, hydra_next_table(val),
								   addr, &next);

			if (done == HYDRA_LEAF_BY_MARKS)
				return next;
			if (done == HYDRA_LEAF_BY_TABLE && ++l->shared > most) {
				l->spent = true;
				return end;
			}
		} else if (l->huge == HYDRA_HUGE_IN_RANGE) {
			hydra_add_sharers_of((pteval_t *)pmd, l->found);
		}
		addr = next;
	}
	return end;
}

/* The same for one PUD entry's part. Context: interrupts off. */
static unsigned long hydra_add_pud_sharers(struct hydra_lookup *l, pud_t *pud,
					   unsigned long addr, unsigned long end)
{
	pud_t pudval = READ_ONCE(*pud);

	if (l->huge == HYDRA_HUGE_SAME_TABLE)
		hydra_add_sharers_of((pteval_t *)pud, l->found);
	if (hydra_present(pud_val(pudval)) && !hydra_leaf(pud_val(pudval)))
		return hydra_add_pmd_sharers(l, pudval, addr, end);
	if (hydra_spend(l, 1) && l->huge == HYDRA_HUGE_IN_RANGE)
		hydra_add_sharers_of((pteval_t *)pud, l->found);
	return end;
}

/* The same for the part that begins at @addr. Return: where the next part begins. */
static unsigned long hydra_add_sharers_from(struct hydra_lookup *l,
					    unsigned long addr, unsigned long end)
{
	pgd_t pgdval = READ_ONCE(*pgd_offset(l->h->mm, addr));
	p4d_t p4dval;

	if (pgd_none(pgdval)) {
		hydra_spend(l, 1);
		return pgd_addr_end(addr, end);
	}
	p4dval = READ_ONCE(*p4d_offset(&pgdval, addr));
	if (!hydra_present(p4d_val(p4dval))) {
		hydra_spend(l, 1);
		return min(hydra_next_p4d(addr), end);
	}
	return hydra_add_pud_sharers(l, pud_offset(&p4dval, addr), addr,
				     pud_addr_end(addr, end));
}

/*
 * Add the sharers of the leaf table of a range. Return: where the rest begins: @addr if there is
 * no table.
 */
static unsigned long hydra_add_leaf_sharers(struct hydra_lookup *l, unsigned long addr,
					    unsigned long end)
{
	pmd_t *pmd = hydra_canonical_pmd(l->h->mm, addr);
	pteval_t val = pmd ? pmd_val(pmdp_get_lockless(pmd)) : 0;

	if (!hydra_is_table(val))
		return addr;
	hydra_add_leaf(l, hydra_next_table(val), addr, &end);
	return end;
}

static noinline void hydra_add_range_sharers(struct hydra_lookup *l,
					     unsigned long start, unsigned long end)
{
	unsigned long flags;

	while (start < end && !l->spent) {
		local_irq_save(flags);
		start = hydra_add_sharers_from(l, start, end);
		local_irq_restore(flags);
	}
}

/**
 * hydra_range_sharers - the domains that share the tables of a range
 * @l: the lookup; l->spent tells whether the budget has ended before the range
 * @start: first address
 * @end: end of the range, exclusive
 *
 * Interrupts are off during the lookup, so no table is freed, as for GUP-fast.
 *
 * Context: any; the flush has been published if l->look is HYDRA_TAKE_MARKS.
 */
void hydra_range_sharers(struct hydra_lookup *l, unsigned long start,
			 unsigned long end)
{
	unsigned long flags;

	/* The usual case: a range inside one leaf table */
	if (l->huge != HYDRA_HUGE_SAME_TABLE && !((start ^ (end - 1)) & PMD_MASK)) {
		local_irq_save(flags);
		start = hydra_add_leaf_sharers(l, start, end);
		local_irq_restore(flags);
	}
	if (start < end)
		hydra_add_range_sharers(l, start, end);
}

/* Is there another domain than this CPU's among the targets, and not there already? */
static bool hydra_targets_others(struct hydra_mm *h, const hydra_mask_t *targets,
				 const hydra_mask_t *already)
{
	hydra_mask_t rest = *targets;

	hydra_mask_remove(&rest, already);
	return hydra_mask_other(hydra_this_domain(h), &rest);
}

/*
 * Of the sharers of a range, keep those that may have one of its entries in a TLB.
 *
 * The look reads the copies of shared tables, LOOK_AT_ONCE at a time. If domains have joined
 * meanwhile, so that there are more than HYDRA_COPIES_MAX, the rest goes by table.
 *
 * Under filter "auto" each table that asks for a look accounts for it afterwards, unless the look
 * has ended early. One that has changed its mode meanwhile does not, or for a look too many. Of a
 * table that is looked at in parts, the rest is judged again ahead of each part.
 *
 * @already: the targets ahead of the lookup by table, which stay
 */
static noinline void hydra_look_at_marks(struct hydra_lookup *l, unsigned long start,
					 unsigned long end, const hydra_mask_t *already)
{
	hydra_mask_t *targets = l->found, sharers = *targets;

	l->look = l->permits;
	l->reaches = false;
	l->copies = 0;
	l->shared = 0;
	*targets = *already;
	if (l->look == HYDRA_TAKE_MARKS)
		hydra_publish(l->h, start, end);
	hydra_range_sharers(l, start, end);
	hydra_add_published(l->h, start, end, &sharers, targets);
	if (l->filter == HYDRA_FILTER_AUTO && l->copies <= HYDRA_COPIES_MAX) {
		struct hydra_lookup looked = *l;

		looked.looked = true;
		looked.shared = 0;
		looked.found = &sharers;
		sharers = *targets;
		hydra_range_sharers(&looked, start, end);
	}
}

/* The flush goes by table, after all. Under filter "auto" the tables that have asked pay for it. */
static noinline void hydra_askers_pay(struct hydra_lookup *l, unsigned long start,
				      unsigned long end)
{
	l->askers_pay = l->filter == HYDRA_FILTER_AUTO;
	if (l->askers_pay)
		hydra_range_sharers(l, start, end);
}

/*
 * Look up by table, and then at the marks, if the filter asks for it and other domains share
 * the range.
 *
 * A look at the entries can spare other sharers only. If there are none, no mark is taken
 * and nothing is published: a flush of private tables writes no line that other CPUs read.
 *
 * Under filter "auto" there is a look only if a table asks for it.
 *
 * To read more copies than HYDRA_COPIES_MAX takes as long as the interrupts that the look could
 * spare. So the flush goes by table if the tables that ask have more together. It counts no visits
 * of links, as it goes to domains with replicas, too.
 *
 * The flush of tables that one domain uses costs the same under each filter: hydra_reach()
 * alone, which a shared table calls, looks at the filter.
 *
 * @l: for one call
 * Return: false if the flush goes to every domain.
 */
static bool hydra_lookup_targets(struct hydra_lookup *l, unsigned int filter,
				 unsigned long start, unsigned long end)
{
	hydra_mask_t already = *l->found;

	l->filter = filter;
	l->size = end - start;
	l->permits = l->look;
	l->look = HYDRA_BY_TABLE;
	l->reaches = true;
	hydra_range_sharers(l, start, end);
	if (l->copies > HYDRA_COPIES_MAX)
		hydra_askers_pay(l, start, end);
	else if (l->copies && hydra_targets_others(l->h, l->found, &already))
		hydra_look_at_marks(l, start, end, &already);
	/*
	 * The lookup before unfiltered. If a collapse cleared the PMD entry,
	 * unfiltered is raised here, or the collapse has flushed. Pairs with
	 * hydra_collapse_begin() and hydra_collapse_end().
	 */
	smp_rmb();
	return !l->spent && !hydra_unfiltered(l->h);
}

/**
 * DOC: A huge entry cleared, and another flush
 *
 * A flush without a gather looks up a table that is younger than a huge entry there::
 *
 *     CPU 0: zap a huge file page          CPU 1: the caller, e.g. PAGEMAP_SCAN
 *     ---------------------------          ------------------------------------
 *     raises tlb_flush_pending, or its
 *     places (pending.c)
 *     clears the huge entry
 *                                          page fault: installs a leaf table
 *                                          write-protects an entry of the table
 *                                          flushes that entry
 *     tlb_finish_mmu(): flushes
 *
 * CPU 1 must also reach domains with CPU 0's huge entry cached, but no share of the
 * new table. So while a gather is pending there, hydra_range_targets() includes all domains
 * with a copy, at any time, of a huge entry of the same PMD or PUD table. CPU 1 cannot miss
 * the gather: the fault read the cleared entry, and CPU 1 took the lock of the new
 * table. So CPU 1 sees what CPU 0 has raised, or CPU 0 has flushed.
 */

/**
 * hydra_range_targets - the domains that a flush of a range has to reach
 * @h: address space, active
 * @start: first address
 * @end: end of the range, exclusive, or TLB_FLUSH_ALL
 * @look: the most precise look that the flush permits. A flush which steps over huge
 *	pages leaves small pages in the TLBs, so it must not take their marks.
 * @targets: set to them, without the universal domains
 *
 * The caller holds the lock of the changed entries, so the tables stay.
 * (wp_clean_post_vma() holds no such lock, but raised tlb_flush_pending like a
 * gather. i_mmap_rwsem, or the flush of a collapse, keeps its tables.)
 *
 * CPUs may have cached entries of tables not found by the lookup: see "A huge entry cleared,
 * and another flush" above.
 *
 * Context: preemption off; the entries of the range have been changed. The caller calls
 * hydra_unpublish() once it has flushed, if @look is HYDRA_TAKE_MARKS.
 * Return: false if the flush goes to every domain.
 */
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_look look,
			 hydra_mask_t *targets)
{
	struct hydra_lookup l = { .h = h, .look = look, .found = targets };
	unsigned int filter = hydra_filter(h);

	lockdep_assert_preemption_disabled();
	hydra_mask_zero(targets);
	if (filter == HYDRA_FILTER_NONE || hydra_unfiltered(h) ||
	    end == TLB_FLUSH_ALL || end <= start || end > TASK_SIZE_MAX)
		return false;
	l.huge = mm_tlb_flush_pending(h->mm) || hydra_drops_in(h, start, end) ?
		 HYDRA_HUGE_SAME_TABLE : HYDRA_HUGE_IN_RANGE;
	return hydra_lookup_targets(&l, filter, start, end);
}

/**
 * __hydra_gather_init - start the records of a gather
 * @g: Hydra's part of the gather
 * @fullmm: the gather tears down the whole address space, or its LDT
 */
void __hydra_gather_init(struct hydra_gather *g, bool fullmm)
{
	g->recording = true;
	g->ranged = true;
	g->nr_places = 0;
	g->barrier = false;
	g->freed = NULL;
	g->start = fullmm ? 0 : ULONG_MAX;
	g->end = fullmm ? ULONG_MAX : 0;
	hydra_mask_zero(&g->sharers);
}

/**
 * __hydra_gather_begin - a gather of an address space with a struct hydra_mm begins
 * @g: Hydra's part of the gather
 * @mm: the address space
 * @fullmm: as for __hydra_gather_init()
 *
 * One that is plain Linux again, and is not counted, flushes as on Linux: nothing is recorded.
 * Shortly after its return the range is, as drops that were announced by place may be pending.
 */
void __hydra_gather_begin(struct hydra_gather *g, const struct mm_struct *mm, bool fullmm)
{
	bool recording = hydra_takes_flush(mm);

	if (!recording && hydra_drained(mm->hydra))
		return;
	__hydra_gather_init(g, fullmm);
	g->recording = recording;
}

/**
 * __hydra_gather_drop - a gather of an address space with a struct hydra_mm begins, which drops
 * @g: Hydra's part of the gather
 * @vma: the VMA that is dropped from
 * @start: first address
 * @end: end of the range, exclusive
 *
 * Context: as hydra_gather_drop().
 */
void __hydra_gather_drop(struct hydra_gather *g, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end)
{
	__hydra_gather_begin(g, vma->vm_mm, false);
	if (!g->ranged || !hydra_gather_announce(g, vma, start, end))
		inc_tlb_flush_pending(vma->vm_mm);
}

/**
 * __hydra_gather_add_range - record the range that a gather is about to walk
 * @g: Hydra's part of the gather, with ->ranged set
 * @start: first address
 * @end: end of the range, exclusive
 */
void __hydra_gather_add_range(struct hydra_gather *g, unsigned long start,
			      unsigned long end)
{
	VM_WARN_ON_ONCE(!hydra_keeps_to_places(g, start, end));
	g->start = min(g->start, start);
	g->end = max(g->end, end);
}

/**
 * __hydra_gather_protect - record that the flush of a gather may be meant as a barrier
 * @g: Hydra's part of the gather, which is recording
 * @vma: the VMA of a page whose rights are about to change
 *
 * Libraries do so where they have no membarrier(2): folly, the runtime of .NET. They use a page of
 * their own, which is private, and from which mprotect() takes rights. With a policy that an
 * operator has chosen for the program, the flush goes to the sharers of the page, as
 * Documentation/admin-guide/mm/hydra.rst warns.
 */
void __hydra_gather_protect(struct hydra_gather *g, struct vm_area_struct *vma)
{
#ifdef CONFIG_MEMBARRIER
	if (atomic_read(&vma->vm_mm->membarrier_state))
		return;
#endif
	if (READ_ONCE(hydra_guards_barriers) && hydra_is_auto(hydra_choice_of(vma->vm_mm)) &&
	    vma_is_anonymous(vma) && !(vma->vm_flags & VM_SHARED))
		g->barrier = true;
}

/*
 * Add the domains that may have a huge entry in a TLB, and take their marks.
 *
 * The change has left the marks, see arch/x86/mm/hydra/marks.c. Nothing is published.
 * Instead, other CPUs see that this gather is pending, and go by table:
 *
 *     CPU 0: a gather changes X            CPU 1: a gather takes X, or a flush of X
 *     -------------------------            ----------------------------------------
 *     raises tlb_flush_pending, or the
 *       place of X (pending.c)
 *     locks the PMD table
 *     changes X, marks the copies
 *     takes the marks
 *     unlocks the PMD table
 *                                          locks the PMD table, changes X: finds no
 *                                            mark
 *                                          reads tlb_flush_pending, and the place:
 *                                            one is raised by CPU 0, so it adds all
 *                                            sharers of the PMD table
 *                                          flushes, frees the page
 *     flushes
 *     lowers what it has raised
 *
 * move_hugetlb_page_tables() gets here after it has dropped the lock of the table. There,
 * mmap_lock and i_mmap_rwsem, held for writing, keep other gathers from X, and the lock of
 * the hugetlb VMA keeps out faults until the flush.
 *
 * If CPU 1 reads both as lowered, CPU 0 has flushed. CPU 1 is one of three:
 * a gather at this entry (__hydra_gather_add_huge()), which may flush in the middle and
 * free the page, before it ends; the end of a gather, which may have skipped the entry
 * (hydra_gather_targets()); or a flush without a gather (hydra_range_targets()).
 */
static void hydra_take_huge_marks(struct hydra_table *t, const pteval_t *entry,
				  hydra_mask_t *mask)
{
	unsigned int d;

	for_each_hydra_domain(d, &t->sharers) {
		spinlock_t *lock = &t->hmm->domain[d]->lock;
		pteval_t *table;

		/*
		 * A link may replace the entry of the domain, and its mark. A domain that
		 * becomes a sharer just now has no mark of this entry.
		 */
		spin_lock(lock);
		table = t->table[d];
		if (!table ||
		    hydra_take_marks(t->hmm, d, table + hydra_entry_index(entry), 1,
				     HYDRA_TAKE_MARKS))
			hydra_mask_set(d, mask);
		spin_unlock(lock);
	}
}

/**
 * __hydra_gather_add_huge - record the domains that may have a huge entry in a TLB
 * @g: Hydra's part of the gather
 * @entry: the canonical entry, cleared or changed
 * @addr: an address that it maps, or has mapped
 *
 * By table, a domain joined after the entry was cleared may be included: a needless
 * flush. No domain is missing: sharers of huge entries stay.
 *
 * Context: see hydra_gather_add_huge().
 */
void __hydra_gather_add_huge(struct hydra_gather *g, const pteval_t *entry,
			     unsigned long addr)
{
	struct hydra_table *t;

	if (!g->recording)
		return;
	t = hydra_table_of(entry);
	/* Another gather may have taken the marks, and not flushed yet. */
	if (t && hydra_filter(t->hmm) >= HYDRA_FILTER_ENTRY && !READ_ONCE(hydra_marks_failed) &&
	    hydra_gather_alone_at(g, t->hmm, addr))
		hydra_take_huge_marks(t, entry, &g->sharers);
	else
		hydra_add_sharers_of(entry, &g->sharers);
}

/**
 * hydra_gather_targets - the domains that the flush of a gather has to reach
 * @tlb: the gather; its address space was active when the caller read it
 * @start: first address
 * @end: end of the range, exclusive, or TLB_FLUSH_ALL: another gather ran at the
 *	same time, or the gather tears down everything
 * @look: as for hydra_range_targets()
 * @targets: set to them, without the universal domains
 *
 * tlb->hydra.sharers has the sharers of huge entries cleared or changed, and of tables
 * freed by the gather: a lookup would not find such sharers any more. All other
 * changed entries are in the recorded range. @start and @end may span more, where
 * tables were freed.
 *
 * If @end is TLB_FLUSH_ALL, the gather may have skipped entries cleared and not yet
 * flushed by the second gather, even huge entries replaced by a table since. So
 * flush the whole recorded range, and include all domains with a copy, at any time,
 * of a huge entry there.
 *
 * Context: any. Preemption is off on return if marks were taken, until the caller calls
 * hydra_unpublish().
 * Return: false if the flush goes to every domain.
 */
bool hydra_gather_targets(const struct mmu_gather *tlb, unsigned long start,
			  unsigned long end, enum hydra_look look,
			  hydra_mask_t *targets)
{
	const struct hydra_gather *g = &tlb->hydra;
	struct hydra_lookup l = {
		.h = tlb->mm->hydra,
		.huge = HYDRA_LEAF_ONLY,
		.look = look,
		.walked = true,
		.found = targets,
	};
	unsigned int filter = hydra_filter(l.h);

	hydra_mask_zero(targets);
	if (!g->recording || g->barrier)
		return false;
	*targets = g->sharers;
	if (filter == HYDRA_FILTER_NONE || hydra_unfiltered(l.h))
		return false;
	if (end == TLB_FLUSH_ALL) {
		start = g->start;
		end = g->end;
		l.huge = HYDRA_HUGE_SAME_TABLE;
	}
	if (g->start < g->end) {
		start = max(start, g->start);
		end = min(end, g->end);
	} else if (end <= start) {
		/* The gather recorded no range. */
		return false;
	}
	if (end > TASK_SIZE_MAX)
		return false;
	return hydra_lookup_targets(&l, filter, start, end);
}

#include "tests/flush-kunit.h"
