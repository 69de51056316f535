// SPDX-License-Identifier: GPL-2.0-only
#include "subjects.h"

#include <math.h>

#include "rules.h"
#include "table.h"
#include "why.h"

/* Tables of fewer pages stay in caches: the kernel samples no walks of them. */
#define LARGE_TABLES_KIB (4 * HYDRA_SAMPLE_TABLES)

/*
 * Fewer on other nodes stay in the L2 cache of a core. And tables of huge pages, which the kernel
 * does not move, are fewer.
 */
#define FAR_TABLES_KIB 1024

/* How much the kernel moves at a time: 8,192 leaf tables */
#define MOVE_MIB 32
#define MOVES_IN_IDLE_SECONDS 4

/* Looks of a day: what a split has not paid by then, it never pays. */
#define LOOKS_MOST 86400

const char *const advice_words[] = {
	[ADVICE_AUTO] = "auto", [ADVICE_SMALL] = "small", [ADVICE_CORES] = "cores", [ADVICE_WALKS] = "walks",
	[ADVICE_KEEP] = "keep", [ADVICE_OFF] = "off", [ADVICE_MOVED] = "moved", [ADVICE_ONE_NODE] = "one-node",
	[ADVICE_QUIET] = "quiet", [ADVICE_NOT_SPLIT] = "not-split", [ADVICE_DECIDED] = "decided",
};

static const struct hydra_prices *prices(void)
{
	static struct hydra_prices found;

	if (!found.interrupt)
		found = kernel_prices();
	return &found;
}

bool spans_nodes(const struct subject *seen)
{
	/* Hydra never splits a process with a single thread, which may move. */
	return seen->nodes.threads > 1 && (seen->nodes.count > 1 || seen->across > 0);
}

uint64_t most_kib(const struct subject *seen)
{
	uint64_t nodes = seen->nodes.count > 1 ? seen->nodes.count : 2;

	return spans_nodes(seen) ? (nodes - 1) * seen->table_kib + nodes * ROOT_KIB : 0;
}

/* What Linux's page tables alone take. */
static uint64_t linux_kib(const struct subject *seen)
{
	return seen->table_kib > seen->hydra_kib ? seen->table_kib - seen->hydra_kib : 0;
}

/* Where a process is split, its node has tables of its own. */
bool may_have_moved(const struct subject *seen)
{
	return !spans_nodes(seen) && seen->split != SPLIT_DONE && seen->table_kib >= FAR_TABLES_KIB;
}

static uint64_t far_kib(const struct subject *seen)
{
	uint64_t far = 0;

	for (size_t i = 0; i < seen->tables.node_count; i++)
		far += seen->tables.node[i].node == seen->home ? 0 : seen->tables.node[i].kib;
	return far;
}

/* The share of the pages that is reached through page tables elsewhere: not split, so by each domain of the node */
static double far_share(const struct subject *seen)
{
	for (size_t i = 0; i < seen->tables.domain_count; i++)
		if (seen->tables.domain[i].node == seen->home)
			return 1 - local_leaf_share(&seen->tables.domain[i]);
	return 0;
}

static bool has_moved(const struct subject *seen)
{
	return seen->at_home && far_kib(seen) >= FAR_TABLES_KIB && far_share(seen) >= 0.5;
}

static double within(const struct subject *seen)
{
	return seen->sent > seen->across ? seen->sent - seen->across : 0;
}

/*
 * What the kernel would find in a look after @seconds, if the process went on as it did. CPUs that flushes interrupted on other
 * nodes have been counted, where the kernel has to guess them: so let each be a flush of its own, which interrupts one CPU.
 */
static struct hydra_process_look look_after(const struct subject *seen, double seconds)
{
	u32 running = ceil(seen->cpus), domains = seen->nodes.count > 1 ? seen->nodes.count : 2;
	double calls = seen->flushes * (domains - 1);

	return (struct hydra_process_look){
		.ns = 1e9 * seconds * seen->cpus / running,
		.running = running,
		.squares = (u64)running * (running - 1),
		.domains = domains,
		.alone = !spans_nodes(seen),
		.tables = linux_kib(seen) / 4,
		.flushes = seconds * (seen->split == SPLIT_DONE ? seen->flushes : seen->across),
		.spared = seconds * seen->spared,
		.fills = seconds * seen->fills,
		/* One call that changes many entries is one flush. */
		.changes = seconds * (seen->changes < calls ? seen->changes : calls),
		.entries = seconds * seen->changes,
	};
}

static double ppm_of_cpu_time(const struct hydra_process_look *look, double ns)
{
	return PPM * ns / look->running / look->ns;
}

