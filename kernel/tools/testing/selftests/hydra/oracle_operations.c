// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations: every call that can take away or weaken a mapping,
 * and those that give it back. Each says in the states of the cells what it has
 * done to them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kselftest.h"
#include "oracle.h"
#include "linux_uapi.h"

#define KSM		"/sys/kernel/mm/ksm/"
#define KHUGEPAGED	"/sys/kernel/mm/transparent_hugepage/khugepaged/"
#define PATIENCE	200	/* times 10 ms, for threads of the kernel to act */

#define PRESENT		(1UL << 63)	/* in pagemap */
#define SOFT_DIRTY	(1UL << 55)
#define FRAME		(SOFT_DIRTY - 1)

static int pagemap_fd, idle_fd, source_fd, key;
static pid_t self;
/* Those that have memory, of the machine's own numbers */
static int memory_nodes[HYDRA_MAX_NODES];
static unsigned int nr_memory_nodes;

/* What only one changer may do at a time; the first one also excludes migrating all pages */
static pthread_mutex_t clear_refs = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t switching = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t merging = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t collapsing = PTHREAD_MUTEX_INITIALIZER;

#define for_cells(op, c)						\
	for (struct cell *c = &(op)->zone->cell[(op)->first];		\
	     c < &(op)->zone->cell[(op)->first + (op)->count]; c++)

static char *start(const struct op *op)
{
	return address(op->zone, op->first);
}

static size_t length(const struct op *op)
{
	return (op->count - 1) * op->zone->step + op->zone->size;
}

static uint64_t new_contents(const struct op *op, unsigned int cell)
{
	return contents_by(op->changer + 1, op->number, op->half << 15 | cell);
}

uint64_t op_id(const struct op *op)
{
	return contents_by(op->changer + 1, op->number, 0) | (op->kind - kinds);
}

bool must(const struct op *op, bool done, const char *call)
{
	struct looker l = { .cpu = sched_getcpu() };

	if (!done)
		mistake(op_id(op), &l, start(op), "%s failed: %s", call, strerror(errno));
	return done;
}

static void proved(const struct op *op)
{
	atomic_fetch_add(&op->kind->proved, 1);
}

/* What the changer reads and writes itself */

static void write_cell(struct op *op, unsigned int cell, uint64_t contents, struct looker *l)
{
	struct state *now = &op->zone->cell[cell].now;
	char *page = address(op->zone, cell);
	int sig = 0;

	now->contents = contents;
	now->maybe_zero = false;
	for (unsigned int word = 0; word < PATTERN_WORDS && !sig; word++)
		sig = hydra_try_write(page + pattern_offset(word), pattern_word(contents, word));
	if (sig)
		mistake(op_id(op), l, page, "write by the changer: expected success, got signal %d", sig);
}

static void rewrite_cell(struct op *op, unsigned int cell, struct looker *l)
{
	struct state *now = &op->zone->cell[cell].now;
	uint64_t expected = pattern_word(now->contents, op->word), value = 0;
	char *page = address(op->zone, cell);
	int sig;

	if (now->access != READ_WRITE)
		return;
	sig = hydra_try_read(page + pattern_offset(op->word), &value);
	if (sig || (value != expected && (value || !now->maybe_zero)))
		mistake(op_id(op), l, page, "read by the changer: expected %#lx, got %#lx, signal %d",
			expected, value, sig);
	write_cell(op, cell, new_contents(op, cell), l);
}

void rewrite_cells(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };

	for (unsigned int i = 0; i < op->count; i++) {
		rewrite_cell(op, op->first + i, &l);
		if (op->kind->flags & MOVES)
			rewrite_cell(op, op->other + i, &l);
	}
}

/* What Linux says of pages */

static uint64_t pagemap(const void *addr)
{
	uint64_t entry = 0;

	if (pread(pagemap_fd, &entry, 8, (uintptr_t)addr / PAGE_SIZE * 8) != 8)
		return 0;
	return entry;
}

static uint64_t frame(const void *addr)
{
	uint64_t entry = pagemap(addr);

	return entry & PRESENT ? entry & FRAME : 0;
}

/* Mapped by a huge entry, that is */
static bool is_huge(const void *addr)
{
	struct page_region region;
	struct pm_scan_arg scan = {
		.size = sizeof(scan),
		.start = (uintptr_t)addr & -PAGE_SIZE,
		.end = ((uintptr_t)addr & -PAGE_SIZE) + PAGE_SIZE,
		.vec = (uintptr_t)&region, .vec_len = 1,
		.category_mask = PAGE_IS_HUGE, .return_mask = PAGE_IS_HUGE,
	};

	return ioctl(pagemap_fd, PAGEMAP_SCAN, &scan) > 0;
}

/* For a call that is to give a page another frame */
static void prove_moved(struct op *op, uint64_t before)
{
	uint64_t after = frame(start(op));

	if (before && after && before != after)
		proved(op);
}

/* Pages that wait to be put on a list are not taken from there: have all of them put */
static void drain_lists(void)
{
	int nowhere;

	syscall(SYS_move_pages, 0, 0UL, NULL, &nowhere, NULL, 0);
}

/* A process without any part in all this, which makes calls for us from its own address space */

static struct helper {
	atomic_uint asked, answered;
	long nr, arg[6], result;
	int pidfd;		/* ours, as it knows it */
	struct iovec from, to;
	void *pages[MAX_CELLS];
	int nodes[MAX_CELLS], status[MAX_CELLS];
	char page[PAGE_SIZE];
} *helper;

