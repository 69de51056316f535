/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gather comes upon a huge entry (that of T stands for it) which somebody has
 * cleared who is no gather, and has yet to flush, under the lock. The gather looks
 * without the lock. It has removed something on both sides, so its flush is of a
 * range with the entry in it: on stock Linux that reaches whoever has it in a TLB,
 * here whoever shares what it has removed.
 * What it models: zap_pmd_range() and change_pmd_range() with hydra_pmd_gone(),
 * move_pages_huge_pmd(); and collapse_pte_mapped_thp() with hook 0008, which keeps
 * the lock that it clears small entries under until it has flushed.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_GONE_UNAWAITED           6
 *   BROKEN_LOCK_DROPPED             6
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
#ifdef BROKEN_LOCK_DROPPED
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
#ifndef BROKEN_GONE_UNAWAITED
		/* hydra_pmd_gone() */
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
