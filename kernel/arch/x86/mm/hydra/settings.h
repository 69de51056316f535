/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The settings of an address space: see settings.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SETTINGS_H
#define _ARCH_X86_MM_HYDRA_SETTINGS_H

#include <linux/hydra_proc.h>
#include <linux/mm_types.h>
#include <linux/types.h>
#include <uapi/linux/hydra.h>

struct seq_file;

#define HYDRA_CHOICE(scope, when, degree, which)			\
	((union hydra_choice){ .domains = scope, .replication = when,	\
			       .prefetch = degree, .filter = which })

#define HYDRA_LINUX_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_MACHINE, HYDRA_REPLICATE_LAZY, \
		     HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE)
#define HYDRA_HYDRA_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, \
		     HYDRA_PREFETCH_MAX, HYDRA_FILTER_TABLE)

/* The shootdowns of RadixVM (EuroSys '13), section 3.3: per-core tables, filled by faults. */
#define HYDRA_RADIXVM_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, \
		     0, HYDRA_FILTER_ENTRY)
/* The shootdowns of ABIS (USENIX ATC '17): by accessed bits, of each core. */
#define HYDRA_ABIS_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, \
		     HYDRA_PREFETCH_MAX, HYDRA_FILTER_ACCESSED)

/* Mitosis (ASPLOS '20): each node has all page tables, and every flush goes to all. */
#define HYDRA_MITOSIS_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_EAGER, \
		     HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE)

/* Linux, or nodes with the filter "auto": see auto.c. */
#define HYDRA_AUTO_SETTINGS \
	HYDRA_CHOICE(HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_LAZY, \
		     HYDRA_PREFETCH_MAX, HYDRA_FILTER_AUTO)

/*
 * In mm->hydra_settings, the word of a union hydra_choice: the process, or another one for it,
 * has chosen settings, or its cgroup or the system's default has given them. A choice outlives
 * execve(). These are the highest bits of the filter, and no filter uses them.
 */
#define SETTINGS_CHOSEN		BIT(31)
#define SETTINGS_GIVEN		BIT(30)

/* The settings in such a word; 0: those of stock Linux */
static inline union hydra_choice hydra_choice_in(u32 word)
{
	if (!word)
		return HYDRA_LINUX_SETTINGS;
	return (union hydra_choice){ .word = word & ~(SETTINGS_CHOSEN | SETTINGS_GIVEN) };
}

/*
 * The settings of an address space, but for the filter: SETTINGS_CHOSEN or SETTINGS_GIVEN may
 * be in it. For those of stock Linux the word may be 0. Context: any.
 */
static inline union hydra_choice hydra_choice_of(const struct mm_struct *mm)
{
	return (union hydra_choice){ .word = READ_ONCE(mm->hydra_settings) };
}

/* Does auto.c decide when it is split? */
static inline bool hydra_is_auto(union hydra_choice settings)
{
	return settings.domains == HYDRA_SCOPE_AUTO;
}

/* The scope of its domains, once it is split */
static inline unsigned int hydra_scope_of(union hydra_choice settings)
{
	return hydra_is_auto(settings) ? HYDRA_SCOPE_NODE : settings.domains;
}

/* The scope in which its threads look for a second domain, to split it; or HYDRA_SCOPE_MACHINE */
static inline unsigned int hydra_scope_watched(union hydra_choice settings)
{
	return hydra_is_auto(settings) ? HYDRA_SCOPE_MACHINE : settings.domains;
}

static inline bool hydra_wants_domains(union hydra_choice settings)
{
	return settings.domains != HYDRA_SCOPE_MACHINE;
}

/* Do they say anything that plain Linux does not, for the process or the VMs that it makes? */
static inline bool hydra_says_more(union hydra_choice settings)
{
	return hydra_wants_domains(settings) || settings.tables || settings.expose;
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
extern bool hydra_guards_barriers;
extern union hydra_choice hydra_default_settings;

int hydra_settings_check(union hydra_choice settings);
int hydra_settings_take(const struct hydra_settings *from, union hydra_choice *settings);
void hydra_settings_give(union hydra_choice settings, struct hydra_settings *to);
int hydra_settings_read(const void __user *from, u64 size, union hydra_choice *settings);
int hydra_settings_format(char *buf, size_t size, union hydra_choice settings);
void hydra_settings_show(struct seq_file *m, union hydra_choice settings);

#endif /* _ARCH_X86_MM_HYDRA_SETTINGS_H */