static pthread_mutex_t helper_lock = PTHREAD_MUTEX_INITIALIZER;

static void wait_until(atomic_uint *word, unsigned int value)
{
	unsigned int now;

	while ((now = atomic_load(word)) != value)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void raise_to(atomic_uint *word, unsigned int value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void __attribute__((noreturn)) help(pid_t parent)
{
	const long *a = helper->arg;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	helper->pidfd = syscall(SYS_pidfd_open, parent, 0);
	for (unsigned int call = 1;; call++) {
		raise_to(&helper->answered, call - 1);
		wait_until(&helper->asked, call);
		helper->result = syscall(helper->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (helper->result == -1)
			helper->result = -errno;
	}
}

/* With helper_lock held */
static long ask_helper(long nr, const long arg[6])
{
	unsigned int call = atomic_load(&helper->asked) + 1;

	helper->nr = nr;
	memcpy(helper->arg, arg, sizeof(helper->arg));
	raise_to(&helper->asked, call);
	wait_until(&helper->answered, call);
	if (helper->result < 0)
		errno = -helper->result;
	return helper->result;
}

#define by_helper(nr, ...) ask_helper(nr, (const long[6]){ __VA_ARGS__ })

/* Mapping, unmapping, protecting */

static bool map_anew(struct op *op)
{
	return must(op, map_cells(op->zone, op->first, op->count), op->kind->name);
}

/* For what is to be done to a part of a huge page: whether that is one, made if need be and possible */
static bool begins_huge(struct op *op)
{
	char *page = start(op) - op->first % op->zone->huge * op->zone->step;

	if (!(op->kind->flags & PART))
		return false;
	if (!is_huge(page) && hydra_random(&op->random) % 2)
		madvise(page, HUGE_SIZE, MADV_COLLAPSE);
	return is_huge(page);
}

static bool unmap(struct op *op)
{
	bool was_huge = begins_huge(op);

	if (!must(op, !munmap(start(op), length(op)), "munmap"))
		return false;
	for_cells(op, c)
		c->now.access = HOLE;
	/* what is left of the huge page, on one side at least, is small pages */
	if (was_huge && !is_huge(start(op) - op->first % op->zone->huge * op->zone->step) &&
	    !is_huge(start(op) + length(op)))
		proved(op);
	return true;
}

static bool protect(struct op *op, enum access access, int protection)
{
	if (!must(op, !mprotect(start(op), length(op), protection), "mprotect"))
		return false;
	for_cells(op, c)
		c->now.access = access;
	return true;
}

static bool forbid(struct op *op)
{
	return protect(op, NO_ACCESS, PROT_NONE);
}

static bool forbid_writing(struct op *op)
{
	bool was_huge = begins_huge(op);

	if (!protect(op, READ_ONLY, PROT_READ))
		return false;
	if (was_huge && !is_huge(start(op)))
		proved(op);
	return true;
}

static bool permit(struct op *op)
{
	return protect(op, READ_WRITE, PROT_READ | PROT_WRITE);
}

static bool lock_with_key(struct op *op)
{
	if (!must(op, !pkey_mprotect(start(op), length(op), PROT_READ | PROT_WRITE, key),
		  "pkey_mprotect"))
		return false;
	for_cells(op, c)
		c->now.access = NO_ACCESS;
	return true;
}

static void unlock_with_key(struct op *op)
{
	if (must(op, !pkey_mprotect(start(op), length(op), PROT_READ | PROT_WRITE, 0),
		 "pkey_mprotect"))
		for_cells(op, c)
			c->now.access = READ_WRITE;
}

/* Moving mappings */

static bool move_mapping(struct op *op, int flags)
{
	struct zone *z = op->zone;

	flags |= MREMAP_MAYMOVE | MREMAP_FIXED;
	if (mremap(start(op), length(op), length(op), flags, address(z, op->other)) !=
	    address(z, op->other)) {
		/* there are several mappings: one cell at a time */
		if (!must(op, errno == EFAULT, "mremap"))
			return false;
		for (unsigned int i = 0; i < op->count; i++) {
			char *to = address(z, op->other + i);

			if (!must(op, mremap(address(z, op->first + i), z->size, z->size, flags,
					     to) == to, "mremap of one cell"))
				return false;
		}
	}
	for (unsigned int i = 0; i < op->count; i++) {
		struct state *from = &z->cell[op->first + i].now, *to = &z->cell[op->other + i].now;
		struct state was = *to;

		/* the other page of the file is nobody's meanwhile: it belongs where this one was */
		*to = *from;
		*from = was;
		from->access = flags & MREMAP_DONTUNMAP ? to->access : HOLE;
		if (is_in(z, PRIVATE_ZONES)) {
			from->contents = 0;
			from->maybe_zero = false;
		}
	}
	return true;
}

static bool move(struct op *op)
{
	return move_mapping(op, 0);
}

static bool move_and_stay(struct op *op)
{
	return move_mapping(op, MREMAP_DONTUNMAP);
}

static bool exchange_pages_of_file(struct op *op)
{
	struct zone *z = op->zone;
	unsigned int a = op->first, b = op->first + op->count - 1;

	for (; a < b; a++, b--) {
		struct state *s = &z->cell[a].now, *t = &z->cell[b].now, was = *s;
		int tries = 0;

		/* it is refused when soft-dirty bits are cleared meanwhile */
		while (remap_file_pages(address(z, a), z->size, 0, t->backing, 0) ||
		       remap_file_pages(address(z, b), z->size, 0, was.backing, 0))
			if (!must(op, errno == EINVAL && ++tries < 10, "remap_file_pages"))
				return false;
		*s = (struct state){ s->access, t->maybe_zero, t->contents, t->backing };
		*t = (struct state){ t->access, was.maybe_zero, was.contents, was.backing };
	}
	return true;
}

/* Dropping contents */

static void becomes_zero(struct cell *c)
{
	c->now.contents = 0;
	c->now.maybe_zero = false;
}

static bool drop(struct op *op)
{
	if (!must(op, !madvise(start(op), length(op), MADV_DONTNEED), "MADV_DONTNEED"))
		return false;
	for_cells(op, c) {
		if (is_in(op->zone, PRIVATE_ZONES))
			becomes_zero(c);
		if (op->zone == &zones[USERFAULT])
			c->now.access = ALL_IS_BUS;
		if (op->zone == &zones[PRIVATE_FILE])
			c->now.contents = file_contents(c->now.backing);
	}
	return true;
}

static bool drop_lazily(struct op *op)
{
	const struct cell *c = &op->zone->cell[op->first];
	bool pressure = hydra_random(&op->random) % 2;
	uint64_t value;

	if (pressure)
		drain_lists();
	if (!must(op, !madvise(start(op), length(op), MADV_FREE), "MADV_FREE"))
		return false;
	for_cells(op, each)
		each->now.maybe_zero = true;
	if (pressure) {
		if (!must(op, !madvise(start(op), length(op), MADV_PAGEOUT), "MADV_PAGEOUT"))
			return false;
		if (may_read(c->now.access) && c->now.contents &&
		    !hydra_try_read(start(op), &value) && !value)
			proved(op);
	}
	return true;
}

static bool remove_pages(struct op *op)
{
	if (!must(op, !madvise(start(op), length(op), MADV_REMOVE), "MADV_REMOVE"))
		return false;
	for_cells(op, c)
		becomes_zero(c);
	return true;
}

static bool punch_hole(struct op *op)
{
	const struct zone *z = op->zone;

	for_cells(op, c) {
		if (!must(op, !fallocate(z->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 c->now.backing * z->step, z->step), "fallocate"))
			return false;
		becomes_zero(c);
	}
	return true;
}

static bool cut_file(struct op *op)
{
	const struct zone *z = op->zone;
	unsigned int cut = hydra_random(&op->random) % z->cells;

	/*
	 * Linux keeps a huge page that the end comes to lie in if it cannot split
	 * it just then (truncate_inode_partial_folio()), and may map all of it.
	 */
	if (z->huge > 1)
		cut -= cut % z->huge;
	if (!must(op, !ftruncate(z->fd, cut * z->step), "ftruncate"))
		return false;
	for_cells(op, c) {
		c->later = c->now.access;
		if (c->now.backing < cut)
			continue;
		becomes_zero(c);
		if (c->now.access == READ_ONLY)
			c->now.access = READ_IS_BUS;
		else if (c->now.access == READ_WRITE)
			c->now.access = ALL_IS_BUS;
	}
	return true;
}

static void lengthen_file(struct op *op)
{
	const struct zone *z = op->zone;

	if (must(op, !ftruncate(z->fd, z->cells * z->step), "ftruncate"))
		for_cells(op, c)
			c->now.access = c->later;
}

static bool shrink_heap(struct op *op)
{
	struct zone *z = op->zone;
	unsigned int cut = hydra_random(&op->random) % z->cells;

	if (!must(op, !brk(address(z, cut)), "brk"))
		return false;
	for (unsigned int i = cut; i < z->cells; i++) {
		becomes_zero(&z->cell[i]);
		z->cell[i].now.access = HOLE;
	}
	return true;
}

static void grow_heap(struct op *op)
{
	if (must(op, !brk(address(op->zone, op->zone->cells)), "brk"))
		for_cells(op, c)
			if (c->now.access == HOLE)
				c->now.access = READ_WRITE;
}

static bool detach(struct op *op)
{
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		if (!must(op, !shmdt(address(op->zone, i)), "shmdt"))
			return false;
		op->zone->cell[i].now.access = HOLE;
	}
	return true;
}

/* Reclaim */

static bool advise_pageout(struct op *op, bool from_elsewhere)
{
	bool was_present = pagemap(start(op)) & PRESENT;
	bool done;

	if (hydra_random(&op->random) % 2)
		drain_lists();
	if (from_elsewhere) {
		pthread_mutex_lock(&helper_lock);
		helper->from = (struct iovec){ start(op), length(op) };
		done = by_helper(SYS_process_madvise, helper->pidfd, (long)&helper->from, 1,
				 MADV_PAGEOUT, 0) >= 0;
		pthread_mutex_unlock(&helper_lock);
	} else {
		done = !madvise(start(op), length(op), MADV_PAGEOUT);
	}
	if (!must(op, done, op->kind->name))
		return false;
	if (was_present && !(pagemap(start(op)) & PRESENT))
		proved(op);
	return true;
}

static bool page_out(struct op *op)
{
	return advise_pageout(op, false);
}

static bool page_out_from_elsewhere(struct op *op)
{
	return advise_pageout(op, true);
}

/* Whether Linux has found a frame unused since it was marked so */
static bool is_idle(uint64_t pfn)
{
	uint64_t bits = 0;

	if (pread(idle_fd, &bits, 8, pfn / 64 * 8) != 8)
		return false;
	return bits >> pfn % 64 & 1;
}

/*
 * Whoever uses a cold page from now on, Linux has to learn of it. Accessed bits
 * are cleared without a flush when a page is marked, so that takes one.
 */
static bool make_cold(struct op *op)
{
	uint64_t pfn, bit;

	op->rewrite[0] = false;
	if (hydra_random(&op->random) % 2)
		drain_lists();
	if (!must(op, !madvise(start(op), length(op), MADV_COLD), "MADV_COLD"))
		return false;
	pfn = frame(start(op));
	bit = 1UL << pfn % 64;
	if (!pfn || pwrite(idle_fd, &bit, 8, pfn / 64 * 8) != 8)
		return true;
	if (is_idle(pfn))
		op->note[0] = pfn;
	return must(op, !mprotect(start(op), length(op), PROT_NONE) &&
			!mprotect(start(op), length(op), PROT_READ | PROT_WRITE), "mprotect");
}

static void was_used(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };
	uint64_t pfn = op->note[0];

	/* the first sample is the first cell, and all probes have read it */
	if (!pfn || frame(start(op)) != pfn)
		return;
	proved(op);
	if (is_idle(pfn))
		mistake(op_id(op), &l, start(op), "accessed: expected yes, since all CPUs have read it, got no");
}

/* Huge pages */

static bool collapse(struct op *op)
{
	bool was_huge = is_huge(start(op));

	if (madvise(start(op), length(op), MADV_COLLAPSE)) {
		must(op, errno == EAGAIN || errno == EBUSY || errno == ENOMEM || errno == EINVAL,
		     "MADV_COLLAPSE");
		return false;
	}
	if (!was_huge && is_huge(start(op)))
		proved(op);
	return true;
}

static bool make_small_pages(struct op *op)
{
	op->count = op->zone->huge;
	op->rewrite[0] = true;
	return map_anew(op) &&
	       must(op, !madvise(start(op), length(op), MADV_NOHUGEPAGE), "MADV_NOHUGEPAGE");
}

static void await_khugepaged(struct op *op)
{
	pthread_mutex_lock(&collapsing);
	must(op, !madvise(start(op), length(op), MADV_HUGEPAGE), "MADV_HUGEPAGE");
	/* it sleeps for hours otherwise */
	must(op, !hydra_write_file(KHUGEPAGED "scan_sleep_millisecs", "1"), "waking khugepaged");
	for (int i = 0; i < PATIENCE && !is_huge(start(op)); i++)
		usleep(10000);
	must(op, !hydra_write_file(KHUGEPAGED "scan_sleep_millisecs", "3600000"),
	     "stopping khugepaged");
	if (is_huge(start(op)))
		proved(op);
	pthread_mutex_unlock(&collapsing);
}

/* Pages with the same contents */

static bool write_twins(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };

	op->rewrite[0] = false;
	for (unsigned int i = op->first; i < op->first + op->count; i++)
		write_cell(op, i, new_contents(op, MAX_CELLS), &l);
	return true;
}

