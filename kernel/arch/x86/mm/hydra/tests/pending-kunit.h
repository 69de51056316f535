/* SPDX-License-Identifier: GPL-2.0-only */
/* Drops that are announced by place, and which gathers see them. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include <kunit/test.h>

/* Consecutive places never have a counter in common: a gather knows what it has raised itself. */
static void hydra_test_places(struct kunit *test)
{
	const unsigned long first = hydra_place_of(0x100000000000UL);
	struct hydra_pending *pending = NULL;
	unsigned long i, apart;

	for (i = 0; i < 4 * PENDING_COUNTERS; i++)
		for (apart = 1; apart < HYDRA_PLACES_MAX; apart++)
			KUNIT_EXPECT_PTR_NE(test, hydra_counter_of(pending, first + i),
					    hydra_counter_of(pending, first + i + apart));
	KUNIT_EXPECT_EQ(test, 1, hydra_nr_places(PMD_SIZE, 2 * PMD_SIZE));
	KUNIT_EXPECT_EQ(test, 2, hydra_nr_places(PMD_SIZE, 2 * PMD_SIZE + 1));
	KUNIT_EXPECT_EQ(test, 2, hydra_nr_places(2 * PMD_SIZE - PAGE_SIZE,
						 2 * PMD_SIZE + PAGE_SIZE));
}

/* An active address space with counters, and a VMA of 64 places */
static void hydra_test_pending_begin(struct kunit *test, struct hydra_mm *h,
				     struct mm_struct *mm, struct vm_area_struct *vma)
{
	memset(h, 0, sizeof(*h));
	h->mm = mm;
	h->active = true;
	h->pending = kunit_kcalloc(test, PENDING_COUNTERS, sizeof(*h->pending), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h->pending);
	mm->hydra = h;
	vma->vm_mm = mm;
	vma->vm_start = 0x100000000000UL;
	vma->vm_end = vma->vm_start + 64 * PMD_SIZE;
}

static struct hydra_gather hydra_test_new_gather(void)
{
	return (struct hydra_gather) { .ranged = true, .start = ULONG_MAX };
}

/* What announces by place, and what does not. */
static void hydra_test_announce(struct kunit *test)
{
	static const struct {
		unsigned long from, to;		/* in pages */
		unsigned int places;
	} rows[] = {
		{ 0, 1, 1 },
		{ 511, 512, 1 },
		{ 511, 513, 2 },
		{ 0, 4 * 512, 4 },
		{ 1, 4 * 512 + 1, 0 },		/* five */
		{ 5, 5, 0 },
		{ 0, 64 * 512 + 1, 0 },		/* beyond the VMA */
	};
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);
	struct hydra_mm *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);
	struct hydra_pending *pending;
	struct hydra_gather g;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, vma);
	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_NOT_NULL(test, h);
	hydra_test_pending_begin(test, h, mm, vma);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned long start = vma->vm_start + rows[i].from * PAGE_SIZE;
		unsigned long end = vma->vm_start + rows[i].to * PAGE_SIZE;

		g = hydra_test_new_gather();
		KUNIT_EXPECT_EQ_MSG(test, rows[i].places > 0,
				    hydra_gather_announce(&g, vma, start, end), "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].places, g.nr_places, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].places > 0,
				    hydra_drops_in(h, vma->vm_start, vma->vm_end), "row %d", i);
		hydra_withdraw(&g, h);
		KUNIT_EXPECT_FALSE(test, hydra_drops_in(h, vma->vm_start, vma->vm_end));
	}
	g = hydra_test_new_gather();
	h->active = false;
	KUNIT_EXPECT_FALSE(test, hydra_gather_announce(&g, vma, vma->vm_start,
						       vma->vm_start + PAGE_SIZE));
	h->active = true;
	pending = h->pending;
	h->pending = NULL;
	KUNIT_EXPECT_FALSE(test, hydra_gather_announce(&g, vma, vma->vm_start,
						       vma->vm_start + PAGE_SIZE));
	h->pending = pending;
	vm_flags_init(vma, VM_HUGETLB);
	KUNIT_EXPECT_FALSE(test, hydra_gather_announce(&g, vma, vma->vm_start,
						       vma->vm_start + PMD_SIZE));
}

