/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of Hydra share.
 */
#ifndef _ARCH_X86_MM_HYDRA_INTERNAL_H
#define _ARCH_X86_MM_HYDRA_INTERNAL_H

#include <linux/hydra.h>
#include <linux/hydra_gather.h>
#include <linux/hydra_proc.h>
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched/mm.h>

#include "settings.h"
#include "table.h"

/*
 * mm->hydra_home: hydra_home() of the CPUs running the address space; 0 with the
 * settings of stock Linux; UNKNOWN before the first CPU runs the address space; SPLIT
 * with domain trees.
 */
#define HYDRA_HOME_UNKNOWN(kind)	((u32)(kind) << HYDRA_HOME_SHIFT)
#define HYDRA_HOME_SPLIT		U32_MAX

/* Context: any but NMI. */
static inline void hydra_stat_add(struct hydra_mm *h, enum hydra_stat stat,
				  unsigned long n)
{
	this_cpu_add(h->stats->n[stat], n);
}

static inline unsigned int hydra_filter(const struct hydra_mm *h)
{
	return hydra_filter_setting(hydra_settings_get(h->mm));
}

/*
 * Replication "eager": does each domain get an entry as soon as one domain has it?
 * Context: any.
 */
static inline bool hydra_eager(const struct hydra_mm *h)
{
	return READ_ONCE(h->eager);
}

/* domain.c */
/* The words of a cpumask that contain CPUs of a domain. */
struct hydra_span {
	unsigned int first;
	unsigned int last;
};

/**
 * struct hydra_kind - the domains of one kind
 * @nr: how many there are
 * @all: their numbers
 * @overflow: domains that always use the canonical tree
 * @cpus: by domain, its CPUs; for numbers from @nr on: none
 * @nid: by domain, its node
 * @home: by domain, its home node, on which its tables are allocated
 * @span: by domain, where its CPUs are in a cpumask
 */
struct hydra_kind {
	unsigned int nr;
	hydra_mask_t all;
	hydra_mask_t overflow;
	struct cpumask *cpus[HYDRA_MAX_DOMAINS];
	int nid[HYDRA_MAX_DOMAINS];
	int home[HYDRA_MAX_DOMAINS];
	struct hydra_span span[HYDRA_MAX_DOMAINS];
};

extern struct hydra_kind hydra_kinds[HYDRA_NR_KINDS];

/*
 * Context: mmap_lock or a VMA is locked, or active has been read as true since preemption
 * was disabled, unless the caller accepts an earlier kind. See hydra_set_kind().
 */
static inline const struct hydra_kind *hydra_kind_of(const struct hydra_mm *h)
{
	return &hydra_kinds[READ_ONCE(h->kind)];
}

void hydra_move_cpus(const u16 *to);

/* groups.c */
unsigned int hydra_groups_at_boot(u16 **group, unsigned int most);

/* latency.c */
unsigned int hydra_find_groups(const u32 *latency, unsigned int nr, u16 *group);
unsigned int hydra_measure_groups(u16 *group);

/* pool.c */
DECLARE_STATIC_KEY_FALSE(hydra_pools_key);
extern unsigned long hydra_pool_limit;
int hydra_pool_of(const struct page *page);
bool hydra_page_is_away(const struct page *page);
struct page *hydra_pool_get(unsigned int d);
int hydra_pools_start(unsigned int nr, const u8 *host);
void hydra_pools_place(void);
int hydra_pools_show(char *buf);

static inline bool hydra_has_pools(const struct hydra_kind *kind)
{
	return static_branch_unlikely(&hydra_pools_key) &&
	       kind == &hydra_kinds[HYDRA_DOMAINS_NODE];
}

/* Are two CPUs on different nodes, or in different groups? */
static inline bool hydra_across(int a, int b)
{
	if (static_branch_unlikely(&hydra_pools_key))
		return hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, a) !=
		       hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, b);
	return cpu_to_node(a) != cpu_to_node(b);
}

/*
 * Is a table on the home node of a domain; or, where groups of CPUs take the place of nodes,
 * from the pool of its group?
 */
static inline bool hydra_is_home_of(const struct hydra_kind *kind, unsigned int d,
				    const void *table)
{
	const struct page *page = virt_to_page(table);

	if (hydra_has_pools(kind))
		return hydra_pool_of(page) == d;
	return page_to_nid(page) == kind->home[d];
}

