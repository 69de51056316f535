/* SPDX-License-Identifier: GPL-2.0-only */
/* The NUMA nodes on which the threads of a process ran. */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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

/* The CPU on which a thread of process @pid ran last; false if there is no such thread. */
bool thread_cpu(pid_t pid, const char *thread, uint64_t *cpu);

/* The same, and whether the thread runs, or waits for a CPU alone. */
bool thread_look(pid_t pid, const char *thread, uint64_t *cpu, bool *runs);

/* Field @field of /proc/PID/stat, counted from 1 as in proc(5); 0 if @text has none. Not for the first two. */
uint64_t stat_field(const char *text, unsigned int field);

#endif /* THREADS_H */
