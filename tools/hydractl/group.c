// SPDX-License-Identifier: GPL-2.0-only
#include "group.h"

#include <fts.h>
#include <mntent.h>
#include <unistd.h>

#include "kernel.h"
#include "options.h"
#include "process.h"

#define GROUP_OPTIONS									\
	{ "tree", 'T', "PID", 0, "Process PID and its descendants", 0 },		\
	{ "cgroup", 'g', "PATH", 0,							\
	  "The processes of a cgroup (version 2) and of the cgroups below, e.g. /system.slice", 0 }, \
	{ "unit", 'u', "NAME", 0, "The processes of a systemd unit, e.g. nginx.service (or nginx), user.slice", 0 }, \
	{ "system", 'a', NULL, 0, "All processes", 0 }

static const struct argp_option group_options[] = { GROUP_OPTIONS, { 0 } };
static const struct argp_option all_options[] = { GROUP_OPTIONS, { "all", 'A', NULL, 0, "The same as --system", 0 }, { 0 } };

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const char kinds[] = { [GROUP_TREE] = 'T', [GROUP_CGROUP] = 'g', [GROUP_UNIT] = 'u', [GROUP_SYSTEM] = 'a' };
	struct group *group = &options.group;

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

const struct argp group_argp = { .options = group_options, .parser = parse_option };
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
	autofree char *name = printable(group->name ?: "");

	switch (group->kind) {
	case GROUP_TREE:
		return xasprintf("process %d and its descendants", group->pid);
	case GROUP_CGROUP:
	case GROUP_UNIT:
		return xasprintf("%s %s", group_kind_name(group), name);
	default:
		return must_have(strdup("the system"));
	}
}

/* Where cgroups of version 2 are mounted; exit if nowhere. */
static char *cgroup_root(void)
{
	autofree char *mounts = xasprintf("%s/self/mounts", kernel_proc());
	FILE *file = setmntent(mounts, "re");
	struct mntent *entry;
	char *root = NULL;

	if (!file)
		error(argp_err_exit_status, errno, "cannot read %s", mounts);
	while (!root && (entry = getmntent(file)))
		if (!strcmp(entry->mnt_type, "cgroup2"))
			root = must_have(strdup(entry->mnt_dir));
	endmntent(file);
	if (!root)
		error(argp_err_exit_status, 0, "no cgroups of version 2 are mounted (%s): mount them with 'mount -t cgroup2 none /sys/fs/cgroup', or use --tree",
		      mounts);
	return root;
}

/*
 * The directory of a cgroup: @name is a path below the root of cgroups, or a path in the
 * file system. Exit with a message if there is none.
 */
static char *cgroup_find(const char *name)
{
	autofree char *root = cgroup_root(), *procs = NULL;
	size_t length = strlen(root);
	bool whole = !strncmp(name, root, length) && (!name[length] || name[length] == '/');
	char *path = whole ? must_have(strdup(name)) : xasprintf("%s/%s", root, name + strspn(name, "/"));

	/* Each cgroup has this file. */
	procs = xasprintf("%s/cgroup.procs", path);
	if (access(procs, F_OK))
		error(argp_err_exit_status, 0, "no cgroup %s: 'systemd-cgls', or 'find %s -type d', lists the cgroups",
		      printable(path), root);
	return path;
}

static bool has_unit_suffix(const char *name)
{
	static const char *const suffixes[] = { ".service", ".scope", ".slice", ".socket", ".mount", ".swap" };
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; dot && dot != name && i < sizeof(suffixes) / sizeof(*suffixes); i++)
		if (!strcmp(dot, suffixes[i]))
			return true;
	return false;
}

/* The directory and all below, one after the other, with fts_read() */
static FTS *walk(const char *path)
{
	return must_have(fts_open((char *[]){ (char *)path, NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL));
}

/* The same for a systemd unit, which names its cgroup; without a suffix, a service. */
static char *cgroup_find_unit(const char *name)
{
	autofree char *root = cgroup_root();
	autofree char *unit = xasprintf("%s%s", name, has_unit_suffix(name) ? "" : ".service");
	autofree char *shown = printable(unit);
	char *found[2] = { NULL, NULL };
	FTS *tree = walk(root);
	FTSENT *entry;

	while (!found[1] && (entry = fts_read(tree)))
		if (entry->fts_info == FTS_D && entry->fts_level && !strcmp(entry->fts_name, unit))
			found[!!found[0]] = must_have(strdup(entry->fts_path));
	fts_close(tree);
	if (!found[0])
		error(argp_err_exit_status, 0, "no unit %s runs (no cgroup below %s has its name): see 'systemctl status %s'",
		      shown, root, shown);
	if (found[1])
		error(argp_err_exit_status, 0, "several units %s run: choose one with --cgroup %s or --cgroup %s",
		      shown, found[0], found[1]);
	return found[0];
}

void group_find(struct group *group)
{
	size_t count;
	autofree pid_t *pids = NULL;

	if (group->kind == GROUP_CGROUP)
		group->path = cgroup_find(group->name);
	if (group->kind == GROUP_UNIT)
		group->path = cgroup_find_unit(group->name);
	if (group->kind != GROUP_TREE)
		return;
	pids = group_pids(group, &count);
	if (!pids)
		error(argp_err_exit_status, 0, "no process %d", group->pid);
}

/*
 * The processes of the cgroup and of those below, in no order. A cgroup may be removed
 * meanwhile, and one of threads has no list of processes: the cgroup above lists its
 * processes. NULL if the first one is no cgroup any more.
 */
static pid_t *cgroup_pids(const char *path, size_t *count)
{
	pid_t *pids = must_have(malloc(sizeof(*pids)));
	FTS *tree = walk(path);
	bool gone = true;
	FTSENT *entry;
	int pid;

	*count = 0;
	while ((entry = fts_read(tree))) {
		autofree char *procs = xasprintf("%s/cgroup.procs", entry->fts_path);
		FILE *file = entry->fts_info == FTS_D ? fopen(procs, "re") : NULL;

		/* 0 is a process of another PID namespace. */
		while (file && fscanf(file, "%d", &pid) == 1)
			if (pid > 0) {
				pids = must_have(reallocarray(pids, *count + 1, sizeof(*pids)));
				pids[(*count)++] = pid;
			}
		if (file && !entry->fts_level)
			gone = ferror(file) && errno == ENODEV;
		if (file)
			fclose(file);
	}
	fts_close(tree);
	if (!gone)
		return pids;
	free(pids);
	return NULL;
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
	autofree pid_t *all = all_pids(&all_count);
	autofree pid_t *parents = must_have(calloc(all_count + 1, sizeof(*parents)));
	pid_t *pids = must_have(calloc(all_count + 1, sizeof(*pids)));

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

pid_t *group_list(const struct group *group, size_t *count)
{
	pid_t *pids = group_pids(group, count);

	if (!pids)
		group_gone(group);
	return pids;
}
