// SPDX-License-Identifier: GPL-2.0-only
/*
 * The limits of a VM's nested tables: that of the machine (vm_table_limit_kib), and those of the
 * memory cgroup of its process, and of the ancestors: memory.hydra_vm.max. Each is for each VM
 * alone, as a VM's own limit is, which KVM knows. The least of all is in force.
 *
 * Tables are charged to the cgroup in any case. A limit leaves the rest of the cgroup's memory to
 * the guest: a VM that reaches it gives up a tree, while memory.max would take the guest's pages.
 */

#include <linux/cgroup.h>
#include <linux/export.h>
#include <linux/hydra_vm.h>
#include <linux/init.h>
#include <linux/memcontrol.h>
#include <linux/minmax.h>
#include <linux/mm_types.h>
#include <linux/page_counter.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#ifdef CONFIG_MEMCG
/* Has any cgroup ever had a limit? If not, a VM that needs a table need not look. */
static bool limited __read_mostly;

static unsigned long hydra_vm_cgroup_limit(const struct mm_struct *mm)
{
	unsigned long limit = ULONG_MAX, own;
	struct mem_cgroup *memcg;

	if (!READ_ONCE(limited))
		return limit;
	guard(rcu)();
	memcg = mem_cgroup_from_task(rcu_dereference(mm->owner));
	for (; memcg; memcg = parent_mem_cgroup(memcg)) {
		own = READ_ONCE(memcg->hydra_vm_tables);
		if (own)
			limit = min(limit, own);
	}
	return limit;
}

static int hydra_vm_max_show(struct seq_file *m, void *v)
{
	unsigned long limit = READ_ONCE(mem_cgroup_from_seq(m)->hydra_vm_tables);

	if (limit)
		seq_printf(m, "%llu\n", (u64)limit * PAGE_SIZE);
	else
		seq_puts(m, "max\n");
	return 0;
}

static ssize_t hydra_vm_max_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(of_css(of));
	unsigned long limit;
	int ret;

	ret = page_counter_memparse(strim(buf), "max", &limit);
	if (ret)
		return ret;
	if (!limit)
		return -EINVAL;
	WRITE_ONCE(limited, true);
	WRITE_ONCE(memcg->hydra_vm_tables, limit == PAGE_COUNTER_MAX ? 0 : limit);
	return count;
}

static struct cftype hydra_vm_group_files[] = {
	{
		.name = "hydra_vm.max",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = hydra_vm_max_show,
		.write = hydra_vm_max_write,
	},
	{ }
};

static int __init hydra_vm_limit_init(void)
{
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, hydra_vm_group_files);
}
late_initcall(hydra_vm_limit_init);
#else
static unsigned long hydra_vm_cgroup_limit(const struct mm_struct *mm)
{
	return ULONG_MAX;
}
#endif

/**
 * hydra_vm_limit_of - the most nested tables of a VM, as the machine and the cgroup say
 * @mm: the address space of the VM's process
 *
 * The process may go to another cgroup, and each limit may change, at any time.
 *
 * Context: any but NMI. Return: a number of tables; ULONG_MAX: no limit.
 */
unsigned long hydra_vm_limit_of(const struct mm_struct *mm)
{
	return min(READ_ONCE(hydra_vm_table_limit), hydra_vm_cgroup_limit(mm));
}
EXPORT_SYMBOL_GPL(hydra_vm_limit_of);
