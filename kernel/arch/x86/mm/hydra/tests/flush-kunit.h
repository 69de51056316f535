/* SPDX-License-Identifier: GPL-2.0-only */
/* The domains that a flush must reach. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define HUGE_A	(0x12200000 | _PAGE_PRESENT | _PAGE_USER | _PAGE_PSE)

/*
 * A PMD table with a leaf table that domain 1 alone links, a leaf table that no domain
 * uses, a huge page, and an empty entry. Domain 0 has shared huge pages of the PMD table.
 */
static pud_t hydra_test_pmd_table(struct kunit *test)
{
	pteval_t *pmd = hydra_test_page(test), *leaf = hydra_test_page(test);
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);

	hydra_mask_set(0, &hydra_test_table(test, pmd, h, PG_LEVEL_2M)->sharers);
	hydra_word_set_solo(virt_to_ptdesc(leaf), 1);
	pmd[0] = _PAGE_TABLE | __pa(leaf);
	pmd[1] = _PAGE_TABLE | __pa(hydra_test_page(test));
	pmd[2] = HUGE_A;
	return __pud(_PAGE_TABLE | __pa(pmd));
}

/* The domains that a flush of some of the entries must reach. */
static void hydra_test_range_sharers(struct kunit *test)
{
	static const struct {
		unsigned int first, end;
		enum hydra_huge huge;
		unsigned long domains;
	} rows[] = {
		{ 0, 1, HYDRA_LEAF_ONLY, BIT(1) },
		{ 0, 1, HYDRA_HUGE_IN_RANGE, BIT(1) },
		{ 0, 1, HYDRA_HUGE_SAME_TABLE, BIT(0) | BIT(1) },
		{ 1, 2, HYDRA_LEAF_ONLY, 0 },
		{ 1, 2, HYDRA_HUGE_IN_RANGE, 0 },
		{ 1, 2, HYDRA_HUGE_SAME_TABLE, BIT(0) },
		{ 2, 3, HYDRA_LEAF_ONLY, 0 },
		{ 2, 3, HYDRA_HUGE_IN_RANGE, BIT(0) },
		/* Another CPU may have cleared a huge entry, and not flushed yet. */
		{ 3, 4, HYDRA_HUGE_IN_RANGE, BIT(0) },
		{ 0, 4, HYDRA_LEAF_ONLY, BIT(1) },
		{ 0, 4, HYDRA_HUGE_IN_RANGE, BIT(0) | BIT(1) },
	};
	pud_t pud = hydra_test_pmd_table(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		hydra_mask_t mask;
		struct hydra_lookup l = {
			.huge = rows[i].huge,
			.look = HYDRA_BY_TABLE,
			.found = &mask,
		};

		hydra_mask_zero(&mask);
		hydra_add_pmd_sharers(&l, pud, rows[i].first * PMD_SIZE, rows[i].end * PMD_SIZE);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].domains, mask.bits[0], "row %d", i);
	}
}

/* The sharers that a gather records until its flush. */
static void hydra_test_gather(struct kunit *test)
{
	pud_t pud = hydra_test_pmd_table(test);
	struct hydra_gather g;

	__hydra_gather_init(&g, false);
	KUNIT_EXPECT_TRUE(test, g.recording);
	KUNIT_EXPECT_GT(test, g.start, g.end);
	__hydra_gather_add_range(&g, 3 * PAGE_SIZE, 5 * PAGE_SIZE);
	__hydra_gather_add_range(&g, PAGE_SIZE, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, g.start);
	KUNIT_EXPECT_EQ(test, 5 * PAGE_SIZE, g.end);
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&g.sharers));
	__hydra_gather_add_huge(&g, (pteval_t *)pmd_offset(&pud, 2 * PMD_SIZE));
	KUNIT_EXPECT_EQ(test, BIT(0), g.sharers.bits[0]);
	__hydra_gather_init(&g, true);
	KUNIT_EXPECT_EQ(test, 0, g.start);
	KUNIT_EXPECT_EQ(test, ULONG_MAX, g.end);
}

