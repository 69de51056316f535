/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Per-process settings of Hydra: page tables replicated per domain of CPUs,
 * and TLB shootdowns limited to the domains that share a table.
 */
#ifndef _UAPI_LINUX_HYDRA_H
#define _UAPI_LINUX_HYDRA_H

#include <linux/types.h>

/*
 *     prctl(PR_SET_HYDRA, const struct hydra_settings *, sizeof, 0, 0)
 *     prctl(PR_GET_HYDRA, struct hydra_settings *, sizeof, 0, 0)
 *
 * fork() and execve() inherit the settings, and so do VMs that the process makes, if they can
 * have them. A call that fails changes nothing: EINVAL for a value without a meaning, EOPNOTSUPP
 * for a value not supported by the kernel or the machine. The structure may grow: E2BIG for
 * members that the kernel does not know, and that are not 0.
 */
#define PR_SET_HYDRA		0x48590001
#define PR_GET_HYDRA		0x48590002

/*
 * KVM_ENABLE_CAP of a VM: args[0] points to struct hydra_settings, args[1] is its size, args[2] 0
 * or of KVM_HYDRA_FOLLOW and KVM_HYDRA_EXPOSE (linux/hydra_para.h), which say the same as the
 * members @tables and @expose; args[3] is the most KiB for the VM's nested tables, a multiple of 4,
 * or 0 for no limit of its own; flags are 0. A VM can have the domains machine, or node with the
 * filters none or table.
 *
 * KVM_CHECK_EXTENSION: 0, or, if the VM can have the domains node, KVM_HYDRA_TREES, the known
 * flags for args[2], and KVM_HYDRA_STATE.
 *
 * KVM_HYDRA_STATE: KVM_GET_DEVICE_ATTR of a VM, with KVM_CAP_HYDRA as the group, and with the size
 * of struct hydra_vm_state as the attribute, gives that structure. It may grow: the kernel writes
 * as much as it knows, and 0 behind.
 */
#define KVM_CAP_HYDRA		0x48594452
#define KVM_HYDRA_FOLLOW	1
#define KVM_HYDRA_TREES		4
#define KVM_HYDRA_STATE		8

/**
 * struct hydra_vm_state - the state of a VM
 * @domains: this and the next five: the settings, as in struct hydra_settings
 * @replication: see @domains
 * @prefetch: see @domains
 * @filter: see @domains
 * @tables: see @domains
 * @expose: see @domains
 * @active: 1: each node has a tree of nested tables
 * @fallback: so many trees are given up just now for lack of memory
 * @limit_kib: the most KiB for nested tables that is in force, also that of the machine or a memory
 *	cgroup; all bits set: none
 * @nested_kib: how many there are
 */
struct hydra_vm_state {
	__u32 domains;
	__u32 replication;
	__u32 prefetch;
	__u32 filter;
	__u32 tables;
	__u32 expose;
	__u32 active;
	__u32 fallback;
	__u64 limit_kib;
	__u64 nested_kib;
};

/**
 * enum hydra_scope - which CPUs share one set of page tables
 * @HYDRA_SCOPE_MACHINE: all CPUs: stock Linux
 * @HYDRA_SCOPE_NODE: the CPUs of one NUMA node
 * @HYDRA_SCOPE_LLC: the CPUs of one last-level cache
 * @HYDRA_SCOPE_CORE: the CPUs of one core
 * @HYDRA_SCOPE_AUTO: those of one NUMA node while that pays, all CPUs otherwise
 */
enum hydra_scope {
	HYDRA_SCOPE_MACHINE	= 0,
	HYDRA_SCOPE_NODE	= 1,
	HYDRA_SCOPE_LLC		= 2,
	HYDRA_SCOPE_CORE	= 3,
	HYDRA_SCOPE_AUTO	= 4,
};

/**
 * enum hydra_replication - when a domain gets its copy of an entry
 * @HYDRA_REPLICATE_LAZY: when one of its CPUs faults on the entry
 * @HYDRA_REPLICATE_EAGER: when the first domain faults on the entry
 */
enum hydra_replication {
	HYDRA_REPLICATE_LAZY	= 0,
	HYDRA_REPLICATE_EAGER	= 1,
};

/**
 * enum hydra_filter - which domains a TLB shootdown interrupts
 * @HYDRA_FILTER_NONE: all domains that run the process: stock Linux
 * @HYDRA_FILTER_TABLE: domains that share a leaf table of the flushed range
 * @HYDRA_FILTER_ENTRY: domains that have a copy of a flushed entry
 * @HYDRA_FILTER_ACCESSED: domains that have accessed their copy of a flushed entry
 * @HYDRA_FILTER_AUTO: by table or by access, as the flushes of each table show
 */
enum hydra_filter {
	HYDRA_FILTER_NONE	= 0,
	HYDRA_FILTER_TABLE	= 1,
	HYDRA_FILTER_ENTRY	= 2,
	HYDRA_FILTER_ACCESSED	= 3,
	HYDRA_FILTER_AUTO	= 4,
};

/**
 * enum hydra_vm_tables - what the nested page tables of a VM with the domains machine do
 * @HYDRA_TABLES_STAY: they stay where they are: stock Linux
 * @HYDRA_TABLES_FOLLOW: they move to the node of their data
 */
enum hydra_vm_tables {
	HYDRA_TABLES_STAY	= 0,
	HYDRA_TABLES_FOLLOW	= 1,
};

/* A fill copies up to 2^prefetch entries; 2^9 is a whole leaf table. */
#define HYDRA_PREFETCH_MAX	9

/**
 * struct hydra_settings - how the kernel keeps the page tables of a process
 * @domains: one of enum hydra_scope
 * @replication: one of enum hydra_replication
 * @prefetch: 0 to HYDRA_PREFETCH_MAX
 * @filter: one of enum hydra_filter
 * @tables: one of enum hydra_vm_tables. This, and the next, are for the VMs that the process makes.
 * @expose: 1: the guest may ask by KVM_HC_HYDRA (linux/hydra_para.h); 0: it may not
 */
struct hydra_settings {
	__u32 domains;
	__u32 replication;
	__u32 prefetch;
	__u32 filter;
	__u32 tables;
	__u32 expose;
};

/* The structure ended with @filter at first. A program may still pass so much of it. */
#define HYDRA_SETTINGS_SIZE_FIRST	16

#endif /* _UAPI_LINUX_HYDRA_H */
