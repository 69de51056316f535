/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains leave a table that stays: hydra_drop() and hydra_unshare() of drop.c. The shrinker
 * chooses domains by their replicas, the keeper by accessed bits and ages of links, which are
 * hints. So any domains may leave at any time. With LINKS_AGE the keeper's choice is modelled,
 * too. Included by scenarios, after hydra.pml.
 */

/* Which domain links T alone, after the others have left; or one that has left */
#define last_domain	(ht[t].table[0] || (leave & BIT(0) && !ht[t].table[1]) -> 0 : 1)

/* T has no struct any more if one domain alone links it, or none uses it. */
inline hydra_unshare()
{
	atomic {
		done = !(ht[t].table[0] && ht[t].table[1]) && ht[t].table[1] <= T;
		gen = last_domain
	};
	if
	:: done ->
		lock_domain(gen);
		atomic {
#ifdef BROKEN_UNSHARED_WITHOUT_SECOND_LOOK
			/* Does not look whether the table is still in the canonical tree. */
			done = true;
#else
			done = (word == t && pmd == T);
#endif
			if
			:: done -> word = (ht[t].table[gen] -> SOLO(gen) : 0)
			:: else
			fi
		};
		unlock_domain(gen);
		if
		:: done -> call_rcu(HT(t))
		:: else
		fi
	:: else
	fi;
	atomic {
		done = false;
		gen = 0
	}
}

/* With the lock of T. In: t, its struct */
inline hydra_drop(cpu)
{
	if
	:: domains & BIT(0) ->
		hydra_table_cut_domain(0);
		leave = leave | (table -> BIT(0) : 0)
	:: else
	fi;
	if
	:: domains & BIT(1) ->
		hydra_table_cut_domain(1);
		atomic {
			leave = leave | (table -> BIT(1) : 0);
			dropped = (table > T -> table : 0)
		}
	:: else
	fi;
#ifdef BROKEN_SHARER_LEAVES_BEFORE_FLUSH
	ht[t].sharers = ht[t].sharers & ~leave;
#endif
#ifndef BROKEN_DROPPED_WITHOUT_FLUSH
	if
	:: leave ->
		/* hydra_flush_domains() */
		h = hydra_active;
#ifdef BROKEN_TRUST_AGE
		/* The age says that the domain holds nothing, and so does the bit until the cut. */
		targets = leave & walked;
#else
		targets = leave;
#endif
#ifdef BROKEN_DROP_SPARES_LAZY_CPUS
		flush_tlb_mm_range(cpu, false)
#else
		flush_tlb_mm_range(cpu, true)
#endif
	:: else
	fi;
#endif
	if
	:: dropped -> call_rcu(dropped)
	:: else
	fi;
	if
	:: leave ->
#ifndef BROKEN_SHARER_LEAVES_BEFORE_FLUSH
		ht[t].sharers = ht[t].sharers & ~leave;
#endif
		hydra_unshare()
	:: else
	fi;
	atomic {
		leave = 0;
		dropped = 0
	}
}

#ifdef LINKS_AGE
/* hydra_age_link(). The age of a link whose accessed bit stays clear is old enough. */
inline hydra_age_link(dom)
{
	if
	:: slot(dom) -> walked = walked & ~BIT(dom)
	:: else
	fi
}

/* hydra_look_at_table(), without the lock of the table */
inline hydra_look_at_table()
{
	atomic {
		reader_begin();
		t = word
	};
	if
	:: is_struct(t) ->
		d_step {
			not_freed(HT(t));
			hydra_age_link(0)
		};
		d_step { hydra_age_link(1) }
	:: else
	fi;
	atomic {
		t = 0;
		reader_end()
	}
}

/* The keeper: what it has looked at, it forgets later. Other domains use the table meanwhile. */
inline hydra_leavers()
{
	domains = EVERYBODY & ~walked
}
#endif

/* hydra_reclaim_table(), or hydra_forget() */
proctype drop(byte cpu)
{
	KERNEL_VARIABLES;
	byte domains, leave, dropped;

#ifdef LINKS_AGE
	hydra_look_at_table();
#endif
	pte_offset_map_lock();
	if
	:: locked ->
		/* Read once: a collapse takes the word away without the lock. */
		t = word;
		if
		:: is_struct(t) ->
			if
			:: domains = BIT(0)
			:: domains = BIT(1)
			:: domains = EVERYBODY
#ifdef LINKS_AGE
			:: hydra_leavers()
#endif
			fi;
			hydra_drop(cpu)
		:: else
		fi;
		pte_unmap_unlock()
	:: else
	fi
}
