// SPDX-License-Identifier: GPL-2.0-only
/* Pressures that need no Hydra: all that Linux does to memory and to CPUs. */
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "linux_uapi.h"
#include "pressure.h"

#define KSM		"/sys/kernel/mm/ksm/"
#define COMPACT		"/proc/sys/vm/compact_memory"

static size_t area_size(enum kind kind)
{
	return kinds[kind].pages * PAGE_SIZE;
}

/* Forget clean pages of files; and put pages on the lists that reclaim takes them from */
static void drain_lists(void)
{
	must(!hydra_write_file("/proc/sys/vm/drop_caches", "1"), "drop_caches");
}

static const char *swap_missing(void)
{
	return ground.no_swap;
}

static void page_out(enum kind kind)
{
	must(!madvise(first[kind]->addr, area_size(kind), MADV_PAGEOUT),
	     "madvise(MADV_PAGEOUT), pages %s", kinds[kind].name);
}

static void swap_step(unsigned int round, uint64_t *random)
{
	drain_lists();
	for (enum kind kind = 0; kind < KINDS; kind++)
		page_out(kind);
	await(300);
}

struct pressure swap_pressure = {
	.name = "swap", .missing = swap_missing, .begin = nothing_to_do, .step = swap_step,
	.end = nothing_to_do, .rounds = 8, .counters = { "pswpout", "pswpin" },
};

/* A limit that the pages do not fit in */

static long limit_hits;

static const char *memory_limit_missing(void)
{
	return ground.no_groups ?: ground.no_swap;
}

static void memory_limit_begin(void)
{
	limit_hits = group_number("tested/memory.events", "max");
}

static void memory_limit_step(unsigned int round, uint64_t *random)
{
	char text[32];

	/* what is not for pages is enough for what cannot be swapped */
	snprintf(text, sizeof(text), "%lu",
		 ALL_PAGES * PAGE_SIZE / 100 * (65 + hydra_random(random) % 20) + (1UL << 20));
	must(!group_write("tested/memory.max", text), "memory.max");
	await(100);
	must(!group_write("tested/memory.max", "max"), "memory.max");
	atomic_store(&memory_limit_pressure.happened,
		     group_number("tested/memory.events", "max") - limit_hits);
	await(50);
}

struct pressure memory_limit_pressure = {
	.name = "memory limit", .missing = memory_limit_missing, .begin = memory_limit_begin,
	.step = memory_limit_step, .end = nothing_to_do, .rounds = 4,
	.counters = { "pswpout", "pswpin" }, .happening = "the limit was hit",
};

/* MADV_FREE: a page is as it was until Linux takes it, and empty from then on */

static void lazy_free_begin(void)
{
	atomic_store(&zeroes_seen, 0);
	atomic_store(&freeing, true);
}

static void lazy_free_step(unsigned int round, uint64_t *random)
{
	await(100);
	drain_lists();
	page_out(FREED);
	await(50);
	atomic_store(&lazy_free_pressure.happened, atomic_load(&zeroes_seen));
}

static void lazy_free_end(void)
{
	atomic_store(&freeing, false);
}

struct pressure lazy_free_pressure = {
	.name = "lazy free", .missing = swap_missing, .begin = lazy_free_begin,
	.step = lazy_free_step, .end = lazy_free_end, .rounds = 12,
	.counters = { "pglazyfree", "pglazyfreed" }, .happening = "a page was seen empty",
};

/* Same-page merging */

static struct {
	long run, sleep, scan, smart;
} ksm;

static const char *merging_missing(void)
{
	return access(KSM "run", F_OK) ? "no " KSM " (CONFIG_KSM)" : NULL;
}

static void merging_begin(void)
{
	ksm.run = number_in(KSM "run", NULL);
	ksm.sleep = number_in(KSM "sleep_millisecs", NULL);
	ksm.scan = number_in(KSM "pages_to_scan", NULL);
	ksm.smart = number_in(KSM "smart_scan", NULL);
	must(!write_number(KSM, "sleep_millisecs", "%d", 2), "sleep_millisecs");
	must(!write_number(KSM, "pages_to_scan", "%d", 500), "pages_to_scan");
	must(!write_number(KSM, "smart_scan", "%d", 0), "smart_scan");
}

