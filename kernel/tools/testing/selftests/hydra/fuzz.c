// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interface, given anything by anybody: settings, sizes, pointers and texts
 * at random, from processes that may and from those that may not. A model in
 * here says what has to come of each operation, from what the documentation
 * promises; after each, the settings of all processes, the default and the limit
 * must be what the model says. Each kind of answer must have come at least once,
 * or the run has shown nothing.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "hydra_util.h"

#define PATIENCE	100	/* seconds until a test is taken for hung */
#define MISTAKES_SHOWN	10
#define NOBODY		65534
#define SOMEBODY	4711
#define TEXT_MAX	128	/* a text must be shorter */
#define HUGE_TEXT	70000

static struct {
	uint64_t seed;
	unsigned int operations;
	const char *test;
} option = { .operations = 400 };

static uint64_t random_state;
static unsigned int operation;

static uint64_t next_random(void)
{
	return hydra_random(&random_state);
}

static uint64_t below(uint64_t limit)
{
	return next_random() % limit;
}

static bool one_in(unsigned int n)
{
	return !below(n);
}

/* Answers */

enum outcome {
	TAKEN, INVAL, NOTSUPP, FAULT, PERM, ACCES, SRCH, NOENT, SPIPE, STRANGE, OUTCOMES
};

static const struct {
	const char *name;
	int error;
} outcomes[OUTCOMES] = {
	[TAKEN]		= { "taken", 0 },
	[INVAL]		= { "EINVAL", EINVAL },
	[NOTSUPP]	= { "EOPNOTSUPP", EOPNOTSUPP },
	[FAULT]		= { "EFAULT", EFAULT },
	[PERM]		= { "EPERM", EPERM },
	[ACCES]		= { "EACCES", EACCES },
	[SRCH]		= { "ESRCH", ESRCH },
	[NOENT]		= { "ENOENT", ENOENT },
	[SPIPE]		= { "ESPIPE", ESPIPE },
	[STRANGE]	= { "another error", -1 },
};

#define MAY(outcome)	(1U << (outcome))

/* A way into the kernel, and the answers it must have given before the end */
struct way {
	const char *name;
	unsigned int needed;
	unsigned long met[OUTCOMES];
};

static unsigned int mistakes;

static void __attribute__((format(printf, 1, 2))) mistake(const char *format, ...)
{
	va_list args;

	if (++mistakes > MISTAKES_SHOWN)
		return;
	fprintf(stderr, "# WRONG, operation %u: ", operation);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
}

/* In C notation, cut when it is long. Valid until called eight times more. */
static const char *quote(const char *text, size_t len)
{
	static char quoted[8][512];
	static unsigned int turn;
	char *q = quoted[turn++ % 8];
	size_t n = 0;

	for (size_t i = 0; i < len && n < 480; i++)
		if (text[i] >= ' ' && text[i] <= '~' && text[i] != '\\' && text[i] != '"')
			q[n++] = text[i];
		else
			n += sprintf(q + n, "\\%03o", (unsigned char)text[i]);
	sprintf(q + n, "\" (%zu bytes)", len);
	return q;
}

static enum outcome outcome_of(long result)
{
	if (result >= 0)
		return TAKEN;
	for (enum outcome o = INVAL; o < STRANGE; o++)
		if (result == -outcomes[o].error)
			return o;
	return STRANGE;
}

/* The result of an operation: a length, or a negative errno. What may it be? */
static enum outcome __attribute__((format(printf, 4, 5)))
judge(struct way *way, unsigned int may, long result, const char *format, ...)
{
	enum outcome outcome = outcome_of(result);
	char what[1024], expected[256] = "";
	size_t len = 0;
	va_list args;

	way->met[outcome]++;
	if (may & MAY(outcome))
		return outcome;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	for (enum outcome o = 0; o < OUTCOMES; o++)
		if (may & MAY(o))
			len += snprintf(expected + len, sizeof(expected) - len, " %s",
					outcomes[o].name);
	mistake("%s: %s: %s (%ld), expected:%s", way->name, what, outcomes[outcome].name, result,
		expected);
	return outcome;
}

/* Has everything been met that was to be met? */
static void account_for(const struct way *way)
{
	/* then the run is shorter than it should be */
	bool gone_wrong = mistakes;
	char text[256] = "";
	size_t len = 0;

	for (enum outcome o = 0; o < OUTCOMES; o++) {
		if (way->met[o])
			len += snprintf(text + len, sizeof(text) - len, ", %lu %s", way->met[o],
					outcomes[o].name);
		if (way->needed & MAY(o) && !way->met[o] && !gone_wrong)
			mistake("%s: never %s: this run shows nothing; more --operations?",
				way->name, outcomes[o].name);
	}
	fprintf(stderr, "# %s: %s\n", way->name, len ? text + 2 : "never used");
}

/* The model: what texts mean */

enum { DOMAINS, REPLICATION, PREFETCH, FILTER, KEYS };

static const char * const keys[KEYS] = { "domains", "replication", "prefetch", "filter" };

static const char * const values[KEYS][5] = {
	[DOMAINS]	= { "machine", "node", "llc", "core" },
	[REPLICATION]	= { "lazy", "eager" },
	[FILTER]	= { "none", "table", "entry", "accessed" },
};

/* the first value that is known and not built yet */
static const __u32 unbuilt[KEYS] = { 2, 1, 10, 2 };
static const __u32 invalid[KEYS] = { 4, 2, 10, 4 };

static __u32 *setting(struct hydra_settings *s, int key)
{
	__u32 * const fields[KEYS] = { &s->domains, &s->replication, &s->prefetch, &s->filter };

	return fields[key];
}

static const struct {
	const char *name;
	struct hydra_settings settings;
} policies[] = {
	{ "linux", { HYDRA_DOMAINS_MACHINE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_NONE } },
	{ "hydra", { HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_TABLE } },
};

static bool same(const struct hydra_settings *a, const struct hydra_settings *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static unsigned int understand_settings(struct hydra_settings s)
{
	unsigned int may = MAY(TAKEN);

	for (int key = 0; key < KEYS; key++) {
		if (*setting(&s, key) >= invalid[key])
			return MAY(INVAL);
		if (*setting(&s, key) >= unbuilt[key])
			may = MAY(NOTSUPP);
	}
	return may;
}

/* As Linux reads numbers from files: perhaps a plus, digits, perhaps a newline */
static bool understand_number(const char *text, size_t len, uint64_t *value)
{
	unsigned __int128 v = 0;

	if (len && text[0] == '+') {
		text++;
		len--;
	}
	if (len && text[len - 1] == '\n')
		len--;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (text[i] - '0');
		if (v > ULONG_MAX)
			return false;
	}
	*value = v;
	return len > 0;
}

static bool is(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(text, word, len);
}

