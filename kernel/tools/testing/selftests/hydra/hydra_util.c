// SPDX-License-Identifier: GPL-2.0-only
/* What the selftests of Hydra share. See hydra_util.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <numa.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hydra_util.h"

#define MISTAKES_SHOWN	4	/* of one probe: the others are only counted */

static void __attribute__((noreturn, format(printf, 1, 2)))
die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "# ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", strerror(errno));
	abort();
}

/* The machine */

static struct {
	bool known;
	bool groups;		/* a single node: groups of CPUs take the place of nodes */
	int nodes;
	int id[HYDRA_MAX_NODES];
	struct bitmask *group[HYDRA_MAX_NODES];
} machine;

/* The CPUs of a domain of scope node: what it has at this moment, in the words of libnuma */
static struct bitmask *domain_cpus(int domain)
{
	char text[16384], key[32], *line;
	size_t length;

	if (hydra_read_file(HYDRA_SYSFS "domains", text, sizeof(text)) < 0)
		return NULL;
	snprintf(key, sizeof(key), "%d node ", domain);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		if (strncmp(line, key, strlen(key)))
			continue;
		line = strstr(line, " cpus ") + strlen(" cpus ");
		length = strcspn(line, " ");
		line[length] = 0;
		return length ? numa_parse_cpustring_all(line) : NULL;
	}
	return NULL;
}

static int cpus_of(struct bitmask *mask, int cpus[HYDRA_MAX_CPUS])
{
	int cpu, count = 0;

	for (cpu = 0; mask && cpu < mask->size && count < HYDRA_MAX_CPUS; cpu++)
		if (numa_bitmask_isbitset(mask, cpu))
			cpus[count++] = cpu;
	if (mask)
		numa_free_cpumask(mask);
	return count;
}

static void learn_machine(void)
{
	int cpus[HYDRA_MAX_CPUS];
	int id;

	if (machine.known)
		return;
	if (numa_available() < 0) {
		errno = ENOSYS;
		die("this kernel knows nothing of NUMA");
	}
	for (id = 0; id <= numa_max_node() && machine.nodes < HYDRA_MAX_NODES; id++) {
		machine.id[machine.nodes] = id;
		if (hydra_node_cpus(machine.nodes, cpus) > 0)
			machine.nodes++;
	}
	/* CPUs may go to other groups meanwhile: what a test calls a node keeps its CPUs. */
	for (id = 0; machine.nodes == 1 && id < HYDRA_MAX_NODES; id++) {
		machine.group[id] = domain_cpus(id);
		if (!machine.group[id])
			break;
	}
	machine.groups = id > 1;
	if (machine.groups)
		machine.nodes = id;
	machine.known = true;
}

int hydra_nodes(void)
{
	learn_machine();
	return machine.nodes;
}

int hydra_node_id(int node)
{
	learn_machine();
	return machine.id[node];
}

int hydra_node_cpus(int node, int cpus[HYDRA_MAX_CPUS])
{
	struct bitmask *mask = numa_allocate_cpumask();

	if (machine.groups) {
		copy_bitmask_to_bitmask(machine.group[node], mask);
	} else if (numa_node_to_cpus(machine.id[node], mask)) {
		numa_free_cpumask(mask);
		return 0;
	}
	return cpus_of(mask, cpus);
}

int hydra_domain_cpus(int domain, int cpus[HYDRA_MAX_CPUS])
{
	return cpus_of(domain_cpus(domain), cpus);
}

int hydra_patience(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > 8 ? cpus / 8 : 1;
}

void hydra_pin_to_cpu(int cpu)
{
	cpu_set_t *set = CPU_ALLOC(HYDRA_MAX_CPUS);
	size_t size = CPU_ALLOC_SIZE(HYDRA_MAX_CPUS);

	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	if (sched_setaffinity(0, size, set))
		die("cannot run on CPU %d", cpu);
	CPU_FREE(set);
}

void hydra_pin_to_node(int node)
{
	int cpus[HYDRA_MAX_CPUS];

	learn_machine();
	if (!hydra_node_cpus(node, cpus)) {
		errno = ENODEV;
		die("node %d has no CPU", machine.id[node]);
	}
	hydra_pin_to_cpu(cpus[0]);
}

