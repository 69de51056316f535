/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A leaf table of a process that is plain Linux moves to another node: hydra_rehome() of
 * rehome.c. CPUs of the process write to a page of the table meanwhile, and one of them leaves,
 * idles, comes back. A thread faults. The reverse map cleans the page, which is then written
 * back, or unmaps the page, which is then freed. munmap() frees the table, or GUP-fast reads it,
 * or the shrinker locks it.
 *
 * The process has no trees, so no copies, and no fault fills, atomic or not. The scenario
 * includes no file. Of Linux it models which locks a function takes, and whether the function
 * reads the PMD entry again after it has locked a table: handle_pte_fault(),
 * finish_mkwrite_fault(), folio_mkclean(), try_to_unmap(), zap_pte_range(), free_pgtables().
 *
 * The page has one entry, in the table OLD or in the table NEW. As in hydra.pml, a CPU caches
 * everything that it can reach. A CPU that writes needs a cached dirty entry, or sets the dirty
 * bit in a table that it can reach. A CPU that comes back has flushed:
 * flushes_while_cpu_comes_and_goes.pml shows that.
 *
 * Left out: accessed bits; several tables with one flush; how tables are found, which reads no
 * leaf table; the lock of the PMD table, which no other process here takes.
 *
 * The invariants, if not as in hydra.pml:
 *  1   one table counts: no CPU walks a table without its entries, and code writes to no other;
 *  4   no write is lost: when a page is regarded as saved, it is, and at the end each write is
 *      noted in the entry or in the page.
 *
 * What must be rejected, and the invariant that does not hold then:
 *   BROKEN_COPIED_FIRST            4
 *   BROKEN_NO_RMAP_LOCK            6
 *   BROKEN_OLD_AND_VMA_UNLOCKED    1
 *   BROKEN_LINK_BEFORE_COPY        1
 *   BROKEN_MOVED_WITHOUT_FLUSH     4 or 5
 *   BROKEN_MOVE_SPARES_LAZY_CPUS   5
 *   BROKEN_OLD_FREED_WITHOUT_RCU   5
 *   BROKEN_NOT_LOOKED_UP_AGAIN     5
 *   BROKEN_MMAP_LOCK_SHARED        5
 */

/* Spin prints the number of a violated invariant. */
#define invariant(n, holds)	assert((n) && (holds))

#define BIT(n)		(1 << (n))

#if defined(BROKEN_NO_RMAP_LOCK) || defined(BROKEN_OLD_AND_VMA_UNLOCKED)
#define CHANGES_UNDER_LOCKS
#endif

#define OLD		1
#define NEW		2

/* Values of the entry */
#define NONE		0
#define READ_ONLY	1
#define CLEAN		2		/* writable */
#define DIRTY		3		/* writable, too */
#define JUNK		4		/* a new table is not cleared */
#define WRITABLE	(BIT(CLEAN) | BIT(DIRTY))
#define PRESENT		(BIT(READ_ONLY) | WRITABLE)

/* ------------------------------------------------------------- the state */

byte pmd = OLD;
byte pte[3];
bool ptl[3];

/* The page. unsaved: it holds what no storage has. */
bool mapped = true, folio_locked, folio_dirty, unsaved, page_freed;

/* The VMA can be found: by faults; by the reverse map. */
bool in_mm = true, in_rmap = true;

/* CPUs 0 and 1 */
#define GONE		0
#define LEAVES		1		/* interrupts are off; no more in mm_cpumask() */
#define LAZY		2
#define RUNS		3
byte cpu[2] = RUNS;
byte behind;
byte irqs_off;
byte tlb[2];				/* values */
byte psc[2];				/* tables */

/* mmap_lock, the lock of the VMA, and the locks of the reverse map */
#define MMAP		0
#define VMA		1
#define RMAP		2
byte read_locked[3];
bool write_locked[3];

/* RCU, as in hydra.pml */
byte readers, queued, waits[3], freed;

