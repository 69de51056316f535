/* SPDX-License-Identifier: GPL-2.0-only */
/* On which nodes the nested page tables of a virtual machine are: /proc/PID/hydra_vm_map. */
#ifndef NESTED_MAP_H
#define NESTED_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vms.h"

struct nested_table;

struct nested_map {
	size_t count;
	struct nested_table *table;	/* sorted */
};

/* False if a line is not understood. */
bool nested_map_load(struct nested_map *map, const struct vm_lines *lines);
void nested_map_free(struct nested_map *map);

/*
 * The node of the table in which the leaf entry is, or will be, through which the vCPUs of @domain
 * reach the guest's page frame @gfn. False if there is no such table yet, or an empty one.
 */
bool nested_leaf_node(const struct nested_map *map, uint64_t domain, uint64_t gfn, uint64_t *node);

#endif /* NESTED_MAP_H */
