// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>
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
