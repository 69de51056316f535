// SPDX-License-Identifier: GPL-2.0-only
/*
 * Life of an address space under Hydra, from the first setting to its end.
 *
 * An address space with settings is plain Linux until threads of its process run in
 * two domains. Until then Hydra keeps the settings and mm->hydra_home, the domain
 * of the CPUs running the address space: no struct hydra_mm, no tree, no counters.
 * When a single thread moves to another domain, mm->hydra_home follows.
 *
 * Split. A CPU outside of the home switches to a thread, and marks the thread
 * (__hydra_switching()). Before the thread returns to user mode, the thread splits
 * the address space (__hydra_resume_user_mode()): hydra_mm::active is set, and
 * domains may have trees. A domain without a tree runs on the canonical root,
 * counts flushes in mm->context.tlb_gen, and is in hydra_mm::universal, the targets
 * of every flush. Then hydra_promote() gives trees to the domains of the CPUs
 * running the process. A further domain gets a tree when its first thread goes to
 * user mode. A domain never running the process has no tree, and is no target. (Under
 * replication "eager" all domains get trees when the process splits.)
 *
 *     CPU 0: hydra_promote(d)                CPU 1, of domain d
 *     -----------------------                ------------------
 *     dom->tlb_gen = above all others        switch_mm_irqs_off():
 *     h->domain[d] = dom                       sets its bit in mm_cpumask()
 *     dom->root = an empty tree                <full barrier>
 *     hydra_switch_roots():                    reads h->domain[d]: tlb_gen, root
 *       raises dom->tlb_gen                    loads the root
 *       <full barrier>
 *       interrupts the CPUs of d that        hydra_load_root(), in the interrupt:
 *         run the address space, waits         loads dom->root, flushes all
 *     clears d in h->universal
 *
 * CPUs of d that do not run the address space now may hold translations of the canonical
 * tree under an inactive PCID. They are behind dom->tlb_gen: see hydra_switch_roots().
 *
 * A flush may read h->domain[d] as NULL, and raise mm->context.tlb_gen instead of
 * dom->tlb_gen. CPUs of d miss nothing: the flush changed entries, passed a full
 * barrier, and then read h->domain[d]. CPUs of d take CPU 0's interrupt later, drop
 * the old entries, and fill the tree with new entries.
 *
 * Lodging. CPU 0 below is the first CPU of a domain without a tree to switch to an
 * active address space. PCIDs of the domain may have missed flushes since the
 * split, so CPU 0 first raises mm->context.tlb_gen, and then makes the domain
 * universal:
 *
 *     CPU 0, of domain d          CPU 1, of domain d          CPU 2: a flush
 *     ------------------          ------------------          --------------
 *     raises context.tlb_gen                                  changes entries
 *     <full barrier>                                          <full barrier>
 *     sets d in universal         reads universal: d is set   reads universal
 *     <full barrier>              reads context.tlb_gen:
 *     reads context.tlb_gen         CPU 0 has raised it
 *
 * If CPU 2 reads universal without d, CPU 2 changed entries before CPU 0 and CPU 1
 * read context.tlb_gen. Both CPUs are behind context.tlb_gen, and flush.
 *
 * While hydra_mm::active is set, mm->hydra_home is HYDRA_HOME_SPLIT, so every
 * switch to the address space calls __hydra_switching(). A CPU storing a new home
 * cannot overwrite HYDRA_HOME_SPLIT:
 *
 *     CPU 0: hydra_activate()                CPU 1: __hydra_switching()
 *     -----------------------                --------------------------
 *     hydra_home = HYDRA_HOME_SPLIT          home = hydra_home
 *     <release>                              <read barrier>
 *     active = true                          reads active: false
 *                                            cmpxchg(&hydra_home, home, its own)
 *
 * CPU 1 read the home before CPU 0 stored HYDRA_HOME_SPLIT, and the cmpxchg fails;
 * or CPU 1 read HYDRA_HOME_SPLIT, and does not try.
 *
 * Return. When the process has a single thread again, or gets the settings of
 * Linux, hydra_deactivate() frees the trees:
 *
 *     CPU 0: hydra_deactivate()              CPU 1: a flush begun while active
 *     -------------------------              ---------------------------------
 *     raises unfiltered                      changes its entries
 *     context.tlb_gen = above all others     takes a tlb_gen: a full barrier
 *       by GENERATION_GAP                    hydra_raise_inactive():
 *     active = false                           reads active: false
 *     hydra_switch_roots():                    <read barrier>
 *       raises context.tlb_gen                 reads unfiltered: raised,
 *       interrupts the CPUs                      takes a new tlb_gen
 *     frees the trees                        interrupts all CPUs
 *     lowers unfiltered
 *
 * GENERATION_GAP is more than the flushes under way can add. So a CPU still on the
 * old root is behind context.tlb_gen and flushes all, but would take the first
 * tlb_gen of CPU 1 for an old generation. If CPU 1 reads unfiltered as 0, all CPUs
 * have switched roots, and flushed all, after CPU 1 changed entries, or do so when they
 * come back. CPU 0 interrupts the CPUs that run the address space, of the domains with
 * trees and of the universal domains: a flush may read active as true, and then universal as
 * empty. For such a flush CPU 0 raises context.tlb_gen once more when active is false: a CPU
 * of a universal domain may have caught up with the first value, and have left, before the
 * flush changed entries.
 *
 * struct hydra_mm, each struct hydra_domain and each root stay until the mm_struct
 * is freed: context switches and flushes read without a lock.
 *
 * Locking: settings and hydra_mm::active change, and hydra_promote() creates trees,
 * under mmap_lock held for writing. hydra_deactivate() also needs all VMAs locked
 * (hydra_lock_out_faults()). Atomic fills hold neither lock. An atomic fill reads
 * hydra_mm::active again under the lock of each table before changing the table,
 * and hydra_deactivate() takes the same locks after clearing active.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hugetlb.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timer.h>

#include <asm/hydra.h>

#define CREATE_TRACE_POINTS
#include <trace/events/hydra.h>

#include "internal.h"

/*
 * More than the number of flushes that begin and raise a generation between two
 * instructions of a CPU with interrupts off, see hydra_deactivate().
 *
 * Each split, each tree and each return takes one gap. A generation has 64 bits, so a
 * larger gap would be less safe: with 40 bits a program that changes its settings 10,000
 * times a second would wrap its generations after half an hour. With 24 bits it needs
 * years, and an address space beyond GENERATION_MAX is not split any more.
 */
#define GENERATION_GAP	BIT_ULL(24)
#define GENERATION_MAX	BIT_ULL(62)

/*
 * How long a process with a single thread keeps its trees: more threads may start.
 * Freeing and filling trees costs time for each leaf table.
 */
#define STAY_MIN	(1UL * HZ)
#define STAY_MAX	(64UL * HZ)

/*
 * How many ticks a thread on its way to user mode waits for the locks, and how long no
 * thread waits after a wait in vain
 */
#define LOCK_TRIES	20
#define WAIT_AGAIN	(10 * HZ)

/* How long a domain is degraded: at first, and at last */
#define DEGRADED_MIN	(10 * HZ)
#define DEGRADED_MAX	(640 * HZ)

/* How many ticks hydra_splitter() waits in the queue of mmap_lock: at first, and at last */
#define QUEUE_TICKS	10
#define QUEUE_TICKS_MAX	(8 * QUEUE_TICKS)

/*
 * Reclaim that starts I/O, or enters a file system, may wait for this very thread, or for one
 * of the process that the splitter serves. A full memory cgroup gives back clean pages all the
 * same.
 */
#define HYDRA_GFP	(__GFP_ACCOUNT | __GFP_RECLAIM | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

#ifdef CONFIG_LOCKDEP
/* Held by code that must wait for nothing without a bound, see hydra_teach_lockdep(). */
struct lockdep_map hydra_no_wait_map =
	STATIC_LOCKDEP_MAP_INIT("hydra_no_wait_map", &hydra_no_wait_map);
