// SPDX-License-Identifier: GPL-2.0-only
/*
 * Policy "auto": a process has domain trees while they pay, and is plain Linux otherwise.
 *
 * hydra_auto_look() looks at the processes with domains "auto" once a second. The rules are in
 * process_rules.h; this file finds what they are told, and does what they say.
 *
 * As long as such a process is plain Linux, mm->hydra_last is 0: a switch, a fault and a flush
 * cost what they cost on Linux. A process with several threads, which a look finds running in two
 * domains, gets an account. If the rules expect a gain, the look asks hydra_splitter() for a split;
 * if they see a loss, for a return. A later look finds that done, or asks again.
 *
 * A look reads what Linux and Hydra count anyway, and asks nothing of the process: the generation
 * of its TLBs counts the flushes, and CPUs tell which address space they have loaded.
 *
 * No rule of Documentation/mm/hydra/rules.rst depends on an account. If it is wrong, or lost, the
 * process pays in time.
 *
 * Locking: accounts_lock, which no thread of the process takes, guards the accounts. An account
 * has a reference in mm_count until a look finds that the process has ended.
 */

#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/hugetlb.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/sched/cputime.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include <asm/tlbflush.h>

#include <trace/events/hydra.h>

#include "auto.h"
#include "cgroup.h"
#include "domain.h"
#include "idle.h"
#include "process_rules.h"
#include "rehome.h"
#include "rent.h"
#include "sample.h"
#include "settings.h"
#include "splitter.h"
#include "state.h"
#include "tlb.h"

/* A memory cgroup with room for so many pages only is full */
#define ROOM_PAGES		64

/* A shared mapping of hugetlb of this size would lose its shared PMD tables */
#define HUGETLB_SIZE		PUD_SIZE

#define MEASURED_INTERRUPTS	64

/* Looks that find nothing come after twice the time, until it is so many times as long */
#define QUIET_TIMES		4

/* Each so many looks, leaf tables move to the node of the CPUs that walk them (rehome.c) */
#define REHOME_LOOKS		15

/* Looks without any process of the policy, after which there are none until one is set */
#define LOOKS_IN_VAIN		10

/* Why a process is left alone */
enum hydra_left {
	HYDRA_LEFT_NOT,
	HYDRA_LEFT_REALTIME,	/* it has a thread of a realtime class */
	HYDRA_LEFT_LOCKED,	/* mlockall(2): new faults are what it forbids */
	HYDRA_LEFT_HUGETLB,	/* see HUGETLB_SIZE */
	HYDRA_LEFT_MEMORY,	/* there is none for copies */
	HYDRA_LEFT_CGROUP,	/* its cgroup says otherwise, for what it executes next */
	HYDRA_LEFT_ISOLATED,	/* a return would interrupt an isolated CPU */
	NR_HYDRA_LEFT
};

static const char * const left_words[NR_HYDRA_LEFT] = {
	[HYDRA_LEFT_REALTIME] = "realtime",
	[HYDRA_LEFT_LOCKED] = "locked",
	[HYDRA_LEFT_HUGETLB] = "hugetlb",
	[HYDRA_LEFT_MEMORY] = "memory",
	[HYDRA_LEFT_CGROUP] = "cgroup",
	[HYDRA_LEFT_ISOLATED] = "isolated",
};

static const char * const why_words[] = {
	[HYDRA_WHY_NEW] = "new",
	[HYDRA_WHY_ONE_NODE] = "one-node",
	[HYDRA_WHY_QUIET] = "quiet",
	[HYDRA_WHY_WAITS] = "waits",
	[HYDRA_WHY_SHARED] = "shared",
	[HYDRA_WHY_PURSE] = "purse",
	[HYDRA_WHY_LEFT] = "left",	/* readers get a word of left_words */
	[HYDRA_WHY_SAVES] = "saves",
};

/* A state of an account; in the trace event hydra_auto, too */
enum hydra_auto_state {
	HYDRA_AUTO_PLAIN,	/* no account */
	HYDRA_AUTO_WATCHED,
	HYDRA_AUTO_SPLIT,
	HYDRA_AUTO_RETURNED,
	NR_HYDRA_AUTO_STATES
};

