/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages used as page tables in KUnit tests. */
#ifndef _HYDRA_PAGES_KUNIT_H
#define _HYDRA_PAGES_KUNIT_H

#include <kunit/test.h>

#include "../domain.h"
#include "../settings.h"
#include "../state.h"
#include "../table.h"

static void hydra_test_free_page(void *page)
{
	hydra_word_clear(virt_to_ptdesc(page));
	pagetable_pte_dtor(virt_to_ptdesc(page));
	free_page((unsigned long)page);
}

/*
 * A table of empty entries, with word 0 and a lock. KUnit frees the table when the test
 * ends.
 */
static __maybe_unused pteval_t *hydra_test_page(struct kunit *test)
{
	void *page = (void *)get_zeroed_page(GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, page);
	KUNIT_ASSERT_TRUE(test, pagetable_pte_ctor(virt_to_ptdesc(page)));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hydra_test_free_page, page));
	return page;
}

/* A struct hydra_table for a table; the word of the table points to the struct. */
static __maybe_unused struct hydra_table *
hydra_test_table(struct kunit *test, pteval_t *canonical, struct hydra_mm *h, enum pg_level level)
{
	struct hydra_table *t;

	t = kunit_kzalloc(test, struct_size(t, table, HYDRA_MAX_DOMAINS), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	hydra_table_init(t, h, NULL, 0, level);
	hydra_word_set_table(virt_to_ptdesc(canonical), t);
	return t;
}

/* The Hydra part of an address space with a filter, for three domains. */
static __maybe_unused struct hydra_mm *hydra_test_mm(struct kunit *test, unsigned int filter)
{
	struct hydra_mm *h = kunit_kzalloc(test, struct_size(h, domain, 3), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, h);
	h->mm = kunit_kzalloc(test, sizeof(*h->mm) + cpumask_size(), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, h->mm);
	h->scope = HYDRA_SCOPE_NODE;
	h->mm->hydra_settings = HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY,
					     HYDRA_PREFETCH_MAX, filter).word;
	hydra_note_settings(h, hydra_settings_get(h->mm));
	return h;
}

/* A domain of the address space, without tables. */
static __maybe_unused struct hydra_domain *
hydra_test_domain(struct kunit *test, struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = kunit_kzalloc(test, sizeof(*dom), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dom);
	spin_lock_init(&dom->lock);
	h->domain[d] = dom;
	return dom;
}

/* Can the lock be taken? */
static __maybe_unused bool hydra_test_is_free(spinlock_t *lock)
{
	if (!spin_trylock(lock))
		return false;
	spin_unlock(lock);
	return true;
}

static void hydra_test_free_stats(void *stats)
{
	free_percpu((struct hydra_stats __percpu __force *)stats);
}

/* The counters of the address space. KUnit frees them when the test ends. */
static __maybe_unused void hydra_test_stats(struct kunit *test, struct hydra_mm *h)
{
	h->stats = alloc_percpu(struct hydra_stats);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)h->stats);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, hydra_test_free_stats,
							   (void __force *)h->stats));
}

static __maybe_unused unsigned long hydra_test_count(struct hydra_mm *h, enum hydra_stat stat)
{
	unsigned long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(h->stats, cpu)->n[stat];
	return sum;
}

#endif /* _HYDRA_PAGES_KUNIT_H */
