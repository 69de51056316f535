// SPDX-License-Identifier: GPL-2.0-only
/*
 * The files in /proc and /sys, written and read in any way: whole and in pieces,
 * at any place, from anywhere and to anywhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kselftest.h"
#include "fuzz.h"

/* Texts to files: each file has a way to understand one that is written whole */

struct file {
	char path[64];
	struct way *way;
	/* takes a text; the model follows */
	unsigned int (*understand)(struct file *f, const char *text, size_t len);
	struct subject *subject;
	/* /sys: pieces are gathered to one text, of a page at most; offsets do not matter */
	bool sysfs;
};

static unsigned int understand_process(struct file *f, const char *text, size_t len)
{
	return len >= TEXT_MAX ? MAY(INVAL) : understand(text, len, &f->subject->settings);
}

static unsigned int understand_default(struct file *f, const char *text, size_t len)
{
	return understand(text, len, &machine.settings);
}

static unsigned int understand_replica_limit(struct file *f, const char *text, size_t len)
{
	return understand_limit(text, len, &machine.limit);
}

/* How much of a text goes in at once, and comes back as the result */
static size_t taken_at_once(const struct file *f, size_t len)
{
	return f->sysfs && len > PAGE_SIZE ? PAGE_SIZE : len;
}

static void write_whole(struct file *f, int fd, const char *text, size_t len, off_t offset)
{
	char *pointer = good_pointer(len);
	bool at = one_in(4);
	unsigned int may;
	long result;

	/* no file can be sought to everywhere */
	if (!at && offset && lseek(fd, offset, SEEK_SET) != offset)
		return;
	if (at && !f->sysfs)
		/* files in /proc that tell a sequence of things know no pwrite() */
		may = MAY(SPIPE);
	else if (offset && !f->sysfs)
		may = MAY(INVAL);
	else if (!len && f->sysfs)
		may = NOTHING_TO_SYSFS;
	else
		may = f->understand(f, text, taken_at_once(f, len));
	memcpy(pointer, text, len);
	result = RESULT(at ? pwrite(fd, pointer, len, offset) : write(fd, pointer, len));
	if (judge(f->way, may, result, "%s at %ld: \"%s", f->path, offset, quote(text, len)) ==
	    TAKEN && result != taken_at_once(f, len))
		mistake("%s: %ld bytes taken of \"%s", f->path, result, quote(text, len));
}

/* In /proc each piece of a vector is a text */
static void write_vector(struct file *f, int fd, const char *text, size_t len)
{
	size_t cut = 1 + below(len - 1), taken = 0;
	struct iovec pieces[] = {
		{ (void *)text, cut }, { (void *)(text + cut), len - cut },
	};
	unsigned int may = MAY(TAKEN);
	long result;

	if (f->sysfs) {
		taken = taken_at_once(f, len);
		may = f->understand(f, text, taken);
	}
	for (int i = 0; i < 2 && !f->sysfs && may == MAY(TAKEN); i++) {
		may = f->understand(f, pieces[i].iov_base, pieces[i].iov_len);
		if (may == MAY(TAKEN))
			taken += pieces[i].iov_len;
		else if (taken)
			break;
	}
	if (taken && !f->sysfs)
		may = MAY(TAKEN);
	result = RESULT(writev(fd, pieces, 2));
	if (judge(f->way, may, result, "%s: a vector, \"%s, cut at %zu", f->path,
		  quote(text, len), cut) == TAKEN && result != taken)
		mistake("%s: %ld bytes taken, not %zu, of \"%s, cut at %zu", f->path, result,
			taken, quote(text, len), cut);
}

static void write_pieces(struct file *f, int fd, const char *text, size_t len)
{
	while (len) {
		size_t piece = 1 + below(len < 12 ? len : 12);

		write_whole(f, fd, text, piece, 0);
		text += piece;
		len -= piece;
	}
}

static void write_nothing(struct file *f, int fd)
{
	judge(f->way, f->sysfs ? NOTHING_TO_SYSFS : MAY(INVAL),
	      RESULT(write(fd, good_pointer(0), 0)), "%s: nothing", f->path);
}

