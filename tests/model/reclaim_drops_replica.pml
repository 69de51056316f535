/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shrinker frees a replica, or domains leave a table that they no longer use, also the
 * owner (drop.pml). They leave the sharers of a table that stays, and the last one may have
 * the table alone again. The keeper chooses those that have not walked their links since its
 * last look. Meanwhile a CPU has changed an entry and not flushed yet, a domain comes back, and a
 * CPU of the domain comes and goes: its thread comes back while the domain leaves. The other CPU
 * of the domain has cached the link, and uses the table without walking the link again.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_SHARER_LEAVES_BEFORE_FLUSH   3
 *   BROKEN_DROPPED_WITHOUT_FLUSH        3 or 5
 *   BROKEN_DROP_SPARES_LAZY_CPUS        3 or 5
 *   BROKEN_TRUST_AGE                    3 or 5
 */
#define LINKS_AGE
#define PLAIN_STORES
#define FLUSH_AT_ONCE
#include "hydra.pml"
#include "drop.pml"

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
		run drop(0);
		run changer(0, 2);
		run faults(1, 2);
		run scheduler(3, 2)
	}
}
