/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes whose settings a command changes: those named by PID, or those of options.group. */
#ifndef TARGETS_H
#define TARGETS_H

#include "process.h"

/* The parser of [PID...], --tree, --cgroup, --unit, --system and --all; the command needs one of them. */
extern const struct argp targets_argp;

/* The PIDs that were named. */
extern pid_t *named;
extern size_t named_count;

struct targets {
	bool (*wanted)(const struct process *process);	/* is it still to be changed? */
	char *(*change)(pid_t pid);			/* returns why not, to be freed, or NULL */

	size_t changed, failed;				/* set by targets_change(): how many */
};

/*
 * Change those that are wanted; of a group also what they start meanwhile. Say on stderr why
 * a process has not changed. Exit if there is no such group.
 */
void targets_change(struct targets *targets);

#endif /* TARGETS_H */
