// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the interrupts of a thread that changes memory of its own, before and
 * after other nodes have used that memory. With a thread on each CPU, in turns:
 *
 *	before  each thread protects pages of its own, or allows writing
 *	after   the same, once all threads have read the pages of all; with --moves,
 *	        once all threads have gone from node to node with their own
 *	later   the same, some seconds after that. In each of these seconds each
 *	        thread has taken a turn, and all have slept
 *
 * Threads that go from node to node read their pages each second. Meanwhile
 * Linux's NUMA balancing may move the pages; in turns it leaves them alone, so
 * that the interrupts of an operation are its own.
 *
 * What nodes have once used, and use no longer, should cost later what it cost
 * before: interrupts and copies of page tables.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "auto_policy.h"
#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "procfile.h"
#include "round_robin.h"

#define PAGES 16UL		/* of each leaf table that are used */
#define TABLES_MOST 64UL
#define SECONDS_MOST 3600UL
#define MOVES_MOST 1000UL
#define BUSY 0.01		/* seconds that a thread works in each second: the time of CPUs drives NUMA balancing */
#define ANSWERS 5		/* before the first look: so all nodes have the program's own page tables */

enum phase { SETTLING, BEFORE, AFTER, PAUSING, LATER, PHASES };

static const char *const phase_names[PHASES] = { [BEFORE] = "before", [AFTER] = "after", [LATER] = "later" };

struct look {
	uint64_t replicas;
	uint64_t kib;
};

static uint64_t tables = 4, pause_seconds = 5, per_phase = 4, moves, dwell = 30;
static struct machine machine;
static uint64_t moves_made[ROUND_ROBIN_MOST];	/* of each thread */
static uint64_t pages_marked;			/* by NUMA balancing, while threads went from node to node */
static enum phase phase;
static uint64_t rounds_begun;
static struct look looks[PHASES];	/* ahead of the phase after, else at the end of the phase */
static void (*volatile asked)(struct worker *worker);
static double wake;

static volatile char *page_of(size_t thread, uint64_t table, uint64_t page)
{
	return ROUND_ROBIN_PLACE + (thread * tables + table) * TABLE + page * PAGE;
}

static void do_nothing(struct worker *worker)
{
	(void)worker;
}

static void read_tables(size_t thread, uint64_t number)
{
	for (uint64_t table = 0; table < number; table++)
		for (uint64_t page = 0; page < PAGES; page++)
			(void)*page_of(thread, table, page);
}

static void read_all(struct worker *worker)
{
	(void)worker;
	read_tables(0, round_robin_count() * tables);
}

