// SPDX-License-Identifier: GPL-2.0-only
/*
 * The state of an address space: struct hydra_mm, its roots, its generations and its
 * counters.
 *
 * struct hydra_mm, each struct hydra_domain and each root stay until the mm_struct
 * is freed: context switches and flushes read without a lock.
 *
 * Counters end with the address space. So the first "count=on" also makes a struct
 * hydra_sum. The children of the process, and the programs that they execute, are counted,
 * too, and add their counters to the same sum when they end. A process that waits for its
 * children finds their counters there: the last thread of a child adds them before the
 * child can be waited for, unless the kernel uses the address space of the child just then
 * (kswapd, hydra_keeper(), a reader of /proc): then the child's counters come a moment later.
 * What is flushed while the address space is torn down is not counted.
 *
 * Locking: hydra_mm::sum changes under mmap_lock held for writing. A sum stays until the
 * struct hydra_mm is freed, so a reader needs no lock.
 */

#include <linux/export.h>
#include <linux/mm.h>
#include <linux/refcount.h>
#include <linux/slab.h>

#include <asm/hydra.h>
#include <asm/pgalloc.h>

#include "../mm_internal.h"

#include "pending.h"
#include "platform.h"
#include "replica.h"
#include "state.h"
#include "wait.h"

/**
 * struct hydra_sum - the counters of ended processes that are counted together
 * @users: number of struct hydra_mm that point here
 * @n: by enum hydra_stat
 */
struct hydra_sum {
	refcount_t users;
	atomic_long_t n[NR_HYDRA_SHOWN];
};

static void hydra_sum_put(struct hydra_sum *sum)
{
	if (sum && refcount_dec_and_test(&sum->users))
		kfree(sum);
}

/**
 * hydra_stat_raw - a counter of an address space, as it is kept
 * @h: address space
 * @stat: the counter
 * @cpus: count only what these CPUs did; NULL: all CPUs
 *
 * Context: any. Return: the counter.
 */
unsigned long hydra_stat_raw(struct hydra_mm *h, enum hydra_stat stat,
			     const struct cpumask *cpus)
{
	unsigned long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (!cpus || cpumask_test_cpu(cpu, cpus))
			sum += READ_ONCE(per_cpu_ptr(h->stats, cpu)->n[stat]);
	return sum;
}

/*
 * HYDRA_STAT_SPARED without HYDRA_STAT_OWN. Readers take the difference of two values, and take
 * a counter that falls for that of another program. So what was once told stays, until as many
 * CPUs have been spared.
 */
static unsigned long hydra_stat_spared(struct hydra_mm *h)
{
	long told = atomic_long_read(&h->spared_told);
	long own = hydra_stat_raw(h, HYDRA_STAT_OWN, NULL);
	long spared = hydra_stat_raw(h, HYDRA_STAT_SPARED, NULL) - own;

	while (spared > told && !atomic_long_try_cmpxchg(&h->spared_told, &told, spared))
		;
	return max(spared, told);
}

/**
 * hydra_stat_sum - a counter of an address space
 * @h: address space
 * @stat: the counter
 * @cpus: count only what these CPUs did; NULL: all CPUs. For HYDRA_STAT_SPARED always all
 *
 * Context: any. Return: the counter.
 */
unsigned long hydra_stat_sum(struct hydra_mm *h, enum hydra_stat stat,
			     const struct cpumask *cpus)
{
	return stat == HYDRA_STAT_SPARED ? hydra_stat_spared(h) : hydra_stat_raw(h, stat, cpus);
}

/**
 * hydra_stat_ended - a counter of the ended processes that are counted with this one
 * @h: address space
 * @stat: the counter
 * @n: set to the counter
 *
 * Context: any. Return: false if the address space is not counted with others.
 */
bool hydra_stat_ended(struct hydra_mm *h, enum hydra_stat stat, unsigned long *n)
{
	struct hydra_sum *sum = READ_ONCE(h->sum);

	if (!sum || !READ_ONCE(h->counting))
		return false;
	*n = atomic_long_read(&sum->n[stat]);
	return true;
}

/**
 * hydra_count_set - count the flushes of an address space while it is plain Linux, or stop
 * @mm: the address space; CPUs may run it
 * @on: count
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0; or, with nothing changed, -EOPNOTSUPP if the platform cannot run Hydra,
 * -ENOMEM or -EINTR.
 */
