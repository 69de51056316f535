/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra: page tables per domain of CPUs, and TLB shootdowns limited to the
 * domains that share a table. See Documentation/mm/hydra.rst.
 */
#ifndef _LINUX_HYDRA_H
#define _LINUX_HYDRA_H

#include <linux/hydra_pgtable.h>
#include <linux/mm_types.h>

struct mmu_gather;
struct task_struct;
struct vm_unmapped_area_info;

#ifdef CONFIG_HYDRA_MM
#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/hydra_mask.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <uapi/linux/hydra.h>

/* Counters, kept per (address space, CPU that counts). */
enum hydra_stat {
	HYDRA_STAT_FILLS,
	HYDRA_STAT_PREFETCHED,
	HYDRA_STAT_PROPAGATED,
	HYDRA_STAT_FLUSHES,
	HYDRA_STAT_INTERRUPTED,
	HYDRA_STAT_SPARED,
	HYDRA_STAT_FALLBACKS,
	HYDRA_STAT_RECLAIMED,
	NR_HYDRA_STATS
};

struct hydra_stats {
	unsigned long n[NR_HYDRA_STATS];
};

/**
 * struct hydra_domain - one domain of one address space, once it has a tree
 * @root: what its CPUs load into CR3: @pgd, or the canonical root while the
 *	domain tree is not in use
 * @pgd: root of the domain tree
 * @tlb_gen: flushes this domain has to have seen; replaces
 *	mm->context.tlb_gen for its CPUs while the address space is active
 * @lock: guards the entries of the domain tree above its leaf tables
 * @nr_replicas: leaf tables that are private copies
 * @nr_upper: tables of the domain tree above the leaf tables, without @pgd
 * @place: the 2 MiB where mmap() has sent one of its threads last; written under
 *	mmap_lock
 *
 * The first line is read at each context switch and fault; the CPUs of the
 * domain, and those that flush it, write it at each flush. The second one is
 * written when tables come and go.
 */
struct hydra_domain {
	pgd_t *root;
	pgd_t *pgd;
	atomic64_t tlb_gen;

	spinlock_t lock ____cacheline_aligned_in_smp;
	atomic_long_t nr_replicas;
	atomic_long_t nr_upper;
	unsigned long place;
} ____cacheline_aligned_in_smp;

/**
 * struct hydra_mm - what Hydra knows of an address space that has been split
 * @mm: the address space
 * @active: its CPUs use domain trees; written under mmap_lock
 * @trees: domains that have a tree in use. Set under mmap_lock before the first
 *	fill of the domain.
 * @universal: domains that every flush includes: their CPUs may use the canonical
 *	root
 * @refused: domains that could not be given a tree
 * @stats: counters
 * @unfiltered: while not zero, every flush goes to every domain
 * @atomic_fills: atomic fills under way, and looks of the shrinker, which go the
 *	same way; counted if ALLOC_SPLIT_PTLOCKS
 * @nr_replicas: leaf replicas there are, or are about to be
 * @activated: jiffies when it was last split
 * @returned: jiffies when it last became plain Linux again
 * @stay: jiffies that it stays split once its process has a single thread
 * @domain: the domains, NULL before the first CPU of one has run the address
 *	space since it was split
 *
 * Allocated when threads of a process first run in two domains, freed with the
 * address space: a flush may hold on to it without a reference.
 */
struct hydra_mm {
	struct mm_struct *mm;
	bool active;
	hydra_mask_t trees;
	hydra_mask_t universal;
	hydra_mask_t refused;
	struct hydra_stats __percpu *stats;

	atomic_t unfiltered ____cacheline_aligned_in_smp;
	atomic_t atomic_fills;
	atomic_long_t nr_replicas;
	unsigned long activated;
	unsigned long returned;
	unsigned long stay;
	struct hydra_domain *domain[];
};

