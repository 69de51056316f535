// SPDX-License-Identifier: GPL-2.0-only
/* hydractl stat: run a program under a policy, then show what it and its children counted. */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "descendants.h"
#include "json.h"
#include "kernel.h"
#include "options.h"
#include "text.h"
#include "tlb_line.h"

#define LOOK_SECONDS 0.1	/* between looks at processes that run, at least */
#define LOOK_SHARE 50		/* a look may take one of so many seconds */

static const char *output;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	(void)state;
	switch (key) {
	case 'o':
		output = arg;
		return 0;
	case 'j':
		options.json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option output_options[] = {
	{ "output", 'o', "FILE", 0, "Write the summary to FILE instead of stderr", 1 },
	{ "json", 'j', NULL, 0, "Write the summary as JSON", 1 },
	{ 0 }
};

static const struct argp argp = {
	.options = output_options,
	.parser = parse_option,
	.children = program_children,
	.args_doc = PROGRAM_ARGS,
	.doc = "Run PROGRAM under a policy (default: hydra) until it ends, then show the counters of PROGRAM and of all processes that it started, also of those that have ended.\n"
	       "\n"
	       "The kernel counts the flushes of PROGRAM and of all its descendants under any policy, also linux, and adds up the counters of those that end. Only the peak of the replica memory is from looks, ten a second at most. Set-uid programs are not counted.\v"
	       "For example:\n"
	       "  hydractl stat -- make -j8\n"
	       "  hydractl stat --policy linux -- make -j8\n"
	       "\n"
	       "Exit status: PROGRAM's; 128 + N if signal N ended it; 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

struct summary {
	struct tally tally;
	char *command;
	bool started;		/* the program was there and could be run */
	int status;		/* the program's, as of wait(2) */
	double seconds;
	bool machine_told;
	uint64_t machine;	/* interrupts for TLB shootdowns on all CPUs meanwhile */
};

static int gate[2];

/* Of the child: it exits, so it has not become the program. */
static void tell_failure(void)
{
	if (write(gate[1], "", 1) != 1)
		_exit(EXIT_RUN_ERROR);
}

/* Start the program. Returns its PID. */
static pid_t start(const sigset_t *signals, const struct sigaction *child_action, bool *started)
{
	char byte;
	pid_t pid;

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
		become_program();
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

/*
 * Run the program until it ends. Its descendants that still run then go on. Exit with
 * EXIT_RUN_ERROR if hydractl cannot start a process.
 */
static void launch(struct summary *summary)
{
	static const int handled[] = { SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP };
	const struct timespec patience = { .tv_nsec = LOOK_SECONDS * 1e9 };
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	double next = now() + LOOK_SECONDS;
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
	descendants_begin(&summary->tally);
	first = start(&before, &child_action, &summary->started);
	while (!has_ended(first, &summary->status)) {
		if (sigtimedwait(&set, &sent, &patience) > 0)
			pass_on(first, &sent);
		if (now() >= next) {
			double begin = now();

			descendants_look(&summary->tally);
			next = now() + LOOK_SECONDS + LOOK_SHARE * (now() - begin);
		}
	}
	descendants_finish(&summary->tally);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static uint64_t interrupted_or_spared(const struct tally *tally)
{
	return tally->number[INTERRUPTED] + tally->number[SPARED];
}

static void print_line(FILE *out, uint64_t number, const char *what)
{
	fprintf(out, "%16" PRIu64 "  %s\n", number, what);
}

/* "NUMBER  WHAT: 12.3 % SHARE_OF" */
static void print_share(FILE *out, uint64_t number, const char *what, uint64_t all, const char *share_of)
{
	fprintf(out, "%16" PRIu64 "  %s", number, what);
	if (all)
		fprintf(out, ": %.1f %% of %s", 100.0 * number / all, share_of);
	fputc('\n', out);
}

static void print_remarks(FILE *out, const struct tally *tally)
{
	if (tally->refusal)
		fprintf(out, " Counted is only what hydractl saw at %u looks at the running processes: %s.\n",
			tally->looks, tally->refusal);
	if (tally->with_others)
		fprintf(out, " hydractl itself was counted when it started: processes that hydractl did not start, counted with it, are in the sums if they ended meanwhile.\n");
	if (tally->running)
		fprintf(out, " %u of the processes still run%s, and %s counted until now.\n", tally->running,
			tally->running == 1 ? "s" : "", tally->running == 1 ? "was" : "were");
	if (tally->unreadable)
		fprintf(out, tally->unreadable == 1 ?
			" %u process that still runs is missing: not permitted to read it (be root).\n" :
			" %u processes that still run are missing: not permitted to read them (be root).\n",
			tally->unreadable);
	if (tally->may_count_twice)
		fprintf(out, " The kernel lacks CONFIG_KCMP: processes that share memory may be counted twice.\n");
}

static void print_summary(FILE *out, const struct summary *summary)
{
	const struct tally *tally = &summary->tally;
	const uint64_t *number = tally->number;
	autofree char *command = printable(summary->command);

	fprintf(out, "\n Hydra's counters of '%s' and the processes it started:\n\n", command);
	print_line(out, number[FLUSHES], "TLB flushes");
	print_line(out, number[INTERRUPTED], "interrupts sent (CPUs interrupted)");
	if (tally->across_told)
		print_share(out, number[ACROSS], "to CPUs of another node", number[INTERRUPTED], "those sent");
	print_share(out, number[SPARED], "interrupts spared, which Linux would have sent", interrupted_or_spared(tally), "both");
	fprintf(out, "%16" PRIu64 "  fills, and %" PRIu64 " entries prefetched\n", number[FILLS],
		number[PREFETCHED]);
	print_line(out, number[PROPAGATED], "entries propagated");
	print_line(out, number[FALLBACKS], "fallbacks for want of memory");
	print_line(out, number[RECLAIMED], "replica tables reclaimed");
	fprintf(out, "%16" PRIu64 "  KiB of replica tables at the peak (of %u looks)\n", tally->peak_kib,
		tally->looks);
	if (summary->machine_told)
		print_line(out, summary->machine, "interrupts for TLB shootdowns on the whole machine meanwhile");
	fprintf(out, "\n%16.3f  seconds\n\n", summary->seconds);
	print_remarks(out, tally);
}

static int exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void json_summary(FILE *out, const struct summary *summary)
{
	const struct tally *tally = &summary->tally;

	json_to(out);
	json_open_object(NULL);
	json_string("command", summary->command);
	json_number("status", exit_status(summary->status));
	json_real("seconds", summary->seconds);
	json_flag("ended_counted", !tally->refusal);
	json_flag("with_others", tally->with_others);
	json_number("running", tally->running);
	json_number("unreadable", tally->unreadable);
	for (enum counter i = 0; i < GROWING; i++)
		if (i == ACROSS && !tally->across_told)
			json_string(counter_keys[i], NULL);
		else
			json_number(counter_keys[i], tally->number[i]);
	json_number("peak_replica_kib", tally->peak_kib);
	json_number("looks", tally->looks);
	if (summary->machine_told)
		json_number("machine_tlb_interrupts", summary->machine);
	else
		json_string("machine_tlb_interrupts", NULL);
	json_close();
}

/* The words of the command as one line. */
static char *command_line(char **program)
{
	char *line = must_have(strdup(*program));

	while (*++program) {
		autofree char *before = line;

		line = xasprintf("%s %s", before, *program);
	}
	return line;
}

static bool machine_interrupts(uint64_t *number)
{
	autofree char *path = xasprintf("%s/interrupts", kernel_proc());

	return tlb_interrupts(path, number);
}

int command_stat(int argc, char **argv)
{
	struct summary summary = { 0 };
	uint64_t before = 0;
	FILE *out = stderr;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	kernel_require();
	if (output)
		out = fopen(output, "we");
	if (!out)
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output);

	summary.command = command_line(options.program);
	summary.machine_told = machine_interrupts(&before);
	summary.seconds = -now();
	launch(&summary);
	summary.seconds += now();
	summary.machine_told = summary.machine_told && machine_interrupts(&summary.machine);
	summary.machine -= before;
	/* Else the message about the program says all. */
	if (summary.started && options.json)
		json_summary(out, &summary);
	else if (summary.started)
		print_summary(out, &summary);
	if (fflush(out) || ferror(out))
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output ?: "the summary");
	return exit_status(summary.status);
}
