// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains of the machine: which CPUs share one set of page tables.
 *
 * There are three scopes of domains: the CPUs of a node, the CPUs that share a
 * last-level cache, and the CPUs of a core. Each scope numbers its domains from 0. A
 * domain lies in one node, except the last one below. Its home is one node with memory.
 *
 * Numbered once at boot over all possible CPUs. So a CPU that comes online later has
 * its domain already. Where the number of domains would exceed the limit, the CPUs
 * beyond share the last domain, which uses the canonical tree and takes part in every
 * flush. So do CPUs that are offline at boot: nothing is known yet of their caches and
 * cores.
 *
 * The number of domains never changes. A CPU may go to another domain of scope node, see
 * regroup.c. No code needs a lock for the domain of a CPU, because all CPUs stop for a move.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cpu.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mmzone.h>
#include <linux/nodemask.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include <asm/smp.h>

#include "domain.h"
#include "groups.h"

/* Until domains are numbered, all CPUs are in domain 0. */
DEFINE_PER_CPU_READ_MOSTLY(u16 [HYDRA_NR_SCOPES], hydra_cpu_domain);
EXPORT_PER_CPU_SYMBOL_GPL(hydra_cpu_domain);
DEFINE_PER_CPU_READ_MOSTLY(u32, hydra_cpu_last) = hydra_last(HYDRA_SCOPE_NODE, 0);
/* The most domains that a scope has */
unsigned int hydra_nr_domains __ro_after_init = 1;
/* By enum hydra_scope. HYDRA_SCOPE_MACHINE has none. */
struct hydra_domains hydra_domains[HYDRA_NR_SCOPES] __read_mostly;

/* mm->hydra_last has 16 bits for the number of the domain, plus one. */
static_assert(HYDRA_MAX_DOMAINS <= U16_MAX);

/* Limits of the number of domains, and of the CPUs of one last-level cache */
static unsigned int max_domains __initdata = HYDRA_MAX_DOMAINS;
static unsigned int llc_cpus __initdata;
/* By CPU, its group, if groups take the place of nodes */
static u16 *group_of __initdata;

/* Boot parameter hydra_max_domains=: fewer domains than the kernel was built for */
static int __init hydra_max_domains_setup(char *text)
{
	unsigned int nr;

	if (kstrtouint(text, 10, &nr) || nr < 2 || nr > HYDRA_MAX_DOMAINS)
		pr_err("boot parameter hydra_max_domains=%s is not between 2 and %u: ignored\n",
		       text, HYDRA_MAX_DOMAINS);
	else
		max_domains = nr;
	return 1;
}
__setup("hydra_max_domains=", hydra_max_domains_setup);

/*
 * Boot parameter hydra_llc_cpus=: that many CPUs of a node, by number, form a domain of
 * scope llc. For virtual machines, which may not show their caches.
 */
static int __init hydra_llc_cpus_setup(char *text)
{
	if (kstrtouint(text, 10, &llc_cpus)) {
		pr_err("boot parameter hydra_llc_cpus=%s is no number: ignored\n", text);
		llc_cpus = 0;
	}
	return 1;
}
__setup("hydra_llc_cpus=", hydra_llc_cpus_setup);

/* The nearest node with memory: a node may have only CPUs. */
static int __init hydra_home_of_node(int nid)
{
	struct zoneref *z = first_zones_zonelist(node_zonelist(nid, GFP_KERNEL),
						 gfp_zone(GFP_KERNEL), NULL);

	return zonelist_zone(z) ? zonelist_node_idx(z) : nid;
}

static int __init hydra_node_of_cpu(unsigned int cpu)
{
	int nid = cpu_to_node(cpu);

	return nid == NUMA_NO_NODE ? first_online_node : nid;
}

/* Is a CPU in a domain whose first CPU is @first? Both are of one node. */
static bool __init hydra_same_domain(unsigned int scope, unsigned int cpu, unsigned int first,
				     unsigned int nr)
{
	switch (scope) {
	case HYDRA_SCOPE_LLC:
		if (llc_cpus)
			return nr < llc_cpus;
		return cpumask_test_cpu(cpu, cpu_llc_shared_mask(first));
	case HYDRA_SCOPE_CORE:
		return cpumask_test_cpu(cpu, topology_sibling_cpumask(first));
	default:
		return true;
	}
}

/* The domain of a CPU among those that exist, or domains->nr */
static unsigned int __init hydra_find_domain(unsigned int scope, unsigned int cpu)
{
	const struct hydra_domains *domains = &hydra_domains[scope];
	unsigned int d;

	if (scope == HYDRA_SCOPE_NODE && group_of)
		return group_of[cpu];
	for (d = 0; d < domains->nr; d++)
		if (domains->nid[d] == hydra_node_of_cpu(cpu) &&
		    hydra_same_domain(scope, cpu, cpumask_first(domains->cpus[d]),
				      cpumask_weight(domains->cpus[d])))
			break;
	return d;
}

