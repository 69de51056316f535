/* SPDX-License-Identifier: GPL-2.0-only */
/* Tables of text: one cell after the other, each filled up to the width of its column. */
#ifndef TABLE_H
#define TABLE_H

#include "procfile.h"

#define TABLE_COLUMNS 16

struct column {
	const char *head;
	int width;		/* negative: text, which begins at the left */
	int weight;		/* a narrow terminal shows the lowest first */
	bool ragged;		/* text that is not filled up */
};

struct table {
	FILE *out;
	size_t indent;		/* ahead of each row */
	const struct column *column;
	size_t columns, at;
	bool shown[TABLE_COLUMNS], begun;
};

/* Begin a table with the columns that fit into @wide. */
struct table table_make(FILE *out, const struct column *column, size_t columns, size_t wide);
#define TABLE(out, columns, wide) table_make(out, columns, sizeof(columns) / sizeof(*(columns)), wide)

/* The next cell, of as many as there are columns. The last one ends the row. */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_head(struct table *table);

/* Print a record to stdout as a row of values; with @head, the keys above it. */
void print_record(const struct record *record, bool head);

/* A buffer for a rate; the text has at most 8 characters. */
#define RATE_SIZE 80
const char *rate_text(char text[RATE_SIZE], double rate);

#endif /* TABLE_H */
