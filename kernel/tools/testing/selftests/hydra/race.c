// SPDX-License-Identifier: GPL-2.0-only
/*
 * Changes against accesses, at random. On each node one thread changes pieces
 * of the address space, called slots, and one reads and writes them. A slot
 * says what its accesses must come to; while it is being changed it says so.
 * When it has said the same before and after an access, the outcome must be
 * just that: no access that the slot forbids, no byte that it does not contain.
 */
#include <argp.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "kselftest.h"
#include "hydra_util.h"

#define SMALL_SLOTS	16	/* side by side in two leaf tables */
#define TABLE_SLOTS	4	/* a leaf table each */
#define SLOTS		(SMALL_SLOTS + TABLE_SLOTS)
#define CELL		16UL	/* pages from one small slot to the next */
#define PATTERN_WORDS	256	/* of a page: written by changes, read by accesses */
#define PHASES		4	/* at the end of each, changes rest and all is checked */
#define MISTAKES_SHOWN	20
#define NUMA_BALANCING	"/proc/sys/kernel/numa_balancing"
#define PATIENCE	150	/* seconds until a run is taken for hung */

static struct {
	uint64_t seed;
	unsigned int ops;
	const char *policy;
} option = { .ops = 200 };

enum access { NONE, READ, WRITE };

/* What a slot says: generation, live place, access, and whether it is being changed */
#define SAY(generation, place, access)	((generation) << 8 | (place) << 4 | (access) << 1)
#define CHANGING(said)			((said) & 1)
#define ACCESS(said)			((said) >> 1 & 3)
#define LIVE(said)			((said) >> 4 & 1)
#define GENERATION(said)		((said) >> 8)

struct slot {
	pthread_mutex_t lock;		/* one change at a time */
	char *place[2];			/* it lives in one of two places */
	size_t pages, step;		/* of each step pages, the first is used */
	bool shared;
	bool mapped;
	atomic_ulong said;
	atomic_ulong contents;		/* the seed of the pattern */
	atomic_ulong next_contents;	/* while it changes */
};

static struct slot slots[SLOTS];
static pthread_barrier_t rest;
static atomic_bool stop;
static atomic_int mistakes;
static atomic_ulong seeds;
static atomic_ulong accesses, sure_accesses, changes_awaited;
static atomic_uint coming[HYDRA_MAX_NODES];	/* the slot each node will change next */

struct actor {
	pthread_t thread;
	int node, number;
	uint64_t random;
};

static uint64_t next_random(struct actor *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return a->random * 0x2545f4914f6cdd1d >> 16;
}