static const char * const state_words[NR_HYDRA_AUTO_STATES] = {
	[HYDRA_AUTO_PLAIN] = "plain",
	[HYDRA_AUTO_WATCHED] = "watched",
	[HYDRA_AUTO_SPLIT] = "split",
	[HYDRA_AUTO_RETURNED] = "returned",
};

/* What is counted of a process, since it began */
struct hydra_counts {
	u64 generation;		/* of mm->context.tlb_gen */
	u64 flushes;
	s64 spared;
	u64 fills;
	u64 changes;
	u64 entries;
	u64 looks;
	u64 fallbacks;
};

/**
 * struct hydra_account - what "auto" knows of a process
 * @rules: what the rules know
 * @mm: its address space, with a reference in mm_count
 * @node: in the table of accounts
 * @state: for readers
 * @why: what the last look said
 * @left: why it is left alone
 * @failed: memory was short, in this split
 * @counts: at the last look that has found it running
 * @looked: ktime_get_ns() at the last look
 * @second: hydra_second() then
 * @spent: ns of CPU time that it took
 * @pages: of the last sample of a process with domain trees
 * @rent: ns, of what it found; 0 for a process with domain trees
 * @net: ns, of a process with domain trees: saved, less spent
 * @time: ns of CPU time, in what it found
 * @price: ns, what a split and a return cost
 * @sample: of the pages that it uses; NULL: none yet
 */
struct hydra_account {
	struct hydra_process rules;
	struct mm_struct *mm;
	struct hlist_node node;
	enum hydra_auto_state state;
	enum hydra_why why;
	enum hydra_left left;
	bool failed;
	struct hydra_counts counts;
	u64 looked;
	u32 second;
	u64 spent;
	u64 pages;
	u64 rent;
	s64 net;
	u64 time;
	u64 price;
	struct hydra_sample *sample;
};

static DEFINE_MUTEX(accounts_lock);
static DEFINE_HASHTABLE(accounts, 7);

/* All under accounts_lock, but for reads */
static struct {
	unsigned long looks;
	unsigned long splits;
	unsigned long returns;
	unsigned long watched;
	u64 spent;
} totals;

/**
 * hydra_set_look_ms - choose the time from look to look
 * @ms: HYDRA_LOOK_MS_MIN to HYDRA_LOOK_MS_MAX
 *
 * Context: process context.
 */
void hydra_set_look_ms(unsigned int ms)
{
	WRITE_ONCE(hydra_look_ms, ms);
	hydra_auto_wake(0);
}

static struct hydra_account *hydra_account_of(struct mm_struct *mm)
{
	struct hydra_account *a;

	lockdep_assert_held(&accounts_lock);
	hash_for_each_possible(accounts, a, node, (unsigned long)mm)
		if (a->mm == mm)
			return a;
	return NULL;
}

static void hydra_count(struct hydra_account *a, struct hydra_counts *c)
{
	struct hydra_mm *h = READ_ONCE(a->mm->hydra);

	*c = (struct hydra_counts){ .generation = atomic64_read(&a->mm->context.tlb_gen) };
	if (!h)
		return;
	c->flushes = hydra_stat_raw(h, HYDRA_STAT_FLUSHES, NULL);
	/* Signed: a flush that cuts links may interrupt more CPUs than have been spared. */
	c->spared = hydra_stat_raw(h, HYDRA_STAT_SPARED, NULL) -
		    hydra_stat_raw(h, HYDRA_STAT_OWN, NULL);
	c->fills = hydra_stat_raw(h, HYDRA_STAT_FILLS, NULL);
	c->changes = hydra_stat_raw(h, HYDRA_STAT_CHANGES, NULL);
	c->entries = hydra_stat_raw(h, HYDRA_STAT_PROPAGATED, NULL);
	c->looks = hydra_stat_raw(h, HYDRA_STAT_LOOKS, NULL);
	c->fallbacks = hydra_stat_raw(h, HYDRA_STAT_FALLBACKS, NULL);
}

