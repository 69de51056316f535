// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/hydra_vm: what a VM inherits, what its settings may be, and for which processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "vm_util.h"

#define INHERIT		"/sys/module/kvm/parameters/hydra"
#define ENDS		20	/* VMs that end while their files are used */

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
	if (!self->vm.fd)
		return;
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
	ASSERT_EQ(0, vm_make(&self->vm));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(4, vm_number("prefetch"));
	EXPECT_TRUE(shows("domains node\n"));
	EXPECT_TRUE(shows("filter table\n"));
	/* Later settings of the process are not the VM's. */
	EXPECT_EQ(0, hydra_off());
	EXPECT_EQ(1, vm_number("active"));
}

TEST_F(vm_interface, kvm_hydra_off_stops_the_inheritance)
{
	ASSERT_EQ(0, hydra_write_file(INHERIT, "N"));
	ASSERT_EQ(0, vm_make(&self->vm));
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_TRUE(shows("policy linux\n"));
	/* One may still ask for it. */
	EXPECT_EQ(0, vm_set("hydra"));
	EXPECT_EQ(1, vm_number("active"));
}

/* A VM cannot have what this process has: it is stock, and says so. */
TEST_F(vm_interface, settings_for_processes_only_are_not_taken_over)
{
	ASSERT_EQ(0, hydra_write_policy(getpid(), "mitosis"));
	ASSERT_EQ(0, vm_make(&self->vm));
	EXPECT_EQ(0, vm_number("active"));
	EXPECT_EQ(0, vm_number("fallback"));
	EXPECT_TRUE(shows("policy linux\n"));
}

static int enable_cap(struct vm *vm, const struct kvm_enable_cap *cap)
{
	return ioctl(vm->fd, KVM_ENABLE_CAP, cap) ? errno : 0;
}

TEST_F(vm_interface, vmm_changes_the_settings)
{
	struct hydra_settings node = {
		.domains = HYDRA_DOMAINS_NODE, .prefetch = 3, .filter = HYDRA_FILTER_TABLE,
	};
	struct hydra_settings machine = { .domains = HYDRA_DOMAINS_MACHINE };
	struct kvm_enable_cap cap = {
		.cap = KVM_CAP_HYDRA, .args = { (uintptr_t)&node, sizeof(node) },
	};

	ASSERT_EQ(0, hydra_off());
	ASSERT_EQ(0, vm_make(&self->vm));
	EXPECT_EQ(1, ioctl(self->vm.kvm, KVM_CHECK_EXTENSION, KVM_CAP_HYDRA));
	EXPECT_EQ(1, ioctl(self->vm.fd, KVM_CHECK_EXTENSION, KVM_CAP_HYDRA));
	EXPECT_EQ(0, vm_number("active"));
	ASSERT_EQ(0, enable_cap(&self->vm, &cap));
	EXPECT_EQ(1, vm_number("active"));
	EXPECT_EQ(3, vm_number("prefetch"));
	ASSERT_EQ(0, vm_run(&self->vm, 0, 1, 0, 64));
	EXPECT_LT(0, vm_number("moves"));
	cap.args[0] = (uintptr_t)&machine;
	ASSERT_EQ(0, enable_cap(&self->vm, &cap));
	EXPECT_EQ(0, vm_number("active"));
}

