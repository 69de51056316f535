/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages of domain trees: see replica.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_REPLICA_H
#define _ARCH_X86_MM_HYDRA_REPLICA_H

#include <linux/hydra.h>
#include <linux/list_lru.h>

#include "entry.h"

extern unsigned long hydra_replica_limit;
extern unsigned long hydra_total_limit;
DECLARE_PER_CPU(long, hydra_replicas);
extern struct list_lru hydra_replica_lists;

unsigned long hydra_replicas_total(void);

/**
 * hydra_replica_unreserve - a replica has been freed, or could not be had
 * @h: address space, which has reserved the replica
 *
 * Context: any but NMI.
 */
static inline void hydra_replica_unreserve(struct hydra_mm *h)
{
	atomic_long_dec(&h->nr_replicas);
	this_cpu_dec(hydra_replicas);
}

bool hydra_has_owner(const struct hydra_mm *h, const pteval_t *canonical);

bool hydra_from_pool(const pteval_t *table);
pteval_t *hydra_page_alloc(struct hydra_mm *h, unsigned int d, gfp_t gfp);
struct ptdesc *hydra_page_retire(struct hydra_mm *h, pteval_t *table);
void hydra_page_free(struct hydra_mm *h, pteval_t *table);
void hydra_page_free_uncharged(struct hydra_mm *h, pteval_t *table);
pteval_t *hydra_replica_alloc(struct hydra_mm *h, unsigned int d);
void hydra_reclaim_add(struct hydra_table *t, pteval_t *replica);
void hydra_reclaim_remove(pteval_t *replica);

#endif /* _ARCH_X86_MM_HYDRA_REPLICA_H */
