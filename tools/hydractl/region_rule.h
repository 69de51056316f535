/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which system calls work on private anonymous memory so plainly that a kernel could do them without mmap_lock: inside
 * "regions", large mappings whose parts are mapped and unmapped under finer locks. No kernel has them yet.
 */
#ifndef REGION_RULE_H
#define REGION_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the address space that would be in a region, and what its pages grant */
struct region_part {
	uint64_t start, end;
	bool grants;		/* read and write; else nothing */
};

struct regions {
	size_t count, room;
	struct region_part *part;	/* by address; they do not overlap */
	bool huge;			/* large mappings get huge pages by themselves, which regions would not */
};

/* A system call of x86-64: its number and arguments */
struct call {
	int64_t number;
	uint64_t argument[6];
};

/* Begin, also anew, with what a process has mapped: the text of /proc/PID/maps, which is changed. */
void regions_begin(struct regions *regions, char *maps);
void regions_free(struct regions *regions);

/* Would the call be done inside a region, as far as its arguments and the calls before tell? */
bool regions_fit(const struct regions *regions, const struct call *call);

/* The call has begun to change mappings; and has ended with @result. */
void regions_change(struct regions *regions, const struct call *call);
void regions_result(struct regions *regions, const struct call *call, bool fits, int64_t result);

#endif /* REGION_RULE_H */
