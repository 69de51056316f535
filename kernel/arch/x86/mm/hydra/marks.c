// SPDX-License-Identifier: GPL-2.0-only
/*
 * Marks: which domains a flush of single entries has to reach (filters "entry", "accessed"
 * and "auto").
 *
 * A CPU caches a translation only after it has set the accessed bit in the entry, for
 * speculation, too (Intel SDM volume 3A, 4.10.2.3; AMD APM volume 2, 5.5). So the copy
 * tells whether the domain may have the entry in a TLB. Whatever changes a copy, or
 * clears its accessed bit, leaves the mark HYDRA_PTE_MARKED in the same atomic step
 * (hydra_mark()). A later fill keeps the mark. A flush reaches the domains with a mark
 * in its range, and clears ("takes") these marks.
 *
 * Only marks are looked at, and not accessed bits. A translation that came from the
 * present value of an entry need not be flushed. Callers that flush without a change of
 * their own (e.g. do_wp_page() for userfaultfd, tlb_finish_mmu() of gathers that
 * overlap) flush for a change made elsewhere, and that change has left a mark.
 *
 * Entries of linked tables have no marks: Linux itself sets accessed bits there. A
 * flush reaches every domain with a link. It reaches a sharer without a table, too: the
 * link or the replica of the domain has been cut, and the flush of that cut is still
 * under way.
 *
 * Marks are kept under every filter, so the filter may change at any time. A flush by table
 * leaves them, and a later look finds too many.
 *
 * The mark of a copy that was aged has a stamp, and is void once the CPUs of the domain have
 * been flushed since: see arch/x86/mm/hydra/idle.c.
 */

/**
 * DOC: Two flushes and one mark
 *
 * CPU 2 has cleared an entry. The copy of domain 1 was accessed, so it is marked now::
 *
 *     CPU 0: a flush                       CPU 1: a flush of the same entry
 *     --------------                       --------------------------------
 *     publishes: range, all domains
 *     <full barrier>
 *     takes the mark of domain 1
 *     narrows what it published: domain 1
 *                                          publishes
 *                                          finds no mark
 *                                          <read barrier>
 *                                          reads that CPU 0 flushes domain 1,
 *                                            adds domain 1 to its targets
 *     flushes domain 1, waits
 *     <full barrier>
 *     unpublishes
 *                                          flushes domain 1, returns
 *
 * If CPU 1 reads nothing published any more, CPU 0 has flushed domain 1. If CPU 0
 * took the mark before it published, CPU 1 would return while domain 1 still uses the
 * old translation. If CPU 0 cleared the mark after its flush, it would also clear a mark
 * that a change has left meanwhile.
 *
 * A CPU writes the next flush over the last one. So CPU 1 may read parts of both, even
 * of a flush of another address space. Then the flush whose marks CPU 1 missed is over,
 * and CPU 1 needs nothing: CPU 0 publishes the next one only after that. CPU 1 needs
 * nothing of the next flush either: it takes its marks after CPU 1 has looked.
 *
 * A flush that still looks is published for all domains. CPU 1 leaves out those that
 * shared no table of the range before CPU 1 looked for marks. A domain whose mark CPU 0
 * took was a sharer when the mark was left, and leaves the sharers only after a flush of
 * the whole table.
 *
 * Reclaim's batches flush later, and publish nothing. So hydra_tlbbatch_add() looks at
 * marks and does not take them.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/preempt.h>

#include <asm/cpu_device_id.h>
#include <asm/cpufeature.h>
#include <asm/processor.h>

#include "idle.h"
#include "marks.h"

DEFINE_PER_CPU_SHARED_ALIGNED(struct hydra_published, hydra_published);

/**
 * hydra_take_marks - look for marks in a replica
 * @h: address space
 * @d: the domain of the replica
 * @copies: the first copy of the range
 * @nr: how many
 * @look: HYDRA_TAKE_MARKS: clear the marks. The caller has published its flush, and the
 *	domain becomes a target if this returns true.
 *
 * Changes under the table's lock may go on meanwhile, and hardware may set bits.
 *
 * Context: interrupts off, or the table's lock.
 * Return: true if there was a mark that is not void.
 */
