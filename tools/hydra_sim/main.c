// SPDX-License-Identifier: GPL-2.0-only
/* hydra_sim: page tables and flushes of patterns, on machines that are not at hand. */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { KEY_JSON = 256, KEY_CPUS, KEY_PRICE, KEY_ACTUAL, KEY_POLICY, KEY_SEED, KEY_TICK, KEY_WRITE, KEY_TRACE };

static struct {
	u64 bounds;
	bool json;
	const char *write, *trace;
	const struct pattern *pattern[32];
	u32 nr_patterns;
	bool policy[16], some_policies;
} options;

static struct machine *machine[16];
static FILE *file;
static u32 rows;

static u64 parse_number(const struct argp_state *argp, const char *what, const char *text, u64 least,
			u64 most)
{
	char *end;
	u64 value = strtoull(text, &end, 10);

	if (*end || end == text || *text == '-' || value < least || value > most)
		argp_error(argp, "%s: '%s' is no number from %llu to %llu", what, text,
			   (unsigned long long)least, (unsigned long long)most);
	return value;
}

/* The price in @of, or in @of and @too */
static void parse_price(const struct argp_state *argp, char *text, struct hydra_prices *of,
			struct hydra_prices *too)
{
#define NAME(name) { #name, offsetof(struct hydra_prices, name) }
	static const struct {
		const char *name;
		size_t at;
	} names[] = {
		NAME(interrupt), NAME(fill), NAME(change), NAME(look), NAME(more), NAME(flush), NAME(walk),
		NAME(root), NAME(release), { NULL, 0 }
	}, *each;
	char *value = strchr(text, '=');
	u32 price;

	for (each = names; value && each->name; each++)
		if (!strncmp(each->name, text, value - text) && !each->name[value - text])
			break;
	if (!value || !each->name) {
		argp_error(argp, "'%s' is no price: choose interrupt=, fill=, change=, look=, more=, flush=, walk=, root= or release=, and ns", text);
		return;
	}
	price = parse_number(argp, "a price", value + 1, 1, 1000000);
	memcpy((char *)of + each->at, &price, sizeof(price));
	if (too)
		memcpy((char *)too + each->at, &price, sizeof(price));
}

static void parse_policy(const struct argp_state *argp, const char *name)
{
	u32 i;

	for (i = 0; policies[i] && strcmp(policies[i], name); i++)
		;
	if (!policies[i])
		argp_error(argp, "there is no policy '%s'; --help lists them", name);
	options.policy[i] = true;
	options.some_policies = true;
}

static void parse_pattern(const struct argp_state *argp, const char *name)
{
	const struct pattern *each;

	for (each = patterns; each->name && strcmp(each->name, name); each++)
		;
	if (!each->name)
		argp_error(argp, "there is no pattern '%s'; --help lists them", name);
	if (options.nr_patterns < 32)
		options.pattern[options.nr_patterns++] = each;
}

