// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data under pressure: options, the tests, and what they come to. See pressure.h.
 * All pressures at once show what each shows alone; that one by one is for
 * finding out which it was, and for long runs.
 */
#include <argp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "kselftest_harness.h"
#include "pressure.h"

#define LONG_FACTOR	5	/* --long does that many times as much */
#define LONG_SWITCHES	10000	/* and changes the policy that often */
#define TEST_SECONDS	180	/* until a test is taken for hung */
#define PATIENCE	20	/* times as many rounds until one is taken for without effect */

struct options option = { .factor = 1 };

uint64_t random_from(uint64_t salt)
{
	return hydra_word(option.seed + 1, salt, 0) | 1;
}

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
		option.each = true;
		option.factor = LONG_FACTOR;
		if (!option.switches)
			option.switches = LONG_SWITCHES;
		break;
	case 'e':
		option.each = true;
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
		{ "each", 'e', NULL, 0, "apply each pressure alone, too" },
		{ "long", 'L', NULL, 0, "apply each alone, too, five times as often, and change the policy 10000 times" },
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
		t->timeout *= option.factor + option.switches / switching_pressure.rounds;
	if (nr_harness_args == 1 && !option.each) {
		static char test[] = "-t", all_at_once[] = "all_at_once";

		harness_args[nr_harness_args++] = test;
		harness_args[nr_harness_args++] = all_at_once;
	}
	if (!hydra_missing() && nr_harness_args && strcmp(harness_args[nr_harness_args - 1], "-l"))
		make_ground();
	fprintf(stderr, "# repeat with --seed %lu%s\n", option.seed,
		option.factor > 1 ? " --long" : "");
	return test_harness_run(nr_harness_args, harness_args);
}
