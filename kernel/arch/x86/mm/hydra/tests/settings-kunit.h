/* SPDX-License-Identifier: GPL-2.0-only */
/* Which texts and numbers are settings, and which are refused. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

#include <asm/cpu_device_id.h>
#include <asm/processor.h>

static void hydra_test_parse(struct kunit *test)
{
	union hydra_choice s = HYDRA_LINUX_SETTINGS, want;
	const char *text;

	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra\n", &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, HYDRA_HYDRA_SETTINGS.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra,prefetch=4,filter=none", &s), 0);
	want = HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 4, HYDRA_FILTER_NONE);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	text = "linux,domains=node,replication=lazy,prefetch=2,filter=table";
	KUNIT_EXPECT_EQ(test, hydra_settings_parse(text, &s), 0);
	want = HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 2, HYDRA_FILTER_TABLE);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra,filter=none,prefetch=4\n", &s), 0);
	/* A key without a policy changes one setting. */
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("filter=table", &s), 0);
	want = HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 4, HYDRA_FILTER_TABLE);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("linux", &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, HYDRA_LINUX_SETTINGS.word);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("radixvm", &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, HYDRA_RADIXVM_SETTINGS.word);
	KUNIT_EXPECT_STREQ(test, hydra_policy_name(s), "radixvm");
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra,replication=eager,filter=none", &s), 0);
	KUNIT_EXPECT_STREQ(test, hydra_policy_name(s), "mitosis");
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("domains=machine", &s), 0);
	KUNIT_EXPECT_STREQ(test, hydra_policy_name(s), "linux");
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("radixvm", &s), 0);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("domains=llc", &s), 0);
	want = HYDRA_CHOICE(HYDRA_SCOPE_LLC, HYDRA_REPLICATE_LAZY, 0, HYDRA_FILTER_ENTRY);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	KUNIT_EXPECT_STREQ(test, hydra_policy_name(s), "custom");
	/* Runs on every machine: where accessed bits prove nothing, as "table" or "entry" */
	KUNIT_EXPECT_EQ(test, hydra_settings_parse("hydra,filter=auto", &s), 0);
	want = HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_AUTO);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
}

static void hydra_test_parse_refuses(struct kunit *test)
{
	static const char * const bad[] = {
		"", "\n", "hydr", "Hydra", "hydra,", ",hydra", "hydra,linux",
		"linux hydra", "hydra filter=none", "hydra,,filter=none",
		"prefetch", "prefetch=", "prefetch=10", "prefetch=-1",
		"prefetch=3x", "prefetch=0x4294967297", "prefetch=99,prefetch=3",
		"filter=tables", "filter=5", "auto,", "hydra,filter=none,prefetch=99", "domains=",
		"domains=socket", "replication=never", "x=y",
		"linux,replication=eager", "domains=machine,replication=eager",
		"auto,replication=eager", "hydra,tables=follow", "tables=follow", "tables=move",
		"expose=1", "expose=", "limit_kib=4",
	};
	char text[HYDRA_TEXT_MAX + 16];
	union hydra_choice s = HYDRA_HYDRA_SETTINGS;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, hydra_settings_parse(bad[i], &s), -EINVAL,
				    "\"%s\"", bad[i]);
	memset(text, ' ', sizeof(text));
	strscpy(text + sizeof(text) - 8, "hydra", 8);
	KUNIT_EXPECT_EQ(test, hydra_settings_parse(text, &s), -EINVAL);
	/* Nothing has changed. */
	KUNIT_EXPECT_EQ(test, s.word, HYDRA_HYDRA_SETTINGS.word);
}

static void hydra_test_format(struct kunit *test)
{
	u32 domains, filter, prefetch;
	union hydra_choice s, back;
	char text[HYDRA_TEXT_MAX];

	for (filter = HYDRA_FILTER_NONE; filter <= HYDRA_FILTER_AUTO; filter++) {
		if (filter == HYDRA_FILTER_ACCESSED && hydra_accessed_refused())
			continue;
		for (prefetch = 0; prefetch <= HYDRA_PREFETCH_MAX; prefetch++) {
			domains = HYDRA_SCOPE_NODE + prefetch % 3;
			s = HYDRA_CHOICE(domains, prefetch % 2, prefetch, filter);
			back = HYDRA_LINUX_SETTINGS;
			hydra_settings_format(text, sizeof(text), s);
			KUNIT_EXPECT_EQ_MSG(test, hydra_settings_parse(text, &back), 0,
					    "\"%s\"", text);
			KUNIT_EXPECT_EQ(test, s.word, back.word);
		}
	}
}

