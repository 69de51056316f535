// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program on a machine of several sockets, under one policy: which domains share which
 * leaf table, and what uses, changes and flushes cost. No time passes but that of the trace.
 * A domain is a socket, or a core (under ABIS).
 */
#include <errno.h>
#include <error.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define WORDS		(PAGES / 64)
#define IDLE_US		(HYDRA_IDLE_SECONDS * 1000000u / HYDRA_IDLE_LOOKS)
#define LOOK_US		(HYDRA_LOOK_MS * 1000u)
#define REHOMED		512		/* tables at most, in a look */

enum filter { FILTER_NONE, FILTER_TABLE, FILTER_ACCESSED, FILTER_AUTO };

static const struct policy {
	bool split, eager, forgets, cores, decides;
	enum filter filter;
} settings[] = {
	{ .filter = FILTER_NONE },
	{ .split = true, .eager = true, .filter = FILTER_NONE },
	{ .split = true, .cores = true, .filter = FILTER_ACCESSED },
	{ .split = true, .filter = FILTER_TABLE },
	{ .split = true, .filter = FILTER_ACCESSED },
	{ .split = true, .filter = FILTER_TABLE, .forgets = true },
	{ .split = true, .filter = FILTER_AUTO, .forgets = true },
	{ .decides = true, .filter = FILTER_AUTO, .forgets = true },
};

const char *const policies[] = {
	"linux", "mitosis", "abis", "hydra", "accessed", "forget", "forget-auto", "auto", NULL
};

struct hydra_prices prices = HYDRA_PRICES, actual = HYDRA_PRICES;

/* Domains */
struct set {
	u64 word[MAX_CPUS / 64];
};

/* What one domain has of a leaf table: a bit for each page */
struct copy {
	u64 present[WORDS], accessed[WORDS], marked[WORDS];
	u8 age;
};

struct table {
	bool there, sampled;
	u8 rent, credit;
	u16 home, sample_of;		/* domains; the second one's copy is sampled */
	u32 due;			/* when the table is looked at, or 0 */
	struct set sharers, used;	/* used since the last look */
	struct hydra_mode mode;
	struct copy *copy;		/* of each domain */
};

struct machine {
	struct policy policy;
	bool split;
	u32 domains, cpus, end;		/* CPUs of each domain */
	u32 nr_running, running[MAX_CPUS];
	bool runs[MAX_CPUS];
	u32 worth, next_idle, next_look, now;
	u32 queued, looked, due[MAX_TABLES];	/* tables to look at: a ring, in the order of time */
	u32 nr_tables;				/* without copies */
	struct table table[MAX_TABLES];
	struct costs costs, before;		/* before: at the last look at the process */
	struct hydra_process process;
	struct set trees, ran;			/* domains: have a tree; have run it since the last look */
	s64 spared;				/* since the last look */
	u64 entries;				/* changed in copies, since the last look */
	u32 nr_sampled;
	u64 random;
};

static bool has(const struct set *set, u32 d)
{
	return set->word[d / 64] >> d % 64 & 1;
}

static void add(struct set *set, u32 d)
{
	set->word[d / 64] |= 1ULL << d % 64;
}

static void take(struct set *set, u32 d)
{
	set->word[d / 64] &= ~(1ULL << d % 64);
}

static u32 size(const struct set *set)
{
	u32 word, nr = 0;

	for (word = 0; word < MAX_CPUS / 64; word++)
		nr += __builtin_popcountll(set->word[word]);
	return nr;
}

/* The first domain of a set from @d on, or MAX_CPUS */
static u32 next_in(const struct set *set, u32 d)
{
	u32 word = d / 64;
	u64 bits;

	if (d >= MAX_CPUS)
		return MAX_CPUS;
	bits = set->word[word] & ~0ULL << d % 64;
	while (!bits && ++word < MAX_CPUS / 64)
		bits = set->word[word];
	return bits ? word * 64 + __builtin_ctzll(bits) : MAX_CPUS;
}

