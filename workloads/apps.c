// SPDX-License-Identifier: GPL-2.0-only
/*
 * Does what programs do of which their users complain, with a thread on each
 * CPU, and counts the interrupts of each operation:
 *
 *	jit-new     a compiler of code that all threads run writes a new page of it:
 *	            allow writing, write, allow running. The other threads run other
 *	            pages of the same region.
 *	jit-patch   the same with a page that all threads run
 *	wasm-own    a pool of memories of WebAssembly instances: a thread takes a
 *	            memory, allows access, writes to it, gives the pages back and
 *	            forbids access. Each thread always takes the same memory.
 *	wasm-pool   the same; in each round the memories go to other threads
 *	save        a store is saved as Redis does: a child process, made anew in each
 *	            round, holds the data as they were, and a thread writes to a page
 *	            of its own part of them, so that the kernel copies the page
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "json.h"
#include "machine.h"
#include "round_robin.h"

#define CODE ROUND_ROBIN_PLACE
#define RETURN 0xc3			/* the instruction ret */
#define MEMORIES (ROUND_ROBIN_PLACE + GIB)
#define MEMORY_APART (4 * GIB)		/* what a 32-bit program of WebAssembly could reach */
#define MEMORY_PAGES 16UL
#define STRIDE 3			/* to another node of two CPUs, whatever the number of threads */

static volatile char *run_page = (char *)CODE;
static size_t pages_compiled = 1;

static void protect(char *at, size_t size, int protection)
{
	if (mprotect(at, size, protection))
		error(EXIT_FAILURE, errno, "mprotect of %zu pages at %p", size / PAGE, at);
}

static void compile(char *page)
{
	protect(page, PAGE, PROT_READ | PROT_WRITE);
	*(volatile unsigned char *)page = RETURN;
	protect(page, PAGE, PROT_READ | PROT_EXEC);
}

static void run(volatile char *page)
{
	((void (*)(void))(uintptr_t)page)();
}

/* All threads run the code that was compiled last. */
static void run_code(struct worker *worker)
{
	(void)worker;
	run(run_page);
}

static void reserve_code(void)
{
	if (mmap(CODE, TABLE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0) != CODE)
		error(EXIT_FAILURE, errno, "cannot map code at %p", CODE);
	compile(CODE);
}

static void compile_new(struct worker *worker)
{
	char *page = CODE + pages_compiled++ % (TABLE / PAGE) * PAGE;

	/* Page 0 is what the others run, so that their nodes use the page table. */
	if (pages_compiled <= round_robin_count() + 1)
		round_robin_ask_all(worker);
	if (page == CODE)
		page = CODE + pages_compiled++ % (TABLE / PAGE) * PAGE;
	compile(page);
	run(page);
	round_robin_operation(0);
}

static void compile_again(struct worker *worker)
{
	round_robin_ask_all(worker);
	compile(CODE);
	run(CODE);
	round_robin_operation(0);
}

static char *memory(size_t number)
{
	return MEMORIES + number * MEMORY_APART;
}

static void reserve_memories(void)
{
	for (size_t i = 0; i < ROUND_ROBIN_MOST; i++)
		if (mmap(memory(i), MEMORY_APART, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			 0) != memory(i))
			error(EXIT_FAILURE, errno, "cannot reserve memory at %p", memory(i));
}

static void use_memory(char *at)
{
	protect(at, MEMORY_PAGES * PAGE, PROT_READ | PROT_WRITE);
	for (size_t i = 0; i < MEMORY_PAGES; i++)
		*(volatile char *)(at + i * PAGE) = 1;
	if (madvise(at, MEMORY_PAGES * PAGE, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
	protect(at, MEMORY_PAGES * PAGE, PROT_NONE);
	round_robin_operation(0);
}

static void use_own(struct worker *worker)
{
	use_memory(memory(worker->number));
}

static void use_next(struct worker *worker)
{
	static uint64_t turn;

	use_memory(memory((worker->number + turn++ / round_robin_count() * STRIDE) % round_robin_count()));
}

/* A part for each thread, in a leaf page table of its own, as allocators with an arena for each thread give. */
static void map_store(void)
{
	if (mmap(ROUND_ROBIN_PLACE, ROUND_ROBIN_MOST * TABLE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != ROUND_ROBIN_PLACE)
		error(EXIT_FAILURE, errno, "cannot map a store at %p", ROUND_ROBIN_PLACE);
}

static void write_while_saving(struct worker *worker)
{
	if (!worker->number)
		hold_pages();
	/* The first gets this thread copies of the pages that it counts with. */
	round_robin_forget();
	round_robin_forget();
	*(volatile char *)(ROUND_ROBIN_PLACE + worker->number * TABLE) = 1;
	round_robin_operation(0);
}

static const struct round_robin_kind patterns[] = {
	{ "jit-new", reserve_code, compile_new },
	{ "jit-patch", reserve_code, compile_again },
	{ "wasm-own", reserve_memories, use_own },
	{ "wasm-pool", reserve_memories, use_next },
	{ "save", map_store, write_while_saving },
	{ 0 }
};

static const struct argp_child children[] = { { .argp = &round_robin_argp }, { 0 } };

static const struct argp argp = {
	.args_doc = "PATTERN",
	.children = children,
	.doc = "Count TLB shootdown interrupts of what programs do, with a thread on each CPU. Prints one line of JSON. PATTERN is jit-new: compile a new page of code that all threads run; jit-patch: change a page that all run; wasm-own: take a memory, use it, give its pages back; wasm-pool: the memories go round; save: write while a child process holds the data as they were.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

static void about(const struct round_robin *turns)
{
	json_string("pattern", turns->kind->name);
	json_number("cpus", round_robin_count());
}

int main(int argc, char **argv)
{
	struct round_robin turns = { .kinds = patterns, .asked = run_code, .rounds = 4, .seconds = 20 };

	argp_parse(&argp, argc, argv, 0, NULL, &turns);
	return round_robin_report(&turns, "apps", about);
}