/* The bits of a key are those of the member with its name. */
static void hydra_test_keys(struct kunit *test)
{
	static const char all[] = "domains=core,replication=eager,prefetch=7,filter=auto";
	union hydra_choice s = {}, want = {
		.domains = HYDRA_SCOPE_CORE, .replication = HYDRA_REPLICATE_EAGER, .prefetch = 7,
		.filter = HYDRA_FILTER_AUTO,
	};
	u32 bits = 0;
	int i;

	KUNIT_EXPECT_EQ(test, hydra_settings_parse(all, &s), 0);
	KUNIT_EXPECT_EQ(test, s.word, want.word);
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		KUNIT_EXPECT_EQ_MSG(test, bits & keys[i].bits, 0, "%s", keys[i].name);
		KUNIT_EXPECT_LT_MSG(test, keys[i].nr, 1 << hweight32(keys[i].bits), "%s",
				    keys[i].name);
		bits |= keys[i].bits;
	}
	KUNIT_EXPECT_EQ(test, bits & (SETTINGS_CHOSEN | SETTINGS_GIVEN), 0);
}

/* The flags of a word are bits that no settings have, so they can be taken off again. */
static void hydra_test_word(struct kunit *test)
{
	static const u32 flags[] = { SETTINGS_CHOSEN, SETTINGS_GIVEN };
	union hydra_choice s = {};
	int i, filter;

	KUNIT_EXPECT_EQ(test, hydra_choice_in(0).word, HYDRA_LINUX_SETTINGS.word);
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		for (filter = 0; filter < ARRAY_SIZE(filter_names); filter++) {
			s.filter = filter;
			KUNIT_EXPECT_EQ(test, s.word & flags[i], 0);
			KUNIT_EXPECT_EQ(test, hydra_choice_in(s.word | flags[i]).word, s.word);
		}
	}
}

/* The values that prctl() takes: numbers, not text. */
static void hydra_test_take(struct kunit *test)
{
	static const struct {
		struct hydra_settings s;
		int ret;
	} rows[] = {
		{ { HYDRA_SCOPE_MACHINE, 0, 9, 0 }, 0 },
		{ { HYDRA_SCOPE_NODE, 0, 0, HYDRA_FILTER_TABLE }, 0 },
		{ { HYDRA_SCOPE_NODE, 0, HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE }, 0 },
		{ { HYDRA_SCOPE_AUTO, 0, 9, HYDRA_FILTER_AUTO }, 0 },
		{ { HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_EAGER, 9, HYDRA_FILTER_AUTO }, -EINVAL },
		{ { HYDRA_SCOPE_AUTO + 1, 0, 9, 1 }, -EINVAL },
		{ { -1, 0, 9, 1 }, -EINVAL },
		{ { 256 + HYDRA_SCOPE_NODE, 0, 9, 1 }, -EINVAL },
		{ { 1, 2, 9, 1 }, -EINVAL },
		{ { 1, 0, HYDRA_PREFETCH_MAX + 1, 1 }, -EINVAL },
		{ { 1, 0, -1, 1 }, -EINVAL },
		{ { 1, 0, 9, HYDRA_FILTER_AUTO }, 0 },
		{ { 1, 0, 9, HYDRA_FILTER_AUTO + 1 }, -EINVAL },
		{ { HYDRA_SCOPE_LLC, 0, 9, 1 }, 0 },
		{ { HYDRA_SCOPE_CORE, 0, 0, HYDRA_FILTER_ENTRY }, 0 },
		{ { 1, HYDRA_REPLICATE_EAGER, 9, 1 }, 0 },
		{ { HYDRA_SCOPE_CORE, HYDRA_REPLICATE_EAGER, 0, HYDRA_FILTER_ENTRY }, 0 },
		{ { HYDRA_SCOPE_MACHINE, HYDRA_REPLICATE_EAGER, 9, 0 }, -EINVAL },
		{ { 1, 0, 9, HYDRA_FILTER_ENTRY }, 0 },
		{ { 1, 0, 9, 1, 0, 2 }, -EINVAL },
		{ { 1, 0, 9, 1, 0, 256 }, -EINVAL },
		{ { 0, 0, 9, 0, HYDRA_TABLES_FOLLOW + 1 }, -EINVAL },
		{ { 1, 0, 9, 1, HYDRA_TABLES_FOLLOW }, -EINVAL },
	};
	struct hydra_settings back, accessed = { 1, 0, 9, HYDRA_FILTER_ACCESSED };
	union hydra_choice s;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		s = HYDRA_RADIXVM_SETTINGS;
		KUNIT_EXPECT_EQ_MSG(test, rows[i].ret, hydra_settings_take(&rows[i].s, &s),
				    "row %d", i);
		hydra_settings_give(s, &back);
		if (rows[i].ret)
			KUNIT_EXPECT_EQ(test, s.word, HYDRA_RADIXVM_SETTINGS.word);
		else
			KUNIT_EXPECT_MEMEQ(test, &back, &rows[i].s, sizeof(back));
	}
	KUNIT_EXPECT_EQ(test, hydra_accessed_refused() ? -EOPNOTSUPP : 0,
			hydra_settings_take(&accessed, &s));
}

