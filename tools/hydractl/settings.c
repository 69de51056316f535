// SPDX-License-Identifier: GPL-2.0-only
#include "settings.h"

#include "kernel.h"
#include "options.h"
#include "process.h"
#include "rules.h"

#define VALUES(which, when, degree, how) \
	{ .domains = which, .replication = when, .prefetch = degree, .filter = how }

/*
 * By the same values, the kernel knows all policies except hydra-nofilter; the kernel
 * calls other values "custom".
 */
const struct policy policies[] = {
	{ "linux", 'l', "one page table for all",
	  VALUES(HYDRA_SCOPE_MACHINE, HYDRA_REPLICATE_LAZY, HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE) },
	{ "hydra", 'h', "page tables per NUMA node, TLB shootdowns only to the nodes that share a table",
	  VALUES(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, HYDRA_PREFETCH_MAX, HYDRA_FILTER_TABLE) },
	{ "mitosis", 'm', "each node has all page tables, shootdowns as in Linux",
	  VALUES(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_EAGER, HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE) },
	{ "radixvm", 'r', "page tables per core, shootdowns of up to 2 MiB only to the cores that have a page",
	  VALUES(HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, 0, HYDRA_FILTER_ENTRY) },
	{ "abis", 'a', "page tables per core, shootdowns of up to 2 MiB only to the cores that have used a page",
	  VALUES(HYDRA_SCOPE_CORE, HYDRA_REPLICATE_LAZY, HYDRA_PREFETCH_MAX, HYDRA_FILTER_ACCESSED) },
	{ "auto", 'u', "plain Linux; page tables per node while the kernel finds that they save more than they cost",
	  VALUES(HYDRA_SCOPE_AUTO, HYDRA_REPLICATE_LAZY, HYDRA_PREFETCH_MAX, HYDRA_FILTER_AUTO) },
	{ "hydra-nofilter", 'n', "page tables per node, shootdowns as in Linux",
	  VALUES(HYDRA_SCOPE_NODE, HYDRA_REPLICATE_LAZY, HYDRA_PREFETCH_MAX, HYDRA_FILTER_NONE) },
	{ .name = NULL }
};

/* A value of a setting: the kernel's name, and what --help says. */
struct value {
	const char *name, *help;
};

static const struct value domains[] = {
	[HYDRA_SCOPE_MACHINE] = { .name = "machine" },
	[HYDRA_SCOPE_NODE] = { "node", "the CPUs of a NUMA node" },
	[HYDRA_SCOPE_LLC] = { "llc", "of a last-level cache" },
	[HYDRA_SCOPE_CORE] = { "core", "of a core" },
	[HYDRA_SCOPE_AUTO] = { "auto", "of a NUMA node while that pays, by the prices of the kernel, and all CPUs otherwise" },
};

static const struct value replication[] = {
	[HYDRA_REPLICATE_LAZY] = { "lazy", "when a CPU of the domain faults" },
	[HYDRA_REPLICATE_EAGER] = { "eager", "as soon as another domain has the entry, together with the whole table" },
};

static const struct value filter[] = {
	[HYDRA_FILTER_NONE] = { "none", "every domain that the process runs on" },
	[HYDRA_FILTER_TABLE] = { "table", "domains that share a table of the range" },
	[HYDRA_FILTER_ENTRY] = { "entry", "domains with a copy of a changed entry" },
	[HYDRA_FILTER_ACCESSED] = { "accessed", "domains whose CPUs accessed a changed entry" },
	[HYDRA_FILTER_AUTO] = { "auto", "as table or as accessed, by what flushes of each table have gained lately" },
};

static const struct value prefetch[HYDRA_PREFETCH_MAX + 1] = {
	{ .name = "0" }, { .name = "1" }, { .name = "2" }, { .name = "3" }, { .name = "4" },
	{ .name = "5" }, { .name = "6" }, { .name = "7" }, { .name = "8" }, { .name = "9" },
};

#define SETTING(name, key, former) { #name, key, former, offsetof(struct hydra_settings, name), name, sizeof(name) / sizeof(*name) }

/* In the order of the kernel's texts. */
static const struct {
	const char *name;
	char key, former;		/* of the option; and a former one, still taken where the command has no other use for it */
	size_t place;			/* in struct hydra_settings */
	const struct value *value;
	size_t values;
} table[SETTINGS] = {
	[SETTING_DOMAINS] = SETTING(domains, 'D', 'D'), [SETTING_REPLICATION] = SETTING(replication, 'R', 'r'),
	[SETTING_PREFETCH] = SETTING(prefetch, 'P', 'd'), [SETTING_FILTER] = SETTING(filter, 'f', 'f'),
};

