// SPDX-License-Identifier: GPL-2.0-only
/*
 * Roots: how CPUs switch to another root, a domain that uses the canonical one for a time,
 * and the LDT mapping common to all roots.
 */

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/smp.h>

#include <asm/desc.h>
#include <asm/hydra.h>
#include <asm/mmu_context.h>

#include "../mm_internal.h"

#include "ask.h"
#include "domain.h"
#include "roots.h"
#include "state.h"
#include "wait.h"

/* The root in CR3, of any address space */
DEFINE_PER_CPU(pgd_t *, hydra_loaded_root);

/**
 * __hydra_on_own_root - does this CPU use the root of a domain tree?
 * @mm: the address space
 *
 * Context: preemption disabled.
 * Return: true if @mm is the current one and its domain root is loaded.
 */
bool __hydra_on_own_root(const struct mm_struct *mm)
{
	lockdep_assert_preemption_disabled();
	return mm == current->mm &&
	       this_cpu_read(hydra_loaded_root) != mm->pgd;
}

/**
 * hydra_load_root - load this CPU's root, if the CPU has the address space loaded
 * @data: the address space
 *
 * Context: interrupts off.
 */
void hydra_load_root(void *data)
{
	u16 loaded_asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	struct mm_struct *mm = data;
	u64 tlb_gen;

	lockdep_assert_irqs_disabled();
	if (this_cpu_read(cpu_tlbstate.loaded_mm) != mm)
		return;
	tlb_gen = hydra_tlb_gen(mm);
	/* The generation before the root; pairs with hydra_switch_roots(). */
	smp_rmb();
	/* As in switch_mm_irqs_off(), for nmi_uaccess_okay(). */
	this_cpu_write(cpu_tlbstate.loaded_mm, LOADED_MM_SWITCHING);
	barrier();
	load_new_mm_cr3(hydra_pgd(mm), loaded_asid, tlbstate_lam_cr3_mask(), true);
	barrier();
	this_cpu_write(cpu_tlbstate.loaded_mm, mm);
	this_cpu_write(cpu_tlbstate.ctxs[loaded_asid].tlb_gen, tlb_gen);
}

/* Does a CPU have an address space loaded? Perhaps the CPU is idle. */
static bool hydra_has_loaded(int cpu, void *mm)
{
	return cpumask_test_cpu(cpu, mm_cpumask((struct mm_struct *)mm));
}

/**
 * hydra_switch_roots - make CPUs use their new root
 * @mm: address space whose roots have changed
 * @gen: the generation that these CPUs compare, now that the root has changed
 * @cpus: the CPUs that the change concerns
 *
 * When this returns, no CPU of @cpus uses an entry of the old root, now or later. CPUs
 * that do not run @mm are not interrupted. Such a CPU may hold entries of the old root
 * under an inactive PCID, and has to flush when the CPU loads the PCID again:
 *
 *     CPU 0: hydra_switch_roots()          CPU 1: switch_mm_irqs_off()
 *     ---------------------------          ---------------------------
 *     (the caller has changed the root)    sets its bit in mm_cpumask()
 *     raises @gen: a full barrier          <full barrier>
 *     reads mm_cpumask()                   reads @gen
 *     interrupts the CPUs there, waits     <read barrier>
 *                                          reads the root
 *                                          if behind @gen: flushes
 *                                          loads the root
 *
 * If CPU 1 reads the old @gen, CPU 0 reads the bit of CPU 1, and interrupts CPU 1. If
 * CPU 1 reads the new @gen, CPU 1 reads the new root, too, and the PCID is behind @gen.
 * It is behind unless CPU 1 caught up with the new @gen in a flush, shortly before CPU 1
 * left @mm, and before CPU 0 read mm_cpumask(). Then the flush has loaded the new root,
 * too: see hydra_catch_up(). So a PCID that has caught up with the new @gen holds no
 * entry of the old root.
 *
 * Context: process context.
 */
void hydra_switch_roots(struct mm_struct *mm, atomic64_t *gen, const struct cpumask *cpus)
{
	/* A full barrier; pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	atomic64_inc_return(gen);
	on_each_cpu_cond_mask(hydra_has_loaded, hydra_load_root, mm, true, cpus);
}

#if defined(CONFIG_MODIFY_LDT_SYSCALL) && \
	defined(CONFIG_MITIGATION_PAGE_TABLE_ISOLATION)
/**
 * DOC: The LDT and a new root
 *
 * With page-table isolation each mm maps the LDT in a PGD entry of the kernel half.
 * No fault would copy the entry, so domain roots get the entry with the mapping,
 * and lose the entry before the tables are freed::
 *
 *     CPU 0: map_ldt_struct()              CPU 1: hydra_promote()
 *     -----------------------              ----------------------
 *     sets the PGD entry of mm->pgd        sets h->domain[d]
 *     hydra_sync_ldt():                    hydra_sync_ldt():
 *       smp_mb()                             smp_mb()
 *       reads h->domain[d], copies           reads the PGD entry, copies
 *
 * At least one CPU sees the store of the other.
 */
static void hydra_copy_ldt_entry(struct mm_struct *mm, pgd_t *from)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned int d, i = pgd_index(LDT_BASE_ADDR);

	if (!h || !boot_cpu_has(X86_FEATURE_PTI))
		return;
	/* Pairs with itself: see "The LDT and a new root" above. */
	smp_mb();
	for (d = 0; d < hydra_nr_domains; d++) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);
		pgd_t *pgd;

		if (!dom)
			continue;
		pgd = dom->pgd;
		WRITE_ONCE(pgd[i], from ? from[i] : __pgd(0));
		WRITE_ONCE(*kernel_to_user_pgdp(&pgd[i]),
			   from ? *kernel_to_user_pgdp(&from[i]) : __pgd(0));
	}
}

