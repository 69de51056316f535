/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flushes of nested trees (KVM): a VM has two trees, and a flush spares the vCPUs that use a
 * tree in which nothing has changed. The host invalidates the guest's page, and frees the
 * frame. Another CPU takes write permission away in both trees, and flushes without mmu_lock;
 * or it zaps the entry of one tree, and flushes with mmu_lock held for reading. A fault takes
 * write permission away in one tree, and does not flush. Two of these three things happen at a
 * time. Other faults set the entry, or copy it from the other tree. Two vCPUs enter the guest,
 * leave it, and change trees: each on a CPU of its own, or in turns on one CPU. The VM filters
 * flushes from the beginning, or from some time on. The scenario includes no file.
 *
 * There is one page. Its entry in each tree is absent, frozen, or maps the frame. A CPU caches
 * the entries of each tree by themselves, as VMX does, and keeps those of a tree that the vCPU
 * has left. In the guest, a CPU caches whatever it can. All other steps of a vCPU can be
 * preempted.
 *
 * Before the flush, the protector waits for the fault that takes write permission away and has
 * not counted that yet: hydra_vm_settle(). The invalidation and the zapper need not wait: the
 * invalidation holds mmu_lock for writing, so the fault has counted; and the zapper counts its
 * own change, of the same entry and after the fault's, so its flush covers both.
 *
 * One step, because no other order makes a difference:
 * - A flusher reads both counts: what it has changed itself was counted before.
 * - A flusher looks at a vCPU's domain, makes the request, and looks at the mode: a request
 *   that comes too late for the domain is one too many.
 * - A vCPU takes its request back, and flushes.
 *
 * Invariants:
 * 1. When the flush after a change has returned, no vCPU can use what the entry was before.
 * 2. No vCPU can use a frame that has been freed.
 * 3. No entry maps a frame that has been freed.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_COUNTED_BEFORE_CHANGE                1 or 2
 *   BROKEN_DOMAINS_READ_BEFORE_CHANGE           1 or 2
 *   BROKEN_DOMAINS_READ_BEFORE_COUNTS           1 or 2
 *   BROKEN_FLUSHED_RAISED_BEFORE_WAIT           1 or 2
 *   BROKEN_FLUSHED_RAISED_TO_NEW_COUNT          1 or 2
 *   BROKEN_BITS_INSTEAD_OF_COUNTS               1 or 2
 *   BROKEN_DOMAIN_VISIBLE_AFTER_ENTRY           1 or 2
 *   BROKEN_DOMAIN_VISIBLE_AFTER_FLUSH           1 or 2
 *   BROKEN_ROOT_LOADED_WITHOUT_FLUSH            1 or 2
 *   BROKEN_FILTER_ON_WITHOUT_COUNT              1 or 2
 *   BROKEN_COPY_WHILE_INVALIDATED               3
 *   BROKEN_WRITABLE_COPY_IN_LOGGED_SLOT         1
 *   BROKEN_FLUSH_WITHOUT_SETTLING               1
 */
#define invariant(n, holds)	assert((n) && (holds))

#define BIT(n)		(1 << (n))

/* An entry. The first three are also the most that a CPU has cached. */
#define ABSENT		0
#define READONLY	1
#define WRITABLE	2
#define FROZEN		3
#define present(e)	((e) == READONLY || (e) == WRITABLE)

/* struct kvm */
byte entry[2];			/* by tree */
bool write_locked;		/* mmu_lock */
byte readers;
bool invalidating;		/* mmu_invalidate_in_progress */
bool logged;			/* the memslot, since a grace period ago */

/* struct hydra_vm */
bool counting;			/* hydra_vm_key */
bool filtering;
byte changed[2];
byte flushed[2];

/* The frame */
bool freed;

/* struct kvm_vcpu */
#define OUTSIDE		0
#define ENTERING	1	/* IN_GUEST_MODE, requests not looked at */
#define INSIDE		2
byte mode[2];
byte domain[2];
byte root[2];
bool request[2];		/* KVM_REQ_TLB_FLUSH */
byte kicked[2];			/* the flushers that wait for the vCPU to leave the guest */

