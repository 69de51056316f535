/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables and their entries: struct hydra_table, the word of a canonical table, and
 * entries of replicas.
 */
#ifndef _ARCH_X86_MM_HYDRA_ENTRY_H
#define _ARCH_X86_MM_HYDRA_ENTRY_H

#include <linux/hydra.h>
#include <linux/mm.h>
#include <linux/pgtable.h>

#include "auto_rules.h"

/*
 * An entry of a replica, cleared with the canonical entry. The next canonical entry
 * is copied to the replica at once, without a fault of the domain. See
 * hydra_refill_at_end() for when it is not.
 */
#define HYDRA_PTE_REFILL	_PAGE_SOFTW1

/*
 * The mark of a copy, present or not: a TLB of the domain may
 * hold a translation that came from an earlier value of this entry, and no flush has
 * been told to reach it yet. See arch/x86/mm/hydra/marks.c.
 */
#define HYDRA_PTE_MARKED	_PAGE_SOFTW2

/*
 * Part of the mark: the second in which Linux cleared the accessed bit of the copy, or 0 if
 * another change has left the mark. See arch/x86/mm/hydra/idle.c.
 */
#define HYDRA_PTE_STAMP_SHIFT	52
#define HYDRA_PTE_STAMP		GENMASK_ULL(58, HYDRA_PTE_STAMP_SHIFT)
#define HYDRA_PTE_MARK		(HYDRA_PTE_MARKED | HYDRA_PTE_STAMP)

/*
 * In the link of a domain to a leaf table or replica: for how long no CPU of the domain has
 * walked the table, see arch/x86/mm/hydra/rent.c. Hardware ignores the bits. A link has no mark,
 * so they are no part of a stamp.
 */
#define HYDRA_LINK_AGE_SHIFT	52
#define HYDRA_LINK_AGE		GENMASK_ULL(54, HYDRA_LINK_AGE_SHIFT)

/* Bits that hardware ignores. No software reads them in a copy. */
#define HYDRA_PTE_SOFTWARE \
	(_PAGE_SOFTW1 | _PAGE_SOFTW2 | _PAGE_SOFTW3 | HYDRA_PTE_STAMP)

/*
 * ptdesc->pt_hydra of a canonical table, "the word of the table":
 *
 *    0                       no domain walks the table
 *    HYDRA_SOLO | d << 3     a leaf table: domain d alone walks it, by a link
 *    struct hydra_table *    several domains use it, or one domain has a replica
 *    struct ptdesc *         a gather frees the table: the next one, with the sign
 *                            bit clear, see hydra_gather_table()
 *
 * The functions hydra_word_…() below are the only ones that read or write words, besides
 * hydra_table_ctor() and hydra_word_shared().
 *
 * Bits 0 and 1 stay clear, so Linux does not take the page for an anonymous or
 * movable one, and bit 2 of a pointer is clear, too. hydra_shared() detects the third
 * case by the sign.
 */
#define HYDRA_SOLO		BIT(2)
#define HYDRA_SOLO_SHIFT	3

/* Values of hydra_table.linked_hits */
#define HYDRA_LINKED_HITS	8
#define HYDRA_LINKS_CUT		U8_MAX

/**
 * struct hydra_table - a shared canonical table and the domains' tables for it
 * @hmm: address space
 * @parent: of the canonical table one level up; NULL for a PUD table
 * @sharers: domains with a link to the table or a copy of a leaf entry, now or
 *	earlier in the life of the table. Written under the table's lock before the
 *	domain can reach the entry, read without.
 * @users: domains that have a @table. Written under their locks.
 * @base: address of its first entry
 * @level: of what an entry maps: PG_LEVEL_4K (a leaf table), PG_LEVEL_2M or PG_LEVEL_1G
 * @rent: of a leaf table: what sharing it has cost, see arch/x86/mm/hydra/rent.c. Of a PMD
 *	table, a bit for each eighth of its entries: a leaf table there has rent to look at.
 *	Written by several CPUs at once, which may lose what another has added
 * @linked_hits: of a leaf table: flushes from other domains that reached a domain
 *	only because of its link, up to HYDRA_LINKED_HITS; then HYDRA_LINKS_CUT, once
 *	these links have been cut, see hydra_cut_links()
 * @credit: pushes that changes may still waste under filter "auto", see auto_rules.h.
 *	Written under the table's lock
 * @mode: of a leaf table: its account under filter "auto". Written by flushes, without a lock:
 *	the account of one may be lost
 * @changed: between hydra_change_begin() and hydra_change_end(): index of the first
 *	entry in the range. At exit: of the first entry that is not yet folded, see
 *	hydra_fold_at_exit(). Else 0
 * @nr_changed: the number of entries in this range, else 0
 * @rcu: frees it. A collapse does not wait for the table's lock. So only CPUs that a collapse
 *	locks out, by mmap_lock, the VMA and its reverse map, may use @changed and @nr_changed
 * @table: by domain, its table of this level and address: none, a table of its
 *	own, or (leaf tables only) the canonical table, linked
 */
