/* SPDX-License-Identifier: GPL-2.0-only */
/* Stamps of marks, and which marks are void. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "../marks.h"
#include "pages-kunit.h"

/* A stamp stands for the latest possible second, so a mark may look too young, never too old. */
static void hydra_test_stamp(struct kunit *test)
{
	static const u32 nows[] = { 200, 253, 254, 255, 4294667, U32_MAX - 5 };
	u32 age;
	int i;

	for (i = 0; i < ARRAY_SIZE(nows); i++) {
		u32 now = nows[i];

		for (age = 0; age < NR_STAMPS; age++) {
			pteval_t stamp = hydra_stamp(now - age);

			KUNIT_EXPECT_NE(test, 0, stamp);
			KUNIT_EXPECT_EQ(test, 0, stamp & ~(pteval_t)HYDRA_PTE_STAMP);
			KUNIT_EXPECT_EQ_MSG(test, now - age, hydra_stamped(stamp, now),
					    "now %u", now);
		}
		KUNIT_EXPECT_EQ(test, now, hydra_stamped(hydra_stamp(now - NR_STAMPS), now));
	}
	KUNIT_EXPECT_TRUE(test, hydra_later(1, 0));
	KUNIT_EXPECT_FALSE(test, hydra_later(1, 1));
	KUNIT_EXPECT_TRUE(test, hydra_later(0, U32_MAX));
}

/* The domain was flushed a second ago: a mark is void if its copy was aged before that. */
static void hydra_test_void(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	pteval_t copies[4], looked_at[4], mark = HYDRA_PTE_MARKED;
	bool found[4], all;
	struct hydra_domain *dom;
	u32 now;
	int i;

	dom = kunit_kzalloc(test, sizeof(*dom), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, dom);
	h->domain[0] = dom;
	preempt_disable();
	/* Again if a second passes meanwhile: hydra_is_void() would look at this machine's CPUs. */
	do {
		now = hydra_second();
		dom->looked = now;
		dom->flushed = now - 1;
		copies[0] = mark;
		copies[1] = mark | hydra_stamp(now);
		copies[2] = mark | hydra_stamp(now - 1);
		copies[3] = mark | hydra_stamp(now - 2);
		for (i = 0; i < 4; i++) {
			found[i] = hydra_take_marks(h, 0, &copies[i], 1, HYDRA_LOOK_AT_MARKS);
			looked_at[i] = copies[i];
		}
		/* Voids do not hide the mark behind them. */
		all = hydra_take_marks(h, 0, copies, 4, HYDRA_TAKE_MARKS);
	} while (hydra_second() != now);
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, found[0]);
	KUNIT_EXPECT_TRUE(test, found[1]);
	KUNIT_EXPECT_TRUE(test, found[2]);
	KUNIT_EXPECT_FALSE(test, found[3]);
	KUNIT_EXPECT_TRUE(test, all);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_NE(test, 0, looked_at[i] & mark);
		KUNIT_EXPECT_EQ_MSG(test, 0, copies[i], "copy %d", i);
	}
}

/* A flush in whole makes the second of a domain later, never earlier. */
static void hydra_test_domains_flushed(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	struct hydra_domain *dom = kunit_kzalloc(test, sizeof(*dom), GFP_KERNEL);
	hydra_mask_t domains;

	KUNIT_ASSERT_NOT_NULL(test, dom);
	h->domain[1] = dom;
	hydra_mask_zero(&domains);
	hydra_mask_set(0, &domains);
	if (HYDRA_MAX_DOMAINS > 1)
		hydra_mask_set(1, &domains);
	dom->flushed = 7;
	hydra_domains_flushed(h, &domains, 6);
	KUNIT_EXPECT_EQ(test, 7, dom->flushed);
	hydra_domains_flushed(h, &domains, 8);
	KUNIT_EXPECT_EQ(test, HYDRA_MAX_DOMAINS > 1 ? 8 : 7, dom->flushed);
}

static struct kunit_case hydra_idle_cases[] = {
	KUNIT_CASE(hydra_test_stamp),
	KUNIT_CASE(hydra_test_void),
	KUNIT_CASE(hydra_test_domains_flushed),
	{}
};

static struct kunit_suite hydra_idle_suite = {
	.name = "hydra-idle",
	.test_cases = hydra_idle_cases,
};

kunit_test_suite(hydra_idle_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
