// SPDX-License-Identifier: GPL-2.0-only
/*
 * Refcache: reference counts of which the zero is found late, but which CPUs change
 * without a common line of memory. After Clements et al., "RadixVM: Scalable address
 * spaces for multithreaded applications" (EuroSys 2013), section 3.1.
 */

/**
 * DOC: Refcache
 *
 * Each CPU keeps the changes (deltas) of the counts of up to 256 objects to itself, one
 * for each hash. In an epoch, each CPU adds its deltas to the global counts of the
 * objects, in no particular order, and empties its cache. A delta that has to make room
 * for another object's is added at once. The true count is the sum of the global count and
 * all deltas. Use it where a late release does no harm, and where the true count is never
 * asked for.
 *
 * When a CPU makes a global count 0 or less, the object waits for review. An epoch begins
 * with a look at all objects that wait: they become clean and dying. A CPU that adds a
 * delta, even one of 0, to an object that waits makes it dirty. The review comes at the end
 * of the epoch. The object is released if its global count is 0, it is clean, and its weak
 * reference still says "dying". If the count is above 0, the object waits no longer. Else
 * it waits for another epoch.
 *
 * Why an object that is clean at the end has no reference: no CPU had an entry for it when
 * the epoch began, as the flush of such an entry makes the object dirty. So the global count
 * was the true count then. It has not changed since, and is 0. Only a weak reference can
 * bring the object back, and then says "dying" no longer.
 *
 * Why a delta of 0 makes an object dirty: the paper's figure 2 skips such deltas. Then a
 * reference can move from a CPU which has yet to flush to one that has flushed, and no
 * flush sees it. Here an object has two references, one of them a delta of CPU 1::
 *
 *    CPU 0                              CPU 1
 *    -----                              -----
 *                                       delta 1: got after its last flush
 *    puts the other one: delta -1
 *    flushes: global count 0, waits
 *    <an epoch begins>                  <an epoch begins>
 *    flushes: nothing
 *    gets: delta 1                      puts: delta 0
 *                                       flushes: delta 0, makes it dirty
 *    <the review would release it>
 *
 * An object without references is released by the end of the second epoch that begins
 * after the last reference was put: the first one adds all deltas, and leaves a global
 * count of 0.
 *
 * Epochs come while something needs them: an object that waits, or a delta that fell below
 * 0. Then no object without references is forgotten. As its global count and its deltas
 * have a sum of 0, the global count is 0 or less, and the object waits, or a delta is below
 * 0.
 *
 * Locking: there are no locks. The rules:
 *
 * - A cache belongs to its CPU, which uses it with preemption disabled, and not in
 *   interrupts. Of a dead CPU it belongs to the CPU that calls refcache_dead().
 * - Epochs do not overlap: refcache_epoch() runs in one work item. It holds
 *   cpus_read_lock() while CPUs flush, so a CPU comes or goes between the flushes of
 *   two epochs, and never in the middle.
 * - @word changes by atomic instructions. The CPU that sets %REFCACHE_WAITS puts the
 *   object on its list. From then on @node is the epoch's, until the review takes the
 *   flag away, or puts the object on a list again.
 * - Order: what a CPU does comes before its flush, the flush before flush_work() returns
 *   to the epoch, and that before the review. An epoch begins before its flushes, by
 *   queue_work_on(). Two other barriers are named where they are: at refcache_wanted, and in
 *   refcache_init(). A caller that copies a reference takes its own before the reference
 *   which it has copied is put: refcache_get() and refcache_put() order nothing.
 */

#include <linux/cpu.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/refcache.h>
#include <linux/workqueue.h>

#define REFCACHE_WAITS	1LL	/* for review; flags of refcache::word */
#define REFCACHE_DIRTY	2LL	/* counted while it waits, since an epoch began last */
#define REFCACHE_FLAGS	(REFCACHE_WAITS | REFCACHE_DIRTY)
#define REFCACHE_ONE	4LL	/* a reference */

#define REFCACHE_DYING	1L	/* of refcache_weak::word */

#define REFCACHE_BITS	8	/* 256 deltas for each CPU */
#define REFCACHE_DELAY	msecs_to_jiffies(10)	/* ahead of an epoch, as in the paper */

/* An entry that is used may have a delta of 0. */
struct refcache_entry {
	struct refcache *ref;
	long delta;
};

struct refcache_cpu {
	struct refcache_entry entry[1 << REFCACHE_BITS];
	struct llist_head waiting;	/* objects, until an epoch begins */
	struct work_struct flush;
};

static DEFINE_PER_CPU_ALIGNED(struct refcache_cpu, refcache_cpus);

/* An epoch was asked for, and has not begun. */
static int refcache_wanted __read_mostly;

static void refcache_kick(struct irq_work *work);
static struct irq_work refcache_kicker = IRQ_WORK_INIT_LAZY(refcache_kick);

/*
 * From any context, also from the scheduler, which may hold locks that a workqueue takes.
 * The caller has put an object on a list, or a delta is below 0.
 */
