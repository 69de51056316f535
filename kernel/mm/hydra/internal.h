/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of Hydra share among themselves.
 */
#ifndef _MM_HYDRA_INTERNAL_H
#define _MM_HYDRA_INTERNAL_H

#include <linux/hydra.h>
#include <linux/mm.h>
#include <linux/pgtable.h>

#include "inject.h"

struct seq_file;

/* mm->hydra_home of an address space that has domain trees. */
#define HYDRA_HOME_SPLIT	(HYDRA_HOME_UNKNOWN - 1)

/* Levels of tables that hold leaf entries, counted from the bottom. */
#define HYDRA_PTE	1
#define HYDRA_PMD	2
#define HYDRA_PUD	3

/*
 * In an entry of a replica: not present, but it was, and its domain is to get
 * the next entry that the canonical tree holds here without asking again.
 */
#define HYDRA_WANTED	_PAGE_SOFTW1

/*
 * ptdesc->__page_mapping of a canonical table, "the word of the table":
 *
 *    0                       no domain walks the table
 *    HYDRA_SOLO | d << 3     a leaf table: domain d alone walks it, by a link
 *    struct hydra_table *    several domains use it, or one that has a copy
 *
 * Bits 0 and 1 stay clear, so the page is not taken for an anonymous or movable
 * one. hydra_shared() tells the third case from the others by the sign.
 */
#define HYDRA_SOLO		BIT(2)
#define HYDRA_SOLO_SHIFT	3

/**
 * struct hydra_table - what a shared canonical table is to the domains
 * @hmm: address space
 * @parent: of the canonical table one level up; NULL for HYDRA_PUD
 * @sharers: domains that link the table or have a copy of one of its leaf
 *	entries, or had since it came to be. Written under the table's lock
 *	before the entry can be seen, read without.
 * @users: domains that have a @table. Written under their locks.
 * @base: address of its first entry
 * @index: of the entry it hangs on in the parent
 * @level: HYDRA_PTE, HYDRA_PMD or HYDRA_PUD
 * @rcu: frees it
 * @table: by domain, its table of this level and place: none, a table of its
 *	own, or (HYDRA_PTE only) the canonical table, which it then links
 */
struct hydra_table {
	struct hydra_mm *hmm;
	struct hydra_table *parent;
	hydra_mask_t sharers;
	hydra_mask_t users;
	unsigned long base;
	u16 index;
	u8 level;
	struct rcu_head rcu;
	pteval_t *table[];
};

/* The canonical table that an entry lies in. */
static inline pteval_t *hydra_table_start(const void *entry)
{
	return (pteval_t *)((unsigned long)entry & PAGE_MASK);
}

static inline unsigned int hydra_entry_index(const void *entry)
{
	return ((unsigned long)entry & ~PAGE_MASK) / sizeof(pteval_t);
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

/*
 * Context: the table's lock, RCU or interrupts off; pages of kernel stacks are
 * no tables and must not be asked about.
 */
static inline unsigned long hydra_word_of(const void *entry)
{
	return *(const volatile unsigned long *)(hydra_word_base +
		(((unsigned long)entry >> PAGE_SHIFT) << HYDRA_DESCRIPTOR_SHIFT));
}

static inline struct hydra_table *hydra_table_of(const void *entry)
{
	return hydra_word_table(hydra_word_of(entry));
}

static inline bool hydra_present(pteval_t val)
{
	return val & _PAGE_PRESENT;
}

/* Does the entry of a table above HYDRA_PTE map memory? */
static inline bool hydra_leaf(pteval_t val)
{
	return (val & (_PAGE_PRESENT | _PAGE_PSE)) ==
	       (_PAGE_PRESENT | _PAGE_PSE);
}

/* Does the entry of a table above HYDRA_PTE point to another table? */
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
 * Not accessed until its domain accesses it. Writable only if the canonical
 * entry is dirty already (invariant 4), so hardware never has a dirty bit to
 * set in a replica. A shadow stack entry (dirty, not writable) stays one.
 */
static inline pteval_t hydra_derive(pteval_t val)
{
	/* All ones, but that the dirty bit has come to the place of the writable one. */
	pteval_t writable = val >> (_PAGE_BIT_DIRTY - _PAGE_BIT_RW) |
			    ~(pteval_t)_PAGE_RW;

	if (hydra_breaks(HYDRA_BREAK_WRITE_CLEAN))
		writable = ~(pteval_t)0;
	return val & writable & ~(pteval_t)_PAGE_ACCESSED;
}

/*
 * The canonical entry that the leaf table of an address hangs on, or would.
 * Context: tables above leaf tables cannot go: a VMA of them is locked, or
 * interrupts are off, or they are being freed by the caller.
 * Return: it, or NULL if there is no table for it, or a huge entry.
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
 * Not p4d_addr_end(), which knows no such part where there are four levels.
 */
static inline unsigned long hydra_next_p4d(unsigned long addr)
{
	return min((addr & P4D_MASK) + P4D_SIZE, TASK_SIZE_MAX);
}

/* Context: any but NMI. */
static inline void hydra_count(struct hydra_mm *h, enum hydra_stat stat,
			       unsigned long n)
{
	if (hydra_breaks(HYDRA_BREAK_COUNT_PLAINLY))
		per_cpu_ptr(h->stats, 0)->n[stat] += n;
	else
		this_cpu_add(h->stats->n[stat], n);
}

/* domain.c */
extern int hydra_domain_nid[HYDRA_MAX_DOMAINS];
extern int hydra_domain_home[HYDRA_MAX_DOMAINS];
extern hydra_mask_t hydra_overflow_mask;

/* The words of a cpumask that the CPUs of a domain lie in. */
struct hydra_span {
	unsigned int first;
	unsigned int last;
};

extern struct hydra_span hydra_domain_span[HYDRA_MAX_DOMAINS];

/* core.c */
int hydra_set(struct mm_struct *mm, const u32 *old, u32 settings);
u32 hydra_get(struct mm_struct *mm);
void hydra_watch(void);
void hydra_lock_out_faults(struct mm_struct *mm);
void hydra_degrade(struct hydra_mm *h, unsigned int d);

/* table.c */
extern unsigned long hydra_replica_limit;
struct hydra_table *hydra_table_alloc(gfp_t gfp);
void hydra_table_init(struct hydra_table *t, struct hydra_mm *h,
		      struct hydra_table *parent, void *canonical,
		      unsigned long addr, u8 level);
struct hydra_table *hydra_table_get(struct hydra_mm *h,
				    struct hydra_table *parent,
				    void *canonical, unsigned long addr,
				    u8 level, gfp_t gfp);
pteval_t *hydra_page_alloc(struct hydra_mm *h, int nid, gfp_t gfp);
void hydra_page_free(struct hydra_mm *h, pteval_t *table);
int hydra_domain_upper(struct hydra_table *t, unsigned int d, void *entry,
		       pteval_t want, gfp_t gfp);
void hydra_table_release(struct hydra_table *t, void *canonical);
void hydra_link(struct hydra_domain *dom, pteval_t *slot, pteval_t *table);
pteval_t hydra_slot_get(struct hydra_table *t, unsigned int d);
unsigned long hydra_table_detach(struct ptdesc *ptdesc);
void hydra_cut_solo(struct hydra_table *parent, unsigned int index,
		    unsigned int d);
void hydra_fold_accessed(pteval_t *copies, pteval_t *canonical, u8 level,
			 unsigned int nr);
pteval_t *hydra_table_cut_domain(struct hydra_table *t, unsigned int d,
				 void *canonical);
void hydra_free_p4ds(struct hydra_mm *h);

/* fill.c */
pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl);
void hydra_window(unsigned long addr, unsigned int degree,
		  unsigned long vm_start, unsigned long vm_end,
		  unsigned int *first, unsigned int *end);

