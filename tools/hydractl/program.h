/* SPDX-License-Identifier: GPL-2.0-only */
/* Running the program of the options to its end; and for the time of that, settings of other processes. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>

#define PROGRAM_LOOK_SECONDS 0.1	/* between two looks, at least */

/* What a command does around the program. Each may be NULL. */
struct program_steps {
	void (*begin)(void);		/* before the program starts */
	void (*look)(void);		/* while it runs; all looks together take at most a fiftieth of the time */
	void (*finish)(void);		/* after its end */
};

struct program_end {
	bool started;		/* the program was there and could be run; else it, or hydractl, has said why not */
	int status;		/* the exit status: the program's, or 128 + N if signal N ended it */
};

/*
 * Run the program, under the settings of the options or, with @plain, without any. Its
 * descendants that still run when it has ended go on. Exit if no process can be started.
 */
struct program_end program_run(const struct program_steps *steps, bool plain);

/* Become the program of the options: take the settings, unless @plain. Exit with one of EXIT_RUN_* if that fails. */
_Noreturn void program_become(bool plain);

/*
 * Give the processes of options.group the settings of the options until hydractl ends,
 * however, except by SIGKILL. Then they, and what they have started, have their former
 * settings back. Exit if one of them cannot have the settings.
 */
void settings_lend(void);
void settings_take_back(void);

#endif /* PROGRAM_H */
