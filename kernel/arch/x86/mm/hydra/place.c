// SPDX-License-Identifier: GPL-2.0-only
/*
 * Placement: where mmap() puts a small mapping of a split address space.
 *
 * If small mappings of several domains were side by side in one leaf table, all of
 * the domains would share the table for no reason. A web server, e.g., maps a file
 * for each request, between libraries and chunks of a heap used by threads of all
 * domains. If file and heap shared a leaf table, each unmapping of a file would
 * interrupt every domain.
 *
 * So mmap() keeps Linux's address unless the leaf table belongs to another domain,
 * as a sharer, or by an earlier placement. Then mmap() tries the leaf table of the
 * domain's last placement, and next the tables beyond, up to a table of no other
 * domain. After TRIES tables mmap() takes Linux's address. Placement is a
 * preference: nothing depends on the address of a mapping.
 *
 * Linux could have chosen each address: all come from vm_unmapped_area(), inside
 * the limits of the call. So an address has as many random bits as before.
 */

#include <linux/compat.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/sizes.h>

#include "domain.h"
#include "sharers.h"
#include "state.h"

/* How many leaf tables to try before taking a shared one */
#define TRIES		32

/*
 * Does the leaf table of a mapping at @addr belong to a domain other than @d?
 *
 * A table in which @d was placed last, or that @d alone uses, is no other domain's. So only
 * the first mapping in a table looks at the places of all domains.
 */
static bool hydra_other_domain_uses(struct hydra_mm *h, unsigned int d, unsigned long addr,
				    unsigned long length)
{
	unsigned long start = addr & PMD_MASK, end = addr + length;
	hydra_mask_t sharers;
	struct hydra_lookup l = {
		.h = h,
		.huge = HYDRA_LEAF_ONLY,
		.look = HYDRA_BY_TABLE,
		.found = &sharers,
	};
	unsigned int other;

	hydra_mask_zero(&sharers);
	hydra_range_sharers(&l, start, (end + PMD_SIZE - 1) & PMD_MASK);
	if (hydra_mask_other(d, &sharers))
		return true;
	if (end <= start + PMD_SIZE &&
	    (hydra_mask_test(d, &sharers) || h->place[d] == start))
		return false;
	for_each_hydra_domain(other, &h->trees)
		if (other != d && h->place[other] >= start && h->place[other] < end)
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
	struct hydra_mm *h = mm_hydra(current->mm);
	struct vm_unmapped_area_info part = *info;
	unsigned int tries, d;
	unsigned long *place;

	/*
	 * Large mappings have separate leaf tables anyway. Under replication "eager" all
	 * domains share all tables.
	 */
	if (!h || hydra_eager(h) || offset_in_page(first) || part.length >= PMD_SIZE ||
	    flags & MAP_32BIT || in_32bit_syscall())
		return first;
	mmap_assert_write_locked(h->mm);
	d = hydra_this_domain(h);
	if (!h->domain[d])
		return first;
	place = &h->place[d];

	for (tries = 0; !offset_in_page(addr) && tries < TRIES; tries++) {
		if (!hydra_other_domain_uses(h, d, addr, part.length)) {
			/* CPUs of all domains read the line. */
			if (*place != (addr & PMD_MASK))
				*place = addr & PMD_MASK;
			return addr;
		}
		/* After the first try: the table where this domain was placed last. */
		if (!tries && *place && *place >= info->low_limit &&
		    *place + PMD_SIZE <= info->high_limit) {
			part.low_limit = *place;
			part.high_limit = *place + PMD_SIZE;
			addr = vm_unmapped_area(&part);
			part = *info;
			if (!offset_in_page(addr) &&
			    !hydra_other_domain_uses(h, d, addr, part.length))
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