static bool understand_word(const char *text, size_t len, struct hydra_settings *s)
{
	const char *equals = memchr(text, '=', len);
	size_t value_len;
	uint64_t number;

	if (!equals)
		return false;
	value_len = len - (equals + 1 - text);
	for (int key = 0; key < KEYS; key++) {
		if (!is(text, equals - text, keys[key]))
			continue;
		if (key == PREFETCH) {
			if (!understand_number(equals + 1, value_len, &number) ||
			    number > HYDRA_PREFETCH_MAX)
				return false;
			s->prefetch = number;
			return true;
		}
		for (int i = 0; values[key][i]; i++)
			if (is(equals + 1, value_len, values[key][i])) {
				*setting(s, key) = i;
				return true;
			}
	}
	return false;
}

/* Linux takes the no-break space of Latin-1 for one, too */
static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == '\xa0';
}

/* What may come of a text; settings change if it is taken */
static unsigned int understand(const char *text, size_t len, struct hydra_settings *settings)
{
	struct hydra_settings s = *settings;
	bool first = true;
	unsigned int may;

	/* a text ends at the first zero byte, as in all such files */
	len = strnlen(text, len);
	if (len >= TEXT_MAX)
		return MAY(INVAL);
	while (len && is_space(text[len - 1]))
		len--;
	for (; len && is_space(*text); text++)
		len--;
	do {
		const char *comma = memchr(text, ',', len);
		size_t word = comma ? comma - text : len;
		bool named = false;

		for (int i = 0; first && i < ARRAY_SIZE(policies); i++)
			if (is(text, word, policies[i].name)) {
				s = policies[i].settings;
				named = true;
			}
		if (!named && !understand_word(text, word, &s))
			return MAY(INVAL);
		first = false;
		if (!comma)
			break;
		len -= word + 1;
		text = comma + 1;
	} while (true);
	may = understand_settings(s);
	if (may == MAY(TAKEN))
		*settings = s;
	return may;
}

#define NO_LIMIT	ULONG_MAX

static unsigned int understand_limit(const char *text, size_t len, uint64_t *limit)
{
	uint64_t number;

	len = strnlen(text, len);
	if (is(text, len, "max") || is(text, len, "max\n"))
		*limit = NO_LIMIT;
	else if (understand_number(text, len, &number) && number < 1UL << 53)
		*limit = number;
	else
		return MAY(INVAL);
	return MAY(TAKEN);
}

/* The model: what there is */

struct subject {
	const char *name;
	pid_t pid;
	struct hydra_settings settings;
};

#define SUBJECTS_MAX	16

static struct subject subjects[SUBJECTS_MAX];
static int nr_subjects;

static struct {
	struct hydra_settings settings;		/* for new programs */
	uint64_t limit;
} machine;

static bool read_settings(pid_t pid, struct hydra_settings *s)
{
	struct hydra_stats stats;
	int err = hydra_read_stats(pid, &stats);
	const char * const names[KEYS] = {
		[DOMAINS] = stats.domains, [REPLICATION] = stats.replication,
		[FILTER] = stats.filter,
	};

	if (err) {
		mistake("/proc/%d/hydra cannot be read: %s", pid, strerror(-err));
		return false;
	}
	memset(s, -1, sizeof(*s));
	s->prefetch = stats.prefetch;
	for (int key = 0; key < KEYS; key++)
		for (int i = 0; key != PREFETCH && values[key][i]; i++)
			if (!strcmp(values[key][i], names[key]))
				*setting(s, key) = i;
	return true;
}

static const char *show(struct hydra_settings s)
{
	static char text[4][64];
	static unsigned int turn;
	char *t = text[turn++ % 4];

	sprintf(t, "%u %u %u %u", s.domains, s.replication, s.prefetch, s.filter);
	return t;
}

static void check_subject(const struct subject *subject)
{
	struct hydra_settings s;

	if (read_settings(subject->pid, &s) && !same(&s, &subject->settings))
		mistake("the settings of %s (%d) are %s, not %s", subject->name, subject->pid,
			show(s), show(subject->settings));
}

static void read_machine(struct hydra_settings *s, uint64_t *limit)
{
	char text[128];

	memset(s, -1, sizeof(*s));
	if (hydra_read_file(HYDRA_SYSFS "default", text, sizeof(text)) < 0 ||
	    understand(text, strlen(text), s) != MAY(TAKEN))
		mistake("the default cannot be read: \"%s", quote(text, strlen(text)));
	if (hydra_read_file(HYDRA_SYSFS "replica_limit_kib", text, sizeof(text)) < 0 ||
	    understand_limit(text, strlen(text), limit) != MAY(TAKEN))
		mistake("the limit cannot be read: \"%s", quote(text, strlen(text)));
}

/* All is as the model says */
static void check_everything(void)
{
	struct hydra_settings s;
	uint64_t limit;

	for (int i = 0; i < nr_subjects; i++)
		check_subject(&subjects[i]);
	read_machine(&s, &limit);
	if (!same(&s, &machine.settings))
		mistake("the default is %s, not %s", show(s), show(machine.settings));
	if (limit != machine.limit)
		mistake("the limit is %lu, not %lu", limit, machine.limit);
}

static struct subject *add_subject(const char *name, pid_t pid)
{
	struct subject *s = &subjects[nr_subjects++];

	s->name = name;
	s->pid = pid;
	read_settings(pid, &s->settings);
	return s;
}

/* Texts */

static size_t add(char *text, size_t len, const char *more)
{
	strcpy(text + len, more);
	return len + strlen(more);
}

static size_t valid_text(char *text)
{
	bool named = below(3), comma = named;
	size_t len = 0;
	int words = below(4) + !named;

	for (unsigned int spaces = one_in(6) ? below(5) : 0; spaces; spaces--)
		text[len++] = " \t\n\v\f\r"[below(6)];
	if (named)
		len = add(text, len, policies[below(2)].name);
	for (; words; words--, comma = true) {
		int key = below(KEYS);

		if (comma)
			len = add(text, len, ",");
		len = add(text, len, keys[key]);
		len = add(text, len, "=");
		if (key == PREFETCH)
			len += sprintf(text + len, "%u", (unsigned int)below(10));
		else
			len = add(text, len, values[key][below(one_in(5) ? invalid[key] :
								 unbuilt[key])]);
	}
	if (one_in(3))
		len = add(text, len, "\n");
	return len;
}

static size_t mutate(char *text, size_t len)
{
	for (unsigned int changes = 1 + below(3); changes; changes--) {
		size_t at = below(len + 1);

		switch (below(8)) {
		case 0:		/* a byte less */
			if (at < len)
				memmove(text + at, text + at + 1, --len - at);
			break;
		case 1:		/* another byte */
			if (at < len)
				text[at] = next_random();
			break;
		case 2:		/* a bit */
			if (at < len)
				text[at] ^= 1 << below(8);
			break;
		case 3:		/* a byte more, often one that means something */
			memmove(text + at + 1, text + at, len++ - at);
			text[at] = one_in(3) ? next_random() : ",=\n \0+-0x9,="[below(12)];
			break;
		case 4:		/* an end */
			len = at;
			break;
		case 5:		/* some of it twice */
			if (2 * len - at < TEXT_MAX + 32) {
				memmove(text + len, text + at, len - at);
				len += len - at;
			}
			break;
		case 6:		/* a number too large, or too long */
			len += sprintf(text + len, ",prefetch=%lu",
				       next_random() >> below(48) << below(16));
			break;
		case 7:		/* the other case */
			if (at < len)
				text[at] ^= 'a' ^ 'A';
			break;
		}
		if (len > TEXT_MAX + 32)
			break;
	}
	return len;
}

