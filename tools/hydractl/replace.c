// SPDX-License-Identifier: GPL-2.0-only
#include "replace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_all(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t written = write(fd, text, size);

		if (written < 0)
			return false;
		text += written;
		size -= written;
	}
	return true;
}

/* @name ends in XXXXXX. */
static bool replace_by(char *name, const char *path, const char *text, size_t size)
{
	int fd = mkstemp(name), saved;
	bool good;

	if (fd < 0)
		return false;
	good = write_all(fd, text, size) && !fchmod(fd, 0644);
	if (close(fd))
		good = false;
	if (good && !rename(name, path))
		return true;
	saved = errno;
	unlink(name);
	errno = saved;
	return false;
}

bool replace_file(const char *path, const char *text, size_t size)
{
	sigset_t all, before;
	char *name;
	bool good;
	int saved;

	if (asprintf(&name, "%s.XXXXXX", path) < 0)
		return false;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	good = replace_by(name, path, text, size);
	saved = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(name);
	errno = saved;
	return good;
}
