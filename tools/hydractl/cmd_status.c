// SPDX-License-Identifier: GPL-2.0-only
/* hydractl status: settings and counters, of one process, of several, or of the system. */
#include "commands.h"
#include "counters.h"
#include "threads.h"
#include "why.h"

static const struct argp_child children[] = {
	{ .argp = &view_argp },
	{ .argp = &group_argp, .header = "Instead of a PID, the sums of several processes:" },
	{ 0 }
};

static const struct argp argp = {
	.children = children,
	.args_doc = "[PID]",
	.doc = "Show the settings and counters of process PID, or the sums of several processes. With neither: the settings of the system, the domains, and the processes under Hydra.\n"
	       "\n"
	       "Counters start when a process starts a program, and end with the process: a sum is that of the processes that run now. Reading counters costs the process nothing. 'Violations' counts the violations that 'hydractl check' has found since boot; a kernel built with CONFIG_HYDRA_MM_DEBUG also checks every process that ends.\v"
	       "For example:\n"
	       "  hydractl status --unit nginx\n"
	       "  hydractl status --tree 1234 --json\n"
	       "\n"
	       "Exit status: 0 done; 2 an error (also: no such process, cgroup or unit).",
};

#define LINES_MOST 64

/* Of the system */
static char *initial, *allow, *supported, *limit, *violations;
static char *missing[LINES_MOST + 1];		/* what is not supported; then NULL */
static struct records domains;
static struct processes processes;
static size_t on_one_node;	/* under policy auto, and not shown: no look has found them on two nodes */

static void print_process(const struct process *process)
{
	const struct records *records = &process->records;
	const struct record *domain;
	bool head = true;

	print_process_name(process->pid);
	if (process_active(process)) {
		autofree char *why = process_is_auto(process) ? why_sentence(process) : split_sentence(process, split_of(process));

		printf("%s%s\n", why ? ": " : "", why ?: "");
	} else {
		printf(": not under Hydra, %s\n", counted(process) ? "but its flushes are counted" :
		       "its counters stand still");
	}
	for (size_t i = 0; i < records->count; i++)
		if (records->record[i].count == 1)
			printf("  %-29s %s\n", records->record[i].pair[0].key,
			       records->record[i].pair[0].value);
	putchar('\n');
	for (size_t next = 0; (domain = process_domain(process, &next)); head = false)
		print_record(domain, head);
}

static void status_process(void)
{
	char *text = process_need(options.pid, "hydra", "read");
	struct process process;
	const char *gap;

	gap = process_load(&process, options.pid, text);
	if (gap)
		process_unexpected(options.pid, "hydra", gap);
	if (options.json)
		json_process(&process, split_words[split_of(&process)]);
	else
		print_process(&process);
}

static bool is_shown(const struct process *process)
{
	on_one_node += process_active(process) && !process_under_hydra(process);
	return process_under_hydra(process);
}

static void load_system(void)
{
	size_t count, lacking = 0;
	uint64_t number;
	char *lines;
	pid_t *pids;

	initial = kernel_file("default");
	allow = kernel_allow();
	supported = kernel_supported(&lines);
	for (char *line = lines ? strtok(lines, "\n") : NULL; line && lacking < LINES_MOST; line = strtok(NULL, "\n"))
		missing[lacking++] = line;
	limit = kernel_file("replica_limit_kib");
	violations = kernel_file("violations");
	if (!parse_u64(violations, &number))
		kernel_unexpected("violations", violations);
	if (!records_parse(&domains, kernel_file("domains"), "domain"))
		kernel_unexpected("domains", strerror(errno));
	for (size_t i = 0; i < domains.count; i++) {
		const struct record *record = &domains.record[i];

		if (!record_get_u64(record, "domain", &number) ||
		    !record_get_u64(record, "node", &number) || !record_get(record, "cpus"))
			kernel_unexpected("domains", "a line without its domain, node or cpus");
	}
	pids = all_pids(&count);
	processes_load(&processes, pids, count, is_shown);
}

static void json_system(void)
{
	json_open_object(NULL);
	json_string("default", initial);
	json_string("allow", allow);
	json_string("supported", supported);
	json_open_list("missing");
	for (char **line = missing; *line; line++)
		json_string(NULL, *line);
	json_close();
	json_value("replica_limit_kib", limit);
	json_value("violations", violations);
	json_open_list("domains");
	for (size_t i = 0; i < domains.count; i++) {
		json_open_object(NULL);
		json_pairs(&domains.record[i]);
		json_close();
	}
	json_close();
	json_open_rows("processes");
	for (size_t i = 0; i < processes.count; i++)
		json_process(&processes.process[i],
			     split_words[split_of(&processes.process[i])]);
	json_close();
	json_close();
}

