/* SPDX-License-Identifier: GPL-2.0-only */
/* Becoming another program, under settings; and the arguments that name both. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <linux/hydra.h>

#include "settings.h"

struct program {
	struct settings_choice choice;
	char **words;		/* the program and its arguments */
};

/* The parser of the settings' options and of "[--] PROGRAM [ARGUMENT...]", as the only child; its input is a program. */
extern const struct argp_child program_children[];
#define PROGRAM_ARGS "[--] PROGRAM [ARGUMENT...]"

/*
 * Take the settings and become the program. Exit with a message and one of EXIT_RUN_*
 * if that fails.
 */
_Noreturn void program_become(const struct hydra_settings *settings, char **program);

#endif /* PROGRAM_H */
