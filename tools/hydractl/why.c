// SPDX-License-Identifier: GPL-2.0-only
#include "why.h"

#include "kernel.h"
#include "rules.h"
#include "threads.h"

enum when { PLAIN, SPLIT, ALWAYS };

/* Less than that is not worth the memory. */
static bool pays_little(const struct process *process)
{
	return process_number(process, "rent_ppm") < QUIET_PPM;
}

static bool loses(const struct process *process)
{
	return process_integer(process, "gain_ppm") < 0;
}

#define RENT "its flushes and walks across nodes cost {rent_ppm} of its CPU time"
#define RETURNS "it returns to plain Linux when its balance, {balance_us} now, is -{price_us}, or when one node alone has run it for {alone_us}"
#define FORCED "under policy hydra ('hydractl set --policy hydra {pid}') it is split all the same"

/*
 * What the words of the line "why" mean, for a process that is plain Linux and for one that is split. The first that
 * applies is taken. {NAME} stands for a value of /proc/PID/hydra, or for what meaning() knows.
 */
static const struct reason {
	const char *word;
	enum when when;
	bool (*applies)(const struct process *process);
	const char *text;
} reasons[] = {
	{ "new", PLAIN, NULL,
	  "plain Linux so far: fewer than {wide} looks, one each {look_us}, have found it on two nodes; " RENT ", and a split is tried from {quiet_ppm}" },
	{ "one-node", PLAIN, NULL,
	  "plain Linux: one node alone runs it, so page tables for each node would save nothing; a split may come once {wide} looks, one each {look_us}, have found it on two nodes" },
	{ "one-node", SPLIT, NULL, "{left}: one node alone has run it for {alone_us}" },
	{ "quiet", PLAIN, pays_little, "{left}: " RENT "; a split is tried from {quiet_ppm}" },
	{ "quiet", PLAIN, NULL,
	  "{left} so far: " RENT ", {rent_us} in all; a split is tried before that is {price_us}, which a split and a return cost, and no sooner than {wait_us} after a return" },
	{ "waits", PLAIN, NULL, "{left}: {splits} splits have followed each other, so the next has to wait, at most {pace_us}; " RENT },
	{ "shared", PLAIN, NULL,
	  "{left}: the last split cost more than it saved (tries lost in a row: {tries}); the next is tried before its flushes and walks across nodes have cost {next_us}, of which they have cost {rent_us}, and no sooner than {wait_us} after the return" },
	{ "shared", SPLIT, NULL, "{left}: the split has cost more than it saved, in sum {balance_us}" },
	{ "purse", PLAIN, NULL,
	  "{left}: {part_ppm} of its CPU time does not pay for a try yet; a split is tried once its purse, {purse_us} now, has the {price_us} that a split and a return cost" },
	{ "purse", SPLIT, NULL, "{left}: {part_ppm} of its CPU time pays for no more loss: its balance is {balance_us}, its purse {purse_us}" },
	{ "saves", PLAIN, NULL, "about to be split: " RENT },
	{ "saves", SPLIT, loses, "split: it has lost {loss_ppm} of its CPU time since the last look, and gains in sum; " RETURNS },
	{ "saves", SPLIT, NULL, "split for gain: saves {gain_ppm} of its CPU time; " RETURNS },
	{ "realtime", ALWAYS, NULL,
	  "{left}: a thread of it is scheduled as SCHED_FIFO, SCHED_RR or SCHED_DEADLINE, and page tables for each node mean more page faults; " FORCED },
	{ "locked", ALWAYS, NULL, "{left}: it has called mlockall(), and page tables for each node mean page faults; " FORCED },
	{ "hugetlb", ALWAYS, NULL,
	  "{left}: it has a shared hugetlb mapping of 1 GiB or more, whose page tables it would no longer share with other processes; " FORCED },
	{ "memory", ALWAYS, NULL,
	  "{left}: its memory cgroup has no room for page tables, or they could not be allocated; that changes with more memory, or a higher memory.max" },
	{ "cgroup", ALWAYS, NULL, "{left}: memory.hydra of its cgroup has other settings, which hold for what the process executes next" },
	{ "isolated", PLAIN, NULL, "{left}: an isolated CPU runs it, which the kernel does not interrupt to split it; " FORCED },
	{ "isolated", SPLIT, NULL, "stays split: an isolated CPU runs it, which the kernel does not interrupt to end that; 'hydractl off {pid}' does" },
	{ NULL, ALWAYS, NULL, "{left}: the kernel says '{why}'" },
};

