// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data under pressure. On every CPU a thread, called keeper, writes pages of all
 * kinds and verifies those that others have written, without a pause, while
 * Linux swaps, merges, moves, splits and forgets them, CPUs go and come,
 * allocations fail and policies change. One pressure after the other, then all
 * at once.
 *
 * A page says how often it has been written, and whether it is being written
 * now. When it has said the same before and after it was read, its contents must
 * be just those. A pressure that left no trace in the kernel's own counters
 * fails: it would prove nothing.
 */
#include <argp.h>
#include <fcntl.h>
#include <numaif.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/swap.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define KEEPERS_MAX	64
#define MISTAKES_SHOWN	20
#define LONG_FACTOR	50	/* --long does that many times as much */
#define TEST_SECONDS	180	/* until a test is taken for hung */
#define SWITCHES	200	/* of the policy */
#define PATIENCE	20	/* times as many rounds until one is taken for without effect */

#define KSM		"/sys/kernel/mm/ksm/"
#define DEBUGFS		"/sys/kernel/debug"
#define CPUS		"/sys/devices/system/cpu/"

static struct {
	uint64_t seed;
	unsigned int factor;
	unsigned int switches;
	const char *policy;
} option = { .factor = 1 };

/* A number that a file contains alone, or behind a key on a line */
static long number_in(const char *path, const char *key)
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

static int __attribute__((format(printf, 3, 4)))
write_number(const char *dir, const char *name, const char *format, ...)
{
	char path[256], text[64];
	va_list args;

	snprintf(path, sizeof(path), "%s%s", dir, name);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return hydra_write_file(path, text);
}

static uint64_t random_from(uint64_t salt)
{
	return hydra_word(option.seed + 1, salt, 0) | 1;
}

/* What all tests stand on, made once: swap, a file on a disk, memory cgroups */

#define FILE_PAGES	128
#define FILE_SEED	0xf11e

static struct {
	int swap_zram, file_zram, file;
	char dir[32], group[64], numa_balancing[16];
	/* why that is not there; NULL if it is */
	const char *no_swap, *no_file, *no_groups;
	pid_t owner;
} ground = { .swap_zram = -1, .file_zram = -1, .file = -1 };

static const char *make_swap(void)
{
	char device[32], command[64];

	ground.swap_zram = hydra_add_zram("96M");
	if (ground.swap_zram < 0)
		return "no swap: no zram (CONFIG_ZRAM, CONFIG_SWAP)";
	snprintf(device, sizeof(device), "/dev/zram%d", ground.swap_zram);
	snprintf(command, sizeof(command), "mkswap -q %s >/dev/null", device);
	if (system(command) || swapon(device, 0))
		return "no swap: mkswap or swapon failed";
	return NULL;
}

static const char *make_file(void)
{
	uint64_t words[PAGE_WORDS];
	char device[32], command[64], path[64];

	ground.file_zram = hydra_add_zram("32M");
	if (ground.file_zram < 0)
		return "no disk for a file: no zram (CONFIG_ZRAM)";
	snprintf(device, sizeof(device), "/dev/zram%d", ground.file_zram);
	snprintf(command, sizeof(command), "mkfs.ext4 -q %s", device);
	strcpy(ground.dir, "/tmp/hydra-pressure-XXXXXX");
	if (system(command) || !mkdtemp(ground.dir) || mount(device, ground.dir, "ext4", 0, NULL))
		return "no disk for a file: mkfs.ext4 or mount failed (CONFIG_EXT4_FS)";
	snprintf(path, sizeof(path), "%s/pages", ground.dir);
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
	snprintf(path, 128, "%s/%s", ground.group, name);
}

static long group_number(const char *name, const char *key)
{
	char path[128];

	group_path(path, name);
	return number_in(path, key);
}

static int group_write(const char *name, const char *text)
{
	char path[128];

	group_path(path, name);
	return hydra_write_file(path, text);
}

#define CGROUPS	"/sys/fs/cgroup"

static const char *make_groups(void)
{
	char path[128];

	if (access(CGROUPS "/cgroup.controllers", F_OK) &&
	    mount("none", CGROUPS, "cgroup2", 0, NULL))
		return "no cgroup2 at " CGROUPS " (CONFIG_CGROUPS)";
	if (hydra_write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return "cgroup2 has no memory controller (CONFIG_MEMCG)";
	snprintf(ground.group, sizeof(ground.group), CGROUPS "/hydra-pressure-%d", getpid());
	if (mkdir(ground.group, 0755))
		return "no cgroup can be made in " CGROUPS;
	group_path(path, "tested");
	if (group_write("cgroup.subtree_control", "+memory") || mkdir(path, 0755))
		return "no memory cgroup can be made in a cgroup";
	group_path(path, "neighbour");
	return mkdir(path, 0755) ? "no memory cgroup can be made in a cgroup" : NULL;
}

static void all_cpus_online(void)
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

	if (getpid() != ground.owner)
		return;
	all_cpus_online();
	hydra_write_file(NUMA_BALANCING, ground.numa_balancing);
	if (ground.group[0]) {
		group_path(path, "tested");
		rmdir(path);
		group_path(path, "neighbour");
		rmdir(path);
		rmdir(ground.group);
	}
	if (ground.swap_zram >= 0) {
		snprintf(path, sizeof(path), "/dev/zram%d", ground.swap_zram);
		swapoff(path);
		hydra_remove_zram(ground.swap_zram);
	}
	close(ground.file);
	if (ground.dir[0]) {
		/* a test that was killed may not have let go yet */
		for (int i = 0; i < 100 && umount(ground.dir) && errno == EBUSY; i++)
			usleep(100000);
		rmdir(ground.dir);
	}
	if (ground.file_zram >= 0)
		hydra_remove_zram(ground.file_zram);
}

