// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables: what hangs on a canonical table for the domains' sake, the tables of
 * the domain trees, and how both go.
 *
 * The domain trees mirror the canonical one: where a domain has a table above
 * the leaf tables, it stands for the canonical table of the same level and
 * address, and is found through struct hydra_table::table of that one.
 *
 * Locking, outermost first:
 *
 *  - the lock Linux takes for the entries of a canonical table (the pte lock,
 *    the pmd lock, mm->page_table_lock for a PUD table) guards the sharers of
 *    its struct hydra_table, the contents of its leaf replicas, and serialises
 *    all changes of its entries;
 *  - hydra_domain.lock guards the entries of one domain's tree above its leaf
 *    tables, and struct hydra_table::table[] of that domain. Innermost, never
 *    taken in interrupts, nothing is allocated or sent under it.
 *
 * A link is made under hydra_domain.lock after looking, under that lock, whether
 * the canonical entry still points to the table it is for. Who takes a table
 * out of the canonical tree clears that entry first and then cuts the links
 * under the same locks. So none is left behind, with or without the table's
 * own lock (pmdp_collapse_flush() has it in some callers and not in others).
 *
 * Tables and struct hydra_table are freed after an RCU grace period. Code that
 * finds them without a lock runs with interrupts off, like every lockless
 * walker of Linux, and so is waited for by tlb_remove_table()'s fallback, too.
 */

#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>
#include <asm/tlb.h>

#include "internal.h"

/* Bytes of replicas that one address space may have; ULONG_MAX: no limit. */
unsigned long hydra_replica_limit __read_mostly = ULONG_MAX;

/**
 * hydra_table_alloc - allocate a struct hydra_table
 * @gfp: how
 *
 * Return: it, or NULL. To be freed with kfree() while nobody has seen it.
 */
struct hydra_table *hydra_table_alloc(gfp_t gfp)
{
	struct hydra_table *t;

	return kzalloc(struct_size(t, table, hydra_nr_domains), gfp);
}

/**
 * hydra_table_init - fill in a new struct hydra_table
 * @t: from hydra_table_alloc()
 * @h: address space
 * @parent: of the canonical table one level up, NULL for HYDRA_PUD
 * @canonical: any entry of the canonical table
 * @addr: any address it maps
 * @level: of the table
 */
void hydra_table_init(struct hydra_table *t, struct hydra_mm *h,
		      struct hydra_table *parent, void *canonical,
		      unsigned long addr, u8 level)
{
	/* Address bits a table of each level translates. */
	static const u8 shift[] = {
		[HYDRA_PTE] = PMD_SHIFT,
		[HYDRA_PMD] = PUD_SHIFT,
		[HYDRA_PUD] = P4D_SHIFT,
	};

	t->hmm = h;
	t->parent = parent;
	t->level = level;
	t->base = addr & ~((1UL << shift[level]) - 1);
	t->index = (addr >> shift[level]) % PTRS_PER_PTE;
	t->owner = hydra_node_owner(page_to_nid(virt_to_page(canonical)));
}

/**
 * hydra_table_get - the struct hydra_table of a table above the leaf tables
 * @h: address space
 * @parent: of the canonical table one level up, NULL for HYDRA_PUD
 * @canonical: any entry of the canonical table
 * @addr: any address it maps
 * @level: HYDRA_PMD or HYDRA_PUD
 * @gfp: how to allocate it if there is none; 0: do not
 *
 * Context: the canonical table cannot go (a VMA it maps is locked), or
 * interrupts are off and @gfp is 0.
 * Return: it, or NULL.
 */
struct hydra_table *hydra_table_get(struct hydra_mm *h,
				    struct hydra_table *parent,
				    void *canonical, unsigned long addr,
				    u8 level, gfp_t gfp)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(canonical);
	struct hydra_table *t = hydra_ptdesc_table(ptdesc);
	unsigned long old;

	if (t || !gfp)
		return t;
	t = hydra_table_alloc(gfp);
	if (!t)
		return NULL;
	hydra_table_init(t, h, parent, canonical, addr, level);
	old = cmpxchg(&ptdesc->__page_mapping, 0, (unsigned long)t);
	if (old) {
		kfree(t);
		t = (struct hydra_table *)old;
	}
	return t;
}

