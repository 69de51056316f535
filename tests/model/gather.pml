/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathers that overlap (as of two threads in MADV_DONTNEED): each promises that what
 * is not there when it returns is in no TLB, whoever took it away. A fault of each
 * domain maps a page anew meanwhile. What it models: __tlb_gather_mmu(),
 * zap_pte_range(), tlb_finish_mmu() with hook 0006.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_SKIP_NOTE                6
 *   BROKEN_DROP_NOTES               6
 *   BROKEN_OWN_NOTES                6
 *   BROKEN_CLEARED_FIRST            6
 *   BROKEN_PENDING_LONGER           10
 *
 * zap_pmd_range() looks at huge entries without a lock (the entry of T stands for
 * one, too), and leaves what it finds gone to the flush.
 */
#define ALL_ARE_COUNTED
#include "hydra.pml"

/* A fault: Linux maps a new page if there is none. */
proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: pte[T] == NONE -> set_pte_at(B_DIRTY)
	:: else
	fi;
	pte_unmap_unlock();
	fill_leaf(dom, false)
}

proctype gather(byte n, cpu, times)
{
	KERNEL_VARIABLES;
	bool cleared, nested;

	do
	:: times ->
		times--;
		/* tlb_gather_mmu() */
		hydra_gather_begin();
		tlb_flush_pending++;
		/* zap_pmd_range() */
		if
		:: atomic { pte[T] == NONE -> forbids[n] = VALUES }
		:: atomic { pte[T] != NONE -> skip };
		/* zap_pte_range(), zap_huge_pmd() */
		pte_offset_map_lock();
		atomic {
			cleared = present(pte[T]);
			forbids[n] = VALUES
		};
		if
		:: cleared -> ptep_get_and_clear(); forbids[n] = VALUES
		:: else
		fi;
		pte_unmap_unlock();
		fi;
		/* tlb_finish_mmu() */
		nested = (tlb_flush_pending > 1);
		if
		:: cleared || nested ->
#ifdef BROKEN_OWN_NOTES
			/* Only for whom it has itself changed something. */
			targets = (cleared -> gather_targets() : universal);
#else
			targets = gather_targets();
#endif
			atomic {
				flush_tlb_mm_targets(cpu, false);
				flush_returned(n)
			}
		:: else -> flush_returned(n)
		fi;
#ifdef BROKEN_PENDING_LONGER
		hydra_gather_end();
		tlb_flush_pending--;
#else
		tlb_flush_pending--;
		hydra_gather_end();
#endif
		atomic {
			cleared = false;
			nested = false
		}
	:: else -> break
	od
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
		run gather(0, 0, 2);
		run gather(1, 2, 1);
		run faults(0);
		run faults(1);
	}
}
