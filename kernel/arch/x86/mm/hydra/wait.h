/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that must not wait: see wait.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_WAIT_H
#define _ARCH_X86_MM_HYDRA_WAIT_H

#include <linux/lockdep.h>
#include <linux/sched/mm.h>

struct mm_struct;
struct vm_area_struct;

#ifdef CONFIG_LOCKDEP
extern struct lockdep_map hydra_no_wait_map;
#endif

/*
 * Begin and end code that must wait for nothing without a bound. See hydra_teach_lockdep(). The
 * constructor of a table may allocate memory for the table's lock, and takes no flags.
 * Return: for hydra_no_wait_end().
 */
static inline unsigned int hydra_no_wait_begin(void)
{
	lock_map_acquire(&hydra_no_wait_map);
	return memalloc_noio_save();
}

static inline void hydra_no_wait_end(unsigned int flags)
{
	memalloc_noio_restore(flags);
	lock_map_release(&hydra_no_wait_map);
}

/* Called by each function of Hydra that may wait without a bound */
static inline void hydra_assert_may_wait(void)
{
	lockdep_assert(!lock_is_held(&hydra_no_wait_map));
}

int hydra_lock_vma(struct vm_area_struct *vma, bool wait);
int hydra_lock_out_faults(struct mm_struct *mm, bool wait);
void hydra_between_parts(struct mm_struct *mm);

#endif /* _ARCH_X86_MM_HYDRA_WAIT_H */
