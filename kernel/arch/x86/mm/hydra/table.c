// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables: struct hydra_table of a canonical table, the tables of the domain trees,
 * and how both are freed.
 *
 * Each domain tree mirrors the canonical tree: above the leaf tables, a domain's
 * table stands for the canonical table of the same level and address. struct
 * hydra_table::table of the canonical table points to it.
 *
 * Locking, outermost first:
 *
 * - The lock that Linux takes for the entries of a canonical table (the PTE lock,
 *   the PMD lock, mm->page_table_lock for a PUD table) guards the sharers of its
 *   struct hydra_table and the contents of its leaf replicas, and serialises all
 *   changes of its entries.
 * - hydra_domain.lock guards the entries of one domain's tree above its leaf
 *   tables, and struct hydra_table::table[] of that domain. It is innermost, never
 *   taken in interrupts; no memory is allocated and no interrupt sent under it.
 *
 * The CPU that links a leaf table writes hydra_table::users, and the word of a leaf
 * table with a single domain, under the lock of the leaf table.
 *
 * A CPU links a table under hydra_domain.lock, after reading under the lock that
 * the canonical entry still points to the canonical table. A CPU unlinking a
 * canonical table clears the entry first, and then cuts the links under the same
 * locks:
 *
 *     CPU 0: links the table               CPU 1: unlinks the canonical table
 *     ----------------------               ----------------------------------
 *     locks the domain                     clears the canonical entry
 *     reads the canonical entry            <full barrier>
 *     links the table                      locks the domain
 *     unlocks the domain                   cuts the link
 *
 * So no link is left, with or without the lock of the canonical table (some callers
 * of pmdp_collapse_flush() hold it).
 *
 * __hydra_install() is the exception: it writes the word of a new leaf table, and the
 * link to it, under the PMD lock alone. No other CPU can reach the new table. The
 * other writers of that link hold the PMD lock, too, or the lock of a table that the
 * PMD entry still points to, and the entry is none.
 *
 * Tables and struct hydra_table are freed after an RCU grace period. Code that
 * reads them without a lock runs with interrupts off, like every lockless walker of
 * Linux.
 */

#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <asm/pgalloc.h>
#include <asm/tlb.h>

#include "domain.h"
#include "replica.h"
#include "state.h"
#include "table.h"

/**
 * hydra_table_alloc - allocate a struct hydra_table
 * @h: address space
 * @gfp: how
 *
 * The object is in no counter that the OOM killer reads, like Linux's objects beside tables
 * (VMAs, locks of tables with lock debugging). It is made for a table that two domains use, or
 * whose user has a replica, and takes about 8 bytes for each domain of the scope: 600 bytes for
 * 64 domains, beside 4 KiB for each replica, which is counted. The memory cgroup is charged for
 * it. Roots are not counted either, as Linux does not count its own: there is one for each
 * domain.
 *
 * Return: the object, or NULL. The caller frees it with kfree() if no word points
 * to it.
 */
struct hydra_table *hydra_table_alloc(struct hydra_mm *h, gfp_t gfp)
{
	struct hydra_table *t;

	return kzalloc(struct_size(t, table, hydra_domains_of(h)->nr), gfp);
}

/**
 * hydra_table_init - initialise a new struct hydra_table
 * @t: from hydra_table_alloc()
 * @h: address space
 * @parent: of the canonical table one level up, NULL for a PUD table
 * @addr: any address it maps
 * @level: of the table
 */
void hydra_table_init(struct hydra_table *t, struct hydra_mm *h,
		      struct hydra_table *parent, unsigned long addr,
		      enum pg_level level)
{
	t->hmm = h;
	t->parent = parent;
	t->level = level;
	t->base = addr & page_level_mask(level + 1);
}

/**
 * hydra_table_find_or_alloc - the struct hydra_table of a table above the leaf
 * tables
 * @h: address space
 * @parent: of the canonical table one level up, NULL for a PUD table
 * @canonical: any entry of the canonical table
 * @addr: any address it maps
 * @gfp: how to allocate the object if there is none; 0: do not
 *
 * Context: the canonical table cannot be freed (a VMA in it is locked), or
 * interrupts are off and @gfp is 0.
 * Return: the object, or NULL.
 */
