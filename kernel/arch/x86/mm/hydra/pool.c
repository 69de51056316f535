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
 *   back those that do not get there. Each time that the guest asks where its CPUs are, it has
 *   the pages moved again: the host, or another one to which the guest has migrated, may have
 *   put them elsewhere.
 *
 * The pool holds a reference of each of its pages for good. A page that is in use as a
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
 * A page that is not where it should be any more leaves the pool, but not as long as it is a
 * table: the home of a table does not change, see hydra_has_owner(). The page is marked as away,
 * and goes to Linux's allocator when the worker finds it freed.
 *
 * An empty pool is no error: the table comes from anywhere, and counts as misplaced. Roots,
 * and Linux's own tables above the leaf tables, are not from pools. A pool gives no other page
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

#include "pool.h"

#define CHUNK_ORDER	(PMD_SHIFT - PAGE_SHIFT)
#define CHUNK_PAGES	PTRS_PER_PTE
/* With fewer free pages than this, the worker looks for more, up to so many. */
#define POOL_LOW	64
#define POOL_ENOUGH	128
/*
 * How long a pool that got no memory does not ask again, at most if it is refused time after time,
 * and one that stayed low does not look
 */
#define POOL_PAUSE	(10 * HZ)
#define POOL_PAUSE_MAX	(3600 * HZ)
#define LOOK_PAUSE	(HZ / 10)
/* If the host moves no more pages for now: after so long it is asked again, and so often */
#define LATER_PAUSE	HZ
#define LATER_MAX	60
/* Chunks that are kept aside, so that another one is tried */
#define ASIDE_MAX	8

/**
 * struct hydra_chunk - 2 MiB of a pool; never freed, also if all pages have left the pool, and
 *	Linux's allocator has given them to another chunk
 * @list: of the pool's chunks, to which the pool's worker alone adds; or of those kept aside
 * @first: the first page
 * @d: the domain of the pool
 * @ours: pages that belong to the pool; set before the chunk can be found. The bit of a page that
 *	is no table is cleared under the pool's lock.
 * @used: pages that have been handed out, and perhaps been freed since; guarded by the pool's
 *	lock
 * @away: of these, pages that are not where they should be; guarded by the pool's lock
 */
struct hydra_chunk {
	struct list_head list;
	struct page *first;
	unsigned int d;
	DECLARE_BITMAP(ours, CHUNK_PAGES);
	DECLARE_BITMAP(used, CHUNK_PAGES);
	DECLARE_BITMAP(away, CHUNK_PAGES);
};

/**
 * struct hydra_pool - the pool of a group
 * @d: the domain of the group
 * @lock: guards all that follows, but for what is the worker's
 * @free: pages, by their lru
 * @chunks: all chunks
 * @nr_free: length of @free
 * @nr_pages: pages of all chunks
 * @nr_away: of these, pages that are not where they should be
 * @misplaced: tables that were not to be had, as the pool was empty: they came from elsewhere,
 *	or, replicas, the domain uses Linux's table
 * @refused: pages that were not where they should be
 * @look_at: jiffies from which the worker looks for freed pages again
 * @grow_at: jiffies from which the worker asks for memory again
 * @place_at: jiffies from which the worker has pages moved again
 * @pause: how long the next pause is, if the host moves nothing; the worker's
 * @later: the same, if the host moves no more pages for now
 * @again: the worker is to have all pages moved again, and to try so often
 * @work: finds pages: freed ones, or more memory
 */
struct hydra_pool {
	unsigned int d;
	spinlock_t lock;
	struct list_head free;
	struct list_head chunks;
	unsigned long nr_free;
	unsigned long nr_pages;
	unsigned long nr_away;
	unsigned long misplaced;
	unsigned long refused;
	unsigned long look_at;
	unsigned long grow_at;
	unsigned long place_at;
	unsigned long pause;
	unsigned long later;
	unsigned int again;
	struct delayed_work work;
};

DEFINE_STATIC_KEY_FALSE(hydra_pools_key);
/* Bytes that all pools together may hold */
unsigned long hydra_pool_limit = ULONG_MAX;

