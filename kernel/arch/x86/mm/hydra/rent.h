/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What it costs domains to share a leaf table: see rent.c.
 */
#ifndef _ARCH_X86_MM_HYDRA_RENT_H
#define _ARCH_X86_MM_HYDRA_RENT_H

#include <linux/hydra.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/workqueue.h>

#include "auto_rules.h"
#include "entry.h"

/* Eighths of a PMD table, for each of which the rent of its struct hydra_table has a bit */
#define HYDRA_PART_ENTRIES	(PTRS_PER_PMD / BITS_PER_BYTE)

#define HYDRA_IDLE_SECONDS_MAX	(24 * 60 * 60)

/* The members of struct hydra_prices, as files of /sys and the boot parameter name them */
#define HYDRA_EACH_PRICE(x) \
	x(interrupt) x(fill) x(change) x(look) x(more) x(flush) x(walk) x(root) x(release)

extern struct hydra_prices hydra_prices;
extern bool hydra_knows_interrupt;
extern unsigned int hydra_idle_seconds;
extern struct delayed_work hydra_keeper_work;
extern struct delayed_work hydra_auto_work;
extern bool hydra_auto_looks;
extern unsigned int hydra_look_ms;

void hydra_set_idle_seconds(unsigned int seconds);
int hydra_price_parse(const char *text, u32 *price);
void hydra_keeper_wake(unsigned long delay);
void hydra_auto_wake(unsigned long delay);
void __hydra_auto_ask(void);
unsigned long hydra_look_period(void);
void hydra_rehome_ask(void);
bool hydra_rehome_asked(bool take);
void hydra_note_prices(struct hydra_mm *h);
void hydra_keep(struct hydra_mm *h);
void hydra_keep_again(struct hydra_mm *h, bool first);
void hydra_keep_settings(struct hydra_mm *h);
void hydra_unkeep(struct hydra_mm *h);
struct hydra_mm *hydra_next_kept(void);
unsigned int hydra_nr_kept(void);
void __hydra_rent_due(struct hydra_table *t);

/**
 * hydra_auto_ask - there is a process with policy "auto"
 *
 * Looks end when there has been none for a while, and begin again. They come no sooner for it:
 * a user could hasten the decisions on all processes.
 *
 * Context: process context.
 */
static inline void hydra_auto_ask(void)
{
	if (!READ_ONCE(hydra_auto_looks))
		__hydra_auto_ask();
}

/* With so few page tables of all levels, walks are a matter of caches. */
static inline bool hydra_is_worth_rehoming(struct mm_struct *mm)
{
	return mm_pgtables_bytes(mm) >= 16 * PAGE_SIZE;
}

/* The bit in the rent of a PMD table, for the entry that points to a leaf table */
static inline u8 hydra_part_of(const struct hydra_table *t)
{
	return BIT(pmd_index(t->base) / HYDRA_PART_ENTRIES);
}

/**
 * hydra_pay - add to the rent of a leaf table
 * @t: of the table
 * @step: hydra_rent_step(); 0: nothing
 *
 * Two CPUs that add at once may lose one of both steps.
 *
 * Context: interrupts off, or the table's lock.
 */
static inline void hydra_pay(struct hydra_table *t, u8 step)
{
	u8 rent = READ_ONCE(t->rent);

	if (!step)
		return;
	if (rent < HYDRA_RENT_MAX) {
		rent = hydra_rent_add(rent, step);
		WRITE_ONCE(t->rent, rent);
	}
	if (hydra_rent_quarters(rent) && !(READ_ONCE(t->parent->rent) & hydra_part_of(t)))
		__hydra_rent_due(t);
}

/**
 * hydra_pay_changes - a change of canonical entries has reached the copies of them
 * @t: of the canonical table
 * @nr: how many entries have changed in the copy with the most changes
 *
 * An entry that is cleared, and gets another value, counts twice.
 *
 * Context: the table's lock.
 */
static inline void hydra_pay_changes(struct hydra_table *t, unsigned int nr)
{
	u8 step = READ_ONCE(t->hmm->rent_change);

	if (nr && step && t->level == PG_LEVEL_4K)
		hydra_pay(t, min(step * nr, HYDRA_RENT_MAX));
}

static inline u8 hydra_link_age(pteval_t link)
{
	return (link & HYDRA_LINK_AGE) >> HYDRA_LINK_AGE_SHIFT;
}

/* A link of an age, which no CPU has walked since */
static inline pteval_t hydra_link_aged(pteval_t link, u8 age)
{
	return (link & ~(pteval_t)(_PAGE_ACCESSED | HYDRA_LINK_AGE)) |
	       (pteval_t)age << HYDRA_LINK_AGE_SHIFT;
}

#endif /* _ARCH_X86_MM_HYDRA_RENT_H */
