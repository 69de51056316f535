// SPDX-License-Identifier: GPL-2.0-only
/*
 * Placement: where mmap() puts a small mapping of an address space that has been
 * split.
 *
 * Small mappings of several domains side by side in one leaf table would make
 * all of them sharers of the table for no reason. A web server, for one, maps a
 * file for each request, between libraries and chunks of a heap that threads of
 * all domains use: in one leaf table with them, each unmapping of a file would
 * interrupt every domain.
 *
 * So Linux's answer is kept unless the leaf table there is another domain's: one
 * that another domain shares, or where another domain was sent before. Then the
 * leaf table where this domain was sent last is tried, which has its tables
 * already; then those beyond, until one is found that no other domain has to do
 * with. At most TRIES tables are passed over; if all are others', Linux's answer
 * has to do. All this is a preference: nothing depends on where a mapping lies.
 *
 * Every answer is one that Linux could have given: it comes from
 * vm_unmapped_area(), inside the limits of the call. So an address has as many
 * random bits as before.
 */

#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "internal.h"

/* Leaf tables to pass over before a shared one has to do. */
#define TRIES		32

/* Is a mapping at @addr to be in a leaf table of another domain than @d? */
static bool others(struct hydra_mm *h, unsigned int d, unsigned long addr,
		   unsigned long length)
{
	unsigned long start = addr & PMD_MASK, end = addr + length;
	hydra_mask_t sharers;
	unsigned int other;

	hydra_mask_zero(&sharers);
	hydra_range_sharers(h, start, (end + PMD_SIZE - 1) & PMD_MASK,
			    HYDRA_HUGE_NEVER, &sharers);
	if (hydra_mask_other(d, &sharers))
		return true;
	for_each_hydra_domain(other, &h->trees)
		if (other != d && h->domain[other]->place >= start &&
		    h->domain[other]->place < end)
			return true;
	return false;
}

/**
 * hydra_unmapped_area - vm_unmapped_area() that keeps domains apart
 * @info: as for vm_unmapped_area()
 * @flags: MAP_* of the mapping; fixed ones do not come here
 *
 * Context: mmap_lock held for writing.
 * Return: an address, or -ENOMEM.
 */
unsigned long hydra_unmapped_area(struct vm_unmapped_area_info *info,
				  unsigned long flags)
{
	unsigned long first = vm_unmapped_area(info), addr = first, last;
	struct hydra_mm *h = hydra_active(current->mm);
	struct vm_unmapped_area_info part = *info;
	unsigned int tries, d = hydra_this_domain();
	struct hydra_domain *dom;

	/* Large mappings have leaf tables to themselves anyway. */
	if (!h || offset_in_page(first) || part.length >= PMD_SIZE ||
	    flags & MAP_32BIT || in_32bit_syscall() ||
	    hydra_breaks(HYDRA_BREAK_MIX_PLACES))
		return first;
	mmap_assert_write_locked(h->mm);
	dom = h->domain[d];
	if (!dom)
		return first;

	for (tries = 0; !offset_in_page(addr) && tries < TRIES; tries++) {
		if (!others(h, d, addr, part.length)) {
			dom->place = addr & PMD_MASK;
			return addr;
		}
		/* Behind the one table that is known to be this domain's. */
		if (!tries && dom->place && dom->place >= info->low_limit &&
		    dom->place + PMD_SIZE <= info->high_limit) {
			part.low_limit = dom->place;
			part.high_limit = dom->place + PMD_SIZE;
			addr = vm_unmapped_area(&part);
			part = *info;
			if (!offset_in_page(addr) &&
			    !others(h, d, addr, part.length))
				return addr;
			addr = first;
		}
		last = addr + part.length - 1;
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
