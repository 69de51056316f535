/* SPDX-License-Identifier: GPL-2.0-only */
/* Acquisitions of a process's mmap_lock, by system call, from the lines of the kernel's trace. */
#ifndef LOCK_COUNT_H
#define LOCK_COUNT_H

#include <sys/types.h>

#include "region_rule.h"

/* A wait is what took so long: less is the time of the lock and the trace themselves. */
#define LEAST_WAIT_US 10

struct lock_calls {
	uint64_t read, write, fits;	/* acquisitions; those for writing by calls that would fit a region */
	uint64_t waits, waited_us;
};

struct lock_count {
	struct regions regions;
	bool none_fit;			/* by a limit of the process */
	uint64_t mm;			/* of the process, as the trace names it; 0: not seen yet */
	uint64_t lost;			/* events that the kernel has thrown away */
	bool stale;			/* regions is no longer right, as events were lost: for the caller to mend */
	void *threads;			/* by thread: what it is doing */
	struct lock_calls *calls;	/* by lock_call_name() */
};

/* The names of the calls that are told apart, from 0 on, NULL behind the last one; the last is all else. */
const char *lock_call_name(size_t call);

/* The filter for the system calls that may take the lock for writing, or often for reading; to be freed. */
char *lock_call_filter(void);

void lock_count_begin(struct lock_count *count);
void lock_count_free(struct lock_count *count);

/* A thread of the process: what it does shows which memory is the process's. */
void lock_count_thread(struct lock_count *count, pid_t thread);

/* Count a line of the trace. */
void lock_count_line(struct lock_count *count, const char *line);

struct lock_calls lock_count_all(const struct lock_count *count);

#endif /* LOCK_COUNT_H */
