// SPDX-License-Identifier: GPL-2.0-only
/*
 * Propagation: every change of a canonical entry reaches its replicas before
 * the lock of the canonical table is dropped, and so before the flush that
 * Linux does for the change. What is cleared goes from the replicas first: who
 * finds the canonical entry gone, without the lock, finds no copy of it either.
 * (Links to a table that collapses go later, under the lock that
 * __hydra_pmd_gone() waits for.)
 *
 * The hooks stand in the accessors of entries. They find the replicas by the
 * table the entry lies in and its index there, not by address: the accessors
 * are also used on tables that hang nowhere, or were just taken away.
 *
 * Accessed bits: hardware sets them in the copy its domain walks. Readers get
 * the union, and they are cleared in all. Dirty bits: in the canonical entry
 * alone, see hydra_derive().
 */

#include <linux/export.h>
#include <linux/mm.h>

#include "internal.h"

#include <trace/events/hydra.h>

/* Kept on for a while after the last user: to switch it stops all CPUs. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(hydra_key, 60 * HZ);
EXPORT_SYMBOL_GPL(hydra_key);

/*
 * The next domain from @d on that has copies of leaf entries of a table.
 * A domain tree's own entries above the leaf tables are guarded by its lock:
 * taken here, dropped by replica_end().
 */
static pteval_t *replica_begin(struct hydra_table *t, const void *entry,
			       unsigned int *d)
{
	unsigned int next = *d;

	for_each_set_bit_from(next, t->sharers.bits, HYDRA_MAX_DOMAINS) {
		pteval_t *table;

		*d = next;
		if (t->level != HYDRA_PTE)
			spin_lock(&t->hmm->domain[next]->lock);
		table = READ_ONCE(t->table[next]);
		if (table && table != hydra_table_start(entry))
			return table + hydra_entry_index(entry);
		if (t->level != HYDRA_PTE)
			spin_unlock(&t->hmm->domain[next]->lock);
	}
	return NULL;
}

static void replica_end(struct hydra_table *t, unsigned int d)
{
	if (t->level != HYDRA_PTE)
		spin_unlock(&t->hmm->domain[d]->lock);
}

/* An entry above the leaf tables that leads to another table is no copy. */
static bool is_copy(const struct hydra_table *t, pteval_t val)
{
	return t->level == HYDRA_PTE || !hydra_present(val) || hydra_leaf(val);
}

/* Bring one copy in line. Return: true if there was anything to bring. */
static bool update_copy(struct hydra_table *t, pteval_t *copy, pteval_t val)
{
	bool present = t->level == HYDRA_PTE ? hydra_present(val) :
					       hydra_leaf(val);
	pteval_t old = READ_ONCE(*copy), new;

	do {
		if (!old || !is_copy(t, old))
			return false;
		new = present ? hydra_derive(val) : HYDRA_WANTED;
		if (present && hydra_present(old) &&
		    !((old ^ val) & PTE_PFN_MASK))
			new |= old & _PAGE_ACCESSED;
		if (old == new)
			return false;
	} while (!try_cmpxchg(copy, &old, new));
	return true;
}

static void propagated(struct hydra_table *t, void *entry, unsigned int d,
		       unsigned int nr)
{
	if (!nr)
		return;
	hydra_count(t->hmm, HYDRA_STAT_PROPAGATED, nr);
	trace_hydra_propagate(t->hmm->mm, t->base, hydra_entry_index(entry), d,
			      t->level, nr);
}

/* Injected faults: one domain does not hear of a change. */
static bool skips_set(unsigned int d)
{
	return hydra_breaks(HYDRA_BREAK_SKIP_SET) && d == hydra_nr_domains - 1;
}

static bool skips_clear(unsigned int d)
{
	return hydra_breaks(HYDRA_BREAK_SKIP_CLEAR) && d == hydra_nr_domains - 1;
}

