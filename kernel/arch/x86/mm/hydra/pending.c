// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pending drops: which gathers have changed entries and not flushed yet.
 *
 * On Linux each gather raises mm->tlb_flush_pending. So threads that drop memory of their own
 * meet at its line. And gathers that overlap in time flush everything for one another, though
 * the one has no entry that the other has changed. In an address space that is split, a gather
 * that drops little raises counters by place instead. A place is 2 MiB, the reach of a leaf table
 * and of the lock of its entries.
 */

#include <linux/hash.h>
#include <linux/hugetlb_inline.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/tlb.h>

#include "pending.h"
#include "state.h"

/**
 * DOC: Drops are announced by place
 *
 * A gather that raises a counter by place is one that drops pages (munmap(), MADV_DONTNEED, a
 * truncated file), in an active address space, inside one VMA, not of hugetlb, in at most
 * HYDRA_PLACES_MAX places. All others raise tlb_flush_pending, as on Linux. A gather chooses when
 * it begins, before it takes a lock, and keeps to that. Thread A drops a page of place 1, and
 * thread B pages of places 2 and 1::
 *
 *     CPU 0: A                             CPU 1: B
 *     --------                             --------
 *     raises place 1: 1
 *     takes the lock of place 1
 *     clears the entry
 *     drops the lock
 *                                          raises place 2: 1
 *                                          clears its entry of place 2
 *                                          reads tlb_flush_pending: 0, place 2: 1
 *                                          flushes its entry alone, lowers place 2
 *                                          raises place 1: 2
 *                                          takes the lock of place 1
 *                                          finds the entry of A cleared
 *                                          reads tlb_flush_pending: 0, place 1: 2
 *                                          flushes all that its range shares
 *     flushes
 *     lowers place 1                       lowers place 1
 *
 * CPU 1 sees the counter raised if it sees the entry changed: CPU 0 raised the counter, by a full
 * barrier, before it took the lock. That also holds for an entry that CPU 1 reads without the
 * lock, as zap_pmd_range() does: x86 keeps the order of stores, and of loads. CPU 1 sees the
 * counter lowered only after the flush of CPU 0, which ends before it is lowered.
 *
 * Each look at tlb_flush_pending, and whether it looks by place, too:
 *
 * - A gather which ends (hydra_gather_beside()), and __hydra_gather_add_huge(): yes. A gather
 *   that has raised counters asks for another one at its places, and for any that has raised
 *   tlb_flush_pending. One that has raised tlb_flush_pending asks for another such, and for
 *   counters in the range that it has walked.
 * - A flush without a gather (hydra_range_targets()), and wp_clean_post_vma(): yes.
 * - pte_accessible(), on an entry that is PROT_NONE; write_protect_page() of KSM, on one without
 *   write permission; do_wp_page(), on one that userfaultfd protects: no. They have no address,
 *   or are Linux's alone, and need none: each asks if a TLB may hold more rights to the page
 *   which the entry maps. A gather which takes rights, and leaves the page mapped, raises
 *   tlb_flush_pending: change_protection(), for mprotect(), NUMA hints and userfaultfd;
 *   soft-dirty bits; wp_clean_pre_vma(). A drop leaves nothing, or a marker. What is mapped at
 *   the address later is another page. If it is the same page of a file, and a CPU can still
 *   write to it, zap_pte_range() has flushed under the lock (force_flush), as it does for
 *   page_mkclean(). zap_huge_pmd() has not; but an entry there that is PROT_NONE again comes from
 *   a gather which has raised tlb_flush_pending, and which sees the place when it ends.
 * - MADV_FREE takes no rights, either, but is not worth places of its own.
 *
 * None of these looks at all: GUP-fast, which relies on the reference of a page, and on RCU for
 * tables: a gather frees both after its flush. Batches of reclaim, which have a protocol of their
 * own (hydra_flush_batched()). fork(), which flushes all; the child has counters of its own.
 *
 * A gather changes no entry outside its places:
 *
 * - It drops a part of a huge page by a split, which flushes under the lock of the entry. A huge
 *   PUD entry has more than HYDRA_PLACES_MAX places. hugetlb may unshare a whole PMD table for
 *   one page, so it never raises places.
 * - munmap() frees the tables in which no VMA is left. No other gather has an entry there, and
 *   mmap() waits for mmap_lock.
 * - hydra_assert_announced() warns of any other.
 *
 * While gathers run, the address space may be split for the first time::
 *
 *     CPU 0: MADV_DONTNEED                 CPU 1: split, then MADV_DONTNEED
 *     --------------------                 --------------------------------
 *     mm->hydra is NULL: raises
 *       tlb_flush_pending, and records
 *       no range
 *                                          sets h->pending, and active
 *                                          raises the place
 *                                          clears an entry, under its lock
 *     takes the lock: finds it cleared
 *     hydra_drained(): no                  reads tlb_flush_pending: raised
 *     flushes for others, as it does       flushes for others
 *       not know its range
 *
 * CPU 0 reads mm->hydra and h->pending after the changed entry, and CPU 1 before it changes it. So
 * CPU 0 sees both, and the static key, which was switched on all CPUs before mm->hydra was set.
 *
 * The address space may return to Linux, too. A gather from before the return lowers its places
 * later, so readers look at them for some time after it. A grace period after the return, no gather
 * is left that has read active as true, and not raised its places. If all counters are 0 then, they
 * stay so until the next split: they are drained, and cost a process that is plain Linux again
 * nothing. Another split and return may come in the middle::
 *
 *     CPU 0: hydra_drained()               CPU 1: split, return
 *     ----------------------               --------------------
 *     reads active: false
 *     reads return_gp: 40
 *     finds that it has passed, and all
 *       counters 0
 *                                          active = true
 *                                                                  CPU 2: raises a place
 *                                          return_gp = 0
 *                                          active = false
 *                                          return_gp = 48
 *     drained_gp = 40
 *                                                                  CPU 3: reads 48 and 40: not
 *                                                                  drained, looks at the place
 *
 * Counters and struct hydra_mm stay until the mm_struct is freed. An exit (fullmm) begins when no
 * thread is left, raises tlb_flush_pending, and sees places that a truncation has raised.
 *
 * Two places may have one counter. Then gathers flush for one another for nothing.
 */

