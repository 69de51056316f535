// SPDX-License-Identifier: GPL-2.0-only
/* Several write and read at once, to processes that come, map, execute and go. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fuzz.h"

#define WRITERS	3

static struct contest {
	atomic_int victim;
	atomic_bool stop;
	atomic_uint taken;
	struct {
		struct way way;
		atomic_uint mistakes;
		unsigned int last;
	} writer[WRITERS];
} *contest;

/* On all nodes, maps and unmaps, and sets its own policy */
static void *live_busily(void *arg)
{
	unsigned int *number = arg;
	struct hydra_settings s = policies[1].settings;

	hydra_pin_to_node(*number % hydra_nodes());
	for (unsigned int round = 0;; round++) {
		uint64_t *page = mmap(NULL, 4 * PAGE_SIZE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < 4; i++)
			page[i * PAGE_WORDS] = i + *number;
		for (size_t i = 0; i < 4; i++)
			if (page[i * PAGE_WORDS] != i + *number)
				abort();
		munmap(page, 4 * PAGE_SIZE);
		s.prefetch = round % 10;
		if (round % 16 == 0 && hydra_set(&s))
			abort();
	}
	return NULL;
}

static void live_and_die(void)
{
	static unsigned int numbers[HYDRA_MAX_NODES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < hydra_nodes(); i++) {
		pthread_t thread;

		numbers[i] = i;
		pthread_create(&thread, NULL, live_busily, &numbers[i]);
	}
	live_busily(&numbers[0]);
}

static void contend(int number)
{
	struct way *way = &contest->writer[number].way;
	static char text[HUGE_TEXT + 512];

	begin_random(number, 7);
	hydra_pin_to_node(number % hydra_nodes());
	for (operation = 0; !atomic_load(&contest->stop); operation++) {
		pid_t pid = atomic_load(&contest->victim);
		struct hydra_settings any = policies[1].settings;
		const unsigned int gone = MAY(SRCH) | MAY(NOENT);
		char path[64], answer[4096];
		size_t len;
		int err;

		if (one_in(4)) {
			sprintf(path, "/proc/%d/hydra_check", pid);
			err = hydra_read_file(path, answer, sizeof(answer));
			judge(way, MAY(TAKEN) | gone, err, "%s", path);
			if (err > 0 && strncmp(answer, "ok ", 3))
				mistake("%s: %s", path, answer);
			continue;
		}
		len = valid_text(text);
		text[len] = 0;
		if (judge(way, understand(text, len, &any) | gone, hydra_write_policy(pid, text),
			  "\"%s", quote(text, len)) == TAKEN)
			atomic_fetch_add(&contest->taken, 1);
	}
	atomic_store(&contest->writer[number].mistakes, mistakes);
	_exit(0);
}

/* Two write one setting each: neither may undo what the other has done */
static void write_one_key(int number, pid_t pid)
{
	unsigned int last = 0;

	begin_random(number, 8);
	for (unsigned int i = 0; i < option.operations / 4; i++) {
		char text[32];

		last = number ? below(2) : below(10);
		if (number)
			sprintf(text, "filter=%s", values[FILTER][last]);
		else
			sprintf(text, "prefetch=%u", last);
		if (hydra_write_policy(pid, text))
			atomic_fetch_add(&contest->writer[number].mistakes, 1);
	}
	contest->writer[number].last = last;
	_exit(0);
}

void fuzz_contest(void)
{
	pid_t writer[WRITERS], victim;
	struct hydra_settings s;

	contest = mmap(NULL, sizeof(*contest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	fflush(NULL);
	for (int i = 0; i < WRITERS; i++) {
		contest->writer[i].way.name = "all at once";
		contest->writer[i].way.needed = MAY(TAKEN) | MAY(NOTSUPP);
		atomic_store(&contest->victim, getpid());
		writer[i] = fork();
		if (!writer[i])
			contend(i);
	}
	for (operation = 0; operation < option.operations / 16; operation++) {
		unsigned int taken = atomic_load(&contest->taken) + 1 + below(16);
		int status;

		victim = fork();
		if (!victim)
			live_and_die();
		atomic_store(&contest->victim, victim);
		while ((int)(atomic_load(&contest->taken) - taken) < 0)
			usleep(500);
		kill(victim, SIGKILL);
		usleep(below(1000));
		status = hydra_wait_child(victim);
		if (status != 128 + SIGKILL)
			mistake("a victim ended with %d: wrong memory, or settings refused", status);
	}
	atomic_store(&contest->stop, true);
	for (int i = 0; i < WRITERS; i++) {
		hydra_wait_child(writer[i]);
		mistakes += atomic_load(&contest->writer[i].mistakes);
		account_for(&contest->writer[i].way);
	}
	/* the writers' settings of this process are of no interest */
	hydra_on(9, HYDRA_FILTER_TABLE);

	victim = spawn(NULL);
	for (int i = 0; i < 2; i++) {
		writer[i] = fork();
		if (!writer[i])
			write_one_key(i, victim);
	}
	for (int i = 0; i < 2; i++)
		hydra_wait_child(writer[i]);
	if (read_settings(victim, &s) && (s.prefetch != contest->writer[0].last ||
					  s.filter != contest->writer[1].last))
		mistake("two have written prefetch=%u and filter=%s at last, but it is %s",
			contest->writer[0].last, values[FILTER][contest->writer[1].last], show(s));
	if (!hydra_consistent(victim))
		mistake("the one they wrote to is not consistent");
	kill(victim, SIGKILL);
	hydra_wait_child(victim);
	check_everything();
}
