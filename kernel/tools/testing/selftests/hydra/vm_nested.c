// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest of a guest, with nested page tables of its own (AMD's NPT), in a VM with a tree per
 * node. KVM runs it on shadow tables, which no tree has: its writes are right, and flushes
 * spare no vCPU.
 *
 * Each vCPU begins as a guest with 64-bit paging (L1), which enters another guest (L2) by
 * VMRUN. L2 has no paging, as the guests of the other tests, and runs their programs. What the
 * processor needs in memory lies in the last pages of the region, where nothing else is.
 */
#include <errno.h>
#include <numaif.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define PAGES		64UL
#define DROPS		20
#define CHANGES		8
#define LIMIT		120

/* Pages of the region, from the end */
#define PLACE(page)	(VM_REGION_PAGES - 1 - (page))
#define GUEST(page)	(VM_REGION + PLACE(page) * PAGE_SIZE)
#define PROGRAMS	0
#define LEVEL4		1		/* identity, for 1 GiB: L1's own, and L2's nested tables */
#define LEVEL3		2
#define LEVEL2		3
#define VMCB(vcpu)	(4 + 2 * (vcpu))
#define SAVED(vcpu)	(5 + 2 * (vcpu))

/* L1, 64 bits. After L2's VMMCALL it writes where L2 has said. */
static const unsigned char outer[] = {
	0x0f, 0x01, 0xd8,			/* vmrun %rax */
	0xf0, 0xff, 0x06,			/* lock incl (%rsi) */
	0xe6, VM_PORT,				/* out %al, $VM_PORT */
	0xeb, 0xfe,				/* jmp . */
};

/* L2, 32 bits: where it begins, and how it ends. */
#define BEGIN		0x40
static const unsigned char begin[] = {
	0xe6, VM_PORT,				/* out %al, $VM_PORT */
	0xeb, 0xfe,				/* jmp . */
};

#define END		0x80
static const unsigned char end[] = {
	0x0f, 0x01, 0xd9,			/* vmmcall */
	0xeb, 0xfe,				/* jmp . */
};

#define PRESENT		7UL			/* also writable, and for user mode, as NPT wants */
#define LARGE		(1UL << 7)

#define CR0_PE		1UL
#define CR0_PG		(1UL << 31)
#define CR4_PAE		(1UL << 5)
#define EFER_LME	(1UL << 8)
#define EFER_LMA	(1UL << 10)
#define EFER_SVME	(1UL << 12)
#define MSR_VM_HSAVE_PA	0xc0010117

FIXTURE(vm_nested) {
	struct vm vm;
	struct vm_writer writers[HYDRA_MAX_NODES];
	struct vm_spinner spinners[HYDRA_MAX_NODES];
	int last;
};

static char *place(const struct vm *vm, int page)
{
	return vm->region + PLACE(page) * PAGE_SIZE;
}

/* The vCPU can be a host of guests. Return: 0, -errno; -ENODEV if KVM or the processor cannot */
static int allow_guests(struct vm *vm, int vcpu)
{
	const unsigned int max = 256;
	struct kvm_cpuid2 *cpuid = calloc(1, sizeof(*cpuid) + max * sizeof(*cpuid->entries));
	bool svm = false, npt = false;
	int ret = 0;

	cpuid->nent = max;
	if (ioctl(vm->kvm, KVM_GET_SUPPORTED_CPUID, cpuid))
		ret = -errno;
	for (unsigned int i = 0; !ret && i < cpuid->nent; i++) {
		svm |= cpuid->entries[i].function == 0x80000001 && cpuid->entries[i].ecx & 4;
		npt |= cpuid->entries[i].function == 0x8000000a && cpuid->entries[i].edx & 1;
	}
	if (!ret && !(svm && npt))
		ret = -ENODEV;
	if (!ret && ioctl(vm->vcpu[vcpu].fd, KVM_SET_CPUID2, cpuid))
		ret = -errno;
	free(cpuid);
	return ret;
}

static void put(char *vmcb, unsigned int offset, uint64_t value, size_t size)
{
	memcpy(vmcb + offset, &value, size);
}

/* A flat segment of 4 GiB: its attributes, as in the VMCB */
static void put_segment(char *vmcb, unsigned int offset, unsigned int attributes)
{
	put(vmcb, offset + 2, attributes, 2);
	put(vmcb, offset + 4, 0xffffffff, 4);
}