/* The CPUs that run an address space now, by domain. Under accounts_lock */
static u16 running[HYDRA_MAX_DOMAINS];

/* Find the CPUs that run a process now. Return: a domain that runs it, if any does. */
static unsigned int hydra_find_running(struct mm_struct *mm, struct hydra_process_look *l)
{
	unsigned int d, last = 0;
	int cpu;

	lockdep_assert_held(&accounts_lock);
	memset(running, 0, hydra_domains[HYDRA_SCOPE_NODE].nr * sizeof(*running));
	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (!hydra_cpu_runs(cpu, mm))
			continue;
		last = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu);
		running[last]++;
		l->running++;
	}
	for (d = 0; d < hydra_domains[HYDRA_SCOPE_NODE].nr; d++) {
		l->squares += (u64)running[d] * running[d];
		l->domains += running[d] != 0;
	}
	return last;
}

/*
 * Has a single domain run a process with domain trees since the last look?
 *
 * @d: a domain that runs it now
 */
static bool hydra_ran_alone(struct hydra_account *a, struct hydra_mm *h, unsigned int d)
{
	hydra_mask_t trees;
	unsigned int other;

	hydra_mask_zero(&trees);
	hydra_mask_add(&trees, &h->trees);
	/* trees before h->domain[]; pairs with the smp_wmb() in hydra_promote(). */
	smp_rmb();
	for_each_hydra_domain(other, &trees)
		if (other != d && !hydra_later(a->second, READ_ONCE(h->domain[other]->ran)))
			return false;
	return true;
}

/* What a look finds. @c: what is counted now */
static void hydra_find(struct hydra_account *a, bool split, const struct hydra_counts *c,
		       struct hydra_process_look *l)
{
	const struct hydra_counts *old = &a->counts;
	struct hydra_mm *h = READ_ONCE(a->mm->hydra);
	u64 now = ktime_get_ns();
	unsigned int d;

	l->ns = now - a->looked;
	l->spent = a->spent;
	l->tables = mm_pgtables_bytes(a->mm) / PAGE_SIZE;
	/* Linux counts replicas, too. */
	if (h)
		l->tables -= min_t(u64, l->tables, atomic_long_read(&h->nr_replicas));
	d = hydra_find_running(a->mm, l);
	if (split) {
		l->alone = l->running && l->domains == 1 && hydra_ran_alone(a, h, d);
		l->domains = bitmap_weight(h->trees.bits, HYDRA_MAX_DOMAINS);
		l->flushes = c->flushes - old->flushes;
		l->spared = c->spared - old->spared;
		l->fills = c->fills - old->fills;
		l->changes = c->changes - old->changes;
		l->entries = c->entries - old->entries;
		l->looks = c->looks - old->looks;
	} else {
		l->alone = l->domains == 1;
		l->flushes = c->generation - old->generation;
		/* It has been split meanwhile, and has returned. */
		if (l->flushes >= GENERATION_GAP)
			l->flushes = 0;
	}
	a->looked = now;
	a->second = hydra_second();
}

/* Has a process a thread of a realtime class? */
static bool hydra_is_realtime(struct mm_struct *mm)
{
#ifdef CONFIG_MEMCG
	struct task_struct *owner, *t;

	guard(rcu)();
	owner = rcu_dereference(mm->owner);
	if (owner)
		for_each_thread(owner, t)
			if (rt_or_dl_task_policy(t))
				return true;
#endif
	return false;
}

/* Has a process a large shared mapping of hugetlb? If mmap_lock is busy, it may have. */
static bool hydra_shares_hugetlb(struct mm_struct *mm)
{
#ifdef CONFIG_HUGETLB_PAGE
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	bool found = false;

	if (!atomic_long_read(&mm->hugetlb_usage))
		return false;
	if (!mmap_read_trylock(mm))
		return true;
	for_each_vma(vmi, vma) {
		found = is_vm_hugetlb_page(vma) && vma->vm_flags & VM_MAYSHARE &&
			vma->vm_end - vma->vm_start >= HUGETLB_SIZE;
		if (found)
			break;
	}
	mmap_read_unlock(mm);
	return found;
#else
	return false;
#endif
}

