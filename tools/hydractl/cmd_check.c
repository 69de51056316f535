// SPDX-License-Identifier: GPL-2.0-only
/* hydractl check: have the kernel test the invariants of a process's page tables. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "kernel.h"
#include "options.h"
#include "threads.h"

static const struct argp argp = {
	.children = view_children,
	.args_doc = "PID",
	.doc = "Have the kernel walk all page tables of process PID and test Hydra's invariants.\v"
	       "Cost: while the kernel walks the page tables, every page fault, mmap and munmap of the process waits, the longer the more memory is mapped (on an emulated machine a second for 1.3 GiB of 4 KiB pages). For a single look, not for monitoring. Needs the permission to trace the process.\n\n"
	       "Exit status: 0 all invariants hold, or there is nothing to check: the process runs under policy linux, or has run on one node only; 1 violations, printed; 2 an error.",
};

struct violation {
	struct record where;
	const char *text;
};

struct result {
	bool complete;
	uint64_t tables, entries;
	uint64_t count;		/* of violations; the kernel may list fewer */
	size_t listed;
	struct violation *violation;
};

/* "violation INVARIANT address 0x... domain D: text" */
static bool parse_violation(struct violation *violation, char *line)
{
	const struct record *where = &violation->where;
	char *colon = strstr(line, ": ");
	const char *address;
	uint64_t domain;

	if (!colon)
		return false;
	*colon = '\0';
	violation->text = colon + 2;
	if (!record_parse(&violation->where, line, NULL) || !record_get(where, "violation"))
		return false;
	address = record_get(where, "address");
	return address && !strncmp(address, "0x", 2) && address[2] &&
	       !address[2 + strspn(address + 2, "0123456789abcdef")] &&
	       record_get_u64(where, "domain", &domain);
}

/* The last line shows that the kernel's walk reached the end. */
static bool parse_last(struct result *result, char *line)
{
	struct record record;

	if (!record_parse(&record, line, NULL))
		return false;
	if (record_get_u64(&record, "violations", &result->count))
		result->complete = result->count && result->count >= result->listed;
	return result->complete;
}

static bool parse_line(struct result *result, char *line)
{
	struct record record;

	if (result->complete)
		return false;
	if (!strncmp(line, "violation ", strlen("violation ")))
		return parse_violation(&result->violation[result->listed++], line);
	if (strncmp(line, "ok ", strlen("ok ")))
		return parse_last(result, line);
	result->complete = !result->listed &&
			   record_parse(&record, line + strlen("ok "), NULL) &&
			   record_get_u64(&record, "tables", &result->tables) &&
			   record_get_u64(&record, "entries", &result->entries);
	return result->complete;
}

/* Returns the first line that cannot be parsed, or NULL. */
static const char *parse(struct result *result, char *text)
{
	size_t lines = 1;
	char *save, *line;

	for (line = text; *line; line++)
		lines += *line == '\n';
	*result = (struct result){ 0 };
	result->violation = must_have(calloc(lines, sizeof(*result->violation)));
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!parse_line(result, line))
			return line;
	return result->complete ? NULL : "it ends too early";
}

/* The process runs under policy linux, or all of its threads have run on one node only. */
static bool nothing_to_check(const struct result *result)
{
	return !result->count && !result->tables;
}

static void json_result(pid_t pid, const char *name, const struct result *result,
			enum split split)
{
	json_open_object(NULL);
	json_number("pid", pid);
	json_string("comm", name);
	if (nothing_to_check(result)) {
		json_string("ok", NULL);
		json_string("split_state", split_words[split]);
	} else {
		json_flag("ok", !result->count);
	}
	if (!result->count) {
		json_number("tables", result->tables);
		json_number("entries", result->entries);
	}
	json_number("violations", result->count);
	json_open_list("listed");
	for (size_t i = 0; i < result->listed; i++) {
		const struct record *where = &result->violation[i].where;
		uint64_t domain = 0;

		record_get_u64(where, "domain", &domain);
		json_open_object(NULL);
		json_string("invariant", record_get(where, "violation"));
		json_string("address", record_get(where, "address"));
		json_number("domain", domain);
		json_string("text", result->violation[i].text);
		json_close();
	}
	json_close();
	json_close();
}

/* @why: there is nothing to check, or NULL */
static void print_result(pid_t pid, const char *name, const struct result *result,
			 const char *why)
{
	print_process_name(pid, name);
	if (nothing_to_check(result)) {
		printf(": nothing to check, no node has page tables of its own for it%s%s\n",
		       why ? ": " : "", why ?: "");
		return;
	}
	if (!result->count) {
		printf(": all invariants hold (%" PRIu64 " tables, %" PRIu64 " entries)\n",
		       result->tables, result->entries);
		return;
	}
	printf(": %" PRIu64 " violations\n", result->count);
	for (size_t i = 0; i < result->listed; i++) {
		const struct record *where = &result->violation[i].where;

		printf("  invariant %s, address %s, domain %s: %s\n",
		       record_get(where, "violation"), record_get(where, "address"),
		       record_get(where, "domain"), result->violation[i].text);
	}
}

/* As split_sentence(), to be freed. */
static char *why_not_split(pid_t pid, enum split *split)
{
	char *text = process_file(pid, "hydra"), *why = NULL;
	struct process process;

	*split = SPLIT_LINUX;
	if (text && !process_load(&process, pid, text)) {
		*split = split_of(&process);
		why = split_sentence(&process, *split);
		process_free(&process);
	}
	return why;
}

int command_check(int argc, char **argv)
{
	struct view view = { 0 };
	struct result result;
	enum split split = SPLIT_DONE;
	const char *nonsense;
	char *text, *name, *why = NULL;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &view);
	kernel_require();
	text = process_file(view.pid, "hydra_check");
	if (!text)
		process_fail(view.pid, "check");
	nonsense = parse(&result, text);
	if (nonsense)
		process_unexpected(view.pid, "hydra_check", nonsense);
	name = process_name(view.pid);
	if (nothing_to_check(&result))
		why = why_not_split(view.pid, &split);
	if (view.json)
		json_result(view.pid, name, &result, split);
	else
		print_result(view.pid, name, &result, why);
	status = result.count ? EXIT_VIOLATIONS : 0;
	free(why);
	free(name);
	free(result.violation);
	free(text);
	return status;
}
