// SPDX-License-Identifier: GPL-2.0-only
/*
 * Propagation: every change of a canonical entry reaches its replicas before the
 * lock of the canonical table is dropped, and so before Linux flushes for the
 * change. A clear reaches the replicas first: if a CPU reads the canonical entry as
 * none, without the lock, the replicas are clear as well. (Links to a collapsed
 * table are cut later, under the lock awaited by __hydra_wait_pmd_clear().)
 *
 * The hooks are in the accessors of entries. Hooks find the replicas by the table
 * and the index of the entry, not by address: accessors are also used on tables
 * outside the canonical tree.
 *
 * Accessed bits: hardware sets the bits in the copy of the domain. Readers get the
 * union; clearing clears all. Dirty bits are in the canonical entry alone, see
 * hydra_derive().
 *
 * Marks: a CPU of the domain sets the accessed bit of a copy at any time, and then
 * caches the entry. So each change reads the copy and marks the new value in a single
 * cmpxchg(), see hydra_mark().
 */

#include <linux/export.h>
#include <linux/hydra_loops.h>
#include <linux/mm.h>

#include "domain.h"
#include "idle.h"
#include "marks.h"
#include "platform.h"
#include "propagate.h"
#include "rent.h"
#include "state.h"
#include "unlink.h"

#include <trace/events/hydra.h>

/*
 * The copy of an entry in the next domain from @d on, or NULL. Above the leaf
 * tables the lock of the domain guards it: taken here, dropped by
 * hydra_replica_end().
 */
static pteval_t *hydra_replica_begin(struct hydra_table *t, const pteval_t *entry,
				     unsigned int *d)
{
	unsigned int next = *d;

	for_each_set_bit_from(next, t->sharers.bits, HYDRA_MAX_DOMAINS) {
		pteval_t *table;

		*d = next;
		if (t->level != PG_LEVEL_4K)
			spin_lock(&t->hmm->domain[next]->lock);
		table = READ_ONCE(t->table[next]);
		if (table && table != hydra_table_start(entry))
			return table + hydra_entry_index(entry);
		if (t->level != PG_LEVEL_4K)
			spin_unlock(&t->hmm->domain[next]->lock);
	}
	return NULL;
}

static void hydra_replica_end(struct hydra_table *t, unsigned int d)
{
	if (t->level != PG_LEVEL_4K)
		spin_unlock(&t->hmm->domain[d]->lock);
}

/* Above the leaf tables, an entry pointing to a table is no copy. */
static bool hydra_is_copy(const struct hydra_table *t, pteval_t val)
{
	return t->level == PG_LEVEL_4K || !hydra_present(val) || hydra_leaf(val);
}

/*
 * Does a copy follow a change of the canonical entry? A domain that has never asked for
 * the entry goes without, unless replication is "eager".
 */
static bool hydra_follows(const struct hydra_table *t, pteval_t copy, bool present)
{
	if (!hydra_is_copy(t, copy))
		return false;
	return copy & (_PAGE_PRESENT | HYDRA_PTE_REFILL) || (present && hydra_eager(t->hmm));
}

/* Update one copy. Return: true if the copy has changed. */
static bool hydra_update_copy(struct hydra_table *t, pteval_t *copy, pteval_t val)
{
	bool present = t->level == PG_LEVEL_4K ? hydra_present(val) :
					       hydra_leaf(val);
	pteval_t old = READ_ONCE(*copy), new;

	do {
		if (!hydra_follows(t, old, present))
			return false;
		if (hydra_stray(old))
			hydra_stray_accessed();
		if (present)
			new = hydra_renew(t, old, val);
		else
			new = HYDRA_PTE_REFILL | hydra_mark(t, old);
		if (old == new)
			return false;
	} while (!try_cmpxchg(copy, &old, new));
	return true;
}

/* Does a domain get the next entry without a fault, once a copy is cleared? */
enum hydra_refill {
	HYDRA_REFILL,		/* yes */
	HYDRA_REFILL_USED,	/* if the domain has used the copy: the copy is marked */
	HYDRA_REFILL_CREDIT,	/* if so, by the accessed bit, or if the table has credit */
	HYDRA_REFILL_NEVER,	/* no, also if an earlier change has left HYDRA_PTE_REFILL */
};

