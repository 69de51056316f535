/* SPDX-License-Identifier: GPL-2.0-only */
/* Changing the settings of running processes and virtual machines, and why the kernel refuses settings. */
#ifndef CHANGE_H
#define CHANGE_H

#include <linux/hydra.h>
#include <stdbool.h>
#include <sys/types.h>

struct settings_choice;

/* What virtual machines have apart from the settings of processes; NULL: it stays. */
struct vm_settings {
	const char *tables;	/* "follow": the tables of a machine's one tree move to its memory; or "stay" */
	const char *expose;	/* "on": the guest may ask where its CPUs and its memory are; or "off" */
};

/* Give process @pid the settings. Returns NULL, or why that failed, to be freed. */
char *process_change(pid_t pid, const struct hydra_settings *settings);

/* The same for all virtual machines of the process: what the two name. If they name nothing, a machine that went back to one tree tries again. */
char *vms_change(pid_t pid, const struct settings_choice *choice, const struct vm_settings *more);

/* Why the kernel refused settings (errno), to be freed. */
char *settings_refusal(const char *settings);

#endif /* CHANGE_H */
