/* SPDX-License-Identifier: GPL-2.0-only */
/* Changes of a canonical entry, and the copies afterwards. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define PAGE_A	(0x12345000 | _PAGE_PRESENT | _PAGE_USER)
#define PAGE_B	(0x54321000 | _PAGE_PRESENT | _PAGE_USER)
#define HUGE_A	(0x12200000 | _PAGE_PRESENT | _PAGE_USER | _PAGE_PSE)
#define TABLE	(0x67890000 | _PAGE_TABLE_NOENC)
#define MARK	HYDRA_PTE_MARKED

/* A change of a canonical entry, and the copy of one domain afterwards. */
static void hydra_test_update_copy(struct kunit *test)
{
	static const struct {
		enum pg_level level;
		pteval_t before, canonical, after;
	} rows[] = {
		/* The domain has not faulted on the entry. */
		{ PG_LEVEL_4K, 0, PAGE_A, 0 },
		{ PG_LEVEL_4K, HYDRA_PTE_REFILL, PAGE_A | _PAGE_RW, PAGE_A },
		{ PG_LEVEL_4K, HYDRA_PTE_REFILL, 0, HYDRA_PTE_REFILL },
		{ PG_LEVEL_4K, PAGE_A, 0, HYDRA_PTE_REFILL },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_RW | _PAGE_DIRTY, PAGE_A, PAGE_A },
		/* Write-protected: no shadow stack. */
		{ PG_LEVEL_4K, PAGE_A | _PAGE_RW | _PAGE_DIRTY, PAGE_A | _PAGE_SAVED_DIRTY,
		  PAGE_A },
		/* NUMA balancing looks for the users of the page: the domain has to fault. */
		{ PG_LEVEL_4K, PAGE_A, (PAGE_A & ~(pteval_t)_PAGE_PRESENT) | _PAGE_PROTNONE,
		  HYDRA_PTE_REFILL },
		{ PG_LEVEL_2M, HUGE_A, (HUGE_A & ~(pteval_t)_PAGE_PRESENT) | _PAGE_PROTNONE,
		  HYDRA_PTE_REFILL },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY | _PAGE_ACCESSED | MARK },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, PAGE_B, PAGE_B | MARK },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, PAGE_A, PAGE_A | _PAGE_ACCESSED },
		{ PG_LEVEL_4K, PAGE_A | _PAGE_ACCESSED, 0, HYDRA_PTE_REFILL | MARK },
		{ PG_LEVEL_4K, PAGE_A, PAGE_B, PAGE_B },
		/* A mark stays. */
		{ PG_LEVEL_4K, HYDRA_PTE_REFILL | MARK, PAGE_A, PAGE_A | MARK },
		{ PG_LEVEL_4K, HYDRA_PTE_REFILL | MARK, 0, HYDRA_PTE_REFILL | MARK },
		{ PG_LEVEL_4K, PAGE_A | MARK, PAGE_A, PAGE_A | MARK },
		{ PG_LEVEL_4K, PAGE_A | MARK, PAGE_B, PAGE_B | MARK },
		{ PG_LEVEL_4K, PAGE_A | MARK, 0, HYDRA_PTE_REFILL | MARK },
		{ PG_LEVEL_2M, HUGE_A | _PAGE_ACCESSED, 0, HYDRA_PTE_REFILL | MARK },
		{ PG_LEVEL_2M, HYDRA_PTE_REFILL, HUGE_A | _PAGE_RW, HUGE_A },
		{ PG_LEVEL_2M, HUGE_A, 0, HYDRA_PTE_REFILL },
		/* A huge page is split: a table replaces the huge entry. */
		{ PG_LEVEL_2M, HUGE_A | _PAGE_ACCESSED, TABLE, HYDRA_PTE_REFILL | MARK },
		/* The way of the domain to a leaf table is no copy. */
		{ PG_LEVEL_2M, TABLE, HUGE_A, TABLE },
		{ PG_LEVEL_2M, TABLE, 0, TABLE },
	};
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hydra_table t = { .level = rows[i].level, .hmm = h };
		pteval_t copy = rows[i].before;

		KUNIT_EXPECT_EQ_MSG(test, rows[i].before != rows[i].after,
				    hydra_update_copy(&t, &copy, rows[i].canonical),
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, copy, "row %d", i);
	}
}