static void make_ground(void)
{
	ground.owner = getpid();
	atexit(leave_ground);
	/* switched at most once and back: see numa_balancing_pressure */
	hydra_read_file(NUMA_BALANCING, ground.numa_balancing, sizeof(ground.numa_balancing));
	ground.no_swap = make_swap();
	ground.no_file = make_file();
	ground.no_groups = make_groups();
}

/* Pages, and what they say */

enum kind { SMALL, HUGE, SHARED, FROM_FILE, TWINS, FREED, KINDS };

static const struct {
	const char *name;
	size_t pages;
} kinds[KINDS] = {
	[SMALL]		= { "anonymous", 384 },
	[HUGE]		= { "huge", 2 * TABLE_PAGES },
	[SHARED]	= { "shared", 128 },
	[FROM_FILE]	= { "from a file", FILE_PAGES },
	[TWINS]		= { "twins", 64 },
	[FREED]		= { "freed lazily", 64 },
};

#define ALL_PAGES	(384 + 2 * TABLE_PAGES + 128 + FILE_PAGES + 64 + 64)

#define CHANGING	1UL	/* somebody writes it: it has a single writer at a time */
#define LAZY		2UL	/* contents as before, or zeroes */
#define VERSION(said)	((said) >> 2)
#define SAY(version)	((version) << 2)

struct page {
	char *addr;
	enum kind kind;
	size_t index;		/* in its area */
	atomic_ulong said;
};

static struct page pages[ALL_PAGES];
static struct page *first[KINDS];	/* of each area */

static pid_t keepers_pid;

/* Shared with the processes that tests start */
static struct {
	atomic_int mistakes, failures;
	atomic_ulong looked_at_by_children;
} *shared;

static bool written_by_us(const struct page *p)
{
	/* every other page of the file stays what the file contains */
	return p->kind != FROM_FILE || p->index % 2;
}

static uint64_t expected_word(const struct page *p, uint64_t said, size_t word)
{
	uint64_t version = VERSION(said);

	if (p->kind == TWINS)
		return hydra_word(0x7717 + version % 4, 0, word);
	if (p->kind == FROM_FILE && !version)
		return hydra_word(FILE_SEED, p->index, word);
	return hydra_word(option.seed + p->kind + KINDS * (version + 1), p->index, word);
}

