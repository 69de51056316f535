// SPDX-License-Identifier: GPL-2.0-only
#include "guest_memory.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernel.h"
#include "qmp.h"

/*
 * QEMU is asked for the place of 2 MiB once, if they are in one piece there, as its memory almost
 * always is. Near the holes for devices, and where pieces of odd sizes meet, QEMU is asked for
 * each page.
 */
#define AREA		0x200000ULL

struct area {
	uint64_t start, size;
	char *place;		/* NULL: no memory, or several pieces */
};

static pid_t process;
static void *areas;

static int compare(const void *a, const void *b)
{
	const struct area *left = a, *right = b;

	if (left->size != right->size)
		return left->size < right->size ? -1 : 1;
	return left->start < right->start ? -1 : left->start > right->start;
}

/* "Host virtual address for 0x... (NAME) is 0x..." */
static char *ask_place(uint64_t start)
{
	char line[64], *said, *at, *place = NULL;

	snprintf(line, sizeof(line), "gpa2hva 0x%" PRIx64, start);
	said = qmp_human(line);
	at = strstr(said, ") is 0x");
	if (at)
		place = (char *)(uintptr_t)strtoull(at + strlen(") is "), NULL, 16);
	free(said);
	return place;
}

/* The place of the area with the address, or NULL */
static char *place_of_area(uint64_t address, uint64_t size)
{
	struct area key = { .start = address & ~(size - 1), .size = size }, **found, *area;
	char *last;

	found = tfind(&key, &areas, compare);
	if (!found) {
		area = must_have(malloc(sizeof(*area)));
		*area = key;
		area->place = ask_place(key.start);
		if (area->place && size > GUEST_PAGE) {
			last = ask_place(key.start + size - GUEST_PAGE);
			if (last != area->place + size - GUEST_PAGE)
				area->place = NULL;
		}
		found = must_have(tsearch(area, &areas, compare));
	}
	return (*found)->place;
}

/* The address in the process, or NULL */
static char *place_of(uint64_t address)
{
	uint64_t size = AREA;
	char *place = place_of_area(address, size);

	if (!place) {
		size = GUEST_PAGE;
		place = place_of_area(address, size);
	}
	return place ? place + (address & (size - 1)) : NULL;
}

void guest_memory_of(pid_t pid)
{
	process = pid;
}

bool guest_read_table(uint64_t address, uint64_t entries[GUEST_ENTRIES])
{
	struct iovec here = { .iov_base = entries, .iov_len = GUEST_PAGE };
	struct iovec there = { .iov_base = place_of(address), .iov_len = GUEST_PAGE };

	if (!there.iov_base)
		return false;
	if (process_vm_readv(process, &here, 1, &there, 1, 0) == GUEST_PAGE)
		return true;
	if (errno != EFAULT)
		error(EXIT_ERROR, errno, "cannot read the memory of process %d", process);
	return false;
}

bool guest_page_node(uint64_t address, uint64_t *node)
{
	void *page = place_of(address);
	int status;

	if (!page)
		return false;
	/* Without a list of nodes, move_pages(2) moves nothing and tells where the page is. */
	if (syscall(SYS_move_pages, process, 1, &page, NULL, &status, 0))
		error(EXIT_ERROR, errno, "cannot ask for the nodes of the memory of process %d", process);
	*node = status;
	return status >= 0;
}
