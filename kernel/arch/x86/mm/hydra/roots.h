/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Roots: see roots.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_ROOTS_H
#define _ARCH_X86_MM_HYDRA_ROOTS_H

#include <linux/hydra.h>
#include <linux/lockdep.h>
#include <linux/mm_types.h>

#include <asm/cpufeature.h>

/* How long a domain is degraded: at first, and at last */
#define DEGRADED_MIN	(10 * HZ)
#define DEGRADED_MAX	(640 * HZ)

/* The caller is between hydra_lock_ldt() and hydra_unlock_ldt(). */
static inline void hydra_assert_ldt_locked(struct mm_struct *mm)
{
#if defined(CONFIG_MODIFY_LDT_SYSCALL) && defined(CONFIG_MITIGATION_PAGE_TABLE_ISOLATION)
	lockdep_assert(!boot_cpu_has(X86_FEATURE_PTI) ||
		       lockdep_is_held(&mm->context.ldt_usr_sem));
#endif
}

int hydra_lock_ldt(struct mm_struct *mm);
bool hydra_trylock_ldt(struct mm_struct *mm);
void hydra_unlock_ldt(struct mm_struct *mm);
void hydra_switch_roots(struct mm_struct *mm, atomic64_t *gen, const struct cpumask *cpus);
void hydra_leave_tree(struct hydra_mm *h, unsigned int d);
void hydra_degrade(struct hydra_mm *h, unsigned int d);

#endif /* _ARCH_X86_MM_HYDRA_ROOTS_H */
