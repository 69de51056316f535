/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A loop over the entries of a leaf table (zap_pte_range(), change_pte_range()) that
 * treats the copies of all of them at once, when it has the lock, and not with each
 * entry: not in the kernel yet. Two pages, A and B. Against faults of both domains, which
 * copy both, and an atomic one.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FORGET_COPY              1
 *   BROKEN_COPIES_UNLOCKED          1
 *   BROKEN_COPIES_LATE              1
 *   BROKEN_BULK_FLUSHED_FIRST       6
 */
#define TWO_PAGES
#define PREFETCHES
#define PLAIN_STORES
#include "hydra.pml"

/* The entries are about to be cleared, or (protect) A to be read-only. */
inline treat_copies()
{
	changed_table();
	if
	:: table && protect -> copy_store(table, (present(pte[table]) -> A_RO : pte[table]))
	:: table && !protect ->
		copy_store(table, (present(pte[table]) -> WANTED : pte[table]));
#ifndef BROKEN_FORGET_COPY
		copy_store_b(table, NONE)
#else
		skip
#endif
	:: else
	fi
}

proctype bulk(byte n, cpu)
{
	KERNEL_VARIABLES;
	bool protect;

	if
	:: protect = true
	:: true
	fi;
#ifdef BROKEN_COPIES_UNLOCKED
	treat_copies();
#endif
	pte_offset_map_lock();
#ifndef BROKEN_COPIES_UNLOCKED
#ifndef BROKEN_COPIES_LATE
	treat_copies();
#endif
#endif
#ifdef BROKEN_BULK_FLUSHED_FIRST
	look();
	flush_tlb_mm_range(cpu, false);
#endif
	/* The entries, by accessors without a hook. */
	if
	:: protect ->
		forbids[n] = BIT(A_CLEAN) | BIT(A_DIRTY);
		if
		:: writable(pte[T]) -> canonical_store(A_RO)
		:: else
		fi
	:: !protect ->
		forbids[n] = VALUES;
		canonical_store(NONE);
		pte_b[T] = NONE
	fi;
	pte_unmap_unlock();
#ifdef BROKEN_COPIES_LATE
	treat_copies();
#endif
#ifndef BROKEN_BULK_FLUSHED_FIRST
	/* tlb_finish_mmu() */
	tlb_flush(cpu, 0, false);
#endif
	flush_returned(n)
}

proctype faults(byte cpu; bool write)
{
	KERNEL_VARIABLES;

	if
	:: fill_leaf(DOMAIN(cpu), write)
	:: fill_leaf_atomic(cpu, write)
	fi
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		pte_b[T] = B_DIRTY;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: pte_b[R] = B_DIRTY; boot(3)
		fi;
		run bulk(0, 0);
		run faults(1, false);
		run faults(3, true);
		run faults(2, false)
	}
}
