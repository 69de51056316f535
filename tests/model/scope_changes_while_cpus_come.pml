/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scope of the domains changes, from nodes to cores or back: hydra_settings_set() takes the
 * trees down, waits for a grace period, chooses the scope, and splits the address space again.
 * The two scopes number the same CPUs in different ways. Meanwhile CPU 3 comes to the address
 * space, and another CPU changes the entry and flushes by table. Or two CPUs flush by entry
 * (marks.c), and CPU 3 runs the address space all the time. A CPU faults. The new scope may have
 * a domain that never gets a tree.
 *
 * Each flush is that of a gather: preemptible until it publishes, or until it has its targets.
 * So its targets may be numbers of the scope before. Any other flush has preemption disabled
 * from its first look at hydra_active on, and so can do less.
 *
 * Atomic fills are left out. An atomic fill has interrupts off, and its domain has a tree. So
 * hydra_switch_roots() waits for it, before the scope changes.
 *
 * It stands alone: hydra.pml has one scope. The invariants have the numbers of that file.
 * There is one leaf table. A domain that is a sharer has a copy, which changes with the
 * canonical entry in one step. A value of the entry is a version. Each CPU caches whatever it
 * can at every step, and forgets when it is told. There are no lazy CPUs, and no tables above.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_NO_GRACE_PERIOD                      6 or 11
 *   BROKEN_UNIVERSAL_NOT_ZEROED                 11
 *   BROKEN_PUBLISHED_FOR_ONE_SCOPE               6
 *   BROKEN_SCOPE_CHANGED_BEFORE_TREES_GO         5 or 6 or 11
 *   BROKEN_FAULTS_NOT_LOCKED_OUT                5
 */
#define invariant(n, holds)	assert((n) && (holds))

#define BIT(n)		(1 << (n))

/* The scopes: the domains {0, 1} and {2, 3}; or each CPU for itself. */
#define NODES		1
#define CORES		2
#define nr_of(k)	((k) == NODES -> 2 : 4)
#define all_of(k)	((k) == NODES -> 3 : 15)
#define hydra_domain_of_cpu(k, cpu)	((k) == NODES -> (cpu) >> 1 : (cpu))
/* struct hydra_domains: a number that the scope does not have has no CPUs. */
#define cpus_of(k, d)	\
	((k) == CORES -> BIT(d) : ((d) == 0 -> 3 : ((d) == 1 -> 12 : 0)))
#define cpus_of_all(k, mask)	\
	(((mask) & 1 -> cpus_of(k, 0) : 0) | ((mask) & 2 -> cpus_of(k, 1) : 0) | \
	 ((mask) & 4 -> cpus_of(k, 2) : 0) | ((mask) & 8 -> cpus_of(k, 3) : 0))
#define domains_of(k, cpus)	\
	(((cpus) & 1 -> BIT(hydra_domain_of_cpu(k, 0)) : 0) | \
	 ((cpus) & 2 -> BIT(hydra_domain_of_cpu(k, 1)) : 0) | \
	 ((cpus) & 4 -> BIT(hydra_domain_of_cpu(k, 2)) : 0) | \
	 ((cpus) & 8 -> BIT(hydra_domain_of_cpu(k, 3)) : 0))

/* struct hydra_mm */
byte scope;
bool hydra_active = true;
byte unfiltered;
byte trees;
byte universal;
byte refused;
byte there;			/* the domains that are not NULL */
byte own_root;			/* of these, those whose root is their own pgd */
byte tlb_gen[4];

/* struct mm_struct */
byte context_tlb_gen = 1;
byte mm_cpumask;
byte vma_read_locked;
bool vma_write_locked;

/* Of the scope that the address space gets: a domain that has no tree. */
byte overflow;

/*
 * The leaf table; its struct hydra_table, for so many domains, if that is not 0. What is done
 * under the table's lock is one step.
 */
byte version;
byte hydra_table;
byte sharers;
byte copies;			/* the sharers that have a copy by now */
byte marked;			/* of these copies, HYDRA_PTE_MARKED */

/* Is the filter "entry"? struct hydra_published of two CPUs */
bool by_entry;
bool published[2];
byte covers[2];

