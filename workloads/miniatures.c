// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs one of the papers' programs, small (miniature_programs.c): its threads load the data, make a
 * pass over it, and a second one. Of each it counts the instructions of all CPUs, interrupts for
 * TLB shootdowns, page faults and fills. The second pass is between markers for the plugin
 * lab/meter/misses_plugin.c, which counts page walks; the first one warms the model up.
 *
 * The time-stamp counter tells the instructions where the machine counts its time in them (-icount).
 * Elsewhere it tells ticks, and the seconds are worth more.
 */
#include "miniatures.h"

#include <argp.h>
#include <errno.h>
#include <error.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <x86intrin.h>

#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "markers.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "places.h"
#include "procfile.h"
#include "round_robin.h"

#define PLACE (ROUND_ROBIN_PLACE + GIB)
#define MIB (1UL << 20)
#define KIB 1024UL
#define NODES_MOST 64
#define ANY UINT64_MAX

struct counts {
	uint64_t instructions, interrupts, faults, fills;
	double seconds;
};

static struct {
	struct round_robin turns;
	uint64_t mib, operations, block_kib;
	uint64_t run_on, data_node;	/* nodes by their place in the list of nodes; or ANY */
} options = { .turns = { .rounds = 1, .seconds = 1e9 }, .mib = 64, .operations = 32768, .block_kib = 64,
	      .run_on = ANY, .data_node = ANY };

static const struct miniature *miniature;
static struct machine machine;
static bool has_hydra;
static struct counts load, passes[MINIATURE_PASSES];
static uint64_t pages_on[NODES_MOST];
/* What all threads do when the first one asks. */
static void (*volatile step)(const struct share *share);
static volatile uint64_t pass;
static volatile bool first_alone;

/* --- What is counted -------------------------------------------------------------------------------------------- */

static uint64_t faults_until_now(void)
{
	struct rusage own;

	if (getrusage(RUSAGE_SELF, &own))
		error(EXIT_FAILURE, errno, "getrusage");
	return own.ru_minflt + own.ru_majflt;
}

static uint64_t fills_until_now(void)
{
	struct own_hydra own;
	uint64_t fills;

	if (!has_hydra)
		return 0;
	own = own_hydra_read();
	fills = own.fills;
	own_hydra_free(&own);
	return fills;
}

static void begin_counts(struct counts *counts)
{
	counts->fills = fills_until_now();
	counts->faults = faults_until_now();
	counts->interrupts = shootdown_interrupts();
	counts->seconds = now();
	counts->instructions = __rdtsc();
}

static void end_counts(struct counts *counts)
{
	counts->instructions = __rdtsc() - counts->instructions;
	counts->seconds = now() - counts->seconds;
	counts->interrupts = shootdown_interrupts() - counts->interrupts;
	counts->faults = faults_until_now() - counts->faults;
	counts->fills = fills_until_now() - counts->fills;
}

/* On which nodes the pages of the data are. */
static void find_pages(void)
{
	size_t count = miniature_size.bytes / PAGE;
	void **pages = calloc(count, sizeof(*pages));
	int *nodes = calloc(count, sizeof(*nodes));

	if (!pages || !nodes)
		error(EXIT_FAILURE, errno, "list of pages");
	for (size_t i = 0; i < count; i++)
		pages[i] = (char *)miniature_size.data + i * PAGE;
	if (move_pages(0, count, pages, NULL, nodes, 0))
		error(EXIT_FAILURE, errno, "move_pages");
	for (size_t i = 0; i < count; i++)
		if (nodes[i] >= 0 && nodes[i] < NODES_MOST)
			pages_on[nodes[i]]++;
	free(pages);
	free(nodes);
}

/* --- What threads do -------------------------------------------------------------------------------------------- */

static bool runs(const struct worker *worker)
{
	return options.run_on == ANY || worker->node == machine.node[options.run_on].id;
}

static void answer(struct worker *worker)
{
	struct share share = { .parts = 0, .pass = pass };

	if (first_alone) {
		share.parts = 1;
		if (!worker->number)
			step(&share);
		return;
	}
	for (size_t i = 0; i < round_robin_count(); i++) {
		if (i == worker->number)
			share.part = share.parts;
		share.parts += runs(round_robin_worker(i));
	}
	if (runs(worker))
		step(&share);
}

static void ask_all(struct worker *worker, void (*what)(const struct share *share))
{
	step = what;
	round_robin_ask_all(worker);
}

static void make_pass(struct worker *worker)
{
	for (size_t i = 0; i < MINIATURE_STEPS && miniature->steps[i]; i++)
		ask_all(worker, miniature->steps[i]);
}

