// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hydra on x86: flushes by domain, roots, and where it cannot work.
 *
 * A flush of an active address space is one of several domains at once. A domain
 * with a tree has a generation of its own (hydra_domain.tlb_gen), counted like
 * mm->context.tlb_gen, which counts for the domains without one. The generation
 * of a domain is raised after the entries have changed and before the CPUs to
 * tell are chosen, and it is raised for every domain that is targeted even if none
 * of its CPUs runs the address space now: one that ran it before may hold entries
 * under an inactive PCID, and has only the generation to learn from. A domain
 * that is not targeted keeps its generation, so that its CPUs see themselves up
 * to date.
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

/**
 * struct hydra_flush - a flush that this CPU is doing
 * @info: what each CPU is to do. @info.new_tlb_gen is the generation of the one
 *	domain that is targeted; if there are several, that of the domains
 *	without a tree
 * @targets: domains to reach
 * @interrupted: CPUs sent an interrupt, the sender left out
 * @cpus: the CPUs to reach; empty between flushes
 * @gen: by target, if there are several: its generation
 *
 * Used with preemption off, and not in interrupts, like cpu_tlbstate's own.
 */
struct hydra_flush {
	struct flush_tlb_info info;
	hydra_mask_t targets;
	unsigned int interrupted;
	cpumask_t cpus;
	u64 gen[HYDRA_MAX_DOMAINS];
};

static DEFINE_PER_CPU_SHARED_ALIGNED(struct hydra_flush, hydra_flush_state);

/* The root in CR3, of whatever address space it is. */
DEFINE_PER_CPU(pgd_t *, hydra_loaded_root);

/* Injected faults: a domain that is flushed keeps its generation. */
static bool skips_generation(struct mm_struct *mm, unsigned int d)
{
	return hydra_breaks(HYDRA_BREAK_SKIP_GENERATION) ||
	       (hydra_breaks(HYDRA_BREAK_SKIP_IDLE_GENERATION) &&
		!cpumask_intersects(mm_cpumask(mm), hydra_domain_cpus[d]));
}

/*
 * Raise the generation of a domain that is to be flushed: a full barrier between
 * the change of the entries and what is read next, as inc_mm_tlb_gen() is.
 */
static u64 raise_generation(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);
	atomic64_t *gen = dom ? &dom->tlb_gen : &h->mm->context.tlb_gen;

	if (skips_generation(h->mm, d))
		return atomic64_read(gen);
	return atomic64_inc_return(gen);
}

/*
 * Choose the targets of a flush for good, and raise their generations.
 *
 * @h:       address space, active when the caller looked
 * @f:       f->targets are the sharers; the universal ones are added
 * @all:     every domain is to be reached
 *
 * Return: how many generations were raised, or -1 if the address space is not
 * active any more.
 */
static int raise_targets(struct hydra_mm *h, struct hydra_flush *f, bool all)
{
	hydra_mask_t more;
	unsigned int d;
	int nr = 0;

	for_each_hydra_domain(d, &f->targets) {
		f->gen[d] = raise_generation(h, d);
		f->info.new_tlb_gen = f->gen[d];
		nr++;
	}
	/*
	 * Raising was a full barrier after the change of the entries. It pairs
	 * with those of __hydra_switching(), promote() and hydra_degrade(): a
	 * domain that uses the canonical root and was not universal yet sees the
	 * change.
	 */
	if (!nr)
		smp_mb();
	if (!READ_ONCE(h->active))
		return -1;
	hydra_mask_zero(&more);
	hydra_mask_add(&more, &h->universal);
	if (all)
		hydra_mask_add(&more, &h->trees);
	hydra_mask_remove(&more, &f->targets);
	if (all || !hydra_mask_empty(&more)) {
		/* For those without a tree, of which there may be several. */
		u64 gen = inc_mm_tlb_gen(h->mm);

		for_each_hydra_domain(d, &more) {
			struct hydra_domain *dom = READ_ONCE(h->domain[d]);

			f->gen[d] = dom ? raise_generation(h, d) : gen;
			hydra_mask_set(d, &f->targets);
		}
		f->info.new_tlb_gen = gen;
		/* The domain of a CPU that comes now may be in no mask yet. */
		nr = 2;
	}
	return nr;
}

/**
 * hydra_pick_cpus - the CPUs of one domain that run an address space
 * @picked: they are added to it
 * @running: the CPUs that run the address space
 * @cpus: those of the domain
 * @first: the first word of @cpus that is not 0
 * @last: the last one
 *
 * Return: how many words of the masks it has looked at.
 */
