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
 * hydra_table::users and the word of a leaf table that a single domain links are
 * written by the CPU that makes the link, under the lock of the leaf table.
 *
 * A link is made under hydra_domain.lock after looking, under that lock, whether
 * the canonical entry still points to the table it is for. Who takes a table
 * out of the canonical tree clears that entry first and then cuts the links
 * under the same locks. So none is left behind, with or without the table's
 * own lock (pmdp_collapse_flush() has it in some callers and not in others).
 *
 * Tables and struct hydra_table are freed after an RCU grace period. Code that
 * finds them without a lock runs with interrupts off, like every lockless
 * walker of Linux.
 */

#include <linux/export.h>
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>
#include <asm/tlb.h>

#include "internal.h"

/* See hydra_shared(). */
unsigned long hydra_word_base __ro_after_init;
EXPORT_SYMBOL_GPL(hydra_word_base);
static_assert(sizeof(struct page) == 1 << HYDRA_DESCRIPTOR_SHIFT);

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
	struct hydra_table *t = hydra_table_of(canonical);
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

	/* Room in the memory cgroup now: the shrinker's caller does not wait for RCU. */
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
	p4d = domain_p4d(t->hmm->domain[d], t->base);
	return p4d ? p4d_val(READ_ONCE(*p4d)) : 0;
}

/**
 * hydra_link - point an entry of a domain tree to a table, or away from it
 * @dom: the domain
 * @slot: the entry, below the root
 * @table: new table, NULL to cut the link
 *
 * Context: the domain's lock.
 */
void hydra_link(struct hydra_domain *dom, pteval_t *slot, pteval_t *table)
{
	lockdep_assert_held(&dom->lock);
	/* Else its CPUs may have it cached, and no flush would follow. */
	WARN_ON_ONCE(table && hydra_leaf(READ_ONCE(*slot)));
	/*
	 * The table's entries, and its sharers or word, before the way to them.
	 * Pairs with the walks of the hardware and of hydra_range_sharers().
	 */
	smp_wmb();
	WRITE_ONCE(*slot, table ? _PAGE_TABLE | __pa(table) : 0);
}

