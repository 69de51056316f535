// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: leaf replicas are given back when a node runs short of memory. Their
 * domain asks again for what it still needs.
 *
 * One leaf table at a time, all of it under that table's lock: the links are
 * cut, the domains flushed (which bumps their generations, and reaches lazy
 * CPUs too, for tables go), what their CPUs have accessed is told to the
 * canonical entries, and then the domains leave the sharers. Whoever changed an
 * entry under the lock before, and has not flushed yet, finds the domains gone
 * from the sharers and flushed in its stead; whoever changes one later finds
 * domains that hold nothing.
 *
 * Only replicas: a link costs nothing, and the tables above the leaf tables are
 * few.
 */

#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>

#include <asm/hydra.h>

#include "internal.h"

/* By domain, the replicas of all address spaces. */
atomic_long_t hydra_replicas[HYDRA_MAX_DOMAINS];

static DEFINE_SPINLOCK(reclaim_lock);
/* All struct hydra_mm, the one to be looked at next first. */
static LIST_HEAD(reclaim_list);

/* What a page walk returns that did not reach the end. */
#define WALK_STOPPED	1

/* A leaf table without replicas costs so much less than dropping one. */
#define VISITS		16

struct hydra_reclaim {
	struct hydra_mm *h;
	int nid;
	unsigned long to_free;		/* replicas */
	unsigned long to_visit;		/* leaf tables, most of which have none */
};

/**
 * hydra_reclaim_add - from now on replicas of this address space may be dropped
 * @h: address space
 */
void hydra_reclaim_add(struct hydra_mm *h)
{
	spin_lock(&reclaim_lock);
	list_add_tail(&h->reclaim, &reclaim_list);
	spin_unlock(&reclaim_lock);
}

/**
 * hydra_reclaim_remove - the address space is about to be freed
 * @h: address space
 */
void hydra_reclaim_remove(struct hydra_mm *h)
{
	spin_lock(&reclaim_lock);
	list_del(&h->reclaim);
	spin_unlock(&reclaim_lock);
}

/* Context: the leaf table's lock. Return: number of replicas dropped. */
static unsigned int drop_replicas(struct hydra_table *t, pteval_t *canonical,
				  int nid)
{
	pteval_t *dropped[HYDRA_MAX_DOMAINS];
	struct hydra_mm *h = t->hmm;
	unsigned int d, nr = 0;
	u64 mask = 0;

	for (d = 0; d < hydra_nr_domains; d++) {
		pteval_t *table = READ_ONCE(t->table[d]);

		if (!table || table == canonical || hydra_domain_home[d] != nid)
			continue;
		/* A collapse may be faster: it cuts without this lock. */
		table = hydra_table_cut_domain(t, d, canonical);
		if (!table)
			continue;
		dropped[d] = table;
		mask |= BIT_ULL(d);
		nr++;
	}
	if (!mask)
		return 0;
	if (!hydra_breaks(HYDRA_BREAK_RECLAIM_QUIETLY))
		flush_tlb_mm_targets(h->mm, t->base, t->base + PMD_SIZE,
				     PAGE_SHIFT, true, mask);
	for (d = 0; d < hydra_nr_domains; d++) {
		if (!(mask & BIT_ULL(d)))
			continue;
		hydra_fold_accessed(dropped[d], canonical, HYDRA_PTE);
		hydra_page_free(h, dropped[d]);
		hydra_count(&h->domain[d], HYDRA_STAT_RECLAIMED, 1);
	}
	WRITE_ONCE(t->sharers, t->sharers & ~mask);
	return nr;
}

static int reclaim_pmd(pmd_t *pmd, unsigned long addr, unsigned long next,
		       struct mm_walk *walk)
{
	struct hydra_reclaim *r = walk->private;
	unsigned long nr = 0;
	struct hydra_table *t;
	spinlock_t *ptl;
	pte_t *pte;

