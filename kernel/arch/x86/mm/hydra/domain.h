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
 * struct hydra_domains - the domains of one scope
 * @nr: how many there are
 * @all: their numbers
 * @overflow: domains that always use the canonical tree
 * @cpus: by domain, its CPUs; for numbers from @nr on: none
 * @nid: by domain, its node
 * @home: by domain, its home node, on which its tables are allocated
 * @span: by domain, where its CPUs are in a cpumask
 */
struct hydra_domains {
	unsigned int nr;
	hydra_mask_t all;
	hydra_mask_t overflow;
	struct cpumask *cpus[HYDRA_MAX_DOMAINS];
	int nid[HYDRA_MAX_DOMAINS];
	int home[HYDRA_MAX_DOMAINS];
	struct hydra_span span[HYDRA_MAX_DOMAINS];
};

extern struct hydra_domains hydra_domains[HYDRA_NR_SCOPES];

/*
 * Context: mmap_lock or a VMA is locked, or active has been read as true since preemption
 * was disabled, unless the caller accepts an earlier scope. See hydra_set_scope().
 */
static inline const struct hydra_domains *hydra_domains_of(const struct hydra_mm *h)
{
	return &hydra_domains[READ_ONCE(h->scope)];
}

void hydra_find_spans(struct hydra_domains *domains);
void hydra_set_node(unsigned int cpu, unsigned int d);

#endif /* _ARCH_X86_MM_HYDRA_DOMAIN_H */
