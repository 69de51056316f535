/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The platform: see platform.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_PLATFORM_H
#define _ARCH_X86_MM_HYDRA_PLATFORM_H

#include <linux/atomic.h>
#include <linux/types.h>

extern bool hydra_trusts_accessed;
extern bool hydra_marks_failed;
extern atomic_long_t hydra_violations;

const char *hydra_refused_by_machine(void);
const char *hydra_accessed_refused(void);
const char *hydra_cpu_refused(u8 vendor, u32 vfm);

#define HYPERVISOR_NAME_LEN	12
const char *hydra_hypervisor_refused(const char *name);
void hydra_stray_accessed(void);

#endif /* _ARCH_X86_MM_HYDRA_PLATFORM_H */
