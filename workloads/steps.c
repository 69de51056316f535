// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does operations, each between two markers. The plugin
 * lab/meter/steps_plugin.c counts the instructions between them. Other threads
 * or processes run on other CPUs meanwhile, or none do. The program is started
 * on the CPU on which it measures, so that all its memory is on that node.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "markers.h"
#include "own_hydra.h"
#include "steps.h"
#include "steps_others.h"

#define WARM_UP 4
#define SHORT_WARM_UP 2		/* where an operation takes long */
#define MOST_ROWS 64
#define FIRST_PLACE 0x100000000000UL
#define PLACE_SIZE (512 * GIB)

struct options {
	const char *rows;
	int cpus[OTHERS_MOST];		/* of those on the other nodes */
	size_t cpu_count;
	unsigned int policy, samples, warm_up;
	enum others_kind others;
	bool accesses, counts, list, bystander, use;
};

static const struct row *rows[MOST_ROWS];
static size_t row_count;

static void add_rows(const struct row *row)
{
	for (; row->name && row_count < MOST_ROWS; row++)
		rows[row_count++] = row;
}

static void collect_rows(void)
{
	add_rows(calibration_rows);
	add_rows(memory_rows);
	add_rows(process_rows);
	/* Behind the others, whose numbers and addresses stay as they are. */
	add_rows(lock_rows);
}

/* Is it one of the names, between commas? All are if there are none. */
static bool is_named(const char *names, const char *name)
{
	size_t length = strlen(name);

	for (const char *at = names; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
			return true;
	}
	return !names;
}

static void list_rows(void)
{
	json_open_list(NULL);
	for (size_t i = 0; i < row_count; i++) {
		json_open_object(NULL);
		json_string("name", rows[i]->name);
		json_flag("alone", rows[i]->alone);
		json_flag("shared", rows[i]->shared);
		json_flag("used", rows[i]->use != NULL);
		json_flag("more", rows[i]->more);
		json_close();
	}
	json_close();
}

static void call(void (*function)(struct place *place), struct place *place)
{
	if (function)
		function(place);
}

/*
 * The measured thread and its children are never preempted by each other, so
 * that they take their turns the same way each time.
 */
static void take_precedence(void)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &lowest))
		error(EXIT_FAILURE, errno, "cannot take precedence");
}

static void print_list(const char *key, const uint64_t *value, unsigned int count)
{
	printf(", \"%s\": [", key);
	for (unsigned int i = 0; i < count; i++)
		printf("%s%ju", i ? ", " : "", (uintmax_t)value[i]);
	putchar(']');
}

/* Copies of leaf tables that this process has. */
static uint64_t copies(void)
{
	struct own_hydra own = own_hydra_read();
	uint64_t count = own.replica_tables;

	own_hydra_free(&own);
	return count;
}

static void measure(const struct options *options, size_t number, struct place *place)
{
	const struct row *row = rows[number];
	unsigned int samples = row->most && row->most < options->samples ? row->most : options->samples;
	unsigned int warm_up = options->warm_up ? options->warm_up :
			       row->most || options->accesses ? SHORT_WARM_UP : WARM_UP;
	uint64_t time[256], interrupts[256], row_copies = options->counts ? copies() : 0;

	marker_with_value(MARK_ROW, number);
	place_open(place, number, row->size);
	call(row->prepare, place);
	if (options->accesses)
		others_do(PREPARE, row, number, NULL);
	for (unsigned int i = 0; i < warm_up + samples; i++) {
		call(row->before, place);
		if (row->elsewhere)
			others_do(ELSEWHERE, row, number, place);
		if (options->use)
			others_do(USE, row, number, place);
		others_settle();
		if (options->accesses)
			others_do(OPERATE, row, number, NULL);
		if (i < warm_up) {
			row->once(place);
			continue;
		}
		if (options->counts)
			interrupts[i - warm_up] = shootdown_interrupts();
		time[i - warm_up] = __rdtsc();
		MARKER(MARK_BEGIN);
		row->once(place);
		MARKER(MARK_END);
		time[i - warm_up] = __rdtsc() - time[i - warm_up];
		if (options->counts)
			interrupts[i - warm_up] = shootdown_interrupts() - interrupts[i - warm_up];
	}
	if (options->counts)
		row_copies = copies() - row_copies;
	if (options->accesses)
		others_do(FINISH, row, number, NULL);
	call(row->finish, place);
	place_close(place, number);

	printf("{\"policy\": %u, \"row\": %zu, \"accesses\": %d", options->policy, number, options->accesses);
	print_list("time", time, samples);
	if (options->counts) {
		print_list("interrupts", interrupts, samples);
		printf(", \"copies\": %ju", (uintmax_t)row_copies);
	}
	puts("}");
	fflush(stdout);
}

/* The kernel does not split this process before threads of it run on two nodes. */
static void wait_until_active(void)
{
	for (int turn = 0; turn < 100; turn++) {
		char text[4096] = "";
		int file = open("/proc/self/hydra", O_RDONLY | O_CLOEXEC);

		if (file < 0)
			return;
		if (read(file, text, sizeof(text) - 1) < 0)
			error(EXIT_FAILURE, errno, "cannot read /proc/self/hydra");
		close(file);
		if (strstr(text, "active 1"))
			return;
		others_do(NOTHING, NULL, 0, NULL);
	}
}

