// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vm_util.h"

#define CODE	0x1000UL		/* the guest's address of the page with the program */
#define SPIN	0x100UL			/* where in the page the other program is */
#define STOP	0x800UL			/* and the byte that ends it */

/*
 * 32 bits, flat segments, no paging; esi and ebx: the address, ecx and ebp: how many pages,
 * edx: how often. No stack, no interrupt table.
 */
static const unsigned char program[] = {
	0xf0, 0xff, 0x06,			/* again: lock incl (%esi) */
	0x81, 0xc6, 0x00, 0x10, 0x00, 0x00,	/* add $4096, %esi */
	0x49,					/* dec %ecx */
	0x75, 0xf4,				/* jnz again */
	0x89, 0xde,				/* mov %ebx, %esi */
	0x89, 0xe9,				/* mov %ebp, %ecx */
	0x4a,					/* dec %edx */
	0x75, 0xed,				/* jnz again */
	0xe6, VM_PORT,				/* out %al, $VM_PORT */
	0xeb, 0xfe,				/* jmp . */
};

/* The same; esi: the address of a word, edi: that of a byte */
static const unsigned char spin_program[] = {
	0xf0, 0xff, 0x06,			/* again: lock incl (%esi) */
	0x80, 0x3f, 0x00,			/* cmpb $0, (%edi) */
	0x74, 0xf8,				/* je again */
	0xe6, VM_PORT,				/* out %al, $VM_PORT */
	0xeb, 0xfe,				/* jmp . */
};

const char *vm_missing(void)
{
	int kvm;

	if (access("/proc/self/hydra_vm", F_OK))
		return "no /proc/self/hydra_vm: CONFIG_KVM_HYDRA is off";
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		return "no /dev/kvm: the machine cannot run virtual machines";
	close(kvm);
	return NULL;
}

static int add_memory(struct vm *vm, int slot, unsigned long guest, char *host, size_t size)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot,
		.guest_phys_addr = guest,
		.memory_size = size,
		.userspace_addr = (uintptr_t)host,
	};

	return ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region) ? -errno : 0;
}

/*
 * Private memory of small pages, all present and written, so that only nested faults happen.
 * It begins where a huge page may.
 */
static char *make_memory(size_t size)
{
	char *memory = mmap(NULL, size + TABLE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	if (memory == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)memory % TABLE_SIZE;
	munmap(memory, before);
	memory += before;
	munmap(memory + size, TABLE_SIZE - before);
	madvise(memory, size, MADV_NOHUGEPAGE);
	memset(memory, 0, size);
	for (size_t i = 0; i < size; i += PAGE_SIZE)
		*(volatile char *)(memory + i) = 0;
	return memory;
}

static int make_vcpu(struct vm *vm, struct vm_vcpu *vcpu, int id)
{
	struct kvm_segment flat = {
		.limit = 0xffffffff, .type = 3, .present = 1, .db = 1, .s = 1, .g = 1,
	};
	int size = ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_sregs sregs;

	vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, id);
	if (vcpu->fd < 0)
		return -errno;
	vcpu->stats = ioctl(vcpu->fd, KVM_GET_STATS_FD, NULL);
	if (vcpu->stats < 0)
		return -errno;
	vcpu->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd, 0);
	if (vcpu->run == MAP_FAILED || ioctl(vcpu->fd, KVM_GET_SREGS, &sregs))
		return -errno;
	if (vm->ring_entries) {
		vcpu->ring = mmap(NULL, vm->ring_entries * sizeof(*vcpu->ring),
				  PROT_READ | PROT_WRITE, MAP_SHARED, vcpu->fd,
				  KVM_DIRTY_LOG_PAGE_OFFSET * PAGE_SIZE);
		if (vcpu->ring == MAP_FAILED)
			return -errno;
	}
	sregs.ds = flat;
	sregs.es = flat;
	sregs.fs = flat;
	sregs.gs = flat;
	sregs.ss = flat;
	flat.type = 11;
	sregs.cs = flat;
	sregs.cr0 |= 1;		/* protected mode */
	return ioctl(vcpu->fd, KVM_SET_SREGS, &sregs) ? -errno : 0;
}

int vm_make(struct vm *vm)
{
	return vm_make_with_rings(vm, 0);
}

