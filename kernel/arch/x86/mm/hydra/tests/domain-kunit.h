/* SPDX-License-Identifier: GPL-2.0-only */
/* Domains of the machine, and sets of domains. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#include "../pool.h"
#include "../state.h"

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

/* Every CPU has a domain of each scope, every domain a home with memory. */
static void hydra_test_domains(struct kunit *test)
{
	unsigned int scope, cpu, d;

	KUNIT_EXPECT_EQ(test, 0, hydra_domains[HYDRA_SCOPE_MACHINE].nr);
	KUNIT_ASSERT_LE(test, hydra_nr_domains, HYDRA_MAX_DOMAINS);
	for (scope = HYDRA_SCOPE_NODE; scope < HYDRA_NR_SCOPES; scope++) {
		const struct hydra_domains *domains = &hydra_domains[scope];
		unsigned int cpus = 0;

		KUNIT_ASSERT_GE(test, domains->nr, 1);
		KUNIT_ASSERT_LE(test, domains->nr, hydra_nr_domains);
		for_each_possible_cpu(cpu) {
			d = hydra_domain_of_cpu(scope, cpu);
			KUNIT_ASSERT_LT(test, d, domains->nr);
			KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(cpu, domains->cpus[d]));
			/* Groups may span nodes. */
			if (!hydra_mask_test(d, &domains->overflow) && !hydra_has_pools(domains))
				KUNIT_EXPECT_EQ(test, cpu_to_node(cpu), domains->nid[d]);
		}
		for (d = 0; d < domains->nr; d++) {
			cpus += cpumask_weight(domains->cpus[d]);
			KUNIT_EXPECT_TRUE(test, hydra_mask_test(d, &domains->all));
			KUNIT_EXPECT_TRUE(test, node_state(domains->home[d], N_MEMORY));
			if (!cpumask_empty(domains->cpus[d]))
				KUNIT_EXPECT_EQ(test, domains->span[d].first,
						BIT_WORD(cpumask_first(domains->cpus[d])));
		}
		KUNIT_EXPECT_EQ(test, num_possible_cpus(), cpus);
		KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&domains->overflow, &domains->all));
		/* Numbers of another scope name no CPU. */
		for (; d < HYDRA_MAX_DOMAINS; d++) {
			KUNIT_EXPECT_TRUE(test, cpumask_empty(domains->cpus[d]));
			KUNIT_EXPECT_GT(test, domains->span[d].first, domains->span[d].last);
		}
	}
}

/* The values of mm->hydra_last, by scope. */
static void hydra_test_last(struct kunit *test)
{
	unsigned int scope, cpu;

	for_each_possible_cpu(cpu)
		KUNIT_EXPECT_EQ(test, per_cpu(hydra_cpu_last, cpu),
				hydra_last(HYDRA_SCOPE_NODE,
					   hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu)));
	for (scope = HYDRA_SCOPE_MACHINE; scope < HYDRA_NR_SCOPES; scope++) {
		u32 last = hydra_last(scope, HYDRA_MAX_DOMAINS - 1);

		KUNIT_EXPECT_NE(test, last, HYDRA_LAST_SPLIT);
		KUNIT_EXPECT_EQ(test, scope, last >> HYDRA_LAST_SHIFT);
		KUNIT_EXPECT_NE(test, last, HYDRA_LAST_UNKNOWN(scope));
	}
	KUNIT_EXPECT_EQ(test, 0, HYDRA_LAST_UNKNOWN(HYDRA_SCOPE_MACHINE));
}

static struct kunit_case hydra_domain_cases[] = {
	KUNIT_CASE(hydra_test_mask),
	KUNIT_CASE(hydra_test_domains),
	KUNIT_CASE(hydra_test_last),
	{}
};

static struct kunit_suite hydra_domain_suite = {
	.name = "hydra-domain",
	.test_cases = hydra_domain_cases,
};

kunit_test_suite(hydra_domain_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