#endif

DEFINE_STATIC_KEY_FALSE(hydra_watch_key);

/* The kind of a home, but of HYDRA_HOME_SPLIT */
static unsigned int hydra_home_kind(u32 home)
{
	return home >> HYDRA_HOME_SHIFT;
}

/* Has a CPU run the address space of a home, but of HYDRA_HOME_SPLIT? */
static bool hydra_home_known(u32 home)
{
	return home != HYDRA_HOME_UNKNOWN(hydra_home_kind(home));
}

/* The home of an address space that this CPU alone runs. Context: as hydra_this_domain(). */
static u32 hydra_home_here(unsigned int kind)
{
	return hydra_home(kind, raw_cpu_read(hydra_cpu_domain[kind]));
}

/* Is this CPU in the domain of a home? */
static bool hydra_at_home(u32 home)
{
	return home != HYDRA_HOME_SPLIT && home == hydra_home_here(hydra_home_kind(home));
}

/* In mm->hydra_settings: settings were chosen or inherited. No setting uses the bit. */
#define SETTINGS_CHOSEN	BIT(31)

static bool hydra_wants_domains(u32 settings)
{
	return hydra_domains_setting(settings) != HYDRA_DOMAINS_MACHINE;
}

/*
 * A time in jiffies, before which no thread splits an address space on this CPU: memory was
 * short. For each CPU: a memory cgroup that is full keeps no other process from a split.
 */
static DEFINE_PER_CPU(unsigned long, no_memory_until);

static bool hydra_memory_is_short(void)
{
	return time_before(jiffies, raw_cpu_read(no_memory_until));
}

static void hydra_memory_was_short(void)
{
	raw_cpu_write(no_memory_until, jiffies + HZ);
}

/**
 * hydra_alloc - allocate a struct hydra_mm
 * @mm: its address space
 * @may_wait: enable hydra_key, for which the caller waits for a CPU that goes online or
 *	offline; false: do without
 *
 * A process that is counted forks with @may_wait, and does not wait for CPUs: hydra_key is on
 * as long as the parent has its struct hydra_mm.
 *
 * Context: process context; with @may_wait, mmap_lock is not held.
 * Return: the struct hydra_mm, or NULL.
 */
struct hydra_mm *hydra_alloc(struct mm_struct *mm, bool may_wait)
{
	struct hydra_mm *h;

	if (may_wait)
		hydra_assert_may_wait();
	h = kzalloc(struct_size(h, domain, hydra_nr_domains), HYDRA_GFP);
	if (!h)
		goto no_memory;
	/* Takes no mutex without GFP_KERNEL */
	h->stats = alloc_percpu_gfp(struct hydra_stats, HYDRA_GFP);
	if (!h->stats || !zalloc_cpumask_var(&h->flushing, HYDRA_GFP))
		goto no_memory;
	h->mm = mm;
	if (static_key_fast_inc_not_disabled(&hydra_key.key.key))
		return h;
	if (may_wait) {
		static_branch_deferred_inc(&hydra_key);
		return h;
	}
	goto free;
no_memory:
	hydra_memory_was_short();
free:
	if (h) {
		free_cpumask_var(h->flushing);
		free_percpu(h->stats);
		kfree(h);
	}
	return NULL;
}

/**
 * hydra_free - free a struct hydra_mm
 * @h: no address space points to it
 *
 * Context: as __hydra_mm_destroy().
 */
void hydra_free(struct hydra_mm *h)
{
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++) {
		if (!h->domain[d])
			continue;
		VM_WARN_ON_ONCE(atomic_long_read(&h->domain[d]->nr_upper));
		hydra_pgd_free(h->domain[d]->pgd);
		kfree(h->domain[d]);
	}
	VM_WARN_ON_ONCE(atomic_long_read(&h->nr_replicas));
	hydra_count_free(h);
	free_cpumask_var(h->flushing);
	free_percpu(h->stats);
	kfree(h);
	static_branch_slow_dec_deferred(&hydra_key);
}

/* A generation above all generations of CPUs, and of flushes under way. */
static u64 hydra_next_generation(struct hydra_mm *h)
{
	u64 gen = atomic64_read(&h->mm->context.tlb_gen);
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++)
		if (h->domain[d])
			gen = max_t(u64, gen, atomic64_read(&h->domain[d]->tlb_gen));
	return gen + GENERATION_GAP;
}

/* vma_start_write() that does not wait, or that a fatal signal ends. Return: 0 or -EINTR. */
static int hydra_lock_vma(struct vm_area_struct *vma, bool wait)
{
	unsigned int seq;

	if (__is_vma_write_locked(vma, &seq))
		return 0;
	if (!down_write_trylock(&vma->vm_lock->lock) &&
	    (!wait || down_write_killable(&vma->vm_lock->lock)))
		return -EINTR;
	WRITE_ONCE(vma->vm_lock_seq, seq);
	up_write(&vma->vm_lock->lock);
	return 0;
}

/**
 * hydra_lock_out_faults - wait for the faults that hold only a VMA
 * @mm: the address space
 * @wait: false: do not wait
 *
 * A fault may last as long as a file system takes for an answer, which may be a thread of
 * this very process, or of none that lives. So a fatal signal ends the wait.
 *
 * Context: mmap_lock held for writing. Only atomic faults run until the caller
 * drops mmap_lock.
 * Return: 0; or -EINTR, with some VMAs locked until the caller drops mmap_lock.
 */
int hydra_lock_out_faults(struct mm_struct *mm, bool wait)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;

	if (wait)
		hydra_assert_may_wait();
	for_each_vma(vmi, vma) {
		/* A failed fork leaves XA_ZERO_ENTRY for all VMAs that it did not copy. */
		if (xa_is_zero(vma))
			break;
		if (hydra_lock_vma(vma, wait))
			return -EINTR;
	}
	return 0;
}

/*
 * Unshare PMD tables of hugetlb: one struct hydra_table cannot serve several
 * address spaces. want_pmd_share() shares none once a kind is set.
 *
 * As hugetlb_unshare_all_pmds(), but waits for no lock: a fault that holds the VMA, or the
 * lock of the reverse map, may be reclaiming memory for a new huge page.
 *
 * Context: mmap_lock held for writing. Return: false if a lock is busy.
 */
static bool hydra_unshare_hugetlb(struct mm_struct *mm)
{
	VMA_ITERATOR(vmi, mm, 0);
	struct vm_area_struct *vma;
	unsigned long addr;

	for_each_vma(vmi, vma) {
		struct address_space *mapping;

		addr = ALIGN(vma->vm_start, PUD_SIZE);
		if (!is_vm_hugetlb_page(vma) || !(vma->vm_flags & VM_MAYSHARE) ||
		    huge_page_size(hstate_vma(vma)) != PMD_SIZE ||
		    addr >= ALIGN_DOWN(vma->vm_end, PUD_SIZE))
			continue;
		mapping = vma->vm_file->f_mapping;
		if (hydra_lock_vma(vma, false) || !i_mmap_trylock_write(mapping))
			return false;
		/* As if the VMA were split in the middle of each PMD table that is shared */
		for (; addr < ALIGN_DOWN(vma->vm_end, PUD_SIZE); addr += PUD_SIZE) {
			pte_t *entry = hugetlb_walk(vma, addr, PMD_SIZE);

			if (entry && hugetlb_pmd_shared(entry))
				hugetlb_split(vma, addr + PMD_SIZE);
		}
		i_mmap_unlock_write(mapping);
	}
	return true;
}

/*
 * From now on domains may have trees. At first no domain has a tree.
 * Context: mmap_lock held for writing; the kind is set; CPUs may run the address space.
 * Return: false if a lock of hugetlb is busy, or the generations are used up.
 */
