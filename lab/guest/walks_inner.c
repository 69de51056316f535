// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first and only process of the machine inside the lab's machine, for guest_walks.py: a thread
 * for each CPU (and node) sets up data, all threads read all of it, and then compute for ever,
 * so that each CPU has the page table of its node loaded.
 *
 *     uniform: the first page of each 2 MiB, and so the leaf table, is of the nodes in turn; each
 *	other page is of a node drawn by its number.
 *     one: the thread on node 0 sets up everything.
 *
 * At each line on the console, the thread on node 0 maps, writes and unmaps a page MUNMAPS times, in
 * a leaf table that no other thread uses, and says how many CPUs were interrupted for flushes
 * meanwhile.
 */
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
#define PAGES		8192UL
#define MAX_THREADS	16
#define MUNMAPS		1000

static int threads;
static int uniform;
static volatile char *data;
static pthread_barrier_t barrier;
static pthread_barrier_t answered;
static volatile int asked;			/* lines on the console */

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The thread that touches a page first */
static int owner(unsigned long page)
{
	uint32_t drawn = page;

	if (!uniform)
		return 0;
	if (page % LEAF_PAGES == 0)
		return page / LEAF_PAGES % threads;
	/* A mix of the bits, as of a hash function */
	drawn = (drawn ^ drawn >> 16) * 0x45d9f3b;
	drawn = (drawn ^ drawn >> 16) * 0x45d9f3b;
	return (drawn ^ drawn >> 16) % threads;
}

/* A page with nothing else within its 2 MiB */
static void map_and_unmap(void)
{
	size_t size = 2 * LEAF_PAGES * PAGE_SIZE;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *area, *page;

	area = mmap(NULL, size, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		die("mmap");
	page = area + -(uintptr_t)area % (LEAF_PAGES * PAGE_SIZE);
	for (int i = 0; i < MUNMAPS; i++) {
		if (mmap(page, PAGE_SIZE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) != page)
			die("mmap");
		*(volatile char *)page = 1;
		if (munmap(page, PAGE_SIZE))
			die("munmap");
	}
	munmap(area, size);
}

static void *use(void *arg)
{
	int self = (intptr_t)arg;
	cpu_set_t cpus;
	unsigned int sum = 0;

	CPU_ZERO(&cpus);
	CPU_SET(self, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
	pthread_barrier_wait(&barrier);
	for (unsigned long page = 0; page < PAGES; page += LEAF_PAGES)
		if (owner(page) == self)
			data[page * PAGE_SIZE] = 1;
	pthread_barrier_wait(&barrier);
	for (unsigned long page = 0; page < PAGES; page++)
		if (owner(page) == self)
			data[page * PAGE_SIZE] = 1;
	pthread_barrier_wait(&barrier);
	for (unsigned long page = 0; page < PAGES; page++)
		sum += data[page * PAGE_SIZE];
	if (sum != PAGES)
		die("the data");
	pthread_barrier_wait(&barrier);
	for (int done = 0;;) {
		__asm__ volatile("" : : "r" (sum++));
		if (self || done == asked)
			continue;
		done = asked;
		map_and_unmap();
		pthread_barrier_wait(&answered);
	}
	return NULL;
}

/* How often CPUs were interrupted for flushes: the line "TLB:" of /proc/interrupts */
static unsigned long interrupts(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long sum = 0;
	char line[1024], *at, *end;

	while (file && fgets(line, sizeof(line), file)) {
		at = line + strspn(line, " ");
		if (strncmp(at, "TLB:", 4))
			continue;
		for (at += 4;; at = end) {
			unsigned long count = strtoul(at, &end, 10);

			if (at == end)
				break;
			sum += count;
		}
	}
	if (file)
		fclose(file);
	return sum;
}

/* A number of /proc/self/hydra */
static long number(const char *key)
{
	FILE *file = fopen("/proc/self/hydra", "r");
	char line[256];
	long found = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ' ')
			found = atol(line + strlen(key));
	if (file)
		fclose(file);
	return found;
}

/* Each CPU goes to the next group, away from the pool of its page tables. */
static void rotate(void)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);
	FILE *file;

	if (mkdir("/sys", 0755) || mount("sysfs", "/sys", "sysfs", 0, NULL))
		die("/sys");
	file = fopen("/sys/kernel/mm/hydra/regroup", "w");
	if (!file)
		die("regroup");
	fprintf(file, "%ld", nr - 1);
	for (long cpu = 0; cpu < nr - 1; cpu++)
		fprintf(file, "/%ld", cpu);
	if (fclose(file))
		die("regroup");
}

int main(int argc, char **argv)
{
	struct hydra_settings settings = {
		.domains = HYDRA_SCOPE_NODE, .replication = HYDRA_REPLICATE_LAZY,
		.prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_TABLE,
	};
	unsigned long before;
	pthread_t thread;
	char line[16];

	/* What stands behind "--" in the kernel's command line */
	if (argc != 4)
		die("arguments: uniform or one, linux or hydra, stay or rotate");
	uniform = !strcmp(argv[1], "uniform");
	if (mount("proc", "/proc", "proc", 0, NULL))
		die("/proc");
	if (!strcmp(argv[3], "rotate"))
		rotate();
	if (!strcmp(argv[2], "hydra") && prctl(PR_SET_HYDRA, &settings, sizeof(settings), 0, 0))
		die("PR_SET_HYDRA");
	threads = sysconf(_SC_NPROCESSORS_ONLN);
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	data = mmap(NULL, (PAGES + LEAF_PAGES) * PAGE_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		die("mmap");
	data += -(uintptr_t)data % (LEAF_PAGES * PAGE_SIZE);
	if (madvise((void *)data, PAGES * PAGE_SIZE, MADV_NOHUGEPAGE))
		die("madvise");
	pthread_barrier_init(&barrier, NULL, threads + 1);
	pthread_barrier_init(&answered, NULL, 2);
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, use, (void *)i))
			die("pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_barrier_wait(&barrier);
	printf("walks: threads %d data %#lx pages %lu active %ld\n", threads, (uintptr_t)data, PAGES,
	       number("active"));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		before = interrupts();
		asked++;
		pthread_barrier_wait(&answered);
		printf("walks: munmaps %d interrupts %lu\n", MUNMAPS, interrupts() - before);
		fflush(stdout);
	}
	die("the console");
}