/* Hardware: a CPU by vCPU; what a CPU has cached of a tree */
bool one_cpu;
#define cpu_of(v)	(one_cpu -> 0 : (v))
byte tlb[4];
#define cached(v, d)	tlb[2 * cpu_of(v) + (d)]

/* A CPU in the guest caches whatever it can. */
inline walk(v)
{
	if
	:: mode[v] == INSIDE && present(entry[root[v]]) && cached(v, root[v]) < entry[root[v]] ->
		cached(v, root[v]) = entry[root[v]]
	:: else
	fi
}

/* For invariant 1: the flush after such a change has returned. */
bool protected;
byte zapped = 2;		/* a tree, until the entry is no longer frozen */

#define may_use(v)	\
	(mode[v] != INSIDE || \
	 !(protected && cached(v, root[v]) == WRITABLE) && \
	 !(zapped == root[v] && cached(v, root[v])))
#define uses_freed(v)	(mode[v] == INSIDE && freed && cached(v, root[v]))

inline check()
{
	invariant(1, may_use(0) && may_use(1));
	invariant(2, !uses_freed(0) && !uses_freed(1));
	invariant(3, !(freed && (present(entry[0]) || present(entry[1]))))
}

/* ------------------------------------------------------------- mmu_lock */

inline write_lock()
{
	atomic { !write_locked && !readers -> write_locked = true }
}

inline write_unlock()
{
	write_locked = false
}

inline read_lock()
{
	atomic { !write_locked -> readers++ }
}

inline read_unlock()
{
	readers--
}

/* A CPU that has changed an entry with mmu_lock held for reading has counted the change. */
inline hydra_vm_settle()
{
	atomic { write_lock(); write_unlock() }
}

/* -------------------------------------------------------------- changes */

inline hydra_vm_changed(d)
{
	d_step {
		if
#ifdef BROKEN_BITS_INSTEAD_OF_COUNTS
		:: counting -> changed[d] = 1
#else
		:: counting -> changed[d]++
#endif
		:: !counting
		fi
	}
}

/* Take something from an entry. The count comes after the entry: see hydra_vm_flush(). */
inline take(d, holds, new)
{
	if
#ifdef BROKEN_COUNTED_BEFORE_CHANGE
	:: atomic { holds -> hydra_vm_changed(d) };
		entry[d] = new;
#else
	:: atomic { holds -> entry[d] = new };
		hydra_vm_changed(d);
#endif
		taken = true
	:: else
	fi
}

/* -------------------------------------------------------------- flushes */

#define ALL	4		/* as in Linux, all vCPUs */

/* Has a tree changed since it was flushed? */
inline read_count(d)
{
	count[d] = changed[d];
	if
#ifdef BROKEN_BITS_INSTEAD_OF_COUNTS
	:: count[d] -> need = need | BIT(d); changed[d] = 0
#else
	:: flushed[d] < count[d] -> need = need | BIT(d)
#endif
	:: else -> count[d] = 0
	fi
}

/* The domains that the flusher believes the vCPUs to have */
#ifdef BROKEN_DOMAINS_READ_BEFORE_CHANGE
#define believed(v)	has[v]
#else
#ifdef BROKEN_DOMAINS_READ_BEFORE_COUNTS
#define believed(v)	has[v]
#else
#define believed(v)	domain[v]
#endif
#endif

inline look_at_domains()
{
	d_step { has[0] = domain[0]; has[1] = domain[1] }
}

/* kvm_make_vcpus_request_mask() of the vCPUs with a tree that has to be flushed */
inline request_flush(v, me)
{
	d_step {
		if
		:: need == ALL || (need & BIT(believed(v))) ->
			request[v] = true;
			kicked[v] = (mode[v] != OUTSIDE -> kicked[v] | BIT(me) : kicked[v])
		:: else
		fi
	}
}

inline raise_flushed(d)
{
#ifdef BROKEN_FLUSHED_RAISED_TO_NEW_COUNT
	count[d] = changed[d];
#endif
	if
	:: need != ALL && (need & BIT(d)) && flushed[d] < count[d] -> flushed[d] = count[d]
	:: else
	fi
}

/*
 * By flusher 0 or 1. A tree that is spared was flushed since, and that flush is over. smp_mb()
 * also stands between the flusher's own change and the domains: either the flusher sees the
 * domain that a vCPU has published, or the vCPU's walks see the change.
 */