/* What has a trap in it */
static size_t tricky_text(char *text)
{
	static const char * const texts[] = {
		"hydra,prefetch=99,prefetch=3", "hydra,filter=nothing,filter=none",
		"hydra,filter=entry,filter=none", "prefetch=3,hydra", "hydra,linux", "hydra,=9",
		"linux,domains=node", "hydra,prefetch=+5", "hydra,prefetch=05", "hydra,prefetch=0x5",
		"hydra,prefetch=5\n,filter=none", "hydra,prefetch=4294967305", "domains=llc,filter=4",
		"hydra,filter=entry,prefetch=10", "hydra,replication=eager,domains=machine", " ", ",",
		"hydra,filter=none=none", "hydra,Filter=none", "hydra,,filter=none", "hydra,",
	};

	return add(text, 0, texts[below(ARRAY_SIZE(texts))]);
}

static size_t soup(char *text)
{
	static const char * const words[] = {
		"linux", "hydra", "domains", "replication", "prefetch", "filter", "machine",
		"node", "llc", "lazy", "eager", "none", "table", "entry", "=", "=", "=", ",", ",",
		",", "9", "10", "-1", " ", "\n", "max",
	};
	size_t len = 0;

	for (unsigned int n = below(10); n; n--)
		len = add(text, len, words[below(ARRAY_SIZE(words))]);
	return len;
}

static size_t long_text(char *text)
{
	/* about the largest text, about a page, more */
	static const size_t about[] = { TEXT_MAX - 2, PAGE_SIZE - 2, HUGE_TEXT - 10 };
	size_t len = valid_text(text), to = about[below(ARRAY_SIZE(about))] + below(6);
	char filling = " ,\0x\n"[below(5)];

	if (one_in(2))
		to = TEXT_MAX - 2 + below(5);
	if (len < to)
		memset(text + len, one_in(2) ? ' ' : filling, to - len);
	return len > to ? len : to;
}

/* Any text, of at most HUGE_TEXT bytes */
static size_t any_text(char *text)
{
	size_t len;

	switch (below(16)) {
	case 0 ... 6:
		return valid_text(text);
	case 7 ... 11:
		return mutate(text, valid_text(text));
	case 12:
		len = below(200);
		for (size_t i = 0; i < len; i++)
			text[i] = next_random();
		return len;
	case 13:
		return soup(text);
	case 14:
		return tricky_text(text);
	default:
		return long_text(text);
	}
}

static size_t any_limit(char *text)
{
	switch (below(8)) {
	case 0:
		return add(text, 0, "max") + (one_in(2) ? add(text + 3, 0, "\n") : 0);
	case 1:
		return mutate(text, add(text, 0, "max"));
	case 2:
		return any_text(text);
	case 3:
		return mutate(text, sprintf(text, "%lu", next_random()));
	case 4:		/* too large */
		return sprintf(text, "%lu%lu", (1UL << 54) + next_random(), below(100));
	default:
		return sprintf(text, one_in(8) ? "+%lu\n" : "%lu", next_random() >> below(40));
	}
}

/* Pointers */

static char *good_pages;		/* two, and one without access on each side */
static char *read_only_page;
static char *beyond_the_file;		/* a mapping of nothing: SIGBUS */
static char *huge_buffer;

static void make_pointers(void)
{
	int fd = memfd_create("empty", MFD_CLOEXEC);

	good_pages = (char *)hydra_reserve(TABLE_SIZE) + TABLE_SIZE / 2;
	hydra_map(good_pages, 2);
	read_only_page = mmap(NULL, PAGE_SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	beyond_the_file = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	huge_buffer = malloc(HUGE_TEXT + 1);
	if (read_only_page == MAP_FAILED || beyond_the_file == MAP_FAILED || !huge_buffer)
		ksft_exit_fail_msg("no memory for the test itself\n");
	close(fd);
}

/* Where len bytes can be read and written; often right before a page that cannot */
static char *good_pointer(size_t len)
{
	if (len > 2 * PAGE_SIZE)
		return huge_buffer;
	return good_pages + (one_in(2) ? 2 * PAGE_SIZE - len : below(2 * PAGE_SIZE - len + 1));
}

/* Where len bytes cannot be read; some of them can, if that is allowed */
static char *bad_pointer(size_t len, bool some)
{
	static const uint64_t nowhere[] = {
		0, 1, PAGE_SIZE, 0x00007fffffffffff, 0x0000800000000000, 0x00007ffffffff000,
		0x8000000000000000, 0xffff800000000000, 0xffff888000000000, 0xffffffff81000000,
		0xffffffffff600000, -PAGE_SIZE, -16UL, -1UL,
	};

	switch (below(some && len > 1 ? 5 : 3)) {
	case 0:
		return (char *)nowhere[below(ARRAY_SIZE(nowhere))];
	case 1:
		return good_pages - PAGE_SIZE + below(PAGE_SIZE / 2);
	case 2:
		return beyond_the_file + below(PAGE_SIZE / 2);
	default:	/* begins well, ends where there is nothing */
		return good_pages + 2 * PAGE_SIZE - 1 -
		       below(len - 1 < PAGE_SIZE ? len - 1 : PAGE_SIZE);
	}
}

/* Results as the kernel has them */
#define RESULT(call) ({				\
	long __result = (call);			\
						\
	__result == -1 ? -errno : __result;	\
})

/* prctl */

static void any_settings(struct hydra_settings *s)
{
	unsigned int style = below(4);

	for (int key = 0; key < KEYS; key++)
		*setting(s, key) = style == 0 && one_in(2) ? next_random() :
				   below(style == 1 ? invalid[key] + 1 : unbuilt[key]);
	if (style == 2)
		*setting(s, below(KEYS)) = one_in(2) ? next_random() : below(12);
}

static uint64_t any_size(void)
{
	static const uint64_t sizes[] = {
		0, 4, 8, 12, 15, 17, 20, 32, PAGE_SIZE, 1UL << 32 | 16, 1UL << 63 | 16, -16UL, -1UL,
	};

	return one_in(4) ? sizes[below(ARRAY_SIZE(sizes))] : sizeof(struct hydra_settings);
}

