// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations: every call that can remove or weaken a mapping, and the calls
 * that restore a mapping; the needs and the weight of each operation.
 */
#include "kselftest.h"
#include "oracle_operations.h"

#define SMALL_PRIVATE	(IN(ANONYMOUS) | IN(LONELY))
#define FILES		(IN(MEMFD) | IN(SHARED_FILE) | IN(HUGE_MEMFD) | IN(HUGETLB_SHARED))
#define HUGETLB		(IN(HUGETLB_PRIVATE) | IN(HUGETLB_SHARED))
#define ALL		(IN(ZONES) - 1)
#define PROTECTABLE	(ALL & ~IN(USERFAULT))
#define WRITTEN		(PROTECTABLE & ~IN(MERGEABLE))

enum { MAP, UNPROTECT, DROP, COPY_IN, WRITE_PROTECT, WRITE_UNPROTECT };

struct kind kinds[] = {
	[MAP] = { "MAP_FIXED over it", ALL, NOTHING, 0, 8, map_anew },
	[UNPROTECT] = { "mprotect to read and write", PROTECTABLE, MAPPED, 0, 4, permit },
	[DROP] = { "MADV_DONTNEED", ALL, MAPPED, 0, 6, drop },
	[COPY_IN] = { "UFFDIO_COPY", IN(USERFAULT), MISSING, 0, 3, copy_in },
	[WRITE_PROTECT] = { "UFFDIO_WRITEPROTECT", IN(USERFAULT), WRITABLE, 0, 3, write_protect },
	[WRITE_UNPROTECT] = { "UFFDIO_WRITEPROTECT off", IN(USERFAULT), PROTECTED, 0, 2,
			      write_unprotect },
	{ "UFFDIO_ZEROPAGE", IN(USERFAULT), MISSING, 0, 2, zero_in },
	{ "UFFDIO_MOVE", IN(USERFAULT), WRITABLE, MOVES, 3, move_in },
	{ "munmap", ALL, MAPPED, 0, 8, unmap },
	{ "munmap of a part of a huge page", IN(HUGE) | IN(HUGE_MEMFD), READABLE, PART | QUIET, 2, unmap },
	{ "mprotect to nothing", PROTECTABLE, MAPPED, 0, 6, forbid },
	{ "mprotect to read", PROTECTABLE, MAPPED, 0, 8, forbid_writing },
	{ "mprotect of a part of a huge page", IN(HUGE) | IN(HUGE_MEMFD), READABLE, PART | QUIET, 2,
	  forbid_writing },
	{ "mremap", SMALL_PRIVATE | FILES | IN(PRIVATE_FILE) | IN(HUGE) | IN(HUGETLB_PRIVATE), MAPPED,
	  MOVES, 6, move },
	{ "mremap with MREMAP_DONTUNMAP", SMALL_PRIVATE | IN(HUGE), MAPPED, MOVES, 3, move_and_stay },
	{ "MADV_FREE", SMALL_PRIVATE | IN(HUGE), MAPPED, QUIET, 3, drop_lazily },
	{ "hole punched", FILES, NOTHING, 0, 3, punch_hole },
	{ "ftruncate", FILES, NOTHING, WHOLE, 2, cut_file, lengthen_file },
	{ "MADV_PAGEOUT", ALL & ~HUGETLB, MAPPED, QUIET, 4, page_out },
	{ "process_madvise from elsewhere", ALL & ~HUGETLB, MAPPED, QUIET, 3, page_out_from_elsewhere },
	{ "MADV_COLD", SMALL_PRIVATE | IN(MEMFD) | IN(SHARED_FILE), WRITABLE,
	  QUIET | UNSEEN | NEEDS_IDLE, 3, make_cold, was_used },
	{ "MADV_COLLAPSE", IN(HUGE) | IN(HUGE_MEMFD), WRITABLE, ALIGNED | QUIET, 4, collapse },
	{ "collapse by khugepaged", IN(HUGE), NOTHING, ALIGNED | QUIET, 1, make_small_pages,
	  await_khugepaged },
	{ "merge by KSM", IN(MERGEABLE), WRITABLE, SEVERAL | QUIET, 1, write_twins, merge },
	{ "MADV_UNMERGEABLE", IN(MERGEABLE), WRITABLE, SEVERAL | QUIET, 1, write_and_merge_twins,
	  unmerge },
	{ "move_pages", ALL, MAPPED, QUIET | NEEDS_NODES, 4, migrate_pages_of_cells },
	{ "mbind", ALL, MAPPED, QUIET | NEEDS_NODES, 3, bind_to_node },
	{ "fork", ALL & ~IN(USERFAULT), MAPPED, QUIET, 3, make_child, end_child },
	{ "process_vm_writev", WRITTEN, WRITABLE, 0, 3, write_from_elsewhere },
	{ "read with O_DIRECT", WRITTEN, WRITABLE, 0, 3, read_from_disk },
	{ "soft-dirty bits cleared", SMALL_PRIVATE | IN(HUGE) | IN(MEMFD) |
	  IN(PRIVATE_FILE) | IN(SHARED_FILE), WRITABLE, QUIET | UNSEEN, 2, clear_soft_dirty,
	  was_soft_dirtied },
	{ "msync", IN(SHARED_FILE), WRITABLE, QUIET, 2, write_back, is_on_disk },
	{ "reclaim of the memory cgroup", ALL, NOTHING, QUIET, 1, reclaim_from_cgroup },
	{ "reclaim of replicas", ALL, NOTHING, QUIET | HYDRA_ONLY, 1, reclaim_replicas },
	{ "Hydra switched off and on", ALL, NOTHING, QUIET | HYDRA_ONLY | SWITCHES, 1, switch_off,
	  switch_on },
	{ "Hydra switched on without memory", ALL, NOTHING, QUIET | HYDRA_ONLY | SWITCHES |
	  NEEDS_FAILURES, 1, switch_on_without_memory, switch_on_again },
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
		return &kinds[MAP];
	if (z != &zones[USERFAULT])
		return &kinds[UNPROTECT];
	if (needs == MISSING)
		return &kinds[DROP];
	if (c->now.access == ALL_IS_BUS)
		return &kinds[COPY_IN];
	return &kinds[c->now.access == WRITE_IS_BUS ? WRITE_UNPROTECT : WRITE_PROTECT];
}

const char *prepare_operations(void)
{
	const char *(*prepare[])(void) = {
		prepare_pages, prepare_writes, prepare_processes, prepare_changing,
	};

	for (struct kind *k = kinds; k < kinds + nr_kinds; k++) {
		if (k->flags & NEEDS_FAILURES && !run.failures)
			k->unavailable = "no failing allocations (CONFIG_FAIL_PAGE_ALLOC, CONFIG_FAILSLAB)";
		if (k->flags & NEEDS_IDLE && !open_idle_marks())
			k->unavailable = "no /sys/kernel/mm/page_idle (CONFIG_IDLE_PAGE_TRACKING)";
		if (k->flags & HYDRA_ONLY && !run.hydra)
			k->unavailable = "the policy is linux";
		/* Only the kernel is to return it, and with each split trees stay longer. */
		if (k->flags & SWITCHES && run.wander)
			k->unavailable = "rounds wait until the process returns by itself";
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(prepare); i++) {
		const char *missing = prepare[i]();

		if (missing)
			return missing;
	}
	return NULL;
}
