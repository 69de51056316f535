/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The mechanism of Hydra, function by function, for Spin. The scenarios beside
 * hydra.pml include the mechanism and add processes; README.md says how to run a
 * scenario. The names are the kernel's; where a function is static in one file of
 * the kernel, the model omits the prefix hydra_. Read the model beside the C code:
 *
 * here                                 in the kernel
 * -----------------------------------  --------------------------------------
 * changed_table, update_copy,          propagate.c
 *   entries_set, entry_clearing
 * fill_leaf, fill_leaf_atomic, join,   fill.c
 *   domain_leaf, mark_used, copy_entry
 * hydra_range_targets,                 sharers.c
 *   hydra_gather_targets,
 *   add_sharers_of
 * hydra_domain_upper, hydra_link       table.c
 * hydra_table_detach, hydra_cut_solo,  unlink.c
 *   hydra_table_cut, ..._cut_domain
 * hydra_derive                         entry.h
 * hydra_pgd, hydra_tlb_gen             arch/x86/include/asm/hydra.h
 * hydra_takes_flush,                   include/linux/hydra.h
 *   hydra_flush_missed,
 *   hydra_splits_or_returns
 * raise_targets, raise_generation,     tlb.c
 *   hydra_flush_targets
 * flush_tlb_mm_range, flush_tlb_func,  arch/x86/mm/tlb.c with the hook tlb
 *   switch_mm_*, load_mm,
 *   enter_lazy_tlb
 * set_pte_at, ptep_get_and_clear       the accessors, with the hook entry-accessors
 *
 * The machine: two domains of two CPUs each. One leaf table T, on the home of
 * domain 0; domain 0 links T. Domain 1 has a replica: R, and after R has been
 * freed, R2 (no page is used twice, so a use after free is always noticed). After
 * R2 has been freed, domain 1 links T. The word of T is 0, or SOLO(d) while domain
 * d alone uses T by a link, or the number of a struct hydra_table. Above T are the
 * canonical table P, which has a struct hydra_table from the beginning, and the
 * domains' own tables U(0) and U(1); above P, U(0) and U(1) are the roots:
 *
 *      OWN of domain d:  root --top[d]--> U(d) --slot[d]--> T, R or R2
 *      CANON:            mm->pgd --pud--> P ------pmd-----> T
 *
 * At every step the model lets a CPU cache everything it can reach, and keep it
 * until the CPU is told to drop it. A real CPU caches a subset. Only the
 * invariants read the set, so what holds for the full set holds for every subset.
 *
 * The sender executes the receiver's interrupt handler, as one step, once the
 * receiver has interrupts enabled. A grace period of RCU ends as soon as every
 * reader that was reading at the beginning has stopped.
 *
 * Left out: a second leaf table; huge entries in domain trees; accessed bits, except
 * those of links with LINKS_AGE; five levels; failed allocations, except of replicas
 * (and see domain_gets_tree_while_cpus_come.pml); preemption of a process by another
 * process on the same CPU. All CPUs see a step at once. x86 allows other orders, where the
 * code has no locked instruction; the process changer has such an order: the
 * changing CPU may look up the target domains before other CPUs see the change.
 *
 * The invariants have the numbers of Documentation/mm/hydra/rules.rst:
 *  1   truth: a replica's entry is part of the canonical entry when the lock of
 *      the table is dropped;
 *  2   owner: a domain that alone uses a table links the table (see
 *      fault_links_new_table.pml);
 *  3   sharers: a CPU that caches entries of a leaf table belongs to a sharer, or
 *      to a domain that every flush includes;
 *  4   dirty: no replica's entry is writable and clean;
 *  5   lifetime: a table that a CPU can reach, or code reads, is not freed;
 *  6   flush: after a flush has returned, no CPU uses an old translation;
 *  10  (second half of 6) a CPU that must flush is of a domain that had joined;
 *  11  the kernel prints no warning;
 *  12  eager (see domains_join_eagerly.pml): when the lock of the table is dropped, a
 *      domain that has joined has every entry.
 * In addition, Spin looks for deadlocks.
 */

/* Spin prints the number of a violated invariant. */
#define invariant(n, holds)	assert((n) && (holds))

#define BIT(n)		(1 << (n))

#define NR_CPUS		4
#define ALL_CPUS	15
#define DOMAIN(cpu)	((cpu) >> 1)		/* hydra_domain_of_cpu() */
#define own_cpus(dom)	((dom) -> 12 : 3)	/* hydra_domain_cpus[] */
#define EVERYBODY	3			/* mask of domains */

/* Tables, and other objects that the kernel frees. */
#define R		2
#define U(d)		(4 + (d))
#define P		6
#ifdef INSTALLS
/*
 * Three leaf tables, one after the other. T is the leaf table in the canonical tree, or
 * the last that was. No R2 exists.
 */
byte leaf = 1;
#define T		leaf
#define T2		3
#define T3		7
#define LEAVES		(BIT(1) | BIT(R) | BIT(T2) | BIT(T3))
#define NR_TABLES	8
#define LAST_REPLICA	R
#define HT(n)		(8 + (n))
#define NR_HT		4
#else
#define T		1
#define R2		3
#define LEAVES		(BIT(T) | BIT(R) | BIT(R2))
#define NR_TABLES	4
#define LAST_REPLICA	R2
#define HT(n)		(7 + (n))		/* struct hydra_table number n */
#define NR_HT		3
#endif
#define NR_OBJECTS	(HT(0) + NR_HT)

/*
 * Values of a leaf entry: of frame A read-only, writable but clean, writable and
 * dirty; of frame B.
 */
#define NONE		0
#define WANTED		1			/* HYDRA_PTE_REFILL */
#define A_RO		2
#define A_CLEAN		3
#define A_DIRTY		4
#define B_DIRTY		5
#define VALUES		(BIT(A_RO) | BIT(A_CLEAN) | BIT(A_DIRTY) | BIT(B_DIRTY))

#define present(v)	((v) >= A_RO)
#define writable(v)	((v) >= A_CLEAN)

/* What may be used while the canonical entry is v. */
#define within(v)	\
	((v) == A_RO -> BIT(A_RO) : \
	((v) == A_CLEAN -> BIT(A_RO) | BIT(A_CLEAN) : \
	((v) == A_DIRTY -> BIT(A_RO) | BIT(A_CLEAN) | BIT(A_DIRTY) : \
	((v) == B_DIRTY -> BIT(B_DIRTY) : 0))))

#ifdef BROKEN_COPY_WRITABLE_WHILE_CLEAN
/* A replica is writable while the canonical entry is clean. */
#define hydra_derive(v)	(v)
#else
#define hydra_derive(v)	((v) == A_CLEAN -> A_RO : (v))
#endif

