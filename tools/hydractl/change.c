// SPDX-License-Identifier: GPL-2.0-only
#include "change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "settings.h"

bool process_write(pid_t pid, const char *text)
{
	char *path = process_path(pid, "hydra");
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
	int saved = errno;

	if (fd >= 0)
		close(fd);
	free(path);
	errno = saved;
	return written;
}

char *process_change(pid_t pid, const struct hydra_settings *settings)
{
	char *text = must_have(settings_text(settings)), *why = NULL;
	bool written = process_write(pid, text);

	if (!written && errno == EPERM)
		why = allow_refusal();
	if (!written && !why)
		why = errno == EINVAL || errno == EOPNOTSUPP ? settings_refusal(text)
							     : process_failure(pid, "change");
	free(text);
	return why;
}
