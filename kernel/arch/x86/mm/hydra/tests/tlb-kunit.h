/* SPDX-License-Identifier: GPL-2.0-only */
/* The CPUs that a flush interrupts, by domain, and those that it spares. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#include "pages-kunit.h"

/* The target mask of a flush: of 1024 CPUs, only the words with CPUs of the domain are read. */
static void hydra_test_pick_cpus(struct kunit *test)
{
	const unsigned int nr = 1024, first = 256, last = 383;
	unsigned long *running = kunit_kcalloc(test, BITS_TO_LONGS(nr),
					       sizeof(long), GFP_KERNEL);
	unsigned long *cpus = kunit_kcalloc(test, BITS_TO_LONGS(nr),
					    sizeof(long), GFP_KERNEL);
	unsigned long *picked = kunit_kcalloc(test, BITS_TO_LONGS(nr),
					      sizeof(long), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, running);
	KUNIT_ASSERT_NOT_NULL(test, cpus);
	KUNIT_ASSERT_NOT_NULL(test, picked);
	bitmap_fill(running, nr);
	bitmap_set(cpus, first, last - first + 1);
	KUNIT_EXPECT_EQ(test, 2, hydra_pick_cpus(picked, running, cpus,
						 BIT_WORD(first), BIT_WORD(last)));
	KUNIT_EXPECT_EQ(test, last - first + 1, bitmap_weight(picked, nr));
	KUNIT_EXPECT_TRUE(test, bitmap_equal(picked, cpus, nr));
	/* Only CPUs of the domain that run the address space. */
	bitmap_zero(picked, nr);
	bitmap_zero(running, nr);
	bitmap_set(running, 0, first + 1);
	hydra_pick_cpus(picked, running, cpus, BIT_WORD(first), BIT_WORD(last));
	KUNIT_EXPECT_EQ(test, 1, bitmap_weight(picked, nr));
	KUNIT_EXPECT_TRUE(test, test_bit(first, picked));
}

/*
 * Flushes of Hydra's own interrupt CPUs that Linux leaves alone, and make less of what is spared.
 * What a reader has got stays.
 */
static void hydra_test_spared_stays(struct kunit *test)
{
	static const struct {
		unsigned int spared, own;	/* since the row before */
		unsigned long told;
	} rows[] = {
		{ 0, 3, 0 },
		{ 5, 0, 2 },
		{ 4, 1, 5 },
		{ 0, 4, 5 },
		{ 3, 0, 5 },
		{ 2, 0, 6 },
	};
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	int i;

	hydra_test_stats(test, h);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		hydra_stat_add(h, HYDRA_STAT_SPARED, rows[i].spared);
		hydra_stat_add(h, HYDRA_STAT_OWN, rows[i].own);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].told,
				    hydra_stat_sum(h, HYDRA_STAT_SPARED, NULL), "row %d", i);
	}
}

static struct kunit_case hydra_tlb_cases[] = {
	KUNIT_CASE(hydra_test_pick_cpus),
	KUNIT_CASE(hydra_test_spared_stays),
	{}
};

static struct kunit_suite hydra_tlb_suite = {
	.name = "hydra-tlb",
	.test_cases = hydra_tlb_cases,
};

kunit_test_suite(hydra_tlb_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
