/* SPDX-License-Identifier: GPL-2.0-only */
/* What the command line says, in options of several commands; and time. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "group.h"
#include "settings.h"

extern struct options {
	bool json, csv;			/* of --csv both, and json.h writes CSV */
	bool pid_optional;		/* for the command to set */
	pid_t pid;			/* 0 if none was given */
	double delay;			/* seconds between looks */
	bool delay_given;
	uint64_t count;			/* of looks; 0: no end */
	struct group group;
	struct settings_choice choice;
	char **program;			/* to run, and its arguments */
} options;

/* Parsers for a command: --json and --csv; these and the argument PID (also as the only child); --delay and --count; "[--] PROGRAM [ARGUMENT...]" with a policy. */
extern const struct argp form_argp, view_argp, repeat_argp, program_argp;
extern const struct argp_child view_children[];
#define PROGRAM_ARGS "[--] PROGRAM [ARGUMENT...]"

/* Parse @text as a PID, or leave with the error of @state. */
pid_t parse_pid(const struct argp_state *state, const char *text);

/* Parse @text as seconds, or leave with the error of @state, which calls them @what. */
double parse_seconds(const struct argp_state *state, const char *what, const char *text);

/* Seconds on a clock that is never set. */
double now(void);

/* Sleep until @moment of the clock. */
void sleep_until(double moment);

#endif /* OPTIONS_H */
