/* SPDX-License-Identifier: GPL-2.0-only */
/* The traced processes and their threads, with the last look at the counters of each. */
#ifndef MEMBERS_H
#define MEMBERS_H

#include <sys/types.h>

#include "tally.h"

/* The first sight of a thread, of a new process or of a known one. */
void member_thread_seen(struct tally *tally, pid_t tid);

/* Read the counters, while the thread still has its memory. */
void member_look(struct tally *tally, pid_t tid);
void members_look(struct tally *tally);

/* The process runs a new program now: what it counted before is in the last look. */
void member_executed(struct tally *tally, pid_t pid);

/* The thread has ended; with the last one, the process. */
void member_thread_ended(struct tally *tally, pid_t tid);

/* Stop counting: add up those that still run. */
void members_finish(struct tally *tally);

#endif /* MEMBERS_H */
