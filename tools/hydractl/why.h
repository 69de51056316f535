/* SPDX-License-Identifier: GPL-2.0-only */
/* Why a process has page tables for each node, or not: the kernel's words, in sentences. */
#ifndef WHY_H
#define WHY_H

#include "process.h"

/* The word of the kernel, or "chosen": the settings leave it no choice. */
const char *why_word(const struct process *process);

/* The sentence with numbers, and what would change it; to be freed. Without a name, and without a full stop. */
char *why_sentence(const struct process *process);

#endif /* WHY_H */
