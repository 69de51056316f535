// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the memory of a guest is, and how a guest has some of it moved: for the hypercall in
 * arch/x86/kvm/hydra/hypercall.c, which works on addresses of the VMM's process.
 */

#include <linux/cpuset.h>
#include <linux/hydra_vm.h>
#include <linux/ksm.h>
#include <linux/mempolicy.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/sched.h>
#include <linux/swap.h>

/**
 * hydra_vm_page_node - on which node is a page of the current process?
 * @address: its address
 *
 * The page is only looked at: nothing is brought in, copied or waited for.
 *
 * Context: process context; may sleep.
 * Return: the node; -ENOENT if no page is there now, or the page of zeros, which is everywhere;
 * -EINTR if the task is being killed.
 */
int hydra_vm_page_node(unsigned long address)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	struct folio *folio = NULL;
	struct folio_walk walk;
	int nid = -ENOENT;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	vma = vma_lookup(mm, address);
	if (vma)
		folio = folio_walk_start(&walk, vma, address, 0);
	if (folio) {
		nid = folio_nid(folio);
		folio_walk_end(&walk, vma);
	}
	mmap_read_unlock(mm);
	return nid;
}
EXPORT_SYMBOL_GPL(hydra_vm_page_node);

/*
 * May the page at an address be on a node, as far as the operator has bound it? A guest
 * must not undo that. Preferences of a node are no bounds.
 */
static bool hydra_vm_page_may(struct vm_area_struct *vma, unsigned long address, int nid)
{
	struct mempolicy *policy;
	bool may = true;
	pgoff_t index;

	policy = get_vma_policy(vma, address, 0, &index);
	switch (policy->mode) {
	case MPOL_BIND:
	case MPOL_INTERLEAVE:
	case MPOL_WEIGHTED_INTERLEAVE:
		may = node_isset(nid, policy->nodes);
	}
	mpol_cond_put(policy);
	return may;
}

/*
 * May a folio move? Not if it is another task's, too: that one's policy is not looked at. Not if
 * it is pinned: it would stay, after KVM has flushed for it in vain. Of a large folio only the
 * first page's policy is known: it has to be mapped as a whole, by an area with one policy.
 */
static bool hydra_vm_folio_may(const struct folio_walk *walk, struct vm_area_struct *vma,
			       struct folio *folio)
{
	if (folio_test_ksm(folio) || folio_test_hugetlb(folio) || folio_is_zone_device(folio) ||
	    folio_likely_mapped_shared(folio) || folio_maybe_dma_pinned(folio))
		return false;
	return !folio_test_large(folio) ||
	       (walk->level == FW_LEVEL_PMD && !(vma->vm_ops && vma->vm_ops->get_policy));
}

/*
 * Move the page at an address, if it is there and on another node. What keeps it where it is
 * for a moment is not waited for.
 * @budget: see hydra_vm_pages_place()
 * @later: see hydra_vm_pages_place()
 * Return: is it on the node now?
 */
static bool hydra_vm_page_move(struct vm_area_struct *vma, unsigned long address, int nid,
			       long *budget, bool *later)
{
	bool there, spent = *budget <= 0, moves = false;
	struct folio_walk walk;
	struct folio *folio;

	folio = folio_walk_start(&walk, vma, address, 0);
	if (!folio)
		return false;
	there = folio_nid(folio) == nid;
	if (!there && hydra_vm_folio_may(&walk, vma, folio)) {
		*later |= spent;
		moves = !spent && !migrate_misplaced_folio_prepare(folio, vma, nid);
	}
	if (!there && !spent)
		*budget -= moves ? folio_nr_pages(folio) : 1;
	folio_walk_end(&walk, vma);
	return there || (moves && !migrate_misplaced_folio(folio, vma, nid));
}

/**
 * hydra_vm_pages_place - move pages of the current process to a node
 * @address: the addresses of the pages, which may be in several areas
 * @nr: how many
 * @nid: the node
 * @budget: how many pages may be moved; lowered by those that were not on the node, whether they
 *	moved or not. A large page may lower it below 0.
 * @later: set if pages stay only because the budget is spent
 *
 * Pages that other tasks use, too, stay, and so do pinned ones. Needs CONFIG_NUMA_BALANCING,
 * which moves pages in the same way; without, none moves.
 *
 * Context: process context; may sleep.
 * Return: how many are on the node; or, and nothing has moved, -EFAULT if an address is in no
 * area, -EPERM if the memory policy of an area or of the task, or its cpuset, does not let it
 * be there, -EINTR if the task is being killed.
 */
long hydra_vm_pages_place(const unsigned long *address, unsigned int nr, int nid, long *budget,
			  bool *later)
{
	struct mm_struct *mm = current->mm;
	struct vm_area_struct *vma;
	unsigned int i;
	long ret = 0;

	/* Pages that this CPU has just brought in are on no list yet, and would stay. */
	lru_add_drain();
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	/* Under the lock: when a cpuset changes, Linux takes it for writing before it moves pages. */
	if (!node_isset(nid, cpuset_current_mems_allowed))
		ret = -EPERM;
	for (i = 0; i < nr && !ret; i++) {
		vma = vma_lookup(mm, address[i]);
		if (!vma)
			ret = -EFAULT;
		else if (!vma_migratable(vma) || !hydra_vm_page_may(vma, address[i], nid))
			ret = -EPERM;
	}
	for (i = 0; i < nr && ret >= 0; i++)
		ret += hydra_vm_page_move(vma_lookup(mm, address[i]), address[i], nid, budget,
					  later);
	mmap_read_unlock(mm);
	return ret;
}
EXPORT_SYMBOL_GPL(hydra_vm_pages_place);
