// SPDX-License-Identifier: GPL-2.0-only
/*
 * The splitter: how an address space is split without a wait of its own threads.
 *
 * A thread on its way to user mode tries to get the locks. If it cannot have them, it asks
 * the kernel thread hydra_splitter, and goes on in user mode. A timer of its CPU asks again.
 */

#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/timer.h>

#include <asm/tlbflush.h>

#include "ask.h"
#include "domain.h"
#include "idle.h"
#include "rent.h"
#include "roots.h"
#include "settings.h"
#include "split.h"
#include "splitter.h"
#include "state.h"
#include "tlb.h"
#include "wait.h"

/*
 * How many ticks a thread on its way to user mode waits for the locks, and how long no
 * thread waits after a wait in vain
 */
#define LOCK_TRIES	20
#define WAIT_AGAIN	(10 * HZ)

/* How many ticks hydra_splitter() waits in the queue of mmap_lock: at first, and at last */
#define QUEUE_TICKS	10
#define QUEUE_TICKS_MAX	(8 * QUEUE_TICKS)

/**
 * hydra_has_threads - has the process of a task several threads?
 * @tsk: the task
 *
 * Another thread may end meanwhile. The next switch to the process finds it gone.
 *
 * Kernel threads that work for the process count here, because Linux counts them: those of
 * io_uring, and of vhost. A switch has no time to look at each thread, so
 * __hydra_resume_user_mode() does.
 *
 * Context: any.
 * Return: true if so.
 */
bool hydra_has_threads(struct task_struct *tsk)
{
	return READ_ONCE(tsk->signal->nr_threads) > 1;
}

/**
 * hydra_nr_workers - how many threads of a process are kernel threads that work for it?
 * @tsk: a task of the process
 * @enough: stop at so many others
 *
 * Context: any.
 * Return: their number.
 */
unsigned int hydra_nr_workers(struct task_struct *tsk, unsigned int enough)
{
	unsigned int workers = 0, others = 0;
	struct task_struct *t;

	guard(rcu)();
	for_each_thread(tsk, t) {
		if (data_race(t->flags) & PF_USER_WORKER)
			workers++;
		else if (++others == enough)
			break;
	}
	return workers;
}

/**
 * hydra_has_user_threads - has the process of the current task several threads that run its code?
 *
 * Context: process context.
 * Return: true if so.
 */
bool hydra_has_user_threads(void)
{
	return hydra_has_threads(current) &&
	       READ_ONCE(current->signal->nr_threads) > 1 + hydra_nr_workers(current, 2);
}

/**
 * hydra_has_users - does an address space of another process run its code in several threads?
 * @mm: the address space, of which the caller holds one reference in mm_users
 *
 * A process made by clone(CLONE_VM) counts, too, and so does any reference that the kernel holds
 * just then (hydra_keeper(), a reader of /proc): the process is split then, and returns later.
 *
 * Context: process context.
 * Return: true if so.
 */
bool hydra_has_users(struct mm_struct *mm)
{
	struct task_struct *owner = NULL;

	guard(rcu)();
#ifdef CONFIG_MEMCG
	owner = rcu_dereference(mm->owner);
#endif
	return atomic_read(&mm->mm_users) > 2 + (owner ? hydra_nr_workers(owner, UINT_MAX) : 0);
}

/**
 * hydra_mmap_trylock - mmap_write_lock() without the wait
 * @mm: the address space
 *
 * Context: process context.
 * Return: false if the lock is busy.
 */
bool hydra_mmap_trylock(struct mm_struct *mm)
{
	if (!down_write_trylock(&mm->mmap_lock))
		return false;
	mm_lock_seqcount_begin(mm);
	return true;
}

/*
 * A time in jiffies, before which no thread on its way to user mode waits for
 * mmap_lock. Each CPU has one for the address spaces that have never been split; any
 * other address space has hydra_mm::no_wait_until.
 */
static DEFINE_PER_CPU(unsigned long, no_wait_until);

static unsigned long *hydra_no_wait(struct mm_struct *mm)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);

	return h ? &h->no_wait_until : raw_cpu_ptr(&no_wait_until);
}

static bool hydra_may_wait(struct mm_struct *mm)
{
	return time_after_eq(jiffies, READ_ONCE(*hydra_no_wait(mm)));
}

/* How often to try: if threads keep mapping memory, mmap_lock is rarely free. */
#define LOCK_LOOKS	1000

