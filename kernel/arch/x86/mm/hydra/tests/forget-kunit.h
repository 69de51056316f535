/* SPDX-License-Identifier: GPL-2.0-only */
/* Looks at the links of domains, and the rent that they count. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define LINK		(0x67890000 | (_PAGE_TABLE_NOENC & ~(pteval_t)_PAGE_ACCESSED))
#define AGED(age)	(LINK | (pteval_t)(age) << HYDRA_LINK_AGE_SHIFT)

static void hydra_test_age_link(struct kunit *test)
{
	static const struct {
		pteval_t before;
		u8 quarters;
		pteval_t after;
		bool leaves;
	} rows[] = {
		{ LINK, 1, AGED(1), false },
		{ AGED(1), 1, AGED(2), false },
		{ AGED(2), 1, AGED(3), true },
		{ LINK, 3, AGED(3), true },
		{ AGED(6), 3, AGED(7), true },
		{ AGED(7), 1, AGED(7), true },
		{ LINK | _PAGE_ACCESSED, 3, LINK, false },
		{ AGED(7) | _PAGE_ACCESSED, 1, LINK, false },
		/* Cut, or the copy of a huge page with a stamp */
		{ 0, 3, 0, false },
		{ LINK | _PAGE_PSE | HYDRA_PTE_MARK, 3, LINK | _PAGE_PSE | HYDRA_PTE_MARK, false },
		{ HYDRA_PTE_REFILL | HYDRA_PTE_MARK, 3, HYDRA_PTE_REFILL | HYDRA_PTE_MARK, false },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t link = rows[i].before;

		KUNIT_EXPECT_EQ_MSG(test, rows[i].leaves,
				    hydra_age_link(&link, rows[i].quarters), "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, link, "row %d", i);
		/* The bits say nothing of the table. */
		KUNIT_EXPECT_EQ_MSG(test, hydra_is_table(rows[i].before), hydra_is_table(link),
				    "row %d", i);
		if (hydra_is_table(link))
			KUNIT_EXPECT_TRUE_MSG(test, hydra_same_table(LINK, link), "row %d", i);
	}
}

/* A PMD table, with leaf tables that two domains share, or one uses alone */
struct hydra_test_look {
	struct hydra_mm *h;
	struct hydra_table *parent;
	pteval_t *pmd, *own[2];
};

static struct hydra_test_look hydra_test_look(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_test_look look = { .h = h, .pmd = hydra_test_page(test) };
	unsigned int d;

	look.parent = hydra_test_table(test, look.pmd, h, PG_LEVEL_2M);
	for (d = 0; d < 2; d++) {
		look.own[d] = hydra_test_page(test);
		look.parent->table[d] = look.own[d];
	}
	return look;
}

static struct hydra_table *hydra_test_share(struct kunit *test, struct hydra_test_look *look,
					    unsigned int i, u8 rent)
{
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, look->h, PG_LEVEL_4K);
	unsigned int d;

	hydra_table_init(t, look->h, look->parent, i * PMD_SIZE, PG_LEVEL_4K);
	t->rent = rent;
	look->pmd[i] = _PAGE_TABLE | __pa(canonical);
	for (d = 0; d < 2; d++) {
		hydra_mask_set(d, &t->users);
		look->own[d][i] = AGED(2);
	}
	return t;
}

