/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hydra's part of struct mmu_gather: records for the flush of a gather, beyond the
 * range.
 *
 * A flush looks up the sharers of the tables in the range
 * (arch/x86/mm/hydra/sharers.c). A lookup cannot find the sharers of a freed table,
 * or of a huge entry cleared or changed. So the gather records such sharers. The
 * gather also records the walked range: if gather 2 runs at the same time, gather 1
 * may have skipped entries cleared and not yet flushed by gather 2, and flushes the
 * whole range.
 */
#ifndef _LINUX_HYDRA_GATHER_H
#define _LINUX_HYDRA_GATHER_H

#include <linux/hydra.h>

struct mmu_gather;

#ifdef CONFIG_HYDRA_MM
#include <linux/hydra_mask.h>
#include <linux/mm.h>

/**
 * struct hydra_gather - what a gather records
 * @recording: the address space was split, or returning, or counted, when the gather began. If
 *	not, the flush goes to every domain, or is Linux's.
 * @ranged: the range that is walked is recorded. If not, the address space was not split when
 *	the gather began, or no drop was pending since its return
 * @nr_places: places that the gather has announced, from @place on. 0: it has raised
 *	mm->tlb_flush_pending. See arch/x86/mm/hydra/pending.c
 * @barrier: the flush goes to every domain, see hydra_gather_protect(). Valid if @recording
 * @place: the first place, if any
 * @start: first address walked; above @end until a range is added. Valid if @ranged
 * @end: end of the walked range, exclusive. Valid if @ranged
 * @freed: tables to be freed a grace period after the flush. Valid if @recording
 * @sharers: sharers of tables freed, and of huge entries cleared or changed, by the
 *	gather. Valid if @recording
 */
struct hydra_gather {
	bool recording;
	bool ranged;
	u8 nr_places;
	bool barrier;
	unsigned long place;
	unsigned long start;
	unsigned long end;
	struct ptdesc *freed;
	hydra_mask_t sharers;
};

void __hydra_gather_begin(struct hydra_gather *g, const struct mm_struct *mm, bool fullmm);
void __hydra_gather_init(struct hydra_gather *g, bool fullmm);
void __hydra_gather_add_range(struct hydra_gather *g, unsigned long start,
			      unsigned long end);
void __hydra_gather_protect(struct hydra_gather *g, struct vm_area_struct *vma);
void __hydra_gather_add_huge(struct hydra_gather *g, const pteval_t *entry,
			     unsigned long addr);
void __hydra_gather_drop(struct hydra_gather *g, struct vm_area_struct *vma,
			 unsigned long start, unsigned long end);
bool __hydra_gather_withdraw(const struct mm_struct *mm, struct mmu_gather *tlb);
bool __hydra_gather_beside(const struct mm_struct *mm, struct mmu_gather *tlb);
bool hydra_drops_in(struct hydra_mm *h, unsigned long start, unsigned long end);
void __hydra_free_table(struct mmu_gather *tlb, struct ptdesc *ptdesc,
			spinlock_t *ptl, unsigned long addr);
void hydra_gather_table(struct mmu_gather *tlb, struct ptdesc *ptdesc);
void hydra_gather_flushed(struct hydra_gather *g);
bool __hydra_wait_pmd_clear(struct mm_struct *mm, pmd_t *pmd);

/* Nothing is recorded. Also while the key is off: it may be on when the gather ends. */
static inline void hydra_gather_clear(struct hydra_gather *g)
{
	g->recording = false;
	g->ranged = false;
	g->nr_places = 0;
	g->barrier = false;
}

/**
 * hydra_gather_init - a gather begins, which has raised mm->tlb_flush_pending
 * @g: Hydra's part of the gather
 * @mm: the address space
 * @fullmm: the gather tears down the whole address space, including the LDT
 *
 * Context: any.
 */
static inline void hydra_gather_init(struct hydra_gather *g,
				     const struct mm_struct *mm, bool fullmm)
{
	hydra_gather_clear(g);
	if (mm_has_hydra(mm))
		__hydra_gather_begin(g, mm, fullmm);
}

