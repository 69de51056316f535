// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checker: walks the tree of every domain beside the canonical one and says
 * where the invariants of Documentation/mm/hydra.rst (1 to 5) do not hold. And
 * the census, which walks the same way and counts.
 *
 * Both keep faults out by locking all VMAs for writing. What comes through the
 * reverse map still changes entries, so leaf tables are looked at under their
 * lock, with the canonical entry checked once more: a collapse may take the
 * table away before.
 */

#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/seq_file.h>

#include <asm/pgalloc.h>

#include "internal.h"

/* Violations found since boot. */
atomic_long_t hydra_violations;

struct hydra_walk {
	struct hydra_mm *h;		/* NULL: canonical tree only */
	struct mm_struct *mm;
	struct seq_file *m;
	unsigned int d;
	unsigned long tables;
	unsigned long entries;
	long violations;
	bool check;			/* else count */
	unsigned long local;
	unsigned long remote;
};

static void violated(struct hydra_walk *w, int invariant, unsigned long addr,
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
static void check_copy(struct hydra_walk *w, unsigned long addr, pteval_t copy,
		       pteval_t val)
{
	/* Bits that hardware and the derivation may set apart. */
	const pteval_t may_differ = _PAGE_ACCESSED | _PAGE_DIRTY | _PAGE_RW |
				    _PAGE_SOFTW1 | _PAGE_SOFTW2 | _PAGE_SOFTW3 |
				    _PAGE_SOFTW4 | _PAGE_SAVED_DIRTY;

	w->entries++;
	if (!hydra_present(val)) {
		violated(w, 1, addr, "present where the canonical entry is not");
		return;
	}
	if ((copy ^ val) & PTE_PFN_MASK)
		violated(w, 1, addr, "another frame than the canonical entry");
	if ((copy & _PAGE_RW) && !(val & _PAGE_RW))
		violated(w, 1, addr, "writable where the canonical entry is not");
	if ((copy ^ val) & ~(may_differ | PTE_PFN_MASK))
		violated(w, 1, addr, "other attributes than the canonical entry");
	if ((copy & _PAGE_RW) && !(val & _PAGE_DIRTY))
		violated(w, 4, addr, "writable while the canonical entry is clean");
	if ((copy & _PAGE_DIRTY) && !(copy & _PAGE_RW) && (val & _PAGE_RW))
		violated(w, 1, addr, "a shadow stack where the canonical entry is none");
	if ((copy & _PAGE_DIRTY) && !(val & _PAGE_DIRTY))
		violated(w, 4, addr, "dirty while the canonical entry is clean");
}

/* Invariant 5, as far as a look can tell: a page that is a table, and held. */
static bool check_alive(struct hydra_walk *w, unsigned long addr, void *table)
{
	struct page *page = virt_to_page(table);

	w->tables++;
	if (PageTable(page) && page_count(page) > 0)
		return true;
	violated(w, 5, addr, "leads to a page that is no table");
	return false;
}

static void count_entry(struct hydra_walk *w, pteval_t val, void *table)
{
	if (!hydra_present(val))
		return;
	if (page_to_nid(virt_to_page(table)) == hydra_domain_home[w->d])
		w->local++;
	else
		w->remote++;
}

/* @up: the domain's PMD table, NULL when walking for the canonical tree. */
static void walk_leaf(struct hydra_walk *w, struct hydra_table *parent,
		      pmd_t *pmd, pteval_t *up, unsigned long addr)
{
	pteval_t *canonical, *table, link;
	struct hydra_table *t;
	unsigned long word;
	spinlock_t *ptl;
	unsigned int i;
	pte_t *pte;

	pte = pte_offset_map_lock(w->mm, pmd, addr, &ptl);
	if (!pte)
		return;
	canonical = hydra_table_start(pte);
	table = canonical;
	if (up) {
		link = READ_ONCE(*up);
		if (!hydra_present(link))
			goto unlock;
		table = hydra_next_table(link);
		if (w->check && !check_alive(w, addr, table))
			goto unlock;
		word = hydra_word_of(pte);
		t = hydra_word_table(word);
		if (w->check && !(t ? hydra_mask_test(w->d, &t->sharers) :
				      word == hydra_solo(w->d))) {
			violated(w, 3, addr, "reaches a table it is no sharer of");
			goto unlock;
		}
		if (w->check && (t ? t->table[w->d] : canonical) != table)
			violated(w, 3, addr, "reaches another table than it joined");
		if (w->check && t && (t->parent != parent || t->base != addr))
			violated(w, 3, addr, "reaches a table of another place");
		if (w->check && table != canonical &&
		    page_to_nid(virt_to_page(canonical)) == hydra_domain_home[w->d])
			violated(w, 2, addr, "is the owner and has a replica");
	}
	for (i = 0; i < PTRS_PER_PTE; i++) {
		pteval_t val = READ_ONCE(table[i]);

		if (!w->check)
			count_entry(w, val, table);
		else if (hydra_present(val) && table != canonical)
			check_copy(w, addr + i * PAGE_SIZE, val,
				   READ_ONCE(canonical[i]));
		else if (hydra_present(val))
			w->entries++;
	}
unlock:
	pte_unmap_unlock(pte, ptl);
}

/* One entry above the leaf tables that maps memory, here or there. */
static void walk_huge(struct hydra_walk *w, spinlock_t *ptl, pteval_t *entry,
		      pteval_t *up, struct hydra_table *t, unsigned long addr)
{
	pteval_t val, copy;

	spin_lock(ptl);
	val = READ_ONCE(*entry);
	copy = up ? READ_ONCE(*up) : val;
	if (!w->check) {
		if (hydra_leaf(copy))
			count_entry(w, copy, hydra_table_start(up ?: entry));
	} else if (hydra_leaf(copy)) {
		if (!hydra_mask_test(w->d, &t->sharers))
			violated(w, 3, addr, "copy of an entry it is no sharer of");
		check_copy(w, addr, copy, hydra_leaf(val) ? val : 0);
	} else if (hydra_present(copy) && hydra_leaf(val)) {
		violated(w, 1, addr, "a table where the canonical entry is huge");
	} else if (hydra_present(copy) && !hydra_present(val)) {
		violated(w, 5, addr, "a table where the canonical tree has none");
	}
	spin_unlock(ptl);
}

static void walk_pmds(struct hydra_walk *w, struct hydra_table *parent,
		      pud_t *pud, pteval_t *up, unsigned long addr)
{
	pmd_t *pmd = pmd_offset(pud, addr);
	struct hydra_table *t = hydra_table_of(pmd);
	pteval_t *table = NULL;
	unsigned int i;

	if (up) {
		if (!hydra_present(*up))
			return;
		table = hydra_next_table(*up);
		if (w->check && !check_alive(w, addr, table))
			return;
		if (!t || t->table[w->d] != table || t->parent != parent) {
			if (w->check)
				violated(w, 3, addr, "a PMD table that stands for none");
			return;
		}
	}
	for (i = 0; i < PTRS_PER_PMD; i++, pmd++, addr += PMD_SIZE) {
		pteval_t val = pmd_val(READ_ONCE(*pmd));
		pteval_t *slot = table ? table + i : NULL;

		if (hydra_present(val) && !hydra_leaf(val))
			walk_leaf(w, t, pmd, slot, addr);
		else if (hydra_leaf(val) || (slot && hydra_present(*slot)))
			walk_huge(w, pmd_lockptr(w->mm, pmd), (pteval_t *)pmd,
				  slot, t, addr);
		cond_resched();
	}
}

static void walk_puds(struct hydra_walk *w, p4d_t *p4d, pteval_t up,
		      unsigned long addr)
{
	pud_t *pud = pud_offset(p4d, addr);
	struct hydra_table *t = hydra_table_of(pud);
	pteval_t *table = NULL;
	unsigned int i;

	if (w->h) {
		if (!hydra_present(up))
			return;
		table = hydra_next_table(up);
		if (w->check && !check_alive(w, addr, table))
			return;
		if (!t || t->table[w->d] != table) {
			if (w->check)
				violated(w, 3, addr, "a PUD table that stands for none");
			return;
		}
	}
	for (i = 0; i < PTRS_PER_PUD; i++, pud++, addr += PUD_SIZE) {
		pteval_t val = pud_val(READ_ONCE(*pud));
		pteval_t *slot = table ? table + i : NULL;

		if (hydra_present(val) && !hydra_leaf(val))
			walk_pmds(w, t, pud, slot, addr);
		else if (hydra_leaf(val) || (slot && hydra_present(*slot)))
			walk_huge(w, pud_lockptr(w->mm, pud), (pteval_t *)pud,
				  slot, t, addr);
	}
}

/* Walk the tree of w->d, or the canonical one in its stead if w->h is NULL. */
static void walk_domain(struct hydra_walk *w)
{
	unsigned long addr = 0, next;

	do {
		pgd_t *pgd = pgd_offset(w->mm, addr);
		p4d_t *p4d, *own;
		pteval_t up = 0;

		if (pgd_none(*pgd)) {
			next = pgd_addr_end(addr, TASK_SIZE_MAX);
			continue;
		}
		next = hydra_next_p4d(addr);
		p4d = p4d_offset(pgd, addr);
		if (w->h) {
			pgd = pgd_offset_pgd(w->h->domain[w->d]->pgd, addr);
			own = pgd_none(*pgd) ? NULL : p4d_offset(pgd, addr);
			up = own ? p4d_val(*own) : 0;
		}
		if (!hydra_present(p4d_val(*p4d))) {
			if (w->check && hydra_present(up))
				violated(w, 5, addr, "a table where the canonical tree has none");
			continue;
		}
		walk_puds(w, p4d, up, addr & P4D_MASK);
	} while (addr = next, addr < TASK_SIZE_MAX);
}

/**
 * hydra_check - test invariants 1 to 5 on all trees of an address space
 * @mm: the address space
 * @m: where to say what was found, NULL: the kernel log
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: number of violations, or -EINTR.
 */
long hydra_check(struct mm_struct *mm, struct seq_file *m)
{
	struct hydra_walk w = { .mm = mm, .m = m, .check = true };

	/* At exit a fatal signal may be pending, and is no reason not to look. */
	if (!m)
		mmap_write_lock(mm);
	else if (mmap_write_lock_killable(mm))
		return -EINTR;
	hydra_lock_out_faults(mm);
	w.h = hydra_active(mm);
	for (; w.h && w.d < hydra_nr_domains; w.d++)
		if (w.h->domain[w.d])
			walk_domain(&w);
	mmap_write_unlock(mm);
	if (m && w.violations)
		seq_printf(m, "violations %ld\n", w.violations);
	else if (m)
		seq_printf(m, "ok tables %lu entries %lu\n", w.tables,
			   w.entries);
	return w.violations;
}

static void count_table(unsigned long *tables, void *table, unsigned int nr)
{
	tables[page_to_nid(virt_to_page(table))] += nr;
}

/* A canonical table and what hangs on it. */
static void census_table(unsigned long *tables, void *entry)
{
	struct hydra_table *t = hydra_table_of(entry);
	pteval_t *canonical = hydra_table_start(entry);
	unsigned int d;

	count_table(tables, canonical, 1);
	for (d = 0; t && d < hydra_nr_domains; d++)
		if (t->table[d] && t->table[d] != canonical)
			count_table(tables, t->table[d], 1);
}

static void census_pmds(struct mm_struct *mm, unsigned long *tables,
			pud_t *pud, unsigned long addr)
{
	pmd_t *pmd = pmd_offset(pud, addr);
	unsigned int i;

	census_table(tables, pmd);
	for (i = 0; i < PTRS_PER_PMD; i++, pmd++, addr += PMD_SIZE) {
		pteval_t val = pmd_val(READ_ONCE(*pmd));
		spinlock_t *ptl;
		pte_t *pte;

		if (!hydra_present(val) || hydra_leaf(val))
			continue;
		pte = pte_offset_map_lock(mm, pmd, addr, &ptl);
		if (!pte)
			continue;
		census_table(tables, pte);
		pte_unmap_unlock(pte, ptl);
	}
}

static void census_root(unsigned long *tables, pgd_t *root)
{
	unsigned int i;

	count_table(tables, root, 1 << PGD_ALLOCATION_ORDER);
	for (i = 0; pgtable_l5_enabled() && i < PGD_KERNEL_START; i++)
		if (!pgd_none(root[i]))
			count_table(tables, (void *)pgd_page_vaddr(root[i]), 1);
}

static void census(struct mm_struct *mm, unsigned long *tables)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned long addr = 0, next;
	unsigned int d, i;

	census_root(tables, mm->pgd);
	for (d = 0; h && d < hydra_nr_domains; d++)
		if (h->domain[d])
			census_root(tables, h->domain[d]->pgd);
	do {
		pgd_t *pgd = pgd_offset(mm, addr);
		p4d_t *p4d;
		pud_t *pud;

		if (pgd_none(*pgd)) {
			next = pgd_addr_end(addr, TASK_SIZE_MAX);
			continue;
		}
		next = hydra_next_p4d(addr);
		p4d = p4d_offset(pgd, addr);
		if (!hydra_present(p4d_val(*p4d)))
			continue;
		pud = pud_offset(p4d, addr & P4D_MASK);
		census_table(tables, pud);
		for (i = 0; i < PTRS_PER_PUD; i++)
			if (hydra_present(pud_val(pud[i])) &&
			    !hydra_leaf(pud_val(pud[i])))
				census_pmds(mm, tables, &pud[i],
					    (addr & P4D_MASK) + i * PUD_SIZE);
	} while (addr = next, addr < TASK_SIZE_MAX);
}

