// SPDX-License-Identifier: GPL-2.0-only
#include "steps_others.h"

#include <errno.h>
#include <error.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "machine.h"

#define OFTEN 100000	/* turns of waiting */

/* The task of the others, in memory that threads and processes share. */
struct order {
	enum task task;
	const struct row *row;
	size_t number;
	struct place *place;
	volatile uint64_t turn __attribute__((aligned(64)));
};

struct other {
	/* In a cache line of its own, because other CPUs read it. */
	volatile uint64_t done __attribute__((aligned(64)));
	pid_t process;
	bool first;
	struct place place;
};

static struct common {
	struct order order;
	struct other other[OTHERS_MOST];
} *common;
static size_t count;

static void call(void (*function)(struct place *place), struct place *place)
{
	if (function)
		function(place);
}

static void sleep_for_ticks(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 12000000 }, NULL);
}

static void perform(const struct order *order, bool first, struct place *place)
{
	switch (order->task) {
	case NOTHING:
		return;
	case PREPARE:
		place_open(place, order->number, order->row->size);
		call(order->row->prepare, place);
		return;
	case OPERATE:
		call(order->row->before, place);
		call(order->row->once, place);
		return;
	case FINISH:
		call(order->row->finish, place);
		place_close(place, order->number);
		return;
	case ELSEWHERE:
		if (first)
			call(order->row->elsewhere, order->place);
		return;
	case USE:
		call(order->row->use, order->place);
		return;
	case SLEEP:
		sleep_for_ticks();
		return;
	}
}

/* At a pause instruction the emulator runs the next CPU. */
static _Noreturn void *serve(void *argument)
{
	struct other *me = argument;
	/* A copy, because child processes write to memory that they share with their parent. */
	struct place place = me->place;

	for (;;) {
		while (common->order.turn == me->done)
			_mm_pause();
		perform(&common->order, me->first, &place);
		me->done = common->order.turn;
	}
}

static void start_process(struct other *other)
{
	other->process = fork();
	if (other->process < 0)
		error(EXIT_FAILURE, errno, "fork");
	if (other->process)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_self(other->place.cpu);
	serve(other);
}

void others_start(const int *cpus, size_t cpu_count, enum others_kind kind, char *places, size_t size)
{
	if (kind == OTHERS_NONE)
		return;
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		error(EXIT_FAILURE, errno, "memory for all");
	count = cpu_count;
	for (size_t i = 0; i < count; i++) {
		struct other *other = &common->other[i];

		other->first = !i;
		other->place = (struct place){ .base = places + i * size, .cpu = cpus[i] };
		if (kind == OTHERS_PROCESSES)
			start_process(other);
		else
			start_pinned(other->place.cpu, serve, other);
	}
	others_do(NOTHING, NULL, 0, NULL);
}

void others_end(void)
{
	for (size_t i = 0; i < count; i++) {
		if (common->other[i].process) {
			kill(common->other[i].process, SIGKILL);
			waitpid(common->other[i].process, NULL, 0);
		}
	}
}

static void wait_for(const struct other *other)
{
	for (unsigned int turn = 1; other->done != common->order.turn; turn++) {
		_mm_pause();
		if (!(turn % OFTEN) && other->process && waitpid(other->process, NULL, WNOHANG))
			error(EXIT_FAILURE, 0, "a process on another node ended");
	}
}

static void tell(enum task task, const struct row *row, size_t number, struct place *place)
{
	struct order *order = &common->order;

	order->task = task;
	order->row = row;
	order->number = number;
	order->place = place;
	order->turn++;
}

static void wait_for_all(void)
{
	for (size_t i = 0; i < count; i++)
		wait_for(&common->other[i]);
}

void others_do(enum task task, const struct row *row, size_t number, struct place *place)
{
	if (!count)
		return;
	tell(task, row, number, place);
	wait_for_all();
}

void others_settle(void)
{
	if (count)
		tell(SLEEP, NULL, 0, NULL);
	sleep_for_ticks();
	wait_for_all();
}
