/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples of the pages that a process uses: see sample.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SAMPLE_H
#define _ARCH_X86_MM_HYDRA_SAMPLE_H

#include <linux/types.h>

#include "process_rules.h"

struct hydra_mm;
struct mm_struct;

/**
 * struct hydra_sample - leaf tables of which the pages used are counted
 * @nr: how many; 0: no sample has begun
 * @split: copies of @domain are sampled, and not the tables of Linux
 * @domain: a domain with a tree
 * @domains: how many domains had trees
 * @tables: how many leaf tables the process had
 * @at: addresses that the tables map
 */
struct hydra_sample {
	unsigned int nr;
	bool split;
	unsigned int domain;
	unsigned int domains;
	unsigned long tables;
	unsigned long at[HYDRA_SAMPLE_SIZE];
};

/* A sample is of no use, as the next look comes late. */
static inline void hydra_sample_drop(struct hydra_sample *sample)
{
	if (sample)
		sample->nr = 0;
}

void hydra_sample_begin(struct hydra_sample **sample, struct mm_struct *mm, u64 tables);
bool hydra_sample_end(struct hydra_sample *sample, struct mm_struct *mm, u64 *pages);

#endif /* _ARCH_X86_MM_HYDRA_SAMPLE_H */
