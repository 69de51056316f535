// SPDX-License-Identifier: GPL-2.0-only
#include "columns.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "text.h"

#define NAME_LEAST 8

static const struct {
	const char *head;
	size_t width;
	int order;		/* the enum order which sorts by the column, -1: none */
} columns[COLUMN_COUNT] = {
	[COLUMN_PID] = { "PID", 7, ORDER_PID },
	[COLUMN_POLICY] = { "POLICY", 14, -1 },
	[COLUMN_SENT] = { "SENT/S", 8, ORDER_SENT },
	[COLUMN_SPARED] = { "SPARED/S", 9, ORDER_SPARED },
	[COLUMN_FILLS] = { "FILLS/S", 8, ORDER_FILLS },
	[COLUMN_FLUSHES] = { "FLUSH/S", 8, ORDER_FLUSHES },
	[COLUMN_MEMORY] = { "REP-KIB", 8, ORDER_MEMORY },
	[COLUMN_NAME] = { "COMMAND", NAME_LEAST, ORDER_NAME },
};

/* What a narrow terminal shows first. */
static const enum column by_weight[] = { COLUMN_PID, COLUMN_SENT, COLUMN_SPARED, COLUMN_NAME,
					 COLUMN_MEMORY, COLUMN_POLICY, COLUMN_FILLS, COLUMN_FLUSHES };

void columns_fit(size_t width, bool shown[COLUMN_COUNT])
{
	size_t used = 0;

	memset(shown, 0, COLUMN_COUNT * sizeof(*shown));
	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		enum column column = by_weight[i];

		used += columns[column].width + !!i;
		if (used > width)
			return;
		shown[column] = true;
	}
}

const char *rate_text(char text[CELL_SIZE], double rate)
{
	static const char units[] = " kMG";
	size_t unit = 0;

	if (rate > 0 && rate < 9.95) {
		snprintf(text, CELL_SIZE, "%.1f", rate);
		return text;
	}
	/* Six digits and a unit. */
	while (rate >= 999999.5 && units[unit + 1]) {
		rate /= 1000;
		unit++;
	}
	snprintf(text, CELL_SIZE, "%.0f%.*s", rate, !!unit, &units[unit]);
	return text;
}

static const char *cell(char text[CELL_SIZE], const struct row *row, enum column column)
{
	const struct rates *rates = &row->rates;

	switch (column) {
	case COLUMN_PID:
		snprintf(text, CELL_SIZE, "%d", row->process->pid);
		return text;
	case COLUMN_POLICY:
		return process_text(row->process, "policy");
	case COLUMN_SENT:
		return rate_text(text, rates->sent);
	case COLUMN_SPARED:
		return rate_text(text, rates->spared);
	case COLUMN_FILLS:
		return rate_text(text, rates->fills);
	case COLUMN_FLUSHES:
		return rate_text(text, rates->flushes);
	case COLUMN_MEMORY:
		snprintf(text, CELL_SIZE, "%" PRIu64, rates->replica_kib);
		return text;
	default:
		return "";
	}
}

/* The policy is text, so it begins at the left; numbers end at the right. */
static void write_cell(FILE *line, enum column column, const char *text)
{
	int width = columns[column].width;

	fprintf(line, "%*s%s", column == COLUMN_POLICY || column == COLUMN_NAME ? -width : width, text,
		column == COLUMN_NAME ? "" : " ");
}

char *columns_head(const bool shown[COLUMN_COUNT], enum order order)
{
	char *text, head[CELL_SIZE];
	size_t size;
	FILE *line = must_have(open_memstream(&text, &size));

	for (enum column column = 0; column < COLUMN_COUNT; column++) {
		snprintf(head, sizeof(head), "%s%s", columns[column].order == (int)order ? "*" : "",
			 columns[column].head);
		if (shown[column])
			write_cell(line, column, head);
	}
	must_have(fclose(line) ? NULL : text);
	return text;
}

char *columns_row(const bool shown[COLUMN_COUNT], const struct row *row)
{
	char *name = must_have(printable(row->process->name)), *text, buffer[CELL_SIZE];
	size_t size;
	FILE *line = must_have(open_memstream(&text, &size));

	for (enum column column = 0; column < COLUMN_COUNT; column++)
		if (shown[column])
			write_cell(line, column, column == COLUMN_NAME ? name : cell(buffer, row, column));
	must_have(fclose(line) ? NULL : text);
	free(name);
	return text;
}