static void prctl_set(struct way *way, struct subject *self)
{
	uint64_t size = any_size(), arg4 = one_in(8) ? next_random() | 1 : 0;
	uint64_t arg5 = one_in(8) ? 1UL << below(64) : 0;
	struct hydra_settings s;
	unsigned int may = 0;
	enum outcome outcome;
	char *pointer;

	any_settings(&s);
	if (one_in(6)) {
		pointer = bad_pointer(sizeof(s), true);
		may |= MAY(FAULT);
	} else if (one_in(8)) {
		/* may be read; is zeroes: linux, without prefetch or filter */
		pointer = read_only_page;
		memset(&s, 0, sizeof(s));
	} else {
		pointer = good_pointer(sizeof(s));
		memcpy(pointer, &s, sizeof(s));
	}
	if (size != sizeof(s) || arg4 || arg5)
		may |= MAY(INVAL);
	if (!may)
		may = understand_settings(s);
	outcome = judge(way, may, RESULT(prctl(PR_SET_HYDRA, pointer, size, arg4, arg5)),
			"%s at %p, size %#lx, %#lx, %#lx", show(s), pointer, size, arg4, arg5);
	if (outcome == TAKEN)
		self->settings = s;
}

static void prctl_get(struct way *way, struct subject *self)
{
	uint64_t size = any_size(), arg4 = one_in(8) ? next_random() | 1 : 0;
	unsigned int may = 0;
	struct hydra_settings seen;
	char before[PAGE_SIZE], *pointer;
	enum outcome outcome;

	if (one_in(4)) {
		pointer = one_in(4) ? read_only_page : bad_pointer(sizeof(seen), true);
		may |= MAY(FAULT);
	} else {
		/* nothing may be written but the settings */
		pointer = good_pages + 16 + below(PAGE_SIZE - 64);
		memset(good_pages, 0x5a, PAGE_SIZE);
		memcpy(before, good_pages, PAGE_SIZE);
	}
	if (size != sizeof(seen) || arg4)
		may |= MAY(INVAL);
	outcome = judge(way, may ?: MAY(TAKEN),
			RESULT(prctl(PR_GET_HYDRA, pointer, size, arg4, 0)),
			"at %p, size %#lx, %#lx", pointer, size, arg4);
	if (may & MAY(FAULT))
		return;
	if (outcome == TAKEN) {
		memcpy(&seen, pointer, sizeof(seen));
		memcpy(before + (pointer - good_pages), &self->settings, sizeof(seen));
		if (!same(&seen, &self->settings))
			mistake("PR_GET_HYDRA says %s, not %s", show(seen), show(self->settings));
	}
	if (memcmp(before, good_pages, PAGE_SIZE))
		mistake("PR_GET_HYDRA has written more than the settings");
}

static void prctl_other(struct way *way)
{
	static const int numbers[] = {
		PR_SET_HYDRA - 1, PR_GET_HYDRA + 1, PR_SET_HYDRA | 1 << 31, PR_SET_HYDRA ^ 1 << 16,
	};
	struct hydra_settings s = { HYDRA_DOMAINS_NODE };

	judge(way, MAY(INVAL), RESULT(prctl(numbers[below(ARRAY_SIZE(numbers))], &s, sizeof(s))),
	      "a number that is not ours");
}

static void fuzz_prctl(void)
{
	struct way set = { "PR_SET_HYDRA", MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(FAULT) };
	struct way get = { "PR_GET_HYDRA", MAY(TAKEN) | MAY(INVAL) | MAY(FAULT) };
	struct way other = { "other prctl", MAY(INVAL) };
	struct subject *self = add_subject("this process", getpid());

	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		prctl_set(&set, self);
		prctl_get(&get, self);
		if (one_in(16))
			prctl_other(&other);
		check_everything();
	}
	account_for(&set);
	account_for(&get);
	account_for(&other);
}

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

/* sysfs does not hand it on */
#define NOTHING_TO_SYSFS	MAY(TAKEN)

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

static int ready_pipe[2];

