// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/mm/hydra/break: which rule is to be broken, see inject.h.
 */

#include <linux/kobject.h>
#include <linux/panic.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "inject.h"

#define RULE_TEXT(name, text)	[HYDRA_BREAK_##name] = text,
static const char * const rule_texts[] = {
	[HYDRA_BREAK_NONE] = "none",
	HYDRA_RULES(RULE_TEXT)
};

enum hydra_rule hydra_broken_rule __read_mostly;

static ssize_t break_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	int i, len = 0;

	for (i = 0; i < ARRAY_SIZE(rule_texts); i++)
		len += sysfs_emit_at(buf, len,
				     i == hydra_broken_rule ? "[%s] " : "%s ",
				     rule_texts[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

static ssize_t break_store(struct kobject *kobj, struct kobj_attribute *attr,
			   const char *buf, size_t count)
{
	int rule = sysfs_match_string(rule_texts, buf);

	if (rule < 0)
		return rule;
	/* What this kernel says from now on is of no use but for tests. */
	if (rule != HYDRA_BREAK_NONE)
		add_taint(TAINT_TEST, LOCKDEP_STILL_OK);
	WRITE_ONCE(hydra_broken_rule, rule);
	return count;
}

struct kobj_attribute hydra_break_attr = __ATTR_RW_MODE(break, 0600);
