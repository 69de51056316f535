// SPDX-License-Identifier: GPL-2.0-only
/* hydractl explain --locks: which system calls of a process take its mmap_lock, and how long threads wait for it. */
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "json.h"
#include "kernel.h"
#include "lock_count.h"
#include "lock_trace.h"
#include "options.h"
#include "process.h"
#include "table.h"

#define LOOK_SECONDS 0.05
#define ELF_CLASS 4
#define ELF_32_BITS 1

/* Less of one thread's time than that is not worth a change; as of policy auto. */
#define QUIET_SHARE 0.002
/* What makes regions worth while: this share of the acquisitions for writing. */
#define REGION_SHARE 0.2

struct watch_of_locks {
	pid_t pid;
	char *name;
	double seconds;
	const char *limit;	/* why nothing would fit a region; NULL: something may */
	struct lock_count count;
	struct lock_calls all;
	bool ended;
};

static void take_line(void *count, const char *line)
{
	lock_count_line(count, line);
}

/* The threads of the process, to be freed */
static pid_t *threads_of(pid_t pid, size_t *count)
{
	autofree char *path = process_path(pid, "task");
	DIR *directory = opendir(path);
	pid_t *threads = NULL;
	struct dirent *entry;

	*count = 0;
	while (directory && (entry = readdir(directory))) {
		uint64_t id;

		if (!parse_u64(entry->d_name, &id))
			continue;
		threads = must_have(reallocarray(threads, *count + 1, sizeof(*threads)));
		threads[(*count)++] = id;
	}
	if (directory)
		closedir(directory);
	return threads;
}

