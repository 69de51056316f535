// SPDX-License-Identifier: GPL-2.0-only
/*
 * The other processes: some do nothing but be there, some call the interface as
 * they are told. They may become other users first.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

static int ready_pipe[2];

bool prepare_processes(void)
{
	return !pipe2(ready_pipe, O_CLOEXEC);
}

pid_t spawn(bool (*become)(void))
{
	pid_t child;
	char c;

	fflush(NULL);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (become && !become())
			_exit(1);
		/* changes of credentials clear it */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = 'r';
		if (write(ready_pipe[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (child < 0 || read(ready_pipe[0], &c, 1) != 1)
		ksft_exit_fail_msg("cannot start a process\n");
	return child;
}

void kill_subjects(void)
{
	for (int i = 0; i < nr_subjects; i++)
		if (subjects[i].pid != getpid() && subjects[i].pid > 2) {
			kill(subjects[i].pid, SIGKILL);
			hydra_wait_child(subjects[i].pid);
		}
}

bool become_user(uid_t uid, gid_t gid)
{
	return !setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid) &&
	       !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

bool become_nobody(void)
{
	return become_user(NOBODY, NOBODY);
}

static long obey(const struct command *c)
{
	static int held = -1;
	char text[64];
	long result;
	int fd;

	switch (c->action) {
	case WRITE_FILE:
	case READ_FILE:
		fd = open(c->path, c->action == WRITE_FILE ? O_WRONLY : O_RDONLY);
		if (fd < 0)
			return -errno;
		result = c->action == WRITE_FILE ? RESULT(write(fd, c->text, c->len)) :
						   RESULT(read(fd, text, sizeof(text)));
		close(fd);
		return result;
	case SET:
		return hydra_set(&c->settings);
	case HOLD:
		if (held >= 0)
			close(held);
		held = open(c->path, O_RDWR | O_CLOEXEC);
		return held < 0 ? -errno : 0;
	case WRITE_HELD:
		return RESULT(write(held, c->text, c->len));
	case READ_HELD:
		return RESULT(pread(held, text, sizeof(text), 0));
	}
	return -EINVAL;
}

struct caller spawn_caller(const char *name, bool (*become)(void))
{
	struct command c;
	int ends[2];
	struct caller caller;
	long result;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		ksft_exit_fail_msg("no sockets\n");
	fflush(NULL);
	caller.pid = fork();
	if (!caller.pid) {
		close(ends[0]);
		result = !become || become();
		while (write(ends[1], &result, sizeof(result)) == sizeof(result) &&
		       read(ends[1], &c, sizeof(c)) == sizeof(c))
			result = obey(&c);
		_exit(0);
	}
	close(ends[1]);
	caller.socket = ends[0];
	if (read(ends[0], &result, sizeof(result)) != sizeof(result) || !result)
		caller.pid = 0;
	caller.subject = caller.pid ? add_subject(name, caller.pid) : NULL;
	return caller;
}

long tell(const struct caller *caller, const struct command *c)
{
	long result = -EIO;

	if (write(caller->socket, c, sizeof(*c)) != sizeof(*c) ||
	    read(caller->socket, &result, sizeof(result)) != sizeof(result))
		mistake("a caller has died");
	return result;
}

static bool lacks(const struct way *way, enum outcome outcome)
{
	return way->needed & MAY(outcome) && !way->met[outcome] && one_in(2);
}

void command_text(struct command *c, const struct way *way)
{
	static char text[HUGE_TEXT + 512];

	if (lacks(way, NOTSUPP)) {
		c->len = sprintf(c->text, "filter=entry");
		return;
	}
	if (lacks(way, INVAL)) {
		c->len = sprintf(c->text, "filter=nothing");
		return;
	}
	do {
		c->len = one_in(2) ? valid_text(text) : any_text(text);
	} while (c->len > sizeof(c->text));
	memcpy(c->text, text, c->len);
}
