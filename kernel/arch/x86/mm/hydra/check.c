// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checker: compares the tree of every domain with the canonical tree, and
 * reports where invariants 1 to 5 of Documentation/mm/hydra/rules.rst do not hold.
 *
 * The checker locks all VMAs for writing, so no fault runs. Reclaim, migration and
 * collapses still change entries, through the reverse map. So the checker locks
 * each leaf table, and then reads the canonical entry again: a collapse may have
 * unlinked the table.
 */

#include <linux/hydra_proc.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/seq_file.h>

#include "domain.h"
#include "home.h"
#include "platform.h"
#include "replica.h"
#include "wait.h"
#include "walk.h"
#include "table.h"

/* What is being checked, and the results */
struct hydra_checker {
	struct hydra_mm *h;
	struct seq_file *m;
	unsigned int d;			/* the domain whose tree it is */
	unsigned long tables;
	unsigned long entries;
	long violations;
};

static void hydra_violated(struct hydra_checker *w, int invariant, unsigned long addr,
			   const char *what)
{
	w->violations++;
	atomic_long_inc(&hydra_violations);
	if (w->m)
		seq_printf(w->m, "violation %d address 0x%lx domain %u: %s\n",
			   invariant, addr, w->d, what);
	else
		pr_err_ratelimited("hydra: invariant %d broken at 0x%lx, domain %u: %s\n",
				   invariant, addr, w->d, what);
}

/* Invariants 1 and 4 for one entry. */
static void hydra_check_copy(struct hydra_checker *w, unsigned long addr, pteval_t copy,
			     pteval_t val)
{
	/*
	 * Bits that may differ: hardware or hydra_derive() changes them in one of
	 * the two.
	 */
	const pteval_t may_differ = _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_RW |
				    HYDRA_PTE_SOFTWARE;

	w->entries++;
	if (!hydra_present(val)) {
		hydra_violated(w, 1, addr, "present where the canonical entry is not");
		return;
	}
	if ((copy ^ val) & PTE_PFN_MASK)
		hydra_violated(w, 1, addr, "another frame than the canonical entry");
	if ((copy & _PAGE_RW) && !(val & _PAGE_RW))
		hydra_violated(w, 1, addr, "writable where the canonical entry is not");
	if ((copy ^ val) & ~(may_differ | PTE_PFN_MASK))
		hydra_violated(w, 1, addr, "other attributes than the canonical entry");
	if ((copy & _PAGE_RW) && !(val & _PAGE_DIRTY))
		hydra_violated(w, 4, addr, "writable while the canonical entry is clean");
	if ((copy & _PAGE_DIRTY) && !(copy & _PAGE_RW) && (val & _PAGE_RW))
		hydra_violated(w, 1, addr, "a shadow stack where the canonical entry is none");
	if ((copy & _PAGE_DIRTY) && !(val & _PAGE_DIRTY))
		hydra_violated(w, 4, addr, "dirty while the canonical entry is clean");
}

/* A copy that is not present has no accessed bit: filter "accessed" rests on that. */
static void hydra_check_stray(struct hydra_checker *w, unsigned long addr, pteval_t copy)
{
	if (!hydra_trusts_accessed || !hydra_stray(copy))
		return;
	hydra_violated(w, 3, addr, "accessed and not present");
	hydra_stray_accessed();
}

/* Invariant 5, in part: the page is a page table, and has a reference. */
static bool hydra_check_alive(struct hydra_checker *w, unsigned long addr, pteval_t *table)
{
	struct page *page = virt_to_page(table);

	w->tables++;
	if (PageTable(page) && page_count(page) > 0)
		return true;
	hydra_violated(w, 5, addr, "leads to a page that is no table");
	return false;
}

/* The p4d entry of an address in the domain's tree, or NULL */
static pteval_t *hydra_own_p4d(struct hydra_checker *w, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(w->h->domain[w->d]->pgd, addr);

	return pgd_none(*pgd) ? NULL : (pteval_t *)p4d_offset(pgd, addr);
}

