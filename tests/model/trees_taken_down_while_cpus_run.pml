/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra takes down the trees of a running process, and may split the process again, while
 * CPUs have contexts from before: hydra_deactivate() of split.c. Meanwhile a CPU changes
 * an entry and flushes, or has a gather, and another CPU flushes everything, or faults
 * and grows the trees, or comes and goes. Once taken down, the trees do not grow again
 * (process_splits_while_cpus_come.pml has trees that do). Both domains have trees, or domain 1
 * runs on the canonical root.
 *
 * A sender may be delayed between two loads in raise_targets() while the address space
 * returns and is split again. Then flush_tlb_func() may warn of a flush from the future.
 * That is harmless, so it is no assertion here.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_GENERATION_SET_WITHOUT_GAP       6 or 11
 *   BROKEN_FLUSH_KEEPS_OLD_ROOT             5 or 6
 *   BROKEN_ROOTS_NOT_SWITCHED               5
 *   BROKEN_TREES_TAKEN_DOWN_BEFORE_SWITCH   5
 *   BROKEN_INACTIVE_BEFORE_GENERATION       6 or 11
 *   BROKEN_FAULTS_NOT_LOCKED_OUT            5
 *   BROKEN_LODGING_DOMAIN_NOT_SWITCHED      6
 */
#define SWITCHES
#define SPLITS
#define RETURNS
#define AT_ONCE
#include "hydra.pml"
#include "switch.pml"

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(BIT(0));
			domain_1_is_new();
			run hydra_set(false);
			run faults(3, false);
			run changer(0, 0)
		:: trees = BIT(0);
			boot(BIT(0));
			if
			:: run hydra_set(true)
			:: domain_1_left(); run hydra_set(false); run scheduler(3, 0)
			:: run hydra_set(false); run scheduler(3, 1)
			fi;
			run truncation(0, 0)
		:: boot(EVERYBODY);
			if
			:: run hydra_set(true); run scheduler(3, 1); run truncation(0, 0)
			:: run hydra_set(false); run scheduler(1, 1); run changer(0, 0)
			:: run hydra_set(false); run flusher(2); run changer(0, 0)
			fi
		fi
	}
}