/* Has the memory cgroup of a process no room, but for what it could take from pages of files? */
static bool hydra_lacks_memory(struct mm_struct *mm)
{
	bool full = false;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm), *each;
	unsigned long files;

	for (each = memcg; each && !mem_cgroup_is_root(each) && !full;
	     each = parent_mem_cgroup(each)) {
		files = memcg_page_state(each, NR_ACTIVE_FILE) +
			memcg_page_state(each, NR_INACTIVE_FILE);
		full = page_counter_read(&each->memory) + ROOM_PAGES >
		       READ_ONCE(each->memory.max) + files;
	}
	mem_cgroup_put(memcg);
#endif
	return full;
}

/* Why is a process that is plain Linux not to be split? */
static enum hydra_left hydra_left_plain(struct mm_struct *mm)
{
	/* A return does not bring back what domain trees have unshared. */
	if (hydra_shares_hugetlb(mm))
		return HYDRA_LEFT_HUGETLB;
	return hydra_lacks_memory(mm) ? HYDRA_LEFT_MEMORY : HYDRA_LEFT_NOT;
}

/* Why is a process to be left alone? */
static enum hydra_left hydra_left(struct hydra_account *a)
{
	struct mm_struct *mm = a->mm;
	union hydra_choice settings;

	if (hydra_cgroup_says(mm, &settings) && !hydra_is_auto(settings))
		return HYDRA_LEFT_CGROUP;
	if (READ_ONCE(mm->def_flags) & VM_LOCKED)
		return HYDRA_LEFT_LOCKED;
	if (hydra_is_realtime(mm))
		return HYDRA_LEFT_REALTIME;
	if (a->rules.split)
		return a->failed ? HYDRA_LEFT_MEMORY : HYDRA_LEFT_NOT;
	return hydra_left_plain(mm);
}

/* An account, and what a look has found of it, for readers */
static void hydra_note(struct hydra_account *a, const struct hydra_process_look *l,
		       enum hydra_why why)
{
	enum hydra_auto_state was = a->state;
	enum hydra_why before = a->why;

	if (a->rules.split)
		a->state = HYDRA_AUTO_SPLIT;
	else if (was == HYDRA_AUTO_SPLIT)
		a->state = HYDRA_AUTO_RETURNED;
	a->time = l->running * l->ns;
	a->price = hydra_split_price(&hydra_prices, l) + hydra_return_price(&hydra_prices, l);
	a->why = why;
	if (a->state == was)
		return;
	a->pages = 0;
	if (a->state == HYDRA_AUTO_SPLIT)
		totals.splits++;
	else
		totals.returns++;
	/* The look before this one has decided so. */
	trace_hydra_auto(a->mm, state_words[was], state_words[a->state], why_words[before],
			 a->rules.split ? 0 : a->rules.rent, a->price, a->rules.balance);
}

/* The process has come to have domain trees since the last look, or has lost them. */
static void hydra_catch_on(struct hydra_account *a, const struct hydra_process_look *l, bool split)
{
	if (split == a->rules.split)
		return;
	if (split)
		hydra_process_split(&a->rules, &hydra_prices, l);
	else
		hydra_process_returned(&a->rules, hydra_return_price(&hydra_prices, l));
}

/*
 * Ask the splitter to do what the rules say, as it can wait for mmap_lock. The next look finds out.
 * A return would interrupt an isolated CPU which runs the process: it stays split.
 */
static void hydra_decide(struct hydra_account *a, enum hydra_why why)
{
	bool saves = why == HYDRA_WHY_SAVES;

	if (saves == a->rules.split)
		return;
	if (saves)
		hydra_queue(a->mm, HYDRA_REQUEST_DECIDED);
	else if (hydra_runs_isolated(a->mm, cpu_possible_mask))
		a->left = HYDRA_LEFT_ISOLATED;
	else
		hydra_queue(a->mm, HYDRA_REQUEST_RETURN);
}

