// SPDX-License-Identifier: GPL-2.0-only
/*
 * Domains of other scopes than nodes: cores, and CPUs with one last-level cache. A shootdown
 * tells cores of one node apart. A process may change the scope while its threads run.
 */
#include <numa.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "spinners.h"

#define PAGES		16	/* which the spinners read */
#define OPERATIONS	100	/* that are to interrupt few CPUs */
#define COSTLY		10	/* that are to interrupt one */
#define ROUNDS		24	/* changes of the scope under load */
#define CHANCES		8	/* for a thread to come while the scope changes */
/* A core that links a shared table is interrupted so often before the link is cut. */
#define LINKED		9
/*
 * So many copies (pages times cores) a flush looks at, and a loop of Linux changes under one
 * lock: see "Progress and latency" in Documentation/mm/hydra/rules.rst
 */
#define COPIES_MAX	2048
#define TRACE		HYDRA_TRACEFS "/instances/hydra-scopes"
#define TRACED		TRACE "/events/hydra/hydra_propagate/enable"

/* The domains of a scope, as the kernel numbers them */
struct domain {
	int node;
	bool canonical;		/* its CPUs use the page table of all: too many domains */
	struct bitmask *cpus;
};

static struct domain domains[HYDRA_MAX_CPUS];
static int nr_domains;

static bool read_domains(const char *file)
{
	static char text[65536];
	char path[128], *line, *rest;

	nr_domains = 0;
	snprintf(path, sizeof(path), HYDRA_SYSFS "%s", file);
	if (hydra_read_file(path, text, sizeof(text)) <= 0)
		return false;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct domain *d = &domains[nr_domains];
		char list[1024], end[32] = "";
		int number;

		if (sscanf(line, "%d node %d cpus %1023s root %31s", &number, &d->node, list,
			   end) < 3 || number != nr_domains)
			return false;
		d->canonical = !strcmp(end, "canonical");
		d->cpus = numa_parse_cpustring_all(list);
		if (!d->cpus)
			return false;
		nr_domains++;
	}
	return true;
}

/* The CPUs that a file of a CPU's directory in sysfs names, or NULL */
static struct bitmask *read_cpus(int cpu, const char *file)
{
	char path[128], text[1024];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/%s", cpu, file);
	if (hydra_read_file(path, text, sizeof(text)) <= 0)
		return NULL;
	return numa_parse_cpustring_all(strtok(text, "\n"));
}

/* The number of a boot parameter, "name="; 0: the kernel has been booted without */
static int boot_parameter(const char *name)
{
	char text[4096], *at;

	if (hydra_read_file("/proc/cmdline", text, sizeof(text)) <= 0)
		return 0;
	at = strstr(text, name);
	return at ? atoi(at + strlen(name)) : 0;
}

/*
 * Each CPU is in one domain. Two CPUs of a node are in the same one if, and only if, they
 * share what @file says.
 */
static void expect_domains(struct __test_metadata *_metadata, const char *scope, const char *file)
{
	int cpus = numa_num_configured_cpus();

	ASSERT_TRUE(read_domains(scope));
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct bitmask *shared = read_cpus(cpu, file);
		int found = 0;

		for (int i = 0; i < nr_domains; i++) {
			struct domain *d = &domains[i];

			if (!numa_bitmask_isbitset(d->cpus, cpu))
				continue;
			found++;
			if (d->canonical || !shared)
				continue;
			EXPECT_EQ(d->node, numa_node_of_cpu(cpu));
			for (int other = 0; other < cpus; other++) {
				bool together = numa_bitmask_isbitset(shared, other) &&
						numa_node_of_cpu(other) == d->node;

				EXPECT_EQ(together, numa_bitmask_isbitset(d->cpus, other))
					TH_LOG("%s: CPU %d and CPU %d", scope, cpu, other);
			}
		}
		EXPECT_EQ(1, found)
			TH_LOG("%s: CPU %d is in %d domains", scope, cpu, found);
	}
}

