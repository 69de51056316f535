/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A CPU changes a range of entries of a leaf table in one hold of the table's lock. The
 * CPU looks up the replica once, not for each entry, changes the entries by accessors
 * without a hook, and flushes after the unlock. Two pages, A and B. CPUs of both domains
 * fault meanwhile, and fill both entries.
 *
 *   fork        write-protects the entries, then brings the copies in line
 *               (copy_pte_range(), hydra_entries_set());
 *   mprotect    forgets the copies, then clears each entry and sets the entry with new
 *               permissions, then brings the copies in line
 *               (change_pte_range(), hydra_change_begin(), hydra_change_end());
 *   unmap       forgets the copies, then clears the entries: not in the kernel yet.
 *
 * For the invariants, mprotect() need only forget the copies first, with the lock held
 * from then on, or bring the copies in line last. So mprotect() may drop the lock between
 * copies and entries; unmap may not. The kernel's mprotect() forgets the copies first
 * because of accessed bits, which the model does not have.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_ONE_COPY_NOT_FORGOTTEN                    1
 *   BROKEN_COPIES_FORGOTTEN_BEFORE_LOCK              1
 *   BROKEN_COPIES_FORGOTTEN_AFTER_UNLOCK             1
 *   BROKEN_LOCK_DROPPED_BETWEEN_COPIES_AND_ENTRIES   1
 *   BROKEN_COPIES_IN_LINE_AFTER_UNLOCK               1
 *   BROKEN_FLUSHED_BEFORE_CHANGE                     6
 */
#define TWO_PAGES
#define PREFETCHES
#define PLAIN_STORES
#include "hydra.pml"

#define FORK		0
#define MPROTECT	1
#define UNMAP		2

/* hydra_change_begin() */
inline forget_copies()
{
	changed_table();
	if
	:: table ->
		copy_store(table, (present(pte[table]) -> WANTED : pte[table]));
#ifndef BROKEN_ONE_COPY_NOT_FORGOTTEN
		copy_store_b(table, (pte_b[table] -> WANTED : NONE))
#else
		skip
#endif
	:: else
	fi
}

/* hydra_entries_set(), alias hydra_change_end(), for both entries */
inline bring_copies_in_line()
{
	changed_table();
	if
	:: table ->
		update_copy();
		if
		:: pte_b[table] && present(pte_b[T]) -> copy_store_b(table, pte_b[T])
		:: pte_b[table] && !present(pte_b[T]) -> copy_store_b(table, WANTED)
		:: else
		fi
	:: else
	fi
}

inline canonical_store_b(v)
{
	d_step {
		pte_b[T] = v;
		cpus_walk()
	}
}

inline write_protect()
{
	forbids[n] = BIT(A_CLEAN) | BIT(A_DIRTY);
	if
	:: writable(pte[T]) -> canonical_store(A_RO)
	:: else
	fi
}

/* Each is away for a moment. A may not be written to from now on, or B not be used. */
inline modify()
{
	if
	:: present(pte[T]) ->
		canonical_store(NONE);
		forbids[n] = BIT(A_CLEAN) | BIT(A_DIRTY);
		canonical_store(A_RO)
	:: else
	fi;
	canonical_store_b(NONE);
	if
	:: canonical_store_b(B_DIRTY)
	:: forbids[n] = forbids[n] | BIT(B_DIRTY)
	fi
}

inline take_away()
{
	forbids[n] = VALUES;
	canonical_store(NONE);
	canonical_store_b(NONE)
}

proctype change_range(byte n, cpu, by)
{
	KERNEL_VARIABLES;

#ifdef BROKEN_COPIES_FORGOTTEN_BEFORE_LOCK
	forget_copies();
#endif
	pte_offset_map_lock();
#ifndef BROKEN_COPIES_FORGOTTEN_BEFORE_LOCK
#ifndef BROKEN_COPIES_FORGOTTEN_AFTER_UNLOCK
	if
	:: by != FORK -> forget_copies()
	:: else
	fi;
#endif
#endif
#ifdef BROKEN_LOCK_DROPPED_BETWEEN_COPIES_AND_ENTRIES
	pte_unmap_unlock();
	pte_offset_map_lock();
#endif
#ifdef BROKEN_FLUSHED_BEFORE_CHANGE
	look();
	flush_tlb_mm_range(cpu, false);
#endif
	if
	:: by == FORK -> write_protect()
	:: by == MPROTECT -> modify()
	:: by == UNMAP -> take_away()
	fi;
#ifndef BROKEN_COPIES_IN_LINE_AFTER_UNLOCK
	if
	:: by != UNMAP -> bring_copies_in_line()
	:: else
	fi;
#endif
	pte_unmap_unlock();
#ifdef BROKEN_COPIES_FORGOTTEN_AFTER_UNLOCK
	forget_copies();
#endif
#ifdef BROKEN_COPIES_IN_LINE_AFTER_UNLOCK
	bring_copies_in_line();
#endif
#ifndef BROKEN_FLUSHED_BEFORE_CHANGE
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
		if
		:: run change_range(0, 0, FORK)
		:: run change_range(0, 0, MPROTECT)
		:: run change_range(0, 0, UNMAP)
		fi;
		run faults(1, false);
		run faults(3, true);
		run faults(2, false)
	}
}