/* The word of T, ptdesc->pt_hydra: 0, the number of a struct, or SOLO(d). */
#define SOLO(d)		(4 + (d))
#define is_solo(w)	((w) >= SOLO(0))
#define is_struct(w)	((w) && !is_solo(w))
#define solo_domain(w)	((w) - SOLO(0))
#define sharers_of(w)	\
	(is_solo(w) -> BIT(solo_domain(w)) : (is_struct(w) -> ht[w].sharers : 0))
/* What a domain walks in place of T, if not 0: domain_leaf(). */
#define domain_leaf(w, d)	\
	(is_struct(w) -> ht[w].table[d] : ((w) == SOLO(d) -> T : 0))

/* ------------------------------------------------------------- the state */

/* Page-table memory. */
byte pte[NR_TABLES];		/* the modelled entry of T, R, R2 */
#ifdef TWO_PAGES
byte pte_b[4];			/* a second entry, for frame B */
#endif
#ifdef MOVES
#define PLACES	2
#else
#define PLACES	1
#define place	0		/* else a variable of each process */
#endif
byte pmds[PLACES] = 1;		/* canonical, leads to T */
#define pmd	pmds[place]
bool pud = true;		/* canonical, leads to P */
byte slots[2 * PLACES];
#ifdef LINKS_AGE
byte walked;			/* mask of domains: the accessed bit of slots[] */
#endif
#define slot(d)	slots[2 * place + (d)]	/* of U(d), leads to a leaf table */
bool top[2];			/* of the root, leads to U(d) */

#ifdef INSTALLS
bool ptls[NR_TABLES];
#define ptl	ptls[T]
#else
bool ptl;			/* the lock of T */
#endif
bool domain_lock[2];
byte read_locked[3];		/* mmap_lock, the lock of a VMA, of an anon_vma */
bool write_locked[3];

/* struct hydra_table: number 0 is for P, the other numbers are for T in turn. */
typedef hydra_table {
	byte sharers;
	byte table[2];
};
hydra_table ht[NR_HT];
#ifdef INSTALLS
byte words[NR_TABLES];
#define word	words[T]
byte hydras = BIT(1);		/* for an assertion: tables made and not detached yet */
#else
byte word;			/* of T */
#endif
bool word_of_P = true;		/* of P: number 0, or NULL */
byte next_ht = 1;
byte next_replica = R;

/* struct hydra_mm */
#ifndef ACTIVE
#define ACTIVE	true
#endif
bool hydra_active = ACTIVE;
byte unfiltered;
byte trees = (ACTIVE -> EVERYBODY : 0);
byte universal;
/* Masks of domains: h->domain[d] is not NULL; the root is the domain's own pgd. */
byte domain_there = (ACTIVE -> EVERYBODY : 0);
byte own_root = (ACTIVE -> EVERYBODY : 0);
byte tlb_gen[2];

/* struct mm_struct */
#define HYDRA_LAST_SPLIT	2
byte last = (ACTIVE -> HYDRA_LAST_SPLIT : 0);	/* hydra_last: a domain, or HYDRA_LAST_SPLIT */
byte context_tlb_gen = 1;
byte mm_cpumask = ALL_CPUS;
byte tlb_flush_pending;

/* Per CPU. */
#define INIT_MM			0
#define MM			1
#define LOADED_MM_SWITCHING	2
#define INIT_PGD		0
#define OWN			1
#define CANON			2
byte cr3[NR_CPUS];
byte loaded_mm[NR_CPUS] = MM;
bool is_lazy[NR_CPUS];
bool ctx[NR_CPUS] = true;	/* an ASID is the address space's */
byte ctx_tlb_gen[NR_CPUS];
byte irqs_off;

/* What the CPU may cache under the ASID: values of entries, ways to tables. */
byte tlb[NR_CPUS];
byte psc[NR_CPUS];
#ifdef MOVES
/* The same for the new addresses of T; tlb and psc are for the old addresses. */
byte tlb_there[NR_CPUS];
byte psc_there[NR_CPUS];
bool moved;			/* for an assertion: no CPU may use the old addresses */
#define ways(c)	(psc[c] | psc_there[c])
#else
#define ways(c)	psc[c]
#endif

/* RCU: the readers; what waits, and for which readers; what is free. By processes' numbers. */
byte readers;
short queued;
byte waits[NR_OBJECTS];
short freed;

/*
 * For assertions only. Values that no CPU may use any more; values that no CPU may use
 * after the flush of a changer; domains that have had a leaf table; CPUs that have a
 * reason to flush.
 */
#define NR_CHANGERS	3
byte forbidden;
byte forbids[NR_CHANGERS];
byte joined;
byte owing;

/* Scratch inside a step. */
hidden byte i_;
hidden byte gen_;
hidden byte c_;

/* Variables of every process that runs kernel code. */
#define KERNEL_VARIABLES \
	byte t, table, targets, ipis, gen, spared; \
	byte new_tlb_gen[2]; \
	byte range = VALUES; \
	bool locked, takes, h, all, done OF_PLACE

#ifdef MOVES
#define OF_PLACE	; byte place	/* the place of T that the process uses */
#else
#define OF_PLACE
#endif

/*
 * Steps of a flush. Other processes can observe the states between these steps only in
 * scenarios that raise and lower unfiltered, or give and take trees. Only there can a
 * flush have targets that are not sharers. Elsewhere the steps are one.
 */
#if defined(SWITCHES) || defined(COLLAPSES) || defined(BROKEN_EVERY_DOMAIN_FLUSHED)
#define MORE_TARGETS
#define TOGETHER
#else
#define TOGETHER	atomic
#endif

/* ------------------------------------------------------------- hardware */

/* The CPU does something else: an interrupt of more than one step. */
#define in_interrupt(cpu)	(irqs_off & BIT(cpu))

#define walks(c)	(cr3[c] != INIT_PGD)
#ifdef LINKS_AGE
#define leads(c)	(cr3[c] == OWN && top[DOMAIN(c)] && slots[DOMAIN(c)])
#endif
/* A lazy or switching CPU runs no thread that could use a cached entry. */
#define uses(c)		(loaded_mm[c] == MM && !is_lazy[c] && !(irqs_off & BIT(c)))

#ifdef INSTALLS
#define shares(c, leaf_table)	\
	(!(psc[c] & hydras & BIT(leaf_table)) || cr3[c] == CANON || \
	 (sharers_of(words[leaf_table]) & BIT(DOMAIN(c))))
#endif

