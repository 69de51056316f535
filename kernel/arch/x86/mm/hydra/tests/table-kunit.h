/* SPDX-License-Identifier: GPL-2.0-only */
/* The words of tables, links of domain trees, and the accessed bits of cleared copies. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

/* The word of a table, found from the address of an entry by two ways. */
static void hydra_test_word(struct kunit *test)
{
	pteval_t *entry = hydra_test_page(test);
	struct ptdesc *ptdesc = virt_to_ptdesc(entry);

	KUNIT_EXPECT_FALSE(test, hydra_word_shared(entry + 511));
	hydra_word_set_solo(ptdesc, HYDRA_MAX_DOMAINS - 1);
	KUNIT_EXPECT_FALSE(test, hydra_word_shared(entry + 511));
	KUNIT_EXPECT_TRUE(test, hydra_word_solo(hydra_word_of(entry + 511)));
	KUNIT_EXPECT_EQ(test, HYDRA_MAX_DOMAINS - 1,
			hydra_word_domain(hydra_word_of(entry + 511)));
	KUNIT_EXPECT_NULL(test, hydra_table_of(entry));
	hydra_word_set_table(ptdesc, (struct hydra_table *)entry);
	KUNIT_EXPECT_TRUE(test, hydra_word_shared(entry + 511));
	KUNIT_EXPECT_FALSE(test, hydra_word_solo(hydra_word_of(entry)));
	KUNIT_EXPECT_PTR_EQ(test, (void *)entry, (void *)hydra_table_of(entry + 511));
}

/* A driver has left a pointer in page->mapping, and the page becomes a table. */
static void hydra_test_ctor(struct kunit *test)
{
	enum pg_level level;

	for (level = PG_LEVEL_4K; level <= PG_LEVEL_1G; level++) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		struct ptdesc *ptdesc = page_ptdesc(page);

		KUNIT_ASSERT_NOT_NULL(test, page);
		page->mapping = (void *)test;
		KUNIT_EXPECT_TRUE(test, hydra_word_shared(page_address(page)));
		if (level == PG_LEVEL_4K) {
			KUNIT_EXPECT_TRUE(test, pagetable_pte_ctor(ptdesc));
			KUNIT_EXPECT_FALSE(test, hydra_word_shared(page_address(page)));
			pagetable_pte_dtor(ptdesc);
		} else if (level == PG_LEVEL_2M) {
			KUNIT_EXPECT_TRUE(test, pagetable_pmd_ctor(ptdesc));
			KUNIT_EXPECT_FALSE(test, hydra_word_shared(page_address(page)));
			pagetable_pmd_dtor(ptdesc);
		} else {
			pagetable_pud_ctor(ptdesc);
			KUNIT_EXPECT_FALSE(test, hydra_word_shared(page_address(page)));
			pagetable_pud_dtor(ptdesc);
		}
		hydra_word_clear(ptdesc);
		__free_page(page);
	}
}

