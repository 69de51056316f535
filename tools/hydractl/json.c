// SPDX-License-Identifier: GPL-2.0-only
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "text.h"

static FILE *out;
static unsigned int depth;
static bool need_comma;

void json_to(FILE *stream)
{
	out = stream;
}

static void put_string(const char *text)
{
	uint32_t point;

	fputc('"', out);
	while (*text) {
		size_t length = utf8_length(text, &point);

		if (!length)
			fprintf(out, "\\ufffd");
		else if (is_control(point))
			fprintf(out, "\\u%04x", point);
		else
			fprintf(out, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)length, text);
		text += length ?: 1;
	}
	fputc('"', out);
}

static void begin_value(const char *key)
{
	if (!out)
		out = stdout;
	if (need_comma)
		fprintf(out, ", ");
	need_comma = true;
	if (key) {
		put_string(key);
		fprintf(out, ": ");
	}
}

static void open_bracket(const char *key, char bracket)
{
	begin_value(key);
	fputc(bracket, out);
	need_comma = false;
	depth++;
}

static void close_bracket(char bracket)
{
	fputc(bracket, out);
	need_comma = --depth;
	if (!depth)
		fputc('\n', out);
}

void json_open_object(const char *key)
{
	open_bracket(key, '{');
}

void json_close_object(void)
{
	close_bracket('}');
}

void json_open_list(const char *key)
{
	open_bracket(key, '[');
}

void json_close_list(void)
{
	close_bracket(']');
}

void json_string(const char *key, const char *value)
{
	begin_value(key);
	put_string(value);
}

void json_number(const char *key, uint64_t value)
{
	begin_value(key);
	fprintf(out, "%" PRIu64, value);
}

void json_real(const char *key, double value)
{
	begin_value(key);
	if (isnan(value))
		fprintf(out, "null");
	else
		fprintf(out, "%.6f", value);
}

void json_bool(const char *key, int value)
{
	begin_value(key);
	fprintf(out, value ? "true" : "false");
}

void json_null(const char *key)
{
	begin_value(key);
	fprintf(out, "null");
}