static void advise(enum kind kind, int advice)
{
	must(!madvise(first[kind]->addr, area_size(kind), advice), "madvise(%d)", advice);
}

static void merging_step(unsigned int round, uint64_t *random)
{
	long merged;

	advise(TWINS, MADV_MERGEABLE);
	/* no two of these are the same, but Linux has to look */
	advise(SMALL, MADV_MERGEABLE);
	must(!write_number(KSM, "run", "1"), "ksm/run");
	do {
		await(10);
		merged = number_in("/proc/self/ksm_merging_pages", NULL);
	} while (merged < 8 && !atomic_load(&shared->mistakes));
	atomic_fetch_add(&merging_pressure.happened, merged);
	await(200);
	if (round % 2) {
		must(!write_number(KSM, "run", "0"), "ksm/run");
		await(100);
		advise(TWINS, MADV_UNMERGEABLE);
		advise(SMALL, MADV_UNMERGEABLE);
	} else {
		/* takes all apart */
		must(!write_number(KSM, "run", "2"), "ksm/run");
		must(!number_in("/proc/self/ksm_merging_pages", NULL), "pages stay merged");
	}
	await(100);
}

static void merging_end(void)
{
	write_number(KSM, "run", "%ld", ksm.run);
	write_number(KSM, "sleep_millisecs", "%ld", ksm.sleep);
	write_number(KSM, "pages_to_scan", "%ld", ksm.scan);
	write_number(KSM, "smart_scan", "%ld", ksm.smart);
}

struct pressure merging_pressure = {
	.name = "same-page merging", .missing = merging_missing, .begin = merging_begin,
	.step = merging_step, .end = merging_end, .rounds = 4,
	.counters = { "cow_ksm" }, .happening = "a page was merged",
};

/* Compaction moves pages to fill holes */

static const char *compaction_missing(void)
{
	return access(COMPACT, F_OK) ? "no " COMPACT " (CONFIG_COMPACTION)" : NULL;
}

/* Page frames, 0 for what is not in memory */
static void find_frames(uint64_t frames[ALL_PAGES])
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < ALL_PAGES; i++) {
		uint64_t entry = 0;

		must(pread(fd, &entry, 8, (uintptr_t)pages[i].addr / PAGE_SIZE * 8) == 8,
		     "/proc/self/pagemap (CONFIG_PROC_PAGE_MONITOR)");
		frames[i] = entry >> 63 ? entry & ((1UL << 55) - 1) : 0;
	}
	close(fd);
}

static void compaction_step(unsigned int round, uint64_t *random)
{
	static uint64_t before[ALL_PAGES], after[ALL_PAGES];
	size_t size = 2 * TABLE_SIZE;
	char *scratch = hydra_map(hydra_reserve(size), size / PAGE_SIZE);
	unsigned long moved = 0;

	/* holes */
	madvise(scratch, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += PAGE_SIZE)
		scratch[i] = 1;
	for (size_t i = 0; i < size; i += 2 * PAGE_SIZE)
		madvise(scratch + i, PAGE_SIZE, MADV_DONTNEED);
	find_frames(before);
	must(!hydra_write_file(COMPACT, "1"), COMPACT);
	find_frames(after);
	munmap(scratch, size);
	for (size_t i = 0; i < ALL_PAGES; i++)
		moved += before[i] && after[i] && before[i] != after[i];
	atomic_fetch_add(&compaction_pressure.happened, moved);
	await(100);
}

struct pressure compaction_pressure = {
	.name = "compaction", .missing = compaction_missing, .begin = nothing_to_do,
	.step = compaction_step, .end = nothing_to_do, .rounds = 4,
	.counters = { "compact_migrate_scanned", "pgmigrate_success" },
	.happening = "a page of ours had moved",
};

