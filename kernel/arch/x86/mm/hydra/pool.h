/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pools of pages near groups of CPUs: see pool.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_POOL_H
#define _ARCH_X86_MM_HYDRA_POOL_H

#include <linux/jump_label.h>
#include <linux/mm.h>

#include "domain.h"

DECLARE_STATIC_KEY_FALSE(hydra_pools_key);
extern unsigned long hydra_pool_limit;

/* What hydra_pool_of() returns for a page of no pool, as NUMA_NO_NODE */
#define HYDRA_NO_POOL		(-1)

int hydra_pool_of(const struct page *page);
bool hydra_page_is_away(const struct page *page);
struct page *hydra_pool_get(unsigned int d);
int hydra_pools_start(unsigned int nr, const u8 *host);
void hydra_pools_place(void);
int hydra_pools_show(char *buf);

static inline bool hydra_has_pools(const struct hydra_domains *domains)
{
	return static_branch_unlikely(&hydra_pools_key) &&
	       domains == &hydra_domains[HYDRA_SCOPE_NODE];
}

#endif /* _ARCH_X86_MM_HYDRA_POOL_H */
