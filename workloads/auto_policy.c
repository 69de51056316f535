// SPDX-License-Identifier: GPL-2.0-only
#include "auto_policy.h"

#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "machine.h"
#include "procfile.h"

#define HYDRA "/sys/kernel/mm/hydra/"
#define AUTO HYDRA "auto/"
#define STATS AUTO "stats"
#define LOOK_TIME AUTO "look_ms"
#define OWN "/proc/self/hydra"
#define LOOK_LEAST 10UL			/* ms: the kernel takes no less */
#define LOOK_MOST 1000UL
#define LOOP 10000000UL			/* instructions */
#define PRICE_MOST 1000000.0
#define SAME 5				/* so many looks have to say the same */
#define QUIET_PPM 2000			/* rent below this is no reason for a split */
#define WORD 24			/* a signed number fits, too */

static const char *const prices[] = {
	AUTO "price_interrupt", AUTO "price_fill", AUTO "price_change", AUTO "price_look", AUTO "price_more",
	AUTO "price_flush", AUTO "price_walk", AUTO "price_root", AUTO "price_release",
};

#define PRICES (sizeof(prices) / sizeof(*prices))

/* What a look has said of this process. */
struct said {
	char state[WORD], why[WORD];
	bool owes;			/* its split has cost more than it has saved */
	uint64_t tries, rent_ppm, barriers;
};

/* Of all processes; no other one is under the policy while a program measures. */
struct totals {
	uint64_t looks, decisions, spent_us;
};

static struct {
	const char *path;
	uint64_t before;
} changed[PRICES + 2];
static size_t changes;

static bool begun, decided, given_up;
static double factor = 1, wait, ask_at;
static struct said said;
static struct totals first, then, last;	/* at the begin, when it had decided, and at the end */
static uint64_t same;

static void read_records(struct records *records, const char *path)
{
	char *text = file_read(path);

	if (!text || !records_parse(records, text, NULL))
		error(EXIT_FAILURE, errno, "cannot read %s", path);
}

static const char *word(const struct records *records, const char *path, const char *key)
{
	const char *text = records_get(records, key);

	if (!text || strlen(text) >= WORD)
		error(EXIT_FAILURE, 0, "%s has no word '%s'", path, key);
	return text;
}

static uint64_t number(const struct records *records, const char *path, const char *key)
{
	const char *text = records_get(records, key);
	uint64_t value;

	if (!text || !parse_u64(text, &value))
		error(EXIT_FAILURE, 0, "%s has no number '%s'", path, key);
	return value;
}

/* Is this process under the policy? */
static bool is_ours(void)
{
	struct records records;
	const char *domains;
	bool ours;

	read_records(&records, OWN);
	domains = records_get(&records, "domains");
	ours = domains && !strcmp(domains, "auto");
	records_free(&records);
	return ours;
}

static struct said read_said(void)
{
	struct records records;
	struct said seen;

	read_records(&records, OWN);
	strcpy(seen.state, word(&records, OWN, "auto"));
	strcpy(seen.why, word(&records, OWN, "why"));
	seen.owes = *word(&records, OWN, "balance_us") == '-';
	seen.tries = number(&records, OWN, "tries");
	seen.rent_ppm = number(&records, OWN, "rent_ppm");
	seen.barriers = number(&records, OWN, "barriers");
	records_free(&records);
	return seen;
}

static struct totals read_totals(void)
{
	struct records records;
	struct totals totals;

	read_records(&records, STATS);
	totals.looks = number(&records, STATS, "looks");
	totals.decisions = number(&records, STATS, "splits") + number(&records, STATS, "returns");
	totals.spent_us = number(&records, STATS, "spent_us");
	records_free(&records);
	return totals;
}

static uint64_t read_number(const char *path)
{
	char *text = file_read(path);
	uint64_t value;

	if (text)
		text[strcspn(text, "\n")] = '\0';
	if (!text || !parse_u64(text, &value))
		error(EXIT_FAILURE, errno, "%s has no number", path);
	free(text);
	return value;
}

static void write_number(const char *path, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ju", (uintmax_t)value);
	if (!file_write(path, text))
		error(EXIT_FAILURE, errno, "cannot write %s to %s", text, path);
}

/* auto_policy_end() takes it back. */
static void change(const char *path, uint64_t before, uint64_t value)
{
	changed[changes].path = path;
	changed[changes++].before = before;
	write_number(path, value);
}

