// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what a change of one page's mapping costs while other threads only
 * compute: interrupts for TLB shootdowns, and time. Each of the other threads
 * ("spinners") touches nothing but a counter of its own, so no spinner's CPU
 * needs the interrupt.
 *
 * Linux and Hydra choose different addresses for new mappings. Therefore the
 * page lies at the same address under every policy, in a leaf page table of
 * which the measuring thread has one more page and no other thread has any.
 * What is compared is the operation, not the choice of its place; and the page
 * table does not come and go with the page.
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
#include <time.h>
#include <unistd.h>

#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "procfile.h"

#define WARM_UP 5
#define LEAST_ITERATIONS 5
#define SETTLED_AFTER 30		/* seconds */

struct spinner {
	/* A cache line of its own. */
	volatile uint64_t turns __attribute__((aligned(64)));
};

struct operation {
	const char *name;
	void (*prepare)(void);
	void (*once)(void);
};

struct placement {
	const char *name;
	const char *result_name;
	bool remote, local;
};

struct options {
	const struct operation *operation;
	const struct placement *placement;
	uint64_t iterations;
	double seconds;
};

/* Two pages of one leaf page table, with a gap so that they stay two mappings. */
#define KEPT_PAGE ((char *)(1UL << 40))
#define CHANGED_PAGE (KEPT_PAGE + (1UL << 20))

static size_t page_size;
static volatile char *const page = CHANGED_PAGE;

static void map_at(char *at)
{
	void *got = mmap(at, page_size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got != at)
		error(EXIT_FAILURE, errno, "mmap of one page at %p", at);
	*(volatile char *)at = 1;
}

static void map_page(void)
{
	map_at(CHANGED_PAGE);
}

/* The touch makes the entry present again, so that the next call changes it. */
static void flip_protection(void)
{
	static bool writable = true;

	writable = !writable;
	if (mprotect((void *)page, page_size, writable ? PROT_READ | PROT_WRITE : PROT_READ))
		error(EXIT_FAILURE, errno, "mprotect of one page");
	if (writable)
		*page = 1;
	else
		(void)*page;
}

static void map_and_unmap(void)
{
	map_page();
	if (munmap((void *)page, page_size))
		error(EXIT_FAILURE, errno, "munmap of one page");
}

static void nothing(void)
{
}

static const struct operation operations[] = {
	{ "mprotect", map_page, flip_protection },
	{ "munmap", nothing, map_and_unmap },
	{ 0 }
};