inline walk(c)
{
	if
	:: walks(c) ->
#ifdef LINKS_AGE
		/* A CPU that has cached the link does not walk it again. */
		walked = walked | (!(psc[c] & LEAVES) && leads(c) -> BIT(DOMAIN(c)) : 0);
#endif
		psc[c] = psc[c] |
			(cr3[c] == OWN && top[DOMAIN(c)] -> BIT(U(DOMAIN(c))) : 0) |
			(cr3[c] == CANON && pud -> BIT(P) : 0);
		psc[c] = psc[c] |
			((psc[c] & BIT(U(DOMAIN(c)))) && slots[DOMAIN(c)] -> BIT(slots[DOMAIN(c)]) : 0) |
			((psc[c] & BIT(P)) && pmds[0] -> BIT(pmds[0]) : 0);
		tlb[c] = VALUES & (tlb[c] |
			(psc[c] & BIT(T) -> BIT(pte[T]) : 0) |
			(psc[c] & BIT(R) -> BIT(pte[R]) : 0) |
#ifdef INSTALLS
			(psc[c] & BIT(1) -> BIT(pte[1]) : 0) |
			(psc[c] & BIT(T2) -> BIT(pte[T2]) : 0) |
			(psc[c] & BIT(T3) -> BIT(pte[T3]) : 0));
#else
			(psc[c] & BIT(R2) -> BIT(pte[R2]) : 0));
#endif
#ifdef TWO_PAGES
		tlb[c] = VALUES & (tlb[c] |
			(psc[c] & BIT(T) -> BIT(pte_b[T]) : 0) |
			(psc[c] & BIT(R) -> BIT(pte_b[R]) : 0));
#endif
		invariant(5, (psc[c] & freed) == 0);
#ifdef MOVES
		psc_there[c] = psc_there[c] |
			((psc[c] & BIT(U(DOMAIN(c)))) && slots[2 + DOMAIN(c)] ->
			 BIT(slots[2 + DOMAIN(c)]) : 0) |
			((psc[c] & BIT(P)) && pmds[1] -> BIT(pmds[1]) : 0);
		tlb_there[c] = VALUES & (tlb_there[c] |
			(psc_there[c] & BIT(T) -> BIT(pte[T]) : 0) |
			(psc_there[c] & BIT(R) -> BIT(pte[R]) : 0) |
			(psc_there[c] & BIT(R2) -> BIT(pte[R2]) : 0));
		invariant(5, (psc_there[c] & freed) == 0);
		invariant(6, !uses(c) || ((tlb_there[c] & forbidden) == 0 &&
					  (!moved || tlb[c] == 0)));
#endif
#ifdef INSTALLS
		/* From the first link, in the canonical tree or not. */
		invariant(3, shares(c, 1) && shares(c, T2) && shares(c, T3));
#endif
		/* A CPU that leaves is not in mm_cpumask any more: RCU waits for the CPU. */
		invariant(3, word == 0 || cr3[c] == CANON || (ways(c) & LEAVES) == 0 ||
			     (sharers_of(word) & BIT(DOMAIN(c))) ||
			     (universal & BIT(DOMAIN(c))) ||
			     loaded_mm[c] == LOADED_MM_SWITCHING);
		invariant(6, !uses(c) || (tlb[c] & forbidden) == 0)
	:: else
	fi
}

inline cpus_walk()
{
	c_ = 0;
	do
	:: c_ < NR_CPUS -> walk(c_); c_++
	:: else -> break
	od;
	c_ = 0
}

/* A store to the canonical entry. Values that the new entry permits are no longer forbidden. */
inline canonical_store(v)
{
	d_step {
		pte[T] = v;
		forbidden = forbidden & ~within(v);
		forbids[0] = forbids[0] & ~within(v);
		forbids[1] = forbids[1] & ~within(v);
		forbids[2] = forbids[2] & ~within(v);
		cpus_walk()
	}
}

/* The flush of a changer has returned. */
inline flush_returned(changer)
{
	d_step {
		forbidden = forbidden | forbids[changer];
		forbids[changer] = 0;
		cpus_walk()
	}
}

/* ------------------------------------------------------------------ RCU */

/* Interrupts or preemption off, or rcu_read_lock(). */
inline reader_begin()
{
	readers = readers | BIT(_pid)
}

inline reader_end()
{
	d_step {
		readers = readers & ~BIT(_pid);
		i_ = 0;
		do
		:: i_ < NR_OBJECTS ->
			waits[i_] = waits[i_] & ~BIT(_pid);
			if
			:: (queued & BIT(i_)) && waits[i_] == 0 ->
				queued = queued & ~BIT(i_);
				freed = freed | BIT(i_)
			:: else
			fi;
			i_++
		:: else -> break
		od;
		cpus_walk()
	}
}

inline free_now(object)
{
	d_step {
		invariant(5, ((freed | queued) & BIT(object)) == 0);
		freed = freed | BIT(object);
		cpus_walk()
	}
}

inline call_rcu(object)
{
#ifdef BROKEN_FREED_WITHOUT_RCU
	/* As if the flush had waited for all walkers. */
	free_now(object)
#else
	if
	:: atomic { readers ->
		invariant(5, ((freed | queued) & BIT(object)) == 0);
		queued = queued | BIT(object);
		waits[object] = readers
	   }
	:: atomic { else -> free_now(object) }
	fi
#endif
}

#define not_freed(object)	invariant(5, (freed & BIT(object)) == 0)

/* ----------------------------------------------------------------- locks */

#define MMAP		0
#define VMA		1
#define ANON_VMA	2

inline down_read(lock)
{
	atomic { !write_locked[lock] -> read_locked[lock]++ }
}

inline up_read(lock)
{
	read_locked[lock]--
}

inline down_write(lock)
{
	atomic { !read_locked[lock] -> write_locked[lock] = true }
}

inline up_write(lock)
{
	write_locked[lock] = false
}

/* Sets locked. A reader until the lock is dropped. */
inline pte_offset_map_lock()
{
	atomic {
		reader_begin();
		locked = (pmd == T)
	};
	if
	:: locked ->
		atomic { !ptl -> ptl = true; not_freed(T) };
		if
		:: pmd != T ->
			locked = false;
			ptl = false
		:: else
		fi
	:: else
	fi;
	if
	:: !locked -> reader_end()
	:: else
	fi
}

#ifdef TWO_PAGES
#define truthful_b(copy)	(!present(pte_b[copy]) || pte_b[copy] == pte_b[T])
#else
#define truthful_b(copy)	true
#endif
#define truthful(copy)	\
	((!present(pte[copy]) || (BIT(pte[copy]) & within(pte[T]))) && truthful_b(copy))