/* Under filter "entry" every present copy counts as possibly cached by a TLB. */
static void hydra_test_mark_present(struct kunit *test)
{
	static const struct {
		pteval_t before, canonical, after;
	} rows[] = {
		{ PAGE_A, PAGE_A, PAGE_A },
		{ PAGE_A, PAGE_B, PAGE_B | MARK },
		{ PAGE_A, PAGE_A | _PAGE_NX, PAGE_A | _PAGE_NX | MARK },
		{ PAGE_A, 0, HYDRA_PTE_REFILL | MARK },
		{ HYDRA_PTE_REFILL, PAGE_A, PAGE_A },
		{ 0, PAGE_A, 0 },
	};
	struct hydra_table t = {
		.level = PG_LEVEL_4K,
		.hmm = hydra_test_mm(test, HYDRA_FILTER_ENTRY),
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t copy = rows[i].before;

		hydra_update_copy(&t, &copy, rows[i].canonical);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, copy, "row %d", i);
	}
}

/*
 * Under replication "eager" a domain also gets present entries on which no CPU of the
 * domain has faulted.
 */
static void hydra_test_push(struct kunit *test)
{
	static const struct {
		enum pg_level level;
		pteval_t before, canonical, after;
	} rows[] = {
		{ PG_LEVEL_4K, 0, PAGE_A | _PAGE_RW, PAGE_A },
		{ PG_LEVEL_4K, MARK, PAGE_A, PAGE_A | MARK },
		{ PG_LEVEL_4K, 0, 0, 0 },
		{ PG_LEVEL_4K, PAGE_A, 0, HYDRA_PTE_REFILL },
		{ PG_LEVEL_2M, 0, HUGE_A, HUGE_A },
		{ PG_LEVEL_2M, 0, TABLE, 0 },
		{ PG_LEVEL_2M, TABLE, HUGE_A, TABLE },
	};
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_NONE);
	int i;

	h->eager = true;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct hydra_table t = { .level = rows[i].level, .hmm = h };
		pteval_t copy = rows[i].before;

		hydra_update_copy(&t, &copy, rows[i].canonical);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, copy, "row %d", i);
	}
}

/* A canonical table, and the tables of domains 0 and 1 in its place. */
struct hydra_test_tree {
	struct hydra_mm *h;
	pteval_t *canonical;
	pteval_t *copy[2];
};

static struct hydra_test_tree hydra_test_tree(struct kunit *test, enum pg_level level,
					      bool domain_0_links)
{
	struct hydra_test_tree tree;
	struct hydra_table *t;
	unsigned int d;

	tree.h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	hydra_test_stats(test, tree.h);
	tree.canonical = hydra_test_page(test);
	t = hydra_test_table(test, tree.canonical, tree.h, level);
	for (d = 0; d < 2; d++) {
		hydra_test_domain(test, tree.h, d);
		tree.copy[d] = !d && domain_0_links ? tree.canonical : hydra_test_page(test);
		t->table[d] = tree.copy[d];
		hydra_mask_set(d, &t->sharers);
	}
	return tree;
}

static unsigned long hydra_test_propagated(struct hydra_mm *h)
{
	return hydra_test_count(h, HYDRA_STAT_PROPAGATED);
}

/* Hooks of loops, with the lock of the table as Linux's loops call them */
static void hydra_test_change_begin(pteval_t *entry, unsigned int nr)
{
	guard(spinlock)(ptlock_ptr(virt_to_ptdesc(entry)));
	__hydra_change_begin(entry, nr);
}

static void hydra_test_change_end(pteval_t *entry)
{
	guard(spinlock)(ptlock_ptr(virt_to_ptdesc(entry)));
	__hydra_change_end(entry);
}

static unsigned long hydra_test_zap_part(pteval_t *entry, unsigned long addr, unsigned long end,
					 bool shared, bool full)
{
	guard(spinlock)(ptlock_ptr(virt_to_ptdesc(entry)));
	return __hydra_zap_part(entry, addr, end, shared, full);
}

