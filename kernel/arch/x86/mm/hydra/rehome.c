// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rehoming: canonical leaf tables move to the home node of the one domain that walks them.
 *
 * A process that is plain Linux has its leaf tables where its threads first touched memory. If it
 * moves to another node, the page walks of its CPUs are remote from then on. Linux moves the
 * data, and no tables. (vMitosis, Panwar et al., ASPLOS '21, section 3.2, moves tables to the
 * node of the data. Here they move to the CPUs: these walk them.) Upper tables stay: they are
 * 1/512 of the memory, and mostly in caches.
 *
 * hydra_rehome_ask() notes that some process has come to another domain. Then, at its next idle
 * look, hydra_keeper() goes through all processes, and moves tables of those which have settings
 * with domains, and are plain Linux. Nothing is kept for a process: a table on its home is
 * skipped after a look at its struct page. What is left, because a lock was busy, or memory short,
 * or there are more than TABLES_IN_PASS tables, waits for the next idle look, and under policy
 * "auto" until auto.c asks. Where nothing asks, as when locked memory is unlocked, it waits for the
 * next process that moves.
 *
 * In a process that is split, a table may have lost its owner: that domain has left the table, and
 * a single other domain uses a replica. Then no domain walks the canonical table. (Or the user
 * links it, as memory for a replica was short.) The idle look that finds this (forget.c) has the
 * table moved to the home of its user (hydra_rehome_to_user()), as mremap() moves a table: the
 * replica goes, and the user links the table at its next fault. Where a lock is busy, or memory
 * short, the table waits for the next idle look.
 *
 * Left alone are processes which have locked memory, since a move causes faults; which have
 * another MMU walk their tables (mmu_notifier); or which run on an isolated CPU, as a move
 * interrupts the CPUs that run the process. So are tables of special VMAs and of VMAs with
 * several reverse maps, tables that Linux has set aside for the split of a huge page, and plain
 * processes whose cpuset does not have the node. Where groups of CPUs take the place of nodes, no
 * table of a process that is split moves.
 *
 * Locking: locks of the process are only tried, in the order of Linux: mmap_lock for writing,
 * locks of VMAs, i_mmap and anon_vma for writing. The lock of the PMD table and then those of
 * leaf tables nest inside. TABLES_AT_ONCE tables move under one hold of these, with one flush; of
 * a process that is split, one table.
 *
 * Tables are also found under mmap_lock for writing, LOOKS_AT_ONCE at most under one hold, and
 * fewer if a thread sleeps in the queue of the lock. Interrupts off would not do: a process that
 * has never been split frees tables after a flush of the CPUs that run it, and the keeper's CPU is
 * none of them. Nor would a reader's lock: munmap() frees tables under one. Interrupts are off in
 * addition, for PMD tables that hugetlb shares: these go without mmap_lock, but after an interrupt
 * of all CPUs.
 *
 * A pass holds a reference in mm_count, and none in mm_users: that would count as a second user,
 * and delay the end of the process. exit_mmap() takes mmap_lock when mm_users is 0.
 */

