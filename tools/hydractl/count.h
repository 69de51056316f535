/* SPDX-License-Identifier: GPL-2.0-only */
/* Having the kernel count the flushes of a process that is plain Linux. */
#ifndef COUNT_H
#define COUNT_H

#include <stdbool.h>
#include <sys/types.h>

#include "process.h"

/* Count process @pid under any settings, or stop. False and errno. */
bool count_set(pid_t pid, bool on);

/* Does the kernel say of the process whether it is counted? */
bool count_known(const struct process *process);

/* Is the process counted under any settings? */
bool counted(const struct process *process);

/* A counter of the ended processes that are counted together with this one. */
uint64_t counted_ended(const struct process *process, const char *key);

/* Why count_set() failed (errno), or why count_known() is false (EINVAL); to be freed. */
char *count_refusal(pid_t pid);

#endif /* COUNT_H */
