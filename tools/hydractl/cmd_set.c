// SPDX-License-Identifier: GPL-2.0-only
/* hydractl set: change the policy of a running process. */
#include "commands.h"
#include "threads.h"

#define USUAL_WAIT 60
#define LOOK_AGAIN 0.05

static double most_wait;		/* seconds; 0: not at all */
static bool vm, again;
static struct vm_settings more;

static const struct argp_option own_options[] = {
	{ "wait", 'w', "SECONDS", OPTION_ARG_OPTIONAL, "Wait until the process is split, at most SECONDS; 60, unless given", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "vm", 'V', NULL, 0, "Change the virtual machines of process PID (as of QEMU), not the process. A policy names all settings but --expose", 0 },
	{ "follow", 'F', NULL, 0, "With --vm: one tree of nested page tables, as under policy linux, and its tables move to the node of the guest's memory", 0 },
	{ "expose", 'X', NULL, 0, "With --vm: the kernel of the guest may ask on which nodes its CPUs and its memory are, and have memory moved, within the memory policy and the cpuset of the process", 0 },
	{ "no-expose", 'H', NULL, 0, "With --vm: the guest may not ask", 0 },
	{ "again", 'A', NULL, 0, "With --vm: settings stay, and a machine that went back to one tree for lack of memory tries again", 0 },
	{ 0 }
};

/* Check options that go together only. */
static void check(const struct argp_state *state)
{
	struct settings_choice *choice = &options.choice;

	if (vm && (most_wait > 0 || options.json))
		argp_error(state, "--wait and --json are for processes, not for virtual machines");
	if ((more.tables || more.expose || again) && !vm)
		argp_error(state, "--follow, --expose, --no-expose and --again are for virtual machines: give --vm too");
	if (more.tables && !choice->policy)
		choice->policy = policy_find("linux");
	if (more.tables && (settings_chosen(choice) || choice->policy != policy_find("linux")))
		argp_error(state, "--follow is for virtual machines with one tree: no --policy but linux, and no other setting");
	if (choice->policy && !more.tables)
		more.tables = "stay";
	if (!choice->policy && !settings_chosen(choice) && !more.expose && !again)
		argp_error(state, "nothing to set: give --policy, --domains, --replication, --prefetch or --filter (or --vm with one of them, for virtual machines)");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'w':
		most_wait = arg ? parse_seconds(state, "time", arg) : USUAL_WAIT;
		return 0;
	case 'j':
		options.json = true;
		return 0;
	case 'V':
		vm = true;
		return 0;
	case 'F':
		more.tables = "follow";
		return 0;
	case 'X':
		more.expose = "on";
		return 0;
	case 'H':
		more.expose = "off";
		return 0;
	case 'A':
		again = true;
		return 0;
	case ARGP_KEY_END:
		check(state);
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
	.doc = "Change the policy of a running process, or of its virtual machines. Without --policy, the settings not named stay. Prints what that has done: a process gets page tables for each node (it is split) when its threads run on two nodes, and as soon as one of them, or the kernel's thread hydra_splitter, gets the lock of its memory. Until then it is plain Linux.\v"
	       "Cost: when a node gets its own page tables or loses its page tables (for example by a change of --domains, or to --replication eager), the CPUs that run the process are interrupted; a loss also delays the page faults of the process. The start of Hydra for the first process of the system, and the end of the last process, interrupt every CPU of the machine, to patch the kernel's code.\n\n"
	       "Exit status: 0 done, also if the process is not split yet; 1 not split when the time of --wait was over; 2 an error, nothing changed; 3 the process has ended meanwhile.",
};

/* The process as it is now. Exit if it has ended. False if the kernel's text is not understood. */
static bool look(struct process *process, enum split *split)
{
	char *text = process_file(options.pid, "hydra");

	if (!text)
		error(EXIT_GONE, 0, "process %d has ended", options.pid);
	if (process_load(process, options.pid, text))
		return false;
	*split = split_of(process);
	return true;
}

/* Say what the settings have done. Returns the exit status. */
static int report(void)
{
	double begun = now();
	struct process process;
	enum split split;
	char *late;
	bool known;

	while ((!(known = look(&process, &split)) || split > SPLIT_LINUX) && now() < begun + most_wait) {
		if (known)
			process_free(&process);
		sleep_until(now() + LOOK_AGAIN);
	}
	if (!known) {
		error(0, 0, "process %d has the settings, but hydractl cannot make sense of what the kernel says of it now: is hydractl of the same version as the kernel?",
		      options.pid);
		return most_wait > 0 ? EXIT_NOT_SPLIT : 0;
	}
	late = split_sentence(&process, split);
	if (options.json) {
		json_open_process(process.pid, process.name);
		json_string("policy", process_text(&process, "policy"));
		json_string("split_state", split_words[split]);
		json_real("waited", most_wait > 0 ? now() - begun : 0);
		json_close();
	} else {
		print_process_name(process.pid);
		printf(": policy %s, %s\n", process_text(&process, "policy"),
		       split == SPLIT_DONE ? "split: its domains have page tables of their own" :
		       split == SPLIT_LINUX ? "one page table for all CPUs" : late);
	}
	return most_wait > 0 && split > SPLIT_LINUX ? EXIT_NOT_SPLIT : 0;
}

/* Without a tree per node, some settings mean nothing. The kernel would take them. */
static void require_trees(void)
{
	bool trees = false;
	struct vms vms;

	vms_read(&vms, options.pid, "hydra_vm");
	for (size_t i = 0; i < vms.count; i++)
		for (size_t j = 0; j < vms.vm[i].count; j++)
			trees |= !strcmp(vms.vm[i].line[j].key, "domains") && strcmp(vms.vm[i].line[j].rest, "machine");
	if (!trees)
		error(EXIT_ERROR, 0, "the virtual machines of process %d have one tree, as under policy linux, where --replication, --prefetch and --filter mean nothing: give --policy too",
		      options.pid);
}

static char *change_vms(void)
{
	const struct settings_choice *choice = &options.choice;

	if (!choice->policy && !choice->chosen[SETTING_DOMAINS] && settings_chosen(choice))
		require_trees();
	return vms_change(options.pid, choice, &more);
}

static char *change_process(void)
{
	struct hydra_settings settings = settings_choose(&options.choice);
	struct records records;
	char *text;

	if (options.choice.policy)
		return process_change(options.pid, &settings);
	text = process_need(options.pid, "hydra", "read");
	if (!records_parse(&records, text, NULL))
		process_unexpected(options.pid, "hydra", strerror(errno));
	if (!settings_from_records(&settings, &records))
		process_unexpected(options.pid, "hydra", "settings");
	if (settings.domains == HYDRA_SCOPE_MACHINE)
		error(EXIT_ERROR, 0, "process %d runs under policy linux, where --domains, --replication, --prefetch and --filter mean nothing: give --policy too",
		      options.pid);
	settings_apply(&settings, &options.choice);
	return process_change(options.pid, &settings);
}

int command_set(int argc, char **argv)
{
	char *why;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	why = vm ? change_vms() : change_process();
	if (why)
		error(EXIT_ERROR, 0, "%s", why);
	return vm ? 0 : report();
}