/* Three entries are set at once. Each domain gets the entries on which it has faulted. */
static void hydra_test_entries_set(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, false);
	pteval_t *copy, *entry = &tree.canonical[PTRS_PER_PTE - 3];

	entry[0] = PAGE_A;
	entry[1] = 0;
	entry[2] = PAGE_B | _PAGE_RW;
	tree.copy[0][PTRS_PER_PTE - 3] = HYDRA_PTE_REFILL;
	tree.copy[0][PTRS_PER_PTE - 2] = PAGE_A;
	tree.copy[1][PTRS_PER_PTE - 2] = PAGE_A | _PAGE_ACCESSED;
	tree.copy[1][PTRS_PER_PTE - 1] = PAGE_B | _PAGE_RW | _PAGE_DIRTY;
	__hydra_entries_set(entry, 3);

	copy = &tree.copy[0][PTRS_PER_PTE - 3];
	KUNIT_EXPECT_EQ(test, PAGE_A, copy[0]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, copy[1]);
	KUNIT_EXPECT_EQ(test, 0, copy[2]);
	copy = &tree.copy[1][PTRS_PER_PTE - 3];
	KUNIT_EXPECT_EQ(test, 0, copy[0]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, copy[1]);
	KUNIT_EXPECT_EQ(test, PAGE_B, copy[2]);
	KUNIT_EXPECT_EQ(test, 4, hydra_test_propagated(tree.h));
	/* The entry before is unchanged. */
	KUNIT_EXPECT_EQ(test, 0, tree.copy[0][PTRS_PER_PTE - 4]);
}

/* Domain 0 links the canonical table, domain 1 has a replica. */
static void hydra_test_exchange(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, true);
	pteval_t *entry = &tree.canonical[7], *copy = &tree.copy[1][7];

	*entry = PAGE_A | _PAGE_RW | _PAGE_DIRTY;
	*copy = PAGE_A | _PAGE_RW | _PAGE_DIRTY | _PAGE_ACCESSED;
	/* The return value has the accessed bit of domain 1's copy. */
	KUNIT_EXPECT_EQ(test, PAGE_A | _PAGE_RW | _PAGE_DIRTY | _PAGE_ACCESSED,
			hydra_entry_exchange(entry, 0));
	KUNIT_EXPECT_EQ(test, 0, *entry);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, *copy);
	/* The old entry was empty: domain 1 gets the new entry. */
	KUNIT_EXPECT_EQ(test, 0, hydra_entry_exchange(entry, PAGE_B | _PAGE_RW));
	KUNIT_EXPECT_EQ(test, PAGE_B | _PAGE_RW, *entry);
	KUNIT_EXPECT_EQ(test, PAGE_B | MARK, *copy);
	KUNIT_EXPECT_EQ(test, 2, hydra_test_propagated(tree.h));
	/*
	 * With the filter by entry, domain 1 gets the new entry only if the copy was
	 * present.
	 */
	tree.h->filter = HYDRA_FILTER_ENTRY;
	hydra_entry_exchange(entry, PAGE_A);
	KUNIT_EXPECT_EQ(test, PAGE_A | MARK, *copy);
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, MARK, *copy);
	hydra_entry_exchange(entry, PAGE_B);
	KUNIT_EXPECT_EQ(test, MARK, *copy);
	/* An earlier change, or another filter, has left the wish for the next page. */
	*copy = HYDRA_PTE_REFILL | MARK;
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, MARK, *copy);
}

/* A huge page is split: both domains lose the copy, and keep links to leaf tables. */
static void hydra_test_split(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_2M, false);
	pteval_t *entry = &tree.canonical[5];

	entry[0] = HUGE_A;
	entry[1] = TABLE;
	tree.copy[0][5] = HUGE_A | _PAGE_ACCESSED;
	tree.copy[1][5] = HUGE_A;
	tree.copy[1][6] = TABLE;
	KUNIT_EXPECT_EQ(test, HUGE_A | _PAGE_ACCESSED, hydra_entry_exchange(&entry[0], TABLE));
	KUNIT_EXPECT_EQ(test, TABLE, entry[0]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, tree.copy[0][5]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, tree.copy[1][5]);
	KUNIT_EXPECT_EQ(test, TABLE, hydra_entry_exchange(&entry[1], 0));
	KUNIT_EXPECT_EQ(test, TABLE, tree.copy[1][6]);
}