static const struct placement placements[] = {
	{ "quiet", "quiet", false, false },
	{ "remote", "remote-spinners", true, false },
	{ "remote-and-local", "remote-and-local-spinners", true, true },
	{ 0 }
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end;

	switch (key) {
	case 'o':
		for (options->operation = operations; options->operation->name; options->operation++)
			if (!strcmp(options->operation->name, arg))
				return 0;
		argp_error(state, "unknown operation '%s': choose mprotect or munmap", arg);
		return 0;
	case 's':
		for (options->placement = placements; options->placement->name; options->placement++)
			if (!strcmp(options->placement->name, arg))
				return 0;
		argp_error(state, "unknown spinners '%s': choose quiet, remote or remote-and-local",
			   arg);
		return 0;
	case 'n':
		if (!parse_u64(arg, &options->iterations) || !options->iterations)
			argp_error(state, "'%s' is not a number of iterations", arg);
		return 0;
	case 't':
		options->seconds = strtod(arg, &end);
		if (*end || end == arg || !(options->seconds > 0))
			argp_error(state, "'%s' is not a number of seconds", arg);
		return 0;
	case ARGP_KEY_END:
		if (!options->operation || !options->placement)
			argp_error(state, "give --op and --spinners");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "op", 'o', "OPERATION", 0,
	  "mprotect: flip one page's protection and touch it. munmap: map one page, write to it, unmap it", 0 },
	{ "spinners", 's', "WHERE", 0,
	  "quiet: none. remote: on all CPUs of the other nodes. remote-and-local: one more on the measuring thread's node", 0 },
	{ "iterations", 'n', "N", 0, "Stop after N operations (default 30)", 0 },
	{ "seconds", 't', "S", 0,
	  "Stop after S seconds (default 10), but not before 5 operations or N, if that is less", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count TLB shootdown interrupts and time per operation, from the first CPU of the first node, while other threads spin. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine lacks what is needed; 64 wrong usage.",
};

static _Noreturn void *spin(void *argument)
{
	struct spinner *spinner = argument;

	for (;;)
		spinner->turns++;
}

static struct spinner *start_spinners(const struct machine *machine,
				      const struct placement *placement, size_t *count)
{
	size_t most = 0;
	struct spinner *spinners;

	if (placement->remote && machine->node_count < 2)
		error(EXIT_LACKING, 0, "there is no other node to put spinners on: boot with two or more");
	if (placement->local && machine->node[0].cpu_count < 2)
		error(EXIT_LACKING, 0, "node %d has no CPU for a local spinner: boot with two or more per node",
		      machine->node[0].id);
	for (size_t i = 0; i < machine->node_count; i++)
		most += machine->node[i].cpu_count;
	spinners = aligned_alloc(_Alignof(struct spinner), most * sizeof(*spinners));
	if (!spinners)
		error(EXIT_FAILURE, errno, "counters of spinners");
	memset(spinners, 0, most * sizeof(*spinners));

	*count = 0;
	for (size_t i = 1; placement->remote && i < machine->node_count; i++)
		for (size_t j = 0; j < machine->node[i].cpu_count; j++, ++*count)
			start_pinned(machine->node[i].cpu[j], spin, &spinners[*count]);
	if (placement->local)
		start_pinned(machine->node[0].cpu[1], spin, &spinners[(*count)++]);
	return spinners;
}

static void sleep_a_moment(long nanoseconds)
{
	nanosleep(&(struct timespec){ .tv_nsec = nanoseconds }, NULL);
}

/* The spinner runs: it is not on its way to its CPU, and its CPU does not run a thread of the kernel. */
static void wait_for_spinner(const struct spinner *spinner)
{
	uint64_t before = spinner->turns;

	while (spinner->turns == before)
		sleep_a_moment(100000);
}

/*
 * All nodes, or cores, with a spinner have page tables of their own, if the
 * policy gives them any. A busy thread gets to that when it is scheduled the next
 * time, and every flush reaches its CPU until then.
 *
 * Returns how many have not, after some time.
 */
static size_t wait_for_tables(const struct machine *machine, const struct placement *placement,
			      size_t spinners)
{
	double start = now();
	size_t missing, nodes = placement->remote ? machine->node_count : 1;

	for (;; sleep_a_moment(100000000)) {
		struct own_hydra own = own_hydra_read();
		size_t wanted = own.cores ? spinners + 1 : nodes;

		missing = !own.wanted || wanted < 2 || own.domain_count >= wanted ? 0 :
			  wanted - own.domain_count;
		own_hydra_free(&own);
		if (!missing || now() - start > SETTLED_AFTER)
			return missing;
	}
}

int main(int argc, char **argv)
{
	struct options options = { .iterations = 30, .seconds = 10 };
	struct machine machine;
	struct spinner *spinners;
	uint64_t interrupts, made = 0;
	double start, last, spent = 0;
	size_t count, missing;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	machine = machine_read();
	page_size = sysconf(_SC_PAGESIZE);
	use_plain_memory();
	pin_self(machine.node[0].cpu[0]);
	spinners = start_spinners(&machine, options.placement, &count);
	for (size_t i = 0; i < count; i++)
		wait_for_spinner(&spinners[i]);
	missing = wait_for_tables(&machine, options.placement, count);

	map_at(KEPT_PAGE);
	options.operation->prepare();
	for (int i = 0; i < WARM_UP; i++)
		options.operation->once();

	interrupts = shootdown_interrupts();
	start = last = now();
	while (made < options.iterations &&
	       (made < LEAST_ITERATIONS || last - start < options.seconds)) {
		/*
		 * Without interrupts, an operation is a thousand times as fast. So many would
		 * be made in each moment in which the local spinner's CPU runs something else.
		 */
		if (options.placement->local) {
			wait_for_spinner(&spinners[count - 1]);
			last = now();
		}
		options.operation->once();
		made++;
		spent -= last;
		last = now();
		spent += last;
	}
	interrupts = shootdown_interrupts() - interrupts;

	json_open_object(NULL);
	json_string("program", "shootdown");
	json_string("op", options.operation->name);
	json_string("case", options.placement->result_name);
	json_number("iterations", made);
	json_real("seconds", spent);
	json_number("interrupts", interrupts);
	json_real("interrupts_per_op", (double)interrupts / made);
	json_real("us_per_op", spent * 1e6 / made);
	json_number("spinners", count);
	json_number("domains_without_tables", missing);
	json_number("nodes", machine.node_count);
	json_close();
	/* The end of the process ends the spinners. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
