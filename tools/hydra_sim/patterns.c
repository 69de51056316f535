// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patterns of programs. Each thread is bound to a CPU unless the pattern moves it, and does
 * one thing a tick. Where a pattern says "its table", the thread on CPU c has table c.
 */
#include <stddef.h>

#include "sim.h"

struct plan plan = { .sockets = 4, .cpus = 2, .seconds = 120, .tick_us = 50000, .seed = 1 };

#define SECOND		1000000u	/* us */
#define BIG		1024		/* tables of big data: 2 GiB */
#define SHARED		MAX_CPUS	/* the first table that several threads use */
#define READS		4		/* tables of big data that a thread reads in a tick */

static void (*emit_record)(const struct record *r);
static u64 state;
static u32 now_us;

static void emit(enum op op, u32 cpu, u32 page, u32 n)
{
	emit_record(&(struct record){ now_us, cpu, op, page, n });
}

static u32 all_cpus(void)
{
	return plan.sockets * plan.cpus;
}

static bool ticks(void)
{
	now_us += plan.tick_us;
	return now_us < plan.seconds * SECOND;
}

static u32 tick(void)
{
	return now_us / plan.tick_us;
}

static void run(u32 first, u32 nr, enum op op)
{
	u32 cpu;

	for (cpu = first; cpu < first + nr; cpu++)
		emit(op, cpu, 0, 0);
}

static void use(u32 cpu, u32 table, u32 page, u32 n)
{
	emit(OP_USE, cpu, table * PAGES + page % PAGES, n);
}

static void flush(u32 cpu, u32 table, u32 page, u32 n)
{
	emit(OP_FLUSH, cpu, table * PAGES + page % PAGES, n);
}

/* A page of a table is used and changed: mprotect(), or munmap() and mmap(). */
static void use_and_flush(u32 cpu, u32 table, u32 page)
{
	use(cpu, table, page, 1);
	flush(cpu, table, page, 1);
}

static void all_own(void)
{
	u32 cpu;

	for (cpu = 0; cpu < all_cpus(); cpu++)
		use_and_flush(cpu, cpu, tick());
}

static void all_one(void)
{
	u32 cpu;

	for (cpu = 0; cpu < all_cpus(); cpu++)
		use(cpu, SHARED, 0, 1);
	flush(tick() % all_cpus(), SHARED, 0, 1);
}

static void read_big(u32 cpu, u32 tables)
{
	u32 i;

	for (i = 0; i < READS; i++)
		use(cpu, SHARED + draw(&state, tables), draw(&state, PAGES - 16), 16);
}

static void all_read_big(void)
{
	u32 cpu;

	for (cpu = 0; cpu < all_cpus(); cpu++)
		read_big(cpu, BIG);
}

/* One page of each table: the first use says where the table is. */
static void write_big(u32 cpu)
{
	u32 table;

	for (table = SHARED; table < SHARED + BIG; table++)
		use(cpu, table, 0, 1);
}

static void make_node(void)
{
	u32 cpu;

	run(0, plan.cpus, OP_RUN);
	while (ticks())
		for (cpu = 0; cpu < plan.cpus; cpu++)
			use_and_flush(cpu, cpu, tick());
}

static void make_fork(void)
{
	u32 cpu, last = 0;

	run(0, 1, OP_RUN);
	while (ticks()) {
		cpu = tick() % all_cpus();
		emit(OP_FREE, last, 0, PAGES);
		emit(OP_STOP, last, 0, 0);
		emit(OP_RUN, cpu, 0, 0);
		use(cpu, 0, 0, 32);
		last = cpu;
	}
}

/* All threads, for less than a second: then nothing runs. */
static void make_short(void)
{
	run(0, all_cpus(), OP_RUN);
	while (ticks() && now_us < SECOND - SECOND / 10)
		all_own();
	run(0, all_cpus(), OP_STOP);
}

static void make_own(void)
{
	run(0, all_cpus(), OP_RUN);
	while (ticks())
		all_own();
}

