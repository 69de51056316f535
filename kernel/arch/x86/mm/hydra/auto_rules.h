/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Rules by which a domain forgets a table, a change is pushed to a copy, and a flush looks
 * at marks. Each rule weighs what a choice has cost lately against what the other choice
 * would cost.
 *
 * One text, three judges: the kernel, KUnit, and the simulator (tools/hydra_sim of the
 * project's repository, which asserts the bounds below) compile this file. So integers go
 * in and integers come out. Nothing here has a lock, a clock or memory, and no type of the
 * kernel is used but u8, u16, u32, u64, s16 and bool, which the includer has defined.
 *
 * The rules decide on time and memory only. No rule of
 * Documentation/mm/hydra/rules.rst may depend on an age, a rent, a credit or a mode: a
 * wrong decision costs a fill, a fault, an interrupt or a look.
 *
 * Forget: a pair of a table and a domain
 * --------------------------------------
 *
 * A domain that shares a table pays rent: its CPUs are interrupted by flushes, and its copy
 * is changed. A domain that is out pays nothing until it uses the table. Then it pays F: the
 * fill, and the flush that the drop took. (If a fault prefetches less than the whole table,
 * the fill is as many faults as it takes to get all of it.) The best that can be done
 * without knowing the future is to go once the rent since the last use is F: this costs at
 * most twice as much as the best choice in hindsight (Karlin, Manasse, Rudolph, Sleator:
 * Competitive Snoopy Caching, 1988).
 *
 * A use is seen by a look only: hardware has set the accessed bit of the link. A look comes
 * with each quarter of F, and the domain is dropped after three quarters without a use. The
 * quarter that has the use is the fourth. Let c be the largest rent of a single flush or
 * change, plus the rent that comes in while a look is late. Then
 *
 * - from one drop to the next, the rent of the table is F at least. So a pair costs at most
 *   2 times as much as if it were never dropped, however late looks are;
 * - since the last use, the rent is less than F + 2c at a drop: the use may have been the
 *   first thing in its quarter, c ends that quarter, and c ends the last one. So a pair costs
 *   at most 2 + 2c/F times as much as the best choice in hindsight.
 *
 * To both come F/2 once, as the first use may find a quarter that has begun, and rounding:
 * prices are rounded up to units of F/256. With one CPU for each domain c is 0.4 F, if looks
 * are in time, and the worst case of 2 + 2c/F is 2.8.
 *
 * A table has one rent for all its domains. A flush that domain 1 starts costs domain 1 no
 * interrupt, and yet adds to the rent by which domain 1 may be dropped. So the bounds of a
 * pair are for flushes and changes that other domains start. Each other flush interrupts some
 * other sharer, so over all domains of a table the costs are at most 3 + 2c/F times the best.
 *
 * Memory is rent, too: an idle look comes four times in HYDRA_IDLE_SECONDS, and is worth a
 * quarter. Each idle look costs a pair F at most.
 *
 * Push account: the copies of a table
 * -----------------------------------
 *
 * A change of an entry clears its copies, and then pushes the new value to them, or not. A
 * push that no CPU of the domain uses was needless. A use of a copy that was not pushed is
 * a fault, which costs as much as HYDRA_FAULT_PUSHES pushes. The accessed bit of the old
 * copy tells that the copy was used since the last change.
 *
 * - Needless pushes <= 16 x changes of used copies; in a part of the table's life, 255 more.
 * - So all costs <= (2 + 1/16) x those of never pushing: a fault for each use after a change.
 * - All costs <= 3 x those of always pushing, plus 255 pushes, if at most 15 copies change
 *   between two uses. (For more, the account keeps no credit. A fault then fills all entries
 *   of the table, by prefetching.)
 *
 * fork() write-protects copies in place, used or not. This is no push, and not in the account.
 *
 * Mode: a shared leaf table
 * -------------------------
 *
 * A flush goes by the table, or looks at the marks of the copies. A try looks for 64
 * flushes, and counts the last 32: flushes by table leave old marks behind, so the first
 * looks find too much. A table stays with marks as long as they gain in sum. Otherwise 1,024
 * flushes go by table until the next try, then 2,048, and so on. A flush never looks where
 * looks cost more than all interrupts by table.
 *
 * - Each time that the table goes back, it has lost at most 64 of its dearest looks: at most
 *   64 of 1,088 flushes are dearer, and the first 64 of each table. None costs twice as much
 *   as by table.
 * - Where each flush saves more than its look costs, no flush goes by table.
 */
#ifndef _ARCH_X86_MM_HYDRA_AUTO_RULES_H
#define _ARCH_X86_MM_HYDRA_AUTO_RULES_H

/* Prices before calibration, in ns */
#define HYDRA_PRICE_INTERRUPT	2000	/* of one CPU by a flush: the sender's share, too */
#define HYDRA_PRICE_FILL	3000	/* of a table by a fault */
#define HYDRA_PRICE_CHANGE	250	/* of an entry in the copy of one more domain */
#define HYDRA_PRICE_LOOK	75	/* of a flush at the mark of one copy */
#define HYDRA_PRICE_MORE	25	/* of each further entry that changes with it */
#define HYDRA_PRICE_FLUSH	55	/* of a flush, besides, with domain trees */
#define HYDRA_PRICE_WALK	75	/* of a walk, more, of a table on another node */
#define HYDRA_PRICE_ROOT	10000	/* of a domain's root and upper tables */
#define HYDRA_PRICE_RELEASE	100	/* of a table when the process returns to plain Linux */

/* Of any price: a second for a thousand of the dearest */
#define HYDRA_MAX_PRICE		1000000

/* Rent, in units of 1/256 of the price of forgetting */
#define HYDRA_RENT_WHOLE	256
#define HYDRA_RENT_QUARTER	(HYDRA_RENT_WHOLE / 4)
#define HYDRA_RENT_MAX		255

/* Ages, in quarters without a use; a link has three bits for them */
#define HYDRA_AGE_FORGET	3
#define HYDRA_AGE_MAX		7

#define HYDRA_LATE_MS		100	/* a look comes within so many ms once it is due */
#define HYDRA_IDLE_SECONDS	60	/* a replica without a use is gone after so many */
#define HYDRA_IDLE_LOOKS	4	/* in HYDRA_IDLE_SECONDS; the first finds the use */

/* Credit, in pushes */
#define HYDRA_FAULT_PUSHES	16	/* a fault costs as much */
#define HYDRA_CREDIT_MAX	255

/* Modes, in flushes of the table */
#define HYDRA_TRY_FLUSHES	64
#define HYDRA_TRY_UNCOUNTED	32	/* the first of them */
#define HYDRA_REST_FLUSHES	1024	/* by table, before the second try */
#define HYDRA_REST_MAX		65535
#define HYDRA_BACKOFF_MAX	7	/* doublings, and one */
#define HYDRA_TALLY_MAX		32767	/* in looks */

/* What things cost on this machine, in ns */
struct hydra_prices {
	u32 interrupt;
	u32 fill;	/* of a table, by as many faults as it takes */
	u32 change;
	u32 look;
	u32 more;
	u32 flush;
	u32 walk;
	u32 root;
	u32 release;
};

/* What things cost on any machine, until they are calibrated: a struct hydra_prices */
#define HYDRA_PRICES {				\
	.interrupt = HYDRA_PRICE_INTERRUPT,	\
	.fill = HYDRA_PRICE_FILL,		\
	.change = HYDRA_PRICE_CHANGE,		\
	.look = HYDRA_PRICE_LOOK,		\
	.more = HYDRA_PRICE_MORE,		\
	.flush = HYDRA_PRICE_FLUSH,		\
	.walk = HYDRA_PRICE_WALK,		\
	.root = HYDRA_PRICE_ROOT,		\
	.release = HYDRA_PRICE_RELEASE,		\
}

