// SPDX-License-Identifier: GPL-2.0-only
/*
 * Entries that a tree of nested page tables copies from the trees of other nodes: how many
 * faults they save, and that a copy is never older than its source.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "processor.h"
#include "vm_util.h"

#define ROUNDS		4	/* of a test in which the host changes what a vCPU copies */

/*
 * A gigabyte of the guest, which one table maps by huge pages. All are one page of the host, so
 * that the host needs no gigabyte, and all tests read the sum of what all have written.
 */
#define HUGE		(1UL << 30)
#define HUGE_PAGES	512UL
#define HUGE_SLOT	(VM_SLOT + 2)
#define HUGETLB		"/proc/sys/vm/nr_hugepages"

FIXTURE(vm_copy) {
	struct vm vm;
	int last;
	char *huge;
	int file;
	long hugetlb;		/* the number of huge pages that the machine had */
};

FIXTURE_SETUP(vm_copy)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_NONE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_copy)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
	if (self->huge) {
		munmap(self->huge, HUGE);
		close(self->file);
		EXPECT_EQ(0, hydra_write_number(HUGETLB, "", "%ld", self->hugetlb));
	}
}

/*
 * Each domain after the first one faults once for each window. The pages of memslot 0 come
 * before, without copies.
 */
static void count_faults(struct __test_metadata *_metadata, struct vm *vm, int last, int degree)
{
	const unsigned long windows = VM_REGION_PAGES >> degree;
	struct vm_tables tables;
	char text[32];

	ASSERT_EQ(0, vm_set("prefetch=0"));
	for (int node = 0; node <= last; node++)
		ASSERT_EQ(0, vm_run(vm, node, node, 0, 0));
	snprintf(text, sizeof(text), "prefetch=%d", degree);
	ASSERT_EQ(0, vm_set(text));
	for (int node = 0; node <= last; node++) {
		long before;

		/* The upper tables, and the first window */
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
		EXPECT_EQ(VM_REGION_PAGES + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
	}
	EXPECT_EQ(2 * hydra_nodes(), *vm_word(vm, 0));
	for (unsigned long page = 1; page < VM_REGION_PAGES; page++) {
		ASSERT_EQ(hydra_nodes(), *vm_word(vm, page)) TH_LOG("page %lu", page);
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

static int drop(struct vm *vm, unsigned long first, unsigned long pages)
{
	return madvise(vm->region + first * PAGE_SIZE, pages * PAGE_SIZE, MADV_DONTNEED);
}

/* A vCPU of a node that writes one page after another, while the test does other things. */
struct writer {
	struct vm *vm;
	int node;
	unsigned long first, end, apart;
	volatile bool begun;
	pthread_t thread;
};

static void *write_pages(void *arg)
{
	struct writer *w = arg;

	for (unsigned long page = w->first; page < w->end; page += w->apart) {
		int ret = vm_run(w->vm, w->node, w->node, page, 1);

		w->begun = true;
		if (ret)
			return "the guest failed";
	}
	return NULL;
}

static void start(struct __test_metadata *_metadata, struct writer *w)
{
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, write_pages, w));
	while (!w->begun)
		sched_yield();
}

static void end(struct __test_metadata *_metadata, struct writer *w)
{
	void *wrong;

	ASSERT_EQ(0, pthread_join(w->thread, &wrong));
	ASSERT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
}

/*
 * Node 0 has the first half of a table, which the host drops. KVM takes the entries away
 * from the newest tree first, that of the last node. Meanwhile the last node faults page by
 * page in the second half, while the tree of node 0 may have its entries still.
 */
TEST_F_TIMEOUT(vm_copy, neighbours_dropped_during_a_fault, 120)
{
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 1));
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, 1));
	for (int i = 0; i < ROUNDS; i++) {
		struct writer w = { &self->vm, self->last, TABLE_PAGES / 2, TABLE_PAGES, 1 };
		struct vm_tables tables;
		int ret;

		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES / 2));
		start(_metadata, &w);
		ret = drop(&self->vm, 0, TABLE_PAGES / 2);
		end(_metadata, &w);
		ASSERT_EQ(0, ret);
		/* The second half, and memslot 0. A write to another would be lost. */
		ASSERT_EQ(0, vm_read_tables(&tables));
		ASSERT_EQ(TABLE_PAGES / 2 + VM_OWN_PAGES, tables.local[self->last]) TH_LOG("round %d", i);
		ASSERT_EQ(VM_OWN_PAGES, tables.local[0]) TH_LOG("round %d", i);
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES / 2));
		ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, TABLE_PAGES));
		for (unsigned long page = 0; page < TABLE_PAGES / 2; page++) {
			ASSERT_EQ(2, *vm_word(&self->vm, page)) TH_LOG("round %d, page %lu", i, page);
		}
		ASSERT_EQ(0, drop(&self->vm, 0, TABLE_PAGES));
	}
}

