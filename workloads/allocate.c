// SPDX-License-Identifier: GPL-2.0-only
/*
 * The benchmark of allocators of the Hydra paper (section 5.6.2), with a thread
 * on each node: segments of random size, by the gamma distribution, are allocated
 * and freed; either one at a time ("stateless"), or so that many are there at any
 * time ("stateful"). Counts the interrupts of each round of free and allocation.
 *
 * Not static, so that LD_PRELOAD can give it another malloc().
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "json.h"
#include "machine.h"
#include "procfile.h"
#include "round_robin.h"

#define MEAN 3300000.0			/* bytes, as in the paper */
#define SHAPE 2				/* of the gamma distribution; the paper does not tell its own */
#define TOUCHED_EACH (64UL << 10)	/* a page of so many bytes is written */
#define SEGMENTS_MOST 256UL

struct segment {
	char *at;
	size_t size;
};

static bool use_mmap;
static uint64_t segments;		/* of each thread, at any time; 0: stateless */
static struct segment held[ROUND_ROBIN_MOST][SEGMENTS_MOST];

static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return ((*state >> 11) + 1) / (double)(1UL << 53);
}

static size_t random_size(uint64_t *state)
{
	double sum = 0;

	for (int i = 0; i < SHAPE; i++)
		sum -= log(uniform(state));
	return (size_t)(sum * MEAN / SHAPE) + 1;
}

static struct segment allocate(size_t size)
{
	struct segment segment = { .size = size };

	segment.at = use_mmap ? mmap(NULL, size, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : malloc(size);
	if (!segment.at || segment.at == MAP_FAILED)
		error(EXIT_FAILURE, errno, "cannot allocate %zu bytes", size);
	for (size_t offset = 0; offset < size; offset += TOUCHED_EACH)
		*(volatile char *)(segment.at + offset) = 1;
	return segment;
}

static void release(struct segment *segment)
{
	if (!use_mmap)
		free(segment->at);
	else if (munmap(segment->at, segment->size))
		error(EXIT_FAILURE, errno, "munmap");
	segment->at = NULL;
}

static void take_turn(struct worker *worker)
{
	static uint64_t random[ROUND_ROBIN_MOST];
	uint64_t *state = &random[worker->number];
	struct segment *mine = held[worker->number], one;

	if (!*state)
		*state = worker->number + 1;
	if (!segments) {
		one = allocate(random_size(state));
		release(&one);
	} else {
		size_t victim;

		for (size_t i = 0; i < segments; i++)
			if (!mine[i].at)
				mine[i] = allocate(random_size(state));
		victim = uniform(state) * segments;
		victim = victim < segments ? victim : 0;
		release(&mine[victim]);
		mine[victim] = allocate(random_size(state));
	}
	round_robin_operation(0);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = state->input;
		return 0;
	case 'm':
		use_mmap = true;
		return 0;
	case 's':
		if (!parse_u64(arg, &segments) || segments > SEGMENTS_MOST)
			argp_error(state, "'%s' is not a number of segments up to %lu", arg, SEGMENTS_MOST);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "mmap", 'm', NULL, 0, "Call mmap() and munmap() instead of malloc() and free()", 0 },
	{ "segments", 's', "N", 0, "So many for each thread at any time (default 0: each is freed at once)", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.children = children,
	.doc = "Count TLB shootdown interrupts of allocations, with a thread on each node. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static void nothing(struct worker *worker)
{
	(void)worker;
}

static void about(const struct round_robin *turns)
{
	(void)turns;
	json_number("threads", round_robin_count());
	json_number("segments", segments);
}

int main(int argc, char **argv)
{
	static const struct round_robin_kind kind = { .turn = take_turn };
	struct round_robin turns = { .kind = &kind, .asked = nothing, .per_node = 1, .rounds = 9,
			       .seconds = 10 };

	argp_parse(&argp, argc, argv, 0, NULL, &turns);
	return round_robin_report(&turns, "allocate", about);
}
