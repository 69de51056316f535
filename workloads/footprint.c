// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the page tables of a process with a thread on each CPU of each node.
 * Each node writes data of its own, in whole leaf page tables. Then the threads
 * read the data of no other node ("none"), of the other node of their pair
 * ("some"), or of all nodes ("full"). The kernel counts, in /proc/self/hydra and
 * /proc/self/hydra_tables. Meanwhile no domain leaves a table for want of use, if
 * the program may say so: it runs for minutes on a slow emulator.
 *
 * Data, thread stacks and the program are in the first GiB of the address space,
 * so that two upper tables reach them all. That needs addresses that are not
 * random (the kernel's parameter norandmaps).
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

#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "procfile.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define PLACE ((char *)(256UL << 20))
#define STACK (64UL << 10)
#define SETTLING 5		/* meetings before the first count */
#define TABLES_MOST 256UL		/* so that all is within the first GiB */

enum sharing { NONE, SOME, FULL };

static const char *const sharing_names[] = { [NONE] = "none", [SOME] = "some", [FULL] = "full" };

struct options {
	int sharing;
	uint64_t tables;		/* of each node */
};

struct reader {
	size_t node;			/* its place in the list of nodes */
	bool first;			/* of its node: it writes the data */
};

static struct options options = { .sharing = -1, .tables = 8 };
static struct machine machine;
/* The data of the main thread and of all others meet here, and nowhere else. */
static pthread_barrier_t settled, started, counted, written, done, looked;

static char *data_of(size_t node)
{
	return PLACE + TABLE + node * options.tables * TABLE;
}

static bool reads(size_t reader, size_t writer)
{
	switch (options.sharing) {
	case NONE:
		return reader == writer;
	case SOME:
		return reader / 2 == writer / 2;
	default:
		return true;
	}
}

static void read_pages(volatile char *data)
{
	for (size_t offset = 0; offset < options.tables * TABLE; offset += PAGE)
		(void)data[offset];
}

static void *use(void *argument)
{
	const struct reader *reader = argument;

	/* A domain gets its tables when a thread of it goes on in user mode. */
	for (int i = 0; i < SETTLING; i++) {
		for (int turn = 0; turn < 1000; turn++)
			(void)*(const volatile size_t *)&reader->node;
		pthread_barrier_wait(&settled);
	}
	pthread_barrier_wait(&started);
	pthread_barrier_wait(&counted);
	if (reader->first)
		for (size_t offset = 0; offset < options.tables * TABLE; offset += PAGE)
			*(volatile char *)(data_of(reader->node) + offset) = 1;
	pthread_barrier_wait(&written);
	for (size_t writer = 0; writer < machine.node_count; writer++)
		if (reads(reader->node, writer))
			read_pages(data_of(writer));
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&looked);
	return NULL;
}

static void map(char *at, size_t size)
{
	if (mmap(at, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at)
		error(EXIT_FAILURE, errno, "cannot map %zu KiB at %p (are addresses random?)",
		      size / 1024, at);
}

static pthread_t start(int cpu, size_t number, struct reader *reader)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;
	int failed;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_attr_init(&attributes);
	pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	pthread_attr_setstack(&attributes, PLACE + number * STACK, STACK);
	failed = pthread_create(&thread, &attributes, use, reader);
	if (failed)
		error(EXIT_FAILURE, failed, "cannot start a thread on CPU %d", cpu);
	pthread_attr_destroy(&attributes);
	return thread;
}

/* All page tables of the process, roots among them. */
static uint64_t all_tables(void)
{
	return page_tables_kib() * 1024 / PAGE;
}

/* How many nodes, or CPUs, read the data of each node, in all. */
static uint64_t sharers(bool cpus)
{
	uint64_t sum = 0;

	for (size_t writer = 0; writer < machine.node_count; writer++)
		for (size_t reader = 0; reader < machine.node_count; reader++)
			if (reads(reader, writer))
				sum += cpus ? machine.node[reader].cpu_count : 1;
	return sum;
}

