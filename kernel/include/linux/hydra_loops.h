/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's hooks in Linux's loops over the entries of a leaf table: fork(), mprotect(),
 * munmap() and exit.
 *
 * Such a loop holds the table's lock, and changes each domain's copy of each entry. So
 * where many domains share the table, the caller of the loop gives it the entries part by
 * part, and the loop drops the lock in between. See "Progress and latency" in
 * Documentation/mm/hydra/rules.rst.
 */
#ifndef _LINUX_HYDRA_LOOPS_H
#define _LINUX_HYDRA_LOOPS_H

#include <linux/hydra.h>
#include <linux/hydra_pgtable.h>
#include <linux/mm.h>

#ifdef CONFIG_HYDRA_MM

unsigned long __hydra_part_end(pmd_t *pmd, unsigned long addr, unsigned long end);
void __hydra_entries_copied(struct mm_struct *mm, pteval_t *first, pteval_t *end);
void __hydra_change_begin(pteval_t *entry, unsigned int nr);
void __hydra_change_end(pteval_t *entry);
unsigned long __hydra_zap_part(pteval_t *entry, unsigned long addr, unsigned long end,
			       bool shared, bool full);

/**
 * hydra_part_end - how many entries of a leaf table may a loop take now?
 * @mm: the address space
 * @pmd: the canonical entry that points to the table, or did
 * @addr: address of the first entry
 * @end: the address after those of the entries
 *
 * Asked by the caller of the loop: a bound that changes in the loop would cost registers
 * where nothing is shared.
 *
 * The table may be freed or replaced after the answer. If nothing is there then, the caller
 * takes the rest in the next pass. If a huge page is, the caller takes all of it.
 *
 * Context: process context, mmap_lock held, no lock of a table.
 * Return: the address after the part; the caller goes on there if it is not @end.
 */
static inline unsigned long hydra_part_end(const struct mm_struct *mm, pmd_t *pmd,
					   unsigned long addr, unsigned long end)
{
	return mm_hydra(mm) ? __hydra_part_end(pmd, addr, end) : end;
}

/* Is a part the last one of its table? If it is the last of all, the answer does not matter. */
static inline bool hydra_table_done(unsigned long part_end)
{
	return !(part_end & ~PMD_MASK);
}

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
static __always_inline void hydra_entries_copied(struct mm_struct *mm, pte_t *first,
						 pte_t *end)
{
	if (static_branch_unlikely(&hydra_key.key))
		__hydra_entries_copied(mm, (pteval_t *)first, (pteval_t *)end);
}

/**
 * hydra_change_begin - clear replicas before the caller changes canonical entries
 * @mm: address space of the entries
 * @entry: the first entry, in a leaf table
 * @size: how many bytes the entries map
 *
 * The canonical entries get the accessed bits of their replicas. No domain gets a
 * replica of the entries again while the caller holds the lock of the table. So the
 * caller changes the entries as if there were no replicas, and calls hydra_change_end()
 * before it drops the lock. The struct hydra_table remembers the range.
 *
 * Context: the table's lock. A range of more than one entry is of hydra_part_end().
 */
static __always_inline void hydra_change_begin(const struct mm_struct *mm, pte_t *entry,
					       unsigned long size)
{
	if (hydra_shared(mm, entry))
		__hydra_change_begin((pteval_t *)entry, PHYS_PFN(size));
}

/**
 * hydra_change_end - update replicas after the caller has changed canonical entries
 * @entry: any entry of the table
 *
 * The word alone is tested: if it is a pointer, mm->hydra is set.
 *
 * Context: the table's lock, held since hydra_change_begin().
 */
static __always_inline void hydra_change_end(pte_t *entry)
{
	if (static_branch_unlikely(&hydra_key.key) && hydra_word_shared((pteval_t *)entry))
		__hydra_change_end((pteval_t *)entry);
}

/**
 * hydra_zap_part - entries of a leaf table are about to be cleared
 * @vma: area of the entries
 * @entry: the first entry
 * @addr: address of the entry
 * @end: the address after those of the entries
 * @full: the whole address space is torn down: no thread runs it
 *
 * If @full, the replicas keep their entries until the table is freed. No
 * instruction of any CPU can use them: a CPU that still has a domain root loaded
 * is lazy and runs a kernel thread. The canonical entries get the accessed bits of
 * the replicas now.
 *
 * Context: the table's lock.
 * Return: the end of the entries that the caller may clear now. Then the caller drops the
 * lock, and goes on if it is not @end.
 */
static __always_inline unsigned long hydra_zap_part(const struct vm_area_struct *vma,
						    pte_t *entry, unsigned long addr,
						    unsigned long end, bool full)
{
	if (hydra_shared(vma->vm_mm, entry))
		return __hydra_zap_part((pteval_t *)entry, addr, end, vma->vm_flags & VM_SHARED,
					full);
	return end;
}

#else /* !CONFIG_HYDRA_MM */

#define hydra_part_end(mm, pmd, addr, end)		(end)
#define hydra_table_done(part_end)			1
#define hydra_entries_copied(mm, first, end)		do { } while (0)
#define hydra_change_begin(mm, entry, size)		do { } while (0)
#define hydra_change_end(entry)				do { } while (0)
#define hydra_zap_part(vma, entry, addr, end, full)	(end)

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_LOOPS_H */
