// SPDX-License-Identifier: GPL-2.0-only
/* hydractl off: processes become plain Linux. */
#include "commands.h"
#include "targets.h"

static const struct argp_child children[] = { { .argp = &targets_argp }, { 0 } };

static const struct argp argp = {
	.children = children,
	.args_doc = "[PID...]",
	.doc = "Set policy linux on processes, also on those that they start meanwhile. Their memory stays as it is; their page tables per node are freed. With --all, on every process of the system that the caller may change.\n"
	       "\n"
	       "The default for new programs stays, and programs that start later get it; if it is not linux, hydractl says so.\v"
	       "For example:\n"
	       "  hydractl off --all\n"
	       "  hydractl off --unit nginx\n"
	       "\n"
	       "Cost: as of 'hydractl set'.\n"
	       "\n"
	       "Exit status: 0 done; 2 an error: each process that is still under Hydra is named. With --all and the like, processes that the caller may not even read are only counted, on stderr.",
};

/* Returns why not (to be freed), or NULL. */
static char *switch_off(pid_t pid)
{
	return process_change(pid, &policy_find("linux")->settings);
}

static void say_default(void)
{
	autofree char *initial = kernel_file("default");

	if (strcmp(initial, "linux"))
		printf("programs that start later get the default, which is '%s': 'hydractl default linux' changes it\n",
		       initial);
}

int command_off(int argc, char **argv)
{
	struct targets targets = { .wanted = process_active, .change = switch_off };

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	targets_change(&targets);
	if (targets.changed)
		printf("%zu process%s under Hydra, and plain Linux now\n", targets.changed,
		       targets.changed == 1 ? " was" : "es were");
	else
		printf("no process %s\n", targets.failed ? "has become plain Linux" : "was under Hydra");
	if (options.group.kind == GROUP_SYSTEM)
		say_default();
	return targets.failed ? EXIT_ERROR : 0;
}
