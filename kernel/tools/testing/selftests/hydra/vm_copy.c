// SPDX-License-Identifier: GPL-2.0-only
/*
 * Entries that a tree of nested page tables copies from the trees of other nodes: how many
 * faults they save, and that a copy is never older than its source.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define ROUNDS		10
#define LARGE		512UL	/* pages that the host drops at a time */

FIXTURE(vm_copy) {
	struct vm vm;
	int last;
};

FIXTURE_SETUP(vm_copy)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_NONE));
	ASSERT_EQ(0, vm_make(&self->vm));
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_copy)
{
	if (!self->vm.fd)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

static unsigned int word(const struct vm *vm, unsigned long page)
{
	return *(volatile unsigned int *)(vm->region + page * PAGE_SIZE);
}

/* Each domain after the first one faults once for each window. */
static void count_faults(struct __test_metadata *_metadata, struct vm *vm, int last, int degree)
{
	const unsigned long windows = VM_REGION_PAGES >> degree;
	struct vm_tables tables;
	char text[32];

	snprintf(text, sizeof(text), "prefetch=%d", degree);
	ASSERT_EQ(0, vm_set(text));
	for (int node = 0; node <= last; node++) {
		long before;

		/* The page of the program, the root and the upper tables, and the first window */
		ASSERT_EQ(0, vm_run(vm, node, node, 0, 1));
		before = vm_faults(vm, node);
		ASSERT_LT(0, before);
		ASSERT_EQ(0, vm_run(vm, node, node, 0, VM_REGION_PAGES));
		EXPECT_EQ((node ? windows : VM_REGION_PAGES) - 1, vm_faults(vm, node) - before)
			TH_LOG("node %d, prefetch %d", node, degree);
	}
	EXPECT_EQ(last * (VM_REGION_PAGES - windows), vm_number("copied"));
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (int node = 0; node <= last; node++) {
		EXPECT_EQ(VM_REGION_PAGES + 1, tables.local[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(2 * hydra_nodes(), word(vm, 0));
	for (unsigned long page = 1; page < VM_REGION_PAGES; page++) {
		ASSERT_EQ(hydra_nodes(), word(vm, page)) TH_LOG("page %lu", page);
	}
}

TEST_F(vm_copy, prefetch_0)
{
	count_faults(_metadata, &self->vm, self->last, 0);
}

TEST_F(vm_copy, prefetch_4)
{
	count_faults(_metadata, &self->vm, self->last, 4);
}

TEST_F(vm_copy, prefetch_9)
{
	count_faults(_metadata, &self->vm, self->last, 9);
}

/* The pages that a round of the dirty log reports; the log is cleared. */
static long dirty_pages(struct vm *vm)
{
	static unsigned long bitmap[VM_REGION_PAGES / 64];
	struct kvm_dirty_log log = { .slot = 1, .dirty_bitmap = bitmap };
	long found = 0;

	memset(bitmap, 0, sizeof(bitmap));
	if (ioctl(vm->fd, KVM_GET_DIRTY_LOG, &log))
		return -errno;
	for (unsigned long i = 0; i < VM_REGION_PAGES; i++)
		found += bitmap[i / 64] >> i % 64 & 1;
	return found;
}

/* A write through a copy is in the round's log, as any other. */
TEST_F(vm_copy, copies_in_logged_memory_are_not_writable)
{
	struct kvm_userspace_memory_region region = {
		.slot = 1,
		.flags = KVM_MEM_LOG_DIRTY_PAGES,
		.guest_phys_addr = VM_REGION,
		.memory_size = VM_REGION_PAGES * PAGE_SIZE,
		.userspace_addr = (uintptr_t)self->vm.region,
	};

	ASSERT_EQ(0, ioctl(self->vm.fd, KVM_SET_USER_MEMORY_REGION, &region));
	/* Written, and so writable, in the first tree */
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	for (int node = 1; node <= self->last; node++) {
		long copied = vm_number("copied");

		/* In this round, one page is written, and the others' entries are copied. */
		ASSERT_LE(0, dirty_pages(&self->vm));
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
		ASSERT_EQ(TABLE_PAGES, dirty_pages(&self->vm));
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 1, TABLE_PAGES - 1));
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, 1));
		EXPECT_EQ(TABLE_PAGES - 1, vm_number("copied") - copied);
		EXPECT_EQ(TABLE_PAGES, dirty_pages(&self->vm));
		/* Written through the copies alone */
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, TABLE_PAGES));
		EXPECT_EQ(TABLE_PAGES, dirty_pages(&self->vm)) TH_LOG("node %d", node);
	}
}