/* Keeps Hydra in use: two threads on two nodes that share memory, and sleep nearly always. */
static void *share_now_and_then(void *argument)
{
	volatile char *shared = argument;

	for (;;) {
		*shared += 1;
		nanosleep(&(struct timespec){ .tv_nsec = 400000000 }, NULL);
	}
	return NULL;
}

static void stand_by(const struct options *options)
{
	static char shared;

	for (size_t i = 0; i < options->cpu_count; i++)
		start_pinned(options->cpus[i], share_now_and_then, &shared);
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	puts("ready");
	fflush(stdout);
	share_now_and_then(&shared);
}

static void parse_cpus(const char *text, struct options *options, struct argp_state *state)
{
	char *end;

	do {
		long cpu = strtol(text, &end, 10);

		if (end == text || cpu < 0 || cpu >= CPU_SETSIZE || options->cpu_count == OTHERS_MOST)
			argp_error(state, "'%s' is not a list of CPUs", text);
		options->cpus[options->cpu_count++] = cpu;
		text = end + 1;
	} while (*end == ',');
	if (*end)
		argp_error(state, "'%s' is not a list of CPUs", end);
}

static const char *const others_names[] = { "none", "threads", "processes", NULL };

static unsigned int parse_number(const char *text, unsigned int most, struct argp_state *state)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || *text < '0' || *text > '9' || number > most)
		argp_error(state, "'%s' is not a number up to %u", text, most);
	return number;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 'r':
		options->rows = arg;
		return 0;
	case 'p':
		options->policy = parse_number(arg, 255, state);
		return 0;
	case 'n':
		options->samples = parse_number(arg, 256, state);
		return 0;
	case 'w':
		options->warm_up = parse_number(arg, 65535, state);
		return 0;
	case 'o':
		for (int i = 0; others_names[i]; i++) {
			if (!strcmp(others_names[i], arg)) {
				options->others = i;
				return 0;
			}
		}
		argp_error(state, "unknown others '%s': choose none, threads or processes", arg);
		return 0;
	case 'c':
		parse_cpus(arg, options, state);
		return 0;
	case 'a':
		options->accesses = true;
		return 0;
	case 'k':
		options->counts = true;
		return 0;
	case 'u':
		options->use = true;
		return 0;
	case 'l':
		options->list = true;
		return 0;
	case 'b':
		options->bystander = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "rows", 'r', "NAME,NAME", 0, "Only these (default: all)", 0 },
	{ "policy", 'p', "N", 0, "A number that goes with each sample (default 0)", 0 },
	{ "samples", 'n', "N", 0, "So many of each row (default 40)", 0 },
	{ "warm-up", 'w', "N", 0, "Do each operation so many times before the first sample (default 2 or 4)", 0 },
	{ "others", 'o', "KIND", 0,
	  "What runs on other CPUs: none; threads of this process; processes of their own", 0 },
	{ "cpus", 'c', "N,N", 0, "On which CPUs those run", 0 },
	{ "accesses", 'a', NULL, 0,
	  "Look at accesses to memory; the others do the row's operation, too, ahead of each sample, with memory of their own", 0 },
	{ "counts", 'k', NULL, 0, "Count also interrupts for TLB shootdowns, and copies of leaf tables (needs a kernel with Hydra)", 0 },
	{ "use", 'u', NULL, 0, "All other threads read the row's memory ahead of each sample", 0 },
	{ "list", 'l', NULL, 0, "Print the rows and end", 0 },
	{ "bystander", 'b', NULL, 0, "Measure nothing: threads on the CPUs share memory, until killed", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Do operations between markers that QEMU's plugin steps.so sees; prints the rows' times, by the processor's clock, as lines of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine lacks what is needed; 64 wrong usage.",
};

/* Runs before libnuma reads the machine's files, which on large machines is most of what such a process does. */
static void __attribute__((constructor(101))) end_at_once(int argc, char **argv)
{
	if (argc == 1 && !strcmp(argv[0], ENDS_AT_ONCE))
		_exit(0);
}

int main(int argc, char **argv)
{
	struct options options = { .samples = 40 };
	struct place place = { .base = (char *)FIRST_PLACE, .cpu = sched_getcpu() };

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	collect_rows();
	if (options.list) {
		list_rows();
		return 0;
	}
	use_plain_memory();
	if (options.bystander)
		stand_by(&options);
	pin_self(place.cpu);
	others_start(options.cpus, options.cpu_count, options.others, place.base + PLACE_SIZE, PLACE_SIZE);
	if (options.others == OTHERS_THREADS)
		wait_until_active();
	take_precedence();

	marker_with_value(MARK_POLICY, options.policy);
	if (options.accesses)
		MARKER(MARK_START_MEMORY);
	else
		MARKER(MARK_START);
	for (size_t i = 0; i < row_count; i++) {
		bool together = options.others == OTHERS_THREADS;

		if (is_named(options.rows, rows[i]->name) &&
		    !(together ? rows[i]->alone : rows[i]->shared))
			measure(&options, i, &place);
	}
	MARKER(MARK_STOP);
	others_end();
	/* The end of the process ends the other threads. */
	return EXIT_SUCCESS;
}
