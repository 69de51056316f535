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
 * The number of groups is fixed at boot, because each struct hydra_mm has room for so many
 * domains. The host may move CPUs later. So writing "again" to /sys/kernel/mm/hydra/regroup
 * asks or measures once more, and regroup_seconds does so from time to time; a list of CPUs
 * there is taken as it is, also where nodes are the domains.
 *
 * With pv a group stands for a domain of the host, and the host numbers its domains: another host,
 * to which the guest has migrated, otherwise. See hydra_map_groups().
 *
 * The groups are the domains of kind node. Their tables come from pools, see pool.c. The
 * caches and cores that a guest sees are not looked at.
 *
 * Locking: hydra_regroup_lock is held while CPUs move, or the plan for that is made, and while
 * host_of is written.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cc_platform.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/hydra_vm.h>
#include <linux/init.h>
#include <linux/kvm_para.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <uapi/linux/hydra_para.h>

#include <asm/apic.h>
#include <asm/cpuid.h>
#include <asm/smp.h>

#include "internal.h"

/* The most vCPUs that a host tells about at once */
#define WHERE_MAX	4096
/* How often the memory of an answer is written, if the host has taken it away again */
#define WHERE_TRIES	10
/* In a plan: the group of a CPU that is offline */
#define NOBODY		U16_MAX

enum hydra_groups_source {
	HYDRA_GROUPS_OFF,
	HYDRA_GROUPS_PV,
	HYDRA_GROUPS_MEASURE,
	HYDRA_GROUPS_LIST,
};

static enum hydra_groups_source source;
static char *list __initdata;
/* With pv, by group: the domain of the host, or KVM_HYDRA_NOWHERE if that is not known */
static u8 *host_of;
static unsigned int regroup_seconds;
static DEFINE_MUTEX(hydra_regroup_lock);
static void hydra_regroup_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(regroup_work, hydra_regroup_work);

/**
 * hydra_has_groups - do groups take the place of nodes?
 *
 * KVM has no pools: its nested tables, and what it tells a guest, are by the nodes of memory, of
 * which there is one.
 *
 * Context: any, once the kernel has booted.
 * Return: true if the domains of kind node are groups.
 */
bool hydra_has_groups(void)
{
	return source != HYDRA_GROUPS_OFF;
}
EXPORT_SYMBOL_GPL(hydra_has_groups);

static int __init hydra_groups_setup(char *text)
{
	if (!strcmp(text, "off"))
		source = HYDRA_GROUPS_OFF;
	else if (!strcmp(text, "pv"))
		source = HYDRA_GROUPS_PV;
	else if (!strcmp(text, "measure"))
		source = HYDRA_GROUPS_MEASURE;
	else
		source = HYDRA_GROUPS_LIST;
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
static int hydra_groups_parse(char *text, unsigned int most, u16 *group)
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
 * Ask the host on which domains the CPUs run: by CPU, KVM_HYDRA_NOWHERE for those that the host
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
		memset(domain, KVM_HYDRA_NOWHERE, most);
		barrier_data(domain);
		ret = kvm_hypercall3(KVM_HC_HYDRA, KVM_HYDRA_WHERE, virt_to_phys(domain), most);
	}
	for_each_possible_cpu(cpu) {
		unsigned int id = cpu_physical_id(cpu);

		where[cpu] = id < most ? domain[id] : KVM_HYDRA_NOWHERE;
	}
	kfree(domain);
	return ret ? -EIO : 0;
}

/*
 * Which group is to stand for a domain of the host that has none? One on whose own domain no CPU
 * is; of these, the one whose CPUs are on the new domain now.
 * @used: domains of the host that CPUs are on
 */
static unsigned int hydra_free_group(unsigned int nr, unsigned int domain, const u8 *where,
				     const u8 *host, const u16 *group, const unsigned long *used)
{
	unsigned int cpu, g, common, best = nr, most = 0;

	for (g = 0; g < nr; g++) {
		if (host[g] != KVM_HYDRA_NOWHERE && test_bit(host[g], used))
			continue;
		common = 0;
		for_each_possible_cpu(cpu)
			common += group[cpu] == g && where[cpu] == domain;
		if (best == nr || common > most) {
			best = g;
			most = common;
		}
	}
	/* As many groups as domains, at least */
	VM_WARN_ON_ONCE(best == nr);
	return best;
}

