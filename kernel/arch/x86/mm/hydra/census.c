// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra_tables: the nodes of the page tables of an address space, and the
 * leaf entries that each domain reaches through them; hydra_map: which they are.
 */

#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>

#include "domain.h"
#include "home.h"
#include "settings.h"
#include "state.h"
#include "walk.h"
#include "table.h"

/* Number of tables to count before dropping mmap_lock for a moment */
#define TABLES_AT_ONCE	256

/* What one domain reaches */
struct hydra_reach {
	const struct hydra_domains *domains;
	unsigned int d;
	unsigned long local;		/* leaf entries, in tables on its home node */
	unsigned long remote;		/* leaf entries, in tables elsewhere */
	unsigned long hinting;		/* canonical entries marked by NUMA balancing */
};

/* Drop mmap_lock from time to time. Return: -EINTR if killed meanwhile. */
static int hydra_census_pause(struct mm_struct *mm, unsigned int *looked)
{
	if (++*looked % TABLES_AT_ONCE)
		return 0;
	mmap_write_unlock(mm);
	cond_resched();
	return mmap_write_lock_killable(mm);
}

/* Do the CPUs of the domain walk a domain tree? */
static bool hydra_has_own_tree(struct mm_struct *mm, unsigned int d)
{
	struct hydra_mm *h = mm_hydra(mm);
	struct hydra_domain *dom = h ? READ_ONCE(h->domain[d]) : NULL;

	return dom && READ_ONCE(dom->root) != mm->pgd;
}

/* The table that a domain walks in place of a canonical one; NULL: none */
static pteval_t *hydra_walked_by(pteval_t *canonical, unsigned int d, bool own_tree)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_table *t = hydra_word_table(word);

	if (!own_tree)
		return canonical;
	if (t)
		return READ_ONCE(t->table[d]);
	return word == hydra_solo(d) ? canonical : NULL;
}

static void hydra_count_reach(struct hydra_reach *reach, enum pg_level level, pteval_t *table,
			      pteval_t *canonical)
{
	unsigned int i;

	for (i = 0; i < PTRS_PER_PTE; i++) {
		pteval_t val = table ? READ_ONCE(table[i]) : 0;

		if (level == PG_LEVEL_4K ? hydra_present(val) : hydra_leaf(val)) {
			if (hydra_is_home_of(reach->domains, reach->d, table) &&
			    !hydra_page_is_away(virt_to_page(table)))
				reach->local++;
			else
				reach->remote++;
		}
		val = READ_ONCE(canonical[i]);
		if ((level == PG_LEVEL_4K || val & _PAGE_PSE) &&
		    (val & (_PAGE_PRESENT | _PAGE_PROTNONE)) == _PAGE_PROTNONE)
			reach->hinting++;
	}
}

static int hydra_census_domain(struct mm_struct *mm, unsigned int d, enum pg_level level,
			       struct hydra_reach *reach, unsigned int *looked)
{
	struct hydra_iter it = { .mm = mm, .level = level };
	pteval_t *canonical;
	spinlock_t *ptl;
	pte_t *pte;

	while (hydra_next_canonical(&it)) {
		canonical = it.table;
		pte = NULL;
		if (level == PG_LEVEL_4K) {
			/* The lock keeps the table's replicas, too. */
			pte = pte_offset_map_lock(mm, (pmd_t *)it.entry, it.addr, &ptl);
			if (!pte)
				continue;
			canonical = hydra_table_start((pteval_t *)pte);
		}
		hydra_count_reach(reach, level,
				  hydra_walked_by(canonical, d, hydra_has_own_tree(mm, d)),
				  canonical);
		if (pte)
			pte_unmap_unlock(pte, ptl);
		if (hydra_census_pause(mm, looked))
			return -EINTR;
	}
	return 0;
}

static void hydra_count_table(unsigned long *tables, pteval_t *table, unsigned int nr)
{
	tables[page_to_nid(virt_to_page(table))] += nr;
}

