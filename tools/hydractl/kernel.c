// SPDX-License-Identifier: GPL-2.0-only
#include "kernel.h"

#include <argp.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

/* Tests can replace both roots by trees of files. */
static const char *root(const char *variable, const char *usual)
{
	const char *path = getenv(variable);

	return path && *path ? path : usual;
}

const char *kernel_proc(void)
{
	return root("HYDRACTL_PROC", "/proc");
}

const char *kernel_sys(void)
{
	return root("HYDRACTL_SYS", "/sys");
}

static char *sys_path(const char *name)
{
	char *path;

	if (asprintf(&path, "%s/kernel/mm/hydra%s%s", kernel_sys(),
		     *name ? "/" : "", name) < 0)
		path = NULL;
	return must_have(path);
}

bool kernel_has_hydra(void)
{
	char *path = sys_path("");
	bool there = !access(path, F_OK);

	free(path);
	return there;
}

void kernel_require(void)
{
	char *path = sys_path("");

	if (!kernel_has_hydra())
		error(argp_err_exit_status, 0,
		      "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      path);
	free(path);
}

char *kernel_file(const char *name)
{
	char *path = sys_path(name);
	char *text = file_read(path);
	size_t length;

	if (!text)
		error(argp_err_exit_status, errno, "cannot read %s", path);
	for (length = strlen(text); length && text[length - 1] == '\n'; length--)
		text[length - 1] = '\0';
	free(path);
	return text;
}

char *kernel_allow(void)
{
	char *path = sys_path("allow");
	char *text = access(path, F_OK) ? NULL : kernel_file("allow");

	free(path);
	return text;
}

bool kernel_set(const char *name, const char *text)
{
	char *path = sys_path(name);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), saved;
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;

	saved = errno;
	if (fd >= 0)
		close(fd);
	free(path);
	errno = saved;
	return written;
}

char *process_path(pid_t pid, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%d/%s", kernel_proc(), pid, name) < 0)
		path = NULL;
	return must_have(path);
}

char *process_file(pid_t pid, const char *name)
{
	char *path = process_path(pid, name);
	char *text = file_read(path);

	if (text && !*text) {
		free(text);
		text = NULL;
		errno = ENODATA;
	}
	free(path);
	return text;
}

struct records process_records(pid_t pid, const char *name)
{
	char *text = process_file(pid, name);
	struct records records;

	if (!text)
		process_fail(pid, "read");
	if (!records_parse(&records, text, NULL))
		process_unexpected(pid, name, strerror(errno));
	return records;
}

char *process_name(pid_t pid)
{
	char *name = process_file(pid, "comm");
	size_t length;

	if (!name)
		return must_have(strdup("?"));
	length = strlen(name);
	if (length && name[length - 1] == '\n')
		name[length - 1] = '\0';
	return name;
}

void print_process_name(pid_t pid, const char *name)
{
	char *shown = must_have(printable(name));

	printf("process %d (%s)", pid, shown);
	free(shown);
}

/* A kernel thread has Hydra's files like any process; opening or reading fails. */
static bool process_exists(pid_t pid)
{
	char *path = process_path(pid, "comm");
	bool exists = !access(path, F_OK);

	free(path);
	return exists;
}

char *process_failure(pid_t pid, const char *doing)
{
	int saved = errno, length;
	char *why;

	switch (saved) {
	case ENOENT:
	case ESRCH:
	case ENODATA:
		if (saved != ENODATA && !process_exists(pid))
			length = asprintf(&why, "no process %d", pid);
		else
			length = asprintf(&why, "process %d has no user memory (a kernel thread, or one that has ended)",
					  pid);
		break;
	case EACCES:
	case EPERM:
		length = asprintf(&why, "not permitted to %s process %d: be its owner or root",
				  doing, pid);
		break;
	default:
		length = asprintf(&why, "cannot %s process %d: %s", doing, pid, strerror(saved));
	}
	return must_have(length < 0 ? NULL : why);
}

void process_fail(pid_t pid, const char *doing)
{
	error(argp_err_exit_status, 0, "%s", process_failure(pid, doing));
	abort();
}

static _Noreturn void unexpected(const char *path, const char *what)
{
	error(argp_err_exit_status, 0, "cannot make sense of %s (%s): is hydractl of the same version as the kernel?",
	      path, what);
	abort();
}

void kernel_unexpected(const char *name, const char *what)
{
	unexpected(sys_path(name), what);
}

void process_unexpected(pid_t pid, const char *name, const char *what)
{
	unexpected(process_path(pid, name), what);
}

char *kernel_supported(char **missing)
{
	char *supported = kernel_file("supported");

	*missing = strchr(supported, '\n');
	if (*missing)
		*(*missing)++ = '\0';
	return supported;
}

/* Of lines "no SETTING: REASON": the text after "no" of a line whose setting is requested. */
static char *reason_against(char *missing, const char *settings)
{
	for (char *line = strtok(missing, "\n"); line; line = strtok(NULL, "\n")) {
		char *setting, *said = line + strlen("no ");
		bool asked;

		if (strncmp(line, "no ", strlen("no ")))
			continue;
		setting = must_have(strndup(said, strcspn(said, ":")));
		asked = strstr(settings, setting);
		free(setting);
		if (asked)
			return said;
	}
	return NULL;
}

char *allow_refusal(void)
{
	int saved = errno;
	char *allow = kernel_allow(), *why = NULL;

	if (allow && !strcmp(allow, "cap_sys_nice"))
		why = must_have(strdup("only processes with CAP_SYS_NICE, as root's, may choose settings ('hydractl allow' says so)"));
	if (allow && !strcmp(allow, "nobody"))
		why = must_have(strdup("no process may choose settings ('hydractl allow' says so); 'hydractl allow anybody', by root, ends that"));
	free(allow);
	errno = saved;
	return why;
}

char *settings_refusal(const char *settings)
{
	int saved = errno, length;
	char *supported, *missing, *reason = NULL, *why = saved == EPERM ? allow_refusal() : NULL;

	if (why)
		return why;
	if (saved != EOPNOTSUPP) {
		length = asprintf(&why, "the kernel refused the settings '%s': %s", settings,
				  strerror(saved));
		return must_have(length < 0 ? NULL : why);
	}
	supported = kernel_supported(&missing);
	if (missing)
		reason = reason_against(missing, settings);
	if (strcmp(supported, "yes"))
		length = asprintf(&why, "Hydra cannot work on this machine (%s)", supported);
	else if (reason)
		length = asprintf(&why, "this machine cannot do '%s' (%s): choose another filter",
				  settings, reason);
	else
		/* Older kernels refuse kinds of domains, replication and filters. */
		length = asprintf(&why, "this kernel, or this machine, cannot do '%s': choose --domains node, --replication lazy, and --filter none or --filter table",
				  settings);
	free(supported);
	return must_have(length < 0 ? NULL : why);
}

void settings_refused(const char *settings)
{
	error(argp_err_exit_status, 0, "%s", settings_refusal(settings));
	abort();
}
