// SPDX-License-Identifier: GPL-2.0-only
/*
 * Life of an address space under Hydra, from the first setting to its end.
 *
 * An address space under Hydra is plain Linux until threads of its process run
 * in two domains. Until then it has its settings and mm->hydra_home, the domain
 * whose CPUs run it, and nothing else: no struct hydra_mm, no tree, no
 * counters. A single thread that moves takes its home along.
 *
 * Split. The CPU that switches to a thread in another domain than the home marks
 * the thread (__hydra_switching()). On its way to user mode the thread splits the
 * address space (__hydra_resume_user_mode()): hydra_mm::active is set, and from
 * then on a domain may have a tree. That alone changes nothing: a domain without
 * a tree runs on the canonical root, counts flushes in mm->context.tlb_gen, and is
 * in hydra_mm::universal, so every flush reaches it. Then the domains of the CPUs
 * that run the process are given their trees, and each further domain when the
 * first of its threads goes to user mode. A domain that never runs the process
 * never has anything, and no flush looks for it.
 *
 * A domain gets its tree in promote(), while its CPUs run:
 *
 *    promote(d)                            CPU of domain d
 *    ----------                            ---------------
 *    dom->tlb_gen = ahead of all           switch_mm_irqs_off():
 *    h->domain[d] = dom                      sets its bit in mm_cpumask()
 *    dom->root = an empty tree               <full barrier>
 *    <full barrier>                          reads h->domain[d]: generation, root
 *    interrupts all CPUs of d, waits         loads the root
 *                                            <takes the interrupt>: loads its own
 *                                            root, forgets all it has cached
 *    takes d out of h->universal
 *
 * All CPUs of d, whether or not they run the process now: a CPU may have caught up
 * with dom->tlb_gen in a flush while the canonical root was still loaded, and have
 * left the address space since. What it has cached would look up to date when it
 * comes back to the new root. The interrupt has it forget that context.
 *
 * A flush that has read h->domain[d] as NULL, after its barrier, has changed its
 * entries before the tree could be seen: when the CPUs of d take promote()'s
 * interrupt they forget the old entries, and they find the new ones when they fill
 * their tree. So its generation may be lower than theirs.
 *
 * A CPU of a domain without a tree that comes later raises mm->context.tlb_gen once,
 * for contexts of the domain that were not loaded when the address space was split
 * have missed flushes since; and then adds the domain to hydra_mm::universal:
 *
 *    CPU 0 of d                  CPU 1 of d                  a flush
 *    raises context.tlb_gen                                  changes its entries
 *    <full barrier>                                          <full barrier>
 *    sets d in universal         sees d in universal         reads universal
 *    <full barrier>              reads the generation:
 *    reads the generation        it has been raised
 *
 * The flush reaches d, or its change was made before CPU 0 and CPU 1 flushed, which
 * both do, being behind.
 *
 * While hydra_mm::active is set, mm->hydra_home is HYDRA_HOME_SPLIT, so every switch
 * to the address space comes by here. A CPU that writes another home has read the
 * old one before it read active as false, and writes with cmpxchg().
 *
 * Return. When the process has a single thread again, or its settings are those
 * of Linux, hydra_deactivate() takes the trees down. While it does,
 * hydra_mm::unfiltered is raised, so every flush reaches every CPU; and
 * mm->context.tlb_gen is set ahead of the domains' generations by more than any
 * flush under way can add. A CPU that has not switched looks behind and flushes
 * all. A flush begun before carries a low generation, which a CPU that has not
 * switched would take for old: so its sender takes a new one (see
 * hydra_flush_raised()). A CPU that has switched has flushed all, after the sender
 * had changed its entries. As in promote(), all CPUs of the domains that have trees
 * are interrupted, and so are those of the domains that run it without one: a flush
 * that has chosen its targets while the address space was active may not know of them
 * any more.
 *
 * A struct hydra_mm, once there, stays as long as its mm_struct, and so do
 * struct hydra_domain and the roots: they are read without a lock in the middle of
 * context switches and flushes.
 *
 * Locking: settings and hydra_mm::active change under mmap_lock held for writing,
 * and so do trees come to be. The take-down also waits for the faults that hold
 * only a VMA. Atomic fills hold neither: they look at hydra_mm::active once more
 * under the locks they add anything under, and the take-down takes the same locks
 * later.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include <trace/events/hydra.h>

#include "internal.h"

/* More than the flushes that can be under way at one moment. */
#define GENERATION_GAP	BIT_ULL(24)

