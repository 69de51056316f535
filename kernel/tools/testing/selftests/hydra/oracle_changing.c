// SPDX-License-Identifier: GPL-2.0-only
/*
 * Building blocks of the oracle's operations: reads and writes of cells by the changer,
 * Linux's information about pages, calls from another process.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "oracle_operations.h"

static int pagemap_fd;
pid_t self;

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

void proved(const struct op *op)
{
	atomic_fetch_add(&op->kind->proved, 1);
}

void *shared_memory(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

/* Reads and writes by the changer */

void write_cell(struct op *op, unsigned int cell, uint64_t contents, struct looker *l)
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

uint64_t pagemap(const void *addr)
{
	uint64_t entry = 0;

	if (pread(pagemap_fd, &entry, 8, (uintptr_t)addr / PAGE_SIZE * 8) != 8)
		return 0;
	return entry;
}

uint64_t frame(const void *addr)
{
	uint64_t entry = pagemap(addr);

	return entry & PRESENT ? entry & FRAME : 0;
}

bool is_huge(const void *addr)
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

void prove_moved(struct op *op, uint64_t before)
{
	uint64_t after = frame(start(op));

	if (before && after && before != after)
		proved(op);
}

void drain_lists(void)
{
	int nowhere;

	syscall(SYS_move_pages, 0, 0UL, NULL, &nowhere, NULL, 0);
}

/* The helper: another process, whose calls change the address space of the oracle */

struct helper *helper;
pthread_mutex_t helper_lock = PTHREAD_MUTEX_INITIALIZER;

void wait_until(atomic_uint *word, unsigned int value)
{
	unsigned int now;

	while ((now = atomic_load(word)) != value)
		syscall(SYS_futex, word, FUTEX_WAIT, now, NULL, NULL, 0);
}

void raise_to(atomic_uint *word, unsigned int value)
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

long ask_helper(long nr, const long arg[6])
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

const char *prepare_changing(void)
{
	pid_t child;

	self = getpid();
	pagemap_fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (pagemap_fd < 0)
		return "no /proc/self/pagemap (CONFIG_PROC_PAGE_MONITOR)";
	helper = shared_memory(sizeof(*helper));
	if (!helper)
		return "no shared memory";
	atomic_store(&helper->answered, -1);
	child = fork();
	if (!child)
		help(self);
	if (child < 0)
		return "no helper process";
	wait_until(&helper->answered, 0);
	return NULL;
}