/*
 * For assertions only: as in hydra.pml; the table whose entries count; how many processes have
 * not ended
 */
byte forbidden, forbids;
byte live = OLD;
byte running;

/* ---------------------------------------------------- hardware, RCU, locks */

#define value_in(table, c)	(psc[c] & BIT(table) && pte[table] -> BIT(pte[table]) : 0)

inline walk(c)
{
	if
	:: cpu[c] ->
		psc[c] = psc[c] | (pmd -> BIT(pmd) : 0);
		tlb[c] = tlb[c] | value_in(OLD, c) | value_in(NEW, c);
		invariant(5, !(psc[c] & freed));
		invariant(1, !(tlb[c] & BIT(JUNK)));
		invariant(6, cpu[c] != RUNS || !(tlb[c] & forbidden))
	:: else
	fi
}

inline cpus_walk()
{
	walk(0);
	walk(1)
}

#define runs(c)		(cpu[c] == RUNS && !(irqs_off & BIT(c)))
#define sets_dirty(c, table)	(runs(c) && (psc[c] & BIT(table)) && pte[table] == CLEAN)

inline set_dirty(table)
{
	d_step {
		pte[table] = DIRTY;
		unsaved = true;
		cpus_walk()
	}
}

inline reader_begin()
{
	readers = readers | BIT(_pid)
}

inline reader_end()
{
	d_step {
		readers = readers & ~BIT(_pid);
		waits[OLD] = waits[OLD] & ~BIT(_pid);
		waits[NEW] = waits[NEW] & ~BIT(_pid);
		free_waiting();
		cpus_walk()
	}
}

inline free_waiting()
{
	freed = freed | (queued & ((waits[OLD] -> 0 : BIT(OLD)) | (waits[NEW] -> 0 : BIT(NEW))));
	queued = queued & ~freed
}

inline call_rcu(object)
{
	d_step {
		invariant(5, !((freed | queued) & BIT(object)));
		queued = queued | BIT(object);
		waits[object] = readers;
		free_waiting();
		cpus_walk()
	}
}

#define not_freed(table)	invariant(5, !(freed & BIT(table)))

inline down_read(lock)
{
	atomic { !write_locked[lock] -> read_locked[lock]++ }
}

inline up_read(lock)
{
	read_locked[lock]--
}

inline down_write(lock)
{
	atomic { !write_locked[lock] && !read_locked[lock] -> write_locked[lock] = true }
}

inline up_write(lock)
{
	write_locked[lock] = false
}

#define locked(lock)	(write_locked[lock] || read_locked[lock])

inline lock_folio()
{
	atomic { !folio_locked -> folio_locked = true }
}

inline spin_lock_table(table)
{
	atomic { !ptl[table] -> ptl[table] = true; not_freed(table) }
}

/*
 * Out: table, which is locked and in use, or 0. A reader until the lock is dropped. Linux reads the
 * PMD entry once more, but the callers here hold locks against changes.
 */
inline pte_offset_map_lock()
{
	do
	:: atomic {
		reader_begin();
		table = pmd
	};
		if
		:: !table -> break
		:: table ->
			spin_lock_table(table);
#ifdef CHANGES_UNDER_LOCKS
			if
			:: pmd == table -> break
			:: pmd != table -> ptl[table] = false; reader_end()
			fi
#else
			invariant(1, pmd == table);
			break
#endif
		fi
	od
}

inline pte_unmap_unlock()
{
	atomic {
		ptl[table] = false;
		table = 0;
		reader_end()
	}
}

/* A process that holds the lock of the table exchanges the entry. Out: orig */
inline store(v, allowed)
{
	d_step {
		not_freed(table);
		invariant(1, table == live);
		orig = pte[table];
		pte[table] = v;
		forbidden = forbidden & ~(allowed);
		forbids = forbids & ~(allowed);
		cpus_walk()
	}
}