/* Filter "accessed" runs on CPUs only whose manual promises what marks rest on. */
static void hydra_test_cpu_refused(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, hydra_cpu_refused(X86_VENDOR_INTEL, INTEL_SKYLAKE_X));
	KUNIT_EXPECT_NULL(test, hydra_cpu_refused(X86_VENDOR_AMD, 0));
	KUNIT_EXPECT_NULL(test, hydra_cpu_refused(X86_VENDOR_HYGON, 0));
	KUNIT_EXPECT_NOT_NULL(test, hydra_cpu_refused(X86_VENDOR_INTEL, INTEL_XEON_PHI_KNL));
	KUNIT_EXPECT_NOT_NULL(test, hydra_cpu_refused(X86_VENDOR_INTEL, INTEL_XEON_PHI_KNM));
	KUNIT_EXPECT_NOT_NULL(test, hydra_cpu_refused(X86_VENDOR_CENTAUR, 0));
	KUNIT_EXPECT_NOT_NULL(test, hydra_cpu_refused(X86_VENDOR_UNKNOWN, 0));
	/* A hypervisor may walk page tables in software. */
	KUNIT_EXPECT_NULL(test, hydra_hypervisor_refused("KVMKVMKVM\0\0\0"));
	KUNIT_EXPECT_NULL(test, hydra_hypervisor_refused("XenVMMXenVMM"));
	KUNIT_EXPECT_NULL(test, hydra_hypervisor_refused("Microsoft Hv"));
	KUNIT_EXPECT_NULL(test, hydra_hypervisor_refused("TCGTCGTCGTCG"));
	KUNIT_EXPECT_NOT_NULL(test, hydra_hypervisor_refused("VMwareVMware"));
	KUNIT_EXPECT_NOT_NULL(test, hydra_hypervisor_refused("VBoxVBoxVBox"));
	KUNIT_EXPECT_NOT_NULL(test, hydra_hypervisor_refused("\0\0\0\0\0\0\0\0\0\0\0"));
}

static struct kunit_case hydra_settings_cases[] = {
	KUNIT_CASE(hydra_test_parse),
	KUNIT_CASE(hydra_test_parse_refuses),
	KUNIT_CASE(hydra_test_format),
	KUNIT_CASE(hydra_test_keys),
	KUNIT_CASE(hydra_test_word),
	KUNIT_CASE(hydra_test_take),
	KUNIT_CASE(hydra_test_cpu_refused),
	{}
};

static struct kunit_suite hydra_settings_suite = {
	.name = "hydra-settings",
	.test_cases = hydra_settings_cases,
};

kunit_test_suite(hydra_settings_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
