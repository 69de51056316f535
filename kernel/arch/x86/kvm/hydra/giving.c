// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trees that are given up for lack of memory, and come back.
 *
 * A tree may need a table when the VM has reached its limit (vm_limit.c), or when its memory cgroup
 * or the machine is full. That is not the guest's error: one tree would do. So the VM gives up
 * that tree, and no other. The vCPUs of the tree load another domain's instead, the refuge, which
 * is there already. It is the tree with the most vCPUs at the time when the first tree is given up,
 * and stays as long as one is. If the refuge itself finds no memory, the tree with the fewest
 * vCPUs is given up. The last tree goes on as that of stock KVM would.
 *
 * A tree that was given up stays for a second, so that faults in the refuge copy from it. Then
 * hydra_vm_tidy_work() drops it. Its memory is about to be free, so its tables count for no limit,
 * and trees that find no memory meanwhile may have as many tables beyond all limits. Otherwise
 * the VM would lose all its trees for one lack of memory.
 *
 * After hydra_vm_idle_seconds the tree comes back, if the limit has room for as many tables as
 * the refuge has. If it is given up again soon afterwards, it stays away for twice as long.
 *
 * A vCPU may choose the tree at the moment when it is given up:
 *
 *     CPU 0: gives up a tree, asks        CPU 1: __hydra_vm_move()
 *     ----------------------------        ------------------------
 *                                         chooses the tree
 *     sets the tree's bit                 writes its domain
 *     smp_mb() in hydra_vm_ask()          smp_mb()
 *     reads the domain of the vCPU        chooses again
 *
 * Either CPU 0 finds the vCPU in the tree, and asks it to change trees, or the vCPU finds another
 * choice, and asks itself.
 *
 * Locking: vCPUs give up trees in faults, and cannot take slots_lock (trees.c). So a spinlock,
 * hydra_vm.giving, guards the bits, and that trees end as settings say. No other lock is taken
 * under it. It nests in slots_lock.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/kvm_host.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"

#include "hydra.h"
#include "internal.h"
#include "trace.h"

/* The longest time away is the shortest, doubled so many times. */
#define HYDRA_VM_DOUBLE		6U

/* How long a tree stays away, in jiffies; 0: until settings are written */
static unsigned long hydra_vm_away(const struct hydra_vm_tree *tree)
{
	return (READ_ONCE(hydra_vm_idle_seconds) * (unsigned long)HZ) <<
	       min(tree->in_a_row, HYDRA_VM_DOUBLE);
}

/* How many tables are about to be free? */
static s64 hydra_vm_going(const struct hydra_vm *vm)
{
	u32 given_up = READ_ONCE(vm->given_up);
	s64 tables = 0;

	for (unsigned int d = 1; d <= HYDRA_VM_MAX_DOMAINS; d++)
		if (given_up & BIT(d))
			tables += atomic64_read(&vm->kvm->stat.hydra_tables[d]);
	return tables;
}

/**
 * hydra_vm_may_force - may a tree have a table beyond all limits?
 * @kvm: the VM
 *
 * Context: any. Return: true if trees that were given up have a table to give for it.
 */
bool hydra_vm_may_force(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	return READ_ONCE(vm->given_up) && atomic64_inc_return(&vm->forced) <= hydra_vm_going(vm);
}

/**
 * hydra_vm_is_full - has a VM reached the limit?
 * @kvm: the VM
 *
 * Tables of trees that go do not count. An idle tree goes before its time.
 *
 * Context: process context. Return: true if trees are to have no more tables.
 */
