// SPDX-License-Identifier: GPL-2.0-only
#include "settings.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "procfile.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))

/*
 * By the same values, the kernel knows all policies except hydra-nofilter; the kernel
 * calls other values "custom".
 */
static const struct policy policies[] = {
	{ "linux", { .domains = HYDRA_DOMAINS_MACHINE, .replication = HYDRA_REPLICATE_LAZY,
		     .prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_NONE } },
	{ "hydra", { .domains = HYDRA_DOMAINS_NODE, .replication = HYDRA_REPLICATE_LAZY,
		     .prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_TABLE } },
	{ "mitosis", { .domains = HYDRA_DOMAINS_NODE, .replication = HYDRA_REPLICATE_EAGER,
		       .prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_NONE } },
	{ "radixvm", { .domains = HYDRA_DOMAINS_CORE, .replication = HYDRA_REPLICATE_LAZY,
		       .prefetch = 0, .filter = HYDRA_FILTER_ENTRY } },
	{ "abis", { .domains = HYDRA_DOMAINS_CORE, .replication = HYDRA_REPLICATE_LAZY,
		    .prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_ACCESSED } },
	{ "hydra-nofilter", { .domains = HYDRA_DOMAINS_NODE, .replication = HYDRA_REPLICATE_LAZY,
			      .prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_NONE } },
};

static const char *const domains_names[] = {
	[HYDRA_DOMAINS_MACHINE] = "machine",
	[HYDRA_DOMAINS_NODE] = "node",
	[HYDRA_DOMAINS_LLC] = "llc",
	[HYDRA_DOMAINS_CORE] = "core",
};

static const char *const replication_names[] = {
	[HYDRA_REPLICATE_LAZY] = "lazy",
	[HYDRA_REPLICATE_EAGER] = "eager",
};

static const char *const filter_names[] = {
	[HYDRA_FILTER_NONE] = "none",
	[HYDRA_FILTER_TABLE] = "table",
	[HYDRA_FILTER_ENTRY] = "entry",
	[HYDRA_FILTER_ACCESSED] = "accessed",
};

static int name_index(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; name && i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return -1;
}

const struct policy *policy_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	return NULL;
}

const char *policy_name(const struct hydra_settings *settings)
{
	for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
		if (!memcmp(&policies[i].settings, settings, sizeof(*settings)))
			return policies[i].name;
	return NULL;
}

bool settings_chosen(const struct settings_choice *choice)
{
	return choice->domains >= 0 || choice->replication >= 0 || choice->prefetch >= 0 ||
	       choice->filter >= 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct settings_choice *choice = state->input;
	uint64_t degree;

	switch (key) {
	case 'p':
		choice->policy = policy_find(arg);
		if (!choice->policy)
			argp_error(state, "unknown policy '%s': choose linux, hydra, mitosis, radixvm, abis or hydra-nofilter%s",
				   arg, strpbrk(arg, ",:=") ?
				   "; a setting is an option of its own, as in --policy abis --prefetch 3" : "");
		return 0;
	case 'D':
		choice->domains = name_index(domains_names, ARRAY_SIZE(domains_names), arg);
		if (choice->domains < HYDRA_DOMAINS_NODE)
			argp_error(state, "unknown domains '%s': choose node, llc or core", arg);
		return 0;
	case 'r':
		choice->replication = name_index(replication_names, ARRAY_SIZE(replication_names),
						 arg);
		if (choice->replication < 0)
			argp_error(state, "unknown replication '%s': choose lazy or eager", arg);
		return 0;
	case 'd':
		if (!parse_u64(arg, &degree) || degree > HYDRA_PREFETCH_MAX)
			argp_error(state, "prefetch degree '%s' is not a number from 0 to %d",
				   arg, HYDRA_PREFETCH_MAX);
		choice->prefetch = degree;
		return 0;
	case 'f':
		choice->filter = name_index(filter_names, ARRAY_SIZE(filter_names), arg);
		if (choice->filter < 0)
			argp_error(state, "unknown filter '%s': choose none, table, entry or accessed",
				   arg);
		return 0;
	case ARGP_KEY_SUCCESS:
		if (choice->policy && choice->policy->settings.domains == HYDRA_DOMAINS_MACHINE &&
		    settings_chosen(choice))
			argp_error(state, "policy '%s' replicates nothing: --domains, --replication, --prefetch and --filter mean nothing there",
				   choice->policy->name);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "policy", 'p', "POLICY", 0,
	  "linux: one page table for all. hydra: page tables per NUMA node, TLB shootdowns only to the nodes that share a table. mitosis: each node has all page tables, shootdowns as in Linux. radixvm: page tables per core, shootdowns of up to 2 MiB only to the cores that have a page. abis: page tables per core, shootdowns of up to 2 MiB only to the cores that have used a page. hydra-nofilter: page tables per node, shootdowns as in Linux",
	  0 },
	{ "domains", 'D', "KIND", 0,
	  "Which CPUs share page tables, and are interrupted together. node: the CPUs of a NUMA node. llc: of a last-level cache. core: of a core", 0 },
	{ "replication", 'r', "WHEN", 0,
	  "When a domain (a node, or as --domains says) gets a copy of an entry. lazy: when a CPU of the domain faults. eager: as soon as another domain has the entry, together with the whole table", 0 },
	{ "prefetch", 'd', "DEGREE", 0,
	  "A domain that faults on one entry gets up to 2^DEGREE entries around the address; 0 to 9 (9: the whole table). Has no effect with --replication eager", 0 },
	{ "filter", 'f', "FILTER", 0,
	  "Which domains a TLB shootdown interrupts. none: every domain that the process runs on. table: domains that share a table of the range. entry: domains with a copy of a changed entry. accessed: domains whose CPUs accessed a changed entry", 0 },
	{ 0 }
};

