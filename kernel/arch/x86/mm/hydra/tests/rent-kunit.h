/* SPDX-License-Identifier: GPL-2.0-only */
/* When the keeper is woken, and what a return to a table costs. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define LATER	(1000 * HZ)

/* A request moves the keeper's timer forward, and never back. */
static void hydra_test_wake(struct kunit *test)
{
	unsigned long set, now = jiffies;

	if (!hydra_idle_seconds)
		kunit_skip(test, "idle_seconds is 0");
	hydra_keeper_wake(LATER);
	set = hydra_keeper_work.timer.expires;
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&hydra_keeper_work));
	hydra_keeper_wake(2 * LATER);
	KUNIT_EXPECT_EQ(test, set, hydra_keeper_work.timer.expires);
	hydra_keeper_wake(LATER / 2);
	set = hydra_keeper_work.timer.expires;
	KUNIT_EXPECT_TRUE(test, time_before(set, now + LATER));
	/* The timer has run out, and the keeper waits for its turn. */
	wake_at = jiffies - 1;
	hydra_keeper_wake(1);
	KUNIT_EXPECT_EQ(test, set, hydra_keeper_work.timer.expires);
	wake_at = set;
	hydra_keeper_wake(0);
}

/* The fewer entries a fault fetches, the more faults a table takes. */
static void hydra_test_fill_price(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	union hydra_choice choice = hydra_choice_of(h->mm);
	u64 whole = hydra_prices_of(h).fill;

	KUNIT_EXPECT_EQ(test, HYDRA_PRICE_FILL, whole);
	KUNIT_EXPECT_EQ(test, HYDRA_PRICE_INTERRUPT, hydra_prices_of(h).interrupt);
	choice.prefetch = 6;
	h->mm->hydra_settings = choice.word;
	KUNIT_EXPECT_EQ(test, 8 * whole, hydra_prices_of(h).fill);
	choice.prefetch = 0;
	h->mm->hydra_settings = choice.word;
	KUNIT_EXPECT_EQ(test, PTRS_PER_PTE * whole, hydra_prices_of(h).fill);
}

#undef LATER

static struct kunit_case hydra_rent_cases[] = {
	KUNIT_CASE(hydra_test_wake),
	KUNIT_CASE(hydra_test_fill_price),
	{}
};

static struct kunit_suite hydra_rent_suite = {
	.name = "hydra-rent",
	.test_cases = hydra_rent_cases,
};

kunit_test_suite(hydra_rent_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
