// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks for stale translations. Changers, one thread on each node, do random operations
 * on memory of all kinds. Probes, one thread on each CPU, read and write the memory.
 * After an operation has returned, each access of a probe must have the operation's
 * result: no probe gets an access that the operation forbids, or a byte from before the
 * operation, and no write of a probe is lost.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"
#include "oracle.h"

#define OPERATIONS	600	/* of a run, unless the user says otherwise */
#define REST		400	/* operations of each changer between two looks at everything */
#define MAX_RANGE	16	/* cells */
#define EXTENSION	40	/* more operations of each changer while some kind is not met */
#define EXTENSIONS	40
#define ROUNDS_S	120	/* seconds until rounds must have worked */
#define PROGRESS	10	/* seconds from one word of progress to the next */
#define TIMEOUT_S	60	/* seconds without any progress, until a run is taken for hung */

struct run run;

static struct changer {
	pthread_t thread;
	unsigned int number;
	int cpu;		/* now */
	int cpu_apart;		/* while threads are apart */
	atomic_ulong doing;	/* op_id() */
} changers[HYDRA_MAX_NODES];

static atomic_ulong performed;
static double begun;
static unsigned long planned;		/* operations of each changer; written while all rest */
static atomic_bool finished;
static pthread_barrier_t rest;

/*
 * Has an operation of the kind succeeded, had the intended effect, and changed the result
 * of an access?
 */
static bool met(const struct kind *k)
{
	return k->unavailable ||
	       (atomic_load(&k->done) &&
		(atomic_load(&k->seen) || k->flags & UNSEEN) &&
		(atomic_load(&k->proved) || !(k->flags & QUIET)));
}

static bool all_met(void)
{
	for (unsigned int i = 0; i < nr_kinds; i++)
		if (!met(&kinds[i]))
			return false;
	return true;
}

/*
 * An operation is drawn from its number and the seed alone, and does not depend on
 * earlier operations. In an extension, the operation also depends on the kinds that are
 * not met yet.
 */

/* Each changer begins with a few of each kind */
static bool is_sample(const struct op *op)
{
	return op->number < nr_kinds * 3;
}

static struct kind *draw_kind(struct op *op)
{
	unsigned int total = 0, at;

	if (is_sample(op) && !kinds[(op->number + 11 * op->changer) % nr_kinds].unavailable)
		return &kinds[(op->number + 11 * op->changer) % nr_kinds];
	if (op->number >= run.operations / run.changers && hydra_random(&op->random) % 2)
		for (unsigned int i = 0; i < nr_kinds; i++)
			if (!met(&kinds[i]))
				return &kinds[i];
	for (unsigned int i = 0; i < nr_kinds; i++)
		total += kinds[i].unavailable ? 0 : kinds[i].weight;
	at = hydra_random(&op->random) % total;
	for (unsigned int i = 0;; i++) {
		unsigned int weight = kinds[i].unavailable ? 0 : kinds[i].weight;

		if (at < weight)
			return &kinds[i];
		at -= weight;
	}
}

static struct zone *draw_zone(struct op *op)
{
	unsigned int total = 0, at;

	for (struct zone *z = zones; z < zones + ZONES; z++)
		total += is_in(z, op->kind->zones) ? z->weight : 0;
	at = hydra_random(&op->random) % total;
	for (struct zone *z = zones;; z++) {
		unsigned int weight = is_in(z, op->kind->zones) ? z->weight : 0;

		if (at < weight)
			return z;
		at -= weight;
	}
}

static void draw_range(struct op *op)
{
	const struct zone *z = op->zone;
	unsigned int max, flags = op->kind->flags, unit = 1;

	if (flags & WHOLE) {
		op->first = 0;
		op->count = z->cells;
		return;
	}
	if (flags & PART) {
		op->count = 1 + hydra_random(&op->random) % (z->huge / 2);
		op->first = hydra_random(&op->random) % (z->cells / z->huge) * z->huge;
		op->first += hydra_random(&op->random) % (z->huge - op->count + 1);
		return;
	}
	/* A file's page that moves by less than a huge page cannot be huge afterwards. */
	if (flags & ALIGNED || (z == &zones[HUGE_MEMFD] && flags & MOVES) ||
	    (z->huge > 1 && hydra_random(&op->random) % 2))
		unit = z->huge;
	/* A third, to leave room for moves. Lonely pages have holes between them. */
	max = z->step == z->size ? z->cells / unit / 3 : 1;
	if (max > MAX_RANGE)
		max = MAX_RANGE;
	else if (!max)
		max = 1;
	op->count = (1 + hydra_random(&op->random) % max) * unit;
	if (flags & SEVERAL && op->count < 2)
		op->count = 2;
	op->first = hydra_random(&op->random) % ((z->cells - op->count) / unit + 1) * unit;
	if (flags & MOVES) {
		op->other = hydra_random(&op->random) % ((z->cells - op->count) / unit + 1) * unit;
		if (op->other < op->first + op->count && op->first < op->other + op->count)
			op->other = op->first >= op->count ? op->first - op->count :
							     op->first + op->count;
	}
}

