/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra in KVM: a tree of nested page tables per NUMA node. See trees.c.
 */
#ifndef _ARCH_X86_KVM_HYDRA_HYDRA_H
#define _ARCH_X86_KVM_HYDRA_HYDRA_H

#include <linux/gfp.h>
#include <linux/kvm_host.h>
#include <uapi/linux/hydra.h>
#include <uapi/linux/hydra_para.h>

struct kvm_mmu_page;
struct kvm_page_fault;
struct tdp_iter;

#ifdef CONFIG_KVM_HYDRA

#include <linux/cpuset.h>
#include <linux/hydra_types.h>
#include <linux/hydra_vm.h>
#include <linux/jump_label_ratelimit.h>
#include <linux/nodemask.h>
#include <linux/workqueue.h>

/* The role of a table has 5 bits for the domain. Number 0 is the shared tree. */
#define HYDRA_VM_MAX_DOMAINS	31U
static_assert(ARRAY_SIZE(((struct kvm_vm_stat *)0)->hydra_tables) == HYDRA_VM_MAX_DOMAINS + 1);

/**
 * struct hydra_vm_tree - changes of a tree's entries, see flush.c; and when it was used
 * @changed: how many have taken something from an entry
 * @flushed: up to which of these all vCPUs of the tree have been flushed
 * @left: when a vCPU has left the tree, in jiffies; see idle.c
 * @pressed: the tree is to be dropped before its time: its node was short of memory
 * @given_up: when it was given up last, in jiffies; see giving.c. So for the next two.
 * @back: when it came back last, in jiffies; 0: never
 * @in_a_row: how often it was given up soon after it had come back
 */
struct hydra_vm_tree {
	atomic64_t changed;
	atomic64_t flushed;
	unsigned long left;
	bool pressed;
	unsigned long given_up;
	unsigned long back;
	unsigned int in_a_row;
} ____cacheline_aligned_in_smp;

/**
 * struct hydra_vm_place - where hydra_vm_drop_part() goes on to empty a tree
 * @role: of the root
 * @left: as of the tree, when this began: a vCPU that comes and leaves may fill all again
 * @level: of the entries that are taken away, with all below
 * @next: from this frame on
 */
struct hydra_vm_place {
	u32 role;
	unsigned long left;
	int level;
	gfn_t next;
};

/**
 * struct hydra_vm - Hydra's state of a VM
 * @kvm: the VM
 * @refused: why the VM cannot have a tree per node, or NULL; fixed when the VM is made
 * @settings: written under slots_lock
 * @per_node: vCPUs load the tree of their CPU's node; set under slots_lock and @giving
 * @follow: tables of the shared tree move to the node of their data; set under slots_lock, and
 *	cleared when the VM ends
 * @limit: the most nested tables that it may have; ULONG_MAX: no limit of its own
 * @placed: the time up to which the guest has spent what may be moved for it, see hypercall.c
 * @keyed: the VM counts in hydra_vm_key; set under hydra_vm_key_mutex, and never cleared
 * @counts: changes of entries are counted; set under slots_lock and mmu_lock, never cleared
 * @trees: one for each domain, and the shared tree; allocated before @keyed is set
 * @giving: guards @given_up, @refuge and what a tree knows of them
 * @given_up: trees that vCPUs do not load, for lack of memory: a bit for each; see giving.c
 * @refuge: the tree that they load instead
 * @forced: tables that were allocated beyond limits since a tree was given up
 * @timing: guards @tidy_at, and that @tidy is queued for that time
 * @tidy: drops the trees that no vCPU is to load any more, and idle trees
 * @tidy_at: the time for which it was queued last, in jiffies; it may have come since
 * @following: moves tables; see follow.c. The next five are its own.
 * @followed_at: when it has last looked whether to make a pass, in jiffies
 * @follow_now: a pass is to be made, whatever the next two say; set under slots_lock, too
 * @followed: the number of changes of the shared tree at the last pass
 * @followed_tables: the number of tables at the last pass
 * @passes: a pass is made after so many looks even if the number is the same
 * @logged: so many dirty pages are logged that idle trees stay; set under slots_lock, later than
 *	the log begins or ends
 * @place: guarded by slots_lock
 * @untold: a tree was given up, or came back, and user space has had no uevent since
 * @misplaced: tables that were allocated on another node than the home of their domain
 *
 * Allocated with the VM, and freed with it. What is counted for statistics alone is in struct
 * kvm_vm_stat, partly by domain, plus one; 0 is the shared tree.
 */