/* flush.c */
/* Which sharers of a range's huge pages are meant. */
enum hydra_huge {
	HYDRA_HUGE_NEVER,	/* none */
	HYDRA_HUGE_NOW,		/* where no table is */
	HYDRA_HUGE_EVER,	/* all of the same PMD and PUD tables */
};

void hydra_range_sharers(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_huge huge,
			 hydra_mask_t *mask);
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, hydra_mask_t *targets);
bool hydra_gather_targets(struct hydra_mm *h, const struct hydra_gather *g,
			  unsigned long start, unsigned long end,
			  hydra_mask_t *targets);

/* reclaim.c */
bool hydra_reclaim_prepare(pteval_t *replica);
void hydra_reclaim_add(struct hydra_table *t, pteval_t *replica);
void hydra_reclaim_remove(pteval_t *replica);

/* settings.c */
#define HYDRA_TEXT_MAX		128

#define hydra_pack(domains, replication, prefetch, filter)		\
	((u32)(domains) | (u32)(replication) << 8 |			\
	 (u32)(prefetch) << 16 | (u32)(filter) << 24)

#define HYDRA_LINUX_SETTINGS \
	hydra_pack(HYDRA_DOMAINS_MACHINE, HYDRA_REPLICATE_LAZY, \
		   HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE)
#define HYDRA_HYDRA_SETTINGS \
	hydra_pack(HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_LAZY, \
		   HYDRA_PREFETCH_MAX, HYDRA_FILTER_TABLE)

static inline unsigned int hydra_domains_setting(u32 s)
{
	return s & 0xff;
}

static inline unsigned int hydra_replication_setting(u32 s)
{
	return (s >> 8) & 0xff;
}

static inline unsigned int hydra_prefetch_setting(u32 s)
{
	return (s >> 16) & 0xff;
}

static inline unsigned int hydra_filter_setting(u32 s)
{
	return s >> 24;
}

extern u32 hydra_default_settings;
int hydra_check_settings(u32 domains, u32 replication, u32 prefetch,
			 u32 filter);
int hydra_parse(const char *text, u32 *settings);
const char *hydra_policy_name(u32 settings);
int hydra_format(char *buf, size_t size, u32 settings);
const char *hydra_domains_name(u32 settings);
const char *hydra_replication_name(u32 settings);
const char *hydra_filter_name(u32 settings);

/* check.c */
extern atomic_long_t hydra_violations;
long hydra_check(struct mm_struct *mm, struct seq_file *m);
int hydra_show_tables(struct mm_struct *mm, struct seq_file *m);

/* report.c */
int hydra_show(struct mm_struct *mm, struct seq_file *m);

/* Architecture: arch/x86/mm/hydra.c */
const char *hydra_arch_refuses(void);
void hydra_sync_ldt(struct mm_struct *mm);
int hydra_arch_lock(struct mm_struct *mm);
bool hydra_arch_trylock(struct mm_struct *mm);
void hydra_arch_unlock(struct mm_struct *mm);
void hydra_switch_roots(struct mm_struct *mm, const struct cpumask *cpus);
unsigned int hydra_pick_cpus(unsigned long *picked, const unsigned long *running,
			     const unsigned long *cpus, unsigned int first,
			     unsigned int last);

#endif /* _MM_HYDRA_INTERNAL_H */
