/* SPDX-License-Identifier: GPL-2.0-only */
/* Control groups, version 2: their directories and processes. */
#ifndef CGROUP_H
#define CGROUP_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The directory of the cgroup: @name is a path below the root of cgroups, or a path in the
 * file system. Exit with a message if there is none.
 */
char *cgroup_find(const char *name);

/* The same for the systemd unit @name; without a suffix, a service. */
char *cgroup_find_unit(const char *name);

/*
 * The PIDs of the cgroup and of those below, in no order, to be freed; NULL if @path has
 * been removed.
 */
pid_t *cgroup_pids(const char *path, size_t *count);

#endif /* CGROUP_H */
