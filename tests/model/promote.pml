/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A domain of an address space that is split gets its tree: mm/hydra/core.c.
 *
 * First its CPUs come (__hydra_switching()). They ran the address space before it was
 * split, and have kept contexts, which no flush has reached since. Then promote() gives
 * the domain a tree while they run, or while the first of them comes. A fault that
 * cannot have a table gives the tree up, maybe before promote() is at its end:
 * hydra_degrade(). Against a change and its flush, a gather, or a collapse, which is
 * done by a CPU that has no mmap_lock.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_LODGE_QUIETLY            6
 *   BROKEN_LODGE_UNRAISED           6
 *   BROKEN_LODGE_RAISED_LATE        6
 *   BROKEN_UNIVERSAL_READ_FIRST     6
 *   BROKEN_PROMOTE_UNRAISED         6
 *   BROKEN_PROMOTE_QUIETLY          6
 *   BROKEN_PROMOTED_EARLY           3 or 6
 *   BROKEN_OLD_CONTEXTS_STAY        3 or 6
 *   BROKEN_ROOTS_STAY               3 or 6
 *   BROKEN_DEGRADE_UNSEEN           6
 *   BROKEN_DEGRADED_FIRST           6
 *   BROKEN_DEGRADED_QUIETLY         6
 *   BROKEN_TREES_FIRST              5
 */
#define SWITCHES
#define DEGRADES
#define AT_ONCE
#define PLAIN_STORES
#include "hydra.pml"
#include "switch.pml"
#include "retract.pml"

proctype collapse(byte cpu)
{
	KERNEL_VARIABLES;

	retract_page_tables(cpu)
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		trees = BIT(0);
		if
		:: if
			:: boot(0)
			:: boot(BIT(0))
			fi;
			domain_1_left();
			run scheduler(2, 0);
			if
			:: run scheduler(3, 1)
			:: run resume(1)
			fi;
			if
			:: run changer(0, 0)
			:: run truncation(0, 0)
			fi
		:: boot(BIT(0));
			run resume(1);
			if
			:: run scheduler(3, 1); run truncation(0, 0)
			:: run faults(2, false); run changer(0, 0)
			:: run faults(2, true); run truncation(0, 0)
			:: run faults(2, false); run collapse(0)
			fi
		:: trees = EVERYBODY;
			boot(0);
			run faults(2, true);
			run scheduler(3, 1);
			run changer(0, 0)
		fi
	}
}
