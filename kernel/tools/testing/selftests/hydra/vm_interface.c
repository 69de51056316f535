// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra_vm: what a VM inherits, what its settings may be, and for which processes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/hydra_para.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define INHERIT		"/sys/module/kvm/parameters/hydra"
#define CHECKED		"/sys/module/kvm/parameters/hydra_check_tables"
#define ENDS		20	/* VMs that end while their files are used */
#define KILLS		8	/* VMMs that are killed while their files are used */
#define ALLOW		HYDRA_SYSFS "allow"
#define VIOLATIONS	HYDRA_SYSFS "violations"
#define VMS		"/sys/kernel/debug/kvm"
#define FILES		4
#define INSTANCE	HYDRA_TRACEFS "/instances/hydra_vm"

static const char * const files[FILES] = {
	"hydra_vm", "hydra_vm_tables", "hydra_vm_map", "hydra_vm_check"
};

FIXTURE(vm_interface) {
	struct vm vm;
};

FIXTURE_SETUP(vm_interface)
{
	VM_BEGIN();
	ASSERT_EQ(0, hydra_on(4, HYDRA_FILTER_TABLE));
}

FIXTURE_TEARDOWN(vm_interface)
{
	hydra_write_file(INHERIT, "Y");
	hydra_write_file(CHECKED, "16384");
	if (!self->vm.kvm) {
		vm_set_idle("30");
		hydra_restore_balancing();
		return;
	}
	EXPECT_TRUE(vm_consistent());
	vm_end(&self->vm);
}

static int read_settings(char *text, size_t size)
{
	return hydra_read_file("/proc/self/hydra_vm", text, size);
}

static bool shows(const char *line)
{
	char text[4096];

	return read_settings(text, sizeof(text)) > 0 && strstr(text, line);
}

TEST_F(vm_interface, vm_takes_over_the_settings_of_its_process)
{
	ASSERT_EQ(-ENOENT, vm_set("hydra"));
	vm_make(&self->vm);
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(4, vm_number("prefetch"));
	EXPECT_TRUE(shows("domains node\n"));
	EXPECT_TRUE(shows("filter table\n"));
	/* Later settings of the process are not the VM's. */
	EXPECT_EQ(0, hydra_off());
	EXPECT_EQ(1, vm_number("active"));
}

/* What only VMs have: a process has it for those that it makes, and so do its children. */
TEST_F(vm_interface, vm_takes_over_what_is_for_vms_alone)
{
	struct hydra_settings both = { .domains = HYDRA_SCOPE_NODE, .expose = 1 };
	char text[4096];
	pid_t pid;

	ASSERT_EQ(0, hydra_write_policy(getpid(), "linux,tables=follow"));
	vm_make(&self->vm);
	EXPECT_TRUE(shows("tables follow\n") && shows("expose off\n") && shows("policy linux\n"));
	EXPECT_EQ(0, vm_number("active"));
	vm_end(&self->vm);
	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra,expose=on"));
	ASSERT_LT(0, hydra_read_file("/proc/self/hydra", text, sizeof(text)));
	EXPECT_TRUE(strstr(text, "policy hydra\n") && strstr(text, "expose on\n"))
		TH_LOG("%s", text);
	pid = fork();
	if (!pid) {
		vm_make(&self->vm);
		_exit(!shows("expose on\n") || vm_number("active") != 1);
	}
	ASSERT_LT(0, pid);
	EXPECT_EQ(0, hydra_wait_child(pid));
	/* A policy says it for all keys. */
	ASSERT_EQ(0, hydra_write_policy(getpid(), "hydra"));
	vm_make(&self->vm);
	EXPECT_TRUE(shows("expose off\n"));
	vm_end(&self->vm);
	ASSERT_EQ(0, hydra_set(&both));
	EXPECT_EQ(-EINVAL, hydra_write_policy(getpid(), "tables=follow"));
	vm_make(&self->vm);
	EXPECT_TRUE(shows("tables stay\n") && shows("expose on\n"));
}

/* A program may know fewer members than the kernel: the others become 0. */
TEST_F(vm_interface, settings_of_an_older_program)
{
	struct hydra_settings seen, s = {
		.domains = HYDRA_SCOPE_NODE, .prefetch = 9, .filter = HYDRA_FILTER_TABLE,
		.expose = 1,
	};

	ASSERT_EQ(0, hydra_set(&s));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(0, memcmp(&s, &seen, sizeof(s)));
	memset(&seen, 0x5a, sizeof(seen));
	ASSERT_EQ(0, prctl(PR_GET_HYDRA, &seen, HYDRA_SETTINGS_SIZE_FIRST, 0, 0));
	EXPECT_EQ(0, memcmp(&s, &seen, HYDRA_SETTINGS_SIZE_FIRST));
	EXPECT_EQ(0x5a5a5a5a, seen.tables);
	ASSERT_EQ(0, prctl(PR_SET_HYDRA, &s, HYDRA_SETTINGS_SIZE_FIRST, 0, 0));
	ASSERT_EQ(0, hydra_get(&seen));
	EXPECT_EQ(0, seen.expose);
	s.expose = 2;
	EXPECT_EQ(-EINVAL, hydra_set(&s));
	s.expose = 0;
	s.tables = HYDRA_TABLES_FOLLOW;
	EXPECT_EQ(-EINVAL, hydra_set(&s));
	s.domains = HYDRA_SCOPE_MACHINE;
	EXPECT_EQ(0, hydra_set(&s));
}