static void write_from_nowhere(struct file *f, int fd, size_t len)
{
	char *pointer;

	/* what is beyond a page, sysfs does not look at */
	if (!len || len > PAGE_SIZE)
		len = 1 + below(TEXT_MAX);
	pointer = bad_pointer(len, true);
	judge(f->way, MAY(FAULT) | (len >= TEXT_MAX ? MAY(INVAL) : 0),
	      RESULT(write(fd, pointer, len)), "%s: %zu bytes at %p", f->path, len, pointer);
}

static void write_any(struct file *f, char *text, size_t len)
{
	static const int flags[] = {
		O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC, O_RDWR | O_APPEND, O_WRONLY | O_CREAT,
		O_WRONLY | O_NONBLOCK,
	};
	int fd = open(f->path, flags[below(ARRAY_SIZE(flags))] | O_CLOEXEC, 0600);
	off_t offset;

	if (fd < 0) {
		mistake("%s cannot be opened: %s", f->path, strerror(errno));
		return;
	}
	switch (below(12)) {
	case 0:
		/* /proc can be sought to where there is something to be read */
		offset = one_in(4) ? next_random() >> below(40) | 1 : 1 + below(TEXT_MAX);
		write_whole(f, fd, text, len, offset);
		break;
	case 1:
		if (len > 1) {
			write_vector(f, fd, text, len);
			break;
		}
		__attribute__((fallthrough));
	case 2:
		write_pieces(f, fd, text, len < 2 * TEXT_MAX ? len : 2 * TEXT_MAX);
		break;
	case 3:
		write_nothing(f, fd);
		break;
	case 4:
		write_from_nowhere(f, fd, len);
		break;
	default:
		/* twice with the same file: the second is a text of its own, too */
		write_whole(f, fd, text, len, 0);
		if (one_in(4))
			write_whole(f, fd, text, len, 0);
	}
	close(fd);
}

static pid_t thread_id;
static atomic_bool thread_stop;

static void *thread_main(void *arg)
{
	thread_id = gettid();
	pthread_barrier_wait(arg);
	while (!atomic_load(&thread_stop))
		usleep(10000);
	return NULL;
}

void fuzz_process_text(void)
{
	struct way way = {
		"/proc/PID/hydra",
		MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(FAULT) | MAY(SPIPE)
	};
	struct way thread_way = { "/proc/PID/task/TID/hydra", MAY(NOENT) };
	struct subject *self = add_subject("this process", getpid());
	struct subject *child = add_subject("a child", spawn(NULL));
	struct file files[] = {
		{ "/proc/self/hydra", &way, understand_process, self },
		{ "", &way, understand_process, child },
		/* by its second thread */
		{ "", &way, understand_process, self },
	};
	static char text[HUGE_TEXT + 512];
	pthread_barrier_t barrier;
	pthread_t thread;
	char path[64];

	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, thread_main, &barrier))
		mistake("no second thread");
	pthread_barrier_wait(&barrier);
	sprintf(files[1].path, "/proc/%d/hydra", child->pid);
	sprintf(files[2].path, "/proc/%d/hydra", thread_id);
	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		write_any(&files[below(ARRAY_SIZE(files))], text, any_text(text));
		if (one_in(16)) {
			sprintf(path, "/proc/self/task/%d/hydra", thread_id);
			judge(&thread_way, MAY(NOENT), hydra_write_file(path, "hydra"), "%s", path);
			judge(&thread_way, MAY(NOENT),
			      hydra_write_file("/proc/thread-self/hydra", "hydra"), "thread-self");
		}
		check_everything();
	}
	atomic_store(&thread_stop, true);
	pthread_join(thread, NULL);
	account_for(&way);
	account_for(&thread_way);
}