/* The same for a domain's table that stands for that of @t. */
static void link_table(struct hydra_table *t, unsigned int d, pteval_t *table)
{
	struct hydra_domain *dom = t->hmm->domain[d];

	if (t->parent) {
		hydra_link(dom, &t->parent->table[d][t->index], table);
		return;
	}
	lockdep_assert_held(&dom->lock);
	/* As in hydra_link(). */
	smp_wmb();
	set_p4d(domain_p4d(dom, t->base),
		__p4d(table ? _PAGE_TABLE | __pa(table) : 0));
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
	struct hydra_domain *dom = h->domain[d];
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
		/* Other domains write the mask at the same time. */
		hydra_mask_set_atomic(d, &t->users);
		link_table(t, d, page);
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
 * not active any more. A CPU that may have been about to write the word has been
 * waited for, and finds the table gone from now on.
 * Return: its word: what is left to be cut and released.
 */
unsigned long hydra_table_detach(struct ptdesc *ptdesc)
{
	unsigned long word = READ_ONCE(ptdesc->__page_mapping);

	if (word)
		WRITE_ONCE(ptdesc->__page_mapping, 0);
	return word;
}

/**
 * hydra_fold_accessed - what a domain has accessed goes to the canonical entries
 * @copies: entries of the domain's table
 * @canonical: the canonical ones
 * @level: of both tables
 * @nr: how many entries
 *
 * By cmpxchg: not all callers have the lock of the table.
 */
void hydra_fold_accessed(pteval_t *copies, pteval_t *canonical, u8 level,
			 unsigned int nr)
{
	unsigned int i;

	if (hydra_breaks(HYDRA_BREAK_DROP_ACCESSED))
		return;
	for (i = 0; i < nr; i++) {
		pteval_t copy = READ_ONCE(copies[i]), val;

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
	struct hydra_domain *dom = t->hmm->domain[d];
	pteval_t *table;

	spin_lock(&dom->lock);
	table = t->table[d];
	if (table) {
		if (!hydra_breaks(HYDRA_BREAK_KEEP_LINK) || t->level != HYDRA_PTE)
			link_table(t, d, NULL);
		WRITE_ONCE(t->table[d], NULL);
		hydra_mask_clear_atomic(d, &t->users);
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
 * Cut the links of all domains to a table. The domains' own tables go to the
 * list @own, to be freed once the domains are flushed.
 *
 * No domain joins the table meanwhile: it is out of the canonical tree, and a
 * domain that had looked at the entry before holds a lock that the caller has
 * waited for. So the mask of users is final.
 */
static void hydra_table_cut(struct hydra_table *t, void *canonical,
			    struct list_head *own)
{
	hydra_mask_t users = t->users;
	unsigned int d;

	for_each_hydra_domain(d, &users) {
		pteval_t *table = hydra_table_cut_domain(t, d, canonical);

		if (table && table != canonical)
			list_add(&virt_to_ptdesc(table)->pt_list, own);
	}
}

/**
 * hydra_cut_solo - cut the link of the one domain that used a leaf table
 * @parent: of the PMD table that the leaf table hung on
 * @index: of its entry there
 * @d: the domain
 *
 * Context: the leaf table is out of the canonical tree, its word is taken.
 */
void hydra_cut_solo(struct hydra_table *parent, unsigned int index,
		    unsigned int d)
{
	struct hydra_domain *dom = parent->hmm->domain[d];

	if (hydra_breaks(HYDRA_BREAK_KEEP_LINK))
		return;
	spin_lock(&dom->lock);
	if (parent->table[d])
		hydra_link(dom, &parent->table[d][index], NULL);
	spin_unlock(&dom->lock);
}

/* As many as Linux frees in one RCU callback. */
#define FREED_AT_ONCE	512

/**
 * hydra_gather_table - a table is to be freed a grace period after the flush
 * @tlb: the gather; it has been told that tables are freed
 * @ptdesc: the table, of the canonical tree or of a domain's, with word 0
 *
 * Linux's own list of such tables is a page, which may not be to be had. These hang
 * on one another by their words, without the sign, so they stand for no
 * struct hydra_table.
 *
 * Context: any.
 */
void hydra_gather_table(struct mmu_gather *tlb, struct ptdesc *ptdesc)
{
	struct hydra_gather *g = &tlb->hydra;

	if (!g->notes) {
		tlb_remove_table(tlb, ptdesc_page(ptdesc));
		return;
	}
	VM_WARN_ON_ONCE(!tlb->freed_tables);
	WRITE_ONCE(ptdesc->__page_mapping, (unsigned long)g->freed & LONG_MAX);
	g->freed = ptdesc;
}

static struct ptdesc *next_freed(struct ptdesc *ptdesc)
{
	unsigned long next = ptdesc->__page_mapping;

	return next ? (struct ptdesc *)(next | ~LONG_MAX) : NULL;
}

static void free_gathered(struct rcu_head *head)
{
	struct ptdesc *ptdesc = container_of(head, struct ptdesc, pt_rcu_head), *next;

	for (; ptdesc; ptdesc = next) {
		next = next_freed(ptdesc);
		ptdesc->__page_mapping = 0;
		pagetable_free(ptdesc);
	}
}

/**
 * hydra_gather_flushed - a gather has flushed: its tables can go
 * @g: Hydra's part of the gather, which takes notes
 *
 * Lockless walkers of Linux keep interrupts off and count on the flush to wait for
 * them. A CPU that is spared does not hear of it, so RCU has to wait.
 *
 * Context: any.
 */
void hydra_gather_flushed(struct hydra_gather *g)
{
	struct ptdesc *first, *last;
	unsigned int nr;

	while ((first = g->freed)) {
		for (nr = 1, last = first; nr < FREED_AT_ONCE && next_freed(last); nr++)
			last = next_freed(last);
		g->freed = next_freed(last);
		WRITE_ONCE(last->__page_mapping, 0);
		if (hydra_breaks(HYDRA_BREAK_FREE_EARLY))
			free_gathered(&first->pt_rcu_head);
		else
			call_rcu(&first->pt_rcu_head, free_gathered);
	}
}

/**
 * __hydra_free_table - a canonical table is being freed through a gather
 * @tlb: the gather; its range and freed_tables cover the table already
 * @ptdesc: the table; the entry that pointed to it is cleared
 * @ptl: lock of a leaf table, NULL for a table above
 * @addr: an address that the table mapped, if it is a leaf table
 *
 * All links are cut and the sharers noted before anything is handed to the
 * gather: if the gather takes no notes, handing over may flush, and what is handed
 * over after a flush is not flushed for again.
 *
 * Context: may sleep or not, as pte_free_tlb(); no page-table lock held.
 */
void __hydra_free_table(struct mmu_gather *tlb, struct ptdesc *ptdesc,
			spinlock_t *ptl, unsigned long addr)
{
	void *canonical = ptdesc_address(ptdesc);
	struct hydra_table *t;
	struct ptdesc *next;
	unsigned long word;
	unsigned int d;
	LIST_HEAD(own);

	/*
	 * An atomic fill holds no VMA, and may have looked at the canonical
	 * entry before it was cleared: then it holds the leaf table's lock, and
	 * may be making the link. Wait for it. A later one finds the entry
	 * cleared. Where the lock is allocated apart from the table it is freed
	 * next, not after a grace period, so wait for any atomic fill.
	 */
	if (ALLOC_SPLIT_PTLOCKS) {
		/* The entry cleared before the look; pairs with the fill. */
		smp_mb();
		while (atomic_read(&tlb->mm->hydra->atomic_fills))
			cpu_relax();
	} else if (ptl) {
		spin_lock(ptl);
		spin_unlock(ptl);
	}
	word = hydra_table_detach(ptdesc);
	if (hydra_word_solo(word)) {
		pmd_t *pmd = hydra_canonical_pmd(tlb->mm, addr);

		d = hydra_word_domain(word);
		if (tlb->hydra.notes)
			hydra_mask_set(d, &tlb->hydra.users);
		hydra_cut_solo(hydra_table_of(pmd), pmd_index(addr), d);
	}
	t = hydra_word_table(word);
	if (!t)
		return;
	if (tlb->hydra.notes) {
		hydra_mask_add(&tlb->hydra.users, &t->sharers);
		hydra_mask_add(&tlb->hydra.users, &t->users);
	}
	hydra_table_cut(t, canonical, &own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list) {
		hydra_page_retire(t->hmm, ptdesc_address(ptdesc));
		hydra_gather_table(tlb, ptdesc);
	}
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
	struct ptdesc *ptdesc, *next;
	LIST_HEAD(own);

	hydra_table_cut(t, canonical, &own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list) {
		hydra_fold_accessed(ptdesc_address(ptdesc), canonical, t->level,
				    PTRS_PER_PTE);
		hydra_page_free(t->hmm, ptdesc_address(ptdesc));
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
		struct hydra_domain *dom = h->domain[d];

		for (i = 0; dom && i < PGD_KERNEL_START; i++) {
			if (pgd_none(dom->pgd[i]))
				continue;
			hydra_page_free(h, (pteval_t *)pgd_page_vaddr(dom->pgd[i]));
			atomic_long_dec(&dom->nr_upper);
			set_pgd(&dom->pgd[i], __pgd(0));
		}
	}
}

static int __init hydra_table_setup(void)
{
	hydra_word_base = (unsigned long)virt_to_page((void *)PAGE_OFFSET) +
			  offsetof(struct ptdesc, __page_mapping) -
			  ((PAGE_OFFSET >> PAGE_SHIFT) << HYDRA_DESCRIPTOR_SHIFT);
	return 0;
}
core_initcall(hydra_table_setup);
