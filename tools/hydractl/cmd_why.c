// SPDX-License-Identifier: GPL-2.0-only
/* hydractl why: why processes have page tables for each node, or not, and what would change that. */
#include "commands.h"
#include "why.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != ARGP_KEY_END)
		return ARGP_ERR_UNKNOWN;
	if (!options.pid && options.group.kind == GROUP_NONE)
		argp_error(state, "no process named: give a PID, --tree, --cgroup, --unit or --all");
	return 0;
}

static const struct argp_child children[] = {
	{ .argp = &view_argp },
	{ .argp = &group_all_argp, .header = "Instead of a PID, several processes:" },
	{ 0 }
};

static const struct argp argp = {
	.parser = parse_option,
	.children = children,
	.args_doc = "[PID]",
	.doc = "Say in one sentence for each process why it has page tables for each node, or not, and what would change that. Reading this costs the process nothing.\n"
	       "\n"
	       "Under policy auto the kernel looks at each process that runs on two nodes, once a second. A process is split when its flushes and walks across nodes cost 0.2 % of its CPU time, and have cost as much as a split. It returns to plain Linux when the split has cost more than it saved, or when one node alone runs it. A purse of 1 % of its CPU time pays for all tries. Policies linux, hydra and so on leave the kernel no choice. Of several processes, those under policy linux, and those that no look has found on two nodes, are only counted; --json has all.\v"
	       "For example:\n"
	       "  hydractl set --policy auto 1234\n"
	       "  hydractl why 1234\n"
	       "  hydractl why --unit mysql\n"
	       "\n"
	       "What things cost is in /sys/kernel/mm/hydra/auto/price_*, in ns.\n"
	       "\n"
	       "Exit status: 0 done; 2 an error (also: no such process, cgroup or unit); 3 the cgroup or unit has gone.",
};

static void json_why(const struct process *process)
{
	static const char *const keys[] = {
		"auto", "tries", "rent_us", "price_us", "rent_ppm", "gain_ppm", "balance_us", "purse_us", "barriers",
	};
	autofree char *sentence = why_sentence(process);

	json_open_process(process->pid, process->name);
	json_string("policy", process_text(process, "policy"));
	json_number("split", process_number(process, "split"));
	json_string("why", why_word(process));
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (process_text(process, keys[i]))
			json_value(keys[i], process_text(process, keys[i]));
		else
			json_string(keys[i], NULL);
	json_string("sentence", sentence);
	json_close();
}

static void json_all(const struct processes *processes)
{
	json_open_object(NULL);
	json_string("group", options.group.kind == GROUP_NONE ? "process" : group_kind_name(&options.group));
	json_string("name", options.group.name);
	json_open_rows("processes");
	for (size_t i = 0; i < processes->count; i++)
		json_why(&processes->process[i]);
	json_close();
	json_number("unreadable", processes->unreadable);
	json_number("not_understood", processes->not_understood);
	json_close();
}

static void print_count(size_t count, bool more, const char *what)
{
	if (count)
		printf("%s%zu process%s %s\n", more ? "and " : "", count, plural_es(count), what);
}

static void print_all(const struct processes *processes)
{
	size_t wide = terminal_columns(STDOUT_FILENO) ?: SIZE_MAX, plain = 0, never = 0, told = 0;

	for (size_t i = 0; i < processes->count; i++) {
		const struct process *process = &processes->process[i];
		autofree char *name = printable(process->name), *sentence = NULL;

		if (!options.pid && !process_under_hydra(process)) {
			plain += !process_active(process);
			never += process_active(process);
			continue;
		}
		sentence = why_sentence(process);
		print_wrapped(0, wide, "%s%d (%s): %s", options.pid ? "process " : "", process->pid, name, sentence);
		told++;
	}
	print_count(never, told, "under policy auto that no look has found on two nodes");
	print_count(plain, told + never, "under policy linux");
}

/* The one process that was named. Exit if it cannot be read. */
static void load_named(struct processes *processes)
{
	struct process *process = must_have(calloc(1, sizeof(*process)));
	const char *gap = process_load(process, options.pid, process_need(options.pid, "hydra", "read"));

	if (gap)
		process_unexpected(options.pid, "hydra", gap);
	*processes = (struct processes){ .count = 1, .process = process };
}

static void load_group(struct processes *processes)
{
	autofree pid_t *pids = NULL;
	size_t count;

	group_find(&options.group);
	pids = group_list(&options.group, &count);
	processes_load(processes, pids, count, NULL);
}

int command_why(int argc, char **argv)
{
	struct processes processes;

	options.pid_optional = true;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	if (options.pid)
		load_named(&processes);
	else
		load_group(&processes);
	if (options.json)
		json_all(&processes);
	else
		print_all(&processes);
	processes_say_left_out(&processes);
	processes_free(&processes);
	return 0;
}
