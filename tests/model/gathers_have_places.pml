/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathers that drop memory of a split address space announce where they do: each raises the counter
 * of its place, and not mm->tlb_flush_pending. All other gathers raise that, as on Linux. A CPU that
 * finds an entry changed by a gather which has not flushed yet must flush, too, or know that it
 * need not. Such a CPU is: a gather (any); a flush without a gather, which looks up the sharers of a
 * table that is younger than the huge entry there; and reclaim or migration, which ask
 * pte_accessible(), and so tlb_flush_pending alone. Meanwhile the address space is split for the
 * first time, returns, and may be split and return once more; a grace period after a return, and
 * when all counters are 0, they are not looked at any more. Modelled: arch/x86/mm/hydra/pending.c, __tlb_gather_mmu(),
 * zap_page_range_single(), change_protection(), tlb_finish_mmu(), hydra_range_targets(),
 * __hydra_gather_add_huge(), ptep_clear_flush().
 *
 * There are two places, of one entry each, which models a small page or a huge one. The scenario needs
 * no other part of the mechanism, and includes no file: all TLBs are one, which caches whatever it
 * can, and a gather reaches it for an entry or does not. With marks a gather does so only if it has
 * found one, or if another gather is pending at the place. What a CPU does under the lock of an
 * entry's table is one step: counters change without the lock, as if before the step or after.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_RAISED_AFTER_ENTRY             6
 *   BROKEN_LOWERED_BEFORE_FLUSH           6
 *   BROKEN_ONE_PLACE_RAISED               6
 *   BROKEN_OTHER_PLACE_LOOKED_AT          6
 *   BROKEN_ALL_PLACES_NOT_COUNTED         6
 *   BROKEN_PLACES_NOT_COUNTED             6
 *   BROKEN_PLACES_COUNTED_WHILE_SPLIT     6
 *   BROKEN_OLDER_GATHER_LOOKS_AT_NONE     6
 *   BROKEN_PROTECTION_HAS_PLACES          6
 *   BROKEN_FLUSH_IGNORES_PLACES           6
 *   BROKEN_DRAINED_WITHOUT_GRACE_PERIOD   6
 *   BROKEN_DRAINED_BY_ONE_COUNTER         6
 *   BROKEN_DRAINED_FOR_EVER               6
 *   BROKEN_MARK_TAKEN_BESIDE_A_GATHER     6
 */
#define X	0			/* the places */
#define Y	1
#define BIT(v)	(1 << (v))

/* Values of an entry. A and B are pages that TLBs may cache; A_NONE is A, PROT_NONE. */
#define NONE	0
#define A	1
#define B	2
#define A_NONE	3
#define CACHED	(BIT(A) | BIT(B))

byte pte[2] = A;
byte tlb[2] = BIT(A);
bool mark[2] = true;			/* by which a gather knows that the TLB may hold the entry */

byte gone[4];				/* by gather and place: what no TLB may hold when it returns */


byte tlb_flush_pending;
byte places[2];				/* the counters of hydra_mm.pending, if there */
bool there;
bool hydra_active;
byte looking;				/* gathers in an RCU section: have read hydra_active, not raised */
byte return_gp, drained_gp;		/* 0: none */
bool passed;				/* the grace period of return_gp */
bool twice;				/* split, and returned; then gathers drop one place each */

/* Hardware caches the value at once. What is mapped again is not gone. */
inline store(i, v)
{
	d_step {
		pte[i] = v;
		gone[i] = gone[i] & ~BIT(v);
		gone[2 + i] = gone[2 + i] & ~BIT(v);
		if
		:: BIT(v) & CACHED -> tlb[i] = tlb[i] | BIT(v); mark[i] = true
		:: else
		fi
	}
}

inline assert_gone(i, values)
{
	assert(6 && !(tlb[i] & (values)))
}

/* hydra_drained() */
#ifdef BROKEN_DRAINED_FOR_EVER
#define DRAINED	(!there || (!hydra_active && drained_gp))
#else
#define DRAINED	(!there || (!hydra_active && return_gp && drained_gp == return_gp))
#endif

