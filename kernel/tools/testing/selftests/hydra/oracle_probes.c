// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's probes: one thread on every CPU. After each operation all probes look at
 * the changed cells. Then the probes access the cells that the next operation will
 * change, so that every CPU caches the translations. Then most probes sleep, and their
 * CPUs are idle. One or two probes keep a CPU busy during the next operation: Linux
 * flushes an idle CPU in another way than a running CPU. With --wander, all probes run on
 * one node now and then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest.h"
#include "oracle.h"

#define AWAKE_FOR	4000	/* turns of a loop, if no changer calls */

struct probe {
	pthread_t thread;
	int cpu;		/* while threads are apart; looker.cpu: now */
	struct looker looker;
	char *own_page;
	atomic_uint calls;
	bool stay_awake;
	int pastime;
	unsigned int answered[HYDRA_MAX_NODES];
	struct sight before[HYDRA_MAX_NODES][SAMPLES];
};

/*
 * A changer's request to all probes. Mostly the probes answer one after the other,
 * because an emulator on few CPUs is slow when all emulated CPUs work. Now and then all
 * probes answer together, so that their faults meet.
 */
static struct request {
	atomic_uint number;
	atomic_uint left;	/* probes still to answer */
	atomic_uint answered;	/* the number, when all have */
	const struct op *op, *next;
	bool all;
} requests[HYDRA_MAX_NODES];

static struct probe probes[MAX_PROBES];
static unsigned int count;
static atomic_bool stop;

atomic_int changers_on[HYDRA_MAX_CPUS];
atomic_ulong looks;

unsigned int nr_probes(void)
{
	return count;
}

int probe_cpu(unsigned int probe)
{
	return probes[probe].cpu;
}

static void call(struct probe *p)
{
	atomic_fetch_add(&p->calls, 1);
	hydra_futex_wake(&p->calls);
}

uint64_t stamp(const struct op *op, unsigned int probe)
{
	return contents_by(0x80 | (op->changer + 1), op->number, probe) | op->half;
}

static bool is_locked(const struct op *op, unsigned int cell)
{
	return cell - op->first < op->locked ||
	       (op->locked_other && cell - op->other < op->locked);
}

static bool differ(const struct sight *a, const struct sight *b)
{
	return a->read_signal != b->read_signal || a->write_signal != b->write_signal ||
	       (!a->read_signal && a->value != b->value);
}

static void look_at_samples(struct probe *p, const struct op *op, enum look how)
{
	uint64_t mark = stamp(op, p->looker.probe);

	for (int i = 0; i < SAMPLES; i++) {
		struct sight *before = &p->before[op->changer][i], now;
		enum look closely = is_locked(op, op->sample[i]) ? how : LOOK;

		look_at(&p->looker, op->zone, op->sample[i], op->word, closely, mark, &now);
		/* If the operation ought to show, what the changer has written does not count. */
		if (closely == LOOK_CLOSELY && differ(before, &now) &&
		    (op->kind->flags & QUIET || !op->rewrite[op->half]))
			atomic_fetch_add(&op->kind->seen, 1);
		*before = now;
	}
}

static void look_at_all(struct probe *p)
{
	struct sight sight;

	for (struct zone *z = zones; z < zones + ZONES; z++)
		for (unsigned int i = 0; i < z->cells; i++)
			look_at(&p->looker, z, i, hydra_random(&p->looker.random) % PATTERN_WORDS,
				LOOK_ANYHOW, hydra_random(&p->looker.random), &sight);
}

static void answer(struct probe *p, struct request *r)
{
	if (r->all)
		look_at_all(p);
	if (r->op)
		look_at_samples(p, r->op, LOOK_CLOSELY);
	if (r->next) {
		look_at_samples(p, r->next, LOOK);
		for (int i = 0; i < ARRAY_SIZE(r->next->awake); i++)
			p->stay_awake |= r->next->awake[i] == p->cpu;
		p->pastime = r->next->pastime;
	}
}

