/* SPDX-License-Identifier: GPL-2.0-only */
/* Reference counts that CPUs keep changes of to themselves. See lib/refcache/refcache.c. */
#ifndef _LINUX_REFCACHE_H
#define _LINUX_REFCACHE_H

#include <linux/atomic.h>
#include <linux/llist.h>

struct refcache;

/**
 * struct refcache_weak - a weak reference: does not keep an object, but can find it
 * @word:	address of the &struct refcache, and a bit "dying"; 0: no object
 */
struct refcache_weak {
	atomic_long_t word;
};

/**
 * struct refcache - what an object has that is counted by Refcache
 * @word:	the global count and flags. The true count is the sum of the global count
 *		and of the deltas that CPUs keep
 * @node:	on a list of objects that wait for review
 * @release:	called when the true count is 0, from a workqueue, and may sleep
 * @weak:	the weak reference, or NULL
 */
struct refcache {
	atomic64_t word;
	struct llist_node node;
	void (*release)(struct refcache *ref);
	struct refcache_weak *weak;
};

void refcache_init(struct refcache *ref, void (*release)(struct refcache *ref),
		   struct refcache_weak *weak);
void refcache_get(struct refcache *ref);
void refcache_put(struct refcache *ref);
struct refcache *refcache_get_weak(struct refcache_weak *weak);

#endif /* _LINUX_REFCACHE_H */
