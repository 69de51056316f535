// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills: how a domain gets entries of the canonical tree.
 *
 * Linux handles a fault as always, on the canonical tree, under the lock of the VMA
 * or of mmap_lock. If the canonical tree has the entry already, Linux takes the
 * fault for spurious: another CPU installed the entry. Then the fill gives the
 * entry to the domain of this CPU.
 *
 * A domain links a leaf table on its home node, and copies entries of any other
 * leaf table to a replica. Where several domains have one home, see
 * hydra_wants_replica(). The choice stays until the table is freed or the domain leaves the
 * table, with one exception: hydra_cut_links(). While one domain alone links a leaf table, the
 * link and the word of the table are all its state.
 *
 * A fill copies an entry even if it does not permit the access: a copy-on-write
 * fault of memory without struct page reads the entry through the user's address.
 *
 * The entry points are at the end of this file: __hydra_fault_done(),
 * __hydra_install(), __hydra_fault_atomic().
 */

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/hydra.h>
#include <asm/pgalloc.h>

#include "domain.h"
#include "fill.h"
#include "home.h"
#include "marks.h"
#include "rent.h"
#include "replica.h"
#include "roots.h"
#include "state.h"
#include "table.h"
#include "unlink.h"
#include "wait.h"

#include <trace/events/hydra.h>

/* A fill, and the memory allocated for it */
struct hydra_request {
	struct hydra_mm *h;
	unsigned int d;
	unsigned long addr;
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned int degree;
	bool write;
	bool exec;
	bool shstk;
	/* Holds no VMA, must not wait for a lock or allocate */
	bool atomic;
	/* For a domain that has not accessed the entry: replication "eager" */
	bool unasked;
	gfp_t gfp;

	struct hydra_table *spare;	/* not yet in use */
	pteval_t *replica;		/* not yet in use */
	bool no_replica;		/* allocation failed: link instead */
	bool lacks_table;
	bool lacks_replica;
};

enum hydra_result {
	HYDRA_MISS,	/* no entry, or the entry does not permit the access */
	HYDRA_HIT,	/* the domain can do the access */
	HYDRA_AGAIN,	/* allocate first what r->lacks_... says */
	HYDRA_NOMEM,	/* a table above the leaf tables cannot be allocated */
};

/**
 * hydra_window - the entries a fill copies
 * @r: the fill, of up to 2^degree entries, aligned to their number
 * @level: of the table
 * @first: set to the index of the first entry in the table
 * @end: set to the index after the last one
 *
 * Prefetch as in the Hydra paper, section 3.4: inside the table and the VMA. The paper
 * copies entries of leaf tables; here huge entries, too.
 */
static void hydra_window(const struct hydra_request *r, enum pg_level level,
			 unsigned int *first, unsigned int *end)
{
	unsigned int shift = page_level_shift(level), nr = 1U << r->degree;
	unsigned long base = r->addr & page_level_mask(level + 1);
	unsigned long base_end = base + page_level_size(level + 1);

	*first = ((r->addr - base) >> shift) & ~(nr - 1);
	*end = *first + nr;
	if (r->vm_start > base)
		*first = max_t(unsigned long, *first, (r->vm_start - base) >> shift);
	*end = min_t(unsigned long, *end, (min(r->vm_end, base_end) - base) >> shift);
}

/* Does a canonical entry permit the access? As hardware decides. */
static bool hydra_permits(const struct hydra_request *r, pteval_t val)
{
	if (r->exec && (val & _PAGE_NX))
		return false;
	if (r->write && r->shstk)
		return (val & (_PAGE_RW | _PAGE_DIRTY)) == _PAGE_DIRTY;
	return !r->write || (val & _PAGE_RW);
}

/*
 * Set the accessed and dirty bits in the canonical entry, as hardware would for
 * this access. The lock of the table keeps all other writers out, except hardware,
 * which sets the same bits. Only a writable entry becomes dirty: a read-only dirty
 * entry would be a shadow stack.
 */
static pteval_t hydra_mark_used(const struct hydra_request *r, pteval_t *entry)
{
	pteval_t val = READ_ONCE(*entry);

	if (!hydra_permits(r, val))
		return val;
	if (!(val & _PAGE_ACCESSED))
		set_bit(_PAGE_BIT_ACCESSED, (unsigned long *)entry);
	if (r->write && (val & _PAGE_RW) && !(val & _PAGE_DIRTY))
		set_bit(_PAGE_BIT_DIRTY, (unsigned long *)entry);
	return READ_ONCE(*entry);
}

