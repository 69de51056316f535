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
	__hydra_gather_add_huge(&g, (pteval_t *)pmd_offset(&pud, 2 * PMD_SIZE), 2 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(0), g.sharers.bits[0]);
	__hydra_gather_init(&g, true);
	KUNIT_EXPECT_EQ(test, 0, g.start);
	KUNIT_EXPECT_EQ(test, ULONG_MAX, g.end);
}

/* A gather that drops announces its places, or raises tlb_flush_pending: never both, never none. */
static void hydra_test_drop(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct mm_struct *mm = h->mm;
	struct mmu_gather tlb = {};

	KUNIT_ASSERT_NOT_NULL(test, vma);
	mm->hydra = h;
	vma->vm_mm = mm;
	vma->vm_end = 64 * PMD_SIZE;
	/* It has never been split. */
	__hydra_gather_drop(&tlb.hydra, vma, 0, PAGE_SIZE);
	KUNIT_EXPECT_FALSE(test, tlb.hydra.ranged);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&mm->tlb_flush_pending));
	KUNIT_EXPECT_FALSE(test, __hydra_gather_withdraw(mm, &tlb));
	init_rwsem(&mm->mmap_lock);
	mmap_write_lock(mm);
	hydra_pending_alloc(h);
	mmap_write_unlock(mm);
	h->active = true;
	__hydra_gather_drop(&tlb.hydra, vma, 0, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 1, tlb.hydra.nr_places);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&mm->tlb_flush_pending));
	KUNIT_EXPECT_TRUE(test, hydra_drops_in(h, 0, PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, __hydra_gather_withdraw(mm, &tlb));
	KUNIT_EXPECT_FALSE(test, hydra_drops_in(h, 0, PAGE_SIZE));
	/* Too many places */
	__hydra_gather_drop(&tlb.hydra, vma, 0, 8 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, 0, tlb.hydra.nr_places);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&mm->tlb_flush_pending));
	hydra_pending_free(h);
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
	__hydra_gather_add_huge(&g, &canonical[7], 7 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, copies[0][7]);
	/* The gather has cleared the mark. The mark of another page stays. */
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7], 7 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_MARKED, copies[1][8]);
	/* While another gather is pending, the mark stays, and a flush must reach all sharers. */
	atomic_set(&h->mm->tlb_flush_pending, 2);
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[8], 8 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_MARKED, copies[1][8]);
	atomic_set(&h->mm->tlb_flush_pending, 1);
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[8], 8 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(1) | BIT(2), g.sharers.bits[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A, copies[1][8]);
	/* A CPU that breaks its promise takes the filter from all address spaces. */
	WRITE_ONCE(hydra_marks_failed, true);
	KUNIT_EXPECT_NOT_NULL(test, hydra_accessed_refused());
	KUNIT_EXPECT_NE(test, 0, hydra_settings_take(&accessed, &settings));
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7], 7 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
	WRITE_ONCE(hydra_marks_failed, false);
	/* With the filter by table, a flush must reach all sharers. */
	h->filter = HYDRA_FILTER_TABLE;
	__hydra_gather_init(&g, false);
	__hydra_gather_add_huge(&g, &canonical[7], 7 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, BIT(0) | BIT(1) | BIT(2), g.sharers.bits[0]);
}

