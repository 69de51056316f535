/* SPDX-License-Identifier: GPL-2.0-only */
/* When one domain alone has run an address space for long. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

/* No CPU runs the address space now: only the seconds of the last switches count. */
static void hydra_test_runs_alone(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	u32 now = hydra_second();
	unsigned int d, alone = 3;

	if (HYDRA_MAX_DOMAINS < 3)
		kunit_skip(test, "needs three domains");
	h->mm = kunit_kzalloc(test, sizeof(*h->mm) + cpumask_size(), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h->mm);
	h->stay = 4 * HZ;
	for (d = 0; d < 3; d++)
		hydra_test_domain(test, h, d)->ran = now;
	hydra_mask_set(0, &h->trees);
	hydra_mask_set(1, &h->trees);
	h->domain[1]->ran = now - 5;
	/* Plain Linux already */
	KUNIT_EXPECT_FALSE(test, hydra_runs_alone(h, &alone));
	h->active = true;
	KUNIT_EXPECT_TRUE(test, hydra_runs_alone(h, &alone));
	KUNIT_EXPECT_EQ(test, 0, alone);
	/* A child of vfork() was in domain 2, which has no tree. */
	hydra_mask_set(2, &h->universal);
	KUNIT_EXPECT_TRUE(test, hydra_runs_alone(h, &alone));
	h->domain[1]->ran = now - 4;
	KUNIT_EXPECT_FALSE(test, hydra_runs_alone(h, &alone));
	/* A third domain has come, and the others have left. */
	hydra_mask_set(2, &h->trees);
	KUNIT_EXPECT_FALSE(test, hydra_runs_alone(h, &alone));
	h->domain[2]->ran = now + 4;
	KUNIT_EXPECT_FALSE(test, hydra_runs_alone(h, &alone));
	h->domain[2]->ran = now + 5;
	KUNIT_EXPECT_TRUE(test, hydra_runs_alone(h, &alone));
	KUNIT_EXPECT_EQ(test, 2, alone);
}

/*
 * While a writer of settings returns the address space, no other ends the return, or is asked to.
 * All tables have gone.
 */
static void hydra_test_writer_returns(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);

	h->active = true;
	h->returning = true;
	h->return_level = PG_LEVEL_512G;
	KUNIT_EXPECT_TRUE(test, hydra_returns(h, current));
	atomic_inc(&h->writers);
	KUNIT_EXPECT_FALSE(test, hydra_returns(h, current));
	mmap_init_lock(h->mm);
	mmap_write_lock(h->mm);
	KUNIT_EXPECT_EQ(test, -EINTR, hydra_return(h, false));
	mmap_write_unlock(h->mm);
	KUNIT_EXPECT_TRUE(test, h->active && h->returning);
}

static struct kunit_case hydra_splitter_cases[] = {
	KUNIT_CASE(hydra_test_runs_alone),
	KUNIT_CASE(hydra_test_writer_returns),
	{}
};

static struct kunit_suite hydra_splitter_suite = {
	.name = "hydra-splitter",
	.test_cases = hydra_splitter_cases,
};

kunit_test_suite(hydra_splitter_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
