/* SPDX-License-Identifier: GPL-2.0-only */
/* Entries that a fill writes to replicas, and bits that a fill sets in canonical entries. */
#ifdef CONFIG_HYDRA_MM_KUNIT_TEST

#include "pages-kunit.h"

#define PAGE_A	(0x12345000 | _PAGE_PRESENT | _PAGE_USER)
#define PAGE_B	(0x54321000 | _PAGE_PRESENT | _PAGE_USER)
#define HUGE_A	(0x12200000 | _PAGE_PRESENT | _PAGE_USER | _PAGE_PSE)
#define TABLE	(0x67890000 | _PAGE_TABLE_NOENC)

/* The entries that a fill copies: aligned, inside the table, inside the VMA. */
static void hydra_test_window(struct kunit *test)
{
	unsigned long base = 0x7f0000000000UL, end = base + PMD_SIZE;
	unsigned int first, last, degree;
	struct hydra_request r;

	for (degree = 0; degree <= HYDRA_PREFETCH_MAX; degree++) {
		unsigned int nr = 1 << degree;

		r = (struct hydra_request){
			.addr = base + 300 * PAGE_SIZE, .degree = degree,
			.vm_start = 0, .vm_end = TASK_SIZE_MAX,
		};
		hydra_window(&r, PG_LEVEL_4K, &first, &last);
		KUNIT_EXPECT_EQ(test, first, 300 / nr * nr);
		KUNIT_EXPECT_EQ(test, last, first + nr);
	}
	/* Cut at the VMA, on both sides. */
	r = (struct hydra_request){
		.addr = base + 10 * PAGE_SIZE, .degree = 9,
		.vm_start = base + 7 * PAGE_SIZE, .vm_end = base + 12 * PAGE_SIZE,
	};
	hydra_window(&r, PG_LEVEL_4K, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 7);
	KUNIT_EXPECT_EQ(test, last, 12);
	/* A VMA that ends beyond the table. */
	r = (struct hydra_request){
		.addr = base + 510 * PAGE_SIZE, .degree = 9,
		.vm_start = base - PMD_SIZE, .vm_end = end + PMD_SIZE,
	};
	hydra_window(&r, PG_LEVEL_4K, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 512);
	/* The last page of all. */
	r = (struct hydra_request){
		.addr = end - 1, .degree = 0,
		.vm_start = base, .vm_end = end,
	};
	hydra_window(&r, PG_LEVEL_4K, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 511);
	KUNIT_EXPECT_EQ(test, last, 512);
}

/* The same of huge entries. */
static void hydra_test_huge_window(struct kunit *test)
{
	unsigned long base = 0x7f0000000000UL;
	unsigned int first, last;
	struct hydra_request r;

	r = (struct hydra_request){
		.addr = base + 300 * PMD_SIZE, .degree = 4,
		.vm_start = 0, .vm_end = TASK_SIZE_MAX,
	};
	hydra_window(&r, PG_LEVEL_2M, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 288);
	KUNIT_EXPECT_EQ(test, last, 304);
	r = (struct hydra_request){
		.addr = base + 10 * PMD_SIZE, .degree = 9,
		.vm_start = base + 7 * PMD_SIZE, .vm_end = base + 12 * PMD_SIZE,
	};
	hydra_window(&r, PG_LEVEL_2M, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 7);
	KUNIT_EXPECT_EQ(test, last, 12);
	/* A VMA that ends in the middle of a 2 MiB region, which can have no huge page. */
	r = (struct hydra_request){
		.addr = base, .degree = 9,
		.vm_start = base, .vm_end = base + 3 * PMD_SIZE + PAGE_SIZE,
	};
	hydra_window(&r, PG_LEVEL_2M, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 3);
	r = (struct hydra_request){
		.addr = base + 5 * PUD_SIZE + PMD_SIZE, .degree = 0,
		.vm_start = 0, .vm_end = TASK_SIZE_MAX,
	};
	hydra_window(&r, PG_LEVEL_1G, &first, &last);
	KUNIT_EXPECT_EQ(test, first, (pud_index(base) + 5));
	KUNIT_EXPECT_EQ(test, last, first + 1);
	r = (struct hydra_request){
		.addr = base + 5 * PUD_SIZE, .degree = 9,
		.vm_start = 0, .vm_end = TASK_SIZE_MAX,
	};
	hydra_window(&r, PG_LEVEL_1G, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 512);
}

