// SPDX-License-Identifier: GPL-2.0-only
#include "lock_trace.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel.h"
#include "options.h"

#define BUFFER_KIB "1024"	/* for each CPU */
#define READ_SIZE 65536

static const char *const events[] = {
	"mmap_lock/mmap_lock_start_locking", "mmap_lock/mmap_lock_acquire_returned", "raw_syscalls/sys_enter", "raw_syscalls/sys_exit",
};

#define EVENTS (sizeof(events) / sizeof(*events))

static char *instance;		/* its directory; NULL: there is none */
static int pipe_fd = -1;
static char rest[READ_SIZE + 1];	/* the beginning of a line whose end has not come */
static size_t rest_size;

void lock_trace_end(void)
{
	if (pipe_fd >= 0)
		close(pipe_fd);
	pipe_fd = -1;
	if (!instance)
		return;
	/* This ends the events, too. */
	rmdir(instance);
	free(instance);
	instance = NULL;
}

static void set(const char *name, const char *text)
{
	autofree char *path = xasprintf("%s/%s", instance, name);

	if (!file_write(path, text))
		error(EXIT_ERROR, errno, "cannot write '%.40s' to %s", text, path);
}

/* Leave, if the kernel lacks what is needed. */
static void require(const char *root)
{
	if (access(root, X_OK) && errno == EACCES)
		error(EXIT_ERROR, errno, "cannot trace: %s (only root can)", root);
	for (size_t i = 0; i < EVENTS; i++) {
		autofree char *all = xasprintf("%s/events", root), *path = xasprintf("%s/%s", all, events[i]);

		if (access(all, F_OK))
			error(EXIT_ERROR, 0, "%s is not there. Mount it: mount -t tracefs tracefs %s. If that fails, the kernel cannot trace (CONFIG_FTRACE)",
			      all, root);
		if (access(path, F_OK))
			error(EXIT_ERROR, 0, "this kernel has no event %s, without which nothing tells which calls take the lock: a kernel with CONFIG_FTRACE and CONFIG_ENABLE_DEFAULT_TRACERS or another tracer has it (Linux 5.11 or later)",
			      events[i]);
	}
}

void lock_trace_begin(const pid_t *threads, size_t count, const char *filter)
{
	autofree char *root = xasprintf("%s/kernel/tracing", kernel_sys()), *ids = NULL, *path = NULL;

	require(root);
	instance = xasprintf("%s/instances/hydractl-%d", root, getpid());
	if (mkdir(instance, 0700) && errno != EEXIST) {
		int saved = errno;
		autofree char *wanted = instance;

		instance = NULL;
		error(EXIT_ERROR, saved, "cannot make a trace of its own, %s", wanted);
	}
	atexit(lock_trace_end);
	for (size_t i = 0; i < count; i++)
		append(&ids, "%s%d", i ? " " : "", threads[i]);
	/* Threads run on several CPUs, whose events have to be in order. */
	set("trace_clock", "mono");
	set("buffer_size_kb", BUFFER_KIB);
	set("options/event-fork", "1");
	set("set_event_pid", ids ?: "");
	set("events/raw_syscalls/sys_enter/filter", filter);
	set("events/raw_syscalls/sys_exit/filter", filter);
	path = xasprintf("%s/trace_pipe", instance);
	pipe_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (pipe_fd < 0)
		error(EXIT_ERROR, errno, "cannot read %s", path);
	for (size_t i = EVENTS; i--; ) {
		autofree char *name = xasprintf("events/%s/enable", events[i]);

		set(name, "1");
	}
}

void lock_trace_stop(void)
{
	set("tracing_on", "0");
}

void lock_trace_read(void (*take)(void *argument, const char *line), void *argument, double until)
{
	ssize_t size = 0;

	while (now() < until && (size = read(pipe_fd, rest + rest_size, READ_SIZE - rest_size)) > 0) {
		char *line = rest, *end;

		rest[rest_size += size] = '\0';
		while ((end = strchr(line, '\n'))) {
			*end = '\0';
			take(argument, line);
			line = end + 1;
		}
		rest_size -= line - rest;
		memmove(rest, line, rest_size);
		/* A line that is too long is none of the kernel's. */
		if (rest_size == READ_SIZE)
			rest_size = 0;
	}
	if (size < 0 && errno != EAGAIN && errno != EINTR)
		error(EXIT_ERROR, errno, "cannot read the trace");
}