/* Looks at parts: which links age, what rent is left, and where the next look begins. */
static void hydra_test_look_at_part(struct kunit *test)
{
	struct hydra_test_look look = hydra_test_look(test);
	struct hydra_table *t, *poor;
	pteval_t *alone = hydra_test_page(test);

	if (HYDRA_MAX_DOMAINS < 2)
		kunit_skip(test, "needs two domains");
	t = hydra_test_share(test, &look, 66, HYDRA_RENT_QUARTER + 5);
	poor = hydra_test_share(test, &look, 67, HYDRA_RENT_QUARTER - 1);
	look.own[1][66] |= _PAGE_ACCESSED;
	hydra_word_set_solo(virt_to_ptdesc(alone), 0);
	look.pmd[65] = _PAGE_TABLE | __pa(alone);
	look.own[0][65] = AGED(2);

	/* A part without tables of several domains */
	KUNIT_EXPECT_EQ(test, 0, hydra_look_at_part(look.h, look.pmd, true, false, 8));
	KUNIT_EXPECT_EQ(test, 64 * PMD_SIZE, look.h->look_at);
	/* Rent of a quarter, and less: domain 0 leaves the one, domain 1 has used it. */
	KUNIT_EXPECT_EQ(test, BIT(2), hydra_look_at_part(look.h, look.pmd, false, false, 8));
	KUNIT_EXPECT_EQ(test, 128 * PMD_SIZE, look.h->look_at);
	KUNIT_EXPECT_EQ(test, AGED(3), look.own[0][66]);
	KUNIT_EXPECT_EQ(test, LINK, look.own[1][66]);
	KUNIT_EXPECT_EQ(test, 5, t->rent);
	KUNIT_EXPECT_EQ(test, AGED(2), look.own[0][67]);
	KUNIT_EXPECT_EQ(test, HYDRA_RENT_QUARTER - 1, poor->rent);
	/* An idle look takes tables without rent, too. */
	look.h->look_at = 64 * PMD_SIZE;
	KUNIT_EXPECT_EQ(test, BIT(2) | BIT(3),
			hydra_look_at_part(look.h, look.pmd, true, false, 8));
	KUNIT_EXPECT_EQ(test, AGED(1), look.own[1][66]);
	KUNIT_EXPECT_EQ(test, AGED(3), look.own[0][67]);
	KUNIT_EXPECT_EQ(test, HYDRA_RENT_QUARTER - 1, poor->rent);
	KUNIT_EXPECT_EQ(test, AGED(2), look.own[0][65]);
	/* Room for one table that domains leave: the next look begins after it. */
	look.h->look_at = 64 * PMD_SIZE;
	KUNIT_EXPECT_EQ(test, BIT(2), hydra_look_at_part(look.h, look.pmd, true, false, 1));
	KUNIT_EXPECT_EQ(test, 67 * PMD_SIZE, look.h->look_at);
	KUNIT_EXPECT_EQ(test, BIT(0), hydra_look_at_part(look.h, look.pmd, true, false, 1));
	KUNIT_EXPECT_EQ(test, 68 * PMD_SIZE, look.h->look_at);
	/* A table that all domains have left */
	hydra_mask_zero(&t->users);
	hydra_mask_zero(&poor->users);
	look.h->look_at = 64 * PMD_SIZE;
	KUNIT_EXPECT_EQ(test, 0, hydra_look_at_part(look.h, look.pmd, true, false, 8));
}

/* A table that one domain of another node still uses has lost its owner. */
static void hydra_test_lost_owner(struct kunit *test)
{
	struct hydra_test_look look = hydra_test_look(test);
	struct hydra_table *t = hydra_test_share(test, &look, 66, 0);
	const pteval_t *canonical = hydra_next_table(look.pmd[66]);
	const int *home = hydra_domains_of(look.h)->home;
	unsigned int d, at_home = home[0] != page_to_nid(virt_to_page(canonical));

	if (HYDRA_MAX_DOMAINS < 2 || home[0] == home[1] ||
	    home[at_home] != page_to_nid(virt_to_page(canonical)))
		kunit_skip(test, "needs a table on the first or second of two nodes");
	d = !at_home;
	look.own[d][66] = LINK;
	KUNIT_EXPECT_FALSE(test, hydra_has_lost_owner(look.h, canonical));
	hydra_mask_clear(at_home, &t->users);
	KUNIT_EXPECT_TRUE(test, hydra_has_lost_owner(look.h, canonical));
	look.own[d][66] = AGED(2);
	KUNIT_EXPECT_FALSE(test, hydra_has_lost_owner(look.h, canonical));
	look.own[d][66] |= _PAGE_ACCESSED;
	KUNIT_EXPECT_TRUE(test, hydra_has_lost_owner(look.h, canonical));
	/* A look that moves no table passes it by. */
	look.h->look_at = 64 * PMD_SIZE;
	KUNIT_EXPECT_EQ(test, 0, hydra_look_at_part(look.h, look.pmd, true, false, 8));
	look.h->look_at = 64 * PMD_SIZE;
	look.own[d][66] |= _PAGE_ACCESSED;
	KUNIT_EXPECT_EQ(test, BIT(2), hydra_look_at_part(look.h, look.pmd, true, true, 8));
	KUNIT_EXPECT_EQ(test, LINK, look.own[d][66]);
	hydra_mask_set(at_home, &look.h->universal);
	KUNIT_EXPECT_FALSE(test, hydra_has_lost_owner(look.h, canonical));
	hydra_mask_zero(&look.h->universal);
	hydra_mask_zero(&t->users);
	KUNIT_EXPECT_FALSE(test, hydra_has_lost_owner(look.h, canonical));
	hydra_mask_set(at_home, &t->users);
	look.own[at_home][66] = LINK;
	KUNIT_EXPECT_FALSE(test, hydra_has_lost_owner(look.h, canonical));
}