/* A look at many copies goes on in parts. */
static void hydra_test_add_leaf(struct hydra_lookup *l, const pteval_t *table,
				unsigned long addr, unsigned long end)
{
	unsigned long next;

	for (; addr < end; addr = next) {
		next = end;
		hydra_add_leaf(l, table, addr, &next);
	}
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
		hydra_test_add_leaf(&l, canonical, rows[i].first * PAGE_SIZE,
				    rows[i].end * PAGE_SIZE);
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
	hydra_test_add_leaf(&l, canonical, 0, PAGE_SIZE);
	own = t->linked_hits;
	hydra_mask_set(linker, &t->sharers);
	t->table[linker] = canonical;
	for (i = 0; i < HYDRA_LINKED_HITS + 3; i++) {
		hydra_mask_zero(&mask);
		hydra_test_add_leaf(&l, canonical, 0, PAGE_SIZE);
	}
	i = t->linked_hits;
	t->linked_hits = HYDRA_LINKS_CUT;
	hydra_mask_zero(&mask);
	hydra_test_add_leaf(&l, canonical, 0, PAGE_SIZE);
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

/* Map a leaf table at address 0 of the address space. Return: the PUD table. */
static pteval_t *hydra_test_map(struct kunit *test, struct hydra_mm *h, pteval_t *leaf)
{
	pteval_t *pmd = hydra_test_page(test), *pud = hydra_test_page(test);
	pteval_t *top = hydra_test_page(test);

	pmd[0] = _PAGE_TABLE | __pa(leaf);
	pud[0] = _PAGE_TABLE | __pa(pmd);
	top[0] = _PAGE_TABLE | __pa(pud);
	if (pgtable_l5_enabled()) {
		pteval_t *p4d = top;

		top = hydra_test_page(test);
		top[0] = _PAGE_TABLE | __pa(p4d);
	}
	h->mm->pgd = (pgd_t *)top;
	return pud;
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
	hydra_lookup_targets(&l, HYDRA_FILTER_ACCESSED, 0, (nr + 1) * PAGE_SIZE);
	published = this_cpu_read(hydra_published.h);
	hydra_unpublish();
	KUNIT_EXPECT_FALSE(test, published);
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&all, &many));
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, t->table[2][nr - 1]);
	/* This is looked at in parts, of which the last one has a mark. */
	hydra_mask_zero(&few);
	l.found = &few;
	l.look = HYDRA_TAKE_MARKS;
	l.copies = 0;
	hydra_lookup_targets(&l, HYDRA_FILTER_ACCESSED, 0, nr * PAGE_SIZE);
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

/* Flush some entries, as hydra_lookup_targets(). Return: has the flush published anything? */
static bool hydra_test_narrow(struct hydra_mm *h, hydra_mask_t *found, unsigned long start,
			      unsigned long end)
{
	struct hydra_lookup l = {
		.h = h,
		.huge = HYDRA_LEAF_ONLY,
		.look = HYDRA_TAKE_MARKS,
		.found = found,
	};
	bool published;

	hydra_mask_zero(found);
	hydra_lookup_targets(&l, hydra_filter(h), start, end);
	published = this_cpu_read(hydra_published.h);
	hydra_unpublish();
	return published;
}

/* Map a leaf table that domains 0 and 1 share, with copies. */
static struct hydra_table *hydra_test_map_shared(struct kunit *test, struct hydra_mm *h,
						 pteval_t *entry)
{
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	unsigned int d;

	for (d = 0; d < 2; d++) {
		t->table[d] = hydra_test_page(test);
		hydra_mask_set(d, &t->sharers);
	}
	*entry = _PAGE_TABLE | __pa(canonical);
	return t;
}

/*
 * Flushes of a private table, a hole, and three shared tables. What bounds the look is the copies
 * of shared tables alone, and the entries that lead to tables.
 */