struct hydra_vm {
	struct kvm *kvm;
	const char *refused;
	union hydra_choice settings;
	bool per_node;
	bool follow;
	unsigned long limit;
	bool keyed;
	bool counts;
	atomic64_t placed;
	struct hydra_vm_tree *trees;
	spinlock_t giving;	/* see giving.c */
	u32 given_up;
	unsigned int refuge;
	atomic64_t forced;
	spinlock_t timing;	/* see hydra_vm_tidy_in() */
	struct delayed_work tidy;
	unsigned long tidy_at;
	struct delayed_work following;
	unsigned long followed_at;
	bool follow_now;
	s64 followed;
	s64 followed_tables;
	unsigned int passes;
	bool logged;
	struct hydra_vm_place place;
	bool untold;
	atomic_long_t misplaced;
};

/*
 * For kvm_vm_stats_desc[]: the first four by domain, plus one; 0 is the shared tree, for which
 * moves alone are counted.
 */
#define HYDRA_VM_STATS_DESC(stat, type)					\
	STATS_DESC(VM, stat, type, KVM_STATS_UNIT_NONE,			\
		   KVM_STATS_BASE_POW10, 0, HYDRA_VM_MAX_DOMAINS + 1, 0)
#define KVM_HYDRA_VM_STATS()						\
	HYDRA_VM_STATS_DESC(hydra_tables, KVM_STATS_TYPE_INSTANT),	\
	HYDRA_VM_STATS_DESC(hydra_copied, KVM_STATS_TYPE_CUMULATIVE),	\
	HYDRA_VM_STATS_DESC(hydra_moves, KVM_STATS_TYPE_CUMULATIVE),	\
	HYDRA_VM_STATS_DESC(hydra_fallbacks, KVM_STATS_TYPE_CUMULATIVE),	\
	STATS_DESC_COUNTER(VM, hydra_returns),				\
	STATS_DESC_COUNTER(VM, hydra_vcpus_flushed),			\
	STATS_DESC_COUNTER(VM, hydra_vcpus_spared),			\
	STATS_DESC_COUNTER(VM, hydra_dropped),				\
	STATS_DESC_COUNTER(VM, hydra_moved_tables)

/* Enabled while a VM exists that has, or had, a tree per node. */
extern struct static_key_false_deferred hydra_vm_key;

void __hydra_vm_move(struct kvm_vcpu *vcpu);
int __hydra_vm_reload(struct kvm_vcpu *vcpu);
int __hydra_vm_topup(struct kvm_vcpu *vcpu);
bool __hydra_vm_splits(struct kvm *kvm, unsigned int d);
void *__hydra_vm_split_table(struct kvm *kvm, unsigned int d);
unsigned int hydra_vm_allowed_domain(unsigned int d);

/* copy.c */
void __hydra_vm_fill_around(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault);

/* For copy.c: arch/x86/kvm/mmu/tdp_mmu.c */
int hydra_vm_set_absent(struct kvm *kvm, struct tdp_iter *iter, u64 new_spte);
int hydra_vm_link_absent(struct kvm *kvm, struct tdp_iter *iter, struct kvm_mmu_page *sp);

/* For idle.c: arch/x86/kvm/mmu/tdp_mmu.c */
void hydra_vm_zap(struct kvm *kvm, struct tdp_iter *iter);

/* flush.c; hydra_vm_flush() is declared in asm/kvm_host.h. */
void __hydra_vm_changed(struct kvm *kvm, u64 __rcu *sptep, u64 old, u64 new);
void hydra_vm_count_changes(struct kvm *kvm);
void __hydra_vm_settle(struct kvm *kvm);

/* hypercall.c */
unsigned long hydra_vm_hypercall(struct kvm_vcpu *vcpu, unsigned long what, unsigned long a1,
				 unsigned long a2, unsigned long a3);