/* The start address of a table of each level, and the index of its entry in the parent. */
static void hydra_test_table_init(struct kunit *test)
{
	const unsigned long addr = 5 * P4D_SIZE + 7 * PUD_SIZE + 9 * PMD_SIZE + 11 * PAGE_SIZE;
	static const struct {
		enum pg_level level;
		unsigned long base;
		unsigned int index;
	} rows[] = {
		{ PG_LEVEL_4K, 5 * P4D_SIZE + 7 * PUD_SIZE + 9 * PMD_SIZE, 9 },
		{ PG_LEVEL_2M, 5 * P4D_SIZE + 7 * PUD_SIZE, 7 },
		{ PG_LEVEL_1G, 5 * P4D_SIZE, 5 },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hydra_table t = {};

		hydra_table_init(&t, NULL, NULL, addr, rows[i].level);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].base, t.base, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].index, hydra_table_index(&t), "row %d", i);
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
		enum pg_level level;
		pteval_t copy, before, after;
	} rows[] = {
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, PAGE_A, PAGE_A | _PAGE_ACCESSED },
		{ PG_LEVEL_4K, PAGE_A, PAGE_A, PAGE_A },
		{ PG_LEVEL_4K, PAGE_B | _PAGE_ACCESSED, PAGE_A, PAGE_A },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, 0, 0 },
		{ PG_LEVEL_4K, HYDRA_PTE_REFILL, PAGE_A, PAGE_A },
		{ PG_LEVEL_2M, HUGE_A | _PAGE_ACCESSED, HUGE_A, HUGE_A | _PAGE_ACCESSED },
		/* The way to a leaf table says nothing of a page. */
		{ PG_LEVEL_2M, TABLE, TABLE & ~_PAGE_ACCESSED, TABLE & ~_PAGE_ACCESSED },
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
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_2M);
	pteval_t *leaf = hydra_test_page(test);
	struct hydra_domain dom = {};

	spin_lock_init(&dom.lock);
	h->domain[1] = &dom;
	t->table[1] = own;
	own[4] = TABLE;
	own[6] = TABLE;
	/* The mark of a huge page that was there goes with the link. */
	own[5] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	spin_lock(&dom.lock);
	hydra_link(&dom, &own[5], HYDRA_LINK | __pa(leaf));
	spin_unlock(&dom.lock);
	/* No CPU has walked the table yet. */
	KUNIT_EXPECT_EQ(test, HYDRA_LINK | __pa(leaf), own[5]);
	KUNIT_EXPECT_FALSE(test, own[5] & _PAGE_ACCESSED);
	hydra_cut_solo(t, 5, 1);
	KUNIT_EXPECT_EQ(test, 0, own[5]);
	KUNIT_EXPECT_EQ(test, TABLE, own[4]);
	KUNIT_EXPECT_EQ(test, TABLE, own[6]);
	/* A domain that has lost its PMD table has no link to cut. */
	t->table[1] = NULL;
	hydra_cut_solo(t, 4, 1);
	KUNIT_EXPECT_EQ(test, TABLE, own[4]);
}

/* Canonical PUD and PMD tables. Domain 1 has a table for the PUD table only. */
struct hydra_test_upper {
	struct hydra_mm *h;
	struct hydra_domain *dom;
	struct hydra_table *parent, *t;
	pteval_t *pmd;
	pteval_t *entry;	/* canonical, points to the PMD table */
	pteval_t *own;		/* of domain 1, in the same place */
};

static struct hydra_test_upper hydra_test_upper(struct kunit *test)
{
	pteval_t *pud = hydra_test_page(test), *own = hydra_test_page(test);
	struct hydra_test_upper tree = {
		.h = hydra_test_mm(test, HYDRA_FILTER_TABLE),
		.pmd = hydra_test_page(test),
		.entry = &pud[5],
		.own = &own[5],
	};

	WRITE_ONCE(tree.h->active, true);
	tree.dom = hydra_test_domain(test, tree.h, 1);
	tree.parent = hydra_test_table(test, pud, tree.h, PG_LEVEL_1G);
	tree.parent->table[1] = own;
	tree.t = hydra_test_table(test, tree.pmd, tree.h, PG_LEVEL_2M);
	hydra_table_init(tree.t, tree.h, tree.parent, 5 * PUD_SIZE, PG_LEVEL_2M);
	*tree.entry = _PAGE_TABLE | __pa(tree.pmd);
	return tree;
}

