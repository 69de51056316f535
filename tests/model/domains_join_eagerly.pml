/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replication "eager". A CPU faults, fills for its own domain, and then fills for the other
 * domain: that one joins, and gets a replica with all entries. Domain 1 links the table if
 * there is no memory for a replica. Meanwhile a second CPU changes the entry, and flushes by
 * table. A third CPU faults in the other domain. Each change goes to all copies, also to
 * those that no access has asked for.
 *
 * A fault is at the entry of the model, or at another entry of the table, which is always
 * there. So a domain may join while the entry of the model is empty.
 *
 * A copy may have fewer permissions than hydra_derive() gives it: hydra_mark_used() and
 * hardware set the dirty bit without a push. So invariant 12 asks for a copy that is
 * present, and invariant 1 for one that is truthful.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_EMPTY_COPIES_NOT_PUSHED         12
 *   BROKEN_OTHERS_NOT_FILLED               12
 *   BROKEN_ONLY_ASKED_ENTRY_COPIED         12
 *   BROKEN_COPY_READ_BEFORE_LOCK           1 or 12
 *   BROKEN_OTHERS_COPIED_AFTER_UNLOCK      1 or 12
 *   BROKEN_LINKED_BEFORE_NOTED             3
 *   BROKEN_SHARER_NOT_NOTED                3
 *   BROKEN_COPY_NOT_CLEARED                1
 *   BROKEN_SHARERS_LOOKED_UP_BEFORE_LOCK   6
 */
#define EAGER
#define CHANGES_PERMISSIONS
#define FLUSH_AT_ONCE
#define PLAIN_STORES
#ifndef BROKEN_EMPTY_COPIES_NOT_PUSHED
#define follows(copy)	(pte[copy] != NONE || present(pte[T]))
#endif
#include "hydra.pml"

/* A fault of a domain was at the entry, or at the other one, that is always there. */
#define asked_entry_present	(elsewhere || present(pte[T]))

/* The entry was not there when a fault filled for the other domain. */
bool missed;

/* Does a domain walk the table? Read without a lock. */
#define hydra_have(dom)		(domain_leaf(word, dom) != 0)
#define hydra_all_joined	(hydra_have(0) && hydra_have(1))

/* hydra_copy_entry() for the entry that the fault asked for, else hydra_copy_more() */
inline hydra_copy_window()
{
	if
#ifndef BROKEN_ONLY_ASKED_ENTRY_COPIED
	:: elsewhere && present(pte[T]) && !present(pte[table]) ->
		copy_store(table, hydra_derive(pte[T]))
#endif
	:: !elsewhere -> copy_store(table, hydra_derive(pte[T]))
	:: else
	fi
}

inline hydra_fill_leaf(dom, unasked)
{
#ifdef BROKEN_COPY_READ_BEFORE_LOCK
	gen = (present(pte[T]) -> hydra_derive(pte[T]) : NONE);
#endif
	pte_offset_map_lock();
	if
	:: asked_entry_present ->
		table = domain_leaf(word, dom);
		if
		:: !table -> join(dom)
		:: else
		fi;
		if
		:: table && table != T ->
			if
			:: !(unasked) && !elsewhere -> mark_used(true)
			:: else
			fi;
#ifdef BROKEN_COPY_READ_BEFORE_LOCK
			copy_store(table, gen)
#else
#ifdef BROKEN_OTHERS_COPIED_AFTER_UNLOCK
			if
			:: unasked
			:: !(unasked) -> hydra_copy_window()
			fi
#else
			hydra_copy_window()
#endif
#endif
		:: else
		fi
	:: else -> missed = missed || (unasked)
	fi;
	pte_unmap_unlock();
#ifdef BROKEN_COPY_READ_BEFORE_LOCK
	gen = 0;
#endif
#ifdef BROKEN_OTHERS_COPIED_AFTER_UNLOCK
	if
	:: unasked ->
		table = domain_leaf(word, dom);
		if
		:: table && table != T && asked_entry_present -> hydra_copy_window()
		:: else
		fi;
		table = 0
	:: else
	fi
#endif
}

/* The copies of the other domain: of all entries */
inline hydra_fill_others(dom)
{
#ifndef BROKEN_OTHERS_NOT_FILLED
	if
	:: !hydra_have(1 - (dom)) -> hydra_fill_leaf(1 - (dom), true)
	:: else
	fi
#else
	skip
#endif
}

/* A write fault, with the hook after it. Linux maps a page if there is none. */
proctype faults(byte dom)
{
	KERNEL_VARIABLES;
	bool elsewhere;

	if
	:: elsewhere = true
	:: pte_offset_map_lock();
		if
		:: pte[T] == NONE -> set_pte_at(B_DIRTY)
		:: pte[T] == A_RO -> set_pte_at(A_DIRTY)
		:: else
		fi;
		pte_unmap_unlock()
	fi;
	/* __hydra_fault_done() */
	hydra_fill_leaf(dom, false);
	hydra_fill_others(dom)
}

/* Linux maps a page at the entry, and the domain of that CPU needs no fill. */
proctype sets()
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: pte[T] == NONE -> set_pte_at(B_DIRTY)
	:: else
	fi;
	pte_unmap_unlock()
}

init
{
	atomic {
		if
		:: pte[T] = A_CLEAN
		:: pte[T] = NONE
		fi;
		if
		:: boot(0)
		:: next_replica = R2 + 1; boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run changer(0, 0);
		run sets();
		run faults(0);
		run faults(1)
	};
	/* All have faulted, and no change is under way. */
	_nr_pr == 1 -> invariant(12, hydra_all_joined || missed)
}