/* The processes that have a policy, threads in several domains, and no page tables for each. */
static void print_late(void)
{
	const char *gap = "\n";

	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.process[i];
		enum split split = split_of(process);
		autofree char *name = printable(process->name), *sentence = split_sentence(process, split);

		if (!split_is_late(split))
			continue;
		printf("%s%d (%s): %s\n", gap, process->pid, name, sentence);
		gap = "";
	}
}

static void print_domains(void)
{
	static const struct column columns[] = {
		{ .head = "DOMAIN", 6 }, { .head = "NODE", 4 }, { .head = " CPUS", -5, .ragged = true },
	};
	struct table table = TABLE(stdout, columns, SIZE_MAX);

	table_head(&table);
	for (size_t i = 0; i < domains.count; i++) {
		table_cell(&table, "%s", record_get(&domains.record[i], "domain"));
		table_cell(&table, "%s", record_get(&domains.record[i], "node"));
		table_cell(&table, " %s", record_get(&domains.record[i], "cpus"));
	}
}

static void print_processes(void)
{
	static const struct column columns[] = {
		{ .head = "PID", 7 }, { .head = "COMMAND", -16 }, { .head = "POLICY", -14 }, { .head = "DOMAINS", -7 },
		{ .head = "PREFETCH", 8 }, { .head = "FILTER", -8 }, { .head = "REPLICA-KIB", 11 },
		{ .head = "FLUSHES", 10 }, { .head = "INTERRUPTED", 11 }, { .head = "SPARED", 10 },
	};
	static const char *const keys[] = {
		"policy", "domains", "prefetch", "filter", "replica_kib", "flushes", "cpus_interrupted", "cpus_spared",
	};
	struct table table = TABLE(stdout, columns, SIZE_MAX);

	table_head(&table);
	for (size_t i = 0; i < processes.count; i++) {
		const struct process *process = &processes.process[i];
		autofree char *name = printable(process->name);

		table_cell(&table, "%d", process->pid);
		table_cell(&table, "%s", name);
		for (size_t j = 0; j < sizeof(keys) / sizeof(*keys); j++)
			table_cell(&table, "%s", process_text(process, keys[j]));
	}
}

static void print_system(void)
{
	printf("default for new processes  %s\n", initial);
	if (allow)
		printf("may choose settings        %s\n", allow);
	printf("supported                  %s\n", supported);
	for (char **line = missing; *line; line++)
		printf("%27s%s\n", "", *line);
	printf("replica limit, KiB         %s\n"
	       "violations found           %s\n\n", limit, violations);
	print_domains();
	putchar('\n');
	if (processes.count)
		print_processes();
	else
		printf("no process runs under Hydra%s\n", on_one_node ? "" : ": start one with 'hydractl run'");
	print_late();
	if (on_one_node)
		printf("\n%zu process%s under policy auto that no look has found on two nodes ('hydractl why --all')\n", on_one_node,
		       plural_es(on_one_node));
}

static void status_system(void)
{
	load_system();
	if (options.json)
		json_system();
	else
		print_system();
	processes_say_left_out(&processes);
}

static void status_group(void)
{
	const struct group *group = &options.group;
	struct counters sum = { 0 };
	size_t count;
	pid_t *pids;

	group_find(&options.group);
	pids = group_list(group, &count);
	processes_load(&processes, pids, count, NULL);
	for (size_t i = 0; i < processes.count; i++) {
		struct counters counters = counters_of(&processes.process[i], NULL, 0);

		counters_add(&sum, &counters);
		counters_free(&counters);
	}
	if (options.json) {
		json_open_object(NULL);
		json_string("group", group_kind_name(group));
		json_string("name", group->name);
		json_counters(&sum);
		json_number("unreadable", processes.unreadable);
		json_close();
	} else {
		printf("%s%s\n", group_title(group), sum.active ? "" : ": no process of it is under Hydra");
		print_counters(&sum);
	}
	processes_say_left_out(&processes);
}

int command_status(int argc, char **argv)
{
	options.pid_optional = true;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	if (options.group.kind != GROUP_NONE)
		status_group();
	else if (options.pid)
		status_process();
	else
		status_system();
	return 0;
}
