// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: the shrinker drops leaf replicas when their node, or the memory cgroup
 * of the charge, runs short of memory. The domain fills needed entries again.
 *
 * Each replica is in a list by node and memory cgroup, from the join until the link
 * is cut. The shrinker records the place of the oldest replica, and looks up the
 * table like any lockless walker of Linux. The shrinker does not take mmap_lock: a
 * fork in need of page tables, e.g., holds mmap_lock, and may be short of memory
 * because of the replicas.
 *
 * The shrinker handles a leaf table under the lock of the table: cuts the links,
 * flushes the domains (which raises their generations, and reaches lazy CPUs too,
 * as tables are freed), sets the accessed bits of the replicas in the canonical
 * entries, and then removes the domains from the sharers:
 *
 *     CPU 0: hydra_drop_replicas()         CPU 1: changes an entry
 *     ----------------------------         -----------------------
 *                                          locks the leaf table
 *                                          changes the entry
 *                                          unlocks the leaf table
 *     locks the leaf table
 *     flushes the domain
 *     removes the domain from sharers
 *     unlocks the leaf table
 *                                          flushes: the domain is no target
 *
 * CPU 0 has flushed the entry for CPU 1. If CPU 1 locks the table after CPU 0, the
 * domain holds nothing.
 *
 * Only replicas are dropped: a link costs no memory, and the tables above the leaf
 * tables are few.
 */

#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>

#include <asm/hydra.h>

#include "internal.h"

/* In the ptdesc of a replica, pt_list is for this list; pt_index is its hydra_table. */
static struct list_lru replicas;

/**
 * hydra_reclaim_prepare - make sure that a new replica can be listed
 * @replica: the replica, not in use yet
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

	/* A dying memory cgroup passes its charges to the parent: read again. */
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

static bool hydra_from_pool(const pteval_t *table)
{
	return static_branch_unlikely(&hydra_pools_key) &&
	       hydra_pool_of(virt_to_page(table)) >= 0;
}

/**
 * hydra_reclaim_add - list a replica: from now on it may be dropped
 * @t: of the canonical table
 * @replica: the replica, for which hydra_reclaim_prepare() returned true
 *
 * Context: the lock of the linking domain, so before the link is cut.
 */
void hydra_reclaim_add(struct hydra_table *t, pteval_t *replica)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(replica);

	ptdesc->pt_index = (unsigned long)t;
	INIT_LIST_HEAD(&ptdesc->pt_list);
	/* It would go back to its pool: no memory for anything else. */
	if (hydra_from_pool(replica))
		return;
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
static unsigned int hydra_drop_replicas(struct hydra_table *t, pteval_t *canonical,
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

		if (!table || table == canonical || hydra_kind_of(h)->home[d] != nid ||
		    hydra_from_pool(table))
			continue;
		/* A collapse cuts links without this lock. */
		table = hydra_table_cut_domain(t, d, canonical);
		if (!table)
			continue;
		list_add(&virt_to_ptdesc(table)->pt_list, &tables);
		hydra_mask_set(d, &dropped);
		nr++;
	}
	if (!nr)
		return 0;
	hydra_flush_domains(h, t->base, t->base + PMD_SIZE, &dropped);
	list_for_each_entry_safe(ptdesc, next, &tables, pt_list) {
		hydra_fold_accessed(ptdesc_address(ptdesc), canonical, HYDRA_PTE,
				    PTRS_PER_PTE);
		hydra_page_free_uncharged(h, ptdesc_address(ptdesc));
	}
	hydra_stat_add(h, HYDRA_STAT_RECLAIMED, nr);
	hydra_mask_remove(&t->sharers, &dropped);
	return nr;
}

/* The place of a replica, with a reference to the mm_struct. */
struct hydra_victim {
	struct mm_struct *mm;
	unsigned long addr;
};

/*
 * Record the place of the oldest replica, and make the replica the youngest: its
 * table may be busy. A replica in the list keeps its struct hydra_table, which
 * keeps the mm_struct.
 */
static enum lru_status hydra_pick_victim(struct list_head *item,
					 struct list_lru_one *list, spinlock_t *lock,
					 void *arg)
{
	struct ptdesc *ptdesc = container_of(item, struct ptdesc, pt_list);
	struct hydra_table *t = (struct hydra_table *)ptdesc->pt_index;
	struct hydra_victim *victim = arg;

	victim->mm = t->hmm->mm;
	victim->addr = t->base;
	mmgrab(victim->mm);
	list_move_tail(item, &list->list);
	return LRU_STOP;
}

/*
 * Drop the replicas of a leaf table on a node. Interrupts are off until the table
 * is locked, so the table is not freed; then the lock keeps it.
 *
 * Return: number of replicas dropped, 0 if the table is busy or was freed.
 */
static unsigned int hydra_reclaim_table(struct hydra_mm *h, unsigned long addr,
					int nid)
{
	struct hydra_table *t;
	unsigned int nr = 0;
	pte_t *pte = NULL;
	spinlock_t *ptl;
	pmd_t *pmd;

	local_irq_disable();
	pmd = hydra_canonical_pmd(h->mm, addr);
	if (pmd)
		pte = hydra_trylock_leaf(h->mm, pmd, addr, &ptl);
	local_irq_enable();
	if (pte) {
		t = hydra_table_of(pte);
		if (t && READ_ONCE(h->active))
			nr = hydra_drop_replicas(t, hydra_table_start(pte), nid);
		pte_unmap_unlock(pte, ptl);
	}
	return nr;
}

static unsigned long hydra_reclaim_count(struct shrinker *shrinker,
					 struct shrink_control *sc)
{
	return list_lru_shrink_count(&replicas, sc) ?: SHRINK_EMPTY;
}

static unsigned long hydra_reclaim_scan(struct shrinker *shrinker,
					struct shrink_control *sc)
{
	unsigned long tries, freed = 0;

	for (tries = 0; tries < sc->nr_to_scan && freed < sc->nr_to_scan; tries++) {
		struct hydra_victim victim = {};
		unsigned long nr = 1;

		list_lru_walk_one(&replicas, sc->nid, sc->memcg, hydra_pick_victim,
				  &victim, &nr);
		if (!victim.mm)
			break;
		freed += hydra_reclaim_table(victim.mm->hydra, victim.addr, sc->nid);
		mmdrop(victim.mm);
		cond_resched();
	}
	/* Nothing was freed: all tables were busy. */
	return freed ?: SHRINK_STOP;
}

static int __init hydra_reclaim_init(void)
{
	struct shrinker *shrinker;

	shrinker = shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE,
				  "mm-hydra");
	if (!shrinker || list_lru_init_memcg(&replicas, shrinker))
		panic("hydra: no memory for the lists of replicas\n");
	shrinker->count_objects = hydra_reclaim_count;
	shrinker->scan_objects = hydra_reclaim_scan;
	shrinker_register(shrinker);
	return 0;
}
subsys_initcall(hydra_reclaim_init);
