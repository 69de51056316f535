// SPDX-License-Identifier: GPL-2.0-only
#include "subjects.h"

#include <unistd.h>

#include "counters.h"
#include "group.h"
#include "kernel.h"
#include "options.h"

#define STAT_UTIME 14
#define STAT_STIME 15

/* For subjects_restore(), also at an exit. */
static struct subjects *watched;
static uint64_t begun;		/* in the unit of /proc/PID/stat */

/* The CPU time that the process has used */
static uint64_t ticks_used(pid_t pid)
{
	autofree char *text = process_file(pid, "stat");

	return text ? stat_field(text, STAT_UTIME) + stat_field(text, STAT_STIME) : 0;
}

static bool is_new(pid_t pid)
{
	return born(pid) > begun;
}

static bool not_permitted(int error)
{
	return error == EACCES || error == EPERM;
}

/* Add the process, if it can be read. */
static struct subject *add(struct subjects *subjects, pid_t pid, bool named)
{
	struct subject *subject = &subjects->subject[subjects->count];
	char *text = named ? process_need(pid, "hydra", "read") : process_file(pid, "hydra");
	const char *gap;

	if (!text) {
		/* Else gone meanwhile, or a kernel thread. */
		subjects->left_out.unreadable += not_permitted(errno);
		return NULL;
	}
	*subject = (struct subject){ .pid = pid };
	gap = process_load(&subject->before, pid, text);
	if (gap && named)
		process_unexpected(pid, "hydra", gap);
	if (gap) {
		subjects->left_out.not_understood++;
		return NULL;
	}
	subject->name = must_have(strdup(subject->before.name));
	return subject;
}

static void begin(struct subjects *subjects, pid_t pid, bool named)
{
	struct subject *subject = add(subjects, pid, named);
	bool known, before;
	int saved;

	if (!subject)
		return;
	known = process_text(&subject->before, "count");
	before = counted(&subject->before);
	/* The counters stand still until then, so those read before are those at the start. */
	subject->switched_on = known && !before && count_set(pid, true);
	saved = known ? errno : EINVAL;
	subject->moment = now();
	subject->ticks = ticks_used(pid);
	if (before || subject->switched_on) {
		thread_nodes_look(&subject->nodes, pid);
		subjects->count++;
		return;
	}
	errno = saved;
	/* Or the kernel as such cannot count, so no process can be watched. */
	if (named || saved == EINVAL || saved == EOPNOTSUPP)
		error(argp_err_exit_status, 0, "%s", count_refusal(pid));
	subjects->left_out.unreadable += not_permitted(saved);
	/* Else it has ended. */
	if (!not_permitted(saved) && saved != ESRCH && saved != ENOENT) {
		autofree char *why = count_refusal(pid);

		error(0, 0, "%s", why);
	}
}

void subjects_begin(struct subjects *subjects, const pid_t *pids, size_t count, bool named)
{
	*subjects = (struct subjects){ 0 };
	/* One more than can be needed: calloc(0) may be NULL. */
	subjects->subject = must_have(calloc(count + 1, sizeof(*subjects->subject)));
	begun = ticks_since_boot();
	watched = subjects;
	atexit(subjects_restore);
	for (size_t i = 0; i < count; i++)
		if (pids[i] != getpid() || named)
			begin(subjects, pids[i], named);
}

/* A line of /proc/PID/status; @key: with the newline before it, and the colon */
static uint64_t status_kib(const struct subject *subject, const char *key)
{
	autofree char *text = process_file(subject->pid, "status");
	char *line = text ? strstr(text, key) : NULL;

	return line ? strtoull(line + strlen(key), NULL, 10) : 0;
}

static const char *why_tables_stay(const struct subject *subject)
{
	autofree char *vms = process_file(subject->pid, "hydra_vm");

	if (!subject->idle_seconds)
		return "/sys/kernel/mm/hydra/idle_seconds is 0 (at boot it is 60)";
	if (subject->active && !strcmp(process_text(&subject->after, "replication"), "eager"))
		return "replication is eager";
	if (status_kib(subject, "\nVmLck:"))
		return "the process has locked memory";
	return vms ? "the process has a virtual machine" : NULL;
}