/* ---------------------------------------------------------------- flushes */

#define interrupts(c, freed_tables)	\
	(cpu[c] == RUNS || ((freed_tables) && cpu[c] == LAZY) -> BIT(c) : 0)
#define falls_behind(c, freed_tables)	(cpu[c] == LAZY && !(freed_tables) -> BIT(c) : 0)

inline flush_func(c)
{
	atomic {
		(ipis & BIT(c)) && !(irqs_off & BIT(c)) ->
		d_step {
			ipis = ipis & ~BIT(c);
			cpu[c] = (cpu[c] == LAZY -> GONE : cpu[c]);
			behind = behind & ~BIT(c);
			tlb[c] = 0;
			psc[c] = 0;
			cpus_walk()
		}
	}
}

inline flush_tlb(freed_tables)
{
	d_step {
		behind = behind | falls_behind(0, freed_tables) | falls_behind(1, freed_tables);
		ipis = interrupts(0, freed_tables) | interrupts(1, freed_tables)
	};
	do
	:: flush_func(0)
	:: flush_func(1)
	:: !ipis -> break
	od
}

inline flush_returned()
{
	d_step {
		forbidden = forbidden | forbids;
		forbids = 0;
		cpus_walk()
	}
}

/* A CPU of the process comes and goes, so many times, and writes to the page. */
proctype processor(byte c, times)
{
end:
	do
	:: atomic { runs(c) && (tlb[c] & BIT(DIRTY)) -> unsaved = true }
	:: atomic { sets_dirty(c, OLD) -> set_dirty(OLD) }
	:: atomic { sets_dirty(c, NEW) -> set_dirty(NEW) }
	:: atomic { times && runs(c) -> times--; cpu[c] = LAZY }
	:: atomic { times && runs(c) ->
		times--;
		irqs_off = irqs_off | BIT(c);
		reader_begin();
		cpu[c] = LEAVES
	   };
		atomic {
			cpu[c] = GONE;
			tlb[c] = 0;
			psc[c] = 0;
			irqs_off = irqs_off & ~BIT(c);
			reader_end()
		}
	:: d_step { cpu[c] == GONE || (cpu[c] == LAZY && (behind & BIT(c))) ->
		cpu[c] = RUNS;
		behind = behind & ~BIT(c);
		tlb[c] = 0;
		psc[c] = 0;
		cpus_walk()
	   }
	:: d_step { cpu[c] == LAZY && !(behind & BIT(c)) -> cpu[c] = RUNS; cpus_walk() }
	od
}

/* --------------------------------------------------------------- rehome.c */

inline copy_table()
{
	/* copy_page(), clear_page() */
	d_step {
		not_freed(OLD);
		pte[NEW] = pte[OLD];
		live = NEW;
		cpus_walk()
	};
	d_step {
		not_freed(OLD);
		pte[OLD] = NONE;
		cpus_walk()
	}
}

inline link_new()
{
	/* pmd_populate() */
	d_step {
		pmd = NEW;
		cpus_walk()
	}
}

/* hydra_rehome_table() */
inline rehome_table()
{
#ifdef BROKEN_LINK_BEFORE_COPY
	link_new();
#endif
#ifndef BROKEN_COPIED_FIRST
#ifndef BROKEN_OLD_AND_VMA_UNLOCKED
	spin_lock_table(OLD);
#endif
	copy_table();
#ifndef BROKEN_OLD_AND_VMA_UNLOCKED
	ptl[OLD] = false;
#endif
#endif
#ifndef BROKEN_LINK_BEFORE_COPY
	link_new();
#endif
#ifdef BROKEN_OLD_FREED_WITHOUT_RCU
	d_step {
		freed = freed | BIT(OLD);
		cpus_walk()
	}
#else
	call_rcu(OLD)
#endif
}