/* The same, if the fill is for an access. */
static pteval_t hydra_use(const struct hydra_request *r, pteval_t *entry)
{
	return r->unasked ? READ_ONCE(*entry) : hydra_mark_used(r, entry);
}

/* Copy one entry. The replica keeps its mark, and the accessed bit of the same page. */
static void hydra_copy_entry(const struct hydra_table *t, pteval_t *to, pteval_t val)
{
	pteval_t old = READ_ONCE(*to), new;

	do {
		new = hydra_renew(t, old, val);
		if (old == new)
			return;
	} while (!try_cmpxchg(to, &old, new));
}

static __always_inline bool hydra_copy_present(const pteval_t *from, pteval_t *to)
{
	pteval_t val = READ_ONCE(*from);

	if (!hydra_present(val))
		return false;
	WRITE_ONCE(*to, hydra_derive(val));
	return true;
}

/* Copy entries to a new replica, which has no marks yet. Return: how many. */
static unsigned int hydra_copy_first(const pteval_t *from, pteval_t *to,
				     unsigned int nr)
{
	const pteval_t *end = from + nr;
	unsigned int i;

	for (; end - from >= 16; from += 16, to += 16)
#pragma GCC unroll 16
		for (i = 0; i < 16; i++)
			nr -= !hydra_copy_present(from + i, to + i);
	for (; from < end; from++, to++)
		nr -= !hydra_copy_present(from, to);
	return nr;
}

/*
 * Copy the entries that the replica lacks. Return: how many.
 *
 * Without cmpxchg(): hardware changes present entries only, and a flush that takes the
 * mark just now flushes the domain. The mark that comes back with the store costs a
 * needless flush.
 */
static unsigned int hydra_copy_more(const pteval_t *from, pteval_t *to, unsigned int nr)
{
	unsigned int i, copied = 0;

	for (i = 0; i < nr; i++) {
		pteval_t val = READ_ONCE(from[i]), old = READ_ONCE(to[i]);

		if (!hydra_present(val) || hydra_present(old))
			continue;
		WRITE_ONCE(to[i], hydra_derive(val) | (old & HYDRA_PTE_MARK));
		copied++;
	}
	return copied;
}

/* @nr: entries copied that no access has asked for */
static void hydra_count_fill(const struct hydra_request *r, enum pg_level level, unsigned int nr)
{
	if (!r->unasked)
		hydra_stat_add(r->h, HYDRA_STAT_FILLS, 1);
	if (nr)
		hydra_stat_add(r->h, HYDRA_STAT_PREFETCHED, nr);
	trace_hydra_fill(r->h->mm, r->addr, r->d, level, nr);
}

/*
 * Copy the entry of the fault, and the other entries of the window.
 *
 * @first: the replica is new.
 *
 * Context: the leaf table's lock.
 */
static void hydra_copy_window(const struct hydra_request *r, struct hydra_table *t,
			      pteval_t *canonical, pteval_t *replica, bool first)
{
	unsigned int begin, end, nr, asked = pte_index(r->addr);

	hydra_assert_leaf_locked(canonical);
	hydra_window(r, PG_LEVEL_4K, &begin, &end);
	if (first) {
		nr = hydra_copy_first(canonical + begin, replica + begin, end - begin) -
		     !r->unasked;
	} else {
		hydra_copy_entry(t, &replica[asked], READ_ONCE(canonical[asked]));
		nr = hydra_copy_more(canonical + begin, replica + begin, end - begin) +
		     r->unasked;
	}
	hydra_count_fill(r, PG_LEVEL_4K, nr);
}

/*
 * Does the domain need a replica of the leaf table, or link it?
 *
 * Several domains may have this home: cores of one node. By table, all of them link the
 * table. Where flushes look at marks, one domain is the owner, and the others need marks.
 */
static bool hydra_wants_replica(const struct hydra_request *r,
				const struct hydra_table *t, pteval_t *canonical)
{
	return !hydra_is_home(r->h, r->d, canonical) ||
	       (t && READ_ONCE(t->linked_hits) == HYDRA_LINKS_CUT) ||
	       (hydra_is_fine(r->h, t) && hydra_has_owner(r->h, canonical));
}