static void __attribute__((format(printf, 4, 5)))
mistake(const struct actor *a, const struct slot *s, const void *addr, const char *format, ...)
{
	unsigned long said = atomic_load(&s->said);
	va_list args;

	if (atomic_fetch_add(&mistakes, 1) >= MISTAKES_SHOWN)
		return;
	flockfile(stderr);
	fprintf(stderr, "# node %d, slot %ld (generation %lu), address %p: ",
		hydra_node_id(a->node), s - slots, GENERATION(said), addr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	funlockfile(stderr);
}

/* Accesses */

static void try_to_read(struct actor *a, struct slot *s, unsigned long place, size_t page)
{
	size_t word = next_random(a) % PATTERN_WORDS;
	unsigned long said = atomic_load(&s->said);
	char *addr = s->place[place] + page * PAGE_SIZE + word * sizeof(uint64_t);
	uint64_t contents = atomic_load(&s->contents), next = atomic_load(&s->next_contents);
	uint64_t value = 0;
	int sig = hydra_try_read(addr, &value);

	atomic_fetch_add(&accesses, 1);
	if (atomic_load(&s->said) != said)
		return;
	atomic_fetch_add(&sure_accesses, 1);
	if (CHANGING(said)) {
		if (!sig && value && value != hydra_word(contents, page, word) &&
		    value != hydra_word(next, page, word))
			mistake(a, s, addr, "read %#lx, which was never there", value);
	} else if (place != LIVE(said) || ACCESS(said) == NONE) {
		if (!sig)
			mistake(a, s, addr, "read %#lx where reading is forbidden", value);
	} else if (sig) {
		mistake(a, s, addr, "reading got signal %d, but is allowed", sig);
	} else if (value != hydra_word(contents, page, word)) {
		mistake(a, s, addr, "read %#lx, not %#lx", value,
			hydra_word(contents, page, word));
	}
}

/* Each reader has a word of its own in each page, which it alone writes */
static void try_to_write(struct actor *a, struct slot *s, unsigned long place, size_t page)
{
	unsigned long said = atomic_load(&s->said);
	char *addr = s->place[place] + page * PAGE_SIZE +
		     (PATTERN_WORDS + a->number) * sizeof(uint64_t);
	uint64_t written = next_random(a), value = 0;
	int sig = hydra_try_write(addr, written);
	int sig_read = hydra_try_read(addr, &value);

	atomic_fetch_add(&accesses, 1);
	if (atomic_load(&s->said) != said)
		return;
	atomic_fetch_add(&sure_accesses, 1);
	if (CHANGING(said))
		return;
	if (place != LIVE(said) || ACCESS(said) != WRITE) {
		if (!sig)
			mistake(a, s, addr, "wrote where writing is forbidden");
	} else if (sig || sig_read) {
		mistake(a, s, addr, "writing got signal %d, reading %d, but both are allowed",
			sig, sig_read);
	} else if (value != written) {
		mistake(a, s, addr, "wrote %#lx but reads %#lx", written, value);
	}
}

static size_t random_page(struct actor *a, const struct slot *s)
{
	return next_random(a) % (s->pages / s->step) * s->step;
}

static void access_anything(struct actor *a)
{
	struct slot *s = &slots[next_random(a) % SLOTS];
	unsigned long place = LIVE(atomic_load(&s->said)) ^ (next_random(a) % 4 == 0);

	if (next_random(a) % 3)
		try_to_read(a, s, place, random_page(a, s));
	else
		try_to_write(a, s, place, random_page(a, s));
}

/*
 * Use a page of a slot that is about to change; then stay on the CPU and touch
 * nothing, so that the CPU keeps the translation; and use it again as soon as
 * the change is over. If anybody forgot this CPU, here it shows.
 */
static void await_change(struct actor *a)
{
	struct slot *s = &slots[atomic_load(&coming[next_random(a) % hydra_nodes()])];
	unsigned long before = atomic_load(&s->said), now = before;
	unsigned long place = LIVE(before);
	size_t page = random_page(a, s);
	bool write = ACCESS(before) == WRITE && next_random(a) % 2;

	if (CHANGING(before) || ACCESS(before) == NONE)
		return;
	if (write)
		try_to_write(a, s, place, page);
	else
		try_to_read(a, s, place, page);
	for (int i = 0; i < 4000 && (now == before || CHANGING(now)); i++) {
		__builtin_ia32_pause();
		now = atomic_load(&s->said);
	}
	if (now != before && !CHANGING(now))
		atomic_fetch_add(&changes_awaited, 1);
	if (write)
		try_to_write(a, s, place, page);
	else
		try_to_read(a, s, place, page);
}

static void *access_slots(void *arg)
{
	struct actor *a = arg;
	int cpus[HYDRA_MAX_CPUS];

	hydra_pin_to_cpu(cpus[hydra_node_cpus(a->node, cpus) - 1]);
	while (!atomic_load(&stop)) {
		await_change(a);
		if (next_random(a) % 4 == 0)
			access_anything(a);
	}
	return NULL;
}

/* Changes */

static void write_pattern(struct slot *s, char *addr, uint64_t contents)
{
	for (size_t page = 0; page < s->pages; page += s->step)
		for (size_t word = 0; word < PATTERN_WORDS; word++)
			((volatile uint64_t *)(addr + page * PAGE_SIZE))[word] =
				hydra_word(contents, page, word);
}

/* The slot as it says it is: for those who hold its lock */
static void verify(struct actor *a, struct slot *s)
{
	unsigned long said = atomic_load(&s->said);
	uint64_t contents = atomic_load(&s->contents);

	for (unsigned long place = 0; place < 2; place++)
		for (size_t page = 0; page < s->pages; page += s->step)
			for (size_t word = 0; word < PATTERN_WORDS; word++) {
				char *addr = s->place[place] + page * PAGE_SIZE + word * 8;
				bool may = place == LIVE(said) && ACCESS(said) != NONE;
				uint64_t value = 0;
				int sig = hydra_try_read(addr, &value);

				if (may && sig)
					mistake(a, s, addr, "at rest: signal %d", sig);
				else if (!may && !sig)
					mistake(a, s, addr, "at rest: no signal, %#lx", value);
				else if (may && value != hydra_word(contents, page, word))
					mistake(a, s, addr, "at rest: %#lx, not %#lx", value,
						hydra_word(contents, page, word));
				/* a place without access needs one look at each page */
				if (!may)
					break;
			}
}

static void must(struct actor *a, struct slot *s, bool done, const char *call)
{
	if (!done)
		mistake(a, s, s->place[0], "%s failed: %s", call, strerror(errno));
}

static size_t slot_size(const struct slot *s)
{
	return s->pages * PAGE_SIZE;
}

static void map_anew(struct actor *a, struct slot *s, char *addr)
{
	int flags = MAP_ANONYMOUS | MAP_FIXED | (s->shared ? MAP_SHARED : MAP_PRIVATE);
	uint64_t contents = atomic_load(&s->next_contents);

	must(a, s, mmap(addr, slot_size(s), PROT_READ | PROT_WRITE, flags, -1, 0) == addr, "mmap");
	s->mapped = true;
	write_pattern(s, addr, contents);
	atomic_store(&s->contents, contents);
}

static void protect(struct actor *a, struct slot *s, char *addr, enum access access)
{
	static const int protection[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };

	must(a, s, !mprotect(addr, slot_size(s), protection[access]), "mprotect");
}

/* Permission of the first half goes and comes back */
static void protect_half(struct actor *a, struct slot *s, char *addr, enum access access)
{
	static const int protection[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	size_t half = (s->pages + 1) / 2 * PAGE_SIZE;
	uint64_t value;

	must(a, s, !mprotect(addr, half, PROT_NONE), "mprotect");
	if (!hydra_try_read(addr, &value))
		mistake(a, s, addr, "read %#lx in the half without access", value);
	must(a, s, !mprotect(addr, half, protection[access]), "mprotect");
}

static void drop_contents(struct actor *a, struct slot *s, char *addr)
{
	uint64_t contents = atomic_load(&s->next_contents);
	uint64_t value = 0;

	must(a, s, !madvise(addr, slot_size(s), MADV_DONTNEED), "madvise");
	if (!s->shared && (hydra_try_read(addr, &value) || value))
		mistake(a, s, addr, "reads %#lx after MADV_DONTNEED", value);
	write_pattern(s, addr, contents);
	atomic_store(&s->contents, contents);
}

/* These change nothing that an access could tell */

static void migrate(struct actor *a, struct slot *s, char *addr)
{
	void *pages[CELL];
	int nodes[CELL], status[CELL];
	unsigned long count = 0;

	for (size_t page = 0; page < s->pages && count < CELL; page += s->step, count++) {
		pages[count] = addr + page * PAGE_SIZE;
		nodes[count] = hydra_node_id(next_random(a) % hydra_nodes());
	}
	must(a, s, syscall(SYS_move_pages, 0, count, pages, nodes, status, 1 << 1) >= 0,
	     "move_pages");
}

static void advise(struct actor *a, struct slot *s, char *addr)
{
	static const int advice[] = { MADV_COLD, MADV_PAGEOUT };

	must(a, s, !madvise(addr, slot_size(s), advice[next_random(a) % 2]), "madvise");
}

/* The child goes to another node, sees what the parent had, and writes */
static void fork_child(struct actor *a, struct slot *s, char *addr, enum access access)
{
	int node = next_random(a) % hydra_nodes(), status;
	pid_t child = fork();

	must(a, s, child >= 0, "fork");
	if (!child) {
		atomic_store(&mistakes, 0);
		a->node = node;
		hydra_pin_to_node(node);
		verify(a, s);
		if (access == WRITE && !s->shared) {
			uint64_t contents = atomic_fetch_add(&seeds, 1);

			write_pattern(s, addr, contents);
			atomic_store(&s->contents, contents);
			verify(a, s);
		}
		_exit(atomic_load(&mistakes) != 0);
	}
	status = hydra_wait_child(child);
	if (child > 0 && status)
		mistake(a, s, addr, "a child on node %d found that (status %d)",
			hydra_node_id(node), status);
}

static void change(struct actor *a, struct slot *s)
{
	unsigned long said, place, access, generation;
	char *addr;

	pthread_mutex_lock(&s->lock);
	said = atomic_load(&s->said);
	generation = GENERATION(said) + 1;
	place = LIVE(said);
	access = ACCESS(said);
	addr = s->place[place];

	if (s->mapped && access != NONE && next_random(a) % 3 == 0) {
		switch (next_random(a) % 4) {
		case 0:
			fork_child(a, s, addr, access);
			break;
		case 1:
			migrate(a, s, addr);
			break;
		case 2:
			advise(a, s, addr);
			break;
		case 3:
			verify(a, s);
			break;
		}
		pthread_mutex_unlock(&s->lock);
		return;
	}

	atomic_store(&s->next_contents, atomic_fetch_add(&seeds, 1));
	atomic_store(&s->said, SAY(generation, place, access) | 1);
	switch (s->mapped ? next_random(a) % 7 : 0) {
	case 0:
		map_anew(a, s, addr);
		access = WRITE;
		break;
	case 1:
		must(a, s, !munmap(addr, slot_size(s)), "munmap");
		s->mapped = false;
		access = NONE;
		break;
	case 2:
	case 3:
		access = next_random(a) % 3;
		protect(a, s, addr, access);
		break;
	case 4:
		place ^= 1;
		must(a, s, mremap(addr, slot_size(s), slot_size(s),
				  MREMAP_MAYMOVE | MREMAP_FIXED, s->place[place]) ==
		     s->place[place], "mremap");
		break;
	case 5:
		protect(a, s, addr, WRITE);
		access = WRITE;
		drop_contents(a, s, addr);
		break;
	case 6:
		protect_half(a, s, addr, access);
		break;
	}
	atomic_store(&s->said, SAY(generation + 1, place, access));
	pthread_mutex_unlock(&s->lock);
}

static void *change_slots(void *arg)
{
	struct actor *a = arg;
	unsigned int slot = next_random(a) % SLOTS;

	hydra_pin_to_node(a->node);
	for (int phase = 0; phase < PHASES; phase++) {
		for (unsigned int i = 0; i < option.ops / PHASES && !atomic_load(&mistakes); i++) {
			unsigned int next = next_random(a) % SLOTS;

			atomic_store(&coming[a->node], next);
			change(a, &slots[slot]);
			slot = next;
		}
		/* nothing changes: every node must see every slot as it is */
		pthread_barrier_wait(&rest);
		for (int i = 0; i < SLOTS; i++)
			verify(a, &slots[i]);
		pthread_barrier_wait(&rest);
		if (a->node == 0 && !hydra_consistent(getpid()))
			atomic_fetch_add(&mistakes, 1);
		pthread_barrier_wait(&rest);
	}
	return NULL;
}

static void make_slots(void)
{
	/* small ones lie across the border of two tables; in the second place otherwise than in the first */
	char *cells = (char *)hydra_reserve(2 * TABLE_SIZE) + TABLE_SIZE -
		      SMALL_SLOTS / 2 * CELL * PAGE_SIZE;
	char *others = (char *)hydra_reserve(3 * TABLE_SIZE) + TABLE_SIZE -
		       (SMALL_SLOTS / 4 * CELL + 3) * PAGE_SIZE;
	char *tables = hydra_reserve(2 * TABLE_SLOTS * TABLE_SIZE);

	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &slots[i];

		memset(s, 0, sizeof(*s));
		pthread_mutex_init(&s->lock, NULL);
		if (i < SMALL_SLOTS) {
			s->place[0] = cells + i * CELL * PAGE_SIZE;
			s->place[1] = others + i * CELL * PAGE_SIZE;
			s->pages = 1 + i % CELL;
			s->step = 1;
			s->shared = i % 4 == 3;
		} else {
			s->place[0] = tables + 2 * (i - SMALL_SLOTS) * TABLE_SIZE;
			s->place[1] = s->place[0] + TABLE_SIZE;
			s->pages = TABLE_PAGES;
			s->step = 64;
		}
	}
}

static bool run(const char *policy)
{
	static struct actor changers[HYDRA_MAX_NODES], accessors[HYDRA_MAX_NODES];
	int nodes = hydra_nodes();
	int err;

	if (hydra_begin())
		return false;
	err = hydra_write_policy(getpid(), policy);
	if (err) {
		fprintf(stderr, "# /proc/self/hydra does not take \"%s\": %s\n", policy,
			strerror(-err));
		return false;
	}
	make_slots();
	atomic_store(&seeds, 1);
	pthread_barrier_init(&rest, NULL, nodes);
	for (int i = 0; i < 2 * nodes; i++) {
		struct actor *a = i < nodes ? &changers[i] : &accessors[i - nodes];

		a->node = a->number = i % nodes;
		a->random = (option.seed + i + 1) * 0x9e3779b97f4a7c15 | 1;
		errno = pthread_create(&a->thread, NULL,
				       i < nodes ? change_slots : access_slots, a);
		if (errno) {
			perror("# cannot start a thread");
			return false;
		}
	}
	for (int i = 0; i < nodes; i++)
		pthread_join(changers[i].thread, NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < nodes; i++)
		pthread_join(accessors[i].thread, NULL);

	ksft_print_msg("%lu accesses, %lu while the slot stayed as it was, %lu before and after a change; %d mistakes\n",
		       atomic_load(&accesses), atomic_load(&sure_accesses),
		       atomic_load(&changes_awaited), atomic_load(&mistakes));
	if (!atomic_load(&changes_awaited)) {
		fprintf(stderr, "# no access met a change: this run shows nothing\n");
		return false;
	}
	return !atomic_load(&mistakes) && hydra_consistent(getpid());
}

static bool run_in_child(const char *policy)
{
	pid_t child;
	int status;

	ksft_print_msg("policy %s: repeat with --policy '%s' --seed %lu --ops %u\n", policy, policy,
		       option.seed, option.ops);
	fflush(NULL);
	child = fork();
	if (!child) {
		bool passed;

		alarm(PATIENCE);
		passed = run(policy);
		fflush(NULL);
		_exit(!passed);
	}
	status = child < 0 ? -1 : hydra_wait_child(child);
	if (status == 128 + SIGALRM)
		fprintf(stderr, "# it hung: no end after %d seconds\n", PATIENCE);
	else if (status > 128)
		fprintf(stderr, "# it died of signal %d\n", status - 128);
	return !status;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end = "";

	switch (key) {
	case 's':
		option.seed = strtoull(arg, &end, 0);
		break;
	case 'o':
		option.ops = strtoul(arg, &end, 0);
		break;
	case 'p':
		option.policy = arg;
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
		{ "ops", 'o', "N", 0, "changes that each node makes (default: 200)" },
		{ "policy", 'p', "TEXT", 0, "run this policy alone, as written to /proc/PID/hydra" },
		{ 0 }
	};
	static const struct argp argp = {
		options, parse, NULL,
		"Races changes of the address space against accesses, on all nodes.",
	};
	static const char * const policies[] = { "hydra", "hydra,prefetch=0", "hydra,filter=none" };
	char numa_balancing[16];
	const char *missing;
	int len;

	if (getrandom(&option.seed, sizeof(option.seed), 0) != sizeof(option.seed))
		option.seed = getpid();
	option.seed %= 1000000;
	argp_parse(&argp, argc, argv, 0, NULL, NULL);

	ksft_print_header();
	missing = hydra_missing();
	if (missing)
		ksft_exit_fail_msg("%s\n", missing);
	ksft_set_plan(option.policy ? 1 : ARRAY_SIZE(policies));
	/* its flushes would hide some that are left out */
	len = hydra_read_file(NUMA_BALANCING, numa_balancing, sizeof(numa_balancing));
	hydra_write_file(NUMA_BALANCING, "0");
	for (int i = 0; i < ARRAY_SIZE(policies); i++) {
		const char *policy = option.policy ?: policies[i];

		ksft_test_result(run_in_child(policy), "race under %s\n", policy);
		if (option.policy)
			break;
	}
	if (len > 0)
		hydra_write_file(NUMA_BALANCING, numa_balancing);
	ksft_finished();
}
