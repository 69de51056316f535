// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads work on memory of their own, and go from node to node meanwhile, as a
 * scheduler moves them; Linux's NUMA balancing is on. Each passes over its
 * memory, gives a page back, and after some seconds goes on to the next node
 * (--stay: it does not). With --settle each then stays where it is, and works
 * on. Counts the interrupts for each page given back in the last quarter of the
 * time, or of the time that the threads stay, and the page tables at the end.
 * The main thread sleeps on the first node.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <numaif.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "interrupts.h"
#include "json.h"
#include "machine.h"
#include "own_hydra.h"
#include "page_tables.h"
#include "procfile.h"

#define PAGE 4096UL
#define TABLE (2UL << 20)		/* what a leaf table maps */
#define PLACE ((char *)(1UL << 40))
#define BALANCING "/proc/sys/kernel/numa_balancing"
#define VMSTAT "/proc/vmstat"

struct wanderer {
	/* A cache line of its own. */
	volatile uint64_t given_back __attribute__((aligned(64)));
	volatile uint64_t moves;
	size_t node, cpu;		/* places in the lists of nodes, and of CPUs of the node */
	volatile char *data;
};

/* What has happened until now. */
struct sums {
	uint64_t given_back, interrupts, hints, updates, migrated;
};

static uint64_t tables = 2, seconds = 20, dwell = 4, settle;
static bool stay;
static uint64_t moves;			/* of each thread */
static struct machine machine;
static struct wanderer *wanderers;
static size_t count;

