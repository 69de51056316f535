/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Epochs step by step: the test says which CPU flushes when. No epoch comes by itself
 * meanwhile, so nothing else may use Refcache.
 */
#ifdef CONFIG_REFCACHE_KUNIT_TEST

#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/percpu-refcount.h>

#define CPUS	3	/* that a test uses */
#define MANY	(8 << REFCACHE_BITS)	/* objects: two have one hash */

struct refcache_test {
	struct refcache ref;
	struct refcache_weak weak;
	struct llist_node *waiting;	/* that the epoch began with */
	unsigned int cpu[CPUS];
	unsigned int released;
};

static void refcache_test_released(struct refcache *ref)
{
	container_of(ref, struct refcache_test, ref)->released++;
}

static long refcache_test_get(void *ref)
{
	refcache_get(ref);
	return 0;
}

static long refcache_test_put(void *ref)
{
	refcache_put(ref);
	return 0;
}

static long refcache_test_get_weak(void *weak)
{
	return (long)refcache_get_weak(weak);
}

static long refcache_test_flush(void *unused)
{
	refcache_flush(NULL);
	return 0;
}

static void get(struct refcache_test *t, unsigned int cpu)
{
	work_on_cpu(t->cpu[cpu], refcache_test_get, &t->ref);
}

static void put(struct refcache_test *t, unsigned int cpu)
{
	work_on_cpu(t->cpu[cpu], refcache_test_put, &t->ref);
}

static bool get_weak(struct refcache_test *t, unsigned int cpu)
{
	return work_on_cpu(t->cpu[cpu], refcache_test_get_weak, &t->weak) == (long)&t->ref;
}

static void flush(struct refcache_test *t, unsigned int cpu)
{
	work_on_cpu(t->cpu[cpu], refcache_test_flush, NULL);
}

static void begin(struct refcache_test *t)
{
	t->waiting = refcache_begin_epoch();
}

static void end(struct refcache_test *t)
{
	refcache_review(t->waiting);
}

static void epoch(struct refcache_test *t)
{
	unsigned int i;

	begin(t);
	for (i = 0; i < CPUS; i++)
		flush(t, i);
	end(t);
}

#define EXPECT_WORD(test, t, count, flags) \
	KUNIT_EXPECT_EQ(test, atomic64_read(&(t)->ref.word), (count) * REFCACHE_ONE + (flags))

/* After the last reference was put: released by the end of the second epoch from here. */
static void refcache_expect_release(struct kunit *test, struct refcache_test *t)
{
	epoch(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	epoch(t);
	KUNIT_EXPECT_EQ(test, t->released, 1);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&t->weak.word), 0);
}

static int refcache_test_begin(struct kunit *test)
{
	struct refcache_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	if (num_online_cpus() < CPUS)
		kunit_skip(test, "needs %u CPUs", CPUS);
	for (i = 0; i < CPUS; i++)
		t->cpu[i] = cpumask_nth(i, cpu_online_mask);
	disable_delayed_work_sync(&refcache_worker);
	refcache_init(&t->ref, refcache_test_released, &t->weak);
	test->priv = t;
	return 0;
}

static void refcache_test_end(struct kunit *test)
{
	struct refcache_test *t = test->priv;
	unsigned int i;

	if (!t)
		return;
	/* What a test that has failed leaves in caches and on lists */
	for (i = 0; i < CPUS; i++)
		flush(t, i);
	refcache_begin_epoch();
	WRITE_ONCE(refcache_wanted, false);
	enable_delayed_work(&refcache_worker);
}

/*
 * Figure 1 of the paper. Which CPU counts when is ours where the text leaves it open.
 * An epoch ends here where the next one begins there.
 */