static void begin_to_copy(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self)
{
	ASSERT_EQ(0, vm_set("prefetch=1"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 1));
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, 1));
}

/*
 * The last node writes every second page, and copies the others from the tree of node 0, while
 * KVM takes the write permission of one tree after another. Then the first round of the log.
 */
static void begin_to_log(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self)
{
	struct writer w = { &self->vm, self->last, 0, VM_REGION_PAGES, 2 };
	unsigned long bitmap[VM_REGION_PAGES / 64];

	vm_log(&self->vm, false);
	ASSERT_EQ(0, drop(&self->vm, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	start(_metadata, &w);
	vm_log(&self->vm, true);
	end(_metadata, &w);
	vm_logged(&self->vm, bitmap);
}

/* After the first round of the log, each write is in the next one. */
TEST_F_TIMEOUT(vm_copy, copies_in_logged_memory_are_not_writable, 120)
{
	unsigned long bitmap[VM_REGION_PAGES / 64];

	begin_to_copy(_metadata, self);
	for (int i = 0; i < ROUNDS; i++) {
		begin_to_log(_metadata, self);
		ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, VM_REGION_PAGES));
		ASSERT_EQ(VM_REGION_PAGES, vm_logged(&self->vm, bitmap)) TH_LOG("round %d", i);
	}
}

/* The checker sees the copy before a write is missing from the log. */
TEST_F_TIMEOUT(vm_copy, writable_pages_are_in_the_log, 120)
{
	begin_to_copy(_metadata, self);
	for (int i = 0; i < ROUNDS; i++) {
		begin_to_log(_metadata, self);
		ASSERT_TRUE(vm_consistent()) TH_LOG("round %d", i);
	}
}

/*
 * Node 0 and the last node read memory that the guest must not write: by faults without the
 * guest, whose program writes only. The checker looks at the copies.
 */
TEST_F(vm_copy, copies_permit_no_more_than_their_source)
{
	struct vm_tables tables;

	vm_set_user_memory_region(self->vm.kvm, VM_SLOT, 0, VM_REGION, 0, NULL);
	vm_set_user_memory_region(self->vm.kvm, VM_SLOT, KVM_MEM_READONLY, VM_REGION, TABLE_SIZE,
				  self->vm.region);
	vm_pin_to_node(0);
	ASSERT_EQ(0, vm_prefault(&self->vm, 0, 0, TABLE_PAGES));
	vm_pin_to_node(self->last);
	ASSERT_EQ(0, vm_prefault(&self->vm, self->last, 0, 1));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES, tables.local[0]);
	EXPECT_EQ(TABLE_PAGES, tables.local[self->last]);
	EXPECT_TRUE(vm_consistent());
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
		/* A test that fails must not leave a child, which keeps the VM. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	memset(self->vm.region, 0, TABLE_SIZE);
	for (int node = self->last; node >= 0; node--) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, TABLE_PAGES));
	}
	for (unsigned long page = 0; page < TABLE_PAGES; page++) {
		ASSERT_EQ(hydra_nodes(), *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
	}
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
}

/* Under "eager" the faults of one node are all that there are. */
static void check_eager(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self, int writer,
			unsigned long pages)
{
	struct vm_tables tables;

	ASSERT_EQ(0, vm_run(&self->vm, writer, writer, 0, pages));
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (int node = 0; node <= self->last; node++) {
		long before = vm_faults(&self->vm, node);

		EXPECT_EQ(pages + VM_OWN_PAGES, tables.local[node]) TH_LOG("node %d", node);
		EXPECT_EQ(0, tables.remote[node]) TH_LOG("node %d", node);
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, pages));
		EXPECT_EQ(before, vm_faults(&self->vm, node)) TH_LOG("node %d", node);
	}
	EXPECT_TRUE(vm_consistent());
}

