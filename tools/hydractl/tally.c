// SPDX-License-Identifier: GPL-2.0-only
#include "tally.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel.h"
#include "options.h"
#include "subjects.h"

#define TRIES 10		/* to read all while no process ends */

struct tally tally;

/* A process that was seen, or one that has ended. */
struct member {
	pid_t pid;
	bool runs;
	bool stays;			/* of a group from its start on: it stays in the sums when it has ended */
	bool with_ended;		/* of such: with those that the kernel adds up for it */
	uint64_t number[COUNTERS];	/* at the last look */
	uint64_t before[GROWING];	/* of the programs that it executed before, and of ended ones with its PID */
};

static struct member *member;
static size_t members;
static struct subjects subjects;
static bool of_group;

/* What the kernel has added up of hydractl's descendants by now; and all that had been counted when the run began. */
static uint64_t ended[GROWING], begun[GROWING];

/* Read what the kernel has added up by now. False: it does not. */
static bool read_ended(uint64_t into[GROWING], struct process *own)
{
	char *text = process_file(getpid(), "hydra");

	if (!text)
		return false;
	if (process_load(own, getpid(), text)) {
		errno = EINVAL;
		return false;
	}
	for (enum counter i = 0; i < GROWING; i++)
		into[i] = counted_ended(own, i);
	return true;
}

/* Before the first child is born: it is counted because hydractl is. */
static void count_descendants(void)
{
	static bool done;
	struct process own;

	if (!read_ended(ended, &own)) {
		tally.refusal = count_refusal(getpid());
		return;
	}
	tally.across_told = process_text(&own, counter_keys[ACROSS]);
	tally.with_others = counted(&own) && !done;
	errno = EINVAL;
	if (!process_text(&own, "count") || (!counted(&own) && !count_set(getpid(), true)))
		tally.refusal = count_refusal(getpid());
	process_free(&own);
	done = !tally.with_others;
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

void tally_group(void)
{
	size_t count;
	pid_t *pids;

	of_group = true;
	group_find(&options.group);
	pids = group_list(&options.group, &count);
	subjects_begin(&subjects, pids, count, false);
	if (!subjects.count)
		error(argp_err_exit_status, 0, "no process of it can be counted");
	for (size_t i = 0; i < subjects.count; i++) {
		struct member *of = member_of(subjects.subject[i].pid);

		of->stays = true;
		of->with_ended = subjects.subject[i].switched_on;
		for (enum counter j = 0; j < GROWING; j++)
			of->number[j] = process_number(&subjects.subject[i].before, counter_keys[j]);
	}
}

/* A child of vfork() uses its parent's memory, whose counters the kernel shows for both. */
static bool borrows_memory(pid_t pid)
{
	long order = syscall(SYS_kcmp, pid, parent_of(pid), KCMP_VM, 0, 0);

	if (order < 0 && (errno == ENOSYS || errno == EOPNOTSUPP))
		tally.may_count_twice = true;
	return !order;
}

static void look_at(pid_t pid)
{
	char *text = process_file(pid, "hydra");
	struct process process;
	struct member *of;
	bool begun_anew = false;

	if (!text) {
		tally.unreadable += errno == EACCES || errno == EPERM;
		return;
	}
	if (borrows_memory(pid)) {
		free(text);
		return;
	}
	if (process_load(&process, pid, text))
		return;
	of = member_of(pid);
	of->runs = true;
	tally.across_told |= of_group && process_text(&process, counter_keys[ACROSS]);
	/* The counters of a new program start at 0, and the kernel adds the former one's to those of ended processes. */
	for (enum counter i = 0; i < GROWING; i++)
		begun_anew |= !of->with_ended && process_number(&process, counter_keys[i]) < of->number[i];
	for (enum counter i = 0; i < GROWING && begun_anew; i++)
		of->before[i] += of->number[i];
	for (enum counter i = 0; i < COUNTERS; i++)
		of->number[i] = process_number(&process, counter_keys[i]) +
			(of->with_ended && i < GROWING ? counted_ended(&process, i) : 0);
	process_free(&process);
}

void tally_look(void)
{
	struct group own = { .kind = GROUP_TREE, .pid = getpid() };
	size_t count = 0;
	autofree pid_t *pids = group_pids(of_group ? &options.group : &own, &count);
	uint64_t kib = 0;

	tally.unreadable = 0;
	for (size_t i = 0; i < members; i++)
		member[i].runs = false;
	for (size_t i = 0; pids && i < count; i++)
		if (pids[i] != getpid())
			look_at(pids[i]);
	for (size_t i = 0; i < members; i++)
		kib += member[i].runs ? member[i].number[REPLICA_KIB] : 0;
	if (kib > tally.peak_kib)
		tally.peak_kib = kib;
	tally.looks++;
}

/* All that has been counted by now, as of the last look. Without the kernel's sum: all that was ever seen. */
static void add_up(uint64_t sum[GROWING])
{
	tally.running = tally.ended = 0;
	for (enum counter i = 0; i < GROWING; i++)
		sum[i] = of_group || tally.refusal ? 0 : ended[i];
	for (size_t i = 0; i < members; i++) {
		const struct member *of = &member[i];
		bool all = tally.refusal || (of->stays && !of->with_ended);

		tally.running += of->runs;
		tally.ended += of->stays && !of->runs;
		for (enum counter j = 0; j < GROWING; j++)
			sum[j] += (of->runs || of->stays || all ? of->number[j] : 0) + (all ? of->before[j] : 0);
	}
}

void tally_begin(void)
{
	tally = (struct tally){ 0 };
	if (!of_group)
		count_descendants();
	if (of_group || members)
		tally_look();
	add_up(begun);
	tally.looks = 0;
	tally.peak_kib = 0;
}

void tally_finish(void)
{
	uint64_t before[GROWING], sum[GROWING];
	struct process own;

	for (int i = 0; i < TRIES; i++) {
		tally_look();
		if (tally.refusal || of_group)
			break;
		/* A process that ends between the two looks would be counted twice, or not at all. */
		memcpy(before, ended, sizeof(ended));
		if (!read_ended(ended, &own)) {
			tally.refusal = must_have(strdup("what ended processes have counted could not be read at the end"));
			memset(begun, 0, sizeof(begun));
			break;
		}
		process_free(&own);
		if (i && !memcmp(before, ended, sizeof(ended)))
			break;
	}
	add_up(sum);
	for (enum counter i = 0; i < GROWING; i++)
		tally.number[i] = sum[i] - begun[i];
}
