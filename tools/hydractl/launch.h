/* SPDX-License-Identifier: GPL-2.0-only */
/* Running a program until it ends, and counting what it and its descendants do. */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <linux/hydra.h>

#include "tally.h"

/*
 * Run @program under @settings until it ends. Its descendants that still run then go on.
 * Exit with EXIT_RUN_ERROR if hydractl cannot start a process.
 */
void launch_program(const struct hydra_settings *settings, char **program, struct tally *tally);

#endif /* LAUNCH_H */