static struct hydra_pool *pools;
static unsigned int nr_pools;
static atomic_long_t pooled_pages;
/* By group, the domain of the host that it is on, or KVM_HYDRA_NO_DOMAIN; NULL: no host is asked */
static const u8 *host_of;
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
 * Context: any. Return: the domain of the pool, or HYDRA_NO_POOL.
 */
int hydra_pool_of(const struct page *page)
{
	const struct hydra_chunk *chunk = hydra_chunk_of(page);

	if (chunk && test_bit(page_to_pfn(page) % CHUNK_PAGES, chunk->ours))
		return chunk->d;
	return HYDRA_NO_POOL;
}

/**
 * hydra_page_is_away - is a page of a pool not where it should be?
 * @page: any page
 *
 * Context: any; the answer may be old. Return: true, if the host has said so.
 */
bool hydra_page_is_away(const struct page *page)
{
	const struct hydra_chunk *chunk = hydra_chunk_of(page);

	return chunk && test_bit(page_to_pfn(page) % CHUNK_PAGES, chunk->away);
}

/* A page that is no table leaves the pool, and its reference is dropped. */
static void hydra_page_leave(struct hydra_pool *pool, struct hydra_chunk *chunk, unsigned int i)
{
	lockdep_assert_held(&pool->lock);
	VM_WARN_ON_ONCE(test_bit(i, chunk->used));
	clear_bit(i, chunk->ours);
	pool->nr_pages--;
	atomic_long_dec(&pooled_pages);
	__free_page(&chunk->first[i]);
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
		if (test_and_clear_bit(i, chunk->away)) {
			pool->nr_away--;
			hydra_page_leave(pool, chunk, i);
			continue;
		}
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
		/* hydra_chunk_sort() finds that the page is in no list. */
		list_del_init(&page->lru);
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
	unsigned int cpu = cpumask_any_and(hydra_domains[HYDRA_SCOPE_NODE].cpus[pool->d],
					   cpu_online_mask);

	if (cpu < nr_cpu_ids)
		mod_delayed_work_on(cpu, system_long_wq, &pool->work, 0);
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
	/* A number of the scope before, see hydra_set_scope() */
	return d < nr_pools ? hydra_pool_get_from(&pools[d]) : NULL;
}

/*
 * Have the host move some pages of a chunk to a domain of its own. If a part of them gets there,
 * find out which by asking for each half.
 * @there: the pages that are there are set
 * Context: may sleep. Return: 0; negative: of some pages the host does not say where they are;
 *	-KVM_EAGAIN: it moves more of them later
 */
static long hydra_pages_place(struct hydra_chunk *chunk, unsigned int first, unsigned int nr,
			      u8 host, unsigned long *there)
{
	phys_addr_t at = PFN_PHYS(page_to_pfn(chunk->first) + first);
	long ret = kvm_hypercall4(KVM_HC_HYDRA, KVM_HYDRA_PLACE, at, nr, host);

	cond_resched();
	/* The operator does not let them be there. */
	if (ret == -KVM_EPERM)
		return 0;
	if (ret <= 0)
		return ret;
	if (ret >= nr) {
		bitmap_set(there, first, nr);
		return 0;
	}
	return hydra_pages_place(chunk, first, nr / 2, host, there) ?:
	       hydra_pages_place(chunk, first + nr / 2, nr - nr / 2, host, there);
}

/* Which pages of a new chunk are where they have to be? Return: as hydra_pages_place() */
static long hydra_chunk_place(struct hydra_chunk *chunk)
{
	u8 host = host_of ? READ_ONCE(host_of[chunk->d]) : 0;

	if (!host_of)
		bitmap_fill(chunk->ours, CHUNK_PAGES);
	else if (host != KVM_HYDRA_NO_DOMAIN)
		return hydra_pages_place(chunk, 0, CHUNK_PAGES, host, chunk->ours);
	return 0;
}

