// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest asks on which nodes of the host its vCPUs and its memory are (expose=on).
 *
 * A guest that sees one node has its own page tables anywhere. If it knows which vCPUs share a
 * node, and can have pages brought there, it can give each group of vCPUs tables of their own.
 * (vMitosis, Panwar et al., ASPLOS '21, section 3.3.3: NO-P.) Only the kernel of a guest may
 * ask, and only if the VM exposes its host's nodes; otherwise the answer is that of a host
 * which does not know the hypercall, so the guest needs nothing else to find out.
 *
 * All answers are of a moment: the host may move vCPUs and memory at any time.
 *
 * No call waits for user space. A page that is missing may be one that a userfaultfd is to
 * bring, and its handler may never answer. KVM_RUN would not return for a signal then, and the
 * section of kvm->srcu would not end:
 *
 *     vCPU's thread: a hypercall           VMM
 *     --------------------------           ---
 *     faults, waits for a page
 *                                          signals the vCPU's thread, to stop the VM
 *     goes on waiting: only SIGKILL ends
 *       it
 *                                          waits for the vCPU, for ever
 *
 * So a page is only looked at (KVM_HYDRA_LOOK, KVM_HYDRA_PLACE), and an answer is written only to
 * memory that is there: the guest writes it first (KVM_HYDRA_WHERE). There means: in the page table
 * that Linux keeps for the VMM's process. If that process is under Hydra, the tree which the CPU
 * has loaded may lack the page for ever, because the guest's writes fill nested trees only.
 */

#include <linux/highmem.h>
#include <linux/hydra_vm.h>
#include <linux/kvm_host.h>
#include <linux/kvm_para.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "cpuid.h"
#include "mmu.h"

#include "hydra.h"

/* The most vCPUs of one question, and pages of one move */
#define HYDRA_VM_WHERE_MAX	4096
#define HYDRA_VM_PLACE_MAX	512

/* Pages a second that are moved for the guest of a VM, and for how long it may save them up */
static unsigned int hydra_place_pages __read_mostly = 8192;
module_param(hydra_place_pages, uint, 0644);
MODULE_PARM_DESC(hydra_place_pages, "Pages a second that Hydra moves for the guest of a VM; 0: none");
#define HYDRA_VM_PLACE_NS	(4 * NSEC_PER_SEC)

/*
 * Write an answer to memory that is there, and may be written, now. KVM's usual way, a copy to
 * user space, would use the loaded tree of the process. Nothing is waited for, not even for the
 * lock of the page.
 * Return: 0; -KVM_EFAULT, and a part may have been written.
 */
static long hydra_vm_answer(struct kvm_vcpu *vcpu, gpa_t gpa, const u8 *answer, size_t size)
{
	struct page *page;
	size_t part;
	gfn_t gfn;

	for (; size; size -= part, answer += part, gpa += part) {
		gfn = gpa_to_gfn(gpa);
		part = min(size, PAGE_SIZE - offset_in_page(gpa));
		/* Refuses memslots that are read-only, too. */
		if (gfn_to_page_many_atomic(kvm_vcpu_gfn_to_memslot(vcpu, gfn), gfn, &page, 1) != 1)
			return -KVM_EFAULT;
		memcpy_to_page(page, offset_in_page(gpa), answer, part);
		kvm_release_page_dirty(page);
		kvm_vcpu_mark_page_dirty(vcpu, gfn);
	}
	return 0;
}

/* KVM_HYDRA_WHERE: the domains of the CPUs on which vCPUs ran last, by their APIC ids */
static long hydra_vm_where(struct kvm_vcpu *vcpu, gpa_t gpa, unsigned long nr)
{
	struct kvm_vcpu *other;
	unsigned long i;
	u8 *domain;
	long ret;
	int cpu;

	if (!nr || nr > HYDRA_VM_WHERE_MAX)
		return -KVM_EINVAL;
	domain = kmalloc(nr, GFP_KERNEL_ACCOUNT);
	if (!domain)
		return -KVM_EFAULT;
	memset(domain, KVM_HYDRA_NO_DOMAIN, nr);
	kvm_for_each_vcpu(i, other, vcpu->kvm) {
		cpu = READ_ONCE(other->cpu);
		if (other->vcpu_id < nr && cpu >= 0)
			domain[other->vcpu_id] =
				min(hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu),
				    (unsigned int)KVM_HYDRA_NO_DOMAIN);
	}
	ret = hydra_vm_answer(vcpu, gpa, domain, nr);
	kfree(domain);
	return ret;
}

