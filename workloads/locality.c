// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows on which nodes the page tables lie through which threads reach their
 * data: data that one node writes and all nodes read ("shared"), data that each
 * node keeps to itself ("private"), and data of a process that runs on one node
 * only ("quiet"). The kernel counts, in /proc/self/hydra_tables.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "json.h"
#include "leaf_tables.h"
#include "machine.h"
#include "own_hydra.h"
#include "procfile.h"

#define PASSES 2
#define MIB (1024 * 1024)
#define TABLES "/proc/self/hydra_tables"

struct options {
	const struct kind *kind;
	uint64_t mib;
};

static struct machine machine;
static size_t page_size;
static size_t data_size;		/* of one mapping */
static uint64_t *shared_data;
static pthread_barrier_t started, measured, written, done, looked;

static uint64_t *map_data(void)
{
	void *data = mmap(NULL, data_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (data == MAP_FAILED)
		error(EXIT_FAILURE, errno, "mmap of %zu MiB", data_size / MIB);
	return data;
}

/* A word that differs for each page and each writer, so that a wrong page shows. */
static uint64_t stamp(int writer, size_t offset)
{
	return (offset + 1) * 0x9e3779b97f4a7c15 ^ (uint64_t)writer << 56;
}

static void write_data(uint64_t *data, int writer)
{
	for (size_t offset = 0; offset < data_size; offset += page_size)
		data[offset / sizeof(*data)] = stamp(writer, offset);
}

static void read_data(const volatile uint64_t *data, int writer, int reader)
{
	for (size_t offset = 0; offset < data_size; offset += page_size) {
		uint64_t word = data[offset / sizeof(*data)];

		if (word != stamp(writer, offset))
			error(EXIT_FAILURE, 0, "wrong data: node %d read 0x%jx in page %zu of node %d, which wrote 0x%jx",
			      reader, (uintmax_t)word, offset / page_size, writer,
			      (uintmax_t)stamp(writer, offset));
	}
}

/* This thread meets the main thread twice; in between, the main thread reads what the kernel counted. */
static void wait_for_measurement(void)
{
	pthread_barrier_wait(&started);
	pthread_barrier_wait(&measured);
}

/*
 * The threads meet once more at the end: if one of them ended before the main
 * thread has looked, the process could have one page table again.
 */
static void wait_for_last_look(void)
{
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&looked);
}

static void *share(void *argument)
{
	const struct node *node = argument, *writer = &machine.node[0];

	wait_for_measurement();
	if (node == writer) {
		shared_data = map_data();
		write_data(shared_data, writer->id);
	}
	pthread_barrier_wait(&written);
	for (int pass = 0; pass < PASSES; pass++)
		read_data(shared_data, writer->id, node->id);
	wait_for_last_look();
	return NULL;
}

static void *keep_private(void *argument)
{
	const struct node *node = argument;
	uint64_t *data;

	wait_for_measurement();
	data = map_data();
	write_data(data, node->id);
	for (int pass = 0; pass < PASSES; pass++)
		read_data(data, node->id, node->id);
	wait_for_last_look();
	return NULL;
}

