// SPDX-License-Identifier: GPL-2.0-only
/*
 * A tree of nested page tables for each NUMA node.
 *
 * KVM translates guest addresses by one tree of nested tables (NPT or EPT) for all vCPUs.
 * With domains=node a VM has a tree for each node on which its vCPUs run: a domain tree. A
 * vCPU loads the tree of its CPU's node, and the tables of the tree lie on that node. Each
 * tree is filled by the faults of its own vCPUs. The truth is the page table of the host
 * process, and each tree is a cache of it, as KVM's single tree is.
 *
 * The role of a table names the domain, plus one; 0 is the shared tree of stock KVM. KVM
 * already has several roots for one VM (system management mode, nested guests), and
 * compares whole roles: it finds the root of the right domain, or makes one, and children
 * inherit the role. So do KVM's loops over all roots, which unmap, protect, age and log:
 * they reach domain trees without knowing of them.
 *
 * A vCPU changes trees in __hydra_vm_move() alone:
 *
 * - in vcpu_enter_guest(), at KVM_REQ_HYDRA, where KVM frees obsolete roots, too. The
 *   request comes from kvm_arch_vcpu_load(), which cannot do it itself (T6).
 * - in __hydra_vm_reload(), for KVM_PRE_FAULT_MEMORY, which faults without entering the
 *   guest: before each fault.
 * - in kvm_mmu_load(), before the root is looked for.
 *
 * A vCPU that is preempted between the choice and the guest, and continues on another
 * node, gets the request from kvm_arch_vcpu_load(); kvm_vcpu_exit_request() finds the
 * request before the guest is entered. Until then the vCPU may use the tree of another
 * node: that is slow, not wrong.
 *
 * T9: a tree is only ever loaded by kvm_mmu_load(), which flushes what this CPU has cached
 * of it. A CPU may still have translations of a tree from the time before (VMX tags them
 * by root), and flushes since then have not reached the CPU. __hydra_vm_move() frees the
 * cached previous roots of the vCPU, too, because kvm_mmu_new_pgd() would load them
 * without a flush.
 *
 * Dropping trees. hydra_vm_tidy() drops the trees that no vCPU is to load any more: the
 * domain trees after the VM went back to the shared tree, or the shared tree. Trees that no
 * vCPU has used for some time are dropped in another way (idle.c). (T12) Roots
 * become invalid, and all vCPUs are asked to free their roots, in one critical section of
 * mmu_lock. kvm_make_all_cpus_request() waits for the vCPUs to leave the guest, so no vCPU
 * uses a table when kvm_tdp_mmu_zap_invalidated_roots() frees the tables. Nothing else may
 * drop the last reference of a valid root: kvm_tdp_mmu_put_root() calls that a bug.
 *
 *     CPU 0: hydra_vm_tidy()              CPU 1: kvm_mmu_load()
 *     ----------------------              ---------------------
 *                                         __hydra_vm_move(): domain 1
 *     per_node = false
 *     finds no root of domain 1
 *     requests KVM_REQ_HYDRA
 *                                         makes a root of domain 1
 *                                         finds the request: __hydra_vm_move():
 *                                           the shared tree; queues hydra_vm_tidy()
 *
 * T14: lack of memory for a table of a domain tree is not the guest's error. The VM goes
 * back to the shared tree, with all vCPUs, until settings are written again. The fault that
 * found no memory is finished on the domain tree, because it needs its root (T6), with at
 * most PT64_ROOT_MAX_LEVEL tables. These are charged to the memory cgroup beyond its limit,
 * if need be: the limit kills no process for them, and the next ordinary charge pays. The
 * OOM killer of the whole machine may still kill. Nothing waits for hydra_vm_tidy() to free
 * the other trees: until then the shared tree needs its memory on top, and a process may be
 * killed for that, as for any table of stock KVM. Settings that end a fallback drop its trees
 * first, so fallbacks do not add up.
 *
 * Locking: settings change, and trees are dropped, under slots_lock. Faults hold neither
 * slots_lock nor could they take it: they are in a section of kvm->srcu, for whose end the
 * holder of slots_lock may wait. They only clear per_node, and queue the work. The work does
 * not wait for slots_lock, but comes again: its holder may wait for a VMM that never answers,
 * and the workers are the whole kernel's.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "mmu.h"
#include "mmu/mmu_internal.h"
#include "mmu/spte.h"
#include "mmu/tdp_mmu.h"

#include "hydra.h"
#include "internal.h"

/* Fails, and kills no process: the VM falls back (T14). */
#define HYDRA_VM_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Off a second after the last such VM: to switch the key stops all CPUs. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(hydra_vm_key, HZ);
/* VMs start to count in the key one at a time. */
static DEFINE_MUTEX(hydra_vm_key_mutex);

