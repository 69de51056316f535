/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PAGE_TABLES_H
#define PAGE_TABLES_H

#include <stdint.h>

/* KiB in page tables of this process, by /proc/self/hydra_tables. Leaves with a message if this kernel has no Hydra. */
uint64_t page_tables_kib(void);

#endif /* PAGE_TABLES_H */
