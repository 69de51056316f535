// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many processes of one thread, as those of a database: all use the same shared
 * memory, each on a CPU of its own node first, then on one of the next node.
 * Counts the page tables of each, and how many are split.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "procfile.h"

#define PAGE 4096UL
#define MOST 256UL

/* Of all processes; in memory that all share. */
struct sums {
	atomic_ulong kib;
	atomic_ulong replicas;
	atomic_ulong split;
};

static uint64_t processes = 24, mib = 16;
static struct machine machine;

static void *map_shared(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		error(EXIT_FAILURE, errno, "cannot map %zu KiB", size / 1024);
	return at;
}

static void read_data(const volatile char *data)
{
	for (size_t offset = 0; offset < mib << 20; offset += PAGE)
		(void)data[offset];
}

static void run(size_t number, const char *data, struct sums *sums)
{
	const struct node *first = &machine.node[number % machine.node_count];
	const struct node *second = &machine.node[(number + 1) % machine.node_count];
	struct own_hydra own;

	pin_self(first->cpu[0]);
	read_data(data);
	pin_self(second->cpu[0]);
	read_data(data);
	own = own_hydra_read();
	sums->kib += page_tables_kib();
	sums->replicas += own.replica_tables;
	sums->split += own.split;
}

static void start(size_t number, const char *data, struct sums *sums)
{
	pid_t child = fork();

	if (child < 0)
		error(EXIT_FAILURE, errno, "cannot start process %zu", number);
	if (!child) {
		run(number, data, sums);
		_exit(EXIT_SUCCESS);
	}
}

static void wait_for_all(void)
{
	int status;

	for (uint64_t i = 0; i < processes; i++)
		if (wait(&status) < 0 || status)
			error(EXIT_FAILURE, 0, "a process failed");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'p':
		if (!parse_u64(arg, &processes) || !processes || processes > MOST)
			argp_error(state, "'%s' is not a number of processes from 1 to %lu", arg, MOST);
		return 0;
	case 'm':
		if (!parse_u64(arg, &mib) || !mib || mib > 1 << 20)
			argp_error(state, "'%s' is not a number of MiB", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "processes", 'p', "N", 0, "So many (default 24)", 0 },
	{ "mib", 'm', "N", 0, "MiB of memory that all share (default 16)", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count the page tables of processes that share memory, have one thread each and move to another node. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	struct own_hydra own;
	struct sums *sums;
	char *data;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	own = own_hydra_read();
	own_hydra_free(&own);
	machine = machine_read();
	use_plain_memory();
	sums = map_shared(sizeof(*sums));
	data = map_shared(mib << 20);
	for (size_t offset = 0; offset < mib << 20; offset += PAGE)
		data[offset] = 1;
	for (uint64_t i = 0; i < processes; i++)
		start(i, data, sums);
	wait_for_all();

	json_open_object(NULL);
	json_string("program", "processes");
	json_number("processes", processes);
	json_number("pagetable_kib", sums->kib);
	json_number("replicas", sums->replicas);
	json_number("split", sums->split);
	json_close();
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
