// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that lives long and changes what it does, with a thread on each CPU:
 *
 *	own     each thread maps, writes and unmaps pages of its own
 *	shared  all threads write to the same pages, and each drops them in its turn
 *	one     the threads of the first node do as in "own", the others sleep
 *	asleep  all sleep
 *
 * What was mapped before is read and written in each phase: what it holds is checked.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "machine.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define PAGES 16UL			/* of a thread, in a leaf table of its own */
#define SPAN_MOST 36000UL

enum phase { OWN, SHARED, ONE, ASLEEP, PHASES };

struct thread {
	size_t number;
	bool first_node;
	unsigned long operations;
};

static unsigned long minutes = 60, seconds = 20;
static struct machine machine;
static volatile char *kept, *shared;
static volatile enum phase phase;
static volatile bool over;

static void change_own(const struct thread *thread)
{
	volatile char *pages = mmap((void *)((1UL << 40) + thread->number * TABLE), PAGES * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (pages == MAP_FAILED)
		error(EXIT_FAILURE, errno, "mmap");
	for (size_t i = 0; i < PAGES; i++) {
		if (pages[i * PAGE])
			error(EXIT_FAILURE, 0, "a new page is not empty: stale memory");
		pages[i * PAGE] = 1;
	}
	if (munmap((void *)pages, PAGES * PAGE))
		error(EXIT_FAILURE, errno, "munmap");
}

static void change_shared(const struct thread *thread)
{
	for (size_t i = 0; i < PAGES; i++)
		shared[i * PAGE] = 1;
	if (thread->operations % 8 == thread->number % 8 && madvise((void *)shared, PAGES * PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
}

static void use_kept(const struct thread *thread)
{
	volatile char *own = kept + thread->number * PAGE;

	if (*own != (char)thread->operations)
		error(EXIT_FAILURE, 0, "a page has lost what thread %zu has written", thread->number);
	*own = (char)(thread->operations + 1);
}

static void *work(void *argument)
{
	struct thread *thread = argument;

	while (!over) {
		enum phase now_in = phase;

		if (now_in == ASLEEP || (now_in == ONE && !thread->first_node)) {
			usleep(200000);
			continue;
		}
		if (now_in == SHARED)
			change_shared(thread);
		else
			change_own(thread);
		use_kept(thread);
		thread->operations++;
	}
	return NULL;
}

static void *place(size_t size)
{
	void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED)
		error(EXIT_FAILURE, errno, "mmap");
	return made;
}

static error_t parse(int key, char *word, struct argp_state *state)
{
	unsigned long *number = key == 'm' ? &minutes : &seconds;
	char *end;

	if (key != 'm' && key != 's')
		return ARGP_ERR_UNKNOWN;
	errno = 0;
	*number = strtoul(word, &end, 10);
	if (errno || *end || !*number || *number > SPAN_MOST)
		argp_error(state, "%s: not a number from 1 to %lu", word, SPAN_MOST);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "minutes", 'm', "M", 0, "Live so long (default 60)", 0 },
		{ "seconds", 's', "S", 0, "Change the phase every S seconds (default 20)", 0 },
		{ 0 },
	};
	static const struct argp argp = { options, parse, NULL, "A program that lives long, and whose threads change what they do.\v"
					  "Prints a line of JSON at its end.", NULL, NULL, NULL };
	pthread_t threads[1024];
	size_t nr = 0;
	struct thread *given;
	unsigned long sum = 0;
	double end;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	machine = machine_read();
	kept = place(1024 * PAGE);
	shared = place(TABLE);
	given = place(sizeof(*given) * 1024);
	for (size_t n = 0; n < machine.node_count; n++)
		for (size_t c = 0; c < machine.node[n].cpu_count && nr < 1024; c++, nr++) {
			given[nr] = (struct thread){ .number = nr, .first_node = !n };
			threads[nr] = start_pinned(machine.node[n].cpu[c], work, &given[nr]);
		}
	for (end = now() + 60.0 * minutes; now() < end; phase = (phase + 1) % PHASES)
		sleep(seconds);
	over = true;
	for (size_t i = 0; i < nr; i++) {
		pthread_join(threads[i], NULL);
		sum += given[i].operations;
	}
	printf("{\"threads\": %zu, \"operations\": %lu}\n", nr, sum);
	return 0;
}
