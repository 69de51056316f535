/* SPDX-License-Identifier: GPL-2.0-only */
/* Rules of forgetting, of pushing, and of modes. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#include "../auto_rules.h"

static const struct hydra_prices hydra_test_prices = {
	.interrupt = HYDRA_PRICE_INTERRUPT,
	.fill = HYDRA_PRICE_FILL,
	.change = HYDRA_PRICE_CHANGE,
	.look = HYDRA_PRICE_LOOK,
};

/* Steps are rounded up, are never 0, and fit in a byte. */
static void hydra_test_rent_step(struct kunit *test)
{
	static const struct {
		u64 price;
		u32 cpus;
		u8 step;
	} cases[] = {
		{ HYDRA_PRICE_INTERRUPT, 1, 103 },	/* 102.4 */
		{ HYDRA_PRICE_CHANGE, 1, 13 },		/* 12.8 */
		{ HYDRA_PRICE_INTERRUPT * 32ULL, 32, 245 },
		{ HYDRA_PRICE_CHANGE, 32, 1 },
		{ 1, 4096, 1 },
		{ 0, 1, 0 },
		{ 5000, 1, 255 },
		{ U64_MAX, 1, 255 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].step,
				    hydra_rent_step(cases[i].price,
						    hydra_forget_price(&hydra_test_prices,
								       cases[i].cpus)),
				    "case %u", i);
}

static void hydra_test_rent(struct kunit *test)
{
	static const struct {
		u8 rent, step, sum, quarters, left;
	} cases[] = {
		{ 0, 0, 0, 0, 0 },
		{ 0, 103, 103, 1, 39 },
		{ 39, 103, 142, 2, 14 },
		{ 50, 13, 63, 0, 63 },
		{ 51, 13, 64, 1, 0 },
		{ 63, 255, 255, 3, 63 },
		{ 255, 1, 255, 3, 63 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 sum = hydra_rent_add(cases[i].rent, cases[i].step);

		KUNIT_EXPECT_EQ_MSG(test, cases[i].sum, sum, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].quarters, hydra_rent_quarters(sum),
				    "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].left, hydra_rent_left(sum), "case %u", i);
	}
}

static void hydra_test_age(struct kunit *test)
{
	static const struct {
		u8 age;
		bool used;
		u8 quarters, next;
		bool forgets;
	} cases[] = {
		{ 0, false, 1, 1, false },
		{ 1, false, 1, 2, false },
		{ 2, false, 1, 3, true },
		{ 0, false, 3, 3, true },
		{ 2, true, 3, 0, false },
		{ 7, true, 1, 0, false },
		{ 6, false, 3, 7, true },
		{ 7, false, 1, 7, true },
		{ 2, false, 0, 2, false },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 age = hydra_age(cases[i].age, cases[i].used, cases[i].quarters);

		KUNIT_EXPECT_EQ_MSG(test, cases[i].next, age, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].forgets, hydra_forgets(age), "case %u", i);
	}
}

/* Three needless interrupts, or 20 needless changes, and the domain is out. */
static void hydra_test_forgets_after(struct kunit *test)
{
	static const struct {
		u32 price;
		unsigned int least, most;
	} cases[] = {
		{ HYDRA_PRICE_INTERRUPT, 3, 3 },
		{ HYDRA_PRICE_CHANGE, 15, 20 },
	};
	u64 forget = hydra_forget_price(&hydra_test_prices, 1);
	unsigned int i;
	u8 left;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		for (left = 0; left < HYDRA_RENT_QUARTER; left++) {
			u8 step = hydra_rent_step(cases[i].price, forget);
			u8 rent = left, age = 0;
			unsigned int nr = 0;
			bool used = true;

			do {
				rent = hydra_rent_add(rent, step);
				nr++;
				if (!hydra_rent_quarters(rent))
					continue;
				age = hydra_age(age, used, hydra_rent_quarters(rent));
				rent = hydra_rent_left(rent);
				used = false;
			} while (!hydra_forgets(age));
			KUNIT_EXPECT_GE(test, nr, cases[i].least);
			KUNIT_EXPECT_LE(test, nr, cases[i].most);
		}
	}
}

