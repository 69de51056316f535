/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * What the kernel of a guest may ask of a host with Hydra: where its vCPUs and its memory are.
 */
#ifndef _UAPI_LINUX_HYDRA_PARA_H
#define _UAPI_LINUX_HYDRA_PARA_H

/* With KVM_CAP_HYDRA (linux/hydra.h), in args[2]: the guest of this VM may ask. */
#define KVM_HYDRA_EXPOSE	2

/*
 * A bit of EAX of KVM's CPUID leaf of features: this host can answer. The guest's CPUID needs it
 * only with KVM_CAP_ENFORCE_PV_FEATURE_CPUID. So a VMM that gives its guest the bit migrates it
 * to no host that lacks it.
 */
#define KVM_FEATURE_HYDRA	30

/*
 * A hypercall of a guest's kernel; the first argument is one of enum kvm_hydra_call. If the
 * guest may not ask, and from other hosts, the answer is -KVM_ENOSYS; -KVM_EINVAL for a value
 * out of range, and -KVM_EFAULT for memory that is not there.
 */
#define KVM_HC_HYDRA		0x48594452

/* An answer beside those of linux/kvm_para.h */
#define KVM_EAGAIN		11

/* In an answer: no domain */
#define KVM_HYDRA_NO_DOMAIN	255

/**
 * enum kvm_hydra_call - what a guest asks for
 * @KVM_HYDRA_INFO: how many domains the host has
 * @KVM_HYDRA_WHERE: on which domains its vCPUs ran last. Arguments: a physical address, and a
 *	number up to 4096; so many bytes are written, by APIC id: a domain, or KVM_HYDRA_NO_DOMAIN.
 *	The host brings in no memory for it: the guest writes the bytes first, and again after
 *	-KVM_EFAULT, with which a part may have been written.
 * @KVM_HYDRA_LOOK: the domain of the page at a physical address; KVM_HYDRA_NO_DOMAIN if the host
 *	has no page there now, or only the page of zeros; -KVM_EOPNOTSUPP if it is on a node
 *	without CPUs. A look changes nothing: it brings in no page, and copies none that is shared.
 * @KVM_HYDRA_PLACE: move memory to a domain. Arguments: a physical address, a number of 4 KiB
 *	pages up to 512, and the domain. Gives how many are there now. Pages in use may stay;
 *	pages that the VMM shares with other processes, and pinned ones, do.
 *	-KVM_EAGAIN if pages stay that the host would move a second later; others may have moved.
 *	-KVM_EPERM, and nothing moves, if the VMM's memory policy or cpuset forbids it
 */
enum kvm_hydra_call {
	KVM_HYDRA_INFO = 0,
	KVM_HYDRA_WHERE = 1,
	KVM_HYDRA_LOOK = 2,
	KVM_HYDRA_PLACE = 3,
};

#endif /* _UAPI_LINUX_HYDRA_PARA_H */
