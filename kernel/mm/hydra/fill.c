// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fills: how entries of the canonical tree come into the tree of a domain.
 *
 * Linux handles a fault as ever, on the canonical tree, under the lock of the VMA or
 * whatever the fault came with. If the canonical tree holds the entry already, Linux
 * takes it for a fault that another CPU has been faster with. Then the domain gets
 * the entry.
 *
 * A domain links a leaf table that lies on its home node, and copies entries
 * of one that does not to a replica of its own. Which of the two was chosen
 * stays until the table goes. As long as the first domain to link a leaf table is
 * the only one that uses it, the link and the word of the table is all there is.
 *
 * Entries are handed on even if they do not permit the access that faulted: a
 * copy-on-write fault of memory without struct page reads it through the user's
 * address.
 */

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/pgalloc.h>

#include "internal.h"

#include <trace/events/hydra.h>

/* What is asked for, and what has been got together for it. */
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
	/* Holds no VMA, must neither wait for a lock nor allocate. */
	bool atomic;
	gfp_t gfp;

	struct hydra_table *spare;	/* not yet in use */
	pteval_t *replica;		/* not yet in use */
	bool no_replica;		/* could not be had: link instead */
	bool lacks_table;
	bool lacks_replica;
};

enum hydra_result {
	HYDRA_MISS,	/* nothing to hand on, or it does not permit this */
	HYDRA_HIT,	/* the domain can do the access */
	HYDRA_AGAIN,	/* what r->lacks_... says has to be allocated first */
	HYDRA_NOMEM,	/* a table above the leaf tables cannot be had */
};

/**
 * hydra_window - the entries a fill copies
 * @addr: address that was asked for
 * @degree: up to 2^degree entries, aligned to their number
 * @vm_start: first address of the VMA
 * @vm_end: address after its last one
 * @first: set to the index of the first entry in the leaf table
 * @end: set to the index after the last one
 *
 * Prefetch as in the Hydra paper, section 3.4: inside the leaf table and the
 * VMA.
 */
void hydra_window(unsigned long addr, unsigned int degree,
		  unsigned long vm_start, unsigned long vm_end,
		  unsigned int *first, unsigned int *end)
{
	unsigned long base = addr & PMD_MASK;
	unsigned int nr = 1U << degree;

	*first = pte_index(addr) & ~(nr - 1);
	*end = *first + nr;
	if (vm_start > base)
		*first = max_t(unsigned long, *first,
			       (vm_start - base) >> PAGE_SHIFT);
	*end = min_t(unsigned long, *end,
		     (min(vm_end, base + PMD_SIZE) - base) >> PAGE_SHIFT);
}

/* Does a canonical entry permit the access? As the hardware would judge. */
static bool permits(const struct hydra_request *r, pteval_t val)
{
	if (r->exec && (val & _PAGE_NX))
		return false;
	if (r->write && r->shstk)
		return (val & (_PAGE_RW | _PAGE_DIRTY)) == _PAGE_DIRTY;
	return !r->write || (val & _PAGE_RW);
}

/*
 * Mark the canonical entry as the hardware would for this access. Whoever can
 * change it otherwise is locked out but for hardware, which sets these very
 * bits. Dirty goes only into a writable entry: in a read-only one it would make
 * a shadow stack.
 */
static pteval_t mark_used(const struct hydra_request *r, pteval_t *entry)
{
	pteval_t val = READ_ONCE(*entry);

	if (!permits(r, val))
		return val;
	if (!(val & _PAGE_ACCESSED))
		set_bit(_PAGE_BIT_ACCESSED, (unsigned long *)entry);
	if (r->write && (val & _PAGE_RW) && !(val & _PAGE_DIRTY))
		set_bit(_PAGE_BIT_DIRTY, (unsigned long *)entry);
	return READ_ONCE(*entry);
}

/* Copy one entry. An accessed bit the replica has for the same page stays. */
static void copy_entry(pteval_t *to, pteval_t val)
{
	pteval_t old = READ_ONCE(*to), new;

	/* The hardware changes present entries only. */
	if (!hydra_present(old)) {
		WRITE_ONCE(*to, hydra_derive(val));
		return;
	}
	do {
		new = hydra_derive(val);
		if (hydra_present(old) && !((old ^ val) & PTE_PFN_MASK))
			new |= old & _PAGE_ACCESSED;
		if (old == new)
			return;
	} while (!try_cmpxchg(to, &old, new));
}