inline hydra_vm_flush(me)
{
	if
	:: filtering ->
#ifdef BROKEN_DOMAINS_READ_BEFORE_COUNTS
		look_at_domains();
#endif
		d_step { read_count(0); read_count(1) }
		/* smp_mb() */
	:: !filtering -> need = ALL
	fi;
#ifdef BROKEN_FLUSHED_RAISED_BEFORE_WAIT
	d_step { raise_flushed(0); raise_flushed(1) };
#endif
	if
	:: need ->
		request_flush(0, me);
		request_flush(1, me);
		!((kicked[0] | kicked[1]) & BIT(me))
	:: !need
	fi;
	/* cmpxchg(), by tree */
	d_step {
#ifndef BROKEN_FLUSHED_RAISED_BEFORE_WAIT
		raise_flushed(0);
		raise_flushed(1);
#endif
		need = 0;
		count[0] = 0;
		count[1] = 0
	}
}

/* The host unmaps the page: kvm_mmu_notifier_invalidate_range_start(), ..._end() */
proctype invalidation()
{
	byte need, count[2], has[2];
	bool taken;

	atomic { write_lock(); invalidating = true };
#ifdef BROKEN_DOMAINS_READ_BEFORE_CHANGE
	look_at_domains();
#endif
	/* kvm_tdp_mmu_unmap_gfn_range() */
	take(0, present(entry[0]), ABSENT);
	/* tdp_mmu_iter_cond_resched() */
	if
	:: if
	   :: taken -> hydra_vm_flush(0); taken = false
	   :: !taken
	   fi;
	   write_unlock();
	   write_lock();
#ifdef BROKEN_DOMAINS_READ_BEFORE_CHANGE
	   look_at_domains()
#endif
	:: true
	fi;
	take(1, present(entry[1]), ABSENT);
	if
	:: taken -> hydra_vm_flush(0)
	:: !taken
	fi;
	write_unlock();
	/* The host's page table no longer maps the frame. */
	atomic { !write_locked && !readers -> invalidating = false; freed = true; check() }
}

/* A memslot is logged from now on: kvm_tdp_mmu_wrprot_slot(), kvm_flush_remote_tlbs_memslot() */
proctype protector()
{
	byte need, count[2], has[2];
	bool taken;

	read_lock();
#ifdef BROKEN_DOMAINS_READ_BEFORE_CHANGE
	look_at_domains();
#endif
	take(0, entry[0] == WRITABLE, READONLY);
	take(1, entry[1] == WRITABLE, READONLY);
	/* The flush is asked for in any case. */
	atomic { read_unlock(); taken = false };
#ifndef BROKEN_FLUSH_WITHOUT_SETTLING
	hydra_vm_settle();
#endif
	hydra_vm_flush(1);
	d_step { protected = true; check() }
}

/* tdp_mmu_zap_spte_atomic() */
proctype zapper()
{
	byte need, count[2], has[2], d;
	bool taken;

	if
	:: d = 0
	:: d = 1
	fi;
	read_lock();
#ifdef BROKEN_DOMAINS_READ_BEFORE_CHANGE
	look_at_domains();
#endif
	take(d, present(entry[d]), FROZEN);
	if
	:: taken ->
		hydra_vm_flush(1);
		d_step { zapped = d; check() };
		d_step { zapped = 2; entry[d] = ABSENT }
	:: !taken
	fi;
	read_unlock()
}

inline fill(d, new)
{
#ifdef BROKEN_WRITABLE_COPY_IN_LOGGED_SLOT
	entry[d] = new;
#else
	entry[d] = (logged -> READONLY : new);
#endif
	walk(0);
	walk(1);
	check()
}

#define fresh	(logged -> READONLY : WRITABLE)
#ifdef BROKEN_COPY_WHILE_INVALIDATED
#define may_copy	(!write_locked)
#else
#define may_copy	(!write_locked && !invalidating)
#endif

/*
 * Faults of vCPUs of either domain. What a fault does with mmu_lock held for reading is one
 * step: only cmpxchg() changes an entry meanwhile. A fault that has found the frame before the
 * invalidation, and takes mmu_lock after it, is stale: is_page_fault_stale().
 */