/* 256 counters of a line each: few of the CPUs that drop at once have one in common. */
#define PENDING_BITS		8
#define PENDING_COUNTERS	BIT(PENDING_BITS)

/*
 * More places than that are announced as on Linux: such a gather takes long, and what it drops
 * is flushed by more than single pages.
 */
#define HYDRA_PLACES_MAX	4

/**
 * struct hydra_pending - a counter of pending drops
 * @drops: gathers that have announced a place with this counter, and have not ended
 */
struct hydra_pending {
	atomic_t drops;
} ____cacheline_aligned_in_smp;

static struct hydra_pending *hydra_counter_of(struct hydra_pending *pending,
					      unsigned long place)
{
	return &pending[hash_long(place, PENDING_BITS)];
}

/**
 * hydra_pending_alloc - let gathers of an address space announce drops by place
 * @h: address space, not active
 *
 * Without memory, all gathers raise mm->tlb_flush_pending.
 *
 * Context: process context, mmap_lock held for writing.
 */
void hydra_pending_alloc(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	VM_WARN_ON_ONCE(h->active);
	if (!h->pending)
		/* The counters before the pointer; pairs with the dependency of its readers. */
		smp_store_release(&h->pending, kcalloc(PENDING_COUNTERS, sizeof(*h->pending),
						       HYDRA_GFP));
}

/**
 * hydra_pending_free - free the counters of an address space
 * @h: address space, with no gather
 *
 * Context: any.
 */
void hydra_pending_free(struct hydra_mm *h)
{
	unsigned int i;

	if (h->pending && IS_ENABLED(CONFIG_DEBUG_VM))
		for (i = 0; i < PENDING_COUNTERS; i++)
			VM_WARN_ON_ONCE(atomic_read(&h->pending[i].drops));
	kfree(h->pending);
}

/* Is a counter of so many places above a value? With more places than counters, all are read. */
static bool hydra_places_above(struct hydra_pending *pending, unsigned long place,
			       unsigned long nr, int own)
{
	unsigned int i;

	if (nr < PENDING_COUNTERS) {
		for (; nr; nr--, place++)
			if (atomic_read(&hydra_counter_of(pending, place)->drops) > own)
				return true;
		return false;
	}
	for (i = 0; i < PENDING_COUNTERS; i++)
		if (atomic_read(&pending[i].drops) > own)
			return true;
	return false;
}

/**
 * hydra_pending_return - an address space is plain Linux again
 * @h: address space; hydra_mm::return_gp was 0 when it became inactive
 *
 * Context: process context, mmap_lock held for writing.
 */
void hydra_pending_return(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	VM_WARN_ON_ONCE(h->active);
	WRITE_ONCE(h->return_gp, start_poll_synchronize_rcu());
}

/**
 * hydra_drained - is no drop announced by place that is pending?
 * @h: address space
 *
 * Context: any; after the caller has read the entries.
 * Return: true if so, and if none can be before the next split; false if that is not known.
 */
bool hydra_drained(struct hydra_mm *h)
{
	struct hydra_pending *pending = READ_ONCE(h->pending);
	unsigned long gp;

	if (!pending)
		return true;
	/* active before return_gp; pairs with the store to active in hydra_deactivate(). */
	if (smp_load_acquire(&h->active))
		return false;
	gp = READ_ONCE(h->return_gp);
	if (!gp)
		return false;
	if (READ_ONCE(h->drained_gp) == gp)
		return true;
	if (!poll_state_synchronize_rcu(gp) || hydra_places_above(pending, 0, ULONG_MAX, 0))
		return false;
	WRITE_ONCE(h->drained_gp, gp);
	return true;
}