static pteval_t hydra_cleared(const struct hydra_table *t, pteval_t old,
			      enum hydra_refill refill)
{
	pteval_t mark = hydra_mark(t, old);

	if (refill == HYDRA_REFILL || (refill == HYDRA_REFILL_USED && mark) ||
	    (refill == HYDRA_REFILL_CREDIT && hydra_pushes(t->credit, old & _PAGE_ACCESSED)))
		return HYDRA_PTE_REFILL | mark;
	return mark;
}

/*
 * Clear one copy. Return: its old value, or 0 if the copy was not present.
 *
 * Context: the table's lock, which guards the credit.
 */
static pteval_t hydra_clear_copy(struct hydra_table *t, pteval_t *copy,
				 enum hydra_refill refill)
{
	pteval_t old = READ_ONCE(*copy);

	do {
		if (hydra_stray(old))
			hydra_stray_accessed();
		if (!hydra_is_copy(t, old))
			return 0;
		if (!hydra_present(old) && (refill != HYDRA_REFILL_NEVER ||
					    !(old & HYDRA_PTE_REFILL)))
			return 0;
	} while (!try_cmpxchg(copy, &old, hydra_cleared(t, old, refill)));
	if (!hydra_present(old))
		return 0;
	if (refill == HYDRA_REFILL_CREDIT)
		t->credit = hydra_credit(t->credit, old & _PAGE_ACCESSED);
	return old;
}

static void hydra_propagated(struct hydra_table *t, pteval_t *entry, unsigned int d,
			     unsigned int nr)
{
	if (!nr)
		return;
	hydra_stat_add(t->hmm, HYDRA_STAT_PROPAGATED, nr);
	hydra_stat_add(t->hmm, HYDRA_STAT_CHANGES, 1);
	trace_hydra_propagate(t->hmm->mm, t->base, hydra_entry_index(entry), d,
			      t->level, nr);
}

void __hydra_entries_set(pteval_t *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0, i, changed, most = 0;
	pteval_t *copy;

	if (!t)
		return;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		for (i = 0, changed = 0; i < nr; i++)
			changed += hydra_update_copy(t, copy + i,
						     READ_ONCE(entry[i]));
		hydra_replica_end(t, d);
		hydra_propagated(t, entry, d, changed);
		most = max(most, changed);
	}
	hydra_pay_changes(t, most);
}
EXPORT_SYMBOL_GPL(__hydra_entries_set);

/*
 * How to clear the copies of an entry that ends.
 *
 * By entry, a flush interrupts the domains with a copy. So a domain does not get the next
 * page at an address for having used the last one. By accessed bits, a domain that has not
 * used the last page, which was prefetched perhaps, does not get the next one. Under "auto",
 * the push account of the table decides (auto_rules.h).
 *
 * With paravirt functions of a hypervisor, mprotect() clears entries by an accessor with a
 * hook of its own: between hydra_change_begin() and hydra_change_end(), nothing ends.
 */
static enum hydra_refill hydra_refill_at_end(const struct hydra_table *t)
{
	if (IS_ENABLED(CONFIG_PARAVIRT_XXL) && t->nr_changed)
		return HYDRA_REFILL;
	switch (hydra_filter(t->hmm)) {
	case HYDRA_FILTER_ENTRY:
		return HYDRA_REFILL_NEVER;
	case HYDRA_FILTER_ACCESSED:
		return HYDRA_REFILL_USED;
	case HYDRA_FILTER_AUTO:
		return HYDRA_REFILL_CREDIT;
	}
	return HYDRA_REFILL;
}

/* How to clear the copies of an entry that changes: a new value follows */
static enum hydra_refill hydra_refill_at_change(const struct hydra_table *t)
{
	return hydra_filter(t->hmm) == HYDRA_FILTER_AUTO ? HYDRA_REFILL_CREDIT : HYDRA_REFILL;
}

/*
 * Clear the replicas of an entry that ends or is replaced. Return: their accessed bits.
 *
 * A table with full credit, as where all domains use the memory, pushes to each copy, and has
 * one look at its account for all copies.
 */