int hydra_vm_init(struct kvm *kvm);
int hydra_vm_check_cap(const struct kvm *kvm);
int hydra_vm_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap);
u32 hydra_vm_features(void);
void hydra_vm_stop(struct kvm *kvm);
void hydra_vm_free(struct kvm *kvm);
void hydra_vm_load(void);
void hydra_vm_unload(void);

/* report.c */
int hydra_vm_attr(struct kvm *kvm, bool get, const struct kvm_device_attr __user *from);

/* check.c */
void hydra_vm_end(struct kvm *kvm);

/*
 * The domain whose tree the current task has to load on a CPU; 0: the shared tree. A tree for a
 * node on which the task may have no memory would have its tables elsewhere. In the place of a
 * tree that was given up, vCPUs load the refuge.
 * Context: any.
 */
static inline unsigned int hydra_vm_domain(const struct kvm *kvm, int cpu)
{
	const struct hydra_vm *vm = kvm->arch.hydra;
	unsigned int d;

	if (!READ_ONCE(vm->per_node))
		return 0;
	d = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu);
	if (!node_isset(hydra_vm_home(d), cpuset_current_mems_allowed))
		d = hydra_vm_allowed_domain(d);
	if (d >= HYDRA_VM_MAX_DOMAINS)
		return 0;
	/* Pairs with smp_store_release() in hydra_vm_give_up(): the refuge is chosen before. */
	return unlikely(smp_load_acquire(&vm->given_up) & BIT(d + 1)) ?
		READ_ONCE(vm->refuge) : d + 1;
}

/*
 * The domain of the tree that a vCPU loads, or has loaded. It stands in the role of the
 * root, and nowhere else. While a nested guest runs on shadow tables, it says which of the
 * trees the vCPU goes on with afterwards.
 */
static inline unsigned int hydra_vm_loaded_domain(const struct kvm_vcpu *vcpu)
{
	return static_branch_unlikely(&hydra_vm_key.key) ?
		vcpu->arch.root_mmu.root_role.domain : 0;
}

/*
 * The same for another vCPU, which may run and change trees meanwhile: see flush.c.
 */
static inline unsigned int hydra_vm_tree_of(const struct kvm_vcpu *vcpu)
{
	const union kvm_mmu_page_role role = {
		.word = READ_ONCE(vcpu->arch.root_mmu.root_role.word),
	};

	return role.domain;
}

/*
 * A vCPU comes to a CPU. Change of the tree is only asked for: this may be the preempt
 * notifier, which can neither allocate nor take mmu_lock, and a fault being handled needs
 * its root.
 */
static inline void hydra_vm_load_vcpu(struct kvm_vcpu *vcpu, int cpu)
{
	if (static_branch_unlikely(&hydra_vm_key.key) &&
	    hydra_vm_domain(vcpu->kvm, cpu) != hydra_vm_loaded_domain(vcpu))
		kvm_make_request(KVM_REQ_HYDRA, vcpu);
}

/* Take the tree of the CPU's domain; see __hydra_vm_move(). */
static inline void hydra_vm_move(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&hydra_vm_key.key))
		__hydra_vm_move(vcpu);
}

/* The same, if the vCPU was asked to. */
static inline void hydra_vm_check_request(struct kvm_vcpu *vcpu)
{
	if (static_branch_unlikely(&hydra_vm_key.key) &&
	    kvm_check_request(KVM_REQ_HYDRA, vcpu))
		__hydra_vm_move(vcpu);
}

/* Between two faults outside of the guest loop; see __hydra_vm_reload(). */
static inline int hydra_vm_reload(struct kvm_vcpu *vcpu)
{
	return static_branch_unlikely(&hydra_vm_key.key) ? __hydra_vm_reload(vcpu) : 0;
}

/* Get the tables that a fault may need; see __hydra_vm_topup(). Return: 0 or -ENOMEM. */
static inline int hydra_vm_topup(struct kvm_vcpu *vcpu)
{
	return hydra_vm_loaded_domain(vcpu) ? __hydra_vm_topup(vcpu) : 0;
}

