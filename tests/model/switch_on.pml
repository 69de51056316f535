/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A running process is switched on and off again (mm/hydra/core.c, see switch.pml),
 * against changes and their flushes, a gather, faults that grow the trees, and a CPU
 * that comes and goes; two of these at a time.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_ACTIVE_FIRST             6 or 11
 *   BROKEN_FAULTS_GO_ON             5
 */
#define ACTIVE		false
#define SWITCHES
#define IN_ORDER
#include "hydra.pml"
#include "switch.pml"

init
{
	atomic {
		pte[T] = A_DIRTY;
		boot(0);
		if
		:: run hydra_set(2); run faults(3); run changer(0, 0)
		:: run hydra_set(2); run scheduler(1, 1); run truncation(0, 0)
		:: run hydra_set(1); run flusher(2); run changer(0, 0)
		:: run hydra_set(2); run faults(1); run changer(0, 0)
		:: run hydra_set(2); run scheduler(3, 1); run changer(0, 0)
		fi
	}
}
