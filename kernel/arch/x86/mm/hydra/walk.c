// SPDX-License-Identifier: GPL-2.0-only
/*
 * The walk over all canonical tables of one level, for code that walks a whole
 * address space: the return to plain Linux, the keeper, the checker and the census. Fills
 * and flushes look up single places, see fill.c and sharers.c.
 */

#include <linux/mm.h>

#include "table.h"
#include "walk.h"

/**
 * hydra_next_canonical - find the next canonical table
 * @it: the walk; starts at @it->next
 *
 * Starts at the root each time, so the caller may drop its locks in between. Tables above the
 * level may be many and empty: a caller that must not take long sets @it->steps.
 *
 * Context: tables above the level cannot be freed: interrupts are off, or mmap_lock is held for
 * writing.
 * Return: false if there is no further table, or if the walk has stopped: then @it->next is in
 * the address space.
 */
bool hydra_next_canonical(struct hydra_iter *it)
{
	unsigned long steps = it->steps ?: ULONG_MAX;

	lockdep_assert(irqs_disabled() || lockdep_is_held_type(&it->mm->mmap_lock, 0));
	for (; it->next < TASK_SIZE_MAX && steps; steps--) {
		unsigned long addr = it->next;
		pgd_t *pgd = pgd_offset(it->mm, addr);
		enum pg_level level = PG_LEVEL_1G;
		pteval_t *entry, val;

		if (pgd_none(READ_ONCE(*pgd))) {
			it->next = pgd_addr_end(addr, TASK_SIZE_MAX);
			continue;
		}
		entry = (pteval_t *)p4d_offset(pgd, addr);
		while (hydra_is_table(val = READ_ONCE(*entry)) && level > it->level) {
			level--;
			entry = hydra_next_table(val) +
				((addr >> page_level_shift(level + 1)) &
				 (PTRS_PER_PTE - 1));
		}
		/* A table of this level maps 512 entries. */
		addr &= page_level_mask(level + 1);
		it->next = addr + page_level_size(level + 1);
		if (hydra_is_table(val)) {
			it->addr = addr;
			it->entry = entry;
			it->table = hydra_next_table(val);
			return true;
		}
	}
	return false;
}