static bool hydra_activate(struct hydra_mm *h)
{
	unsigned int d, cpu;
	u64 gen;

	mmap_assert_write_locked(h->mm);
	gen = hydra_next_generation(h);
	if (gen > GENERATION_MAX || !hydra_unshare_hugetlb(h->mm))
		return false;
	atomic_inc(&h->unfiltered);
	/*
	 * Domains with a tree before the last return use the canonical root, too. A
	 * number beyond those of the kind gets a generation when a later activation can
	 * use it.
	 */
	for (d = 0; d < hydra_kind_of(h)->nr; d++) {
		if (!h->domain[d])
			continue;
		hydra_mask_set(d, &h->universal);
		WRITE_ONCE(h->domain[d]->root, h->mm->pgd);
		atomic64_set(&h->domain[d]->tlb_gen, gen);
	}
	/* With each split soon after a return, trees stay longer. */
	if (h->stay && time_before(jiffies, h->returned + STAY_MAX))
		h->stay = min(2 * h->stay, STAY_MAX);
	else
		h->stay = STAY_MIN;
	h->activated = jiffies;
	/* For the batches of the time before; see hydra_flush_batched(). */
	atomic64_inc(&h->batches.added);
	WRITE_ONCE(h->mm->hydra_home, HYDRA_HOME_SPLIT);
	/*
	 * The stores above before active; pairs with mm_hydra(), whose callers read
	 * them after active.
	 */
	smp_store_release(&h->active, true);
	/*
	 * Pairs with cpumask_set_cpu() in switch_mm_irqs_off(): the loop below sees
	 * every CPU switching here and reading active as false.
	 */
	smp_mb();
	for_each_cpu(cpu, mm_cpumask(h->mm))
		hydra_mask_set_atomic(hydra_domain_of_cpu(h->kind, cpu), &h->universal);
	/*
	 * universal before unfiltered; pairs with the atomics in
	 * hydra_raise_targets().
	 */
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
	return true;
}

/*
 * Choose the kind of the domains that may have trees from now on. Each struct
 * hydra_domain is used again for the domain with its number.
 *
 * Code that reads active, then the kind, and then relies on the number of a domain, does
 * so with preemption disabled, or holds mmap_lock or the lock of a VMA. So wait for a
 * grace period:
 *
 *     CPU 0: core.c                        CPU 1: __hydra_switching()
 *     -------------                        --------------------------
 *                                          reads active: true
 *     hydra_deactivate(): active = false   reads kind: core, and its number: 5
 *     synchronize_rcu()
 *                                          makes domain 5 universal
 *     kind = node
 *     hydra_activate(): active = true
 *
 * Without the wait, CPU 1 might use number 5 after CPU 0 has chosen nodes: set the bit of
 * another node, or of none, in universal, and load the root and the generation of that
 * node. (Atomic fills need no wait: hydra_deactivate() interrupts their CPUs. An atomic fill
 * has the address space loaded, and so its CPU is in mm_cpumask().)
 *
 * All other code has to bear a number of the kind before:
 *
 * - A gather is preemptible, and may have the numbers of its sharers from the time before.
 *   These are needless targets. The change of the kind has flushed all CPUs that may have
 *   used the entries of the gather, see hydra_deactivate(). For a number which the new
 *   kind does not have, see hydra_number_domains(). The gather publishes its flush for
 *   all numbers (hydra_publish()), and so covers marks of domains of the new kind.
 * - __hydra_links() may be asked for a table of another address space, with domains of
 *   another kind: it does not look into such a table.
 * - hydra_came_late() and __hydra_resume_user_mode() look again under mmap_lock, and the
 *   reports under /proc may mix two kinds.
 *
 * Context: mmap_lock held for writing; the address space is not active.
 */
static void hydra_set_kind(struct hydra_mm *h, unsigned int kind)
{
	mmap_assert_write_locked(h->mm);
	VM_WARN_ON_ONCE(h->active);
	if (h->kind == kind)
		return;
	/* A struct hydra_mm that has never been active has no kind. */
	if (h->kind)
		synchronize_rcu();
	/* What CPU 1 has set above, after hydra_deactivate() */
	hydra_mask_zero(&h->universal);
	WRITE_ONCE(h->kind, kind);
}

/* Context: mmap_lock held for writing, hydra_lock_ldt(). Return: NULL or @dom. */
static struct hydra_domain *hydra_domain_alloc(struct hydra_mm *h, unsigned int d)
{
	int home = hydra_kind_of(h)->home[d];
	struct hydra_domain *dom;

	dom = kzalloc_node(sizeof(*dom), HYDRA_GFP, home);
	if (!dom)
		return NULL;
	spin_lock_init(&dom->lock);
	dom->root = h->mm->pgd;
	dom->pgd = hydra_pgd_alloc(h->mm, home);
	if (!dom->pgd) {
		kfree(dom);
		return NULL;
	}
	return dom;
}

/*
 * Does the domain lack a tree, and can have one? A domain that was degraded has one, which it
 * may use again after a pause.
 */
static bool hydra_lacks_tree(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);

	if (!dom || !hydra_mask_test(d, &h->trees))
		return !hydra_mask_test(d, &hydra_kind_of(h)->overflow);
	return READ_ONCE(dom->root) != dom->pgd && time_after_eq(jiffies, READ_ONCE(dom->retry));
}

/*
 * Give a domain an empty tree, unless it has one; or let a degraded domain use its tree again. The
 * hooks have kept that tree coherent, as they go by what it holds, and not by its root. See "Split"
 * in the head of this file.
 *
 * A fault may degrade the domain at the same time. The domain stays universal then:
 *
 * CPU 0, in hydra_promote()            CPU 1, in hydra_degrade()
 *
 * root = pgd
 *                                      takes the lock
 *                                      makes the domain universal
 *                                      root = canonical
 *                                      drops the lock, switches the CPUs
 * hydra_switch_roots()
 * takes the lock, finds another root
 *
 * Context: mmap_lock held for writing, hydra_lock_ldt(); the address space is
 * active.
 * Return: false if memory is short. The domain stays universal, and asks again.
 */
static bool hydra_promote(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	mmap_assert_write_locked(h->mm);
	if (!hydra_lacks_tree(h, d))
		return true;
	if (hydra_mask_test(d, &h->trees))
		goto load;
	if (!dom)
		dom = hydra_domain_alloc(h, d);
	if (!dom) {
		hydra_memory_was_short();
		hydra_stat_add(h, HYDRA_STAT_FALLBACKS, 1);
		return false;
	}
	atomic64_set(&dom->tlb_gen, hydra_next_generation(h));
	/*
	 * The domain is universal already, unless the first CPU of the domain is in
	 * __hydra_switching() just now. Once h->domain[d] is set, the CPU does not
	 * make the domain universal, and loads the canonical root. So make the
	 * domain universal in the same way. See "Lodging" in the head of this file.
	 */
	atomic64_inc_return(&h->mm->context.tlb_gen);
	hydra_mask_set_atomic(d, &h->universal);
	/* universal before root; pairs with hydra_raise_targets(). */
	smp_mb__after_atomic();
	/*
	 * The initialised domain before the pointer; pairs with the address
	 * dependency of the readers, e.g. hydra_switching().
	 */
	smp_store_release(&h->domain[d], dom);
	/*
	 * The pointer before trees: __hydra_collapse_cut() locks the domain of each
	 * bit in trees. Pairs with the smp_rmb() there.
	 */
	smp_wmb();
	WRITE_ONCE(dom->retry, jiffies + DEGRADED_MIN);
	hydra_mask_set(d, &h->trees);
load:
	hydra_sync_ldt(h->mm);
	WRITE_ONCE(dom->root, dom->pgd);
	hydra_switch_roots(h->mm, &dom->tlb_gen, hydra_kind_of(h)->cpus[d]);
	/*
	 * CPUs of the domain load the tree before flushes may spare them. A domain
	 * degraded by a fault meanwhile stays universal: see hydra_degrade().
	 */
	spin_lock(&dom->lock);
	/* The interrupts before universal; pairs with hydra_raise_targets(). */
	smp_mb__before_atomic();
	if (dom->root == dom->pgd)
		hydra_mask_clear_atomic(d, &h->universal);
	spin_unlock(&dom->lock);
	return true;
}

