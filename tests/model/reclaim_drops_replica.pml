/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shrinker frees a replica: hydra_drop_replicas() of reclaim.c. The domain leaves the
 * sharers of a table that stays. Meanwhile a CPU has changed an entry and not flushed
 * yet, the domain faults again, and a CPU of the domain comes and goes.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_SHARER_LEAVES_BEFORE_FLUSH   3
 *   BROKEN_RECLAIM_WITHOUT_FLUSH        5
 *   BROKEN_RECLAIM_SPARES_LAZY_CPUS     5
 */
#define PLAIN_STORES
#include "hydra.pml"

/* hydra_drop_replicas(), with the lock of T, as in hydra_reclaim_table() */
inline drop_replicas(cpu)
{
	t = word;
	if
	:: is_struct(t) && ht[t].table[1] > T ->
#ifdef BROKEN_SHARER_LEAVES_BEFORE_FLUSH
		ht[t].sharers = ht[t].sharers & ~BIT(1);
#endif
		hydra_table_cut_domain(1);
		dropped = table;
#ifndef BROKEN_RECLAIM_WITHOUT_FLUSH
		/* hydra_flush_domains() */
		h = hydra_active;
		targets = BIT(1);
#ifdef BROKEN_RECLAIM_SPARES_LAZY_CPUS
		flush_tlb_mm_range(cpu, false);
#else
		flush_tlb_mm_range(cpu, true);
#endif
#endif
		call_rcu(dropped);
		dropped = 0;
#ifndef BROKEN_SHARER_LEAVES_BEFORE_FLUSH
		ht[t].sharers = ht[t].sharers & ~BIT(1)
#else
		skip
#endif
	:: else
	fi
}

proctype reclaim(byte cpu)
{
	KERNEL_VARIABLES;
	byte dropped;

	pte_offset_map_lock();
	drop_replicas(cpu);
	pte_unmap_unlock()
}

proctype faults(byte dom, times)
{
	KERNEL_VARIABLES;

	do
	:: atomic { times -> times-- };
		fill_leaf(dom, false)
	:: else -> break
	od
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(2)
		:: boot(3)
		fi;
		run reclaim(0);
		run changer(0, 2);
		run faults(1, 2);
		run scheduler(3, 2)
	}
}
