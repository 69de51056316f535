// SPDX-License-Identifier: GPL-2.0-only
#include "tracer.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "members.h"
#include "program.h"
#include "repeat.h"

#define LOOK_SECONDS 0.1	/* between looks at processes that run */

#define TRACE_OPTIONS (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
		       PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT)

/* Start the program, which waits until it is traced. Returns its PID. */
static pid_t start(const struct hydra_settings *settings, char **program, const sigset_t *signals)
{
	int gate[2];
	char byte;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC))
		error(EXIT_RUN_ERROR, errno, "cannot go on");
	pid = fork();
	if (pid < 0)
		error(EXIT_RUN_ERROR, errno, "cannot start a process for '%s'", program[0]);
	if (!pid) {
		close(gate[1]);
		/* Nothing comes if hydractl cannot trace. */
		if (read(gate[0], &byte, 1) != 1)
			_exit(EXIT_RUN_ERROR);
		sigprocmask(SIG_SETMASK, signals, NULL);
		program_become(settings, program);
	}
	close(gate[0]);
	if (ptrace(PTRACE_SEIZE, pid, 0, TRACE_OPTIONS))
		error(EXIT_RUN_ERROR, errno, "cannot trace '%s', which 'stat' needs for the counters of processes that end: use 'hydractl run' and 'hydractl status'",
		      program[0]);
	if (write(gate[1], "", 1) != 1)
		error(EXIT_RUN_ERROR, errno, "cannot start '%s'", program[0]);
	close(gate[1]);
	return pid;
}

static bool stops_processes(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

/* Look if need be, and let the stopped thread go on as it would without hydractl. */
static void stopped(struct tally *tally, pid_t first, pid_t tid, int status)
{
	int signal = WSTOPSIG(status), event = status >> 16;

	member_thread_seen(tally, tid);
	switch (event) {
	case 0:
		ptrace(PTRACE_CONT, tid, 0, signal);
		return;
	case PTRACE_EVENT_EXIT:
		member_look(tally, tid);
		break;
	case PTRACE_EVENT_EXEC:
		member_executed(tally, tid);
		if (tid == first)
			tally->started = true;
		break;
	case PTRACE_EVENT_STOP:
		if (stops_processes(signal)) {
			ptrace(PTRACE_LISTEN, tid, 0, 0);
			return;
		}
		break;
	}
	/* Fails if a signal has killed the thread meanwhile. */
	ptrace(PTRACE_CONT, tid, 0, 0);
}

/* Handle what the kernel reports of the traced threads. True if the program has ended. */
static bool take_reports(struct tally *tally, pid_t first)
{
	int status;
	pid_t tid;

	while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
		if (WIFSTOPPED(status)) {
			stopped(tally, first, tid, status);
			continue;
		}
		member_thread_ended(tally, tid);
		if (tid == first) {
			tally->status = status;
			return true;
		}
	}
	return false;
}

/* The terminal sends its signals to the program, too; others have sent theirs to hydractl alone. */
static void pass_on(pid_t first, const siginfo_t *sent)
{
	if (sent->si_signo != SIGCHLD && sent->si_code != SI_KERNEL)
		kill(first, sent->si_signo);
}

void trace_program(const struct hydra_settings *settings, char **program, struct tally *tally)
{
	static const int handled[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	const struct timespec patience = { .tv_nsec = LOOK_SECONDS * 1e9 };
	double last = now();
	sigset_t set, before;
	siginfo_t sent;
	pid_t first;

	*tally = (struct tally){ 0 };
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaddset(&set, handled[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	first = start(settings, program, &before);
	member_thread_seen(tally, first);
	while (!take_reports(tally, first)) {
		if (sigtimedwait(&set, &sent, &patience) > 0)
			pass_on(first, &sent);
		if (now() - last < LOOK_SECONDS)
			continue;
		members_look(tally);
		last = now();
	}
	members_finish(tally);
	sigprocmask(SIG_SETMASK, &before, NULL);
}
