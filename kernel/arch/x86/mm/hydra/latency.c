// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which CPUs are near each other? Measured, for a guest whose host does not tell.
 *
 * Two CPUs hand a cache line back and forth. CPUs of one node of the host do that about twice
 * as fast as CPUs of different nodes. (vMitosis, Panwar et al., ASPLOS '21, section 3.3.4,
 * table 4: 50 to 62 ns, and 125 ns.) The least of several rounds counts: a CPU of a guest may be
 * stopped by its host at any time.
 *
 * The groups have to be beyond doubt. The values of all pairs are sorted, and cut where one is
 * 1.5 times as large as the one before. Each pair inside a group has to be below the cut, and
 * each pair of different groups above. Of several such cuts the highest is taken: siblings of a
 * core are nearer to each other than CPUs of a node. Without one, all CPUs are one group: that is
 * plain Linux, and no error.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/sort.h>
#include <linux/workqueue.h>

#include <asm/msr.h>
#include <asm/tsc.h>

#include "latency.h"

/* The time grows with the square of the number of CPUs. */
#define CPUS_MAX	256
#define ROUNDS		64
/* Round trips in a round */
#define ROUND_TRIPS	8
/* Milliseconds for all pairs, and how often a pair may have no answer in time */
#define TIMEOUT_ALL_MS	60000
#define TRIES		3
/*
 * Milliseconds for a pair. Where two CPUs of a guest share one of the host, each trip takes a
 * time slice, and the CPU that answers has interrupts off.
 */
#define TIMEOUT_MS	20

/**
 * struct hydra_ping - a cache line that two CPUs hand back and forth
 * @turn: odd: it is the turn of the CPU that answers
 * @stop: the CPU that answers is to end
 * @done: it has ended, and does not use this any more
 * @to: the CPU that answers
 * @least: cycles of a trip in the fastest round, UINT_MAX: no round came to its end
 */
struct hydra_ping {
	unsigned int turn ____cacheline_aligned_in_smp;
	bool stop;
	bool done ____cacheline_aligned_in_smp;
	int to;
	u32 least;
};

/* The CPU that answers. Interrupts are off. */
static void hydra_pong(void *data)
{
	struct hydra_ping *ping = data;
	unsigned int turn;

	while (!READ_ONCE(ping->stop)) {
		/* Each side reads what the other has stored: pairs with hydra_ping_round(). */
		turn = smp_load_acquire(&ping->turn);
		if (turn & 1)
			smp_store_release(&ping->turn, turn + 1);	/* as above */
		else
			cpu_relax();
	}
	/* The last use of @ping; pairs with the acquire in hydra_ping(). */
	smp_store_release(&ping->done, true);
}

/* One round. Return: false if the time is over. */
static bool hydra_ping_round(struct hydra_ping *ping, unsigned int *turn, u64 end)
{
	u64 start = rdtsc_ordered(), now = start;
	unsigned int i;

	for (i = 0; i < ROUND_TRIPS; i++) {
		/* Pairs with hydra_pong(), in both directions. */
		smp_store_release(&ping->turn, *turn + 1);
		*turn += 2;
		/* As above */
		while (smp_load_acquire(&ping->turn) != *turn) {
			now = rdtsc();
			if (now > end)
				return false;
			cpu_relax();
		}
	}
	ping->least = min_t(u64, ping->least, (rdtsc_ordered() - start) / ROUND_TRIPS);
	return now <= end;
}

/*
 * The CPU that asks. Context: a worker bound to its CPU. Not timed by ktime_get, which has a
 * resolution of one tick while the kernel boots.
 */
static long hydra_ping(void *data)
{
	struct hydra_ping *ping = data;
	unsigned int round, turn = 0;
	u64 end;

	ping->turn = 0;
	ping->stop = false;
	ping->done = false;
	ping->least = U32_MAX;
	preempt_disable();
	end = rdtsc() + (u64)tsc_khz * TIMEOUT_MS;
	if (smp_call_function_single(ping->to, hydra_pong, ping, false)) {
		preempt_enable();
		return -ENXIO;
	}
	for (round = 0; round < ROUNDS; round++)
		if (!hydra_ping_round(ping, &turn, end))
			break;
	WRITE_ONCE(ping->stop, true);
	/* The other CPU has seen the end: @ping may be used again. */
	while (!smp_load_acquire(&ping->done))
		cpu_relax();
	preempt_enable();
	/* No clock, or no answer in time: a group cannot be told. */
	return ping->least && ping->least != U32_MAX ? 0 : -ETIME;
}

static int hydra_compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return (x > y) - (x < y);
}