int hydra_count_set(struct mm_struct *mm, bool on)
{
	struct hydra_sum *sum = NULL;
	struct hydra_mm *new = NULL;
	int ret = 0;

	if (on && hydra_refused_by_machine())
		return -EOPNOTSUPP;
	if (on) {
		sum = kzalloc(sizeof(*sum), GFP_KERNEL_ACCOUNT);
		if (!sum)
			return -ENOMEM;
		refcount_set(&sum->users, 1);
		if (!READ_ONCE(mm->hydra)) {
			new = hydra_alloc(mm, true);
			ret = new ? 0 : -ENOMEM;
		}
	}
	if (!ret)
		ret = mmap_write_lock_killable(mm);
	if (ret)
		goto free;
	if (on) {
		hydra_attach(mm, &new);
		if (!mm->hydra->sum) {
			/* Initialised before visible; pairs with the READ_ONCE() of readers. */
			smp_store_release(&mm->hydra->sum, sum);
			sum = NULL;
		}
	}
	if (mm->hydra)
		/* The sum before counting; pairs with hydra_count_inherit(). */
		smp_store_release(&mm->hydra->counting, on);
	mmap_write_unlock(mm);
free:
	kfree(sum);
	if (new)
		hydra_free(new);
	return ret;
}

/**
 * hydra_count_inherit - count a new address space if the current one is counted
 * @mm: the address space of a child, or of a program about to be executed
 *
 * Context: process context, no locks.
 * Return: its struct hydra_mm; NULL if it is not counted, or if memory is short.
 */
struct hydra_mm *hydra_count_inherit(struct mm_struct *mm)
{
	struct hydra_mm *from, *h;

	if (!current->mm || !mm_has_hydra(current->mm))
		return NULL;
	from = READ_ONCE(current->mm->hydra);
	/*
	 * counting before the sum; pairs with hydra_count_set(). Only the thread that
	 * executes a set-uid program calls hydra_count_leave(), and does not fork meanwhile.
	 */
	if (!smp_load_acquire(&from->counting))
		return NULL;
	/* Waits for no CPU, only for memory, as fork() does: hydra_key is on, for @from. */
	h = hydra_alloc(mm, true);
	if (!h)
		return NULL;
	refcount_inc(&from->sum->users);
	h->sum = from->sum;
	h->counting = true;
	return h;
}

/**
 * hydra_count_leave - stop counting with others
 * @h: an address space that begins to run a program with other rights
 *
 * Context: mmap_lock held for writing.
 */
void hydra_count_leave(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	WRITE_ONCE(h->counting, false);
	/* A later "count=on" begins a sum of its own. */
	h->left = h->sum;
	WRITE_ONCE(h->sum, NULL);
}

/**
 * hydra_count_exit - an address space ends: add its counters to those of the others
 * @h: the address space; its last user exits
 *
 * Context: process context.
 */
void hydra_count_exit(struct hydra_mm *h)
{
	unsigned int i;

	if (!h->counting)
		return;
	for (i = 0; i < NR_HYDRA_SHOWN; i++)
		atomic_long_add(hydra_stat_sum(h, i, NULL), &h->sum->n[i]);
}

/**
 * hydra_count_free - a struct hydra_mm is about to be freed
 * @h: the struct hydra_mm
 *
 * Context: any.
 */
static void hydra_count_free(struct hydra_mm *h)
{
	hydra_sum_put(h->sum);
	hydra_sum_put(h->left);
}

/**
 * hydra_pgd_alloc - allocate the root of a domain tree
 * @mm: the address space
 * @nid: the node to allocate it on
 *
 * Linux keeps the kernel half of the root in sync like that of mm->pgd.
 *
 * Reclaim starts no I/O, and enters no file system: the caller holds mmap_lock, and may be on
 * the way to user mode.
 *
 * Return: the root, or NULL.
 */
pgd_t *hydra_pgd_alloc(struct mm_struct *mm, int nid)
{
	struct page *page = alloc_pages_node(nid, (GFP_PGTABLE_USER & ~(__GFP_IO | __GFP_FS)) |
					     __GFP_RETRY_MAYFAIL | __GFP_NOWARN,
					     PGD_ALLOCATION_ORDER);

	if (!page)
		return NULL;
	spin_lock(&pgd_lock);
	pgd_ctor(mm, page_address(page));
	spin_unlock(&pgd_lock);
	return page_address(page);
}

/**
 * hydra_pgd_free - free the root of a domain tree
 * @pgd: from hydra_pgd_alloc(); no CPU has it loaded
 */
static void hydra_pgd_free(pgd_t *pgd)
{
	pgd_dtor(pgd);
	free_pages((unsigned long)pgd, PGD_ALLOCATION_ORDER);
}

/* Stays on for a while after the last user: switching it stops all CPUs. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(hydra_key, 60 * HZ);
EXPORT_SYMBOL_GPL(hydra_key);

/*
 * A time in jiffies, before which no thread splits an address space on this CPU: memory was
 * short. For each CPU: a memory cgroup that is full keeps no other process from a split.
 */
static DEFINE_PER_CPU(unsigned long, no_memory_until);

/**
 * hydra_memory_is_short - has an allocation failed on this CPU just now?
 *
 * For each CPU: a memory cgroup that is full keeps no other process from a split.
 *
 * Context: any.
 * Return: true if no thread is to try on this CPU.
 */
bool hydra_memory_is_short(void)
{
	return time_before(jiffies, raw_cpu_read(no_memory_until));
}