/**
 * hydra_forget_price - what a domain pays for having forgotten a table: F
 * @p: prices
 * @cpus: CPUs of the domain which run the program, as the flush of the drop interrupts them
 *
 * With one CPU, F is 2.5 interrupts, or 20 changes.
 *
 * Return: ns, of the drop and of the fill by the next use.
 */
static inline u64 hydra_forget_price(const struct hydra_prices *p, u32 cpus)
{
	return p->fill + (u64)p->interrupt * cpus;
}

/**
 * hydra_rent_step - how much a flush or a change adds to the rent of a table
 * @price: what it costs one domain, in ns: of a flush, an interrupt for each of the CPUs
 *	that are counted in @forget
 * @forget: hydra_forget_price()
 *
 * Rounded up, so that no price is nothing. Until the rent is F, at most one unit for each
 * flush or change is too much.
 *
 * Return: units of 1/256 F.
 */
static inline u8 hydra_rent_step(u64 price, u64 forget)
{
	u64 step;

	if (price >= forget)
		return HYDRA_RENT_MAX;
	step = (price * HYDRA_RENT_WHOLE + forget - 1) / forget;
	return step > HYDRA_RENT_MAX ? HYDRA_RENT_MAX : step;
}

/**
 * hydra_rent_add - add a step to the rent of a table
 * @rent: the rent
 * @step: hydra_rent_step()
 *
 * Beyond HYDRA_RENT_MAX nothing is added: a look that finds so much drops each domain
 * without a use anyway.
 *
 * Return: the new rent.
 */