static void refcache_test_figure(struct kunit *test)
{
	struct refcache_test *t = test->priv;
	unsigned int i;

	/* Epoch 1: six changes, and the global count is never written. */
	begin(t);
	for (i = 0; i < CPUS; i++) {
		get(t, i);
		put(t, i);
	}
	for (i = 0; i < CPUS; i++)
		flush(t, i);
	EXPECT_WORD(test, t, 1, 0);
	end(t);

	/* Epoch 2: an increment, then a decrement, which are flushed in the other order. */
	begin(t);
	get(t, 1);
	put(t, 0);
	flush(t, 0);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	flush(t, 1);
	EXPECT_WORD(test, t, 1, REFCACHE_WAITS | REFCACHE_DIRTY);
	flush(t, 2);
	end(t);
	EXPECT_WORD(test, t, 1, REFCACHE_WAITS | REFCACHE_DIRTY);

	/* Epoch 3. At the beginning of epoch 4 the count is not zero. */
	epoch(t);
	EXPECT_WORD(test, t, 1, 0);

	/* Epoch 4: a zero at the end, but the true count is not zero. */
	begin(t);
	flush(t, 1);
	get(t, 1);
	put(t, 0);
	flush(t, 0);
	flush(t, 2);
	end(t);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);

	/* Epoch 5: the count is 1 for a while. At the beginning of epoch 6: a dirty zero. */
	begin(t);
	flush(t, 2);
	get(t, 2);
	flush(t, 1);
	EXPECT_WORD(test, t, 1, REFCACHE_WAITS | REFCACHE_DIRTY);
	put(t, 0);
	flush(t, 0);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS | REFCACHE_DIRTY);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);

	/* Epochs 6 and 7: the last reference is put. At the beginning of epoch 8: released. */
	begin(t);
	flush(t, 2);
	put(t, 0);
	flush(t, 0);
	flush(t, 1);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	epoch(t);
	KUNIT_EXPECT_EQ(test, t->released, 1);
}

/* References are put before those that they follow are flushed: below 0 for a while. */
static void refcache_test_reorder(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	begin(t);
	flush(t, 1);
	get(t, 1);
	get(t, 1);
	put(t, 0);
	put(t, 0);
	flush(t, 0);
	EXPECT_WORD(test, t, -1, REFCACHE_WAITS);
	flush(t, 2);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	epoch(t);
	EXPECT_WORD(test, t, 1, 0);
	put(t, 2);
	refcache_expect_release(test, t);
}

/*
 * CPU 0 takes a reference after its flush. CPU 1 gives two of its own back, so that its
 * delta is 0, not below. CPU 2 has given back two of others. Once it has flushed no delta is
 * below 0: the object has to wait because its global count is.
 */
static void refcache_fall_below_zero(struct kunit *test, struct refcache_test *t)
{
	begin(t);
	flush(t, 0);
	get(t, 0);
	WRITE_ONCE(refcache_wanted, false);
	put(t, 1);
	put(t, 1);
	flush(t, 1);
	flush(t, 2);
	end(t);
	KUNIT_EXPECT_TRUE(test, refcache_wanted);
}

static void refcache_test_below_zero(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	get(t, 1);
	get(t, 1);
	put(t, 2);
	put(t, 2);
	refcache_fall_below_zero(test, t);
	EXPECT_WORD(test, t, -1, REFCACHE_WAITS);
	refcache_expect_release(test, t);
}

/* The same with an object that waits already */
static void refcache_test_waits_below_zero(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	get(t, 1);
	get(t, 1);
	put(t, 2);
	flush(t, 2);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	put(t, 2);
	refcache_fall_below_zero(test, t);
	EXPECT_WORD(test, t, -1, REFCACHE_WAITS | REFCACHE_DIRTY);
	refcache_expect_release(test, t);
}

/* The count leaves 0 and comes back within an epoch: see above, epoch 5. */
static void refcache_test_dirty(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	get(t, 1);
	put(t, 0);
	flush(t, 0);
	begin(t);
	flush(t, 2);
	get(t, 2);
	flush(t, 1);
	put(t, 1);
	flush(t, 1);
	flush(t, 0);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS | REFCACHE_DIRTY);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	put(t, 2);
	refcache_expect_release(test, t);
}