/* The entry that points to the domain's table in place of the canonical one */
static pteval_t *hydra_own_entry(struct hydra_checker *w, const struct hydra_iter *it,
				 struct hydra_table *parent)
{
	if (it->level == PG_LEVEL_1G)
		return hydra_own_p4d(w, it->addr);
	if (!parent || !parent->table[w->d])
		return NULL;
	return &parent->table[w->d][hydra_entry_index(it->entry)];
}

/* Invariants 2 and 3 for a leaf table that the domain reaches */
static bool hydra_check_leaf_table(struct hydra_checker *w, unsigned long addr,
				   struct hydra_table *parent, pteval_t *canonical,
				   pteval_t *table)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_table *t = hydra_word_table(word);

	if (!(t ? hydra_mask_test(w->d, &t->sharers) : word == hydra_solo(w->d))) {
		hydra_violated(w, 3, addr, "reaches a table it is no sharer of");
		return false;
	}
	if ((t ? t->table[w->d] : canonical) != table)
		hydra_violated(w, 3, addr, "reaches another table than it joined");
	if (t && (t->parent != parent || t->base != addr))
		hydra_violated(w, 3, addr, "reaches a table of another place");
	if (t && table != canonical && t->linked_hits != HYDRA_LINKS_CUT &&
	    hydra_is_home(w->h, w->d, canonical) && !hydra_has_owner(w->h, canonical))
		hydra_violated(w, 2, addr, "has a replica on its home without an owner");
	return true;
}

static void hydra_check_leaf(struct hydra_checker *w, const struct hydra_iter *it,
			     struct hydra_table *parent)
{
	pteval_t *canonical, *table, *own, val;
	spinlock_t *ptl;
	unsigned int i;
	pte_t *pte;

	pte = pte_offset_map_lock(w->h->mm, (pmd_t *)it->entry, it->addr, &ptl);
	if (!pte)
		return;
	own = hydra_own_entry(w, it, parent);
	if (!own || !hydra_present(READ_ONCE(*own)))
		goto unlock;
	canonical = hydra_table_start((pteval_t *)pte);
	table = hydra_next_table(READ_ONCE(*own));
	if (!hydra_check_alive(w, it->addr, table) ||
	    !hydra_check_leaf_table(w, it->addr, parent, canonical, table))
		goto unlock;
	for (i = 0; i < PTRS_PER_PTE; i++) {
		val = READ_ONCE(table[i]);
		if (table != canonical)
			hydra_check_stray(w, it->addr + i * PAGE_SIZE, val);
		if (!hydra_present(val))
			continue;
		if (table == canonical)
			w->entries++;
		else
			hydra_check_copy(w, it->addr + i * PAGE_SIZE, val,
					 READ_ONCE(canonical[i]));
	}
unlock:
	pte_unmap_unlock(pte, ptl);
}

/* An entry above the leaf tables: the canonical or the domain's points to no table. */
static void hydra_check_huge(struct hydra_checker *w, struct hydra_table *t,
			     pteval_t *entry, pteval_t *own, unsigned long addr)
{
	spinlock_t *ptl = t->level == PG_LEVEL_2M ?
			  pmd_lockptr(w->h->mm, (pmd_t *)entry) :
			  pud_lockptr(w->h->mm, (pud_t *)entry);
	pteval_t val, copy;

	spin_lock(ptl);
	val = READ_ONCE(*entry);
	copy = READ_ONCE(*own);
	hydra_check_stray(w, addr, copy);
	if (hydra_leaf(copy)) {
		if (!hydra_mask_test(w->d, &t->sharers))
			hydra_violated(w, 3, addr, "copy of an entry it is no sharer of");
		hydra_check_copy(w, addr, copy, hydra_leaf(val) ? val : 0);
	} else if (hydra_present(copy) && hydra_leaf(val)) {
		hydra_violated(w, 1, addr, "a table where the canonical entry is huge");
	} else if (hydra_present(copy) && !hydra_present(val)) {
		hydra_violated(w, 5, addr, "a table where the canonical tree has none");
	}
	spin_unlock(ptl);
}

