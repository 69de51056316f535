/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As munmap_while_other_node_reads.pml, but munmap() frees tables without RCU if the
 * flush has spared no domain that runs the address space (see unmap.pml: not in the
 * kernel yet). The shrinker looks up a table, on a CPU that has left the address space or
 * that still runs in it.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FREED_AT_ONCE_THOUGH_DOMAIN_SPARED   5
 *   BROKEN_SHRINKER_NOT_COUNTED                 5
 *   BROKEN_SPARED_LOOKED_UP_BEFORE_CLEAR        5
 */
#define FREED_AT_ONCE
#include "hydra.pml"
#include "unmap.pml"

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
		:: leave_mm(1); run shrinker(1)
		:: run other(1, 1)
		fi;
		if
		:: leave_mm(2); leave_mm(3)
		:: true
		fi;
		run munmap(0);
		run other(3, 2)
	}
}
