// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel has answered: judged by what it may answer, counted, and told
 * of if it is wrong. Each kind of answer must have come at least once, or the run
 * has shown nothing.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "fuzz.h"

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

unsigned int operation;
unsigned int mistakes;

void mistake(const char *format, ...)
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

const char *quote(const char *text, size_t len)
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

enum outcome judge(struct way *way, unsigned int may, long result, const char *format, ...)
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

void account_for(const struct way *way)
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
