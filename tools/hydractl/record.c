// SPDX-License-Identifier: GPL-2.0-only
#include "record.h"

#include <argp.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "kernel.h"
#include "options.h"

#define WHOLE_EVERY 60		/* looks: a reader goes back so far for a text */

static const char *path;
static uint64_t half;		/* the most bytes of a file */
static int fd = -1;
static uint64_t written;	/* bytes in the file */

/* The text of a process at the look before */
struct text {
	pid_t pid;
	char *text;
};

static struct text *before;
static size_t before_count;
static uint64_t looks;		/* since the last whole one */
static bool begins = true;

static char *older_path(const char *of)
{
	return xasprintf("%s.1", of);
}

static _Noreturn void cannot_write(void)
{
	error(EXIT_ERROR, errno, "cannot write %s", path);
	abort();
}

/* Open the file, to append to it. */
static void open_file(void)
{
	struct stat stat;
	char last = '\n';

	fd = open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0640);
	if (fd < 0)
		cannot_write();
	if (flock(fd, LOCK_EX | LOCK_NB))
		error(EXIT_ERROR, 0, "cannot write %s: another hydractl records there", path);
	if (fstat(fd, &stat))
		cannot_write();
	written = stat.st_size;
	/* A recorder that was ended in the middle of a line */
	if (written && pread(fd, &last, 1, written - 1) == 1 && last != '\n' && write(fd, "\n", 1) == 1)
		written++;
	looks = 0;
}

void record_open(const char *name, uint64_t size)
{
	path = name;
	half = size / 2;
	open_file();
}

static void forget_texts(void)
{
	for (size_t i = 0; i < before_count; i++)
		free(before[i].text);
	free(before);
	before = NULL;
	before_count = 0;
}

static bool as_before(pid_t pid, const char *text)
{
	for (size_t i = 0; i < before_count; i++)
		if (before[i].pid == pid)
			return !strcmp(before[i].text, text);
	return false;
}

/* Write one process into the open list. @copy: the kernel's text */
static void write_process(const struct process *process, const char *copy, bool whole)
{
	json_open_object(NULL);
	json_number("pid", process->pid);
	if (whole || !as_before(process->pid, copy)) {
		json_string("comm", process->name);
		json_string("hydra", copy);
	}
	json_close();
}

/* The look as a line, to be freed */
static char *look_text(const pid_t *pids, size_t count, bool whole, bool (*wanted)(const struct process *process))
{
	struct text *texts = must_have(calloc(count + 1, sizeof(*texts)));
	unsigned int unreadable = 0, not_understood = 0;
	struct timespec time;
	size_t used = 0, size;
	char *line;
	FILE *out = must_have(open_memstream(&line, &size));

	clock_gettime(CLOCK_REALTIME, &time);
	json_to(out);
	json_open_object(NULL);
	json_real("time", time.tv_sec + time.tv_nsec / 1e9);
	json_real("moment", now());
	json_flag("begins", begins);
	json_flag("whole", whole);
	json_number("kind", options.group.kind);
	json_string("name", options.group.name);
	json_open_list("processes");
	for (size_t i = 0; i < count; i++) {
		char *text = process_file(pids[i], "hydra"), *copy;
		struct process process;

		if (!text) {
			unreadable += errno == EACCES || errno == EPERM;
			continue;
		}
		copy = must_have(strdup(text));
		if (process_load(&process, pids[i], text)) {
			not_understood++;
			free(copy);
			continue;
		}
		if (!wanted || wanted(&process)) {
			write_process(&process, copy, whole);
			texts[used++] = (struct text){ .pid = pids[i], .text = copy };
		} else {
			free(copy);
		}
		process_free(&process);
	}
	json_close();
	json_number("unreadable", unreadable);
	json_number("not_understood", not_understood);
	json_close();
	must_have(fclose(out) ? NULL : line);
	forget_texts();
	before = texts;
	before_count = used;
	return line;
}

void record_write(const pid_t *pids, size_t count, bool (*wanted)(const struct process *process))
{
	char *line = look_text(pids, count, begins || !looks, wanted);
	size_t length = strlen(line);

	if (written && written + length > half) {
		autofree char *older = older_path(path);

		if (rename(path, older))
			cannot_write();
		close(fd);
		open_file();
		free(line);
		line = look_text(pids, count, true, wanted);
		length = strlen(line);
	}
	if (length > half)
		error(EXIT_ERROR, 0, "a look at these processes takes %zu KiB: give at least --size %zu", length / 1024 + 1,
		      2 * length / (1024 * 1024) + 1);
	if (write(fd, line, length) != (ssize_t)length)
		cannot_write();
	written += length;
	looks = (looks + 1) % WHOLE_EVERY;
	begins = false;
	free(line);
}

static double number_in(struct json_object *look, const char *key)
{
	return json_object_get_double(json_object_object_get(look, key));
}

