// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two threads do operations on memory of their own, 64 MiB apart, one after the other, for each pair of operations. The plugin
 * lab/meter/conflicts_plugin.c notes the lines of memory at which the kernel would let them meet. Further threads make the
 * process run on more CPUs, and sleep. With --counters, they take a reference of one object and give it back, by each kind of
 * counter that lib/refcache/pairs.h has.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "json.h"
#include "machine.h"
#include "markers.h"
#include "steps.h"

#define BASE ((char *)0x100000000000UL)
#define APART (64UL << 20)
#define SIZE (16 * PAGE)
#define KEEPER (1UL << 20)	/* bytes to a page in the same page table, which keeps it */
#define WARM_UP 3
#define WARMING_UP 255	/* the row of samples that do not count */
#define SPINS 1000		/* then a thread that waits sleeps for a while */
#define TURNS 10	/* until a process under a policy is split */
#define MOST_CPUS 64
#define COUNTERS "/sys/kernel/debug/refcache_pairs"

struct side {
	char *at;
	int zeros;		/* /dev/zero */
	int pairs;		/* with --counters */
};

struct operation {
	const char *name;
	void (*before)(struct side *side);
	void (*once)(struct side *side);
};

static void map(struct side *side, int protection)
{
	if (mmap(side->at, SIZE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != side->at)
		error(EXIT_FAILURE, errno, "cannot map memory at %p", side->at);
}

static void map_plain(struct side *side)
{
	map(side, PROT_READ | PROT_WRITE);
}

static void map_nothing(struct side *side)
{
	map(side, PROT_NONE);
}

static void map_touched(struct side *side)
{
	map_plain(side);
	place_touch(side->at, SIZE);
}

static void map_begun(struct side *side)
{
	map_plain(side);
	place_touch(side->at, PAGE);
}

static void unmap(struct side *side)
{
	place_unmap(side->at, SIZE);
}

static void allow(struct side *side)
{
	if (mprotect(side->at, SIZE, PROT_READ | PROT_WRITE))
		error(EXIT_FAILURE, errno, "mprotect");
}

static void drop(struct side *side)
{
	if (madvise(side->at, SIZE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
}

static void touch_first(struct side *side)
{
	place_touch(side->at, PAGE);
}

static void touch_second(struct side *side)
{
	place_touch(side->at + PAGE, PAGE);
}

static void read_second(struct side *side)
{
	if (read(side->zeros, side->at + PAGE, PAGE) != (ssize_t)PAGE)
		error(EXIT_FAILURE, errno, "read");
}

static void nothing(struct side *side)
{
	(void)side;
}

/* The position says by which counter. A thread has a file of its own. */
static void count(struct side *side, off_t counter)
{
	char byte;

	if (pread(side->pairs, &byte, 1, counter))
		error(EXIT_FAILURE, errno, COUNTERS);
}

static void count_nothing(struct side *side)
{
	count(side, 0);
}

static void count_atomic(struct side *side)
{
	count(side, 1);
}

static void count_percpu_ref(struct side *side)
{
	count(side, 2);
}

static void count_refcache(struct side *side)
{
	count(side, 3);
}

/* Each begins without a mapping, and what it leaves is unmapped. */
static const struct operation calls[] = {
	{ "nothing", nothing, nothing },
	{ "mmap", nothing, map_plain },
	{ "munmap", map_touched, unmap },
	{ "mprotect", map_nothing, allow },
	{ "dontneed", map_touched, drop },
	{ "first-fault", map_plain, touch_first },
	{ "fault", map_begun, touch_second },
	{ "read", map_begun, read_second },
};

static const struct operation counters[] = {
	{ "nothing", nothing, count_nothing },
	{ "atomic", nothing, count_atomic },
	{ "percpu_ref", nothing, count_percpu_ref },
	{ "refcache", nothing, count_refcache },
};

#define COUNT(table) (sizeof(table) / sizeof(*(table)))

/* What the second thread is to do; each word that changes has a line of its own. */
static struct {
	const struct operation *operation;
	enum { BEFORE, ONCE, AFTER, SLEEP } task;
	volatile unsigned long turn __attribute__((aligned(64)));
	volatile unsigned long done __attribute__((aligned(64)));
} order;

static struct side sides[2];

static void sleep_for(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void perform(struct side *side, const struct operation *operation, int task)
{
	switch (task) {
	case BEFORE:
		operation->before(side);
		return;
	case ONCE:
		MARKER(MARK_BEGIN);
		operation->once(side);
		MARKER(MARK_END);
		return;
	case AFTER:
		place_unmap(side->at, SIZE);
		return;
	case SLEEP:
		sleep_for(20000000);
	}
}

static void open_side(struct side *side, char *at)
{
	side->at = at;
	side->zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (side->zeros < 0)
		error(EXIT_FAILURE, errno, "/dev/zero");
	place_touch(place_map(at + KEEPER, PAGE), PAGE);
}

/*
 * At a pause instruction the emulator runs the next CPU. Its clock counts instructions, and jumps only while all CPUs sleep: what
 * the kernel waits for when a process is split would take minutes while a thread spins.
 */
static void wait_until(const volatile unsigned long *word, unsigned long value, bool equal)
{
	for (unsigned int turn = 1; (*word == value) != equal; turn++) {
		if (turn % SPINS)
			_mm_pause();
		else
			sleep_for(1000000);
	}
}

static void *serve(void *argument)
{
	open_side(&sides[1], BASE + APART);
	for (;;) {
		wait_until(&order.turn, order.done, false);
		perform(&sides[1], order.operation, order.task);
		order.done = order.turn;
	}
	return argument;
}

static void tell(const struct operation *operation, int task)
{
	order.operation = operation;
	order.task = task;
	order.turn++;
}

static void wait_for_other(void)
{
	wait_until(&order.done, order.turn, true);
}

static void have_done(const struct operation *operation, int task)
{
	tell(operation, task);
	wait_for_other();
}

static void settle(void)
{
	tell(&calls[0], SLEEP);
	perform(&sides[0], &calls[0], SLEEP);
	wait_for_other();
}

static void measure(const struct operation *first, const struct operation *second)
{
	perform(&sides[0], first, BEFORE);
	have_done(second, BEFORE);
	perform(&sides[0], first, ONCE);
	have_done(second, ONCE);
	perform(&sides[0], first, AFTER);
	have_done(second, AFTER);
}

/* It has run on its CPU, and its node has memory of the process. */
static void *stand_by(void *argument)
{
	for (;;)
		pause();
	return argument;
}

struct options {
	int cpus[MOST_CPUS];
	size_t count;
	unsigned int policy, samples;
	bool list, counters;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end = arg;

	switch (key) {
	case 'c':
		for (; *arg; arg = end + (*end == ',')) {
			options->cpus[options->count++] = strtol(arg, &end, 10);
			if (end == arg || (*end && *end != ',') || options->count == MOST_CPUS)
				argp_error(state, "'%s' is not a list of CPUs", arg);
		}
		return 0;
	case 'p':
		options->policy = atoi(arg);
		return 0;
	case 'n':
		options->samples = atoi(arg);
		return 0;
	case 'l':
		options->list = true;
		return 0;
	case 'r':
		options->counters = true;
		return 0;
	case ARGP_KEY_END:
		if (!options->list && options->count < 2)
			argp_error(state, "give two CPUs or more");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "cpus", 'c', "N,N,...", 0, "The CPUs of the two threads, and of those that sleep", 0 },
	{ "policy", 'p', "N", 0, "A number that goes with each sample (default 0)", 0 },
	{ "samples", 'n', "N", 0, "So many of each pair (default 20)", 0 },
	{ "counters", 'r', NULL, 0, "Count references of one object, in the place of calls", 0 },
	{ "list", 'l', NULL, 0, "Print the operations and end", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Do pairs of operations between markers that QEMU's plugin conflicts.so sees; prints the number of each pair, a line of JSON.",
};

int main(int argc, char **argv)
{
	struct options options = { .samples = 20 };
	const struct operation *operations;
	unsigned int row = 0;
	size_t nr;

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	operations = options.counters ? counters : calls;
	nr = options.counters ? COUNT(counters) : COUNT(calls);
	if (options.list) {
		json_open_list(NULL);
		for (size_t i = 0; i < nr; i++)
			json_string(NULL, operations[i].name);
		json_close();
		return 0;
	}
	use_plain_memory();
	for (int i = 0; options.counters && i < 2; i++) {
		sides[i].pairs = open(COUNTERS, O_RDONLY | O_CLOEXEC);
		if (sides[i].pairs < 0)
			error(EXIT_FAILURE, errno, COUNTERS);
	}
	pin_self(options.cpus[0]);
	open_side(&sides[0], BASE);
	start_pinned(options.cpus[1], serve, NULL);
	for (size_t i = 2; i < options.count; i++)
		start_pinned(options.cpus[i], stand_by, NULL);
	have_done(&calls[1], BEFORE);
	have_done(&calls[1], AFTER);
	/* Under a policy the process gets page tables for each node, meanwhile. */
	for (unsigned int i = 0; i < TURNS; i++) {
		have_done(&calls[0], BEFORE);
		settle();
	}

	marker_with_value(MARK_POLICY, options.policy);
	MARKER(MARK_START_MEMORY);
	for (size_t first = 0; first < nr; first++) {
		for (size_t second = first; second < nr; second++, row++) {
			marker_with_value(MARK_ROW, WARMING_UP);
			for (unsigned int i = 0; i < WARM_UP; i++)
				measure(&operations[first], &operations[second]);
			marker_with_value(MARK_ROW, row);
			for (unsigned int i = 0; i < options.samples; i++)
				measure(&operations[first], &operations[second]);
			printf("{\"policy\": %u, \"row\": %u}\n", options.policy, row);
			fflush(stdout);
		}
	}
	MARKER(MARK_STOP);
	return 0;
}
