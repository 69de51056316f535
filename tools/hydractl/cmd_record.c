// SPDX-License-Identifier: GPL-2.0-only
/* hydractl record: what 'hydractl top' sees, into a file of bounded size. */
#include <sys/stat.h>

#include "commands.h"
#include "record.h"

#define USUAL_DELAY 5
#define USUAL_MIB 256
#define MOST_MIB (1 << 20)

static const char *path = RECORD_USUAL;
static uint64_t mib = USUAL_MIB;
static bool plain;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'z':
		if (!parse_u64(arg, &mib) || !mib || mib > MOST_MIB)
			argp_error(state, "size '%s' is not a number of MiB from 1 to %d", arg, MOST_MIB);
		return 0;
	case 'l':
		plain = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num)
			argp_error(state, "one FILE only");
		path = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option own_options[] = {
	{ "size", 'z', "MIB", 0, "The most that FILE and FILE.1 take together; 256, unless given", 0 },
	{ "plain", 'l', NULL, 0, "Record also processes that are not under Hydra", 0 },
	{ 0 }
};

static const struct argp_child children[] = {
	{ .argp = &repeat_argp },
	{ .argp = &group_argp, .header = "Only some processes, instead of all:" },
	{ 0 }
};

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "[FILE]",
	.doc = "Record every 5 seconds what 'hydractl top' would show, for 'hydractl replay'. FILE is " RECORD_USUAL ", unless given. When FILE has half of the size it becomes FILE.1, in place of the one before. A look takes about 1 KiB for each process that did something. The service hydra-record of the package does this.\v"
	       "For example:\n"
	       "  systemctl enable --now hydra-record\n"
	       "  hydractl record --unit nginx --delay 1 --count 600 /tmp/nginx\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, also if another hydractl records into FILE; 3 the process, cgroup or unit has gone.",
};

int command_record(int argc, char **argv)
{
	double moment = now();

	options.delay = USUAL_DELAY;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	group_find(&options.group);
	if (!strcmp(path, RECORD_USUAL))
		mkdir("/var/log/hydra", 0750);
	record_open(path, mib << 20);
	for (uint64_t done = 0; !options.count || done < options.count; done++) {
		size_t count;
		autofree pid_t *pids = NULL;

		/* The first look gives the counters that rates begin with. */
		if (done)
			sleep_until(moment += options.delay);
		pids = group_list(&options.group, &count);
		record_write(pids, count, plain ? NULL : process_under_hydra);
	}
	return 0;
}
