/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is near: CPUs to each other, and a table to the domain that walks it.
 */
#ifndef _ARCH_X86_MM_HYDRA_HOME_H
#define _ARCH_X86_MM_HYDRA_HOME_H

#include <linux/mm.h>
#include <linux/topology.h>

#include "domain.h"
#include "pool.h"
#include "state.h"

/* Are two CPUs on different nodes, or in different groups? */
static inline bool hydra_across(int a, int b)
{
	if (static_branch_unlikely(&hydra_pools_key))
		return hydra_domain_of_cpu(HYDRA_SCOPE_NODE, a) !=
		       hydra_domain_of_cpu(HYDRA_SCOPE_NODE, b);
	return cpu_to_node(a) != cpu_to_node(b);
}

/*
 * Is a table on the home node of a domain; or, where groups of CPUs take the place of nodes,
 * from the pool of its group?
 */
static inline bool hydra_is_home_of(const struct hydra_domains *domains, unsigned int d,
				    const pteval_t *table)
{
	const struct page *page = virt_to_page(table);

	if (hydra_has_pools(domains))
		return hydra_pool_of(page) == d;
	return page_to_nid(page) == domains->home[d];
}

/* The same for a domain of an address space */
static inline bool hydra_is_home(const struct hydra_mm *h, unsigned int d, const pteval_t *table)
{
	return hydra_is_home_of(hydra_domains_of(h), d, table);
}

/* The home of the domain in mm->hydra_last, of a known value */
static inline int hydra_last_home(u32 last)
{
	return hydra_domains[hydra_last_scope(last)].home[hydra_last_domain(last)];
}

#endif /* _ARCH_X86_MM_HYDRA_HOME_H */
