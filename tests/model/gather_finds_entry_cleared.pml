/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPU 0 clears a huge entry (modelled by the entry of T) under its lock and flushes
 * before it drops the lock. CPU 1, with a gather, reads the entry without the lock, after
 * the clear and before CPU 0's flush. The gather has removed neighbours on both sides, so
 * the gather's flush covers the entry. On stock Linux the gather's flush reaches every
 * CPU whose TLB holds the entry. Under Hydra the flush reaches the sharers of the entries
 * that the gather removed. Modelled: zap_pmd_range() and change_pmd_range() with
 * hydra_wait_pmd_clear(), move_pages_huge_pmd(); and collapse_pte_mapped_thp() with the
 * hook collapse, which clears small entries and flushes in one hold of the PMD lock.
 *
 * CPU 1 does not wait if no domain has ever had a copy of a huge entry: hydra_had_huge().
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_LOCK_NOT_WAITED_FOR         6
 *   BROKEN_LOCK_DROPPED_BEFORE_FLUSH   6
 *   BROKEN_HUGE_NOTED_AFTER_UNLOCK     6
 *   BROKEN_HUGE_READ_BEFORE_ENTRY      6
 */
#define FLUSH_AT_ONCE
#include "hydra.pml"

bool huge;			/* hydra_mm.huge */

/* hydra_fill_huge() */
proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: present(pte[T]) ->
#ifndef BROKEN_HUGE_NOTED_AFTER_UNLOCK
		huge = true;
#endif
		table = domain_leaf(word, dom);
		if
		:: !table -> join(dom)
		:: else
		fi;
		if
		:: table != T -> copy_entry()
		:: else
		fi
	:: else
	fi;
	pte_unmap_unlock();
#ifdef BROKEN_HUGE_NOTED_AFTER_UNLOCK
	huge = true
#endif
}

/* Without a gather: flushes before the unlock. */
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
	bool had_huge;

#ifdef BROKEN_HUGE_READ_BEFORE_ENTRY
	had_huge = huge;
#endif
	if
	:: atomic { pte[T] == NONE -> forbids[n] = VALUES };
#ifndef BROKEN_HUGE_READ_BEFORE_ENTRY
		had_huge = huge;
#endif
#ifndef BROKEN_LOCK_NOT_WAITED_FOR
		/* hydra_wait_pmd_clear() */
		if
		:: had_huge ->
			pte_offset_map_lock();
			pte_unmap_unlock()
		:: else
		fi;
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
		:: boot(0)
		:: boot(1); huge = true
		:: boot(2); huge = true
		:: boot(3); huge = true
		fi;
		run clearer(0, 0);
		run gather(1, 2);
		run faults(0);
		run faults(1);
	}
}
