/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Somebody changes an entry who is no gather (PAGEMAP_SCAN write-protects a page),
 * and a gather has taken a huge page from the same place (that of T stands for it:
 * frame A) which it has yet to flush. A fault has put a table there since, with an
 * entry for a part of the same page (which stands in T, too: frame B, writable). Who
 * shares that table is not who shared the huge page, and who changes its entry
 * promises that nobody writes to the page by either.
 * What it models: zap_huge_pmd() and tlb_finish_mmu(), do_fault() of a file's page,
 * pagemap_scan_pmd_entry(), __hydra_range_targets().
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FORGET_TAKEN             6
 *   BROKEN_COUNTED_LATE             6
 *   BROKEN_UNCOUNTED_EARLY          6
 */
#define FLUSH_AT_ONCE
#include "hydra.pml"

byte table_sharers;		/* of the table in place of the huge page */

proctype gather(byte n, cpu)
{
	KERNEL_VARIABLES;
	byte users;			/* hydra_gather::users */

#ifndef BROKEN_COUNTED_LATE
	/* tlb_gather_mmu() */
	tlb_flush_pending++;
#endif
	/* zap_huge_pmd() */
	pte_offset_map_lock();
	forbids[n] = VALUES;
	ptep_get_and_clear();
	users = sharers_of(word);
	pte_unmap_unlock();
#ifdef BROKEN_COUNTED_LATE
	tlb_flush_pending++;
#endif
	/* tlb_finish_mmu() */
#ifdef BROKEN_UNCOUNTED_EARLY
	tlb_flush_pending--;
#endif
	h = true;
	targets = users;
	atomic {
		flush_tlb_mm_range(cpu, false);
		flush_returned(n)
	};
#ifndef BROKEN_UNCOUNTED_EARLY
	tlb_flush_pending--
#endif
}

/* Of domain 0, which links the table. The other one's slot stays as it is. */
proctype fault()
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: pte[T] == NONE -> atomic {
		table_sharers = BIT(0);
		joined = joined | BIT(0);
		canonical_store(B_DIRTY)
	   }
	:: else
	fi;
	pte_unmap_unlock()
}

proctype protect(byte n, cpu)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: pte[T] == B_DIRTY ->
		canonical_store(A_RO);
		forbids[n] = BIT(A_CLEAN) | BIT(A_DIRTY) | BIT(B_DIRTY);
		/* __hydra_range_targets() */
		h = true;
		targets = table_sharers;
#ifndef BROKEN_FORGET_TAKEN
		if
		:: atomic { tlb_flush_pending -> targets = targets | sharers_of(word) }
		:: atomic { else -> skip }
		fi;
#endif
		atomic {
			flush_tlb_mm_range(cpu, false);
			flush_returned(n)
		}
	:: else
	fi;
	pte_unmap_unlock()
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
		run gather(0, 0);
		run protect(1, 1);
		run fault()
	}
}
