// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas: where mmap() places what a domain asks for.
 *
 * Small regions of several domains side by side in one leaf table would make
 * all of them sharers of it for no reason. So each domain has two parts of the
 * mmap window for its own, at least one leaf table apart from their neighbours:
 * one for files and one for the rest. Programs map files for as long as a
 * request takes, and in between chunks of a heap that stays and is handed from
 * thread to thread: one such chunk in the same leaf table, and every unmapping of
 * a file interrupts all domains that the heap has seen.
 *
 * An arena is a preference only. What does not fit goes beyond all arenas, so as
 * not to fill those of others, and if there is no room there, anywhere, as ever.
 * Arenas move with the randomised mmap base, so an address has as many random
 * bits as before. They are small enough that those of a few nodes lie on one PUD
 * table.
 */

#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "internal.h"

#define ARENA_MAX	(32UL * SZ_1G)

/**
 * hydra_arena - one of the parts a window is divided into
 * @i: which
 * @nr: how many there are
 * @low: first address of the window
 * @high: address after the last one of the window
 * @topdown: the window is filled from the top
 * @arena_low: set to the first address of the arena
 * @arena_high: set to the address after the last one
 *
 * Return: false if the window is too small to be divided.
 */
bool hydra_arena(unsigned int i, unsigned int nr, unsigned long low,
		 unsigned long high, bool topdown, unsigned long *arena_low,
		 unsigned long *arena_high)
{
	unsigned long stride;

	if (nr < 2 || i >= nr || high <= low)
		return false;
	stride = min((high - low) / nr, ARENA_MAX) & PMD_MASK;
	if (stride < 4 * PMD_SIZE)
		return false;
	if (topdown) {
		*arena_high = high - i * stride;
		*arena_low = *arena_high - stride + PMD_SIZE;
	} else {
		*arena_low = low + i * stride;
		*arena_high = *arena_low + stride - PMD_SIZE;
	}
	return true;
}

/**
 * hydra_unmapped_area - vm_unmapped_area() that looks in the arena first
 * @info: as for vm_unmapped_area()
 * @file: what is to be mapped, NULL for anonymous memory
 * @flags: MAP_* of the mapping; fixed ones do not come here
 *
 * Context: mmap_lock held for writing.
 * Return: an address, or -ENOMEM.
 */
unsigned long hydra_unmapped_area(struct vm_unmapped_area_info *info,
				  const struct file *file, unsigned long flags)
{
	struct vm_unmapped_area_info part = *info;
	unsigned long low = max(info->low_limit, SZ_4G), addr;
	bool topdown = info->flags & VM_UNMAPPED_AREA_TOPDOWN;
	unsigned int nr = 2 * hydra_nr_domains;

	if (!hydra_active(current->mm) || hydra_nr_domains < 2 ||
	    (flags & MAP_32BIT) || in_32bit_syscall())
		return vm_unmapped_area(info);
	if (!hydra_arena(2 * hydra_this_domain() + !!file, nr, low,
			 info->high_limit, topdown, &part.low_limit,
			 &part.high_limit))
		return vm_unmapped_area(info);
	addr = vm_unmapped_area(&part);
	if (!offset_in_page(addr))
		return addr;

	/* Beyond the last arena. */
	hydra_arena(nr - 1, nr, low, info->high_limit, topdown,
		    &part.low_limit, &part.high_limit);
	if (topdown) {
		part.high_limit = part.low_limit - PMD_SIZE;
		part.low_limit = info->low_limit;
	} else {
		part.low_limit = part.high_limit + PMD_SIZE;
		part.high_limit = info->high_limit;
	}
	addr = vm_unmapped_area(&part);
	return offset_in_page(addr) ? vm_unmapped_area(info) : addr;
}
