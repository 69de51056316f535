/* SPDX-License-Identifier: GPL-2.0-only */
/* Where the running kernel shows Hydra, and what to say when it does not. */
#ifndef KERNEL_H
#define KERNEL_H

#include <sys/types.h>

#include "procfile.h"

/* Exit statuses of hydractl; the last three as in env(1), nice(1), timeout(1). */
enum {
	EXIT_VIOLATIONS = 1,
	EXIT_ERROR = 2,
	EXIT_RUN_ERROR = 125,
	EXIT_RUN_NOT_EXECUTABLE = 126,
	EXIT_RUN_NOT_FOUND = 127,
};

bool kernel_has_hydra(void);

/*
 * Leave with @status unless the running kernel has Hydra. All that leave below
 * do so with that status too.
 */
void kernel_require(int status);

/* Read /sys/kernel/mm/hydra/@name, without newlines at the end; leave if that fails. */
char *kernel_file(const char *name);

/*
 * Read the file "supported": "yes" or why not, to be freed. @missing is set to the lines
 * "no SETTING: REASON" that follow, a part of the same text, or to NULL.
 */
char *kernel_supported(char **missing);

/* Leave: the kernel wrote something into that file that this program does not understand. */
_Noreturn void kernel_unexpected(const char *name, const char *what);

/* The root of the process files: /proc, except in tests. */
const char *kernel_proc(void);

/* The path of /proc/@pid/@name, to be freed. */
char *process_path(pid_t pid, const char *name);

/* Read /proc/@pid/@name; NULL and errno. Without content (no user memory): ENODATA. */
char *process_file(pid_t pid, const char *name);

/* The same, split into records; leave with a message if that fails. */
struct records process_records(pid_t pid, const char *name);

/* The name of the process, to be freed; "?" if it has just gone. It may be any bytes: see text.h. */
char *process_name(pid_t pid);

/* Start the output about a process: "process PID (NAME)". */
void print_process_name(pid_t pid, const char *name);

/* Leave, saying why (errno) one could not @doing (as in "read") process @pid. */
_Noreturn void process_fail(pid_t pid, const char *doing);

/* Leave: the kernel wrote something into @name that this program does not understand. */
_Noreturn void process_unexpected(pid_t pid, const char *name, const char *what);

/* Leave: the kernel refused settings (errno). */
_Noreturn void settings_refused(const char *settings);

/* Memory that must be there: leave if @pointer is NULL. */
void *must_have(void *pointer);

#endif /* KERNEL_H */
