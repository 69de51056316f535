/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's functions for /proc/PID/hydra, hydra_tables, hydra_map and hydra_check.
 *
 * See fs/proc/hydra.c.
 */
#ifndef _LINUX_HYDRA_PROC_H
#define _LINUX_HYDRA_PROC_H

#include <linux/hydra_types.h>
#include <linux/types.h>

struct file;
struct mm_struct;
struct seq_file;

/* Size of the longest text of settings, with the final 0 */
#define HYDRA_TEXT_MAX		128

union hydra_choice hydra_settings_get(const struct mm_struct *mm);
int hydra_settings_set(struct mm_struct *mm, const union hydra_choice *old,
		       union hydra_choice settings);
bool hydra_may_choose(const struct file *file);
int hydra_settings_parse(const char *text, union hydra_choice *settings);

int hydra_count_set(struct mm_struct *mm, bool on);

/* Addresses whose leaf tables, as a domain walks them, are on one node */
struct hydra_map_range {
	unsigned int domain;
	int nid;
	unsigned long start;
	unsigned long end;
};

int hydra_show_settings(struct mm_struct *mm, struct seq_file *m);
int hydra_show_tables(struct mm_struct *mm, struct seq_file *m);
int hydra_map_next(struct mm_struct *mm, struct hydra_map_range *range);
long hydra_check_mm(struct mm_struct *mm, struct seq_file *m);

#endif /* _LINUX_HYDRA_PROC_H */
