// SPDX-License-Identifier: GPL-2.0-only
#include "table.h"

struct table table_make(FILE *out, const struct column *column, size_t columns, size_t wide)
{
	struct table table = { .out = out, .column = column, .columns = columns };
	size_t used = 0, known = 0;

	for (int weight = 0; known < columns; weight++)
		for (size_t i = 0; i < columns; i++) {
			if (column[i].weight != weight)
				continue;
			used += abs(column[i].width) + !!known++;
			if (used > wide)
				return table;
			table.shown[i] = true;
		}
	return table;
}

void table_cell(struct table *table, const char *format, ...)
{
	const struct column *column = &table->column[table->at];
	int wide = column->ragged ? 0 : column->width;
	autofree char *text;
	va_list arguments;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	if (table->shown[table->at]) {
		fprintf(table->out, "%*s%*s", table->begun ? 1 : (int)table->indent, "",
			wide < 0 ? -width(-wide, text) : width(wide, text), text);
		table->begun = true;
	}
	if (++table->at < table->columns)
		return;
	fputc('\n', table->out);
	table->at = 0;
	table->begun = false;
}

void table_head(struct table *table)
{
	for (size_t i = 0; i < table->columns; i++)
		table_cell(table, "%s", table->column[i].head);
}

void print_record(const struct record *record, bool head)
{
	for (int row = !head; row < 2; row++)
		for (size_t i = 0; i < record->count; i++)
			printf("%s%-14s%s", i ? " " : "  ", row ? record->pair[i].value : record->pair[i].key,
			       i + 1 < record->count ? "" : "\n");
}

const char *rate_text(char text[RATE_SIZE], double rate)
{
	static const char units[] = " kMG";
	size_t unit = 0;

	if (rate > 0 && rate < 9.95) {
		snprintf(text, RATE_SIZE, "%.1f", rate);
		return text;
	}
	/* Six digits and a unit. */
	while (rate >= 999999.5 && units[unit + 1]) {
		rate /= 1000;
		unit++;
	}
	snprintf(text, RATE_SIZE, "%.0f%.*s", rate, !!unit, &units[unit]);
	return text;
}
