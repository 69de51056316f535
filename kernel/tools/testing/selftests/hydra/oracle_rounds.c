// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's rounds: with --wander, domains forget leaf tables, the process returns to plain
 * Linux, and leaf tables move to another node, all while operations go on.
 *
 * All threads meet on the CPUs of one node. Other domains then forget their tables. When no
 * other domain has run the process for as long as its trees stay, the process returns to plain
 * Linux. Then its leaf tables move to the node. Now each thread goes back to its own CPU, and
 * the process is split again. The next round is on the next node.
 */
#include <unistd.h>

#include "kselftest.h"
#include "oracle.h"

/*
 * Seconds from a meeting to its end at the latest. The trees of the process stay for a second
 * at first, and with each split for twice as long, up to 64 seconds.
 */
#define TOGETHER_S	8
#define TOGETHER_MAX_S	128
#define APART_S		2	/* seconds from the start to the first meeting */
#define LOOK_S		0.5	/* seconds from one look for tables to the next: faults wait */

/* What rounds are for, and how often it has happened */
enum { FORGOTTEN, RETURNED, MOVED };

static struct {
	const char *name;
	atomic_ulong times;
} aims[] = {
	[FORGOTTEN] = { .name = "domains forget leaf tables" },
	[RETURNED] = { .name = "the process returns to plain Linux" },
	[MOVED] = { .name = "leaf tables move to another node" },
};

/* Where the threads meet. The CPUs change only while the number is 0: threads are apart. */
static struct {
	int cpus[HYDRA_MAX_CPUS];
	atomic_int number;
} meeting;

static struct {
	int node;		/* of the last meeting */
	double began, end;	/* of this meeting, or of the time apart; the end at the latest */
	double together;	/* seconds from a meeting to its end */
	double looked;		/* for tables */
	bool split;
	int tables;		/* node_of_tables() */
	unsigned long moved;	/* before this meeting */
} now;

int place(int cpu)
{
	int number = atomic_load(&meeting.number);

	return number ? meeting.cpus[cpu % number] : cpu;
}

/* The node of the leaf tables of all own pages; -1: several nodes, or node 0 lacks a table */
static int node_of_tables(void)
{
	size_t size = nr_probes() * TABLE_SIZE;
	struct hydra_map_part part;

	if (hydra_read_map(getpid(), 0, (void *)OWN_AT, size, &part) || part.ranges != 1 ||
	    part.bytes != size)
		return -1;
	return part.node;
}

/* This node makes the tables. If it gets its tree just now, it may need them once more. */
static void make_tables(void)
{
	for (unsigned int i = 0; i < nr_probes(); i++)
		hydra_try_write((char *)OWN_AT + i * TABLE_SIZE, 1);
	now.tables = node_of_tables();
}

void begin_rounds(void)
{
	now.tables = -1;
	for (int i = 0; i < 10 && now.tables < 0; i++)
		make_tables();
	now.together = TOGETHER_S;
	now.began = hydra_seconds();
	now.end = now.began + APART_S;
}

static void meet(void)
{
	now.node = (now.node + 1) % hydra_nodes();
	now.moved = atomic_load(&aims[MOVED].times);
	now.end = hydra_seconds() + now.together;
	hydra_pin_to_node(now.node);
	atomic_store(&meeting.number, hydra_node_cpus(now.node, meeting.cpus));
}

/* For as long as the meeting has taken: half of the operations are done by a split process. */
static void part(void)
{
	now.end = 2 * hydra_seconds() - now.began;
	atomic_store(&meeting.number, 0);
	hydra_pin_to_node(0);
}

/* No operation makes the process plain Linux: see SWITCHES. */
static void count_return(void)
{
	long split = hydra_number("/proc/self/hydra", "split");

	if (split < 0)
		return;
	if (now.split && !split) {
		atomic_fetch_add(&aims[RETURNED].times, 1);
		if (now.together < TOGETHER_MAX_S)
			now.together *= 2;
	}
	now.split = split;
}

static void count_move(void)
{
	int node = node_of_tables();

	now.looked = hydra_seconds();
	if (node < 0 || node == now.tables)
		return;
	if (now.tables >= 0)
		atomic_fetch_add(&aims[MOVED].times, 1);
	now.tables = node;
}

void go_round(void)
{
	bool together = atomic_load(&meeting.number), done = false;
	long forgotten = hydra_number("/proc/self/hydra", "forgotten");

	if (forgotten > 0)
		atomic_store(&aims[FORGOTTEN].times, forgotten);
	count_return();
	if (together && !now.split && hydra_seconds() > now.looked + LOOK_S) {
		count_move();
		done = atomic_load(&aims[MOVED].times) > now.moved;
	}
	if (!done && hydra_seconds() < now.end)
		return;
	if (together)
		part();
	else
		meet();
	now.began = hydra_seconds();
}

bool rounds_worked(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(aims); i++)
		if (!atomic_load(&aims[i].times))
			return false;
	return true;
}

void tell_rounds(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(aims); i++) {
		unsigned long times = atomic_load(&aims[i].times);

		ksft_print_msg("%-34s done %6lu%s\n", aims[i].name, times,
			       times ? "" : " <- NOT MET");
	}
}