/* Two instructions each time round; the other CPUs get their turns now and then. */
static double ns_per_instruction(void)
{
	uint64_t left = LOOP / 2;
	double start = now();

	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
	return (now() - start) * 1e9 / LOOP;
}

static void scale_prices(void)
{
	for (size_t i = 0; i < PRICES; i++) {
		uint64_t before = read_number(prices[i]);

		if (before * factor > PRICE_MOST)
			error(EXIT_LACKING, 0, "%s: %ju times %.0f is more than the kernel takes: the machine is too slow",
			      prices[i], (uintmax_t)before, factor);
		change(prices[i], before, before * factor + 0.5);
	}
}

static void look_every(uint64_t ms)
{
	change(LOOK_TIME, read_number(LOOK_TIME), ms);
	wait = ms / 4e3;
}

void auto_policy_begin(uint64_t cpus, uint64_t look_ms)
{
	if (!is_ours())
		return;
	factor = cpus * ns_per_instruction() / REAL_NS;
	scale_prices();
	look_every(look_ms);
	first = then = read_totals();
	begun = true;
}

/*
 * Is nothing outstanding for another decision: neither rent, nor money in the purse, nor a gain? After
 * a return the next try takes 20 looks at least, twice what it takes to be sure of this.
 */
static bool holds(void)
{
	static const char *const others[] = {
		"one-node", "waits", "shared", "realtime", "locked", "hugetlb", "memory", "cgroup", "isolated", NULL
	};

	if (!strcmp(said.state, "split"))
		return !strcmp(said.why, "saves") && !said.owes;
	if (!strcmp(said.why, "quiet"))
		return said.rent_ppm < QUIET_PPM;
	for (size_t i = 0; others[i]; i++)
		if (!strcmp(said.why, others[i]))
			return true;
	return false;
}

static void ask(void)
{
	struct totals seen = read_totals();
	struct said before = said;
	uint64_t looks = seen.looks - then.looks;

	if (!looks)
		return;
	said = read_said();
	same = strcmp(said.state, before.state) || strcmp(said.why, before.why) ? 0 : same + looks;
	then = seen;
	given_up = then.looks - first.looks >= AUTO_POLICY_LOOKS;
	decided = (holds() && same >= SAME) || given_up;
}

bool auto_policy_decided(void)
{
	if (!begun || decided)
		return true;
	if (now() >= ask_at) {
		ask();
		ask_at = now() + wait;
	}
	return decided;
}

void auto_policy_hurry(void)
{
	if (!is_ours())
		return;
	look_every(LOOK_LEAST);
	change(HYDRA "idle_seconds", read_number(HYDRA "idle_seconds"), 1);
	first = then = read_totals();
	begun = true;
}

void auto_policy_slow_down(void)
{
	for (size_t i = 0; i < changes; i++)
		if (!strcmp(changed[i].path, LOOK_TIME))
			write_number(LOOK_TIME, changed[i].before);
}

void auto_policy_end(void)
{
	if (begun) {
		last = read_totals();
		said = read_said();
	}
	while (changes) {
		changes--;
		write_number(changed[changes].path, changed[changes].before);
	}
}

void auto_policy_print(void)
{
	uint64_t looks = last.looks - first.looks;

	if (!begun)
		return;
	json_open_object("auto");
	json_string("state", said.state);
	json_string("why", said.why);
	json_flag("given_up", given_up);
	json_real("factor", factor);
	json_number("looks", looks);
	json_number("looks_until_decided", then.looks - first.looks);
	json_number("decisions", last.decisions - first.decisions);
	json_number("decisions_afterwards", last.decisions - then.decisions);
	json_real("ns_per_look", looks ? (last.spent_us - first.spent_us) * 1e3 / looks : 0);
	json_number("tries", said.tries);
	json_number("rent_ppm", said.rent_ppm);
	json_number("barriers", said.barriers);
	json_close();
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	uint64_t *look_ms = state->input;

	if (key != 'D')
		return ARGP_ERR_UNKNOWN;
	if (!parse_u64(arg, look_ms) || *look_ms < LOOK_LEAST || *look_ms > LOOK_MOST)
		argp_error(state, "'%s' is not a number of ms from %lu to %lu", arg, LOOK_LEAST, LOOK_MOST);
	return 0;
}

static const struct argp_option argp_options[] = {
	{ "decide", 'D', "MS", 0, "Under policy auto, count once it has decided: it looks every MS, at the prices of this machine", 0 },
	{ 0 }
};

const struct argp auto_policy_argp = { .options = argp_options, .parser = parse_option };
