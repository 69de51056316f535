/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules by which a process gets domain trees and gives them back: split by price, return by
 * balance, and the purse.
 *
 * As in auto_rules.h, integers go in and integers come out, and no rule of
 * Documentation/mm/hydra/rules.rst may depend on any of them. A wrong decision costs time, and
 * the purse limits how much. The includer defines s64 and static_assert(), too.
 *
 * A process is looked at once a second. Of a plain process, a look takes what Linux counts
 * anyway: flushes that interrupt CPUs of other domains, and walks of tables of other nodes, are
 * its rent. Domain trees might save so much, at most. Of a process with domain trees, a look
 * takes what they have saved and what they have cost. Spans of time count looks, so that a test
 * may look more often.
 *
 * Split by price
 * --------------
 *
 * S is what a split costs: a root for each domain that runs the process, a fill of each leaf
 * table in each of them, and an interrupt of each CPU. U is what a return costs. A process is
 * split when
 *
 * - its rent since the last return is S x 2^tries. Tries are splits that have lost, in a row. So
 *   plain Linux has cost 2^k S before try k;
 * - three looks have found two domains. A process that moves to another node is in two domains
 *   for a moment. It takes ten looks in a row that find one domain alone to begin the count anew,
 *   as a server that sleeps most of the time is often found in one domain;
 * - the rent of this look is 0.2 % of the CPU time. Less is not worth the memory.
 *
 * Return by balance
 * -----------------
 *
 * The balance of a split begins with the price of the roots, and grows by what is saved less
 * what is spent. At -(S + U) the process returns: the try has lost. So if plain Linux is best, a
 * try costs S + 2U, and what the last look lost. If domain trees are best, plain Linux has cost
 * S and one look, and the split costs S: at most twice the best until then, and as much as the
 * best from then on. At S + U the split has paid, and the row of lost tries ends.
 *
 * The balance has a cap: S + U, or what the last minute gained if that is more. So after a
 * change for the worse a process loses what a minute gained, and S + 2U, at most; and a program
 * whose phases take turns is not split and returned with each of them.
 *
 * A process that one domain alone has run for ten looks returns, too.
 *
 * The purse
 * ---------
 *
 * The purse earns 1 % of the CPU time used, and pays for looks, for returns, for a balance that
 * ends below zero, and for tables that move. Without S + U in the purse no try begins. Without U
 * and the loss so far, the process returns. So, whatever a process does, it pays for these rules
 * at most 1 % of its CPU time, and what a single look has lost. In a minute it pays at most what
 * a minute earns, or S + U, besides what the split has gained. (Of what is counted: caches are
 * not.)
 *
 * Five splits may follow each other, then one comes each quarter of an hour. So there are at
 * most 18 splits and returns in an hour.
 *
 * The simulator asserts all this; it also has shown that a purse with which a process starts,
 * and a least price of a split, change nothing: what three looks earn and find is more.
 */
#ifndef _ARCH_X86_MM_HYDRA_PROCESS_RULES_H
#define _ARCH_X86_MM_HYDRA_PROCESS_RULES_H

#include "auto_rules.h"

#define HYDRA_LOOK_MS		1000	/* from look to look */

/* A rent below this part of the CPU time is not worth a split: 0.2 % */
#define HYDRA_QUIET_PART	500

/* In looks */
#define HYDRA_WIDE_LOOKS	3	/* with two domains, until a split; a move is seen once */
#define HYDRA_ALONE_LOOKS	10	/* with one domain, until the process is there to stay */
#define HYDRA_TRY_LOOKS		10	/* from a return to the next try, x 2^tries */
#define HYDRA_SAMPLE_LOOKS	10	/* from sample to sample of a plain process, as pages age */
#define HYDRA_GAINS_SHIFT	6	/* each look forgets 1/64 of the gains: a minute */

/* At most 21 minutes until the next try: a server has other work by night. */
#define HYDRA_TRIES_MAX		7

/* A split takes 900 looks of pace, each look brings one: five splits at once, 8 in 3,600 looks */
#define HYDRA_PACE_LOOKS	900
#define HYDRA_PACE_MOST		(4 * HYDRA_PACE_LOOKS)

/* The purse earns this part of the CPU time, 1 %, and holds what so many looks bring. */
#define HYDRA_PURSE_PART	100
#define HYDRA_PURSE_LOOKS	60

/*
 * Tables of less than 1 GiB of small pages stay in caches. In a sample of 32 tables, and of the
 * pages of each, chance is less than the factor between prices of machines.
 */