/* A reference moves to a CPU that has flushed: the delta that CPU 1 flushes is 0. */
static void refcache_test_moved(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	flush(t, 1);
	get(t, 1);
	put(t, 0);
	flush(t, 0);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	begin(t);
	flush(t, 0);
	get(t, 0);
	put(t, 1);
	flush(t, 1);
	flush(t, 2);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS | REFCACHE_DIRTY);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	put(t, 0);
	refcache_expect_release(test, t);
}

/* Of an object that is used, the weak reference is read, and not written. */
static void refcache_test_weak(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
	KUNIT_EXPECT_EQ(test, atomic_long_read(&t->weak.word), (long)&t->ref);
	put(t, 0);
	epoch(t);
	epoch(t);
	EXPECT_WORD(test, t, 1, 0);
	put(t, 2);
	refcache_expect_release(test, t);
	KUNIT_EXPECT_FALSE(test, get_weak(t, 1));
}

/* An object without references comes back: before an epoch, in it, and at its end. */
static void refcache_test_revive(struct kunit *test)
{
	struct refcache_test *t = test->priv;
	unsigned int when;

	for (when = 0; when < 4; when++) {
		put(t, 0);
		flush(t, 0);
		EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
		if (when == 0)
			KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
		begin(t);
		KUNIT_EXPECT_EQ(test, atomic_long_read(&t->weak.word),
				(long)&t->ref | REFCACHE_DYING);
		if (when == 1)
			KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
		flush(t, 0);
		flush(t, 1);
		if (when == 2)
			KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
		flush(t, 2);
		/* A delta of 0 on a CPU that has flushed: only the weak reference tells. */
		if (when == 3) {
			KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
			put(t, 1);
			KUNIT_EXPECT_TRUE(test, get_weak(t, 0));
		}
		end(t);
		KUNIT_EXPECT_EQ(test, t->released, 0);
		epoch(t);
		epoch(t);
		EXPECT_WORD(test, t, 1, 0);
	}
	put(t, 2);
	refcache_expect_release(test, t);
}

/* Objects of one hash: a delta makes room for another one, and is added at once. */
static void refcache_test_conflict(struct kunit *test)
{
	struct refcache_test *t = test->priv;
	struct refcache_test *more = kunit_kcalloc(test, MANY, sizeof(*more), GFP_KERNEL);
	struct refcache_test *other = NULL;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, more);
	for (i = 0; i < MANY; i++)
		if (hash_ptr(&more[i].ref, REFCACHE_BITS) == hash_ptr(&t->ref, REFCACHE_BITS))
			other = &more[i];
	if (!other)
		kunit_skip(test, "no two objects have one hash");
	memcpy(other->cpu, t->cpu, sizeof(t->cpu));
	refcache_init(&other->ref, refcache_test_released, NULL);

	get(t, 1);
	EXPECT_WORD(test, t, 1, 0);
	get(other, 1);
	EXPECT_WORD(test, t, 2, 0);
	EXPECT_WORD(test, other, 1, 0);
	put(t, 1);
	EXPECT_WORD(test, other, 2, 0);
	put(other, 1);
	EXPECT_WORD(test, t, 1, 0);
	/* The count falls to 0, and an epoch is asked for. */
	put(t, 1);
	EXPECT_WORD(test, other, 1, 0);
	WRITE_ONCE(refcache_wanted, false);
	get(other, 1);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	KUNIT_EXPECT_TRUE(test, refcache_wanted);
	put(other, 1);
	/* One that waits, and gets a reference by way of a conflict: dirty */
	begin(t);
	KUNIT_EXPECT_TRUE(test, get_weak(t, 1));
	put(t, 1);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	get(other, 1);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS | REFCACHE_DIRTY);
	put(other, 1);
	for (i = 0; i < CPUS; i++)
		flush(t, i);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	put(other, 2);
	epoch(t);
	KUNIT_EXPECT_EQ(test, t->released, 1);
	epoch(t);
	KUNIT_EXPECT_EQ(test, other->released, 1);
}

