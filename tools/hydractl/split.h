/* SPDX-License-Identifier: GPL-2.0-only */
/* Does a process under a policy have page tables for each domain yet, and if not, why? */
#ifndef SPLIT_H
#define SPLIT_H

#include "process.h"

enum split {
	SPLIT_DONE,		/* the domains have page tables of their own */
	SPLIT_LINUX,		/* the policy is linux: nothing to split */
	SPLIT_ONE_THREAD,	/* such a process is never split */
	SPLIT_ONE_DOMAIN,	/* all threads ran last in one domain */
	SPLIT_ASLEEP,		/* threads ran last in several domains, and all or all but those in one sleep */
	SPLIT_BUSY,		/* threads run in several domains: it is about to be split */
};

enum split split_of(const struct process *process);

/* For scripts: "split", "linux", "one-thread", "one-domain", "asleep", "busy". */
extern const char *const split_words[];

/* Threads ran in several domains, and yet there are no page tables for each. */
bool split_is_late(enum split split);

/* "not split yet: ...", to be freed; NULL if there is nothing to say: SPLIT_DONE and SPLIT_LINUX. */
char *split_sentence(const struct process *process, enum split split);

#endif /* SPLIT_H */