static void turn(struct worker *worker)
{
	if (worker->number || round_robin_is_warming_up())
		return;
	first_alone = miniature->alone || options.run_on != ANY;
	begin_counts(&load);
	ask_all(worker, miniature->load);
	end_counts(&load);
	first_alone = false;
	find_pages();
	MARKER(MARK_START_MEMORY);
	for (pass = 0; pass < MINIATURE_PASSES; pass++) {
		begin_counts(&passes[pass]);
		if (pass)
			MARKER(MARK_BEGIN);
		make_pass(worker);
		if (pass)
			MARKER(MARK_END);
		end_counts(&passes[pass]);
	}
	MARKER(MARK_STOP);
}

static void map_data(void)
{
	size_t bytes = options.mib * MIB;

	if (mmap(PLACE, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != PLACE)
		error(EXIT_FAILURE, errno, "cannot map %ju MiB at %p", (uintmax_t)options.mib, PLACE);
	if (options.data_node != ANY)
		numa_tonode_memory(PLACE, bytes, machine.node[options.data_node].id);
	miniature_size = (struct miniature_size){ .data = (uint64_t *)PLACE, .bytes = bytes, .operations = options.operations,
						  .block = options.block_kib * KIB };
}

/* --- The start -------------------------------------------------------------------------------------------------- */

static void take_number(uint64_t *number, uint64_t least, const char *arg, struct argp_state *state)
{
	if (!parse_u64(arg, number) || *number < least || *number > 1UL << 24)
		argp_error(state, "'%s' is not a number from %ju on", arg, (uintmax_t)least);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options.turns;
		return 0;
	case 'm':
		take_number(&options.mib, 1, arg, state);
		return 0;
	case 'o':
		take_number(&options.operations, 1, arg, state);
		return 0;
	case 'b':
		take_number(&options.block_kib, 4, arg, state);
		return 0;
	case 'u':
		take_number(&options.run_on, 0, arg, state);
		return 0;
	case 'd':
		take_number(&options.data_node, 0, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "mib", 'm', "MIB", 0, "MiB of data (default 64)", 0 },
	{ "operations", 'o', "N", 0, "Operations of a pass, by all threads (default 32768)", 0 },
	{ "block-kib", 'b', "KIB", 0, "KiB that wordcount and dedup map at a time (default 64)", 0 },
	{ "run-on", 'u', "N", 0, "Only the threads of the Nth node, from 0 on, make the passes; the first thread of all loads the data", 0 },
	{ "data-node", 'd', "N", 0, "The data is on the Nth node; else where the thread runs that loads it", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PROGRAM",
	.doc = "Run one of the papers' programs, small, and count what it costs. Prints one line of JSON. PROGRAM is gups, btree, hashjoin, xsbench, canneal, pagerank, wordcount or dedup.\v"
	       "Exit status: 0 done; 1 failed, or a result was wrong; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

/* A kind for each program: they differ by what is asked. */
static const struct round_robin_kind *kinds(void)
{
	static struct round_robin_kind made[16];

	for (size_t i = 0; miniatures[i].name && i + 1 < sizeof(made) / sizeof(*made); i++)
		made[i] = (struct round_robin_kind){ miniatures[i].name, map_data, turn };
	return made;
}

static void print_counts(const char *key, const struct counts *counts)
{
	json_open_object(key);
	json_number("instructions", counts->instructions);
	json_number("interrupts", counts->interrupts);
	json_number("faults", counts->faults);
	json_number("fills", counts->fills);
	json_real("seconds", counts->seconds);
	json_close();
}

static void print(void)
{
	json_open_object(NULL);
	json_string("program", "miniatures");
	json_string("miniature", miniature->name);
	json_number("cpus", round_robin_count());
	json_number("mib", options.mib);
	json_number("operations", options.operations);
	print_counts("load", &load);
	print_counts("first", &passes[0]);
	print_counts("steady", &passes[1]);
	json_number("maps", miniature_maps());
	json_open_list("pages_on");
	for (size_t i = 0; i < machine.node_count; i++)
		json_number(NULL, pages_on[machine.node[i].id % NODES_MOST]);
	json_close();
	if (has_hydra) {
		struct own_hydra own = own_hydra_read();

		json_number("pagetable_kib", page_tables_kib());
		json_number("samples", 1);
		print_places(own.cores);
		own_hydra_free(&own);
	}
	json_close();
}

int main(int argc, char **argv)
{
	options.turns.kinds = kinds();
	options.turns.asked = answer;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	for (miniature = miniatures; strcmp(miniature->name, options.turns.kind->name); miniature++)
		;
	machine = machine_read();
	if ((options.run_on != ANY && options.run_on >= machine.node_count) ||
	    (options.data_node != ANY && options.data_node >= machine.node_count))
		error(EXIT_LACKING, 0, "this machine has %zu nodes only", machine.node_count);
	has_hydra = !access("/proc/self/hydra", F_OK);
	use_plain_memory();
	round_robin_run(&options.turns);
	miniature->check();
	print();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
