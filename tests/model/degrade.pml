/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A domain begins to use the canonical root: hydra_degrade() of mm/hydra/core.c, while
 * an entry is changed and flushed for, or the table is taken away, and a CPU of the
 * domain comes and goes.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_DEGRADED_FIRST           6
 *   BROKEN_DEGRADED_QUIETLY         6
 *   BROKEN_NO_SECOND_LOOK           6
 */
#define SWITCHES
#define PLAIN_STORES
#include "hydra.pml"
#include "switch.pml"

proctype degrade()
{
	KERNEL_VARIABLES;

	hydra_degrade(1)
}

/* Takes the leaf table away, as munmap.pml does in full. */
proctype unmapper(byte cpu)
{
	KERNEL_VARIABLES;
	byte replica, users;

	d_step {
		pmd = 0;
		forbids[0] = VALUES;
		cpus_walk()
	};
	table_detach();
	if
	:: t ->
		users = ht[t].sharers;
		table_cut_domain(0);
		table_cut_domain(1);
		replica = table;
		call_rcu(HT(t))
	:: else
	fi;
	gather_targets(users);
	flush_tlb_mm_targets(cpu, true);
	flush_returned(0);
	if
	:: replica > T -> call_rcu(replica)
	:: else
	fi;
	call_rcu(T)
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		if
		:: boot(0)
		:: boot(1)
		:: boot(2)
		:: boot(3)
		fi;
		if
		:: run changer(0, 0)
		:: run unmapper(0)
		fi;
		run degrade();
		run scheduler(3, 2)
	}
}