static void hydra_test_look_wide(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	pteval_t *leaf = hydra_test_page(test), *pud = hydra_test_map(test, h, leaf);
	pteval_t *pmd = hydra_next_table(pud[0]), *last, *beyond;
	hydra_mask_t found, already = {};
	struct hydra_lookup l = {
		.h = h,
		.huge = HYDRA_LEAF_ONLY,
		.look = HYDRA_TAKE_MARKS,
		.found = &found,
	};
	enum hydra_leaf_done done;
	struct hydra_table *t[3];
	unsigned int i, other;
	unsigned long end;

	if (hydra_domains_of(h)->nr < 2)
		kunit_skip(test, "the machine has one node");
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&h->flushing, GFP_KERNEL));
	hydra_test_stats(test, h);
	for (i = 0; i < ARRAY_SIZE(t); i++)
		t[i] = hydra_test_map_shared(test, h, &pmd[2 + i]);
	migrate_disable();
	other = hydra_this_domain(h) ? 0 : 1;
	last = &t[1]->table[other][PTRS_PER_PTE - 1];
	beyond = &t[2]->table[other][0];
	hydra_word_set_solo(virt_to_ptdesc(leaf), hydra_this_domain(h));
	/* More than 4 MiB, of which one page is shared: it has no mark. */
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(h, &found, 0, 2 * PMD_SIZE + PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, hydra_mask_test(other, &found));
	/* As many copies as a look may read, in several parts */
	*last = HYDRA_PTE_MARKED;
	*beyond = HYDRA_PTE_MARKED;
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(h, &found, 0, 4 * PMD_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(other, &found));
	KUNIT_EXPECT_EQ(test, 0, *last);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, *beyond);
	/* A page more: by table */
	*last = HYDRA_PTE_MARKED;
	KUNIT_EXPECT_FALSE(test, hydra_test_narrow(h, &found, 0, 4 * PMD_SIZE + PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&t[2]->sharers, &found));
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, *last);
	/*
	 * If domains join before the look, it ends in time: the last table goes by table. Each call
	 * looks at LOOK_AT_ONCE copies.
	 */
	l.filter = HYDRA_FILTER_ACCESSED;
	l.permits = HYDRA_TAKE_MARKS;
	hydra_look_at_marks(&l, 0, 5 * PMD_SIZE, &already);
	hydra_unpublish();
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&t[2]->sharers, &found));
	KUNIT_EXPECT_EQ(test, 0, *last);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, *beyond);
	end = 3 * PMD_SIZE;
	l.copies = 0;
	preempt_disable();
	done = hydra_add_leaf(&l, hydra_next_table(pmd[2]), 2 * PMD_SIZE, &end);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, HYDRA_LEAF_BY_MARKS, done);
	KUNIT_EXPECT_EQ(test, 2 * PMD_SIZE + LOOK_AT_ONCE / 2 * PAGE_SIZE, end);
	KUNIT_EXPECT_EQ(test, LOOK_AT_ONCE, l.copies);
	/* A range that is too large goes by table; one that is not, and is empty, does not. */
	pmd[4] = 0;
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(h, &found, 0, LOOK_MAX));
	KUNIT_EXPECT_FALSE(test, hydra_mask_test(other, &found));
	KUNIT_EXPECT_FALSE(test, hydra_test_narrow(h, &found, 0, LOOK_MAX + PAGE_SIZE));
	migrate_enable();
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(other, &found));
	free_cpumask_var(h->flushing);
}

static bool hydra_test_same(const hydra_mask_t *a, const hydra_mask_t *b)
{
	return hydra_mask_subset(a, b) && hydra_mask_subset(b, a);
}

/*
 * A leaf table that another domain alone uses: it is reached under each filter, and there is
 * nothing to look at.
 */
static void hydra_test_solo_of_another(struct kunit *test)
{
	unsigned int filter, other;

	for (filter = HYDRA_FILTER_TABLE; filter <= HYDRA_FILTER_AUTO; filter++) {
		struct hydra_mm *h = hydra_test_mm(test, filter);
		pteval_t *leaf = hydra_test_page(test);
		hydra_mask_t found;
		bool published;

		if (hydra_domains_of(h)->nr < 2)
			kunit_skip(test, "the machine has one node");
		hydra_test_map(test, h, leaf);
		migrate_disable();
		other = hydra_this_domain(h) ? 0 : 1;
		hydra_word_set_solo(virt_to_ptdesc(leaf), other);
		published = hydra_test_narrow(h, &found, 5 * PAGE_SIZE, 6 * PAGE_SIZE);
		migrate_enable();
		KUNIT_EXPECT_FALSE(test, published);
		KUNIT_EXPECT_EQ(test, 1, bitmap_weight(found.bits, HYDRA_MAX_DOMAINS));
		KUNIT_EXPECT_TRUE(test, hydra_mask_test(other, &found));
	}
}

/* Filter "auto": a leaf table of two domains, this CPU's and another one, which have copies */
struct hydra_test_auto {
	struct hydra_mm *h;
	struct hydra_table *t;
	pteval_t *canonical, *pud;
	unsigned int own, other;
};

static struct hydra_test_auto hydra_test_auto(struct kunit *test)
{
	struct hydra_test_auto a = { .h = hydra_test_mm(test, HYDRA_FILTER_AUTO) };
	unsigned int d;

