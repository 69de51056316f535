// SPDX-License-Identifier: GPL-2.0-only
#include "region_rule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "text.h"

#define PAGE 4096ULL
#define MIB (1ULL << 20)
#define SMALL (2 * MIB)			/* less is in a CPU's own region of small mappings */
#define LARGE (16384 * MIB)		/* so much at most is in its region of large ones */
#define RESERVATION (64 * MIB)		/* so much that grants nothing is a region itself */

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static uint64_t pages(uint64_t size)
{
	return (size + PAGE - 1) & ~(PAGE - 1);
}

/* The first part that ends behind @address */
static size_t find(const struct regions *regions, uint64_t address)
{
	size_t low = 0, high = regions->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (regions->part[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Make place for one more part at @at. */
static void insert(struct regions *regions, size_t at, struct region_part part)
{
	if (regions->count == regions->room) {
		regions->room = regions->room ? 2 * regions->room : 64;
		regions->part = must_have(reallocarray(regions->part, regions->room, sizeof(part)));
	}
	memmove(&regions->part[at + 1], &regions->part[at], (regions->count++ - at) * sizeof(part));
	regions->part[at] = part;
}

/* The range is in no region. */
static void take_out(struct regions *regions, uint64_t start, uint64_t size)
{
	uint64_t end = start + pages(size);
	size_t at = find(regions, start), last;

	if (end <= start || at == regions->count)
		return;
	if (regions->part[at].start < start) {
		struct region_part rest = regions->part[at];

		regions->part[at++].end = start;
		if (rest.end > end) {
			rest.start = end;
			insert(regions, at, rest);
			return;
		}
	}
	for (last = at; last < regions->count && regions->part[last].end <= end; last++)
		;
	memmove(&regions->part[at], &regions->part[last], (regions->count - last) * sizeof(*regions->part));
	regions->count -= last - at;
	if (at < regions->count && regions->part[at].start < end)
		regions->part[at].start = end;
}

static void put_in(struct regions *regions, uint64_t start, uint64_t size, bool grants)
{
	struct region_part part = { .start = start, .end = start + pages(size), .grants = grants };
	size_t at;

	if (part.end <= start)
		return;
	take_out(regions, start, size);
	at = find(regions, start);
	if (at && regions->part[at - 1].end == start && regions->part[at - 1].grants == grants)
		regions->part[at - 1].end = part.end;
	else
		insert(regions, at, part);
}

/* Is all of the range in regions? And if not @any: does nothing in it grant anything? */
static bool inside(const struct regions *regions, uint64_t start, uint64_t size, bool any)
{
	uint64_t end = start + pages(size);

	if (end <= start)
		return false;
	for (size_t at = find(regions, start); start < end; at++) {
		if (at == regions->count || regions->part[at].start > start || (!any && regions->part[at].grants))
			return false;
		start = regions->part[at].end;
	}
	return true;
}

static bool plain_protection(uint64_t protection)
{
	return protection == PROT_NONE || protection == (PROT_READ | PROT_WRITE);
}

static bool plain_map(const struct call *call)
{
	const uint64_t may = MAP_NORESERVE | MAP_STACK | MAP_FIXED, must = MAP_PRIVATE | MAP_ANONYMOUS;

	return plain_protection(call->argument[2]) && (call->argument[3] & ~may) == must;
}

static bool map_fits(const struct regions *regions, const struct call *call)
{
	uint64_t size = pages(call->argument[1]), flags = call->argument[3];

	if (!plain_map(call) || !size)
		return false;
	if (flags & MAP_FIXED)
		return inside(regions, call->argument[0], size, true);
	if (call->argument[0] || size > LARGE)
		return false;
	return size < SMALL || !regions->huge || flags & MAP_STACK;
}

bool regions_fit(const struct regions *regions, const struct call *call)
{
	switch (call->number) {
	case SYS_mmap:
		return map_fits(regions, call);
	case SYS_munmap:
		return inside(regions, call->argument[0], call->argument[1], true);
	case SYS_mprotect:
		/* To take the grant from pages that were used changes entries. Which ones were used is not seen. */
		return plain_protection(call->argument[2]) &&
		       inside(regions, call->argument[0], call->argument[1], call->argument[2] != PROT_NONE);
	default:
		return false;
	}
}

void regions_change(struct regions *regions, const struct call *call)
{
	switch (call->number) {
	case SYS_mprotect:
		if (regions_fit(regions, call)) {
			put_in(regions, call->argument[0], call->argument[1], call->argument[2] != PROT_NONE);
			return;
		}
		break;
	case SYS_munmap:
	case SYS_mremap:
	case SYS_madvise:	/* Only advice that changes mappings takes the lock for writing. */
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_mbind:
	case SYS_pkey_mprotect:
		break;
	case SYS_mlockall:
		regions->count = 0;
		return;
	default:
		return;
	}
	take_out(regions, call->argument[0], call->argument[1]);
}

void regions_result(struct regions *regions, const struct call *call, bool fits, int64_t result)
{
	/* Errors are the last 4095 numbers. */
	if (result < 0 && result > -4096)
		return;
	if (call->number == SYS_mmap) {
		bool reserves = plain_map(call) && !(call->argument[3] & MAP_FIXED) && !call->argument[0] && !call->argument[2] &&
				call->argument[1] >= RESERVATION;

		if (fits || reserves)
			put_in(regions, result, call->argument[1], call->argument[2] != PROT_NONE);
		else
			take_out(regions, result, call->argument[1]);
	} else if (call->number == SYS_mremap) {
		take_out(regions, result, call->argument[2]);
	}
}

void regions_begin(struct regions *regions, char *maps)
{
	char *save, *line = strtok_r(maps, "\n", &save);

	regions->count = 0;
	for (; line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t start, end, inode;
		char grants[5];
		int name = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*x:%*x %" SCNu64 " %n", &start, &end, grants, &inode, &name) < 4)
			continue;
		if (!inode && (!line[name] || !strncmp(line + name, "[anon:", strlen("[anon:"))) &&
		    (!strcmp(grants, "rw-p") || !strcmp(grants, "---p")))
			put_in(regions, start, end - start, *grants == 'r');
	}
}

void regions_free(struct regions *regions)
{
	free(regions->part);
	*regions = (struct regions){ 0 };
}
