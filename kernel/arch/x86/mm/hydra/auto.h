/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Policy "auto": see auto.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_AUTO_H
#define _ARCH_X86_MM_HYDRA_AUTO_H

#include <linux/types.h>

struct mm_struct;
struct seq_file;

#define HYDRA_LOOK_MS_MIN	10
#define HYDRA_LOOK_MS_MAX	60000

void hydra_set_look_ms(unsigned int ms);
void hydra_show_account(struct mm_struct *mm, struct seq_file *m);
int hydra_show_auto_stats(char *buf);

#endif /* _ARCH_X86_MM_HYDRA_AUTO_H */