static pteval_t hydra_clear_copies(struct hydra_table *t, pteval_t *entry,
				   enum hydra_refill refill)
{
	bool full = refill == HYDRA_REFILL_CREDIT && t->credit == HYDRA_CREDIT_MAX;
	pteval_t *copy, was, any = 0, all = _PAGE_ACCESSED;
	unsigned int d = 0, changed = 0;

	if (full)
		refill = HYDRA_REFILL;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		was = hydra_clear_copy(t, copy, refill);
		hydra_replica_end(t, d);
		any |= was;
		all &= was;
		changed += was != 0;
		hydra_propagated(t, entry, d, was != 0);
	}
	if (full && !all)
		t->credit = hydra_credit_spent(changed);
	hydra_pay_changes(t, changed != 0);
	return any & _PAGE_ACCESSED;
}

/*
 * The end of the entries, from @addr on, that one part of a loop takes: see
 * linux/hydra_loops.h. Parts end where large folios do: a folio that is unmapped in two steps
 * counts as partly mapped in between.
 * @times: how many times as many entries
 */
static unsigned long hydra_part(const struct hydra_table *t, unsigned long addr,
				unsigned long end, unsigned int times)
{
	unsigned long size = rounddown_pow_of_two(hydra_entries_at_once(&t->sharers)) * times *
			     PAGE_SIZE;

	return min(ALIGN_DOWN(addr, size) + size, end);
}

/**
 * __hydra_part_end - how many entries of a leaf table may a loop take now?
 * @pmd: the canonical entry that points to the table, or did
 * @addr: address of the first entry
 * @end: the address after those of the entries
 *
 * Domains that join before the loop has the lock make the part longer than it should be: by
 * as much as they are more.
 *
 * Context: see hydra_part_end(). Return: see hydra_part_end().
 */
unsigned long __hydra_part_end(pmd_t *pmd, unsigned long addr, unsigned long end)
{
	unsigned long part = end;
	struct hydra_table *t;
	pteval_t val;

	/* A collapse may free the table: see the head of table.c. */
	scoped_guard(irqsave) {
		val = pmd_val(READ_ONCE(*pmd));
		/* A bad entry is reported later, by the caller. */
		t = hydra_is_table(val) && !pmd_bad(__pmd(val)) ?
		    hydra_table_of(hydra_next_table(val)) : NULL;
		if (t)
			part = hydra_part(t, addr, end, 1);
	}
	/* The caller comes again soon, and has no other place to give up the CPU. */
	if (part != end)
		cond_resched();
	return part;
}

/**
 * __hydra_change_begin - clear the replicas of entries that are about to be changed
 * @entry: the first canonical entry, of a leaf table
 * @nr: how many entries
 *
 * A CPU of the domain may set the accessed bit of a replica until the replica is
 * cleared. So clear each replica first, and then set its accessed bit in the canonical
 * entry.
 *
 * Links that are due are cut here, too: if each change is propagated to replicas, their
 * domains never fault, and hydra_fill_leaf() does not get to it.
 *
 * Context: see hydra_change_begin().
 */
void __hydra_change_begin(pteval_t *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0, i, changed;
	enum hydra_refill refill;
	pteval_t *copy, was;

	hydra_assert_leaf_locked(entry);
	if (!t)
		return;
	VM_WARN_ON_ONCE(t->nr_changed);
	refill = hydra_refill_at_change(t);
	if (hydra_links_due(t))
		hydra_cut_links(t, hydra_table_start(entry), hydra_this_domain(t->hmm));
	t->changed = hydra_entry_index(entry);
	t->nr_changed = nr;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		for (i = 0, changed = 0; i < nr; i++) {
			was = hydra_clear_copy(t, &copy[i], refill);
			changed += was != 0;
			if (was & _PAGE_ACCESSED)
				set_bit(_PAGE_BIT_ACCESSED, &entry[i]);
		}
		hydra_replica_end(t, d);
		hydra_propagated(t, entry, d, changed);
	}
}

/**
 * __hydra_change_end - update the replicas of the entries that have been changed
 * @entry: any entry of the table
 *
 * Context: see hydra_change_end().
 */