static int draw_cpu(struct op *op)
{
	return probe_cpu(hydra_random(&op->random) % nr_probes());
}

static void draw_samples(struct op *op)
{
	unsigned int cells = op->zone->cells;

	op->sample[0] = op->first;
	op->sample[1] = op->first + op->count - 1;
	op->sample[2] = op->first + hydra_random(&op->random) % op->count;
	op->sample[3] = op->kind->flags & MOVES ? op->other + hydra_random(&op->random) % op->count :
						  hydra_random(&op->random) % cells;
	/* the neighbours */
	op->sample[4] = (op->first + cells - 1) % cells;
	op->sample[5] = (op->first + op->count) % cells;
}

static void draw(struct op *op, unsigned int changer, unsigned long number)
{
	*op = (struct op){
		.changer = changer, .number = number,
		.random = (run.seed * HYDRA_MAX_NODES + changer + 1) * 0x9e3779b97f4a7c15 ^
			  (number + 1) * 0xbf58476d1ce4e5b9,
		.awake = { -1, -1 }, .cpu = -1,
	};
	if (!op->random)
		op->random = 1;
	for (int i = 0; i < 4; i++)
		hydra_random(&op->random);
	op->kind = draw_kind(op);
	op->zone = draw_zone(op);
	draw_range(op);
	op->locked = op->count;
	op->locked_other = op->kind->flags & MOVES;
	op->word = hydra_random(&op->random) % PATTERN_WORDS;
	for (int i = 0; i < 2; i++)
		op->rewrite[i] = is_sample(op) ? !!(op->kind->flags & QUIET) :
						 hydra_random(&op->random) % 2;
	draw_samples(op);
	if (hydra_random(&op->random) % 4 == 0)
		op->cpu = draw_cpu(op);
	for (int i = hydra_random(&op->random) % 3; i > 0; i--)
		op->awake[i - 1] = draw_cpu(op);
	op->pastime = hydra_random(&op->random) % PASTIMES;
	op->together = hydra_random(&op->random) % 8 == 0;
}

/* Doing an operation */

static void lock(const struct op *op)
{
	unsigned int first = op->first, second = op->other;

	/* In the order of the addresses: else two changers could wait for each other for ever. */
	if (op->locked_other && op->other < op->first) {
		first = op->other;
		second = op->first;
	}
	for (unsigned int i = 0; i < op->locked; i++)
		pthread_mutex_lock(&op->zone->cell[first + i].lock);
	for (unsigned int i = 0; i < op->locked && op->locked_other; i++)
		pthread_mutex_lock(&op->zone->cell[second + i].lock);
}

static void unlock(const struct op *op)
{
	for (unsigned int i = 0; i < op->locked; i++) {
		pthread_mutex_unlock(&op->zone->cell[op->first + i].lock);
		if (op->locked_other)
			pthread_mutex_unlock(&op->zone->cell[op->other + i].lock);
	}
}

/*
 * Keep the first cells that fit. If too few cells fit, first do the operation that makes
 * cells fit.
 */
static void settle(struct op *op)
{
	const struct cell *c = &op->zone->cell[op->first];
	unsigned int fit, least;

	for (;;) {
		if (op->kind->flags & (ALIGNED | WHOLE))
			least = op->count;
		else
			least = op->kind->flags & SEVERAL ? 2 : 1;
		for (fit = 0; fit < op->count && fits(c + fit, op->kind->needs); fit++)
			;
		if (fit >= least)
			break;
		op->kind = repair(op->zone, c + fit, op->kind->needs);
	}
	op->count = fit;
}

static void announce_changes(const struct op *op)
{
	for (unsigned int i = 0; i < op->locked; i++) {
		struct cell *c = &op->zone->cell[op->first + i], *other = c;

		if (op->locked_other)
			other = &op->zone->cell[op->other + i];
		announce_change(c, op_id(op), other->now.contents);
		if (op->locked_other)
			announce_change(other, op_id(op), c->now.contents);
	}
}

