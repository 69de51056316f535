// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rows in which processes or threads come, go, and take turns. All of them
 * stay on one CPU, so that this CPU executes the whole operation.
 */
#include <errno.h>
#include <error.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "steps.h"

#define SMALL (1UL << 20)
#define LARGE (64UL << 20)

static void open_pipe(int end[2])
{
	if (pipe(end))
		error(EXIT_FAILURE, errno, "pipe");
}

static void open_pipes(struct place *place)
{
	open_pipe(place->to);
	open_pipe(place->from);
}

static void close_pipes(struct place *place)
{
	for (int i = 0; i < 2; i++) {
		close(place->to[i]);
		close(place->from[i]);
	}
}

/* End a partner: it reads the end of the file. */
static void hang_up(struct place *place)
{
	close(place->to[1]);
	place->to[1] = -1;
}

static void say(int to)
{
	if (write(to, "", 1) != 1)
		error(EXIT_FAILURE, errno, "writing to a pipe");
}

/* False at the end: when the other side has closed it. */
static bool hear(int from)
{
	char byte;
	ssize_t got = read(from, &byte, 1);

	if (got < 0)
		error(EXIT_FAILURE, errno, "reading from a pipe");
	return got;
}

static void wait_for(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		error(EXIT_FAILURE, errno, "waiting for a child");
	if (status)
		error(EXIT_FAILURE, 0, "a child did not end well: status 0x%x", status);
}

static pid_t checked_fork(void)
{
	pid_t child = fork();

	if (child < 0)
		error(EXIT_FAILURE, errno, "fork");
	return child;
}

static void map_small(struct place *place)
{
	place_touch(place_map(place->at, SMALL), SMALL);
}

static void map_large(struct place *place)
{
	place_touch(place_map(place->at, LARGE), LARGE);
}

static void fork_and_exit(struct place *place)
{
	pid_t child = checked_fork();

	(void)place;
	if (!child)
		_exit(0);
	wait_for(child);
}

static void fork_exec_exit(struct place *place)
{
	pid_t child = checked_fork();

	(void)place;
	if (!child) {
		char *const arguments[] = { ENDS_AT_ONCE, NULL };

		execve("/proc/self/exe", arguments, arguments + 1);
		_exit(1);
	}
	wait_for(child);
}

/* A child with much memory, which ends when the parent says so. */
static void start_large_child(struct place *place)
{
	place->child = checked_fork();
	if (!place->child) {
		place_map(place->at, LARGE);
		if (madvise(place->at, LARGE, MADV_POPULATE_WRITE))
			error(EXIT_FAILURE, errno, "cannot fill %zu MiB", LARGE >> 20);
		say(place->from[1]);
		hear(place->to[0]);
		_exit(0);
	}
	hear(place->from[0]);
}

static void end_large_child(struct place *place)
{
	say(place->to[1]);
	wait_for(place->child);
}

/* The partner answers until it reads the end of the file. */
static void answer(int from, int to)
{
	while (hear(from))
		say(to);
}

static void start_partner_process(struct place *place)
{
	open_pipes(place);
	place->child = checked_fork();
	if (!place->child) {
		close(place->to[1]);
		answer(place->to[0], place->from[1]);
		_exit(0);
	}
}

static void end_partner_process(struct place *place)
{
	hang_up(place);
	wait_for(place->child);
	close_pipes(place);
}

static pthread_t partner;

static void *answer_as_thread(void *argument)
{
	struct place *place = argument;

	answer(place->to[0], place->from[1]);
	return NULL;
}

static void start_partner_thread(struct place *place)
{
	open_pipes(place);
	partner = start_pinned(place->cpu, answer_as_thread, place);
}

static void end_partner_thread(struct place *place)
{
	hang_up(place);
	pthread_join(partner, NULL);
	close_pipes(place);
}

/* A switch to the partner, and one back. */
static void switch_twice(struct place *place)
{
	say(place->to[1]);
	hear(place->from[0]);
}

const struct row process_rows[] = {
	{ .name = "fork-exit-1m", .prepare = map_small, .once = fork_and_exit, .alone = true },
	{ .name = "fork-exit-64m", .prepare = map_large, .once = fork_and_exit, .alone = true, .most = 8 },
	{ .name = "fork-exec-exit", .once = fork_exec_exit, .alone = true },
	{ .name = "exit-64m", .prepare = open_pipes, .before = start_large_child, .once = end_large_child,
	  .finish = close_pipes, .alone = true, .most = 4 },
	{ .name = "switch-processes", .prepare = start_partner_process, .once = switch_twice, .finish = end_partner_process,
	  .alone = true },
	{ .name = "switch-threads", .prepare = start_partner_thread, .once = switch_twice, .finish = end_partner_thread,
	  .alone = true },
	{ 0 }
};
