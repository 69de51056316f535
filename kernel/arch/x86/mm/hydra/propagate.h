/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Accessed bits of copies: see propagate.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_PROPAGATE_H
#define _ARCH_X86_MM_HYDRA_PROPAGATE_H

#include "entry.h"

unsigned int hydra_age_entries(struct hydra_table *t, pteval_t *copy, pteval_t *canonical,
			       bool clear);

#endif /* _ARCH_X86_MM_HYDRA_PROPAGATE_H */