static bool hydra_inherit __read_mostly = true;
module_param_named(hydra, hydra_inherit, bool, 0644);
MODULE_PARM_DESC(hydra, "A VM takes over Hydra's settings of the process that makes it");

/* Is a tree one that vCPUs load? */
static bool hydra_vm_uses(const struct hydra_vm *vm, unsigned int d)
{
	if (!READ_ONCE(vm->per_node))
		return !d;
	/* Nodes beyond the last domain share the shared tree. */
	return d || hydra_vm_nr_domains() > HYDRA_VM_MAX_DOMAINS;
}

/*
 * Drop the trees that no vCPU is to load any more. See the head of this file.
 * @ask: vCPUs are to change trees
 * Context: process context, slots_lock.
 */
static void hydra_vm_tidy(struct kvm *kvm, bool ask)
{
	struct kvm_mmu_page *root;
	bool found = false;

	lockdep_assert_held(&kvm->slots_lock);
	write_lock(&kvm->mmu_lock);
	list_for_each_entry(root, &kvm->arch.tdp_mmu_roots, link) {
		if (root->role.invalid || hydra_vm_uses(kvm->arch.hydra, root->role.domain))
			continue;
		hydra_vm_invalidate(root);
		found = true;
	}
	/* In the critical section that has made the roots invalid (T12) */
	if (found)
		kvm_make_all_cpus_request(kvm, KVM_REQ_MMU_FREE_OBSOLETE_ROOTS);
	if (ask)
		kvm_make_all_cpus_request(kvm, KVM_REQ_HYDRA);
	write_unlock(&kvm->mmu_lock);
	if (found)
		kvm_tdp_mmu_zap_invalidated_roots(kvm);
}

/* Let hydra_vm_tidy() come at once, or as soon as it can have slots_lock. */
static void hydra_vm_tidy_soon(struct hydra_vm *vm)
{
	mod_delayed_work(system_unbound_wq, &vm->tidy, 0);
}

static void hydra_vm_tidy_work(struct work_struct *work)
{
	struct hydra_vm *vm = container_of(to_delayed_work(work), struct hydra_vm, tidy);
	long fallbacks, tidied_for = -1;
	unsigned long wait;
	bool more;

	do {
		wait = ULONG_MAX;
		if (!mutex_trylock(&vm->kvm->slots_lock)) {
			/* Also if a vCPU has asked meanwhile to come much later. */
			mod_delayed_work(system_unbound_wq, &vm->tidy, HZ / 10);
			return;
		}
		/* After a fallback vCPUs are to leave their trees. hydra_vm_set() asks itself. */
		fallbacks = atomic_long_read(&vm->fallbacks);
		if (fallbacks != tidied_for)
			hydra_vm_tidy(vm->kvm, !READ_ONCE(vm->per_node));
		tidied_for = fallbacks;
		more = hydra_vm_drop_idle(vm->kvm, &wait);
		mutex_unlock(&vm->kvm->slots_lock);
		cond_resched();
	} while (more);
	/* The next tree may be idle then. */
	if (wait != ULONG_MAX)
		queue_delayed_work(system_unbound_wq, &vm->tidy,
				   min(wait, HYDRA_VM_LONGEST_WAIT));
}

/**
 * hydra_vm_allowed_domain - the domain in the place of one whose home a task may not use
 * @d: the domain, counted from 0
 *
 * Context: any. Return: the domain whose home is the nearest of those that the current task may
 * take memory from; @d if there is none.
 */
unsigned int hydra_vm_allowed_domain(unsigned int d)
{
	unsigned int i, nearest = d;
	int distance, least = INT_MAX;

	for (i = 0; i < hydra_vm_nr_domains(); i++) {
		if (!node_isset(hydra_vm_home(i), cpuset_current_mems_allowed))
			continue;
		distance = node_distance(hydra_vm_home(d), hydra_vm_home(i));
		if (distance < least) {
			least = distance;
			nearest = i;
		}
	}
	return nearest;
}