/**
 * DOC: A leaf table that moves to another node
 *
 * mmap_lock is held for writing, so the process is not split meanwhile, and does not return::
 *
 *     CPU 0: hydra_rehome()                CPU 1: runs the process, or a reverse map
 *     ---------------------                -----------------------------------------
 *     locks mmap_lock, and the VMAs        a fault waits, or has ended
 *     locks i_mmap, and anon_vma           folio_mkclean() waits, or has ended
 *     takes the PMD lock
 *     clears the PMD entry                 may set accessed and dirty bits in the
 *                                          old table
 *     flushes <mb>, also lazy CPUs         forgets the way to the old table
 *                                          faults: waits for the lock of the VMA
 *     copies the old table
 *     <write barrier>
 *     PMD entry = the new table
 *     drops the locks                      walks the new table
 *     frees the old table after a
 *       grace period
 *
 * If CPU 0 copied before its flush, bits that hardware sets in between would be lost: Linux would
 * drop a page that has been written to.
 *
 * The reverse map finds the page unmapped while the PMD entry is none. map_pte() in
 * mm/page_vma_mapped.c also takes the lock of a table without another look at the PMD entry. So
 * without its locks, folio_mkclean(), e.g., would leave a page writable that is clean from then on.
 *
 * A page fault would bear the move without the lock of its VMA: it takes the lock of the PMD table
 * to make a table, and under the lock of a table it looks at the PMD entry again, or compares an
 * entry that was not none. move_pages_pte() in mm/userfaultfd.c compares an entry that is none: it
 * would move a page into the old table.
 *
 * GUP-fast keeps interrupts off, so the old table stays; and it gives a page back if the PMD entry
 * or the entry has changed meanwhile. The grace period before the old table is used again is
 * enough, and no interrupt (tlb_remove_table_sync_one()) is needed. The old table keeps its entries
 * until then: an entry that another CPU clears byte by byte would lead GUP-fast astray.
 *
 * If the process is split, hydra_move_table() cuts the links and flushes the sharers, with the same
 * locks held as in mremap(): see "A leaf table moved" in unlink.c.
 */

#include <linux/cpuset.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/oom.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include <trace/events/hydra.h>

#include "entry.h"
#include "home.h"
#include "rehome.h"
#include "rent.h"
#include "settings.h"
#include "splitter.h"
#include "state.h"
#include "tlb.h"
#include "wait.h"
#include "walk.h"

#define TABLES_AT_ONCE		8U
#define TABLES_IN_PASS		8192U
#define LOOKS_AT_ONCE		64
#define STEPS_AT_ONCE		64

/* A pass ends when so many tables have been found on other nodes. Not all of them can move. */
#define TRIES_IN_PASS		(2 * TABLES_IN_PASS)

/* How many numbers of processes and threads a call of the keeper looks at */
#define PIDS_AT_ONCE		1024

/* A pass over a process ends when mmap_lock was busy at so many looks in a row, a jiffy each. */
#define BUSY_MAX		4

/*
 * On the wanted node or not at all. As for replicas, no memory is reclaimed, but kswapd is woken.
 * All words are written.
 */
#define REHOME_GFP \
	((GFP_PGTABLE_USER & ~(__GFP_DIRECT_RECLAIM | __GFP_ZERO)) | __GFP_COMP | \
	 __GFP_THISNODE | __GFP_NOWARN)

/**
 * struct hydra_pass - a pass over the leaf tables of an address space
 * @mm: the address space
 * @nid: the node to which they move
 * @split: for one table of a process that is split
 * @next: the address at which it goes on
 * @room: how many more tables may move
 * @tries: how many more tables may be found that are to move
 * @busy: at how many looks in a row mmap_lock was busy
 * @again: some tables are to be looked for again
 * @stop: the node has had no memory, or is not the wanted one any more, or the process ends
 * @nr: how many tables have been found that are to move, all below one PMD table
 * @due: by table, the first address that it maps
 * @new: new tables; NULL once one is in use
 */
struct hydra_pass {
	struct mm_struct *mm;
	int nid;
	bool split;
	unsigned long next;
	unsigned int room;
	unsigned int tries;
	unsigned int busy;
	bool again;
	bool stop;
	unsigned int nr;
	unsigned long due[TABLES_AT_ONCE];
	struct page *new[TABLES_AT_ONCE];
};

/* What reverse maps lead to a table. @anon: the root of the trees */
struct hydra_rmap {
	struct address_space *mapping;
	struct anon_vma *anon;
};

/* May no leaf table of an address space move? Context: any; the answer may be old. */
static bool hydra_stays(struct mm_struct *mm)
{
	union hydra_choice settings = hydra_choice_of(mm);

	if (!hydra_wants_domains(settings) || settings.replication == HYDRA_REPLICATE_EAGER)
		return true;
	return READ_ONCE(mm->locked_vm) || mm_has_notifiers(mm) ||
	       hydra_runs_isolated(mm, cpu_possible_mask);
}

