/* SPDX-License-Identifier: GPL-2.0-only */
/* The terminal of 'hydractl top'. */
#ifndef SCREEN_H
#define SCREEN_H

#include "options.h"
#include "watch.h"

/*
 * Show the watch, refreshed, until the user ends it or the count is reached. Exit with a
 * message on failure. However it ends, the terminal is as before.
 */
void screen_run(struct watch *watch, const struct repeat *repeat);

#endif /* SCREEN_H */
