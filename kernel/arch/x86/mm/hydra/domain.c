// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains of the machine: which CPUs share one set of page tables.
 *
 * There are three kinds of domains: the CPUs of a node, the CPUs that share a
 * last-level cache, and the CPUs of a core. Each kind numbers its domains from 0. A
 * domain lies in one node, except the last one below. Its home is one node with memory.
 *
 * Numbered once at boot over all possible CPUs. So a CPU that comes online later has
 * its domain already. Where the number of domains would exceed the limit, the CPUs
 * beyond share the last domain, which uses the canonical tree and takes part in every
 * flush. So do CPUs that are offline at boot: nothing is known yet of their caches and
 * cores.
 *
 * The number of domains never changes. A CPU may go to another domain of kind node, see
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
DEFINE_PER_CPU_READ_MOSTLY(u16 [HYDRA_NR_KINDS], hydra_cpu_domain);
EXPORT_PER_CPU_SYMBOL_GPL(hydra_cpu_domain);
DEFINE_PER_CPU_READ_MOSTLY(u32, hydra_cpu_home) = hydra_home(HYDRA_DOMAINS_NODE, 0);
/* The most domains that a kind has */
unsigned int hydra_nr_domains __ro_after_init = 1;
/* By enum hydra_domains. HYDRA_DOMAINS_MACHINE has none. */
struct hydra_kind hydra_kinds[HYDRA_NR_KINDS] __read_mostly;

/* A home has 16 bits for the number of the domain, plus one. */
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
 * kind llc. For virtual machines, which may not show their caches.
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
static bool __init hydra_same_domain(unsigned int type, unsigned int cpu, unsigned int first,
				     unsigned int nr)
{
	switch (type) {
	case HYDRA_DOMAINS_LLC:
		if (llc_cpus)
			return nr < llc_cpus;
		return cpumask_test_cpu(cpu, cpu_llc_shared_mask(first));
	case HYDRA_DOMAINS_CORE:
		return cpumask_test_cpu(cpu, topology_sibling_cpumask(first));
	default:
		return true;
	}
}

/* The domain of a CPU among those that exist, or kind->nr */
static unsigned int __init hydra_find_domain(unsigned int type, unsigned int cpu)
{
	const struct hydra_kind *kind = &hydra_kinds[type];
	unsigned int d;

	if (type == HYDRA_DOMAINS_NODE && group_of)
		return group_of[cpu];
	for (d = 0; d < kind->nr; d++)
		if (kind->nid[d] == hydra_node_of_cpu(cpu) &&
		    hydra_same_domain(type, cpu, cpumask_first(kind->cpus[d]),
				      cpumask_weight(kind->cpus[d])))
			break;
	return d;
}

/* One domain more, of a node */
static void __init hydra_add_domain(struct hydra_kind *kind, int nid)
{
	unsigned int d = kind->nr++;

	kind->cpus[d] = kzalloc(cpumask_size(), GFP_KERNEL);
	if (!kind->cpus[d])
		panic("hydra: no memory for %u domains\n", d + 1);
	kind->nid[d] = nid;
	kind->home[d] = hydra_home_of_node(nid);
	hydra_mask_set(d, &kind->all);
}

/* Put a CPU into a domain: one of those that exist, or the next one. */
static void __init hydra_add_cpu(unsigned int type, unsigned int cpu, unsigned int d)
{
	struct hydra_kind *kind = &hydra_kinds[type];

	if (d == max_domains) {
		d = max_domains - 1;
		hydra_mask_set(d, &kind->overflow);
	} else if (d == kind->nr) {
		hydra_add_domain(kind, hydra_node_of_cpu(cpu));
	}
	cpumask_set_cpu(cpu, kind->cpus[d]);
	per_cpu(hydra_cpu_domain, cpu)[type] = d;
}