unsigned int hydra_pick_cpus(unsigned long *picked, const unsigned long *running,
			     const unsigned long *cpus, unsigned int first,
			     unsigned int last)
{
	unsigned int i;

	for (i = first; i <= last; i++)
		picked[i] |= READ_ONCE(running[i]) & cpus[i];
	return last - first + 1;
}

static void pick_targets(struct mm_struct *mm, struct hydra_flush *f)
{
	unsigned int d;

	for_each_hydra_domain(d, &f->targets)
		hydra_pick_cpus(cpumask_bits(&f->cpus),
				cpumask_bits(mm_cpumask(mm)),
				cpumask_bits(hydra_domain_cpus[d]),
				hydra_domain_span[d].first,
				hydra_domain_span[d].last);
}

/* Does a CPU of the targets, other than @self, run the address space? */
static bool runs_elsewhere(struct mm_struct *mm, struct hydra_flush *f, int self)
{
	const unsigned long *running = cpumask_bits(mm_cpumask(mm));
	unsigned int d, i;

	for_each_hydra_domain(d, &f->targets) {
		const unsigned long *cpus = cpumask_bits(hydra_domain_cpus[d]);

		for (i = hydra_domain_span[d].first; i <= hydra_domain_span[d].last; i++)
			if (READ_ONCE(running[i]) & cpus[i] &
			    ~(i == BIT_WORD(self) ? BIT_MASK(self) : 0))
				return true;
	}
	return false;
}

static void unpick_targets(struct hydra_flush *f)
{
	unsigned int d, i;

	for_each_hydra_domain(d, &f->targets)
		for (i = hydra_domain_span[d].first; i <= hydra_domain_span[d].last; i++)
			cpumask_bits(&f->cpus)[i] = 0;
}

static bool hydra_should_flush_tlb(int cpu, void *data)
{
	struct flush_tlb_info *info = data;

	if (!info->freed_tables && !should_flush_tlb(cpu, data))
		return false;
	if (cpu != info->initiating_cpu)
		container_of(info, struct hydra_flush, info)->interrupted++;
	return true;
}

/* A flush of several domains: each has a generation of its own. */
static void hydra_flush_func(void *data)
{
	struct hydra_flush *f = container_of(data, struct hydra_flush, info);
	unsigned int d = hydra_this_domain();
	struct flush_tlb_info info = f->info;

	if (hydra_mask_test(d, &f->targets))
		info.new_tlb_gen = f->gen[d];
	flush_tlb_func(&info);
}

/* @told: CPUs that the flush was for, this one included */
static void flush_counted(struct hydra_mm *h, struct hydra_flush *f,
			  unsigned int told)
{
	unsigned int run = cpumask_weight(mm_cpumask(h->mm));
	unsigned int spared = run > told ? run - told : 0;

	hydra_count(h, HYDRA_STAT_FLUSHES, 1);
	if (f->interrupted)
		hydra_count(h, HYDRA_STAT_INTERRUPTED, f->interrupted);
	if (spared)
		hydra_count(h, HYDRA_STAT_SPARED, spared);
	trace_hydra_flush(h->mm, f->info.start, f->info.end, f->targets.bits[0],
			  f->interrupted, spared);
}

/* Injected faults: one domain is spared, or pays though it is spared. */
static void break_targets(struct hydra_mm *h, struct hydra_flush *f)
{
	unsigned int d, last = hydra_nr_domains - 1;

	if (hydra_breaks(HYDRA_BREAK_SPARE_DOMAIN) && hydra_this_domain() != last)
		hydra_mask_clear(last, &f->targets);
	if (!hydra_breaks(HYDRA_BREAK_CHARGE_SPARED))
		return;
	for_each_hydra_domain(d, &h->trees)
		if (!hydra_mask_test(d, &f->targets))
			atomic64_inc(&h->domain[d]->tlb_gen);
}

