/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's own count of TLB shootdowns, which does not depend on Hydra. */
#ifndef TLB_LINE_H
#define TLB_LINE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How many interrupts for TLB shootdowns all CPUs have taken since boot: the line "TLB:"
 * of the file @path (/proc/interrupts). Maps and unmaps nothing, so that reading does not
 * change what is read. False and errno on failure; without such a line: ENOMSG.
 */
bool tlb_interrupts(const char *path, uint64_t *sum);

#endif /* TLB_LINE_H */
