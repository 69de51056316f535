/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains of the machine: see domain.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_DOMAIN_H
#define _ARCH_X86_MM_HYDRA_DOMAIN_H

#include <linux/cpumask.h>
#include <linux/hydra.h>
#include <linux/topology.h>

/* The words of a cpumask that contain CPUs of a domain. */
struct hydra_span {
	unsigned int first;
	unsigned int last;
};

/**
 * struct hydra_kind - the domains of one kind
 * @nr: how many there are
 * @all: their numbers
 * @overflow: domains that always use the canonical tree
 * @cpus: by domain, its CPUs; for numbers from @nr on: none
 * @nid: by domain, its node
 * @home: by domain, its home node, on which its tables are allocated
 * @span: by domain, where its CPUs are in a cpumask
 */
struct hydra_kind {
	unsigned int nr;
	hydra_mask_t all;
	hydra_mask_t overflow;
	struct cpumask *cpus[HYDRA_MAX_DOMAINS];
	int nid[HYDRA_MAX_DOMAINS];
	int home[HYDRA_MAX_DOMAINS];
	struct hydra_span span[HYDRA_MAX_DOMAINS];
};

extern struct hydra_kind hydra_kinds[HYDRA_NR_KINDS];

/*
 * Context: mmap_lock or a VMA is locked, or active has been read as true since preemption
 * was disabled, unless the caller accepts an earlier kind. See hydra_set_kind().
 */
static inline const struct hydra_kind *hydra_kind_of(const struct hydra_mm *h)
{
	return &hydra_kinds[READ_ONCE(h->kind)];
}

void hydra_find_spans(struct hydra_kind *kind);
void hydra_set_node(unsigned int cpu, unsigned int d);

#endif /* _ARCH_X86_MM_HYDRA_DOMAIN_H */
