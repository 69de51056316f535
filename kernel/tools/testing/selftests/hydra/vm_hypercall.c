// SPDX-License-Identifier: GPL-2.0-only
/*
 * The hypercall by which a guest asks where its vCPUs and its memory are, and has memory moved:
 * what it answers, to which guests, and that it moves nothing against the operator's will.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/hydra_para.h>
#include <linux/userfaultfd.h>
#include <numaif.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "processor.h"
#include "vm_util.h"

#define PAGES		64UL
#define ENOSYS_OF_KVM	1000

/* The last page of the region, for an answer */
#define ANSWER	(VM_REGION_PAGES - 1)
/* Guest memory that the guest may not write, and none at all */
#define READ_ONLY	(VM_REGION + 2 * VM_REGION_PAGES * PAGE_SIZE)
#define NOTHING		(VM_REGION + 4 * VM_REGION_PAGES * PAGE_SIZE)

/* In the guest's memory: what the hypercall has answered. One vCPU asks at a time. */
static long answered;

static VM_GUEST void guest_ask(uint64_t what, uint64_t a1, uint64_t a2, uint64_t a3)
{
	answered = kvm_hypercall(KVM_HC_HYDRA, what, a1, a2, a3);
	vm_guest_end();
}

FIXTURE(vm_hypercall) {
	struct vm vm;
	int last;
};

FIXTURE_SETUP(vm_hypercall)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_off());
	vm_pin_to_node(0);
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
	ASSERT_EQ(0, vm_set("expose=on"));
}

FIXTURE_TEARDOWN(vm_hypercall)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* The guest's physical address of a page */
static unsigned long guest(unsigned long page)
{
	return VM_REGION + page * PAGE_SIZE;
}

/* What the hypercall answers the guest of a vCPU; -EIO if it does not come to that. */
static long call(FIXTURE_DATA(vm_hypercall) *self, int vcpu, unsigned int what,
		 unsigned long a1, unsigned long a2, unsigned long a3)
{
	if (vm_call(&self->vm, vcpu, guest_ask, what, a1, a2, a3))
		return -EIO;
	return *(long *)addr_gva2hva(self->vm.kvm, (vm_vaddr_t)&answered);
}

static int bind(const struct vm *vm, unsigned long first, unsigned long pages, int mode, int node)
{
	unsigned long mask = 1UL << hydra_node_id(node);

	return mbind(vm->region + first * PAGE_SIZE, pages * PAGE_SIZE, mode,
		     mode == MPOL_DEFAULT ? NULL : &mask, 64, 0) ? -errno : 0;
}

/* Move pages, and try again what was in use. Return: the last answer */
static long place(FIXTURE_DATA(vm_hypercall) *self, unsigned long first, unsigned long pages,
		  int domain)
{
	long ret = 0;

	for (int i = 0; i < 50 && (ret >= 0 || ret == -EAGAIN) && ret < (long)pages; i++) {
		if (i)
			usleep(20000);
		ret = call(self, 0, KVM_HYDRA_PLACE, guest(first), pages, domain);
	}
	return ret;
}

