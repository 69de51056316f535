// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings: names, supported combinations, and sources (the boot parameter, text, a
 * program).
 */

#define pr_fmt(fmt) "hydra: " fmt

#include <linux/bitops.h>
#include <linux/bits.h>
#include <linux/capability.h>
#include <linux/hydra_proc.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "platform.h"
#include "settings.h"

/* Settings of a process image without inherited settings; see hydra_mm_init(). */
union hydra_choice hydra_default_settings __read_mostly = HYDRA_LINUX_SETTINGS;

const char * const hydra_allow_names[NR_HYDRA_ALLOW] = {
	[HYDRA_ALLOW_ANYBODY] = "anybody",
	[HYDRA_ALLOW_CAP_SYS_NICE] = "cap_sys_nice",
	[HYDRA_ALLOW_NOBODY] = "nobody",
};

unsigned int hydra_allow __read_mostly = HYDRA_ALLOW_ANYBODY;

/* Under policy "auto", does mprotect() of a page reach all CPUs? See __hydra_gather_protect(). */
bool hydra_guards_barriers __read_mostly = true;

static const char * const domains_names[] = { "machine", "node", "llc", "core", "auto" };
static const char * const replication_names[] = { "lazy", "eager" };
static const char * const filter_names[] = { "none", "table", "entry", "accessed", "auto" };

/* For the VMs that the process makes */
static const char * const tables_names[] = { "stay", "follow" };
static const char * const expose_names[] = { "off", "on" };

/* Where some members of union hydra_choice are in its word */
#define HYDRA_DOMAINS_BITS	GENMASK(7, 0)
#define HYDRA_TABLES_BITS	GENMASK(13, 12)
#define HYDRA_EXPOSE_BITS	GENMASK(15, 14)

/*
 * The settings, each with its name in text, its bits in union hydra_choice, its place in struct
 * hydra_settings, and the names of its values.
 */
static const struct hydra_key {
	const char *name;
	u32 bits;
	unsigned int from;
	const char * const *values;	/* NULL: the values are numbers */
	unsigned int nr;		/* so many values, from 0 on */
} keys[] = {
	{ "domains", HYDRA_DOMAINS_BITS, offsetof(struct hydra_settings, domains),
	  domains_names, ARRAY_SIZE(domains_names) },
	{ "replication", GENMASK(11, 8), offsetof(struct hydra_settings, replication),
	  replication_names, ARRAY_SIZE(replication_names) },
	{ "prefetch", GENMASK(23, 16), offsetof(struct hydra_settings, prefetch),
	  NULL, HYDRA_PREFETCH_MAX + 1 },
	{ "filter", GENMASK(29, 24), offsetof(struct hydra_settings, filter),
	  filter_names, ARRAY_SIZE(filter_names) },
	{ "tables", HYDRA_TABLES_BITS, offsetof(struct hydra_settings, tables),
	  tables_names, ARRAY_SIZE(tables_names) },
	{ "expose", HYDRA_EXPOSE_BITS, offsetof(struct hydra_settings, expose),
	  expose_names, ARRAY_SIZE(expose_names) },
};

/* A byte of a union hydra_choice as text */
#define HYDRA_NUMBER_MAX	sizeof("255")