int hydra_leave_other_nodes(void)
{
	int cpus[HYDRA_MAX_CPUS];
	pid_t child = fork();

	if (!child) {
		for (int node = 1; node < hydra_nodes(); node++)
			for (int i = hydra_node_cpus(node, cpus) - 1; i >= 0; i--)
				hydra_pin_to_cpu(cpus[i]);
		_exit(0);
	}
	return hydra_wait_child(child);
}

/* Files */

int hydra_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t written;
	int err = 0;

	if (fd < 0)
		return -errno;
	written = write(fd, text, strlen(text));
	if (written < 0)
		err = -errno;
	else if (written != strlen(text))
		err = -EIO;
	close(fd);
	return err;
}

int hydra_read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	do {
		got = read(fd, text + len, size - 1 - len);
		if (got < 0) {
			int err = -errno;

			close(fd);
			return err;
		}
		len += got;
	} while (got > 0 && len < size - 1);
	text[len] = 0;
	close(fd);
	return len;
}

static void proc_path(char path[64], pid_t pid, const char *name)
{
	snprintf(path, 64, "/proc/%d/%s", pid, name);
}

int hydra_write_policy(pid_t pid, const char *text)
{
	char path[64];

	proc_path(path, pid, "hydra");
	return hydra_write_file(path, text);
}

int hydra_write_number(const char *dir, const char *name, const char *format, ...)
{
	char path[256], text[64];
	va_list args;

	snprintf(path, sizeof(path), "%s%s", dir, name);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return hydra_write_file(path, text);
}

long hydra_number(const char *path, const char *key)
{
	char text[32768], name[64], *line, *rest;
	long value;

	if (hydra_read_file(path, text, sizeof(text)) < 0)
		return -1;
	if (!key)
		return strtol(text, NULL, 0);
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (sscanf(line, "%63s %ld", name, &value) == 2 && !strcmp(name, key))
			return value;
	return -1;
}

long hydra_vmstat(const char *key)
{
	return hydra_number("/proc/vmstat", key);
}

bool hydra_has_tracefs(void)
{
	if (access(HYDRA_TRACEFS "/events", F_OK))
		mount("tracefs", HYDRA_TRACEFS, "tracefs", 0, NULL);
	return !access(HYDRA_TRACEFS "/events", F_OK);
}

int hydra_trace(const char *instance, const char *event, const char *on)
{
	char path[256];
	int error;

	if (mkdir(instance, 0700) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/trace_options", instance);
	error = hydra_write_file(path, "norecord-cmd");
	if (error)
		return error;
	snprintf(path, sizeof(path), "%s/trace", instance);
	close(open(path, O_WRONLY | O_TRUNC));
	snprintf(path, sizeof(path), "%s/events/hydra/%s/enable", instance, event);
	return hydra_write_file(path, on);
}

/* Random numbers */

uint64_t hydra_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1d >> 16;
}

uint64_t hydra_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		seed = getpid();
	return seed % 1000000;
}

/* NUMA balancing */

static char balancing_before[16];

int hydra_stop_balancing(void)
{
	int len = hydra_read_file(NUMA_BALANCING, balancing_before, sizeof(balancing_before));

	return len < 0 ? len : hydra_write_file(NUMA_BALANCING, "0");
}

int hydra_restore_balancing(void)
{
	return hydra_write_file(NUMA_BALANCING, balancing_before);
}

/* Compressed RAM disks */

#define ZRAM_CONTROL	"/sys/class/zram-control/"

static int add_zram(const char *size, char device[32])
{
	char path[64];
	long number;

	if (access(ZRAM_CONTROL, F_OK) && system("modprobe -q zram num_devices=0"))
		return -ENODEV;
	number = hydra_number(ZRAM_CONTROL "hot_add", NULL);
	if (number < 0)
		return -ENODEV;
	snprintf(device, 32, "/dev/zram%ld", number);
	snprintf(path, sizeof(path), "/sys/block/zram%ld/", number);
	return hydra_write_number(path, "disksize", "%s", size) ?: number;
}

static int remove_zram(int zram)
{
	return hydra_write_number(ZRAM_CONTROL, "hot_remove", "%d", zram);
}

int hydra_swap_on(const char *size)
{
	char device[32], command[96];
	int zram = add_zram(size, device);

	if (zram < 0)
		return zram;
	snprintf(command, sizeof(command), "mkswap -q %s >/dev/null", device);
	return system(command) || swapon(device, 0) ? -EIO : zram;
}

