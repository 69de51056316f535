// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the parts of Hydra that need no running process.
 */

#include <kunit/test.h>
#include <linux/sizes.h>

#include "internal.h"

static void test_parse(struct kunit *test)
{
	u32 s = HYDRA_LINUX_SETTINGS;

	KUNIT_EXPECT_EQ(test, hydra_parse("hydra\n", &s), 0);
	KUNIT_EXPECT_EQ(test, s, HYDRA_HYDRA_SETTINGS);
	KUNIT_EXPECT_EQ(test, hydra_parse("hydra,prefetch=4,filter=none", &s), 0);
	KUNIT_EXPECT_EQ(test, s, hydra_pack(HYDRA_DOMAINS_NODE,
					    HYDRA_REPLICATE_LAZY, 4,
					    HYDRA_FILTER_NONE));
	/* Keys alone change what they name. */
	KUNIT_EXPECT_EQ(test, hydra_parse("filter=table", &s), 0);
	KUNIT_EXPECT_EQ(test, s, hydra_pack(HYDRA_DOMAINS_NODE,
					    HYDRA_REPLICATE_LAZY, 4,
					    HYDRA_FILTER_TABLE));
	KUNIT_EXPECT_EQ(test, hydra_parse("linux", &s), 0);
	KUNIT_EXPECT_EQ(test, s, HYDRA_LINUX_SETTINGS);
}

static void test_parse_refuses(struct kunit *test)
{
	static const char * const bad[] = {
		"", "hydr", "hydra,", "hydra,linux", "prefetch=10", "prefetch=-1",
		"prefetch=", "prefetch", "filter=tables", "domains=", "x=y",
		"hydra filter=none", "prefetch=0x4294967297",
	};
	static const char * const unbuilt[] = {
		"domains=core", "domains=llc", "replication=eager",
		"filter=entry", "hydra,filter=accessed",
	};
	char text[HYDRA_TEXT_MAX + 16];
	u32 s = HYDRA_HYDRA_SETTINGS;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, hydra_parse(bad[i], &s), -EINVAL,
				    "\"%s\"", bad[i]);
	for (i = 0; i < ARRAY_SIZE(unbuilt); i++)
		KUNIT_EXPECT_EQ_MSG(test, hydra_parse(unbuilt[i], &s),
				    -EOPNOTSUPP, "\"%s\"", unbuilt[i]);
	memset(text, ' ', sizeof(text));
	strscpy(text + sizeof(text) - 8, "hydra", 8);
	KUNIT_EXPECT_EQ(test, hydra_parse(text, &s), -EINVAL);
	/* Nothing has changed. */
	KUNIT_EXPECT_EQ(test, s, HYDRA_HYDRA_SETTINGS);
}

static void test_format(struct kunit *test)
{
	u32 s, back, filter, prefetch;
	char text[HYDRA_TEXT_MAX];

	for (filter = HYDRA_FILTER_NONE; filter <= HYDRA_FILTER_TABLE; filter++) {
		for (prefetch = 0; prefetch <= HYDRA_PREFETCH_MAX; prefetch++) {
			s = hydra_pack(HYDRA_DOMAINS_NODE,
				       HYDRA_REPLICATE_LAZY, prefetch, filter);
			back = HYDRA_LINUX_SETTINGS;
			hydra_format(text, sizeof(text), s);
			KUNIT_EXPECT_EQ_MSG(test, hydra_parse(text, &back), 0,
					    "\"%s\"", text);
			KUNIT_EXPECT_EQ(test, s, back);
		}
	}
}

/* Prefetch windows: aligned, inside the table, inside the VMA (paper, 3.4). */
static void test_window(struct kunit *test)
{
	unsigned long base = 0x7f0000000000UL, end = base + PMD_SIZE;
	unsigned int first, last, degree;

	for (degree = 0; degree <= HYDRA_PREFETCH_MAX; degree++) {
		unsigned int nr = 1 << degree;

		hydra_window(base + 300 * PAGE_SIZE, degree, 0, TASK_SIZE_MAX,
			     &first, &last);
		KUNIT_EXPECT_EQ(test, first, 300 / nr * nr);
		KUNIT_EXPECT_EQ(test, last, first + nr);
	}
	/* Cut at the VMA, on both sides. */
	hydra_window(base + 10 * PAGE_SIZE, 9, base + 7 * PAGE_SIZE,
		     base + 12 * PAGE_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 7);
	KUNIT_EXPECT_EQ(test, last, 12);
	/* A VMA that goes beyond the table. */
	hydra_window(base + 510 * PAGE_SIZE, 9, base - PMD_SIZE,
		     end + PMD_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 512);
	/* The last page of all. */
	hydra_window(end - 1, 0, base, end, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 511);
	KUNIT_EXPECT_EQ(test, last, 512);
}

