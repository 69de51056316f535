/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Injected faults: each breaks one rule, to show that a test notices. Chosen in
 * /sys/kernel/mm/hydra/break; only with CONFIG_HYDRA_MM_INJECT.
 */
#ifndef _MM_HYDRA_INJECT_H
#define _MM_HYDRA_INJECT_H

#include <linux/compiler.h>
#include <linux/types.h>

/* Where a rule is about one domain, that is the last one. */
enum hydra_rule {
	HYDRA_BREAK_NONE,
	/* A changed entry does not reach the replica of one domain. */
	HYDRA_BREAK_SKIP_SET,
	/* A cleared entry does not. */
	HYDRA_BREAK_SKIP_CLEAR,
	/* The owner of a leaf table gets a replica of it. */
	HYDRA_BREAK_COPY_OWN,
	/* A domain uses a leaf table and is not among its sharers. */
	HYDRA_BREAK_FORGET_SHARER,
	/* The same for a copy of a huge entry. */
	HYDRA_BREAK_FORGET_HUGE_SHARER,
	/* A flush leaves out one domain that it should reach. */
	HYDRA_BREAK_SPARE_DOMAIN,
	/* A gather does not know whom the huge pages it takes are shared by. */
	HYDRA_BREAK_TAKE_QUIETLY,
	/* Nor, if it overlaps with others, what it has looked at. */
	HYDRA_BREAK_FORGET_VISITS,
	/* No flush takes it into account that others have taken huge pages there. */
	HYDRA_BREAK_FORGET_TAKEN,
	/* One that overlaps with others flushes for everybody. */
	HYDRA_BREAK_DISTRUST_GATHERS,
	/* Breaks no rule: who clears a huge entry is slow to flush. */
	HYDRA_BREAK_SLOW_FLUSH,
	/* He is, and a gather does not wait for him. */
	HYDRA_BREAK_SKIP_WAIT,
	/* Flushes are filtered while a collapse or a switch is at work. */
	HYDRA_BREAK_FILTER_ALWAYS,
	/* A domain that is flushed keeps its generation. */
	HYDRA_BREAK_SKIP_GENERATION,
	/* It does if none of its CPUs runs the address space: PCID. */
	HYDRA_BREAK_SKIP_IDLE_GENERATION,
	/* One that is spared does not: its CPUs pay later. */
	HYDRA_BREAK_CHARGE_SPARED,
	/* A replica is writable while the canonical entry is clean. */
	HYDRA_BREAK_WRITE_CLEAN,
	/* Accessed bits of replicas are ignored. */
	HYDRA_BREAK_IGNORE_ACCESSED,
	/* And not told to the canonical entries when a replica goes. */
	HYDRA_BREAK_DROP_ACCESSED,
	/* A table is freed while a domain still links it. */
	HYDRA_BREAK_KEEP_LINK,
	/* Tables of domains are freed but not given back. */
	HYDRA_BREAK_KEEP_CHARGE,
	/* Code that must not fault gets no entries. */
	HYDRA_BREAK_SKIP_ATOMIC_FILL,
	/* CPUs go on using their old root when it changes. */
	HYDRA_BREAK_SKIP_SWITCH,
	/* A domain uses the canonical tree and flushes do not know. */
	HYDRA_BREAK_DEGRADE_QUIETLY,
	/* A process with a single thread is split when it moves, and stays so. */
	HYDRA_BREAK_SPLIT_SINGLE,
	/* A domain that comes to the canonical tree is in no flush. */
	HYDRA_BREAK_LODGE_QUIETLY,
	/* A table that becomes shared forgets the domain that had it alone. */
	HYDRA_BREAK_FORGET_SOLO,
	/* A leaf table hangs elsewhere and its domains are not flushed. */
	HYDRA_BREAK_MOVE_QUIETLY,
	/* Tables are freed after a flush that has spared CPUs, without RCU. */
	HYDRA_BREAK_FREE_EARLY,
	/* Replicas are reclaimed and their domains not flushed. */
	HYDRA_BREAK_RECLAIM_QUIETLY,
	/* They are not reclaimed at all. */
	HYDRA_BREAK_HOARD_REPLICAS,
	/* Small mappings of all domains go where Linux puts them. */
	HYDRA_BREAK_MIX_PLACES,
	/* Any process may read and change the settings of any other. */
	HYDRA_BREAK_ADMIT_ANYONE,
	/* Events are counted as if no other CPU did: KCSAN. */
	HYDRA_BREAK_COUNT_PLAINLY,
	NR_HYDRA_RULES
};

#ifdef CONFIG_HYDRA_MM_INJECT
extern enum hydra_rule hydra_broken_rule;
extern struct kobj_attribute hydra_break_attr;

static inline bool hydra_breaks(enum hydra_rule rule)
{
	return unlikely(READ_ONCE(hydra_broken_rule) == rule);
}
#else
static inline bool hydra_breaks(enum hydra_rule rule)
{
	return false;
}
#endif

#endif /* _MM_HYDRA_INJECT_H */