int hydra_swap_off(int zram)
{
	char device[32];

	snprintf(device, sizeof(device), "/dev/zram%d", zram);
	return swapoff(device) ? -errno : remove_zram(zram);
}

int hydra_mount_disk(const char *size, char directory[32])
{
	char device[32], command[96];
	int zram = add_zram(size, device);

	if (zram < 0)
		return zram;
	snprintf(command, sizeof(command), "mkfs.ext4 -q -b 4096 -O ^has_journal %s", device);
	strcpy(directory, "/tmp/hydra-XXXXXX");
	if (system(command) || !mkdtemp(directory) || mount(device, directory, "ext4", 0, NULL))
		return -EIO;
	return zram;
}

int hydra_unmount_disk(int zram, const char *directory)
{
	if (umount(directory) || rmdir(directory))
		return -errno;
	return remove_zram(zram);
}

int hydra_make_file(struct hydra_file *file, size_t size)
{
	char path[64];

	file->zram = hydra_mount_disk("32M", file->directory);
	if (file->zram < 0)
		return file->zram;
	snprintf(path, sizeof(path), "%s/file", file->directory);
	file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return file->fd < 0 || ftruncate(file->fd, size) ? -errno : 0;
}

int hydra_remove_file(struct hydra_file *file)
{
	close(file->fd);
	return hydra_unmount_disk(file->zram, file->directory);
}

/* A memory cgroup */

#define CGROUPS	"/sys/fs/cgroup"

