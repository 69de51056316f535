// SPDX-License-Identifier: GPL-2.0-only
/* hydractl stat: run a program under a policy, then show what it and its children counted. */
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "commands.h"
#include "counters.h"
#include "tlb_line.h"

#define LOOK_SECONDS 0.1	/* between looks at processes that run, at least */
#define TRIES 10		/* to read all while no process ends */
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

/*
 * What the descendants of hydractl count. The kernel adds up those that have ended, and
 * hydractl adds those that run. A kernel that does not add up: hydractl keeps what it saw
 * at the last look.
 */
static struct tally {
	char *refusal;			/* why the kernel does not add up ended processes, or NULL */
	bool with_others;		/* the kernel adds processes that hydractl did not start */
	unsigned int running;		/* processes that still ran at the end */
	unsigned int unreadable;	/* of them, not permitted to be read */
	unsigned int looks;
	bool may_count_twice;		/* the kernel cannot say which processes share memory */
	bool across_told;		/* else the kernel is older, and ACROSS is 0 */
	uint64_t number[GROWING];	/* the counters */
	uint64_t peak_kib;		/* of all replica tables together, at a look */
} tally;

static bool started;		/* the program was there and could be run */
static int program_status;	/* the program's, as of wait(2) */
static double seconds;
static bool machine_told;
static uint64_t machine;	/* interrupts for TLB shootdowns on all CPUs meanwhile */

/* A descendant, or one that has ended. */
struct member {
	pid_t pid;
	bool runs;
	uint64_t number[COUNTERS];	/* at the last look */
	uint64_t before[GROWING];	/* of the programs that it executed before, and of ended ones with its PID */
};

static struct member *member;
static size_t members;
static uint64_t ended_before[GROWING];

/* What the kernel has added up by now. False: it does not. */
static bool read_ended(uint64_t ended[GROWING], struct process *own)
{
	char *text = process_file(getpid(), "hydra");

	if (!text)
		return false;
	if (process_load(own, getpid(), text)) {
		errno = EINVAL;
		return false;
	}
	for (enum counter i = 0; i < GROWING; i++)
		ended[i] = counted_ended(own, i);
	return true;
}

/* Before the first child is born: it is counted because hydractl is. */
static void descendants_begin(void)
{
	struct process own;

	if (!read_ended(ended_before, &own)) {
		tally.refusal = count_refusal(getpid());
		return;
	}
	tally.across_told = process_text(&own, counter_keys[ACROSS]);
	tally.with_others = counted(&own);
	errno = EINVAL;
	if (!process_text(&own, "count") || (!counted(&own) && !count_set(getpid(), true)))
		tally.refusal = count_refusal(getpid());
	process_free(&own);
}

static struct member *member_of(pid_t pid)
{
	for (size_t i = 0; i < members; i++)
		if (member[i].pid == pid)
			return &member[i];
	member = must_have(reallocarray(member, members + 1, sizeof(*member)));
	member[members] = (struct member){ .pid = pid };
	return &member[members++];
}