proctype faults()
{
end_of_faults:
	do
	/* kvm_tdp_mmu_map() */
	:: d_step { !write_locked && !invalidating && !freed && entry[0] == ABSENT -> fill(0, fresh) }
	:: d_step { !write_locked && !invalidating && !freed && entry[1] == ABSENT -> fill(1, fresh) }
	/* __hydra_vm_fill_around() of a fault nearby */
	:: d_step { may_copy && entry[0] == ABSENT && present(entry[1]) -> fill(0, entry[1]) }
	:: d_step { may_copy && entry[1] == ABSENT && present(entry[0]) -> fill(1, entry[0]) }
	od
}

/*
 * A fault that finds its entry writable, and the frame only readable: make_spte() by
 * tdp_mmu_map_handle_target_level(). It does not flush. Other CPUs see the entry
 * before it is counted.
 */
proctype downgrader()
{
	byte d;
	bool taken;

	if
	:: d = 0
	:: d = 1
	fi;
	read_lock();
	take(d, !invalidating && entry[d] == WRITABLE, READONLY);
	read_unlock()
}

/* From now on flushes are filtered. */
proctype settings()
{
	/* The static key is on, on all CPUs. Changes before were not counted. */
	counting = true;
	/* Each tree counts as changed. */
#ifndef BROKEN_FILTER_ON_WITHOUT_COUNT
	d_step { changed[0]++; changed[1]++ };
#endif
	filtering = true
}

/* vCPUs on CPUs of their own have nothing in common: one of them keeps its tree. */
#define moves(v)	(one_cpu || (v) == 0)

/* The domain is published, with a full barrier. The vCPU has no root until kvm_mmu_load(). */
inline publish_domain(v)
{
	d_step { moves(v) ->
		next = 1 - next;
#ifndef BROKEN_DOMAIN_VISIBLE_AFTER_ENTRY
#ifndef BROKEN_DOMAIN_VISIBLE_AFTER_FLUSH
		domain[v] = next
#endif
#endif
	}
}

inline kvm_mmu_load(v)
{
	d_step {
		root[v] = next;
#ifndef BROKEN_ROOT_LOADED_WITHOUT_FLUSH
		cached(v, next) = ABSENT
#endif
	}
#ifdef BROKEN_DOMAIN_VISIBLE_AFTER_FLUSH
	;
	domain[v] = next
#endif
}

/* vcpu_enter_guest() */
proctype vcpu(byte v)
{
	byte next = v;

end_of_vcpu:
	do
	:: publish_domain(v);
		kvm_mmu_load(v)
	/* KVM_REQ_TLB_FLUSH: kvm_vcpu_flush_tlb_all() */
	:: d_step { request[v] ->
		request[v] = false;
		cached(v, 0) = ABSENT;
		cached(v, 1) = ABSENT
	}
	:: atomic { !request[v] && !(one_cpu && mode[1 - v] != OUTSIDE) -> mode[v] = ENTERING };
		/* smp_mb__after_srcu_read_unlock(), kvm_vcpu_exit_request() */
		if
		:: request[v]
		:: d_step { !request[v] -> mode[v] = INSIDE; walk(v); check() }
#ifdef BROKEN_DOMAIN_VISIBLE_AFTER_ENTRY
			;
			/* The store buffer drains. */
			domain[v] = next
#endif
		fi;
		atomic { mode[v] = OUTSIDE; kicked[v] = 0 }
	od
}

init
{
	atomic {
		if
		:: one_cpu = true
		:: true
		fi;
		if
		:: entry[0] = WRITABLE
		:: !one_cpu
		fi;
		entry[1] = WRITABLE;
		domain[1] = 1;
		root[1] = 1;
		counting = true;
		filtering = true;
		if
		:: run downgrader();
			if
			:: logged = true; run protector()
			:: run zapper()
			:: run invalidation()
			fi
		:: run invalidation();
			if
			:: logged = true; run protector()
			:: run zapper()
			:: !one_cpu -> counting = false; filtering = false; run settings(); run zapper()
			fi
		fi;
		run faults();
		run vcpu(0);
		run vcpu(1)
	}
}
