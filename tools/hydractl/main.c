// SPDX-License-Identifier: GPL-2.0-only
/* hydractl: run programs under Hydra, and see the effect. */
#include <sys/utsname.h>

#include "commands.h"

static const struct command {
	const char *name, *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "run", "run a program under a policy", command_run },
	{ "stat", "run a program under a policy, and show what was counted", command_stat },
	{ "explain", "say what Hydra would do for processes, before it is switched on", command_explain },
	{ "why", "say why processes have page tables for each node, or not", command_why },
	{ "set", "change the policy of running processes", command_set },
	{ "off", "set policy linux on several processes, or on all", command_off },
	{ "default", "say which policy programs have that choose none", command_default },
	{ "allow", "say which processes may choose settings", command_allow },
	{ "status", "show settings and counters", command_status },
	{ "top", "show what happens per second, until ended", command_top },
	{ "record", "record what top shows, into a file", command_record },
	{ "replay", "show what was recorded, at any time", command_replay },
	{ "tables", "show the page tables through which each node reaches memory", command_tables },
	{ "vm", "show the virtual machines of a process, and their page tables", command_vm },
	{ "check", "check the invariants of a process's page tables", command_check },
	{ "export", "write the counters for Prometheus", command_export },
	{ 0 }
};

static const struct command *command;
static int first;		/* of its arguments */

/* "run, set or check"; with @help, a line for each */
static char *command_list(bool help)
{
	char *text = NULL;

	for (const struct command *each = commands; each->name; each++)
		if (help)
			append(&text, "\n  %-8s %s", each->name, each->help);
		else
			append(&text, "%s%s", each == commands ? "" : each[1].name ? ", " : " or ", each->name);
	return text;
}

static char *help_with_commands(int key, const char *text, void *input)
{
	(void)input;
	if (key != ARGP_KEY_HELP_PRE_DOC)
		return (char *)text;
	return xasprintf("%s%s\n", text, command_list(true));
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		if (!strcmp(arg, "help"))
			argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		for (command = commands; command->name; command++)
			if (!strcmp(command->name, arg))
				break;
		if (!command->name)
			argp_error(state, "unknown command '%s': choose %s", arg, command_list(false));
		/* The rest is for the command to parse. */
		first = state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command: choose %s", command_list(false));
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* For bug reports: the versions of hydractl and of the kernel. */
static void print_version(FILE *stream, struct argp_state *state)
{
	struct utsname kernel;

	(void)state;
	fprintf(stream, "hydractl " VERSION ", for Hydra in Linux 6.12\n");
	if (!uname(&kernel))
		fprintf(stream, "running kernel: %s %s, %s\n", kernel.release, kernel.version,
			kernel_has_hydra() ? "with Hydra" : "without Hydra");
}

static const struct argp argp = {
	.parser = parse_option,
	.help_filter = help_with_commands,
	.args_doc = "COMMAND [OPTION...]",
	.doc = "Run programs under Hydra (page tables replicated per NUMA node, TLB shootdowns only to nodes that share a page table), and show the effect.\n"
	       "\n"
	       "Commands (each has its own --help):"
	       "\v"
	       "For example:\n"
	       "  hydractl run -- httpd -X\n"
	       "  hydractl status\n"
	       "  hydractl set --policy hydra,prefetch=4 --unit nginx\n"
	       "\n"
	       "Exit status: 0 done; 1 'check' found violations, or 'set --wait' waited in vain; 2 an error; 3 what was watched has ended. "
	       "'run' and 'stat': the program's; 125 hydractl failed; 126 the program cannot be run; 127 there is no such program.\n"
	       "\n"
	       "Environment, for testing hydractl itself: HYDRACTL_PROC, HYDRACTL_SYS and HYDRACTL_ETC stand in for /proc, /sys and /etc.",
};

int main(int argc, char **argv)
{
	static char name[] = "hydractl", full_name[64];
	int status;

	program_invocation_name = name;
	argp_err_exit_status = EXIT_ERROR;
	argv[0] = name;
	argp_program_version_hook = print_version;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);

	snprintf(full_name, sizeof(full_name), "%s %s", name, command->name);
	argv += first;
	argv[0] = full_name;
	status = command->main(argc - first, argv);

	if (fflush(stdout) || ferror(stdout))
		error(EXIT_ERROR, errno, "cannot write the output");
	return status;
}