/* A process that does nothing until it is killed; become() has been called in it */
static pid_t spawn(bool (*become)(void))
{
	pid_t child;
	char c;

	fflush(NULL);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (become && !become())
			_exit(1);
		/* changes of credentials clear it */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = 'r';
		if (write(ready_pipe[1], &c, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (child < 0 || read(ready_pipe[0], &c, 1) != 1)
		ksft_exit_fail_msg("cannot start a process\n");
	return child;
}

static void kill_subjects(void)
{
	for (int i = 0; i < nr_subjects; i++)
		if (subjects[i].pid != getpid() && subjects[i].pid > 2) {
			kill(subjects[i].pid, SIGKILL);
			hydra_wait_child(subjects[i].pid);
		}
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

static void fuzz_process_text(void)
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

static void fuzz_machine_text(void)
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

static void fuzz_reads(void)
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

/* Everybody */

static bool become_user(uid_t uid, gid_t gid)
{
	return !setgroups(0, NULL) && !setresgid(gid, gid, gid) && !setresuid(uid, uid, uid) &&
	       !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_nobody(void)
{
	return become_user(NOBODY, NOBODY);
}

static bool become_somebody(void)
{
	return become_user(SOMEBODY, SOMEBODY);
}

static bool become_nobody_in_another_group(void)
{
	return become_user(NOBODY, SOMEBODY);
}

static bool become_undumpable(void)
{
	return become_nobody() && !prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static bool limit_capabilities(uint64_t permitted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {
		{ .permitted = permitted, .effective = permitted },
		{ .permitted = permitted >> 32, .effective = permitted >> 32 },
	};

	return !syscall(SYS_capset, &header, data) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_nobody_with(int capability)
{
	return !prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) && become_nobody() &&
	       limit_capabilities(1UL << capability);
}

static bool become_capable(void)
{
	return become_nobody_with(CAP_NET_RAW);
}

static bool become_tracer(void)
{
	return become_nobody_with(CAP_SYS_PTRACE);
}

static bool become_powerless(void)
{
	return limit_capabilities(0);
}

static bool become_half_root(void)
{
	return !setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, 0) && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static bool become_namespaced(void)
{
	if (!become_nobody() || unshare(CLONE_NEWUSER) ||
	    hydra_write_file("/proc/self/setgroups", "deny") ||
	    hydra_write_file("/proc/self/uid_map", "0 65534 1") ||
	    hydra_write_file("/proc/self/gid_map", "0 65534 1"))
		return false;
	return !getuid() && !prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* Who asks */
enum { ROOT, POWERLESS, TRACER, NOBODY_ITSELF, SOMEBODY_ELSE, OTHER_GROUP, NAMESPACED, CALLERS };

static const struct {
	const char *name;
	bool (*become)(void);
	bool may_change_machine;
} callers[CALLERS] = {
	[ROOT]		= { "root", NULL, true },
	/* the files belong to it */
	[POWERLESS]	= { "root without capabilities", become_powerless, true },
	[TRACER]	= { "nobody with CAP_SYS_PTRACE", become_tracer },
	[NOBODY_ITSELF]	= { "nobody", become_nobody },
	[SOMEBODY_ELSE]	= { "somebody", become_somebody },
	[OTHER_GROUP]	= { "nobody in another group", become_nobody_in_another_group },
	[NAMESPACED]	= { "root of a user namespace", become_namespaced },
};

/*
 * Who is asked, and who may: those that may attach with ptrace. That is the same
 * user and group, unless the process cannot be dumped or has more capabilities,
 * or is in another user namespace; the owner of that namespace; and who has
 * CAP_SYS_PTRACE.
 */
static const struct {
	const char *name;
	bool (*become)(void);
	unsigned int may;
} targets[] = {
#define BY(caller)	(1U << (caller))
	{ "a process of root", NULL, BY(ROOT) | BY(TRACER) },
	{ "a process of nobody", become_nobody, BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) },
	{ "one that cannot be dumped", become_undumpable, BY(ROOT) | BY(TRACER) },
	{ "a process of somebody", become_somebody, BY(ROOT) | BY(TRACER) | BY(SOMEBODY_ELSE) },
	{ "one with a capability", become_capable, BY(ROOT) | BY(TRACER) },
	{ "one that was root", become_half_root, BY(ROOT) | BY(TRACER) },
	{ "one in a user namespace", become_namespaced,
	  BY(ROOT) | BY(TRACER) | BY(NOBODY_ITSELF) | BY(OTHER_GROUP) },
};

struct command {
	enum { WRITE_FILE, READ_FILE, SET, HOLD, WRITE_HELD, READ_HELD } action;
	char path[64];
	size_t len;
	char text[TEXT_MAX + 64];
	struct hydra_settings settings;
};

static long obey(const struct command *c)
{
	static int held = -1;
	char text[64];
	long result;
	int fd;

	switch (c->action) {
	case WRITE_FILE:
	case READ_FILE:
		fd = open(c->path, c->action == WRITE_FILE ? O_WRONLY : O_RDONLY);
		if (fd < 0)
			return -errno;
		result = c->action == WRITE_FILE ? RESULT(write(fd, c->text, c->len)) :
						   RESULT(read(fd, text, sizeof(text)));
		close(fd);
		return result;
	case SET:
		return hydra_set(&c->settings);
	case HOLD:
		if (held >= 0)
			close(held);
		held = open(c->path, O_RDWR | O_CLOEXEC);
		return held < 0 ? -errno : 0;
	case WRITE_HELD:
		return RESULT(write(held, c->text, c->len));
	case READ_HELD:
		return RESULT(pread(held, text, sizeof(text), 0));
	}
	return -EINVAL;
}

struct caller {
	pid_t pid;
	int socket;
	struct subject *subject;
};

static struct caller spawn_caller(const char *name, bool (*become)(void))
{
	struct command c;
	int ends[2];
	struct caller caller;
	long result;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		ksft_exit_fail_msg("no sockets\n");
	fflush(NULL);
	caller.pid = fork();
	if (!caller.pid) {
		close(ends[0]);
		result = !become || become();
		while (write(ends[1], &result, sizeof(result)) == sizeof(result) &&
		       read(ends[1], &c, sizeof(c)) == sizeof(c))
			result = obey(&c);
		_exit(0);
	}
	close(ends[1]);
	caller.socket = ends[0];
	if (read(ends[0], &result, sizeof(result)) != sizeof(result) || !result)
		caller.pid = 0;
	caller.subject = caller.pid ? add_subject(name, caller.pid) : NULL;
	return caller;
}

static long tell(const struct caller *caller, const struct command *c)
{
	long result = -EIO;

	if (write(caller->socket, c, sizeof(*c)) != sizeof(*c) ||
	    read(caller->socket, &result, sizeof(result)) != sizeof(result))
		mistake("a caller has died");
	return result;
}

static bool lacks(const struct way *way, enum outcome outcome)
{
	return way->needed & MAY(outcome) && !way->met[outcome] && one_in(2);
}

/* What will be understood as the way needs it, or anything */
static void command_text(struct command *c, const struct way *way)
{
	static char text[HUGE_TEXT + 512];

	if (lacks(way, NOTSUPP)) {
		c->len = sprintf(c->text, "filter=entry");
		return;
	}
	if (lacks(way, INVAL)) {
		c->len = sprintf(c->text, "filter=nothing");
		return;
	}
	do {
		c->len = one_in(2) ? valid_text(text) : any_text(text);
	} while (c->len > sizeof(c->text));
	memcpy(c->text, text, c->len);
}

/* Ways of fuzz_permissions */
enum { TO_PROCESSES, FROM_PROCESSES, TO_MACHINE, TO_THEMSELVES };

static void ask_process(struct way *way, const struct caller *caller, int who, int target,
			struct subject *subject)
{
	static const char * const names[] = { "hydra", "hydra_tables", "hydra_check" };
	bool may = targets[target].may & BY(who), reads = one_in(4);
	struct command c = { .action = reads ? READ_FILE : WRITE_FILE };

	sprintf(c.path, "/proc/%d/%s", subject->pid, names[reads ? below(ARRAY_SIZE(names)) : 0]);
	command_text(&c, &way[TO_PROCESSES]);
	judge(&way[reads ? FROM_PROCESSES : TO_PROCESSES],
	      !may ? MAY(PERM) : reads ? MAY(TAKEN) :
	      c.len >= TEXT_MAX ? MAY(INVAL) : understand(c.text, c.len, &subject->settings),
	      tell(caller, &c), "%s %s %s of %s: \"%s", callers[who].name,
	      reads ? "reads" : "writes", c.path, targets[target].name, quote(c.text, c.len));
}

static void ask_machine(struct way *way, const struct caller *caller, int who)
{
	struct command c = { .action = WRITE_FILE };
	bool limit = one_in(2);
	unsigned int may;

	sprintf(c.path, HYDRA_SYSFS "%s", limit ? "replica_limit_kib" : "default");
	if (limit)
		c.len = sprintf(c.text, "%lu", next_random() >> 20);
	else
		command_text(&c, &way[TO_MACHINE]);
	if (!callers[who].may_change_machine)
		may = MAY(ACCES);
	else if (limit)
		may = understand_limit(c.text, c.len, &machine.limit);
	else
		may = c.len ? understand(c.text, c.len, &machine.settings) : NOTHING_TO_SYSFS;
	judge(&way[TO_MACHINE], may, tell(caller, &c), "%s writes %s: \"%s", callers[who].name,
	      c.path, quote(c.text, c.len));
}

static void ask_itself(struct way *way, const struct caller *caller, int who)
{
	struct command c = { .action = SET };
	struct hydra_settings *settings = &caller->subject->settings;
	unsigned int may;

	if (one_in(2)) {
		c.action = WRITE_FILE;
		strcpy(c.path, "/proc/self/hydra");
		command_text(&c, &way[TO_THEMSELVES]);
		may = c.len >= TEXT_MAX ? MAY(INVAL) : understand(c.text, c.len, settings);
		judge(&way[TO_THEMSELVES], may, tell(caller, &c), "%s writes %s: \"%s",
		      callers[who].name, c.path, quote(c.text, c.len));
		return;
	}
	any_settings(&c.settings);
	may = understand_settings(c.settings);
	if (judge(&way[TO_THEMSELVES], may, tell(caller, &c), "%s sets %s", callers[who].name,
		  show(c.settings)) == TAKEN)
		*settings = c.settings;
}

static void fuzz_permissions(void)
{
	struct way way[] = {
		[TO_PROCESSES] = { "writing to processes",
				   MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(PERM) },
		[FROM_PROCESSES] = { "reading from processes", MAY(TAKEN) | MAY(PERM) },
		[TO_MACHINE] = { "writing to " HYDRA_SYSFS,
				 MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) | MAY(ACCES) },
		[TO_THEMSELVES] = { "all callers to themselves",
				    MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) },
	};
	struct subject *subject[ARRAY_SIZE(targets)];
	struct caller caller[CALLERS];
	bool namespaces = true;

	for (int who = 0; who < CALLERS; who++) {
		caller[who] = spawn_caller(callers[who].name, callers[who].become);
		if (!caller[who].pid && who == NAMESPACED)
			namespaces = false;
		else if (!caller[who].pid)
			ksft_exit_fail_msg("no process can become %s\n", callers[who].name);
	}
	if (!namespaces)
		fprintf(stderr, "# no user namespaces (CONFIG_USER_NS): tried without\n");
	for (int i = 0; i < ARRAY_SIZE(targets) - !namespaces; i++)
		subject[i] = add_subject(targets[i].name, spawn(targets[i].become));

	for (operation = 0; operation < option.operations && !mistakes; operation++) {
		const int nr_callers = CALLERS - !namespaces;
		const int nr_targets = ARRAY_SIZE(targets) - !namespaces;
		/* everybody to everybody first */
		bool sweep = operation < nr_callers * nr_targets;
		int who = sweep ? operation % nr_callers : below(nr_callers);
		int target = sweep ? operation / nr_callers : below(nr_targets);

		switch (sweep ? -1 : (int)below(8)) {
		case 0:
			ask_machine(way, &caller[who], who);
			break;
		case 1:
			ask_machine(way, &caller[ROOT], ROOT);
			break;
		case 2:
			ask_itself(way, &caller[who], who);
			break;
		default:
			ask_process(way, &caller[who], who, target, subject[target]);
		}
		check_everything();
	}
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}

/* Processes that are hardly there */

static void fuzz_strange_targets(void)
{
	struct way way[] = {
		{ "a kernel thread", MAY(SRCH) },
		{ "the first process", MAY(TAKEN) | MAY(PERM) },
		{ "a zombie", MAY(SRCH) },
		{ "a process that was", MAY(NOENT) },
		{ "a file of a process that was", MAY(SRCH) },
	};
	struct subject *init = add_subject("the first process", 1);
	struct hydra_settings init_settings = init->settings;
	struct caller root = spawn_caller("root", NULL);
	struct caller nobody = spawn_caller("nobody", become_nobody);
	const struct caller *caller[] = { &root, &nobody };
	struct command restore = { .action = WRITE_FILE, .path = "/proc/1/hydra" };

	for (operation = 0; operation < option.operations / 16 && !mistakes; operation++) {
		struct command c;
		siginfo_t info;
		pid_t child;

		c.len = valid_text(c.text);
		for (int who = 0; who < 2; who++) {
			c.action = one_in(2) ? WRITE_FILE : READ_FILE;
			strcpy(c.path, "/proc/2/hydra");
			judge(&way[0], MAY(SRCH) | (who ? MAY(PERM) : 0), tell(caller[who], &c),
			      "%s, who %d, action %d", c.path, who, c.action);
			strcpy(c.path, "/proc/1/hydra");
			judge(&way[1], who ? MAY(PERM) : c.action == READ_FILE ? MAY(TAKEN) :
			      understand(c.text, c.len, &init->settings), tell(caller[who], &c),
			      "%s, who %d, action %d, \"%s", c.path, who, c.action,
			      quote(c.text, c.len));
		}

		child = spawn(NULL);
		sprintf(c.path, "/proc/%d/hydra", child);
		c.action = HOLD;
		if (tell(&root, &c))
			mistake("%s cannot be opened", c.path);
		kill(child, SIGKILL);
		waitid(P_PID, child, &info, WEXITED | WNOWAIT);
		for (int who = 0; who < 2; who++) {
			c.action = one_in(2) ? WRITE_FILE : READ_FILE;
			judge(&way[2], MAY(SRCH), tell(caller[who], &c), "who %d, action %d", who,
			      c.action);
		}
		c.action = one_in(2) ? WRITE_HELD : READ_HELD;
		judge(&way[4], MAY(SRCH), tell(&root, &c), "not waited for, action %d", c.action);
		hydra_wait_child(child);
		c.action = one_in(2) ? WRITE_HELD : READ_HELD;
		judge(&way[4], MAY(SRCH), tell(&root, &c), "waited for, action %d", c.action);
		c.action = one_in(2) ? WRITE_FILE : READ_FILE;
		judge(&way[3], MAY(NOENT), tell(&root, &c), "action %d", c.action);
		check_everything();
	}
	restore.len = sprintf(restore.text, "domains=%s,replication=%s,prefetch=%u,filter=%s",
			      values[DOMAINS][init_settings.domains],
			      values[REPLICATION][init_settings.replication],
			      init_settings.prefetch, values[FILTER][init_settings.filter]);
	if (tell(&root, &restore) < 0)
		mistake("the settings of the first process cannot be put back");
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}

/*
 * Files held open while the process they belong to executes another program,
 * perhaps one that is set-user-ID root, and ends.
 */

static char program_dir[] = "/tmp/hydra-fuzz-XXXXXX";

static bool copy_program(const char *name, mode_t mode)
{
	char path[64], buffer[65536];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t got;

	snprintf(path, sizeof(path), "%s/%s", program_dir, name);
	to = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
	while ((got = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, got) != got)
			return false;
	close(from);
	return !fchmod(to, mode) && !close(to) && !got;
}

/* Says "e" and its effective user; then does as told: e(xec), s(et-user-ID), x */
static int victim(int in, int out)
{
	char path[64], in_text[16], out_text[16], order;
	uid_t said = geteuid();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(out, &said, sizeof(said)) != sizeof(said) || read(in, &order, 1) != 1 ||
	    order == 'x')
		return 0;
	snprintf(path, sizeof(path), "%s/%s", program_dir, order == 's' ? "setuid" : "plain");
	sprintf(in_text, "%d", in);
	sprintf(out_text, "%d", out);
	execl(path, path, "victim", program_dir, in_text, out_text, NULL);
	return 1;
}

static bool order_victim(const int orders, const int answers, char order, uid_t expected)
{
	uid_t uid = -1;

	return write(orders, &order, 1) == 1 &&
	       (order == 'x' || (read(answers, &uid, sizeof(uid)) == sizeof(uid) &&
				 uid == expected));
}

static void hold_over_life(struct way *way, const struct caller *holder)
{
	int orders[2], answers[2];
	struct command c = { .action = HOLD };
	bool denied = false;
	struct subject *subject;
	siginfo_t info;
	uid_t uid;
	pid_t child;

	if (pipe(orders) || pipe(answers)) {
		mistake("no pipes");
		return;
	}
	fflush(NULL);
	child = fork();
	if (!child) {
		close(orders[1]);
		_exit(!become_nobody() || victim(orders[0], answers[1]));
	}
	if (read(answers[0], &uid, sizeof(uid)) != sizeof(uid) || uid != NOBODY)
		mistake("no victim");
	subject = add_subject("a victim", child);
	sprintf(c.path, "/proc/%d/hydra", child);
	if (tell(holder, &c))
		mistake("nobody cannot open %s of its own process", c.path);

	for (int step = 0; step < 4 && !mistakes; step++) {
		for (int i = below(3); i >= 0; i--) {
			unsigned int may = MAY(PERM);

			command_text(&c, &way[0]);
			c.action = one_in(3) ? READ_HELD : WRITE_HELD;
			if (!denied)
				may = c.action == READ_HELD ? MAY(TAKEN) :
				      c.len >= TEXT_MAX ? MAY(INVAL) :
				      understand(c.text, c.len, &subject->settings);
			else if (c.action == WRITE_HELD && c.len >= TEXT_MAX)
				/* more than one thing is wrong with it */
				may |= MAY(INVAL);
			judge(&way[denied], may, tell(holder, &c), "step %d, action %d, \"%s", step,
			      c.action, quote(c.text, c.len));
			check_everything();
		}
		if (step == 3)
			break;
		if (step == 2 || one_in(3)) {
			denied = true;
			if (!order_victim(orders[1], answers[0], 's', 0))
				mistake("the victim is not root after a set-user-ID program");
		} else if (!denied && !order_victim(orders[1], answers[0], 'e', NOBODY)) {
			mistake("the victim cannot execute");
		}
		/* settings go with it */
		check_everything();
	}
	nr_subjects--;
	order_victim(orders[1], answers[0], 'x', 0);
	close(orders[1]);
	waitid(P_PID, child, &info, WEXITED | WNOWAIT);
	c.action = one_in(2) ? READ_HELD : WRITE_HELD;
	c.len = valid_text(c.text);
	judge(&way[2], MAY(SRCH), tell(holder, &c), "a zombie, action %d", c.action);
	hydra_wait_child(child);
	c.action = one_in(2) ? READ_HELD : WRITE_HELD;
	judge(&way[2], MAY(SRCH), tell(holder, &c), "it was, action %d", c.action);
	close(orders[0]);
	close(answers[0]);
	close(answers[1]);
	check_everything();
}

/* Root opens, and gives its privileges up */
static void hold_and_drop(struct way *way, const struct subject *target)
{
	long *results = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			     -1, 0);
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		char path[64], text[64];
		int fd;

		sprintf(path, "/proc/%d/hydra", target->pid);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || !become_nobody())
			_exit(1);
		results[0] = RESULT(write(fd, "hydra,prefetch=1", 16));
		results[1] = RESULT(read(fd, text, sizeof(text)));
		_exit(0);
	}
	if (hydra_wait_child(child))
		mistake("a child could not open a file and become nobody");
	judge(way, MAY(PERM), results[0], "writing to what root has opened");
	judge(way, MAY(PERM), results[1], "reading from what root has opened");
	munmap(results, PAGE_SIZE);
	check_everything();
}

