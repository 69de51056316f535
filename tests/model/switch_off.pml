/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A running process is switched off and on again (mm/hydra/core.c, see switch.pml),
 * against changes and their flushes, a gather, faults that grow the trees, and a CPU
 * that comes and goes; two of these at a time. Once taken down, the trees do not grow
 * again.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_NO_GAP                   6 or 11
 *   BROKEN_OLD_GENERATION           6
 *   BROKEN_FILTERED_SWITCH          6
 *   BROKEN_OLD_CONTEXTS_STAY        5
 *   BROKEN_ROOTS_STAY               5
 *   BROKEN_TAKEN_DOWN_FIRST         5
 */
#define ACTIVE		true
#define SWITCHES
#define IN_ORDER
#include "hydra.pml"
#include "switch.pml"

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(EVERYBODY);
			run hydra_set(2);
			run scheduler(1, 1);
			run changer(0, 0)
		:: boot(EVERYBODY);
			run hydra_set(2);
			run scheduler(3, 1);
			run truncation(0, 0)
		:: boot(EVERYBODY);
			run hydra_set(1);
			run flusher(2);
			run changer(0, 0)
		:: boot(BIT(1));
			run hydra_set(1);
			run faults(1);
			run changer(0, 0)
		:: boot(BIT(0));
			run hydra_set(1);
			run faults(3);
			run changer(0, 0)
		fi
	}
}