/*
 * A gather takes huge pages of a PMD table. All of domains 0 to 2 have shared huge pages
 * there. Domain 0 has used page 7, domain 1 has a copy without a mark, domain 2 has no
 * table any more.
 */
static void hydra_test_gather_marked(struct kunit *test)
{
	pteval_t *canonical = hydra_test_page(test), *copies[2];
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_2M);
	struct hydra_settings accessed = { 1, 0, 9, HYDRA_FILTER_ACCESSED };
	union hydra_choice settings;
	struct hydra_gather g;
	unsigned int d;

	if (HYDRA_MAX_DOMAINS < 3)
		kunit_skip(test, "CONFIG_HYDRA_MM_MAX_DOMAINS is less than 3");
	for (d = 0; d < 3; d++) {
		hydra_test_domain(test, h, d);
		hydra_mask_set(d, &t->sharers);
		if (d < 2) {
			copies[d] = hydra_test_page(test);
			t->table[d] = copies[d];
		}
	}
	copies[0][7] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	copies[1][7] = HYDRA_PTE_REFILL;
	copies[1][8] = HUGE_A | HYDRA_PTE_MARKED;
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7]);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, copies[0][7]);
	/* The gather has cleared the mark. The mark of another page stays. */
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7]);
	KUNIT_EXPECT_EQ(test, BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_MARKED, copies[1][8]);
	/* While another gather is pending, the mark stays, and a flush must reach all sharers. */
	atomic_set(&h->mm->tlb_flush_pending, 2);
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[8]);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_MARKED, copies[1][8]);
	atomic_set(&h->mm->tlb_flush_pending, 1);
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[8]);
	KUNIT_EXPECT_EQ(test, BIT(1) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A, copies[1][8]);
	/* A CPU that breaks its promise takes the filter from all address spaces. */
	WRITE_ONCE(hydra_marks_failed, true);
	KUNIT_EXPECT_NOT_NULL(test, hydra_accessed_refused());
	KUNIT_EXPECT_NE(test, 0, hydra_settings_take(&accessed, &settings));
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7]);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
	WRITE_ONCE(hydra_marks_failed, false);
	/* With the filter by table, a flush must reach all sharers. */
	h->mm->hydra_settings = HYDRA_HYDRA_SETTINGS.word;
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7]);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
}

/*
 * Domain 0 links a leaf table, domain 1 has a replica with a mark on entry 5. Domain 2 is
 * a sharer without a table: after the cut, before the flush.
 */
static void hydra_test_marked(struct kunit *test)
{
	static const struct {
		unsigned int first, end;
		enum hydra_look look;
		unsigned long domains;
		bool mark;
	} rows[] = {
		{ 5, 6, HYDRA_BY_TABLE, BIT(0) | BIT(1) | BIT(2), true },
		{ 5, 6, HYDRA_LOOK_AT_MARKS, BIT(0) | BIT(1) | BIT(2), true },
		{ 6, 512, HYDRA_LOOK_AT_MARKS, BIT(0) | BIT(2), true },
		{ 0, 5, HYDRA_TAKE_MARKS, BIT(0) | BIT(2), true },
		{ 0, 512, HYDRA_TAKE_MARKS, BIT(0) | BIT(1) | BIT(2), false },
		{ 0, 512, HYDRA_TAKE_MARKS, BIT(0) | BIT(2), false },
	};
	pteval_t *canonical = hydra_test_page(test), *copies = hydra_test_page(test);
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	int i;

	if (HYDRA_MAX_DOMAINS < 3)
		kunit_skip(test, "needs three domains");
	bitmap_set(t->sharers.bits, 0, 3);
	t->table[0] = canonical;
	t->table[1] = copies;
	copies[5] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	/* An accessed, unchanged entry needs no flush. */
	copies[6] = HUGE_A | _PAGE_ACCESSED;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		hydra_mask_t mask;
		struct hydra_lookup l = { .look = rows[i].look, .found = &mask };

		hydra_mask_zero(&mask);
		preempt_disable();
		hydra_add_leaf(&l, canonical, rows[i].first * PAGE_SIZE, rows[i].end * PAGE_SIZE);
		preempt_enable();
		KUNIT_EXPECT_EQ_MSG(test, rows[i].domains, mask.bits[0], "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, HYDRA_PTE_REFILL | (rows[i].mark ? HYDRA_PTE_MARKED : 0),
				    copies[5], "row %d", i);
	}
}