static void announce_all(const struct op *op)
{
	for (unsigned int i = 0; i < op->locked; i++) {
		announce(&op->zone->cell[op->first + i]);
		if (op->locked_other)
			announce(&op->zone->cell[op->other + i]);
	}
}

/*
 * The changer reads the stamps that each probe has written in cells at which it looked
 * closely.
 */
static void check_stamps(const struct op *op)
{
	for (int i = 0; i < SAMPLES; i++) {
		unsigned int cell = op->sample[i];

		if ((cell - op->first >= op->locked &&
		     !(op->locked_other && cell - op->other < op->locked)) ||
		    op->zone->cell[cell].now.access != READ_WRITE || op->zone == &zones[MERGEABLE])
			continue;
		for (unsigned int p = 0; p < nr_probes(); p++) {
			char *addr = address(op->zone, cell) + stamp_offset(p);
			struct looker l = { .cpu = place(probe_cpu(p)) };
			uint64_t value = 0;
			int sig = hydra_try_read(addr, &value);

			if (sig || value != stamp(op, p))
				mistake(op_id(op), &l, addr, "what this CPU wrote, read by CPU %d: expected %#lx, got %#lx",
					changers[op->changer].cpu, stamp(op, p), value);
		}
	}
}

static void look_after(struct op *op, const struct op *next)
{
	if (op->rewrite[op->half])
		rewrite_cells(op);
	announce_all(op);
	ask_probes(op->changer, op, next);
	check_stamps(op);
}

static void perform(struct changer *c, struct op *op, const struct op *next)
{
	bool worked;

	lock(op);
	settle(op);
	atomic_store(&c->doing, op_id(op));
	announce_changes(op);
	worked = op->kind->begin(op);
	if (worked && op->kind->end) {
		look_after(op, NULL);
		op->half = 1;
		announce_changes(op);
		op->kind->end(op);
	}
	if (worked)
		atomic_fetch_add(&op->kind->done, 1);
	look_after(op, next);
	unlock(op);
	atomic_fetch_add(&performed, 1);
}

/* Changers */

static void go_to_place(struct changer *c)
{
	int cpu = place(c->cpu_apart);

	if (cpu == c->cpu)
		return;
	if (c->cpu >= 0)
		atomic_fetch_sub(&changers_on[c->cpu], 1);
	c->cpu = cpu;
	atomic_fetch_add(&changers_on[cpu], 1);
	hydra_pin_to_cpu(cpu);
}

static void ask_kernel(void)
{
	char text[16384];
	int len = hydra_read_file("/proc/self/hydra_check", text, sizeof(text));

	if (len > 0 && !strncmp(text, "ok ", 3))
		return;
	atomic_fetch_add(&mistakes, 1);
	fprintf(stderr, "# MISTAKE seed %lu, policy %s, after %lu operations: /proc/self/hydra_check begins: %.*s\n",
		run.seed, run.policy, atomic_load(&performed), (int)strcspn(text, "\n"), text);
}

/*
 * After the last operation: are some more needed, for a kind that is not met yet, unless the
 * user has asked for too few to meet all kinds? Or because rounds have not worked yet?
 */
static bool needs_more(void)
{
	static unsigned int extensions;

	if (run.wander && !rounds_worked() && hydra_seconds() < begun + ROUNDS_S)
		return true;
	return run.operations >= OPERATIONS && !all_met() && extensions++ < EXTENSIONS;
}

/*
 * While no changer changes anything, all probes look at all cells, and the kernel's checker
 * at all tables.
 */
static void look_at_everything(struct changer *c, unsigned long number)
{
	pthread_barrier_wait(&rest);
	if (c->number == 0 && !atomic_load(&mistakes)) {
		ask_probes_for_all(0);
		ask_kernel();
		if (number == planned - 1 && needs_more())
			planned += EXTENSION;
	}
	pthread_barrier_wait(&rest);
}

