/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef INTERRUPTS_H
#define INTERRUPTS_H

#include <stdint.h>

/*
 * How many interrupts for TLB shootdowns all CPUs have taken since boot: the
 * line "TLB:" of /proc/interrupts. Maps and unmaps nothing, so that reading
 * does not change what is read. Leaves with a message if there is no such line.
 */
uint64_t shootdown_interrupts(void);

#endif /* INTERRUPTS_H */