#define HYDRA_SAMPLE_TABLES	512
#define HYDRA_SAMPLE_SIZE	32

/* Why a process has domain trees, or why not. Only HYDRA_WHY_SAVES is for them. */
enum hydra_why {
	HYDRA_WHY_NEW,		/* too few looks have found two domains */
	HYDRA_WHY_ONE_NODE,	/* one domain alone runs it */
	HYDRA_WHY_QUIET,	/* little to save, or not for long */
	HYDRA_WHY_WAITS,	/* the last split was a short while ago */
	HYDRA_WHY_SHARED,	/* the last split has cost more than it saved */
	HYDRA_WHY_PURSE,	/* its purse cannot pay for a try, or has none left */
	HYDRA_WHY_LEFT,		/* left alone, for a reason that the caller knows */
	HYDRA_WHY_SAVES,	/* it gains */
};

/**
 * struct hydra_process - the account of a process
 * @rent: ns that a plain process has cost since its last return
 * @price: S + U at the split, of one with domain trees
 * @balance: ns that the split has saved, less what it has cost; capped
 * @gains: ns that the split has saved in the last minute
 * @purse: ns
 * @pages: that the last sample of a plain process found used, of all its pages
 * @wait: looks until the next try
 * @pace: looks that the splits so far have used up, of HYDRA_PACE_MOST
 * @tries: splits that have lost, in a row
 * @wide: looks with two domains, HYDRA_WIDE_LOOKS at most
 * @alone: looks with one domain alone, in a row, HYDRA_ALONE_LOOKS at most
 * @sample: looks until the next sample
 * @split: it has domain trees
 *
 * All zero is a new process, which is plain Linux. The look alone writes it.
 */
struct hydra_process {
	union {
		u64 rent;
		u64 price;
	};
	s64 balance;
	u64 gains;
	s64 purse;
	u64 pages;
	u16 wait;
	u16 pace;
	u8 tries;
	u8 wide;
	u8 alone;
	u8 sample;
	bool split;
};

/* One cache line */
static_assert(sizeof(struct hydra_process) <= 64);
static_assert(HYDRA_TRY_LOOKS << HYDRA_TRIES_MAX <= 65535);
static_assert(HYDRA_PACE_MOST + HYDRA_PACE_LOOKS <= 65535);

/**
 * struct hydra_process_look - what a look at a process has found, since the last look
 * @ns: time
 * @spent: ns that the look takes, or the last one took, samples included
 * @running: CPUs that run it now
 * @squares: for each domain its CPUs of these, squared; their sum
 * @domains: that run it now; with domain trees, those that have one
 * @alone: a single domain runs it now; with domain trees, a single one has run it
 * @left: it is to be left alone
 * @tables: leaf tables of Linux, without copies
 * @flushes: of its TLBs
 * @sampled: @pages holds a new sample
 * @pages: of all tables, by the sample: pages used. With domain trees, pages used in copies: by
 *	each domain that is not the owner
 * @spared: CPUs that Linux would have interrupted, less those that only Hydra interrupts
 * @fills: by faults
 * @changes: copies in which entries have changed, by one call or many at once
 * @entries: these entries
 * @looks: of flushes at marks of copies
 *
 * From @spared on, of a process with domain trees only.
 */
struct hydra_process_look {
	u64 ns;
	u64 spent;
	u32 running;
	u64 squares;
	u32 domains;
	bool alone;
	bool left;
	u64 tables;
	u64 flushes;
	bool sampled;
	u64 pages;
	s64 spared;
	u64 fills;
	u64 changes;
	u64 entries;
	u64 looks;
};

/**
 * hydra_root_price - what a split costs before the first fault
 * @p: prices
 * @l: look
 *
 * Return: ns.
 */
static inline u64 hydra_root_price(const struct hydra_prices *p, const struct hydra_process_look *l)
{
	return (u64)l->domains * p->root + (u64)l->running * p->interrupt;
}

/**
 * hydra_split_price - what a split costs: S
 * @p: prices
 * @l: look
 *
 * As if each domain used each table.
 *
 * Return: ns.
 */
static inline u64 hydra_split_price(const struct hydra_prices *p,
				    const struct hydra_process_look *l)
{
	return hydra_root_price(p, l) + l->domains * l->tables * p->fill;
}

/**
 * hydra_return_price - what a return costs: U
 * @p: prices
 * @l: look
 *
 * As if each domain had a copy of each table.
 *
 * Return: ns.
 */
