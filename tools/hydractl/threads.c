// SPDX-License-Identifier: GPL-2.0-only
#include "threads.h"

#include <ctype.h>
#include <dirent.h>

#include "kernel.h"
#include "why.h"

#define STAT_FLAGS 9
#define STAT_PROCESSOR 39

/* A number for each CPU, as of the node; UINT64_MAX: none is known */
struct cpu_map {
	size_t cpus;
	uint64_t *number;
};

/* Give the CPUs of a list, as "0-3,8", a number. */
static void map_cpus(struct cpu_map *map, const char *list, uint64_t number)
{
	uint64_t first, last;
	char *end;

	for (; isdigit((unsigned char)*list); list = end + (*end == ',')) {
		first = last = strtoull(list, &end, 10);
		if (*end == '-')
			last = strtoull(end + 1, &end, 10);
		if (last >= map->cpus) {
			map->number = must_have(reallocarray(map->number, last + 1, sizeof(*map->number)));
			memset(map->number + map->cpus, 0xff, (last + 1 - map->cpus) * sizeof(*map->number));
			map->cpus = last + 1;
		}
		for (uint64_t cpu = first; cpu <= last; cpu++)
			map->number[cpu] = number;
	}
}

static uint64_t number_of(const struct cpu_map *map, uint64_t cpu)
{
	return cpu < map->cpus ? map->number[cpu] : UINT64_MAX;
}

static void read_nodes(struct cpu_map *nodes)
{
	autofree char *path = xasprintf("%s/devices/system/node", kernel_sys());
	DIR *directory = opendir(path);
	struct dirent *entry;
	uint64_t node;

	while (directory && (entry = readdir(directory))) {
		autofree char *file = xasprintf("%s/%s/cpulist", path, entry->d_name), *text = NULL;

		if (strncmp(entry->d_name, "node", 4) || !parse_u64(entry->d_name + 4, &node))
			continue;
		text = file_read(file);
		map_cpus(nodes, text ?: "", node);
	}
	if (directory)
		closedir(directory);
}

struct thread {
	uint64_t cpu;		/* on which it ran last */
	bool runs;		/* or waits for a CPU alone */
};

/* In field 9 of stat: a thread of the kernel that works for the process, as io_uring's */
#define PF_USER_WORKER	0x4000

/* The threads of a process that run its code, to be freed. The kernel counts as this does. */
static struct thread *read_threads(pid_t pid, size_t *count)
{
	autofree char *path = process_path(pid, "task");
	DIR *directory = opendir(path);
	struct thread *threads = NULL;
	struct dirent *entry;

	*count = 0;
	while (directory && (entry = readdir(directory))) {
		autofree char *file = xasprintf("%s/%s/stat", path, entry->d_name), *text = NULL;
		const char *state;

		if (isdigit((unsigned char)*entry->d_name))
			text = file_read(file);
		if (!text || stat_field(text, STAT_FLAGS) & PF_USER_WORKER)
			continue;
		threads = must_have(reallocarray(threads, *count + 1, sizeof(*threads)));
		state = strrchr(text, ')');
		threads[(*count)++] = (struct thread){
			.cpu = stat_field(text, STAT_PROCESSOR),
			.runs = state && !strncmp(state, ") R", 3),
		};
	}
	if (directory)
		closedir(directory);
	return threads;
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

void thread_nodes_look(struct thread_nodes *nodes, pid_t pid)
{
	static struct cpu_map node_of_cpu;
	struct thread_nodes now = { 0 };
	autofree struct thread *threads = read_threads(pid, &now.threads);

	if (!node_of_cpu.cpus)
		read_nodes(&node_of_cpu);
	for (size_t i = 0; i < now.threads; i++) {
		uint64_t node = number_of(&node_of_cpu, threads[i].cpu);
		/* Without NUMA, all CPUs are on node 0. */
		size_t place = place_of(&now, node == UINT64_MAX ? 0 : node);

		now.node[place].threads++;
	}
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
	char *text = NULL;

	for (size_t i = 0, last; i < nodes->count; i = last + 1) {
		for (last = i; last + 1 < nodes->count &&
		     nodes->node[last + 1].node == nodes->node[last].node + 1; last++)
			;
		append(&text, "%s%" PRIu64, i ? "," : "", nodes->node[i].node);
		if (last > i)
			append(&text, "-%" PRIu64, nodes->node[last].node);
	}
	return text ?: must_have(strdup(""));
}

const char *const split_words[] = {
	[SPLIT_DONE] = "split", [SPLIT_LINUX] = "linux", [SPLIT_ONE_THREAD] = "one-thread",
	[SPLIT_ONE_DOMAIN] = "one-domain", [SPLIT_ASLEEP] = "asleep", [SPLIT_BUSY] = "busy",
	[SPLIT_AUTO] = "auto",
};

/* The scopes of domains, the kernel's lists of them, and how to call one. */
static const struct scope {
	const char *name, *file, *where;
} scopes[] = {
	{ "node", "domains", "on one node" },
	{ "llc", "domains_llc", "in one last-level cache" },
	{ "core", "domains_core", "on one core" },
};

static const struct scope *scope_of(const struct process *process)
{
	const char *name = process_text(process, "domains");

	for (size_t i = 1; i < sizeof(scopes) / sizeof(*scopes); i++)
		if (!strcmp(scopes[i].name, name))
			return &scopes[i];
	return &scopes[0];
}

/* The domain of each CPU */
static struct cpu_map read_domains(const struct process *process)
{
	struct cpu_map map = { 0 };
	struct records domains;
	uint64_t domain;

