/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * mremap() moves a leaf table as a whole: move_normal_pmd() with the hook
 * moved-and-shared-tables, and __hydra_move_table(). T is reachable at the old address
 * first, then at the new one, with the same entries and lock. The model keeps what a CPU
 * cached by old and by new addresses in separate sets.
 *
 * mremap() holds mmap_lock, the lock of the VMA, and the locks of the reverse map until
 * mremap() has flushed. Three processes run meanwhile, at either address. A CPU of domain
 * 0 fills atomically, with the lock of T alone. A CPU of domain 1 faults, with the lock
 * of the VMA, and fills. A CPU finds the entry by the reverse map, clears it, and flushes
 * before the CPU drops the lock of the reverse map, or before the CPU drops the lock of
 * T.
 *
 * Left out: the locks of the two PMD entries, which none of the three takes. No invariant
 * depends on the lock of the VMA: without the lock, the search finds no violation. A
 * fault that fills takes the lock of T like an atomic fill, and mremap() waits for the
 * lock.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FILL_NOT_WAITED_FOR                 5 or 6
 *   BROKEN_NEW_PLACE_POPULATED_BEFORE_DETACH   3 or 6
 *   BROKEN_REVERSE_MAP_UNLOCKED_BEFORE_FLUSH   6
 *   BROKEN_MOVED_WITHOUT_REVERSE_MAP_LOCK      6
 *   BROKEN_MOVED_WITHOUT_FLUSH                 5 or 6
 *   BROKEN_MREMAP_SPARES_LAZY_CPUS             5
 *   BROKEN_REPLICA_FREED_BEFORE_FLUSH          5
 */
#define MOVES
#define PLAIN_STORES
#define FLUSH_AT_ONCE
#include "hydra.pml"

#define OLD	0
#define NEW	1

/* __hydra_move_table() */
inline hydra_move_table(cpu)
{
#ifndef BROKEN_FILL_NOT_WAITED_FOR
	/* Wait for an atomic fill that saw the old entry. */
	atomic { !ptl -> skip };
#endif
	hydra_table_detach();
	users = sharers_of(t);
	hydra_table_release();
#ifndef BROKEN_MOVED_WITHOUT_FLUSH
	/* hydra_flush_domains() */
	h = hydra_active;
	targets = users;
	atomic {
#ifdef BROKEN_MREMAP_SPARES_LAZY_CPUS
		flush_tlb_mm_range(cpu, false);
#else
		flush_tlb_mm_range(cpu, true);
#endif
		users = 0
	}
#endif
}

inline populate_new()
{
	d_step {
		pmds[NEW] = T;
		cpus_walk()
	}
}

/* move_pgt_entry(), move_normal_pmd() */
proctype mover(byte cpu)
{
	KERNEL_VARIABLES;
	byte users;

	down_write(VMA);
#ifndef BROKEN_MOVED_WITHOUT_REVERSE_MAP_LOCK
	down_write(ANON_VMA);
#endif
	/* The locks of the PMD entries. */
#ifndef BROKEN_REPLICA_FREED_BEFORE_FLUSH
	reader_begin();
#endif
	d_step {
		pmds[OLD] = 0;
		cpus_walk()
	};
#ifdef BROKEN_NEW_PLACE_POPULATED_BEFORE_DETACH
	populate_new();
#endif
	hydra_move_table(cpu);
#ifndef BROKEN_NEW_PLACE_POPULATED_BEFORE_DETACH
	populate_new();
#endif
	/* flush_tlb_range() looks at the old place, and finds no table. */
	d_step {
		moved = true;
		cpus_walk()
	};
	reader_end();
#ifndef BROKEN_MOVED_WITHOUT_REVERSE_MAP_LOCK
	up_write(ANON_VMA);
#endif
	up_write(VMA)
}

inline either_place()
{
	if
	:: place = OLD
	:: place = NEW
	fi
}

proctype fault_atomic(byte cpu, times)
{
	KERNEL_VARIABLES;

	do
	:: times ->
		times--;
		either_place();
		fill_leaf_atomic(cpu, false)
	:: else -> break
	od
}

proctype fault(byte dom)
{
	KERNEL_VARIABLES;

	either_place();
	down_read(VMA);
	fill_leaf(dom, false);
	up_read(VMA)
}

/*
 * As changer of hydra.pml. The lock of the reverse map is kept until the flush is done.
 */
proctype unmapper(byte cpu)
{
	KERNEL_VARIABLES;
	bool looked, unlocked;

	down_read(ANON_VMA);
	either_place();
	pte_offset_map_lock();
	if
	:: locked ->
		if
		:: atomic {
			irqs_off = irqs_off | BIT(cpu);
			looked = true
		   };
			look()
		:: true
		fi;
		change_entry(0);
		irqs_off = irqs_off & ~BIT(cpu);
		if
		:: pte_unmap_unlock(); unlocked = true
		:: true
		fi;
#ifdef BROKEN_REVERSE_MAP_UNLOCKED_BEFORE_FLUSH
		up_read(ANON_VMA);
#endif
		if
		:: !looked -> look()
		:: else
		fi;
		atomic {
			flush_tlb_mm_range(cpu, false);
			flush_returned(0)
		};
		if
		:: !unlocked -> pte_unmap_unlock()
		:: else
		fi
	:: else
	fi;
#ifndef BROKEN_REVERSE_MAP_UNLOCKED_BEFORE_FLUSH
	up_read(ANON_VMA)
#endif
}

init
{
	byte place;

	atomic {
		pmds[NEW] = 0;
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
		run mover(0);
		run fault_atomic(1, 2);
		run fault(1);
		run unmapper(3)
	}
}
