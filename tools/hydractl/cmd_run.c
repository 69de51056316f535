// SPDX-License-Identifier: GPL-2.0-only
/* hydractl run: become another program, under a policy. */
#include <argp.h>

#include "commands.h"
#include "kernel.h"
#include "program.h"

static const struct argp argp = {
	.children = program_children,
	.args_doc = PROGRAM_ARGS,
	.doc = "Run PROGRAM under a policy (default: hydra). All processes that PROGRAM starts inherit the policy.\v"
	       "Exit status: PROGRAM's; 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

int command_run(int argc, char **argv)
{
	struct program program = { 0 };
	struct hydra_settings settings;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &program);
	settings = settings_choose(&program.choice);

	kernel_require();
	program_become(&settings, program.words);
}
