// SPDX-License-Identifier: GPL-2.0-only
#include "change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "settings.h"

char *process_change(pid_t pid, const struct hydra_settings *settings)
{
	char *text = must_have(settings_text(settings)), *path = process_path(pid, "hydra");
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	char *why = NULL;

	if (fd < 0)
		why = process_failure(pid, "change");
	else if (write(fd, text, strlen(text)) < 0)
		why = errno == EINVAL || errno == EOPNOTSUPP ? settings_refusal(text)
							     : process_failure(pid, "change");
	if (fd >= 0)
		close(fd);
	free(path);
	free(text);
	return why;
}
