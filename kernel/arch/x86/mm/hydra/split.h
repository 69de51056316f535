/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domain trees come and go: see split.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SPLIT_H
#define _ARCH_X86_MM_HYDRA_SPLIT_H

#include <linux/hydra.h>

bool hydra_lacks_tree(struct hydra_mm *h, unsigned int d);
bool hydra_split_locked(struct hydra_mm *h);
int hydra_return(struct hydra_mm *h, bool wait);

#endif /* _ARCH_X86_MM_HYDRA_SPLIT_H */
