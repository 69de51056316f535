// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations on mappings: map, unmap, protect, move, and drop the contents.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oracle_operations.h"

/* Mapping, unmapping, protecting */

bool map_anew(struct op *op)
{
	return must(op, map_cells(op->zone, op->first, op->count), op->kind->name);
}

/*
 * Before an operation on a part of a huge page: collapse now and then. Return: whether
 * the page is huge.
 */
static bool begins_huge(struct op *op)
{
	char *page = start(op) - op->first % op->zone->huge * op->zone->step;

	if (!(op->kind->flags & PART))
		return false;
	if (!is_huge(page) && hydra_random(&op->random) % 2)
		madvise(page, HUGE_SIZE, MADV_COLLAPSE);
	return is_huge(page);
}

bool unmap(struct op *op)
{
	bool was_huge = begins_huge(op);

	if (!must(op, !munmap(start(op), length(op)), "munmap"))
		return false;
	for_cells(op, c)
		c->now.access = HOLE;
	/* Linux has split the huge page: what is left on one side at least is small pages. */
	if (was_huge && !is_huge(start(op) - op->first % op->zone->huge * op->zone->step) &&
	    !is_huge(start(op) + length(op)))
		proved(op);
	return true;
}

static bool protect(struct op *op, enum access access, int protection)
{
	if (!must(op, !mprotect(start(op), length(op), protection), "mprotect"))
		return false;
	for_cells(op, c)
		c->now.access = access;
	return true;
}

bool forbid(struct op *op)
{
	return protect(op, NO_ACCESS, PROT_NONE);
}

bool forbid_writing(struct op *op)
{
	bool was_huge = begins_huge(op);

	if (!protect(op, READ_ONLY, PROT_READ))
		return false;
	if (was_huge && !is_huge(start(op)))
		proved(op);
	return true;
}

bool permit(struct op *op)
{
	return protect(op, READ_WRITE, PROT_READ | PROT_WRITE);
}

/* Moving mappings */

static bool move_mapping(struct op *op, int flags)
{
	struct zone *z = op->zone;

	flags |= MREMAP_MAYMOVE | MREMAP_FIXED;
	if (mremap(start(op), length(op), length(op), flags, address(z, op->other)) !=
	    address(z, op->other)) {
		/* there are several mappings: one cell at a time */
		if (!must(op, errno == EFAULT, "mremap"))
			return false;
		for (unsigned int i = 0; i < op->count; i++) {
			char *to = address(z, op->other + i);

			if (!must(op, mremap(address(z, op->first + i), z->size, z->size, flags,
					     to) == to, "mremap of one cell"))
				return false;
		}
	}
	for (unsigned int i = 0; i < op->count; i++) {
		struct state *from = &z->cell[op->first + i].now, *to = &z->cell[op->other + i].now;
		struct state was = *to;

		/*
		 * The cells swap pages: the page that was mapped over belongs to the
		 * source cell.
		 */
		*to = *from;
		*from = was;
		from->access = flags & MREMAP_DONTUNMAP ? to->access : HOLE;
		if (is_in(z, PRIVATE_ZONES)) {
			from->contents = 0;
			from->maybe_zero = false;
		}
	}
	return true;
}

bool move(struct op *op)
{
	return move_mapping(op, 0);
}

bool move_and_stay(struct op *op)
{
	return move_mapping(op, MREMAP_DONTUNMAP);
}

/* Dropping contents */

void becomes_zero(struct cell *c)
{
	c->now.contents = 0;
	c->now.maybe_zero = false;
}

bool drop(struct op *op)
{
	if (!must(op, !madvise(start(op), length(op), MADV_DONTNEED), "MADV_DONTNEED"))
		return false;
	for_cells(op, c) {
		if (is_in(op->zone, PRIVATE_ZONES))
			becomes_zero(c);
		if (op->zone == &zones[USERFAULT])
			c->now.access = ALL_IS_BUS;
		if (op->zone == &zones[PRIVATE_FILE])
			c->now.contents = file_contents(c->now.backing);
	}
	return true;
}

bool drop_lazily(struct op *op)
{
	const struct cell *c = &op->zone->cell[op->first];
	bool pressure = hydra_random(&op->random) % 2;
	uint64_t value;

	if (pressure)
		drain_lists();
	if (!must(op, !madvise(start(op), length(op), MADV_FREE), "MADV_FREE"))
		return false;
	for_cells(op, each)
		each->now.maybe_zero = true;
	if (pressure) {
		if (!must(op, !madvise(start(op), length(op), MADV_PAGEOUT), "MADV_PAGEOUT"))
			return false;
		if (may_read(c->now.access) && c->now.contents &&
		    !hydra_try_read(start(op), &value) && !value)
			proved(op);
	}
	return true;
}

bool punch_hole(struct op *op)
{
	const struct zone *z = op->zone;

	for_cells(op, c) {
		if (!must(op, !fallocate(z->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 c->now.backing * z->step, z->step), "fallocate"))
			return false;
		becomes_zero(c);
	}
	return true;
}

bool cut_file(struct op *op)
{
	const struct zone *z = op->zone;
	unsigned int cut = hydra_random(&op->random) % z->cells;

	/*
	 * If the file is cut inside a huge page, and Linux fails to split the page, Linux
	 * keeps the whole page and may map all of it (truncate_inode_partial_folio()).
	 */
	if (z->huge > 1)
		cut -= cut % z->huge;
	if (!must(op, !ftruncate(z->fd, cut * z->step), "ftruncate"))
		return false;
	for_cells(op, c) {
		c->later = c->now.access;
		if (c->now.backing < cut)
			continue;
		becomes_zero(c);
		if (c->now.access == READ_ONLY)
			c->now.access = READ_IS_BUS;
		else if (c->now.access == READ_WRITE)
			c->now.access = ALL_IS_BUS;
	}
	return true;
}

void lengthen_file(struct op *op)
{
	const struct zone *z = op->zone;

	if (must(op, !ftruncate(z->fd, z->cells * z->step), "ftruncate"))
		for_cells(op, c)
			c->now.access = c->later;
}