/*
 * The pages that the sample has found used, as of a look of the usual length. If a lock was busy,
 * a process with domain trees has used as many as before: a sample of none would cost it its trees.
 */
static void hydra_take_sample(struct hydra_account *a, bool split, struct hydra_process_look *l)
{
	u64 usual = READ_ONCE(hydra_look_ms) * NSEC_PER_MSEC;

	l->sampled = hydra_sample_end(a->sample, a->mm, &l->pages);
	if (l->sampled)
		l->pages = mul_u64_u64_div_u64(l->pages, usual, l->ns);
	if (!split)
		return;
	if (l->sampled)
		a->pages = l->pages;
	l->pages = a->pages;
}

/*
 * A look at a process. Context: accounts_lock; a reference in mm_users. Return: false if it sleeps.
 */
static bool hydra_look_at(struct hydra_account *a)
{
	struct hydra_mm *h = READ_ONCE(a->mm->hydra);
	bool split = h && READ_ONCE(h->active);
	struct hydra_process_look l = {};
	u64 begin = task_sched_runtime(current);
	struct hydra_counts c;
	enum hydra_why why;

	/* Its trees go in parts: a look that finds none will count. */
	if (split && READ_ONCE(h->returning)) {
		hydra_sample_drop(a->sample);
		hydra_queue(a->mm, HYDRA_REQUEST_GO_ON);
		return true;
	}
	hydra_count(a, &c);
	hydra_find(a, split, &c, &l);
	/* What it has done since it was last found running counts at the next such look. */
	if (!l.running && split == a->rules.split) {
		hydra_sample_drop(a->sample);
		return false;
	}
	a->failed = split && (a->failed || c.fallbacks != a->counts.fallbacks);
	a->counts = c;
	hydra_catch_on(a, &l, split);
	hydra_take_sample(a, split, &l);
	a->left = hydra_left(a);
	l.left = a->left;
	a->rent = split ? 0 : hydra_process_rent(&hydra_prices, &l,
						 l.sampled ? l.pages : a->rules.pages);
	a->net = split ? hydra_process_net(&hydra_prices, &l) : 0;
	why = hydra_process_looked(&a->rules, &hydra_prices, &l);
	hydra_decide(a, why);
	hydra_note(a, &l, why);
	if (hydra_process_samples(&a->rules, l.tables))
		hydra_sample_begin(&a->sample, a->mm, l.tables);
	a->spent = task_sched_runtime(current) - begin;
	return true;
}

/* End an account. */
static void hydra_close(struct hydra_account *a)
{
	lockdep_assert_held(&accounts_lock);
	hash_del(&a->node);
	mmdrop(a->mm);
	kfree(a->sample);
	kfree(a);
	totals.watched--;
}

/* Begin an account. @mm: with a reference in mm_count, for the account */
static void hydra_open(struct mm_struct *mm)
{
	struct hydra_account *a;

	lockdep_assert_held(&accounts_lock);
	a = hydra_account_of(mm) ? NULL : kzalloc(sizeof(*a), GFP_KERNEL);
	if (!a) {
		mmdrop(mm);
		return;
	}
	a->mm = mm;
	a->state = HYDRA_AUTO_WATCHED;
	a->looked = ktime_get_ns();
	a->second = hydra_second();
	hydra_count(a, &a->counts);
	hash_add(accounts, &a->node, (unsigned long)mm);
	totals.watched++;
}

/* Does a process run in two domains just now, or has it domain trees? */
static bool hydra_is_wide(struct mm_struct *mm)
{
	struct hydra_process_look l = {};
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned int cpu, d;

	if (h && READ_ONCE(h->active))
		return true;
	cpu = cpumask_first(mm_cpumask(mm));
	if (cpu >= nr_cpu_ids)
		return false;
	/* Not its node: groups of CPUs may take the place of nodes. */
	d = hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu);
	if (cpumask_subset(mm_cpumask(mm), hydra_domains[HYDRA_SCOPE_NODE].cpus[d]))
		return false;
	hydra_find_running(mm, &l);
	return l.domains > 1;
}