/* Domain 1 gets a PMD table once. */
static void hydra_test_domain_upper(struct kunit *test)
{
	struct hydra_test_upper tree = hydra_test_upper(test);
	struct hydra_table *t = tree.t;
	pteval_t *table;

	tree.own[-1] = TABLE;
	/* The marks of a huge page that was there go with the link. */
	tree.own[0] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	tree.own[1] = HUGE_A;
	tree.pmd[3] = TABLE;
	/* Hardware has set the accessed bit since the caller read the entry. */
	KUNIT_EXPECT_EQ(test, 0, hydra_domain_upper(t, 1, tree.entry,
						    *tree.entry & ~_PAGE_ACCESSED, GFP_KERNEL));
	table = t->table[1];
	KUNIT_ASSERT_NOT_NULL(test, table);
	KUNIT_EXPECT_PTR_NE(test, tree.pmd, table);
	KUNIT_EXPECT_NULL(test, memchr_inv(table, 0, PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, _PAGE_TABLE | __pa(table), tree.own[0]);
	KUNIT_EXPECT_EQ(test, TABLE, tree.own[-1]);
	KUNIT_EXPECT_EQ(test, HUGE_A, tree.own[1]);
	KUNIT_EXPECT_EQ(test, _PAGE_TABLE | __pa(tree.pmd), *tree.entry);
	KUNIT_EXPECT_EQ(test, BIT(1), t->users.bits[0]);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&t->sharers));
	KUNIT_EXPECT_EQ(test, 1, atomic_long_read(&tree.dom->nr_upper));
	KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&tree.dom->nr_replicas));
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, mm_pgtables_bytes(tree.h->mm));

	/* Another fault of the domain keeps the table, and frees what it has allocated. */
	table[3] = TABLE;
	KUNIT_EXPECT_EQ(test, 0, hydra_domain_upper(t, 1, tree.entry, *tree.entry, GFP_KERNEL));
	KUNIT_EXPECT_PTR_EQ(test, table, t->table[1]);
	KUNIT_EXPECT_EQ(test, _PAGE_TABLE | __pa(table), tree.own[0]);
	KUNIT_EXPECT_EQ(test, TABLE, table[3]);
	KUNIT_EXPECT_EQ(test, 1, atomic_long_read(&tree.dom->nr_upper));
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, mm_pgtables_bytes(tree.h->mm));

	KUNIT_EXPECT_PTR_EQ(test, table, hydra_table_cut_domain(t, 1, tree.pmd));
	KUNIT_EXPECT_EQ(test, 0, tree.own[0]);
	KUNIT_EXPECT_NULL(test, t->table[1]);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&t->users));
	KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&tree.dom->nr_upper));
	hydra_page_free(tree.h, table);
	KUNIT_EXPECT_EQ(test, 0, mm_pgtables_bytes(tree.h->mm));
}

/* Since the caller found the canonical table, something has changed: no link. */
static void hydra_test_domain_upper_late(struct kunit *test)
{
	static const struct {
		const char *what;
		pteval_t changed;	/* bits of the canonical entry */
		bool inactive, orphan;
	} rows[] = {
		{ "the entry is not present", _PAGE_PRESENT },
		{ "the entry points to another table", PAGE_SIZE },
		{ "the entry is huge", _PAGE_PSE },
		{ "the address space is not active", .inactive = true },
		{ "the domain has lost its PUD table", .orphan = true },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hydra_test_upper tree = hydra_test_upper(test);
		pteval_t want = *tree.entry;

		*tree.entry = want ^ rows[i].changed;
		if (rows[i].inactive)
			WRITE_ONCE(tree.h->active, false);
		if (rows[i].orphan)
			tree.parent->table[1] = NULL;
		*tree.own = HYDRA_PTE_REFILL;
		KUNIT_EXPECT_EQ_MSG(test, -EAGAIN,
				    hydra_domain_upper(tree.t, 1, tree.entry, want, GFP_KERNEL),
				    "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, HYDRA_PTE_REFILL, *tree.own, "%s", rows[i].what);
		KUNIT_EXPECT_NULL_MSG(test, tree.t->table[1], "%s", rows[i].what);
		KUNIT_EXPECT_TRUE_MSG(test, hydra_mask_empty(&tree.t->users), "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, 0, atomic_long_read(&tree.dom->nr_upper), "%s",
				    rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, 0, mm_pgtables_bytes(tree.h->mm), "%s", rows[i].what);
		KUNIT_EXPECT_TRUE_MSG(test, hydra_test_is_free(&tree.dom->lock), "%s",
				      rows[i].what);
	}
}

static void hydra_test_free_root(void *root)
{
	free_pages((unsigned long)root, PGD_ALLOCATION_ORDER);
}

/* Cut all links to a table, and free the domains' tables. Return: how many there were. */
static size_t hydra_test_cut(struct hydra_table *t, pteval_t *canonical)
{
	struct ptdesc *ptdesc, *next;
	LIST_HEAD(own);
	size_t nr;

	hydra_table_cut(t, canonical, &own);
	nr = list_count_nodes(&own);
	list_for_each_entry_safe(ptdesc, next, &own, pt_list)
		hydra_page_free(t->hmm, ptdesc_address(ptdesc));
	return nr;
}

/*
 * Domain 1 gets two PUD tables. With five levels of tables it gets a p4d table with the first,
 * and loses the p4d table with the last.
 */
static void hydra_test_domain_upper_root(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_domain *dom = hydra_test_domain(test, h, 1);
	const unsigned int nr_p4ds = pgtable_l5_enabled() ? 1 : 0;
	pteval_t *canonical[2], entry[2];
	struct hydra_table *t[2];
	int round, i;

	WRITE_ONCE(h->active, true);
	dom->pgd = (pgd_t *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, PGD_ALLOCATION_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, dom->pgd);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hydra_test_free_root, dom->pgd));
	for (i = 0; i < 2; i++) {
		canonical[i] = hydra_test_page(test);
		entry[i] = _PAGE_TABLE | __pa(canonical[i]);
		t[i] = hydra_test_table(test, canonical[i], h, PG_LEVEL_1G);
		hydra_table_init(t[i], h, NULL, (5 + i) * P4D_SIZE, PG_LEVEL_1G);
	}
	for (round = 0; round < 2; round++) {
		for (i = 0; i < 2; i++) {
			p4d_t *p4d;

			KUNIT_EXPECT_EQ(test, 0, hydra_domain_upper(t[i], 1, &entry[i], entry[i],
								    GFP_KERNEL));
			KUNIT_ASSERT_NOT_NULL(test, t[i]->table[1]);
			p4d = hydra_domain_p4d(dom, t[i]->base);
			KUNIT_ASSERT_NOT_NULL(test, p4d);
			/* Linux may have added the NX bit to the entry of a root. */
			KUNIT_EXPECT_TRUE(test,
					  hydra_same_table(_PAGE_TABLE | __pa(t[i]->table[1]),
							   p4d_val(*p4d)));
			KUNIT_EXPECT_EQ(test, BIT(1), t[i]->users.bits[0]);
			KUNIT_EXPECT_EQ(test, i + 1 + nr_p4ds, atomic_long_read(&dom->nr_upper));
			KUNIT_EXPECT_EQ(test, (i + 1 + nr_p4ds) * PAGE_SIZE,
					mm_pgtables_bytes(h->mm));
		}
		KUNIT_EXPECT_EQ(test, 1, hydra_test_cut(t[round], canonical[round]));
		KUNIT_EXPECT_EQ(test, 0, p4d_val(*hydra_domain_p4d(dom, t[round]->base)));
		KUNIT_EXPECT_EQ(test, 1 + nr_p4ds, atomic_long_read(&dom->nr_upper));
		KUNIT_EXPECT_EQ(test, 1 + nr_p4ds, hydra_test_cut(t[!round], canonical[!round]));
		KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&dom->nr_upper));
		KUNIT_EXPECT_EQ(test, 0, mm_pgtables_bytes(h->mm));
		KUNIT_EXPECT_NULL(test, memchr_inv(dom->pgd, 0, PAGE_SIZE));
	}
}

