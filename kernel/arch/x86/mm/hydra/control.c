// SPDX-License-Identifier: GPL-2.0-only
/*
 * Control: the settings of a process from the first one on, over fork and execve, to the end
 * of its address space; and whether it is counted.
 *
 * Hydra counts the flushes of every address space that is split. An address space that is
 * plain Linux is counted if a process asks for it ("count=on" in /proc/PID/hydra). Then the
 * address space has a struct hydra_mm, and flush.c does the flushes, to all CPUs, as Linux
 * would. All others cost what they cost on Linux.
 *
 * Locking: settings, hydra_mm::counting and hydra_mm::sum change under mmap_lock held for
 * writing.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include <asm/hydra.h>

#define CREATE_TRACE_POINTS
#include <trace/events/hydra.h>

#include "ask.h"
#include "cgroup.h"
#include "domain.h"
#include "platform.h"
#include "rent.h"
#include "roots.h"
#include "settings.h"
#include "split.h"
#include "splitter.h"
#include "state.h"
#include "switch.h"
#include "wait.h"

/**
 * hydra_prctl_set - PR_SET_HYDRA
 * @arg2: user pointer to struct hydra_settings
 * @arg3: sizeof(struct hydra_settings)
 * @arg4: 0
 * @arg5: 0
 *
 * Context: process context, no locks.
 * Return: 0; or, with nothing changed, -EINVAL, -E2BIG, -EOPNOTSUPP, -EFAULT, -EPERM, -ENOMEM
 * or -EINTR.
 */
long hydra_prctl_set(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5)
{
	union hydra_choice settings;
	int ret;

	if (arg4 || arg5)
		return -EINVAL;
	ret = hydra_settings_read((void __user *)arg2, arg3, &settings);
	return ret ?: hydra_settings_set(current->mm, NULL, settings);
}

/**
 * hydra_prctl_get - PR_GET_HYDRA
 * @arg2: user pointer to struct hydra_settings
 * @arg3: sizeof(struct hydra_settings)
 * @arg4: 0
 * @arg5: 0
 *
 * What the program knows more of is set to 0. What it knows not of, it does not get.
 *
 * Context: process context, no locks.
 * Return: 0, -EINVAL, -E2BIG or -EFAULT.
 */
long hydra_prctl_get(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5)
{
	struct hydra_settings s = {};

	size_t known = min(arg3, sizeof(s));

	if (arg3 < HYDRA_SETTINGS_SIZE_FIRST || arg4 || arg5)
		return -EINVAL;
	if (arg3 > PAGE_SIZE)
		return -E2BIG;
	hydra_settings_give(hydra_settings_get(current->mm), &s);
	if (copy_to_user((void __user *)arg2, &s, known) ||
	    clear_user((void __user *)arg2 + known, arg3 - known))
		return -EFAULT;
	return 0;
}

/*
 * Do the domain trees of an address space have to go, for other settings? They do for
 * domains of another scope, or none at all, and for replication "eager", under which tables
 * have no domain without them.
 *
 * Context: mmap_lock held for writing.
 */
static bool hydra_restarts(struct mm_struct *mm, union hydra_choice settings)
{
	struct hydra_mm *h = mm->hydra;

	mmap_assert_write_locked(mm);
	if (!h || !h->active)
		return false;
	return h->scope != hydra_scope_of(settings) ||
	       (settings.replication == HYDRA_REPLICATE_EAGER && !hydra_eager(h));
}

/*
 * Change the settings under their locks, and split the address space if threads run in two
 * domains.
 *
 * @new: becomes its struct hydra_mm if it has none and is split
 * @lacks: set to true if it has to be split, and there is no struct hydra_mm
 *
 * Return: as hydra_settings_set(); or -EINPROGRESS: its trees go in parts, and there are more.
 */
