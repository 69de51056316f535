/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * khugepaged: both ways in which a leaf table collapses. Included by scenarios, after hydra.pml,
 * with ANON_VMAS.
 */
#include "retract.pml"

/* collapse_huge_page(): no VMA is locked by others, T is kept. */
inline collapse_huge_page(cpu)
{
	down_write(VMA);
#ifndef BROKEN_COLLAPSE_WITHOUT_REVERSE_MAP_LOCK
	down_write(ANON_VMA);
#endif
	atomic {
		reader_begin();
		locked = true
	};
	pmdp_collapse_flush(cpu);
	atomic {
		locked = false;
		reader_end()
	};
	/* __collapse_huge_page_isolate() */
	atomic { !ptl -> skip };
	if
	:: d_step {		/* failed: put the table back */
		pmd = T;
		cpus_walk()
	   }
	:: skip
	fi;
	up_write(ANON_VMA);
	up_write(VMA)
}

proctype collapse(byte cpu)
{
	KERNEL_VARIABLES;

	if
	:: collapse_huge_page(cpu)
	:: retract_page_tables(cpu)
	fi
}