/* Invariant 4 on the one function that makes replica entries. */
static void test_derive(struct kunit *test)
{
	const pteval_t page = 0x12345000 | _PAGE_PRESENT | _PAGE_USER;

	KUNIT_EXPECT_EQ(test, hydra_derive(page | _PAGE_RW), page);
	KUNIT_EXPECT_EQ(test, hydra_derive(page | _PAGE_RW | _PAGE_ACCESSED), page);
	KUNIT_EXPECT_EQ(test, hydra_derive(page | _PAGE_RW | _PAGE_DIRTY),
			page | _PAGE_RW | _PAGE_DIRTY);
	/* A shadow stack entry stays one. */
	KUNIT_EXPECT_EQ(test, hydra_derive(page | _PAGE_DIRTY), page | _PAGE_DIRTY);
	KUNIT_EXPECT_EQ(test, hydra_derive(page | _PAGE_NX | _PAGE_ACCESSED),
			page | _PAGE_NX);
}

static void test_arena(struct kunit *test)
{
	unsigned long low = SZ_4G, high = 0x7ffff7fff000UL;
	unsigned long a_low, a_high, b_low, b_high;
	unsigned int d, nr;
	int topdown;

	for (topdown = 0; topdown < 2; topdown++) {
		for (nr = 2; nr <= 2 * HYDRA_MAX_DOMAINS; nr++) {
			for (d = 0; d < nr; d++) {
				KUNIT_ASSERT_TRUE(test, hydra_arena(d, nr, low, high,
								    topdown, &a_low, &a_high));
				KUNIT_EXPECT_GE(test, a_low, low);
				KUNIT_EXPECT_LE(test, a_high, high);
				KUNIT_EXPECT_LT(test, a_low, a_high);
				if (d + 1 == nr)
					continue;
				hydra_arena(d + 1, nr, low, high, topdown,
					    &b_low, &b_high);
				/* No leaf table in two arenas. */
				if (topdown)
					KUNIT_EXPECT_GT(test, a_low >> PMD_SHIFT,
							(b_high - 1) >> PMD_SHIFT);
				else
					KUNIT_EXPECT_LT(test, (a_high - 1) >> PMD_SHIFT,
							b_low >> PMD_SHIFT);
			}
		}
	}
	/* Too small to divide, or nothing to divide among. */
	KUNIT_EXPECT_FALSE(test, hydra_arena(0, 8, low, low + 16 * PMD_SIZE,
					     true, &a_low, &a_high));
	KUNIT_EXPECT_FALSE(test, hydra_arena(0, 1, low, high, true, &a_low,
					     &a_high));
	KUNIT_EXPECT_FALSE(test, hydra_arena(0, 4, high, low, true, &a_low,
					     &a_high));
}

/* Every CPU has a domain, every domain a home with memory. */
static void test_domains(struct kunit *test)
{
	unsigned int cpu, d;

	KUNIT_ASSERT_GE(test, hydra_nr_domains, 1);
	KUNIT_ASSERT_LE(test, hydra_nr_domains, HYDRA_MAX_DOMAINS);
	for_each_possible_cpu(cpu) {
		d = per_cpu(hydra_cpu_domain, cpu);
		KUNIT_ASSERT_LT(test, d, hydra_nr_domains);
		KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(cpu, hydra_domain_cpus[d]));
	}
	for (d = 0; d < hydra_nr_domains; d++) {
		KUNIT_EXPECT_TRUE(test, node_state(hydra_domain_home[d], N_MEMORY));
		KUNIT_EXPECT_TRUE(test, hydra_all_domains() & BIT_ULL(d));
	}
}

static struct kunit_case hydra_cases[] = {
	KUNIT_CASE(test_parse),
	KUNIT_CASE(test_parse_refuses),
	KUNIT_CASE(test_format),
	KUNIT_CASE(test_window),
	KUNIT_CASE(test_derive),
	KUNIT_CASE(test_arena),
	KUNIT_CASE(test_domains),
	{}
};

static struct kunit_suite hydra_suite = {
	.name = "hydra",
	.test_cases = hydra_cases,
};

kunit_test_suite(hydra_suite);
