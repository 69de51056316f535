/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the oracle's operations. Each operation changes the cells of @op, and records
 * the change in the states of the cells.
 *
 *	oracle_operations.c	the table: needs and weight of each operation
 *	oracle_mappings.c	mappings and their contents
 *	oracle_pages.c		changes of pages that a program does not notice
 *	oracle_writes.c		writing
 *	oracle_processes.c	the whole process
 *	oracle_changing.c	building blocks
 */
#ifndef ORACLE_OPERATIONS_H
#define ORACLE_OPERATIONS_H

#include <sys/uio.h>

#include "oracle.h"
#include "linux_uapi.h"

/* Building blocks: oracle_changing.c */

#define PRESENT		(1UL << 63)	/* in pagemap */
#define SOFT_DIRTY	(1UL << 55)
#define FRAME		(SOFT_DIRTY - 1)

#define for_cells(op, c)						\
	for (struct cell *c = &(op)->zone->cell[(op)->first];		\
	     c < &(op)->zone->cell[(op)->first + (op)->count]; c++)

static inline char *start(const struct op *op)
{
	return address(op->zone, op->first);
}

static inline size_t length(const struct op *op)
{
	return (op->count - 1) * op->zone->step + op->zone->size;
}

static inline uint64_t new_contents(const struct op *op, unsigned int cell)
{
	return contents_by(op->changer + 1, op->number, op->half << 15 | cell);
}

const char *prepare_changing(void);
/* NULL: no memory */
void *shared_memory(size_t size);
void proved(const struct op *op);
void write_cell(struct op *op, unsigned int cell, uint64_t contents, struct looker *l);

uint64_t pagemap(const void *addr);
uint64_t frame(const void *addr);
/* Mapped by a huge entry */
bool is_huge(const void *addr);
/* After a call whose purpose is to move a page to another frame */
void prove_moved(struct op *op, uint64_t before);
/* Reclaim takes pages from lists. Let each CPU add the pages of its batch to the lists. */
void drain_lists(void);

void wait_until(atomic_uint *word, unsigned int value);
void raise_to(atomic_uint *word, unsigned int value);

extern pid_t self;

/*
 * Another process, with another address space, that makes calls which change the oracle's
 * address space
 */
extern struct helper {
	atomic_uint asked, answered;
	long nr, arg[6], result;
	int pidfd;		/* of the oracle */
	struct iovec from, to;
	void *pages[MAX_CELLS];
	int nodes[MAX_CELLS], status[MAX_CELLS];
	char page[PAGE_SIZE];
} *helper;

extern pthread_mutex_t helper_lock;

/* With helper_lock held */
long ask_helper(long nr, const long arg[6]);

#define by_helper(nr, ...) ask_helper(nr, (const long[6]){ __VA_ARGS__ })

/* oracle_mappings.c */

bool map_anew(struct op *op);
bool unmap(struct op *op);
bool forbid(struct op *op);
bool forbid_writing(struct op *op);
bool permit(struct op *op);
bool move(struct op *op);
bool move_and_stay(struct op *op);
bool drop(struct op *op);
bool drop_lazily(struct op *op);
bool punch_hole(struct op *op);
bool cut_file(struct op *op);
void lengthen_file(struct op *op);
void becomes_zero(struct cell *c);

/* oracle_pages.c */

const char *prepare_pages(void);
bool open_idle_marks(void);
bool page_out(struct op *op);
bool page_out_from_elsewhere(struct op *op);
bool reclaim_from_cgroup(struct op *op);
bool make_cold(struct op *op);
void was_used(struct op *op);
bool collapse(struct op *op);
bool make_small_pages(struct op *op);
void await_khugepaged(struct op *op);
bool write_twins(struct op *op);
void merge(struct op *op);
bool write_and_merge_twins(struct op *op);
void unmerge(struct op *op);
bool migrate_pages_of_cells(struct op *op);
bool bind_to_node(struct op *op);

/* oracle_writes.c */

const char *prepare_writes(void);
bool write_protect(struct op *op);
bool write_unprotect(struct op *op);
bool copy_in(struct op *op);
bool zero_in(struct op *op);
bool move_in(struct op *op);
bool write_from_elsewhere(struct op *op);
bool read_from_disk(struct op *op);
bool clear_soft_dirty(struct op *op);
void was_soft_dirtied(struct op *op);
bool write_back(struct op *op);
void is_on_disk(struct op *op);

/* oracle_processes.c */

const char *prepare_processes(void);
bool make_child(struct op *op);
void end_child(struct op *op);
bool switch_off(struct op *op);
void switch_on(struct op *op);
bool switch_on_without_memory(struct op *op);
void switch_on_again(struct op *op);
bool reclaim_replicas(struct op *op);

#endif /* ORACLE_OPERATIONS_H */