static void fuzz_held_files(void)
{
	struct way way[] = {
		{ "held over exec", MAY(TAKEN) | MAY(INVAL) | MAY(NOTSUPP) },
		{ "held over exec of a set-user-ID program", MAY(PERM) },
		{ "held over the end", MAY(SRCH) },
		{ "held by root that became nobody", MAY(PERM) },
	};
	struct subject *target = add_subject("a process of root", spawn(NULL));
	struct caller holder;

	/* not on a file system without set-user-ID, or where nobody cannot go */
	if (!mkdtemp(program_dir) || mount("none", program_dir, "tmpfs", 0, "mode=755") ||
	    !copy_program("plain", 0755) || !copy_program("setuid", 04755)) {
		mistake("no tmpfs with copies of this program (CONFIG_TMPFS): %s", strerror(errno));
		return;
	}
	holder = spawn_caller("nobody", become_nobody);
	for (operation = 0; operation < option.operations / 16 && !mistakes; operation++) {
		hold_over_life(way, &holder);
		hold_and_drop(&way[3], target);
	}
	umount2(program_dir, MNT_DETACH);
	rmdir(program_dir);
	for (int i = 0; i < ARRAY_SIZE(way); i++)
		account_for(&way[i]);
}

/* All at once, to processes that come, map, execute and go */

