// SPDX-License-Identifier: GPL-2.0-only
/* hydractl run: become another program, under a policy. */
#include <argp.h>

#include "commands.h"
#include "kernel.h"
#include "program.h"
#include "settings.h"

struct options {
	struct settings_choice choice;
	char **program;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->choice;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest belongs to the program. */
		options->program = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program to run");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.parser = parse_option,
	.children = settings_children,
	.args_doc = "[--] PROGRAM [ARGUMENT...]",
	.doc = "Run PROGRAM under a policy (default: hydra). All processes that PROGRAM starts inherit the policy.\v"
	       "Exit status: PROGRAM's; 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

int command_run(int argc, char **argv)
{
	struct options options = { .choice = SETTINGS_CHOICE_NONE };
	struct hydra_settings settings;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
	settings = settings_choose(&options.choice);

	kernel_require(EXIT_RUN_ERROR);
	program_become(&settings, options.program);
}