TEST_F(vm_interface, kvm_hydra_off_stops_the_inheritance)
{
	ASSERT_EQ(0, hydra_write_file(INHERIT, "N"));
	vm_make(&self->vm);
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_TRUE(shows("policy linux\n"));
	/* One may still ask for it; the keys that the text does not name are as for a process. */
	EXPECT_EQ(0, vm_set("domains=node"));
	EXPECT_EQ(HYDRA_PREFETCH_MAX, vm_number("prefetch"));
	EXPECT_EQ(0, vm_set("hydra"));
	EXPECT_EQ(1, vm_number("active"));
}

/* A VM cannot have what this process has: it is stock, and says so. */
TEST_F(vm_interface, settings_for_processes_only_are_not_taken_over)
{
	ASSERT_EQ(0, hydra_write_policy(getpid(), "radixvm"));
	vm_make(&self->vm);
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_EQ(0, vm_number("fallback"));
	EXPECT_TRUE(shows("policy linux\n"));
}

static int enable_cap(struct kvm_vm *kvm, const struct kvm_enable_cap *cap)
{
	return __vm_ioctl(kvm, KVM_ENABLE_CAP, cap) ? errno : 0;
}

TEST_F(vm_interface, vmm_changes_the_settings)
{
	struct hydra_settings node = {
		.domains = HYDRA_SCOPE_NODE, .prefetch = 3, .filter = HYDRA_FILTER_TABLE,
	};
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&node, sizeof(node) },
	};
	struct {
		struct hydra_settings known;
		uint32_t more;
	} longer = { .known = { .domains = HYDRA_SCOPE_NODE, .prefetch = 5 } };

	ASSERT_EQ(0, hydra_off());
	vm_make(&self->vm);
	/* With the flags that the third argument may have */
	EXPECT_EQ(KVM_HYDRA_TREES | KVM_HYDRA_FOLLOW | KVM_HYDRA_EXPOSE | KVM_HYDRA_STATE,
		  kvm_check_cap(KVM_CAP_HYDRA));
	EXPECT_EQ(KVM_HYDRA_TREES | KVM_HYDRA_FOLLOW | KVM_HYDRA_EXPOSE | KVM_HYDRA_STATE,
		  vm_check_cap(self->vm.kvm, KVM_CAP_HYDRA));
	EXPECT_EQ(0, vm_number("active"));
	ASSERT_EQ(0, enable_cap(self->vm.kvm, &cap));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(3, vm_number("prefetch"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 1, 0, 64));
	EXPECT_LT(0, vm_number("moves"));
	cap.args[0] = (uintptr_t)&machine;
	ASSERT_EQ(0, enable_cap(self->vm.kvm, &cap));
	EXPECT_EQ(0, vm_number("active"));
	/* A VMM that knows more members than the kernel, which are 0 */
	cap.args[0] = (uintptr_t)&longer;
	cap.args[1] = sizeof(longer);
	ASSERT_EQ(0, enable_cap(self->vm.kvm, &cap));
	EXPECT_EQ(5, vm_number("prefetch"));
	longer.more = 1;
	longer.known.prefetch = 6;
	EXPECT_EQ(E2BIG, enable_cap(self->vm.kvm, &cap));
	EXPECT_EQ(5, vm_number("prefetch"));
}

/* A VMM reads what it has set, and what others have. It may know more than the kernel, or less. */
TEST_F(vm_interface, vmm_reads_the_state)
{
	struct {
		struct hydra_vm_state known;
		uint64_t more;
	} state;
	int fd;

	vm_make(&self->vm);
	fd = self->vm.kvm->fd;
	EXPECT_EQ(0, __kvm_has_device_attr(fd, KVM_CAP_HYDRA, sizeof(state)));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	memset(&state, 0x5a, sizeof(state));
	ASSERT_EQ(0, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, sizeof(state), &state));
	EXPECT_EQ(HYDRA_SCOPE_NODE, state.known.domains);
	EXPECT_EQ(4, state.known.prefetch);
	EXPECT_EQ(HYDRA_FILTER_TABLE, state.known.filter);
	EXPECT_EQ(1, state.known.active);
	EXPECT_EQ(0, state.known.fallback);
	EXPECT_EQ(~0ULL, state.known.limit_kib);
	EXPECT_EQ(vm_number("nested_kib"), state.known.nested_kib);
	EXPECT_EQ(0, state.more);
	ASSERT_EQ(0, vm_set("linux,tables=follow,expose=on,limit_kib=4096"));
	memset(&state, 0x5a, sizeof(state));
	ASSERT_EQ(0, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, sizeof(state.known), &state));
	EXPECT_EQ(HYDRA_TABLES_FOLLOW, state.known.tables);
	EXPECT_EQ(1, state.known.expose);
	EXPECT_EQ(0, state.known.active);
	EXPECT_EQ(4096, state.known.limit_kib);
	EXPECT_EQ(0x5a5a5a5a5a5a5a5aULL, state.more);
	ASSERT_EQ(0, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, 4, &state));
	EXPECT_EQ(-1, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, 3, &state));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, PAGE_SIZE + 1, &state));
	EXPECT_EQ(E2BIG, errno);
	EXPECT_EQ(-1, __kvm_device_attr_get(fd, KVM_CAP_HYDRA, 4, (void *)16));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, __kvm_has_device_attr(fd, 1, 4));
	EXPECT_EQ(ENXIO, errno);
}