static bool hydra_trylock(struct mm_struct *mm, unsigned int looks)
{
	for (; looks && !need_resched(); looks--) {
		if (!rwsem_is_locked(&mm->mmap_lock) && hydra_trylock_ldt(mm)) {
			if (hydra_mmap_trylock(mm))
				return true;
			hydra_unlock_ldt(mm);
		}
		cpu_relax();
	}
	return false;
}

/* Has another thread given this CPU's domain its tree meanwhile? */
static bool hydra_came_late(struct mm_struct *mm)
{
	struct hydra_mm *h = mm_hydra(mm);

	return h && !hydra_lacks_tree(h, hydra_this_domain(h));
}

/*
 * Give an address space its struct hydra_mm, and split it, if its settings still ask for that.
 *
 * @new: as for hydra_attach()
 * @decided: policy "auto" has decided so. Otherwise a thread that comes to a further domain asks,
 *	and the process may have returned meanwhile
 *
 * Context: as hydra_split_locked(). Return: false: try again later.
 */
static bool hydra_attach_and_split(struct mm_struct *mm, struct hydra_mm **new, bool decided)
{
	union hydra_choice settings = hydra_choice_of(mm);

	if (!hydra_wants_domains(settings) ||
	    (hydra_is_auto(settings) && !decided && !mm_hydra(mm)))
		return true;
	hydra_attach(mm, new);
	return mm->hydra && hydra_split_locked(mm->hydra);
}

/*
 * The splitter: a kernel thread that splits address spaces, and returns them, for policy "auto";
 * and those whose own threads could not do it on their way to user mode, because they must not
 * wait there:
 *
 * - for mmap_lock, if threads of the process hold it nearly always. The splitter waits in the
 *   queue of the lock, but for QUEUE_TICKS only: a queued writer keeps readers out, and the
 *   holder of the lock may be waiting for one of these. A timer ends the wait by a signal.
 *   Then the splitter lets the readers in for as long, and waits twice as long as before, up
 *   to QUEUE_TICKS_MAX.
 * - for memory, and for hydra_key: the splitter waits for these without a bound, before it
 *   takes a lock.
 *
 * It serves one address space at a time, of a long return RETURN_PARTS parts. A process that comes
 * meanwhile asks again.
 */
#define RETURN_PARTS	16

static struct task_struct *splitter __ro_after_init;
static struct mm_struct *queued;	/* with a reference to the mm_struct */
static enum hydra_request queued_for;	/* written before @queued */
static struct timer_list queue_timer;

static void hydra_end_queueing(struct timer_list *timer)
{
	send_sig(SIGKILL, splitter, 1);
}

/**
 * hydra_queue - ask the splitter to split an address space, or to return it
 * @mm: the address space
 * @request: what to do
 *
 * Context: process context.
 * Return: false if the splitter serves another one.
 */
bool hydra_queue(struct mm_struct *mm, enum hydra_request request)
{
	static DEFINE_SPINLOCK(lock);
	struct mm_struct *busy;

	if (!splitter)
		return false;
	busy = READ_ONCE(queued);
	if (busy)
		return busy == mm;
	scoped_guard(spinlock, &lock) {
		if (queued)
			return queued == mm;
		mmgrab(mm);
		queued_for = request;
		/* The request before its mm_struct; pairs with the acquire in hydra_splitter(). */
		smp_store_release(&queued, mm);
	}
	/* Full barrier; pairs with both set_current_state() in hydra_splitter(). */
	wake_up_process(splitter);
	return true;
}

/**
 * hydra_go_on_returning - have the next part done of a return that has begun
 * @mm: the address space
 *
 * The splitter does it. If it serves another address space, the threads ask again at a switch.
 * If it serves this one, it may have found a writer of settings there, and left the return to that
 * one, just before a signal ends the writer::
 *
 *     CPU 0: the writer                    CPU 1: the splitter
 *     -----------------                    -------------------
 *     takes itself from hydra_mm::writers  queued = NULL
 *     <full barrier>                       <full barrier>
 *     queued is this one: does nothing     reads hydra_mm::writers: 0
 *                                          goes on
 *
 * Context: process context.
 */
void hydra_go_on_returning(struct mm_struct *mm)
{
	/* Pairs with the barrier in hydra_splitter(). */
	smp_mb();
	if (!hydra_queue(mm, HYDRA_REQUEST_GO_ON))
		hydra_ask_all(mm);
}

