/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hydra_vm

#if !defined(_TRACE_KVM_HYDRA_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_HYDRA_H

#include <linux/kvm_host.h>
#include <linux/tracepoint.h>

/*
 * Events identify a VM by the process that has made it, as KVM's directories in debugfs do. A
 * domain is as in /proc/PID/hydra_vm; -1: the shared tree.
 */

/* A vCPU takes the tree of another domain. */
TRACE_EVENT(hydra_vm_move,

	TP_PROTO(struct kvm *kvm, int vcpu, int from, int domain),

	TP_ARGS(kvm, vcpu, from, domain),

	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(int, vcpu)
		__field(int, from)
		__field(int, domain)
	),

	TP_fast_assign(
		__entry->pid = kvm->userspace_pid;
		__entry->vcpu = vcpu;
		__entry->from = from;
		__entry->domain = domain;
	),

	TP_printk("pid=%d vcpu=%d from=%d domain=%d", __entry->pid, __entry->vcpu,
		  __entry->from, __entry->domain)
);

/* A fault of a domain has copied entries of other trees, or into them if that is "eager". */
TRACE_EVENT(hydra_vm_copy,

	TP_PROTO(struct kvm *kvm, int domain, u64 gfn, unsigned int copied),

	TP_ARGS(kvm, domain, gfn, copied),

	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(int, domain)
		__field(u64, gfn)
		__field(unsigned int, copied)
	),

	TP_fast_assign(
		__entry->pid = kvm->userspace_pid;
		__entry->domain = domain;
		__entry->gfn = gfn;
		__entry->copied = copied;
	),

	TP_printk("pid=%d domain=%d gfn=0x%llx copied=%u", __entry->pid, __entry->domain,
		  __entry->gfn, __entry->copied)
);

/* A flush: a bit for each tree that has lost something, 1 << (domain + 1) */
TRACE_EVENT(hydra_vm_flush,

	TP_PROTO(struct kvm *kvm, u32 trees, unsigned int asked, unsigned int spared),

	TP_ARGS(kvm, trees, asked, spared),

	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(u32, trees)
		__field(unsigned int, asked)
		__field(unsigned int, spared)
	),

	TP_fast_assign(
		__entry->pid = kvm->userspace_pid;
		__entry->trees = trees;
		__entry->asked = asked;
		__entry->spared = spared;
	),

	TP_printk("pid=%d trees=0x%x asked=%u spared=%u", __entry->pid, __entry->trees,
		  __entry->asked, __entry->spared)
);

DECLARE_EVENT_CLASS(hydra_vm_tree,

	TP_PROTO(struct kvm *kvm, int domain, s64 tables),

	TP_ARGS(kvm, domain, tables),

	TP_STRUCT__entry(
		__field(pid_t, pid)
		__field(int, domain)
		__field(s64, tables)
	),

	TP_fast_assign(
		__entry->pid = kvm->userspace_pid;
		__entry->domain = domain;
		__entry->tables = tables;
	),

	TP_printk("pid=%d domain=%d tables=%lld", __entry->pid, __entry->domain,
		  __entry->tables)
);

/* A tree finds no memory, and its vCPUs use another. */
DEFINE_EVENT(hydra_vm_tree, hydra_vm_give_up,
	TP_PROTO(struct kvm *kvm, int domain, s64 tables),
	TP_ARGS(kvm, domain, tables));

/* It comes back. */
DEFINE_EVENT(hydra_vm_tree, hydra_vm_return,
	TP_PROTO(struct kvm *kvm, int domain, s64 tables),
	TP_ARGS(kvm, domain, tables));

/* A tree that no vCPU uses has been emptied, but for so many tables, and goes. */
DEFINE_EVENT(hydra_vm_tree, hydra_vm_drop,
	TP_PROTO(struct kvm *kvm, int domain, s64 tables),
	TP_ARGS(kvm, domain, tables));

#endif /* _TRACE_KVM_HYDRA_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../arch/x86/kvm/hydra
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

/* This part must be outside protection */
#include <trace/define_trace.h>
