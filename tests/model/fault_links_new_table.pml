/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A fault finds no leaf table, allocates a table and installs the table in the canonical
 * tree: pmd_install() with the hook faults. If the table is on the home of the faulting
 * domain, __hydra_install() first sets the word to SOLO(d) and links the table, with the
 * lock of the PMD entry and no other lock. CPUs of both domains fault, maybe at the same
 * time, and one CPU fills atomically. Another CPU collapses the table
 * (retract_page_tables()), or unmaps the table and maybe the table above, or faults, too.
 *
 * All tables are on the home of domain 0, because domain 1 has no local memory left. A
 * table that domain 1 allocates at first has no sharer.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_NEW_TABLE_LINKED_BEFORE_WORD           3
 *   BROKEN_NEW_TABLE_LINKED_AFTER_POPULATE        3
 *   BROKEN_NEW_TABLE_LINKED_BEFORE_PMD_LOCK       3
 *   BROKEN_NEW_TABLE_LINKED_WITHOUT_UPPER_TABLE   5
 *   BROKEN_FAULT_WITHOUT_VMA_LOCK                 5
 *   BROKEN_RETRACT_WITHOUT_PMD_LOCK               5
 */
#define INSTALLS
#define COLLAPSES
#define AT_ONCE
#include "hydra.pml"
#include "unmap.pml"
#include "retract.pml"

bool pmd_ptl;			/* the lock of the PMD entry */
byte next_leaf = T2;

inline pmd_lock()
{
	atomic { !pmd_ptl -> pmd_ptl = true }
}

inline pmd_unlock()
{
	pmd_ptl = false
}

inline set_solo(dom)
{
	d_step {
		words[new] = SOLO(dom);
		cpus_walk()
	}
}

/* __hydra_install(): of a new table. No domain's lock is held. */
inline hydra_install(dom)
{
	if
#ifdef BROKEN_NEW_TABLE_LINKED_WITHOUT_UPPER_TABLE
	/* Does not check that the domain has an upper table. */
	:: dom == 0 ->
#else
	:: dom == 0 && word_of_P && ht[0].table[dom] ->
#endif
		atomic {
			invariant(5, ht[0].table[dom]);
			joined = joined | BIT(dom)
		};
#ifdef BROKEN_NEW_TABLE_LINKED_BEFORE_WORD
		hydra_link(dom, new);
		set_solo(dom)
#else
		set_solo(dom);
		hydra_link(dom, new)
#endif
	:: else
	fi
}

/*
 * The old table's lock is free: a fill that waited for the old lock then reads the PMD
 * entry again, and drops the lock.
 */
inline pmd_populate()
{
	atomic {
		!ptl ->
		pmd = new;
		leaf = new;
		cpus_walk()
	}
}

/* __pte_alloc(). Leaves the table in new if another CPU was faster. */
inline pmd_install(dom)
{
#ifdef BROKEN_NEW_TABLE_LINKED_BEFORE_PMD_LOCK
	hydra_install(dom);
#endif
	pmd_lock();
	if
	:: !pmd ->
#ifdef BROKEN_NEW_TABLE_LINKED_AFTER_POPULATE
		pmd_populate();
		hydra_install(dom);
#else
#ifndef BROKEN_NEW_TABLE_LINKED_BEFORE_PMD_LOCK
		hydra_install(dom);
#endif
		pmd_populate();
#endif
		new = 0
	:: else
	fi;
	pmd_unlock()
}

/* handle_mm_fault() and the caller */
inline handle_fault(dom)
{
	if
	:: atomic { !pmd && next_leaf ->
		new = next_leaf;
		next_leaf = (next_leaf == T2 -> T3 : 0);
		hydras = hydras | BIT(new)
	   };
		pmd_install(dom);
		if
		:: atomic { new ->
			hydras = hydras & ~BIT(new);
			free_now(new);
			new = 0
		   }
		:: else
		fi
	:: else
	fi;
	pte_offset_map_lock();
	if
	:: locked ->
		if
		:: !present(pte[T]) -> set_pte_at(B_DIRTY)
		:: else
		fi;
		pte_unmap_unlock()
	:: else
	fi;
	/* hydra_fault_done(), __hydra_links() */
	atomic {
		done = (pmd && word == SOLO(dom));
		/* The fault would come again for ever. */
		invariant(2, !done || ptl || pmd_ptl || domain_lock[dom] || slot(dom) == T)
	};
	if
	:: !done ->
		hydra_domain_upper(dom);
		if
		:: locked -> fill_leaf(dom, false)
		:: else
		fi
	:: else
	fi;
	done = false
}

proctype fault(byte dom)
{
	KERNEL_VARIABLES;
	byte new;

#ifndef BROKEN_FAULT_WITHOUT_VMA_LOCK
	down_read(VMA);
#else
	read_locked[VMA]++;
#endif
	if
	:: pud -> handle_fault(dom)
	:: else
	fi;
	up_read(VMA)
}

proctype fault_atomic(byte cpu)
{
	KERNEL_VARIABLES;

	fill_leaf_atomic(cpu, false)
}

proctype retract(byte cpu)
{
	KERNEL_VARIABLES;

#ifndef BROKEN_RETRACT_WITHOUT_PMD_LOCK
	pmd_lock();
#endif
	if
	:: pmd -> retract_page_tables(cpu)
	:: else
	fi;
#ifndef BROKEN_RETRACT_WITHOUT_PMD_LOCK
	pmd_unlock()
#else
	skip
#endif
}

proctype unmap(byte cpu)
{
	KERNEL_VARIABLES;
	bool dirty;
	byte users, batch, noted;	/* hydra_gather::sharers */

	down_write(VMA);
	if
	:: pmd ->
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
		/* The gather is full. */
		tlb_flush_mmu_tlbonly();
		/* free_pgtables() */
		d_step {
			pmd = 0;
			dirty = true;
			cpus_walk()
		};
		free_table();
		if
		:: skip
		:: d_step {
			pud = false;
			cpus_walk()
		   };
		   free_upper_table()
		fi;
		/* tlb_finish_mmu() */
		tlb_flush_mmu_tlbonly();
		tlb_table_flush(T);
		tlb_table_flush(R);
		tlb_table_flush(U(0));
		tlb_table_flush(U(1));
		tlb_table_flush(P);
		flush_returned(0)
	:: else
	fi;
	up_write(VMA)
}

init
{
	atomic {
		if
		:: pte[T] = A_DIRTY;
			if
			:: boot(0)
			:: boot(3)
			fi
		:: boot(3)
		:: boot(0);
			pmd = 0;
			hydras = 0;
			cpus_walk();
			if
			:: skip
			:: ht[0].table[0] = 0;
				top[0] = false;
				psc[0] = 0;
				psc[1] = 0
			fi
		fi;
		run fault(0);
		run fault(1);
		run fault_atomic(1);
		if
		:: run retract(0)
		:: run unmap(0)
		:: run fault(0)
		fi
	}
}
