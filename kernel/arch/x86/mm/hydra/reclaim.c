// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reclaim: the shrinker drops leaf replicas when their node, or the memory cgroup
 * of the charge, runs short of memory. The domain fills needed entries again.
 *
 * Each replica is in a list by node and memory cgroup, from the join until the link
 * is cut. The shrinker records the place of the oldest replica, and lets the domain leave the
 * table (drop.c).
 *
 * A replica that its domain has used lately gets a second chance: the shrinker first takes
 * those which no CPU has walked for some looks (forget.c), or since the shrinker passed by. If
 * that does not free enough, it takes any.
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
#include "drop.h"
#include "rent.h"
#include "replica.h"
#include "state.h"
#include "table.h"

/* The place of a replica, with a reference to the mm_struct. */
struct hydra_victim {
	struct mm_struct *mm;
	unsigned long addr;
	bool any;		/* also one that is in use */
};

/* The link to a replica, which stays while the list of replicas is locked; or NULL */
static pteval_t *hydra_link_to(const struct hydra_table *t, const pteval_t *replica)
{
	hydra_mask_t users;
	unsigned int d;

	hydra_mask_zero(&users);
	hydra_mask_add(&users, &t->users);
	for_each_hydra_domain(d, &users)
		if (READ_ONCE(t->table[d]) == replica)
			return hydra_slot(t, d);
	return NULL;
}

/* Has a CPU walked the table lately? Next time, only if one has walked it since. */
static bool hydra_has_chance(pteval_t *link)
{
	pteval_t val = READ_ONCE(*link), next = hydra_link_aged(val, HYDRA_AGE_FORGET - 1);

	if (!hydra_is_table(val) ||
	    (!(val & _PAGE_ACCESSED) && hydra_link_age(val) >= HYDRA_AGE_FORGET - 1))
		return false;
	/* If hardware sets the bit meanwhile, or the link is cut, that is an answer, too. */
	cmpxchg(link, val, next);
	return true;
}

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
	pteval_t *link = victim->any ? NULL : hydra_link_to(t, ptdesc_address(ptdesc));

	if (link && hydra_has_chance(link))
		return LRU_ROTATE;
	victim->mm = t->hmm->mm;
	victim->addr = t->base;
	mmgrab(victim->mm);
	list_move_tail(item, &list->list);
	return LRU_STOP;
}

/* Which domains have a replica on a node? Context: the leaf table's lock. */
static void hydra_replicas_on(const struct hydra_shared *s, int nid, hydra_mask_t *found)
{
	const struct hydra_domains *domains = hydra_domains_of(s->t->hmm);
	unsigned int d;

	hydra_mask_zero(found);
	for_each_hydra_domain(d, &s->t->users) {
		pteval_t *table = READ_ONCE(s->t->table[d]);

		if (!table || table == s->canonical || domains->home[d] != nid ||
		    hydra_from_pool(table))
			continue;
		hydra_mask_set(d, found);
	}
}

/* Drop the replicas of a leaf table on a node. Return: how many; 0 if the table is busy. */
static unsigned int hydra_reclaim_table(struct hydra_mm *h, unsigned long addr, int nid)
{
	struct hydra_shared s;
	hydra_mask_t domains;
	unsigned int nr;

	if (!hydra_trylock_shared(h, addr, &s))
		return 0;
	hydra_replicas_on(&s, nid, &domains);
	hydra_drop(&s, &domains);
	hydra_unlock_shared(&s);
	nr = bitmap_weight(domains.bits, HYDRA_MAX_DOMAINS);
	hydra_stat_add(h, HYDRA_STAT_RECLAIMED, nr);
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

	for (tries = 0; tries < 2 * sc->nr_to_scan && freed < sc->nr_to_scan; tries++) {
		struct hydra_victim victim = { .any = tries >= sc->nr_to_scan };
		unsigned long nr = 1;

		list_lru_walk_one(&hydra_replica_lists, sc->nid, sc->memcg, hydra_pick_victim,
				  &victim, &nr);
		/* The list is empty. */
		if (nr)
			break;
		/* A second chance */
		if (!victim.mm)
			continue;
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