static void sleep_until(double time)
{
	struct timespec until = { .tv_sec = time, .tv_nsec = (time - (time_t)time) * 1e9 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void sleep_once(struct worker *worker)
{
	(void)worker;
	sleep_until(wake);
}

/* Without a pause instruction, at which an emulator may run the next CPU: that takes it longer. */
static void keep_busy(void)
{
	double until = now() + BUSY;

	while (now() < until)
		for (volatile int i = 0; i < 10000; i++)
			;
}

/* NUMA balancing leaves a thread alone whose policy is MPOL_LOCAL. */
static void use_policy(int policy)
{
	if (set_mempolicy(policy, NULL, 0))
		error(EXIT_FAILURE, errno, "cannot set the policy of memory");
}

/* To the CPU at the same place of the node that is so many moves from the thread's first. */
static void go_to(struct worker *worker, uint64_t move)
{
	size_t per_node = machine.node[0].cpu_count;
	const struct node *node = &machine.node[(worker->number / per_node + move) % machine.node_count];
	unsigned int from, to;

	getcpu(NULL, &from);
	pin_self(node->cpu[worker->number % per_node]);
	getcpu(NULL, &to);
	moves_made[worker->number] += from != to;
	worker->node = to;
}

/* All threads begin at the time wake, and go by the clock: so they move at the same time. */
static void wander(struct worker *worker)
{
	double next = wake;

	use_policy(MPOL_DEFAULT);
	for (uint64_t move = 1; move <= moves; move++) {
		for (uint64_t second = 0; second < dwell; second++) {
			read_tables(worker->number, tables);
			keep_busy();
			sleep_until(++next);
		}
		go_to(worker, move);
	}
	use_policy(MPOL_LOCAL);
	read_tables(worker->number, tables);
}

static uint64_t marked_until_now(void)
{
	struct records records;
	char *text = file_read("/proc/vmstat");
	const char *number;
	uint64_t value;

	if (!text || !records_parse(&records, text, NULL))
		error(EXIT_FAILURE, errno, "cannot read /proc/vmstat");
	number = records_get(&records, "numa_pte_updates");
	if (!number || !parse_u64(number, &value))
		error(EXIT_LACKING, 0, "no NUMA balancing: boot a kernel built with CONFIG_NUMA_BALANCING");
	records_free(&records);
	return value;
}

static void answer(struct worker *worker)
{
	asked(worker);
}

static void ask_all(struct worker *worker, void (*what)(struct worker *worker))
{
	asked = what;
	round_robin_ask_all(worker);
}

static void look(enum phase at)
{
	struct own_hydra own = own_hydra_read();

	looks[at] = (struct look){ .replicas = own.replica_tables, .kib = page_tables_kib() };
	own_hydra_free(&own);
}

static uint64_t rounds_of(enum phase of)
{
	return of == SETTLING ? 1 : of == PAUSING ? pause_seconds : per_phase;
}

static enum phase phase_of(uint64_t round)
{
	enum phase of = SETTLING;

	for (; of < LATER && round >= rounds_of(of); of++)
		round -= rounds_of(of);
	return of;
}

static void map_all(void)
{
	size_t size = round_robin_count() * tables * TABLE;

	if (mmap(ROUND_ROBIN_PLACE, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != ROUND_ROBIN_PLACE)
		error(EXIT_FAILURE, errno, "cannot map %zu KiB at %p", size / 1024, ROUND_ROBIN_PLACE);
}

static void settle(struct worker *worker)
{
	for (int i = 0; i < ANSWERS; i++)
		ask_all(worker, do_nothing);
	look(SETTLING);
}

static void visit(struct worker *worker)
{
	look(BEFORE);
	if (moves) {
		pages_marked = marked_until_now();
		wake = now();
		ask_all(worker, wander);
		pages_marked = marked_until_now() - pages_marked;
	} else {
		ask_all(worker, read_all);
	}
	look(AFTER);
}

static void sleep_all(struct worker *worker)
{
	wake = now() + 1;
	ask_all(worker, sleep_once);
}

/* The first thread begins each round. */
static void begin_round(struct worker *worker)
{
	enum phase last = phase;

	phase = phase_of(rounds_begun);
	if (phase == PAUSING && last != PAUSING)
		auto_policy_slow_down();
	if (!rounds_begun++)
		settle(worker);
	else if (phase == AFTER && last != AFTER)
		visit(worker);
	else if (phase == PAUSING)
		sleep_all(worker);
	round_robin_forget();
}

static void write_own(const struct worker *worker)
{
	for (uint64_t table = 0; table < tables; table++)
		for (uint64_t page = 0; page < PAGES; page++)
			*page_of(worker->number, table, page) = 1;
	round_robin_forget();
}

/* In each round a page of another leaf table: all are protected, then writing to all is allowed again. */
static void change_own(const struct worker *worker)
{
	uint64_t round = rounds_begun - 1;
	volatile char *page = page_of(worker->number, round % tables, 0);
	bool writable = round / tables % 2;

	if (mprotect((void *)page, PAGE, writable ? PROT_READ | PROT_WRITE : PROT_READ))
		error(EXIT_FAILURE, errno, "mprotect");
	if (writable)
		*page = 1;
	else
		(void)*page;
}

/* Until policy "auto" has decided: as before, but no round begins. The page stays writable. */
static void change_for_a_while(const struct worker *worker)
{
	volatile char *page = page_of(worker->number, 0, 0);

	if (mprotect((void *)page, PAGE, PROT_READ))
		error(EXIT_FAILURE, errno, "mprotect");
	(void)*page;
	if (mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE))
		error(EXIT_FAILURE, errno, "mprotect");
	*page = 1;
}

static void take_turn(struct worker *worker)
{
	static bool mapped;

	if (!mapped)
		map_all();
	mapped = true;
	if (round_robin_is_warming_up()) {
		change_for_a_while(worker);
		return;
	}
	if (!worker->number)
		begin_round(worker);
	if (phase == SETTLING)
		write_own(worker);
	change_own(worker);
	round_robin_operation(phase);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct round_robin *turns = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &turns->look_ms;
		return 0;
	case 'T':
		if (!parse_u64(arg, &tables) || !tables || tables > TABLES_MOST)
			argp_error(state, "'%s' is not a number of leaf tables from 1 to %lu", arg, TABLES_MOST);
		return 0;
	case 'p':
		if (!parse_u64(arg, &pause_seconds) || pause_seconds > SECONDS_MOST)
			argp_error(state, "'%s' is not a number of seconds up to %lu", arg, SECONDS_MOST);
		return 0;
	case 'm':
		if (!parse_u64(arg, &moves) || moves > MOVES_MOST)
			argp_error(state, "'%s' is not a number of moves up to %lu", arg, MOVES_MOST);
		return 0;
	case 'd':
		if (!parse_u64(arg, &dwell) || !dwell || dwell > SECONDS_MOST)
			argp_error(state, "'%s' is not a number of seconds from 1 to %lu", arg, SECONDS_MOST);
		return 0;
	case 'r':
		if (!parse_u64(arg, &per_phase) || !per_phase || per_phase > 1000)
			argp_error(state, "'%s' is not a number of rounds from 1 to 1000", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "tables", 'T', "N", 0, "Leaf page tables of each thread (default 4)", 0 },
	{ "pause", 'p', "S", 0, "Seconds until 'later' (default 5)", 0 },
	{ "moves", 'm', "N", 0, "Threads read no pages of others, but go to the next node N times", 0 },
	{ "dwell", 'd', "S", 0, "Seconds of a thread on a node, with --moves (default 30)", 0 },
	{ "rounds", 'r', "N", 0, "Each thread takes so many turns before, after and later (default 4)", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &auto_policy_argp }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.children = children,
	.parser = parse_option,
	.doc = "Count TLB shootdown interrupts of threads that protect pages of their own: before all threads have read all pages once or gone from node to node, after, and some seconds later. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

/* So that each CPU has one thread, wherever the threads are. */
static void need_equal_nodes(void)
{
	machine = machine_read();
	for (size_t i = 1; i < machine.node_count; i++)
		if (machine.node[i].cpu_count != machine.node[0].cpu_count)
			error(EXIT_LACKING, 0, "--moves needs as many CPUs on each node");
}

static void print(void)
{
	json_open_object(NULL);
	json_string("program", "decay");
	json_number("cpus", round_robin_count());
	json_number("data_tables", round_robin_count() * tables);
	json_open_list("moves");
	for (size_t i = 0; i < round_robin_count(); i++)
		json_number(NULL, moves_made[i]);
	json_close();
	json_number("pages_marked", pages_marked);
	json_number("replicas_at_start", looks[SETTLING].replicas);
	for (phase = BEFORE; phase < PHASES; phase++) {
		if (!phase_names[phase])
			continue;
		json_open_object(phase_names[phase]);
		round_robin_print_interrupts("interrupts", phase);
		json_number("replicas", looks[phase].replicas);
		json_number("pagetable_kib", looks[phase].kib);
		json_close();
	}
	auto_policy_print();
	json_close();
}

int main(int argc, char **argv)
{
	static const struct round_robin_kind kind = { .name = "protect", .turn = take_turn };
	struct round_robin turns = { .kind = &kind, .asked = answer };

	argp_parse(&argp, argc, argv, 0, NULL, &turns);
	/* Leaves ahead of all else if this kernel has no Hydra. */
	look(SETTLING);
	if (moves)
		need_equal_nodes();
	turns.rounds = rounds_of(SETTLING) + 3 * per_phase + pause_seconds;
	turns.seconds = 1e9;
	use_plain_memory();
	register_membarrier();
	round_robin_run(&turns);
	look(LATER);
	print();
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
