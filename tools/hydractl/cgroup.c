// SPDX-License-Identifier: GPL-2.0-only
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <mntent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "text.h"

static char *joined(const char *directory, const char *name)
{
	char *path;

	return must_have(asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path);
}

/* Where cgroups of version 2 are mounted; exit if nowhere. */
static char *cgroup_root(void)
{
	char *mounts = joined(kernel_proc(), "self/mounts"), *root = NULL;
	FILE *file = setmntent(mounts, "re");
	struct mntent *entry;

	if (!file)
		error(EXIT_ERROR, errno, "cannot read %s", mounts);
	while (!root && (entry = getmntent(file)))
		if (!strcmp(entry->mnt_type, "cgroup2"))
			root = must_have(strdup(entry->mnt_dir));
	endmntent(file);
	if (!root)
		error(EXIT_ERROR, 0, "no cgroups of version 2 are mounted (%s): mount them with 'mount -t cgroup2 none /sys/fs/cgroup', or use --tree",
		      mounts);
	free(mounts);
	return root;
}

/* Is the directory a cgroup, which each has this file? */
static bool is_cgroup(const char *path)
{
	char *procs = joined(path, "cgroup.procs");
	bool is = !access(procs, F_OK);

	free(procs);
	return is;
}

char *cgroup_find(const char *name)
{
	char *root = cgroup_root(), *path, *shown;
	size_t length = strlen(root);
	bool whole = !strncmp(name, root, length) && (!name[length] || name[length] == '/');

	path = whole ? must_have(strdup(name)) : joined(root, name + strspn(name, "/"));
	if (is_cgroup(path)) {
		free(root);
		return path;
	}
	shown = must_have(printable(path));
	error(EXIT_ERROR, 0, "no cgroup %s: 'systemd-cgls', or 'find %s -type d', lists the cgroups",
	      shown, root);
	abort();
}

typedef void visit(const char *path, const char *name, void *data);

/* Call @visit for the directory and all below. A directory that cannot be listed has no subdirectories to see. */
static void walk(const char *path, const char *name, visit *visit, void *data)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	visit(path, name, data);
	while (directory && (entry = readdir(directory))) {
		char *below;

		if (entry->d_type != DT_DIR || *entry->d_name == '.')
			continue;
		below = joined(path, entry->d_name);
		walk(below, entry->d_name, visit, data);
		free(below);
	}
	if (directory)
		closedir(directory);
}

struct search {
	const char *name;
	char *found, *second;
};

/* systemd names the cgroup of a unit after the unit. */
static void look_for_name(const char *path, const char *name, void *data)
{
	struct search *search = data;

	if (strcmp(name, search->name))
		return;
	if (!search->found)
		search->found = must_have(strdup(path));
	else if (!search->second)
		search->second = must_have(strdup(path));
}

static bool has_unit_suffix(const char *name)
{
	static const char *const suffixes[] = { ".service", ".scope", ".slice", ".socket", ".mount", ".swap" };
	size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(*suffixes); i++) {
		size_t suffix = strlen(suffixes[i]);

		if (length > suffix && !strcmp(name + length - suffix, suffixes[i]))
			return true;
	}
	return false;
}

char *cgroup_find_unit(const char *name)
{
	char *root = cgroup_root(), *unit, *shown;
	struct search search = { 0 };

	unit = must_have(asprintf(&unit, "%s%s", name,
				  has_unit_suffix(name) ? "" : ".service") < 0 ? NULL : unit);
	search.name = unit;
	walk(root, "", look_for_name, &search);
	shown = must_have(printable(unit));
	if (!search.found)
		error(EXIT_ERROR, 0, "no unit %s runs (no cgroup below %s has its name): see 'systemctl status %s'",
		      shown, root, shown);
	if (search.second)
		error(EXIT_ERROR, 0, "several units %s run: choose one with --cgroup %s or --cgroup %s",
		      shown, search.found, search.second);
	free(shown);
	free(unit);
	free(root);
	return search.found;
}

struct pids {
	pid_t *pid;
	size_t count, room;
	bool gone;		/* the first directory is no cgroup any more */
	const char *first;
};

static void add_pid(struct pids *pids, pid_t pid)
{
	if (pids->count == pids->room) {
		pids->room = 2 * pids->room + 64;
		pids->pid = must_have(reallocarray(pids->pid, pids->room, sizeof(*pids->pid)));
	}
	pids->pid[pids->count++] = pid;
}

/*
 * A cgroup may be removed meanwhile, and one of threads has no list of processes: the
 * cgroup above lists its processes.
 */
static void add_pids(const char *path, const char *name, void *data)
{
	char *procs = joined(path, "cgroup.procs");
	FILE *file = fopen(procs, "re");
	struct pids *pids = data;
	int pid;

	(void)name;
	while (file && fscanf(file, "%d", &pid) == 1)
		/* 0 is a process of another PID namespace. */
		if (pid > 0)
			add_pid(pids, pid);
	if (!strcmp(path, pids->first))
		pids->gone = !file || (ferror(file) && errno == ENODEV);
	if (file)
		fclose(file);
	free(procs);
}

pid_t *cgroup_pids(const char *path, size_t *count)
{
	struct pids pids = { .first = path };

	pids.pid = must_have(malloc(1));
	walk(path, path, add_pids, &pids);
	*count = pids.count;
	if (!pids.gone)
		return pids.pid;
	free(pids.pid);
	return NULL;
}
