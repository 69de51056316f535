// SPDX-License-Identifier: GPL-2.0-only
/* hydractl check: have the kernel test the invariants of a process's page tables. */
#include "commands.h"
#include "threads.h"

static const struct argp argp = {
	.children = view_children,
	.args_doc = "PID",
	.doc = "Have the kernel walk all page tables of process PID and test Hydra's invariants.\v"
	       "Cost: while the kernel walks the page tables, every page fault, mmap and munmap of the process waits, the longer the more memory is mapped (on an emulated machine a second for 1.3 GiB of 4 KiB pages). For a single look, not for monitoring. Needs the permission to trace the process.\n\n"
	       "Exit status: 0 all invariants hold, or there is nothing to check: the process runs under policy linux, or has run on one node only; 1 violations, printed; 2 an error.",
};

struct violation {
	char *invariant, *address, *text;
	uint64_t domain;
};

static uint64_t tables, entries;
static uint64_t count;		/* of violations; the kernel may list fewer */
static size_t listed;
static struct violation *violation;

/* "violation INVARIANT address 0x... domain D: text" */
static bool parse_violation(struct violation *into, const char *line)
{
	char domain[21];

	return sscanf(line, "violation %ms address %m[0-9a-fx] domain %20[0-9]: %m[^\n]", &into->invariant,
		      &into->address, domain, &into->text) == 4 &&
	       !strncmp(into->address, "0x", 2) && into->address[2] &&
	       !strchr(into->address + 2, 'x') && parse_u64(domain, &into->domain);
}

/* The last line shows that the kernel's walk reached the end: what was checked, or how many violations there are. */
static bool parse_last(char *line)
{
	struct record record;

	if (!listed && !strncmp(line, "ok ", strlen("ok ")))
		return record_parse(&record, line + strlen("ok "), NULL) &&
		       record_get_u64(&record, "tables", &tables) &&
		       record_get_u64(&record, "entries", &entries);
	return record_parse(&record, line, NULL) && record_get_u64(&record, "violations", &count) &&
	       count && count >= listed;
}

/* Returns the first line that cannot be parsed, or NULL. */
static const char *parse(char *text)
{
	bool complete = false;
	char *save, *line;

	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct violation new = { 0 };

		if (complete)
			return line;
		complete = strncmp(line, "violation ", strlen("violation "));
		if (complete ? !parse_last(line) : !parse_violation(&new, line))
			return line;
		if (complete)
			continue;
		violation = must_have(reallocarray(violation, listed + 1, sizeof(new)));
		violation[listed++] = new;
	}
	return complete ? NULL : "it ends too early";
}

/* The process runs under policy linux, or all of its threads have run on one node only. */
static bool nothing_to_check(void)
{
	return !count && !tables;
}

static void json_result(enum split split)
{
	json_open_process(options.pid, process_name(options.pid));
	if (nothing_to_check()) {
		json_string("ok", NULL);
		json_string("split_state", split_words[split]);
	} else {
		json_flag("ok", !count);
	}
	if (!count) {
		json_number("tables", tables);
		json_number("entries", entries);
	}
	json_number("violations", count);
	json_open_list("listed");
	for (size_t i = 0; i < listed; i++) {
		json_open_object(NULL);
		json_string("invariant", violation[i].invariant);
		json_string("address", violation[i].address);
		json_number("domain", violation[i].domain);
		json_string("text", violation[i].text);
		json_close();
	}
	json_close();
	json_close();
}

/* @why: there is nothing to check, or NULL */
static void print_result(const char *why)
{
	print_process_name(options.pid);
	if (nothing_to_check())
		printf(": nothing to check, no node has page tables of its own for it%s%s\n", why ? ": " : "", why ?: "");
	else if (!count)
		printf(": all invariants hold (%" PRIu64 " table%s, %" PRIu64 " entr%s)\n", tables, plural_s(tables), entries, entries == 1 ? "y" : "ies");
	else
		printf(": %" PRIu64 " violation%s\n", count, plural_s(count));
	for (size_t i = 0; i < listed; i++)
		printf("  invariant %s, address %s, domain %" PRIu64 ": %s\n", violation[i].invariant,
		       violation[i].address, violation[i].domain, violation[i].text);
}

/* As split_sentence(), to be freed. */
static char *why_not_split(enum split *split)
{
	char *text = process_file(options.pid, "hydra");
	struct process process;

	*split = SPLIT_LINUX;
	if (!text || process_load(&process, options.pid, text))
		return NULL;
	*split = split_of(&process);
	return split_sentence(&process, *split);
}

int command_check(int argc, char **argv)
{
	enum split split = SPLIT_DONE;
	const char *nonsense, *why = NULL;
	char *text;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	kernel_require();
	text = process_need(options.pid, "hydra_check", "check");
	nonsense = parse(text);
	if (nonsense)
		process_unexpected(options.pid, "hydra_check", nonsense);
	if (nothing_to_check())
		why = why_not_split(&split);
	if (options.json)
		json_result(split);
	else
		print_result(why);
	return count ? EXIT_VIOLATIONS : 0;
}