static __always_inline bool copy_present(const pteval_t *from, pteval_t *to)
{
	pteval_t val = READ_ONCE(*from);

	if (!hydra_present(val))
		return false;
	WRITE_ONCE(*to, hydra_derive(val));
	return true;
}

/* Copy entries to a part of a replica that has none yet. Return: how many. */
static unsigned int copy_first(const pteval_t *from, pteval_t *to, unsigned int nr)
{
	const pteval_t *end = from + nr;
	unsigned int i;

	for (; end - from >= 8; from += 8, to += 8)
#pragma GCC unroll 8
		for (i = 0; i < 8; i++)
			nr -= !copy_present(from + i, to + i);
	for (; from < end; from++, to++)
		nr -= !copy_present(from, to);
	return nr;
}

/* Copy those that it lacks. */
static unsigned int copy_more(const pteval_t *from, pteval_t *to, unsigned int nr)
{
	unsigned int i, copied = 0;

	for (i = 0; i < nr; i++) {
		pteval_t val = READ_ONCE(from[i]);

		if (!hydra_present(val) || hydra_present(READ_ONCE(to[i])))
			continue;
		WRITE_ONCE(to[i], hydra_derive(val));
		copied++;
	}
	return copied;
}

/*
 * Copy the entry that was asked for, and what else the window holds.
 * @first: the replica is new.
 * Context: the leaf table's lock.
 */
static void copy_window(const struct hydra_request *r, pteval_t *canonical,
			pteval_t *replica, bool first)
{
	unsigned int begin, end, nr, asked = pte_index(r->addr);

	hydra_window(r->addr, r->degree, r->vm_start, r->vm_end, &begin, &end);
	if (first) {
		nr = copy_first(canonical + begin, replica + begin, end - begin) - 1;
	} else {
		copy_entry(&replica[asked], READ_ONCE(canonical[asked]));
		nr = copy_more(canonical + begin, replica + begin, end - begin);
	}
	hydra_count(r->h, HYDRA_STAT_FILLS, 1);
	if (nr)
		hydra_count(r->h, HYDRA_STAT_PREFETCHED, nr);
	trace_hydra_fill(r->h->mm, r->addr, r->d, HYDRA_PTE, nr);
}

/* May this domain have a replica of a leaf table, or does it have to link it? */
static bool wants_replica(const struct hydra_request *r, void *canonical)
{
	return page_to_nid(virt_to_page(canonical)) != hydra_domain_home[r->d] ||
	       hydra_breaks(HYDRA_BREAK_COPY_OWN);
}

/*
 * A replica is worth memory that is free, on the domain's home. A fault reclaims
 * nothing for it, on the node or in the memory cgroup: that would take data of
 * the program, or replicas that are in use. If the node runs low, kswapd is
 * woken as by any allocation, so a node full of page cache has room for later
 * ones.
 */
#define GFP_REPLICA	(GFP_PGTABLE_USER & ~__GFP_DIRECT_RECLAIM)

static pteval_t *replica_alloc(struct hydra_request *r)
{
	unsigned long nr = atomic_long_inc_return(&r->h->nr_replicas);
	int home = hydra_domain_home[r->d];
	pteval_t *replica = NULL;

	/* __GFP_THISNODE is told of in the log if the node has gone. */
	if (nr <= READ_ONCE(hydra_replica_limit) >> PAGE_SHIFT &&
	    node_online(home))
		replica = hydra_page_alloc(r->h, home, GFP_REPLICA |
					   __GFP_THISNODE | __GFP_NOWARN);
	if (replica && !hydra_reclaim_prepare(replica)) {
		hydra_page_free(r->h, replica);
		replica = NULL;
	}
	if (!replica)
		atomic_long_dec(&r->h->nr_replicas);
	return replica;
}

/*
 * An atomic fill may have interrupted whoever holds the lock: a probe or a trace
 * event inside may look at user memory.
 */