/* A link of a single domain needs no cut: it is freed with the domain's PMD table. */
static void hydra_release_detached(void *canonical)
{
	unsigned long word = hydra_table_detach(virt_to_ptdesc(canonical));
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		hydra_table_release(t, hydra_table_start(canonical));
}

/* A PMD table, after its leaf tables */
static void hydra_release_pmd_table(struct hydra_mm *h, pteval_t *table)
{
	spinlock_t *lock = pmd_lockptr(h->mm, (pmd_t *)table);

	/*
	 * hydra_release_tables() skips a PMD entry cleared by a concurrent collapse
	 * (through the reverse map). The collapse still needs the PMD table's
	 * hydra_table, and holds the PMD lock until all links are cut: wait for it.
	 *
	 * A CPU clearing a huge entry of the table must wait, too. After the
	 * release the CPU could not find the accessed bits of the replicas.
	 */
	spin_lock(lock);
	hydra_release_detached(table);
	spin_unlock(lock);
}

/* Free the domain trees, from the leaf tables up. */
static void hydra_release_tables(struct hydra_mm *h)
{
	struct hydra_iter it = { .mm = h->mm };
	spinlock_t *ptl;
	pte_t *pte;

	for (it.level = HYDRA_PTE; it.level <= HYDRA_PUD; it.level++) {
		it.next = 0;
		while (hydra_next_canonical(&it)) {
			if (it.level == HYDRA_PTE) {
				pte = pte_offset_map_lock(h->mm, (pmd_t *)it.entry,
							  it.addr, &ptl);
				if (!pte)
					continue;
				hydra_release_detached(pte);
				pte_unmap_unlock(pte, ptl);
			} else if (it.level == HYDRA_PMD) {
				hydra_release_pmd_table(h, it.table);
			} else {
				/* As hydra_release_pmd_table(), for clears of huge PUD entries */
				spin_lock(&h->mm->page_table_lock);
				hydra_release_detached(it.table);
				spin_unlock(&h->mm->page_table_lock);
			}
			cond_resched();
		}
	}
}

/*
 * Make the address space plain Linux again. See "Return" in the head of this file.
 * Context: mmap_lock held for writing, hydra_lock_out_faults(): a fill may sleep while it
 * uses a struct hydra_table. CPUs may run the address space.
 */
static void hydra_deactivate(struct hydra_mm *h)
{
	struct mm_struct *mm = h->mm;
	hydra_mask_t run;
	unsigned int d;

	mmap_assert_write_locked(mm);
	atomic_inc(&h->unfiltered);
	/* Flushes that read active as true in between must be fewer than GENERATION_GAP. */
	local_irq_disable();
	atomic64_set(&mm->context.tlb_gen, hydra_next_generation(h));
	/*
	 * unfiltered, tlb_gen before active; pairs with the smp_rmb() in
	 * hydra_raise_inactive().
	 */
	smp_store_release(&h->active, false);
	local_irq_enable();
	/* active before universal; pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	/*
	 * CPUs of universal domains, too. A flush may read active as true, read universal
	 * as empty, and reach none of these domains. Such a flush changed entries before
	 * active was false, so before hydra_switch_roots() raises tlb_gen and interrupts.
	 */
	run = h->trees;
	hydra_mask_add(&run, &h->universal);
	/* No CPU has used a number of another kind, see hydra_set_kind(). */
	VM_WARN_ON_ONCE(!hydra_mask_subset(&run, &hydra_kind_of(h)->all));
	for_each_hydra_domain(d, &run)
		hydra_switch_roots(mm, &mm->context.tlb_gen, hydra_kind_of(h)->cpus[d]);
	hydra_release_tables(h);
	for_each_hydra_domain(d, &h->trees)
		WRITE_ONCE(h->domain[d]->root, mm->pgd);
	hydra_mask_zero(&h->trees);
	hydra_mask_zero(&h->universal);
	h->returned = jiffies;
	/* The interrupts before unfiltered; pairs with hydra_raise_inactive(). */
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
}

/**
 * hydra_settings_get - settings of an address space
 * @mm: the address space
 *
 * Context: any.
 * Return: packed settings; those of stock Linux if the address space has none.
 */
u32 hydra_settings_get(struct mm_struct *mm)
{
	u32 settings = READ_ONCE(mm->hydra_settings);

	return settings ? settings & ~SETTINGS_CHOSEN : HYDRA_LINUX_SETTINGS;
}

/*
 * Has the process of a task several threads? Another thread may end meanwhile. The next switch
 * to the process finds it gone.
 *
 * Kernel threads that work for the process count here, because Linux counts them: those of
 * io_uring, and of vhost. A switch has no time to look at each thread, so
 * __hydra_resume_user_mode() does.
 */
static bool hydra_has_threads(struct task_struct *tsk)
{
	return READ_ONCE(tsk->signal->nr_threads) > 1;
}

/* How many threads of a process are kernel threads that work for it? Stops at @enough others. */
static unsigned int hydra_nr_workers(struct task_struct *tsk, unsigned int enough)
{
	unsigned int workers = 0, others = 0;
	struct task_struct *t;

	guard(rcu)();
	for_each_thread(tsk, t) {
		if (data_race(t->flags) & PF_USER_WORKER)
			workers++;
		else if (++others == enough)
			break;
	}
	return workers;
}

/* Has the process of the current task several threads that run its code? */
static bool hydra_has_user_threads(void)
{
	return hydra_has_threads(current) &&
	       READ_ONCE(current->signal->nr_threads) > 1 + hydra_nr_workers(current, 2);
}

/*
 * The same for an address space of another process, to which the caller holds one reference in
 * mm_users. A process made by clone(CLONE_VM) counts, too.
 */
static bool hydra_has_users(struct mm_struct *mm)
{
	struct task_struct *owner = NULL;

	guard(rcu)();
#ifdef CONFIG_MEMCG
	owner = rcu_dereference(mm->owner);
#endif
	return atomic_read(&mm->mm_users) > 2 + (owner ? hydra_nr_workers(owner, UINT_MAX) : 0);
}

/* May this thread's domain split the address space, or get a tree? */
static bool hydra_may_split(struct task_struct *tsk, struct mm_struct *mm)
{
	/*
	 * Kernel threads that borrow the address space, and io workers, run no user
	 * code.
	 */
	if (tsk->mm != mm || tsk->flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING))
		return false;
	/* A child of vfork() runs in the address space of the parent, for a short time. */
	return !tsk->vfork_done;
}

/* mmap_write_lock() without the wait */
static bool hydra_mmap_trylock(struct mm_struct *mm)
{
	if (!down_write_trylock(&mm->mmap_lock))
		return false;
	mm_lock_seqcount_begin(mm);
	return true;
}

/*
 * A time in jiffies, before which no thread on its way to user mode waits for
 * mmap_lock. Each CPU has one for the address spaces that have never been split; any
 * other address space has hydra_mm::no_wait_until.
 */
static DEFINE_PER_CPU(unsigned long, no_wait_until);

static unsigned long *hydra_no_wait(struct mm_struct *mm)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);

	return h ? &h->no_wait_until : raw_cpu_ptr(&no_wait_until);
}

static bool hydra_may_wait(struct mm_struct *mm)
{
	return time_after_eq(jiffies, READ_ONCE(*hydra_no_wait(mm)));
}

/* How often to try: if threads keep mapping memory, mmap_lock is rarely free. */
#define LOCK_LOOKS	1000

