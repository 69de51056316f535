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

/* T18: a page has one user at a time, and is found again when Linux has freed it. */
static void hydra_test_pool(struct kunit *test)
{
	struct hydra_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	struct page *page, *first = NULL;
	unsigned long limit = hydra_pool_limit;
	unsigned int i, nr, d;

	KUNIT_ASSERT_NOT_NULL(test, pool);
	if (ask_host)
		kunit_skip(test, "the host places the memory");
	/* The memory is of the group of the CPU that writes it. */
	migrate_disable();
	d = hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, raw_smp_processor_id());
	hydra_pool_init(pool, d);
	hydra_pool_limit = ULONG_MAX;
	nr = hydra_pool_grow(pool);
	hydra_pool_limit = limit;
	migrate_enable();
	KUNIT_ASSERT_EQ(test, nr, CHUNK_PAGES);
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

/* A page of no pool */
static void hydra_test_pool_of(struct kunit *test)
{
	struct page *page = alloc_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_EXPECT_EQ(test, hydra_pool_of(page), -1);
	__free_page(page);
}

/* A pool has no more than its limit, and comes from anywhere then. */
static void hydra_test_pool_limit(struct kunit *test)
{
	struct hydra_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);
	unsigned long limit = hydra_pool_limit;

	KUNIT_ASSERT_NOT_NULL(test, pool);
	hydra_pool_init(pool, 0);
	hydra_pool_limit = 0;
	KUNIT_EXPECT_EQ(test, hydra_pool_grow(pool), 0);
	hydra_pool_limit = limit;
	spin_lock(&pool->lock);
	KUNIT_EXPECT_NULL(test, hydra_pool_take(pool));
	spin_unlock(&pool->lock);
	KUNIT_EXPECT_EQ(test, pool->misplaced, 1);
}

static struct kunit_case hydra_pool_cases[] = {
	KUNIT_CASE(hydra_test_pool),
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