/* A table comes into a domain tree, or goes. Context: mmu_lock. */
static inline void hydra_vm_count_table(struct kvm *kvm, unsigned int d, int nr)
{
	if (d)
		atomic64_add(nr, &kvm->stat.hydra_tables[d]);
}

/* May huge pages of a tree be split without a fault? See __hydra_vm_splits(). */
static inline bool hydra_vm_splits(struct kvm *kvm, unsigned int d)
{
	return !static_branch_unlikely(&hydra_vm_key.key) || __hydra_vm_splits(kvm, d);
}

/* A table for a huge page that is split without a fault, or NULL. Context: may sleep. */
static inline void *hydra_vm_split_table(struct kvm *kvm, unsigned int d, gfp_t gfp)
{
	if (static_branch_unlikely(&hydra_vm_key.key) && d)
		return __hydra_vm_split_table(kvm, d);
	return (void *)get_zeroed_page(gfp);
}

/* A fault has set its entry: copy the neighbours; see arch/x86/kvm/hydra/copy.c. */
static inline void hydra_vm_fill_around(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault)
{
	if (hydra_vm_loaded_domain(vcpu))
		__hydra_vm_fill_around(vcpu, fault);
}

/* An entry was changed, and not flushed yet; see arch/x86/kvm/hydra/flush.c. */
static inline void hydra_vm_changed(struct kvm *kvm, u64 __rcu *sptep, u64 old, u64 new)
{
	if (static_branch_unlikely(&hydra_vm_key.key))
		__hydra_vm_changed(kvm, sptep, old, new);
}

/* Before a flush of what other CPUs may have changed; see arch/x86/kvm/hydra/flush.c. */
static inline void hydra_vm_settle(struct kvm *kvm)
{
	if (static_branch_unlikely(&hydra_vm_key.key))
		__hydra_vm_settle(kvm);
}

#else /* !CONFIG_KVM_HYDRA */

static inline unsigned int hydra_vm_loaded_domain(const struct kvm_vcpu *vcpu) { return 0; }
static inline void hydra_vm_count_table(struct kvm *kvm, unsigned int d, int nr) { }
static inline bool hydra_vm_splits(struct kvm *kvm, unsigned int d) { return true; }
static inline void hydra_vm_load_vcpu(struct kvm_vcpu *vcpu, int cpu) { }
static inline void hydra_vm_move(struct kvm_vcpu *vcpu) { }
static inline void hydra_vm_check_request(struct kvm_vcpu *vcpu) { }
static inline int hydra_vm_reload(struct kvm_vcpu *vcpu) { return 0; }
static inline int hydra_vm_topup(struct kvm_vcpu *vcpu) { return 0; }
static inline void hydra_vm_fill_around(struct kvm_vcpu *vcpu, struct kvm_page_fault *fault) { }
static inline void hydra_vm_changed(struct kvm *kvm, u64 __rcu *sptep, u64 old, u64 new) { }
static inline void hydra_vm_settle(struct kvm *kvm) { }
static inline int hydra_vm_init(struct kvm *kvm) { return 0; }
static inline int hydra_vm_check_cap(const struct kvm *kvm) { return 0; }
static inline int hydra_vm_enable_cap(struct kvm *kvm, const struct kvm_enable_cap *cap)
{
	return -EINVAL;
}

static inline int hydra_vm_attr(struct kvm *kvm, bool get,
				const struct kvm_device_attr __user *from)
{
	return -ENOTTY;
}

static inline u32 hydra_vm_features(void) { return 0; }
static inline unsigned long hydra_vm_hypercall(struct kvm_vcpu *vcpu, unsigned long what,
					       unsigned long a1, unsigned long a2,
					       unsigned long a3)
{
	return -KVM_ENOSYS;
}

static inline void hydra_vm_stop(struct kvm *kvm) { }
static inline void hydra_vm_free(struct kvm *kvm) { }
static inline void hydra_vm_end(struct kvm *kvm) { }
static inline void hydra_vm_load(void) { }
static inline void hydra_vm_unload(void) { }

#define hydra_vm_split_table(kvm, d, gfp) ((void *)get_zeroed_page(gfp))

#endif /* CONFIG_KVM_HYDRA */
#endif /* _ARCH_X86_KVM_HYDRA_HYDRA_H */