TEST(domains_are_the_cores_and_caches)
{
	int most = boot_parameter("hydra_max_domains=");

	HYDRA_BEGIN();
	expect_domains(_metadata, "domains_core", "topology/core_cpus_list");
	if (!boot_parameter("hydra_llc_cpus="))
		expect_domains(_metadata, "domains_llc", "cache/index3/shared_cpu_list");
	ASSERT_TRUE(read_domains("domains_llc"));
	/* Each of so many CPUs of a node, by number */
	for (int i = 0; boot_parameter("hydra_llc_cpus=") && i < nr_domains; i++)
		if (!domains[i].canonical)
			EXPECT_GE(boot_parameter("hydra_llc_cpus="),
				  numa_bitmask_weight(domains[i].cpus));
	ASSERT_TRUE(read_domains("domains"));
	EXPECT_EQ(most > 0 && most < numa_num_configured_nodes(),
		  domains[nr_domains - 1].canonical);
	if (most)
		EXPECT_GE(most, nr_domains);
}

/* Is a CPU in the last domain of a scope, which uses the page table of all? */
static bool is_in_last_domain(const char *scope, int cpu)
{
	return read_domains(scope) && domains[nr_domains - 1].canonical &&
	       numa_bitmask_isbitset(domains[nr_domains - 1].cpus, cpu);
}

/* The kernel does not know the cores and caches of CPUs that are offline while it boots. */
TEST(cpus_that_come_late_are_in_the_last_domain)
{
	volatile int *word;
	int late = 0;

	HYDRA_BEGIN();
	if (!boot_parameter("maxcpus="))
		SKIP(return, "boot with maxcpus=, less than there are CPUs");
	word = (int *)hydra_reserve(TABLE_SIZE);
	hydra_map((char *)word, 1);
	for (int cpu = 1; cpu < numa_num_configured_cpus(); cpu++) {
		char path[64];

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		if (hydra_number(path, NULL))
			continue;
		late++;
		EXPECT_EQ(0, hydra_write_file(path, "1"));
		EXPECT_TRUE(is_in_last_domain("domains_core", cpu));
		EXPECT_TRUE(is_in_last_domain("domains_llc", cpu));
		/* A process of cores goes there and back. */
		EXPECT_EQ(0, hydra_write_policy(getpid(), "radixvm"));
		hydra_pin_to_cpu(0);
		*word = late;
		hydra_pin_to_cpu(cpu);
		EXPECT_EQ(late, *word);
		*word = -late;
		hydra_pin_to_cpu(0);
		EXPECT_EQ(-late, *word);
		hydra_assert_consistent();
		EXPECT_EQ(0, hydra_off());
		EXPECT_EQ(0, hydra_write_file(path, "0"));
	}
	EXPECT_LT(0, late);
}

/* A process of cores: the interrupts of each CPU */

FIXTURE(cores) {
	char *area;	/* four leaf tables */
	char *alone;
};

FIXTURE_VARIANT(cores) {
	const char *policy;
};

FIXTURE_VARIANT_ADD(cores, radixvm) {
	.policy = "radixvm",
};

FIXTURE_VARIANT_ADD(cores, abis) {
	.policy = "abis",
};

FIXTURE_SETUP(cores)
{
	HYDRA_BEGIN();
	ASSERT_TRUE(read_domains("domains_core"));
	if (domains[nr_domains - 1].canonical)
		SKIP(return, "more cores than domains, or CPUs that were offline at boot");
	for (int i = 0; i < nr_domains; i++)
		if (numa_bitmask_weight(domains[i].cpus) != 1)
			SKIP(return, "cores have several CPUs");
	ASSERT_LT(numa_num_configured_nodes(), nr_domains)
		TH_LOG("a node needs two cores");
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
	ASSERT_EQ(0, hydra_write_policy(getpid(), variant->policy));
}

FIXTURE_TEARDOWN(cores)
{
	if (!self->area)
		return;
	rmdir(TRACE);
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
}

/* One spinner on each CPU, but for the one that the main thread runs on */
static void spin_on_all_cpus(void)
{
	int cpus[HYDRA_MAX_CPUS];

	for (int node = 0; node < hydra_nodes(); node++) {
		int count = hydra_node_cpus(node, cpus);

		for (int i = !node; i < count; i++)
			start_spinner(node, cpus[i]);
	}
}

static uint64_t before[HYDRA_MAX_CPUS], after[HYDRA_MAX_CPUS];

/* No spinner but one has been interrupted more often than that. */
static void expect_quiet(struct __test_metadata *_metadata, uint64_t most,
			 const struct spinner *but)
{
	for (int i = 0; i < spin.count; i++) {
		const struct spinner *s = &spin.spinners[i];

		if (s == but)
			continue;
		EXPECT_GE(most, after[s->cpu] - before[s->cpu])
			TH_LOG("CPU %d of node %d is interrupted for nothing", s->cpu,
			       hydra_node_id(s->node));
	}
}