/**
 * struct hydra_gather - what a gather knows beyond the range it is to flush
 * @notes: the address space had been split when it began; else the rest is not
 *	valid, and it flushes for everybody
 * @freed: tables to be freed a grace period after the flush
 * @start: first address that it has looked at; behind @end until it has told
 * @end: address after the last one
 * @users: domains that share tables it has freed, or huge pages it has taken or
 *	changed
 */
struct hydra_gather {
	bool notes;
	struct ptdesc *freed;
	unsigned long start;
	unsigned long end;
	hydra_mask_t users;
};

/*
 * mm->hydra_home of an address space that has its settings and no trees: the
 * domain whose CPUs run it, plus one. 0: none is looked for.
 */
#define HYDRA_HOME_UNKNOWN	U32_MAX

/* On since the first process, or the system's default, has asked for domains. */
DECLARE_STATIC_KEY_FALSE(hydra_watch_key);

/* The machine: fixed at boot, see mm/hydra/domain.c. */
DECLARE_PER_CPU_READ_MOSTLY(u32, hydra_cpu_home);	/* domain of the CPU, plus one */
extern unsigned int hydra_nr_domains;
extern cpumask_var_t hydra_domain_cpus[HYDRA_MAX_DOMAINS];

/* Context: preemption disabled, or any answer of late is good. */
static inline unsigned int hydra_this_domain(void)
{
	return raw_cpu_read(hydra_cpu_home) - 1;
}

static inline unsigned int hydra_domain_of_cpu(int cpu)
{
	return per_cpu(hydra_cpu_home, cpu) - 1;
}

/**
 * hydra_active - does this address space use domain trees?
 * @mm: the address space
 *
 * Context: any. The answer may change at once unless mmap_lock is held; both
 * answers are then right for what the caller does with them (see
 * mm/hydra/core.c on switching).
 * Return: its struct hydra_mm, or NULL.
 */
static inline struct hydra_mm *hydra_active(const struct mm_struct *mm)
{
	struct hydra_mm *h;

	if (!static_branch_unlikely(&hydra_key.key))
		return NULL;
	h = READ_ONCE(mm->hydra);
	return h && READ_ONCE(h->active) ? h : NULL;
}

/**
 * hydra_mm - has this address space ever been split?
 * @mm: the address space
 *
 * For choices that have to hold on also while the address space is switched.
 *
 * Context: any.
 */
static inline bool hydra_mm(const struct mm_struct *mm)
{
	return static_branch_unlikely(&hydra_key.key) && READ_ONCE(mm->hydra);
}

/**
 * hydra_pgd - the root this CPU loads for an address space
 * @mm: the address space
 *
 * Context: preemption disabled.
 */
static inline pgd_t *hydra_pgd(const struct mm_struct *mm)
{
	struct hydra_mm *h = hydra_active(mm);
	struct hydra_domain *dom;

	if (!h)
		return mm->pgd;
	dom = READ_ONCE(h->domain[hydra_this_domain()]);
	return dom ? READ_ONCE(dom->root) : mm->pgd;
}

/**
 * hydra_tlb_gen - the flush generation this CPU has to catch up with
 * @mm: the address space
 *
 * Context: preemption disabled.
 */
static inline atomic64_t *hydra_tlb_gen(struct mm_struct *mm)
{
	struct hydra_mm *h = hydra_active(mm);
	struct hydra_domain *dom;

	if (!h)
		return &mm->context.tlb_gen;
	dom = READ_ONCE(h->domain[hydra_this_domain()]);
	return dom ? &dom->tlb_gen : &mm->context.tlb_gen;
}

/* Life of an address space: mm/hydra/core.c */
void hydra_mm_init(struct mm_struct *mm);
void __hydra_mm_exit(struct mm_struct *mm);
void __hydra_mm_destroy(struct mm_struct *mm);
struct hydra_domain *__hydra_switching(struct mm_struct *next,
				       struct task_struct *tsk);
void __hydra_resume_user_mode(struct mm_struct *mm);
void hydra_secure_exec(struct mm_struct *mm);

