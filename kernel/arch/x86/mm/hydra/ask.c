// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asking: a timer has a thread come by __hydra_resume_user_mode().
 *
 * A thread that could not have the locks goes on in user mode, on the canonical root: each
 * flush interrupts its CPU. A thread that never sleeps would not ask again at a switch. So
 * a timer of this CPU asks the thread that runs then. If that is a thread of the process that
 * may not split it, the timer comes again, but not for as long as such a thread runs.
 */

#include <linux/init.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/timer.h>

#include "ask.h"
#include "settings.h"

/**
 * hydra_may_split - may this thread's domain split the address space, or get a tree?
 * @tsk: the task
 * @mm: the address space
 *
 * Context: any.
 * Return: no for kernel threads that borrow the address space, and for children of vfork()
 */
bool hydra_may_split(struct task_struct *tsk, struct mm_struct *mm)
{
	/*
	 * Kernel threads that borrow the address space, and io workers, run no user
	 * code.
	 */
	if (tsk->mm != mm || tsk->flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING))
		return false;
	/* A child of vfork() runs in the address space of the parent, for a short time. */
	return !tsk->vfork_done;
}

#define ASK_AGAIN	(HZ / 10 + 1)
#define ASK_TRIES	20

static DEFINE_PER_CPU(struct timer_list, hydra_ask_timer);
static DEFINE_PER_CPU(int, hydra_ask_tries);

/* Context: timer, on the CPU where it was set, or on another one if that has gone offline. */
static void hydra_ask(struct timer_list *timer)
{
	struct mm_struct *mm = current->mm;

	if (!mm || !hydra_wants_domains(hydra_choice_of(mm)))
		return;
	/* A switch between threads of one process asks no thread: ask the next one. */
	if (hydra_may_split(current, mm))
		set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
	else if (this_cpu_dec_return(hydra_ask_tries) > 0)
		mod_timer(timer, jiffies + ASK_AGAIN);
}

/* Context: preemption off. */
static void hydra_ask_soon(void *unused)
{
	lockdep_assert_preemption_disabled();
	this_cpu_write(hydra_ask_tries, ASK_TRIES);
	mod_timer(this_cpu_ptr(&hydra_ask_timer), jiffies + ASK_AGAIN);
}

/**
 * hydra_ask_again - ask the threads of this CPU soon
 *
 * Context: any but NMI.
 */
void hydra_ask_again(void)
{
	guard(preempt)();
	hydra_ask_soon(NULL);
}

/**
 * hydra_ask_at - ask the threads of this CPU later
 * @when: jiffies
 *
 * A request for an earlier time replaces this one; so does a switch.
 *
 * Context: any but NMI.
 */
void hydra_ask_at(unsigned long when)
{
	guard(preempt)();
	this_cpu_write(hydra_ask_tries, ASK_TRIES);
	timer_reduce(this_cpu_ptr(&hydra_ask_timer), when);
}

/**
 * hydra_ask_all - ask the threads of all CPUs that run an address space
 * @mm: the address space
 *
 * For a request that came from another process, and was in vain: the threads may be in user
 * mode for long.
 *
 * Context: interrupts on.
 */
void hydra_ask_all(struct mm_struct *mm)
{
	on_each_cpu_mask(mm_cpumask(mm), hydra_ask_soon, NULL, false);
}

static int __init hydra_ask_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		timer_setup(per_cpu_ptr(&hydra_ask_timer, cpu), hydra_ask, TIMER_PINNED);
	return 0;
}
core_initcall(hydra_ask_init);