/*
 * A process that has a single thread keeps its trees so long: it may start more. To
 * take them down, and to fill them anew, costs a step for each of its leaf tables.
 */
#define STAY_MIN	(1UL * HZ)
#define STAY_MAX	(64UL * HZ)

/* Ticks to wait for locks that may not be waited for without end. */
#define LOCK_TRIES	20

#define HYDRA_GFP	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

DEFINE_STATIC_KEY_FALSE(hydra_watch_key);

/* In mm->hydra_settings: there are some, chosen or inherited. No setting uses it. */
#define SETTINGS_CHOSEN	BIT(31)

static bool wants_domains(u32 settings)
{
	return hydra_domains_setting(settings) != HYDRA_DOMAINS_MACHINE;
}

/* Context: no mmap_lock: the first switches hydra_key, under cpus_read_lock(). */
static struct hydra_mm *hydra_alloc(struct mm_struct *mm)
{
	struct hydra_mm *h;

	h = kzalloc(struct_size(h, domain, hydra_nr_domains), HYDRA_GFP);
	if (!h)
		return NULL;
	h->stats = alloc_percpu_gfp(struct hydra_stats, HYDRA_GFP);
	if (!h->stats) {
		kfree(h);
		return NULL;
	}
	h->mm = mm;
	static_branch_deferred_inc(&hydra_key);
	return h;
}

/* Context: as __hydra_mm_destroy(). */
static void hydra_free(struct hydra_mm *h)
{
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++) {
		if (!h->domain[d])
			continue;
		hydra_pgd_free(h->mm, h->domain[d]->pgd);
		kfree(h->domain[d]);
	}
	free_percpu(h->stats);
	kfree(h);
	static_branch_slow_dec_deferred(&hydra_key);
}

/* A generation that no CPU has seen yet, nor will one that a flush under way takes. */
static u64 next_generation(struct hydra_mm *h)
{
	u64 gen = atomic64_read(&h->mm->context.tlb_gen);
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++)
		if (h->domain[d])
			gen = max_t(u64, gen, atomic64_read(&h->domain[d]->tlb_gen));
	return gen + GENERATION_GAP;
}

/*
 * Shared PMD tables of hugetlb hang in several address spaces, one
 * struct hydra_table cannot serve them. No new ones are made once mm->hydra is
 * there (want_pmd_share()); undo what there is.
 */
static void unshare_hugetlb(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	VMA_ITERATOR(vmi, mm, 0);

	for_each_vma(vmi, vma)
		if (is_vm_hugetlb_page(vma))
			hugetlb_unshare_all_pmds(vma);
}

/*
 * From now on domains may have trees; none has one yet.
 * Context: mmap_lock held for writing; CPUs may run the address space.
 */
