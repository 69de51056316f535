/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An address space is split: hydra_activate() of split.c, and the first trees. Or it has
 * had trees before, and gets them again. It may also return at once. Meanwhile a CPU changes
 * an entry and flushes, or has a gather; and another CPU comes and goes, of the domain that
 * ran last or of the other one, or faults, so that the trees grow.
 *
 * Linux flushes, as long as the address space is plain. See "A flush while an address space
 * is split, or returns" in Documentation/mm/hydra/orders.rst: both orders are here.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_LAST_WRITTEN_LATE                        6
 *   BROKEN_RUNNING_DOMAINS_NOT_UNIVERSAL            6
 *   BROKEN_FLUSHES_FILTERED_DURING_SPLIT            6
 *   BROKEN_NO_SECOND_LOOK                           6
 *   BROKEN_SECOND_LOOK_BEFORE_GENERATION            6
 *   BROKEN_SECOND_LOOK_AT_ACTIVE_ONLY               6
 *   BROKEN_SECOND_LOOK_READS_UNFILTERED_FIRST       6
 */
#define ACTIVE		false
#define SWITCHES
#define SPLITS
#define AT_ONCE
#define PLAIN_STORES
#include "hydra.pml"
#include "switch.pml"

init
{
	atomic {
		pte[T] = A_DIRTY;
		boot(0);
		if
		:: left(0); left(1); run scheduler(1, 0); run resume(1); run changer(0, 2)
		:: had_trees();
			run split_and_return();
			if
			:: left(2); left(3); run scheduler(3, 0); run changer(0, 0)
			:: run faults(3, false); run truncation(0, 0)
			fi
		:: left(2); left(3); run scheduler(3, 0); run resume(0); run truncation(0, 0)
		:: run scheduler(3, 1); run resume(1); run truncation(0, 0)
		fi
	}
}
