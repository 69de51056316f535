/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A leaf table is freed through a gather, and maybe the table above it: free_pte_range(),
 * ___pte_free_tlb(), __hydra_free_table() as free_table, tlb_remove_table() with and
 * without memory to note what is to be freed. Meanwhile a CPU of each domain fills
 * atomically (VMAs are locked, so no other fault is under way), walks the canonical
 * tree without a lock like GUP-fast, or is idle.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_FREE_BEFORE_FLUSH        5
 *   BROKEN_FREED_TABLES_UNSAID      5
 *   BROKEN_HAND_OVER_FIRST          5
 *   BROKEN_CUT_AFTER_FLUSH          5
 *   BROKEN_KEEP_LINK                5
 *   BROKEN_USERS_UNNOTED            5
 *   BROKEN_NO_RCU                   5
 */
#include "hydra.pml"

/* The flush of a gather, if there is anything to flush for. */
inline tlb_flush_mmu_tlbonly()
{
	if
	:: dirty ->
		gather_targets(noted);
#ifdef BROKEN_FREED_TABLES_UNSAID
		flush_tlb_mm_targets(cpu, false);
#else
		flush_tlb_mm_targets(cpu, true);
#endif
		dirty = false
	:: else
	fi
}

/*
 * A table is handed to the gather. If there is no memory to note it, the gather
 * flushes for it and waits until it can be freed.
 */
inline tlb_remove_table(object)
{
	if
	:: batch = batch | BIT(object)
	:: !batch ->
#ifndef BROKEN_FREE_BEFORE_FLUSH
		tlb_flush_mmu_tlbonly();
#endif
		call_rcu(object)
	fi
}

inline tlb_table_flush(object)
{
	if
	:: batch & BIT(object) ->
		batch = batch & ~BIT(object);
		call_rcu(object)
	:: else
	fi
}

/* Of the leaf table; __hydra_free_table(), called by ___pte_free_tlb(). */
inline free_table()
{
	/* For an atomic fill that saw the canonical entry. */
	atomic { !ptl -> skip };
	table_detach();
	if
	:: t ->
		users = ht[t].sharers;
#ifdef BROKEN_HAND_OVER_FIRST
		if
		:: ht[t].table[1] > T -> tlb_remove_table(ht[t].table[1])
		:: else
		fi;
#endif
#ifdef BROKEN_CUT_AFTER_FLUSH
		noted = noted | users;
		tlb_flush_mmu_tlbonly();
#endif
		table_cut_domain(0);
		table_cut_domain(1);
#ifndef BROKEN_USERS_UNNOTED
		noted = noted | users;
#endif
#ifndef BROKEN_HAND_OVER_FIRST
		if
		:: table > T -> tlb_remove_table(table)
		:: else
		fi;
#endif
		call_rcu(HT(t))
	:: else
	fi;
	tlb_remove_table(T)
}

/* The same of P, whose entry in the domains' trees is in their roots. */
inline cut_upper(dom)
{
	lock_domain(dom);
	d_step {
		top[dom] = false;
		cpus_walk()
	};
	ht[0].table[dom] = 0;
	users = users | BIT(dom);
	unlock_domain(dom)
}

inline free_upper_table()
{
	users = 0;
	cut_upper(0);
	cut_upper(1);
	atomic {
		noted = noted | users;
		joined = joined | users
	};
	tlb_remove_table(U(0));
	tlb_remove_table(U(1));
	call_rcu(HT(0));
	tlb_remove_table(P)
}

/* Every VMA is locked: no fault is under way but atomic ones. */
proctype munmap(byte cpu)
{
	KERNEL_VARIABLES;
	bool dirty;
	byte users, batch, noted;	/* hydra_gather::users */

	/* unmap_vmas() */
	pte_offset_map_lock();
	if
	:: present(pte[T]) ->
		ptep_get_and_clear();
		dirty = true
	:: else
	fi;
	forbids[0] = VALUES;
	pte_unmap_unlock();
	/* The gather may be full. */
	if
	:: tlb_flush_mmu_tlbonly()
	:: skip
	fi;
	/* free_pgtables() */
	d_step {
		pmd = 0;
		dirty = true;
		cpus_walk()
	};
	free_table();
	/* The table above, if nothing else needs it. */
	if
	:: skip
	:: d_step {
		pud = false;
		dirty = true;
		cpus_walk()
	   };
	   free_upper_table()
	fi;
	/* tlb_finish_mmu() */
#ifndef BROKEN_FREE_BEFORE_FLUSH
	tlb_flush_mmu_tlbonly();
#endif
	tlb_table_flush(T);
	tlb_table_flush(R);
	tlb_table_flush(U(0));
	tlb_table_flush(U(1));
	tlb_table_flush(P);
#ifdef BROKEN_FREE_BEFORE_FLUSH
	tlb_flush_mmu_tlbonly();
#endif
	flush_returned(0)
}

/* A lockless walker of Linux. */
inline gup_fast(cpu)
{
	atomic {
		irqs_off = irqs_off | BIT(cpu);
		reader_begin()
	};
	if
	:: pud ->
		atomic {
			not_freed(P);
			locked = (pmd == T)
		};
		if
		:: locked -> not_freed(T)
		:: else
		fi
	:: else
	fi;
	atomic {
		locked = false;
		irqs_off = irqs_off & ~BIT(cpu);
		reader_end()
	}
}

/* What else a CPU may be at. */
proctype other(byte cpu, times)
{
	KERNEL_VARIABLES;

	do
	:: atomic { times && loaded_mm[cpu] == MM && !is_lazy[cpu] -> times-- };
		if
		:: fill_leaf_atomic(cpu, false)
		:: gup_fast(cpu)
		:: enter_lazy_tlb(cpu)
		fi
	:: atomic { times -> times-- };
		if
		:: switch_mm_lazy(cpu)
		:: switch_mm_in(cpu)
		:: atomic { loaded_mm[cpu] == MM && !is_lazy[cpu] -> skip }
		fi
	:: atomic { !times -> break }
	od
}

init
{
	atomic {
		if
		:: pte[T] = A_DIRTY
		:: pte[T] = NONE
		fi;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run munmap(0);
		run other(1, 2);
		run other(3, 2)
	}
}