static const struct {
	const char *name;
	union hydra_choice settings;
} policies[] = {
	{ "linux", HYDRA_LINUX_SETTINGS },
	{ "hydra", HYDRA_HYDRA_SETTINGS },
	{ "mitosis", HYDRA_MITOSIS_SETTINGS },
	{ "radixvm", HYDRA_RADIXVM_SETTINGS },
	{ "abis", HYDRA_ABIS_SETTINGS },
	{ "auto", HYDRA_AUTO_SETTINGS },
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

/* Set one setting. Return: 0, or -EINVAL for a value without a meaning. */
static int hydra_key_set(const struct hydra_key *key, union hydra_choice *settings, u32 value)
{
	if (value >= key->nr)
		return -EINVAL;
	settings->word &= ~key->bits;
	settings->word |= value << __ffs(key->bits);
	return 0;
}

static unsigned int hydra_key_get(const struct hydra_key *key, union hydra_choice settings)
{
	return (settings.word & key->bits) >> __ffs(key->bits);
}

/* The value of one setting as text. A number is written to @number. */
static const char *hydra_key_text(const struct hydra_key *key, union hydra_choice settings,
				  char number[HYDRA_NUMBER_MAX])
{
	unsigned int value = hydra_key_get(key, settings);

	if (key->values)
		return key->values[value];
	snprintf(number, HYDRA_NUMBER_MAX, "%u", value);
	return number;
}

/**
 * hydra_settings_check - does this kernel support these settings?
 * @settings: each has a value of its own
 *
 * Return: 0, -EINVAL for a combination without a meaning, -EOPNOTSUPP for a value that the
 * machine refuses.
 */
int hydra_settings_check(union hydra_choice settings)
{
	/* There is nothing to replicate, or the rules of "auto" do not know what. */
	if ((!hydra_wants_domains(settings) || hydra_is_auto(settings)) &&
	    settings.replication != HYDRA_REPLICATE_LAZY)
		return -EINVAL;
	/* The trees of a VM with a tree for each node are where they are to be. */
	if (hydra_wants_domains(settings) && settings.tables != HYDRA_TABLES_STAY)
		return -EINVAL;
	if (settings.filter == HYDRA_FILTER_ACCESSED && hydra_accessed_refused()) {
		pr_info_once("no filter=accessed: %s\n", hydra_accessed_refused());
		return -EOPNOTSUPP;
	}
	return 0;
}

/**
 * hydra_settings_take - settings from the structure that programs pass
 * @from: the structure
 * @settings: set to the settings, if this kernel supports them
 *
 * Return: 0, -EINVAL for a value or a combination without a meaning, -EOPNOTSUPP for a
 * value that the machine refuses.
 */
int hydra_settings_take(const struct hydra_settings *from, union hydra_choice *settings)
{
	union hydra_choice new = {};
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		ret = hydra_key_set(&keys[i], &new, *(u32 *)((void *)from + keys[i].from));
		if (ret)
			return ret;
	}
	ret = hydra_settings_check(new);
	if (!ret)
		*settings = new;
	return ret;
}

/**
 * hydra_settings_give - settings as the structure that programs get
 * @settings: the settings
 * @to: set to them
 */
void hydra_settings_give(union hydra_choice settings, struct hydra_settings *to)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		*(u32 *)((void *)to + keys[i].from) = hydra_key_get(&keys[i], settings);
}

/* The name of the policy with these settings, but for those of VMs alone, or NULL */
static const char *hydra_policy_with(union hydra_choice settings)
{
	int i;

	settings.word &= ~(HYDRA_TABLES_BITS | HYDRA_EXPOSE_BITS);
	for (i = 0; i < ARRAY_SIZE(policies); i++)
		if (policies[i].settings.word == settings.word)
			return policies[i].name;
	return NULL;
}

/*
 * The name of the policy with these settings, or "custom". With one domain for the machine
 * the policy is "linux", whatever the other settings are.
 */
static const char *hydra_policy_name(union hydra_choice settings)
{
	if (!hydra_wants_domains(settings))
		return policies[0].name;
	return hydra_policy_with(settings) ?: "custom";
}

/**
 * hydra_settings_format - settings as text that hydra_settings_parse() reads
 * @buf: the text is written here
 * @size: size of @buf
 * @settings: the settings
 *
 * Return: length of the text.
 */
int hydra_settings_format(char *buf, size_t size, union hydra_choice settings)
{
	const char *policy = hydra_policy_with(settings);
	char number[HYDRA_NUMBER_MAX];
	int i, len = 0;

	if (policy)
		len = scnprintf(buf, size, "%s", policy);
	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		bool vms = keys[i].bits & (HYDRA_TABLES_BITS | HYDRA_EXPOSE_BITS);

		/* Those of VMs are 0 unless they are chosen. */
		if (vms ? !hydra_key_get(&keys[i], settings) : !!policy)
			continue;
		len += scnprintf(buf + len, size - len, "%s%s=%s", len ? "," : "", keys[i].name,
				 hydra_key_text(&keys[i], settings, number));
	}
	return len;
}