static void use_own(struct wanderer *own)
{
	volatile char *page = own->data + own->given_back % (TABLE / PAGE) * PAGE;

	for (size_t offset = 0; offset < tables * TABLE; offset += PAGE)
		own->data[offset] = 1;
	if (madvise((void *)page, PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
	own->given_back++;
}

static void go_on(struct wanderer *own)
{
	const struct node *node;

	own->node = (own->node + 1) % machine.node_count;
	node = &machine.node[own->node];
	pin_self(node->cpu[own->cpu % node->cpu_count]);
	own->moves++;
}

static _Noreturn void *work(void *argument)
{
	struct wanderer *own = argument;
	double next = now() + dwell;

	for (;;) {
		use_own(own);
		if (own->moves < moves && now() >= next) {
			go_on(own);
			next += dwell;
		}
	}
}

static uint64_t vmstat(const struct records *records, const char *key)
{
	const char *text = records_get(records, key);
	uint64_t value;

	if (!text || !parse_u64(text, &value))
		error(EXIT_LACKING, 0, VMSTAT " has no number '%s': boot a kernel built with CONFIG_NUMA_BALANCING", key);
	return value;
}

static struct sums read_sums(void)
{
	struct sums sums = { .interrupts = shootdown_interrupts() };
	struct records records;
	char *text = file_read(VMSTAT);

	if (!text || !records_parse(&records, text, NULL))
		error(EXIT_FAILURE, errno, "cannot read " VMSTAT);
	for (size_t i = 0; i < count; i++)
		sums.given_back += wanderers[i].given_back;
	sums.hints = vmstat(&records, "numa_hint_faults");
	sums.updates = vmstat(&records, "numa_pte_updates");
	sums.migrated = vmstat(&records, "numa_pages_migrated");
	records_free(&records);
	return sums;
}

static void need_balancing(void)
{
	char *text = file_read(BALANCING);

	if (!text || *text == '0')
		error(EXIT_LACKING, 0, "NUMA balancing is off: write 1 to " BALANCING);
	free(text);
}

/* Small pages that NUMA balancing may move. */
static void use_balanced_memory(void)
{
	use_plain_memory();
	if (set_mempolicy(MPOL_DEFAULT, NULL, 0))
		error(EXIT_FAILURE, errno, "cannot let memory move");
}

static void start_all(void)
{
	size_t number = 0, each = tables * TABLE;

	for (size_t i = 0; i < machine.node_count; i++)
		count += machine.node[i].cpu_count;
	wanderers = aligned_alloc(_Alignof(struct wanderer), count * sizeof(*wanderers));
	if (!wanderers)
		error(EXIT_FAILURE, errno, "list of threads");
	if (mmap(PLACE, count * each, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != PLACE)
		error(EXIT_FAILURE, errno, "cannot map %zu KiB at %p", count * each / 1024, PLACE);
	for (size_t i = 0; i < machine.node_count; i++)
		for (size_t j = 0; j < machine.node[i].cpu_count; j++, number++) {
			wanderers[number] = (struct wanderer){ .node = i, .cpu = j, .data = PLACE + number * each };
			start_pinned(machine.node[i].cpu[j], work, &wanderers[number]);
		}
}

static void sleep_for(double time)
{
	struct timespec left = { .tv_sec = time, .tv_nsec = (time - (time_t)time) * 1e9 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static bool parse_seconds(const char *text, uint64_t *value)
{
	return parse_u64(text, value) && *value && *value <= 3600;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'T':
		if (!parse_u64(arg, &tables) || !tables || tables > 64)
			argp_error(state, "'%s' is not a number of leaf tables from 1 to 64", arg);
		return 0;
	case 's':
		if (!parse_seconds(arg, &seconds))
			argp_error(state, "'%s' is not a number of seconds from 1 to 3600", arg);
		return 0;
	case 'd':
		if (!parse_seconds(arg, &dwell))
			argp_error(state, "'%s' is not a number of seconds from 1 to 3600", arg);
		return 0;
	case 't':
		if (!parse_seconds(arg, &settle))
			argp_error(state, "'%s' is not a number of seconds from 1 to 3600", arg);
		return 0;
	case 'S':
		stay = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "tables", 'T', "N", 0, "Leaf page tables of each thread (default 2)", 0 },
	{ "seconds", 's', "S", 0, "Go from node to node so long (default 20)", 0 },
	{ "dwell", 'd', "S", 0, "Seconds of a thread on a node (default 4)", 0 },
	{ "settle", 't', "S", 0, "Then stay so long, and count in the last quarter of that", 0 },
	{ "stay", 'S', NULL, 0, "Threads stay on their nodes from the start", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count TLB shootdown interrupts and page tables of threads that work on memory of their own and go from node to node. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static void print(const struct sums *from, const struct sums *to, const struct own_hydra *own, uint64_t kib)
{
	json_open_object(NULL);
	json_string("program", "wander");
	json_number("cpus", count);
	json_number("data_tables", count * tables);
	json_number("given_back", to->given_back - from->given_back);
	json_number("interrupts", to->interrupts - from->interrupts);
	json_open_list("moves");
	for (size_t i = 0; i < count; i++)
		json_number(NULL, wanderers[i].moves);
	json_close();
	json_number("replicas", own->replica_tables);
	json_number("pagetable_kib", kib);
	json_number("hints", to->hints);
	json_number("updates", to->updates);
	json_number("migrated", to->migrated);
	json_close();
}

int main(int argc, char **argv)
{
	struct sums start, late, end;
	struct own_hydra own;
	double counted;
	uint64_t kib;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	moves = stay ? 0 : seconds / dwell;
	counted = (settle ?: seconds) * 0.25;
	own = own_hydra_read();
	own_hydra_free(&own);
	machine = machine_read();
	need_balancing();
	use_balanced_memory();
	pin_self(machine.node[0].cpu[0]);
	start = read_sums();
	start_all();
	sleep_for(seconds + settle - counted);
	late = read_sums();
	sleep_for(counted);
	end = read_sums();
	own = own_hydra_read();
	kib = page_tables_kib();
	end.hints -= start.hints;
	end.updates -= start.updates;
	end.migrated -= start.migrated;
	print(&late, &end, &own, kib);
	/* The end of the process ends the threads. */
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