/* A put asks for an epoch if the CPU had no reference to give. */
static void refcache_test_wanted(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	WRITE_ONCE(refcache_wanted, false);
	get(t, 1);
	put(t, 1);
	KUNIT_EXPECT_FALSE(test, refcache_wanted);
	put(t, 1);
	KUNIT_EXPECT_TRUE(test, refcache_wanted);
	/* While an object waits, each epoch asks for the next one. */
	WRITE_ONCE(refcache_wanted, false);
	epoch(t);
	KUNIT_EXPECT_TRUE(test, refcache_wanted);
	WRITE_ONCE(refcache_wanted, false);
	epoch(t);
	KUNIT_EXPECT_EQ(test, t->released, 1);
	KUNIT_EXPECT_FALSE(test, refcache_wanted);
}

/* An epoch begins, has all CPUs flush, and ends: the second one releases the object. */
static void refcache_test_epoch(struct kunit *test)
{
	struct refcache_test *t = test->priv;

	put(t, 2);
	refcache_work(NULL);
	KUNIT_EXPECT_EQ(test, t->released, 0);
	KUNIT_EXPECT_TRUE(test, refcache_wanted);
	refcache_work(NULL);
	KUNIT_EXPECT_EQ(test, t->released, 1);
	KUNIT_EXPECT_FALSE(test, refcache_wanted);
}

/* The deltas of a CPU that goes offline are added, and objects on its list are reviewed. */
static void refcache_test_offline(struct kunit *test)
{
	struct refcache_test *t = test->priv;
	unsigned int i;

	get(t, 2);
	if (remove_cpu(t->cpu[2]))
		kunit_skip(test, "CPU %u cannot go offline", t->cpu[2]);
	EXPECT_WORD(test, t, 2, 0);
	KUNIT_EXPECT_EQ(test, add_cpu(t->cpu[2]), 0);

	put(t, 2);
	put(t, 2);
	flush(t, 2);
	EXPECT_WORD(test, t, 0, REFCACHE_WAITS);
	KUNIT_EXPECT_EQ(test, remove_cpu(t->cpu[2]), 0);
	begin(t);
	for (i = 0; i < 2; i++)
		flush(t, i);
	end(t);
	KUNIT_EXPECT_EQ(test, t->released, 1);
	KUNIT_EXPECT_EQ(test, add_cpu(t->cpu[2]), 0);
}

/* What an object takes, beside percpu_ref */
static void refcache_test_bytes(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct refcache), 32);
	KUNIT_EXPECT_EQ(test, sizeof(((struct refcache_cpu *)0)->entry), 4096);
	KUNIT_EXPECT_EQ(test, sizeof(struct percpu_ref) + sizeof(struct percpu_ref_data), 72);
}

static struct kunit_case refcache_steps_cases[] = {
	KUNIT_CASE(refcache_test_figure),
	KUNIT_CASE(refcache_test_reorder),
	KUNIT_CASE(refcache_test_below_zero),
	KUNIT_CASE(refcache_test_waits_below_zero),
	KUNIT_CASE(refcache_test_dirty),
	KUNIT_CASE(refcache_test_moved),
	KUNIT_CASE(refcache_test_weak),
	KUNIT_CASE(refcache_test_revive),
	KUNIT_CASE(refcache_test_conflict),
	KUNIT_CASE(refcache_test_wanted),
	KUNIT_CASE(refcache_test_epoch),
	KUNIT_CASE(refcache_test_offline),
	KUNIT_CASE(refcache_test_bytes),
	{}
};

static struct kunit_suite refcache_steps_suite = {
	.name = "refcache-steps",
	.init = refcache_test_begin,
	.exit = refcache_test_end,
	.test_cases = refcache_steps_cases,
};

kunit_test_suite(refcache_steps_suite);

#undef EXPECT_WORD
#undef MANY
#undef CPUS
#endif /* CONFIG_REFCACHE_KUNIT_TEST */
