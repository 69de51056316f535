// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts what the nested page tables (NPT, EPT) of a virtual machine cost: a small machine with
 * a vCPU for each node, whose guest writes 8 MiB of small pages.
 *
 * shared: the vCPU of each node writes all pages, one node after another.
 * pair: the same for two nodes; the vCPUs of the others do not run.
 * private: each writes pages of its own, in leaf tables of its own.
 * moved: a vCPU writes all pages, goes to the last node, and writes them there.
 * followed: the same, and the memory goes to the last node, too. If the machine has one tree, its
 * tables follow (tables=follow). Then the vCPU writes the pages once more.
 * dropped: vCPUs run on all CPUs but one. The host takes away a page that those of the last
 * node use, again and again.
 * shared-huge, dropped-huge: as shared and dropped, with pages of 2 MiB.
 */
#include <argp.h>
#include <errno.h>
#include <error.h>
#include <numaif.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "json.h"
#include "machine.h"
#include "vm_util.h"

#define DROPS 20
#define VCPUS HYDRA_MAX_NODES

static struct vm vm;
static bool huge;

/* Exit if a step failed, with its -errno. */
static void must(int ret, const char *what)
{
	if (ret)
		error(EXIT_FAILURE, ret < 0 ? -ret : 0, "%s", what);
}

static void write_pages(int vcpu, int node, unsigned long first, unsigned long pages)
{
	must(vm_run(&vm, vcpu, node, first, pages), "the guest cannot write its pages");
}

/* From now on the region has pages of 2 MiB. */
static void make_huge(void)
{
	size_t size = VM_REGION_PAGES * PAGE_SIZE;

	/* A read of a page that was taken away would bring the small parts of a page of zeros. */
	must(hydra_write_file("/sys/kernel/mm/transparent_hugepage/use_zero_page", "0"),
	     "use_zero_page");
	if (prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0))
		error(EXIT_FAILURE, errno, "PR_SET_THP_DISABLE");
	/* Without a page table the next write to each 2 MiB makes a huge page. */
	if (mmap(vm.region, size, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS,
		 -1, 0) == MAP_FAILED ||
	    madvise(vm.region, size, MADV_HUGEPAGE))
		error(EXIT_FAILURE, errno, "cannot map huge pages");
	memset(vm.region, 0, size);
}

/* Leaf tables of the region, and all other nested tables */
struct tables {
	uint64_t leaf, other;
};

static struct tables count_tables(void)
{
	FILE *map = fopen("/proc/self/hydra_vm_map", "r");
	struct tables found = { 0, 0 };
	char line[128];

	if (!map)
		error(EXIT_FAILURE, errno, "/proc/self/hydra_vm_map");
	while (fgets(line, sizeof(line), map)) {
		unsigned long gfn;
		int level;

		if (sscanf(line, "domain %*s gfn %lx level %d", &gfn, &level) != 2)
			continue;
		if (level == 1 && gfn >= VM_REGION / PAGE_SIZE)
			found.leaf++;
		else
			found.other++;
	}
	fclose(map);
	return found;
}

static struct tables say_tables(const char *key)
{
	struct tables found = count_tables();

	json_open_object(key);
	json_number("leaf", found.leaf);
	json_number("other", found.other);
	json_close();
	return found;
}

/* For each node: the leaf entries that its vCPUs reach, through tables on the node and elsewhere */
static void say_places(void)
{
	struct vm_tables places;

	must(vm_read_tables(&places), "/proc/self/hydra_vm_tables");
	json_open_list("local");
	for (int node = 0; node < hydra_nodes(); node++)
		json_number(NULL, places.local[node]);
	json_close();
	json_open_list("remote");
	for (int node = 0; node < hydra_nodes(); node++)
		json_number(NULL, places.remote[node]);
	json_close();
}

