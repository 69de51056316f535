// SPDX-License-Identifier: GPL-2.0-only
/*
 * Roots: how they are made, how CPUs switch to another root, the LDT mapping common
 * to all roots, and platforms without support for domain roots.
 */

#include <linux/mm.h>
#include <linux/smp.h>

#include <asm/desc.h>
#include <asm/hydra.h>
#include <asm/hypervisor.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>

#include "internal.h"

/**
 * hydra_pgd_alloc - allocate the root of a domain tree
 * @mm: the address space
 * @nid: the node to allocate it on
 *
 * Linux keeps the kernel half of the root in sync like that of mm->pgd.
 *
 * Reclaim starts no I/O, and enters no file system: the caller holds mmap_lock, and may be on
 * the way to user mode.
 *
 * Return: the root, or NULL.
 */
pgd_t *hydra_pgd_alloc(struct mm_struct *mm, int nid)
{
	struct page *page = alloc_pages_node(nid, (GFP_PGTABLE_USER & ~(__GFP_IO | __GFP_FS)) |
					     __GFP_RETRY_MAYFAIL | __GFP_NOWARN,
					     PGD_ALLOCATION_ORDER);

	if (!page)
		return NULL;
	spin_lock(&pgd_lock);
	pgd_ctor(mm, page_address(page));
	spin_unlock(&pgd_lock);
	return page_address(page);
}

/**
 * hydra_pgd_free - free the root of a domain tree
 * @pgd: from hydra_pgd_alloc(); no CPU has it loaded
 */
void hydra_pgd_free(pgd_t *pgd)
{
	pgd_dtor(pgd);
	free_pages((unsigned long)pgd, PGD_ALLOCATION_ORDER);
}

/**
 * __hydra_on_own_root - does this CPU use the root of a domain tree?
 * @mm: the address space
 *
 * Context: preemption disabled.
 * Return: true if @mm is the current one and its domain root is loaded.
 */
bool __hydra_on_own_root(const struct mm_struct *mm)
{
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

/**
 * hydra_leave_contexts - this CPU forgets all address spaces
 *
 * The CPU goes on with init_mm, as an idle CPU does, and flushes before it uses any
 * context again.
 *
 * Context: interrupts off, in a kernel thread that uses no address space.
 */
void hydra_leave_contexts(void)
{
	u16 asid, loaded;

	lockdep_assert_irqs_disabled();
	VM_WARN_ON_ONCE(current->mm);
	leave_mm();
	VM_WARN_ON_ONCE(this_cpu_read(cpu_tlbstate.loaded_mm) != &init_mm);
	loaded = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	/* No address space has the number 0, so choose_new_asid() flushes a new context. */
	for (asid = 0; asid < TLB_NR_DYN_ASIDS; asid++)
		if (asid != loaded)
			this_cpu_write(cpu_tlbstate.ctxs[asid].ctx_id, 0);
}

/**
 * hydra_refused_by_machine - can this machine run domain trees?
 *
 * Return: NULL, or the reason why not.
 */
const char *hydra_refused_by_machine(void)
{
	/* The hypervisor checks and pins page tables, by mm->pgd. */
	if (cpu_feature_enabled(X86_FEATURE_XENPV))
		return "Xen PV keeps page tables itself";
	/* Its flush hypercall names an address space by mm->pgd. */
	if (IS_ENABLED(CONFIG_HYPERV) && hypervisor_is_type(X86_HYPER_MS_HYPERV))
		return "Hyper-V flushes by the address of one root";
	return NULL;
}

#if defined(CONFIG_MODIFY_LDT_SYSCALL) && \
	defined(CONFIG_MITIGATION_PAGE_TABLE_ISOLATION)
/*
 * With page-table isolation each mm maps the LDT in a PGD entry of the kernel half.
 * No fault would copy the entry, so domain roots get the entry with the mapping,
 * and lose the entry before the tables are freed.
 */
static void hydra_copy_ldt_entry(struct mm_struct *mm, pgd_t *from)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned int d, i = pgd_index(LDT_BASE_ADDR);

	if (!h || !boot_cpu_has(X86_FEATURE_PTI))
		return;
	/*
	 * At least one CPU sees the store of the other. Pairs with itself:
	 *
	 *     CPU 0: map_ldt_struct()            CPU 1: hydra_promote()
	 *     -----------------------            ----------------------
	 *     sets the PGD entry                 sets h->domain[d]
	 *     hydra_sync_ldt():                  hydra_sync_ldt():
	 *       smp_mb()                           smp_mb()
	 *       reads h->domain[d]                 reads the PGD entry
	 */
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