/* The accessed bits of domain 1: read, cleared, and moved to the canonical entries. */
static void hydra_test_young(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, true);
	pteval_t *entry = tree.canonical, *copy = tree.copy[1], aged;
	u32 second;

	entry[0] = PAGE_A;
	entry[1] = PAGE_B;
	copy[1] = PAGE_B | _PAGE_ACCESSED;
	KUNIT_EXPECT_FALSE(test, __hydra_young(entry, 1));
	KUNIT_EXPECT_TRUE(test, __hydra_young(entry, 2));
	KUNIT_EXPECT_EQ(test, 2 * PAGE_SIZE,
			hydra_test_zap_part(entry, 0, 2 * PAGE_SIZE, false, true));
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[0]);
	KUNIT_EXPECT_EQ(test, PAGE_B | _PAGE_ACCESSED, entry[1]);
	KUNIT_EXPECT_EQ(test, 0, __hydra_test_and_clear_young(&entry[0]));
	KUNIT_EXPECT_EQ(test, 1, __hydra_test_and_clear_young(&entry[1]));
	/* No flush follows, so a stamped mark takes the place of the accessed bit. */
	KUNIT_EXPECT_EQ(test, PAGE_B | MARK, copy[1] & ~(pteval_t)HYDRA_PTE_STAMP);
	KUNIT_EXPECT_EQ(test, hydra_trusts_accessed, (copy[1] & HYDRA_PTE_STAMP) != 0);
	aged = copy[1];
	KUNIT_EXPECT_EQ(test, 0, __hydra_test_and_clear_young(&entry[1]));
	KUNIT_EXPECT_EQ(test, aged, copy[1]);
	/* A second aging leaves nothing of the first stamp. */
	do {
		second = hydra_second();
		copy[1] = PAGE_B | _PAGE_ACCESSED | HYDRA_PTE_MARK;
		KUNIT_EXPECT_EQ(test, 1, __hydra_test_and_clear_young(&entry[1]));
	} while (hydra_second() != second);
	KUNIT_EXPECT_EQ(test, PAGE_B | MARK | (hydra_trusts_accessed ? hydra_stamp(second) : 0),
			copy[1]);
	aged = copy[1];
	/* A change leaves the stamped mark, unless the copy was accessed again. */
	hydra_entry_exchange(&entry[1], 0);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | (aged & HYDRA_PTE_MARK), copy[1]);
	copy[1] = aged | _PAGE_ACCESSED;
	hydra_entry_exchange(&entry[1], 0);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, copy[1]);
}

/* By accessed bits, a domain that has not used a page does not get the next one. */
static void hydra_test_unused(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, true);
	pteval_t *entry = &tree.canonical[7], *copy = &tree.copy[1][7];

	if (!hydra_trusts_accessed)
		kunit_skip(test, "accessed bits of this CPU prove nothing");
	tree.h->filter = HYDRA_FILTER_ACCESSED;
	*entry = PAGE_A;
	*copy = PAGE_A;
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, 0, *copy);
	hydra_entry_exchange(entry, PAGE_B);
	KUNIT_EXPECT_EQ(test, 0, *copy);
	*copy = PAGE_B | _PAGE_ACCESSED;
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, *copy);
	hydra_entry_exchange(entry, PAGE_A);
	KUNIT_EXPECT_EQ(test, PAGE_A | MARK, *copy);
}

/*
 * Filter "auto": used copies get the next value, also when an entry changes. Others get so many
 * as the used ones have paid for.
 */