int vm_make_with_rings(struct vm *vm, unsigned int entries)
{
	struct kvm_enable_cap rings = {
		.cap = KVM_CAP_DIRTY_LOG_RING,
		.args[0] = entries * sizeof(struct kvm_dirty_gfn),
	};
	int ret;

	memset(vm, 0, sizeof(*vm));
	vm->ring_entries = entries;
	vm->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (vm->kvm < 0)
		return -errno;
	vm->fd = ioctl(vm->kvm, KVM_CREATE_VM, 0);
	if (vm->fd < 0 || (entries && ioctl(vm->fd, KVM_ENABLE_CAP, &rings)))
		return -errno;
	vm->code = make_memory(PAGE_SIZE);
	vm->region = make_memory(VM_REGION_PAGES * PAGE_SIZE);
	if (!vm->code || !vm->region)
		return -ENOMEM;
	memcpy(vm->code, program, sizeof(program));
	memcpy(vm->code + SPIN, spin_program, sizeof(spin_program));
	ret = add_memory(vm, 0, CODE, vm->code, PAGE_SIZE);
	if (!ret)
		ret = add_memory(vm, 1, VM_REGION, vm->region, VM_REGION_PAGES * PAGE_SIZE);
	while (!ret && vm->nr < hydra_nodes())
		ret = vm_add_vcpu(vm);
	return ret;
}

int vm_add_vcpu(struct vm *vm)
{
	int ret = make_vcpu(vm, &vm->vcpu[vm->nr], vm->nr);

	vm->nr++;
	return ret;
}

void vm_end(struct vm *vm)
{
	int size = ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	for (int i = 0; i < vm->nr; i++) {
		munmap(vm->vcpu[i].run, size);
		if (vm->vcpu[i].ring)
			munmap(vm->vcpu[i].ring, vm->ring_entries * sizeof(struct kvm_dirty_gfn));
		close(vm->vcpu[i].stats);
		close(vm->vcpu[i].fd);
	}
	close(vm->fd);
	close(vm->kvm);
	munmap(vm->code, PAGE_SIZE);
	munmap(vm->region, VM_REGION_PAGES * PAGE_SIZE);
	vm_set_idle("30");
	hydra_restore_balancing();
}

/* A guest that ended otherwise than its program does: what KVM says about it */
static void tell_exit(const struct vm_vcpu *v)
{
	struct kvm_regs regs = { };

	ioctl(v->fd, KVM_GET_REGS, &regs);
	fprintf(stderr, "# the guest ended with exit reason %u at rip %#llx, rsi %#llx\n",
		v->run->exit_reason, regs.rip, regs.rsi);
	if (v->run->exit_reason != KVM_EXIT_INTERNAL_ERROR)
		return;
	fprintf(stderr, "# internal error %u, with", v->run->internal.suberror);
	for (unsigned int i = 0; i < v->run->internal.ndata; i++)
		fprintf(stderr, " %#llx", v->run->internal.data[i]);
	fprintf(stderr, "\n");
}

int vm_run_program(struct vm *vm, int vcpu, const struct kvm_regs *regs)
{
	struct vm_vcpu *v = &vm->vcpu[vcpu];
	int ret;

	/* Completes the exit of the run before, which would move the instruction pointer. */
	v->run->immediate_exit = 1;
	ioctl(v->fd, KVM_RUN, 0);
	v->run->immediate_exit = 0;
	if (ioctl(v->fd, KVM_SET_REGS, regs))
		return -errno;
	do {
		ret = ioctl(v->fd, KVM_RUN, 0);
		if (ret && errno != EINTR && errno != EAGAIN && errno != EFAULT)
			return -errno;
		if (ret ? errno == EFAULT : v->run->exit_reason == KVM_EXIT_DIRTY_RING_FULL)
			usleep(100);
	} while (ret || v->run->exit_reason == KVM_EXIT_DIRTY_RING_FULL);
	if (v->run->exit_reason == KVM_EXIT_IO && v->run->io.port == VM_PORT)
		return 0;
	tell_exit(v);
	return -EPROTO;
}

/* Add 1 to the words of some pages, so many times. */
static int write_pages(struct vm *vm, int vcpu, unsigned long first, unsigned long pages,
		       unsigned long times)
{
	unsigned long address = VM_REGION + first * PAGE_SIZE;
	struct kvm_regs regs = {
		.rip = CODE, .rflags = 2, .rsi = address, .rbx = address,
		.rcx = pages, .rbp = pages, .rdx = times,
	};

	return vm_run_program(vm, vcpu, &regs);
}