TEST_F(vm_interface, limits_are_settings)
{
	struct hydra_settings node = { .domains = HYDRA_SCOPE_NODE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&node, sizeof(node), 0, 65536 },
	};

	vm_make(&self->vm);
	EXPECT_TRUE(shows("limit_kib max\n"));
	EXPECT_EQ(0, vm_set("limit_kib=2048"));
	EXPECT_EQ(2048, vm_number("limit_kib"));
	EXPECT_EQ(4, vm_number("prefetch"));
	/* A policy leaves it. */
	EXPECT_EQ(0, vm_set("hydra"));
	EXPECT_EQ(0, vm_set("again"));
	EXPECT_EQ(2048, vm_number("limit_kib"));
	EXPECT_EQ(-EINVAL, vm_set("limit_kib=-1"));
	EXPECT_EQ(-EINVAL, vm_set("limit_kib="));
	EXPECT_EQ(-EINVAL, vm_set("limit_kib=3"));
	EXPECT_EQ(-EINVAL, vm_set("prefetch=1,limit_kib=x"));
	EXPECT_EQ(-EINVAL, hydra_write_policy(getpid(), "limit_kib=4"));
	EXPECT_EQ(0, vm_set("prefetch=3,limit_kib=4096,filter=none"));
	EXPECT_EQ(4096, vm_number("limit_kib"));
	EXPECT_EQ(3, vm_number("prefetch"));
	ASSERT_EQ(0, enable_cap(self->vm.kvm, &cap));
	EXPECT_EQ(65536, vm_number("limit_kib"));
	cap.args[3] = 0;
	ASSERT_EQ(0, enable_cap(self->vm.kvm, &cap));
	EXPECT_TRUE(shows("limit_kib max\n"));
}

#define ALL	-2	/* The sum of a statistic by domain, or the statistic */
#define SHARED	-1	/* The tree of all vCPUs */

/* A statistic of the VM: of a domain, or as above; or -ENOENT */
static long vm_statistic(struct vm *vm, const char *name, int domain)
{
	struct kvm_stats_desc *all, *desc;
	struct kvm_stats_header header;
	uint64_t values[64];
	long sum = -ENOENT;
	int fd = vm_get_stats_fd(vm->kvm);

	read_stats_header(fd, &header);
	all = read_stats_descriptors(fd, &header);
	for (unsigned int i = 0; i < header.num_desc; i++) {
		desc = get_stats_descriptor(all, i, &header);
		if (strcmp(desc->name, name) || desc->size > 64)
			continue;
		read_stat_data(fd, &header, desc, values, desc->size);
		sum = 0;
		for (int d = 0; d < desc->size; d++)
			sum += domain == ALL || d == domain + 1 ? values[d] : 0;
	}
	free(all);
	close(fd);
	return sum;
}

TEST_F(vm_interface, statistics_say_the_same)
{
	static const char * const names[] = {
		"copied", "moves", "fallbacks", "returns", "vcpus_flushed", "vcpus_spared",
		"dropped", "moved_tables",
	};
	char name[64], line[128];

	vm_make(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, madvise(self->vm.region, 64 * PAGE_SIZE, MADV_DONTNEED));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(name, sizeof(name), "hydra_%s", names[i]);
		EXPECT_EQ(vm_number(names[i]), vm_statistic(&self->vm, name, ALL))
			TH_LOG("%s", name);
	}
	EXPECT_EQ(vm_number("nested_tables"), vm_statistic(&self->vm, "hydra_tables", ALL));
	for (int d = 0; d < hydra_nodes(); d++) {
		snprintf(line, sizeof(line), "domain %d node %d tables %ld copied %ld moves %ld ",
			 d, hydra_node_id(d), vm_statistic(&self->vm, "hydra_tables", d),
			 vm_statistic(&self->vm, "hydra_copied", d),
			 vm_statistic(&self->vm, "hydra_moves", d));
		EXPECT_TRUE(shows(line)) TH_LOG("%s", line);
	}
	/* Of the shared tree moves alone are counted. */
	ASSERT_EQ(0, vm_set("linux"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	EXPECT_LT(0, vm_number("nested_tables"));
	EXPECT_EQ(0, vm_statistic(&self->vm, "hydra_tables", ALL));
	EXPECT_EQ(1, vm_statistic(&self->vm, "hydra_moves", SHARED));
	EXPECT_EQ(0, vm_statistic(&self->vm, "hydra_copied", 0));
	EXPECT_LT(0, vm_statistic(&self->vm, "hydra_copied", 1));
	EXPECT_EQ(1, vm_statistic(&self->vm, "hydra_moves", 1));
}

/* How many events of an instance of the trace have a text */
static int events_with(const char *text)
{
	FILE *f = fopen(INSTANCE "/trace", "r");
	char line[512];
	int found = 0;

	while (f && fgets(line, sizeof(line), f))
		found += line[0] != '#' && strstr(line, text);
	if (f)
		fclose(f);
	return found;
}

TEST_F_TIMEOUT(vm_interface, events_name_the_domain, 60)
{
	char text[128];

	if (!hydra_has_tracefs() || (mkdir(INSTANCE, 0700) && errno != EEXIST))
		SKIP(return, "no trace events (CONFIG_TRACING)");
	ASSERT_EQ(0, hydra_write_file(INSTANCE "/events/hydra_vm/enable", "1"));
	ASSERT_EQ(0, vm_set_idle("1"));
	vm_make(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 1, 0, 64));
	snprintf(text, sizeof(text), "hydra_vm_move: pid=%d vcpu=0 from=0 domain=1", getpid());
	EXPECT_EQ(1, events_with(text));
	snprintf(text, sizeof(text), "hydra_vm_copy: pid=%d domain=1 gfn=", getpid());
	EXPECT_LT(0, events_with(text));
	/* Of domain 1: bit 2 */
	ASSERT_EQ(0, madvise(self->vm.region, 64 * PAGE_SIZE, MADV_DONTNEED));
	snprintf(text, sizeof(text), "hydra_vm_flush: pid=%d trees=0x", getpid());
	EXPECT_LT(0, events_with(text));
	EXPECT_TRUE(vm_await_dropped(1));
	snprintf(text, sizeof(text), "hydra_vm_drop: pid=%d domain=0 tables=", getpid());
	EXPECT_EQ(1, events_with(text));
	EXPECT_EQ(0, hydra_write_file(INSTANCE "/events/hydra_vm/enable", "0"));
	rmdir(INSTANCE);
}

