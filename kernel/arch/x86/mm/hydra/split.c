// SPDX-License-Identifier: GPL-2.0-only
/*
 * Split and return: the domain trees of an address space come, and go.
 *
 * Split. A CPU of another domain switches to a thread, and marks the thread
 * (__hydra_switching()). Before the thread returns to user mode, the thread splits
 * the address space (__hydra_resume_user_mode()): hydra_mm::active is set, and
 * domains may have trees. A domain without a tree runs on the canonical root,
 * counts flushes in mm->context.tlb_gen, and is in hydra_mm::universal, the targets
 * of every flush. Then hydra_promote() gives trees to the domains of the CPUs
 * running the process. A further domain gets a tree when its first thread goes to
 * user mode. A domain never running the process has no tree, and is no target. (Under
 * replication "eager" all domains get trees when the process splits.)
 */

/**
 * DOC: Promotion
 *
 * CPUs of domain d begin to run the address space while the domain gets a tree::
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
 */

/*
 * While hydra_mm::active is set, mm->hydra_last is HYDRA_LAST_SPLIT, so every
 * switch to the address space calls __hydra_switching(). A CPU storing a new value
 * cannot overwrite HYDRA_LAST_SPLIT:
 *
 *     CPU 0: hydra_activate()                CPU 1: __hydra_switching()
 *     -----------------------                --------------------------
 *     hydra_last = HYDRA_LAST_SPLIT          last = hydra_last
 *     <release>                              <read barrier>
 *     active = true                          reads active: false
 *                                            cmpxchg(&hydra_last, last, its own)
 *
 * CPU 1 read hydra_last before CPU 0 stored HYDRA_LAST_SPLIT, and the cmpxchg fails;
 * or CPU 1 read HYDRA_LAST_SPLIT, and does not try.
 */

/**
 * DOC: Return
 *
 * When the process has a single thread again, or one domain alone runs it, or it gets the
 * settings of Linux, hydra_return() frees the trees, at last by hydra_deactivate()::
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
 */

/**
 * DOC: Return in parts
 *
 * Threads wait for mmap_lock, and faults for their VMA, while hydra_deactivate() runs. So if there
 * are many tables, hydra_return() first makes all CPUs use the canonical tree, and then frees
 * the trees in parts. mmap_lock is free from part to part, and no VMA is locked::
 *
 *     CPU 0: hydra_return()                  CPU 1, of domain d
 *     ---------------------                  ------------------
 *     takes mmap_lock, locks all VMAs        (a fault of d waits for its VMA)
 *     hydra_leave_tree(), for each domain:
 *       makes the domain universal
 *       dom->root = the canonical root       an atomic fill of d, interrupts off:
 *       hydra_switch_roots()                   links T
 *                                            interrupt: loads the root, flushes all
 *     returning = true                       an atomic fill: sees the root, fills nothing
 *     drops the locks
 *                                            a fault of d: sees the root, fills nothing
 *                                            a fault makes leaf table N:
 *                                              __hydra_install() reads returning: no link
 *     takes mmap_lock
 *     takes the lock of T, cuts the links,   changes an entry of T, by the lock of T; flushes
 *       frees the copies without a flush       all universal domains: d, too
 *     drops mmap_lock
 *                                            a thread of another domain: lodges
 *                                            (hydra_lodge()), hydra_promote() gives no tree
 *     when no leaf table has a domain:
 *     takes the lock of a PMD table,         __hydra_install() holds it while it reads the
 *       frees the copies of the table          struct hydra_table
 *     takes mmap_lock, locks all VMAs
 *     hydra_deactivate()
 *
 * Copies are freed without a flush: since hydra_switch_roots() no CPU has walked one, and what CPUs
 * hold comes from the canonical tree. Each domain with CPUs is a target of every flush: those that
 * had a tree are universal, and a domain that comes is, too.
 *
 * No table that hydra_release_tables() has passed gets a domain any more. Without returning, N
 * would: the fault goes by the domain's PMD table, and not by its root. A table that mremap() moves
 * has no domain at its new place. So at the end hydra_deactivate() looks at no table again.
 *
 * A fault holds its VMA, and so it may follow pointers to upper tables without their locks. In
 * between it does not: all domains use the canonical root, so it fills nothing.
 *
 * A return that has begun ends as a return, whatever the process does meanwhile. Then it may be
 * split again. A writer of settings needs the return to end before it writes them. If the splitter
 * did the last part, the threads could split the process before the writer has mmap_lock again, by
 * the old settings, and the writer would begin once more. So while there is a writer
 * (hydra_mm::writers), it alone does the last part, and writes the settings under the same lock.
 */

