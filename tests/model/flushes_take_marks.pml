/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flushes by entry (filters "entry", "accessed" and "auto"): two flushes, a batch of reclaim, and
 * the cut of a link, at one entry of a shared leaf table. CPUs of domain 0 change and
 * flush. Hardware of domain 1 walks a copy of the entry, or domain 1 links the table.
 * Each flush promises that domain 1 caches no version older than the version which the
 * flushing CPU saw under the table's lock, whichever CPU changed the entry. Modelled:
 * marks.c, hydra_look_at_marks(), hydra_cut_links(). The scenario needs no other part of
 * the mechanism, and includes no file: domain 1 alone is a target or not.
 *
 * Under "auto" the mode of the table may change at any time. So each pass of a flush finds any
 * mode, whatever the one before has found, and other tables of the range may have the flush look.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_MARK_LOST_AT_AGING             6
 *   BROKEN_MARK_LOST_AT_FILL              6
 *   BROKEN_MARK_LOST_AT_NEW_VALUE         6
 *   BROKEN_COPY_MARKED_AFTER_EXCHANGE     6
 *   BROKEN_TAKEN_BEFORE_PUBLISHED         6
 *   BROKEN_FINE_UNPUBLISHED               6
 *   BROKEN_TAKEN_AFTER_FLUSH              6
 *   BROKEN_OTHERS_READ_BEFORE_LOOK        6
 *   BROKEN_BATCH_TAKES                    6
 *   BROKEN_LINKER_SPARED                  6
 *   BROKEN_SHARER_WITHOUT_TABLE_SPARED    6
 *   BROKEN_CUT_WITHOUT_FLUSH              6
 *   BROKEN_SHARER_REMOVED_BEFORE_FLUSH    6
 *   BROKEN_CACHED_BEFORE_ACCESSED         6
 */
#define NOTHING		7		/* no walk under way */
#define OLDER(v)	((1 << (v)) - 1)

/* The canonical entry: the number of changes, and whether the entry is present */
byte version;
bool present = true;
bool ptl;

/* What domain 1 has for the table: a link, a replica, or nothing */
bool sharer = true;
bool linked;
bool replica;

/* The copy, if there is a replica */
byte copied;
bool copy_present;
bool accessed;
bool marked;				/* HYDRA_PTE_MARKED */

/* CPUs of domain 1: the version that the last walk read, and the set of cached versions */
byte walk = NOTHING;
byte tlb;

/* struct hydra_published of two CPUs: visible, and domain 1 among the targets */
bool published[2];
bool covers[2];

inline lock()
{
	atomic { !ptl -> ptl = true }
}

inline unlock()
{
	ptl = false
}

inline flush_domain()
{
	d_step { tlb = 0; walk = NOTHING }
}

/* Context: the lock. The entry is cleared, or set to another value. */
inline change()
{
	atomic {
		version++;
		if
		:: present = true
		:: present = false
		fi;
#ifdef BROKEN_COPY_MARKED_AFTER_EXCHANGE
		was = marked || (copy_present && accessed);
		marked = false;
#else
#ifdef BROKEN_MARK_LOST_AT_NEW_VALUE
		marked = marked || (copy_present && accessed && !present);
#else
		/* hydra_update_copy(), hydra_clear_copy(): one cmpxchg() */
		marked = marked || (copy_present && accessed);
#endif
#endif
		accessed = false;
		copied = version;
		if
		:: replica && present && !copy_present -> copy_present = true
		:: copy_present = copy_present && present
		fi
	};
#ifdef BROKEN_COPY_MARKED_AFTER_EXCHANGE
	marked = marked || was
#endif
}

/* hydra_publish(): until a flush has looked, the flush covers all domains. */
inline publish(n)
{
	atomic { published[n] = true; covers[n] = true }
}

/* hydra_add_marked() */
inline look_at_marks(take)
{
	atomic {
		if
#ifndef BROKEN_LINKER_SPARED
		:: linked -> target = true
#endif
#ifndef BROKEN_SHARER_WITHOUT_TABLE_SPARED
		:: !linked && !replica -> target = true
#endif
		:: replica && marked ->
			target = true;
			marked = !(take)
		:: else
		fi
	}
}

