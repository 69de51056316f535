/* SPDX-License-Identifier: GPL-2.0-only */
/* Writing JSON, one value after the other; json-c has it until the outermost value is closed. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Write to @stream from now on, instead of stdout. */
void json_to(FILE *stream);

/* @key is NULL in lists and for the outermost value, which ends with a newline. */
void json_open_object(const char *key);
void json_open_list(const char *key);
void json_close(void);

/*
 * CSV instead: a line for each element of the lists that json_open_rows() has opened, with the
 * values of the objects around it, and a head above the first line. Values that are lists or
 * objects are left out. Without such a list the outermost object is the line.
 */
void json_as_csv(void);
void json_open_rows(const char *key);

/* Each byte of @value that is no UTF-8 becomes U+FFFD. Null if @value is NULL. */
void json_string(const char *key, const char *value);
void json_number(const char *key, uint64_t value);
void json_integer(const char *key, int64_t value);
/* Null if @value is NaN. */
void json_real(const char *key, double value);
void json_flag(const char *key, bool value);

#endif /* JSON_H */