/* The checker stops the VM: the administrator bounds for how long. Each tree counts anew. */
TEST_F(vm_interface, large_vm_is_not_checked)
{
	char text[4096], number[32];

	vm_make(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_LT(1, vm_number("nested_tables"));
	ASSERT_EQ(0, hydra_write_file(CHECKED, "1"));
	EXPECT_LT(0, hydra_read_file("/proc/self/hydra_vm_check", text, sizeof(text)));
	EXPECT_TRUE(strstr(text, "not checked: ") && !strstr(text, "violations")) TH_LOG("%s", text);
	ASSERT_EQ(0, vm_run(&self->vm, 1, 1, 0, VM_REGION_PAGES));
	snprintf(number, sizeof(number), "%ld", vm_number("nested_tables"));
	ASSERT_EQ(0, hydra_write_file(CHECKED, number));
	EXPECT_LT(0, hydra_read_file("/proc/self/hydra_vm_check", text, sizeof(text)));
	EXPECT_TRUE(strstr(text, " 2 trees") && !strstr(text, "violations")) TH_LOG("%s", text);
	EXPECT_EQ(0, hydra_write_file(CHECKED, "16384"));
	EXPECT_TRUE(vm_consistent());
}

TEST_F(vm_interface, settings_again)
{
	char before[4096], after[4096];

	vm_make(&self->vm);
	ASSERT_EQ(0, vm_set("hydra,prefetch=3,expose=on"));
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	EXPECT_EQ(0, vm_set("again"));
	ASSERT_LT(0, read_settings(after, sizeof(after)));
	EXPECT_STREQ(before, after);
	EXPECT_EQ(-EINVAL, vm_set("again,prefetch=4"));
	EXPECT_EQ(-EINVAL, vm_set("prefetch=4,again"));
	ASSERT_EQ(0, vm_set("linux,tables=follow"));
	EXPECT_EQ(0, vm_set("again"));
	EXPECT_TRUE(shows("tables follow\n"));
	EXPECT_TRUE(shows("policy linux\n"));
}

TEST_F(vm_interface, bad_caps_change_nothing)
{
	struct hydra_settings good = { .domains = HYDRA_SCOPE_NODE };
	struct hydra_settings core = good, entry = good, far = good, none = good;
	struct hydra_settings wild = good, both = good;
	const struct {
		struct hydra_settings *settings;
		uint64_t size, third;
		unsigned int flags;
		int err;
	} tries[] = {
		{ &good, HYDRA_SETTINGS_SIZE_FIRST - 1, 0, 0, EINVAL },
		{ &good, 0, 0, 0, EINVAL }, { &wild, sizeof(wild), 0, 0, EINVAL },
		{ &both, sizeof(both), 0, 0, EINVAL },
		{ &good, sizeof(good) + (1UL << 32), 0, 0, E2BIG },
		{ &good, sizeof(good), 1, 0, EINVAL }, { &good, sizeof(good), 0, 1, EINVAL },
		{ (void *)16, sizeof(good), 0, 0, EFAULT }, { &far, sizeof(far), 0, 0, EINVAL },
		{ &none, sizeof(none), 0, 0, EINVAL }, { &core, sizeof(core), 0, 0, EOPNOTSUPP },
		{ &entry, sizeof(entry), 0, 0, EOPNOTSUPP },
	};
	char before[4096], after[4096];

	far.prefetch = HYDRA_PREFETCH_MAX + 1;
	none.domains = 77;
	core.domains = HYDRA_SCOPE_CORE;
	entry.filter = HYDRA_FILTER_ENTRY;
	wild.expose = 2;
	both.tables = HYDRA_TABLES_FOLLOW;
	vm_make(&self->vm);
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct kvm_enable_cap cap = {
			.cap = KVM_CAP_HYDRA, .flags = tries[i].flags,
			.args = { (uintptr_t)tries[i].settings, tries[i].size, tries[i].third },
		};

		EXPECT_EQ(tries[i].err, enable_cap(self->vm.kvm, &cap)) TH_LOG("try %zu", i);
		cap.args[3] = cap.args[2];
		cap.args[2] = 0;
		EXPECT_EQ(tries[i].err, enable_cap(self->vm.kvm, &cap)) TH_LOG("try %zu", i);
	}
	ASSERT_LT(0, read_settings(after, sizeof(after)));
	EXPECT_STREQ(before, after);
}

/* A VM without vCPUs and memory, of a protected type if this kernel has one; or NULL */
static struct kvm_vm *make_protected(void)
{
	if (!(kvm_check_cap(KVM_CAP_VM_TYPES) & BIT(KVM_X86_SW_PROTECTED_VM)))
		return NULL;
	return vm_create_barebones_type(KVM_X86_SW_PROTECTED_VM);
}

