/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A nested tree (KVM) goes while vCPUs use it, leave it, or come to it: because the VM gives it
 * up, and perhaps brings it back meanwhile, or because it is idle. A VM has two trees, of which tree 0 goes. Two vCPUs enter the guest,
 * fault, and change trees when they like, or are asked to. The scenario includes no file.
 *
 * The tree has a root, and below it a table, or none. A fault makes the table, once more if it is
 * gone. In the guest, a CPU caches where the table is. A root that has become invalid is not
 * loaded any more: a vCPU that comes then makes another. All other steps of a vCPU can be
 * preempted.
 *
 * One step, because no other order makes a difference:
 * - CPU 0 looks at a vCPU's domain, makes the request, and looks at the mode.
 * - A vCPU takes a request back, and does what it asks for, but for a change of trees.
 * - A vCPU frees its root before it writes its domain. It looks for a root with mmu_lock held
 *   for reading, and flushes it.
 *
 * Invariants:
 * 1. No vCPU is in the guest on a table that has been freed.
 * 2. Once all vCPUs have been asked to leave a tree that was given up, none is in the guest on it.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_ASKED_BEFORE_BIT                     2
 *   BROKEN_CHOSEN_ONCE                          2
 *   BROKEN_DOMAIN_VISIBLE_AFTER_CHOICE          2
 *   BROKEN_FREED_WITHOUT_FLUSH                  1
 *   BROKEN_VCPUS_LOOKED_FOR_BEFORE_LOCK         1
 *   BROKEN_ROOT_STAYS_LOADED                    1
 */
#define invariant(n, holds)	assert((n) && (holds))

/* struct hydra_vm */
bool given_up;			/* the bit of tree 0 */
bool asked;			/* after that, all vCPUs found in tree 0 */

/* struct kvm */
bool write_locked;		/* mmu_lock; what readers do is one step */
bool invalid;			/* the root of tree 0 */
byte table;			/* below it: a number; 0: none */
byte made;
bool freed[3];			/* by number */

/* struct kvm_vcpu */
#define OUTSIDE		0
#define ENTERING	1	/* IN_GUEST_MODE, requests not looked at */
#define INSIDE		2
#define NONE		0
#define GOES		1	/* the root that goes */
#define OTHER		2	/* of tree 1 */
#define AGAIN		3	/* another root of tree 0 */
byte mode[2];
byte domain[2];
byte root[2];
#define MOVE		1	/* KVM_REQ_HYDRA */
#define FLUSH		2	/* KVM_REQ_TLB_FLUSH */
#define FREE_ROOTS	4	/* KVM_REQ_MMU_FREE_OBSOLETE_ROOTS */
byte requests[2];
bool kicked[2];			/* CPU 0 waits for the vCPU to leave the guest. */
byte cached[2];			/* by its CPU: the table of the root that goes */

inline walk(v)
{
	if
	:: mode[v] == INSIDE && root[v] == GOES && table -> cached[v] = table
	:: else
	fi
}

#define right(v)	(mode[v] != INSIDE || root[v] != GOES || !freed[cached[v]])
#define left(v)		(!(asked && mode[v] == INSIDE && (root[v] == GOES || root[v] == AGAIN)))

inline check()
{
	invariant(1, right(0) && right(1));
	invariant(2, left(0) && left(1))
}

/* hydra_vm_ask() of one vCPU, if that has tree 0 */
inline ask(v, what)
{
	d_step {
		if
		:: domain[v] == 0 -> requests[v] = requests[v] | what; kicked[v] = (mode[v] != OUTSIDE)
		:: else
		fi
	}
}

inline ask_all(what)
{
	ask(0, what);
	ask(1, what);
	!kicked[0] && !kicked[1]
}

inline write_lock()
{
	atomic { !write_locked -> write_locked = true }
}

/* Tables are freed after a grace period, and after the flush. */
inline free_table(number)
{
	d_step {
		freed[number] = (number > 0);
		check()
	}
}

