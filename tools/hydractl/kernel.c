// SPDX-License-Identifier: GPL-2.0-only
#include "kernel.h"

#include <argp.h>
#include <unistd.h>

/* Tests can replace these roots by trees of files. */
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

const char *kernel_etc(void)
{
	return root("HYDRACTL_ETC", "/etc");
}

static char *sys_path(const char *name)
{
	return xasprintf("%s/kernel/mm/hydra%s%s", kernel_sys(), *name ? "/" : "", name);
}

static bool exists(const char *path)
{
	return !access(path, F_OK);
}

bool kernel_has_hydra(void)
{
	autofree char *path = sys_path("");

	return exists(path);
}

void kernel_require(void)
{
	if (!kernel_has_hydra())
		error(argp_err_exit_status, 0,
		      "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      sys_path(""));
}

char *kernel_file(const char *name)
{
	autofree char *path = sys_path(name);
	char *text = file_read(path);

	if (!text)
		error(argp_err_exit_status, errno, "cannot read %s", path);
	for (size_t length = strlen(text); length && text[length - 1] == '\n'; length--)
		text[length - 1] = '\0';
	return text;
}

char *kernel_newer_file(const char *name)
{
	autofree char *path = sys_path(name);

	return exists(path) ? kernel_file(name) : NULL;
}

char *kernel_allow(void)
{
	return kernel_newer_file("allow");
}

bool kernel_set(const char *name, const char *text)
{
	autofree char *path = sys_path(name);

	return file_write(path, text);
}

char *process_path(pid_t pid, const char *name)
{
	return xasprintf("%s/%d/%s", kernel_proc(), pid, name);
}

bool process_write(pid_t pid, const char *name, const char *text)
{
	autofree char *path = process_path(pid, name);

	return file_write(path, text);
}

char *process_file(pid_t pid, const char *name)
{
	autofree char *path = process_path(pid, name);
	char *text = file_read(path);

	if (text && !*text) {
		free(text);
		text = NULL;
		errno = ENODATA;
	}
	return text;
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

void print_process_name(pid_t pid)
{
	autofree char *name = process_name(pid), *shown = printable(name);

	printf("process %d (%s)", pid, shown);
}

/* A kernel thread has Hydra's files like any process; opening or reading fails. */
static bool process_exists(pid_t pid)
{
	autofree char *path = process_path(pid, "comm");

	return exists(path);
}

char *process_failure(pid_t pid, const char *doing)
{
	int saved = errno;

	switch (saved) {
	case ENOENT:
	case ESRCH:
		if (!process_exists(pid))
			return xasprintf("no process %d", pid);
		/* fallthrough */
	case ENODATA:
		return xasprintf("process %d has no user memory (a kernel thread, or one that has ended)", pid);
	case EACCES:
	case EPERM:
		return xasprintf("not permitted to %s process %d: be its owner or root", doing, pid);
	default:
		return xasprintf("cannot %s process %d: %s", doing, pid, strerror(saved));
	}
}

char *process_need(pid_t pid, const char *name, const char *doing)
{
	char *text = process_file(pid, name);

	if (!text)
		error(argp_err_exit_status, 0, "%s", process_failure(pid, doing));
	return text;
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
