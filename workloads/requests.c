// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread for each request: threads come and go on all nodes, and each uses
 * 64 KiB of its stack. The C library keeps the stacks of threads that have ended,
 * gives their pages back and hands the stacks to new threads: so a stack goes
 * round the nodes. Counts interrupts while a thread is busy on the last CPU of
 * each node, for requests one after the other, and for one on each node at once.
 * For those one after the other the time-stamp counter tells the instructions of all
 * CPUs, as in costs.c: a busy CPU waits most of the time.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <x86intrin.h>

#include "auto_policy.h"
#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "procfile.h"

#define PAGE 4096
#define USED (64 * 1024)		/* of its stack by each request */
#define REQUESTS_MOST 100000UL

static struct machine machine;
static uint64_t requests = 120, look_ms;
static pthread_barrier_t ready;

static void *request(void *argument)
{
	volatile char buffer[USED];

	(void)argument;
	for (size_t i = 0; i < sizeof(buffer); i += PAGE)
		buffer[i] = 1;
	return NULL;
}

static _Noreturn void *spin(void *argument)
{
	(void)argument;
	pthread_barrier_wait(&ready);
	for (;;)
		_mm_pause();
}

/* One on each of @count nodes, from the node with this number on. */
static void serve(uint64_t first, size_t count)
{
	pthread_t thread[count];
	int failed;

	for (size_t i = 0; i < count; i++)
		thread[i] = start_pinned(machine.node[(first + i) % machine.node_count].cpu[0], request, NULL);
	for (size_t i = 0; i < count; i++) {
		failed = pthread_join(thread[i], NULL);
		if (failed)
			error(EXIT_FAILURE, failed, "cannot wait for a thread");
	}
}

struct taken {
	uint64_t interrupts, instructions, faults;
};

static uint64_t faults_until_now(void)
{
	struct rusage own;

	if (getrusage(RUSAGE_SELF, &own))
		error(EXIT_FAILURE, errno, "getrusage");
	return own.ru_minflt + own.ru_majflt;
}

/* What so many requests take, @at_once at a time. */
static struct taken taken_by(uint64_t count, size_t at_once)
{
	struct taken before = { .interrupts = shootdown_interrupts(), .faults = faults_until_now() };
	uint64_t start = __rdtsc(), end;

	for (uint64_t i = 0; i < count; i += at_once)
		serve(i, at_once);
	end = __rdtsc();
	return (struct taken){ shootdown_interrupts() - before.interrupts, end - start, faults_until_now() - before.faults };
}

static void keep_busy(void)
{
	pthread_barrier_init(&ready, NULL, machine.node_count + 1);
	for (size_t i = 0; i < machine.node_count; i++) {
		const struct node *node = &machine.node[i];

		if (node->cpu_count < 2)
			error(EXIT_LACKING, 0, "node %d has one CPU only: this needs two", node->id);
		start_pinned(node->cpu[node->cpu_count - 1], spin, NULL);
	}
	pthread_barrier_wait(&ready);
}

/* Policy "auto" finds a busy CPU on each node, and the one of the request. */
static void let_decide(void)
{
	if (!look_ms)
		return;
	auto_policy_begin(machine.node_count + 1, look_ms);
	for (uint64_t i = 0; !auto_policy_decided(); i++)
		serve(i, 1);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &look_ms;
		return 0;
	case 'r':
		if (!parse_u64(arg, &requests) || !requests || requests > REQUESTS_MOST)
			argp_error(state, "'%s' is not a number of requests from 1 to %lu", arg, REQUESTS_MOST);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "requests", 'r', "N", 0, "So many one after the other, and as many at once on all nodes (default 120)", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &auto_policy_argp }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.children = children,
	.parser = parse_option,
	.doc = "Count TLB shootdown interrupts of a program with a thread for each request. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	struct taken alone, together;
	uint64_t tables;
	struct own_hydra own;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	own = own_hydra_read();
	own_hydra_free(&own);
	machine = machine_read();
	use_plain_memory();
	pin_self(machine.node[0].cpu[0]);
	keep_busy();
	let_decide();
	requests += (machine.node_count - requests % machine.node_count) % machine.node_count;
	alone = taken_by(requests, 1);
	together = taken_by(requests, machine.node_count);
	own = own_hydra_read();
	tables = page_tables_kib();
	auto_policy_end();

	json_open_object(NULL);
	json_string("program", "requests");
	json_number("requests", requests);
	json_number("alone", alone.interrupts);
	json_number("together", together.interrupts);
	json_number("instructions", alone.instructions);
	json_number("faults", alone.faults);
	json_number("pagetable_kib", tables);
	json_number("fills", own.fills);
	auto_policy_print();
	json_close();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
