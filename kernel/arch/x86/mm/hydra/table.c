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

#include "internal.h"

/* See hydra_shared(). */
unsigned long hydra_word_base __ro_after_init;
EXPORT_SYMBOL_GPL(hydra_word_base);
static_assert(sizeof(struct page) == 1 << HYDRA_DESCRIPTOR_SHIFT);

/*
 * Bytes of replicas that one address space may have, and that all of them together may
 * have; ULONG_MAX: no limit.
 */
unsigned long hydra_replica_limit __read_mostly = ULONG_MAX;
unsigned long hydra_total_limit __read_mostly = ULONG_MAX;

/* Replicas that this CPU has reserved, less those that it has given back */
DEFINE_PER_CPU(long, hydra_replicas);

/**
 * hydra_replicas_total - how many replicas there are on the machine
 *
 * Context: any. Return: the number, with those that are being allocated.
 */
unsigned long hydra_replicas_total(void)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(hydra_replicas, cpu));
	return max(sum, 0L);
}

/**
 * hydra_table_alloc - allocate a struct hydra_table
 * @h: address space
 * @gfp: how
 *
 * The object is in no counter that the OOM killer reads, like Linux's objects beside tables
 * (VMAs, locks of tables with lock debugging). It is made for a table that two domains use, or
 * whose user has a replica, and takes about 8 bytes for each domain of the kind: 600 bytes for
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

	return kzalloc(struct_size(t, table, hydra_kind_of(h)->nr), gfp);
}

/**
 * hydra_table_init - initialise a new struct hydra_table
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
	/* Of the entry that points to the table */
	unsigned int shift = hydra_entry_shift(level + 1);

	t->hmm = h;
	t->parent = parent;
	t->level = level;
	t->base = addr & ~((1UL << shift) - 1);
	t->index = (addr >> shift) % PTRS_PER_PTE;
}

/**
 * hydra_table_find_or_alloc - the struct hydra_table of a table above the leaf
 * tables
 * @h: address space
 * @parent: of the canonical table one level up, NULL for HYDRA_PUD
 * @canonical: any entry of the canonical table
 * @addr: any address it maps
 * @level: HYDRA_PMD or HYDRA_PUD
 * @gfp: how to allocate the object if there is none; 0: do not
 *
 * Context: the canonical table cannot be freed (a VMA in it is locked), or
 * interrupts are off and @gfp is 0.
 * Return: the object, or NULL.
 */
struct hydra_table *hydra_table_find_or_alloc(struct hydra_mm *h,
					      struct hydra_table *parent,
					      void *canonical, unsigned long addr,
					      u8 level, gfp_t gfp)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(canonical);
	struct hydra_table *t = hydra_table_of(canonical);
	unsigned long old;

	if (t || !gfp)
		return t;
	t = hydra_table_alloc(h, gfp);
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
 * @h: address space, which is charged for the table
 * @d: the domain, on whose home node the table is, or in whose group's pool
 * @gfp: how; with __GFP_THISNODE on no other node
 *
 * Return: a table of empty entries, or NULL.
 */
