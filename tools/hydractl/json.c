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
static bool csv;
static struct json_object *columns;	/* of the CSV: a list of names, NULL before the first line */
static const char rows[] = "";		/* marks the lists whose elements are lines */

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

void json_as_csv(void)
{
	csv = true;
}

void json_open_rows(const char *key)
{
	json_open_list(key);
	json_object_set_userdata(opened[depth - 1], (void *)rows, NULL);
}

static bool is_plain(struct json_object *value)
{
	return !json_object_is_type(value, json_type_object) && !json_object_is_type(value, json_type_array);
}

/* Add the plain values of @object to those of @line, and do the same for the elements of its lines; @act with each line. */
static void each_line(struct json_object *object, struct json_object *line, void (*act)(struct json_object *line))
{
	struct json_object *whole = must_have(json_object_new_object());
	bool whole_line = true;

	json_object_object_foreach(line, name, given)
		json_object_object_add(whole, name, json_object_get(given));
	json_object_object_foreach(object, key, value)
		if (is_plain(value))
			json_object_object_add(whole, key, json_object_get(value));
	json_object_object_foreach(object, list, lines) {
		(void)list;
		if (is_plain(lines) || json_object_get_userdata(lines) != rows)
			continue;
		for (size_t i = 0; i < json_object_array_length(lines); i++)
			each_line(json_object_array_get_idx(lines, i), whole, act);
		whole_line = false;
	}
	if (whole_line)
		act(whole);
	json_object_put(whole);
}

static bool is_column(const char *name)
{
	for (size_t i = 0; i < json_object_array_length(columns); i++)
		if (!strcmp(json_object_get_string(json_object_array_get_idx(columns, i)), name))
			return true;
	return false;
}

static void find_columns(struct json_object *line)
{
	json_object_object_foreach(line, name, value) {
		(void)value;
		if (!is_column(name))
			json_object_array_add(columns, must_have(json_object_new_string(name)));
	}
}

/* A cell as of RFC 4180 */
static void print_cell(const char *text, bool last)
{
	autofree char *shown = printable(text ?: "");

	if (!shown[strcspn(shown, ",\"")]) {
		fputs(shown, out);
	} else {
		fputc('"', out);
		for (const char *byte = shown; *byte; byte++)
			fprintf(out, "%s%c", *byte == '"' ? "\"" : "", *byte);
		fputc('"', out);
	}
	fputc(last ? '\n' : ',', out);
}

/* The line in the order of the columns; of NULL the names. */
static void print_line(struct json_object *line)
{
	size_t count = json_object_array_length(columns);

	for (size_t i = 0; i < count; i++) {
		const char *name = json_object_get_string(json_object_array_get_idx(columns, i));
		struct json_object *value = line ? json_object_object_get(line, name) : NULL;

		print_cell(line ? json_object_get_string(value) : name, i + 1 == count);
	}
}

static void print_csv(struct json_object *object)
{
	struct json_object *nothing = must_have(json_object_new_object());

	if (!columns) {
		columns = must_have(json_object_new_array());
		each_line(object, nothing, find_columns);
		if (json_object_array_length(columns)) {
			print_line(NULL);
		} else {
			json_object_put(columns);
			columns = NULL;
		}
	}
	if (columns)
		each_line(object, nothing, print_line);
	json_object_put(nothing);
}

void json_close(void)
{
	const int style = JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;

	if (--depth)
		return;
	if (!out)
		out = stdout;
	if (csv)
		print_csv(opened[0]);
	else
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