static bool are_merged(const struct op *op)
{
	uint64_t a = frame(start(op)), b = frame(start(op) + op->zone->step);

	return a && a == b;
}

static void await_merge(struct op *op)
{
	pthread_mutex_lock(&merging);
	must(op, !madvise(start(op), length(op), MADV_MERGEABLE), "MADV_MERGEABLE");
	must(op, !hydra_write_file(KSM "run", "1"), "starting KSM");
	for (int i = 0; i < PATIENCE && !are_merged(op); i++)
		usleep(10000);
	must(op, !hydra_write_file(KSM "run", "0"), "stopping KSM");
	pthread_mutex_unlock(&merging);
}

static void merge(struct op *op)
{
	await_merge(op);
	if (are_merged(op))
		proved(op);
}

static bool write_and_merge_twins(struct op *op)
{
	write_twins(op);
	await_merge(op);
	return true;
}

static void unmerge(struct op *op)
{
	bool were_merged = are_merged(op);

	if (must(op, !madvise(start(op), length(op), MADV_UNMERGEABLE), "MADV_UNMERGEABLE") &&
	    were_merged && !are_merged(op))
		proved(op);
}

/* Migration */

static int random_memory_node(struct op *op)
{
	return memory_nodes[hydra_random(&op->random) % nr_memory_nodes];
}

