// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "processor.h"
#include "vm_util.h"

#define VCPUS	64	/* for so many there is memory */

/* In the guest's memory: ends the spinners. */
static bool stop;

/* Add 1 to the words of some pages, so many times. */
static VM_GUEST void guest_write(unsigned long first, unsigned long pages, unsigned long times)
{
	for (; times; times--)
		for (unsigned long i = 0; i < pages; i++)
			__atomic_fetch_add((unsigned int *)(first + i * PAGE_SIZE), 1, __ATOMIC_SEQ_CST);
	vm_guest_end();
}

/* The same for one word, all the time */
static VM_GUEST void guest_spin(unsigned int *word)
{
	do
		__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED));
	vm_guest_end();
}

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

void vm_make(struct vm *vm)
{
	vm_make_with_rings(vm, 0);
}

void vm_make_with_rings(struct vm *vm, unsigned int entries)
{
	const size_t size = VM_REGION_PAGES * PAGE_SIZE;
	struct userspace_mem_region *own;

	memset(vm, 0, sizeof(*vm));
	vm->kvm = vm_create(VCPUS);
	if (entries)
		vm_enable_dirty_ring(vm->kvm, entries * sizeof(struct kvm_dirty_gfn));
	own = memslot2region(vm->kvm, 0);
	TEST_ASSERT(!madvise(own->host_mem, own->region.memory_size, MADV_POPULATE_WRITE),
		    "no memory for the guest's programs");
	vm->region = make_memory(size);
	TEST_ASSERT(vm->region, "no memory for the region");
	vm_set_user_memory_region(vm->kvm, VM_SLOT, 0, VM_REGION, size, vm->region);
	virt_map_level(vm->kvm, VM_REGION, VM_REGION, 4 * size, PG_LEVEL_2M);
	while (vm->nr < hydra_nodes())
		vm_add_vcpu(vm);
}

void vm_add_vcpu(struct vm *vm)
{
	struct vm_vcpu *v = &vm->vcpu[vm->nr];

	v->kvm = vm_vcpu_add(vm->kvm, vm->nr, NULL);
	vcpu_regs_get(v->kvm, &v->regs);
	v->stats = vcpu_get_stats_fd(v->kvm);
	if (!vm->nr++) {
		read_stats_header(v->stats, &vm->stats);
		vm->descriptors = read_stats_descriptors(v->stats, &vm->stats);
	}
}

void vm_end(struct vm *vm)
{
	for (int i = 0; i < vm->nr; i++)
		close(vm->vcpu[i].stats);
	free(vm->descriptors);
	kvm_vm_free(vm->kvm);
	munmap(vm->region, VM_REGION_PAGES * PAGE_SIZE);
	vm->kvm = NULL;
	vm_set_idle("30");
	hydra_restore_balancing();
}

int vm_call_with(struct vm *vm, int vcpu, const void *program, const uint64_t arguments[4])
{
	struct kvm_vcpu *v = vm->vcpu[vcpu].kvm;
	struct kvm_regs regs = vm->vcpu[vcpu].regs;
	int ret;

	/* Completes the exit of the run before, which would move the instruction pointer. */
	vcpu_run_complete_io(v);
	regs.rip = (uintptr_t)program;
	regs.rdi = arguments[0];
	regs.rsi = arguments[1];
	regs.rdx = arguments[2];
	regs.rcx = arguments[3];
	vcpu_regs_set(v, &regs);
	do {
		ret = _vcpu_run(v);
		if (ret && errno != EAGAIN && errno != EFAULT)
			return -errno;
		if (ret ? errno == EFAULT : v->run->exit_reason == KVM_EXIT_DIRTY_RING_FULL)
			usleep(100);
	} while (ret || v->run->exit_reason == KVM_EXIT_DIRTY_RING_FULL);
	if (v->run->exit_reason == KVM_EXIT_IO && v->run->io.port == VM_PORT)
		return 0;
	fprintf(stderr, "# the guest ended with exit reason %s\n", exit_reason_str(v->run->exit_reason));
	vcpu_dump(stderr, v, 2);
	return -EPROTO;
}

/* Add 1 to the words of some pages, so many times. */
static int write_pages(struct vm *vm, int vcpu, unsigned long first, unsigned long pages,
		       unsigned long times)
{
	return vm_call(vm, vcpu, guest_write, VM_REGION + first * PAGE_SIZE, pages, times);
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

	hydra_pin_to_cpu(s->cpu);
	s->ret = vm_call(s->vm, s->vcpu, guest_spin, VM_REGION + s->page * PAGE_SIZE);
	return NULL;
}

int vm_spin(struct vm_spinner *s)
{
	unsigned int before = *vm_word(s->vm, s->page);
	long exits = vm_vcpu_number(s->vm, s->vcpu, "exits");

	write_guest_global(s->vm->kvm, stop, false);
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

	write_guest_global(vm->kvm, stop, true);
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
		if (__vcpu_ioctl(vm->vcpu[vcpu].kvm, KVM_PRE_FAULT_MEMORY, &range) &&
		    errno != EINTR && errno != EAGAIN)
			return -errno;
	return 0;
}

void vm_log(struct vm *vm, bool on)
{
	vm_set_user_memory_region(vm->kvm, VM_SLOT, on ? KVM_MEM_LOG_DIRTY_PAGES : 0, VM_REGION,
				  VM_REGION_PAGES * PAGE_SIZE, vm->region);
}

long vm_logged(struct vm *vm, unsigned long bitmap[VM_REGION_PAGES / 64])
{
	long found = 0;

	memset(bitmap, 0, VM_REGION_PAGES / 8);
	kvm_vm_get_dirty_log(vm->kvm, VM_SLOT, bitmap);
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
	for (unsigned int i = 0; i < vm->stats.num_desc; i++) {
		struct kvm_stats_desc *desc = get_stats_descriptor(vm->descriptors, i, &vm->stats);
		uint64_t value;

		if (strcmp(desc->name, name))
			continue;
		read_stat_data(vm->vcpu[vcpu].stats, &vm->stats, desc, &value, 1);
		return value;
	}
	return -ENOENT;
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
