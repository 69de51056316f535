/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Running a program and counting. The counters of a process end with it, so hydractl
 * traces the program and its descendants: the kernel stops each thread that ends, and
 * hydractl reads the counters before the thread goes on.
 */
#ifndef TRACER_H
#define TRACER_H

#include <linux/hydra.h>

#include "tally.h"

/*
 * Run @program under @settings until it ends. Its descendants that still run then go on.
 * Exit with EXIT_RUN_ERROR if tracing is not possible.
 */
void trace_program(const struct hydra_settings *settings, char **program, struct tally *tally);

#endif /* TRACER_H */