static void hydra_activate(struct hydra_mm *h)
{
	unsigned int d, cpu;
	u64 gen;

	mmap_assert_write_locked(h->mm);
	unshare_hugetlb(h->mm);
	atomic_inc(&h->unfiltered);
	gen = next_generation(h);
	h->refused = hydra_overflow_mask;
	/* Those that had a tree before use the canonical root as well. */
	for (d = 0; d < hydra_nr_domains; d++) {
		if (!h->domain[d])
			continue;
		hydra_mask_set(d, &h->universal);
		WRITE_ONCE(h->domain[d]->root, h->mm->pgd);
		atomic64_set(&h->domain[d]->tlb_gen, gen);
	}
	/* A process that comes and goes: each time it stays for longer. */
	if (h->stay && time_before(jiffies, h->returned + STAY_MAX))
		h->stay = min(2 * h->stay, STAY_MAX);
	else
		h->stay = STAY_MIN;
	h->activated = jiffies;
	WRITE_ONCE(h->mm->hydra_home, HYDRA_HOME_SPLIT);
	/* All of that before a flush or a CPU that switches acts on active. */
	smp_store_release(&h->active, true);
	/*
	 * Pairs with cpumask_set_cpu() in switch_mm_irqs_off(): a CPU that comes
	 * and has not read active as true is seen here.
	 */
	smp_mb();
	for_each_cpu(cpu, mm_cpumask(h->mm))
		hydra_mask_set_atomic(hydra_domain_of_cpu(cpu), &h->universal);
	/* The domains before the end of flushes to every CPU. */
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
}

/* Context: mmap_lock held for writing, hydra_arch_lock(). Return: NULL or @dom. */
static struct hydra_domain *domain_alloc(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom;

	dom = kzalloc_node(sizeof(*dom), HYDRA_GFP, hydra_domain_home[d]);
	if (!dom)
		return NULL;
	spin_lock_init(&dom->lock);
	dom->root = h->mm->pgd;
	dom->pgd = hydra_pgd_alloc(h->mm, hydra_domain_home[d]);
	if (!dom->pgd) {
		kfree(dom);
		return NULL;
	}
	return dom;
}

/*
 * Give a domain its tree, which is empty at first. See the head of this file.
 * Context: mmap_lock held for writing, hydra_arch_lock(); the address space is
 * active.
 */
static void promote(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	mmap_assert_write_locked(h->mm);
	if (hydra_mask_test(d, &h->trees) || hydra_mask_test(d, &h->refused))
		return;
	if (!dom)
		dom = domain_alloc(h, d);
	if (!dom) {
		hydra_mask_set(d, &h->refused);
		hydra_count(h, HYDRA_STAT_FALLBACKS, 1);
		return;
	}
	atomic64_set(&dom->tlb_gen, next_generation(h));
	/*
	 * It is universal unless its first CPU is switching just now: then that
	 * CPU finds the domain here, adds it nowhere, and loads the canonical root;
	 * or it finds the domain universal. So the generation is raised here first, as
	 * that CPU would have done: see the head of this file.
	 */
	atomic64_inc_return(&h->mm->context.tlb_gen);
	hydra_mask_set_atomic(d, &h->universal);
	/* Pairs with the barrier of a flush before it looks at universal. */
	smp_mb__after_atomic();
	/* The domain whole before it can be seen. */
	smp_store_release(&h->domain[d], dom);
	/*
	 * Then __hydra_collapse_cut(), which looks at the domains that may have links,
	 * finds the domain there; and before the first fill of the domain.
	 */
	smp_wmb();
	hydra_mask_set(d, &h->trees);
	hydra_sync_ldt(h->mm);
	WRITE_ONCE(dom->root, dom->pgd);
	/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	hydra_switch_roots(h->mm, hydra_domain_cpus[d]);
	/*
	 * Its CPUs have loaded the tree before flushes may spare them, unless a
	 * fault has had to give the tree up by now: see hydra_degrade().
	 */
	spin_lock(&dom->lock);
	smp_mb__before_atomic();
	if (dom->root == dom->pgd)
		hydra_mask_clear_atomic(d, &h->universal);
	spin_unlock(&dom->lock);
}

/* The link to a table that one domain uses alone goes with the table above it. */
static void release_detached(void *canonical)
{
	unsigned long word = hydra_table_detach(virt_to_ptdesc(canonical));
	struct hydra_table *t = hydra_word_table(word);

	if (t)
		hydra_table_release(t, hydra_table_start(canonical));
}

