// SPDX-License-Identifier: GPL-2.0-only
#include "program.h"

#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "change.h"
#include "kernel.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct program *program = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &program->choice;
		return 0;
	case ARGP_KEY_ARG:
		/* The rest belongs to the program. */
		program->words = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program to run");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp program_argp = { .parser = parse_option, .children = settings_children };
const struct argp_child program_children[] = { { .argp = &program_argp }, { 0 } };

/* Is the program plain Linux without the process's own choice, which is not permitted? */
static bool is_linux_anyway(const struct hydra_settings *settings)
{
	int saved = errno;
	char *initial = kernel_file("default");
	struct hydra_settings now = { 0 };
	bool linux_anyway = settings->domains == HYDRA_DOMAINS_MACHINE && !strcmp(initial, "linux") &&
			    !prctl(PR_GET_HYDRA, &now, sizeof(now), 0, 0) &&
			    now.domains == HYDRA_DOMAINS_MACHINE;

	free(initial);
	errno = saved;
	return linux_anyway;
}

void program_become(const struct hydra_settings *settings, char **program)
{
	if (prctl(PR_SET_HYDRA, settings, sizeof(*settings), 0, 0) &&
	    !(errno == EPERM && is_linux_anyway(settings)))
		error(EXIT_RUN_ERROR, 0, "%s", settings_refusal(settings_text(settings)));
	execvp(program[0], program);
	error(errno == ENOENT ? EXIT_RUN_NOT_FOUND : EXIT_RUN_NOT_EXECUTABLE, errno,
	      "cannot run '%s'", program[0]);
	abort();
}
