// SPDX-License-Identifier: GPL-2.0-only
/* The rows in which one thread changes its own address space. */
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

#define MANY (4UL << 20)		/* of a large operation */
#define SOME (64UL << 10)		/* sizes between, of the papers' sweeps */
#define MORE (512UL << 10)
#define RESERVED (512UL << 20)
#define COMMITTED (1UL << 20)
#define STACK (8UL << 20)
#define NEIGHBOUR (16 * PAGE)	/* bytes from it to the measured page */
#define FILE_SIZE (16 * PAGE)		/* what one fault maps of a file */

static void protect(char *at, size_t size, int protection)
{
	if (mprotect(at, size, protection))
		error(EXIT_FAILURE, errno, "mprotect");
}

static void drop(char *at, size_t size)
{
	if (madvise(at, size, MADV_DONTNEED))
		error(EXIT_FAILURE, errno, "madvise");
}

static void map_table(struct place *place)
{
	place_touch(place_map(place->at, TABLE), TABLE);
}

static void map_size(struct place *place)
{
	place_touch(place_map(place->at, place->size), place->size);
}

static void touch_page(struct place *place)
{
	*(volatile char *)place->at = 1;
}

/* Ahead of a minor fault: the page goes, its leaf table stays. */
static void drop_page(struct place *place)
{
	drop(place->at, PAGE);
}

/* Large enough that each sample touches a part that has no leaf table yet. */
static void map_without_tables(struct place *place)
{
	place_map(place->at, GIB - TABLE);
	touch_page(place);
}

static void next_table(struct place *place)
{
	place->at += TABLE;
}

/* A child holds every page, so that each write copies one. */
static void share_with_child(struct place *place)
{
	map_table(place);
	place->child = fork();
	if (place->child < 0)
		error(EXIT_FAILURE, errno, "fork");
	while (!place->child)
		pause();
}

static void next_page(struct place *place)
{
	place->at += PAGE;
}

static void end_child(struct place *place)
{
	kill(place->child, SIGKILL);
	waitpid(place->child, NULL, 0);
}

/* A neighbour in the same table keeps it; between them there is a gap, so that they stay two mappings. */
static void map_neighbour(struct place *place)
{
	place_touch(place_map(place->at, PAGE), PAGE);
	place->at += NEIGHBOUR;
}

static void unmap_size(struct place *place)
{
	place_unmap(place->at, place->size);
}

static void map_touch_unmap(struct place *place)
{
	map_size(place);
	unmap_size(place);
}

static void allow_size(struct place *place)
{
	protect(place->at, place->size, PROT_READ | PROT_WRITE);
	place_touch(place->at, place->size);
}

static void deny_size(struct place *place)
{
	protect(place->at, place->size, PROT_READ);
}

static void touch_table(struct place *place)
{
	place_touch(place->at, TABLE);
}

static void drop_table(struct place *place)
{
	drop(place->at, TABLE);
}

static void map_movable(struct place *place)
{
	map_size(place);
	place->other = place->at + 2 * place->size;
}

/* The writes also give the processor translations that the operation has to flush. */
static void touch_size(struct place *place)
{
	place_touch(place->at, place->size);
}

static void move_size(struct place *place)
{
	char *from = place->at;

	place->at = mremap(from, place->size, place->size, MREMAP_MAYMOVE | MREMAP_FIXED, place->other);
	if (place->at == MAP_FAILED)
		error(EXIT_FAILURE, errno, "mremap");
	place->other = from;
}

static void map_file(struct place *place)
{
	int file = memfd_create("steps", MFD_CLOEXEC);
	char *got;

	if (file < 0 || ftruncate(file, FILE_SIZE))
		error(EXIT_FAILURE, errno, "a file in memory");
	for (size_t offset = 0; offset < FILE_SIZE; offset += PAGE)
		if (pwrite(file, "1", 1, offset) != 1)
			error(EXIT_FAILURE, errno, "writing to a file in memory");
	got = mmap(place->at, FILE_SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0);
	if (got != place->at)
		error(EXIT_FAILURE, errno, "cannot map a file at %p", place->at);
	close(file);
}

static void drop_file(struct place *place)
{
	drop(place->at, FILE_SIZE);
}

static void read_once(struct place *place)
{
	(void)*(volatile char *)place->at;
}

/* What the other threads do, so that their nodes share the leaf tables of the operation. */
static void read_size(const char *at, size_t size)
{
	for (size_t offset = 0; offset < size; offset += PAGE)
		(void)*(const volatile char *)(at + offset);
}

static void read_all(struct place *place)
{
	read_size(place->at, place->size);
}

static void read_table(struct place *place)
{
	read_size(place->at, TABLE);
}

static void read_next_page(struct place *place)
{
	read_size(place->at + PAGE, PAGE);
}

static void read_neighbour(struct place *place)
{
	read_size(place->at - NEIGHBOUR, PAGE);
}

/* Each sample has a new leaf table: another node writes its 512 pages, then this node reads one for the first time. */
static void map_fresh_table(struct place *place)
{
	if (place->next++)
		place_unmap(place->at, TABLE);
	place_map(place->at, TABLE);
}

