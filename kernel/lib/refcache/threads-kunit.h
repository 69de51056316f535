/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads on all CPUs, CPUs that go and come, and epochs that come by themselves. */
#ifdef CONFIG_REFCACHE_KUNIT_TEST

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/poison.h>
#include <linux/prandom.h>
#include <linux/slab.h>

#define SLOTS	8
#define MANY	4096	/* objects at most, in one test */
#define ROUNDS	20	/* of a CPU that goes and comes */

struct refcache_object {
	struct refcache ref;
	struct refcache_weak weak;
	int released;
};

/* A slot has a reference to its object. */
struct refcache_threads {
	struct refcache *slot[SLOTS];
	struct refcache_object *objects;
	atomic_t made, released, found, wrong;
};

static struct refcache_threads *refcache_threads;

static void refcache_object_released(struct refcache *ref)
{
	struct refcache_object *object = container_of(ref, struct refcache_object, ref);

	if (xchg(&object->released, true))
		atomic_inc(&refcache_threads->wrong);
	/* From now on it is the owner's. */
	memset(ref, POISON_FREE, sizeof(*ref));
	atomic_inc(&refcache_threads->released);
}

static void refcache_check_alive(struct refcache *ref)
{
	if (READ_ONCE(container_of(ref, struct refcache_object, ref)->released))
		atomic_inc(&refcache_threads->wrong);
}

/* Takes over the caller's reference. */
static void refcache_fill_slot(unsigned int i, struct refcache *ref)
{
	ref = xchg(&refcache_threads->slot[i], ref);
	if (ref)
		refcache_put(ref);
}

static struct refcache *refcache_new_object(void)
{
	int number = atomic_inc_return(&refcache_threads->made);
	struct refcache_object *object = &refcache_threads->objects[number - 1];

	if (number > MANY) {
		atomic_dec(&refcache_threads->made);
		return NULL;
	}
	refcache_init(&object->ref, refcache_object_released, &object->weak);
	return &object->ref;
}

/* References are taken on one CPU, handed on, and put on another one. */
static int refcache_thread(void *unused)
{
	struct refcache_threads *t = refcache_threads;
	struct rnd_state random;

	prandom_seed_state(&random, current->pid);
	while (!kthread_should_stop()) {
		unsigned int number = prandom_u32_state(&random), i = number % SLOTS;
		struct refcache *ref = xchg(&t->slot[i], NULL);

		if (ref) {
			refcache_check_alive(ref);
			if (number & BIT(8)) {
				refcache_get(ref);
				refcache_fill_slot((i + 1) % SLOTS, ref);
			}
			if (number & BIT(9))
				cond_resched();
			refcache_check_alive(ref);
			refcache_put(ref);
		} else if (!(number >> 26)) {
			ref = refcache_new_object();
			if (ref)
				refcache_fill_slot(i, ref);
		} else if (atomic_read(&t->made)) {
			number = (number >> 10) % atomic_read(&t->made) % MANY;
			ref = refcache_get_weak(&t->objects[number].weak);
			if (ref) {
				atomic_inc(&t->found);
				refcache_check_alive(ref);
				refcache_fill_slot(i, ref);
			}
		}
		cond_resched();
	}
	return 0;
}

/* A CPU goes and comes, if there is one that can. */
static void refcache_move_cpus(void)
{
	unsigned int i, cpu = cpumask_last(cpu_online_mask);

	for (i = 0; i < ROUNDS; i++) {
		if (cpu && !remove_cpu(cpu))
			WARN_ON_ONCE(add_cpu(cpu));
		msleep(20);
	}
}

static void refcache_test_threads(struct kunit *test)
{
	struct task_struct **threads;
	struct refcache_threads *t;
	unsigned int i, nr = num_online_cpus();

	t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	threads = kunit_kcalloc(test, nr, sizeof(*threads), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t);
	KUNIT_ASSERT_NOT_NULL(test, threads);
	t->objects = kunit_kcalloc(test, MANY, sizeof(*t->objects), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, t->objects);
	refcache_threads = t;
	for (i = 0; i < nr; i++)
		threads[i] = kthread_run(refcache_thread, NULL, "refcache/%u", i);
	refcache_move_cpus();
	for (i = 0; i < nr; i++)
		if (!IS_ERR(threads[i]))
			kthread_stop(threads[i]);
	for (i = 0; i < SLOTS; i++)
		refcache_fill_slot(i, NULL);
	/* Each object is released, once, and not while a thread has it. */
	for (i = 0; i < 1000 && atomic_read(&t->released) < atomic_read(&t->made); i++)
		msleep(20);
	KUNIT_EXPECT_EQ(test, atomic_read(&t->released), atomic_read(&t->made));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->wrong), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&t->made), SLOTS);
	KUNIT_EXPECT_GT(test, atomic_read(&t->found), 0);
	for (i = 0; i < atomic_read(&t->made); i++)
		KUNIT_EXPECT_NULL(test, memchr_inv(&t->objects[i].ref, POISON_FREE,
						   sizeof(t->objects[i].ref)));
	/* No epoch more is wanted: at most one is under way. */
	flush_delayed_work(&refcache_worker);
	flush_delayed_work(&refcache_worker);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(refcache_wanted));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&refcache_worker));
}

static struct kunit_case refcache_threads_cases[] = {
	KUNIT_CASE_SLOW(refcache_test_threads),
	{}
};

static struct kunit_suite refcache_threads_suite = {
	.name = "refcache-threads",
	.test_cases = refcache_threads_cases,
};

kunit_test_suite(refcache_threads_suite);

#undef ROUNDS
#undef MANY
#undef SLOTS
#endif /* CONFIG_REFCACHE_KUNIT_TEST */