void __hydra_change_end(pteval_t *entry)
{
	struct hydra_table *t = hydra_table_of(entry);

	hydra_assert_leaf_locked(entry);
	if (!t)
		return;
	/* The table's lock is held: the table was shared at hydra_change_begin(), too. */
	VM_WARN_ON_ONCE(!t->nr_changed);
	__hydra_entries_set(hydra_table_start(entry) + t->changed, t->nr_changed);
	t->changed = 0;
	t->nr_changed = 0;
}

/**
 * hydra_changing - does a caller of hydra_change_begin() change an entry?
 * @entry: a canonical entry, of a leaf table for which hydra_shared() is true
 *
 * For assertions in accessors without hooks.
 *
 * Context: the table's lock.
 * Return: true between hydra_change_begin() and hydra_change_end() for the entry.
 */
bool hydra_changing(const void *entry)
{
	const struct hydra_table *t = hydra_table_of(entry);

	return !t || hydra_entry_index(entry) - t->changed < t->nr_changed;
}

/**
 * __hydra_entries_copied - update the replicas of entries that fork() write-protected
 * @mm: address space of the parent
 * @first: the first canonical entry
 * @end: the entry after the last one
 *
 * Context: see hydra_entries_copied().
 */
void __hydra_entries_copied(struct mm_struct *mm, pteval_t *first, pteval_t *end)
{
	hydra_assert_leaf_locked(first);
	if (hydra_shared(mm, first))
		__hydra_entries_set(first, end - first);
}

/**
 * hydra_set_ptes - set_ptes() of entries that may have replicas
 * @mm: address space of the entries
 * @addr: address of the first entry
 * @ptep: the first entry
 * @pte: its value
 * @nr: how many, all in one table
 *
 * Context: as set_ptes().
 */
void hydra_set_ptes(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte,
		    unsigned int nr)
{
	unsigned int i;

	page_table_check_ptes_set(mm, ptep, pte, nr);
	for (i = 0; i < nr; i++, pte = pte_next_pfn(pte))
		set_pte(ptep + i, pte);
	__hydra_entries_set((pteval_t *)ptep, nr);
}
EXPORT_SYMBOL_GPL(hydra_set_ptes);

/**
 * __hydra_entry_exchange - put another value in a canonical entry, or clear it
 * @entry: the entry, of any level, for which hydra_shared() is true
 * @val: the new value
 *
 * Clears the replicas, then exchanges the canonical entry, then updates the
 * replicas if @val is present. The order is for zap_pmd_range(), which reads huge
 * entries without the lock: after reading pmd_none(), zap_pmd_range() relies on the
 * TLB flush of the gather to remove the translation. After the flush a CPU could
 * reload the translation from a replica.
 *
 * Context: the lock of the canonical table is held, or the table is not reachable.
 * Return: the old value, with the accessed bits of the replicas added.
 */
pteval_t __hydra_entry_exchange(pteval_t *entry, pteval_t val)
{
	struct hydra_table *t = hydra_table_of(entry);
	pteval_t young = 0, old;

	if (t)
		young = hydra_clear_copies(t, entry, val ? hydra_refill_at_change(t) :
							   hydra_refill_at_end(t));
	old = xchg(entry, val);
	if (hydra_present(val))
		__hydra_entries_set(entry, 1);
	return hydra_present(old) ? old | young : old;
}
EXPORT_SYMBOL_GPL(__hydra_entry_exchange);

/*
 * Clear the accessed bit of one copy. No flush follows, so the mark takes the place of
 * the bit. Return: was the bit set?
 *
 * The mark gets its stamp only after the bit is clear, see arch/x86/mm/hydra/idle.c. If
 * hardware has set the bit again by then, or a flush has taken the mark, the stamp is not
 * needed.
 */
static bool hydra_age_copy(struct hydra_table *t, pteval_t *copy)
{
	pteval_t old = READ_ONCE(*copy), new;

	do {
		if (!hydra_present(old) || !hydra_is_copy(t, old) ||
		    !(old & _PAGE_ACCESSED))
			return false;
		/* The stamp of an earlier aging goes. */
		new = (old & ~(pteval_t)(_PAGE_ACCESSED | HYDRA_PTE_MARK)) |
		      hydra_mark(t, old);
	} while (!try_cmpxchg(copy, &old, new));
	/* The bit before the second: cmpxchg() is a full barrier. */
	if (hydra_trusts_accessed)
		cmpxchg(copy, new, new | hydra_stamp(hydra_second()));
	return true;
}

