// SPDX-License-Identifier: GPL-2.0-only
#include "markers.h"

#include <stdint.h>
#include <stdlib.h>

/* The value is part of the instruction: 256 of them, each with its return, 8 bytes together. */
#define MARKERS_WITH_VALUES(name, mark)					\
	asm(".pushsection .text\n"					\
	    ".balign 8\n"						\
	    #name ":\n"							\
	    ".set value, 0\n"						\
	    ".rept 256\n"						\
	    ".byte 0x0f, 0x1f, 0x80\n"					\
	    ".long 0x48590000 | " #mark " << 8 | value\n"		\
	    "ret\n"							\
	    ".set value, value + 1\n"					\
	    ".endr\n"							\
	    ".popsection\n");						\
	extern const char name[256][8]

MARKERS_WITH_VALUES(policy_markers, 4);
MARKERS_WITH_VALUES(row_markers, 5);
_Static_assert(MARK_POLICY == 4 && MARK_ROW == 5, "the numbers above");

void marker_with_value(enum mark mark, unsigned int value)
{
	const char (*markers)[8] = mark == MARK_POLICY ? policy_markers : row_markers;

	if (value > 255)
		abort();
	((void (*)(void))(uintptr_t)markers[value])();
}
