/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How domains get trees and lose trees: split.c, and switch_root() of roots.c. Included by
 * scenarios, after hydra.pml, which has the switch of a CPU to the address space
 * (hydra_switching).
 *
 * mmap_lock: one process at a time splits the address space, promotes domains, or takes
 * the trees down, and no munmap() runs meanwhile. The gap between the generations is more
 * than the number of flushes in a scenario.
 */

#ifdef BROKEN_GENERATION_SET_WITHOUT_GAP
#define GENERATION_GAP	0
#else
#define GENERATION_GAP	16
#endif

#define max(a, b)		((a) > (b) -> (a) : (b))
#define next_generation()	\
	(max(context_tlb_gen, max(tlb_gen[0], tlb_gen[1])) + GENERATION_GAP)

#ifdef PARTS
/* The trees go in parts: hydra_mm::returning */
bool returning;
#endif
#ifdef PARTS
#ifndef BROKEN_PROMOTED_WHILE_TREES_GO
#define may_promote	(!returning)	/* hydra_lacks_tree() */
#endif
#endif
#ifndef may_promote
#define may_promote	true
#endif

/* Interrupt a CPU, which may have left the address space meanwhile: hydra_load_root(). */
inline switch_root(cpu)
{
	if
	:: (targets & BIT(cpu)) && loaded_mm[cpu] == MM ->
		cr3[cpu] = hydra_pgd(cpu);
		tlb[cpu] = 0;
		psc[cpu] = 0;
		ctx_tlb_gen[cpu] = hydra_tlb_gen(cpu)
	:: else
	fi
}

/* The CPUs which have the address space loaded, and no others. The root has changed. */
inline hydra_switch_roots(raised_gen, cpus)
{
#ifndef BROKEN_NO_GENERATION_AFTER_ROOT
	raised_gen++;
#endif
#ifndef BROKEN_ROOTS_NOT_SWITCHED
	targets = mm_cpumask & (cpus);
	atomic {
		!(irqs_off & targets) ->
		d_step {
			switch_root(0);
			switch_root(1);
			switch_root(2);
			switch_root(3);
			targets = 0;
			cpus_walk()
		}
	}
#else
	skip
#endif
}

inline hydra_activate()
{
#ifndef BROKEN_FLUSHES_FILTERED_DURING_SPLIT
	unfiltered++;
#endif
	/* Domains that had a tree before. */
	d_step {
		gen = next_generation();
		universal = universal | domain_there;
		own_root = 0;
		tlb_gen[0] = (domain_there & BIT(0) -> gen : tlb_gen[0]);
		tlb_gen[1] = (domain_there & BIT(1) -> gen : tlb_gen[1]);
		gen = 0
	};
#ifndef BROKEN_LAST_WRITTEN_LATE
	last = HYDRA_LAST_SPLIT;
#endif
	hydra_active = true;
	d_step {
#ifndef BROKEN_RUNNING_DOMAINS_NOT_UNIVERSAL
		universal = universal | running();
#endif
		cpus_walk()
	};
#ifdef BROKEN_LAST_WRITTEN_LATE
	last = HYDRA_LAST_SPLIT;
#endif
#ifndef BROKEN_FLUSHES_FILTERED_DURING_SPLIT
	unfiltered--
#else
	skip
#endif
}

inline promote(dom)
{
	if
	:: may_promote && !(trees & BIT(dom)) ->
#ifdef BROKEN_TREE_ANNOUNCED_BEFORE_DOMAIN
		/* Before the struct hydra_domain exists. */
		trees = trees | BIT(dom);
#endif
		tlb_gen[dom] = next_generation();
		/*
		 * Raise the generation before d becomes universal, as __hydra_switching()
		 * does: the first CPU of d may be about to read d in universal.
		 */
#ifndef BROKEN_PROMOTION_RAISES_NO_GENERATION
		context_tlb_gen++;
#endif
#ifndef BROKEN_PROMOTED_DOMAIN_NOT_UNIVERSAL
		universal = universal | BIT(dom);
#endif
		domain_there = domain_there | BIT(dom);
		/* Code that cuts links visits the domains in trees. */
		trees = trees | BIT(dom);
		own_root = own_root | BIT(dom);
#ifdef BROKEN_PROMOTED_BEFORE_ROOTS_SWITCHED
		universal = universal & ~BIT(dom);
#endif
		hydra_switch_roots(tlb_gen[dom], own_cpus(dom));
		promoted(dom)
#ifdef DEGRADES
	/* A degraded domain uses its tree again: hydra_lacks_tree() finds the pause over. */
	:: may_promote && (trees & ~own_root & BIT(dom)) ->
		own_root = own_root | BIT(dom);
#ifndef BROKEN_TREE_USED_AGAIN_BEFORE_SWITCH
		hydra_switch_roots(tlb_gen[dom], own_cpus(dom));
#endif
		promoted(dom)
#endif
	:: else
	fi
}

/* The end of promote(): flushes may spare the domain, unless it was degraded meanwhile. */
inline promoted(dom)
{
	lock_domain(dom);
	if
#ifdef BROKEN_PROMOTION_IGNORES_DEGRADED_DOMAIN
	:: true ->
#else
	:: own_root & BIT(dom) ->
#endif
		d_step {
			universal = universal & ~BIT(dom);
			cpus_walk()
		}
	:: else
	fi;
	unlock_domain(dom)
}

