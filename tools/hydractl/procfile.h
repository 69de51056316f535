/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading the files of Hydra in /proc and /sys: strict, but open to new keys. */
#ifndef PROCFILE_H
#define PROCFILE_H

#include "text.h"

#define RECORD_PAIRS 16

/* One line of a file: "key value key value ..." */
struct record {
	size_t count;
	struct {
		const char *key;
		const char *value;
	} pair[RECORD_PAIRS];
};

/* A whole file, as lines of pairs; the strings live in text. */
struct records {
	char *text;
	size_t count;
	struct record *record;
};

/* @text is one decimal number that fits, and no more. */
bool parse_u64(const char *text, uint64_t *value);

/* The same; it may be negative. */
bool parse_s64(const char *text, int64_t *value);

/* Read the whole file at @path into a string to be freed. NULL and errno on failure. */
char *file_read(const char *path);

/* Write @text to the file at @path at once. False and errno. */
bool file_write(const char *path, const char *text);

/*
 * Write @text to a new file beside @path, readable by all, and rename the file to @path.
 * On failure: false and errno, and @path is as before. A signal waits until the temporary
 * file is gone.
 */
bool file_replace(const char *path, const char *text, size_t size);

/*
 * Split @line, which is changed, into pairs. If @first_key is given, the line begins with
 * the value of @first_key, without the key. False and errno if the line has too many
 * pairs.
 */
bool record_parse(struct record *record, char *line, const char *first_key);

/*
 * Split @text, which is changed and taken over, into one record for each non-empty line.
 * False and errno as above.
 */
bool records_parse(struct records *records, char *text, const char *first_key);
void records_free(struct records *records);

/* The value of @key in @record, or NULL. */
const char *record_get(const struct record *record, const char *key);

/* The same as a number; false if there is none. */
bool record_get_u64(const struct record *record, const char *key, uint64_t *value);

/* The value of the line "@key value", NULL if there is none. */
const char *records_get(const struct records *records, const char *key);

#endif /* PROCFILE_H */