/*
 * Domain 1 faults on a huge entry, also gets the other huge entries of the VMA, and keeps
 * its links.
 */
static void hydra_test_copy_huge(struct kunit *test)
{
	pteval_t *canonical = hydra_test_page(test), *own = hydra_test_page(test);
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_table *t = hydra_test_table(test, canonical, h, PG_LEVEL_2M);
	struct hydra_request r = {
		.h = h, .d = 1, .addr = PMD_SIZE, .degree = HYDRA_PREFETCH_MAX,
		.vm_end = 5 * PMD_SIZE,
	};
	struct hydra_domain *dom = hydra_test_domain(test, h, 1);
	unsigned int nr;

	t->table[1] = own;
	canonical[0] = HUGE_A;
	canonical[1] = HUGE_A | _PAGE_RW | _PAGE_ACCESSED;
	/* Not huge: a table, and a non-present entry. */
	canonical[2] = TABLE;
	canonical[3] = HUGE_A & ~(pteval_t)_PAGE_PRESENT;
	canonical[4] = HUGE_A;
	/* Outside the VMA */
	canonical[5] = HUGE_A;
	own[2] = TABLE;
	own[4] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	spin_lock(&dom->lock);
	nr = hydra_copy_huge(&r, t, canonical, 1);
	spin_unlock(&dom->lock);
	KUNIT_EXPECT_EQ(test, 2, nr);
	KUNIT_EXPECT_EQ(test, HUGE_A, own[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A, own[1]);
	KUNIT_EXPECT_EQ(test, TABLE, own[2]);
	KUNIT_EXPECT_EQ(test, 0, own[3]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_MARKED, own[4]);
	KUNIT_EXPECT_EQ(test, 0, own[5]);
	/* Without a fault, hydra_copy_huge() replaces no present copy. */
	r.unasked = true;
	own[1] = HUGE_A | _PAGE_ACCESSED;
	spin_lock(&dom->lock);
	nr = hydra_copy_huge(&r, t, canonical, 1);
	spin_unlock(&dom->lock);
	KUNIT_EXPECT_EQ(test, 0, nr);
	KUNIT_EXPECT_EQ(test, HUGE_A | _PAGE_ACCESSED, own[1]);
}

/* The struct hydra_table of an empty canonical table. Domain 1 has an empty table for it. */
static struct hydra_table *hydra_test_huge_table(struct kunit *test, enum pg_level level,
						 pteval_t **canonical)
{
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_table *t;

	*canonical = hydra_test_page(test);
	/* The lock of PUD tables */
	spin_lock_init(&h->mm->page_table_lock);
	WRITE_ONCE(h->active, true);
	hydra_test_stats(test, h);
	hydra_test_domain(test, h, 1);
	t = hydra_test_table(test, *canonical, h, level);
	t->table[1] = hydra_test_page(test);
	return t;
}

static spinlock_t *hydra_test_huge_lock(struct hydra_table *t, pteval_t *canonical)
{
	return t->level == PG_LEVEL_2M ? pmd_lockptr(t->hmm->mm, (pmd_t *)canonical) :
					 pud_lockptr(t->hmm->mm, (pud_t *)canonical);
}

/* Domain 1 reads through entry 13, and gets the huge entries among 12 to 15. */
static void hydra_test_fill_huge(struct kunit *test)
{
	pteval_t *canonical, *own;
	struct hydra_table *t = hydra_test_huge_table(test, PG_LEVEL_2M, &canonical);
	struct hydra_request r = {
		.h = t->hmm, .d = 1, .addr = 13 * PMD_SIZE, .degree = 2,
		.vm_end = TASK_SIZE_MAX,
	};

	own = t->table[1];
	canonical[11] = HUGE_A;
	canonical[12] = TABLE;
	canonical[13] = (HUGE_A + PMD_SIZE) | _PAGE_RW;
	canonical[14] = HUGE_A & ~(pteval_t)_PAGE_PRESENT;
	canonical[15] = (HUGE_A + 2 * PMD_SIZE) | _PAGE_NX;
	canonical[16] = HUGE_A;
	own[12] = TABLE;
	own[13] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	own[14] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	own[15] = HYDRA_PTE_REFILL;
	KUNIT_EXPECT_EQ(test, HYDRA_HIT, hydra_fill_huge(&r, t, &canonical[13]));
	KUNIT_EXPECT_EQ(test, 0, own[11]);
	KUNIT_EXPECT_EQ(test, TABLE, own[12]);
	KUNIT_EXPECT_EQ(test, (HUGE_A + PMD_SIZE) | HYDRA_PTE_MARKED, own[13]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL | HYDRA_PTE_MARKED, own[14]);
	KUNIT_EXPECT_EQ(test, (HUGE_A + 2 * PMD_SIZE) | _PAGE_NX, own[15]);
	KUNIT_EXPECT_EQ(test, 0, own[16]);
	/* The page has been read; the copy of entry 15 is prefetched. */
	KUNIT_EXPECT_EQ(test, (HUGE_A + PMD_SIZE) | _PAGE_RW | _PAGE_ACCESSED, canonical[13]);
	KUNIT_EXPECT_EQ(test, (HUGE_A + 2 * PMD_SIZE) | _PAGE_NX, canonical[15]);
	KUNIT_EXPECT_EQ(test, 1, hydra_test_count(r.h, HYDRA_STAT_FILLS));
	KUNIT_EXPECT_EQ(test, 1, hydra_test_count(r.h, HYDRA_STAT_PREFETCHED));
	KUNIT_EXPECT_EQ(test, BIT(1), t->sharers.bits[0]);
	KUNIT_EXPECT_TRUE(test, hydra_test_is_free(hydra_test_huge_lock(t, canonical)));
	KUNIT_EXPECT_TRUE(test, hydra_test_is_free(&r.h->domain[1]->lock));
}

/*
 * What a fill of one huge entry says of the access, and sets in the canonical entry. The
 * entry is copied even if it does not permit the access.
 */
static void hydra_test_fill_huge_access(struct kunit *test)
{
	/* r: read, w: write, x: execute, u: unasked, a: atomic */
	static const struct {
		const char *access;
		pteval_t before, after, copy;
		enum hydra_result result;
	} rows[] = {
		{ "r", HUGE_A, HUGE_A | _PAGE_ACCESSED, HUGE_A, HYDRA_HIT },
		{ "w", HUGE_A | _PAGE_RW, HUGE_A | _PAGE_RW | _PAGE_ACCESSED | _PAGE_DIRTY,
		  HUGE_A | _PAGE_RW | _PAGE_DIRTY, HYDRA_HIT },
		{ "w", HUGE_A, HUGE_A, HUGE_A, HYDRA_MISS },
		{ "x", HUGE_A | _PAGE_NX, HUGE_A | _PAGE_NX, HUGE_A | _PAGE_NX, HYDRA_MISS },
		{ "u", HUGE_A | _PAGE_RW, HUGE_A | _PAGE_RW, HUGE_A, HYDRA_HIT },
		{ "wa", HUGE_A | _PAGE_RW, HUGE_A | _PAGE_RW | _PAGE_ACCESSED | _PAGE_DIRTY,
		  HUGE_A | _PAGE_RW | _PAGE_DIRTY, HYDRA_HIT },
	};
	enum pg_level level;
	int i;

	for (level = PG_LEVEL_2M; level <= PG_LEVEL_1G; level++) {
		for (i = 0; i < ARRAY_SIZE(rows); i++) {
			pteval_t *canonical;
			struct hydra_table *t = hydra_test_huge_table(test, level, &canonical);
			struct hydra_request r = {
				.h = t->hmm,
				.d = 1,
				.addr = 13UL << page_level_shift(level),
				.vm_end = TASK_SIZE_MAX,
				.write = strchr(rows[i].access, 'w'),
				.exec = strchr(rows[i].access, 'x'),
				.unasked = strchr(rows[i].access, 'u'),
				.atomic = strchr(rows[i].access, 'a'),
			};

			canonical[13] = rows[i].before;
			KUNIT_EXPECT_EQ_MSG(test, rows[i].result,
					    hydra_fill_huge(&r, t, &canonical[13]),
					    "level %u, row %d", level, i);
			KUNIT_EXPECT_EQ_MSG(test, rows[i].after, canonical[13],
					    "level %u, row %d", level, i);
			KUNIT_EXPECT_EQ_MSG(test, rows[i].copy, t->table[1][13],
					    "level %u, row %d", level, i);
			KUNIT_EXPECT_EQ_MSG(test, BIT(1), t->sharers.bits[0],
					    "level %u, row %d", level, i);
			KUNIT_EXPECT_EQ_MSG(test, r.unasked ? 0 : 1,
					    hydra_test_count(r.h, HYDRA_STAT_FILLS),
					    "level %u, row %d", level, i);
			KUNIT_EXPECT_EQ_MSG(test, r.unasked ? 1 : 0,
					    hydra_test_count(r.h, HYDRA_STAT_PREFETCHED),
					    "level %u, row %d", level, i);
		}
	}
}

/* Domain 1 gets no huge entry, and does not become a sharer. */
static void hydra_test_fill_huge_miss(struct kunit *test)
{
	static const struct {
		const char *what;
		pteval_t entry;
		bool inactive, orphan, table_busy, domain_busy;
	} rows[] = {
		{ "the entry is cleared", 0 },
		{ "the entry is not present", HUGE_A & ~(pteval_t)_PAGE_PRESENT },
		{ "the entry points to a table", TABLE & ~(pteval_t)_PAGE_ACCESSED },
		{ "the address space is not active", HUGE_A, .inactive = true },
		{ "the domain has no table", HUGE_A, .orphan = true },
		{ "the lock of the table is busy", HUGE_A, .table_busy = true },
		{ "the lock of the domain is busy", HUGE_A, .domain_busy = true },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t *canonical, *own;
		struct hydra_table *t = hydra_test_huge_table(test, PG_LEVEL_2M, &canonical);
		spinlock_t *ptl = hydra_test_huge_lock(t, canonical);
		struct hydra_request r = {
			.h = t->hmm, .d = 1, .addr = 13 * PMD_SIZE, .degree = 2,
			.vm_end = TASK_SIZE_MAX,
			.atomic = rows[i].table_busy || rows[i].domain_busy,
		};
		enum hydra_result result;

		own = t->table[1];
		canonical[13] = rows[i].entry;
		canonical[14] = HUGE_A;
		own[13] = HYDRA_PTE_REFILL;
		if (rows[i].inactive)
			WRITE_ONCE(r.h->active, false);
		if (rows[i].orphan)
			t->table[1] = NULL;
		if (rows[i].table_busy)
			spin_lock(ptl);
		if (rows[i].domain_busy)
			spin_lock(&r.h->domain[1]->lock);
		result = hydra_fill_huge(&r, t, &canonical[13]);
		if (rows[i].domain_busy)
			spin_unlock(&r.h->domain[1]->lock);
		if (rows[i].table_busy)
			spin_unlock(ptl);
		KUNIT_EXPECT_EQ_MSG(test, HYDRA_MISS, result, "%s", rows[i].what);
		/* The accessed bit of a huge page may be set. */
		KUNIT_EXPECT_EQ_MSG(test, rows[i].entry, hydra_leaf(canonical[13]) ?
				    canonical[13] & ~(pteval_t)_PAGE_ACCESSED : canonical[13],
				    "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, HYDRA_PTE_REFILL, own[13], "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, 0, own[14], "%s", rows[i].what);
		KUNIT_EXPECT_TRUE_MSG(test, hydra_mask_empty(&t->sharers), "%s", rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, 0, hydra_test_count(r.h, HYDRA_STAT_FILLS), "%s",
				    rows[i].what);
		KUNIT_EXPECT_EQ_MSG(test, 0, hydra_test_count(r.h, HYDRA_STAT_PREFETCHED), "%s",
				    rows[i].what);
		KUNIT_EXPECT_TRUE_MSG(test, hydra_test_is_free(ptl), "%s", rows[i].what);
		KUNIT_EXPECT_TRUE_MSG(test, hydra_test_is_free(&r.h->domain[1]->lock), "%s",
				      rows[i].what);
	}
}

/* The copy that a domain gets of a canonical entry. */
static void hydra_test_derive(struct kunit *test)
{
	static const struct {
		pteval_t canonical, copy;
	} rows[] = {
		{ PAGE_A, PAGE_A },
		/* A clean page is not writable, so the first write to it faults. */
		{ PAGE_A | _PAGE_RW, PAGE_A },
		{ PAGE_A | _PAGE_RW | _PAGE_ACCESSED, PAGE_A },
		{ PAGE_A | _PAGE_RW | _PAGE_DIRTY, PAGE_A | _PAGE_RW | _PAGE_DIRTY },
		/* A shadow stack: dirty and not writable. */
		{ PAGE_A | _PAGE_DIRTY, PAGE_A | _PAGE_DIRTY },
		/* None: a page that was dirty when it was write-protected. */
		{ PAGE_A | _PAGE_SAVED_DIRTY, PAGE_A },
		{ PAGE_A | _PAGE_NX | _PAGE_ACCESSED, PAGE_A | _PAGE_NX },
		{ PAGE_A | _PAGE_PSE | _PAGE_RW, PAGE_A | _PAGE_PSE },
		/* Linux's software bits mean something else in a copy. */
		{ PAGE_A | HYDRA_PTE_SOFTWARE, PAGE_A },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test, rows[i].copy, hydra_derive(rows[i].canonical),
				    "row %d", i);
}

/* Which accesses a canonical entry permits, and which bits an access sets. */
static void hydra_test_permits(struct kunit *test)
{
	/* r: read, w: write, x: execute, s: of a shadow stack */
	static const struct {
		const char *access;
		pteval_t before, after;
		bool permitted;
	} rows[] = {
		{ "r", PAGE_A, PAGE_A | _PAGE_ACCESSED, true },
		{ "r", PAGE_A | _PAGE_RW, PAGE_A | _PAGE_RW | _PAGE_ACCESSED, true },
		{ "r", PAGE_A | _PAGE_NX, PAGE_A | _PAGE_NX | _PAGE_ACCESSED, true },
		{ "w", PAGE_A | _PAGE_RW,
		  PAGE_A | _PAGE_RW | _PAGE_ACCESSED | _PAGE_DIRTY, true },
		/* The page is to be copied first: the refused write leaves no mark. */
		{ "w", PAGE_A, PAGE_A, false },
		{ "w", PAGE_A | _PAGE_DIRTY, PAGE_A | _PAGE_DIRTY, false },
		{ "x", PAGE_A, PAGE_A | _PAGE_ACCESSED, true },
		{ "x", PAGE_A | _PAGE_NX, PAGE_A | _PAGE_NX, false },
		{ "ws", PAGE_A | _PAGE_DIRTY, PAGE_A | _PAGE_DIRTY | _PAGE_ACCESSED, true },
		{ "ws", PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY, false },
		{ "ws", PAGE_A, PAGE_A, false },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct hydra_request r = {
			.write = strchr(rows[i].access, 'w'),
			.exec = strchr(rows[i].access, 'x'),
			.shstk = strchr(rows[i].access, 's'),
		};
		pteval_t entry = rows[i].before;

		KUNIT_EXPECT_EQ_MSG(test, rows[i].permitted, hydra_permits(&r, entry),
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, hydra_mark_used(&r, &entry),
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, entry, "row %d", i);
	}
}

/* The entry of the fault replaces any entry of the replica. */
static void hydra_test_copy_entry(struct kunit *test)
{
	static const struct {
		pteval_t before, canonical, after;
	} rows[] = {
		{ 0, PAGE_A | _PAGE_RW, PAGE_A },
		{ HYDRA_PTE_REFILL, PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY },
		/* The domain has accessed the page, */
		{ PAGE_A | _PAGE_ACCESSED, PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY | _PAGE_ACCESSED | HYDRA_PTE_MARKED },
		/* or an earlier page of the entry. */
		{ PAGE_B | _PAGE_ACCESSED, PAGE_A, PAGE_A | HYDRA_PTE_MARKED },
		/* The mark of an earlier page stays. */
		{ HYDRA_PTE_REFILL | HYDRA_PTE_MARKED, PAGE_A, PAGE_A | HYDRA_PTE_MARKED },
		{ PAGE_A | HYDRA_PTE_MARKED, PAGE_A, PAGE_A | HYDRA_PTE_MARKED },
		{ PAGE_A | _PAGE_RW | _PAGE_DIRTY, PAGE_A | _PAGE_RW, PAGE_A },
		{ PAGE_A | _PAGE_ACCESSED, PAGE_A, PAGE_A | _PAGE_ACCESSED },
	};
	struct hydra_table t = {
		.level = PG_LEVEL_4K,
		.hmm = hydra_test_mm(test, HYDRA_FILTER_TABLE),
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t copy = rows[i].before;

		hydra_copy_entry(&t, &copy, rows[i].canonical);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, copy, "row %d", i);
	}
}

