// SPDX-License-Identifier: GPL-2.0-only
/*
 * Switching: a CPU begins to run an address space, and a thread returns to user mode.
 *
 * An address space with settings is plain Linux until threads of its process run in
 * two domains. Until then Hydra keeps the settings and mm->hydra_last, the domain
 * of the CPUs running the address space: no struct hydra_mm, no tree, no counters.
 * When a single thread moves to another domain, mm->hydra_last follows.
 */

/**
 * DOC: Lodging
 *
 * CPU 0 is the first CPU of a domain without a tree to switch to an active address space.
 * PCIDs of the domain may have missed flushes since the split. So CPU 0 first raises
 * mm->context.tlb_gen, and then makes the domain universal::
 *
 *     CPU 0, of domain d          CPU 1, of domain d          CPU 2: a flush
 *     ------------------          ------------------          --------------
 *     raises context.tlb_gen                                  changes entries
 *     <full barrier>                                          <full barrier>
 *     sets d in universal         reads universal: d is set   reads universal
 *     <full barrier>              reads context.tlb_gen:
 *     reads context.tlb_gen         CPU 0 has raised it
 *
 * If CPU 2 reads universal without d, CPU 2 changed entries before CPU 0 and CPU 1
 * read context.tlb_gen. Both CPUs are behind context.tlb_gen, and flush.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include <asm/hydra.h>

#include "ask.h"
#include "domain.h"
#include "home.h"
#include "idle.h"
#include "rent.h"
#include "settings.h"
#include "split.h"
#include "splitter.h"
#include "state.h"
#include "switch.h"
#include "tlb.h"
#include "wait.h"

DEFINE_STATIC_KEY_FALSE(hydra_watch_key);

/**
 * hydra_watch - from now on CPUs look for address spaces that run in two domains
 *
 * The static branch is never switched back: counting the processes with settings
 * would cost time in each fork.
 *
 * Context: process context, no locks.
 */
void hydra_watch(void)
{
	hydra_assert_may_wait();
	if (!static_key_enabled(&hydra_watch_key))
		static_branch_enable(&hydra_watch_key);
}

/*
 * A CPU of a domain begins to run an active address space. If the domain has never had
 * a tree, it becomes universal. See "Lodging" in the head of this file.
 *
 * Context: __hydra_switching(). Return: NULL, or the domain.
 */
static struct hydra_domain *hydra_lodge(struct hydra_mm *h, unsigned int d)
{
	if (!READ_ONCE(h->domain[d]) && !hydra_mask_test(d, &h->universal)) {
		/* tlb_gen before universal: see "Lodging" in the head of this file. */
		atomic64_inc_return(&h->mm->context.tlb_gen);
		hydra_mask_set_atomic(d, &h->universal);
		/* universal before root; pairs with hydra_raise_targets(). */
		smp_mb__after_atomic();
	}
	return READ_ONCE(h->domain[d]);
}

/*
 * The process runs in this domain now: hydra_last follows, unless a split, or the first switch of
 * another CPU, has changed it meanwhile. If the process comes from another home, so may its
 * leaf tables.
 *
 * Context: preemption off. Return: false if hydra_last has changed meanwhile.
 */
static bool hydra_follow(struct mm_struct *mm, u32 last)
{
	u32 here = hydra_last_here(hydra_last_scope(last));

	if (cmpxchg(&mm->hydra_last, last, here) != last)
		return false;
	if (hydra_last_known(last) && hydra_last_home(last) != hydra_last_home(here) &&
	    hydra_is_worth_rehoming(mm))
		hydra_rehome_ask();
	return true;
}

/**
 * __hydra_switching - this CPU is about to run an address space
 * @next: the address space
 * @tsk: the task that will use it, or NULL
 *
 * Context: as hydra_switching(): interrupts off.
 * Return: the domain of this CPU, if the address space is active and the domain has
 * had a tree; or NULL.
 */