/* mmap_write_lock(), but with a bound. Context: the splitter. */
static bool hydra_queue_for_lock(struct mm_struct *mm)
{
	unsigned int ticks;
	bool locked;

	for (ticks = QUEUE_TICKS; ticks <= QUEUE_TICKS_MAX; ticks *= 2) {
		mod_timer(&queue_timer, jiffies + ticks);
		locked = !mmap_write_lock_killable(mm);
		timer_delete_sync(&queue_timer);
		flush_signals(current);
		if (locked || ticks == QUEUE_TICKS_MAX)
			break;
		schedule_timeout_idle(ticks);
	}
	return locked;
}

/*
 * A CPU that runs an address space. One that has gone idle stays in mm_cpumask(): it is taken only
 * if there is no other. Return: nr_cpu_ids if there is none.
 */
static unsigned int hydra_running_cpu(struct mm_struct *mm)
{
	unsigned int cpu;

	for_each_cpu(cpu, mm_cpumask(mm))
		if (!READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
			return cpu;
	return cpumask_any(mm_cpumask(mm));
}

/**
 * hydra_last_now - mm->hydra_last, if threads look for a second domain from now on
 * @mm: the address space, not split
 * @scope: of the domains; HYDRA_SCOPE_MACHINE: they do not look
 *
 * If CPUs of several domains run it, the domain of any of them will do: the caller asks
 * hydra_runs_in_several() afterwards. That counts idle CPUs, too: such a CPU may be about to run a
 * thread, with the old value of hydra_last. One that runs a thread later finds that its domain is
 * another one.
 *
 * Context: mmap_lock held for writing.
 * Return: the value.
 */
u32 hydra_last_now(struct mm_struct *mm, unsigned int scope)
{
	unsigned int cpu = hydra_running_cpu(mm);

	if (scope == HYDRA_SCOPE_MACHINE)
		return 0;
	return cpu < nr_cpu_ids ? hydra_last(scope, hydra_domain_of_cpu(scope, cpu)) :
				  HYDRA_LAST_UNKNOWN(scope);
}

/**
 * hydra_runs_in_several - do CPUs of several domains run an address space?
 * @mm: the address space
 * @scope: of the domains
 *
 * Context: any.
 * Return: true if so.
 */
bool hydra_runs_in_several(struct mm_struct *mm, unsigned int scope)
{
	unsigned int cpu = cpumask_any(mm_cpumask(mm));

	return scope != HYDRA_SCOPE_MACHINE && cpu < nr_cpu_ids &&
	       !cpumask_subset(mm_cpumask(mm),
			       hydra_domains[scope].cpus[hydra_domain_of_cpu(scope, cpu)]);
}

/* A process has returned to plain Linux. Under policy "auto" no thread looks for a split. */
static void hydra_last_returned(struct mm_struct *mm, u32 last)
{
	mmap_assert_write_locked(mm);
	WRITE_ONCE(mm->hydra_last, hydra_is_auto(hydra_choice_of(mm)) ? 0 : last);
}

/*
 * Has one domain alone run an address space for as long as its trees stay?
 *
 * A thread that has not slept for long has made its last switch long ago: so first note the
 * domains whose CPUs run the address space now. If a thread has slept since, and had run without a
 * switch before, its domain looks as if it had not run. The process is split again when the
 * thread wakes up, and its trees stay longer then.
 *
 * A universal domain counts if it has had a tree. One that has had none ran a thread that may not
 * split the process.
 *
 * A return interrupts the CPUs that run the process. So none begins as long as one of them is
 * isolated. An isolated CPU to which a thread comes during a return in parts is interrupted.
 *
 * @alone: set to the domain
 *
 * Context: any.
 */
static bool hydra_runs_alone(struct hydra_mm *h, unsigned int *alone)
{
	u32 stay = READ_ONCE(h->stay) / HZ, ran, last = 0;
	struct hydra_domain *dom;
	hydra_mask_t domains;
	bool any = false;
	unsigned int d;
	int cpu;

	/* See hydra_set_scope() for the numbers. */
	guard(preempt)();
	if (!READ_ONCE(h->active) || hydra_runs_isolated(h->mm, cpu_possible_mask))
		return false;
	for_each_cpu(cpu, mm_cpumask(h->mm)) {
		dom = READ_ONCE(h->domain[hydra_domain_of_cpu(h->scope, cpu)]);
		if (READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu)))
			continue;
		if (!dom)
			return false;
		WRITE_ONCE(dom->ran, hydra_second());
	}
	hydra_mask_zero(&domains);
	hydra_mask_add(&domains, &h->trees);
	/* trees before h->domain[d]; pairs with the smp_wmb() in hydra_promote(). */
	smp_rmb();
	for_each_hydra_domain(d, &domains) {
		ran = READ_ONCE(h->domain[d]->ran);
		if (any && !hydra_later(ran, last))
			continue;
		any = true;
		last = ran;
		*alone = d;
	}
	for_each_hydra_domain(d, &domains) {
		ran = READ_ONCE(h->domain[d]->ran);
		if (d != *alone && !hydra_later(last, ran + stay))
			return false;
	}
	return any;
}

