// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what patterns of programs cost, with threads that take turns: instructions of all CPUs,
 * interrupts for TLB shootdowns, page faults, page walks by a model. In a turn
 *
 *	own       a thread protects a page of its own and allows writing again; then it maps
 *	          another one, writes to it and unmaps it
 *	protect   it does the first half of that
 *	one       it protects the page that all threads have just read, and allows writing
 *	pages     it writes to its page of a table that all threads share, and gives it back
 *	save      it writes to pages of its part of a store, of which a child process holds
 *	          the state: so each is copied
 *	fork      it starts a process that executes a program, and waits for its end
 *
 * and in the turn of the first thread
 *
 *	quiet     all threads compute, and now and then the first protects a page of its own
 *	read      all threads read 1 GiB that the first has written, at random, and compute
 *
 * phases is own and one in turns.
 *
 * The first turns do not count, nor do those until policy "auto" has decided (--decide). The
 * time-stamp counter tells the instructions: the machine has to count its time in them (-icount),
 * and some thread is always busy, so that no time is skipped.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include "auto_policy.h"
#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "markers.h"
#include "own_hydra.h"
#include "places.h"
#include "procfile.h"
#include "round_robin.h"

#define WARM_UP_TURNS 256UL		/* the filters have tried each table, tables that are not used are forgotten */
#define STAMPS_MOST 4096UL
#define ROUNDS_MOST 50000UL

#define SHARED ROUND_ROBIN_PLACE			/* a table for what threads share */
#define OWN (ROUND_ROBIN_PLACE + TABLE)			/* and one for each thread */
#define BIG (ROUND_ROBIN_PLACE + GIB)

#define PHASES 4UL
#define SAVED 16UL			/* pages of each thread, written until the next child comes */
#define BIG_TABLES 512UL		/* policy "auto" counts walks from 1 GiB on */
#define BIG_PAGES 16UL			/* of each table */
#define READS 256			/* of each thread in a round */
#define SAMPLE_READS 8192		/* of each thread, for the model of TLBs */
#define THINKING 50			/* times round a loop, for each read */
#define COMPUTING 25000			/* the same, for quiet */
#define QUIET_ROUNDS 256UL		/* two flushes of 7 CPUs in 100 million instructions */

#define GROUPS "/sys/fs/cgroup"
#define GROUP GROUPS "/costs"
#define ROOM (32 * PAGE)		/* policy "auto" wants 64 pages */
#define ROOM_ROUND 4			/* by then each thread has its pages */
#define ENDS_AT_ONCE "costs-end"

enum left { LEFT_NOT, LEFT_REALTIME, LEFT_LOCKED, LEFT_MEMORY };

static const char *const left_names[] = { "-", "realtime", "locked", "memory", NULL };

struct options {
	struct round_robin turns;
	uint64_t batch;
	enum left left;
	bool registered;
};

static struct options options = { .turns = { .rounds = 64, .seconds = 1e9 }, .batch = 1 };
static uint64_t warm_up, counted;	/* rounds */
static uint64_t round_now;		/* since policy "auto" has decided */
static uint64_t phase;
static uint64_t stamp[STAMPS_MOST];
static size_t stamps;
static uint64_t interrupts, faults;
static struct own_hydra at_the_end;
static bool sampled;
static void (*volatile asked)(struct worker *worker);

/* --- What is counted -------------------------------------------------------------------------------------------- */

static uint64_t faults_until_now(void)
{
	struct rusage own, children;

	if (getrusage(RUSAGE_SELF, &own) || getrusage(RUSAGE_CHILDREN, &children))
		error(EXIT_FAILURE, errno, "getrusage");
	return own.ru_minflt + own.ru_majflt + children.ru_minflt + children.ru_majflt;
}

static void write_limit(const char *text)
{
	if (!file_write(GROUP "/memory.max", text))
		error(EXIT_FAILURE, errno, "cannot limit memory to %s in %s", text, GROUP);
}

static void leave_little_room(void)
{
	char *used = file_read(GROUP "/memory.current"), text[32];

	if (!used)
		error(EXIT_FAILURE, errno, "cannot read %s/memory.current", GROUP);
	snprintf(text, sizeof(text), "%llu", strtoull(used, NULL, 10) + ROOM);
	free(used);
	write_limit(text);
}