struct hydra_table {
	struct hydra_mm *hmm;
	struct hydra_table *parent;
	hydra_mask_t sharers;
	hydra_mask_t users;
	unsigned long base;
	enum pg_level level : 8;
	u8 rent;
	u8 linked_hits;
	u8 credit;
	struct hydra_mode mode;
	union {
		struct {
			u16 changed;
			u16 nr_changed;
		};
		struct rcu_head rcu;
	};
	pteval_t *table[];
};

/* With up to 64 domains at most, kmalloc() has no gap on 4 and on 8 nodes: 96 and 128 bytes. */
static_assert(offsetof(struct hydra_table, table) == 48 + 2 * sizeof(hydra_mask_t));

/* The canonical table that contains an entry. */
static inline pteval_t *hydra_table_start(const pteval_t *entry)
{
	return (pteval_t *)((unsigned long)entry & PAGE_MASK);
}

static inline unsigned int hydra_entry_index(const pteval_t *entry)
{
	return ((unsigned long)entry & ~PAGE_MASK) / sizeof(pteval_t);
}

/* The index of the entry in the parent that points to a table. */
static inline unsigned int hydra_table_index(const struct hydra_table *t)
{
	return (t->base >> page_level_shift(t->level + 1)) % PTRS_PER_PTE;
}

/* The struct hydra_table that a table's word points to, or NULL. */
static inline struct hydra_table *hydra_word_table(unsigned long word)
{
	return (long)word < 0 ? (struct hydra_table *)word : NULL;
}

static inline bool hydra_word_solo(unsigned long word)
{
	return word & HYDRA_SOLO && (long)word >= 0;
}

static inline unsigned int hydra_word_domain(unsigned long word)
{
	return word >> HYDRA_SOLO_SHIFT;
}

static inline unsigned long hydra_solo(unsigned int d)
{
	return HYDRA_SOLO | (unsigned long)d << HYDRA_SOLO_SHIFT;
}

static inline unsigned long hydra_word_read(const struct ptdesc *ptdesc)
{
	return READ_ONCE(ptdesc->pt_hydra);
}

/*
 * Context: the table's lock, RCU or interrupts off; above the leaf tables as
 * hydra_canonical_pmd(). @entry must be in a page table: pages of kernel stacks have no
 * such word.
 */
static inline unsigned long hydra_word_of(const pteval_t *entry)
{
	return hydra_word_read(hydra_ptdesc(entry));
}

/* One domain alone walks a leaf table from now on. */
static inline void hydra_word_set_solo(struct ptdesc *ptdesc, unsigned int d)
{
	/* The empty table before the word; hydra_link() orders both before the link. */
	smp_store_release(&ptdesc->pt_hydra, hydra_solo(d));
}

/* A table is shared from now on. */
static inline void hydra_word_set_table(struct ptdesc *ptdesc, struct hydra_table *t)
{
	/*
	 * The initialised object before the word; pairs with the address dependency in
	 * hydra_table_of().
	 */
	smp_store_release(&ptdesc->pt_hydra, (unsigned long)t);
}

/*
 * The same for a table of which the word is 0, without its lock. Return: NULL, or what
 * another CPU has put there.
 */
static inline struct hydra_table *hydra_word_try_table(struct ptdesc *ptdesc,
						       struct hydra_table *t)
{
	return (struct hydra_table *)cmpxchg(&ptdesc->pt_hydra, 0, (unsigned long)t);
}

/* No domain walks a table any more, or a list of freed tables ends with it. */
static inline void hydra_word_clear(struct ptdesc *ptdesc)
{
	WRITE_ONCE(ptdesc->pt_hydra, 0);
}

/* A table without a word is freed; @next, or NULL, is freed with it. */
static inline void hydra_word_set_next(struct ptdesc *ptdesc, struct ptdesc *next)
{
	WRITE_ONCE(ptdesc->pt_hydra, (unsigned long)next & LONG_MAX);
}

static inline struct ptdesc *hydra_word_next(const struct ptdesc *ptdesc)
{
	unsigned long next = hydra_word_read(ptdesc);

	return next ? (struct ptdesc *)(next | ~LONG_MAX) : NULL;
}

