/* SPDX-License-Identifier: GPL-2.0-only */
/* Lists of CPUs as the kernel writes them: "0-3,8". */
#ifndef CPULIST_H
#define CPULIST_H

#include <stdint.h>

/* The first range of @list, as @first and @last. Returns the rest; NULL if no range is left. */
const char *cpulist_next(const char *list, uint64_t *first, uint64_t *last);

#endif /* CPULIST_H */