	if (!records_parse(&domains, kernel_file(scope_of(process)->file), "domain"))
		return map;
	for (size_t i = 0; i < domains.count; i++)
		if (record_get_u64(&domains.record[i], "domain", &domain))
			map_cpus(&map, record_get(&domains.record[i], "cpus") ?: "", domain);
	records_free(&domains);
	return map;
}

enum split split_of(const struct process *process)
{
	uint64_t seen = UINT64_MAX, seen_running = UINT64_MAX;	/* the last domain */
	bool several = false, several_running = false;
	autofree struct thread *threads = NULL;
	struct cpu_map domains;
	size_t count;

	if (!process_active(process))
		return SPLIT_LINUX;
	if (process_number(process, "split"))
		return SPLIT_DONE;
	if (process_is_auto(process))
		return SPLIT_AUTO;
	threads = read_threads(process->pid, &count);
	if (count < 2)
		return SPLIT_ONE_THREAD;
	domains = read_domains(process);
	for (size_t i = 0; i < count; i++) {
		uint64_t domain = number_of(&domains, threads[i].cpu);

		if (domain == UINT64_MAX)
			continue;
		several |= seen != UINT64_MAX && seen != domain;
		seen = domain;
		if (!threads[i].runs)
			continue;
		several_running |= seen_running != UINT64_MAX && seen_running != domain;
		seen_running = domain;
	}
	free(domains.number);
	if (!several)
		return SPLIT_ONE_DOMAIN;
	return several_running ? SPLIT_BUSY : SPLIT_ASLEEP;
}

bool split_is_late(enum split split)
{
	return split == SPLIT_ASLEEP || split == SPLIT_BUSY;
}

char *split_sentence(const struct process *process, enum split split)
{
	const struct scope *scope = scope_of(process);

	switch (split) {
	case SPLIT_ONE_THREAD:
		return must_have(strdup("not split: it has a single thread, and is plain Linux until it has more"));
	case SPLIT_ONE_DOMAIN:
		return xasprintf("not split: its threads ran last %s, and it is plain Linux until they run on more",
				 scope->where);
	case SPLIT_ASLEEP:
		return xasprintf("not split yet: threads ran last in several domains (kind %s), but sleep now; it is split when they run again",
				 scope->name);
	case SPLIT_BUSY:
		return xasprintf("not split yet: threads run in several domains (kind %s), and keep the lock of their memory (mmap_lock) busy; it is split when one of them, or the kernel's thread hydra_splitter, gets it",
				 scope->name);
	case SPLIT_AUTO:
		return why_sentence(process);
	default:
		return NULL;
	}
}