/*
 * Return an address space to plain Linux, as policy "auto" has decided, or as has been begun.
 * Threads may have come to other domains since that.
 *
 * Context: mmap_lock held for writing, hydra_lock_ldt().
 * Return: 0; -EINPROGRESS: there is more to do; -EAGAIN: the threads are to ask.
 */
static int hydra_return_locked(struct mm_struct *mm)
{
	union hydra_choice settings = hydra_choice_of(mm);
	unsigned int d, scope = hydra_scope_watched(settings);
	struct hydra_mm *h = mm_hydra(mm);
	bool alone;
	int ret;

	if (!h || (!hydra_is_auto(settings) && !h->returning))
		return 0;
	/* A CPU that has gone idle stays in mm_cpumask(). */
	alone = hydra_runs_alone(h, &d);
	ret = hydra_return(h, false);
	if (ret)
		return ret == -EINPROGRESS ? ret : -EAGAIN;
	hydra_last_returned(mm, alone ? hydra_last(h->scope, d) : hydra_last_now(mm, scope));
	/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(): see the DOC below. */
	smp_mb();
	hydra_rehome_ask();
	return hydra_runs_in_several(mm, scope) ? -EAGAIN : 0;
}

/* Do what a request asks for. Context, and return: as hydra_return_locked(). */
static int hydra_serve(struct mm_struct *mm, struct hydra_mm **new, enum hydra_request request)
{
	/* A return that has begun comes first. It may have ended since, though. */
	if (request == HYDRA_REQUEST_RETURN || (mm->hydra && mm->hydra->returning))
		return hydra_return_locked(mm);
	if (request == HYDRA_REQUEST_GO_ON)
		return 0;
	/* It may have got other settings since. A look asks again. */
	if (request == HYDRA_REQUEST_DECIDED) {
		if (hydra_is_auto(hydra_choice_of(mm)))
			hydra_attach_and_split(mm, new, true);
		return 0;
	}
	return !hydra_has_users(mm) || hydra_attach_and_split(mm, new, false) ? 0 : -EAGAIN;
}

/* The same, with the locks, if they are not busy for long */
static int hydra_lock_and_serve(struct mm_struct *mm, struct hydra_mm **new,
				enum hydra_request request)
{
	int ret = -EAGAIN;

	if (!hydra_queue_for_lock(mm))
		return ret;
	if (hydra_trylock_ldt(mm)) {
		/* Not an address space that ends, or that a thread has left by execve() */
		if (mmget_not_zero(mm)) {
			ret = hydra_serve(mm, new, request);
			mmput_async(mm);
		}
		hydra_unlock_ldt(mm);
	}
	mmap_write_unlock(mm);
	return ret;
}

/*
 * Has a return begun that no writer of settings ends? An address space without users needs none.
 * Context: any.
 */
static bool hydra_waits_for_splitter(struct mm_struct *mm)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);

	return h && READ_ONCE(h->returning) && !atomic_read(&h->writers) &&
	       atomic_read(&mm->mm_users);
}

/* Return: as hydra_return_locked(). */
static int hydra_serve_queued(struct mm_struct *mm, enum hydra_request request)
{
	unsigned int parts = RETURN_PARTS;
	struct hydra_mm *new = NULL;
	int ret = -EAGAIN;
	bool looks;

	if (!READ_ONCE(mm->hydra))
		new = hydra_alloc(mm, true);
	if (READ_ONCE(mm->hydra) || new) {
		do {
			ret = hydra_lock_and_serve(mm, &new, request);
			if (ret == -EINPROGRESS)
				hydra_between_parts(mm);
		} while (ret == -EINPROGRESS && --parts);
	}
	if (new)
		hydra_free(new);
	/* A look of policy "auto" asks again for what it has decided. */
	looks = hydra_is_auto(hydra_choice_of(mm)) && request != HYDRA_REQUEST_SPLIT;
	if (ret == -EAGAIN && !looks && !hydra_waits_for_splitter(mm))
		hydra_ask_all(mm);
	return ret;
}