inline pte_unmap_unlock()
{
	atomic {
		invariant(1, !domain_leaf(word, 1) || domain_leaf(word, 1) == T ||
			     truthful(domain_leaf(word, 1)));
#ifdef EAGER
		invariant(12, !domain_leaf(word, 1) || !present(pte[T]) ||
			      present(pte[domain_leaf(word, 1)]));
#endif
		ptl = false;
		locked = false;
		t = 0;
		table = 0;
		reader_end()
	}
}

inline lock_domain(dom)
{
	atomic { !domain_lock[dom] -> domain_lock[dom] = true }
}

inline unlock_domain(dom)
{
	domain_lock[dom] = false
}

/* -------------------------------------------------- propagate.c */

inline copy_store(copy, v)
{
	d_step {
		not_freed(copy);
		pte[copy] = v;
		invariant(4, pte[copy] != A_CLEAN);
		cpus_walk()
	}
}

#ifdef TWO_PAGES
inline copy_store_b(copy, v)
{
	d_step {
		not_freed(copy);
		pte_b[copy] = v;
		cpus_walk()
	}
}
#endif

/* Only domain 1 can have a replica. Out: table, the replica or 0. */
inline changed_table()
{
	d_step {
		table = 0;
		if
		:: is_struct(word) ->
			not_freed(HT(word));
			table = (ht[word].sharers & BIT(1) -> ht[word].table[1] : 0);
			table = (table == T -> 0 : table)
		:: else
		fi
	}
}

/* hydra_follows(): an empty copy stays empty, unless the scenario says otherwise. */
#ifndef follows
#define follows(copy)	(pte[copy] != NONE)
#endif

inline update_copy()
{
	if
	:: atomic { !follows(table) -> skip }
	:: atomic { follows(table) && present(pte[T]) -> copy_store(table, hydra_derive(pte[T])) }
	:: atomic { follows(table) && !present(pte[T]) -> copy_store(table, WANTED) }
	fi
}

/* __hydra_entries_set() */
inline entries_set()
{
	changed_table();
	if
	:: table ->
#ifdef BROKEN_CHANGE_NOT_PROPAGATED
		skip
#else
		update_copy()
#endif
	:: else
	fi
}

/* hydra_clear_copies(), called by hydra_entry_exchange() */
inline entry_clearing()
{
	changed_table();
	if
	:: table ->
#ifdef BROKEN_COPY_NOT_CLEARED
		/* A cleared entry stays in the replicas. */
		skip
#else
		copy_store(table, (present(pte[table]) -> WANTED : pte[table]))
#endif
	:: else
	fi
}

/* Accessors of Linux, with the hooks. */
inline set_pte_at(v)
{
	canonical_store(v);
	entries_set()
}

inline ptep_get_and_clear()
{
#ifdef BROKEN_ENTRY_CLEARED_BEFORE_COPIES
	/* The replicas after the canonical entry. */
	canonical_store(NONE);
	entry_clearing()
#else
	entry_clearing();
	canonical_store(NONE)
#endif
}

/* ------------------------------------------------------- fill.c */

/* Under the domain's lock. */
inline hydra_link(dom, to)
{
	d_step {
		not_freed(U(dom));
		slot(dom) = to;
#ifdef LINKS_AGE
		walked = walked & ~(to -> BIT(dom) : 0);
#endif
		cpus_walk()
	}
}

/* hydra_wants_replica(), and whether a page for a replica can be allocated. */
#define replicates(dom)	((dom) == 1 && next_replica <= LAST_REPLICA)

/*
 * Lets a domain walk T. If no other domain uses T and the domain needs no replica,
 * the word becomes SOLO(dom). Otherwise T has a struct hydra_table, or gets the spare
 * one, with the domain that used T alone as first sharer. Out: table, the table that
 * the domain walks, or 0.
 */
inline join(dom)
{
	/* r->spare, if there is no struct hydra_table yet */
	t = (is_struct(word) -> word : (word || replicates(dom) -> next_ht : 0));
	lock_domain(dom);
	if
#ifdef BROKEN_JOIN_WITHOUT_SECOND_LOOK
	/* Does not look whether the table is still in the canonical tree. */
	:: hydra_active ->
#else
	:: hydra_active && ht[0].table[dom] && pmd == T ->
#endif
		d_step {
			not_freed(HT(0));
			joined = joined | BIT(dom);
			if
			:: replicates(dom) ->
				table = next_replica;
				next_replica++
			:: else -> table = T
			fi
		};
#ifdef BROKEN_LINKED_BEFORE_NOTED
		hydra_link(dom, table);
#endif
#ifdef BROKEN_WORD_WRITTEN_BEFORE_STRUCT
		/* Writes the word before the struct. */
		if
		:: t == next_ht && is_solo(word) ->
			gen = solo_domain(word);
			word = t;
			ht[t].sharers = BIT(gen);
			ht[t].table[gen] = T
		:: else
		fi;
#endif
		if
		:: t -> {
			not_freed(HT(t));
#ifndef BROKEN_FIRST_DOMAIN_NOT_NOTED
			d_step {
				if
				:: t == next_ht && is_solo(word) ->
					ht[t].sharers = ht[t].sharers | BIT(solo_domain(word));
					ht[t].table[solo_domain(word)] = T
				:: else
				fi
			};
#endif
#ifndef BROKEN_SHARER_NOT_NOTED
			ht[t].sharers = ht[t].sharers | BIT(dom);
#endif
			ht[t].table[dom] = table
		   }
		:: else
		fi;
		d_step {
			if
			:: t == next_ht -> next_ht++
			:: else
			fi;
			word = (t -> t : SOLO(dom))
		};
#ifndef BROKEN_LINKED_BEFORE_NOTED
		hydra_link(dom, table)
#else
		skip
#endif
	:: else
	fi;
	unlock_domain(dom)
}

/*
 * The domain's table for P, on the way to the leaf table, allocated once at most. Out:
 * locked, whether the domain has the table.
 */
inline hydra_domain_upper(dom)
{
	locked = false;
	if
	:: word_of_P ->
		/* An allocation may take long. */
		lock_domain(dom);
		atomic {
			not_freed(HT(0));
			locked = (ht[0].table[dom] != 0)
		};
		if
		:: !locked && hydra_active && pud && !((freed | queued) & BIT(U(dom))) ->
			ht[0].table[dom] = U(dom);
			d_step {
				top[dom] = true;
				cpus_walk()
			};
			locked = true
		:: else
		fi;
		unlock_domain(dom)
	:: else
	fi
}

/* Dirty goes to the canonical entry, and only to a writable one. */
inline mark_used(write)
{
	if
	:: atomic { write && pte[T] == A_CLEAN -> canonical_store(A_DIRTY) }
	:: else
	fi
}

