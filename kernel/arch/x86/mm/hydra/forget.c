// SPDX-License-Identifier: GPL-2.0-only
/*
 * Forgetting: a domain that no longer uses a leaf table leaves it, and then pays for it neither
 * interrupts nor memory. A domain which links the canonical table leaves it like one with a
 * replica.
 *
 * hydra_keeper() looks at the tables: at those whose rent has reached a quarter of what it costs
 * a domain to come back (rent.c), and four times in hydra_idle_seconds at all. A look reads and
 * clears the accessed bit of each domain's link to the table. A domain that has not walked the
 * table ages by the quarters of rent, or by one if there is no rent, and leaves at
 * HYDRA_AGE_FORGET. See auto_rules.h for what this costs at most.
 *
 * So a domain whose CPUs have left the process leaves all its leaf tables. Its root and upper
 * tables stay, and so do copies of huge entries. If a single domain still runs the process, the
 * process returns to plain Linux (hydra_return_alone()), and its tables move to that domain
 * (rehome.c). So does a table whose owner has left, if a single domain still uses it. Under
 * replication "eager" no domain leaves.
 *
 * The keeper does not run in the program's time, and waits for no lock of the program:
 * mmap_lock is not needed, as by drop.c, and a table whose lock is busy has to wait for the next
 * look. It does nothing that would interrupt an isolated CPU which runs the process.
 *
 * A look is bounded: interrupts are off for an eighth of a PMD table, or for LINKS_AT_ONCE links,
 * or for STEPS_AT_ONCE entries on the way to a PMD table. A call of the keeper ends after
 * PARTS_AT_ONCE such parts and tables that domains leave, each of which costs a flush. An attempt
 * to move a table counts as PARTS_OF_MOVE of these: it takes mmap_lock. After FAILS_AT_ONCE
 * attempts that fail, the call tries no more. The keeper goes on in the next jiffy.
 */

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include <trace/events/hydra.h>

#include "domain.h"
#include "drop.h"
#include "home.h"
#include "rehome.h"
#include "rent.h"
#include "splitter.h"
#include "state.h"
#include "table.h"
#include "tlb.h"
#include "walk.h"

#define LINKS_AT_ONCE	PTRS_PER_PTE
#define STEPS_AT_ONCE	PTRS_PER_PUD
#define PARTS_AT_ONCE	256
#define PARTS_OF_MOVE	16
#define FAILS_AT_ONCE	4

/*
 * A round of the keeper through the list, which may take several calls. The keeper alone uses it.
 *
 * @nr: its number, from 1 on
 * @under_way: it has not come to its end
 * @idle: it looks at tables without rent, too
 * @last_idle: jiffies at which the last such round began
 */
static struct hydra_round {
	unsigned long nr;
	bool under_way;
	bool idle;
	unsigned long last_idle;
} keeper_round;

/*
 * A look at one link. Return: does the domain leave the table?
 *
 * A link that hardware or another CPU changes just now is left for the next look.
 */
static bool hydra_age_link(pteval_t *link, u8 quarters)
{
	pteval_t val = READ_ONCE(*link), next;
	u8 age = hydra_age(hydra_link_age(val), val & _PAGE_ACCESSED, quarters);

	if (!hydra_is_table(val))
		return false;
	next = hydra_link_aged(val, age);
	if (next != val && !try_cmpxchg(link, &val, next))
		return false;
	return hydra_forgets(age);
}

/*
 * A look at a leaf table. Context: interrupts off.
 *
 * @looked: the number of links is added
 *
 * Return: does any domain leave?
 */
static bool hydra_look_at_table(struct hydra_table *t, bool idle, unsigned int *looked)
{
	u8 rent = READ_ONCE(t->rent), quarters = hydra_rent_quarters(rent) ?: idle;
	hydra_mask_t users;
	bool leaves = false;
	unsigned int d;

	if (!quarters)
		return false;
	WRITE_ONCE(t->rent, hydra_rent_left(rent));
	hydra_mask_zero(&users);
	hydra_mask_add(&users, &t->users);
	for_each_hydra_domain(d, &users) {
		pteval_t *own = READ_ONCE(t->parent->table[d]);

		if (own)
			leaves |= hydra_age_link(own + hydra_table_index(t), quarters);
		++*looked;
	}
	return leaves;
}

/*
 * Look at the entries of a PMD table from h->look_at on, up to an eighth of the table, or until
 * LINKS_AT_ONCE links have been looked at, or domains leave @room tables. @moves: or have to move.
 *
 * Context: interrupts off. Return: bits of the entries of these tables, counted from the entry of
 * h->look_at; h->look_at becomes the address after the last entry.
 */