/* move_pages: to and fro between the nodes */

#define MOVED_AT_ONCE	128

static const char *moving_missing(void)
{
	long err = syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, MPOL_MF_MOVE);

	return err && errno == ENOSYS ? "no move_pages (CONFIG_MIGRATION)" : NULL;
}

static void moving_step(unsigned int round, uint64_t *random)
{
	int nodes[MOVED_AT_ONCE], status[MOVED_AT_ONCE];
	void *addr[MOVED_AT_ONCE];

	for (int i = 0; i < MOVED_AT_ONCE; i++) {
		struct page *p;

		/* a huge page goes as a whole: not often, for it takes its time */
		do {
			p = &pages[hydra_random(random) % ALL_PAGES];
		} while (i && p->kind == HUGE);
		addr[i] = p->addr;
		nodes[i] = hydra_node_id(hydra_random(random) % hydra_nodes());
		status[i] = -1;
	}
	must(syscall(SYS_move_pages, 0, MOVED_AT_ONCE, addr, nodes, status, MPOL_MF_MOVE) >= 0,
	     "move_pages");
	for (int i = 0; i < MOVED_AT_ONCE; i++)
		if (status[i] == nodes[i])
			atomic_fetch_add(&moving_pressure.happened, 1);
	await(30);
}

struct pressure moving_pressure = {
	.name = "move_pages", .missing = moving_missing, .begin = nothing_to_do,
	.step = moving_step, .end = nothing_to_do, .rounds = 24,
	.counters = { "pgmigrate_success", "thp_migration_success" },
	.happening = "a page was where it was asked to be",
};

/* Huge pages, split and collapsed */

static const char *huge_pages_missing(void)
{
	return access("/sys/kernel/mm/transparent_hugepage", F_OK) ?
	       "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)" : NULL;
}

static void huge_pages_step(unsigned int round, uint64_t *random)
{
	char *addr = first[HUGE]->addr + hydra_random(random) % 2 * TABLE_SIZE;
	char *inside = addr + (1 + hydra_random(random) % (TABLE_PAGES - 1)) * PAGE_SIZE;

	/* permissions that end inside a huge page */
	must(!mprotect(inside, PAGE_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC), "mprotect");
	await(50);
	must(!mprotect(inside, PAGE_SIZE, PROT_READ | PROT_WRITE), "mprotect");
	/* may find a page in use: the counter tells how often it did not */
	madvise(addr, TABLE_SIZE, MADV_COLLAPSE);
	await(50);
}

struct pressure huge_pages_pressure = {
	.name = "huge pages", .missing = huge_pages_missing, .begin = nothing_to_do,
	.step = huge_pages_step, .end = nothing_to_do, .rounds = 12,
	.counters = { "thp_split_pmd", "thp_collapse_alloc" },
};

/*
 * A neighbour runs out of memory: a child that has our pages, on all nodes, and
 * is killed in the middle of it.
 */
#define HOG_SIZE	(64UL << 20)

static long oom_kills;

static const char *oom_kill_missing(void)
{
	return ground.no_groups;
}

static void oom_kill_begin(void)
{
	oom_kills = group_number("neighbour/memory.events", "oom_kill");
	must(!group_write("neighbour/memory.max", "16M"), "memory.max");
	if (!ground.no_swap)
		must(!group_write("neighbour/memory.swap.max", "0"), "memory.swap.max");
}

static void *hog(void *arg)
{
	struct keeper *k = arg;
	char *memory;

	try_cpu(k->cpu);
	memory = mmap(NULL, HOG_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (;;)
		for (size_t i = 0; i < HOG_SIZE; i += PAGE_SIZE)
			((volatile char *)memory)[i]++;
	return NULL;
}

static void __attribute__((noreturn)) be_killed(void)
{
	must(!group_write("neighbour/cgroup.procs", "0"), "joining a cgroup");
	look_at_all(keeps_its_own);
	for (size_t i = 0; i < ALL_PAGES; i++)
		if (keeps_its_own(&pages[i]) && written_by_us(&pages[i]))
			rewrite(&pages[i]);
	look_at_all(keeps_its_own);
	atomic_fetch_add(&shared->looked_at_by_children, 1);
	for (int i = 1; i < nr_keepers; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, hog, &keepers[i]);
	}
	hog(&keepers[0]);
	_exit(0);
}