static void __attribute__((format(printf, 2, 3)))
mistake(const struct page *p, const char *format, ...)
{
	va_list args;

	if (atomic_fetch_add(&shared->mistakes, 1) >= MISTAKES_SHOWN)
		return;
	flockfile(stderr);
	fprintf(stderr, "# WRONG DATA: %s, CPU %d, page %zu (%s) at %p, version %lu%s: ",
		getpid() == keepers_pid ? "the tested process" : "a child", sched_getcpu(),
		p->index, kinds[p->kind].name, p->addr, VERSION(atomic_load(&p->said)),
		atomic_load(&p->said) & LAZY ? ", freed" : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	funlockfile(stderr);
}

/* What goes wrong with a pressure itself; never anything but a failed test */
static void __attribute__((format(printf, 1, 2))) failure(const char *format, ...)
{
	int err = errno;
	va_list args;

	atomic_fetch_add(&shared->failures, 1);
	flockfile(stderr);
	fprintf(stderr, "# ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(err));
	funlockfile(stderr);
}

#define must(done, ...) do {		\
	errno = 0;			\
	if (!(done))			\
		failure(__VA_ARGS__);	\
} while (0)

static atomic_ulong zeroes_seen;	/* pages freed lazily that Linux took */

/* Verify a page that says so; nothing if it says otherwise in the end */
static void look(struct page *p, uint64_t said)
{
	const volatile uint64_t *words = (uint64_t *)p->addr;
	bool zeroes = false;

	for (size_t word = 0; word < PAGE_WORDS; word++) {
		uint64_t expected = expected_word(p, said, word), seen = words[word];

		if (said & LAZY) {
			/* once Linux has taken the page, it stays zero */
			if (!seen)
				zeroes = true;
			if (zeroes)
				expected = 0;
		}
		if (seen == expected)
			continue;
		if (atomic_load(&p->said) == said)
			mistake(p, "word %zu was %#lx, not %#lx; it is %#lx now", word, seen,
				expected, words[word]);
		return;
	}
	if (zeroes)
		atomic_fetch_add(&zeroes_seen, 1);
}

static void rewrite(struct page *p)
{
	uint64_t said = atomic_load(&p->said);
	uint64_t next = SAY(VERSION(said) + 1);

	if (said & CHANGING || !atomic_compare_exchange_strong(&p->said, &said, said | CHANGING))
		return;
	look(p, said | CHANGING);
	for (size_t word = 0; word < PAGE_WORDS; word++)
		((volatile uint64_t *)p->addr)[word] = expected_word(p, next, word);
	atomic_store(&p->said, next);
}

static atomic_bool freeing;	/* may keepers free pages lazily? */

static void free_lazily(struct page *p)
{
	uint64_t said = atomic_load(&p->said);

	if (said & (CHANGING | LAZY) ||
	    !atomic_compare_exchange_strong(&p->said, &said, said | CHANGING))
		return;
	must(!madvise(p->addr, PAGE_SIZE, MADV_FREE), "madvise(MADV_FREE)");
	atomic_store(&p->said, said | LAZY);
}

/* Keepers */

static struct keeper {
	pthread_t thread;
	int node, cpu;
	pid_t tid;
	uint64_t random;
	atomic_ulong steps;
	atomic_ulong displaced;	/* found itself on another CPU */
} keepers[KEEPERS_MAX];

static int nr_keepers;
static pthread_barrier_t keepers_ready;
static atomic_bool stop, paused;
static atomic_int resting;
static pthread_mutex_t pause_lock = PTHREAD_MUTEX_INITIALIZER;

/* Fails while the CPU is offline: then we run wherever Linux lets us */
static void try_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void keep(struct keeper *k)
{
	struct page *p = &pages[hydra_random(&k->random) % ALL_PAGES];
	uint64_t choice = hydra_random(&k->random) % 16, said;

	if (atomic_load(&freeing) && hydra_random(&k->random) % 2)
		p = first[FREED] + hydra_random(&k->random) % kinds[FREED].pages;
	if (choice < 2 && written_by_us(p)) {
		rewrite(p);
	} else if (choice < 6 && p->kind == FREED && atomic_load(&freeing)) {
		free_lazily(p);
	} else {
		said = atomic_load(&p->said);
		if (!(said & CHANGING))
			look(p, said);
	}
}

static void *keeper_main(void *arg)
{
	struct keeper *k = arg;

	k->tid = gettid();
	try_cpu(k->cpu);
	/* so that the tables of each area belong to several nodes */
	for (size_t i = k - keepers; i < ALL_PAGES; i += nr_keepers)
		if (written_by_us(&pages[i]))
			for (size_t word = 0; word < PAGE_WORDS; word++)
				((volatile uint64_t *)pages[i].addr)[word] =
					expected_word(&pages[i], SAY(1), word);
	for (size_t i = k - keepers; i < ALL_PAGES; i += nr_keepers)
		if (written_by_us(&pages[i]))
			atomic_store(&pages[i].said, SAY(1));
	pthread_barrier_wait(&keepers_ready);

	while (!atomic_load(&stop)) {
		keep(k);
		if (atomic_fetch_add(&k->steps, 1) % 16)
			continue;
		/* half of the time a CPU is idle, with all it has in its TLB */
		if (hydra_random(&k->random) % 2)
			usleep(1000);
		if (sched_getcpu() != k->cpu) {
			atomic_fetch_add(&k->displaced, 1);
			try_cpu(k->cpu);
		}
		if (atomic_load(&paused)) {
			atomic_fetch_add(&resting, 1);
			while (atomic_load(&paused))
				usleep(200);
			atomic_fetch_sub(&resting, 1);
		}
	}
	return NULL;
}

/* Each keeper has made so many steps since */
static void await(unsigned long steps)
{
	unsigned long from[KEEPERS_MAX];

	for (int i = 0; i < nr_keepers; i++)
		from[i] = atomic_load(&keepers[i].steps);
	for (int i = 0; i < nr_keepers; i++)
		while (atomic_load(&keepers[i].steps) < from[i] + steps &&
		       !atomic_load(&shared->mistakes))
			usleep(500);
}

/* No page changes until resume_keepers() */
static void pause_keepers(void)
{
	pthread_mutex_lock(&pause_lock);
	while (atomic_load(&resting))
		usleep(100);
	atomic_store(&paused, true);
	while (atomic_load(&resting) < nr_keepers)
		usleep(100);
}

static void resume_keepers(void)
{
	atomic_store(&paused, false);
	pthread_mutex_unlock(&pause_lock);
}

/* Any CPU that is online, for what calls the kernel */
static void go_anywhere(uint64_t *random)
{
	try_cpu(keepers[hydra_random(random) % nr_keepers].cpu);
}

/*
 * A child has private pages as they were when it was born. Not those that are
 * freed lazily: when a process frees a page that it has swapped in by reading
 * and then shared with a child, Linux 6.12 takes it away from the child, too.
 */
static bool keeps_its_own(const struct page *p)
{
	return p->kind != SHARED && p->kind != FREED;
}

/* For when nothing changes: each page, seen from here */
static void look_at_all(bool (*choose)(const struct page *p))
{
	for (size_t i = 0; i < ALL_PAGES; i++)
		if (!choose || choose(&pages[i]))
			look(&pages[i], atomic_load(&pages[i].said));
}

/* A child, at a moment when no page is being written */
static pid_t fork_consistently(void)
{
	pid_t child;

	pause_keepers();
	fflush(NULL);
	child = fork();
	if (child) {
		must(child > 0, "fork");
		resume_keepers();
	}
	return child;
}

static void make_pages(void)
{
	size_t page = 0;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		size_t size = kinds[kind].pages * PAGE_SIZE;
		char *addr = hydra_reserve(2 * TABLE_SIZE);
		int flags = MAP_FIXED, fd = -1;

		/* small pages lie across the border of two leaf tables */
		if (kind != HUGE)
			addr += TABLE_SIZE - size / 2;
		if (kind == FROM_FILE)
			fd = ground.file;
		else
			flags |= MAP_ANONYMOUS;
		flags |= kind == SHARED ? MAP_SHARED : MAP_PRIVATE;
		if (mmap(addr, size, PROT_READ | PROT_WRITE, flags, fd, 0) != addr)
			failure("cannot map pages (%s)", kinds[kind].name);
		must(!madvise(addr, size, kind == HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE),
		     "madvise (CONFIG_TRANSPARENT_HUGEPAGE)");
		first[kind] = &pages[page];
		for (size_t i = 0; i < kinds[kind].pages; i++, page++) {
			pages[page].addr = addr + i * PAGE_SIZE;
			pages[page].kind = kind;
			pages[page].index = i;
			atomic_store(&pages[page].said, 0);
		}
	}
}

