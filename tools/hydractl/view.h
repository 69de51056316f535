/* SPDX-License-Identifier: GPL-2.0-only */
/* The arguments of commands that show a process. */
#ifndef VIEW_H
#define VIEW_H

#include <argp.h>
#include <stdbool.h>
#include <sys/types.h>

struct view {
	bool pid_optional;
	bool json;
	pid_t pid;		/* 0 if none was given */
};

/* Parse @text as a PID, or leave with the error of @state. */
pid_t parse_pid(const struct argp_state *state, const char *text);

/*
 * The option --json and the argument PID; the input is a view. As a child, pid_argp
 * parses the argument alone.
 */
extern const struct argp_option view_options[];
error_t view_parse(int key, char *arg, struct argp_state *state);
extern const struct argp pid_argp;

#endif /* VIEW_H */
