/* SPDX-License-Identifier: GPL-2.0-only */
/* The columns of the table of 'hydractl top'. */
#ifndef COLUMNS_H
#define COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "rates.h"

/* A terminal of this width shows the columns that one cannot do without. */
#define COLUMNS_LEAST 35

/* A buffer for a cell, or for a number. */
#define CELL_SIZE 80

enum column { COLUMN_PID, COLUMN_POLICY, COLUMN_SENT, COLUMN_SPARED, COLUMN_FILLS, COLUMN_FLUSHES,
	      COLUMN_MEMORY, COLUMN_NAME, COLUMN_COUNT };

/* Which columns fit into @width? */
void columns_fit(size_t width, bool shown[COLUMN_COUNT]);

/* Lines of the table, to be freed: the head, with a mark at the column of @order; a row. */
char *columns_head(const bool shown[COLUMN_COUNT], enum order order);
char *columns_row(const bool shown[COLUMN_COUNT], const struct row *row);

/* A rate in at most 8 characters. */
const char *rate_text(char text[CELL_SIZE], double rate);

#endif /* COLUMNS_H */
