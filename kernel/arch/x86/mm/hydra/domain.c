// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains of the machine: which CPUs share one set of page tables.
 *
 * Numbered once at boot over all possible CPUs and never changed. So a CPU that
 * comes online later has its domain already, and no code needs a lock. On a machine
 * with more nodes than HYDRA_MAX_DOMAINS, the nodes beyond share the last domain,
 * which uses the canonical tree and takes part in every flush.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/topology.h>

#include "internal.h"

/* Domain of the CPU, plus one. Until domains are numbered, all CPUs are in domain 0. */
DEFINE_PER_CPU_READ_MOSTLY(u32, hydra_cpu_home) = 1;
unsigned int hydra_nr_domains __ro_after_init = 1;
cpumask_var_t hydra_domain_cpus[HYDRA_MAX_DOMAINS] __ro_after_init;
/* The node of a domain, and the home node, on which its tables are allocated */
int hydra_domain_nid[HYDRA_MAX_DOMAINS] __ro_after_init;
int hydra_domain_home[HYDRA_MAX_DOMAINS] __ro_after_init;
struct hydra_span hydra_domain_span[HYDRA_MAX_DOMAINS] __ro_after_init;
hydra_mask_t hydra_all_domains __ro_after_init;
/* Domains that always use the canonical tree. */
hydra_mask_t hydra_overflow_mask __ro_after_init;

/* The nearest node with memory: a node may have only CPUs. */
static int __init hydra_home_of_node(int nid)
{
	struct zoneref *z = first_zones_zonelist(node_zonelist(nid, GFP_KERNEL),
						 gfp_zone(GFP_KERNEL), NULL);

	return zonelist_zone(z) ? zonelist_node_idx(z) : nid;
}

static int __init hydra_domain_init(void)
{
	unsigned int cpu, d, nr = 0;

	for_each_possible_cpu(cpu) {
		int nid = cpu_to_node(cpu);

		if (nid == NUMA_NO_NODE)
			nid = first_online_node;
		for (d = 0; d < nr; d++)
			if (hydra_domain_nid[d] == nid)
				break;
		if (d == nr && nr == HYDRA_MAX_DOMAINS) {
			d = HYDRA_MAX_DOMAINS - 1;
			hydra_mask_set(d, &hydra_overflow_mask);
		} else if (d == nr) {
			if (!zalloc_cpumask_var(&hydra_domain_cpus[d], GFP_KERNEL))
				panic("hydra: no memory for %u domains", nr + 1);
			hydra_domain_nid[d] = nid;
			hydra_domain_home[d] = hydra_home_of_node(nid);
			nr++;
		}
		per_cpu(hydra_cpu_home, cpu) = d + 1;
		cpumask_set_cpu(cpu, hydra_domain_cpus[d]);
	}
	for (d = 0; d < nr; d++) {
		hydra_mask_set(d, &hydra_all_domains);
		hydra_domain_span[d].first = BIT_WORD(cpumask_first(hydra_domain_cpus[d]));
		hydra_domain_span[d].last = BIT_WORD(cpumask_last(hydra_domain_cpus[d]));
	}
	hydra_nr_domains = nr;
	pr_info("%u domains\n", nr);
	return 0;
}
core_initcall(hydra_domain_init);

#include "tests/domain-kunit.h"
