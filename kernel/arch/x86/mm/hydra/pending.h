/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which gathers have changed entries and not flushed yet: see pending.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_PENDING_H
#define _ARCH_X86_MM_HYDRA_PENDING_H

#include <linux/hydra_gather.h>
#include <linux/pgtable.h>

/* The place of an address */
static inline unsigned long hydra_place_of(unsigned long addr)
{
	return addr >> PMD_SHIFT;
}

/*
 * Does a gather keep to the places that it has announced? One that has announced none may change
 * entries anywhere.
 */
static inline bool hydra_keeps_to_places(const struct hydra_gather *g, unsigned long start,
					 unsigned long end)
{
	return !g->nr_places || (hydra_place_of(start) >= g->place &&
				 hydra_place_of(end - 1) < g->place + g->nr_places);
}

void hydra_pending_alloc(struct hydra_mm *h);
void hydra_pending_return(struct hydra_mm *h);
void hydra_pending_free(struct hydra_mm *h);
bool hydra_drained(struct hydra_mm *h);
bool hydra_gather_announce(struct hydra_gather *g, struct vm_area_struct *vma,
			   unsigned long start, unsigned long end);
bool hydra_gather_alone_at(const struct hydra_gather *g, struct hydra_mm *h,
			   unsigned long addr);

#endif /* _ARCH_X86_MM_HYDRA_PENDING_H */
