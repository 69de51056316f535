// SPDX-License-Identifier: GPL-2.0-only
/*
 * Void marks: filter "accessed" spares a domain whose CPUs have been flushed since a page
 * was last used there.
 *
 * When Linux ages a page, Linux clears the accessed bits of the page and flushes no CPU.
 * The mark in the copy records that the domain may still have the translation in a TLB,
 * see arch/x86/mm/hydra/marks.c. Until reclaim takes the page, the CPUs of the domain may
 * run other processes for minutes, with the TLB emptied at each switch. So the ager stamps
 * the mark with the second of the aging. A mark is void if each CPU of the domain has been
 * flushed in a later second:
 *
 *     CPU 0: ages the page                 CPU 1, of the domain: runs the process again
 *     --------------------                 --------------------------------------------
 *     hydra_age_copy():
 *       clears the accessed bit,
 *         leaves the mark
 *       <full barrier>
 *       reads the second: 7
 *       stamps the mark with 7
 *                                          __hydra_switching(): reads the second: 8
 *                                          load_new_mm_cr3(): flushes
 *                                          hydra_context_flushed(): stores 8
 *
 * CPU 0 read second 7 after the accessed bit was clear. Second 8 came later, so CPU 1
 * flushed after the bit was clear, and CPU 1 can get the translation back only by a walk,
 * which sets the accessed bit again. A copy whose accessed bit is set gets a mark without
 * a stamp at the next change (hydra_mark()). If CPU 0 read the second before CPU 0 cleared
 * the bit, or CPU 1 read the second after the flush, then a flush that came before the
 * aging could look like a later one.
 *
 * A context is one process's part of the TLB of a CPU: cpu_tlbstate.ctxs[]. A CPU that has
 * no context of the address space uses no old translation: the CPU flushes when it gives the
 * address space a context. A CPU whose context is not loaded may use old translations when
 * the CPU loads the context again. So all contexts count, and not only the loaded one.
 *
 * Another CPU's contexts are read without a lock. What changes meanwhile is a flush, and
 * makes the true second later than the one that was read. A CPU just between two
 * address spaces has loaded_mm == LOADED_MM_SWITCHING. If no context is found there, the
 * CPU may still use the one that it gives up just now, and proves nothing.
 *
 * A full flush by Hydra (hydra_domains_flushed()) counts for all contexts of a domain: the
 * flush has raised the domain's generation, so a context that is not loaded is flushed
 * before its next use.
 */

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include <asm/hydra.h>
#include <asm/tlbflush.h>

#include "domain.h"
#include "idle.h"
#include "state.h"
#include "entry.h"

/* The numbers of seconds that a stamp tells apart. Stamp 0: none. */
#define NR_STAMPS	(HYDRA_PTE_STAMP >> HYDRA_PTE_STAMP_SHIFT)

/*
 * The second that this CPU read when it last switched to a split address space; 0: a
 * flush has used it up. If that switch flushed nothing, the second stays for the next
 * switch that flushes, of any address space. It is then too early, which is safe.
 */
DEFINE_PER_CPU(u32, hydra_switch_second);

/* By context of this CPU: the context was flushed in whole since this second began. */
static DEFINE_PER_CPU(u32 [TLB_NR_DYN_ASIDS], hydra_context_flushed_in);

/**
 * hydra_stamp - the stamp of a copy that is aged in a second
 * @second: the second, read after the accessed bit was cleared
 *
 * Return: bits of HYDRA_PTE_STAMP, not 0.
 */
pteval_t hydra_stamp(u32 second)
{
	return (pteval_t)(second % NR_STAMPS + 1) << HYDRA_PTE_STAMP_SHIFT;
}

/*
 * The latest second, up to @now, that a stamp can stand for. A copy that was aged earlier
 * looks younger than it is, and its mark is not void for a while.
 */
static u32 hydra_stamped(pteval_t val, u32 now)
{
	u32 stamp = ((val & HYDRA_PTE_STAMP) >> HYDRA_PTE_STAMP_SHIFT) - 1;

	return now - (now % NR_STAMPS + NR_STAMPS - stamp) % NR_STAMPS;
}