inline copy_entry()
{
#ifdef PREFETCHES
	/* hydra_copy_window(): the entry asked for last. */
	copy_store_b(table, pte_b[T]);
#endif
	copy_store(table, hydra_derive(pte[T]))
}

/* By a fault with the lock of the VMA; tables are allocated. */
inline fill_leaf(dom, write)
{
#ifdef BROKEN_ENTRY_READ_BEFORE_LOCK
	/* Reads the canonical entry before taking the lock. */
	gen = hydra_derive(pte[T]);
#endif
	pte_offset_map_lock();
	if
	:: locked ->
		if
		:: present(pte[T]) && hydra_active ->
			table = domain_leaf(word, dom);
			if
			:: !table -> join(dom)
			:: else
			fi;
			if
			:: table && table != T ->
				mark_used(write);
#ifdef BROKEN_ENTRY_READ_BEFORE_LOCK
				copy_store(table, gen)
#else
				copy_entry()
#endif
			:: else
			fi
		:: else
		fi;
		pte_unmap_unlock()
	:: else
	fi
}

/* With interrupts off, no VMA locked, nothing waited for, nothing allocated. */
/* Only where trees go in parts does it matter that the domain may use the canonical root. */
#ifdef PARTS
#ifndef BROKEN_ATOMIC_FILL_IGNORES_ROOT
#define uses_canonical(cpu)	(!(own_root & BIT(DOMAIN(cpu))))
#endif
#endif
#ifndef uses_canonical
#define uses_canonical(cpu)	false
#endif

