/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaf tables that move to the node of the CPUs that walk them: see rehome.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_REHOME_H
#define _ARCH_X86_MM_HYDRA_REHOME_H

#include <linux/types.h>

bool hydra_rehome(bool begin);

#endif /* _ARCH_X86_MM_HYDRA_REHOME_H */
