// SPDX-License-Identifier: GPL-2.0-only
/*
 * Arenas: where mmap() places what a domain asks for.
 *
 * Small regions of several domains side by side in one leaf table would make
 * all of them sharers of it for no reason. So each domain has a part of the mmap
 * window for its own, at least one leaf table apart from its neighbours; and
 * inside it, a small region goes where no other domain shares the leaf table yet.
 * A web server maps a file for each request, between libraries and chunks of a
 * heap that threads of all domains use: in one leaf table with them, each
 * unmapping of a file would interrupt every domain.
 *
 * All this is a preference only. What does not fit goes beyond all arenas, so as
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

#define ARENA_MAX	(64UL * SZ_1G)
/* Leaf tables to pass over before a shared one has to do. */
#define ARENA_TRIES	32

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

/*
 * A place whose leaf tables no other domain shares, or else the first place.
 * Large regions have leaf tables to themselves anyway.
 */
static unsigned long find_unshared(struct hydra_mm *h, unsigned int d,
				   const struct vm_unmapped_area_info *arena)
{
	struct vm_unmapped_area_info part = *arena;
	unsigned long first = vm_unmapped_area(&part), addr = first, last;
	unsigned int tries;

	if (part.length >= PMD_SIZE)
		return first;
	for (tries = 0; !offset_in_page(addr) && tries < ARENA_TRIES; tries++) {
		last = addr + part.length - 1;
		if (!(hydra_range_sharers(h, addr & PMD_MASK, last | ~PMD_MASK,
					  HYDRA_HUGE_NEVER) & ~BIT_ULL(d)))
			return addr;
		if (part.flags & VM_UNMAPPED_AREA_TOPDOWN)
			part.high_limit = last & PMD_MASK;
		else
			part.low_limit = (addr & PMD_MASK) + PMD_SIZE;
		if (part.high_limit < part.low_limit + part.length)
			break;
		addr = vm_unmapped_area(&part);
	}
	return first;
}

/**
 * hydra_unmapped_area - vm_unmapped_area() that looks in the arena first
 * @info: as for vm_unmapped_area()
 * @flags: MAP_* of the mapping; fixed ones do not come here
 *
 * Context: mmap_lock held for writing.
 * Return: an address, or -ENOMEM.
 */
unsigned long hydra_unmapped_area(struct vm_unmapped_area_info *info,
				  unsigned long flags)
{
	struct vm_unmapped_area_info part = *info;
	unsigned long low = max(info->low_limit, SZ_4G), addr;
	bool topdown = info->flags & VM_UNMAPPED_AREA_TOPDOWN;
	struct hydra_mm *h = hydra_active(current->mm);
	unsigned int d = hydra_this_domain(), nr = hydra_nr_domains;

	if (hydra_breaks(HYDRA_BREAK_MIX_ARENAS))
		d = 0;
	if (!h || (flags & MAP_32BIT) || in_32bit_syscall())
		return vm_unmapped_area(info);
	if (!hydra_arena(d, nr, low, info->high_limit, topdown, &part.low_limit,
			 &part.high_limit))
		return vm_unmapped_area(info);
	addr = find_unshared(h, d, &part);
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