static void make_one(void)
{
	run(0, all_cpus(), OP_RUN);
	while (ticks())
		all_one();
}

static void make_pages(void)
{
	u32 cpu;

	run(0, all_cpus(), OP_RUN);
	while (ticks())
		for (cpu = 0; cpu < all_cpus(); cpu++)
			use_and_flush(cpu, SHARED + tick() % 8, cpu);
}

static void make_read_all(void)
{
	run(0, all_cpus(), OP_RUN);
	write_big(0);
	while (ticks())
		all_read_big();
}

static void make_read_one(void)
{
	run(0, 1, OP_RUN);
	write_big(0);
	while (ticks())
		read_big(0, BIG);
}

/* A quarter of the time as own; then the threads visit the other sockets; then as own. */
static void make_decay(void)
{
	u32 cpu, socket, visit, quarter = plan.seconds * SECOND / 4;

	run(0, all_cpus(), OP_RUN);
	while (ticks()) {
		socket = now_us < quarter ? 0 : (now_us - quarter) * 10ULL / quarter;
		visit = socket < plan.sockets ? socket * plan.cpus : 0;
		for (cpu = 0; cpu < all_cpus(); cpu++)
			use_and_flush((cpu + visit) % all_cpus(), cpu, tick());
	}
}

static void make_phases(u32 seconds)
{
	static void (*const phases[])(void) = { all_own, all_one, all_read_big };

	run(0, all_cpus(), OP_RUN);
	write_big(0);
	while (ticks())
		phases[now_us / (seconds * SECOND) % 3]();
}

static void make_short_phases(void)
{
	make_phases(5);
}

static void make_long_phases(void)
{
	make_phases(60);
}

/* Threads spend a quarter of the time on each of four sockets; their data stays. */
static void moved(u32 threads)
{
	u32 socket, last = 0, cpu;

	run(0, threads, OP_RUN);
	write_big(0);
	while (ticks()) {
		socket = now_us * 4ULL / (plan.seconds * SECOND) % plan.sockets;
		if (socket != last) {
			run(last * plan.cpus, threads, OP_STOP);
			run(socket * plan.cpus, threads, OP_RUN);
		}
		last = socket;
		for (cpu = 0; cpu < threads; cpu++) {
			read_big(socket * plan.cpus + cpu, BIG);
			use_and_flush(socket * plan.cpus + cpu, cpu, tick());
		}
	}
}

static void make_moved(void)
{
	moved(1);
}

static void make_moved_all(void)
{
	moved(plan.cpus);
}

/* Threads allocate; once a second all of them go through all tables, and give memory back. */
static void make_collect(void)
{
	u32 cpu, table;

	run(0, all_cpus(), OP_RUN);
	while (ticks()) {
		for (cpu = 0; cpu < all_cpus(); cpu++) {
			use(cpu, cpu, tick() * 8, 8);
			if (now_us % SECOND)
				continue;
			for (table = 0; table < all_cpus(); table++)
				use(cpu, table, cpu, 1);
			flush(cpu, cpu, 0, PAGES / 2);
		}
	}
}

/* Requests: a file is mapped, read and unmapped; one in 16 reads what all threads read. */
static void make_server(void)
{
	u32 cpu;

	run(0, all_cpus(), OP_RUN);
	while (ticks())
		for (cpu = 0; cpu < all_cpus(); cpu++) {
			use(cpu, cpu, tick() * 4, 4);
			flush(cpu, cpu, tick() * 4, 4);
			if (!draw(&state, 16))
				use(cpu, SHARED + draw(&state, 4), draw(&state, PAGES), 1);
		}
}

/* A child saves: the writer copies a page at each write; the other threads read the store. */
static void make_save(void)
{
	u32 cpu, page, i;

	run(0, all_cpus(), OP_RUN);
	while (ticks()) {
		for (i = 0; i < 8; i++) {
			page = draw(&state, 16 * PAGES);
			use_and_flush(0, SHARED + page / PAGES, page);
		}
		for (cpu = 1; cpu < all_cpus(); cpu++)
			use(cpu, SHARED + draw(&state, 16), draw(&state, PAGES), 1);
	}
}