/* The vCPUs of some nodes write, in turn; how many exits each took for missing entries. */
static void use(int nodes, bool shared)
{
	unsigned long pages = shared ? VM_REGION_PAGES : VM_REGION_PAGES / hydra_nodes();
	long exits[HYDRA_MAX_NODES];

	if (!shared && pages % TABLE_PAGES)
		error(EXIT_LACKING, 0, "%d nodes cannot have whole leaf tables of their own", hydra_nodes());
	for (int node = 0; node < nodes; node++) {
		unsigned long first = shared ? 0 : node * pages;
		long before;

		/* Memslot 0, and the upper tables; the first huge page brings all others along. */
		if (!huge)
			write_pages(node, node, first, 1);
		before = vm_faults(&vm, node);
		write_pages(node, node, first, pages);
		exits[node] = vm_faults(&vm, node) - before;
	}
	json_open_list("exits");
	for (int node = 0; node < nodes; node++)
		json_number(NULL, exits[node]);
	json_close();
	say_places();
	say_tables("tables");
}

static void move(void)
{
	int last = hydra_nodes() - 1;
	long before;

	write_pages(0, 0, 0, VM_REGION_PAGES);
	say_tables("before");
	/* Longer than the pages take: the entries are copied from the old tree. */
	must(vm_set_idle("5"), "vm_idle_seconds");
	before = vm_faults(&vm, 0);
	write_pages(0, last, 0, VM_REGION_PAGES);
	json_number("exits", vm_faults(&vm, 0) - before);
	if (vm_number("active") && !vm_await_dropped(1))
		error(EXIT_FAILURE, 0, "the old tree was not dropped");
	say_places();
	say_tables("tables");
}

static void move_memory(char *memory, size_t size, int node)
{
	unsigned long mask = 1UL << hydra_node_id(node);

	if (mbind(memory, size, MPOL_BIND, &mask, 64, MPOL_MF_MOVE))
		error(EXIT_FAILURE, errno, "cannot move memory");
}

/* But for the root */
static void await_tables(long all)
{
	must(vm_set_idle("1"), "vm_idle_seconds");
	must(vm_set("tables=follow"), "tables=follow");
	for (int i = 0; i < 300 && vm_number("moved_tables") < all; i++)
		usleep(100000);
	if (vm_number("moved_tables") != all)
		error(EXIT_FAILURE, 0, "%ld tables of %ld have followed",
		      vm_number("moved_tables"), all);
}

static void follow(void)
{
	struct userspace_mem_region *own = memslot2region(vm.kvm, 0);
	int last = hydra_nodes() - 1;
	struct tables tables;
	long before;

	write_pages(0, 0, 0, VM_REGION_PAGES);
	tables = say_tables("before");
	move_memory(vm.region, VM_REGION_PAGES * PAGE_SIZE, last);
	move_memory(own->host_mem, own->region.memory_size, last);
	must(vm_set_idle("5"), "vm_idle_seconds");
	write_pages(0, last, 0, VM_REGION_PAGES);
	if (!vm_number("active"))
		await_tables(tables.leaf + tables.other - 1);
	else if (!vm_await_dropped(1))
		error(EXIT_FAILURE, 0, "the old tree was not dropped");
	before = vm_faults(&vm, 0);
	write_pages(0, last, 0, VM_REGION_PAGES);
	json_number("exits", vm_faults(&vm, 0) - before);
	say_places();
	say_tables("tables");
}

/* How often all vCPUs together were flushed */
static uint64_t flushes(const struct vm_spinner *spinners, int nr)
{
	uint64_t sum = 0;

	for (int i = 0; i < nr; i++)
		sum += vm_vcpu_number(&vm, spinners[i].vcpu, "tlb_flush");
	return sum;
}

/* Wait until a vCPU has been flushed once more, or two requests would be one. */
static void await_flush(const struct vm_spinner *s, long before)
{
	for (int i = 0; i < 50000 && vm_vcpu_number(&vm, s->vcpu, "tlb_flush") == before; i++)
		usleep(100);
}

