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

/* Four groups of two CPUs, of a host with four domains, which moves CPUs, and then is another. */
static void hydra_test_map(struct kunit *test)
{
	enum { NONE = KVM_HYDRA_NO_DOMAIN };
	static const struct {
		const char *what;
		u8 where[8];
		u8 host[4];
		u16 group[8];
		int ret;
	} steps[] = {
		{ "as at boot", { 0, 0, 1, 1, 2, 2, 3, 3 },
		  { 0, 1, 2, 3 }, { 0, 0, 1, 1, 2, 2, 3, 3 }, 0 },
		{ "domains keep their groups", { 3, 3, 0, 0, 0, 0, NONE, 1 },
		  { 0, 1, 2, 3 }, { 3, 3, 0, 0, 0, 0, 3, 1 }, 0 },
		{ "back", { 0, 0, 1, 1, 2, 2, 3, 3 },
		  { 0, 1, 2, 3 }, { 0, 0, 1, 1, 2, 2, 3, 3 }, 0 },
		{ "other numbers: groups keep their CPUs", { 7, 7, 254, 254, 5, 5, 6, 6 },
		  { 7, 254, 5, 6 }, { 0, 0, 1, 1, 2, 2, 3, 3 }, 0 },
		{ "one domain is the same", { 1, 1, 7, 7, 0, 0, 1, 1 },
		  { 7, 254, 0, 1 }, { 3, 3, 0, 0, 2, 2, 3, 3 }, 0 },
		{ "more domains than groups", { 1, 2, 3, 4, 5, 5, 5, 5 },
		  { 7, 254, 0, 1 }, { 3, 3, 0, 0, 2, 2, 3, 3 }, -ERANGE },
		{ "none is known", { NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE },
		  { 7, 254, 0, 1 }, { 3, 3, 0, 0, 2, 2, 3, 3 }, 0 },
	};
	u8 *where = kunit_kcalloc(test, nr_cpu_ids, sizeof(*where), GFP_KERNEL);
	u16 *group = kunit_kcalloc(test, nr_cpu_ids, sizeof(*group), GFP_KERNEL);
	u8 host[4] = { 0, 1, 2, 3 };
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, where);
	KUNIT_ASSERT_NOT_NULL(test, group);
	if (nr_cpu_ids != 8 || num_possible_cpus() != 8)
		kunit_skip(test, "needs eight CPUs");
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		memcpy(where, steps[i].where, 8);
		KUNIT_EXPECT_EQ_MSG(test, hydra_map_groups(4, where, host, group), steps[i].ret,
				    "%s", steps[i].what);
		KUNIT_EXPECT_MEMEQ_MSG(test, host, steps[i].host, sizeof(host), "%s",
				       steps[i].what);
		KUNIT_EXPECT_MEMEQ_MSG(test, group, steps[i].group, sizeof(steps[i].group), "%s",
				       steps[i].what);
	}
}

static struct kunit_case hydra_groups_cases[] = {
	KUNIT_CASE(hydra_test_parse),
	KUNIT_CASE(hydra_test_map),
	{}
};

static struct kunit_suite hydra_groups_suite = {
	.name = "hydra-groups",
	.test_cases = hydra_groups_cases,
};

kunit_test_suite(hydra_groups_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
