// SPDX-License-Identifier: GPL-2.0-only
/*
 * hydractl export: settings and counters in Prometheus' text format:
 * https://prometheus.io/docs/instrumenting/exposition_formats/
 */
#include "commands.h"
#include "counters.h"
#include "tlb_line.h"

static const char *output;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'o':
		if (!*arg)
			argp_error(state, "--output needs the name of a file");
		output = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument '%s': choose processes with --tree, --cgroup or --unit", arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (options.delay_given && !output)
			argp_error(state, "--delay writes a file again and again: give --output, too");
		if (options.count && !options.delay_given)
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
	.doc = "Write the settings of the system, and the counters of the processes under Hydra and of virtual machines, in Prometheus' text format, once to stdout or to a file.\n"
	       "\n"
	       "Each process has series of its own (labels pid and command), because counters end with a process: add up rates, as in sum by (command) (rate(hydra_process_cpus_spared_total[5m])). Reading counters costs the processes nothing.\v"
	       "For example:\n"
	       "  hydractl export\n"
	       "  hydractl export --output /var/lib/prometheus/node-exporter/hydra.prom --delay 15\n"
	       "\n"
	       "Exit status: 0 done; 2 an error, FILE is as before; 3 the process, cgroup or unit has gone meanwhile.",
};

static FILE *out;