static void oom_kill_step(unsigned int round, uint64_t *random)
{
	unsigned long looked = atomic_load(&shared->looked_at_by_children);
	pid_t child = fork_consistently();
	int status;

	if (!child)
		be_killed();
	status = hydra_wait_child(child);
	must(status == 128 + SIGKILL, "a neighbour that takes too much ended with %d", status);
	must(atomic_load(&shared->looked_at_by_children) == looked + 1,
	     "it was killed before it had looked at its memory");
	atomic_store(&oom_kill_pressure.happened,
		     group_number("neighbour/memory.events", "oom_kill") - oom_kills);
	await(30);
}

struct pressure oom_kill_pressure = {
	.name = "OOM kill of a neighbour", .missing = oom_kill_missing, .begin = oom_kill_begin,
	.step = oom_kill_step, .end = nothing_to_do, .rounds = 3, .counters = { "oom_kill" },
	.happening = "a neighbour was killed",
};

/* CPUs go and come, whole nodes of them */

static const char *hotplug_missing(void)
{
	return access(CPUS "cpu1/online", F_OK) ?
	       "no " CPUS "cpu1/online (CONFIG_HOTPLUG_CPU)" : NULL;
}

static void set_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	must(!hydra_write_file(path, online ? "1" : "0"), "%s", path);
	must(number_in(path, NULL) == online, "%s does not take it", path);
}

static void hotplug_step(unsigned int round, uint64_t *random)
{
	int node = 1 + round % (hydra_nodes() - 1);

	for (struct keeper *k = keepers; k < keepers + nr_keepers; k++) {
		unsigned long displaced = atomic_load(&k->displaced);

		if (k->node != node)
			continue;
		set_online(k->cpu, false);
		while (atomic_load(&k->displaced) == displaced)
			await(16);
		atomic_fetch_add(&hotplug_pressure.happened, 1);
	}
	await(50);
	for (struct keeper *k = keepers; k < keepers + nr_keepers; k++)
		if (k->node == node)
			set_online(k->cpu, true);
	/* they go back to their CPUs by themselves */
	await(50);
}

struct pressure hotplug_pressure = {
	.name = "CPU hotplug", .missing = hotplug_missing, .begin = nothing_to_do,
	.step = hotplug_step, .end = all_cpus_online, .rounds = 3,
	.happening = "a keeper lost its CPU",
};

/*
 * NUMA balancing takes access away to learn who uses a page. It stays on when it
 * has been switched on, until the end of the program: emulators have been seen
 * to stumble over the kernel's patching itself.
 */
static const char *numa_balancing_missing(void)
{
	return access(NUMA_BALANCING, F_OK) ?
	       "no " NUMA_BALANCING " (CONFIG_NUMA_BALANCING)" : NULL;
}

static void numa_balancing_begin(void)
{
	if (number_in(NUMA_BALANCING, NULL) != 1)
		must(!hydra_write_file(NUMA_BALANCING, "1"), NUMA_BALANCING);
}

static void numa_balancing_step(unsigned int round, uint64_t *random)
{
	uint64_t faults = hydra_vmstat("numa_hint_faults");

	/* it begins when a thread has run for a second or so */
	do {
		await(100);
	} while (hydra_vmstat("numa_hint_faults") < faults + 100 && !atomic_load(&shared->mistakes));
}

struct pressure numa_balancing_pressure = {
	.name = "NUMA balancing", .missing = numa_balancing_missing,
	.begin = numa_balancing_begin, .step = numa_balancing_step, .end = nothing_to_do,
	.rounds = 3,
	.counters = { "numa_pte_updates", "numa_hint_faults", "numa_pages_migrated" },
};
