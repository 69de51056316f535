// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: leaf replicas are given back when their node, or the memory cgroup
 * that they are charged to, runs short of memory. Their domain asks again for
 * what it still needs.
 *
 * Each replica is in a list by node and memory cgroup, from when its domain
 * joins the table until the link is cut. The shrinker notes which table the
 * oldest one belongs to, and looks that table up like any lockless walker of
 * Linux. It does not take mmap_lock: a fork that needs page tables, for one,
 * holds it, and may be short of memory because of these very replicas.
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

#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>

#include <asm/hydra.h>

#include "internal.h"

/* In the descriptor of a replica, pt_list is for this and pt_index is its table. */
static struct list_lru replicas;

/**
 * hydra_reclaim_prepare - make sure that a new replica can be listed
 * @replica: it, not in use yet
 *
 * Context: process context, no locks. Reclaims nothing.
 * Return: false if there is no memory for the lists of its memory cgroup.
 */
bool hydra_reclaim_prepare(pteval_t *replica)
{
	struct folio *folio = ptdesc_folio(virt_to_ptdesc(replica));
	struct mem_cgroup *memcg;
	bool held;
	int err;

	/* A cgroup that is going hands the charge on to its parent. */
	do {
		rcu_read_lock();
		memcg = folio_memcg(folio);
		held = mem_cgroup_tryget(memcg);
		rcu_read_unlock();
	} while (!held);
	if (!memcg)
		return true;
	err = memcg_list_lru_alloc(memcg, &replicas, GFP_NOWAIT | __GFP_NOWARN);
	mem_cgroup_put(memcg);
	return !err;
}

/**
 * hydra_reclaim_add - from now on a replica may be dropped
 * @t: of the canonical table
 * @replica: the replica, for which hydra_reclaim_prepare() returned true
 *
 * Context: the lock of the domain that it is linked for, so before the link can
 * be cut.
 */
void hydra_reclaim_add(struct hydra_table *t, pteval_t *replica)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(replica);

	ptdesc->pt_index = (unsigned long)t;
	INIT_LIST_HEAD(&ptdesc->pt_list);
	rcu_read_lock();
	list_lru_add(&replicas, &ptdesc->pt_list, page_to_nid(ptdesc_page(ptdesc)),
		     folio_memcg(ptdesc_folio(ptdesc)));
	rcu_read_unlock();
}

/**
 * hydra_reclaim_remove - the link to a replica has been cut
 * @replica: the replica; neither it nor its struct hydra_table is freed yet
 */
void hydra_reclaim_remove(pteval_t *replica)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(replica);

	rcu_read_lock();
	list_lru_del(&replicas, &ptdesc->pt_list, page_to_nid(ptdesc_page(ptdesc)),
		     folio_memcg(ptdesc_folio(ptdesc)));
	rcu_read_unlock();
}

/* Context: the leaf table's lock. Return: number of replicas dropped. */
static unsigned int drop_replicas(struct hydra_table *t, pteval_t *canonical,
				  int nid)
{
	struct ptdesc *ptdesc, *next;
	struct hydra_mm *h = t->hmm;
	hydra_mask_t dropped;
	unsigned int d, nr = 0;
	LIST_HEAD(tables);

	hydra_mask_zero(&dropped);
	for_each_hydra_domain(d, &t->users) {
		pteval_t *table = READ_ONCE(t->table[d]);

		if (!table || table == canonical || hydra_domain_home[d] != nid)
			continue;
		/* A collapse may be faster: it cuts without this lock. */
		table = hydra_table_cut_domain(t, d, canonical);
		if (!table)
			continue;
		list_add(&virt_to_ptdesc(table)->pt_list, &tables);
		hydra_mask_set(d, &dropped);
		nr++;
	}
	if (!nr)
		return 0;
	if (!hydra_breaks(HYDRA_BREAK_RECLAIM_QUIETLY))
		hydra_flush_domains(h, t->base, t->base + PMD_SIZE, &dropped);
	list_for_each_entry_safe(ptdesc, next, &tables, pt_list) {
		hydra_fold_accessed(ptdesc_address(ptdesc), canonical, HYDRA_PTE,
				    PTRS_PER_PTE);
		hydra_page_free(h, ptdesc_address(ptdesc));
	}
	hydra_count(h, HYDRA_STAT_RECLAIMED, nr);
	hydra_mask_remove(&t->sharers, &dropped);
	return nr;
}