/* Accesses and calls of a busy process */
static void pass_time(struct probe *p)
{
	struct looker *l = &p->looker;
	struct zone *z = &zones[hydra_random(&l->random) % ZONES];
	struct sight sight;

	if (p->pastime == DO_LOOK) {
		look_at(l, z, hydra_random(&l->random) % z->cells,
			hydra_random(&l->random) % PATTERN_WORDS, LOOK_ANYHOW, 0, &sight);
	} else if (p->pastime == DO_GATHER) {
		*(volatile char *)p->own_page = 1;
		madvise(p->own_page, PAGE_SIZE, MADV_DONTNEED);
	}
}

/* Keep the CPU busy, unless a changer runs there. */
static void wait_awake(struct probe *p, unsigned int heard)
{
	for (int i = 0; i < AWAKE_FOR && atomic_load(&p->calls) == heard; i++) {
		__builtin_ia32_pause();
		if (atomic_load(&changers_on[p->looker.cpu]))
			return;
		if (!run.serial && i % 64 == 63)
			pass_time(p);
	}
}

/*
 * Whether the probe has to answer now: probes answer from the last to the first, or all
 * together.
 */
static bool is_called(const struct probe *p, struct request *r)
{
	return atomic_load(&r->number) != p->answered[r - requests] &&
	       ((r->op && r->op->together) || atomic_load(&r->left) == p->looker.probe + 1);
}

static void go_to_place(struct probe *p)
{
	int cpu = place(p->cpu);

	if (cpu == p->looker.cpu)
		return;
	p->looker.cpu = cpu;
	hydra_pin_to_cpu(cpu);
}

static void *probe_main(void *arg)
{
	struct probe *p = arg;

	for (;;) {
		unsigned int heard = atomic_load(&p->calls);

		if (atomic_load(&stop))
			return NULL;
		go_to_place(p);
		p->stay_awake = false;
		for (unsigned int i = 0; i < run.changers; i++) {
			struct request *r = &requests[i];
			bool together;

			if (!is_called(p, r))
				continue;
			together = r->op && r->op->together;
			answer(p, r);
			p->answered[i]++;
			if (atomic_fetch_sub(&r->left, 1) == 1) {
				atomic_store(&r->answered, p->answered[i]);
				hydra_futex_wake(&r->answered);
			} else if (!together) {
				call(p - 1);
			}
		}
		if (p->stay_awake)
			wait_awake(p, heard);
		hydra_futex_wait(&p->calls, heard);
	}
}

static void ask(struct request *r)
{
	unsigned int before = atomic_load(&r->number);
	bool together = r->op && r->op->together;

	atomic_store(&r->left, count);
	atomic_store(&r->number, before + 1);
	for (int i = together ? 0 : count - 1; i < count; i++)
		call(&probes[i]);
	while (atomic_load(&r->answered) == before)
		hydra_futex_wait(&r->answered, before);
}

void ask_probes(unsigned int changer, const struct op *op, const struct op *next)
{
	struct request *r = &requests[changer];

	r->op = op;
	r->next = next;
	r->all = false;
	ask(r);
}

void ask_probes_for_all(unsigned int changer)
{
	struct request *r = &requests[changer];

	r->op = r->next = NULL;
	r->all = true;
	ask(r);
}

void start_probes(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 0; node < hydra_nodes(); node++) {
		int found = hydra_node_cpus(node, cpus);

		for (int i = 0; i < found && count < MAX_PROBES; i++, count++) {
			struct probe *p = &probes[count];

			p->cpu = cpus[i];
			p->looker = (struct looker){
				.cpu = -1, .probe = count, .random = run.seed ^ (count + 1) << 20,
			};
			p->own_page = map_own_page(count);
			if (p->own_page)
				errno = pthread_create(&p->thread, NULL, probe_main, p);
			if (errno) {
				perror("# cannot start a thread");
				exit(1);
			}
		}
	}
}

void stop_probes(void)
{
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < count; i++) {
		call(&probes[i]);
		pthread_join(probes[i].thread, NULL);
	}
}