/* Begin the values of a metric. */
static void write_head(const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_value(const char *name, const char *type, const char *help, uint64_t value)
{
	write_head(name, type, help);
	fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* Of the bytes that a label must escape, printable() leaves two kinds. */
static void write_label(const char *name, const char *value)
{
	autofree char *text = printable(value);

	fprintf(out, "%s=\"", name);
	for (const char *byte = text; *byte; byte++)
		fprintf(out, "%s%c", *byte == '"' || *byte == '\\' ? "\\" : "", *byte);
	fputc('"', out);
}

static void write_identity(const char *metric, const struct process *process)
{
	fprintf(out, "%s{pid=\"%d\",", metric, process->pid);
	write_label("command", process->name);
}

static void write_system(void)
{
	static const char limit[] = "hydra_replica_limit_bytes", initial[] = "hydra_default_info";
	autofree char *supported = kernel_file("supported"), *violations = kernel_file("violations");
	autofree char *most = kernel_file("replica_limit_kib"), *settings = kernel_file("default");
	autofree char *interrupts = xasprintf("%s/interrupts", kernel_proc());
	uint64_t number;

	write_value("hydra_supported", "gauge", "1: this machine can run Hydra.", !strncmp(supported, "yes", 3));
	if (!parse_u64(violations, &number))
		kernel_unexpected("violations", violations);
	write_value("hydra_violations_total", "counter",
		    "Violations of Hydra's rules that checks have found since boot. Any is a bug of the kernel.", number);
	write_head(limit, "gauge", "How much memory the replica tables of one process may take.");
	if (parse_u64(most, &number))
		fprintf(out, "%s %" PRIu64 "\n", limit, number * 1024);
	else if (!strcmp(most, "max"))
		fprintf(out, "%s +Inf\n", limit);
	else
		kernel_unexpected("replica_limit_kib", most);
	write_head(initial, "gauge", "The settings of processes that have chosen none.");
	fprintf(out, "%s{", initial);
	write_label("settings", settings);
	fprintf(out, "} 1\n");
	if (tlb_interrupts(interrupts, &number))
		write_value("hydra_machine_tlb_interrupts_total", "counter",
			    "Interrupts for TLB shootdowns that all CPUs of the machine have taken, of processes under any policy (the line TLB of /proc/interrupts).", number);
}

/* What the kernel has done under policy auto; older kernels lack the file. */
static void write_auto(void)
{
	static const struct {
		const char *key, *name, *type, *help;
		double factor;
	} metrics[] = {
		{ "looks", "hydra_auto_looks_total", "counter", "Looks at processes under policy auto.", 1 },
		{ "splits", "hydra_auto_splits_total", "counter", "Processes under policy auto that were given page tables for each node.", 1 },
		{ "returns", "hydra_auto_returns_total", "counter", "Processes under policy auto that have become plain Linux again.", 1 },
		{ "watched", "hydra_auto_watched_processes", "gauge", "Processes under policy auto that looks have found on two nodes.", 1 },
		{ "spent_us", "hydra_auto_spent_seconds_total", "counter", "The time that the kernel has spent on its looks.", 1e-6 },
	};
	char *text = kernel_newer_file("auto/stats");
	struct records stats;
	uint64_t number;

	if (!text)
		return;
	if (!records_parse(&stats, text, NULL))
		kernel_unexpected("auto/stats", strerror(errno));
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		const char *value = records_get(&stats, metrics[i].key);

		if (!value || !parse_u64(value, &number))
			kernel_unexpected("auto/stats", metrics[i].key);
		write_head(metrics[i].name, metrics[i].type, metrics[i].help);
		fprintf(out, "%s %.*f\n", metrics[i].name, metrics[i].factor < 1 ? 6 : 0, metrics[i].factor * number);
	}
	records_free(&stats);
}

static void write_left_out(const struct processes *processes)
{
	static const char name[] = "hydra_export_left_out_processes";

	write_head(name, "gauge", "Processes that the export lacks: unreadable (not permitted), not_understood (another version of the kernel).");
	fprintf(out, "%s{reason=\"unreadable\"} %u\n%s{reason=\"not_understood\"} %u\n", name,
		processes->unreadable, name, processes->not_understood);
}

static void write_info(const struct processes *processes)
{
	static const char *const keys[] = { "policy", "domains", "replication", "prefetch", "filter" };
	static const char name[] = "hydra_process_info";

	write_head(name, "gauge", "The settings of a process under Hydra.");
	for (size_t i = 0; i < processes->count; i++) {
		write_identity(name, &processes->process[i]);
		for (size_t j = 0; j < sizeof(keys) / sizeof(*keys); j++) {
			fputc(',', out);
			write_label(keys[j], process_text(&processes->process[i], keys[j]));
		}
		fprintf(out, "} 1\n");
	}
}

/* One number of /proc/PID/hydra */
static const struct metric {
	const char *name, *type, *help, *key;
	unsigned int factor;
} per_process[] = {
	{ "hydra_process_split", "gauge", "1: the domains have page tables of their own.", "split", 1 },
	{ "hydra_process_flushes_total", "counter", "TLB flushes.", "flushes", 1 },
	{ "hydra_process_cpus_interrupted_total", "counter", "Interrupts sent for the flushes, one for each CPU.", "cpus_interrupted", 1 },
	{ "hydra_process_cpus_interrupted_across_total", "counter", "Of these, the interrupts of CPUs on another node than the flushing CPU's.", "cpus_interrupted_across", 1 },
	{ "hydra_process_cpus_spared_total", "counter", "Interrupts saved: CPUs that Linux would have interrupted besides, so not those that are idle.", "cpus_spared", 1 },
	{ "hydra_process_fills_total", "counter", "Entries that a domain asked for and which were copied.", "fills", 1 },
	{ "hydra_process_prefetched_entries_total", "counter", "Entries copied in the same fills.", "prefetched", 1 },
	{ "hydra_process_propagated_entries_total", "counter", "Copies changed because the original changed.", "propagated", 1 },
	{ "hydra_process_fallbacks_total", "counter", "Times that there was no memory for a copy, or the limit was reached.", "fallbacks", 1 },
	{ "hydra_process_reclaimed_tables_total", "counter", "Copies given back because memory was short.", "reclaimed", 1 },
	{ "hydra_process_forgotten_tables_total", "counter", "Tables that a domain has left because it no longer used them.", "forgotten", 1 },
	{ "hydra_process_barriers_total", "counter", "Times that mprotect() of a single page reached all CPUs, since it may be meant as a barrier.", "barriers", 1 },
	{ "hydra_process_replica_bytes", "gauge", "Memory of the replica tables.", "replica_kib", 1024 },
};

/* One number of a line "domain", added up for each node */
static const struct metric per_node[] = {
	{ "hydra_process_node_fills_total", "counter", "Fills by the CPUs of a node.", "fills", 1 },
	{ "hydra_process_node_replica_bytes", "gauge", "Memory of the replica tables on a node.", "replica_kib", 1024 },
};

static void write_process(const struct metric *metric, const struct process *process)
{
	/* An older kernel lacks some lines. No value is no lie; 0 would be one. */
	if (!process_text(process, metric->key))
		return;
	write_identity(metric->name, process);
	fprintf(out, "} %" PRIu64 "\n", metric->factor * process_number(process, metric->key));
}

static void write_nodes(const struct metric *metric, const struct process *process)
{
	struct counters counters = counters_of(process, NULL, 0);

	for (size_t i = 0; i < counters.node_count; i++) {
		const struct node_counters *node = &counters.node[i];

		write_identity(metric->name, process);
		fprintf(out, ",node=\"%" PRIu64 "\"} %" PRIu64 "\n", node->node,
			metric->factor * (metric == per_node ? node->number[NODE_FILLS] : node->number[NODE_REPLICA_KIB]));
	}
	counters_free(&counters);
}

static void write_metrics(const struct metric *metrics, size_t count, const struct processes *processes,
			  void (*write)(const struct metric *metric, const struct process *process))
{
	for (size_t i = 0; i < count; i++) {
		write_head(metrics[i].name, metrics[i].type, metrics[i].help);
		for (size_t j = 0; j < processes->count; j++)
			write(&metrics[i], &processes->process[j]);
	}
}

/* The virtual machines of the processes that have any, under any policy */
static struct machine {
	pid_t pid;
	char *name;
	size_t number;			/* of those of the process */
	const struct vm_lines *lines;
} *machine;

static size_t machines;

/* One number of /proc/PID/hydra_vm, or of its lines "domain" */
static const struct metric per_vm[] = {
	{ "hydra_vm_trees_active", "gauge", "1: each node has a tree of nested page tables.", "active", 1 },
	{ "hydra_vm_trees_given_up", "gauge", "Trees that the machine does without just now, for lack of memory.", "fallback", 1 },
	{ "hydra_vm_fallbacks_total", "counter", "Trees given up for lack of memory, or at a limit.", "fallbacks", 1 },
	{ "hydra_vm_returns_total", "counter", "Trees that came back.", "returns", 1 },
	{ "hydra_vm_copied_entries_total", "counter", "Entries copied between trees.", "copied", 1 },
	{ "hydra_vm_moves_total", "counter", "Times that a vCPU took the tree of another node.", "moves", 1 },
	{ "hydra_vm_vcpus_flushed_total", "counter", "vCPUs that flushes have asked.", "vcpus_flushed", 1 },
	{ "hydra_vm_vcpus_spared_total", "counter", "vCPUs in the guest that flushes have spared.", "vcpus_spared", 1 },
	{ "hydra_vm_dropped_trees_total", "counter", "Trees dropped because no vCPU used them.", "dropped", 1 },
	{ "hydra_vm_moved_tables_total", "counter", "Tables that followed their data.", "moved_tables", 1 },
	{ "hydra_vm_misplaced_tables_total", "counter", "Tables allocated away from their node.", "misplaced", 1 },
	{ "hydra_vm_table_bytes", "gauge", "Memory of the nested page tables.", "nested_kib", 1024 },
}, per_vm_node[] = {
	{ "hydra_vm_node_tables", "gauge", "Nested page tables of a node's tree, below its root.", "tables", 1 },
	{ "hydra_vm_node_copied_entries_total", "counter", "Entries copied into the tree of a node.", "copied", 1 },
	{ "hydra_vm_node_moves_total", "counter", "Times that a vCPU took the tree of a node.", "moves", 1 },
	{ "hydra_vm_node_fallbacks_total", "counter", "Times that the tree of a node was given up.", "fallbacks", 1 },
};

static void find_machines(struct vms *vms, const pid_t *pids, size_t count)
{
	machines = 0;
	for (size_t i = 0; i < count; i++) {
		if (!vms_load(&vms[i], pids[i], "hydra_vm"))
			continue;
		for (size_t j = 0; j < vms[i].count; j++) {
			machine = must_have(reallocarray(machine, machines + 1, sizeof(*machine)));
			machine[machines++] = (struct machine){
				.pid = pids[i], .name = process_name(pids[i]), .number = j, .lines = &vms[i].vm[j],
			};
		}
	}
}

static void write_machine(const char *metric, const struct machine *of)
{
	fprintf(out, "%s{pid=\"%d\",", metric, of->pid);
	write_label("command", of->name ?: "");
	fprintf(out, ",vm=\"%zu\"", of->number);
}

static void write_machine_info(void)
{
	static const char *const keys[] = { "policy", "domains", "replication", "prefetch", "filter", "tables", "expose" };
	static const char name[] = "hydra_vm_info";

	write_head(name, "gauge", "The settings of a virtual machine, and why it cannot have a tree for each node.");
	for (size_t i = 0; i < machines; i++) {
		write_machine(name, &machine[i]);
		for (size_t j = 0; j < sizeof(keys) / sizeof(*keys); j++) {
			fputc(',', out);
			write_label(keys[j], vm_text(machine[i].lines, keys[j]) ?: "");
		}
		fputc(',', out);
		write_label("refused", vm_text(machine[i].lines, "refused") ?: "");
		fprintf(out, "} 1\n");
	}
}

static void write_machine_nodes(const struct metric *metric, const struct machine *of)
{
	for (size_t i = 0; i < of->lines->count; i++) {
		autofree char *rest = must_have(strdup(of->lines->line[i].rest));
		struct record record;
		uint64_t number;
		const char *node;

		if (strcmp(of->lines->line[i].key, "domain") || !record_parse(&record, rest, "domain"))
			continue;
		node = record_get(&record, "node");
		if (!node || !record_get_u64(&record, metric->key, &number))
			continue;
		write_machine(metric->name, of);
		fprintf(out, ",node=\"%s\"} %" PRIu64 "\n", node, number * metric->factor);
	}
}

static void write_machines(void)
{
	uint64_t number;

	write_machine_info();
	for (size_t i = 0; i < sizeof(per_vm) / sizeof(*per_vm); i++) {
		write_head(per_vm[i].name, per_vm[i].type, per_vm[i].help);
		for (size_t j = 0; j < machines; j++) {
			const char *value = vm_text(machine[j].lines, per_vm[i].key);

			if (!value || !parse_u64(value, &number))
				continue;
			write_machine(per_vm[i].name, &machine[j]);
			fprintf(out, "} %" PRIu64 "\n", number * per_vm[i].factor);
		}
	}
	for (size_t i = 0; i < sizeof(per_vm_node) / sizeof(*per_vm_node); i++) {
		write_head(per_vm_node[i].name, per_vm_node[i].type, per_vm_node[i].help);
		for (size_t j = 0; j < machines; j++)
			write_machine_nodes(&per_vm_node[i], &machine[j]);
	}
}

static void export_machines(const pid_t *pids, size_t count)
{
	struct vms *vms = must_have(calloc(count + 1, sizeof(*vms)));

	find_machines(vms, pids, count);
	if (machines)
		write_machines();
	for (size_t i = 0; i < machines; i++)
		free(machine[i].name);
	for (size_t i = 0; i < count; i++)
		vms_free(&vms[i]);
	free(vms);
}

static void export_once(void)
{
	struct processes processes;
	size_t count, size;
	autofree pid_t *pids = group_list(&options.group, &count);
	char *text;

	processes_load(&processes, pids, count, process_under_hydra);
	out = must_have(open_memstream(&text, &size));
	write_system();
	write_auto();
	write_left_out(&processes);
	write_info(&processes);
	write_metrics(per_process, sizeof(per_process) / sizeof(*per_process), &processes, write_process);
	write_metrics(per_node, sizeof(per_node) / sizeof(*per_node), &processes, write_nodes);
	processes_free(&processes);
	export_machines(pids, count);
	must_have(fclose(out) ? NULL : text);
	if (!output)
		fputs(text, stdout);
	else if (!file_replace(output, text, size))
		error(EXIT_ERROR, errno, "cannot write %s", output);
	free(text);
}

int command_export(int argc, char **argv)
{
	double moment = now();

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	group_find(&options.group);
	export_once();
	for (uint64_t done = 1; options.delay_given && done != options.count; done++) {
		moment += options.delay;
		sleep_until(moment);
		export_once();
	}
	return 0;
}
