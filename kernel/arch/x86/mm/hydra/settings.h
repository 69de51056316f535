/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The settings of an address space, packed into one word: they are read without a
 * lock.
 */
#ifndef _ARCH_X86_MM_HYDRA_SETTINGS_H
#define _ARCH_X86_MM_HYDRA_SETTINGS_H

#include <linux/hydra_proc.h>
#include <linux/types.h>
#include <uapi/linux/hydra.h>

#define hydra_settings_pack(domains, replication, prefetch, filter)	\
	((u32)(domains) | (u32)(replication) << 8 |			\
	 (u32)(prefetch) << 16 | (u32)(filter) << 24)

#define HYDRA_LINUX_SETTINGS \
	hydra_settings_pack(HYDRA_DOMAINS_MACHINE, HYDRA_REPLICATE_LAZY, \
			    HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE)
#define HYDRA_HYDRA_SETTINGS \
	hydra_settings_pack(HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_LAZY, \
			    HYDRA_PREFETCH_MAX, HYDRA_FILTER_TABLE)

/* The shootdowns of RadixVM (EuroSys '13), section 3.3: per-core tables, filled by faults. */
#define HYDRA_RADIXVM_SETTINGS \
	hydra_settings_pack(HYDRA_DOMAINS_CORE, HYDRA_REPLICATE_LAZY, \
			    0, HYDRA_FILTER_ENTRY)
/* The shootdowns of ABIS (USENIX ATC '17): by accessed bits, of each core. */
#define HYDRA_ABIS_SETTINGS \
	hydra_settings_pack(HYDRA_DOMAINS_CORE, HYDRA_REPLICATE_LAZY, \
			    HYDRA_PREFETCH_MAX, HYDRA_FILTER_ACCESSED)

/* Mitosis (ASPLOS '20): each node has all page tables, and every flush goes to all. */
#define HYDRA_MITOSIS_SETTINGS \
	hydra_settings_pack(HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_EAGER, \
			    HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE)

static inline unsigned int hydra_domains_setting(u32 s)
{
	return s & 0xff;
}

static inline unsigned int hydra_replication_setting(u32 s)
{
	return (s >> 8) & 0xff;
}

static inline unsigned int hydra_prefetch_setting(u32 s)
{
	return (s >> 16) & 0xff;
}

static inline unsigned int hydra_filter_setting(u32 s)
{
	return s >> 24;
}

/* In mm->hydra_settings: settings were chosen or inherited. No setting uses the bit. */
#define SETTINGS_CHOSEN		BIT(31)

static inline bool hydra_wants_domains(u32 settings)
{
	return hydra_domains_setting(settings) != HYDRA_DOMAINS_MACHINE;
}

/**
 * enum hydra_allow - which processes may choose settings
 * @HYDRA_ALLOW_ANYBODY: all, for the processes that they may trace
 * @HYDRA_ALLOW_CAP_SYS_NICE: those with CAP_SYS_NICE
 * @HYDRA_ALLOW_NOBODY: none
 *
 * Settings are inherited, and the default holds, in any case.
 */
enum hydra_allow {
	HYDRA_ALLOW_ANYBODY,
	HYDRA_ALLOW_CAP_SYS_NICE,
	HYDRA_ALLOW_NOBODY,
	NR_HYDRA_ALLOW
};

extern const char * const hydra_allow_names[NR_HYDRA_ALLOW];
extern unsigned int hydra_allow;
extern u32 hydra_default_settings;

int hydra_settings_read(const void __user *from, u64 size, u32 *settings);
int hydra_settings_check(u32 domains, u32 replication, u32 prefetch,
			 u32 filter);
int hydra_settings_format(char *buf, size_t size, u32 settings);
const char *hydra_policy_name(u32 settings);
const char *hydra_domains_name(u32 settings);
const char *hydra_replication_name(u32 settings);
const char *hydra_filter_name(u32 settings);

#endif /* _ARCH_X86_MM_HYDRA_SETTINGS_H */
