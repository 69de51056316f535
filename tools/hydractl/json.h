/* SPDX-License-Identifier: GPL-2.0-only */
/* Writing JSON to stdout, one value after the other. */
#ifndef JSON_H
#define JSON_H

#include <stdint.h>

/*
 * @key is NULL in lists and for the outermost value. Commas and the newline
 * at the very end are put by these functions.
 */
void json_open_object(const char *key);
void json_close_object(void);
void json_open_list(const char *key);
void json_close_list(void);
/* Bytes of @value that are no UTF-8 become U+FFFD, one each. */
void json_string(const char *key, const char *value);
void json_number(const char *key, uint64_t value);
/* Null if @value is NaN. */
void json_real(const char *key, double value);
void json_null(const char *key);
void json_bool(const char *key, int value);

#endif /* JSON_H */
