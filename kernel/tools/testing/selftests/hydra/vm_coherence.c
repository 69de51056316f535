// SPDX-License-Identifier: GPL-2.0-only
/*
 * vCPUs on all nodes add 1 to the words of some pages all the time, while the host changes
 * what is behind the pages. At the end each word has been raised as often as the vCPUs say: a
 * write through an entry of an old page, in a tree or a TLB, would be missing.
 */
#include <errno.h>
#include <numaif.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "linux_uapi.h"
#include "vm_util.h"

#define CHANGES	8
#define PAGES	32UL
#define LIMIT	120
#define KSM	"/sys/kernel/mm/ksm/"

FIXTURE(vm_coherence) {
	struct vm vm;
	struct vm_writer writers[HYDRA_MAX_NODES];
	int last;
};

FIXTURE_SETUP(vm_coherence)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_coherence)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* While vCPUs write, change something so many times. Between two changes each vCPU writes. */
static void change(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self,
		   void (*once)(struct __test_metadata *_metadata,
				FIXTURE_DATA(vm_coherence) *self, int i))
{
	unsigned long written;

	ASSERT_EQ(0, vm_writers_begin(&self->vm, self->writers, PAGES, 1));
	for (int i = 0; i < CHANGES; i++) {
		once(_metadata, self, i);
		for (int j = 0; j < self->vm.nr; j++)
			vm_await_writer(&self->writers[j]);
	}
	ASSERT_EQ(0, vm_writers_end(&self->vm, self->writers));
	written = vm_written(&self->vm, self->writers);
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_EQ(written, *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
	}
}

static void move(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self, int i)
{
	unsigned long mask = 1UL << hydra_node_id(i % (self->last + 1));

	ASSERT_EQ(0, mbind(self->vm.region, PAGES * PAGE_SIZE, MPOL_BIND, &mask, 64,
			   MPOL_MF_MOVE));
}

TEST_F_TIMEOUT(vm_coherence, pages_moved_to_other_nodes, LIMIT)
{
	change(_metadata, self, move);
}

static void protect(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self, int i)
{
	unsigned int before[PAGES];

	ASSERT_EQ(0, mprotect(self->vm.region, PAGES * PAGE_SIZE, PROT_READ));
	for (unsigned long page = 0; page < PAGES; page++)
		before[page] = *vm_word(&self->vm, page);
	usleep(1000);
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_EQ(before[page], *vm_word(&self->vm, page))
			TH_LOG("page %lu is written, and protected", page);
	}
	ASSERT_EQ(0, mprotect(self->vm.region, PAGES * PAGE_SIZE, PROT_READ | PROT_WRITE));
}

TEST_F_TIMEOUT(vm_coherence, pages_protected_for_a_time, LIMIT)
{
	change(_metadata, self, protect);
}

static unsigned long sum(const struct vm *vm)
{
	unsigned long all = 0;

	for (unsigned long page = 0; page < PAGES; page++)
		all += *vm_word(vm, page);
	return all;
}

/* The child keeps the old pages, in which no write may appear any more. */
static void fork_and_write(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self,
			   int i)
{
	pid_t child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child) {
		unsigned long before;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		before = sum(&self->vm);
		usleep(3000);
		_exit(sum(&self->vm) != before);
	}
	for (unsigned long page = 0; page < PAGES; page++)
		vm_word(&self->vm, page)[1] = i;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status) TH_LOG("a page of the child was written");
}

TEST_F_TIMEOUT(vm_coherence, pages_copied_on_write, LIMIT)
{
	change(_metadata, self, fork_and_write);
}

static void swap_out(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self, int i)
{
	ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_PAGEOUT));
}

TEST_F_TIMEOUT(vm_coherence, pages_swapped_out, LIMIT)
{
	long before = hydra_vmstat("pswpout");
	int disk = hydra_swap_on("64M");

	ASSERT_LE(0, disk) TH_LOG("no swap on a RAM disk (CONFIG_ZRAM, CONFIG_SWAP; mkswap)");
	change(_metadata, self, swap_out);
	EXPECT_LT(before, hydra_vmstat("pswpout"));
	EXPECT_EQ(0, hydra_swap_off(disk));
}

/* A huge page from the small ones, which falls apart when its last page is dropped */
static void collapse_and_split(struct __test_metadata *_metadata,
			       FIXTURE_DATA(vm_coherence) *self, int i)
{
	int ret;

	for (int tries = 0; tries < 100; tries++) {
		ret = madvise(self->vm.region, TABLE_SIZE, MADV_COLLAPSE);
		if (!ret || (errno != EAGAIN && errno != EBUSY))
			break;
		usleep(1000);
	}
	ASSERT_EQ(0, ret);
	for (int j = 0; j < self->vm.nr; j++)
		vm_await_writer(&self->writers[j]);
	ASSERT_EQ(0, madvise(self->vm.region + TABLE_SIZE - PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED));
	*vm_word(&self->vm, TABLE_PAGES - 1) = i;
}

TEST_F_TIMEOUT(vm_coherence, huge_page_collapsed_and_split, LIMIT)
{
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	ASSERT_EQ(0, madvise(self->vm.region, TABLE_SIZE, MADV_HUGEPAGE));
	change(_metadata, self, collapse_and_split);
}

