// SPDX-License-Identifier: GPL-2.0-only
/* Pages that say what they contain, and keepers: threads that write and verify them. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pressure.h"

#define MISTAKES_SHOWN	20

const struct area kinds[KINDS] = {
	[SMALL]		= { "anonymous", 384 },
	[HUGE]		= { "huge", 2 * TABLE_PAGES },
	[SHARED]	= { "shared", 128 },
	[FROM_FILE]	= { "from a file", FILE_PAGES },
	[TWINS]		= { "twins", 64 },
	[FREED]		= { "freed lazily", 64 },
};

#define CHANGING	1UL	/* somebody writes it: it has a single writer at a time */
#define LAZY		2UL	/* contents as before, or zeroes */
#define VERSION(said)	((said) >> 2)
#define SAY(version)	((version) << 2)

struct page pages[ALL_PAGES];
struct page *first[KINDS];
struct shared *shared;

static pid_t keepers_pid;

bool written_by_us(const struct page *p)
{
	/* every other page of the file stays what the file contains */
	return p->kind != FROM_FILE || p->index % 2;
}

static uint64_t expected_word(const struct page *p, uint64_t said, size_t word)
{
	uint64_t version = VERSION(said);

	if (p->kind == TWINS)
		return hydra_word(0x7717 + version % 4, 0, word);
	if (p->kind == FROM_FILE && !version)
		return hydra_word(FILE_SEED, p->index, word);
	return hydra_word(option.seed + p->kind + KINDS * (version + 1), p->index, word);
}

static void __attribute__((format(printf, 2, 3)))
mistake(const struct page *p, const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&shared->mistakes, 1) >= MISTAKES_SHOWN)
		return;
	flockfile(stderr);
	fprintf(stderr, "# WRONG DATA: %s, CPU %d, page %zu (%s) at %p, version %lu%s: ",
		getpid() == keepers_pid ? "the tested process" : "a child", sched_getcpu(),
		p->index, kinds[p->kind].name, p->addr, VERSION(atomic_load(&p->said)),
		atomic_load(&p->said) & LAZY ? ", freed" : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	funlockfile(stderr);
}

void failure(const char *format, ...)
{
	int err = errno;
	va_list args;

	atomic_fetch_add(&shared->failures, 1);
	flockfile(stderr);
	fprintf(stderr, "# ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(err));
	funlockfile(stderr);
}

atomic_ulong zeroes_seen;

/* Verify a page that says so; nothing if it says otherwise in the end */
static void look(struct page *p, uint64_t said)
{
	const volatile uint64_t *words = (uint64_t *)p->addr;
	bool zeroes = false;

	for (size_t word = 0; word < PAGE_WORDS; word++) {
		uint64_t expected = expected_word(p, said, word), seen = words[word];

		if (said & LAZY) {
			/* once Linux has taken the page, it stays zero */
			if (!seen)
				zeroes = true;
			if (zeroes)
				expected = 0;
		}
		if (seen == expected)
			continue;
		if (atomic_load(&p->said) == said)
			mistake(p, "word %zu was %#lx, not %#lx; it is %#lx now", word, seen,
				expected, words[word]);
		return;
	}
	if (zeroes)
		atomic_fetch_add(&zeroes_seen, 1);
}

void rewrite(struct page *p)
{
	uint64_t said = atomic_load(&p->said);
	uint64_t next = SAY(VERSION(said) + 1);

	if (said & CHANGING || !atomic_compare_exchange_strong(&p->said, &said, said | CHANGING))
		return;
	look(p, said | CHANGING);
	for (size_t word = 0; word < PAGE_WORDS; word++)
		((volatile uint64_t *)p->addr)[word] = expected_word(p, next, word);
	atomic_store(&p->said, next);
}

atomic_bool freeing;

static void free_lazily(struct page *p)
{
	uint64_t said = atomic_load(&p->said);

	if (said & (CHANGING | LAZY) ||
	    !atomic_compare_exchange_strong(&p->said, &said, said | CHANGING))
		return;
	must(!madvise(p->addr, PAGE_SIZE, MADV_FREE), "madvise(MADV_FREE)");
	atomic_store(&p->said, said | LAZY);
}

/*
 * A child has private pages as they were when it was born. Not those that are
 * freed lazily: when a process frees a page that it has swapped in by reading
 * and then shared with a child, Linux 6.12 takes it away from the child, too.
 */
bool keeps_its_own(const struct page *p)
{
	return p->kind != SHARED && p->kind != FREED;
}

void look_at_all(bool (*choose)(const struct page *p))
{
	for (size_t i = 0; i < ALL_PAGES; i++)
		if (!choose || choose(&pages[i]))
			look(&pages[i], atomic_load(&pages[i].said));
}

void make_pages(void)
{
	size_t page = 0;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		size_t size = kinds[kind].pages * PAGE_SIZE;
		char *addr = hydra_reserve(2 * TABLE_SIZE);
		int flags = MAP_FIXED, fd = -1;

		/* small pages lie across the border of two leaf tables */
		if (kind != HUGE)
			addr += TABLE_SIZE - size / 2;
		if (kind == FROM_FILE)
			fd = ground.file;
		else
			flags |= MAP_ANONYMOUS;
		flags |= kind == SHARED ? MAP_SHARED : MAP_PRIVATE;
		if (mmap(addr, size, PROT_READ | PROT_WRITE, flags, fd, 0) != addr)
			failure("cannot map pages (%s)", kinds[kind].name);
		must(!madvise(addr, size, kind == HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE),
		     "madvise (CONFIG_TRANSPARENT_HUGEPAGE)");
		first[kind] = &pages[page];
		for (size_t i = 0; i < kinds[kind].pages; i++, page++) {
			pages[page].addr = addr + i * PAGE_SIZE;
			pages[page].kind = kind;
			pages[page].index = i;
			atomic_store(&pages[page].said, 0);
		}
	}
}

