/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gather of CPU 0 has cleared a huge entry (modelled by the entry of T: frame A), and
 * has not flushed yet. A fault installs a table in place of the huge entry, and maps a
 * part of the same page (modelled by the entry of T, too: frame B, writable). The sharers
 * of the table are not the sharers of the huge page. Then CPU 1, without a gather,
 * write-protects the small entry and flushes, as PAGEMAP_SCAN does. When CPU 1's flush
 * returns, no CPU may write to the page by either entry. Modelled: zap_huge_pmd() and
 * tlb_finish_mmu(), do_fault() of a file's page, pagemap_scan_pmd_entry(),
 * hydra_range_targets().
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_PENDING_GATHER_IGNORED          6
 *   BROKEN_GATHER_COUNTED_AFTER_TAKING     6
 *   BROKEN_GATHER_UNCOUNTED_BEFORE_FLUSH   6
 */
#define FLUSH_AT_ONCE
#include "hydra.pml"

byte table_sharers;		/* of the table in place of the huge page */

proctype gather(byte n, cpu)
{
	KERNEL_VARIABLES;
	byte users;			/* hydra_gather::sharers */

#ifndef BROKEN_GATHER_COUNTED_AFTER_TAKING
	/* tlb_gather_mmu() */
	tlb_flush_pending++;
#endif
	/* zap_huge_pmd() */
	pte_offset_map_lock();
	forbids[n] = VALUES;
	ptep_get_and_clear();
	users = sharers_of(word);
	pte_unmap_unlock();
#ifdef BROKEN_GATHER_COUNTED_AFTER_TAKING
	tlb_flush_pending++;
#endif
	/* tlb_finish_mmu() */
#ifdef BROKEN_GATHER_UNCOUNTED_BEFORE_FLUSH
	tlb_flush_pending--;
#endif
	h = true;
	targets = users;
	atomic {
		flush_tlb_mm_range(cpu, false);
		flush_returned(n)
	};
#ifndef BROKEN_GATHER_UNCOUNTED_BEFORE_FLUSH
	tlb_flush_pending--
#endif
}

/* Domain 0 links the table. The slot of domain 1 is unchanged. */
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
		/* hydra_range_targets() */
		h = true;
		targets = table_sharers;
#ifndef BROKEN_PENDING_GATHER_IGNORED
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