static error_t parse_option(int key, char *arg, struct argp_state *argp)
{
	switch (key) {
	case 'b':
		options.bounds = parse_number(argp, "--bounds", arg, 1, 1000000000);
		break;
	case 's':
		plan.sockets = parse_number(argp, "--sockets", arg, 1, MAX_SOCKETS);
		break;
	case KEY_CPUS:
		plan.cpus = parse_number(argp, "--cpus", arg, 1, MAX_CPUS);
		break;
	case 't':
		plan.seconds = parse_number(argp, "--seconds", arg, 1, 4000);
		break;
	case KEY_TICK:
		plan.tick_us = parse_number(argp, "--tick", arg, 10, 1000000);
		break;
	case KEY_SEED:
		plan.seed = parse_number(argp, "--seed", arg, 0, ~0u);
		break;
	case KEY_PRICE:
		parse_price(argp, arg, &prices, &actual);
		break;
	case KEY_ACTUAL:
		parse_price(argp, arg, &actual, NULL);
		break;
	case KEY_POLICY:
		parse_policy(argp, arg);
		break;
	case KEY_JSON:
		options.json = true;
		break;
	case KEY_WRITE:
		options.write = arg;
		break;
	case KEY_TRACE:
		options.trace = arg;
		break;
	case ARGP_KEY_ARG:
		parse_pattern(argp, arg);
		break;
	case ARGP_KEY_END:
		if (plan.sockets * plan.cpus > MAX_CPUS)
			argp_error(argp, "a machine has %u CPUs at most", MAX_CPUS);
		if (options.write && options.nr_patterns != 1)
			argp_error(argp, "--write takes one pattern");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp_option argp_options[] = {
	{ "bounds", 'b', "N", 0, "Assert the bounds of the rules on N random traces, against the best choice in hindsight", 0 },
	{ "sockets", 's', "N", 0, "Sockets of the machine (4)", 0 },
	{ "cpus", KEY_CPUS, "N", 0, "CPUs of each socket (2)", 0 },
	{ "seconds", 't', "N", 0, "How long a pattern runs (120)", 0 },
	{ "tick", KEY_TICK, "US", 0, "Each thread does one thing in so many microseconds (50000)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Of all random numbers (1); the same seed gives the same result", 0 },
	{ "price", KEY_PRICE, "NAME=NS", 0, "Price of an interrupt (2000), fill (3000), change (250), look (75), more (25), flush (55), walk (75), root (10000) or release (100)", 0 },
	{ "actual", KEY_ACTUAL, "NAME=NS", 0, "What a thing costs, where the rules go by another price", 0 },
	{ "policy", KEY_POLICY, "NAME", 0, "This policy, and others that are named so; default: all", 0 },
	{ "json", KEY_JSON, NULL, 0, "Write JSON", 0 },
	{ "write", KEY_WRITE, "FILE", 0, "Write the trace of a pattern, and replay nothing", 0 },
	{ "trace", KEY_TRACE, "FILE", 0, "Replay a trace in place of patterns", 0 },
	{ 0 }
};

static char *help_with_patterns(int key, const char *text, void *input)
{
	const struct pattern *each;
	size_t size;
	char *whole;
	FILE *out;

	(void)input;
	if (key != ARGP_KEY_HELP_PRE_DOC)
		return (char *)text;
	out = open_memstream(&whole, &size);
	if (!out)
		error(2, errno, "no memory");
	fprintf(out, "%s\n", text);
	for (each = patterns; each->name; each++)
		fprintf(out, "  %-10s %s\n", each->name, each->help);
	fclose(out);
	return whole;
}

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.help_filter = help_with_patterns,
	.args_doc = "[PATTERN...]",
	.doc = "Replay patterns of programs on a machine of any size, and show what page tables and flushes cost under each policy. "
	       "This is a model: it has no caches, no locks and no time of its own, and each thing costs its price.\n\nPatterns:"
	       "\v"
	       "For example:\n"
	       "  hydra_sim --sockets 8 --cpus 32 decay\n"
	       "  hydra_sim --bounds 1000000 --seed 7\n"
	       "  hydra_sim --price interrupt=4000 --json own one pages\n"
	       "\n"
	       "Policies: linux; mitosis (a copy of each table on each socket); hydra (filter by table); accessed (hydra, filter by "
	       "accessed bits); forget (hydra, with the rules of forgetting and pushing); forget-auto (the same, filter by the mode "
	       "of each table); abis (a tree for each core, filter by accessed bits); auto (linux or forget-auto, whichever pays, by the rules of "
	       "processes).\n"
	       "\n"
	       "A trace has records of 16 bytes, in the order of this machine: time in us (32 bits), CPU, operation (16 bits each), "
	       "first page, number of pages (32 bits each). Operations: 0 run, 1 stop, 2 use, 3 change, 4 flush, 5 free, 6 end. "
	       "Page / 512 is the leaf table.\n"
	       "\n"
	       "Exit status: 0 done; 1 a rule has broken a bound, and the trace was printed; 2 an error.",
};

static void step_all(const struct record *r)
{
	u32 i;

	for (i = 0; policies[i]; i++)
		if (machine[i])
			machine_step(machine[i], r);
}

static void write_record(const struct record *r)
{
	if (fwrite(r, sizeof(*r), 1, file) != 1)
		error(2, errno, "%s", options.write);
}

static double each(u64 nr, u64 of)
{
	return of ? (double)nr / of : 0;
}

static void show_json(const char *name, const char *policy, const struct costs *c, double regret)
{
	printf("%s\n  {\"pattern\": \"%s\", \"policy\": \"%s\", \"ns\": %llu, \"regret\": %.6f", rows++ ? "," : "",
	       name, policy, (unsigned long long)c->ns, regret);
#define SHOW(what) printf(", \"" #what "\": %llu", (unsigned long long)c->what)
	SHOW(interrupts);
	SHOW(fills);
	SHOW(changes);
	SHOW(looks);
	SHOW(flushes);
	SHOW(walks);
	SHOW(remote_walks);
	SHOW(drops);
	SHOW(tables);
	SHOW(tables_most);
	SHOW(cpu_ns);
	SHOW(decisions);
	SHOW(first_interrupts);
	SHOW(first_flushes);
	SHOW(last_interrupts);
	SHOW(last_flushes);
	printf("}");
}

static void show(const char *name, const char *policy, const struct costs *c, double regret)
{
	if (options.json) {
		show_json(name, policy, c, regret);
		return;
	}
	if (!rows++)
		printf("cost: ms of all CPUs for interrupts, fills, changes, looks and remote walks, by prices\n"
		       "first, last: interrupts for each flush in the first and the last quarter\n"
		       "tables: leaf tables at the end\n"
		       "regret: CPU time and cost, against the best policy but abis and auto\n\n%-10s %-12s %10s %8s %8s %8s %8s %8s\n",
		       "pattern", "policy", "cost", "first", "last", "remote", "tables", "regret");
	printf("%-10s %-12s %10.2f %8.2f %8.2f %7.0f%% %8u %7.2f%%\n", name, policy, c->ns / 1e6,
	       each(c->first_interrupts, c->first_flushes), each(c->last_interrupts, c->last_flushes),
	       100 * each(c->remote_walks, c->walks), c->tables, 100 * regret);
}

static void begin(u32 end)
{
	u32 i;

	for (i = 0; policies[i]; i++)
		if (options.policy[i] || !options.some_policies)
			machine[i] = machine_new(policies[i], plan.sockets, plan.cpus, end);
}

static double whole(u32 i)
{
	const struct costs *c = machine_costs(machine[i]);

	return (double)c->cpu_ns + c->ns;
}

static void end(const char *name)
{
	double best = 0;
	u32 i;

	for (i = 0; policies[i]; i++)
		if (machine[i] && policy_compares(policies[i]) && (!best || whole(i) < best))
			best = whole(i);
	for (i = 0; policies[i]; i++) {
		if (!machine[i])
			continue;
		show(name, policies[i], machine_costs(machine[i]), best ? whole(i) / best - 1 : 0);
		machine_free(machine[i]);
		machine[i] = NULL;
	}
}

static void check_record(const struct record *r, u64 number, u32 last)
{
	const char *wrong = NULL;

	if (r->op >= OPS)
		wrong = "has an unknown operation";
	else if (r->cpu >= plan.sockets * plan.cpus)
		wrong = "has a CPU that the machine has not";
	else if ((u64)r->page + r->n > (u64)MAX_TABLES * PAGES)
		wrong = "has a page beyond the last table";
	else if (r->time < last)
		wrong = "is earlier than the one before";
	if (wrong)
		error(2, 0, "%s: record %llu %s", options.trace, (unsigned long long)number, wrong);
}

static void replay(void)
{
	struct record r = {};
	u64 number = 0;
	u32 last = 0;

	file = fopen(options.trace, "r");
	if (!file)
		error(2, errno, "%s", options.trace);
	while (fread(&r, sizeof(r), 1, file) == 1) {
		check_record(&r, number++, last);
		last = r.time;
	}
	if (ferror(file) || !number)
		error(2, errno, "%s has no records", options.trace);
	begin(last);
	rewind(file);
	while (fread(&r, sizeof(r), 1, file) == 1)
		step_all(&r);
	fclose(file);
	end(options.trace);
}

static void replay_pattern(const struct pattern *pattern)
{
	begin(plan.seconds * 1000000u);
	pattern_make(pattern, step_all);
	end(pattern->name);
}

static void write_trace(void)
{
	file = fopen(options.write, "w");
	if (!file)
		error(2, errno, "%s", options.write);
	pattern_make(options.pattern[0], write_record);
	if (fclose(file))
		error(2, errno, "%s", options.write);
}

int main(int argc, char **argv)
{
	const struct pattern *each;
	u32 i;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (options.bounds)
		return !bounds_hold(options.bounds, plan.seed, options.json);
	if (options.write) {
		write_trace();
		return 0;
	}
	if (options.json)
		printf("[");
	if (options.trace)
		replay();
	for (i = 0; i < options.nr_patterns; i++)
		replay_pattern(options.pattern[i]);
	for (each = patterns; !options.nr_patterns && !options.trace && each->name; each++)
		replay_pattern(each);
	if (options.json)
		printf("\n]\n");
	return 0;
}
