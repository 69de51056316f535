/* SPDX-License-Identifier: GPL-2.0-only */
/* Making text; and text of any bytes, as a name of a process is, made safe to show. With what nearly every file includes. */
#ifndef TEXT_H
#define TEXT_H

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Exit if @pointer, from an allocation, is NULL. */
void *must_have(void *pointer);

/* As asprintf(3), to be freed. Exit if there is no memory. */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list arguments);

/* Append to the text, which is NULL at first. */
void append(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void free_variable(void *variable)
{
	free(*(void **)variable);
}

/* A pointer that is freed when its variable goes out of scope. */
#define autofree __attribute__((cleanup(free_variable)))

/*
 * The number of bytes of the UTF-8 character at the start of @text, and its code point in
 * @point. 0 if the bytes are no UTF-8.
 */
size_t utf8_length(const char *text, uint32_t *point);

/* Would the character do something to a terminal, or to the order of a line, instead of being seen? */
bool is_control(uint32_t point);

/*
 * @text with UTF-8 kept and every other byte, and every byte of a control
 * character, as a backslash and three octal digits; to be freed.
 */
char *printable(const char *text);

/* "0.04 %" of @ppm parts per million; and "340 us", "1.9 ms", "2.5 s", "15 minutes": to be freed. */
char *percent_text(double ppm);
char *duration_text(double us);

/* The columns of the terminal that @fd is; 0: it is none. */
unsigned short terminal_columns(int fd);

/* Write a text, with a newline, in lines of at most @wide columns, each behind @indent spaces; broken at spaces. */
void write_wrapped(FILE *out, size_t indent, size_t wide, const char *text);
void print_wrapped(size_t indent, size_t wide, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* How "thread" and "process" end for @count of it. */
const char *plural_s(uint64_t count);
const char *plural_es(uint64_t count);

/* The width for printf() that fills @wide columns with the UTF-8 text @text, one column a character. */
int width(int wide, const char *text);

#endif /* TEXT_H */