/* The counts that take instructions are read outside of what is stamped. */
static void start_counting(void)
{
	faults = faults_until_now();
	interrupts = shootdown_interrupts();
}

static void stop_counting(void)
{
	interrupts = shootdown_interrupts() - interrupts;
	faults = faults_until_now() - faults;
	/* Ahead of the next look: policy "auto" may split a process that has room again. */
	at_the_end = own_hydra_read();
	if (options.left == LEFT_MEMORY)
		write_limit("max");
}

/* The last round ends the counting. */
static void plan_rounds(void)
{
	warm_up = (WARM_UP_TURNS + round_robin_count() - 1) / round_robin_count();
	if (warm_up > counted)
		warm_up = counted;
	options.turns.rounds = warm_up + counted + 1;
}

/* The first thread begins each round. */
static void begin_round(void)
{
	static uint64_t rounds_begun;

	if (!rounds_begun)
		plan_rounds();
	if (++rounds_begun == ROOM_ROUND && options.left == LEFT_MEMORY)
		leave_little_room();
	if (round_robin_is_warming_up())
		return;
	if (round_now == warm_up)
		start_counting();
	if (round_now >= warm_up && (round_now - warm_up) % options.batch == 0)
		stamp[stamps++] = __rdtsc();
	if (round_now == warm_up + counted)
		stop_counting();
	phase = round_now < warm_up ? 0 : (round_now - warm_up) * PHASES / counted;
	round_now++;
}

static bool is_over(void)
{
	return round_now > warm_up + counted;
}

/* --- What threads do -------------------------------------------------------------------------------------------- */

static void answer(struct worker *worker)
{
	asked(worker);
}

static void ask_all(struct worker *worker, void (*what)(struct worker *worker))
{
	asked = what;
	round_robin_ask_all(worker);
}

static void protect_page(volatile char *page, int protection)
{
	if (mprotect((void *)page, PAGE, protection))
		error(EXIT_FAILURE, errno, "mprotect");
}

/* The touches make the entry accessed and dirty again. */
static void protect(volatile char *page)
{
	protect_page(page, PROT_READ);
	(void)*page;
	protect_page(page, PROT_READ | PROT_WRITE);
	*page = 1;
}

static char *map_page(char *at)
{
	if (mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
		error(EXIT_FAILURE, errno, "cannot map a page at %p", at);
	*(volatile char *)at = 1;
	return at;
}

/* A mapping of a page, which keeps the thread's table. */
static char *own_page(const struct worker *worker)
{
	static bool mapped[ROUND_ROBIN_MOST];
	char *page = OWN + worker->number * TABLE;

	if (!mapped[worker->number])
		map_page(page);
	mapped[worker->number] = true;
	return page;
}

static void change_own(const struct worker *worker)
{
	char *page = own_page(worker), *other;

	protect(page);
	/* Not beside the page: the kernel would make one mapping of both. */
	other = map_page(page + 2 * PAGE);
	if (munmap(other, PAGE))
		error(EXIT_FAILURE, errno, "munmap");
}

static void read_shared(struct worker *worker)
{
	(void)worker;
	(void)*(volatile char *)SHARED;
}

static void change_shared(struct worker *worker)
{
	ask_all(worker, read_shared);
	protect(SHARED);
}

static void begin_turn(const struct worker *worker)
{
	if (!worker->number)
		begin_round();
}

static void own(struct worker *worker)
{
	begin_turn(worker);
	change_own(worker);
}

static void only_protect(struct worker *worker)
{
	begin_turn(worker);
	protect(own_page(worker));
}

static void map_shared(void)
{
	map_page(SHARED);
}

static void one(struct worker *worker)
{
	begin_turn(worker);
	change_shared(worker);
}

static void phases(struct worker *worker)
{
	begin_turn(worker);
	if (phase % 2)
		change_shared(worker);
	else
		change_own(worker);
}

static void map_region(char *at, size_t size)
{
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at)
		error(EXIT_FAILURE, errno, "cannot map %zu MiB at %p", size >> 20, at);
}

static void map_table(void)
{
	map_region(SHARED, TABLE);
	*(volatile char *)SHARED = 1;
}

