/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Per-process settings of Hydra: page tables replicated per domain of CPUs,
 * and TLB shootdowns limited to the domains that share a table.
 */
#ifndef _UAPI_LINUX_HYDRA_H
#define _UAPI_LINUX_HYDRA_H

#include <linux/types.h>

/*
 * prctl(PR_SET_HYDRA, const struct hydra_settings *, sizeof, 0, 0)
 * prctl(PR_GET_HYDRA, struct hydra_settings *, sizeof, 0, 0)
 *
 * The settings are inherited over fork and exec. Errors change nothing:
 * EINVAL for a value that means nothing, EOPNOTSUPP for one that this kernel
 * or this machine cannot do.
 */
#define PR_SET_HYDRA		0x48590001
#define PR_GET_HYDRA		0x48590002

/**
 * enum hydra_domains - which CPUs share one set of page tables
 * @HYDRA_DOMAINS_MACHINE: all of them: stock Linux
 * @HYDRA_DOMAINS_NODE: those of one NUMA node
 * @HYDRA_DOMAINS_LLC: those of one last-level cache
 * @HYDRA_DOMAINS_CORE: those of one core
 */
enum hydra_domains {
	HYDRA_DOMAINS_MACHINE	= 0,
	HYDRA_DOMAINS_NODE	= 1,
	HYDRA_DOMAINS_LLC	= 2,
	HYDRA_DOMAINS_CORE	= 3,
};

/**
 * enum hydra_replication - when a domain gets its copy of an entry
 * @HYDRA_REPLICATE_LAZY: when one of its CPUs asks for it
 * @HYDRA_REPLICATE_EAGER: when the first domain asks for it
 */
enum hydra_replication {
	HYDRA_REPLICATE_LAZY	= 0,
	HYDRA_REPLICATE_EAGER	= 1,
};

/**
 * enum hydra_filter - which domains a TLB shootdown interrupts
 * @HYDRA_FILTER_NONE: all that run the process: stock Linux
 * @HYDRA_FILTER_TABLE: those that share a leaf table of the flushed range
 * @HYDRA_FILTER_ENTRY: those that have a copy of a flushed entry
 * @HYDRA_FILTER_ACCESSED: those whose copy of a flushed entry was accessed
 */
enum hydra_filter {
	HYDRA_FILTER_NONE	= 0,
	HYDRA_FILTER_TABLE	= 1,
	HYDRA_FILTER_ENTRY	= 2,
	HYDRA_FILTER_ACCESSED	= 3,
};

/* A fill copies up to 2^prefetch entries; 2^9 is a whole leaf table. */
#define HYDRA_PREFETCH_MAX	9

/**
 * struct hydra_settings - how the kernel keeps the page tables of a process
 * @domains: one of enum hydra_domains
 * @replication: one of enum hydra_replication
 * @prefetch: 0 to HYDRA_PREFETCH_MAX
 * @filter: one of enum hydra_filter
 */
struct hydra_settings {
	__u32 domains;
	__u32 replication;
	__u32 prefetch;
	__u32 filter;
};

#endif /* _UAPI_LINUX_HYDRA_H */
