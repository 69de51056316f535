// SPDX-License-Identifier: GPL-2.0-only
/*
 * Samples: how many pages does a process use, from look to look of policy "auto"?
 *
 * A sample takes leaf tables at random addresses, and clears the accessed bits of their entries.
 * The next look counts the bits that hardware has set since. A page that is used again and again
 * counts once, so the number is a lower bound of walks. Huge pages are not sampled: their walks
 * end before a leaf table.
 *
 * Of a plain process the entries of Linux are sampled. Reclaim goes by their accessed bits, so a
 * page that had one is made young, as DAMON does. Of a process with domain trees the copies of a
 * random domain are sampled. Their accessed bits move to the entries of Linux, and their marks
 * stay (hydra_age_entries()).
 *
 * Locking: mmap_lock for reading, which is only tried, keeps the VMAs of a plain process; munmap()
 * takes a VMA from the tree before it frees tables. The tables are changed under their locks.
 */

#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/pgtable.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "drop.h"
#include "propagate.h"
#include "sample.h"
#include "state.h"
#include "table.h"

/* Random addresses, of which many may be in no leaf table */
#define DRAWS	(8 * HYDRA_SAMPLE_SIZE)

/*
 * The VMA at an address, if it has a leaf table there; or NULL.
 *
 * @pmd: set to the entry that points to the table
 *
 * Tables of hugetlb may go without mmap_lock, and none is a leaf table.
 *
 * Context: mmap_lock for reading.
 */
static struct vm_area_struct *hydra_find_leaf(struct mm_struct *mm, unsigned long addr,
					      pmd_t **pmd)
{
	struct vm_area_struct *vma = vma_lookup(mm, addr);

	if (!vma || is_vm_hugetlb_page(vma))
		return NULL;
	*pmd = hydra_canonical_pmd(mm, addr);
	return *pmd && hydra_is_table(pmd_val(pmdp_get_lockless(*pmd))) ? vma : NULL;
}

/*
 * Look at the entries of a leaf table of a plain process. Return: how many were used.
 *
 * @clear: and clear their accessed bits
 */
static unsigned int hydra_look_at_entries(struct vm_area_struct *vma, pmd_t *pmd,
					  unsigned long addr, bool clear)
{
	unsigned long end = min((addr | ~PMD_MASK) + 1, vma->vm_end);
	unsigned int used = 0;
	spinlock_t *ptl;	/* the table's lock */
	pte_t *pte;

	addr = max(addr & PMD_MASK, vma->vm_start);
	pte = pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl);
	if (!pte)
		return 0;
	for (pte_t *each = pte; addr < end; each++, addr += PAGE_SIZE) {
		pte_t val = ptep_get(each);
		struct folio *folio;

		if (!pte_present(val) || !pte_young(val))
			continue;
		used++;
		if (!clear || !ptep_test_and_clear_young(vma, addr, each))
			continue;
		folio = vm_normal_folio(vma, addr, val);
		if (folio) {
			folio_set_young(folio);
			folio_clear_idle(folio);
		}
	}
	pte_unmap_unlock(pte, ptl);
	return used;
}

/* The same of the copy of a domain. Return: how many were used; 0 if it has no copy. */
static unsigned int hydra_look_at_copy(struct hydra_mm *h, unsigned int d, unsigned long addr,
				       bool clear)
{
	unsigned int used = 0;
	struct hydra_shared s;
	pteval_t *copy;

	if (!hydra_trylock_shared(h, addr & PMD_MASK, &s))
		return 0;
	copy = READ_ONCE(s.t->table[d]);
	if (copy && copy != s.canonical)
		used = hydra_age_entries(s.t, copy, s.canonical, clear);
	hydra_unlock_shared(&s);
	return used;
}

static int hydra_compare(const void *a, const void *b)
{
	unsigned long left = *(const unsigned long *)a, right = *(const unsigned long *)b;

	return left < right ? -1 : left > right;
}

/*
 * Random addresses in the VMAs of a process, sorted. Context: mmap_lock for reading.
 *
 * @pages: set to numbers of pages of all VMAs, which then become addresses
 *
 * Return: how many. The VMAs may have grown since they were counted.
 */
