/* SPDX-License-Identifier: GPL-2.0-only */
/* Pools of pages. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

/* Give the memory back, which a real pool never does. */
static void hydra_test_pool_free(struct hydra_pool *pool)
{
	struct hydra_chunk *chunk, *next;
	unsigned int i;

	list_for_each_entry_safe(chunk, next, &pool->chunks, list) {
		xa_erase(&chunks, page_to_pfn(chunk->first) >> CHUNK_ORDER);
		for_each_set_bit(i, chunk->ours, CHUNK_PAGES)
			__free_page(&chunk->first[i]);
		atomic_long_sub(bitmap_weight(chunk->ours, CHUNK_PAGES), &pooled_pages);
		kfree(chunk);
	}
}

/* A page becomes a table, and is freed, as Linux does both. */
static void hydra_test_pool_use(struct kunit *test, struct page *page)
{
	KUNIT_EXPECT_TRUE(test, pagetable_pte_ctor(page_ptdesc(page)));
	pagetable_pte_dtor(page_ptdesc(page));
	__free_page(page);
}

/* A page has one user at a time, and is found again when Linux has freed it. */
static void hydra_test_pool(struct kunit *test)
{
	struct hydra_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	struct page *page, *first = NULL;
	unsigned long limit = hydra_pool_limit;
	unsigned int i, nr, d;
	LIST_HEAD(aside);

	KUNIT_ASSERT_NOT_NULL(test, pool);
	if (host_of)
		kunit_skip(test, "the host places the memory");
	/* The memory is of the group of the CPU that writes it. */
	migrate_disable();
	d = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, raw_smp_processor_id());
	hydra_pool_init(pool, d);
	hydra_pool_limit = ULONG_MAX;
	nr = hydra_pool_grow(pool, &aside);
	hydra_pool_limit = limit;
	migrate_enable();
	KUNIT_ASSERT_EQ(test, nr, CHUNK_PAGES);
	KUNIT_EXPECT_TRUE(test, list_empty(&aside));
	spin_lock(&pool->lock);
	for (nr = 0; (page = hydra_pool_take(pool)); nr++) {
		KUNIT_EXPECT_EQ(test, page_ref_count(page), 2);
		KUNIT_EXPECT_EQ(test, hydra_pool_of(page), d);
		first = first ?: page;
	}
	spin_unlock(&pool->lock);
	KUNIT_EXPECT_EQ(test, nr, CHUNK_PAGES);
	KUNIT_EXPECT_EQ(test, pool->misplaced, 1);
	/* All are in use. */
	hydra_pool_collect(pool);
	KUNIT_EXPECT_EQ(test, pool->nr_free, 0);
	/* Freed, but inspected by another CPU */
	get_page(first);
	hydra_test_pool_use(test, first);
	hydra_pool_collect(pool);
	KUNIT_EXPECT_EQ(test, pool->nr_free, 0);
	__free_page(first);
	hydra_pool_collect(pool);
	KUNIT_EXPECT_EQ(test, pool->nr_free, 1);
	/* A table is empty, whatever the last one has left. */
	memset(page_address(first), 0x5a, PAGE_SIZE);
	/* No worker looks at this pool. */
	pool->look_at = jiffies + 3600 * HZ;
	KUNIT_EXPECT_PTR_EQ(test, hydra_pool_get_from(pool), first);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(first), 0, PAGE_SIZE));
	hydra_test_pool_use(test, first);
	for (i = 0; i < CHUNK_PAGES; i++) {
		page = list_first_entry(&pool->chunks, struct hydra_chunk, list)->first + i;
		if (page != first)
			__free_page(page);
	}
	hydra_test_pool_free(pool);
}

/*
 * Of a chunk, a free page and a page in use are not where they should be: the first leaves the
 * pool at once, the other when it is no table any more. Its home does not change before.
 */
