// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rows whose numbers are known beforehand, so that the meter can show that it
 * counts right; lab/meter/steps_samples.py has the same numbers. The row
 * "known" executes beyond the row "nothing":
 *
 *   2 + 2 * 1000 instructions of the loop,
 *   7 + 1 + 1 locked ones, the second an exchange, which is locked by itself,
 *   2 * (3 + 1) for two copies of 1000 bytes, each copy being one instruction:
 *
 * 2019 instructions, 9 of them locked, none of them the kernel's.
 */
#include "steps.h"

void nothing(struct place *place);
void known(struct place *place);

asm(".pushsection .text\n"
    "nothing:\n"
    "	ret\n"
    "known:\n"
    "	xor %eax, %eax\n"
    "	mov $1000, %ecx\n"
    "1:	dec %ecx\n"
    "	jnz 1b\n"
    "	.rept 7\n"
    "	lock incl calibration_word(%rip)\n"
    "	.endr\n"
    "	xchg %eax, calibration_word(%rip)\n"
    "	lock cmpxchg %ecx, calibration_word(%rip)\n"
    "	.rept 2\n"
    "	lea calibration_bytes(%rip), %rsi\n"
    "	lea calibration_bytes + 1000(%rip), %rdi\n"
    "	mov $1000, %ecx\n"
    "	rep movsb\n"
    "	.endr\n"
    "	ret\n"
    ".local calibration_word, calibration_bytes\n"
    ".comm calibration_word, 4, 4\n"
    ".comm calibration_bytes, 2000, 64\n"
    ".popsection\n");

const struct row calibration_rows[] = {
	{ .name = "nothing", .once = nothing },
	{ .name = "known", .once = known },
	{ 0 }
};
