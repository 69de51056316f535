// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes pages that one thread uses, in a leaf page table that the threads of
 * all nodes share, and counts the interrupts of each operation:
 *
 *	drop      a thread writes to its page and gives it back (madvise)
 *	protect   a thread protects its page, and in its next turn allows writing
 *	copy      a thread reads a page of a private file mapping, then writes to it
 *	migrate   a thread writes to its page and moves it to the next node
 *	sync      a thread writes to a page of a file in the working directory, and
 *	          waits until it is written back (msync)
 *	reclaim   a thread reads a page of such a file and has the page reclaimed
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "json.h"
#include "machine.h"
#include "round_robin.h"

#define ALL_READ ROUND_ROBIN_PLACE		/* a page that all threads read, so that they share the table */
#define OWN (ROUND_ROBIN_PLACE + PAGE)

static char *own_page(const struct worker *worker)
{
	return OWN + worker->number * PAGE;
}

static void write_to(char *page)
{
	*(volatile char *)page = 1;
}

static void read_shared(struct worker *worker)
{
	(void)worker;
	(void)*(volatile char *)ALL_READ;
}

/* All threads join the table in the first round, and come back to it in each. */
static void share(struct worker *worker)
{
	if (!worker->number) {
		round_robin_ask_all(worker);
		round_robin_forget();
	}
}

static void drop(struct worker *worker)
{
	char *page = own_page(worker);

	share(worker);
	write_to(page);
	if (madvise(page, PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
	round_robin_operation(0);
}

/* Protects the page, and allows writing in the next turn. */
static void protect(struct worker *worker)
{
	static bool readable_only[ROUND_ROBIN_MOST];
	bool *mine = &readable_only[worker->number];
	volatile char *page = own_page(worker);

	share(worker);
	if (!*mine)
		*page = 1;
	*mine = !*mine;
	if (mprotect((void *)page, PAGE, *mine ? PROT_READ : PROT_READ | PROT_WRITE))
		error(EXIT_FAILURE, errno, "mprotect");
	(void)*page;
	round_robin_operation(0);
}

/* The write makes a copy; giving it back brings the file's page to the next round, and is no part of the operation. */
static void copy(struct worker *worker)
{
	char *page = own_page(worker);

	share(worker);
	if (madvise(page, PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
	(void)*(volatile char *)page;
	round_robin_forget();
	write_to(page);
	round_robin_operation(0);
}

static void migrate(struct worker *worker)
{
	void *page = own_page(worker);
	int node = round_robin_worker(worker->number + round_robin_count() / 2)->node, status = -1;
	static bool away[ROUND_ROBIN_MOST];

	share(worker);
	write_to(page);
	if (away[worker->number])
		node = worker->node;
	if (move_pages(0, 1, &page, &node, &status, MPOL_MF_MOVE) || status != node)
		error(EXIT_FAILURE, errno, "cannot move a page to node %d: status %d", node, status);
	away[worker->number] = !away[worker->number];
	round_robin_operation(0);
}

static void sync_page(struct worker *worker)
{
	char *page = own_page(worker);

	share(worker);
	write_to(page);
	round_robin_forget();
	if (msync(page, PAGE, MS_SYNC))
		error(EXIT_FAILURE, errno, "msync");
	round_robin_operation(0);
}

static void reclaim(struct worker *worker)
{
	char *page = own_page(worker);
	unsigned char there;

	share(worker);
	(void)*(volatile char *)page;
	round_robin_forget();
	if (madvise(page, PAGE, MADV_PAGEOUT) || mincore(page, PAGE, &there))
		error(EXIT_FAILURE, errno, "madvise");
	if (there & 1)
		error(EXIT_FAILURE, 0, "a page was not reclaimed");
	round_robin_operation(0);
}

/* A file of 2 MiB without a name; if on disk, what is in it has been written. */
static int open_file(bool on_disk)
{
	static char zeroes[TABLE];
	int file = on_disk ? open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) :
			     memfd_create("sharing", MFD_CLOEXEC);

	if (file < 0 || pwrite(file, zeroes, TABLE, 0) != TABLE || (on_disk && fsync(file)))
		error(EXIT_FAILURE, errno, "a file of 2 MiB %s", on_disk ? "in the working directory" : "in memory");
	return file;
}

static void map_table(int flags, int file)
{
	if (mmap(ROUND_ROBIN_PLACE, TABLE, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE | flags, file, 0) != ROUND_ROBIN_PLACE)
		error(EXIT_FAILURE, errno, "cannot map 2 MiB at %p", ROUND_ROBIN_PLACE);
}

static void map_memory(void)
{
	map_table(MAP_PRIVATE | MAP_ANONYMOUS, -1);
	write_to(ALL_READ);
}

static void map_copied(void)
{
	map_table(MAP_PRIVATE, open_file(false));
	write_to(ALL_READ);
}

static void map_disk(void)
{
	map_table(MAP_SHARED, open_file(true));
}

static const struct round_robin_kind changes[] = {
	{ "drop", map_memory, drop }, { "protect", map_memory, protect }, { "copy", map_copied, copy },
	{ "migrate", map_memory, migrate }, { "sync", map_disk, sync_page }, { "reclaim", map_disk, reclaim }, { 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.args_doc = "CHANGE",
	.children = children,
	.doc = "Count TLB shootdown interrupts of changes to pages of one thread, in a page table that all nodes share. Prints one line of JSON. CHANGE is drop: give a page back; protect: protect a page; copy: write to a page of a private file mapping; migrate: move a page to another node; sync: write a page of a file back; reclaim: have a page of a file reclaimed.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static void about(const struct round_robin *turns)
{
	json_string("change", turns->kind->name);
	json_number("cpus", round_robin_count());
}

int main(int argc, char **argv)
{
	struct round_robin turns = { .kinds = changes, .asked = read_shared, .rounds = 4, .seconds = 20 };

	argp_parse(&argp, argc, argv, 0, NULL, &turns);
	return round_robin_report(&turns, "sharing", about);
}