/**
 * hydra_charge_begin - charge the allocations that follow to the cgroup of a process
 * @mm: its address space
 * @old: for hydra_charge_end()
 *
 * On behalf of the process another one, or a kernel thread, splits it, or moves its tables.
 *
 * Context: process context.
 * Return: for hydra_charge_end().
 */
struct mem_cgroup *hydra_charge_begin(struct mm_struct *mm, struct mem_cgroup **old)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm);

	*old = set_active_memcg(memcg);
	return memcg;
}

/**
 * hydra_charge_end - charge allocations to this task's own cgroup again
 * @memcg: from hydra_charge_begin()
 * @old: from hydra_charge_begin()
 *
 * Context: process context.
 */
void hydra_charge_end(struct mem_cgroup *memcg, struct mem_cgroup *old)
{
	set_active_memcg(old);
	mem_cgroup_put(memcg);
}

static int hydra_splitter(void *unused)
{
	struct mem_cgroup *memcg, *old;
	struct mm_struct *mm;
	int ret;

	allow_kernel_signal(SIGKILL);
	for (;;) {
		set_current_state(TASK_IDLE);
		mm = smp_load_acquire(&queued);
		if (!mm) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		memcg = hydra_charge_begin(mm, &old);
		ret = hydra_serve_queued(mm, queued_for);
		hydra_charge_end(memcg, old);
		/* The request before the next one; pairs with the lock in hydra_queue(). */
		smp_store_release(&queued, NULL);
		/* Pairs with the barrier in hydra_go_on_returning(): see there. */
		smp_mb();
		if (hydra_waits_for_splitter(mm)) {
			/*
			 * Another address space may have its turn: hydra_queue() ends the sleep. A
			 * lock that was busy may be so for long.
			 */
			set_current_state(TASK_IDLE);
			if (!READ_ONCE(queued))
				schedule_timeout(ret == -EINPROGRESS ? 1 : HZ);
			__set_current_state(TASK_RUNNING);
			hydra_go_on_returning(mm);
		}
		mmdrop(mm);
	}
	return 0;
}

/*
 * One try to split an address space on the way to user mode. Waits for nothing: the holder of
 * a lock may be waiting for this very thread, if the thread serves a file system or a block
 * device that its own process, or the kernel, uses.
 *
 * @looks: how often to look at the locks
 *
 * Context: process context, no locks. Return: false if it could not be done.
 */
static bool hydra_try_split(struct mm_struct *mm, unsigned int looks)
{
	struct hydra_mm *new = NULL;
	bool done = false;

	if (hydra_memory_is_short() || !hydra_trylock(mm, looks))
		return false;
	if (!mm->hydra)
		new = hydra_alloc(mm, false);
	if (mm->hydra || new)
		done = hydra_attach_and_split(mm, &new, false);
	mmap_write_unlock(mm);
	hydra_unlock_ldt(mm);
	if (new)
		hydra_free(new);
	return done;
}

/**
 * hydra_split - split an address space on the way to user mode, or give this domain its tree
 * @mm: the address space of the current thread
 *
 * If the thread cannot do it at once, it asks the splitter, and waits a few ticks at most. A
 * thread that slept comes here again before it reaches user mode, because the switch set
 * TIF_NOTIFY_RESUME, and so does rseq. So one thread waits, and after a wait in vain no thread
 * waits for WAIT_AGAIN. The next switch tries again, or hydra_ask(), each with one look at the
 * locks.
 *
 * Context: process context, no locks.
 * Return: false if it could not be done.
 */
bool hydra_split(struct mm_struct *mm)
{
	bool asked = false;
	unsigned int tries;

	if (!hydra_may_wait(mm))
		return hydra_try_split(mm, 1);
	if (hydra_try_split(mm, LOCK_LOOKS))
		return true;
	WRITE_ONCE(*hydra_no_wait(mm), jiffies + HZ);
	for (tries = 0; tries < LOCK_TRIES; tries++) {
		asked |= hydra_queue(mm, HYDRA_REQUEST_SPLIT);
		if (hydra_memory_is_short() || signal_pending(current))
			return false;
		schedule_timeout_interruptible(1);
		if (hydra_came_late(mm) || hydra_try_split(mm, LOCK_LOOKS)) {
			WRITE_ONCE(*hydra_no_wait(mm), jiffies);
			return true;
		}
	}
	/*
	 * The thread may have moved to a CPU with another time: write that one, too. If the
	 * splitter was busy with other processes, wait for it soon, but not at once: the
	 * splitter may be reclaiming memory that this very thread has to write.
	 */
	WRITE_ONCE(*hydra_no_wait(mm), jiffies + (asked ? WAIT_AGAIN : HZ));
	return false;
}

