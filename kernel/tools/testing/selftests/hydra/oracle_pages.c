// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations that exchange page frames under the same address: reclaim, huge
 * pages, pages merged, pages moved to other nodes.
 */
#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oracle_operations.h"

#define KSM		"/sys/kernel/mm/ksm/"
#define KHUGEPAGED	"/sys/kernel/mm/transparent_hugepage/khugepaged/"
#define TRIES		200	/* times 10 ms, for threads of the kernel to act */

static int idle_fd;
/* The nodes with memory, by Linux's numbers */
static int memory_nodes[HYDRA_MAX_NODES];
static unsigned int nr_memory_nodes;

static pthread_mutex_t merging = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t collapsing = PTHREAD_MUTEX_INITIALIZER;

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

bool page_out(struct op *op)
{
	return advise_pageout(op, false);
}

bool page_out_from_elsewhere(struct op *op)
{
	return advise_pageout(op, true);
}

/*
 * As if the cgroup of the process were short of memory: Linux reclaims pages of the
 * cgroup's lists, wherever mapped, and fails with EAGAIN if too few pages were found.
 */
bool reclaim_from_cgroup(struct op *op)
{
	int err = hydra_write_number(run.group, "memory.reclaim", "%s", "1M");

	errno = -err;
	if (!must(op, !err || err == -EAGAIN, "memory.reclaim"))
		return false;
	if (!err)
		proved(op);
	return true;
}

/* Whether Linux considers a frame unused since the frame was marked idle */
static bool is_idle(uint64_t pfn)
{
	uint64_t bits = 0;

	if (pread(idle_fd, &bits, 8, pfn / 64 * 8) != 8)
		return false;
	return bits >> pfn % 64 & 1;
}

/*
 * Mark a page as idle. If a CPU then uses the page, Linux must see the use. Linux clears
 * the accessed bits without a flush; mprotect() flushes.
 */
bool make_cold(struct op *op)
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

void was_used(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };
	uint64_t pfn = op->note[0];

	/* the first sample is the first cell, which all probes have read */
	if (!pfn || frame(start(op)) != pfn)
		return;
	proved(op);
	/*
	 * Reclaim of the memory cgroup, another operation, clears the accessed bit first
	 * (folio_referenced_one()) and the mark a moment later (folio_referenced()).
	 */
	for (int tries = 0; is_idle(pfn) && tries < 50; tries++)
		usleep(10000);
	if (is_idle(pfn))
		mistake(op_id(op), &l, start(op), "accessed: expected yes, since all CPUs have read it, got no");
}

/* Huge pages */

bool collapse(struct op *op)
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

bool make_small_pages(struct op *op)
{
	op->count = op->zone->huge;
	op->rewrite[0] = true;
	return map_anew(op) &&
	       must(op, !madvise(start(op), length(op), MADV_NOHUGEPAGE), "MADV_NOHUGEPAGE");
}

void await_khugepaged(struct op *op)
{
	pthread_mutex_lock(&collapsing);
	must(op, !madvise(start(op), length(op), MADV_HUGEPAGE), "MADV_HUGEPAGE");
	/* khugepaged sleeps for hours otherwise. */
	must(op, !hydra_write_file(KHUGEPAGED "scan_sleep_millisecs", "1"), "waking khugepaged");
	for (int i = 0; i < TRIES && !is_huge(start(op)); i++)
		usleep(10000);
	must(op, !hydra_write_file(KHUGEPAGED "scan_sleep_millisecs", "3600000"),
	     "stopping khugepaged");
	if (is_huge(start(op)))
		proved(op);
	pthread_mutex_unlock(&collapsing);
}

/* Pages with the same contents */

bool write_twins(struct op *op)
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
	for (int i = 0; i < TRIES && !are_merged(op); i++)
		usleep(10000);
	must(op, !hydra_write_file(KSM "run", "0"), "stopping KSM");
	pthread_mutex_unlock(&merging);
}

void merge(struct op *op)
{
	await_merge(op);
	if (are_merged(op))
		proved(op);
}

bool write_and_merge_twins(struct op *op)
{
	write_twins(op);
	await_merge(op);
	return true;
}

void unmerge(struct op *op)
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

bool migrate_pages_of_cells(struct op *op)
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

bool bind_to_node(struct op *op)
{
	unsigned long mask = 1UL << random_memory_node(op);
	uint64_t before = frame(start(op));

	if (!must(op, !mbind(start(op), length(op), MPOL_PREFERRED, &mask, 64, MPOL_MF_MOVE), "mbind") ||
	    !must(op, !mbind(start(op), length(op), MPOL_DEFAULT, NULL, 0, 0), "mbind"))
		return false;
	prove_moved(op, before);
	return true;
}

bool open_idle_marks(void)
{
	idle_fd = open("/sys/kernel/mm/page_idle/bitmap", O_RDWR | O_CLOEXEC);
	return idle_fd >= 0;
}

const char *prepare_pages(void)
{
	for (int node = 0; node <= numa_max_node() && node < 64; node++)
		if (numa_node_size64(node, NULL) > 0)
			memory_nodes[nr_memory_nodes++] = node;
	for (struct kind *k = kinds; k < kinds + nr_kinds; k++)
		if (k->flags & NEEDS_NODES && nr_memory_nodes < 2)
			k->unavailable = "memory on one node only";
	return NULL;
}