static inline u8 hydra_rent_add(u8 rent, u8 step)
{
	return step > HYDRA_RENT_MAX - rent ? HYDRA_RENT_MAX : rent + step;
}

/**
 * hydra_rent_quarters - the quarters of F in the rent of a table
 * @rent: the rent
 *
 * Return: 0 if no look is due yet, 3 at most.
 */
static inline u8 hydra_rent_quarters(u8 rent)
{
	return rent / HYDRA_RENT_QUARTER;
}

/**
 * hydra_rent_left - the rent of a table after a look
 * @rent: the rent at the look, whose hydra_rent_quarters() have been counted
 *
 * The rest stays. Otherwise prices just below two quarters would count half, and the rent
 * since the last use might be 2F.
 *
 * Return: the new rent.
 */
static inline u8 hydra_rent_left(u8 rent)
{
	return rent % HYDRA_RENT_QUARTER;
}

/**
 * hydra_age - the age of a pair after a look
 * @age: the age before
 * @used: a CPU of the domain has used the table since the last look
 * @quarters: hydra_rent_quarters() of the table; 1 if the look is an idle one
 *
 * A late look finds several quarters. All of them are without a use, or none is counted.
 *
 * Return: the new age, at most HYDRA_AGE_MAX.
 */
static inline u8 hydra_age(u8 age, bool used, u8 quarters)
{
	if (used)
		return 0;
	return quarters > HYDRA_AGE_MAX - age ? HYDRA_AGE_MAX : age + quarters;
}

/**
 * hydra_forgets - is the domain to be dropped from the table?
 * @age: hydra_age(), of this look
 *
 * Return: true after three quarters without a use.
 */
static inline bool hydra_forgets(u8 age)
{
	return age >= HYDRA_AGE_FORGET;
}

/**
 * hydra_pushes - does a copy get the new value of its entry?
 * @credit: credit of the table
 * @used: the old value of the copy, which was present, had the accessed bit
 *
 * Return: false if the copy is to be cleared, and the next use is to fault.
 */
static inline bool hydra_pushes(u8 credit, bool used)
{
	return used || credit;
}

/**
 * hydra_credit - the credit of a table after a change of one copy
 * @credit: the credit before
 * @used: as for hydra_pushes()
 *
 * A push that was used, or a fault, has paid for so many needless pushes. Fills add nothing:
 * the use that faulted sets the accessed bit, and the next change finds it. So a fault
 * earns its credit once.
 *
 * Return: the new credit.
 */
static inline u8 hydra_credit(u8 credit, bool used)
{
	if (!used)
		return credit ? credit - 1 : 0;
	return credit > HYDRA_CREDIT_MAX - HYDRA_FAULT_PUSHES ? HYDRA_CREDIT_MAX :
								credit + HYDRA_FAULT_PUSHES;
}

/**
 * hydra_credit_spent - full credit, after a change of an entry that not all its copies had used
 * @copies: that have changed, each of them pushed
 *
 * No change of full credit is needed for an entry whose copies were all used.
 *
 * Return: the new credit; no more than if each push had been accounted alone.
 */
static inline u8 hydra_credit_spent(u32 copies)
{
	return copies > HYDRA_CREDIT_MAX ? 0 : HYDRA_CREDIT_MAX - copies;
}

enum hydra_mode_state {
	HYDRA_MODE_TRY,		/* flushes look at marks for a while */
	HYDRA_MODE_FINE,	/* flushes look at marks as long as that gains */
	HYDRA_MODE_TABLE,	/* flushes go by table */
};

/*
 * The account of a shared leaf table; all zero is the first try. Four bytes, so that CPUs
 * read and write it in one piece.
 */