static void refcache_want_epoch(void)
{
	/* A CPU that has gone offline runs no irq_work. */
	WARN_ON_ONCE(cpu_is_offline(raw_smp_processor_id()));
	/*
	 * If an epoch is wanted already, it finds the object: llist_add() is a full barrier,
	 * and pairs with smp_store_mb() in refcache_work(). A delta is flushed by this CPU.
	 */
	if (!READ_ONCE(refcache_wanted) && !xchg(&refcache_wanted, true))
		irq_work_queue(&refcache_kicker);
}

static void refcache_wait(struct refcache *ref)
{
	llist_add(&ref->node, raw_cpu_ptr(&refcache_cpus.waiting));
	refcache_want_epoch();
}

/*
 * Add a delta to the global count of its object, and free the entry. A CPU does not look
 * at the object afterwards, unless it has to put it on a list.
 */
static void refcache_evict(struct refcache_entry *entry)
{
	struct refcache *ref = entry->ref;
	s64 new, old = atomic64_read(&ref->word);

	lockdep_assert_preemption_disabled();
	/* Only an object that waits becomes dirty. */
	WARN_ON_ONCE((old & REFCACHE_FLAGS) == REFCACHE_DIRTY);
	do {
		new = old + entry->delta * REFCACHE_ONE;
		if (old & REFCACHE_WAITS)
			new |= REFCACHE_DIRTY;
		else if (new < REFCACHE_ONE)
			new |= REFCACHE_WAITS;
		/* Nothing has changed: leave the line to other CPUs. */
		if (new == old)
			break;
	} while (!atomic64_try_cmpxchg(&ref->word, &old, new));
	*entry = (struct refcache_entry){ };
	if (!(old & REFCACHE_WAITS) && (new & REFCACHE_WAITS))
		refcache_wait(ref);
}

static void refcache_evict_all(struct refcache_cpu *cache)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cache->entry); i++)
		if (cache->entry[i].ref)
			refcache_evict(&cache->entry[i]);
}

static struct refcache_entry *refcache_entry(struct refcache *ref)
{
	return this_cpu_ptr(refcache_cpus.entry) + hash_ptr(ref, REFCACHE_BITS);
}

/* With preemption disabled: no flush of this CPU is under way. */
static void refcache_count(struct refcache *ref, long change)
{
	struct refcache_entry *entry = refcache_entry(ref);

	WARN_ON_ONCE(!in_task());
	lockdep_assert_preemption_disabled();
	if (entry->ref != ref) {
		if (entry->ref)
			refcache_evict(entry);
		entry->ref = ref;
	}
	entry->delta += change;
	if (entry->delta < 0)
		refcache_want_epoch();
}

/**
 * refcache_init() - prepare an object, with a reference of the caller
 * @ref:	what the object has for Refcache
 * @release:	called when there is no reference, from a workqueue; it may sleep
 * @weak:	a weak reference, which is 0, and finds the object from now on; or NULL. It has
 *		to live until @release is called, and as long as refcache_get_weak() may be
 *		called
 *
 * What refcache_get_weak() is to find has to be initialised before. @release may not wait for
 * the release of another object: one work item calls both.
 *
 * Context: any, after core_initcall().
 */
void refcache_init(struct refcache *ref, void (*release)(struct refcache *ref),
		   struct refcache_weak *weak)
{
	WARN_ON_ONCE((long)ref & REFCACHE_DYING);
	WARN_ON_ONCE(weak && atomic_long_read(&weak->word));
	atomic64_set(&ref->word, REFCACHE_ONE);
	ref->release = release;
	ref->weak = weak;
	/* Pairs with the address dependency in refcache_get_weak(). */
	if (weak)
		atomic_long_set_release(&weak->word, (long)ref);
}

/**
 * refcache_get() - take a reference
 * @ref:	of an object with a reference that is not put before this call returns
 *
 * Context: any but interrupts; may hold locks of the scheduler.
 */
void refcache_get(struct refcache *ref)
{
	preempt_disable();
	refcache_count(ref, 1);
	preempt_enable();
}

/**
 * refcache_put() - give a reference back
 * @ref:	of an object; the reference may have been taken on another CPU
 *
 * Context: any but interrupts; may hold locks of the scheduler.
 */
void refcache_put(struct refcache *ref)
{
	preempt_disable();
	refcache_count(ref, -1);
	preempt_enable();
}

/**
 * refcache_get_weak() - take a reference to the object of a weak reference
 * @weak:	the weak reference
 *
 * Also revives an object without references. A CPU that does so makes the weak reference
 * say that the object is not dying; the epoch's review releases only an object that is.
 *
 * If it is not dying, this CPU writes to no common line. Then this CPU has yet to flush in
 * any epoch that could release the object: such an epoch makes it dying before its flushes.
 * The flush of this CPU waits until preemption is enabled, and adds the reference.
 *
 * An object that a review has found in use is dying until it is next found so.
 *
 * Context: any but interrupts; may hold locks of the scheduler.
 *
 * Return: the object, or NULL if it has been released, or is about to be.
 */