/* KVM_HYDRA_LOOK: the domain of the node of a page, if it is there */
static long hydra_vm_look(struct kvm_vcpu *vcpu, gpa_t gpa)
{
	unsigned long address;
	unsigned int d;
	int nid;

	address = kvm_vcpu_gfn_to_hva_prot(vcpu, gpa_to_gfn(gpa), NULL);
	if (kvm_is_error_hva(address))
		return -KVM_EFAULT;
	nid = hydra_vm_page_node(address);
	if (nid < 0)
		return KVM_HYDRA_NO_DOMAIN;
	for (d = 0; d < hydra_vm_nr_domains(); d++)
		if (hydra_vm_home(d) == nid)
			return min(d, (unsigned int)KVM_HYDRA_NO_DOMAIN);
	/* A node without CPUs */
	return -KVM_EOPNOTSUPP;
}

/* What a page costs, in nanoseconds; 0: none is to be moved */
static s64 hydra_vm_page_cost(void)
{
	unsigned int pages = READ_ONCE(hydra_place_pages);

	return pages ? max(NSEC_PER_SEC / pages, 1L) : 0;
}

/*
 * Take from what may be moved for a guest now. The time is spent from @placed on; what was not
 * spent for HYDRA_VM_PLACE_NS is lost. Several vCPUs may come at once.
 * Return: how many pages, up to @nr
 */
static long hydra_vm_budget(struct hydra_vm *vm, unsigned long nr, s64 cost)
{
	s64 now = ktime_get_ns(), spent = atomic64_read(&vm->placed), from, pages;
	/* What is saved answers at least one call, also a call whose pages all stay. */
	s64 most = max(HYDRA_VM_PLACE_NS, HYDRA_VM_PLACE_MAX * cost);

	if (!cost)
		return 0;
	do {
		from = max(spent, now - most);
		/* Large pages, or another CPU's clock, may have gone beyond. */
		pages = from < now ? min_t(s64, nr, div64_s64(now - from, cost)) : 0;
	} while (!atomic64_try_cmpxchg(&vm->placed, &spent, from + pages * cost));
	return pages;
}

/* KVM_HYDRA_PLACE: move pages to the home of a domain */
static long hydra_vm_place(struct kvm_vcpu *vcpu, gpa_t gpa, unsigned long nr, unsigned long d)
{
	struct hydra_vm *vm = vcpu->kvm->arch.hydra;
	unsigned long *address, i;
	s64 cost = hydra_vm_page_cost();
	bool writable, later = false;
	long ret, budget;

	if (!PAGE_ALIGNED(gpa) || !nr || nr > HYDRA_VM_PLACE_MAX || d >= hydra_vm_nr_domains())
		return -KVM_EINVAL;
	address = kmalloc_array(nr, sizeof(*address), GFP_KERNEL_ACCOUNT);
	if (!address)
		return -KVM_EFAULT;
	for (i = 0; i < nr; i++) {
		address[i] = kvm_vcpu_gfn_to_hva_prot(vcpu, gpa_to_gfn(gpa) + i, &writable);
		if (kvm_is_error_hva(address[i]) || !writable)
			break;
	}
	budget = hydra_vm_budget(vm, nr, cost);
	ret = i < nr ? -EFAULT :
	      hydra_vm_pages_place(address, nr, hydra_vm_home(d), &budget, &later);
	/* Back what was not needed, or take what was needed more */
	atomic64_sub(budget * cost, &vm->placed);
	kfree(address);
	if (ret == -EPERM)
		return -KVM_EPERM;
	if (ret < 0)
		return -KVM_EFAULT;
	/* If the operator lets no page be moved, there is no later. */
	return later && cost ? -KVM_EAGAIN : ret;
}

/**
 * hydra_vm_hypercall - KVM_HC_HYDRA
 * @vcpu: the vCPU; its guest is in ring 0
 * @what: enum kvm_hydra_call
 * @a1: the guest's physical address
 * @a2: how many vCPUs, or pages
 * @a3: the domain
 *
 * Context: process context; a section of kvm->srcu; may sleep.
 * Return: as include/uapi/linux/hydra_para.h says; -KVM_ENOSYS unless the VM exposes nodes, and,
 * where the VMM enforces the guest's CPUID, this has the bit.
 */
unsigned long hydra_vm_hypercall(struct kvm_vcpu *vcpu, unsigned long what, unsigned long a1,
				 unsigned long a2, unsigned long a3)
{
	lockdep_assert(srcu_read_lock_held(&vcpu->kvm->srcu));
	if (!READ_ONCE(vcpu->kvm->arch.hydra->settings).expose ||
	    !guest_pv_has(vcpu, KVM_FEATURE_HYDRA))
		return -KVM_ENOSYS;
	switch (what) {
	case KVM_HYDRA_INFO:
		return hydra_vm_nr_domains();
	case KVM_HYDRA_WHERE:
		return hydra_vm_where(vcpu, a1, a2);
	case KVM_HYDRA_LOOK:
		return hydra_vm_look(vcpu, a1);
	case KVM_HYDRA_PLACE:
		return hydra_vm_place(vcpu, a1, a2, a3);
	default:
		return -KVM_EINVAL;
	}
}