/*
 * The value that mm->hydra_last would have, under policy "auto": of the one node whose CPUs run the
 * address space now; 0 if none do, and HYDRA_LAST_SPLIT if several do.
 */
static u32 hydra_last_of_one(struct mm_struct *mm)
{
	u32 last = 0, each;
	int cpu;

	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (!hydra_cpu_runs(cpu, mm))
			continue;
		each = hydra_last(HYDRA_SCOPE_NODE, hydra_domain_of_cpu(HYDRA_SCOPE_NODE, cpu));
		if (last && each != last)
			return HYDRA_LAST_SPLIT;
		last = each;
	}
	return last;
}

/*
 * The node on which the leaf tables of an address space ought to be that is plain Linux.
 * NUMA_NO_NODE if they are to stay where they are.
 *
 * @asleep: the node if no CPU runs it now, under policy "auto"
 *
 * Context: any. Unless mmap_lock is held, the answer may be old.
 */
static int hydra_rehome_node(struct mm_struct *mm, int asleep)
{
	bool decides = hydra_is_auto(hydra_choice_of(mm));
	u32 last = decides ? hydra_last_of_one(mm) : READ_ONCE(mm->hydra_last);
	int nid;

	if (last == HYDRA_LAST_SPLIT || mm_hydra(mm) || hydra_stays(mm))
		return NUMA_NO_NODE;
	if (!last)
		return decides ? asleep : NUMA_NO_NODE;
	if (!hydra_last_known(last))
		return NUMA_NO_NODE;
	/* CPUs that share a domain for want of numbers may be on several nodes. */
	if (hydra_mask_test(hydra_last_domain(last),
			    &hydra_domains[hydra_last_scope(last)].overflow))
		return NUMA_NO_NODE;
	nid = hydra_last_home(last);
	return node_state(nid, N_CPU) ? nid : NUMA_NO_NODE;
}

/* Has a domain walked a leaf table since the last look? Context: as hydra_node_of_user(). */
static bool hydra_has_walked(const struct hydra_table *t, unsigned int d)
{
	const pteval_t *own = READ_ONCE(t->parent->table[d]);
	pteval_t link = own ? READ_ONCE(own[hydra_table_index(t)]) : 0;

	return hydra_is_table(link) && (link & _PAGE_ACCESSED || !hydra_link_age(link));
}

/*
 * The node to which a leaf table of a process that is split has to move, as it has lost its owner.
 * NUMA_NO_NODE if the table stays. It does if several domains use it, if its user may be about to
 * leave it, too, or if CPUs of a universal domain may walk it.
 *
 * Context: interrupts off, or preemption off: the struct hydra_table is freed after a grace period.
 */
static int hydra_node_of_user(const struct hydra_mm *h, const pteval_t *table)
{
	const struct hydra_domains *domains = hydra_domains_of(h);
	struct hydra_table *t = hydra_table_of(table);
	hydra_mask_t users;
	unsigned int d;

	if (!t ||
	    hydra_has_pools(domains) ||
	    !hydra_mask_empty(&h->universal))
		return NUMA_NO_NODE;
	/* A collapse may take the users away meanwhile. */
	hydra_mask_zero(&users);
	hydra_mask_add(&users, &t->users);
	if (bitmap_weight(users.bits, HYDRA_MAX_DOMAINS) != 1)
		return NUMA_NO_NODE;
	d = find_first_bit(users.bits, HYDRA_MAX_DOMAINS);
	if (domains->home[d] == page_to_nid(virt_to_page(table)) || !hydra_has_walked(t, d))
		return NUMA_NO_NODE;
	return domains->home[d];
}

/**
 * hydra_has_lost_owner - has a leaf table to move to its only user?
 * @h: address space, split
 * @table: the canonical table
 *
 * Context: interrupts off, or the table's lock.
 * Return: true if so.
 */
bool hydra_has_lost_owner(const struct hydra_mm *h, const pteval_t *table)
{
	return hydra_node_of_user(h, table) != NUMA_NO_NODE;
}