static int hydra_settings_try(struct mm_struct *mm, const union hydra_choice *old,
			      union hydra_choice settings, struct hydra_mm **new,
			      bool *lacks)
{
	unsigned int scope = hydra_scope_watched(settings);
	int ret;

	ret = hydra_lock_ldt(mm);
	if (ret)
		return ret;
	ret = mmap_write_lock_killable(mm);
	if (ret)
		goto unlock;
	if (old && hydra_settings_get(mm).word != old->word)
		ret = -EAGAIN;
	else if (hydra_restarts(mm, settings))
		ret = hydra_return(mm->hydra, true);
	if (!ret) {
		WRITE_ONCE(mm->hydra_settings, settings.word | SETTINGS_CHOSEN);
		if (mm->hydra)
			hydra_note_settings(mm->hydra, settings);
		if (mm->hydra)
			hydra_keep_settings(mm->hydra);
		if (!mm->hydra || !mm->hydra->active) {
			WRITE_ONCE(mm->hydra_last, hydra_last_now(mm, scope));
			/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
			smp_mb();
			/*
			 * Now: threads that stay in user mode do not come to
			 * __hydra_resume_user_mode().
			 */
			if (hydra_runs_in_several(mm, scope) &&
			    (mm == current->mm ? hydra_has_user_threads() :
			     hydra_has_users(mm))) {
				hydra_attach(mm, new);
				*lacks = !mm->hydra;
				/*
				 * The splitter may just be done with an earlier request: ask the
				 * threads, too.
				 */
				if (mm->hydra && !hydra_split_locked(mm->hydra)) {
					hydra_queue(mm, HYDRA_REQUEST_SPLIT);
					hydra_ask_all(mm);
				}
			}
		}
	}
	mmap_write_unlock(mm);
unlock:
	hydra_unlock_ldt(mm);
	return ret;
}

/* The same, until it is done. A return that others have begun may end before this is a writer. */
static int hydra_settings_change(struct mm_struct *mm, const union hydra_choice *old,
				 union hydra_choice settings, struct hydra_mm **new,
				 bool *lacks)
{
	struct hydra_mm *h = NULL;	/* whose trees go in parts */
	int ret;

	do {
		ret = hydra_settings_try(mm, old, settings, new, lacks);
		if (ret == -EINPROGRESS && !h) {
			h = mm->hydra;
			atomic_inc(&h->writers);
		}
		if (ret == -EINPROGRESS)
			hydra_between_parts(mm);
		if (ret == -EINPROGRESS && fatal_signal_pending(current))
			ret = -EINTR;
	} while (ret == -EINPROGRESS);
	if (!h)
		return ret;
	atomic_dec(&h->writers);
	/* A return that has begun goes on all the same. */
	if (READ_ONCE(h->returning))
		hydra_go_on_returning(mm);
	return ret;
}

/**
 * hydra_settings_set - change the settings of an address space
 * @mm: the address space; CPUs may run it
 * @old: NULL, or the settings that the caller read
 * @settings: settings that this kernel supports
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0; or, with nothing changed, -EOPNOTSUPP if the platform cannot run
 * Hydra, -EAGAIN if the settings are not @old any more, or -EINTR.
 */
int hydra_settings_set(struct mm_struct *mm, const union hydra_choice *old,
		       union hydra_choice settings)
{
	struct hydra_mm *new = NULL;
	struct mem_cgroup *memcg, *old_memcg;
	bool lacks = false;
	int ret;

	if (hydra_wants_domains(settings)) {
		if (hydra_refused_by_machine()) {
			pr_info_once("not on this platform: %s\n",
				     hydra_refused_by_machine());
			return -EOPNOTSUPP;
		}
		hydra_watch();
	}
	memcg = hydra_charge_begin(mm, &old_memcg);
	if (hydra_wants_domains(settings) && !READ_ONCE(mm->hydra) &&
	    hydra_runs_in_several(mm, hydra_scope_watched(settings)))
		new = hydra_alloc(mm, true);
	ret = hydra_settings_change(mm, old, settings, &new, &lacks);
	/* A thread has come to a second domain meanwhile, or there was no memory: once more. */
	if (lacks)
		new = hydra_alloc(mm, true);
	if (lacks && new)
		hydra_settings_change(mm, &settings, settings, &new, &lacks);
	/* The process may have come from another node before. */
	if (hydra_wants_domains(settings))
		hydra_rehome_ask();
	if (hydra_is_auto(settings))
		hydra_auto_ask();
	hydra_charge_end(memcg, old_memcg);
	if (new)
		hydra_free(new);
	return ret;
}

/*
 * Boot parameter hydra_ready: the branches are on before the second CPU starts, and stay
 * on. So no program that comes under Hydra, or leaves, makes the kernel patch its code.
 */
