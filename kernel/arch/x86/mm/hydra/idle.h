/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When the contexts of CPUs were flushed: see idle.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_IDLE_H
#define _ARCH_X86_MM_HYDRA_IDLE_H

#include <linux/hydra.h>
#include <linux/jiffies.h>

/* Context: any. Return: a number that grows by one each second. */
static inline u32 hydra_second(void)
{
	return jiffies / HZ;
}

/* Is second @a later than @b? */
static inline bool hydra_later(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

pteval_t hydra_stamp(u32 second);
bool hydra_is_void(struct hydra_mm *h, unsigned int d, pteval_t val);
void hydra_domains_flushed(struct hydra_mm *h, const hydra_mask_t *domains, u32 second);

#endif /* _ARCH_X86_MM_HYDRA_IDLE_H */