/* Is a table to move? Context: mmap_lock held for writing; as hydra_node_of_user(). */
static bool hydra_is_due(const struct hydra_pass *pass, const pteval_t *table)
{
	mmap_assert_write_locked(pass->mm);
	if (pass->split)
		return hydra_node_of_user(mm_hydra(pass->mm), table) == pass->nid;
	return page_to_nid(virt_to_page(table)) != pass->nid;
}

/*
 * Look at some leaf tables, and note those which are to move.
 *
 * Context: mmap_lock held for writing.
 */
static void hydra_find_due(struct hydra_pass *pass)
{
	struct hydra_iter it = {
		.mm = pass->mm,
		.level = PG_LEVEL_4K,
		.steps = STEPS_AT_ONCE,
		.next = pass->next,
	};
	unsigned int looks, most = min3(TABLES_AT_ONCE, pass->room, pass->tries);
	int nid;

	mmap_assert_write_locked(pass->mm);
	for (looks = 0; looks < LOOKS_AT_ONCE && pass->nr < most &&
	     !(looks && mmap_lock_is_contended(pass->mm)); looks++) {
		local_irq_disable();
		nid = hydra_next_canonical(&it) ? page_to_nid(virt_to_page(it.table)) :
						  NUMA_NO_NODE;
		local_irq_enable();
		if (nid == NUMA_NO_NODE)
			break;
		if (pass->nr && (it.addr ^ pass->due[0]) & PUD_MASK) {
			it.next = it.addr;
			break;
		}
		if (nid != pass->nid)
			pass->due[pass->nr++] = it.addr;
	}
	pass->next = it.next;
	pass->tries -= pass->nr;
}

/* A table on the node. Context: process context, no locks. Return: NULL: there is no memory. */
static struct page *hydra_rehome_alloc(int nid)
{
	struct page *page = node_online(nid) ? alloc_pages_node(nid, REHOME_GFP, 0) : NULL;

	if (page && !pagetable_pte_ctor(page_ptdesc(page))) {
		__free_page(page);
		return NULL;
	}
	return page;
}

/*
 * Lock the VMAs of a table against faults, and note what reverse maps lead to the table.
 *
 * Context: mmap_lock held for writing. Return: 0; -EBUSY if a fault holds a VMA; -EINVAL if the
 * table cannot move, or not under the locks of @rmap. On errors @rmap stays as it was.
 */
static int hydra_rehome_vmas(struct mm_struct *mm, unsigned long addr, struct hydra_rmap *rmap)
{
	VMA_ITERATOR(vmi, mm, addr);
	struct hydra_rmap its = *rmap;
	struct vm_area_struct *vma;

	mmap_assert_write_locked(mm);
	for_each_vma_range(vmi, vma, addr + PMD_SIZE) {
		struct address_space *mapping = vma->vm_file ? vma->vm_file->f_mapping : NULL;
		struct anon_vma *anon;

		/* Arenas of BPF change without a lock. VM_SPECIAL has their VM_DONTEXPAND. */
		if (vma->vm_flags & (VM_SPECIAL | VM_HUGETLB))
			return -EINVAL;
		if (hydra_lock_vma(vma, false))
			return -EBUSY;
		anon = vma->anon_vma ? vma->anon_vma->root : NULL;
		if ((mapping && its.mapping && mapping != its.mapping) ||
		    (anon && its.anon && anon != its.anon))
			return -EINVAL;
		its.mapping = mapping ?: its.mapping;
		its.anon = anon ?: its.anon;
	}
	*rmap = its;
	return 0;
}

static bool hydra_trylock_rmap(const struct hydra_rmap *rmap)
{
	if (rmap->mapping && !i_mmap_trylock_write(rmap->mapping))
		return false;
	if (!rmap->anon || anon_vma_trylock_write(rmap->anon))
		return true;
	if (rmap->mapping)
		i_mmap_unlock_write(rmap->mapping);
	return false;
}

