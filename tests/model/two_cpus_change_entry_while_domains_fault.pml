/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies, links, changes and flushes of an entry. A CPU of each domain faults, to read or
 * write. Two other CPUs change the entry, or one CPU changes the entry and hardware sets
 * the dirty bit. A changing CPU makes a writable entry read-only and clean, or clears the
 * entry; the second CPU may change the entry afterwards, too. All CPUs run the address
 * space all the time, so a flush is one step once the targets are known;
 * flushes_while_cpu_comes_and_goes.pml has the single steps.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_CHANGE_NOT_PROPAGATED           1
 *   BROKEN_COPY_NOT_CLEARED                1
 *   BROKEN_ENTRY_READ_BEFORE_LOCK          1 or 6
 *   BROKEN_SHARER_NOT_NOTED                3
 *   BROKEN_LINKED_BEFORE_NOTED             3
 *   BROKEN_FIRST_DOMAIN_NOT_NOTED          3
 *   BROKEN_WORD_WRITTEN_BEFORE_STRUCT      3
 *   BROKEN_COPY_WRITABLE_WHILE_CLEAN       4
 *   BROKEN_SHARERS_LOOKED_UP_BEFORE_LOCK   6
 *   BROKEN_ONLY_OWN_DOMAIN_FLUSHED         6
 */
#define CHANGES_PERMISSIONS
#define FLUSH_AT_ONCE
#define PLAIN_STORES
#include "hydra.pml"

/*
 * A fault, with both hooks. Between the hooks runs wp_page_reuse(): the VMA permits to
 * write.
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

/* In a linked table, hardware sets the dirty bit of the canonical entry. */
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
