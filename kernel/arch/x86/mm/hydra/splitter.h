/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Splits without a wait: see splitter.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_SPLITTER_H
#define _ARCH_X86_MM_HYDRA_SPLITTER_H

#include <linux/hydra.h>
#include <linux/sched.h>

struct mem_cgroup;

/**
 * enum hydra_request - what the splitter is asked for
 * @HYDRA_REQUEST_SPLIT: a thread has come to another domain, and could not have the locks
 * @HYDRA_REQUEST_DECIDED: policy "auto" has decided to split the process
 * @HYDRA_REQUEST_RETURN: and this, to return it
 * @HYDRA_REQUEST_GO_ON: a return in parts has begun
 */
enum hydra_request {
	HYDRA_REQUEST_SPLIT,
	HYDRA_REQUEST_DECIDED,
	HYDRA_REQUEST_RETURN,
	HYDRA_REQUEST_GO_ON,
};

bool hydra_has_threads(struct task_struct *tsk);
unsigned int hydra_nr_workers(struct task_struct *tsk, unsigned int enough);
bool hydra_has_user_threads(void);
bool hydra_has_users(struct mm_struct *mm);
bool hydra_returns(struct hydra_mm *h, struct task_struct *tsk);
bool hydra_split(struct mm_struct *mm);
bool hydra_unsplit(struct mm_struct *mm);
void hydra_return_alone(struct hydra_mm *h);
u32 hydra_last_now(struct mm_struct *mm, unsigned int scope);
bool hydra_runs_in_several(struct mm_struct *mm, unsigned int scope);
bool hydra_mmap_trylock(struct mm_struct *mm);
bool hydra_queue(struct mm_struct *mm, enum hydra_request request);
void hydra_go_on_returning(struct mm_struct *mm);
struct mem_cgroup *hydra_charge_begin(struct mm_struct *mm, struct mem_cgroup **old);
void hydra_charge_end(struct mem_cgroup *memcg, struct mem_cgroup *old);

#endif /* _ARCH_X86_MM_HYDRA_SPLITTER_H */
