/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hydra_mask_t: a set of domains, like nodemask_t.
 *
 * Code that reads a mask without its lock may see some bits of a change before
 * others. Where this matters, a comment at the reader explains why it is safe.
 */
#ifndef _LINUX_HYDRA_MASK_H
#define _LINUX_HYDRA_MASK_H

#include <linux/bitmap.h>
#include <linux/bitops.h>

#define HYDRA_MAX_DOMAINS	CONFIG_HYDRA_MM_MAX_DOMAINS

typedef struct {
	unsigned long bits[BITS_TO_LONGS(HYDRA_MAX_DOMAINS)];
} hydra_mask_t;

static inline void hydra_mask_zero(hydra_mask_t *mask)
{
	bitmap_zero(mask->bits, HYDRA_MAX_DOMAINS);
}

/* Every domain of every scope. Other CPUs may be reading the mask. */
static inline void hydra_mask_fill(hydra_mask_t *mask)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		WRITE_ONCE(mask->bits[i], ~0UL);
}

static inline bool hydra_mask_empty(const hydra_mask_t *mask)
{
	return bitmap_empty(mask->bits, HYDRA_MAX_DOMAINS);
}

static inline bool hydra_mask_test(unsigned int d, const hydra_mask_t *mask)
{
	return READ_ONCE(mask->bits[BIT_WORD(d)]) & BIT_MASK(d);
}

/* For a mask whose writers exclude each other; readers need no lock. */
static inline void hydra_mask_set(unsigned int d, hydra_mask_t *mask)
{
	unsigned long *word = &mask->bits[BIT_WORD(d)];

	WRITE_ONCE(*word, *word | BIT_MASK(d));
}

static inline void hydra_mask_clear(unsigned int d, hydra_mask_t *mask)
{
	unsigned long *word = &mask->bits[BIT_WORD(d)];

	WRITE_ONCE(*word, *word & ~BIT_MASK(d));
}

/* For a mask that several CPUs write at a time. No barrier is implied. */
static inline void hydra_mask_set_atomic(unsigned int d, hydra_mask_t *mask)
{
	set_bit(d, mask->bits);
}

static inline void hydra_mask_clear_atomic(unsigned int d, hydra_mask_t *mask)
{
	clear_bit(d, mask->bits);
}

/* Add the domains of @mask to @to. Other CPUs may be writing @mask. */
static inline void hydra_mask_add(hydra_mask_t *to, const hydra_mask_t *mask)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		to->bits[i] |= READ_ONCE(mask->bits[i]);
}

/* Copy a mask that other CPUs may be reading. */
static inline void hydra_mask_copy(hydra_mask_t *to, const hydra_mask_t *from)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		WRITE_ONCE(to->bits[i], from->bits[i]);
}

/* Remove the domains of @mask from @from. The writers of @from exclude each other. */
static inline void hydra_mask_remove(hydra_mask_t *from, const hydra_mask_t *mask)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		WRITE_ONCE(from->bits[i], from->bits[i] & ~mask->bits[i]);
}

/* Are the domains of @mask all in @of? Other CPUs may be writing both. */
static inline bool hydra_mask_subset(const hydra_mask_t *mask, const hydra_mask_t *of)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		if (READ_ONCE(mask->bits[i]) & ~READ_ONCE(of->bits[i]))
			return false;
	return true;
}

/* Keep the domains of @mask that are in @of, too. No other CPU reads @mask. */
static inline void hydra_mask_keep(hydra_mask_t *mask, const hydra_mask_t *of)
{
	bitmap_and(mask->bits, mask->bits, of->bits, HYDRA_MAX_DOMAINS);
}

/* Is a domain other than @d in the mask? */
static inline bool hydra_mask_other(unsigned int d, const hydra_mask_t *mask)
{
	unsigned int i;

	for (i = 0; i < BITS_TO_LONGS(HYDRA_MAX_DOMAINS); i++)
		if (READ_ONCE(mask->bits[i]) &
		    ~(i == BIT_WORD(d) ? BIT_MASK(d) : 0))
			return true;
	return false;
}

/* All domains of a mask that no other CPU writes */
#define for_each_hydra_domain(d, mask)					\
	for_each_set_bit(d, (mask)->bits, HYDRA_MAX_DOMAINS)

#endif /* _LINUX_HYDRA_MASK_H */
