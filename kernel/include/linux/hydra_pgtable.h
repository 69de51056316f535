/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's hooks into the accessors of page-table entries. Apart from
 * linux/hydra.h because asm/pgtable.h needs them before all that one needs is
 * known.
 */
#ifndef _LINUX_HYDRA_PGTABLE_H
#define _LINUX_HYDRA_PGTABLE_H

#include <linux/mm_types.h>

#ifdef CONFIG_HYDRA_MM
#include <linux/jump_label_ratelimit.h>

/* On while any address space has domain trees, or has had some. */
extern struct static_key_false_deferred hydra_key;

/*
 * ptdesc->__page_mapping of the table that an entry lies in is at this address
 * plus 64 bytes for each page frame number's worth of the entry's address. So
 * the word is found without a look at the layout of the machine's memory.
 */
extern unsigned long hydra_word_base;
#define HYDRA_DESCRIPTOR_SHIFT	6

/* Functions that were inlined before they had a hook in them. */
#define hydra_inlined		__always_inline

/*
 * set_ptes() for a child that fork() makes: no domain has anything of its tables
 * yet.
 */
#define hydra_set_child_ptes	__set_ptes

void __hydra_entries_set(void *entry, unsigned int nr);
unsigned long hydra_entry_exchange(void *entry, unsigned long val);
int __hydra_test_and_clear_young(void *entry);
bool __hydra_young(void *entry, unsigned int nr);

/*
 * Does the table of an entry have a struct hydra_table? The word of a table that
 * no domain uses is 0, that of a table that one domain uses alone is a small
 * number (see HYDRA_SOLO in mm/hydra/internal.h), and a pointer into the kernel's
 * half of the address space is negative.
 */
static __always_inline bool hydra_word_shared(const void *entry)
{
	unsigned long word = hydra_word_base +
		(((unsigned long)entry >> PAGE_SHIFT) << HYDRA_DESCRIPTOR_SHIFT);

	return *(const volatile long *)word < 0;
}

/**
 * hydra_shared - may there be replicas of an entry?
 * @mm: address space the entry belongs to
 * @entry: the entry, of any level, in the direct map
 *
 * Context: any. False is right for a change under the table's lock: a domain
 * that makes a copy of the table's entries takes that lock first, and before that
 * the address space has been split.
 */
static __always_inline bool hydra_shared(const struct mm_struct *mm,
					 const void *entry)
{
	return static_branch_unlikely(&hydra_key.key) &&
	       unlikely(READ_ONCE(mm->hydra)) && hydra_word_shared(entry);
}

/**
 * hydra_entries_set - the caller has stored canonical entries
 * @mm: address space the entries belong to
 * @entry: the first of them, of any level
 * @nr: how many, all in one table
 *
 * Brings the replicas of the entries in line: permissions, frame and dirty
 * state follow, accessed bits of the replicas stay.
 *
 * Context: the lock of the canonical table is held, or the table is not
 * reachable.
 */
static __always_inline void hydra_entries_set(struct mm_struct *mm, void *entry,
					      unsigned int nr)
{
	if (hydra_shared(mm, entry))
		__hydra_entries_set(entry, nr);
}

/**
 * hydra_test_and_clear_young - the accessed bits of the replicas of an entry
 * @mm: address space the entry belongs to
 * @entry: the canonical entry, of any level
 *
 * Context: as hydra_entries_set().
 * Return: 1 if one was set, else 0; none is set any more.
 */
static __always_inline int hydra_test_and_clear_young(struct mm_struct *mm,
						      void *entry)
{
	return hydra_shared(mm, entry) ? __hydra_test_and_clear_young(entry) : 0;
}

/**
 * hydra_young - for readers of the accessed bit that only look
 * @entry: the first canonical entry, of any level
 * @nr: how many, all in one table
 *
 * Context: as hydra_entries_set().
 * Return: true if a replica of one of the entries has been accessed.
 */
static __always_inline bool hydra_young(void *entry, unsigned int nr)
{
	return static_branch_unlikely(&hydra_key.key) &&
	       hydra_word_shared(entry) && __hydra_young(entry, nr);
}

#else /* !CONFIG_HYDRA_MM */

#define hydra_inlined
#define hydra_set_child_ptes	set_ptes

static __always_inline bool hydra_shared(const struct mm_struct *mm,
					 const void *entry)
{
	return false;
}

static __always_inline unsigned long hydra_entry_exchange(void *entry,
							  unsigned long val)
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
