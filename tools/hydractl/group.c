// SPDX-License-Identifier: GPL-2.0-only
#include "group.h"

#include <error.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup.h"
#include "kernel.h"
#include "process.h"
#include "text.h"
#include "view.h"

#define GROUP_OPTIONS									\
	{ "tree", 'T', "PID", 0, "Process PID and its descendants", 0 },		\
	{ "cgroup", 'g', "PATH", 0,							\
	  "The processes of a cgroup (version 2) and of the cgroups below, e.g. /system.slice", 0 }, \
	{ "unit", 'u', "NAME", 0, "The processes of a systemd unit, e.g. nginx.service (or nginx), user.slice", 0 }, \
	{ "system", 'a', NULL, 0, "All processes", 0 }

static const struct argp_option options[] = { GROUP_OPTIONS, { 0 } };
static const struct argp_option all_options[] = { GROUP_OPTIONS, { "all", 'A', NULL, 0, "The same as --system", 0 }, { 0 } };

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const char kinds[] = { [GROUP_TREE] = 'T', [GROUP_CGROUP] = 'g', [GROUP_UNIT] = 'u', [GROUP_SYSTEM] = 'a' };
	struct group *group = state->input;

	for (enum group_kind kind = GROUP_TREE; kind <= GROUP_SYSTEM; kind++) {
		if (key != kinds[kind] && !(key == 'A' && kind == GROUP_SYSTEM))
			continue;
		if (group->kind != GROUP_NONE)
			argp_error(state, "give one of --tree, --cgroup, --unit and --system");
		group->kind = kind;
		group->name = arg;
		if (kind == GROUP_TREE)
			group->pid = parse_pid(state, arg);
		else if (arg && !*arg)
			argp_error(state, "--%s needs a name", group_kind_name(group));
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

const struct argp group_argp = { .options = options, .parser = parse_option };
const struct argp group_all_argp = { .options = all_options, .parser = parse_option };

const char *group_kind_name(const struct group *group)
{
	static const char *const names[] = {
		[GROUP_NONE] = "system", [GROUP_TREE] = "tree", [GROUP_CGROUP] = "cgroup",
		[GROUP_UNIT] = "unit", [GROUP_SYSTEM] = "system",
	};

	return names[group->kind];
}

char *group_title(const struct group *group)
{
	char *name = must_have(printable(group->name ?: "")), *title;
	int length = -1;

	switch (group->kind) {
	case GROUP_TREE:
		length = asprintf(&title, "process %d and its descendants", group->pid);
		break;
	case GROUP_CGROUP:
		length = asprintf(&title, "cgroup %s", name);
		break;
	case GROUP_UNIT:
		length = asprintf(&title, "unit %s", name);
		break;
	case GROUP_NONE:
	case GROUP_SYSTEM:
		length = asprintf(&title, "the system");
		break;
	}
	free(name);
	return must_have(length < 0 ? NULL : title);
}

void group_find(struct group *group)
{
	size_t count;
	pid_t *pids;

	if (group->kind == GROUP_CGROUP)
		group->path = cgroup_find(group->name);
	if (group->kind == GROUP_UNIT)
		group->path = cgroup_find_unit(group->name);
	if (group->kind != GROUP_TREE)
		return;
	pids = group_pids(group, &count);
	if (!pids)
		error(EXIT_ERROR, 0, "no process %d", group->pid);
	free(pids);
}

pid_t parent_of(pid_t pid)
{
	char *text = process_file(pid, "stat");
	/* "12 (name) S 1 ...": the name may be any bytes. */
	char *end = text ? strrchr(text, ')') : NULL;
	int parent = 0;

	if (end && sscanf(end, ") %*c %d", &parent) != 1)
		parent = 0;
	free(text);
	return parent;
}

static int compare_pids(const void *a, const void *b)
{
	pid_t first = *(const pid_t *)a, second = *(const pid_t *)b;

	return (first > second) - (first < second);
}

static bool contains(const pid_t *pids, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/*
 * @root and its descendants. A child may have a lower PID than the parent, so look until
 * nothing is added.
 */
static pid_t *tree_pids(pid_t root, size_t *count)
{
	size_t all_count, added;
	pid_t *all = all_pids(&all_count), *parents, *pids;

	parents = must_have(calloc(all_count + 1, sizeof(*parents)));
	pids = must_have(calloc(all_count + 1, sizeof(*pids)));
	for (size_t i = 0; i < all_count; i++)
		parents[i] = parent_of(all[i]);
	*count = 0;
	if (contains(all, all_count, root))
		pids[(*count)++] = root;
	do {
		added = *count;
		for (size_t i = 0; i < all_count; i++)
			if (contains(pids, *count, parents[i]) && !contains(pids, *count, all[i]))
				pids[(*count)++] = all[i];
	} while (added != *count);
	free(all);
	free(parents);
	if (*count)
		return pids;
	free(pids);
	return NULL;
}

pid_t *group_pids(const struct group *group, size_t *count)
{
	pid_t *pids;

	if (group->kind == GROUP_TREE)
		pids = tree_pids(group->pid, count);
	else if (group->path)
		pids = cgroup_pids(group->path, count);
	else
		return all_pids(count);
	if (pids)
		qsort(pids, *count, sizeof(*pids), compare_pids);
	return pids;
}

void group_gone(const struct group *group)
{
	char *title = group_title(group);

	if (group->kind == GROUP_TREE)
		error(EXIT_GONE, 0, "process %d has ended: nothing is left to watch", group->pid);
	error(EXIT_GONE, 0, "%s has gone (%s was removed): nothing is left to watch", title, group->path);
	abort();
}