static inline void hydra_mm_exit(struct mm_struct *mm)
{
	if (hydra_mm(mm))
		__hydra_mm_exit(mm);
}

static inline void hydra_mm_destroy(struct mm_struct *mm)
{
	if (mm->hydra)
		__hydra_mm_destroy(mm);
}

/**
 * hydra_switching - this CPU is about to run an address space
 * @next: the address space; the CPU is in its mm_cpumask()
 * @tsk: the task that is to use it, or NULL
 * @root: set to the root that the CPU has to load
 *
 * An address space that uses domain trees has the home HYDRA_HOME_SPLIT, which is
 * no CPU's.
 *
 * Context: switch_mm_irqs_off(): interrupts off, a full barrier since the CPU is in
 * mm_cpumask().
 * Return: the flush generation that the CPU has to catch up with.
 */
static inline u64 hydra_switching(struct mm_struct *next,
				  struct task_struct *tsk, pgd_t **root)
{
	struct hydra_domain *dom;
	u64 gen;
	u32 home;

	if (static_branch_unlikely(&hydra_watch_key)) {
		home = READ_ONCE(next->hydra_home);
		if (home != this_cpu_read(hydra_cpu_home) && unlikely(home)) {
			dom = __hydra_switching(next, tsk);
			if (dom) {
				gen = atomic64_read(&dom->tlb_gen);
				*root = READ_ONCE(dom->root);
				return gen;
			}
		}
	}
	*root = next->pgd;
	return atomic64_read(&next->context.tlb_gen);
}

/* The root that hydra_switching() has found. */
#define hydra_root(mm, root)	(root)

/**
 * hydra_resume_user_mode - what __hydra_switching() has left to do
 *
 * Context: resume_user_mode_work(): process context, no locks.
 */
static inline void hydra_resume_user_mode(void)
{
	struct mm_struct *mm = current->mm;
	u32 home;

	if (!static_branch_unlikely(&hydra_watch_key) || !mm)
		return;
	home = READ_ONCE(mm->hydra_home);
	if (home != raw_cpu_read(hydra_cpu_home) && unlikely(home))
		__hydra_resume_user_mode(mm);
}

/* Settings: mm/hydra/settings.c */
long hydra_prctl_set(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5);
long hydra_prctl_get(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5);

/* Faults: mm/hydra/fill.c */
void __hydra_fault_done(struct hydra_mm *h, struct vm_area_struct *vma,
			unsigned long addr, unsigned int flags, vm_fault_t ret);
void __hydra_install(struct mm_struct *mm, pmd_t *pmd, struct page *table);
bool __hydra_fault_atomic(struct hydra_mm *h, unsigned long addr, bool write);
bool __hydra_entry_missing(struct hydra_mm *h, void *entry);
bool __hydra_on_own_root(const struct mm_struct *mm);

/**
 * hydra_fault_done - Linux has handled a fault: give the entry to this domain
 * @mm: address space that was hit
 * @vma: area that was hit; not looked at unless still locked
 * @addr: address that was hit
 * @flags: FAULT_FLAG_*
 * @ret: what Linux's handler returned
 *
 * Linux handles a fault on an entry that the canonical tree holds and this domain
 * lacks as one that another CPU has been faster with.
 *
 * Context: as handle_mm_fault(): vma locked for read, may sleep.
 */
static inline void hydra_fault_done(struct mm_struct *mm,
				    struct vm_area_struct *vma,
				    unsigned long addr, unsigned int flags,
				    vm_fault_t ret)
{
	struct hydra_mm *h = hydra_active(mm);

	if (h)
		__hydra_fault_done(h, vma, addr, flags, ret);
}

/**
 * hydra_install - a leaf table is about to be put into the canonical tree
 * @mm: the address space
 * @pmd: the canonical entry it goes to
 * @table: the table, empty, not reachable yet
 *
 * Context: the lock of the entry; a VMA around it, or mmap_lock, is held.
 */