static const struct kind {
	const char *name;
	void *(*work)(void *node);
	bool all_in_one;	/* one mapping, not one per node */
	bool alone;		/* a thread on the first node, none on the others */
} kinds[] = {
	{ "shared", share, true, false },
	{ "private", keep_private, false, false },
	{ "quiet", keep_private, true, true },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'c':
		for (options->kind = kinds; options->kind->name; options->kind++)
			if (!strcmp(options->kind->name, arg))
				return 0;
		argp_error(state, "unknown case '%s': choose shared, private or quiet", arg);
		return 0;
	case 'm':
		if (!parse_u64(arg, &options->mib) || !options->mib || options->mib > SIZE_MAX / MIB)
			argp_error(state, "'%s' is not a number of MiB", arg);
		return 0;
	case ARGP_KEY_END:
		if (!options->kind)
			argp_error(state, "give --case");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "case", 'c', "CASE", 0,
	  "shared: the first node writes, every node reads it all. private: every node writes and reads its own part. quiet: the first node does, and the others run nothing", 0 },
	{ "mib", 'm', "MIB", 0, "MiB of data, all together (default 256)", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Show through page tables of which node threads reach their data, and what those tables cost. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed, or wrong data was read; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static struct leaf_tables read_tables(void)
{
	struct leaf_tables tables;
	char *text = file_read(TABLES);

	if (!text && errno == ENOENT)
		error(EXIT_LACKING, 0, "this kernel has no Hydra (%s is missing): boot a kernel built with CONFIG_HYDRA_MM",
		      TABLES);
	if (!text || !leaf_tables_parse(&tables, text))
		error(EXIT_FAILURE, errno, "cannot read %s", TABLES);
	return tables;
}

static uint64_t total_kib(const struct leaf_tables *tables)
{
	uint64_t kib = 0;

	for (size_t i = 0; i < tables->node_count; i++)
		kib += tables->node[i].kib;
	return kib;
}

/* Where any domain has page tables of its own, those that have none run no thread of ours, and do not count. */
static double lowest_share(const struct leaf_tables *tables, const struct own_hydra *own)
{
	double lowest = NAN;

	/* fmin() passes over the NaN of a domain that reaches nothing. */
	for (size_t i = 0; i < tables->domain_count; i++)
		if (!own->domain_count || own_domain_find(own, tables->domain[i].domain))
			lowest = fmin(lowest, local_leaf_share(&tables->domain[i]));
	return lowest;
}

/* An operation: one page is written, and read PASSES times. */
static void print_result(const struct options *options, const struct leaf_tables *before,
			 const struct leaf_tables *after, const struct own_hydra *own, double spent)
{
	json_open_object(NULL);
	json_string("program", "locality");
	json_string("case", options->kind->name);
	json_number("mib", options->mib);
	json_number("nodes", machine.node_count);
	json_number("domains", after->domain_count);
	json_number("own_domains", own->domain_count);
	json_real("local_leaf_share", lowest_share(after, own));
	json_number("pagetable_kib", total_kib(after));
	json_number("pagetable_kib_before", total_kib(before));
	json_real("us_per_op", spent * 1e6 / (options->mib * MIB / page_size));
	json_leaf_tables(after);
	json_close();
}

int main(int argc, char **argv)
{
	struct options options = { .mib = 256 };
	struct leaf_tables before, after;
	struct own_hydra own;
	size_t threads;
	pthread_t *thread;
	double spent;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	before = read_tables();
	leaf_tables_free(&before);
	machine = machine_read();
	page_size = sysconf(_SC_PAGESIZE);
	data_size = options.mib * MIB / (options.kind->all_in_one ? 1 : machine.node_count);
	data_size -= data_size % page_size;
	use_plain_memory();
	pin_self(machine.node[0].cpu[0]);

	threads = options.kind->alone ? 1 : machine.node_count;
	thread = calloc(threads, sizeof(*thread));
	if (!thread)
		error(EXIT_FAILURE, errno, "list of threads");
	pthread_barrier_init(&started, NULL, threads + 1);
	pthread_barrier_init(&measured, NULL, threads + 1);
	pthread_barrier_init(&written, NULL, threads);
	pthread_barrier_init(&done, NULL, threads + 1);
	pthread_barrier_init(&looked, NULL, threads + 1);
	for (size_t i = 0; i < threads; i++)
		thread[i] = start_pinned(machine.node[i].cpu[0], options.kind->work,
					 &machine.node[i]);
	pthread_barrier_wait(&started);
	before = read_tables();
	spent = now();
	pthread_barrier_wait(&measured);
	pthread_barrier_wait(&done);
	spent = now() - spent;
	after = read_tables();
	own = own_hydra_read();
	pthread_barrier_wait(&looked);
	for (size_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);

	print_result(&options, &before, &after, &own, spent);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