/* Take the domain trees down, from the leaf tables up. */
static void release_pmds(struct hydra_mm *h, pud_t *pud, unsigned long addr)
{
	pmd_t *pmd = pmd_offset(pud, addr);
	unsigned int i;

	for (i = 0; i < PTRS_PER_PMD; i++, pmd++, addr += PMD_SIZE) {
		spinlock_t *ptl;
		pte_t *pte;

		if (!hydra_present(pmd_val(READ_ONCE(*pmd))) ||
		    hydra_leaf(pmd_val(READ_ONCE(*pmd))))
			continue;
		pte = pte_offset_map_lock(h->mm, pmd, addr, &ptl);
		if (!pte)
			continue;
		release_detached(pte);
		pte_unmap_unlock(pte, ptl);
		cond_resched();
	}
	/*
	 * A collapse that found its way here by the reverse map holds this lock
	 * from before it clears the entry, which made us pass over it, until it
	 * has cut the links, for which it needs the table above.
	 */
	pmd = pmd_offset(pud, addr - PUD_SIZE);
	spin_lock(pmd_lockptr(h->mm, pmd));
	spin_unlock(pmd_lockptr(h->mm, pmd));
	release_detached(pmd);
}

static void release_puds(struct hydra_mm *h, p4d_t *p4d, unsigned long addr)
{
	pud_t *pud = pud_offset(p4d, addr);
	unsigned int i;

	for (i = 0; i < PTRS_PER_PUD; i++, pud++, addr += PUD_SIZE)
		if (hydra_present(pud_val(READ_ONCE(*pud))) &&
		    !hydra_leaf(pud_val(READ_ONCE(*pud))))
			release_pmds(h, pud, addr);
	release_detached(pud_offset(p4d, addr - P4D_SIZE));
}

static void release_tables(struct hydra_mm *h)
{
	unsigned long addr = 0, next;

	do {
		pgd_t *pgd = pgd_offset(h->mm, addr);
		p4d_t *p4d;

		if (pgd_none(*pgd)) {
			next = pgd_addr_end(addr, TASK_SIZE_MAX);
			continue;
		}
		next = hydra_next_p4d(addr);
		p4d = p4d_offset(pgd, addr);
		if (hydra_present(p4d_val(READ_ONCE(*p4d))))
			release_puds(h, p4d, addr & P4D_MASK);
	} while (addr = next, addr < TASK_SIZE_MAX);
}

/**
 * hydra_lock_out_faults - wait for the faults that hold only a VMA
 * @mm: the address space
 *
 * Context: mmap_lock held for writing. Until it is dropped no fault runs but
 * atomic ones.
 */
void hydra_lock_out_faults(struct mm_struct *mm)
{
	struct vm_area_struct *vma;
	VMA_ITERATOR(vmi, mm, 0);

	for_each_vma(vmi, vma) {
		/* A fork that failed half way leaves a mark in their place. */
		if (xa_is_zero(vma))
			break;
		vma_start_write(vma);
	}
}

/*
 * The address space is plain Linux again. Context: mmap_lock held for writing;
 * CPUs may run the address space.
 */
static void hydra_deactivate(struct hydra_mm *h)
{
	struct mm_struct *mm = h->mm;
	hydra_mask_t run;
	unsigned int d;

	mmap_assert_write_locked(mm);
	atomic_inc(&h->unfiltered);
	atomic64_set(&mm->context.tlb_gen, next_generation(h));
	/* The generation before the CPUs compare with it. */
	smp_store_release(&h->active, false);
	/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	/*
	 * Domains without a tree, too. A flush that has still read active as true may
	 * read universal when it is empty again, and then reach none of them: it has
	 * changed its entries before they are interrupted here.
	 */
	run = h->trees;
	hydra_mask_add(&run, &h->universal);
	for_each_hydra_domain(d, &run)
		hydra_switch_roots(mm, hydra_domain_cpus[d]);
	/* A fill may sleep with a struct hydra_table in hand. */
	hydra_lock_out_faults(mm);
	release_tables(h);
	for_each_hydra_domain(d, &h->trees)
		WRITE_ONCE(h->domain[d]->root, mm->pgd);
	hydra_mask_zero(&h->trees);
	hydra_mask_zero(&h->universal);
	h->returned = jiffies;
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
}

