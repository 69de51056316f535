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
 * The node of the table with the leaf entry through which the vCPUs of @domain reach the
 * guest's page frame @gfn; false if the frame is not mapped for them.
 */
bool nested_leaf_node(const struct nested_map *map, uint64_t domain, uint64_t gfn, uint64_t *node);

#endif /* NESTED_MAP_H */
