/* SPDX-License-Identifier: GPL-2.0-only */
/* A leaf table whose domains have left. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

/*
 * Domain 2 has left a leaf table. The word of the table becomes that of the one domain which
 * links it, or 0.
 */
static void hydra_test_unshare(struct kunit *test)
{
	static const struct {
		const char *what;
		unsigned long users, links;
		bool none, other;	/* the PMD entry points to no table, to another one */
		bool gone;		/* a collapse has taken the word */
		bool shared;
		unsigned long word;
	} rows[] = {
		{ "one domain links it", BIT(1), BIT(1), .word = BIT(2) | 1 << 3 },
		{ "no domain uses it", .word = 0 },
		{ "one domain has a replica", BIT(1), 0, .shared = true },
		{ "two domains link it", BIT(0) | BIT(1), BIT(0) | BIT(1), .shared = true },
		{ "a domain links it, one has a replica", BIT(0) | BIT(1), BIT(0), .shared = true },
		{ "a collapse clears the entry", BIT(1), BIT(1), .none = true, .shared = true },
		{ "the same without users", .none = true, .shared = true },
		{ "another table is there", BIT(1), BIT(1), .other = true, .shared = true },
		{ "a collapse has put it back", BIT(1), BIT(1), .gone = true },
	};
	int i;

	if (HYDRA_MAX_DOMAINS < 3)
		kunit_skip(test, "needs three domains");
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t *canonical = hydra_test_page(test), *replica = hydra_test_page(test);
		struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
		pmd_t pmd = __pmd(_PAGE_TABLE | __pa(rows[i].other ? replica : canonical));
		struct hydra_shared s = { .canonical = canonical, .pmd = &pmd };
		struct ptdesc *ptdesc = virt_to_ptdesc(canonical);
		unsigned long word;
		unsigned int d;

		/* Freed by hydra_unshare(), after a grace period; or below. */
		s.t = kzalloc(struct_size(s.t, table, HYDRA_MAX_DOMAINS), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, s.t);
		hydra_table_init(s.t, h, NULL, 0, PG_LEVEL_4K);
		for (d = 0; d < 3; d++) {
			hydra_test_domain(test, h, d);
			if (!(rows[i].users & BIT(d)))
				continue;
			hydra_mask_set(d, &s.t->users);
			s.t->table[d] = rows[i].links & BIT(d) ? canonical : replica;
		}
		if (rows[i].none)
			pmd = __pmd(0);
		if (!rows[i].gone)
			hydra_word_set_table(ptdesc, s.t);
		hydra_unshare(&s, 2);
		word = hydra_word_read(ptdesc);
		if (rows[i].shared)
			KUNIT_EXPECT_EQ_MSG(test, (unsigned long)s.t, word, "%s", rows[i].what);
		else
			KUNIT_EXPECT_EQ_MSG(test, rows[i].word, word, "%s", rows[i].what);
		for (d = 0; d < 3; d++)
			KUNIT_EXPECT_TRUE_MSG(test, hydra_test_is_free(&h->domain[d]->lock), "%s",
					      rows[i].what);
		if (rows[i].shared || rows[i].gone)
			kfree(s.t);
	}
}

static struct kunit_case hydra_drop_cases[] = {
	KUNIT_CASE(hydra_test_unshare),
	{}
};

static struct kunit_suite hydra_drop_suite = {
	.name = "hydra-drop",
	.test_cases = hydra_drop_cases,
};

kunit_test_suite(hydra_drop_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
