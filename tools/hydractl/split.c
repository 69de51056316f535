// SPDX-License-Identifier: GPL-2.0-only
#include "split.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpulist.h"
#include "kernel.h"
#include "threads.h"

const char *const split_words[] = {
	[SPLIT_DONE] = "split", [SPLIT_LINUX] = "linux", [SPLIT_ONE_THREAD] = "one-thread",
	[SPLIT_ONE_DOMAIN] = "one-domain", [SPLIT_ASLEEP] = "asleep", [SPLIT_BUSY] = "busy",
};

/* The kinds of domains, the kernel's lists of them, and how to call one. */
static const struct {
	const char *name, *file, *where;
} kinds[] = {
	{ "node", "domains", "on one node" },
	{ "llc", "domains_llc", "in one last-level cache" },
	{ "core", "domains_core", "on one core" },
};

static size_t kind_of(const struct process *process)
{
	const char *name = process_text(process, "domains");

	for (size_t i = 1; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return i;
	return 0;
}

/* The domain of a CPU; UINT64_MAX if it is in none. */
static uint64_t domain_of(const struct records *domains, uint64_t cpu)
{
	uint64_t domain, first, last;

	for (size_t i = 0; i < domains->count; i++) {
		const char *list = record_get(&domains->record[i], "cpus");

		if (!list || !record_get_u64(&domains->record[i], "domain", &domain))
			continue;
		while ((list = cpulist_next(list, &first, &last)))
			if (cpu >= first && cpu <= last)
				return domain;
	}
	return UINT64_MAX;
}

/* The domains in which threads ran last, and in which threads run now or may at once. */
struct places {
	size_t threads;
	uint64_t first, first_running;
	bool several, several_running;
};

static void add_place(uint64_t domain, uint64_t *first, bool *several)
{
	if (domain == UINT64_MAX)
		return;
	*several |= *first != UINT64_MAX && *first != domain;
	if (*first == UINT64_MAX)
		*first = domain;
}

static void look(struct places *places, const struct process *process)
{
	char *path = process_path(process->pid, "task");
	DIR *directory = opendir(path);
	struct records domains;
	struct dirent *entry;

	if (!records_parse(&domains, kernel_file(kinds[kind_of(process)].file), "domain"))
		domains = (struct records){ 0 };
	while (directory && (entry = readdir(directory))) {
		uint64_t cpu, domain;
		bool runs;

		if (!isdigit((unsigned char)*entry->d_name) ||
		    !thread_look(process->pid, entry->d_name, &cpu, &runs))
			continue;
		places->threads++;
		domain = domain_of(&domains, cpu);
		add_place(domain, &places->first, &places->several);
		if (runs)
			add_place(domain, &places->first_running, &places->several_running);
	}
	if (directory)
		closedir(directory);
	records_free(&domains);
	free(path);
}

enum split split_of(const struct process *process)
{
	struct places places = { .first = UINT64_MAX, .first_running = UINT64_MAX };

	if (!process_active(process))
		return SPLIT_LINUX;
	if (process_number(process, "split"))
		return SPLIT_DONE;
	look(&places, process);
	if (places.threads < 2)
		return SPLIT_ONE_THREAD;
	if (!places.several)
		return SPLIT_ONE_DOMAIN;
	return places.several_running ? SPLIT_BUSY : SPLIT_ASLEEP;
}

bool split_is_late(enum split split)
{
	return split == SPLIT_ASLEEP || split == SPLIT_BUSY;
}

char *split_sentence(const struct process *process, enum split split)
{
	const char *kind = kinds[kind_of(process)].name;
	char *text = NULL;
	int length = 0;

	switch (split) {
	case SPLIT_DONE:
	case SPLIT_LINUX:
		return NULL;
	case SPLIT_ONE_THREAD:
		length = asprintf(&text, "not split: it has a single thread, and is plain Linux until it has more");
		break;
	case SPLIT_ONE_DOMAIN:
		length = asprintf(&text, "not split: its threads ran last %s, and it is plain Linux until they run on more",
				  kinds[kind_of(process)].where);
		break;
	case SPLIT_ASLEEP:
		length = asprintf(&text, "not split yet: threads ran last in several domains (kind %s), but sleep now; it is split when they run again",
				  kind);
		break;
	case SPLIT_BUSY:
		length = asprintf(&text, "not split yet: threads run in several domains (kind %s), and keep the lock of their memory (mmap_lock) busy; it is split when one of them finds it free",
				  kind);
		break;
	}
	return must_have(length < 0 ? NULL : text);
}