/*
 * Sets after how many seconds without use a domain leaves a table.
 * Returns the number before, -1 if that is unknown.
 */
static long set_idle_seconds(long seconds)
{
	long old = -1;
	FILE *file = seconds < 0 ? NULL : fopen("/sys/kernel/mm/hydra/idle_seconds", "r+");

	if (!file)
		return -1;
	if (fscanf(file, "%ld", &old) != 1)
		old = -1;
	rewind(file);
	fprintf(file, "%ld\n", seconds);
	fclose(file);
	return old;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's':
		for (int i = NONE; i <= FULL; i++)
			if (!strcmp(sharing_names[i], arg))
				options.sharing = i;
		if (options.sharing < 0)
			argp_error(state, "unknown sharing '%s': choose none, some or full", arg);
		return 0;
	case 't':
		if (!parse_u64(arg, &options.tables) || !options.tables || options.tables > TABLES_MOST)
			argp_error(state, "'%s' is not a number of leaf tables", arg);
		return 0;
	case ARGP_KEY_END:
		if (options.sharing < 0)
			argp_error(state, "give --sharing");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "sharing", 's', "HOW", 0,
	  "none: each node reads its own data. some: pairs of nodes read each other's. full: all nodes read all", 0 },
	{ "tables", 't', "N", 0, "Leaf tables full of data for each node (default 8)", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count the page tables of data that nodes share or keep. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	struct own_hydra before, after;
	uint64_t all_before, all_after, data_tables;
	size_t threads = 0;
	struct reader *reader;
	long idle_seconds;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	machine = machine_read();
	data_tables = machine.node_count * options.tables;
	if (data_tables > TABLES_MOST)
		error(EXIT_LACKING, 0, "%ju leaf tables are more than fit: give fewer --tables",
		      (uintmax_t)data_tables);
	use_plain_memory();
	for (size_t i = 0; i < machine.node_count; i++)
		threads += machine.node[i].cpu_count;
	reader = calloc(threads, sizeof(*reader));
	if (!reader)
		error(EXIT_FAILURE, errno, "list of threads");
	if (threads * STACK > TABLE)
		error(EXIT_LACKING, 0, "%zu threads are more than fit", threads);
	pin_self(machine.node[0].cpu[0]);
	map(PLACE, threads * STACK);
	map(data_of(0), data_tables * TABLE);
	pthread_barrier_init(&settled, NULL, threads);
	pthread_barrier_init(&started, NULL, threads + 1);
	pthread_barrier_init(&counted, NULL, threads + 1);
	pthread_barrier_init(&written, NULL, threads);
	pthread_barrier_init(&done, NULL, threads + 1);
	pthread_barrier_init(&looked, NULL, threads + 1);
	for (size_t i = 0, number = 0; i < machine.node_count; i++)
		for (size_t j = 0; j < machine.node[i].cpu_count; j++, number++) {
			reader[number] = (struct reader){ .node = i, .first = !j };
			start(machine.node[i].cpu[j], number, &reader[number]);
		}
	idle_seconds = set_idle_seconds(0);
	pthread_barrier_wait(&started);
	before = own_hydra_read();
	all_before = all_tables();
	pthread_barrier_wait(&counted);
	pthread_barrier_wait(&done);
	after = own_hydra_read();
	all_after = all_tables();
	set_idle_seconds(idle_seconds);
	pthread_barrier_wait(&looked);

	json_open_object(NULL);
	json_string("program", "footprint");
	json_string("sharing", sharing_names[options.sharing]);
	json_number("nodes", machine.node_count);
	json_number("cpus", threads);
	json_number("data_tables", data_tables);
	json_number("node_sharers", sharers(false) * options.tables);
	json_number("cpu_sharers", sharers(true) * options.tables);
	json_number("domains", after.domain_count);
	json_number("replicas_before", before.replica_tables);
	json_number("replicas", after.replica_tables);
	json_number("upper", after.upper_tables);
	json_number("all_before", all_before);
	json_number("all", all_after);
	json_number("fallbacks", after.fallbacks);
	json_number("reclaimed", after.reclaimed);
	json_close();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