void vm_pin_to_node(int node)
{
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(node, cpus) - 1]);
}

int vm_run(struct vm *vm, int vcpu, int node, unsigned long first, unsigned long pages)
{
	vm_pin_to_node(node);
	return write_pages(vm, vcpu, first, pages, 1);
}

/* The parts of the area in turn */
static void *writer_main(void *arg)
{
	struct vm_writer *w = arg;

	vm_pin_to_node(w->node);
	for (unsigned long i = w->vcpu; !w->ret && !w->stop; i++) {
		unsigned long part = i % w->parts;

		w->ret = write_pages(w->vm, w->vcpu, part * w->pages, w->pages, w->times);
		w->written[part] += w->times;
	}
	w->ended = true;
	return NULL;
}

int vm_writers_begin(struct vm *vm, struct vm_writer *writers, unsigned long pages, int parts)
{
	for (int i = 0; i < vm->nr; i++) {
		writers[i] = (struct vm_writer){
			.vm = vm, .vcpu = i, .node = i, .pages = pages, .parts = parts, .times = 8,
		};
		if (pthread_create(&writers[i].thread, NULL, writer_main, &writers[i]))
			return -EAGAIN;
	}
	for (int i = 0; i < vm->nr; i++)
		vm_await_writer(&writers[i]);
	return 0;
}

void vm_await_writer(const struct vm_writer *w)
{
	int part = w->parts - 1;
	unsigned long before = w->written[part];

	while (w->written[part] == before && !w->ret)
		usleep(100);
}

unsigned long vm_written(const struct vm *vm, const struct vm_writer *writers)
{
	unsigned long written = 0;

	for (int i = 0; i < vm->nr; i++)
		written += writers[i].written[0];
	return written;
}

int vm_writers_end(struct vm *vm, struct vm_writer *writers)
{
	int ret = 0;

	for (int i = 0; i < vm->nr; i++)
		writers[i].stop = true;
	for (int i = 0; i < vm->nr; i++) {
		pthread_join(writers[i].thread, NULL);
		if (writers[i].ret)
			ret = writers[i].ret;
	}
	return ret;
}

static void *spin(void *arg)
{
	struct vm_spinner *s = arg;
	struct kvm_regs regs = {
		.rip = CODE + SPIN, .rflags = 2, .rsi = VM_REGION + s->page * PAGE_SIZE,
		.rdi = CODE + STOP,
	};

	hydra_pin_to_cpu(s->cpu);
	s->ret = vm_run_program(s->vm, s->vcpu, &regs);
	return NULL;
}

int vm_spin(struct vm_spinner *s)
{
	unsigned int before = *vm_word(s->vm, s->page);
	long exits = vm_vcpu_number(s->vm, s->vcpu, "exits");

	s->vm->code[STOP] = 0;
	s->ret = 0;
	if (pthread_create(&s->thread, NULL, spin, s))
		return -EAGAIN;
	/* Another vCPU may write the same word. */
	while ((*vm_word(s->vm, s->page) == before || vm_vcpu_number(s->vm, s->vcpu, "exits") == exits) &&
	       !*(volatile int *)&s->ret)
		usleep(100);
	return s->ret;
}

int vm_spin_end(struct vm *vm, struct vm_spinner *spinners, int nr)
{
	int ret = 0;

	*(volatile char *)&vm->code[STOP] = 1;
	for (int i = 0; i < nr; i++) {
		pthread_join(spinners[i].thread, NULL);
		if (spinners[i].ret)
			ret = spinners[i].ret;
	}
	return ret;
}

int vm_prefault(struct vm *vm, int vcpu, unsigned long first, unsigned long pages)
{
	struct kvm_pre_fault_memory range = {
		.gpa = VM_REGION + first * PAGE_SIZE, .size = pages * PAGE_SIZE,
	};

	/* The kernel takes off the range what it has done. */
	while (range.size)
		if (ioctl(vm->vcpu[vcpu].fd, KVM_PRE_FAULT_MEMORY, &range) &&
		    errno != EINTR && errno != EAGAIN)
			return -errno;
	return 0;
}

int vm_log(struct vm *vm, bool on)
{
	struct kvm_userspace_memory_region region = {
		.slot = 1,
		.flags = on ? KVM_MEM_LOG_DIRTY_PAGES : 0,
		.guest_phys_addr = VM_REGION,
		.memory_size = VM_REGION_PAGES * PAGE_SIZE,
		.userspace_addr = (uintptr_t)vm->region,
	};

	return ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region) ? -errno : 0;
}

