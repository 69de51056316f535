// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flushes of a VM spare the vCPUs whose tree of nested page tables has lost nothing, and no
 * others: vCPUs spin on all CPUs but the first, which takes pages away.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define DROPS		20
#define LIMIT		120	/* seconds for a test: vCPUs spin on all CPUs of an emulated machine */
#define VCPUS		64
#define PLACE		0UL	/* the page of the region that is taken away */
#define UNUSED		(VM_REGION_PAGES - 1)	/* a page that no guest touches */

FIXTURE(vm_bystanders) {
	struct vm vm;
	int last, nr;
	struct vm_spinner spinners[VCPUS];
	int node[VCPUS];
	char *file;		/* two pages that may stand at PLACE, at their own address */
	int fd;
};

FIXTURE_SETUP(vm_bystanders)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
	self->fd = memfd_create("vm_bystanders", MFD_CLOEXEC);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, ftruncate(self->fd, 2 * PAGE_SIZE));
	self->file = mmap(NULL, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(MAP_FAILED, self->file);
}

FIXTURE_TEARDOWN(vm_bystanders)
{
	if (!self->vm.kvm)
		return;
	vm_spin_end(&self->vm, self->spinners, self->nr);
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
	munmap(self->file, 2 * PAGE_SIZE);
	close(self->fd);
}

/*
 * A vCPU on each CPU of some nodes, but not on the first CPU of node 0, where the test stays.
 * Those of the last node use PLACE, each other one a page of its own.
 */
static void spin_on(struct __test_metadata *_metadata, FIXTURE_DATA(vm_bystanders) *self,
		    int first)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = first; node <= self->last; node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = !node; i < count; i++) {
			struct vm_spinner *s = &self->spinners[self->nr];

			ASSERT_GT(VCPUS, self->nr);
			if (self->nr == self->vm.nr)
				vm_add_vcpu(&self->vm);
			*s = (struct vm_spinner){
				.vm = &self->vm, .vcpu = self->nr, .cpu = cpus[i],
				.page = node == self->last ? PLACE : 1 + self->nr,
			};
			self->node[self->nr++] = node;
			ASSERT_EQ(0, vm_spin(s));
		}
	}
	hydra_node_cpus(0, cpus);
	hydra_pin_to_cpu(cpus[0]);
}

/* How often each vCPU was flushed */
static void read_flushes(FIXTURE_DATA(vm_bystanders) *self, long flushes[VCPUS])
{
	for (int i = 0; i < self->nr; i++)
		flushes[i] = vm_vcpu_number(&self->vm, i, "tlb_flush");
}

/*
 * Drop the page of the last node so many times. Each time, the vCPUs that must be flushed have
 * been flushed before the next, or two requests would be one. Flushes gets how often each was.
 */
static void drop(struct __test_metadata *_metadata, FIXTURE_DATA(vm_bystanders) *self,
		 bool (*must)(FIXTURE_DATA(vm_bystanders) *self, int i), long flushes[VCPUS])
{
	struct vm *vm = &self->vm;
	long begin[VCPUS], before[VCPUS];

	read_flushes(self, begin);
	for (int round = 0; round < DROPS; round++) {
		read_flushes(self, before);
		ASSERT_EQ(0, madvise(vm->region + PLACE * PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED));
		for (int i = 0; i < self->nr; i++)
			while (must(self, i) &&
			       vm_vcpu_number(vm, i, "tlb_flush") == before[i])
				usleep(100);
		while (!*vm_word(vm, PLACE))
			usleep(100);
	}
	read_flushes(self, flushes);
	for (int i = 0; i < self->nr; i++)
		flushes[i] -= begin[i];
}

static bool on_last_node(FIXTURE_DATA(vm_bystanders) *self, int i)
{
	return self->node[i] == self->last;
}

static bool on_any_node(FIXTURE_DATA(vm_bystanders) *self, int i)
{
	return true;
}

TEST_F_TIMEOUT(vm_bystanders, page_used_by_one_node, LIMIT)
{
	long flushes[VCPUS];

	spin_on(_metadata, self, 0);
	drop(_metadata, self, on_last_node, flushes);
	for (int i = 0; i < self->nr; i++) {
		EXPECT_EQ(on_last_node(self, i) ? DROPS : 0, flushes[i])
			TH_LOG("vCPU %d on node %d", i, self->node[i]);
	}
}

/*
 * The VMM's memory has the page, and no tree has it. A vCPU that was asked for a flush does it
 * before it enters the guest again, so at the latest before its program ends.
 */
TEST_F_TIMEOUT(vm_bystanders, page_that_no_vcpu_has_used, LIMIT)
{
	long before[VCPUS], after[VCPUS], asked;
	int nr;

	spin_on(_metadata, self, 0);
	nr = self->nr;
	asked = vm_number("vcpus_flushed");
	read_flushes(self, before);
	for (int round = 0; round < DROPS; round++) {
		*vm_word(&self->vm, UNUSED) = round;
		ASSERT_EQ(0, madvise(self->vm.region + UNUSED * PAGE_SIZE, PAGE_SIZE,
				     MADV_DONTNEED));
	}
	ASSERT_EQ(0, vm_spin_end(&self->vm, self->spinners, nr));
	read_flushes(self, after);
	self->nr = 0;
	for (int i = 0; i < nr; i++) {
		EXPECT_EQ(before[i], after[i]) TH_LOG("vCPU %d on node %d", i, self->node[i]);
	}
	EXPECT_EQ(asked, vm_number("vcpus_flushed"));
}

