// SPDX-License-Identifier: GPL-2.0-only
/* hydractl status: settings and counters, of one process or of the system. */
#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "kernel.h"
#include "settings.h"
#include "text.h"
#include "view.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

static const struct argp argp = {
	.options = view_options,
	.parser = view_parse,
	.args_doc = "[PID]",
	.doc = "Show the settings and counters of process PID. Without PID: the settings of the system, the domains, and the processes under Hydra.\n"
	       "\n"
	       "Counters start when a process starts a program, and end with the process. Reading counters costs the process nothing. 'Violations' counts the violations that 'hydractl check' has found since boot; a kernel built with CONFIG_HYDRA_MM_DEBUG also checks every process that ends.\v"
	       "Exit status: 0 done; 2 an error.",
};

struct process {
	pid_t pid;
	char *name;
	struct records records;
};

struct system {
	char *initial, *supported, *missing, *limit, *violations;
	struct records domains;
	size_t process_count;
	struct process *process;
	unsigned int unreadable, not_understood;
};

static const char *const texts[] = { "policy", "domains", "replication", "filter" };
static const char *const numbers[] = {
	"prefetch", "active", "split", "fills", "prefetched", "propagated", "flushes", "cpus_interrupted",
	"cpus_spared", "fallbacks", "reclaimed", "replica_tables", "replica_kib", "upper_tables",
};

/*
 * Every documented key must be present, and further keys may be. Returns the first
 * missing key.
 */
static const char *missing(const struct records *records)
{
	uint64_t number;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!records_get(records, texts[i]))
			return texts[i];
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const char *value = records_get(records, numbers[i]);

		if (!value || !parse_u64(value, &number))
			return numbers[i];
	}
	return NULL;
}

static void json_value(const char *key, const char *value)
{
	uint64_t number;

	if (parse_u64(value, &number))
		json_number(key, number);
	else
		json_string(key, value);
}

static void json_pairs(const struct record *record)
{
	for (size_t i = 0; i < record->count; i++)
		json_value(record->pair[i].key, record->pair[i].value);
}

static bool is_domain(const struct record *record)
{
	return record->count > 1 && !strcmp(record->pair[0].key, "domain");
}

static void json_process(const struct process *process)
{
	const struct records *records = &process->records;

	json_open_object(NULL);
	json_number("pid", process->pid);
	json_string("comm", process->name);
	for (size_t i = 0; i < records->count; i++)
		if (records->record[i].count == 1)
			json_pairs(&records->record[i]);
	json_open_list("per_domain");
	for (size_t i = 0; i < records->count; i++) {
		if (!is_domain(&records->record[i]))
			continue;
		json_open_object(NULL);
		json_pairs(&records->record[i]);
		json_close_object();
	}
	json_close_list();
	json_close_object();
}

static bool is_active(const struct process *process)
{
	return strcmp(records_get(&process->records, "active"), "0");
}

static void print_process(const struct process *process)
{
	const struct records *records = &process->records;
	bool header = false;

	print_process_name(process->pid, process->name);
	printf("%s\n", is_active(process) ? "" : ": not under Hydra, its counters stand still");
	for (size_t i = 0; i < records->count; i++)
		if (records->record[i].count == 1)
			printf("  %-16s %s\n", records->record[i].pair[0].key,
			       records->record[i].pair[0].value);
	for (size_t i = 0; i < records->count; i++) {
		const struct record *record = &records->record[i];

		if (!is_domain(record))
			continue;
		for (size_t j = 0; !header && j < record->count; j++)
			printf("%s%-14s", j ? " " : "\n  ", record->pair[j].key);
		header = true;
		for (size_t j = 0; j < record->count; j++)
			printf("%s%-14s", j ? " " : "\n  ", record->pair[j].value);
	}
	putchar('\n');
}

/* The kernel says "custom" where --policy has a name for the same settings. */
static void name_policy(struct records *records)
{
	struct hydra_settings settings;
	const char *name;

	if (strcmp(records_get(records, "policy"), "custom") ||
	    !settings_from_records(&settings, records))
		return;
	name = policy_name(&settings);
	for (size_t i = 0; name && i < records->count; i++)
		if (!strcmp(records->record[i].pair[0].key, "policy"))
			records->record[i].pair[0].value = name;
}

/*
 * Takes over @text, the content of /proc/@pid/hydra. Returns NULL, or the part that
 * cannot be parsed.
 */
static const char *process_load(struct process *process, pid_t pid, char *text)
{
	const char *gap;

	*process = (struct process){ .pid = pid };
	if (!records_parse(&process->records, text, NULL))
		return strerror(errno);
	gap = missing(&process->records);
	if (gap) {
		records_free(&process->records);
		return gap;
	}
	name_policy(&process->records);
	process->name = process_name(pid);
	return NULL;
}

static void process_free(struct process *process)
{
	free(process->name);
	records_free(&process->records);
}

static int status_process(const struct view *view)
{
	char *text = process_file(view->pid, "hydra");
	struct process process;
	const char *gap;

	if (!text)
		process_fail(view->pid, "read");
	gap = process_load(&process, view->pid, text);
	if (gap)
		process_unexpected(view->pid, "hydra", gap);
	if (view->json)
		json_process(&process);
	else
		print_process(&process);
	process_free(&process);
	return 0;
}

