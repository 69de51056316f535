// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings: names, supported combinations, and sources (the boot parameter, text, a
 * program).
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/capability.h>
#include <linux/hydra_proc.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "platform.h"
#include "settings.h"

/* Settings of a process image without inherited settings; see hydra_mm_init(). */
u32 hydra_default_settings __read_mostly = HYDRA_LINUX_SETTINGS;

const char * const hydra_allow_names[NR_HYDRA_ALLOW] = {
	[HYDRA_ALLOW_ANYBODY] = "anybody",
	[HYDRA_ALLOW_CAP_SYS_NICE] = "cap_sys_nice",
	[HYDRA_ALLOW_NOBODY] = "nobody",
};
unsigned int hydra_allow __read_mostly = HYDRA_ALLOW_ANYBODY;

static const char * const domains_names[] = { "machine", "node", "llc", "core" };
static const char * const replication_names[] = { "lazy", "eager" };
static const char * const filter_names[] = { "none", "table", "entry", "accessed" };

static const struct {
	const char *name;
	u32 settings;
} policies[] = {
	{ "linux", HYDRA_LINUX_SETTINGS },
	{ "hydra", HYDRA_HYDRA_SETTINGS },
	{ "mitosis", HYDRA_MITOSIS_SETTINGS },
	{ "radixvm", HYDRA_RADIXVM_SETTINGS },
	{ "abis", HYDRA_ABIS_SETTINGS },
};

/**
 * hydra_may_choose - may the current process choose settings?
 * @file: the file that it writes to, or NULL
 *
 * The process that opened the file needs the capability, too: otherwise a process could
 * open its own file, and pass it as stdout to a privileged program.
 *
 * Context: process context. Return: as /sys/kernel/mm/hydra/allow says.
 */
bool hydra_may_choose(const struct file *file)
{
	switch (READ_ONCE(hydra_allow)) {
	case HYDRA_ALLOW_ANYBODY:
		return true;
	case HYDRA_ALLOW_CAP_SYS_NICE:
		return capable(CAP_SYS_NICE) &&
		       (!file || file_ns_capable(file, &init_user_ns, CAP_SYS_NICE));
	default:
		return false;
	}
}

/**
 * hydra_settings_check - does this kernel support these settings?
 * @domains: enum hydra_domains
 * @replication: enum hydra_replication
 * @prefetch: degree
 * @filter: enum hydra_filter
 *
 * Return: 0, -EINVAL for a value or a combination without a meaning, -EOPNOTSUPP for a
 * value that the machine refuses.
 */
int hydra_settings_check(u32 domains, u32 replication, u32 prefetch, u32 filter)
{
	if (domains >= ARRAY_SIZE(domains_names) ||
	    replication >= ARRAY_SIZE(replication_names) ||
	    prefetch > HYDRA_PREFETCH_MAX ||
	    filter >= ARRAY_SIZE(filter_names))
		return -EINVAL;
	/* There is nothing to replicate. */
	if (domains == HYDRA_DOMAINS_MACHINE && replication != HYDRA_REPLICATE_LAZY)
		return -EINVAL;
	if (filter == HYDRA_FILTER_ACCESSED && hydra_accessed_refused()) {
		pr_info_once("no filter=accessed: %s\n", hydra_accessed_refused());
		return -EOPNOTSUPP;
	}
	return 0;
}

const char *hydra_domains_name(u32 settings)
{
	return domains_names[hydra_domains_setting(settings)];
}

const char *hydra_replication_name(u32 settings)
{
	return replication_names[hydra_replication_setting(settings)];
}

const char *hydra_filter_name(u32 settings)
{
	return filter_names[hydra_filter_setting(settings)];
}

/**
 * hydra_policy_name - name of the policy with these settings
 * @settings: packed settings
 *
 * With one domain for the machine the policy is "linux", whatever the other
 * settings are.
 *
 * Return: the name, or "custom".
 */
const char *hydra_policy_name(u32 settings)
{
	int i;

	if (hydra_domains_setting(settings) == HYDRA_DOMAINS_MACHINE)
		return policies[0].name;

	for (i = 0; i < ARRAY_SIZE(policies); i++)
		if (policies[i].settings == settings)
			return policies[i].name;
	return "custom";
}

/**
 * hydra_settings_format - settings as text that hydra_settings_parse() reads
 * @buf: the text is written here
 * @size: size of @buf
 * @settings: packed settings
 *
 * Return: length of the text.
 */
int hydra_settings_format(char *buf, size_t size, u32 settings)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(policies); i++)
		if (policies[i].settings == settings)
			return scnprintf(buf, size, "%s", policies[i].name);
	return scnprintf(buf, size,
			 "domains=%s,replication=%s,prefetch=%u,filter=%s",
			 hydra_domains_name(settings),
			 hydra_replication_name(settings),
			 hydra_prefetch_setting(settings),
			 hydra_filter_name(settings));
}