struct refcache *refcache_get_weak(struct refcache_weak *weak)
{
	struct refcache *ref;
	long word;

	preempt_disable();
	word = atomic_long_read(&weak->word);
	/* Against refcache_cut_weak(): the first of the two to change the word wins. */
	while ((word & REFCACHE_DYING) &&
	       !atomic_long_try_cmpxchg(&weak->word, &word, word & ~REFCACHE_DYING))
		;
	ref = (struct refcache *)(word & ~REFCACHE_DYING);
	if (ref)
		refcache_count(ref, 1);
	preempt_enable();
	return ref;
}

static bool refcache_cut_weak(struct refcache *ref)
{
	long dying = (long)ref | REFCACHE_DYING;

	return !ref->weak || atomic_long_try_cmpxchg(&ref->weak->word, &dying, 0);
}

/* All objects that wait for review become clean and dying. */
static struct llist_node *refcache_begin_epoch(void)
{
	struct llist_node *all = NULL, *node, *next;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct llist_head *waiting = &per_cpu(refcache_cpus, cpu).waiting;

		if (llist_empty(waiting))
			continue;
		llist_for_each_safe(node, next, llist_del_all(waiting)) {
			struct refcache *ref = llist_entry(node, struct refcache, node);

			WARN_ON_ONCE(!(atomic64_read(&ref->word) & REFCACHE_WAITS));
			atomic64_andnot(REFCACHE_DIRTY, &ref->word);
			if (ref->weak)
				atomic_long_or(REFCACHE_DYING, &ref->weak->word);
			node->next = all;
			all = node;
		}
	}
	return all;
}

static void refcache_flush(struct work_struct *work)
{
	preempt_disable();
	/* On its own CPU. The tests give no work. */
	WARN_ON_ONCE(work && work != this_cpu_ptr(&refcache_cpus.flush));
	refcache_evict_all(this_cpu_ptr(&refcache_cpus));
	preempt_enable();
}

static void refcache_flush_cpus(void)
{
	unsigned int cpu;

	cpus_read_lock();
	for_each_online_cpu(cpu)
		/* Not queued before: epochs do not overlap. */
		WARN_ON_ONCE(!queue_work_on(cpu, system_wq,
					    &per_cpu(refcache_cpus, cpu).flush));
	for_each_online_cpu(cpu)
		flush_work(&per_cpu(refcache_cpus, cpu).flush);
	cpus_read_unlock();
}

/* True if the object has a count above 0, and waits no longer. */
static bool refcache_stays(struct refcache *ref)
{
	s64 old = atomic64_read(&ref->word);

	do {
		if (old < REFCACHE_ONE)
			return false;
	} while (!atomic64_try_cmpxchg(&ref->word, &old, old & ~REFCACHE_FLAGS));
	return true;
}

/* The objects that waited when the epoch began: all CPUs have flushed since. */
static void refcache_review(struct llist_node *waiting)
{
	struct refcache *ref, *next;
	s64 word;

	llist_for_each_entry_safe(ref, next, waiting, node) {
		cond_resched();
		WARN_ON_ONCE(!(atomic64_read(&ref->word) & REFCACHE_WAITS));
		if (refcache_stays(ref))
			continue;
		word = atomic64_read(&ref->word);
		/* The count of a clean object is the true one: was a reference put twice? */
		WARN_ON_ONCE(word < 0 && !(word & REFCACHE_DIRTY));
		/* No count, and clean? */
		if (word != REFCACHE_WAITS || !refcache_cut_weak(ref))
			refcache_wait(ref);
		else
			ref->release(ref);
	}
}

static void refcache_epoch(void)
{
	struct llist_node *waiting = refcache_begin_epoch();

	refcache_flush_cpus();
	refcache_review(waiting);
}

static void refcache_work(struct work_struct *work)
{
	/* Pairs with llist_add() ahead of refcache_want_epoch(): see there. */
	smp_store_mb(refcache_wanted, false);
	refcache_epoch();
}

static DECLARE_DELAYED_WORK(refcache_worker, refcache_work);

static void refcache_kick(struct irq_work *work)
{
	queue_delayed_work(system_unbound_wq, &refcache_worker, REFCACHE_DELAY);
}

/* No epoch's flushes are under way: refcache_flush_cpus() keeps CPUs from going. */
static int refcache_dead(unsigned int cpu)
{
	lockdep_assert_cpus_held();
	WARN_ON_ONCE(cpu_online(cpu));
	preempt_disable();
	refcache_evict_all(per_cpu_ptr(&refcache_cpus, cpu));
	preempt_enable();
	return 0;
}

static int __init refcache_start(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		INIT_WORK(&per_cpu(refcache_cpus, cpu).flush, refcache_flush);
	/* Below the states in which a CPU that goes offline still runs. */
	WARN_ON(cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "lib/refcache:dead",
					  NULL, refcache_dead) < 0);
	return 0;
}
core_initcall(refcache_start);

#include "pairs.h"
#include "steps-kunit.h"
#include "threads-kunit.h"