static bool hydra_trylock(struct mm_struct *mm, unsigned int looks)
{
	for (; looks && !need_resched(); looks--) {
		if (!rwsem_is_locked(&mm->mmap_lock) && hydra_trylock_ldt(mm)) {
			if (hydra_mmap_trylock(mm))
				return true;
			hydra_unlock_ldt(mm);
		}
		cpu_relax();
	}
	return false;
}

/* Has another thread given this CPU's domain its tree meanwhile? */
static bool hydra_came_late(struct mm_struct *mm)
{
	struct hydra_mm *h = mm_hydra(mm);

	return h && !hydra_lacks_tree(h, hydra_this_domain(h));
}

/*
 * A thread that could not have the locks goes on in user mode, on the canonical root: each
 * flush interrupts its CPU. A thread that never sleeps would not ask again at a switch. So
 * a timer of this CPU asks the thread that runs then. If that is a thread of the process that
 * may not split it, the timer comes again, but not for as long as such a thread runs.
 */
#define ASK_AGAIN	(HZ / 10 + 1)
#define ASK_TRIES	20

static DEFINE_PER_CPU(struct timer_list, hydra_ask_timer);
static DEFINE_PER_CPU(int, hydra_ask_tries);

/* Context: timer, on the CPU where it was set, or on another one if that has gone offline. */
static void hydra_ask(struct timer_list *timer)
{
	struct mm_struct *mm = current->mm;

	if (!mm || !hydra_wants_domains(READ_ONCE(mm->hydra_settings)))
		return;
	/* A switch between threads of one process asks no thread: ask the next one. */
	if (hydra_may_split(current, mm))
		set_tsk_thread_flag(current, TIF_NOTIFY_RESUME);
	else if (this_cpu_dec_return(hydra_ask_tries) > 0)
		mod_timer(timer, jiffies + ASK_AGAIN);
}

/* Context: preemption off. */
static void hydra_ask_soon(void *unused)
{
	this_cpu_write(hydra_ask_tries, ASK_TRIES);
	mod_timer(this_cpu_ptr(&hydra_ask_timer), jiffies + ASK_AGAIN);
}

static void hydra_ask_again(void)
{
	guard(preempt)();
	hydra_ask_soon(NULL);
}

/* Ask later. A request for an earlier time replaces this one; so does a switch. */
static void hydra_ask_at(unsigned long when)
{
	guard(preempt)();
	this_cpu_write(hydra_ask_tries, ASK_TRIES);
	timer_reduce(this_cpu_ptr(&hydra_ask_timer), when);
}

/* A request from another process was in vain: the threads may be in user mode for long. */
static void hydra_ask_all(struct mm_struct *mm)
{
	on_each_cpu_mask(mm_cpumask(mm), hydra_ask_soon, NULL, false);
}

/* Note the replication that the settings ask for. Context: mmap_lock held for writing. */
static void hydra_note_eager(struct hydra_mm *h)
{
	mmap_assert_write_locked(h->mm);
	WRITE_ONCE(h->eager, hydra_replication_setting(h->mm->hydra_settings) ==
			     HYDRA_REPLICATE_EAGER);
}

/*
 * Split an address space, unless it is split already, and give trees to the domains
 * of the CPUs that run it.
 *
 * Under replication "eager", all domains get trees, also those that threads may come to. A
 * fault may give a table to some of the domains while others have no tree yet. The next fault
 * in the table finds that (hydra_all_joined()), and gives it to the others.
 *
 * Context: mmap_lock held for writing, hydra_lock_ldt(); the settings want domains.
 * Return: false if it could not be done, or not for all domains: try again later.
 */
static bool hydra_split_locked(struct hydra_mm *h)
{
	unsigned int d, cpu;
	bool done = true;
	hydra_mask_t run;

	if (!h->active) {
		hydra_set_kind(h, hydra_domains_setting(h->mm->hydra_settings));
		if (!hydra_activate(h))
			return false;
	}
	hydra_mask_zero(&run);
	if (hydra_eager(h))
		hydra_mask_add(&run, &hydra_kind_of(h)->all);
	for_each_cpu(cpu, mm_cpumask(h->mm))
		hydra_mask_set(hydra_domain_of_cpu(h->kind, cpu), &run);
	for_each_hydra_domain(d, &run) {
		done &= hydra_promote(h, d);
#ifdef CONFIG_MEMCG
		/* A charge sleeps for many of these at once: not under mmap_lock. */
		current->memcg_nr_pages_over_high = 0;
#endif
	}
	return done;
}

/**
 * hydra_attach - give an address space its struct hydra_mm, unless it has one
 * @mm: the address space
 * @new: set to NULL if the address space has taken it
 *
 * Context: mmap_lock held for writing.
 */
void hydra_attach(struct mm_struct *mm, struct hydra_mm **new)
{
	if (mm->hydra || !*new)
		return;
	hydra_note_eager(*new);
	/*
	 * Initialised before visible; pairs with the address dependency in mm_hydra().
	 */
	smp_store_release(&mm->hydra, *new);
	*new = NULL;
}

/*
 * Give an address space its struct hydra_mm, and split it, if its settings still ask for that.
 *
 * @new: as for hydra_attach()
 *
 * Context: as hydra_split_locked(). Return: false: try again later.
 */
static bool hydra_attach_and_split(struct mm_struct *mm, struct hydra_mm **new)
{
	if (!hydra_wants_domains(mm->hydra_settings))
		return true;
	hydra_attach(mm, new);
	return mm->hydra && hydra_split_locked(mm->hydra);
}

/*
 * The splitter: a kernel thread that splits address spaces whose own threads could not do it
 * on their way to user mode, because they must not wait there:
 *
 * - for mmap_lock, if threads of the process hold it nearly always. The splitter waits in the
 *   queue of the lock, but for QUEUE_TICKS only: a queued writer keeps readers out, and the
 *   holder of the lock may be waiting for one of these. A timer ends the wait by a signal.
 *   Then the splitter lets the readers in for as long, and waits twice as long as before, up
 *   to QUEUE_TICKS_MAX.
 * - for memory, and for hydra_key: the splitter waits for these without a bound, before it
 *   takes a lock.
 *
 * It serves one address space at a time. A process that comes meanwhile asks again.
 */
static struct task_struct *splitter __ro_after_init;
static struct mm_struct *queued;	/* with a reference to the mm_struct */
static struct timer_list queue_timer;

static void hydra_end_queueing(struct timer_list *timer)
{
	send_sig(SIGKILL, splitter, 1);
}

/* Ask the splitter. Context: process context. Return: false if it is busy. */
static bool hydra_queue(struct mm_struct *mm)
{
	if (!splitter || READ_ONCE(queued))
		return READ_ONCE(queued) == mm;
	mmgrab(mm);
	/* Full barrier; pairs with set_current_state() in hydra_splitter(). */
	if (cmpxchg(&queued, NULL, mm)) {
		mmdrop(mm);
		return false;
	}
	wake_up_process(splitter);
	return true;
}

/* mmap_write_lock(), but with a bound. Context: the splitter. */
static bool hydra_queue_for_lock(struct mm_struct *mm)
{
	unsigned int ticks;
	bool locked;

	for (ticks = QUEUE_TICKS; ticks <= QUEUE_TICKS_MAX; ticks *= 2) {
		mod_timer(&queue_timer, jiffies + ticks);
		locked = !mmap_write_lock_killable(mm);
		timer_delete_sync(&queue_timer);
		flush_signals(current);
		if (locked || ticks == QUEUE_TICKS_MAX)
			break;
		schedule_timeout_idle(ticks);
	}
	return locked;
}