TEST_F(vm_copy, pages_that_one_node_writes_are_in_all_trees)
{
	ASSERT_EQ(0, vm_set("mitosis"));
	/* Each vCPU has its tree. */
	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, vm_run(&self->vm, node, node, 0, 1));
	}
	check_eager(_metadata, self, 0, TABLE_PAGES);
	check_eager(_metadata, self, self->last, VM_REGION_PAGES);
	ASSERT_EQ(0, drop(&self->vm, 0, VM_REGION_PAGES));
	check_eager(_metadata, self, self->last, VM_REGION_PAGES);
	EXPECT_EQ(hydra_nodes() + 1, *vm_word(&self->vm, 1));
}

static void set_slot(struct vm *vm, int slot, unsigned long first, unsigned long pages)
{
	vm_set_user_memory_region(vm->kvm, slot, 0, VM_REGION + first * PAGE_SIZE,
				  pages * PAGE_SIZE, vm->region + first * PAGE_SIZE);
}

/* Two memslots share the first table of the region. */
static void halve_memslot(struct vm *vm)
{
	set_slot(vm, VM_SLOT, 0, 0);
	set_slot(vm, VM_SLOT, 0, TABLE_PAGES / 2);
	set_slot(vm, VM_SLOT + 1, TABLE_PAGES / 2, TABLE_PAGES / 2);
}

/* The last page of one memslot and the first of the next are in one window. */
TEST_F(vm_copy, copies_end_with_the_memslot)
{
	struct vm_tables tables;

	halve_memslot(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, TABLE_PAGES / 2 - 1, 1));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES / 2 + VM_OWN_PAGES, tables.local[1]);
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, 0, TABLE_PAGES));
	ASSERT_EQ(0, vm_read_tables(&tables));
	EXPECT_EQ(TABLE_PAGES + VM_OWN_PAGES, tables.local[1]);
}

/*
 * A VMM may ask KVM to take only the entries of a memslot away that goes, as it takes those
 * of memory that the host drops. Meanwhile the last node faults in the memslot beside.
 */
TEST_F_TIMEOUT(vm_copy, memslot_that_goes_beside_a_fault, 120)
{
	vm_enable_cap(self->vm.kvm, KVM_CAP_DISABLE_QUIRKS2, KVM_X86_QUIRK_SLOT_ZAP_ALL);
	halve_memslot(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 1));
	ASSERT_EQ(0, vm_run(&self->vm, self->last, self->last, 0, 1));
	for (int i = 0; i < ROUNDS; i++) {
		struct writer w = { &self->vm, self->last, TABLE_PAGES / 2, TABLE_PAGES, 1 };
		struct vm_tables tables;

		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES / 2));
		start(_metadata, &w);
		set_slot(&self->vm, VM_SLOT, 0, 0);
		end(_metadata, &w);
		ASSERT_EQ(0, vm_read_tables(&tables));
		EXPECT_EQ(TABLE_PAGES / 2 + VM_OWN_PAGES, tables.local[self->last]) TH_LOG("round %d", i);
		EXPECT_EQ(VM_OWN_PAGES, tables.local[0]) TH_LOG("round %d", i);
		set_slot(&self->vm, VM_SLOT, 0, TABLE_PAGES / 2);
		ASSERT_EQ(0, drop(&self->vm, TABLE_PAGES / 2, TABLE_PAGES / 2));
	}
}

/* Add 1 to the first word of some huge pages. */
static VM_GUEST void guest_write_huge(unsigned long first, unsigned long pages)
{
	for (unsigned long i = first; i < first + pages; i++)
		__atomic_fetch_add((unsigned int *)(HUGE + i * TABLE_SIZE), 1, __ATOMIC_SEQ_CST);
	vm_guest_end();
}

static int write_huge(struct vm *vm, int node, unsigned long first, unsigned long pages)
{
	vm_pin_to_node(node);
	return vm_call(vm, node, guest_write_huge, first, pages);
}

static void set_huge(FIXTURE_DATA(vm_copy) *self, int flags, unsigned long pages)
{
	vm_set_user_memory_region(self->vm.kvm, HUGE_SLOT, flags, HUGE, pages * TABLE_SIZE,
				  self->huge);
}