/* The numbers of system calls are those of programs of 64 bits. */
static void require_64_bits(pid_t pid)
{
	autofree char *path = process_path(pid, "exe");
	char head[ELF_CLASS + 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (read(fd, head, sizeof(head)) == sizeof(head) && head[ELF_CLASS] == ELF_32_BITS)
		error(EXIT_ERROR, 0, "process %d is a program of 32 bits, whose system calls hydractl does not know", pid);
	close(fd);
}

/* The line of /proc/PID/limits that begins with @name says "unlimited". */
static bool unlimited(const char *limits, const char *name)
{
	const char *line = strstr(limits, name);

	return !line || !strncmp(line + strlen(name) + strspn(line + strlen(name), " "), "unlimited", strlen("unlimited"));
}

static const char *limit_of(pid_t pid)
{
	autofree char *limits = process_file(pid, "limits");

	if (limits && !unlimited(limits, "Max address space"))
		return "the process has a limit of its address space (RLIMIT_AS)";
	if (limits && !unlimited(limits, "Max data size"))
		return "the process has a limit of its data (RLIMIT_DATA)";
	return NULL;
}

static bool huge_pages_always(void)
{
	autofree char *path = xasprintf("%s/kernel/mm/transparent_hugepage/enabled", kernel_sys());
	autofree char *text = file_read(path);

	return text && strstr(text, "[always]");
}

static void begin(struct watch_of_locks *watch)
{
	autofree char *maps = process_need(watch->pid, "maps", "trace"), *filter = lock_call_filter();
	autofree pid_t *threads = NULL;
	size_t count;

	require_64_bits(watch->pid);
	watch->name = process_name(watch->pid);
	watch->limit = limit_of(watch->pid);
	lock_count_begin(&watch->count);
	watch->count.none_fit = watch->limit;
	watch->count.regions.huge = huge_pages_always();
	threads = threads_of(watch->pid, &count);
	for (size_t i = 0; i < count; i++)
		lock_count_thread(&watch->count, threads[i]);
	regions_begin(&watch->count.regions, maps);
	lock_trace_begin(threads, count, filter);
}

static void look_at_maps(struct watch_of_locks *watch)
{
	autofree char *maps = process_file(watch->pid, "maps");

	if (maps)
		regions_begin(&watch->count.regions, maps);
	watch->count.stale = false;
}

/* Returns the signal that ended the watch, 0 if the time is up or the process has ended. */
static int watch_for(struct watch_of_locks *watch, double seconds, const sigset_t *signals)
{
	const struct timespec look = { .tv_nsec = LOOK_SECONDS * 1e9 };
	autofree char *process = process_path(watch->pid, "comm");
	double start = now();
	int signal = 0;

	do {
		signal = sigtimedwait(signals, NULL, &look);
		lock_trace_read(take_line, &watch->count, start + seconds);
		if (watch->count.stale)
			look_at_maps(watch);
		watch->ended = access(process, F_OK);
	} while (signal <= 0 && !watch->ended && now() < start + seconds);
	watch->seconds = now() - start;
	lock_trace_stop();
	lock_trace_read(take_line, &watch->count, INFINITY);
	lock_trace_end();
	return signal > 0 ? signal : 0;
}

static double percent(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

/* The call with the most acquisitions for writing */
static const char *top_writer(const struct lock_count *count)
{
	size_t top = 0;

	for (size_t i = 0; lock_call_name(i); i++)
		if (count->calls[i].write > count->calls[top].write)
			top = i;
	return lock_call_name(top);
}

static char *sentence_of(const struct watch_of_locks *watch)
{
	const struct lock_calls *all = &watch->all;
	double waited = all->waited_us / 1e6 / watch->seconds, share = percent(all->fits, all->write);
	const char *top = top_writer(&watch->count);

	if (!all->read && !all->write)
		return must_have(strdup("Nothing to gain: no thread has taken mmap_lock."));
	if (waited < QUIET_SHARE)
		return xasprintf("Little to gain: threads have waited for mmap_lock for %.2g %% of the time of one thread.", 100 * waited);
	if (share < 100 * REGION_SHARE)
		return xasprintf("Threads wait for mmap_lock, %.1f %% of the time of one thread, but only %.0f %% of the acquisitions for writing, most of them of %s, are of the kind that a finer lock could take: fewer such calls are what helps.",
				 100 * waited, share, top);
	return xasprintf("Threads wait for mmap_lock, %.1f %% of the time of one thread, and %.0f %% of the acquisitions for writing, most of them of %s, are of plain anonymous memory: an allocator that keeps its memory avoids these calls (of glibc: GLIBC_TUNABLES glibc.malloc.mmap_threshold, glibc.pthread.stack_cache_size).",
			 100 * waited, share, top);
}

static void json_watch(const struct watch_of_locks *watch)
{
	autofree char *sentence = sentence_of(watch);

	json_open_process(watch->pid, watch->name);
	json_flag("ended", watch->ended);
	json_real("seconds", watch->seconds);
	json_number("lost", watch->count.lost);
	json_real("fits_percent", watch->all.write ? percent(watch->all.fits, watch->all.write) : NAN);
	json_string("limit", watch->limit);
	json_string("sentence", sentence);
	json_open_rows("calls");
	for (size_t i = 0; lock_call_name(i); i++) {
		const struct lock_calls *calls = &watch->count.calls[i];

		if (!calls->read && !calls->write)
			continue;
		json_open_object(NULL);
		json_string("call", lock_call_name(i));
		json_number("read", calls->read);
		json_number("write", calls->write);
		json_number("fits", calls->fits);
		json_number("waits", calls->waits);
		json_number("waited_us", calls->waited_us);
		json_close();
	}
	json_close();
	json_close();
}

static void print_row(struct table *table, const char *name, const struct lock_calls *calls)
{
	table_cell(table, "%s", name);
	table_cell(table, "%" PRIu64, calls->read);
	table_cell(table, "%" PRIu64, calls->write);
	table_cell(table, "%" PRIu64, calls->fits);
	table_cell(table, "%" PRIu64, calls->waits);
	table_cell(table, "%" PRIu64, calls->waited_us);
}

static void print_watch(const struct watch_of_locks *watch)
{
	static const struct column columns[] = {
		{ .head = "CALL", -22, 1 }, { .head = "READ", 10, 2 }, { .head = "WRITE", 10, 1 }, { .head = "FITS", 10, 3 },
		{ .head = "WAITS", 8, 5 }, { .head = "WAITED-US", 10, 4 },
	};
	size_t wide = terminal_columns(STDOUT_FILENO) ?: SIZE_MAX;
	autofree char *name = printable(watch->name), *sentence = sentence_of(watch);
	struct table table = TABLE(stdout, columns, wide);

	print_wrapped(0, wide, "process %d (%s), traced for %.1f s%s", watch->pid, name, watch->seconds, watch->ended ? ", until it ended" : "");
	putchar('\n');
	print_wrapped(0, wide, "%s", sentence);
	putchar('\n');
	table_head(&table);
	for (size_t i = 0; lock_call_name(i); i++)
		if (watch->count.calls[i].read || watch->count.calls[i].write)
			print_row(&table, lock_call_name(i), &watch->count.calls[i]);
	print_row(&table, "all", &watch->all);
	putchar('\n');
	print_wrapped(0, wide, "%.1f %% of the acquisitions for writing would fit a region%s%s.", percent(watch->all.fits, watch->all.write),
		      watch->limit ? ": none, because " : "", watch->limit ?: "");
	if (watch->count.lost)
		print_wrapped(0, wide, "%" PRIu64 " events were lost, because they came faster than hydractl reads: the counts are too low.", watch->count.lost);
}

int explain_locks(double seconds)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct watch_of_locks watch = { .pid = options.pid };
	sigset_t signals, before;
	struct sigaction action;
	int signal;

	/* A signal waits until the trace has ended. */
	sigemptyset(&signals);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (!sigaction(ends[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(&signals, ends[i]);
	sigprocmask(SIG_BLOCK, &signals, &before);
	begin(&watch);
	signal = watch_for(&watch, seconds, &signals);
	if (signal && signal != SIGINT)
		raise(signal);
	sigprocmask(SIG_SETMASK, &before, NULL);
	watch.all = lock_count_all(&watch.count);
	if (options.json)
		json_watch(&watch);
	else
		print_watch(&watch);
	lock_count_free(&watch.count);
	free(watch.name);
	return 0;
}
