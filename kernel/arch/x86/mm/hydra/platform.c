// SPDX-License-Identifier: GPL-2.0-only
/*
 * The platform: what this machine can do, and the promises that it has broken.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/mm.h>

#include <asm/cpu_device_id.h>
#include <asm/cpufeature.h>
#include <asm/hypervisor.h>
#include <asm/kvm_para.h>
#include <asm/paravirt.h>
#include <asm/processor.h>

#include "platform.h"

/* See hydra_shared(). */
struct page *hydra_pages __ro_after_init;
EXPORT_SYMBOL_GPL(hydra_pages);

/* The leaf of CPUID with the name of the hypervisor, if there is one */
#define CPUID_HYPERVISOR_NAME	0x40000000

/* May marks rest on accessed bits? If not, every present copy that changes is marked. */
bool hydra_trusts_accessed __ro_after_init = true;

/* The CPU broke the promise: look up by table from now on. */
bool hydra_marks_failed __read_mostly;

/**
 * hydra_cpu_refused - do CPUs of this kind set the accessed bit first?
 * @vendor: X86_VENDOR_*
 * @vfm: vendor, family and model, as in struct cpuinfo_x86
 *
 * Context: any. Return: NULL if their manual promises that, or the reason why not.
 */
const char *hydra_cpu_refused(u8 vendor, u32 vfm)
{
	switch (vendor) {
	case X86_VENDOR_INTEL:
		if (vfm == INTEL_XEON_PHI_KNL || vfm == INTEL_XEON_PHI_KNM)
			return "Xeon Phi sets accessed bits of entries not present";
		return NULL;
	case X86_VENDOR_AMD:
	case X86_VENDOR_HYGON:
		return NULL;
	}
	return "the vendor of this CPU does not promise to set the accessed bit first";
}

/* Hypervisors whose page walks set the accessed bit first, by their name in CPUID. */
static const char * const hydra_hypervisors[] = {
	"KVMKVMKVM\0\0\0", "XenVMMXenVMM", "Microsoft Hv", "TCGTCGTCGTCG",
};

/**
 * hydra_hypervisor_refused - do page walks under this hypervisor set the accessed bit first?
 * @name: HYPERVISOR_NAME_LEN characters of CPUID
 *
 * A hypervisor that has no nested page tables walks the tables of its guest in software. Then
 * what the manual of the CPU promises does not count. KVM and Xen put only entries with
 * the accessed bit into their shadow tables, and QEMU's emulator sets the bit in its walk.
 * All CPUs that Hyper-V needs have nested page tables.
 *
 * Context: any. Return: NULL if they do, or the reason why that is not known.
 */
const char *hydra_hypervisor_refused(const char *name)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(hydra_hypervisors); i++)
		if (!memcmp(name, hydra_hypervisors[i], HYPERVISOR_NAME_LEN))
			return NULL;
	return "this hypervisor is not known to set the accessed bit first";
}

/**
 * hydra_accessed_refused - can this machine run filter "accessed"?
 *
 * Context: any; after early_cpu_init().
 * Return: NULL, or the reason why not.
 */
const char *hydra_accessed_refused(void)
{
	u32 eax, name[3];

	if (READ_ONCE(hydra_marks_failed))
		return "an accessed bit was set in an entry that was not present";
	if (boot_cpu_has(X86_FEATURE_HYPERVISOR)) {
		cpuid(CPUID_HYPERVISOR_NAME, &eax, &name[0], &name[1], &name[2]);
		if (hydra_hypervisor_refused((char *)name))
			return hydra_hypervisor_refused((char *)name);
	}
	return hydra_cpu_refused(boot_cpu_data.x86_vendor, boot_cpu_data.x86_vfm);
}

/* Violations found since boot. */
atomic_long_t hydra_violations;
EXPORT_SYMBOL_GPL(hydra_violations);

/**
 * hydra_stray_accessed - a copy that is not present has its accessed bit set
 *
 * Nothing but a page walk sets the bit. So this CPU sets it in another order than its
 * manual promises, and marks may be missing.
 *
 * Context: any.
 */
void hydra_stray_accessed(void)
{
	if (!hydra_trusts_accessed || READ_ONCE(hydra_marks_failed))
		return;
	WRITE_ONCE(hydra_marks_failed, true);
	atomic_long_inc(&hydra_violations);
	WARN_ONCE(1, "hydra: accessed bit in an entry that is not present: from now on flushes go by table\n");
}

/**
 * hydra_refused_by_machine - can this machine run domain trees?
 *
 * Return: NULL, or the reason why not.
 */
const char *hydra_refused_by_machine(void)
{
	/* The hypervisor checks and pins page tables, by mm->pgd. */
	if (cpu_feature_enabled(X86_FEATURE_XENPV))
		return "Xen PV keeps page tables itself";
	/* Its flush hypercall names an address space by mm->pgd. */
	if (IS_ENABLED(CONFIG_HYPERV) && hypervisor_is_type(X86_HYPER_MS_HYPERV))
		return "Hyper-V flushes by the address of one root";
	return NULL;
}

/* In this guest, Linux leaves flushes of preempted vCPUs to KVM. */
DEFINE_STATIC_KEY_FALSE(hydra_host_flushes_key);

/* Flushes of vCPUs that have been left to the hypervisor since boot */
atomic_long_t hydra_left_to_host;

/**
 * __hydra_leave_to_host - leave a flush to the hypervisor, if the vCPU is preempted
 * @cpu: the vCPU, which is to flush
 *
 * As kvm_flush_tlb_multi() does. The flushing CPU has changed the entries, and has raised the
 * generation: a full barrier. The host flushes all entries of the vCPU before the vCPU runs again,
 * those of other PCIDs, too. The vCPU does not compare its generation then: it stays behind, and
 * its next flush flushes everything.
 *
 * A change of roots is not left to the host: hydra_switch_roots().
 *
 * Context: any; hydra_host_flushes().
 * Return: true if the host flushes; false: the vCPU has to be interrupted.
 */
bool __hydra_leave_to_host(int cpu)
{
	if (!kvm_flushes_at_entry(cpu))
		return false;
	atomic_long_inc(&hydra_left_to_host);
	return true;
}

static int __init hydra_platform_init(void)
{
#ifdef CONFIG_KVM_GUEST
	/* Machines whose hypervisor is another one are refused, or have no such function. */
	if (pv_ops.mmu.flush_tlb_multi != native_flush_tlb_multi)
		static_branch_enable(&hydra_host_flushes_key);
#endif
	hydra_trusts_accessed = !hydra_accessed_refused();
	hydra_pages = virt_to_page((void *)PAGE_OFFSET) - (PAGE_OFFSET >> PAGE_SHIFT);
	return 0;
}
core_initcall(hydra_platform_init);
