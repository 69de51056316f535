// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: page tables near the CPUs of a group.
 *
 * In a guest that sees one node, all memory has the same node number, wherever the host keeps
 * it. (vMitosis, Panwar et al., ASPLOS '21, sections 3.3.3 and 3.3.4: page caches.) So each
 * group has a pool of pages of which the place is known:
 *
 * - A worker on a CPU of the group allocates 2 MiB, and writes it. Memory that the guest has
 *   never used is allocated by the host now, on the node of that CPU, unless the host has
 *   another policy.
 * - If the guest may ask the host (hydra_groups=pv), it has the host move the pages, and gives
 *   back those that do not get there.
 *
 * T18. The pool holds a reference of each of its pages for good. A page that is in use as a
 * table has a second one, which is dropped when Linux frees the table, on whatever path that
 * is: no path needs a hook. When few pages are left, a worker looks for pages with one reference:
 *
 *     CPU 0: frees a table                 CPU 1: hydra_chunk_collect()
 *     --------------------                 ----------------------------
 *     last use of the table
 *     put_page(): a full barrier,
 *       one reference is left
 *                                          reads one reference
 *                                          <acquire>
 *                                          clears the page, and uses it
 *
 * A CPU that inspects pages of memory by number (compaction, e.g.) may hold a reference more
 * for a moment. The pool takes the page for one in use until it looks again.
 *
 * An empty pool is no error: the table comes from anywhere, and counts as misplaced. Roots,
 * and Linux's own tables above the leaf tables, are not from pools. A pool gives no page
 * back, and its pages are charged to no memory cgroup, so hydra_pool_limit bounds them.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/kvm_para.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <uapi/linux/hydra_para.h>

#include "internal.h"

#define CHUNK_ORDER	(PMD_SHIFT - PAGE_SHIFT)
#define CHUNK_PAGES	PTRS_PER_PTE
/* With fewer free pages than this, the worker looks for more, up to so many. */
#define POOL_LOW	64
#define POOL_ENOUGH	128
/* How long a pool that got no memory does not ask again, and one that stayed low does not look */
#define POOL_PAUSE	(10 * HZ)
#define LOOK_PAUSE	(HZ / 10)

/**
 * struct hydra_chunk - 2 MiB of a pool; never freed
 * @list: of the pool's chunks
 * @first: the first page
 * @d: the domain of the pool
 * @ours: pages that belong to the pool; written before the chunk can be found
 * @used: pages that have been handed out, and perhaps been freed since; guarded by the pool's
 *	lock
 */
struct hydra_chunk {
	struct list_head list;
	struct page *first;
	unsigned int d;
	DECLARE_BITMAP(ours, CHUNK_PAGES);
	DECLARE_BITMAP(used, CHUNK_PAGES);
};

/**
 * struct hydra_pool - the pool of a group
 * @d: the domain of the group
 * @lock: guards all that follows, but for @work
 * @free: pages, by their lru
 * @chunks: all chunks
 * @nr_free: length of @free
 * @nr_pages: pages of all chunks
 * @misplaced: tables that were not to be had, as the pool was empty: they came from elsewhere,
 *	or, replicas, the domain uses Linux's table
 * @refused: pages that were not where they should be
 * @look_at: jiffies from which the worker looks for freed pages again
 * @grow_at: jiffies from which the worker asks for memory again
 * @work: finds pages: freed ones, or more memory
 */
struct hydra_pool {
	unsigned int d;
	spinlock_t lock;
	struct list_head free;
	struct list_head chunks;
	unsigned long nr_free;
	unsigned long nr_pages;
	unsigned long misplaced;
	unsigned long refused;
	unsigned long look_at;
	unsigned long grow_at;
	struct work_struct work;
};

DEFINE_STATIC_KEY_FALSE(hydra_pools_key);
/* Bytes that all pools together may hold */
unsigned long hydra_pool_limit = ULONG_MAX;

static struct hydra_pool *pools;
static unsigned int nr_pools;
static atomic_long_t pooled_pages;
static bool ask_host;
/* Chunks by the number of their first page, in units of chunks */
static DEFINE_XARRAY(chunks);

static struct hydra_chunk *hydra_chunk_of(const struct page *page)
{
	return xa_load(&chunks, page_to_pfn(page) >> CHUNK_ORDER);
}

/**
 * hydra_pool_of - the pool of a page
 * @page: any page
 *
 * Context: any. Return: the domain of the pool, or -1.
 */
int hydra_pool_of(const struct page *page)
{
	const struct hydra_chunk *chunk = hydra_chunk_of(page);

	return chunk && test_bit(page_to_pfn(page) % CHUNK_PAGES, chunk->ours) ? chunk->d : -1;
}

/*
 * Find pages of a chunk that have been freed. A page with an error of the memory stays out:
 * Linux's allocator would retire it.
 */
static void hydra_chunk_collect(struct hydra_pool *pool, struct hydra_chunk *chunk)
{
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	for_each_set_bit(i, chunk->used, CHUNK_PAGES) {
		if (page_ref_count(&chunk->first[i]) != 1 || PageHWPoison(&chunk->first[i]))
			continue;
		/* The last use of the table before ours; pairs with put_page(). */
		smp_acquire__after_ctrl_dep();
		clear_bit(i, chunk->used);
		list_add(&chunk->first[i].lru, &pool->free);
		pool->nr_free++;
	}
}

/* The same for all chunks; none of them goes away. Context: may take long. */
static void hydra_pool_collect(struct hydra_pool *pool)
{
	struct hydra_chunk *chunk;

	spin_lock(&pool->lock);
	list_for_each_entry(chunk, &pool->chunks, list) {
		hydra_chunk_collect(pool, chunk);
		cond_resched_lock(&pool->lock);
	}
	spin_unlock(&pool->lock);
}

static struct page *hydra_pool_take(struct hydra_pool *pool)
{
	struct page *page;

	lockdep_assert_held(&pool->lock);
	do {
		page = list_first_entry_or_null(&pool->free, struct page, lru);
		if (!page) {
			pool->misplaced++;
			return NULL;
		}
		list_del(&page->lru);
		pool->nr_free--;
		/* An error of the memory: the page stays out, as Linux's allocator does it. */
	} while (PageHWPoison(page));
	set_bit(page_to_pfn(page) % CHUNK_PAGES, hydra_chunk_of(page)->used);
	VM_WARN_ON_ONCE_PAGE(page_ref_count(page) < 1 || page->mapping || page_has_type(page),
			     page);
	/* As from Linux's allocator; the pointer to the lock of its last use is here. */
	set_page_private(page, 0);
	get_page(page);
	return page;
}

/* The worker runs on a CPU of the group, whose memory the host allocates nearby. */
static void hydra_pool_wake(struct hydra_pool *pool)
{
	unsigned int cpu = cpumask_any_and(hydra_kinds[HYDRA_DOMAINS_NODE].cpus[pool->d],
					   cpu_online_mask);

	if (cpu < nr_cpu_ids)
		queue_work_on(cpu, system_long_wq, &pool->work);
}

static struct page *hydra_pool_get_from(struct hydra_pool *pool)
{
	struct page *page;
	bool low;

	spin_lock(&pool->lock);
	page = hydra_pool_take(pool);
	low = pool->nr_free < POOL_LOW && time_after_eq(jiffies, READ_ONCE(pool->look_at));
	spin_unlock(&pool->lock);
	if (low)
		hydra_pool_wake(pool);
	if (page)
		clear_page(page_address(page));
	return page;
}

/**
 * hydra_pool_get - a page from the pool of a group
 * @d: the domain of the group
 *
 * Context: any but interrupts.
 * Return: an empty page, of which the caller has a reference; or NULL: the pool is empty.
 */
struct page *hydra_pool_get(unsigned int d)
{
	/* A number of the kind before, see hydra_set_kind() */
	return d < nr_pools ? hydra_pool_get_from(&pools[d]) : NULL;
}

/* Have the host move pages to a domain. Return: how many are there, or negative: refused. */
static long hydra_host_places(struct page *page, unsigned int nr, unsigned int d)
{
	return kvm_hypercall4(KVM_HC_HYDRA, KVM_HYDRA_PLACE, PFN_PHYS(page_to_pfn(page)), nr, d);
}

/* Which pages of a chunk are where they have to be? Return: how many. */
static unsigned int hydra_chunk_place(struct hydra_chunk *chunk)
{
	long there = CHUNK_PAGES;
	unsigned int i, nr = 0;

	if (ask_host)
		there = hydra_host_places(chunk->first, CHUNK_PAGES, chunk->d);
	if (there == CHUNK_PAGES) {
		bitmap_fill(chunk->ours, CHUNK_PAGES);
		return CHUNK_PAGES;
	}
	for (i = 0; i < CHUNK_PAGES && there >= 0; i++) {
		there = hydra_host_places(&chunk->first[i], 1, chunk->d);
		if (there != 1)
			continue;
		__set_bit(i, chunk->ours);
		nr++;
	}
	return nr;
}

/* Without a host that moves memory, it is where the CPU is that writes it first. */
static bool hydra_in_group(unsigned int d)
{
	return ask_host || hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, raw_smp_processor_id()) == d;
}

