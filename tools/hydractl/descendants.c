// SPDX-License-Identifier: GPL-2.0-only
#include "descendants.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "group.h"
#include "kernel.h"
#include "text.h"

#define TRIES 10		/* to read all while no process ends */

/* A descendant, or one that has ended. */
struct member {
	pid_t pid;
	bool runs;
	uint64_t number[COUNTERS];	/* at the last look */
	uint64_t before[GROWING];	/* of the programs that it executed before, and of ended ones with its PID */
};

static struct member *member;
static size_t members;
static uint64_t ended_before[GROWING];

/* What the kernel has added up by now. False: it does not. */
static bool read_ended(uint64_t ended[GROWING], struct process *own)
{
	char *text = process_file(getpid(), "hydra");

	if (!text)
		return false;
	if (process_load(own, getpid(), text)) {
		errno = EINVAL;
		return false;
	}
	for (enum counter i = 0; i < GROWING; i++)
		ended[i] = counted_ended(own, i);
	return true;
}

void descendants_begin(struct tally *tally)
{
	struct process own;

	if (!read_ended(ended_before, &own)) {
		tally->refusal = count_refusal(getpid());
		return;
	}
	tally->across_told = process_text(&own, counter_keys[ACROSS]);
	tally->with_others = counted(&own);
	if (!count_known(&own))
		errno = EINVAL;
	if (!count_known(&own) || (!counted(&own) && !count_set(getpid(), true)))
		tally->refusal = count_refusal(getpid());
	process_free(&own);
}

static struct member *member_of(pid_t pid)
{
	for (size_t i = 0; i < members; i++)
		if (member[i].pid == pid)
			return &member[i];
	member = must_have(reallocarray(member, members + 1, sizeof(*member)));
	member[members] = (struct member){ .pid = pid };
	return &member[members++];
}

/* A child of vfork() uses its parent's memory, whose counters the kernel shows for both. */
static bool borrows_memory(struct tally *tally, pid_t pid)
{
	long order = syscall(SYS_kcmp, pid, parent_of(pid), KCMP_VM, 0, 0);

	if (order < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		tally->may_count_twice = true;
	return !order;
}

static void look_at(struct tally *tally, pid_t pid)
{
	char *text = process_file(pid, "hydra");
	struct process process;
	struct member *of;
	bool begun_anew = false;

	if (!text) {
		tally->unreadable += errno == EACCES || errno == EPERM;
		return;
	}
	if (borrows_memory(tally, pid)) {
		free(text);
		return;
	}
	if (process_load(&process, pid, text))
		return;
	of = member_of(pid);
	of->runs = true;
	/* The counters of a new program start at 0. */
	for (enum counter i = 0; i < GROWING; i++)
		begun_anew |= process_number(&process, counter_keys[i]) < of->number[i];
	for (enum counter i = 0; i < GROWING && begun_anew; i++)
		of->before[i] += of->number[i];
	for (enum counter i = 0; i < COUNTERS; i++)
		of->number[i] = process_number(&process, counter_keys[i]);
	process_free(&process);
}

void descendants_look(struct tally *tally)
{
	struct group own = { .kind = GROUP_TREE, .pid = getpid() };
	size_t count = 0;
	autofree pid_t *pids = group_pids(&own, &count);
	uint64_t kib = 0;

	tally->unreadable = 0;
	for (size_t i = 0; i < members; i++)
		member[i].runs = false;
	for (size_t i = 0; i < count; i++)
		if (pids[i] != getpid())
			look_at(tally, pids[i]);
	for (size_t i = 0; i < members; i++)
		kib += member[i].runs ? member[i].number[REPLICA_KIB] : 0;
	if (kib > tally->peak_kib)
		tally->peak_kib = kib;
	tally->looks++;
}

/* Without the kernel's sum: all that was ever seen. */
static void add_members(struct tally *tally)
{
	tally->running = 0;
	for (size_t i = 0; i < members; i++) {
		tally->running += member[i].runs;
		for (enum counter j = 0; j < GROWING; j++) {
			if (member[i].runs || tally->refusal)
				tally->number[j] += member[i].number[j];
			if (tally->refusal)
				tally->number[j] += member[i].before[j];
		}
	}
}

void descendants_finish(struct tally *tally)
{
	uint64_t ended[GROWING] = { 0 }, again[GROWING];
	struct process own;

	for (int i = 0; i < TRIES; i++) {
		descendants_look(tally);
		if (tally->refusal)
			break;
		/* A process that ends between the two looks would be counted twice, or not at all. */
		if (!read_ended(again, &own)) {
			tally->refusal = must_have(strdup("what ended processes have counted could not be read at the end"));
			break;
		}
		process_free(&own);
		if (i && !memcmp(ended, again, sizeof(ended)))
			break;
		memcpy(ended, again, sizeof(ended));
	}
	for (enum counter i = 0; i < GROWING && !tally->refusal; i++)
		tally->number[i] = ended[i] - ended_before[i];
	add_members(tally);
	free(member);
	member = NULL;
	members = 0;
}