/**
 * hydra_unsplit - return a process with a single thread to plain Linux, if no lock is busy
 * @mm: its address space
 *
 * Context: that thread, on its way to user mode; no locks.
 * Return: false: try again later.
 */
bool hydra_unsplit(struct mm_struct *mm)
{
	int ret = 0;

	if (READ_ONCE(mm->hydra->returning))
		return hydra_queue(mm, HYDRA_REQUEST_GO_ON);
	if (!hydra_trylock(mm, LOCK_LOOKS))
		return false;
	if (mm->hydra->active && atomic_read(&mm->mm_users) == 1) {
		ret = hydra_return(mm->hydra, false);
		if (!ret) {
			/* If the thread moves later, the switch to it reads this domain. */
			preempt_disable();
			hydra_last_returned(mm, hydra_last_here(mm->hydra->scope));
			preempt_enable();
			/* Other domains have used tables that are on their nodes. */
			hydra_rehome_ask();
		}
	}
	mmap_write_unlock(mm);
	hydra_unlock_ldt(mm);
	return ret == -EINPROGRESS ? hydra_queue(mm, HYDRA_REQUEST_GO_ON) : !ret;
}

/**
 * hydra_returns - should a process with a single thread return to plain Linux?
 * @h: its address space
 * @tsk: the thread; of a return in parts, any thread, which then asks for more
 *
 * If the kernel holds a reference to the address space just then (hydra_keeper(), a reader of
 * /proc), the process returns at a later switch. A writer of settings needs no help.
 *
 * Context: any.
 * Return: true if so.
 */
bool hydra_returns(struct hydra_mm *h, struct task_struct *tsk)
{
	if (READ_ONCE(h->returning))
		return !atomic_read(&h->writers);
	return !hydra_has_threads(tsk) &&
	       time_after(jiffies, READ_ONCE(h->activated) + READ_ONCE(h->stay)) &&
	       atomic_read(&h->mm->mm_users) == 1;
}

/**
 * DOC: Return, and a thread that comes
 *
 * A thread comes to another domain while hydra_return_alone() runs::
 *
 *     CPU 0: hydra_return_alone()            CPU 1, of another domain: a switch
 *     ---------------------------            ----------------------------------
 *     active = false                         sets its bit in mm_cpumask()
 *     hydra_last = the domain                <full barrier>
 *     <full barrier>                         reads hydra_last: HYDRA_LAST_SPLIT
 *     reads mm_cpumask(): CPU 1                and active: false
 *     asks CPU 1                             asks for nothing
 *
 * If CPU 0 does not find the bit of CPU 1, CPU 1 reads the domain in hydra_last, and splits the
 * process again.
 */

/**
 * hydra_return_alone - return a process that one domain alone runs to plain Linux
 * @h: its address space, of which the caller holds a reference in mm_users
 *
 * Context: process context, no locks. If a lock is busy, nothing happens.
 */
void hydra_return_alone(struct hydra_mm *h)
{
	struct mm_struct *mm = h->mm;
	bool elsewhere = false;
	int ret = -EINTR;
	unsigned int d;

	if (hydra_is_auto(hydra_choice_of(mm)) || !hydra_runs_alone(h, &d) ||
	    !hydra_trylock(mm, LOCK_LOOKS))
		return;
	/* It may have been split anew, for other domains. */
	if (hydra_runs_alone(h, &d))
		ret = hydra_return(h, false);
	if (!ret) {
		hydra_last_returned(mm, hydra_last(h->scope, d));
		/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(): see the DOC above. */
		smp_mb();
		elsewhere = !cpumask_subset(mm_cpumask(mm), hydra_domains_of(h)->cpus[d]);
		hydra_rehome_ask();
	}
	mmap_write_unlock(mm);
	hydra_unlock_ldt(mm);
	if (ret == -EINPROGRESS)
		hydra_go_on_returning(mm);
	if (elsewhere)
		hydra_ask_all(mm);
}

static int __init hydra_splitter_init(void)
{
	struct task_struct *thread;

	timer_setup(&queue_timer, hydra_end_queueing, 0);
	thread = kthread_create(hydra_splitter, NULL, "hydra_splitter");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	splitter = thread;
	wake_up_process(thread);
	return 0;
}
core_initcall(hydra_splitter_init);

#include "tests/splitter-kunit.h"