bool hydra_vm_is_full(struct kvm *kvm)
{
	s64 tables = atomic64_read(&kvm->arch.tdp_mmu_pages);
	unsigned long limit = hydra_vm_limit(kvm), left;
	struct hydra_vm *vm = kvm->arch.hydra;
	u32 given_up, loaded;

	if (tables < limit)
		return false;
	given_up = READ_ONCE(vm->given_up);
	loaded = hydra_vm_loaded_trees(kvm);
	for (unsigned int d = 1; d <= HYDRA_VM_MAX_DOMAINS; d++) {
		struct hydra_vm_tree *tree = &vm->trees[d];

		if (!(given_up & BIT(d))) {
			if ((loaded & BIT(d)) || !atomic64_read(&kvm->stat.hydra_tables[d]) ||
			    READ_ONCE(vm->logged) || !hydra_vm_alone_for(vm, d, HZ, &left))
				continue;
			if (!READ_ONCE(tree->pressed)) {
				WRITE_ONCE(tree->pressed, true);
				hydra_vm_tidy_soon(vm);
			}
		}
		tables -= atomic64_read(&kvm->stat.hydra_tables[d]);
	}
	return tables >= (s64)min(limit, S64_MAX);
}

static void hydra_vm_want_event(struct hydra_vm *vm)
{
	/* The numbers before: pairs with xchg() in hydra_vm_tell(). */
	smp_store_release(&vm->untold, true);
}

/* The victim's vCPUs are to load the refuge. Context: hydra_vm.giving. */
static void hydra_vm_mark_given_up(struct hydra_vm *vm, unsigned int victim)
{
	struct hydra_vm_tree *tree = &vm->trees[victim];

	lockdep_assert_held(&vm->giving);
	if (tree->back && time_before(jiffies, tree->back + 2 * hydra_vm_away(tree)))
		tree->in_a_row++;
	else
		tree->in_a_row = 0;
	tree->given_up = jiffies;
	/* Tables of trees that go give for each other once: these have been given for already. */
	if (!hydra_vm_going(vm))
		atomic64_set(&vm->forced, 0);
	/* The refuge before the bit: pairs with smp_load_acquire() in hydra_vm_domain(). */
	smp_store_release(&vm->given_up, vm->given_up | BIT(victim));
}

/**
 * hydra_vm_give_up - a tree finds no memory: give up that one, or another
 * @kvm: the VM
 * @d: the domain of the tree, which a vCPU of the current task has loaded
 *
 * Context: process context, a vCPU's task.
 * Return: false if it is the last tree, which has to go on.
 */
bool hydra_vm_give_up(struct kvm *kvm, unsigned int d)
{
	unsigned int vcpus[HYDRA_VM_MAX_DOMAINS + 1] = {}, most = 0, least = 0, victim = d;
	struct hydra_vm *vm = kvm->arch.hydra;
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm)
		vcpus[hydra_vm_tree_of(vcpu)]++;
	scoped_guard(spinlock, &vm->giving) {
		/* Another vCPU was faster, or settings have changed: this one leaves the tree. */
		if (!hydra_vm_uses(vm, d))
			return true;
		for (unsigned int t = 1; t <= HYDRA_VM_MAX_DOMAINS; t++) {
			if (t == d || !vcpus[t] || !hydra_vm_uses(vm, t))
				continue;
			if (!most || vcpus[t] > vcpus[most])
				most = t;
			if (!least || vcpus[t] <= vcpus[least])
				least = t;
		}
		if (!most)
			return false;
		if (!vm->given_up)
			WRITE_ONCE(vm->refuge, most);
		else if (vm->refuge == d)
			victim = least;
		hydra_vm_mark_given_up(vm, victim);
	}
	atomic64_inc(&kvm->stat.hydra_fallbacks[victim]);
	hydra_vm_want_event(vm);
	trace_hydra_vm_give_up(kvm, victim - 1, atomic64_read(&kvm->stat.hydra_tables[victim]));
	pr_warn_ratelimited("a VM of process %d gives up the tree of node %d: no memory for a table, or the limit is reached\n",
			    task_tgid_nr(current), hydra_vm_home(victim - 1));
	hydra_vm_tidy_soon(vm);
	return true;
}

static void hydra_vm_note_return(struct kvm *kvm, unsigned int d)
{
	atomic64_inc(&kvm->stat.hydra_returns);
	hydra_vm_want_event(kvm->arch.hydra);
	trace_hydra_vm_return(kvm, d - 1, atomic64_read(&kvm->stat.hydra_tables[d]));
}

