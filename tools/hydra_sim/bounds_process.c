// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bounds of process_rules.h, on random traces of looks at one process.
 *
 * An event is several looks that find the same: of the number of an event, the upper half says
 * how many, the lower half at which rate. What Linux and domain trees cost is computed here
 * once more, and not by the rules.
 */
#include <string.h>

#include "bounds.h"

#define SECOND		1e9		/* ns, from look to look */
#define HOUR		3600		/* looks */
#define MOST_DECISIONS	18		/* in an hour */
#define SAMPLED		(HYDRA_SAMPLE_SIZE * (u64)PRICE_SAMPLE)

enum kind {
	OWN,		/* all CPUs run it, each flushes pages that its domain alone uses */
	SHARED,		/* all CPUs use the pages that each flushes */
	READ,		/* all CPUs read the same pages */
	ALONE,		/* CPUs of one domain */
	MOVE,		/* half of so many in another one; pages are used in one of them */
	IDLE,		/* none runs */
	KINDS
};

/* What happens between two looks, and what it costs by the prices */
struct second {
	u32 running, domains;
	u64 squares, flushes, spared, changes, pages;
	double linux_pays, trees_pay;	/* without fills and roots */
};

/* The life of a process, from look to look */
struct life {
	const struct trace *t;
	struct hydra_process account;
	bool sampling;
	u32 looks, trees;
	u64 tables, owed, grown;	/* fills until the next look: of the split; of more memory */
	double cpu, cost, linux_cost;	/* so far, in ns */
	double spent, idle_spent;	/* on looks; on those that find no CPU */
	double worst;			/* that one look lost with trees, without the fills of a split */
	double back, limit;		/* U of this look, and S + U, of the split if that was more */
	double back_most, limit_most;
	double net, peak, gains, balance;	/* of this split */
	double cap, price;
	double cap_most;		/* of all splits */
	double low, high;		/* extra cost less what the purse has earned; least, and how much more since */
	double rent, needed;		/* that Linux cost since the return; that a try takes */
	double missed, missed_most;	/* what trees would have saved before the first split */
	double quiet;			/* of it, in looks at which that is not worth a split */
	enum hydra_why why;
	u32 splits, returns, failed, since, wide, alone;
	u32 decided[MOST_DECISIONS + 1], decisions;	/* a ring of looks */
};

static u32 nr_looks(u8 number)
{
	static const u16 lengths[16] = { 1, 1, 1, 2, 2, 3, 3, 4, 5, 7, 10, 12, 15, 25, 60, 200 };

	return lengths[number >> 4];
}

static void make_second(const struct trace *t, u32 kind, u8 number, struct second *s)
{
	u32 all = t->sockets * t->cpus, half, rate = number & 15;
	const struct hydra_prices *p = &t->prices;

	*s = (struct second){ .running = all, .domains = t->sockets };
	s->squares = (u64)t->sockets * t->cpus * t->cpus;
	if (kind != READ && kind != IDLE)
		s->flushes = 64ULL << rate;
	switch (kind) {
	case OWN:
		s->spared = s->flushes * (all - t->cpus);
		break;
	case SHARED:
		s->changes = s->flushes * (t->sockets - 1);
		break;
	case READ:
		if (t->tables >= HYDRA_SAMPLE_TABLES)
			s->pages = 1024ULL << rate;
		break;
	case ALONE:
		s->running = t->cpus;
		s->domains = 1;
		s->squares = (u64)t->cpus * t->cpus;
		break;
	case MOVE:
		half = (t->cpus + 1) / 2;
		s->running = 2 * half;
		s->domains = 2;
		s->squares = 2ULL * half * half;
		s->spared = s->flushes * half;
		break;
	default:
		s->running = s->domains = s->squares = 0;
	}
	if (s->running)
		s->linux_pays = (double)s->flushes * (s->running - 1) * p->interrupt;
	if (s->domains)
		s->linux_pays += (double)s->pages * (s->domains - 1) / s->domains * p->walk;
	s->trees_pay = (double)s->flushes * p->flush + (double)s->changes * p->change;
	if (s->running)
		s->trees_pay += ((double)s->flushes * (s->running - 1) - s->spared) * p->interrupt;
}

static double price_of_roots(const struct trace *t, const struct second *s)
{
	return (double)s->domains * t->prices.root + (double)s->running * t->prices.interrupt;
}

