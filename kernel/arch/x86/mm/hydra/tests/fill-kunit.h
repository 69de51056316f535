/* SPDX-License-Identifier: GPL-2.0-only */
/* Entries that a fill writes: to replicas, and marks in canonical entries. */
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

	for (degree = 0; degree <= HYDRA_PREFETCH_MAX; degree++) {
		unsigned int nr = 1 << degree;

		hydra_window(base + 300 * PAGE_SIZE, HYDRA_PTE, degree, 0, TASK_SIZE_MAX,
			     &first, &last);
		KUNIT_EXPECT_EQ(test, first, 300 / nr * nr);
		KUNIT_EXPECT_EQ(test, last, first + nr);
	}
	/* Cut at the VMA, on both sides. */
	hydra_window(base + 10 * PAGE_SIZE, HYDRA_PTE, 9, base + 7 * PAGE_SIZE,
		     base + 12 * PAGE_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 7);
	KUNIT_EXPECT_EQ(test, last, 12);
	/* A VMA that goes beyond the table. */
	hydra_window(base + 510 * PAGE_SIZE, HYDRA_PTE, 9, base - PMD_SIZE,
		     end + PMD_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 512);
	/* The last page of all. */
	hydra_window(end - 1, HYDRA_PTE, 0, base, end, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 511);
	KUNIT_EXPECT_EQ(test, last, 512);
}

/* The same of huge entries. */
static void hydra_test_huge_window(struct kunit *test)
{
	unsigned long base = 0x7f0000000000UL;
	unsigned int first, last;

	hydra_window(base + 300 * PMD_SIZE, HYDRA_PMD, 4, 0, TASK_SIZE_MAX, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 288);
	KUNIT_EXPECT_EQ(test, last, 304);
	hydra_window(base + 10 * PMD_SIZE, HYDRA_PMD, 9, base + 7 * PMD_SIZE,
		     base + 12 * PMD_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 7);
	KUNIT_EXPECT_EQ(test, last, 12);
	/* A VMA that ends in the middle of a 2 MiB region: no huge page is there. */
	hydra_window(base, HYDRA_PMD, 9, base, base + 3 * PMD_SIZE + PAGE_SIZE, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 3);
	hydra_window(base + 5 * PUD_SIZE + PMD_SIZE, HYDRA_PUD, 0, 0, TASK_SIZE_MAX, &first,
		     &last);
	KUNIT_EXPECT_EQ(test, first, (pud_index(base) + 5));
	KUNIT_EXPECT_EQ(test, last, first + 1);
	hydra_window(base + 5 * PUD_SIZE, HYDRA_PUD, 9, 0, TASK_SIZE_MAX, &first, &last);
	KUNIT_EXPECT_EQ(test, first, 0);
	KUNIT_EXPECT_EQ(test, last, 512);
}

/* Domain 1 asks for one huge entry of four: it gets the others, and keeps its links. */
static void hydra_test_copy_huge(struct kunit *test)
{
	pteval_t *canonical = hydra_test_page(test), *own = hydra_test_page(test);
	struct hydra_mm *h = hydra_test_mm(test, HYDRA_FILTER_TABLE);
	struct hydra_table *t = hydra_test_table(test, canonical, h, HYDRA_PMD);
	struct hydra_request r = {
		.h = h, .d = 1, .addr = PMD_SIZE, .degree = HYDRA_PREFETCH_MAX,
		.vm_end = 5 * PMD_SIZE,
	};

	t->table[1] = own;
	canonical[0] = HUGE_A;
	canonical[1] = HUGE_A | _PAGE_RW | _PAGE_ACCESSED;
	/* Not huge: a table, and an entry that is not present. */
	canonical[2] = TABLE;
	canonical[3] = HUGE_A & ~(pteval_t)_PAGE_PRESENT;
	canonical[4] = HUGE_A;
	/* Outside the VMA */
	canonical[5] = HUGE_A;
	own[2] = TABLE;
	own[4] = HYDRA_PTE_REFILL | HYDRA_PTE_CACHED;
	KUNIT_EXPECT_EQ(test, 2, hydra_copy_huge(&r, t, canonical, 1));
	KUNIT_EXPECT_EQ(test, HUGE_A, own[0]);
	KUNIT_EXPECT_EQ(test, HUGE_A, own[1]);
	KUNIT_EXPECT_EQ(test, TABLE, own[2]);
	KUNIT_EXPECT_EQ(test, 0, own[3]);
	KUNIT_EXPECT_EQ(test, HUGE_A | HYDRA_PTE_CACHED, own[4]);
	KUNIT_EXPECT_EQ(test, 0, own[5]);
	/* What no access has asked for does not replace what is there. */
	r.unasked = true;
	own[1] = HUGE_A | _PAGE_ACCESSED;
	KUNIT_EXPECT_EQ(test, 0, hydra_copy_huge(&r, t, canonical, 1));
	KUNIT_EXPECT_EQ(test, HUGE_A | _PAGE_ACCESSED, own[1]);
}

/* The entry that a domain gets for a canonical entry. */
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

/* Which accesses a canonical entry permits, and how they mark it. */
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

/* The entry that was asked for is copied over whatever the replica holds. */
static void hydra_test_copy_entry(struct kunit *test)
{
	static const struct {
		pteval_t before, canonical, after;
	} rows[] = {
		{ 0, PAGE_A | _PAGE_RW, PAGE_A },
		{ HYDRA_PTE_REFILL, PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY },
		/* The domain has accessed this page, */
		{ PAGE_A | _PAGE_ACCESSED, PAGE_A | _PAGE_RW | _PAGE_DIRTY,
		  PAGE_A | _PAGE_RW | _PAGE_DIRTY | _PAGE_ACCESSED | HYDRA_PTE_CACHED },
		/* or the page that was there before. */
		{ PAGE_B | _PAGE_ACCESSED, PAGE_A, PAGE_A | HYDRA_PTE_CACHED },
		/* The mark of an earlier page stays. */
		{ HYDRA_PTE_REFILL | HYDRA_PTE_CACHED, PAGE_A, PAGE_A | HYDRA_PTE_CACHED },
		{ PAGE_A | HYDRA_PTE_CACHED, PAGE_A, PAGE_A | HYDRA_PTE_CACHED },
		{ PAGE_A | _PAGE_RW | _PAGE_DIRTY, PAGE_A | _PAGE_RW, PAGE_A },
		{ PAGE_A | _PAGE_ACCESSED, PAGE_A, PAGE_A | _PAGE_ACCESSED },
	};
	struct hydra_table t = {
		.level = HYDRA_PTE,
		.hmm = hydra_test_mm(test, HYDRA_FILTER_TABLE),
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pteval_t copy = rows[i].before;

		hydra_copy_entry(&t, &copy, rows[i].canonical);
		KUNIT_EXPECT_EQ_MSG(test, rows[i].after, copy, "row %d", i);
	}
}

/* Of 20 entries every third one is not present. One more lies behind them. */
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

	/* What the domain has stays as it is; what it lacks or wants it gets. */
	to[1] |= _PAGE_ACCESSED;
	to[2] = HYDRA_PTE_REFILL | HYDRA_PTE_CACHED;
	to[3] = HYDRA_PTE_REFILL;
	to[4] = 0;
	KUNIT_EXPECT_EQ(test, 2, hydra_copy_more(from, to, 20));
	KUNIT_EXPECT_EQ(test, (PAGE_A + PAGE_SIZE) | _PAGE_ACCESSED, to[1]);
	KUNIT_EXPECT_EQ(test, (PAGE_A + 2 * PAGE_SIZE) | HYDRA_PTE_CACHED, to[2]);
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