	WRITE_ONCE(r->h->reclaim_next, next);
	pte = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	if (pte) {
		t = hydra_table_of(pte);
		if (t)
			nr = drop_replicas(t, hydra_table_start(pte), r->nid);
		pte_unmap_unlock(pte, ptl);
	}
	cond_resched();
	r->to_free -= min(nr, r->to_free);
	r->to_visit--;
	return r->to_free && r->to_visit ? 0 : WALK_STOPPED;
}

/* Look at all areas, also at those that page walks pass over. */
static int reclaim_test_walk(unsigned long start, unsigned long end,
			     struct mm_walk *walk)
{
	return 0;
}

/* Not to be split only because we come by. */
static int reclaim_pud(pud_t *pud, unsigned long addr, unsigned long next,
		       struct mm_walk *walk)
{
	if (hydra_leaf(pud_val(READ_ONCE(*pud))))
		walk->action = ACTION_CONTINUE;
	return 0;
}

static const struct mm_walk_ops reclaim_ops = {
	.pud_entry = reclaim_pud,
	.pmd_entry = reclaim_pmd,
	.test_walk = reclaim_test_walk,
	.walk_lock = PGWALK_RDLOCK,
};

/*
 * From where the last look ended to the end of the address space. Several may
 * be at it: then each looks at a part of what the other does.
 *
 * With mmap_lock held the tables of all VMAs stay, but for a leaf table that is
 * collapsed, and the address space stays active.
 */
static void reclaim_mm(struct hydra_reclaim *r)
{
	struct mm_struct *mm = r->h->mm;

	if (!mmap_read_trylock(mm))
		return;
	if (READ_ONCE(r->h->active) &&
	    walk_page_range(mm, READ_ONCE(r->h->reclaim_next), TASK_SIZE_MAX,
			    &reclaim_ops, r) != WALK_STOPPED)
		WRITE_ONCE(r->h->reclaim_next, 0);
	mmap_read_unlock(mm);
}

/* The next address space that has replicas, with a reference to its mm. */
static struct hydra_mm *reclaim_get(void)
{
	struct hydra_mm *h, *found = NULL;

	spin_lock(&reclaim_lock);
	list_for_each_entry(h, &reclaim_list, reclaim) {
		if (!atomic_long_read(&h->nr_replicas) ||
		    !mmget_not_zero(h->mm))
			continue;
		list_move_tail(&h->reclaim, &reclaim_list);
		found = h;
		break;
	}
	spin_unlock(&reclaim_lock);
	return found;
}

static unsigned long reclaim_count(struct shrinker *shrinker,
				   struct shrink_control *sc)
{
	unsigned long nr = 0;
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++)
		if (hydra_domain_home[d] == sc->nid)
			nr += atomic_long_read(&hydra_replicas[d]);
	return nr ?: SHRINK_EMPTY;
}

static unsigned long reclaim_scan(struct shrinker *shrinker,
				  struct shrink_control *sc)
{
	struct hydra_reclaim r = {
		.nid = sc->nid,
		.to_free = sc->nr_to_scan,
		.to_visit = sc->nr_to_scan * VISITS,
	};
	unsigned long tries;

	/* An address space may be busy, or have no replicas on this node. */
	for (tries = sc->nr_to_scan; tries && r.to_free && r.to_visit; tries--) {
		r.h = reclaim_get();
		if (!r.h)
			break;
		reclaim_mm(&r);
		/* Its end may be a long way, and we may be in its own fault. */
		mmput_async(r.h->mm);
	}
	/* Nothing to be had now: all are busy, or have none here. */
	return sc->nr_to_scan - r.to_free ?: SHRINK_STOP;
}

static int __init hydra_reclaim_init(void)
{
	struct shrinker *shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE, "mm-hydra");

	if (!shrinker)
		return -ENOMEM;
	shrinker->count_objects = reclaim_count;
	shrinker->scan_objects = reclaim_scan;
	shrinker_register(shrinker);
	return 0;
}
subsys_initcall(hydra_reclaim_init);