/* Return: NULL, too, if the worker is not, or no longer, on a CPU of the group. */
static struct hydra_chunk *hydra_chunk_alloc(unsigned int d)
{
	struct hydra_chunk *chunk = kzalloc(sizeof(*chunk), GFP_KERNEL);
	bool in_group = hydra_in_group(d);
	unsigned int i;

	if (!chunk)
		return NULL;
	chunk->d = d;
	chunk->first = alloc_pages(GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN, CHUNK_ORDER);
	if (!chunk->first) {
		kfree(chunk);
		return NULL;
	}
	split_page(chunk->first, CHUNK_ORDER);
	for (i = 0; i < CHUNK_PAGES; i++)
		clear_page(page_address(&chunk->first[i]));
	if (in_group && hydra_in_group(d))
		return chunk;
	for (i = 0; i < CHUNK_PAGES; i++)
		__free_page(&chunk->first[i]);
	kfree(chunk);
	return NULL;
}

/* Add 2 MiB to a pool. Return: how many pages that were. */
static unsigned int hydra_pool_grow(struct hydra_pool *pool)
{
	struct hydra_chunk *chunk;
	unsigned int i, nr;

	if (atomic_long_add_return(CHUNK_PAGES, &pooled_pages) > hydra_pool_limit >> PAGE_SHIFT) {
		atomic_long_sub(CHUNK_PAGES, &pooled_pages);
		return 0;
	}
	chunk = hydra_chunk_alloc(pool->d);
	nr = chunk ? hydra_chunk_place(chunk) : 0;
	if (nr && xa_err(xa_store(&chunks, page_to_pfn(chunk->first) >> CHUNK_ORDER, chunk,
				  GFP_KERNEL))) {
		bitmap_zero(chunk->ours, CHUNK_PAGES);
		nr = 0;
	}
	atomic_long_sub(CHUNK_PAGES - nr, &pooled_pages);
	if (!chunk)
		return 0;
	spin_lock(&pool->lock);
	if (nr)
		list_add(&chunk->list, &pool->chunks);
	for_each_set_bit(i, chunk->ours, CHUNK_PAGES)
		list_add_tail(&chunk->first[i].lru, &pool->free);
	pool->nr_free += nr;
	pool->nr_pages += nr;
	pool->refused += CHUNK_PAGES - nr;
	spin_unlock(&pool->lock);
	for_each_clear_bit(i, chunk->ours, CHUNK_PAGES)
		__free_page(&chunk->first[i]);
	if (!nr)
		kfree(chunk);
	return nr;
}