static inline void hydra_install(struct mm_struct *mm, pmd_t *pmd,
				 struct page *table)
{
	if (hydra_active(mm))
		__hydra_install(mm, pmd, table);
}

/**
 * hydra_fault_atomic - a fault where no fault may be handled
 * @mm: current->mm
 * @addr: user address that the kernel hit
 * @write: it was a write
 *
 * Code that runs with page faults disabled expects an entry that the
 * canonical tree holds to be usable; here this domain gets it.
 *
 * Context: kernel mode, interrupts off, any lock may be held.
 * Return: true if the access can be tried again.
 */
static inline bool hydra_fault_atomic(struct mm_struct *mm, unsigned long addr,
				      bool write)
{
	struct hydra_mm *h = mm ? hydra_active(mm) : NULL;

	return h && __hydra_fault_atomic(h, addr, write);
}

/**
 * hydra_on_own_root - does this CPU use the root of a domain tree?
 * @mm: the address space
 *
 * Context: preemption disabled.
 */
static inline bool hydra_on_own_root(const struct mm_struct *mm)
{
	return hydra_mm(mm) && __hydra_on_own_root(mm);
}

/**
 * hydra_entry_missing - may a domain root have lacked an entry just now?
 * @mm: address space that was hit
 * @entry: the canonical entry, of a leaf table
 * @own_root: hydra_on_own_root() before the access
 *
 * For code that takes a failed access to an entry it has just looked at for an
 * error. If the root may have been switched meanwhile, the answer is yes: on
 * the canonical root it is no the next time.
 *
 * Context: the leaf table's lock, since before the access.
 */
static inline bool hydra_entry_missing(struct mm_struct *mm, void *entry,
				       bool own_root)
{
	return own_root && __hydra_entry_missing(mm->hydra, entry);
}

/* Flushes: mm/hydra/flush.c */
void __hydra_gather_begin(struct hydra_gather *g, bool fullmm);
void __hydra_gather_visits(struct hydra_gather *g, unsigned long start,
			   unsigned long end);
void hydra_gather_flushed(struct hydra_gather *g);
void __hydra_exit_entries(void *entry, unsigned int nr);
void __hydra_gather_takes(struct hydra_gather *g, const void *entry);
bool __hydra_pmd_gone(struct mm_struct *mm, pmd_t *pmd);
void __hydra_pud_gone(struct mm_struct *mm, pud_t *pud);
void __hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd);
void __hydra_move_table(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd,
			unsigned long addr);

/**
 * hydra_pmd_gone - a gather has found an entry gone without its lock
 * @mm: the address space
 * @pmd: the entry
 *
 * The gather promises that nobody uses what was there. See
 * __hydra_pmd_gone().
 *
 * Context: process context, no page-table lock held.
 * Return: whether it is gone still, after who took it away is done.
 */
static inline bool hydra_pmd_gone(struct mm_struct *mm, pmd_t *pmd)
{
	return !hydra_mm(mm) || __hydra_pmd_gone(mm, pmd);
}

/**
 * hydra_pud_gone - hydra_pmd_gone() for an entry above; see __hydra_pud_gone()
 * @mm: the address space
 * @pud: the entry
 *
 * Context: process context, no page-table lock held.
 */
static inline void hydra_pud_gone(struct mm_struct *mm, pud_t *pud)
{
	if (hydra_mm(mm))
		__hydra_pud_gone(mm, pud);
}

/**
 * hydra_gather_begin - a gather begins
 * @g: Hydra's part of it
 * @mm: the address space
 * @fullmm: it is to take everything down, kernel half too
 *
 * Context: any.
 */
static inline void hydra_gather_begin(struct hydra_gather *g,
				      const struct mm_struct *mm, bool fullmm)
{
	g->notes = false;
	if (hydra_mm(mm))
		__hydra_gather_begin(g, fullmm);
}

