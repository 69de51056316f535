/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Void marks (filter "accessed"): a CPU of domain 0 ages a copy of domain 1, changes the
 * entry, and spares domain 1 if the mark is void. A CPU of domain 1 walks, leaves the
 * process, loses its context to another process, comes back. A flush in whole reaches
 * domain 1 at any time. Modelled: idle.c, hydra_age_copy(), hydra_mark(),
 * hydra_take_marks(). The scenario needs no other part of the mechanism, and includes no
 * file. Seconds are not wrapped: a stamp that looks too young only costs a flush.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_SECOND_READ_BEFORE_AGING           6
 *   BROKEN_SECOND_READ_AFTER_LOAD             6
 *   BROKEN_SECOND_READ_AFTER_FULL_FLUSH       6
 *   BROKEN_SAME_SECOND_IS_LATER               6
 *   BROKEN_EARLIER_STAMP_KEPT_AT_AGING        6
 *   BROKEN_CONTEXT_NOT_LOADED_IGNORED         6
 *   BROKEN_STAMP_KEPT_WHEN_ACCESSED_AGAIN     6
 *   BROKEN_FULL_FLUSH_RAISES_NO_GENERATION    6
 */
#define LAST_SECOND	3
#define NO_STAMP	7
#define NOTHING		7		/* no walk under way */
#define OLDER(v)	((1 << (v)) - 1)

byte second = 1;

/* The canonical entry: the number of changes. The entry is always present. */
byte version;
bool ptl;

/* The copy of domain 1 */
byte copied;
bool accessed;
bool marked;				/* HYDRA_PTE_MARKED */
byte stamp = NO_STAMP;			/* HYDRA_PTE_STAMP */

/*
 * The CPU of domain 1. Its context of the process is loaded, kept while another process
 * runs, or gone. Old translations of a context that is gone, or behind its generation,
 * are flushed before the CPU uses the context.
 */
mtype = { LOADED, KEPT, GONE };
mtype context = LOADED;
bool behind;
byte walk = NOTHING;
byte tlb;				/* the set of cached versions */
byte context_flushed;			/* hydra_context_flushed[] */

/* struct hydra_domain */
byte dom_flushed;

inline lock()
{
	atomic { !ptl -> ptl = true }
}

inline unlock()
{
	ptl = false
}

/* A flush raises the generation, and interrupts the CPU if its context is loaded. */
inline flush_domain()
{
	d_step {
		if
		:: context == LOADED -> tlb = 0; walk = NOTHING
#ifndef BROKEN_FULL_FLUSH_RAISES_NO_GENERATION
		:: context == KEPT -> behind = true
#else
		:: context == KEPT
#endif
		:: context == GONE
		fi
	}
}

proctype clock()
{
	do
	:: second < LAST_SECOND -> second++
	:: second == LAST_SECOND -> break
	od
}

/* ptep_test_and_clear_young(): hydra_age_copy() */
proctype ager()
{
	byte now;

	lock();
#ifdef BROKEN_SECOND_READ_BEFORE_AGING
	now = second;
#endif
	if
	:: atomic {
		accessed -> accessed = false;
#ifndef BROKEN_EARLIER_STAMP_KEPT_AT_AGING
		stamp = NO_STAMP;
#endif
		marked = true
	};
#ifndef BROKEN_SECOND_READ_BEFORE_AGING
		now = second;
#endif
		/* The other cmpxchg() */
		atomic {
			if
			:: !accessed && marked && stamp == NO_STAMP -> stamp = now
			:: else
			fi
		}
	:: !accessed
	fi;
	unlock()
}

/* Changes the entry, looks at the mark, and flushes unless the mark is void. */
proctype changer()
{
	byte now, since;
	bool target;

	lock();
	atomic {
		version++;
		copied = version;
		/* hydra_mark() */
		if
		:: accessed ->
#ifdef BROKEN_STAMP_KEPT_WHEN_ACCESSED_AGAIN
			stamp = (marked -> stamp : NO_STAMP);
#else
			stamp = NO_STAMP;
#endif
			marked = true
		:: !accessed
		fi;
		accessed = false
	};
	/* hydra_take_marks(), hydra_is_void(): nothing but hardware changes the copy now. */
	if
	:: marked && stamp == NO_STAMP -> target = true
	:: marked && stamp != NO_STAMP ->
		now = second;
		/* hydra_look_at_contexts() */
		atomic {
			if
			:: context == GONE -> since = now
#ifdef BROKEN_CONTEXT_NOT_LOADED_IGNORED
			:: context == KEPT -> since = now
			:: context == LOADED -> since = context_flushed
#else
			:: context != GONE -> since = context_flushed
#endif
			fi
		};
		/* hydra_domain_flushed() */
		dom_flushed = (since > dom_flushed -> since : dom_flushed);
#ifdef BROKEN_SAME_SECOND_IS_LATER
		target = dom_flushed < stamp
#else
		target = dom_flushed <= stamp
#endif
	:: !marked
	fi;
	marked = false;
	stamp = NO_STAMP;
	if
	:: target -> flush_domain()
	:: !target
	fi;
	/* No translation that the CPU can use is older than the entry. */
	assert(6 && (context == GONE || behind ||
		     (!(tlb & OLDER(version)) && (walk == NOTHING || walk >= version))));
	unlock()
}

/* Another flush of domain 1, in whole: hydra_flush_targets() */
proctype full_flush()
{
	byte now;

#ifndef BROKEN_SECOND_READ_AFTER_FULL_FLUSH
	now = second;
#endif
	flush_domain();
#ifdef BROKEN_SECOND_READ_AFTER_FULL_FLUSH
	now = second;
#endif
	atomic { dom_flushed = (now > dom_flushed -> now : dom_flushed) }
}

/* The CPU of domain 1 leaves and comes back: switch_mm_irqs_off() */
proctype switches()
{
	byte now;

end_of_switches:
	do
	:: atomic { context == LOADED -> context = KEPT; walk = NOTHING }
	:: atomic { context == KEPT -> context = GONE }
	:: atomic { context == KEPT && !behind -> context = LOADED }
	:: (context == KEPT && behind) || context == GONE ->
#ifndef BROKEN_SECOND_READ_AFTER_LOAD
		/* __hydra_switching() */
		now = second;
#endif
		/*
		 * Context and root: one step here. In between, loaded_mm is
		 * LOADED_MM_SWITCHING, and the mark is not void.
		 */
		atomic { context = LOADED; behind = false; tlb = 0 };
#ifdef BROKEN_SECOND_READ_AFTER_LOAD
		now = second;
#endif
		/* hydra_context_flushed() */
		context_flushed = now
	od
}

/* A walk sets the accessed bit, and then caches the version that the walk read. */
proctype hardware()
{
end_of_walks:
	do
	:: atomic {
		context == LOADED && walk == NOTHING -> accessed = true; walk = copied
	}
	:: atomic {
		context == LOADED && walk != NOTHING -> tlb = tlb | (1 << walk); walk = NOTHING
	}
	od
}

init
{
	atomic {
		/* The copy was aged before. */
		if
		:: marked = true; stamp = 1
		:: true
		fi;
		run clock();
		run ager();
		run changer();
		run full_flush();
		run switches();
		run hardware()
	}
}
