/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra: page tables per domain of CPUs, and TLB shootdowns limited to the
 * domains that share a table. See Documentation/mm/hydra/index.rst.
 *
 * This file: what mm/, fs/ and kernel/ call. Accessors of page-table entries:
 * linux/hydra_pgtable.h; gathers: linux/hydra_gather.h; x86: asm/hydra.h.
 */
#ifndef _LINUX_HYDRA_H
#define _LINUX_HYDRA_H

#include <linux/errno.h>
#include <linux/hydra_pgtable.h>
#include <linux/mm_types.h>
#include <uapi/linux/hydra.h>

struct vm_unmapped_area_info;

#ifdef CONFIG_HYDRA_MM
#include <linux/hydra_types.h>
#include <linux/sched.h>

/* On once a process, or the system's default, has asked for domains. */
DECLARE_STATIC_KEY_FALSE(hydra_watch_key);

/**
 * mm_hydra - the struct hydra_mm of an address space that uses domain trees
 * @mm: the address space
 *
 * Context: any. Unless mmap_lock is held, the address space may be split or return
 * to plain Linux at any time. Callers must work with either answer, see "Split"
 * and "Return" in arch/x86/mm/hydra/split.c.
 * Return: the struct hydra_mm, or NULL if the address space is not active.
 */
static inline struct hydra_mm *mm_hydra(const struct mm_struct *mm)
{
	struct hydra_mm *h;

	if (!static_branch_unlikely(&hydra_key.key))
		return NULL;
	h = READ_ONCE(mm->hydra);
	return h && READ_ONCE(h->active) ? h : NULL;
}

/**
 * mm_has_hydra - has this address space ever been split, or counted?
 * @mm: the address space
 *
 * Never goes back to false, so the answer stays right across a return to plain
 * Linux.
 *
 * Context: any.
 * Return: true if mm->hydra is set.
 */
static inline bool mm_has_hydra(const struct mm_struct *mm)
{
	return static_branch_unlikely(&hydra_key.key) && READ_ONCE(mm->hydra);
}

/**
 * mm_had_trees - has this address space ever been split?
 * @mm: the address space
 *
 * Like mm_has_hydra(), but false for an address space that is only counted.
 *
 * Context: any.
 * Return: true if domains have, or had, trees.
 */
static inline bool mm_had_trees(const struct mm_struct *mm)
{
	return mm_has_hydra(mm) && READ_ONCE(mm->hydra->scope);
}

/**
 * hydra_splits_or_returns - does the address space use domain trees, or change to or from them?
 * @h: its struct hydra_mm
 *
 * A flush that has run as on Linux asks this at its end. If the answer is no, there were no
 * domain trees all the while, or they have gone since: then hydra_deactivate() has flushed
 * everything, after the caller changed its entries; or the flush came after the return. See "A
 * flush while an address space is split, or returns" in Documentation/mm/hydra/orders.rst.
 *
 * A collapse raises unfiltered, too. Then the answer is a needless yes.
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool hydra_splits_or_returns(struct hydra_mm *h)
{
	if (READ_ONCE(h->active))
		return true;
	/* active before unfiltered; pairs with the release of active in hydra_deactivate(). */
	smp_rmb();
	/* The interrupts of a return before what the caller does next; pairs with its end. */
	return atomic_read_acquire(&h->unfiltered);
}

/**
 * hydra_takes_flush - does Hydra flush, in the place of Linux?
 * @mm: the address space
 *
 * An address space that has returned to plain Linux, and is not counted, flushes as on Linux.
 *
 * Context: any. An address space may be split just now: see hydra_splits_or_returns().
 * Return: true if so.
 */
static inline bool hydra_takes_flush(const struct mm_struct *mm)
{
	struct hydra_mm *h;

	if (!static_branch_unlikely(&hydra_key.key))
		return false;
	h = READ_ONCE(mm->hydra);
	return h && (READ_ONCE(h->counting) || hydra_splits_or_returns(h));
}

/**
 * hydra_flush_missed - has an address space been split while Linux flushed?
 * @mm: the address space
 *
 * Context: any, after the flush.
 * Return: true if the flush may have missed CPUs, on a domain root.
 */