/**
 * hydra_get - settings of an address space
 * @mm: the address space
 *
 * Context: any.
 * Return: packed settings; those of stock Linux if it has none.
 */
u32 hydra_get(struct mm_struct *mm)
{
	u32 settings = READ_ONCE(mm->hydra_settings);

	return settings ? settings & ~SETTINGS_CHOSEN : HYDRA_LINUX_SETTINGS;
}

/* Has this thread domains of its own to be considered, and not another's? */
static bool may_split(struct task_struct *tsk, struct mm_struct *mm)
{
	/* Kernel threads that use it, io workers: they never run user code. */
	if (tsk->mm != mm || tsk->flags & (PF_KTHREAD | PF_USER_WORKER | PF_EXITING))
		return false;
	/* A child of vfork() runs in its parent's address space, and not for long. */
	return !tsk->vfork_done;
}

/* Could a domain have a tree, and has none? */
static bool lacks_tree(struct hydra_mm *h, unsigned int d)
{
	return !hydra_mask_test(d, &h->trees) && !hydra_mask_test(d, &h->refused);
}

/* What mmap_write_lock() does, if it need not wait. */
static bool mmap_write_trylock(struct mm_struct *mm)
{
	if (!down_write_trylock(&mm->mmap_lock))
		return false;
	mm_lock_seqcount_begin(mm);
	return true;
}

/* Until when threads that return to user mode on a CPU do not wait for mmap_lock. */
static DEFINE_PER_CPU(unsigned long, no_wait_until);

static bool may_wait(void)
{
	return time_after_eq(jiffies, raw_cpu_read(no_wait_until));
}

/* Does this CPU's domain have what a thread has come to give it? */
static bool came_late(struct mm_struct *mm)
{
	struct hydra_mm *h = hydra_active(mm);

	return h && !lacks_tree(h, hydra_this_domain());
}

/*
 * Take the locks under which an address space is split, or the reverse. On the way
 * to user mode a thread waits for them some ticks at most, for the holder of mmap_lock
 * may be waiting for this very thread, if it serves a file system that its own process
 * uses. A thread that has slept is asked again before it reaches user mode (its
 * switch sets TIF_NOTIFY_RESUME, and so does rseq). So after a wait in vain none waits
 * on this CPU for a second; the next switch asks again.
 *
 * @first: to split, not the reverse
 *
 * Return: false if they could not be had, or are not needed any more.
 */
static bool lock_on_resume(struct mm_struct *mm, bool first)
{
	unsigned int tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (!rwsem_is_locked(&mm->mmap_lock) && hydra_arch_trylock(mm)) {
			if (mmap_write_trylock(mm))
				return true;
			hydra_arch_unlock(mm);
		}
		if (!may_wait())
			return false;
		schedule_timeout_killable(1);
		if (fatal_signal_pending(current) || (first && came_late(mm)))
			return false;
	}
	raw_cpu_write(no_wait_until, jiffies + HZ);
	return false;
}

/* Until when no address space is split, for want of memory for the last one. */
static unsigned long no_memory_until;

/*
 * Split an address space, if it is not yet, and give trees to the domains of
 * the CPUs that run it.
 * Context: process context, no locks.
 */