/**
 * hydra_map_groups - find the groups of CPUs that are on domains of the host
 * @nr: how many groups there are
 * @where: by CPU, the domain of the host, or KVM_HYDRA_NOWHERE
 * @host: by group, the domain of the host that it stands for, or KVM_HYDRA_NOWHERE; updated
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
	DECLARE_BITMAP(used, KVM_HYDRA_NOWHERE) = {};
	unsigned int cpu, domain;

	for_each_possible_cpu(cpu)
		if (where[cpu] != KVM_HYDRA_NOWHERE)
			__set_bit(where[cpu], used);
	if (bitmap_weight(used, KVM_HYDRA_NOWHERE) > nr)
		return -ERANGE;
	for_each_set_bit(domain, used, KVM_HYDRA_NOWHERE)
		if (!memchr(host, domain, nr))
			WRITE_ONCE(host[hydra_free_group(nr, domain, where, host, group, used)],
				   domain);
	for_each_possible_cpu(cpu)
		if (where[cpu] != KVM_HYDRA_NOWHERE)
			group[cpu] = (u8 *)memchr(host, where[cpu], nr) - host;
	return 0;
}

/* Ask the host, and group the CPUs as it says. Return: 0 or a negative errno. */
static int hydra_ask_groups(unsigned int nr, u16 *group)
{
	u8 *where = kmalloc(nr_cpu_ids, GFP_KERNEL);
	int ret;

	if (!where)
		return -ENOMEM;
	ret = hydra_ask_host(where) ?: hydra_map_groups(nr, where, host_of, group);
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
	nr = min3(nr, (long)most, (long)KVM_HYDRA_NOWHERE);
	host_of = kmalloc(nr, GFP_KERNEL);
	if (!host_of)
		return 0;
	for (d = 0; d < nr; d++)
		host_of[d] = d;
	return hydra_ask_groups(nr, group) ? 0 : nr;
}

/* Return: how many groups there are; 0: ignore the boot parameter, the log says why. */
static unsigned int __init hydra_groups_from_source(unsigned int most, u16 *group)
{
	long nr;

	switch (source) {
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

	if (source == HYDRA_GROUPS_OFF)
		return 0;
	by_cpu = kcalloc(nr_cpu_ids, sizeof(*by_cpu), GFP_KERNEL);
	if (num_online_nodes() > 1 && source != HYDRA_GROUPS_LIST)
		pr_err("hydra_groups=%s: this machine has %u nodes, and uses them\n", list,
		       num_online_nodes());
	else if (by_cpu)
		nr = hydra_groups_from_source(most, by_cpu);
	if (nr) {
		*group = by_cpu;
		return nr;
	}
	source = HYDRA_GROUPS_OFF;
	kfree(host_of);
	host_of = NULL;
	kfree(by_cpu);
	return 0;
}

/*
 * Groups that were measured have no names. A new one takes the number of the old one with
 * which it has most CPUs in common: the pool of that is near them. CPUs of no group (NOBODY)
 * are offline, and stay where they are.
 */
static int hydra_keep_numbers(unsigned int nr, u16 *group)
{
	unsigned int cpu, d, g, best, most, common;
	hydra_mask_t taken;
	u16 *number;

	number = kcalloc(nr, sizeof(*number), GFP_KERNEL);
	if (!number)
		return -ENOMEM;
	hydra_mask_zero(&taken);
	for (g = 0; g < nr; g++) {
		best = UINT_MAX;
		most = 0;
		for (d = 0; d < hydra_kinds[HYDRA_DOMAINS_NODE].nr; d++) {
			common = 0;
			for_each_possible_cpu(cpu)
				common += group[cpu] == g &&
					  hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, cpu) == d;
			if (!hydra_mask_test(d, &taken) && (best == UINT_MAX || common > most)) {
				best = d;
				most = common;
			}
		}
		hydra_mask_set(best, &taken);
		number[g] = best;
	}
	for_each_possible_cpu(cpu)
		group[cpu] = group[cpu] == NOBODY ?
			     hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, cpu) : number[group[cpu]];
	kfree(number);
	return 0;
}

/* A measurement that cannot tell groups any more moves no CPU. */
static int hydra_measure_again(unsigned int nr, u16 *group)
{
	unsigned int cpu, found;

	for_each_possible_cpu(cpu)
		group[cpu] = NOBODY;
	found = hydra_measure_groups(group);
	if (found < 2)
		return -EAGAIN;
	if (found > nr)
		return -ERANGE;
	return hydra_keep_numbers(found, group);
}

/*
 * Ask the host again. If it does not tell, or tells of more domains than there are groups, CPUs
 * stay in their groups, and no memory is moved any more: it might be moved away from them.
 */
static int hydra_ask_again(unsigned int nr, u16 *group)
{
	bool placing = memchr_inv(host_of, KVM_HYDRA_NOWHERE, nr);
	unsigned int cpu, d;
	int ret;

	for_each_possible_cpu(cpu)
		group[cpu] = hydra_domain_of_cpu(HYDRA_DOMAINS_NODE, cpu);
	ret = hydra_ask_groups(nr, group);
	if (!ret)
		return 0;
	for (d = 0; d < nr; d++)
		WRITE_ONCE(host_of[d], KVM_HYDRA_NOWHERE);
	if (placing)
		pr_warn("the host does not tell any more where the CPUs are, or they are on more than %u of its domains (error %d): where the pools of page tables are is not known, and they do not grow\n",
			nr, ret);
	return ret;
}

/* What the host, or a measurement, says now. Context: hydra_regroup_lock. */
static int hydra_groups_again(u16 *group)
{
	unsigned int nr = hydra_kinds[HYDRA_DOMAINS_NODE].nr;

	lockdep_assert_held(&hydra_regroup_lock);
	switch (source) {
	case HYDRA_GROUPS_PV:
		return hydra_ask_again(nr, group);
	case HYDRA_GROUPS_MEASURE:
		return hydra_measure_again(nr, group);
	default:
		return -EOPNOTSUPP;
	}
}

