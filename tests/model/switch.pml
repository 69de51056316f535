/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Changes of the root that CPUs load: mm/hydra/core.c, and hydra_switch_root() of
 * arch/x86/mm/tlb.c. Included by the scenarios that need it, after hydra.pml.
 *
 * The gap between the generations is more than the flushes in a scenario. The
 * roots are switched on one CPU after the other: what one CPU holds makes no
 * difference to another.
 *
 * The warning of flush_tlb_func() about a flush from the future is no assertion
 * here. A sender that is held up between two loads of __hydra_flush_start() while
 * the address space is switched and switched back can trip it, without harm.
 */

#ifdef BROKEN_NO_GAP
#define GENERATION_GAP	0
#else
#define GENERATION_GAP	16
#endif

#define max(a, b)	((a) > (b) -> (a) : (b))
#define highest_generation()	max(context_tlb_gen, max(tlb_gen[0], tlb_gen[1]))

/* On each CPU by interrupt. */
inline hydra_switch_root(cpu)
{
	atomic {
		!(irqs_off & BIT(cpu)) ->
		irqs_off = irqs_off | BIT(cpu);
#ifndef BROKEN_OLD_CONTEXTS_STAY
		if
		:: loaded_mm[cpu] != MM -> ctx[cpu] = false
		:: else
		fi;
#endif
		gen = hydra_tlb_gen(cpu)
	};
	d_step {
		if
		:: loaded_mm[cpu] == MM ->
			cr3[cpu] = hydra_pgd(cpu);
			tlb[cpu] = 0;
			psc[cpu] = 0;
			ctx_tlb_gen[cpu] = gen
		:: else
		fi;
		gen = 0;
		irqs_off = irqs_off & ~BIT(cpu);
		cpus_walk()
	}
}

inline hydra_switch_roots()
{
#ifndef BROKEN_ROOTS_STAY
	hydra_switch_root(0);
	hydra_switch_root(1);
	hydra_switch_root(2);
	hydra_switch_root(3)
#else
	skip
#endif
}

inline set_generations()
{
	gen = highest_generation() + GENERATION_GAP;
	tlb_gen[0] = gen;
	tlb_gen[1] = gen;
	gen = 0
}

inline hydra_activate()
{
#ifndef BROKEN_FILTERED_SWITCH
	unfiltered++;
#endif
#ifdef BROKEN_ACTIVE_FIRST
	hydra_active = true;
	set_generations();
#else
	set_generations();
	hydra_active = true;
#endif
	hydra_switch_roots();
#ifndef BROKEN_FILTERED_SWITCH
	unfiltered--
#else
	skip
#endif
}

/* release_tables(), from the leaf table up */
inline release_tables()
{
	pte_offset_map_lock();
	table_detach();
	if
	:: t ->
		table_cut_domain(0);
		table_cut_domain(1);
		if
		:: table > T -> call_rcu(table)
		:: else
		fi;
		call_rcu(HT(t))
	:: else
	fi;
	pte_unmap_unlock();
	mapping_of_P = false;
	release_upper(0);
	release_upper(1);
	call_rcu(HT(0))
}

inline release_upper(dom)
{
	lock_domain(dom);
	if
	:: ht[0].table[dom] ->
		d_step {
			top[dom] = false;
			cpus_walk()
		};
		ht[0].table[dom] = 0;
		call_rcu(U(dom))
	:: else
	fi;
	unlock_domain(dom)
}

inline hydra_deactivate()
{
#ifndef BROKEN_FILTERED_SWITCH
	unfiltered++;
#endif
#ifdef BROKEN_ACTIVE_FIRST
	hydra_active = false;
	context_tlb_gen = highest_generation() + GENERATION_GAP;
#else
	context_tlb_gen = highest_generation() + GENERATION_GAP;
	hydra_active = false;
#endif
#ifdef BROKEN_TAKEN_DOWN_FIRST
	down_write(VMA);
	release_tables();
	hydra_switch_roots();
#else
	hydra_switch_roots();
#ifndef BROKEN_FAULTS_GO_ON
	down_write(VMA);	/* hydra_lock_out_faults() */
#endif
	release_tables();
#endif
	up_write(VMA);
#ifndef BROKEN_FILTERED_SWITCH
	unfiltered--
#else
	skip
#endif
}

inline hydra_degrade(dom)
{
#ifdef BROKEN_DEGRADED_FIRST
	degraded[dom] = true;
	universal = universal | BIT(dom);
#else
#ifndef BROKEN_DEGRADED_QUIETLY
	universal = universal | BIT(dom);
#endif
	degraded[dom] = true;
#endif
	hydra_switch_root(2 * (dom));
	hydra_switch_root(2 * (dom) + 1)
}

proctype hydra_set(byte times)
{
	KERNEL_VARIABLES;

	do
	:: atomic { times && hydra_active -> times-- };
		hydra_deactivate()
	:: atomic { times && !hydra_active -> times-- };
		hydra_activate()
	:: atomic { !times -> break }
	od
}

proctype faults(byte cpu)
{
	KERNEL_VARIABLES;

	if
	:: down_read(VMA);
		hydra_domain_upper(DOMAIN(cpu));
		if
		:: locked -> fill_leaf(DOMAIN(cpu), false)
		:: else
		fi;
		up_read(VMA)
	:: fill_leaf_atomic(cpu, false)
	fi
}

/* Another flush at the same time, of everything. */
proctype flusher(byte cpu)
{
	KERNEL_VARIABLES;

	targets = EVERYBODY;
	flush_tlb_mm_targets(cpu, false)
}

/*
 * A gather that no lock keeps from spanning a switch, as truncation has one. It
 * frees no tables. hydra_tlb_flush() leaves the flush to Linux if the address
 * space is not active; but it may be by the time Linux asks whom for.
 */
proctype truncation(byte n, cpu)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	change_entry(n);
	pte_unmap_unlock();
	if
	:: hydra_active -> gather_targets(0)
	:: else ->
		reader_begin();
		range_targets();
		reader_end()
	fi;
	flush_tlb_mm_targets(cpu, false);
	flush_returned(n)
}