/* hydra_vm_tidy_work() */
proctype worker(bool idle)
{
	byte old;
	bool loaded;

	if
	:: !idle ->
		/* hydra_vm_give_up() */
#ifdef BROKEN_ASKED_BEFORE_BIT
		ask_all(MOVE);
		given_up = true;
#else
		given_up = true;
		/* smp_mb() */
		ask_all(MOVE);
#endif
		d_step { asked = true; check() }
	:: idle
	fi;
	/* hydra_vm_drop_part(): hydra_vm_empty() */
#ifdef BROKEN_VCPUS_LOOKED_FOR_BEFORE_LOCK
	loaded = (domain[0] == 0 || domain[1] == 0);
	write_lock();
#else
	write_lock();
	loaded = (domain[0] == 0 || domain[1] == 0);
#endif
	if
	:: idle && loaded -> goto stays
	:: else
	fi;
	d_step { old = table; table = 0 };
#ifndef BROKEN_FREED_WITHOUT_FLUSH
	if
	:: loaded -> ask_all(FLUSH)
	:: !loaded
	fi;
#endif
	write_locked = false;
	free_table(old);
	/* hydra_vm_bring_all_back(): vCPUs that have not run meanwhile find the tree as before. */
	if
	:: !idle -> d_step { given_up = false; asked = false }
	:: true
	fi;
	/* The last part: hydra_vm_drop_root() */
	write_lock();
	loaded = (domain[0] == 0 || domain[1] == 0);
	if
	:: idle && loaded -> goto stays
	:: else
	fi;
	invalid = true;
#ifndef BROKEN_ROOT_STAYS_LOADED
	if
	:: loaded -> ask_all(FREE_ROOTS)
	:: !loaded
	fi;
#endif
	write_locked = false;
	/* kvm_tdp_mmu_zap_invalidated_roots(): what faults have added */
	d_step { old = table; table = 0 };
	free_table(old);
	goto ends;
stays:
	write_locked = false;
ends:
	skip
}

/* __hydra_vm_move(): the CPU's domain is any. The vCPU frees its root if it changes trees. */
inline change_trees(v)
{
	requests[v] = requests[v] & ~MOVE;
	if
	:: given_up -> choice = 1
	:: !given_up -> choice = 0
	:: choice = 1
	fi;
	d_step {
		if
		:: choice != domain[v] -> root[v] = NONE
		:: else
		fi
	};
#ifndef BROKEN_DOMAIN_VISIBLE_AFTER_CHOICE
	domain[v] = choice;
	/* smp_mb() */
#endif
#ifndef BROKEN_CHOSEN_ONCE
	if
	:: choice == 0 && given_up -> requests[v] = requests[v] | MOVE
	:: else
	fi;
#endif
#ifdef BROKEN_DOMAIN_VISIBLE_AFTER_CHOICE
	domain[v] = choice;
#endif
	choice = 0
}

/* vcpu_enter_guest() */
proctype vcpu(byte v)
{
	byte choice;

end_of_vcpu:
	do
	:: change_trees(v)
	/* kvm_mmu_load(), which flushes */
	:: d_step { root[v] == NONE && !write_locked ->
		root[v] = (domain[v] == 1 -> OTHER : (invalid -> AGAIN : GOES));
		cached[v] = 0
	}
	/* A fault: not one on a root that is invalid, is_page_fault_stale() */
	:: d_step { root[v] == GOES && !write_locked && !invalid && !table && made < 2 ->
		made++;
		table = made
	}
	:: d_step { (requests[v] & FLUSH) -> requests[v] = requests[v] & ~FLUSH; cached[v] = 0 }
	:: d_step { (requests[v] & FREE_ROOTS) ->
		requests[v] = requests[v] & ~FREE_ROOTS;
		root[v] = (root[v] == GOES && invalid -> NONE : root[v])
	}
	:: atomic { root[v] != NONE && !requests[v] -> mode[v] = ENTERING };
		/* smp_mb__after_srcu_read_unlock(), kvm_vcpu_exit_request() */
		if
		:: requests[v]
		:: d_step { !requests[v] -> mode[v] = INSIDE; walk(v); check() }
		fi;
		/* In the guest, the CPU may walk later, too. */
		if
		:: d_step { mode[v] == INSIDE -> walk(v); check() }
		:: true
		fi;
		atomic { mode[v] = OUTSIDE; kicked[v] = false }
	od
}

init
{
	atomic {
		table = 1;
		made = 1;
		root[0] = GOES;
		if
		:: root[1] = GOES
		:: domain[1] = 1; root[1] = OTHER
		fi;
		if
		:: run worker(false)
		:: run worker(true)
		fi;
		run vcpu(0);
		run vcpu(1)
	}
}
