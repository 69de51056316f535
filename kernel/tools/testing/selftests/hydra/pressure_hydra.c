// SPDX-License-Identifier: GPL-2.0-only
/* Pressures on Hydra itself: policies change, its allocations fail, its replicas are taken away. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "pressure.h"

#define DEBUGFS		"/sys/kernel/debug"

/* Policies change under a running process */

static pthread_mutex_t policy_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *nothing_missing(void)
{
	return NULL;
}

static const char * const policies[] = {
	"hydra", "hydra,filter=none", "hydra,prefetch=0", "hydra,prefetch=4",
};

const char *usual_policy(void)
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

struct pressure switching_pressure = {
	.name = "switching policies", .missing = nothing_missing, .begin = nothing_to_do,
	.step = switching_step, .end = to_usual_policy, .rounds = 200,
	.happening = "the policy was changed",
};

/* Allocations fail, those that are asked for by Hydra's own code and no others */

#define FAIL_PAGE	DEBUGFS "/fail_page_alloc/"
#define FAIL_SLAB	DEBUGFS "/failslab/"
#define FAILURES	1000000		/* at most: counted down by the kernel */

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
		"hydra_domain_upper", "__hydra_fault_done",
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

struct pressure failing_allocations_pressure = {
	.name = "failing allocations", .missing = failing_allocations_missing,
	.begin = failing_allocations_begin, .step = failing_allocations_step,
	.end = failing_allocations_end, .rounds = 12,
	.happening = "a node fell back to another's table",
};

/* Replicas are given back, and asked for again */

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

struct pressure replica_reclaim_pressure = {
	.name = "replica reclaim", .missing = replica_reclaim_missing,
	.begin = replica_reclaim_begin, .step = replica_reclaim_step,
	.end = nothing_to_do, .rounds = 12,
	.counters = { "drop_slab" }, .happening = "a replica was given back",
};