TEST_F(vm_hypercall, guest_that_may_not_ask)
{
	ASSERT_EQ(0, vm_set("expose=off"));
	for (unsigned int what = 0; what <= KVM_HYDRA_PLACE + 1; what++) {
		EXPECT_EQ(-ENOSYS_OF_KVM, call(self, 0, what, guest(0), 1, 0))
			TH_LOG("call %u", what);
	}
	/* A policy says it for all keys. */
	ASSERT_EQ(0, vm_set("hydra,expose=on"));
	EXPECT_EQ(hydra_nodes(), call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	ASSERT_EQ(0, vm_set("hydra"));
	EXPECT_EQ(-ENOSYS_OF_KVM, call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	EXPECT_EQ(-EINVAL, vm_set("expose=yes"));
}

TEST_F(vm_hypercall, vmm_exposes_nodes)
{
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA,
		.args = { (uintptr_t)&machine, sizeof(machine), KVM_HYDRA_EXPOSE },
	};

	ASSERT_EQ(0, vm_set("linux"));
	vm_ioctl(self->vm.kvm, KVM_ENABLE_CAP, &cap);
	EXPECT_EQ(hydra_nodes(), call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	cap.args[2] = 0;
	vm_ioctl(self->vm.kvm, KVM_ENABLE_CAP, &cap);
	EXPECT_EQ(-ENOSYS_OF_KVM, call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
}

/*
 * A VMM that enforces the guest's CPUID gives the guest the bit, or no answer. The bit is there to be
 * given, so that a VMM refuses a migration to a host without it.
 */
TEST_F(vm_hypercall, bit_of_cpuid)
{
	const unsigned int leaf = KVM_CPUID_FEATURES, bit = 1U << KVM_FEATURE_HYDRA;
	const struct kvm_cpuid_entry2 *entry = get_cpuid_entry(kvm_get_supported_cpuid(), leaf, 0);
	struct kvm_vcpu *vcpu = self->vm.vcpu[0].kvm;

	EXPECT_TRUE(entry->eax & bit);
	/* Without the bit, but not enforced: an older VMM */
	vcpu_get_cpuid_entry(vcpu, leaf)->eax &= ~bit;
	vcpu_set_cpuid(vcpu);
	EXPECT_EQ(hydra_nodes(), call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	vcpu_enable_cap(vcpu, KVM_CAP_ENFORCE_PV_FEATURE_CPUID, 1);
	EXPECT_EQ(-ENOSYS_OF_KVM, call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	EXPECT_EQ(hydra_nodes(), call(self, 1, KVM_HYDRA_INFO, 0, 0, 0));
}

/* With the bit, it answers. Without expose, the bit alone does not let the guest ask. */
TEST_F(vm_hypercall, bit_of_cpuid_that_is_given)
{
	struct kvm_vcpu *vcpu = self->vm.vcpu[0].kvm;

	vcpu_enable_cap(vcpu, KVM_CAP_ENFORCE_PV_FEATURE_CPUID, 1);
	EXPECT_EQ(hydra_nodes(), call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	ASSERT_EQ(0, vm_set("expose=off"));
	EXPECT_EQ(-ENOSYS_OF_KVM, call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
}

extern char __executable_start[], end[];

/* Let the guest's user mode use a page. */
static void let_user(struct kvm_vm *kvm, unsigned long address)
{
	for (int level = PG_LEVEL_512G; level >= PG_LEVEL_4K; level--) {
		int here = level;

		*__vm_get_page_table_entry(kvm, address, &here) |= PTE_USER_MASK;
	}
}

/* Programs of the guest may not. */
TEST_F(vm_hypercall, user_mode_of_the_guest)
{
	struct vm_vcpu *v = &self->vm.vcpu[0];
	struct kvm_sregs sregs;

	let_user(self->vm.kvm, v->regs.rsp);
	for (char *page = __executable_start; page < end; page += PAGE_SIZE)
		let_user(self->vm.kvm, (uintptr_t)page);
	v->regs.rflags |= 3 << 12;	/* may use ports, too */
	vcpu_sregs_get(v->kvm, &sregs);
	sregs.cs.dpl = 3;
	sregs.cs.selector = 11;
	sregs.ss.dpl = 3;
	sregs.ss.selector = 19;
	vcpu_sregs_set(v->kvm, &sregs);
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_INFO, 0, 0, 0));
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_PLACE, guest(0), 1, 0));
}

TEST_F(vm_hypercall, where_vcpus_ran_last)
{
	unsigned char *answer = (unsigned char *)self->vm.region + ANSWER * PAGE_SIZE;
	int nr = self->vm.nr, shift = 1 % nr;

	for (int vcpu = 0; vcpu < nr; vcpu++) {
		ASSERT_EQ(0, vm_run(&self->vm, vcpu, (vcpu + shift) % nr, 0, 1));
	}
	vm_pin_to_node(self->last);
	memset(answer, 0xee, PAGE_SIZE);
	ASSERT_EQ(0, call(self, 0, KVM_HYDRA_WHERE, guest(ANSWER), nr + 2, 0));
	/* The one that asks is here. */
	EXPECT_EQ(self->last, answer[0]);
	for (int vcpu = 1; vcpu < nr; vcpu++) {
		EXPECT_EQ((vcpu + shift) % nr, answer[vcpu]) TH_LOG("vCPU %d", vcpu);
	}
	EXPECT_EQ(255, answer[nr]);
	EXPECT_EQ(255, answer[nr + 1]);
	EXPECT_EQ(0xee, answer[nr + 2]);
	/* The most, across the end of a page */
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_WHERE, guest(ANSWER) - 100, 4096, 0));
}

/*
 * The VMM is under Hydra, too, and its tree for the last node has no table for the answer: only
 * node 0 has touched that memory, and what the guest does fills no tree of the process.
 */
TEST_F(vm_hypercall, where_if_the_tree_of_the_vmm_lacks_the_answer)
{
	unsigned char *answer = (unsigned char *)self->vm.region + ANSWER * PAGE_SIZE;

	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_NONE));
	vm_pin_to_node(0);
	memset(answer, 0xee, PAGE_SIZE);
	vm_pin_to_node(self->last);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, call(self, 0, KVM_HYDRA_WHERE, guest(ANSWER), self->vm.nr, 0));
	}
	EXPECT_EQ(self->last, answer[0]);
	EXPECT_EQ(0xee, answer[self->vm.nr]);
}