static void hydra_test_push_account(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, true);
	struct hydra_table *t = hydra_table_of(tree.canonical);
	pteval_t *entry = &tree.canonical[7], *copy = &tree.copy[1][7];
	unsigned int i;

	tree.h->filter = HYDRA_FILTER_AUTO;
	*entry = PAGE_A;
	/* Without credit: not pushed, whether the entry ends or changes. */
	*copy = PAGE_A;
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, 0, *copy & ~(pteval_t)MARK);
	hydra_entry_exchange(entry, PAGE_A);
	KUNIT_EXPECT_EQ(test, 0, *copy & ~(pteval_t)MARK);
	*copy = PAGE_A;
	hydra_test_change_begin(entry, 1);
	hydra_test_change_end(entry);
	KUNIT_EXPECT_EQ(test, 0, *copy & ~(pteval_t)MARK);
	KUNIT_EXPECT_EQ(test, 0, t->credit);
	/* A copy that is not present has no part in the account. */
	hydra_test_change_begin(entry, 1);
	hydra_test_change_end(entry);
	KUNIT_EXPECT_EQ(test, 0, t->credit);
	/* Used copies are pushed, */
	for (i = 1; i <= 3; i++) {
		*copy = PAGE_A | _PAGE_ACCESSED;
		hydra_test_change_begin(entry, 1);
		hydra_test_change_end(entry);
		KUNIT_EXPECT_EQ(test, PAGE_A | MARK, *copy);
		KUNIT_EXPECT_EQ(test, i * HYDRA_FAULT_PUSHES, t->credit);
	}
	/* and then others, until the credit is spent. */
	for (i = 0; *copy & _PAGE_PRESENT && i < 100; i++) {
		hydra_entry_exchange(entry, 0);
		hydra_entry_exchange(entry, PAGE_A);
	}
	KUNIT_EXPECT_EQ(test, 3 * HYDRA_FAULT_PUSHES + 1, i);
	KUNIT_EXPECT_EQ(test, 0, t->credit);
	KUNIT_EXPECT_EQ(test, MARK, *copy);
	/* Full credit stays as long as all copies are used: */
	t->credit = HYDRA_CREDIT_MAX;
	*copy = PAGE_A | _PAGE_ACCESSED;
	hydra_entry_exchange(entry, 0);
	hydra_entry_exchange(entry, PAGE_A);
	KUNIT_EXPECT_EQ(test, PAGE_A | MARK, *copy);
	KUNIT_EXPECT_EQ(test, HYDRA_CREDIT_MAX, t->credit);
	/* a push of one that was not costs. */
	hydra_entry_exchange(entry, 0);
	hydra_entry_exchange(entry, PAGE_A);
	KUNIT_EXPECT_EQ(test, PAGE_A | MARK, *copy);
	KUNIT_EXPECT_EQ(test, HYDRA_CREDIT_MAX - 1, t->credit);
	t->credit = 0;
	/* By table, all are pushed, and nothing is accounted. */
	tree.h->filter = HYDRA_FILTER_TABLE;
	*copy = PAGE_A | _PAGE_ACCESSED;
	hydra_entry_exchange(entry, 0);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, *copy);
	KUNIT_EXPECT_EQ(test, 0, t->credit);
}

/*
 * Before mprotect() changes entries, the copies are cleared, and the canonical entries
 * get their accessed bits.
 */
static void hydra_test_change_range(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, false);
	pteval_t *entry = &tree.canonical[100];

	entry[0] = PAGE_A;
	entry[1] = PAGE_B;
	tree.copy[0][100] = PAGE_A;
	tree.copy[0][101] = PAGE_B;
	tree.copy[1][101] = PAGE_B | _PAGE_ACCESSED;
	hydra_test_change_begin(entry, 2);
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[0]);
	KUNIT_EXPECT_EQ(test, PAGE_B | _PAGE_ACCESSED, entry[1]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, tree.copy[0][100]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, tree.copy[0][101]);
	KUNIT_EXPECT_EQ(test, 0, tree.copy[1][100]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | MARK, tree.copy[1][101]);
	KUNIT_EXPECT_EQ(test, 3, hydra_test_propagated(tree.h));
	KUNIT_EXPECT_FALSE(test, hydra_changing(&entry[-1]));
	KUNIT_EXPECT_TRUE(test, hydra_changing(&entry[0]));
	KUNIT_EXPECT_TRUE(test, hydra_changing(&entry[1]));
	KUNIT_EXPECT_FALSE(test, hydra_changing(&entry[2]));
	/*
	 * Afterwards the copies get the entries that the caller has stored, in the range
	 * only.
	 */
	entry[1] = PAGE_A;
	entry[2] = PAGE_A;
	tree.copy[1][102] = HYDRA_PTE_REFILL;
	hydra_test_change_end(&entry[1]);
	KUNIT_EXPECT_FALSE(test, hydra_changing(&entry[1]));
	KUNIT_EXPECT_EQ(test, PAGE_A, tree.copy[0][100]);
	KUNIT_EXPECT_EQ(test, PAGE_A | MARK, tree.copy[1][101]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, tree.copy[1][102]);
}

