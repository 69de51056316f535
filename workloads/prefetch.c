// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the faults in which a node fills page tables of its own. A thread of
 * the first node writes data, then a thread of the last node reads each page
 * once, in random order, twice. The kernel counts, in /proc/self/hydra.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "procfile.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define PLACE ((char *)(1UL << 40))
#define PASSES 2
#define SETTLING 5		/* meetings before the first pass */
#define MOST (1UL << 15)		/* leaf tables */

struct pass {
	uint64_t faults;		/* page faults of the reading thread */
	double seconds;
};

static uint64_t table_count = 32;
static size_t page_count;
static uint32_t *order;
static struct pass passes[PASSES];
static struct machine machine;
/* Each pass is between two meetings with the main thread, which looks at the counters then. */
static pthread_barrier_t ready, go, over;

/* A permutation that is the same in each run (Fisher and Yates; Knuth's MMIX generator). */
static void shuffle(void)
{
	uint64_t random = 1;

	order = malloc(page_count * sizeof(*order));
	if (!order)
		error(EXIT_FAILURE, errno, "the order of %zu pages", page_count);
	for (size_t i = 0; i < page_count; i++)
		order[i] = i;
	for (size_t i = page_count - 1; i; i--) {
		size_t j;
		uint32_t page;

		random = random * 6364136223846793005 + 1442695040888963407;
		j = (random >> 33) % (i + 1);
		page = order[i];
		order[i] = order[j];
		order[j] = page;
	}
}

static uint64_t own_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

/* Read so many pages, each once. */
static void read_pages(struct pass *pass, const volatile char *data, size_t pages)
{
	uint64_t faults = own_faults();
	double start = now();

	for (size_t i = 0; i < pages; i++)
		(void)data[order[i] * PAGE];
	pass->seconds = now() - start;
	pass->faults = own_faults() - faults;
}

/*
 * What the passes need besides the data is used before them, so that no fill of
 * it is counted: code, stack, results and the order.
 */
static void settle(void)
{
	volatile uint64_t sum = 0;

	for (int i = 0; i < SETTLING; i++) {
		for (size_t j = 0; j < page_count; j += PAGE / sizeof(*order))
			sum += order[j];
		sum += order[page_count - 1];
		read_pages(&passes[0], PLACE, 0);
		pthread_barrier_wait(&ready);
	}
}

static void *read_far(void *argument)
{
	(void)argument;
	settle();
	for (int i = 0; i < PASSES; i++) {
		pthread_barrier_wait(&go);
		read_pages(&passes[i], PLACE, page_count);
		pthread_barrier_wait(&over);
	}
	pthread_barrier_wait(&go);
	return NULL;
}

static uint64_t fills_on(int node)
{
	struct own_hydra own = own_hydra_read();
	const struct own_domain *domain = own_domain_on(&own, node);
	uint64_t fills = domain ? domain->fills : 0;

	own_hydra_free(&own);
	return fills;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 't':
		if (!parse_u64(arg, &table_count) || !table_count || table_count > MOST)
			argp_error(state, "'%s' is not a number of leaf tables", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "tables", 't', "N", 0, "Leaf tables full of data (default 32, so 64 MiB)", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count the fills of page tables in random passes over memory of another node. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	static const char *const names[PASSES] = { "first", "second" };
	uint64_t fills[PASSES + 1];
	const struct node *far;
	struct own_hydra own;
	size_t size;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	machine = machine_read();
	if (machine.node_count < 2)
		error(EXIT_LACKING, 0, "there is no other node: boot with two or more");
	far = &machine.node[machine.node_count - 1];
	use_plain_memory();
	pin_self(machine.node[0].cpu[0]);
	size = table_count * TABLE;
	page_count = size / PAGE;
	if (mmap(PLACE, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0) != PLACE)
		error(EXIT_FAILURE, errno, "cannot map %zu MiB", size >> 20);
	shuffle();
	pthread_barrier_init(&ready, NULL, 2);
	pthread_barrier_init(&go, NULL, 2);
	pthread_barrier_init(&over, NULL, 2);
	start_pinned(far->cpu[0], read_far, NULL);
	for (int i = 0; i < SETTLING; i++)
		pthread_barrier_wait(&ready);
	/* Written while the process runs on two nodes: an eager policy then copies each table at once. */
	for (size_t offset = 0; offset < size; offset += PAGE)
		*(volatile char *)(PLACE + offset) = 1;
	fills[0] = fills_on(far->id);
	for (int i = 0; i < PASSES; i++) {
		pthread_barrier_wait(&go);
		pthread_barrier_wait(&over);
		fills[i + 1] = fills_on(far->id);
	}
	own = own_hydra_read();

	json_open_object(NULL);
	json_string("program", "prefetch");
	json_number("domains", own.domain_count);
	json_number("pages", page_count);
	for (int i = 0; i < PASSES; i++) {
		json_open_object(names[i]);
		json_number("fills", fills[i + 1] - fills[i]);
		json_number("faults", passes[i].faults);
		json_real("seconds", passes[i].seconds);
		json_close();
	}
	json_close();
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