struct hydra_domain *__hydra_switching(struct mm_struct *next,
				       struct task_struct *tsk)
{
	u32 last = READ_ONCE(next->hydra_last);
	struct hydra_domain *dom = NULL;
	struct hydra_mm *h;
	unsigned int d = 0;
	u32 second;

	lockdep_assert_irqs_disabled();
	/* 0: the settings have become those of Linux just now. */
	if (!last || hydra_is_last(last))
		return NULL;
	/*
	 * hydra_last before active; pairs with the smp_mb() in hydra_deactivate(). A CPU
	 * that reads a value stored after the return reads active as false.
	 */
	smp_rmb();
	h = mm_hydra(next);
	if (h) {
		d = hydra_this_domain(h);
		dom = hydra_lodge(h, d);
		/* For hydra_context_flushed(), before the CPU flushes. */
		second = hydra_second();
		this_cpu_write(hydra_switch_second, second);
		/* Other CPUs read these lines: write them only if they change. */
		if (dom && READ_ONCE(dom->ran) != second)
			WRITE_ONCE(dom->ran, second);
		if (this_cpu_read(hydra_lazy_left))
			this_cpu_write(hydra_lazy_left, NULL);
	}
	/* execve() passes no task when it switches to the new address space. */
	if (!tsk)
		tsk = current;
	if (!hydra_may_split(tsk, next))
		return dom;
	if (h) {
		if (hydra_lacks_tree(h, d) || hydra_returns(h, tsk))
			set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (last == HYDRA_LAST_SPLIT) {
		/*
		 * hydra_activate() or hydra_deactivate() is running, and reads
		 * mm_cpumask() later.
		 */
	} else if (hydra_last_known(last) && hydra_has_threads(tsk)) {
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (hydra_last_known(last) && atomic_read(&next->mm_users) > 1) {
		/* A process made by clone(CLONE_VM) shares it: hydra_last stays. */
	} else if (!hydra_follow(next, last) && hydra_has_threads(tsk)) {
		/* The first switch of another CPU was faster. */
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	}
	return dom;
}

/*
 * The only thread that runs the process's code has come to this domain: hydra_last follows,
 * unless a split has changed it meanwhile. No other thread can make one that runs elsewhere.
 */
static void hydra_move_last(struct mm_struct *mm, u32 last)
{
	/* A process made by clone(CLONE_VM) may run in the old domain. */
	if (atomic_read(&mm->mm_users) > 1 + hydra_nr_workers(current, UINT_MAX))
		return;
	guard(preempt)();
	(void)hydra_follow(mm, last);
}

/**
 * __hydra_resume_user_mode - split an address space, or return it to plain Linux
 * @mm: the address space of the current thread
 *
 * After a signal or a lack of memory, the next switch marks the thread again, or
 * hydra_ask().
 *
 * Context: as hydra_resume_user_mode().
 */
void __hydra_resume_user_mode(struct mm_struct *mm)
{
	bool returns, done = true;
	struct hydra_mm *h;
	unsigned int noio;
	u32 last;

	if (!hydra_wants_domains(hydra_choice_of(mm)) ||
	    !hydra_may_split(current, mm))
		return;
	last = READ_ONCE(mm->hydra_last);
	/*
	 * hydra_last before active, as in __hydra_switching(); pairs with the smp_mb()
	 * in hydra_deactivate().
	 */
	smp_rmb();
	h = mm_hydra(mm);
	/* Once: if it returns meanwhile, it is not to be split again. */
	returns = h && hydra_returns(h, current);
	if (h ? !returns && !hydra_lacks_tree(h, hydra_this_domain(h)) :
		last == HYDRA_LAST_SPLIT || !hydra_last_known(last) || hydra_is_last(last))
		return;
	noio = hydra_no_wait_begin();
	if (returns)
		done = hydra_unsplit(mm);
	else if (h || hydra_has_user_threads())
		done = hydra_split(mm);
	else if (hydra_has_threads(current))
		hydra_move_last(mm, last);
	hydra_no_wait_end(noio);
	if (!done)
		hydra_ask_again();
}
