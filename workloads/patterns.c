// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the interrupts of the three patterns of RadixVM (EuroSys 2013, section
 * 5.1), with a thread on each CPU:
 *
 *	local     a thread maps a page, writes to it and unmaps it
 *	pipeline  a thread maps a page and writes to it, the next thread writes to
 *	          it and unmaps it
 *	global    a thread maps pages, all threads write to all of them, then the
 *	          first thread unmaps them
 *
 * The threads take turns, so that none waits for another in the kernel: all CPUs
 * are busy with this process all the time, and the interrupts of one operation
 * are known one by one. Each thread has a leaf page table for its pages, which
 * comes and goes with them, at the same address under every policy.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "procfile.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define GIB (1UL << 30)
#define PLACE ((char *)(1UL << 40))
#define GLOBAL_PAGES 16UL		/* 64 KiB, as in the paper */
#define MOST_THREADS 500UL		/* so that all pages are within a GiB */
#define NOBODY SIZE_MAX

struct worker {
	/* A cache line of its own. */
	volatile uint64_t touched __attribute__((aligned(64)));
	size_t number;
	int node;
};

struct operation {
	uint64_t interrupts;
	bool other_node;		/* the page went from one node to another */
};

struct pattern {
	const char *name;
	void (*turn)(struct worker *worker);
};

static const struct pattern *pattern;
static uint64_t rounds = 3;
static double seconds_most = 20;
static struct worker *workers;
static size_t count;
static volatile size_t turn_of = NOBODY;
/* Raised when all threads are to write to the pages of a thread. */
static volatile uint64_t touch_round;
static volatile size_t touch_pages_of;
static struct operation *operations;
static size_t made, wanted;
static uint64_t last_interrupts;
static double first_time, last_time;
static pthread_barrier_t ready, over;

static char *pages_of(size_t number)
{
	return PLACE + number * TABLE;
}