/* Two gathers: which sees which? */
static void hydra_test_beside(struct kunit *test)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);
	struct hydra_mm *h = kunit_kzalloc(test, sizeof(*h), GFP_KERNEL);
	struct hydra_gather one, two, wide, older;
	unsigned long start;

	KUNIT_ASSERT_NOT_NULL(test, vma);
	KUNIT_ASSERT_NOT_NULL(test, mm);
	KUNIT_ASSERT_NOT_NULL(test, h);
	hydra_test_pending_begin(test, h, mm, vma);
	start = vma->vm_start;
	one = hydra_test_new_gather();
	two = hydra_test_new_gather();
	KUNIT_ASSERT_TRUE(test, hydra_gather_announce(&one, vma, start, start + PMD_SIZE));
	KUNIT_EXPECT_FALSE(test, hydra_beside(&one, h));
	/* Disjoint places, then one in common. */
	KUNIT_ASSERT_TRUE(test, hydra_gather_announce(&two, vma, start + PMD_SIZE,
						      start + 3 * PMD_SIZE));
	KUNIT_EXPECT_FALSE(test, hydra_beside(&one, h));
	KUNIT_EXPECT_FALSE(test, hydra_beside(&two, h));
	hydra_withdraw(&two, h);
	KUNIT_ASSERT_TRUE(test, hydra_gather_announce(&two, vma, start,
						      start + 3 * PMD_SIZE));
	KUNIT_EXPECT_TRUE(test, hydra_beside(&one, h));
	KUNIT_EXPECT_TRUE(test, hydra_beside(&two, h));
	KUNIT_EXPECT_FALSE(test, hydra_gather_alone_at(&two, h, start));
	KUNIT_EXPECT_TRUE(test, hydra_gather_alone_at(&two, h, start + PMD_SIZE));
	hydra_withdraw(&two, h);
	/* A gather that raises tlb_flush_pending meets those in its range, and is met by all. */
	wide = hydra_test_new_gather();
	atomic_inc(&mm->tlb_flush_pending);
	wide.start = start + PMD_SIZE;
	wide.end = start + 9 * PMD_SIZE;
	KUNIT_EXPECT_FALSE(test, hydra_beside(&wide, h));
	KUNIT_EXPECT_TRUE(test, hydra_beside(&one, h));
	KUNIT_EXPECT_FALSE(test, hydra_gather_alone_at(&one, h, start));
	KUNIT_EXPECT_FALSE(test, hydra_gather_alone_at(&wide, h, start));
	KUNIT_EXPECT_TRUE(test, hydra_gather_alone_at(&wide, h, start + PMD_SIZE));
	wide.start = start;
	KUNIT_EXPECT_TRUE(test, hydra_beside(&wide, h));
	/* As many places as counters, and a range that is not known */
	wide.end = start + PENDING_COUNTERS * PMD_SIZE;
	KUNIT_EXPECT_TRUE(test, hydra_beside(&wide, h));
	wide.start = ULONG_MAX;
	wide.end = 0;
	KUNIT_EXPECT_TRUE(test, hydra_beside(&wide, h));
	/* After a return to Linux as before */
	h->active = false;
	KUNIT_EXPECT_TRUE(test, hydra_beside(&wide, h));
	/* A grace period later, too, while a counter is not 0; then none is looked at. */
	WRITE_ONCE(h->return_gp, start_poll_synchronize_rcu());
	while (!poll_state_synchronize_rcu(h->return_gp))
		synchronize_rcu();
	KUNIT_EXPECT_TRUE(test, hydra_beside(&wide, h));
	hydra_withdraw(&one, h);
	KUNIT_EXPECT_FALSE(test, hydra_beside(&wide, h));
	KUNIT_EXPECT_TRUE(test, hydra_drained(h));
	atomic_inc(&h->pending->drops);
	KUNIT_EXPECT_TRUE(test, hydra_drained(h));
	/* The next split, its return, and the one before its grace period */
	h->active = true;
	KUNIT_EXPECT_FALSE(test, hydra_drained(h));
	WRITE_ONCE(h->return_gp, 0);
	h->active = false;
	KUNIT_EXPECT_FALSE(test, hydra_drained(h));
	WRITE_ONCE(h->return_gp, start_poll_synchronize_rcu());
	KUNIT_EXPECT_FALSE(test, hydra_drained(h));
	atomic_dec(&h->pending->drops);
	while (!poll_state_synchronize_rcu(h->return_gp))
		synchronize_rcu();
	KUNIT_EXPECT_TRUE(test, hydra_drained(h));
	h->active = true;
	/* From before the split */
	older = (struct hydra_gather) {};
	KUNIT_EXPECT_TRUE(test, hydra_beside(&older, h));
	h->pending = NULL;
	KUNIT_EXPECT_FALSE(test, hydra_beside(&older, h));
	KUNIT_EXPECT_FALSE(test, hydra_beside(&wide, h));
}

static struct kunit_case hydra_pending_cases[] = {
	KUNIT_CASE(hydra_test_places),
	KUNIT_CASE(hydra_test_announce),
	KUNIT_CASE(hydra_test_beside),
	{}
};

static struct kunit_suite hydra_pending_suite = {
	.name = "hydra-pending",
	.test_cases = hydra_pending_cases,
};

kunit_test_suite(hydra_pending_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