static u64 hydra_look_at_part(struct hydra_mm *h, const pteval_t *pmd, bool idle, bool moves,
			      unsigned int room)
{
	unsigned int i, looked = 0, first = pmd_index(h->look_at);
	unsigned int end = ALIGN(first + 1, HYDRA_PART_ENTRIES);
	u64 leave = 0;

	for (i = first; i < end && looked < LINKS_AT_ONCE && hweight64(leave) < room; i++) {
		pteval_t val = READ_ONCE(pmd[i]);
		struct hydra_table *t = hydra_is_table(val) ?
					hydra_table_of(hydra_next_table(val)) : NULL;

		if (!t || hydra_mask_empty(&t->users))
			continue;
		if (hydra_look_at_table(t, idle, &looked) ||
		    (moves && hydra_has_lost_owner(h, hydra_next_table(val))))
			leave |= BIT_ULL(i - first);
	}
	h->look_at += (i - first) * PMD_SIZE;
	return leave;
}

/* Is there rent in the part of a PMD table that begins at h->look_at? Then it is looked at now. */
static bool hydra_take_part(const struct hydra_mm *h, struct hydra_table *t, bool idle)
{
	unsigned int first = pmd_index(h->look_at);
	u8 rent = READ_ONCE(t->rent), part = BIT(first / HYDRA_PART_ENTRIES);

	/* In the middle of a part, which has been taken */
	if (first % HYDRA_PART_ENTRIES)
		return true;
	if (rent & part)
		WRITE_ONCE(t->rent, rent & ~part);
	return idle || rent & part;
}

/*
 * Find the next part of the address space to look at, and look at it.
 *
 * Context: interrupts off, so no table is freed.
 * Return: as hydra_look_at_part(). @from: the address that its first bit stands for
 */
static u64 hydra_look_on(struct hydra_mm *h, bool idle, bool moves, unsigned int room,
			 unsigned long *from)
{
	struct hydra_iter it = {
		.mm = h->mm,
		.level = PG_LEVEL_2M,
		.steps = STEPS_AT_ONCE,
		.next = READ_ONCE(h->active) ? h->look_at : TASK_SIZE_MAX,
	};
	struct hydra_table *t;

	if (!hydra_next_canonical(&it)) {
		h->look_at = it.next;
		return 0;
	}
	h->look_at = max(h->look_at, it.addr);
	*from = h->look_at;
	t = hydra_table_of(it.table);
	if (!t || (!idle && !READ_ONCE(t->rent) &&
		   !(pmd_index(h->look_at) % HYDRA_PART_ENTRIES))) {
		h->look_at = it.next;
		return 0;
	}
	if (hydra_take_part(h, t, idle))
		return hydra_look_at_part(h, it.table, idle, moves, room);
	h->look_at += HYDRA_PART_ENTRIES * PMD_SIZE;
	return 0;
}

/*
 * Does a domain link a table of which another one of the same home has a replica? Cores have,
 * where flushes look at marks. Then the owner stays (invariant 2).
 *
 * Context: the leaf table's lock.
 */
static bool hydra_owns_for_others(const struct hydra_table *t, const pteval_t *canonical,
				  unsigned int d)
{
	unsigned int other;

	if (READ_ONCE(t->table[d]) != canonical)
		return false;
	for_each_hydra_domain(other, &t->users)
		if (READ_ONCE(t->table[other]) != canonical &&
		    hydra_is_home(t->hmm, other, canonical))
			return true;
	return false;
}

/* Which domains leave a table? Context: the leaf table's lock. */
static void hydra_leavers(const struct hydra_shared *s, hydra_mask_t *leavers)
{
	struct hydra_table *t = s->t;
	struct mm_struct *mm = t->hmm->mm;
	struct cpumask *const *cpus = hydra_domains_of(t->hmm)->cpus;
	unsigned int d;

	hydra_mask_zero(leavers);
	/* The flush reaches these, too. */
	for_each_hydra_domain(d, &t->hmm->universal)
		if (hydra_runs_isolated(mm, cpus[d]))
			return;
	for_each_hydra_domain(d, &t->users) {
		pteval_t link = READ_ONCE(*hydra_slot(t, d));

		if (link & _PAGE_ACCESSED || !hydra_forgets(hydra_link_age(link)) ||
		    hydra_owns_for_others(t, s->canonical, d) || hydra_runs_isolated(mm, cpus[d]))
			continue;
		hydra_mask_set(d, leavers);
		trace_hydra_forget(mm, t->base, d, READ_ONCE(t->rent), hydra_link_age(link));
	}
}

/*
 * Let the domains leave a table that have not used it for long. Return: has the table lost its
 * owner?
 */
static bool hydra_forget(struct hydra_mm *h, unsigned long addr)
{
	hydra_mask_t leavers;
	struct hydra_shared s;
	unsigned int d;
	bool lost;

	if (!hydra_trylock_shared(h, addr, &s))
		return false;
	hydra_leavers(&s, &leavers);
	hydra_drop(&s, &leavers);
	lost = hydra_has_lost_owner(h, s.canonical);
	hydra_unlock_shared(&s);
	for_each_hydra_domain(d, &leavers) {
		struct hydra_domain *dom = h->domain[d];

		WRITE_ONCE(dom->forgotten, dom->forgotten + 1);
		hydra_stat_add(h, HYDRA_STAT_FORGOTTEN, 1);
	}
	return lost;
}

