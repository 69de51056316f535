// SPDX-License-Identifier: GPL-2.0-only
#include "text.h"

#include <argp.h>
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Each command sets the exit status that argp uses, for errors of its own too. */
void *must_have(void *pointer)
{
	if (!pointer)
		error(argp_err_exit_status, ENOMEM, "cannot go on");
	return pointer;
}

char *xvasprintf(const char *format, va_list arguments)
{
	char *text;

	return must_have(vasprintf(&text, format, arguments) < 0 ? NULL : text);
}

char *xasprintf(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	return text;
}

void append(char **text, const char *format, ...)
{
	autofree char *before = *text, *more;
	va_list arguments;

	va_start(arguments, format);
	more = xvasprintf(format, arguments);
	va_end(arguments);
	*text = xasprintf("%s%s", before ?: "", more);
}

size_t utf8_length(const char *text, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = *text;
	size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;

	if (length == 1) {
		*point = first;
		return 1;
	}
	if (first < 0xc0 || first > 0xf7)
		return 0;
	*point = first & (0x7f >> length);
	for (size_t i = 1; i < length; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (text[i] & 0x3f);
	}
	/* Not the shortest form, half of a UTF-16 pair, or beyond Unicode. */
	if (*point < least[length] || (*point >= 0xd800 && *point < 0xe000) || *point > 0x10ffff)
		return 0;
	return length;
}

bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
	       (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

char *printable(const char *text)
{
	/* Four characters for a byte at most. */
	char *made = must_have(malloc(4 * strlen(text) + 1)), *end = made;
	uint32_t point;

	while (*text) {
		size_t length = utf8_length(text, &point);
		bool escape = !length || is_control(point);

		for (length = length ?: 1; length; length--, text++) {
			if (escape)
				end += sprintf(end, "\\%03o", (unsigned char)*text);
			else
				*end++ = *text;
		}
	}
	*end = '\0';
	return made;
}

char *percent_text(double ppm)
{
	double percent = (int64_t)(ppm < 0 ? ppm - 0.5 : ppm + 0.5) / 1e4;

	if (ppm && !percent)
		return must_have(strdup("less than 0.0001 %"));
	return xasprintf(fabs(percent) < 9.95 ? "%.2g %%" : "%.0f %%", percent);
}

char *duration_text(double us)
{
	static const struct { double most, unit; const char *name; } units[] = {
		{ 1e3, 1, "us" }, { 1e6, 1e3, "ms" }, { 120e6, 1e6, "s" }, { 7200e6, 60e6, "minutes" }, { INFINITY, 3600e6, "hours" },
	};
	size_t i = 0;

	while (fabs(us) >= units[i].most)
		i++;
	return xasprintf(fabs(us) < 99.5 * units[i].unit ? "%.2g %s" : "%.0f %s", us / units[i].unit, units[i].name);
}

unsigned short terminal_columns(int fd)
{
	struct winsize size;

	if (!isatty(fd))
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

/* One column a character. */
static size_t columns_of(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

void write_wrapped(FILE *out, size_t indent, size_t wide, const char *text)
{
	size_t at = 0;		/* the column, 0: at the start of the text */

	while (*text) {
		size_t length = strcspn(text, " "), word = columns_of(text, length);

		if (at && at + 1 + word > wide) {
			fputc('\n', out);
			at = 0;
		}
		fprintf(out, "%*s%.*s", at ? 1 : (int)indent, "", (int)length, text);
		at = (at ? at + 1 : indent) + word;
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

void print_wrapped(size_t indent, size_t wide, const char *format, ...)
{
	autofree char *text;
	va_list arguments;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	write_wrapped(stdout, indent, wide, text);
}

const char *plural_s(uint64_t count)
{
	return count == 1 ? "" : "s";
}

const char *plural_es(uint64_t count)
{
	return count == 1 ? "" : "es";
}

int width(int wide, const char *text)
{
	for (; *text; text++)
		wide += (*text & 0xc0) == 0x80;
	return wide;
}
