// SPDX-License-Identifier: GPL-2.0-only
#include "details.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "columns.h"
#include "kernel.h"
#include "rates.h"
#include "sums.h"
#include "text.h"

__attribute__((format(printf, 2, 3)))
static void add_line(struct details *details, const char *format, ...)
{
	va_list arguments;
	char *line;
	int length;

	va_start(arguments, format);
	length = vasprintf(&line, format, arguments);
	va_end(arguments);
	details->line = must_have(reallocarray(details->line, details->count + 1, sizeof(*details->line)));
	details->line[details->count++] = must_have(length < 0 ? NULL : line);
}

/* Add the documented counters, which grow only, per second. */
static void add_counters(struct details *details, const struct process *before,
			 const struct process *after, double seconds)
{
	char text[CELL_SIZE];

	for (enum sum sum = 0; sum <= SUM_RECLAIMED; sum++) {
		uint64_t number = process_number(after, sum_keys[sum]);
		uint64_t then = before ? process_number(before, sum_keys[sum]) : 0;

		if (!process_text(after, sum_keys[sum]))
			continue;
		add_line(details, "%-23s %12llu %9s/s", sum_keys[sum], (unsigned long long)number,
			 rate_text(text, rate(then, number, seconds)));
	}
	for (enum sum sum = SUM_REPLICA_TABLES; sum < SUMS; sum++)
		add_line(details, "%-23s %12s", sum_keys[sum], process_text(after, sum_keys[sum]));
}

static const char *value(const struct record *record, const char *key)
{
	return record_get(record, key) ?: "-";
}

static void add_domain(struct details *details, const struct record *domain)
{
	add_line(details, "%6s %4s %-9s %8s %8s %8s %8s", value(domain, "domain"), value(domain, "node"),
		 value(domain, "root"), value(domain, "fills"), value(domain, "replica_kib"),
		 value(domain, "replica_tables"), value(domain, "upper_tables"));
}

struct details details_make(const struct process *before, const struct process *after, double seconds)
{
	struct details details = { 0 };
	char *name = must_have(printable(after->name));
	const struct record *domain;

	add_line(&details, "process %d (%s)%s", after->pid, name,
		 process_active(after) ? "" : ": not under Hydra");
	free(name);
	add_line(&details, "policy %s: domains=%s,replication=%s,", process_text(after, "policy"),
		 process_text(after, "domains"), process_text(after, "replication"));
	add_line(&details, "  prefetch=%s,filter=%s", process_text(after, "prefetch"),
		 process_text(after, "filter"));
	add_line(&details, "%s", process_number(after, "split") ? "threads run on several nodes" :
		 "threads have run on one node only");
	add_counters(&details, before, after, seconds);
	if (process_number(after, "split"))
		add_line(&details, "DOMAIN NODE %-9s %8s %8s %8s %8s", "ROOT", "FILLS", "REP-KIB", "REPLICAS", "UPPER");
	for (size_t next = 0; (domain = process_domain(after, &next)); )
		add_domain(&details, domain);
	return details;
}

void details_free(struct details *details)
{
	for (size_t i = 0; i < details->count; i++)
		free(details->line[i]);
	free(details->line);
	*details = (struct details){ 0 };
}