static volatile bool stop;

/* Drops the region again and again, on a CPU that has something else to do, too. */
static void *drop_region(void *arg)
{
	struct vm *vm = arg;

	hydra_pin_to_node(0);
	while (!stop)
		for (unsigned long page = 0; page < VM_REGION_PAGES; page += LARGE)
			if (madvise(vm->region + page * PAGE_SIZE, LARGE * PAGE_SIZE,
				    MADV_DONTNEED))
				return "madvise() failed";
	return NULL;
}

struct runner {
	struct vm *vm;
	int node;
};

static void *run_again_and_again(void *arg)
{
	struct runner *r = arg;

	while (!stop)
		if (vm_run(r->vm, r->node, r->node, 0, VM_REGION_PAGES))
			return "the guest failed";
	return NULL;
}

/* No tree keeps a page that the host has dropped while other trees were copied from (T1). */
TEST_F_TIMEOUT(vm_copy, pages_dropped_while_all_nodes_fault, 120)
{
	struct runner runner[HYDRA_MAX_NODES];
	pthread_t thread[HYDRA_MAX_NODES], dropper;
	void *wrong;

	for (int round = 0; round < ROUNDS; round++) {
		stop = false;
		ASSERT_EQ(0, pthread_create(&dropper, NULL, drop_region, &self->vm));
		for (int node = 0; node <= self->last; node++) {
			runner[node] = (struct runner){ &self->vm, node };
			ASSERT_EQ(0, pthread_create(&thread[node], NULL, run_again_and_again,
						    &runner[node]));
		}
		usleep(200000);
		stop = true;
		ASSERT_EQ(0, pthread_join(dropper, &wrong));
		ASSERT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, pthread_join(thread[node], &wrong));
			ASSERT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
		}
		ASSERT_TRUE(vm_consistent());
		/* What each node writes now is in the host's pages. */
		memset(self->vm.region, 0, VM_REGION_PAGES * PAGE_SIZE);
		for (int node = 0; node <= self->last; node++) {
			ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, VM_REGION_PAGES));
		}
		for (unsigned long page = 0; page < VM_REGION_PAGES; page++) {
			ASSERT_EQ(hydra_nodes(), word(&self->vm, page)) TH_LOG("page %lu", page);
		}
	}
}

/* After a fork the host writes, and gets other pages: all trees follow. */
TEST_F(vm_copy, pages_copied_on_write_by_the_host)
{
	pid_t child;
	int status;

	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, TABLE_PAGES));
	}
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		pause();
		_exit(0);
	}
	memset(self->vm.region, 0, TABLE_SIZE);
	for (int node = self->last; node >= 0; node--) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, TABLE_PAGES));
	}
	for (unsigned long page = 0; page < TABLE_PAGES; page++) {
		ASSERT_EQ(hydra_nodes(), word(&self->vm, page)) TH_LOG("page %lu", page);
	}
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
}

/* The last page of one memslot and the first of the next are in one window. */
TEST_F(vm_copy, copies_end_with_the_memslot)
{
	struct kvm_userspace_memory_region half = {
		.slot = 1,
		.guest_phys_addr = VM_REGION,
		.userspace_addr = (uintptr_t)self->vm.region,
	};
	struct vm_tables tables;

	ASSERT_EQ(0, ioctl(self->vm.fd, KVM_SET_USER_MEMORY_REGION, &half));
	half.memory_size = TABLE_SIZE / 2;
	ASSERT_EQ(0, ioctl(self->vm.fd, KVM_SET_USER_MEMORY_REGION, &half));
	half.slot = 2;
	half.guest_phys_addr += TABLE_SIZE / 2;
	half.userspace_addr += TABLE_SIZE / 2;
	ASSERT_EQ(0, ioctl(self->vm.fd, KVM_SET_USER_MEMORY_REGION, &half));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, TABLE_PAGES / 2 - 1, 1));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES / 2 + 1, tables.local[1]);
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, 0, TABLE_PAGES));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES + 1, tables.local[1]);
}

HYDRA_HARNESS_MAIN