static inline u64 hydra_return_price(const struct hydra_prices *p,
				     const struct hydra_process_look *l)
{
	return l->domains * l->tables * p->release + (u64)l->running * p->interrupt;
}

/**
 * hydra_process_rent - what domain trees might have saved since the last look
 * @p: prices
 * @l: look at a plain process
 * @pages: that a sample found used, of all its pages
 *
 * A flush by a CPU of domain d interrupts the CPUs of other domains needlessly, if the page is
 * used in d alone: R - r_d of R. Each CPU flushes as often as any other, so the mean is
 * R - sum(r_d^2)/R. And of D domains that use a page, D - 1 walk a table of another node. Pages
 * are a lower bound of walks.
 *
 * Return: ns.
 */
static inline u64 hydra_process_rent(const struct hydra_prices *p,
				     const struct hydra_process_look *l, u64 pages)
{
	u64 rent = 0, running = l->running;

	if (running)
		rent = l->flushes * p->interrupt / running * (running * running - l->squares);
	if (l->domains > 1)
		rent += pages * p->walk / l->domains * (l->domains - 1);
	return rent;
}

/**
 * hydra_process_net - what domain trees have saved since the last look, less what they have cost
 * @p: prices
 * @l: look at a process with domain trees
 *
 * Return: ns.
 */
static inline s64 hydra_process_net(const struct hydra_prices *p,
				    const struct hydra_process_look *l)
{
	s64 cost = l->fills * p->fill + l->changes * p->change + l->looks * p->look +
		   l->flushes * p->flush;

	if (l->entries > l->changes)
		cost += (l->entries - l->changes) * p->more;
	return l->spared * p->interrupt + (s64)(l->pages * p->walk) - cost;
}

/**
 * hydra_process_samples - are accessed bits to be cleared now, and counted at the next look?
 * @a: account
 * @tables: leaf tables of the process
 *
 * Plain processes are sampled now and then: their pages age by it. With domain trees a copy is
 * sampled, and the canonical entry keeps the accessed bit; so each look is, since the balance
 * is to know what is saved.
 *
 * Return: true if so, of HYDRA_SAMPLE_SIZE tables.
 */
static inline bool hydra_process_samples(struct hydra_process *a, u64 tables)
{
	if (tables < HYDRA_SAMPLE_TABLES || (!a->split && a->wide < HYDRA_WIDE_LOOKS)) {
		a->pages = 0;
		a->sample = 0;
		return false;
	}
	if (a->split)
		return true;
	if (a->sample) {
		a->sample--;
		return false;
	}
	a->sample = HYDRA_SAMPLE_LOOKS - 1;
	return true;
}

/* The purse pays for the look, and earns: so it may hold all that a split takes, at the end. */
static inline void hydra_process_earn(struct hydra_process *a, const struct hydra_process_look *l,
				      u64 price)
{
	s64 earns = l->running * l->ns / HYDRA_PURSE_PART, most = HYDRA_PURSE_LOOKS * earns;

	if (most < (s64)price)
		most = price;
	a->purse -= l->spent;
	/* What it held when more CPUs ran the process, it holds. */
	if (a->purse < most)
		a->purse = a->purse + earns < most ? a->purse + earns : most;
}

/* Where is the process? A look that finds no CPU tells nothing. */
static inline void hydra_process_found(struct hydra_process *a, const struct hydra_process_look *l)
{
	if (l->alone) {
		if (a->alone < HYDRA_ALONE_LOOKS)
			a->alone++;
		if (a->alone == HYDRA_ALONE_LOOKS)
			a->wide = 0;
	} else if (l->domains > 1 && l->running) {
		a->alone = 0;
		if (a->wide < HYDRA_WIDE_LOOKS)
			a->wide++;
	}
}

/* A look at a plain process; @split, @back: S and U */
static inline enum hydra_why hydra_process_plain(struct hydra_process *a,
						 const struct hydra_prices *p,
						 const struct hydra_process_look *l,
						 u64 split, u64 back)
{
	u64 rent;

	if (l->sampled)
		a->pages = l->pages;
	rent = hydra_process_rent(p, l, a->pages);
	a->rent += rent;
	if (l->left)
		return HYDRA_WHY_LEFT;
	if (a->alone == HYDRA_ALONE_LOOKS)
		return HYDRA_WHY_ONE_NODE;
	if (a->wide < HYDRA_WIDE_LOOKS)
		return HYDRA_WHY_NEW;
	if (!rent || rent < l->running * l->ns / HYDRA_QUIET_PART)
		return HYDRA_WHY_QUIET;
	if (a->wait || a->rent < split << a->tries)
		return a->tries ? HYDRA_WHY_SHARED : HYDRA_WHY_QUIET;
	if (a->pace > HYDRA_PACE_MOST)
		return HYDRA_WHY_WAITS;
	if (a->purse < (s64)(split + back))
		return HYDRA_WHY_PURSE;
	return HYDRA_WHY_SAVES;
}