/* Make the gigabyte. Return: false if the machine has no huge pages. */
static bool make_huge(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self)
{
	char *area;

	self->hugetlb = hydra_number(HUGETLB, NULL);
	if (self->hugetlb < 0)
		return false;
	ASSERT_EQ(0, hydra_write_number(HUGETLB, "", "%ld", self->hugetlb + 1));
	self->file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, ftruncate(self->file, TABLE_SIZE));
	area = mmap(NULL, HUGE + TABLE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, area);
	self->huge = area + -(uintptr_t)area % TABLE_SIZE;
	munmap(area, self->huge - area);
	munmap(self->huge + HUGE, area + TABLE_SIZE - self->huge);
	for (unsigned long i = 0; i < HUGE_PAGES; i++) {
		char *page = self->huge + i * TABLE_SIZE;

		ASSERT_EQ(page, mmap(page, TABLE_SIZE, PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_FIXED | MAP_POPULATE, self->file, 0));
	}
	virt_map_level(self->vm.kvm, HUGE, HUGE, HUGE, PG_LEVEL_2M);
	set_huge(self, 0, HUGE_PAGES);
	return true;
}

/* All nodes have entries for what the program needs of memslot 0, and none for the gigabyte. */
static void begin_huge(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self, long *leaves)
{
	struct vm_tables tables;

	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, write_huge(&self->vm, node, 0, 1));
	}
	ASSERT_EQ(0, madvise(self->huge, HUGE, MADV_DONTNEED));
	ASSERT_EQ(0, vm_read_tables(&tables));
	for (int node = 0; node <= self->last; node++)
		leaves[node] = tables.local[node];
	*(unsigned int *)self->huge = 0;
}

#define NEED_HUGE() do {							\
	if (!make_huge(_metadata, self))					\
		SKIP(return, "no " HUGETLB " (CONFIG_HUGETLBFS)");		\
} while (0)

/* How many entries a tree has got since begin_huge() */
static long huge_leaves(int node, const long *before)
{
	struct vm_tables tables;

	return vm_read_tables(&tables) ? -1 : (long)tables.local[node] - before[node];
}

static void count_huge_faults(struct __test_metadata *_metadata, FIXTURE_DATA(vm_copy) *self,
			      int degree)
{
	const long windows = HUGE_PAGES >> degree, copied = vm_number("copied");
	long leaves[HYDRA_MAX_NODES];
	char text[32];

	snprintf(text, sizeof(text), "prefetch=%d", degree);
	ASSERT_EQ(0, vm_set(text));
	begin_huge(_metadata, self, leaves);
	for (int node = 0; node <= self->last; node++) {
		long before = vm_faults(&self->vm, node);

		ASSERT_EQ(0, write_huge(&self->vm, node, 0, HUGE_PAGES));
		EXPECT_EQ(node ? windows : HUGE_PAGES, vm_faults(&self->vm, node) - before)
			TH_LOG("node %d, prefetch %d", node, degree);
		EXPECT_EQ(HUGE_PAGES, huge_leaves(node, leaves)) TH_LOG("node %d", node);
	}
	EXPECT_LE(self->last * (HUGE_PAGES - windows), vm_number("copied") - copied);
	EXPECT_EQ(HUGE_PAGES * (self->last + 1), *(unsigned int *)self->huge);
	EXPECT_TRUE(vm_consistent());
}

TEST_F_TIMEOUT(vm_copy, huge_pages_fault_once_for_a_gigabyte, 90)
{
	NEED_HUGE();
	count_huge_faults(_metadata, self, 9);
	count_huge_faults(_metadata, self, 4);
}

struct huge_writer {
	struct vm *vm;
	int node;
	unsigned long first, end;
	volatile bool begun;
	pthread_t thread;
};

static void *write_huge_pages(void *arg)
{
	struct huge_writer *w = arg;

	for (unsigned long page = w->first; page < w->end; page++) {
		int ret = write_huge(w->vm, w->node, page, 1);

		w->begun = true;
		if (ret)
			return "the guest failed";
	}
	return NULL;
}

static void start_huge(struct __test_metadata *_metadata, struct huge_writer *w)
{
	ASSERT_EQ(0, pthread_create(&w->thread, NULL, write_huge_pages, w));
	while (!w->begun)
		sched_yield();
}

static void end_huge(struct __test_metadata *_metadata, struct huge_writer *w)
{
	void *wrong;

	ASSERT_EQ(0, pthread_join(w->thread, &wrong));
	ASSERT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
}

/*
 * As neighbours_dropped_during_a_fault. The window of each fault of the last node has pages that
 * are being dropped, and others.
 */