static void open_zeros(struct place *place)
{
	map_table(place);
	place->from[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (place->from[0] < 0)
		error(EXIT_FAILURE, errno, "/dev/zero");
}

static void close_zeros(struct place *place)
{
	close(place->from[0]);
}

/* The kernel faults, as it writes to the page. */
static void read_zeros(struct place *place)
{
	if (read(place->from[0], place->at, PAGE) != (ssize_t)PAGE)
		error(EXIT_FAILURE, errno, "read");
}

static void free_lazily(struct place *place)
{
	if (madvise(place->at, PAGE, MADV_FREE))
		error(EXIT_FAILURE, errno, "madvise");
}

static void reserve(struct place *place, int flags)
{
	if (mmap(place->at, place->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE | flags, -1, 0) !=
	    place->at)
		error(EXIT_FAILURE, errno, "cannot reserve memory at %p", place->at);
}

/* As an instance of WebAssembly has its memory: reserved, a part of it committed, used, and all of it released. */
static void reserve_commit_release(struct place *place)
{
	reserve(place, 0);
	protect(place->at, COMMITTED, PROT_READ | PROT_WRITE);
	touch_page(place);
	unmap_size(place);
}

/* As glibc makes a thread's stack, with a guard page. */
static void stack_of_thread(struct place *place)
{
	reserve(place, MAP_STACK);
	protect(place->at + PAGE, place->size - PAGE, PROT_READ | PROT_WRITE);
	place_touch(place->at + place->size - PAGE, PAGE);
	unmap_size(place);
}

/* What meets at mmap_lock, or would not have to. */
const struct row lock_rows[] = {
	{ .name = "read-fresh-4k", .prepare = open_zeros, .before = drop_page, .once = read_zeros, .finish = close_zeros, .more = true },
	{ .name = "madv-free-4k", .prepare = map_table, .before = touch_page, .once = free_lazily, .more = true },
	{ .name = "reserve-commit-release", .once = reserve_commit_release, .size = RESERVED, .more = true },
	{ .name = "stack-of-thread", .once = stack_of_thread, .size = STACK, .more = true },
	{ 0 }
};

const struct row memory_rows[] = {
	{ .name = "minor-fault", .prepare = map_table, .before = drop_page, .use = read_next_page, .once = touch_page },
	{ .name = "fault-in-new-table", .prepare = map_without_tables, .before = next_table, .once = touch_page },
	{ .name = "write-after-fork", .prepare = share_with_child, .before = next_page, .use = read_once, .once = touch_page,
	  .finish = end_child },
	{ .name = "map-unmap-4k", .prepare = map_neighbour, .use = read_neighbour, .once = map_touch_unmap,
	  .size = PAGE },
	{ .name = "map-unmap-4k-alone", .once = map_touch_unmap, .size = PAGE },
	{ .name = "map-unmap-64k", .prepare = map_neighbour, .once = map_touch_unmap,
	  .size = SOME, .more = true },
	{ .name = "map-unmap-512k", .prepare = map_neighbour, .once = map_touch_unmap,
	  .size = MORE, .most = 24, .more = true },
	{ .name = "map-unmap-4m", .once = map_touch_unmap, .size = MANY, .most = 16 },
	{ .name = "unmap-4k", .prepare = map_neighbour, .before = map_size, .once = unmap_size,
	  .size = PAGE, .more = true },
	{ .name = "unmap-64k", .prepare = map_neighbour, .before = map_size, .once = unmap_size,
	  .size = SOME, .more = true },
	{ .name = "unmap-512k", .prepare = map_neighbour, .before = map_size, .once = unmap_size,
	  .size = MORE, .most = 24, .more = true },
	{ .name = "unmap-4m", .before = map_size, .once = unmap_size, .size = MANY, .most = 16, .more = true },
	{ .name = "mprotect-4k", .prepare = map_size, .before = allow_size, .use = read_once, .once = deny_size,
	  .size = PAGE },
	{ .name = "mprotect-64k", .prepare = map_size, .before = allow_size, .once = deny_size,
	  .size = SOME, .more = true },
	{ .name = "mprotect-512k", .prepare = map_size, .before = allow_size, .once = deny_size,
	  .size = MORE, .most = 24, .more = true },
	{ .name = "mprotect-4m", .prepare = map_size, .before = allow_size, .use = read_all, .once = deny_size,
	  .size = MANY, .most = 24 },
	{ .name = "dontneed-4k", .prepare = map_size, .before = touch_page, .use = read_once, .once = drop_page,
	  .size = PAGE },
	{ .name = "dontneed-2m", .prepare = map_table, .before = touch_table, .use = read_table, .once = drop_table, .most = 24 },
	{ .name = "mremap-4m", .prepare = map_movable, .before = touch_size, .use = read_all, .once = move_size,
	  .size = MANY },
	{ .name = "file-fault-around", .prepare = map_file, .before = drop_file, .once = read_once },
	{ .name = "first-fill", .before = map_fresh_table, .elsewhere = touch_table, .once = read_once, .shared = true,
	  .most = 24 },
	{ 0 }
};
