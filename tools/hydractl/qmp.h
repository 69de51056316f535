/* SPDX-License-Identifier: GPL-2.0-only */
/* QEMU's machine protocol: JSON over a Unix socket (docs/interop/qmp-spec of QEMU). */
#ifndef QMP_H
#define QMP_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Connect to the monitor of one QEMU, at the socket @path. All functions exit with a message on
 * failure.
 */
void qmp_open(const char *path);

struct qmp_vcpu {
	int index;
	int thread;
};

/* The machine's virtual CPUs and their threads, to be freed. */
struct qmp_vcpu *qmp_vcpus(size_t *count);

/* What QEMU's older, human monitor says to @line; to be freed. */
char *qmp_human(const char *line);

/*
 * Stop all virtual CPUs, unless they are stopped already, and let them go on. In between, signals
 * that would end this program wait; where it exits, the virtual CPUs go on, too.
 */
void qmp_stop(void);
void qmp_go_on(void);

/* Is a signal waiting that will end this program? What takes long is left then. */
bool qmp_interrupted(void);

#endif /* QMP_H */
