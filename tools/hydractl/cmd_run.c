// SPDX-License-Identifier: GPL-2.0-only
/* hydractl run: become another program, under a policy; or run it while other processes are under the policy. */
#include "commands.h"
#include "program.h"

static const struct argp_option own_options[] = {
	{ "follow", 'F', NULL, 0, "For the virtual machines that PROGRAM (as QEMU) makes: one tree of nested page tables, and its tables move to the node of the guest's memory. Policy linux", 0 },
	{ "expose", 'X', NULL, 0, "The kernels of their guests may ask on which nodes their CPUs and their memory are, and have memory moved, within the memory policy and the cpuset of PROGRAM", 0 },
	{ 0 }
};

/* Check options that go together only. */
static void check(const struct argp_state *state)
{
	struct settings_choice *choice = &options.choice;

	if (options.group.kind != GROUP_NONE && (choice->settings.tables || choice->settings.expose))
		argp_error(state, "--follow and --expose are for PROGRAM: change machines that are there by 'hydractl set --vm'");
	if (choice->settings.tables && !choice->policy)
		choice->policy = policy_find("linux");
	if (choice->settings.tables && (settings_chosen(choice) || choice->policy != policy_find("linux")))
		argp_error(state, "--follow is for virtual machines with one tree: no --policy but linux, and no other setting");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case 'F':
		options.choice.settings.tables = HYDRA_TABLES_FOLLOW;
		return 0;
	case 'X':
		options.choice.settings.expose = 1;
		return 0;
	case ARGP_KEY_SUCCESS:
		check(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = program_children,
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