/**
 * hydra_memory_was_short - an allocation has failed on this CPU
 *
 * Context: any.
 */
void hydra_memory_was_short(void)
{
	raw_cpu_write(no_memory_until, jiffies + HZ);
}

/**
 * hydra_alloc - allocate a struct hydra_mm
 * @mm: its address space
 * @may_wait: enable hydra_key, for which the caller waits for a CPU that goes online or
 *	offline; false: do without
 *
 * A process that is counted forks with @may_wait, and does not wait for CPUs: hydra_key is on
 * as long as the parent has its struct hydra_mm.
 *
 * Context: process context; with @may_wait, mmap_lock is not held.
 * Return: the struct hydra_mm, or NULL.
 */
struct hydra_mm *hydra_alloc(struct mm_struct *mm, bool may_wait)
{
	struct hydra_mm *h;

	if (may_wait)
		hydra_assert_may_wait();
	h = kzalloc(struct_size(h, domain, hydra_nr_domains), HYDRA_GFP);
	if (!h)
		goto no_memory;
	/* Takes no mutex without GFP_KERNEL */
	h->stats = alloc_percpu_gfp(struct hydra_stats, HYDRA_GFP);
	h->place = kcalloc(hydra_nr_domains, sizeof(*h->place), HYDRA_GFP);
	if (!h->stats || !h->place || !zalloc_cpumask_var(&h->flushing, HYDRA_GFP))
		goto no_memory;
	h->mm = mm;
	if (static_key_fast_inc_not_disabled(&hydra_key.key.key))
		return h;
	if (may_wait) {
		static_branch_deferred_inc(&hydra_key);
		return h;
	}
	goto free;
no_memory:
	hydra_memory_was_short();
free:
	if (h) {
		free_cpumask_var(h->flushing);
		kfree(h->place);
		free_percpu(h->stats);
		kfree(h);
	}
	return NULL;
}

/**
 * hydra_free - free a struct hydra_mm
 * @h: no address space points to it
 *
 * Context: as __hydra_mm_destroy().
 */
void hydra_free(struct hydra_mm *h)
{
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++) {
		if (!h->domain[d])
			continue;
		VM_WARN_ON_ONCE(atomic_long_read(&h->domain[d]->nr_upper));
		hydra_pgd_free(h->domain[d]->pgd);
		kfree(h->domain[d]);
	}
	VM_WARN_ON_ONCE(atomic_long_read(&h->nr_replicas));
	VM_WARN_ON_ONCE(h->kept.next && !list_empty(&h->kept));
	hydra_count_free(h);
	hydra_pending_free(h);
	free_cpumask_var(h->flushing);
	kfree(h->place);
	free_percpu(h->stats);
	kfree(h);
	static_branch_slow_dec_deferred(&hydra_key);
}

/**
 * hydra_next_generation - a generation above all of CPUs, and of flushes under way
 * @h: address space
 *
 * Context: mmap_lock held for writing.
 * Return: the generation.
 */
u64 hydra_next_generation(struct hydra_mm *h)
{
	u64 gen = atomic64_read(&h->mm->context.tlb_gen);
	unsigned int d;

	lockdep_assert_held_write(&h->mm->mmap_lock);
	for (d = 0; d < hydra_nr_domains; d++)
		if (h->domain[d])
			gen = max_t(u64, gen, atomic64_read(&h->domain[d]->tlb_gen));
	return gen + GENERATION_GAP;
}

/**
 * hydra_note_settings - note what flushes and fills read of the settings
 * @h: address space
 * @settings: its settings, with no other bits in the word
 *
 * mm->hydra_settings is in a line with mmap_lock, which other threads take from this CPU all the
 * time. A change of the settings calls this. For a moment the note differs from the settings: a
 * flush or a fill may read the old or the new ones then, as if it had begun earlier or later.
 *
 * Context: mmap_lock held for writing, or no CPU runs the address space.
 */
void hydra_note_settings(struct hydra_mm *h, union hydra_choice settings)
{
	WRITE_ONCE(h->eager, settings.replication == HYDRA_REPLICATE_EAGER);
	WRITE_ONCE(h->filter, settings.filter);
	WRITE_ONCE(h->prefetch, settings.prefetch);
}

/**
 * hydra_attach - give an address space its struct hydra_mm, unless it has one
 * @mm: the address space
 * @new: set to NULL if the address space has taken it
 *
 * Context: mmap_lock held for writing.
 */
void hydra_attach(struct mm_struct *mm, struct hydra_mm **new)
{
	lockdep_assert_held_write(&mm->mmap_lock);
	if (mm->hydra || !*new)
		return;
	hydra_note_settings(*new, hydra_settings_get(mm));
	/*
	 * Initialised before visible; pairs with the address dependency in mm_hydra().
	 */
	smp_store_release(&mm->hydra, *new);
	*new = NULL;
}