/* hydra_rehome_tables() */
inline rehome_tables()
{
	if
#ifdef BROKEN_NOT_LOOKED_UP_AGAIN
	:: true ->
#else
	:: pmd == OLD ->
#endif
#ifdef BROKEN_COPIED_FIRST
		copy_table();
#endif
		d_step {
			pmd = 0;
			cpus_walk()
		};
#ifndef BROKEN_MOVED_WITHOUT_FLUSH
#ifdef BROKEN_MOVE_SPARES_LAZY_CPUS
		flush_tlb(false);
#else
		flush_tlb(true);
#endif
#endif
		rehome_table()
	:: else
	fi
}

/* hydra_rehome_locked(): locks of the process are only tried. */
inline rehome_locked()
{
	if
#ifdef BROKEN_OLD_AND_VMA_UNLOCKED
	:: true ->
#else
	:: atomic { !locked(VMA) -> write_locked[VMA] = true };
#endif
		if
#ifdef BROKEN_NO_RMAP_LOCK
		:: rehome_tables()
#else
		:: atomic { !locked(RMAP) -> write_locked[RMAP] = true };
			rehome_tables();
			up_write(RMAP)
		:: atomic { locked(RMAP) -> skip }
#endif
		fi;
#ifndef BROKEN_OLD_AND_VMA_UNLOCKED
		up_write(VMA)
#endif
	:: atomic { locked(VMA) -> skip }
	fi
}

proctype rehome()
{
	byte ipis;

	/* The table has been found. munmap() may come first, and free the table. */
	if
#ifdef BROKEN_MMAP_LOCK_SHARED
	:: down_read(MMAP);
		rehome_locked();
		up_read(MMAP)
#else
	:: atomic { !locked(MMAP) -> write_locked[MMAP] = true };
		rehome_locked();
		up_write(MMAP)
	:: atomic { locked(MMAP) -> skip }
#endif
	fi;
	running--
}

/* ------------------------------------------------------------------ Linux */

/* handle_pte_fault(), with the lock of the VMA */
proctype fault()
{
	byte table, orig;

	down_read(VMA);
	if
	:: in_mm && pmd ->
		atomic {
			reader_begin();
			table = pmd
		};
		d_step {
			not_freed(table);
			orig = pte[table]
		};
		if
		:: orig == CLEAN ->
			/* A write: pte_same() is the only look after the lock. */
			spin_lock_table(table);
			if
			:: pte[table] == orig -> store(DIRTY, WRITABLE)
			:: else
			fi;
			pte_unmap_unlock()
		:: orig == NONE || orig == READ_ONLY ->
			reader_end();
			/* do_read_fault(); or do_page_mkwrite() and finish_mkwrite_fault() */
			lock_folio();
			folio_dirty = folio_dirty || orig == READ_ONLY;
			pte_offset_map_lock();
			if
			:: table && pte[table] == orig && !page_freed ->
				if
				:: orig == NONE -> mapped = true; store(READ_ONLY, BIT(READ_ONLY))
				:: orig == READ_ONLY -> store(DIRTY, PRESENT)
				fi
			:: else
			fi;
			pte_unmap_unlock();
			folio_locked = false
		:: orig == DIRTY -> reader_end()
		fi
	:: else
	fi;
	atomic {
		up_read(VMA);
		running--
	}
}

/* folio_mkclean(), and the page is written back. */
inline mkclean()
{
	pte_offset_map_lock();
	if
	:: table && (BIT(pte[table]) & WRITABLE) ->
		forbids = WRITABLE;
		store(NONE, 0);
		folio_dirty = folio_dirty || orig == DIRTY;
		flush_tlb(false);
		store(READ_ONLY, 0);
		flush_returned()
	:: else -> forbidden = forbidden | WRITABLE
	fi;
	pte_unmap_unlock()
}

