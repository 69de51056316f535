/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's own rules of policy auto, compiled into hydractl, too; and the prices that they are given. */
#ifndef RULES_H
#define RULES_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int64_t s64;

#include "process_rules.h"

#define PPM 1000000
#define QUIET_PPM (PPM / HYDRA_QUIET_PART)

/* Does the running kernel have policy auto? */
bool kernel_has_auto(void);

/* What things cost on this machine, by /sys/kernel/mm/hydra/auto/price_*; of a kernel without: the usual prices. */
struct hydra_prices kernel_prices(void);

/* The ms between two looks; of a kernel without policy auto: the usual ones. */
uint64_t kernel_look_ms(void);

#endif /* RULES_H */
