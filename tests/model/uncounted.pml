/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gather meets somebody who has raised mm->tlb_flush_pending, too, but is no gather:
 * who takes entries away and flushes after the lock is dropped. The gather finds
 * them gone, sees that there are two, and flushes for both. What it models: wp_pte()
 * between wp_clean_pre_vma() and wp_clean_post_vma(), for which to clear an entry
 * stands; tlb_finish_mmu() with hook 0006.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_COUNTED_LATE             6
 *   BROKEN_LOOKED_ONCE              6
 */
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

proctype cleaner(byte n, cpu)
{
	KERNEL_VARIABLES;

	tlb_flush_pending++;
	pte_offset_map_lock();
	if
	:: present(pte[T]) -> ptep_get_and_clear()
	:: else
	fi;
	forbids[n] = VALUES;
	pte_unmap_unlock();
	range_targets();
	atomic {
		flush_tlb_mm_targets(cpu, false);
		flush_returned(n)
	};
	tlb_flush_pending--
}

proctype gather(byte n, cpu, times)
{
	KERNEL_VARIABLES;
	bool cleared, nested;

	do
	:: times ->
		times--;
		hydra_gather_begin();
		tlb_flush_pending++;
		pte_offset_map_lock();
		atomic {
			cleared = present(pte[T]);
			forbids[n] = VALUES
		};
		if
		:: cleared -> ptep_get_and_clear()
		:: else
		fi;
		pte_unmap_unlock();
		nested = (tlb_flush_pending > 1);
		if
		:: cleared || nested ->
			targets = gather_targets();
			atomic {
				flush_tlb_mm_targets(cpu, false);
				flush_returned(n)
			}
		:: else -> flush_returned(n)
		fi;
		tlb_flush_pending--;
		hydra_gather_end();
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
		run cleaner(0, 0);
		run gather(1, 2, 2);
		run faults(0);
		run faults(1);
	}
}