static void drop_again_and_again(struct spinner *s, char *page)
{
	unsigned long end = atomic_load(&s->rounds) + OPERATIONS;

	atomic_store(&s->dropped, page);
	while (atomic_load(&s->rounds) < end)
		usleep(1000);
	atomic_store(&s->dropped, NULL);
	await_rounds(s);
}

/*
 * All cores read a page of a leaf table, and one core drops a page of its own there: a core
 * of the table's node, a core of another node, and at last the core that owns the table.
 */
TEST_F_TIMEOUT(cores, core_that_drops_its_own_page_interrupts_no_cpu, 120)
{
	hydra_map(self->area, 2 * PAGES);
	*(volatile uint64_t *)self->area = 5;
	spin_on_all_cpus();
	ASSERT_TRUE(watch_all((uint64_t *)self->area, 5));
	for (int node = 0; node < 2; node++) {
		struct spinner *s = spinner_of(node);

		ASSERT_EQ(0, read_interrupts(before));
		drop_again_and_again(s, self->area + (PAGES + node) * PAGE_SIZE);
		ASSERT_EQ(0, read_interrupts(after));
		expect_quiet(_metadata, LINKED + STRAY, s);
	}
	/* A table that has not been shared yet: its owner keeps the link. */
	hydra_map(self->area + TABLE_SIZE, 2 * PAGES);
	*(volatile uint64_t *)(self->area + TABLE_SIZE) = 6;
	ASSERT_TRUE(watch_all((uint64_t *)(self->area + TABLE_SIZE), 6));
	ASSERT_EQ(0, read_interrupts(before));
	for (int i = 0; i < OPERATIONS; i++) {
		char *page = self->area + TABLE_SIZE + PAGES * PAGE_SIZE;

		*(volatile char *)page = 1;
		ASSERT_EQ(0, madvise(page, PAGE_SIZE, MADV_DONTNEED));
	}
	ASSERT_EQ(0, read_interrupts(after));
	expect_quiet(_metadata, STRAY, NULL);
}

/*
 * The main thread hands a page of the same leaf table to a core, and drops it: first to the
 * other core of its own node, then to one of another node.
 */
TEST_F_TIMEOUT(cores, page_handed_to_another_core_interrupts_that_core_only, 120)
{
	volatile uint64_t *word;

	hydra_map(self->area, 2 * PAGES);
	*(volatile uint64_t *)self->area = 5;
	word = (uint64_t *)(self->area + PAGES * PAGE_SIZE);
	spin_on_all_cpus();
	ASSERT_TRUE(watch_all((uint64_t *)self->area, 5));
	for (int node = 0; node < 2; node++) {
		struct spinner *s = spinner_of(node);

		ASSERT_EQ(0, read_interrupts(before));
		for (uint64_t i = 0; i < COSTLY + LINKED; i++) {
			*word = 10 + i;
			ASSERT_TRUE(watch(s, word, 10 + i));
			ASSERT_EQ(0, madvise((void *)word, PAGE_SIZE, MADV_DONTNEED));
			atomic_store(&spin.forbidden, 10 + i);
			await_rounds(s);
			ASSERT_EQ(0, atomic_load(&s->stale))
				TH_LOG("CPU %d reads a page that is gone", s->cpu);
			atomic_store(&spin.forbidden, 0);
			ASSERT_TRUE(watch(s, (uint64_t *)self->area, 5));
		}
		ASSERT_EQ(0, read_interrupts(after));
		EXPECT_LE(MOST(COSTLY), after[s->cpu] - before[s->cpu])
			TH_LOG("CPU %d has had the page, and is not interrupted", s->cpu);
		expect_quiet(_metadata, LINKED + STRAY, s);
	}
}

/*
 * All cores share a leaf table, and one core drops pages of its own there. Few pages have few
 * copies: the flush looks which core may have one of them in its TLB, and interrupts no
 * core. Many pages have too many copies to look at: the flush interrupts all cores.
 */