static bool ready __initdata;

static int __init hydra_ready_setup(char *text)
{
	if (*text)
		return 0;
	ready = true;
	return 1;
}
__setup("hydra_ready", hydra_ready_setup);

static int __init hydra_ready_init(void)
{
	if (!ready || hydra_refused_by_machine())
		return 0;
	hydra_watch();
	static_branch_deferred_inc(&hydra_key);
	return 0;
}
early_initcall(hydra_ready_init);

/* mm->hydra_settings of a process image that inherits none; 0: those of stock Linux */
static u32 hydra_settings_given(void)
{
	union hydra_choice settings = READ_ONCE(hydra_default_settings);
	u32 word = hydra_says_more(settings) ? settings.word | SETTINGS_GIVEN : 0;

	return hydra_cgroup_word(current) ?: word;
}

static void hydra_settings_init(struct mm_struct *mm, u32 word)
{
	union hydra_choice settings = { .word = word };
	unsigned int scope;

	mm->hydra_settings = word;
	/* An address space that is counted has its struct hydra_mm already. */
	if (mm->hydra)
		hydra_note_settings(mm->hydra, hydra_choice_in(word));
	if (hydra_is_auto(settings))
		hydra_auto_ask();
	/* The tables of a child come from here. If its thread begins elsewhere, it has moved. */
	guard(preempt)();
	scope = hydra_scope_watched(settings);
	WRITE_ONCE(mm->hydra_last, scope != HYDRA_SCOPE_MACHINE ? hydra_last_here(scope) : 0);
}

/**
 * hydra_mm_init - initialise Hydra's fields of a new address space
 * @mm: the address space: no CPU runs it, it maps nothing yet, and nothing can fail until
 *	a reference to it is dropped; perhaps a copy of the parent's mm_struct
 *
 * The settings are those of the forking process, or a choice of the executing one. If there
 * are none, the process gets those of its cgroup, or the system's default.
 *
 * Context: process context.
 */
void hydra_mm_init(struct mm_struct *mm)
{
	u32 word = current->mm ? READ_ONCE(current->mm->hydra_settings) : 0;

	/* For execve() @mm is no copy, so its word is 0. Only a choice outlives execve(). */
	if (!mm->hydra_settings && !(word & SETTINGS_CHOSEN))
		word = 0;
	mm->hydra = hydra_count_inherit(mm);
	hydra_settings_init(mm, word ?: hydra_settings_given());
}

/**
 * __hydra_secure_exec - a program with other rights than its caller's begins
 * @mm: its address space: the current thread runs it, and no other
 *
 * The program does not inherit the settings chosen by the caller, and is not counted with
 * the caller.
 *
 * Context: process context.
 */
void __hydra_secure_exec(struct mm_struct *mm)
{
	mmap_write_lock(mm);
	/* An administrator may have chosen settings meanwhile, and split the address space. */
	if (!mm_hydra(mm))
		hydra_settings_init(mm, hydra_settings_given());
	if (mm->hydra)
		hydra_count_leave(mm->hydra);
	mmap_write_unlock(mm);
}

/**
 * __hydra_mm_exit - the last user of an address space exits
 * @mm: the address space, everything still mapped
 *
 * Context: process context; start of exit_mmap().
 */
void __hydra_mm_exit(struct mm_struct *mm)
{
	long nr;

	hydra_unkeep(mm->hydra);
	hydra_count_exit(mm->hydra);
	if (!IS_ENABLED(CONFIG_HYDRA_MM_DEBUG))
		return;
	nr = hydra_check_mm(mm, NULL);
	if (nr > 0)
		pr_err("%ld violations in %s[%d] at exit\n", nr, current->comm,
		       task_pid_nr(current));
}

/**
 * __hydra_mm_destroy - free Hydra's state of an address space
 * @mm: the address space: maps nothing, no CPU has it loaded
 *
 * Context: __mmdrop(): any but interrupts.
 */
void __hydra_mm_destroy(struct mm_struct *mm)
{
	struct hydra_mm *h = mm->hydra;

	/* Each gather has lowered what it raised; hydra_free() asserts that of places. */
	VM_WARN_ON_ONCE(atomic_read(&mm->tlb_flush_pending));
	mm->hydra = NULL;
	hydra_free(h);
}