int hydra_make_group(char group[64])
{
	if (access(CGROUPS "/cgroup.controllers", F_OK) &&
	    mount("none", CGROUPS, "cgroup2", 0, NULL))
		return -errno;
	if (hydra_write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return -ENODEV;
	snprintf(group, 64, CGROUPS "/hydra-%d/", getpid());
	return mkdir(group, 0755) ? -errno : 0;
}

/* Allocations that fail */

#define FAIL_PAGE	"/sys/kernel/debug/fail_page_alloc/"
#define FAIL_SLAB	"/sys/kernel/debug/failslab/"

/*
 * The code from the first of some functions to the last. /proc/kallsyms is sorted by
 * address.
 */
static int find_code(const char * const names[], int count, unsigned long *start,
		     unsigned long *end)
{
	FILE *f = fopen("/proc/kallsyms", "r");
	char line[512], *name;
	unsigned long addr;
	int found = 0;

	while (f && fgets(line, sizeof(line), f)) {
		addr = strtoul(line, &name, 16);
		if (found >= count && addr > *end) {
			*end = addr;
			fclose(f);
			return 0;
		}
		/* " T name" */
		name += 3;
		name[strcspn(name, "\t\n")] = 0;
		for (int i = 0; i < count; i++) {
			if (strcmp(name, names[i]))
				continue;
			if (!found++)
				*start = addr;
			*end = addr;
		}
	}
	if (f)
		fclose(f);
	return -ENOENT;
}

static int choose_failures(const char *dir, const unsigned long code[2],
			   const unsigned long but[2])
{
	/*
	 * Write the depth first: the file does not exist without
	 * CONFIG_FAULT_INJECTION_STACKTRACE_FILTER.
	 */
	return hydra_write_number(dir, "stacktrace-depth", "32") ?:
	       hydra_write_number(dir, "probability", "0") ?:
	       hydra_write_number(dir, "require-start", "%#lx", code[0]) ?:
	       hydra_write_number(dir, "require-end", "%#lx", code[1]) ?:
	       hydra_write_number(dir, "reject-start", "%#lx", but[0]) ?:
	       hydra_write_number(dir, "reject-end", "%#lx", but[1]) ?:
	       hydra_write_number(dir, "ignore-gfp-wait", "N") ?:
	       hydra_write_number(dir, "interval", "1") ?:
	       hydra_write_number(dir, "space", "0") ?:
	       hydra_write_number(dir, "verbose", "0") ?:
	       hydra_write_number(dir, "times", "-1");
}

int hydra_choose_failures(const char * const functions[], int count)
{
	static const char * const linux_own[] = { "hydra_pte_alloc_one" };
	unsigned long code[2], but[2];

	if (access(FAIL_PAGE, F_OK) || access(FAIL_SLAB, F_OK))
		return -ENODEV;
	return find_code(functions, count, &code[0], &code[1]) ?:
	       find_code(linux_own, 1, &but[0], &but[1]) ?:
	       choose_failures(FAIL_PAGE, code, but) ?:
	       choose_failures(FAIL_SLAB, code, but) ?:
	       hydra_write_number(FAIL_PAGE, "min-order", "0");
}

int hydra_fail_allocations(int percent)
{
	return hydra_write_number(FAIL_PAGE, "probability", "%d", percent) ?:
	       hydra_write_number(FAIL_SLAB, "probability", "%d", percent);
}

/* Settings */

int hydra_set(const struct hydra_settings *settings)
{
	return prctl(PR_SET_HYDRA, settings, sizeof(*settings), 0, 0) ? -errno : 0;
}

int hydra_get(struct hydra_settings *settings)
{
	return prctl(PR_GET_HYDRA, settings, sizeof(*settings), 0, 0) ? -errno : 0;
}

int hydra_on(unsigned int prefetch, unsigned int filter)
{
	struct hydra_settings settings = {
		.domains = HYDRA_SCOPE_NODE,
		.replication = HYDRA_REPLICATE_LAZY,
		.prefetch = prefetch,
		.filter = filter,
	};

	return hydra_set(&settings);
}

int hydra_off(void)
{
	return hydra_write_policy(getpid(), "linux");
}

int hydra_forget_after(unsigned int seconds)
{
	return hydra_write_number(HYDRA_SYSFS, "idle_seconds", "%u", seconds);
}

const char *hydra_missing(void)
{
	static char why[256];
	char text[128];
	int len;

	if (access(HYDRA_SYSFS, F_OK))
		return "no " HYDRA_SYSFS ": this is not a Hydra kernel (CONFIG_HYDRA_MM)";
	if (access("/proc/self/hydra", R_OK | W_OK))
		return "no /proc/self/hydra that can be read and written";
	len = hydra_read_file(HYDRA_SYSFS "supported", text, sizeof(text));
	if (len < 0 || strncmp(text, "yes", 3)) {
		snprintf(why, sizeof(why), "Hydra is not supported here: %s",
			 len < 0 ? strerror(-len) : text);
		return why;
	}
	if (geteuid())
		return "these tests run as root";
	if (hydra_nodes() < 2)
		return "this machine has a single NUMA node: nothing to test. Boot one with several, or with hydra_groups=";
	return NULL;
}

/* Numbers of a process */

static const struct {
	const char *key;
	size_t offset;
	bool text;
} stats_lines[] = {
#define TEXT(field)	{ #field, offsetof(struct hydra_stats, field), true }
#define NUMBER(field)	{ #field, offsetof(struct hydra_stats, field), false }
	TEXT(policy), TEXT(domains), TEXT(replication), TEXT(filter),
	NUMBER(prefetch), NUMBER(active), NUMBER(split), NUMBER(fills), NUMBER(prefetched),
	NUMBER(propagated), NUMBER(flushes), NUMBER(cpus_interrupted),
	NUMBER(cpus_spared), NUMBER(fallbacks), NUMBER(reclaimed), NUMBER(forgotten),
	NUMBER(replica_tables),
	NUMBER(replica_kib), NUMBER(upper_tables),
#undef TEXT
#undef NUMBER
};

static bool parse_domain(const char *line, struct hydra_stats *stats)
{
	struct hydra_domain_stats *d = &stats->domain[stats->nr_domains];
	char root[16];

	if (stats->nr_domains == HYDRA_MAX_NODES ||
	    sscanf(line, "domain %d node %d root %15s replica_tables %lu replica_kib %lu upper_tables %lu fills %lu forgotten %lu",
		   &d->domain, &d->node, root, &d->replica_tables,
		   &d->replica_kib, &d->upper_tables, &d->fills, &d->forgotten) != 8)
		return false;
	d->own_root = !strcmp(root, "own");
	stats->nr_domains++;
	return d->own_root || !strcmp(root, "canonical");
}

int hydra_read_stats(pid_t pid, struct hydra_stats *stats)
{
	char path[64], text[16384], *line, *rest;
	unsigned int seen = 0;
	int i, len;

	proc_path(path, pid, "hydra");
	len = hydra_read_file(path, text, sizeof(text));
	if (len < 0)
		return len;
	memset(stats, 0, sizeof(*stats));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char key[32], value[16];

		if (!strncmp(line, "domain ", 7)) {
			if (!parse_domain(line, stats)) {
				fprintf(stderr, "# %s: cannot read \"%s\"\n", path, line);
				return -EPROTO;
			}
			continue;
		}
		if (sscanf(line, "%31s %15s", key, value) != 2)
			continue;
		for (i = 0; i < sizeof(stats_lines) / sizeof(stats_lines[0]); i++) {
			void *field = (char *)stats + stats_lines[i].offset;

			if (strcmp(key, stats_lines[i].key))
				continue;
			seen |= 1U << i;
			if (stats_lines[i].text)
				snprintf(field, sizeof(stats->policy), "%s", value);
			else
				*(uint64_t *)field = strtoull(value, NULL, 10);
		}
	}
	for (i = 0; i < sizeof(stats_lines) / sizeof(stats_lines[0]); i++)
		if (!(seen & (1U << i))) {
			fprintf(stderr, "# %s: no line \"%s\"\n", path, stats_lines[i].key);
			return -EPROTO;
		}
	return 0;
}