static bool lock_domain(struct hydra_request *r)
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
 * If no other domain does, the word of the table says so, and that is all. If
 * another domain links it alone, it gets a struct hydra_table, in which both are;
 * the link of the other one stays as it is.
 *
 * The canonical entry is looked at under the domain's lock once more: the leaf
 * table's lock does not keep a collapse from taking the table away, but a
 * collapse takes the domains' locks after it has cleared the entry. For the same
 * reason the word of the table is written here and nowhere else.
 *
 * Context: the leaf table's lock. @t is the table's, or NULL; @joined is set to
 * what the domain walks now.
 */
static enum hydra_result join(struct hydra_request *r, struct hydra_table *t,
			      struct hydra_table *parent, pmd_t *pmd,
			      pteval_t *canonical, pteval_t **joined)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_domain *dom = r->h->domain[r->d];
	bool replicate = wants_replica(r, canonical) && !r->no_replica;
	enum hydra_result ret = HYDRA_MISS;
	pteval_t *table = canonical;

	r->lacks_table = !t && (replicate || word) && !r->spare;
	r->lacks_replica = replicate && !r->replica;
	if (r->lacks_table || r->lacks_replica)
		return HYDRA_AGAIN;
	if (!t && (replicate || word)) {
		t = r->spare;
		hydra_table_init(t, r->h, parent, canonical, r->addr, HYDRA_PTE);
	}
	if (replicate)
		table = r->replica;
	if (!lock_domain(r))
		return HYDRA_MISS;
	if (!READ_ONCE(r->h->active) || !parent->table[r->d] ||
	    !hydra_same_table(pmd_val(READ_ONCE(*pmd)),
			      _PAGE_TABLE | __pa(canonical)))
		goto unlock;
	if (t) {
		if (hydra_word_solo(word) && !hydra_breaks(HYDRA_BREAK_FORGET_SOLO)) {
			unsigned int first = hydra_word_domain(word);

			hydra_mask_set(first, &t->sharers);
			hydra_mask_set(first, &t->users);
			t->table[first] = canonical;
		}
		if (!hydra_breaks(HYDRA_BREAK_FORGET_SHARER))
			hydra_mask_set(r->d, &t->sharers);
		hydra_mask_set(r->d, &t->users);
		WRITE_ONCE(t->table[r->d], table);
	}
	if (!t || t == r->spare) {
		/* The object whole before the word; the link has a barrier. */
		smp_store_release(&virt_to_ptdesc(canonical)->__page_mapping,
				  t ? (unsigned long)t : hydra_solo(r->d));
		if (t)
			r->spare = NULL;
	}
	hydra_link(dom, &parent->table[r->d][pmd_index(r->addr)], table);
	ret = HYDRA_HIT;
	if (replicate) {
		atomic_long_inc(&dom->nr_replicas);
		hydra_reclaim_add(t, table);
		r->replica = NULL;
	} else if (r->no_replica) {
		hydra_count(r->h, HYDRA_STAT_FALLBACKS, 1);
	}
unlock:
	spin_unlock(&dom->lock);
	*joined = table;
	return ret;
}

/* What a domain walks in place of a leaf table; NULL: nothing. */
static pteval_t *domain_leaf(pteval_t *canonical, unsigned int d)
{
	unsigned long word = hydra_word_of(canonical);
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		return READ_ONCE(t->table[d]);
	return word == hydra_solo(d) ? canonical : NULL;
}

/**
 * hydra_trylock_leaf - lock a leaf table if its lock is free
 * @mm: address space
 * @pmd: canonical entry that the table hangs on
 * @addr: any address it maps
 * @ptl: set to its lock
 *
 * Context: interrupts off.
 * Return: the entry for @addr, to be given to pte_unmap_unlock(); NULL if there
 * is no leaf table, or its lock is taken.
 */
pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl)
{
	pmd_t pmdval = pmdp_get_lockless(pmd);
	pte_t *pte = pte_offset_map_nolock(mm, pmd, addr, ptl);

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

static pte_t *lock_leaf(struct hydra_request *r, pmd_t *pmd, spinlock_t **ptl)
{
	if (r->atomic)
		return hydra_trylock_leaf(r->h->mm, pmd, r->addr, ptl);
	return pte_offset_map_lock(r->h->mm, pmd, r->addr, ptl);
}

static enum hydra_result fill_leaf(struct hydra_request *r,
				   struct hydra_table *parent, pmd_t *pmd)
{
	enum hydra_result ret = HYDRA_MISS;
	pteval_t *canonical, *table;
	bool first = false;
	spinlock_t *ptl;
	pteval_t val;
	pte_t *pte;

	pte = lock_leaf(r, pmd, &ptl);
	if (!pte)
		return HYDRA_MISS;
	canonical = hydra_table_start(pte);
	if (!hydra_present(pte_val(ptep_get(pte))) || !READ_ONCE(r->h->active))
		goto unlock;

	table = domain_leaf(canonical, r->d);
	if (!table) {
		ret = join(r, hydra_table_of(canonical), parent, pmd, canonical,
			   &table);
		if (ret != HYDRA_HIT)
			goto unlock;
		first = true;
	}
	/*
	 * While an atomic fill is here, a collapse may cut the table. What is
	 * written to a replica then is of no use and does no harm.
	 */
	if (table == canonical) {
		/* Linked: hardware and Linux see to the rest. */
		val = pte_val(ptep_get(pte));
	} else {
		val = mark_used(r, (pteval_t *)pte);
		copy_window(r, canonical, table, first);
	}
	ret = permits(r, val) ? HYDRA_HIT : HYDRA_MISS;
unlock:
	pte_unmap_unlock(pte, ptl);
	return ret;
}

/*
 * Huge entries: the domain's own PMD or PUD table is the replica that the
 * copy goes into. Context: may wait for the table's lock.
 */
static enum hydra_result fill_huge(struct hydra_request *r,
				   struct hydra_table *t, pteval_t *entry)
{
	struct hydra_domain *dom = r->h->domain[r->d];
	enum hydra_result ret = HYDRA_MISS;
	spinlock_t *ptl;
	pteval_t val;

	ptl = t->level == HYDRA_PMD ? pmd_lockptr(r->h->mm, (pmd_t *)entry) :
				      pud_lockptr(r->h->mm, (pud_t *)entry);
	if (!r->atomic)
		spin_lock(ptl);
	else if (!spin_trylock(ptl))
		return HYDRA_MISS;
	if (!hydra_leaf(READ_ONCE(*entry)))
		goto unlock;
	val = mark_used(r, entry);
	if (!lock_domain(r))
		goto unlock;
	if (READ_ONCE(r->h->active) && t->table[r->d]) {
		if (!hydra_breaks(HYDRA_BREAK_FORGET_HUGE_SHARER))
			hydra_mask_set(r->d, &t->sharers);
		/*
		 * The sharer before the entry. Pairs with the lock of the table:
		 * a flush looks at the sharers after it was held.
		 */
		smp_wmb();
		copy_entry(&t->table[r->d][hydra_entry_index(entry)], val);
		hydra_count(r->h, HYDRA_STAT_FILLS, 1);
		ret = permits(r, val) ? HYDRA_HIT : HYDRA_MISS;
	}
	spin_unlock(&dom->lock);
	trace_hydra_fill(r->h->mm, r->addr, r->d, t->level, 0);
unlock:
	spin_unlock(ptl);
	return ret;
}

/* The domain's own table for one above the leaf tables. */
static enum hydra_result upper(struct hydra_request *r, struct hydra_table *t,
			       void *entry, pteval_t val)
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
 * Walk the canonical tree down to the entry, with the domain's tree beside it.
 * Context: interrupts off if r->atomic, else a VMA is locked.
 */
static enum hydra_result fill(struct hydra_request *r)
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

	pud_table = hydra_table_get(r->h, NULL, pud, r->addr, HYDRA_PUD,
				    r->gfp);
	if (!pud_table)
		return HYDRA_NOMEM;
	ret = upper(r, pud_table, p4d, p4d_val(p4dval));
	if (ret != HYDRA_HIT)
		return ret;
	if (hydra_leaf(pud_val(pudval)))
		return fill_huge(r, pud_table, (pteval_t *)pud);

	pmd = pmd_offset(&pudval, r->addr);
	pmdval = pmdp_get_lockless(pmd);
	if (!hydra_present(pmd_val(pmdval)))
		return HYDRA_MISS;
	pmd_table = hydra_table_get(r->h, pud_table, pmd, r->addr, HYDRA_PMD,
				    r->gfp);
	if (!pmd_table)
		return HYDRA_NOMEM;
	ret = upper(r, pmd_table, pud, pud_val(pudval));
	if (ret != HYDRA_HIT)
		return ret;
	if (hydra_leaf(pmd_val(pmdval)))
		return fill_huge(r, pmd_table, (pteval_t *)pmd);
	return fill_leaf(r, pmd_table, pmd);
}