/* Count a canonical table, and the domains' tables in place of it. */
static void hydra_count_tables(unsigned long *tables, pteval_t *canonical)
{
	struct hydra_table *t = hydra_table_of(canonical);
	pteval_t *own;
	unsigned int d;

	hydra_count_table(tables, canonical, 1);
	for (d = 0; t && d < hydra_domains_of(t->hmm)->nr; d++) {
		own = READ_ONCE(t->table[d]);
		if (own && own != canonical)
			hydra_count_table(tables, own, 1);
	}
}

static int hydra_census_level(struct mm_struct *mm, enum pg_level level, unsigned long *tables,
			      unsigned int *looked)
{
	struct hydra_iter it = { .mm = mm, .level = level };
	spinlock_t *ptl;
	pte_t *pte;

	while (hydra_next_canonical(&it)) {
		if (level != PG_LEVEL_4K) {
			hydra_count_tables(tables, it.table);
		} else {
			pte = pte_offset_map_lock(mm, (pmd_t *)it.entry, it.addr, &ptl);
			if (pte) {
				hydra_count_tables(tables, hydra_table_start((pteval_t *)pte));
				pte_unmap_unlock(pte, ptl);
			}
		}
		if (hydra_census_pause(mm, looked))
			return -EINTR;
	}
	return 0;
}

static void hydra_count_root(unsigned long *tables, pgd_t *root)
{
	unsigned int i;

	hydra_count_table(tables, (pteval_t *)root, 1 << PGD_ALLOCATION_ORDER);
	for (i = 0; pgtable_l5_enabled() && i < PGD_KERNEL_START; i++)
		if (!pgd_none(root[i]))
			hydra_count_table(tables, (pteval_t *)pgd_page_vaddr(root[i]), 1);
}

static void hydra_count_roots(struct mm_struct *mm, unsigned long *tables)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	struct hydra_domain *dom;
	unsigned int d;

	hydra_count_root(tables, mm->pgd);
	for (d = 0; h && d < hydra_nr_domains; d++) {
		dom = READ_ONCE(h->domain[d]);
		if (dom)
			hydra_count_root(tables, dom->pgd);
	}
}

/*
 * The domains to count for. If the scope changes during the count, the other
 * domains have no trees.
 */
static const struct hydra_domains *hydra_census_domains(struct mm_struct *mm)
{
	unsigned int scope = hydra_scope_of(hydra_choice_of(mm));

	return &hydra_domains[scope ?: HYDRA_SCOPE_NODE];
}

/* Context: mmap_lock held for writing; dropped on return, also with -EINTR. */
static int hydra_census(struct mm_struct *mm, unsigned int nr, struct hydra_reach *reach,
			unsigned long *tables)
{
	unsigned int d, looked = 0;
	enum pg_level level;

	hydra_count_roots(mm, tables);
	for (level = PG_LEVEL_4K; level <= PG_LEVEL_1G; level++) {
		for (d = 0; d < nr; d++)
			if (hydra_census_domain(mm, d, level, &reach[d], &looked))
				return -EINTR;
		if (hydra_census_level(mm, level, tables, &looked))
			return -EINTR;
	}
	mmap_write_unlock(mm);
	return 0;
}

/**
 * hydra_show_tables - the nodes of an address space's page tables
 * @mm: the address space, active or not
 * @m: the file to write to
 *
 * Prints for each domain: the leaf entries that its CPUs reach through a table on
 * the home node, and through a table on another node; and the entries marked by
 * NUMA balancing, which no domain reaches before the next fault. Prints for each
 * node: the memory in tables.
 *
 * Drops mmap_lock after some tables and takes it again, so the numbers are from
 * several moments.
 *
 * Context: process context, no locks; takes mmap_lock for writing.
 * Return: 0, -ENOMEM or -EINTR.
 */