	if (hydra_domains_of(a.h)->nr < 2)
		kunit_skip(test, "the machine has one node");
	KUNIT_ASSERT_TRUE(test, zalloc_cpumask_var(&a.h->flushing, GFP_KERNEL));
	a.canonical = hydra_test_page(test);
	a.t = hydra_test_table(test, a.canonical, a.h, PG_LEVEL_4K);
	a.pud = hydra_test_map(test, a.h, a.canonical);
	migrate_disable();
	a.own = hydra_this_domain(a.h);
	a.other = a.own ? 0 : 1;
	for (d = 0; d < 2; d++) {
		a.t->table[d ? a.other : a.own] = hydra_test_page(test);
		hydra_mask_set(d ? a.other : a.own, &a.t->sharers);
		cpumask_set_cpu(cpumask_first(hydra_domains_of(a.h)->cpus[d ? a.other : a.own]),
				mm_cpumask(a.h->mm));
	}
	return a;
}

static void hydra_test_auto_end(struct hydra_test_auto *a)
{
	migrate_enable();
	free_cpumask_var(a->h->flushing);
}

/*
 * Both domains use page 5: looks spare nothing, and end after 64 flushes. Then flushes go by
 * table, and leave the marks. Where looks gain, the table stays with them.
 */
static void hydra_test_modes(struct kunit *test)
{
	struct hydra_test_auto a = hydra_test_auto(test);
	struct hydra_table *t = a.t;
	unsigned int i, looked = 0;
	hydra_mask_t found;

	for (i = 0; i < HYDRA_TRY_FLUSHES; i++) {
		t->table[a.own][5] = HYDRA_PTE_MARKED;
		t->table[a.other][5] = HYDRA_PTE_MARKED;
		looked += hydra_test_narrow(a.h, &found, 5 * PAGE_SIZE, 6 * PAGE_SIZE) &&
			  hydra_test_same(&found, &t->sharers) && !t->table[a.other][5];
	}
	KUNIT_EXPECT_EQ(test, HYDRA_TRY_FLUSHES, looked);
	KUNIT_EXPECT_EQ(test, HYDRA_MODE_TABLE, (u8)t->mode.state);
	KUNIT_EXPECT_EQ(test, 1, (u8)t->mode.backoff);
	KUNIT_EXPECT_FALSE(test, hydra_is_fine(a.h, t));
	t->table[a.other][6] = HYDRA_PTE_MARKED;
	KUNIT_EXPECT_FALSE(test, hydra_test_narrow(a.h, &found, 5 * PAGE_SIZE, 7 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_test_same(&found, &t->sharers));
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, t->table[a.other][6]);
	KUNIT_EXPECT_EQ(test, HYDRA_REST_FLUSHES - 1, t->mode.rest);
	/* The next try finds that one interrupt is spared for each two looks. */
	t->mode = (struct hydra_mode){};
	for (i = 0; t->mode.state != HYDRA_MODE_FINE && i <= HYDRA_TRY_FLUSHES; i++)
		hydra_account(t, 1, 2);
	KUNIT_EXPECT_EQ(test, HYDRA_TRY_FLUSHES, i);
	KUNIT_EXPECT_TRUE(test, hydra_is_fine(a.h, t));
	/* The old mark is one target too many, once. */
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(a.h, &found, 6 * PAGE_SIZE, 7 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(a.other, &found));
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(a.h, &found, 6 * PAGE_SIZE, 7 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_mask_empty(&found));
	/* A CPU that breaks its promise: by table, whatever the mode is */
	WRITE_ONCE(hydra_marks_failed, true);
	KUNIT_EXPECT_FALSE(test, hydra_test_narrow(a.h, &found, 6 * PAGE_SIZE, 7 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_test_same(&found, &t->sharers));
	WRITE_ONCE(hydra_marks_failed, false);
	/* More copies than the interrupts are worth: by table, and no part of the account */
	i = t->mode.tally;
	KUNIT_EXPECT_FALSE(test, hydra_test_narrow(a.h, &found, 0, 100 * PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_test_same(&found, &t->sharers));
	KUNIT_EXPECT_EQ(test, i, t->mode.tally);
	hydra_test_auto_end(&a);
}

/*
 * A range in two tables: the first one looks at marks, the second one goes by table. All
 * sharers of the second are reached, and of the first the domains with a mark.
 */
static void hydra_test_mixed(struct kunit *test)
{
	struct hydra_test_auto a = hydra_test_auto(test);
	pteval_t *second = hydra_test_page(test), *pmd = hydra_next_table(a.pud[0]);
	struct hydra_table *by_table = hydra_test_table(test, second, a.h, PG_LEVEL_4K);
	const unsigned long start = PMD_SIZE - PAGE_SIZE, end = PMD_SIZE + PAGE_SIZE;
	unsigned int third = a.own == 2 || a.other == 2 ? 1 : 2;
	pteval_t *last = &a.t->table[a.other][PTRS_PER_PTE - 1];
	hydra_mask_t found;

	pmd[1] = _PAGE_TABLE | __pa(second);
	by_table->base = PMD_SIZE;
	by_table->mode.state = HYDRA_MODE_TABLE;
	by_table->mode.backoff = 1;
	by_table->mode.rest = HYDRA_REST_FLUSHES;
	hydra_mask_set(a.own, &by_table->sharers);
	if (HYDRA_MAX_DOMAINS > 2) {
		hydra_mask_set(third, &by_table->sharers);
		by_table->table[third] = hydra_test_page(test);
		by_table->table[third][0] = HYDRA_PTE_MARKED;
	}
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(a.h, &found, start, end));
	KUNIT_EXPECT_TRUE(test, hydra_test_same(&found, &by_table->sharers));
	*last = HYDRA_PTE_MARKED;
	KUNIT_EXPECT_TRUE(test, hydra_test_narrow(a.h, &found, start, end));
	KUNIT_EXPECT_TRUE(test, hydra_mask_test(a.other, &found));
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&by_table->sharers, &found));
	KUNIT_EXPECT_EQ(test, 0, *last);
	if (HYDRA_MAX_DOMAINS > 2)
		KUNIT_EXPECT_EQ(test, HYDRA_PTE_MARKED, by_table->table[third][0]);
	/* Each has its own account. */
	KUNIT_EXPECT_EQ(test, 2, (u8)a.t->mode.tried);
	KUNIT_EXPECT_EQ(test, HYDRA_REST_FLUSHES - 2, by_table->mode.rest);
	hydra_test_auto_end(&a);
}