/**
 * __hydra_vm_move - a vCPU takes the tree of its CPU's domain
 * @vcpu: the vCPU, loaded; not in a fault, which needs its root (T6)
 *
 * Context: process context; may sleep.
 */
void __hydra_vm_move(struct kvm_vcpu *vcpu)
{
	struct kvm_mmu *mmu = &vcpu->arch.root_mmu;
	struct hydra_vm *vm = vcpu->kvm->arch.hydra;
	union kvm_mmu_page_role role = mmu->root_role;
	unsigned int old = role.domain;
	bool loaded = VALID_PAGE(mmu->root.hpa);

	/* The vCPU may go to another CPU meanwhile: it gets a request there. */
	if (hydra_vm_domain(vcpu->kvm, raw_smp_processor_id()) == old)
		return;
	/* All, also the previous ones: they are loaded without a flush (T9). */
	kvm_mmu_free_roots(vcpu->kvm, mmu, KVM_MMU_ROOTS_ALL);
	/*
	 * Not preempted, so that hydra_vm_load_vcpu() on another CPU compares with this
	 * choice. After the roots were freed: hydra_vm_check_roots() relies on it.
	 */
	preempt_disable();
	/* Before the domain: a tree that has just lost its last vCPU is not idle yet. */
	WRITE_ONCE(vm->trees[old].left, jiffies);
	WRITE_ONCE(vm->trees[old].pressed, false);
	role.domain = hydra_vm_domain(vcpu->kvm, smp_processor_id());
	WRITE_ONCE(mmu->root_role.word, role.word);
	preempt_enable();
	/* The domain before the entries of its tree: pairs with smp_mb() in hydra_vm_flush(). */
	smp_mb();
	/* These tables are on the home of the old domain (T7). */
	kvm_mmu_free_memory_cache(&vcpu->arch.mmu_shadow_page_cache);
	atomic_long_inc(&vm->moves);
	/*
	 * This vCPU may have made the root after hydra_vm_tidy() had looked, and may have
	 * freed it since. A new vCPU has not made the shared tree.
	 */
	if (!old && !loaded)
		return;
	if (!hydra_vm_uses(vm, old))
		hydra_vm_tidy_soon(vm);
	else
		queue_delayed_work(system_unbound_wq, &vm->tidy, hydra_vm_idle_wait());
}

/**
 * __hydra_vm_reload - a root that vCPUs may use, before a fault outside of the guest loop
 * @vcpu: the vCPU, loaded; between two faults, so that no fault loses its root (T6)
 *
 * KVM repeats a fault on a tree that was dropped, and expects vcpu_enter_guest() to free
 * the root. kvm_tdp_map_page() repeats faults without entering the guest: without this
 * function it would never end once hydra_vm_tidy() has made the vCPU's root invalid. The
 * vCPU changes trees here, too, if it was asked to: with a fallback it leaves the domain
 * tree before the next fault.
 *
 * Context: process context; a section of kvm->srcu; may sleep.
 * Return: 0 or a negative errno of kvm_mmu_load().
 */
int __hydra_vm_reload(struct kvm_vcpu *vcpu)
{
	if (kvm_check_request(KVM_REQ_MMU_FREE_OBSOLETE_ROOTS, vcpu))
		kvm_mmu_free_obsolete_roots(vcpu);
	hydra_vm_check_request(vcpu);
	return kvm_mmu_reload(vcpu);
}

/* From now on all vCPUs use the shared tree (T14). Context: process context, a vCPU's task. */
static void hydra_vm_fall_back(struct hydra_vm *vm)
{
	if (!xchg(&vm->per_node, false))
		return;
	atomic_long_inc(&vm->fallbacks);
	pr_warn_ratelimited("a VM of process %d goes back to one tree: no memory for a table, or vm_table_limit_kib is reached\n",
			    task_tgid_nr(current));
	hydra_vm_tidy_soon(vm);
}

/* The tests let the allocations of this function fail. */
static noinline void *hydra_vm_table_alloc(int home)
{
	struct page *page = alloc_pages_node(home, HYDRA_VM_GFP, 0);

	return page ? page_address(page) : NULL;
}

