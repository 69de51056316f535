/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Injected faults: each breaks one rule, to show that a test notices. Written
 * to /sys/kernel/mm/hydra/break; only with CONFIG_HYDRA_MM_INJECT.
 */
#ifndef _MM_HYDRA_INJECT_H
#define _MM_HYDRA_INJECT_H

/*
 * X(name, text): text is what is written to and read from sysfs. Where a rule
 * says "one domain", that is the last one.
 */
#define HYDRA_RULES(X)							\
	/* A changed entry does not reach the replica of one domain. */	\
	X(SKIP_SET, "skip-set")						\
	/* A cleared entry does not. */					\
	X(SKIP_CLEAR, "skip-clear")					\
	/* A domain uses a leaf table and is not among its sharers. */	\
	X(FORGET_SHARER, "forget-sharer")				\
	/* The same for a copy of a huge entry. */			\
	X(FORGET_HUGE_SHARER, "forget-huge-sharer")			\
	/* A flush leaves out one domain that it should reach. */	\
	X(SPARE_DOMAIN, "spare-domain")					\
	/* A change is not noted for the gathers under way. */		\
	X(SKIP_NOTE, "skip-note")					\
	/* A gather that begins drops what others have noted. */	\
	X(DROP_NOTES, "drop-notes")					\
	/* Flushes are filtered while a collapse or a switch is at work. */ \
	X(FILTER_ALWAYS, "filter-always")				\
	/* A domain that is flushed keeps its generation. */		\
	X(SKIP_GENERATION, "skip-generation")				\
	/* It does if none of its CPUs runs the address space: PCID. */	\
	X(SKIP_IDLE_GENERATION, "skip-idle-generation")			\
	/* One that is spared does not: its CPUs pay later. */		\
	X(CHARGE_SPARED, "charge-spared")				\
	/* A replica is writable while the canonical entry is clean. */	\
	X(WRITE_CLEAN, "write-clean")					\
	/* Accessed bits of replicas are ignored. */			\
	X(IGNORE_ACCESSED, "ignore-accessed")				\
	/* And not told to the canonical entries when a replica goes. */ \
	X(DROP_ACCESSED, "drop-accessed")				\
	/* A table is freed while a domain still links it. */		\
	X(KEEP_LINK, "keep-link")					\
	/* Tables of domains are freed but not given back. */		\
	X(KEEP_CHARGE, "keep-charge")					\
	/* Code that must not fault gets no entries. */			\
	X(SKIP_ATOMIC_FILL, "skip-atomic-fill")				\
	/* CPUs go on using their old root when it changes. */		\
	X(SKIP_SWITCH, "skip-switch")					\
	/* A domain uses the canonical tree and flushes do not know. */	\
	X(DEGRADE_QUIETLY, "degrade-quietly")				\
	/* Replicas are reclaimed and their domains not flushed. */	\
	X(RECLAIM_QUIETLY, "reclaim-quietly")

#define HYDRA_RULE_NAME(name, text)	HYDRA_BREAK_##name,
enum hydra_rule { HYDRA_BREAK_NONE, HYDRA_RULES(HYDRA_RULE_NAME) };
#undef HYDRA_RULE_NAME

#ifdef CONFIG_HYDRA_MM_INJECT
extern enum hydra_rule hydra_broken_rule;

#define hydra_breaks(rule) \
	unlikely(READ_ONCE(hydra_broken_rule) == HYDRA_BREAK_##rule)

extern struct kobj_attribute hydra_break_attr;
#else
#define hydra_breaks(rule)	false
#endif

#endif /* _MM_HYDRA_INJECT_H */