/* hydra_drops_pending(): is a drop pending at a place, besides so many of the caller's own? Adds to nested. */
inline look(i, own)
{
#ifdef BROKEN_PLACES_COUNTED_WHILE_SPLIT
	nested = nested || (hydra_active && places[i] > own)
#else
#ifdef BROKEN_OTHER_PLACE_LOOKED_AT
	nested = nested || (!DRAINED && places[1 - i] > own)
#else
	nested = nested || (!DRAINED && places[i] > own)
#endif
#endif
}

/* Is another gather pending at a place? Sets nested. */
inline look_from_gather(i)
{
	nested = false;
	if
	:: by_place ->
#ifndef BROKEN_ALL_PLACES_NOT_COUNTED
		nested = (tlb_flush_pending > 0);
#endif
		look(i, 1)
	:: else ->
		nested = (tlb_flush_pending > 1);
#ifndef BROKEN_PLACES_NOT_COUNTED
#ifdef BROKEN_OLDER_GATHER_LOOKS_AT_NONE
		if
		:: ranged -> look(i, 0)
		:: else
		fi
#else
		if
		:: ranged -> look(i, 0)
		/* It does not know its range. */
		:: !ranged -> nested = nested || !DRAINED
		fi
#endif
#endif
	fi
}

/* __hydra_gather_add_huge() */
inline take(i)
{
	gone[2 * n + i] = CACHED;
#ifndef BROKEN_MARK_TAKEN_BESIDE_A_GATHER
	look_from_gather(i);
#endif
	if
	:: nested || mark[i] -> targets = targets | BIT(i)
	:: else
	fi;
	mark[i] = mark[i] && nested;
	nested = false
}

inline raise()
{
	if
	:: by_place ->
		places[first]++;
#ifndef BROKEN_ONE_PLACE_RAISED
		if
		:: last != first -> places[last]++
		:: else
		fi
#endif
	:: else -> tlb_flush_pending++
	fi
}

inline lower()
{
	if
	:: by_place ->
		places[first]--;
#ifndef BROKEN_ONE_PLACE_RAISED
		if
		:: last != first -> places[last]--
		:: else
		fi
#endif
	:: else -> tlb_flush_pending--
	fi
}

inline flush_targets(i)
{
	if
	:: all || (targets & BIT(i)) -> tlb[i] = BIT(pte[i]) & CACHED
	:: else
	fi
}

/* The last flush: nothing that was to go is left. */
inline flush(i)
{
	flush_targets(i);
	assert_gone(i, gone[2 * n + i]);
	gone[2 * n + i] = 0
}

/* A gather of one place or both drops pages, or takes access from them. */
proctype gather(byte n)
{
	bool ranged, by_place, nested, protects, all;
	byte first, last, i, page, targets;

	/* tlb_gather_mmu_drop(), tlb_gather_mmu() */
	atomic {
		if
		:: first = X; last = X
		:: first = Y; last = Y
		:: !twice -> first = X; last = Y
		fi;
		if
		:: !twice -> protects = true
		:: true
		fi;
		ranged = !DRAINED
	};
	if
#ifdef BROKEN_PROTECTION_HAS_PLACES
	:: atomic { ranged && hydra_active -> by_place = true; looking++ }
#else
	:: atomic { ranged && hydra_active && !protects -> by_place = true; looking++ }
#endif
	/* More places than may be raised, or another caller */
	:: true
	fi;
#ifndef BROKEN_RAISED_AFTER_ENTRY
	raise();
	if
	:: by_place -> looking--
	:: else
	fi;
#endif
	/* zap_pte_range(), change_pte_range() */
	i = first;
	do
	:: i <= last ->
		atomic {
			/* What it finds gone, or takes away, no TLB may hold when it returns. */
			gone[2 * n + i] = CACHED & ~BIT(pte[i]);
			if
			:: pte[i] != NONE && !protects ->
				page = (pte[i] == B -> BIT(B) : BIT(A));
				store(i, NONE);
				take(i);
				/* tlb_flush_mmu() in the middle looks at no other gather, and frees the page. */
				if
				:: flush_targets(i); assert_gone(i, page)
				:: true
				fi;
				page = 0
			:: pte[i] == A && protects ->
				store(i, A_NONE);
				take(i)
			:: else
			fi;
			i++
		}
	:: else -> break
	od;
#ifdef BROKEN_RAISED_AFTER_ENTRY
	raise();
#endif
	/* tlb_finish_mmu() */
	look_from_gather(first);
	all = nested;
	if
	:: last != first -> look_from_gather(last); all = all || nested
	:: else
	fi;
#ifdef BROKEN_LOWERED_BEFORE_FLUSH
	lower();
#endif
	atomic {
		flush(first);
		flush(last);
		i = 0;
		all = false;
		nested = false;
		targets = 0;
		protects = false;
		ranged = false
	};
#ifndef BROKEN_LOWERED_BEFORE_FLUSH
	lower();
#endif
	d_step { by_place = false; first = X; last = X }
}

