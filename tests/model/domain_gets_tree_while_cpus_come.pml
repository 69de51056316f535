/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A domain of a split address space gets a tree: split.c.
 *
 * First CPUs of the domain switch to the address space (__hydra_switching()). The same
 * CPUs ran the address space before the split, and have kept contexts that no flush has
 * reached since. Then promote() gives the domain a tree while the CPUs run, or while the
 * first CPU switches. A fault without memory for a table gives the tree up, maybe before
 * promote() has ended: hydra_degrade(). After a pause promote() lets the domain use the
 * same tree again. Meanwhile another CPU changes an entry and flushes, or has a gather, or
 * collapses the table without mmap_lock.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_LODGING_DOMAIN_NOT_UNIVERSAL        6
 *   BROKEN_LODGING_RAISES_NO_GENERATION        6
 *   BROKEN_LODGING_RAISES_GENERATION_LATE      6
 *   BROKEN_UNIVERSAL_READ_BEFORE_GENERATION    6
 *   BROKEN_PROMOTION_RAISES_NO_GENERATION      6
 *   BROKEN_PROMOTED_DOMAIN_NOT_UNIVERSAL       6
 *   BROKEN_PROMOTED_BEFORE_ROOTS_SWITCHED      3 or 6
 *   BROKEN_NO_GENERATION_AFTER_ROOT            3 or 6
 *   BROKEN_FLUSH_KEEPS_OLD_ROOT                3 or 6
 *   BROKEN_ROOTS_NOT_SWITCHED                  3 or 6
 *   BROKEN_PROMOTION_IGNORES_DEGRADED_DOMAIN   6
 *   BROKEN_DEGRADED_BEFORE_UNIVERSAL           6
 *   BROKEN_DEGRADED_DOMAIN_NOT_UNIVERSAL       6
 *   BROKEN_TREE_ANNOUNCED_BEFORE_DOMAIN        5
 *   BROKEN_TREE_USED_AGAIN_BEFORE_SWITCH       3 or 6
 *   BROKEN_LINK_OF_DEGRADED_DOMAIN_NOT_CUT     5
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
		:: trees = EVERYBODY;
			if
			:: boot(0)
			:: boot(EVERYBODY)
			fi;
			run faults(2, true);
			run resume(1);
			if
			:: run changer(0, 0)
			:: run truncation(0, 0)
			:: run collapse(0)
			fi
		fi
	}
}