/* One domain more, of a node */
static void __init hydra_add_domain(struct hydra_domains *domains, int nid)
{
	unsigned int d = domains->nr++;

	domains->cpus[d] = kzalloc(cpumask_size(), GFP_KERNEL);
	if (!domains->cpus[d])
		panic("hydra: no memory for %u domains\n", d + 1);
	domains->nid[d] = nid;
	domains->home[d] = hydra_home_of_node(nid);
	hydra_mask_set(d, &domains->all);
}

/* Put a CPU into a domain: one of those that exist, or the next one. */
static void __init hydra_add_cpu(unsigned int scope, unsigned int cpu, unsigned int d)
{
	struct hydra_domains *domains = &hydra_domains[scope];

	if (d == max_domains) {
		d = max_domains - 1;
		hydra_mask_set(d, &domains->overflow);
	} else if (d == domains->nr) {
		hydra_add_domain(domains, hydra_node_of_cpu(cpu));
	}
	cpumask_set_cpu(cpu, domains->cpus[d]);
	per_cpu(hydra_cpu_domain, cpu)[scope] = d;
}

/* The node of each CPU is known, the cache and the core of those that are up. */
static bool __init hydra_knows_cpu(unsigned int scope, unsigned int cpu)
{
	return scope == HYDRA_SCOPE_NODE || cpu_online(cpu);
}

/* Groups of CPUs in the place of nodes (groups.c). A group may have no CPU yet. */
static void __init hydra_add_groups(struct hydra_domains *domains)
{
	unsigned int cpu, d, nr = hydra_groups_at_boot(&group_of, max_domains);

	for (d = 0; d < nr; d++) {
		int nid = first_online_node;

		for_each_possible_cpu(cpu)
			if (group_of[cpu] == d)
				nid = hydra_node_of_cpu(cpu);
		hydra_add_domain(domains, nid);
	}
}

/**
 * hydra_find_spans - note where in a cpumask the CPUs of each domain are
 * @domains: those of a scope
 *
 * Context: at boot, or all CPUs are stopped.
 */
void hydra_find_spans(struct hydra_domains *domains)
{
	unsigned int d;

	for (d = 0; d < domains->nr; d++) {
		bool empty = cpumask_empty(domains->cpus[d]);

		domains->span[d].first = empty ? 1 : BIT_WORD(cpumask_first(domains->cpus[d]));
		domains->span[d].last = empty ? 0 : BIT_WORD(cpumask_last(domains->cpus[d]));
	}
}

static void __init hydra_number_domains(unsigned int scope)
{
	struct hydra_domains *domains = &hydra_domains[scope];
	unsigned int cpu, d, last;

	if (scope == HYDRA_SCOPE_NODE)
		hydra_add_groups(domains);
	for_each_possible_cpu(cpu)
		if (hydra_knows_cpu(scope, cpu))
			hydra_add_cpu(scope, cpu, hydra_find_domain(scope, cpu));
	/* All CPUs that are offline now share a domain, which may span nodes. */
	last = domains->nr;
	for_each_possible_cpu(cpu) {
		if (hydra_knows_cpu(scope, cpu))
			continue;
		hydra_add_cpu(scope, cpu, last);
		hydra_mask_set(domains->nr - 1, &domains->overflow);
	}
	hydra_find_spans(domains);
	/* A flush may have targets from the time before the scope changed: no CPU. */
	for (d = domains->nr; d < HYDRA_MAX_DOMAINS; d++) {
		domains->cpus[d] = (struct cpumask *)cpu_none_mask;
		domains->span[d].first = 1;
	}
	hydra_nr_domains = max(hydra_nr_domains, domains->nr);
}

/**
 * hydra_set_node - put a CPU into a domain of scope node
 * @cpu: the CPU
 * @d: the domain
 *
 * Context: at boot; on the CPU itself, which is in stop_machine(); or the CPU is offline.
 */
void hydra_set_node(unsigned int cpu, unsigned int d)
{
	VM_WARN_ON_ONCE(system_state >= SYSTEM_RUNNING && cpu_online(cpu) &&
			cpu != raw_smp_processor_id());
	per_cpu(hydra_cpu_domain, cpu)[HYDRA_SCOPE_NODE] = d;
	per_cpu(hydra_cpu_last, cpu) = hydra_last(HYDRA_SCOPE_NODE, d);
}

static int __init hydra_domain_init(void)
{
	unsigned int scope, cpu;

	for (scope = HYDRA_SCOPE_NODE; scope < HYDRA_NR_SCOPES; scope++)
		hydra_number_domains(scope);
	for_each_possible_cpu(cpu)
		hydra_set_node(cpu, hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu));
	kfree(group_of);
	pr_info("domains: %u nodes, %u last-level caches, %u cores\n",
		hydra_domains[HYDRA_SCOPE_NODE].nr, hydra_domains[HYDRA_SCOPE_LLC].nr,
		hydra_domains[HYDRA_SCOPE_CORE].nr);
	return 0;
}
core_initcall(hydra_domain_init);

#include "tests/domain-kunit.h"