/* B replaces A: a new page, or a table with a part of a huge page in place of that. */
proctype faults(byte i)
{
	atomic {
		if
		:: pte[i] == NONE -> store(i, B)
		:: pte[i] == A_NONE -> store(i, A)
		:: else
		fi
	}
}

/* PAGEMAP_SCAN takes away part B of a page of which TLBs may hold all, A. */
proctype flushes(byte i)
{
	bool nested;

	atomic {
		if
		:: pte[i] == B ->
			store(i, NONE);
			/* hydra_range_targets(): the sharers of the table, or of huge entries, too */
			nested = (tlb_flush_pending > 0);
#ifndef BROKEN_FLUSH_IGNORES_PLACES
			look(i, 0);
#endif
			tlb[i] = (nested -> 0 : tlb[i] & ~BIT(B));
			assert_gone(i, CACHED)
		:: else
		fi
	}
}

/* Migration moves page A to another frame, and lets A be used for something else. */
proctype migrates(byte i)
{
	atomic {
		if
		/* ptep_clear_flush() */
		:: pte[i] == A ->
			store(i, NONE);
			tlb[i] = tlb[i] & ~BIT(A)
		/* pte_accessible() */
		:: pte[i] == A_NONE ->
			store(i, NONE);
			tlb[i] = (tlb_flush_pending -> tlb[i] & ~BIT(A) : tlb[i]);
			assert_gone(i, BIT(A))
		:: else
		fi
	}
}

/* hydra_split_locked(), hydra_deactivate() */
proctype splits()
{
	byte turn = 1;

	there = true;
	do
	:: turn <= 1 + twice ->
		hydra_active = true;
		return_gp = 0;
		hydra_active = false;
		atomic {
			return_gp = turn;
			passed = false;
			turn++
		}
	:: else -> break
	od
}

/* hydra_drained(), by a CPU that need not be one of the others; and RCU */
proctype drains()
{
	byte gp;

	do
	:: atomic { return_gp && !passed && !looking -> passed = true }
	:: atomic {
#ifdef BROKEN_DRAINED_WITHOUT_GRACE_PERIOD
		!hydra_active && return_gp && !places[X] && !places[Y] -> gp = return_gp
#else
#ifdef BROKEN_DRAINED_BY_ONE_COUNTER
		!hydra_active && return_gp && passed && !places[X] -> gp = return_gp
#else
		!hydra_active && return_gp && passed && !places[X] && !places[Y] -> gp = return_gp
#endif
#endif
	};
		d_step { drained_gp = gp; gp = 0 };
		break
	:: break
	od
}

init
{
	atomic {
		run gather(0);
		run gather(1);
		if
		:: run splits(); run drains()
		:: twice = true; run splits(); run drains()
		:: there = true; hydra_active = true; run faults(X); run flushes(X)
		:: there = true; hydra_active = true; run faults(Y); run migrates(Y)
		fi
	}
}