/**
 * hydra_gather_visits - a gather is about to look at a range
 * @g: Hydra's part of it
 * @start: first address
 * @end: address after the last one
 *
 * What it finds gone there, another gather may have taken and not flushed yet.
 * Then it flushes for both, see hydra_gather_targets().
 *
 * Context: any; before it takes the lock of a table there.
 */
static inline void hydra_gather_visits(struct hydra_gather *g,
				       unsigned long start, unsigned long end)
{
	if (static_branch_unlikely(&hydra_key.key) && g->notes)
		__hydra_gather_visits(g, start, end);
}

/**
 * hydra_exit_entries - entries of a leaf table are about to be cleared
 * @mm: the address space
 * @entry: the first of them
 * @nr: how many
 * @full: all of the address space goes: no thread runs it any more
 *
 * Then their replicas are left as they are until the table goes. No instruction of
 * any CPU can use them: a CPU that has the root of a domain loaded is lazy, it runs
 * a thread of the kernel. What has been accessed through the replicas is told to the
 * canonical entries now.
 *
 * Context: the table's lock.
 */
static inline void hydra_exit_entries(struct mm_struct *mm, void *entry,
				      unsigned int nr, bool full)
{
	if (hydra_shared(mm, entry) && full)
		__hydra_exit_entries(entry, nr);
}

/**
 * hydra_gather_takes - a gather has taken a huge entry away, or changed it
 * @g: Hydra's part of it
 * @entry: where it was
 *
 * By the time of the flush nothing may be there, or a table that a fault has put
 * there. Neither tells whom the huge page was shared by.
 *
 * Context: what keeps the entry's table: its lock, or that of the area.
 */
static inline void hydra_gather_takes(struct hydra_gather *g,
				      const void *entry)
{
	if (static_branch_unlikely(&hydra_key.key) && g->notes)
		__hydra_gather_takes(g, entry);
}

/**
 * hydra_collapse_begin - a leaf table is about to leave the canonical tree
 * @mm: the address space
 *
 * While it leaves, a flush that finds it gone cannot know who shares it, so
 * from here to hydra_collapse_end() flushes go to everybody.
 *
 * Context: the lock of the entry it hangs on is held until hydra_collapse_end().
 * Return: to be handed to the other two.
 */
static inline struct hydra_mm *hydra_collapse_begin(struct mm_struct *mm)
{
	struct hydra_mm *h;

	if (!static_branch_unlikely(&hydra_key.key))
		return NULL;
	h = READ_ONCE(mm->hydra);
	if (h) {
		atomic_inc(&h->unfiltered);
		/* Before the entry is cleared: see hydra_range_targets(). */
		smp_mb__after_atomic();
	}
	return h;
}

/**
 * hydra_collapse_cut - cut every domain's link to the table that has left
 * @h: from hydra_collapse_begin()
 * @pmdp: the canonical entry
 * @pmd: what it held; it is cleared now
 *
 * The caller flushes the range of the table before it drops the lock.
 */
static inline void hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd)
{
	if (h)
		__hydra_collapse_cut(h, pmdp, pmd);
}

/**
 * hydra_collapse_end - the flush is done
 * @h: from hydra_collapse_begin()
 */
static inline void hydra_collapse_end(struct hydra_mm *h)
{
	if (h) {
		/* After the flush. */
		smp_mb__before_atomic();
		atomic_dec(&h->unfiltered);
	}
}

/**
 * hydra_move_table - a leaf table is about to hang elsewhere
 * @mm: the address space
 * @pmdp: the canonical entry that it has hung on, cleared by now
 * @pmd: what that held
 * @addr: first address that it has mapped
 *
 * Cuts every domain's link to it, and flushes for those.
 *
 * Context: mmap_lock held for writing, the locks of the reverse map, that of the
 * entry.
 */
