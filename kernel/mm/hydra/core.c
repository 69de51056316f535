// SPDX-License-Identifier: GPL-2.0-only
/*
 * Life of an address space under Hydra, from the first setting to its end.
 *
 * A struct hydra_mm, once there, stays as long as its mm_struct, and so do the
 * roots of the domain trees. Only hydra_mm::active says which of the two ways
 * to run is in force, and it is read without a lock in the middle of context
 * switches and flushes. What makes switching a running process safe is that
 * both ways agree while it happens:
 *
 *  - hydra_mm::unfiltered is raised, so flushes go to every CPU in either way;
 *  - the generations of the way to come are set ahead of those of the way that
 *    goes by more than any flush under way can add. A CPU that has not switched
 *    looks behind and flushes all. A flush begun in the old way carries a low
 *    generation: on the way on, a receiver that has not switched is behind that
 *    too, and on the way off, the sender takes a new one (see
 *    __hydra_flush_start()). A receiver that has switched has flushed all, after
 *    the sender had changed its entries;
 *  - then every CPU is told to load the root that is now its own, dropping all
 *    it has cached, active context or not, and only after the last one has done
 *    so is unfiltered lowered, or the domain trees taken down.
 *
 * Locking: settings change under mmap_lock held for writing. The take-down also
 * waits for the faults that hold only a VMA. Atomic fills hold neither: they look
 * at hydra_mm::active once more under the locks they add anything under, and the
 * take-down takes the same locks later.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#define CREATE_TRACE_POINTS
#include <trace/events/hydra.h>

#include "internal.h"

/* More than the flushes that can be under way at one moment. */
#define GENERATION_GAP	BIT_ULL(24)

/* Context: no mmap_lock: the first switches hydra_key, under cpus_read_lock(). */
static struct hydra_mm *hydra_alloc(struct mm_struct *mm)
{
	struct hydra_mm *h;
	unsigned int d;

	h = kzalloc(struct_size(h, domain, hydra_nr_domains),
		    GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	if (!h)
		return NULL;
	h->mm = mm;
	h->settings = HYDRA_LINUX_SETTINGS;
	for (d = 0; d < hydra_nr_domains; d++)
		spin_lock_init(&h->domain[d].lock);
	static_branch_deferred_inc(&hydra_key);
	return h;
}

static void free_roots(struct hydra_mm *h)
{
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++) {
		if (h->domain[d].pgd)
			hydra_pgd_free(h->mm, h->domain[d].pgd);
		h->domain[d].pgd = NULL;
	}
}

/* Build all roots at opt-in: a context switch cannot allocate. */
static int alloc_roots(struct hydra_mm *h)
{
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++) {
		struct hydra_domain *dom = &h->domain[d];

		if (!dom->pgd)
			dom->pgd = hydra_pgd_alloc(h->mm, hydra_domain_home[d]);
		if (!dom->pgd)
			return -ENOMEM;
		/* A domain that was degraded before gets another chance. */
		dom->root = hydra_overflow_mask & BIT_ULL(d) ? h->mm->pgd :
							       dom->pgd;
	}
	atomic64_set(&h->universal, hydra_overflow_mask);
	return 0;
}

/* The highest generation any CPU may have seen, in either way to run. */
static u64 highest_generation(struct hydra_mm *h)
{
	u64 gen = atomic64_read(&h->mm->context.tlb_gen);
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++)
		gen = max_t(u64, gen, atomic64_read(&h->domain[d].tlb_gen));
	return gen;
}

static void set_generations(struct hydra_mm *h)
{
	u64 gen = highest_generation(h) + GENERATION_GAP;
	unsigned int d;

	for (d = 0; d < hydra_nr_domains; d++)
		atomic64_set(&h->domain[d].tlb_gen, gen);
}