static inline bool hydra_flush_missed(const struct mm_struct *mm)
{
	return mm_has_hydra(mm) && hydra_splits_or_returns(mm->hydra);
}

/* Life of an address space: arch/x86/mm/hydra/control.c and switch.c */
void hydra_mm_init(struct mm_struct *mm);
void __hydra_mm_exit(struct mm_struct *mm);
void __hydra_mm_destroy(struct mm_struct *mm);
void __hydra_resume_user_mode(struct mm_struct *mm);
void __hydra_secure_exec(struct mm_struct *mm);

static inline void hydra_mm_exit(struct mm_struct *mm)
{
	if (mm_has_hydra(mm))
		__hydra_mm_exit(mm);
}

static inline void hydra_secure_exec(struct mm_struct *mm)
{
	if (static_branch_unlikely(&hydra_watch_key) || mm_has_hydra(mm))
		__hydra_secure_exec(mm);
}

static inline void hydra_mm_destroy(struct mm_struct *mm)
{
	if (mm->hydra)
		__hydra_mm_destroy(mm);
}

/**
 * hydra_resume_user_mode - split an address space if __hydra_switching() asked for it
 *
 * Context: resume_user_mode_work(): process context, no locks.
 */
static inline void hydra_resume_user_mode(void)
{
	struct mm_struct *mm = current->mm;
	u32 last;

	if (!static_branch_unlikely(&hydra_watch_key) || !mm)
		return;
	last = READ_ONCE(mm->hydra_last);
	if (last != raw_cpu_read(hydra_cpu_last) && unlikely(last))
		__hydra_resume_user_mode(mm);
}

/* Settings: arch/x86/mm/hydra/control.c */
long hydra_prctl_set(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5);
long hydra_prctl_get(unsigned long arg2, unsigned long arg3,
		     unsigned long arg4, unsigned long arg5);

/* Faults: arch/x86/mm/hydra/fill.c */
bool __hydra_links(struct hydra_mm *h, pmd_t *pmd);
void __hydra_fault_done(struct hydra_mm *h, struct vm_area_struct *vma,
			unsigned long addr, unsigned int flags);
void __hydra_install(struct mm_struct *mm, pmd_t *pmd, struct page *table);
bool __hydra_fault_atomic(struct hydra_mm *h, unsigned long addr, bool write);
bool __hydra_entry_missing(struct hydra_mm *h, pteval_t *entry);
bool __hydra_on_own_root(const struct mm_struct *mm);

/* With one of these the VMA may not be locked any more. */
#define HYDRA_VMA_UNLOCKED \
	(VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED)

/*
 * The struct hydra_mm of the process that faults, if its address space is active. A
 * fault on behalf of another process fills nothing. So the hooks ask for current's,
 * and the caller keeps no register for it.
 */
static inline struct hydra_mm *hydra_of_current(void)
{
	if (!static_branch_unlikely(&hydra_key.key) || !current->mm)
		return NULL;
	return mm_hydra(current->mm);
}

/**
 * hydra_pte_fault_done - does this domain reach the entry of a fault already?
 * @pmd: the canonical entry that points to the leaf table, or is huge by now
 * @ret: what handle_pte_fault() returned
 *
 * Context: as handle_pte_fault().
 * Return: @ret, with VM_FAULT_REPLICATED if the domain links the leaf table.
 */
static inline vm_fault_t hydra_pte_fault_done(pmd_t *pmd, vm_fault_t ret)
{
	struct hydra_mm *h = hydra_of_current();

	if (h && !(ret & HYDRA_VMA_UNLOCKED) && __hydra_links(h, pmd))
		ret |= VM_FAULT_REPLICATED;
	return ret;
}

/**
 * hydra_fault_done - fill the entry of a fault that Linux has handled
 * @vma: area of the fault; not read unless still locked
 * @addr: address of the fault
 * @flags: FAULT_FLAG_*
 * @ret: what handle_mm_fault() returned
 *
 * If only this domain lacks the entry, Linux's handler takes the fault for
 * spurious: another CPU has installed the entry already.
 *
 * Context: after handle_mm_fault(): vma locked for read, may sleep.
 */