TEST_F_TIMEOUT(vm_bystanders, all_without_the_filter, LIMIT)
{
	long flushes[VCPUS];

	ASSERT_EQ(0, vm_set("filter=none"));
	spin_on(_metadata, self, 0);
	drop(_metadata, self, on_any_node, flushes);
	for (int i = 0; i < self->nr; i++) {
		EXPECT_EQ(DROPS, flushes[i]) TH_LOG("vCPU %d on node %d", i, self->node[i]);
	}
	EXPECT_EQ(0, vm_number("vcpus_spared"));
}

/*
 * Few spinners: those of PLACE have to run while the test looks. After a round of the log the
 * vCPUs must not write through what they have cached: the next round would not have the page.
 * The log changes no page table of the host, so only the flush of the VM interrupts their CPUs.
 *
 * KVM's fast path makes an entry writable before it notes the page, both in one section of RCU.
 * Another vCPU may write in between, and so a write may be one look late, now and then.
 */
TEST_F_TIMEOUT(vm_bystanders, no_write_is_missing_from_the_log, LIMIT)
{
	unsigned long bitmap[VM_REGION_PAGES / 64];
	int late = 0;

	spin_on(_metadata, self, self->last);
	vm_log(&self->vm, true);
	for (int round = 0; round < 2 * DROPS; round++) {
		unsigned int before;
		long logged;

		vm_logged(&self->vm, bitmap);
		before = *vm_word(&self->vm, PLACE);
		while (*vm_word(&self->vm, PLACE) == before)
			;
		logged = vm_logged(&self->vm, bitmap);
		if (!logged) {
			late++;
			/* Waits for a grace period. */
			ASSERT_EQ(0, syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
			logged = vm_logged(&self->vm, bitmap);
		}
		ASSERT_EQ(1, logged) TH_LOG("round %d", round);
	}
	EXPECT_GT(DROPS / 2, late);
}

/* Put the other page of the file at PLACE. From then on, the guest must not write the old one. */
static void replace(struct __test_metadata *_metadata, FIXTURE_DATA(vm_bystanders) *self, int i)
{
	volatile unsigned int *old = (void *)(self->file + (i + 1) % 2 * PAGE_SIZE);
	volatile unsigned int *new = (void *)(self->file + i % 2 * PAGE_SIZE);
	unsigned int before, was = *new;

	ASSERT_EQ(self->vm.region + PLACE * PAGE_SIZE,
		  mmap(self->vm.region + PLACE * PAGE_SIZE, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_FIXED, self->fd, i % 2 * PAGE_SIZE));
	before = *old;
	for (int spent = 0; spent < 2000; spent++)
		__builtin_ia32_pause();
	ASSERT_EQ(before, *old) TH_LOG("round %d", i);
	while (*new == was)
		usleep(100);
}

TEST_F_TIMEOUT(vm_bystanders, no_write_after_the_flush, LIMIT)
{
	spin_on(_metadata, self, self->last);
	for (int i = 0; i < DROPS; i++)
		replace(_metadata, self, i);
}

/* One thread more takes pages of other nodes away all the time: flushes overlap. */
struct dropper {
	struct vm *vm;
	int nr;
	volatile bool stop;
};

static void *drop_others(void *arg)
{
	struct dropper *d = arg;

	hydra_pin_to_node(0);
	while (!d->stop)
		for (int i = 0; i < d->nr; i++)
			madvise(d->vm->region + (1 + i) * PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED);
	return NULL;
}

/* The vCPUs that use PLACE go from node to node meanwhile. */
TEST_F_TIMEOUT(vm_bystanders, no_write_while_vcpus_change_nodes, LIMIT)
{
	struct dropper d = { .vm = &self->vm };
	int cpus[HYDRA_MAX_CPUS];
	long moves;
	pthread_t thread;

	if (self->last < 2)
		SKIP(return, "needs three nodes");
	spin_on(_metadata, self, 0);
	d.nr = self->nr;
	moves = vm_number("moves");
	ASSERT_EQ(0, pthread_create(&thread, NULL, drop_others, &d));
	for (int i = 0; i < 2 * DROPS; i++) {
		int node = 1 + i % self->last;

		hydra_node_cpus(node, cpus);
		for (int j = 0; j < self->nr; j++) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET(cpus[0], &set);
			if (self->node[j] == self->last)
				ASSERT_EQ(0, pthread_setaffinity_np(self->spinners[j].thread,
								    sizeof(set), &set));
		}
		replace(_metadata, self, i);
	}
	d.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_LT(moves + DROPS, vm_number("moves"));
	EXPECT_LT(0, vm_number("vcpus_spared"));
}

HYDRA_HARNESS_MAIN