/* What /proc/self/pagemap says of a page: it is there; no other process has it */
#define PRESENT		(1ULL << 63)
#define EXCLUSIVE	(1ULL << 56)

/* These for a page of the region */
static uint64_t entry_of(const struct vm *vm, unsigned long page)
{
	unsigned long address = (unsigned long)vm->region + page * PAGE_SIZE;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0;

	if (pread(fd, &entry, sizeof(entry), address / PAGE_SIZE * sizeof(entry)) < 0)
		entry = 0;
	close(fd);
	return entry & (PRESENT | EXCLUSIVE);
}

/* A look brings no page in. */
TEST_F(vm_hypercall, where_pages_are)
{
	volatile char *zeros = self->vm.region + VM_REGION_PAGES / 2 * PAGE_SIZE;

	for (int node = 0; node <= self->last; node++) {
		ASSERT_EQ(0, bind(&self->vm, node, 1, MPOL_BIND, node));
		ASSERT_EQ(0, madvise(self->vm.region + node * PAGE_SIZE, PAGE_SIZE,
				     MADV_DONTNEED));
		EXPECT_EQ(KVM_HYDRA_NO_DOMAIN, call(self, 0, KVM_HYDRA_LOOK, guest(node), 0, 0));
		EXPECT_EQ(0, entry_of(&self->vm, node));
		*vm_word(&self->vm, node) = 1;
		EXPECT_EQ(node, call(self, 0, KVM_HYDRA_LOOK, guest(node), 0, 0));
		EXPECT_EQ(node, call(self, 0, KVM_HYDRA_LOOK, guest(node) + 100, 0, 0));
	}
	/* The page of zeros, which is everywhere */
	ASSERT_EQ(0, madvise((void *)zeros, PAGE_SIZE, MADV_DONTNEED));
	ASSERT_EQ(0, *zeros);
	EXPECT_EQ(KVM_HYDRA_NO_DOMAIN,
		  call(self, 0, KVM_HYDRA_LOOK, guest(VM_REGION_PAGES / 2), 0, 0));
}

static volatile int signals;

static void count_signal(int number)
{
	signals++;
}

/* A thread that runs a call of the guest, and what has become of it */
struct caller {
	FIXTURE_DATA(vm_hypercall) *self;
	unsigned int what;
	long ret;
	volatile int tid;
	volatile bool ended;
};

static void *caller_main(void *arg)
{
	struct caller *c = arg;

	c->tid = gettid();
	c->ret = call(c->self, 0, c->what, guest(0), PAGES, 0);
	c->ended = true;
	return NULL;
}

/*
 * No call waits for a page that a userfaultfd is to bring: its handler may never answer, and a
 * signal has to end KVM_RUN. A handler that does answer, after two seconds and some signals,
 * lets the test end otherwise.
 */
TEST_F(vm_hypercall, no_call_waits_for_user_space)
{
	const long answers[] = {
		[KVM_HYDRA_WHERE] = -EFAULT,
		[KVM_HYDRA_LOOK] = KVM_HYDRA_NO_DOMAIN,
		[KVM_HYDRA_PLACE] = 0,
	};
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register missing = {
		.range = { (uintptr_t)self->vm.region, PAGES * PAGE_SIZE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		SKIP(return, "no userfaultfd");
	signal(SIGUSR1, count_signal);
	ASSERT_EQ(0, ioctl(fd, UFFDIO_API, &api));
	ASSERT_EQ(0, ioctl(fd, UFFDIO_REGISTER, &missing));
	ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_DONTNEED));
	for (unsigned int what = KVM_HYDRA_WHERE; what <= KVM_HYDRA_PLACE; what++) {
		struct caller c = { .self = self, .what = what };
		struct uffd_msg message;
		pthread_t thread;

		ASSERT_EQ(0, pthread_create(&thread, NULL, caller_main, &c));
		for (int i = 0; i < 200 && !c.ended; i++) {
			usleep(10000);
			if (i > 100)
				syscall(__NR_tgkill, getpid(), c.tid, SIGUSR1);
		}
		/* The call asks for no page. If it waits for one, it gets it now. */
		EXPECT_TRUE(c.ended) TH_LOG("call %u waits", what);
		EXPECT_GT(0, read(fd, &message, sizeof(message)));
		if (!c.ended) {
			ASSERT_EQ(0, ioctl(fd, UFFDIO_UNREGISTER, &missing.range));
			pthread_join(thread, NULL);
			ASSERT_EQ(0, ioctl(fd, UFFDIO_REGISTER, &missing));
			ASSERT_EQ(0, madvise(self->vm.region, PAGES * PAGE_SIZE, MADV_DONTNEED));
			continue;
		}
		pthread_join(thread, NULL);
		EXPECT_EQ(answers[what], c.ret) TH_LOG("call %u", what);
		EXPECT_EQ(0, entry_of(&self->vm, 0));
	}
	EXPECT_EQ(0, signals);
	close(fd);
}