/*
 * A leaf table is shared by as many domains as there can be. mprotect() changes its entries
 * part by part.
 */
static void hydra_test_parts(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_ACCESSED);
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	unsigned long addr, end, before, most = max(HYDRA_COPIES_MAX, HYDRA_MAX_DOMAINS);
	unsigned int d, i;

	hydra_test_stats(test, h);
	for (i = 0; i < PTRS_PER_PTE; i++)
		canonical[i] = PAGE_A;
	for (d = 0; d < HYDRA_MAX_DOMAINS; d++) {
		t->table[d] = hydra_test_page(test);
		hydra_mask_set(d, &t->sharers);
		for (i = 0; i < PTRS_PER_PTE; i++)
			t->table[d][i] = PAGE_A | _PAGE_ACCESSED;
	}
	for (addr = 0; addr < PMD_SIZE; addr = end) {
		before = hydra_test_propagated(h);
		end = hydra_part(t, addr, PMD_SIZE, 1);
		KUNIT_ASSERT_GT(test, end, addr);
		KUNIT_ASSERT_LE(test, end, PMD_SIZE);
		hydra_test_change_begin(&canonical[pte_index(addr)], PHYS_PFN(end - addr));
		KUNIT_EXPECT_EQ(test, PHYS_PFN(end - addr) * HYDRA_MAX_DOMAINS,
				hydra_test_propagated(h) - before);
		KUNIT_EXPECT_LE(test, hydra_test_propagated(h) - before, most);
		hydra_test_change_end(canonical);
	}
	KUNIT_EXPECT_EQ(test, 2 * PTRS_PER_PTE * HYDRA_MAX_DOMAINS, hydra_test_propagated(h));
	for (d = 0; d < HYDRA_MAX_DOMAINS; d++)
		for (i = 0; i < PTRS_PER_PTE; i++)
			if (t->table[d][i] != (PAGE_A | MARK))
				KUNIT_FAIL(test, "domain %u, entry %u: %lx", d, i, t->table[d][i]);
	/* The loops of munmap(), exit and fork() take parts of the same size. */
	end = min(rounddown_pow_of_two(most / HYDRA_MAX_DOMAINS), PTRS_PER_PTE) * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, end, hydra_test_zap_part(canonical, 0, PMD_SIZE, false, false));
	KUNIT_EXPECT_EQ(test, min(SHARED_FILE_TIMES * end, PMD_SIZE),
			hydra_test_zap_part(canonical, 0, PMD_SIZE, true, false));
	KUNIT_EXPECT_EQ(test, end, hydra_test_zap_part(canonical, 0, PMD_SIZE, true, true));
	KUNIT_EXPECT_EQ(test, end, hydra_test_zap_part(canonical, 0, PMD_SIZE, false, true));
	KUNIT_EXPECT_EQ(test, end, hydra_part(t, 0, PMD_SIZE, 1));
	/* A part that begins elsewhere ends where the others do. */
	if (end > PAGE_SIZE)
		KUNIT_EXPECT_EQ(test, 2 * end, hydra_part(t, 2 * end - PAGE_SIZE, PMD_SIZE, 1));
	/* Few domains: the whole table at once. */
	bitmap_zero(t->sharers.bits, HYDRA_MAX_DOMAINS);
	hydra_mask_set(1, &t->sharers);
	KUNIT_EXPECT_EQ(test, PMD_SIZE, hydra_part(t, 0, PMD_SIZE, 1));
}

/*
 * By the PMD entry of a leaf table, where does a part of a loop end? The entries are counted
 * from the beginning of the table.
 */
