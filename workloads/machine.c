// SPDX-License-Identifier: GPL-2.0-only
#include "machine.h"

#include <errno.h>
#include <error.h>
#include <linux/membarrier.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct machine machine_read(void)
{
	struct machine machine = { 0 };
	int nodes, cpus;

	if (numa_available() < 0)
		error(EXIT_LACKING, 0, "this kernel has no NUMA: boot one built with CONFIG_NUMA");
	nodes = numa_max_node() + 1;
	cpus = numa_num_configured_cpus();

	machine.node = calloc(nodes, sizeof(*machine.node));
	if (!machine.node)
		error(EXIT_FAILURE, errno, "list of nodes");
	for (int id = 0; id < nodes; id++) {
		struct node *node = &machine.node[machine.node_count];

		node->id = id;
		node->cpu = calloc(cpus, sizeof(*node->cpu));
		if (!node->cpu)
			error(EXIT_FAILURE, errno, "list of CPUs");
		for (int cpu = 0; cpu < cpus; cpu++)
			if (numa_bitmask_isbitset(numa_all_cpus_ptr, cpu) &&
			    numa_node_of_cpu(cpu) == id)
				node->cpu[node->cpu_count++] = cpu;
		if (node->cpu_count)
			machine.node_count++;
		else
			free(node->cpu);
	}
	return machine;
}

static void cpu_set_one(cpu_set_t *set, int cpu)
{
	CPU_ZERO(set);
	CPU_SET(cpu, set);
}

void pin_self(int cpu)
{
	cpu_set_t set;

	cpu_set_one(&set, cpu);
	if (sched_setaffinity(0, sizeof(set), &set))
		error(EXIT_FAILURE, errno, "cannot run on CPU %d", cpu);
}

pthread_t start_pinned(int cpu, void *(*function)(void *argument), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;
	int failed;

	cpu_set_one(&set, cpu);
	pthread_attr_init(&attributes);
	failed = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	if (!failed)
		failed = pthread_create(&thread, &attributes, function, argument);
	if (failed)
		error(EXIT_FAILURE, failed, "cannot start a thread on CPU %d", cpu);
	pthread_attr_destroy(&attributes);
	return thread;
}

void use_plain_memory(void)
{
	/* EINVAL: a kernel that has no transparent huge pages. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) && errno != EINVAL)
		error(EXIT_FAILURE, errno, "cannot turn transparent huge pages off");
	/* Local is the default, too; NUMA balancing leaves a process alone that asks for it. */
	if (set_mempolicy(MPOL_LOCAL, NULL, 0))
		error(EXIT_FAILURE, errno, "cannot keep memory where it is");
}

void register_membarrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		error(EXIT_LACKING, errno, "no membarrier(2): boot a kernel built with CONFIG_MEMBARRIER");
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}
