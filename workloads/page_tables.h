/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGE_TABLES_H
#define PAGE_TABLES_H

#include <stdint.h>

/* How many leaf entries the CPUs of a node reach through page tables of their own node, and of others. */
struct reach {
	uint64_t near;
	uint64_t far;
};

/* Of this process, by /proc/self/hydra_tables; if each core is a domain, of the first of the node. Leaves with a message if this kernel has no Hydra. */
struct reach page_tables_reach(uint64_t node);

/* KiB in page tables of this process, by /proc/self/hydra_tables. Leaves with a message if this kernel has no Hydra. */
uint64_t page_tables_kib(void);

#endif /* PAGE_TABLES_H */