/*
 * An atomic fill may have interrupted the holder of the lock on this CPU: a probe
 * or a trace event under the lock may read user memory.
 */
static bool hydra_lock_domain(struct hydra_request *r)
{
	spinlock_t *lock = &r->h->domain[r->d]->lock;

	if (r->atomic)
		return spin_trylock(lock);
	spin_lock(lock);
	return true;
}

/*
 * Let the domain walk a leaf table.
 *
 * If no other domain walks the table, its word is set to this domain. If another
 * domain links the table alone, the table gets a struct hydra_table with both
 * domains; the other domain's link stays.
 *
 * Reads the canonical entry once more under the domain's lock. The leaf table's
 * lock does not keep a collapse from unlinking the table, but the collapse takes
 * the domains' locks after it has cleared the entry, see __hydra_collapse_cut().
 * For the same reason the word is written under the domain's lock. (Of a new table it
 * is written by __hydra_install().)
 *
 * Context: the leaf table's lock. @joined is set to the table that the domain walks now.
 */
static enum hydra_result hydra_join(struct hydra_request *r, struct hydra_table *parent,
				    pmd_t *pmd, pteval_t *canonical, pteval_t **joined)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_table *t = hydra_word_table(word);
	struct hydra_domain *dom = r->h->domain[r->d];
	bool replicate = hydra_wants_replica(r, t, canonical) && !r->no_replica;
	enum hydra_result ret = HYDRA_MISS;
	pteval_t *table = canonical;

	hydra_assert_leaf_locked(canonical);
	r->lacks_table = !t && (replicate || word) && !r->spare;
	r->lacks_replica = replicate && !r->replica;
	if (r->lacks_table || r->lacks_replica)
		return HYDRA_AGAIN;
	if (!t && (replicate || word)) {
		t = r->spare;
		hydra_table_init(t, r->h, parent, r->addr, PG_LEVEL_4K);
	}
	if (replicate)
		table = r->replica;
	if (!hydra_lock_domain(r))
		return HYDRA_MISS;
	if (!READ_ONCE(r->h->active) || !parent->table[r->d] ||
	    !hydra_same_table(pmd_val(READ_ONCE(*pmd)),
			      _PAGE_TABLE | __pa(canonical)))
		goto unlock;
	if (t) {
		if (hydra_word_solo(word)) {
			unsigned int first = hydra_word_domain(word);

			hydra_mask_set(first, &t->sharers);
			hydra_mask_set(first, &t->users);
			t->table[first] = canonical;
		}
		hydra_mask_set(r->d, &t->sharers);
		hydra_mask_set(r->d, &t->users);
		WRITE_ONCE(t->table[r->d], table);
	}
	/* hydra_link() orders the word before the link. */
	if (!t) {
		hydra_word_set_solo(hydra_ptdesc(canonical), r->d);
	} else if (t == r->spare) {
		hydra_word_set_table(hydra_ptdesc(canonical), t);
		r->spare = NULL;
	}
	hydra_link(dom, &parent->table[r->d][pmd_index(r->addr)],
		   (t ? HYDRA_LINK : _PAGE_TABLE) | __pa(table));
	ret = HYDRA_HIT;
	if (replicate) {
		atomic_long_inc(&dom->nr_replicas);
		hydra_reclaim_add(t, table);
		r->replica = NULL;
	} else if (r->no_replica) {
		hydra_stat_add(r->h, HYDRA_STAT_FALLBACKS, 1);
	}
unlock:
	spin_unlock(&dom->lock);
	*joined = table;
	return ret;
}

/*
 * The table that a domain walks in place of a leaf table; NULL: none
 *
 * @word: of the canonical table
 */
static pteval_t *hydra_domain_leaf(unsigned long word, pteval_t *canonical, unsigned int d)
{
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		return READ_ONCE(t->table[d]);
	return word == hydra_solo(d) ? canonical : NULL;
}

/**
 * hydra_trylock_leaf - lock a leaf table if its lock is free
 * @mm: address space
 * @pmd: canonical entry that points to the table
 * @addr: any address it maps
 * @ptl: set to its lock
 *
 * Context: interrupts off.
 * Return: the entry for @addr, for pte_unmap_unlock(); NULL if there is no leaf
 * table, or its lock is busy.
 */
pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl)
{
	pmd_t pmdval = pmdp_get_lockless(pmd);
	pte_t *pte = pte_offset_map_nolock(mm, pmd, addr, ptl);

	lockdep_assert_irqs_disabled();
	if (!pte)
		return NULL;
	if (spin_trylock(*ptl)) {
		if (pmd_same(pmdval, pmdp_get_lockless(pmd)))
			return pte;
		spin_unlock(*ptl);
	}
	pte_unmap(pte);
	return NULL;
}

static pte_t *hydra_lock_leaf(struct hydra_request *r, pmd_t *pmd, spinlock_t **ptl)
{
	if (r->atomic)
		return hydra_trylock_leaf(r->h->mm, pmd, r->addr, ptl);
	return pte_offset_map_lock(r->h->mm, pmd, r->addr, ptl);
}

static enum hydra_result hydra_fill_leaf(struct hydra_request *r,
					 struct hydra_table *parent, pmd_t *pmd)
{
	enum hydra_result ret = HYDRA_MISS;
	pteval_t *canonical, *table;
	struct hydra_table *t;
	bool first = false;
	spinlock_t *ptl;
	pteval_t val;
	pte_t *pte;

	pte = hydra_lock_leaf(r, pmd, &ptl);
	if (!pte)
		return HYDRA_MISS;
	canonical = hydra_table_start((pteval_t *)pte);
	if (!hydra_present(pte_val(ptep_get(pte))) || !READ_ONCE(r->h->active))
		goto unlock;

	t = hydra_table_of(canonical);
	if (t && hydra_links_due(t) && !r->atomic && !r->unasked)
		hydra_cut_links(t, canonical, r->d);
	table = hydra_domain_leaf(hydra_word_of(canonical), canonical, r->d);
	if (!table) {
		ret = hydra_join(r, parent, pmd, canonical, &table);
		if (ret != HYDRA_HIT)
			goto unlock;
		first = true;
	}
	/*
	 * During an atomic fill, a collapse may cut the table, and clear its word: the copies are
	 * lost. Interrupts are off, so @t stays.
	 */
	if (table == canonical) {
		/* Linked: hardware and Linux set the bits. */
		val = pte_val(ptep_get(pte));
	} else {
		val = hydra_use(r, (pteval_t *)pte);
		hydra_copy_window(r, t, canonical, table, first);
	}
	ret = hydra_permits(r, val) ? HYDRA_HIT : HYDRA_MISS;
unlock:
	pte_unmap_unlock(pte, ptl);
	return ret;
}

/*
 * Copy the huge entry of the fault, and those of the window that the domain lacks. An entry
 * of the domain that is present is a copy of the same huge page, or the way to a table.
 *
 * Context: the locks of the table and of the domain. Return: how many more were copied.
 */
static unsigned int hydra_copy_huge(const struct hydra_request *r, struct hydra_table *t,
				    const pteval_t *canonical, unsigned int asked)
{
	pteval_t *own = t->table[r->d];
	unsigned int i, end, nr = 0;

	lockdep_assert_held(&r->h->domain[r->d]->lock);
	if (!r->unasked)
		hydra_copy_entry(t, &own[asked], READ_ONCE(canonical[asked]));
	hydra_window(r, t->level, &i, &end);
	for (; i < end; i++) {
		pteval_t val = READ_ONCE(canonical[i]);

		if (!hydra_leaf(val) || hydra_present(READ_ONCE(own[i])))
			continue;
		hydra_copy_entry(t, &own[i], val);
		nr++;
	}
	return nr;
}

/*
 * Fill a huge entry: copy it to the domain's PMD or PUD table.
 *
 * Context: may wait for the table's lock.
 */
static enum hydra_result hydra_fill_huge(struct hydra_request *r,
					 struct hydra_table *t, pteval_t *entry)
{
	struct hydra_domain *dom = r->h->domain[r->d];
	enum hydra_result ret = HYDRA_MISS;
	unsigned int nr = 0;
	spinlock_t *ptl;
	pteval_t val;

