// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program on a machine of several sockets, under one policy: which sockets share which
 * leaf table, and what uses, changes and flushes cost. No time passes but that of the trace.
 */
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define WORDS		(PAGES / 64)
#define IDLE_US		(HYDRA_IDLE_SECONDS * 1000000u / HYDRA_IDLE_LOOKS)

enum filter { FILTER_NONE, FILTER_TABLE, FILTER_ACCESSED, FILTER_AUTO };

static const struct policy {
	bool split, eager, forgets;
	enum filter filter;
} settings[] = {
	{ .filter = FILTER_NONE },
	{ .split = true, .eager = true, .filter = FILTER_NONE },
	{ .split = true, .filter = FILTER_TABLE },
	{ .split = true, .filter = FILTER_ACCESSED },
	{ .split = true, .filter = FILTER_TABLE, .forgets = true },
	{ .split = true, .filter = FILTER_AUTO, .forgets = true },
};

const char *const policies[] = {
	"linux", "mitosis", "hydra", "accessed", "forget", "forget-auto", NULL
};

struct hydra_prices prices = {
	.interrupt = HYDRA_PRICE_INTERRUPT,
	.fill = HYDRA_PRICE_FILL,
	.change = HYDRA_PRICE_CHANGE,
	.look = HYDRA_PRICE_LOOK,
	.more = HYDRA_PRICE_MORE,
	.flush = HYDRA_PRICE_FLUSH,
	.walk = HYDRA_PRICE_WALK,
	.root = HYDRA_PRICE_ROOT,
	.release = HYDRA_PRICE_RELEASE,
};

/* What one domain has of a leaf table: a bit for each page */
struct copy {
	u64 present[WORDS], accessed[WORDS], marked[WORDS];
};

struct table {
	bool there;
	u8 home, rent, credit, age[MAX_SOCKETS];
	u16 sharers, used;		/* masks of domains; used since the last look */
	u32 due;			/* when the table is looked at, or 0 */
	struct hydra_mode mode;
	struct copy *copy;		/* of each socket */
};

struct machine {
	struct policy policy;
	u32 sockets, cpus, end;
	u32 nr_running, running[MAX_SOCKETS];
	bool runs[MAX_CPUS];
	u32 worth, next_idle, now;
	u32 queued, looked, due[MAX_TABLES];	/* tables to look at: a ring, in the order of time */
	struct table table[MAX_TABLES];
	struct costs costs;
};

static void pay(struct machine *m, u64 *count, u64 nr, u64 price)
{
	*count += nr;
	m->costs.ns += nr * price;
}

/* --- Bits of a copy */

static u64 word_mask(u32 word, u32 first, u32 end)
{
	u32 low = first > word * 64 ? first - word * 64 : 0, high;
	u64 mask;

	if (first >= word * 64 + 64 || end <= word * 64)
		return 0;
	high = end - word * 64;
	mask = high >= 64 ? ~0ULL : (1ULL << high) - 1;
	return mask & (~0ULL << low);
}

static void set_bits(u64 *bits, u32 first, u32 end)
{
	u32 word;

	for (word = first / 64; word <= (end - 1) / 64; word++)
		bits[word] |= word_mask(word, first, end);
}

static void clear_bits(u64 *bits, u32 first, u32 end)
{
	u32 word;

	for (word = first / 64; word <= (end - 1) / 64; word++)
		bits[word] &= ~word_mask(word, first, end);
}

static u32 count_bits(const u64 *bits, u32 first, u32 end)
{
	u32 word, nr = 0;

	for (word = first / 64; word <= (end - 1) / 64; word++)
		nr += __builtin_popcountll(bits[word] & word_mask(word, first, end));
	return nr;
}

/* --- Tables */

static void count_tables(struct machine *m, int more)
{
	m->costs.tables += more;
	if (m->costs.tables > m->costs.tables_most)
		m->costs.tables_most = m->costs.tables;
}

/* The domain joins the sharers. A replica has all entries at once: prefetch degree 9. */
static void join(struct machine *m, struct table *t, u32 d)
{
	t->sharers |= 1u << d;
	t->age[d] = 0;
	if (d != t->home)
		count_tables(m, 1);
	memset(&t->copy[d], 0, sizeof(t->copy[d]));
	memset(t->copy[d].present, 0xff, sizeof(t->copy[d].present));
}

static void make_table(struct machine *m, struct table *t, u32 home)
{
	u32 d;

	if (!t->copy)
		t->copy = calloc(m->sockets, sizeof(*t->copy));
	if (!t->copy)
		error(2, errno, "no memory for a table");
	t->there = true;
	t->home = home;
	count_tables(m, 1);
	for (d = 0; d < m->sockets; d++) {
		if (d != home && !m->policy.eager)
			continue;
		join(m, t, d);
		if (d != home)
			pay(m, &m->costs.fills, 1, prices.fill);
	}
}

