/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's state of an address space, see Documentation/mm/hydra/index.rst.
 */
#ifndef _LINUX_HYDRA_TYPES_H
#define _LINUX_HYDRA_TYPES_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/hydra_mask.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <uapi/linux/hydra.h>

/*
 * Counters, kept per (address space, CPU that counts).
 *
 * HYDRA_STAT_OWN: CPUs that flushes of Hydra's own interrupted, and that Linux would have
 * left alone. It is not shown: hydra_stat_sum() takes it from what was spared, so that
 * HYDRA_STAT_INTERRUPTED and HYDRA_STAT_SPARED together are what Linux would have interrupted.
 *
 * Not shown either, for the account of policy "auto": HYDRA_STAT_CHANGES, how often one entry, or
 * many at once, have changed in the copy of a domain; HYDRA_STAT_LOOKS, at how many marks flushes
 * have looked.
 */
enum hydra_stat {
	HYDRA_STAT_FILLS,
	HYDRA_STAT_PREFETCHED,
	HYDRA_STAT_PROPAGATED,
	HYDRA_STAT_FLUSHES,
	HYDRA_STAT_INTERRUPTED,
	HYDRA_STAT_ACROSS,
	HYDRA_STAT_SPARED,
	HYDRA_STAT_FALLBACKS,
	HYDRA_STAT_RECLAIMED,
	HYDRA_STAT_FORGOTTEN,
	HYDRA_STAT_BARRIERS,
	NR_HYDRA_SHOWN,
	HYDRA_STAT_OWN = NR_HYDRA_SHOWN,
	HYDRA_STAT_CHANGES,
	HYDRA_STAT_LOOKS,
	NR_HYDRA_STATS
};

/**
 * union hydra_choice - the settings of an address space or of a VM
 * @domains: one of enum hydra_scope
 * @replication: one of enum hydra_replication
 * @tables: one of enum hydra_vm_tables, for VMs
 * @expose: for VMs: the guest may ask where its vCPUs and its memory are
 * @prefetch: 0 to HYDRA_PREFETCH_MAX
 * @filter: one of enum hydra_filter
 * @word: all of them, which are read without a lock
 *
 * The keys of the settings' text have the names of the members: see
 * arch/x86/mm/hydra/settings.c, which knows their places in the word.
 */
union hydra_choice {
	struct {
		u8 domains;
		u8 replication:4;
		u8 tables:2;
		u8 expose:2;
		u8 prefetch;
		u8 filter;
	};
	u32 word;
};

static_assert(sizeof(union hydra_choice) == sizeof(u32));

struct hydra_pending;
struct hydra_sum;

struct hydra_stats {
	unsigned long n[NR_HYDRA_STATS];
};

/**
 * struct hydra_batches - reclaim's batches that reach some CPUs of an address space
 * @added: number of entries that were added to batches
 * @flushed: all entries that were the first so many have been flushed
 */
struct hydra_batches {
	atomic64_t added;
	atomic64_t flushed;
};

/**
 * struct hydra_domain - one domain of one address space, once it has a tree
 * @root: what the CPUs of the domain load into CR3: @pgd, or the canonical root
 *	while the domain tree is not in use
 * @pgd: root of the domain tree
 * @tlb_gen: generation of the last flush that includes the domain; replaces
 *	mm->context.tlb_gen for its CPUs while the address space is active
 * @retry: jiffies at which a degraded domain may have its tree again
 * @ran: the second in which a CPU of the domain last switched to the address space, was found
 *	to run it by hydra_keeper(), or got the tree
 * @lock: guards the entries of the domain tree above its leaf tables
 * @nr_replicas: leaf tables that are private copies
 * @nr_upper: tables of the domain tree above the leaf tables, without @pgd
 * @batches: batches that reach the domain, see hydra_flush_batched()
 * @flushed: no CPU of the domain uses a translation from before this second, see
 *	arch/x86/mm/hydra/idle.c
 * @looked: the second in which the contexts of the CPUs were looked at
 * @pause: how many jiffies the domain was degraded for the last time
 * @forgotten: leaf tables that the domain has left for want of use; hydra_keeper() alone
 *	writes it
 *
 * The first cache line is read at each context switch and fault. The CPUs of the
 * domain, and the CPUs that flush the domain, write it at each flush. The second
 * line is written when tables are linked and unlinked.
 */
struct hydra_domain {
	pgd_t *root;
	pgd_t *pgd;
	atomic64_t tlb_gen;
	unsigned long retry;
	u32 ran;

	spinlock_t lock ____cacheline_aligned_in_smp;
	atomic_long_t nr_replicas;
	atomic_long_t nr_upper;
	struct hydra_batches batches;
	u32 flushed;
	u32 looked;
	unsigned int pause;
	u32 forgotten;
} ____cacheline_aligned_in_smp;

