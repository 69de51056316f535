// SPDX-License-Identifier: GPL-2.0-only
/*
 * Groups: sets of CPUs that take the place of nodes.
 *
 * A virtual machine may run on several nodes of its host and see only one. Then the kernel of
 * the guest does not know which CPUs are near each other, and could give them no page tables of
 * their own. The boot parameter hydra_groups= tells where this knowledge comes from:
 *
 *	off		the nodes that Linux knows; the default
 *	pv		the guest asks its host, which must have Hydra, and a VM with expose=on
 *			(vMitosis, Panwar et al., ASPLOS '21, section 3.3.3: NO-P)
 *	measure		the guest measures which CPUs share memory quickly, see latency.c
 *			(section 3.3.4: NO-F)
 *	0-3/4-7		the operator knows: here, two groups of four CPUs
 *
 * The number of groups is fixed at boot. CPUs may go to other groups later, see regroup.c.
 *
 * With pv a group stands for a domain of the host, and the host numbers its domains: another host,
 * to which the guest has migrated, otherwise. See hydra_map_groups().
 *
 * The groups are the domains of scope node. Their tables come from pools, see pool.c. The
 * caches and cores that a guest sees are not looked at.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cc_platform.h>
#include <linux/cpu.h>
#include <linux/init.h>
#include <linux/kvm_para.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <uapi/linux/hydra_para.h>

#include <asm/apic.h>
#include <asm/cpuid.h>
#include <asm/smp.h>

#include "groups.h"
#include "latency.h"

/* The most vCPUs that a host tells about at once */
#define WHERE_MAX	4096
/* How often the memory of an answer is written, if the host has taken it away again */
#define WHERE_TRIES	10

enum hydra_groups_source hydra_groups_from;
static char *list __initdata;
/* With pv, by group: the domain of the host, or KVM_HYDRA_NO_DOMAIN if that is not known */
u8 *hydra_groups_host;

/**
 * hydra_has_groups - do groups take the place of nodes?
 *
 * KVM has no pools: its nested tables, and what it tells a guest, are by the nodes of memory, of
 * which there is one.
 *
 * Context: any, once the kernel has booted.
 * Return: true if the domains of scope node are groups.
 */
bool hydra_has_groups(void)
{
	return hydra_groups_from != HYDRA_GROUPS_OFF;
}
EXPORT_SYMBOL_GPL(hydra_has_groups);

static int __init hydra_groups_setup(char *text)
{
	if (!strcmp(text, "off"))
		hydra_groups_from = HYDRA_GROUPS_OFF;
	else if (!strcmp(text, "pv"))
		hydra_groups_from = HYDRA_GROUPS_PV;
	else if (!strcmp(text, "measure"))
		hydra_groups_from = HYDRA_GROUPS_MEASURE;
	else
		hydra_groups_from = HYDRA_GROUPS_LIST;
	list = text;
	return 1;
}
__setup("hydra_groups=", hydra_groups_setup);

/**
 * hydra_groups_parse - read a list of groups
 * @text: lists of CPUs, separated by slashes; changed
 * @most: how many groups there may be
 * @group: by CPU, set to its group
 *
 * Each CPU that is possible has to be in one group; a group may have none.
 *
 * Context: any. Return: how many groups there are, or -EINVAL.
 */
int hydra_groups_parse(char *text, unsigned int most, u16 *group)
{
	cpumask_var_t cpus, all;
	int cpu, nr = 0, ret = -ENOMEM;
	char *part;

	if (!zalloc_cpumask_var(&cpus, GFP_KERNEL))
		return -ENOMEM;
	if (!zalloc_cpumask_var(&all, GFP_KERNEL))
		goto out;
	ret = -EINVAL;
	while ((part = strsep(&text, "/"))) {
		if (nr == most || cpulist_parse(part, cpus) || cpumask_intersects(cpus, all) ||
		    !cpumask_subset(cpus, cpu_possible_mask))
			goto out_all;
		for_each_cpu(cpu, cpus)
			group[cpu] = nr;
		cpumask_or(all, all, cpus);
		nr++;
	}
	if (cpumask_equal(all, cpu_possible_mask))
		ret = nr;
out_all:
	free_cpumask_var(all);
out:
	free_cpumask_var(cpus);
	return ret;
}