/* Tables that are not where they should be are marked, all other pages leave the pool. */
static void hydra_chunk_sort(struct hydra_pool *pool, struct hydra_chunk *chunk,
			     const unsigned long *there)
{
	unsigned int i;

	spin_lock(&pool->lock);
	for_each_set_bit(i, chunk->ours, CHUNK_PAGES) {
		if (test_bit(i, there)) {
			pool->nr_away -= test_and_clear_bit(i, chunk->away);
			continue;
		}
		if (test_bit(i, chunk->used)) {
			pool->nr_away += !test_and_set_bit(i, chunk->away);
			continue;
		}
		/*
		 * With an error of the memory it is perhaps in no list, also if Linux is told
		 * later that there is none. (After a simulated error that takes the pool's
		 * reference along: mm/hwpoison-inject.c is for tests.)
		 */
		if (PageHWPoison(&chunk->first[i]) || list_empty(&chunk->first[i].lru))
			continue;
		pool->refused++;
		list_del(&chunk->first[i].lru);
		pool->nr_free--;
		hydra_page_leave(pool, chunk, i);
	}
	spin_unlock(&pool->lock);
}

/* Have the host move all pages of a set. Return: as hydra_pages_place() */
static long hydra_set_place(struct hydra_chunk *chunk, const unsigned long *pages, u8 host,
			    unsigned long *there)
{
	unsigned int first, end;
	long ret = 0;

	for_each_set_bitrange(first, end, pages, CHUNK_PAGES) {
		ret = hydra_pages_place(chunk, first, end - first, host, there);
		if (ret)
			break;
	}
	return ret;
}

/*
 * Have the pages of a chunk moved again. What the host does not tell changes nothing.
 *
 * A host does not move memory that it does not have. A free page is all zeros, unless it has been a
 * table: a machine that migrates does not take it along. So a free page that does not get there is
 * written, and the host asked once more. The write adds 0, in an atomic instruction: the page may
 * become a table meanwhile.
 *
 * Return: as hydra_pages_place()
 */
static long hydra_chunk_place_again(struct hydra_pool *pool, struct hydra_chunk *chunk)
{
	DECLARE_BITMAP(there, CHUNK_PAGES) = {};
	DECLARE_BITMAP(left, CHUNK_PAGES);
	u8 host = READ_ONCE(host_of[pool->d]);
	unsigned int i;
	long ret;

	if (host == KVM_HYDRA_NO_DOMAIN)
		return 0;
	ret = hydra_set_place(chunk, chunk->ours, host, there);
	if (ret)
		return ret;
	/*
	 * A page that is free now stays in the pool until this worker sorts the chunk: no page
	 * leaves but one that hydra_chunk_sort() has found away while it was used.
	 */
	spin_lock(&pool->lock);
	bitmap_andnot(left, chunk->ours, there, CHUNK_PAGES);
	bitmap_andnot(left, left, chunk->used, CHUNK_PAGES);
	spin_unlock(&pool->lock);
	for_each_set_bit(i, left, CHUNK_PAGES) {
		if (!PageHWPoison(&chunk->first[i]))
			atomic_long_add(0, (atomic_long_t *)page_address(&chunk->first[i]));
		cond_resched();
	}
	ret = hydra_set_place(chunk, left, host, there);
	/* Of the free pages it is not known where they are: they stay. */
	if (ret)
		bitmap_or(there, there, left, CHUNK_PAGES);
	hydra_chunk_sort(pool, chunk, there);
	return ret;
}

/*
 * Have all pages of a pool moved again.
 * Context: the pool's worker, which alone adds chunks.
 * Return: false: the host moves more of them later. The next call begins with the chunk after
 *	the one that stays: that one may have pages that never move.
 */
static bool hydra_pool_place(struct hydra_pool *pool)
{
	struct hydra_chunk *chunk;

	list_for_each_entry(chunk, &pool->chunks, list) {
		if (hydra_chunk_place_again(pool, chunk) != -KVM_EAGAIN)
			continue;
		spin_lock(&pool->lock);
		if (!list_is_last(&chunk->list, &pool->chunks))
			list_rotate_to_front(chunk->list.next, &pool->chunks);
		spin_unlock(&pool->lock);
		return false;
	}
	return true;
}