TEST_F_TIMEOUT(cores, flush_of_many_copies_does_not_look_at_them, 120)
{
	const size_t few = COPIES_MAX / nr_domains, many = TABLE_PAGES - PAGES;
	char *own = self->area + PAGES * PAGE_SIZE;

	if (many * nr_domains <= COPIES_MAX)
		SKIP(return, "needs five cores");
	ASSERT_GT(many, few);
	hydra_map(self->area, TABLE_PAGES);
	ASSERT_EQ(0, madvise(self->area, TABLE_SIZE, MADV_NOHUGEPAGE));
	*(volatile uint64_t *)self->area = 5;
	spin_on_all_cpus();
	ASSERT_TRUE(watch_all((uint64_t *)self->area, 5));
	for (int all = 0; all < 2; all++) {
		const size_t pages = all ? many : few;

		ASSERT_EQ(0, read_interrupts(before));
		for (int i = 0; i < COSTLY; i++) {
			for (size_t page = 0; page < pages; page++)
				own[page * PAGE_SIZE] = 1;
			ASSERT_EQ(0, madvise(own, pages * PAGE_SIZE, MADV_DONTNEED));
			await_all();
		}
		ASSERT_EQ(0, read_interrupts(after));
		if (!all)
			expect_quiet(_metadata, LINKED + STRAY, NULL);
		for (int i = 0; all && i < spin.count; i++) {
			int cpu = spin.spinners[i].cpu;

			EXPECT_LE(MOST(COSTLY), after[cpu] - before[cpu])
				TH_LOG("CPU %d is not interrupted", cpu);
		}
	}
}

/* Go to each CPU, and try to read and to write a word of each page of a table. */
static void expect_pages(struct __test_metadata *_metadata, uint64_t *words, uint64_t value,
			 bool writable)
{
	for (int cpu = 0; cpu < numa_num_configured_cpus(); cpu++) {
		int wrong = 0;

		hydra_pin_to_cpu(cpu);
		for (size_t page = 0; page < TABLE_PAGES; page++) {
			uint64_t *word = words + page * PAGE_WORDS, seen = 0;

			if (hydra_try_read(word, &seen) || seen != value + page)
				wrong++;
			if (!hydra_try_write(word, value + page) != writable)
				wrong++;
		}
		EXPECT_EQ(0, wrong)
			TH_LOG("CPU %d: %d pages are wrong", cpu, wrong);
	}
}

/* From now on, note how many entries of a copy change at a time. Return: false without tracefs */
static bool trace_changes(void)
{
	return hydra_has_tracefs() && !mkdir(TRACE, 0700) && !hydra_write_file(TRACED, "1");
}

/* The most entries of one copy of a table that have changed at a time */
static unsigned long most_changed(const void *table)
{
	unsigned long most = 0;
	char line[512], base[64];
	FILE *f = fopen(TRACE "/trace", "r");

	snprintf(base, sizeof(base), " base=%#lx ", (unsigned long)table);
	while (f && fgets(line, sizeof(line), f)) {
		char *entries = strstr(line, " entries=");
		unsigned long changed = entries ? strtoul(entries + 9, NULL, 10) : 0;

		if (strstr(line, base) && changed > most)
			most = changed;
	}
	if (f)
		fclose(f);
	return most;
}

/*
 * All cores have copies of a whole leaf table, so mprotect(), fork() and munmap() change it in
 * parts: under one lock no more copies than are allowed, and no page is left out.
 */
