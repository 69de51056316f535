// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replicas and cgroups: the resource "hydra_replicas" of the misc controller, in bytes.
 *
 * The memory controller charges a replica as it charges every page table. A limit of
 * memory does not tell replicas from data: a process may fill the cgroup with replicas up
 * to the limit. So the misc controller limits the replicas alone, in each cgroup with all
 * the cgroups below it.
 *
 * An address space is charged to the cgroup of its process when a thread asks for the first
 * replica, and to this cgroup until the address space ends. A process that moves to another
 * cgroup takes no charge along, and its later replicas are charged to the old cgroup, too.
 * So a replica does not have to remember which cgroup to uncharge, and a process does not
 * escape a limit by a move.
 *
 * The address space has a reference to the cgroup until its last user exits, and each charged
 * replica has one. So a removed cgroup goes with the last replica. The mm_struct may stay for
 * long after that, loaded by an idle CPU.
 *
 * The thread that asks may be of another cgroup: a child of vfork() which clone3() has put
 * into another cgroup, or a kernel thread which has borrowed the address space. So the owner
 * is asked, as the memory controller does. Without that controller Linux notes no owner, and
 * the thread is asked.
 *
 * Each charge changes a counter of every cgroup above, with or without a limit, also of the
 * root: a line of memory that all nodes share. A replica costs an allocation and the copy of
 * a table besides.
 *
 * A replica that the cgroup may not have is handled as one beyond replica_limit_kib: the
 * domain links the table.
 */

#include <linux/init.h>
#include <linux/misc_cgroup.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

#include <asm/processor.h>

#include "internal.h"

/* The caller gets a reference. */
static struct misc_cg *hydra_cgroup_of(struct mm_struct *mm)
{
	struct task_struct *owner = NULL;

	guard(rcu)();
#ifdef CONFIG_MEMCG
	owner = rcu_dereference(mm->owner);
#endif
	return css_misc(task_get_css(owner ?: current, misc_cgrp_id));
}

/**
 * hydra_cgroup_charge - charge an address space's cgroup for a replica
 * @h: address space which the current thread uses
 *
 * Context: process context. Return: false if the cgroup, or one above it, is at its limit.
 */
bool hydra_cgroup_charge(struct hydra_mm *h)
{
	struct misc_cg *cg = READ_ONCE(h->payer), *old;

	if (!cg) {
		cg = hydra_cgroup_of(h->mm);
		/* Threads may come at once. The reference of the winner stays. */
		old = cmpxchg(&h->payer, NULL, cg);
		if (old) {
			put_misc_cg(cg);
			cg = old;
		}
	}
	if (misc_cg_try_charge(MISC_CG_RES_HYDRA, cg, PAGE_SIZE))
		return false;
	/* The replica's reference */
	css_get(&cg->css);
	return true;
}

/**
 * hydra_cgroup_uncharge - a charged replica has been freed, or could not be had
 * @h: address space
 *
 * Context: any but NMI.
 */
void hydra_cgroup_uncharge(struct hydra_mm *h)
{
	struct misc_cg *cg = READ_ONCE(h->payer);

	misc_cg_uncharge(MISC_CG_RES_HYDRA, cg, PAGE_SIZE);
	put_misc_cg(cg);
}

/**
 * hydra_cgroup_leave - give the address space's reference to the cgroup back
 * @h: address space whose last user exits: it gets no replica any more
 *
 * hydra_mm::payer stays, for the replicas that are still charged.
 */
void hydra_cgroup_leave(struct hydra_mm *h)
{
	VM_WARN_ON_ONCE(atomic_read(&h->mm->mm_users));
	put_misc_cg(h->payer);
}

/*
 * The controller refuses limits and charges of a resource without a capacity. Replicas are
 * limited by free memory, which may be plugged in later. So the capacity is all memory that
 * the CPU can address.
 */
static int __init hydra_cgroup_init(void)
{
	return misc_cg_set_capacity(MISC_CG_RES_HYDRA, BIT_ULL(boot_cpu_data.x86_phys_bits));
}
subsys_initcall(hydra_cgroup_init);