static bool migrate_pages_of_cells(struct op *op)
{
	uint64_t before = frame(start(op));
	long left;

	pthread_mutex_lock(&helper_lock);
	for (unsigned int i = 0; i < op->count; i++) {
		helper->pages[i] = address(op->zone, op->first + i);
		helper->nodes[i] = random_memory_node(op);
	}
	if (hydra_random(&op->random) % 2)
		left = syscall(SYS_move_pages, 0, (unsigned long)op->count, helper->pages,
			       helper->nodes, helper->status, MPOL_MF_MOVE);
	else
		left = by_helper(SYS_move_pages, self, op->count, (long)helper->pages,
				 (long)helper->nodes, (long)helper->status, MPOL_MF_MOVE);
	pthread_mutex_unlock(&helper_lock);
	if (!must(op, left >= 0, "move_pages"))
		return false;
	prove_moved(op, before);
	return true;
}

static bool bind_to_node(struct op *op)
{
	unsigned long mask = 1UL << random_memory_node(op);
	uint64_t before = frame(start(op));

	if (!must(op, !mbind(start(op), length(op), MPOL_PREFERRED, &mask, 64, MPOL_MF_MOVE), "mbind") ||
	    !must(op, !mbind(start(op), length(op), MPOL_DEFAULT, NULL, 0, 0), "mbind"))
		return false;
	prove_moved(op, before);
	return true;
}