bool hydra_is_split(void)
{
	struct hydra_stats stats;
	int err = hydra_read_stats(getpid(), &stats);

	if (err) {
		errno = -err;
		die("cannot read whether the process is split");
	}
	return stats.split;
}

const struct hydra_domain_stats *hydra_on_node(const struct hydra_stats *stats, int node)
{
	static const struct hydra_domain_stats none = { .domain = -1, .node = -1 };
	int i;

	for (i = 0; i < stats->nr_domains; i++)
		if (stats->domain[i].node == hydra_node_id(node))
			return &stats->domain[i];
	return &none;
}

long hydra_smaps(const void *area, const char *key)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	size_t len = strlen(key);
	char line[256];
	bool here = false;
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start == (uintptr_t)area;
		else if (here && !strncmp(line, key, len) && line[len] == ':')
			kib = atol(line + len + 1);
	}
	if (f)
		fclose(f);
	return kib < 0 ? kib : kib / 4;
}

int hydra_read_tables(pid_t pid, struct hydra_tables *tables)
{
	char path[64], text[16384], *line, *rest;
	int len, node, domain, id;

	proc_path(path, pid, "hydra_tables");
	len = hydra_read_file(path, text, sizeof(text));
	if (len < 0)
		return len;
	memset(tables, 0, sizeof(*tables));
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		uint64_t local, remote, kib;

		if (sscanf(line, "domain %d node %d local_leaves %lu remote_leaves %lu",
			   &domain, &id, &local, &remote) == 4) {
			for (node = 0; node < hydra_nodes(); node++)
				if (hydra_node_id(node) == id) {
					tables->local_leaves[node] = local;
					tables->remote_leaves[node] = remote;
				}
		} else if (sscanf(line, "node %d pagetable_kib %lu", &id, &kib) == 2) {
			for (node = 0; node < hydra_nodes(); node++)
				if (hydra_node_id(node) == id)
					tables->pagetable_kib[node] = kib;
		} else {
			fprintf(stderr, "# %s: cannot read \"%s\"\n", path, line);
			return -EPROTO;
		}
	}
	return 0;
}

/* The first domain of a node, negative: there is none. */
static int domain_on(pid_t pid, int node)
{
	int domain, id, found = -ENOENT;
	char path[64], line[256];
	FILE *f;

	proc_path(path, pid, "hydra_tables");
	f = fopen(path, "r");
	while (f && found < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "domain %d node %d", &domain, &id) == 2 && id == hydra_node_id(node))
			found = domain;
	if (f)
		fclose(f);
	return found;
}

static int node_of_id(int id)
{
	for (int node = 0; node < hydra_nodes(); node++)
		if (hydra_node_id(node) == id)
			return node;
	return -EPROTO;
}