/* Per CPU. */
#define OUT			0
#define MM			1
#define LOADED_MM_SWITCHING	2
#define CANON			4		/* else root is the number of a domain */
byte loaded_mm[4];
byte root[4] = CANON;
byte ctx_tlb_gen[4];				/* 0: no context */
byte tlb[4];					/* a set of versions */
byte irqs_off;

/* Preemption or interrupts off: processes by number; those a grace period waits for. */
byte readers;
byte waits_for;

/* For assertions: versions that no CPU may use any more. */
byte forbidden;
#define OLDER(v)	(BIT(v) - 1)

/* Scratch inside a step. */
hidden byte c_;
hidden byte d_;
hidden byte gen_;
hidden byte new_;

/* ------------------------------------------------------------- hardware */

#define uses(c)		(loaded_mm[c] == MM && !(irqs_off & BIT(c)))

inline cpus_walk()
{
	c_ = 0;
	do
	:: c_ < 4 ->
		if
		:: loaded_mm[c_] == OUT -> skip
		:: loaded_mm[c_] != OUT && (root[c_] == CANON || (copies & BIT(root[c_]))) ->
			tlb[c_] = tlb[c_] | BIT(version)
		:: else
		fi;
		invariant(6, !uses(c_) || !(tlb[c_] & forbidden));
		c_++
	:: else -> break
	od;
	c_ = 0
}

/* ----------------------------------------------------- locks and RCU */

inline down_read()
{
	atomic { !vma_write_locked -> vma_read_locked++ }
}

inline up_read()
{
	vma_read_locked--
}

/* Interrupts or preemption off */
inline reader_begin()
{
	readers = readers | BIT(_pid)
}

inline reader_end()
{
	readers = readers & ~BIT(_pid);
	waits_for = waits_for & ~BIT(_pid)
}

inline synchronize_rcu()
{
	waits_for = readers;
	waits_for == 0
}

/* ---------------------------------------------------------------- tlb.c */

#define has_domain(d)	(hydra_active && (there & BIT(d)))
#define hydra_tlb_gen(d)	(has_domain(d) -> tlb_gen[d] : context_tlb_gen)
#define hydra_pgd(d)	(has_domain(d) && (own_root & BIT(d)) -> (d) : CANON)

#define KERNEL_VARIABLES \
	byte targets, more, ipis, info_gen, gen[4]; \
	bool all, several, done

/* Raises the generation of each domain in a mask that has one. Else it is gen_. */
inline raise_generations(mask)
{
	d_ = 0;
	do
	:: d_ < 4 ->
		if
		:: (mask) & there & BIT(d_) ->
			tlb_gen[d_] = tlb_gen[d_] + 1;
			gen[d_] = tlb_gen[d_]
		:: (mask) & ~there & BIT(d_) -> gen[d_] = gen_
		:: else
		fi;
		d_++
	:: else -> break
	od;
	d_ = 0
}

/* Leaves in done whether the address space is still active. */
inline raise_targets()
{
	d_step {
		context_tlb_gen = context_tlb_gen + (targets & ~there -> 1 : 0);
		gen_ = context_tlb_gen;
		raise_generations(targets);
		/* That of the last target, or of the only one */
		info_gen = (targets & 8 -> gen[3] : (targets & 4 -> gen[2] :
			    (targets & 2 -> gen[1] : (targets & 1 -> gen[0] : info_gen))));
		several = (targets & (targets - 1)) != 0;
		gen_ = 0
	};
	done = hydra_active;
	if
	:: done ->
		more = (universal | (all -> trees : 0)) & ~targets;
		if
		:: all || more ->
			d_step {
				context_tlb_gen++;
				gen_ = context_tlb_gen;
				info_gen = gen_;
				raise_generations(more);
				targets = targets | more;
				several = true;
				gen_ = 0
			}
		:: else
		fi;
		more = 0
	:: else
	fi
}

inline raise_inactive()
{
	d_step {
		context_tlb_gen++;
		info_gen = context_tlb_gen;
		several = false
	};
	done = !hydra_active;
	if
	:: done && unfiltered ->
		d_step {
			context_tlb_gen++;
			info_gen = context_tlb_gen
		}
	:: else
	fi
}