/* f->targets are the sharers; @all: every domain. See __hydra_flush(). */
static bool flush(struct hydra_mm *h, struct hydra_flush *f, bool all,
		  unsigned long start, unsigned long end,
		  unsigned int stride_shift, bool freed_tables)
{
	struct flush_tlb_info *info = &f->info;
	int self = smp_processor_id(), nr;
	struct mm_struct *mm = h->mm;
	unsigned int told;
	bool mine;

	nr = raise_targets(h, f, all);
	if (nr < 0)
		return false;
	break_targets(h, f);
	/* Should only the range be flushed? As flush_tlb_mm_range() decides. */
	if (end == TLB_FLUSH_ALL ||
	    (end - start) >> stride_shift > tlb_single_page_flush_ceiling) {
		start = 0;
		end = TLB_FLUSH_ALL;
	}
	info->mm = mm;
	info->start = start;
	info->end = end;
	info->stride_shift = stride_shift;
	info->freed_tables = freed_tables;
	info->initiating_cpu = self;
	info->trim_cpumask = 0;
	f->interrupted = 0;

	mine = mm == this_cpu_read(cpu_tlbstate.loaded_mm) &&
	       (all || hydra_mask_test(hydra_this_domain(), &f->targets));
	told = mine;
	if (all ? cpumask_any_but(mm_cpumask(mm), self) < nr_cpu_ids :
		  runs_elsewhere(mm, f, self)) {
		smp_call_func_t func = nr > 1 ? hydra_flush_func : flush_tlb_func;
		const struct cpumask *cpus = mm_cpumask(mm);

		if (!all) {
			pick_targets(mm, f);
			cpus = &f->cpus;
		}
		told = cpumask_weight(cpus) +
		       (cpumask_test_cpu(self, mm_cpumask(mm)) &&
			!cpumask_test_cpu(self, cpus));
		info->trim_cpumask = should_trim_cpumask(mm);
		count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
		trace_tlb_flush(TLB_REMOTE_SEND_IPI, end == TLB_FLUSH_ALL ?
				TLB_FLUSH_ALL : (end - start) >> PAGE_SHIFT);
		on_each_cpu_cond_mask(hydra_should_flush_tlb, func, info, true,
				      cpus);
		if (!all)
			unpick_targets(f);
	} else if (mine) {
		lockdep_assert_irqs_enabled();
		local_irq_disable();
		if (nr > 1)
			hydra_flush_func(info);
		else
			flush_tlb_func(info);
		local_irq_enable();
	}
	flush_counted(h, f, told);
	return true;
}

/**
 * __hydra_flush - flush a range for the domains that share its tables
 * @h: address space, active when the caller looked
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 * @freed_tables: tables of the range are being freed
 * @targets: the sharers, NULL: to be looked up
 *
 * Context: preemption disabled, interrupts on; the entries have been changed.
 * Return: false if the address space is not active any more: nothing was done.
 */
bool __hydra_flush(struct hydra_mm *h, unsigned long start, unsigned long end,
		   unsigned int stride_shift, bool freed_tables,
		   const hydra_mask_t *targets)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);
	bool all = false;

	lockdep_assert_preemption_disabled();
	if (targets)
		f->targets = *targets;
	else
		all = !hydra_range_targets(h, start, end, &f->targets);
	return flush(h, f, all, start, end, stride_shift, freed_tables);
}

/**
 * hydra_gather_flush - flush for a gather, and free its tables
 * @mm: the address space, which has been split at some time
 * @g: Hydra's part of the gather
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 * @freed_tables: tables of the range are being freed
 *
 * Context: as flush_tlb_mm_range().
 */
void hydra_gather_flush(struct mm_struct *mm, struct hydra_gather *g,
			unsigned long start, unsigned long end,
			unsigned int stride_shift, bool freed_tables)
{
	struct hydra_mm *h = hydra_active(mm);
	bool all, done = false;
	struct hydra_flush *f;

	if (h) {
		preempt_disable();
		f = this_cpu_ptr(&hydra_flush_state);
		all = !hydra_gather_targets(h, g, start, end, &f->targets);
		done = flush(h, f, all, start, end, stride_shift, freed_tables);
		preempt_enable();
	}
	if (done)
		mmu_notifier_arch_invalidate_secondary_tlbs(mm, start, end);
	else
		flush_tlb_mm_range(mm, start, end, stride_shift, freed_tables);
	if (g->notes && g->freed)
		hydra_gather_flushed(g);
}

/**
 * hydra_flush_domains - flush a range whose tables some domains have lost
 * @h: address space, active
 * @start: first address
 * @end: address after the last one
 * @domains: the domains
 *
 * Their own tables: secondary TLBs walk the canonical tree and need not be told.
 *
 * Context: a page-table lock held. If the address space is switched off just now,
 * every CPU that runs it is told.
 */
void hydra_flush_domains(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *domains)
{
	bool done;

	preempt_disable();
	done = __hydra_flush(h, start, end, PAGE_SHIFT, true, domains);
	preempt_enable();
	if (!done)
		flush_tlb_mm_range(h->mm, start, end, PAGE_SHIFT, true);
}