/* Empty tables above the PMD tables: a look stops, and the next one goes on. */
static void hydra_test_walk_bound(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *pmd = hydra_test_page(test), *pud[2], *root = hydra_test_page(test), *top = root;
	struct hydra_iter it = { .mm = h->mm, .level = PG_LEVEL_2M, .steps = 100 };
	unsigned long from;

	pud[0] = hydra_test_page(test);
	pud[1] = hydra_test_page(test);
	pud[1][3] = _PAGE_TABLE | __pa(pmd);
	root[0] = _PAGE_TABLE | __pa(pud[0]);
	root[1] = _PAGE_TABLE | __pa(pud[1]);
	if (pgtable_l5_enabled()) {
		top = hydra_test_page(test);
		top[0] = _PAGE_TABLE | __pa(root);
	}
	h->mm->pgd = (pgd_t *)top;
	h->active = true;

	local_irq_disable();
	KUNIT_EXPECT_FALSE(test, hydra_next_canonical(&it));
	KUNIT_EXPECT_EQ(test, 100 * PUD_SIZE, it.next);
	KUNIT_EXPECT_EQ(test, 0, hydra_look_on(h, true, false, 1, &from));
	KUNIT_EXPECT_EQ(test, STEPS_AT_ONCE * PUD_SIZE, h->look_at);
	it.steps = 0;
	KUNIT_EXPECT_TRUE(test, hydra_next_canonical(&it));
	KUNIT_EXPECT_EQ(test, (PTRS_PER_PUD + 3) * PUD_SIZE, it.addr);
	KUNIT_EXPECT_PTR_EQ(test, pmd, it.table);
	/* The end of the address space, and one that is not split */
	KUNIT_EXPECT_FALSE(test, hydra_next_canonical(&it));
	KUNIT_EXPECT_GE(test, it.next, TASK_SIZE_MAX);
	h->active = false;
	KUNIT_EXPECT_EQ(test, 0, hydra_look_on(h, true, false, 1, &from));
	KUNIT_EXPECT_GE(test, h->look_at, TASK_SIZE_MAX);
	local_irq_enable();
}

/* Rent is noted once in the PMD table, for the part, until a look takes the part. */
static void hydra_test_pay(struct kunit *test)
{
	struct hydra_test_look look = hydra_test_look(test);
	struct hydra_table *t = hydra_test_share(test, &look, 66, 0);

	/* The keeper is not to run. */
	look.h->rent_due = true;
	hydra_pay(t, 0);
	KUNIT_EXPECT_EQ(test, 0, t->rent);
	hydra_pay(t, HYDRA_RENT_QUARTER - 1);
	KUNIT_EXPECT_EQ(test, HYDRA_RENT_QUARTER - 1, t->rent);
	KUNIT_EXPECT_EQ(test, 0, look.parent->rent);
	hydra_pay(t, 1);
	KUNIT_EXPECT_EQ(test, BIT(1), look.parent->rent);
	hydra_pay(t, 250);
	KUNIT_EXPECT_EQ(test, HYDRA_RENT_MAX, t->rent);

	look.h->look_at = 0;
	KUNIT_EXPECT_FALSE(test, hydra_take_part(look.h, look.parent, false));
	KUNIT_EXPECT_TRUE(test, hydra_take_part(look.h, look.parent, true));
	KUNIT_EXPECT_EQ(test, BIT(1), look.parent->rent);
	look.h->look_at = 64 * PMD_SIZE;
	KUNIT_EXPECT_TRUE(test, hydra_take_part(look.h, look.parent, false));
	KUNIT_EXPECT_EQ(test, 0, look.parent->rent);
	KUNIT_EXPECT_FALSE(test, hydra_take_part(look.h, look.parent, false));
	/* A table at its maximum asks for the next look, too. */
	hydra_pay(t, 1);
	KUNIT_EXPECT_EQ(test, BIT(1), look.parent->rent);
	/* In the middle of a part */
	look.h->look_at = 65 * PMD_SIZE;
	KUNIT_EXPECT_TRUE(test, hydra_take_part(look.h, look.parent, false));
	KUNIT_EXPECT_EQ(test, BIT(1), look.parent->rent);

	/* 3 entries of a leaf table; a huge entry pays nothing. */
	t->rent = 0;
	look.h->rent_change = 13;
	hydra_pay_changes(t, 3);
	KUNIT_EXPECT_EQ(test, 39, t->rent);
	hydra_pay_changes(t, PTRS_PER_PTE);
	KUNIT_EXPECT_EQ(test, HYDRA_RENT_MAX, t->rent);
	look.parent->rent = 0;
	hydra_pay_changes(look.parent, 3);
	KUNIT_EXPECT_EQ(test, 0, look.parent->rent);
}

#undef LINK
#undef AGED

static struct kunit_case hydra_forget_cases[] = {
	KUNIT_CASE(hydra_test_age_link),
	KUNIT_CASE(hydra_test_look_at_part),
	KUNIT_CASE(hydra_test_lost_owner),
	KUNIT_CASE(hydra_test_walk_bound),
	KUNIT_CASE(hydra_test_pay),
	{}
};

static struct kunit_suite hydra_forget_suite = {
	.name = "hydra-forget",
	.test_cases = hydra_forget_cases,
};

kunit_test_suite(hydra_forget_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