TEST_F(vm_interface, vm_of_a_protected_type_is_stock)
{
	static const char * const refused[] = {
		"hydra", "domains=node", "hydra,prefetch=9,filter=none", "tables=follow",
		"expose=on", "linux,expose=on", "linux,tables=follow",
	};
	struct hydra_settings node = { .domains = HYDRA_SCOPE_NODE };
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&node, sizeof(node) },
	};
	char before[4096], after[4096], said[128];
	struct kvm_vm *vm;
	int log = vm_open_log();

	ASSERT_LE(0, log);
	vm = make_protected();
	if (!vm)
		SKIP(return, "no VMs of a protected type (CONFIG_KVM_SW_PROTECTED_VM)");
	snprintf(said, sizeof(said), "[%d] is stock: the VM is of a protected type", getpid());
	EXPECT_TRUE(vm_has_said(log, said));
	close(log);
	EXPECT_TRUE(shows("refused the VM is of a protected type\n"));
	EXPECT_TRUE(shows("policy linux\n"));
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_EQ(0, vm_number("fallback"));
	EXPECT_EQ(0, vm_check_cap(vm, KVM_CAP_HYDRA));
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		EXPECT_EQ(-EOPNOTSUPP, vm_set(refused[i])) TH_LOG("'%s'", refused[i]);
	}
	EXPECT_EQ(EOPNOTSUPP, enable_cap(vm, &cap));
	cap.args[0] = (uintptr_t)&machine;
	cap.args[2] = KVM_HYDRA_EXPOSE;
	EXPECT_EQ(EOPNOTSUPP, enable_cap(vm, &cap));
	cap.args[2] = KVM_HYDRA_FOLLOW;
	EXPECT_EQ(EOPNOTSUPP, enable_cap(vm, &cap));
	ASSERT_LT(0, read_settings(after, sizeof(after)));
	EXPECT_STREQ(before, after);
	/* What it has, it may ask for. */
	cap.args[2] = 0;
	EXPECT_EQ(0, enable_cap(vm, &cap));
	EXPECT_EQ(0, vm_set("linux"));
	EXPECT_EQ(0, vm_set("tables=stay,expose=off"));
	EXPECT_TRUE(shows("policy linux\n"));
	EXPECT_EQ(0, vm_number("active"));
	kvm_vm_free(vm);
}

/* How often the file has a line */
static int times(const char *line)
{
	char text[16384], *at = text;
	int found = 0;

	if (read_settings(text, sizeof(text)) < 0)
		return -1;
	while ((at = strstr(at, line))) {
		found++;
		at += strlen(line);
	}
	return found;
}