/**
 * hydra_gather_drop - a gather begins, which drops
 * @g: Hydra's part of the gather, which begins
 * @vma: the VMA that is dropped from
 * @start: first address
 * @end: end of the range, exclusive
 *
 * The gather takes no rights from entries that stay. It announces its places
 * (arch/x86/mm/hydra/pending.c), or raises mm->tlb_flush_pending.
 *
 * Context: any; before the gather takes the lock of a table in the range.
 * Return: false if the caller has to raise mm->tlb_flush_pending.
 */
static inline bool hydra_gather_drop(struct hydra_gather *g, struct vm_area_struct *vma,
				     unsigned long start, unsigned long end)
{
	hydra_gather_clear(g);
	if (!mm_has_hydra(vma->vm_mm))
		return false;
	__hydra_gather_drop(g, vma, start, end);
	return true;
}

/**
 * hydra_gather_withdraw - what a gather has announced is not pending any more
 * @mm: the address space
 * @tlb: the gather, which has flushed
 *
 * Context: any.
 * Return: false if the gather has to lower mm->tlb_flush_pending.
 */
static inline bool hydra_gather_withdraw(const struct mm_struct *mm, struct mmu_gather *tlb)
{
	return mm_has_hydra(mm) && __hydra_gather_withdraw(mm, tlb);
}

/**
 * hydra_gather_beside - does another gather change entries in the range of one that ends?
 * @mm: the address space
 * @tlb: the gather
 *
 * mm_tlb_flush_nested() tells of gathers that have raised mm->tlb_flush_pending, as long as this
 * one has, too.
 *
 * Context: any; after the gather has read its entries.
 * Return: true if so, or if that is not known.
 */
static inline bool hydra_gather_beside(const struct mm_struct *mm, struct mmu_gather *tlb)
{
	return mm_has_hydra(mm) && __hydra_gather_beside(mm, tlb);
}

/**
 * hydra_drops_pending - is a drop that was announced by place pending in a range?
 * @mm: the address space
 * @start: first address
 * @end: end of the range, exclusive
 *
 * As mm_tlb_flush_pending(), for a reader that cares about entries which are gone.
 *
 * Context: any; after the caller has read the entries, under their lock.
 * Return: true if so.
 */
static inline bool hydra_drops_pending(const struct mm_struct *mm, unsigned long start,
				       unsigned long end)
{
	return mm_has_hydra(mm) && hydra_drops_in(mm->hydra, start, end);
}

/**
 * hydra_gather_add_range - a gather is about to walk a range
 * @g: Hydra's part of the gather
 * @start: first address
 * @end: end of the range, exclusive
 *
 * Once a range is added, the flush looks up added ranges only: callers must add the
 * range of all cleared entries.
 *
 * Context: any; before the gather takes the lock of a table in the range.
 */
static inline void hydra_gather_add_range(struct hydra_gather *g,
					  unsigned long start, unsigned long end)
{
	if (static_branch_unlikely(&hydra_key.key) && g->ranged)
		__hydra_gather_add_range(g, start, end);
}

/**
 * hydra_gather_protect - mprotect() is about to change the rights of a VMA, or of a part of it
 * @g: Hydra's part of the gather
 * @vma: the VMA
 * @size: of the part
 *
 * Programs take rights from a page of their own to have the kernel interrupt all CPUs that run
 * them: a memory barrier in all threads, as membarrier(2) is one. Under policy "auto" such a
 * flush goes to every domain.
 *
 * Context: mmap_lock held for writing.
 */
static inline void hydra_gather_protect(struct hydra_gather *g, struct vm_area_struct *vma,
					unsigned long size)
{
	/* It takes rights from entries that stay, so it has announced no place. */
	VM_WARN_ON_ONCE(g->nr_places);
	if (static_branch_unlikely(&hydra_key.key) && g->recording && size == PAGE_SIZE)
		__hydra_gather_protect(g, vma);
}

/**
 * hydra_gather_add_huge - a gather has cleared or changed a huge entry
 * @g: Hydra's part of the gather
 * @entry: the canonical entry
 * @addr: an address that it maps, or has mapped
 *
 * At the flush the entry may be none, or point to a new table. Neither leads to the
 * sharers of the huge entry.
 *
 * Context: the lock of the entry's table, or of the area: the table stays.
 */
static inline void hydra_gather_add_huge(struct hydra_gather *g,
					 const void *entry, unsigned long addr)
{
	if (static_branch_unlikely(&hydra_key.key))
		__hydra_gather_add_huge(g, entry, addr);
}