double saving_ppm(const struct subject *seen)
{
	struct hydra_process_look look = look_after(seen, seen->seconds);

	if (seen->active && seen->split == SPLIT_DONE)
		return ppm_of_cpu_time(&look, hydra_process_net(prices(), &look));
	return ppm_of_cpu_time(&look, hydra_process_rent(prices(), &look, 0));
}

/* After so many seconds the kernel would split the process, under policy auto and if it went on as it did; INFINITY: never. */
static double split_after(const struct subject *seen)
{
	double seconds = kernel_look_ms() / 1e3;
	struct hydra_process_look look = look_after(seen, seconds);
	struct hydra_process account = { 0 };

	for (unsigned int looks = 1; look.flushes && looks <= LOOKS_MOST; looks++)
		if (hydra_process_looked(&account, prices(), &look) == HYDRA_WHY_SAVES)
			return seconds * looks;
	return INFINITY;
}

/* What core domains might save */
static double within_ppm(const struct subject *seen)
{
	return PPM * 1e-9 * prices()->interrupt * within(seen) / seen->cpus;
}

static enum advice advice_under_policy(const struct subject *seen, bool large)
{
	if (!strcmp(process_text(&seen->after, "domains"), "auto"))
		return has_moved(seen) ? ADVICE_MOVED : ADVICE_DECIDED;
	if (seen->split == SPLIT_DONE && saving_ppm(seen) >= QUIET_PPM)
		return ADVICE_KEEP;
	/* The counters tell of the time before. */
	if (seen->late && spans_nodes(seen))
		return ADVICE_NOT_SPLIT;
	if (spans_nodes(seen))
		return large ? ADVICE_WALKS : ADVICE_OFF;
	return has_moved(seen) ? ADVICE_MOVED : ADVICE_ONE_NODE;
}

enum advice advice_for(const struct subject *seen)
{
	bool large = linux_kib(seen) >= LARGE_TABLES_KIB;

	if (seen->active)
		return advice_under_policy(seen, large);
	if (isfinite(split_after(seen)))
		return ADVICE_AUTO;
	if (within_ppm(seen) >= QUIET_PPM)
		return ADVICE_CORES;
	if (!spans_nodes(seen))
		return has_moved(seen) ? ADVICE_MOVED : ADVICE_ONE_NODE;
	if (large)
		return ADVICE_WALKS;
	return seen->across > 0 ? ADVICE_SMALL : ADVICE_QUIET;
}