static void hydra_test_pool_away(struct kunit *test)
{
	struct hydra_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	DECLARE_BITMAP(there, CHUNK_PAGES);
	unsigned long limit = hydra_pool_limit, before = atomic_long_read(&pooled_pages);
	struct page *page, *free;
	struct hydra_chunk *chunk;
	LIST_HEAD(aside);
	unsigned int d;
	int nr;

	KUNIT_ASSERT_NOT_NULL(test, pool);
	if (host_of)
		kunit_skip(test, "the host places the memory");
	migrate_disable();
	d = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, raw_smp_processor_id());
	hydra_pool_init(pool, d);
	/* No worker looks at this pool. */
	pool->look_at = jiffies + 3600 * HZ;
	hydra_pool_limit = ULONG_MAX;
	nr = hydra_pool_grow(pool, &aside);
	hydra_pool_limit = limit;
	migrate_enable();
	KUNIT_ASSERT_EQ(test, nr, CHUNK_PAGES);
	chunk = list_first_entry(&pool->chunks, struct hydra_chunk, list);
	page = hydra_pool_get_from(pool);
	free = list_first_entry(&pool->free, struct page, lru);
	bitmap_fill(there, CHUNK_PAGES);
	hydra_chunk_sort(pool, chunk, there);
	KUNIT_EXPECT_EQ(test, pool->refused, 0);
	__clear_bit(page - chunk->first, there);
	__clear_bit(free - chunk->first, there);
	hydra_chunk_sort(pool, chunk, there);
	hydra_chunk_sort(pool, chunk, there);
	KUNIT_EXPECT_EQ(test, hydra_pool_of(free), HYDRA_NO_POOL);
	KUNIT_EXPECT_FALSE(test, hydra_page_is_away(free));
	KUNIT_EXPECT_EQ(test, hydra_pool_of(page), d);
	KUNIT_EXPECT_TRUE(test, hydra_page_is_away(page));
	KUNIT_EXPECT_EQ(test, pool->nr_away, 1);
	KUNIT_EXPECT_EQ(test, pool->refused, 1);
	KUNIT_EXPECT_EQ(test, pool->nr_pages, CHUNK_PAGES - 1);
	KUNIT_EXPECT_EQ(test, pool->nr_free, CHUNK_PAGES - 2);
	/* The host has moved it back. */
	__set_bit(page - chunk->first, there);
	hydra_chunk_sort(pool, chunk, there);
	KUNIT_EXPECT_EQ(test, pool->nr_away, 0);
	KUNIT_EXPECT_FALSE(test, hydra_page_is_away(page));
	__clear_bit(page - chunk->first, there);
	hydra_chunk_sort(pool, chunk, there);
	hydra_test_pool_use(test, page);
	hydra_pool_collect(pool);
	KUNIT_EXPECT_EQ(test, hydra_pool_of(page), HYDRA_NO_POOL);
	KUNIT_EXPECT_EQ(test, pool->nr_away, 0);
	KUNIT_EXPECT_EQ(test, pool->nr_pages, CHUNK_PAGES - 2);
	KUNIT_EXPECT_EQ(test, pool->nr_free, CHUNK_PAGES - 2);
	hydra_test_pool_free(pool);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&pooled_pages), before);
}

/* A page of no pool */
static void hydra_test_pool_of(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, hydra_pool_of(page), HYDRA_NO_POOL);
	__free_page(page);
}

/* A pool has no more than its limit, and comes from anywhere then. */
static void hydra_test_pool_limit(struct kunit *test)
{
	struct hydra_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	unsigned long limit = hydra_pool_limit;
	LIST_HEAD(aside);

	KUNIT_ASSERT_NOT_NULL(test, pool);
	hydra_pool_init(pool, 0);
	hydra_pool_limit = 0;
	KUNIT_EXPECT_EQ(test, hydra_pool_grow(pool, &aside), -ENOMEM);
	hydra_pool_limit = limit;
	spin_lock(&pool->lock);
	KUNIT_EXPECT_NULL(test, hydra_pool_take(pool));
	spin_unlock(&pool->lock);
	KUNIT_EXPECT_EQ(test, pool->misplaced, 1);
}

static struct kunit_case hydra_pool_cases[] = {
	KUNIT_CASE(hydra_test_pool),
	KUNIT_CASE(hydra_test_pool_away),
	KUNIT_CASE(hydra_test_pool_of),
	KUNIT_CASE(hydra_test_pool_limit),
	{}
};

static struct kunit_suite hydra_pool_suite = {
	.name = "hydra-pool",
	.test_cases = hydra_pool_cases,
};

kunit_test_suite(hydra_pool_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