#define for_each_in(d, set) for (d = next_in(set, 0); d < MAX_CPUS; d = next_in(set, d + 1))

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
	add(&t->sharers, d);
	if (d != t->home)
		count_tables(m, 1);
	memset(&t->copy[d], 0, sizeof(t->copy[d]));
	memset(t->copy[d].present, 0xff, sizeof(t->copy[d].present));
}

static void make_table(struct machine *m, struct table *t, u32 home)
{
	u32 d;

	if (!t->copy)
		t->copy = calloc(m->domains, sizeof(*t->copy));
	if (!t->copy)
		error(2, errno, "no memory for a table");
	t->there = true;
	t->home = home;
	count_tables(m, 1);
	m->nr_tables++;
	join(m, t, home);
	for (d = 0; m->policy.eager && d < m->domains; d++) {
		if (d == home)
			continue;
		join(m, t, d);
		pay(m, &m->costs.fills, 1, actual.fill);
	}
}

static void drop(struct machine *m, struct table *t, u32 d)
{
	take(&t->sharers, d);
	if (d != t->home)
		count_tables(m, -1);
	m->costs.drops++;
	m->spared -= m->running[d];
	pay(m, &m->costs.interrupts, m->running[d], actual.interrupt);
}

static u32 nr_copies(const struct table *t)
{
	return size(&t->sharers) - has(&t->sharers, t->home);
}

static void free_table(struct machine *m, struct table *t)
{
	struct copy *copy = t->copy;
	u32 due = t->due;

	count_tables(m, -1 - (int)nr_copies(t));
	m->nr_tables--;
	*t = (struct table){ .copy = copy, .due = due };
}

/* --- Rules: rent, and looks at the tables */

/* CPUs of a domain that run the program, in the mean */
static u32 mean_cpus(const struct machine *m)
{
	u32 d, domains = 0;

	for (d = 0; d < m->domains; d++)
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

	for_each_in(d, &t->sharers) {
		u8 *age = &t->copy[d].age;

		if (d == t->home)
			continue;
		*age = hydra_age(*age, has(&t->used, d), quarters);
		take(&t->used, d);
		if (hydra_forgets(*age))
			drop(m, t, d);
	}
}

static void look_at_tables(struct machine *m, u32 now)
{
	u32 i;

	for (; m->looked != m->queued; m->looked++) {
		struct table *t = &m->table[m->due[m->looked % MAX_TABLES]];

		if (t->due > now)
			break;
		t->due = 0;
		if (!t->there || !m->split)
			continue;
		look(m, t, hydra_rent_quarters(t->rent));
		t->rent = hydra_rent_left(t->rent);
	}
	for (; m->next_idle <= now; m->next_idle += IDLE_US)
		for (i = 0; m->split && i < MAX_TABLES; i++)
			if (m->table[i].there)
				look(m, &m->table[i], 1);
}

/* --- Rules: the process */

/* Each domain begins with an empty tree, also the one that a table belongs to. */
static void split(struct machine *m, const struct hydra_process_look *l)
{
	struct table *t;
	u32 d;

	hydra_process_split(&m->process, &prices, l);
	m->split = true;
	m->costs.decisions++;
	m->trees = (struct set){};
	for (d = 0; d < m->domains; d++)
		if (m->running[d])
			add(&m->trees, d);
	m->costs.ns += (u64)size(&m->trees) * actual.root;
	pay(m, &m->costs.interrupts, m->nr_running, actual.interrupt);
	for (t = m->table; t < m->table + MAX_TABLES; t++)
		t->sharers = (struct set){};
}