/*
 * A table for a domain tree: on the domain's home, whatever the mempolicy of the VMM says;
 * the policy places data, not tables. cpuset.mems and a lack of memory may lead to another
 * node (T8).
 * Context: may sleep. Return: the table; NULL if the VM had better fall back.
 */
static void *hydra_vm_table(struct kvm *kvm, unsigned int d)
{
	int home = hydra_vm_home(d - 1);
	void *table;

	if (atomic64_read(&kvm->arch.tdp_mmu_pages) >= READ_ONCE(hydra_vm_table_limit))
		return NULL;
	table = hydra_vm_table_alloc(home);
	if (table && page_to_nid(virt_to_page(table)) != home)
		atomic_long_inc(&kvm->arch.hydra->misplaced);
	return table;
}

/**
 * __hydra_vm_topup - get the tables that a fault, or a new root, may need
 * @vcpu: the vCPU, with a domain tree
 *
 * In the place of kvm_mmu_topup_memory_cache(), which finds the cache full afterwards. No
 * more tables than one fault needs: __hydra_vm_move() throws them away.
 *
 * Context: process context; may sleep.
 * Return: 0; -ENOMEM if the machine has no memory.
 */
int __hydra_vm_topup(struct kvm_vcpu *vcpu)
{
	struct kvm_mmu_memory_cache *mc = &vcpu->arch.mmu_shadow_page_cache;
	unsigned int d = hydra_vm_loaded_domain(vcpu);
	struct hydra_vm *vm = vcpu->kvm->arch.hydra;
	void *table;

	if (mc->nobjs >= PT64_ROOT_MAX_LEVEL)
		return 0;
	if (!mc->objects) {
		mc->objects = kvmalloc_array(KVM_ARCH_NR_OBJS_PER_MEMORY_CACHE,
					     sizeof(void *), GFP_KERNEL_ACCOUNT);
		if (!mc->objects)
			return -ENOMEM;
		mc->capacity = KVM_ARCH_NR_OBJS_PER_MEMORY_CACHE;
	}
	while (mc->nobjs < PT64_ROOT_MAX_LEVEL) {
		table = hydra_vm_table(vcpu->kvm, d);
		if (!table) {
			hydra_vm_fall_back(vm);
			/* Before the guest is entered again: the last tables of this kind */
			kvm_make_request(KVM_REQ_HYDRA, vcpu);
			/*
			 * __GFP_HIGH: the memory cgroup is charged beyond its limit rather
			 * than a process killed (T14).
			 */
			table = (void *)__get_free_page(HYDRA_VM_GFP | __GFP_HIGH);
			if (!table)
				table = (void *)__get_free_page(GFP_KERNEL_ACCOUNT);
			if (!table)
				return -ENOMEM;
			if (page_to_nid(virt_to_page(table)) != hydra_vm_home(d - 1))
				atomic_long_inc(&vm->misplaced);
		}
		/* An empty entry need not be 0 (T5). */
		memset64(table, SHADOW_NONPRESENT_VALUE, PAGE_SIZE / sizeof(u64));
		mc->objects[mc->nobjs++] = table;
	}
	return 0;
}

/**
 * __hydra_vm_splits - may huge pages of a tree be split without a fault?
 * @kvm: the VM
 * @d: the domain of the tree
 *
 * KVM splits huge pages when it begins to log dirty pages, so that the guest's first write does
 * not have to. That would give all trees tables for all of the guest's memory, at the moment
 * when a migration begins. One tree is split, as on stock KVM: that of the first vCPU. In the
 * other trees the first write to a huge page splits it, and takes one of the exits that the log
 * needs in any case.
 *
 * With PML the processor logs writes to small pages, and stock KVM needs no exit for them. But a
 * huge page that is still there when the log begins loses its write permission, and so do the small
 * entries that a fault makes of it: each would take an exit. So all trees that vCPUs use are split.
 *
 * Context: any. Return: true if they may.
 */
bool __hydra_vm_splits(struct kvm *kvm, unsigned int d)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		if (d == hydra_vm_tree_of(vcpu))
			return true;
		if (!kvm_cpu_dirty_log_size())
			break;
	}
	return false;
}