static unsigned long hydra_nr_places(unsigned long start, unsigned long end)
{
	return hydra_place_of(end - 1) - hydra_place_of(start) + 1;
}

/**
 * hydra_drops_in - is a drop announced by place, and pending, in a range?
 * @h: address space
 * @start: first address
 * @end: end of the range, exclusive; not above @start: any range
 *
 * Context: any; after the caller has read the entries, see "Drops are announced by place".
 * Return: true if so, or if another place has the counter of one in the range.
 */
bool hydra_drops_in(struct hydra_mm *h, unsigned long start, unsigned long end)
{
	unsigned long nr = start < end ? hydra_nr_places(start, end) : ULONG_MAX;

	return !hydra_drained(h) && hydra_places_above(h->pending, hydra_place_of(start), nr, 0);
}

/**
 * hydra_gather_announce - announce a drop by place
 * @g: Hydra's part of the gather, which begins, with ->ranged set
 * @vma: the VMA that is dropped from
 * @start: first address
 * @end: end of the range, exclusive
 *
 * Context: as hydra_gather_drop().
 * Return: false if the gather has to raise mm->tlb_flush_pending.
 */
bool hydra_gather_announce(struct hydra_gather *g, struct vm_area_struct *vma,
			   unsigned long start, unsigned long end)
{
	const struct hydra_mm *h = READ_ONCE(vma->vm_mm->hydra);
	struct hydra_pending *pending = READ_ONCE(h->pending);
	unsigned long nr, i;

	if (!pending || is_vm_hugetlb_page(vma) || start < vma->vm_start || end > vma->vm_end ||
	    end <= start)
		return false;
	nr = hydra_nr_places(start, end);
	if (nr > HYDRA_PLACES_MAX)
		return false;
	/* From the look at active to the raised places; pairs with hydra_drained(). */
	guard(rcu)();
	if (!READ_ONCE(h->active))
		return false;
	g->place = hydra_place_of(start);
	g->nr_places = nr;
	/* Before the lock of an entry; pairs with hydra_gather_beside() and hydra_drops_in(). */
	for (i = 0; i < nr; i++)
		atomic_inc(&hydra_counter_of(pending, g->place + i)->drops);
	return true;
}

/* Return: false if the gather has announced no places. */
static bool hydra_withdraw(struct hydra_gather *g, struct hydra_mm *h)
{
	unsigned int i, nr = g->nr_places;

	for (i = 0; i < nr; i++)
		atomic_dec(&hydra_counter_of(h->pending, g->place + i)->drops);
	g->nr_places = 0;
	return nr;
}

/**
 * __hydra_gather_withdraw - the drop of a gather is not pending any more
 * @mm: the address space, with a struct hydra_mm
 * @tlb: the gather, which has flushed
 *
 * Context: any. As on Linux, the flush is ordered before: it has waited for the CPUs.
 * Return: false if the gather has announced no places.
 */
bool __hydra_gather_withdraw(const struct mm_struct *mm, struct mmu_gather *tlb)
{
	return hydra_withdraw(&tlb->hydra, READ_ONCE(mm->hydra));
}

/* Has another gather raised tlb_flush_pending? */
static bool hydra_unplaced_beside(const struct hydra_gather *g, const struct mm_struct *mm)
{
	return atomic_read(&mm->tlb_flush_pending) > (g->nr_places ? 0 : 1);
}

static bool hydra_beside(const struct hydra_gather *g, struct hydra_mm *h)
{
	if (hydra_unplaced_beside(g, h->mm))
		return true;
	if (g->nr_places)
		return hydra_places_above(h->pending, g->place, g->nr_places, 1);
	/* From before a split: the gather does not know its range. */
	if (!g->ranged)
		return !hydra_drained(h);
	return hydra_drops_in(h, g->start, g->end);
}

/**
 * __hydra_gather_beside - does another gather change entries in the range of one that ends?
 * @mm: the address space, with a struct hydra_mm
 * @tlb: the gather
 *
 * Context: as hydra_gather_beside().
 * Return: true if so, or if that is not known.
 */
bool __hydra_gather_beside(const struct mm_struct *mm, struct mmu_gather *tlb)
{
	return hydra_beside(&tlb->hydra, READ_ONCE(mm->hydra));
}

/**
 * hydra_gather_alone_at - has no other gather changed the entry of an address?
 * @g: Hydra's part of a gather that has changed it
 * @h: address space
 * @addr: the address
 *
 * Context: as hydra_gather_add_huge().
 * Return: false if one may have changed it, and not flushed yet.
 */
bool hydra_gather_alone_at(const struct hydra_gather *g, struct hydra_mm *h,
			   unsigned long addr)
{
	return !hydra_unplaced_beside(g, h->mm) &&
	       (hydra_drained(h) || !hydra_places_above(h->pending, hydra_place_of(addr), 1,
							g->nr_places ? 1 : 0));
}

#include "tests/pending-kunit.h"