TEST_F(vm_interface, bad_caps_change_nothing)
{
	struct hydra_settings good = { .domains = HYDRA_DOMAINS_NODE };
	struct hydra_settings eager = good, core = good, entry = good, far = good, none = good;
	const struct {
		struct hydra_settings *settings;
		uint64_t size, third;
		unsigned int flags;
		int err;
	} tries[] = {
		{ &good, sizeof(good) - 1, 0, 0, EINVAL }, { &good, 0, 0, 0, EINVAL },
		{ &good, sizeof(good) + (1UL << 32), 0, 0, EINVAL },
		{ &good, sizeof(good), 1, 0, EINVAL }, { &good, sizeof(good), 0, 1, EINVAL },
		{ (void *)16, sizeof(good), 0, 0, EFAULT }, { &far, sizeof(far), 0, 0, EINVAL },
		{ &none, sizeof(none), 0, 0, EINVAL }, { &eager, sizeof(eager), 0, 0, EOPNOTSUPP },
		{ &core, sizeof(core), 0, 0, EOPNOTSUPP },
		{ &entry, sizeof(entry), 0, 0, EOPNOTSUPP },
	};
	char before[4096], after[4096];

	far.prefetch = HYDRA_PREFETCH_MAX + 1;
	none.domains = 77;
	eager.replication = HYDRA_REPLICATE_EAGER;
	core.domains = HYDRA_DOMAINS_CORE;
	entry.filter = HYDRA_FILTER_ENTRY;
	ASSERT_EQ(0, vm_make(&self->vm));
	ASSERT_LT(0, read_settings(before, sizeof(before)));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		struct kvm_enable_cap cap = {
			.cap = KVM_CAP_HYDRA, .flags = tries[i].flags,
			.args = { (uintptr_t)tries[i].settings, tries[i].size, tries[i].third },
		};

		EXPECT_EQ(tries[i].err, enable_cap(&self->vm, &cap)) TH_LOG("try %zu", i);
		cap.args[3] = cap.args[2];
		cap.args[2] = 0;
		EXPECT_EQ(tries[i].err, enable_cap(&self->vm, &cap)) TH_LOG("try %zu", i);
	}
	ASSERT_LT(0, read_settings(after, sizeof(after)));
	EXPECT_STREQ(before, after);
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
	ASSERT_EQ(0, vm_make(&self->vm));
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
	/* A tree of four levels or five: the upper tables, and leaf tables of the program and the region */
	EXPECT_LE(3 + 1 + VM_REGION_PAGES / TABLE_PAGES, on[0]);
	EXPECT_LE(3 + 1 + 1, on[last]);
}

TEST_F(vm_interface, bad_input_changes_nothing)
{
	static char long_text[200];
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
		{ "hydra,filter=entry", EOPNOTSUPP },
		{ "domains=llc", EOPNOTSUPP }, { "domains=core", EOPNOTSUPP },
		{ "replication=eager", EOPNOTSUPP }, { "mitosis", EOPNOTSUPP },
		{ "radixvm", EOPNOTSUPP }, { "prefetch=9,domains=core", EOPNOTSUPP },
		{ "filter=entry", EOPNOTSUPP }, { "filter=accessed", EOPNOTSUPP },
	};
	char before[4096], after[4096];

	memset(long_text, 'x', sizeof(long_text) - 1);
	memcpy(long_text, "prefetch=1,", 11);
	ASSERT_EQ(0, vm_make(&self->vm));
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
	static const char * const files[] = { "hydra_vm", "hydra_vm_tables", "hydra_vm_check" };
	char path[64];

	ASSERT_EQ(0, vm_make(&self->vm));
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", getpid(), files[i]);
		EXPECT_EQ(i ? EACCES : EPERM, as_nobody(path, i ? O_RDONLY : O_RDWR)) TH_LOG("%s", path);
	}
	EXPECT_EQ(1, vm_number("active"));
}

TEST_F(vm_interface, process_that_is_gone)
{
	char path[64], text[64];
	int fd, status;
	pid_t pid = fork();

	ASSERT_LE(0, pid);
	if (!pid) {
		pause();
		_exit(0);
	}
	snprintf(path, sizeof(path), "/proc/%d/hydra_vm", pid);
	fd = open(path, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(-1, write(fd, "hydra", 5));
	EXPECT_EQ(ESRCH, errno);
	EXPECT_EQ(-1, read(fd, text, sizeof(text)));
	EXPECT_EQ(ESRCH, errno);
	close(fd);
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
	}
	return NULL;
}

TEST_F_TIMEOUT(vm_interface, files_are_used_while_vms_end, 120)
{
	pthread_t thread;
	void *wrong;

	ASSERT_EQ(0, pthread_create(&thread, NULL, use_files, NULL));
	for (int i = 0; i < ENDS; i++) {
		ASSERT_EQ(0, vm_make(&self->vm));
		ASSERT_EQ(0, vm_run(&self->vm, 0, i % hydra_nodes(), 0, 64));
		vm_end(&self->vm);
		self->vm.fd = 0;
	}
	stop = true;
	ASSERT_EQ(0, pthread_join(thread, &wrong));
	EXPECT_EQ(NULL, wrong) TH_LOG("%s", (char *)wrong);
}

HYDRA_HARNESS_MAIN