static unsigned int hydra_copy_pairs(const u32 *latency, unsigned int nr, u32 *pairs)
{
	unsigned int a, b, n = 0;

	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++)
			if (a != b)
				pairs[n++] = latency[a * nr + b];
	return n;
}

/* Is each pair of a group near, and each other pair far? */
static bool hydra_groups_agree(const u32 *latency, unsigned int nr, const u16 *group, u32 cut)
{
	unsigned int a, b;

	for (a = 0; a < nr; a++)
		for (b = 0; b < nr; b++) {
			bool near = latency[a * nr + b] < cut, together = group[a] == group[b];

			if (a != b && near != together)
				return false;
		}
	return true;
}

/* Group CPUs with values below a cut. Return: how many groups, 0: values contradict that. */
static unsigned int hydra_group_below(const u32 *latency, unsigned int nr, u32 cut, u16 *group)
{
	unsigned int a, b, groups = 0;

	/* A CPU joins the first CPU that it is near to, or begins a group. */
	for (a = 0; a < nr; a++) {
		for (b = 0; b < a && latency[a * nr + b] >= cut; b++)
			;
		group[a] = b < a ? group[b] : groups++;
	}
	return hydra_groups_agree(latency, nr, group, cut) ? groups : 0;
}

/**
 * hydra_find_groups - group CPUs by the latencies between them
 * @latency: times in any unit, a row for each CPU; not symmetric, if that is what was measured
 * @nr: how many CPUs
 * @group: set to the group of each; numbered by their first CPUs
 *
 * Context: may sleep. Return: how many groups, 1 if that cannot be told; 0: no memory.
 */
unsigned int hydra_find_groups(const u32 *latency, unsigned int nr, u16 *group)
{
	u32 *pairs = kvmalloc_array(nr, nr * sizeof(*pairs), GFP_KERNEL);
	unsigned int i, groups = 0;

	if (!pairs)
		return 0;
	i = hydra_copy_pairs(latency, nr, pairs);
	sort(pairs, i, sizeof(*pairs), hydra_compare, NULL);
	while (!groups && i-- > 1)
		if (2 * (u64)pairs[i] >= 3 * (u64)pairs[i - 1] && pairs[i])
			groups = hydra_group_below(latency, nr, pairs[i], group);
	kvfree(pairs);
	if (groups)
		return groups;
	memset(group, 0, nr * sizeof(*group));
	return 1;
}

/* Fill a row for each CPU that is online. Return: 0 or a negative errno. */
static int hydra_measure(u32 *latency, unsigned int nr, const u16 *cpus)
{
	struct hydra_ping *ping = kzalloc(sizeof(*ping), GFP_KERNEL);
	u64 end = rdtsc() + (u64)tsc_khz * TIMEOUT_ALL_MS;
	unsigned int a, b, i;
	int ret = 0;

	if (!ping)
		return -ENOMEM;
	for (a = 0; a < nr && !ret; a++) {
		for (b = 0; b < nr && !ret; b++) {
			if (a == b)
				continue;
			ping->to = cpus[b];
			ret = -ETIME;
			for (i = 0; i < TRIES && ret == -ETIME && rdtsc() < end; i++)
				ret = work_on_cpu(cpus[a], hydra_ping, ping);
			latency[a * nr + b] = ping->least;
		}
		cond_resched();
	}
	kfree(ping);
	return ret;
}

/**
 * hydra_measure_groups - measure which CPUs are near each other
 * @group: by CPU, set to its group, numbered by their first CPUs; for CPUs that are offline,
 *	left as it is
 *
 * Context: process context; may sleep. Takes about a tenth of a millisecond for each pair; at
 * most TIMEOUT_MS for each of TRIES, and TIMEOUT_ALL_MS in all.
 * Return: how many groups; 1 if that cannot be told; 0 if nothing could be measured.
 */
unsigned int hydra_measure_groups(u16 *group)
{
	unsigned int cpu, nr = 0, i, groups = 0;
	u16 cpus[CPUS_MAX], found[CPUS_MAX];
	u32 *latency = NULL;

	cpus_read_lock();
	if (num_online_cpus() > CPUS_MAX) {
		pr_warn("more than %u CPUs are not measured\n", CPUS_MAX);
		goto out;
	}
	for_each_online_cpu(cpu)
		cpus[nr++] = cpu;
	latency = kvcalloc(nr, nr * sizeof(*latency), GFP_KERNEL);
	if (!latency || hydra_measure(latency, nr, cpus))
		goto out;
	groups = hydra_find_groups(latency, nr, found);
	for (i = 0; i < nr && groups; i++)
		group[cpus[i]] = found[i];
out:
	cpus_read_unlock();
	kvfree(latency);
	return groups;
}

#include "tests/latency-kunit.h"
