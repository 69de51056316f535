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
 * and of the loop of the Hydra paper (section 5.6.1):
 *
 *	protect   a thread protects a page that it has written to
 *
 * Each thread has a leaf page table for its pages, which comes and goes with
 * them, at the same address under every policy.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "json.h"
#include "machine.h"
#include "round_robin.h"

#define GLOBAL_PAGES 16UL		/* 64 KiB, as in the paper */

static volatile size_t global_owner;

static char *pages_of(size_t number)
{
	return ROUND_ROBIN_PLACE + number * TABLE;
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

static void unmap_pages(size_t number, size_t pages, bool other_node)
{
	if (munmap(pages_of(number), pages * PAGE))
		error(EXIT_FAILURE, errno, "cannot unmap %zu pages", pages);
	round_robin_operation(other_node);
}

static void local(struct worker *worker)
{
	map_pages(worker->number, 1);
	write_pages(worker->number, 1);
	unmap_pages(worker->number, 1, false);
}

static void pipeline(struct worker *worker)
{
	const struct worker *last = round_robin_worker(worker->number + round_robin_count() - 1);
	static bool handed_over;

	if (handed_over) {
		write_pages(last->number, 1);
		unmap_pages(last->number, 1, last->node != worker->node);
	}
	map_pages(worker->number, 1);
	write_pages(worker->number, 1);
	handed_over = true;
}

static void write_global(struct worker *worker)
{
	(void)worker;
	write_pages(global_owner, GLOBAL_PAGES);
}

static void global(struct worker *worker)
{
	map_pages(worker->number, GLOBAL_PAGES);
	global_owner = worker->number;
	round_robin_ask_all(worker);
	unmap_pages(worker->number, GLOBAL_PAGES, false);
}

/* Protects a page that stays, and allows writing in the next turn. The touch makes the entry accessed again. */
static void protect(struct worker *worker)
{
	static int protection[ROUND_ROBIN_MOST];
	int *mine = &protection[worker->number];
	volatile char *page = pages_of(worker->number);

	if (!*mine) {
		map_pages(worker->number, 1);
		write_pages(worker->number, 1);
		*mine = PROT_READ | PROT_WRITE;
	}
	*mine ^= PROT_WRITE;
	if (mprotect((void *)page, PAGE, *mine))
		error(EXIT_FAILURE, errno, "mprotect");
	if (*mine & PROT_WRITE)
		*page = 1;
	else
		(void)*page;
	round_robin_operation(0);
}

/* The page in the last leaf table of the GiB keeps the upper tables. */
static void keep_upper_tables(void)
{
	map_pages((GIB - TABLE) / TABLE, 1);
	write_pages((GIB - TABLE) / TABLE, 1);
}

static const struct round_robin_kind patterns[] = {
	{ "local", keep_upper_tables, local }, { "pipeline", keep_upper_tables, pipeline },
	{ "global", keep_upper_tables, global }, { "protect", keep_upper_tables, protect }, { 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.args_doc = "PATTERN",
	.children = children,
	.doc = "Count TLB shootdown interrupts of each operation, with a thread on each CPU. Prints one line of JSON. PATTERN is local: a thread maps, writes and unmaps; pipeline: a thread maps and writes, the next writes and unmaps; global: all threads write before one unmaps; protect: a thread protects a page of its own.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	struct round_robin turns = { .kinds = patterns, .asked = write_global, .rounds = 3, .seconds = 20 };

	argp_parse(&argp, argc, argv, 0, NULL, &turns);
	use_plain_memory();
	round_robin_run(&turns);

	json_open_object(NULL);
	json_string("program", "patterns");
	json_string("pattern", turns.kind->name);
	json_number("cpus", round_robin_count());
	round_robin_print_interrupts("same_node", false);
	round_robin_print_interrupts("other_node", true);
	json_close();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