static void unsplit(struct machine *m)
{
	struct table *t;
	u64 released = 0;

	for (t = m->table; t < m->table + MAX_TABLES; t++) {
		if (!t->there)
			continue;
		released += 1 + nr_copies(t);
		count_tables(m, -(int)nr_copies(t));
		t->sharers = t->used = (struct set){};
		t->mode = (struct hydra_mode){};
		t->rent = t->credit = 0;
		join(m, t, t->home);
	}
	m->split = false;
	m->costs.decisions++;
	m->costs.ns += released * actual.release;
	pay(m, &m->costs.interrupts, m->nr_running, actual.interrupt);
	hydra_process_returned(&m->process, released * prices.release +
			       (u64)m->nr_running * prices.interrupt);
}

/* The leaf tables of a plain process follow it to the only domain that runs it. */
static void rehome(struct machine *m, u32 d)
{
	u32 moved = 0;
	struct table *t;

	for (t = m->table; t < m->table + MAX_TABLES && moved < REHOMED; t++) {
		if (!t->there || t->home == d || !hydra_process_pays(&m->process, PRICE_REHOME))
			continue;
		t->home = d;
		t->sharers = (struct set){};
		join(m, t, d);
		m->costs.ns += PRICE_REHOME;
		moved++;
	}
}

/* The copy of a table whose accessed bits are sampled: of any domain but the owner */
static u32 sample_of(struct machine *m, const struct table *t)
{
	u32 d, n, copies = nr_copies(t);

	if (!m->split || !copies)
		return t->home;
	n = draw(&m->random, copies);
	for_each_in(d, &t->sharers)
		if (d != t->home && !n--)
			break;
	return d;
}

static void begin_sample(struct machine *m)
{
	struct table *t;

	while (m->nr_sampled < HYDRA_SAMPLE_SIZE) {
		t = &m->table[draw(&m->random, MAX_TABLES)];
		if (!t->there || t->sampled)
			continue;
		t->sampled = true;
		t->sample_of = sample_of(m, t);
		memset(t->copy[t->sample_of].accessed, 0, sizeof(t->copy->accessed));
		m->nr_sampled++;
	}
}

/* Return: pages that are used, of all tables */
static u64 end_sample(struct machine *m)
{
	u64 pages = 0, found;
	struct table *t;

	for (t = m->table; t < m->table + MAX_TABLES; t++) {
		if (!t->sampled)
			continue;
		t->sampled = false;
		found = count_bits(t->copy[t->sample_of].accessed, 0, PAGES);
		if (m->split)
			found *= t->sample_of == t->home ? 0 : nr_copies(t);
		pages += found;
	}
	pages = pages * m->nr_tables / m->nr_sampled;
	m->nr_sampled = 0;
	return pages;
}

static void take_look(struct machine *m, struct hydra_process_look *l)
{
	u32 d;

	*l = (struct hydra_process_look){
		.ns = LOOK_US * 1000ULL,
		.spent = PRICE_KEEPER + m->nr_sampled * (u64)PRICE_SAMPLE,
		.running = m->nr_running,
		.tables = m->nr_tables,
		.flushes = m->costs.flushes - m->before.flushes,
		.spared = m->spared,
		.fills = m->costs.fills - m->before.fills,
		.changes = m->costs.changes - m->before.changes,
		.entries = m->entries,
		.looks = m->costs.looks - m->before.looks,
	};
	for (d = 0; d < m->domains; d++) {
		l->squares += m->running[d] * m->running[d];
		l->domains += m->running[d] > 0;
	}
	l->alone = l->domains == 1;
	if (m->split) {
		l->domains = size(&m->trees);
		l->alone = size(&m->ran) == 1;
	}
	if (m->nr_sampled) {
		l->sampled = true;
		l->pages = end_sample(m);
	}
	m->costs.ns += l->spent;
	m->spared = 0;
	m->entries = 0;
	m->ran = (struct set){};
	for (d = 0; d < m->domains; d++)
		if (m->running[d])
			add(&m->ran, d);
}

