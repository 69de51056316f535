/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a program tells the plugins of lab/meter/: instructions that do nothing,
 * long NOPs whose displacement says what is meant. Without a plugin nothing happens.
 */
#ifndef MARKERS_H
#define MARKERS_H

/* The same numbers are in lab/meter/plugin_interface.h. */
enum mark {
	MARK_START = 1,		/* count instructions from here on */
	MARK_START_MEMORY,	/* and look at accesses to memory */
	MARK_STOP,
	MARK_POLICY,		/* the samples to come are of this policy, by number */
	MARK_ROW,		/* and of this row */
	MARK_BEGIN,		/* a sample */
	MARK_END,
};

#define MARKER(mark) asm volatile(".byte 0x0f, 0x1f, 0x80; .long %c0" : : "i"(0x48590000 | (mark) << 8) : "memory")

/* A mark with a value from 0 to 255: MARK_POLICY or MARK_ROW. */
void marker_with_value(enum mark mark, unsigned int value);

#endif /* MARKERS_H */