bool hydra_take_marks(struct hydra_mm *h, unsigned int d, pteval_t *copies,
		      unsigned int nr, enum hydra_look look)
{
	bool found = false;
	unsigned int i;

	lockdep_assert_preemption_disabled();
	for (i = 0; i < nr; i++) {
		pteval_t val = READ_ONCE(copies[i]);

		while (val & HYDRA_PTE_MARKED) {
			if (hydra_stray(val))
				hydra_stray_accessed();
			found = found || !(val & HYDRA_PTE_STAMP) || !hydra_is_void(h, d, val);
			if (look != HYDRA_TAKE_MARKS ||
			    try_cmpxchg(&copies[i], &val, val & ~(pteval_t)HYDRA_PTE_MARK))
				break;
		}
		if (found && look != HYDRA_TAKE_MARKS)
			break;
	}
	return found;
}

/**
 * hydra_publish - tell other CPUs of a flush that is about to take marks
 * @h: address space
 * @start: first address
 * @end: end of the range, exclusive
 *
 * A published flush covers all domains until hydra_add_published() narrows it, also
 * domains of a scope that the address space gets just now: this CPU may take their marks.
 *
 * Context: not in interrupts, so the flushes of a CPU do not nest. Preemption is off on
 * return, until hydra_unpublish().
 */
void hydra_publish(struct hydra_mm *h, unsigned long start, unsigned long end)
{
	struct hydra_published *p;

	preempt_disable();
	p = this_cpu_ptr(&hydra_published);
	WARN_ON_ONCE(p->h || !in_task());
	p->h = h;
	WRITE_ONCE(p->start, start);
	WRITE_ONCE(p->end, end);
	hydra_mask_fill(&p->targets);
	cpumask_set_cpu(smp_processor_id(), h->flushing);
	/*
	 * The published flush before the marks; pairs with the smp_rmb() in
	 * hydra_add_published().
	 */
	smp_mb__after_atomic();
}

/**
 * hydra_add_published - add the targets of overlapping flushes that took marks
 * @h: address space
 * @start: first address
 * @end: end of the range, exclusive
 * @sharers: the sharers of the tables of the range, read before the marks
 * @targets: the domains found by their marks; the targets are added
 *
 * If this CPU has published its flush, narrows the flush to @targets: the domains whose
 * marks it took are among them.
 *
 * A domain that is no sharer is left out: a flush that is just looking is published for
 * all domains. A domain whose mark another flush has taken was a sharer of the table when
 * it was marked. It has left the sharers since only if it has been flushed for the whole
 * table.
 *
 * Context: preemption off; the caller has looked at the marks.
 */
void hydra_add_published(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *sharers,
			 hydra_mask_t *targets)
{
	struct hydra_published *p = this_cpu_ptr(&hydra_published);
	int cpu, self = smp_processor_id();
	hydra_mask_t published;

	lockdep_assert_preemption_disabled();
	if (p->h)
		hydra_mask_copy(&p->targets, targets);
	/*
	 * The marks before the published flushes. Pairs with hydra_publish(): if another
	 * CPU took a mark before this CPU looked, this CPU sees the flush of the other.
	 * Or it is over; pairs with __hydra_unpublish().
	 */
	smp_rmb();
	hydra_mask_zero(&published);
	for_each_cpu(cpu, h->flushing) {
		p = per_cpu_ptr(&hydra_published, cpu);
		if (cpu != self && start < READ_ONCE(p->end) && READ_ONCE(p->start) < end)
			hydra_mask_add(&published, &p->targets);
	}
	hydra_mask_keep(&published, sharers);
	hydra_mask_add(targets, &published);
}

void __hydra_unpublish(void)
{
	struct hydra_published *p = this_cpu_ptr(&hydra_published);

	/*
	 * The flush before the bit. Pairs with hydra_add_published(): a CPU that does not
	 * see the bit relies on the flush.
	 */
	smp_mb__before_atomic();
	cpumask_clear_cpu(smp_processor_id(), p->h->flushing);
	p->h = NULL;
	preempt_enable();
}
