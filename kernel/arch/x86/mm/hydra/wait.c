// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting: code that must not wait without a bound, and how to wait for the faults, and the
 * madvise() calls, that hold only a VMA.
 *
 * A thread on its way to user mode, and a fill, may be what the holder of a lock waits for:
 * the thread may serve a file system or a block device. See "Waiting" in
 * Documentation/mm/hydra/rules.rst.
 */

#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "wait.h"

#ifdef CONFIG_LOCKDEP
/* Held by code that must wait for nothing without a bound, see hydra_teach_lockdep(). */
struct lockdep_map hydra_no_wait_map =
	STATIC_LOCKDEP_MAP_INIT("hydra_no_wait_map", &hydra_no_wait_map);
#endif

/**
 * hydra_lock_vma - vma_start_write() that does not wait, or that a fatal signal ends
 * @vma: the VMA
 * @wait: false: do not wait
 *
 * Context: mmap_lock held for writing.
 * Return: 0 or -EINTR.
 */
int hydra_lock_vma(struct vm_area_struct *vma, bool wait)
{
	unsigned int seq;

	if (__is_vma_write_locked(vma, &seq))
		return 0;
	if (!down_write_trylock(&vma->vm_lock->lock) &&
	    (!wait || down_write_killable(&vma->vm_lock->lock)))
		return -EINTR;
	WRITE_ONCE(vma->vm_lock_seq, seq);
	up_write(&vma->vm_lock->lock);
	return 0;
}

/**
 * hydra_lock_out_faults - wait for the faults and madvise() calls that hold only a VMA
 * @mm: the address space
 * @wait: false: do not wait
 *
 * A fault may last as long as a file system takes for an answer, which may be a thread of
 * this very process, or of none that lives. So a fatal signal ends the wait.
 *
 * Context: mmap_lock held for writing. Only atomic faults run until the caller
 * drops mmap_lock.
 * Return: 0; or -EINTR, with some VMAs locked until the caller drops mmap_lock.
 */
int hydra_lock_out_faults(struct mm_struct *mm, bool wait)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	if (wait)
		hydra_assert_may_wait();
	for_each_vma(vmi, vma) {
		/* A failed fork leaves XA_ZERO_ENTRY for all VMAs that it did not copy. */
		if (xa_is_zero(vma))
			break;
		if (hydra_lock_vma(vma, wait))
			return -EINTR;
	}
	return 0;
}

/**
 * hydra_between_parts - let other threads have mmap_lock between two parts of a long change
 * @mm: the address space
 *
 * The thread that released mmap_lock has woken the first that waits for it, but would take the
 * lock again before the other one runs.
 *
 * Context: process context, no locks. A fatal signal ends the pause.
 */
void hydra_between_parts(struct mm_struct *mm)
{
	if (mmap_lock_is_contended(mm))
		schedule_timeout_killable(1);
	cond_resched();
}

/*
 * Code on the way to user mode, and fills, must not wait for anything that may in turn wait
 * for this very thread: see "Waiting" in Documentation/mm/hydra/rules.rst. Tell lockdep so: such
 * code holds hydra_no_wait_map, and here it is taken with each such thing held. From then on
 * lockdep reports code that takes them in the other order, also through a third lock.
 */
static int __init hydra_teach_lockdep(void)
{
	struct vm_area_struct *vma;
	struct mm_struct *mm;

	if (!IS_ENABLED(CONFIG_LOCKDEP))
		return 0;
	mm = mm_alloc();
	vma = mm ? vm_area_alloc(mm) : NULL;
	if (vma) {
		down_read(&mm->context.ldt_usr_sem);
		mmap_read_lock(mm);
		down_read(&vma->vm_lock->lock);
		hydra_no_wait_end(hydra_no_wait_begin());
		up_read(&vma->vm_lock->lock);
		mmap_read_unlock(mm);
		up_read(&mm->context.ldt_usr_sem);
		vm_area_free(vma);
	}
	if (mm)
		mmput(mm);
	/* CPUs that go online or offline, and thereby all static keys and code patching */
	cpus_read_lock();
	hydra_no_wait_end(hydra_no_wait_begin());
	cpus_read_unlock();
	/* Reclaim, and thereby all mutexes whose holders allocate memory */
	fs_reclaim_acquire(GFP_KERNEL);
	hydra_no_wait_end(hydra_no_wait_begin());
	fs_reclaim_release(GFP_KERNEL);
	return 0;
}
core_initcall(hydra_teach_lockdep);