static void hydra_test_credit(struct kunit *test)
{
	static const struct {
		u8 credit;
		bool used, pushes;
		u8 next;
	} cases[] = {
		{ 0, false, false, 0 },
		{ 0, true, true, 16 },
		{ 1, false, true, 0 },
		{ 16, false, true, 15 },
		{ 239, true, true, 255 },
		{ 240, true, true, 255 },
		{ 255, true, true, 255 },
		{ 255, false, true, 254 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		KUNIT_EXPECT_EQ_MSG(test, cases[i].pushes,
				    hydra_pushes(cases[i].credit, cases[i].used), "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].next,
				    hydra_credit(cases[i].credit, cases[i].used), "case %u", i);
	}
	KUNIT_EXPECT_EQ(test, 252, hydra_credit_spent(3));
	KUNIT_EXPECT_EQ(test, 0, hydra_credit_spent(HYDRA_CREDIT_MAX + 1));
}

static void hydra_test_tally(struct kunit *test)
{
	static const struct {
		s16 tally;
		u32 gain, copies;
		s16 next;
	} cases[] = {
		{ 0, 26, 3, 23 },
		{ 23, 0, 3, 20 },
		{ 0, 0, 2048, -2048 },
		{ 32767, 26, 0, 32767 },
		{ 32000, U32_MAX, 0, 32767 },
		{ -32767, 0, U32_MAX, -32767 },
		{ 32767, 0, 1, 32766 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].next,
				    hydra_tally(cases[i].tally, cases[i].gain, cases[i].copies),
				    "case %u", i);
}

/* Flush until the mode changes between marks and table. Return: how many flushes */
static u32 hydra_test_flushes(struct hydra_mode *m, u32 spared)
{
	u32 worth = hydra_mode_worth(&hydra_test_prices), nr = 0;
	bool looks = hydra_mode_looks(m, worth, 1, 3);

	while (hydra_mode_looks(m, worth, 1, 3) == looks && nr < 100000) {
		hydra_mode_flushed(m, worth, looks ? spared : 0, looks ? 3 : 0);
		nr++;
	}
	return nr;
}

/* Where marks spare no CPU, tries become rare. */
static void hydra_test_mode_rests(struct kunit *test)
{
	static const u32 rests[] = { 1024, 2048, 4096, 8192, 16384, 32768, 65535, 65535 };
	struct hydra_mode m = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rests); i++) {
		KUNIT_EXPECT_EQ(test, HYDRA_TRY_FLUSHES, hydra_test_flushes(&m, 0));
		KUNIT_EXPECT_EQ(test, rests[i], hydra_test_flushes(&m, 0));
	}
}

/* A try counts its second half, and what has gained is kept until all of the gain is lost. */
static void hydra_test_mode_stays(struct kunit *test)
{
	u32 worth = hydra_mode_worth(&hydra_test_prices), i;
	struct hydra_mode m = {};

	KUNIT_EXPECT_EQ(test, 26, worth);
	/* More looks than interrupts are worth: by table, and no part of the try */
	KUNIT_EXPECT_TRUE(test, hydra_mode_looks(&m, worth, 1, 25));
	KUNIT_EXPECT_FALSE(test, hydra_mode_looks(&m, worth, 1, 26));
	KUNIT_EXPECT_FALSE(test, hydra_mode_looks(&m, worth, 0, 1));
	hydra_mode_flushed(&m, worth, 0, 0);
	for (i = 0; i < HYDRA_TRY_FLUSHES; i++) {
		KUNIT_EXPECT_EQ(test, HYDRA_MODE_TRY, (u8)m.state);
		hydra_mode_flushed(&m, worth, 1, 3);
	}
	KUNIT_EXPECT_EQ(test, HYDRA_MODE_FINE, (u8)m.state);
	KUNIT_EXPECT_EQ(test, 32 * 23, m.tally);
	KUNIT_EXPECT_EQ(test, (32 * 23 + 2) / 3, hydra_test_flushes(&m, 0));
	KUNIT_EXPECT_EQ(test, HYDRA_MODE_TABLE, (u8)m.state);
	KUNIT_EXPECT_EQ(test, 1, (u8)m.backoff);
}

static struct kunit_case hydra_auto_rules_cases[] = {
	KUNIT_CASE(hydra_test_rent_step),
	KUNIT_CASE(hydra_test_rent),
	KUNIT_CASE(hydra_test_age),
	KUNIT_CASE(hydra_test_forgets_after),
	KUNIT_CASE(hydra_test_credit),
	KUNIT_CASE(hydra_test_tally),
	KUNIT_CASE(hydra_test_mode_rests),
	KUNIT_CASE(hydra_test_mode_stays),
	{}
};

static struct kunit_suite hydra_auto_rules_suite = {
	.name = "hydra-auto-rules",
	.test_cases = hydra_auto_rules_cases,
};

kunit_test_suite(hydra_auto_rules_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