static bool migrate_everything(struct op *op)
{
	unsigned long to = 1UL << random_memory_node(op), from = 0;
	uint64_t before = frame(start(op));
	bool worked;

	for (unsigned int i = 0; i < nr_memory_nodes; i++)
		from |= 1UL << memory_nodes[i];
	from &= ~to;
	pthread_mutex_lock(&clear_refs);
	worked = must(op, syscall(SYS_migrate_pages, 0, 64, &from, &to) >= 0, "migrate_pages");
	pthread_mutex_unlock(&clear_refs);
	if (!worked)
		return false;
	prove_moved(op, before);
	return true;
}

/* fork, and pages that are copied on write */

struct child {
	atomic_uint may_go;
};

static struct child *children;		/* one for each changer */

/* In the child, on some CPU */
static void look_at_all_cells(struct op *op)
{
	struct looker l = {
		.cpu = probe_cpu(hydra_random(&op->random) % nr_probes()), .probe = -1, .random = 1,
	};
	struct sight sight;

	hydra_pin_to_cpu(l.cpu);
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		announce(&op->zone->cell[i]);
		look_at(&l, op->zone, i, op->word, LOOK_CLOSELY, 0, &sight);
	}
}

static void __attribute__((noreturn)) live_as_child(struct op *op)
{
	struct zone *z = op->zone;
	bool is_shared = is_in(z, SHARED_ZONES);

	atomic_store(&mistakes, 0);
	wait_until(&children[op->changer].may_go, 1);
	/* the parent has written meanwhile: that is to be seen only if it is shared */
	for (unsigned int i = op->first; i < op->first + op->count; i++)
		if (is_shared && op->rewrite[0] && z->cell[i].now.access == READ_WRITE)
			z->cell[i].now.contents = new_contents(op, i);
	look_at_all_cells(op);
	/* what the child writes the parent is not to see */
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &z->cell[i].now;

		if (is_shared || now->access != READ_WRITE)
			continue;
		now->contents = contents_by(BY_CHILD, op->number, i);
		now->maybe_zero = false;
		fill_page(address(z, i), now->contents);
	}
	look_at_all_cells(op);
	_exit(!!atomic_load(&mistakes));
}

static bool make_child(struct op *op)
{
	pid_t child;

	atomic_store(&children[op->changer].may_go, 0);
	child = fork();
	if (!child)
		live_as_child(op);
	op->note[0] = child;
	op->note[1] = frame(start(op));
	return must(op, child > 0, "fork");
}

static void end_child(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };
	int status;

	if (op->note[1] && frame(start(op)) && frame(start(op)) != op->note[1])
		proved(op);
	raise_to(&children[op->changer].may_go, 1);
	status = hydra_wait_child(op->note[0]);
	if (status)
		mistake(op_id(op), &l, start(op), "the child: expected to see what was there at the fork, got %s %d",
			status > 128 ? "signal" : "mistakes, see above, and exit status",
			status > 128 ? status - 128 : status);
}

/* userfaultfd */

static bool set_write_protection(struct op *op, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)start(op), length(op) },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	if (!must(op, !ioctl(userfault_fd, UFFDIO_WRITEPROTECT, &wp), "UFFDIO_WRITEPROTECT"))
		return false;
	for_cells(op, c)
		c->now.access = on ? WRITE_IS_BUS : READ_WRITE;
	return true;
}

static bool write_protect(struct op *op)
{
	return set_write_protection(op, true);
}

static bool write_unprotect(struct op *op)
{
	return set_write_protection(op, false);
}

static bool copy_in(struct op *op)
{
	char page[PAGE_SIZE] = "";

	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct uffdio_copy copy = {
			.dst = (uintptr_t)address(op->zone, i),
			.src = (uintptr_t)page, .len = PAGE_SIZE,
		};
		struct state *now = &op->zone->cell[i].now;

		now->contents = new_contents(op, i);
		fill_page(page, now->contents);
		if (!must(op, !ioctl(userfault_fd, UFFDIO_COPY, &copy), "UFFDIO_COPY"))
			return false;
		now->access = READ_WRITE;
	}
	return true;
}