/* The node of each CPU is known, the cache and the core of those that are up. */
static bool __init hydra_knows_cpu(unsigned int type, unsigned int cpu)
{
	return type == HYDRA_DOMAINS_NODE || cpu_online(cpu);
}

/* Groups of CPUs in the place of nodes (groups.c). A group may have no CPU yet. */
static void __init hydra_add_groups(struct hydra_kind *kind)
{
	unsigned int cpu, d, nr = hydra_groups_at_boot(&group_of, max_domains);

	for (d = 0; d < nr; d++) {
		int nid = first_online_node;

		for_each_possible_cpu(cpu)
			if (group_of[cpu] == d)
				nid = hydra_node_of_cpu(cpu);
		hydra_add_domain(kind, nid);
	}
}

/**
 * hydra_find_spans - note where in a cpumask the CPUs of each domain are
 * @kind: the domains
 *
 * Context: at boot, or all CPUs are stopped.
 */
void hydra_find_spans(struct hydra_kind *kind)
{
	unsigned int d;

	for (d = 0; d < kind->nr; d++) {
		bool empty = cpumask_empty(kind->cpus[d]);

		kind->span[d].first = empty ? 1 : BIT_WORD(cpumask_first(kind->cpus[d]));
		kind->span[d].last = empty ? 0 : BIT_WORD(cpumask_last(kind->cpus[d]));
	}
}

static void __init hydra_number_domains(unsigned int type)
{
	struct hydra_kind *kind = &hydra_kinds[type];
	unsigned int cpu, d, last;

	if (type == HYDRA_DOMAINS_NODE)
		hydra_add_groups(kind);
	for_each_possible_cpu(cpu)
		if (hydra_knows_cpu(type, cpu))
			hydra_add_cpu(type, cpu, hydra_find_domain(type, cpu));
	/* All CPUs that are offline now share a domain, which may span nodes. */
	last = kind->nr;
	for_each_possible_cpu(cpu) {
		if (hydra_knows_cpu(type, cpu))
			continue;
		hydra_add_cpu(type, cpu, last);
		hydra_mask_set(kind->nr - 1, &kind->overflow);
	}
	hydra_find_spans(kind);
	/* A flush may have targets from the time before the kind changed: no CPU. */
	for (d = kind->nr; d < HYDRA_MAX_DOMAINS; d++) {
		kind->cpus[d] = (struct cpumask *)cpu_none_mask;
		kind->span[d].first = 1;
	}
	hydra_nr_domains = max(hydra_nr_domains, kind->nr);
}

/**
 * hydra_set_node - put a CPU into a domain of kind node
 * @cpu: the CPU
 * @d: the domain
 *
 * Context: at boot; on the CPU itself, which is in stop_machine(); or the CPU is offline.
 */
void hydra_set_node(unsigned int cpu, unsigned int d)
{
	VM_WARN_ON_ONCE(system_state >= SYSTEM_RUNNING && cpu_online(cpu) &&
			cpu != raw_smp_processor_id());
	per_cpu(hydra_cpu_domain, cpu)[HYDRA_DOMAINS_NODE] = d;
	per_cpu(hydra_cpu_home, cpu) = hydra_home(HYDRA_DOMAINS_NODE, d);
}

static int __init hydra_domain_init(void)
{
	unsigned int type, cpu;

	for (type = HYDRA_DOMAINS_NODE; type < HYDRA_NR_KINDS; type++)
		hydra_number_domains(type);
	for_each_possible_cpu(cpu)
		hydra_set_node(cpu, hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, cpu));
	kfree(group_of);
	pr_info("domains: %u nodes, %u last-level caches, %u cores\n",
		hydra_kinds[HYDRA_DOMAINS_NODE].nr, hydra_kinds[HYDRA_DOMAINS_LLC].nr,
		hydra_kinds[HYDRA_DOMAINS_CORE].nr);
	return 0;
}
core_initcall(hydra_domain_init);

#include "tests/domain-kunit.h"