static inline struct hydra_table *hydra_table_of(const pteval_t *entry)
{
	return hydra_word_table(hydra_word_of(entry));
}

static inline bool hydra_present(pteval_t val)
{
	return val & _PAGE_PRESENT;
}

/* Does the entry of a table above the leaf tables map memory? */
static inline bool hydra_leaf(pteval_t val)
{
	return (val & (_PAGE_PRESENT | _PAGE_PSE)) ==
	       (_PAGE_PRESENT | _PAGE_PSE);
}

/* Does the entry of a table above the leaf tables point to another table? */
static inline bool hydra_is_table(pteval_t val)
{
	return (val & (_PAGE_PRESENT | _PAGE_PSE)) == _PAGE_PRESENT;
}

/* Do two values of an entry point to the same table? */
static inline bool hydra_same_table(pteval_t a, pteval_t b)
{
	return !((a ^ b) & (PTE_PFN_MASK | _PAGE_PRESENT | _PAGE_PSE));
}

static inline pteval_t *hydra_next_table(pteval_t val)
{
	return __va(val & PTE_PFN_MASK);
}

/**
 * hydra_derive - the entry a replica holds for a canonical entry
 * @val: present canonical entry
 *
 * The accessed bit is clear until the domain accesses the entry. The entry is
 * writable only if the canonical entry is dirty (invariant 4), so hardware never
 * sets a dirty bit in a replica. A shadow stack entry (dirty, not writable) stays
 * one. The software bits of replicas are Hydra's.
 *
 * Return: the entry of the replica.
 */
static inline pteval_t hydra_derive(pteval_t val)
{
	/* All ones, with the dirty bit at the place of the writable bit. */
	pteval_t writable = val >> (_PAGE_BIT_DIRTY - _PAGE_BIT_RW) |
			    ~(pteval_t)_PAGE_RW;

	return val & writable & ~(pteval_t)(_PAGE_ACCESSED | HYDRA_PTE_SOFTWARE);
}

/*
 * The canonical PMD entry of an address.
 * Context: tables above leaf tables cannot be freed: a VMA of them is locked, or
 * interrupts are off, or the caller frees them.
 * Return: the entry, or NULL if the address has no PMD table, or a huge PUD entry.
 */
static inline pmd_t *hydra_canonical_pmd(struct mm_struct *mm,
					 unsigned long addr)
{
	pgd_t *pgd = pgd_offset(mm, addr);
	pteval_t val;

	if (pgtable_l5_enabled() && pgd_none(READ_ONCE(*pgd)))
		return NULL;
	val = p4d_val(READ_ONCE(*p4d_offset(pgd, addr)));
	if (!hydra_present(val))
		return NULL;
	val = READ_ONCE(hydra_next_table(val)[pud_index(addr)]);
	if (!hydra_is_table(val))
		return NULL;
	return (pmd_t *)hydra_next_table(val) + pmd_index(addr);
}

/*
 * The first address after the part of the address space that a p4d entry maps.
 * p4d_addr_end() does not give it where there are four levels.
 */
static inline unsigned long hydra_next_p4d(unsigned long addr)
{
	return min((addr & P4D_MASK) + P4D_SIZE, TASK_SIZE_MAX);
}

/*
 * How many copies, entries times sharers, are changed or read under one lock of a table, or
 * looked at by one flush. See "Progress and latency" in
 * Documentation/mm/hydra/rules.rst.
 */
#define HYDRA_COPIES_MAX	(4 * PTRS_PER_PTE)

/* How many entries of a table with so many sharers are that at most? At least one. */
static inline unsigned int hydra_entries_at_once(const hydra_mask_t *sharers)
{
	return max(HYDRA_COPIES_MAX / (bitmap_weight(sharers->bits, HYDRA_MAX_DOMAINS) ?: 1), 1);
}

/* Have so many flushes reached domains for their links only that these are cut? */
static inline bool hydra_links_due(const struct hydra_table *t)
{
	return READ_ONCE(t->linked_hits) == HYDRA_LINKED_HITS;
}

/* Has hardware set the accessed bit of a copy that is not present? */
static inline bool hydra_stray(pteval_t val)
{
	return unlikely((val & (_PAGE_PRESENT | _PAGE_ACCESSED)) == _PAGE_ACCESSED);
}

/* The caller holds the lock of the leaf table that contains an entry. */
static inline void hydra_assert_leaf_locked(const pteval_t *entry)
{
	lockdep_assert_held(ptlock_ptr(hydra_ptdesc(entry)));
}

#endif /* _ARCH_X86_MM_HYDRA_ENTRY_H */
