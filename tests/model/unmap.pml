/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gather frees a leaf table, and maybe the table above: free_pte_range(),
 * ___pte_free_tlb(), __hydra_free_table() as free_table, tlb_remove_table(). Included by
 * scenarios, after hydra.pml.
 *
 * FREED_AT_ONCE is not in the kernel yet: the gather keeps tables in a list, which needs
 * no memory. If the gather's flush has reached all domains that run the address space,
 * the gather frees the tables without RCU. A CPU that walks without a lock has interrupts
 * off, so the flush has waited for the CPU. The shrinker walks on any CPU: the kernel
 * would have to count the shrinker's walks.
 */

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

#ifdef FREED_AT_ONCE
byte atomic_fills;		/* looks of the shrinker under way */

/* After the entries were cleared, and the others interrupted. */
inline waits_for_look()
{
#ifndef BROKEN_SHRINKER_NOT_COUNTED
	to_be_waited_for = spared || atomic_fills
#else
	to_be_waited_for = spared
#endif
#ifdef BROKEN_FREED_AT_ONCE_THOUGH_DOMAIN_SPARED
	;
	to_be_waited_for = false
#endif
}

/* hydra_reclaim_table() on a CPU that need not run the address space. */
proctype shrinker(byte cpu)
{
	bool locked;

	atomic_fills++;
	gup_fast(cpu);
	atomic_fills--
}
#endif

/* The flush of a gather, if there is anything to flush for. */
inline tlb_flush_mmu_tlbonly()
{
	if
	:: dirty ->
#ifdef BROKEN_MUNMAP_SPARES_LAZY_CPUS
		tlb_flush(cpu, noted, false);
#else
		tlb_flush(cpu, noted, true);
#endif
#ifdef FREED_AT_ONCE
		waits_for_look();
#endif
		dirty = false
	:: else
	fi
}

/*
 * Hands a table to the gather. Without memory for the list, the gather flushes for the
 * table and waits for a grace period.
 */
inline tlb_remove_table(object)
{
#if defined(FREED_AT_ONCE) || defined(INSTALLS)
	/* hydra_gather_table(): in a list, which needs no memory. */
	batch = batch | BIT(object)
#else
	if
	:: batch = batch | BIT(object)
	:: !batch ->
#ifndef BROKEN_TABLES_FREED_BEFORE_FLUSH
		tlb_flush_mmu_tlbonly();
#endif
		call_rcu(object)
	fi
#endif
}

inline tlb_table_flush(object)
{
	if
	:: batch & BIT(object) ->
		batch = batch & ~BIT(object);
#ifdef FREED_AT_ONCE
		if
		:: to_be_waited_for -> call_rcu(object)
		:: !to_be_waited_for -> free_now(object)
		fi
#else
		call_rcu(object)
#endif
	:: else
	fi
}

/* Of the leaf table; __hydra_free_table(), called by ___pte_free_tlb(). */
inline free_table()
{
	/* Wait for an atomic fill that saw the canonical entry. */
	atomic { !ptl -> skip };
	hydra_table_detach();
	users = sharers_of(t);
#ifdef BROKEN_REPLICA_HANDED_OVER_BEFORE_CUT
	if
	:: is_struct(t) && ht[t].table[1] > T -> tlb_remove_table(ht[t].table[1])
	:: else
	fi;
#endif
#ifdef BROKEN_LINK_CUT_AFTER_FLUSH
	noted = noted | users;
	tlb_flush_mmu_tlbonly();
#endif
	hydra_table_cut();
#ifndef BROKEN_SHARERS_OF_FREED_TABLE_NOT_NOTED
	noted = noted | users;
#endif
#ifndef BROKEN_REPLICA_HANDED_OVER_BEFORE_CUT
	if
	:: table -> tlb_remove_table(table)
	:: else
	fi;
#endif
	if
	:: is_struct(t) -> call_rcu(HT(t))
	:: else
	fi;
	tlb_remove_table(T)
}

/* The same for P: the domains' roots link P's tables. */
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
	byte users, batch, noted;	/* hydra_gather::sharers */
	bool to_be_waited_for;

#ifdef BROKEN_SPARED_LOOKED_UP_BEFORE_CLEAR
	spared = running() & ~sharers_of(word);
#endif
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
	/* The table above, if otherwise empty. */
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
#ifndef BROKEN_TABLES_FREED_BEFORE_FLUSH
	tlb_flush_mmu_tlbonly();
#endif
	tlb_table_flush(T);
	tlb_table_flush(R);
	tlb_table_flush(U(0));
	tlb_table_flush(U(1));
	tlb_table_flush(P);
#ifdef BROKEN_TABLES_FREED_BEFORE_FLUSH
	tlb_flush_mmu_tlbonly();
#endif
	flush_returned(0)
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
