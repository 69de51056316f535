// SPDX-License-Identifier: GPL-2.0-only
/* hydractl set: change the policy of a running process. */
#include <argp.h>
#include <error.h>

#include "change.h"
#include "commands.h"
#include "kernel.h"
#include "settings.h"
#include "view.h"

struct options {
	struct settings_choice choice;
	struct view view;
	bool vm;
	struct vm_settings more;
};

static const struct argp_option own_options[] = {
	{ "vm", 'V', NULL, 0, "Change the virtual machines of process PID (as of QEMU), not the process. A setting not named is that of the policy, which is hydra if none is named", 0 },
	{ "follow", 'F', NULL, 0, "With --vm: one tree of nested page tables, as under policy linux, and its tables move to the node of the guest's memory", 0 },
	{ "expose", 'X', NULL, 0, "With --vm: the kernel of the guest may ask on which nodes its CPUs and its memory are, and have memory moved, within the memory policy and the cpuset of the process", 0 },
	{ 0 }
};

/* Do the options leave one tree? */
static bool follows(const struct settings_choice *choice)
{
	return !settings_chosen(choice) && choice->policy == policy_find("linux");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options->choice;
		state->child_inputs[1] = &options->view;
		return 0;
	case 'V':
		options->vm = true;
		return 0;
	case 'F':
		options->more.follow = true;
		return 0;
	case 'X':
		options->more.expose = true;
		return 0;
	case ARGP_KEY_END:
		if ((options->more.follow || options->more.expose) && !options->vm)
			argp_error(state, "--follow and --expose are for virtual machines: give --vm too");
		if (options->more.follow && !options->choice.policy)
			options->choice.policy = policy_find("linux");
		if (options->more.follow && !follows(&options->choice))
			argp_error(state, "--follow is for virtual machines with one tree: no --policy but linux, and no other setting");
		if (!options->choice.policy && !settings_chosen(&options->choice) && !options->more.expose)
			argp_error(state, "nothing to set: give --policy, --domains, --replication, --prefetch or --filter");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { .argp = &settings_argp }, { .argp = &pid_argp }, { 0 } };

static const struct argp argp = {
	.options = own_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PID",
	.doc = "Change the policy of a running process. Without --policy, the settings not named stay.\v"
	       "Cost: when a node gets its own page tables or loses its page tables (for example by a change of --domains, or to --replication eager), the CPUs that run the process are interrupted; a loss also delays the page faults of the process. The start of Hydra for the first process of the system, and the end of the last process, interrupt every CPU of the machine, to patch the kernel's code.\n\n"
	       "Exit status: 0 done; 2 an error, nothing changed.",
};

static struct hydra_settings current_settings(pid_t pid)
{
	struct records records = process_records(pid, "hydra");
	struct hydra_settings settings;

	if (!settings_from_records(&settings, &records))
		process_unexpected(pid, "hydra", "settings");
	records_free(&records);
	return settings;
}

int command_set(int argc, char **argv)
{
	struct options options = { .choice = SETTINGS_CHOICE_NONE };
	struct hydra_settings settings;
	char *why;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	kernel_require(EXIT_ERROR);

	if (options.choice.policy || options.vm) {
		settings = settings_choose(&options.choice);
	} else {
		settings = current_settings(options.view.pid);
		if (settings.domains == HYDRA_DOMAINS_MACHINE)
			error(EXIT_ERROR, 0, "process %d runs under policy linux, where --domains, --replication, --prefetch and --filter mean nothing: give --policy too",
			      options.view.pid);
		settings_apply(&settings, &options.choice);
	}

	why = options.vm ? vms_change(options.view.pid, &settings, &options.more) :
			   process_change(options.view.pid, &settings);
	if (why)
		error(EXIT_ERROR, 0, "%s", why);
	return 0;
}
