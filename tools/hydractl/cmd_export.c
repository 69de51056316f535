// SPDX-License-Identifier: GPL-2.0-only
/* hydractl export: settings and counters in Prometheus' text format. */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "group.h"
#include "kernel.h"
#include "metrics.h"
#include "process.h"
#include "repeat.h"
#include "replace.h"

struct options {
	struct group group;
	struct repeat repeat;
	const char *output;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->repeat;
		state->child_inputs[1] = &options->group;
		return 0;
	case 'o':
		if (!*arg)
			argp_error(state, "--output needs the name of a file");
		options->output = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': choose processes with --tree, --cgroup or --unit", arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (options->repeat.delay_given && !options->output)
			argp_error(state, "--delay writes a file again and again: give --output, too");
		if (options->repeat.count && !options->repeat.delay_given)
			argp_error(state, "--count is for --delay");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option output_options[] = {
	{ "output", 'o', "FILE", 0,
	  "Replace FILE by a whole new one (written under another name, then renamed). The textfile collector of node_exporter reads files whose names end in .prom", 0 },
	{ 0 }
};

static const struct argp_child children[] = {
	{ .argp = &repeat_argp, .header = "With --output, again and again:" },
	{ .argp = &group_argp, .header = "Only some processes, instead of all under Hydra:" },
	{ 0 }
};

static const struct argp argp = {
	.options = output_options,
	.parser = parse_option,
	.children = children,
	.doc = "Write the settings of the system, and the counters of the processes under Hydra, in Prometheus' text format, once to stdout or to a file.\n"
	       "\n"
	       "Each process has series of its own (labels pid and command), because counters end with a process: add up rates, as in sum by (command) (rate(hydra_process_cpus_spared_total[5m])). Reading counters costs the processes nothing.\v"
	       "For example:\n"
	       "  hydractl export\n"
	       "  hydractl export --output /var/lib/prometheus/node-exporter/hydra.prom --delay 15\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, FILE is as before; 3 the process, cgroup or unit has gone meanwhile.",
};

static void export_once(const struct options *options)
{
	struct processes processes;
	size_t count, size;
	pid_t *pids = group_pids(&options->group, &count);
	char *text;
	FILE *memory;

	if (!pids)
		group_gone(&options->group);
	processes_load(&processes, pids, count, true);
	free(pids);
	memory = must_have(open_memstream(&text, &size));
	write_metrics(memory, &processes);
	processes_free(&processes);
	if (fclose(memory))
		error(EXIT_ERROR, errno, "cannot go on");
	if (!options->output)
		fputs(text, stdout);
	else if (!replace_file(options->output, text, size))
		error(EXIT_ERROR, errno, "cannot write %s", options->output);
	free(text);
}

int command_export(int argc, char **argv)
{
	struct options options = { 0 };
	double moment = now();

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	kernel_require();
	group_find(&options.group);
	export_once(&options);
	for (uint64_t done = 1; options.repeat.delay_given && done != options.repeat.count; done++) {
		moment += options.repeat.delay;
		sleep_until(moment);
		export_once(&options);
	}
	free(options.group.path);
	return 0;
}
