/* SPDX-License-Identifier: GPL-2.0-only */
/* Options and arguments of several commands, and time. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Of commands that show a process */
struct view {
	bool pid_optional;
	bool json;
	pid_t pid;		/* 0 if none was given */
};

/* The option --json and the argument PID, also as the only child; or the argument alone. The input is a view. */
extern const struct argp view_argp, pid_argp;
extern const struct argp_child view_children[];

/* Parse @text as a PID, or leave with the error of @state. */
pid_t parse_pid(const struct argp_state *state, const char *text);

/* Of commands that look again and again */
struct repeat {
	double delay;		/* seconds */
	bool delay_given;
	uint64_t count;		/* 0: no end */
};

/* The options --delay and --count; the input is a repeat. */
extern const struct argp repeat_argp;

/* Parse @text as seconds, or leave with the error of @state, which calls them @what. */
double parse_seconds(const struct argp_state *state, const char *what, const char *text);

/* Seconds on a clock that is never set. */
double now(void);

/* Sleep until @moment of the clock. */
void sleep_until(double moment);

#endif /* OPTIONS_H */