int hydra_read_map(pid_t pid, int node, const void *area, size_t size, struct hydra_map_part *part)
{
	uintptr_t first = (uintptr_t)area, last = first + size;
	int wanted = domain_on(pid, node), ret = 0;
	char path[64], line[256];
	FILE *f;

	*part = (struct hydra_map_part){ 0 };
	proc_path(path, pid, "hydra_map");
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (!ret && fgets(line, sizeof(line), f)) {
		unsigned long start, end;
		int domain, id;

		if (sscanf(line, "domain %d start %lx end %lx node %d", &domain, &start, &end, &id) != 4) {
			fprintf(stderr, "# %s: cannot read \"%s\"\n", path, line);
			ret = -EPROTO;
		} else if (domain == wanted && start < last && end > first) {
			part->ranges++;
			part->node = node_of_id(id);
			part->bytes += (end < last ? end : last) - (start > first ? start : first);
		}
	}
	fclose(f);
	return ret;
}

bool hydra_consistent(pid_t pid)
{
	char path[64], text[16384];
	int len;

	proc_path(path, pid, "hydra_check");
	len = hydra_read_file(path, text, sizeof(text));
	if (len < 0) {
		fprintf(stderr, "# %s: %s\n", path, strerror(-len));
		return false;
	}
	if (!strncmp(text, "ok ", 3))
		return true;
	fprintf(stderr, "# %s says:\n%s", path, text);
	return false;
}

/* Accesses that may fail */

static _Thread_local sigjmp_buf fault_return;
static _Thread_local volatile sig_atomic_t fault_expected;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (fault_expected)
		siglongjmp(fault_return, sig);
	fprintf(stderr, "# unexpected signal %d at address %p\n", sig, info->si_addr);
	signal(sig, SIG_DFL);
}

int hydra_begin(void)
{
	struct sigaction action = {
		.sa_sigaction = on_fault,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	hydra_pin_to_node(0);
	/* Tests count what domains share. A program that a test runs as another user may not. */
	if (!geteuid() && hydra_forget_after(0))
		return -EIO;
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) ||
	    sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL))
		return -errno;
	return 0;
}

int hydra_try_read(const void *addr, uint64_t *value)
{
	int sig = sigsetjmp(fault_return, 0);

	if (!sig) {
		fault_expected = 1;
		*value = *(const volatile uint64_t *)addr;
	}
	fault_expected = 0;
	return sig;
}

int hydra_try_write(void *addr, uint64_t value)
{
	int sig = sigsetjmp(fault_return, 0);

	if (!sig) {
		fault_expected = 1;
		*(volatile uint64_t *)addr = value;
	}
	fault_expected = 0;
	return sig;
}

int hydra_try_call(const void *addr, int *value)
{
	int sig = sigsetjmp(fault_return, 0);

	if (!sig) {
		fault_expected = 1;
		*value = ((int (*)(void))addr)();
	}
	fault_expected = 0;
	return sig;
}

static int try_read_page(const void *addr, uint64_t words[PAGE_WORDS])
{
	const volatile uint64_t *from = addr;
	int sig = sigsetjmp(fault_return, 0);

	if (!sig) {
		fault_expected = 1;
		for (size_t i = 0; i < PAGE_WORDS; i++)
			words[i] = from[i];
	}
	fault_expected = 0;
	return sig;
}

/* Threads on all nodes */

/*
 * Futexes, no semaphores: waiting and waking execute the same few pages of code each
 * time, so that tests can count the fills of a node.
 */
void hydra_futex_wait(atomic_uint *word, unsigned int value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void hydra_futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

struct worker {
	pthread_t thread;
	int node, cpu;
	atomic_uint asked, finished;
	void (*fn)(void *arg);
	void *arg;
};

static struct worker workers[HYDRA_MAX_NODES];
static enum hydra_wait workers_wait;

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	unsigned int finished = 0;

	hydra_pin_to_cpu(w->cpu);
	for (;;) {
		while (atomic_load(&w->asked) == finished) {
			if (workers_wait == HYDRA_SPIN)
				__builtin_ia32_pause();
			else
				hydra_futex_wait(&w->asked, finished);
		}
		if (!w->fn)
			return NULL;
		w->fn(w->arg);
		/*
		 * A wake-up may come before the wait, which then returns an error. What
		 * that touches must not be filled now and then, but in each turn: so here
		 * is a wait that returns at once. Once, at the start, is not enough: the
		 * node may get its tree a little later.
		 */
		if (workers_wait == HYDRA_SLEEP)
			hydra_futex_wait(&w->asked, finished - 1);
		atomic_store(&w->finished, ++finished);
		hydra_futex_wake(&w->finished);
	}
}

