// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel.h"
#include "options.h"
#include "process.h"
#include "targets.h"

#define LOOK_SHARE 50		/* a look may take one of so many seconds */

/* Is the program plain Linux without the process's own choice, which is not permitted? */
static bool is_linux_anyway(const struct hydra_settings *settings)
{
	int saved = errno;
	autofree char *initial = kernel_file("default");
	struct hydra_settings now = { 0 };
	bool linux_anyway = settings->domains == HYDRA_SCOPE_MACHINE && !strcmp(initial, "linux") &&
			    !settings->tables && !settings->expose &&
			    !prctl(PR_GET_HYDRA, &now, HYDRA_SETTINGS_SIZE_FIRST, 0, 0) &&
			    now.domains == HYDRA_SCOPE_MACHINE;

	errno = saved;
	return linux_anyway;
}

void program_become(bool plain)
{
	struct hydra_settings settings = settings_choose(&options.choice);
	/* What an older kernel does not know, it is not asked for without need. */
	size_t size = settings.tables || settings.expose ? sizeof(settings) : HYDRA_SETTINGS_SIZE_FIRST;

	if (!plain && prctl(PR_SET_HYDRA, &settings, size, 0, 0) &&
	    !(errno == EPERM && is_linux_anyway(&settings)))
		error(EXIT_RUN_ERROR, 0, "%s", settings_refusal(settings_text(&settings)));
	execvp(options.program[0], options.program);
	error(errno == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_NOT_EXECUTABLE, errno,
	      "cannot run '%s'", options.program[0]);
	abort();
}

static int gate[2];

/* Of the child: it exits, so it has not become the program. */
static void tell_failure(void)
{
	if (write(gate[1], "", 1) != 1)
		_exit(EXIT_RUN_ERROR);
}

/* A child must not do what hydractl does at its exit. */
static pid_t owner;

/* Start the program. Returns its PID. */
static pid_t start(const sigset_t *signals, const struct sigaction *child_action, bool plain, bool *started)
{
	char byte;
	pid_t pid;

	owner = getpid();
	if (pipe2(gate, O_CLOEXEC))
		error(EXIT_RUN_ERROR, errno, "cannot go on");
	pid = fork();
	if (pid < 0)
		error(EXIT_RUN_ERROR, errno, "cannot start a process for '%s'", options.program[0]);
	if (!pid) {
		close(gate[0]);
		atexit(tell_failure);
		sigaction(SIGCHLD, child_action, NULL);
		sigprocmask(SIG_SETMASK, signals, NULL);
		program_become(plain);
	}
	close(gate[1]);
	/* The end of the file: the child has executed the program, which closed the pipe. */
	*started = !read(gate[0], &byte, 1);
	close(gate[0]);
	return pid;
}

/* Take the exit statuses of children. True if the program is among them. */
static bool has_ended(pid_t first, int *status)
{
	bool ended = false;
	int found;
	pid_t pid;

	while ((pid = waitpid(-1, &found, WNOHANG)) > 0) {
		if (pid != first)
			continue;
		*status = WIFSIGNALED(found) ? 128 + WTERMSIG(found) : WEXITSTATUS(found);
		ended = true;
	}
	return ended;
}

static void call(void (*step)(void))
{
	if (step)
		step();
}

struct program_end program_run(const struct program_steps *steps, bool plain)
{
	static const int handled[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	const struct timespec patience = { .tv_nsec = PROGRAM_LOOK_SECONDS * 1e9 };
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	double next = now() + PROGRAM_LOOK_SECONDS;
	struct program_end end = { 0 };
	struct sigaction child_action;
	sigset_t set, before;
	siginfo_t sent;
	pid_t first;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(handled) / sizeof(*handled); i++)
		sigaddset(&set, handled[i]);
	sigprocmask(SIG_BLOCK, &set, &before);
	/* Ignored, the kernel would throw exit statuses away. */
	sigaction(SIGCHLD, &usual, &child_action);
	/* Descendants whose parent has ended become children of hydractl, which so finds them. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	call(steps->begin);
	first = start(&before, &child_action, plain, &end.started);
	while (!has_ended(first, &end.status)) {
		/* The terminal sends its signals to the program, too; others have sent theirs to hydractl alone. */
		if (sigtimedwait(&set, &sent, &patience) > 0 && sent.si_signo != SIGCHLD && sent.si_code != SI_KERNEL)
			kill(first, sent.si_signo);
		if (now() >= next) {
			double begin = now();

			call(steps->look);
			next = now() + PROGRAM_LOOK_SECONDS + LOOK_SHARE * (now() - begin);
		}
	}
	call(steps->finish);
	sigaction(SIGCHLD, &child_action, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return end;
}

/* A process that has other settings for a while */
static struct loan {
	pid_t pid;
	uint64_t born;			/* a process that begins later may have the same PID */
	struct hydra_settings former;
} *loan;

static size_t loans;

static uint64_t begun;		/* all that begins later has inherited its settings */

static const struct loan *loan_of(pid_t pid)
{
	for (size_t i = 0; i < loans; i++)
		if (loan[i].pid == pid && loan[i].born == born(pid))
			return &loan[i];
	return NULL;
}

/* The loan that a process has inherited, as one with a loan has started it, directly or not; or NULL */
static const struct loan *inherited_loan(pid_t pid)
{
	const struct loan *of = NULL;

	while (pid > 1 && !of && born(pid) > begun)
		of = loan_of(pid = parent_of(pid));
	return of;
}

static bool has_none(const struct process *process)
{
	return process->pid != getpid() && !loan_of(process->pid);
}

static char *lend_to(pid_t pid)
{
	const struct hydra_settings settings = settings_choose(&options.choice);
	const struct loan *inherited = inherited_loan(pid);
	struct loan made = { .pid = pid, .born = born(pid) };
	char *text = process_file(pid, "hydra"), *why;
	struct records records;
	bool known;

	if (!text || !records_parse(&records, text, NULL))
		return process_failure(pid, "read");
	known = settings_from_records(&made.former, &records);
	records_free(&records);
	if (!known)
		return xasprintf("cannot make sense of the settings of process %d: is hydractl of the same version as the kernel?", pid);
	/* One that has begun meanwhile has never had settings of its own. */
	if (inherited)
		made.former = inherited->former;
	why = process_change(pid, &settings);
	if (why)
		return why;
	loan = must_have(reallocarray(loan, loans + 1, sizeof(made)));
	loan[loans++] = made;
	return NULL;
}

void settings_lend(void)
{
	struct targets targets = { .wanted = has_none, .change = lend_to };

	owner = getpid();
	begun = ticks_since_boot();
	atexit(settings_take_back);
	targets_change(&targets);
	if (targets.failed)
		error(EXIT_RUN_ERROR, 0, "'%s' was not run, and all have their former settings back", options.program[0]);
}

static void take_back_inherited(void)
{
	size_t count;
	autofree pid_t *pids = all_pids(&count);

	for (size_t i = 0; i < count; i++) {
		const struct loan *of = inherited_loan(pids[i]);

		if (of && !loan_of(pids[i]) && pids[i] != getpid())
			free(process_change(pids[i], &of->former));
	}
}

void settings_take_back(void)
{
	if (!loans || getpid() != owner)
		return;
	/* Children first, and again: one that begins between the two is found the second time. */
	take_back_inherited();
	for (size_t i = 0; i < loans; i++)
		if (loan_of(loan[i].pid) == &loan[i])
			free(process_change(loan[i].pid, &loan[i].former));
	take_back_inherited();
	loans = 0;
}