TEST_F(vm_interface, text_is_for_all_vms_of_the_process)
{
	struct kvm_vm *other;

	vm_make(&self->vm);
	EXPECT_FALSE(shows("vm 1\n"));
	other = vm_create_barebones();
	EXPECT_TRUE(shows("vm 0\n"));
	EXPECT_TRUE(shows("vm 1\n"));
	EXPECT_FALSE(shows("vm 2\n"));
	EXPECT_EQ(2, times("prefetch 4\n"));
	EXPECT_EQ(0, vm_set("prefetch=7"));
	EXPECT_EQ(2, times("prefetch 7\n"));
	EXPECT_EQ(-EINVAL, vm_set("prefetch=10"));
	EXPECT_EQ(-EOPNOTSUPP, vm_set("domains=core"));
	EXPECT_EQ(2, times("prefetch 7\n"));
	EXPECT_EQ(2, times("active 1\n"));
	EXPECT_EQ(0, vm_set("linux"));
	EXPECT_EQ(2, times("active 0\n"));
	EXPECT_EQ(0, vm_set("hydra"));
	EXPECT_EQ(2, times("active 1\n"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	EXPECT_TRUE(vm_consistent());
	kvm_vm_free(other);
	EXPECT_FALSE(shows("vm 1\n"));
	EXPECT_EQ(1, times("active 1\n"));
}

static void expect_all_or_none(struct __test_metadata *_metadata, int vms)
{
	char before[16384], after[16384];

	EXPECT_EQ(vms, times("vm "));
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	EXPECT_EQ(-EOPNOTSUPP, vm_set("hydra,prefetch=7"));
	EXPECT_EQ(-EOPNOTSUPP, vm_set("linux,expose=on"));
	ASSERT_LT(0, read_settings(after, sizeof(after)));
	EXPECT_STREQ(before, after);
}

/* The one that refuses is older than the other VM, or younger, or both. */
TEST_F(vm_interface, text_that_one_vm_refuses_changes_none)
{
	struct kvm_vm *older = make_protected(), *younger;

	if (!older)
		SKIP(return, "no VMs of a protected type (CONFIG_KVM_SW_PROTECTED_VM)");
	vm_make(&self->vm);
	EXPECT_EQ(1, times("active 1\n"));
	expect_all_or_none(_metadata, 2);
	younger = make_protected();
	expect_all_or_none(_metadata, 3);
	kvm_vm_free(older);
	expect_all_or_none(_metadata, 2);
	EXPECT_EQ(1, times("active 1\n"));
	EXPECT_EQ(0, vm_set("linux"));
	EXPECT_EQ(2, times("policy linux\n"));
	EXPECT_EQ(2, times("active 0\n"));
	kvm_vm_free(younger);
	EXPECT_EQ(0, vm_set("hydra,prefetch=7"));
	EXPECT_EQ(7, vm_number("prefetch"));
}

/* The map has each table that the census counts, where the census says. */
TEST_F(vm_interface, map_names_each_table)
{
	unsigned long on[HYDRA_MAX_NODES] = { 0 }, leaves[HYDRA_MAX_NODES] = { 0 };
	struct vm_tables tables;
	FILE *map;
	int last = hydra_nodes() - 1, domain, level, id;
	unsigned long gfn;
	unsigned int entries;

	ASSERT_EQ(0, hydra_on(0, HYDRA_FILTER_TABLE));
	vm_make(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, VM_REGION_PAGES));
	ASSERT_EQ(0, vm_run(&self->vm, last, last, 0, 64));
	ASSERT_EQ(0, vm_read_tables(&tables));
	map = fopen("/proc/self/hydra_vm_map", "r");
	ASSERT_NE(NULL, map);
	ASSERT_EQ(0, fscanf(map, "vm 0\n"));
	while (fscanf(map, "domain %d gfn %lx level %d node %d entries %u\n", &domain, &gfn,
		      &level, &id, &entries) == 5) {
		ASSERT_GE(last, domain);
		ASSERT_EQ(hydra_node_id(domain), id);
		on[domain]++;
		leaves[domain] += level == 1 ? entries : 0;
		if (level == 1 && gfn == VM_REGION / PAGE_SIZE)
			EXPECT_EQ(domain ? 64 : TABLE_PAGES, entries);
	}
	EXPECT_TRUE(feof(map));
	fclose(map);
	for (int node = 0; node <= last; node++) {
		EXPECT_EQ(tables.tables[node], on[node]) TH_LOG("node %d", node);
		EXPECT_EQ(tables.local[node], leaves[node]) TH_LOG("node %d", node);
	}
	/* A tree of four levels or five: the upper tables, and leaf tables of memslot 0 and the region */
	EXPECT_LE(3 + 1 + VM_REGION_PAGES / TABLE_PAGES, on[0]);
	EXPECT_LE(3 + 1 + 1, on[last]);
}

TEST_F(vm_interface, bad_input_changes_nothing)
{
	static char long_text[200], longest[128], longer[129];
	const struct {
		const char *text;
		int err;
	} tries[] = {
		{ "", EINVAL }, { "hydr", EINVAL }, { "hydra,hydra", EINVAL },
		{ "domains", EINVAL }, { "domains=", EINVAL }, { "domains=socket", EINVAL },
		{ "tables=follow", EINVAL }, { "prefetch=10", EINVAL },
		{ "prefetch=-1", EINVAL }, { "filter=all", EINVAL },
		{ "prefetch=9,domains=nod", EINVAL }, { long_text, EINVAL },
		{ "fast", EINVAL }, { "hydra,prefetch=10", EINVAL },
		{ "speed=9", EINVAL }, { "hydra,speed=9", EINVAL },
		{ "prefetch=9,speed=9", EINVAL }, { longest, EINVAL }, { longer, EINVAL },
		{ "hydra,filter=entry", EOPNOTSUPP },
		{ "domains=llc", EOPNOTSUPP }, { "domains=core", EOPNOTSUPP },
		{ "radixvm", EOPNOTSUPP }, { "prefetch=9,domains=core", EOPNOTSUPP },
		{ "filter=entry", EOPNOTSUPP }, { "filter=accessed", EOPNOTSUPP },
	};
	char before[4096], after[4096];

	memset(long_text, 'x', sizeof(long_text) - 1);
	memcpy(long_text, "prefetch=1,", 11);
	memset(longest, 'x', sizeof(longest) - 1);
	memset(longer, 'x', sizeof(longer) - 1);
	vm_make(&self->vm);
	ASSERT_EQ(0, vm_run(&self->vm, 0, 0, 0, 64));
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		EXPECT_EQ(-tries[i].err, vm_set(tries[i].text))
			TH_LOG("'%s'", tries[i].text);
		ASSERT_LT(0, read_settings(after, sizeof(after)));
		EXPECT_EQ(0, strcmp(before, after)) TH_LOG("'%s' changed: %s", tries[i].text, after);
	}
	EXPECT_EQ(0, vm_set("prefetch=9,filter=none"));
	EXPECT_EQ(9, vm_number("prefetch"));
	EXPECT_EQ(1, vm_number("active"));
}

/* Good settings with spaces behind them: of a text with 128 bytes, nothing is taken. */
TEST_F(vm_interface, longest_text)
{
	char text[129];

	memset(text, ' ', sizeof(text) - 1);
	memcpy(text, "prefetch=7", 10);
	text[128] = 0;
	vm_make(&self->vm);
	EXPECT_EQ(-EINVAL, vm_set(text));
	EXPECT_EQ(4, vm_number("prefetch"));
	text[127] = 0;
	EXPECT_EQ(0, vm_set(text));
	EXPECT_EQ(7, vm_number("prefetch"));
}

