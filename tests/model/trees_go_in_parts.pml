/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The trees of a running process with many tables go in parts: hydra_return() of split.c. First
 * all domains use the canonical tree. Then the leaf table loses its domains without a flush,
 * while mmap_lock and the VMAs are free. The tables above follow, level by level, which is not
 * modelled. At last hydra_deactivate() ends the return. Meanwhile a CPU changes an entry and flushes, or has a gather; another CPU
 * flushes everything, or faults, or comes and goes, or a thread asks for a tree. Both domains have
 * trees, or domain 1 runs on the canonical root, or has left.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_ROOTS_NOT_SWITCHED               3 or 5 or 6
 *   BROKEN_FLUSH_KEEPS_OLD_ROOT             3 or 5 or 6
 *   BROKEN_DEGRADED_DOMAIN_NOT_UNIVERSAL    3 or 6
 *   BROKEN_DEGRADED_BEFORE_UNIVERSAL        3 or 6
 *   BROKEN_PARTS_BEGIN_BESIDE_FAULTS        3 or 5 or 6
 *   BROKEN_PROMOTED_WHILE_TREES_GO          3 or 5 or 6
 *   BROKEN_ATOMIC_FILL_IGNORES_ROOT         3
 */
#define SWITCHES
#define SPLITS
#define RETURNS
#define AT_ONCE
#define PARTS
#include "hydra.pml"
#include "switch.pml"

/* hydra_begin_return(); hydra_leave_tree() is the same as hydra_degrade(). */
inline begin_return()
{
#ifndef BROKEN_PARTS_BEGIN_BESIDE_FAULTS
	down_write(VMA);
#endif
	hydra_degrade(0);
	if
	:: trees & BIT(1) -> hydra_degrade(1)
	:: else
	fi;
	returning = true;
#ifndef BROKEN_PARTS_BEGIN_BESIDE_FAULTS
	up_write(VMA)
#endif
}

/* hydra_release_tables() */
inline release_leaves()
{
	pte_offset_map_lock();
	hydra_table_detach();
	hydra_table_release();
	pte_unmap_unlock()
}

/* Of two writers */
inline lock_mmap()
{
	atomic { !write_locked[MMAP] -> write_locked[MMAP] = true }
}

proctype return_in_parts()
{
	KERNEL_VARIABLES;

	lock_mmap();
	begin_return();
	up_write(MMAP);
	lock_mmap();
	release_leaves();
	up_write(MMAP);
	lock_mmap();
	hydra_deactivate();
	returning = false;
	up_write(MMAP)
}

/* A thread goes to user mode in a domain, maybe the first there: hydra_split(). */
proctype comes(byte dom)
{
	KERNEL_VARIABLES;

	lock_mmap();
	if
	:: hydra_active -> promote(dom)
	:: else
	fi;
	up_write(MMAP)
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		run return_in_parts();
		if
		:: boot(BIT(0));
			domain_1_is_new();
			if
			:: run faults(3, false)
			:: run faults(1, false)
			fi;
			run changer(0, 0)
		:: trees = BIT(0);
			boot(BIT(0));
			run comes(1);
			if
			:: domain_1_left(); run scheduler(3, 0); run changer(0, 0)
			:: run faults(3, false)
			fi
		:: boot(EVERYBODY);
			if
			:: run scheduler(3, 1); run truncation(0, 0)
			:: run faults(3, false); run changer(0, 0)
			:: run flusher(2); run changer(0, 0)
			fi
		fi
	}
}
