/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's hooks in the accessors of page-table entries. Not in linux/hydra.h:
 * asm/pgtable.h includes this file before the types that linux/hydra.h needs are
 * defined.
 */
#ifndef _LINUX_HYDRA_PGTABLE_H
#define _LINUX_HYDRA_PGTABLE_H

#include <linux/mm_types.h>

/* set_ptes() if hydra_shared() is true */
void hydra_set_ptes(struct mm_struct *mm, unsigned long addr, pte_t *ptep, pte_t pte,
		    unsigned int nr);

#ifdef CONFIG_HYDRA_MM
#include <linux/jump_label_ratelimit.h>

/* On while any address space has, or has had, domain trees */
extern struct static_key_false_deferred hydra_key;

/*
 * The struct page of each page in the direct map, by virtual page number. So an accessor
 * finds the struct ptdesc of a table without a lookup of the memory layout.
 */
extern struct page *hydra_pages;

/* The table that contains an entry in the direct map, of any level */
static __always_inline struct ptdesc *hydra_ptdesc(const pteval_t *entry)
{
	return page_ptdesc(hydra_pages + ((unsigned long)entry >> PAGE_SHIFT));
}

/*
 * A page becomes a table of Linux's tree: its word says that no domain uses the table.
 * hydra_shared() relies on that. Linux clears page->mapping of no page that it allocates, and
 * checks at free only with CONFIG_DEBUG_VM whether the last user has cleared it. The constructor
 * has the line of memory at hand.
 */
static inline void hydra_table_ctor(struct ptdesc *ptdesc)
{
	ptdesc->pt_hydra = 0;
}

/*
 * Behind these hooks an entry of any level is a pteval_t. The hooks take Linux's pte_t *,
 * pmd_t * and pud_t *, as a void *.
 */
void __hydra_entries_set(pteval_t *entry, unsigned int nr);
bool hydra_changing(const void *entry);
pteval_t __hydra_entry_exchange(pteval_t *entry, pteval_t val);
int __hydra_test_and_clear_young(pteval_t *entry);
bool __hydra_young(pteval_t *entry, unsigned int nr);

/*
 * Does the table of an entry have a struct hydra_table? The word of a table is 0 if
 * no domain walks it, a small number if one domain alone links it (see HYDRA_SOLO
 * in arch/x86/mm/hydra/entry.h), or a pointer into the kernel's half of the address
 * space, which is negative.
 */
static __always_inline bool hydra_word_shared(const pteval_t *entry)
{
	return (long)READ_ONCE(hydra_ptdesc(entry)->pt_hydra) < 0;
}

/**
 * hydra_shared - may there be replicas of an entry?
 * @mm: address space of the entry
 * @entry: the entry, of any level, in the direct map
 *
 * False is safe for a change under the table's lock: a domain takes this lock
 * before it copies entries of the table, and mm->hydra is set before that.
 *
 * Context: any.
 * Return: false if the entry has no replica.
 */
static __always_inline bool hydra_shared(const struct mm_struct *mm,
					 const void *entry)
{
	return static_branch_unlikely(&hydra_key.key) &&
	       unlikely(READ_ONCE(mm->hydra)) && hydra_word_shared(entry);
}

/**
 * hydra_entries_set - update replicas after the caller has stored canonical entries
 * @mm: address space of the entries
 * @entry: the first entry, of any level
 * @nr: how many, all in one table
 *
 * Replicas get the permissions, the frame and the dirty state of the canonical
 * entry, and keep their accessed bits.
 *
 * Context: the lock of the canonical table is held, or the table is not reachable.
 */
static __always_inline void hydra_entries_set(struct mm_struct *mm, void *entry,
					      unsigned int nr)
{
	if (hydra_shared(mm, entry))
		__hydra_entries_set(entry, nr);
}

/**
 * hydra_entry_exchange - put another value in a canonical entry, or clear it
 * @entry: the entry, of any level, for which hydra_shared() is true
 * @val: the new value
 *
 * Context: as hydra_entries_set(). Return: see __hydra_entry_exchange().
 */
static __always_inline pteval_t hydra_entry_exchange(void *entry, pteval_t val)
{
	return __hydra_entry_exchange(entry, val);
}

/**
 * hydra_test_and_clear_young - test and clear the accessed bits of an entry's
 * replicas
 * @mm: address space of the entry
 * @entry: the canonical entry, of any level
 *
 * Context: as hydra_entries_set().
 * Return: 1 if one of the bits was set, else 0.
 */
static __always_inline int hydra_test_and_clear_young(struct mm_struct *mm,
						      void *entry)
{
	return hydra_shared(mm, entry) ? __hydra_test_and_clear_young(entry) : 0;
}

/**
 * hydra_young - has a replica of one of the entries been accessed?
 * @entry: the first canonical entry, of any level
 * @nr: how many, all in one table
 *
 * Context: as hydra_entries_set().
 * Return: true if the accessed bit of a replica is set.
 */
static __always_inline bool hydra_young(void *entry, unsigned int nr)
{
	return static_branch_unlikely(&hydra_key.key) &&
	       hydra_word_shared(entry) && __hydra_young(entry, nr);
}

#else /* !CONFIG_HYDRA_MM */

static inline void hydra_table_ctor(struct ptdesc *ptdesc) { }

static __always_inline bool hydra_shared(const struct mm_struct *mm,
					 const void *entry)
{
	return false;
}

static __always_inline unsigned long hydra_entry_exchange(void *entry, unsigned long val)
{
	return 0;
}

static __always_inline void hydra_entries_set(struct mm_struct *mm, void *entry,
					      unsigned int nr)
{
}

static __always_inline int hydra_test_and_clear_young(struct mm_struct *mm,
						      void *entry)
{
	return 0;
}

static __always_inline bool hydra_young(void *entry, unsigned int nr)
{
	return false;
}

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_PGTABLE_H */