/* @text: a list of groups, or NULL: ask, or measure. Return: 0 or a negative errno. */
static int hydra_regroup(char *text)
{
	unsigned int nr = hydra_kinds[HYDRA_DOMAINS_NODE].nr;
	u16 *group;
	int ret;

	group = kcalloc(nr_cpu_ids, sizeof(*group), GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	mutex_lock(&hydra_regroup_lock);
	ret = text ? hydra_groups_parse(text, nr, group) : hydra_groups_again(group);
	if (ret >= 0)
		hydra_move_cpus(group);
	/* Also if no CPU moves: memory may have. */
	if (!ret && !text && source == HYDRA_GROUPS_PV)
		hydra_pools_place();
	mutex_unlock(&hydra_regroup_lock);
	kfree(group);
	return min(ret, 0);
}

static void hydra_regroup_work(struct work_struct *work)
{
	int ret = hydra_regroup(NULL);

	if (ret)
		pr_warn_ratelimited("CPUs stay in their groups (error %d)\n", ret);
	/* A CPU may have come meanwhile, and have asked for more: that request stays. */
	if (READ_ONCE(regroup_seconds))
		queue_delayed_work(system_long_wq, &regroup_work, READ_ONCE(regroup_seconds) * HZ);
}

/* A CPU that comes late: nothing was known of it. */
static int hydra_groups_online(unsigned int cpu)
{
	mod_delayed_work(system_long_wq, &regroup_work, 0);
	return 0;
}

static ssize_t regroup_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	char *text = kstrdup(buf, GFP_KERNEL);
	int ret;

	if (!text)
		return -ENOMEM;
	ret = hydra_regroup(sysfs_streq(buf, "again") ? NULL : strim(text));
	kfree(text);
	return ret ?: count;
}

static struct kobj_attribute regroup_attr = __ATTR_WO(regroup);

static ssize_t regroup_seconds_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(regroup_seconds));
}

static ssize_t regroup_seconds_store(struct kobject *kobj, struct kobj_attribute *attr,
				     const char *buf, size_t count)
{
	unsigned int seconds;

	if (kstrtouint(buf, 10, &seconds) || seconds > INT_MAX / HZ)
		return -EINVAL;
	if (seconds && source != HYDRA_GROUPS_PV && source != HYDRA_GROUPS_MEASURE)
		return -EOPNOTSUPP;
	WRITE_ONCE(regroup_seconds, seconds);
	/* With 0, what is queued is done once more. */
	if (seconds)
		mod_delayed_work(system_long_wq, &regroup_work, seconds * HZ);
	return count;
}

static struct kobj_attribute regroup_seconds_attr = __ATTR_RW(regroup_seconds);

static ssize_t pools_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return hydra_pools_show(buf);
}

/* Looks at all pages of the pools. */
static struct kobj_attribute pools_attr = __ATTR_RO_MODE(pools, 0400);

static ssize_t pool_limit_kib_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", READ_ONCE(hydra_pool_limit) >> 10);
}

static ssize_t pool_limit_kib_store(struct kobject *kobj, struct kobj_attribute *attr,
				    const char *buf, size_t count)
{
	unsigned long kib;

	if (kstrtoul(buf, 10, &kib) || kib > ULONG_MAX >> 11)
		return -EINVAL;
	WRITE_ONCE(hydra_pool_limit, kib << 10);
	return count;
}

static struct kobj_attribute pool_limit_attr = __ATTR_RW(pool_limit_kib);

static struct attribute *regroup_attrs[] = {
	&regroup_attr.attr,
	NULL
};

static const struct attribute_group hydra_regroup_files = {
	.name = "hydra",
	.attrs = regroup_attrs,
};

/* There only with hydra_groups= */
static struct attribute *groups_attrs[] = {
	&regroup_seconds_attr.attr,
	&pools_attr.attr,
	&pool_limit_attr.attr,
	NULL
};

static const struct attribute_group hydra_groups_files = {
	.name = "hydra",
	.attrs = groups_attrs,
};

static int __init hydra_groups_init(void)
{
	const struct hydra_kind *kind = &hydra_kinds[HYDRA_DOMAINS_NODE];
	unsigned int d;
	int ret;

	ret = sysfs_merge_group(mm_kobj, &hydra_regroup_files);
	if (ret || source == HYDRA_GROUPS_OFF)
		return ret;
	for (d = 0; d < kind->nr; d++)
		pr_info("group %u: CPUs %*pbl\n", d, cpumask_pr_args(kind->cpus[d]));
	ret = hydra_pools_start(kind->nr, host_of);
	if (ret)
		return ret;
	if (source != HYDRA_GROUPS_LIST)
		cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/hydra:online",
					  hydra_groups_online, NULL);
	return sysfs_merge_group(mm_kobj, &hydra_groups_files);
}
late_initcall(hydra_groups_init);

#include "tests/groups-kunit.h"
