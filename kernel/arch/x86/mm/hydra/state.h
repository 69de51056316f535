/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of an address space: see state.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_STATE_H
#define _ARCH_X86_MM_HYDRA_STATE_H

#include <linux/hydra.h>
#include <linux/hydra_proc.h>
#include <linux/mm.h>
#include <linux/percpu.h>

#include "settings.h"

/*
 * mm->hydra_last: hydra_last() of the CPUs running the address space; 0 with the
 * settings of stock Linux; UNKNOWN if these settings came while no CPU ran it; SPLIT with
 * domain trees.
 */
#define HYDRA_LAST_UNKNOWN(scope)	((u32)(scope) << HYDRA_LAST_SHIFT)
#define HYDRA_LAST_SPLIT		U32_MAX

/* Context: any but NMI. */
static inline void hydra_stat_add(struct hydra_mm *h, enum hydra_stat stat,
				  unsigned long n)
{
	this_cpu_add(h->stats->n[stat], n);
}

static inline unsigned int hydra_filter(const struct hydra_mm *h)
{
	return READ_ONCE(h->filter);
}

/*
 * Replication "eager": does each domain get an entry as soon as one domain has it?
 * Context: any.
 */
static inline bool hydra_eager(const struct hydra_mm *h)
{
	return READ_ONCE(h->eager);
}

/*
 * More than the number of flushes that begin and raise a generation between two
 * instructions of a CPU with interrupts off, see hydra_activate(), hydra_promote() and
 * hydra_deactivate().
 *
 * Each split, each tree and each return takes one gap. A generation has 64 bits, so a
 * larger gap would be less safe: with 40 bits a program that changes its settings 10,000
 * times a second would wrap its generations after half an hour. With 24 bits it needs
 * years, and an address space beyond GENERATION_MAX is not split any more.
 */
#define GENERATION_GAP	BIT_ULL(24)
#define GENERATION_MAX	BIT_ULL(62)

/*
 * Reclaim that starts I/O, or enters a file system, may wait for this very thread, or for one
 * of the process that the splitter serves. A full memory cgroup gives back clean pages all the
 * same.
 */
#define HYDRA_GFP	(__GFP_ACCOUNT | __GFP_RECLAIM | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* The scope of a value of hydra_last, but of HYDRA_LAST_SPLIT */
static inline unsigned int hydra_last_scope(u32 last)
{
	return last >> HYDRA_LAST_SHIFT;
}

/* The domain of a known value */
static inline unsigned int hydra_last_domain(u32 last)
{
	return (last & GENMASK(HYDRA_LAST_SHIFT - 1, 0)) - 1;
}

/* Is there a domain in the value? Not to be asked of HYDRA_LAST_SPLIT. */
static inline bool hydra_last_known(u32 last)
{
	return last != HYDRA_LAST_UNKNOWN(hydra_last_scope(last));
}

/* hydra_last of an address space that this CPU alone runs. Context: as hydra_this_domain(). */
static inline u32 hydra_last_here(unsigned int scope)
{
	return hydra_last(scope, raw_cpu_read(hydra_cpu_domain[scope]));
}

/* Is this CPU in the domain that ran the address space last? */
static inline bool hydra_is_last(u32 last)
{
	return last != HYDRA_LAST_SPLIT && last == hydra_last_here(hydra_last_scope(last));
}

struct hydra_mm *hydra_alloc(struct mm_struct *mm, bool may_wait);
void hydra_free(struct hydra_mm *h);
void hydra_attach(struct mm_struct *mm, struct hydra_mm **new);
void hydra_note_settings(struct hydra_mm *h, union hydra_choice settings);
u64 hydra_next_generation(struct hydra_mm *h);
bool hydra_memory_is_short(void);
void hydra_memory_was_short(void);
pgd_t *hydra_pgd_alloc(struct mm_struct *mm, int nid);

unsigned long hydra_stat_raw(struct hydra_mm *h, enum hydra_stat stat,
			     const struct cpumask *cpus);
unsigned long hydra_stat_sum(struct hydra_mm *h, enum hydra_stat stat,
			     const struct cpumask *cpus);
bool hydra_stat_ended(struct hydra_mm *h, enum hydra_stat stat, unsigned long *n);
struct hydra_mm *hydra_count_inherit(struct mm_struct *mm);
void hydra_count_leave(struct hydra_mm *h);
void hydra_count_exit(struct hydra_mm *h);

#endif /* _ARCH_X86_MM_HYDRA_STATE_H */
