/* SPDX-License-Identifier: GPL-2.0-only */
/* Groups of processes: a tree, a cgroup, a systemd unit, the system. */
#ifndef GROUP_H
#define GROUP_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum group_kind { GROUP_NONE, GROUP_TREE, GROUP_CGROUP, GROUP_UNIT, GROUP_SYSTEM };

struct group {
	enum group_kind kind;
	const char *name;	/* as the user gave it, except for the system */
	pid_t pid;		/* of a tree */
	char *path;		/* of a cgroup, also of a unit's: a directory */
};

/* The parser of --tree, --cgroup, --unit and --system, for options.group. */
extern const struct argp group_argp;

/* The same with --all as another name of --system. */
extern const struct argp group_all_argp;

/* Find what the options named. Exit with a message if there is no such thing. */
void group_find(struct group *group);

/* The name of the kind, as of the option: "tree", "cgroup", "unit" or "system". */
const char *group_kind_name(const struct group *group);

/* "process 12 and its descendants", "cgroup /a", "unit a.service" or "the system", to be freed. */
char *group_title(const struct group *group);

/*
 * The PIDs, ascending, to be freed; NULL if the group has gone since. No group named:
 * the system.
 */
pid_t *group_pids(const struct group *group, size_t *count);

/* The same; exit if the group has gone. */
pid_t *group_list(const struct group *group, size_t *count);

/* Exit, because group_pids() has returned NULL. */
_Noreturn void group_gone(const struct group *group);

#endif /* GROUP_H */
