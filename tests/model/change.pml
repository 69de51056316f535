/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Entries are copied, linked, changed and flushed for: faults of both domains, which
 * read or write, against two who change the entry, or one and hardware that sets the
 * dirty bit. A changer cleans the entry (from writable to read-only) or takes it
 * away; the other one may do so after it. All
 * CPUs run the address space all the time, so a flush is taken for one step once
 * its targets are known; flush.pml has it step by step.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_NO_PROPAGATE             1
 *   BROKEN_NO_CLEAR                 1
 *   BROKEN_FILL_UNLOCKED            1 or 6
 *   BROKEN_FORGET_SHARER            3
 *   BROKEN_JOIN_AFTER_LINK          3
 *   BROKEN_FORGET_SOLO              3
 *   BROKEN_SPLIT_EARLY              3
 *   BROKEN_WRITE_CLEAN              4
 *   BROKEN_LOOK_WITHOUT_LOCK        6
 *   BROKEN_OWN_DOMAIN_ONLY          6
 */
#define CHANGES_PERMISSIONS
#define FLUSH_AT_ONCE
#define PLAIN_STORES
#include "hydra.pml"

/*
 * A fault, as handle_mm_fault() with its two hooks does it. Between them
 * wp_page_reuse(): the VMA permits to write.
 */
inline fault(dom, write)
{
	fill_leaf(dom, write);
	if
	:: write ->
		pte_offset_map_lock();
		if
		:: pte[T] == A_RO -> set_pte_at(A_DIRTY)
		:: else
		fi;
		pte_unmap_unlock();
		fill_leaf(dom, write)
	:: else
	fi
}

proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	if
	:: fill_leaf(dom, false)
	:: fault(dom, true)
	fi
}

/* Through a linked table hardware sets the dirty bit where it lies. */
proctype hardware(byte cpu)
{
	if
	:: atomic {
		uses(cpu) && (psc[cpu] & BIT(T)) && (tlb[cpu] & BIT(A_CLEAN)) &&
		pte[T] == A_CLEAN -> canonical_store(A_DIRTY)
	   }
	:: skip
	fi
}

init
{
	atomic {
		pte[T] = A_CLEAN;
		if
		:: boot(0)
		:: next_replica = R2 + 1; boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run changer(0, 0);
		if
		:: run changer(1, 2)
		:: run hardware(1)
		fi;
		run faults(0);
		run faults(1)
	}
}
