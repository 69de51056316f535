/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A recording of what 'hydractl top' sees: a line of JSON for each look, with the kernel's
 * text of each process. A text that is as in the look before is left out, except in a whole
 * look. FILE is the end of the recording, FILE.1 what was written before.
 */
#ifndef RECORD_H
#define RECORD_H

#include "process.h"

#define RECORD_USUAL "/var/log/hydra/record"

/* Write to @path, in two files of at most half of @size bytes each. Exit if another hydractl does, or on failure. */
void record_open(const char *path, uint64_t size);

/* Record the processes of the list, only those that are @wanted, if not NULL. Exit on failure. */
void record_write(const pid_t *pids, size_t count, bool (*wanted)(const struct process *process));

/* Find the looks of a recording. Exit if there are none. */
struct recorded_look {
	FILE *file;
	off_t place;
	double time, moment;	/* since 1970; on the clock for rates */
	bool begins;		/* the first of a recorder: not to be compared with the look before */
	bool whole;
} *record_read(const char *path, size_t *count);

/* The processes of look @number, as of processes_load(). Sets options.group to what was recorded. */
struct processes record_processes(const struct recorded_look *looks, size_t number);

#endif /* RECORD_H */
