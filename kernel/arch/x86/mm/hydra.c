// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hydra on x86: flushes by domain, roots, and where it cannot work.
 *
 * A flush of an active address space is one of several domains at once. Each has
 * a generation of its own (hydra_domain.tlb_gen), counted like
 * mm->context.tlb_gen: bumped after the entries have changed and before the
 * CPUs to tell are chosen. It is bumped for every domain that is targeted even
 * if none of its CPUs runs the address space now: one that ran it before may
 * hold entries under an inactive PCID, and has only the generation to learn
 * from. A domain that is not targeted keeps its generation, so that its CPUs see
 * themselves up to date.
 */

#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/smp.h>

#include <asm/hydra.h>
#include <asm/hypervisor.h>
#include <asm/mmu_context.h>
#include <asm/pgalloc.h>
#include <asm/tlbbatch.h>

#include "../../../mm/hydra/internal.h"

#include <trace/events/hydra.h>

static DEFINE_PER_CPU_SHARED_ALIGNED(struct hydra_flush, hydra_flush);

/* Injected faults: a domain that is flushed keeps its generation. */
static bool skips_generation(const struct flush_tlb_info *info, unsigned int d)
{
	return hydra_breaks(HYDRA_BREAK_SKIP_GENERATION) ||
	       (hydra_breaks(HYDRA_BREAK_SKIP_IDLE_GENERATION) &&
		!cpumask_intersects(mm_cpumask(info->mm), hydra_domain_cpus[d]));
}

void __hydra_flush_start(struct flush_tlb_info *info, u64 targets)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush);
	struct hydra_mm *h = hydra_active(info->mm);
	unsigned int d, own = hydra_this_domain();

	if (!h) {
		/*
		 * If the address space is being switched off, the generation
		 * that the caller has may be from before it was set ahead, and
		 * the CPUs that still use domain roots would take it for old.
		 * One from now on is not. If all CPUs have switched, they have
		 * flushed since the caller's changes.
		 */
		smp_rmb();
		if (hydra_mm(info->mm) &&
		    atomic_read(&info->mm->hydra->unfiltered))
			info->new_tlb_gen = inc_mm_tlb_gen(info->mm);
		return;
	}
	/*
	 * inc_mm_tlb_gen() was a full barrier. A domain that began to use the
	 * canonical tree before the caller's changes could be seen there had
	 * become universal before: look once more.
	 */
	targets |= atomic64_read(&h->universal);
	if (hydra_breaks(HYDRA_BREAK_SPARE_DOMAIN) && own != hydra_nr_domains - 1)
		targets &= ~BIT_ULL(hydra_nr_domains - 1);
	f->h = h;
	f->targets = targets & hydra_all_domains();
	f->interrupted = 0;
	/* If this domain is not targeted, this CPU is up to date already. */
	f->info[own] = *info;
	f->info[own].new_tlb_gen = 1;
	for (d = 0; d < hydra_nr_domains; d++) {
		if (!(f->targets & BIT_ULL(d))) {
			if (hydra_breaks(HYDRA_BREAK_CHARGE_SPARED))
				atomic64_inc(&h->domain[d].tlb_gen);
			continue;
		}
		f->info[d] = *info;
		if (skips_generation(info, d)) {
			f->info[d].new_tlb_gen =
				atomic64_read(&h->domain[d].tlb_gen);
			continue;
		}
		/*
		 * As inc_mm_tlb_gen(): a full barrier between the change of
		 * the entries and the look at mm_cpumask().
		 */
		f->info[d].new_tlb_gen =
			atomic64_inc_return(&h->domain[d].tlb_gen);
	}
	info->hydra = f;
}

bool __hydra_flush_remote(const struct flush_tlb_info *info, int cpu)
{
	const struct cpumask *running = mm_cpumask(info->mm);
	unsigned int d, other;

	for (d = 0; d < hydra_nr_domains; d++) {
		if (!(info->hydra->targets & BIT_ULL(d)))
			continue;
		for_each_cpu_and(other, running, hydra_domain_cpus[d])
			if (other != cpu)
				return true;
	}
	return false;
}

void __hydra_flush_end(struct flush_tlb_info *info)
{
	struct hydra_flush *f = info->hydra;
	struct hydra_domain *dom = &f->h->domain[hydra_this_domain()];
	unsigned int d, spared = 0;

	for (d = 0; d < hydra_nr_domains; d++)
		if (!(f->targets & BIT_ULL(d)))
			spared += cpumask_weight_and(mm_cpumask(info->mm),
						     hydra_domain_cpus[d]);
	if (!(f->targets & BIT_ULL(hydra_this_domain())) &&
	    cpumask_test_cpu(info->initiating_cpu, mm_cpumask(info->mm)))
		spared--;
	hydra_count(dom, HYDRA_STAT_FLUSHES, 1);
	hydra_count(dom, HYDRA_STAT_INTERRUPTED, f->interrupted);
	hydra_count(dom, HYDRA_STAT_SPARED, spared);
	trace_hydra_flush(info->mm, info->start, info->end, f->targets,
			  f->interrupted, spared);
	info->hydra = NULL;
}