static bool zero_in(struct op *op)
{
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct uffdio_zeropage zero = {
			.range = { (uintptr_t)address(op->zone, i), PAGE_SIZE },
		};

		if (!must(op, !ioctl(userfault_fd, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE"))
			return false;
		op->zone->cell[i].now.access = READ_WRITE;
		becomes_zero(&op->zone->cell[i]);
	}
	return true;
}

static bool move_page_in(struct op *op, unsigned int from, unsigned int to)
{
	struct uffdio_move arg = {
		.dst = (uintptr_t)address(op->zone, to),
		.src = (uintptr_t)address(op->zone, from), .len = PAGE_SIZE,
	};

	for (int tries = 0; tries < 10; tries++) {
		if (!ioctl(userfault_fd, UFFDIO_MOVE, &arg))
			return true;
		/* somebody else uses the page just now */
		if (!must(op, errno == EBUSY || errno == EAGAIN, "UFFDIO_MOVE"))
			return false;
	}
	return false;
}

static bool move_in(struct op *op)
{
	struct zone *z = op->zone;
	bool moved = false;

	if (!must(op, map_cells(z, op->other, op->count), "mmap"))
		return false;
	for (unsigned int i = 0; i < op->count; i++) {
		struct state *from = &z->cell[op->first + i].now, *to = &z->cell[op->other + i].now;

		if (!move_page_in(op, op->first + i, op->other + i))
			continue;
		*to = (struct state){ READ_WRITE, false, from->contents, to->backing };
		*from = (struct state){ ALL_IS_BUS, false, 0, from->backing };
		moved = true;
	}
	return moved;
}

/* Writes by way of the kernel, which finds the pages on its own */

static bool write_from_elsewhere(struct op *op)
{
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &op->zone->cell[i].now;
		long written;

		pthread_mutex_lock(&helper_lock);
		now->contents = new_contents(op, i);
		now->maybe_zero = false;
		fill_page(helper->page, now->contents);
		helper->from = (struct iovec){ helper->page, PAGE_SIZE };
		helper->to = (struct iovec){ address(op->zone, i), PAGE_SIZE };
		if (i % 2)
			written = process_vm_writev(self, &helper->from, 1, &helper->to, 1, 0);
		else
			written = by_helper(SYS_process_vm_writev, self, (long)&helper->from, 1,
					    (long)&helper->to, 1, 0);
		pthread_mutex_unlock(&helper_lock);
		if (!must(op, written == PAGE_SIZE, "process_vm_writev"))
			return false;
	}
	return true;
}

static bool read_from_disk(struct op *op)
{
	char page[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE))) = "";
	off_t offset = op->changer * PAGE_SIZE;

	if (op->count > 2)
		op->count = 2;
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &op->zone->cell[i].now;

		now->contents = new_contents(op, i);
		now->maybe_zero = false;
		fill_page(page, now->contents);
		if (!must(op, pwrite(source_fd, page, PAGE_SIZE, offset) == PAGE_SIZE,
			  "writing past the page cache") ||
		    !must(op, pread(source_fd, address(op->zone, i), PAGE_SIZE, offset) == PAGE_SIZE,
			  "reading past the page cache"))
			return false;
	}
	return true;
}

/* A pipe keeps the page that the address space drops */
static bool splice_and_drop(struct op *op)
{
	struct iovec page = { address(op->zone, op->first), PAGE_SIZE };
	struct cell *c = &op->zone->cell[op->first];
	uint64_t words[PAGE_SIZE / 8] = { 0 }, expected, got;
	struct looker l = { .cpu = sched_getcpu() };
	int ends[2];
	bool done;

	op->count = 1;
	if (!must(op, !pipe2(ends, O_CLOEXEC), "pipe"))
		return false;
	expected = pattern_word(c->now.contents, op->word);
	done = must(op, vmsplice(ends[1], &page, 1, 0) == PAGE_SIZE, "vmsplice");
	if (done) {
		bool maybe_zero = c->now.maybe_zero;

		done = drop(op) &&
		       must(op, read(ends[0], words, PAGE_SIZE) == PAGE_SIZE, "reading the pipe");
		got = words[pattern_offset(op->word) / 8];
		if (done && got != expected && (got || !maybe_zero))
			mistake(op_id(op), &l, page.iov_base, "in the pipe: expected %#lx, got %#lx",
				expected, got);
	}
	close(ends[0]);
	close(ends[1]);
	return done;
}

/* What Linux learns of writes */

static bool must_be_written(const struct op *op, unsigned int sample)
{
	return sample - op->first < op->count && op->zone != &zones[MERGEABLE] &&
	       op->zone->cell[sample].now.access == READ_WRITE;
}

/*
 * Linux 6.12 does not track a page that is on its way when the bits are cleared:
 * clear_refs leaves its migration entry writable, and the page comes back so. It
 * moves pages for more than those who ask for it, such as for a huge page.
 */
static uint64_t pages_migrated(void)
{
	return hydra_vmstat("pgmigrate_success") + hydra_vmstat("pgmigrate_fail");
}

static bool clear_soft_dirty(struct op *op)
{
	op->rewrite[0] = false;
	pthread_mutex_lock(&clear_refs);
	op->note[1] = pages_migrated();
	if (!must(op, !hydra_write_file("/proc/self/clear_refs", "4"), "clear_refs")) {
		pthread_mutex_unlock(&clear_refs);
		return false;
	}
	op->note[0] = !(pagemap(start(op)) & SOFT_DIRTY);
	return true;
}

static void was_soft_dirtied(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };

	for (int i = 0; i < SAMPLES; i++) {
		char *addr = address(op->zone, op->sample[i]);

		if (must_be_written(op, op->sample[i]) && !(pagemap(addr) & SOFT_DIRTY) &&
		    pages_migrated() == op->note[1])
			mistake(op_id(op), &l, addr, "soft-dirty: expected yes, since all CPUs have written it, got no");
	}
	pthread_mutex_unlock(&clear_refs);
	if (op->note[0] && pagemap(start(op)) & SOFT_DIRTY)
		proved(op);
}

static bool write_back(struct op *op)
{
	return must(op, !msync(start(op), length(op), MS_SYNC), "msync");
}

