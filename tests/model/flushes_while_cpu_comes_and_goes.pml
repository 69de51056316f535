/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Flushes and generations. Two CPUs flush, each for a different page; or one CPU
 * reclaims, and flushes later. Meanwhile a third CPU leaves the address space, becomes
 * idle, and comes back. The sharers of the table are fixed for the run: domain 0, domain
 * 1 or both.
 *
 * One CPU that comes and goes is enough: the cached entries of one CPU do not affect
 * another CPU, and the sender decides for each CPU alone whether to interrupt. Only a
 * generation that depends on the set of running CPUs would need more: so in one run, a
 * single CPU of domain 1 runs the address space.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_GENERATION_NOT_RAISED              6
 *   BROKEN_GENERATION_NOT_RAISED_IF_NOT_RUN   6
 *   BROKEN_FLUSH_WITH_ONE_GENERATION          6 or 11
 *   BROKEN_CPUS_CHOSEN_BEFORE_GENERATION      6
 *   BROKEN_BATCH_RAISES_NO_GENERATION         6
 *   BROKEN_GENERATION_OF_SPARED_RAISED        10
 *   BROKEN_EVERY_DOMAIN_FLUSHED               10
 */
#define TWO_PAGES
#include "hydra.pml"

/* Unmaps A, maybe after a write-protection. */
proctype changer_a(byte cpu)
{
	KERNEL_VARIABLES;

	range = VALUES & ~BIT(B_DIRTY);
	if
	:: atomic { forbids[0] = BIT(A_DIRTY);
		canonical_store(A_RO);
		pte[R] = (present(pte[R]) -> A_RO : 0) }
	   look();
	   flush_tlb_mm_range(cpu, false);
	   flush_returned(0)
	:: skip
	fi;
	atomic { forbids[0] = BIT(A_RO) | BIT(A_DIRTY);
		canonical_store(NONE);
		pte[R] = (present(pte[R]) -> WANTED : 0) }
	look();
	flush_tlb_mm_range(cpu, false);
	flush_returned(0)
}

proctype changer_b(byte cpu)
{
	KERNEL_VARIABLES;

	range = BIT(B_DIRTY);
	atomic {
		forbids[1] = BIT(B_DIRTY);
		pte_b[T] = NONE;
		pte_b[R] = NONE
	};
	look();
	flush_tlb_mm_range(cpu, false);
	flush_returned(1)
}

/*
 * Reclaim unmaps B, hydra_tlbbatch_add() records the CPUs, and arch_tlbbatch_flush()
 * flushes later.
 */
proctype batch(byte cpu)
{
	KERNEL_VARIABLES;
	byte cpumask;

	atomic {
		forbids[1] = BIT(B_DIRTY);
		pte_b[T] = NONE;
		pte_b[R] = NONE
	};
	look();
#ifndef BROKEN_BATCH_RAISES_NO_GENERATION
	raise_targets();
#endif
	cpumask = mm_cpumask & ((targets & BIT(0) -> own_cpus(0) : 0) |
				(targets & BIT(1) -> own_cpus(1) : 0));
	forget_flush();
	/* arch_tlbbatch_flush(), later, for pages of any address space. */
	d_step {
		ipis = cpumask & ~((is_lazy[0] -> BIT(0) : 0) | (is_lazy[1] -> BIT(1) : 0) |
				   (is_lazy[2] -> BIT(2) : 0) | (is_lazy[3] -> BIT(3) : 0));
		cpumask = 0
	};
	send_interrupts();
	flush_returned(1)
}

/* The flushing CPU has never run the address space. */
inline absent(cpu)
{
	d_step {
		leave_mm(cpu);
		ctx[cpu] = false;
		ctx_tlb_gen[cpu] = 0;
		tlb[cpu] = 0;
		psc[cpu] = 0
	}
}

init
{
	atomic {
		pte[T] = A_DIRTY;
		pte_b[T] = B_DIRTY;
		if
		:: pte_b[R] = NONE; boot(1)
		:: pte_b[R] = B_DIRTY; boot(2)
		:: pte_b[R] = B_DIRTY; boot(3)
		fi;
		run changer_a(0);
		if
		:: run changer_b(2)
		:: run batch(2)
		fi;
		if
		:: run scheduler(1, 2)
		:: run scheduler(3, 2)
		:: absent(2); run scheduler(3, 2)
		fi
	}
}