static void hydra_split(struct mm_struct *mm)
{
	struct hydra_mm *h, *new = NULL;
	hydra_mask_t run;
	unsigned int d, cpu;

	if (!READ_ONCE(mm->hydra)) {
		/* To allocate it may sleep: see lock_on_resume(). */
		if ((rwsem_is_locked(&mm->mmap_lock) && !may_wait()) ||
		    time_before(jiffies, READ_ONCE(no_memory_until)))
			return;
		new = hydra_alloc(mm);
		if (!new) {
			WRITE_ONCE(no_memory_until, jiffies + HZ);
			return;
		}
	}
	if (!lock_on_resume(mm, true))
		goto free;
	if (wants_domains(mm->hydra_settings)) {
		if (!mm->hydra) {
			/* Code that sees it sees it whole. */
			smp_store_release(&mm->hydra, new);
			new = NULL;
		}
		h = mm->hydra;
		if (!h->active)
			hydra_activate(h);
		hydra_mask_zero(&run);
		for_each_cpu(cpu, mm_cpumask(mm))
			hydra_mask_set(hydra_domain_of_cpu(cpu), &run);
		for_each_hydra_domain(d, &run)
			promote(h, d);
	}
	mmap_write_unlock(mm);
	hydra_arch_unlock(mm);
free:
	if (new)
		hydra_free(new);
}

/* A process has a single thread again. Context: that thread, no locks. */
static void hydra_unsplit(struct mm_struct *mm)
{
	if (!lock_on_resume(mm, false))
		return;
	if (mm->hydra->active && atomic_read(&mm->mm_users) == 1) {
		hydra_deactivate(mm->hydra);
		/* If the thread moves later, the switch there sees this home. */
		preempt_disable();
		WRITE_ONCE(mm->hydra_home, hydra_this_domain() + 1);
		preempt_enable();
	}
	mmap_write_unlock(mm);
	hydra_arch_unlock(mm);
}

static bool has_threads(struct task_struct *tsk)
{
	return get_nr_threads(tsk) > 1 || hydra_breaks(HYDRA_BREAK_SPLIT_SINGLE);
}

/* Is a process with a single thread to become plain Linux again? */
static bool returns(struct hydra_mm *h, struct task_struct *tsk)
{
	return !has_threads(tsk) &&
	       time_after(jiffies, READ_ONCE(h->activated) + READ_ONCE(h->stay)) &&
	       atomic_read(&h->mm->mm_users) == 1;
}

/**
 * __hydra_switching - this CPU is about to run an address space
 * @next: the address space
 * @tsk: the task that is to use it, or NULL
 *
 * See the head of this file.
 *
 * Context: as hydra_switching(): interrupts off.
 * Return: the domain of this CPU, if the address space is split and the domain has
 * had a tree, or NULL.
 */
struct hydra_domain *__hydra_switching(struct mm_struct *next,
				       struct task_struct *tsk)
{
	u32 home = READ_ONCE(next->hydra_home);
	unsigned int d = hydra_this_domain();
	struct hydra_mm *h;

