// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bounds of auto_rules.h, asserted on random small traces of one table; and all traces, also
 * those of bounds_process.c.
 *
 * The best choice in hindsight is found by dynamic programming: a pair of the table and a
 * domain is in or out. A trace that breaks a bound is made as short as it gets by leaving out
 * events, and printed.
 */
#include <stdlib.h>
#include <string.h>

#include "bounds.h"

#define FEW_EVENTS	128
#define DOMAINS		4		/* domain 0 is the owner, and always in */
#define COPIES		15		/* of one entry, or of several */
#define FAULT		16		/* pushes */
#define ALMOST		1e-9		/* doubles are not exact */

enum kind { USE, FLUSH, CHANGE, IDLE, KINDS };

/* The nearest that any trace came to each bound */
static struct verdict nearest[32];
static u32 bounds_seen;

u32 draw(u64 *state, u32 below)
{
	u64 z;

	/* The generator SplitMix64 (Steele, Lea, Flood, 2014) */
	*state += 0x9e3779b97f4a7c15ULL;
	z = (*state ^ (*state >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return ((z >> 32) * below) >> 32;
}

bool keeps(struct verdict *v, const char *bound, double cost, double most)
{
	u32 i;

	if (cost > most * (1 + ALMOST) + ALMOST) {
		*v = (struct verdict){ bound, cost, most };
		return false;
	}
	for (i = 0; i < bounds_seen && nearest[i].bound != bound; i++)
		;
	if (i == bounds_seen)
		nearest[bounds_seen++] = (struct verdict){ bound, 0, 1 };
	if (most > 0 && cost / most > nearest[i].cost / nearest[i].most)
		nearest[i] = (struct verdict){ bound, cost, most };
	return true;
}

/* --- Forget */

/* The table under the rules */
struct table {
	u8 rent, steps[KINDS], age[DOMAINS];
	bool in[DOMAINS], used[DOMAINS];
	u32 due;		/* events until the look, or 0 */
	double since_due, latest;	/* rent since a look was due; the most of that */
	double cost[DOMAINS];	/* what domains paid; of the owner: what none can save */
	u32 idle_for[DOMAINS], longest;	/* idle looks since the last use */
	bool one_sided;		/* a domain that may be dropped started flushes or changes */
	u32 idle;
};

static double price_of(const struct trace *t, u32 kind)
{
	switch (kind) {
	case FLUSH:
		return (double)t->prices.interrupt * t->cpus;
	case CHANGE:
		return t->prices.change;
	}
	return 0;
}

static double drop_price(const struct trace *t)
{
	return (double)t->prices.interrupt * t->cpus;
}

static void table_look(const struct trace *t, struct table *table, u8 quarters)
{
	u32 d;

	for (d = 1; d < DOMAINS; d++) {
		if (!table->in[d])
			continue;
		table->age[d] = hydra_age(table->age[d], table->used[d], quarters);
		table->used[d] = false;
		if (!hydra_forgets(table->age[d]))
			continue;
		table->in[d] = false;
		table->cost[d] += drop_price(t);
	}
}

static void table_rent_look(const struct trace *t, struct table *table)
{
	table_look(t, table, hydra_rent_quarters(table->rent));
	table->rent = hydra_rent_left(table->rent);
	table->due = 0;
	table->since_due = 0;
}

static void table_use(const struct trace *t, struct table *table, u32 d)
{
	table->idle_for[d] = 0;
	if (!d)
		return;
	if (!table->in[d]) {
		table->cost[d] += t->prices.fill;
		table->age[d] = 0;
	}
	table->in[d] = true;
	table->used[d] = true;
}

/* A flush or a change reaches all sharers but the domain that starts it. */
static void table_disturb(const struct trace *t, struct table *table, const struct event *e)
{
	double price = price_of(t, e->kind);
	bool others = false;
	u32 d;

	table->one_sided |= e->domain != 0;
	for (d = 0; d < DOMAINS; d++) {
		if (d == e->domain || (d && !table->in[d]))
			continue;
		others = true;
		table->cost[d] += price;
	}
	if (!others)
		return;
	table->rent = hydra_rent_add(table->rent, table->steps[e->kind]);
	if (!hydra_rent_quarters(table->rent))
		return;
	if (!table->due)
		table->due = t->late + 1;
	table->since_due += price;
	if (table->since_due > table->latest)
		table->latest = table->since_due;
}

static void table_idle(const struct trace *t, struct table *table)
{
	u32 d;

	table->idle++;
	table_look(t, table, 1);
	for (d = 1; d < DOMAINS; d++) {
		table->idle_for[d]++;
		if (table->in[d] && table->idle_for[d] > table->longest)
			table->longest = table->idle_for[d];
	}
}

static void table_begin(const struct trace *t, struct table *table)
{
	u64 forget = hydra_forget_price(&t->prices, t->cpus);
	u32 kind;

	memset(table, 0, sizeof(*table));
	for (kind = FLUSH; kind <= CHANGE; kind++)
		table->steps[kind] = hydra_rent_step(price_of(t, kind), forget);
}

static void table_step(const struct trace *t, struct table *table, const struct event *e)
{
	switch (e->kind) {
	case USE:
		table_use(t, table, e->domain);
		break;
	case IDLE:
		table_idle(t, table);
		break;
	default:
		table_disturb(t, table, e);
	}
	if (table->due && !--table->due)
		table_rent_look(t, table);
}

/* The least that the pair of domain @d could have cost; *stay: had it never been dropped */
static double best_of(const struct trace *t, u32 d, double *stay)
{
	double in = 1e30, out = 0, price;
	u32 i;

	*stay = -1;
	for (i = 0; i < t->nr; i++) {
		const struct event *e = &t->event[i];

		if (e->kind == USE && e->domain == d) {
			if (*stay < 0)
				*stay = t->prices.fill;
			if (out + t->prices.fill < in)
				in = out + t->prices.fill;
			out = in + drop_price(t);
		} else if (e->kind != USE && e->domain != d) {
			price = price_of(t, e->kind);
			if (*stay >= 0)
				*stay += price;
			in += price;
			if (in + drop_price(t) < out)
				out = in + drop_price(t);
		}
	}
	if (*stay < 0)
		*stay = 0;
	return in < out ? in : out;
}

/* How much more than its price a step may count, by rounding */
static double rounding(const struct trace *t, const struct table *table, double forget)
{
	double worst = 1, more;
	u32 kind;

	for (kind = FLUSH; kind <= CHANGE; kind++) {
		more = table->steps[kind] * forget / HYDRA_RENT_WHOLE / price_of(t, kind);
		if (more > worst)
			worst = more;
	}
	return worst;
}

static bool check_forget(const struct trace *t, struct verdict *v)
{
	double forget = hydra_forget_price(&t->prices, t->cpus);
	double first = forget / 2, all = 0, all_best = 0, largest, ratio, against_staying, stay, best, idle;
	struct table table;
	u32 i, d;

	table_begin(t, &table);
	for (i = 0; i < t->nr; i++)
		table_step(t, &table, &t->event[i]);
	largest = table.latest;
	for (i = 0; i < t->nr; i++)
		if (price_of(t, t->event[i].kind) > largest)
			largest = price_of(t, t->event[i].kind);
	/* The bounds of auto_rules.h. A first drop may come F/2 too soon: its quarter was old. */
	against_staying = 1 + rounding(t, &table, forget);
	ratio = 2 + 2 * largest / forget;
	if (against_staying > ratio)
		ratio = against_staying;
	idle = table.idle * forget;
	for (d = 1; d < DOMAINS; d++) {
		best = best_of(t, d, &stay);
		all += table.cost[d];
		all_best += best;
		if (table.one_sided)
			continue;
		if (!keeps(v, t->late ? "pair, late looks" : "pair", table.cost[d],
			   ratio * best + first + idle) ||
		    !keeps(v, t->late ? "pair against staying, late looks" : "pair against staying",
			   table.cost[d], against_staying * stay + first + idle))
			return false;
	}
	if (table.one_sided &&
	    !keeps(v, "all domains of a table", all + table.cost[0],
		   (1 + ratio) * (all_best + table.cost[0]) + (DOMAINS - 1) * (first + idle)))
		return false;
	return keeps(v, "idle looks until a drop", table.longest, 3);
}

/*
 * An event that hurts the rules. A use right after a drop costs most, if no use has come
 * between. Or domain 2 keeps the rent rising, and domain 1 comes just before a look that
 * sees it.
 */
static void make_worse(const struct table *table, struct event *e, bool late_use, u64 *random)
{
	bool due = hydra_rent_quarters(hydra_rent_add(table->rent, table->steps[e->kind]));

	if (late_use && (due || !table->in[2]) && !table->used[2])
		*e = (struct event){ USE, 2 };
	else if (!table->in[1] && (due || !late_use))
		*e = (struct event){ USE, 1 };
	else if (e->kind == USE && e->domain == 1 && (!table->in[1] || draw(random, 8)))
		*e = (struct event){ CHANGE, 0 };
}

/* A trace that knows the rules: the next event is drawn by what hurts them. */
static void make_forget(struct trace *t, u64 *random)
{
	static const u32 looks[] = { 0, 0, 1, 3, 9 };
	static const u32 machines[] = { 1, 1, 2, 8, 32 };
	u32 uses = 1 + draw(random, 12), flushes = draw(random, 4), changes = draw(random, 4);
	u32 idles = draw(random, 4) ? 0 : 1, domains = 1 + draw(random, DOMAINS - 1);
	bool knows = !idles && draw(random, 4), late_use = draw(random, 2), others = !draw(random, 3);
	struct table table;
	u32 i, at, sum;

	t->prices.interrupt = HYDRA_PRICE_INTERRUPT / 4 + draw(random, 4 * HYDRA_PRICE_INTERRUPT);
	t->prices.fill = HYDRA_PRICE_FILL / 4 + draw(random, 4 * HYDRA_PRICE_FILL);
	t->prices.change = HYDRA_PRICE_CHANGE / 4 + draw(random, 4 * HYDRA_PRICE_CHANGE);
	if (draw(random, 2))
		t->prices = prices;
	t->cpus = machines[draw(random, 5)];
	t->late = looks[draw(random, 5)];
	t->nr = 8 + draw(random, (draw(random, 4) ? FEW_EVENTS : MOST_EVENTS) - 7);
	if (!flushes && !changes)
		flushes = 1;
	sum = 8 * (flushes + changes) + uses + idles;
	table_begin(t, &table);
	for (i = 0; i < t->nr; i++) {
		struct event *e = &t->event[i];

		at = draw(random, sum);
		e->domain = 0;
		if (at < uses)
			*e = (struct event){ USE, 1 + draw(random, domains) };
		else if (at < uses + idles)
			e->kind = IDLE;
		else
			*e = (struct event){ at < uses + idles + 8 * flushes ? FLUSH : CHANGE,
					     others ? draw(random, domains + 1) : 0 };
		if (knows)
			make_worse(&table, e, late_use, random);
		table_step(t, &table, e);
	}
}

/* --- Push account: domain of an event is the copy */

static bool check_push(const struct trace *t, struct verdict *v)
{
	bool present[COPIES] = {}, accessed[COPIES] = {}, known[COPIES] = {};
	u64 useful = 0, needless = 0, faults = 0, always = 0;
	double all;
	u8 credit = 0;
	u32 i;

	for (i = 0; i < t->nr; i++) {
		u32 c = t->event[i].domain;

		if (t->event[i].kind == USE) {
			faults += !present[c];
			always += known[c] ? 0 : FAULT;
			present[c] = true;
			accessed[c] = true;
			known[c] = true;
			continue;
		}
		always += known[c];
		if (!present[c])
			continue;
		present[c] = hydra_pushes(credit, accessed[c]);
		credit = hydra_credit(credit, accessed[c]);
		useful += accessed[c];
		needless += present[c] && !accessed[c];
		accessed[c] = false;
	}
	all = useful + needless + (double)FAULT * faults;
	return keeps(v, "needless pushes", needless, (double)FAULT * useful) &&
	       keeps(v, "against always pushing", all, 3.0 * always + 255);
}

static void make_push(struct trace *t, u64 *random)
{
	u32 copies = 1 + draw(random, draw(random, 2) ? 2 : COPIES), uses = 1 + draw(random, 15);
	u32 i;

	t->nr = MOST_EVENTS;
	for (i = 0; i < t->nr; i++)
		t->event[i] = (struct event){ draw(random, 16) < uses ? USE : CHANGE,
					      draw(random, copies) };
	/* A part without a use */
	for (i = draw(random, t->nr); i < t->nr && draw(random, 32); i++)
		t->event[i].kind = CHANGE;
}

/* --- Mode. A trace has runs of flushes: kind says which, domain how many hundreds. */

static const struct {
	u32 cpus, spared, copies;	/* of cpus that a flush by table interrupts */
} flush_kinds[KINDS] = { { 1, 1, 3 }, { 3, 0, 3 }, { 20, 8, 100 }, { 20, 0, 300 } };

static bool check_mode(const struct trace *t, struct verdict *v)
{
	double cost = 0, fine = 0, dearest = 0, table = 0, by_table;
	u32 worth = hydra_mode_worth(&t->prices), i, j, left = 0, tries;
	struct hydra_mode m = {};
	bool gains = true, was, looks;
	u64 flushes = 0;

	for (i = 0; i < t->nr; i++) {
		u32 cpus = flush_kinds[t->event[i].kind].cpus;
		u32 spared = flush_kinds[t->event[i].kind].spared;
		u32 copies = flush_kinds[t->event[i].kind].copies;
		double look = (double)copies * t->prices.look;

		by_table = (double)cpus * t->prices.interrupt;
		gains &= spared * worth > copies;
		for (j = 0; j < 100 * (t->event[i].domain + 1u); j++) {
			was = m.state != HYDRA_MODE_TABLE;
			looks = hydra_mode_looks(&m, worth, cpus, copies);
			flushes++;
			table += by_table;
			fine += by_table + look - (double)spared * t->prices.interrupt;
			cost += by_table;
			if (looks) {
				cost += look - (double)spared * t->prices.interrupt;
				dearest = look > dearest ? look : dearest;
				if (!keeps(v, "a look against a flush by table", look, by_table))
					return false;
			}
			hydra_mode_flushed(&m, worth, looks ? spared : 0, looks ? copies : 0);
			left += was && m.state == HYDRA_MODE_TABLE;
		}
	}
	if (gains && !keeps(v, "marks that always gain", cost, fine))
		return false;
	/* A try that is under way has lost at most as much as one that has failed. */
	tries = left + (m.state != HYDRA_MODE_TABLE);
	return keeps(v, "against flushes by table", cost, table + 64 * dearest * tries) &&
	       keeps(v, "times that a table went back", left, 1 + flushes / 1088.0);
}

static void make_mode(struct trace *t, u64 *random)
{
	u32 kinds = 1 + draw(random, KINDS), first = draw(random, KINDS), i;

	t->prices.interrupt = HYDRA_PRICE_INTERRUPT / 4 + draw(random, 4 * HYDRA_PRICE_INTERRUPT);
	t->prices.look = HYDRA_PRICE_LOOK / 4 + draw(random, 4 * HYDRA_PRICE_LOOK);
	t->nr = 1 + draw(random, 12);
	for (i = 0; i < t->nr; i++)
		t->event[i] = (struct event){ (first + draw(random, kinds)) % KINDS, draw(random, 8) };
}

/* --- All of them */

static const struct judge {
	const char *name;
	void (*make)(struct trace *t, u64 *random);
	bool (*check)(const struct trace *t, struct verdict *v);
	u32 share;		/* of 20 traces */
	const char *kinds[6], *number;
} judges[] = {
	{ "forget", make_forget, check_forget, 11, { "use", "flush", "change", "idle-look" },
	  "domain" },
	{ "push", make_push, check_push, 4, { "use", "change", "change", "change" }, "copy" },
	{ "mode", make_mode, check_mode, 1,
	  { "flushes-gain", "flushes-lose", "flushes-gain-much", "flushes-lose-much" },
	  "hundreds, less one" },
	{ "process", make_process, check_process, 4,
	  { "own", "shared", "read", "alone", "move", "idle" }, "length and rate" },
};

/* Leave out events as long as a bound is broken. */
static void shorten(const struct judge *judge, struct trace *t, struct verdict *v)
{
	struct trace shorter;
	u32 i;

	for (i = 0; i < t->nr;) {
		shorter = *t;
		shorter.nr--;
		memmove(&shorter.event[i], &t->event[i + 1], (t->nr - i - 1) * sizeof(*t->event));
		if (judge->check(&shorter, v)) {
			i++;
			continue;
		}
		*t = shorter;
		i = 0;
	}
	judge->check(t, v);
}

static void print_trace(const struct judge *judge, const struct trace *t, const struct verdict *v,
			u64 seed, u64 number)
{
	u32 i;

	printf("broken: %s, %s: %.0f is more than %.0f\n", judge->name, v->bound, v->cost, v->most);
	printf("seed %llu, trace %llu, made shorter:\n", (unsigned long long)seed,
	       (unsigned long long)number);
	printf("interrupt %u fill %u change %u look %u ns, %u CPUs, looks %u events late\n",
	       t->prices.interrupt, t->prices.fill, t->prices.change, t->prices.look, t->cpus, t->late);
	printf("flush %u walk %u root %u release %u ns, %u sockets, %u tables, %u quarters used, %u more at each event\n",
	       t->prices.flush, t->prices.walk, t->prices.root, t->prices.release, t->sockets,
	       t->tables, t->filled, t->grows);
	for (i = 0; i < t->nr; i++)
		printf("%s:%u ", judge->kinds[t->event[i].kind], t->event[i].domain);
	printf("(each with its %s)\n", judge->number);
}

static void print_nearest(u64 traces, u64 seed, bool json)
{
	u32 i;

	if (json)
		printf("{\"traces\": %llu, \"seed\": %llu, \"bounds\": {", (unsigned long long)traces,
		       (unsigned long long)seed);
	else
		printf("%llu traces keep these bounds. The nearest of them reached:\n",
		       (unsigned long long)traces);
	for (i = 0; i < bounds_seen; i++)
		printf(json ? "%s\"%s\": %.4f" : "%s%-36s %.4f of the bound\n", json && i ? ", " : "",
		       nearest[i].bound, nearest[i].cost / nearest[i].most);
	if (json)
		printf("}}\n");
}

bool bounds_hold(u64 traces, u64 seed, bool json)
{
	const struct judge *judge;
	struct verdict v;
	u64 number, random;
	u32 share;

	for (number = 0; number < traces; number++) {
		struct trace t = { .prices = prices, .cpus = 1 };

		random = (seed << 32) + number;
		share = number % 20;
		for (judge = judges; share >= judge->share; judge++)
			share -= judge->share;
		judge->make(&t, &random);
		if (judge->check(&t, &v))
			continue;
		shorten(judge, &t, &v);
		print_trace(judge, &t, &v, seed, number);
		return false;
	}
	print_nearest(traces, seed, json);
	return true;
}
