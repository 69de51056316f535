// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas: where the pages of domain trees come from, and where they go.
 *
 * A domain gets a copy of a leaf table only if the table is far from the domain. Limits
 * bound the copies of an address space, and of the machine. A page is taken from the home
 * node of its domain, or from the pool of its group, and is charged like any page table.
 *
 * Each replica is in a list by node and memory cgroup, from the join until the link
 * is cut. The shrinker takes replicas from these lists, see reclaim.c.
 */

#include <linux/gfp.h>
#include <linux/list_lru.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>

#include <asm/hydra.h>
#include <asm/pgalloc.h>

#include "home.h"
#include "replica.h"
#include "state.h"

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
 * hydra_page_alloc - allocate a table of a domain tree
 * @h: address space, which is charged for the table
 * @d: the domain, on whose home node the table is, or in whose group's pool
 * @gfp: how; with __GFP_THISNODE on no other node
 *
 * Return: a table of empty entries, or NULL.
 */
pteval_t *hydra_page_alloc(struct hydra_mm *h, unsigned int d, gfp_t gfp)
{
	const struct hydra_domains *domains = hydra_domains_of(h);
	struct page *page = NULL;

	if (hydra_has_pools(domains)) {
		page = hydra_pool_get(d);
		/* A replica from anywhere is no better than a link to Linux's table. */
		if (!page && gfp & __GFP_THISNODE)
			return NULL;
	}
	if (!page)
		page = alloc_pages_node(domains->home[d], gfp | __GFP_ZERO | __GFP_COMP, 0);
	if (!page)
		return NULL;
	if (!pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	mm_inc_nr_ptes(h->mm);
	return page_address(page);
}

/**
 * hydra_page_retire - uncharge a table, which the caller frees next
 * @h: address space
 * @table: the table
 *
 * Context: any but interrupts.
 * Return: its ptdesc.
 */
struct ptdesc *hydra_page_retire(struct hydra_mm *h, pteval_t *table)
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
 * hydra_page_free_uncharged - hydra_page_free() of a replica that hydra_drop() has taken away
 * @h: address space
 * @table: the table
 *
 * Uncharges the memory cgroup now: the shrinker's caller does not wait for RCU. (The keeper could
 * wait.) Not before the destructor, which takes the table from the cgroup's statistics.
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
 * every scope, but for domains that have to span nodes. The memory policy that the process
 * has for its data does not matter: this domain walks the table.
 *
 * Return: a constructed table, or NULL.
 */
struct page *hydra_pte_alloc_one(gfp_t gfp)
{
	unsigned int node = raw_cpu_read(hydra_cpu_domain[HYDRA_SCOPE_NODE]);
	struct page *page = NULL;

	if (static_branch_unlikely(&hydra_pools_key))
		page = hydra_pool_get(node);
	if (!page)
		page = alloc_pages_node(hydra_domains[HYDRA_SCOPE_NODE].home[node],
					gfp | __GFP_COMP, 0);
	if (page && !pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	return page;
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
bool hydra_has_owner(const struct hydra_mm *h, const pteval_t *canonical)
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

/* In the ptdesc of a replica, pt_list is for this list; pt_index is its hydra_table. */
struct list_lru hydra_replica_lists;

/**
 * hydra_reclaim_prepare - make sure that a new replica can be listed
 * @replica: the replica, not in use yet
 *
 * Context: process context, no locks. Reclaims nothing.
 * Return: false if there is no memory for the lists of its memory cgroup.
 */
static bool hydra_reclaim_prepare(pteval_t *replica)
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
	err = memcg_list_lru_alloc(memcg, &hydra_replica_lists, GFP_NOWAIT | __GFP_NOWARN);
	mem_cgroup_put(memcg);
	return !err;
}

/**
 * hydra_from_pool - is a table from the pool of a group?
 * @table: the table
 *
 * Context: any.
 * Return: true if so.
 */
bool hydra_from_pool(const pteval_t *table)
{
	return static_branch_unlikely(&hydra_pools_key) &&
	       hydra_pool_of(virt_to_page(table)) != HYDRA_NO_POOL;
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
	list_lru_add(&hydra_replica_lists, &ptdesc->pt_list, page_to_nid(ptdesc_page(ptdesc)),
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
	list_lru_del(&hydra_replica_lists, &ptdesc->pt_list, page_to_nid(ptdesc_page(ptdesc)),
		     folio_memcg(ptdesc_folio(ptdesc)));
	rcu_read_unlock();
}

/*
 * May an address space have a replica more? The replicas of the machine are summed only if
 * they are limited. Two CPUs at a limit may both be refused.
 */
static bool hydra_replica_reserve(struct hydra_mm *h)
{
	unsigned long limit = READ_ONCE(hydra_replica_limit);
	unsigned long total = READ_ONCE(hydra_total_limit);

	this_cpu_inc(hydra_replicas);
	if (atomic_long_inc_return(&h->nr_replicas) <= limit >> PAGE_SHIFT &&
	    (total == ULONG_MAX || hydra_replicas_total() <= total >> PAGE_SHIFT))
		return true;
	hydra_replica_unreserve(h);
	return false;
}

/*
 * A replica is worth free memory on the domain's home node. A fault reclaims no
 * memory for it, on the node or in the memory cgroup: reclaim would evict data of
 * the program, or replicas in use. If the node runs low, the allocation wakes
 * kswapd, so later replicas find room on a node full of page cache.
 */
#define GFP_REPLICA	(GFP_PGTABLE_USER & ~__GFP_DIRECT_RECLAIM)

/**
 * hydra_replica_alloc - a page for a copy of a leaf table
 * @h: address space
 * @d: the domain
 *
 * A replica is worth free memory on the domain's home node. A fault reclaims no memory for it.
 * Beyond a limit there is none.
 *
 * Context: process context; the current thread uses the address space.
 * Return: an empty table that can be listed, or NULL.
 */
pteval_t *hydra_replica_alloc(struct hydra_mm *h, unsigned int d)
{
	pteval_t *replica = NULL;

	VM_WARN_ON_ONCE(current->mm != h->mm);
	if (!hydra_replica_reserve(h))
		return NULL;
	/* With __GFP_THISNODE an offline node would cause a warning. */
	if (node_online(hydra_domains_of(h)->home[d]))
		replica = hydra_page_alloc(h, d, GFP_REPLICA | __GFP_THISNODE |
					   __GFP_NOWARN);
	if (replica && !hydra_reclaim_prepare(replica)) {
		hydra_page_free(h, replica);
		replica = NULL;
	}
	if (!replica)
		hydra_replica_unreserve(h);
	return replica;
}
