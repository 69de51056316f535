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

#include "domain.h"
#include "fill.h"
#include "replica.h"
#include "state.h"
#include "tlb.h"
#include "unlink.h"
#include "table.h"

/* Context: the leaf table's lock. Return: number of replicas dropped. */
static unsigned int hydra_drop_replicas(struct hydra_table *t, pteval_t *canonical,
					int nid)
{
	struct ptdesc *ptdesc, *next;
	struct hydra_mm *h = t->hmm;
	hydra_mask_t dropped;
	unsigned int d, nr = 0;
	LIST_HEAD(tables);

	hydra_assert_leaf_locked(canonical);
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
		hydra_fold_accessed(ptdesc_address(ptdesc), canonical, PG_LEVEL_4K,
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
		t = hydra_table_of((pteval_t *)pte);
		if (t && READ_ONCE(h->active))
			nr = hydra_drop_replicas(t, hydra_table_start((pteval_t *)pte), nid);
		pte_unmap_unlock(pte, ptl);
	}
	return nr;
}

static unsigned long hydra_reclaim_count(struct shrinker *shrinker,
					 struct shrink_control *sc)
{
	return list_lru_shrink_count(&hydra_replica_lists, sc) ?: SHRINK_EMPTY;
}

static unsigned long hydra_reclaim_scan(struct shrinker *shrinker,
					struct shrink_control *sc)
{
	unsigned long tries, freed = 0;

	for (tries = 0; tries < sc->nr_to_scan && freed < sc->nr_to_scan; tries++) {
		struct hydra_victim victim = {};
		unsigned long nr = 1;

		list_lru_walk_one(&hydra_replica_lists, sc->nid, sc->memcg, hydra_pick_victim,
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
	if (!shrinker || list_lru_init_memcg(&hydra_replica_lists, shrinker))
		panic("hydra: no memory for the lists of replicas\n");
	shrinker->count_objects = hydra_reclaim_count;
	shrinker->scan_objects = hydra_reclaim_scan;
	shrinker_register(shrinker);
	return 0;
}
subsys_initcall(hydra_reclaim_init);

#include "tests/auto_rules-kunit.h"