/* All threads use the table in each round. */
static void pages(struct worker *worker)
{
	char *page = SHARED + (1 + worker->number) * PAGE;

	begin_turn(worker);
	if (!worker->number)
		ask_all(worker, read_shared);
	*(volatile char *)page = 1;
	if (madvise(page, PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
}

static void map_store(void)
{
	map_region(OWN, ROUND_ROBIN_MOST * TABLE);
}

static void save(struct worker *worker)
{
	static uint64_t pages_written;		/* by the first thread */

	begin_turn(worker);
	if (!worker->number && pages_written++ % SAVED == 0)
		hold_pages();
	*(volatile char *)(OWN + worker->number * TABLE + pages_written % SAVED * PAGE) = 1;
}

static void start_process(struct worker *worker)
{
	char *const words[] = { ENDS_AT_ONCE, NULL };
	int status;
	pid_t child;

	begin_turn(worker);
	child = fork();
	if (!child) {
		execv("/proc/self/exe", words);
		_exit(EXIT_FAILURE);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		error(EXIT_FAILURE, errno, "a process");
}

/* Two instructions each time round */
static void think(uint64_t times)
{
	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(times) : : "cc");
}

static void compute(struct worker *worker)
{
	(void)worker;
	think(COMPUTING);
}

static void quiet(struct worker *worker)
{
	static uint64_t rounds;

	begin_turn(worker);
	if (worker->number)
		return;
	ask_all(worker, compute);
	if (rounds++ % QUIET_ROUNDS == 0)
		protect(own_page(worker));
}

static void map_big(void)
{
	map_region(BIG, BIG_TABLES * TABLE);
}

static volatile char *big_page(uint64_t number)
{
	return BIG + number / BIG_PAGES * TABLE + number % BIG_PAGES * PAGE;
}

static void write_big(void)
{
	for (uint64_t i = 0; i < BIG_TABLES * BIG_PAGES; i++)
		*big_page(i) = 1;
}

static void read_randomly(const struct worker *worker, size_t reads)
{
	static uint64_t states[ROUND_ROBIN_MOST];
	uint64_t random = states[worker->number] ?: 88172645463325252 + worker->number;

	for (size_t i = 0; i < reads; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		(void)*big_page(random % (BIG_TABLES * BIG_PAGES));
		think(THINKING);
	}
	states[worker->number] = random;
}

static void read_some(struct worker *worker)
{
	read_randomly(worker, READS);
}

static void read_many(struct worker *worker)
{
	read_randomly(worker, SAMPLE_READS);
}

/* The first pass warms the model up. */
static void count_walks(struct worker *worker)
{
	MARKER(MARK_START_MEMORY);
	ask_all(worker, read_many);
	MARKER(MARK_BEGIN);
	ask_all(worker, read_many);
	MARKER(MARK_END);
	MARKER(MARK_STOP);
	sampled = true;
}

static void read_big(struct worker *worker)
{
	static bool written;

	begin_turn(worker);
	if (worker->number)
		return;
	if (!written)
		write_big();
	written = true;
	if (is_over())
		count_walks(worker);
	else
		ask_all(worker, read_some);
}

static const struct round_robin_kind patterns[] = {
	{ "own", NULL, own }, { "protect", NULL, only_protect }, { "one", map_shared, one }, { "pages", map_table, pages },
	{ "save", map_store, save }, { "fork", NULL, start_process }, { "quiet", NULL, quiet }, { "read", map_big, read_big },
	{ "phases", map_shared, phases }, { 0 }
};

/* --- Why policy "auto" is to leave a process alone -------------------------------------------------------------- */

/* The thread sleeps: it takes no time of others. */
static _Noreturn void *sleep_realtime(void *argument)
{
	const struct sched_param lowest = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &lowest))
		error(EXIT_FAILURE, errno, "cannot make a thread one of SCHED_FIFO");
	pthread_barrier_wait(argument);
	for (;;)
		pause();
}

static void have_realtime_thread(void)
{
	pthread_barrier_t is_realtime;
	int cpu = machine_read().node[0].cpu[0];

	pthread_barrier_init(&is_realtime, NULL, 2);
	start_pinned(cpu, sleep_realtime, &is_realtime);
	pthread_barrier_wait(&is_realtime);
}