pteval_t *hydra_page_alloc(struct hydra_mm *h, unsigned int d, gfp_t gfp)
{
	const struct hydra_kind *kind = hydra_kind_of(h);
	struct page *page = NULL;

	if (hydra_has_pools(kind)) {
		page = hydra_pool_get(d);
		/* A replica from anywhere is no better than a link to Linux's table. */
		if (!page && gfp & __GFP_THISNODE)
			return NULL;
	}
	if (!page)
		page = alloc_pages_node(kind->home[d], gfp | __GFP_ZERO | __GFP_COMP, 0);
	if (!page)
		return NULL;
	if (!pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	mm_inc_nr_ptes(h->mm);
	return page_address(page);
}

/* Uncharge a table, which the caller frees next. */
static struct ptdesc *hydra_page_retire(struct hydra_mm *h, pteval_t *table)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(table);

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
 * @table: the table; a CPU can walk it at most until the CPU's interrupts are on again: a
 *	CPU that leaves the address space still has the root for some instructions
 *
 * The memory cgroup is charged until then.
 */
void hydra_page_free(struct hydra_mm *h, pteval_t *table)
{
	struct ptdesc *ptdesc = hydra_page_retire(h, table);

	call_rcu(&ptdesc->pt_rcu_head, hydra_page_free_rcu);
}

/**
 * hydra_page_free_uncharged - hydra_page_free() of a replica that the shrinker has dropped
 * @h: address space
 * @table: the table
 *
 * Uncharges the memory cgroup now: the shrinker's caller does not wait for RCU. Not before the
 * destructor, which takes the table from the cgroup's statistics.
 */
void hydra_page_free_uncharged(struct hydra_mm *h, pteval_t *table)
{
	struct ptdesc *ptdesc = hydra_page_retire(h, table);

	memcg_kmem_uncharge_page(ptdesc_page(ptdesc), 0);
	call_rcu(&ptdesc->pt_rcu_head, hydra_page_free_rcu);
}

/**
 * hydra_pte_alloc_one - allocate a canonical leaf table
 * @gfp: how
 *
 * The table is on the home node of this CPU's node, which is the home of its domain of
 * every kind, but for domains that have to span nodes. The memory policy that the process
 * has for its data does not matter: this domain walks the table.
 *
 * Return: a constructed table, or NULL.
 */
struct page *hydra_pte_alloc_one(gfp_t gfp)
{
	unsigned int node = raw_cpu_read(hydra_cpu_domain[HYDRA_DOMAINS_NODE]);
	struct page *page = NULL;

	if (static_branch_unlikely(&hydra_pools_key))
		page = hydra_pool_get(node);
	if (!page)
		page = alloc_pages_node(hydra_kinds[HYDRA_DOMAINS_NODE].home[node],
					gfp | __GFP_COMP, 0);
	if (page && !pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	return page;
}

/* The p4d entry of an address in a domain tree */
static p4d_t *hydra_domain_p4d(struct hydra_domain *dom, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(dom->pgd, addr);

	if (pgtable_l5_enabled() && pgd_none(*pgd))
		return NULL;
	return p4d_offset(pgd, addr);
}

/**
 * hydra_link - point an entry of a domain tree to a table, or clear it
 * @dom: the domain
 * @slot: the entry, below the root
 * @table: new table, NULL to cut the link
 *
 * Context: the domain's lock.
 */
void hydra_link(struct hydra_domain *dom, pteval_t *slot, pteval_t *table)
{
	lockdep_assert_held(&dom->lock);
	/* CPUs may have a huge entry in their TLBs, and no flush would follow. */
	WARN_ON_ONCE(table && hydra_leaf(READ_ONCE(*slot)));
	/*
	 * The table's entries, and its sharers or word, before the link. Pairs with
	 * the address dependency in the page walk of hardware: once a CPU caches an
	 * entry through the link, hydra_range_sharers() finds the domain.
	 */
	smp_wmb();
	WRITE_ONCE(*slot, table ? _PAGE_TABLE | __pa(table) : 0);
}

/* The same for the domain's table that stands for the table of @t */
static void hydra_link_table(struct hydra_table *t, unsigned int d, pteval_t *table)
{
	struct hydra_domain *dom = t->hmm->domain[d];

	if (t->parent) {
		hydra_link(dom, &t->parent->table[d][t->index], table);
		return;
	}
	lockdep_assert_held(&dom->lock);
	/* As in hydra_link(). */
	smp_wmb();
	set_p4d(hydra_domain_p4d(dom, t->base),
		__p4d(table ? _PAGE_TABLE | __pa(table) : 0));
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
int hydra_domain_upper(struct hydra_table *t, unsigned int d, void *entry,
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

/**
 * hydra_table_detach - clear the word of a canonical table
 * @ptdesc: the table
 *
 * Context: the canonical entry is cleared, or the address space is not active any
 * more. The caller has waited for CPUs that read the entry before and may write the
 * word. Later CPUs read the entry as none.
 * Return: the old word: what the caller has to cut and release.
 */
unsigned long hydra_table_detach(struct ptdesc *ptdesc)
{
	unsigned long word = READ_ONCE(ptdesc->__page_mapping);

	if (word)
		WRITE_ONCE(ptdesc->__page_mapping, 0);
	return word;
}

/**
 * hydra_fold_accessed - set the accessed bits of copies in the canonical entries
 * @copies: entries of the domain's table
 * @canonical: the canonical entries
 * @level: of both tables
 * @nr: how many entries
 *
 * With cmpxchg(), as some callers do not hold the lock of the table; at most one for each
 * canonical entry, however many domains have accessed it.
 */
void hydra_fold_accessed(pteval_t *copies, pteval_t *canonical, u8 level,
			 unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		pteval_t copy = READ_ONCE(copies[i]), val;

		if (!hydra_present(copy) || !(copy & _PAGE_ACCESSED) ||
		    (level != HYDRA_PTE && !hydra_leaf(copy)))
			continue;
		val = READ_ONCE(canonical[i]);
		while (hydra_present(val) && !(val & _PAGE_ACCESSED) &&
		       !((copy ^ val) & PTE_PFN_MASK) &&
		       !try_cmpxchg(&canonical[i], &val, val | _PAGE_ACCESSED))
			;
	}
}

/**
 * hydra_has_owner - does a domain whose home a leaf table is on link the table?
 * @h: address space
 * @canonical: the table
 *
 * A domain of another home, which could not have a replica, does not count.
 *
 * Context: the leaf table's lock.
 * Return: true if there is such a domain.
 */
bool hydra_has_owner(const struct hydra_mm *h, const void *canonical)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_table *t = hydra_word_table(word);
	unsigned int d;

	if (!t)
		return hydra_word_solo(word) &&
		       hydra_is_home(h, hydra_word_domain(word), canonical);
	for_each_hydra_domain(d, &t->users)
		if (READ_ONCE(t->table[d]) == canonical && hydra_is_home(h, d, canonical))
			return true;
	return false;
}

/**
 * hydra_table_cut_domain - cut a domain's link to its table
 * @t: of the canonical table
 * @d: the domain
 * @canonical: the canonical table
 *
 * Return: the table that the domain walked, or NULL. If it is not @canonical, the
 * caller flushes the domain and then frees it.
 */
pteval_t *hydra_table_cut_domain(struct hydra_table *t, unsigned int d,
				 void *canonical)
{
	struct hydra_domain *dom = t->hmm->domain[d];
	pteval_t *table;

	spin_lock(&dom->lock);
	table = t->table[d];
	if (table) {
		hydra_link_table(t, d, NULL);
		WRITE_ONCE(t->table[d], NULL);
		hydra_mask_clear_atomic(d, &t->users);
	}
	spin_unlock(&dom->lock);
	if (!table || table == canonical)
		return table;
	if (t->level == HYDRA_PTE) {
		atomic_long_dec(&dom->nr_replicas);
		hydra_reclaim_remove(table);
		hydra_replica_unreserve(t->hmm);
	} else {
		atomic_long_dec(&dom->nr_upper);
	}
	return table;
}

/*
 * With five levels of tables: cut a domain's link to a p4d table without entries. A p4d
 * table maps 256 TiB, so it stands for no table that is freed while the process lives. It
 * has an entry whenever the domain's lock is free: hydra_domain_upper() links it with its
 * first entry, and it is cut after its last one. So none is left when the last PUD table
 * is freed, at exit or before.
 *
 * Return: the table, or NULL. The caller flushes the domain and then frees it.
 */
static pteval_t *hydra_cut_p4d_table(struct hydra_domain *dom, unsigned long addr)
{
	pgd_t *pgd = pgd_offset_pgd(dom->pgd, addr);
	pteval_t *table = NULL;

	if (!pgtable_l5_enabled())
		return NULL;
	spin_lock(&dom->lock);
	if (!pgd_none(*pgd))
		table = (pteval_t *)pgd_page_vaddr(*pgd);
	if (table && !memchr_inv(table, 0, PAGE_SIZE)) {
		set_pgd(pgd, __pgd(0));
		atomic_long_dec(&dom->nr_upper);
	} else {
		table = NULL;
	}
	spin_unlock(&dom->lock);
	return table;
}

/*
 * Cut the links of all domains to a table. The domains' own tables are added to the
 * list @own, for the caller to free once the domains are flushed.
 *
 * No domain joins the table meanwhile, so the mask of users is final: the canonical
 * entry is cleared, and the caller has waited for the locks of CPUs that read the
 * entry before.
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
		table = t->parent ? NULL : hydra_cut_p4d_table(t->hmm->domain[d], t->base);
		if (table)
			list_add(&virt_to_ptdesc(table)->pt_list, own);
	}
}

/**
 * hydra_cut_solo - cut the link of the one domain that uses a leaf table
 * @parent: of the PMD table that pointed to the leaf table
 * @index: of the entry there
 * @d: the domain
 *
 * Context: the canonical entry and the word of the leaf table are cleared.
 */
void hydra_cut_solo(struct hydra_table *parent, unsigned int index,
		    unsigned int d)
{
	struct hydra_domain *dom = parent->hmm->domain[d];

	spin_lock(&dom->lock);
	if (parent->table[d])
		hydra_link(dom, &parent->table[d][index], NULL);
	spin_unlock(&dom->lock);
}

/* As many as Linux frees in one RCU callback. */
#define FREED_AT_ONCE	512

/*
 * Run the destructor of a canonical leaf table or PMD table. ___pte_free_tlb() and
 * ___pmd_free_tlb() do not run it under Hydra: with lock debugging the destructor
 * frees the lock of the table, and an atomic fill may still try the lock. The
 * destructors of all other tables have run already.
 *
 * call_rcu() may have overwritten pt_rcu_head, two words of the ptdesc. As in
 * pte_free_now(), pagetable_pte_dtor() needs neither; CONFIG_DEBUG_VM looks at bit 0
 * of the first word, for tail pages, and the bit is clear in the pointer there.
 * pagetable_pmd_dtor() would also test the second word, pmd_huge_pte, which is lost
 * by then: hydra_remove_pmd_table() tests it before. Otherwise the two destructors do
 * the same, so pagetable_pte_dtor() serves PMD tables, too.
 */
static void hydra_retire_locked(struct ptdesc *ptdesc)
{
	if (folio_test_pgtable(ptdesc_folio(ptdesc)))
		pagetable_pte_dtor(ptdesc);
}

/**
 * hydra_gather_table - free a table a grace period after the flush of a gather
 * @tlb: the gather, with freed_tables set
 * @ptdesc: the table, canonical or of a domain tree, with word 0
 *
 * Linux collects such tables in a page, which it may fail to allocate. Here the
 * tables form a list through their words. The sign bit of these words is clear, so
 * hydra_shared() does not take them for a struct hydra_table.
 *
 * Context: any.
 */
void hydra_gather_table(struct mmu_gather *tlb, struct ptdesc *ptdesc)
{
	struct hydra_gather *g = &tlb->hydra;

	if (!g->recording) {
		hydra_retire_locked(ptdesc);
		tlb_remove_table(tlb, ptdesc_page(ptdesc));
		return;
	}
	VM_WARN_ON_ONCE(!tlb->freed_tables);
	WRITE_ONCE(ptdesc->__page_mapping, (unsigned long)g->freed & LONG_MAX);
	g->freed = ptdesc;
}

static struct ptdesc *hydra_next_freed(struct ptdesc *ptdesc)
{
	unsigned long next = ptdesc->__page_mapping;

	return next ? (struct ptdesc *)(next | ~LONG_MAX) : NULL;
}

static void hydra_free_gathered(struct rcu_head *head)
{
	struct ptdesc *ptdesc = container_of(head, struct ptdesc, pt_rcu_head), *next;

	for (; ptdesc; ptdesc = next) {
		next = hydra_next_freed(ptdesc);
		ptdesc->__page_mapping = 0;
		hydra_retire_locked(ptdesc);
		pagetable_free(ptdesc);
	}
}

/**
 * hydra_gather_flushed - free the tables of a gather that has flushed
 * @g: Hydra's part of the gather, which has been recording
 *
 * Lockless walkers of Linux keep interrupts off, and rely on the flush to wait for
 * them. This flush may have spared their CPU. So wait for an RCU grace period.
 *
 * Context: any.
 */
void hydra_gather_flushed(struct hydra_gather *g)
{
	struct ptdesc *first, *last;
	unsigned int nr;

	while ((first = g->freed)) {
		for (nr = 1, last = first; nr < FREED_AT_ONCE && hydra_next_freed(last); nr++)
			last = hydra_next_freed(last);
		g->freed = hydra_next_freed(last);
		WRITE_ONCE(last->__page_mapping, 0);
		call_rcu(&first->pt_rcu_head, hydra_free_gathered);
	}
}

/**
 * __hydra_free_table - a canonical table is being freed through a gather
 * @tlb: the gather; its range and freed_tables include the table already
 * @ptdesc: the table; the entry that pointed to it is cleared
 * @ptl: lock of a leaf table, NULL for a table above
 * @addr: an address that the table mapped, if it is a leaf table
 *
 * All links are cut, and all sharers recorded, before the first table is given to
 * the gather: a gather that does not record may flush then, and does not flush
 * again for the tables that follow.
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
	 * An atomic fill holds no VMA:
	 *
	 *     CPU 0: an atomic fill              CPU 1: frees the table
	 *     ---------------------              ----------------------
	 *     locks the leaf table               clears the PMD entry
	 *     reads the PMD entry                locks and unlocks the leaf table
	 *     links the table                    reads the word, cuts the links
	 *
	 * CPU 0 read the old entry, and CPU 1 waits for its link; or CPU 0 reads
	 * the entry as none. The lock stays until hydra_free_gathered() frees it
	 * with the table, a grace period later: CPU 0 may still try it.
	 */
	if (ptl) {
		spin_lock(ptl);
		spin_unlock(ptl);
	}
	word = hydra_table_detach(ptdesc);
	if (hydra_word_solo(word)) {
		pmd_t *pmd = hydra_canonical_pmd(tlb->mm, addr);

		d = hydra_word_domain(word);
		if (tlb->hydra.recording)
			hydra_mask_set(d, &tlb->hydra.sharers);
		hydra_cut_solo(hydra_table_of(pmd), pmd_index(addr), d);
	}
	t = hydra_word_table(word);
	if (!t)
		return;
	if (tlb->hydra.recording) {
		hydra_mask_add(&tlb->hydra.sharers, &t->sharers);
		hydra_mask_add(&tlb->hydra.sharers, &t->users);
	}
	hydra_table_cut(t, canonical, &own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list) {
		hydra_page_retire(t->hmm, ptdesc_address(ptdesc));
		hydra_gather_table(tlb, ptdesc);
	}
	kfree_rcu(t, rcu);
}

/**
 * hydra_table_release - free the domains' tables for a detached canonical table
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

static int __init hydra_table_setup(void)
{
	hydra_word_base = (unsigned long)virt_to_page((void *)PAGE_OFFSET) +
			  offsetof(struct ptdesc, __page_mapping) -
			  ((PAGE_OFFSET >> PAGE_SHIFT) << HYDRA_DESCRIPTOR_SHIFT);
	return 0;
}
core_initcall(hydra_table_setup);

#include "tests/table-kunit.h"
