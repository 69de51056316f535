/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A reference of one object is taken and given back, by each kind of counter: for
 * ./hydra bench refcache, which counts the lines that two CPUs take from each other.
 */
#ifdef CONFIG_REFCACHE_KUNIT_TEST

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/percpu-refcount.h>

static atomic_t refcache_pairs_atomic ____cacheline_aligned = ATOMIC_INIT(1);
static struct refcache refcache_pairs_ref ____cacheline_aligned;
static struct percpu_ref refcache_pairs_percpu ____cacheline_aligned;

/* The position says which counter. */
static ssize_t refcache_pairs_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	switch (*at) {
	case 0:
		return 0;
	case 1:
		atomic_inc(&refcache_pairs_atomic);
		atomic_dec(&refcache_pairs_atomic);
		return 0;
	case 2:
		percpu_ref_get(&refcache_pairs_percpu);
		percpu_ref_put(&refcache_pairs_percpu);
		return 0;
	case 3:
		refcache_get(&refcache_pairs_ref);
		refcache_put(&refcache_pairs_ref);
		return 0;
	default:
		return -EINVAL;
	}
}

static const struct file_operations refcache_pairs_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = refcache_pairs_read,
	.llseek = default_llseek,
};

/* Neither object is ever released: the first reference stays. */
static void refcache_pairs_released(struct refcache *ref)
{
	WARN_ON_ONCE(1);
}

static void refcache_pairs_killed(struct percpu_ref *ref)
{
	WARN_ON_ONCE(1);
}

static int __init refcache_pairs_start(void)
{
	int error = percpu_ref_init(&refcache_pairs_percpu, refcache_pairs_killed, 0, GFP_KERNEL);

	if (error)
		return error;
	refcache_init(&refcache_pairs_ref, refcache_pairs_released, NULL);
	/* A plain file of debugfs counts each call, in a line of all CPUs. */
	debugfs_create_file_unsafe("refcache_pairs", 0400, NULL, NULL, &refcache_pairs_fops);
	return 0;
}
late_initcall(refcache_pairs_start);

#endif /* CONFIG_REFCACHE_KUNIT_TEST */
