/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the threads of a process ran: on which nodes, and why it has no page tables for each domain yet. */
#ifndef THREADS_H
#define THREADS_H

#include <sys/types.h>

#include "process.h"

struct thread_nodes {
	size_t threads;		/* at the look with the most */
	size_t count;
	struct {
		uint64_t node;
		size_t threads;	/* at the look with the most */
	} *node;		/* in the order of the nodes */
};

/* Look where each thread of process @pid ran last. Begin with an empty struct; a further look adds nodes. */
void thread_nodes_look(struct thread_nodes *nodes, pid_t pid);
void thread_nodes_free(struct thread_nodes *nodes);

/* "0,2-3", to be freed. */
char *thread_nodes_list(const struct thread_nodes *nodes);

/* Does a process under a policy have page tables for each domain yet, and if not, why? */
enum split {
	SPLIT_DONE,		/* the domains have page tables of their own */
	SPLIT_LINUX,		/* the policy is linux: nothing to split */
	SPLIT_ONE_THREAD,	/* such a process is never split */
	SPLIT_ONE_DOMAIN,	/* all threads ran last in one domain */
	SPLIT_ASLEEP,		/* threads ran last in several domains, and all or all but those in one sleep */
	SPLIT_BUSY,		/* threads run in several domains: it is about to be split */
	SPLIT_AUTO,		/* the kernel decides: why.h */
};

enum split split_of(const struct process *process);

/* For scripts: "split", "linux", "one-thread", "one-domain", "asleep", "busy", "auto". */
extern const char *const split_words[];

/* Threads ran in several domains, and yet there are no page tables for each. */
bool split_is_late(enum split split);

/* "not split yet: ...", to be freed; NULL if there is nothing to say: SPLIT_DONE and SPLIT_LINUX. */
char *split_sentence(const struct process *process, enum split split);

#endif /* THREADS_H */