static void is_on_disk(struct op *op)
{
	uint64_t words[PAGE_SIZE / 8] __attribute__((aligned(PAGE_SIZE)));
	struct looker l = { .cpu = sched_getcpu() };

	/* which was done in the first half */
	op->half = 0;
	if (!must(op, !msync(start(op), length(op), MS_SYNC), "msync"))
		return;
	for (int i = 0; i < SAMPLES; i++) {
		const struct cell *c = &op->zone->cell[op->sample[i]];

		if (!must_be_written(op, op->sample[i]))
			continue;
		if (!must(op, pread(op->zone->disk, words, PAGE_SIZE,
				    c->now.backing * op->zone->step) == PAGE_SIZE,
			  "reading past the page cache"))
			return;
		for (unsigned int p = 0; p < nr_probes(); p++) {
			uint64_t got = words[stamp_offset(p) / 8];

			if (got != stamp(op, p))
				mistake(op_id(op), &l, address(op->zone, op->sample[i]), "on disk: expected %#lx, which CPU %d has written, got %#lx",
					stamp(op, p), probe_cpu(p), got);
		}
		proved(op);
	}
	op->half = 1;
}

/* Hydra off and on */

static bool is_active(void)
{
	char text[16384];

	return hydra_read_file("/proc/self/hydra", text, sizeof(text)) > 0 &&
	       strstr(text, "\nactive 1\n");
}

static bool switch_off(struct op *op)
{
	pthread_mutex_lock(&switching);
	if (!must(op, !hydra_off(), "switching off") || !must(op, !is_active(), "being off")) {
		pthread_mutex_unlock(&switching);
		return false;
	}
	return true;
}

static void switch_on(struct op *op)
{
	if (must(op, !hydra_write_policy(self, run.policy), "switching on") &&
	    must(op, is_active(), "being on"))
		proved(op);
	pthread_mutex_unlock(&switching);
}

/* All of them */

#define SMALL_PRIVATE	(IN(ANONYMOUS) | IN(LONELY))
#define FILES		(IN(MEMFD) | IN(SHARED_FILE) | IN(HUGE_MEMFD) | IN(HUGETLB_SHARED))
#define HUGETLB		(IN(HUGETLB_PRIVATE) | IN(HUGETLB_SHARED))
#define ALL		(IN(ZONES) - 1)
#define PROTECTABLE	(ALL & ~IN(USERFAULT))
#define WRITTEN		(PROTECTABLE & ~IN(MERGEABLE))

enum { MAP, UNPROTECT, ATTACH, DROP, COPY_IN, WRITE_PROTECT, WRITE_UNPROTECT };

struct kind kinds[] = {
	[MAP] = { "MAP_FIXED over it", ALL & ~(IN(SYSV) | IN(BREAK)), NOTHING, 0, 8, map_anew },
	[UNPROTECT] = { "mprotect to read and write", PROTECTABLE, MAPPED, 0, 4, permit },
	[ATTACH] = { "shmat over it", IN(SYSV), NOTHING, 0, 2, map_anew },
	[DROP] = { "MADV_DONTNEED", ALL, MAPPED, 0, 6, drop },
	[COPY_IN] = { "UFFDIO_COPY", IN(USERFAULT), MISSING, 0, 3, copy_in },
	[WRITE_PROTECT] = { "UFFDIO_WRITEPROTECT", IN(USERFAULT), WRITABLE, 0, 3, write_protect },
	[WRITE_UNPROTECT] = { "UFFDIO_WRITEPROTECT off", IN(USERFAULT), PROTECTED, 0, 2,
			      write_unprotect },
	{ "UFFDIO_ZEROPAGE", IN(USERFAULT), MISSING, 0, 2, zero_in },
	{ "UFFDIO_MOVE", IN(USERFAULT), WRITABLE, MOVES, 3, move_in },
	{ "munmap", ALL & ~IN(BREAK), MAPPED, 0, 8, unmap },
	{ "munmap of a part of a huge page", IN(HUGE) | IN(HUGE_MEMFD), READABLE, PART | QUIET, 2, unmap },
	{ "mprotect to nothing", PROTECTABLE, MAPPED, 0, 6, forbid },
	{ "mprotect to read", PROTECTABLE, MAPPED, 0, 8, forbid_writing },
	{ "mprotect of a part of a huge page", IN(HUGE) | IN(HUGE_MEMFD), READABLE, PART | QUIET, 2,
	  forbid_writing },
	{ "pkey_mprotect", SMALL_PRIVATE | FILES | IN(HUGE) | IN(BREAK), MAPPED, 0, 2, lock_with_key,
	  unlock_with_key },
	{ "mremap", SMALL_PRIVATE | FILES | IN(PRIVATE_FILE) | IN(HUGE) | IN(HUGETLB_PRIVATE), MAPPED,
	  MOVES, 6, move },
	{ "mremap with MREMAP_DONTUNMAP", SMALL_PRIVATE | IN(HUGE), MAPPED, MOVES, 3, move_and_stay },
	{ "remap_file_pages", IN(MEMFD) | IN(SHARED_FILE), MAPPED,
	  SEVERAL | MIRRORS, 2, exchange_pages_of_file },
	{ "MADV_FREE", SMALL_PRIVATE | IN(HUGE) | IN(BREAK), MAPPED, QUIET, 3, drop_lazily },
	{ "MADV_REMOVE", FILES | IN(SYSV), MAPPED, 0, 3, remove_pages },
	{ "hole punched", FILES, NOTHING, 0, 3, punch_hole },
	{ "ftruncate", FILES, NOTHING, WHOLE, 2, cut_file, lengthen_file },
	{ "brk", IN(BREAK), NOTHING, WHOLE, 2, shrink_heap, grow_heap },
	{ "shmdt", IN(SYSV), MAPPED, 0, 2, detach },
	{ "MADV_PAGEOUT", ALL & ~HUGETLB, MAPPED, QUIET, 4, page_out },
	{ "process_madvise from elsewhere", ALL & ~HUGETLB, MAPPED, QUIET, 3, page_out_from_elsewhere },
	{ "MADV_COLD", SMALL_PRIVATE | IN(MEMFD) | IN(SHARED_FILE) | IN(SYSV) | IN(BREAK), WRITABLE,
	  QUIET | UNSEEN, 3, make_cold, was_used },
	{ "MADV_COLLAPSE", IN(HUGE) | IN(HUGE_MEMFD), WRITABLE, ALIGNED | QUIET, 4, collapse },
	{ "collapse by khugepaged", IN(HUGE), NOTHING, ALIGNED | QUIET, 1, make_small_pages,
	  await_khugepaged },
	{ "merge by KSM", IN(MERGEABLE), WRITABLE, SEVERAL | QUIET, 1, write_twins, merge },
	{ "MADV_UNMERGEABLE", IN(MERGEABLE), WRITABLE, SEVERAL | QUIET, 1, write_and_merge_twins,
	  unmerge },
	{ "move_pages", ALL, MAPPED, QUIET, 4, migrate_pages_of_cells },
	{ "mbind", ALL, MAPPED, QUIET, 3, bind_to_node },
	{ "migrate_pages", ALL, MAPPED, QUIET, 1, migrate_everything },
	{ "fork", ALL & ~IN(USERFAULT), MAPPED, QUIET, 3, make_child, end_child },
	{ "process_vm_writev", WRITTEN, WRITABLE, 0, 3, write_from_elsewhere },
	{ "read with O_DIRECT", WRITTEN, WRITABLE, 0, 3, read_from_disk },
	{ "vmsplice, then MADV_DONTNEED", SMALL_PRIVATE | IN(BREAK) | IN(HUGE), READABLE, 0, 2,
	  splice_and_drop },
	{ "soft-dirty bits cleared", SMALL_PRIVATE | IN(BREAK) | IN(HUGE) | IN(MEMFD) |
	  IN(PRIVATE_FILE) | IN(SHARED_FILE) | IN(SYSV), WRITABLE, QUIET | UNSEEN, 2, clear_soft_dirty,
	  was_soft_dirtied },
	{ "msync", IN(SHARED_FILE), WRITABLE, QUIET, 2, write_back, is_on_disk },
	{ "Hydra switched off and on", ALL, NOTHING, QUIET | HYDRA_ONLY, 1, switch_off, switch_on },
};