static double looks_us(uint64_t looks)
{
	static uint64_t look_ms;

	if (!look_ms)
		look_ms = kernel_look_ms();
	return 1e3 * look_ms * looks;
}

/* What the tries that have lost multiply: the rent at which the next begins, and the time until then. */
static uint64_t backoff(const struct process *process)
{
	uint64_t tries = process_number(process, "tries");

	return 1 << (tries < HYDRA_TRIES_MAX ? tries : HYDRA_TRIES_MAX);
}

/* The number that {@name} stands for */
static double number_of(const char *name, const struct process *process)
{
	const struct {
		const char *name;
		double number;
	} ours[] = {
		{ "pid", process->pid }, { "wide", HYDRA_WIDE_LOOKS }, { "splits", HYDRA_PACE_MOST / HYDRA_PACE_LOOKS + 1 },
		{ "quiet_ppm", QUIET_PPM }, { "part_ppm", PPM / HYDRA_PURSE_PART },
		{ "look_us", looks_us(1) }, { "alone_us", looks_us(HYDRA_ALONE_LOOKS) }, { "pace_us", looks_us(HYDRA_PACE_LOOKS) },
		{ "wait_us", looks_us(HYDRA_TRY_LOOKS * backoff(process)) },
		{ "next_us", (double)process_number(process, "price_us") * backoff(process) },
		/* "It has lost 3 %" */
		{ "loss_ppm", -process_integer(process, "gain_ppm") },
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		if (!strcmp(name, ours[i].name))
			return ours[i].number;
	return process_integer(process, name);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), more = strlen(end);

	return length >= more && !strcmp(text + length - more, end);
}

/* What {@name} stands for, to be freed. */
static char *meaning(const char *name, const struct process *process)
{
	if (!strcmp(name, "left"))
		return must_have(strdup(process_number(process, "split") ? "about to return to plain Linux" : "left alone"));
	if (!strcmp(name, "why"))
		return printable(why_word(process));
	if (ends_with(name, "_ppm"))
		return percent_text(number_of(name, process));
	if (ends_with(name, "_us"))
		return duration_text(number_of(name, process));
	return xasprintf("%.0f", number_of(name, process));
}

static char *expand(const char *text, const struct process *process)
{
	char *made = must_have(strdup(""));

	while (*text) {
		size_t length = strcspn(text, "{");
		autofree char *name = NULL, *value = NULL;

		append(&made, "%.*s", (int)length, text);
		text += length;
		if (!*text)
			break;
		length = strcspn(++text, "}");
		name = must_have(strndup(text, length));
		value = meaning(name, process);
		append(&made, "%s", value);
		text += length + 1;
	}
	return made;
}

const char *why_word(const struct process *process)
{
	return process_is_auto(process) ? process_text(process, "why") : "chosen";
}

static char *chosen_sentence(const struct process *process)
{
	autofree char *late = split_sentence(process, split_of(process));
	autofree char *more = kernel_has_auto() ?
		xasprintf("'hydractl set --policy auto %d' lets the kernel decide", process->pid) :
		must_have(strdup("this kernel has no policy auto"));

	return xasprintf("chosen: policy %s leaves the kernel no choice, and the process is %s; %s", process_text(process, "policy"),
			 late ?: process_number(process, "split") ? "split" : "plain Linux", more);
}

char *why_sentence(const struct process *process)
{
	enum when now = process_number(process, "split") ? SPLIT : PLAIN;
	const struct reason *reason = reasons;
	const char *word = why_word(process);

	if (!process_is_auto(process))
		return chosen_sentence(process);
	while (reason->word && (strcmp(reason->word, word) || (reason->when != ALWAYS && reason->when != now) ||
				(reason->applies && !reason->applies(process))))
		reason++;
	return expand(reason->text, process);
}