/* Returns what w->finished will be then */
static unsigned int worker_ask(struct worker *w, void (*fn)(void *), void *arg)
{
	unsigned int asked;

	w->fn = fn;
	w->arg = arg;
	asked = atomic_fetch_add(&w->asked, 1) + 1;
	hydra_futex_wake(&w->asked);
	return asked;
}

static void do_nothing(void *arg)
{
}

void hydra_start_workers(enum hydra_wait wait)
{
	int cpus[HYDRA_MAX_CPUS];
	int node, count;

	workers_wait = wait;
	for (node = 0; node < hydra_nodes(); node++) {
		struct worker *w = &workers[node];

		memset(w, 0, sizeof(*w));
		w->node = node;
		count = hydra_node_cpus(node, cpus);
		w->cpu = cpus[count - 1];
		errno = pthread_create(&w->thread, NULL, worker_main, w);
		if (errno)
			die("cannot start a thread for node %d", hydra_node_id(node));
	}
	for (node = 0; node < hydra_nodes(); node++)
		hydra_run(node, do_nothing, NULL);
}

void hydra_stop_workers(void)
{
	for (int node = 0; node < hydra_nodes(); node++) {
		worker_ask(&workers[node], NULL, NULL);
		pthread_join(workers[node].thread, NULL);
	}
}

void hydra_run(int node, void (*fn)(void *), void *arg)
{
	struct worker *w = &workers[node];
	unsigned int asked = worker_ask(w, fn, arg);

	while (atomic_load(&w->finished) != asked)
		hydra_futex_wait(&w->finished, asked - 1);
}

/*
 * The arguments of workers are always at the same address, not on the stack: on the stack
 * the arguments would now and then lie on two pages, and cost one more fill.
 */
static struct call {
	long nr;
	long args[6];
	long result;
} call;

static void make_call(void *arg)
{
	struct call *c = arg;
	const long *a = c->args;

	c->result = syscall(c->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (c->result == -1)
		c->result = -errno;
}

long hydra_syscall_on(int node, long nr, const long args[6])
{
	call.nr = nr;
	memcpy(call.args, args, sizeof(call.args));
	hydra_run(node, make_call, &call);
	return call.result;
}

/* For so many pages Linux flushes all. */
static void empty_tlb(void *arg)
{
	char *scratch = mmap(NULL, 128 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (scratch == MAP_FAILED || munmap(scratch, 128 * PAGE_SIZE))
		abort();
}

void hydra_empty_tlbs(void)
{
	for (int node = 0; node < hydra_nodes(); node++)
		hydra_run(node, empty_tlb, NULL);
}

double hydra_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

int hydra_wait_child(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) != pid)
		if (errno != EINTR)
			return -1;
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WEXITSTATUS(status);
}

/* Memory */

void *hydra_reserve(size_t size)
{
	char *addr;

	size = (size + TABLE_SIZE - 1) / TABLE_SIZE * TABLE_SIZE;
	addr = mmap(NULL, size + 3 * TABLE_SIZE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addr == MAP_FAILED)
		die("cannot reserve %zu bytes of address space", size);
	addr += TABLE_SIZE - (uintptr_t)addr % TABLE_SIZE;
	return addr + TABLE_SIZE;
}

