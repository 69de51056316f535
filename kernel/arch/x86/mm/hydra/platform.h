/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The platform: see platform.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_PLATFORM_H
#define _ARCH_X86_MM_HYDRA_PLATFORM_H

#include <linux/atomic.h>
#include <linux/jump_label.h>
#include <linux/types.h>

extern bool hydra_trusts_accessed;
extern bool hydra_marks_failed;
extern atomic_long_t hydra_violations;
extern atomic_long_t hydra_left_to_host;

const char *hydra_refused_by_machine(void);
const char *hydra_accessed_refused(void);
const char *hydra_cpu_refused(u8 vendor, u32 vfm);

#define HYPERVISOR_NAME_LEN	12
const char *hydra_hypervisor_refused(const char *name);
void hydra_stray_accessed(void);

DECLARE_STATIC_KEY_FALSE(hydra_host_flushes_key);
bool __hydra_leave_to_host(int cpu);

/* Does Linux leave the flushes of preempted vCPUs to the host? */
static inline bool hydra_host_flushes(void)
{
	return IS_ENABLED(CONFIG_KVM_GUEST) && static_branch_unlikely(&hydra_host_flushes_key);
}

/* As __hydra_leave_to_host(), on any machine */
static inline bool hydra_leave_to_host(int cpu)
{
	return hydra_host_flushes() && __hydra_leave_to_host(cpu);
}

#endif /* _ARCH_X86_MM_HYDRA_PLATFORM_H */
