// SPDX-License-Identifier: GPL-2.0-only
#include "repeat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "procfile.h"

#define LEAST_DELAY 0.1
#define MOST_DELAY 86400

static const struct argp_option options[] = {
	{ "delay", 'd', "SECONDS", 0, "Wait between two looks; from 0.1 to 86400", 0 },
	{ "count", 'n', "NUMBER", 0, "End after NUMBER looks", 0 },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct repeat *repeat = state->input;
	char *end;

	switch (key) {
	case 'd':
		/* strtod() would take spaces, signs, hexadecimal numbers and names too. */
		repeat->delay = strtod(arg, &end);
		if (!*arg || arg[strspn(arg, "0123456789.")] || *end ||
		    !(repeat->delay >= LEAST_DELAY && repeat->delay <= MOST_DELAY))
			argp_error(state, "delay '%s' is not a number of seconds from %g to %d", arg,
				   LEAST_DELAY, MOST_DELAY);
		repeat->delay_given = true;
		return 0;
	case 'n':
		if (!parse_u64(arg, &repeat->count) || !repeat->count)
			argp_error(state, "count '%s' is not a number from 1 on", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp repeat_argp = { .options = options, .parser = parse_option };

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