int hydra_show_tables(struct mm_struct *mm, struct seq_file *m)
{
	unsigned long *tables = kcalloc(nr_node_ids, sizeof(*tables), GFP_KERNEL);
	const struct hydra_domains *domains = hydra_census_domains(mm);
	struct hydra_reach *reach = kcalloc(domains->nr, sizeof(*reach), GFP_KERNEL);
	int nid, ret = -ENOMEM;
	unsigned int d;

	if (!tables || !reach)
		goto free;
	for (d = 0; d < domains->nr; d++) {
		reach[d].domains = domains;
		reach[d].d = d;
	}
	ret = mmap_write_lock_killable(mm);
	if (!ret)
		ret = hydra_census(mm, domains->nr, reach, tables);
	if (ret)
		goto free;
	for (d = 0; d < domains->nr; d++)
		seq_printf(m, "domain %u node %d local_leaves %lu remote_leaves %lu hinting_leaves %lu\n",
			   d, domains->nid[d], reach[d].local, reach[d].remote,
			   reach[d].hinting);
	for_each_online_node(nid)
		seq_printf(m, "node %d pagetable_kib %lu\n", nid,
			   tables[nid] << (PAGE_SHIFT - 10));
free:
	kfree(reach);
	kfree(tables);
	return ret;
}

/* The node of the leaf table that a domain walks; NUMA_NO_NODE: none */
static int hydra_leaf_nid(struct mm_struct *mm, unsigned int d, const struct hydra_iter *it)
{
	int nid = NUMA_NO_NODE;
	pteval_t *table;
	spinlock_t *ptl;
	pte_t *pte;

	/* The lock keeps the table's replicas, too. */
	pte = pte_offset_map_lock(mm, (pmd_t *)it->entry, it->addr, &ptl);
	if (!pte)
		return nid;
	table = hydra_walked_by(hydra_table_start((pteval_t *)pte), d, hydra_has_own_tree(mm, d));
	if (table)
		nid = page_to_nid(virt_to_page(table));
	pte_unmap_unlock(pte, ptl);
	return nid;
}

/*
 * The next range of one domain; its node is NUMA_NO_NODE if there is none.
 *
 * Context: mmap_lock held for writing; dropped on return, also with -EINTR.
 */
static int hydra_find_range(struct mm_struct *mm, struct hydra_map_range *range)
{
	struct hydra_iter it = { .mm = mm, .level = PG_LEVEL_4K, .next = range->end };
	unsigned int looked = 0;
	int nid;

	mmap_assert_write_locked(mm);
	range->nid = NUMA_NO_NODE;
	while (hydra_next_canonical(&it)) {
		nid = hydra_leaf_nid(mm, range->domain, &it);
		if (range->nid == NUMA_NO_NODE)
			range->start = it.addr;
		else if (nid != range->nid || it.addr != range->end)
			break;
		range->nid = nid;
		range->end = it.addr + PMD_SIZE;
		if (hydra_census_pause(mm, &looked))
			return -EINTR;
	}
	mmap_write_unlock(mm);
	return 0;
}

/**
 * hydra_map_next - where the next leaf tables are through which a domain reaches memory
 * @mm: the address space, active or not
 * @range: the last range; all zero: none yet
 *
 * A range has leaf tables next to each other, all on one node. The ranges of one
 * domain come after those of the last domain. mmap_lock is dropped after some
 * tables and between ranges, so they are from several moments.
 *
 * Context: process context, no locks; takes mmap_lock for writing.
 * Return: 1; 0 if there is no further range; -EINTR.
 */
int hydra_map_next(struct mm_struct *mm, struct hydra_map_range *range)
{
	const struct hydra_domains *domains = hydra_census_domains(mm);
	int ret;

	for (; range->domain < domains->nr; range->domain++, range->end = 0) {
		ret = mmap_write_lock_killable(mm);
		if (!ret)
			ret = hydra_find_range(mm, range);
		if (ret)
			return ret;
		if (range->nid != NUMA_NO_NODE)
			return 1;
	}
	return 0;
}