/*
 * Locking: settings, hydra_mm::active and hydra_mm::returning change, and hydra_promote() creates
 * trees, under mmap_lock held for writing. hydra_deactivate(), and the beginning of a return in
 * parts, also need all VMAs locked (hydra_lock_out_faults()). Atomic fills hold neither lock. An
 * atomic fill reads hydra_mm::active again under the lock of each table before changing the table,
 * and hydra_deactivate() takes the same locks after clearing active.
 */

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <asm/hydra.h>

#include "domain.h"
#include "idle.h"
#include "pending.h"
#include "rent.h"
#include "roots.h"
#include "split.h"
#include "state.h"
#include "table.h"
#include "unlink.h"
#include "wait.h"
#include "walk.h"

/*
 * How long a process with a single thread, or run by one domain alone, keeps its trees:
 * threads may start, or come. Freeing and filling trees costs time for each leaf table.
 */
#define STAY_MIN	(1UL * HZ)
#define STAY_MAX	(64UL * HZ)

/*
 * Unshare PMD tables of hugetlb: one struct hydra_table cannot serve several
 * address spaces. want_pmd_share() shares none once a scope is set.
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
 * Context: mmap_lock held for writing; the scope is set; CPUs may run the address space.
 * Return: false if a lock of hugetlb is busy, or the generations are used up.
 */