/* hydra_add_leaf(): by the mode of the table, at marks or by table */
inline look(take)
{
	if
	:: look_at_marks(take)
	:: target = true
	fi
}

/* hydra_add_published() */
inline add_published(other)
{
	target = target || (published[other] && covers[other])
}

inline assert_flushed(v)
{
	assert(6 && (!(tlb & OLDER(v)) && (walk == NOTHING || walk >= v)))
}

/* Changes the entry, or finds a changed entry, and flushes: hydra_look_at_marks() */
proctype flusher(byte n)
{
	byte seen;
	bool target, was;

	lock();
	if
	:: change()
	:: true
	fi;
	seen = version;
	unlock();
	/* By table, first */
	if
	:: sharer ->
		/* No table of the range asks for a look. */
#ifdef BROKEN_FINE_UNPUBLISHED
		look(true);
#else
		target = true;
#endif
		if
		:: target -> flush_domain()
		:: else
		fi
	:: sharer ->
#ifdef BROKEN_OTHERS_READ_BEFORE_LOOK
		publish(n);
		add_published(1 - n);
		look(true);
		covers[n] = target;
#else
#ifdef BROKEN_TAKEN_BEFORE_PUBLISHED
		look(true);
		publish(n);
#else
		publish(n);
#ifdef BROKEN_TAKEN_AFTER_FLUSH
		look(false);
#else
		look(true);
#endif
#endif
		covers[n] = target;
		add_published(1 - n);
#endif
		if
		:: target -> flush_domain()
		:: else
		fi;
#ifdef BROKEN_TAKEN_AFTER_FLUSH
		if
		:: target && replica -> marked = false
		:: else
		fi;
#endif
		/* hydra_unpublish() */
		published[n] = false
	:: !sharer
	fi;
	assert_flushed(seen)
}

/* hydra_tlbbatch_add(), and the flush of the batch */
proctype batch()
{
	byte seen;
	bool target, was;

	lock();
	change();
	seen = version;
	if
	:: sharer ->
#ifdef BROKEN_BATCH_TAKES
		look(true);
#else
		look(false);
#endif
		add_published(0);
		add_published(1)
	:: !sharer
	fi;
	unlock();
	if
	:: target -> flush_domain()
	:: else
	fi;
	assert_flushed(seen)
}

/* ptep_test_and_clear_young() */
proctype ager()
{
	lock();
	atomic {
		if
		:: copy_present && accessed ->
			accessed = false;
#ifndef BROKEN_MARK_LOST_AT_AGING
			marked = true
#endif
		:: else
		fi
	};
	unlock()
}

/* hydra_cut_links() */
proctype cutter()
{
	lock();
	if
	:: linked ->
		linked = false;
#ifdef BROKEN_SHARER_REMOVED_BEFORE_FLUSH
		sharer = false;
#endif
#ifndef BROKEN_CUT_WITHOUT_FLUSH
		flush_domain();
#endif
		sharer = false
	:: else
	fi;
	unlock()
}

/* Faults of domain 1 fill, or prefetch. */
proctype faults()
{
end_of_faults:
	do
	:: atomic {
		!ptl && !linked && present && !copy_present ->
		sharer = true;
		replica = true;
		copied = version;
		copy_present = true;
#ifdef BROKEN_MARK_LOST_AT_FILL
		marked = false;
#endif
		accessed = false
	}
	od
}

/* A walk sets the accessed bit, and then caches the version that the walk read. */
proctype hardware()
{
end_of_walks:
	do
	:: atomic {
		walk == NOTHING && copy_present ->
#ifndef BROKEN_CACHED_BEFORE_ACCESSED
		accessed = true;
#endif
		walk = copied
	}
	:: atomic { walk == NOTHING && linked && present -> walk = version }
	:: atomic {
		walk != NOTHING ->
		tlb = tlb | (1 << walk);
#ifdef BROKEN_CACHED_BEFORE_ACCESSED
	};
	atomic {
		accessed = accessed || (copy_present && copied == walk);
#endif
		walk = NOTHING
	}
	od
}

init
{
	atomic {
		if
		:: linked = true; run cutter()
		:: replica = true; copy_present = true; run ager()
		fi;
		run flusher(0);
		run flusher(1);
		run batch();
		run faults();
		run hardware()
	}
}
