// SPDX-License-Identifier: GPL-2.0-only
#include "subjects.h"

#include "table.h"

/*
 * Rules of thumb. An interrupt for a TLB shootdown takes some 2 us on the interrupted CPU,
 * so fewer than MANY_INTERRUPTS per second take less than 0.2 % of a CPU. Page tables of this
 * size map 8 GiB by pages of 4 KiB, and do not stay in the L2 cache of a core.
 */
#define LARGE_TABLES_KIB (16 * 1024)

/*
 * Fewer on other nodes stay in the L2 cache of a core. And tables of huge pages, which the kernel
 * does not move, are fewer.
 */
#define FAR_TABLES_KIB 1024

/* How much the kernel moves at a time: 8,192 leaf tables */
#define MOVE_MIB 32
#define MOVES_IN_IDLE_SECONDS 4

double many_interrupts = MANY_INTERRUPTS;

const char *const advice_words[] = {
	[ADVICE_HYDRA] = "hydra", [ADVICE_CORES] = "cores", [ADVICE_WALKS] = "walks",
	[ADVICE_KEEP] = "keep", [ADVICE_OFF] = "off", [ADVICE_MOVED] = "moved", [ADVICE_ONE_NODE] = "one-node",
	[ADVICE_QUIET] = "quiet", [ADVICE_NOT_SPLIT] = "not-split",
};

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

enum advice advice_for(const struct subject *seen)
{
	bool large = linux_kib(seen) >= LARGE_TABLES_KIB;

	if (seen->active && seen->spared >= many_interrupts)
		return ADVICE_KEEP;
	/* The counters tell of the time before. */
	if (seen->late && spans_nodes(seen))
		return ADVICE_NOT_SPLIT;
	if (seen->active && spans_nodes(seen))
		return large ? ADVICE_WALKS : ADVICE_OFF;
	if (!seen->active && seen->across >= many_interrupts)
		return ADVICE_HYDRA;
	if (!seen->active && within(seen) >= many_interrupts)
		return ADVICE_CORES;
	if (!spans_nodes(seen))
		return has_moved(seen) ? ADVICE_MOVED : ADVICE_ONE_NODE;
	return large ? ADVICE_WALKS : ADVICE_QUIET;
}

static double share(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

static char *hydra_sentence(const struct subject *seen)
{
	char across[RATE_SIZE], inside[RATE_SIZE], sent[RATE_SIZE];
	autofree char *more = within(seen) < many_interrupts ? NULL :
		xasprintf("; %s/s stay within a node, which only core domains (--policy abis or radixvm) might save",
			  rate_text(inside, within(seen)));

	return xasprintf("Switch Hydra on (hydractl set --policy hydra %d): it would save at most the %s interrupts/s that go to other nodes, %.0f %% of %s/s, and fewer if the nodes use the same memory%s.",
			 seen->pid, rate_text(across, seen->across), share(seen->across, seen->sent),
			 rate_text(sent, seen->sent), more ?: "");
}

static char *walks_sentence(const struct subject *seen)
{
	uint64_t mib = linux_kib(seen) / 1024;

	if (seen->active)
		return xasprintf("Few interrupts are spared (%.1f/s), but page tables of %" PRIu64 " MiB are large: TLB misses that now read them on the own node may be worth the %" PRIu64 " KiB of Hydra's tables; compare the program's speed with that under policy linux.",
				 seen->spared, mib, seen->hydra_kib);
	return xasprintf("Few interrupts to save (%.1f/s to other nodes), but threads on several nodes share page tables of %" PRIu64 " MiB, so TLB misses may read up to %" PRIu64 " MiB of them on another node: try hydractl set --policy hydra %d, and compare the program's speed.",
			 seen->across, mib, mib, seen->pid);
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
		return xasprintf("hydractl set --policy hydra %d would move them there, but not while %s", seen->pid, seen->stays);
	return xasprintf("hydractl set --policy hydra %d moves them there, up to %d MiB every %g s, and costs nothing while one node runs the process",
			 seen->pid, MOVE_MIB, every);
}

static char *moved_sentence(const struct subject *seen)
{
	autofree char *move = move_text(seen);

	return xasprintf("The process runs on node %" PRIu64 ", but %" PRIu64 " KiB of its page tables are on other nodes, and it reaches %.0f %% of its pages through these: %s.",
			 seen->home, far_kib(seen), 100 * far_share(seen), move);
}

char *advice_sentence(const struct subject *seen)
{
	double both = seen->spared + seen->sent;

	switch (advice_for(seen)) {
	case ADVICE_HYDRA:
		return hydra_sentence(seen);
	case ADVICE_CORES:
		return xasprintf("Policy hydra would not help: of %.0f interrupts/s only %.1f/s go to other nodes; core domains (hydractl set --policy abis %d, or radixvm) might save some of the others.",
				 seen->sent, seen->across, seen->pid);
	case ADVICE_WALKS:
		return walks_sentence(seen);
	case ADVICE_KEEP:
		return xasprintf("Keep policy %s: it spares %.0f of the %.0f interrupts/s that Linux would send (%.0f %%), for %" PRIu64 " KiB of Hydra's tables.",
				 seen->policy, seen->spared, both, share(seen->spared, both), seen->hydra_kib);
	case ADVICE_OFF:
		return xasprintf("Policy %s does little: it spares %.1f of the %.1f interrupts/s that Linux would send (%.0f %%), which is fewer than %g, and page tables of %" PRIu64 " KiB are small; hydractl off %d gives %" PRIu64 " KiB back.",
				 seen->policy, seen->spared, both, share(seen->spared, both), many_interrupts,
				 linux_kib(seen), seen->pid, seen->hydra_kib);
	case ADVICE_MOVED:
		return moved_sentence(seen);
	case ADVICE_ONE_NODE:
		return xasprintf("Nothing to gain: %s, so a policy would change nothing, and cost nothing, until threads run on several nodes.",
				 seen->nodes.threads > 1 ? "all threads ran on one node" : "the process has a single thread");
	case ADVICE_NOT_SPLIT:
		return xasprintf("Policy %s does nothing yet: the process is %s.", seen->policy, seen->late);
	default:
		return xasprintf("%s to gain: at most %.1f of %.1f interrupts/s would be saved (%.0f %%), which is fewer than %g, and page tables of %" PRIu64 " KiB are smaller than %d KiB.",
				 seen->across > 0 ? "Little" : "Nothing", seen->across, seen->sent,
				 share(seen->across, seen->sent), many_interrupts, seen->table_kib, LARGE_TABLES_KIB);
	}
}