/* Give a process an account if it is to have one. Return: has it the policy? */
static bool hydra_meet(struct task_struct *p)
{
	struct mm_struct *mm = NULL;
	struct task_struct *t;
	bool decides;

	t = p->flags & PF_KTHREAD ? NULL : find_lock_task_mm(p);
	if (!t)
		return false;
	decides = hydra_is_auto(hydra_choice_of(t->mm));
	if (decides && hydra_has_threads(t) && !hydra_account_of(t->mm)) {
		mm = t->mm;
		mmgrab(mm);
	}
	task_unlock(t);
	if (mm && hydra_is_wide(mm))
		hydra_open(mm);
	else if (mm)
		mmdrop(mm);
	return decides;
}

/* Find the processes that are to have an account. Return: is there any of the policy? */
static bool hydra_meet_all(void)
{
	struct task_struct *p;
	bool any = false;
	int next = 1;

	lockdep_assert_held(&accounts_lock);
	while (next) {
		p = hydra_process_from(&next);
		if (p) {
			any |= hydra_meet(p);
			put_task_struct(p);
		}
		cond_resched();
	}
	return any;
}

/* Look at an account, or end it. Return: has the process run? */
static bool hydra_visit(struct hydra_account *a)
{
	struct mm_struct *mm = a->mm;
	bool busy;

	if (!hydra_is_auto(hydra_choice_of(mm)) || !mmget_not_zero(mm)) {
		hydra_close(a);
		return true;
	}
	busy = hydra_look_at(a);
	mmput_async(mm);
	return busy;
}

/*
 * Look at all accounts. The splitter serves one at a time, so each look begins with others.
 *
 * Return: has any process run?
 */
static bool hydra_visit_all(void)
{
	static unsigned int first;
	struct hydra_account *a;
	struct hlist_node *next;
	unsigned int i;
	bool busy = false;

	lockdep_assert_held(&accounts_lock);
	first++;
	for (i = 0; i < HASH_SIZE(accounts); i++) {
		hlist_for_each_entry_safe(a, next, &accounts[(first + i) % HASH_SIZE(accounts)],
					  node) {
			busy |= hydra_visit(a);
			cond_resched();
		}
	}
	return busy;
}

/* The look. Context: process context, no locks; may sleep. */
static void hydra_auto_look(struct work_struct *work)
{
	static unsigned int in_vain, quiet = 1, looks;
	unsigned int ms = READ_ONCE(hydra_look_ms);
	u64 begin = task_sched_runtime(current);
	bool any, busy;

	scoped_guard(mutex, &accounts_lock) {
		busy = hydra_visit_all();
		any = hydra_meet_all();
		totals.looks++;
		totals.spent += task_sched_runtime(current) - begin;
	}
	in_vain = any || totals.watched ? 0 : in_vain + 1;
	if (any && ++looks % REHOME_LOOKS == 0)
		hydra_rehome_ask();
	/* A process that begins just now asks before so many looks have passed. */
	if (in_vain > LOOKS_IN_VAIN) {
		in_vain = 0;
		WRITE_ONCE(hydra_auto_looks, false);
		return;
	}
	/* Tests look more often, and do not wait for longer. */
	quiet = busy || ms < HYDRA_LOOK_MS ? 1 : min(2 * quiet, QUIET_TIMES);
	hydra_auto_wake(msecs_to_jiffies(ms) * quiet);
}

static u64 hydra_ppm(u64 part, u64 time)
{
	return time ? div64_u64(min(part, U64_MAX / 1000000) * 1000000, time) : 0;
}

