/* SPDX-License-Identifier: GPL-2.0-only */
/* Replacing a file so that readers see the old content or the new one. */
#ifndef REPLACE_H
#define REPLACE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Write @text to a new file beside @path, readable by all, and rename the file to @path.
 * On failure: false and errno, and @path is as before. A signal waits until the temporary
 * file is gone.
 */
bool replace_file(const char *path, const char *text, size_t size);

#endif /* REPLACE_H */
