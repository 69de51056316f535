/* SPDX-License-Identifier: GPL-2.0-only */
/* The files in which the kernel shows Hydra, and the messages of a kernel without Hydra. */
#ifndef KERNEL_H
#define KERNEL_H

#include <sys/types.h>

#include "procfile.h"
#include "text.h"

/* Exit statuses of hydractl; the last three are as in env(1), nice(1), timeout(1). */
enum {
	EXIT_VIOLATIONS = 1,	/* of check */
	EXIT_NOT_SPLIT = 1,	/* of set --wait */
	EXIT_ERROR = 2,
	EXIT_GONE = 3,		/* what was watched has ended */
	EXIT_RUN_ERROR = 125,
	EXIT_RUN_NOT_EXECUTABLE = 126,
	EXIT_RUN_NOT_FOUND = 127,
};

bool kernel_has_hydra(void);

/* Exit unless the running kernel has Hydra. */
void kernel_require(void);

/* Read /sys/kernel/mm/hydra/@name, without newlines at the end; exit on failure. */
char *kernel_file(const char *name);

/* The same, to be freed: NULL if the kernel is older, and has no such file. */
char *kernel_newer_file(const char *name);

/* Which processes may choose settings, to be freed: NULL if the kernel is older. */
char *kernel_allow(void);

/* Write @text to /sys/kernel/mm/hydra/@name. False and errno. */
bool kernel_set(const char *name, const char *text);

/*
 * Read the file "supported": "yes" or the reason why not, to be freed. @missing is set to
 * the following lines "no SETTING: REASON", a part of the same text, or to NULL.
 */
char *kernel_supported(char **missing);

/* Exit: hydractl does not understand the text of the kernel's file. */
_Noreturn void kernel_unexpected(const char *name, const char *what);

/* The root of the process files: /proc, except in tests. */
const char *kernel_proc(void);

/* The root of the system's files: /sys, except in tests. */
const char *kernel_sys(void);

/* The root of the configuration: /etc, except in tests. */
const char *kernel_etc(void);

/* Write @text to /proc/@pid/@name. False and errno. */
bool process_write(pid_t pid, const char *name, const char *text);

/* The path of /proc/@pid/@name, to be freed. */
char *process_path(pid_t pid, const char *name);

/* Read /proc/@pid/@name; NULL and errno. Without content (no user memory): ENODATA. */
char *process_file(pid_t pid, const char *name);

/* The name of the process, which may be any bytes, to be freed; "?" if the process has just ended. */
char *process_name(pid_t pid);

/* Start the output about a process: "process PID (NAME)". */
void print_process_name(pid_t pid);

/* Why (errno) one could not @doing (as in "read") process @pid, to be freed. */
char *process_failure(pid_t pid, const char *doing);

/* Read /proc/@pid/@name; or leave, saying why one could not @doing (as in "read") process @pid. */
char *process_need(pid_t pid, const char *name, const char *doing);

/* Exit: hydractl does not understand the kernel's text of @name. */
_Noreturn void process_unexpected(pid_t pid, const char *name, const char *what);

#endif /* KERNEL_H */