/* Of 20 entries every third is not present. A 21st entry follows. */
static void hydra_test_copy_many(struct kunit *test)
{
	pteval_t from[21], to[21] = {};
	unsigned int i;

	for (i = 0; i < 21; i++)
		from[i] = i % 3 ? (PAGE_A + i * PAGE_SIZE) | _PAGE_RW : 0;
	KUNIT_EXPECT_EQ(test, 13, hydra_copy_first(from, to, 20));
	for (i = 0; i < 21; i++)
		KUNIT_EXPECT_EQ_MSG(test, i < 20 && i % 3 ? PAGE_A + i * PAGE_SIZE : 0, to[i],
				    "entry %u", i);

	/* Present copies of the domain stay unchanged; all other copies are filled. */
	to[1] |= _PAGE_ACCESSED;
	to[2] = HYDRA_PTE_REFILL | HYDRA_PTE_MARKED;
	to[3] = HYDRA_PTE_REFILL;
	to[4] = 0;
	KUNIT_EXPECT_EQ(test, 2, hydra_copy_more(from, to, 20));
	KUNIT_EXPECT_EQ(test, (PAGE_A + PAGE_SIZE) | _PAGE_ACCESSED, to[1]);
	KUNIT_EXPECT_EQ(test, (PAGE_A + 2 * PAGE_SIZE) | HYDRA_PTE_MARKED, to[2]);
	KUNIT_EXPECT_EQ(test, HYDRA_PTE_REFILL, to[3]);
	KUNIT_EXPECT_EQ(test, PAGE_A + 4 * PAGE_SIZE, to[4]);
	KUNIT_EXPECT_EQ(test, 0, to[20]);
}

#undef PAGE_A
#undef PAGE_B
#undef HUGE_A
#undef TABLE

static struct kunit_case hydra_fill_cases[] = {
	KUNIT_CASE(hydra_test_window),
	KUNIT_CASE(hydra_test_huge_window),
	KUNIT_CASE(hydra_test_copy_huge),
	KUNIT_CASE(hydra_test_fill_huge),
	KUNIT_CASE(hydra_test_fill_huge_access),
	KUNIT_CASE(hydra_test_fill_huge_miss),
	KUNIT_CASE(hydra_test_derive),
	KUNIT_CASE(hydra_test_permits),
	KUNIT_CASE(hydra_test_copy_entry),
	KUNIT_CASE(hydra_test_copy_many),
	{}
};

static struct kunit_suite hydra_fill_suite = {
	.name = "hydra-fill",
	.test_cases = hydra_fill_cases,
};

kunit_test_suite(hydra_fill_suite);

#endif /* CONFIG_HYDRA_MM_KUNIT_TEST */
