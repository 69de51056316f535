// SPDX-License-Identifier: GPL-2.0-only
/*
 * TLB flushes, by domain, of an address space with domain trees.
 *
 * One flush has several domains as targets. A domain with a tree has a separate
 * generation (hydra_domain.tlb_gen), used like mm->context.tlb_gen, which counts
 * for the domains without a tree. The flushing CPU changes the entries, then raises
 * the generation of every target, then chooses the CPUs to interrupt. The flushing
 * CPU also raises the generation of a target without a CPU running the address
 * space: a CPU of the domain may hold entries under an inactive PCID, and compares
 * only the generation when loading the PCID again. The generations of all remaining
 * domains stay, so CPUs there are up to date.
 */

#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/isolation.h>
#include <linux/smp.h>

#include <asm/hydra.h>
#include <asm/kvm_para.h>
#include <asm/mmu_context.h>
#include <asm/tlb.h>

#include <trace/events/hydra.h>

#include "../mm_internal.h"

#include "domain.h"
#include "home.h"
#include "idle.h"
#include "platform.h"
#include "state.h"
#include "tlb.h"

DEFINE_PER_CPU_SHARED_ALIGNED(struct hydra_flush, hydra_flush_state);

DEFINE_PER_CPU_SHARED_ALIGNED(struct mm_struct *, hydra_lazy_left);

/*
 * Raise the generation of a target. Like inc_mm_tlb_gen(), a full barrier between
 * the change of the entries and later reads.
 */
static u64 hydra_raise_generation(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);
	atomic64_t *gen = dom ? &dom->tlb_gen : &h->mm->context.tlb_gen;

	return atomic64_inc_return(gen);
}

/**
 * hydra_raise_targets - complete the targets of a flush, and raise their generations
 * @h: address space, active when the caller read it
 * @f: f->targets are the sharers, and f->all is set or not; the universal domains are
 *	added. f->by_domain is set
 *
 * Context: preemption off.
 * Return: false if the address space is not active any more.
 */
bool hydra_raise_targets(struct hydra_mm *h, struct hydra_flush *f)
{
	unsigned int d, nr = 0;
	hydra_mask_t more;

	for_each_hydra_domain(d, &f->targets) {
		f->gen[d] = hydra_raise_generation(h, d);
		f->info.new_tlb_gen = f->gen[d];
		nr++;
	}
	/*
	 * The entries before universal and active. Pairs with the barriers between
	 * universal and the root in hydra_lodge(), hydra_promote() and
	 * hydra_choose_canonical(), by which a domain is degraded, and a return in
	 * parts begins: a domain not read as universal below sees the changed entries.
	 */
	if (!nr)
		smp_mb();	/* No target yet has been a barrier: see above. */
	if (!READ_ONCE(h->active))
		return false;
	f->by_domain = nr > 1;
	hydra_mask_zero(&more);
	hydra_mask_add(&more, &h->universal);
	if (f->all)
		hydra_mask_add(&more, &h->trees);
	hydra_mask_remove(&more, &f->targets);
	if (f->all || !hydra_mask_empty(&more)) {
		/* For the domains without a tree, possibly several. */
		u64 gen = inc_mm_tlb_gen(h->mm);

		for_each_hydra_domain(d, &more) {
			struct hydra_domain *dom = READ_ONCE(h->domain[d]);

			f->gen[d] = dom ? hydra_raise_generation(h, d) : gen;
			hydra_mask_set(d, &f->targets);
		}
		f->info.new_tlb_gen = gen;
		/* A CPU switching to the mm now may be of a domain in no mask yet. */
		f->by_domain = true;
	}
	return true;
}

/*
 * Raise the generation that all CPUs compare while the address space is not active.
 *
 * If hydra_deactivate() is running, CPUs still on domain roots would take the first
 * generation for an old one. So take a new generation then. See "Return" in the head
 * of arch/x86/mm/hydra/split.c.
 *
 * Return: false if the address space is active.
 */
static bool hydra_raise_inactive(struct hydra_mm *h, struct hydra_flush *f)
{
	f->info.new_tlb_gen = inc_mm_tlb_gen(h->mm);
	if (READ_ONCE(h->active))
		return false;
	/* active before unfiltered; pairs with the release in hydra_deactivate(). */
	smp_rmb();
	if (atomic_read(&h->unfiltered))
		f->info.new_tlb_gen = inc_mm_tlb_gen(h->mm);
	return true;
}

/**
 * hydra_pick_cpus - the CPUs of one domain that run an address space
 * @picked: the CPUs are added to it
 * @running: the CPUs running the address space
 * @cpus: the CPUs of the domain
 * @first: the first nonzero word of @cpus
 * @last: the last nonzero word of @cpus
 *
 * Return: how many words of the masks were read.
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

/**
 * hydra_pick_targets - choose the CPUs to interrupt
 * @h: address space
 * @f: the flush, with its targets; f->cpus is set
 *
 * Context: preemption off.
 */
