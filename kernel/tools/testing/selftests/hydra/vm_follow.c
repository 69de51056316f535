// SPDX-License-Identifier: GPL-2.0-only
/*
 * tables=follow: the tables of a VM with one tree go to the node of their data, with all that
 * their entries say, also while vCPUs write.
 */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define PAGES	64UL
#define IDLE	"/sys/kernel/mm/page_idle/bitmap"
#define LEAVES	(VM_REGION_PAGES / TABLE_PAGES)	/* leaf tables of the region */

FIXTURE(vm_follow) {
	struct vm vm;
	struct vm_writer writers[HYDRA_MAX_NODES];
	int last;
};

FIXTURE_SETUP(vm_follow)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_off());
	/* Memslot 0 and the region are there at first. */
	vm_pin_to_node(0);
	vm_make(&self->vm);
	self->last = hydra_nodes() - 1;
}

FIXTURE_TEARDOWN(vm_follow)
{
	if (!self->vm.kvm)
		return;
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

/* Move the first pages of the region to a node, and those that come later. */
static int move_data(const struct vm *vm, int node, unsigned long pages)
{
	unsigned long mask = 1UL << hydra_node_id(node);

	return mbind(vm->region, pages * PAGE_SIZE, MPOL_BIND, &mask, 64, MPOL_MF_MOVE) ?
		-errno : 0;
}

/* Wait until so many tables have moved. */
static bool await_moved(long tables)
{
	for (int i = 0; i < 300 && vm_number("moved_tables") < tables; i++)
		usleep(100000);
	return vm_number("moved_tables") >= tables;
}

/* The leaf tables of the region: how many are on a node, by the map */
static unsigned long leaves_on(int node)
{
	unsigned long gfn, found = 0;
	int level, id;
	FILE *map = fopen("/proc/self/hydra_vm_map", "r");
	char line[256];

	while (map && fgets(line, sizeof(line), map))
		if (sscanf(line, "domain - gfn %lx level %d node %d", &gfn, &level, &id) == 3)
			found += level == 1 && gfn >= VM_REGION / PAGE_SIZE &&
				 id == hydra_node_id(node);
	if (map)
		fclose(map);
	return found;
}

/* A VM moves: its vCPU, and its memory. The tables stay; or, if they are to follow, follow. */
TEST_F_TIMEOUT(vm_follow, tables_follow_their_data, 90)
{
	struct vm_tables before, stays, after;
	long faults, upper;

	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(LEAVES, leaves_on(0));
	ASSERT_EQ(0, move_data(&self->vm, self->last, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_read_tables(&before));
	/* Without the root, and the leaf table of memslot 0, which stay */
	upper = vm_all_tables(&before) - LEAVES - 2;
	/* Stock */
	ASSERT_EQ(0, vm_set_idle("1"));
	sleep(2);
	ASSERT_EQ(0, vm_read_tables(&stays));
	EXPECT_EQ(LEAVES, leaves_on(0));
	EXPECT_EQ(0, stays.local[self->last]);
	EXPECT_LE(VM_REGION_PAGES, stays.remote[self->last]);

	ASSERT_EQ(0, vm_set("tables=follow"));
	ASSERT_TRUE(await_moved(LEAVES + upper));
	EXPECT_EQ(LEAVES, leaves_on(self->last));
	ASSERT_EQ(0, vm_read_tables(&after));
	EXPECT_LE(VM_REGION_PAGES, after.local[self->last]);
	EXPECT_EQ(vm_all_tables(&before), vm_all_tables(&after));
	EXPECT_EQ(before.tables[self->last] + LEAVES + upper, after.tables[self->last]);
	EXPECT_TRUE(vm_consistent());
	/* Nothing is to fill again. */
	faults = vm_faults(&self->vm, 0);
	ASSERT_EQ(0, vm_run(&self->vm, 0, self->last, 0, VM_REGION_PAGES));
	EXPECT_EQ(faults, vm_faults(&self->vm, 0));
	for (unsigned long page = 0; page < VM_REGION_PAGES; page++) {
		ASSERT_EQ(3, *vm_word(&self->vm, page));
	}
	/* All is where it ought to be. */
	sleep(3);
	EXPECT_EQ(LEAVES + upper, vm_number("moved_tables"));
}

/* A table goes to the node of more than half of its pages, and to no other. */
TEST_F_TIMEOUT(vm_follow, half_of_the_pages_is_not_enough, 60)
{
	if (self->last < 2)
		SKIP(return, "needs three nodes");
	ASSERT_EQ(0, move_data(&self->vm, self->last, VM_REGION_PAGES));
	ASSERT_EQ(0, move_data(&self->vm, 1, TABLE_PAGES / 2));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_set("tables=follow"));
	sleep(3);
	EXPECT_EQ(1, leaves_on(0));
	EXPECT_EQ(0, vm_number("moved_tables"));
	ASSERT_EQ(0, move_data(&self->vm, 1, TABLE_PAGES / 2 + 1));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, TABLE_PAGES));
	ASSERT_TRUE(await_moved(1));
	EXPECT_EQ(1, leaves_on(1));
}

static int page_idle(bool make, const char *address, bool *idle)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int file = open(IDLE, O_RDWR | O_CLOEXEC);
	uint64_t entry = 0, bits = 0, pfn;
	int ret = -EIO;

	if (pread(pagemap, &entry, 8, (uintptr_t)address / PAGE_SIZE * 8) == 8) {
		pfn = entry & ((1UL << 55) - 1);
		if (make)
			bits = 1UL << pfn % 64;
		if ((make ? pwrite(file, &bits, 8, pfn / 64 * 8) :
			    pread(file, &bits, 8, pfn / 64 * 8)) == 8)
			ret = 0;
		*idle = bits >> pfn % 64 & 1;
	}
	close(file);
	close(pagemap);
	return ret;
}

