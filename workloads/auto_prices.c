// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a program under policy "auto" at prices that are as high as the machine is slow, and has the
 * policy look more often: see auto_policy.h. Under another policy the program just runs.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "auto_policy.h"
#include "machine.h"
#include "procfile.h"

#define NOT_FOUND 127

struct options {
	uint64_t cpus, look_ms;
	char **command;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->look_ms;
		return 0;
	case 'c':
		if (!parse_u64(arg, &options->cpus) || !options->cpus || options->cpus > 4096)
			argp_error(state, "'%s' is not a number of CPUs", arg);
		return 0;
	case ARGP_KEY_ARGS:
		options->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name a program, as in: auto_prices -- sleep 1");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "cpus", 'c', "N", 0, "So many CPUs take turns on one of the host (default 1)", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { &auto_policy_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.args_doc = "COMMAND [ARGUMENT...]",
	.children = children,
	.doc = "Run a program; under policy auto at prices of this machine, which are as before afterwards.\v"
	       "Exit status: the program's, 128 and its number if a signal ends it, 127 if it cannot be run.",
};

int main(int argc, char **argv)
{
	struct options options = { .cpus = 1, .look_ms = 100 };
	int status;
	pid_t pid;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options);
	auto_policy_begin(options.cpus, options.look_ms);
	pid = fork();
	if (!pid) {
		execvp(*options.command, options.command);
		error(NOT_FOUND, errno, "cannot run %s", *options.command);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	auto_policy_end();
	if (pid < 0)
		error(EXIT_FAILURE, errno, "cannot start %s", *options.command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