static void hydra_free(struct hydra_mm *h)
{
	kfree(h);
	static_branch_slow_dec_deferred(&hydra_key);
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

/* Context: mmap_lock held for writing; CPUs may run the address space. */
static int hydra_activate(struct hydra_mm *h)
{
	int ret = alloc_roots(h);

	if (ret)
		return ret;
	unshare_hugetlb(h->mm);
	atomic_inc(&h->unfiltered);
	set_generations(h);
	hydra_sync_ldt(h->mm);
	/* Roots, generations and unfiltered before anyone acts on active. */
	smp_store_release(&h->active, true);
	hydra_switch_roots(h->mm, cpu_online_mask);
	atomic_dec(&h->unfiltered);
	return 0;
}

static void release_detached(struct hydra_mm *h, void *canonical)
{
	struct hydra_table *t = hydra_table_detach(virt_to_ptdesc(canonical));

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
		release_detached(h, pte);
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
	release_detached(h, pmd);
}

static void release_puds(struct hydra_mm *h, p4d_t *p4d, unsigned long addr)
{
	pud_t *pud = pud_offset(p4d, addr);
	unsigned int i;

	for (i = 0; i < PTRS_PER_PUD; i++, pud++, addr += PUD_SIZE)
		if (hydra_present(pud_val(READ_ONCE(*pud))) &&
		    !hydra_leaf(pud_val(READ_ONCE(*pud))))
			release_pmds(h, pud, addr);
	release_detached(h, pud_offset(p4d, addr - P4D_SIZE));
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

/* Context: mmap_lock held for writing; CPUs may run the address space. */
static void hydra_deactivate(struct hydra_mm *h)
{
	atomic_inc(&h->unfiltered);
	atomic64_set(&h->mm->context.tlb_gen,
		     highest_generation(h) + GENERATION_GAP);
	/* The generation before the CPUs compare with it. */
	smp_store_release(&h->active, false);
	hydra_switch_roots(h->mm, cpu_online_mask);
	/* A fill may sleep with a struct hydra_table in hand. */
	hydra_lock_out_faults(h->mm);
	release_tables(h);
	atomic_dec(&h->unfiltered);
}

static bool wants_domains(u32 settings)
{
	return hydra_domains_setting(settings) != HYDRA_DOMAINS_MACHINE;
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
	struct hydra_mm *h = READ_ONCE(mm->hydra);

	return h ? READ_ONCE(h->settings) : HYDRA_LINUX_SETTINGS;
}

/**
 * hydra_set - change the settings of an address space
 * @mm: the address space, which may be running
 * @old: NULL, or what its settings have to be now
 * @settings: packed settings that hydra_check_settings() accepts
 *
 * Context: process context, no locks; takes mmap_lock.
 * Return: 0; or with nothing changed -EOPNOTSUPP if the platform cannot do it,
 * -ENOMEM, -EINTR, or -EAGAIN if the settings are not @old.
 */
int hydra_set(struct mm_struct *mm, const u32 *old, u32 settings)
{
	struct hydra_mm *h, *new = NULL;
	int ret = 0;

	if (wants_domains(settings) && hydra_arch_refuses()) {
		pr_info_once("not on this platform: %s\n", hydra_arch_refuses());
		return -EOPNOTSUPP;
	}
	if (!READ_ONCE(mm->hydra)) {
		/* Stock Linux needs no word of it, unless against the default. */
		if (settings == HYDRA_LINUX_SETTINGS &&
		    !wants_domains(READ_ONCE(hydra_default_settings)))
			return 0;
		new = hydra_alloc(mm);
		if (!new)
			return -ENOMEM;
		/* CPUs keep note of their roots only since hydra_key is on. */
		hydra_note_roots();
	}
	ret = hydra_arch_lock(mm);
	if (ret)
		goto free;
	ret = mmap_write_lock_killable(mm);
	if (ret)
		goto unlock;
	if (!mm->hydra) {
		/* Whoever sees it sees it whole. */
		smp_store_release(&mm->hydra, new);
		new = NULL;
	}
	h = mm->hydra;
	if (old && h->settings != *old)
		ret = -EAGAIN;
	else if (wants_domains(settings) && !h->active)
		ret = hydra_activate(h);
	else if (!wants_domains(settings) && h->active)
		hydra_deactivate(h);
	if (!ret)
		WRITE_ONCE(h->settings, settings);
	mmap_write_unlock(mm);
unlock:
	hydra_arch_unlock(mm);
free:
	if (new)
		hydra_free(new);
	return ret;
}

/**
 * hydra_mm_init - give a new address space its settings
 * @mm: the address space: nobody runs it, it maps nothing yet
 *
 * Those of the process that forks or executes, else the system's default.
 * What cannot be had is done without: the process is then run as on stock
 * Linux.
 *
 * Context: process context, may sleep.
 */
void hydra_mm_init(struct mm_struct *mm)
{
	struct hydra_mm *from = current->mm ? READ_ONCE(current->mm->hydra) : NULL;
	u32 settings = from ? READ_ONCE(from->settings) :
			      READ_ONCE(hydra_default_settings);
	struct hydra_mm *h;

	/*
	 * The kernel makes some for itself while it boots, before there are
	 * domains, and maps things in them that no fault would bring.
	 */
	if (system_state < SYSTEM_RUNNING)
		return;
	/* No settings are the settings of stock Linux. */
	if (!from && !wants_domains(settings))
		return;
	if (wants_domains(settings) && hydra_arch_refuses())
		return;
	h = hydra_alloc(mm);
	if (!h)
		return;
	mm->hydra = h;
	if (wants_domains(settings)) {
		if (alloc_roots(h))
			return;
		set_generations(h);
		WRITE_ONCE(h->active, true);
	}
	WRITE_ONCE(h->settings, settings);
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
	free_roots(h);
	mm->hydra = NULL;
	hydra_free(h);
}

/**
 * hydra_degrade - let a domain use the canonical tree from now on
 * @h: address space
 * @d: the domain
 *
 * For a table above the leaf tables that cannot be had: the program goes on,
 * and the domain takes part in every flush (invariant 7).
 *
 * Context: process context, may wait for other CPUs.
 */
void hydra_degrade(struct hydra_mm *h, unsigned int d)
{
	/* In every flush before its CPUs can cache what is not its own. */
	if (!hydra_breaks(HYDRA_BREAK_DEGRADE_QUIETLY))
		atomic64_or(BIT_ULL(d), &h->universal);
	/* Pairs with the barrier of inc_mm_tlb_gen(). */
	smp_mb__after_atomic();
	WRITE_ONCE(h->domain[d].root, h->mm->pgd);
	hydra_count(&h->domain[d], HYDRA_STAT_FALLBACKS, 1);
	hydra_switch_roots(h->mm, hydra_domain_cpus[d]);
}