static void have_group(void)
{
	if (access(GROUPS "/cgroup.controllers", F_OK) && mount("cgroup2", GROUPS, "cgroup2", 0, NULL))
		error(EXIT_LACKING, errno, "cannot mount cgroup2 at %s", GROUPS);
	if (!file_write(GROUPS "/cgroup.subtree_control", "+memory"))
		error(EXIT_LACKING, errno, "no memory controller in %s", GROUPS);
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		error(EXIT_FAILURE, errno, "cannot make %s", GROUP);
	write_limit("max");
	if (!file_write(GROUP "/cgroup.procs", "0"))
		error(EXIT_FAILURE, errno, "cannot enter %s", GROUP);
}

static void be_left_alone(void)
{
	switch (options.left) {
	case LEFT_REALTIME:
		have_realtime_thread();
		break;
	case LEFT_LOCKED:
		if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
			error(EXIT_FAILURE, errno, "mlockall");
		break;
	case LEFT_MEMORY:
		have_group();
		break;
	case LEFT_NOT:
		break;
	}
}

/* --- The start -------------------------------------------------------------------------------------------------- */

static void take_reason(const char *arg, struct argp_state *state)
{
	for (size_t i = LEFT_REALTIME; left_names[i]; i++)
		if (!strcmp(left_names[i], arg))
			options.left = i;
	if (!options.left)
		argp_error(state, "'%s' is no reason: choose realtime, locked or memory", arg);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &options.turns;
		return 0;
	case 'b':
		if (!parse_u64(arg, &options.batch) || !options.batch)
			argp_error(state, "'%s' is not a number of rounds", arg);
		return 0;
	case 'R':
		options.registered = true;
		return 0;
	case 'l':
		take_reason(arg, state);
		return 0;
	case ARGP_KEY_END:
		counted = options.turns.rounds;
		if (counted > ROUNDS_MOST || counted % options.batch || counted / options.batch >= STAMPS_MOST)
			argp_error(state, "%ju rounds, at most %lu, must be fewer than %lu batches of %ju", (uintmax_t)counted,
				   ROUNDS_MOST, STAMPS_MOST, (uintmax_t)options.batch);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "batch", 'b', "N", 0, "Count instructions of N rounds at a time (default 1)", 0 },
	{ "registered", 'R', NULL, 0, "Register membarrier(2): mprotect() of a page is no barrier then", 0 },
	{ "left", 'l', "WHY", 0, "Be one of the programs that policy auto leaves alone: have a thread that is realtime, all memory locked, or memory run short", 0 },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PATTERN",
	.doc = "Count what patterns of programs cost: instructions, interrupts for TLB shootdowns, page faults. Prints one line of JSON. PATTERN is own, protect, one, pages, save, fork, quiet, read or phases.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

/* Runs before libnuma reads the machine's files. */
static void __attribute__((constructor(101))) end_at_once(int argc, char **argv)
{
	if (argc == 1 && !strcmp(argv[0], ENDS_AT_ONCE))
		_exit(0);
}

static void print(const struct own_hydra *seen)
{
	json_open_object(NULL);
	json_string("program", "costs");
	json_string("pattern", options.turns.kind->name);
	json_number("cpus", round_robin_count());
	json_number("turns", counted * round_robin_count());
	json_open_list("instructions");
	for (size_t i = 1; i < stamps; i++)
		json_number(NULL, stamp[i] - stamp[i - 1]);
	json_close();
	json_number("interrupts", interrupts);
	json_number("faults", faults);
	json_number("copies", seen->replica_tables + seen->upper_tables);
	json_number("split", seen->split);
	if (sampled) {
		json_number("reads", counted * round_robin_count() * READS);
		json_number("sample_reads", round_robin_count() * SAMPLE_READS);
		json_number("samples", 1);
		print_places(seen->cores);
	}
	auto_policy_print();
	json_close();
}

int main(int argc, char **argv)
{
	struct own_hydra first;

	options.turns.kinds = patterns;
	options.turns.asked = answer;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	/* Leaves ahead of all else if this kernel has no Hydra. */
	first = own_hydra_read();
	own_hydra_free(&first);
	use_plain_memory();
	if (options.registered)
		register_membarrier();
	be_left_alone();
	round_robin_run(&options.turns);
	print(&at_the_end);
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