TEST_F(vm_hypercall, pages_go_to_a_domain_with_their_words)
{
	for (int domain = self->last; domain >= 0; domain--) {
		ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES));
		ASSERT_EQ(PAGES, place(self, 0, PAGES, domain));
		for (unsigned long page = 0; page < PAGES; page++) {
			ASSERT_EQ(domain, call(self, 0, KVM_HYDRA_LOOK, guest(page), 0, 0))
				TH_LOG("page %lu", page);
			ASSERT_EQ(self->last - domain + 1,
				  *vm_word(&self->vm, page));
		}
	}
	/* The most at once */
	EXPECT_EQ(512, place(self, 0, 512, self->last));
	/* A page that is not there is nowhere. */
	ASSERT_EQ(0, madvise(self->vm.region, PAGE_SIZE, MADV_DONTNEED));
	EXPECT_EQ(1, call(self, 0, KVM_HYDRA_PLACE, guest(0), 2, self->last));
}

/* How many pages are in a domain */
static long count(FIXTURE_DATA(vm_hypercall) *self, unsigned long pages, int domain)
{
	long there = 0;

	for (unsigned long page = 0; page < pages; page++)
		there += call(self, 0, KVM_HYDRA_LOOK, guest(page), 0, 0) == domain;
	return there;
}

/*
 * The host bounds how many pages it moves, and says if it would move more later. Pages that are
 * there already cost nothing, and pages that do not move cost as much as others.
 */
TEST_F_TIMEOUT(vm_hypercall, pages_move_at_a_rate, 90)
{
	const char *file = "/sys/module/kvm/parameters/hydra_place_pages";
	time_t start;
	pid_t child;
	long moved;

	ASSERT_EQ(PAGES, place(self, 0, PAGES, 0));
	/* It moves none, and will not later. */
	ASSERT_EQ(0, hydra_write_file(file, "0"));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	EXPECT_EQ(PAGES, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, 0));
	/* One page a second, and those of four seconds at once */
	start = time(NULL);
	EXPECT_EQ(0, hydra_write_file(file, "1"));
	EXPECT_EQ(-EAGAIN, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	moved = count(self, PAGES, self->last);
	EXPECT_LE(1, moved);
	EXPECT_GE(5 + time(NULL) - start, moved);
	EXPECT_EQ(0, hydra_write_file(file, "8192"));
	EXPECT_EQ(PAGES, place(self, 0, PAGES, self->last));
	/* Pages of another process, too, spend what four seconds allow. */
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		pause();
		_exit(0);
	}
	sleep(4);
	start = time(NULL);
	EXPECT_EQ(0, hydra_write_file(file, "1"));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, 0));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(-EAGAIN, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, 0));
	EXPECT_GE(1 + time(NULL) - start, count(self, PAGES, 0));
	EXPECT_EQ(0, hydra_write_file(file, "8192"));
	EXPECT_EQ(PAGES, place(self, 0, PAGES, 0));
}

/* What the operator has bound stays, and so does all else of the same call. */
TEST_F(vm_hypercall, memory_that_is_bound_stays)
{
	unsigned long here = 1UL << hydra_node_id(0);

	ASSERT_EQ(PAGES, place(self, 0, PAGES, 0));
	ASSERT_EQ(0, bind(&self->vm, PAGES - 1, 1, MPOL_BIND, 0));
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, guest(0), 0, 0));
	ASSERT_EQ(0, bind(&self->vm, PAGES - 1, 1, MPOL_INTERLEAVE, 0));
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	/* To where it is bound it may go, and a preference is no bound. */
	EXPECT_EQ(PAGES, place(self, 0, PAGES, 0));
	ASSERT_EQ(0, bind(&self->vm, PAGES - 1, 1, MPOL_PREFERRED, 0));
	EXPECT_EQ(PAGES, place(self, 0, PAGES, self->last));
	ASSERT_EQ(0, bind(&self->vm, PAGES - 1, 1, MPOL_DEFAULT, 0));
	/* The task's own policy is for memory without one. */
	ASSERT_EQ(0, set_mempolicy(MPOL_BIND, &here, 64));
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, 1));
	EXPECT_EQ(self->last, call(self, 0, KVM_HYDRA_LOOK, guest(0), 0, 0));
	ASSERT_EQ(0, set_mempolicy(MPOL_DEFAULT, NULL, 0));
	EXPECT_EQ(PAGES, place(self, 0, PAGES, 1));
}