static void hydra_split_queued(struct mm_struct *mm)
{
	struct hydra_mm *new = NULL;
	bool done = false;

	if (!READ_ONCE(mm->hydra))
		new = hydra_alloc(mm, true);
	if ((READ_ONCE(mm->hydra) || new) && hydra_queue_for_lock(mm)) {
		if (hydra_trylock_ldt(mm)) {
			/* Not an address space that ends, or that a thread has left by execve() */
			if (mmget_not_zero(mm)) {
				done = !hydra_has_users(mm) || hydra_attach_and_split(mm, &new);
				mmput_async(mm);
			}
			hydra_unlock_ldt(mm);
		}
		mmap_write_unlock(mm);
	}
	if (new)
		hydra_free(new);
	if (!done)
		hydra_ask_all(mm);
}

/*
 * Allocations charged to the memory cgroup of a process, on behalf of which another one, or a
 * kernel thread, splits its address space. @old: for hydra_charge_end(), with the cgroup.
 */
static struct mem_cgroup *hydra_charge_begin(struct mm_struct *mm, struct mem_cgroup **old)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm);

	*old = set_active_memcg(memcg);
	return memcg;
}

static void hydra_charge_end(struct mem_cgroup *memcg, struct mem_cgroup *old)
{
	set_active_memcg(old);
	mem_cgroup_put(memcg);
}