/* hydra_flush_func(), flush_tlb_func(): on the CPU that is interrupted */
inline flush_tlb_func(c)
{
	d_ = hydra_domain_of_cpu(scope, c);
	gen_ = hydra_tlb_gen(d_);
	new_ = (several && (targets & BIT(d_)) -> gen[d_] : info_gen);
	if
	:: loaded_mm[c] == MM && new_ > ctx_tlb_gen[c] && ctx_tlb_gen[c] != gen_ ->
		tlb[c] = 0;
		root[c] = hydra_pgd(d_);	/* hydra_catch_up() */
		ctx_tlb_gen[c] = gen_
	:: else
	fi;
	d_ = 0;
	gen_ = 0;
	new_ = 0
}

inline interrupt(c)
{
	if
	:: ipis & BIT(c) -> flush_tlb_func(c)
	:: else
	fi
}

/* Preemption is off. */
inline hydra_flush_targets()
{
	do
	:: done -> break
	:: !done ->
		if
		:: hydra_active -> raise_targets()
		:: else
		fi;
		if
		:: !done -> all = true; raise_inactive()
		:: else
		fi
	od;
	ipis = mm_cpumask & (all -> 15 : cpus_of_all(scope, targets));
	atomic {
		!(ipis & irqs_off) ->
		d_step {
			interrupt(0);
			interrupt(1);
			interrupt(2);
			interrupt(3);
			ipis = 0;
			cpus_walk()
		}
	}
}

/* -------------------------------------------------- flush.c, marks.c */

inline hydra_publish(n)
{
	reader_begin();
	atomic {
		published[n] = true;
#ifdef BROKEN_PUBLISHED_FOR_ONE_SCOPE
		covers[n] = all_of(scope)
#else
		covers[n] = 15
#endif
	}
}

/* hydra_add_marked(), which takes the marks of the sharers */
inline hydra_add_marked()
{
	d_step {
		targets = sharers & (marked | ~copies);
		marked = marked & ~sharers
	}
}

/* more: the sharers by table */
inline hydra_look_at_marks(n)
{
	more = targets;
	if
	:: by_entry && more ->
		hydra_publish(n);
		hydra_add_marked();
		covers[n] = targets;
		targets = targets | (published[1 - (n)] -> covers[1 - (n)] & more : 0)
	:: else
	fi;
	more = 0
}

/* From the first look at hydra_active to where the targets are known */
inline look(n)
{
	all = !hydra_active;
	if
	:: !all -> all = (unfiltered != 0)
	:: else
	fi;
	if
	:: !all ->
		targets = sharers;
		hydra_look_at_marks(n);
		all = (unfiltered != 0)
	:: else
	fi
}

/* Changes the entry, and flushes. The other gather need not have changed it. */
proctype changer(byte n)
{
	KERNEL_VARIABLES;
	byte seen;

	d_step {
		if
		:: n || !by_entry ->
			version++;
			marked = marked | copies
		:: else
		fi;
		seen = version;
		cpus_walk()
	};
	look(n);
	reader_begin();
	if
	:: !by_entry -> hydra_flush_targets()
	:: by_entry -> atomic { hydra_flush_targets() }
	fi;
	d_step {
		published[n] = false;
		covers[n] = 0;
		forbidden = forbidden | OLDER(seen);
		reader_end();
		/* Afterwards, for fewer states */
		targets = 0;
		info_gen = 0;
		gen[0] = 0;
		gen[1] = 0;
		gen[2] = 0;
		gen[3] = 0;
		all = false;
		several = false;
		done = false;
		seen = 0;
		cpus_walk()
	}
}

/* ---------------------------------------------------- split.c, roots.c */

#define GENERATION_GAP	16
#define max(a, b)	((a) > (b) -> (a) : (b))
#define next_generation()	\
	(max(max(context_tlb_gen, max(tlb_gen[0], tlb_gen[1])), \
	     max(tlb_gen[2], tlb_gen[3])) + GENERATION_GAP)