	ptl = t->level == PG_LEVEL_2M ? pmd_lockptr(r->h->mm, (pmd_t *)entry) :
					pud_lockptr(r->h->mm, (pud_t *)entry);
	if (!r->atomic)
		spin_lock(ptl);
	else if (!spin_trylock(ptl))
		return HYDRA_MISS;
	if (!hydra_leaf(READ_ONCE(*entry)))
		goto unlock;
	/* Before the copy; pairs with hydra_had_huge(). */
	if (!READ_ONCE(r->h->huge))
		WRITE_ONCE(r->h->huge, true);
	val = hydra_use(r, entry);
	if (!hydra_lock_domain(r))
		goto unlock;
	if (READ_ONCE(r->h->active) && t->table[r->d]) {
		hydra_mask_set(r->d, &t->sharers);
		/*
		 * The sharer before the entry. Pairs with the lock of the table: a
		 * flush reads the sharers after the lock was held.
		 */
		smp_wmb();
		nr = hydra_copy_huge(r, t, hydra_table_start(entry), hydra_entry_index(entry));
		hydra_count_fill(r, t->level, nr);
		ret = hydra_permits(r, val) ? HYDRA_HIT : HYDRA_MISS;
	}
	spin_unlock(&dom->lock);
unlock:
	spin_unlock(ptl);
	return ret;
}

/* Give the domain its table for a canonical table above the leaf tables. */
static enum hydra_result hydra_fill_upper(struct hydra_request *r, struct hydra_table *t,
					  pteval_t *entry, pteval_t val)
{
	int err = 0;

	if (!READ_ONCE(t->table[r->d]))
		err = r->atomic ? -EAGAIN :
		      hydra_domain_upper(t, r->d, entry, val, r->gfp);
	if (!err)
		return HYDRA_HIT;
	return err == -ENOMEM ? HYDRA_NOMEM : HYDRA_MISS;
}

/*
 * Walk the canonical tree down to the entry, and the domain's tree beside it.
 *
 * Context: interrupts off if r->atomic, otherwise a VMA is locked.
 */
static enum hydra_result hydra_fill(struct hydra_request *r)
{
	struct hydra_table *pud_table, *pmd_table;
	enum hydra_result ret;
	pgd_t *pgd = pgd_offset(r->h->mm, r->addr);
	p4d_t *p4d, p4dval;
	pud_t *pud, pudval;
	pmd_t *pmd, pmdval;

	if (pgd_none(READ_ONCE(*pgd)))
		return HYDRA_MISS;
	p4d = p4d_offset(pgd, r->addr);
	p4dval = READ_ONCE(*p4d);
	if (!hydra_present(p4d_val(p4dval)))
		return HYDRA_MISS;
	pud = pud_offset(&p4dval, r->addr);
	pudval = READ_ONCE(*pud);
	if (!hydra_present(pud_val(pudval)))
		return HYDRA_MISS;

	pud_table = hydra_table_of((pteval_t *)pud) ?:
		    hydra_table_find_or_alloc(r->h, NULL, (pteval_t *)pud, r->addr,
					      r->gfp);
	if (!pud_table)
		return HYDRA_NOMEM;
	ret = hydra_fill_upper(r, pud_table, (pteval_t *)p4d, p4d_val(p4dval));
	if (ret != HYDRA_HIT)
		return ret;
	if (hydra_leaf(pud_val(pudval)))
		return hydra_fill_huge(r, pud_table, (pteval_t *)pud);

	pmd = pmd_offset(&pudval, r->addr);
	pmdval = pmdp_get_lockless(pmd);
	if (!hydra_present(pmd_val(pmdval)))
		return HYDRA_MISS;
	pmd_table = hydra_table_of((pteval_t *)pmd) ?:
		    hydra_table_find_or_alloc(r->h, pud_table, (pteval_t *)pmd, r->addr,
					      r->gfp);
	if (!pmd_table)
		return HYDRA_NOMEM;
	ret = hydra_fill_upper(r, pmd_table, (pteval_t *)pud, pud_val(pudval));
	if (ret != HYDRA_HIT)
		return ret;
	if (hydra_leaf(pmd_val(pmdval)))
		return hydra_fill_huge(r, pmd_table, (pteval_t *)pmd);
	return hydra_fill_leaf(r, pmd_table, pmd);
}