/* The same for a domain of an address space */
static inline bool hydra_is_home(const struct hydra_mm *h, unsigned int d, const void *table)
{
	return hydra_is_home_of(hydra_kind_of(h), d, table);
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

/* core.c */
#ifdef CONFIG_LOCKDEP
extern struct lockdep_map hydra_no_wait_map;
#endif

/*
 * Begin and end code that must wait for nothing without a bound. See hydra_teach_lockdep(). The
 * constructor of a table may allocate memory for the table's lock, and takes no flags.
 * Return: for hydra_no_wait_end().
 */
static inline unsigned int hydra_no_wait_begin(void)
{
	lock_map_acquire(&hydra_no_wait_map);
	return memalloc_noio_save();
}

static inline void hydra_no_wait_end(unsigned int flags)
{
	memalloc_noio_restore(flags);
	lock_map_release(&hydra_no_wait_map);
}

/* Called by each function of Hydra that may wait without a bound */
static inline void hydra_assert_may_wait(void)
{
	lockdep_assert(!lock_is_held(&hydra_no_wait_map));
}

struct hydra_mm *hydra_alloc(struct mm_struct *mm, bool may_wait);
void hydra_free(struct hydra_mm *h);
void hydra_attach(struct mm_struct *mm, struct hydra_mm **new);
void hydra_watch(void);
int hydra_lock_out_faults(struct mm_struct *mm, bool wait);
void hydra_degrade(struct hydra_mm *h, unsigned int d);

/* count.c */
unsigned long hydra_stat_sum(struct hydra_mm *h, enum hydra_stat stat,
			     const struct cpumask *cpus);
bool hydra_stat_ended(struct hydra_mm *h, enum hydra_stat stat, unsigned long *n);
struct hydra_mm *hydra_count_inherit(struct mm_struct *mm);
void hydra_count_leave(struct hydra_mm *h);
void hydra_count_exit(struct hydra_mm *h);
void hydra_count_free(struct hydra_mm *h);

/* fill.c */
pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl);
void hydra_cut_links(struct hydra_table *t, pteval_t *canonical, unsigned int self);
void hydra_window(unsigned long addr, u8 level, unsigned int degree,
		  unsigned long vm_start, unsigned long vm_end,
		  unsigned int *first, unsigned int *end);

/* flush.c */
/* Sharers of a range: of its leaf tables, and of which huge entries. */
enum hydra_huge {
	HYDRA_LEAF_ONLY,	/* none */
	HYDRA_HUGE_IN_RANGE,	/* entries in the range that point to no table now */
	HYDRA_HUGE_SAME_TABLE,	/* all entries, at any time, of the range's PMD and PUD tables */
};

/* How to look for the domains to reach in a shared leaf table. */
enum hydra_look {
	HYDRA_BY_TABLE,		/* all sharers */
	HYDRA_LOOK_AT_MARKS,	/* domains with a mark in the range, or a link */
	HYDRA_TAKE_MARKS,	/* the same, and clear these marks */
};

void hydra_range_sharers(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_huge huge,
			 enum hydra_look look, hydra_mask_t *mask);
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_look look,
			 hydra_mask_t *targets);
bool hydra_gather_targets(struct hydra_mm *h, const struct hydra_gather *g,
			  unsigned long start, unsigned long end,
			  enum hydra_look look, hydra_mask_t *targets);

/* Have so many flushes reached domains for their links only that these are cut? */
static inline bool hydra_links_due(const struct hydra_table *t)
{
	return READ_ONCE(t->linked_hits) == HYDRA_LINKED_HITS;
}

/* marks.c */
/* The flush that a CPU has published, for other CPUs to read */
struct hydra_published {
	struct hydra_mm *h;		/* NULL: none. Read by this CPU alone. */
	unsigned long start;
	unsigned long end;
	hydra_mask_t targets;
};

DECLARE_PER_CPU_SHARED_ALIGNED(struct hydra_published, hydra_published);
extern bool hydra_trusts_accessed;
extern bool hydra_marks_failed;

const char *hydra_accessed_refused(void);
const char *hydra_cpu_refused(u8 vendor, u32 vfm);

#define HYPERVISOR_NAME_LEN	12
const char *hydra_hypervisor_refused(const char *name);
void hydra_stray_accessed(void);
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

/* Has hardware set the accessed bit of a copy that is not present? */
static inline bool hydra_stray(pteval_t val)
{
	return unlikely((val & (_PAGE_PRESENT | _PAGE_ACCESSED)) == _PAGE_ACCESSED);
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
		return HYDRA_PTE_CACHED;
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

/* idle.c */
/* Context: any. Return: a number that grows by one each second. */
static inline u32 hydra_second(void)
{
	return jiffies / HZ;
}

pteval_t hydra_stamp(u32 second);
bool hydra_is_void(struct hydra_mm *h, unsigned int d, pteval_t val);
void hydra_domains_flushed(struct hydra_mm *h, const hydra_mask_t *domains, u32 second);

/* check.c */
extern atomic_long_t hydra_violations;

/* roots.c */
const char *hydra_refused_by_machine(void);
int hydra_lock_ldt(struct mm_struct *mm);
bool hydra_trylock_ldt(struct mm_struct *mm);
void hydra_unlock_ldt(struct mm_struct *mm);
void hydra_switch_roots(struct mm_struct *mm, atomic64_t *gen, const struct cpumask *cpus);
void hydra_leave_contexts(void);

/* tlb.c */
/*
 * The address space whose mm_cpumask() this lazy CPU would have left on Linux, or NULL. Written
 * by flushing CPUs, and by the CPU itself when it runs a thread again; compared only.
 */
DECLARE_PER_CPU_SHARED_ALIGNED(struct mm_struct *, hydra_lazy_left);

unsigned int hydra_pick_cpus(unsigned long *picked, const unsigned long *running,
			     const unsigned long *cpus, unsigned int first,
			     unsigned int last);

#endif /* _ARCH_X86_MM_HYDRA_INTERNAL_H */
