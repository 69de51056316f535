/* SPDX-License-Identifier: GPL-2.0-only */
/* Settings that VMs alone have. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>
#include <linux/cgroup.h>
#include <linux/memcontrol.h>

/* What is for the VMs of a process leaves the policy its name, and a policy takes it back. */
static void hydra_test_for_vms(struct kunit *test)
{
	static const struct hydra_settings both = { 0, 0, 9, 0, HYDRA_TABLES_FOLLOW, 1 };
	union hydra_choice s = HYDRA_HYDRA_SETTINGS, want = HYDRA_HYDRA_SETTINGS;
	char text[HYDRA_TEXT_MAX];

	KUNIT_EXPECT_EQ(test, hydra_settings_parse("expose=on", &s), 0);
	want.expose = 1;
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	hydra_settings_format(text, sizeof(text), s);
	KUNIT_EXPECT_STREQ(test, text, "hydra,expose=on");
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra", &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, HYDRA_HYDRA_SETTINGS.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("linux,tables=follow,expose=on", &s), 0);
	want = HYDRA_LINUX_SETTINGS;
	want.tables = HYDRA_TABLES_FOLLOW;
	want.expose = 1;
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_take(&both, &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	KUNIT_EXPECT_TRUE(test, hydra_says_more(s));
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("domains=node", &s), -EINVAL);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("domains=node,tables=stay", &s), 0);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("linux", &s), 0);
	KUNIT_EXPECT_FALSE(test, hydra_says_more(s));
}

/* A limit may stand anywhere, and is no setting of a process. */
static void hydra_test_vm_limit(struct kunit *test)
{
	static const char * const bad[] = {
		"limit_kib", "limit_kib=", "limit_kib=-4", "limit_kib=4k", "limit_kib=max,",
		"again,limit_kib=4", "limit_kib=max,hydra,x", "limits_kib=4",
	};
	static const char some[] = "prefetch=3,limit_kib=4096,filter=none";
	struct hydra_vm_settings s = { .choice = HYDRA_HYDRA_SETTINGS, .limit = ULONG_MAX };
	const unsigned long tables = 4096 / (PAGE_SIZE / 1024);
	int i;

	KUNIT_EXPECT_EQ(test, hydra_vm_settings_parse(some, &s), 0);
	KUNIT_EXPECT_EQ(test, s.limit, tables);
	KUNIT_EXPECT_EQ(test, s.choice.prefetch, 3);
	KUNIT_EXPECT_EQ(test, s.choice.filter, HYDRA_FILTER_NONE);
	KUNIT_EXPECT_TRUE(test, s.per_node);
	KUNIT_EXPECT_EQ(test, hydra_vm_settings_parse("limit_kib=max", &s), 0);
	KUNIT_EXPECT_EQ(test, s.limit, ULONG_MAX);
	KUNIT_EXPECT_EQ(test, hydra_vm_settings_parse("limit_kib=4096,linux", &s), 0);
	KUNIT_EXPECT_FALSE(test, s.per_node);
	KUNIT_EXPECT_EQ(test, hydra_vm_settings_parse("hydra", &s), 0);
	KUNIT_EXPECT_EQ(test, s.limit, tables);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, hydra_vm_settings_parse(bad[i], &s), -EINVAL,
				    "\"%s\"", bad[i]);
}

/* A memory controller that is switched off while another one needs it forgets what Linux does. */
static void hydra_test_reset_cgroup(struct kunit *test)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = kunit_kzalloc(test, sizeof(*memcg), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, memcg);
	memcg->hydra_settings = 1;
#ifdef CONFIG_KVM_HYDRA
	memcg->hydra_vm_tables = 1;
#endif
	memory_cgrp_subsys.css_reset(&memcg->css);
	KUNIT_EXPECT_EQ(test, memcg->memory.max, PAGE_COUNTER_MAX);
	KUNIT_EXPECT_EQ(test, memcg->hydra_settings, 0);
#ifdef CONFIG_KVM_HYDRA
	KUNIT_EXPECT_EQ(test, memcg->hydra_vm_tables, 0);
#endif
#else
	kunit_skip(test, "no memory cgroups");
#endif
}

static struct kunit_case hydra_vm_cases[] = {
	KUNIT_CASE(hydra_test_for_vms),
	KUNIT_CASE(hydra_test_vm_limit),
	KUNIT_CASE(hydra_test_reset_cgroup),
	{}
};

static struct kunit_suite hydra_vm_suite = {
	.name = "hydra-vm",
	.test_cases = hydra_vm_cases,
};

kunit_test_suite(hydra_vm_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