static size_t area_size(enum kind kind)
{
	return kinds[kind].pages * PAGE_SIZE;
}

static void start_keepers(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 0; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		/* one on each node: emulators have fewer CPUs than they show */
		keepers[nr_keepers].node = node;
		keepers[nr_keepers++].cpu = cpus[count - 1];
	}
	keepers_pid = getpid();
	pthread_barrier_init(&keepers_ready, NULL, nr_keepers + 1);
	for (int i = 0; i < nr_keepers; i++) {
		keepers[i].random = random_from(i);
		errno = pthread_create(&keepers[i].thread, NULL, keeper_main, &keepers[i]);
		if (errno) {
			perror("# cannot start a thread");
			abort();
		}
	}
	pthread_barrier_wait(&keepers_ready);
}

static void stop_keepers(void)
{
	atomic_store(&stop, true);
	for (int i = 0; i < nr_keepers; i++)
		pthread_join(keepers[i].thread, NULL);
}

/* Pressures */

struct pressure {
	const char *name;
	const char *(*missing)(void);		/* NULL, or why it cannot be had here */
	void (*begin)(void);
	void (*step)(unsigned int round, uint64_t *random);
	void (*end)(void);
	unsigned int rounds;			/* steps of the short run */
	const char *counters[4];		/* of /proc/vmstat, that must grow */
	const char *happening;			/* and this, which "happened" counts */
	atomic_ulong happened;
};

