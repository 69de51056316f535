/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The fuzzer of the interface: each test makes operations at random, a model says
 * what has to come of them, and what comes is judged by that.
 *
 *	fuzz.c			options, the tests one after the other
 *	fuzz_model.c		what has to come of settings and texts; the state of all
 *	fuzz_answers.c		answers that come, mistakes
 *	fuzz_inputs.c		random settings, texts, pointers
 *	fuzz_processes.c	other processes, that wait or do as they are told
 *
 * and the tests:
 *
 *	fuzz_prctl.c		prctl
 *	fuzz_files.c		files in /proc and /sys, written and read in any way
 *	fuzz_permissions.c	who may do what to whom
 *	fuzz_held.c		files held open while processes change and end
 *	fuzz_contest.c		all at once
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hydra_util.h"

#define TEXT_MAX	128	/* a text must be shorter */
#define HUGE_TEXT	70000

/* What is being run: set up by fuzz.c */
extern struct option_values {
	uint64_t seed;
	unsigned int operations;	/* of each test, about */
	const char *test;		/* NULL: all */
} option;

/* Answers: fuzz_answers.c */

enum outcome {
	TAKEN, INVAL, NOTSUPP, FAULT, PERM, ACCES, SRCH, NOENT, SPIPE, STRANGE, OUTCOMES
};

#define MAY(outcome)	(1U << (outcome))

/* A way into the kernel, and the answers it must have given before the end */
struct way {
	const char *name;
	unsigned int needed;
	unsigned long met[OUTCOMES];
};

/* Results as the kernel has them */
#define RESULT(call) ({				\
	long __result = (call);			\
						\
	__result == -1 ? -errno : __result;	\
})

/* The result of an operation: a length, or a negative errno. What may it be? */
enum outcome __attribute__((format(printf, 4, 5)))
judge(struct way *way, unsigned int may, long result, const char *format, ...);
/* Has everything been met that was to be met? */
void account_for(const struct way *way);

#define MISTAKES_SHOWN	10

extern unsigned int operation;	/* its number in the test */
extern unsigned int mistakes;
void __attribute__((format(printf, 1, 2))) mistake(const char *format, ...);
/* In C notation, cut when it is long. Valid until called eight times more. */
const char *quote(const char *text, size_t len);

/* The model: fuzz_model.c */

enum { DOMAINS, REPLICATION, PREFETCH, FILTER, KEYS };

extern const char * const keys[KEYS], * const values[KEYS][5];
/* The first value that is known and not built yet; the first that is not known */
extern const __u32 unbuilt[KEYS], invalid[KEYS];

extern const struct policy {
	const char *name;
	struct hydra_settings settings;
} policies[];	/* linux, hydra */

__u32 *setting(struct hydra_settings *s, int key);
bool same(const struct hydra_settings *a, const struct hydra_settings *b);
/* For messages. Valid until called four times more. */
const char *show(struct hydra_settings s);

/* What may come of settings */
unsigned int understand_settings(struct hydra_settings s);
/* What may come of a text; settings, or the limit, change if it is taken */
unsigned int understand(const char *text, size_t len, struct hydra_settings *settings);
unsigned int understand_limit(const char *text, size_t len, uint64_t *limit);
/* An empty text to a file in /sys: sysfs does not hand it on */
#define NOTHING_TO_SYSFS	MAY(TAKEN)

/* A process, and the settings that it must have */
extern struct subject {
	const char *name;
	pid_t pid;
	struct hydra_settings settings;
} subjects[];
extern int nr_subjects;

extern struct machine {
	struct hydra_settings settings;		/* for new programs */
	uint64_t limit;
} machine;

/* With the settings that it has now */
struct subject *add_subject(const char *name, pid_t pid);
bool read_settings(pid_t pid, struct hydra_settings *s);
void read_machine(struct hydra_settings *s, uint64_t *limit);
/* All is as the model says */
void check_everything(void);

/* What is given to the interface: fuzz_inputs.c */

/* Random numbers: begin a sequence of the seed, by who draws and what for */
void begin_random(size_t who, size_t what);
uint64_t next_random(void);
uint64_t below(uint64_t limit);
bool one_in(unsigned int n);

void any_settings(struct hydra_settings *s);

/* Texts return their length: one that means something; any, of at most HUGE_TEXT bytes */
size_t valid_text(char *text);
size_t any_text(char *text);
size_t any_limit(char *text);

extern char *good_pages;	/* two, and one without access on each side */
extern char *read_only_page;	/* zeroes */

void make_pointers(void);
/* Where len bytes can be read and written; often right before a page that cannot */
char *good_pointer(size_t len);
/* Where len bytes cannot be read; some of them can, if that is allowed */
char *bad_pointer(size_t len, bool some);

/* Other processes: fuzz_processes.c */

#define NOBODY		65534

bool become_user(uid_t uid, gid_t gid);
bool become_nobody(void);

/* Before the first process; false if it cannot be */
bool prepare_processes(void);
/* A process that does nothing until it is killed; become() has been called in it */
pid_t spawn(bool (*become)(void));
/* Kill all subjects but this process and the system's */
void kill_subjects(void);

/* A process that does as it is told; pid 0: it could not become what it should */
struct caller {
	pid_t pid;
	int socket;
	struct subject *subject;
};

struct command {
	enum { WRITE_FILE, READ_FILE, SET, HOLD, WRITE_HELD, READ_HELD } action;
	char path[64];
	size_t len;
	char text[TEXT_MAX + 64];
	struct hydra_settings settings;
};

struct caller spawn_caller(const char *name, bool (*become)(void));
/* The result of a command, or a negative errno */
long tell(const struct caller *caller, const struct command *c);
/* A text that will be understood as the way needs it, or any */
void command_text(struct command *c, const struct way *way);

/* Tests */

void fuzz_prctl(void);
void fuzz_process_text(void);
void fuzz_machine_text(void);
void fuzz_reads(void);
void fuzz_permissions(void);
void fuzz_strange_targets(void);
void fuzz_held_files(void);
void fuzz_contest(void);

/* The program that fuzz_held_files() executes: this one, with the arguments of main() */
int victim_main(char **argv);

#endif /* FUZZ_H */