/* The place of a replica, with a reference to the mm_struct. */
struct hydra_place {
	struct mm_struct *mm;
	unsigned long addr;
};

/*
 * Note the place of the oldest replica, and make it the youngest one: the table
 * may be busy. A replica in the list keeps its struct hydra_table, and that its
 * mm_struct.
 */
static enum lru_status note_place(struct list_head *item,
				  struct list_lru_one *list, spinlock_t *lock,
				  void *arg)
{
	struct ptdesc *ptdesc = container_of(item, struct ptdesc, pt_list);
	struct hydra_table *t = (struct hydra_table *)ptdesc->pt_index;
	struct hydra_place *place = arg;

	place->mm = t->hmm->mm;
	place->addr = t->base;
	mmgrab(place->mm);
	list_move_tail(item, &list->list);
	return LRU_STOP;
}

/*
 * Drop the replicas that a leaf table has on a node. Interrupts are off until the
 * table is locked, so it is not freed; from then on the lock keeps it.
 *
 * Return: number of replicas dropped, 0 if the table is busy or has gone.
 */
static unsigned int reclaim_table(struct hydra_mm *h, unsigned long addr,
				  int nid)
{
	struct hydra_table *t;
	unsigned int nr = 0;
	pte_t *pte = NULL;
	spinlock_t *ptl;
	pmd_t *pmd;

	/* As an atomic fill: see __hydra_free_table(). */
	preempt_disable();
	if (ALLOC_SPLIT_PTLOCKS)
		atomic_inc_return(&h->atomic_fills);
	local_irq_disable();
	pmd = hydra_canonical_pmd(h->mm, addr);
	if (pmd)
		pte = hydra_trylock_leaf(h->mm, pmd, addr, &ptl);
	local_irq_enable();
	if (pte) {
		t = hydra_table_of(pte);
		if (t && READ_ONCE(h->active))
			nr = drop_replicas(t, hydra_table_start(pte), nid);
		pte_unmap_unlock(pte, ptl);
	}
	if (ALLOC_SPLIT_PTLOCKS)
		atomic_dec_return(&h->atomic_fills);
	preempt_enable();
	return nr;
}

static unsigned long reclaim_count(struct shrinker *shrinker,
				   struct shrink_control *sc)
{
	if (hydra_breaks(HYDRA_BREAK_HOARD_REPLICAS))
		return SHRINK_EMPTY;
	return list_lru_shrink_count(&replicas, sc) ?: SHRINK_EMPTY;
}

static unsigned long reclaim_scan(struct shrinker *shrinker,
				  struct shrink_control *sc)
{
	unsigned long tries, freed = 0;

	for (tries = 0; tries < sc->nr_to_scan && freed < sc->nr_to_scan; tries++) {
		struct hydra_place place = {};
		unsigned long nr = 1;

		list_lru_walk_one(&replicas, sc->nid, sc->memcg, note_place,
				  &place, &nr);
		if (!place.mm)
			break;
		freed += reclaim_table(place.mm->hydra, place.addr, sc->nid);
		mmdrop(place.mm);
		cond_resched();
	}
	/* Nothing to be had now: all are busy. */
	return freed ?: SHRINK_STOP;
}

static int __init hydra_reclaim_init(void)
{
	struct shrinker *shrinker;

	shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE,
				  "mm-hydra");
	if (!shrinker || list_lru_init_memcg(&replicas, shrinker))
		panic("hydra: no memory for the lists of replicas\n");
	shrinker->count_objects = reclaim_count;
	shrinker->scan_objects = reclaim_scan;
	shrinker_register(shrinker);
	return 0;
}
subsys_initcall(hydra_reclaim_init);
