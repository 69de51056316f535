// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cgroups: memory.hydra, the settings that a cgroup gives its processes.
 *
 * A process gets them at execve(), unless it has chosen settings or inherits a choice. A cgroup
 * that has none gives those of its nearest ancestor with settings, and if there is no such
 * ancestor, the system's default holds.
 *
 * Programs with other rights than their caller's get the settings, too, so writing needs
 * CAP_SYS_NICE, also where "allow" lets users choose for their own processes.
 *
 * The file is in cgroup v2 alone. So with the memory controller in a hierarchy of v1, or
 * disabled, no cgroup has settings.
 */

#include <linux/capability.h>
#include <linux/cgroup.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/memcontrol.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "cgroup.h"
#include "platform.h"
#include "settings.h"
#include "switch.h"

#define INHERIT	"inherit"

/* Has any cgroup ever had settings? If not, an execve() need not look. */
static bool given __read_mostly;

/**
 * hydra_cgroup_word - the settings that a process gets from its cgroup
 * @tsk: a task of the process, or NULL
 *
 * Context: any but NMI.
 * Return: the word of the settings, with SETTINGS_GIVEN; 0 if neither the cgroup nor an
 * ancestor has settings.
 */
u32 hydra_cgroup_word(struct task_struct *tsk)
{
	struct mem_cgroup *memcg;
	u32 word = 0;

	if (!READ_ONCE(given))
		return 0;
	guard(rcu)();
	for (memcg = mem_cgroup_from_task(tsk); memcg && !word; memcg = parent_mem_cgroup(memcg))
		word = READ_ONCE(memcg->hydra_settings);
	return word;
}

/**
 * hydra_cgroup_says - what does its cgroup say now about an address space?
 * @mm: the address space
 * @settings: set to the settings of the cgroup, or of its nearest ancestor with settings
 *
 * The process may have come to another cgroup since execve(), or the settings of the cgroup
 * have changed.
 *
 * Context: any but NMI.
 * Return: false, with nothing set, if neither the cgroup nor an ancestor has settings, or if
 * those of the address space were chosen.
 */
bool hydra_cgroup_says(struct mm_struct *mm, union hydra_choice *settings)
{
	u32 word;

	if (READ_ONCE(mm->hydra_settings) & SETTINGS_CHOSEN)
		return false;
	guard(rcu)();
	word = hydra_cgroup_word(rcu_dereference(mm->owner));
	if (word)
		*settings = hydra_choice_in(word);
	return word;
}

static int hydra_group_show(struct seq_file *m, void *v)
{
	u32 word = READ_ONCE(mem_cgroup_from_seq(m)->hydra_settings);
	char text[HYDRA_TEXT_MAX] = INHERIT;

	if (word)
		hydra_settings_format(text, sizeof(text), hydra_choice_in(word));
	seq_printf(m, "%s\n", text);
	return 0;
}

static ssize_t hydra_group_write(struct kernfs_open_file *of, char *buf, size_t count, loff_t off)
{
	struct mem_cgroup *memcg = mem_cgroup_from_css(of_css(of));
	static DEFINE_MUTEX(lock);
	union hydra_choice settings;
	u32 word = 0;
	int ret;

	if (!hydra_may_choose(of->file) || !capable(CAP_SYS_NICE) ||
	    !file_ns_capable(of->file, &init_user_ns, CAP_SYS_NICE))
		return -EPERM;
	guard(mutex)(&lock);
	if (!sysfs_streq(buf, INHERIT)) {
		settings = hydra_choice_in(memcg->hydra_settings);
		ret = hydra_settings_parse(buf, &settings);
		if (ret)
			return ret;
		if (hydra_wants_domains(settings))
			hydra_watch();
		word = settings.word | SETTINGS_GIVEN;
		WRITE_ONCE(given, true);
	}
	WRITE_ONCE(memcg->hydra_settings, word);
	return count;
}

static struct cftype hydra_group_files[] = {
	{
		.name = "hydra",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = hydra_group_show,
		.write = hydra_group_write,
	},
	{ }
};

static int __init hydra_cgroup_init(void)
{
	if (hydra_refused_by_machine())
		return 0;
	return cgroup_add_dfl_cftypes(&memory_cgrp_subsys, hydra_group_files);
}
late_initcall(hydra_cgroup_init);
