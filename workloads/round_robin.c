// SPDX-License-Identifier: GPL-2.0-only
#include "round_robin.h"

#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "auto_policy.h"
#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "procfile.h"

#define NO_THREAD SIZE_MAX
#define MOST_OPERATIONS 100000
#define ROUNDS_MOST 100000UL

struct operation {
	uint64_t interrupts;
	int kind;
};

static const struct round_robin *turns;
static struct worker *workers;
static size_t count;
static volatile size_t turn_of = NO_THREAD;
/* Raised when all threads are asked. */
static volatile uint64_t question;
static uint64_t turns_taken;
static struct operation operations[MOST_OPERATIONS];
static size_t made;
static uint64_t last_interrupts;
static double start;
static bool warming_up;
static pthread_barrier_t ready, over;

size_t round_robin_count(void)
{
	return count;
}

bool round_robin_is_warming_up(void)
{
	return warming_up;
}

struct worker *round_robin_worker(size_t number)
{
	return &workers[number % count];
}

void round_robin_operation(int kind)
{
	uint64_t interrupts;

	if (warming_up)
		return;
	interrupts = shootdown_interrupts();
	if (turns_taken >= count && made < MOST_OPERATIONS)
		operations[made++] = (struct operation){ interrupts - last_interrupts, kind };
	last_interrupts = interrupts;
}

void round_robin_forget(void)
{
	if (!warming_up)
		last_interrupts = shootdown_interrupts();
}

static void answer(struct worker *worker)
{
	turns->asked(worker);
	worker->done = question;
}

void round_robin_ask_all(struct worker *worker)
{
	question++;
	answer(worker);
	for (size_t i = 0; i < count; i++)
		while (workers[i].done != question)
			_mm_pause();
}

static bool enough(void)
{
	return turns_taken >= turns->rounds * count ||
	       (turns_taken >= 2 * count && now() - start > turns->seconds);
}

/* The first thread does this in its turns: the others wait in user mode. */
static void warm_up(void)
{
	static bool begun;

	if (!begun) {
		begun = true;
		warming_up = turns->look_ms;
		if (warming_up)
			auto_policy_begin(count, turns->look_ms);
	}
	if (!warming_up || !auto_policy_decided())
		return;
	warming_up = false;
	start = now();
	round_robin_forget();
}

static void take_turn(struct worker *worker)
{
	if (!worker->number)
		warm_up();
	if (!warming_up && enough()) {
		turn_of = NO_THREAD;
		pthread_barrier_wait(&over);
		return;
	}
	turns->kind->turn(worker);
	turns_taken += !warming_up;
	turn_of = (worker->number + 1) % count;
}

/* At a pause instruction an emulator may run the next CPU. */
static _Noreturn void *work(void *argument)
{
	struct worker *worker = argument;

	pthread_barrier_wait(&ready);
	for (;;) {
		if (worker->done != question)
			answer(worker);
		if (turn_of == worker->number)
			take_turn(worker);
		_mm_pause();
	}
}

void round_robin_run(const struct round_robin *asked_for)
{
	struct machine machine = machine_read();
	size_t number = 0, least;

	turns = asked_for;
	if (turns->alone)
		machine.node_count = machine.node[0].cpu_count = 1;
	if (turns->nodes > machine.node_count)
		error(EXIT_LACKING, 0, "this machine has %zu nodes only", machine.node_count);
	if (turns->nodes)
		machine.node_count = turns->nodes;
	if (turns->kind->prepare)
		turns->kind->prepare();
	for (size_t i = 0; i < machine.node_count; i++) {
		if (turns->per_node > machine.node[i].cpu_count)
			error(EXIT_LACKING, 0, "node %d has %zu CPUs only", machine.node[i].id,
			      machine.node[i].cpu_count);
		if (turns->per_node)
			machine.node[i].cpu_count = turns->per_node;
		count += machine.node[i].cpu_count;
	}
	/* A caller that asks for one thread gets one: it shows what is counted while no CPU is interrupted. */
	least = turns->alone || turns->per_node ? 1 : 2;
	if (count < least || count > ROUND_ROBIN_MOST)
		error(EXIT_LACKING, 0, "%zu threads: this needs %zu to %lu", count, least, ROUND_ROBIN_MOST);
	workers = aligned_alloc(_Alignof(struct worker), count * sizeof(*workers));
	if (!workers)
		error(EXIT_FAILURE, errno, "list of threads");
	memset(workers, 0, count * sizeof(*workers));
	pin_self(machine.node[0].cpu[0]);
	pthread_barrier_init(&ready, NULL, count + 1);
	pthread_barrier_init(&over, NULL, 2);
	for (size_t i = 0; i < machine.node_count; i++)
		for (size_t j = 0; j < machine.node[i].cpu_count; j++, number++) {
			workers[number].number = number;
			workers[number].node = machine.node[i].id;
			start_pinned(machine.node[i].cpu[j], work, &workers[number]);
		}
	pthread_barrier_wait(&ready);
	start = now();
	last_interrupts = shootdown_interrupts();
	turn_of = 0;
	pthread_barrier_wait(&over);
	auto_policy_end();
}

void round_robin_print_interrupts(const char *key, int kind)
{
	json_open_list(key);
	for (size_t i = 0; i < made; i++)
		if (operations[i].kind == kind)
			json_number(NULL, operations[i].interrupts);
	json_close();
}

/* Leaves with a message that names all kinds. */
static void choose(struct round_robin *chosen, const char *name, const struct argp_state *state)
{
	char names[256] = "";

	for (chosen->kind = chosen->kinds; chosen->kind->name; chosen->kind++) {
		if (name && !strcmp(chosen->kind->name, name))
			return;
		snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", chosen->kind->name);
	}
	argp_error(state, "choose one of%s", names);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct round_robin *chosen = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &chosen->look_ms;
		return 0;
	case 'r':
		if (!parse_u64(arg, &chosen->rounds) || chosen->rounds < 2 || chosen->rounds > ROUNDS_MOST)
			argp_error(state, "'%s' is not a number of rounds from 2 to %lu", arg, ROUNDS_MOST);
		return 0;
	case 't':
		chosen->seconds = strtod(arg, &end);
		if (*end || end == arg || !(chosen->seconds > 0))
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case 'n':
		if (!parse_u64(arg, &chosen->per_node))
			argp_error(state, "'%s' is not a number of threads", arg);
		chosen->alone = !chosen->per_node;
		return 0;
	case 'N':
		if (!parse_u64(arg, &chosen->nodes))
			argp_error(state, "'%s' is not a number of nodes", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (!chosen->kinds || chosen->kind)
			return ARGP_ERR_UNKNOWN;
		choose(chosen, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (!chosen->kind)
			choose(chosen, NULL, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "rounds", 'r', "N", 0,
	  "Each thread takes so many turns (default 3). Those of the first round are not counted", 0 },
	{ "seconds", 't', "S", 0, "Stop after S seconds (default 20), but not before the second round is over", 0 },
	{ "per-node", 'n', "N", 0, "Threads on the first N CPUs of each node; 0: one thread in all", 0 },
	{ "nodes", 'N', "N", 0, "Threads on the first N nodes; 0: on all (default)", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &auto_policy_argp }, { 0 } };

const struct argp round_robin_argp = { .options = argp_options, .parser = parse_option, .children = children };

void hold_pages(void)
{
	static pid_t child;

	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	child = fork();
	if (child < 0)
		error(EXIT_FAILURE, errno, "fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
}
