// SPDX-License-Identifier: GPL-2.0-only
#include "view.h"

#include <limits.h>

#include "procfile.h"

const struct argp_option view_options[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ 0 }
};

pid_t parse_pid(const struct argp_state *state, const char *text)
{
	uint64_t pid = 0;

	if (!parse_u64(text, &pid) || !pid || pid > INT_MAX)
		argp_error(state, "'%s' is not a PID", text);
	return pid;
}

error_t view_parse(int key, char *arg, struct argp_state *state)
{
	struct view *view = state->input;

	switch (key) {
	case 'j':
		view->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one PID only");
		view->pid = parse_pid(state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!view->pid_optional)
			argp_error(state, "no PID given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp pid_argp = { .parser = view_parse };
