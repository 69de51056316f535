/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Gathers overlap, for example of two threads in MADV_DONTNEED. When a gather has ended,
 * no TLB holds an entry that is cleared by then, whichever gather cleared the entry. A
 * fault of each domain maps a page anew meanwhile. Modelled: __tlb_gather_mmu(),
 * zap_pte_range(), tlb_finish_mmu() with the hook gather. The entry is of a small page,
 * or models a huge entry. zap_pmd_range() reads a huge entry without a lock. A flush
 * cannot look up the sharers of a huge page, because a table may have replaced the huge
 * entry by then: the gather records the sharers when it clears or changes a huge entry.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_GATHER_FLUSHES_FOR_OWN_ONLY    6
 *   BROKEN_SHARERS_LOOKED_UP_BEFORE_ZAP   6
 *   BROKEN_TAKEN_HUGE_PAGE_NOT_NOTED      6
 *   BROKEN_CHANGED_HUGE_PAGE_NOT_NOTED    6
 *   BROKEN_ENTRY_CLEARED_BEFORE_COPIES    6
 */
#include "hydra.pml"

bool huge;

/* A fault: Linux maps a new page if there is none. */
proctype faults(byte dom)
{
	KERNEL_VARIABLES;

	pte_offset_map_lock();
	if
	:: pte[T] == NONE -> set_pte_at(B_DIRTY)
	:: else
	fi;
	pte_unmap_unlock();
	fill_leaf(dom, false)
}

proctype gather(byte n, cpu, times)
{
	KERNEL_VARIABLES;
	bool cleared, changed, nested;
	byte users;			/* hydra_gather::sharers */

	do
	:: times ->
		times--;
		/* tlb_gather_mmu() */
		tlb_flush_pending++;
#ifdef BROKEN_SHARERS_LOOKED_UP_BEFORE_ZAP
		look();
		users = targets;
		forget_flush();
#endif
		/* zap_pmd_range() */
		if
		:: atomic { huge && pte[T] == NONE -> forbids[n] = VALUES }
		:: atomic { !huge || pte[T] != NONE -> skip };
		/* zap_pte_range(), zap_huge_pmd() */
		pte_offset_map_lock();
		atomic {
			cleared = present(pte[T]);
			forbids[n] = VALUES
		};
		if
		:: cleared ->
			if
			:: ptep_get_and_clear(); forbids[n] = VALUES
			/* change_huge_pmd() */
			:: huge && pte[T] == A_DIRTY -> set_pte_at(A_RO); changed = true
			fi;
#ifndef BROKEN_TAKEN_HUGE_PAGE_NOT_NOTED
			/* hydra_gather_add_huge() */
			if
#ifdef BROKEN_CHANGED_HUGE_PAGE_NOT_NOTED
			:: huge && !changed -> users = sharers_of(word)
#else
			:: huge -> users = sharers_of(word)
#endif
			:: else
			fi
#endif
		:: else
		fi;
		pte_unmap_unlock();
		fi;
		/* tlb_finish_mmu() */
		nested = (tlb_flush_pending > 1);
		if
#ifdef BROKEN_GATHER_FLUSHES_FOR_OWN_ONLY
		:: cleared && !huge ->
			h = true;
			hydra_gather_targets(users)
		:: else ->
			h = true;
			targets = users
#else
#ifdef BROKEN_SHARERS_LOOKED_UP_BEFORE_ZAP
		:: true ->
			h = true;
			targets = users
#else
#ifdef BROKEN_CHANGED_HUGE_PAGE_NOT_NOTED
		/* In the hope that the entry is still present. */
		:: nested || (cleared && !huge) || (changed && pte[T] != NONE) ->
#else
		:: nested || (cleared && !huge) ->
#endif
			h = true;
			hydra_gather_targets(users)
		:: else ->
			h = true;
			targets = users
#endif
#endif
		fi;
		if
		:: cleared || nested ->
			atomic {
				flush_tlb_mm_range(cpu, false);
				flush_returned(n)
			}
		:: else ->
			forget_flush();
			flush_returned(n)
		fi;
		tlb_flush_pending--;
		atomic {
			cleared = false;
			changed = false;
			nested = false;
			users = 0
		}
	:: else -> break
	od
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: huge = true
		:: true
		fi;
		if
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		run gather(0, 0, 2);
		run gather(1, 2, 1);
		run faults(0);
		run faults(1);
	}
}
