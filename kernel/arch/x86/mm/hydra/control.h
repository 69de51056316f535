/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Settings of a process: see control.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_CONTROL_H
#define _ARCH_X86_MM_HYDRA_CONTROL_H

#include <linux/types.h>

void hydra_watch(void);

#endif /* _ARCH_X86_MM_HYDRA_CONTROL_H */
