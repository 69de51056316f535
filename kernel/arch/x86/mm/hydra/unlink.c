// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unlinking: cut the domains' links to a canonical table that is freed, moved or
 * collapsed, and free their tables.
 *
 * A CPU unlinking a canonical table clears the entry first, and then cuts the links under
 * the locks described in table.c, so no link is left.
 *
 * Tables and struct hydra_table are freed after an RCU grace period. Code that
 * reads them without a lock runs with interrupts off, like every lockless walker of
 * Linux.
 */

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>
#include <asm/tlb.h>

#include "domain.h"
#include "marks.h"
#include "replica.h"
#include "state.h"
#include "table.h"
#include "tlb.h"
#include "unlink.h"
#include "walk.h"

/**
 * hydra_table_detach - clear the word of a canonical table
 * @ptdesc: the table
 *
 * Context: the canonical entry is cleared, or the address space is not active any
 * more. The caller has waited for CPUs that read the entry before and may write the
 * word. Later CPUs read the entry as none.
 * Return: the old word: what the caller has to cut and release.
 */
static unsigned long hydra_table_detach(struct ptdesc *ptdesc)
{
	unsigned long word = hydra_word_read(ptdesc);

	if (word)
		hydra_word_clear(ptdesc);
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
void hydra_fold_accessed(pteval_t *copies, pteval_t *canonical, enum pg_level level,
			 unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		pteval_t copy = READ_ONCE(copies[i]), val;

		if (!hydra_present(copy) || !(copy & _PAGE_ACCESSED) ||
		    (level != PG_LEVEL_4K && !hydra_leaf(copy)))
			continue;
		val = READ_ONCE(canonical[i]);
		while (hydra_present(val) && !(val & _PAGE_ACCESSED) &&
		       !((copy ^ val) & PTE_PFN_MASK) &&
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
 * Return: the table that the domain walked, or NULL. If it is not @canonical, the
 * caller flushes the domain and then frees it.
 */
pteval_t *hydra_table_cut_domain(struct hydra_table *t, unsigned int d,
				 pteval_t *canonical)
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
	if (t->level == PG_LEVEL_4K) {
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
static void hydra_table_cut(struct hydra_table *t, pteval_t *canonical,
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
static void hydra_cut_solo(struct hydra_table *parent, unsigned int index,
			   unsigned int d)
{
	struct hydra_domain *dom = parent->hmm->domain[d];

	spin_lock(&dom->lock);
	if (parent->table[d])
		hydra_link(dom, &parent->table[d][index], 0);
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
 * Linux collects such tables in a page, which it may fail to allocate: then it interrupts all
 * CPUs. In a gather that records, the tables form a list through their words. The sign bit of
 * these words is clear, so hydra_shared() does not take them for a struct hydra_table.
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
	hydra_word_set_next(ptdesc, g->freed);
	g->freed = ptdesc;
}

static void hydra_free_gathered(struct rcu_head *head)
{
	struct ptdesc *ptdesc = container_of(head, struct ptdesc, pt_rcu_head), *next;

	for (; ptdesc; ptdesc = next) {
		next = hydra_word_next(ptdesc);
		hydra_word_clear(ptdesc);
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
		for (nr = 1, last = first; nr < FREED_AT_ONCE && hydra_word_next(last); nr++)
			last = hydra_word_next(last);
		g->freed = hydra_word_next(last);
		hydra_word_clear(last);
		call_rcu(&first->pt_rcu_head, hydra_free_gathered);
	}
}

/**
 * DOC: A table freed, and an atomic fill
 *
 * An atomic fill holds no VMA::
 *
 *     CPU 0: an atomic fill                CPU 1: munmap(), __hydra_free_table()
 *     ---------------------                -------------------------------------
 *     locks the leaf table                 clears the PMD entry
 *     reads the PMD entry                  locks and unlocks the leaf table
 *     links the table                      detaches the word, cuts the links
 *     unlocks the leaf table
 *
 * CPU 0 read the old entry, and CPU 1 waits for its link; or CPU 0 reads the entry as none,
 * and links nothing. The lock stays until hydra_free_gathered() frees it with the table, a
 * grace period later: CPU 0 may still try it.
 */

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
 * A gather that frees tables holds mmap_lock, or mm_users is 0: the address space is not split
 * meanwhile, and does not return. So one that does not record finds no table with copies. (The
 * gather of madvise() may hold a VMA alone, and frees no table.)
 *
 * Context: may sleep or not, as pte_free_tlb(); no page-table lock held.
 */
void __hydra_free_table(struct mmu_gather *tlb, struct ptdesc *ptdesc,
			spinlock_t *ptl, unsigned long addr)
{
	pteval_t *canonical = ptdesc_address(ptdesc);
	struct hydra_table *t;
	struct ptdesc *next;
	unsigned long word;
	unsigned int d;
	LIST_HEAD(own);

	/* Wait for atomic fills: see "A table freed, and an atomic fill" above. */
	if (ptl) {
		spin_lock(ptl);
		spin_unlock(ptl);
	}
	word = hydra_table_detach(ptdesc);
	if (hydra_word_solo(word)) {
		pmd_t *pmd = hydra_canonical_pmd(tlb->mm, addr);
		struct hydra_table *parent = hydra_table_of((pteval_t *)pmd);

		d = hydra_word_domain(word);
		if (tlb->hydra.recording)
			hydra_mask_set(d, &tlb->hydra.sharers);
		/* A domain links a leaf table in its own copy of the table above. */
		if (!WARN_ON_ONCE(!parent))
			hydra_cut_solo(parent, pmd_index(addr), d);
	}
	t = hydra_word_table(word);
	if (!t)
		return;
	VM_WARN_ON_ONCE(!tlb->hydra.recording);
	if (tlb->hydra.recording) {
		hydra_mask_add(&tlb->hydra.sharers, &t->sharers);
		hydra_mask_add(&tlb->hydra.sharers, &t->users);
	}
	hydra_table_cut(t, canonical, &own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list) {
		hydra_page_retire(t->hmm, ptdesc_address(ptdesc));
		hydra_gather_table(tlb, ptdesc);
	}
	VM_WARN_ON_ONCE(t->nr_changed);
	kfree_rcu(t, rcu);
}

/**
 * hydra_table_release - free the domains' tables for a detached canonical table
 * @t: from hydra_table_detach()
 * @canonical: the canonical table, which is not freed
 *
 * Context: as hydra_page_free().
 */
static void hydra_table_release(struct hydra_table *t, pteval_t *canonical)
{
	struct ptdesc *ptdesc, *next;
	LIST_HEAD(own);

	hydra_table_cut(t, canonical, &own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list) {
		hydra_fold_accessed(ptdesc_address(ptdesc), canonical, t->level,
				    PTRS_PER_PTE);
		hydra_page_free(t->hmm, ptdesc_address(ptdesc));
	}
	VM_WARN_ON_ONCE(t->nr_changed);
	kfree_rcu(t, rcu);
}

/**
 * DOC: A huge entry cleared without a gather
 *
 * On stock Linux the flush of a gather reaches every CPU with the old entry in the TLB,
 * whichever CPU cleared the entry. Under Hydra the flush reaches the sharers of entries
 * cleared or changed by the gather. zap_pmd_range() reads the entry without the lock, and
 * skips an entry that is clear. A CPU clearing a huge entry outside a gather, e.g. in
 * move_pages_huge_pmd() or __discard_anon_folio_pmd_locked(), flushes before dropping the
 * PMD lock. So wait for the lock::
 *
 *     CPU 0: clears outside a gather       CPU 1: zap_pmd_range()
 *     ------------------------------       ----------------------
 *     takes the lock
 *     clears the copies
 *     clears the entry                     reads the entry: none
 *     flushes the sharers                  <read barrier>
 *     (puts the entry back)                reads the lock: held, waits for it;
 *     drops the lock                         or free: CPU 0 has flushed, reads
 *                                            the entry again
 *
 * The copies are cleared before the entry. Otherwise a CPU could load a copy again after
 * the flush of CPU 1. (As long as no domain has had a copy of a huge entry, none is in the
 * TLB of a CPU that a flush spares: hydra_had_huge().)
 */

/**
 * __hydra_wait_pmd_clear - wait for the flush of the CPU that cleared a PMD entry
 * @mm: the address space
 * @pmd: the entry, read as none without the lock
 *
 * See "A huge entry cleared without a gather" above.
 *
 * Context: see hydra_wait_pmd_clear().
 * Return: see hydra_wait_pmd_clear().
 */
bool __hydra_wait_pmd_clear(struct mm_struct *mm, pmd_t *pmd)
{
	spinlock_t *lock = pmd_lockptr(mm, pmd);
	bool gone;

	might_lock(lock);
	/* The entry before the lock; pairs with spin_lock() before the clear. */
	smp_rmb();
	if (!spin_is_locked(lock)) {
		/* The lock before the entry; pairs with spin_unlock() after the flush. */
		smp_rmb();
		if (!pmd_none(READ_ONCE(*pmd)))
			return false;
		/* Still none, or cleared again: read the lock again, as above. */
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
 * __hydra_collapse_cut - cut every domain's link to a collapsed table
 * @h: address space
 * @pmdp: its canonical entry, cleared
 * @pmd: the old value of the entry
 *
 * A fill may have read the entry before it was cleared:
 *
 *     CPU 0: hydra_join()                  CPU 1: collapse
 *     -------------------                  ---------------
 *     locks the domain                     pmdp_huge_get_and_clear()
 *     reads the entry                      <full barrier>
 *     writes the word, links the table     locks and unlocks every domain
 *     unlocks the domain                   reads the word, cuts the links
 *
 * CPU 0 read the old entry, and CPU 1 sees its word and link; or CPU 0 reads the
 * entry as none.
 *
 * Context: see hydra_collapse_begin(). Preemption is off until the caller has
 * flushed, so no grace period ends before.
 */
void __hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd)
{
	pteval_t *entry = (pteval_t *)pmdp;
	struct hydra_table *t;
	unsigned long word;
	pteval_t *canonical;
	hydra_mask_t trees;
	unsigned int d;

	lockdep_assert_held(pmd_lockptr(h->mm, pmdp));
	if (!hydra_present(pmd_val(pmd)) || hydra_leaf(pmd_val(pmd)))
		return;
	/*
	 * A domain with a link got its tree before: trees has its bit, see
	 * hydra_promote().
	 */
	hydra_mask_zero(&trees);
	hydra_mask_add(&trees, &h->trees);
	/* trees before h->domain[d]; pairs with the smp_wmb() in hydra_promote(). */
	smp_rmb();
	for_each_hydra_domain(d, &trees) {
		spin_lock(&h->domain[d]->lock);
		spin_unlock(&h->domain[d]->lock);
	}
	canonical = hydra_next_table(pmd_val(pmd));
	/* Else the first split could come before the flush, and a domain could link the table. */
	lockdep_assert(lockdep_is_held(&h->mm->mmap_lock) ||
		       lockdep_is_held(ptlock_ptr(virt_to_ptdesc(canonical))));
	word = hydra_table_detach(hydra_ptdesc(canonical));
	if (hydra_word_solo(word))
		hydra_cut_solo(hydra_table_of(entry), hydra_entry_index(entry),
			       hydra_word_domain(word));
	t = hydra_word_table(word);
	if (t)
		hydra_table_release(t, canonical);
}

/**
 * DOC: A leaf table moved
 *
 * move_normal_pmd() holds mmap_lock, the locks of the reverse map and both PMD locks;
 * hydra_rehome_tables() the locks of the VMAs, too. mremap() has locked its VMAs before. Faults,
 * madvise() and flushes need one of these, but atomic fills do not::
 *
 *     CPU 0: an atomic fill                CPU 1: mremap()
 *     ---------------------                ---------------
 *     locks the leaf table                 clears the old PMD entry
 *     reads the PMD entry again            locks and unlocks the leaf table
 *     links the table, or a replica        detaches the word, cuts the links
 *     unlocks the leaf table               flushes the sharers
 *                                          writes the new PMD entry
 *
 * CPU 0 read the old PMD entry, and CPU 1 waits for its link; or CPU 0 reads none. The word
 * is 0 before the new entry can be seen. So no domain is a sharer by a link at the old place.
 */

/**
 * __hydra_move_table - cut every domain's link to a table that mremap() or rehome.c moves
 * @h: address space
 * @pmdp: the old canonical entry, cleared
 * @pmd: its old value
 * @addr: first address that the table mapped there
 *
 * The next fault finds the table at the new address, as a table of no domain. See "A leaf
 * table moved" above.
 *
 * Context: see hydra_move_table(). No grace period ends before the locks are
 * dropped.
 */
void __hydra_move_table(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd,
			unsigned long addr)
{
	spinlock_t *lock = pte_lockptr(h->mm, &pmd);
	pteval_t *canonical = hydra_next_table(pmd_val(pmd));
	pteval_t *entry = (pteval_t *)pmdp;
	struct hydra_table *t;
	unsigned long word;
	hydra_mask_t users;

	mmap_assert_write_locked(h->mm);
	lockdep_assert_held(pmd_lockptr(h->mm, pmdp));
	/* Nests inside the PMD locks of the old and of the new entry. */
	spin_lock_nested(lock, SINGLE_DEPTH_NESTING + 1);
	spin_unlock(lock);
	hydra_mask_zero(&users);
	word = hydra_table_detach(hydra_ptdesc(canonical));
	if (hydra_word_solo(word)) {
		hydra_mask_set(hydra_word_domain(word), &users);
		hydra_cut_solo(hydra_table_of(entry), hydra_entry_index(entry),
			       hydra_word_domain(word));
	}
	t = hydra_word_table(word);
	if (t) {
		hydra_mask_add(&users, &t->sharers);
		hydra_mask_add(&users, &t->users);
		hydra_table_release(t, canonical);
	}
	hydra_flush_domains(h, addr, addr + PMD_SIZE, &users);
}

/**
 * DOC: A link cut, and a flush
 *
 * Domain 1 links the table, and another domain fills::
 *
 *     CPU 0: hydra_cut_links()             CPU 1: changes an entry
 *     ------------------------             -----------------------
 *     locks the leaf table
 *     cuts the link of domain 1
 *     flushes domain 1
 *     removes domain 1 from sharers
 *     unlocks the leaf table
 *                                          locks the leaf table
 *                                          changes the entry
 *                                          unlocks the leaf table
 *                                          flushes: domain 1 is no target
 *
 * Domain 1 holds nothing of the table any more. A fault of domain 1 waits for the lock, and
 * gets a replica. If CPU 1 locks the table first, CPU 0 flushes domain 1 for CPU 1. Between
 * the cut and the flush domain 1 is a sharer without a table: a target of every flush.
 *
 * The flush of CPU 0 is as for freed tables. The table may be freed later with no flush of
 * domain 1, so lazy CPUs must forget the way to the table.
 */

/**
 * hydra_cut_links - cut the links of all domains but one
 * @t: of a leaf table
 * @canonical: the table
 * @self: the domain that keeps its link
 *
 * A linked entry does not tell which domain has accessed it. So each flush by entry has
 * to reach the domains that link the table. Once other domains have asked for
 * HYDRA_LINKED_HITS such flushes, the domains get replicas, at their next faults. If
 * there is no memory for a replica, the domain links the table again, and keeps the
 * link. See "A link cut, and a flush" above.
 *
 * Under filter "auto" a table that goes by table keeps its links. Replicas in the place of
 * links that were cut before stay: the table may look at marks again.
 *
 * Context: the leaf table's lock; process context.
 */
void hydra_cut_links(struct hydra_table *t, pteval_t *canonical, unsigned int self)
{
	hydra_mask_t cut;
	unsigned int d;

	hydra_assert_leaf_locked(canonical);
	if (!hydra_is_fine(t->hmm, t))
		return;
	hydra_mask_zero(&cut);
	for_each_hydra_domain(d, &t->users) {
		if (d == self || READ_ONCE(t->table[d]) != canonical)
			continue;
		/* A collapse cuts links without this lock. */
		if (hydra_table_cut_domain(t, d, canonical))
			hydra_mask_set(d, &cut);
	}
	if (hydra_mask_empty(&cut))
		return;
	WRITE_ONCE(t->linked_hits, HYDRA_LINKS_CUT);
	/* As freed tables: the canonical table may be freed with no flush of @cut. */
	hydra_flush_domains(t->hmm, t->base, t->base + PMD_SIZE, &cut);
	hydra_mask_remove(&t->sharers, &cut);
}

/*
 * A link of a single domain, if there is one, needs no cut: it goes with the domain's PMD table.
 *
 * Return: at most how many copies are freed, and one more.
 */
static unsigned long hydra_release_detached(pteval_t *canonical)
{
	unsigned long word = hydra_table_detach(hydra_ptdesc(canonical)), nr = 1;
	struct hydra_table *t = hydra_word_table(word);

	if (t) {
		nr += bitmap_weight(t->users.bits, HYDRA_MAX_DOMAINS);
		hydra_table_release(t, canonical);
	}
	return nr;
}

/* A PMD or PUD table, after the tables below it. Return: as hydra_release_detached(). */
static unsigned long hydra_release_upper(struct hydra_mm *h, const struct hydra_iter *it)
{
	spinlock_t *lock = it->level == PG_LEVEL_2M ? pmd_lockptr(h->mm, (pmd_t *)it->table) :
						      pud_lockptr(h->mm, (pud_t *)it->table);
	unsigned long nr;

	/*
	 * hydra_release_leaf() has not seen a leaf table whose PMD entry a concurrent collapse
	 * has cleared (through the reverse map). The collapse still needs the PMD table's
	 * hydra_table, and holds the PMD lock until all links are cut: wait for it.
	 *
	 * A CPU clearing a huge entry of the table must wait, too. After the
	 * release the CPU could not find the accessed bits of the replicas.
	 *
	 * In a return in parts, __hydra_install() may just be looking at the hydra_table,
	 * under the PMD lock.
	 */
	spin_lock(lock);
	nr = hydra_release_detached(it->table);
	spin_unlock(lock);
	return nr;
}

/*
 * The domains leave a leaf table. Return: as hydra_release_detached().
 *
 * While the address space is still active, the table may be freed before the domain's PMD table:
 * the link of a single domain is cut, too.
 */
static unsigned long hydra_release_leaf(struct hydra_mm *h, const struct hydra_iter *it)
{
	unsigned long word, nr;
	pteval_t *canonical;
	spinlock_t *ptl;	/* the table's lock */
	pte_t *pte;

	pte = pte_offset_map_lock(h->mm, (pmd_t *)it->entry, it->addr, &ptl);
	if (!pte)
		return 1;
	canonical = hydra_table_start((pteval_t *)pte);
	word = hydra_word_of(canonical);
	nr = hydra_release_detached(canonical);
	if (hydra_word_solo(word) && READ_ONCE(h->active))
		hydra_cut_solo(hydra_table_of(it->entry), hydra_entry_index(it->entry),
			       hydra_word_domain(word));
	pte_unmap_unlock(pte, ptl);
	return nr;
}

/**
 * hydra_release_tables - free the domain trees, but for the roots
 * @h: address space, not active any more; or it returns in parts (hydra_mm::returning)
 * @most: how many tables and copies at most, but for the copies of the last table
 *
 * All leaf tables come first, then all PMD tables, then all PUD tables: a struct hydra_table
 * leads to that of the table above. Goes on where the last call has stopped, see
 * hydra_release_first().
 *
 * A table or copy has PTRS_PER_PTE entries. As many entries that lead to no table count as one
 * table. So a call looks at PTRS_PER_PTE * @most entries.
 *
 * Context: mmap_lock held for writing. No domain joins a table meanwhile, or later.
 * Return: true if nothing is left.
 */
bool hydra_release_tables(struct hydra_mm *h, unsigned long most)
{
	struct hydra_iter it = {
		.mm = h->mm,
		.level = h->return_level,
		.steps = PTRS_PER_PTE,
		.next = h->return_at,
	};
	unsigned long nr;

	mmap_assert_write_locked(h->mm);
	while (most && it.level <= PG_LEVEL_1G) {
		nr = 1;
		if (hydra_next_canonical(&it))
			nr = it.level == PG_LEVEL_4K ? hydra_release_leaf(h, &it) :
						       hydra_release_upper(h, &it);
		most -= min(most, nr);
		if (it.next >= TASK_SIZE_MAX) {
			it.next = 0;
			it.level++;
		}
		cond_resched();
	}
	h->return_level = it.level;
	h->return_at = it.next;
	return it.level > PG_LEVEL_1G;
}

/**
 * hydra_release_first - hydra_release_tables() has to begin with the first table
 * @h: address space
 *
 * Context: mmap_lock held for writing.
 */
void hydra_release_first(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	h->return_level = PG_LEVEL_4K;
	h->return_at = 0;
}

#include "tests/table-kunit.h"
