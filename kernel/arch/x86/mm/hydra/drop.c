// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dropping: domains leave a leaf table that stays. The shrinker wants the memory of their
 * replicas (reclaim.c), or the domains have not used the table for long (forget.c). A domain
 * that comes back fills again what its CPUs need, as at its first use.
 *
 * A table is found like by any lockless walker of Linux, without mmap_lock: a fork in need of
 * page tables, e.g., holds mmap_lock, and may be short of memory because of the replicas.
 *
 * Under the lock of the table the links are cut, the domains flushed (which raises their
 * generations, and reaches lazy CPUs too, as tables are freed), the accessed bits of the
 * replicas set in the canonical entries, and then the domains removed from the sharers:
 *
 *     CPU 0: hydra_drop()                  CPU 1: changes an entry
 *     -------------------                  -----------------------
 *                                          locks the leaf table
 *                                          changes the entry
 *                                          unlocks the leaf table
 *     locks the leaf table
 *     flushes the domain
 *     removes the domain from sharers
 *     unlocks the leaf table
 *                                          flushes: the domain is no target
 *
 * CPU 0 has flushed the entry for CPU 1. If CPU 1 locks the table after CPU 0, the
 * domain holds nothing.
 */

/**
 * DOC: A table of one domain again
 *
 * All domains but one have left a leaf table, and that one links it. So the word says all, and
 * struct hydra_table is freed. A collapse does not take the lock of the leaf table::
 *
 *     CPU 0: hydra_unshare()               CPU 1: __hydra_collapse_cut()
 *     ----------------------               -----------------------------
 *     locks the leaf table                 clears the PMD entry
 *     locks the domain                     <full barrier>
 *     reads the PMD entry, and the word    locks and unlocks every domain
 *     writes the word                      takes the word away
 *     unlocks the domain                   frees the struct hydra_table, if the word
 *     frees the struct hydra_table           was one
 *
 * CPU 0 read the old PMD entry, and CPU 1 finds the new word; or CPU 0 reads the entry as none,
 * and leaves the word to CPU 1. A collapse that fails puts the table back, but has locked the
 * leaf table before that. So the entry is not back while CPU 0 looks, or CPU 0 has locked the
 * leaf table later, and finds another word than before. So one CPU frees the object.
 *
 * A flush may have read the old word. The domains that it finds in the old object held the table
 * when it read the word. A domain that joins later takes the lock of the table, and finds the
 * changed entries.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include "domain.h"
#include "drop.h"
#include "fill.h"
#include "replica.h"
#include "state.h"
#include "table.h"
#include "tlb.h"
#include "unlink.h"

/**
 * hydra_trylock_shared - lock the leaf table of an address if it has a struct hydra_table
 * @h: address space
 * @addr: the address
 * @s: set to the table, which stays as long as it is locked
 *
 * Interrupts are off until the table is locked, so the table is not freed.
 *
 * Context: process context.
 * Return: false if there is none, or if its lock is busy.
 */
bool hydra_trylock_shared(struct hydra_mm *h, unsigned long addr, struct hydra_shared *s)
{
	s->pte = NULL;
	local_irq_disable();
	s->pmd = hydra_canonical_pmd(h->mm, addr);
	if (s->pmd)
		s->pte = hydra_trylock_leaf(h->mm, s->pmd, addr, &s->ptl);
	local_irq_enable();
	if (!s->pte)
		return false;
	s->canonical = hydra_table_start((pteval_t *)s->pte);
	s->t = hydra_table_of(s->canonical);
	if (s->t && READ_ONCE(h->active))
		return true;
	hydra_unlock_shared(s);
	return false;
}

/**
 * hydra_unlock_shared - unlock a leaf table
 * @s: from hydra_trylock_shared()
 */
void hydra_unlock_shared(struct hydra_shared *s)
{
	pte_unmap_unlock(s->pte, s->ptl);
}

/*
 * Free the struct hydra_table of a leaf table that one domain alone links, or none uses. See
 * "A table of one domain again" above.
 *
 * @d: a domain that has just left the table
 *
 * Context: the leaf table's lock.
 */
static void hydra_unshare(struct hydra_shared *s, unsigned int d)
{
	struct ptdesc *ptdesc = virt_to_ptdesc(s->canonical);
	struct hydra_table *t = s->t;
	struct hydra_domain *dom;
	bool solo, done = false;
	hydra_mask_t users;

	/* A collapse may take the users away meanwhile. */
	hydra_mask_zero(&users);
	hydra_mask_add(&users, &t->users);
	solo = !hydra_mask_empty(&users);
	if (solo)
		d = find_first_bit(users.bits, HYDRA_MAX_DOMAINS);
	if (solo && (hydra_mask_other(d, &users) || READ_ONCE(t->table[d]) != s->canonical))
		return;
	dom = t->hmm->domain[d];
	spin_lock(&dom->lock);
	if (hydra_word_read(ptdesc) == (unsigned long)t && (!solo || t->table[d]) &&
	    hydra_same_table(pmd_val(READ_ONCE(*s->pmd)), _PAGE_TABLE | __pa(s->canonical))) {
		/* Not before: a collapse that has detached the word may have used @rcu. */
		VM_WARN_ON_ONCE(t->nr_changed);
		if (solo)
			hydra_word_set_solo(ptdesc, d);
		else
			hydra_word_clear(ptdesc);
		done = true;
	}
	spin_unlock(&dom->lock);
	if (done)
		kfree_rcu(t, rcu);
}

/**
 * hydra_drop - let domains leave a leaf table
 * @s: the table; its struct hydra_table may be no more in use afterwards
 * @domains: the domains. On return: those which had a link, and have left
 *
 * Context: process context; the leaf table's lock.
 */
void hydra_drop(struct hydra_shared *s, hydra_mask_t *domains)
{
	struct hydra_table *t = s->t;
	struct ptdesc *ptdesc, *next;
	struct hydra_mm *h = t->hmm;
	hydra_mask_t left;
	unsigned int d;
	LIST_HEAD(replicas);

	hydra_assert_leaf_locked(s->canonical);
	hydra_mask_zero(&left);
	for_each_hydra_domain(d, domains) {
		/* A collapse cuts links without this lock. */
		pteval_t *table = hydra_table_cut_domain(t, d, s->canonical);

		if (!table)
			continue;
		if (table != s->canonical)
			list_add(&virt_to_ptdesc(table)->pt_list, &replicas);
		hydra_mask_set(d, &left);
	}
	*domains = left;
	if (hydra_mask_empty(&left))
		return;
	/* As freed tables: the canonical table may be freed with no flush of these. */
	hydra_flush_domains(h, t->base, t->base + PMD_SIZE, &left);
	list_for_each_entry_safe(ptdesc, next, &replicas, pt_list) {
		hydra_fold_accessed(ptdesc_address(ptdesc), s->canonical, PG_LEVEL_4K,
				    PTRS_PER_PTE);
		hydra_page_free_uncharged(h, ptdesc_address(ptdesc));
	}
	hydra_mask_remove(&t->sharers, &left);
	hydra_unshare(s, find_first_bit(left.bits, HYDRA_MAX_DOMAINS));
}

#include "tests/drop-kunit.h"