static void *change(void *arg)
{
	struct changer *c = arg;
	int cpus[HYDRA_MAX_CPUS];
	struct op ops[2];

	hydra_node_cpus(c->number, cpus);
	c->cpu_apart = cpus[0];
	go_to_place(c);
	draw(&ops[0], c->number, 0);
	ask_probes(c->number, NULL, &ops[0]);
	for (unsigned long number = 0; number < planned; number++) {
		struct op *op = &ops[number % 2], *next = &ops[(number + 1) % 2];

		draw(next, c->number, number + 1);
		if (!atomic_load(&mistakes)) {
			if (op->cpu >= 0)
				c->cpu_apart = op->cpu;
			go_to_place(c);
			perform(c, op, next);
		}
		if (number % REST == REST - 1 || number == planned - 1)
			look_at_everything(c, number);
	}
	atomic_store(&finished, true);
	return NULL;
}

/* Runs */

static void say_what_hangs(void)
{
	for (unsigned int i = 0; i < run.changers; i++) {
		uint64_t doing = atomic_load(&changers[i].doing);

		fprintf(stderr, "# MISTAKE seed %lu, policy %s, operation %u.%u (%s): no end after %d seconds\n",
			run.seed, run.policy, i, (uint32_t)(doing >> 24),
			doing ? kinds[doing & 0xff].name : "not even begun", TIMEOUT_S);
	}
}

static bool watch(void)
{
	double spoke = begun, progress = begun;
	unsigned long last = 0, now;

	while (!atomic_load(&finished) && !atomic_load(&mistakes)) {
		usleep(100000);
		if (run.wander)
			go_round();
		now = atomic_load(&performed);
		if (now != last)
			progress = hydra_seconds();
		last = now;
		if (hydra_seconds() - progress > TIMEOUT_S) {
			say_what_hangs();
			return false;
		}
		if (hydra_seconds() - spoke > PROGRESS) {
			spoke = hydra_seconds();
			ksft_print_msg("%lu of %lu operations, %.0f per second\n", now,
				       run.operations, now / (spoke - begun));
		}
	}
	now = atomic_load(&performed);
	ksft_print_msg("%lu operations in %.0f seconds, %.0f per second; %lu accesses by probes on %u CPUs\n",
		       now, hydra_seconds() - begun, now / (hydra_seconds() - begun),
		       atomic_load(&looks), nr_probes());
	return true;
}

/* Exit status of a run */
#define WRONG	1	/* an access had a wrong result */
#define UNMET	2	/* an operation, or rounds, were never seen to do anything */

static int judge_coverage(void)
{
	int status = 0;

	for (struct kind *k = kinds; k < kinds + nr_kinds; k++) {
		unsigned long done = atomic_load(&k->done), proved = atomic_load(&k->proved);
		unsigned long seen = atomic_load(&k->seen);

		if (k->unavailable) {
			ksft_print_msg("%-34s not here: %s\n", k->name, k->unavailable);
			continue;
		}
		ksft_print_msg("%-34s done %6lu", k->name, done);
		if (k->flags & QUIET)
			printf(", proved %6lu", proved);
		else
			printf("                ");
		if (!(k->flags & UNSEEN))
			printf(", seen %7lu", seen);
		printf("%s\n", met(k) ? "" : " <- NOT MET");
		if (!met(k))
			status = UNMET;
	}
	if (run.operations < OPERATIONS)
		status = 0;
	if (run.wander)
		tell_rounds();
	return run.wander && !rounds_worked() ? UNMET : status;
}

/*
 * Write all variables of the program once. The variables are in private pages of a file.
 * If a changer first wrote a variable while another node reads the file's page, a missing
 * flush would leave stale variables, and the oracle depends on correct variables.
 */
static void touch_variables(void)
{
	extern char __data_start, _end;

	for (char *p = &__data_start; p < &_end; p += PAGE_SIZE)
		*(volatile char *)p = *(volatile char *)p;
}

static int do_run(void)
{
	const char *missing;
	int err;

	if (hydra_begin() || hydra_forget_after(1) || prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0))
		return WRONG;
	if (hydra_write_number(run.group, "cgroup.procs", "%d", getpid()))
		return WRONG;
	err = hydra_write_policy(getpid(), run.policy);
	if (err) {
		fprintf(stderr, "# /proc/self/hydra does not take \"%s\": %s\n", run.policy,
			strerror(-err));
		return WRONG;
	}
	missing = make_zones();
	if (!missing)
		missing = prepare_operations();
	if (missing) {
		fprintf(stderr, "# %s: %s\n", missing, strerror(errno));
		return WRONG;
	}
	touch_variables();
	planned = (run.operations + run.changers - 1) / run.changers;
	start_probes();
	if (run.wander)
		begin_rounds();
	begun = hydra_seconds();
	pthread_barrier_init(&rest, NULL, run.changers);
	for (unsigned int i = 0; i < run.changers; i++) {
		struct changer *c = &changers[i];

		c->number = i;
		c->cpu = -1;
		errno = pthread_create(&c->thread, NULL, change, c);
		if (errno) {
			perror("# cannot start a thread");
			return WRONG;
		}
	}
	if (!watch())
		return WRONG;
	for (unsigned int i = 0; i < run.changers; i++)
		pthread_join(changers[i].thread, NULL);
	stop_probes();
	if (atomic_load(&mistakes)) {
		fprintf(stderr, "# %u mistakes in all\n", atomic_load(&mistakes));
		return WRONG;
	}
	return judge_coverage();
}

