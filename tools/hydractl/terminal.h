/* SPDX-License-Identifier: GPL-2.0-only */
/* A terminal that is given back as it was, also after a signal or an error. */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdbool.h>

/* Take the terminal; exit with a message if it cannot be drawn on. */
void terminal_open(void);
void terminal_close(void);

/*
 * Wait for a key, until the time is up or a signal comes. Returns the key as of curses(3),
 * or ERR.
 */
int terminal_key(double seconds);

/* Has the user pressed Ctrl-C, or has the terminal gone? */
bool terminal_ended(void);

#endif /* TERMINAL_H */