int __hydra_test_and_clear_young(pteval_t *entry)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0;
	pteval_t *copy;
	int young = 0;

	if (!t)
		return 0;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		young |= hydra_age_copy(t, copy);
		hydra_replica_end(t, d);
	}
	return young;
}
EXPORT_SYMBOL_GPL(__hydra_test_and_clear_young);

/**
 * hydra_age_entries - look at the accessed bits of the copy of a leaf table
 * @t: of the canonical table
 * @copy: the copy
 * @canonical: the canonical table
 * @clear: and have the canonical entries take them over
 *
 * Context: the table's lock.
 * Return: how many there were.
 */
unsigned int hydra_age_entries(struct hydra_table *t, pteval_t *copy, pteval_t *canonical,
			       bool clear)
{
	unsigned int i, nr = 0;
	pteval_t val;

	hydra_assert_leaf_locked(canonical);
	for (i = 0; i < PTRS_PER_PTE; i++) {
		val = READ_ONCE(copy[i]);
		if (!hydra_present(val) || !hydra_is_copy(t, val) || !(val & _PAGE_ACCESSED))
			continue;
		nr++;
		if (!clear || !hydra_age_copy(t, copy + i))
			continue;
		val = READ_ONCE(canonical[i]);
		while (hydra_present(val) && !(val & _PAGE_ACCESSED) &&
		       !try_cmpxchg(canonical + i, &val, val | _PAGE_ACCESSED))
			;
	}
	return nr;
}

bool __hydra_young(pteval_t *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	bool young = false;
	unsigned int d = 0, i;
	pteval_t *copy;

	if (!t)
		return false;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		for (i = 0; i < nr; i++) {
			pteval_t val = READ_ONCE(copy[i]);

			young |= hydra_present(val) && hydra_is_copy(t, val) &&
				 (val & _PAGE_ACCESSED);
		}
		hydra_replica_end(t, d);
	}
	return young;
}
EXPORT_SYMBOL_GPL(__hydra_young);

/*
 * Set the accessed bits of replicas in the canonical entries. Each entry is folded once:
 * need_resched() may end the part before its first entry is cleared, and the caller comes
 * back to the same entry.
 */
static void hydra_fold_at_exit(struct hydra_table *t, pteval_t *entry, unsigned int nr)
{
	unsigned int d = 0, first = hydra_entry_index(entry), end = first + nr;
	pteval_t *copy;

	/* Exit goes through the table upwards. */
	if (t->changed > first) {
		entry += t->changed - first;
		first = t->changed;
	}
	if (first >= end)
		return;
	for (; (copy = hydra_replica_begin(t, entry, &d)); d++) {
		hydra_fold_accessed(copy, entry, t->level, end - first);
		hydra_replica_end(t, d);
	}
	t->changed = end;
}

/* How many times as many entries of a shared file one part of munmap() takes */
#define SHARED_FILE_TIMES	16

/**
 * __hydra_zap_part - entries of a leaf table are about to be cleared
 * @entry: the first entry
 * @addr: address of the entry
 * @end: the address after those of the entries
 * @shared: of a file that is mapped MAP_SHARED
 * @full: the whole address space is torn down
 *
 * Context: see hydra_zap_part().
 * Return: see hydra_zap_part().
 */
unsigned long __hydra_zap_part(pteval_t *entry, unsigned long addr, unsigned long end,
			       bool shared, bool full)
{
	struct hydra_table *t = hydra_table_of(entry);

	hydra_assert_leaf_locked(entry);
	if (!t)
		return end;
	/*
	 * Where pages of a shared file were written, zap_pte_range() flushes once for each part,
	 * under the table's lock. So such parts are larger: the lock is held over interrupts of
	 * other CPUs anyway.
	 */
	end = hydra_part(t, addr, end, shared && !full ? SHARED_FILE_TIMES : 1);
	if (full)
		hydra_fold_at_exit(t, entry, PHYS_PFN(end - addr));
	return end;
}

#include "tests/propagate-kunit.h"