/* A look at a process with domain trees; @split, @back: S and U */
static inline enum hydra_why hydra_process_trees(struct hydra_process *a,
						 const struct hydra_prices *p,
						 const struct hydra_process_look *l,
						 u64 split, u64 back)
{
	s64 net = hydra_process_net(p, l), limit = split + back, cap, left;

	/* A look that finds few CPUs is no reason to return. */
	if (limit < (s64)a->price)
		limit = a->price;
	a->gains -= a->gains >> HYDRA_GAINS_SHIFT;
	if (net > 0)
		a->gains += net;
	cap = (s64)a->gains > limit ? (s64)a->gains : limit;
	a->balance += net;
	if (a->balance > cap)
		a->balance = cap;
	if (a->balance >= limit)
		a->tries = 0;
	if (l->left)
		return HYDRA_WHY_LEFT;
	if (a->alone == HYDRA_ALONE_LOOKS)
		return HYDRA_WHY_ONE_NODE;
	if (a->balance <= -limit)
		return HYDRA_WHY_SHARED;
	left = a->balance < 0 ? a->purse + a->balance : a->purse;
	if (left < (s64)back)
		return HYDRA_WHY_PURSE;
	return HYDRA_WHY_SAVES;
}

/**
 * hydra_process_looked - account for a look at a process, and decide
 * @a: account
 * @p: prices
 * @l: look
 *
 * If the process is plain, and the answer is HYDRA_WHY_SAVES, split it, and call
 * hydra_process_split(). If it has domain trees, and the answer is another, make it return, and
 * call hydra_process_returned(). If the caller cannot, because a lock is busy, the next look
 * decides again.
 *
 * Return: why it is to have domain trees, or not.
 */
static inline enum hydra_why hydra_process_looked(struct hydra_process *a,
						  const struct hydra_prices *p,
						  const struct hydra_process_look *l)
{
	u64 split = hydra_split_price(p, l), back = hydra_return_price(p, l);

	if (a->wait)
		a->wait--;
	if (a->pace)
		a->pace--;
	hydra_process_earn(a, l, split + back);
	hydra_process_found(a, l);
	return a->split ? hydra_process_trees(a, p, l, split, back) :
			  hydra_process_plain(a, p, l, split, back);
}

/**
 * hydra_process_split - a process has been split
 * @a: account
 * @p: prices
 * @l: the look that found it worth while
 *
 * The fills come as they are counted.
 */
static inline void hydra_process_split(struct hydra_process *a, const struct hydra_prices *p,
				       const struct hydra_process_look *l)
{
	a->split = true;
	a->price = hydra_split_price(p, l) + hydra_return_price(p, l);
	a->balance = -(s64)hydra_root_price(p, l);
	a->gains = 0;
	a->pace += HYDRA_PACE_LOOKS;
}

/**
 * hydra_process_returned - a process has become plain Linux again
 * @a: account
 * @price: hydra_return_price() of the look that ended the split, or what it took in ns
 */
static inline void hydra_process_returned(struct hydra_process *a, u64 price)
{
	a->split = false;
	a->purse -= price;
	if (a->balance < 0) {
		a->purse += a->balance;
		if (a->tries < HYDRA_TRIES_MAX)
			a->tries++;
	}
	a->rent = 0;
	a->pages = 0;
	a->wide = 0;
	a->wait = HYDRA_TRY_LOOKS << a->tries;
}

/**
 * hydra_process_pays - may so much be spent on a process, besides?
 * @a: account
 * @price: of tables that move to the node of the process, for example
 *
 * Return: true if the purse has paid.
 */
static inline bool hydra_process_pays(struct hydra_process *a, u64 price)
{
	if (a->purse < (s64)price)
		return false;
	a->purse -= price;
	return true;
}

#endif /* _ARCH_X86_MM_HYDRA_PROCESS_RULES_H */