/* Tables ask for a look at too many copies: the flush goes by table, and each pays for it once. */
static void hydra_test_askers_pay(struct kunit *test)
{
	struct hydra_test_auto a = hydra_test_auto(test);
	pteval_t *pmd = hydra_next_table(a.pud[0]);
	struct hydra_table *by_table = hydra_test_map_shared(test, a.h, &pmd[1]);
	hydra_mask_t found = {};
	struct hydra_lookup l = {
		.h = a.h,
		.huge = HYDRA_LEAF_ONLY,
		.look = HYDRA_TAKE_MARKS,
		.copies = HYDRA_COPIES_MAX,
		.found = &found,
	};

	by_table->mode.state = HYDRA_MODE_TABLE;
	by_table->mode.backoff = 1;
	by_table->mode.rest = HYDRA_REST_FLUSHES;
	a.h->rent_flush = 1;
	hydra_lookup_targets(&l, HYDRA_FILTER_AUTO, PMD_SIZE - PAGE_SIZE, PMD_SIZE + PAGE_SIZE);
	KUNIT_EXPECT_NULL(test, this_cpu_read(hydra_published.h));
	KUNIT_EXPECT_TRUE(test, hydra_mask_subset(&a.t->sharers, &found));
	KUNIT_EXPECT_EQ(test, 1, a.t->rent);
	KUNIT_EXPECT_EQ(test, 1, by_table->rent);
	KUNIT_EXPECT_EQ(test, HYDRA_REST_FLUSHES - 1, by_table->mode.rest);
	hydra_test_auto_end(&a);
}