/* The guest has used some pages before their table moves: Linux finds that out afterwards. */
TEST_F_TIMEOUT(vm_follow, accessed_bits_move_along, 60)
{
	bool idle;

	if (access(IDLE, R_OK | W_OK))
		SKIP(return, "no " IDLE " (CONFIG_IDLE_PAGE_TRACKING)");
	ASSERT_EQ(0, move_data(&self->vm, self->last, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES));
	ASSERT_EQ(1, leaves_on(0));
	for (unsigned long page = 0; page < PAGES; page++) {
		ASSERT_EQ(0, page_idle(true, self->vm.region + page * PAGE_SIZE, &idle));
	}
	/* Hardware alone: the vCPU has the entries. */
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES / 2));
	ASSERT_EQ(0, vm_set_idle("1"));
	ASSERT_EQ(0, vm_set("tables=follow"));
	ASSERT_TRUE(await_moved(1));
	EXPECT_EQ(1, leaves_on(self->last));
	for (unsigned long page = 0; page < PAGES; page++) {
		ASSERT_EQ(0, page_idle(false, self->vm.region + page * PAGE_SIZE, &idle));
		EXPECT_EQ(page >= PAGES / 2, idle) TH_LOG("page %lu", page);
	}
}

/*
 * vCPUs of all nodes write all the time, the host moves the memory from node to node, and the
 * tables follow. No write is lost. With the log of dirty pages entries lose and get the
 * permission to write, by fast_page_fault() too.
 */
static void move_under_load(struct __test_metadata *_metadata, FIXTURE_DATA(vm_follow) *self,
			    bool log)
{
	unsigned long written, bitmap[VM_REGION_PAGES / 64];
	long moved = 0;

	/* Their leaf table is on the first node. */
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, PAGES));
	ASSERT_EQ(0, vm_set_idle("1"));
	if (log)
		vm_log(&self->vm, true);
	ASSERT_EQ(0, vm_set("tables=follow"));
	ASSERT_EQ(0, vm_writers_begin(&self->vm, self->writers, PAGES, 1));
	for (int round = 0; round < 4; round++) {
		moved = vm_number("moved_tables");
		ASSERT_EQ(0, move_data(&self->vm, round % 2 ? 0 : self->last, PAGES));
		for (int i = 0; i < 300 && vm_number("moved_tables") == moved; i++) {
			usleep(100000);
			if (log)
				vm_logged(&self->vm, bitmap);
		}
		EXPECT_LT(moved, vm_number("moved_tables")) TH_LOG("round %d", round);
		for (int vcpu = 0; vcpu < self->vm.nr; vcpu++)
			vm_await_writer(&self->writers[vcpu]);
	}
	ASSERT_EQ(0, vm_writers_end(&self->vm, self->writers));
	written = vm_written(&self->vm, self->writers);
	for (unsigned long page = 0; page < PAGES; page++) {
		EXPECT_EQ(written + 1, *vm_word(&self->vm, page))
			TH_LOG("page %lu", page);
	}
	EXPECT_TRUE(vm_consistent());
}

TEST_F_TIMEOUT(vm_follow, while_vcpus_write, 150)
{
	move_under_load(_metadata, self, false);
}

TEST_F_TIMEOUT(vm_follow, while_vcpus_write_and_pages_are_logged, 150)
{
	move_under_load(_metadata, self, true);
}

static bool shows(const char *line)
{
	char text[4096];

	return hydra_read_file("/proc/self/hydra_vm", text, sizeof(text)) > 0 &&
	       strstr(text, line);
}

TEST_F(vm_follow, one_tree_alone_follows)
{
	struct hydra_settings node = { .domains = HYDRA_SCOPE_NODE };
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&node, sizeof(node), KVM_HYDRA_FOLLOW },
	};
	static const char *const bad[] = {
		"domains=node", "hydra,tables=follow", "tables=follow,domains=node", "tables=follow,hydra", "tables=",
		"tables=move", "tables", "tables=follow,", ",tables=follow", "tables=stay,hydr",
	};

	ASSERT_EQ(0, vm_set("tables=follow"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		EXPECT_EQ(-EINVAL, vm_set(bad[i])) TH_LOG("%s", bad[i]);
	}
	EXPECT_TRUE(shows("tables follow\n"));
	/* Of all trees, or none: a policy says it for all keys. */
	ASSERT_EQ(0, vm_set("hydra"));
	EXPECT_TRUE(shows("tables stay\n"));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(-EINVAL, vm_set("tables=follow"));
	ASSERT_EQ(0, vm_set("domains=machine,tables=follow"));
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_TRUE(shows("tables follow\n"));
	ASSERT_EQ(0, vm_set("domains=node,tables=stay"));

	ASSERT_EQ(-1, __vm_ioctl(self->vm.kvm, KVM_ENABLE_CAP, &cap));
	EXPECT_EQ(EINVAL, errno);
	cap.args[0] = (uintptr_t)&machine;
	cap.args[2] = 4;
	ASSERT_EQ(-1, __vm_ioctl(self->vm.kvm, KVM_ENABLE_CAP, &cap));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, vm_number("active"));
	cap.args[2] = KVM_HYDRA_FOLLOW;
	vm_ioctl(self->vm.kvm, KVM_ENABLE_CAP, &cap);
	EXPECT_TRUE(shows("tables follow\n"));
	EXPECT_EQ(0, vm_number("active"));
}

HYDRA_HARNESS_MAIN