static unsigned int hydra_draw(struct mm_struct *mm, unsigned long *pages)
{
	unsigned long before = 0, total = READ_ONCE(mm->total_vm);
	struct vm_area_struct *vma;
	unsigned int i = 0;
	VMA_ITERATOR(vmi, mm, 0);

	mmap_assert_locked(mm);
	if (!total)
		return 0;
	for (i = 0; i < DRAWS; i++)
		pages[i] = get_random_long() % total;
	sort(pages, DRAWS, sizeof(*pages), hydra_compare, NULL);
	i = 0;
	for_each_vma(vmi, vma) {
		unsigned long nr = vma_pages(vma);

		for (; i < DRAWS && pages[i] < before + nr; i++)
			pages[i] = vma->vm_start + (pages[i] - before) * PAGE_SIZE;
		before += nr;
	}
	return i;
}

/* Take a table into a sample. Return: false if there is none at the address. */
static bool hydra_take(struct hydra_sample *s, struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *vma;
	pmd_t *pmd;

	vma = hydra_find_leaf(mm, addr, &pmd);
	if (!vma)
		return false;
	if (s->split)
		hydra_look_at_copy(mm->hydra, s->domain, addr, true);
	else
		hydra_look_at_entries(vma, pmd, addr, true);
	s->at[s->nr++] = addr;
	return true;
}

/* A random domain with a tree. Return: false if there is none. */
static bool hydra_draw_domain(struct hydra_sample *s, struct hydra_mm *h)
{
	hydra_mask_t trees;
	unsigned int d, nr;

	hydra_mask_zero(&trees);
	hydra_mask_add(&trees, &h->trees);
	s->domains = bitmap_weight(trees.bits, HYDRA_MAX_DOMAINS);
	if (!s->domains)
		return false;
	nr = get_random_u32_below(s->domains);
	for_each_hydra_domain(d, &trees)
		if (!nr--)
			s->domain = d;
	return true;
}

/**
 * hydra_sample_begin - begin a sample
 * @sample: NULL at first
 * @mm: the address space; a reference in mm_users
 * @tables: how many leaf tables it has
 *
 * If a lock is busy, or memory short, there is no sample.
 *
 * Context: process context, no locks.
 */
void hydra_sample_begin(struct hydra_sample **sample, struct mm_struct *mm, u64 tables)
{
	unsigned long *draws = kmalloc_array(DRAWS, sizeof(*draws), GFP_KERNEL);
	struct hydra_mm *h = mm_hydra(mm);
	unsigned int i, nr, step;
	struct hydra_sample *s;

	if (!*sample)
		*sample = kzalloc(sizeof(**sample), GFP_KERNEL);
	s = *sample;
	if (!s || !draws || !mmap_read_trylock(mm))
		goto free;
	s->nr = 0;
	s->tables = tables;
	s->split = !!h;
	if (!h || hydra_draw_domain(s, h)) {
		nr = hydra_draw(mm, draws);
		/* They are sorted: an odd step takes them from all over the process. */
		for (i = 0, step = 0; i < nr && s->nr < HYDRA_SAMPLE_SIZE; i++) {
			step = (step + 97) % DRAWS;
			if (step < nr)
				hydra_take(s, mm, draws[step]);
		}
	}
	mmap_read_unlock(mm);
free:
	kfree(draws);
}

/**
 * hydra_sample_end - end a sample
 * @s: the sample, or NULL
 * @mm: the address space; a reference in mm_users
 * @pages: set to the pages of the whole process that were used since; with domain trees, in
 *	copies
 *
 * Context: process context, no locks.
 * Return: false if there is no sample: none had begun, or it was of another kind.
 */
bool hydra_sample_end(struct hydra_sample *s, struct mm_struct *mm, u64 *pages)
{
	struct hydra_mm *h = mm_hydra(mm);
	unsigned int i, nr;
	u64 used = 0;

	if (!s || !s->nr)
		return false;
	nr = s->nr;
	s->nr = 0;
	if (s->split != !!h || !mmap_read_trylock(mm))
		return false;
	for (i = 0; i < nr; i++) {
		struct vm_area_struct *vma;
		pmd_t *pmd;

		vma = hydra_find_leaf(mm, s->at[i], &pmd);
		if (vma && h)
			used += hydra_look_at_copy(h, s->domain, s->at[i], false);
		else if (vma)
			used += hydra_look_at_entries(vma, pmd, s->at[i], false);
	}
	mmap_read_unlock(mm);
	*pages = used * s->tables / nr * (h ? s->domains : 1);
	return true;
}
