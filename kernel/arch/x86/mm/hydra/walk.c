// SPDX-License-Identifier: GPL-2.0-only
/*
 * The walk over all canonical tables of one level, for code that walks a whole
 * address space: the return to plain Linux, the checker and the census. Fills and
 * flushes look up single places, see fill.c and sharers.c.
 */

#include <linux/mm.h>

#include "table.h"
#include "walk.h"

/**
 * hydra_next_canonical - find the next canonical table
 * @it: the walk; starts at @it->next
 *
 * Starts at the root each time, so the caller may drop its locks in between.
 *
 * Context: mmap_lock held for writing: tables above the level are not freed.
 * Return: false if there is no further table.
 */
bool hydra_next_canonical(struct hydra_iter *it)
{
	lockdep_assert_held_write(&it->mm->mmap_lock);
	while (it->next < TASK_SIZE_MAX) {
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