void *hydra_map(void *addr, size_t pages)
{
	if (mmap(addr, pages * PAGE_SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != addr)
		die("cannot map %zu pages at %p", pages, addr);
	return addr;
}

uint64_t hydra_word(uint64_t seed, size_t page, size_t word)
{
	if (!seed)
		return 0;
	return (seed * 0x9e3779b97f4a7c15 ^ (page * PAGE_WORDS + word)) * 0xbf58476d1ce4e5b9;
}

static struct area {
	int node;
	char *addr;
	size_t pages;
	enum hydra_access access;
	uint64_t seed;
	/* the last word of each page passes from node to node */
	uint64_t last_word;	/* the expected value; 0: as the other words */
	uint64_t new_last_word;
	size_t mistakes;
} area;

static void write_pages(void *arg)
{
	struct area *a = arg;

	for (size_t page = 0; page < a->pages; page++)
		for (size_t word = 0; word < PAGE_WORDS; word++)
			((uint64_t *)(a->addr + page * PAGE_SIZE))[word] =
				hydra_word(a->seed, page, word);
}

void hydra_write_pages(int node, void *addr, size_t pages, uint64_t seed)
{
	area = (struct area){ .addr = addr, .pages = pages, .seed = seed };
	hydra_run(node, write_pages, &area);
}

static void __attribute__((format(printf, 3, 4)))
mistake(struct area *a, size_t page, const char *format, ...)
{
	va_list args;

	if (++a->mistakes > MISTAKES_SHOWN)
		return;
	flockfile(stderr);
	fprintf(stderr, "# node %d, page %zu of %zu at %p: ", hydra_node_id(a->node),
		page, a->pages, a->addr + page * PAGE_SIZE);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	funlockfile(stderr);
}

static const char *outcome(int sig)
{
	switch (sig) {
	case 0:
		return "succeeded";
	case SIGSEGV:
		return "got SIGSEGV";
	case SIGBUS:
		return "got SIGBUS";
	default:
		return "got a strange signal";
	}
}

static void probe_contents(struct area *a, size_t page, const uint64_t words[PAGE_WORDS])
{
	for (size_t word = 0; word < PAGE_WORDS; word++) {
		uint64_t expected = hydra_word(a->seed, page, word);

		if (word == PAGE_WORDS - 1 && a->last_word)
			expected = a->last_word;
		if (words[word] != expected) {
			mistake(a, page, "word %zu is %#lx, not %#lx", word, words[word], expected);
			return;
		}
	}
}

static void probe_page(struct area *a, size_t page)
{
	uint64_t words[PAGE_WORDS];
	char *addr = a->addr + page * PAGE_SIZE;
	uint64_t *last = (uint64_t *)(addr + PAGE_SIZE) - 1;
	int may_read = 0, may_write = 0;
	int sig;

	if (a->access == HYDRA_NO_ACCESS)
		may_read = may_write = SIGSEGV;
	else if (a->access == HYDRA_BUS_ERROR)
		may_read = may_write = SIGBUS;
	else if (a->access == HYDRA_READ_ONLY)
		may_write = SIGSEGV;

	sig = try_read_page(addr, words);
	if (sig != may_read)
		mistake(a, page, "reading %s, should have %s", outcome(sig), outcome(may_read));
	else if (!sig)
		probe_contents(a, page, words);

	if (a->access == HYDRA_READABLE)
		return;
	sig = hydra_try_write(last, a->new_last_word);
	if (sig != may_write)
		mistake(a, page, "writing %s, should have %s", outcome(sig), outcome(may_write));
}

static void probe(void *arg)
{
	struct area *a = arg;

	for (size_t page = 0; page < a->pages; page++)
		probe_page(a, page);
}

/* The last word of all pages of a write probe is the same: write the seed's own back */
static void restore_last_words(void *arg)
{
	struct area *a = arg;

	for (size_t page = 0; page < a->pages; page++)
		((uint64_t *)(a->addr + (page + 1) * PAGE_SIZE))[-1] =
			hydra_word(a->seed, page, PAGE_WORDS - 1);
}

static size_t probe_from(int first, int end, void *addr, size_t pages,
			 enum hydra_access access, uint64_t seed)
{
	static uint64_t stamp = 0x57a3b00000000000;

	area = (struct area){ .addr = addr, .pages = pages, .access = access, .seed = seed };
	for (area.node = first; area.node < end; area.node++) {
		area.new_last_word = ++stamp;
		hydra_run(area.node, probe, &area);
		if (access == HYDRA_READ_WRITE)
			area.last_word = stamp;
	}
	if (area.mistakes > MISTAKES_SHOWN)
		fprintf(stderr, "# and %zu mistakes more\n", area.mistakes - MISTAKES_SHOWN);
	if (access == HYDRA_READ_WRITE && !area.mistakes) {
		area.node = first;
		area.access = HYDRA_READABLE;
		hydra_run(first, probe, &area);
		hydra_run(first, restore_last_words, &area);
	}
	return area.mistakes;
}

size_t hydra_probe(int node, void *addr, size_t pages, enum hydra_access access, uint64_t seed)
{
	return probe_from(node, node + 1, addr, pages, access, seed);
}

size_t hydra_probe_all(void *addr, size_t pages, enum hydra_access access, uint64_t seed)
{
	return probe_from(0, hydra_nodes(), addr, pages, access, seed);
}