/* What is chosen for a run */
struct choice {
	const char *policy;
	bool serial, wander;
};

/* In a child: the run leaves the address space in ruins. */
static void test(const struct choice *choice)
{
	const char *one = choice->serial ? ", one changer" : "";
	const char *rounds = choice->wander ? ", round the nodes" : "";
	const char *policy = choice->policy;
	pid_t child;
	int status;

	run.policy = policy;
	run.serial = choice->serial;
	run.wander = choice->wander;
	run.hydra = strncmp(policy, "linux", 5);
	run.changers = run.serial ? 1 : hydra_nodes();
	ksft_print_msg("repeat with --policy '%s' --seed %lu --operations %lu%s%s\n", policy,
		       run.seed, run.operations, run.serial ? " --serial" : "",
		       run.wander ? " --wander" : "");
	fflush(NULL);
	child = fork();
	if (!child) {
		status = do_run();
		fflush(NULL);
		_exit(status);
	}
	status = child < 0 ? -1 : hydra_wait_child(child);
	if (run.failures)
		hydra_fail_allocations(0);
	if (status > 128)
		fprintf(stderr, "# the run died of signal %d\n", status - 128);
	ksft_test_result(!status || status == UNMET, "policy %s%s%s: no stale translation\n", policy,
			 one, rounds);
	ksft_test_result(!status, "policy %s%s%s: every operation has shown an effect\n", policy,
			 one, rounds);
}

/* The settings that the oracle needs */

#define THP	"/sys/kernel/mm/transparent_hugepage/"
#define KSM	"/sys/kernel/mm/ksm/"
#define HUGETLB	"/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define HUGETLB_PAGES	"32"

static struct setting {
	const char *path, *value;
	char before[128];
} settings[] = {
	/* Flushes of NUMA balancing would hide a missing flush. */
	{ "/proc/sys/kernel/numa_balancing", "0" },
	/* Each run sets it again, as hydra_begin() sets it to 0. */
	{ HYDRA_SYSFS "idle_seconds", "1" },
	{ HUGETLB, HUGETLB_PAGES },
	{ THP "enabled", "madvise" },
	{ THP "shmem_enabled", "advise" },
	{ THP "khugepaged/alloc_sleep_millisecs", "0" },
	{ THP "khugepaged/pages_to_scan", "65536" },
	/* khugepaged and KSM work only when an operation says so, and then on all pages. */
	{ THP "khugepaged/scan_sleep_millisecs", "3600000" },
	{ KSM "run", "0" },
	{ KSM "sleep_millisecs", "1" },
	{ KSM "pages_to_scan", "1000" },
	/* With smart_scan, KSM skips pages without a twin for up to eight rounds. */
	{ KSM "smart_scan", "0" },
};

static int swap_disk = -1, file_disk = -1;

static void restore_system(void)
{
	for (int i = ARRAY_SIZE(settings) - 1; i >= 0; i--) {
		char *chosen = strchr(settings[i].before, '[');

		/* "always [madvise] never" */
		if (chosen) {
			chosen[strcspn(chosen, "]")] = 0;
			memmove(settings[i].before, chosen + 1, strlen(chosen));
		}
		if (settings[i].before[0])
			hydra_write_file(settings[i].path, settings[i].before);
	}
	if (file_disk >= 0)
		hydra_unmount_disk(file_disk, run.directory);
	if (swap_disk >= 0)
		hydra_swap_off(swap_disk);
	if (run.group[0])
		rmdir(run.group);
}

/* Functions through which Hydra allocates: for trees, and for fills */
static const char * const allocating[] = { "__hydra_resume_user_mode", "__hydra_fault_done" };

