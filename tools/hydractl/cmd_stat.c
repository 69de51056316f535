// SPDX-License-Identifier: GPL-2.0-only
/* hydractl stat: run a program under a policy, then show what it and its children counted. */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "commands.h"
#include "json.h"
#include "kernel.h"
#include "launch.h"
#include "program.h"
#include "repeat.h"
#include "text.h"
#include "tlb_line.h"

struct options {
	struct program program;
	const char *output;
	bool json;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->program;
		return 0;
	case 'o':
		options->output = arg;
		return 0;
	case 'j':
		options->json = true;
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
	const struct tally *tally;
	char *command;
	double seconds;
	bool machine_told;
	uint64_t machine;	/* interrupts for TLB shootdowns on all CPUs meanwhile */
};

static uint64_t interrupted_or_spared(const struct tally *tally)
{
	return tally->number[SUM_INTERRUPTED] + tally->number[SUM_SPARED];
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
	const struct tally *tally = summary->tally;
	const uint64_t *number = tally->number;
	char *command = must_have(printable(summary->command));

	fprintf(out, "\n Hydra's counters of '%s' and the processes it started:\n\n", command);
	free(command);
	print_line(out, number[SUM_FLUSHES], "TLB flushes");
	print_line(out, number[SUM_INTERRUPTED], "interrupts sent (CPUs interrupted)");
	if (tally->across_told)
		print_share(out, number[SUM_ACROSS], "to CPUs of another node", number[SUM_INTERRUPTED], "those sent");
	print_share(out, number[SUM_SPARED], "interrupts spared, which Linux would have sent", interrupted_or_spared(tally), "both");
	fprintf(out, "%16" PRIu64 "  fills, and %" PRIu64 " entries prefetched\n", number[SUM_FILLS],
		number[SUM_PREFETCHED]);
	print_line(out, number[SUM_PROPAGATED], "entries propagated");
	print_line(out, number[SUM_FALLBACKS], "fallbacks for want of memory");
	print_line(out, number[SUM_RECLAIMED], "replica tables reclaimed");
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
	const struct tally *tally = summary->tally;

	json_to(out);
	json_open_object(NULL);
	json_string("command", summary->command);
	json_number("status", exit_status(tally->status));
	json_real("seconds", summary->seconds);
	json_flag("ended_counted", !tally->refusal);
	json_flag("with_others", tally->with_others);
	json_number("running", tally->running);
	json_number("unreadable", tally->unreadable);
	for (size_t i = 0; i <= SUM_RECLAIMED; i++)
		if (i == SUM_ACROSS && !tally->across_told)
			json_string(sum_keys[i], NULL);
		else
			json_number(sum_keys[i], tally->number[i]);
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
	size_t length = 1;
	char *line;

	for (char **word = program; *word; word++)
		length += strlen(*word) + 1;
	line = must_have(calloc(1, length));
	for (char **word = program; *word; word++) {
		if (word != program)
			strcat(line, " ");
		strcat(line, *word);
	}
	return line;
}

static bool machine_interrupts(uint64_t *number)
{
	char *path = must_have(asprintf(&path, "%s/interrupts", kernel_proc()) < 0 ? NULL : path);
	bool told = tlb_interrupts(path, number);

	free(path);
	return told;
}

int command_stat(int argc, char **argv)
{
	struct options options = { 0 };
	struct hydra_settings settings;
	struct summary summary;
	struct tally tally;
	uint64_t before = 0;
	FILE *out = stderr;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
	settings = settings_choose(&options.program.choice);
	kernel_require();
	if (options.output)
		out = fopen(options.output, "we");
	if (!out)
		error(EXIT_RUN_ERROR, errno, "cannot write %s", options.output);

	summary = (struct summary){ .tally = &tally, .command = command_line(options.program.words) };
	summary.machine_told = machine_interrupts(&before);
	summary.seconds = -now();
	launch_program(&settings, options.program.words, &tally);
	summary.seconds += now();
	summary.machine_told = summary.machine_told && machine_interrupts(&summary.machine);
	summary.machine -= before;
	/* Else the message about the program says all. */
	if (tally.started && options.json)
		json_summary(out, &summary);
	else if (tally.started)
		print_summary(out, &summary);
	free(summary.command);
	free(tally.refusal);
	if (fflush(out) || ferror(out))
		error(EXIT_RUN_ERROR, errno, "cannot write %s", options.output ?: "the summary");
	return exit_status(tally.status);
}
