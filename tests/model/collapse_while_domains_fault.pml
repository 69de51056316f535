/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * khugepaged unlinks a leaf table from the canonical tree before the flush:
 * pmdp_collapse_flush() with the hook collapse. collapse_huge_page() calls
 * pmdp_collapse_flush() without the lock of the leaf table, and may put the table back.
 * retract_page_tables() calls pmdp_collapse_flush() with the lock, and frees the table.
 * CPUs of both domains fault meanwhile, with a VMA or atomically. Another CPU has changed
 * an entry of the table and has not flushed yet.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FLUSHES_FILTERED_DURING_COLLAPSE    6
 *   BROKEN_UNFILTERED_RAISED_AFTER_CLEAR       6
 *   BROKEN_UNFILTERED_READ_BEFORE_SHARERS      6
 *   BROKEN_UNFILTERED_LOWERED_BEFORE_FLUSH     6
 *   BROKEN_JOIN_WITHOUT_SECOND_LOOK            5 or 6
 *   BROKEN_COLLAPSE_WITHOUT_REVERSE_MAP_LOCK   6
 */
#define COLLAPSES
#define FLUSH_AT_ONCE
#define PLAIN_STORES
#define ANON_VMAS
#include "hydra.pml"
#include "collapse.pml"

proctype faults(byte cpu, times)
{
	KERNEL_VARIABLES;

	do
	:: times ->
		times--;
		if
		:: down_read(VMA);
			fill_leaf(DOMAIN(cpu), false);
			up_read(VMA)
		:: fill_leaf_atomic(cpu, false)
		fi
	:: else -> break
	od
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		if
		:: skip
		:: is_lazy[2] = true
		fi;
		run collapse(0);
		run faults(1, 1);
		run faults(3, 2);
		run changer(0, 2)
	}
}