long vm_logged(struct vm *vm, unsigned long bitmap[VM_REGION_PAGES / 64])
{
	struct kvm_dirty_log log = { .slot = 1, .dirty_bitmap = bitmap };
	long found = 0;

	memset(bitmap, 0, VM_REGION_PAGES / 8);
	if (ioctl(vm->fd, KVM_GET_DIRTY_LOG, &log))
		return -errno;
	for (unsigned long i = 0; i < VM_REGION_PAGES; i++)
		found += bitmap[i / 64] >> i % 64 & 1;
	return found;
}

long vm_faults(struct vm *vm, int vcpu)
{
	return vm_vcpu_number(vm, vcpu, "pf_fixed");
}

long vm_vcpu_number(struct vm *vm, int vcpu, const char *name)
{
	struct kvm_stats_header header;
	int fd = vm->vcpu[vcpu].stats;
	long found = -ENOENT;

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
		found = -EPROTO;
	for (unsigned int i = 0; found == -ENOENT && i < header.num_desc; i++) {
		size_t size = sizeof(struct kvm_stats_desc) + header.name_size;
		struct kvm_stats_desc *desc = alloca(size);
		uint64_t value;

		if (pread(fd, desc, size, header.desc_offset + i * size) != (ssize_t)size)
			found = -EPROTO;
		else if (!strcmp(desc->name, name) &&
			 pread(fd, &value, sizeof(value),
			       header.data_offset + desc->offset) == sizeof(value))
			found = value;
	}
	return found;
}

int vm_open_log(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	return log < 0 || lseek(log, 0, SEEK_END) < 0 ? -errno : log;
}

bool vm_has_said(int log, const char *what)
{
	char text[2048];
	ssize_t got;

	/* A read gives one message; EPIPE: some have been overwritten. */
	while ((got = read(log, text, sizeof(text) - 1)) > 0 || errno == EPIPE) {
		text[got > 0 ? got : 0] = 0;
		if (strstr(text, what))
			return true;
	}
	return false;
}

long vm_number(const char *key)
{
	return hydra_number("/proc/self/hydra_vm", key);
}

int vm_set_idle(const char *seconds)
{
	return hydra_write_file(HYDRA_SYSFS "vm_idle_seconds", seconds);
}

bool vm_await_dropped(long trees)
{
	for (int i = 0; i < 150 && vm_number("dropped") < trees; i++)
		usleep(100000);
	return vm_number("dropped") == trees;
}

int vm_set(const char *text)
{
	return hydra_write_file("/proc/self/hydra_vm", text);
}

int vm_read_tables(struct vm_tables *tables)
{
	char text[16384], *line, *rest;
	int len = hydra_read_file("/proc/self/hydra_vm_tables", text, sizeof(text));

	if (len < 0)
		return len;
	memset(tables, 0, sizeof(*tables));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		unsigned long local, remote, nr;
		int id, node;

		if (sscanf(line, "domain %*d node %d vcpus %*u local_leaves %lu remote_leaves %lu",
			   &id, &local, &remote) == 3) {
			for (node = 0; node < hydra_nodes(); node++)
				if (hydra_node_id(node) == id) {
					tables->local[node] = local;
					tables->remote[node] = remote;
				}
		} else if (sscanf(line, "node %d nested_tables %lu", &id, &nr) == 2) {
			for (node = 0; node < hydra_nodes(); node++)
				if (hydra_node_id(node) == id)
					tables->tables[node] = nr;
		} else if (strncmp(line, "vm ", 3)) {
			fprintf(stderr, "# cannot read \"%s\"\n", line);
			return -EPROTO;
		}
	}
	return 0;
}

unsigned long vm_all_tables(const struct vm_tables *tables)
{
	unsigned long all = 0;

	for (int node = 0; node < hydra_nodes(); node++)
		all += tables->tables[node];
	return all;
}

bool vm_consistent(void)
{
	char text[16384];
	int len = hydra_read_file("/proc/self/hydra_vm_check", text, sizeof(text));

	if (len > 0 && strstr(text, "violations 0\n") && !strstr(text, "violation N"))
		return true;
	fprintf(stderr, "# hydra_vm_check says (%d):\n%s", len, len > 0 ? text : "\n");
	return false;
}