static void hydra_pool_work(struct work_struct *work)
{
	struct hydra_pool *pool = container_of(work, struct hydra_pool, work);

	if (READ_ONCE(pool->nr_free) < POOL_LOW)
		hydra_pool_collect(pool);
	/* Far more than what wakes the worker, or it would look again soon */
	if (READ_ONCE(pool->nr_free) < POOL_ENOUGH && hydra_in_group(pool->d) &&
	    time_after_eq(jiffies, READ_ONCE(pool->grow_at)) &&
	    hydra_pool_grow(pool) < CHUNK_PAGES / 2)
		WRITE_ONCE(pool->grow_at, jiffies + POOL_PAUSE);
	if (READ_ONCE(pool->nr_free) < POOL_ENOUGH)
		WRITE_ONCE(pool->look_at, jiffies + LOOK_PAUSE);
}

static void hydra_pool_init(struct hydra_pool *pool, unsigned int d)
{
	pool->d = d;
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->free);
	INIT_LIST_HEAD(&pool->chunks);
	INIT_WORK(&pool->work, hydra_pool_work);
	pool->look_at = jiffies;
	pool->grow_at = jiffies;
}

/**
 * hydra_pools_show - the pools, for people
 * @buf: a page
 *
 * Return: the length of the text.
 */
int hydra_pools_show(char *buf)
{
	unsigned int d;
	int len = 0;

	for (d = 0; d < nr_pools; d++) {
		struct hydra_pool *pool = &pools[d];

		hydra_pool_collect(pool);
		spin_lock(&pool->lock);
		len += sysfs_emit_at(buf, len, "group %u pages %lu free %lu", d, pool->nr_pages,
				     pool->nr_free);
		len += sysfs_emit_at(buf, len, " misplaced %lu refused %lu\n", pool->misplaced,
				     pool->refused);
		spin_unlock(&pool->lock);
	}
	return len;
}

/**
 * hydra_pools_start - make the pools, and fill them
 * @nr: how many groups there are
 * @ask: the host moves memory where the guest wants it
 *
 * Context: process context, once; may sleep. Return: 0 or -ENOMEM.
 */
int hydra_pools_start(unsigned int nr, bool ask)
{
	unsigned int d;

	pools = kcalloc(nr, sizeof(*pools), GFP_KERNEL);
	if (!pools)
		return -ENOMEM;
	ask_host = ask;
	/* Each group could map all memory twice, by small pages. */
	hydra_pool_limit = nr * round_up(totalram_pages() / 256, CHUNK_PAGES) << PAGE_SHIFT;
	for (d = 0; d < nr; d++)
		hydra_pool_init(&pools[d], d);
	nr_pools = nr;
	static_branch_enable(&hydra_pools_key);
	for (d = 0; d < nr; d++) {
		hydra_pool_wake(&pools[d]);
		flush_work(&pools[d].work);
	}
	return 0;
}

#include "tests/pool-kunit.h"
