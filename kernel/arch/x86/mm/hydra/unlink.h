/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Links that are cut, and tables that are freed: see unlink.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_UNLINK_H
#define _ARCH_X86_MM_HYDRA_UNLINK_H

#include <linux/hydra.h>

#include "entry.h"

void hydra_cut_links(struct hydra_table *t, pteval_t *canonical, unsigned int self);
void hydra_fold_accessed(pteval_t *copies, pteval_t *canonical, enum pg_level level,
			 unsigned int nr);
pteval_t *hydra_table_cut_domain(struct hydra_table *t, unsigned int d,
				 pteval_t *canonical);
void hydra_release_first(struct hydra_mm *h);
bool hydra_release_tables(struct hydra_mm *h, unsigned long most);

#endif /* _ARCH_X86_MM_HYDRA_UNLINK_H */
