/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An address space is put under Hydra for the first time while a gather is under way
 * that was not counted because there was nobody to count it. Truncation has such
 * ones: it takes no mmap_lock. Another gather overlaps with it later.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_UNCOUNTED_FORGOTTEN      6
 */
#define ACTIVE		false
#define SWITCHES
#define IN_ORDER
#include "hydra.pml"
#include "switch.pml"

bool hydra;			/* mm->hydra is there */

/* hydra_set(), for the first time */
proctype hydra_set_first()
{
	KERNEL_VARIABLES;

	down_write(MMAP);
	hydra = true;
	hydra_activate();
	up_write(MMAP)
}

/* Counted only if there is somebody to count it: hydra_gather_begin(). */
proctype gather(byte n, cpu; bool mmap_locked)
{
	KERNEL_VARIABLES;
	bool counted, cleared, nested;

	if
	:: mmap_locked -> down_read(MMAP)
	:: else
	fi;
	counted = hydra;
	if
	:: counted -> hydra_gather_begin()
	:: else
	fi;
	tlb_flush_pending++;
	pte_offset_map_lock();
	cleared = present(pte[T]);
	change_entry(n);
	forbids[n] = VALUES;
	pte_unmap_unlock();
	nested = (tlb_flush_pending > 1);
	if
	:: cleared || nested ->
		targets = (counted && hydra_active -> gather_targets() : EVERYBODY);
		flush_tlb_mm_targets(cpu, false)
	:: else
	fi;
	flush_returned(n);
	tlb_flush_pending--;
	if
	:: counted -> hydra_gather_end()
	:: else
	fi;
	if
	:: mmap_locked -> up_read(MMAP)
	:: else
	fi
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		boot(0);
		run hydra_set_first();
		run gather(0, 0, false);
		run gather(1, 2, true);
		run faults(3)
	}
}
