// SPDX-License-Identifier: GPL-2.0-only
#include "json.h"

#if !__has_include(<json-c/json.h>)
#error "hydractl and the workloads need json-c: install the package libjson-c-dev"
#endif

#include <json-c/json.h>
#include <math.h>

#include "text.h"

#define DEPTH 8

/* The open objects and lists, the outermost first. */
static struct json_object *opened[DEPTH];
static size_t depth;
static FILE *out;

void json_to(FILE *stream)
{
	out = stream;
}

/* json-c leaves as they are: bytes that are no UTF-8, and control characters from U+007F on. */
static void print(const char *text)
{
	uint32_t point;

	for (size_t length; *text; text += length ?: 1) {
		length = utf8_length(text, &point);
		if (!length)
			fputs("\\ufffd", out);
		else if (is_control(point))
			fprintf(out, "\\u%04x", point);
		else
			fwrite(text, 1, length, out);
	}
	fputc('\n', out);
}

/* NULL stands for null. */
static void add(const char *key, struct json_object *value)
{
	struct json_object *above = depth ? opened[depth - 1] : value;

	if (depth && (key ? json_object_object_add(above, key, value) : json_object_array_add(above, value)))
		must_have(NULL);
}

static void begin(const char *key, struct json_object *value)
{
	add(key, must_have(value));
	opened[depth++] = value;
}

void json_open_object(const char *key)
{
	begin(key, json_object_new_object());
}

void json_open_list(const char *key)
{
	begin(key, json_object_new_array());
}

void json_close(void)
{
	const int style = JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;

	if (--depth)
		return;
	if (!out)
		out = stdout;
	print(must_have((char *)json_object_to_json_string_ext(opened[0], style)));
	json_object_put(opened[0]);
}

void json_string(const char *key, const char *value)
{
	add(key, value ? must_have(json_object_new_string(value)) : NULL);
}

void json_number(const char *key, uint64_t value)
{
	add(key, must_have(json_object_new_uint64(value)));
}

void json_integer(const char *key, int64_t value)
{
	add(key, must_have(json_object_new_int64(value)));
}

void json_real(const char *key, double value)
{
	struct json_object *number = isnan(value) ? NULL : must_have(json_object_new_double(value));

	if (number)
		json_object_set_serializer(number, json_object_double_to_json_string, "%.6f", NULL);
	add(key, number);
}

void json_flag(const char *key, bool value)
{
	add(key, must_have(json_object_new_boolean(value)));
}