const struct argp settings_argp = { .options = options, .parser = parse_option };
const struct argp_child settings_children[] = { { .argp = &settings_argp }, { 0 } };

struct hydra_settings settings_choose(const struct settings_choice *choice)
{
	const struct policy *policy = choice->policy ? choice->policy : policy_find("hydra");
	struct hydra_settings settings = policy->settings;

	settings_apply(&settings, choice);
	return settings;
}

void settings_apply(struct hydra_settings *settings, const struct settings_choice *choice)
{
	if (choice->domains >= 0)
		settings->domains = choice->domains;
	if (choice->replication >= 0)
		settings->replication = choice->replication;
	if (choice->prefetch >= 0)
		settings->prefetch = choice->prefetch;
	if (choice->filter >= 0)
		settings->filter = choice->filter;
}

char *settings_text(const struct hydra_settings *settings)
{
	char *text;
	int length;

	if (settings->domains == HYDRA_DOMAINS_MACHINE)
		return strdup("linux");
	length = asprintf(&text, "hydra,domains=%s,replication=%s,prefetch=%u,filter=%s",
			  domains_names[settings->domains],
			  replication_names[settings->replication],
			  settings->prefetch, filter_names[settings->filter]);
	return length < 0 ? NULL : text;
}

char *settings_named_text(const struct settings_choice *choice)
{
	struct settings_choice named = *choice;
	size_t size;
	char *text;
	FILE *out;

	if (choice->policy) {
		struct hydra_settings all = settings_choose(choice);

		named.domains = all.domains;
		if (all.domains != HYDRA_DOMAINS_MACHINE) {
			named.replication = all.replication;
			named.prefetch = all.prefetch;
			named.filter = all.filter;
		}
	}
	out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	if (named.domains >= 0)
		fprintf(out, ",domains=%s", domains_names[named.domains]);
	if (named.replication >= 0)
		fprintf(out, ",replication=%s", replication_names[named.replication]);
	if (named.prefetch >= 0)
		fprintf(out, ",prefetch=%d", named.prefetch);
	if (named.filter >= 0)
		fprintf(out, ",filter=%s", filter_names[named.filter]);
	if (fclose(out))
		return NULL;
	if (size)
		memmove(text, text + 1, size);	/* the first comma */
	return text;
}

bool settings_from_records(struct hydra_settings *settings, const struct records *records)
{
	int domains = name_index(domains_names, ARRAY_SIZE(domains_names),
				 records_get(records, "domains"));
	int replication = name_index(replication_names, ARRAY_SIZE(replication_names),
				     records_get(records, "replication"));
	int filter = name_index(filter_names, ARRAY_SIZE(filter_names),
				records_get(records, "filter"));
	const char *prefetch = records_get(records, "prefetch");
	uint64_t degree;

	if (domains < 0 || replication < 0 || filter < 0 || !prefetch ||
	    !parse_u64(prefetch, &degree) || degree > HYDRA_PREFETCH_MAX)
		return false;
	*settings = (struct hydra_settings){ domains, replication, degree, filter };
	return true;
}
