/* SPDX-License-Identifier: GPL-2.0-only */
/* The memory of a virtual machine in QEMU's address space, by the guest's physical addresses. */
#ifndef GUEST_MEMORY_H
#define GUEST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUEST_PAGE 4096
#define GUEST_ENTRIES 512	/* of a page table */

/* The process whose memory it is. The monitor (qmp.h) has to be open. */
void guest_memory_of(pid_t pid);

/* Read the page table at @address; false if there is no memory at this address. */
bool guest_read_table(uint64_t address, uint64_t entries[GUEST_ENTRIES]);

/* The host's node on which the guest's page at @address is; false if that is unknown. */
bool guest_page_node(uint64_t address, uint64_t *node);

#endif /* GUEST_MEMORY_H */
