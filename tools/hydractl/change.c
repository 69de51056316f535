// SPDX-License-Identifier: GPL-2.0-only
#include "change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel.h"
#include "settings.h"
#include "vms.h"

static bool write_to(pid_t pid, const char *file, const char *text)
{
	char *path = process_path(pid, file);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;
	int saved = errno;

	if (fd >= 0)
		close(fd);
	free(path);
	errno = saved;
	return written;
}

bool process_write(pid_t pid, const char *text)
{
	return write_to(pid, "hydra", text);
}

/* Frees the text. */
static char *change(pid_t pid, const char *file, char *text,
		    char *(*failure)(pid_t pid, const char *doing))
{
	char *why = NULL;
	bool written = write_to(pid, file, text);

	if (!written && errno == EPERM)
		why = allow_refusal();
	if (!written && !why)
		why = errno == EINVAL || errno == EOPNOTSUPP ? settings_refusal(text)
							     : failure(pid, "change");
	free(text);
	return why;
}

char *process_change(pid_t pid, const struct hydra_settings *settings)
{
	return change(pid, "hydra", must_have(settings_text(settings)), process_failure);
}

char *vms_change(pid_t pid, const struct settings_choice *choice, const struct vm_settings *more)
{
	char *shared = must_have(settings_named_text(choice)), *text;
	int length = asprintf(&text, "%s%s%s%s%s", shared, more->tables ? ",tables=" : "",
			      more->tables ? more->tables : "", more->expose ? ",expose=" : "",
			      more->expose ? more->expose : "");

	free(shared);
	must_have(length < 0 ? NULL : text);
	if (*text == ',')
		memmove(text, text + 1, strlen(text));
	if (!*text) {
		free(text);
		text = must_have(strdup("again"));
	}
	return change(pid, "hydra_vm", text, vms_failure);
}