/* Allocate what fill() has said is missing. Return: false if it cannot go on. */
static bool prepare(struct hydra_request *r)
{
	if (r->lacks_table) {
		r->spare = hydra_table_alloc(r->gfp);
		if (!r->spare)
			return false;
	}
	if (r->lacks_replica) {
		r->replica = replica_alloc(r);
		r->no_replica = !r->replica;
	}
	return true;
}

static enum hydra_result fill_retry(struct hydra_request *r)
{
	enum hydra_result ret = fill(r);

	/* The caller of an atomic fill has a way to ask for a sleeping one. */
	while (ret == HYDRA_AGAIN && !r->atomic)
		ret = prepare(r) ? fill(r) : HYDRA_NOMEM;
	kfree(r->spare);
	if (r->replica) {
		hydra_page_free(r->h, r->replica);
		atomic_long_dec(&r->h->nr_replicas);
	}
	return ret;
}

/* Does a domain have no tree of its own to fill? */
static bool uses_canonical(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);

	return !dom || READ_ONCE(dom->root) == h->mm->pgd;
}

/*
 * Fill for the current process. Faults on behalf of another process are not this
 * CPU's to fill for.
 */
static noinline void fill_for(struct hydra_mm *h, unsigned int d,
		     struct vm_area_struct *vma, unsigned long addr,
		     unsigned int flags)
{
	struct hydra_request r = {
		.h = h,
		.d = d,
		.addr = addr,
		.vm_start = vma->vm_start,
		.vm_end = vma->vm_end,
		.degree = hydra_prefetch_setting(hydra_get(h->mm)),
		.write = flags & FAULT_FLAG_WRITE,
		.exec = flags & FAULT_FLAG_INSTRUCTION,
		.shstk = vma->vm_flags & VM_SHADOW_STACK,
		/* Not worth killing anything for: there are ways to do without. */
		.gfp = GFP_PGTABLE_USER | __GFP_RETRY_MAYFAIL | __GFP_NOWARN,
	};
	enum hydra_result ret;

	if (h->mm != current->mm || uses_canonical(h, d))
		return;
	ret = fill_retry(&r);
	if (ret == HYDRA_NOMEM)
		hydra_degrade(h, d);
}

/*
 * Does this domain, and no other, link the leaf table of an address? Then what Linux
 * has put there is in its tree: the common case, of memory that no other domain uses.
 *
 * A collapse may take the leaf table away without our VMA. Then this word is of a
 * table that is still to be freed. At the next fault it is that of the new one.
 */
static bool links_alone(struct hydra_mm *h, unsigned int d, unsigned long addr)
{
	pmd_t *pmd = hydra_canonical_pmd(h->mm, addr);
	bool alone = false;
	pteval_t val;

	rcu_read_lock();
	val = pmd ? pmd_val(pmdp_get_lockless(pmd)) : 0;
	if (hydra_is_table(val))
		alone = hydra_word_of(hydra_next_table(val)) == hydra_solo(d);
	rcu_read_unlock();
	return alone;
}

/**
 * __hydra_fault_done - hand on to this CPU's domain what Linux has come up with
 * @h: address space, active
 * @vma: area that was hit
 * @addr: address that was hit
 * @flags: FAULT_FLAG_*
 * @ret: what Linux's handler returned
 *
 * The thread may have moved to another domain meanwhile.
 *
 * Context: see hydra_fault_done().
 */
