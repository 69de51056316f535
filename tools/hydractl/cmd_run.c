// SPDX-License-Identifier: GPL-2.0-only
/* hydractl run: become another program, under a policy. */
#include <sys/prctl.h>

#include "commands.h"

static const struct argp argp = {
	.children = program_children,
	.args_doc = PROGRAM_ARGS,
	.doc = "Run PROGRAM under a policy (default: hydra). All processes that PROGRAM starts inherit the policy.\v"
	       "Exit status: PROGRAM's; 125 hydractl failed; 126 PROGRAM cannot be run; 127 there is no such PROGRAM.",
};

/* Is the program plain Linux without the process's own choice, which is not permitted? */
static bool is_linux_anyway(const struct hydra_settings *settings)
{
	int saved = errno;
	autofree char *initial = kernel_file("default");
	struct hydra_settings now = { 0 };
	bool linux_anyway = settings->domains == HYDRA_SCOPE_MACHINE && !strcmp(initial, "linux") &&
			    !prctl(PR_GET_HYDRA, &now, sizeof(now), 0, 0) &&
			    now.domains == HYDRA_SCOPE_MACHINE;

	errno = saved;
	return linux_anyway;
}

void become_program(void)
{
	struct hydra_settings settings = settings_choose(&options.choice);

	if (prctl(PR_SET_HYDRA, &settings, sizeof(settings), 0, 0) &&
	    !(errno == EPERM && is_linux_anyway(&settings)))
		error(EXIT_RUN_ERROR, 0, "%s", settings_refusal(settings_text(&settings)));
	execvp(options.program[0], options.program);
	error(errno == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_NOT_EXECUTABLE, errno,
	      "cannot run '%s'", options.program[0]);
	abort();
}

int command_run(int argc, char **argv)
{
	argp_err_exit_status = EXIT_RUN_ERROR;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	kernel_require();
	become_program();
}
