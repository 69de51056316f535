// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ground that all tests under pressure stand on: swap, a file on a disk,
 * memory cgroups. Made once, and left as it was found. And the numbers in the
 * kernel's files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "pressure.h"

#define CGROUPS	"/sys/fs/cgroup"

struct ground ground = { .file = -1 };

static int swap_zram = -1, file_zram = -1;
static char directory[32], group[64], numa_balancing[16];
static pid_t owner;

long number_in(const char *path, const char *key)
{
	char text[16384], name[64], *line, *rest;
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

int write_number(const char *dir, const char *name, const char *format, ...)
{
	char path[256], text[64];
	va_list args;

	snprintf(path, sizeof(path), "%s%s", dir, name);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return hydra_write_file(path, text);
}

static const char *make_swap(void)
{
	char device[32], command[64];

	swap_zram = hydra_add_zram("96M");
	if (swap_zram < 0)
		return "no swap: no zram (CONFIG_ZRAM, CONFIG_SWAP)";
	snprintf(device, sizeof(device), "/dev/zram%d", swap_zram);
	snprintf(command, sizeof(command), "mkswap -q %s >/dev/null", device);
	if (system(command) || swapon(device, 0))
		return "no swap: mkswap or swapon failed";
	return NULL;
}

static const char *make_file(void)
{
	uint64_t words[PAGE_WORDS];
	char device[32], command[64], path[64];

	file_zram = hydra_add_zram("32M");
	if (file_zram < 0)
		return "no disk for a file: no zram (CONFIG_ZRAM)";
	snprintf(device, sizeof(device), "/dev/zram%d", file_zram);
	snprintf(command, sizeof(command), "mkfs.ext4 -q %s", device);
	strcpy(directory, "/tmp/hydra-pressure-XXXXXX");
	if (system(command) || !mkdtemp(directory) || mount(device, directory, "ext4", 0, NULL))
		return "no disk for a file: mkfs.ext4 or mount failed (CONFIG_EXT4_FS)";
	snprintf(path, sizeof(path), "%s/pages", directory);
	ground.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (size_t page = 0; page < FILE_PAGES; page++) {
		for (size_t word = 0; word < PAGE_WORDS; word++)
			words[word] = hydra_word(FILE_SEED, page, word);
		if (write(ground.file, words, PAGE_SIZE) != PAGE_SIZE)
			return "no file: it cannot be written";
	}
	return fsync(ground.file) ? "no file: fsync failed" : NULL;
}

static void group_path(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", group, name);
}

long group_number(const char *name, const char *key)
{
	char path[128];

	group_path(path, name);
	return number_in(path, key);
}

int group_write(const char *name, const char *text)
{
	char path[128];

	group_path(path, name);
	return hydra_write_file(path, text);
}

static const char *make_groups(void)
{
	char path[128];

	if (access(CGROUPS "/cgroup.controllers", F_OK) &&
	    mount("none", CGROUPS, "cgroup2", 0, NULL))
		return "no cgroup2 at " CGROUPS " (CONFIG_CGROUPS)";
	if (hydra_write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return "cgroup2 has no memory controller (CONFIG_MEMCG)";
	snprintf(group, sizeof(group), CGROUPS "/hydra-pressure-%d", getpid());
	if (mkdir(group, 0755))
		return "no cgroup can be made in " CGROUPS;
	group_path(path, "tested");
	if (group_write("cgroup.subtree_control", "+memory") || mkdir(path, 0755))
		return "no memory cgroup can be made in a cgroup";
	group_path(path, "neighbour");
	return mkdir(path, 0755) ? "no memory cgroup can be made in a cgroup" : NULL;
}

void all_cpus_online(void)
{
	char path[64];

	for (int cpu = 1; cpu < HYDRA_MAX_CPUS; cpu++) {
		snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
		if (number_in(path, NULL) == 0)
			hydra_write_file(path, "1");
	}
}

/* Children of the program inherit this, and must leave it to the program */
static void leave_ground(void)
{
	char path[128];

	if (getpid() != owner)
		return;
	all_cpus_online();
	hydra_write_file(NUMA_BALANCING, numa_balancing);
	if (group[0]) {
		group_path(path, "tested");
		rmdir(path);
		group_path(path, "neighbour");
		rmdir(path);
		rmdir(group);
	}
	if (swap_zram >= 0) {
		snprintf(path, sizeof(path), "/dev/zram%d", swap_zram);
		swapoff(path);
		hydra_remove_zram(swap_zram);
	}
	close(ground.file);
	if (directory[0]) {
		/* a test that was killed may not have let go yet */
		for (int i = 0; i < 100 && umount(directory) && errno == EBUSY; i++)
			usleep(100000);
		rmdir(directory);
	}
	if (file_zram >= 0)
		hydra_remove_zram(file_zram);
}

void make_ground(void)
{
	owner = getpid();
	atexit(leave_ground);
	/* switched at most once and back: see numa_balancing_pressure */
	hydra_read_file(NUMA_BALANCING, numa_balancing, sizeof(numa_balancing));
	ground.no_swap = make_swap();
	ground.no_file = make_file();
	ground.no_groups = make_groups();
}
