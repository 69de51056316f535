/* SPDX-License-Identifier: GPL-2.0-only */
/* A trace of its own that the kernel writes for hydractl: the locks and system calls of the threads of a process. */
#ifndef LOCK_TRACE_H
#define LOCK_TRACE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Begin to trace @count threads and what they start. The system calls are those of @filter. Exit with a message if the kernel
 * cannot. However hydractl ends, except by SIGKILL, the trace ends with it.
 */
void lock_trace_begin(const pid_t *threads, size_t count, const char *filter);

/* Hand over the lines that have come, but not later than at the moment @until. */
void lock_trace_read(void (*take)(void *argument, const char *line), void *argument, double until);

/* No more lines come than those that are there. */
void lock_trace_stop(void);

void lock_trace_end(void);

#endif /* LOCK_TRACE_H */