static void look_at_process(struct machine *m)
{
	struct hydra_process_look l;
	bool saves;

	take_look(m, &l);
	saves = hydra_process_looked(&m->process, &prices, &l) == HYDRA_WHY_SAVES;
	if (saves && !m->split)
		split(m, &l);
	else if (!saves && m->split)
		unsplit(m);
	if (!m->split && m->process.alone == HYDRA_ALONE_LOOKS && m->nr_running)
		rehome(m, next_in(&m->ran, 0));
	if (hydra_process_samples(&m->process, m->nr_tables))
		begin_sample(m);
	m->before = m->costs;
}

static void run_until(struct machine *m, u32 now)
{
	m->costs.cpu_ns += (u64)(now - m->now) * 1000 * m->nr_running;
	m->now = now;
}

static void pass_time(struct machine *m, u32 now)
{
	for (; m->policy.decides && m->next_look <= now; m->next_look += LOOK_US) {
		run_until(m, m->next_look);
		look_at_process(m);
	}
	run_until(m, now);
	if (m->policy.forgets)
		look_at_tables(m, now);
}

/* --- What the program does, for the pages from first to end of a table */

/* A domain that comes to a process with trees gets one. */
static void plant(struct machine *m, u32 d)
{
	if (!m->policy.decides || has(&m->trees, d))
		return;
	add(&m->trees, d);
	m->costs.ns += actual.root;
}

static void use(struct machine *m, struct table *t, u32 d, u32 first, u32 end)
{
	struct copy *copy;

	if (!t->there)
		make_table(m, t, d);
	m->costs.walks += end - first;
	if (!m->split) {
		pay(m, &m->costs.remote_walks, t->home != d ? end - first : 0, actual.walk);
		set_bits(t->copy[t->home].accessed, first, end);
		return;
	}
	plant(m, d);
	copy = &t->copy[d];
	if (!has(&t->sharers, d)) {
		pay(m, &m->costs.fills, 1, actual.fill);
		join(m, t, d);
	} else if (count_bits(copy->present, first, end) < end - first) {
		pay(m, &m->costs.fills, 1, actual.fill);
		set_bits(copy->present, 0, PAGES);
	}
	set_bits(copy->accessed, first, end);
	set_bits(copy->marked, first, end);
	add(&t->used, d);
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

	if (!m->split)
		return;
	for_each_in(d, &t->sharers) {
		struct copy *copy = &t->copy[d];

		/* The owner has the canonical entries, which change anyway. */
		if (d == t->home)
			continue;
		nr = count_bits(copy->present, first, end);
		if (!nr)
			continue;
		pay(m, &m->costs.changes, 1, actual.change);
		m->costs.ns += (nr - 1) * (u64)actual.more;
		m->entries += nr;
		if (d != by && nr > most)
			most = nr;
		if (m->policy.forgets)
			push(t, copy, first, end);
		clear_bits(copy->accessed, first, end);
	}
	if (m->policy.forgets && most)
		charge(m, t, prices.change + (u64)(most - 1) * prices.more);
}

static u32 running_in(const struct machine *m, const struct set *domains)
{
	u32 d, nr = 0;

	for_each_in(d, domains)
		nr += m->running[d];
	return nr;
}

/* A flush by table charges the table for the CPUs of one other domain. */
static void charge_flush(struct machine *m, struct table *t, const struct set *targets, u32 by)
{
	u32 d;

	for_each_in(d, targets) {
		if (d == by || !m->running[d])
			continue;
		charge(m, t, (u64)prices.interrupt * mean_cpus(m));
		return;
	}
}