/*
 * May this CPU get memory for a group? Without a host that moves memory, it is where the CPU is
 * that writes it first. A host that moves it has to have told where the group is.
 */
static bool hydra_in_group(unsigned int d)
{
	if (host_of)
		return READ_ONCE(host_of[d]) != KVM_HYDRA_NO_DOMAIN;
	return hydra_domain_of_cpu(HYDRA_SCOPE_NODE, raw_smp_processor_id()) == d;
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

/*
 * Add 2 MiB to a pool. If the host moves none of them, they are kept aside: Linux's allocator would
 * give the same ones again.
 * Return: how many pages that were; -ENOMEM, and none is aside; -EAGAIN, and one is: the host moves
 *	more later
 */
static int hydra_pool_grow(struct hydra_pool *pool, struct list_head *aside)
{
	struct hydra_chunk *chunk;
	unsigned int i, nr;
	long placed;

	if (atomic_long_add_return(CHUNK_PAGES, &pooled_pages) > hydra_pool_limit >> PAGE_SHIFT) {
		atomic_long_sub(CHUNK_PAGES, &pooled_pages);
		return -ENOMEM;
	}
	chunk = hydra_chunk_alloc(pool->d);
	if (!chunk) {
		atomic_long_sub(CHUNK_PAGES, &pooled_pages);
		return -ENOMEM;
	}
	placed = hydra_chunk_place(chunk);
	nr = bitmap_weight(chunk->ours, CHUNK_PAGES);
	if (nr && xa_err(xa_store(&chunks, page_to_pfn(chunk->first) >> CHUNK_ORDER, chunk,
				  GFP_KERNEL))) {
		bitmap_zero(chunk->ours, CHUNK_PAGES);
		nr = 0;
	}
	spin_lock(&pool->lock);
	list_add(&chunk->list, nr ? &pool->chunks : aside);
	for_each_set_bit(i, chunk->ours, CHUNK_PAGES)
		list_add_tail(&chunk->first[i].lru, &pool->free);
	pool->nr_free += nr;
	pool->nr_pages += nr;
	pool->refused += CHUNK_PAGES - nr;
	spin_unlock(&pool->lock);
	if (!nr)
		return placed == -KVM_EAGAIN ? -EAGAIN : 0;
	atomic_long_sub(CHUNK_PAGES - nr, &pooled_pages);
	for_each_clear_bit(i, chunk->ours, CHUNK_PAGES)
		__free_page(&chunk->first[i]);
	return nr;
}

static void hydra_free_aside(struct list_head *aside)
{
	struct hydra_chunk *chunk, *next;
	unsigned int i;

	list_for_each_entry_safe(chunk, next, aside, list) {
		for (i = 0; i < CHUNK_PAGES; i++)
			__free_page(&chunk->first[i]);
		atomic_long_sub(CHUNK_PAGES, &pooled_pages);
		kfree(chunk);
	}
}

/* Try some chunks. The memory of a guest may be of a kind that the host cannot move at all. */
static void hydra_pool_grow_or_pause(struct hydra_pool *pool)
{
	unsigned long pause = POOL_PAUSE;
	LIST_HEAD(aside);
	int nr, i = 0;

	do {
		nr = hydra_pool_grow(pool, &aside);
	} while (nr >= 0 && nr < CHUNK_PAGES / 2 && ++i < ASIDE_MAX);
	if (nr >= CHUNK_PAGES / 2) {
		pool->pause = POOL_PAUSE;
		pool->later = LATER_PAUSE;
	} else {
		if (nr == -EAGAIN) {
			pause = pool->later;
			pool->later = min(2 * pause, POOL_PAUSE);
		} else if (!list_empty(&aside)) {
			pause = pool->pause;
			pool->pause = min(2 * pause, POOL_PAUSE_MAX);
		}
		WRITE_ONCE(pool->grow_at, jiffies + pause);
	}
	hydra_free_aside(&aside);
}

static void hydra_pool_work(struct work_struct *work)
{
	struct hydra_pool *pool = container_of(to_delayed_work(work), struct hydra_pool, work);
	unsigned int tries = 0;

	/* A low pool wakes the worker in between. */
	if (time_after_eq(jiffies, READ_ONCE(pool->place_at)))
		tries = xchg(&pool->again, 0);
	if (tries == LATER_MAX) {
		pool->pause = POOL_PAUSE;
		pool->later = LATER_PAUSE;
		WRITE_ONCE(pool->grow_at, jiffies);
	}
	if (tries && !hydra_pool_place(pool) && tries > 1) {
		WRITE_ONCE(pool->place_at, jiffies + LATER_PAUSE);
		/* Unless all are to be moved again by now */
		cmpxchg(&pool->again, 0, tries - 1);
	}
	if (READ_ONCE(pool->nr_free) < POOL_LOW)
		hydra_pool_collect(pool);
	/* Far more than what wakes the worker, or it would look again soon */
	if (READ_ONCE(pool->nr_free) < POOL_ENOUGH && hydra_in_group(pool->d) &&
	    time_after_eq(jiffies, READ_ONCE(pool->grow_at)))
		hydra_pool_grow_or_pause(pool);
	if (READ_ONCE(pool->nr_free) < POOL_ENOUGH)
		WRITE_ONCE(pool->look_at, jiffies + LOOK_PAUSE);
	if (READ_ONCE(pool->again))
		queue_delayed_work(system_long_wq, &pool->work, LATER_PAUSE);
}

static void hydra_pool_init(struct hydra_pool *pool, unsigned int d)
{
	pool->d = d;
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->free);
	INIT_LIST_HEAD(&pool->chunks);
	INIT_DELAYED_WORK(&pool->work, hydra_pool_work);
	pool->look_at = jiffies;
	pool->grow_at = jiffies;
	pool->place_at = jiffies;
	pool->pause = POOL_PAUSE;
	pool->later = LATER_PAUSE;
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
		len += sysfs_emit_at(buf, len, " misplaced %lu refused %lu away %lu\n",
				     pool->misplaced, pool->refused, pool->nr_away);
		spin_unlock(&pool->lock);
	}
	return len;
}

