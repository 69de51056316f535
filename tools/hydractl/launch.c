// SPDX-License-Identifier: GPL-2.0-only
#include "launch.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "descendants.h"
#include "kernel.h"
#include "program.h"
#include "repeat.h"

#define LOOK_SECONDS 0.1	/* between looks at processes that run, at least */
#define LOOK_SHARE 50		/* a look may take one of so many seconds */

static int gate[2];

/* Of the child: it exits, so it has not become the program. */
static void tell_failure(void)
{
	if (write(gate[1], "", 1) != 1)
		_exit(EXIT_RUN_ERROR);
}

/* Start the program. Returns its PID. */
static pid_t start(const struct hydra_settings *settings, char **program, const sigset_t *signals,
		   const struct sigaction *child_action, bool *started)
{
	char byte;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC))
		error(EXIT_RUN_ERROR, errno, "cannot go on");
	pid = fork();
	if (pid < 0)
		error(EXIT_RUN_ERROR, errno, "cannot start a process for '%s'", program[0]);
	if (!pid) {
		close(gate[0]);
		atexit(tell_failure);
		sigaction(SIGCHLD, child_action, NULL);
		sigprocmask(SIG_SETMASK, signals, NULL);
		program_become(settings, program);
	}
	close(gate[1]);
	/* The end of the file: the child has executed the program, which closed the pipe. */
	*started = !read(gate[0], &byte, 1);
	close(gate[0]);
	return pid;
}

/* Take the exit statuses of children. True if the program is among them. */
static bool has_ended(pid_t first, int *status_of_first)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != first)
			continue;
		*status_of_first = status;
		ended = true;
	}
	return ended;
}

/* The terminal sends its signals to the program, too; others have sent theirs to hydractl alone. */
static void pass_on(pid_t first, const siginfo_t *sent)
{
	if (sent->si_signo != SIGCHLD && sent->si_code != SI_KERNEL)
		kill(first, sent->si_signo);
}

void launch_program(const struct hydra_settings *settings, char **program, struct tally *tally)
{
	static const int handled[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	const struct timespec patience = { .tv_nsec = LOOK_SECONDS * 1e9 };
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	double next = now() + LOOK_SECONDS;
	struct sigaction child_action;
	sigset_t set, before;
	siginfo_t sent;
	pid_t first;

	*tally = (struct tally){ 0 };
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaddset(&set, handled[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	/* Ignored, the kernel would throw exit statuses away. */
	sigaction(SIGCHLD, &usual, &child_action);
	/* Descendants whose parent has ended become children of hydractl, which so finds them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	descendants_begin(tally);
	first = start(settings, program, &before, &child_action, &tally->started);
	while (!has_ended(first, &tally->status)) {
		if (sigtimedwait(&set, &sent, &patience) > 0)
			pass_on(first, &sent);
		if (now() >= next) {
			double begin = now();

			descendants_look(tally);
			next = now() + LOOK_SECONDS + LOOK_SHARE * (now() - begin);
		}
	}
	descendants_finish(tally);
	sigprocmask(SIG_SETMASK, &before, NULL);
}