static void hydra_test_part_end(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *canonical = hydra_test_page(test), *alone = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	const unsigned long base = 3 * PMD_SIZE;
	const pmdval_t shared = __pa(canonical) | _PAGE_TABLE;
	const struct {
		pmdval_t pmd;
		unsigned int sharers, first, end, part;
	} rows[] = {
		/* 2,048 copies are 32 entries of 64 domains. */
		{ shared, 64, 0, 512, 32 },
		{ shared, 64, 32, 512, 64 },
		{ shared, 64, 480, 512, 512 },
		{ shared, 64, 0, 32, 32 },
		/* A part that begins elsewhere ends where the others do, or with the range. */
		{ shared, 64, 5, 512, 32 },
		{ shared, 64, 31, 512, 32 },
		{ shared, 64, 5, 20, 20 },
		{ shared, 64, 40, 41, 41 },
		/* 409 entries of five domains: parts are of a power of two. */
		{ shared, 5, 0, 512, 256 },
		{ shared, 5, 200, 300, 256 },
		{ shared, 5, 256, 512, 512 },
		/* Two entries of as many domains as there can be */
		{ shared, 1024, 7, 512, 8 },
		{ shared, 1024, 8, 512, 10 },
		/* Few domains: the whole table. */
		{ shared, 4, 0, 512, 512 },
		{ shared, 4, 3, 400, 400 },
		{ shared, 1, 0, 512, 512 },
		/* One domain alone uses the table. */
		{ __pa(alone) | _PAGE_TABLE, 0, 0, 512, 512 },
		/* No table: nothing, a huge page, one that migrates, a bad entry. */
		{ 0, 64, 0, 512, 512 },
		{ shared | _PAGE_PSE, 64, 0, 512, 512 },
		{ shared & ~(pmdval_t)_PAGE_PRESENT, 64, 0, 512, 512 },
		{ shared & ~(pmdval_t)_PAGE_RW, 64, 0, 512, 512 },
	};
	int i;

	virt_to_ptdesc(alone)->__page_mapping = hydra_solo(1);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pmd_t pmd = __pmd(rows[i].pmd);

		if (rows[i].sharers > HYDRA_MAX_DOMAINS)
			continue;
		bitmap_zero(t->sharers.bits, HYDRA_MAX_DOMAINS);
		bitmap_set(t->sharers.bits, 0, rows[i].sharers);
		KUNIT_EXPECT_EQ_MSG(test, base + rows[i].part * PAGE_SIZE,
				    __hydra_part_end(&pmd, base + rows[i].first * PAGE_SIZE,
						     base + rows[i].end * PAGE_SIZE),
				    "row %d", i);
	}
}

/*
 * A loop over PMD entries, as copy_pmd_range() and change_pmd_range(): each part belongs to the
 * PMD entry of its address.
 */
static void hydra_test_parts_of_tables(struct kunit *test)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	pteval_t *canonical = hydra_test_page(test);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_4K);
	const pmdval_t shared = __pa(canonical) | _PAGE_TABLE;
	pmd_t pmds[] = {
		__pmd(shared), __pmd(shared | _PAGE_PSE), __pmd(0), __pmd(shared), __pmd(shared),
	};
	unsigned long addr, next, whole, size;
	/* From within the first table to within the last */
	const unsigned long first = PMD_SIZE - 3 * PAGE_SIZE, end = 4 * PMD_SIZE + PAGE_SIZE;
	pmd_t *pmd = pmds;

	bitmap_fill(t->sharers.bits, HYDRA_MAX_DOMAINS);
	size = rounddown_pow_of_two(hydra_entries_at_once(&t->sharers)) * PAGE_SIZE;
	h->mm->hydra = h;
	static_branch_inc(&hydra_key.key);
	/* No domain has a tree. */
	KUNIT_EXPECT_EQ(test, PMD_SIZE, hydra_part_end(h->mm, pmds, 0, PMD_SIZE));
	h->active = true;
	for (addr = first; addr != end; addr = next) {
		whole = pmd_addr_end(addr, end);
		next = hydra_part_end(h->mm, pmd, addr, whole);
		KUNIT_EXPECT_PTR_EQ(test, &pmds[addr / PMD_SIZE], pmd);
		if (hydra_is_table(pmd_val(*pmd)))
			KUNIT_EXPECT_EQ(test, min(ALIGN_DOWN(addr, size) + size, whole), next);
		else
			KUNIT_EXPECT_EQ(test, whole, next);
		if (next <= addr || next > whole)
			break;
		pmd += hydra_table_done(next);
	}
	KUNIT_EXPECT_EQ(test, end, addr);
	static_branch_dec(&hydra_key.key);
}

