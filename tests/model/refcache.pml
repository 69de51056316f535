/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Refcache, lib/refcache/refcache.c: an object, counted by CPUs that keep the changes of its count
 * to themselves until an epoch's flush. Stands alone. A step of a CPU is what other CPUs
 * can see at once, in one order for all. Get and put are one step each, as a CPU that counts,
 * or flushes, is not preempted.
 *
 * The invariants:
 *   1   An object that a thread has a reference to is not released.
 *   2   An object without references is released by the end of the second epoch that
 *       begins after the last was put. So epochs come as long as they are needed.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_NO_DIRTY_BIT                    1
 *   BROKEN_ONE_EPOCH                       1
 *   BROKEN_CPU_SKIPPED                     1
 *   BROKEN_DELTA_OF_ZERO_SKIPPED           1
 *   BROKEN_OFFLINE_CPU_KEEPS_DELTAS        1 or 2
 *   BROKEN_DYING_BIT_IGNORED               1
 *   BROKEN_FLUSH_WITHIN_TRYGET             1 or 2
 *   BROKEN_COUNT_BELOW_ZERO_FORGOTTEN      2
 *   BROKEN_PUT_ASKS_FOR_NO_EPOCH           2
 *   BROKEN_ASKED_FORGOTTEN_LATE            2
 */
#define CPUS 3
#define MOST 3			/* references at a time */
#define OPERATIONS 7		/* of all CPUs together */
#define CONFLICTS 1		/* deltas that make room for another object's */

byte held = 1;			/* references of threads: the true count */
bool freed;

/* The word of the object, and its weak reference */
short count = 1;
bool waits, dirty;
bool weak, dying;

byte where;
#define NOWHERE	0
#define QUEUED	1		/* on the list of a CPU */
#define TAKEN	2		/* for the review after this epoch */

/* What a CPU keeps: an entry that is used may have a delta of 0. */
short delta[CPUS];
bool used[CPUS];

bool online[CPUS] = true;
bool hotplug;			/* a CPU goes */
bool epoch;			/* cpus_read_lock() */
bool asked[CPUS];		/* the CPU is to flush */
bool wanted;			/* an epoch */

byte operations = OPERATIONS;
byte conflicts = CONFLICTS;
bool may_leave;

/* For invariant 2 */
byte whole;			/* epochs that began after the last operation */
bool undisturbed;

inline operation()
{
	operations--;
	whole = 0;
	undisturbed = false
}

inline queue()
{
	where = QUEUED;
	wanted = true
}

/* refcache_evict() */
inline evict(c)
{
	atomic {
		if
#ifdef BROKEN_DELTA_OF_ZERO_SKIPPED
		:: used[c] && delta[c] ->
#else
		:: used[c] ->
#endif
			count = count + delta[c];
			if
			:: waits -> dirty = true
#ifdef BROKEN_COUNT_BELOW_ZERO_FORGOTTEN
			:: !waits && count == 0 ->
#else
			:: !waits && count <= 0 ->
#endif
				waits = true;
				first = true
			:: else
			fi
		:: else
		fi;
		delta[c] = 0;
		used[c] = false
	};
	if
	:: atomic { first -> first = false }; queue()
	:: atomic { else -> skip }
	fi
}

/* With preemption disabled: a flush comes before or after a step of the loop. */
proctype cpu(byte c)
{
	bool first;

end:	do
	/* refcache_get(): a thread of this CPU copies a reference of any thread. */
	:: atomic { online[c] && operations && held && held < MOST ->
		operation();
		held++;
		delta[c]++;
		used[c] = true
	   }
	/* refcache_put(): of any thread */
	:: atomic { online[c] && operations && held ->
		operation();
		held--;
		delta[c]--;
		used[c] = true;
#ifndef BROKEN_PUT_ASKS_FOR_NO_EPOCH
		wanted = wanted || delta[c] < 0
#endif
	   }
	/* refcache_get_weak() */
	:: atomic { online[c] && operations && weak && !freed && held < MOST ->
		operation();
		held++;
		dying = false
	   };
#ifdef BROKEN_FLUSH_WITHIN_TRYGET
		if
		:: asked[c] -> evict(c); asked[c] = false
		:: true
		fi;
#endif
		atomic {
			delta[c]++;
			used[c] = true
		}
	/* Another object of the same hash */
	:: atomic { online[c] && conflicts && used[c] -> conflicts-- };
		evict(c)
	/* refcache_flush() */
	:: asked[c] ->
		evict(c);
		asked[c] = false
	/* refcache_dead() */
	:: atomic { c == 0 && online[c] && may_leave && !epoch && !hotplug ->
		may_leave = false;
		hotplug = true;
		online[c] = false
	   };
#ifndef BROKEN_OFFLINE_CPU_KEEPS_DELTAS
		evict(c);
#endif
		hotplug = false
	:: atomic { !online[c] && !epoch -> online[c] = true }
	od
}

/* What the review looks at later: whether anything has changed since. */
inline begin()
{
	if
	:: atomic { where == QUEUED -> where = TAKEN };
		dirty = false;
		dying = weak
	:: atomic { else -> skip }
	fi
}

inline flush_all()
{
	atomic { !hotplug -> epoch = true };
	atomic {
		asked[0] = online[0];
		asked[1] = online[1];
#ifndef BROKEN_CPU_SKIPPED
		asked[2] = online[2]
#endif
	};
	atomic { !asked[0] && !asked[1] && !asked[2] -> epoch = false }
}

/* refcache_review() */
inline review()
{
	if
	:: atomic { where == TAKEN -> where = NOWHERE };
		if
#ifdef BROKEN_COUNT_BELOW_ZERO_FORGOTTEN
		:: atomic { count != 0 -> waits = false }
#else
		:: atomic { count > 0 -> waits = false }
		:: atomic { count < 0 -> skip };
			queue()
#endif
#ifdef BROKEN_NO_DIRTY_BIT
		:: atomic { count == 0 -> skip };
#else
		:: atomic { count == 0 && dirty -> skip };
			queue()
		:: atomic { count == 0 && !dirty -> skip };
#endif
			if
#ifdef BROKEN_DYING_BIT_IGNORED
			:: atomic { true ->
#else
			:: atomic { !dying && weak -> skip };
				queue()
			:: atomic { dying || !weak ->
#endif
				assert(1 && held == 0);
				freed = true
			   }
			fi
		fi
	:: atomic { else -> skip }
	fi
}

/* refcache_epoch() */
proctype epochs()
{
end:	do
	:: atomic { wanted ->
#ifndef BROKEN_ASKED_FORGOTTEN_LATE
		wanted = false;
#endif
		undisturbed = true
	   };
#ifdef BROKEN_ONE_EPOCH
		flush_all();
		begin();
#else
		begin();
		flush_all();
#endif
		review();
#ifdef BROKEN_ASKED_FORGOTTEN_LATE
		wanted = false;
#endif
		atomic {
			if
			:: undisturbed && whole < 2 -> whole++
			:: else
			fi;
			assert(2 && (freed || held || whole < 2))
		}
	od
}

/* When nothing is left to do */
proctype observer()
{
	timeout -> assert(2 && (freed || held))
}

init
{
	atomic {
		if
#ifndef BROKEN_OFFLINE_CPU_KEEPS_DELTAS
		:: weak = true
#endif
		:: may_leave = true
		fi;
		run cpu(0);
		run cpu(1);
		run cpu(2);
		run epochs();
		run observer()
	}
}