static int hydra_set_one(char *word, u32 *domains, u32 *replication, u32 *prefetch,
			 u32 *filter)
{
	char *value = strchr(word, '=');
	u32 *where;
	int ret;

	if (!value)
		return -EINVAL;
	*value++ = '\0';
	/* Check the range here, too: a later word may overwrite the value. */
	if (!strcmp(word, "prefetch"))
		return kstrtou32(value, 10, prefetch) ||
		       *prefetch > HYDRA_PREFETCH_MAX ? -EINVAL : 0;

	if (!strcmp(word, "domains")) {
		where = domains;
		ret = match_string(domains_names, ARRAY_SIZE(domains_names),
				   value);
	} else if (!strcmp(word, "replication")) {
		where = replication;
		ret = match_string(replication_names,
				   ARRAY_SIZE(replication_names), value);
	} else if (!strcmp(word, "filter")) {
		where = filter;
		ret = match_string(filter_names, ARRAY_SIZE(filter_names),
				   value);
	} else {
		return -EINVAL;
	}
	if (ret < 0)
		return -EINVAL;
	*where = ret;
	/* There is nothing to replicate, whatever the settings were before. */
	if (where == domains && ret == HYDRA_DOMAINS_MACHINE)
		*replication = HYDRA_REPLICATE_LAZY;
	return 0;
}

/**
 * hydra_settings_parse - read settings from text
 * @text: "POLICY[,KEY=VALUE…]" or "KEY=VALUE[,…]", with white space around
 * @settings: updated; if the text begins with a key, keys not named keep the old
 *	values
 *
 * Return: 0, or as hydra_settings_check() with @settings unchanged.
 */
int hydra_settings_parse(const char *text, u32 *settings)
{
	char buf[HYDRA_TEXT_MAX], *rest, *word;
	u32 s = *settings, domains, replication, prefetch, filter;
	bool first = true;
	int i, ret;

	if (strscpy(buf, text, sizeof(buf)) < 0)
		return -EINVAL;
	rest = strim(buf);
	word = strsep(&rest, ",");
	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		if (strcmp(policies[i].name, word))
			continue;
		s = policies[i].settings;
		first = false;
	}
	domains = hydra_domains_setting(s);
	replication = hydra_replication_setting(s);
	prefetch = hydra_prefetch_setting(s);
	filter = hydra_filter_setting(s);

	for (; first || (word = strsep(&rest, ",")); first = false) {
		ret = hydra_set_one(word, &domains, &replication, &prefetch, &filter);
		if (ret)
			return ret;
	}
	ret = hydra_settings_check(domains, replication, prefetch, filter);
	if (!ret)
		*settings = hydra_settings_pack(domains, replication, prefetch, filter);
	return ret;
}

/**
 * hydra_settings_read - settings that a program passes
 * @from: user pointer to struct hydra_settings
 * @size: what the program takes for its size
 * @settings: set to the packed settings
 *
 * The structure may grow: a program may know more members than this kernel, if they are 0.
 *
 * Context: process context, no locks.
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -EOPNOTSUPP, or -EPERM if the process may not choose.
 */
int hydra_settings_read(const void __user *from, u64 size, u32 *settings)
{
	struct hydra_settings s;
	int ret;

	if (size < sizeof(s))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&s, sizeof(s), from, size);
	if (ret)
		return ret;
	ret = hydra_settings_check(s.domains, s.replication, s.prefetch, s.filter);
	if (ret)
		return ret;
	if (!hydra_may_choose(NULL))
		return -EPERM;
	*settings = hydra_settings_pack(s.domains, s.replication, s.prefetch, s.filter);
	return 0;
}

static int __init hydra_setup(char *text)
{
	int ret = hydra_settings_parse(text, &hydra_default_settings);

	if (ret)
		pr_err("boot parameter hydra=%s is not understood (%d): ignored\n",
		       text, ret);
	return 1;
}
__setup("hydra=", hydra_setup);

/* In mm->hydra_settings: settings were chosen or inherited. No setting uses the bit. */
#define SETTINGS_CHOSEN	BIT(31)

/**
 * hydra_settings_get - settings of an address space
 * @mm: the address space
 *
 * Context: any.
 * Return: packed settings; those of stock Linux if the address space has none.
 */
u32 hydra_settings_get(struct mm_struct *mm)
{
	u32 settings = READ_ONCE(mm->hydra_settings);

	return settings ? settings & ~SETTINGS_CHOSEN : HYDRA_LINUX_SETTINGS;
}

#include "tests/settings-kunit.h"