/* Allocate what hydra_fill() reported as missing. Return: false without memory. */
static bool hydra_fill_allocate(struct hydra_request *r)
{
	if (r->lacks_table) {
		r->spare = hydra_table_alloc(r->h, r->gfp);
		if (!r->spare)
			return false;
	}
	if (r->lacks_replica) {
		r->replica = hydra_replica_alloc(r->h, r->d);
		r->no_replica = !r->replica;
	}
	return true;
}

static enum hydra_result hydra_fill_retry(struct hydra_request *r)
{
	enum hydra_result ret = hydra_fill(r);

	/* The caller of an atomic fill may fall back to a fill that sleeps. */
	while (ret == HYDRA_AGAIN && !r->atomic)
		ret = hydra_fill_allocate(r) ? hydra_fill(r) : HYDRA_NOMEM;
	kfree(r->spare);
	if (r->replica) {
		hydra_page_free(r->h, r->replica);
		hydra_replica_unreserve(r->h);
	}
	return ret;
}

/* Does the domain use the canonical tree? */
static bool hydra_uses_canonical(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);

	return !dom || READ_ONCE(dom->root) == h->mm->pgd;
}

/*
 * Which domains walk a leaf table, or a replica?
 *
 * @word: of the table
 */
static hydra_mask_t hydra_joined(unsigned long word)
{
	struct hydra_table *t = hydra_word_table(word);
	hydra_mask_t joined;

	hydra_mask_zero(&joined);
	if (t)
		hydra_mask_add(&joined, &t->users);
	else if (hydra_word_solo(word))
		hydra_mask_set(hydra_word_domain(word), &joined);
	return joined;
}

/*
 * Do all domains walk the table that can? A degraded domain walks it by the canonical
 * tree.
 */
static bool hydra_all_joined(struct hydra_mm *h, unsigned long word)
{
	hydra_mask_t joined = hydra_joined(word);

	hydra_mask_add(&joined, &h->universal);
	return hydra_mask_subset(&h->trees, &joined);
}

/**
 * __hydra_links - is there nothing to fill after a fault in a leaf table?
 * @h: address space
 * @pmd: a canonical entry
 *
 * There is not if this CPU's domain links the table. Then every entry of the leaf table
 * is in the domain's tree. That is the case for memory of a single domain, and for the
 * owner of a shared table. Under replication "eager" the other domains need the table,
 * too.
 *
 * A collapse may unlink the leaf table without the lock of the VMA. Then the word
 * read here belongs to a table that is not freed yet, and the access faults again.
 *
 * A fault on behalf of another process comes here, too. Its table may have domains of
 * another scope, and fewer of them. Such a fault fills nothing, whatever the answer.
 *
 * Context: the VMA around the entry is locked. @h is of the current process.
 * Return: true if there is nothing to fill.
 */
bool __hydra_links(struct hydra_mm *h, pmd_t *pmd)
{
	unsigned int d = hydra_this_domain(h);
	pteval_t val, *canonical;
	struct hydra_table *t;
	unsigned long word;
	bool links = false;

	rcu_read_lock();
	val = pmd_val(pmdp_get_lockless(pmd));
	if (hydra_is_table(val)) {
		canonical = hydra_next_table(val);
		/* Read once: it may become a pointer just now. */
		word = hydra_word_of(canonical);
		t = hydra_word_table(word);
		links = (!t || t->hmm == h) &&
			hydra_domain_leaf(word, canonical, d) == canonical &&
			(!hydra_eager(h) || hydra_all_joined(h, word));
	}
	rcu_read_unlock();
	return links;
}

/*
 * Which domains have what a fault in @addr is about: the leaf table, or a copy of the huge
 * entry? Context: as __hydra_fault_done().
 */
static hydra_mask_t hydra_have(struct hydra_mm *h, unsigned long addr)
{
	pmd_t *pmd = hydra_canonical_pmd(h->mm, addr);
	struct hydra_table *t;
	hydra_mask_t have;
	unsigned int d;
	pteval_t val;

	hydra_mask_zero(&have);
	/* A huge PUD entry, which few faults are about */
	if (!pmd)
		return have;
	rcu_read_lock();
	val = pmd_val(pmdp_get_lockless(pmd));
	t = hydra_table_of((pteval_t *)pmd);
	if (hydra_is_table(val)) {
		have = hydra_joined(hydra_word_of(hydra_next_table(val)));
	} else if (t) {
		for (d = 0; d < hydra_domains_of(h)->nr; d++) {
			pteval_t *own = READ_ONCE(t->table[d]);

			if (own && hydra_leaf(READ_ONCE(own[pmd_index(addr)])))
				hydra_mask_set(d, &have);
		}
	}
	rcu_read_unlock();
	return have;
}