static bool hydra_activate(struct hydra_mm *h)
{
	unsigned int d, cpu;
	u64 gen;

	mmap_assert_write_locked(h->mm);
	if (hydra_next_generation(h) > GENERATION_MAX || !hydra_unshare_hugetlb(h->mm))
		return false;
	atomic_inc(&h->unfiltered);
	/*
	 * From here to the store to active, fewer than GENERATION_GAP flushes raise the
	 * generation of all: interrupts are off, and nothing waits. So CPU 2 below may take
	 * the flush of CPU 0 for an old one: it has flushed everything after the change.
	 *
	 *     CPU 0: flush              CPU 1: hydra_activate()   CPU 2: domain d
	 *     changes the entry
	 *     raises the generation: g
	 *     reads active as false
	 *                               d has gen, above g
	 *                               active = true
	 *                                                         reads active as true
	 *                                                         flushes all, notes gen
	 *     interrupts CPU 2 with g
	 *                                                         g <= gen: does nothing
	 */
	local_irq_disable();
	gen = hydra_next_generation(h);
	/*
	 * Domains with a tree before the last return use the canonical root, too. A
	 * number beyond those of the scope gets a generation when a later activation can
	 * use it.
	 */
	for (d = 0; d < hydra_domains_of(h)->nr; d++) {
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
	/* The last look may have come to an end before it took this. */
	WRITE_ONCE(h->rent_due, false);
	/* For the batches of the time before; see hydra_flush_batched(). */
	atomic64_inc(&h->batches.added);
	WRITE_ONCE(h->mm->hydra_last, HYDRA_LAST_SPLIT);
	/*
	 * The stores above before active; pairs with mm_hydra(), whose callers read
	 * them after active.
	 */
	smp_store_release(&h->active, true);
	local_irq_enable();
	/*
	 * Pairs with cpumask_set_cpu() in switch_mm_irqs_off(): the loop below sees
	 * every CPU switching here and reading active as false.
	 */
	smp_mb();
	for_each_cpu(cpu, mm_cpumask(h->mm))
		hydra_mask_set_atomic(hydra_domain_of_cpu(h->scope, cpu), &h->universal);
	/*
	 * universal before unfiltered; pairs with the atomics in
	 * hydra_raise_targets().
	 */
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
	return true;
}

/*
 * Choose the scope of the domains that may have trees from now on. Each struct
 * hydra_domain is used again for the domain with its number.
 *
 * Code that reads active, then the scope, and then relies on the number of a domain, does
 * so with preemption disabled, or holds mmap_lock or the lock of a VMA. So wait for a
 * grace period:
 *
 *     CPU 0: control.c                     CPU 1: __hydra_switching()
 *     -------------                        --------------------------
 *                                          reads active: true
 *     hydra_deactivate(): active = false   reads scope: core, and its number: 5
 *     synchronize_rcu()
 *                                          makes domain 5 universal
 *     scope = node
 *     hydra_activate(): active = true
 *
 * Without the wait, CPU 1 might use number 5 after CPU 0 has chosen nodes: set the bit of
 * another node, or of none, in universal, and load the root and the generation of that
 * node. (Atomic fills need no wait: hydra_deactivate() interrupts their CPUs. An atomic fill
 * has the address space loaded, and so its CPU is in mm_cpumask().)
 *
 * All other code has to bear a number of the scope before:
 *
 * - A gather is preemptible, and may have the numbers of its sharers from the time before.
 *   These are needless targets. The change of the scope has flushed all CPUs that may have
 *   used the entries of the gather, see hydra_deactivate(). For a number which the new
 *   scope does not have, see hydra_number_domains(). The gather publishes its flush for
 *   all numbers (hydra_publish()), and so covers marks of domains of the new scope.
 * - __hydra_links() may be asked for a table of another address space, with domains of
 *   another scope: it does not look into such a table.
 * - hydra_came_late() and __hydra_resume_user_mode() look again under mmap_lock, and the
 *   reports under /proc may mix two scopes.
 *
 * Context: mmap_lock held for writing; the address space is not active.
 */
static void hydra_set_scope(struct hydra_mm *h, unsigned int scope)
{
	mmap_assert_write_locked(h->mm);
	VM_WARN_ON_ONCE(h->active);
	if (h->scope == scope)
		return;
	/* A struct hydra_mm that has never been active has no scope. */
	if (h->scope)
		synchronize_rcu();
	/* What CPU 1 has set above, after hydra_deactivate() */
	hydra_mask_zero(&h->universal);
	WRITE_ONCE(h->scope, scope);
}

/* Context: mmap_lock held for writing, hydra_lock_ldt(). Return: NULL or @dom. */
static struct hydra_domain *hydra_domain_alloc(struct hydra_mm *h, unsigned int d)
{
	int home = hydra_domains_of(h)->home[d];
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

/**
 * hydra_lacks_tree - does a domain lack a tree, and can have one?
 * @h: address space
 * @d: the domain
 *
 * A domain that was degraded has one, which it may use again after a pause. While the trees go in
 * parts, no domain can have one.
 *
 * Context: any.
 * Return: true if so.
 */
bool hydra_lacks_tree(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = READ_ONCE(h->domain[d]);

	if (READ_ONCE(h->returning))
		return false;
	if (!dom || !hydra_mask_test(d, &h->trees))
		return !hydra_mask_test(d, &hydra_domains_of(h)->overflow);
	return READ_ONCE(dom->root) != dom->pgd && time_after_eq(jiffies, READ_ONCE(dom->retry));
}

/**
 * DOC: Promotion and degradation
 *
 * A fault of domain d gets no memory for an upper table, before hydra_promote() has ended.
 * The domain stays universal then::
 *
 *     CPU 0: hydra_promote(d)              CPU 1, of domain d: hydra_degrade()
 *     -----------------------              -----------------------------------
 *     makes the domain universal
 *     dom->root = the empty tree
 *                                          takes the lock
 *                                          makes the domain universal
 *                                          dom->root = the canonical root
 *                                          drops the lock
 *     hydra_switch_roots()
 *     takes the lock, finds another root:
 *       the domain stays universal
 *     drops the lock
 *                                          switches the CPUs to the canonical root
 *
 * If CPU 0 made the domain not universal without a look at the root, flushes could spare
 * the domain while its CPUs cache canonical entries. If CPU 0 takes the lock first, CPU 1
 * makes the domain universal again, before CPU 1 stores the root.
 */

/*
 * Give a domain an empty tree, unless it has one; or let a degraded domain use its tree again. The
 * hooks have kept that tree coherent, as they go by what it holds, and not by its root. See "Split"
 * in the head of this file.
 *
 * Context: mmap_lock held for writing, hydra_lock_ldt(); the address space is
 * active.
 * Return: false if memory is short. The domain stays universal, and asks again.
 */
static bool hydra_promote(struct hydra_mm *h, unsigned int d)
{
	struct hydra_domain *dom = h->domain[d];

	mmap_assert_write_locked(h->mm);
	hydra_assert_ldt_locked(h->mm);
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
	/*
	 * As in hydra_activate(): from here to the store to h->domain[d], fewer than
	 * GENERATION_GAP flushes read h->domain[d] as NULL.
	 */
	local_irq_disable();
	atomic64_set(&dom->tlb_gen, hydra_next_generation(h));
	/*
	 * The domain is universal already, unless the first CPU of the domain is in
	 * __hydra_switching() just now. Once h->domain[d] is set, the CPU does not
	 * make the domain universal, and loads the canonical root. So make the
	 * domain universal in the same way. See "Lodging" in the head of switch.c.
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
	local_irq_enable();
	/*
	 * The pointer before trees: __hydra_collapse_cut() locks the domain of each
	 * bit in trees. Pairs with the smp_rmb() there.
	 */
	smp_wmb();
	WRITE_ONCE(dom->retry, jiffies + DEGRADED_MIN);
	WRITE_ONCE(dom->ran, hydra_second());
	hydra_mask_set(d, &h->trees);
load:
	hydra_sync_ldt(h->mm);
	WRITE_ONCE(dom->root, dom->pgd);
	hydra_switch_roots(h->mm, &dom->tlb_gen, hydra_domains_of(h)->cpus[d]);
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

/*
 * Make an address space plain Linux again. See "Return" in the head of this file.
 *
 * Context: mmap_lock held for writing, hydra_lock_out_faults(): a fill may sleep while it
 * uses a struct hydra_table.
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
	WRITE_ONCE(h->return_gp, 0);
	/*
	 * unfiltered, tlb_gen before active; pairs with the smp_rmb() in
	 * hydra_raise_inactive() and hydra_splits_or_returns(). return_gp, too; pairs with
	 * hydra_drained().
	 */
	smp_store_release(&h->active, false);
	local_irq_enable();
	/* active before universal; pairs with cpumask_set_cpu() in switch_mm_irqs_off(). */
	smp_mb();
	hydra_pending_return(h);
	/*
	 * CPUs of universal domains, too. A flush may read active as true, read universal
	 * as empty, and reach none of these domains. Such a flush changed entries before
	 * active was false, so before hydra_switch_roots() raises tlb_gen and interrupts.
	 */
	run = h->trees;
	hydra_mask_add(&run, &h->universal);
	/* No CPU has used a number of another scope, see hydra_set_scope(). */
	VM_WARN_ON_ONCE(!hydra_mask_subset(&run, &hydra_domains_of(h)->all));
	for_each_hydra_domain(d, &run)
		hydra_switch_roots(mm, &mm->context.tlb_gen, hydra_domains_of(h)->cpus[d]);
	if (!h->returning) {
		hydra_release_first(h);
		hydra_release_tables(h, ULONG_MAX);
	}
	WRITE_ONCE(h->returning, false);
	for_each_hydra_domain(d, &h->trees)
		WRITE_ONCE(h->domain[d]->root, mm->pgd);
	hydra_mask_zero(&h->trees);
	hydra_mask_zero(&h->universal);
	h->returned = jiffies;
	/*
	 * The interrupts before unfiltered; pairs with hydra_raise_inactive() and
	 * hydra_splits_or_returns().
	 */
	smp_mb__before_atomic();
	atomic_dec(&h->unfiltered);
}

/*
 * Tables, and copies of them, that are looked at and freed at once, while threads wait for
 * mmap_lock: as many entries as mprotect() of a GiB changes
 */
#define RETURN_AT_ONCE	512UL

/* See "Return in parts" above. Context: as hydra_deactivate(). */
static void hydra_begin_return(struct hydra_mm *h)
{
	unsigned int d;

	mmap_assert_write_locked(h->mm);
	for_each_hydra_domain(d, &h->trees)
		hydra_leave_tree(h, d);
	hydra_release_first(h);
	WRITE_ONCE(h->returning, true);
}

/**
 * hydra_return - make an address space plain Linux again, or do a part of that
 * @h: the address space, active; CPUs may run it
 * @wait: wait for faults that hold a VMA; a fatal signal ends that. The caller is a writer of
 *	settings
 *
 * Context: mmap_lock held for writing.
 * Return: 0 if it is plain Linux now; -EINPROGRESS: a part is done, and the caller calls again, or
 * asks the splitter for that, once others have had a chance to take mmap_lock; -EINTR: a VMA was
 * busy, or a writer of settings does the last part.
 */
int hydra_return(struct hydra_mm *h, bool wait)
{
	int ret;

	mmap_assert_write_locked(h->mm);
	if (h->returning && !hydra_release_tables(h, RETURN_AT_ONCE))
		return -EINPROGRESS;
	if (!wait && atomic_read(&h->writers))
		return -EINTR;
	ret = hydra_lock_out_faults(h->mm, wait);
	if (ret)
		return ret;
	/* Linux counts copies, too. */
	if (h->returning || mm_pgtables_bytes(h->mm) <= RETURN_AT_ONCE * PAGE_SIZE) {
		hydra_deactivate(h);
		return 0;
	}
	hydra_begin_return(h);
	return -EINPROGRESS;
}

/**
 * hydra_split_locked - split an address space, and give trees to the domains that run it
 * @h: the address space; it may be split already
 *
 * Under replication "eager", all domains get trees, also those that threads may come to. A
 * fault may give a table to some of the domains while others have no tree yet. The next fault
 * in the table finds that (hydra_all_joined()), and gives it to the others.
 *
 * Context: mmap_lock held for writing, hydra_lock_ldt(); the settings want domains.
 * Return: false if it could not be done, or not for all domains: try again later.
 */
bool hydra_split_locked(struct hydra_mm *h)
{
	unsigned int d, cpu;
	bool done = true;
	hydra_mask_t run;

	if (!h->active) {
		hydra_set_scope(h, hydra_scope_of(hydra_choice_of(h->mm)));
		hydra_pending_alloc(h);
		if (!hydra_activate(h)) {
			/* If it was never active, no gather has raised places. */
			if (!h->return_gp)
				hydra_pending_return(h);
			return false;
		}
	}
	hydra_mask_zero(&run);
	if (hydra_eager(h))
		hydra_mask_add(&run, &hydra_domains_of(h)->all);
	for_each_cpu(cpu, mm_cpumask(h->mm))
		hydra_mask_set(hydra_domain_of_cpu(h->scope, cpu), &run);
	for_each_hydra_domain(d, &run) {
		done &= hydra_promote(h, d);
#ifdef CONFIG_MEMCG
		/* A charge sleeps for many of these at once: not under mmap_lock. */
		current->memcg_nr_pages_over_high = 0;
#endif
	}
	hydra_keep(h);
	return done;
}