/* Flushes that reach a domain only for a link are counted, up to the cut. */
static void hydra_test_linked_hits(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	unsigned int linker, i, own;
	hydra_mask_t mask;
	struct hydra_lookup l = { .look = HYDRA_TAKE_MARKS, .found = &mask };

	preempt_disable();
	own = hydra_this_domain(h);
	linker = own ? 0 : 1;
	hydra_mask_set(own, &t->sharers);
	t->table[own] = canonical;
	hydra_mask_zero(&mask);
	hydra_add_leaf(&l, canonical, 0, PAGE_SIZE);
	own = t->linked_hits;
	hydra_mask_set(linker, &t->sharers);
	t->table[linker] = canonical;
	for (i = 0; i < HYDRA_LINKED_HITS + 3; i++) {
		hydra_mask_zero(&mask);
		hydra_add_leaf(&l, canonical, 0, PAGE_SIZE);
	}
	i = t->linked_hits;
	t->linked_hits = HYDRA_LINKS_CUT;
	hydra_mask_zero(&mask);
	hydra_add_leaf(&l, canonical, 0, PAGE_SIZE);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, 0, own);
	KUNIT_EXPECT_EQ(test, HYDRA_LINKED_HITS, i);
	KUNIT_EXPECT_EQ(test, HYDRA_LINKS_CUT, t->linked_hits);
}

/* Two flushes overlap: one adds the targets of the other. */
static void hydra_test_publish(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	bool overlaps, apart, stranger, published, unpublished;
	hydra_mask_t all, first, mask, sharers;
	struct hydra_published *p;
	unsigned int other;

	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&h->flushing, GFP_KERNEL));
	hydra_publish(h, PAGE_SIZE, 3 * PAGE_SIZE);
	p = this_cpu_ptr(&hydra_published);
	published = cpumask_test_cpu(smp_processor_id(), h->flushing);
	all = p->targets;
	hydra_mask_zero(&mask);
	hydra_mask_set(0, &mask);
	sharers = mask;
	hydra_mask_set(1, &sharers);
	hydra_add_published(h, PAGE_SIZE, 3 * PAGE_SIZE, &sharers, &mask);
	first = p->targets;
	other = cpumask_any_but(cpu_possible_mask, smp_processor_id());
	overlaps = true;
	apart = false;
	stranger = false;
	if (other < nr_cpu_ids) {
		p = per_cpu_ptr(&hydra_published, other);
		p->start = 2 * PAGE_SIZE;
		p->end = 4 * PAGE_SIZE;
		hydra_mask_zero(&p->targets);
		hydra_mask_set(1, &p->targets);
		cpumask_set_cpu(other, h->flushing);
		hydra_add_published(h, 3 * PAGE_SIZE, 5 * PAGE_SIZE, &sharers, &mask);
		overlaps = mask.bits[0] == (BIT(0) | BIT(1));
		hydra_mask_zero(&mask);
		hydra_add_published(h, 4 * PAGE_SIZE, 5 * PAGE_SIZE, &sharers, &mask);
		hydra_add_published(h, PAGE_SIZE, 2 * PAGE_SIZE, &sharers, &mask);
		apart = !hydra_mask_empty(&mask);
		hydra_mask_clear(1, &sharers);
		hydra_add_published(h, 2 * PAGE_SIZE, 4 * PAGE_SIZE, &sharers, &mask);
		stranger = !hydra_mask_empty(&mask);
		cpumask_clear_cpu(other, h->flushing);
	}
	hydra_unpublish();
	unpublished = cpumask_empty(h->flushing);
	free_cpumask_var(h->flushing);
	KUNIT_EXPECT_TRUE(test, published);
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&hydra_domains[HYDRA_SCOPE_NODE].all, &all));
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&hydra_domains[HYDRA_SCOPE_CORE].all, &all));
	KUNIT_EXPECT_EQ(test, BIT(0), first.bits[0]);
	KUNIT_EXPECT_TRUE(test, overlaps);
	KUNIT_EXPECT_FALSE(test, apart);
	KUNIT_EXPECT_FALSE(test, stranger);
	KUNIT_EXPECT_TRUE(test, unpublished);
	KUNIT_EXPECT_EQ(test, 0, preempt_count());
}

