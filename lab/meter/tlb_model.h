/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A model of the TLBs of one CPU and of its cache of PMD entries (PDEs), for pages of
 * 4 KiB: how many page walks do the accesses of a program cause, and which of them
 * read the leaf table alone? Each cache is divided into sets, and a set forgets what
 * was used least recently. The second TLB is asked only after a miss in the first
 * one, the PDEs only after a miss in both. Real processors differ in sets, in what
 * they forget, and fetch ahead: a model, no measurement.
 */
#ifndef TLB_MODEL_H
#define TLB_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The most recently used key of a set first; a key is a number of a page or table, plus one. */
struct lru {
	unsigned int sets, ways;
	uint64_t *keys;
};

struct tlb_sizes {
	struct {
		unsigned int sets, ways;
	} first, second, pdes;
};

/* Of a CPU with 64 and 1,536 entries and 32 cached PDEs. */
#define TLB_SIZES { { 16, 4 }, { 128, 12 }, { 1, 32 } }

struct tlb {
	struct lru first, second, pdes;
};

/* What an access found. A walk reads the leaf table; one without the PDE reads the table above it, too. */
enum tlb_found { TLB_FIRST, TLB_SECOND, TLB_WALK, TLB_LONG_WALK, TLB_FOUND };

static inline void lru_make(struct lru *lru, unsigned int sets, unsigned int ways)
{
	*lru = (struct lru){ sets, ways, calloc((size_t)sets * ways, sizeof(*lru->keys)) };
	if (!lru->keys)
		abort();
}

static inline void lru_clear(struct lru *lru)
{
	memset(lru->keys, 0, (size_t)lru->sets * lru->ways * sizeof(*lru->keys));
}

/* Use a number: it is the most recent one of its set from now on. Was it there? */
static inline bool lru_use(struct lru *lru, uint64_t number)
{
	uint64_t *set = lru->keys + number % lru->sets * lru->ways, key = number + 1;
	unsigned int at = 0;
	bool found;

	while (at < lru->ways - 1 && set[at] != key)
		at++;
	found = set[at] == key;
	memmove(set + 1, set, at * sizeof(*set));
	set[0] = key;
	return found;
}

static inline void tlb_make(struct tlb *tlb, const struct tlb_sizes *sizes)
{
	lru_make(&tlb->first, sizes->first.sets, sizes->first.ways);
	lru_make(&tlb->second, sizes->second.sets, sizes->second.ways);
	lru_make(&tlb->pdes, sizes->pdes.sets, sizes->pdes.ways);
}

static inline void tlb_flush(struct tlb *tlb)
{
	lru_clear(&tlb->first);
	lru_clear(&tlb->second);
	lru_clear(&tlb->pdes);
}

static inline enum tlb_found tlb_access(struct tlb *tlb, uint64_t address)
{
	if (lru_use(&tlb->first, address >> 12))
		return TLB_FIRST;
	if (lru_use(&tlb->second, address >> 12))
		return TLB_SECOND;
	return lru_use(&tlb->pdes, address >> 21) ? TLB_WALK : TLB_LONG_WALK;
}

#endif /* TLB_MODEL_H */