	lockdep_assert_irqs_disabled();
	/* The home before active; pairs with the release in hydra_activate(). */
	smp_rmb();
	h = hydra_active(next);
	if (h && !READ_ONCE(h->domain[d]) &&
	    !hydra_mask_test(d, &h->universal)) {
		/* In this order: see the head of this file. */
		atomic64_inc_return(&next->context.tlb_gen);
		if (!hydra_breaks(HYDRA_BREAK_LODGE_QUIETLY))
			hydra_mask_set_atomic(d, &h->universal);
		/* Pairs with the barrier of a flush before it looks at universal. */
		smp_mb__after_atomic();
	}
	/* execve() switches to the new address space for itself. */
	if (!tsk)
		tsk = current;
	if (!may_split(tsk, next))
		return h ? READ_ONCE(h->domain[d]) : NULL;
	if (h) {
		if (lacks_tree(h, d) || returns(h, tsk))
			set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (home == HYDRA_HOME_SPLIT) {
		/* It is being split, or the reverse: what does it looks at this CPU. */
	} else if (home != HYDRA_HOME_UNKNOWN && has_threads(tsk)) {
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	} else if (home != HYDRA_HOME_UNKNOWN && atomic_read(&next->mm_users) > 1) {
		/* A process without threads shares it: the home is not its own. */
	} else if (cmpxchg(&next->hydra_home, home, d + 1) != home &&
		   has_threads(tsk)) {
		/* Another CPU's first switch was faster. */
		set_tsk_thread_flag(tsk, TIF_NOTIFY_RESUME);
	}
	return h ? READ_ONCE(h->domain[d]) : NULL;
}

/**
 * __hydra_resume_user_mode - split an address space, or the reverse
 * @mm: that of the current thread
 *
 * Context: as hydra_resume_user_mode(). A signal that kills the thread may keep
 * it from doing so, and so may a lack of memory: the next switch asks again.
 */
void __hydra_resume_user_mode(struct mm_struct *mm)
{
	u32 home, here = hydra_this_domain() + 1;
	struct hydra_mm *h;

	if (!wants_domains(READ_ONCE(mm->hydra_settings)) ||
	    !may_split(current, mm))
		return;
	home = READ_ONCE(mm->hydra_home);
	/* As in __hydra_switching(). */
	smp_rmb();
	h = hydra_active(mm);
	if (h && returns(h, current))
		hydra_unsplit(mm);
	else if (h ? lacks_tree(h, here - 1) :
		 has_threads(current) && home && home != here &&
		 home != HYDRA_HOME_UNKNOWN && home != HYDRA_HOME_SPLIT)
		hydra_split(mm);
}

/* Where an address space that gets settings is run now, as hydra_home says it. */
static u32 home_now(struct mm_struct *mm)
{
	unsigned int cpu = cpumask_any(mm_cpumask(mm));

	return cpu < nr_cpu_ids ? hydra_domain_of_cpu(cpu) + 1 :
				  HYDRA_HOME_UNKNOWN;
}

/* Do CPUs of several domains run an address space? */
static bool runs_in_several(struct mm_struct *mm)
{
	u32 home = home_now(mm);

	return home != HYDRA_HOME_UNKNOWN &&
	       !cpumask_subset(mm_cpumask(mm), hydra_domain_cpus[home - 1]);
}

/**
 * hydra_set - change the settings of an address space
 * @mm: the address space, which may be running
 * @old: NULL, or what its settings have to be now
 * @settings: packed settings that hydra_check_settings() accepts
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0; or with nothing changed -EOPNOTSUPP if the platform cannot do it,
 * -EAGAIN if the settings are not @old any more, or -EINTR.
 */
int hydra_set(struct mm_struct *mm, const u32 *old, u32 settings)
{
	bool split = false;
	int ret;

	if (wants_domains(settings)) {
		if (hydra_arch_refuses()) {
			pr_info_once("not on this platform: %s\n",
				     hydra_arch_refuses());
			return -EOPNOTSUPP;
		}
		hydra_watch();
	}
	ret = hydra_arch_lock(mm);
	if (ret)
		return ret;
	ret = mmap_write_lock_killable(mm);
	if (ret)
		goto unlock;
	if (old && hydra_get(mm) != *old) {
		ret = -EAGAIN;
	} else {
		WRITE_ONCE(mm->hydra_settings, settings | SETTINGS_CHOSEN);
		if (!wants_domains(settings)) {
			/* A home is not looked for any more, once no domain has a tree. */
			if (mm->hydra && mm->hydra->active)
				hydra_deactivate(mm->hydra);
			WRITE_ONCE(mm->hydra_home, 0);
		} else if (!mm->hydra || !mm->hydra->active) {
			WRITE_ONCE(mm->hydra_home, home_now(mm));
			/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
			smp_mb();
			/* A caller that is not of the process has a reference. */
			split = runs_in_several(mm) &&
				(mm == current->mm ? get_nr_threads(current) > 1 :
				 atomic_read(&mm->mm_users) > 2);
		}
	}
	mmap_write_unlock(mm);
unlock:
	hydra_arch_unlock(mm);
	if (split)
		hydra_split(mm);
	return ret;
}

/**
 * hydra_watch - from now on CPUs look for address spaces that run in two domains
 *
 * For good: to count the processes that ask for it would cost each fork.
 *
 * Context: process context, no locks.
 */
void hydra_watch(void)
{
	if (!static_key_enabled(&hydra_watch_key))
		static_branch_enable(&hydra_watch_key);
}

/* The settings of a process image that inherits none; 0: those of stock Linux. */
static u32 default_settings(void)
{
	u32 settings = READ_ONCE(hydra_default_settings);

	return wants_domains(settings) ? settings | SETTINGS_CHOSEN : 0;
}

static void settings_init(struct mm_struct *mm, u32 settings)
{
	mm->hydra_settings = settings;
	mm->hydra_home = wants_domains(settings) ? HYDRA_HOME_UNKNOWN : 0;
}

/**
 * hydra_mm_init - give a new address space its settings
 * @mm: the address space: no CPU runs it, it maps nothing yet
 *
 * Those of the process that forks or executes, else the system's default.
 *
 * Context: process context.
 */
void hydra_mm_init(struct mm_struct *mm)
{
	u32 settings = current->mm ? READ_ONCE(current->mm->hydra_settings) : 0;

	settings_init(mm, settings ?: default_settings());
}

/**
 * hydra_secure_exec - a program with other rights than its caller's begins
 * @mm: its address space: one thread runs it
 *
 * What the caller has chosen for itself is not for such a program.
 *
 * Context: process context.
 */
void hydra_secure_exec(struct mm_struct *mm)
{
	mmap_write_lock(mm);
	/* Or an administrator has been faster, and has had it split. */
	if (!mm->hydra)
		settings_init(mm, default_settings());
	mmap_write_unlock(mm);
}

/**
 * __hydra_mm_exit - the last user of an address space has gone
 * @mm: the address space, everything still mapped
 *
 * Context: process context; start of exit_mmap().
 */
void __hydra_mm_exit(struct mm_struct *mm)
{
	long nr;

	if (!IS_ENABLED(CONFIG_HYDRA_MM_DEBUG) || !hydra_active(mm))
		return;
	nr = hydra_check(mm, NULL);
	if (nr > 0)
		pr_err("%ld violations in %s[%d] at exit\n", nr, current->comm,
		       task_pid_nr(current));
}

/**
 * __hydra_mm_destroy - free what an address space had
 * @mm: the address space: maps nothing, no CPU has it loaded
 *
 * Context: __mmdrop(): any but interrupts.
 */
void __hydra_mm_destroy(struct mm_struct *mm)
{
	struct hydra_mm *h = mm->hydra;

	hydra_free_p4ds(h);
	mm->hydra = NULL;
	hydra_free(h);
}

/**
 * hydra_degrade - let a domain use the canonical tree from now on
 * @h: address space
 * @d: the domain, which has a tree
 *
 * For a table above the leaf tables that cannot be had: the program goes on,
 * and the domain takes part in every flush (invariant 7).
 *
 * Context: process context, may wait for other CPUs.
 */
void hydra_degrade(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	/* promote() may be at its end, and must not take the domain out again. */
	spin_lock(&dom->lock);
	/* In every flush before its CPUs can cache what is not its own. */
	if (!hydra_breaks(HYDRA_BREAK_DEGRADE_QUIETLY))
		hydra_mask_set_atomic(d, &h->universal);
	/* Pairs with the barrier of a flush before it looks at universal. */
	smp_mb__after_atomic();
	WRITE_ONCE(dom->root, h->mm->pgd);
	spin_unlock(&dom->lock);
	hydra_count(h, HYDRA_STAT_FALLBACKS, 1);
	/* Pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	hydra_switch_roots(h->mm, hydra_domain_cpus[d]);
}