static void hydra_unlock_rmap(const struct hydra_rmap *rmap)
{
	if (rmap->anon)
		anon_vma_unlock_write(rmap->anon);
	if (rmap->mapping)
		i_mmap_unlock_write(rmap->mapping);
}

static void hydra_rehome_free(struct rcu_head *head)
{
	pte_free(NULL, container_of(head, struct page, rcu_head));
}

/*
 * The last part of a move. See "A leaf table that moves to another node" above.
 *
 * The entries are copied as they are: nothing is mapped or unmapped. Soft-dirty bits, swap
 * entries and marks of userfaultfd are part of them.
 *
 * Context: hydra_rehome_tables(); the PMD entry is cleared, and all CPUs are flushed that may have
 * walked the table.
 */
static void hydra_rehome_table(struct hydra_pass *pass, pmd_t *pmd, pmd_t old, unsigned int i)
{
	spinlock_t *ptl = pte_lockptr(pass->mm, &old);
	pteval_t *from = hydra_next_table(pmd_val(old));
	struct page *page = pass->new[i];

	lockdep_assert_held(pmd_lockptr(pass->mm, pmd));
	VM_WARN_ON_ONCE(hydra_word_of(from));
	/*
	 * An atomic fill, or hydra_drop(), that has locked the table before the entry was cleared
	 * may still set bits: they are copied, too.
	 */
	spin_lock_nested(ptl, SINGLE_DEPTH_NESTING);
	copy_page(page_address(page), from);
	spin_unlock(ptl);
	/* The entries before the table can be seen. Pairs with the address dependency of walks. */
	smp_wmb();
	pmd_populate(pass->mm, pmd, page);
	pass->new[i] = NULL;
	trace_hydra_rehome(pass->mm, pass->due[i], page_to_nid(virt_to_page(from)), pass->nid);
	call_rcu(&pmd_pgtable(old)->rcu_head, hydra_rehome_free);
}

/*
 * Move tables which lie below one PMD table.
 *
 * @first: the first of them, in @pass->due
 * @end: the end of them
 *
 * Context: mmap_lock held for writing; the VMAs and the reverse maps of the tables are locked.
 * Return: how many have moved.
 */
static unsigned int hydra_rehome_tables(struct hydra_pass *pass, unsigned int first,
					unsigned int end)
{
	struct mm_struct *mm = pass->mm;
	pmd_t old[TABLES_AT_ONCE], *pmd = hydra_canonical_pmd(mm, pass->due[first]);
	unsigned int i, moved = 0;
	spinlock_t *lock;	/* of the PMD table */

	mmap_assert_write_locked(mm);
	if (!pmd)
		return 0;
	pmd -= pmd_index(pass->due[first]);
	lock = pmd_lock(mm, pmd);
	for (i = first; i < end; i++) {
		pmd_t *entry = pmd + pmd_index(pass->due[i]);

		old[i] = *entry;
		/* It may have been freed since it was found, or have another user. */
		if (!hydra_is_table(pmd_val(old[i])) ||
		    !hydra_is_due(pass, hydra_next_table(pmd_val(old[i])))) {
			old[i] = __pmd(0);
			continue;
		}
		pmd_clear(entry);
		hydra_move_table(mm, entry, old[i], pass->due[i]);
		moved++;
	}
	/* As for freed tables: no lazy CPU may walk the old ones. */
	if (moved && !pass->split)
		flush_tlb_mm(mm);
	for (i = first; i < end; i++)
		if (!pmd_none(old[i]))
			hydra_rehome_table(pass, pmd + pmd_index(pass->due[i]), old[i], i);
	spin_unlock(lock);
	return moved;
}

/*
 * Move the tables that have been found, those together which have the same reverse maps.
 *
 * Context: mmap_lock held for writing.
 */
