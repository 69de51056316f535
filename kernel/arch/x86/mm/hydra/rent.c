// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rent: what it costs domains to share a leaf table, and the list of address spaces that
 * are split.
 *
 * A flush of a shared table interrupts the CPUs of all sharers, and a change is made in each
 * copy. Both add to the rent of the table (auto_rules.h). With each quarter of what it would
 * cost a domain to come back, hydra_keeper() looks which domains still walk the table
 * (forget.c): the CPU that adds the quarter marks the eighth of the PMD table, and wakes the
 * keeper.
 *
 * The link of a domain to a table that domains share is written without the accessed bit
 * (HYDRA_LINK). Hardware sets the bit when a CPU of the domain walks the table, and a look clears
 * it. A link to a table that one domain uses alone has the bit from birth on (__hydra_install(),
 * hydra_join()), so hardware need not set it, which costs a locked operation. If a second domain
 * comes, the first look takes such a link for used. A CPU that has the way to the table in its
 * paging-structure caches uses the table without setting the bit. So bit, age and rent are hints,
 * to which no rule of Documentation/mm/hydra/rules.rst may be tied.
 *
 * Nothing of this runs as long as no address space is split: no timer runs. (A process that
 * moves to another node sets the timer once, for rehome.c.)
 *
 * Locking: the list is guarded by a spinlock, which nests in no lock of a table. So is the time
 * for which the keeper's timer is set, by another one, which nests in locks of tables. Members of
 * struct hydra_mm that the keeper alone uses need none.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/string.h>

#include "process_rules.h"
#include "rent.h"
#include "state.h"

/* What things cost on this machine */
struct hydra_prices hydra_prices __read_mostly = HYDRA_PRICES;

/* The boot parameter names the price of an interrupt: it is not measured. */
bool hydra_knows_interrupt __initdata;

/**
 * hydra_price_parse - read a price
 * @text: ns
 * @price: set to it
 *
 * Return: 0, or -EINVAL.
 */
int hydra_price_parse(const char *text, u32 *price)
{
	unsigned int ns;

	if (kstrtouint(text, 10, &ns) || !ns || ns > HYDRA_MAX_PRICE)
		return -EINVAL;
	WRITE_ONCE(*price, ns);
	return 0;
}

#define HYDRA_PRICE_NAME(name)	{ #name, &hydra_prices.name },

static const struct {
	const char *name;
	u32 *price;
} price_names[] __initconst = { HYDRA_EACH_PRICE(HYDRA_PRICE_NAME) };

static int __init hydra_prices_setup(char *text)
{
	char *each, *name;
	int i;

	while ((each = strsep(&text, ","))) {
		name = strsep(&each, ":");
		for (i = 0; i < ARRAY_SIZE(price_names); i++)
			if (!strcmp(name, price_names[i].name))
				break;
		if (!each || i == ARRAY_SIZE(price_names) ||
		    hydra_price_parse(each, price_names[i].price))
			pr_err("boot parameter hydra_prices: %s is not understood: ignored\n", name);
		else if (price_names[i].price == &hydra_prices.interrupt)
			hydra_knows_interrupt = true;
	}
	return 1;
}
__setup("hydra_prices=", hydra_prices_setup);

/* After so many seconds without use a domain leaves a table; 0: it never does */
unsigned int hydra_idle_seconds __read_mostly = HYDRA_IDLE_SECONDS;

/* Initialised in forget.c. On an unbound workqueue, so never on an isolated CPU */
struct delayed_work hydra_keeper_work;
/* The jiffies for which its timer is set */
static unsigned long wake_at;
static DEFINE_SPINLOCK(wake_lock);

static DEFINE_SPINLOCK(kept_lock);
static LIST_HEAD(kept);
static unsigned int nr_kept;

/**
 * hydra_look_period - the time between two idle looks
 *
 * Context: any.
 * Return: jiffies, 0 if domains never leave a table.
 */
unsigned long hydra_look_period(void)
{
	return DIV_ROUND_UP(READ_ONCE(hydra_idle_seconds) * HZ, HYDRA_IDLE_LOOKS);
}

/**
 * hydra_keeper_wake - have hydra_keeper() look soon
 * @delay: jiffies, at most
 *
 * Never puts off what is pending: the timer may have run out already, and the keeper wait for its
 * turn. A CPU that finds it pending relies on that call of the keeper. So what the CPU has written
 * for the keeper comes before the look at "pending", which ends before the keeper begins.
 *
 * Context: any but NMI.
 */
