/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's hook in the copying of page tables, for fork().
 */
#ifndef _LINUX_HYDRA_FORK_H
#define _LINUX_HYDRA_FORK_H

#include <linux/hydra_pgtable.h>

#ifdef CONFIG_HYDRA_MM

void __hydra_entries_copied(struct mm_struct *mm, void *first, void *end);

/**
 * hydra_entries_copied - update the replicas of entries that fork() write-protected
 * @mm: address space of the parent
 * @first: the first canonical entry of the parent, in a leaf table
 * @end: the entry after the last one
 *
 * All but the test of the key is out of line: otherwise the loop of copy_pte_range()
 * needs an instruction more for each entry.
 *
 * Context: the table's lock, held since the entries were changed.
 */
static __always_inline void hydra_entries_copied(struct mm_struct *mm, void *first,
						 void *end)
{
	if (static_branch_unlikely(&hydra_key.key))
		__hydra_entries_copied(mm, first, end);
}

#else /* !CONFIG_HYDRA_MM */

#define hydra_entries_copied(mm, first, end)	do { } while (0)

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_FORK_H */
