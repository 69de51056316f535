/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * munmap() frees a leaf table through a gather, and maybe the table above (see
 * unmap.pml), with and without memory for the gather's list of freed tables. A CPU of
 * each domain reads meanwhile: the CPU fills atomically (VMAs are locked, so no other
 * fault is under way), walks the canonical tree without a lock like GUP-fast, or is idle.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_TABLES_FREED_BEFORE_FLUSH          5
 *   BROKEN_MUNMAP_SPARES_LAZY_CPUS            5
 *   BROKEN_REPLICA_HANDED_OVER_BEFORE_CUT     5
 *   BROKEN_LINK_CUT_AFTER_FLUSH               5
 *   BROKEN_LINK_NOT_CUT                       5
 *   BROKEN_LINK_OF_SOLE_DOMAIN_NOT_CUT        5
 *   BROKEN_SHARERS_OF_FREED_TABLE_NOT_NOTED   5
 *   BROKEN_FREED_WITHOUT_RCU                  5
 */
#include "hydra.pml"
#include "unmap.pml"

init
{
	atomic {
		if
		:: pte[T] = A_DIRTY
		:: pte[T] = NONE
		fi;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run munmap(0);
		run other(1, 2);
		run other(3, 2)
	}
}
