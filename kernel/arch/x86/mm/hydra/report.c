// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reports for operators: settings and counters of a process, and the files in
 * /sys/kernel/mm/hydra/. See Documentation/admin-guide/mm/hydra.rst.
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/hydra_vm.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "auto.h"
#include "domain.h"
#include "platform.h"
#include "rent.h"
#include "replica.h"
#include "settings.h"
#include "state.h"
#include "switch.h"

static const char * const stat_names[NR_HYDRA_SHOWN] = {
	[HYDRA_STAT_FILLS] = "fills",
	[HYDRA_STAT_PREFETCHED] = "prefetched",
	[HYDRA_STAT_PROPAGATED] = "propagated",
	[HYDRA_STAT_FLUSHES] = "flushes",
	[HYDRA_STAT_INTERRUPTED] = "cpus_interrupted",
	[HYDRA_STAT_ACROSS] = "cpus_interrupted_across",
	[HYDRA_STAT_SPARED] = "cpus_spared",
	[HYDRA_STAT_FALLBACKS] = "fallbacks",
	[HYDRA_STAT_RECLAIMED] = "reclaimed",
	[HYDRA_STAT_FORGOTTEN] = "forgotten",
	[HYDRA_STAT_BARRIERS] = "barriers",
};

static unsigned long hydra_kib(unsigned long tables)
{
	return tables << (PAGE_SHIFT - 10);
}

/**
 * hydra_show_settings - settings and counters of an address space, "key value"
 * lines
 * @mm: the address space
 * @m: the file to write to
 *
 * Context: process context; no locks. Counters are read one by one.
 * Return: 0.
 */
int hydra_show_settings(struct mm_struct *mm, struct seq_file *m)
{
	struct hydra_mm *h = READ_ONCE(mm->hydra);
	unsigned long replicas = 0, upper = 0, ended;
	bool split = h && READ_ONCE(h->active);
	const struct hydra_domains *domains = split ? hydra_domains_of(h) : NULL;
	union hydra_choice settings = hydra_settings_get(mm);
	unsigned int d, i;

	hydra_settings_show(m, settings);
	seq_printf(m, "active %d\n", hydra_wants_domains(settings));
	seq_printf(m, "split %d\n", split);
	seq_printf(m, "count %d\n", h && READ_ONCE(h->counting));
	if (hydra_is_auto(settings))
		hydra_show_account(mm, m);
	for (i = 0; i < NR_HYDRA_SHOWN; i++)
		seq_printf(m, "%s %lu\n", stat_names[i],
			   h ? hydra_stat_sum(h, i, NULL) : 0);
	for (i = 0; h && i < NR_HYDRA_SHOWN && hydra_stat_ended(h, i, &ended); i++)
		seq_printf(m, "ended_%s %lu\n", stat_names[i], ended);
	for (d = 0; h && d < hydra_nr_domains; d++) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);

		if (!dom)
			continue;
		replicas += atomic_long_read(&dom->nr_replicas);
		upper += atomic_long_read(&dom->nr_upper);
	}
	seq_printf(m, "replica_tables %lu\n", replicas);
	seq_printf(m, "replica_kib %lu\n", hydra_kib(replicas));
	seq_printf(m, "upper_tables %lu\n", upper);

	for (d = 0; split && d < domains->nr; d++) {
		struct hydra_domain *dom = READ_ONCE(h->domain[d]);

		replicas = dom ? atomic_long_read(&dom->nr_replicas) : 0;
		upper = dom ? atomic_long_read(&dom->nr_upper) : 0;
		seq_printf(m, "domain %u node %d root %s replica_tables %lu replica_kib %lu upper_tables %lu fills %lu forgotten %u\n",
			   d, domains->nid[d],
			   dom && READ_ONCE(dom->root) == dom->pgd ? "own" : "canonical",
			   replicas, hydra_kib(replicas), upper,
			   hydra_stat_sum(h, HYDRA_STAT_FILLS, domains->cpus[d]),
			   dom ? READ_ONCE(dom->forgotten) : 0);
	}
	return 0;
}