const unsigned int nr_kinds = ARRAY_SIZE(kinds);

bool fits(const struct cell *c, enum needs needs)
{
	switch (needs) {
	case NOTHING:
		return true;
	case MAPPED:
		return c->now.access != HOLE;
	case READABLE:
		return may_read(c->now.access);
	case WRITABLE:
		return c->now.access == READ_WRITE;
	case PROTECTED:
		return c->now.access == WRITE_IS_BUS;
	case MISSING:
		return c->now.access == ALL_IS_BUS;
	}
	return false;
}

struct kind *repair(const struct zone *z, const struct cell *c, enum needs needs)
{
	if (c->now.access == HOLE)
		return &kinds[z == &zones[SYSV] ? ATTACH : MAP];
	if (z != &zones[USERFAULT])
		return &kinds[UNPROTECT];
	if (needs == MISSING)
		return &kinds[DROP];
	if (c->now.access == ALL_IS_BUS)
		return &kinds[COPY_IN];
	return &kinds[c->now.access == WRITE_IS_BUS ? WRITE_UNPROTECT : WRITE_PROTECT];
}

static void *shared(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

const char *prepare_operations(void)
{
	char path[256];
	pid_t child;

	self = getpid();
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap_fd < 0)
		return "no /proc/self/pagemap (CONFIG_PROC_PAGE_MONITOR)";
	idle_fd = open("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_CLOEXEC);
	if (idle_fd < 0)
		return "no /sys/kernel/mm/page_idle (CONFIG_IDLE_PAGE_TRACKING)";
	snprintf(path, sizeof(path), "%s/source", run.directory);
	source_fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	unlink(path);
	if (source_fd < 0)
		return "no file that can be read past the page cache";
	for (int node = 0; node <= numa_max_node() && node < 64; node++)
		if (numa_node_size64(node, NULL) > 0)
			memory_nodes[nr_memory_nodes++] = node;
	key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
	for (struct kind *k = kinds; k < kinds + nr_kinds; k++) {
		if (k->begin == lock_with_key && key < 0)
			k->unavailable = "this CPU has no protection keys";
		if (k->flags & HYDRA_ONLY && !run.hydra)
			k->unavailable = "the policy is linux";
	}
	children = shared(run.changers * sizeof(*children));
	helper = shared(sizeof(*helper));
	if (!children || !helper)
		return "no shared memory";
	atomic_store(&helper->answered, -1);
	child = fork();
	if (!child)
		help(self);
	if (child < 0)
		return "no helper process";
	wait_until(&helper->answered, 0);
	forget_segments();
	return NULL;
}
