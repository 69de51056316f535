// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest of a guest, with nested page tables of its own (AMD's NPT), in a VM with a tree per
 * node. KVM runs it on shadow tables, which no tree has: its writes are right, and flushes
 * spare no vCPU.
 *
 * Each vCPU begins as a guest (L1), which enters another guest (L2) by VMRUN. L2 has the page
 * tables of L1, and runs the programs of the other tests.
 */
#include <numaif.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "kvm_util.h"
#include "processor.h"
#include "svm_util.h"
#include "vm_util.h"

#define PAGES		64UL
#define DROPS		20
#define CHANGES		8
#define LIMIT		120

#define NPT_PRESENT	7UL			/* also writable, and for user mode */
#define NPT_LARGE	(1UL << 7)

/* L2 begins. */
static VM_GUEST void guest_inner(void)
{
	vm_guest_end();
}

/* L2 ends. */
static VM_GUEST void guest_leave(unsigned int *word)
{
	for (;;)
		asm volatile("vmmcall" : : "D" (word) : "memory");
}

/* L1 enters L2. When L2 ends, L1 writes where L2 has said. */
static VM_GUEST void guest_outer(struct svm_test_data *svm, uint64_t tables)
{
	unsigned int *word;

	generic_svm_setup(svm, guest_inner, NULL);
	svm->vmcb->control.nested_ctl = SVM_NESTED_CTL_NP_ENABLE;
	svm->vmcb->control.nested_cr3 = tables;
	/* L2 has the registers of L1, but for RAX and RSP. */
	asm volatile("push %%rbp; vmrun %%rax; pop %%rbp" : "=D" (word) : "a" (svm->vmcb_gpa)
		     : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
		       "r15", "memory");
	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	vm_guest_end();
}

FIXTURE(vm_nested) {
	struct vm vm;
	struct vm_writer writers[HYDRA_MAX_NODES];
	struct vm_spinner spinners[HYDRA_MAX_NODES];
	vm_paddr_t tables;	/* L2's nested tables: identity, for 1 GiB */
	vm_vaddr_t svm[HYDRA_MAX_NODES];
	int last;
};

static vm_paddr_t make_tables(struct kvm_vm *kvm)
{
	vm_paddr_t level4 = vm_alloc_page_table(kvm), level3 = vm_alloc_page_table(kvm);
	vm_paddr_t level2 = vm_alloc_page_table(kvm);
	uint64_t *large = addr_gpa2hva(kvm, level2);

	*(uint64_t *)addr_gpa2hva(kvm, level4) = level3 | NPT_PRESENT;
	*(uint64_t *)addr_gpa2hva(kvm, level3) = level2 | NPT_PRESENT;
	for (uint64_t i = 0; i < TABLE_PAGES; i++)
		large[i] = i * TABLE_SIZE | NPT_PRESENT | NPT_LARGE;
	return level4;
}

/* Let a vCPU become L1, on a node, and enter L2. 0, -errno or -EPROTO */
static int enter(FIXTURE_DATA(vm_nested) *self, int vcpu, int node)
{
	vm_pin_to_node(node);
	return vm_call(&self->vm, vcpu, guest_outer, self->svm[vcpu], self->tables);
}

/* L2 ends, and L1 writes a page of the region. */
static int leave(FIXTURE_DATA(vm_nested) *self, int vcpu, int node, unsigned long page)
{
	vm_pin_to_node(node);
	return vm_call(&self->vm, vcpu, guest_leave, VM_REGION + page * PAGE_SIZE);
}

FIXTURE_SETUP(vm_nested)
{
	VM_BEGIN();
	if (!kvm_cpu_has(X86_FEATURE_SVM) || !kvm_cpu_has(X86_FEATURE_NPT))
		SKIP(return, "KVM offers no nested NPT here (AMD, kvm_amd.nested=1)");
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
	self->tables = make_tables(self->vm.kvm);
	for (int vcpu = 0; vcpu < self->vm.nr; vcpu++) {
		vcpu_alloc_svm(self->vm.kvm, &self->svm[vcpu]);
		ASSERT_EQ(0, enter(self, vcpu, vcpu));
	}
}

