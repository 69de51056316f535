// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regrouping: CPUs go to other groups while the system runs, and the files in
 * /sys/kernel/mm/hydra for that. See groups.c.
 *
 * The number of groups is fixed at boot, because each struct hydra_mm has room for so many
 * domains. The host may move CPUs later. So writing "again" to /sys/kernel/mm/hydra/regroup
 * asks or measures once more, and regroup_seconds does so from time to time; a list of CPUs
 * there is taken as it is, also where nodes are the domains.
 *
 * A CPU keeps its core and its cache. No code needs a lock for the domain of a CPU, because all
 * CPUs stop for a move:
 *
 *     CPU 0: hydra_move_cpus()             CPU 1, any code with preemption disabled
 *     ------------------------             ----------------------------------------
 *                                          disables preemption
 *     stop_machine() waits
 *                                          reads a CPU's domain, and uses the number
 *                                          enables preemption
 *                                          runs the stopper thread
 *     runs the stopper thread
 *     changes the numbers                  leaves its address space, if its number changes
 *
 * Thus no flush, switch or atomic fill is under way: all of them run with preemption
 * disabled from reading a number to their end. Code that may sleep between the two has to
 * bear an old number, as if its thread had migrated to another CPU meanwhile. The CPU that
 * moves drops all contexts: it holds no translation through the tables of its old
 * domain, and compares no generation of it. When its next thread runs, the CPU switches to
 * an address space like any other CPU of the new domain.
 *
 * Locking: hydra_regroup_lock is held while CPUs move, or the plan for that is made, and while
 * hydra_groups_host is written.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/stop_machine.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>
#include <uapi/linux/hydra_para.h>

#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "domain.h"
#include "groups.h"
#include "latency.h"
#include "pool.h"

/* In a plan: the group of a CPU that is offline */
#define OFFLINE		U16_MAX

static unsigned int regroup_seconds;
static DEFINE_MUTEX(hydra_regroup_lock);
static void hydra_regroup_work(struct work_struct *work);
static DECLARE_DELAYED_WORK(regroup_work, hydra_regroup_work);

/*
 * Groups that were measured have no names. A new one takes the number of the old one with
 * which it has most CPUs in common: the pool of that is near them. CPUs of no group (OFFLINE)
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
		for (d = 0; d < hydra_domains[HYDRA_SCOPE_NODE].nr; d++) {
			common = 0;
			for_each_possible_cpu(cpu)
				common += group[cpu] == g &&
					  hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu) == d;
			if (!hydra_mask_test(d, &taken) && (best == UINT_MAX || common > most)) {
				best = d;
				most = common;
			}
		}
		hydra_mask_set(best, &taken);
		number[g] = best;
	}
	for_each_possible_cpu(cpu)
		group[cpu] = group[cpu] == OFFLINE ?
			     hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu) : number[group[cpu]];
	kfree(number);
	return 0;
}

/* A measurement that cannot tell groups any more moves no CPU. */
static int hydra_measure_again(unsigned int nr, u16 *group)
{
	unsigned int cpu, found;

	for_each_possible_cpu(cpu)
		group[cpu] = OFFLINE;
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
static int hydra_ask_groups_again(unsigned int nr, u16 *group)
{
	bool placing = memchr_inv(hydra_groups_host, KVM_HYDRA_NO_DOMAIN, nr);
	unsigned int cpu, d;
	int ret;

	for_each_possible_cpu(cpu)
		group[cpu] = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu);
	ret = hydra_ask_groups(nr, group);
	if (!ret)
		return 0;
	for (d = 0; d < nr; d++)
		WRITE_ONCE(hydra_groups_host[d], KVM_HYDRA_NO_DOMAIN);
	if (placing)
		pr_warn("the host does not tell any more where the CPUs are, or they are on more than %u of its domains (error %d): where the pools of page tables are is not known, and they do not grow\n",
			nr, ret);
	return ret;
}

/* What the host, or a measurement, says now. Context: hydra_regroup_lock. */
static int hydra_groups_again(u16 *group)
{
	unsigned int nr = hydra_domains[HYDRA_SCOPE_NODE].nr;

	lockdep_assert_held(&hydra_regroup_lock);
	switch (hydra_groups_from) {
	case HYDRA_GROUPS_PV:
		return hydra_ask_groups_again(nr, group);
	case HYDRA_GROUPS_MEASURE:
		return hydra_measure_again(nr, group);
	default:
		return -EOPNOTSUPP;
	}
}