static void drop(struct machine *m, struct table *t, u32 d)
{
	t->sharers &= ~(1u << d);
	if (d != t->home)
		count_tables(m, -1);
	m->costs.drops++;
	pay(m, &m->costs.interrupts, m->running[d], prices.interrupt);
}

static void free_table(struct machine *m, struct table *t)
{
	struct copy *copy = t->copy;
	u32 due = t->due;

	count_tables(m, -1 - __builtin_popcount(t->sharers & ~(1u << t->home)));
	*t = (struct table){ .copy = copy, .due = due };
}

/* --- Rules: rent, and looks at the tables */

/* CPUs of a domain that run the program, in the mean */
static u32 mean_cpus(const struct machine *m)
{
	u32 d, domains = 0;

	for (d = 0; d < m->sockets; d++)
		domains += m->running[d] > 0;
	return domains ? (m->nr_running + domains - 1) / domains : 1;
}

static void charge(struct machine *m, struct table *t, u64 price)
{
	u64 forget = hydra_forget_price(&prices, mean_cpus(m));

	t->rent = hydra_rent_add(t->rent, hydra_rent_step(price, forget));
	if (!hydra_rent_quarters(t->rent) || t->due)
		return;
	t->due = m->now + HYDRA_LATE_MS * 1000;
	m->due[m->queued++ % MAX_TABLES] = t - m->table;
}

/* Replicas are dropped. The owner's link stays: rehoming would move the table. */
static void look(struct machine *m, struct table *t, u32 quarters)
{
	u32 d;

	for (d = 0; d < m->sockets; d++) {
		if (!(t->sharers & 1u << d) || d == t->home)
			continue;
		t->age[d] = hydra_age(t->age[d], t->used & 1u << d, quarters);
		t->used &= ~(1u << d);
		if (hydra_forgets(t->age[d]))
			drop(m, t, d);
	}
}

static void pass_time(struct machine *m, u32 now)
{
	u32 i;

	m->now = now;
	if (!m->policy.forgets)
		return;
	for (; m->looked != m->queued; m->looked++) {
		struct table *t = &m->table[m->due[m->looked % MAX_TABLES]];

		if (t->due > now)
			break;
		t->due = 0;
		if (!t->there)
			continue;
		look(m, t, hydra_rent_quarters(t->rent));
		t->rent = hydra_rent_left(t->rent);
	}
	for (; m->next_idle <= now; m->next_idle += IDLE_US)
		for (i = 0; i < MAX_TABLES; i++)
			if (m->table[i].there)
				look(m, &m->table[i], 1);
}

/* --- What the program does, for the pages from first to end of a table */

static void use(struct machine *m, struct table *t, u32 d, u32 first, u32 end)
{
	struct copy *copy;

	if (!t->there)
		make_table(m, t, d);
	m->costs.walks += end - first;
	if (!m->policy.split) {
		pay(m, &m->costs.remote_walks, t->home != d ? end - first : 0, prices.walk);
		return;
	}
	copy = &t->copy[d];
	if (!(t->sharers & 1u << d)) {
		pay(m, &m->costs.fills, 1, prices.fill);
		join(m, t, d);
	} else if (count_bits(copy->present, first, end) < end - first) {
		pay(m, &m->costs.fills, 1, prices.fill);
		set_bits(copy->present, 0, PAGES);
	}
	set_bits(copy->accessed, first, end);
	set_bits(copy->marked, first, end);
	t->used |= 1u << d;
}

/* By the push account, each copy gets the new values or is cleared. */
static void push(struct table *t, struct copy *copy, u32 first, u32 end)
{
	u32 page;

	for (page = first; page < end; page++) {
		u64 bit = 1ULL << page % 64;
		bool used = copy->accessed[page / 64] & bit;

		if (!(copy->present[page / 64] & bit))
			continue;
		if (!hydra_pushes(t->credit, used))
			copy->present[page / 64] &= ~bit;
		t->credit = hydra_credit(t->credit, used);
	}
}

static void change(struct machine *m, struct table *t, u32 by, u32 first, u32 end)
{
	u32 d, nr, most = 0;

	if (!m->policy.split)
		return;
	for (d = 0; d < m->sockets; d++) {
		struct copy *copy = &t->copy[d];

		/* The owner has the canonical entries, which change anyway. */
		if (!(t->sharers & 1u << d) || d == t->home)
			continue;
		nr = count_bits(copy->present, first, end);
		if (!nr)
			continue;
		pay(m, &m->costs.changes, 1, prices.change);
		m->costs.ns += (nr - 1) * (u64)prices.more;
		if (d != by && nr > most)
			most = nr;
		if (m->policy.forgets)
			push(t, copy, first, end);
		clear_bits(copy->accessed, first, end);
	}
	if (m->policy.forgets && most)
		charge(m, t, prices.change + (u64)(most - 1) * prices.more);
}