/* A child of vfork() uses its parent's memory, whose counters the kernel shows for both. */
static bool borrows_memory(pid_t pid)
{
	long order = syscall(SYS_kcmp, pid, parent_of(pid), KCMP_VM, 0, 0);

	if (order < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		tally.may_count_twice = true;
	return !order;
}

static void look_at(pid_t pid)
{
	char *text = process_file(pid, "hydra");
	struct process process;
	struct member *of;
	bool begun_anew = false;

	if (!text) {
		tally.unreadable += errno == EACCES || errno == EPERM;
		return;
	}
	if (borrows_memory(pid)) {
		free(text);
		return;
	}
	if (process_load(&process, pid, text))
		return;
	of = member_of(pid);
	of->runs = true;
	/* The counters of a new program start at 0. */
	for (enum counter i = 0; i < GROWING; i++)
		begun_anew |= process_number(&process, counter_keys[i]) < of->number[i];
	for (enum counter i = 0; i < GROWING && begun_anew; i++)
		of->before[i] += of->number[i];
	for (enum counter i = 0; i < COUNTERS; i++)
		of->number[i] = process_number(&process, counter_keys[i]);
	process_free(&process);
}

/* Look at those that run: for the peak, and for the last look. */
static void descendants_look(void)
{
	struct group own = { .kind = GROUP_TREE, .pid = getpid() };
	size_t count = 0;
	autofree pid_t *pids = group_pids(&own, &count);
	uint64_t kib = 0;

	tally.unreadable = 0;
	for (size_t i = 0; i < members; i++)
		member[i].runs = false;
	for (size_t i = 0; i < count; i++)
		if (pids[i] != getpid())
			look_at(pids[i]);
	for (size_t i = 0; i < members; i++)
		kib += member[i].runs ? member[i].number[REPLICA_KIB] : 0;
	if (kib > tally.peak_kib)
		tally.peak_kib = kib;
	tally.looks++;
}

/* Without the kernel's sum: all that was ever seen. */
static void add_members(void)
{
	tally.running = 0;
	for (size_t i = 0; i < members; i++) {
		tally.running += member[i].runs;
		for (enum counter j = 0; j < GROWING; j++) {
			if (member[i].runs || tally.refusal)
				tally.number[j] += member[i].number[j];
			if (tally.refusal)
				tally.number[j] += member[i].before[j];
		}
	}
}

/* Put the counters into the tally. */
static void descendants_finish(void)
{
	uint64_t ended[GROWING] = { 0 }, again[GROWING];
	struct process own;

	for (int i = 0; i < TRIES; i++) {
		descendants_look();
		if (tally.refusal)
			break;
		/* A process that ends between the two looks would be counted twice, or not at all. */
		if (!read_ended(again, &own)) {
			tally.refusal = must_have(strdup("what ended processes have counted could not be read at the end"));
			break;
		}
		process_free(&own);
		if (i && !memcmp(ended, again, sizeof(ended)))
			break;
		memcpy(ended, again, sizeof(ended));
	}
	for (enum counter i = 0; i < GROWING && !tally.refusal; i++)
		tally.number[i] = ended[i] - ended_before[i];
	add_members();
}

static int gate[2];

/* Of the child: it exits, so it has not become the program. */
static void tell_failure(void)
{
	if (write(gate[1], "", 1) != 1)
		_exit(EXIT_RUN_ERROR);
}

/* Start the program. Returns its PID. */
static pid_t start(const sigset_t *signals, const struct sigaction *child_action)
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
	started = !read(gate[0], &byte, 1);
	close(gate[0]);
	return pid;
}

/* Take the exit statuses of children. True if the program is among them. */
static bool has_ended(pid_t first)
{
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != first)
			continue;
		program_status = status;
		ended = true;
	}
	return ended;
}

/*
 * Run the program until it ends. Its descendants that still run then go on. Exit with
 * EXIT_RUN_ERROR if hydractl cannot start a process.
 */
static void launch(void)
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
	descendants_begin();
	first = start(&before, &child_action);
	while (!has_ended(first)) {
		/* The terminal sends its signals to the program, too; others have sent theirs to hydractl alone. */
		if (sigtimedwait(&set, &sent, &patience) > 0 && sent.si_signo != SIGCHLD && sent.si_code != SI_KERNEL)
			kill(first, sent.si_signo);
		if (now() >= next) {
			double begin = now();

			descendants_look();
			next = now() + LOOK_SECONDS + LOOK_SHARE * (now() - begin);
		}
	}
	descendants_finish();
	sigprocmask(SIG_SETMASK, &before, NULL);
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