TEST_F(vm_hypercall, memory_stays_in_the_cpuset)
{
	char group[64];

	ASSERT_EQ(0, hydra_make_group(group));
	if (hydra_write_number(group, "../cgroup.subtree_control", "+cpuset")) {
		rmdir(group);
		SKIP(return, "no cpuset controller (CONFIG_CPUSETS)");
	}
	EXPECT_EQ(PAGES, place(self, 0, PAGES, 0));
	EXPECT_EQ(0, hydra_write_number(group, "cpuset.mems", "%d", hydra_node_id(0)));
	EXPECT_EQ(0, hydra_write_number(group, "cgroup.procs", "%d", 0));
	EXPECT_EQ(-EPERM, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, guest(0), 0, 0));
	EXPECT_EQ(0, hydra_write_number(group, "../cgroup.procs", "%d", 0));
	EXPECT_EQ(PAGES, place(self, 0, PAGES, self->last));
	rmdir(group);
	hydra_write_file("/sys/fs/cgroup/cgroup.subtree_control", "-cpuset");
}

TEST_F(vm_hypercall, bad_input_moves_nothing)
{
	const unsigned long end = guest(VM_REGION_PAGES);
	const struct {
		unsigned int what;
		unsigned long a1, a2, a3;
		long ret;
	} tries[] = {
		{ KVM_HYDRA_PLACE + 1, guest(0), 1, 0, -EINVAL },
		{ 0x7fffffff, guest(0), 1, 0, -EINVAL },
		{ KVM_HYDRA_WHERE, guest(ANSWER), 0, 0, -EINVAL },
		{ KVM_HYDRA_WHERE, guest(ANSWER), 4097, 0, -EINVAL },
		{ KVM_HYDRA_WHERE, NOTHING, 1, 0, -EFAULT },
		{ KVM_HYDRA_WHERE, READ_ONLY, 1, 0, -EFAULT },
		{ KVM_HYDRA_WHERE, end - 2, 4, 0, -EFAULT },
		{ KVM_HYDRA_LOOK, NOTHING, 0, 0, -EFAULT },
		{ KVM_HYDRA_PLACE, guest(0) + 8, 1, 1, -EINVAL },
		{ KVM_HYDRA_PLACE, guest(0), 0, 1, -EINVAL },
		{ KVM_HYDRA_PLACE, guest(0), 513, 1, -EINVAL },
		{ KVM_HYDRA_PLACE, guest(0), 1, hydra_nodes(), -EINVAL },
		{ KVM_HYDRA_PLACE, guest(0), 1, 0xffffffff, -EINVAL },
		{ KVM_HYDRA_PLACE, NOTHING, 1, 0, -EFAULT },
		{ KVM_HYDRA_PLACE, READ_ONLY, 1, 1, -EFAULT },
		{ KVM_HYDRA_PLACE, end - PAGE_SIZE, 2, 1, -EFAULT },
	};

	vm_set_user_memory_region(self->vm.kvm, VM_SLOT + 1, KVM_MEM_READONLY, READ_ONLY,
				  2 * PAGE_SIZE, self->vm.region);
	ASSERT_EQ(2, place(self, 0, 2, 0));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		EXPECT_EQ(tries[i].ret, call(self, 0, tries[i].what, tries[i].a1, tries[i].a2,
					     tries[i].a3)) TH_LOG("try %zu", i);
	}
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, guest(0), 0, 0));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, READ_ONLY, 0, 0));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, end - PAGE_SIZE, 0, 0));
}

/* Pages that another process has, too. */
TEST_F(vm_hypercall, pages_of_others_stay)
{
	pid_t child;

	ASSERT_EQ(PAGES, place(self, 0, PAGES, 0));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		pause();
		_exit(0);
	}
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_PLACE, guest(0), PAGES, self->last));
	EXPECT_EQ(0, call(self, 0, KVM_HYDRA_LOOK, guest(PAGES - 1) + 4, 0, 0));
	/* Nothing was copied: both processes still have the page. */
	EXPECT_EQ(PRESENT, entry_of(&self->vm, PAGES - 1));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(PAGES, place(self, 0, PAGES, self->last));
}

HYDRA_HARNESS_MAIN