void hydra_keeper_wake(unsigned long delay)
{
	unsigned long at = jiffies + delay;

	if (!READ_ONCE(hydra_idle_seconds))
		return;
	guard(spinlock_irqsave)(&wake_lock);
	/* Pairs with the full barrier after which a worker calls the keeper. */
	smp_mb__after_spinlock();
	if (delayed_work_pending(&hydra_keeper_work) && time_before_eq(wake_at, at))
		return;
	wake_at = at;
	mod_delayed_work(system_unbound_wq, &hydra_keeper_work, delay);
}

/* Initialised in auto.c; as hydra_keeper_work */
struct delayed_work hydra_auto_work;

/* It is pending, or runs; or the kernel boots, and hydra_auto_begin() is still to come */
bool hydra_auto_looks __read_mostly = true;

/* From look to look; set by tests */
unsigned int hydra_look_ms __read_mostly = HYDRA_LOOK_MS;

/**
 * hydra_auto_wake - have hydra_auto_look() look at the processes with policy "auto"
 * @delay: jiffies; replaces what is pending
 *
 * Context: process context.
 */
void hydra_auto_wake(unsigned long delay)
{
	WRITE_ONCE(hydra_auto_looks, true);
	mod_delayed_work(system_unbound_wq, &hydra_auto_work, delay);
}

void __hydra_auto_ask(void)
{
	hydra_auto_wake(msecs_to_jiffies(READ_ONCE(hydra_look_ms)));
}

static void hydra_rehome_wake(struct irq_work *work)
{
	hydra_keeper_wake(hydra_look_period());
}

/* Lazy: runs in the next tick, so it interrupts no CPU that has one. */
static struct irq_work rehome_work = IRQ_WORK_INIT_LAZY(hydra_rehome_wake);
static bool rehome_asked;

/**
 * hydra_rehome_ask - a process that is plain Linux may have leaf tables on a node it has left
 *
 * hydra_keeper() then looks at all processes, at its next idle look (rehome.c). A switch holds the
 * lock of its run queue, under which no timer may be set: so an irq_work sets it.
 *
 * Context: any but NMI.
 */
void hydra_rehome_ask(void)
{
	/* hydra_last before the look. Pairs with xchg() in hydra_rehome_asked(). */
	smp_mb();
	if (READ_ONCE(rehome_asked))
		return;
	WRITE_ONCE(rehome_asked, true);
	irq_work_queue(&rehome_work);
}

/**
 * hydra_rehome_asked - has hydra_rehome_ask() been called?
 * @take: and this call answers it
 *
 * Context: hydra_keeper().
 * Return: true if so.
 */
bool hydra_rehome_asked(bool take)
{
	/* A process that moves after this asks again. */
	return take ? xchg(&rehome_asked, false) : READ_ONCE(rehome_asked);
}

/**
 * hydra_set_idle_seconds - choose after which time without use a domain leaves a table
 * @seconds: at most HYDRA_IDLE_SECONDS_MAX; 0: never, whatever the rent
 *
 * Wakes the keeper in any case: it may just have the only address space out of the list.
 *
 * Context: process context.
 */
void hydra_set_idle_seconds(unsigned int seconds)
{
	WRITE_ONCE(hydra_idle_seconds, seconds);
	hydra_keeper_wake(0);
}

/*
 * What things cost an address space. A domain that comes back to a table may need as many faults
 * as there are windows of prefetching in the table.
 */
static struct hydra_prices hydra_prices_of(const struct hydra_mm *h)
{
	struct hydra_prices its = hydra_prices;
	u64 fill = (u64)its.fill << (HYDRA_PREFETCH_MAX - hydra_choice_of(h->mm).prefetch);

	its.fill = min(fill, U32_MAX);
	return its;
}

/**
 * hydra_note_prices - note what a flush and a change add to the rent
 * @h: address space
 *
 * A domain counts as many CPUs as run the program in a domain with a tree, on average. Under
 * replication "eager" no domain leaves a table, and no table pays.
 *
 * Context: any but NMI.
 */
void hydra_note_prices(struct hydra_mm *h)
{
	unsigned int domains = bitmap_weight(h->trees.bits, HYDRA_MAX_DOMAINS) ?: 1;
	unsigned int cpus = DIV_ROUND_UP(cpumask_weight(mm_cpumask(h->mm)) ?: 1, domains);
	struct hydra_prices its = hydra_prices_of(h);
	u64 forget = hydra_forget_price(&its, cpus);
	bool pays = !hydra_eager(h);

	WRITE_ONCE(h->rent_flush, pays ? hydra_rent_step((u64)its.interrupt * cpus, forget) : 0);
	WRITE_ONCE(h->rent_change, pays ? hydra_rent_step(its.change, forget) : 0);
}

