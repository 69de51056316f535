/* SPDX-License-Identifier: GPL-2.0-only */
/* Processes with what /proc/PID/hydra says of each: settings and counters. */
#ifndef PROCESS_H
#define PROCESS_H

#include <sys/types.h>

#include "procfile.h"

struct process {
	pid_t pid;
	char *name;
	struct records records;
};

/* In the order of the PIDs. */
struct processes {
	size_t count;
	struct process *process;
	unsigned int unreadable, not_understood;	/* left out */
};

/*
 * Takes over @text, the content of /proc/@pid/hydra. Returns NULL, or the part that
 * cannot be parsed.
 */
const char *process_load(struct process *process, pid_t pid, char *text);
void process_free(struct process *process);

/* The same with a name, which is taken over, too. */
const char *process_parse(struct process *process, pid_t pid, char *name, char *text);

/*
 * The values of documented keys, which every loaded process has. Of keys that older kernels
 * lack ("count", "cpus_interrupted_across", "ended_..."): NULL and 0 where missing.
 */
const char *process_text(const struct process *process, const char *key);
uint64_t process_number(const struct process *process, const char *key);

/* The same of a key whose value may be negative. */
int64_t process_integer(const struct process *process, const char *key);

/* Do its settings ask for more than one domain? */
bool process_active(const struct process *process);

/* Does the kernel decide when it has domains ("auto")? */
bool process_is_auto(const struct process *process);

/* Is it active, and not one of the many under policy auto that no look has found on two nodes? */
bool process_under_hydra(const struct process *process);

/* The next "domain" line from record *@next on, or NULL; start with *@next = 0. */
const struct record *process_domain(const struct process *process, size_t *next);

/* Begin an object about a process. */
void json_open_process(pid_t pid, const char *name);

/* @split: of split_words */
void json_process(const struct process *process, const char *split);

/* A number if @value is one, else a string. */
void json_value(const char *key, const char *value);

/* The members of an object. */
void json_pairs(const struct record *record);

/* Load the processes of the list that have user memory; those that are @wanted, if not NULL. */
void processes_load(struct processes *processes, const pid_t *pids, size_t count,
		    bool (*wanted)(const struct process *process));
void processes_free(struct processes *processes);

/* The process with this PID, or NULL. */
const struct process *processes_find(const struct processes *processes, pid_t pid);

/* Say on stderr how many processes are missing, and why. */
void processes_say_left_out(const struct processes *processes);

/* All PIDs of /proc, ascending, to be freed. */
pid_t *all_pids(size_t *count);

/* The parent of the process, 0 if there is none or the process has ended. */
pid_t parent_of(pid_t pid);

/* When the process began, 0 if it has ended; and now: in the unit of /proc/PID/stat. */
uint64_t born(pid_t pid);
uint64_t ticks_since_boot(void);

/* Field @field of /proc/PID/stat, counted from 1 as in proc(5); 0 if @text has none. Not for the first three. */
uint64_t stat_field(const char *text, unsigned int field);

/* The lines of one virtual machine: a key, and the rest of the line. */
struct vm_lines {
	size_t count;
	struct {
		const char *key, *rest;
	} *line;
};

struct vms {
	char *text;
	size_t count;
	struct vm_lines *vm;
};

/* Read /proc/@pid/@file. False, with errno, on failure, also if the process has none. */
bool vms_load(struct vms *vms, pid_t pid, const char *file);
void vms_free(struct vms *vms);

/* The same; exit with a message on failure. */
void vms_read(struct vms *vms, pid_t pid, const char *file);

/* The rest of the line of a key, or NULL. */
const char *vm_text(const struct vm_lines *vm, const char *key);

/*
 * Why one could not @doing (as in "read") the virtual machines of process @pid (errno), to be
 * freed.
 */
char *vms_failure(pid_t pid, const char *doing);

#endif /* PROCESS_H */
