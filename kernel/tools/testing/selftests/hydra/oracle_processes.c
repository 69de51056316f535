// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations on the whole process: fork, Hydra switched off and on, with and
 * without memory for tables, and replicas given back.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "oracle_operations.h"

/* fork, and pages copied on write */

struct child {
	atomic_uint may_go;
};

static struct child *children;		/* one for each changer */

/* In the child, on some CPU */
static void look_at_all_cells(struct op *op)
{
	struct looker l = {
		.cpu = probe_cpu(hydra_random(&op->random) % nr_probes()), .probe = -1, .random = 1,
	};
	struct sight sight;

	hydra_pin_to_cpu(l.cpu);
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		announce(&op->zone->cell[i]);
		look_at(&l, op->zone, i, op->word, LOOK_CLOSELY, 0, &sight);
	}
}

static void __attribute__((noreturn)) live_as_child(struct op *op)
{
	struct zone *z = op->zone;
	bool is_shared = is_in(z, SHARED_ZONES);

	atomic_store(&mistakes, 0);
	wait_until(&children[op->changer].may_go, 1);
	/* The parent has written meanwhile. The child sees the write only in shared memory. */
	for (unsigned int i = op->first; i < op->first + op->count; i++)
		if (is_shared && op->rewrite[0] && z->cell[i].now.access == READ_WRITE)
			z->cell[i].now.contents = new_contents(op, i);
	look_at_all_cells(op);
	/* What the child writes here the parent must not see. */
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &z->cell[i].now;

		if (is_shared || now->access != READ_WRITE)
			continue;
		now->contents = contents_by(BY_CHILD, op->number, i);
		now->maybe_zero = false;
		fill_page(address(z, i), now->contents);
	}
	look_at_all_cells(op);
	_exit(!!atomic_load(&mistakes));
}

bool make_child(struct op *op)
{
	pid_t child;

	atomic_store(&children[op->changer].may_go, 0);
	child = fork();
	if (!child)
		live_as_child(op);
	op->note[0] = child;
	op->note[1] = frame(start(op));
	return must(op, child > 0, "fork");
}

void end_child(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };
	int status;

	if (op->note[1] && frame(start(op)) && frame(start(op)) != op->note[1])
		proved(op);
	raise_to(&children[op->changer].may_go, 1);
	status = hydra_wait_child(op->note[0]);
	if (status)
		mistake(op_id(op), &l, start(op), "the child: expected to see what was there at the fork, got %s %d",
			status > 128 ? "signal" : "mistakes, see above, and exit status",
			status > 128 ? status - 128 : status);
}

/* Hydra off and on */

static pthread_mutex_t switching = PTHREAD_MUTEX_INITIALIZER;

/* A number of /proc/self/hydra */
static long counter(const char *key)
{
	return hydra_number("/proc/self/hydra", key);
}

/* Off, or to domains of another scope, or another replication */
bool switch_off(struct op *op)
{
	static const char * const others[] = {
		"linux", "domains=core", "replication=eager", "domains=node", "replication=lazy",
		"domains=llc",
	};
	static unsigned int next;
	const char *other;

	pthread_mutex_lock(&switching);
	other = others[next++ % ARRAY_SIZE(others)];
	if (!must(op, !hydra_write_policy(self, other), "switching off") ||
	    !must(op, counter("active") == !!strcmp(other, "linux"), "being off")) {
		pthread_mutex_unlock(&switching);
		return false;
	}
	return true;
}

void switch_on(struct op *op)
{
	if (must(op, !hydra_write_policy(self, run.policy), "switching on") &&
	    must(op, counter("active") == 1, "being on"))
		proved(op);
	pthread_mutex_unlock(&switching);
}

/*
 * Hydra makes all tables of the domains anew, while one in three allocations of tables
 * fails: a domain without memory for a table uses Linux's table. The settings apply in
 * any case.
 */
bool switch_on_without_memory(struct op *op)
{
	int err;

	pthread_mutex_lock(&switching);
	op->note[0] = counter("fallbacks");
	must(op, !hydra_off(), "switching off");
	must(op, !hydra_fail_allocations(33), "failing allocations");
	do {
		err = hydra_write_policy(self, run.policy);
	} while (err == -ENOMEM);
	errno = -err;
	return must(op, !err, "switching on without memory");
}

/* Switch on once more, with memory, for the domains that use Linux's tables. */
void switch_on_again(struct op *op)
{
	must(op, !hydra_fail_allocations(0), "allocations that no longer fail");
	if (counter("fallbacks") > op->note[0])
		proved(op);
	must(op, !hydra_off(), "switching off");
	must(op, !hydra_write_policy(self, run.policy), "switching on");
	pthread_mutex_unlock(&switching);
}

/* The shrinker gives replicas back on request. */
bool reclaim_replicas(struct op *op)
{
	long before = counter("reclaimed");

	if (!must(op, !hydra_write_file("/proc/sys/vm/drop_caches", "2"), "drop_caches"))
		return false;
	if (counter("reclaimed") > before)
		proved(op);
	return true;
}

const char *prepare_processes(void)
{
	children = shared_memory(run.changers * sizeof(*children));
	return children ? NULL : "no shared memory";
}