/**
 * DOC: The first copy of a huge entry
 *
 * CPU 2 reads an entry as none, and waits only if a domain has had a copy of a huge entry, of
 * any::
 *
 *     CPU 0: hydra_fill_huge()     CPU 1: clears the entry      CPU 2: zap_pmd_range()
 *     ------------------------     -----------------------      ----------------------
 *     takes the PMD lock
 *     huge = true
 *     copies the entry
 *     drops the PMD lock
 *                                  takes the PMD lock
 *                                  clears the copies
 *                                  clears the entry             reads the entry: none
 *                                                               <read barrier>
 *                                                               reads huge: true
 *                                  flushes                      waits for the PMD lock
 *                                  drops the PMD lock
 *
 * CPU 2 reads what CPU 1 has stored. CPU 1 took the lock after CPU 0, so CPU 2 reads huge as CPU 0
 * left it. If CPU 0 takes the lock after CPU 1, the entry is none: CPU 0 copies nothing. If CPU 0
 * has read huge as true, another CPU has stored that earlier, and CPU 2 reads it, too.
 */

/*
 * May a TLB hold a huge entry that came from a domain tree? If not, a flush that spares
 * domains leaves none behind, and there is nothing to wait for: each empty entry of a large
 * range costs this test.
 *
 * Context: the caller has read an entry as none, without the lock.
 */
static inline bool hydra_had_huge(const struct mm_struct *mm)
{
	if (!mm_has_hydra(mm))
		return false;
	/* The entry before huge; pairs with the lock of the entry's table: see above. */
	smp_rmb();
	return READ_ONCE(mm->hydra->huge);
}

/**
 * hydra_wait_pmd_clear - wait for the flush of the CPU that cleared a PMD entry
 * @mm: the address space
 * @pmd: the entry, read as none without the lock
 *
 * zap_pmd_range() and change_pmd_range() skip an entry read as none. Code clearing
 * a huge entry outside a gather flushes before dropping the PMD lock. See
 * __hydra_wait_pmd_clear().
 *
 * Context: process context, no page-table lock held.
 * Return: true if the entry is still none, false if the CPU put the entry back.
 */
static inline bool hydra_wait_pmd_clear(struct mm_struct *mm, pmd_t *pmd)
{
	return !hydra_had_huge(mm) || __hydra_wait_pmd_clear(mm, pmd);
}

/**
 * hydra_wait_pud_clear - wait for the flush of the CPU that cleared a PUD entry
 * @mm: the address space
 * @pud: the entry, read as none without the lock
 *
 * Outside a gather only __split_huge_pud() clears huge PUD entries.
 * __split_huge_pud() flushes before dropping the PUD lock, and never puts the entry
 * back.
 *
 * Context: process context, no page-table lock held.
 */
static inline void hydra_wait_pud_clear(struct mm_struct *mm, pud_t *pud)
{
	if (hydra_had_huge(mm))
		spin_unlock(pud_lock(mm, pud));
}

#else /* !CONFIG_HYDRA_MM */

struct hydra_gather { };

static inline void hydra_gather_init(struct hydra_gather *g,
				     const struct mm_struct *mm, bool fullmm) { }
static inline void hydra_gather_add_range(struct hydra_gather *g,
					  unsigned long start, unsigned long end) { }
static inline void hydra_gather_protect(struct hydra_gather *g, struct vm_area_struct *vma,
					unsigned long size) { }
static inline void hydra_gather_add_huge(struct hydra_gather *g, const void *entry,
					 unsigned long addr) { }
static inline bool hydra_gather_drop(struct hydra_gather *g, struct vm_area_struct *vma,
				     unsigned long start, unsigned long end) { return false; }
static inline bool hydra_gather_withdraw(const struct mm_struct *mm,
					 struct mmu_gather *tlb) { return false; }
static inline bool hydra_gather_beside(const struct mm_struct *mm,
				       struct mmu_gather *tlb) { return false; }
static inline bool hydra_drops_pending(const struct mm_struct *mm, unsigned long start,
				       unsigned long end) { return false; }
static inline bool hydra_wait_pmd_clear(struct mm_struct *mm, pmd_t *pmd) { return true; }
static inline void hydra_wait_pud_clear(struct mm_struct *mm, pud_t *pud) { }

#endif /* CONFIG_HYDRA_MM */
#endif /* _LINUX_HYDRA_GATHER_H */