/**
 * __hydra_context_flushed - this CPU has flushed a context, and loaded it
 * @asid: the context
 *
 * Context: hydra_context_flushed(): interrupts off.
 */
void __hydra_context_flushed(u16 asid)
{
	lockdep_assert_irqs_disabled();
	this_cpu_write(hydra_context_flushed_in[asid], this_cpu_read(hydra_switch_second));
	this_cpu_write(hydra_switch_second, 0);
}

/* No CPU of a domain uses translations from before a second. May lose to an earlier one. */
static void hydra_domain_flushed(struct hydra_domain *dom, u32 second)
{
	if (hydra_later(second, READ_ONCE(dom->flushed)))
		WRITE_ONCE(dom->flushed, second);
}

/**
 * hydra_domains_flushed - domains have been flushed in whole
 * @h: address space
 * @domains: the domains
 * @second: a second read before their generations were raised
 *
 * Context: preemption off since then.
 */
void hydra_domains_flushed(struct hydra_mm *h, const hydra_mask_t *domains, u32 second)
{
	unsigned int d;

	for_each_hydra_domain(d, domains) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);

		if (dom)
			hydra_domain_flushed(dom, second);
	}
}

/*
 * Since when has a CPU used no translation from before? Return: false if that cannot be
 * told; or true, with @since made earlier if need be.
 */
static bool hydra_cpu_flushed(int cpu, u64 ctx_id, u32 *since)
{
	const struct tlb_state *state = per_cpu_ptr(&cpu_tlbstate, cpu);
	bool found = false;
	unsigned int asid;

	for (asid = 0; asid < TLB_NR_DYN_ASIDS; asid++) {
		u32 second = READ_ONCE(per_cpu(hydra_context_flushed_in, cpu)[asid]);

		/* data_race(): the CPU writes its contexts plainly. */
		if (data_race(READ_ONCE(state->ctxs[asid].ctx_id)) != ctx_id)
			continue;
		found = true;
		if (hydra_later(*since, second))
			*since = second;
	}
	/*
	 * The contexts before loaded_mm. Pairs with the order of stores in
	 * switch_mm_irqs_off(): LOADED_MM_SWITCHING, then the context.
	 */
	smp_rmb();
	/* data_race(): as above. */
	return found || data_race(READ_ONCE(state->loaded_mm)) != LOADED_MM_SWITCHING;
}

/* Look at the contexts of all CPUs of a domain. */
static void hydra_look_at_contexts(struct hydra_mm *h, unsigned int d, u32 now)
{
	u64 ctx_id = h->mm->context.ctx_id;
	u32 since = now;
	int cpu;

	/* A CPU that comes online flushes first. */
	for_each_cpu_and(cpu, hydra_domains_of(h)->cpus[d], cpu_online_mask)
		if (!hydra_cpu_flushed(cpu, ctx_id, &since))
			return;
	hydra_domain_flushed(h->domain[d], since);
}

/**
 * hydra_is_void - is a mark void?
 * @h: address space
 * @d: the domain, which has had a tree
 * @val: the copy, with the mark
 *
 * Looks at the contexts of a domain once a second at most.
 *
 * Context: interrupts off, or the table's lock.
 * Return: true if no CPU of the domain uses a translation from before the aging.
 */
bool hydra_is_void(struct hydra_mm *h, unsigned int d, pteval_t val)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);
	u32 now;

	if (!(val & HYDRA_PTE_STAMP))
		return false;
	/* The stamp before the second; pairs with cmpxchg() in hydra_age_copy(). */
	smp_rmb();
	now = hydra_second();
	if (READ_ONCE(dom->looked) != now) {
		/* First: other CPUs need not look, too. */
		WRITE_ONCE(dom->looked, now);
		hydra_look_at_contexts(h, d, now);
	}
	return hydra_later(READ_ONCE(dom->flushed), hydra_stamped(val, now));
}

#include "tests/idle-kunit.h"