static bool flag_in(struct json_object *look, const char *key)
{
	return json_object_get_boolean(json_object_object_get(look, key));
}

/* The look in a line, NULL if it is none: a recorder may have been ended in the middle of it. */
static struct json_object *parse_look(const char *line)
{
	struct json_object *look = json_tokener_parse(line);

	if (json_object_is_type(look, json_type_object) && json_object_is_type(json_object_object_get(look, "time"), json_type_double) &&
	    json_object_is_type(json_object_object_get(look, "processes"), json_type_array))
		return look;
	json_object_put(look);
	return NULL;
}

static void read_file(FILE *file, struct recorded_look **found, size_t *count)
{
	autofree char *line = NULL;
	size_t size = 0;

	for (off_t place = 0; getline(&line, &size, file) > 0; place = ftello(file)) {
		struct json_object *look = parse_look(line);

		if (!look)
			continue;
		*found = must_have(reallocarray(*found, *count + 1, sizeof(**found)));
		(*found)[(*count)++] = (struct recorded_look){
			.file = file, .place = place, .time = number_in(look, "time"), .moment = number_in(look, "moment"),
			.begins = flag_in(look, "begins"), .whole = flag_in(look, "whole"),
		};
		json_object_put(look);
	}
}

struct recorded_look *record_read(const char *name, size_t *count)
{
	autofree char *older = older_path(name);
	FILE *first = fopen(older, "re"), *last = fopen(name, "re");
	struct recorded_look *found = NULL;

	if (!last)
		error(EXIT_ERROR, errno, "cannot read %s", name);
	*count = 0;
	if (first)
		read_file(first, &found, count);
	read_file(last, &found, count);
	if (!*count)
		error(EXIT_ERROR, 0, "%s has no recording of 'hydractl record'", name);
	return found;
}

static struct json_object *read_look(const struct recorded_look *look)
{
	autofree char *line = NULL;
	struct json_object *found = NULL;
	size_t size = 0;

	if (!fseeko(look->file, look->place, SEEK_SET) && getline(&line, &size, look->file) > 0)
		found = parse_look(line);
	if (!found)
		error(EXIT_ERROR, 0, "the recording has changed meanwhile: begin again");
	return found;
}

static struct json_object *find_process(struct json_object *look, int64_t pid)
{
	struct json_object *list = json_object_object_get(look, "processes");

	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *process = json_object_array_get_idx(list, i);

		if (json_object_get_int64(json_object_object_get(process, "pid")) == pid)
			return process;
	}
	return NULL;
}

/* Give the processes of @look, which is number @number, that lack their text the one of a look before. */
static void complete(struct json_object *look, const struct recorded_look *recorded, size_t number)
{
	struct json_object *list = json_object_object_get(look, "processes"), *former;

	if (recorded[number].whole || !number)
		return;
	former = read_look(&recorded[number - 1]);
	complete(former, recorded, number - 1);
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *process = json_object_array_get_idx(list, i);
		struct json_object *same = find_process(former, json_object_get_int64(json_object_object_get(process, "pid")));

		if (json_object_object_get(process, "hydra") || !same)
			continue;
		json_object_object_add(process, "comm", json_object_get(json_object_object_get(same, "comm")));
		json_object_object_add(process, "hydra", json_object_get(json_object_object_get(same, "hydra")));
	}
	json_object_put(former);
}

static void take_group(struct json_object *look)
{
	struct json_object *name = json_object_object_get(look, "name");
	uint64_t pid;

	options.group = (struct group){ .kind = number_in(look, "kind") };
	if (options.group.kind > GROUP_SYSTEM)
		options.group.kind = GROUP_NONE;
	if (name)
		options.group.name = must_have(strdup(json_object_get_string(name)));
	if (options.group.kind == GROUP_TREE && options.group.name && parse_u64(options.group.name, &pid))
		options.group.pid = pid;
}

struct processes record_processes(const struct recorded_look *recorded, size_t number)
{
	struct json_object *look = read_look(&recorded[number]), *list = json_object_object_get(look, "processes");
	struct processes found = { .unreadable = number_in(look, "unreadable"), .not_understood = number_in(look, "not_understood") };

	complete(look, recorded, number);
	take_group(look);
	found.process = must_have(calloc(json_object_array_length(list) + 1, sizeof(*found.process)));
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		struct json_object *process = json_object_array_get_idx(list, i);
		struct json_object *text = json_object_object_get(process, "hydra"), *name = json_object_object_get(process, "comm");
		pid_t pid = json_object_get_int64(json_object_object_get(process, "pid"));
		const char *gap = text && name ? process_parse(&found.process[found.count], pid, must_have(strdup(json_object_get_string(name))),
							       must_have(strdup(json_object_get_string(text)))) : "its text";

		found.not_understood += !!gap;
		found.count += !gap;
	}
	json_object_put(look);
	return found;
}
