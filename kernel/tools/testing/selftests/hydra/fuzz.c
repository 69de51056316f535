// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interface, given anything by anybody: settings, sizes, pointers and texts
 * at random, from processes that may and from those that may not.
 */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

#define PATIENCE	100	/* seconds until a test is taken for hung */

struct option_values option = { .operations = 400 };

static const struct {
	const char *name, *what;
	void (*run)(void);
} tests[] = {
	{ "prctl", "prctl, with any settings, size, pointer", fuzz_prctl },
	{ "process-text", "any text to a process, in any way", fuzz_process_text },
	{ "machine-text", "any text to the files of the machine", fuzz_machine_text },
	{ "reads", "reads from anywhere to anywhere", fuzz_reads },
	{ "permissions", "anybody to anybody", fuzz_permissions },
	{ "strange-targets", "processes that are hardly there", fuzz_strange_targets },
	{ "held-files", "files held over exec and exit", fuzz_held_files },
	{ "contest", "all at once", fuzz_contest },
};

static bool run(void (*test)(void))
{
	if (hydra_begin() || !prepare_processes())
		return false;
	/* so that Hydra stays in use: its first and last user patch the kernel's text */
	if (hydra_on(9, HYDRA_FILTER_TABLE))
		return false;
	begin_random(0, 0);
	make_pointers();
	read_machine(&machine.settings, &machine.limit);
	test();
	kill_subjects();
	if (mistakes > MISTAKES_SHOWN)
		fprintf(stderr, "# and %u mistakes more\n", mistakes - MISTAKES_SHOWN);
	return !mistakes && hydra_consistent(getpid());
}

static bool run_in_child(void (*test)(void))
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (!child) {
		bool passed;

		alarm(PATIENCE);
		passed = run(test);
		fflush(NULL);
		_exit(!passed);
	}
	status = child < 0 ? -1 : hydra_wait_child(child);
	if (status == 128 + SIGALRM)
		fprintf(stderr, "# it hung: no end after %d seconds\n", PATIENCE);
	else if (status > 128)
		fprintf(stderr, "# it died of signal %d\n", status - 128);
	return !status;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end = "";

	switch (key) {
	case 's':
		option.seed = strtoull(arg, &end, 0);
		break;
	case 'o':
		option.operations = strtoul(arg, &end, 0);
		break;
	case 't':
		option.test = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (*end)
		argp_error(state, "\"%s\" is not a number", arg);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "N", 0, "begin all sequences of random numbers with N" },
		{ "operations", 'o', "N", 0, "of each test, about (default: 400)" },
		{ "test", 't', "NAME", 0, "run this test alone" },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL, "Gives the interface of Hydra anything, by anybody.",
	};
	char sysfs_default[128], limit[64];
	unsigned int count = 0;
	const char *missing;

	if (argc == 5 && !strcmp(argv[1], "victim"))
		return victim_main(argv);
	option.seed = hydra_seed();
	argp_parse(&argp, argc, argv, 0, NULL, NULL);

	ksft_print_header();
	missing = hydra_missing();
	if (missing)
		ksft_exit_fail_msg("%s\n", missing);
	for (int i = 0; i < ARRAY_SIZE(tests); i++)
		count += !option.test || !strcmp(option.test, tests[i].name);
	if (!count)
		ksft_exit_fail_msg("no test is called %s\n", option.test);
	ksft_set_plan(count);
	ksft_print_msg("repeat with --seed %lu --operations %u\n", option.seed, option.operations);
	hydra_read_file(HYDRA_SYSFS "default", sysfs_default, sizeof(sysfs_default));
	hydra_read_file(HYDRA_SYSFS "replica_limit_kib", limit, sizeof(limit));
	for (int i = 0; i < ARRAY_SIZE(tests); i++) {
		if (option.test && strcmp(option.test, tests[i].name))
			continue;
		ksft_test_result(run_in_child(tests[i].run), "%s: %s\n", tests[i].name,
				 tests[i].what);
		hydra_write_file(HYDRA_SYSFS "default", sysfs_default);
		hydra_write_file(HYDRA_SYSFS "replica_limit_kib", limit);
	}
	ksft_finished();
}
