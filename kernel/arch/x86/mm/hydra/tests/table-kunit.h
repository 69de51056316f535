/* SPDX-License-Identifier: GPL-2.0-only */
/* The words of tables, and the accessed bits of cleared copies. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

/* The word of a table, found from the address of an entry by two ways. */
static void hydra_test_word(struct kunit *test)
{
	pteval_t *entry = hydra_test_page(test);
	struct ptdesc *ptdesc = virt_to_ptdesc(entry);

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
}

/* The start address of a table of each level, and the index of its entry in the parent. */
static void hydra_test_table_init(struct kunit *test)
{
	const unsigned long addr = 5 * P4D_SIZE + 7 * PUD_SIZE + 9 * PMD_SIZE + 11 * PAGE_SIZE;
	static const struct {
		u8 level;
		unsigned long base;
		unsigned int index;
	} rows[] = {
		{ HYDRA_PTE, 5 * P4D_SIZE + 7 * PUD_SIZE + 9 * PMD_SIZE, 9 },
		{ HYDRA_PMD, 5 * P4D_SIZE + 7 * PUD_SIZE, 7 },
		{ HYDRA_PUD, 5 * P4D_SIZE, 5 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hydra_table t = {};

		hydra_table_init(&t, NULL, NULL, NULL, addr, rows[i].level);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].base, t.base, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].index, t.index, "row %d", i);
	}
}

#define PAGE_A	(0x12345000 | _PAGE_PRESENT | _PAGE_USER)
#define PAGE_B	(0x54321000 | _PAGE_PRESENT | _PAGE_USER)
#define HUGE_A	(0x12200000 | _PAGE_PRESENT | _PAGE_USER | _PAGE_PSE)
#define TABLE	(0x67890000 | _PAGE_TABLE_NOENC)

/* When a copy is cleared, the canonical entry gets the accessed bit. */
static void hydra_test_fold_accessed(struct kunit *test)
{
	static const struct {
		u8 level;
		pteval_t copy, before, after;
	} rows[] = {
		{ HYDRA_PTE, PAGE_A | _PAGE_ACCESSED, PAGE_A, PAGE_A | _PAGE_ACCESSED },
		{ HYDRA_PTE, PAGE_A, PAGE_A, PAGE_A },
		{ HYDRA_PTE, PAGE_B | _PAGE_ACCESSED, PAGE_A, PAGE_A },
		{ HYDRA_PTE, PAGE_A | _PAGE_ACCESSED, 0, 0 },
		{ HYDRA_PTE, HYDRA_PTE_REFILL, PAGE_A, PAGE_A },
		{ HYDRA_PMD, HUGE_A | _PAGE_ACCESSED, HUGE_A, HUGE_A | _PAGE_ACCESSED },
		/* The way to a leaf table says nothing of a page. */
		{ HYDRA_PMD, TABLE, TABLE & ~_PAGE_ACCESSED, TABLE & ~_PAGE_ACCESSED },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t copy = rows[i].copy, canonical = rows[i].before;

		hydra_fold_accessed(&copy, &canonical, rows[i].level, 1);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, canonical, "row %d", i);
	}
}

/* An entry of domain 1 leads to a table, then to none. Entries beside it stay. */
static void hydra_test_link(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *canonical = hydra_test_page(test), *own = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, HYDRA_PMD);
	pteval_t *leaf = hydra_test_page(test);
	struct hydra_domain dom = {};

	spin_lock_init(&dom.lock);
	h->domain[1] = &dom;
	t->table[1] = own;
	own[4] = TABLE;
	own[6] = TABLE;
	/* The mark of a huge page that was there goes with the link. */
	own[5] = HYDRA_PTE_REFILL | HYDRA_PTE_CACHED;
	spin_lock(&dom.lock);
	hydra_link(&dom, &own[5], leaf);
	spin_unlock(&dom.lock);
	KUNIT_EXPECT_EQ(test, _PAGE_TABLE | __pa(leaf), own[5]);
	hydra_cut_solo(t, 5, 1);
	KUNIT_EXPECT_EQ(test, 0, own[5]);
	KUNIT_EXPECT_EQ(test, TABLE, own[4]);
	KUNIT_EXPECT_EQ(test, TABLE, own[6]);
	/* A domain that has lost its PMD table has no link to cut. */
	t->table[1] = NULL;
	hydra_cut_solo(t, 4, 1);
	KUNIT_EXPECT_EQ(test, TABLE, own[4]);
}

/* One leaf table, and domains of which some have their home on its node */
static void hydra_test_has_owner(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ENTRY);
	pteval_t *canonical = hydra_test_page(test);
	int nid = page_to_nid(virt_to_page(canonical));
	const struct hydra_kind *kind = hydra_kind_of(h);
	unsigned int d, home = kind->nr, away = kind->nr;
	struct hydra_table *t;

	for (d = 0; d < kind->nr; d++) {
		if (kind->home[d] == nid)
			home = d;
		else
			away = d;
	}
	if (away == kind->nr)
		kunit_skip(test, "all domains have one home");
	KUNIT_ASSERT_LT(test, home, kind->nr);
	KUNIT_EXPECT_FALSE(test, hydra_has_owner(h, canonical));
	virt_to_ptdesc(canonical)->__page_mapping = hydra_solo(away);
	KUNIT_EXPECT_FALSE(test, hydra_has_owner(h, canonical));
	virt_to_ptdesc(canonical)->__page_mapping = hydra_solo(home);
	KUNIT_EXPECT_TRUE(test, hydra_has_owner(h, canonical));
	t = hydra_test_table(test, canonical, h, HYDRA_PTE);
	hydra_mask_set(away, &t->users);
	t->table[away] = canonical;
	hydra_mask_set(home, &t->users);
	t->table[home] = hydra_test_page(test);
	KUNIT_EXPECT_FALSE(test, hydra_has_owner(h, canonical));
	t->table[home] = canonical;
	KUNIT_EXPECT_TRUE(test, hydra_has_owner(h, canonical));
}

#undef PAGE_A
#undef PAGE_B
#undef HUGE_A
#undef TABLE

static struct kunit_case hydra_table_cases[] = {
	KUNIT_CASE(hydra_test_word),
	KUNIT_CASE(hydra_test_table_init),
	KUNIT_CASE(hydra_test_fold_accessed),
	KUNIT_CASE(hydra_test_link),
	KUNIT_CASE(hydra_test_has_owner),
	{}
};

static struct kunit_suite hydra_table_suite = {
	.name = "hydra-table",
	.test_cases = hydra_table_cases,
};

kunit_test_suite(hydra_table_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