/* A PMD or PUD table */
static void hydra_check_upper(struct hydra_checker *w, const struct hydra_iter *it,
			      struct hydra_table *parent)
{
	pteval_t *own = hydra_own_entry(w, it, parent), *table;
	struct hydra_table *t = hydra_table_of(it->table);
	unsigned long size = page_level_size(it->level);
	unsigned int i;

	if (!own || !hydra_present(*own))
		return;
	table = hydra_next_table(*own);
	if (!hydra_check_alive(w, it->addr, table))
		return;
	if (!t || t->table[w->d] != table || t->parent != parent) {
		hydra_violated(w, 3, it->addr, "a table that stands for none");
		return;
	}
	for (i = 0; i < PTRS_PER_PTE; i++)
		if (!hydra_is_table(READ_ONCE(it->table[i])) &&
		    (READ_ONCE(it->table[i]) || READ_ONCE(table[i])))
			hydra_check_huge(w, t, &it->table[i], &table[i],
					 it->addr + i * size);
}

/* Tables of the domain where the canonical tree has none */
static void hydra_check_roots(struct hydra_checker *w)
{
	unsigned long addr;
	pteval_t *own;
	pgd_t *pgd;

	for (addr = 0; addr < TASK_SIZE_MAX; addr = hydra_next_p4d(addr)) {
		own = hydra_own_p4d(w, addr);
		pgd = pgd_offset(w->h->mm, addr);
		if (own && hydra_present(*own) &&
		    (pgd_none(*pgd) || p4d_none(*p4d_offset(pgd, addr))))
			hydra_violated(w, 5, addr, "a table where the canonical tree has none");
	}
}

static void hydra_check_domain(struct hydra_checker *w)
{
	struct hydra_iter it = { .mm = w->h->mm };
	struct hydra_table *parent;

	hydra_check_roots(w);
	for (it.level = PG_LEVEL_1G; it.level >= PG_LEVEL_4K; it.level--) {
		it.next = 0;
		while (hydra_next_canonical(&it)) {
			parent = it.level < PG_LEVEL_1G ? hydra_table_of(it.entry) : NULL;
			if (it.level == PG_LEVEL_4K)
				hydra_check_leaf(w, &it, parent);
			else
				hydra_check_upper(w, &it, parent);
			cond_resched();
		}
	}
}

/* Invariant 3 where no domain has a tree: none is left of a return. Context: mmap_lock */
static void hydra_check_plain(struct hydra_checker *w, struct mm_struct *mm)
{
	struct hydra_iter it = { .mm = mm, .level = PG_LEVEL_4K };
	unsigned long word;
	bool more;

	do {
		/* A collapse of a file's pages frees a table without mmap_lock, by RCU. */
		scoped_guard(rcu) {
			more = hydra_next_canonical(&it);
			word = more ? hydra_word_of(it.table) : 0;
		}
		if (word)
			hydra_violated(w, 3, it.addr, "a table has a domain, and no domain a tree");
		cond_resched();
	} while (more);
}

/**
 * hydra_check_mm - test invariants 1 to 5 on all trees of an address space
 * @mm: the address space
 * @m: the file to report to, NULL: the kernel log
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: number of violations, or -EINTR.
 */
long hydra_check_mm(struct mm_struct *mm, struct seq_file *m)
{
	struct hydra_checker w = { .m = m };

	/* At exit a fatal signal may be pending: check all the same. */
	if (!m)
		mmap_write_lock(mm);
	else if (mmap_write_lock_killable(mm))
		return -EINTR;
	if (hydra_lock_out_faults(mm, true)) {
		mmap_write_unlock(mm);
		return -EINTR;
	}
	w.h = mm_hydra(mm);
	if (!w.h)
		hydra_check_plain(&w, mm);
	for (; w.h && w.d < hydra_domains_of(w.h)->nr; w.d++)
		if (w.h->domain[w.d])
			hydra_check_domain(&w);
	mmap_write_unlock(mm);
	if (m && w.violations)
		seq_printf(m, "violations %ld\n", w.violations);
	else if (m)
		seq_printf(m, "ok tables %lu entries %lu\n", w.tables,
			   w.entries);
	return w.violations;
}
