// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves a program that runs on the first node to the last one, and shows where
 * its page tables are, some seconds later and before:
 *
 *	thread    one thread, with all of the memory
 *	threads   eight threads on the CPUs of the node, each with its part of the memory
 *	migrated  the same, and the memory moves with them (migrate_pages)
 *
 * It sleeps in these seconds, and reads its memory once in each. Policy "auto" takes a program for
 * one of a node if it finds it running there: so under that policy it may be told to read on,
 * until its page tables have followed.
 *
 * Then each thread reads pages of its own in random order, between markers for the
 * plugin lab/meter/misses_plugin.c, which counts page walks. Last, a thread protects
 * a page of its own, often: the time-stamp counter, which under the lab's emulator
 * counts instructions, tells what that costs while the other threads sleep;
 * interrupts are counted while a second one is busy.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <numaif.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <x86intrin.h>

#include "auto_policy.h"
#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "markers.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "places.h"
#include "procfile.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define PLACE ((char *)(1UL << 40))
#define MOST 64UL			/* threads, leaf tables of each */
#define SETTLING 3			/* uses before the first look */
#define CHANGES 64
#define READS 8192UL			/* of each thread, in random order */
#define THINKING 1000000		/* times round a loop between two passes: a pass takes an emulator long */
#define LEFT_BEHIND 50			/* of so many entries one may stay on the other node, that of the program's code */

struct kind {
	const char *name;
	size_t threads;
	bool memory;			/* it moves, too */
};

static const struct kind kinds[] = { { "thread", 1, false }, { "threads", 8, false }, { "migrated", 8, true }, { 0 } };

struct look {
	struct reach reach;
	uint64_t replicas;
	uint64_t kib;
	bool split;
};

struct mover {
	size_t number;
	volatile char *data;
};

static const struct kind *kind;
static uint64_t tables = 32, seconds = 5;
static struct machine machine;
static struct mover movers[MOST];
static void (*volatile step)(const struct mover *mover);
static pthread_barrier_t begin, end;
static volatile bool busy, over;
static bool reads_on;
static double until;
static uint64_t interrupts, instructions = UINT64_MAX;

static const struct node *target(void)
{
	return &machine.node[machine.node_count - 1];
}

static size_t tables_of_each(void)
{
	return tables / kind->threads;
}

static void write_own(const struct mover *mover)
{
	for (size_t offset = 0; offset < tables_of_each() * TABLE; offset += PAGE)
		mover->data[offset] = 1;
}

static void read_own(const struct mover *mover)
{
	for (size_t offset = 0; offset < tables_of_each() * TABLE; offset += PAGE)
		(void)mover->data[offset];
}

static void read_on(const struct mover *mover)
{
	do {
		read_own(mover);
		for (unsigned long i = THINKING; i; i--)
			asm volatile("");
	} while (now() < until);
}

/* Nearly all accesses are of the data: what else there is stays in registers. */
static void read_randomly(const struct mover *mover)
{
	uint64_t random = 88172645463325252 + mover->number, pages = tables_of_each() * TABLE / PAGE;

	for (size_t i = 0; i < READS; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		(void)mover->data[random % pages * PAGE];
	}
}

static void move(const struct mover *mover)
{
	pin_self(target()->cpu[mover->number % target()->cpu_count]);
}

/* Protects the page and allows writing again; the touches make the entry accessed and dirty. */
static void change(volatile char *page)
{
	if (mprotect((void *)page, PAGE, PROT_READ))
		error(EXIT_FAILURE, errno, "mprotect");
	(void)*page;
	if (mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
		error(EXIT_FAILURE, errno, "mprotect");
	*page = 1;
}

/* The least of many: an interrupt, or a thread that is not asleep yet, adds to the others. */
static void count_instructions(const struct mover *mover)
{
	if (mover->number)
		return;
	for (int i = 0; i < CHANGES; i++) {
		uint64_t start = __rdtsc(), taken;

		change(mover->data);
		taken = __rdtsc() - start;
		if (taken < instructions)
			instructions = taken;
	}
}

static void be_busy(void)
{
	busy = true;
	while (!over)
		_mm_pause();
}

static void count_interrupts(const struct mover *mover)
{
	if (mover->number == 1)
		be_busy();
	if (mover->number)
		return;
	while (!busy && kind->threads > 1)
		_mm_pause();
	change(mover->data);
	interrupts = shootdown_interrupts();
	for (int i = 0; i < CHANGES; i++)
		change(mover->data);
	interrupts = shootdown_interrupts() - interrupts;
	over = true;
}

static _Noreturn void *work(void *argument)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		step(argument);
		pthread_barrier_wait(&end);
	}
}

/* All threads do it. A program of one thread has no other that waits. */
static void all_do(void (*what)(const struct mover *mover))
{
	if (kind->threads == 1) {
		what(&movers[0]);
		return;
	}
	step = what;
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
}