void __hydra_entries_set(void *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0, i, changed;
	pteval_t *copy;

	if (!t)
		return;
	for (; (copy = replica_begin(t, entry, &d)); d++) {
		for (i = 0, changed = 0; i < nr && !skips_set(d); i++)
			changed += update_copy(t, copy + i,
					       READ_ONCE(((pteval_t *)entry)[i]));
		replica_end(t, d);
		propagated(t, entry, d, changed);
	}
}
EXPORT_SYMBOL_GPL(__hydra_entries_set);

/* Clear the replicas of an entry. Return: their accessed bits. */
static unsigned long clear_copies(struct hydra_table *t, void *entry)
{
	unsigned long young = 0;
	pteval_t *copy, was;
	unsigned int d = 0;

	for (; (copy = replica_begin(t, entry, &d)); d++) {
		was = READ_ONCE(*copy);
		if (!hydra_present(was) || !is_copy(t, was) || skips_clear(d)) {
			replica_end(t, d);
			continue;
		}
		was = xchg(copy, HYDRA_WANTED);
		replica_end(t, d);
		young |= was & _PAGE_ACCESSED;
		propagated(t, entry, d, 1);
	}
	return hydra_breaks(HYDRA_BREAK_IGNORE_ACCESSED) ? 0 : young;
}

/**
 * hydra_entry_exchange - put another value in a canonical entry, or clear it
 * @entry: the entry, of any level, for which hydra_shared() is true
 * @val: the new value
 *
 * The replicas of the entry are cleared before the entry is, and brought in line
 * with @val after that if it is present. In this order, for zap_pmd_range() looks at
 * huge entries without the lock: if it finds one gone it leaves it to its flush
 * that no CPU uses it any more, and the CPUs that the flush reaches must have
 * nothing to walk to.
 *
 * Context: the lock of the canonical table is held, or the table is not reachable.
 * Return: the old value, with the accessed bits of the replicas added.
 */
unsigned long hydra_entry_exchange(void *entry, unsigned long val)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned long young = t ? clear_copies(t, entry) : 0;
	pteval_t old = xchg((pteval_t *)entry, val);

	if (hydra_present(val))
		__hydra_entries_set(entry, 1);
	return hydra_present(old) ? old | young : old;
}
EXPORT_SYMBOL_GPL(hydra_entry_exchange);

int __hydra_test_and_clear_young(void *entry)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0;
	pteval_t *copy;
	int young = 0;

	if (!t || hydra_breaks(HYDRA_BREAK_IGNORE_ACCESSED))
		return 0;
	for (; (copy = replica_begin(t, entry, &d)); d++) {
		pteval_t val = READ_ONCE(*copy);

		if (hydra_present(val) && is_copy(t, val) &&
		    (val & _PAGE_ACCESSED))
			young |= test_and_clear_bit(_PAGE_BIT_ACCESSED,
						    (unsigned long *)copy);
		replica_end(t, d);
	}
	return young;
}
EXPORT_SYMBOL_GPL(__hydra_test_and_clear_young);

bool __hydra_young(void *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	bool young = false;
	unsigned int d = 0, i;
	pteval_t *copy;

	if (!t || hydra_breaks(HYDRA_BREAK_IGNORE_ACCESSED))
		return false;
	for (; (copy = replica_begin(t, entry, &d)); d++) {
		for (i = 0; i < nr; i++) {
			pteval_t val = READ_ONCE(copy[i]);

			young |= hydra_present(val) && is_copy(t, val) &&
				 (val & _PAGE_ACCESSED);
		}
		replica_end(t, d);
	}
	return young;
}
EXPORT_SYMBOL_GPL(__hydra_young);

/**
 * __hydra_exit_entries - canonical entries get the accessed bits of their replicas
 * @entry: the first of them, of a leaf table
 * @nr: how many
 *
 * Context: see hydra_exit_entries().
 */
void __hydra_exit_entries(void *entry, unsigned int nr)
{
	struct hydra_table *t = hydra_table_of(entry);
	unsigned int d = 0;
	pteval_t *copy;

	for (; t && (copy = replica_begin(t, entry, &d)); d++) {
		hydra_fold_accessed(copy, entry, t->level, nr);
		replica_end(t, d);
	}
}
