/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes that 'hydractl explain' watches: counted for a while, and then as before. */
#ifndef SUBJECTS_H
#define SUBJECTS_H

#include <stdbool.h>
#include <stddef.h>

#include "leaf_tables.h"
#include "process.h"
#include "threads.h"

struct subject {
	pid_t pid;
	char *name;
	bool switched_on;	/* counted because hydractl asked */
	bool ended;
	double moment, seconds;	/* when the watch began, how long it took */
	struct process before, after;
	struct thread_nodes nodes;
	struct leaf_tables tables;	/* if asked for and permitted, else empty */
	enum split split;
	char *late;			/* of an active process: why it is not split; else NULL */
	const char *policy;
	bool active;			/* the policy is not linux */
	double flushes, sent, across, spared;	/* per second */
	uint64_t table_kib;		/* of all page tables, those of Hydra included */
	uint64_t hydra_kib;		/* of Hydra's */
};

struct subjects {
	size_t count;
	struct subject *subject;
	unsigned int unreadable, not_understood;	/* left out */
};

/*
 * Begin to count the processes. A process of a list that cannot be counted is left out;
 * one that was @named ends hydractl with a message. However hydractl ends, except by
 * SIGKILL, the processes are no longer counted then.
 */
void subjects_begin(struct subjects *subjects, const pid_t *pids, size_t count, bool named);

/* Look again, and with @tables also at the page tables. */
void subjects_look(struct subjects *subjects, bool tables);

/* Stop counting those that hydractl switched on, and what they have started since. */
void subjects_restore(void);

#endif /* SUBJECTS_H */
