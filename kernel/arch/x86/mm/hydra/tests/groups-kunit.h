/* SPDX-License-Identifier: GPL-2.0-only */
/* Lists of groups. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

static void hydra_test_parse(struct kunit *test)
{
	/* Around a list of all CPUs, or alone */
	static const struct {
		const char *before;
		bool all;
		const char *after;
	} wrong[] = {
		{ "", false, "" }, { "0", false, "" }, { "x", false, "" }, { "0-9999", false, "" },
		{ "", true, "/0" }, { "", true, "//" }, { "/", true, "/x" },
	};
	unsigned int i, last = num_possible_cpus() - 1;
	u16 *group = kunit_kcalloc(test, nr_cpu_ids, sizeof(*group), GFP_KERNEL);
	char all[64], text[96];

	KUNIT_ASSERT_NOT_NULL(test, group);
	scnprintf(all, sizeof(all), "%*pbl", cpumask_pr_args(cpu_possible_mask));
	for (i = 0; i < ARRAY_SIZE(wrong) && last; i++) {
		scnprintf(text, sizeof(text), "%s%s%s", wrong[i].before, wrong[i].all ? all : "",
			  wrong[i].after);
		KUNIT_EXPECT_EQ_MSG(test, hydra_groups_parse(text, 2, group), -EINVAL, "text %u",
				    i);
	}
	strscpy(text, all);
	KUNIT_EXPECT_EQ(test, hydra_groups_parse(text, 2, group), 1);
	scnprintf(text, sizeof(text), "/%s", all);
	KUNIT_EXPECT_EQ(test, hydra_groups_parse(text, 2, group), 2);
	KUNIT_EXPECT_EQ(test, group[last], 1);
	if (last != 7)
		return;
	strscpy(text, "0,2,4,6/1,3,5,7");
	KUNIT_EXPECT_EQ(test, hydra_groups_parse(text, 2, group), 2);
	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ(test, group[i], i % 2);
}

static struct kunit_case hydra_groups_cases[] = {
	KUNIT_CASE(hydra_test_parse),
	{}
};

static struct kunit_suite hydra_groups_suite = {
	.name = "hydra-groups",
	.test_cases = hydra_groups_cases,
};

kunit_test_suite(hydra_groups_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