static void hydra_rehome_locked(struct hydra_pass *pass)
{
	unsigned int first, end;

	for (first = 0; first < pass->nr; first = end) {
		struct hydra_rmap rmap = { };
		int err = hydra_rehome_vmas(pass->mm, pass->due[first], &rmap);

		end = first + 1;
		if (!err) {
			while (end < pass->nr &&
			       !hydra_rehome_vmas(pass->mm, pass->due[end], &rmap))
				end++;
			if (hydra_trylock_rmap(&rmap)) {
				pass->room -= hydra_rehome_tables(pass, first, end);
				hydra_unlock_rmap(&rmap);
			} else {
				err = -EBUSY;
			}
		}
		pass->again |= err == -EBUSY;
	}
}

/*
 * Take mmap_lock, if it is free, and if the process still wants its tables on the node of the pass.
 * Until the lock is dropped the process is not split, or does not return, and keeps its VMAs and
 * tables: exit_mmap() waits for the lock.
 */
static bool hydra_rehome_trylock(struct hydra_pass *pass)
{
	if (!hydra_mmap_trylock(pass->mm))
		return false;
	if (atomic_read(&pass->mm->mm_users) &&
	    (pass->split ? mm_hydra(pass->mm) && !hydra_stays(pass->mm) :
			   hydra_rehome_node(pass->mm, pass->nid) == pass->nid))
		return true;
	mmap_write_unlock(pass->mm);
	pass->stop = true;
	return false;
}

/* There are new tables for those that have been found, as far as there is memory. */
static void hydra_rehome_supply(struct hydra_pass *pass)
{
	unsigned int i;

	for (i = 0; i < pass->nr; i++) {
		pass->new[i] = pass->new[i] ?: hydra_rehome_alloc(pass->nid);
		if (!pass->new[i]) {
			pass->stop = true;
			pass->nr = i;
		}
	}
}

/* Context: process context, no locks; hydra_charge_begin(). */
static void hydra_rehome_some(struct hydra_pass *pass)
{
	pass->nr = 0;
	if (!hydra_rehome_trylock(pass)) {
		pass->busy++;
		/* The thread that has been given the lock may not even run yet. */
		schedule_timeout_idle(1);
		return;
	}
	pass->busy = 0;
	hydra_find_due(pass);
	mmap_write_unlock(pass->mm);
	hydra_rehome_supply(pass);
	if (!pass->nr)
		return;
	if (!hydra_rehome_trylock(pass)) {
		pass->again = true;
		return;
	}
	hydra_rehome_locked(pass);
	mmap_write_unlock(pass->mm);
}

/*
 * Move tables of an address space to a node.
 *
 * Context: process context, no locks; a reference in mm_count.
 */
static void hydra_rehome_mm(struct mm_struct *mm, int nid)
{
	struct hydra_pass pass = {
		.mm = mm, .nid = nid, .room = TABLES_IN_PASS, .tries = TRIES_IN_PASS,
	};
	struct mem_cgroup *memcg, *old;
	unsigned int i;

	memcg = hydra_charge_begin(mm, &old);
	while (pass.next < TASK_SIZE_MAX && pass.room && pass.tries && !pass.stop &&
	       pass.busy < BUSY_MAX && hydra_look_period()) {
		hydra_rehome_some(&pass);
		cond_resched();
	}
	hydra_charge_end(memcg, old);
	for (i = 0; i < TABLES_AT_ONCE; i++)
		if (pass.new[i])
			pte_free(mm, pass.new[i]);
	/* Under policy "auto" its looks ask. */
	if (hydra_is_auto(hydra_choice_of(mm)))
		return;
	/* If no table could move of so many, none behind them will. */
	if ((pass.again || pass.stop || pass.next < TASK_SIZE_MAX) &&
	    (pass.tries || pass.room < TABLES_IN_PASS) && atomic_read(&mm->mm_users))
		hydra_rehome_ask();
}

/**
 * hydra_rehome_to_user - move a leaf table that has lost its owner
 * @h: address space, split
 * @addr: first address that the table maps
 *
 * Context: hydra_keeper(): process context, no locks; a reference in mm_users.
 * Return: false if the table has not moved.
 */