/**
 * __hydra_vm_split_table - a table for a huge page that is split without a fault
 * @kvm: the VM
 * @d: the domain of the tree
 *
 * All entries are written before the table is linked, so the content does not matter.
 * Without memory the huge page is not split, as in stock KVM: nothing needs to fall back. Half
 * of the VM's limit is left to faults, which would fall back.
 *
 * Context: may sleep. Return: the table or NULL.
 */
void *__hydra_vm_split_table(struct kvm *kvm, unsigned int d)
{
	if (atomic64_read(&kvm->arch.tdp_mmu_pages) >= READ_ONCE(hydra_vm_table_limit) / 2)
		return NULL;
	return hydra_vm_table(kvm, d);
}

/*
 * A VM is to have a setting of its own: it counts in the key from now on.
 * Return: 0; -ENOMEM; -EINTR if the task is being killed.
 */
static int hydra_vm_begin(struct hydra_vm *vm)
{
	struct hydra_vm_tree *trees;

	/* Before the mutex, which is that of all VMs: to reclaim memory may take long. */
	trees = kcalloc(HYDRA_VM_MAX_DOMAINS + 1, sizeof(*trees), GFP_KERNEL_ACCOUNT);
	if (!trees)
		return -ENOMEM;
	if (mutex_lock_killable(&hydra_vm_key_mutex)) {
		kfree(trees);
		return -EINTR;
	}
	if (!vm->keyed) {
		swap(vm->trees, trees);
		static_branch_deferred_inc(&hydra_vm_key);
		/* Pairs with smp_load_acquire() where @keyed is read: @trees are there. */
		smp_store_release(&vm->keyed, true);
	}
	mutex_unlock(&hydra_vm_key_mutex);
	kfree(trees);
	return 0;
}

/**
 * hydra_vm_set - change the settings of a VM
 * @kvm: the VM; vCPUs may run
 * @s: the settings, which the VM can have
 *
 * Ends a fallback, too. When this returns 0, the tables of trees no longer used are freed.
 *
 * Context: process context, no locks.
 * Return: 0; -ENOMEM; -EINTR if the task is being killed.
 */
int hydra_vm_set(struct kvm *kvm, const struct hydra_vm_settings *s)
{
	struct hydra_vm *vm = kvm->arch.hydra;
	bool own = s->per_node || s->follow;
	int ret;

	/* Before per_node: vCPUs that are asked to move have to find the branch enabled. */
	if (own && !smp_load_acquire(&vm->keyed)) {
		ret = hydra_vm_begin(vm);
		if (ret)
			return ret;
	}
	/*
	 * The holder of slots_lock may wait for vCPUs, and these for a VMM that answers no
	 * userfaultfd: for ever, if it does not want to.
	 */
	if (mutex_lock_killable(&kvm->slots_lock))
		return -EINTR;
	if (own && !vm->counts)
		hydra_vm_count_changes(kvm);
	WRITE_ONCE(vm->settings, s->packed);
	WRITE_ONCE(vm->follow, s->follow);
	WRITE_ONCE(vm->expose, s->expose);
	/* The trees of a fallback may have tables beyond all limits (T14). */
	if (s->per_node && !READ_ONCE(vm->per_node))
		hydra_vm_tidy(kvm, true);
	WRITE_ONCE(vm->per_node, s->per_node);
	if (READ_ONCE(vm->keyed))
		hydra_vm_tidy(kvm, true);
	if (s->follow) {
		WRITE_ONCE(vm->followed, -1);
		mod_delayed_work(system_unbound_wq, &vm->following, 0);
	}
	mutex_unlock(&kvm->slots_lock);
	/* For idle trees. A VM that is being made has none, and hydra_vm_stop() may not follow. */
	if (s->per_node && atomic_read(&kvm->online_vcpus))
		hydra_vm_tidy_soon(vm);
	return 0;
}

/* Why a VM cannot have a tree per node, or NULL; without a VM: why none can */
static const char *hydra_vm_refused(const struct kvm *kvm)
{
	if (!tdp_mmu_enabled)
		return "KVM does not use its TDP MMU (npt=0, ept=0 or tdp_mmu=0)";
	if (hydra_has_groups())
		return "groups of CPUs take the place of nodes (hydra_groups=)";
	if (kvm && kvm->arch.vm_type != KVM_X86_DEFAULT_VM)
		return "the VM is of a protected type";
#if IS_ENABLED(CONFIG_HYPERV)
	/* The member exists only then. */
	if (kvm_x86_ops.flush_remote_tlbs)
		return "the host is a guest of Hyper-V";
#endif
	return NULL;
}

