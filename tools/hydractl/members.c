// SPDX-License-Identifier: GPL-2.0-only
#include "members.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "process.h"

struct member {
	pid_t pid;
	pid_t *thread;
	size_t threads;
	bool borrows;		/* uses the memory of the process that began it, after vfork() */
	bool split, looked;
	uint64_t number[SUMS];	/* at the last look */
};

static struct member *member;
static size_t members;

static struct member *find_process(pid_t pid)
{
	for (size_t i = 0; i < members; i++)
		if (member[i].pid == pid)
			return &member[i];
	return NULL;
}

static struct member *find_thread(pid_t tid, size_t *place)
{
	for (size_t i = 0; i < members; i++)
		for (*place = 0; *place < member[i].threads; ++*place)
			if (member[i].thread[*place] == tid)
				return &member[i];
	return NULL;
}

/* A number of the real /proc/TID/status, as the thread is real in tests, too. */
static pid_t status_number(pid_t tid, const char *key)
{
	char *path, *text, *line;
	int number = 0;

	path = must_have(asprintf(&path, "/proc/%d/status", tid) < 0 ? NULL : path);
	text = file_read(path);
	line = text ? strstr(text, key) : NULL;
	if (line && sscanf(line + strlen(key), "%d", &number) != 1)
		number = 0;
	free(path);
	free(text);
	return number;
}

static bool shares_memory(struct tally *tally, pid_t pid, pid_t other)
{
	long order = syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);

	if (order < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		tally->may_count_twice = true;
	return !order;
}

static struct member *add_process(struct tally *tally, pid_t pid)
{
	struct member *new;

	member = must_have(reallocarray(member, members + 1, sizeof(*member)));
	new = &member[members++];
	*new = (struct member){ .pid = pid };
	new->borrows = shares_memory(tally, pid, status_number(pid, "\nPPid:"));
	tally->processes++;
	return new;
}

void member_thread_seen(struct tally *tally, pid_t tid)
{
	struct member *of;
	size_t place;
	pid_t pid;

	if (find_thread(tid, &place))
		return;
	pid = status_number(tid, "\nTgid:") ?: tid;
	of = find_process(pid) ?: add_process(tally, pid);
	of->thread = must_have(reallocarray(of->thread, of->threads + 1, sizeof(*of->thread)));
	of->thread[of->threads++] = tid;
}

static void note_peak(struct tally *tally)
{
	uint64_t kib = 0;

	for (size_t i = 0; i < members; i++)
		kib += member[i].number[SUM_REPLICA_KIB];
	if (kib > tally->peak_kib)
		tally->peak_kib = kib;
}

static bool look(struct member *of, pid_t tid)
{
	char *text = process_file(tid, "hydra");
	struct process process;

	if (!text || process_load(&process, tid, text))
		return false;
	for (size_t i = 0; i < SUMS; i++)
		of->number[i] = process_number(&process, sum_keys[i]);
	of->split |= process_number(&process, "split");
	of->looked = true;
	process_free(&process);
	return true;
}

void member_look(struct tally *tally, pid_t tid)
{
	size_t place;
	struct member *of = find_thread(tid, &place);

	if (of && !of->borrows && look(of, tid))
		note_peak(tally);
}

void members_look(struct tally *tally)
{
	for (size_t i = 0; i < members; i++)
		/* A thread that has ended has no memory: try the next one. */
		for (size_t j = 0; j < member[i].threads && !member[i].borrows; j++)
			if (look(&member[i], member[i].thread[j]))
				break;
	note_peak(tally);
}

/* Keep what the program of the process counted. */
static void keep(struct tally *tally, struct member *of)
{
	for (size_t i = 0; i <= SUM_RECLAIMED; i++)
		tally->number[i] += of->number[i];
	memset(of->number, 0, sizeof(of->number));
}

void member_executed(struct tally *tally, pid_t pid)
{
	struct member *of = find_process(pid);

	if (!of)
		return;
	keep(tally, of);
	of->borrows = false;
	of->thread[0] = pid;
	of->threads = 1;
}

static void end_process(struct tally *tally, struct member *of)
{
	keep(tally, of);
	tally->split += of->split;
	tally->unreadable += !of->looked && !of->borrows;
	free(of->thread);
	*of = member[--members];
}

void member_thread_ended(struct tally *tally, pid_t tid)
{
	size_t place;
	struct member *of = find_thread(tid, &place);

	if (!of)
		return;
	of->thread[place] = of->thread[--of->threads];
	if (!of->threads)
		end_process(tally, of);
}

void members_finish(struct tally *tally)
{
	members_look(tally);
	tally->running = members;
	while (members)
		end_process(tally, &member[0]);
	free(member);
	member = NULL;
}