/* try_to_unmap(): map_pte() does not read the PMD entry again. */
inline unmap()
{
	atomic {
		reader_begin();
		table = pmd
	};
	if
	:: table && pte[table] ->
		spin_lock_table(table);
		if
		:: pte[table] ->
			forbids = PRESENT;
			store(NONE, 0);
			folio_dirty = folio_dirty || orig == DIRTY;
			flush_tlb(false);
			flush_returned();
			mapped = false
		:: else
		fi
	:: else
	fi;
	pte_unmap_unlock()
}

/* What is written to storage is saved. If nothing has to be written, all must be saved. */
inline write_back()
{
	atomic {
		if
		:: folio_dirty -> folio_dirty = false; unsaved = false
		:: else -> invariant(4, !unsaved)
		fi
	}
}

proctype reverse_map(bool cleans)
{
	byte table, orig, ipis;

	lock_folio();
	down_read(RMAP);
	if
	:: in_rmap && cleans -> mkclean()
	:: in_rmap && !cleans -> unmap()
	:: else
	fi;
	up_read(RMAP);
	if
	:: cleans || !mapped ->
		write_back();
		page_freed = !mapped
	:: else
	fi;
	atomic {
		folio_locked = false;
		running--
	}
}

proctype munmap()
{
	byte table, orig, ipis;

	down_write(MMAP);
	down_write(VMA);
	in_mm = false;
	atomic {
		/* mmap_write_downgrade() */
		up_write(VMA);
		up_write(MMAP);
		read_locked[MMAP]++
	};
	pte_offset_map_lock();
	if
	:: table && pte[table] ->
		forbids = PRESENT;
		store(NONE, 0);
		folio_dirty = folio_dirty || orig == DIRTY;
		/* zap_pte_range() flushes at once if a page of a file was written. */
		flush_tlb(false);
		flush_returned();
		mapped = false
	:: else -> forbidden = PRESENT
	fi;
	pte_unmap_unlock();
	/* free_pgtables() */
	down_write(RMAP);
	in_rmap = false;
	up_write(RMAP);
	d_step {
		table = pmd;
		pmd = 0;
		live = 0;
		cpus_walk()
	};
	flush_tlb(true);
	if
	:: table -> call_rcu(table)
	:: else
	fi;
	atomic {
		up_read(MMAP);
		running--
	}
}

/* GUP-fast, on CPU 0 */
proctype gup_fast()
{
	byte table;

	atomic {
		runs(0) ->
		irqs_off = irqs_off | BIT(0);
		reader_begin();
		table = pmd
	};
	if
	:: table ->
		not_freed(table);
		/* Once more, after it has taken the page */
		not_freed(table)
	:: else
	fi;
	atomic {
		table = 0;
		irqs_off = irqs_off & ~BIT(0);
		reader_end();
		running--
	}
}

/* hydra_trylock_shared(), of the shrinker: finds no struct hydra_table */
proctype shrinker()
{
	byte table;

	atomic {
		reader_begin();
		table = pmd
	};
	if
	:: atomic { table && !ptl[table] -> spin_lock_table(table) };
		/* It may have changed meanwhile. In any case there is nothing to do. */
		not_freed(table);
		ptl[table] = false
	:: atomic { !table || ptl[table] -> skip }
	fi;
	atomic {
		reader_end();
		running--
	}
}

/* All writes are saved, or noted in the entry or in the page. */
proctype end_of_all()
{
	atomic {
		!running ->
		invariant(4, !unsaved || folio_dirty || (pmd && pte[pmd] == DIRTY))
	}
}

init
{
	atomic {
		pte[NEW] = JUNK;
		if
		:: pte[OLD] = READ_ONLY
		:: pte[OLD] = CLEAN
		:: pte[OLD] = DIRTY; unsaved = true
		fi;
		cpus_walk();
		run rehome();
		run processor(0, 0);
		run processor(1, 1);
		run fault();
		running = 4;
		if
		:: run reverse_map(true)
		:: run reverse_map(false)
		fi;
		if
		:: run munmap()
		:: run gup_fast()
		:: run shrinker()
		fi;
		run end_of_all()
	}
}
