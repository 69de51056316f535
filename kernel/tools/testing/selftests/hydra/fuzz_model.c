// SPDX-License-Identifier: GPL-2.0-only
/*
 * The model: what has to come of settings and texts, from what the documentation
 * promises. After each operation, the settings of all processes, the default and
 * the limit must be what the model says.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "kselftest.h"
#include "fuzz.h"

/* What texts mean */

const char * const keys[KEYS] = { "domains", "replication", "prefetch", "filter" };

const char * const values[KEYS][5] = {
	[DOMAINS]	= { "machine", "node", "llc", "core" },
	[REPLICATION]	= { "lazy", "eager" },
	[FILTER]	= { "none", "table", "entry", "accessed" },
};

const __u32 unbuilt[KEYS] = { 2, 1, 10, 2 };
const __u32 invalid[KEYS] = { 4, 2, 10, 4 };

__u32 *setting(struct hydra_settings *s, int key)
{
	__u32 * const fields[KEYS] = { &s->domains, &s->replication, &s->prefetch, &s->filter };

	return fields[key];
}

const struct policy policies[] = {
	{ "linux", { HYDRA_DOMAINS_MACHINE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_NONE } },
	{ "hydra", { HYDRA_DOMAINS_NODE, HYDRA_REPLICATE_LAZY, 9, HYDRA_FILTER_TABLE } },
};

bool same(const struct hydra_settings *a, const struct hydra_settings *b)
{
	return !memcmp(a, b, sizeof(*a));
}

unsigned int understand_settings(struct hydra_settings s)
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

unsigned int understand(const char *text, size_t len, struct hydra_settings *settings)
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

unsigned int understand_limit(const char *text, size_t len, uint64_t *limit)
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

/* What there is */

#define SUBJECTS_MAX	16

struct subject subjects[SUBJECTS_MAX];
int nr_subjects;

struct machine machine;

bool read_settings(pid_t pid, struct hydra_settings *s)
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

const char *show(struct hydra_settings s)
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

void read_machine(struct hydra_settings *s, uint64_t *limit)
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

void check_everything(void)
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

struct subject *add_subject(const char *name, pid_t pid)
{
	struct subject *s = &subjects[nr_subjects++];

	s->name = name;
	s->pid = pid;
	read_settings(pid, &s->settings);
	return s;
}