enum { POLICY = 'p', COMPLETE = 'C' };

static const struct argp_option setting_options[] = {
	{ "policy", POLICY, "POLICY", 0, NULL, 0 },
	{ "domains", 'D', "KIND", 0, "Which CPUs share page tables, and are interrupted together", 0 },
	{ "replication", 'R', "WHEN", 0, "When a domain (a node, or as --domains says) gets a copy of an entry", 0 },
	{ NULL, 'r', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 },
	{ "prefetch", 'P', "DEGREE", 0,
	  "A domain that faults on one entry gets up to 2^DEGREE entries around the address; 0 to 9 (9: the whole table). Has no effect with --replication eager", 0 },
	{ NULL, 'd', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0 },
	{ "filter", 'f', "FILTER", 0, "Which domains a TLB shootdown interrupts", 0 },
	{ "complete", COMPLETE, "OPTION", OPTION_HIDDEN, "For the shell's completion: print the words for an option, and end", 0 },
	{ 0 }
};

/* The setting of an option; SETTINGS if it is none. */
static enum setting setting_of(int key)
{
	enum setting setting = 0;

	while (setting < SETTINGS && table[setting].key != key && table[setting].former != key)
		setting++;
	return setting;
}

/* The word number @place for an option, NULL if there are not so many; and what it means. */
static struct value word(int key, size_t place)
{
	enum setting setting = setting_of(key);

	if (key == POLICY)
		return (struct value){ policies[place].name, policies[place].help };
	place += setting == SETTING_DOMAINS;	/* "machine" is policy linux. */
	if (setting < SETTINGS && place < table[setting].values)
		return table[setting].value[place];
	return (struct value){ 0 };
}

/* The words for an option with @between between them, and @last ahead of the last one; to be freed. */
static char *words(int key, const char *between, const char *last, bool helped)
{
	struct value this;
	char *text = NULL;

	for (size_t i = 0; (this = word(key, i)).name; i++) {
		append(&text, "%s%s", !i ? "" : word(key, i + 1).name ? between : last, this.name);
		if (helped)
			append(&text, ": %s", this.help);
	}
	return text ?: must_have(strdup(""));
}

static char *help_with_words(int key, const char *text, void *input)
{
	(void)input;
	if (key == POLICY) {
		autofree char *names = words(key, ". ", ". ", true);

		return xasprintf("%s. Settings may follow, as in hydra,prefetch=4", names);
	}
	if (!word(key, 0).help)
		return (char *)text;
	return xasprintf("%s. %s", text, words(key, ". ", ". ", true));
}

static _Noreturn void complete(const char *name)
{
	for (const struct argp_option *option = setting_options; option->key; option++)
		if ((option->name && !strcmp(option->name, name)) || (*name == option->key && !name[1]))
			puts(words(option->key, "\n", "\n", false));
	exit(0);
}

static uint32_t *member(const struct hydra_settings *settings, enum setting setting)
{
	return (uint32_t *)((char *)settings + table[setting].place);
}

/* The kernel's name for a value. False if there is none. */
static bool parse_value(struct hydra_settings *settings, enum setting setting, const char *name)
{
	for (size_t i = 0; i < table[setting].values; i++) {
		*member(settings, setting) = i;
		if (!strcmp(table[setting].value[i].name, name))
			return true;
	}
	return false;
}

const struct policy *policy_find(const char *name)
{
	for (const struct policy *policy = policies; policy->name; policy++)
		if (!strcmp(policy->name, name))
			return policy;
	return NULL;
}

/* But for those of virtual machines, which each policy may have */
static bool same(const struct hydra_settings *a, const struct hydra_settings *b)
{
	return !memcmp(a, b, offsetof(struct hydra_settings, tables));
}

const char *policy_name(const struct hydra_settings *settings)
{
	for (const struct policy *policy = policies; policy->name; policy++)
		if (same(&policy->settings, settings))
			return policy->name;
	return NULL;
}

bool settings_chosen(const struct settings_choice *choice)
{
	for (enum setting i = 0; i < SETTINGS; i++)
		if (choice->chosen[i])
			return true;
	return false;
}

/* Take the value of a setting for options.choice, or leave with the error of @state. */
static void choose_setting(const struct argp_state *state, enum setting setting, const char *value)
{
	struct settings_choice *choice = &options.choice;

	choice->chosen[setting] = true;
	if (parse_value(&choice->settings, setting, value) &&
	    !(setting == SETTING_DOMAINS && choice->settings.domains == HYDRA_SCOPE_MACHINE))
		return;
	if (setting == SETTING_PREFETCH)
		argp_error(state, "prefetch degree '%s' is not a number from 0 to %d", value, HYDRA_PREFETCH_MAX);
	argp_error(state, "unknown %s '%s': choose %s", table[setting].name, value,
		   words(table[setting].key, ", ", " or ", false));
}