static void map_pages(size_t number, size_t pages)
{
	char *at = pages_of(number);

	if (mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
		error(EXIT_FAILURE, errno, "cannot map %zu pages at %p", pages, at);
}

static void write_pages(size_t number, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(pages_of(number) + i * PAGE) = 1;
}

/* An operation ends with its munmap(); what has come since the last one's end is its own. */
static void unmap_pages(size_t number, size_t pages, bool other_node)
{
	uint64_t interrupts;

	if (munmap(pages_of(number), pages * PAGE))
		error(EXIT_FAILURE, errno, "cannot unmap %zu pages", pages);
	interrupts = shootdown_interrupts();
	if (made < wanted)
		operations[made] = (struct operation){ interrupts - last_interrupts, other_node };
	made++;
	last_interrupts = interrupts;
	last_time = now();
}

static void local(struct worker *worker)
{
	map_pages(worker->number, 1);
	write_pages(worker->number, 1);
	unmap_pages(worker->number, 1, false);
}

static void pipeline(struct worker *worker)
{
	const struct worker *last = &workers[(worker->number + count - 1) % count];
	static bool handed_over;

	if (handed_over) {
		write_pages(last->number, 1);
		unmap_pages(last->number, 1, last->node != worker->node);
	}
	map_pages(worker->number, 1);
	write_pages(worker->number, 1);
	handed_over = true;
}

static void global(struct worker *worker)
{
	map_pages(worker->number, GLOBAL_PAGES);
	touch_pages_of = worker->number;
	touch_round++;
	write_pages(worker->number, GLOBAL_PAGES);
	worker->touched = touch_round;
	for (size_t i = 0; i < count; i++)
		while (workers[i].touched != touch_round)
			_mm_pause();
	unmap_pages(worker->number, GLOBAL_PAGES, false);
}

static const struct pattern patterns[] = {
	{ "local", local }, { "pipeline", pipeline }, { "global", global }, { 0 }
};

/* The first round is not counted: it makes the page tables that stay. */
static bool enough(void)
{
	return made >= wanted || (made >= 2 * count && last_time - first_time > seconds_most);
}

static void *work(void *argument)
{
	struct worker *me = argument;

	pthread_barrier_wait(&ready);
	for (;;) {
		if (me->touched != touch_round) {
			write_pages(touch_pages_of, GLOBAL_PAGES);
			me->touched = touch_round;
		}
		if (turn_of == me->number) {
			if (enough()) {
				turn_of = NOBODY;
				pthread_barrier_wait(&over);
				return NULL;
			}
			if (made == count)
				first_time = now();
			pattern->turn(me);
			turn_of = (me->number + 1) % count;
		}
		_mm_pause();
	}
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	char *end;

	switch (key) {
	case 'p':
		for (pattern = patterns; pattern->name; pattern++)
			if (!strcmp(pattern->name, arg))
				return 0;
		argp_error(state, "unknown pattern '%s': choose local, pipeline or global", arg);
		return 0;
	case 'r':
		if (!parse_u64(arg, &rounds) || rounds < 2 || rounds > 1000)
			argp_error(state, "'%s' is not a number of rounds from 2 to 1000", arg);
		return 0;
	case 't':
		seconds_most = strtod(arg, &end);
		if (*end || end == arg || !(seconds_most > 0))
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case ARGP_KEY_END:
		if (!pattern)
			argp_error(state, "give --pattern");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "pattern", 'p', "PATTERN", 0,
	  "local: a thread maps, writes and unmaps. pipeline: a thread maps and writes, the next writes and unmaps. global: all threads write before one unmaps", 0 },
	{ "rounds", 'r', "N", 0,
	  "Each thread takes so many turns (default 3). Those of the first round are not counted", 0 },
	{ "seconds", 't', "S", 0, "Stop after S seconds (default 20), but not before the second round is over", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count TLB shootdown interrupts of each operation, with a thread on each CPU. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine lacks what is needed; 64 wrong usage.",
};

static void print_interrupts(const char *key, bool other_node)
{
	json_open_list(key);
	for (size_t i = count; i < made && i < wanted; i++)
		if (operations[i].other_node == other_node)
			json_number(NULL, operations[i].interrupts);
	json_close_list();
}

int main(int argc, char **argv)
{
	struct machine machine;
	size_t number = 0;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	machine = machine_read();
	use_plain_memory();
	for (size_t i = 0; i < machine.node_count; i++)
		count += machine.node[i].cpu_count;
	if (count < 2 || count > MOST_THREADS)
		error(EXIT_LACKING, 0, "%zu CPUs: this needs 2 to %lu", count, MOST_THREADS);
	wanted = rounds * count;
	workers = aligned_alloc(_Alignof(struct worker), count * sizeof(*workers));
	operations = calloc(wanted, sizeof(*operations));
	if (!workers || !operations)
		error(EXIT_FAILURE, errno, "lists of threads and operations");
	memset(workers, 0, count * sizeof(*workers));
	pin_self(machine.node[0].cpu[0]);
	/* The page in the last leaf table of the GiB keeps the upper tables. */
	map_pages((GIB - TABLE) / TABLE, 1);
	write_pages((GIB - TABLE) / TABLE, 1);
	pthread_barrier_init(&ready, NULL, count + 1);
	pthread_barrier_init(&over, NULL, 2);
	for (size_t i = 0; i < machine.node_count; i++)
		for (size_t j = 0; j < machine.node[i].cpu_count; j++, number++) {
			workers[number].number = number;
			workers[number].node = machine.node[i].id;
			start_pinned(machine.node[i].cpu[j], work, &workers[number]);
		}
	pthread_barrier_wait(&ready);
	last_interrupts = shootdown_interrupts();
	turn_of = 0;
	pthread_barrier_wait(&over);

	json_open_object(NULL);
	json_string("program", "patterns");
	json_string("pattern", pattern->name);
	json_number("nodes", machine.node_count);
	json_number("cpus", count);
	print_interrupts("same_node", false);
	print_interrupts("other_node", true);
	json_real("us_per_op", (last_time - first_time) * 1e6 / (made - count));
	json_close_object();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
