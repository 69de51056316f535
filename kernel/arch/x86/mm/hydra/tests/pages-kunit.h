/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages that stand for page tables in KUnit tests. */
#ifndef _HYDRA_PAGES_KUNIT_H
#define _HYDRA_PAGES_KUNIT_H

#include <kunit/test.h>

static void hydra_test_free_page(void *page)
{
	virt_to_ptdesc(page)->__page_mapping = 0;
	free_page((unsigned long)page);
}

/* A table of empty entries, whose word is 0. It is freed when the test ends. */
static __maybe_unused pteval_t *hydra_test_page(struct kunit *test)
{
	void *page = (void *)get_zeroed_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hydra_test_free_page, page));
	return page;
}

/* A struct hydra_table for such a table; the word of the table points to it. */
static __maybe_unused struct hydra_table *
hydra_test_table(struct kunit *test, pteval_t *canonical, struct hydra_mm *h, u8 level)
{
	struct hydra_table *t;

	t = kunit_kzalloc(test, struct_size(t, table, HYDRA_MAX_DOMAINS), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	hydra_table_init(t, h, NULL, canonical, 0, level);
	virt_to_ptdesc(canonical)->__page_mapping = (unsigned long)t;
	return t;
}

/* The Hydra part of an address space with a filter, for three domains. */
static __maybe_unused struct hydra_mm *hydra_test_mm(struct kunit *test, unsigned int filter)
{
	struct hydra_mm *h = kunit_kzalloc(test, struct_size(h, domain, 3), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, h);
	h->mm = kunit_kzalloc(test, sizeof(*h->mm), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h->mm);
	h->kind = HYDRA_DOMAINS_NODE;
	h->mm->hydra_settings = hydra_settings_pack(HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_LAZY,
						    HYDRA_PREFETCH_MAX, filter);
	return h;
}

#endif /* _HYDRA_PAGES_KUNIT_H */
