// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first and only process of the machine inside the lab's machine, for guest_migrate.py: a
 * thread on each CPU, under Hydra, with
 *
 *	data, of which each thread has written a part, and all threads have read all;
 *	a ring of pages of its own, and one that it shares with all threads, in which each thread
 *	has a word of each page. A thread writes a growing number into these pages for ever, and
 *	finds in each page the number of the round before: else a write was lost.
 *
 * At each line on the console, all threads read all data, and the kernel asks its host again where
 * the CPUs are, until no page of its pools is away from them; then comes a line of what was found.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/hydra.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_SIZE	4096UL
#define LEAF_PAGES	512UL			/* pages of a leaf table */
#define PAGES		4096UL			/* of data */
#define RING		64UL			/* pages of a ring */
#define MAX_THREADS	16
#define SPIN		20000			/* between two writes */
#define MOST_ASKED	5
#define SETTLED		4			/* looks at the pools without a change */
#define MOST_LOOKS	60
#define LOOK_US		500000

#define POOLS		"/sys/kernel/mm/hydra/pools"

/* Of each thread, in lines of its own */
struct writer {
	unsigned long written;
	unsigned long wrong;
	unsigned long reads;
} __attribute__((aligned(128)));

static int threads;
static char *data;
static volatile struct writer writers[MAX_THREADS];
static pthread_barrier_t barrier;
static volatile unsigned long asked;		/* to read all data, so often */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static volatile unsigned long *word(unsigned long page, int self)
{
	return (volatile unsigned long *)(data + page * PAGE_SIZE) + self;
}

static unsigned long content(unsigned long page)
{
	return page * 0x9e3779b97f4a7c15 + 1;
}

static void read_all(volatile struct writer *w)
{
	for (unsigned long page = 0; page < PAGES; page++)
		w->wrong += *word(page, 0) != content(page);
	w->reads++;
}

/* Rings have leaf tables of their own, and that of all threads is the last one. */
static void write_next(volatile struct writer *w, int self)
{
	unsigned long number = w->written, old = number < RING ? 0 : number - RING + 1;
	unsigned long own = PAGES + self * LEAF_PAGES + number % RING;
	unsigned long shared = PAGES + MAX_THREADS * LEAF_PAGES + number % RING;

	w->wrong += *word(own, 0) != old;
	w->wrong += *word(shared, self) != old;
	*word(own, 0) = number + 1;
	*word(shared, self) = number + 1;
	w->written = number + 1;
}

static void *use(void *arg)
{
	int self = (intptr_t)arg;
	volatile struct writer *w = &writers[self];
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(self, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
	for (unsigned long page = 0; page < PAGES; page++)
		if (page / LEAF_PAGES % threads == (unsigned long)self)
			*word(page, 0) = content(page);
	pthread_barrier_wait(&barrier);
	read_all(w);
	pthread_barrier_wait(&barrier);
	for (;;) {
		write_next(w, self);
		for (int i = 0; i < SPIN; i++)
			__asm__ volatile("");
		if (w->reads <= asked)
			read_all(w);
	}
	return NULL;
}

static void all_read(void)
{
	asked++;
	for (int i = 0; i < threads; i++)
		while (writers[i].reads <= asked)
			usleep(10000);
}

/* Write to a file of the kernel. Return: 0 or an errno. */
static int tell(const char *path, const char *text)
{
	int file = open(path, O_WRONLY), ret;

	if (file < 0)
		return errno;
	ret = write(file, text, strlen(text)) < 0 ? errno : 0;
	close(file);
	return ret;
}

static void get(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? 0 : read(file, text, size - 1);

	text[length > 0 ? length : 0] = '\0';
	if (file >= 0)
		close(file);
}

/* Wait until the workers of the pools leave all as it is. */
static void settle(void)
{
	char text[4096], before[4096] = "";
	int same = 0;

	for (int i = 0; i < MOST_LOOKS && same < SETTLED; i++) {
		usleep(LOOK_US);
		get(POOLS, text, sizeof(text));
		same = strcmp(text, before) ? 0 : same + 1;
		strcpy(before, text);
	}
}

/* The sum of a number of all pools */
static unsigned long of_pools(const char *name)
{
	unsigned long sum = 0;
	char text[4096];

	get(POOLS, text, sizeof(text));
	for (char *at = text; (at = strstr(at, name)); at += strlen(name))
		sum += strtoul(at + strlen(name), NULL, 10);
	return sum;
}

static void report(void)
{
	unsigned long written = 0, wrong = 0;
	char text[4096];
	int error, i;

	all_read();
	for (i = 0; i < MOST_ASKED; i++) {
		error = tell("/sys/kernel/mm/hydra/regroup", "again");
		settle();
		if (error || !of_pools("away "))
			break;
	}
	/* Once more, by the groups that the CPUs are in now */
	all_read();
	get("/proc/self/hydra_check", text, sizeof(text));
	get("/sys/kernel/mm/hydra/violations", text, sizeof(text));
	for (i = 0; i < threads; i++) {
		written += writers[i].written;
		wrong += writers[i].wrong;
	}
	printf("migrate: data %#lx pages %lu written %lu wrong %lu error %d pooled %lu refused %lu away %lu violations %lu\n",
	       (uintptr_t)data, PAGES, written, wrong, error, of_pools("pages "),
	       of_pools("refused "), of_pools("away "), strtoul(text, NULL, 10));
	fflush(stdout);
}

/* How many groups the kernel has pools for */
static int groups(void)
{
	char text[4096];
	int nr = 0;

	get(POOLS, text, sizeof(text));
	for (char *at = text; (at = strstr(at, "group ")); at++)
		nr++;
	return nr;
}

int main(void)
{
	struct hydra_settings settings = {
		.domains = HYDRA_SCOPE_NODE, .replication = HYDRA_REPLICATE_LAZY,
		.prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_TABLE,
	};
	unsigned long pages = PAGES + (MAX_THREADS + 1) * LEAF_PAGES;
	pthread_t thread;
	char line[16];

	if (mkdir("/sys", 0755) || mount("proc", "/proc", "proc", 0, NULL) ||
	    mount("sysfs", "/sys", "sysfs", 0, NULL))
		die("/proc and /sys");
	if (prctl(PR_SET_HYDRA, &settings, sizeof(settings), 0, 0))
		die("PR_SET_HYDRA");
	threads = sysconf(_SC_NPROCESSORS_ONLN);
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	data = mmap(NULL, (pages + LEAF_PAGES) * PAGE_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED)
		die("mmap");
	data += -(uintptr_t)data % (LEAF_PAGES * PAGE_SIZE);
	if (madvise(data, pages * PAGE_SIZE, MADV_NOHUGEPAGE))
		die("madvise");
	pthread_barrier_init(&barrier, NULL, threads + 1);
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, use, (void *)i))
			die("pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_barrier_wait(&barrier);
	printf("migrate: threads %d groups %d\n", threads, groups());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		report();
	die("the console");
}
