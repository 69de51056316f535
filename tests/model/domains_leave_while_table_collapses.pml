/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains leave a table (drop.pml), and khugepaged takes the table away at the same time, and
 * may put it back. A domain comes back meanwhile, and a CPU changes an entry.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_UNSHARED_WITHOUT_SECOND_LOOK   5
 */
#define COLLAPSES
#define FLUSH_AT_ONCE
#define AT_ONCE
#define ANON_VMAS
#include "hydra.pml"
#include "collapse.pml"
#include "drop.pml"

proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	down_read(VMA);
	fill_leaf(dom, false);
	up_read(VMA)
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
		run collapse(0);
		run drop(2);
		run faults(1);
		run changer(0, 2)
	}
}