/**
 * hydra_settings_show - settings as "key value" lines
 * @m: the file to write to
 * @settings: the settings
 */
void hydra_settings_show(struct seq_file *m, union hydra_choice settings)
{
	char number[HYDRA_NUMBER_MAX];
	int i;

	seq_printf(m, "policy %s\n", hydra_policy_name(settings));
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		seq_printf(m, "%s %s\n", keys[i].name,
			   hydra_key_text(&keys[i], settings, number));
}

/* Set the setting of "KEY=VALUE". Return: 0, or -EINVAL. */
static int hydra_set_one(char *value, union hydra_choice *settings)
{
	char *name = strsep(&value, "=");
	const struct hydra_key *key;
	u32 number;
	int ret;

	for (key = keys; key < keys + ARRAY_SIZE(keys); key++)
		if (!strcmp(key->name, name))
			break;
	if (!value || key == keys + ARRAY_SIZE(keys))
		return -EINVAL;
	if (key->values)
		number = match_string(key->values, key->nr, value);
	else if (kstrtou32(value, 10, &number))
		return -EINVAL;
	ret = hydra_key_set(key, settings, number);
	/* There is nothing to replicate, whatever the settings were before. */
	if (!ret && key->bits == HYDRA_DOMAINS_BITS && !hydra_wants_domains(*settings))
		settings->replication = HYDRA_REPLICATE_LAZY;
	return ret;
}

/**
 * hydra_settings_parse - read settings from text
 * @text: "POLICY[,KEY=VALUE…]" or "KEY=VALUE[,…]", with white space around
 * @settings: updated; if the text begins with a key, keys not named keep the old
 *	values
 *
 * Return: as hydra_settings_take(); unless 0, @settings is unchanged.
 */
int hydra_settings_parse(const char *text, union hydra_choice *settings)
{
	char buf[HYDRA_TEXT_MAX], *rest, *word;
	union hydra_choice new = *settings;
	bool first = true;
	int i, ret;

	if (strscpy(buf, text, sizeof(buf)) < 0)
		return -EINVAL;
	rest = strim(buf);
	word = strsep(&rest, ",");
	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		if (strcmp(policies[i].name, word))
			continue;
		new = policies[i].settings;
		first = false;
	}
	for (; first || (word = strsep(&rest, ",")); first = false) {
		ret = hydra_set_one(word, &new);
		if (ret)
			return ret;
	}
	ret = hydra_settings_check(new);
	if (!ret)
		*settings = new;
	return ret;
}

/**
 * hydra_settings_read - settings that a program passes
 * @from: user pointer to struct hydra_settings
 * @size: what the program takes for its size
 * @settings: set to the settings
 *
 * The structure may grow: a program may know more members than this kernel, if they are 0, or
 * fewer.
 *
 * Context: process context, no locks.
 * Return: 0, -EINVAL, -E2BIG, -EFAULT, -EOPNOTSUPP, or -EPERM if the process may not choose.
 */
int hydra_settings_read(const void __user *from, u64 size, union hydra_choice *settings)
{
	struct hydra_settings s;
	int ret;

	if (size < HYDRA_SETTINGS_SIZE_FIRST)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&s, sizeof(s), from, size);
	if (ret)
		return ret;
	ret = hydra_settings_take(&s, settings);
	if (ret)
		return ret;
	return hydra_may_choose(NULL) ? 0 : -EPERM;
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

/**
 * hydra_settings_get - settings of an address space
 * @mm: the address space
 *
 * Context: any.
 * Return: the settings; those of stock Linux if the address space has none.
 */
union hydra_choice hydra_settings_get(const struct mm_struct *mm)
{
	return hydra_choice_in(READ_ONCE(mm->hydra_settings));
}

#include "tests/settings-kunit.h"
