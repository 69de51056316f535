/* SPDX-License-Identifier: GPL-2.0-only */
/* Rules of splits, of returns, and of the purse. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#include "../process_rules.h"

static const struct hydra_prices hydra_test_process_prices = HYDRA_PRICES;

#define HYDRA_TEST_LOOK_NS	1000000000ULL

/* Short names of what a look finds */
enum hydra_test_finds {
	FINDS_OWN,	/* two CPUs in each of four domains, which flush pages of their own */
	FINDS_SHARED,	/* the same, pages of all */
	FINDS_LITTLE,	/* the same, few flushes */
	FINDS_ALONE,	/* two CPUs of one domain */
	FINDS_NONE,	/* no CPU */
};

/* A look at a process of eight leaf tables: S is 152 us, U is 19.2 us. */
static struct hydra_process_look hydra_test_finds_now(enum hydra_test_finds finds, bool split)
{
	struct hydra_process_look l = {
		.ns = HYDRA_TEST_LOOK_NS,
		.running = 8,
		.squares = 16,
		.domains = 4,
		.tables = 8,
		.flushes = finds == FINDS_LITTLE ? 1333 : 2000,
	};

	if (finds == FINDS_ALONE || finds == FINDS_NONE) {
		l.running = finds == FINDS_ALONE ? 2 : 0;
		l.squares = l.running * l.running;
		l.domains = split ? 4 : l.running / 2;
		l.alone = finds == FINDS_ALONE;
		l.flushes = 0;
	} else if (split && finds == FINDS_SHARED) {
		l.changes = 3 * l.flushes;
		l.entries = l.changes;
	} else if (split) {
		l.spared = 6 * l.flushes;
	}
	return l;
}

/* One look; and the split or the return that it decides */
static enum hydra_why hydra_test_once(struct hydra_process *a, enum hydra_test_finds finds)
{
	const struct hydra_prices *p = &hydra_test_process_prices;
	struct hydra_process_look l = hydra_test_finds_now(finds, a->split);
	enum hydra_why why = hydra_process_looked(a, p, &l);

	if (why == HYDRA_WHY_SAVES && !a->split)
		hydra_process_split(a, p, &l);
	else if (why != HYDRA_WHY_SAVES && a->split)
		hydra_process_returned(a, hydra_return_price(p, &l));
	return why;
}

/* Look until the process is split, or is not. Return: how many looks */
static unsigned int hydra_test_until(struct hydra_process *a, enum hydra_test_finds finds)
{
	bool split = a->split;
	unsigned int nr = 0;

	while (a->split == split && nr < 10000) {
		hydra_test_once(a, finds);
		nr++;
	}
	return nr;
}

static void hydra_test_process_price(struct kunit *test)
{
	static const struct {
		u32 running, domains;
		u64 tables, root, split, back;
	} cases[] = {
		{ 8, 4, 8, 56000, 152000, 19200 },
		{ 8, 4, 0, 56000, 56000, 16000 },
		{ 0, 0, 8, 0, 0, 0 },
		/* 1.5 TiB of small pages */
		{ 256, 4, 786432, 552000, 9437736000ULL, 315084800 },
		/* All that x86-64 can map, on 64 nodes */
		{ 8192, 64, 67108864, 17024000, 12884918912000ULL, 429513113600ULL },
	};
	const struct hydra_prices *p = &hydra_test_process_prices;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hydra_process_look l = {
			.running = cases[i].running,
			.domains = cases[i].domains,
			.tables = cases[i].tables,
		};

		KUNIT_EXPECT_EQ_MSG(test, cases[i].root, hydra_root_price(p, &l), "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].split, hydra_split_price(p, &l), "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, cases[i].back, hydra_return_price(p, &l), "case %u", i);
	}
}

