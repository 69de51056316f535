/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Switches look for address spaces to split: see switch.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SWITCH_H
#define _ARCH_X86_MM_HYDRA_SWITCH_H

void hydra_watch(void);

#endif /* _ARCH_X86_MM_HYDRA_SWITCH_H */