static ssize_t default_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	int len = hydra_settings_format(buf, PAGE_SIZE - 1,
					READ_ONCE(hydra_default_settings));

	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t default_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	static DEFINE_MUTEX(lock);
	union hydra_choice settings;
	int ret;

	guard(mutex)(&lock);
	settings = hydra_default_settings;
	ret = hydra_settings_parse(buf, &settings);
	if (ret)
		return ret;
	if (hydra_wants_domains(settings)) {
		if (hydra_refused_by_machine())
			return -EOPNOTSUPP;
		hydra_watch();
	}
	WRITE_ONCE(hydra_default_settings, settings);
	if (hydra_is_auto(settings))
		hydra_auto_ask();
	return count;
}

static struct kobj_attribute default_attr = __ATTR_RW_MODE(default, 0644);

static ssize_t hydra_show_limit(unsigned long limit, char *buf)
{
	if (limit == ULONG_MAX)
		return sysfs_emit(buf, "max\n");
	return sysfs_emit(buf, "%lu\n", limit >> 10);
}

static ssize_t hydra_store_limit(unsigned long *to, const char *buf, size_t count)
{
	unsigned long kib, limit = ULONG_MAX;

	if (!sysfs_streq(buf, "max")) {
		if (kstrtoul(buf, 10, &kib) || kib > ULONG_MAX >> 11)
			return -EINVAL;
		limit = kib << 10;
	}
	WRITE_ONCE(*to, limit);
	return count;
}

static ssize_t replica_limit_kib_show(struct kobject *kobj,
				      struct kobj_attribute *attr, char *buf)
{
	return hydra_show_limit(READ_ONCE(hydra_replica_limit), buf);
}

static ssize_t replica_limit_kib_store(struct kobject *kobj,
				       struct kobj_attribute *attr,
				       const char *buf, size_t count)
{
	return hydra_store_limit(&hydra_replica_limit, buf, count);
}

static struct kobj_attribute replica_limit_attr = __ATTR_RW(replica_limit_kib);

static ssize_t total_limit_kib_show(struct kobject *kobj, struct kobj_attribute *attr,
				    char *buf)
{
	return hydra_show_limit(READ_ONCE(hydra_total_limit), buf);
}

static ssize_t total_limit_kib_store(struct kobject *kobj, struct kobj_attribute *attr,
				     const char *buf, size_t count)
{
	return hydra_store_limit(&hydra_total_limit, buf, count);
}

static struct kobj_attribute total_limit_attr = __ATTR_RW(total_limit_kib);

static ssize_t total_kib_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%lu\n", hydra_kib(hydra_replicas_total()));
}

static struct kobj_attribute total_attr = __ATTR_RO(total_kib);

static ssize_t left_to_host_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%ld\n", atomic_long_read(&hydra_left_to_host));
}

static struct kobj_attribute left_to_host_attr = __ATTR_RO(left_to_host);

static ssize_t idle_seconds_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hydra_idle_seconds));
}

static ssize_t idle_seconds_store(struct kobject *kobj, struct kobj_attribute *attr,
				  const char *buf, size_t count)
{
	unsigned int seconds;

	if (kstrtouint(buf, 10, &seconds) || seconds > HYDRA_IDLE_SECONDS_MAX)
		return -EINVAL;
	hydra_set_idle_seconds(seconds);
	return count;
}

static struct kobj_attribute idle_seconds_attr = __ATTR_RW(idle_seconds);

static ssize_t allow_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", hydra_allow_names[READ_ONCE(hydra_allow)]);
}

static ssize_t allow_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	int ret = sysfs_match_string(hydra_allow_names, buf);

	if (ret < 0)
		return ret;
	WRITE_ONCE(hydra_allow, ret);
	return count;
}

static struct kobj_attribute allow_attr = __ATTR_RW(allow);

/*
 * The last domain may span nodes: then its node is that of its first CPU.
 * Return: the length of the line, whatever the size of @buf.
 */