/*
 * Replication "eager": give all other domains what this CPU's domain has got, a whole
 * table for each. The first fault in a table does it. From then on each entry that is set
 * in the table goes to all domains (hydra_update_copy()).
 *
 * Each domain joins for itself, so nothing has to be atomic over domains: an entry set
 * meanwhile goes to the domains that have joined, and those that join later copy it, both
 * under the table's lock. A domain without memory for a replica links the table. A domain
 * without memory for an upper table goes without, until it faults.
 *
 * Context: as __hydra_fault_done().
 */
static void hydra_fill_others(const struct hydra_request *asked)
{
	struct hydra_mm *h = asked->h;
	hydra_mask_t lack, have = hydra_have(h, asked->addr);
	unsigned int d;

	hydra_mask_zero(&lack);
	hydra_mask_add(&lack, &h->trees);
	hydra_mask_remove(&lack, &have);
	/* trees before h->domain[d]; pairs with the smp_wmb() in hydra_promote(). */
	smp_rmb();
	for_each_hydra_domain(d, &lack) {
		struct hydra_request r = {
			.h = h,
			.d = d,
			.addr = asked->addr,
			.vm_end = TASK_SIZE_MAX,
			.degree = HYDRA_PREFETCH_MAX,
			.unasked = true,
			/*
			 * Without reclaim: the domain has not asked, and would be tried
			 * again at each fault in the table.
			 */
			.gfp = asked->gfp & ~__GFP_DIRECT_RECLAIM,
		};

		if (d != asked->d && !hydra_uses_canonical(h, d))
			hydra_fill_retry(&r);
	}
}

/*
 * Reclaim for an upper table starts no I/O, and does not enter a file system. A thread that
 * serves a block device has locked its memory, and relies on it that Linux allocates nothing
 * for a fault there. A fill may: and must not wait for that very thread.
 */
#define GFP_UPPER	(GFP_PGTABLE_USER & ~(__GFP_IO | __GFP_FS))

/**
 * __hydra_fault_done - fill the entry of a fault that Linux has handled
 * @h: address space of the process that faults, active
 * @vma: area of the fault, still locked
 * @addr: address of the fault
 * @flags: FAULT_FLAG_*
 *
 * Fills for the domain of this CPU: the thread may have moved since the fault.
 *
 * Context: see hydra_fault_done().
 */
void __hydra_fault_done(struct hydra_mm *h, struct vm_area_struct *vma,
			unsigned long addr, unsigned int flags)
{
	unsigned int d = hydra_this_domain(h);
	struct hydra_request r = {
		.h = h,
		.d = d,
		.addr = addr,
		.vm_start = vma->vm_start,
		.vm_end = vma->vm_end,
		.degree = READ_ONCE(h->prefetch),
		.write = flags & FAULT_FLAG_WRITE,
		.exec = flags & FAULT_FLAG_INSTRUCTION,
		.shstk = vma->vm_flags & VM_SHADOW_STACK,
		/* Do not invoke the OOM killer: without memory the domain is degraded. */
		.gfp = GFP_UPPER | __GFP_RETRY_MAYFAIL | __GFP_NOWARN,
	};
	unsigned int noio;

	lockdep_assert(lockdep_is_held(&vma->vm_lock->lock) ||
		       lockdep_is_held(&vma->vm_mm->mmap_lock));
	/* A fault on behalf of another process fills nothing. */
	if (vma->vm_mm != h->mm || hydra_uses_canonical(h, d))
		return;
	if (hydra_eager(h)) {
		r.vm_start = 0;
		r.vm_end = TASK_SIZE_MAX;
		r.degree = HYDRA_PREFETCH_MAX;
	}
	noio = hydra_no_wait_begin();
	if (hydra_fill_retry(&r) == HYDRA_NOMEM)
		hydra_degrade(h, d);
	else if (hydra_eager(h))
		hydra_fill_others(&r);
	hydra_no_wait_end(noio);
}