FIXTURE_TEARDOWN(vm_nested)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* L2 writes from each node; the host drops the pages; and again. */
TEST_F_TIMEOUT(vm_nested, writes_of_all_nodes_are_right, LIMIT)
{
	for (int round = 0; round < 3; round++) {
		for (int vcpu = 0; vcpu < self->vm.nr; vcpu++) {
			ASSERT_EQ(0, vm_run(&self->vm, vcpu, (vcpu + round) % self->vm.nr, 0,
					    PAGES));
		}
		for (unsigned long page = 0; page < PAGES; page++) {
			ASSERT_EQ(self->vm.nr, *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
		}
		ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_DONTNEED));
	}
}

/* L2 moves to another node. When it ends there, L1 goes on in the tree of that node. */
TEST_F_TIMEOUT(vm_nested, outer_guest_goes_on_in_the_tree_of_the_new_node, LIMIT)
{
	struct vm_tables before, after;

	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, PAGES));
	ASSERT_EQ(0, vm_read_tables(&before));
	ASSERT_EQ(0, leave(self, 0, self->last, PAGES));
	EXPECT_EQ(1, *vm_word(&self->vm, PAGES));
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_LT(before.local[self->last], after.local[self->last]);
	EXPECT_EQ(0, after.remote[self->last]);
	/* And L2 again, from the beginning. */
	ASSERT_EQ(0, enter(self, 0, 0));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES));
	for (unsigned long page = 0; page < PAGES; page++) {
		ASSERT_EQ(2, *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
	}
}

/* Each vCPU uses one page of its own. All are flushed when the page of one goes. */
TEST_F_TIMEOUT(vm_nested, flushes_spare_no_vcpu, LIMIT)
{
	long flushed = vm_number("vcpus_flushed"), spared = vm_number("vcpus_spared");
	struct vm *vm = &self->vm;
	long begin[HYDRA_MAX_NODES], before[HYDRA_MAX_NODES];
	int cpus[HYDRA_MAX_CPUS], nr = 0;

	for (int vcpu = 1; vcpu < vm->nr; vcpu++, nr++) {
		ASSERT_LT(0, hydra_node_cpus(vcpu, cpus));
		self->spinners[nr] = (struct vm_spinner){
			.vm = vm, .vcpu = vcpu, .cpu = cpus[0], .page = vcpu,
		};
		ASSERT_EQ(0, vm_spin(&self->spinners[nr]));
	}
	hydra_pin_to_node(0);
	for (int i = 0; i < nr; i++)
		begin[i] = vm_vcpu_number(vm, i + 1, "tlb_flush");
	for (int round = 0; round < DROPS; round++) {
		for (int i = 0; i < nr; i++)
			before[i] = vm_vcpu_number(vm, i + 1, "tlb_flush");
		ASSERT_EQ(0, madvise(vm->region + self->last * PAGE_SIZE, PAGE_SIZE,
				     MADV_DONTNEED));
		for (int i = 0; i < nr; i++)
			while (vm_vcpu_number(vm, i + 1, "tlb_flush") == before[i] &&
			       vm_number("vcpus_spared") == spared)
				usleep(100);
		while (!*vm_word(vm, self->last))
			usleep(100);
	}
	for (int i = 0; i < nr; i++)
		EXPECT_LE(DROPS, vm_vcpu_number(vm, i + 1, "tlb_flush") - begin[i]);
	EXPECT_EQ(flushed, vm_number("vcpus_flushed"));
	EXPECT_EQ(spared, vm_number("vcpus_spared"));
	ASSERT_EQ(0, vm_spin_end(vm, self->spinners, nr));
}

/* L2 writes on all nodes while the host moves its memory. No write is lost. */
TEST_F_TIMEOUT(vm_nested, pages_moved_while_all_nodes_write, LIMIT)
{
	unsigned long mask, written;

	ASSERT_EQ(0, vm_writers_begin(&self->vm, self->writers, PAGES, 1));
	for (int i = 0; i < CHANGES; i++) {
		mask = 1UL << hydra_node_id(i % (self->last + 1));
		ASSERT_EQ(0, mbind(self->vm.region, PAGES * PAGE_SIZE, MPOL_BIND, &mask, 64,
				   MPOL_MF_MOVE));
		for (int vcpu = 0; vcpu < self->vm.nr; vcpu++)
			vm_await_writer(&self->writers[vcpu]);
	}
	ASSERT_EQ(0, vm_writers_end(&self->vm, self->writers));
	written = vm_written(&self->vm, self->writers);
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_EQ(written, *vm_word(&self->vm, page)) TH_LOG("page %lu", page);
	}
}

HYDRA_HARNESS_MAIN