/**
 * struct hydra_mm - an address space that has been split
 * @mm: the address space
 * @pending: counters of pending drops, by place; NULL until the first split, and without memory.
 *	Set under mmap_lock. See arch/x86/mm/hydra/pending.c
 * @return_gp: the grace period after which no gather raises @pending any more; 0: not known.
 *	Written under mmap_lock, at a return and when the first split fails
 * @drained_gp: the last @return_gp after which all counters were 0
 * @scope: of its domains, one of enum hydra_scope. Changes only while the address
 *	space is not active, see hydra_set_scope().
 * @eager: replication "eager" is set: each domain gets an entry as soon as one domain has
 *	the entry; written under mmap_lock
 * @filter: of the settings, which each flush reads: mm->hydra_settings is in a line with
 *	mmap_lock. See hydra_note_settings().
 * @prefetch: of the settings, which each fill reads
 * @huge: a domain has had a copy of a huge entry. Set before the copy, and stays
 * @active: CPUs use domain trees; written under mmap_lock
 * @trees: domains that have a tree in use. Set under mmap_lock before the first
 *	fill of the domain.
 * @universal: domains that every flush includes: their CPUs may use the canonical
 *	root
 * @counting: flushes are counted while the address space is plain Linux, too, and its
 *	children are counted; see arch/x86/mm/hydra/control.c
 * @rent_flush: rent of a shared leaf table for a flush, see arch/x86/mm/hydra/rent.c. 0: no
 *	table pays
 * @rent_change: the same for an entry changed in a copy
 * @rent_due: a table has rent to look at
 * @returning: the trees go in parts: no CPU uses one any more, and none gets a table. Written under
 *	mmap_lock, with all VMAs locked
 * @return_level: level of the tables that are freed now, while returning; under mmap_lock
 * @unfiltered: while not zero, every flush goes to every domain. Each flush reads it; splits,
 *	returns and collapses write it.
 * @stats: counters
 * @spared_told: the largest value of HYDRA_STAT_SPARED that a reader has got, see
 *	hydra_stat_sum()
 * @sum: counters of the ended processes that are counted with this one, or NULL
 * @left: the sum that a set-uid program has left; kept for readers of @sum
 * @nr_replicas: leaf replicas, including replicas that are being allocated
 * @writers: writers of settings that go on with a return, see "Return in parts" in
 *	arch/x86/mm/hydra/split.c
 * @activated: jiffies at the last split
 * @returned: jiffies at the last return to plain Linux
 * @stay: how many jiffies the trees stay once one thread, or one domain, is left
 * @return_at: address at which a return in parts goes on; under mmap_lock
 * @no_wait_until: jiffies until which no thread that goes to user mode waits for
 *	mmap_lock
 * @place: by domain, start of the 2 MiB that mmap() chose last for a thread of the domain; under
 *	mmap_lock. An array of its own: a small mmap() may read the places of all domains.
 * @batches: batches that reach all domains, or a domain without a struct hydra_domain
 * @kept: in the list of those that hydra_keeper() looks at
 * @look_at: address at which its look goes on
 * @look_round: number of the last round in which it has begun a look
 * @flushing: CPUs with a published flush, see hydra_publish(); a line of its own, as
 *	these CPUs write it
 * @domain: the domains; NULL until the domain gets its first tree
 *
 * Allocated when threads of a process first run in two domains, or when the process is
 * to be counted; freed with the mm_struct. So a flush may use it without a reference.
 */
struct hydra_mm {
	struct mm_struct *mm;
	struct hydra_pending *pending;
	unsigned long return_gp;
	unsigned long drained_gp;
	bool active;
	bool eager;
	u8 filter;
	u8 prefetch;
	bool huge;
	u8 scope;
	bool counting;
	u8 rent_flush;
	u8 rent_change;
	bool rent_due;
	bool returning;
	u8 return_level;
	atomic_t unfiltered;
	hydra_mask_t trees;
	hydra_mask_t universal;
	struct hydra_stats __percpu *stats;
	atomic_long_t spared_told;
	struct hydra_sum *sum;
	struct hydra_sum *left;

	atomic_long_t nr_replicas ____cacheline_aligned_in_smp;
	atomic_t writers;
	unsigned long activated;
	unsigned long returned;
	unsigned long stay;
	unsigned long return_at;
	unsigned long no_wait_until;
	unsigned long *place;
	struct hydra_batches batches;
	struct list_head kept;
	unsigned long look_at;
	unsigned long look_round;

	cpumask_var_t flushing ____cacheline_aligned_in_smp;

	struct hydra_domain *domain[] ____cacheline_aligned_in_smp;
};

#define HYDRA_NR_SCOPES		(HYDRA_SCOPE_CORE + 1)

/* The machine: fixed at boot, see arch/x86/mm/hydra/domain.c. */
DECLARE_PER_CPU_READ_MOSTLY(u16 [HYDRA_NR_SCOPES], hydra_cpu_domain);
DECLARE_PER_CPU_READ_MOSTLY(u32, hydra_cpu_last);	/* hydra_last() of its node */
extern unsigned int hydra_nr_domains;

/*
 * A value of mm->hydra_last: the scope, and the domain of the CPUs that run
 * the address space, plus one.
 */
#define HYDRA_LAST_SHIFT	16
#define hydra_last(scope, d)	((u32)(scope) << HYDRA_LAST_SHIFT | ((d) + 1))

/*
 * Context: preemption disabled, unless the caller accepts a stale answer. See
 * hydra_set_scope() for the scope.
 */
static inline unsigned int hydra_this_domain(const struct hydra_mm *h)
{
	return raw_cpu_read(hydra_cpu_domain[READ_ONCE(h->scope)]);
}

static inline unsigned int hydra_domain_of_cpu(unsigned int scope, int cpu)
{
	return per_cpu(hydra_cpu_domain, cpu)[scope];
}

#endif /* _LINUX_HYDRA_TYPES_H */