/* Keepers */

struct keeper keepers[KEEPERS_MAX];
int nr_keepers;

static pthread_barrier_t keepers_ready;
static atomic_bool stop, paused;
static atomic_int resting;
static pthread_mutex_t pause_lock = PTHREAD_MUTEX_INITIALIZER;

void try_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void keep(struct keeper *k)
{
	struct page *p = &pages[hydra_random(&k->random) % ALL_PAGES];
	uint64_t choice = hydra_random(&k->random) % 16, said;

	if (atomic_load(&freeing) && hydra_random(&k->random) % 2)
		p = first[FREED] + hydra_random(&k->random) % kinds[FREED].pages;
	if (choice < 2 && written_by_us(p)) {
		rewrite(p);
	} else if (choice < 6 && p->kind == FREED && atomic_load(&freeing)) {
		free_lazily(p);
	} else {
		said = atomic_load(&p->said);
		if (!(said & CHANGING))
			look(p, said);
	}
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;

	k->tid = gettid();
	try_cpu(k->cpu);
	/* so that the tables of each area belong to several nodes */
	for (size_t i = k - keepers; i < ALL_PAGES; i += nr_keepers)
		if (written_by_us(&pages[i]))
			for (size_t word = 0; word < PAGE_WORDS; word++)
				((volatile uint64_t *)pages[i].addr)[word] =
					expected_word(&pages[i], SAY(1), word);
	for (size_t i = k - keepers; i < ALL_PAGES; i += nr_keepers)
		if (written_by_us(&pages[i]))
			atomic_store(&pages[i].said, SAY(1));
	pthread_barrier_wait(&keepers_ready);

	while (!atomic_load(&stop)) {
		keep(k);
		if (atomic_fetch_add(&k->steps, 1) % 16)
			continue;
		/* half of the time a CPU is idle, with all it has in its TLB */
		if (hydra_random(&k->random) % 2)
			usleep(1000);
		if (sched_getcpu() != k->cpu) {
			atomic_fetch_add(&k->displaced, 1);
			try_cpu(k->cpu);
		}
		if (atomic_load(&paused)) {
			atomic_fetch_add(&resting, 1);
			while (atomic_load(&paused))
				usleep(200);
			atomic_fetch_sub(&resting, 1);
		}
	}
	return NULL;
}

void await(unsigned long steps)
{
	unsigned long from[KEEPERS_MAX];

	for (int i = 0; i < nr_keepers; i++)
		from[i] = atomic_load(&keepers[i].steps);
	for (int i = 0; i < nr_keepers; i++)
		while (atomic_load(&keepers[i].steps) < from[i] + steps &&
		       !atomic_load(&shared->mistakes))
			usleep(500);
}

/* No page changes until resume_keepers() */
static void pause_keepers(void)
{
	pthread_mutex_lock(&pause_lock);
	while (atomic_load(&resting))
		usleep(100);
	atomic_store(&paused, true);
	while (atomic_load(&resting) < nr_keepers)
		usleep(100);
}

static void resume_keepers(void)
{
	atomic_store(&paused, false);
	pthread_mutex_unlock(&pause_lock);
}

void go_anywhere(uint64_t *random)
{
	try_cpu(keepers[hydra_random(random) % nr_keepers].cpu);
}

pid_t fork_consistently(void)
{
	pid_t child;

	pause_keepers();
	fflush(NULL);
	child = fork();
	if (child) {
		must(child > 0, "fork");
		resume_keepers();
	}
	return child;
}

void start_keepers(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 0; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		/* one on each node: emulators have fewer CPUs than they show */
		keepers[nr_keepers].node = node;
		keepers[nr_keepers++].cpu = cpus[count - 1];
	}
	keepers_pid = getpid();
	pthread_barrier_init(&keepers_ready, NULL, nr_keepers + 1);
	for (int i = 0; i < nr_keepers; i++) {
		keepers[i].random = random_from(i);
		errno = pthread_create(&keepers[i].thread, NULL, keeper_main, &keepers[i]);
		if (errno) {
			perror("# cannot start a thread");
			abort();
		}
	}
	pthread_barrier_wait(&keepers_ready);
}

void stop_keepers(void)
{
	atomic_store(&stop, true);
	for (int i = 0; i < nr_keepers; i++)
		pthread_join(keepers[i].thread, NULL);
}