inline fill_leaf_atomic(cpu, write)
{
	atomic {
		!in_interrupt(cpu) ->
		irqs_off = irqs_off | BIT(cpu);
		reader_begin();
		locked = (pmd == T && !uses_canonical(cpu))
	};
	if
	:: locked ->
		if
		:: atomic { !ptl -> ptl = true; not_freed(T) };
			if
			:: pmd == T && present(pte[T]) && hydra_active ->
				table = domain_leaf(word, DOMAIN(cpu));
				if
				/* With a struct hydra_table, or without need of one. */
				:: !table && DOMAIN(cpu) == 0 && !is_solo(word) &&
				   !domain_lock[DOMAIN(cpu)] -> join(DOMAIN(cpu))
				:: else
				fi;
				if
				:: table && table != T ->
					mark_used(write);
					copy_entry()
				:: else
				fi
			:: else
			fi;
			atomic {
				ptl = false;
				t = 0;
				table = 0
			}
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

/* ---------------------------------------------------- sharers.c */

/* add_sharers_of() */
inline add_sharers_of()
{
	if
	:: pmd == T ->
		t = word;
		atomic {
			if
			:: is_struct(t) -> not_freed(HT(t))
			:: else
			fi;
			targets = targets | sharers_of(t);
			t = 0
		}
	:: else
	fi
}

/* range_targets(). Interrupts are off, or the table's lock is held. */
inline range_targets()
{
	if
	:: !locked -> reader_begin()
	:: else
	fi;
	add_sharers_of();
#ifndef BROKEN_UNFILTERED_READ_BEFORE_SHARERS
	all = unfiltered;
#endif
	if
	:: !locked -> reader_end()
	:: else
	fi
}

/* Leaves the domains in targets, or sets all. */
inline hydra_range_targets()
{
	TOGETHER {
		targets = 0;
#ifdef BROKEN_UNIVERSAL_READ_BEFORE_GENERATION
		targets = universal;
#endif
		all = unfiltered;
		if
		:: !all -> range_targets()
		:: else
		fi
	}
}

/* The same for a gather, which has noted some domains. */
inline hydra_gather_targets(users)
{
	TOGETHER {
		targets = users;
		all = unfiltered;
		if
		:: !all -> range_targets()
		:: else
		fi
	}
}

/* ------------------------------------------- unlink.c, table.c */

/* Leaves the word in t. */
inline hydra_table_detach()
{
	d_step {
		t = word;
		word = 0;
#ifdef INSTALLS
		hydras = hydras & ~BIT(T)
#endif
	}
}

/* Leaves the domain's table in table, or 0. */
inline hydra_table_cut_domain(dom)
{
	lock_domain(dom);
	atomic {
		not_freed(HT(t));
		table = ht[t].table[dom]
	};
	if
	:: table ->
#ifndef BROKEN_LINK_NOT_CUT
		hydra_link(dom, 0);
#endif
		ht[t].table[dom] = 0
	:: else
	fi;
	unlock_domain(dom)
}

inline hydra_cut_solo(dom)
{
	lock_domain(dom);
	if
#ifndef BROKEN_LINK_OF_SOLE_DOMAIN_NOT_CUT
	:: ht[0].table[dom] -> hydra_link(dom, 0)
#endif
	:: else
	fi;
	unlock_domain(dom)
}

/*
 * Cuts the links to T: hydra_cut_solo() or hydra_table_cut(). In: t, the detached word.
 * Out: table, a replica or 0.
 */
inline hydra_table_cut()
{
	if
	:: is_solo(t) -> hydra_cut_solo(solo_domain(t))
	:: is_struct(t) ->
		if
		:: ht[t].table[0] -> hydra_table_cut_domain(0)
		:: else
		fi;
		table = 0;
		if
		:: ht[t].table[1] -> hydra_table_cut_domain(1)
		:: else
		fi;
		table = (table == T -> 0 : table)
	:: else
	fi
}

/* hydra_table_release(): T is not freed. */
inline hydra_table_release()
{
	hydra_table_cut();
	if
	:: table -> call_rcu(table)
	:: else
	fi;
	if
	:: is_struct(t) -> call_rcu(HT(t))
	:: else
	fi;
	t = 0;
	table = 0
}

/* -------------------------------- arch/x86/mm/tlb.c, and Hydra's own tlb.c */

#define has_domain(cpu)	(hydra_active && (domain_there & BIT(DOMAIN(cpu))))
#define hydra_pgd(cpu)	\
	(has_domain(cpu) && (own_root & BIT(DOMAIN(cpu))) -> OWN : CANON)
#define hydra_tlb_gen(cpu)	\
	(has_domain(cpu) -> tlb_gen[DOMAIN(cpu)] : context_tlb_gen)

#ifdef SWITCHES
#define owes(cpu)	true
#else
#define owes(cpu)	(owing & BIT(cpu))
#endif

inline leave_mm(cpu)
{
	mm_cpumask = mm_cpumask & ~BIT(cpu);
	loaded_mm[cpu] = INIT_MM;
	cr3[cpu] = INIT_PGD;
	is_lazy[cpu] = false
}

#define TLB_GENERATION_INVALID	0

#define flush_seen(cpu)	\
	((new_tlb_gen[DOMAIN(cpu)] != TLB_GENERATION_INVALID && \
	  new_tlb_gen[DOMAIN(cpu)] <= ctx_tlb_gen[cpu]) || \
	 ctx_tlb_gen[cpu] == gen_)
#define only_this_to_do(cpu)	\
	(new_tlb_gen[DOMAIN(cpu)] == ctx_tlb_gen[cpu] + 1 && \
	 new_tlb_gen[DOMAIN(cpu)] == gen_)

/* On the interrupted CPU. */
inline flush_tlb_func(cpu)
{
	d_step {
		ipis = ipis & ~BIT(cpu);
		gen_ = hydra_tlb_gen(cpu);
		if
		:: loaded_mm[cpu] != MM -> skip
		:: loaded_mm[cpu] == MM && is_lazy[cpu] -> leave_mm(cpu)
		:: loaded_mm[cpu] == MM && !is_lazy[cpu] && flush_seen(cpu) -> skip
		:: else ->
			invariant(11, ctx_tlb_gen[cpu] <= gen_);
#ifndef RETURNS
			invariant(11, new_tlb_gen[DOMAIN(cpu)] <= gen_);
#endif
			invariant(10, owes(cpu));
			owing = owing & ~BIT(cpu);
#ifdef MOVES
			tlb[cpu] = (only_this_to_do(cpu) && place == 1 -> tlb[cpu] : 0);
			tlb_there[cpu] = (only_this_to_do(cpu) && place == 0 -> tlb_there[cpu] : 0);
			psc_there[cpu] = 0;
#else
			tlb[cpu] = (only_this_to_do(cpu) -> tlb[cpu] & ~range : 0);
#endif
			psc[cpu] = 0;
#ifdef SWITCHES
#ifndef BROKEN_FLUSH_KEEPS_OLD_ROOT
			/* hydra_catch_up() */
			tlb[cpu] = (cr3[cpu] == hydra_pgd(cpu) -> tlb[cpu] : 0);
			cr3[cpu] = hydra_pgd(cpu);
#endif
#endif
			ctx_tlb_gen[cpu] = gen_
		fi;
		gen_ = 0;
		cpus_walk()
	}
}

inline raise_generation(dom)
{
	d_step {
		if
#ifdef BROKEN_GENERATION_NOT_RAISED
		:: domain_there & BIT(dom) -> skip
#else
#ifdef BROKEN_GENERATION_NOT_RAISED_IF_NOT_RUN
		/* Not if no CPU of the domain runs the address space. */
		:: (domain_there & BIT(dom)) && !(mm_cpumask & own_cpus(dom)) -> skip
		:: (domain_there & BIT(dom)) && (mm_cpumask & own_cpus(dom)) ->
#else
		:: domain_there & BIT(dom) ->
#endif
			tlb_gen[dom] = tlb_gen[dom] + 1
#endif
		:: else -> context_tlb_gen++
		fi;
		new_tlb_gen[dom] = (domain_there & BIT(dom) -> tlb_gen[dom] : context_tlb_gen);
		if
		:: (joined & BIT(dom)) || unfiltered -> owing = owing | own_cpus(dom)
		:: else
		fi
	}
}

/*
 * targets are the sharers; or all domains are to be reached. Leaves in done whether
 * the address space is still active.
 */
inline raise_targets()
{
	if
	:: targets & BIT(0) -> raise_generation(0)
	:: else
	fi;
	if
	:: targets & BIT(1) -> raise_generation(1)
	:: else
	fi;
	done = hydra_active;
#ifdef MORE_TARGETS
	if
	:: done ->
		gen = universal;		/* more */
#ifdef BROKEN_UNIVERSAL_READ_BEFORE_GENERATION
		gen = 0;
#endif
		gen = (gen | (all -> trees : 0)) & ~targets;
		if
		:: all || gen ->
			d_step {
				context_tlb_gen++;
				new_tlb_gen[0] = (targets & BIT(0) -> new_tlb_gen[0] : context_tlb_gen);
				new_tlb_gen[1] = (targets & BIT(1) -> new_tlb_gen[1] : context_tlb_gen)
			};
			targets = targets | gen;
			if
			:: gen & domain_there & BIT(0) -> raise_generation(0)
			:: else
			fi;
			if
			:: gen & domain_there & BIT(1) -> raise_generation(1)
			:: else
			fi;
			gen = 0
		:: else
		fi
	:: else
	fi;
#endif
#ifdef BROKEN_FLUSH_WITH_ONE_GENERATION
	/* The flush carries one domain's generation. */
	new_tlb_gen[1] = new_tlb_gen[0];
#endif
#ifdef BROKEN_GENERATION_OF_SPARED_RAISED
	if
	:: !(targets & BIT(1)) -> tlb_gen[1] = tlb_gen[1] + 1
	:: else
	fi
#endif
}

/* should_flush_tlb(), hydra_should_flush_tlb() */
#define interrupts(cpu, self, freed_tables)	\
	((all || (targets & BIT(DOMAIN(cpu)))) && \
	 ((cpu) == (self) -> loaded_mm[cpu] == MM : \
	  (mm_cpumask & BIT(cpu)) && \
	  ((freed_tables) || (!is_lazy[cpu] && loaded_mm[cpu] != INIT_MM))) -> \
	 BIT(cpu) : 0)

/* The domains of the CPUs in mm_cpumask(). */
#define running()	\
	((mm_cpumask & own_cpus(0) -> BIT(0) : 0) | (mm_cpumask & own_cpus(1) -> BIT(1) : 0))

/* hydra_pick_targets(), on_each_cpu_cond_mask() */
inline choose_cpus(cpu, freed_tables)
{
	ipis = interrupts(0, cpu, freed_tables) | interrupts(1, cpu, freed_tables) |
	       interrupts(2, cpu, freed_tables) | interrupts(3, cpu, freed_tables)
}

#define can_interrupt(cpu)	((ipis & BIT(cpu)) && !(irqs_off & BIT(cpu)))

/* Afterwards, for fewer states. */
inline forget_flush()
{
	d_step {
		new_tlb_gen[0] = TLB_GENERATION_INVALID;
		new_tlb_gen[1] = TLB_GENERATION_INVALID;
		targets = 0;
		takes = false;
		h = false;
		all = false;
		done = false
	}
}

inline interrupt(cpu)
{
	if
	:: ipis & BIT(cpu) -> flush_tlb_func(cpu)
	:: else
	fi
}

/*
 * The sender interrupts the CPUs in any order, or (AT_ONCE) all together when the last
 * CPU has interrupts enabled. AT_ONCE is enough where a single CPU comes and goes: the
 * cached values of a CPU matter only to the CPU, and the sender waits for all CPUs.
 */
inline send_interrupts()
{
#ifdef AT_ONCE
	atomic {
		!(ipis & irqs_off) ->
		interrupt(0);
		interrupt(1);
		interrupt(2);
		interrupt(3)
	}
#else
	do
	:: atomic { can_interrupt(0) -> flush_tlb_func(0) }
	:: atomic { can_interrupt(1) -> flush_tlb_func(1) }
	:: atomic { can_interrupt(2) -> flush_tlb_func(2) }
	:: atomic { can_interrupt(3) -> flush_tlb_func(3) }
	:: atomic { !ipis -> break }
	od
#endif
}

inline inc_mm_tlb_gen()
{
	d_step {
		context_tlb_gen++;
		new_tlb_gen[0] = context_tlb_gen;
		new_tlb_gen[1] = context_tlb_gen
	}
}

#ifdef SPLITS
/* Leaves the answer in takes. */
inline hydra_splits_or_returns()
{
	takes = hydra_active;
	if
	:: !takes -> takes = unfiltered
	:: takes
	fi
}

/* The same. Any address space may be counted. */
inline hydra_takes_flush()
{
	if
	:: hydra_splits_or_returns()
	:: takes = true
	fi;
#ifdef BROKEN_SECOND_LOOK_BEFORE_GENERATION
	/* Before the full barrier. */
	if
	:: !takes -> hydra_flush_missed()
	:: takes
	fi
#endif
}

/* The same, after a flush of Linux. */
inline hydra_flush_missed()
{
#ifdef BROKEN_SECOND_LOOK_AT_ACTIVE_ONLY
	takes = hydra_active
#else
#ifdef BROKEN_SECOND_LOOK_READS_UNFILTERED_FIRST
	takes = unfiltered;
	if
	:: !takes -> takes = hydra_active
	:: takes
	fi
#else
	hydra_splits_or_returns()
#endif
#endif
}
#endif

/* A flush begins: does Hydra take it, and is the address space active (h)? */
inline flush_begins()
{
#ifdef SPLITS
	hydra_takes_flush();
	h = takes && hydra_active
#else
	h = hydra_active
#endif
}

/* The flush up to where the targets are known: which domains share the tables? */
inline look()
{
	TOGETHER {
		flush_begins();
		if
		:: h -> hydra_range_targets()
		:: !h
		fi
	}
}

/* hydra_flush_targets(): the targets are of no use to a second split. */
inline begin_again()
{
	all = true;
	h = hydra_active;
	if
	:: h -> raise_targets()
	:: !h
	fi
}

/*
 * By domains, if the address space was active when the flush began (h), and still is;
 * otherwise all CPUs.
 */
inline hydra_flush_targets(cpu, freed_tables)
{
#ifdef BROKEN_ONLY_OWN_DOMAIN_FLUSHED
	targets = targets & BIT(DOMAIN(cpu));
#endif
#ifdef BROKEN_EVERY_DOMAIN_FLUSHED
	all = true;
#endif
#ifdef BROKEN_CPUS_CHOSEN_BEFORE_GENERATION
	choose_cpus(cpu, freed_tables);
#endif
	if
	:: h -> raise_targets()
	:: !h
	fi;
#ifdef SPLITS
	if
	:: !done ->
		/* hydra_raise_inactive() */
		inc_mm_tlb_gen();
		begin_again();
		if
		:: !done ->
			/* hydra_raise_inactive(), perhaps once more */
			if
			:: h -> inc_mm_tlb_gen()
			:: !h
			fi;
			if
			:: unfiltered -> inc_mm_tlb_gen()
			:: else
			fi
		:: else
		fi
	:: else
	fi;
#endif
#ifndef BROKEN_CPUS_CHOSEN_BEFORE_GENERATION
	choose_cpus(cpu, freed_tables);
#endif
#ifdef FREED_AT_ONCE
#ifndef BROKEN_SPARED_LOOKED_UP_BEFORE_CLEAR
	spared = (all -> 0 : running() & ~targets);
#endif
#endif
	send_interrupts()
}

/*
 * The rest of a flush, by a process on a CPU. If Hydra does not take the flush, Linux
 * flushes. If that flush may have missed CPUs, Hydra flushes everything. (In the kernel this
 * interrupts lazy CPUs, too.)
 */
inline flush_tlb_mm_range(cpu, freed_tables)
{
#ifdef SPLITS
	if
	:: !takes ->
		inc_mm_tlb_gen();
		all = true;
		choose_cpus(cpu, freed_tables);
		send_interrupts();
#ifndef BROKEN_NO_SECOND_LOOK
#ifndef BROKEN_SECOND_LOOK_BEFORE_GENERATION
		hydra_flush_missed();
#endif
#endif
		h = takes && hydra_active
	:: takes
	fi;
	if
	:: takes -> hydra_flush_targets(cpu, freed_tables)
	:: !takes
	fi;
#else
	hydra_flush_targets(cpu, freed_tables);
#endif
	forget_flush()
}

/* hydra_tlb_flush(): the flush of a gather. If that leaves it to Linux, look() asks again. */
inline tlb_flush(cpu, users, freed_tables)
{
	flush_begins();
	if
	:: h -> hydra_gather_targets(users)
#ifdef SPLITS
	:: !h && takes
	:: !takes -> look()
#else
	:: !h
#endif
	fi;
	flush_tlb_mm_range(cpu, freed_tables)
}

/* A CPU is about to run the address space: switch.c, __hydra_switching(). */
#ifdef SWITCHES
inline hydra_switching(cpu)
{
	if
	:: last == DOMAIN(cpu)
	:: last != DOMAIN(cpu) ->
		if
		:: hydra_active ->
			if
			:: !(domain_there & BIT(DOMAIN(cpu))) -> lodge(DOMAIN(cpu))
			:: else
			fi
		:: else
		fi
	fi
}

inline lodge(dom)
{
	if
	:: !(universal & BIT(dom)) ->
#ifdef BROKEN_LODGING_RAISES_GENERATION_LATE
		universal = universal | BIT(dom);
		context_tlb_gen++
#else
#ifndef BROKEN_LODGING_RAISES_NO_GENERATION
		context_tlb_gen++;
#endif
#ifndef BROKEN_LODGING_DOMAIN_NOT_UNIVERSAL
		universal = universal | BIT(dom)
#else
		skip
#endif
#endif
	:: else
	fi
}
#else
#define hydra_switching(cpu)	skip
#endif

/*
 * switch_mm_irqs_off(): end of the switch to a process of the address space, from
 * another one or (same) only from being lazy.
 */
inline load_mm(cpu, same)
{
	gen = hydra_tlb_gen(cpu);
	d_step {
		if
		:: !ctx[cpu] || ctx_tlb_gen[cpu] < gen ->
			invariant(10, !ctx[cpu] || owes(cpu));
			owing = owing & ~(gen == hydra_tlb_gen(cpu) -> BIT(cpu) : 0);
			tlb[cpu] = 0;
			psc[cpu] = 0;
			ctx[cpu] = true;
			ctx_tlb_gen[cpu] = gen;
			cr3[cpu] = hydra_pgd(cpu)
		:: ctx[cpu] && ctx_tlb_gen[cpu] >= gen && !(same) ->
			cr3[cpu] = hydra_pgd(cpu)
		:: else
		fi;
		gen = 0;
		loaded_mm[cpu] = MM;
		irqs_off = irqs_off & ~BIT(cpu);
		cpus_walk()
	}
}

inline switch_mm_in(cpu)
{
	atomic {
		loaded_mm[cpu] == INIT_MM && !in_interrupt(cpu) ->
		irqs_off = irqs_off | BIT(cpu);
		loaded_mm[cpu] = LOADED_MM_SWITCHING;
		mm_cpumask = mm_cpumask | BIT(cpu)
	};
	hydra_switching(cpu);
	load_mm(cpu, false)
}

inline switch_mm_out(cpu)
{
	atomic {
		loaded_mm[cpu] == MM && !is_lazy[cpu] && !in_interrupt(cpu) ->
		irqs_off = irqs_off | BIT(cpu);
		reader_begin();
		loaded_mm[cpu] = LOADED_MM_SWITCHING;
		mm_cpumask = mm_cpumask & ~BIT(cpu)
	};
	atomic {
		leave_mm(cpu);
		irqs_off = irqs_off & ~BIT(cpu);
		reader_end()
	}
}

inline enter_lazy_tlb(cpu)
{
	atomic {
		loaded_mm[cpu] == MM && !is_lazy[cpu] && !in_interrupt(cpu) ->
		is_lazy[cpu] = true
	}
}

/* To be lazy no longer: load only if behind. */
inline switch_mm_lazy(cpu)
{
	atomic {
		is_lazy[cpu] && !in_interrupt(cpu) ->
		irqs_off = irqs_off | BIT(cpu);
		is_lazy[cpu] = false
	};
	hydra_switching(cpu);
	load_mm(cpu, true)
}

/* One CPU comes and goes, so many times. */
proctype scheduler(byte cpu, times)
{
	byte gen;

	do
	:: switch_mm_in(cpu)
	:: switch_mm_lazy(cpu)
	:: atomic { times && loaded_mm[cpu] == MM && !is_lazy[cpu] -> times-- };
		if
		:: switch_mm_out(cpu)
		:: enter_lazy_tlb(cpu)
		fi
	:: atomic { !times && loaded_mm[cpu] == MM && !is_lazy[cpu] -> break }
	od
}

/*
 * All CPUs run the address space, and cache all reachable entries. The given domains,
 * which have trees, have joined T.
 */
inline boot(domains)
{
	d_step {
		domain_there = trees;
		own_root = trees;
		universal = (hydra_active -> EVERYBODY & ~trees : 0);
		tlb_gen[0] = (trees & BIT(0) -> 17 : 0);
		tlb_gen[1] = (trees & BIT(1) -> 17 : 0);
		ht[0].table[0] = (trees & BIT(0) -> U(0) : 0);
		ht[0].table[1] = (trees & BIT(1) -> U(1) : 0);
		top[0] = trees & BIT(0);
		top[1] = trees & BIT(1);
		joined = domains;
		slot(0) = ((domains) & BIT(0) -> T : 0);
		if
		:: (domains) & BIT(1) ->
			word = next_ht;
			next_ht++;
			ht[word].sharers = domains;
			ht[word].table[0] = slot(0);
			ht[word].table[1] = R;
			slot(1) = R;
			next_replica = R + 1;
			pte[R] = hydra_derive(pte[T])
		:: else ->
			word = ((domains) -> SOLO(0) : 0)
		fi;
		cr3[0] = hydra_pgd(0);
		cr3[1] = hydra_pgd(1);
		cr3[2] = hydra_pgd(2);
		cr3[3] = hydra_pgd(3);
		ctx_tlb_gen[0] = hydra_tlb_gen(0);
		ctx_tlb_gen[1] = hydra_tlb_gen(1);
		ctx_tlb_gen[2] = hydra_tlb_gen(2);
		ctx_tlb_gen[3] = hydra_tlb_gen(3);
		cpus_walk()
	}
}

/* ---------------------------------------- a CPU changes an entry */

inline change_entry(n)
{
	if
#ifdef CHANGES_PERMISSIONS
	:: writable(pte[T]) && pte[T] != B_DIRTY ->
		forbids[n] = BIT(A_CLEAN) | BIT(A_DIRTY);
		set_pte_at(A_RO)
#endif
	:: present(pte[T]) ->
		forbids[n] = VALUES;
		ptep_get_and_clear()
	:: !present(pte[T])
	fi
}

inline changer_unlock()
{
	pte_unmap_unlock();
#ifdef ANON_VMAS
	up_read(ANON_VMA)
#endif
}

/*
 * A CPU changes an entry without a gather, as reverse-map code does. It flushes before or
 * after it drops the lock. Plain stores may be delayed: the CPU may look up the target
 * domains before other CPUs see the new entry, and they may see the unlock later still.
 */
proctype changer(byte n, cpu)
{
	KERNEL_VARIABLES;
	bool looked, unlocked;

#ifdef ANON_VMAS
	down_read(ANON_VMA);
#endif
#ifdef BROKEN_SHARERS_LOOKED_UP_BEFORE_LOCK
	look();
	looked = true;
#endif
	pte_offset_map_lock();
	if
	:: locked ->
		if
#ifdef PLAIN_STORES
		:: !looked ->
			/* An interrupt would have the store seen. */
			irqs_off = irqs_off | BIT(cpu);
			look();
			looked = true
#endif
		:: true
		fi;
		change_entry(n);
		irqs_off = irqs_off & ~BIT(cpu);
		if
		:: changer_unlock(); unlocked = true
		:: true
		fi;
		if
		:: !looked -> look()
		:: else
		fi;
#ifdef FLUSH_AT_ONCE
		atomic {
#else
		{
#endif
			flush_tlb_mm_range(cpu, false);
			flush_returned(n)
		};
		if
		:: !unlocked -> changer_unlock()
		:: else
		fi
	:: else ->
#ifdef ANON_VMAS
		up_read(ANON_VMA)
#endif
	fi
}
