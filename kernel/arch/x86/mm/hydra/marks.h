/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks: see marks.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_MARKS_H
#define _ARCH_X86_MM_HYDRA_MARKS_H

#include <linux/percpu.h>

#include "platform.h"
#include "state.h"
#include "entry.h"

/* How to look for the domains to reach in a shared leaf table. */
enum hydra_look {
	HYDRA_BY_TABLE,		/* all sharers */
	HYDRA_LOOK_AT_MARKS,	/* domains with a mark in the range, or a link */
	HYDRA_TAKE_MARKS,	/* the same, and clear these marks */
};

/* The flush that a CPU has published, for other CPUs to read */
struct hydra_published {
	struct hydra_mm *h;		/* NULL: none. Read by this CPU alone. */
	unsigned long start;
	unsigned long end;
	hydra_mask_t targets;
};

DECLARE_PER_CPU_SHARED_ALIGNED(struct hydra_published, hydra_published);

bool hydra_take_marks(struct hydra_mm *h, unsigned int d, pteval_t *copies,
		      unsigned int nr, enum hydra_look look);
void hydra_publish(struct hydra_mm *h, unsigned long start, unsigned long end);
void hydra_add_published(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *sharers,
			 hydra_mask_t *targets);
void __hydra_unpublish(void);

/**
 * hydra_unpublish - this CPU's flush has reached its targets
 *
 * Does nothing if the flush has not been published.
 *
 * Context: preemption off. Ends the part that hydra_publish() began.
 */
static inline void hydra_unpublish(void)
{
	if (this_cpu_read(hydra_published.h))
		__hydra_unpublish();
}

/**
 * hydra_is_fine - do flushes look at the marks of a leaf table?
 * @h: address space
 * @t: of the leaf table; NULL: one domain alone walks the table, so it would be a new account
 *
 * The mode of a table may change at any time, and so may the answer.
 *
 * Context: any.
 * Return: true under the filters "entry" and "accessed", and under "auto" unless the table
 * goes by table.
 */
static inline bool hydra_is_fine(const struct hydra_mm *h, const struct hydra_table *t)
{
	unsigned int filter = hydra_filter(h);

	return filter >= HYDRA_FILTER_ENTRY &&
	       (filter != HYDRA_FILTER_AUTO || !t ||
		READ_ONCE(t->mode).state != HYDRA_MODE_TABLE);
}

/**
 * hydra_mark - the mark of a copy that is about to change
 * @t: of the canonical table
 * @old: the copy
 *
 * The copy is marked without a stamp if the domain may have the copy in a TLB: the copy is
 * accessed, or the copy is present and that is what counts. Otherwise an earlier mark
 * stays, with its stamp.
 *
 * Filter "entry" counts present copies, too, if accessed bits can be trusted: that is
 * what the filter is for. It needs the accessed ones only. So copies that changed
 * under another filter are marked right for "entry".
 *
 * Context: the table's lock.
 * Return: bits of HYDRA_PTE_MARK, or 0.
 */
static inline pteval_t hydra_mark(const struct hydra_table *t, pteval_t old)
{
	if (hydra_present(old) &&
	    (old & _PAGE_ACCESSED || !hydra_trusts_accessed ||
	     hydra_filter(t->hmm) == HYDRA_FILTER_ENTRY))
		return HYDRA_PTE_MARKED;
	return old & HYDRA_PTE_MARK;
}

/**
 * hydra_renew - the value of a copy for a present canonical entry
 * @t: of the canonical table
 * @old: the copy, present or not
 * @val: the canonical entry
 *
 * The copy keeps its accessed bit for the same page, and is marked if anything else
 * changes.
 *
 * Return: the value; @old if nothing changes.
 */
static inline pteval_t hydra_renew(const struct hydra_table *t, pteval_t old,
				   pteval_t val)
{
	pteval_t new = hydra_derive(val);

	if (hydra_present(old) && !((old ^ val) & PTE_PFN_MASK))
		new |= old & _PAGE_ACCESSED;
	if (!((old ^ new) & ~(pteval_t)HYDRA_PTE_MARK))
		return old;
	return new | hydra_mark(t, old);
}

#endif /* _ARCH_X86_MM_HYDRA_MARKS_H */
