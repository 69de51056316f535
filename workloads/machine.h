/* SPDX-License-Identifier: GPL-2.0-only */
/* The nodes and CPUs of the machine, threads pinned to them, and the clock. */
#ifndef MACHINE_H
#define MACHINE_H

#include <pthread.h>
#include <stddef.h>

/* Exit status when the machine or the kernel lacks what a program needs. */
#define EXIT_LACKING 2

struct node {
	int id;
	size_t cpu_count;
	int *cpu;
};

/* Nodes that have CPUs this process may run on, in order. */
struct machine {
	size_t node_count;
	struct node *node;
};

/* Leaves with a message on machines without NUMA. */
struct machine machine_read(void);

/* Pin the calling thread. */
void pin_self(int cpu);

/* Start a thread that never runs user code anywhere but on @cpu. */
pthread_t start_pinned(int cpu, void *(*function)(void *argument), void *argument);

/*
 * From here on, memory of this process and of threads it starts is made of
 * 4 KiB pages that stay where they are. What these programs measure is leaf
 * page tables, and a huge page has none. NUMA balancing would take access away
 * from pages now and then to see which node uses them, each time with a
 * shootdown that belongs to no operation.
 */
void use_plain_memory(void);

/*
 * From here on, mprotect() of a page means no barrier in all threads: the process has
 * membarrier(2) for that. Policy "auto" treats it accordingly.
 */
void register_membarrier(void);

/* Seconds, by a clock that is never set. */
double now(void);

#endif /* MACHINE_H */