static void hydra_test_process_rent(struct kunit *test)
{
	static const struct {
		u32 running;
		u64 squares;
		u32 domains;
		u64 flushes, pages, rent;
	} cases[] = {
		{ 8, 16, 4, 1000, 0, 12000000 },
		{ 8, 16, 4, 0, 1000, 56250 },
		{ 8, 16, 4, 1000, 1000, 12056250 },
		{ 8, 64, 1, 1000, 1000, 0 },
		{ 1, 1, 1, 1000, 1000, 0 },
		{ 0, 0, 0, 1000, 1000, 0 },
		/* Seven CPUs flush, and interrupt one; one flushes, and interrupts seven. */
		{ 8, 50, 2, 1000, 0, 3500000 },
		{ 8192, 1048576, 64, 4000000000ULL, 0, 64512000000000000ULL },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hydra_process_look l = {
			.running = cases[i].running,
			.squares = cases[i].squares,
			.domains = cases[i].domains,
			.flushes = cases[i].flushes,
		};

		KUNIT_EXPECT_EQ_MSG(test, cases[i].rent,
				    hydra_process_rent(&hydra_test_process_prices, &l,
						       cases[i].pages), "case %u", i);
	}
}

static void hydra_test_process_net(struct kunit *test)
{
	static const struct {
		struct hydra_process_look l;
		s64 net;
	} cases[] = {
		{ { .spared = 6 }, 12000 },
		/* Flushes that only Hydra does */
		{ { .spared = -6 }, -12000 },
		{ { .pages = 1000 }, 75000 },
		{ { .flushes = 100 }, -5500 },
		{ { .fills = 2 }, -6000 },
		{ { .changes = 2, .entries = 2 }, -500 },
		{ { .changes = 2, .entries = 512 }, -500 - 510 * 25 },
		/* A counter that was read later than the other one */
		{ { .changes = 2, .entries = 1 }, -500 },
		{ { .looks = 4 }, -300 },
		{ { .spared = 1, .fills = 1 }, -1000 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, cases[i].net,
				    hydra_process_net(&hydra_test_process_prices, &cases[i].l),
				    "case %u", i);
}

/* The third look splits; little to save, and one domain alone, do not. */
static void hydra_test_process_splits(struct kunit *test)
{
	struct hydra_process a = {};
	unsigned int i;

	for (i = 0; i < 100; i++)
		KUNIT_EXPECT_EQ(test, i < 2 ? HYDRA_WHY_NEW : HYDRA_WHY_QUIET,
				hydra_test_once(&a, FINDS_LITTLE));
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_test_once(&a, FINDS_OWN));
	KUNIT_EXPECT_TRUE(test, a.split);

	a = (struct hydra_process){};
	KUNIT_EXPECT_EQ(test, 3, hydra_test_until(&a, FINDS_SHARED));
	KUNIT_EXPECT_EQ(test, -56000, a.balance);
}

/* A process that moves is found in two domains now and then. */
static void hydra_test_process_moves(struct kunit *test)
{
	struct hydra_process a = {};
	unsigned int i;

	for (i = 0; i < 100; i++) {
		bool moves = i % 11 < 1;

		KUNIT_EXPECT_EQ(test, i % 11 == 10 ? HYDRA_WHY_ONE_NODE : HYDRA_WHY_NEW,
				hydra_test_once(&a, moves ? FINDS_OWN : FINDS_ALONE));
	}
	/* One that sleeps now and then is wide. */
	a = (struct hydra_process){};
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, HYDRA_WHY_NEW, hydra_test_once(&a, FINDS_OWN));
		KUNIT_EXPECT_EQ(test, HYDRA_WHY_NEW, hydra_test_once(&a, FINDS_NONE));
		KUNIT_EXPECT_EQ(test, HYDRA_WHY_NEW, hydra_test_once(&a, FINDS_ALONE));
	}
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_test_once(&a, FINDS_OWN));
}

static void hydra_test_process_returns_alone(struct kunit *test)
{
	struct hydra_process a = {};

	hydra_test_until(&a, FINDS_OWN);
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_test_once(&a, FINDS_OWN));
	KUNIT_EXPECT_EQ(test, 10, hydra_test_until(&a, FINDS_ALONE));
	/* It has gained, so this was no try that lost. */
	KUNIT_EXPECT_EQ(test, 0, a.tries);
	KUNIT_EXPECT_EQ(test, HYDRA_TRY_LOOKS, a.wait);
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_ONE_NODE, hydra_test_once(&a, FINDS_ALONE));
}