static inline void hydra_move_table(struct mm_struct *mm, pmd_t *pmdp, pmd_t pmd,
				    unsigned long addr)
{
	struct hydra_mm *h = hydra_active(mm);

	if (h)
		__hydra_move_table(h, pmdp, pmd, addr);
}

/* Tables: mm/hydra/table.c */
void __hydra_free_table(struct mmu_gather *tlb, struct ptdesc *ptdesc,
			spinlock_t *ptl, unsigned long addr);
struct page *hydra_pte_alloc_one(gfp_t gfp);
void hydra_gather_table(struct mmu_gather *tlb, struct ptdesc *ptdesc);

/* Roots: the architecture's pgd_alloc() and pgd_free() are beside them */
pgd_t *hydra_pgd_alloc(struct mm_struct *mm, int nid);
void hydra_pgd_free(struct mm_struct *mm, pgd_t *pgd);

/* Placement: mm/hydra/place.c */
unsigned long hydra_unmapped_area(struct vm_unmapped_area_info *info,
				  unsigned long flags);

#else /* !CONFIG_HYDRA_MM */

struct hydra_mm;

struct hydra_gather {
};

static inline struct hydra_mm *hydra_active(const struct mm_struct *mm)
{
	return NULL;
}

static inline bool hydra_mm(const struct mm_struct *mm)
{
	return false;
}

#define hydra_pgd(mm)			((mm)->pgd)
#define hydra_root(mm, root)		((mm)->pgd)
#define hydra_tlb_gen(mm)		(&(mm)->context.tlb_gen)
#define hydra_unmapped_area(info, flags) \
	((void)(flags), vm_unmapped_area(info))

static inline void hydra_mm_init(struct mm_struct *mm)
{
}

static inline void hydra_mm_exit(struct mm_struct *mm)
{
}

static inline void hydra_mm_destroy(struct mm_struct *mm)
{
}

static inline u64 hydra_switching(struct mm_struct *next,
				  struct task_struct *tsk, pgd_t **root)
{
	return atomic64_read(&next->context.tlb_gen);
}

static inline void hydra_resume_user_mode(void)
{
}

static inline void hydra_secure_exec(struct mm_struct *mm)
{
}

static inline void hydra_fault_done(struct mm_struct *mm,
				    struct vm_area_struct *vma,
				    unsigned long addr, unsigned int flags,
				    vm_fault_t ret)
{
}

static inline void hydra_install(struct mm_struct *mm, pmd_t *pmd,
				 struct page *table)
{
}

static inline struct page *hydra_pte_alloc_one(gfp_t gfp)
{
	return NULL;
}

static inline bool hydra_fault_atomic(struct mm_struct *mm, unsigned long addr,
				      bool write)
{
	return false;
}

static inline bool hydra_on_own_root(const struct mm_struct *mm)
{
	return false;
}

static inline bool hydra_entry_missing(struct mm_struct *mm, void *entry,
				       bool own_root)
{
	return false;
}

static inline void hydra_gather_begin(struct hydra_gather *g,
				      const struct mm_struct *mm, bool fullmm)
{
}

static inline void hydra_gather_visits(struct hydra_gather *g,
				       unsigned long start, unsigned long end)
{
}

static inline void hydra_exit_entries(struct mm_struct *mm, void *entry,
				      unsigned int nr, bool full)
{
}

static inline void hydra_gather_takes(struct hydra_gather *g,
				      const void *entry)
{
}

static inline bool hydra_pmd_gone(struct mm_struct *mm, pmd_t *pmd)
{
	return true;
}

static inline void hydra_pud_gone(struct mm_struct *mm, pud_t *pud)
{
}

static inline struct hydra_mm *hydra_collapse_begin(struct mm_struct *mm)
{
	return NULL;
}

static inline void hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd)
{
}

static inline void hydra_move_table(struct mm_struct *mm, pmd_t *pmdp, pmd_t pmd,
				    unsigned long addr)
{
}

static inline void hydra_collapse_end(struct hydra_mm *h)
{
}

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_H */