static const char *make_disks_and_group(void)
{
	swap_disk = hydra_swap_on("128M");
	if (swap_disk < 0)
		return "cannot swap to a RAM disk (CONFIG_ZRAM, CONFIG_SWAP; mkswap of util-linux)";
	file_disk = hydra_mount_disk("32M", run.directory);
	if (file_disk < 0)
		return "cannot make and mount a file system on a RAM disk (CONFIG_EXT4_FS; mkfs.ext4 of e2fsprogs)";
	return hydra_make_group(run.group) ? "no memory cgroup can be made (CONFIG_MEMCG)" : NULL;
}

static const char *prepare_system(void)
{
	static char why[256];
	char text[32] = "";
	int err;

	for (int i = 0; i < ARRAY_SIZE(settings); i++) {
		struct setting *s = &settings[i];

		err = hydra_read_file(s->path, s->before, sizeof(s->before));
		if (err >= 0)
			err = hydra_write_file(s->path, s->value);
		if (err < 0) {
			snprintf(why, sizeof(why), "cannot set %s to %s: %s", s->path, s->value,
				 strerror(-err));
			return why;
		}
	}
	hydra_read_file(HUGETLB, text, sizeof(text));
	if (atoi(text) < atoi(HUGETLB_PAGES)) {
		snprintf(why, sizeof(why), "only %d huge pages of " HUGETLB_PAGES
			 " are to be had: give the machine more memory, or when it has just booted do: echo "
			 HUGETLB_PAGES " >" HUGETLB, atoi(text));
		return why;
	}
	err = hydra_choose_failures(allocating, ARRAY_SIZE(allocating));
	if (err && err != -ENODEV)
		return "the allocations of Hydra cannot be made to fail";
	run.failures = !err;
	return make_disks_and_group();
}

/* Options */

static struct choice option;

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end = "";

	switch (key) {
	case 's':
		run.seed = strtoull(arg, &end, 0);
		break;
	case 'o':
		run.operations = strtoul(arg, &end, 0);
		break;
	case 'p':
		option.policy = arg;
		break;
	case '1':
		option.serial = true;
		break;
	case 'w':
		option.wander = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (arg && (*end || !*arg))
		argp_error(state, "\"%s\" is not a number", arg);
	return 0;
}

static const struct argp_option options[] = {
	{ "seed", 's', "N", 0, "begin all sequences of random numbers with N" },
	{ "operations", 'o', "N", 0, "do N operations in each run" },
	{ "policy", 'p', "TEXT", 0, "run this policy alone, as written to /proc/PID/hydra" },
	{ "serial", '1', NULL, 0, "let one thread do all operations" },
	{ "wander", 'w', NULL, 0, "let all threads meet on one node after another" },
	{ 0 }
};

static const char doc[] =
	"Looks for stale translations: does random operations on memory of all kinds, on all nodes, and "
	"has every CPU look after each of them.\v"
	"A mistake is reported with the seed and the operation as CHANGER.NUMBER. The same seed gives each "
	"changer the same operations in the same order; how those of several changers meet is up to "
	"the scheduler. With --serial a single changer does them one after the other, with nothing else going on: "
	"the same seed does the same again.\n\n"
	"A long run: oracle --policy hydra --operations 1000000";

int main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, doc };
	/*
	 * The seed chooses a policy. If the machine refuses the policy, choose another
	 * with --policy.
	 */
	static const char * const policies[] = {
		"hydra", "hydra,filter=entry", "hydra,filter=accessed", "hydra,filter=auto",
		"hydra,domains=llc", "radixvm", "abis", "mitosis",
	};
	struct choice runs[] = {
		{ NULL }, { "hydra,prefetch=0", .serial = true },
		{ "hydra,filter=auto", .wander = true },
	};
	const char *missing;
	int nr;

	run.seed = hydra_seed();
	run.operations = OPERATIONS;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	runs[0].policy = policies[run.seed % ARRAY_SIZE(policies)];
	if (option.policy || option.serial || option.wander) {
		runs[0] = option;
		runs[0].policy = option.policy ?: "hydra";
		nr = 1;
	} else {
		/* A short run does not wait for rounds. */
		nr = ARRAY_SIZE(runs) - (run.operations < OPERATIONS);
	}

	ksft_print_header();
	missing = hydra_missing();
	if (missing)
		ksft_exit_fail_msg("%s\n", missing);
	ksft_set_plan(2 * nr);
	missing = prepare_system();
	if (missing) {
		restore_system();
		ksft_exit_fail_msg("%s\n", missing);
	}
	for (int i = 0; i < nr; i++)
		test(&runs[i]);
	restore_system();
	ksft_finished();
}
