// SPDX-License-Identifier: GPL-2.0-only
#include "metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "sums.h"
#include "text.h"
#include "tlb_line.h"

struct metric {
	const char *name, *type, *help;
};

static void write_head(FILE *out, struct metric metric)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metric.name, metric.help, metric.name, metric.type);
}

static void write_value(FILE *out, struct metric metric, uint64_t value)
{
	write_head(out, metric);
	fprintf(out, "%s %" PRIu64 "\n", metric.name, value);
}

/* Of the bytes that a label must escape, printable() leaves two kinds. */
static void write_label(FILE *out, const char *name, const char *value)
{
	char *text = must_have(printable(value));

	fprintf(out, "%s=\"", name);
	for (const char *byte = text; *byte; byte++)
		fprintf(out, "%s%c", *byte == '"' || *byte == '\\' ? "\\" : "", *byte);
	fputc('"', out);
	free(text);
}

static void write_identity(FILE *out, const char *metric, const struct process *process)
{
	fprintf(out, "%s{pid=\"%d\",", metric, process->pid);
	write_label(out, "command", process->name);
}

static void write_system(FILE *out)
{
	static const struct metric limit = { "hydra_replica_limit_bytes", "gauge", "How much memory the replica tables of one process may take." };
	static const struct metric initial = { "hydra_default_info", "gauge", "The settings of processes that have chosen none." };
	char *supported = kernel_file("supported"), *violations = kernel_file("violations");
	char *most = kernel_file("replica_limit_kib"), *settings = kernel_file("default");
	char *interrupts;
	uint64_t number;

	write_value(out, (struct metric){ "hydra_supported", "gauge", "1: this machine can run Hydra." },
		    !strncmp(supported, "yes", 3));
	if (!parse_u64(violations, &number))
		kernel_unexpected("violations", violations);
	write_value(out, (struct metric){ "hydra_violations_total", "counter", "Violations of Hydra's rules that checks have found since boot. Any is a bug of the kernel." },
		    number);
	write_head(out, limit);
	if (parse_u64(most, &number))
		fprintf(out, "%s %" PRIu64 "\n", limit.name, number * 1024);
	else if (!strcmp(most, "max"))
		fprintf(out, "%s +Inf\n", limit.name);
	else
		kernel_unexpected("replica_limit_kib", most);
	write_head(out, initial);
	fprintf(out, "%s{", initial.name);
	write_label(out, "settings", settings);
	fprintf(out, "} 1\n");

	interrupts = must_have(asprintf(&interrupts, "%s/interrupts", kernel_proc()) < 0 ? NULL : interrupts);
	if (tlb_interrupts(interrupts, &number))
		write_value(out, (struct metric){ "hydra_machine_tlb_interrupts_total", "counter", "Interrupts for TLB shootdowns that all CPUs of the machine have taken, of processes under any policy (the line TLB of /proc/interrupts)." },
			    number);
	free(interrupts);
	free(supported);
	free(violations);
	free(most);
	free(settings);
}

static void write_left_out(FILE *out, const struct processes *processes)
{
	static const struct metric metric = { "hydra_export_left_out_processes", "gauge", "Processes that the export lacks: unreadable (not permitted), not_understood (another version of the kernel)." };

	write_head(out, metric);
	fprintf(out, "%s{reason=\"unreadable\"} %u\n%s{reason=\"not_understood\"} %u\n", metric.name,
		processes->unreadable, metric.name, processes->not_understood);
}

static void write_info(FILE *out, const struct processes *processes)
{
	static const struct metric metric = { "hydra_process_info", "gauge", "The settings of a process under Hydra." };
	static const char *const keys[] = { "policy", "domains", "replication", "prefetch", "filter" };

	write_head(out, metric);
	for (size_t i = 0; i < processes->count; i++) {
		write_identity(out, metric.name, &processes->process[i]);
		for (size_t j = 0; j < sizeof(keys) / sizeof(*keys); j++) {
			fputc(',', out);
			write_label(out, keys[j], process_text(&processes->process[i], keys[j]));
		}
		fprintf(out, "} 1\n");
	}
}

/* One number of /proc/PID/hydra. */
static const struct {
	struct metric metric;
	const char *key;
	unsigned int factor;
} per_process[] = {
	{ { "hydra_process_split", "gauge", "1: the domains have page tables of their own." }, "split", 1 },
	{ { "hydra_process_flushes_total", "counter", "TLB flushes." }, "flushes", 1 },
	{ { "hydra_process_cpus_interrupted_total", "counter", "Interrupts sent for the flushes, one for each CPU." }, "cpus_interrupted", 1 },
	{ { "hydra_process_cpus_interrupted_across_total", "counter", "Of these, the interrupts of CPUs on another node than the flushing CPU's." }, "cpus_interrupted_across", 1 },
	{ { "hydra_process_cpus_spared_total", "counter", "Interrupts saved: CPUs that Linux would have interrupted besides, so not those that are idle." }, "cpus_spared", 1 },
	{ { "hydra_process_fills_total", "counter", "Entries that a domain asked for and which were copied." }, "fills", 1 },
	{ { "hydra_process_prefetched_entries_total", "counter", "Entries copied in the same fills." }, "prefetched", 1 },
	{ { "hydra_process_propagated_entries_total", "counter", "Copies changed because the original changed." }, "propagated", 1 },
	{ { "hydra_process_fallbacks_total", "counter", "Times that there was no memory for a copy, or the limit was reached." }, "fallbacks", 1 },
	{ { "hydra_process_reclaimed_tables_total", "counter", "Copies given back because memory was short." }, "reclaimed", 1 },
	{ { "hydra_process_replica_bytes", "gauge", "Memory of the replica tables." }, "replica_kib", 1024 },
};

static void write_processes(FILE *out, const struct processes *processes)
{
	for (size_t i = 0; i < sizeof(per_process) / sizeof(*per_process); i++) {
		write_head(out, per_process[i].metric);
		for (size_t j = 0; j < processes->count; j++) {
			/* An older kernel lacks some lines. No value is no lie; 0 would be one. */
			if (!process_text(&processes->process[j], per_process[i].key))
				continue;
			write_identity(out, per_process[i].metric.name, &processes->process[j]);
			fprintf(out, "} %" PRIu64 "\n", per_process[i].factor *
				process_number(&processes->process[j], per_process[i].key));
		}
	}
}

static void write_nodes(FILE *out, const struct processes *processes)
{
	static const struct metric fills = { "hydra_process_node_fills_total", "counter", "Fills by the CPUs of a node." };
	static const struct metric bytes = { "hydra_process_node_replica_bytes", "gauge", "Memory of the replica tables on a node." };

	for (int memory = 0; memory < 2; memory++) {
		struct metric metric = memory ? bytes : fills;

		write_head(out, metric);
		for (size_t i = 0; i < processes->count; i++) {
			struct sums sums = { 0 };

			sums_add(&sums, &processes->process[i]);
			for (size_t j = 0; j < sums.node_count; j++) {
				write_identity(out, metric.name, &processes->process[i]);
				fprintf(out, ",node=\"%" PRIu64 "\"} %" PRIu64 "\n", sums.node[j].node,
					memory ? sums.node[j].replica_kib * 1024 : sums.node[j].fills);
			}
			sums_free(&sums);
		}
	}
}

void write_metrics(FILE *out, const struct processes *processes)
{
	write_system(out);
	write_left_out(out, processes);
	write_info(out, processes);
	write_processes(out, processes);
	write_nodes(out, processes);
}