/* A domain that has nothing to link any more gets no p4d table either. */
static void hydra_test_domain_upper_root_late(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_domain *dom = hydra_test_domain(test, h, 1);
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_1G);
	pteval_t entry = 0;

	WRITE_ONCE(h->active, true);
	hydra_table_init(t, h, NULL, 5 * P4D_SIZE, PG_LEVEL_1G);
	dom->pgd = (pgd_t *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, PGD_ALLOCATION_ORDER);
	KUNIT_ASSERT_NOT_NULL(test, dom->pgd);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hydra_test_free_root, dom->pgd));
	KUNIT_EXPECT_EQ(test, -EAGAIN, hydra_domain_upper(t, 1, &entry,
							  _PAGE_TABLE | __pa(canonical),
							  GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&dom->nr_upper));
	KUNIT_EXPECT_EQ(test, 0, mm_pgtables_bytes(h->mm));
	KUNIT_EXPECT_NULL(test, memchr_inv(dom->pgd, 0, PAGE_SIZE));
}

/* Freed by hydra_release_tables(), after a grace period */
static struct hydra_table *hydra_test_released(struct kunit *test, pteval_t *canonical,
					       struct hydra_mm *h)
{
	struct hydra_table *t = kzalloc(struct_size(t, table, HYDRA_MAX_DOMAINS), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->hmm = h;
	hydra_word_set_table(virt_to_ptdesc(canonical), t);
	return t;
}

/* Five PMD tables without leaf tables, of each of which domain 1 has a copy. */
#define UPPER	5

static struct hydra_mm *hydra_test_upper_copies(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *pud = hydra_test_page(test), *root = hydra_test_page(test), *top = root;
	struct hydra_table *parent = hydra_test_released(test, pud, h), *t;
	pteval_t *pmd;
	int i;

	WRITE_ONCE(h->active, true);
	mmap_init_lock(h->mm);
	spin_lock_init(&h->mm->page_table_lock);
	hydra_test_domain(test, h, 1);
	hydra_table_init(parent, h, NULL, 0, PG_LEVEL_1G);
	parent->table[1] = hydra_test_page(test);
	for (i = 0; i < UPPER; i++) {
		pmd = hydra_test_page(test);
		t = hydra_test_released(test, pmd, h);
		hydra_table_init(t, h, parent, i * PUD_SIZE, PG_LEVEL_2M);
		pud[i] = _PAGE_TABLE | __pa(pmd);
		KUNIT_ASSERT_EQ(test, 0, hydra_domain_upper(t, 1, &pud[i], pud[i], GFP_KERNEL));
	}
	root[0] = _PAGE_TABLE | __pa(pud);
	if (pgtable_l5_enabled()) {
		top = hydra_test_page(test);
		top[0] = _PAGE_TABLE | __pa(root);
	}
	h->mm->pgd = (pgd_t *)top;
	return h;
}

/*
 * The tables above the leaf tables go in parts, too. Each PMD table counts for itself and for its
 * copy. They go after all leaf tables, and only the last call says that nothing is left.
 */
static void hydra_test_release_in_parts(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_upper_copies(test);
	unsigned long was, freed, parts = 0;
	bool leaves, done;

	mmap_write_lock(h->mm);
	hydra_release_first(h);
	do {
		was = atomic_long_read(&h->domain[1]->nr_upper);
		leaves = h->return_level == PG_LEVEL_4K;
		done = hydra_release_tables(h, 4);
		freed = was - atomic_long_read(&h->domain[1]->nr_upper);
		KUNIT_EXPECT_LE(test, freed, 2);
		/* The walk to the end of the address space takes more than such a call. */
		if (leaves && h->return_level == PG_LEVEL_4K)
			KUNIT_EXPECT_EQ(test, 0, freed);
		KUNIT_EXPECT_EQ(test, done, h->return_level > PG_LEVEL_1G);
		parts += freed > 0;
	} while (!done);
	KUNIT_EXPECT_LE(test, DIV_ROUND_UP(UPPER, 2), parts);
	KUNIT_EXPECT_EQ(test, 0, atomic_long_read(&h->domain[1]->nr_upper));
	KUNIT_EXPECT_EQ(test, 0, mm_pgtables_bytes(h->mm));
	/* As long as a VMA is busy, the caller comes again. */
	KUNIT_EXPECT_TRUE(test, hydra_release_tables(h, 4));
	mmap_write_unlock(h->mm);
}

#undef UPPER

/* One leaf table, and domains of which some have their home on its node */
static void hydra_test_has_owner(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ENTRY);
	pteval_t *canonical = hydra_test_page(test);
	int nid = page_to_nid(virt_to_page(canonical));
	const struct hydra_domains *domains = hydra_domains_of(h);
	unsigned int d, home = domains->nr, away = domains->nr;
	struct hydra_table *t;

