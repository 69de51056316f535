/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One CPU clears a huge entry (that of T stands for it) under its lock. This CPU has no
 * gather: it flushes before it drops the lock. Another CPU has a gather. It comes upon the
 * entry without the lock, and finds it gone before that flush. The gather has removed
 * neighbours on both sides, so its own flush is of a range with the entry in it. On stock
 * Linux that flush reaches every CPU that has the entry in its TLB. Here it reaches the
 * sharers of what the gather has removed.
 * What it models: zap_pmd_range() and change_pmd_range() with hydra_wait_pmd_clear(),
 * move_pages_huge_pmd(); and collapse_pte_mapped_thp() with the hook collapse, which keeps
 * the lock that it clears small entries under until it has flushed.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_LOCK_NOT_WAITED_FOR         6
 *   BROKEN_LOCK_DROPPED_BEFORE_FLUSH   6
 */
#define FLUSH_AT_ONCE
#include "hydra.pml"

proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	fill_leaf(dom, false)
}

/* Not a gather: it flushes before it drops the lock. */
proctype clearer(byte n, cpu)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: present(pte[T]) ->
		forbids[n] = VALUES;
		ptep_get_and_clear();
#ifdef BROKEN_LOCK_DROPPED_BEFORE_FLUSH
		pte_unmap_unlock();
		pte_offset_map_lock();
#endif
		look();
		atomic {
			flush_tlb_mm_range(cpu, false);
			flush_returned(n)
		}
	:: else
	fi;
	pte_unmap_unlock()
}

proctype gather(byte n, cpu)
{
	KERNEL_VARIABLES;

	if
	:: atomic { pte[T] == NONE -> forbids[n] = VALUES };
#ifndef BROKEN_LOCK_NOT_WAITED_FOR
		/* hydra_wait_pmd_clear() */
		pte_offset_map_lock();
		pte_unmap_unlock();
#endif
		/* tlb_finish_mmu(): for the neighbours */
		h = true;
		atomic {
			flush_tlb_mm_range(cpu, false);
			flush_returned(n)
		}
	:: atomic { pte[T] != NONE -> skip }
	fi
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run clearer(0, 0);
		run gather(1, 2);
		run faults(0);
		run faults(1);
	}
}