static void start_threads(void)
{
	char *data = mmap(PLACE, tables * TABLE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	const struct node *node = &machine.node[0];

	if (data != PLACE)
		error(EXIT_FAILURE, errno, "cannot map %zu MiB at %p", tables * 2, PLACE);
	pthread_barrier_init(&begin, NULL, kind->threads + 1);
	pthread_barrier_init(&end, NULL, kind->threads + 1);
	for (size_t i = 0; i < kind->threads; i++) {
		movers[i] = (struct mover){ .number = i, .data = data + i * tables_of_each() * TABLE };
		if (kind->threads > 1)
			start_pinned(node->cpu[i % node->cpu_count], work, &movers[i]);
	}
}

/* The main thread moves with the others. */
static void move_all(void)
{
	unsigned long from = 1UL << machine.node[0].id, to = 1UL << target()->id;

	all_do(move);
	pin_self(target()->cpu[0]);
	if (kind->memory && migrate_pages(0, 8 * sizeof(from), &from, &to) < 0)
		error(EXIT_FAILURE, errno, "cannot move the memory from node %d to node %d", machine.node[0].id, target()->id);
}

/* How the CPUs of a node reach the memory. */
static struct look look(const struct node *node)
{
	struct own_hydra own = own_hydra_read();
	struct look seen = { page_tables_reach(node->id), own.replica_tables, page_tables_kib(), own.split };

	own_hydra_free(&own);
	return seen;
}

static void print_look(const char *key, const struct look *seen)
{
	json_open_object(key);
	json_number("near", seen->reach.near);
	json_number("far", seen->reach.far);
	json_number("replicas", seen->replicas);
	json_number("pagetable_kib", seen->kib);
	json_number("split", seen->split);
	json_close();
}

/* Reads on until the page tables have followed, for a second at most: a second of work is long for an emulator. */
static void be_followed(void)
{
	struct reach reach;

	for (int i = 0; i < 10; i++) {
		until = now() + 0.1;
		all_do(read_on);
		reach = page_tables_reach(target()->id);
		if (reach.far * LEFT_BEHIND < reach.near)
			return;
	}
}

/* The first pass warms the model up. */
static void count_walks(void)
{
	MARKER(MARK_START_MEMORY);
	all_do(read_randomly);
	MARKER(MARK_BEGIN);
	all_do(read_randomly);
	MARKER(MARK_END);
	MARKER(MARK_STOP);
}

static void take_argument(const char *name, const struct argp_state *state)
{
	for (kind = kinds; kind->name; kind++)
		if (name && !strcmp(kind->name, name))
			return;
	argp_error(state, "choose one of thread threads migrated");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'T':
		if (!parse_u64(arg, &tables) || tables < 8 || tables > 16384)
			argp_error(state, "'%s' is not a number of leaf tables from 8 to 16384", arg);
		return 0;
	case 's':
		if (!parse_u64(arg, &seconds) || seconds > 3600)
			argp_error(state, "'%s' is not a number of seconds up to 3600", arg);
		return 0;
	case 'b':
		reads_on = true;
		return 0;
	case ARGP_KEY_ARG:
		if (kind)
			return ARGP_ERR_UNKNOWN;
		take_argument(arg, state);
		return 0;
	case ARGP_KEY_END:
		if (!kind)
			take_argument(NULL, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "tables", 'T', "N", 0, "Leaf page tables of the memory, of 2 MiB each (default 32)", 0 },
	{ "seconds", 's', "S", 0, "Seconds between the move and the last look (default 5)", 0 },
	{ "busy", 'b', NULL, 0, "Read on in these seconds, until the page tables have followed; under policy auto the kernel looks as often as it can", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.args_doc = "KIND",
	.doc = "Move a program from the first node to the last one, and show where its page tables are. Prints one line of JSON. KIND is thread: one thread; threads: eight of them; migrated: eight, and their memory.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static void need(void)
{
	/* Leaves if this kernel has no Hydra. */
	look(&machine.node[0]);
	if (machine.node_count < 2 || machine.node[0].cpu_count < 2 || target()->cpu_count < 2)
		error(EXIT_LACKING, 0, "this needs two nodes of two CPUs");
}

int main(int argc, char **argv)
{
	struct look before, moved, later;
	struct own_hydra own;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	machine = machine_read();
	need();
	use_plain_memory();
	pin_self(machine.node[0].cpu[0]);
	if (reads_on)
		auto_policy_hurry();
	start_threads();
	all_do(write_own);
	for (int i = 0; i < SETTLING; i++)
		all_do(read_own);
	before = look(&machine.node[0]);
	move_all();
	all_do(read_own);
	moved = look(target());
	for (uint64_t i = 0; i < seconds; i++) {
		if (reads_on)
			be_followed();
		else
			nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
		all_do(read_own);
	}
	later = look(target());
	count_walks();
	all_do(count_instructions);
	all_do(count_interrupts);
	own = own_hydra_read();
	auto_policy_end();

	json_open_object(NULL);
	json_string("program", "moved");
	json_string("kind", kind->name);
	json_number("data_tables", tables);
	print_look("before", &before);
	print_look("moved", &moved);
	print_look("later", &later);
	json_number("changes", 2 * CHANGES);
	json_number("interrupts", interrupts);
	json_number("instructions", instructions / 2);
	json_number("samples", 1);
	print_places(own.cores);
	auto_policy_print();
	json_close();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
