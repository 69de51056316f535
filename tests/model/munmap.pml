/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A leaf table is freed through a gather, and maybe the table above it (see unmap.pml),
 * with and without memory to note what is to be freed. Meanwhile a CPU of each domain fills
 * atomically (VMAs are locked, so no other fault is under way), walks the canonical
 * tree without a lock like GUP-fast, or is idle.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FREE_BEFORE_FLUSH        5
 *   BROKEN_FREED_TABLES_UNSAID      5
 *   BROKEN_HAND_OVER_FIRST          5
 *   BROKEN_CUT_AFTER_FLUSH          5
 *   BROKEN_KEEP_LINK                5
 *   BROKEN_KEEP_SOLO_LINK           5
 *   BROKEN_USERS_UNNOTED            5
 *   BROKEN_NO_RCU                   5
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