static u32 sharing_cpus(const struct machine *m, const struct table *t)
{
	u32 d, nr = 0;

	for (d = 0; d < m->sockets; d++)
		if (t->sharers & 1u << d)
			nr += m->running[d];
	return nr;
}

/* The domains whose CPUs a flush of pages of one table reaches */
static u32 flush_targets(struct machine *m, struct table *t, u32 by, u32 first, u32 end)
{
	u32 d, copies = __builtin_popcount(t->sharers) * (end - first), spared = 0, targets = 0;
	bool fine = m->policy.filter == FILTER_ACCESSED;

	/* A table with one sharer has no marks to look at. */
	if (!(t->sharers & (t->sharers - 1)))
		return t->sharers;
	if (m->policy.filter == FILTER_AUTO)
		fine = hydra_mode_looks(&t->mode, m->worth, sharing_cpus(m, t), copies);
	if (copies > MOST_LOOKS)
		fine = false;
	for (d = 0; d < m->sockets; d++) {
		if (!(t->sharers & 1u << d))
			continue;
		if (!fine || count_bits(t->copy[d].marked, first, end))
			targets |= 1u << d;
		else
			spared += m->running[d];
		if (fine)
			clear_bits(t->copy[d].marked, first, end);
	}
	if (fine)
		pay(m, &m->costs.looks, copies, prices.look);
	if (m->policy.filter == FILTER_AUTO)
		hydra_mode_flushed(&t->mode, m->worth, spared, fine ? copies : 0);
	for (d = 0; m->policy.forgets && d < m->sockets; d++) {
		if (d != by && targets & 1u << d && m->running[d]) {
			charge(m, t, (u64)prices.interrupt * mean_cpus(m));
			break;
		}
	}
	return targets;
}

static void interrupt(struct machine *m, const struct record *r, u32 targets)
{
	u32 d, nr = 0;

	for (d = 0; d < m->sockets; d++)
		if (targets & 1u << d)
			nr += m->running[d];
	if (targets & 1u << r->cpu / m->cpus && m->runs[r->cpu])
		nr--;
	pay(m, &m->costs.interrupts, nr, prices.interrupt);
	pay(m, &m->costs.flushes, 1, m->policy.split ? prices.flush : 0);
	if (r->time < m->end / 4) {
		m->costs.first_interrupts += nr;
		m->costs.first_flushes++;
	} else if (r->time >= m->end - m->end / 4) {
		m->costs.last_interrupts += nr;
		m->costs.last_flushes++;
	}
}

/* The pages from first to end of one table. Return: the domains to flush */
static u32 step_table(struct machine *m, const struct record *r, struct table *t, u32 first, u32 end)
{
	u32 by = r->cpu / m->cpus, targets = 0;

	if (r->op == OP_USE)
		use(m, t, by, first, end);
	else if (t->there)
		change(m, t, by, first, end);
	if (t->there && (r->op == OP_FLUSH || r->op == OP_FREE))
		targets = m->policy.filter == FILTER_NONE ? ~0u : flush_targets(m, t, by, first, end);
	if (t->there && r->op == OP_FREE)
		free_table(m, t);
	return targets;
}

static void step_tables(struct machine *m, const struct record *r)
{
	u32 page = r->page, left = r->n, targets = 0;

	while (left) {
		u32 first = page % PAGES, nr = left < PAGES - first ? left : PAGES - first;

		targets |= step_table(m, r, &m->table[page / PAGES], first, first + nr);
		page += nr;
		left -= nr;
	}
	if (r->op == OP_FLUSH || r->op == OP_FREE)
		interrupt(m, r, targets);
}

void machine_step(struct machine *m, const struct record *r)
{
	u32 d = r->cpu / m->cpus;

	pass_time(m, r->time);
	switch (r->op) {
	case OP_RUN:
	case OP_STOP:
		if (m->runs[r->cpu] == (r->op == OP_RUN))
			break;
		m->runs[r->cpu] = r->op == OP_RUN;
		m->running[d] += r->op == OP_RUN ? 1 : -1;
		m->nr_running += r->op == OP_RUN ? 1 : -1;
		break;
	case OP_END:
		break;
	default:
		step_tables(m, r);
	}
}

struct machine *machine_new(const char *policy, u32 sockets, u32 cpus, u32 end)
{
	struct machine *m = calloc(1, sizeof(*m));
	u32 i;

	if (!m)
		error(2, errno, "no memory for a machine");
	for (i = 0; strcmp(policies[i], policy); i++)
		;
	m->policy = settings[i];
	m->sockets = sockets;
	m->cpus = cpus;
	m->end = end;
	m->worth = hydra_mode_worth(&prices);
	m->next_idle = IDLE_US;
	return m;
}

const struct costs *machine_costs(const struct machine *m)
{
	return &m->costs;
}

void machine_free(struct machine *m)
{
	u32 i;

	for (i = 0; i < MAX_TABLES; i++)
		free(m->table[i].copy);
	free(m);
}