/* On a CPU that is interrupted */
inline hydra_load_root(c)
{
	d_ = hydra_domain_of_cpu(scope, c);
	if
	:: loaded_mm[c] == MM ->
		tlb[c] = 0;
		root[c] = hydra_pgd(d_);
		ctx_tlb_gen[c] = hydra_tlb_gen(d_)
	:: else
	fi;
	d_ = 0
}

inline switch_root(c)
{
	if
	:: ipis & BIT(c) -> hydra_load_root(c)
	:: else
	fi
}

/*
 * The CPUs of some domains which have the address space loaded, and no others. The caller has
 * raised the generation after it changed the root.
 */
inline hydra_switch_roots(mask)
{
	ipis = mm_cpumask & cpus_of_all(scope, mask);
	atomic {
		!(ipis & irqs_off) ->
		d_step {
			switch_root(0);
			switch_root(1);
			switch_root(2);
			switch_root(3);
			ipis = 0;
			cpus_walk()
		}
	}
}

inline hydra_activate()
{
	d_step {
		unfiltered++;
		gen_ = next_generation();
		refused = overflow;
		universal = universal | (there & all_of(scope));
		own_root = own_root & ~all_of(scope);
		d_ = 0;
		do
		:: d_ < nr_of(scope) ->
			tlb_gen[d_] = (there & BIT(d_) -> gen_ : tlb_gen[d_]);
			d_++
		:: else -> break
		od;
		d_ = 0;
		gen_ = 0
	};
	hydra_active = true;
	universal = universal | domains_of(scope, mm_cpumask);
	d_step {
		unfiltered--;
		run_mask = domains_of(scope, mm_cpumask)
	}
}

inline promote(d)
{
	if
	:: atomic {
		(run_mask & BIT(d)) && !(refused & BIT(d)) ->
		tlb_gen[d] = next_generation();
		context_tlb_gen++;
		universal = universal | BIT(d);
		there = there | BIT(d);
		trees = trees | BIT(d);
		own_root = own_root | BIT(d)
	   };
		tlb_gen[d] = tlb_gen[d] + 1;
		hydra_switch_roots(BIT(d));
		d_step {
			universal = universal & ~BIT(d);
			cpus_walk()
		}
	:: else
	fi
}

inline hydra_deactivate()
{
	d_step {
		unfiltered++;
		context_tlb_gen = next_generation()
	};
	hydra_active = false;
	d_step {
		run_mask = trees | universal;
		invariant(11, !(run_mask & ~all_of(scope)));
		context_tlb_gen++
	};
	hydra_switch_roots(run_mask);
	/* hydra_lock_out_faults(), hydra_release_tables() */
	atomic {
#ifndef BROKEN_FAULTS_NOT_LOCKED_OUT
		!vma_read_locked ->
#endif
		vma_write_locked = true;
		invariant(5, root[0] == CANON && root[1] == CANON && root[2] == CANON &&
			     root[3] == CANON);
		hydra_table = 0;
		sharers = 0;
		copies = 0;
		marked = 0;
		own_root = 0;
		trees = 0;
		run_mask = 0
	};
	d_step {
		universal = 0;
		unfiltered--
	}
}

inline hydra_set_scope(new)
{
#ifndef BROKEN_NO_GRACE_PERIOD
	synchronize_rcu();
#endif
#ifndef BROKEN_UNIVERSAL_NOT_ZEROED
	universal = 0;
#endif
	scope = new
}

/* hydra_settings_set(), with mmap_lock held */
proctype settings(byte new)
{
	byte run_mask, ipis;

#ifdef BROKEN_SCOPE_CHANGED_BEFORE_TREES_GO
	hydra_set_scope(new);
	hydra_deactivate();
#else
	hydra_deactivate();
	hydra_set_scope(new);
#endif
	/* hydra_split_locked() */
	hydra_activate();
	promote(0);
	promote(1);
	promote(2);
	promote(3);
	run_mask = 0;
	vma_write_locked = false
}

