/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A collapse, up to the unlinking of a leaf table from the canonical tree and the flush:
 * mm/pgtable-generic.c with the hook collapse, mm/khugepaged.c. Included by scenarios,
 * after hydra.pml.
 */

/* __hydra_collapse_cut() */
inline collapse_cut()
{
	/* Wait for fills that saw the entry before the clear. */
	ipis = trees;
	if
	:: ipis & BIT(0) -> atomic { !domain_lock[0] -> invariant(5, domain_there & BIT(0)) }
	:: else
	fi;
	if
	:: ipis & BIT(1) -> atomic { !domain_lock[1] -> invariant(5, domain_there & BIT(1)) }
	:: else
	fi;
	ipis = 0;
	hydra_table_detach();
#ifdef BROKEN_LINK_OF_DEGRADED_DOMAIN_NOT_CUT
	/* Frees the table of a domain that uses the canonical root, and leaves the link. */
	if
	:: is_struct(t) && !(own_root & BIT(1)) && ht[t].table[1] && ht[t].table[1] != T ->
		call_rcu(ht[t].table[1]);
		ht[t].table[1] = 0
	:: else
	fi;
#endif
	hydra_table_release()
}

/* The CPU cannot walk any leaf table. */
#define no_way(cpu)	(!walks(cpu) || !(psc[cpu] & LEAVES))

/* pmdp_collapse_flush(), with the lock of the PMD entry */
inline pmdp_collapse_flush(cpu)
{
	/* hydra_collapse_begin() */
	atomic {
		joined = EVERYBODY;
#ifndef BROKEN_FLUSHES_FILTERED_DURING_COLLAPSE
#ifndef BROKEN_UNFILTERED_RAISED_AFTER_CLEAR
		unfiltered++
#endif
#endif
	};
	d_step {
		pmd = 0;
		cpus_walk()
	};
#ifdef BROKEN_UNFILTERED_RAISED_AFTER_CLEAR
	unfiltered++;
#endif
	collapse_cut();
#ifdef BROKEN_UNFILTERED_LOWERED_BEFORE_FLUSH
	unfiltered--;
	h = true;
	all = true;
#else
	look();
#endif
	flush_tlb_mm_range(cpu, true);
	invariant(6, no_way(0) && no_way(1) && no_way(2) && no_way(3));
#ifndef BROKEN_UNFILTERED_LOWERED_BEFORE_FLUSH
#ifndef BROKEN_FLUSHES_FILTERED_DURING_COLLAPSE
	unfiltered--
#else
	skip
#endif
#else
	skip
#endif
}

/* retract_page_tables(), end of collapse_pte_mapped_thp(): T is freed. */
inline retract_page_tables(cpu)
{
	reader_begin();
	atomic { !ptl -> ptl = true; locked = true };
	pmdp_collapse_flush(cpu);
	atomic {
		locked = false;
		ptl = false;
		reader_end()
	};
	call_rcu(T)		/* pte_free_defer() */
}