static double price_of_split(const struct life *w, const struct second *s, u32 domains)
{
	const struct hydra_prices *p = &w->t->prices;

	return (double)domains * p->root + (double)s->running * p->interrupt +
	       (double)domains * w->tables * p->fill;
}

static double price_of_return(const struct life *w, const struct second *s, u32 domains)
{
	const struct hydra_prices *p = &w->t->prices;

	return (double)domains * w->tables * p->release + (double)s->running * p->interrupt;
}

static void decide(struct life *w)
{
	w->decided[w->decisions++ % (MOST_DECISIONS + 1)] = w->looks;
}

static u32 decisions_in_an_hour(const struct life *w)
{
	u32 i, nr = 0;

	for (i = 0; i < w->decisions && i <= MOST_DECISIONS; i++)
		nr += w->looks - w->decided[i] < HOUR;
	return nr;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

/* What the look finds of a process with trees, and what that has cost it */
static void live_with_trees(struct life *w, const struct second *s, struct hydra_process_look *l)
{
	const struct hydra_prices *p = &w->t->prices;
	u32 come = l->domains > w->trees ? l->domains - w->trees : 0;
	u64 more = w->grown + come * w->tables * w->t->filled / 4;
	double late = come * (double)p->root + more * (double)p->fill, net;

	l->domains = w->trees += come;
	l->fills = w->owed + more;
	l->spared = s->spared;
	l->changes = l->entries = s->changes;
	if (l->domains)
		l->pages = l->pages * (l->domains - 1) / l->domains;
	net = s->linux_pays - s->trees_pay - late - w->owed * (double)p->fill;
	w->cost += s->linux_pays - net;
	w->net += net;
	w->balance += net;
	w->gains += larger(net, 0) - w->gains / 64;
	w->worst = larger(w->worst, s->trees_pay - s->linux_pays + late + l->spent +
			  larger(0, price_of_return(w, s, w->trees) - w->back));
	w->owed = w->grown = 0;
}

static void live_plain(struct life *w, const struct second *s)
{
	double missed = s->linux_pays - s->trees_pay, rent = 0;
	const struct hydra_prices *p = &w->t->prices;

	w->cost += s->linux_pays;
	if (s->running)
		rent = s->flushes * (s->running - (double)s->squares / s->running) * p->interrupt;
	if (s->domains)
		rent += (double)s->pages * (s->domains - 1) / s->domains * p->walk;
	w->rent += rent;
	if (w->splits)
		return;
	w->missed += larger(missed, 0);
	w->missed_most = larger(w->missed_most, missed);
	if (rent < s->running * SECOND / 500 * (1 + 1e-6))
		w->quiet += larger(missed, 0);
}

static u32 tries(const struct life *w)
{
	return w->failed < 7 ? w->failed : 7;
}

static void split(struct life *w, const struct second *s, const struct hydra_process_look *l)
{
	hydra_process_split(&w->account, &w->t->prices, l);
	w->trees = s->domains;
	w->owed = s->domains * w->tables * w->t->filled / 4;
	w->net = w->balance = -price_of_roots(w->t, s);
	w->cost -= w->net;
	w->peak = w->gains = w->cap = 0;
	w->price = w->limit;
	w->splits++;
	decide(w);
}

static void unsplit(struct life *w, const struct hydra_process_look *l)
{
	u64 price = hydra_return_price(&w->t->prices, l);

	hydra_process_returned(&w->account, price);
	w->cost += price;
	w->returns++;
	w->failed += w->balance < 0;
	w->since = 0;
	w->wide = 0;
	w->trees = 0;
	w->grown = 0;
	w->rent = 0;
	decide(w);
}

/* One look, and what it decides */
static void live(struct life *w, u32 kind, u8 number)
{
	struct hydra_process_look l;
	bool was = w->account.split;
	struct second s;
	double over;

	make_second(w->t, kind, number, &s);
	l = (struct hydra_process_look){
		.ns = SECOND,
		.spent = PRICE_KEEPER + (w->sampling ? SAMPLED : 0),
		.running = s.running,
		.squares = s.squares,
		.domains = s.domains,
		.alone = s.domains == 1,
		.tables = w->tables,
		.flushes = s.flushes,
		.sampled = w->sampling,
		.pages = w->sampling ? s.pages : 0,
	};
	w->looks++;
	w->since++;
	w->alone = l.alone ? w->alone + 1 : s.domains ? 0 : w->alone;
	w->wide = w->alone >= 10 ? 0 : w->wide + (s.domains > 1);
	w->cpu += s.running * SECOND;
	w->linux_cost += s.linux_pays;
	w->cost += l.spent;
	w->spent += l.spent;
	w->idle_spent += s.running ? 0 : l.spent;
	if (was)
		live_with_trees(w, &s, &l);
	else
		live_plain(w, &s);
	w->back = price_of_return(w, &s, l.domains);
	w->limit = larger(price_of_split(w, &s, l.domains) + w->back, was ? w->price : 0);
	w->limit_most = larger(w->limit_most, w->limit);
	w->back_most = larger(w->back_most, w->back);
	w->needed = (w->limit - w->back) * (1 << tries(w));
	w->why = hydra_process_looked(&w->account, &w->t->prices, &l);
	if (was) {
		w->cap = larger(w->cap, larger(w->limit, w->gains));
		w->cap_most = larger(w->cap_most, w->cap);
		w->peak = larger(w->peak, w->net);
		w->balance = w->balance < larger(w->limit, w->gains) ? w->balance : larger(w->limit, w->gains);
		w->failed = w->balance >= w->limit ? 0 : w->failed;
	}
	if (w->why == HYDRA_WHY_SAVES && !was)
		split(w, &s, &l);
	else if (w->why != HYDRA_WHY_SAVES && was)
		unsplit(w, &l);
	w->sampling = hydra_process_samples(&w->account, w->tables);
	over = w->cost - w->linux_cost - w->cpu / 100 - w->idle_spent;
	w->low = over < w->low ? over : w->low;
	w->high = larger(w->high, over - w->low);
}

static void be_born(struct life *w, const struct trace *t)
{
	*w = (struct life){ .t = t, .tables = t->tables };
}

/* Between two events it gets more memory. */
static void grow(struct life *w)
{
	w->grown += w->trees * (u64)w->t->grows * w->t->filled / 4;
	w->tables += w->t->grows;
}

/* What any process may rely on, after each look */
static bool keeps_all(const struct life *w, bool was, struct verdict *v)
{
	double minute = 60 * w->t->sockets * w->t->cpus * SECOND / 100;

	if (!keeps(v, "purse", w->cost - w->linux_cost, w->cpu / 100 + w->idle_spent + w->worst) ||
	    !keeps(v, "purse in a minute", w->high,
		   larger(minute, w->limit_most) + w->cap_most + w->worst) ||
	    !keeps(v, "decisions in an hour", decisions_in_an_hour(w), MOST_DECISIONS))
		return false;
	if (!was)
		return !w->account.split ||
		       (keeps(v, "looks with two domains before a split", 3, w->wide) &&
			keeps(v, "looks before a try", w->failed ? 10 << tries(w) : 0, w->since));
	if (w->why == HYDRA_WHY_SHARED &&
	    !keeps(v, "loss before a return",
		   w->limit + (w->peak < w->price ? w->peak : w->price), w->peak - w->net))
		return false;
	return keeps(v, "loss after a gain", w->peak - w->net, w->cap + w->limit + w->worst) &&
	       (!w->account.split || keeps(v, "looks with one domain before a return", w->alone, 9));
}

/* If plain Linux is best in each second */
static bool keeps_linux(const struct life *w, struct verdict *v)
{
	return keeps(v, "tries where Linux is best", w->cost - w->linux_cost - w->spent,
		     w->splits * (w->limit_most + w->back_most + w->worst));
}

/* If trees are best in each second, and the process stays as it is */
static bool keeps_trees(const struct life *w, const struct second *s, struct verdict *v)
{
	double earns = s->running * SECOND / 100 - PRICE_KEEPER - (s->pages ? SAMPLED : 0);
	double saves = larger(w->limit - w->back, w->limit / earns * w->missed_most);
	u32 looks = 3 + (s->pages ? HYDRA_SAMPLE_LOOKS + 1 : 0);

	return keeps(v, "decisions where trees are best", w->splits + w->returns, 1) &&
	       keeps(v, "before a split where trees are best", w->missed,
		     saves + looks * w->missed_most + w->quiet);
}

static bool check_look(const struct life *w, bool was, u32 kinds, struct verdict *v)
{
	if (!keeps_all(w, was, v))
		return false;
	/* Samples tell of walks late. */
	if (!(kinds & 1u << READ) && !was) {
		if (w->account.split && !keeps(v, "rent before a try", w->needed, w->rent))
			return false;
		if (w->why == HYDRA_WHY_SHARED && w->rent > w->needed * (1 + 1e-6) &&
		    !keeps(v, "looks that tries hold back", w->since, (10 << tries(w)) - 1))
			return false;
	}
	return kinds & ~(1u << SHARED | 1u << ALONE | 1u << IDLE) || keeps_linux(w, v);
}

bool check_process(const struct trace *t, struct verdict *v)
{
	struct second s;
	struct life w;
	u32 i, n, kinds = 0;
	bool was, steady = !t->grows;

	for (i = 0; i < t->nr; i++) {
		kinds |= 1u << t->event[i].kind;
		steady &= t->event[i].kind == OWN || !((t->event[i].domain ^ t->event[0].domain) & 15);
	}
	steady &= kinds == 1u << OWN || kinds == 1u << READ;
	be_born(&w, t);
	for (i = 0; i < t->nr; i++, grow(&w))
		for (n = nr_looks(t->event[i].domain); n; n--) {
			was = w.account.split;
			make_second(t, t->event[i].kind, t->event[i].domain, &s);
			live(&w, t->event[i].kind, t->event[i].domain);
			if (!check_look(&w, was, kinds, v) || (steady && !keeps_trees(&w, &s, v)))
				return false;
		}
	return true;
}

/* A process that does what hurts the rules */
static void choose_event(const struct life *w, u32 how, u8 rate, struct event *e, u64 *random)
{
	const struct hydra_process *a = &w->account;

	switch (how) {
	case 0:		/* plain Linux is best */
		e->kind = draw(random, 8) ? SHARED : draw(random, 2) ? ALONE : IDLE;
		break;
	case 1:		/* trees are best */
		e->kind = OWN;
		return;
	case 2:		/* at one rate, as a sample stands for ten looks */
		e->kind = READ;
		e->domain = (e->domain & 0xf0) | rate;
		return;
	case 3:		/* what it does changes with each decision */
		e->kind = a->split ? SHARED : draw(random, 2) ? OWN : READ;
		break;
	case 4:		/* a split gains until it has paid, and then loses */
		e->kind = a->split && w->balance >= w->limit ? SHARED : OWN;
		if (a->split && !draw(random, 2))
			e->kind = SHARED;
		break;
	case 5:		/* gains for long, and then loses */
		e->kind = draw(random, 6) ? OWN : SHARED;
		break;
	case 6:		/* moves */
		e->kind = draw(random, 3) ? ALONE : MOVE;
		return;
	default:
		e->kind = draw(random, KINDS);
		return;
	}
	if (draw(random, 8))
		e->domain = (e->domain & 0xf0) | rate;
}

void make_process(struct trace *t, u64 *random)
{
	static const u32 machines[][2] = { { 4, 2 }, { 8, 32 }, { 16, 8 }, { 2, 128 } };
	u32 machine = draw(random, 4), how = draw(random, 8);
	u8 rate = draw(random, 4) ? 8 + draw(random, 8) : draw(random, 16);
	struct life w;
	u32 i, n;

#define VARY(price) (t->prices.price = t->prices.price / 2 + draw(random, t->prices.price * 3 / 2 + 1))
	if (draw(random, 2)) {
		VARY(interrupt);
		VARY(fill);
		VARY(change);
		VARY(flush);
		VARY(walk);
		VARY(root);
		VARY(release);
	}
	t->sockets = machines[machine][0];
	t->cpus = machines[machine][1];
	t->tables = 1u << draw(random, 21);
	t->grows = draw(random, 4) ? 0 : t->tables << draw(random, 5);
	t->filled = draw(random, 5);
	t->nr = 4 + draw(random, 60);
	be_born(&w, t);
	for (i = 0; i < t->nr; i++) {
		struct event *e = &t->event[i];

		e->domain = draw(random, 256);
		choose_event(&w, how, rate, e, random);
		for (n = nr_looks(e->domain); n; n--)
			live(&w, e->kind, e->domain);
		grow(&w);
	}
}
