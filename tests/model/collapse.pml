/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A leaf table leaves the canonical tree before it is flushed: pmdp_collapse_flush()
 * with hook 0008, as called by collapse_huge_page(), without the table's own lock,
 * which may put the table back; and by retract_page_tables(), with that lock, which
 * frees it. Against it faults of both domains, with a VMA or atomic, and somebody who
 * has changed an entry of the table and has yet to flush for it.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FILTERED_COLLAPSE        6
 *   BROKEN_UNFILTERED_LATE          6
 *   BROKEN_UNFILTERED_READ_FIRST    6
 *   BROKEN_COLLAPSE_ENDS_EARLY      6
 *   BROKEN_JOIN_UNCHECKED           6
 *   BROKEN_CHANGED_MEANWHILE        6
 */
#define FLUSH_AT_ONCE
#define PLAIN_STORES
#define ANON_VMAS
#include "hydra.pml"

/* __hydra_collapse_cut(), with hydra_table_release() */
inline collapse_cut()
{
	/* A fill that saw the entry before it was cleared. */
	atomic { !domain_lock[0] -> skip };
	atomic { !domain_lock[1] -> skip };
	table_detach();
	if
	:: t ->
		table_cut_domain(0);
		table_cut_domain(1);
		if
		:: table > T -> call_rcu(table)
		:: else
		fi;
		call_rcu(HT(t));
		t = 0;
		table = 0
	:: else
	fi
}

/* The CPU cannot walk any leaf table. */
#define no_way(cpu)	(!walks(cpu) || !(psc[cpu] & LEAVES))

/* pmdp_collapse_flush(), with the lock of the PMD entry */
inline pmdp_collapse_flush(cpu)
{
	/* hydra_collapse_begin() */
	atomic {
		joined = EVERYBODY;
#ifndef BROKEN_FILTERED_COLLAPSE
#ifndef BROKEN_UNFILTERED_LATE
		unfiltered++
#endif
#endif
	};
	d_step {
		pmd = 0;
		cpus_walk()
	};
#ifdef BROKEN_UNFILTERED_LATE
	unfiltered++;
#endif
	collapse_cut();
#ifdef BROKEN_COLLAPSE_ENDS_EARLY
	unfiltered--;
	targets = EVERYBODY;
#else
	range_targets();
#endif
	flush_tlb_mm_targets(cpu, true);
	invariant(6, no_way(0) && no_way(1) && no_way(2) && no_way(3));
#ifndef BROKEN_COLLAPSE_ENDS_EARLY
#ifndef BROKEN_FILTERED_COLLAPSE
	unfiltered--
#else
	skip
#endif
#else
	skip
#endif
}

/* collapse_huge_page(): no VMA is locked by others, T is kept. */
inline collapse_huge_page(cpu)
{
	down_write(VMA);
#ifndef BROKEN_CHANGED_MEANWHILE
	down_write(ANON_VMA);
#endif
	reader_begin();
	pmdp_collapse_flush(cpu);
	reader_end();
	/* __collapse_huge_page_isolate() */
	atomic { !ptl -> skip };
	if
	:: d_step {		/* it failed: put the table back */
		pmd = T;
		cpus_walk()
	   }
	:: skip
	fi;
	up_write(ANON_VMA);
	up_write(VMA)
}

/* retract_page_tables(), end of collapse_pte_mapped_thp(): T is freed. */
inline retract_page_tables(cpu)
{
	reader_begin();
	atomic { !ptl -> ptl = true };
	pmdp_collapse_flush(cpu);
	atomic {
		ptl = false;
		reader_end()
	};
	call_rcu(T)		/* pte_free_defer() */
}

proctype collapse(byte cpu)
{
	KERNEL_VARIABLES;

	if
	:: collapse_huge_page(cpu)
	:: retract_page_tables(cpu)
	fi
}

proctype faults(byte cpu, times)
{
	KERNEL_VARIABLES;

	do
	:: times ->
		times--;
		if
		:: down_read(VMA);
			fill_leaf(DOMAIN(cpu), false);
			up_read(VMA)
		:: fill_leaf_atomic(cpu, false)
		fi
	:: else -> break
	od
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		if
		:: skip
		:: is_lazy[2] = true
		fi;
		run collapse(0);
		run faults(1, 1);
		run faults(3, 2);
		run changer(0, 2)
	}
}