TEST_F_TIMEOUT(cores, table_of_all_cores_changes_in_parts, 240)
{
	uint64_t *words = (uint64_t *)self->area, value;
	unsigned long part = COPIES_MAX / nr_domains;
	int go[2];
	pid_t child;
	char c;

	if (TABLE_PAGES * nr_domains <= COPIES_MAX)
		SKIP(return, "needs five cores");
	if (!trace_changes())
		SKIP(return, "no " HYDRA_TRACEFS " (CONFIG_FTRACE, CONFIG_ENABLE_DEFAULT_TRACERS)");
	hydra_map(self->area, TABLE_PAGES);
	ASSERT_EQ(0, madvise(self->area, TABLE_SIZE, MADV_NOHUGEPAGE));
	for (size_t page = 0; page < TABLE_PAGES; page++)
		words[page * PAGE_WORDS] = 100 + page;
	spin_on_all_cpus();
	await_all();
	expect_pages(_metadata, words, 100, true);
	ASSERT_EQ(0, mprotect(words, TABLE_SIZE, PROT_READ));
	/* At least half as many: a power of two */
	EXPECT_LT(part / 2, most_changed(words));
	ASSERT_GE(part, most_changed(words));
	expect_pages(_metadata, words, 100, false);
	ASSERT_EQ(0, mprotect(words, TABLE_SIZE, PROT_READ | PROT_WRITE));
	expect_pages(_metadata, words, 100, true);
	hydra_assert_consistent();

	/* What the parent writes after fork(), on any core, the child does not see. */
	ASSERT_EQ(0, pipe(go));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		for (size_t page = 0; page < TABLE_PAGES; page++)
			if (words[page * PAGE_WORDS] != 100 + page)
				_exit(2);
		_exit(0);
	}
	EXPECT_GE(part, most_changed(words));
	for (size_t page = 0; page < TABLE_PAGES; page++) {
		hydra_pin_to_cpu(page % numa_num_configured_cpus());
		words[page * PAGE_WORDS] = 10000 + page;
	}
	ASSERT_EQ(1, write(go[1], "x", 1));
	EXPECT_EQ(0, hydra_wait_child(child));
	expect_pages(_metadata, words, 10000, true);
	hydra_assert_consistent();

	/* The table stays, and loses its pages. */
	ASSERT_EQ(0, madvise(words, TABLE_SIZE, MADV_DONTNEED));
	for (int cpu = 0; cpu < numa_num_configured_cpus(); cpu++) {
		hydra_pin_to_cpu(cpu);
		for (size_t page = 0; page < TABLE_PAGES; page++) {
			ASSERT_EQ(0, hydra_try_read(words + page * PAGE_WORDS, &value));
			ASSERT_EQ(0, value);
		}
	}
	hydra_pin_to_cpu(0);
}

/* The scope changes */

static const char * const policies[] = {
	"hydra", "radixvm", "hydra,domains=llc", "abis", "mitosis", "radixvm,filter=table",
	"linux",
};
static const unsigned int scopes[] = {
	HYDRA_SCOPE_NODE, HYDRA_SCOPE_CORE, HYDRA_SCOPE_LLC, HYDRA_SCOPE_CORE,
	HYDRA_SCOPE_NODE, HYDRA_SCOPE_CORE, HYDRA_SCOPE_MACHINE,
};

FIXTURE(scopes) {
	char *area;
	char *alone;
};

FIXTURE_SETUP(scopes)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, spinners_begin(&self->area, &self->alone));
}

FIXTURE_TEARDOWN(scopes)
{
	EXPECT_EQ(0, spinners_end());
	hydra_assert_consistent();
}

/* Threads of all CPUs read pages, which are replaced before and after each change. */
TEST_F_TIMEOUT(scopes, scope_changes_while_all_cpus_use_memory, 240)
{
	volatile uint64_t *word = (uint64_t *)self->area;
	const struct spinner *stale;

	hydra_map(self->area, PAGES);
	spin.pages = PAGES;
	for (size_t page = 0; page < PAGES; page++)
		word[page * PAGE_WORDS] = 1;
	spin_on_all_cpus();
	ASSERT_EQ(0, start_dropper(self->area + TABLE_SIZE));
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		struct hydra_settings seen;
		struct hydra_stats stats;

		ASSERT_TRUE(watch_all(word, i));
		/* Some pages are dropped before the change, some after it. */
		if (i % 2) {
			ASSERT_EQ(0, madvise(self->area, PAGES / 2 * PAGE_SIZE, MADV_DONTNEED));
		}
		ASSERT_EQ(0, hydra_write_policy(getpid(), policies[i % ARRAY_SIZE(policies)]));
		ASSERT_EQ(0, madvise(self->area, PAGES * PAGE_SIZE, MADV_DONTNEED));
		stale = forbid_value(i);
		ASSERT_EQ(NULL, stale)
			TH_LOG("CPU %d reads a page that is gone, under %s", stale->cpu,
			       policies[i % ARRAY_SIZE(policies)]);
		ASSERT_EQ(0, hydra_get(&seen));
		ASSERT_EQ(0, hydra_read_stats(getpid(), &stats));
		/* Threads run on all CPUs, so the trees are there when the call returns. */
		EXPECT_EQ(seen.domains != HYDRA_SCOPE_MACHINE, stats.split)
			TH_LOG("under %s", policies[i % ARRAY_SIZE(policies)]);
		EXPECT_EQ(scopes[i % ARRAY_SIZE(policies)], seen.domains);
		for (size_t page = 0; page < PAGES; page++)
			word[page * PAGE_WORDS] = i + 1;
		hydra_assert_consistent();
	}
}