/**
 * hydra_flush_raised - a flush whose generation Linux has raised already
 * @mm: the address space, which has been split at some time
 * @start: first address
 * @end: address after the last one, or TLB_FLUSH_ALL
 * @stride_shift: step between the addresses
 * @freed_tables: tables of the range are being freed
 * @new_tlb_gen: the generation that Linux has taken, which is a full barrier
 *
 * The address space may have been split since hydra_flush() looked. And if it is
 * returning to Linux, the generation may be from before it was set ahead: the CPUs
 * that still use domain roots would take it for old. One taken from now on is not.
 * If all CPUs have switched, they have flushed since the caller's changes.
 *
 * Context: as hydra_flush().
 * Return: 0: the flush is done; else the generation that Linux is to flush with.
 */
u64 hydra_flush_raised(struct mm_struct *mm, unsigned long start,
		       unsigned long end, unsigned int stride_shift,
		       bool freed_tables, u64 new_tlb_gen)
{
	if (hydra_flush(mm, start, end, stride_shift, freed_tables))
		return 0;
	/* Pairs with the release of hydra_mm::active in hydra_deactivate(). */
	smp_rmb();
	if (atomic_read(&mm->hydra->unfiltered))
		return inc_mm_tlb_gen(mm);
	return new_tlb_gen;
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
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);
	struct hydra_mm *h = hydra_active(mm);
	bool all;

	if (!h)
		return false;
	all = !hydra_range_targets(h, addr, addr + PAGE_SIZE, &f->targets);
	if (raise_targets(h, f, all) < 0)
		return false;
	if (all) {
		cpumask_or(&batch->cpumask, &batch->cpumask, mm_cpumask(mm));
	} else {
		pick_targets(mm, f);
		cpumask_or(&batch->cpumask, &batch->cpumask, &f->cpus);
		unpick_targets(f);
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
	       this_cpu_read(hydra_loaded_root) != mm->pgd;
}

/* Load the root that is now this CPU's, and drop all that came from another. */
static void switch_root(void *data)
{
	u16 asid, loaded_asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	struct mm_struct *mm = data;
	bool loaded = this_cpu_read(cpu_tlbstate.loaded_mm) == mm;
	u64 tlb_gen;

	for (asid = 0; asid < TLB_NR_DYN_ASIDS; asid++)
		if (this_cpu_read(cpu_tlbstate.ctxs[asid].ctx_id) ==
		    mm->context.ctx_id && !(loaded && asid == loaded_asid))
			this_cpu_write(cpu_tlbstate.ctxs[asid].ctx_id, 0);
	if (!loaded)
		return;
	tlb_gen = atomic64_read(hydra_tlb_gen(mm));
	/* As in switch_mm_irqs_off(), for nmi_uaccess_okay(). */
	this_cpu_write(cpu_tlbstate.loaded_mm, LOADED_MM_SWITCHING);
	barrier();
	load_new_mm_cr3(hydra_pgd(mm), loaded_asid, tlbstate_lam_cr3_mask(), true);
	barrier();
	this_cpu_write(cpu_tlbstate.loaded_mm, mm);
	this_cpu_write(cpu_tlbstate.ctxs[loaded_asid].tlb_gen, tlb_gen);
}

/**
 * hydra_switch_roots - have CPUs load the root that is now theirs
 * @mm: address space whose roots have changed
 * @cpus: the CPUs, all of a domain: also those that do not run it may have cached
 *	something from the old root, see the head of mm/hydra/core.c
 *
 * When this returns, they hold nothing that came from the old root.
 *
 * Context: process context; a full barrier since the root has changed.
 */
void hydra_switch_roots(struct mm_struct *mm, const struct cpumask *cpus)
{
	if (!hydra_breaks(HYDRA_BREAK_SKIP_SWITCH))
		on_each_cpu_mask(cpus, switch_root, mm, true);
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
 * hydra_arch_trylock - hydra_arch_lock() that does not wait
 * @mm: address space to be switched
 *
 * Return: false if it would have to.
 */
bool hydra_arch_trylock(struct mm_struct *mm)
{
	return !boot_cpu_has(X86_FEATURE_PTI) ||
	       down_read_trylock(&mm->context.ldt_usr_sem);
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

bool hydra_arch_trylock(struct mm_struct *mm)
{
	return true;
}

void hydra_arch_unlock(struct mm_struct *mm)
{
}

void hydra_clear_ldt(struct mm_struct *mm)
{
}
#endif
