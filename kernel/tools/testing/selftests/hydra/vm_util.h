/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A small virtual machine on the library of KVM's self tests: one vCPU for each NUMA node,
 * run by the test's own thread, which goes to the node first. The guest writes one word of
 * each page of a region, and stops. Or vCPUs spin, in threads of their own.
 */
#ifndef HYDRA_VM_UTIL_H
#define HYDRA_VM_UTIL_H

#include <pthread.h>

#include "kvm_util.h"
#include "hydra_util.h"
#include "linux_uapi.h"

/*
 * The region is memslot 1. Its addresses are the same to the guest's programs and to KVM, and
 * so are those of the next three regions: the guest's page tables map them by huge pages.
 */
#define VM_REGION_PAGES		2048UL			/* 8 MiB */
#define VM_REGION		0x10000000UL
#define VM_SLOT			1
/*
 * What a vCPU that writes the region uses of memslot 0, which the library fills: the page of the
 * program, and four page tables of the guest.
 */
#define VM_OWN_PAGES		5UL

struct vm_vcpu {
	struct kvm_vcpu *kvm;
	struct kvm_regs regs;	/* as the library has made them, with a stack */
	int stats;		/* KVM waits for a vCPU that runs before it gives this file */
};

struct vm {
	struct kvm_vm *kvm;
	int nr;
	char *region;		/* VM_REGION_PAGES small pages, all present */
	struct vm_vcpu vcpu[HYDRA_MAX_NODES];
	struct kvm_stats_header stats;
	struct kvm_stats_desc *descriptors;	/* of the numbers of each vCPU */
};

/* The word of a page of the region which guests raise */
static inline volatile unsigned int *vm_word(const struct vm *vm, unsigned long page)
{
	return (volatile unsigned int *)(vm->region + page * PAGE_SIZE);
}

/* NULL, or why no VM can be made */
const char *vm_missing(void);

/*
 * Make a VM, which takes over the settings of the test's process. If KVM refuses a step, the
 * library says so, and ends the process.
 */
void vm_make(struct vm *vm);
/* The same; its vCPUs log the pages that they write in rings of so many entries. */
void vm_make_with_rings(struct vm *vm, unsigned int entries);
/* End it, and let NUMA balancing and the drops of idle trees go on. */
void vm_end(struct vm *vm);

/*
 * The thread goes to a node, to the last CPU: vCPUs are to run there, and not on CPU 0 if its
 * node has others. In QEMU's emulator (7.2) a CPU that restores floating-point registers also
 * reads flags of CPU 0 and writes them back (cpu_clear_ignne in QEMU's source), without a lock.
 * Now and then that undoes a part of an exit from a guest on CPU 0, and nested paging stays on.
 */
void vm_pin_to_node(int node);
/*
 * The thread goes to a node and lets a vCPU write so many pages of the region. Returns 0,
 * -errno of KVM_RUN, or -EPROTO if the guest ended in another way than by its own word.
 */
int vm_run(struct vm *vm, int vcpu, int node, unsigned long first, unsigned long pages);

/*
 * A program of the guest: a function, which begins a page of its own, does not return, and ends
 * with vm_guest_end(). The programs of vm_util.c use no stack, so that all vCPUs use the same
 * pages of memslot 0.
 */
#define VM_GUEST		noinline __attribute__((noreturn, aligned(4096)))
#define VM_PORT			0x10

static __always_inline __attribute__((noreturn)) void vm_guest_end(void)
{
	for (;;)
		asm volatile("outb %%al, %0" : : "N" (VM_PORT) : "memory");
}

/*
 * Run a program of the guest, with up to four arguments, from its begin to its end. A guest that
 * may not write its memory now (EFAULT), or has no place in its dirty ring, tries again. The same
 * result
 */
#define vm_call(vm, vcpu, program, ...) \
	vm_call_with(vm, vcpu, program, (const uint64_t[4]){ __VA_ARGS__ })
int vm_call_with(struct vm *vm, int vcpu, const void *program, const uint64_t arguments[4]);

