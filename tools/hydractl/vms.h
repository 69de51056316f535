/* SPDX-License-Identifier: GPL-2.0-only */
/* The virtual machines of a process, as the kernel describes them, line by line. */
#ifndef VMS_H
#define VMS_H

#include <stddef.h>
#include <sys/types.h>

/* The lines of one virtual machine: a key, and the rest of the line. */
struct vm_lines {
	size_t count;
	struct {
		const char *key, *rest;
	} *line;
};

struct vms {
	char *text;
	size_t count;
	struct vm_lines *vm;
};

/* Read /proc/@pid/@file; exit with a message on failure, also if the process has none. */
void vms_read(struct vms *vms, pid_t pid, const char *file);
void vms_free(struct vms *vms);

/*
 * Why one could not @doing (as in "read") the virtual machines of process @pid (errno), to be
 * freed.
 */
char *vms_failure(pid_t pid, const char *doing);

#endif /* VMS_H */
