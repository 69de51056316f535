// SPDX-License-Identifier: GPL-2.0-only
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "text.h"

static unsigned int depth;
static bool need_comma;

static void put_string(const char *text)
{
	uint32_t point;

	putchar('"');
	while (*text) {
		size_t length = utf8_length(text, &point);

		if (!length)
			printf("\\ufffd");
		else if (is_control(point))
			printf("\\u%04x", point);
		else
			printf("%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)length, text);
		text += length ?: 1;
	}
	putchar('"');
}

static void begin_value(const char *key)
{
	if (need_comma)
		printf(", ");
	need_comma = true;
	if (key) {
		put_string(key);
		printf(": ");
	}
}

static void open_bracket(const char *key, char bracket)
{
	begin_value(key);
	putchar(bracket);
	need_comma = false;
	depth++;
}

static void close_bracket(char bracket)
{
	putchar(bracket);
	need_comma = true;
	if (!--depth)
		putchar('\n');
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
	printf("%" PRIu64, value);
}

void json_real(const char *key, double value)
{
	begin_value(key);
	if (isnan(value))
		printf("null");
	else
		printf("%.6f", value);
}

void json_bool(const char *key, int value)
{
	begin_value(key);
	printf(value ? "true" : "false");
}

void json_null(const char *key)
{
	begin_value(key);
	printf("null");
}
