// SPDX-License-Identifier: GPL-2.0-only
/* Addresses that are one thread's alone, and the same under every policy. */
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "steps.h"

char *place_map(char *at, size_t size)
{
	char *got = mmap(at, size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (got != at)
		error(EXIT_FAILURE, errno, "cannot map %zu KiB at %p", size / 1024, at);
	return at;
}

void place_unmap(char *at, size_t size)
{
	if (munmap(at, size))
		error(EXIT_FAILURE, errno, "cannot unmap %zu KiB at %p", size / 1024, at);
}

void place_touch(char *at, size_t size)
{
	for (size_t offset = 0; offset < size; offset += PAGE)
		*(volatile char *)(at + offset) = 1;
}

void place_open(struct place *place, size_t row, size_t size)
{
	place->at = place->base + row * GIB;
	place->other = NULL;
	place->next = 0;
	place->size = size;
	/* The page in the last leaf table keeps the upper tables. */
	place_touch(place_map(place->at + GIB - TABLE, PAGE), PAGE);
}

void place_close(struct place *place, size_t row)
{
	place_unmap(place->base + row * GIB, GIB);
}