/**
 * hydra_vm_check_cap - KVM_CHECK_EXTENSION with KVM_CAP_HYDRA
 * @kvm: the VM, or NULL
 *
 * Return: the flags for args[2] that this kernel knows, if the VM, or one of the default type,
 * can have a tree per node; else 0.
 */
int hydra_vm_check_cap(const struct kvm *kvm)
{
	if (kvm ? kvm->arch.hydra->refused : hydra_vm_refused(NULL))
		return 0;
	return KVM_HYDRA_FOLLOW | KVM_HYDRA_EXPOSE;
}

/**
 * hydra_vm_enable_cap - KVM_ENABLE_CAP with KVM_CAP_HYDRA
 * @kvm: the VM; vCPUs may run
 * @cap: what the VMM asks for; its flags are 0
 *
 * Context: process context, no locks.
 * Return: 0; or, with nothing changed, -EINVAL, -E2BIG, -EFAULT, -EOPNOTSUPP, -EPERM, -ENOMEM
 * or -EINTR.
 */
int hydra_vm_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	struct hydra_vm_settings s;
	int ret;

	if (cap->args[3])
		return -EINVAL;
	ret = hydra_vm_settings_read(u64_to_user_ptr(cap->args[0]), cap->args[1],
				     cap->args[2], &s);
	if (ret)
		return ret;
	if ((s.per_node || s.follow || s.expose) && kvm->arch.hydra->refused) {
		pr_info_ratelimited("settings refused for a VM: %s\n", kvm->arch.hydra->refused);
		return -EOPNOTSUPP;
	}
	return hydra_vm_set(kvm, &s);
}

/**
 * hydra_vm_init - a VM is being made
 * @kvm: the VM, without a vCPU
 *
 * The VM takes over the settings of the process, if it can have them.
 *
 * Context: process context. Return: 0, -ENOMEM or -EINTR.
 */
int hydra_vm_init(struct kvm *kvm)
{
	struct hydra_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL_ACCOUNT);
	struct hydra_vm_settings s = {};

	if (!vm)
		return -ENOMEM;
	/* As a process begins: a text that names one key leaves the others there. */
	hydra_vm_settings_parse("linux", &s);
	vm->settings = s.packed;
	vm->kvm = kvm;
	vm->refused = hydra_vm_refused(kvm);
	INIT_DELAYED_WORK(&vm->tidy, hydra_vm_tidy_work);
	INIT_DELAYED_WORK(&vm->following, hydra_vm_follow_work);
	vm->followed = -1;
	kvm->arch.hydra = vm;
	if (!READ_ONCE(hydra_inherit))
		return 0;
	if (hydra_vm_settings_inherit(&s) || (s.per_node && vm->refused))
		pr_info_ratelimited("a VM of %s[%d] is stock: %s\n", current->comm,
				    task_pid_nr(current),
				    vm->refused ?: "its settings are for processes only");
	else if (s.per_node)
		return hydra_vm_set(kvm, &s);
	return 0;
}

/**
 * hydra_vm_stop - a VM is about to be destroyed
 * @kvm: the VM; no vCPU runs any more
 *
 * Context: process context, no locks.
 */
void hydra_vm_stop(struct kvm *kvm)
{
	cancel_delayed_work_sync(&kvm->arch.hydra->tidy);
	/* A pass may have much to do. */
	WRITE_ONCE(kvm->arch.hydra->follow, false);
	cancel_delayed_work_sync(&kvm->arch.hydra->following);
}

/**
 * hydra_vm_free - a VM is freed
 * @kvm: the VM; perhaps hydra_vm_init() was not called, or has failed
 *
 * Context: process context.
 */
void hydra_vm_free(struct kvm *kvm)
{
	struct hydra_vm *vm = kvm->arch.hydra;

	if (vm && vm->keyed)
		static_branch_slow_dec_deferred(&hydra_vm_key);
	if (vm)
		kfree(vm->trees);
	kfree(vm);
}