/* The parameters of the machine that are about VMs */
TEST_F(vm_interface, bad_parameters_change_nothing)
{
	static const char idle[] = HYDRA_SYSFS "vm_idle_seconds";
	static const char limit[] = HYDRA_SYSFS "vm_table_limit_kib";
	static const struct {
		const char *path, *text;
	} tries[] = {
		{ idle, " " }, { idle, "x" }, { idle, "-1" }, { idle, "5x" }, { idle, "1 2" },
		{ idle, "1.5" }, { idle, "0x10" }, { idle, "4294967296" }, { idle, "never" },
		{ limit, " " }, { limit, "x" }, { limit, "-1" }, { limit, "1k" }, { limit, "maxx" },
		{ limit, "max 1" }, { limit, "0x10" }, { limit, "18446744073709551615" },
		{ limit, "18446744073709551616" },
		{ INHERIT, "2" }, { INHERIT, "maybe" }, { INHERIT, "-1" }, { INHERIT, " " },
	};
	char before[64], after[64];

	EXPECT_EQ(0, hydra_write_file(idle, "7\n"));
	EXPECT_EQ(0, hydra_write_file(limit, "4096\n"));
	EXPECT_EQ(0, hydra_write_file(INHERIT, "N\n"));
	EXPECT_EQ(7, hydra_number(idle, NULL));
	EXPECT_EQ(4096, hydra_number(limit, NULL));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		EXPECT_LT(0, hydra_read_file(tries[i].path, before, sizeof(before)));
		EXPECT_EQ(-EINVAL, hydra_write_file(tries[i].path, tries[i].text))
			TH_LOG("'%s' to %s", tries[i].text, tries[i].path);
		EXPECT_LT(0, hydra_read_file(tries[i].path, after, sizeof(after)));
		EXPECT_STREQ(before, after) TH_LOG("'%s' to %s", tries[i].text, tries[i].path);
	}
	EXPECT_EQ(0, hydra_write_file(limit, "max"));
}

/*
 * A process makes a VM, which takes over its settings, and must not change them: a process of
 * root, or of the user "nobody" with a file descriptor of /dev/kvm. Return: 0, or bits that say
 * what was not refused
 */
static int choose_without_right(int kvm, bool nobody)
{
	struct hydra_settings machine = { .domains = HYDRA_SCOPE_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&machine, sizeof(machine) },
	};
	struct passwd *user = getpwnam("nobody");
	struct kvm_vm vm = { };

	if (nobody && (!user || setgid(user->pw_gid) || setuid(user->pw_uid) ||
		       prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))
		return 255;
	vm.fd = __kvm_ioctl(kvm, KVM_CREATE_VM, NULL);
	if (vm.fd < 0 || vm_number("active") != 1)
		return 254;
	return (enable_cap(&vm, &cap) != EPERM) | (vm_set("linux") != -EPERM) << 1 |
	       (vm_set("prefetch=1") != -EPERM) << 2 |
	       (vm_number("active") != 1 || vm_number("prefetch") != 4) << 3;
}

static int in_child(int kvm, bool nobody)
{
	pid_t pid = fork();

	if (!pid)
		_exit(choose_without_right(kvm, nobody));
	return pid < 0 ? -1 : hydra_wait_child(pid);
}

TEST_F(vm_interface, process_that_may_not_choose)
{
	char allow[64];

	vm_make(&self->vm);
	ASSERT_LT(0, hydra_read_file(ALLOW, allow, sizeof(allow)));
	EXPECT_EQ(0, hydra_write_file(ALLOW, "cap_sys_nice"));
	EXPECT_EQ(0, in_child(self->vm.kvm->kvm_fd, true));
	EXPECT_EQ(0, vm_set("prefetch=5"));
	EXPECT_EQ(0, hydra_write_file(ALLOW, "nobody"));
	EXPECT_EQ(0, in_child(self->vm.kvm->kvm_fd, true));
	EXPECT_EQ(0, in_child(self->vm.kvm->kvm_fd, false));
	EXPECT_EQ(-EPERM, vm_set("prefetch=6"));
	EXPECT_EQ(5, vm_number("prefetch"));
	EXPECT_EQ(0, hydra_write_file(ALLOW, allow));
	EXPECT_EQ(0, vm_set("prefetch=6"));
	EXPECT_EQ(6, vm_number("prefetch"));
}

/* Return: errno, as the exit status of a process of another user. */
static int as_nobody(const char *path, int mode)
{
	struct passwd *nobody = getpwnam("nobody");
	pid_t pid = fork();
	int status;

	if (!pid) {
		if (!nobody || setgid(nobody->pw_gid) || setuid(nobody->pw_uid))
			_exit(255);
		_exit(open(path, mode) < 0 ? errno : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 255;
	return WEXITSTATUS(status);
}

TEST_F(vm_interface, vms_of_another_user)
{
	char path[64];

	vm_make(&self->vm);
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", getpid(), files[i]);
		EXPECT_EQ(i ? EACCES : EPERM, as_nobody(path, i ? O_RDONLY : O_RDWR)) TH_LOG("%s", path);
	}
	EXPECT_EQ(1, vm_number("active"));
}

/* A process with a VM, whose vCPUs run in turn, or wait for ever. Return: the pid, or -1 */
static pid_t begin_vmm(bool runs)
{
	static struct vm vm;
	int ready[2];
	pid_t pid;
	char c;

	if (pipe(ready))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		vm_make(&vm);
		if (vm_run(&vm, 0, 0, 0, 64) || write(ready[1], "r", 1) != 1)
			_exit(1);
		for (int i = 0; runs; i++)
			if (vm_run(&vm, i % vm.nr, i % vm.nr, 0, 64))
				_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &c, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

/* KVM has a directory for each VM. Return: how many of a process there are, or -1 */
static int vms_of(pid_t pid)
{
	DIR *all = opendir(VMS);
	struct dirent *vm;
	int found = 0, id;

	if (!all)
		return -1;
	while ((vm = readdir(all)))
		found += sscanf(vm->d_name, "%d-", &id) == 1 && id == pid;
	closedir(all);
	return found;
}

static void open_files(struct __test_metadata *_metadata, pid_t pid, int fds[FILES])
{
	char path[64];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i]);
		fds[i] = open(path, i ? O_RDONLY : O_RDWR);
		ASSERT_LE(0, fds[i]) TH_LOG("%s", path);
	}
}