/* Does a flush of a range go to some domains only? */
static bool hydra_test_filtered(struct hydra_mm *h, unsigned long start, unsigned long end)
{
	hydra_mask_t targets;
	bool filtered;

	preempt_disable();
	filtered = hydra_range_targets(h, start, end, HYDRA_TAKE_MARKS, &targets);
	preempt_enable();
	return filtered && hydra_mask_test(1, &targets);
}

/*
 * How many tables a flush may look up. Here, 2 GiB have leaf tables, of which each is the same:
 * first of domain 1 alone, then shared.
 */
static void hydra_test_budget(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *leaf = hydra_test_page(test), *pud = hydra_test_map(test, h, leaf);
	pteval_t *pmd = hydra_next_table(pud[0]);
	struct hydra_lookup l = { .h = h, .look = HYDRA_BY_TABLE, .walked = true };
	hydra_mask_t found;
	unsigned int i;

	hydra_word_set_solo(virt_to_ptdesc(leaf), 1);
	for (i = 1; i < PTRS_PER_PMD; i++)
		pmd[i] = pmd[0];
	pud[1] = pud[0];
	KUNIT_EXPECT_TRUE(test, hydra_test_filtered(h, 0, PAGE_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_test_filtered(h, 0, 64 * SZ_1M));
	KUNIT_EXPECT_TRUE(test, hydra_test_filtered(h, 0, 2 * PUD_SIZE));
	/* A part of the next entry is the 1,025th. */
	KUNIT_EXPECT_FALSE(test, hydra_test_filtered(h, 0, 2 * PUD_SIZE + PAGE_SIZE));
	/* Where there is nothing, each entry is skipped as a whole. */
	KUNIT_EXPECT_TRUE(test, hydra_test_filtered(h, PUD_SIZE, 500 * PUD_SIZE));
	KUNIT_EXPECT_FALSE(test, hydra_test_filtered(h, 0, 4 * PUD_SIZE));
	hydra_mask_set(1, &hydra_test_table(test, leaf, h, PG_LEVEL_4K)->sharers);
	KUNIT_EXPECT_TRUE(test, hydra_test_filtered(h, 0, PUD_SIZE));
	KUNIT_EXPECT_FALSE(test, hydra_test_filtered(h, 0, PUD_SIZE + PMD_SIZE));
	/* A gather has a larger budget. */
	l.found = &found;
	hydra_mask_zero(&found);
	for (i = 2; i < PTRS_PER_PUD; i++)
		pud[i] = pud[0];
	hydra_range_sharers(&l, 0, GATHER_TIMES * PUD_SIZE);
	KUNIT_EXPECT_FALSE(test, l.spent);
	KUNIT_EXPECT_EQ(test, GATHER_TIMES * LOOKUP_SHARED, l.shared);
	hydra_range_sharers(&l, 0, 400 * PUD_SIZE);
	KUNIT_EXPECT_TRUE(test, l.spent);
	/* It ends at once. */
	KUNIT_EXPECT_EQ(test, GATHER_TIMES * LOOKUP_SHARED + 1, l.shared);
}

#undef HUGE_A

static struct kunit_case hydra_flush_cases[] = {
	KUNIT_CASE(hydra_test_range_sharers),
	KUNIT_CASE(hydra_test_gather),
	KUNIT_CASE(hydra_test_drop),
	KUNIT_CASE(hydra_test_gather_marked),
	KUNIT_CASE(hydra_test_marked),
	KUNIT_CASE(hydra_test_linked_hits),
	KUNIT_CASE(hydra_test_publish),
	KUNIT_CASE(hydra_test_look_bound),
	KUNIT_CASE(hydra_test_look_wide),
	KUNIT_CASE(hydra_test_askers_pay),
	KUNIT_CASE(hydra_test_solo_of_another),
	KUNIT_CASE(hydra_test_modes),
	KUNIT_CASE(hydra_test_mixed),
	KUNIT_CASE(hydra_test_budget),
	{}
};

static struct kunit_suite hydra_flush_suite = {
	.name = "hydra-flush",
	.test_cases = hydra_flush_cases,
};

kunit_test_suite(hydra_flush_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