/**
 * hydra_show_tables - where the page tables of an address space are
 * @mm: the address space, active or not
 * @m: where to
 *
 * For each domain, the leaf entries that its CPUs reach through a table on
 * its home node and through one elsewhere; for each node, the memory in tables.
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0, -ENOMEM or -EINTR.
 */
int hydra_show_tables(struct mm_struct *mm, struct seq_file *m)
{
	unsigned long *tables = kcalloc(nr_node_ids, sizeof(*tables), GFP_KERNEL);
	unsigned int d;
	int nid;

	if (!tables)
		return -ENOMEM;
	if (mmap_write_lock_killable(mm)) {
		kfree(tables);
		return -EINTR;
	}
	hydra_lock_out_faults(mm);
	for (d = 0; d < hydra_nr_domains; d++) {
		struct hydra_walk w = { .mm = mm, .d = d };

		w.h = hydra_active(mm);
		/* A domain without a tree walks the canonical one. */
		if (w.h && (!w.h->domain[d] || w.h->domain[d]->root == mm->pgd))
			w.h = NULL;
		walk_domain(&w);
		seq_printf(m, "domain %u node %d local_leaves %lu remote_leaves %lu\n",
			   d, hydra_domain_nid[d], w.local, w.remote);
	}
	census(mm, tables);
	mmap_write_unlock(mm);
	for_each_online_node(nid)
		seq_printf(m, "node %d pagetable_kib %lu\n", nid,
			   tables[nid] << (PAGE_SHIFT - 10));
	kfree(tables);
	return 0;
}