/* The last CPU computes alone; the first one does the program's mapping. */
static void make_isolated(void)
{
	emit(OP_RUN, 0, 0, 0);
	emit(OP_RUN, all_cpus() - 1, 0, 0);
	use(all_cpus() - 1, SHARED, 0, PAGES);
	while (ticks())
		use_and_flush(0, 0, tick());
}

/* Each socket reads one page of each table, and comes back no more. */
static void make_once(void)
{
	u32 socket, table = 0, last = 0;

	run(0, all_cpus(), OP_RUN);
	write_big(0);
	while (ticks()) {
		socket = now_us * (u64)plan.sockets / (plan.seconds * SECOND);
		table = socket == last ? table : 0;
		last = socket;
		if (table < BIG)
			use(socket * plan.cpus, SHARED + table, table, 1);
		table++;
	}
}

/* A thread for each request, on the sockets in turn, uses 16 pages of the same stack. */
static void make_request(void)
{
	u32 cpu;

	run(0, all_cpus(), OP_RUN);
	while (ticks()) {
		cpu = tick() % plan.sockets * plan.cpus;
		use(cpu, 0, 0, 16);
		flush(cpu, 0, 0, 16);
	}
}

/* Nested tables: all vCPUs use all memory, and once a second the host protects a part. */
static void make_guest(void)
{
	u32 table;

	run(0, all_cpus(), OP_RUN);
	write_big(0);
	while (ticks()) {
		all_read_big();
		if (now_us % SECOND)
			continue;
		table = SHARED + draw(&state, BIG / 64) * 64;
		emit(OP_CHANGE, 0, table * PAGES, 63 * PAGES);
		flush(0, table + 63, 0, PAGES);
	}
}

const struct pattern patterns[] = {
	{ "node", "a thread on each CPU of one socket, each changes its table", make_node },
	{ "fork", "one thread in one table, which is freed at each tick, on another CPU each time", make_fork },
	{ "short", "own, for less than a second", make_short },
	{ "own", "a thread on each CPU, each uses and changes pages of its table", make_own },
	{ "one", "all threads use one page, and one of them changes it", make_one },
	{ "pages", "all threads use the same tables, each changes a page of its own", make_pages },
	{ "read-all", "all threads read 2 GiB at random", make_read_all },
	{ "read-one", "one thread reads 2 GiB at random", make_read_one },
	{ "decay", "own; then each thread visits each socket; then own", make_decay },
	{ "phases", "own, one, read-all, for 5 seconds each", make_short_phases },
	{ "phases-60", "own, one, read-all, for 60 seconds each", make_long_phases },
	{ "moved", "one thread reads 2 GiB, on four sockets in turn", make_moved },
	{ "moved-all", "the same with all threads of a socket", make_moved_all },
	{ "collect", "threads allocate, and once a second go through all memory (a garbage collector)", make_collect },
	{ "server", "threads map, read and unmap files of their own, and read shared data", make_server },
	{ "save", "one thread copies pages that it writes, the others read the same tables", make_save },
	{ "isolated", "one CPU computes, one on another socket maps and unmaps", make_isolated },
	{ "once", "each socket in turn reads a page of each of 1,024 tables, once", make_once },
	{ "request", "threads on the sockets in turn use one stack, and give it back", make_request },
	{ "guest", "nested tables of a virtual machine: read-all, and write protection of 128 MiB", make_guest },
	{ NULL, NULL, NULL }
};

void pattern_make(const struct pattern *pattern, void (*emit_to)(const struct record *r))
{
	emit_record = emit_to;
	state = plan.seed;
	now_us = 0;
	pattern->make();
	now_us = plan.seconds * SECOND;
	emit(OP_END, 0, 0, 0);
}