static void hydra_show_found(const struct hydra_account *a, struct seq_file *m)
{
	const struct hydra_process *p = &a->rules;
	s64 gain = hydra_ppm(abs(a->net), a->time);

	seq_printf(m, "tries %u\n", p->tries);
	seq_printf(m, "rent_us %llu\n", p->split ? 0 : p->rent / NSEC_PER_USEC);
	seq_printf(m, "price_us %llu\n", a->price / NSEC_PER_USEC);
	seq_printf(m, "rent_ppm %llu\n", hydra_ppm(a->rent, a->time));
	seq_printf(m, "gain_ppm %lld\n", a->net < 0 ? -gain : gain);
	seq_printf(m, "balance_us %lld\n", div_s64(p->split ? p->balance : 0, NSEC_PER_USEC));
	seq_printf(m, "purse_us %lld\n", div_s64(p->purse, NSEC_PER_USEC));
}

/**
 * hydra_show_account - what "auto" knows of a process, "key value" lines
 * @mm: its address space
 * @m: the file to write to
 *
 * Context: process context, no locks.
 */
void hydra_show_account(struct mm_struct *mm, struct seq_file *m)
{
	static const struct hydra_account none = { .why = HYDRA_WHY_ONE_NODE };
	const struct hydra_account *a;

	guard(mutex)(&accounts_lock);
	a = hydra_account_of(mm) ?: &none;
	seq_printf(m, "auto %s\n", state_words[a->state]);
	seq_printf(m, "why %s\n", a->left ? left_words[a->left] : why_words[a->why]);
	hydra_show_found(a, m);
}

/**
 * hydra_show_auto_stats - what the looks have done so far, "key value" lines
 * @buf: of a page
 *
 * Context: process context, no locks.
 * Return: the length of the text.
 */
int hydra_show_auto_stats(char *buf)
{
	guard(mutex)(&accounts_lock);
	return sysfs_emit(buf, "looks %lu\nsplits %lu\nreturns %lu\nwatched %lu\nspent_us %llu\n",
			  totals.looks, totals.splits, totals.returns, totals.watched,
			  div_u64(totals.spent, NSEC_PER_USEC));
}

static int __init hydra_auto_init(void)
{
	INIT_DELAYED_WORK(&hydra_auto_work, hydra_auto_look);
	return 0;
}
core_initcall(hydra_auto_init);

static void __init hydra_do_nothing(void *unused)
{
}

/* The CPU that is farthest from this one. Context: preemption off. */
static int __init hydra_farthest_cpu(void)
{
	int cpu, found = -1, most = LOCAL_DISTANCE, here = numa_node_id();

	for_each_online_cpu(cpu) {
		if (node_distance(here, cpu_to_node(cpu)) <= most)
			continue;
		most = node_distance(here, cpu_to_node(cpu));
		found = cpu;
	}
	return found;
}

/*
 * Measure what an interrupt of a CPU of another node costs: the best of some, so that it is not
 * dear for what else goes on. A hypervisor's interrupts tell nothing of a flush.
 */
static void __init hydra_measure_interrupt(void)
{
	u64 best = 4 * HYDRA_PRICE_INTERRUPT, begin;
	int cpu, i;

	if (boot_cpu_has(X86_FEATURE_HYPERVISOR) || hydra_knows_interrupt)
		return;
	guard(preempt)();
	cpu = hydra_farthest_cpu();
	if (cpu < 0)
		return;
	for (i = 0; i < MEASURED_INTERRUPTS; i++) {
		begin = ktime_get_ns();
		smp_call_function_single(cpu, hydra_do_nothing, NULL, true);
		best = min(best, ktime_get_ns() - begin);
	}
	WRITE_ONCE(hydra_prices.interrupt, max(best, HYDRA_PRICE_INTERRUPT / 4));
}

static int __init hydra_auto_begin(void)
{
	hydra_measure_interrupt();
	/* Address spaces are made before there are workqueues. */
	if (hydra_is_auto(hydra_default_settings))
		hydra_auto_wake(msecs_to_jiffies(hydra_look_ms));
	else
		WRITE_ONCE(hydra_auto_looks, false);
	return 0;
}
late_initcall(hydra_auto_begin);
