// SPDX-License-Identifier: GPL-2.0-only
#include "lock_count.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "text.h"

#define NAME_COLUMNS 16		/* of a thread, ahead of "-TID" */
#define NO_CALL (-1)

/* The system calls that change mappings, or look at or fill many pages. exit_group() ends threads, which take the lock. */
static const struct {
	int number;
	const char *name;
} known[] = {
	{ SYS_mmap, "mmap" }, { SYS_munmap, "munmap" }, { SYS_mprotect, "mprotect" }, { SYS_madvise, "madvise" },
	{ SYS_brk, "brk" }, { SYS_mremap, "mremap" }, { SYS_clone, "clone" }, { SYS_clone3, "clone3" }, { SYS_fork, "fork" },
	{ SYS_vfork, "vfork" }, { SYS_execve, "execve" }, { SYS_execveat, "execveat" }, { SYS_exit, "exit" },
	{ SYS_exit_group, "exit_group" }, { SYS_mlock, "mlock" }, { SYS_mlock2, "mlock2" }, { SYS_munlock, "munlock" },
	{ SYS_mlockall, "mlockall" }, { SYS_munlockall, "munlockall" }, { SYS_mbind, "mbind" }, { SYS_move_pages, "move_pages" },
	{ SYS_migrate_pages, "migrate_pages" }, { SYS_pkey_mprotect, "pkey_mprotect" }, { SYS_msync, "msync" },
	{ SYS_mincore, "mincore" }, { SYS_shmat, "shmat" }, { SYS_shmdt, "shmdt" }, { SYS_remap_file_pages, "remap_file_pages" },
	{ SYS_process_madvise, "process_madvise" }, { SYS_prctl, "prctl" },
};

#define KNOWN (sizeof(known) / sizeof(*known))

struct thread {
	pid_t id;
	bool own;		/* it was of the process when the watch began */
	struct call call;	/* NO_CALL: none of the known ones */
	bool changes, fits;	/* the call has begun to change the process's mappings */
	bool waiting;		/* for the lock, since then: */
	double since;
};

const char *lock_call_name(size_t call)
{
	return call < KNOWN ? known[call].name : call == KNOWN ? "faults and other calls" : NULL;
}

char *lock_call_filter(void)
{
	char *filter = NULL;

	for (size_t i = 0; i < KNOWN; i++)
		append(&filter, "%sid == %d", i ? " || " : "", known[i].number);
	return filter;
}

static size_t row_of(const struct thread *thread)
{
	for (size_t i = 0; i < KNOWN; i++)
		if (known[i].number == thread->call.number)
			return i;
	return KNOWN;
}

static int compare_threads(const void *a, const void *b)
{
	return ((const struct thread *)a)->id - ((const struct thread *)b)->id;
}

static struct thread *thread_of(struct lock_count *count, pid_t id)
{
	struct thread key = { .id = id }, **found = tfind(&key, &count->threads, compare_threads);

	if (!found) {
		struct thread *made = must_have(calloc(1, sizeof(*made)));

		made->id = id;
		made->call.number = NO_CALL;
		found = must_have(tsearch(made, &count->threads, compare_threads));
	}
	return *found;
}

void lock_count_begin(struct lock_count *count)
{
	*count = (struct lock_count){ .calls = must_have(calloc(KNOWN + 1, sizeof(*count->calls))) };
}

void lock_count_free(struct lock_count *count)
{
	tdestroy(count->threads, free);
	regions_free(&count->regions);
	free(count->calls);
}

void lock_count_thread(struct lock_count *count, pid_t thread)
{
	thread_of(count, thread)->own = true;
}

static void forget_call(const void *node, VISIT visit, int depth)
{
	struct thread *thread = *(struct thread **)node;

	(void)depth;
	if (visit != postorder && visit != leaf)
		return;
	thread->call.number = NO_CALL;
	thread->waiting = false;
}

/* The number behind @name in @text, in @base; the rest of the text is left in @text. */
static bool number_after(const char **text, const char *name, int base, uint64_t *value)
{
	const char *at = strstr(*text, name);
	char *end;

	if (!at)
		return false;
	at += strlen(name);
	*value = strtoull(at, &end, base);
	*text = end;
	return end != at;
}

