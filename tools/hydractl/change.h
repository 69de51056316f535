/* SPDX-License-Identifier: GPL-2.0-only */
/* Changing the settings of a running process. */
#ifndef CHANGE_H
#define CHANGE_H

#include <linux/hydra.h>
#include <stdbool.h>
#include <sys/types.h>

/* What virtual machines have apart from the settings of processes */
struct vm_settings {
	bool follow;		/* the tables of a machine's one tree move to its memory */
	bool expose;		/* the guest may ask where its CPUs and its memory are */
};

/* Give process @pid the settings. Returns NULL, or why that failed, to be freed. */
char *process_change(pid_t pid, const struct hydra_settings *settings);

/* The same for all virtual machines of the process. */
char *vms_change(pid_t pid, const struct hydra_settings *settings, const struct vm_settings *more);

/* Write @text to /proc/@pid/hydra. False and errno. */
bool process_write(pid_t pid, const char *text);

#endif /* CHANGE_H */