struct hydra_table *hydra_table_find_or_alloc(struct hydra_mm *h,
					      struct hydra_table *parent,
					      pteval_t *canonical, unsigned long addr,
					      gfp_t gfp)
{
	struct hydra_table *t = hydra_table_of(canonical), *old;

	if (t || !gfp)
		return t;
	t = hydra_table_alloc(h, gfp);
	if (!t)
		return NULL;
	hydra_table_init(t, h, parent, addr, parent ? PG_LEVEL_2M : PG_LEVEL_1G);
	old = hydra_word_try_table(hydra_ptdesc(canonical), t);
	if (old)
		kfree(t);
	return old ?: t;
}

/**
 * hydra_link - point an entry of a domain tree to a table, or clear it
 * @dom: the domain
 * @slot: the entry, below the root
 * @link: HYDRA_LINK or _PAGE_TABLE, and the address of the new table; 0 to cut the link
 *
 * Context: the domain's lock.
 */
void hydra_link(struct hydra_domain *dom, pteval_t *slot, pteval_t link)
{
	lockdep_assert_held(&dom->lock);
	/* CPUs may have a huge entry in their TLBs, and no flush would follow. */
	WARN_ON_ONCE(link && hydra_leaf(READ_ONCE(*slot)));
	/*
	 * The table's entries, and its sharers or word, before the link. Pairs with
	 * the address dependency in the page walk of hardware: once a CPU caches an
	 * entry through the link, hydra_range_sharers() finds the domain.
	 */
	smp_wmb();
	WRITE_ONCE(*slot, link);
}

/**
 * hydra_link_table - hydra_link() for a table above the leaf tables, which may be a root's
 * @t: of the canonical table
 * @d: the domain
 * @table: its table; NULL: clear the entry
 *
 * Context: hydra_domain.lock.
 */
void hydra_link_table(struct hydra_table *t, unsigned int d, pteval_t *table)
{
	struct hydra_domain *dom = t->hmm->domain[d];
	pteval_t link = table ? _PAGE_TABLE | __pa(table) : 0;

	if (t->parent) {
		hydra_link(dom, hydra_slot(t, d), link);
		return;
	}
	lockdep_assert_held(&dom->lock);
	/* As in hydra_link(). */
	smp_wmb();
	set_p4d(hydra_domain_p4d(dom, t->base), __p4d(link));
}

/**
 * hydra_domain_upper - give a domain its table for a canonical table
 * @t: of the canonical table, above the leaf tables; the domain has a table for the
 *	parent
 * @d: the domain
 * @entry: canonical entry that points to the canonical table
 * @want: value of @entry when the caller found the canonical table
 * @gfp: how to allocate
 *
 * Context: as hydra_table_find_or_alloc(); may sleep if @gfp does.
 * Return: 0 if the domain has the table now; -ENOMEM; -EAGAIN if @entry has
 * changed, or the address space is not active any more.
 */
int hydra_domain_upper(struct hydra_table *t, unsigned int d, pteval_t *entry,
		       pteval_t want, gfp_t gfp)
{
	struct hydra_mm *h = t->hmm;
	struct hydra_domain *dom = h->domain[d];
	pteval_t *page, *p4d_table = NULL;
	bool needs_p4d;
	int ret;

	page = hydra_page_alloc(h, d, gfp);
	if (!page)
		return -ENOMEM;
again:
	spin_lock(&dom->lock);
	/* Five levels of tables */
	needs_p4d = !t->parent && !hydra_domain_p4d(dom, t->base);
	if (t->table[d]) {
		ret = 0;
	} else if (!READ_ONCE(h->active) ||
		   !hydra_same_table(READ_ONCE(*(pteval_t *)entry), want) ||
		   (t->parent && !t->parent->table[d])) {
		ret = -EAGAIN;
	} else if (needs_p4d && !p4d_table) {
		ret = -ENOMEM;
	} else {
		if (needs_p4d) {
			/* As in hydra_link(). */
			smp_wmb();
			set_pgd(pgd_offset_pgd(dom->pgd, t->base),
				__pgd(_PAGE_TABLE | __pa(p4d_table)));
			atomic_long_inc(&dom->nr_upper);
			p4d_table = NULL;
		}
		WRITE_ONCE(t->table[d], page);
		/* CPUs of other domains may write the mask at the same time. */
		hydra_mask_set_atomic(d, &t->users);
		hydra_link_table(t, d, page);
		atomic_long_inc(&dom->nr_upper);
		page = NULL;
		ret = 0;
	}
	spin_unlock(&dom->lock);
	if (ret == -ENOMEM) {
		p4d_table = hydra_page_alloc(h, d, gfp);
		if (p4d_table)
			goto again;
	}
	if (page)
		hydra_page_free(h, page);
	if (p4d_table)
		hydra_page_free(h, p4d_table);
	return ret;
}