/**
 * __hydra_rent_due - tell hydra_keeper() of a table with rent to look at
 * @t: of the leaf table
 *
 * Context: as hydra_pay().
 */
void __hydra_rent_due(struct hydra_table *t)
{
	struct hydra_mm *h = t->hmm;

	/* Two CPUs at once may lose an eighth: a later flush finds that. */
	WRITE_ONCE(t->parent->rent, READ_ONCE(t->parent->rent) | hydra_part_of(t));
	/* The eighth before rent_due; pairs with hydra_begin_look(). */
	smp_mb();
	if (READ_ONCE(h->rent_due))
		return;
	WRITE_ONCE(h->rent_due, true);
	hydra_keeper_wake(msecs_to_jiffies(HYDRA_LATE_MS));
}

/* Has an address space ever been in the list? Before, @kept is 0 as allocated. */
static bool hydra_was_kept(const struct hydra_mm *h)
{
	return READ_ONCE(h->kept.next);
}

/**
 * hydra_keep - have the keeper look at an address space until it is plain Linux again
 * @h: the address space, which has been split, or whose domains may leave tables again
 *
 * Context: mmap_lock held for writing.
 */
void hydra_keep(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	hydra_note_prices(h);
	/* active before the list; pairs with hydra_next_kept(). */
	smp_mb();
	if ((hydra_was_kept(h) && !list_empty_careful(&h->kept)) || hydra_eager(h))
		return;
	hydra_keep_again(h, false);
	hydra_keeper_wake(hydra_look_period());
}

/**
 * hydra_keep_again - put an address space into the list, unless it is there
 * @h: the address space, which does not end meanwhile
 * @first: before all others
 *
 * Context: process context.
 */
void hydra_keep_again(struct hydra_mm *h, bool first)
{
	guard(spinlock)(&kept_lock);
	if (!hydra_was_kept(h))
		INIT_LIST_HEAD(&h->kept);
	if (!list_empty(&h->kept))
		return;
	if (first)
		list_add(&h->kept, &kept);
	else
		list_add_tail(&h->kept, &kept);
	WRITE_ONCE(nr_kept, nr_kept + 1);
}

static void hydra_take_kept(struct hydra_mm *h)
{
	lockdep_assert_held(&kept_lock);
	list_del_init(&h->kept);
	WRITE_ONCE(nr_kept, nr_kept - 1);
}

/**
 * hydra_keep_settings - the settings of an address space have changed
 * @h: the address space; perhaps its domains may leave tables again
 *
 * Context: mmap_lock held for writing.
 */
void hydra_keep_settings(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	hydra_note_prices(h);
	if (h->active)
		hydra_keep(h);
}

/**
 * hydra_unkeep - an address space ends
 * @h: the address space
 *
 * Takes the lock if @h has ever been in the list: the keeper may just have taken @h from it, and
 * may be finding that the address space has no users. Only a user of the address space puts @h
 * into the list.
 *
 * Context: process context; the address space has no users.
 */
void hydra_unkeep(struct hydra_mm *h)
{
	if (!hydra_was_kept(h))
		return;
	guard(spinlock)(&kept_lock);
	if (!list_empty(&h->kept))
		hydra_take_kept(h);
}

/**
 * hydra_next_kept - take the first address space from the list
 *
 * An address space that ends leaves the list for good.
 *
 * Context: process context.
 * Return: the address space, with a reference for mmput_async(); NULL: none.
 */
struct hydra_mm *hydra_next_kept(void)
{
	struct hydra_mm *h;

	scoped_guard(spinlock, &kept_lock) {
		do {
			h = list_first_entry_or_null(&kept, struct hydra_mm, kept);
			if (h)
				hydra_take_kept(h);
		} while (h && !mmget_not_zero(h->mm));
	}
	/*
	 * The list before active. Pairs with hydra_keep(): a CPU that finds @h still in the list
	 * has set active, and the keeper puts @h back.
	 */
	smp_mb();
	return h;
}

/**
 * hydra_nr_kept - how many address spaces are in the list?
 *
 * Context: any.
 * Return: their number.
 */
unsigned int hydra_nr_kept(void)
{
	return READ_ONCE(nr_kept);
}

#include "tests/rent-kunit.h"
