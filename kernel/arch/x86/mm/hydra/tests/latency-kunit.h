/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups by latency. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#define MOST_CPUS	64

/* A machine of @groups, whose CPUs take turns; @near and @far: nanoseconds */
static u32 *hydra_test_machine(struct kunit *test, unsigned int nr, unsigned int groups,
			       u32 near, u32 far)
{
	u32 *latency = kunit_kcalloc(test, nr * nr, sizeof(*latency), GFP_KERNEL);
	unsigned int a, b;

	KUNIT_ASSERT_NOT_NULL(test, latency);
	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			latency[a * nr + b] = a % groups == b % groups ? near : far;
	return latency;
}

/* CPUs that take turns are found again: so many groups. */
static void hydra_expect_groups(struct kunit *test, const u32 *latency, unsigned int nr,
				unsigned int groups)
{
	u16 group[MOST_CPUS];
	unsigned int cpu;

	KUNIT_EXPECT_EQ(test, hydra_find_groups(latency, nr, group), groups);
	for (cpu = 0; cpu < nr; cpu++)
		KUNIT_EXPECT_EQ_MSG(test, group[cpu], cpu % groups, "CPU %u of %u", cpu, nr);
}

static void hydra_test_groups(struct kunit *test)
{
	static const struct {
		unsigned int nr, groups;
		u32 near, far;
		unsigned int found;
	} cases[] = {
		{ 1, 1, 50, 125, 1 },
		{ 2, 2, 50, 125, 1 },	/* nothing to compare with */
		{ 4, 2, 50, 125, 2 },
		{ MOST_CPUS, 8, 50, 125, 8 },
		{ MOST_CPUS, 4, 50, 75, 4 },
		{ MOST_CPUS, 4, 50, 74, 1 },
		{ 12, 4, 60, 60, 1 },
		{ 12, 4, 0, 0, 1 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u32 *latency = hydra_test_machine(test, cases[i].nr, cases[i].groups,
						  cases[i].near, cases[i].far);

		hydra_expect_groups(test, latency, cases[i].nr, cases[i].found);
	}
}

/*
 * The values of table 4 of vMitosis (ASPLOS '21) for pairs of its first twelve CPUs; the pairs
 * that it leaves out are near if they are of one group of the paper, and far otherwise.
 */
static void hydra_test_paper(struct kunit *test)
{
	static const u8 rows[][12] = {
		{ 0, 125, 125, 126, 50, 125, 126, 126, 55, 125, 125, 126 },
		{ 0, 0, 125, 126, 126, 50, 125, 125, 125, 52, 126, 125 },
		{ 0, 0, 0, 126, 125, 126, 62, 126, 125, 125, 55, 125 },
		{ 0, 0, 0, 0, 125, 125, 126, 50, 125, 126, 125, 55 },
		{ 0, 0, 0, 0, 0, 125, 125, 126, 62, 126, 125, 125 },
		{ 0, 0, 0, 0, 0, 0, 125, 126, 125, 55, 125, 126 },
		{ 0, 0, 0, 0, 0, 0, 0, 126, 126, 126, 50, 125 },
		{ 0, 0, 0, 0, 0, 0, 0, 0, 125, 126, 125, 52 },
	};
	u32 *latency = hydra_test_machine(test, 12, 4, 55, 125);
	unsigned int a, b;

	for (a = 0; a < ARRAY_SIZE(rows); a++)
		for (b = a + 1; b < 12; b++)
			latency[a * 12 + b] = rows[a][b];
	for (b = 0; b < 12; b++)
		for (a = b + 1; a < 12; a++)
			latency[a * 12 + b] = latency[b * 12 + a];
	hydra_expect_groups(test, latency, 12, 4);
}

/* Cores inside nodes; and a ring of four nodes, two of which are farther apart */
static void hydra_test_steps(struct kunit *test)
{
	u32 *latency = hydra_test_machine(test, 16, 4, 50, 125);
	unsigned int a, b;

	for (a = 0; a < 16; a++)
		latency[a * 16 + (a ^ 8)] = 20;
	hydra_expect_groups(test, latency, 16, 4);
	for (a = 0; a < 16; a++)
		for (b = 0; b < 16; b++)
			if ((a ^ b) % 4 == 2)
				latency[a * 16 + b] = 200;
	hydra_expect_groups(test, latency, 16, 4);
}

/* Values that contradict each other: one group */
static void hydra_test_doubts(struct kunit *test)
{
	u32 *latency = hydra_test_machine(test, 12, 4, 50, 125);
	u16 group[12];
	unsigned int a, b;

	/* Noise that is less than the step */
	for (a = 0; a < 12; a++)
		for (b = 0; b < 12; b++)
			latency[a * 12 + b] += (7 * a + 3 * b) % 20;
	KUNIT_EXPECT_EQ(test, hydra_find_groups(latency, 12, group), 4);
	/* A pair that was slow once, or fast once, or fast in one direction */
	latency[0 * 12 + 4] = 5000;
	KUNIT_EXPECT_EQ(test, hydra_find_groups(latency, 12, group), 1);
	latency[0 * 12 + 4] = 130;
	KUNIT_EXPECT_EQ(test, hydra_find_groups(latency, 12, group), 1);
	latency[0 * 12 + 4] = 50;
	latency[0 * 12 + 1] = 60;
	KUNIT_EXPECT_EQ(test, hydra_find_groups(latency, 12, group), 1);
	KUNIT_EXPECT_EQ(test, group[11], 0);
}

static struct kunit_case hydra_latency_cases[] = {
	KUNIT_CASE(hydra_test_groups),
	KUNIT_CASE(hydra_test_paper),
	KUNIT_CASE(hydra_test_steps),
	KUNIT_CASE(hydra_test_doubts),
	{}
};

static struct kunit_suite hydra_latency_suite = {
	.name = "hydra-latency",
	.test_cases = hydra_latency_cases,
};

kunit_test_suite(hydra_latency_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