	for (d = 0; d < domains->nr; d++) {
		if (domains->home[d] == nid)
			home = d;
		else
			away = d;
	}
	if (away == domains->nr)
		kunit_skip(test, "all domains have one home");
	KUNIT_ASSERT_LT(test, home, domains->nr);
	KUNIT_EXPECT_FALSE(test, hydra_has_owner(h, canonical));
	hydra_word_set_solo(virt_to_ptdesc(canonical), away);
	KUNIT_EXPECT_FALSE(test, hydra_has_owner(h, canonical));
	hydra_word_set_solo(virt_to_ptdesc(canonical), home);
	KUNIT_EXPECT_TRUE(test, hydra_has_owner(h, canonical));
	t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
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
	KUNIT_CASE(hydra_test_ctor),
	KUNIT_CASE(hydra_test_table_init),
	KUNIT_CASE(hydra_test_fold_accessed),
	KUNIT_CASE(hydra_test_link),
	KUNIT_CASE(hydra_test_domain_upper),
	KUNIT_CASE(hydra_test_domain_upper_late),
	KUNIT_CASE(hydra_test_domain_upper_root),
	KUNIT_CASE(hydra_test_domain_upper_root_late),
	KUNIT_CASE(hydra_test_release_in_parts),
	KUNIT_CASE(hydra_test_has_owner),
	{}
};

static struct kunit_suite hydra_table_suite = {
	.name = "hydra-table",
	.test_cases = hydra_table_cases,
};

kunit_test_suite(hydra_table_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
