// SPDX-License-Identifier: GPL-2.0-only
#include "options.h"

#include <limits.h>
#include <time.h>

#include "json.h"
#include "procfile.h"

#define LEAST_DELAY 0.1
#define MOST_DELAY 86400

struct options options;

static const struct argp_option form_options[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", 'c', NULL, 0, "Print CSV: a line for each process (or what the command is about), a column for each value that is no list in the JSON", 0 },
	{ 0 }
};

static error_t parse_form(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case 'j':
		options.json = true;
		return 0;
	case 'c':
		options.csv = true;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (options.json && options.csv)
			argp_error(state, "give --json or --csv, not both");
		if (options.csv)
			json_as_csv();
		options.json |= options.csv;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp form_argp = { .options = form_options, .parser = parse_form };
static const struct argp_child form_children[] = { { .argp = &form_argp }, { 0 } };

pid_t parse_pid(const struct argp_state *state, const char *text)
{
	uint64_t pid = 0;

	if (!parse_u64(text, &pid) || !pid || pid > INT_MAX)
		argp_error(state, "'%s' is not a PID", text);
	return pid;
}

static error_t parse_view(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one PID only");
		options.pid = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!options.pid_optional)
			argp_error(state, "no PID given");
		return 0;
	case ARGP_KEY_SUCCESS:
		if (options.pid && options.group.kind != GROUP_NONE)
			argp_error(state, "give a PID or --%s, not both", group_kind_name(&options.group));
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp view_argp = { .parser = parse_view, .children = form_children };
const struct argp_child view_children[] = { { .argp = &view_argp }, { 0 } };

static const struct argp_option repeat_options[] = {
	{ "delay", 'd', "SECONDS", 0, "Wait between two looks; from 0.1 to 86400", 0 },
	{ "count", 'n', "NUMBER", 0, "End after NUMBER looks", 0 },
	{ 0 }
};

double parse_seconds(const struct argp_state *state, const char *what, const char *text)
{
	char *end;
	/* strtod() would take spaces, signs, hexadecimal numbers and names too. */
	double seconds = strtod(text, &end);

	if (!*text || text[strspn(text, "0123456789.")] || *end ||
	    !(seconds >= LEAST_DELAY && seconds <= MOST_DELAY))
		argp_error(state, "%s '%s' is not a number of seconds from %g to %d", what, text,
			   LEAST_DELAY, MOST_DELAY);
	return seconds;
}

static error_t parse_repeat(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'd':
		options.delay = parse_seconds(state, "delay", arg);
		options.delay_given = true;
		return 0;
	case 'n':
		if (!parse_u64(arg, &options.count) || !options.count)
			argp_error(state, "count '%s' is not a number from 1 on", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp repeat_argp = { .options = repeat_options, .parser = parse_repeat };

static error_t parse_program(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case ARGP_KEY_ARG:
		/* The rest belongs to the program. */
		options.program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program to run");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child settings_children[] = {
	{ .argp = &settings_argp },
	{ .argp = &group_argp, .header = "While PROGRAM runs, other processes instead of PROGRAM:" },
	{ 0 }
};

const struct argp program_argp = { .parser = parse_program, .children = settings_children };

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

void sleep_until(double moment)
{
	struct timespec time = { .tv_sec = moment };

	time.tv_nsec = (moment - time.tv_sec) * 1e9;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}
