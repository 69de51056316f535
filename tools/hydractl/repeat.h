/* SPDX-License-Identifier: GPL-2.0-only */
/* The options of commands that look again and again. */
#ifndef REPEAT_H
#define REPEAT_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

struct repeat {
	double delay;		/* seconds */
	bool delay_given;
	uint64_t count;		/* 0: no end */
};

/* The parser of --delay and --count; its input is a struct repeat. */
extern const struct argp repeat_argp;

/* Parse @text as seconds, or leave with the error of @state, which calls them @what. */
double parse_seconds(const struct argp_state *state, const char *what, const char *text);

/* Seconds on a clock that is never set. */
double now(void);

/* Sleep until @moment of the clock. */
void sleep_until(double moment);

#endif /* REPEAT_H */