/* First it is a zombie, then it is no more. */
TEST_F(vm_interface, process_that_is_gone)
{
	long violations = hydra_number(VIOLATIONS, NULL);
	pid_t pid = begin_vmm(false);
	int fds[FILES], status;
	char text[16384];
	siginfo_t info;

	ASSERT_LT(0, pid);
	open_files(_metadata, pid, fds);
	for (int i = 0; i < FILES; i++) {
		EXPECT_LT(5, pread(fds[i], text, sizeof(text), 0)) TH_LOG("%s", files[i]);
		EXPECT_EQ(0, strncmp(text, "vm 0\n", 5)) TH_LOG("%s", files[i]);
	}
	EXPECT_NE(0, vms_of(pid));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(0, waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	for (int gone = 0; gone < 2; gone++) {
		EXPECT_EQ(-1, write(fds[0], "hydra", 5));
		EXPECT_EQ(ESRCH, errno);
		for (int i = 0; i < FILES; i++) {
			EXPECT_EQ(-1, pread(fds[i], text, sizeof(text), 0)) TH_LOG("%s", files[i]);
			EXPECT_EQ(ESRCH, errno) TH_LOG("%s", files[i]);
		}
		/* The VM has ended, although the files are open. */
		EXPECT_GE(0, vms_of(pid));
		if (!gone)
			ASSERT_EQ(pid, waitpid(pid, &status, 0));
	}
	for (int i = 0; i < FILES; i++)
		close(fds[i]);
	EXPECT_EQ(violations, hydra_number(VIOLATIONS, NULL));
}

static volatile bool stop;

static void *use_files(void *unused)
{
	struct vm_tables tables;
	char text[4096];
	int ret;

	while (!stop) {
		ret = vm_set("linux") ?: vm_set("hydra");
		if (ret && ret != -ENOENT)
			return "settings were refused";
		if (read_settings(text, sizeof(text)) < 0 || vm_read_tables(&tables))
			return "a file could not be read";
		/* Empty when there is no VM */
		if (hydra_read_file("/proc/self/hydra_vm_check", text, sizeof(text)) < 0 ||
		    strstr(text, "violation N"))
			return "the checker found something";
		if (hydra_read_file("/proc/self/hydra_vm_map", text, sizeof(text)) < 0)
			return "the map could not be read";
	}
	return NULL;
}

TEST_F_TIMEOUT(vm_interface, files_are_used_while_vms_end, 120)
{
	pthread_t thread;
	void *wrong;

	ASSERT_EQ(0, pthread_create(&thread, NULL, use_files, NULL));
	for (int i = 0; i < ENDS; i++) {
		vm_make(&self->vm);
		ASSERT_EQ(0, vm_run(&self->vm, 0, i % hydra_nodes(), 0, 64));
		vm_end(&self->vm);
	}
	stop = true;
	ASSERT_EQ(0, pthread_join(thread, &wrong));
	EXPECT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
}

/* A thread that uses the files of another process until that is no more */
struct user {
	pid_t pid;
	int fds[FILES];
	volatile unsigned long rounds;
	volatile bool ended;
};

static const char *use_files_until_gone(struct user *u)
{
	char path[64], text[16384];
	bool gone = false;

	while (!gone) {
		const char *settings = u->rounds % 2 ? "hydra,prefetch=4" : "linux";

		/* ENOENT: the process is still there, and its VM is not. */
		if (write(u->fds[0], settings, strlen(settings)) < 0 && errno != ENOENT &&
		    errno != ESRCH)
			return "settings were refused";
		for (int i = 0; i < FILES; i++) {
			ssize_t got = pread(u->fds[i], text, sizeof(text) - 1, 0);

			if (got < 0 && errno != ESRCH)
				return "an open file could not be read";
			gone |= got < 0;
			text[got < 0 ? 0 : got] = 0;
			if (strstr(text, "violation N"))
				return "the checker found something";
			snprintf(path, sizeof(path), "/proc/%d/%s", u->pid, files[i]);
			got = hydra_read_file(path, text, sizeof(text));
			if (got < 0 && got != -ESRCH && got != -ENOENT)
				return "a file could not be read";
			if (got >= 0 && strstr(text, "violation N"))
				return "the checker found something";
		}
		u->rounds++;
	}
	return NULL;
}

static void *use_files_of(void *arg)
{
	struct user *u = arg;
	const char *wrong = use_files_until_gone(u);

	u->ended = true;
	return (void *)wrong;
}

TEST_F_TIMEOUT(vm_interface, files_are_used_while_a_vmm_is_killed, 120)
{
	long violations = hydra_number(VIOLATIONS, NULL);

	for (int i = 0; i < KILLS; i++) {
		struct user u = { .pid = begin_vmm(true) };
		pthread_t thread;
		void *wrong;
		int status;

		ASSERT_LT(0, u.pid);
		open_files(_metadata, u.pid, u.fds);
		ASSERT_EQ(0, pthread_create(&thread, NULL, use_files_of, &u));
		while (u.rounds <= i && !u.ended)
			usleep(100);
		ASSERT_EQ(0, kill(u.pid, SIGKILL));
		ASSERT_EQ(u.pid, waitpid(u.pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status)) TH_LOG("the VMM ended by itself");
		ASSERT_EQ(0, pthread_join(thread, &wrong));
		EXPECT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
		EXPECT_LT(0, u.rounds);
		EXPECT_GE(0, vms_of(u.pid));
		for (int j = 0; j < FILES; j++)
			close(u.fds[j]);
	}
	EXPECT_EQ(violations, hydra_number(VIOLATIONS, NULL));
}

HYDRA_HARNESS_MAIN