/* Add the domains whose CPUs a flush of pages of one table reaches. */
static void add_targets(struct machine *m, struct table *t, u32 by, u32 first, u32 end, struct set *all)
{
	u32 d, sharers = size(&t->sharers), copies = sharers * (end - first), spared = 0;
	bool fine = m->policy.filter == FILTER_ACCESSED;
	struct set targets = {};

	/* A table with one sharer has no marks to look at. */
	if (sharers < 2) {
		for_each_in(d, &t->sharers)
			add(all, d);
		return;
	}
	if (m->policy.filter == FILTER_AUTO)
		fine = hydra_mode_looks(&t->mode, m->worth, running_in(m, &t->sharers), copies);
	if (copies > MOST_LOOKS)
		fine = false;
	for_each_in(d, &t->sharers) {
		if (!fine || count_bits(t->copy[d].marked, first, end)) {
			add(&targets, d);
			add(all, d);
		} else {
			spared += m->running[d];
		}
		if (fine)
			clear_bits(t->copy[d].marked, first, end);
	}
	if (fine)
		pay(m, &m->costs.looks, copies, actual.look);
	if (m->policy.filter == FILTER_AUTO)
		hydra_mode_flushed(&t->mode, m->worth, spared, fine ? copies : 0);
	if (m->policy.forgets)
		charge_flush(m, t, &targets, by);
}

static void interrupt(struct machine *m, const struct record *r, const struct set *targets)
{
	u32 self = m->runs[r->cpu], others = m->nr_running - self, nr = others;

	if (!size(targets))
		nr = 0;
	else if (m->split && m->policy.filter != FILTER_NONE)
		nr = running_in(m, targets) - (self && has(targets, r->cpu / m->cpus));
	m->spared += others - nr;
	pay(m, &m->costs.interrupts, nr, actual.interrupt);
	pay(m, &m->costs.flushes, 1, m->split ? actual.flush : 0);
	if (r->time < m->end / 4) {
		m->costs.first_interrupts += nr;
		m->costs.first_flushes++;
	} else if (r->time >= m->end - m->end / 4) {
		m->costs.last_interrupts += nr;
		m->costs.last_flushes++;
	}
}

/* The pages from first to end of one table */
static void step_table(struct machine *m, const struct record *r, struct table *t, u32 first, u32 end,
		       struct set *targets)
{
	bool flushes = r->op == OP_FLUSH || r->op == OP_FREE;
	u32 by = r->cpu / m->cpus;

	if (r->op == OP_USE)
		use(m, t, by, first, end);
	else if (t->there)
		change(m, t, by, first, end);
	if (t->there && flushes) {
		if (m->split && m->policy.filter != FILTER_NONE)
			add_targets(m, t, by, first, end, targets);
		else
			add(targets, by);	/* and all others */
	}
	if (t->there && r->op == OP_FREE)
		free_table(m, t);
}

static void step_tables(struct machine *m, const struct record *r)
{
	u32 page = r->page, left = r->n;
	struct set targets = {};

	while (left) {
		u32 first = page % PAGES, nr = left < PAGES - first ? left : PAGES - first;

		step_table(m, r, &m->table[page / PAGES], first, first + nr, &targets);
		page += nr;
		left -= nr;
	}
	if (r->op == OP_FLUSH || r->op == OP_FREE)
		interrupt(m, r, &targets);
}

static void run_or_stop(struct machine *m, u32 cpu, bool runs)
{
	u32 d = cpu / m->cpus;

	if (m->runs[cpu] == runs)
		return;
	m->runs[cpu] = runs;
	m->running[d] += runs ? 1 : -1;
	m->nr_running += runs ? 1 : -1;
	if (runs)
		add(&m->ran, d);
}

void machine_step(struct machine *m, const struct record *r)
{
	pass_time(m, r->time);
	switch (r->op) {
	case OP_RUN:
	case OP_STOP:
		run_or_stop(m, r->cpu, r->op == OP_RUN);
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
	m->domains = m->policy.cores ? sockets * cpus : sockets;
	m->cpus = m->policy.cores ? 1 : cpus;
	m->split = m->policy.split;
	m->end = end;
	m->worth = hydra_mode_worth(&prices);
	m->next_idle = IDLE_US;
	m->next_look = LOOK_US;
	m->random = plan.seed;
	return m;
}

bool policy_compares(const char *policy)
{
	u32 i;

	for (i = 0; strcmp(policies[i], policy); i++)
		;
	return !settings[i].cores && !settings[i].decides;
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
