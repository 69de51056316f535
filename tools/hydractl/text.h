/* SPDX-License-Identifier: GPL-2.0-only */
/* Text of any bytes, as a name of a process is, made safe to show. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Print @text, with a newline, in lines of at most @columns, each behind @indent spaces; broken at spaces. */
void print_wrapped(const char *text, size_t indent, size_t columns);

/* How a word ends for @count of it: with "s" or "es", or as it is. */
const char *plural_s(uint64_t count);
const char *plural_es(uint64_t count);

/* The width for printf() that fills @columns with the UTF-8 text @text, one column a character. */
int width(int columns, const char *text);

#endif /* TEXT_H */