/*
 * Look at the tables of an address space.
 *
 * @parts: how many parts and tables that domains leave at most; less those that there were. The
 *	last part may have one such table more.
 *
 * Return: true if the look has come to its end.
 */
static bool hydra_look(struct hydra_mm *h, bool idle, unsigned int *parts)
{
	unsigned int fails = 0, room;
	unsigned long from = 0;
	u64 leave;

	while (h->look_at < TASK_SIZE_MAX) {
		/* A table that moves between two looks for rent would soon move back. */
		bool moves = idle && fails < FAILS_AT_ONCE;

		if (!*parts)
			return false;
		--*parts;
		room = moves ? *parts / PARTS_OF_MOVE : *parts;
		local_irq_disable();
		leave = hydra_look_on(h, idle, moves, room ?: 1, &from);
		local_irq_enable();
		*parts -= min(*parts, hweight64(leave));
		for (; leave; leave &= leave - 1) {
			unsigned long addr = from + __ffs64(leave) * PMD_SIZE;

			if (!hydra_forget(h, addr) || !moves)
				continue;
			fails += !hydra_rehome_to_user(h, addr);
			*parts -= min(*parts, PARTS_OF_MOVE);
			cond_resched();
		}
		cond_resched();
	}
	return true;
}

/* Begin a look at an address space, if there is anything to look at. */
static bool hydra_begin_look(struct hydra_mm *h, bool idle)
{
	/* In the middle of a look */
	if (h->look_at)
		return true;
	if (!idle && !READ_ONCE(h->rent_due))
		return false;
	hydra_note_prices(h);
	WRITE_ONCE(h->rent_due, false);
	/*
	 * Before the eighths. Pairs with __hydra_rent_due(): a CPU that finds rent_due set has
	 * written an eighth that the look finds.
	 */
	smp_mb();
	return true;
}

/*
 * The turn of an address space. It leaves the list when it is plain Linux again, and under
 * replication "eager". A process that has locked memory wants no faults: as long as it has, it
 * stays in the list, and no domain leaves a table.
 */
static void hydra_take_turn(struct hydra_mm *h, bool idle, unsigned int *parts)
{
	bool done = true, stays = !hydra_eager(h), locked = READ_ONCE(h->mm->locked_vm);

	/* Also in the middle of a look, which may take longer than the time between two. */
	if (idle && stays && !locked && !READ_ONCE(h->returning))
		hydra_return_alone(h);
	if (READ_ONCE(h->returning))
		hydra_go_on_returning(h->mm);
	else if (stays && !locked && hydra_begin_look(h, idle))
		done = hydra_look(h, idle, parts);
	if (done)
		h->look_at = 0;
	/* active after the list; see hydra_next_kept(). */
	if (stays && READ_ONCE(h->active))
		hydra_keep_again(h, !done);
}

static void hydra_begin_round(struct hydra_round *r)
{
	r->nr++;
	r->under_way = true;
	r->idle = time_after_eq(jiffies, r->last_idle + hydra_look_period());
	if (r->idle)
		r->last_idle = jiffies;
}

/*
 * Give turns to the address spaces. Those which have had theirs are the last in the list.
 *
 * Return: false if the round has come to its end.
 */
static bool hydra_go_on(struct hydra_round *r)
{
	unsigned int parts = PARTS_AT_ONCE;
	struct hydra_mm *h;
	bool had_turn;

	while (parts) {
		h = hydra_next_kept();
		if (!h)
			return false;
		had_turn = h->look_round == r->nr && !h->look_at;
		h->look_round = r->nr;
		if (had_turn)
			hydra_keep_again(h, true);
		else
			hydra_take_turn(h, r->idle, &parts);
		mmput_async(h->mm);
		if (had_turn)
			return false;
		cond_resched();
	}
	return true;
}

/* A call of the keeper. Context: process context, no locks; may sleep. */
static void hydra_keeper(struct work_struct *work)
{
	unsigned long period = hydra_look_period(), next = jiffies + 1;
	struct hydra_round *r = &keeper_round;
	bool begins = !r->under_way, more;

	if (!period)
		return;
	if (begins)
		hydra_begin_round(r);
	r->under_way = hydra_go_on(r);
	more = hydra_rehome(begins && r->idle);
	/*
	 * In a round of several calls, an address space may have asked after its turn, and have
	 * found the timer set.
	 */
	if (!r->under_way)
		next = begins ? r->last_idle + period : jiffies + msecs_to_jiffies(HYDRA_LATE_MS);
	if (more)
		hydra_keeper_wake(1);
	else if (hydra_nr_kept() || hydra_rehome_asked(false))
		hydra_keeper_wake(time_after(next, jiffies) ? next - jiffies : 1);
}

static int __init hydra_keeper_init(void)
{
	INIT_DELAYED_WORK(&hydra_keeper_work, hydra_keeper);
	return 0;
}
core_initcall(hydra_keeper_init);

#include "tests/auto_rules-kunit.h"
#include "tests/process_rules-kunit.h"
#include "tests/forget-kunit.h"