/* Map a leaf table at address 0 of the address space. */
static void hydra_test_map(struct kunit *test, struct hydra_mm *h, pteval_t *leaf)
{
	pteval_t *pmd = hydra_test_page(test), *pud = hydra_test_page(test), *top = pud;

	pmd[0] = _PAGE_TABLE | __pa(leaf);
	pud[0] = _PAGE_TABLE | __pa(pmd);
	if (pgtable_l5_enabled()) {
		pteval_t *p4d = hydra_test_page(test);

		p4d[0] = _PAGE_TABLE | __pa(pud);
		top = hydra_test_page(test);
		top[0] = _PAGE_TABLE | __pa(p4d);
	}
	h->mm->pgd = (pgd_t *)top;
}

/*
 * A leaf table is shared by as many domains as there can be, which have their own copies of
 * it. A flush looks at so many of them at most.
 */
static void hydra_test_look_bound(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	unsigned int d, nr = HYDRA_COPIES_MAX / HYDRA_MAX_DOMAINS;
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	hydra_mask_t all, many, few;
	struct hydra_lookup l = {
		.h = h,
		.huge = HYDRA_LEAF_ONLY,
		.look = HYDRA_TAKE_MARKS,
		.found = &many,
	};
	bool published;

	if (HYDRA_MAX_DOMAINS < 5 || !nr)
		kunit_skip(test, "CONFIG_HYDRA_MM_MAX_DOMAINS is less than 5, or very large");
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&h->flushing, GFP_KERNEL));
	hydra_test_map(test, h, canonical);
	for (d = 0; d < HYDRA_MAX_DOMAINS; d++) {
		t->table[d] = hydra_test_page(test);
		hydra_mask_set(d, &t->sharers);
	}
	t->table[2][nr - 1] = HYDRA_PTE_MARKED;
	t->table[1][nr] = HYDRA_PTE_MARKED;
	all = t->sharers;
	/* A page more would be too many copies: the flush goes by table, and takes no mark. */
	hydra_mask_zero(&many);
	migrate_disable();
	hydra_narrow_targets(&l, 0, (nr + 1) * PAGE_SIZE);
	published = this_cpu_read(hydra_published.h);
	hydra_unpublish();
	KUNIT_EXPECT_FALSE(test, published);
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&all, &many));
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, t->table[2][nr - 1]);
	/* This is looked at in parts, of which the last one has a mark. */
	hydra_mask_zero(&few);
	l.found = &few;
	hydra_narrow_targets(&l, 0, nr * PAGE_SIZE);
	published = this_cpu_read(hydra_published.h);
	hydra_unpublish();
	migrate_enable();
	free_cpumask_var(h->flushing);
	KUNIT_EXPECT_TRUE(test, published);
	KUNIT_EXPECT_EQ(test, 1, bitmap_weight(few.bits, HYDRA_MAX_DOMAINS));
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(2, &few));
	KUNIT_EXPECT_EQ(test, 0, t->table[2][nr - 1]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, t->table[1][nr]);
}

#undef HUGE_A

static struct kunit_case hydra_flush_cases[] = {
	KUNIT_CASE(hydra_test_range_sharers),
	KUNIT_CASE(hydra_test_gather),
	KUNIT_CASE(hydra_test_gather_marked),
	KUNIT_CASE(hydra_test_marked),
	KUNIT_CASE(hydra_test_linked_hits),
	KUNIT_CASE(hydra_test_publish),
	KUNIT_CASE(hydra_test_look_bound),
	{}
};

static struct kunit_suite hydra_flush_suite = {
	.name = "hydra-flush",
	.test_cases = hydra_flush_cases,
};

kunit_test_suite(hydra_flush_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