/* What no CPU does for itself: the masks, and the numbers of CPUs that are offline */
static void hydra_move_rest(const u16 *to)
{
	struct hydra_domains *domains = &hydra_domains[HYDRA_SCOPE_NODE];
	unsigned int cpu, d;

	for (d = 0; d < domains->nr; d++)
		cpumask_clear(domains->cpus[d]);
	for_each_possible_cpu(cpu) {
		cpumask_set_cpu(cpu, domains->cpus[to[cpu]]);
		/* It has left its address space, and begins without contexts. */
		if (!cpu_online(cpu))
			hydra_set_node(cpu, to[cpu]);
	}
	hydra_find_spans(domains);
}

/**
 * hydra_leave_contexts - this CPU forgets all address spaces
 *
 * The CPU goes on with init_mm, as an idle CPU does, and flushes before it uses any
 * context again.
 *
 * Context: interrupts off, in a kernel thread that uses no address space.
 */
static void hydra_leave_contexts(void)
{
	u16 asid, loaded;

	lockdep_assert_irqs_disabled();
	VM_WARN_ON_ONCE(current->mm);
	leave_mm();
	VM_WARN_ON_ONCE(this_cpu_read(cpu_tlbstate.loaded_mm) != &init_mm);
	loaded = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	/* No address space has the number 0, so switch_mm_irqs_off() flushes a new context. */
	for (asid = 0; asid < TLB_NR_DYN_ASIDS; asid++)
		if (asid != loaded)
			this_cpu_write(cpu_tlbstate.ctxs[asid].ctx_id, 0);
}

/* Runs on all CPUs that are online, at the same time. */
static int hydra_move_cpu(void *data)
{
	unsigned int cpu = smp_processor_id();
	const u16 *to = data;

	lockdep_assert_irqs_disabled();
	if (cpu == cpumask_first(cpu_online_mask))
		hydra_move_rest(to);
	if (to[cpu] == hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu))
		return 0;
	hydra_leave_contexts();
	hydra_set_node(cpu, to[cpu]);
	return 0;
}

/**
 * hydra_move_cpus - CPUs go to other domains of scope node
 * @to: by CPU, for all possible ones, a domain that exists
 *
 * See the head of this file. Stops all CPUs, if any is to move.
 *
 * Context: process context, hydra_regroup_lock; may sleep.
 */
static void hydra_move_cpus(const u16 *to)
{
	bool moves = false;
	unsigned int cpu;

	lockdep_assert_held(&hydra_regroup_lock);
	for_each_possible_cpu(cpu) {
		if (WARN_ON_ONCE(to[cpu] >= hydra_domains[HYDRA_SCOPE_NODE].nr))
			return;
		moves |= to[cpu] != hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu);
	}
	if (!moves)
		return;
	cpus_read_lock();
	stop_machine_cpuslocked(hydra_move_cpu, (void *)to, cpu_online_mask);
	cpus_read_unlock();
}

/* @text: a list of groups, or NULL: ask, or measure. Return: 0 or a negative errno. */
static int hydra_regroup(char *text)
{
	unsigned int nr = hydra_domains[HYDRA_SCOPE_NODE].nr;
	u16 *group;
	int ret;

	group = kcalloc(nr_cpu_ids, sizeof(*group), GFP_KERNEL);
	if (!group)
		return -ENOMEM;
	/* Its holder may wait for a CPU that goes offline. */
	if (mutex_lock_killable(&hydra_regroup_lock)) {
		kfree(group);
		return -EINTR;
	}
	ret = text ? hydra_groups_parse(text, nr, group) : hydra_groups_again(group);
	if (ret >= 0)
		hydra_move_cpus(group);
	/* Also if no CPU moves: memory may have. */
	if (!ret && !text && hydra_groups_from == HYDRA_GROUPS_PV)
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
	if (seconds && hydra_groups_from != HYDRA_GROUPS_PV &&
	    hydra_groups_from != HYDRA_GROUPS_MEASURE)
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
	const struct hydra_domains *domains = &hydra_domains[HYDRA_SCOPE_NODE];
	unsigned int d;
	int ret;

	ret = sysfs_merge_group(mm_kobj, &hydra_regroup_files);
	if (ret || hydra_groups_from == HYDRA_GROUPS_OFF)
		return ret;
	for (d = 0; d < domains->nr; d++)
		pr_info("group %u: CPUs %*pbl\n", d, cpumask_pr_args(domains->cpus[d]));
	ret = hydra_pools_start(domains->nr, hydra_groups_host);
	if (ret)
		return ret;
	if (hydra_groups_from != HYDRA_GROUPS_LIST)
		cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/hydra:online",
					  hydra_groups_online, NULL);
	return sysfs_merge_group(mm_kobj, &hydra_groups_files);
}
late_initcall(hydra_groups_init);
