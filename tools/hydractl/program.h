/* SPDX-License-Identifier: GPL-2.0-only */
/* Becoming another program, under settings. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <linux/hydra.h>

/*
 * Take the settings and become the program. Exit with a message and one of EXIT_RUN_*
 * if that fails.
 */
_Noreturn void program_become(const struct hydra_settings *settings, char **program);

#endif /* PROGRAM_H */