void fuzz_machine_text(void)
{
	struct way way[] = {
		{ HYDRA_SYSFS "default", MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(FAULT) },
		{ HYDRA_SYSFS "replica_limit_kib", MAY(TAKEN) | MAY(INVAL) | MAY(FAULT) },
		{ "files only to be read", MAY(ACCES) | MAY(INVAL) },
	};
	struct file files[] = {
		{ HYDRA_SYSFS "default", &way[0], understand_default, .sysfs = true },
		{ HYDRA_SYSFS "replica_limit_kib", &way[1], understand_replica_limit,
		  .sysfs = true },
	};
	static const char * const read_only[] = {
		HYDRA_SYSFS "domains", HYDRA_SYSFS "supported", HYDRA_SYSFS "violations",
		"/proc/self/hydra_tables", "/proc/self/hydra_check",
	};
	static char text[HUGE_TEXT + 512];

	add_subject("this process", getpid());
	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		write_any(&files[0], text, any_text(text));
		write_any(&files[1], text, any_limit(text));
		if (one_in(8)) {
			const char *path = read_only[below(ARRAY_SIZE(read_only))];

			text[valid_text(text)] = 0;
			judge(&way[2], MAY(ACCES) | MAY(INVAL), hydra_write_file(path, text), "%s",
			      path);
		}
		check_everything();
	}
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}

/* Reading, in pieces and to nowhere */

static long read_pieces(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	long got;

	if (fd < 0)
		return -errno;
	do {
		size_t piece = 1 + below(one_in(4) ? 300 : 9);

		got = RESULT(read(fd, text + len, piece < size - len ? piece : size - len));
		len += got > 0 ? got : 0;
	} while (got > 0 && len < size);
	close(fd);
	return got < 0 ? got : len;
}

static void read_at(struct way *way, const char *path, const char *whole, long len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t offset = one_in(8) ? next_random() >> below(48) : below(len + 2);
	size_t size = one_in(4) ? below(2 * PAGE_SIZE) : below(20), expected;
	char *pointer = good_pointer(size);
	long got;

	if (offset < len && size && one_in(4)) {
		pointer = bad_pointer(size, false);
		judge(way, MAY(FAULT), RESULT(pread(fd, pointer, size, offset)),
		      "%s: %zu bytes from %ld to %p", path, size, offset, pointer);
	} else {
		got = RESULT(pread(fd, pointer, size, offset));
		expected = offset >= len ? 0 : len - offset < size ? len - offset : size;
		if (judge(way, MAY(TAKEN), got, "%s: %zu bytes from %ld", path, size, offset) ==
		    TAKEN && whole && (got != expected ||
				       memcmp(pointer, whole + offset, expected)))
			mistake("%s: %zu bytes from %ld: %ld come, \"%s, not \"%s", path, size,
				offset, got, quote(pointer, got), quote(whole + offset, expected));
	}
	close(fd);
}

void fuzz_reads(void)
{
	struct way way = { "reads", MAY(TAKEN) | MAY(FAULT) };
	struct subject *child = add_subject("a child", spawn(NULL));
	static const char * const names[] = { "hydra", "hydra_tables", "hydra_check" };
	static const char * const sysfs[] = {
		"default", "replica_limit_kib", "domains", "supported", "violations",
	};
	static char before[16384], after[16384], pieces[16384];
	unsigned int compared = 0;
	char path[64];

	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		long len, again, in_pieces;

		if (one_in(3))
			sprintf(path, HYDRA_SYSFS "%s", sysfs[below(ARRAY_SIZE(sysfs))]);
		else
			sprintf(path, "/proc/%d/%s", one_in(4) ? getpid() : child->pid,
				names[below(ARRAY_SIZE(names))]);
		len = hydra_read_file(path, before, sizeof(before));
		in_pieces = read_pieces(path, pieces, sizeof(pieces));
		again = hydra_read_file(path, after, sizeof(after));
		if (len <= 0 || in_pieces <= 0 || again <= 0) {
			mistake("%s: %ld bytes, %ld in pieces, %ld", path, len, in_pieces, again);
			break;
		}
		if (before[len - 1] != '\n' || pieces[in_pieces - 1] != '\n')
			mistake("%s does not end with a newline", path);
		if (len != again || memcmp(before, after, len)) {
			read_at(&way, path, NULL, len);
			continue;
		}
		compared++;
		if (len != in_pieces || memcmp(before, pieces, len))
			mistake("%s says something else in pieces: \"%s, not \"%s", path,
				quote(pieces, in_pieces), quote(before, len));
		read_at(&way, path, before, len);
	}
	if (compared < option.operations / 4)
		mistake("only %u reads could be compared", compared);
	check_everything();
	account_for(&way);
}