/*
 * At exit, zap_pte_range() may come back to an entry that it has not cleared, because another
 * thread needs the CPU. The entry is not folded again.
 */
static void hydra_test_exit_folds_once(struct kunit *test)
{
	struct hydra_test_tree tree = hydra_test_tree(test, PG_LEVEL_4K, true);
	pteval_t *entry = &tree.canonical[100], *copy = &tree.copy[1][100];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		entry[i] = PAGE_A;
		copy[i] = PAGE_A | _PAGE_ACCESSED;
	}
	hydra_test_zap_part(entry, 0, 2 * PAGE_SIZE, false, false);
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[0]);
	hydra_test_zap_part(entry, 0, 2 * PAGE_SIZE, false, true);
	KUNIT_EXPECT_EQ(test, PAGE_A | _PAGE_ACCESSED, entry[0]);
	KUNIT_EXPECT_EQ(test, PAGE_A | _PAGE_ACCESSED, entry[1]);
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[2]);
	entry[0] = PAGE_A;
	entry[1] = PAGE_A;
	hydra_test_zap_part(entry, 0, 2 * PAGE_SIZE, false, true);
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[0]);
	hydra_test_zap_part(&entry[1], PAGE_SIZE, 3 * PAGE_SIZE, false, true);
	KUNIT_EXPECT_EQ(test, PAGE_A, entry[1]);
	KUNIT_EXPECT_EQ(test, PAGE_A | _PAGE_ACCESSED, entry[2]);
}

#undef PAGE_A
#undef PAGE_B
#undef HUGE_A
#undef TABLE
#undef MARK

/* The branches are on for as long as there is a struct hydra_mm, and a while longer. */
static void hydra_test_key(struct kunit *test)
{
	struct mm_struct *mm = kunit_kzalloc(test, sizeof(*mm), GFP_KERNEL);
	struct hydra_mm *h;
	bool ready;

	KUNIT_ASSERT_NOT_NULL(test, mm);
	static_key_deferred_flush(&hydra_key);
	/* With hydra_ready this test switches the code as a boot without it does. */
	ready = static_key_enabled(&hydra_key.key);
	if (ready)
		static_branch_dec(&hydra_key.key);
	KUNIT_EXPECT_FALSE(test, static_branch_unlikely(&hydra_key.key));
	h = hydra_alloc(mm, true);
	KUNIT_EXPECT_NOT_NULL(test, h);
	KUNIT_EXPECT_TRUE(test, static_branch_unlikely(&hydra_key.key));
	if (h)
		hydra_free(h);
	KUNIT_EXPECT_TRUE(test, static_branch_unlikely(&hydra_key.key));
	static_key_deferred_flush(&hydra_key);
	KUNIT_EXPECT_FALSE(test, static_branch_unlikely(&hydra_key.key));
	if (ready)
		static_branch_inc(&hydra_key.key);
}

static struct kunit_case hydra_propagate_cases[] = {
	KUNIT_CASE(hydra_test_update_copy),
	KUNIT_CASE(hydra_test_mark_present),
	KUNIT_CASE(hydra_test_push),
	KUNIT_CASE(hydra_test_entries_set),
	KUNIT_CASE(hydra_test_exchange),
	KUNIT_CASE(hydra_test_split),
	KUNIT_CASE(hydra_test_young),
	KUNIT_CASE(hydra_test_unused),
	KUNIT_CASE(hydra_test_push_account),
	KUNIT_CASE(hydra_test_change_range),
	KUNIT_CASE(hydra_test_parts),
	KUNIT_CASE(hydra_test_part_end),
	KUNIT_CASE(hydra_test_parts_of_tables),
	KUNIT_CASE(hydra_test_exit_folds_once),
	KUNIT_CASE(hydra_test_key),
	{}
};

static struct kunit_suite hydra_propagate_suite = {
	.name = "hydra-propagate",
	.test_cases = hydra_propagate_cases,
};

kunit_test_suite(hydra_propagate_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