static inline void hydra_fault_done(struct vm_area_struct *vma, unsigned long addr,
				    unsigned int flags, vm_fault_t ret)
{
	struct hydra_mm *h = hydra_of_current();

	if (h && !(ret & (HYDRA_VMA_UNLOCKED | VM_FAULT_REPLICATED)))
		__hydra_fault_done(h, vma, addr, flags);
}

/**
 * hydra_install - a leaf table is about to be put into the canonical tree
 * @mm: the address space
 * @pmd: the canonical entry that will point to the table
 * @table: the table, empty, not reachable yet
 *
 * Context: the lock of the entry; a VMA around it, or mmap_lock, is held.
 */
static inline void hydra_install(struct mm_struct *mm, pmd_t *pmd,
				 struct page *table)
{
	if (mm_hydra(mm))
		__hydra_install(mm, pmd, table);
}

/**
 * hydra_fault_atomic - fill an entry where no fault may be handled
 * @mm: current->mm
 * @addr: user address that the kernel accessed
 * @write: the access was a write
 *
 * Code that runs with page faults disabled expects to reach every entry of the
 * canonical tree. This domain may lack the entry.
 *
 * Context: kernel mode, interrupts off, any lock may be held.
 * Return: true if the access can be tried again.
 */
static inline bool hydra_fault_atomic(struct mm_struct *mm, unsigned long addr,
				      bool write)
{
	struct hydra_mm *h = mm ? mm_hydra(mm) : NULL;

	return h && __hydra_fault_atomic(h, addr, write);
}

/**
 * hydra_on_own_root - does this CPU use the root of a domain tree?
 * @mm: the address space
 *
 * Context: preemption disabled.
 * Return: true if @mm is the current one and its domain root is loaded.
 */
static inline bool hydra_on_own_root(const struct mm_struct *mm)
{
	return mm_has_hydra(mm) && __hydra_on_own_root(mm);
}

/**
 * hydra_entry_missing - may a domain root have lacked an entry just now?
 * @mm: address space of the failed access
 * @entry: the canonical entry, of a leaf table
 * @own_root: hydra_on_own_root() before the access
 *
 * For __wp_page_copy_user(), which takes a failed access to a present entry for an
 * error. If the CPU may have switched roots since the access, the answer is yes.
 * On the canonical root the answer is no, so the caller does not loop.
 *
 * Context: the leaf table's lock, since before the access.
 * Return: true if the caller has to fault again.
 */
static inline bool hydra_entry_missing(struct mm_struct *mm, pte_t *entry,
				       bool own_root)
{
	return own_root && __hydra_entry_missing(mm->hydra, (pteval_t *)entry);
}

/* Collapses and moves of leaf tables: arch/x86/mm/hydra/unlink.c */
void __hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd);
void __hydra_move_table(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd,
			unsigned long addr);

/**
 * hydra_collapse_begin - a collapse is about to clear the entry of a leaf table
 * @mm: the address space
 *
 * A flush that finds the entry cleared cannot look up the sharers of the table.
 * So until hydra_collapse_end() flushes go to all domains:
 *
 *    CPU 0: collapse                      CPU 1: flush of an entry of the table
 *    ---------------                      -------------------------------------
 *    hydra_collapse_begin():              changes the entry
 *      raises unfiltered                  hydra_lookup_targets():
 *      smp_mb__after_atomic()               reads the PMD entry: none
 *    pmdp_huge_get_and_clear()              smp_rmb()
 *    hydra_collapse_cut()                   reads unfiltered: raised, so
 *    flushes the range of the table         all domains are targets
 *    hydra_collapse_end():
 *      smp_mb__before_atomic()
 *      lowers unfiltered
 *
 * If CPU 1 reads unfiltered as 0, CPU 0 has flushed.
 *
 * Context: the lock of the entry is held until hydra_collapse_end().
 * Return: the argument of hydra_collapse_cut() and hydra_collapse_end().
 */
static inline struct hydra_mm *hydra_collapse_begin(struct mm_struct *mm)
{
	struct hydra_mm *h;

	if (!static_branch_unlikely(&hydra_key.key))
		return NULL;
	h = READ_ONCE(mm->hydra);
	if (h) {
		atomic_inc(&h->unfiltered);
		/* unfiltered before the entry; pairs with hydra_lookup_targets(). */
		smp_mb__after_atomic();
	}
	return h;
}