/* A CPU comes to the address space: switch_mm_irqs_off(), __hydra_switching(), hydra_lodge(). */
proctype switches(byte cpu)
{
	byte d, next_tlb_gen, next_pgd;
	bool h;

	atomic {
		irqs_off = irqs_off | BIT(cpu);
		reader_begin();
		loaded_mm[cpu] = LOADED_MM_SWITCHING;
		root[cpu] = CANON;
		mm_cpumask = mm_cpumask | BIT(cpu)
	};
	h = hydra_active;
	if
	:: h ->
		d = hydra_domain_of_cpu(scope, cpu);
		if
		:: !(there & BIT(d)) && !(universal & BIT(d)) ->
			context_tlb_gen++;
			universal = universal | BIT(d)
		:: else
		fi;
		h = (there & BIT(d)) != 0
	:: else
	fi;
	next_tlb_gen = (h -> tlb_gen[d] : context_tlb_gen);
	next_pgd = (h && (own_root & BIT(d)) -> d : CANON);
	d_step {
		if
		:: ctx_tlb_gen[cpu] < next_tlb_gen ->
			tlb[cpu] = 0;
			ctx_tlb_gen[cpu] = next_tlb_gen
		:: else
		fi;
		root[cpu] = next_pgd;
		loaded_mm[cpu] = MM;
		irqs_off = irqs_off & ~BIT(cpu);
		reader_end();
		h = false;
		d = 0;
		next_tlb_gen = 0;
		next_pgd = 0;
		cpus_walk()
	}
}

/* ---------------------------------------------------------------- fill.c */

#define hydra_uses_canonical(d)	(!(there & own_root & BIT(d)))

/* hydra_fill_leaf(), hydra_join() */
inline hydra_join()
{
	invariant(5, d < hydra_table);
	sharers = sharers | BIT(d);
	copies = copies | BIT(d);
	cpus_walk()
}

/* __hydra_fault_done() */
proctype faults(byte cpu)
{
	byte d;
	bool h;

	down_read();
	h = hydra_active;
	d = hydra_domain_of_cpu(scope, cpu);
	h = h && !hydra_uses_canonical(d);
	d_step {
		if
		:: h && hydra_active ->
			hydra_table = (hydra_table -> hydra_table : nr_of(scope));
			hydra_join()
		:: else
		fi;
		h = false;
		d = 0
	};
	up_read()
}

/* A CPU runs the address space, or (comes) has run it. */
inline boot_cpu(c, runs)
{
	d_ = hydra_domain_of_cpu(scope, c);
	ctx_tlb_gen[c] = hydra_tlb_gen(d_);
	loaded_mm[c] = (runs -> MM : OUT);
	root[c] = (runs -> hydra_pgd(d_) : CANON);
	tlb[c] = BIT(version);
	mm_cpumask = mm_cpumask | (runs -> BIT(c) : 0);
	d_ = 0
}

/* The domains of some CPUs have trees, and copies. */
inline boot(k, cpus, runs_3)
{
	d_step {
		scope = k;
		trees = domains_of(k, cpus);
		there = trees;
		own_root = trees;
		tlb_gen[0] = (trees & 1 -> 17 : 0);
		tlb_gen[1] = (trees & 2 -> 17 : 0);
		tlb_gen[2] = (trees & 4 -> 17 : 0);
		tlb_gen[3] = (trees & 8 -> 17 : 0);
		hydra_table = nr_of(k);
		sharers = trees;
		copies = trees;
		boot_cpu(0, true);
		boot_cpu(1, true);
		boot_cpu(3, runs_3);
		cpus_walk()
	}
}

init
{
	atomic {
		if
		:: if
		   :: boot(CORES, 11, false); overflow = 2; run faults(3)
		   :: boot(NODES, 3, false); overflow = 8; run faults(1)
		   :: boot(NODES, 11, false); run faults(3)
		   :: boot(CORES, 3, false); run faults(1)
		   fi;
			run switches(3)
		:: by_entry = true;
			if
			:: boot(NODES, 11, true)
			:: boot(CORES, 11, true)
			fi;
			run faults(3);
			run changer(1)
		fi;
		run changer(0);
		run settings(NODES + CORES - scope)
	};
	/* At the next hydra_deactivate() */
	_nr_pr == 1 -> invariant(11, !(universal & ~all_of(scope)))
}