/**
 * hydra_pools_start - make the pools, and fill them
 * @nr: how many groups there are
 * @host: by group, the domain of the host that it is on, or KVM_HYDRA_NO_DOMAIN; kept, and may
 *	change: see hydra_pools_place(). NULL: no host moves memory where the guest wants it.
 *
 * Context: process context, once; may sleep. Return: 0 or -ENOMEM.
 */
int hydra_pools_start(unsigned int nr, const u8 *host)
{
	unsigned int d;

	pools = kcalloc(nr, sizeof(*pools), GFP_KERNEL);
	if (!pools)
		return -ENOMEM;
	host_of = host;
	/* Each group could map all memory twice, by small pages. */
	hydra_pool_limit = nr * round_up(totalram_pages() / 256, CHUNK_PAGES) << PAGE_SHIFT;
	for (d = 0; d < nr; d++)
		hydra_pool_init(&pools[d], d);
	nr_pools = nr;
	static_branch_enable(&hydra_pools_key);
	for (d = 0; d < nr; d++) {
		hydra_pool_wake(&pools[d]);
		flush_delayed_work(&pools[d].work);
	}
	return 0;
}

/**
 * hydra_pools_place - have all pages moved again to where their groups are
 *
 * Context: any; a worker does it later.
 */
void hydra_pools_place(void)
{
	unsigned int d;

	for (d = 0; d < nr_pools; d++) {
		WRITE_ONCE(pools[d].place_at, jiffies);
		WRITE_ONCE(pools[d].again, LATER_MAX);
		/* On any CPU: the host moves the pages. */
		mod_delayed_work(system_long_wq, &pools[d].work, 0);
	}
}

#include "tests/pool-kunit.h"