/* release_tables(), from the leaf table up. If the trees go in parts, no leaf table has a domain. */
inline release_tables()
{
#ifdef PARTS
	invariant(3, word == 0);
#else
	pte_offset_map_lock();
	/* The link to a table that the domain uses alone is freed with U. */
	hydra_table_detach();
	if
	:: is_struct(t) -> hydra_table_release()
	:: else -> t = 0
	fi;
	pte_unmap_unlock();
#endif
	word_of_P = false;
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
	unfiltered++;
#ifdef BROKEN_INACTIVE_BEFORE_GENERATION
	hydra_active = false;
	context_tlb_gen = next_generation();
#else
	gen = next_generation();
	context_tlb_gen = gen;
	gen = 0;
	hydra_active = false;
#endif
#ifdef BROKEN_TREES_TAKEN_DOWN_BEFORE_SWITCH
	down_write(VMA);
	if
	:: word_of_P -> release_tables()
	:: else
	fi;
#endif
#ifdef BROKEN_LODGING_DOMAIN_NOT_SWITCHED
	ipis = trees;
#else
	ipis = trees | universal;
#endif
	if
	:: ipis & BIT(0) -> hydra_switch_roots(context_tlb_gen, own_cpus(0))
	:: else
	fi;
	if
	:: ipis & BIT(1) -> hydra_switch_roots(context_tlb_gen, own_cpus(1))
	:: else
	fi;
	ipis = 0;
#ifndef BROKEN_TREES_TAKEN_DOWN_BEFORE_SWITCH
#ifndef BROKEN_FAULTS_NOT_LOCKED_OUT
	down_write(VMA);	/* hydra_lock_out_faults() */
#endif
	if
	:: word_of_P -> release_tables()
	:: else
	fi;
#endif
	d_step {
		own_root = 0;
		trees = 0
	};
	universal = 0;
	unfiltered--;
	d_step {
		last = 0;
		up_write(VMA)
	}
}

/* On the way to user mode, in a domain: hydra_split(). */
inline hydra_split()
{
#ifdef SPLITS
	if
	:: !hydra_active -> hydra_activate()
	:: else
	fi;
#endif
	ipis = running();
	if
	:: ipis & BIT(0) -> promote(0)
	:: else
	fi;
	if
	:: ipis & BIT(1) -> promote(1)
	:: else
	fi;
	ipis = 0
}

inline hydra_degrade(dom)
{
	lock_domain(dom);
#ifdef BROKEN_DEGRADED_BEFORE_UNIVERSAL
	own_root = own_root & ~BIT(dom);
	universal = universal | BIT(dom);
#else
#ifndef BROKEN_DEGRADED_DOMAIN_NOT_UNIVERSAL
	universal = universal | BIT(dom);
#endif
	own_root = own_root & ~BIT(dom);
#endif
	unlock_domain(dom);
	hydra_switch_roots(tlb_gen[dom], own_cpus(dom))
}

/* A thread in a domain returns to user mode: __hydra_resume_user_mode(). */
proctype resume(byte dom)
{
	KERNEL_VARIABLES;

	atomic { mm_cpumask & own_cpus(dom) -> skip };
	hydra_split()
}

/* A process gets trees, and loses them: one domain alone runs it, or they do not pay. */
proctype split_and_return()
{
	KERNEL_VARIABLES;

	hydra_split();
	hydra_deactivate()
}

/* The process switches Hydra off, and maybe on again. */
proctype hydra_set(bool again)
{
	KERNEL_VARIABLES;

	hydra_deactivate();
	if
	:: again -> hydra_split()
	:: else
	fi
}

/* A page fault of a domain that has a tree: hydra_fill() of fill.c */
proctype faults(byte cpu; bool degrades)
{
	KERNEL_VARIABLES;

	if
	:: down_read(VMA);
		if
		:: hydra_active && (domain_there & own_root & BIT(DOMAIN(cpu))) ->
			if
#ifdef DEGRADES
			:: degrades -> hydra_degrade(DOMAIN(cpu))
#endif
			:: hydra_domain_upper(DOMAIN(cpu));
				if
				:: locked -> fill_leaf(DOMAIN(cpu), false)
				:: else
				fi
			fi
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

	flush_begins();
	all = true;
	flush_tlb_mm_range(cpu, false)
}

/*
 * A gather that holds no lock against a switch of roots, as in truncation. The gather
 * frees no tables.
 */
proctype truncation(byte n, cpu)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	change_entry(n);
	pte_unmap_unlock();
	tlb_flush(cpu, 0, false);
	flush_returned(n)
}

/* The address space has returned. The trees were those of both domains, and have gone. */
inline had_trees()
{
	domain_there = EVERYBODY
}

/* A CPU has left the address space, and has kept the context. */
#define left(cpu)	leave_mm(cpu)

/* The tree of domain 1 is empty. */
inline domain_1_is_new()
{
	d_step {
		ht[0].table[1] = 0;
		top[1] = false;
		psc[2] = 0;
		psc[3] = 0
	}
}

/* Domain 1 has left, after running the address space before the split. */
inline domain_1_left()
{
	d_step {
		left(2);
		left(3);
		universal = universal & ~BIT(1)
	}
}