/* A log begins, and ends: KVM protects and splits in all trees. */
static void log_and_end(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self,
			int i)
{
	unsigned long bitmap[VM_REGION_PAGES / 64];

	vm_log(&self->vm, true);
	vm_logged(&self->vm, bitmap);
	vm_log(&self->vm, false);
}

TEST_F_TIMEOUT(vm_coherence, memslot_with_other_flags, LIMIT)
{
	change(_metadata, self, log_and_end);
}

/* Let KSM look at all pages so many times. */
static void scan(struct __test_metadata *_metadata, int times)
{
	long before = hydra_number(KSM "full_scans", NULL);

	ASSERT_EQ(0, hydra_write_file(KSM "run", "1"));
	while (hydra_number(KSM "full_scans", NULL) < before + times)
		usleep(1000);
	ASSERT_EQ(0, hydra_write_file(KSM "run", "0"));
}

/* Between two passes the pages have the same contents. Each node writes merged pages. */
TEST_F_TIMEOUT(vm_coherence, equal_pages_merged, LIMIT)
{
	unsigned int nr = 0;

	ASSERT_EQ(0, hydra_write_file(KSM "smart_scan", "0"));
	ASSERT_EQ(0, hydra_write_file(KSM "pages_to_scan", "10000"));
	ASSERT_EQ(0, hydra_write_file(KSM "sleep_millisecs", "1"));
	ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_MERGEABLE));
	for (int round = 0; round < 2; round++)
		for (int node = self->last; node >= 0; node--) {
			ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, PAGES));
			nr++;
			scan(_metadata, 3);
			EXPECT_LE(PAGES - 1, hydra_number(KSM "pages_sharing", NULL));
			for (unsigned long page = 0; page < PAGES; page++) {
				ASSERT_EQ(nr, *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
			}
		}
	ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_UNMERGEABLE));
}

/* The memslot goes, and comes again with other memory behind it. */
TEST_F_TIMEOUT(vm_coherence, memslot_with_other_memory, LIMIT)
{
	const size_t half = VM_REGION_PAGES / 2 * PAGE_SIZE;
	struct kvm_vm *kvm = self->vm.kvm;
	unsigned int nr = self->last + 1;

	for (int round = 0; round < 4; round++) {
		vm_set_user_memory_region(kvm, VM_SLOT, 0, VM_REGION, 0, NULL);
		vm_set_user_memory_region(kvm, VM_SLOT, 0, VM_REGION, half,
					  self->vm.region + round % 2 * half);
		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, PAGES));
		}
		for (unsigned long page = 0; page < PAGES; page++) {
			EXPECT_EQ((round / 2 + 1) * nr, *vm_word(&self->vm, page + round % 2 * VM_REGION_PAGES / 2));
			EXPECT_EQ((round + 1) / 2 * nr, *vm_word(&self->vm, page + (round + 1) % 2 * VM_REGION_PAGES / 2));
		}
	}
}

/* Put a half of the region at a place, which is as far from the next one as the region is long. */
static void put_half(struct vm *vm, int half, int place)
{
	vm_set_user_memory_region(vm->kvm, VM_SLOT + half, 0,
				  VM_REGION + place * VM_REGION_PAGES * PAGE_SIZE,
				  VM_REGION_PAGES / 2 * PAGE_SIZE,
				  vm->region + half * VM_REGION_PAGES / 2 * PAGE_SIZE);
}

/*
 * Two memslots, and three places. One memslot moves to the free place, the other one to where
 * the first was. A tree with an entry from before would lead a guest to the other half.
 */
static void move_memslots(struct __test_metadata *_metadata, FIXTURE_DATA(vm_coherence) *self)
{
	struct vm *vm = &self->vm;
	int place[2] = { 0, 1 }, free = 2;

	vm_set_user_memory_region(vm->kvm, VM_SLOT, 0, VM_REGION, 0, NULL);
	put_half(vm, 0, place[0]);
	put_half(vm, 1, place[1]);
	for (unsigned int round = 1; round <= CHANGES; round++) {
		int left = place[0];

		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, vm_run(vm, node, node, place[0] * VM_REGION_PAGES, PAGES));
			ASSERT_EQ(0, vm_run(vm, node, node, place[1] * VM_REGION_PAGES, 2 * PAGES));
		}
		for (unsigned long page = 0; page < VM_REGION_PAGES; page++) {
			bool used = page % (VM_REGION_PAGES / 2) <
				    (page < VM_REGION_PAGES / 2 ? PAGES : 2 * PAGES);

			ASSERT_EQ(used ? round * (self->last + 1) : 0, *vm_word(vm, page))
				TH_LOG("round %u, page %lu", round, page);
		}
		ASSERT_TRUE(vm_consistent());
		put_half(vm, 0, free);
		put_half(vm, 1, left);
		place[0] = free;
		free = place[1];
		place[1] = left;
	}
}

TEST_F_TIMEOUT(vm_coherence, memslots_that_move, LIMIT)
{
	move_memslots(_metadata, self);
}

/* As above, but KVM takes only the entries of the memslot away, not all trees. */
TEST_F_TIMEOUT(vm_coherence, memslots_that_move_alone, LIMIT)
{
	vm_enable_cap(self->vm.kvm, KVM_CAP_DISABLE_QUIRKS2, KVM_X86_QUIRK_SLOT_ZAP_ALL);
	move_memslots(_metadata, self);
}

HYDRA_HARNESS_MAIN
