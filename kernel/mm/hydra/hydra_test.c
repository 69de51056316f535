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

/* The target mask of a flush: one domain of 1024 CPUs costs a look at its words. */
static void test_pick_cpus(struct kunit *test)
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
	/* Of them only those that run the address space. */
	bitmap_zero(picked, nr);
	bitmap_zero(running, nr);
	bitmap_set(running, 0, first + 1);
	hydra_pick_cpus(picked, running, cpus, BIT_WORD(first), BIT_WORD(last));
	KUNIT_EXPECT_EQ(test, 1, bitmap_weight(picked, nr));
	KUNIT_EXPECT_TRUE(test, test_bit(first, picked));
}

static void test_mask(struct kunit *test)
{
	const unsigned int last = HYDRA_MAX_DOMAINS - 1;
	hydra_mask_t a, b;
	unsigned int d, nr = 0;

	hydra_mask_zero(&a);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&a));
	hydra_mask_set(last, &a);
	KUNIT_EXPECT_FALSE(test, hydra_mask_empty(&a));
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(last, &a));
	KUNIT_EXPECT_FALSE(test, hydra_mask_other(last, &a));
	KUNIT_EXPECT_TRUE(test, hydra_mask_other(0, &a));
	hydra_mask_zero(&b);
	hydra_mask_set_atomic(0, &b);
	hydra_mask_add(&a, &b);
	for_each_hydra_domain(d, &a)
		nr++;
	KUNIT_EXPECT_EQ(test, 2, nr);
	hydra_mask_remove(&a, &b);
	KUNIT_EXPECT_FALSE(test, hydra_mask_test(0, &a));
	hydra_mask_clear(last, &a);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&a));
}

/* The word of a table, found from the address of an entry by two ways. */
static void test_word(struct kunit *test)
{
	unsigned long *entry = (unsigned long *)__get_free_page(GFP_KERNEL);
	struct ptdesc *ptdesc = virt_to_ptdesc(entry);

	KUNIT_ASSERT_NOT_NULL(test, entry);
	KUNIT_EXPECT_FALSE(test, hydra_word_shared(entry + 511));
	ptdesc->__page_mapping = hydra_solo(HYDRA_MAX_DOMAINS - 1);
	KUNIT_EXPECT_FALSE(test, hydra_word_shared(entry + 511));
	KUNIT_EXPECT_TRUE(test, hydra_word_solo(hydra_word_of(entry + 511)));
	KUNIT_EXPECT_EQ(test, HYDRA_MAX_DOMAINS - 1,
			hydra_word_domain(hydra_word_of(entry + 511)));
	KUNIT_EXPECT_NULL(test, hydra_table_of(entry));
	ptdesc->__page_mapping = (unsigned long)entry;
	KUNIT_EXPECT_TRUE(test, hydra_word_shared(entry + 511));
	KUNIT_EXPECT_FALSE(test, hydra_word_solo(hydra_word_of(entry)));
	KUNIT_EXPECT_PTR_EQ(test, (void *)entry, (void *)hydra_table_of(entry + 511));
	ptdesc->__page_mapping = 0;
	free_page((unsigned long)entry);
}

/* Every CPU has a domain, every domain a home with memory. */
static void test_domains(struct kunit *test)
{
	unsigned int cpu, d;

	KUNIT_ASSERT_GE(test, hydra_nr_domains, 1);
	KUNIT_ASSERT_LE(test, hydra_nr_domains, HYDRA_MAX_DOMAINS);
	for_each_possible_cpu(cpu) {
		d = hydra_domain_of_cpu(cpu);
		KUNIT_ASSERT_LT(test, d, hydra_nr_domains);
		KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(cpu, hydra_domain_cpus[d]));
	}
	for (d = 0; d < hydra_nr_domains; d++) {
		KUNIT_EXPECT_TRUE(test, node_state(hydra_domain_home[d], N_MEMORY));
		KUNIT_EXPECT_EQ(test, hydra_domain_span[d].first,
				BIT_WORD(cpumask_first(hydra_domain_cpus[d])));
	}
}

static struct kunit_case hydra_cases[] = {
	KUNIT_CASE(test_parse),
	KUNIT_CASE(test_parse_refuses),
	KUNIT_CASE(test_format),
	KUNIT_CASE(test_window),
	KUNIT_CASE(test_derive),
	KUNIT_CASE(test_pick_cpus),
	KUNIT_CASE(test_mask),
	KUNIT_CASE(test_word),
	KUNIT_CASE(test_domains),
	{}
};

static struct kunit_suite hydra_suite = {
	.name = "hydra",
	.test_cases = hydra_cases,
};

kunit_test_suite(hydra_suite);