/**
 * hydra_sync_ldt - copy a new LDT mapping to the domain roots
 * @mm: the address space
 *
 * Context: mm->context.ldt_usr_sem held for writing, or between hydra_lock_ldt()
 * and hydra_unlock_ldt(), or no CPU runs @mm yet.
 */
void hydra_sync_ldt(struct mm_struct *mm)
{
	hydra_copy_ldt_entry(mm, mm->pgd);
}

/**
 * hydra_lock_ldt - keep the LDT mapping as it is
 * @mm: address space about to be split or to return
 *
 * After a failure to map the whole LDT, Linux unmaps the LDT. New roots must not
 * copy the entry meanwhile.
 *
 * Context: before mmap_lock: read_ldt() faults under this lock.
 * Return: 0 or -EINTR.
 */
int hydra_lock_ldt(struct mm_struct *mm)
{
	hydra_assert_may_wait();
	if (boot_cpu_has(X86_FEATURE_PTI))
		return down_read_killable(&mm->context.ldt_usr_sem);
	return 0;
}

/**
 * hydra_trylock_ldt - hydra_lock_ldt() that does not wait
 * @mm: address space that is about to be split or to return
 *
 * Return: false if the lock is busy.
 */
bool hydra_trylock_ldt(struct mm_struct *mm)
{
	return !boot_cpu_has(X86_FEATURE_PTI) ||
	       down_read_trylock(&mm->context.ldt_usr_sem);
}

/**
 * hydra_unlock_ldt - undo hydra_lock_ldt()
 * @mm: the address space
 */
void hydra_unlock_ldt(struct mm_struct *mm)
{
	if (boot_cpu_has(X86_FEATURE_PTI))
		up_read(&mm->context.ldt_usr_sem);
}

/**
 * hydra_clear_ldt - the tables that map the LDT are about to be freed
 * @mm: the address space
 */
void hydra_clear_ldt(struct mm_struct *mm)
{
	hydra_copy_ldt_entry(mm, NULL);
}
#else
void hydra_sync_ldt(struct mm_struct *mm)
{
}

int hydra_lock_ldt(struct mm_struct *mm)
{
	return 0;
}

bool hydra_trylock_ldt(struct mm_struct *mm)
{
	return true;
}

void hydra_unlock_ldt(struct mm_struct *mm)
{
}

void hydra_clear_ldt(struct mm_struct *mm)
{
}
#endif

/*
 * The CPUs of a domain use the canonical root once hydra_switch_roots() has been called.
 *
 * hydra_promote() clears d in universal under this lock, unless root is canonical.
 */
static void hydra_choose_canonical(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	lockdep_assert_held(&dom->lock);
	/* Flushes include the domain before its CPUs can cache canonical entries. */
	hydra_mask_set_atomic(d, &h->universal);
	/* universal before root; pairs with hydra_raise_targets(). */
	smp_mb__after_atomic();
	WRITE_ONCE(dom->root, h->mm->pgd);
}

/**
 * hydra_leave_tree - let a domain use the canonical tree from now on
 * @h: address space
 * @d: the domain, which has a tree
 *
 * When this returns, no CPU uses an entry of the domain's tree, now or later.
 *
 * Context: process context, may wait for other CPUs.
 */
void hydra_leave_tree(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	spin_lock(&dom->lock);
	hydra_choose_canonical(h, d);
	spin_unlock(&dom->lock);
	hydra_switch_roots(h->mm, &dom->tlb_gen, hydra_domains_of(h)->cpus[d]);
}

/**
 * hydra_degrade - let a domain use the canonical tree for a time
 * @h: address space
 * @d: the domain, which has a tree
 *
 * Called when a table above the leaf tables cannot be allocated: the program
 * continues, and the domain takes part in every flush (invariant 7). After a pause the domain
 * may have its tree again: see hydra_lacks_tree(). Each pause is twice as long as the last one.
 *
 * Context: process context, may wait for other CPUs.
 */
void hydra_degrade(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	spin_lock(&dom->lock);
	/* Several CPUs of the domain may lack memory at once: that is one pause. */
	if (dom->root == dom->pgd) {
		dom->pause = clamp(2 * dom->pause, DEGRADED_MIN, DEGRADED_MAX);
		WRITE_ONCE(dom->retry, jiffies + dom->pause);
	}
	hydra_choose_canonical(h, d);
	spin_unlock(&dom->lock);
	hydra_stat_add(h, HYDRA_STAT_FALLBACKS, 1);
	hydra_switch_roots(h->mm, &dom->tlb_gen, hydra_domains_of(h)->cpus[d]);
	/* A thread that never sleeps comes to no switch. */
	hydra_ask_at(READ_ONCE(dom->retry) + 1);
}