/**
 * hydra_vm_bring_back - a tree that was given up comes back, if it is time
 * @kvm: the VM
 * @wait: shortened to the time until to look again, in jiffies
 *
 * One after the other: each needs its memory before there is room for the next.
 *
 * Context: process context, slots_lock.
 */
void hydra_vm_bring_back(struct kvm *kvm, unsigned long *wait)
{
	unsigned long limit = hydra_vm_limit(kvm), now = jiffies;
	struct hydra_vm *vm = kvm->arch.hydra;
	unsigned int d, found = 0;
	u32 refuge;

	lockdep_assert_held(&kvm->slots_lock);
	if (!READ_ONCE(vm->given_up))
		return;
	*wait = min(*wait, hydra_vm_idle_wait());
	scoped_guard(spinlock, &vm->giving) {
		refuge = BIT(vm->refuge);
		if (limit != ULONG_MAX && atomic64_read(&kvm->arch.tdp_mmu_pages) +
		    atomic64_read(&kvm->stat.hydra_tables[vm->refuge]) > limit)
			return;
		for (d = 1; !found && d <= HYDRA_VM_MAX_DOMAINS; d++) {
			const struct hydra_vm_tree *tree = &vm->trees[d];
			unsigned long away = hydra_vm_away(tree);

			if ((vm->given_up & BIT(d)) && away &&
			    time_after_eq(now, tree->given_up + away))
				found = d;
		}
		if (!found)
			return;
		vm->trees[found].back = now ?: 1;
		WRITE_ONCE(vm->given_up, vm->given_up & ~BIT(found));
	}
	hydra_vm_note_return(kvm, found);
	hydra_vm_ask(kvm, refuge, KVM_REQ_HYDRA);
}

/**
 * hydra_vm_bring_all_back - settings are written: no tree is given up any more
 * @kvm: the VM, which has trees
 * @per_node: vCPUs are to load them
 *
 * A vCPU that finds no memory meanwhile gives up a tree before all come back, or finds that its own
 * is none that vCPUs load. Otherwise a VM with one tree would have given up one, and user
 * space would be told that it has come back.
 *
 * Context: process context, slots_lock. The caller asks the vCPUs to change trees.
 */
void hydra_vm_bring_all_back(struct kvm *kvm, bool per_node)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	lockdep_assert_held(&kvm->slots_lock);
	scoped_guard(spinlock, &vm->giving) {
		for (unsigned int d = 1; d <= HYDRA_VM_MAX_DOMAINS; d++) {
			vm->trees[d].back = 0;
			if (vm->given_up & BIT(d))
				hydra_vm_note_return(kvm, d);
		}
		WRITE_ONCE(vm->given_up, 0);
		WRITE_ONCE(vm->per_node, per_node);
	}
}

/**
 * hydra_vm_tell - tell user space if trees were given up, or came back
 * @vm: the VM
 *
 * The statistics do not say whether: user space may clear them (debugfs).
 *
 * Context: hydra_vm_tidy_work(), no locks.
 */
void hydra_vm_tell(struct hydra_vm *vm)
{
	const struct kvm_vm_stat *stat = &vm->kvm->stat;
	char text[4][40], *env[] = { "EVENT=hydra", text[0], text[1], text[2], text[3], NULL };

	if (!xchg(&vm->untold, false))
		return;
	snprintf(text[0], sizeof(text[0]), "PID=%d", vm->kvm->userspace_pid);
	snprintf(text[1], sizeof(text[1]), "FALLBACK=%u", hweight32(READ_ONCE(vm->given_up)));
	snprintf(text[2], sizeof(text[2]), "FALLBACKS=%lld", hydra_vm_sum(stat->hydra_fallbacks));
	snprintf(text[3], sizeof(text[3]), "RETURNS=%lld", atomic64_read(&stat->hydra_returns));
	hydra_vm_uevent(env);
}
