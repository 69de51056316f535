// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first and only process of the machine inside the lab's machine, for guest_walks.py: a thread
 * for each CPU (and node) sets up data, all threads read all of it, and then compute for ever,
 * so that each CPU has the page table of its node loaded.
 *
 *     uniform: the first page of each 2 MiB, and so the leaf table, is of the nodes in turn; each
 *	other page is of a node drawn by its number.
 *     one: the thread on node 0 sets up everything.
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

static int threads;
static int uniform;
static volatile char *data;
static pthread_barrier_t barrier;

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
	for (;;)
		__asm__ volatile("" : : "r" (sum++));
	return NULL;
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
		.domains = HYDRA_DOMAINS_NODE, .replication = HYDRA_REPLICATE_LAZY,
		.prefetch = HYDRA_PREFETCH_MAX, .filter = HYDRA_FILTER_TABLE,
	};
	pthread_t thread;

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
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, use, (void *)i))
			die("pthread_create");
	for (int i = 0; i < 4; i++)
		pthread_barrier_wait(&barrier);
	printf("walks: threads %d data %#lx pages %lu active %ld\n", threads, (uintptr_t)data, PAGES,
	       number("active"));
	fflush(stdout);
	for (;;)
		pause();
}