static void find_home(struct subject *subject)
{
	autofree char *idle = kernel_newer_file("idle_seconds");
	struct thread_nodes now = { 0 };

	/* A single thread may have moved during the watch. */
	thread_nodes_look(&now, subject->pid);
	subject->at_home = idle && parse_u64(idle, &subject->idle_seconds) && now.count == 1;
	if (subject->at_home) {
		subject->home = now.node[0].node;
		subject->stays = why_tables_stay(subject);
	}
	thread_nodes_free(&now);
}

/* The kernel holds up the process meanwhile. */
static void read_tables(struct subject *subject)
{
	char *text = process_file(subject->pid, "hydra_tables");

	if (text && leaf_tables_parse(&subject->tables, text) && may_have_moved(subject))
		find_home(subject);
}

static void look(struct subject *subject)
{
	char *text = process_file(subject->pid, "hydra");
	struct counters counters;
	uint64_t ticks;

	subject->seconds = now() - subject->moment;
	/* Also ended: another process has the PID. */
	subject->ended = !text || process_load(&subject->after, subject->pid, text) ||
			 (is_new(subject->pid) && !counted(&subject->after));
	if (subject->ended)
		return;
	thread_nodes_look(&subject->nodes, subject->pid);
	subject->split = split_of(&subject->after);
	subject->late = split_sentence(&subject->after, subject->split);
	counters = counters_of(&subject->after, &subject->before, subject->seconds);
	subject->policy = process_text(&subject->after, "policy");
	subject->active = counters.active;
	/* A process that seems to have used nothing has used less than a tick. */
	ticks = ticks_used(subject->pid) - subject->ticks ?: 1;
	subject->cpus = (double)ticks / sysconf(_SC_CLK_TCK) / subject->seconds;
	subject->fills = counters.rate[FILLS];
	subject->changes = counters.rate[PROPAGATED];
	subject->flushes = counters.rate[FLUSHES];
	subject->sent = counters.rate[INTERRUPTED];
	subject->across = counters.rate[ACROSS];
	subject->spared = counters.rate[SPARED];
	subject->table_kib = status_kib(subject, "\nVmPTE:");
	subject->hydra_kib = counters.number[REPLICA_KIB] + 4 * counters.number[UPPER_TABLES];
	counters_free(&counters);
}

void subjects_look(struct subjects *subjects, bool tables)
{
	for (size_t i = 0; i < subjects->count; i++)
		look(&subjects->subject[i]);
	for (size_t i = 0; i < subjects->count; i++) {
		struct subject *subject = &subjects->subject[i];

		if (!subject->ended && (tables || may_have_moved(subject)))
			read_tables(subject);
	}
}

static const struct subject *find(pid_t pid)
{
	for (size_t i = 0; i < watched->count; i++)
		if (watched->subject[i].pid == pid)
			return &watched->subject[i];
	return NULL;
}

/* Did a process that hydractl switched on start this one, directly or not, since then? */
static bool has_inherited(pid_t pid)
{
	while (pid > 1 && !find(pid) && is_new(pid))
		pid = parent_of(pid);
	return pid > 1 && find(pid) && find(pid)->switched_on;
}

/* A process that is not counted does not mind. */
static void stop_inherited(void)
{
	size_t count;
	autofree pid_t *pids = all_pids(&count);

	for (size_t i = 0; i < count; i++)
		if (!find(pids[i]) && has_inherited(pids[i]))
			count_set(pids[i], false);
}

void subjects_restore(void)
{
	bool any = false;

	if (!watched)
		return;
	for (size_t i = 0; i < watched->count; i++)
		any |= watched->subject[i].switched_on;
	/* Children first: one that begins between the two is found the second time. */
	for (int pass = 0; any && pass < 2; pass++) {
		stop_inherited();
		for (size_t i = 0; !pass && i < watched->count; i++)
			if (watched->subject[i].switched_on && !is_new(watched->subject[i].pid))
				count_set(watched->subject[i].pid, false);
	}
	watched = NULL;
}