static size_t hydra_show_domain(const struct hydra_domains *domains, unsigned int d, char *buf,
				size_t size)
{
	return snprintf(buf, size, "%u node %d cpus %*pbl%s\n", d, domains->nid[d],
			cpumask_pr_args(domains->cpus[d]),
			hydra_mask_test(d, &domains->overflow) ? " root canonical" : "");
}

/*
 * A binary file, because 1024 domains take more text than the page that other files of
 * sysfs are limited to.
 */
static ssize_t hydra_read_domains(const struct hydra_domains *domains, char *to, loff_t from,
				  size_t count)
{
	size_t size = 0, end = 0;
	unsigned int d;
	ssize_t ret;
	char *text;

	for (d = 0; d < domains->nr; d++)
		size += hydra_show_domain(domains, d, NULL, 0);
	/* CPUs may move meanwhile (hydra_move_cpus()), and a line get longer or shorter. */
	text = kvzalloc(size + 1, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	for (d = 0; d < domains->nr; d++)
		end = min(size, end + hydra_show_domain(domains, d, text + end, size + 1 - end));
	ret = memory_read_from_buffer(to, count, &from, text, end);
	kvfree(text);
	return ret;
}

#define HYDRA_DOMAINS_FILE(name, scope)							\
static ssize_t name##_read(struct file *file, struct kobject *kobj,			\
			   struct bin_attribute *attr, char *to, loff_t from,		\
			   size_t count)						\
{											\
	return hydra_read_domains(&hydra_domains[scope], to, from, count);		\
}											\
											\
static BIN_ATTR_RO(name, 0)

HYDRA_DOMAINS_FILE(domains, HYDRA_SCOPE_NODE);
HYDRA_DOMAINS_FILE(domains_llc, HYDRA_SCOPE_LLC);
HYDRA_DOMAINS_FILE(domains_core, HYDRA_SCOPE_CORE);

static ssize_t supported_show(struct kobject *kobj, struct kobj_attribute *attr,
			      char *buf)
{
	const char *why = hydra_refused_by_machine();

	if (why)
		return sysfs_emit(buf, "no: %s\n", why);
	why = hydra_accessed_refused();
	return why ? sysfs_emit(buf, "yes\nno filter=accessed: %s\n", why) :
		     sysfs_emit(buf, "yes\n");
}

static struct kobj_attribute supported_attr = __ATTR_RO(supported);

static ssize_t violations_show(struct kobject *kobj,
			       struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%ld\n", atomic_long_read(&hydra_violations));
}

static struct kobj_attribute violations_attr = __ATTR_RO(violations);

#ifdef CONFIG_KVM_HYDRA
static ssize_t vm_table_limit_kib_show(struct kobject *kobj, struct kobj_attribute *attr,
				       char *buf)
{
	unsigned long tables = READ_ONCE(hydra_vm_table_limit);

	return hydra_show_limit(tables == ULONG_MAX ? tables : tables << PAGE_SHIFT, buf);
}

static ssize_t vm_table_limit_kib_store(struct kobject *kobj, struct kobj_attribute *attr,
					const char *buf, size_t count)
{
	unsigned long limit;
	ssize_t ret = hydra_store_limit(&limit, buf, count);

	if (ret > 0)
		WRITE_ONCE(hydra_vm_table_limit,
			   limit == ULONG_MAX ? limit : limit >> PAGE_SHIFT);
	return ret;
}

static struct kobj_attribute vm_table_limit_attr = __ATTR_RW(vm_table_limit_kib);

static ssize_t vm_idle_seconds_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hydra_vm_idle_seconds));
}

static ssize_t vm_idle_seconds_store(struct kobject *kobj, struct kobj_attribute *attr,
				     const char *buf, size_t count)
{
	unsigned int seconds;

	if (kstrtouint(buf, 10, &seconds))
		return -EINVAL;
	WRITE_ONCE(hydra_vm_idle_seconds, seconds);
	return count;
}

