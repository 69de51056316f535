/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of Hydra share.
 */
#ifndef _ARCH_X86_MM_HYDRA_INTERNAL_H
#define _ARCH_X86_MM_HYDRA_INTERNAL_H

#include <linux/hydra.h>
#include <linux/hydra_gather.h>
#include <linux/hydra_proc.h>
#include <linux/mm.h>

#include "settings.h"
#include "table.h"

/*
 * mm->hydra_home: the domain of the CPUs running the address space, plus one; 0
 * with the settings of stock Linux; UNKNOWN before the first CPU runs the address
 * space; SPLIT with domain trees.
 */
#define HYDRA_HOME_UNKNOWN	U32_MAX
#define HYDRA_HOME_SPLIT	(HYDRA_HOME_UNKNOWN - 1)

/* Context: any but NMI. */
static inline void hydra_stat_add(struct hydra_mm *h, enum hydra_stat stat,
				  unsigned long n)
{
	this_cpu_add(h->stats->n[stat], n);
}

/* domain.c */
extern int hydra_domain_nid[HYDRA_MAX_DOMAINS];
extern int hydra_domain_home[HYDRA_MAX_DOMAINS];
extern hydra_mask_t hydra_overflow_mask;

/* The words of a cpumask that contain CPUs of a domain. */
struct hydra_span {
	unsigned int first;
	unsigned int last;
};

extern struct hydra_span hydra_domain_span[HYDRA_MAX_DOMAINS];

/* core.c */
void hydra_watch(void);
void hydra_lock_out_faults(struct mm_struct *mm);
void hydra_degrade(struct hydra_mm *h, unsigned int d);

/* fill.c */
pte_t *hydra_trylock_leaf(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			  spinlock_t **ptl);
void hydra_window(unsigned long addr, unsigned int degree,
		  unsigned long vm_start, unsigned long vm_end,
		  unsigned int *first, unsigned int *end);

/* flush.c */
/* Sharers of a range: of its leaf tables, and of which huge entries. */
enum hydra_huge {
	HYDRA_LEAF_ONLY,	/* none */
	HYDRA_HUGE_IN_RANGE,	/* entries in the range that point to no table now */
	HYDRA_HUGE_SAME_TABLE,	/* all entries, at any time, of the range's PMD and PUD tables */
};

void hydra_range_sharers(struct hydra_mm *h, unsigned long start,
			 unsigned long end, enum hydra_huge huge,
			 hydra_mask_t *mask);
bool hydra_range_targets(struct hydra_mm *h, unsigned long start,
			 unsigned long end, hydra_mask_t *targets);
bool hydra_gather_targets(struct hydra_mm *h, const struct hydra_gather *g,
			  unsigned long start, unsigned long end,
			  hydra_mask_t *targets);

/* check.c */
extern atomic_long_t hydra_violations;

/* roots.c */
const char *hydra_refused_by_machine(void);
int hydra_lock_ldt(struct mm_struct *mm);
bool hydra_trylock_ldt(struct mm_struct *mm);
void hydra_unlock_ldt(struct mm_struct *mm);
void hydra_switch_roots(struct mm_struct *mm, const struct cpumask *cpus);

/* tlb.c */
unsigned int hydra_pick_cpus(unsigned long *picked, const unsigned long *running,
			     const unsigned long *cpus, unsigned int first,
			     unsigned int last);

#endif /* _ARCH_X86_MM_HYDRA_INTERNAL_H */
