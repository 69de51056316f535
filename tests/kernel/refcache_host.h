/* SPDX-License-Identifier: GPL-2.0-only */
/* What lib/refcache/ needs of Linux, in a program with one thread, which is one CPU after the other. See test_refcache.py. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOST_CPUS 3u

typedef int64_t s64;
static unsigned int host_cpu;

#define READ_ONCE(x) (x)
#define WRITE_ONCE(x, value) ((x) = (value))
#define xchg(at, value) __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST)
#define smp_store_mb(x, value) ((x) = (value))
static bool host_warned;
#define WARN_ON_ONCE(x) ((x) ? (void)(host_warned = true, printf("%s, line %d: warns: %s\n", __func__, __LINE__, #x)) : (void)0)
#define WARN_ON WARN_ON_ONCE
#define cond_resched() ((void)0)
#define raw_smp_processor_id() host_cpu
/* Only code for a CPU that has gone asks. */
#define cpu_online(cpu) false
#define cpu_is_offline(cpu) false
#define lockdep_assert_preemption_disabled() ((void)0)
#define lockdep_assert_cpus_held() ((void)0)
#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)
#define in_task() true
#define min(a, b) ((a) < (b) ? (a) : (b))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(*(array)))
#define container_of(at, type, member) ((type *)((char *)(at) - offsetof(type, member)))

typedef struct { s64 counter; } atomic64_t;
typedef struct { long counter; } atomic_long_t;

#define atomic64_read(v) ((v)->counter)
#define atomic64_set(v, value) ((v)->counter = (value))
#define atomic64_andnot(bits, v) ((v)->counter &= ~(bits))
#define atomic_long_read(v) ((v)->counter)
#define atomic_long_set_release(v, value) ((v)->counter = (value))
#define atomic_long_or(bits, v) ((v)->counter |= (bits))
#define host_cmpxchg(v, old, value) __atomic_compare_exchange_n(&(v)->counter, old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define atomic64_try_cmpxchg host_cmpxchg
#define atomic_long_try_cmpxchg host_cmpxchg

struct llist_node { struct llist_node *next; };
struct llist_head { struct llist_node *first; };

static inline bool llist_add(struct llist_node *node, struct llist_head *head)
{
	node->next = head->first;
	head->first = node;
	return !node->next;
}

static inline struct llist_node *llist_del_all(struct llist_head *head)
{
	struct llist_node *first = head->first;

	head->first = NULL;
	return first;
}

#define llist_empty(head) (!(head)->first)
#define llist_entry container_of
#define llist_for_each_safe(at, after, first) for (at = (first); at && (after = at->next, true); at = after)
#define llist_for_each_entry_safe(at, after, first, member) \
	for (struct llist_node *host_at = (first), *host_next; \
	     host_at && (host_next = host_at->next, at = container_of(host_at, __typeof__(*at), member), after = at, true); \
	     host_at = host_next)

/* One variable for each CPU is enough. */
#define DEFINE_PER_CPU_ALIGNED(type, name) type name; static type host_areas[HOST_CPUS]; static char *host_base = (char *)&name
#define per_cpu_ptr(at, cpu) ((__typeof__(at))((char *)&host_areas[cpu] + ((char *)(at) - host_base)))
#define per_cpu(name, cpu) (*per_cpu_ptr(&(name), cpu))
#define this_cpu_ptr(at) per_cpu_ptr(&*(at), host_cpu)
#define raw_cpu_ptr this_cpu_ptr
#define for_each_possible_cpu(cpu) for (cpu = 0; cpu < HOST_CPUS; cpu++)
#define for_each_online_cpu for_each_possible_cpu
#define cpumask_nth(n, mask) (n)
#define num_online_cpus() HOST_CPUS

static inline uint32_t hash_ptr(const void *at, unsigned int bits)
{
	return ((uint64_t)at * 0x61C8864680B583EBull) >> (64 - bits);
}

struct irq_work { void (*function)(struct irq_work *work); };
struct work_struct { void (*function)(struct work_struct *work); };
struct delayed_work { void (*function)(struct work_struct *work); };

#define IRQ_WORK_INIT_LAZY(function) { function }
#define INIT_WORK(work, what) ((work)->function = (what))
#define DECLARE_DELAYED_WORK(name, function) struct delayed_work name = { function }
#define irq_work_queue(work) ((void)(work))
#define queue_work_on(cpu, queue, work) (host_cpu = (cpu), (work)->function(work), host_cpu = 0, true)
#define flush_work(work) ((void)(work))
#define queue_delayed_work(queue, work, delay) ((void)(work))
#define disable_delayed_work_sync(work) ((void)(work))
#define enable_delayed_work(work) ((void)(work))
#define msecs_to_jiffies(ms) (ms)
#define cpus_read_lock() ((void)0)
#define cpus_read_unlock() ((void)0)

static int (*host_dead)(unsigned int cpu);

#define cpuhp_setup_state_nocalls(state, name, up, down) (host_dead = (down), 0)
#define remove_cpu(cpu) host_dead(cpu)
#define add_cpu(cpu) 0
#define __init
#define __read_mostly
#define core_initcall(function) __attribute__((constructor)) static void host_start(void) { function(); }

static inline long work_on_cpu(unsigned int cpu, long (*function)(void *), void *argument)
{
	long result;

	host_cpu = cpu;
	result = function(argument);
	host_cpu = 0;
	return result;
}

/* Of percpu_ref only the size is asked for: the kernel's. */
struct percpu_ref { char bytes[16]; };
struct percpu_ref_data { char bytes[56]; };

struct kunit { void *priv; bool failed; };
struct kunit_case { void (*run)(struct kunit *test); const char *name; };
struct kunit_suite { const char *name; int (*init)(struct kunit *test); void (*exit)(struct kunit *test); struct kunit_case *test_cases; };

#define GFP_KERNEL 0
#define kunit_kzalloc(test, size, flags) calloc(1, size)
#define kunit_kcalloc(test, count, size, flags) calloc(count, size)
#define kunit_skip(test, ...) abort()
#define KUNIT_CASE(function) { function, #function }
#define HOST_EXPECT(test, holds, text) \
	((holds) ? (void)0 : (void)((test)->failed = true, printf("%s, line %d: %s\n", __func__, __LINE__, text)))
#define KUNIT_EXPECT_EQ(test, a, b) HOST_EXPECT(test, (a) == (b), #a " == " #b)
#define KUNIT_EXPECT_TRUE(test, a) HOST_EXPECT(test, a, #a)
#define KUNIT_EXPECT_FALSE(test, a) HOST_EXPECT(test, !(a), "!" #a)
#define KUNIT_ASSERT_NOT_NULL(test, a) ((a) ? (void)0 : abort())
#define kunit_test_suite(suite) \
int main(void) \
{ \
	bool failed = false; \
 \
	for (struct kunit_case *each = suite.test_cases; each->run; each++) { \
		struct kunit test = { }; \
 \
		suite.init(&test); \
		each->run(&test); \
		suite.exit(&test); \
		test.failed |= host_warned; \
		host_warned = false; \
		printf("%s %s\n", test.failed ? "not ok" : "ok", each->name); \
		failed |= test.failed; \
	} \
	return failed; \
} \
struct host_semicolon