static struct kobj_attribute vm_idle_seconds_attr = __ATTR_RW(vm_idle_seconds);
#endif

/* The files in auto/. A price may be changed at any time: the rules bear it. */
#define HYDRA_PRICE(name)								\
static ssize_t price_##name##_show(struct kobject *kobj, struct kobj_attribute *attr,	\
				   char *buf)						\
{											\
	return sysfs_emit(buf, "%u\n", READ_ONCE(hydra_prices.name));			\
}											\
											\
static ssize_t price_##name##_store(struct kobject *kobj, struct kobj_attribute *attr,	\
				    const char *buf, size_t count)			\
{											\
	return hydra_price_parse(buf, &hydra_prices.name) ?: count;			\
}											\
											\
static struct kobj_attribute price_##name##_attr = __ATTR_RW(price_##name);

HYDRA_EACH_PRICE(HYDRA_PRICE)

static ssize_t look_ms_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", READ_ONCE(hydra_look_ms));
}

static ssize_t look_ms_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	unsigned int ms;

	if (kstrtouint(buf, 10, &ms) || ms < HYDRA_LOOK_MS_MIN || ms > HYDRA_LOOK_MS_MAX)
		return -EINVAL;
	hydra_set_look_ms(ms);
	return count;
}

static struct kobj_attribute look_ms_attr = __ATTR_RW(look_ms);

static const char * const barrier_names[] = { "off", "one-page" };

static ssize_t barrier_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", barrier_names[READ_ONCE(hydra_guards_barriers)]);
}

static ssize_t barrier_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	int ret = sysfs_match_string(barrier_names, buf);

	if (ret < 0)
		return ret;
	WRITE_ONCE(hydra_guards_barriers, ret);
	return count;
}

static struct kobj_attribute barrier_attr = __ATTR_RW(barrier);

static ssize_t stats_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return hydra_show_auto_stats(buf);
}

static struct kobj_attribute stats_attr = __ATTR_RO(stats);

#define HYDRA_PRICE_ATTR(name)	&price_##name##_attr.attr,

static struct attribute *auto_attrs[] = {
	HYDRA_EACH_PRICE(HYDRA_PRICE_ATTR)
	&look_ms_attr.attr,
	&barrier_attr.attr,
	&stats_attr.attr,
	NULL
};

static struct attribute *hydra_attrs[] = {
	&default_attr.attr,
	&allow_attr.attr,
	&replica_limit_attr.attr,
	&total_limit_attr.attr,
	&total_attr.attr,
	&left_to_host_attr.attr,
	&idle_seconds_attr.attr,
	&supported_attr.attr,
#ifdef CONFIG_KVM_HYDRA
	&vm_table_limit_attr.attr,
	&vm_idle_seconds_attr.attr,
#endif
	&violations_attr.attr,
	NULL
};

static struct bin_attribute *hydra_bin_attrs[] = {
	&bin_attr_domains,
	&bin_attr_domains_llc,
	&bin_attr_domains_core,
	NULL
};

static const struct attribute_group hydra_attr_group = {
	.attrs = hydra_attrs,
	.bin_attrs = hydra_bin_attrs,
};

static const struct attribute_group auto_attr_group = {
	.name = "auto",
	.attrs = auto_attrs,
};

static const struct attribute_group *hydra_groups[] = {
	&hydra_attr_group,
	&auto_attr_group,
	NULL
};

static int __init hydra_sysfs_init(void)
{
	struct kobject *dir;

	/* The boot parameter, before the first program runs. */
	if (hydra_wants_domains(hydra_default_settings)) {
		if (hydra_refused_by_machine()) {
			pr_err("not on this platform: %s\n", hydra_refused_by_machine());
			hydra_default_settings = HYDRA_LINUX_SETTINGS;
		} else {
			hydra_watch();
		}
	}
	dir = kobject_create_and_add("hydra", mm_kobj);
	return dir ? sysfs_create_groups(dir, hydra_groups) : -ENOMEM;
}
subsys_initcall(hydra_sysfs_init);