static void print_remarks(FILE *out)
{
	if (tally.refusal)
		fprintf(out, " Counted is only what hydractl saw at %u looks at the running processes: %s.\n",
			tally.looks, tally.refusal);
	if (tally.with_others)
		fprintf(out, " hydractl itself was counted when it started: processes that hydractl did not start, counted with it, are in the sums if they ended meanwhile.\n");
	if (tally.running)
		fprintf(out, " %u of the processes still run%s, and %s counted until now.\n", tally.running,
			tally.running == 1 ? "s" : "", tally.running == 1 ? "was" : "were");
	if (tally.unreadable)
		fprintf(out, tally.unreadable == 1 ?
			" %u process that still runs is missing: not permitted to read it (be root).\n" :
			" %u processes that still run are missing: not permitted to read them (be root).\n",
			tally.unreadable);
	if (tally.may_count_twice)
		fprintf(out, " The kernel lacks CONFIG_KCMP: processes that share memory may be counted twice.\n");
}

static void print_summary(FILE *out, const char *line)
{
	const uint64_t *number = tally.number;
	autofree char *command = printable(line);

	fprintf(out, "\n Hydra's counters of '%s' and the processes it started:\n\n", command);
	print_line(out, number[FLUSHES], "TLB flushes");
	print_line(out, number[INTERRUPTED], "interrupts sent (CPUs interrupted)");
	if (tally.across_told)
		print_share(out, number[ACROSS], "to CPUs of another node", number[INTERRUPTED], "those sent");
	print_share(out, number[SPARED], "interrupts spared, which Linux would have sent", number[INTERRUPTED] + number[SPARED], "both");
	fprintf(out, "%16" PRIu64 "  fills, and %" PRIu64 " entries prefetched\n", number[FILLS],
		number[PREFETCHED]);
	print_line(out, number[PROPAGATED], "entries propagated");
	print_line(out, number[FALLBACKS], "fallbacks for want of memory");
	print_line(out, number[RECLAIMED], "replica tables reclaimed");
	fprintf(out, "%16" PRIu64 "  KiB of replica tables at the peak (of %u looks)\n", tally.peak_kib,
		tally.looks);
	if (machine_told)
		print_line(out, machine, "interrupts for TLB shootdowns on the whole machine meanwhile");
	fprintf(out, "\n%16.3f  seconds\n\n", seconds);
	print_remarks(out);
}

static int exit_status(void)
{
	return WIFSIGNALED(program_status) ? 128 + WTERMSIG(program_status) : WEXITSTATUS(program_status);
}

static void json_summary(FILE *out, const char *line)
{
	json_to(out);
	json_open_object(NULL);
	json_string("command", line);
	json_number("status", exit_status());
	json_real("seconds", seconds);
	json_flag("ended_counted", !tally.refusal);
	json_flag("with_others", tally.with_others);
	json_number("running", tally.running);
	json_number("unreadable", tally.unreadable);
	for (enum counter i = 0; i < GROWING; i++)
		if (i == ACROSS && !tally.across_told)
			json_string(counter_keys[i], NULL);
		else
			json_number(counter_keys[i], tally.number[i]);
	json_number("peak_replica_kib", tally.peak_kib);
	json_number("looks", tally.looks);
	if (machine_told)
		json_number("machine_tlb_interrupts", machine);
	else
		json_string("machine_tlb_interrupts", NULL);
	json_close();
}

/* The words of the command as one line. */
static char *command_line(char **words)
{
	char *line = NULL;

	for (; *words; words++)
		append(&line, "%s%s", line ? " " : "", *words);
	return line;
}

static bool machine_interrupts(uint64_t *number)
{
	autofree char *path = xasprintf("%s/interrupts", kernel_proc());

	return tlb_interrupts(path, number);
}

int command_stat(int argc, char **argv)
{
	FILE *out = stderr;
	uint64_t before = 0;
	char *line;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	kernel_require();
	if (output)
		out = fopen(output, "we");
	if (!out)
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output);

	line = command_line(options.program);
	machine_told = machine_interrupts(&before);
	seconds = -now();
	launch();
	seconds += now();
	machine_told = machine_told && machine_interrupts(&machine);
	machine -= before;
	/* Else the message about the program says all. */
	if (started && options.json)
		json_summary(out, line);
	else if (started)
		print_summary(out, line);
	if (fflush(out) || ferror(out))
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output ?: "the summary");
	return exit_status();
}