/**
 * hydra_tlbbatch_add - reclaim has taken an entry and will flush later
 * @batch: where to note whom for
 * @mm: address space the entry was in
 * @addr: its address
 *
 * Context: lock of the entry's table; the entry is cleared.
 * Return: false if the address space has no domains.
 */
bool hydra_tlbbatch_add(struct arch_tlbflush_unmap_batch *batch,
			struct mm_struct *mm, unsigned long addr)
{
	struct hydra_mm *h = hydra_active(mm);
	unsigned int d, cpu;
	u64 targets;

	if (!h)
		return false;
	targets = __hydra_range_targets(h, addr, addr + PAGE_SIZE);
	for (d = 0; d < hydra_nr_domains; d++) {
		if (!(targets & BIT_ULL(d)))
			continue;
		/* The barrier between the change and the look at the mask. */
		atomic64_inc_return(&h->domain[d].tlb_gen);
		for_each_cpu_and(cpu, mm_cpumask(mm), hydra_domain_cpus[d])
			cpumask_set_cpu(cpu, &batch->cpumask);
	}
	/* IOMMUs walk the canonical tree: nothing to filter for them. */
	mmu_notifier_arch_invalidate_secondary_tlbs(mm, 0, -1UL);
	return true;
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
	       this_cpu_read(cpu_tlbstate.loaded_root) != mm->pgd;
}

static void note_root(void *unused)
{
	struct mm_struct *mm = this_cpu_read(cpu_tlbstate.loaded_mm);

	if (!hydra_mm(mm))
		hydra_note_loaded(mm->pgd);
}

/**
 * hydra_note_roots - have every CPU note which root it has loaded
 *
 * From when hydra_key is on, CPUs keep note of it themselves.
 *
 * Context: process context.
 */
void hydra_note_roots(void)
{
	on_each_cpu(note_root, NULL, 1);
}

/**
 * hydra_switch_roots - have CPUs load the root that is now theirs
 * @mm: address space whose roots have changed
 * @cpus: the CPUs
 *
 * When this returns, they hold nothing that came from the old roots.
 *
 * Context: process context.
 */
void hydra_switch_roots(struct mm_struct *mm, const struct cpumask *cpus)
{
	if (!hydra_breaks(HYDRA_BREAK_SKIP_SWITCH))
		on_each_cpu_mask(cpus, hydra_switch_root, mm, true);
}

/**
 * hydra_arch_refuses - can this machine run domain trees?
 *
 * Return: NULL, or why not.
 */
const char *hydra_arch_refuses(void)
{
	/* The hypervisor checks and pins page tables, by the root it knows. */
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
 * With page-table isolation the LDT is mapped in a PGD entry of the kernel half
 * that every mm has for itself. Domain roots get it as soon as it is there, for
 * no fault would bring it, and lose it before its tables are freed.
 */
static void copy_ldt_entry(struct mm_struct *mm, pgd_t *from)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned int d, i = pgd_index(LDT_BASE_ADDR);

	if (!h || !boot_cpu_has(X86_FEATURE_PTI))
		return;
	/* Who maps an LDT and who makes roots: the later sees the other's. */
	smp_mb();
	for (d = 0; d < hydra_nr_domains; d++) {
		pgd_t *pgd = READ_ONCE(h->domain[d].pgd);

		if (!pgd)
			continue;
		WRITE_ONCE(pgd[i], from ? from[i] : __pgd(0));
		WRITE_ONCE(*kernel_to_user_pgdp(&pgd[i]),
			   from ? *kernel_to_user_pgdp(&from[i]) : __pgd(0));
	}
}

/**
 * hydra_sync_ldt - the mapping of an LDT is new
 * @mm: the address space
 *
 * Context: mm->context.ldt_usr_sem held for writing, or between
 * hydra_arch_lock() and hydra_arch_unlock(), or nobody runs @mm yet.
 */
void hydra_sync_ldt(struct mm_struct *mm)
{
	copy_ldt_entry(mm, mm->pgd);
}

/**
 * hydra_arch_lock - keep the LDT as it is
 * @mm: address space to be switched
 *
 * An LDT that cannot be mapped in full is unmapped, and new roots must not copy
 * the entry meanwhile.
 *
 * Context: before mmap_lock: read_ldt() faults under this lock.
 * Return: 0 or -EINTR.
 */
int hydra_arch_lock(struct mm_struct *mm)
{
	if (boot_cpu_has(X86_FEATURE_PTI))
		return down_read_killable(&mm->context.ldt_usr_sem);
	return 0;
}

/**
 * hydra_arch_unlock - undo hydra_arch_lock()
 * @mm: the address space
 */
void hydra_arch_unlock(struct mm_struct *mm)
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
	copy_ldt_entry(mm, NULL);
}
#else
void hydra_sync_ldt(struct mm_struct *mm)
{
}

int hydra_arch_lock(struct mm_struct *mm)
{
	return 0;
}

void hydra_arch_unlock(struct mm_struct *mm)
{
}

void hydra_clear_ldt(struct mm_struct *mm)
{
}
#endif