/**
 * hydra_collapse_cut - cut every domain's link to the collapsed table
 * @h: from hydra_collapse_begin()
 * @pmdp: the canonical entry, cleared
 * @pmd: its old value
 *
 * The caller flushes the range of the table before it drops the lock.
 */
static inline void hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd)
{
	if (h)
		__hydra_collapse_cut(h, pmdp, pmd);
}

/**
 * hydra_collapse_end - the collapse has flushed
 * @h: from hydra_collapse_begin()
 */
static inline void hydra_collapse_end(struct hydra_mm *h)
{
	if (h) {
		/* The flush before unfiltered; pairs with hydra_lookup_targets(). */
		smp_mb__before_atomic();
		atomic_dec(&h->unfiltered);
	}
}

/**
 * hydra_move_table - mremap() moves a leaf table to another PMD entry
 * @mm: the address space
 * @pmdp: the old canonical entry, cleared
 * @pmd: its old value
 * @addr: first address that the table mapped there
 *
 * Cuts every domain's link to the table, and flushes these domains.
 *
 * Context: mmap_lock held for writing, the locks of the reverse map, and the lock
 * of the entry.
 */
static inline void hydra_move_table(struct mm_struct *mm, pmd_t *pmdp, pmd_t pmd,
				    unsigned long addr)
{
	struct hydra_mm *h = mm_hydra(mm);

	if (h)
		__hydra_move_table(h, pmdp, pmd, addr);
}

/* Placement: arch/x86/mm/hydra/place.c */
unsigned long hydra_unmapped_area(struct vm_unmapped_area_info *info,
				  unsigned long flags);

#else /* !CONFIG_HYDRA_MM */

struct hydra_mm;

#define hydra_unmapped_area(info, flags) \
	((void)(flags), vm_unmapped_area(info))

static inline struct hydra_mm *mm_hydra(const struct mm_struct *mm) { return NULL; }
static inline bool mm_has_hydra(const struct mm_struct *mm) { return false; }
static inline bool mm_had_trees(const struct mm_struct *mm) { return false; }
static inline bool hydra_takes_flush(const struct mm_struct *mm) { return false; }
static inline bool hydra_flush_missed(const struct mm_struct *mm) { return false; }
static inline void hydra_mm_init(struct mm_struct *mm) { }
static inline void hydra_mm_exit(struct mm_struct *mm) { }
static inline void hydra_mm_destroy(struct mm_struct *mm) { }
static inline void hydra_resume_user_mode(void) { }
static inline void hydra_secure_exec(struct mm_struct *mm) { }
static inline long hydra_prctl_set(unsigned long arg2, unsigned long arg3,
				   unsigned long arg4, unsigned long arg5) { return -EINVAL; }
static inline long hydra_prctl_get(unsigned long arg2, unsigned long arg3,
				   unsigned long arg4, unsigned long arg5) { return -EINVAL; }
static inline vm_fault_t hydra_pte_fault_done(pmd_t *pmd, vm_fault_t ret) { return ret; }
static inline void hydra_fault_done(struct vm_area_struct *vma, unsigned long addr,
				    unsigned int flags, vm_fault_t ret) { }
static inline void hydra_install(struct mm_struct *mm, pmd_t *pmd, struct page *table) { }
static inline bool hydra_fault_atomic(struct mm_struct *mm, unsigned long addr,
				      bool write) { return false; }
static inline bool hydra_on_own_root(const struct mm_struct *mm) { return false; }
static inline bool hydra_entry_missing(struct mm_struct *mm, pte_t *entry,
				       bool own_root) { return false; }
static inline struct hydra_mm *hydra_collapse_begin(struct mm_struct *mm) { return NULL; }
static inline void hydra_collapse_cut(struct hydra_mm *h, pmd_t *pmdp, pmd_t pmd) { }
static inline void hydra_collapse_end(struct hydra_mm *h) { }
static inline void hydra_move_table(struct mm_struct *mm, pmd_t *pmdp, pmd_t pmd,
				    unsigned long addr) { }

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_H */
