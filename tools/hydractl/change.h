/* SPDX-License-Identifier: GPL-2.0-only */
/* Changing the settings of a running process. */
#ifndef CHANGE_H
#define CHANGE_H

#include <linux/hydra.h>
#include <stdbool.h>
#include <sys/types.h>

/* Give process @pid the settings. Returns NULL, or why that failed, to be freed. */
char *process_change(pid_t pid, const struct hydra_settings *settings);

/* The same for all virtual machines of the process. @follow: their tables follow the data. */
char *vms_change(pid_t pid, const struct hydra_settings *settings, bool follow);

/* Write @text to /proc/@pid/hydra. False and errno. */
bool process_write(pid_t pid, const char *text);

#endif /* CHANGE_H */