/* Is the host KVM? kvm_para_available tells that only with CONFIG_KVM_GUEST. */
static bool __init hydra_host_is_kvm(void)
{
	return boot_cpu_has(X86_FEATURE_HYPERVISOR) && hypervisor_cpuid_base(KVM_SIGNATURE, 0);
}

/* How many domains has the host? Only one with Hydra answers. */
static long __init hydra_host_domains(void)
{
	if (!hydra_host_is_kvm() || cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return -KVM_ENOSYS;
	return kvm_hypercall1(KVM_HC_HYDRA, KVM_HYDRA_INFO);
}

/*
 * Ask the host on which domains the CPUs run: by CPU, KVM_HYDRA_NO_DOMAIN for those that the host
 * knows nothing of.
 */
static int hydra_ask_host(u8 *where)
{
	unsigned int cpu, most = 0, i;
	u8 *domain;
	long ret;

	/* A CPU that is possible, but not there, has no number the host could know. */
	for_each_possible_cpu(cpu)
		if (cpu_physical_id(cpu) != BAD_APICID)
			most = max(most, cpu_physical_id(cpu) + 1);
	if (!most || most > WHERE_MAX)
		return -E2BIG;
	domain = kmalloc(most, GFP_KERNEL);
	if (!domain)
		return -ENOMEM;
	/* The host writes only to memory that it has. */
	for (i = 0, ret = -KVM_EFAULT; i < WHERE_TRIES && ret == -KVM_EFAULT; i++) {
		memset(domain, KVM_HYDRA_NO_DOMAIN, most);
		barrier_data(domain);
		ret = kvm_hypercall3(KVM_HC_HYDRA, KVM_HYDRA_WHERE, virt_to_phys(domain), most);
	}
	for_each_possible_cpu(cpu) {
		unsigned int id = cpu_physical_id(cpu);

		where[cpu] = id < most ? domain[id] : KVM_HYDRA_NO_DOMAIN;
	}
	kfree(domain);
	return ret ? -EIO : 0;
}

/**
 * struct hydra_map - the groups of CPUs, and the domains of the host that these are on
 * @nr: how many groups there are
 * @where: by CPU, the domain of the host, or KVM_HYDRA_NO_DOMAIN
 * @host: by group, the domain of the host that it stands for, or KVM_HYDRA_NO_DOMAIN
 * @group: by CPU, its group
 * @used: domains of the host that CPUs are on
 */
struct hydra_map {
	unsigned int nr;
	const u8 *where;
	u8 *host;
	u16 *group;
	DECLARE_BITMAP(used, KVM_HYDRA_NO_DOMAIN);
};

/*
 * Which group is to stand for a domain of the host that has none? One on whose own domain no CPU
 * is; of these, the one whose CPUs are on the new domain now.
 */
static unsigned int hydra_free_group(const struct hydra_map *m, unsigned int domain)
{
	unsigned int cpu, g, common, best = m->nr, most = 0;

	for (g = 0; g < m->nr; g++) {
		if (m->host[g] != KVM_HYDRA_NO_DOMAIN && test_bit(m->host[g], m->used))
			continue;
		common = 0;
		for_each_possible_cpu(cpu)
			common += m->group[cpu] == g && m->where[cpu] == domain;
		if (best == m->nr || common > most) {
			best = g;
			most = common;
		}
	}
	/* As many groups as domains, at least */
	VM_WARN_ON_ONCE(best == m->nr);
	return best;
}

/**
 * hydra_map_groups - find the groups of CPUs that are on domains of the host
 * @nr: how many groups there are
 * @where: by CPU, the domain of the host, or KVM_HYDRA_NO_DOMAIN
 * @host: by group, the domain of the host that it stands for, or KVM_HYDRA_NO_DOMAIN; updated
 * @group: by CPU, its group; updated. A CPU that is nowhere keeps its group.
 *
 * A domain keeps its group, as the group's pool is there. After a migration the host may have
 * other numbers: then groups keep their CPUs, and their pools are moved.
 *
 * Context: may sleep. Return: 0; or -ERANGE, and nothing has changed: CPUs are on more domains
 * than there are groups.
 */
static int hydra_map_groups(unsigned int nr, const u8 *where, u8 *host, u16 *group)
{
	struct hydra_map m = { .nr = nr, .where = where, .host = host, .group = group };
	unsigned int cpu, domain;

	for_each_possible_cpu(cpu)
		if (where[cpu] != KVM_HYDRA_NO_DOMAIN)
			__set_bit(where[cpu], m.used);
	if (bitmap_weight(m.used, KVM_HYDRA_NO_DOMAIN) > nr)
		return -ERANGE;
	for_each_set_bit(domain, m.used, KVM_HYDRA_NO_DOMAIN)
		if (!memchr(host, domain, nr))
			WRITE_ONCE(host[hydra_free_group(&m, domain)], domain);
	for_each_possible_cpu(cpu)
		if (where[cpu] != KVM_HYDRA_NO_DOMAIN)
			group[cpu] = (u8 *)memchr(host, where[cpu], nr) - host;
	return 0;
}

/**
 * hydra_ask_groups - ask the host, and group the CPUs as it says
 * @nr: how many groups there are
 * @group: by CPU, its group; updated
 *
 * Context: may sleep.
 * Return: 0 or a negative errno.
 */
int hydra_ask_groups(unsigned int nr, u16 *group)
{
	u8 *where = kmalloc(nr_cpu_ids, GFP_KERNEL);
	int ret;

	if (!where)
		return -ENOMEM;
	ret = hydra_ask_host(where) ?: hydra_map_groups(nr, where, hydra_groups_host, group);
	kfree(where);
	return ret;
}

/*
 * Has the host at boot so many domains? Begin with the host's own numbers.
 * Return: how many groups; 0: it does not tell
 */
static unsigned int __init hydra_groups_of_host(unsigned int most, u16 *group)
{
	long nr = hydra_host_domains();
	unsigned int d;

	if (nr < 1)
		return 0;
	/* The CPUs may be on fewer than the host has. */
	nr = min3(nr, (long)most, (long)KVM_HYDRA_NO_DOMAIN);
	hydra_groups_host = kmalloc(nr, GFP_KERNEL);
	if (!hydra_groups_host)
		return 0;
	for (d = 0; d < nr; d++)
		hydra_groups_host[d] = d;
	return hydra_ask_groups(nr, group) ? 0 : nr;
}

/* Return: how many groups there are; 0: ignore the boot parameter, the log says why. */
static unsigned int __init hydra_groups_from_source(unsigned int most, u16 *group)
{
	long nr;

	switch (hydra_groups_from) {
	case HYDRA_GROUPS_PV:
		nr = hydra_groups_of_host(most, group);
		if (!nr) {
			pr_err("hydra_groups=pv: the host does not tell (a host with Hydra does, for a VM with expose=on), or CPUs are on more than %u of its domains\n",
			       most);
			return 0;
		}
		break;
	case HYDRA_GROUPS_MEASURE:
		nr = hydra_measure_groups(group);
		if (nr < 2)
			pr_warn("hydra_groups=measure: cannot tell groups of CPUs by the latencies between them: one group\n");
		nr = max(nr, 1L);
		break;
	default:
		nr = hydra_groups_parse(list, most, group);
		if (nr < 0) {
			pr_err("hydra_groups=: not all CPUs in up to %u groups, like 0-3/4-7: ignored\n",
			       most);
			return 0;
		}
	}
	if (nr > most) {
		pr_err("hydra_groups=: %ld groups, and this kernel has %u domains at most: ignored\n",
		       nr, most);
		return 0;
	}
	return nr;
}

/**
 * hydra_groups_at_boot - the groups that take the place of nodes
 * @group: set to an array with the group of each CPU
 * @most: how many groups there may be
 *
 * Return: how many groups there are; 0: nodes stay what they are.
 */
unsigned int __init hydra_groups_at_boot(u16 **group, unsigned int most)
{
	unsigned int nr = 0;
	u16 *by_cpu;

	if (hydra_groups_from == HYDRA_GROUPS_OFF)
		return 0;
	by_cpu = kcalloc(nr_cpu_ids, sizeof(*by_cpu), GFP_KERNEL);
	if (num_online_nodes() > 1 && hydra_groups_from != HYDRA_GROUPS_LIST)
		pr_err("hydra_groups=%s: this machine has %u nodes, and uses them\n", list,
		       num_online_nodes());
	else if (by_cpu)
		nr = hydra_groups_from_source(most, by_cpu);
	if (nr) {
		*group = by_cpu;
		return nr;
	}
	hydra_groups_from = HYDRA_GROUPS_OFF;
	kfree(hydra_groups_host);
	hydra_groups_host = NULL;
	kfree(by_cpu);
	return 0;
}

#include "tests/groups-kunit.h"
