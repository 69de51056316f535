// SPDX-License-Identifier: GPL-2.0-only
/* hydractl replay: what 'hydractl record' has written, as 'hydractl top' would have shown it. */
#include <time.h>

#include "commands.h"
#include "record.h"
#include "watch.h"

#define AT 1		/* the key of --at, which has no letter */

static const char *path = RECORD_USUAL, *at;
static struct recorded_look *looks;
static size_t count, place;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case AT:
		at = arg;
		return 0;
	case 'n':
		if (!parse_u64(arg, &options.count) || !options.count)
			argp_error(state, "count '%s' is not a number from 1 on", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one FILE only");
		path = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option own_options[] = {
	{ "at", AT, "TIME", 0, "Begin with the last look until TIME: '14:05', '14:05:30', 'yesterday 14:05', '2026-11-28 14:05', or seconds since 1970; the date is that of the last look, unless given", 0 },
	{ "count", 'n', "NUMBER", 0, "Print so many looks; with --at 1, unless given, else all", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &watch_argp }, { 0 } };

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[FILE]",
	.doc = "Show what 'hydractl record' has written into FILE (" RECORD_USUAL ", unless given) as 'hydractl top' would have shown it. No kernel with Hydra is needed.\n"
	       "\n"
	       "Keys: Left and Right, or Space: the look before or after; [ and ]: a minute; { and }: an hour; the others as in 'hydractl top'.\v"
	       "For example:\n"
	       "  hydractl replay --at 'yesterday 14:05'\n"
	       "  hydractl replay --at 14:05 --batch\n"
	       "  hydractl replay --csv >looks.csv\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, also if there is no recording of that time.",
};

/* Show look @number, compared with the one before. */
static void show(struct watch *watch, size_t number)
{
	const struct recorded_look *look = &looks[number];
	static char *where;
	struct processes processes;

	place = number;
	watch->moment = 0;
	if (number && !look->begins) {
		processes = record_processes(looks, number - 1);
		watch_take(watch, &processes, look[-1].time, look[-1].moment);
	}
	processes = record_processes(looks, number);
	watch_take(watch, &processes, look->time, look->moment);
	free(where);
	watch->where = where = xasprintf(" (look %zu of %zu)", number + 1, count);
}

/* The last look until @time; @count if all are later */
static size_t look_at(double time)
{
	size_t found = count;

	for (size_t i = 0; i < count; i++)
		if (looks[i].time <= time)
			found = i;
	return found;
}

static void go(struct watch *watch, bool forward, double seconds)
{
	size_t to = forward ? place + 1 : place - 1;
	double time = looks[place].time + (forward ? seconds : -seconds);

	if (seconds) {
		to = look_at(time);
		/* A gap is crossed, and the ends are the last stops. */
		if (forward && to == place)
			to++;
		if (!forward && to == count)
			to = 0;
	}
	if (to < count)
		show(watch, to);
}

/* What --at means, in seconds since 1970; exit if nothing. */
static double parse_time(const char *text)
{
	static const char *const formats[] = { "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%H:%M:%S", "%H:%M" };
	const char *yesterday = "yesterday ";
	time_t last = looks[count - 1].time, today = time(NULL);
	bool is_yesterday = !strncmp(text, yesterday, strlen(yesterday));
	char *end;
	double number = strtod(text, &end);

	if (*text && !text[strspn(text, "0123456789.")] && !*end)
		return number;
	for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++) {
		struct tm moment = *localtime(is_yesterday ? &today : &last);
		const char *rest;

		moment.tm_sec = 0;
		moment.tm_mday -= is_yesterday;
		rest = strptime(is_yesterday ? text + strlen(yesterday) : text, formats[i], &moment);
		moment.tm_isdst = -1;
		if (rest && !*rest)
			return mktime(&moment);
	}
	error(EXIT_ERROR, 0, "time '%s' is not understood: write 14:05, 'yesterday 14:05' or '2026-11-28 14:05'", text);
	abort();
}

static char *time_text(double seconds)
{
	time_t whole = seconds;
	char text[32];

	strftime(text, sizeof(text), "%F %T", localtime(&whole));
	return must_have(strdup(text));
}

static void print_looks(void)
{
	uint64_t most = options.count ?: at ? 1 : UINT64_MAX;

	for (uint64_t done = 0; done < most && place + done < count && !ferror(stdout); done++) {
		size_t number = place;

		show(&watched, number + done);
		place = number;
		watch_print(&watched);
	}
}

int command_replay(int argc, char **argv)
{
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	watch_choose_form();
	looks = record_read(path, &count);
	place = at ? look_at(parse_time(at)) : watch_batch ? 0 : count - 1;
	if (place == count)
		error(EXIT_ERROR, 0, "the recording begins later, at %s", time_text(looks[0].time));
	if (watch_batch) {
		print_looks();
		return 0;
	}
	watched.go = go;
	show(&watched, place);
	screen_run(&watched);
	return 0;
}