static void load_system(struct system *system)
{
	uint64_t number;

	system->initial = kernel_file("default");
	system->supported = kernel_supported(&system->missing);
	system->limit = kernel_file("replica_limit_kib");
	system->violations = kernel_file("violations");
	if (!parse_u64(system->violations, &number))
		kernel_unexpected("violations", system->violations);
	if (!records_parse(&system->domains, kernel_file("domains"), "domain"))
		kernel_unexpected("domains", strerror(errno));
	for (size_t i = 0; i < system->domains.count; i++) {
		const struct record *record = &system->domains.record[i];

		if (!record_get_u64(record, "domain", &number) ||
		    !record_get_u64(record, "node", &number) || !record_get(record, "cpus"))
			kernel_unexpected("domains", "a line without its domain, node or cpus");
	}
}

static int is_process(const struct dirent *entry)
{
	return isdigit((unsigned char)*entry->d_name);
}

/* Every process under Hydra. */
static void load_processes(struct system *system)
{
	struct dirent **entries;
	int count = scandir(kernel_proc(), &entries, is_process, versionsort);

	if (count < 0)
		error(EXIT_ERROR, errno, "cannot list %s", kernel_proc());
	system->process = must_have(calloc(count + 1, sizeof(*system->process)));
	for (int i = 0; i < count; i++) {
		struct process *process = &system->process[system->process_count];
		pid_t pid = atoi(entries[i]->d_name);
		char *text = process_file(pid, "hydra");

		free(entries[i]);
		if (!text) {
			/* Else gone meanwhile, or a kernel thread: nothing to show. */
			if (errno == EACCES || errno == EPERM)
				system->unreadable++;
			continue;
		}
		if (process_load(process, pid, text))
			system->not_understood++;
		else if (is_active(process))
			system->process_count++;
		else
			process_free(process);
	}
	free(entries);
}

static int line_length(const char *line)
{
	return strcspn(line, "\n");
}

static const char *next_line(const char *line)
{
	line = strchr(line, '\n');
	return line ? line + 1 : NULL;
}

static void json_system(const struct system *system)
{
	json_open_object(NULL);
	json_string("default", system->initial);
	json_string("supported", system->supported);
	json_open_list("missing");
	for (const char *line = system->missing; line; line = next_line(line)) {
		char *text = must_have(strndup(line, line_length(line)));

		json_string(NULL, text);
		free(text);
	}
	json_close_list();
	json_value("replica_limit_kib", system->limit);
	json_value("violations", system->violations);
	json_open_list("domains");
	for (size_t i = 0; i < system->domains.count; i++) {
		json_open_object(NULL);
		json_pairs(&system->domains.record[i]);
		json_close_object();
	}
	json_close_list();
	json_open_list("processes");
	for (size_t i = 0; i < system->process_count; i++)
		json_process(&system->process[i]);
	json_close_list();
	json_close_object();
}

static void print_system(const struct system *system)
{
	printf("default for new processes  %s\n"
	       "supported                  %s\n", system->initial, system->supported);
	for (const char *line = system->missing; line; line = next_line(line))
		printf("%27s%.*s\n", "", line_length(line), line);
	printf("replica limit, KiB         %s\n"
	       "violations found           %s\n"
	       "\n%6s %4s  CPUS\n", system->limit, system->violations, "DOMAIN", "NODE");
	for (size_t i = 0; i < system->domains.count; i++) {
		const struct record *record = &system->domains.record[i];

		printf("%6s %4s  %s\n", record_get(record, "domain"),
		       record_get(record, "node"), record_get(record, "cpus"));
	}
	if (!system->process_count) {
		printf("\nno process runs under Hydra: start one with 'hydractl run'\n");
		return;
	}
	printf("\n%7s %-16s %-14s %-7s %8s %-8s %11s %10s %11s %10s\n", "PID", "COMMAND", "POLICY",
	       "DOMAINS", "PREFETCH", "FILTER", "REPLICA-KIB", "FLUSHES", "INTERRUPTED", "SPARED");
	for (size_t i = 0; i < system->process_count; i++) {
		const struct process *process = &system->process[i];
		const struct records *records = &process->records;
		char *name = must_have(printable(process->name));

		printf("%7d %-*s %-14s %-7s %8s %-8s %11s %10s %11s %10s\n", process->pid,
		       width(16, name), name, records_get(records, "policy"),
		       records_get(records, "domains"), records_get(records, "prefetch"), records_get(records, "filter"),
		       records_get(records, "replica_kib"), records_get(records, "flushes"),
		       records_get(records, "cpus_interrupted"),
		       records_get(records, "cpus_spared"));
		free(name);
	}
}

static void free_system(struct system *system)
{
	for (size_t i = 0; i < system->process_count; i++)
		process_free(&system->process[i]);
	free(system->process);
	records_free(&system->domains);
	free(system->initial);
	free(system->supported);
	free(system->limit);
	free(system->violations);
}

static int status_system(bool json)
{
	struct system system = { 0 };

	load_system(&system);
	load_processes(&system);
	if (json)
		json_system(&system);
	else
		print_system(&system);
	if (system.unreadable)
		error(0, 0, "%u processes left out: not permitted to read them (be root)",
		      system.unreadable);
	if (system.not_understood)
		error(0, 0, "%u processes left out: cannot make sense of what the kernel says of them: is hydractl of the same version as the kernel?",
		      system.not_understood);
	free_system(&system);
	return 0;
}

int command_status(int argc, char **argv)
{
	struct view view = { .pid_optional = true };

	argp_parse(&argp, argc, argv, 0, NULL, &view);
	kernel_require(EXIT_ERROR);
	return view.pid ? status_process(&view) : status_system(view.json);
}