static void nothing_to_do(void)
{
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

static struct pressure swap_pressure = {
	.name = "swap", .missing = swap_missing, .begin = nothing_to_do, .step = swap_step,
	.end = nothing_to_do, .rounds = 8, .counters = { "pswpout", "pswpin" },
};

/* A limit that the pages do not fit in */

static struct pressure memory_limit_pressure;
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

static struct pressure memory_limit_pressure = {
	.name = "memory limit", .missing = memory_limit_missing, .begin = memory_limit_begin,
	.step = memory_limit_step, .end = nothing_to_do, .rounds = 4,
	.counters = { "pswpout", "pswpin" }, .happening = "the limit was hit",
};

/* MADV_FREE: a page is as it was until Linux takes it, and empty from then on */

static struct pressure lazy_free_pressure;

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

static struct pressure lazy_free_pressure = {
	.name = "lazy free", .missing = swap_missing, .begin = lazy_free_begin,
	.step = lazy_free_step, .end = lazy_free_end, .rounds = 12,
	.counters = { "pglazyfree", "pglazyfreed" }, .happening = "a page was seen empty",
};

/* Same-page merging */

static struct pressure merging_pressure;
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

static struct pressure merging_pressure = {
	.name = "same-page merging", .missing = merging_missing, .begin = merging_begin,
	.step = merging_step, .end = merging_end, .rounds = 4,
	.counters = { "cow_ksm" }, .happening = "a page was merged",
};

/* Compaction moves pages to fill holes */

#define COMPACT	"/proc/sys/vm/compact_memory"

static struct pressure compaction_pressure;

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

static struct pressure compaction_pressure = {
	.name = "compaction", .missing = compaction_missing, .begin = nothing_to_do,
	.step = compaction_step, .end = nothing_to_do, .rounds = 4,
	.counters = { "compact_migrate_scanned", "pgmigrate_success" },
	.happening = "a page of ours had moved",
};

/* move_pages: to and fro between the nodes */

#define MOVED_AT_ONCE	128

static struct pressure moving_pressure;

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

static struct pressure moving_pressure = {
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

static struct pressure huge_pages_pressure = {
	.name = "huge pages", .missing = huge_pages_missing, .begin = nothing_to_do,
	.step = huge_pages_step, .end = nothing_to_do, .rounds = 12,
	.counters = { "thp_split_pmd", "thp_collapse_alloc" },
};

/*
 * A neighbour runs out of memory: a child that has our pages, on all nodes, and
 * is killed in the middle of it.
 */
#define HOG_SIZE	(64UL << 20)

static struct pressure oom_kill_pressure;
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

static struct pressure oom_kill_pressure = {
	.name = "OOM kill of a neighbour", .missing = oom_kill_missing, .begin = oom_kill_begin,
	.step = oom_kill_step, .end = nothing_to_do, .rounds = 3, .counters = { "oom_kill" },
	.happening = "a neighbour was killed",
};

/* CPUs go and come, whole nodes of them */

static struct pressure hotplug_pressure;

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

static struct pressure hotplug_pressure = {
	.name = "CPU hotplug", .missing = hotplug_missing, .begin = nothing_to_do,
	.step = hotplug_step, .end = all_cpus_online, .rounds = 3,
	.happening = "a keeper lost its CPU",
};

/* Policies change under a running process */

static struct pressure switching_pressure;
static pthread_mutex_t policy_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *nothing_missing(void)
{
	return NULL;
}

static const char * const policies[] = {
	"hydra", "hydra,filter=none", "hydra,prefetch=0", "hydra,prefetch=4",
};

static const char *usual_policy(void)
{
	return option.policy ?: policies[random_from(0) / 2 % ARRAY_SIZE(policies)];
}

static void switching_step(unsigned int round, uint64_t *random)
{
	const char *policy = round % 2 ? policies[hydra_random(random) % ARRAY_SIZE(policies)] :
					 "linux";
	struct hydra_settings settings;
	int err;

	pthread_mutex_lock(&policy_lock);
	err = hydra_write_policy(getpid(), policy);
	must(!err, "policy %s: error %d", policy, err);
	must(!hydra_get(&settings) && settings.domains == round % 2, "policy %s is not in force",
	     policy);
	pthread_mutex_unlock(&policy_lock);
	atomic_fetch_add(&switching_pressure.happened, !err);
	await(2);
}

static void to_usual_policy(void)
{
	must(!hydra_write_policy(getpid(), usual_policy()), "policy %s", usual_policy());
}

static struct pressure switching_pressure = {
	.name = "switching policies", .missing = nothing_missing, .begin = nothing_to_do,
	.step = switching_step, .end = to_usual_policy, .rounds = SWITCHES,
	.happening = "the policy was changed",
};

/* Allocations fail, those that are asked for by Hydra's own code and no others */

#define FAIL_PAGE	DEBUGFS "/fail_page_alloc/"
#define FAIL_SLAB	DEBUGFS "/failslab/"
#define FAILURES	1000000		/* at most: counted down by the kernel */

static struct pressure failing_allocations_pressure;
static uint64_t fallbacks;

static const char *failing_allocations_missing(void)
{
	static const struct {
		const char *path, *option;
	} needed[] = {
		{ "/proc/self/make-it-fail", "FAULT_INJECTION" },
		{ FAIL_SLAB, "FAILSLAB" },
		{ FAIL_PAGE, "FAIL_PAGE_ALLOC" },
		{ FAIL_PAGE "probability", "FAULT_INJECTION_DEBUG_FS" },
		{ FAIL_PAGE "require-start", "FAULT_INJECTION_STACKTRACE_FILTER" },
	};
	static char text[256];
	size_t len = 0;

	for (int i = 0; i < ARRAY_SIZE(needed); i++)
		if (access(needed[i].path, F_OK))
			len += snprintf(text + len, sizeof(text) - len, "%sCONFIG_%s",
					len ? ", " : "failing allocations need ",
					needed[i].option);
	return len ? text : NULL;
}

/* Code from where to where, by its symbols */
static struct range {
	unsigned long start, end;
} symbols_range(const char * const names[], int count)
{
	struct range r = { -1UL, 0 };
	unsigned long addr, last = 0;
	char line[256], name[128];
	FILE *f = fopen("/proc/kallsyms", "r");
	int found = 0;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx %*c %127s", &addr, name) != 2)
			continue;
		for (int i = 0; i < count; i++)
			if (!strcmp(name, names[i])) {
				r.start = addr < r.start ? addr : r.start;
				last = addr > last ? addr : last;
				found++;
			}
	}
	/* the last one ends where the next begins */
	r.end = -1UL;
	for (rewind(f); fgets(line, sizeof(line), f);)
		if (sscanf(line, "%lx", &addr) == 1 && addr > last && addr < r.end)
			r.end = addr;
	fclose(f);
	must(found == count, "only %d of %d symbols in /proc/kallsyms (CONFIG_KALLSYMS)", found,
	     count);
	return r;
}

static void set_chances(int page, int slab)
{
	must(!write_number(FAIL_PAGE, "probability", "%d", page), FAIL_PAGE "probability");
	must(!write_number(FAIL_SLAB, "probability", "%d", slab), FAIL_SLAB "probability");
}

static void make_it_fail(int tid, const char *yes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/make-it-fail", tid);
	must(!hydra_write_file(path, yes), "%s", path);
}

static void failing_allocations_begin(void)
{
	/* all in mm/hydra/, where whatever lies between is, too */
	static const char * const ours[] = {
		"hydra_set", "hydra_mm_init", "hydra_table_alloc", "hydra_page_alloc",
		"hydra_domain_upper", "__hydra_fault",
	};
	/* but this one makes tables for Linux, which has no way to do without */
	static const char * const not_ours[] = { "hydra_pte_alloc_one" };
	struct range require = symbols_range(ours, ARRAY_SIZE(ours));
	struct range reject = symbols_range(not_ours, ARRAY_SIZE(not_ours));
	const char * const dirs[] = { FAIL_PAGE, FAIL_SLAB };
	struct hydra_stats stats;

	set_chances(0, 0);
	for (int i = 0; i < ARRAY_SIZE(dirs); i++) {
		const char *dir = dirs[i];

		must(!write_number(dir, "task-filter", "Y") &&
		     !write_number(dir, "stacktrace-depth", "32") &&
		     !write_number(dir, "require-start", "%#lx", require.start) &&
		     !write_number(dir, "require-end", "%#lx", require.end) &&
		     !write_number(dir, "reject-start", "%#lx", reject.start) &&
		     !write_number(dir, "reject-end", "%#lx", reject.end) &&
		     !write_number(dir, "interval", "1") && !write_number(dir, "verbose", "0") &&
		     !write_number(dir, "space", "0") &&
		     !write_number(dir, "times", "%d", FAILURES) &&
		     !write_number(dir, "ignore-gfp-wait", "N"), "%s cannot be set up", dir);
	}
	must(!write_number(FAIL_PAGE, "min-order", "0"), FAIL_PAGE "min-order");
	must(!write_number(FAIL_SLAB, "cache-filter", "N"), FAIL_SLAB "cache-filter");
	make_it_fail(gettid(), "1");
	for (int i = 0; i < nr_keepers; i++)
		make_it_fail(keepers[i].tid, "1");
	must(!hydra_read_stats(getpid(), &stats), "/proc/self/hydra");
	fallbacks = stats.fallbacks;
}

static void failing_allocations_step(unsigned int round, uint64_t *random)
{
	static const struct {
		int page, slab;
	} chances[] = { { 20, 0 }, { 0, 20 }, { 50, 50 }, { 5, 5 } };
	struct hydra_settings settings;
	struct hydra_stats stats;
	pid_t child;
	int err;

	set_chances(chances[round % 4].page, chances[round % 4].slab);
	/* all tables anew; roots may not be had at once */
	pthread_mutex_lock(&policy_lock);
	must(!hydra_off(), "policy linux");
	do {
		err = hydra_write_policy(getpid(), usual_policy());
		must(!err || err == -ENOMEM, "policy %s: error %d", usual_policy(), err);
		must(!hydra_get(&settings) && settings.domains == !err,
		     "an error has changed the policy, or success has not");
	} while (err == -ENOMEM);
	pthread_mutex_unlock(&policy_lock);
	await(80);

	child = fork_consistently();
	if (!child) {
		look_at_all(keeps_its_own);
		must(hydra_consistent(getpid()), "a child is not consistent");
		_exit(0);
	}
	must(!hydra_wait_child(child), "a child that looks at its memory");
	must(!hydra_read_stats(getpid(), &stats), "/proc/self/hydra");
	atomic_store(&failing_allocations_pressure.happened, stats.fallbacks - fallbacks);
}

static void failing_allocations_end(void)
{
	long page, slab;

	set_chances(0, 0);
	make_it_fail(gettid(), "0");
	for (int i = 0; i < nr_keepers; i++)
		make_it_fail(keepers[i].tid, "0");
	page = FAILURES - number_in(FAIL_PAGE "times", NULL);
	slab = FAILURES - number_in(FAIL_SLAB "times", NULL);
	fprintf(stderr, "# failed: %ld page and %ld slab allocations\n", page, slab);
	must(page > 0, "no page allocation has failed");
	must(slab > 0, "no slab allocation has failed");
}

static struct pressure failing_allocations_pressure = {
	.name = "failing allocations", .missing = failing_allocations_missing,
	.begin = failing_allocations_begin, .step = failing_allocations_step,
	.end = failing_allocations_end, .rounds = 12,
	.happening = "a node fell back to another's table",
};

/* Replicas are given back, and asked for again */

static struct pressure replica_reclaim_pressure;
static long reclaimed;

static const char *replica_reclaim_missing(void)
{
	return number_in("/proc/self/hydra", "reclaimed") < 0 ?
	       "this kernel gives no replicas back: no line \"reclaimed\" in /proc/PID/hydra" :
	       NULL;
}

static void replica_reclaim_begin(void)
{
	reclaimed = number_in("/proc/self/hydra", "reclaimed");
}

static void replica_reclaim_step(unsigned int round, uint64_t *random)
{
	must(!hydra_write_file("/proc/sys/vm/drop_caches", "2"), "drop_caches");
	atomic_store(&replica_reclaim_pressure.happened,
		     number_in("/proc/self/hydra", "reclaimed") - reclaimed);
	await(50);
}

static struct pressure replica_reclaim_pressure = {
	.name = "replica reclaim", .missing = replica_reclaim_missing,
	.begin = replica_reclaim_begin, .step = replica_reclaim_step,
	.end = nothing_to_do, .rounds = 12,
	.counters = { "drop_slab" }, .happening = "a replica was given back",
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

static struct pressure numa_balancing_pressure = {
	.name = "NUMA balancing", .missing = numa_balancing_missing,
	.begin = numa_balancing_begin, .step = numa_balancing_step, .end = nothing_to_do,
	.rounds = 3,
	.counters = { "numa_pte_updates", "numa_hint_faults", "numa_pages_migrated" },
};

static struct pressure * const pressures[] = {
	&swap_pressure, &memory_limit_pressure, &lazy_free_pressure, &merging_pressure,
	&compaction_pressure, &moving_pressure, &huge_pages_pressure, &oom_kill_pressure,
	&hotplug_pressure, &switching_pressure, &failing_allocations_pressure,
	&replica_reclaim_pressure, &numa_balancing_pressure,
};

/* One pressure, or some of them at once */

struct application {
	struct pressure *pressure;
	pthread_t thread;
	unsigned int rounds, done;
	uint64_t random;
	uint64_t counters[ARRAY_SIZE(((struct pressure *)NULL)->counters)];
};

static bool all_well(void)
{
	return !atomic_load(&shared->mistakes) && !atomic_load(&shared->failures);
}

static void begin(struct application *a, struct pressure *p, unsigned int divisor)
{
	a->pressure = p;
	a->rounds = p == &switching_pressure && option.switches ? option.switches :
		    p->rounds * option.factor;
	a->rounds = (a->rounds + divisor - 1) / divisor;
	a->random = random_from(1000 + p->rounds);
	for (int i = 0; i < ARRAY_SIZE(p->counters) && p->counters[i]; i++)
		a->counters[i] = hydra_vmstat(p->counters[i]);
	p->begin();
}

/* What the kernel's counters say of it. Missing: what has not happened yet; or NULL. */
static const char *evidence(struct application *a, char *text, size_t size)
{
	struct pressure *p = a->pressure;
	const char *missing = NULL;
	size_t len = 0;

	*text = 0;
	for (int i = 0; i < ARRAY_SIZE(p->counters) && p->counters[i]; i++) {
		uint64_t grown = hydra_vmstat(p->counters[i]) - a->counters[i];

		len += snprintf(text + len, size - len, "; %s +%lu", p->counters[i], grown);
		if (!grown)
			missing = p->counters[i];
	}
	if (p->happening) {
		unsigned long happened = atomic_load(&p->happened);

		snprintf(text + len, size - len, "; %lu times %s", happened, p->happening);
		if (!happened)
			missing = p->happening;
	}
	return missing;
}

/* As many rounds as it is to have, and on until it has shown in the counters */
static void *apply(void *arg)
{
	struct application *a = arg;
	unsigned int check = a->rounds / 8 + 1;
	const char *missing = NULL;
	char text[512] = "";

	for (; all_well() && (a->done < a->rounds || missing); a->done++) {
		go_anywhere(&a->random);
		a->pressure->step(a->done, &a->random);
		if (a->done % check == 0)
			must(hydra_consistent(getpid()), "round %u of %s", a->done,
			     a->pressure->name);
		if (a->done + 1 >= a->rounds)
			missing = evidence(a, text, sizeof(text));
		if (missing && a->done > PATIENCE * a->rounds)
			failure("%s: not once \"%s\", this shows nothing", a->pressure->name,
				missing);
	}
	fprintf(stderr, "# %s: %u rounds%s\n", a->pressure->name, a->done, text);
	return NULL;
}

FIXTURE(pressure) {
	long violations;
};

FIXTURE_SETUP(pressure)
{
	uint64_t huge = hydra_vmstat("thp_fault_alloc");

	HYDRA_BEGIN();
	ASSERT_EQ(NULL, ground.no_file)
		TH_LOG("%s", ground.no_file);
	ASSERT_EQ(0, prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	if (!ground.no_groups) {
		/* a test that was killed may have left a limit */
		ASSERT_EQ(0, group_write("tested/memory.max", "max"));
		ASSERT_EQ(0, group_write("tested/cgroup.procs", "0"));
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	self->violations = number_in(HYDRA_SYSFS "violations", NULL);
	ASSERT_EQ(0, hydra_write_policy(getpid(), usual_policy()));
	make_pages();
	start_keepers();
	EXPECT_LT(huge, hydra_vmstat("thp_fault_alloc"))
		TH_LOG("no huge page could be had");
	await(50);
	ASSERT_TRUE(all_well());
}

FIXTURE_TEARDOWN(pressure)
{
	unsigned long steps = 0;

	await(100);
	hydra_assert_consistent();
	stop_keepers();
	for (int i = 0; i < nr_keepers; i++) {
		steps += atomic_load(&keepers[i].steps);
		try_cpu(keepers[i].cpu);
		look_at_all(NULL);
	}
	hydra_assert_consistent();
	EXPECT_EQ(self->violations, number_in(HYDRA_SYSFS "violations", NULL));
	EXPECT_EQ(0, atomic_load(&shared->mistakes))
		TH_LOG("data was lost: policy %s, --seed %lu", usual_policy(), option.seed);
	EXPECT_EQ(0, atomic_load(&shared->failures));
	fprintf(stderr, "# %d keepers made %lu steps, policy %s at the start\n", nr_keepers, steps,
		usual_policy());
}

static struct application applications[ARRAY_SIZE(pressures)];

#define TEST_PRESSURE(test)						\
TEST_F_TIMEOUT(pressure, test, TEST_SECONDS)				\
{									\
	const char *missing = test##_pressure.missing();		\
									\
	ASSERT_EQ(NULL, missing)					\
		TH_LOG("%s", missing);					\
	begin(applications, &test##_pressure, 1);			\
	apply(applications);						\
	test##_pressure.end();						\
}

TEST_PRESSURE(swap)
TEST_PRESSURE(memory_limit)
TEST_PRESSURE(lazy_free)
TEST_PRESSURE(merging)
TEST_PRESSURE(compaction)
TEST_PRESSURE(moving)
TEST_PRESSURE(huge_pages)
TEST_PRESSURE(oom_kill)
TEST_PRESSURE(hotplug)
TEST_PRESSURE(switching)
TEST_PRESSURE(failing_allocations)
TEST_PRESSURE(numa_balancing)

TEST_F_TIMEOUT(pressure, all_at_once, 2 * TEST_SECONDS)
{
	int count = 0;

	for (int i = 0; i < ARRAY_SIZE(pressures); i++)
		/* what cannot be had has failed by itself already */
		if (!pressures[i]->missing())
			begin(&applications[count++], pressures[i], 3);
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(0, pthread_create(&applications[i].thread, NULL, apply,
					    &applications[i]));
	}
	for (int i = 0; i < count; i++)
		pthread_join(applications[i].thread, NULL);
	for (int i = 0; i < count; i++)
		applications[i].pressure->end();
}

TEST_PRESSURE(replica_reclaim)

static char *harness_args[16];
static int nr_harness_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static char list[] = "-l", test[] = "-t";
	char *end = "";

	switch (key) {
	case 's':
		option.seed = strtoull(arg, &end, 0);
		break;
	case 'L':
		option.factor = LONG_FACTOR;
		break;
	case 'n':
		option.switches = strtoul(arg, &end, 0);
		break;
	case 'p':
		option.policy = arg;
		break;
	case 'l':
		harness_args[nr_harness_args++] = list;
		break;
	case 't':
		if (nr_harness_args + 2 >= ARRAY_SIZE(harness_args))
			argp_error(state, "too many tests");
		harness_args[nr_harness_args++] = test;
		harness_args[nr_harness_args++] = arg;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (*end)
		argp_error(state, "\"%s\" is not a number", arg);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "seed", 's', "N", 0, "begin all sequences of random numbers with N" },
		{ "long", 'L', NULL, 0, "do of everything fifty times as much: 10000 changes of the policy" },
		{ "switches", 'n', "N", 0, "change the policy N times" },
		{ "policy", 'p', "TEXT", 0, "the policy that tests start with, as written to /proc/PID/hydra" },
		{ "list", 'l', NULL, 0, "list the tests" },
		{ "test", 't', "NAME", 0, "run this test (may be repeated)" },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL,
		"Keeps data on all nodes, and verifies it, while memory is put under pressure.",
	};

	option.seed = hydra_seed();
	harness_args[nr_harness_args++] = argv[0];
	argp_parse(&argp, argc, argv, 0, NULL, NULL);

	for (struct __test_metadata *t = _pressure_fixture_object.tests; t; t = t->next)
		t->timeout *= option.factor + option.switches / SWITCHES;
	if (!hydra_missing() && nr_harness_args && strcmp(harness_args[nr_harness_args - 1], "-l"))
		make_ground();
	fprintf(stderr, "# repeat with --seed %lu%s\n", option.seed,
		option.factor > 1 ? " --long" : "");
	return test_harness_run(nr_harness_args, harness_args);
}
