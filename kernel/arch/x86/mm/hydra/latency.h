/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which CPUs share memory quickly: see latency.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_LATENCY_H
#define _ARCH_X86_MM_HYDRA_LATENCY_H

#include <linux/types.h>

unsigned int hydra_find_groups(const u32 *latency, unsigned int nr, u16 *group);
unsigned int hydra_measure_groups(u16 *group);

#endif /* _ARCH_X86_MM_HYDRA_LATENCY_H */