void hydra_pick_targets(struct hydra_mm *h, struct hydra_flush *f)
{
	const struct hydra_domains *domains = hydra_domains_of(h);
	unsigned int d;

	for_each_hydra_domain(d, &f->targets)
		hydra_pick_cpus(cpumask_bits(&f->cpus),
				cpumask_bits(mm_cpumask(h->mm)),
				cpumask_bits(domains->cpus[d]),
				domains->span[d].first, domains->span[d].last);
}

/**
 * hydra_unpick_targets - empty f->cpus again
 * @h: address space
 * @f: the flush
 *
 * Context: preemption off.
 */
void hydra_unpick_targets(struct hydra_mm *h, struct hydra_flush *f)
{
	const struct hydra_domains *domains = hydra_domains_of(h);
	unsigned int d, i;

	for_each_hydra_domain(d, &f->targets)
		for (i = domains->span[d].first; i <= domains->span[d].last; i++)
			cpumask_bits(&f->cpus)[i] = 0;
}

static bool hydra_should_flush_tlb(int cpu, void *data)
{
	struct flush_tlb_info *info = data;
	struct hydra_flush *f = container_of(info, struct hydra_flush, info);

	if (!info->freed_tables && !should_flush_tlb(cpu, data))
		return false;
	if (cpu != info->initiating_cpu) {
		if (hydra_leave_to_host(cpu))
			return false;
		f->interrupted++;
		f->across += hydra_across(cpu, info->initiating_cpu);
		/* A lazy CPU leaves mm_cpumask(), as on Linux when tables are freed next. */
		if (f->own && !READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
			hydra_stat_add(info->mm->hydra, HYDRA_STAT_OWN, 1);
	}
	return true;
}

/* A flush of several domains: take the generation of this CPU's domain. */
static void hydra_flush_func(void *data)
{
	struct hydra_flush *f = container_of(data, struct hydra_flush, info);
	struct flush_tlb_info info = f->info;
	unsigned int d = hydra_this_domain(info.mm->hydra);

	if (hydra_mask_test(d, &f->targets))
		info.new_tlb_gen = f->gen[d];
	flush_tlb_func(&info);
}

/*
 * Would Linux interrupt a CPU of mm_cpumask()? In a guest of KVM it leaves a preempted vCPU to the
 * host. Else Linux asks should_flush_tlb(), which leaves
 * out a lazy CPU. A CPU of the mask that is not lazy has the address space loaded, or is
 * about to load it, or has just left it. So one line of the CPU is read here, where Linux
 * reads two. That line changes only when the CPU becomes lazy, or stops being so.
 *
 * If tables are freed, Linux asks nothing, and interrupts a lazy CPU, too. That CPU then
 * leaves the mask, so Linux interrupts it once, until it runs a thread again. Under Hydra
 * a spared CPU stays in the mask. So the flushing CPU notes that the CPU would have left
 * on Linux, and __hydra_switching() forgets that. If the CPU stops being lazy just now,
 * the note may come too late, and one CPU is counted once too seldom.
 */
static bool hydra_linux_interrupts(struct mm_struct *mm, unsigned int cpu,
				   bool freed_tables)
{
	if (hydra_host_flushes() && kvm_vcpu_preempted(cpu))
		return false;
	if (!READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
		return true;
	if (!freed_tables || READ_ONCE(per_cpu(hydra_lazy_left, cpu)) == mm)
		return false;
	WRITE_ONCE(per_cpu(hydra_lazy_left, cpu), mm);
	return true;
}

/**
 * hydra_count_spared - how many CPUs that are not in f->cpus would Linux interrupt?
 * @h: address space
 * @f: the flush
 *
 * Context: preemption off.
 * Return: their number.
 */
unsigned int hydra_count_spared(struct hydra_mm *h, struct hydra_flush *f)
{
	unsigned int cpu, self = smp_processor_id(), nr = 0;

	if (f->own)
		return 0;
	for_each_cpu_andnot(cpu, mm_cpumask(h->mm), &f->cpus)
		/* A CPU of a target that has come meanwhile was not spared. */
		if (cpu != self &&
		    !hydra_mask_test(hydra_domain_of_cpu(h->scope, cpu), &f->targets) &&
		    hydra_linux_interrupts(h->mm, cpu, f->info.freed_tables))
			nr++;
	return nr;
}

/**
 * hydra_flush_counted - count a flush
 * @h: address space
 * @f: the flush, which is done
 * @spared: the CPUs that Linux would have interrupted besides
 *
 * Context: preemption off.
 */
void hydra_flush_counted(struct hydra_mm *h, struct hydra_flush *f,
			 unsigned int spared)
{
	hydra_stat_add(h, HYDRA_STAT_FLUSHES, 1);
	if (f->interrupted)
		hydra_stat_add(h, HYDRA_STAT_INTERRUPTED, f->interrupted);
	if (f->across)
		hydra_stat_add(h, HYDRA_STAT_ACROSS, f->across);
	if (spared)
		hydra_stat_add(h, HYDRA_STAT_SPARED, spared);
	trace_hydra_flush(h->mm, f->info.start, f->info.end, f->targets.bits[0],
			  f->interrupted, spared);
}

/*
 * Raise the generations of a flush. The address space may return to plain Linux, or be
 * split, in between.
 *
 * Return: false if it is not active: all CPUs compare one generation.
 */
static bool hydra_raise(struct hydra_mm *h, struct hydra_flush *f)
{
	while (!READ_ONCE(h->active) || !hydra_raise_targets(h, f)) {
		/* The targets are of no use to a second split. */
		f->all = true;
		f->by_domain = false;
		if (hydra_raise_inactive(h, f))
			return false;
	}
	return true;
}

/**
 * hydra_flush_targets - deliver a flush
 * @h: address space
 * @f: f->targets are the sharers; f->all, and what hydra_flush_what() sets, is set
 *
 * Context: preemption off, interrupts on; the entries have been changed.
 */
void hydra_flush_targets(struct hydra_mm *h, struct hydra_flush *f)
{
	const struct cpumask *cpus = mm_cpumask(h->mm);
	struct flush_tlb_info *info = &f->info;
	int self = smp_processor_id();
	struct mm_struct *mm = h->mm;
	u32 second = hydra_second();
	unsigned int spared = 0;
	bool active, mine;

	lockdep_assert_preemption_disabled();
	active = hydra_raise(h, f);
	/* Flush the range only, or everything? As flush_tlb_mm_range() decides. */
	if (info->end == TLB_FLUSH_ALL ||
	    (info->end - info->start) >> info->stride_shift > tlb_single_page_flush_ceiling) {
		info->start = 0;
		info->end = TLB_FLUSH_ALL;
	}
	info->mm = mm;
	info->initiating_cpu = self;
	info->trim_cpumask = 0;
	f->interrupted = 0;
	f->across = 0;

	mine = mm == this_cpu_read(cpu_tlbstate.loaded_mm) &&
	       (f->all || hydra_mask_test(hydra_this_domain(h), &f->targets));
	if (!f->all) {
		hydra_pick_targets(h, f);
		cpus = &f->cpus;
		/* Before the interrupts: as Linux's loop would find the CPUs. */
		spared = hydra_count_spared(h, f);
	}
	if (cpumask_any_but(cpus, self) < nr_cpu_ids) {
		smp_call_func_t func = f->by_domain ? hydra_flush_func : flush_tlb_func;

		info->trim_cpumask = should_trim_cpumask(mm);
		count_vm_tlb_event(NR_TLB_REMOTE_FLUSH);
		trace_tlb_flush(TLB_REMOTE_SEND_IPI, info->end == TLB_FLUSH_ALL ?
				TLB_FLUSH_ALL : (info->end - info->start) >> PAGE_SHIFT);
		on_each_cpu_cond_mask(hydra_should_flush_tlb, func, info, true,
				      cpus);
	} else if (mine) {
		lockdep_assert_irqs_enabled();
		local_irq_disable();
		if (f->by_domain)
			hydra_flush_func(info);
		else
			flush_tlb_func(info);
		local_irq_enable();
	}
	if (!f->all)
		hydra_unpick_targets(h, f);
	if (!active && !READ_ONCE(h->counting))
		return;
	if (active && info->end == TLB_FLUSH_ALL)
		hydra_domains_flushed(h, &f->targets, second);
	hydra_flush_counted(h, f, spared);
}

/**
 * hydra_flush_domains - flush a range for domains with links cut, as Linux would not
 * @h: address space
 * @start: first address
 * @end: end of the range, exclusive
 * @domains: the domains
 *
 * Secondary TLBs walk the canonical tree, which has not changed, and are not
 * flushed. (hydra_rehome_tables() changes it, where there are no secondary TLBs.) If
 * the address space returns to plain Linux just now, flush every CPU that runs it.
 *
 * Context: a page-table lock held.
 */
void hydra_flush_domains(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *domains)
{
	struct hydra_flush *f = this_cpu_ptr(&hydra_flush_state);

	lockdep_assert_preemption_disabled();
	f->targets = *domains;
	f->all = false;
	f->own = true;
	hydra_flush_what(f, start, end, PAGE_SHIFT, true);
	hydra_flush_targets(h, f);
	f->own = false;
}

/**
 * hydra_runs_isolated - would a flush interrupt an isolated CPU?
 * @mm: the address space
 * @cpus: the CPUs that it would reach
 *
 * Context: any. If preemption is on, CPUs may come and go meanwhile.
 * Return: true if an isolated CPU of @cpus runs the address space.
 */
bool hydra_runs_isolated(struct mm_struct *mm, const struct cpumask *cpus)
{
	unsigned int cpu;

	for_each_cpu_and(cpu, mm_cpumask(mm), cpus)
		if (cpu_is_isolated(cpu))
			return true;
	return false;
}

#include "tests/tlb-kunit.h"