static double share(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

static char *auto_sentence(const struct subject *seen)
{
	char across[RATE_SIZE], inside[RATE_SIZE], sent[RATE_SIZE];
	autofree char *soon = duration_text(1e6 * split_after(seen)), *saves = percent_text(saving_ppm(seen));
	autofree char *more = within_ppm(seen) < QUIET_PPM ? NULL :
		xasprintf("; %s/s stay within a node, which only core domains (--policy abis or radixvm) might save",
			  rate_text(inside, within(seen)));

	return xasprintf("Use policy auto (hydractl set --policy auto %d): it would split the process within %s, and save at most %s of its CPU time: the %s interrupts/s that go to other nodes, %.0f %% of %s/s, at %u ns each; less if the nodes use the same memory%s.",
			 seen->pid, soon, saves, rate_text(across, seen->across), share(seen->across, seen->sent),
			 rate_text(sent, seen->sent), prices()->interrupt, more ?: "");
}

static char *small_sentence(const struct subject *seen)
{
	autofree char *saves = percent_text(saving_ppm(seen)), *from = percent_text(QUIET_PPM);

	return xasprintf("Little to gain: at most %s of its CPU time, %.1f of %.1f interrupts/s (%.0f %%) at %u ns each; policy auto splits from %s on. To see it tried: hydractl set --policy auto %d, then hydractl why %d.",
			 saves, seen->across, seen->sent, share(seen->across, seen->sent), prices()->interrupt, from, seen->pid, seen->pid);
}

/* So many pages a second, used by several nodes, would make the kernel split the process. */
static double pages_to_split(const struct subject *seen)
{
	struct hydra_process_look look = look_after(seen, 1);
	double rent = hydra_process_rent(prices(), &look, 0), quiet = seen->cpus * 1e9 / HYDRA_QUIET_PART;

	return quiet > rent ? (quiet - rent) / prices()->walk * look.domains / (look.domains - 1) : 0;
}

static char *walks_sentence(const struct subject *seen)
{
	autofree char *saves = percent_text(saving_ppm(seen));
	char pages[RATE_SIZE];

	if (seen->active)
		return xasprintf("Policy %s saves %s of its CPU time in interrupts, less what page tables of its own cost; TLB misses that now read page tables of %" PRIu64 " KiB on the own node may save more: hydractl set --policy auto %d lets the kernel find out, then hydractl why %d.",
				 seen->policy, saves, linux_kib(seen), seen->pid, seen->pid);
	return xasprintf("Few interrupts to save (at most %s of its CPU time), but threads on several nodes share page tables of %" PRIu64 " KiB, so TLB misses may read them on another node. Policy auto counts that, and splits if several nodes use %s pages/s or more: hydractl set --policy auto %d, then hydractl why %d.",
			 saves, seen->table_kib, rate_text(pages, pages_to_split(seen)), seen->pid, seen->pid);
}

static char *off_sentence(const struct subject *seen)
{
	double saving = saving_ppm(seen), both = seen->spared + seen->sent;
	autofree char *saves = percent_text(fabs(saving)), *from = percent_text(QUIET_PPM);

	return xasprintf("Policy %s %s: it spares %.1f of the %.1f interrupts/s that Linux would send (%.0f %%), and with what page tables of its own cost that %s %s of its CPU time; policy auto splits from %s on. hydractl off %d gives %" PRIu64 " KiB back, hydractl set --policy auto %d leaves it to the kernel.",
			 seen->policy, saving < 0 ? "costs more than it saves" : "does little", seen->spared, both, share(seen->spared, both),
			 saving < 0 ? "costs" : "saves", saves, from, seen->pid, seen->hydra_kib, seen->pid);
}

static char *keep_sentence(const struct subject *seen)
{
	double both = seen->spared + seen->sent;
	autofree char *saves = percent_text(saving_ppm(seen));

	return xasprintf("Keep policy %s: it saves %s of its CPU time. It spares %.0f of the %.0f interrupts/s that Linux would send (%.0f %%), for %" PRIu64 " KiB of page tables of its own.",
			 seen->policy, saves, seen->spared, both, share(seen->spared, both), seen->hydra_kib);
}

/* What moves the page tables to the node of the process, or why nothing does */
static char *move_text(const struct subject *seen)
{
	double every = (double)seen->idle_seconds / MOVES_IN_IDLE_SECONDS;

	if (seen->active && seen->stays)
		return xasprintf("the kernel does not move them while %s", seen->stays);
	if (seen->active)
		return xasprintf("the kernel moves them there, up to %d MiB every %g s", MOVE_MIB, every);
	if (seen->stays)
		return xasprintf("hydractl set --policy auto %d would move them there, but not while %s", seen->pid, seen->stays);
	return xasprintf("hydractl set --policy auto %d moves them there, up to %d MiB every %g s, and costs nothing while one node runs the process",
			 seen->pid, MOVE_MIB, every);
}

static char *moved_sentence(const struct subject *seen)
{
	autofree char *move = move_text(seen);

	return xasprintf("The process runs on node %" PRIu64 ", but %" PRIu64 " KiB of its page tables are on other nodes, and it reaches %.0f %% of its pages through these: %s.",
			 seen->home, far_kib(seen), 100 * far_share(seen), move);
}

static char *decided_sentence(const struct subject *seen)
{
	autofree char *why = why_sentence(&seen->after);

	return xasprintf("Policy auto decides by itself: %s.", why);
}

char *advice_sentence(const struct subject *seen)
{
	autofree char *saves = NULL;

	switch (advice_for(seen)) {
	case ADVICE_AUTO:
		return auto_sentence(seen);
	case ADVICE_SMALL:
		return small_sentence(seen);
	case ADVICE_CORES:
		saves = percent_text(within_ppm(seen));
		return xasprintf("Policies auto and hydra would not help: of %.0f interrupts/s only %.1f/s go to other nodes; core domains (hydractl set --policy abis %d, or radixvm) might save some of the others, at most %s of its CPU time.",
				 seen->sent, seen->across, seen->pid, saves);
	case ADVICE_WALKS:
		return walks_sentence(seen);
	case ADVICE_KEEP:
		return keep_sentence(seen);
	case ADVICE_OFF:
		return off_sentence(seen);
	case ADVICE_MOVED:
		return moved_sentence(seen);
	case ADVICE_ONE_NODE:
		return xasprintf("Nothing to gain: %s, so a policy would change nothing, and cost nothing, until threads run on several nodes.",
				 seen->nodes.threads > 1 ? "all threads ran on one node" : "the process has a single thread");
	case ADVICE_NOT_SPLIT:
		return xasprintf("Policy %s does nothing yet: the process is %s.", seen->policy, seen->late);
	case ADVICE_DECIDED:
		return decided_sentence(seen);
	default:
		return xasprintf("Nothing to gain: no interrupt went to another node, and page tables of %" PRIu64 " KiB are smaller than %d KiB, so walks stay in caches.",
				 seen->table_kib, LARGE_TABLES_KIB);
	}
}