/**
 * hydra_page_alloc - allocate a table of a domain tree
 * @h: address space; the table is charged to it
 * @nid: node to take it from; add __GFP_THISNODE to insist
 * @gfp: how
 *
 * Return: a table of empty entries, or NULL.
 */
pteval_t *hydra_page_alloc(struct hydra_mm *h, int nid, gfp_t gfp)
{
	struct page *page = alloc_pages_node(nid, gfp | __GFP_ZERO | __GFP_COMP, 0);

	if (!page)
		return NULL;
	if (!pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	mm_inc_nr_ptes(h->mm);
	return page_address(page);
}

/* Give back what a table was charged for; it is still to be freed. */
static struct ptdesc *hydra_page_retire(struct hydra_mm *h, pteval_t *table)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(table);

	if (!hydra_breaks(HYDRA_BREAK_KEEP_CHARGE))
		mm_dec_nr_ptes(h->mm);
	pagetable_pte_dtor(ptdesc);
	return ptdesc;
}

static void hydra_page_free_rcu(struct rcu_head *head)
{
	pagetable_free(container_of(head, struct ptdesc, pt_rcu_head));
}

/**
 * hydra_page_free - free a table of a domain tree after a grace period
 * @h: address space
 * @table: the table; no CPU can walk it any more, or will not be able to when
 *	the caller leaves the non-preemptible section it is in
 */
void hydra_page_free(struct hydra_mm *h, pteval_t *table)
{
	struct ptdesc *ptdesc = hydra_page_retire(h, table);

	/* Room in the memory cgroup now: who has reclaimed does not wait for RCU. */
	memcg_kmem_uncharge_page(ptdesc_page(ptdesc), 0);
	call_rcu(&ptdesc->pt_rcu_head, hydra_page_free_rcu);
}

/**
 * hydra_pte_alloc_one - a canonical leaf table
 * @gfp: how
 *
 * On the node of the domain that asks, whatever policy the process has for
 * its data: that domain is the owner and walks the table.
 *
 * Return: a constructed table, or NULL.
 */
struct page *hydra_pte_alloc_one(gfp_t gfp)
{
	struct page *page;