void __hydra_fault_done(struct hydra_mm *h, struct vm_area_struct *vma,
			unsigned long addr, unsigned int flags, vm_fault_t ret)
{
	unsigned int d = hydra_this_domain();

	/* With one of these the vma may not be locked any more. */
	if (ret & (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED))
		return;
	if (!links_alone(h, d, addr))
		fill_for(h, d, vma, addr, flags);
}

/**
 * __hydra_install - link a new leaf table for the domain that has asked for it
 * @mm: the address space, active
 * @pmd: the canonical entry it goes to
 * @table: the table
 *
 * So nothing is left to do once Linux has put an entry into it.
 *
 * What join() needs the locks of the leaf table and of the domain for, the lock of
 * the canonical entry is enough for here. No other CPU can reach the table, so none
 * looks at its word. A collapse, which finds its way here by the reverse map, and a
 * copy of a huge entry take the lock of the canonical entry, too, and a CPU that
 * takes down the PMD table or the domain's waits for the VMA.
 *
 * Context: see hydra_install().
 */
void __hydra_install(struct mm_struct *mm, pmd_t *pmd, struct page *table)
{
	struct hydra_table *t = hydra_table_of(pmd);
	unsigned int d = hydra_this_domain();
	pteval_t *own;

	lockdep_assert_held(pmd_lockptr(mm, pmd));
	own = t && mm == current->mm ? READ_ONCE(t->table[d]) : NULL;
	if (!own || page_to_nid(table) != hydra_domain_home[d] ||
	    hydra_breaks(HYDRA_BREAK_COPY_OWN))
		return;
	page_ptdesc(table)->__page_mapping = hydra_solo(d);
	/* The table's entries and its word before the way to it: see hydra_link(). */
	smp_wmb();
	WRITE_ONCE(own[hydra_entry_index(pmd)],
		   _PAGE_TABLE | __pa(page_address(table)));
}

/**
 * __hydra_fault_atomic - hand an entry on where nothing may be waited for
 * @h: address space, active
 * @addr: address that was hit
 * @write: it was a write
 *
 * No VMA is locked. Interrupts are off, so no table found in the canonical tree
 * is freed meanwhile, and what is added to a table is added under its lock, if
 * that is free, after looking that the table is still in place. Nothing is
 * allocated, so the domain has to have come near before: who fails here goes on
 * to handle_mm_fault(), by fixup_user_fault() or by touching the page, or fails
 * as it does on a page that is not there.
 *
 * Context: see hydra_fault_atomic().
 * Return: true if the domain can do the access.
 */
bool __hydra_fault_atomic(struct hydra_mm *h, unsigned long addr, bool write)
{
	struct hydra_request r = {
		.h = h,
		.d = hydra_this_domain(),
		.addr = addr,
		.vm_start = addr & PAGE_MASK,
		.vm_end = (addr & PAGE_MASK) + PAGE_SIZE,
		.write = write,
		.atomic = true,
	};
	bool hit;

	lockdep_assert_irqs_disabled();
	/* These may have interrupted a holder of hydra_domain.lock. */
	if (in_nmi() || in_hardirq() || in_serving_softirq())
		return false;
	if (uses_canonical(h, r.d) || hydra_breaks(HYDRA_BREAK_SKIP_ATOMIC_FILL))
		return false;
	/* Before the look at the tables: see __hydra_free_table(). */
	if (ALLOC_SPLIT_PTLOCKS)
		atomic_inc_return(&h->atomic_fills);
	hit = fill_retry(&r) == HYDRA_HIT;
	if (ALLOC_SPLIT_PTLOCKS)
		atomic_dec_return(&h->atomic_fills);
	return hit;
}

/**
 * __hydra_entry_missing - may a domain root have lacked an entry just now?
 * @h: address space
 * @entry: the canonical entry, of a leaf table
 *
 * Context: see hydra_entry_missing().
 */
bool __hydra_entry_missing(struct hydra_mm *h, void *entry)
{
	unsigned int d = hydra_this_domain();
	pteval_t *table = domain_leaf(hydra_table_start(entry), d);

	return !READ_ONCE(h->active) || uses_canonical(h, d) || !table ||
	       !hydra_present(READ_ONCE(table[hydra_entry_index(entry)]));
}