/*
 * A thread on a node that lets a vCPU write the region all the time: so many pages from the
 * begin are a part, the next ones another. The guest adds 1 to each page of a part, so many
 * times, and goes to the next part.
 */
#define VM_PARTS	HYDRA_MAX_NODES
struct vm_writer {
	struct vm *vm;
	int vcpu, node, parts;
	unsigned long pages, times;
	volatile unsigned long written[VM_PARTS];	/* by part: how often each page */
	volatile bool stop, ended;
	volatile int ret;
	pthread_t thread;
};

/* A writer for each vCPU, on each node. 0 or -errno */
int vm_writers_begin(struct vm *vm, struct vm_writer *writers, unsigned long pages, int parts);
/* The writer has written a part, or has failed. */
void vm_await_writer(const struct vm_writer *w);
/* How often all writers together have raised each page of the first part */
unsigned long vm_written(const struct vm *vm, const struct vm_writer *writers);
/* End all writers. 0, or the -errno of one of them */
int vm_writers_end(struct vm *vm, struct vm_writer *writers);

/*
 * The thread lets a vCPU fault so many pages of the region, without running the guest. 0 or
 * -errno of KVM_PRE_FAULT_MEMORY
 */
int vm_prefault(struct vm *vm, int vcpu, unsigned long first, unsigned long pages);

/* Begin to log which pages of the region the guest writes, or end it. */
void vm_log(struct vm *vm, bool on);
/* How many pages of the region a round of the log has; begins the next round */
long vm_logged(struct vm *vm, unsigned long bitmap[VM_REGION_PAGES / 64]);

/* A number that KVM keeps of a vCPU, or -errno */
long vm_vcpu_number(struct vm *vm, int vcpu, const char *name);
/* How many nested page faults of a vCPU have installed an entry, or -errno */
long vm_faults(struct vm *vm, int vcpu);

/* A vCPU that runs the guest on a CPU all the time, and adds 1 to the word of one page */
struct vm_spinner {
	struct vm *vm;
	int vcpu, cpu;
	unsigned long page;
	pthread_t thread;
	int ret;
};

/* One vCPU more */
void vm_add_vcpu(struct vm *vm);
/* Start a spinner, and wait until the guest runs. 0 or -errno */
int vm_spin(struct vm_spinner *s);
/* End all spinners. 0, or the -errno of one of them */
int vm_spin_end(struct vm *vm, struct vm_spinner *spinners, int nr);

/* After so many seconds a tree without vCPUs is dropped; 0, of the tests: never. 0 or -errno */
int vm_set_idle(const char *seconds);
/* Wait until so many idle trees of the VM have been dropped. False: that takes too long. */
bool vm_await_dropped(long trees);

/* The kernel's messages from now on. -errno, or what vm_has_said() takes */
int vm_open_log(void);
/* Has the kernel said this since the log was opened, or since the last question? */
bool vm_has_said(int log, const char *what);

/* A number of /proc/self/hydra_vm; negative: no such line */
long vm_number(const char *key);
int vm_set(const char *text);

struct vm_tables {
	unsigned long local[HYDRA_MAX_NODES], remote[HYDRA_MAX_NODES];
	unsigned long tables[HYDRA_MAX_NODES];
};

int vm_read_tables(struct vm_tables *tables);
unsigned long vm_all_tables(const struct vm_tables *tables);
/* The kernel's checker finds nothing wrong in the VMs of the process. */
bool vm_consistent(void);

#define VM_BEGIN() do {							\
	const char *__missing;						\
									\
	HYDRA_BEGIN();							\
	__missing = vm_missing();					\
	if (__missing)							\
		SKIP(return, "%s", __missing);				\
	/* NUMA balancing takes entries away, which tests count. */	\
	ASSERT_EQ(0, hydra_stop_balancing());				\
	ASSERT_EQ(0, vm_set_idle("0"));					\
} while (0)

#endif /* HYDRA_VM_UTIL_H */