struct hydra_mode {
	union {
		s16 tally;	/* what looks have saved less what they cost, in looks */
		u16 rest;	/* by table: flushes until the next try */
	};
	u16 state : 2;		/* enum hydra_mode_state */
	u16 backoff : 3;	/* tries that have failed in a row, HYDRA_BACKOFF_MAX at most */
	u16 tried : 7;		/* flushes of this try */
};

/**
 * hydra_mode_rest - how many flushes go by table until the next try?
 * @backoff: tries that have failed in a row, 1 to HYDRA_BACKOFF_MAX
 *
 * Return: 1,024, then twice as many each time, HYDRA_REST_MAX at most.
 */
static inline u32 hydra_mode_rest(u8 backoff)
{
	u32 rest = (u32)HYDRA_REST_FLUSHES << (backoff - 1);

	return rest > HYDRA_REST_MAX ? HYDRA_REST_MAX : rest;
}

/**
 * hydra_mode_worth - how many looks may one spared interrupt cost?
 * @p: prices
 *
 * Rounded down: marks have to gain.
 *
 * Return: looks.
 */
static inline u32 hydra_mode_worth(const struct hydra_prices *p)
{
	return p->look ? p->interrupt / p->look : p->interrupt;
}

/**
 * hydra_mode_looks - does the next flush look at the marks of a table?
 * @m: account of the table
 * @worth: hydra_mode_worth()
 * @cpus: CPUs that the flush interrupts by table, or more
 * @copies: whose marks it would look at
 *
 * Looks never cost more than all the interrupts that they might spare.
 *
 * Return: false if the flush goes by table.
 */
static inline bool hydra_mode_looks(const struct hydra_mode *m, u32 worth, u32 cpus, u32 copies)
{
	return m->state != HYDRA_MODE_TABLE && copies < (u64)worth * cpus;
}

/**
 * hydra_tally - the tally of a table after a flush that looked at its marks
 * @tally: the tally before
 * @gain: looks that the flush has saved
 * @copies: looks that it took
 *
 * Saturates. A loss is never more than what was gained, and the last flush.
 *
 * Return: the new tally.
 */
static inline s16 hydra_tally(s16 tally, u32 gain, u32 copies)
{
	/* 64 bits hold any sum of these. */
	long long sum = (long long)tally + gain - copies;

	if (sum > HYDRA_TALLY_MAX)
		return HYDRA_TALLY_MAX;
	return sum < -HYDRA_TALLY_MAX ? -HYDRA_TALLY_MAX : sum;
}

/**
 * hydra_mode_rested - account for a flush of a table that rests: it went by table
 * @m: account of the table, in state HYDRA_MODE_TABLE
 *
 * Return: true if the rest is over: the next flush is the first of a try.
 */
static inline bool hydra_mode_rested(struct hydra_mode *m)
{
	if (--m->rest)
		return false;
	m->state = HYDRA_MODE_TRY;
	m->tried = 0;
	m->tally = 0;
	return true;
}

/**
 * hydra_mode_flushed - account for a flush of a table
 * @m: account of the table
 * @worth: hydra_mode_worth()
 * @spared: CPUs that a flush by table would have interrupted; 0 if it went by table
 * @copies: whose marks the flush has looked at; 0 if it went by table
 *
 * In a try and after one, a flush that may not look, by hydra_mode_looks(), counts nothing.
 * A try that is kept ends the row of failures.
 */
static inline void hydra_mode_flushed(struct hydra_mode *m, u32 worth, u32 spared, u32 copies)
{
	if (m->state == HYDRA_MODE_TABLE) {
		hydra_mode_rested(m);
		return;
	}
	if (!copies)
		return;
	if (m->state == HYDRA_MODE_FINE || m->tried >= HYDRA_TRY_UNCOUNTED)
		m->tally = hydra_tally(m->tally, spared * worth, copies);
	if (m->state == HYDRA_MODE_TRY && ++m->tried < HYDRA_TRY_FLUSHES)
		return;
	if (m->tally > 0) {
		m->state = HYDRA_MODE_FINE;
		m->backoff = 0;
		return;
	}
	m->state = HYDRA_MODE_TABLE;
	if (m->backoff < HYDRA_BACKOFF_MAX)
		m->backoff++;
	m->rest = hydra_mode_rest(m->backoff);
}

#endif /* _ARCH_X86_MM_HYDRA_AUTO_RULES_H */
