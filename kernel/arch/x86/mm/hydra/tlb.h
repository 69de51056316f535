/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The delivery of flushes: see tlb.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_TLB_H
#define _ARCH_X86_MM_HYDRA_TLB_H

#include <linux/hydra.h>

/**
 * struct hydra_flush - a flush that this CPU is doing
 * @info: argument of flush_tlb_func(). If there is one target, @info.new_tlb_gen is
 *	the generation of the target; with several targets, the generation of
 *	domains without a tree.
 * @targets: domains to reach
 * @all: every domain is a target
 * @by_domain: CPUs of several domains receive the flush: each compares the generation of
 *	its domain
 * @interrupted: number of CPUs interrupted, without the sender
 * @across: number of these that are on another node than the sender
 * @own: Linux would not make this flush
 * @cpus: the CPUs to reach; empty between flushes
 * @gen: generations by target, with several targets
 * @batched: by target of hydra_flush_batched(): how many entries it flushes
 *
 * Used with preemption off, and not in interrupts, like cpu_tlbstate's own.
 */
struct hydra_flush {
	struct flush_tlb_info info;
	hydra_mask_t targets;
	bool all;
	bool by_domain;
	unsigned int interrupted;
	unsigned int across;
	bool own;
	cpumask_t cpus;
	u64 gen[HYDRA_MAX_DOMAINS];
	s64 batched[HYDRA_MAX_DOMAINS];
};

DECLARE_PER_CPU_SHARED_ALIGNED(struct hydra_flush, hydra_flush_state);

bool hydra_raise_targets(struct hydra_mm *h, struct hydra_flush *f);
void hydra_pick_targets(struct hydra_mm *h, struct hydra_flush *f);
void hydra_unpick_targets(struct hydra_mm *h, struct hydra_flush *f);
unsigned int hydra_count_spared(struct hydra_mm *h, struct hydra_flush *f);
void hydra_flush_counted(struct hydra_mm *h, struct hydra_flush *f, unsigned int spared);
void hydra_flush_targets(struct hydra_mm *h, struct hydra_flush *f);

/* What a flush is about: as the arguments of flush_tlb_mm_range() */
static inline void hydra_flush_what(struct hydra_flush *f, unsigned long start,
				    unsigned long end, unsigned int stride_shift,
				    bool freed_tables)
{
	f->info.start = start;
	f->info.end = end;
	f->info.stride_shift = stride_shift;
	f->info.freed_tables = freed_tables;
}

/* Does a CPU run an address space just now? The answer may be old. Context: any. */
static inline bool hydra_cpu_runs(int cpu, const struct mm_struct *mm)
{
	return READ_ONCE(per_cpu(cpu_tlbstate.loaded_mm, cpu)) == mm &&
	       !READ_ONCE(per_cpu(cpu_tlbstate_shared.is_lazy, cpu));
}

/*
 * The address space whose mm_cpumask() this lazy CPU would have left on Linux, or NULL. Written
 * by flushing CPUs, and by the CPU itself when it runs a thread again; compared only.
 */
DECLARE_PER_CPU_SHARED_ALIGNED(struct mm_struct *, hydra_lazy_left);

unsigned int hydra_pick_cpus(unsigned long *picked, const unsigned long *running,
			     const unsigned long *cpus, unsigned int first,
			     unsigned int last);

void hydra_flush_domains(struct hydra_mm *h, unsigned long start,
			 unsigned long end, const hydra_mask_t *domains);
bool hydra_runs_isolated(struct mm_struct *mm, const struct cpumask *cpus);

#endif /* _ARCH_X86_MM_HYDRA_TLB_H */