static void drop(void)
{
	static struct vm_spinner spinners[VCPUS];
	bool all = !vm_number("active");
	long flushed[VCPUS];
	int last = hydra_nodes() - 1, cpus[HYDRA_MAX_CPUS], nr = 0, near = 0;
	volatile unsigned int *word = (volatile unsigned int *)vm.region;
	uint64_t before;

	for (int node = 0; node <= last; node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = !node; i < count; i++, nr++) {
			if (nr == VCPUS)
				error(EXIT_LACKING, 0, "more CPUs than %d", VCPUS);
			if (nr == vm.nr)
				vm_add_vcpu(&vm);
			near += node == last;
			spinners[nr] = (struct vm_spinner){
				.vm = &vm, .vcpu = nr, .cpu = cpus[i],
				.page = node == last ? 0 : huge ? (1 + nr % 3) * TABLE_PAGES : 1 + nr,
			};
			must(vm_spin(&spinners[nr]), "the guest does not run");
		}
	}
	hydra_node_cpus(0, cpus);
	hydra_pin_to_cpu(cpus[0]);
	before = flushes(spinners, nr);
	for (int i = 0; i < DROPS; i++) {
		for (int j = 0; j < nr; j++)
			flushed[j] = vm_vcpu_number(&vm, spinners[j].vcpu, "tlb_flush");
		if (madvise(vm.region, huge ? TABLE_SIZE : PAGE_SIZE, MADV_DONTNEED))
			error(EXIT_FAILURE, errno, "cannot drop a page");
		while (!*word)
			usleep(100);
		for (int j = 0; j < nr; j++)
			if (all || !spinners[j].page)
				await_flush(&spinners[j], flushed[j]);
		/* One that need not be flushed, and is, comes to that now. */
		usleep(20000);
	}
	json_number("vcpus", nr);
	json_number("users", near);
	json_number("drops", DROPS);
	json_number("flushes", flushes(spinners, nr) - before);
	must(vm_spin_end(&vm, spinners, nr), "the guest failed");
}

static const char * const cases[] = {
	"shared", "pair", "private", "moved", "followed", "dropped", "shared-huge", "dropped-huge",
};
static const char *what;

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'w':
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			if (!strcmp(arg, cases[i]))
				what = cases[i];
		if (!what)
			argp_error(state, "unknown case '%s': see --help", arg);
		return 0;
	case ARGP_KEY_END:
		if (!what)
			argp_error(state, "give --what");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option argp_options[] = {
	{ "what", 'w', "CASE", 0, "shared, pair, private, moved, followed, dropped, shared-huge or dropped-huge: see the head of nested.c", 0 },
	{ 0 }
};

static const struct argp argp = {
	.options = argp_options,
	.parser = parse_option,
	.doc = "Count the nested page tables of a small virtual machine, its exits and its flushes, under the policy of this process. Prints one line of JSON.\v"
	       "Exit status: 0 done; 1 failed; 2 this machine or kernel lacks what is needed; 64 wrong usage.",
};

int main(int argc, char **argv)
{
	const char *missing;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	missing = vm_missing();
	if (missing)
		error(EXIT_LACKING, 0, "%s", missing);
	if (hydra_nodes() < 2)
		error(EXIT_LACKING, 0, "this machine has one node");
	must(hydra_stop_balancing(), "NUMA balancing");
	must(vm_set_idle("0"), "vm_idle_seconds");
	vm_make(&vm);
	huge = strstr(what, "huge");
	if (huge)
		make_huge();
	json_open_object(NULL);
	json_string("program", "nested");
	json_string("case", what);
	json_number("nodes", hydra_nodes());
	json_number("pages", VM_REGION_PAGES);
	json_number("active", vm_number("active"));
	if (!strcmp(what, "moved"))
		move();
	else if (!strcmp(what, "followed"))
		follow();
	else if (!strncmp(what, "dropped", 7))
		drop();
	else
		use(strcmp(what, "pair") ? hydra_nodes() : 2, strcmp(what, "private"));
	json_number("fallbacks", vm_number("fallbacks"));
	json_close();
	vm_end(&vm);
	return fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
