/* SPDX-License-Identifier: GPL-2.0-only */
/* The domains that a flush is for. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define HUGE_A	(0x12200000 | _PAGE_PRESENT | _PAGE_USER | _PAGE_PSE)

/*
 * A PMD table with a leaf table that domain 1 links alone, one that no domain uses, a
 * huge page, and an empty entry. Domain 0 has shared huge pages there.
 */
static pud_t hydra_test_pmd_table(struct kunit *test)
{
	pteval_t *pmd = hydra_test_page(test), *leaf = hydra_test_page(test);

	hydra_mask_set(0, &hydra_test_table(test, pmd, NULL, HYDRA_PMD)->sharers);
	virt_to_ptdesc(leaf)->__page_mapping = hydra_solo(1);
	pmd[0] = _PAGE_TABLE | __pa(leaf);
	pmd[1] = _PAGE_TABLE | __pa(hydra_test_page(test));
	pmd[2] = HUGE_A;
	return __pud(_PAGE_TABLE | __pa(pmd));
}

/* The domains that a flush of some of these entries is for. */
static void hydra_test_range_sharers(struct kunit *test)
{
	static const struct {
		unsigned int first, end;
		enum hydra_huge huge;
		unsigned long domains;
	} rows[] = {
		{ 0, 1, HYDRA_LEAF_ONLY, BIT(1) },
		{ 0, 1, HYDRA_HUGE_IN_RANGE, BIT(1) },
		{ 0, 1, HYDRA_HUGE_SAME_TABLE, BIT(0) | BIT(1) },
		{ 1, 2, HYDRA_LEAF_ONLY, 0 },
		{ 1, 2, HYDRA_HUGE_IN_RANGE, 0 },
		{ 1, 2, HYDRA_HUGE_SAME_TABLE, BIT(0) },
		{ 2, 3, HYDRA_LEAF_ONLY, 0 },
		{ 2, 3, HYDRA_HUGE_IN_RANGE, BIT(0) },
		/* The huge page may have been taken away, by a CPU that has not flushed yet. */
		{ 3, 4, HYDRA_HUGE_IN_RANGE, BIT(0) },
		{ 0, 4, HYDRA_LEAF_ONLY, BIT(1) },
		{ 0, 4, HYDRA_HUGE_IN_RANGE, BIT(0) | BIT(1) },
	};
	pud_t pud = hydra_test_pmd_table(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		hydra_mask_t mask;

		hydra_mask_zero(&mask);
		hydra_add_pmd_sharers(pud, rows[i].first * PMD_SIZE, rows[i].end * PMD_SIZE,
				      rows[i].huge, &mask);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].domains, mask.bits[0], "row %d", i);
	}
}

/* What a gather remembers until it flushes. */
static void hydra_test_gather(struct kunit *test)
{
	pud_t pud = hydra_test_pmd_table(test);
	struct hydra_gather g;

	__hydra_gather_init(&g, false);
	KUNIT_EXPECT_TRUE(test, g.recording);
	KUNIT_EXPECT_GT(test, g.start, g.end);
	__hydra_gather_add_range(&g, 3 * PAGE_SIZE, 5 * PAGE_SIZE);
	__hydra_gather_add_range(&g, PAGE_SIZE, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, g.start);
	KUNIT_EXPECT_EQ(test, 5 * PAGE_SIZE, g.end);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&g.sharers));
	__hydra_gather_add_huge(&g, pmd_offset(&pud, 2 * PMD_SIZE));
	KUNIT_EXPECT_EQ(test, BIT(0), g.sharers.bits[0]);
	__hydra_gather_init(&g, true);
	KUNIT_EXPECT_EQ(test, 0, g.start);
	KUNIT_EXPECT_EQ(test, ULONG_MAX, g.end);
}

#undef HUGE_A

static struct kunit_case hydra_flush_cases[] = {
	KUNIT_CASE(hydra_test_range_sharers),
	KUNIT_CASE(hydra_test_gather),
	{}
};

static struct kunit_suite hydra_flush_suite = {
	.name = "hydra-flush",
	.test_cases = hydra_flush_cases,
};

kunit_test_suite(hydra_flush_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