	page = alloc_pages_node(hydra_domain_home[hydra_this_domain()],
				gfp | __GFP_COMP, 0);
	if (page && !pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	return page;
}

/* The p4d entry of a domain tree under which everything at @addr hangs. */
static p4d_t *domain_p4d(struct hydra_domain *dom, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(dom->pgd, addr);

	if (pgtable_l5_enabled() && pgd_none(*pgd))
		return NULL;
	return p4d_offset(pgd, addr);
}

/**
 * hydra_slot_get - the entry that holds a domain's table for a canonical table
 * @t: of the canonical table
 * @d: the domain
 *
 * Context: the domain's lock, or nobody changes the tree.
 * Return: value of the entry, 0 if the tree does not reach so far.
 */
pteval_t hydra_slot_get(struct hydra_table *t, unsigned int d)
{
	pteval_t *up;
	p4d_t *p4d;

	if (t->parent) {
		up = t->parent->table[d];
		return up ? READ_ONCE(up[t->index]) : 0;
	}
	p4d = domain_p4d(&t->hmm->domain[d], t->base);
	return p4d ? p4d_val(READ_ONCE(*p4d)) : 0;
}

/**
 * hydra_slot_set - point a domain tree to a table, or away from it
 * @t: of the canonical table
 * @d: the domain; its tree reaches so far
 * @table: new table, NULL to cut the link
 *
 * Context: the domain's lock.
 */
void hydra_slot_set(struct hydra_table *t, unsigned int d, pteval_t *table)
{
	struct hydra_domain *dom = &t->hmm->domain[d];
	pteval_t val = table ? _PAGE_TABLE | __pa(table) : 0;

	lockdep_assert_held(&dom->lock);
	/* The table's entries, and its sharers, before the way to them. */
	smp_wmb();
	if (t->parent) {
		pteval_t *slot = &t->parent->table[d][t->index];

		/* Else its CPUs may have it cached, and nobody would flush. */
		WARN_ON_ONCE(table && hydra_leaf(READ_ONCE(*slot)));
		WRITE_ONCE(*slot, val);
	} else {
		set_p4d(domain_p4d(dom, t->base), __p4d(val));
	}
}

/**
 * hydra_domain_upper - let a domain have its table for a canonical table
 * @t: of the canonical table, above the leaf tables; the domain has one for
 *	its parent
 * @d: the domain
 * @entry: canonical entry that points to the canonical table
 * @want: what it has to hold for the table to still be part of the tree
 * @gfp: how to allocate
 *
 * Context: as hydra_table_get(); may sleep if @gfp does.
 * Return: 0 if the domain has it now, -ENOMEM, or -EAGAIN if the canonical table
 * or the domain tree has gone.
 */
int hydra_domain_upper(struct hydra_table *t, unsigned int d, void *entry,
		       pteval_t want, gfp_t gfp)
{
	struct hydra_mm *h = t->hmm;
	struct hydra_domain *dom = &h->domain[d];
	pteval_t *page = NULL;
	int ret = 0;

again:
	if (!page) {
		page = hydra_page_alloc(h, hydra_domain_home[d], gfp);
		if (!page)
			return -ENOMEM;
	}
	spin_lock(&dom->lock);
	if (t->table[d]) {
		ret = 0;
	} else if (!READ_ONCE(h->active) ||
		   !hydra_same_table(READ_ONCE(*(pteval_t *)entry), want) ||
		   (t->parent && !t->parent->table[d])) {
		ret = -EAGAIN;
	} else if (!t->parent && !domain_p4d(dom, t->base)) {
		/* Five levels: the page becomes the p4d table on the way. */
		smp_wmb();
		set_pgd(pgd_offset_pgd(dom->pgd, t->base),
			__pgd(_PAGE_TABLE | __pa(page)));
		atomic_long_inc(&dom->nr_upper);
		spin_unlock(&dom->lock);
		page = NULL;
		goto again;
	} else {
		WRITE_ONCE(t->table[d], page);
		hydra_slot_set(t, d, page);
		atomic_long_inc(&dom->nr_upper);
		page = NULL;
	}
	spin_unlock(&dom->lock);
	if (page)
		hydra_page_free(h, page);
	return ret;
}

/**
 * hydra_table_detach - take a canonical table out of Hydra's care
 * @ptdesc: the table
 *
 * Context: the table is out of the canonical tree, or its address space is
 * not active any more.
 * Return: its struct hydra_table, to be cut and released, or NULL.
 */
struct hydra_table *hydra_table_detach(struct ptdesc *ptdesc)
{
	if (!READ_ONCE(ptdesc->__page_mapping))
		return NULL;
	return (struct hydra_table *)xchg(&ptdesc->__page_mapping, 0);
}

/**
 * hydra_fold_accessed - what a domain has accessed goes to the canonical entries
 * @table: the domain's table
 * @canonical: the canonical table, whose entries stay
 * @level: of both
 *
 * By cmpxchg: not all callers have the lock of the table.
 */
void hydra_fold_accessed(pteval_t *table, pteval_t *canonical, u8 level)
{
	unsigned int i;

	if (hydra_breaks(HYDRA_BREAK_DROP_ACCESSED))
		return;
	for (i = 0; i < PTRS_PER_PTE; i++) {
		pteval_t copy = READ_ONCE(table[i]), val;

		if (!hydra_present(copy) || !(copy & _PAGE_ACCESSED) ||
		    (level != HYDRA_PTE && !hydra_leaf(copy)))
			continue;
		val = READ_ONCE(canonical[i]);
		while (hydra_present(val) && !((copy ^ val) & PTE_PFN_MASK) &&
		       !try_cmpxchg(&canonical[i], &val, val | _PAGE_ACCESSED))
			;
	}
}

/**
 * hydra_table_cut_domain - cut a domain's link to its table
 * @t: of the canonical table
 * @d: the domain
 * @canonical: the canonical table
 *
 * Return: what the domain walked there, not to be freed before the domain has
 * been flushed, if it is not the canonical table; NULL if nothing.
 */
pteval_t *hydra_table_cut_domain(struct hydra_table *t, unsigned int d,
				 void *canonical)
{
	struct hydra_domain *dom = &t->hmm->domain[d];
	pteval_t *table;

	spin_lock(&dom->lock);
	table = t->table[d];
	if (table) {
		if (!hydra_breaks(HYDRA_BREAK_KEEP_LINK) || t->level != HYDRA_PTE)
			hydra_slot_set(t, d, NULL);
		WRITE_ONCE(t->table[d], NULL);
	}
	spin_unlock(&dom->lock);
	if (!table || table == canonical)
		return table;
	if (t->level == HYDRA_PTE) {
		atomic_long_dec(&dom->nr_replicas);
		hydra_reclaim_remove(table);
		atomic_long_dec(&t->hmm->nr_replicas);
	} else {
		atomic_long_dec(&dom->nr_upper);
	}
	return table;
}

/*
 * Cut the links of all domains to a table. Leaves the domains' own tables in
 * @own, to be freed once flushed, and their number in @nr.
 * Return: the domains whose CPUs may have cached the way through the table.
 */
static u64 hydra_table_cut(struct hydra_table *t, void *canonical,
			   pteval_t **own, unsigned int *nr)
{
	u64 users = READ_ONCE(t->sharers);
	unsigned int d;

	*nr = 0;
	for (d = 0; d < hydra_nr_domains; d++) {
		pteval_t *table = hydra_table_cut_domain(t, d, canonical);

		if (!table)
			continue;
		users |= BIT_ULL(d);
		if (table != canonical)
			own[(*nr)++] = table;
	}
	return users;
}

/**
 * __hydra_free_table - a canonical table is being freed through a gather
 * @tlb: the gather; its range and freed_tables cover the table already
 * @ptdesc: the table; the entry that pointed to it is cleared
 * @ptl: lock of a leaf table, NULL for a table above
 *
 * All links are cut and the sharers noted before anything is handed to the
 * gather: handing over may flush, and what is handed over after a flush is not
 * flushed for again.
 *
 * Context: may sleep or not, as pte_free_tlb(); no page-table lock held.
 */
void __hydra_free_table(struct mmu_gather *tlb, struct ptdesc *ptdesc,
			spinlock_t *ptl)
{
	pteval_t *own[HYDRA_MAX_DOMAINS];
	struct hydra_table *t;
	unsigned int i, nr;
	u64 users;

	/*
	 * An atomic fill holds no VMA, and may have looked at the canonical
	 * entry before it was cleared: then it holds the leaf table's lock, and
	 * may be making the struct hydra_table. Wait for it. A later one finds
	 * the entry cleared. Where the lock is allocated apart from the table it
	 * is freed next, not after a grace period, so wait for any atomic fill.
	 */
	if (ALLOC_SPLIT_PTLOCKS && hydra_mm(tlb->mm)) {
		/* The entry cleared before the look; pairs with the fill. */
		smp_mb();
		while (atomic_read(&tlb->mm->hydra->atomic_fills))
			cpu_relax();
	} else if (ptl) {
		spin_lock(ptl);
		spin_unlock(ptl);
	}
	t = hydra_table_detach(ptdesc);
	if (!t)
		return;
	users = hydra_table_cut(t, ptdesc_address(ptdesc), own, &nr);
	tlb->hydra.users |= users;
	for (i = 0; i < nr; i++)
		tlb_remove_table(tlb, ptdesc_page(hydra_page_retire(t->hmm, own[i])));
	kfree_rcu(t, rcu);
}

/**
 * hydra_table_release - free the tables of a detached canonical table
 * @t: from hydra_table_detach()
 * @canonical: the canonical table, which is not freed
 *
 * Context: as hydra_page_free().
 */
void hydra_table_release(struct hydra_table *t, void *canonical)
{
	pteval_t *own[HYDRA_MAX_DOMAINS];
	unsigned int i, nr;

	hydra_table_cut(t, canonical, own, &nr);
	for (i = 0; i < nr; i++) {
		hydra_fold_accessed(own[i], canonical, t->level);
		hydra_page_free(t->hmm, own[i]);
	}
	kfree_rcu(t, rcu);
}

/**
 * hydra_free_p4ds - free the p4d tables of all domain trees
 * @h: address space; its other tables are gone, no CPU has it loaded
 *
 * They are the one level without a canonical table that would take them along:
 * there is one of them for 256 TiB.
 */
void hydra_free_p4ds(struct hydra_mm *h)
{
	unsigned int d, i;

	if (!pgtable_l5_enabled())
		return;
	for (d = 0; d < hydra_nr_domains; d++) {
		struct hydra_domain *dom = &h->domain[d];

		for (i = 0; dom->pgd && i < PGD_KERNEL_START; i++) {
			if (pgd_none(dom->pgd[i]))
				continue;
			hydra_page_free(h, (pteval_t *)pgd_page_vaddr(dom->pgd[i]));
			atomic_long_dec(&dom->nr_upper);
			set_pgd(&dom->pgd[i], __pgd(0));
		}
	}
}