/* What VMRUN reads (AMD APM 2, appendix B): L2 as it begins. All else is 0. */
static void make_vmcb(struct vm *vm, int vcpu)
{
	char *vmcb = place(vm, VMCB(vcpu));

	memset(vmcb, 0, PAGE_SIZE);
	put(vmcb, 0x010, 3, 4);			/* intercepts VMRUN and VMMCALL */
	put(vmcb, 0x058, 1, 4);			/* ASID */
	put(vmcb, 0x090, 1, 8);			/* nested paging */
	put(vmcb, 0x0b0, GUEST(LEVEL4), 8);	/* its tables */
	put_segment(vmcb, 0x410, 0xc9b);	/* CS */
	for (unsigned int offset = 0x400; offset <= 0x450; offset += 0x10)
		if (offset != 0x410)
			put_segment(vmcb, offset, 0xc93);
	put(vmcb, 0x4d0, EFER_SVME, 8);
	put(vmcb, 0x558, CR0_PE | 1 << 4, 8);
	put(vmcb, 0x560, 0x400, 8);		/* DR7 */
	put(vmcb, 0x568, 0xffff0ff0, 8);	/* DR6 */
	put(vmcb, 0x570, 2, 8);			/* RFLAGS */
	put(vmcb, 0x578, GUEST(PROGRAMS) + BEGIN, 8);
	put(vmcb, 0x668, 0x0007040600070406, 8);	/* PAT */
}

static void make_tables(struct vm *vm)
{
	uint64_t *large = (uint64_t *)place(vm, LEVEL2);

	*(uint64_t *)place(vm, LEVEL4) = GUEST(LEVEL3) | PRESENT;
	*(uint64_t *)place(vm, LEVEL3) = GUEST(LEVEL2) | PRESENT;
	for (uint64_t i = 0; i < TABLE_PAGES; i++)
		large[i] = i * TABLE_SIZE | PRESENT | LARGE;
	memcpy(place(vm, PROGRAMS), outer, sizeof(outer));
	memcpy(place(vm, PROGRAMS) + BEGIN, begin, sizeof(begin));
	memcpy(place(vm, PROGRAMS) + END, end, sizeof(end));
}

/* Let a vCPU become L1, on a node, and enter L2. 0, -errno or -EPROTO */
static int enter(struct vm *vm, int vcpu, int node)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry saved;
	} msrs = {
		.head.nmsrs = 1,
		.saved = { .index = MSR_VM_HSAVE_PA, .data = GUEST(SAVED(vcpu)) },
	};
	struct kvm_regs regs = {
		.rip = GUEST(PROGRAMS), .rflags = 2, .rax = GUEST(VMCB(vcpu)),
	};
	int fd = vm->vcpu[vcpu].fd;
	struct kvm_sregs sregs;

	make_vmcb(vm, vcpu);
	if (ioctl(fd, KVM_GET_SREGS, &sregs))
		return -errno;
	sregs.cr0 |= CR0_PG | CR0_PE;
	sregs.cr3 = GUEST(LEVEL4);
	sregs.cr4 |= CR4_PAE;
	sregs.efer = EFER_LME | EFER_LMA | EFER_SVME;
	sregs.cs.l = 1;
	sregs.cs.db = 0;
	if (ioctl(fd, KVM_SET_SREGS, &sregs) || ioctl(fd, KVM_SET_MSRS, &msrs) != 1)
		return -errno;
	vm_pin_to_node(node);
	return vm_run_program(vm, vcpu, &regs);
}

/* L2 ends, and L1 writes a page of the region. */
static int leave(struct vm *vm, int vcpu, int node, unsigned long page)
{
	struct kvm_regs regs = {
		.rip = GUEST(PROGRAMS) + END, .rflags = 2, .rsi = VM_REGION + page * PAGE_SIZE,
	};

	vm_pin_to_node(node);
	return vm_run_program(vm, vcpu, &regs);
}

FIXTURE_SETUP(vm_nested)
{
	int ret;

	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(9, HYDRA_FILTER_TABLE));
	ASSERT_EQ(0, vm_make(&self->vm));
	self->last = hydra_nodes() - 1;
	make_tables(&self->vm);
	for (int vcpu = 0; vcpu < self->vm.nr; vcpu++) {
		ret = allow_guests(&self->vm, vcpu);
		if (ret == -ENODEV)
			vm_end(&self->vm);
		if (ret == -ENODEV)
			SKIP(return, "KVM offers no nested NPT here (AMD, kvm_amd.nested=1)");
		ASSERT_EQ(0, ret);
		ASSERT_EQ(0, enter(&self->vm, vcpu, vcpu));
	}
}

FIXTURE_TEARDOWN(vm_nested)
{
	if (!self->vm.fd)
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
	ASSERT_EQ(0, leave(&self->vm, 0, self->last, PAGES));
	EXPECT_EQ(1, *vm_word(&self->vm, PAGES));
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_LT(before.local[self->last], after.local[self->last]);
	EXPECT_EQ(0, after.remote[self->last]);
	/* And L2 again, from the beginning. */
	ASSERT_EQ(0, enter(&self->vm, 0, 0));
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