/* " NR 9 (0, 1000, 3, 22, ffffffff, 0)" */
static void enter(struct thread *thread, const char *text)
{
	uint64_t number;
	bool good = number_after(&text, "NR ", 10, &number);

	for (size_t i = 0; i < sizeof(thread->call.argument) / sizeof(*thread->call.argument); i++)
		good = good && number_after(&text, i ? ", " : " (", 16, &thread->call.argument[i]);
	thread->call.number = good ? (int64_t)number : NO_CALL;
	thread->changes = false;
	thread->fits = false;
	thread->waiting = false;
}

/* " NR 9 = 140737353875456" */
static void leave(struct lock_count *count, struct thread *thread, const char *text)
{
	uint64_t result;

	if (thread->changes && number_after(&text, " = ", 10, &result))
		regions_result(&count->regions, &thread->call, thread->fits, result);
	thread->call.number = NO_CALL;
	thread->changes = false;
}

static bool is_own(struct lock_count *count, const struct thread *thread, const char *text)
{
	uint64_t mm;

	if (!number_after(&text, "mm=", 16, &mm))
		return false;
	if (!count->mm && thread->own)
		count->mm = mm;
	return mm == count->mm;
}

static void start_waiting(struct thread *thread, double time)
{
	thread->waiting = true;
	thread->since = time;
}

static void acquired(struct lock_count *count, struct thread *thread, const char *text, double time)
{
	struct lock_calls *calls = &count->calls[row_of(thread)];
	double waited = 1e6 * (time - thread->since);

	/* Without a beginning, a lock for writing has become one for reading, or the beginning is lost. */
	if (!thread->waiting)
		return;
	thread->waiting = false;
	if (!strstr(text, "success=true"))
		return;
	if (waited >= LEAST_WAIT_US) {
		calls->waits++;
		calls->waited_us += waited;
	}
	if (!strstr(text, "write=true")) {
		calls->read++;
		return;
	}
	calls->write++;
	if (thread->call.number != NO_CALL && !thread->changes) {
		thread->changes = true;
		thread->fits = regions_fit(&count->regions, &thread->call);
		regions_change(&count->regions, &thread->call);
	}
	calls->fits += thread->changes && thread->fits && !count->none_fit;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* "            name-1234    [003] .....  5678.123456: event: text"; or "CPU:3 [LOST 45 EVENTS]" */
void lock_count_line(struct lock_count *count, const char *line)
{
	uint64_t lost, id, second, us;
	struct thread *thread;
	const char *text = line;

	if (begins(line, "CPU:")) {
		if (!number_after(&text, "[LOST ", 10, &lost))
			return;
		count->lost += lost;
		count->stale = true;
		/* What the threads have done meanwhile is not known. */
		twalk(count->threads, forget_call);
		return;
	}
	if (strnlen(line, NAME_COLUMNS) < NAME_COLUMNS)
		return;
	text += NAME_COLUMNS;
	if (!number_after(&text, "-", 10, &id))
		return;
	text = strstr(text, "] ");
	if (!text)
		return;
	text += strlen("] ");
	text += strcspn(text, " ");
	if (!number_after(&text, " ", 10, &second) || !number_after(&text, ".", 10, &us) || !begins(text, ": "))
		return;
	text += strlen(": ");
	thread = thread_of(count, id);
	if (begins(text, "sys_enter:"))
		enter(thread, text);
	else if (begins(text, "sys_exit:"))
		leave(count, thread, text);
	else if (begins(text, "mmap_lock_start_locking:") && is_own(count, thread, text))
		start_waiting(thread, second + us / 1e6);
	else if (begins(text, "mmap_lock_acquire_returned:") && is_own(count, thread, text))
		acquired(count, thread, text, second + us / 1e6);
}

struct lock_calls lock_count_all(const struct lock_count *count)
{
	struct lock_calls all = { 0 };

	for (size_t i = 0; i <= KNOWN; i++) {
		all.read += count->calls[i].read;
		all.write += count->calls[i].write;
		all.fits += count->calls[i].fits;
		all.waits += count->calls[i].waits;
		all.waited_us += count->calls[i].waited_us;
	}
	return all;
}