/**
 * __hydra_install - link a new leaf table for this CPU's domain
 * @mm: the address space, active
 * @pmd: the canonical entry that will point to the table
 * @table: the table
 *
 * The fault that follows needs no fill then.
 *
 * hydra_join() takes the locks of the leaf table and of the domain. Here the lock
 * of the canonical entry is enough. No other CPU can reach the table, so none reads
 * its word. A collapse (through the reverse map), and a copy of a huge entry, take
 * the lock of the canonical entry. A CPU that frees the PMD table, or the domain's
 * PMD table, waits for the VMA; or the address space is returning, and the domain's PMD
 * table goes under the lock of the canonical entry.
 *
 * Context: see hydra_install().
 */
void __hydra_install(struct mm_struct *mm, pmd_t *pmd, struct page *table)
{
	pteval_t *entry = (pteval_t *)pmd;
	struct hydra_table *t = hydra_table_of(entry);
	struct hydra_mm *h = mm->hydra;
	unsigned int d = hydra_this_domain(h);
	pteval_t *own;

	lockdep_assert_held(pmd_lockptr(mm, pmd));
	own = t && mm == current->mm ? READ_ONCE(t->table[d]) : NULL;
	/* While the trees go, none gets a table: see "Return in parts" in split.c. */
	if (!own || READ_ONCE(h->returning) || !hydra_is_home(h, d, page_address(table)))
		return;
	hydra_word_set_solo(page_ptdesc(table), d);
	/* The table's entries and its word before the link; pairs as in hydra_link(). */
	smp_wmb();
	WRITE_ONCE(own[hydra_entry_index(entry)],
		   _PAGE_TABLE | __pa(page_address(table)));
}

/**
 * __hydra_fault_atomic - fill an entry without waiting
 * @h: address space, active
 * @addr: address of the access
 * @write: the access was a write
 *
 * No VMA is locked. Interrupts are off, so canonical tables are not freed
 * meanwhile. The fill adds to a table under the table's lock, if that is free,
 * after reading again that the table is in the canonical tree.
 *
 * Nothing is allocated, so the fill succeeds only if the domain has the upper
 * tables, and has the leaf table or can link it. If it fails, the caller gets the
 * same error as for a page that is not present, and falls back to
 * fixup_user_fault() or a normal fault.
 *
 * Context: see hydra_fault_atomic().
 * Return: true if the domain can do the access.
 */
bool __hydra_fault_atomic(struct hydra_mm *h, unsigned long addr, bool write)
{
	struct hydra_request r = {
		.h = h,
		.d = hydra_this_domain(h),
		.addr = addr,
		.vm_start = addr & PAGE_MASK,
		.vm_end = (addr & PAGE_MASK) + PAGE_SIZE,
		.write = write,
		.atomic = true,
	};

	lockdep_assert_irqs_disabled();
	/* These may have interrupted the holder of hydra_domain.lock. */
	if (in_nmi() || in_hardirq() || in_serving_softirq())
		return false;
	/*
	 * A switch between address spaces, or to a temporary one, may be traced: the access
	 * does not walk a tree of @h, and would fault again without end.
	 */
	if (this_cpu_read(cpu_tlbstate.loaded_mm) != h->mm)
		return false;
	if (hydra_uses_canonical(h, r.d))
		return false;
	return hydra_fill_retry(&r) == HYDRA_HIT;
}

/**
 * __hydra_entry_missing - may a domain root have lacked an entry just now?
 * @h: address space
 * @entry: the canonical entry, of a leaf table
 *
 * Context: see hydra_entry_missing().
 * Return: true if the access may succeed after a fault.
 */
bool __hydra_entry_missing(struct hydra_mm *h, pteval_t *entry)
{
	unsigned int d = hydra_this_domain(h);
	pteval_t *canonical = hydra_table_start(entry);
	pteval_t *table = hydra_domain_leaf(hydra_word_of(canonical), canonical, d);

	hydra_assert_leaf_locked(canonical);
	return !READ_ONCE(h->active) || hydra_uses_canonical(h, d) || !table ||
	       !hydra_present(READ_ONCE(table[hydra_entry_index(entry)]));
}

#include "tests/fill-kunit.h"
