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
 * QEMU is asked for the place of an area once. Memory that QEMU has put at one address is in
 * one piece within 2 MiB, but for the first MiB with its holes for devices.
 */
#define AREA		0x200000ULL
#define FIRST_AREA	GUEST_PAGE

struct area {
	uint64_t start;
	char *place;		/* NULL: no memory */
};

static pid_t process;
static void *areas;

static int compare(const void *a, const void *b)
{
	const struct area *left = a, *right = b;

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

/* The address in the process, or NULL */
static char *place_of(uint64_t address)
{
	uint64_t size = address < AREA ? FIRST_AREA : AREA;
	struct area key = { .start = address & ~(size - 1) }, **found, *area;

	found = tfind(&key, &areas, compare);
	if (!found) {
		area = must_have(malloc(sizeof(*area)));
		*area = (struct area){ .start = key.start, .place = ask_place(key.start) };
		found = must_have(tsearch(area, &areas, compare));
	}
	return (*found)->place ? (*found)->place + (address - key.start) : NULL;
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
	if (process_vm_readv(process, &here, 1, &there, 1, 0) != GUEST_PAGE)
		error(EXIT_ERROR, errno, "cannot read the memory of process %d", process);
	return true;
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