TEST_F_TIMEOUT(vm_copy, huge_neighbours_dropped_during_a_fault, 120)
{
	const unsigned long half = 32;
	long before[HYDRA_MAX_NODES];

	NEED_HUGE();
	begin_huge(_metadata, self, before);
	for (int i = 0; i < ROUNDS; i++) {
		struct huge_writer w = { &self->vm, self->last, half, 2 * half };
		int ret;

		ASSERT_EQ(0, write_huge(&self->vm, 0, 0, half));
		start_huge(_metadata, &w);
		ret = madvise(self->huge, half * TABLE_SIZE, MADV_DONTNEED);
		end_huge(_metadata, &w);
		ASSERT_EQ(0, ret);
		ASSERT_EQ(half, huge_leaves(self->last, before)) TH_LOG("round %d", i);
		ASSERT_EQ(0, huge_leaves(0, before)) TH_LOG("round %d", i);
		ASSERT_EQ(0, madvise(self->huge, HUGE, MADV_DONTNEED));
	}
}

/*
 * The last node copies huge pages while KVM begins to log. After the first round of the log, each
 * write is in the next one.
 */
TEST_F_TIMEOUT(vm_copy, copies_of_huge_pages_are_logged, 120)
{
	static unsigned long bitmap[HUGE_PAGES * TABLE_PAGES / 64];
	long before[HYDRA_MAX_NODES];

	NEED_HUGE();
	ASSERT_EQ(0, vm_set("prefetch=1"));
	for (int i = 0; i < ROUNDS; i++) {
		struct huge_writer w = { &self->vm, self->last, 0, HUGE_PAGES };

		begin_huge(_metadata, self, before);
		ASSERT_EQ(0, write_huge(&self->vm, 0, 0, HUGE_PAGES));
		start_huge(_metadata, &w);
		set_huge(self, KVM_MEM_LOG_DIRTY_PAGES, HUGE_PAGES);
		end_huge(_metadata, &w);
		kvm_vm_get_dirty_log(self->vm.kvm, HUGE_SLOT, bitmap);
		ASSERT_EQ(0, write_huge(&self->vm, self->last, 0, HUGE_PAGES));
		memset(bitmap, 0, sizeof(bitmap));
		kvm_vm_get_dirty_log(self->vm.kvm, HUGE_SLOT, bitmap);
		for (unsigned long page = 0; page < HUGE_PAGES; page++) {
			ASSERT_EQ(1, bitmap[page * TABLE_PAGES / 64] & 1)
				TH_LOG("round %d, huge page %lu", i, page);
		}
		set_huge(self, 0, HUGE_PAGES);
	}
}

/* A memslot ends within a huge page: that has no huge entry, and is not copied. */
TEST_F(vm_copy, huge_copies_end_with_the_memslot)
{
	long before[HYDRA_MAX_NODES];

	NEED_HUGE();
	set_huge(self, 0, 0);
	vm_set_user_memory_region(self->vm.kvm, HUGE_SLOT, 0, HUGE, 4 * TABLE_SIZE + TABLE_SIZE / 2,
				  self->huge);
	vm_set_user_memory_region(self->vm.kvm, HUGE_SLOT + 1, 0, HUGE + 5 * TABLE_SIZE,
				  3 * TABLE_SIZE, self->huge + 5 * TABLE_SIZE);
	begin_huge(_metadata, self, before);
	ASSERT_EQ(0, write_huge(&self->vm, 0, 0, 8));
	EXPECT_EQ(8, huge_leaves(0, before));
	ASSERT_EQ(0, write_huge(&self->vm, 1, 5, 1));
	EXPECT_EQ(3, huge_leaves(1, before));
	ASSERT_EQ(0, write_huge(&self->vm, 1, 0, 1));
	EXPECT_EQ(3 + 4, huge_leaves(1, before));
}

/* Where node 0 has a table, because the host has small pages, node 1 gets nothing. */
TEST_F(vm_copy, tables_are_not_copied)
{
	long before[HYDRA_MAX_NODES];
	size_t size = 4 * TABLE_SIZE;

	NEED_HUGE();
	ASSERT_EQ(self->huge, mmap(self->huge, size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, madvise(self->huge, size, MADV_NOHUGEPAGE));
	begin_huge(_metadata, self, before);
	ASSERT_EQ(0, write_huge(&self->vm, 0, 0, 8));
	EXPECT_EQ(8, huge_leaves(0, before));
	ASSERT_EQ(0, write_huge(&self->vm, 1, 16, 1));
	EXPECT_EQ(1 + 4, huge_leaves(1, before));
	/* And none is copied into a table of small pages */
	ASSERT_EQ(0, write_huge(&self->vm, 1, 0, 1));
	EXPECT_EQ(1 + 4 + 1, huge_leaves(1, before));
}

HYDRA_HARNESS_MAIN