bool hydra_rehome_to_user(struct hydra_mm *h, unsigned long addr)
{
	struct hydra_pass pass = {
		.mm = h->mm, .split = true, .room = 1, .nr = 1, .due = { addr },
	};
	struct mem_cgroup *memcg, *old;

	if (hydra_stays(h->mm))
		return false;
	scoped_guard(irq) {
		pmd_t *pmd = hydra_canonical_pmd(h->mm, addr);
		pteval_t val = pmd ? pmd_val(pmdp_get_lockless(pmd)) : 0;

		pass.nid = hydra_is_table(val) ? hydra_node_of_user(h, hydra_next_table(val)) :
						 NUMA_NO_NODE;
	}
	if (pass.nid == NUMA_NO_NODE)
		return false;
	memcg = hydra_charge_begin(h->mm, &old);
	hydra_rehome_supply(&pass);
	hydra_charge_end(memcg, old);
	if (pass.nr && hydra_rehome_trylock(&pass)) {
		hydra_rehome_locked(&pass);
		mmap_write_unlock(h->mm);
	}
	if (pass.new[0])
		pte_free(h->mm, pass.new[0]);
	return !pass.room;
}

/**
 * hydra_process_from - the process with a number
 * @nr: the number; set to that at which to go on, 0 if there is no further one
 *
 * Context: process context.
 * Return: its first thread, with a reference; NULL if there is none.
 */
struct task_struct *hydra_process_from(int *nr)
{
	struct task_struct *task = NULL;
	struct pid *pid;

	guard(rcu)();
	pid = find_ge_pid(*nr, &init_pid_ns);
	*nr = pid ? pid_nr(pid) + 1 : 0;
	if (pid)
		task = pid_task(pid, PIDTYPE_TGID);
	return task ? get_task_struct(task) : NULL;
}

/*
 * The address space of a process if its leaf tables may have to move, with a reference in
 * mm_count. The first thread may have ended before others.
 *
 * @nid: set to the node to which they have to move
 */
static struct mm_struct *hydra_mm_to_rehome(struct task_struct *task, int *nid)
{
	struct mm_struct *mm;
	nodemask_t allowed;

	task = task->flags & PF_KTHREAD ? NULL : find_lock_task_mm(task);
	if (!task)
		return NULL;
	mm = task->mm;
	*nid = hydra_is_worth_rehoming(mm) ? hydra_rehome_node(mm, NUMA_NO_NODE) :
					     NUMA_NO_NODE;
	if (*nid == NUMA_NO_NODE) {
		task_unlock(task);
		return NULL;
	}
	mmgrab(mm);
	get_task_struct(task);
	task_unlock(task);
	allowed = cpuset_mems_allowed(task);
	put_task_struct(task);
	if (node_isset(*nid, allowed))
		return mm;
	mmdrop(mm);
	return NULL;
}

/* Return: were tables looked for? */
static bool hydra_rehome_process(struct task_struct *task)
{
	struct mm_struct *mm;
	int nid;

	mm = hydra_mm_to_rehome(task, &nid);
	if (!mm)
		return false;
	hydra_rehome_mm(mm, nid);
	mmdrop(mm);
	return true;
}

/**
 * hydra_rehome - move leaf tables of processes that have come to other domains
 * @begin: begin with the first process, if any has come to another domain since the last time
 *
 * A call looks at PIDS_AT_ONCE numbers of processes at most, and for tables of one process: looks
 * for rent wait meanwhile.
 *
 * Context: hydra_keeper(): process context, no locks; may sleep.
 * Return: true if it has not come to the last process.
 */
bool hydra_rehome(bool begin)
{
	static int next;
	unsigned int looks = PIDS_AT_ONCE;
	struct task_struct *task;
	bool looked = false;

	if (begin && !next && hydra_rehome_asked(true))
		next = 1;
	while (next && looks-- && !looked) {
		task = hydra_process_from(&next);
		if (task) {
			looked = hydra_rehome_process(task);
			put_task_struct(task);
		}
		cond_resched();
	}
	return next;
}
