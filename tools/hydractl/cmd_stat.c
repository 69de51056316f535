// SPDX-License-Identifier: GPL-2.0-only
/* hydractl stat: run a program, then show what it and its children counted, or what other processes counted meanwhile. */
#include <math.h>

#include "commands.h"
#include "program.h"
#include "subjects.h"
#include "tally.h"
#include "tlb_line.h"

#define MOST_RUNS 10000

static const char *output;
static uint64_t runs = 1;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'o':
		output = arg;
		return 0;
	case 'r':
		if (!parse_u64(arg, &runs) || !runs || runs > MOST_RUNS)
			argp_error(state, "'%s' is not a number of runs from 1 to %d", arg, MOST_RUNS);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option output_options[] = {
	{ "output", 'o', "FILE", 0, "Write the summary to FILE instead of stderr", 1 },
	{ "repeat", 'r', "NUMBER", 0, "Run PROGRAM so many times, until a run ends with a status other than 0; show the median, the least and the greatest of each count", 1 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &program_argp }, { .argp = &form_argp }, { 0 } };

static const struct argp argp = {
	.options = output_options,
	.parser = parse_option,
	.children = children,
	.args_doc = PROGRAM_ARGS,
	.doc = "Run PROGRAM under a policy (default: hydra) until it ends, then show the counters of PROGRAM and of all processes that it started, also of those that have ended.\n"
	       "\n"
	       "The kernel counts the flushes of PROGRAM and of all its descendants under any policy, also linux, and adds up the counters of those that end. Only the peak of the replica memory is from looks, ten a second at most. Set-uid programs are not counted.\n"
	       "\n"
	       "With --tree, --cgroup or --unit, those processes are counted while PROGRAM (a load generator, or sleep) runs. They keep their settings; those that are named they have for that time, as of 'hydractl run'.\v"
	       "For example:\n"
	       "  hydractl stat -- make -j8\n"
	       "  hydractl stat --policy linux --repeat 5 -- make -j8\n"
	       "  hydractl stat --unit nginx -- sleep 10\n"
	       "\n"
	       "Exit status: PROGRAM's, of the first run that ended with another one than 0; 128 + N if signal N ended it; 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

/* One run: what was counted, and the rest */
static struct run {
	struct tally tally;
	int status;
	double seconds;
	bool machine_told;
	uint64_t machine;	/* interrupts for TLB shootdowns on all CPUs meanwhile */
} *run;

static size_t done;		/* so many of them */
static int last_status;		/* also of one whose program was not started */

enum { PEAK = GROWING, MACHINE, SECONDS, FIGURES };

/* What is shown of a run; NaN: not told */
static double figure(const struct run *of, int which)
{
	switch (which) {
	case PEAK:
		return of->tally.peak_kib;
	case MACHINE:
		return of->machine_told ? of->machine : NAN;
	case SECONDS:
		return of->seconds;
	case ACROSS:
		return of->tally.across_told ? of->tally.number[ACROSS] : NAN;
	default:
		return of->tally.number[which];
	}
}

static int compare_numbers(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static struct spread {
	double median, least, most;
} spread_of(int which)
{
	autofree double *sorted = must_have(calloc(done, sizeof(*sorted)));

	for (size_t i = 0; i < done; i++)
		sorted[i] = figure(&run[i], which);
	qsort(sorted, done, sizeof(*sorted), compare_numbers);
	return (struct spread){
		.median = (sorted[(done - 1) / 2] + sorted[done / 2]) / 2, .least = sorted[0], .most = sorted[done - 1],
	};
}

/* Exact, so also half of a number; of several runs with the least and the greatest */
static char *spread_text(int which, int digits)
{
	struct spread spread = spread_of(which);

	if (done == 1)
		return xasprintf("%.*f", digits, spread.median);
	return xasprintf("%.*f (%.*f to %.*f)", digits ?: spread.median != floor(spread.median), spread.median, digits, spread.least,
			 digits, spread.most);
}

static void print_line(FILE *out, int which, const char *what)
{
	autofree char *text = spread_text(which, 0);

	if (!isnan(spread_of(which).median))
		fprintf(out, "%16s  %s\n", text, what);
}

/* "NUMBER  WHAT: 12.3 % SHARE_OF"; a share of medians */
static void print_share(FILE *out, int which, const char *what, double all, const char *share_of)
{
	autofree char *text = xasprintf(all > 0 ? "%s: %.1f %% of %s" : "%s", what, 100 * spread_of(which).median / all, share_of);

	print_line(out, which, text);
}

static void print_remarks(FILE *out, const struct tally *of)
{
	if (of->refusal)
		fprintf(out, " Counted is only what hydractl saw at %u look%s at the running processes: %s.\n",
			of->looks, plural_s(of->looks), of->refusal);
	if (of->with_others)
		fprintf(out, " hydractl itself was counted when it started: processes that hydractl did not start, counted with it, are in the sums if they ended meanwhile.\n");
	if (of->running && options.group.kind == GROUP_NONE)
		fprintf(out, of->running == 1 ? " %u of the processes still runs, and was counted until now.\n" :
			" %u of the processes still run, and were counted until now.\n", of->running);
	if (of->ended)
		fprintf(out, " %u process%s ended meanwhile: missing is what %s, and processes that %s had started, counted since the last look before.\n",
			of->ended, plural_es(of->ended), of->ended == 1 ? "it" : "they", of->ended == 1 ? "it" : "they");
	if (of->unreadable)
		fprintf(out, of->unreadable == 1 ?
			" %u process that still runs is missing: not permitted to read it (be root).\n" :
			" %u processes that still run are missing: not permitted to read them (be root).\n",
			of->unreadable);
	if (of->may_count_twice)
		fprintf(out, " The kernel lacks CONFIG_KCMP: processes that share memory may be counted twice.\n");
}

static void print_summary(FILE *out, const char *line)
{
	autofree char *command = printable(line), *title = group_title(&options.group), *seconds = spread_text(SECONDS, 3);
	autofree char *prefetched = spread_text(PREFETCHED, 0);
	autofree char *fills = xasprintf("fills, and %s entries prefetched", prefetched);
	autofree char *peak = xasprintf("KiB of replica tables at the peak (of %u look%s)", run[done - 1].tally.looks, plural_s(run[done - 1].tally.looks));
	double sent = spread_of(INTERRUPTED).median;

	if (options.group.kind == GROUP_NONE)
		fprintf(out, "\n Hydra's counters of '%s' and the processes it started", command);
	else
		fprintf(out, "\n Hydra's counters of %s while '%s' ran", title, command);
	if (done > 1)
		fprintf(out, ", median (least to greatest) of %zu runs", done);
	fputs(":\n\n", out);
	print_line(out, FLUSHES, "TLB flushes");
	print_line(out, INTERRUPTED, "interrupts sent (CPUs interrupted)");
	print_share(out, ACROSS, "to CPUs of another node", sent, "those sent");
	print_share(out, SPARED, "interrupts spared, which Linux would have sent", sent + spread_of(SPARED).median, "both");
	print_line(out, FILLS, fills);
	print_line(out, PROPAGATED, "entries propagated");
	print_line(out, FALLBACKS, "fallbacks for want of memory");
	print_line(out, RECLAIMED, "replica tables reclaimed");
	print_line(out, PEAK, peak);
	print_line(out, MACHINE, "interrupts for TLB shootdowns on the whole machine meanwhile");
	fprintf(out, "\n%16s  seconds\n\n", seconds);
	print_remarks(out, &run[done - 1].tally);
}

static const char *figure_key(int which)
{
	switch (which) {
	case PEAK:
		return "peak_replica_kib";
	case MACHINE:
		return "machine_tlb_interrupts";
	case SECONDS:
		return "seconds";
	default:
		return counter_keys[which];
	}
}

/* A count is a whole number, unless it is a median; null if it is not told. */
static void json_figure(int which, double value)
{
	if (which != SECONDS && value == floor(value))
		json_number(figure_key(which), value);
	else
		json_real(figure_key(which), value);
}

static void json_run(const struct run *of)
{
	json_number("status", of->status);
	json_flag("ended_counted", !of->tally.refusal && !of->tally.ended);
	json_flag("with_others", of->tally.with_others);
	json_number("running", of->tally.running);
	json_number("unreadable", of->tally.unreadable);
	json_number("looks", of->tally.looks);
	for (int i = 0; i < FIGURES; i++)
		json_figure(i, figure(of, i));
}

static void json_runs(void)
{
	static const char *const names[] = { "median", "least", "most" };

	json_number("runs", done);
	for (int place = 0; place < 3; place++) {
		json_open_object(names[place]);
		for (int i = 0; i < FIGURES; i++) {
			struct spread spread = spread_of(i);

			json_figure(i, place == 0 ? spread.median : place == 1 ? spread.least : spread.most);
		}
		json_close();
	}
	json_open_rows("each");
	for (size_t i = 0; i < done; i++) {
		json_open_object(NULL);
		json_number("run", i + 1);
		json_run(&run[i]);
		json_close();
	}
	json_close();
}

static void json_summary(FILE *out, const char *line)
{
	json_to(out);
	json_open_object(NULL);
	json_string("command", line);
	json_string("group", options.group.kind == GROUP_NONE ? "program" : group_kind_name(&options.group));
	json_string("name", options.group.name);
	if (runs == 1)
		json_run(run);
	else
		json_runs();
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

/* Run the program once more. False if it was not started: the message about that says all. */
static bool run_once(void)
{
	static const struct program_steps steps = { tally_begin, tally_look, tally_finish };
	struct program_end end;
	uint64_t before = 0;
	struct run *this;

	run = must_have(reallocarray(run, done + 1, sizeof(*run)));
	this = &run[done];
	*this = (struct run){ .machine_told = machine_interrupts(&before), .seconds = -now() };
	end = program_run(&steps, options.group.kind != GROUP_NONE);
	this->seconds += now();
	this->machine_told = this->machine_told && machine_interrupts(&this->machine);
	this->machine -= before;
	this->tally = tally;
	this->status = last_status = end.status;
	done += end.started;
	return end.started;
}

int command_stat(int argc, char **argv)
{
	FILE *out = stderr;
	char *line;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	kernel_require();
	if (output)
		out = fopen(output, "we");
	if (!out)
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output);

	line = command_line(options.program);
	if (options.group.kind != GROUP_NONE) {
		if (options.choice.policy || settings_chosen(&options.choice))
			settings_lend();
		tally_group();
	}
	while (run_once() && done < runs && !run[done - 1].status)
		;
	subjects_restore();
	settings_take_back();
	if (done && options.json)
		json_summary(out, line);
	else if (done)
		print_summary(out, line);
	if (fflush(out) || ferror(out))
		error(EXIT_RUN_ERROR, errno, "cannot write %s", output ?: "the summary");
	return last_status;
}