static void hydra_test_process_left(struct kunit *test)
{
	const struct hydra_prices *p = &hydra_test_process_prices;
	struct hydra_process_look l;
	struct hydra_process a = {};
	unsigned int i;

	for (i = 0; i < 100; i++) {
		l = hydra_test_finds_now(FINDS_OWN, false);
		l.left = true;
		KUNIT_EXPECT_EQ(test, HYDRA_WHY_LEFT, hydra_process_looked(&a, p, &l));
	}
	hydra_test_until(&a, FINDS_OWN);
	l = hydra_test_finds_now(FINDS_OWN, true);
	l.left = true;
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_LEFT, hydra_process_looked(&a, p, &l));
}

/* Where all is shared, tries become rare: at first by the wait, then by the pace. */
static void hydra_test_process_tries(struct kunit *test)
{
	static const unsigned int waits[] = { 20, 40, 80, 160, 320, 640, 1280, 1280, 1280 };
	unsigned int i, splits = 0, last = 0;
	struct hydra_process a = {};

	for (i = 0; i < ARRAY_SIZE(waits); i++) {
		hydra_test_until(&a, FINDS_SHARED);
		KUNIT_EXPECT_TRUE(test, a.split);
		KUNIT_EXPECT_EQ(test, 1, hydra_test_until(&a, FINDS_SHARED));
		KUNIT_EXPECT_EQ(test, waits[i], a.wait);
	}
	a = (struct hydra_process){};
	for (i = 0; i < 3600; i++) {
		bool was = a.split;
		enum hydra_why why = hydra_test_once(&a, FINDS_SHARED);

		splits += a.split && !was;
		last = a.split ? i : last;
		if (!a.split && !was && a.wide == HYDRA_WIDE_LOOKS && a.wait)
			KUNIT_EXPECT_EQ(test, HYDRA_WHY_SHARED, why);
	}
	KUNIT_EXPECT_EQ(test, 8, splits);
	KUNIT_EXPECT_GE(test, last, 2700);
}

/* A split that has paid ends the row of tries that lost. The pace then limits them. */
static void hydra_test_process_pace(struct kunit *test)
{
	struct hydra_process a = {};
	unsigned int i;

	for (i = 0; i < 5; i++) {
		KUNIT_EXPECT_LE(test, hydra_test_until(&a, FINDS_OWN), 20);
		KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_test_once(&a, FINDS_OWN));
		KUNIT_EXPECT_EQ(test, 0, a.tries);
		hydra_test_until(&a, FINDS_SHARED);
		KUNIT_EXPECT_EQ(test, 1, a.tries);
	}
	for (i = 0; i < 20; i++)
		hydra_test_once(&a, FINDS_OWN);
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_WAITS, hydra_test_once(&a, FINDS_OWN));
	KUNIT_EXPECT_GE(test, hydra_test_until(&a, FINDS_OWN), 600);
}

/* What is lost after a gain: as much as a minute has gained, and no more. */
static void hydra_test_process_cap(struct kunit *test)
{
	/* 24 ms a look less 0.11; 3 x 500 us and 0.11 */
	const s64 gain = 23890000, loss = 1610000;
	struct hydra_process a = {};
	unsigned int i;

	hydra_test_until(&a, FINDS_OWN);
	for (i = 0; i < 10; i++)
		hydra_test_once(&a, FINDS_OWN);
	KUNIT_EXPECT_GE(test, a.balance, 9 * gain);
	KUNIT_EXPECT_LE(test, a.balance, 10 * gain);
	for (i = 0; i < 3000; i++)
		hydra_test_once(&a, FINDS_OWN);
	KUNIT_EXPECT_GE(test, a.balance, 63 * gain);
	KUNIT_EXPECT_LE(test, a.balance, 64 * gain);
	i = hydra_test_until(&a, FINDS_SHARED);
	KUNIT_EXPECT_GE(test, i, 60);
	KUNIT_EXPECT_LE(test, i, 64 * gain / loss);
}

