// SPDX-License-Identifier: GPL-2.0-only
#include "threads.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpulist.h"
#include "kernel.h"
#include "procfile.h"

#define STAT_PROCESSOR 39

uint64_t stat_field(const char *text, unsigned int field)
{
	/* "12 (name) S 1 ...": the name may be any bytes. */
	const char *end = strrchr(text, ')');

	for (unsigned int at = 2; end && at < field; at++) {
		end = strchr(end, ' ');
		end = end ? end + 1 : NULL;
	}
	return end ? strtoull(end, NULL, 10) : 0;
}

/* By the number of the CPU; unlisted CPUs are on node 0, as all CPUs are without NUMA. */
static uint64_t *node_of_cpu;
static size_t cpus;

static void add_cpu(uint64_t cpu, uint64_t node)
{
	if (cpu >= cpus) {
		node_of_cpu = must_have(reallocarray(node_of_cpu, cpu + 1, sizeof(*node_of_cpu)));
		memset(node_of_cpu + cpus, 0, (cpu + 1 - cpus) * sizeof(*node_of_cpu));
		cpus = cpu + 1;
	}
	node_of_cpu[cpu] = node;
}

static void add_cpus(const char *list, uint64_t node)
{
	uint64_t first, last;

	while ((list = cpulist_next(list, &first, &last)))
		for (uint64_t cpu = first; cpu <= last; cpu++)
			add_cpu(cpu, node);
}

static void read_nodes(void)
{
	char *path = must_have(asprintf(&path, "%s/devices/system/node", kernel_sys()) < 0 ? NULL : path);
	DIR *directory = opendir(path);
	struct dirent *entry;
	uint64_t node;

	while (directory && (entry = readdir(directory))) {
		char *list, *text;

		if (strncmp(entry->d_name, "node", 4) || !parse_u64(entry->d_name + 4, &node))
			continue;
		list = must_have(asprintf(&list, "%s/%s/cpulist", path, entry->d_name) < 0 ? NULL : list);
		text = file_read(list);
		add_cpus(text ?: "", node);
		free(text);
		free(list);
	}
	if (directory)
		closedir(directory);
	free(path);
}

static size_t place_of(struct thread_nodes *nodes, uint64_t node)
{
	size_t place = 0;

	while (place < nodes->count && nodes->node[place].node < node)
		place++;
	if (place < nodes->count && nodes->node[place].node == node)
		return place;
	nodes->node = must_have(reallocarray(nodes->node, nodes->count + 1, sizeof(*nodes->node)));
	memmove(&nodes->node[place + 1], &nodes->node[place],
		(nodes->count++ - place) * sizeof(*nodes->node));
	nodes->node[place].node = node;
	nodes->node[place].threads = 0;
	return place;
}

bool thread_look(pid_t pid, const char *thread, uint64_t *cpu, bool *runs)
{
	char *path = process_path(pid, "task"), *file, *text, *state;
	bool there;

	file = must_have(asprintf(&file, "%s/%s/stat", path, thread) < 0 ? NULL : file);
	text = file_read(file);
	there = text;
	if (there) {
		*cpu = stat_field(text, STAT_PROCESSOR);
		state = strrchr(text, ')');
		*runs = state && !strncmp(state, ") R", 3);
	}
	free(text);
	free(file);
	free(path);
	return there;
}

bool thread_cpu(pid_t pid, const char *thread, uint64_t *cpu)
{
	bool runs;

	return thread_look(pid, thread, cpu, &runs);
}

/* Count the threads of one look. */
static void look(struct thread_nodes *now, pid_t pid)
{
	char *path = process_path(pid, "task");
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		size_t place;
		uint64_t cpu;

		if (!isdigit((unsigned char)*entry->d_name) || !thread_cpu(pid, entry->d_name, &cpu))
			continue;
		now->threads++;
		place = place_of(now, cpu < cpus ? node_of_cpu[cpu] : 0);
		now->node[place].threads++;
	}
	if (directory)
		closedir(directory);
	free(path);
}

void thread_nodes_look(struct thread_nodes *nodes, pid_t pid)
{
	struct thread_nodes now = { 0 };

	if (!cpus)
		read_nodes();
	look(&now, pid);
	if (now.threads > nodes->threads)
		nodes->threads = now.threads;
	for (size_t i = 0; i < now.count; i++) {
		size_t place = place_of(nodes, now.node[i].node);

		if (now.node[i].threads > nodes->node[place].threads)
			nodes->node[place].threads = now.node[i].threads;
	}
	thread_nodes_free(&now);
}

void thread_nodes_free(struct thread_nodes *nodes)
{
	free(nodes->node);
	*nodes = (struct thread_nodes){ 0 };
}

char *thread_nodes_list(const struct thread_nodes *nodes)
{
	char *text;
	size_t size;
	FILE *list = must_have(open_memstream(&text, &size));

	for (size_t i = 0, last; i < nodes->count; i = last + 1) {
		for (last = i; last + 1 < nodes->count &&
		     nodes->node[last + 1].node == nodes->node[last].node + 1; last++)
			;
		fprintf(list, "%s%" PRIu64, i ? "," : "", nodes->node[i].node);
		if (last > i)
			fprintf(list, "-%" PRIu64, nodes->node[last].node);
	}
	must_have(fclose(list) ? NULL : text);
	return text;
}
