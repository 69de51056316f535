// SPDX-License-Identifier: GPL-2.0-only
/* hydractl run: become another program, under a policy; or run it while other processes are under the policy. */
#include "commands.h"
#include "program.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	const struct hydra_settings *settings = &options.choice.settings;

	(void)arg;
	if (key != ARGP_KEY_SUCCESS)
		return ARGP_ERR_UNKNOWN;
	if (options.group.kind != GROUP_NONE && (settings->tables || settings->expose))
		argp_error(state, "--follow and --expose are for PROGRAM: change machines that are there by 'hydractl set --vm'");
	return 0;
}

static const struct argp_child children[] = {
	{ .argp = &program_argp },
	{ .argp = &machine_argp },
	{ 0 }
};

static const struct argp argp = {
	.parser = parse_option,
	.children = children,
	.args_doc = PROGRAM_ARGS,
	.doc = "Run PROGRAM under a policy (default: hydra). All processes that PROGRAM starts inherit the policy.\n"
	       "\n"
	       "With --tree, --cgroup or --unit, those processes are under the policy while PROGRAM runs, and have their former settings back when it ends. PROGRAM itself, as a load generator or sleep, gets no settings. 'hydractl set' is for longer.\v"
	       "For example:\n"
	       "  hydractl run --policy hydra,prefetch=4 -- httpd -X\n"
	       "  hydractl run --expose -- qemu-system-x86_64 ...\n"
	       "  hydractl run --unit nginx -- wrk -d 60 http://localhost/\n"
	       "\n"
	       "Exit status: PROGRAM's (with --unit and the like 128 + N if signal N ended it); 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

int command_run(int argc, char **argv)
{
	const struct program_steps nothing = { 0 };
	struct program_end end;

	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	kernel_require();
	if (options.group.kind == GROUP_NONE)
		program_become(false);
	settings_lend();
	end = program_run(&nothing, true);
	settings_take_back();
	return end.status;
}