/*
 * A process of cores reads the memory of a process of nodes. The reader runs on the core with
 * the first number that no node has: in the tables of the other process, what lies there is
 * just behind the domains (KASAN notices).
 */
TEST_F_TIMEOUT(scopes, process_of_cores_reads_memory_of_a_process_of_nodes, 60)
{
	struct iovec here, there;
	int ready[2], cpu = 0;
	char page[16], c;
	pid_t child;

	ASSERT_TRUE(read_domains("domains_core"));
	if (nr_domains <= hydra_nodes())
		SKIP(return, "more cores than domains, or one core for each node");
	ASSERT_EQ(0, pipe(ready));
	hydra_map(self->area, TABLE_PAGES);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* All nodes share the leaf table. Most of its pages have never been used. */
		if (hydra_write_policy(getpid(), "hydra"))
			_exit(1);
		hydra_start_workers(HYDRA_SLEEP);
		for (int node = 0; node < hydra_nodes(); node++)
			hydra_write_pages(node, self->area, 1, node + 1);
		if (write(ready[1], "x", 1) != 1)
			_exit(2);
		for (;;)
			pause();
	}
	ASSERT_EQ(0, hydra_write_policy(getpid(), "radixvm"));
	spin_on_all_cpus();
	await_all();
	ASSERT_EQ(1, read(ready[0], &c, 1));
	while (!numa_bitmask_isbitset(domains[hydra_nodes()].cpus, cpu))
		cpu++;
	hydra_pin_to_cpu(cpu);
	here = (struct iovec){ page, sizeof(page) };
	for (size_t i = 1; i < TABLE_PAGES; i += 32) {
		there = (struct iovec){ self->area + i * PAGE_SIZE, sizeof(page) };
		EXPECT_EQ(sizeof(page), process_vm_readv(child, &here, 1, &there, 1, 0));
	}
	EXPECT_TRUE(hydra_consistent(child));
	EXPECT_EQ(0, kill(child, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, hydra_wait_child(child));
}

/* A thread that comes to a CPU on which its process has never run */
static struct {
	int cpu;
	atomic_bool ready, go;
	char *page;
} comer;

static void *come(void *arg)
{
	atomic_store(&comer.ready, true);
	while (!atomic_load(&comer.go))
		;
	hydra_pin_to_cpu(comer.cpu);
	*(volatile char *)comer.page = 1;
	return NULL;
}

/* In a child: its address space is new. The main thread and another one run on two cores. */
static void change_while_a_thread_comes(int nr)
{
	int cpus[HYDRA_MAX_CPUS];
	pthread_t thread;

	if (hydra_write_policy(getpid(), "radixvm"))
		_exit(1);
	comer.cpu = cpus[hydra_node_cpus(hydra_nodes() - 1, cpus) - 1];
	if (pthread_create(&thread, NULL, come, NULL))
		_exit(2);
	while (!atomic_load(&comer.ready))
		usleep(1000);
	/* Split: two threads, on two cores. Then they meet on one CPU. */
	hydra_pin_to_cpu(cpus[hydra_node_cpus(1, cpus) - 1]);
	usleep(10000);
	atomic_store(&comer.go, true);
	usleep(nr * 3000);
	if (hydra_write_policy(getpid(), "hydra"))
		_exit(3);
	if (pthread_join(thread, NULL))
		_exit(4);
	if (!hydra_consistent(getpid()) || hydra_write_policy(getpid(), "linux"))
		_exit(5);
	_exit(0);
}

/* The checker of the kernel's debug options sees a domain with a number of the other scope. */
TEST_F_TIMEOUT(scopes, thread_comes_to_a_core_while_cores_become_nodes, 120)
{
	comer.page = hydra_map(self->area, 1);
	for (int i = 0; i < CHANCES; i++) {
		pid_t child = fork();

		ASSERT_LE(0, child);
		if (!child)
			change_while_a_thread_comes(i);
		ASSERT_EQ(0, hydra_wait_child(child));
	}
}

HYDRA_HARNESS_MAIN
