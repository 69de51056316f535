/* SPDX-License-Identifier: GPL-2.0-only */
/* Domains of this machine, and sets of domains. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

static void hydra_test_mask(struct kunit *test)
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

/* Every CPU has a domain, every domain a home with memory. */
static void hydra_test_domains(struct kunit *test)
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

static struct kunit_case hydra_domain_cases[] = {
	KUNIT_CASE(hydra_test_mask),
	KUNIT_CASE(hydra_test_domains),
	{}
};

static struct kunit_suite hydra_domain_suite = {
	.name = "hydra-domain",
	.test_cases = hydra_domain_cases,
};

kunit_test_suite(hydra_domain_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
