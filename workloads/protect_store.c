// SPDX-License-Identifier: GPL-2.0-only
/*
 * For LD_PRELOAD into memcached: the items that it stores can be written only while a
 * thread works on requests, as in the Hydra paper, section 5.6.4.
 *
 * Memcached allocates its store in pieces of 1 MiB. Here they come from one arena. A
 * thread that waits for requests calls epoll_wait(). The first thread that comes back
 * from the call makes the arena writable; the last one that calls again makes it
 * read-only. No other thread may write to the store: start memcached with
 * -o no_lru_maintainer,no_lru_crawler,no_slab_reassign,no_hashexpand.
 *
 * With PROTECT_PIECES in the environment, the whole arena is there from the start, and
 * each call of mprotect() is for one piece.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define PIECE (1UL << 20)
#define ARENA (64 * PIECE)

void *__libc_malloc(size_t size);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* All guarded by the lock. */
static char *arena;
static size_t used;
static size_t working;			/* threads that are back from epoll_wait() */
static bool is_protected;
static bool by_pieces;

static __thread bool works;

static _Noreturn void give_up(const char *what)
{
	perror(what);
	abort();
}

static void protect(bool wanted)
{
	size_t end = by_pieces ? ARENA : used, step = by_pieces ? PIECE : used;

	for (size_t at = 0; wanted != is_protected && used && at < end; at += step)
		if (mprotect(arena + at, step, wanted ? PROT_READ : PROT_READ | PROT_WRITE))
			give_up("mprotect");
	is_protected = wanted && used;
}

static void leave(void)
{
	pthread_mutex_lock(&lock);
	working -= works;
	works = false;
	if (!working)
		protect(true);
	pthread_mutex_unlock(&lock);
}

static void enter(void)
{
	pthread_mutex_lock(&lock);
	working++;
	works = true;
	protect(false);
	pthread_mutex_unlock(&lock);
}

static void *take_piece(void)
{
	void *piece = NULL;

	pthread_mutex_lock(&lock);
	if (!arena) {
		arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (arena == MAP_FAILED)
			give_up("mmap");
		by_pieces = getenv("PROTECT_PIECES");
		for (size_t at = 0; by_pieces && at < ARENA; at += PAGE)
			arena[at] = 1;
	}
	if (used < ARENA) {
		piece = arena + used;
		used += PIECE;
	}
	pthread_mutex_unlock(&lock);
	return piece;
}

/* Memcached keeps the pieces until its end. */
void *malloc(size_t size)
{
	return size == PIECE ? take_piece() : __libc_malloc(size);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	static int (*real)(int epoll, struct epoll_event *events, int most, int timeout);
	int found;

	if (!real)
		real = (typeof(real))dlsym(RTLD_NEXT, "epoll_wait");
	leave();
	found = real(epoll, events, most, timeout);
	enter();
	return found;
}
