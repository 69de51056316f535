// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/mm/hydra/break: which rule is to be broken, see inject.h.
 */

#include <linux/kobject.h>
#include <linux/panic.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "inject.h"

static const char * const rule_texts[NR_HYDRA_RULES] = {
	[HYDRA_BREAK_NONE] = "none",
	[HYDRA_BREAK_SKIP_SET] = "skip-set",
	[HYDRA_BREAK_SKIP_CLEAR] = "skip-clear",
	[HYDRA_BREAK_COPY_OWN] = "copy-own",
	[HYDRA_BREAK_FORGET_SHARER] = "forget-sharer",
	[HYDRA_BREAK_FORGET_HUGE_SHARER] = "forget-huge-sharer",
	[HYDRA_BREAK_SPARE_DOMAIN] = "spare-domain",
	[HYDRA_BREAK_TAKE_QUIETLY] = "take-quietly",
	[HYDRA_BREAK_FORGET_VISITS] = "forget-visits",
	[HYDRA_BREAK_FORGET_TAKEN] = "forget-taken",
	[HYDRA_BREAK_DISTRUST_GATHERS] = "distrust-gathers",
	[HYDRA_BREAK_SLOW_FLUSH] = "slow-flush",
	[HYDRA_BREAK_SKIP_WAIT] = "skip-wait",
	[HYDRA_BREAK_FILTER_ALWAYS] = "filter-always",
	[HYDRA_BREAK_SKIP_GENERATION] = "skip-generation",
	[HYDRA_BREAK_SKIP_IDLE_GENERATION] = "skip-idle-generation",
	[HYDRA_BREAK_CHARGE_SPARED] = "charge-spared",
	[HYDRA_BREAK_WRITE_CLEAN] = "write-clean",
	[HYDRA_BREAK_IGNORE_ACCESSED] = "ignore-accessed",
	[HYDRA_BREAK_DROP_ACCESSED] = "drop-accessed",
	[HYDRA_BREAK_KEEP_LINK] = "keep-link",
	[HYDRA_BREAK_KEEP_CHARGE] = "keep-charge",
	[HYDRA_BREAK_SKIP_ATOMIC_FILL] = "skip-atomic-fill",
	[HYDRA_BREAK_SKIP_SWITCH] = "skip-switch",
	[HYDRA_BREAK_DEGRADE_QUIETLY] = "degrade-quietly",
	[HYDRA_BREAK_SPLIT_SINGLE] = "split-single",
	[HYDRA_BREAK_LODGE_QUIETLY] = "lodge-quietly",
	[HYDRA_BREAK_FORGET_SOLO] = "forget-solo",
	[HYDRA_BREAK_MOVE_QUIETLY] = "move-quietly",
	[HYDRA_BREAK_FREE_EARLY] = "free-early",
	[HYDRA_BREAK_RECLAIM_QUIETLY] = "reclaim-quietly",
	[HYDRA_BREAK_HOARD_REPLICAS] = "hoard-replicas",
	[HYDRA_BREAK_MIX_PLACES] = "mix-places",
	[HYDRA_BREAK_ADMIT_ANYONE] = "admit-anyone",
	[HYDRA_BREAK_COUNT_PLAINLY] = "count-plainly",
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
