/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A timer asks threads: see ask.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_ASK_H
#define _ARCH_X86_MM_HYDRA_ASK_H

struct mm_struct;
struct task_struct;

bool hydra_may_split(struct task_struct *tsk, struct mm_struct *mm);
void hydra_ask_again(void);
void hydra_ask_at(unsigned long when);
void hydra_ask_all(struct mm_struct *mm);

#endif /* _ARCH_X86_MM_HYDRA_ASK_H */
