// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spinners.h"

struct spinners spin;

static void *spinner_main(void *arg)
{
	struct spinner *s = arg;
	const volatile uint64_t *word;
	volatile uint64_t *written;
	uint64_t forbidden, required, value = 0;
	char *page;

	hydra_pin_to_cpu(s->cpu);
	while (!atomic_load(&spin.stop)) {
		page = atomic_load(&s->dropped);
		if (page) {
			*(volatile char *)page = 1;
			if (madvise(page, PAGE_SIZE, MADV_DONTNEED))
				abort();
		}
		written = atomic_load(&s->written);
		for (size_t page = 0; written && page < spin.pages; page++)
			written[page * PAGE_WORDS] = 1;
		word = atomic_load(&s->watched);
		if (word) {
			forbidden = atomic_load(&spin.forbidden);
			required = atomic_load(&spin.required);
			for (size_t page = 0; page < spin.pages; page++) {
				value = word[page * PAGE_WORDS];
				if ((forbidden && value == forbidden) ||
				    (required && value != required))
					atomic_fetch_add(&s->stale, 1);
			}
			atomic_store(&s->seen, value);
		}
		atomic_fetch_add(&s->rounds, 1);
		__builtin_ia32_pause();
	}
	return NULL;
}

void start_spinner(int node, int cpu)
{
	struct spinner *s = &spin.spinners[spin.count++];

	s->node = node;
	s->cpu = cpu;
	if (pthread_create(&s->thread, NULL, spinner_main, s))
		abort();
	while (!atomic_load(&s->rounds))
		usleep(1000);
}

int spin_on_other_nodes(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 1; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = 0; i < count; i++)
			start_spinner(node, cpus[i]);
	}
	return spin.count;
}

struct spinner *spinner_of(int node)
{
	for (int i = 0; i < spin.count; i++)
		if (spin.spinners[i].node == node)
			return &spin.spinners[i];
	return NULL;
}

void await_rounds(struct spinner *s)
{
	unsigned long rounds = atomic_load(&s->rounds);

	while (atomic_load(&s->rounds) < rounds + 2)
		usleep(100);
}

void await_all(void)
{
	unsigned long rounds[HYDRA_MAX_CPUS];

	for (int i = 0; i < spin.count; i++)
		rounds[i] = atomic_load(&spin.spinners[i].rounds);
	for (int i = 0; i < spin.count; i++)
		while (atomic_load(&spin.spinners[i].rounds) == rounds[i])
			usleep(100);
}

bool watch(struct spinner *s, const volatile uint64_t *word, uint64_t value)
{
	atomic_store(&s->watched, word);
	await_rounds(s);
	return atomic_load(&s->seen) == value;
}

bool watch_all(const volatile uint64_t *word, uint64_t value)
{
	bool right = true;

	for (int i = 0; i < spin.count; i++)
		right &= watch(&spin.spinners[i], word, value);
	return right;
}

/*
 * All spinners stop watching: after the return no spinner reads the words any more, so the
 * caller may unmap the words. Return: the first spinner that read a wrong value, or NULL.
 */
static const struct spinner *first_stale(void)
{
	const struct spinner *first = NULL;

	for (int i = 0; i < spin.count; i++) {
		struct spinner *s = &spin.spinners[i];

		await_rounds(s);
		if (!first && atomic_load(&s->stale))
			first = s;
		atomic_store(&s->watched, NULL);
	}
	await_all();
	return first;
}

const struct spinner *forbid_value(uint64_t value)
{
	const struct spinner *first;

	atomic_store(&spin.forbidden, value);
	first = first_stale();
	atomic_store(&spin.forbidden, 0);
	return first;
}

const struct spinner *require_value(uint64_t value)
{
	const struct spinner *first;

	atomic_store(&spin.required, value);
	first = first_stale();
	atomic_store(&spin.required, 0);
	return first;
}

static struct {
	pthread_t thread;
	bool started;
	atomic_bool stop;
} dropper;

static void *drop_page(void *page)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(0, cpus) - 1]);
	while (!atomic_load(&dropper.stop))
		if (madvise(page, PAGE_SIZE, MADV_DONTNEED))
			abort();
	return NULL;
}

int start_dropper(char *page)
{
	hydra_map(page, 1);
	atomic_store(&dropper.stop, false);
	dropper.started = !pthread_create(&dropper.thread, NULL, drop_page, page);
	return !dropper.started;
}

int stop_dropper(void)
{
	if (!dropper.started)
		return 0;
	dropper.started = false;
	atomic_store(&dropper.stop, true);
	return pthread_join(dropper.thread, NULL);
}

/* Interrupts of each CPU in the line @kind of /proc/interrupts */
static int read_kind(const char *kind, uint64_t count[HYDRA_MAX_CPUS])
{
	FILE *f = fopen("/proc/interrupts", "r");
	int cpus[HYDRA_MAX_CPUS], nr = 0, found = 0;
	static char line[65536];

	if (!f)
		return -errno;
	if (fgets(line, sizeof(line), f)) {
		char *rest = line;
		int used;

		while (nr < HYDRA_MAX_CPUS && sscanf(rest, " CPU%d%n", &cpus[nr], &used) == 1) {
			rest += used;
			nr++;
		}
	}
	while (!found && fgets(line, sizeof(line), f)) {
		char *rest = strstr(line, kind);

		if (!rest)
			continue;
		rest += strlen(kind);
		for (int i = 0; i < nr; i++)
			if (cpus[i] < HYDRA_MAX_CPUS)
				count[cpus[i]] = strtoull(rest, &rest, 10);
		found = 1;
	}
	fclose(f);
	return found ? 0 : -ENOENT;
}

int read_interrupts(uint64_t count[HYDRA_MAX_CPUS])
{
	return read_kind("TLB:", count);
}

int read_calls(uint64_t count[HYDRA_MAX_CPUS])
{
	return read_kind("CAL:", count);
}

int spinners_begin(char **area, char **alone)
{
	char *hole = hydra_reserve(4 * TABLE_SIZE);
	int error = hydra_stop_balancing();

	if (!error)
		error = hydra_on(9, HYDRA_FILTER_TABLE);
	if (error)
		return error;
	*area = hydra_reserve(4 * TABLE_SIZE);
	*alone = hole + 2 * TABLE_SIZE;
	spin.spinners = calloc(HYDRA_MAX_CPUS, sizeof(*spin.spinners));
	spin.pages = 1;
	return spin.spinners ? munmap(hole, 4 * TABLE_SIZE) : -1;
}

int spinners_end(void)
{
	int error;

	atomic_store(&spin.stop, true);
	error = stop_dropper();
	for (int i = 0; i < spin.count; i++)
		error |= pthread_join(spin.spinners[i].thread, NULL);
	return error | hydra_restore_balancing();
}