#define WRITERS	3

static struct contest {
	atomic_int victim;
	atomic_bool stop;
	atomic_uint taken;
	struct {
		struct way way;
		atomic_uint mistakes;
		unsigned int last;
	} writer[WRITERS];
} *contest;

/* On all nodes, maps and unmaps, and sets its own policy */
static void *live_busily(void *arg)
{
	unsigned int *number = arg;
	struct hydra_settings s = policies[1].settings;

	hydra_pin_to_node(*number % hydra_nodes());
	for (unsigned int round = 0;; round++) {
		uint64_t *page = mmap(NULL, 4 * PAGE_SIZE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		for (size_t i = 0; i < 4; i++)
			page[i * PAGE_WORDS] = i + *number;
		for (size_t i = 0; i < 4; i++)
			if (page[i * PAGE_WORDS] != i + *number)
				abort();
		munmap(page, 4 * PAGE_SIZE);
		s.prefetch = round % 10;
		if (round % 16 == 0 && hydra_set(&s))
			abort();
	}
	return NULL;
}

static void live_and_die(void)
{
	static unsigned int numbers[HYDRA_MAX_NODES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < hydra_nodes(); i++) {
		pthread_t thread;

		numbers[i] = i;
		pthread_create(&thread, NULL, live_busily, &numbers[i]);
	}
	live_busily(&numbers[0]);
}

static void contend(int number)
{
	struct way *way = &contest->writer[number].way;
	static char text[HUGE_TEXT + 512];

	random_state = hydra_word(option.seed + 1, number, 7) | 1;
	hydra_pin_to_node(number % hydra_nodes());
	for (operation = 0; !atomic_load(&contest->stop); operation++) {
		pid_t pid = atomic_load(&contest->victim);
		struct hydra_settings any = policies[1].settings;
		const unsigned int gone = MAY(SRCH) | MAY(NOENT);
		char path[64], answer[4096];
		size_t len;
		int err;

		if (one_in(4)) {
			sprintf(path, "/proc/%d/hydra_check", pid);
			err = hydra_read_file(path, answer, sizeof(answer));
			judge(way, MAY(TAKEN) | gone, err, "%s", path);
			if (err > 0 && strncmp(answer, "ok ", 3))
				mistake("%s: %s", path, answer);
			continue;
		}
		len = valid_text(text);
		text[len] = 0;
		if (judge(way, understand(text, len, &any) | gone, hydra_write_policy(pid, text),
			  "\"%s", quote(text, len)) == TAKEN)
			atomic_fetch_add(&contest->taken, 1);
	}
	atomic_store(&contest->writer[number].mistakes, mistakes);
	_exit(0);
}

/* Two write one setting each: neither may undo what the other has done */
static void write_one_key(int number, pid_t pid)
{
	unsigned int last = 0;

	random_state = hydra_word(option.seed + 1, number, 8) | 1;
	for (unsigned int i = 0; i < option.operations / 4; i++) {
		char text[32];

		last = number ? below(2) : below(10);
		if (number)
			sprintf(text, "filter=%s", values[FILTER][last]);
		else
			sprintf(text, "prefetch=%u", last);
		if (hydra_write_policy(pid, text))
			atomic_fetch_add(&contest->writer[number].mistakes, 1);
	}
	contest->writer[number].last = last;
	_exit(0);
}

static void fuzz_contest(void)
{
	pid_t writer[WRITERS], victim;
	struct hydra_settings s;

	contest = mmap(NULL, sizeof(*contest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	fflush(NULL);
	for (int i = 0; i < WRITERS; i++) {
		contest->writer[i].way.name = "all at once";
		contest->writer[i].way.needed = MAY(TAKEN) | MAY(NOTSUPP);
		atomic_store(&contest->victim, getpid());
		writer[i] = fork();
		if (!writer[i])
			contend(i);
	}
	for (operation = 0; operation < option.operations / 16; operation++) {
		unsigned int taken = atomic_load(&contest->taken) + 1 + below(16);
		int status;

		victim = fork();
		if (!victim)
			live_and_die();
		atomic_store(&contest->victim, victim);
		while ((int)(atomic_load(&contest->taken) - taken) < 0)
			usleep(500);
		kill(victim, SIGKILL);
		usleep(below(1000));
		status = hydra_wait_child(victim);
		if (status != 128 + SIGKILL)
			mistake("a victim ended with %d: wrong memory, or settings refused", status);
	}
	atomic_store(&contest->stop, true);
	for (int i = 0; i < WRITERS; i++) {
		hydra_wait_child(writer[i]);
		mistakes += atomic_load(&contest->writer[i].mistakes);
		account_for(&contest->writer[i].way);
	}
	/* the writers' settings of this process are of no interest */
	hydra_on(9, HYDRA_FILTER_TABLE);

	victim = spawn(NULL);
	for (int i = 0; i < 2; i++) {
		writer[i] = fork();
		if (!writer[i])
			write_one_key(i, victim);
	}
	for (int i = 0; i < 2; i++)
		hydra_wait_child(writer[i]);
	if (read_settings(victim, &s) && (s.prefetch != contest->writer[0].last ||
					  s.filter != contest->writer[1].last))
		mistake("two have written prefetch=%u and filter=%s at last, but it is %s",
			contest->writer[0].last, values[FILTER][contest->writer[1].last], show(s));
	if (!hydra_consistent(victim))
		mistake("the one they wrote to is not consistent");
	kill(victim, SIGKILL);
	hydra_wait_child(victim);
	check_everything();
}

static const struct {
	const char *name, *what;
	void (*run)(void);
} tests[] = {
	{ "prctl", "prctl, with any settings, size, pointer", fuzz_prctl },
	{ "process-text", "any text to a process, in any way", fuzz_process_text },
	{ "machine-text", "any text to the files of the machine", fuzz_machine_text },
	{ "reads", "reads from anywhere to anywhere", fuzz_reads },
	{ "permissions", "anybody to anybody", fuzz_permissions },
	{ "strange-targets", "processes that are hardly there", fuzz_strange_targets },
	{ "held-files", "files held over exec and exit", fuzz_held_files },
	{ "contest", "all at once", fuzz_contest },
};

static bool run(void (*test)(void))
{
	if (hydra_begin() || pipe2(ready_pipe, O_CLOEXEC))
		return false;
	/* so that Hydra stays in use: its first and last user patch the kernel's text */
	if (hydra_on(9, HYDRA_FILTER_TABLE))
		return false;
	random_state = hydra_word(option.seed + 1, 0, 0) | 1;
	make_pointers();
	read_machine(&machine.settings, &machine.limit);
	test();
	kill_subjects();
	if (mistakes > MISTAKES_SHOWN)
		fprintf(stderr, "# and %u mistakes more\n", mistakes - MISTAKES_SHOWN);
	return !mistakes && hydra_consistent(getpid());
}

static bool run_in_child(void (*test)(void))
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (!child) {
		bool passed;

		alarm(PATIENCE);
		passed = run(test);
		fflush(NULL);
		_exit(!passed);
	}
	status = child < 0 ? -1 : hydra_wait_child(child);
	if (status == 128 + SIGALRM)
		fprintf(stderr, "# it hung: no end after %d seconds\n", PATIENCE);
	else if (status > 128)
		fprintf(stderr, "# it died of signal %d\n", status - 128);
	return !status;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end = "";

	switch (key) {
	case 's':
		option.seed = strtoull(arg, &end, 0);
		break;
	case 'o':
		option.operations = strtoul(arg, &end, 0);
		break;
	case 't':
		option.test = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (*end)
		argp_error(state, "\"%s\" is not a number", arg);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "N", 0, "begin all sequences of random numbers with N" },
		{ "operations", 'o', "N", 0, "of each test, about (default: 400)" },
		{ "test", 't', "NAME", 0, "run this test alone" },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL, "Gives the interface of Hydra anything, by anybody.",
	};
	char sysfs_default[128], limit[64];
	unsigned int count = 0;
	const char *missing;

	if (argc == 5 && !strcmp(argv[1], "victim")) {
		snprintf(program_dir, sizeof(program_dir), "%s", argv[2]);
		return victim(atoi(argv[3]), atoi(argv[4]));
	}
	option.seed = hydra_seed();
	argp_parse(&argp, argc, argv, 0, NULL, NULL);

	ksft_print_header();
	missing = hydra_missing();
	if (missing)
		ksft_exit_fail_msg("%s\n", missing);
	for (int i = 0; i < ARRAY_SIZE(tests); i++)
		count += !option.test || !strcmp(option.test, tests[i].name);
	if (!count)
		ksft_exit_fail_msg("no test is called %s\n", option.test);
	ksft_set_plan(count);
	ksft_print_msg("repeat with --seed %lu --operations %u\n", option.seed, option.operations);
	hydra_read_file(HYDRA_SYSFS "default", sysfs_default, sizeof(sysfs_default));
	hydra_read_file(HYDRA_SYSFS "replica_limit_kib", limit, sizeof(limit));
	for (int i = 0; i < ARRAY_SIZE(tests); i++) {
		if (option.test && strcmp(option.test, tests[i].name))
			continue;
		ksft_test_result(run_in_child(tests[i].run), "%s: %s\n", tests[i].name,
				 tests[i].what);
		hydra_write_file(HYDRA_SYSFS "default", sysfs_default);
		hydra_write_file(HYDRA_SYSFS "replica_limit_kib", limit);
	}
	ksft_finished();
}