/* The same for "KEY=VALUE". */
static void choose_pair(const struct argp_state *state, char *pair)
{
	const char *key = strsep(&pair, "=");
	enum setting setting = 0;

	while (setting < SETTINGS && strcmp(table[setting].name, key))
		setting++;
	if (setting == SETTINGS || !pair)
		argp_error(state, "unknown setting '%s': choose domains, replication, prefetch or filter, as in hydra,prefetch=4", key);
	choose_setting(state, setting, pair);
}

void settings_parse(const struct argp_state *state, const char *text)
{
	autofree char *copy = must_have(strdup(text));
	char *rest = copy, *name = strsep(&rest, ",:");

	if (strchr(name, '=')) {
		choose_pair(state, name);
	} else {
		options.choice.policy = policy_find(name);
		if (!options.choice.policy)
			argp_error(state, "unknown policy '%s': choose %s", name, words(POLICY, ", ", " or ", false));
	}
	while (rest)
		choose_pair(state, strsep(&rest, ",:"));
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct settings_choice *choice = &options.choice;
	enum setting setting = setting_of(key);

	if (setting < SETTINGS) {
		choose_setting(state, setting, arg);
		return 0;
	}
	switch (key) {
	case POLICY:
		settings_parse(state, arg);
		return 0;
	case COMPLETE:
		complete(arg);
	case ARGP_KEY_SUCCESS:
		if (choice->policy && choice->policy->settings.domains == HYDRA_SCOPE_MACHINE &&
		    settings_chosen(choice))
			argp_error(state, "policy '%s' replicates nothing: domains, replication, prefetch and filter mean nothing there",
				   choice->policy->name);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp settings_argp = { .options = setting_options, .parser = parse_option, .help_filter = help_with_words };

static const struct argp_option machine_options[] = {
	{ "follow", 'F', NULL, 0, "For virtual machines (of run: those that PROGRAM makes): one tree of nested page tables, as under policy linux, and its tables move to the node of the guest's memory", 0 },
	{ "expose", 'X', NULL, 0, "For virtual machines: the kernel of the guest may ask on which nodes its CPUs and its memory are, and have memory moved, within the memory policy and the cpuset of the process", 0 },
	{ 0 }
};

static error_t parse_machine_option(int key, char *arg, struct argp_state *state)
{
	struct settings_choice *choice = &options.choice;

	(void)arg;
	switch (key) {
	case 'F':
		choice->settings.tables = HYDRA_TABLES_FOLLOW;
		return 0;
	case 'X':
		choice->settings.expose = 1;
		return 0;
	case ARGP_KEY_SUCCESS:
		if (!choice->settings.tables)
			return 0;
		choice->policy = choice->policy ?: policy_find("linux");
		if (settings_chosen(choice) || choice->policy != policy_find("linux"))
			argp_error(state, "--follow is for virtual machines with one tree: no --policy but linux, and no other setting");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp machine_argp = { .options = machine_options, .parser = parse_machine_option };

struct hydra_settings settings_choose(const struct settings_choice *choice)
{
	struct hydra_settings settings = (choice->policy ?: policy_find("hydra"))->settings;

	settings_apply(&settings, choice);
	settings.tables = choice->settings.tables;
	settings.expose = choice->settings.expose;
	return settings;
}

void settings_apply(struct hydra_settings *settings, const struct settings_choice *choice)
{
	for (enum setting i = 0; i < SETTINGS; i++)
		if (choice->chosen[i])
			*member(settings, i) = *member(&choice->settings, i);
}

char *settings_named_text(const struct settings_choice *choice)
{
	struct hydra_settings settings = settings_choose(choice);
	bool all = choice->policy && settings.domains != HYDRA_SCOPE_MACHINE;
	char *text = NULL;

	for (enum setting i = 0; i < SETTINGS; i++)
		if (choice->chosen[i] || all || (choice->policy && i == SETTING_DOMAINS))
			append(&text, "%s%s=%s", text ? "," : "", table[i].name,
			       table[i].value[*member(&settings, i)].name);
	return text ?: must_have(strdup(""));
}

char *settings_text(const struct hydra_settings *settings)
{
	const struct policy all = { .settings = *settings };
	autofree char *named = settings_named_text(&(struct settings_choice){ .policy = &all });

	return xasprintf("%s%s%s%s", settings->domains == HYDRA_SCOPE_MACHINE ? "linux" : "hydra,",
			 settings->domains == HYDRA_SCOPE_MACHINE ? "" : named,
			 settings->tables ? ",tables=follow" : "", settings->expose ? ",expose=on" : "");
}

char *settings_of_kernel(const struct settings_choice *choice)
{
	const struct hydra_settings settings = settings_choose(choice);
	const struct policy *base = choice->policy ?: policy_find("hydra");
	char *text = NULL;

	/* All but the last are the kernel's. */
	for (const struct policy *policy = policies; policy[1].name; policy++)
		if (same(&policy->settings, &settings))
			return must_have(strdup(policy->name));
	if (!base[1].name)
		base = policy_find("hydra");
	append(&text, "%s", base->name);
	for (enum setting i = 0; i < SETTINGS; i++)
		if (*member(&base->settings, i) != *member(&settings, i))
			append(&text, ",%s=%s", table[i].name, table[i].value[*member(&settings, i)].name);
	return text;
}

bool settings_from_records(struct hydra_settings *settings, const struct records *records)
{
	for (enum setting i = 0; i < SETTINGS; i++) {
		const char *text = records_get(records, table[i].name);

		if (!text || !parse_value(settings, i, text))
			return false;
	}
	/* Older kernels lack these. */
	settings->tables = !strcmp(records_get(records, "tables") ?: "", "follow");
	settings->expose = !strcmp(records_get(records, "expose") ?: "", "on");
	return true;
}

/* Of lines "no SETTING: REASON": the text after "no" of a line whose setting is requested. */
static char *reason_against(char *missing, const char *settings)
{
	for (char *line = strtok(missing, "\n"); line; line = strtok(NULL, "\n")) {
		autofree char *setting = NULL;
		char *said = line + strlen("no ");

		if (strncmp(line, "no ", strlen("no ")))
			continue;
		setting = must_have(strndup(said, strcspn(said, ":")));
		if (strstr(settings, setting))
			return said;
	}
	return NULL;
}

/*
 * Why the process may not choose settings, to be freed, if the administrator is the
 * reason; else NULL. errno stays.
 */
static char *allow_refusal(void)
{
	int saved = errno;
	autofree char *allow = kernel_allow();
	const char *why = NULL;

	if (allow && !strcmp(allow, "cap_sys_nice"))
		why = "only processes with CAP_SYS_NICE, as root's, may choose settings ('hydractl allow' says so)";
	if (allow && !strcmp(allow, "nobody"))
		why = "no process may choose settings ('hydractl allow' says so); 'hydractl allow anybody', by root, ends that";
	errno = saved;
	return why ? must_have(strdup(why)) : NULL;
}

char *settings_refusal(const char *settings)
{
	int saved = errno;
	char *missing, *reason, *why = saved == EPERM ? allow_refusal() : NULL;
	autofree char *supported = NULL;

	if (why)
		return why;
	if (saved == EINVAL && strstr(settings, "domains=auto") && !kernel_has_auto())
		return must_have(strdup("this kernel's Hydra is older than hydractl, and has no policy auto"));
	if (saved != EOPNOTSUPP)
		return xasprintf("the kernel refused the settings '%s': %s", settings, strerror(saved));
	supported = kernel_supported(&missing);
	reason = missing ? reason_against(missing, settings) : NULL;
	if (strcmp(supported, "yes"))
		return xasprintf("Hydra cannot work on this machine (%s)", supported);
	if (reason)
		return xasprintf("this machine cannot do '%s' (%s): choose another filter", settings, reason);
	/* Older kernels refuse scopes of domains, replication and filters. */
	return xasprintf("this kernel, or this machine, cannot do '%s': choose --domains node, --replication lazy, and --filter none or --filter table",
			 settings);
}

static char *change(pid_t pid, const char *file, const char *text,
		    char *(*failure)(pid_t pid, const char *doing))
{
	char *why;

	if (process_write(pid, file, text))
		return NULL;
	why = errno == EPERM ? allow_refusal() : NULL;
	if (why)
		return why;
	return errno == EINVAL || errno == EOPNOTSUPP ? settings_refusal(text) : failure(pid, "change");
}

char *process_change(pid_t pid, const struct hydra_settings *settings)
{
	autofree char *text = settings_text(settings);

	return change(pid, "hydra", text, process_failure);
}

char *vms_change(pid_t pid, const struct settings_choice *choice, const struct vm_settings *more)
{
	autofree char *shared = settings_named_text(choice);
	autofree char *text = xasprintf("%s%s%s%s%s%s%s", shared, more->tables ? ",tables=" : "", more->tables ?: "",
					more->expose ? ",expose=" : "", more->expose ?: "",
					more->limit ? ",limit_kib=" : "", more->limit ?: "");

	return change(pid, "hydra_vm", *text ? text + (*text == ',') : "again", vms_failure);
}