static int hydra_splitter(void *unused)
{
	struct mem_cgroup *memcg, *old;
	struct mm_struct *mm;

	allow_kernel_signal(SIGKILL);
	for (;;) {
		set_current_state(TASK_IDLE);
		mm = READ_ONCE(queued);
		if (!mm) {
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		memcg = hydra_charge_begin(mm, &old);
		hydra_split_queued(mm);
		hydra_charge_end(memcg, old);
		WRITE_ONCE(queued, NULL);
		mmdrop(mm);
	}
	return 0;
}

/*
 * One try to split an address space on the way to user mode. Waits for nothing: the holder of
 * a lock may be waiting for this very thread, if the thread serves a file system or a block
 * device that its own process, or the kernel, uses.
 *
 * @looks: how often to look at the locks
 *
 * Context: process context, no locks. Return: false if it could not be done.
 */
static bool hydra_try_split(struct mm_struct *mm, unsigned int looks)
{
	struct hydra_mm *new = NULL;
	bool done = false;

	if (hydra_memory_is_short() || !hydra_trylock(mm, looks))
		return false;
	if (!mm->hydra)
		new = hydra_alloc(mm, false);
	if (mm->hydra || new)
		done = hydra_attach_and_split(mm, &new);
	mmap_write_unlock(mm);
	hydra_unlock_ldt(mm);
	if (new)
		hydra_free(new);
	return done;
}

/*
 * Split an address space on the way to user mode, or give this CPU's domain its tree.
 *
 * If the thread cannot do it at once, it asks the splitter, and waits a few ticks at most. A
 * thread that slept comes here again before it reaches user mode, because the switch set
 * TIF_NOTIFY_RESUME, and so does rseq. So one thread waits, and after a wait in vain no thread
 * waits for WAIT_AGAIN. The next switch tries again, or hydra_ask(), each with one look at the
 * locks.
 *
 * Context: process context, no locks. Return: false if it could not be done.
 */
static bool hydra_split(struct mm_struct *mm)
{
	bool asked = false;
	unsigned int tries;

	if (!hydra_may_wait(mm))
		return hydra_try_split(mm, 1);
	if (hydra_try_split(mm, LOCK_LOOKS))
		return true;
	WRITE_ONCE(*hydra_no_wait(mm), jiffies + HZ);
	for (tries = 0; tries < LOCK_TRIES; tries++) {
		asked |= hydra_queue(mm);
		if (hydra_memory_is_short() || signal_pending(current))
			return false;
		schedule_timeout_interruptible(1);
		if (hydra_came_late(mm) || hydra_try_split(mm, LOCK_LOOKS)) {
			WRITE_ONCE(*hydra_no_wait(mm), jiffies);
			return true;
		}
	}
	/*
	 * The thread may have moved to a CPU with another time: write that one, too. If the
	 * splitter was busy with other processes, wait for it soon, but not at once: the
	 * splitter may be reclaiming memory that this very thread has to write.
	 */
	WRITE_ONCE(*hydra_no_wait(mm), jiffies + (asked ? WAIT_AGAIN : HZ));
	return false;
}

/*
 * A process has a single thread again: return, if no lock is busy.
 * Context: that thread, on its way to user mode; no locks. Return: false: try again later.
 */
static bool hydra_unsplit(struct mm_struct *mm)
{
	bool done = true;

	if (!hydra_trylock(mm, LOCK_LOOKS))
		return false;
	if (!mm->hydra->active || atomic_read(&mm->mm_users) != 1) {
		/* Not any more */
	} else if (hydra_lock_out_faults(mm, false)) {
		done = false;
	} else {
		hydra_deactivate(mm->hydra);
		/* If the thread moves later, the switch to it reads this home. */
		preempt_disable();
		WRITE_ONCE(mm->hydra_home, hydra_home_here(mm->hydra->kind));
		preempt_enable();
	}
	mmap_write_unlock(mm);
	hydra_unlock_ldt(mm);
	return done;
}

/* Should a process with a single thread return to plain Linux? */
static bool hydra_returns(struct hydra_mm *h, struct task_struct *tsk)
{
	return !hydra_has_threads(tsk) &&
	       time_after(jiffies, READ_ONCE(h->activated) + READ_ONCE(h->stay)) &&
	       atomic_read(&h->mm->mm_users) == 1;
}

/*
 * A CPU of a domain begins to run an active address space. If the domain has never had
 * a tree, it becomes universal. See "Lodging" in the head of this file.
 *
 * Context: __hydra_switching(). Return: NULL, or the domain.
 */
static struct hydra_domain *hydra_lodge(struct hydra_mm *h, unsigned int d)
{
	if (!READ_ONCE(h->domain[d]) && !hydra_mask_test(d, &h->universal)) {
		/* tlb_gen before universal: see "Lodging" in the head of this file. */
		atomic64_inc_return(&h->mm->context.tlb_gen);
		hydra_mask_set_atomic(d, &h->universal);
		/* universal before root; pairs with hydra_raise_targets(). */
		smp_mb__after_atomic();
	}
	return READ_ONCE(h->domain[d]);
}

/**
 * __hydra_switching - this CPU is about to run an address space
 * @next: the address space
 * @tsk: the task that will use it, or NULL
 *
 * Context: as hydra_switching(): interrupts off.
 * Return: the domain of this CPU, if the address space is active and the domain has
 * had a tree; or NULL.
 */
struct hydra_domain *__hydra_switching(struct mm_struct *next,
				       struct task_struct *tsk)
{
	u32 home = READ_ONCE(next->hydra_home);
	struct hydra_domain *dom = NULL;
	struct hydra_mm *h;
	unsigned int d = 0;

	lockdep_assert_irqs_disabled();
	/* 0: the settings have become those of Linux just now. */
	if (!home || hydra_at_home(home))
		return NULL;
	/*
	 * The home before active; pairs with the smp_mb() in hydra_deactivate(). A CPU
	 * that reads a home stored after the return reads active as false.
	 */
	smp_rmb();
	h = mm_hydra(next);
	if (h) {
		d = hydra_this_domain(h);
		dom = hydra_lodge(h, d);
		/* For hydra_context_flushed(), before the CPU flushes. */
		this_cpu_write(hydra_switch_second, hydra_second());
		/* The flushing CPUs read the line: write it only if it changes. */
		if (this_cpu_read(hydra_lazy_left))
			this_cpu_write(hydra_lazy_left, NULL);
	}
	/* execve() passes no task when it switches to the new address space. */
	if (!tsk)
		tsk = current;
	if (!hydra_may_split(tsk, next))
		return dom;
	if (h) {
		if (hydra_lacks_tree(h, d) || hydra_returns(h, tsk))
			set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (home == HYDRA_HOME_SPLIT) {
		/*
		 * hydra_activate() or hydra_deactivate() is running, and reads
		 * mm_cpumask() later.
		 */
	} else if (hydra_home_known(home) && hydra_has_threads(tsk)) {
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (hydra_home_known(home) && atomic_read(&next->mm_users) > 1) {
		/* A process made by clone(CLONE_VM) shares it: the home stays. */
	} else if (cmpxchg(&next->hydra_home, home,
			   hydra_home_here(hydra_home_kind(home))) != home &&
		   hydra_has_threads(tsk)) {
		/* The first switch of another CPU was faster. */
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	}
	return dom;
}

/*
 * The only thread that runs the process's code has come to this domain: the home follows, unless
 * a split has stored another one meanwhile. No other thread can make one that runs elsewhere.
 */
static void hydra_go_home(struct mm_struct *mm, u32 home)
{
	/* A process made by clone(CLONE_VM) may run at the old home. */
	if (atomic_read(&mm->mm_users) > 1 + hydra_nr_workers(current, UINT_MAX))
		return;
	guard(preempt)();
	(void)cmpxchg(&mm->hydra_home, home, hydra_home_here(hydra_home_kind(home)));
}

/**
 * __hydra_resume_user_mode - split an address space, or return it to plain Linux
 * @mm: the address space of the current thread
 *
 * After a signal or a lack of memory, the next switch marks the thread again, or
 * hydra_ask().
 *
 * Context: as hydra_resume_user_mode().
 */
void __hydra_resume_user_mode(struct mm_struct *mm)
{
	struct hydra_mm *h;
	unsigned int noio;
	bool done = true;
	u32 home;

	if (!hydra_wants_domains(READ_ONCE(mm->hydra_settings)) ||
	    !hydra_may_split(current, mm))
		return;
	home = READ_ONCE(mm->hydra_home);
	/*
	 * The home before active, as in __hydra_switching(); pairs with the smp_mb()
	 * in hydra_deactivate().
	 */
	smp_rmb();
	h = mm_hydra(mm);
	if (h ? !hydra_returns(h, current) && !hydra_lacks_tree(h, hydra_this_domain(h)) :
		home == HYDRA_HOME_SPLIT || !hydra_home_known(home) || hydra_at_home(home))
		return;
	noio = hydra_no_wait_begin();
	if (h && hydra_returns(h, current))
		done = hydra_unsplit(mm);
	else if (h || hydra_has_user_threads())
		done = hydra_split(mm);
	else if (hydra_has_threads(current))
		hydra_go_home(mm, home);
	hydra_no_wait_end(noio);
	if (!done)
		hydra_ask_again();
}

/* The value of mm->hydra_home for an address space that gets settings now */
static u32 hydra_home_now(struct mm_struct *mm, unsigned int kind)
{
	unsigned int cpu = cpumask_any(mm_cpumask(mm));

	if (kind == HYDRA_DOMAINS_MACHINE)
		return 0;
	return cpu < nr_cpu_ids ? hydra_home(kind, hydra_domain_of_cpu(kind, cpu)) :
				  HYDRA_HOME_UNKNOWN(kind);
}

/* Do CPUs of several domains run an address space? */
static bool hydra_runs_in_several(struct mm_struct *mm, unsigned int kind)
{
	unsigned int cpu = cpumask_any(mm_cpumask(mm));

	return kind != HYDRA_DOMAINS_MACHINE && cpu < nr_cpu_ids &&
	       !cpumask_subset(mm_cpumask(mm),
			       hydra_kinds[kind].cpus[hydra_domain_of_cpu(kind, cpu)]);
}

/*
 * Do the domain trees of an address space have to go, for other settings? They do for
 * domains of another kind, or none at all, and for replication "eager", under which tables
 * have no domain without them.
 *
 * Context: mmap_lock held for writing.
 */
static bool hydra_restarts(struct mm_struct *mm, u32 settings)
{
	struct hydra_mm *h = mm->hydra;

	mmap_assert_write_locked(mm);
	if (!h || !h->active)
		return false;
	return h->kind != hydra_domains_setting(settings) ||
	       (hydra_replication_setting(settings) == HYDRA_REPLICATE_EAGER && !hydra_eager(h));
}

/*
 * Change the settings under their locks, and split the address space if threads run in two
 * domains.
 *
 * @new: becomes its struct hydra_mm if it has none and is split
 * @lacks: set to true if it has to be split, and there is no struct hydra_mm
 *
 * Return: as hydra_settings_set().
 */
static int hydra_settings_change(struct mm_struct *mm, const u32 *old, u32 settings,
				 struct hydra_mm **new, bool *lacks)
{
	unsigned int kind = hydra_domains_setting(settings);
	bool restart;
	int ret;

	ret = hydra_lock_ldt(mm);
	if (ret)
		return ret;
	restart = false;
	ret = mmap_write_lock_killable(mm);
	if (ret)
		goto unlock;
	if (old && hydra_settings_get(mm) != *old) {
		ret = -EAGAIN;
	} else {
		restart = hydra_restarts(mm, settings);
		if (restart)
			ret = hydra_lock_out_faults(mm, true);
	}
	if (!ret) {
		WRITE_ONCE(mm->hydra_settings, settings | SETTINGS_CHOSEN);
		if (mm->hydra)
			hydra_note_eager(mm->hydra);
		if (restart)
			hydra_deactivate(mm->hydra);
		if (!mm->hydra || !mm->hydra->active) {
			WRITE_ONCE(mm->hydra_home, hydra_home_now(mm, kind));
			/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
			smp_mb();
			/*
			 * Now: threads that stay in user mode do not come to
			 * __hydra_resume_user_mode().
			 */
			if (hydra_runs_in_several(mm, kind) &&
			    (mm == current->mm ? hydra_has_user_threads() :
			     hydra_has_users(mm))) {
				hydra_attach(mm, new);
				*lacks = !mm->hydra;
				/*
				 * The splitter may just be done with an earlier request: ask the
				 * threads, too.
				 */
				if (mm->hydra && !hydra_split_locked(mm->hydra)) {
					hydra_queue(mm);
					hydra_ask_all(mm);
				}
			}
		}
	}
	mmap_write_unlock(mm);
unlock:
	hydra_unlock_ldt(mm);
	return ret;
}

/**
 * hydra_settings_set - change the settings of an address space
 * @mm: the address space; CPUs may run it
 * @old: NULL, or the settings that the caller read
 * @settings: packed settings that hydra_settings_check() accepts
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0; or, with nothing changed, -EOPNOTSUPP if the platform cannot run
 * Hydra, -EAGAIN if the settings are not @old any more, or -EINTR.
 */
int hydra_settings_set(struct mm_struct *mm, const u32 *old, u32 settings)
{
	struct hydra_mm *new = NULL;
	struct mem_cgroup *memcg, *old_memcg;
	bool lacks = false;
	int ret;

	if (hydra_wants_domains(settings)) {
		if (hydra_refused_by_machine()) {
			pr_info_once("not on this platform: %s\n",
				     hydra_refused_by_machine());
			return -EOPNOTSUPP;
		}
		hydra_watch();
	}
	memcg = hydra_charge_begin(mm, &old_memcg);
	if (hydra_wants_domains(settings) && !READ_ONCE(mm->hydra) &&
	    hydra_runs_in_several(mm, hydra_domains_setting(settings)))
		new = hydra_alloc(mm, true);
	ret = hydra_settings_change(mm, old, settings, &new, &lacks);
	/* A thread has come to a second domain meanwhile, or there was no memory: once more. */
	if (lacks)
		new = hydra_alloc(mm, true);
	if (lacks && new)
		hydra_settings_change(mm, &settings, settings, &new, &lacks);
	hydra_charge_end(memcg, old_memcg);
	if (new)
		hydra_free(new);
	return ret;
}

/**
 * hydra_watch - from now on CPUs look for address spaces that run in two domains
 *
 * The static branch is never switched back: counting the processes with settings
 * would cost time in each fork.
 *
 * Context: process context, no locks.
 */
void hydra_watch(void)
{
	hydra_assert_may_wait();
	if (!static_key_enabled(&hydra_watch_key))
		static_branch_enable(&hydra_watch_key);
}

/*
 * Boot parameter hydra_ready: the branches are on before the second CPU starts, and stay
 * on. So no program that comes under Hydra, or leaves, makes the kernel patch its code.
 */
static bool ready __initdata;

static int __init hydra_ready_setup(char *text)
{
	if (*text)
		return 0;
	ready = true;
	return 1;
}
__setup("hydra_ready", hydra_ready_setup);

static int __init hydra_ready_init(void)
{
	if (!ready || hydra_refused_by_machine())
		return 0;
	hydra_watch();
	static_branch_deferred_inc(&hydra_key);
	return 0;
}
early_initcall(hydra_ready_init);

/* The settings of a process image that inherits none; 0: those of stock Linux */
static u32 hydra_settings_default(void)
{
	u32 settings = READ_ONCE(hydra_default_settings);

	return hydra_wants_domains(settings) ? settings | SETTINGS_CHOSEN : 0;
}

static void hydra_settings_init(struct mm_struct *mm, u32 settings)
{
	mm->hydra_settings = settings;
	/* An address space that is counted has its struct hydra_mm already. */
	if (mm->hydra)
		WRITE_ONCE(mm->hydra->eager, hydra_replication_setting(settings) ==
					     HYDRA_REPLICATE_EAGER);
	mm->hydra_home = HYDRA_HOME_UNKNOWN(hydra_domains_setting(settings));
}

/**
 * hydra_mm_init - initialise Hydra's fields of a new address space
 * @mm: the address space: no CPU runs it, it maps nothing yet, and nothing can fail until
 *	a reference to it is dropped; perhaps a copy of the parent's mm_struct
 *
 * The settings are those of the forking or executing process, or the system's
 * default if that process has none.
 *
 * Context: process context.
 */
void hydra_mm_init(struct mm_struct *mm)
{
	u32 settings = current->mm ? READ_ONCE(current->mm->hydra_settings) : 0;

	mm->hydra = hydra_count_inherit(mm);
	hydra_settings_init(mm, settings ?: hydra_settings_default());
}

/**
 * __hydra_secure_exec - a program with other rights than its caller's begins
 * @mm: its address space: the current thread runs it, and no other
 *
 * The program does not inherit the settings chosen by the caller, and is not counted with
 * the caller.
 *
 * Context: process context.
 */
void __hydra_secure_exec(struct mm_struct *mm)
{
	u32 settings = hydra_settings_default();
	u32 home = 0;

	mmap_write_lock(mm);
	/* An administrator may have chosen settings meanwhile, and split the address space. */
	if (!mm_hydra(mm)) {
		hydra_settings_init(mm, settings);
		/* If the thread moves later, the switch compares. */
		preempt_disable();
		if (hydra_wants_domains(settings))
			home = hydra_home_here(hydra_domains_setting(settings));
		WRITE_ONCE(mm->hydra_home, home);
		preempt_enable();
	}
	if (mm->hydra)
		hydra_count_leave(mm->hydra);
	mmap_write_unlock(mm);
}

/**
 * __hydra_mm_exit - the last user of an address space exits
 * @mm: the address space, everything still mapped
 *
 * Context: process context; start of exit_mmap().
 */
void __hydra_mm_exit(struct mm_struct *mm)
{
	long nr;

	hydra_count_exit(mm->hydra);
	if (!IS_ENABLED(CONFIG_HYDRA_MM_DEBUG) || !mm_hydra(mm))
		return;
	nr = hydra_check_mm(mm, NULL);
	if (nr > 0)
		pr_err("%ld violations in %s[%d] at exit\n", nr, current->comm,
		       task_pid_nr(current));
}

/**
 * __hydra_mm_destroy - free Hydra's state of an address space
 * @mm: the address space: maps nothing, no CPU has it loaded
 *
 * Context: __mmdrop(): any but interrupts.
 */
void __hydra_mm_destroy(struct mm_struct *mm)
{
	struct hydra_mm *h = mm->hydra;

	mm->hydra = NULL;
	hydra_free(h);
}

/**
 * hydra_degrade - let a domain use the canonical tree for a time
 * @h: address space
 * @d: the domain, which has a tree
 *
 * Called when a table above the leaf tables cannot be allocated: the program
 * continues, and the domain takes part in every flush (invariant 7). After a pause the domain
 * may have its tree again: see hydra_lacks_tree(). Each pause is twice as long as the last one.
 *
 * Context: process context, may wait for other CPUs.
 */
void hydra_degrade(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	/*
	 * hydra_promote() clears d in universal under this lock, unless root is
	 * canonical.
	 */
	spin_lock(&dom->lock);
	/* Flushes include the domain before its CPUs can cache canonical entries. */
	hydra_mask_set_atomic(d, &h->universal);
	/* universal before root; pairs with hydra_raise_targets(). */
	smp_mb__after_atomic();
	/* Several CPUs of the domain may lack memory at once: that is one pause. */
	if (dom->root == dom->pgd) {
		dom->pause = clamp(2 * dom->pause, DEGRADED_MIN, DEGRADED_MAX);
		WRITE_ONCE(dom->retry, jiffies + dom->pause);
	}
	WRITE_ONCE(dom->root, h->mm->pgd);
	spin_unlock(&dom->lock);
	hydra_stat_add(h, HYDRA_STAT_FALLBACKS, 1);
	hydra_switch_roots(h->mm, &dom->tlb_gen, hydra_kind_of(h)->cpus[d]);
	/* A thread that never sleeps comes to no switch. */
	hydra_ask_at(READ_ONCE(dom->retry) + 1);
}

/*
 * Code on the way to user mode, and fills, must not wait for anything that may in turn wait
 * for this very thread: see "Waiting" in Documentation/mm/hydra/rules.rst. Tell lockdep so: such
 * code holds hydra_no_wait_map, and here it is taken with each such thing held. From then on
 * lockdep reports code that takes them in the other order, also through a third lock.
 */
static void __init hydra_teach_lockdep(void)
{
	struct vm_area_struct *vma;
	struct mm_struct *mm;

	if (!IS_ENABLED(CONFIG_LOCKDEP))
		return;
	mm = mm_alloc();
	vma = mm ? vm_area_alloc(mm) : NULL;
	if (vma) {
		down_read(&mm->context.ldt_usr_sem);
		mmap_read_lock(mm);
		down_read(&vma->vm_lock->lock);
		hydra_no_wait_end(hydra_no_wait_begin());
		up_read(&vma->vm_lock->lock);
		mmap_read_unlock(mm);
		up_read(&mm->context.ldt_usr_sem);
		vm_area_free(vma);
	}
	if (mm)
		mmput(mm);
	/* CPUs that go online or offline, and thereby all static keys and code patching */
	cpus_read_lock();
	hydra_no_wait_end(hydra_no_wait_begin());
	cpus_read_unlock();
	/* Reclaim, and thereby all mutexes whose holders allocate memory */
	fs_reclaim_acquire(GFP_KERNEL);
	hydra_no_wait_end(hydra_no_wait_begin());
	fs_reclaim_release(GFP_KERNEL);
}

static int __init hydra_core_init(void)
{
	struct task_struct *thread;
	int cpu;

	for_each_possible_cpu(cpu)
		timer_setup(per_cpu_ptr(&hydra_ask_timer, cpu), hydra_ask, TIMER_PINNED);
	hydra_teach_lockdep();
	timer_setup(&queue_timer, hydra_end_queueing, 0);
	thread = kthread_create(hydra_splitter, NULL, "hydra_splitter");
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	splitter = thread;
	wake_up_process(thread);
	return 0;
}
core_initcall(hydra_core_init);