static void hydra_test_process_purse(struct kunit *test)
{
	const struct hydra_prices *p = &hydra_test_process_prices;
	struct hydra_process_look l = hydra_test_finds_now(FINDS_OWN, false);
	struct hydra_process a = {};
	unsigned int i;

	l.spent = 1000;
	for (i = 1; i <= 2; i++) {
		hydra_process_looked(&a, p, &l);
		KUNIT_EXPECT_EQ(test, i * (80000000 - 1000), a.purse);
	}
	KUNIT_EXPECT_FALSE(test, hydra_process_pays(&a, 160000000));
	KUNIT_EXPECT_TRUE(test, hydra_process_pays(&a, 100000000));
	KUNIT_EXPECT_EQ(test, 59998000, a.purse);
	for (i = 0; i < 1000; i++)
		hydra_process_looked(&a, p, &l);
	KUNIT_EXPECT_EQ(test, 60 * 80000000LL, a.purse);

	/* 1.5 TiB on eight CPUs: S and U are 9.8 s, two minutes' worth. */
	a = (struct hydra_process){};
	l.tables = 786432;
	l.flushes = 200000;
	for (i = 1; hydra_process_looked(&a, p, &l) != HYDRA_WHY_SAVES && i < 1000; i++)
		;
	KUNIT_EXPECT_EQ(test, 122, i);
	hydra_process_split(&a, p, &l);
	/* The fills take what it has earned, but for U. Then half a second of looks is too much. */
	l.fills = 4 * l.tables;
	l.flushes = 0;
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_process_looked(&a, p, &l));
	l.fills = 0;
	l.spent = 500000000;
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_PURSE, hydra_process_looked(&a, p, &l));
	hydra_process_returned(&a, hydra_return_price(p, &l));
	KUNIT_EXPECT_EQ(test, 1, a.tries);
	KUNIT_EXPECT_LE(test, a.purse, 0);
	KUNIT_EXPECT_FALSE(test, hydra_process_pays(&a, 1));
}

static void hydra_test_process_samples(struct kunit *test)
{
	struct hydra_process a = { .pages = 7 };
	unsigned int i;

	KUNIT_EXPECT_FALSE(test, hydra_process_samples(&a, 100000));
	KUNIT_EXPECT_EQ(test, 0, a.pages);
	a.wide = HYDRA_WIDE_LOOKS;
	for (i = 0; i < 30; i++)
		KUNIT_EXPECT_EQ(test, i % HYDRA_SAMPLE_LOOKS == 0,
				hydra_process_samples(&a, HYDRA_SAMPLE_TABLES));
	KUNIT_EXPECT_FALSE(test, hydra_process_samples(&a, HYDRA_SAMPLE_TABLES - 1));
	a.split = true;
	for (i = 0; i < 30; i++)
		KUNIT_EXPECT_TRUE(test, hydra_process_samples(&a, HYDRA_SAMPLE_TABLES));
}

/* The last sample of a plain process counts until the next one. */
static void hydra_test_process_walks(struct kunit *test)
{
	const struct hydra_prices *p = &hydra_test_process_prices;
	struct hydra_process_look l = hydra_test_finds_now(FINDS_LITTLE, false);
	struct hydra_process a = {};
	unsigned int i;

	l.flushes = 0;
	l.tables = 1024;
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, i < 2 ? HYDRA_WHY_NEW : HYDRA_WHY_QUIET,
				hydra_process_looked(&a, p, &l));
	/* 512 Ki pages: 29.5 ms; S is 12.3 ms. */
	l.sampled = true;
	l.pages = 524288;
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_process_looked(&a, p, &l));
	l.sampled = false;
	l.pages = 0;
	KUNIT_EXPECT_EQ(test, HYDRA_WHY_SAVES, hydra_process_looked(&a, p, &l));
	KUNIT_EXPECT_EQ(test, 2 * 29491200, a.rent);
}

static struct kunit_case hydra_process_rules_cases[] = {
	KUNIT_CASE(hydra_test_process_price),
	KUNIT_CASE(hydra_test_process_rent),
	KUNIT_CASE(hydra_test_process_net),
	KUNIT_CASE(hydra_test_process_splits),
	KUNIT_CASE(hydra_test_process_moves),
	KUNIT_CASE(hydra_test_process_returns_alone),
	KUNIT_CASE(hydra_test_process_left),
	KUNIT_CASE(hydra_test_process_tries),
	KUNIT_CASE(hydra_test_process_pace),
	KUNIT_CASE(hydra_test_process_cap),
	KUNIT_CASE(hydra_test_process_purse),
	KUNIT_CASE(hydra_test_process_samples),
	KUNIT_CASE(hydra_test_process_walks),
	{}
};

static struct kunit_suite hydra_process_rules_suite = {
	.name = "hydra-process-rules",
	.test_cases = hydra_process_rules_cases,
};

kunit_test_suite(hydra_process_rules_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
